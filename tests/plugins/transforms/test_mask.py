"""Masks: values are hidden in every image and key, and their salts and keys appear in no plan or error."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from tests.support.records import make_topic_readers, record
from tests.support.spark_conf import case_sensitive, compile_plans

from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Route, Routes
from headrace.engine.read.change_reader import ChangeReader
from headrace.engine.read.record_decoder import RecordDecoder
from headrace.errors import ConfigError, DataError
from headrace.sdk.changes import KEY, RAW, Changes
from headrace.sdk.schema_log import SchemaLog
from headrace.sdk.source import SourceContext
from headrace.sdk.transform import Transform
from headrace.spark.sessions import Sessions
from headrace_sinks.console import ConsoleSink
from headrace_sources.dialects.debezium import DebeziumDialect
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_sources.transports.files import FilesSource
from headrace_transforms.mask import Mask
from headrace_transforms.unwrap import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SALT = "Salt-that-nobody-sees"
ROW = "id int, email string, age int, born date, tags array<string>, note string"
ENVELOPE = f"before struct<{ROW}>, after struct<{ROW}>, op string, {KEY} struct<id int, email string>"
RULES: dict[str, dict[str, Any]] = {
    "sha256": {"sha256": {"salt": SALT}},
    "sha512": {"sha512": {"salt": SALT}},
    "characters": {"characters": 3},
    "truncate": {"truncate": 2},
    "replacement": {"replacement": "gone"},
    "nullify": {"nullify": True},
}


def digest(value: str, algorithm: str = "sha256") -> str:
    return hashlib.new(algorithm, (SALT + value).encode()).hexdigest()


def mask_values(
    spark: SparkSession, rule: str, column: str = "note", schema: str = "note string", *values: Any
) -> list[Any]:
    """Return the masked values of one column."""
    frame = spark.createDataFrame([(value,) for value in values], schema).coalesce(1)
    masked = Mask(columns={column: RULES[rule]})(frame)
    assert masked.columns == [column]
    return [row[0] for row in masked.collect()]


@pytest.fixture(scope="module")
def envelopes(spark: SparkSession) -> Changes:
    from datetime import date

    old = (1, "a@x", 30, date(2000, 1, 31), ["t"], None)
    new = (1, "b@x", 31, None, None, "n")
    frame = spark.createDataFrame([(old, new, "u", (1, "b@x")), (new, None, "d", (1, "b@x"))], ENVELOPE)
    return Changes(frame.coalesce(1), envelope=True)


class TestRules:
    @pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
    def test_hash_equals_debezium_hash(self, spark: SparkSession, algorithm: str) -> None:
        values = ["x", "", "Grüße", None]
        expected = [None if v is None else digest(v, algorithm) for v in values]
        assert mask_values(spark, algorithm, "note", "note string", *values) == expected

    @pytest.mark.parametrize("key", [SALT, "ключ", "k" * 64, "longer than a block of SHA-256 " * 3])
    def test_keyed_hash_equals_standard_hmac(self, spark: SparkSession, key: str) -> None:
        values = ["x", "", "Grüße", None]
        frame = spark.createDataFrame([(value,) for value in values], "note string").coalesce(1)
        masked = Mask(columns={"note": {"hmac_sha256": {"key": key}}})(frame)
        expected = [
            None if v is None else hmac.new(key.encode(), v.encode(), hashlib.sha256).hexdigest() for v in values
        ]
        assert [row[0] for row in masked.collect()] == expected

    def test_hash_of_a_number_equals_hash_of_its_string(self, spark: SparkSession) -> None:
        assert mask_values(spark, "sha256", "age", "age int", 30, None) == [digest("30"), None]

    def test_characters_mask_null_too(self, spark: SparkSession) -> None:
        assert mask_values(spark, "characters", "note", "note string", "long text", None) == ["***", "***"]

    def test_truncate(self, spark: SparkSession) -> None:
        assert mask_values(spark, "truncate", "note", "note string", "Grüße", "a", None) == ["Gr", "a", None]

    def test_replacement(self, spark: SparkSession) -> None:
        assert mask_values(spark, "replacement", "age", "age int", 30, None) == ["gone", None]

    @pytest.mark.parametrize("value", ["1", "map('a', 1)", "array(1)", "named_struct('a', 1)"])
    def test_nullify_keeps_the_type(self, spark: SparkSession, value: str) -> None:
        frame = spark.sql(f"SELECT {value} AS note")
        masked = Mask(columns={"note": RULES["nullify"]})(frame)
        assert masked.dtypes == frame.dtypes
        assert {row[0] for row in masked.collect()} == {None}

    @settings(max_examples=3, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(
        st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=50, max_size=100),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    )
    def test_any_string_and_any_salt(self, spark: SparkSession, values: list[str], salt: str) -> None:
        frame = spark.createDataFrame([(value,) for value in values], "note string").coalesce(1)
        masked = Mask(columns={"note": {"sha256": {"salt": salt}}})(frame)
        assert [row[0] for row in masked.collect()] == [hashlib.sha256((salt + v).encode()).hexdigest() for v in values]


class TestEverywhere:
    def test_before_after_and_key_are_masked(self, envelopes: Changes) -> None:
        columns = {
            "email": RULES["sha256"],
            "age": RULES["nullify"],
            "born": RULES["truncate"],
            "tags": RULES["replacement"],
        }
        first, second = (row.asDict(recursive=True) for row in Mask(columns=columns).apply(envelopes).frame.collect())
        a, b = digest("a@x"), digest("b@x")
        old = {"id": 1, "email": a, "age": None, "born": "20", "tags": "gone", "note": None}
        new = {"id": 1, "email": b, "age": None, "born": None, "tags": None, "note": "n"}
        assert first == {"before": old, "after": new, "op": "u", KEY: {"id": 1, "email": b}}
        assert second == {"before": new, "after": None, "op": "d", KEY: {"id": 1, "email": b}}

    def test_missing_image_stays_null(self, envelopes: Changes) -> None:
        masked = Mask(columns={"note": RULES["characters"]}).apply(envelopes).frame
        assert [row["after"] and row["after"]["note"] for row in masked.collect()] == ["***", None]

    def test_rule_for_another_table_changes_nothing(self, envelopes: Changes) -> None:
        assert Mask(columns={"nobody": RULES["sha256"]}).apply(envelopes).frame.schema == envelopes.frame.schema

    def test_plain_frames_of_rows_and_envelopes(self, spark: SparkSession, envelopes: Changes) -> None:
        mask = Mask(columns={"email": RULES["replacement"]})
        rows = spark.createDataFrame([(1, "a@x")], "id int, email string")
        assert [tuple(row) for row in mask(rows).collect()] == [(1, "gone")]
        images = [
            (r["before"]["email"], r["after"] and r["after"]["email"])
            for r in mask(envelopes.frame.drop(KEY)).collect()
        ]
        assert images == [("gone", "gone"), ("gone", None)]

    def test_two_rules_with_one_salt(self, spark: SparkSession) -> None:
        frame = spark.createDataFrame([("x", "y")], "a string, b string")
        [row] = Mask(columns={"a": RULES["sha256"], "b": RULES["sha256"]})(frame).collect()
        assert tuple(row) == (digest("x"), digest("y"))


def test_kept_envelopes_keep_before(spark: SparkSession) -> None:
    """Only the unwrap transform makes `before` unnecessary."""
    value = {
        "before": {"id": 1, "email": "a@x"},
        "after": {"id": 1, "email": "b@x"},
        "source": {"connector": "x"},
        "op": "u",
    }
    context = SourceContext(spark, SchemaLog())
    [events] = RecordDecoder(JsonFormat()).decode(context, make_topic_readers(spark, [record(value)]))
    mask = Mask(columns={"email": RULES["replacement"]})

    def columns(*transforms: Transform) -> str:
        source = FilesSource(path="x", format="json")
        plan = Plan("moma", source, (ConsoleSink(),), "checkpoint", Routes([]), (DebeziumDialect(),), transforms)
        changes = ChangeReader(plan).read_changes(spark, events, Route("artists", ("id",)))
        return changes.frame.select(*changes.event_columns).schema.simpleString()

    row = "struct<email:string,id:bigint>"
    assert columns(mask) == f"struct<after:{row},before:{row},op:string,source:struct<connector:string>>"
    assert columns(mask, Unwrap()) == "struct<email:string,id:bigint>"


class TestNames:
    """Spark compares names without case, unless the session is case-sensitive."""

    @pytest.mark.parametrize("name", ["EMAIL", "Email"])
    def test_column_is_masked_in_every_image_ignoring_case(self, spark: SparkSession, name: str) -> None:
        row = "struct<id int, Email string>"
        envelope = f"before struct<id int, email string>, after {row}, op string, {KEY} struct<EMAIL string>"
        frame = spark.createDataFrame([((1, "a@x"), (1, "b@x"), "u", ("b@x",))], envelope)
        changes = Changes(frame, envelope=True)
        mask = Mask(columns={name: RULES["sha256"]})
        [masked] = mask.apply(changes).frame.collect()
        assert (masked["before"]["email"], masked["after"]["Email"]) == (digest("a@x"), digest("b@x"))
        assert masked[KEY]["EMAIL"] == digest("b@x")
        assert changes.row_columns == ["id", "Email"]

    def test_case_sensitive_session_is_respected(self, spark: SparkSession) -> None:
        frame = spark.createDataFrame([("a@x", "b@x")], "email string, other string")
        with case_sensitive(spark):
            assert Mask(columns={"Email": RULES["nullify"]})(frame).collect()[0]["email"] == "a@x"
            both = frame.withColumnRenamed("other", "EMAIL")
            assert tuple(Mask(columns={"EMAIL": RULES["nullify"]})(both).collect()[0]) == ("a@x", None)


class TestKeys:
    @pytest.mark.parametrize("rule", ["characters", "truncate", "replacement", "nullify"])
    def test_mask_that_would_merge_keys_is_rejected(self, envelopes: Changes, rule: str) -> None:
        with pytest.raises(DataError) as raised:
            Mask(columns={"email": RULES[rule]}).apply(envelopes)
        assert str(raised.value) == (
            "'email' is part of the key, and this mask would merge rows\n  fix: mask it with sha256, sha512, hmac_sha256 or token"
        )

    def test_key_of_an_unknown_table_is_null(self, envelopes: Changes) -> None:
        """A rule for other tables may apply. A record without a key is a dead letter."""
        mask = Mask(columns={"email": {"replacement": "hidden", "only_in": ["people"]}})
        assert {row[KEY]["email"] for row in mask.apply(envelopes).frame.collect()} == {None}

    def test_hashed_keys_stay_distinct(self, envelopes: Changes) -> None:
        keys = {row[KEY]["email"] for row in Mask(columns={"email": RULES["sha512"]}).apply(envelopes).frame.collect()}
        assert keys == {digest("b@x", "sha512")}


class TestSecrecy:
    @pytest.fixture(autouse=True)
    def plans_of_users(self, spark: SparkSession) -> Iterator[None]:
        with compile_plans(spark):
            yield

    @pytest.fixture
    def mask_result(self, spark: SparkSession) -> DataFrame:
        """Return a frame that is masked in a session of headrace, as in the engine."""
        session = Sessions(spark).of("mask")
        frame = session.createDataFrame([("x", SALT[:4])], f"email string, {RAW} string")
        return Mask(columns={"email": RULES["sha256"]}).apply(Changes(frame, envelope=False)).frame

    def test_salt_is_in_no_plan(self, mask_result: DataFrame) -> None:
        assert mask_result.collect()[0]["email"] == digest("x")
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            mask_result.explain(extended=True)
            mask_result.explain(mode="formatted")
            mask_result.explain(mode="codegen")
            mask_result.explain(mode="cost")
        execution: Any = mask_result._jdf.queryExecution()
        plans = [execution.logical(), execution.analyzed(), execution.optimizedPlan()]
        texts = [shown.getvalue(), execution.toString(), execution.executedPlan().treeString()]
        texts += [text for plan in plans for text in (plan.treeString(), plan.toJSON())]
        assert "sha2" in shown.getvalue()
        assert "Generated code:" in shown.getvalue()
        assert not [text for text in texts if SALT in text]
        # Digests of the salt would allow a guess to be verified.
        for algorithm in ("md5", "sha1", "sha256"):
            guess = hashlib.new(algorithm, SALT.encode()).hexdigest()[:12]
            assert not [text for text in texts if guess in text]

    def test_key_and_its_pads_are_in_no_plan(self, spark: SparkSession) -> None:
        session = Sessions(spark).of("mask")
        frame = session.createDataFrame([("x",)], "email string")
        masked = Mask(columns={"email": {"hmac_sha256": {"key": SALT}}})(frame)
        execution: Any = masked._jdf.queryExecution()
        plans = [execution.logical(), execution.analyzed(), execution.optimizedPlan(), execution.executedPlan()]
        texts = [execution.toString(), *(text for plan in plans for text in (plan.treeString(), plan.toJSON()))]
        pads = [bytes(byte ^ pad for byte in SALT.encode()).hex() for pad in (0x36, 0x5C)]
        for secret in (SALT, SALT.encode().hex(), *pads):
            assert not [text for text in texts if secret in text or secret.upper() in text]

    def test_salt_is_in_no_error(self, mask_result: DataFrame) -> None:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import AnalysisException, PySparkException
        from pyspark.sql import functions as F

        with pytest.raises((Py4JJavaError, PySparkException)) as job_error:  # depends on the Spark version
            mask_result.select(F.raise_error(F.col("email"))).collect()
        assert digest("x") in str(job_error.value)
        assert SALT not in str(job_error.value)
        with pytest.raises(AnalysisException) as analysis_error:
            mask_result.select("nobody")
        assert SALT not in str(analysis_error.value)

    def test_salt_is_in_no_catalog(self, mask_result: DataFrame) -> None:
        mask_result.collect()
        described = [row for table in mask_result.sparkSession.catalog.listTables() for row in (table, repr(table))]
        assert SALT not in repr(described)

    def test_repeated_mask_creates_no_second_view(self, spark: SparkSession) -> None:
        session = Sessions(spark).of("mask")
        frame = session.createDataFrame([("x",)], "email string")
        mask = Mask(columns={"email": {"sha256": {"salt": "a salt of its own"}}})
        views = [len(session.catalog.listTables()) for _ in range(3) if mask(frame).columns]
        assert views == [len(session.catalog.listTables())] * 3

    def test_mask_declares_hidden_columns(self) -> None:
        assert Mask.hides_values
        assert list(Mask(columns={"a": RULES["nullify"]}).reads()) == ["a"]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "requires exactly one of sha256, sha512, hmac_sha256, characters, truncate, replacement, nullify"),
        ({"truncate": 1, "nullify": True}, "requires exactly one of"),
        ({"truncate": -1}, "must be 0 or more"),
        ({"sha256": {"salt": ""}}, "is empty or too short"),
        ({"sha256": {}}, "salt"),
        ({"nullify": False}, "must be true"),
        ({"sha255": {"salt": "x"}}, "unknown key"),
    ],
)
def test_invalid_rules(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Mask(columns={"a": rule})
