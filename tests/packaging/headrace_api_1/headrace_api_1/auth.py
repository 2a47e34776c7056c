"""A login with a user and a password (SCRAM)."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import SecretStr

from headrace.sdk import AuthProvider, Config
from headrace.sdk.options import jaas_config


class OldScramConfig(Config):
    """A login of the broker's."""

    username: str
    """The name of the user."""

    password: SecretStr
    """The user's password."""


class OldScram(AuthProvider):
    """``auth: {old_scram: {username: orders, password: "${env:PASSWORD}"}}``, in the source's block."""

    name = "old_scram"
    api_version = 1
    Config = OldScramConfig
    config: OldScramConfig

    def client_options(self, servers: str) -> Mapping[str, str]:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        user, password = self.config.username, self.config.password.get_secret_value()
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": jaas_config(module, username=user, password=password),
        }
