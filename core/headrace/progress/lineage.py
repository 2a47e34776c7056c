"""Lineage of tables: the data that they are made of, and the columns from which each of their columns is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

#: Address of a folder: scheme, authority and path. Other paths are folders of this machine.
_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>.*)", re.IGNORECASE)
#: Schemes of file systems whose names have no leading slash.
_OBJECT_STORES = ("s3", "gs")


@dataclass(frozen=True)
class Dataset:
    """Place of data by the naming rules of OpenLineage: ``s3://lake`` and ``silver/shop/orders``."""

    namespace: str
    name: str

    @classmethod
    def of_folder(cls, *path: str) -> Self:
        """Return the dataset of a folder. ``path``: its address without a login, and the names of folders below."""
        folder = "/".join(part.strip("/") if number else part.rstrip("/") for number, part in enumerate(path))
        match = _ADDRESS.fullmatch(folder)
        if match is None or match["scheme"].lower() == "file":
            return cls("file", str(Path(match["path"] if match else folder).absolute()))
        # Hadoop's clients of the same store have schemes of their own.
        scheme = re.sub(r"^(s3)[an]$", r"\1", match["scheme"].lower())
        name = match["path"].strip("/") if scheme in _OBJECT_STORES else match["path"]
        return cls.of_server(scheme, match["authority"] or "", name or "/")

    @classmethod
    def of_server(cls, scheme: str, authority: str, name: str) -> Self:
        """Return the dataset of a server. A user and password in ``authority`` are left out, the name of a container is not."""
        user, _, host = authority.rpartition("@")
        return cls(f"{scheme}://{host if ':' in user else authority}", name)


@dataclass(frozen=True)
class ColumnSource:
    """Column of an input from which a column of a table is made."""

    #: Name of the input: a topic, or for a view a table.
    input: str
    column: str
    #: The value is computed or converted, not copied.
    is_changed: bool = False
    #: A transform hides the value, in all rows.
    is_masked: bool = False


@dataclass(frozen=True)
class LineageInput:
    """Input of a table. ``dataset``: None if it is unknown; ``types``: column → type in Spark SQL."""

    dataset: Dataset | None
    types: Mapping[str, str] = field(hash=False)
    #: Name of the sink from which a view reads the table.
    sink: str | None = None


@dataclass(frozen=True)
class TableLineage:
    """Lineage of a table. It has names and types, and no values."""

    table: str
    #: Topic, or for a view table, → input.
    inputs: Mapping[str, LineageInput] = field(hash=False)
    #: Name of a sink → its dataset; None if it is unknown.
    outputs: Mapping[str, Dataset | None] = field(hash=False)
    #: Column → type in Spark SQL.
    types: Mapping[str, str] = field(hash=False)
    #: Column → the columns from which it is made; empty for constants, and for columns of a transform that does not report them.
    sources: Mapping[str, frozenset[ColumnSource]] = field(hash=False)
    #: Columns that decide which rows the table has.
    filters: frozenset[ColumnSource] = frozenset()
    #: Query of a view.
    sql: str | None = None
