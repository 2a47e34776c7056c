"""Authentication with a user and a password (SCRAM)."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import SecretStr

from headrace.sdk import AuthProvider, Config, hookimpl
from headrace.sdk.options import jaas_config


class ExampleConfig(Config):
    """Credentials for the broker."""

    username: str
    """Name of the user."""

    password: SecretStr
    """Password of the user."""


class Example(AuthProvider):
    """``auth: {example: {username: orders, password: "${env:PASSWORD}"}}``, in the source's block."""

    name = "example"
    api_version = 1
    Config = ExampleConfig
    config: ExampleConfig

    def client_options(self, servers: str) -> Mapping[str, str]:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        user, password = self.config.username, self.config.password.get_secret_value()
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": jaas_config(module, username=user, password=password),
        }


@hookimpl
def headrace_auth_providers() -> dict[str, type[AuthProvider]]:
    """Return the auth providers by the name used under ``auth:``."""
    return {"example": Example}
