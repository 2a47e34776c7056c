"""Options of a schema registry that formats of the sources and the sink ``kafka`` share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, SecretStr, WithJsonSchema

from headrace.sdk import Config
from headrace_kafka.registry_client import RegistryClient

#: Names of the registry's address in Kafka Connect and Confluent's clients.
_ADDRESS_OPTIONS = ("schema.registry.url", "schema.registry", "registry.url", "apicurio.registry.url")
_ADDRESS = r"^(https?://[^/?#]+|glue$)"
_ADDRESS_SCHEMA = {"type": "string", "pattern": _ADDRESS}


def _check_address(address: str) -> str:
    if not re.match(_ADDRESS, address):  # The message does not repeat the address, which may contain a login.
        raise ValueError(
            "it is not the address of a registry: write `https://HOST:PORT` or `http://HOST:PORT`, or `glue`"
        )
    if "@" in address:  # Python would take the login for the name of a host, and print it.
        raise ValueError(
            "the address contains a login: write `basic.auth.user.info: USER:PASSWORD` next to `registry:`"
        )
    return address


RegistryAddress = Annotated[str, AfterValidator(_check_address), WithJsonSchema(_ADDRESS_SCHEMA)]


class RegistryOptions(Config):
    """Address and authentication of a schema registry."""

    explained: ClassVar[Mapping[str, tuple[str, str]]] = {
        name: (f"the address of the registry is not `{name}`", "write `registry:`") for name in _ADDRESS_OPTIONS
    }

    registry: RegistryAddress | None = None
    """The schema registry: ``https://host``."""

    basic_auth_user_info: SecretStr | None = Field(default=None, alias="basic.auth.user.info")
    """``user:password`` for the registry."""

    bearer_auth_token: SecretStr | None = Field(default=None, alias="bearer.auth.token")
    """Bearer token for the registry."""

    ssl_ca_location: str | None = Field(default=None, alias="ssl.ca.location")
    """PEM file with the certificate of the authority that signed the registry's certificate."""

    ssl_certificate_location: str | None = Field(default=None, alias="ssl.certificate.location")
    """PEM file with the client certificate, and with its key if that has no file of its own."""

    ssl_key_location: str | None = Field(default=None, alias="ssl.key.location")
    """PEM file with the key of the client certificate."""

    def make_client(self) -> RegistryClient:
        """Return a client of the registry at the address of ``registry``. No request is sent."""
        assert self.registry, "the option is set"
        login, token = self.basic_auth_user_info, self.bearer_auth_token
        return RegistryClient(
            self.registry,
            login=login.get_secret_value() if login else None,
            token=token.get_secret_value() if token else None,
            ca=self.ssl_ca_location,
            certificate=self.ssl_certificate_location,
            key=self.ssl_key_location,
        )
