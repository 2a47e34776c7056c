"""Layout of a checkpoint folder, described in docs/checkpoint.md.

``headrace.json``      layout version, name of the pipeline, id by which tables mark its batches, whether epochs.json must exist
``run.json``           host, process and start of the active run
``epochs.json``        the epochs that were raised
``orders.json``        what orders the changes of each topic
``masks.json``         the masked columns: digest of the rule, first masked batch
``stream/``            Spark's own checkpoint of a native source; ``offset_overrides/``: batch ends that differ from Spark's plan;
                       ``offset_starts/``: oldest offsets of the new partitions of a batch;
                       ``topic_ids/``, ``recreated_topics/``: ids of the topics that were read
``ranged/``            offsets/ and commits/ of a ranged source
``schemas/``           schema of each topic
``column_schemas/``    inferred type of each column that a transform reads, by table
``progress/``          progress of the last batches
``deleted/``           keys of deleted rows, by table
``key_changes/``       values carried to changed primary keys, by table
``hidden_changes/``    changes that no version of a history shows, by table
``sources/``           topics, servers and source tables whose rows each table contains
``truncate_markers/``  position of the last truncate or resync of each table, by source
``snapshots/``         start of each table's newest snapshot
``table_modes/``       mode in which each table was created
``table_types/``       types that decide which records of each table are rejected
``views/``             changes of tables that views have not applied yet, and the state of each view
``backlog/``           batches that failed tables still need
``dead_letters/``      records that could not become a change or a row
``replay/``            dead letters that are being replayed
``audit/``             commands that somebody ran by hand
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from headrace.checkpoint.epochs import FILE as EPOCHS, Epochs
from headrace.checkpoint.orders import Orders
from headrace.checkpoint.progress_log import ProgressLog
from headrace.checkpoint.source_tables import SourceTables
from headrace.errors import ConfigError, HeadraceError
from headrace.sdk.schema_log import SchemaLog
from headrace.spark.error_text import first_line
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.sdk.file_system import TextFolder

#: Version of the layout. A checkpoint of another version is refused.
LAYOUT = 2
HEADER = "headrace.json"
#: Folders of the batches that a run has planned, of native and of ranged sources.
STREAM, RANGED = "stream", "ranged"
#: Folders that are also read without Spark.
PROGRESS, BACKLOG, AUDIT = "progress", "backlog", "audit"
#: Files of an unfinished write, checksums, and files of a desktop.
_TEMPORARY = re.compile(r"\.(.+\.[0-9a-f-]{32,36}\.tmp|.+\.crc|DS_Store)")


class CheckpointFolders:
    """Folders of a checkpoint. Creates none of them."""

    def __init__(self, root: Folder) -> None:
        self.folder = root

    @cached_property
    def stream(self) -> Folder:
        """Spark's own checkpoint of a native source."""
        return self.folder.folder(STREAM)

    @cached_property
    def range_log(self) -> Folder:
        """Offset log of a ranged source."""
        return self.folder.folder(RANGED)

    @cached_property
    def topic_schemas(self) -> Folder:
        """Schemas of the topics."""
        return self.folder.folder("schemas")

    @cached_property
    def column_schemas(self) -> Folder:
        """Types that transforms inferred from values, by table and column."""
        return self.folder.folder("column_schemas")

    @cached_property
    def batch_progress(self) -> Folder:
        """Progress of the last batches."""
        return self.folder.folder(PROGRESS)

    @cached_property
    def snapshots(self) -> Folder:
        """Newest snapshot of each table."""
        return self.folder.folder("snapshots")

    @cached_property
    def table_sources(self) -> Folder:
        """Sources of each table."""
        return self.folder.folder("sources")

    @cached_property
    def truncate_markers(self) -> Folder:
        """Positions of the last truncates of each table, by source."""
        return self.folder.folder("truncate_markers")

    @cached_property
    def table_modes(self) -> Folder:
        """Mode of each table, as JSON files."""
        return self.folder.folder("table_modes")

    @cached_property
    def table_types(self) -> Folder:
        """Types that decide which records of each table are rejected, as JSON files."""
        return self.folder.folder("table_types")

    @cached_property
    def deleted_keys(self) -> Folder:
        """Keys of deleted rows, a folder per table."""
        return self.folder.folder("deleted")

    @cached_property
    def key_changes(self) -> Folder:
        """Values carried to changed primary keys, a folder per table."""
        return self.folder.folder("key_changes")

    @cached_property
    def hidden_changes(self) -> Folder:
        """Changes that no version of a history shows, a folder per table."""
        return self.folder.folder("hidden_changes")

    @cached_property
    def backlog(self) -> Folder:
        """Batches that failed tables still need, a folder per table."""
        return self.folder.folder(BACKLOG)

    @cached_property
    def views(self) -> Folder:
        """State of the views, and changes that they have not applied yet."""
        return self.folder.folder("views")

    @cached_property
    def dead_letters(self) -> Folder:
        """Dead letters that are kept in files."""
        return self.folder.folder("dead_letters")

    @cached_property
    def replay(self) -> Folder:
        """Dead letters that are being replayed."""
        return self.folder.folder("replay")

    @cached_property
    def audit(self) -> Folder:
        """Commands that somebody ran by hand, a file each."""
        return self.folder.folder(AUDIT)

    @property
    def next_batch(self) -> int:
        """The first batch that is not planned yet."""
        planned = [name for log in (self.stream, self.range_log) for name in log.folder("offsets").names()]
        return max((int(name) + 1 for name in planned if name.isdigit()), default=0)


def table_folder(parent: Folder, table: str) -> Folder:
    """Return the folder of one table in a folder that has one per table."""
    return parent.folder(quote(table, safe=""))


def list_tables(parent: TextFolder) -> list[str]:
    """Return the tables that have a folder or file in a folder with one per table. Names of tables may start with ``_`` or ``.``."""
    return [unquote(name) for name in parent.names(hidden=True) if not _TEMPORARY.fullmatch(name)]


def read_header(folder: TextFolder, where: str, pipeline: str) -> dict[str, Any] | None:
    """Return the header of a pipeline's checkpoint; None when there is none.

    ConfigError for a damaged or lost header, another layout, and the checkpoint of another pipeline.
    """
    text = folder.read(HEADER)
    if text is None:
        if not {STREAM, RANGED}.isdisjoint(folder.names()):
            # A new id would not match the marks of batches in the tables, and a repeated batch would be applied twice.
            raise ConfigError(f"{HEADER} is missing", where=where, fix="restore it, or use a new checkpoint folder")
        return None
    header = _parse_header(text, where)
    if header["pipeline"] != pipeline:
        raise ConfigError(
            f"belongs to the pipeline {header['pipeline']!r}, not to {pipeline!r}",
            where=where,
            fix="give every pipeline its own checkpoint",
        )
    return header


def _parse_header(text: str, where: str) -> dict[str, Any]:
    try:
        header: dict[str, Any] = json.loads(text)
        layout = header.get("layout")
        is_complete = layout != LAYOUT or {"pipeline", "id"} <= header.keys()
    except (ValueError, AttributeError):
        is_complete = False
    if not is_complete:
        raise ConfigError(f"{HEADER} is damaged", where=where, fix="restore it, or use a new checkpoint folder")
    if layout != LAYOUT:
        raise ConfigError(
            f"the checkpoint has layout {layout!r}; this version of headrace reads layout {LAYOUT} only",
            where=where,
            fix="run the headrace version that wrote it, or use a new checkpoint folder: then all events are read again",
        )
    return header


class Checkpoint(CheckpointFolders):
    """Checkpoint of a pipeline, created where it does not exist."""

    def __init__(
        self, spark: SparkSession, path: str, pipeline: str, schemas: Callable[[Folder], SchemaLog] = SchemaLog
    ) -> None:
        """``schemas`` opens the schema log in its folder."""
        super().__init__(Folder(spark, path))
        self.id = self._open(pipeline)
        self.schemas = schemas(self.topic_schemas)
        self.inferred_columns = SchemaLog(self.column_schemas)
        self.progress = ProgressLog(self.batch_progress)
        self.epochs = Epochs(self.folder)
        self.orders = Orders(self.folder)
        self.source_tables = SourceTables(self.topic_schemas)

    def _open(self, pipeline: str) -> str:
        where = f"checkpoint {self.folder.path}"
        try:
            header = read_header(self.folder, where, pipeline)
            if header is None:
                self.folder.make_private()
                header = {"layout": LAYOUT, "pipeline": pipeline, "id": uuid.uuid4().hex}
            self._require_epochs(header, where)
        except HeadraceError:
            raise
        except Exception as error:
            raise ConfigError(
                f"cannot be used: {first_line(error)}", where=where, fix="check the path and its permissions"
            ) from error
        return str(header["id"])

    def _require_epochs(self, header: dict[str, Any], where: str) -> None:
        """Raise ConfigError if epochs.json is missing: in a lower epoch, all changes would lose against the stored rows."""
        if not header.get("epochs"):  # a new checkpoint, or one of an older version
            self.folder.create(EPOCHS, "[]")
            self.folder.write(HEADER, json.dumps({**header, "epochs": True}))
        elif self.folder.read(EPOCHS) is None:
            raise ConfigError(f"{EPOCHS} is missing", where=where, fix="restore it, or use a new checkpoint folder")
