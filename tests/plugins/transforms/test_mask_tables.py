"""Whole pipelines with masks: what stands in tables and on disk, whatever a column's name is spelt like."""

from __future__ import annotations

import hashlib
import json
import shutil
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
        (["people", "staff"], "the table staff has no column 'email', which `only_in` requires"),
        ("peopel", "none of its tables has the column 'email'"),
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
    with pytest.raises(HeadraceError, match="no such key column: 'number'"):
        job(tmp_path, masks={}, tables=[{"source": PEOPLE, "key": ["number"]}], transforms=[{"unwrap": {}}]).check(
            spark
        )


def test_two_rules_for_one_column_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    deliver(tmp_path, PEOPLE, event({"id": 1, "email": PII}, 1))
    with pytest.raises(ConfigError, match="'email' and 'EMAIL' are the same column"):
        job(tmp_path, masks={"email": {"nullify": True}, "EMAIL": {"characters": 1}}).check(spark)


@pytest.mark.parametrize("unwrapped_first", [True, False])
def test_what_was_taken_from_a_masked_column_and_the_sql_of_a_change_are_masked_too(
    spark: SparkSession, tmp_path: Path, unwrapped_first: bool
) -> None:
    source = {"connector": "mysql", "file": "binlog.1", "pos": 1, "query": f"UPDATE people SET email = '{PII}'"}
    row = {"id": 1, "email": PII}
    deliver(tmp_path, PEOPLE, event(row, 1, before=row, op="u", source=source))
    fields = "before.email,after.email:now,before:was,source.query,query:sql,source:src"
    unwrap = {"unwrap": {"add.fields": fields}}
    mask = {"mask": {"columns": {"EMAIL": {"sha256": {"salt": SALT}}}}}
    transforms = [unwrap, mask] if unwrapped_first else [mask, unwrap]
    made = job(tmp_path, masks={}, transforms=transforms, spark=UNCOMPRESSED)
    [masks] = [item.found for item in made.check(spark) if item.what.startswith("masks")]
    assert "email by sha256" in masks
    assert "query by nullify" in masks
    made.run(spark)
    [found] = rows(made, spark, "shop.all", "id")
    assert found == {
        "id": 1,
        "email": digest(PII),
        "__before_email": digest(PII),
        "__now": digest(PII),
        "__was": {"id": 1, "email": digest(PII)},
        "__source_query": None,
        "__sql": None,
        "__src": {**source, "query": None},
    }
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")


def test_envelopes_that_are_kept_have_no_sql_of_masked_values(spark: SparkSession, tmp_path: Path) -> None:
    source = {"connector": "mysql", "file": "binlog.1", "pos": 1, "query": f"INSERT INTO people VALUES ('{PII}')"}
    deliver(tmp_path, PEOPLE, event({"id": 1, "email": PII}, 1, source=source))
    made = job(tmp_path, "files", masks={}, transforms=[{"mask": {"columns": {"email": {"nullify": True}}}}])
    made.run(spark)
    [found] = made.read("shop.all", spark=spark).collect()
    assert found["source"].asDict() == {**source, "query": None}
    assert found["after"].asDict() == {"id": 1, "email": None}


def test_flat_rows_that_bring_masked_columns_by_other_names_are_masked_there_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As ExtractNewRecordState adds them, in Kafka Connect."""
    row = {"id": 1, "email": PII, "__before_email": PII, "__query": f"… {PII}", "__source_query": PII, "__op": "u"}
    deliver(tmp_path, PEOPLE, {**row, "__before_id": 1})
    made = job(tmp_path, masks={"email": {"truncate": 3}})
    made.run(spark)
    [found] = rows(made, spark, "shop.all", "id")
    assert found == {
        **dict.fromkeys(row, None),
        "id": 1,
        "email": "can",
        "__before_email": "can",
        "__op": "u",
        "__before_id": 1,
    }


AGED = {"type": "int32", "optional": True, "field": "age", "name": "org.apache.kafka.connect.data.Date", "version": 1}
TEXT = {"type": "string", "optional": True}


def with_schema(row: dict[str, Any], lsn: int) -> dict[str, Any]:
    """An event as JsonConverter writes it with ``schemas.enable``; its ``age`` is a date."""
    fields = [{"type": "int64", "field": "id", "optional": False}, {**TEXT, "field": "email"}, AGED]
    image = {"type": "struct", "optional": True, "fields": fields}
    source = [{**TEXT, "field": "connector"}, {"type": "int64", "field": "lsn"}]
    schema = [
        {**image, "field": "before"},
        {**image, "field": "after"},
        {"type": "struct", "fields": source, "field": "source", "optional": False},
        {**TEXT, "field": "op"},
    ]
    return {"schema": {"type": "struct", "fields": schema}, "payload": event(row, lsn)}


@pytest.mark.parametrize("make", [event, with_schema], ids=["json", "json-with-schema"])
def test_a_record_that_was_refused_for_another_column_is_kept_masked(
    spark: SparkSession, tmp_path: Path, make: Any
) -> None:
    """Its bytes are kept only where nothing of it could be read."""
    made = job(tmp_path, masks={"email": {"characters": 3}}, spark=UNCOMPRESSED)
    deliver(tmp_path, PEOPLE, make({"id": 1, "email": PII, "age": 7}, 1))
    made.run(spark)
    bad = json.dumps(make({"id": 2, "email": PII, "age": "old"}, 2))
    (tmp_path / f"bronze/{PEOPLE}/{PEOPLE}+0+0000000007.json").write_text(f"{bad}\n{{cut raw-0815\n")
    made.run(spark)
    letters = made.read("dead_letters", spark=spark).where("reason = 'undecodable'").orderBy("offset").collect()
    refused, cut = letters
    assert refused["masked"]
    kept = json.loads(refused["value"])
    assert (kept["id"], kept["email"]) == (2, "***")
    assert (cut["masked"], bytes(cut["value"])) == (False, b"{cut raw-0815")
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")
    assert find_on_disk("raw-0815", tmp_path / "checkpoint" / "dead_letters")


def test_a_delete_that_is_refused_is_a_dead_letter_also_where_deletes_are_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    row = {"id": 1, "age": 7}
    deliver(tmp_path, PEOPLE, event(row, 1, before=row, op="u"))
    made = job(tmp_path, masks={}, transforms=[{"unwrap": {"delete.tombstone.handling.mode": "drop"}}])
    made.run(spark)
    gone = {"after": None, "op": "d"}
    deliver(tmp_path, PEOPLE, event({}, 2, before={"id": "one"}, **gone), event({}, 3, before={"id": 1}, **gone))
    [table] = made.run(spark).tables
    assert table.dead_letters == 1
    assert rows(made, spark, "shop.all", "id") == [{"age": 7, "id": 1}]


def test_a_value_that_the_table_cannot_hold_is_kept_masked_with_the_others(spark: SparkSession, tmp_path: Path) -> None:
    deliver(tmp_path, PEOPLE, with_schema({"id": 1, "email": PII, "age": 7}, 1))
    masks = {"email": {"characters": 3}}
    ruled: dict[str, Any] = {"dead.letters": {"schema-incompatible": "dead-letter"}}
    made = job(tmp_path, masks=masks, **ruled)
    made.run(spark)
    text = json.loads(
        json.dumps(with_schema({"id": 2, "email": PII, "age": "seven"}, 2)).replace('"int32"', '"string"')
    )
    shutil.rmtree(tmp_path / "bronze")
    shutil.rmtree(tmp_path / "checkpoint")
    deliver(tmp_path, PEOPLE, text)
    made.run(spark)
    [letter] = made.read("dead_letters", spark=spark).collect()
    assert (letter["reason"], letter["masked"]) == ("schema-incompatible", True)
    assert json.loads(letter["value"]) == {"id": 2, "email": "***", "age": "seven"}


def test_an_object_that_is_declared_as_text_leaves_no_name_of_its_fields(spark: SparkSession, tmp_path: Path) -> None:
    rule = {"source": PEOPLE, "target": "people", "key": ["id"], "columns": {"contacts": "string"}}
    deliver(tmp_path, PEOPLE, event({"id": 1, "contacts": {PII: True}}, 1))
    made = job(tmp_path, masks={"contacts": {"nullify": True}}, tables=[rule], spark=UNCOMPRESSED)
    made.run(spark)
    assert rows(made, spark, "people", "id") == [{"contacts": None, "id": 1}]
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")


def test_a_mask_that_comes_later_is_said_at_every_start_and_in_check(spark: SparkSession, tmp_path: Path) -> None:
    """The rows of before are raw, and so are older versions of the table."""

    def warnings(**masks: Any) -> list[str]:
        made = job(
            tmp_path, masks=masks, transforms=[{"unwrap": {}}, *([{"mask": {"columns": masks}}] if masks else [])]
        )
        found = [item.found for item in made.check(spark) if item.what == "warning"]
        query = made.start_available_now(spark)
        query.await_termination()
        assert query.warnings == found
        return found

    hashed, hidden = {"sha256": {"salt": SALT}}, {"nullify": True}
    deliver(tmp_path, PEOPLE, event({"id": 1, "email": PII, "name": "Hans"}, 1))
    assert warnings(name=hidden) == []
    deliver(tmp_path, PEOPLE, event({"id": 2, "email": PII, "name": "Hans"}, 2))
    for _ in range(2):
        [young] = warnings(email=hashed, name=hidden)
        assert young.startswith("the mask of 'email' is new or changed since batch 1: earlier rows are unchanged")
    assert not find_on_disk(SALT, tmp_path / "checkpoint")
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.rmtree(tmp_path / "lake")
    assert warnings(email=hashed, name=hidden) == []
    made = job(tmp_path, masks={"email": hashed, "name": hidden})
    assert [row["email"] for row in rows(made, spark, "shop.all", "id")] == [digest(PII)] * 2


def test_a_weak_salt_or_key_is_said(spark: SparkSession, tmp_path: Path) -> None:
    deliver(tmp_path, PEOPLE, event({"id": 1, "email": PII, "ssn": PII}, 1))
    weak = {"sha512": {"salt": "fifteen letters"}}
    made = job(tmp_path, masks={"email": weak, "ssn": {"hmac_sha256": {"key": "x"}}})
    advice = "has fewer than 16 characters: it can be guessed from the digests, and with it the values"
    found = [f"mask: the salt of 'email' {advice}", f"mask: the key of 'ssn' {advice}"]
    assert [item.found for item in made.check(spark) if item.what == "warning"] == found
    query = made.start_available_now(spark)
    assert query.warnings == found
    query.await_termination()
