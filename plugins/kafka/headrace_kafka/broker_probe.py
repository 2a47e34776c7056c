"""Connections to brokers without Kafka's client, which needs a JVM."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

from headrace.sdk import RetriableError
from headrace.sdk.findings import Finding, FindingKind, Severity

BROKER_UNREACHABLE = FindingKind(
    "broker-unreachable", Severity.WARNING, "One of several bootstrap brokers does not accept connections."
)
#: Seconds for each broker.
_TIMEOUT = 5.0
_BROKER = re.compile(r"(?:[A-Za-z_]+://)?\[?(?P<host>[^\[\]]+)\]?:(?P<port>\d{1,5})")
_FIX = "check that it runs, `bootstrap.servers`, and the network between it and this machine"


def find_unreachable(servers: str) -> Iterator[Finding]:
    """Yield the bootstrap brokers that do not accept connections. RetriableError if none does."""
    names = [name.strip() for name in servers.split(",") if name.strip()]
    problems = {name: problem for name in names if (problem := _try(name))}
    if len(problems) == len(names):
        texts = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        raise RetriableError(f"no broker accepts a connection: {texts}", fix=_FIX.replace(" it ", " Kafka ", 1))
    for name, problem in problems.items():
        yield Finding(BROKER_UNREACHABLE, f"the broker does not accept a connection: {problem}", name, _FIX)


def _try(name: str) -> str | None:
    """Return why a broker does not accept a connection; None if it does."""
    found = _BROKER.fullmatch(name)
    if found is None:
        return "it is not host:port"
    try:
        socket.create_connection((found["host"], int(found["port"])), _TIMEOUT).close()
    except (OSError, OverflowError) as error:
        return str(getattr(error, "strerror", None) or error)
    return None
