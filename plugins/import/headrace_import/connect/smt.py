"""One single message transform (SMT) of a connector, with its predicate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace_import.import_report import Kind
from headrace_import.pipeline_draft import Block
from headrace_import.settings import Settings

#: Options of transforms, sinks and sources that are numbers or booleans in a pipeline file.
_TYPED = frozenset(
    {
        "drop.fields.keep.schema.compatible",
        "drop.tombstones",
        "flush.size",
        "partition.duration.ms",
        "poll.interval.ms",
        "rotate.interval.ms",
        "rotate.schedule.interval.ms",
        "route.tombstone.on.empty.payload",
        "store.kafka.headers",
        "store.kafka.keys",
        "table.fields.additional.error.on.missing",
        "table.poll.interval.ms",
        "timestamp.delay.interval.ms",
        "validate.non.null",
    }
)


class NotImportableError(Exception):
    """An SMT or a predicate has no counterpart. ``fix``: the nearest transform; ``kind``: its section of the report."""

    def __init__(self, why: str, fix: str | None = None, kind: Kind = Kind.NOT_IMPORTED) -> None:
        super().__init__(why)
        self.why, self.fix, self.kind = why, fix, kind


@dataclass(frozen=True)
class Condition:
    """Predicate of an SMT. ``sql``: over a row; ``keys``: the options that give it.

    ``topics``: regular expression of the topics; ``header``: name of the record's header.
    """

    sql: str
    keys: Sequence[str]
    topics: str | None = None
    header: str | None = None


@dataclass(frozen=True)
class Smt:
    """SMT of a connector. ``prefix`` is the start of its options' names."""

    settings: Settings
    alias: str

    @property
    def prefix(self) -> str:
        return f"transforms.{self.alias}."

    @property
    def type_key(self) -> str:
        return f"{self.prefix}type"

    @property
    def class_name(self) -> str:
        """Class without package and without ``$Key`` or ``$Value``."""
        return self.settings.get(self.type_key).rpartition(".")[2].partition("$")[0]

    @property
    def is_builtin(self) -> bool:
        """Whether the class is one of Kafka Connect, Debezium, Confluent or Iceberg."""
        packages = (
            "org.apache.kafka.connect.transforms.",
            "io.debezium.transforms.",
            "io.debezium.connector.",
            "io.confluent.connect.transforms.",
            "io.tabular.iceberg.connect.transforms.",
            "org.apache.iceberg.connect.transforms.",
        )
        return self.settings.get(self.type_key).startswith(packages)

    @property
    def is_of_key(self) -> bool:
        return self.settings.get(self.type_key).endswith("$Key")

    def get(self, option: str, default: str = "") -> str:
        return self.settings.get(self.prefix + option, default)

    def read(self, option: str, *, of: str = "") -> str:
        """Return an option's value for the pipeline file. ``of``: name of the column that gets the value."""
        return self.settings.read(self.prefix + option, of=of)

    def list_items(self, option: str) -> list[str]:
        """Return the items of a list with commas."""
        return split_list(self.get(option))

    def cite(self, *options: str) -> str:
        return self.settings.cite(*(self.prefix + option for option in options))

    def list_keys(self) -> list[str]:
        """Return all options of the SMT."""
        return self.settings.list_keys(self.prefix)


@dataclass
class Imported:
    """Result of an SMT: steps under ``transforms:``, and parts of rules under ``tables:``."""

    steps: list[Block] = field(default_factory=list)
    rules: list[Block] = field(default_factory=list)
    key: Block | None = None
    #: Whether the steps get the condition of the SMT's predicate.
    takes_condition: bool = True


def make_step(smt: Smt, name: str) -> tuple[Block, Block]:
    """Return an item of ``transforms:`` and its options, with the type of the SMT as the origin."""
    options = Block(comment=smt.cite("type"))
    return Block({name: options}), options


def copy_options(smt: Smt, options: Block, *names: str) -> None:
    """Copy the options with the same names that the SMT has. Only an empty prefix differs from a missing option."""
    for name in names:
        has_prefix = name.endswith(".prefix") and smt.settings.has(smt.prefix + name)
        if smt.get(name) or has_prefix:
            options.add(name, typed(name, smt.read(name)), smt.cite(name))


def typed(name: str, text: str) -> str | int | bool:
    """Return an option's text as a YAML scalar: numbers and booleans without quotes, unless the option is a text."""
    if name not in _TYPED:
        return text
    if re.fullmatch(r"-?(0|[1-9]\d{0,17})", text):
        return int(text)
    return text.lower() == "true" if text.lower() in ("true", "false") else text


def split_list(text: str) -> list[str]:
    """Return the items of a list with commas."""
    return [item.strip() for item in text.split(",") if item.strip()]


def split_pairs(text: str) -> dict[str, str]:
    """Return ``a:b,c:d`` as a mapping; NotImportableError for an item without a colon."""
    pairs = {}
    for item in split_list(text):
        name, colon, value = item.rpartition(":")
        if not colon or not name.strip() or not value.strip():
            raise NotImportableError(f"an item of its list is not NAME:VALUE, but has {item.count(':')} colons")
        pairs[name.strip()] = value.strip()
    return pairs
