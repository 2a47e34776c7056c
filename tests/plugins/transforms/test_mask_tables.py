"""Complete pipelines with masks: contents of tables and files, for every spelling of a column's name."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from tests.support.bronze import write_lines
from tests.support.pipelines import TABLE_SINKS, pipeline, rows
from tests.support.record_log import LogRecord, RecordLog, append
from tests.support.tiers import nightly_after

from headrace import ConfigError, Pipeline
from headrace.engine.commands.replay import ReplayResult, replay
from headrace.errors import HeadraceError
from headrace_sinks.files import FilesSink
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_transforms import Cast, Filter, Mask

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


def write_events(folder: Path, topic: str, *events: dict[str, Any]) -> None:
    path = folder / "bronze" / topic / f"{topic}+0+{sum(1 for _ in folder.rglob('*.json')):010d}.json"
    write_lines(path, list(events))


def pipeline_of(folder: Path, *sinks: str, masks: dict[str, Any], target: str = "shop.all", **changed: Any) -> Pipeline:
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


@pytest.mark.nightly
@pytest.mark.parametrize("sink", TABLE_SINKS)
def test_mask_ignores_case_of_column_names(spark: SparkSession, tmp_path: Path, sink: str) -> None:
    """Both topics write to one table, and each spells the masked column differently."""
    write_events(tmp_path, PEOPLE, event({"id": 1, "email": PII}, 1))
    write_events(tmp_path, STAFF, event({"ID": 2, "EMAIL": PII}, 2))
    masked_pipeline = pipeline_of(tmp_path, sink, masks={"email": {"sha256": {"salt": SALT}}}, spark=UNCOMPRESSED)
    masks = {item.what: item.found for item in masked_pipeline.check(spark) if item.what.startswith("masks")}
    assert masks == {
        f"masks of topic {PEOPLE}": "table shop.all: email by sha256",
        f"masks of topic {STAFF}": "table shop.all: EMAIL by sha256",
    }
    masked_pipeline.run(spark)
    found = rows(masked_pipeline, spark, "shop.all", "id")
    assert [{name.lower(): value for name, value in row.items()} for row in found] == [
        {"id": 1, "email": digest(PII)},
        {"id": 2, "email": digest(PII)},
    ]
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")


def test_check_lists_masked_and_missing_columns_per_table(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path, PEOPLE, event({"id": 1, "email": PII, "Phone": "1"}, 1))
    write_events(tmp_path, STAFF, event({"id": 2, "ssn": "x"}, 2))
    masks = {"email": {"nullify": True}, "phone": {"characters": 5}, "ssn": {"truncate": 2}}
    found = pipeline_of(tmp_path, masks=masks, target="{table}").check(spark)
    assert {item.what: item.found for item in found if item.what.startswith("masks")} == {
        f"masks of topic {PEOPLE}": "table people: Phone by characters: 5, email by nullify; it has no column ssn",
        f"masks of topic {STAFF}": "table staff: ssn by truncate: 2; it has no column email, phone",
    }


@pytest.mark.nightly
def test_column_that_the_newest_records_lack_is_found_in_the_first_batch(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path, PEOPLE, event({"id": 1, "email": PII, "name": "a"}, 1))
    write_events(tmp_path, PEOPLE, event({"id": 2, "email": None, "name": "b"}, 2))
    misspelled = pipeline_of(tmp_path, masks={"emial": {"nullify": True}})
    with pytest.raises(ConfigError, match=r"no table has the column 'emial'\n  fix: did you mean 'email'\?"):
        misspelled.run(spark)
    assert not (tmp_path / "lake").exists()
    shutil.rmtree(tmp_path / "checkpoint")
    masked_pipeline = pipeline_of(tmp_path, masks={"email": {"nullify": True}})
    warnings = [item.found for item in masked_pipeline.check(spark) if item.what == "warning"]
    missing = (
        "transform mask: no table has the column 'email' in the newest records, and the first batch must have it: "
    )
    assert [text for text in warnings if text.startswith(missing)]
    masked_pipeline.run(spark)
    assert [row["email"] for row in rows(masked_pipeline, spark, "shop.all", "id")] == [None, None]


@pytest.mark.parametrize(
    ("only_in", "message"),
    [
        (["people", "staff"], "the table staff has no column 'email', which `only_in` requires"),
        ("peopel", "none of its tables has the column 'email'"),
    ],
)
def test_rule_for_one_table_requires_its_column(
    spark: SparkSession, tmp_path: Path, only_in: Any, message: str
) -> None:
    write_events(tmp_path, PEOPLE, event({"id": 1, "email": PII}, 1))
    write_events(tmp_path, STAFF, event({"id": 2, "mail": PII}, 2))
    rejected = pipeline_of(tmp_path, masks={"email": {"nullify": True, "only_in": only_in}}, target="{table}")
    for start in (rejected.check, rejected.run):
        with pytest.raises(HeadraceError) as raised:
            start(spark)
        assert message in str(raised.value)
    assert not (tmp_path / "lake").exists()


@pytest.mark.nightly
def test_rule_for_one_table_leaves_others_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path, PEOPLE, event({"id": 1, "email": PII}, 1))
    write_events(tmp_path, STAFF, event({"id": 2, "email": PII}, 2))
    masked_pipeline = pipeline_of(tmp_path, masks={"email": {"nullify": True, "only_in": "peo*"}}, target="{table}")
    masked_pipeline.run(spark)
    assert rows(masked_pipeline, spark, "people", "id") == [{"email": None, "id": 1}]
    assert rows(masked_pipeline, spark, "staff", "id") == [{"email": PII, "id": 2}]
    # A misspelled table would stay unmasked.
    misspelled = pipeline_of(
        tmp_path, masks={"email": {"nullify": True, "only_in": ["people", "staf"]}}, target="{table}"
    )
    warnings = [item.found for item in misspelled.check(spark) if item.what == "warning"]
    assert "transform mask names the table 'staf', which no topic becomes: did you mean 'staff'?" in warnings


@pytest.mark.nightly
def test_masked_column_is_known_from_earlier_batches(spark: SparkSession, tmp_path: Path) -> None:
    """The newest file of a topic may have no row with the column, or no row at all."""
    masked_pipeline = pipeline_of(tmp_path, masks={"email": {"nullify": True}}, target="{table}")
    write_events(tmp_path, PEOPLE, event({"id": 1, "email": PII}, 1))
    write_events(tmp_path, STAFF, event({"id": 1}, 1))
    masked_pipeline.run(spark)
    write_events(tmp_path, PEOPLE, event({"id": 2}, 2))
    masked_pipeline.run(spark)
    write_events(tmp_path, PEOPLE, {**event({}, 3, op="t"), "after": None})
    masked_pipeline.run(spark)
    assert rows(masked_pipeline, spark, "people", "id") == []


@pytest.mark.nightly
def test_key_columns_and_types_ignore_case(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path, PEOPLE, event({"Id": 1, "Price": "1.50"}, 1), event({"Id": 1, "Price": "2.50"}, 2))
    rule = {"source": PEOPLE, "target": "people", "key": ["ID"], "columns": {"PRICE": "decimal(9,2)"}}
    masked_pipeline = pipeline_of(
        tmp_path, masks={}, tables=[rule], transforms=[{"unwrap": {}}, {"rename": {"columns": {"ID": "no"}}}]
    )
    masked_pipeline.run(spark)
    assert [{k: str(v) for k, v in row.items()} for row in rows(masked_pipeline, spark, "people", "no")] == [
        {"no": "1", "Price": "2.50"}
    ]


def test_unknown_key_column_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path, PEOPLE, event({"id": 1}, 1))
    with pytest.raises(HeadraceError, match="no such key column: 'number'"):
        pipeline_of(
            tmp_path, masks={}, tables=[{"source": PEOPLE, "key": ["number"]}], transforms=[{"unwrap": {}}]
        ).check(spark)


def test_two_rules_for_one_column_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path, PEOPLE, event({"id": 1, "email": PII}, 1))
    with pytest.raises(ConfigError, match="'email' and 'EMAIL' are the same column"):
        pipeline_of(tmp_path, masks={"email": {"nullify": True}, "EMAIL": {"characters": 1}}).check(spark)


@pytest.mark.parametrize("unwrapped_first", nightly_after(1, [True, False]))
def test_added_fields_and_sql_of_masked_columns_are_masked(
    spark: SparkSession, tmp_path: Path, unwrapped_first: bool
) -> None:
    source = {"connector": "mysql", "file": "binlog.1", "pos": 1, "query": f"UPDATE people SET email = '{PII}'"}
    row = {"id": 1, "email": PII}
    write_events(tmp_path, PEOPLE, event(row, 1, before=row, op="u", source=source))
    fields = "before.email,after.email:now,before:was,source.query,query:sql,source:src"
    unwrap = {"unwrap": {"add.fields": fields}}
    mask = {"mask": {"columns": {"EMAIL": {"sha256": {"salt": SALT}}}}}
    transforms = [unwrap, mask] if unwrapped_first else [mask, unwrap]
    masked_pipeline = pipeline_of(tmp_path, masks={}, transforms=transforms, spark=UNCOMPRESSED)
    [masks] = [item.found for item in masked_pipeline.check(spark) if item.what.startswith("masks")]
    assert "email by sha256" in masks
    assert "query by nullify" in masks
    masked_pipeline.run(spark)
    [found] = rows(masked_pipeline, spark, "shop.all", "id")
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


def test_kept_envelopes_have_no_sql_of_masked_values(spark: SparkSession, tmp_path: Path) -> None:
    source = {"connector": "mysql", "file": "binlog.1", "pos": 1, "query": f"INSERT INTO people VALUES ('{PII}')"}
    write_events(tmp_path, PEOPLE, event({"id": 1, "email": PII}, 1, source=source))
    masked_pipeline = pipeline_of(
        tmp_path, "files", masks={}, transforms=[{"mask": {"columns": {"email": {"nullify": True}}}}]
    )
    masked_pipeline.run(spark)
    [found] = masked_pipeline.read("shop.all", spark=spark).collect()
    assert found["source"].asDict() == {**source, "query": None}
    assert found["after"].asDict() == {"id": 1, "email": None}


def test_flat_rows_mask_added_fields_of_masked_columns(spark: SparkSession, tmp_path: Path) -> None:
    """ExtractNewRecordState adds such columns in Kafka Connect, and ExtractNewDocumentState texts of documents."""
    row = {"id": 1, "email": PII, "__before_email": PII, "__query": f"… {PII}", "__source_query": PII, "__op": "u"}
    row |= dict.fromkeys(["__before", "__updateDescription_updatedFields"], f'{{"email": "{PII}"}}')
    write_events(tmp_path, PEOPLE, {**row, "__before_id": 1})
    masked_pipeline = pipeline_of(tmp_path, masks={"email": {"truncate": 3}})
    masked_pipeline.run(spark)
    [found] = rows(masked_pipeline, spark, "shop.all", "id")
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
    """Return an event in JsonConverter's format with ``schemas.enable``; ``age`` is a date."""
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


@pytest.mark.parametrize("make", nightly_after(1, [event, with_schema]), ids=["json", "json-with-schema"])
def test_dead_letter_with_another_bad_column_is_masked(spark: SparkSession, tmp_path: Path, make: Any) -> None:
    """The raw bytes are kept only if no column is readable."""
    masked_pipeline = pipeline_of(tmp_path, masks={"email": {"characters": 3}}, spark=UNCOMPRESSED)
    write_events(tmp_path, PEOPLE, make({"id": 1, "email": PII, "age": 7}, 1))
    masked_pipeline.run(spark)
    bad = json.dumps(make({"id": 2, "email": PII, "age": "old"}, 2))
    (tmp_path / f"bronze/{PEOPLE}/{PEOPLE}+0+0000000007.json").write_text(f"{bad}\n{{cut raw-0815\n")
    masked_pipeline.run(spark)
    dead_letters = (
        masked_pipeline.read("dead_letters", spark=spark).where("reason = 'undecodable'").orderBy("offset").collect()
    )
    rejected, cut = dead_letters
    assert rejected["masked"]
    kept = json.loads(rejected["value"])
    assert (kept["id"], kept["email"]) == (2, "***")
    assert (cut["masked"], bytes(cut["value"])) == (False, b"{cut raw-0815")
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")
    assert find_on_disk("raw-0815", tmp_path / "checkpoint" / "dead_letters")


@pytest.mark.nightly
def test_undecodable_delete_is_a_dead_letter_in_mode_drop(spark: SparkSession, tmp_path: Path) -> None:
    row = {"id": 1, "age": 7}
    write_events(tmp_path, PEOPLE, event(row, 1, before=row, op="u"))
    masked_pipeline = pipeline_of(
        tmp_path, masks={}, transforms=[{"unwrap": {"delete.tombstone.handling.mode": "drop"}}]
    )
    masked_pipeline.run(spark)
    delete = {"after": None, "op": "d"}
    write_events(
        tmp_path, PEOPLE, event({}, 2, before={"id": "one"}, **delete), event({}, 3, before={"id": 1}, **delete)
    )
    [table] = masked_pipeline.run(spark).tables
    assert table.dead_letters == 1
    assert rows(masked_pipeline, spark, "shop.all", "id") == [{"age": 7, "id": 1}]


@pytest.mark.nightly
def test_incompatible_record_is_kept_masked(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path, PEOPLE, with_schema({"id": 1, "email": PII, "age": 7}, 1))
    masks = {"email": {"characters": 3}}
    policy: dict[str, Any] = {"dead.letters": {"schema-incompatible": "dead-letter"}}
    masked_pipeline = pipeline_of(tmp_path, masks=masks, **policy)
    masked_pipeline.run(spark)
    text = json.loads(
        json.dumps(with_schema({"id": 2, "email": PII, "age": "seven"}, 2)).replace('"int32"', '"string"')
    )
    shutil.rmtree(tmp_path / "bronze")
    shutil.rmtree(tmp_path / "checkpoint")
    write_events(tmp_path, PEOPLE, text)
    masked_pipeline.run(spark)
    [dead_letter] = masked_pipeline.read("dead_letters", spark=spark).collect()
    assert (dead_letter["reason"], dead_letter["masked"]) == ("schema-incompatible", True)
    assert json.loads(dead_letter["value"]) == {"id": 2, "email": "***", "age": "seven"}


def write_aged(folder: Path, offset: int, kind: str, row: dict[str, Any]) -> None:
    """Write a flat row with its schema. ``age`` is a number, or a list."""
    path = folder / f"bronze/{PEOPLE}/{PEOPLE}+0+{offset:010d}.{kind}"
    path.parent.mkdir(parents=True, exist_ok=True)
    is_list = isinstance(row["age"], list)
    if kind == "avro":
        array = {"type": "array", "items": "string"}
        types: dict[str, Any] = {"id": "int", "email": "string", "age": array if is_list else "int"}
        record = [{"name": name, "type": type_} for name, type_ in types.items()]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "V", "fields": record}, [row])
        return
    age: dict[str, Any] = {"type": "array", "items": TEXT} if is_list else {"type": "int32"}
    age["optional"] = True
    columns: dict[str, dict[str, Any]] = {"id": {"type": "int32"}, "email": TEXT, "age": age}
    fields = [{**type_, "field": name} for name, type_ in columns.items()]
    write_lines(path, [{"schema": {"type": "struct", "fields": fields}, "payload": row}])


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["json", "avro"])
def test_columns_that_fit_of_an_incompatible_schema_are_kept_masked(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    source = {"files": {"path": str(tmp_path / "bronze"), "format": kind}}
    policy: dict[str, Any] = {"dead.letters": {"schema-incompatible": "dead-letter"}}
    masked_pipeline = pipeline_of(tmp_path, masks={"email": {"characters": 3}}, source=source, **policy)
    write_aged(tmp_path, 0, kind, {"id": 1, "email": PII, "age": 7})
    masked_pipeline.run(spark)
    write_aged(tmp_path, 1, kind, {"id": 2, "email": PII, "age": ["seven"]})
    masked_pipeline.run(spark)
    [dead_letter] = masked_pipeline.read("dead_letters", spark=spark).collect()
    assert (dead_letter["reason"], dead_letter["masked"]) == ("schema-incompatible", True)
    value = json.loads(dead_letter["value"])
    assert (value["id"], value["email"]) == (2, "***")


def of_table(table: str | None, row: dict[str, Any], lsn: int) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": table, "lsn": lsn}
    return event(row, lsn, source=source)


@pytest.mark.nightly
def test_row_in_the_topic_of_another_table_is_masked(spark: SparkSession, tmp_path: Path) -> None:
    """A masked column is a string. In the other records of the topic it has another type."""
    rule = {"source": "shop.public.*", "target": "{table}", "key": ["id"]}
    masks = {name: {"characters": 3, "only_in": ["people"]} for name in ("email", "vip", "tags")}
    masked_pipeline = pipeline_of(tmp_path, masks=masks, tables=[rule], spark=UNCOMPRESSED)
    person = {"email": PII, "vip": True, "tags": [PII]}
    staff = {"email": "staff@example.org", "vip": True, "tags": ["a"]}
    write_events(tmp_path, PEOPLE, of_table("people", {"id": 1, **person}, 1))
    write_events(
        tmp_path,
        STAFF,
        of_table("staff", {"id": 1, **staff}, 1),
        of_table("people", {"id": 4711, **person}, 2),
        of_table("staff", {"id": None, **staff}, 3),
    )
    masked_pipeline.run(spark)
    found = masked_pipeline.read("dead_letters", spark=spark).orderBy("offset").collect()
    assert [(row["reason"], row["masked"], json.loads(row["value"])) for row in found] == [
        ("other-table", True, {"id": 4711, **dict.fromkeys(person, "***")}),
        ("key-missing", True, {"email": "staff@example.org", "vip": "true", "tags": '["a"]'}),
    ]
    assert rows(masked_pipeline, spark, "staff", "id") == [{"id": 1, **staff}]
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")


@pytest.mark.parametrize(
    "transforms",
    nightly_after(
        1,
        [
            pytest.param(
                [
                    {"expand": {"columns": {"items": "email STRING"}, "tables": "people"}},
                    {"mask": {"columns": {"items.email": {"characters": 3}}, "tables": "people"}},
                ],
                id="field of a text",
            ),
            pytest.param([{"mask": {"columns": {"id": {"nullify": True}}, "tables": "people"}}], id="key"),
            pytest.param([{"mask": {"columns": {"age": {"bucket": 10}}, "tables": "people"}}], id="type"),
            pytest.param(
                [{"mask": {"columns": {"email": {"nullify": True}}, "when": "age", "tables": "people"}}], id="condition"
            ),
        ],
    ),
)
def test_mask_of_another_table_that_does_not_fit(
    spark: SparkSession, tmp_path: Path, transforms: list[dict[str, Any]]
) -> None:
    """A record of another table in the topic has no values then, and the dead letters of the table have theirs."""
    rules = [{"source": topic, "target": "{table}", "key": [key]} for topic, key in ((PEOPLE, "email"), (STAFF, "id"))]
    masked_pipeline = pipeline_of(
        tmp_path, masks={}, tables=rules, transforms=[{"unwrap": {}}, *transforms], spark=UNCOMPRESSED
    )
    staff = {"items": "none", "age": [7], "email": "staff@example.org"}
    write_events(
        tmp_path,
        STAFF,
        of_table("staff", {"id": 1, **staff}, 1),
        of_table("people", {"id": 4711, **staff, "items": PII}, 2),
        of_table("staff", {"id": None, **staff}, 3),
    )
    masked_pipeline.run(spark)
    found = masked_pipeline.read("dead_letters", spark=spark).orderBy("offset").collect()
    assert [(row["reason"], row["offset"], row["masked"], json.loads(row["value"])) for row in found] == [
        ("other-table", 1, True, {}),
        ("key-missing", 2, True, staff),
    ]
    assert rows(masked_pipeline, spark, "staff", "id") == [{"id": 1, **staff}]
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")


def test_row_with_another_key_than_its_record_is_no_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    """A mask of another table does not apply to the outbox. Its rows have a key of their own."""
    transforms = [
        {"outbox": {"table.expand.json.payload": True, "payload.schema": "n INT", "tables": "outbox"}},
        {"mask": {"columns": {"email": {"nullify": True}}, "tables": "people"}},
    ]
    rule = {"source": "shop.public.*", "target": "{table}", "key": ["id"]}
    masked_pipeline = pipeline_of(tmp_path, masks={}, tables=[rule], transforms=transforms)
    write_events(tmp_path, PEOPLE, of_table("people", {"id": 1, "email": PII}, 1))
    payloads = ['{"n": 1}', '{"n": "x"}']
    events = [
        {"id": f"u{n}", "aggregatetype": "user", "aggregateid": str(n), "type": "X", "payload": text}
        for n, text in enumerate(payloads)
    ]
    write_events(tmp_path, "shop.public.outbox", *[of_table("outbox", row, n) for n, row in enumerate(events, start=2)])
    masked_pipeline.run(spark)
    found = masked_pipeline.read("dead_letters", spark=spark).collect()
    assert [(row["table"], row["reason"], json.loads(row["key"])) for row in found] == [
        ("outbox", "untransformable", {"aggregateid": "1"})
    ]
    assert [row["aggregateid"] for row in rows(masked_pipeline, spark, "outbox", "aggregateid")] == ["0"]


def test_row_without_its_table_is_masked_by_every_rule(spark: SparkSession, tmp_path: Path) -> None:
    rule = {"source": PEOPLE, "route.by.field": "source.table", "target": "shop.{table}", "key": ["id"]}
    masks = {"email": {"characters": 3, "only_in": ["shop.secret"]}}
    masked_pipeline = pipeline_of(tmp_path, masks=masks, tables=[rule], spark=UNCOMPRESSED)
    write_events(
        tmp_path,
        PEOPLE,
        of_table("secret", {"id": 1, "email": PII}, 1),
        of_table("open", {"id": 1, "email": "open@example.org"}, 2),
        of_table(None, {"id": 2, "email": PII}, 3),
        of_table(None, {"id": None, "email": PII}, 4),
    )
    masked_pipeline.run(spark)
    tables = {name: rows(masked_pipeline, spark, f"shop.{name}", "id") for name in ("secret", "open", "people")}
    assert tables == {
        "secret": [{"id": 1, "email": "***"}],
        "open": [{"id": 1, "email": "open@example.org"}],
        "people": [{"id": 2, "email": "***"}],
    }
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")


def test_decoded_key_of_an_undecodable_value_is_masked_and_not_replayed(spark: SparkSession, tmp_path: Path) -> None:
    """A part of a key may be readable, too."""
    log = tmp_path / "log.jsonl"
    bodies: list[tuple[Any, Any]] = [
        ({"email": "a@example.org", "n": 1}, {"email": "a@example.org", "n": 1, "age": 7}),
        ({"email": PII, "n": 2}, b"{cut"),
        ({"email": PII, "n": "two"}, None),
        (b"{cut", b"{cut"),
    ]
    records = [LogRecord(PEOPLE, offset, key, value) for offset, (key, value) in enumerate(bodies)]
    append(log, records[:1])
    mask = Mask(columns={"email": {"sha256": {"salt": SALT}}})
    sink = FilesSink({"path": str(tmp_path / "lake"), "format": "json"})
    source, plain = RecordLog(path=str(log)), JsonFormat()
    masked_pipeline = Pipeline(
        "people", source, [sink], str(tmp_path / "checkpoint"), value=plain, key=plain, transforms=[mask]
    )
    masked_pipeline.run(spark)  # which learns the key's types
    append(log, records[1:])
    masked_pipeline.run(spark)
    found = masked_pipeline.read("dead_letters", spark=spark).orderBy("offset").collect()
    key = {"email": digest(PII)}
    assert [(row["masked"], bytes(row["key"])) for row in found] == [
        (True, json.dumps({**key, "n": 2}, separators=(",", ":")).encode()),
        (True, json.dumps(key, separators=(",", ":")).encode()),
        (False, b"{cut"),
    ]
    assert [bytes(found[n]["value"]) for n in (0, 2)] == [b"{cut", b"{cut"]
    assert PII.encode() not in bytes(found[1]["value"])
    assert list(replay(masked_pipeline.plan, spark)) == [
        ReplayResult(PEOPLE, 1, 1),
        ReplayResult(PEOPLE, 0, 0, incomplete=2),
    ]


@pytest.mark.nightly
def test_conditions_over_headers_select_the_same_records_for_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    """A dead letter does not keep the headers of a decoded record, which may have its values."""
    log = tmp_path / "log.jsonl"
    values = [("1", {}), ("abc", {"v1": PII}), ("abc", {"v1": "", "test": ""}), ("7", {"v1": ""})]
    append(
        log,
        [
            LogRecord(PEOPLE, n, {"n": n}, {"n": n, "email": PII, "price": price}, headers=encode_headers(headers))
            for n, (price, headers) in enumerate(values)
        ],
    )
    sink = FilesSink({"path": str(tmp_path / "lake"), "format": "json"})
    source, plain = RecordLog(path=str(log)), JsonFormat()
    transforms = [
        Filter({"when": has_header("test"), "updates": "drop"}),
        Cast({"columns": {"price": "int"}, "when": has_header("v1")}),
        Mask(columns={"email": {"characters": 3}}),
    ]
    masked_pipeline = Pipeline(
        "people", source, [sink], str(tmp_path / "checkpoint"), value=plain, key=plain, transforms=transforms
    )
    [table] = masked_pipeline.run(spark).tables
    assert (table.rows_in, table.filtered, table.dead_letters) == (4, 1, 1)
    found = masked_pipeline.read(PEOPLE, spark=spark).orderBy("n").select("n", "email", "price").collect()
    assert [tuple(row) for row in found] == [(0, "***", "1"), (3, "***", "7")]
    [dead_letter] = masked_pipeline.read("dead_letters", spark=spark).collect()
    assert json.loads(dead_letter["value"]) == {"n": 1, "email": "***"}
    assert (dead_letter["reason"], dead_letter["masked"], dead_letter["headers"]) == ("untransformable", True, None)
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")


def encode_headers(headers: dict[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in headers.items()}


def has_header(name: str) -> str:
    return f"exists(_headrace_headers, h -> h.key = '{name}')"


def test_object_declared_as_string_leaks_no_field_names(spark: SparkSession, tmp_path: Path) -> None:
    rule = {"source": PEOPLE, "target": "people", "key": ["id"], "columns": {"contacts": "string"}}
    write_events(tmp_path, PEOPLE, event({"id": 1, "contacts": {PII: True}}, 1))
    masked_pipeline = pipeline_of(tmp_path, masks={"contacts": {"nullify": True}}, tables=[rule], spark=UNCOMPRESSED)
    masked_pipeline.run(spark)
    assert rows(masked_pipeline, spark, "people", "id") == [{"contacts": None, "id": 1}]
    assert not find_on_disk(PII, tmp_path / "lake", tmp_path / "checkpoint")


@pytest.mark.nightly
def test_new_mask_is_a_warning_at_start_and_in_check(spark: SparkSession, tmp_path: Path) -> None:
    """Rows before the mask stay raw, and so do older versions of the table."""

    def warnings(**masks: Any) -> list[str]:
        masked_pipeline = pipeline_of(
            tmp_path, masks=masks, transforms=[{"unwrap": {}}, *([{"mask": {"columns": masks}}] if masks else [])]
        )
        found = [item.found for item in masked_pipeline.check(spark) if item.what == "warning"]
        query = masked_pipeline.start_available_now(spark)
        query.await_termination()
        assert query.warnings == found
        return found

    hash_rule, null_rule = {"sha256": {"salt": SALT}}, {"nullify": True}
    write_events(tmp_path, PEOPLE, event({"id": 1, "email": PII, "name": "Hans"}, 1))
    assert warnings(name=null_rule) == []
    write_events(tmp_path, PEOPLE, event({"id": 2, "email": PII, "name": "Hans"}, 2))
    for _ in range(2):
        [warning] = warnings(email=hash_rule, name=null_rule)
        assert warning.startswith("the mask of 'email' is new or changed since batch 1: earlier rows are unchanged")
    assert not find_on_disk(SALT, tmp_path / "checkpoint")
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.rmtree(tmp_path / "lake")
    assert warnings(email=hash_rule, name=null_rule) == []
    masked_pipeline = pipeline_of(tmp_path, masks={"email": hash_rule, "name": null_rule})
    assert [row["email"] for row in rows(masked_pipeline, spark, "shop.all", "id")] == [digest(PII)] * 2


@pytest.mark.nightly
def test_weak_salt_or_key_is_a_warning(spark: SparkSession, tmp_path: Path) -> None:
    write_events(tmp_path, PEOPLE, event({"id": 1, "email": PII, "ssn": PII}, 1))
    weak = {"sha512": {"salt": "fifteen letters"}}
    masked_pipeline = pipeline_of(tmp_path, masks={"email": weak, "ssn": {"hmac_sha256": {"key": "x"}}})
    advice = "has fewer than 16 characters: it can be guessed from the digests, and with it the values"
    found = [f"mask: the salt of 'email' {advice}", f"mask: the key of 'ssn' {advice}"]
    assert [item.found for item in masked_pipeline.check(spark) if item.what == "warning"] == found
    query = masked_pipeline.start_available_now(spark)
    assert query.warnings == found
    query.await_termination()
