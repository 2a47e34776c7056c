"""Catalog as a folder with a JSON file for each table: the location of its files and its columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.sdk import Catalog, Config, hookimpl

if TYPE_CHECKING:
    from headrace.sdk import CatalogTable, Partitions


class ExampleConfig(Config):
    """Location of the catalog."""

    path: str
    """A folder to which the driver can write."""


class Example(Catalog):
    """``sync: {example: {path: /catalog}}``, in the block of a sink whose tables are files."""

    name = "example"
    api_version = 1
    Config = ExampleConfig
    config: ExampleConfig

    def register(
        self,
        name: str,
        describe: Callable[[], CatalogTable],
        written: Partitions,
        list_partitions: Callable[[], Partitions],
    ) -> None:
        file = Path(self.config.path, f"{name}.json")
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        table = describe()  # called after the file was read: the slower of two writers has the newer table
        columns = {field.name: field.dataType.simpleString() for field in table.schema}
        about = {"location": table.location, "provider": table.storage.provider, "columns": columns}
        text = json.dumps({**about, "partition_by": list(table.partition_by)}, indent=2)
        if text != before:
            file.parent.mkdir(parents=True, exist_ok=True)
            new = file.with_suffix(".new")
            new.write_text(text, encoding="utf-8")
            new.rename(file)  # readers see the old file or the new one, never a partial one


@hookimpl
def headrace_catalogs() -> dict[str, type[Catalog]]:
    """Return the catalogs by the name used under ``sync:``."""
    return {"example": Example}
