"""Hudi options of existing Hudi jobs that headrace accepts, and options that would produce wrong rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tiers import nightly_after

from headrace import ConfigError
from headrace.sdk import Table, TableMode
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.hudi import HudiSink

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

WRITE = "hoodie.datasource.write."
KEY = f"{WRITE}recordkey.field"
ORDERS = Table("shop.orders", ("id", "line"))
LATEST = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"


@pytest.mark.parametrize(
    ("option", "value", "consequence"),
    [
        (f"{WRITE}operation", "insert", "rows would be duplicated or lost"),
        (f"{WRITE}operation", "insert_overwrite_table", "rows would be duplicated or lost"),
        (f"{WRITE}insert.drop.duplicates", "true", "changes of existing rows would be dropped"),
        (f"{WRITE}precombine.field", "updated_at", "late changes would overwrite newer ones"),
        ("hoodie.table.ordering.fields", "updated_at", "late changes would overwrite newer ones"),
        ("hoodie.write.record.merge.mode", "COMMIT_TIME_ORDERING", "late changes would overwrite newer ones"),
        (f"{WRITE}payload.class", LATEST, "late changes would overwrite newer ones"),
        ("hoodie.populate.meta.fields", "false", "the index would find no row"),
    ],
)
def test_option_that_would_produce_wrong_rows_is_rejected(option: str, value: str, consequence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        HudiSink({"path": "lake", option: value}).check()
    assert f"sink hudi, {option}: with {value!r} {consequence}" in str(refused.value)
    assert "remove the option" in str(refused.value)


@pytest.mark.parametrize(("mode", "key"), [("upsert", "id,line"), ("append", "_headrace_position")])
def test_record_key_is_the_key_of_the_table(mode: TableMode, key: str) -> None:
    HudiSink({"path": "lake", KEY: key.replace(",", ", ")}).check_table(ORDERS, mode)
    with pytest.raises(ConfigError) as refused:
        HudiSink({"path": "lake", KEY: "uuid"}).check_table(ORDERS, mode)
    assert f"table shop.orders, sink hudi, {KEY}: the key of the table is {key}" in str(refused.value)
    assert "set `key: […]` under `tables:`" in str(refused.value)


def test_options_with_required_values_are_accepted(tmp_path: Path, sessions: Sessions) -> None:
    options = {f"{WRITE}operation": "UPSERT", KEY: "id", "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
    sink = HudiSink({"path": str(tmp_path), **options, f"{WRITE}precombine.field": "_headrace_position"})
    sink.check()
    target = Target(sink, sessions.of("one"))
    sink.check_table(target.table, "upsert")
    target.write("id int, name string", put(1, 1, "a"), put(1, 2, "b"), put(5, 3, "c"))
    target.write("id int, name string", put(2, 1, "A"), remove(2, 2, None), put(4, 3, "late"))
    assert target.rows() == [{"id": 1, "name": "A"}, {"id": 3, "name": "c"}]


@pytest.mark.parametrize(
    ("options", "complaint"),
    nightly_after(
        1,
        [
            (
                {"hoodie.compact.inline": True},
                "sink hudi, hoodie.compact.inline: a COPY_ON_WRITE table has no log files",
            ),
            (
                {f"{WRITE}keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"},
                f"sink hudi, {WRITE}keygenerator.class: Hudi cannot create the key generator with these options",
            ),
        ],
    ),
)
def test_options_that_hudi_rejects_have_plain_errors(
    tmp_path: Path, sessions: Sessions, options: dict[str, object], complaint: str
) -> None:
    target = Target(HudiSink({"path": str(tmp_path), "table.type": "COPY_ON_WRITE", **options}), sessions.of("one"))

    def write() -> None:
        target.write("id int, name string", put(1, 1, "a"))
        target.write("id int, name string", put(2, 1, "A"))

    refusal = target.refusal(write)
    assert isinstance(refusal, ConfigError)
    assert complaint in str(refusal)
    assert "remove" in str(refusal.fix)
