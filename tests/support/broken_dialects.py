"""Dialects that each break one requirement, and the kit test that must detect it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.kit_run import Broken, fails

from headrace.scaffold.templates.dialect import Example
from headrace.sdk import changes as C
from headrace.sdk.changes import Changes
from headrace.sdk.events import Events
from headrace.testing.dialects import DialectConformance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

BROKEN: Broken = {}


class Actions(Example):
    """Correct dialect of the template; the others change its result."""

    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        changes = super().changes(events, frame, key)
        return replace(changes, frame=self.change(changes.frame))

    def change(self, frame: DataFrame) -> DataFrame:
        return frame


class ActionsKit(DialectConformance):
    plugin_class = Actions
    schema = "action string, seq bigint, row struct<id int, name string>"
    history = (
        ({"action": "insert", "seq": 8, "row": {"id": 1, "name": "Arp"}}, "c", {"id": 1, "name": "Arp"}),
        ({"action": "insert", "seq": 9, "row": {"id": 2, "name": "Klee"}}, "c", {"id": 2, "name": "Klee"}),
        ({"action": "update", "seq": 10, "row": {"id": 1, "name": "Hans Arp"}}, "u", {"id": 1, "name": "Hans Arp"}),
        ({"action": "delete", "seq": 11, "row": {"id": 2, "name": "Klee"}}, "d", {"id": 2}),
    )
    malformed = ({"action": "vacuum", "seq": 12},)

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {}


CHANGES, ORDER = "test_events_become_changes", "test_positions_sort_in_commit_order"
DEAD, UNDECODED = "test_malformed_event_becomes_one_dead_letter", "test_undecodable_record_stays_a_dead_letter"
COLUMNS, READS = "test_changes_have_the_metadata_columns", "test_read_schema_contains_all_required_fields"


@fails(BROKEN, "test_dialect_matches_only_its_own_schema")
class MatchesEverySchema(Actions):
    @classmethod
    def matches(cls, schema: StructType) -> bool:
        return True


@fails(BROKEN, CHANGES)
class TreatsDeletesAsUpdates(Actions):
    def change(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.withColumn(C.DELETED, F.lit(False))


@fails(BROKEN, CHANGES)
class ReportsEveryChangeAsInsert(Actions):
    def change(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.withColumn(C.OP, F.lit("c"))


@fails(BROKEN, COLUMNS)
class DropsThePlaceColumn(Actions):
    def change(self, frame: DataFrame) -> DataFrame:
        return frame.drop(C.PLACE)


@fails(BROKEN, COLUMNS)
class UsesWrongKeyColumn(Actions):
    def change(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.withColumn(C.KEY, F.struct(F.col("name").alias("id")))


@fails(BROKEN, ORDER)
class SortsNumbersAsStrings(Actions):
    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        changes = super().changes(events, frame, key)
        numbers = frame.select(F.col("offset").alias(C.OFFSET), F.col("value.seq").cast("string").alias(C.POSITION))
        return replace(changes, frame=changes.frame.drop(C.POSITION).join(numbers, C.OFFSET))


@fails(BROKEN, ORDER)
class SortsByOffset(Actions):
    def change(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.withColumn(C.POSITION, F.col(C.PLACE))


@fails(BROKEN, ORDER)
class UsesOnePositionForAllChanges(Actions):
    def change(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.withColumn(C.POSITION, F.lit("0"))


@fails(BROKEN, DEAD)
class DropsMalformedEvents(Actions):
    def change(self, frame: DataFrame) -> DataFrame:
        return frame.where(f"{C.OP} IS NOT NULL OR {C.ERROR} = 'undecodable'")


@fails(BROKEN, DEAD)
class AcceptsMalformedEvents(Actions):
    def change(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        error = F.when(F.col(C.ERROR) == "undecodable", F.col(C.ERROR))
        return frame.withColumn(C.ERROR, error)


@fails(BROKEN, DEAD, UNDECODED)
class LosesTheRawBytes(Actions):
    def change(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.withColumn(C.RAW, F.lit(b""))


@fails(BROKEN, UNDECODED)
class DropsUndecodableRecords(Actions):
    def change(self, frame: DataFrame) -> DataFrame:
        return frame.where(f"NOT {C.ERROR} <=> 'undecodable'")


@fails(BROKEN, "test_tombstone_is_not_a_change")
class TurnsTombstonesIntoRows(Actions):
    def changes(self, events: Events, frame: DataFrame, key: Collection[str]) -> Changes:
        from pyspark.sql import functions as F

        is_bare = F.col("value").isNull() & F.col("error").isNull()
        marked = frame.withColumn("error", F.when(is_bare, "empty").otherwise(F.col("error")))
        return super().changes(events, marked, key)


@fails(BROKEN, READS)
class RequestsTooFewFields(Actions):
    def read_schema(self, schema: StructType, *, key: Collection[str], with_row_before: bool) -> StructType:
        from pyspark.sql.types import StructType

        row = StructType().add("id", "int")
        return StructType([schema["action"], schema["seq"]]).add("row", row)


@fails(BROKEN, "test_plan_runs_no_python")
class RunsPythonForEachEvent(Actions):
    def change(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.withColumn(C.ERROR, F.udf(lambda text: text)(C.ERROR))
