"""Options of connectors that have no meaning in a pipeline file."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from headrace_import.settings import Settings


def ignore_known_options(settings: Settings, *groups: str) -> None:
    """Report the remaining options: those of these groups with the reason, and the others as unknown."""
    known: list[str] = []
    for group in groups:
        for options, why in list_reasons(group):
            settings.ignore_matches(options, why)
            known += options
    settings.report_unknown([*known, *_HANDLED])


def list_reasons(group: str) -> list[tuple[list[str], str]]:
    """Return the options of a group, as globs, with the reason."""
    return [(entry["options"], entry["why"]) for entry in _read_groups()[group]]


@cache
def _read_groups() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))


#: Options that the modules of this package import, as suggestions for unknown names.
_HANDLED = (
    "connector.class", "topic.prefix", "database.server.name", "table.include.list", "table.exclude.list",
    "schema.include.list", "schema.exclude.list", "database.include.list", "database.exclude.list",
    "unavailable.value.placeholder", "key.converter", "value.converter", "transforms", "predicates", "topics", "topics.regex",
    "s3.bucket.name", "s3.region", "topics.dir", "format.class", "flush.size", "rotate.interval.ms",
    "rotate.schedule.interval.ms", "partitioner.class", "partition.field.name", "path.format", "locale", "timezone",
    "timestamp.extractor", "timestamp.field", "parquet.codec", "avro.codec", "behavior.on.null.values", "store.url",
    "iceberg.tables", "table.whitelist", "query", "bootstrap.servers",
)  # fmt: skip
