"""Login of requests."""

from __future__ import annotations

import hmac
from base64 import b64encode

from headrace_serve.serve_config import ServeConfig


class Login:
    """Check of the header ``Authorization``, in constant time."""

    def __init__(self, config: ServeConfig) -> None:
        self._accepted: list[bytes] = []
        #: Value of the header WWW-Authenticate of a refusal.
        self.challenge = 'Basic realm="headrace", charset="UTF-8"' if config.password else 'Bearer realm="headrace"'
        if config.token:
            self._accepted.append(b"bearer " + config.token.get_secret_value().encode())
        if config.password:
            login = f"{config.username}:{config.password.get_secret_value()}".encode()
            self._accepted.append(b"basic " + b64encode(login))

    @property
    def is_required(self) -> bool:
        """Whether requests need a login."""
        return bool(self._accepted)

    def accepts(self, header: str | None) -> bool:
        """Return whether a request may see the run."""
        scheme, _, value = (header or "").partition(" ")
        given = f"{scheme.lower()} {value.strip()}".encode("utf-8", "surrogateescape")
        # Each is compared, so that the time does not depend on the kind of login.
        found = [hmac.compare_digest(given, one) for one in self._accepted]
        return any(found) or not self._accepted
