"""An error is explained by the plugin whose call raised it: no Spark runs here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.config.settings import Settings
from headrace.engine.plan import error_translation
from headrace.engine.plan.error_translation import translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Routes
from headrace.errors import DataError, HeadraceError, RetriableError
from headrace.registry.plugin_registry import PluginRegistry
from headrace.sdk.changes import Changes
from headrace.sdk.hookspecs import hookimpl
from headrace.sdk.sink import Sink, Table
from headrace.sdk.source import Source
from headrace.sdk.transform import Transform
from headrace.spark.error_text import find_missing_file
from headrace.spark.storage import is_under
from headrace_sinks import FilesSink, HudiSink, IcebergSink
from headrace_sources import FilesSource, KafkaSource

FILES = FilesSource(path="/data/bronze", format="json")
KAFKA = KafkaSource({"bootstrap.servers": "broker:9092", "subscribe": "t"})
HUDI, ICEBERG = HudiSink(path="/data/lake"), IcebergSink(warehouse="s3a://lake/iceberg")
GONE = "java.io.FileNotFoundException: File {} does not exist"


def explain(text: str, source: Source, *sinks: Sink, by: Sink | None = None) -> HeadraceError:
    plan = Plan("shop", source, sinks, "checkpoint", Routes([]), (), settings=Settings())
    return translate(RuntimeError(text), plan, by)


@pytest.mark.parametrize("by", [HUDI, None])
def test_a_file_of_a_table_that_is_gone_is_its_sinks_to_explain(by: Sink | None) -> None:
    error = explain(GONE.format("file:/data/lake/shop/orders/.hoodie/timeline/1.commit"), FILES, HUDI, by=by)
    assert isinstance(error, RetriableError)
    assert "a file of the table is missing: file:/data/lake/shop/orders/.hoodie/timeline/1.commit" in str(error)
    assert "no other pipeline" in str(error)
    assert "ignoreMissingFiles" not in str(error)


@pytest.mark.parametrize(
    ("sink", "text"),
    [
        (ICEBERG, "java.io.FileNotFoundException: No such file or directory: s3a://lake/iceberg/t/data/1.parquet"),
        (FilesSink(path="/out"), "[PATH_NOT_FOUND] Path does not exist: file:/out/t/_headrace_batch=1."),
    ],
)
def test_the_same_of_other_sinks(sink: Sink, text: str) -> None:
    assert "a file of the table is missing" in str(explain(text, FILES, sink, by=sink))


@pytest.mark.parametrize("by", [HUDI, None])
def test_a_file_of_the_source_that_is_gone_is_the_sources_also_where_a_sink_reads_it(by: Sink | None) -> None:
    error = explain(GONE.format("file:/data/bronze/t/1.json"), FILES, HUDI, by=by)
    assert isinstance(error, DataError)
    assert "a listed file no longer exists" in str(error)


def test_a_file_of_nobody_is_not_said_to_be_the_sources() -> None:
    error = explain(GONE.format("file:/elsewhere/1.parquet"), FILES, HUDI, by=HUDI)
    assert "file:/elsewhere/1.parquet does not exist" in str(error)
    assert "ignoreMissingFiles" not in str(error)
    damaged = explain("Encountered error while reading file file:/data/lake/t/1.parquet.", FILES, HUDI, by=HUDI)
    assert "truncated" not in str(damaged)


@pytest.mark.parametrize(
    "text",
    [
        "javax.net.ssl.SSLHandshakeException: PKIX path building failed",
        "org.apache.iceberg.exceptions.NotAuthorizedException: Authentication failed",
        "java.util.concurrent.TimeoutException: Futures timed out",
    ],
)
def test_a_sinks_server_that_refuses_is_not_said_to_be_a_broker(text: str) -> None:
    assert "kafka" not in str(explain(text, KAFKA, ICEBERG, by=ICEBERG))
    broker = "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment"
    assert "source kafka" in str(explain(broker, KAFKA, ICEBERG, by=ICEBERG))


def test_one_sink_does_not_explain_what_another_raised() -> None:
    text = "org.apache.hudi.exception.HoodieLockException: no lock"
    assert "another writer committed" in str(explain(text, FILES, ICEBERG, HUDI, by=HUDI))
    assert "another writer committed" not in str(explain(text, FILES, ICEBERG, HUDI, by=ICEBERG))


@pytest.mark.parametrize(
    ("file", "folder", "is_there"),
    [
        ("file:/data/bronze/t/1.json", "/data/bronze/", True),
        ("file:///data/bronze", "file:/data/bronze", True),
        ("/data/bronze/1", "hdfs://name:8020/data/bronze", True),
        ("s3a://lake/bronze/1", "s3a://lake/bronze", True),
        ("file:/data/bronze2/1.json", "/data/bronze", False),
        ("file:/data/2026/1.json", "/data/20*/x", True),
        ("file:/data/a%20b/1.json", "/data/a b", True),
        ("file:/home/me/lake/t/1.parquet", "lake", True),
        ("file:/home/me/lake/t/1.parquet", "./lake/", True),
        ("file:/home/me/bronze/1.json", "lake", False),
    ],
)
def test_a_file_lies_in_a_folder_however_the_two_are_written(file: str, folder: str, is_there: bool) -> None:
    assert is_under(file, folder) is is_there


def test_the_missing_file_is_the_one_that_the_error_names() -> None:
    assert find_missing_file(RuntimeError("Caused by: " + GONE.format("file:/a b/1"))) == "file:/a b/1"
    assert find_missing_file(RuntimeError("File does not exist: /user/x")) == "/user/x"
    assert find_missing_file(RuntimeError("no such table")) is None


class Stumbles(FilesSink):
    """Of a stranger."""

    name = "stumbles"

    def check_table(self, *_: Any) -> None:
        raise KeyError("no such key")


def explain_mistake(sink: Sink) -> str:
    plan = Plan("shop", FILES, (sink,), "checkpoint", Routes([]), (), settings=Settings())
    try:
        sink.check_table(Table("orders"), "append")
    except KeyError as error:
        return str(translate(error, plan))
    return ""


def test_the_plugin_that_raises_what_nobody_explains_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the distribution that brought it; headrace's own plugins are headrace, and others are whoever's program it is."""
    sink = Stumbles(path="/out")
    assert explain_mistake(sink).startswith("'no such key'\n")
    hooks = SimpleNamespace(headrace_sinks=hookimpl(lambda: {"stumbles": Stumbles}))
    for distribution, said in (
        ("acme 1.0", "'stumbles' of acme raises KeyError: "),
        ("headrace 0.1.0", "'no such key'"),
    ):
        known = PluginRegistry()
        known.register(hooks, distribution)
        monkeypatch.setattr(error_translation, "registry", lambda known=known: known)
        assert explain_mistake(sink).startswith(said)


class Lookup(Transform):
    """Reads a table whose server may be away."""

    name = "lookup"
    api_version = 1

    def apply(self, changes: Changes) -> Changes:
        return changes

    def explain(self, error: BaseException) -> HeadraceError | None:
        return RetriableError("the countries are away") if "no countries" in str(error) else None


def test_what_goes_wrong_in_a_transforms_plan_is_the_transforms_to_explain() -> None:
    plan = Plan("shop", FILES, (HUDI,), "", Routes([]), (), (Lookup(),))
    assert str(translate(RuntimeError("no countries"), plan, HUDI)) == "the countries are away"
    assert "nobody knows" in str(translate(RuntimeError("nobody knows"), plan, HUDI))
