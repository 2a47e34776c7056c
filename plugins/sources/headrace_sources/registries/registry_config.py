"""Where a format finds its records' schemas: the options of a schema registry, and its clients."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from headrace.sdk import Config
from headrace_sources.registries.registry_client import SchemaRegistryClient


class RegistryConfig(Config):
    """Options of a schema registry."""

    registry: str | None = Field(default=None, pattern=r"^(https?://[^/?#]+|glue$)")
    """The schema registry: ``https://host`` (Confluent), ``…/apis/ccompat/v7``, ``…/apis/registry/v2` or ``v3`` (Apicurio),
    ``glue`` (AWS; Avro alone).
    """

    use_id: Literal["globalId", "contentId"] | None = Field(default=None, alias="use-id")
    """Which of Apicurio's ids a record has in front. Default: ``globalId`` at ``/apis/registry/v2``, else ``contentId``.
    """

    basic_auth_user_info: SecretStr | None = Field(default=None, alias="basic.auth.user.info")
    """``user:password`` for the registry."""

    bearer_auth_token: SecretStr | None = Field(default=None, alias="bearer.auth.token")
    """A bearer token for the registry."""

    ssl_ca_location: str | None = Field(default=None, alias="ssl.ca.location")
    """A PEM file of the authority that signed the registry's certificate."""

    ssl_certificate_location: str | None = Field(default=None, alias="ssl.certificate.location")
    """A PEM file of the certificate to show to the registry, and of its key where that is no file of its own."""

    ssl_key_location: str | None = Field(default=None, alias="ssl.key.location")
    """A PEM file of the key of that certificate."""

    @property
    def id_kind(self) -> str:
        """Which of Apicurio's ids stands in front of records, where its own interface is asked and that is said."""
        return (self.use_id or "") if "/apis/registry/" in (self.registry or "") else ""

    def client(self) -> SchemaRegistryClient:
        """For the registry at an address."""
        assert self.registry, "asked where there is one"
        login, token = self.basic_auth_user_info, self.bearer_auth_token
        return SchemaRegistryClient(
            self.registry,
            login=login.get_secret_value() if login else None,
            token=token.get_secret_value() if token else None,
            ca=self.ssl_ca_location,
            certificate=self.ssl_certificate_location,
            key=self.ssl_key_location,
        )
