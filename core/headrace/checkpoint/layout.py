"""The checkpoint folder. docs/checkpoint.md describes its layout.

``headrace.json``  layout version, the pipeline's name, the id by which batches are marked in tables
``epochs.json``    the epochs that were raised
``orders.json``    what the changes of each topic are ordered by
``masks.json``     which columns are masked, by a digest of the rule, and since which batch
``stream/``        Spark's own checkpoint of a native source; ``ahead/``: where batches end elsewhere than Spark planned
``ranged/``        offsets/ and commits/ of a ranged source
``schemas/``       the schema of each topic
``progress/``      the last batches
``deleted/``       the keys of deleted rows, by table
``moved/``         values on their way to rows' new primary keys, by table
``truncated/``     the position of each table's last truncate or resync
``snapshots/``     where each table's newest snapshot began
``modes/``         in which mode each table was begun, where the pipeline file says none
``behind/``        the backlogs of tables that were set aside
``dead_letters/``  records that could not become a change or a row
``replay/``        those that are on their way through the pipeline again
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.checkpoint.epochs import Epochs
from headrace.checkpoint.orders import Orders
from headrace.checkpoint.progress_log import ProgressLog
from headrace.checkpoint.source_tables import SourceTables
from headrace.errors import ConfigError, HeadraceError
from headrace.sdk.schema_log import SchemaLog
from headrace.spark.error_text import first_line
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYOUT = 1
_HEAD = "headrace.json"


class Checkpoint:
    """A pipeline's checkpoint, made when it is not there."""

    def __init__(
        self, spark: SparkSession, path: str, pipeline: str, schemas: Callable[[Folder], SchemaLog] = SchemaLog
    ) -> None:
        """``schemas`` opens the log of schemas in its folder."""
        self.folder = Folder(spark, path)
        self.id = self._open(pipeline)
        self.schemas = schemas(self.folder.folder("schemas"))
        self.progress = ProgressLog(self.folder.folder("progress"))
        self.epochs = Epochs(self.folder)
        self.orders = Orders(self.folder)
        self.source_tables = SourceTables(self.folder.folder("schemas"))

    @property
    def stream(self) -> Folder:
        return self.folder.folder("stream")

    @property
    def next_batch(self) -> int:
        """The first batch that was not planned yet."""
        return next_batch(self.folder)

    @property
    def dead_letters(self) -> Folder:
        return self.folder.folder("dead_letters")

    def _open(self, pipeline: str) -> str:
        path = self.folder.path
        try:
            text = self.folder.read(_HEAD)
            if text is None:
                self.folder.make_private()
                head = {"layout": LAYOUT, "pipeline": pipeline, "id": uuid.uuid4().hex}
                self.folder.write(_HEAD, json.dumps(head))
            else:
                head = json.loads(text)
        except HeadraceError:
            raise
        except ValueError:
            raise ConfigError(
                f"{_HEAD} is damaged", where=f"checkpoint {path}", fix="restore it, or use a new checkpoint folder"
            ) from None
        except Exception as error:
            raise ConfigError(
                f"cannot be used: {first_line(error)}",
                where=f"checkpoint {path}",
                fix="check the path and its permissions",
            ) from error
        if head.get("layout") != LAYOUT:
            raise ConfigError(
                f"has layout {head.get('layout')}, this headrace knows {LAYOUT}",
                where=f"checkpoint {path}",
                fix="use the headrace that wrote it, or a new checkpoint folder",
            )
        if head["pipeline"] != pipeline:
            raise ConfigError(
                f"belongs to the pipeline {head['pipeline']!r}, this one is {pipeline!r}",
                where=f"checkpoint {path}",
                fix="give every pipeline a checkpoint of its own",
            )
        return str(head["id"])


def next_batch(checkpoint: Folder) -> int:
    """The first batch that was not planned yet, in a folder that may be no checkpoint yet."""
    planned = [name for log in ("stream", "ranged") for name in checkpoint.folder(f"{log}/offsets").names()]
    return max((int(name) + 1 for name in planned if name.isdigit()), default=0)
