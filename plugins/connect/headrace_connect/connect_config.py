"""The block ``connect:`` of the pipeline file."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, WithJsonSchema, field_validator

from headrace.sdk import Config
from headrace.sdk.options import option_text

_ADDRESS = r"^https?://[^/?#\s]+(/[^?#\s]*)?$"
#: Key of the connector's configuration. Kafka Connect resolves its references.
CONFIG_KEY = "config"


def _check_address(address: str) -> str:
    try:
        is_address = re.fullmatch(_ADDRESS, address) is not None and (urlsplit(address).port or 0) >= 0
    except ValueError:  # brackets or a port that no address has
        is_address = False
    if not is_address:  # The message does not repeat the address, which may contain a login.
        raise ValueError("it is not an address: write `http://HOST:8083` or `https://HOST`")
    if "@" in address:
        raise ValueError("the address contains a login: write `basic.auth.user.info: USER:PASSWORD` next to `url:`")
    return address.rstrip("/")


class ConnectConfig(Config):
    """Connector that captures the changes, for ``headrace connect``. A run ignores the block."""

    url: Annotated[str, AfterValidator(_check_address), WithJsonSchema({"type": "string", "pattern": _ADDRESS})] = (
        "http://localhost:8083"
    )
    """Address of Kafka Connect's REST API."""

    name: str | None = Field(default=None, min_length=1)
    """Name of the connector. Default: the name of the pipeline."""

    basic_auth_user_info: SecretStr | None = Field(default=None, alias="basic.auth.user.info")
    """``user:password`` for Kafka Connect."""

    ssl_ca_location: str | None = Field(default=None, alias="ssl.ca.location")
    """PEM file with the certificate of the authority that signed Kafka Connect's certificate."""

    config: dict[str, Any]
    """Configuration of the connector, under Kafka Connect's and Debezium's own option names. References such as ``${file:…}`` are sent as they
    are written: the worker's config providers resolve them. An empty value removes a default of headrace.
    """

    preflight: dict[str, Any] = Field(default_factory=dict)
    """Options of ``config`` that differ for ``headrace check --source``, which connects to the database from this machine, such as
    ``database.password: ${env:NAME}``.
    """

    msk: dict[str, Any] = Field(default_factory=dict)
    """Parameters of Amazon MSK Connect's ``CreateConnector`` under their own names (``capacity``, ``kafkaCluster``, ``plugins`` …), and
    ``region``, for ``headrace connect deploy --target msk-connect``.
    """

    @field_validator("config")
    @classmethod
    def _check_class(cls, value: dict[str, Any]) -> dict[str, Any]:
        if not value.get("connector.class"):
            raise ValueError("needs `connector.class`, such as io.debezium.connector.postgresql.PostgresConnector")
        if nested := [key for key, item in value.items() if isinstance(item, dict)]:
            raise ValueError(f"{nested[0]!r} is a mapping: write each option in one line, `{nested[0]}.OPTION: VALUE`")
        return value

    def connector_options(self) -> dict[str, str | None]:
        """Return the options of the connector as strings; None for one without a value."""
        return _as_texts(self.config)

    def preflight_options(self) -> dict[str, str | None]:
        """Return the options for the connection of the preflight."""
        return _as_texts(self.preflight)


def _as_texts(options: dict[str, Any]) -> dict[str, str | None]:
    return {key: None if value is None else option_text(value) for key, value in options.items()}
