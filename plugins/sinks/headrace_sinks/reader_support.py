"""Query engines that read tables (``readers:``): which features and column names each of them supports."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError
from headrace.sdk.options import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_FACTS = Path(__file__).with_name("readers.toml")


class Reads(StrEnum):
    """Behavior of an engine that finds a feature in a table."""

    YES = "reads"
    #: A query fails.
    REFUSES = "refuses"
    #: A query succeeds and returns deleted or old rows.
    IGNORES = "ignores"
    #: A query fails or returns wrong rows; the source does not say which.
    NO = "does not read"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Source:
    """Source of a fact: a web page or a test, with the day of the page or the day on which it was read or tested."""

    where: str
    date: str

    def __str__(self) -> str:
        return f"[{self.date}]({self.where})" if self.where.startswith("https://") else f"{self.where}, {self.date}"


@dataclass(frozen=True)
class Support:
    """Support of an engine for a feature, with the source of the fact."""

    reads: Reads = Reads.UNKNOWN
    source: Source | None = None
    note: str = ""

    @property
    def is_incompatible(self) -> bool:
        """Whether the engine is known not to return the right rows."""
        return self.reads not in (Reads.YES, Reads.UNKNOWN)


@dataclass(frozen=True)
class NameRule:
    """Rule for the column names that an engine supports."""

    pattern: re.Pattern[str]
    sentence: str
    source: Source | None


@cache
def load_facts() -> Mapping[str, Any]:
    """Load ``readers.toml``."""
    return tomllib.loads(_FACTS.read_text(encoding="utf-8"))


def read_source(name: str | None) -> Source | None:
    """Return a source by its name in ``readers.toml``; None without a name."""
    return None if name is None else Source(**load_facts()["sources"][name])


def read_support(fact: Mapping[str, str] | None) -> Support:
    """Build the support for a feature from its entry in ``readers.toml``; without an entry it is unknown."""
    return (
        Support() if fact is None else Support(Reads(fact["reads"]), read_source(fact["source"]), fact.get("note", ""))
    )


@cache
def load_name_rules() -> Mapping[str, NameRule]:
    """Load the naming rules by engine. Other engines support names in any case and with any characters."""
    return {
        engine: NameRule(re.compile(rule["pattern"]), rule["sentence"], read_source(rule["source"]))
        for engine, rule in load_facts()["names"].items()
    }


def check_readers(
    readers: Iterable[str], known: Collection[str], table_format: str, option: str = "table.type"
) -> None:
    """Raise ValueError for a reader that headrace does not know. ``option``: the one that chooses what readers must support."""
    for reader in readers:
        if reader not in known:
            raise ValueError(
                f"unknown reader {reader!r} of {table_format} tables",
                f"{did_you_mean(reader, known)}; for another engine, leave it out and set a `{option}` that the engine supports",
            )


def check_reader_names(readers: Iterable[str], names: Iterable[str], table: str) -> None:
    """Raise DataError for a column name that one of the readers does not support."""
    readers = tuple(readers)
    if not readers:
        return
    rules = {reader: rule for reader, rule in load_name_rules().items() if reader in readers}
    for name in names:
        for reader, rule in rules.items():
            if not rule.pattern.fullmatch(name):
                raise DataError(
                    f"{reader} does not support the column name {name!r}: a name consists of {rule.sentence}",
                    where=f"table {table}",
                    fix=f"rename the column with `rename` under `transforms:`, or remove {reader} from `readers`",
                )


def list_names(data_type: DataType) -> Iterator[str]:
    """List the names of all fields of a type, nested fields included."""
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        for field in data_type:
            yield field.name
            yield from list_names(field.dataType)
    elif isinstance(data_type, T.ArrayType):
        yield from list_names(data_type.elementType)
    elif isinstance(data_type, T.MapType):
        yield from list_names(data_type.keyType)
        yield from list_names(data_type.valueType)


def incompatible_readers(facts: Mapping[str, Support]) -> list[str]:
    """List the readers that are known not to return the right rows."""
    return [reader for reader, fact in facts.items() if fact.is_incompatible]


def unknown_readers(facts: Mapping[str, Support]) -> list[str]:
    """List the readers whose support is not known."""
    return [reader for reader, fact in facts.items() if fact.reads is Reads.UNKNOWN]


def all_read(facts: Mapping[str, Support]) -> bool:
    """Return whether all readers are known to return the right rows."""
    return all(fact.reads is Reads.YES for fact in facts.values())


def describe(facts: Mapping[str, Support], feature: str) -> str:
    """Describe the incompatible readers: ``databricks ignores position deletes``."""
    return join_names([f"{reader} {facts[reader].reads} {feature}" for reader in incompatible_readers(facts)])


def join_names(names: Iterable[str]) -> str:
    """Join names or clauses with ``and``."""
    return " and ".join(names)
