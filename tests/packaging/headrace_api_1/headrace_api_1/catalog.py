"""A folder with a JSON file for each table, which says where its files are and what is in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.sdk import Catalog, Config

if TYPE_CHECKING:
    from headrace.sdk import CatalogTable, Partitions


class OldFilesConfig(Config):
    """Where the catalog is."""

    path: str
    """A folder that the driver can write."""


class OldFiles(Catalog):
    """``sync: {old_files: {path: /catalog}}``, in the block of a sink whose tables are files."""

    name = "old_files"
    api_version = 1
    Config = OldFilesConfig
    config: OldFilesConfig

    def register(
        self,
        name: str,
        describe: Callable[[], CatalogTable],
        written: Partitions,
        list_partitions: Callable[[], Partitions],
    ) -> None:
        file = Path(self.config.path, f"{name}.json")
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        table = describe()  # after the look at what is there: of two writers the slower knows more
        columns = {field.name: field.dataType.simpleString() for field in table.schema}
        about = {"location": table.location, "provider": table.storage.provider, "columns": columns}
        text = json.dumps({**about, "partition_by": list(table.partition_by)}, indent=2)
        if text != before:
            file.parent.mkdir(parents=True, exist_ok=True)
            new = file.with_suffix(".new")
            new.write_text(text, encoding="utf-8")
            new.rename(file)  # readers find the old one or the new one, and no half
