"""Log of the schemas of topics, by subject."""

from __future__ import annotations

import pytest
from pyspark.sql.types import IntegerType, StructType

from headrace.sdk.format import find_unknown_schemas
from headrace.sdk.schema_log import SchemaLog, Subject

VALUE, KEY = Subject("shop.orders", "value"), Subject("shop.orders", "key")


@pytest.mark.parametrize("subject", [VALUE, KEY, Subject("a-b", "value"), Subject("", "key")])
def test_subject_is_converted_to_a_string_and_back(subject: Subject) -> None:
    assert Subject.parse(str(subject)) == subject
    assert str(VALUE) == "shop.orders-value"


def test_types_are_requested_by_topic() -> None:
    requested: list[str] = []

    def table_types(topic: str) -> dict[str, IntegerType]:
        requested.append(topic)
        return {"id": IntegerType()}

    log = SchemaLog(
        file_types=lambda topic: {"price": topic}, table_types=table_types, ruled=lambda topic: (f"unknown-{topic}",)
    )
    assert log.file_types(VALUE) == log.file_types(KEY) == {"price": "shop.orders"}
    assert log.table_types(VALUE) == log.table_types(KEY) == log.table_types(VALUE) == {"id": IntegerType()}
    assert requested == ["shop.orders"], "once per run"
    assert log.ruled("shop.orders") == ("unknown-shop.orders",)


def test_types_are_unknown_by_default() -> None:
    log = SchemaLog()
    assert (log.file_types(VALUE), log.table_types(VALUE), log.ruled("shop.orders")) == ({}, {}, ())
    assert log.row_fields(StructType()) == ()


def test_writer_schemas_are_logged() -> None:
    log = SchemaLog()
    log.add_writer(VALUE, "7", "{}")
    assert (log.writers(VALUE), log.writers(KEY)) == ({"7": "{}"}, {})


def test_unknown_schemas_are_returned_once() -> None:
    log = SchemaLog()
    log.note_unknown([(VALUE, "7"), (VALUE, "")])
    log.note_unknown([(VALUE, "8")])
    assert log.take_unknown(KEY) is None
    assert log.take_unknown(VALUE) == {"7", "8", ""}
    assert log.take_unknown(VALUE) is None


def test_states_are_logged() -> None:
    log = SchemaLog()
    log.state(VALUE, list).append(1)
    assert log.state(VALUE, list) == [1]
    assert (log.state(KEY, list), log.state(VALUE, dict), SchemaLog().state(VALUE, list)) == ([], {}, [])


def test_decoder_finds_its_own_marks() -> None:
    text = """Job aborted: RuntimeException: <headrace-writer-schema decoder=registry/ subject=shop.orders-value id=0000000007>
        [USER_RAISED_EXCEPTION] <headrace-writer-schema decoder=json subject=a%20b-key id=-5> and once more
        RuntimeException: <headrace-writer-schema decoder=registry/ subject=shop.orders-value id=0000000007>
        a plan: raise_error(concat(<headrace-writer-schema decoder=json subject=a%20b-value id=, id, >))"""
    assert find_unknown_schemas("registry/", text) == [(VALUE, "0000000007")]
    assert find_unknown_schemas("json", text) == [(Subject("a b", "key"), "-5")]
    assert find_unknown_schemas("registry/globalId", text) == []


def test_only_schemas_that_replace_others_are_reported() -> None:
    log, changed = SchemaLog(), list[str]()
    log.on_change = changed.append
    subject = Subject("shop.orders", "value")
    one, other = StructType().add("id", IntegerType()), StructType().add("key", IntegerType())
    for schema in (one, one):
        log.remember(subject, schema)
        log.add_writer(subject, "1", schema.json())
    assert changed == []
    log.remember(subject, other)
    log.add_writer(subject, "2", other.json())
    assert changed == ["shop.orders", "shop.orders"]
    log.remember("columns of shop", one)
    log.remember("columns of shop", other)
    assert changed[2:] == ["columns of shop"]
