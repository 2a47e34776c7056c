"""Whole pipelines with masks: what stands in tables and on disk, whatever a column's name is spelt like."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import write_lines
from tests.support.pipelines import TABLE_SINKS, pipeline, rows

from headrace import ConfigError, Pipeline
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

PEOPLE, STAFF = "shop.public.people", "shop.public.staff"
SALT = "a-salt-of-sixteen-characters"
PII = "canary-4711@example.org"


def digest(text: str) -> str:
    return hashlib.sha256((SALT + text).encode()).hexdigest()


def event(row: dict[str, Any], lsn: int, **changed: Any) -> dict[str, Any]:
    return {"before": None, "after": row, "source": {"connector": "postgresql", "lsn": lsn}, "op": "c", **changed}


def deliver(folder: Path, topic: str, *events: dict[str, Any]) -> None:
    path = folder / "bronze" / topic / f"{topic}+0+{sum(1 for _ in folder.rglob('*.json')):010d}.json"
    write_lines(path, list(events))


def job(folder: Path, *sinks: str, masks: dict[str, Any], target: str = "shop.all", **changed: Any) -> Pipeline:
    config = {
        "source": {"files": {"path": str(folder / "bronze"), "format": "json"}},
        "tables": [{"source": "shop.public.*", "target": target, "key": ["id"]}],
        "transforms": [{"unwrap": {}}, {"mask": {"columns": masks}}],
    }
    return pipeline(folder, *sinks, **{**config, **changed})


def find_on_disk(text: str, *folders: Path) -> list[str]:
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if text.encode() in path.read_bytes()]


UNCOMPRESSED = {"spark.sql.parquet.compression.codec": "uncompressed"}


def test_a_mask_hides_a_column_however_a_table_spells_it(spark: SparkSession, tmp_path: Path) -> None:
    """In one target the other table's rows were raw before, in the very column that is masked."""
    deliver(tmp_path, PEOPLE, event({"id": 1, "email": PII}, 1))
    deliver(tmp_path, STAFF, event({"ID": 2, "EMAIL": PII}, 2))
    made = job(tmp_path, *TABLE_SINKS, masks={"email": {"sha256": {"salt": SALT}}}, spark=UNCOMPRESSED)
    masks = {item.what: item.found for item in made.check(spark) if item.what.startswith("masks")}
    assert masks == {
        f"masks of topic {PEOPLE}": "table shop.all: email by sha256",
        f"masks of topic {STAFF}": "table shop.all: EMAIL by sha256",
    }
    made.run(spark)
    for sink in TABLE_SINKS:
        found = rows(made, spark, "shop.all", "id", sink=sink)
        assert [{name.lower(): value for name, value in row.items()} for row in found] == [
            {"id": 1, "email": digest(PII)},
            {"id": 2, "email": digest(PII)},
        ]
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")


def test_check_says_table_by_table_what_is_masked_and_what_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    deliver(tmp_path, PEOPLE, event({"id": 1, "email": PII, "Phone": "1"}, 1))
    deliver(tmp_path, STAFF, event({"id": 2, "ssn": "x"}, 2))
    masks = {"email": {"nullify": True}, "phone": {"characters": 5}, "ssn": {"truncate": 2}}
    found = job(tmp_path, masks=masks, target="{table}").check(spark)
    assert {item.what: item.found for item in found if item.what.startswith("masks")} == {
        f"masks of topic {PEOPLE}": "table people: Phone by characters: 5, email by nullify; it has no column ssn",
        f"masks of topic {STAFF}": "table staff: ssn by truncate: 2; it has no column email, phone",
    }


@pytest.mark.parametrize(
    ("only_in", "what"),
    [
        (["people", "staff"], "the table staff has no column 'email', which `only_in` says it has"),
        ("peopel", "there is no column 'email' in any table that it is for"),
    ],
)
def test_a_rule_for_one_table_is_refused_where_that_has_no_such_column(
    spark: SparkSession, tmp_path: Path, only_in: Any, what: str
) -> None:
    deliver(tmp_path, PEOPLE, event({"id": 1, "email": PII}, 1))
    deliver(tmp_path, STAFF, event({"id": 2, "mail": PII}, 2))
    refused = job(tmp_path, masks={"email": {"nullify": True, "only_in": only_in}}, target="{table}")
    for start in (refused.check, refused.run):
        with pytest.raises(HeadraceError) as raised:
            start(spark)
        assert what in str(raised.value)
    assert not (tmp_path / "lake").exists()


def test_a_rule_for_one_table_leaves_the_others_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    deliver(tmp_path, PEOPLE, event({"id": 1, "email": PII}, 1))
    deliver(tmp_path, STAFF, event({"id": 2, "email": PII}, 2))
    made = job(tmp_path, masks={"email": {"nullify": True, "only_in": "peo*"}}, target="{table}")
    made.run(spark)
    assert rows(made, spark, "people", "id") == [{"email": None, "id": 1}]
    assert rows(made, spark, "staff", "id") == [{"email": PII, "id": 2}]


def test_key_columns_and_types_are_found_as_the_session_compares_names(spark: SparkSession, tmp_path: Path) -> None:
    deliver(tmp_path, PEOPLE, event({"Id": 1, "Price": "1.50"}, 1), event({"Id": 1, "Price": "2.50"}, 2))
    rule = {"source": PEOPLE, "target": "people", "key": ["ID"], "columns": {"PRICE": "decimal(9,2)"}}
    made = job(tmp_path, masks={}, tables=[rule], transforms=[{"unwrap": {}}, {"rename": {"columns": {"ID": "no"}}}])
    made.run(spark)
    assert [{k: str(v) for k, v in row.items()} for row in rows(made, spark, "people", "no")] == [
        {"no": "1", "Price": "2.50"}
    ]


def test_a_key_column_that_is_nowhere_is_still_refused(spark: SparkSession, tmp_path: Path) -> None:
    deliver(tmp_path, PEOPLE, event({"id": 1}, 1))
    with pytest.raises(HeadraceError, match="no key column 'number'"):
        job(tmp_path, masks={}, tables=[{"source": PEOPLE, "key": ["number"]}], transforms=[{"unwrap": {}}]).check(
            spark
        )


def test_two_rules_for_one_column_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    deliver(tmp_path, PEOPLE, event({"id": 1, "email": PII}, 1))
    with pytest.raises(ConfigError, match="'email' and 'EMAIL' are one column"):
        job(tmp_path, masks={"email": {"nullify": True}, "EMAIL": {"characters": 1}}).check(spark)
