"""Transforms that each break one requirement, and the kit test that must detect it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from tests.support.kit_run import Broken, fails

from headrace.scaffold.templates.transform import Example, ExampleConfig
from headrace.sdk.changes import KEY, POSITION, Changes
from headrace.testing.transforms import TransformConformance

BROKEN: Broken = {}


class Trim(Example):
    """Correct transform of the template; the others derive from it."""

    def map(self, changes: Changes, function: Any) -> Changes:
        return changes.map_rows(values=dict.fromkeys(self.config.columns, function))


class TrimKit(TransformConformance):
    plugin_class = Trim
    schema = "id string, name string, born int, home struct<town: string>"
    golden = (
        ((" 1", " Arp ", 1886, {"town": "Strasbourg"}), ("1", "Arp", 1886, {"town": "Strasbourg"})),
        (("2 ", None, None, None), ("2", None, None, None)),
        (("3", "", 1879, {"town": None}), ("3", "", 1879, {"town": None})),
    )

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"columns": ["id", "name"]}


ROWS, IMAGES = "test_rows_become_the_golden_rows", "test_images_and_keys_are_transformed_like_rows"
COUNT, CASE = "test_rows_are_neither_lost_nor_duplicated", "test_column_names_are_case_insensitive"
METADATA, MISSING_IMAGE = "test_metadata_columns_are_preserved", "test_missing_image_stays_null"


@fails(BROKEN, ROWS, IMAGES, CASE)
class ConvertsToUpperCase(Trim):
    def apply(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        return self.map(changes, F.upper)


@fails(BROKEN, IMAGES)
class SkipsTheKey(Trim):
    def apply(self, changes: Changes) -> Changes:
        result = super().apply(changes)
        frame = changes.frame.select(KEY, POSITION)
        return replace(result, frame=result.frame.drop(KEY).join(frame, POSITION))


@fails(BROKEN, IMAGES)
class SkipsTheBeforeImage(Trim):
    def apply(self, changes: Changes) -> Changes:
        result = super().apply(changes)
        if not changes.envelope:
            return result
        frame = changes.frame.select("before", POSITION)
        return replace(result, frame=result.frame.drop("before").join(frame, POSITION))


@fails(BROKEN, MISSING_IMAGE)
class CreatesMissingImages(Trim):
    def apply(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        result = super().apply(changes)
        if not changes.envelope:
            return result
        images = {
            name: F.struct(*[F.col(f"{name}.{field}") for field in ("id", "name", "born", "home")])
            for name in ("before", "after")
        }
        return replace(result, frame=result.frame.withColumns(images))


@fails(BROKEN, COUNT, ROWS, IMAGES, CASE, MISSING_IMAGE, METADATA)
class DropsRowsWithNull(Trim):
    def apply(self, changes: Changes) -> Changes:
        result = super().apply(changes)
        name = "after.name" if changes.envelope else "name"
        has_name = "name" in changes.row_columns or "NAME" in changes.row_columns
        return replace(result, frame=result.frame.where(f"{name} IS NOT NULL")) if has_name else result


@fails(BROKEN, COUNT, METADATA)
class DropsRejectedRecords(Trim):
    def apply(self, changes: Changes) -> Changes:
        result = super().apply(changes)
        return replace(result, frame=result.frame.where("_headrace_error IS NULL"))


@fails(BROKEN, COUNT)
class DropsHighOffsets(Trim):
    def apply(self, changes: Changes) -> Changes:
        result = super().apply(changes)
        return replace(result, frame=result.frame.where("_headrace_offset < 5"))


@fails(BROKEN, METADATA)
class DropsThePlaceColumn(Trim):
    def apply(self, changes: Changes) -> Changes:
        result = super().apply(changes)
        return replace(result, frame=result.frame.drop("_headrace_place"))


@fails(BROKEN, "test_table_without_the_columns_is_unchanged")
class RequiresItsColumns(Trim):
    def apply(self, changes: Changes) -> Changes:
        result = super().apply(changes)
        return result if changes.envelope else replace(result, frame=result.frame.where("name IS NULL OR true"))


@fails(BROKEN, CASE)
class ComparesCaseOfNames(Trim):
    def apply(self, changes: Changes) -> Changes:
        return super().apply(changes) if "id" in changes.row_columns else changes


@fails(BROKEN, "test_reads_lists_all_columns_that_are_read")
class ReadsUndeclaredColumns(Trim):
    def apply(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        if changes.envelope or "born" not in changes.row_columns:
            return super().apply(changes)
        name = F.when(F.col("name").isNotNull() & F.col("born").isNull(), "unborn").otherwise(F.col("name"))
        frame = changes.frame.select(*[name.alias(c) if c == "name" else c for c in changes.frame.columns])
        return super().apply(replace(changes, frame=frame))


@fails(BROKEN, "test_reads_lists_all_columns_that_are_read")
class DeclaresMissingColumn(Trim):
    def reads(self) -> Collection[str]:
        return ["id", "name", "surname"]


@fails(BROKEN, "test_plan_runs_no_python")
class RunsPythonForEachRow(Trim):
    def apply(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        strip = F.udf(lambda text: None if text is None else text.strip(" "))
        return self.map(changes, strip)


@fails(BROKEN, "test_transform_is_deterministic", ROWS, "test_reads_lists_all_columns_that_are_read")
class ChangesItsResultOnTheSecondCall(Trim):
    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.calls = 0

    def apply(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        self.calls += 1
        return super().apply(changes) if self.calls == 1 else self.map(changes, F.ltrim)


@fails(BROKEN, "test_transform_is_deterministic")
class LosesItsDataInTheNextBatch(Trim):
    has_data = True

    def begin_batch(self) -> None:
        self.has_data = False

    def apply(self, changes: Changes) -> Changes:
        return super().apply(changes) if self.has_data else changes


@fails(BROKEN, COUNT, ROWS, IMAGES, CASE, MISSING_IMAGE, METADATA, "test_table_without_the_columns_is_unchanged")
class JoinsTwoRowsPerKey(Trim):
    def apply(self, changes: Changes) -> Changes:
        result, two = super().apply(changes), changes.frame.sparkSession.range(2)
        return replace(result, frame=result.frame.crossJoin(two.toDF("other")).drop("other"))


class SaltedConfig(ExampleConfig):
    """String columns and a secret."""

    salt: SecretStr = SecretStr("pepper of the kit")
    """Secret value."""


@fails(BROKEN, "test_secrets_do_not_appear_in_plans")
class WritesItsSecretIntoThePlan(Trim):
    Config = SaltedConfig
    config: SaltedConfig

    def apply(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        salt = F.lit(self.config.salt.get_secret_value())
        return self.map(changes, lambda column: F.when(column != salt, F.trim(column)))


@fails(BROKEN, "test_hidden_values_never_appear")
class DeclaresHiddenColumnWithoutMasking(Trim):
    hides_values = True

    def hides(self, changes: Changes) -> Mapping[str, str]:
        return {"born": "trim"}


@fails(BROKEN, "test_changes_of_a_row_have_their_own_keys_and_positions")
class GivesTwoChangesOneKey(Trim):
    multiplies = True

    def apply(self, changes: Changes) -> Changes:
        result = super().apply(changes)
        return replace(result, frame=result.frame.unionAll(result.frame))
