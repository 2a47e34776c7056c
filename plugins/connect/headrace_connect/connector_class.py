"""Classes of connectors and their aliases."""

from __future__ import annotations

from collections.abc import Iterable


def resolve_class(name: str, classes: Iterable[str]) -> str:
    """Return the class of an alias: Kafka Connect accepts ``PostgresConnector`` and ``Postgres``. Other names stay as they are."""
    for known in classes:
        simple = known.rpartition(".")[2]
        if name in (known, simple, simple.removesuffix("Connector")):
            return known
    return name


def is_same_class(one: str, other: str) -> bool:
    """Return whether two names are those of one class, of which one may be an alias."""
    return resolve_class(one, [other]) == other or resolve_class(other, [one]) == one
