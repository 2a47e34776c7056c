"""Auth providers: how a source logs in at the brokers of a log, and how its config names one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from headrace.sdk.plugin import Plugin
from headrace.sdk.plugin_block import nested_plugin


class AuthProvider(Plugin, ABC):
    """``auth: {NAME: {…}}`` of a source that reads from brokers. Its ``jars`` have the classes that its options name."""

    #: Whether ``brokers`` finds them, so that the source's block may leave them out.
    finds_brokers: bool = False

    def brokers(self) -> str:
        """``host:port``, with commas. May ask a service; ConfigError when there are none."""
        raise NotImplementedError(f"{type(self).__name__} has finds_brokers = True and no brokers()")

    @abstractmethod
    def client_options(self, servers: str) -> Mapping[str, str]:
        """Options of the brokers' clients in the JVM, on driver and executors, by the clients' names: ``sasl.mechanism``.

        ConfigError for what is wrong with the block; asks no service.
        """

    def java_properties(self, servers: str) -> Mapping[str, str]:
        """Properties of the JVMs (``-Dname=value``, no spaces), for what has no option.

        ``servers`` is empty where ``brokers`` finds them: no service is asked before there is a session.
        """
        return {}

    def token(self, servers: str) -> tuple[str, float]:
        """A token for SASL's OAUTHBEARER and when it ends (seconds since 1970): what ``oauth_cb`` of clients in Python returns."""
        raise NotImplementedError(f"{type(self).__name__} has no tokens")


def jaas_config(module: str, **options: str | None) -> str:
    """The value of ``sasl.jaas.config``: a login module and its options, whatever is in them; those that are None are left out."""
    given = (f" {name}={_quote(value)}" for name, value in options.items() if value is not None)
    return f"{module} required{''.join(given)};"


def _quote(value: str) -> str:
    """A text as the clients' parser of these values, Java's StreamTokenizer, reads it back."""
    escaped = value.replace("\\", r"\\").replace('"', r"\"")
    return '"' + "".join(c if c >= " " else f"\\{ord(c):03o}" for c in escaped) + '"'


#: The type of the field of a source's config that names one: ``auth: Auth = None``.
Auth = Annotated[
    AuthProvider | None,
    nested_plugin("auth", "auth provider"),
    Field(json_schema_extra={"x-plugin-block": "auth"}),
]
