"""Receiver of e-mail."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate

from headrace.sdk import ConfigError, HeadraceError, RetriableError
from headrace_alerts.alert import Alert, describe_group
from headrace_alerts.receivers.receiver import Receiver

#: Port of SMTP with TLS from the first byte.
_TLS_PORT = 465
#: Name in Message-IDs, and of this machine in the greeting: a look-up of its own name could block.
_DOMAIN = "headrace.invalid"


class Email(Receiver):
    """Mail to one or several addresses. Mails about one trouble are one thread."""

    max_alerts = 50

    @property
    def place(self) -> str:
        return f"email {self.options.smarthost}"

    def send(self, alerts: Sequence[Alert]) -> None:
        try:
            with self._connect() as server:
                if self.options.require_tls and self.options.port != _TLS_PORT:
                    server.starttls(context=ssl.create_default_context())
                if self.options.auth_password:
                    server.login(self.options.auth_username, self.options.auth_password.get_secret_value())
                server.send_message(self._make_mail(alerts))
        except (OSError, smtplib.SMTPException) as error:
            raise _explain(error) from None

    def _connect(self) -> smtplib.SMTP:
        address, name = (self.options.host, self.options.port), "[127.0.0.1]"
        if self.options.port == _TLS_PORT:
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(*address, local_hostname=name, timeout=self.timeout, context=context)
        return smtplib.SMTP(*address, local_hostname=name, timeout=self.timeout)

    def _make_mail(self, alerts: Sequence[Alert]) -> EmailMessage:
        mail = EmailMessage()
        mail["Subject"] = " ".join(describe_group(alerts).split())
        mail["From"], mail["To"] = self.options.from_, ", ".join(self.options.to)
        mail["Date"] = formatdate()
        mail["References"] = " ".join(f"<{alert.fingerprint}@{_DOMAIN}>" for alert in alerts[:10])
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content("\n\n".join(alert.text for alert in alerts) + "\n", cte="base64")
        return mail


def _explain(error: Exception) -> HeadraceError:
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return ConfigError(
            f"the server rejects the login: {error.smtp_code}", fix="check `auth.username` and `auth.password`"
        )
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return ConfigError(
            f"the server does not support it: {error}", fix="check the port of `smarthost`, or `require.tls`"
        )
    if isinstance(error, ssl.SSLError):
        fix = "set the environment variable SSL_CERT_FILE to the certificates of its authority"
        return ConfigError(f"the TLS handshake failed: {error.reason}", fix=fix)
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        codes = ", ".join(f"{address}: {code}" for address, (code, _) in error.recipients.items())
        return ConfigError(f"the server rejects the recipients: {codes}", fix="check `to`")
    if isinstance(error, smtplib.SMTPResponseException):
        return RetriableError(f"the server answers {error.smtp_code}", fix="see its log")
    return RetriableError(f"no answer: {type(error).__name__}: {error}", fix="check `smarthost` and the network")
