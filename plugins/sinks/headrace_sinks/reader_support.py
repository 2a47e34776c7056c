"""Engines that read tables (``readers:``): what is known of each and from where, and which names of columns they take."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from headrace.sdk import DataError
from headrace.sdk.options import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


class Reads(StrEnum):
    """What an engine does with something that it finds in a table."""

    YES = "reads"
    #: A query fails.
    REFUSES = "refuses"
    #: A query succeeds and shows rows that are gone or old.
    IGNORES = "ignores"
    #: One of both.
    NO = "does not read"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Source:
    """Where something is known from: an address, or what was tried; and the day of the page, or on which it was read or tried."""

    where: str
    date: str

    def __str__(self) -> str:
        return f"[{self.date}]({self.where})" if self.where.startswith("https://") else f"{self.where}, {self.date}"


@dataclass(frozen=True)
class Support:
    """What an engine does with something, and where that is known from."""

    reads: Reads
    source: Source | None = None
    note: str = ""

    @property
    def is_contrary(self) -> bool:
        """Whether it is known that the engine does not show the right rows."""
        return self.reads not in (Reads.YES, Reads.UNKNOWN)


#: Nothing was found.
NOT_KNOWN = Support(Reads.UNKNOWN)


def yes(source: Source, note: str = "") -> Support:
    """That it reads it."""
    return Support(Reads.YES, source, note)


def trial(what: str) -> Source:
    """That it was tried on tables which these sinks wrote."""
    return Source(f"tried: {what}", "2026-11-25")


@dataclass(frozen=True)
class NameRule:
    """The names of columns that an engine takes."""

    pattern: re.Pattern[str]
    sentence: str
    source: Source


#: Of engines that are not here no rule is known to matter: names in other cases or with other characters come out as they are.
NAME_RULES = {
    "athena": NameRule(
        re.compile(r"\w{1,255}", re.ASCII),
        "letters of English, digits and `_`",
        Source(
            "https://github.com/awsdocs/amazon-athena-user-guide/blob/main/doc_source/tables-databases-columns-names.md",
            "2026-11-25",
        ),
    ),
    "bigquery": NameRule(
        re.compile(
            r"(?!_TABLE_|_FILE_|_PARTITION|_ROW_TIMESTAMP|__ROOT__|_COLIDENTIFIER)[a-z_][a-z0-9_]{0,299}", re.IGNORECASE
        ),
        "letters of English, digits and `_`, no digit first, and nothing that begins with _TABLE_, _FILE_, _PARTITION, "
        "_ROW_TIMESTAMP, __ROOT__ or _COLIDENTIFIER",
        Source("https://cloud.google.com/bigquery/docs/schemas#column_names", "2026-11-25"),
    ),
}


def check_readers(readers: Iterable[str], known: Collection[str], table_format: str) -> None:
    """ValueError for a reader of which nothing is known."""
    for reader in readers:
        if reader not in known:
            raise ValueError(
                f"nothing is known of {reader!r} and {table_format} tables; {did_you_mean(reader, known)}; for another engine leave "
                "it out, and choose what it reads by `table.type`"
            )


def check_reader_names(readers: Iterable[str], names: Iterable[str], table: str) -> None:
    """DataError for a column that one of the readers cannot have by its name."""
    rules = {reader: NAME_RULES[reader] for reader in readers if reader in NAME_RULES}
    for name in names:
        for reader, rule in rules.items():
            if not rule.pattern.fullmatch(name):
                raise DataError(
                    f"a column is called {name!r}, which {reader} cannot read: a name is {rule.sentence}",
                    where=f"table {table}",
                    fix=f"give it another name with `rename` under `transforms:`, or take {reader} out of `readers`",
                )


def list_names(data_type: DataType) -> Iterator[str]:
    """The names of all fields of a type, those inside of others too."""
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
    """The readers that are known not to show the right rows."""
    return [reader for reader, fact in facts.items() if fact.is_contrary]


def unknown(facts: Mapping[str, Support]) -> list[str]:
    """The readers of which it is not known whether they do."""
    return [reader for reader, fact in facts.items() if fact.reads is Reads.UNKNOWN]


def all_read(facts: Mapping[str, Support]) -> bool:
    """Whether all are known to show the right rows."""
    return all(fact.reads is Reads.YES for fact in facts.values())


def tell(facts: Mapping[str, Support], what: str) -> str:
    """Those that are known not to read it, as a sentence: ``databricks ignores position deletes``."""
    return join([f"{reader} {facts[reader].reads} {what}" for reader in incompatible_readers(facts)])


def join(words: Iterable[str]) -> str:
    """Several of them in a sentence."""
    return " and ".join(words)
