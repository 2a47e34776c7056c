"""Translation of errors by the plugin whose call raised them, tested without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException

from headrace.config.settings import Settings
from headrace.engine.plan import error_translation
from headrace.engine.plan.error_translation import translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Routes
from headrace.errors import ConfigError, DataError, FatalError, HeadraceError, RetriableError
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
from headrace_transforms import Mask

FILES = FilesSource(path="/data/bronze", format="json")
KAFKA = KafkaSource({"bootstrap.servers": "broker:9092", "subscribe": "t"})
HUDI, ICEBERG = HudiSink(path="/data/lake"), IcebergSink(warehouse="s3a://lake/iceberg")
FILE_NOT_FOUND = "java.io.FileNotFoundException: File {} does not exist"


def explain(text: str, source: Source, *sinks: Sink, by: Sink | None = None) -> HeadraceError:
    plan = Plan("shop", source, sinks, "checkpoint", Routes([]), (), settings=Settings())
    return translate(RuntimeError(text), plan, by)


@pytest.mark.parametrize("by", [HUDI, None])
def test_missing_file_of_a_table_is_explained_by_its_sink(by: Sink | None) -> None:
    error = explain(FILE_NOT_FOUND.format("file:/data/lake/shop/orders/.hoodie/timeline/1.commit"), FILES, HUDI, by=by)
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
def test_missing_file_is_explained_by_other_sinks(sink: Sink, text: str) -> None:
    assert "a file of the table is missing" in str(explain(text, FILES, sink, by=sink))


@pytest.mark.parametrize("by", [HUDI, None])
def test_missing_source_file_is_explained_by_the_source_even_in_a_sink(by: Sink | None) -> None:
    error = explain(FILE_NOT_FOUND.format("file:/data/bronze/t/1.json"), FILES, HUDI, by=by)
    assert isinstance(error, DataError)
    assert "a listed file no longer exists" in str(error)


def test_missing_file_outside_the_source_is_not_explained_by_it() -> None:
    error = explain(FILE_NOT_FOUND.format("file:/elsewhere/1.parquet"), FILES, HUDI, by=HUDI)
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
def test_rejection_by_a_sink_server_is_not_reported_as_a_broker_error(text: str) -> None:
    assert "kafka" not in str(explain(text, KAFKA, ICEBERG, by=ICEBERG))
    broker = "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment"
    assert "source kafka" in str(explain(broker, KAFKA, ICEBERG, by=ICEBERG))


@pytest.mark.parametrize(
    ("source", "sink", "text", "error", "what"),
    [
        (
            KAFKA,
            ICEBERG,
            (
                "org.apache.kafka.common.errors.IllegalSaslStateException: Unexpected handshake request with client mechanism "
                "PLAIN, enabled mechanisms are []"
            ),
            ConfigError,
            "the listener does not use SASL",
        ),
        (
            KAFKA,
            ICEBERG,
            (
                "org.apache.kafka.common.errors.UnsupportedSaslMechanismException: Client SASL mechanism 'PLAIN' not enabled in "
                "the server, enabled mechanisms are [SCRAM-SHA-512]"
            ),
            ConfigError,
            "the listener does not use this SASL mechanism",
        ),
        (
            FILES,
            HUDI,
            (
                "org.apache.hudi.exception.HoodieMetaSyncException: Could not sync using the meta sync class "
                "org.apache.hudi.hive.HiveSyncTool"
            ),
            RetriableError,
            "the rows are in the table, but its synchronization with the catalog failed",
        ),
        (
            FILES,
            FilesSink(path="/out"),
            "org.apache.parquet.schema.InvalidSchemaException: Cannot write a schema with an empty group: optional group a {",
            DataError,
            "a column is a struct without fields, which no table can store",
        ),
    ],
)
def test_error_of_a_library_is_explained(
    source: Source, sink: Sink, text: str, error: type[HeadraceError], what: str
) -> None:
    found = explain(text, source, sink, by=sink)
    assert type(found) is error
    assert what in found.what
    assert found.fix is not None
    assert "--traceback" not in found.fix


@pytest.mark.parametrize(
    "text",
    [
        "ValidationException: Found conflicting files that can contain records matching true: [a.parquet]",
        "ValidationException: Found new conflicting delete files that can apply to records matching true: [d.parquet]",
        "ValidationException: Found conflicting deleted files that can contain records matching true: [a.parquet]",
        "ValidationException: Cannot commit, missing data files: [a.parquet]",
        "ValidationException: Cannot commit, found new position delete for replaced data file: GenericDataFile{}",
        "ValidationException: Cannot commit, found new delete for replaced data file: GenericDataFile{}",
        "ValidationException: Missing required files to delete: a.parquet",
        "ValidationException: Found concurrently added DV for a.parquet: <DV{}>",
        "ValidationException: Cannot determine history between starting snapshot 1 and the last known ancestor 2",
        "IllegalArgumentException: Snapshot 1 is not an ancestor of 2",
    ],
)
def test_conflict_of_iceberg_commits_is_retriable(text: str) -> None:
    error = explain(f"org.apache.iceberg.exceptions.{text}", FILES, ICEBERG, by=ICEBERG)
    assert isinstance(error, RetriableError)
    assert "another writer committed at the same time" in error.what


@pytest.mark.parametrize("sink", [ICEBERG, IcebergSink(catalog="lake")])
@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "java.lang.IllegalArgumentException: Cannot find snapshot with ID 1234",
            "another program expired the version that is in use: Cannot find snapshot with ID 1234",
        ),
        (
            "org.apache.iceberg.exceptions.NotFoundException: Failed to open input stream for file: s3://b/a.parquet",
            "a file of the table is missing: Failed to open input stream for file: s3://b/a.parquet",
        ),
    ],
)
def test_version_that_another_program_removes_during_a_write_is_retriable(sink: Sink, text: str, what: str) -> None:
    error = explain(text, FILES, sink, by=sink)
    assert isinstance(error, RetriableError)
    assert error.what == what


def test_sink_does_not_explain_the_error_of_another_sink() -> None:
    text = "org.apache.hudi.exception.HoodieLockException: no lock"
    assert "another writer committed" in str(explain(text, FILES, ICEBERG, HUDI, by=HUDI))
    assert "another writer committed" not in str(explain(text, FILES, ICEBERG, HUDI, by=ICEBERG))


@pytest.mark.parametrize(
    ("file", "folder", "is_inside"),
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
def test_file_in_a_folder_is_detected_for_every_form_of_path(file: str, folder: str, is_inside: bool) -> None:
    assert is_under(file, folder) is is_inside


def test_missing_file_is_extracted_from_the_error() -> None:
    assert find_missing_file(RuntimeError("Caused by: " + FILE_NOT_FOUND.format("file:/a b/1"))) == "file:/a b/1"
    assert find_missing_file(RuntimeError("File does not exist: /user/x")) == "/user/x"
    assert find_missing_file(RuntimeError("no such table")) is None


class BuggySink(FilesSink):
    """Third-party sink with a bug."""

    name = "stumbles"

    def check_table(self, *_: Any) -> None:
        raise KeyError("no such key")


def explain_bug(sink: Sink) -> str:
    plan = Plan("shop", FILES, (sink,), "checkpoint", Routes([]), (), settings=Settings())
    try:
        sink.check_table(Table("orders"), "append")
    except KeyError as error:
        return str(translate(error, plan))
    return ""


def test_unexplained_error_names_the_plugin_that_raised_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the distribution only for third-party plugins.

    Built-in plugins belong to headrace, and unpackaged plugins to the program of the user.
    """
    sink = BuggySink(path="/out")
    assert explain_bug(sink).startswith("'no such key'\n")
    hooks = SimpleNamespace(headrace_sinks=hookimpl(lambda: {"stumbles": BuggySink}))
    for distribution, error in (
        ("acme 1.0", "'stumbles' of acme raises KeyError: "),
        ("headrace 0.1.0", "'no such key'"),
    ):
        known = PluginRegistry()
        known.register(hooks, distribution)
        monkeypatch.setattr(error_translation, "registry", lambda known=known: known)
        assert explain_bug(sink).startswith(error)


PYTHON_ERROR = """Job aborted due to stage failure: Task 0 in stage 1.0 failed
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/app/udf.py", line 4, in halve
    return 1 / n
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:572)"""


def test_error_of_a_python_function_is_extracted() -> None:
    error = explain(PYTHON_ERROR, FILES, HUDI)
    assert error.what == "a Python function that Spark called raises ZeroDivisionError: division by zero"


class Lookup(Transform):
    """Transform that reads a table from a server."""

    name = "lookup"
    api_version = 1

    def apply(self, changes: Changes) -> Changes:
        return changes

    def explain(self, error: BaseException) -> HeadraceError | None:
        return RetriableError("the countries are away") if "no countries" in str(error) else None


def test_error_in_the_plan_of_a_transform_is_explained_by_it() -> None:
    plan = Plan("shop", FILES, (HUDI,), "", Routes([]), (), (Lookup(),))
    assert str(translate(RuntimeError("no countries"), plan, HUDI)) == "the countries are away"
    assert "nobody knows" in str(translate(RuntimeError("nobody knows"), plan, HUDI))


@pytest.mark.parametrize("has_mask", [True, False])
def test_message_of_a_task_is_shown_only_without_masks(has_mask: bool) -> None:
    masks = (Mask({"columns": {"email": {"nullify": True}}}),) if has_mask else ()
    plan = Plan("shop", FILES, (HUDI,), "", Routes([]), (), masks)
    error = SparkRuntimeException("[CONVERSION_INVALID_INPUT] The value 'a@x' ('HEX') cannot be converted")
    text = str(translate(error, plan))
    assert "CONVERSION_INVALID_INPUT" in text
    assert ("a@x" in text) is not has_mask
    assert "no column 'x'" in str(translate(AnalysisException("no column 'x'"), plan))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("java.io.FileNotFoundException: /lake/x (Permission denied)", ConfigError),
        ("org.apache.hadoop.security.AccessControlException: Permission denied: user=etl", ConfigError),
        ("java.nio.file.AccessDeniedException: s3a://lake/x", ConfigError),
        ("java.io.IOException: Read-only file system", ConfigError),
        ("java.io.IOException: No space left on device", FatalError),
        ("java.lang.OutOfMemoryError: Java heap space", FatalError),
    ],
)
def test_restart_is_suggested_only_if_it_may_help(text: str, kind: type[HeadraceError]) -> None:
    assert type(explain(text, FILES, ICEBERG)) is kind
