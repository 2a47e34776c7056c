"""Auth providers: authentication of a source at its brokers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from headrace.sdk.plugin import Plugin
from headrace.sdk.plugin_block import plugin_validator


class AuthProvider(Plugin, ABC):
    """Auth provider of a source that reads from brokers: ``auth: {NAME: {…}}``. Its ``jars`` contain the classes that its options name."""

    #: Whether ``brokers`` returns the brokers, so that the source's block may omit them.
    finds_brokers: bool = False

    def brokers(self) -> str:
        """Return the brokers as ``host:port``, with commas. May send requests; ConfigError if it finds none."""
        raise NotImplementedError(f"{type(self).__name__} has finds_brokers = True and no brokers()")

    @abstractmethod
    def client_options(self, servers: str) -> Mapping[str, str]:
        """Return options of the brokers' JVM clients, on driver and executors, by the clients' names: ``sasl.mechanism``.

        ConfigError for an invalid block; sends no request.
        """

    def java_properties(self, servers: str) -> Mapping[str, str]:
        """Return JVM properties (``-Dname=value``, no spaces) for settings that have no option.

        ``servers`` is empty if ``brokers`` returns the brokers, because no request is sent before the session starts.
        """
        return {}

    def token(self, servers: str) -> tuple[str, float]:
        """Return an OAUTHBEARER token and its expiry (seconds since 1970), for ``oauth_cb`` of Python clients."""
        raise NotImplementedError(f"{type(self).__name__} has no tokens")


def jaas_config(module: str, **options: str | None) -> str:
    """Return the value of ``sasl.jaas.config``: a login module and its options, escaped. Options that are None are omitted."""
    pairs = (f' {name}="{escape_jaas(value)}"' for name, value in options.items() if value is not None)
    return f"{module} required{''.join(pairs)};"


def escape_jaas(value: str, quote: str = '"') -> str:
    """Escape a string inside quotes for Java's StreamTokenizer, which parses the values of ``sasl.jaas.config``."""
    escaped = value.replace("\\", r"\\").replace(quote, f"\\{quote}")
    return "".join(c if c >= " " else f"\\{ord(c):03o}" for c in escaped)


#: Type of the option that holds an auth provider: ``auth: Auth = None``.
Auth = Annotated[
    AuthProvider | None,
    plugin_validator("auth", "auth provider"),
    Field(json_schema_extra={"x-plugin-block": "auth"}),
]
