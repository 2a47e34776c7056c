"""Kafka broker with a second listener for AWS_MSK_IAM and MSK's OAUTHBEARER."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace_stack.java_jar import JavaJar
from headrace_stack.servers import key_stores
from headrace_stack.servers.kafka import Kafka

JAR = JavaJar(Path(__file__).with_name("iam.jar"), "kafka")
_LISTENER = "listener.name.iam"


@dataclass(frozen=True)
class Key:
    """Access key of AWS. Temporary keys have a ``token`` and ``expires`` (seconds since the epoch)."""

    id: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    expires: float | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of the key for AWS clients."""
        variables = {"AWS_ACCESS_KEY_ID": self.id, "AWS_SECRET_ACCESS_KEY": self.secret}
        return {**variables, "AWS_SESSION_TOKEN": self.token} if self.token else variables


@dataclass(frozen=True)
class Iam:
    """Listener with SASL_SSL. ``ca`` is a PEM file."""

    bootstrap_servers: str
    ca: Path


class Msk(Kafka):
    """Kafka broker whose listener ``iam`` accepts signatures of keys from ``issue_key``.

    Like MSK, it sends a rejected client no reason; the reason is in its log. Authenticated clients can read all topics, unless
    ``config`` sets an authorizer. The principal is ``User:`` plus the name given to ``issue_key``.
    """

    name = "msk"

    def __init__(self, *, config: Mapping[str, str] | None = None) -> None:
        super().__init__(config=config)
        self._keys: dict[str, str] = {}

    @property
    def iam(self) -> Iam:
        return Iam(f"{self.host}:{self._sasl_port}", self.folder / "kafka.pem")

    def issue_key(self, principal: str = "headrace", *, seconds: float | None = None) -> Key:
        """Issue a key. ``seconds`` adds a session token with this lifetime; a negative value makes an expired key."""
        if seconds is None:
            key = Key(f"AKIA{secrets.token_hex(8).upper()}", secrets.token_urlsafe(30))
        else:
            expires = time.time() + seconds
            # Characters that a URL must escape.
            token = f"{secrets.token_urlsafe(90)}+/=="
            key = Key(f"ASIA{secrets.token_hex(8).upper()}", secrets.token_urlsafe(30), token, expires)
        end = "" if key.expires is None else str(int(key.expires * 1000))
        self._keys[key.id] = "\t".join([key.id, key.secret, key.token or "", end, principal])
        self._write_keys()
        return key

    def revoke_key(self, key: Key) -> None:
        """Revoke a key: the broker rejects its next login."""
        del self._keys[key.id]
        self._write_keys()

    def count_logins(self, mechanism: str, principal: str = "headrace") -> int:
        """Count accepted logins, including re-authentications of open connections."""
        return self.log.read_text(encoding="utf-8").count(f"headrace: {mechanism} accepted {principal}\n")

    def prepare(self) -> None:
        super().prepare()
        key_stores.make(self.folder, "kafka")
        self._write_keys()

    def classpath(self) -> Sequence[Path]:
        return [*super().classpath(), JAR.path]

    def _write_keys(self) -> None:
        """Write the keys atomically, because a login can read them at any time."""
        half = self._key_file.with_suffix(".half")
        half.write_text("".join(f"{line}\n" for line in self._keys.values()), encoding="utf-8")
        half.replace(self._key_file)

    @property
    def _key_file(self) -> Path:
        return self.folder / "keys.tsv"

    def _settings(self) -> dict[str, str]:
        settings = super()._settings()
        settings["listeners"] += f",IAM://{self.iam.bootstrap_servers}"
        settings["listener.security.protocol.map"] += ",IAM:SASL_SSL"
        oauth = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        keys = f'keys="{self._key_file}"'
        return {
            **settings,
            **self._key_store(),
            "security.providers": "headrace.msk.IamServer$Creator",
            f"{_LISTENER}.sasl.enabled.mechanisms": "AWS_MSK_IAM,OAUTHBEARER",
            f"{_LISTENER}.aws_msk_iam.sasl.jaas.config": f"headrace.msk.IamServer$Login required {keys};",
            f"{_LISTENER}.aws_msk_iam.sasl.server.callback.handler.class": "headrace.msk.IamServer$Handler",
            f"{_LISTENER}.oauthbearer.sasl.jaas.config": f'{oauth} required unsecuredLoginStringClaim_sub="broker" {keys};',
            f"{_LISTENER}.oauthbearer.sasl.server.callback.handler.class": "headrace.msk.TokenValidator",
        }
