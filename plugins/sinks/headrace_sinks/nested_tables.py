"""Tables in the folder of another table, which would take or delete their files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError
from headrace.sdk.error_text import full_text
from headrace.sdk.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    #: Whether the folder at a path has a table.
    Probe = Callable[[SparkSession, str], bool]

_DENIED = re.compile("AccessDenied|AccessControlException|Permission denied|Forbidden")


@dataclass(frozen=True)
class TableFolders:
    """Folders of the tables of a sink in a run. Threads may share it."""

    sink: str
    has_table: Probe
    #: Whether a folder has a table that does not allow tables in its folder.
    is_exclusive: Probe
    #: Ends of the errors: the effect of the outer table on the inner one.
    outer_effect: str
    inner_effect: str
    #: Folders around existing tables, known to have no exclusive table.
    _free: set[str] = field(default_factory=set)

    def check(self, spark: SparkSession, name: str, path: str, *, is_stored: bool, is_exclusive: bool) -> None:
        """Raise ConfigError for a table in the folder of an exclusive table, or for a new exclusive one around other tables.

        Two tables that are created at the same time do not find each other. Only an existing table therefore needs no further check.
        """
        outer = list(_list_ancestors(path))
        for folder in outer:
            if folder not in self._free and self._has_exclusive(spark, folder):
                raise self._explain(name, path, f"its folder is in that of the table at {folder}, {self.outer_effect}")
        if is_stored:
            self._free.update(outer)
        elif is_exclusive and (inner := next(self._find_tables(spark, Folder(spark, path)), None)) is not None:
            raise self._explain(name, path, f"its folder has that of the table at {inner}, {self.inner_effect}")

    def _has_exclusive(self, spark: SparkSession, folder: str) -> bool:
        from py4j.protocol import Py4JJavaError

        try:
            return self.is_exclusive(spark, folder)
        except Py4JJavaError as error:
            # The permissions of a pipeline may begin at the sink's own folder.
            if _DENIED.search(full_text(error)):
                return False
            raise

    def _find_tables(self, spark: SparkSession, folder: Folder) -> Iterator[str]:
        """Find the tables below a folder. A dot in a table's name separates two folders, so no folder has one."""
        for inner in (folder.folder(name) for name in folder.names() if "." not in name):
            if self.has_table(spark, inner.path):
                yield inner.path
            else:
                yield from self._find_tables(spark, inner)

    def _explain(self, name: str, path: str, problem: str) -> ConfigError:
        return ConfigError(
            problem,
            where=f"table {name}, sink {self.sink}, {path}",
            fix="give one of the two tables another `target:`, or the sink another folder",
        )


def _list_ancestors(path: str) -> Iterator[str]:
    """List the folders around a folder, the innermost first: of ``s3a://lake/shop/orders``, ``s3a://lake/shop`` and ``s3a://lake``."""
    root = re.match(r"(?:\w[\w+.-]*:)?(?://[^/]*)?", path)
    assert root is not None, "the pattern matches any text"
    names = path[root.end() :].strip("/").split("/")
    for count in range(len(names) - 1, 0, -1):
        yield f"{root[0]}/{'/'.join(names[:count])}"
    if "//" in root[0]:
        yield root[0]
