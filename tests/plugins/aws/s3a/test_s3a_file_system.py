"""Addresses on ``s3a://``: jars, errors, throttling and broken connections.

The server is real and checks signatures. A proxy in front of it, which is not S3, injects errors that the server never returns.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from py4j.protocol import Py4JJavaError
from tests.support import pipelines
from tests.support.bronze import Bronze
from tests.support.glue import set_jvm_properties
from tests.support.role_server import TOKEN, RoleServer
from tests.support.s3_proxy import Fault, S3Proxy
from tests.support.s3a import open_bucket
from tests.support.tiers import nightly_after

from headrace import ConfigError, FatalError, HeadraceError, Pipeline, RetriableError
from headrace.cli import startup
from headrace.cli.main import cli
from headrace.cluster.session import complete_submitted_conf
from headrace.config.addresses import find_file_systems
from headrace.engine.commands.replay import replay
from headrace.errors import LoginError
from headrace.registry.plugin_registry import registry
from headrace.runtime.jars.jar_choice import list_coordinates
from headrace.runtime.jars.jar_locks import find_locked, read_locks
from headrace.runtime.session.session_builder import complete_session_conf
from headrace.sdk.maintenance import MaintenancePolicy
from headrace.spark.sessions import Sessions, name_checkpointing
from headrace.spark.storage import Folder
from headrace.spark.stream_files import FILE_MANAGER, FOR_DISKS, FOR_STORES, choose_file_manager
from headrace.testing.tables import Target, put, remove
from headrace_aws.s3a.s3a_file_system import S3A
from headrace_sinks.iceberg import IcebergSink
from headrace_stack import S3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOW_DOWN = Fault(503, "SlowDown", "Please reduce your request rate.")
RESET = Fault(None)
SKEWED = Fault(
    403,
    "RequestTimeTooSkewed",
    "The difference between the request time and the current time is too large.",
    "<ServerTime>2026-11-25T12:00:00Z</ServerTime><MaxAllowedSkewMilliseconds>900000</MaxAllowedSkewMilliseconds>",
)
ELSEWHERE = {"x-amz-bucket-region": "us-west-2"}
MOVED = Fault(301, "PermanentRedirect", "The bucket must be addressed using the specified endpoint.", "", ELSEWHERE)
MALFORMED = Fault(
    400,
    "AuthorizationHeaderMalformed",
    "The authorization header is malformed; the region 'eu-west-1' is wrong; expecting 'us-west-2'",
    "<Region>us-west-2</Region>",
    ELSEWHERE,
)
EXPIRED = Fault(400, "ExpiredToken", "The provided token has expired.")
ROLE = "arn:aws:iam::123456789012:role/lake-writer"
FOLDER = str(Path(__file__).parents[3] / "data/msk_demo/envelope")
_names = count(1)


@pytest.fixture(scope="module")
def proxy(s3: S3) -> Iterator[S3Proxy]:
    with S3Proxy(s3) as server:
        yield server


def make(checkpoint: str = "c", path: str = "bronze", **changed: Any) -> Pipeline:
    """Return a pipeline from files to Iceberg; only ``changed`` refers to S3."""
    return pipelines.pipeline(
        Path("/nowhere"), **{"checkpoint": checkpoint, "source": {"files": {"path": path, "format": "avro"}}, **changed}
    )


def systems_of(pipeline: Pipeline) -> list[str]:
    return [system.name for system in pipeline.plan.file_systems]


@pytest.mark.parametrize(
    "pipeline",
    [
        {"checkpoint": "s3a://lake/c"},
        {"path": "S3A://lake/bronze"},
        {"sinks": [{"iceberg": {"warehouse": "s3a://lake/silver"}}]},
        {
            "sinks": [
                {"iceberg": {"catalog": "lake", "catalog.properties": {"type": "hadoop", "warehouse": "s3a://lake"}}}
            ]
        },
        {"sinks": [{"hudi": {"path": "s3a://lake/silver"}}]},
        {"spark": {"spark.hadoop.fs.defaultFS": "s3a://lake"}},
    ],
    ids=lambda pipeline: next(iter(pipeline)),
)
def test_s3a_address_in_any_option_adds_the_file_system(pipeline: dict[str, Any]) -> None:
    pipeline_of_options = make(**pipeline)
    assert systems_of(pipeline_of_options) == ["s3a"]
    assert set(S3A.jars["3.5"]) <= set(list_coordinates(pipeline_of_options.plan.plugins, "3.5"))


@pytest.mark.parametrize("text", ["s3a", "/s3a://lake", "s3://lake", "hdfs://lake", "x s3a://lake", "s3ab://lake"])
def test_other_addresses_add_no_file_system(text: str) -> None:
    assert find_file_systems(registry(), {"a": [text]}) == ()


def test_jars_are_locked_and_exclude_the_bundle() -> None:
    locks = read_locks([S3A])
    for line, maximum in (("3.5", 6_000_000), ("4.0", 11_000_000), ("4.1", 11_000_000)):
        jars = find_locked(S3A.jars[line], locks)
        assert jars
        assert [jar.coordinate for jar in jars] == [coordinate.removesuffix(":jar") for coordinate in S3A.jars[line]]
        assert sum(jar.size for jar in jars) < maximum


def test_options_of_file_and_cluster_take_precedence() -> None:
    key = "spark.hadoop.fs.s3a.aws.credentials.provider"
    assert complete_session_conf([S3A()], {}, [])[key].endswith(
        "Chain" if pipelines.HAS_HUDI else "DefaultCredentialsProvider"
    )
    assert complete_session_conf([S3A()], {key: "mine"}, [])[key] == "mine"
    assert key not in complete_submitted_conf([S3A()], {}, {key: "the cluster's"})
    assert complete_submitted_conf([S3A()], {}, {})[key]


@pytest.mark.spark
@pytest.mark.dist
def test_source_table_dead_letters_and_checkpoint_are_on_s3(
    tmp_path: Path, spark: SparkSession, s3: S3, proxy: S3Proxy
) -> None:
    s3.create_bucket("whole")
    address = open_bucket(spark, s3, "whole", endpoint=proxy.hadoop_options["fs.s3a.endpoint"])
    bronze = Bronze(tmp_path / "bronze", format="json")
    artists = bronze.topic(pipelines.TOPIC, key="artist_id", columns=pipelines.COLUMNS)
    artists.snapshot({"artist_id": 1, "name": "Arp", "nationality": "French"})
    artists.snapshot({"artist_id": 2, "name": "Höch", "nationality": "German"})
    (file,) = bronze.flush()
    s3.put("whole", str(file.relative_to(tmp_path)), file.read_bytes() + b'{"broken\n')
    pipeline = make(
        f"{address}/checkpoint",
        source={"files": {"path": f"{address}/bronze", "format": "json"}},
        sinks=[pipelines.sink_block("iceberg", address)],
    )
    proxy.asked.clear()
    (table,) = pipeline.run(spark).tables
    assert (table.applied, table.dead_letters) == (2, 1)
    # Files of the stream are written to their final names. A rename would take more than twice as many requests.
    written = [
        path for method, path in proxy.asked if method == "PUT" and "/stream/offsets/" in path and path[-1] != "/"
    ]
    assert [path.rpartition("/")[2] for path in written] == ["0"]
    assert [row["name"] for row in pipelines.rows(pipeline, spark)] == ["Arp", "Höch"]
    dead_letters = pipeline.read_dead_letters(spark)
    assert dead_letters is not None
    assert [bytes(row.value) for row in dead_letters.select("value").collect()] == [b'{"broken']
    prefixes = {key.split("/")[0] for key in s3.keys("whole")}
    assert prefixes == {"bronze", "lake", "checkpoint"}
    assert pipeline.run(spark).batches == 0
    # A replay fails while S3A renames the files of its folder, and the next replay completes it.
    proxy.fail(Fault(403, "AccessDenied", "You may not."), times=1_000_000, methods="PUT", path="/part-")
    with pytest.raises(ConfigError, match="You may not"):
        list(replay(pipeline.plan, spark))
    proxy.fail(RESET, times=0)
    (replayed,) = replay(pipeline.plan, spark)
    assert (replayed.replayed, replayed.failed_again) == (1, 1)
    dead_letters = pipeline.read_dead_letters(spark)
    assert dead_letters is not None
    assert dead_letters.count() == 1


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.dist
def test_maintenance_on_s3_and_denied_deletes(spark: SparkSession, s3: S3, proxy: S3Proxy) -> None:
    s3.create_bucket("kept")
    address = open_bucket(spark, s3, "kept", endpoint=proxy.hadoop_options["fs.s3a.endpoint"])
    target = Target(IcebergSink({"warehouse": address, "readers": ["spark"]}), Sessions(spark).of("kept"))
    people, day = "id int, name string", 86400.0
    target.write(people, *[put(0, number, "old") for number in range(5)])
    for at in range(1, 4):
        target.write(people, put(at, at, f"n{at}"), remove(at, 0, ""))
    expected = {1: "n1", 2: "n2", 3: "n3", 4: "old"}
    key = f"{target.name.replace('.', '/')}/data/left.parquet"
    s3.put("kept", key, b"left")

    def maintain(policy: MaintenancePolicy) -> dict[str, str]:
        return {step.name: step.run() for step in target.sink.plan_maintenance(target.session, target.table, policy)}

    def rows() -> dict[int, str]:
        return {row.id: row.name for row in target.sink.read_back(target.session, target.table).collect()}

    assert maintain(MaintenancePolicy(history_seconds=3600, files=2))["compact"].endswith(" files into 1")
    assert rows() == expected
    later_policy = MaintenancePolicy(history_seconds=10 * day, files=1000, clock=lambda: time.time() + 4 * day)
    # S3 responds to a multi-object delete with one error per object; the proxy responds with one error for all.
    proxy.fail(Fault(403, "AccessDenied", "You may not."), times=1_000_000, methods="DELETE POST")
    error_of = target.refusal(lambda: maintain(later_policy))
    assert isinstance(error_of, ConfigError)
    assert f"s3a://kept/{key}" in str(error_of)
    assert "allow this user to delete files in the table's folder" in str(error_of)
    proxy.fail(RESET, times=0)
    assert key in s3.keys("kept")
    assert maintain(later_policy) == {"remove-orphans": "1 files"}
    assert key not in s3.keys("kept")
    assert rows() == expected


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.dist
@pytest.mark.parametrize("readers", [[], ["spark"]], ids=["merged", "by key"])
def test_batch_reads_two_metadata_files(spark: SparkSession, proxy: S3Proxy, bucket: str, readers: list[str]) -> None:
    target = Target(IcebergSink({"warehouse": bucket, "readers": readers}), Sessions(spark).of(bucket))
    for at in range(3):
        proxy.asked.clear()
        target.write("id int, name string", put(at, 1, f"n{at}"))
    opened = [path for method, path in proxy.asked if method == "GET" and path.endswith(".metadata.json")]
    # The version at the start of the batch, and the version after the commit.
    assert [path.rpartition("/")[2] for path in opened] == ["v2.metadata.json", "v3.metadata.json"]
    assert [row["name"] for row in target.rows()] == ["n2"]


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.dist
def test_streams_with_different_checkpoint_stores_start_in_sequence(
    spark: SparkSession, bucket: str, tmp_path: Path
) -> None:
    seen: list[str | None] = []

    def start(address: str) -> None:
        with choose_file_manager(spark, Folder(spark, address)):
            seen.append(spark.conf.get(FILE_MANAGER))

    with choose_file_manager(spark, Folder(spark, bucket)):
        other = Thread(target=start, args=[str(tmp_path)])
        other.start()
        other.join(0.5)
        seen.append(spark.conf.get(FILE_MANAGER))
    other.join(60)
    assert seen == [FOR_STORES, f"{name_checkpointing()}.{FOR_DISKS}"]
    assert spark.conf.get(FILE_MANAGER, None) is None


@pytest.fixture
def bucket(spark: SparkSession, s3: S3, proxy: S3Proxy) -> Iterator[str]:
    """Provide the address of a new bucket behind the proxy."""
    name = f"fault{next(_names)}"
    s3.create_bucket(name)
    yield open_bucket(spark, s3, name, endpoint=proxy.hadoop_options["fs.s3a.endpoint"])
    proxy.fail(RESET, times=0)
    proxy.lists_late_by = 0


def error_of(spark: SparkSession, address: str) -> HeadraceError:
    """Return the error of an unusable checkpoint."""
    # The pipeline has no table to look up, so the check only reads the folder.
    with pytest.raises(HeadraceError) as raised:
        make(address, FOLDER).check(spark)
    return raised.value


spark_tests = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.dist
def test_role_is_assumed_for_one_bucket(spark: SparkSession, s3: S3, proxy: S3Proxy) -> None:
    s3.create_bucket("lent")
    s3.put("lent", "c/note", b"text")
    with RoleServer(s3) as roles:
        options = {
            "endpoint": proxy.hadoop_options["fs.s3a.endpoint"],
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
            "assumed.role.arn": ROLE,
        }
        # AWS SDK 2 reads STS's endpoint from a JVM property; with SDK 1, Hadoop sets it.
        properties = {"aws.endpointUrlSts": roles.endpoint_url, "aws.region": s3.region}
        sts = {"assumed.role.sts.endpoint": roles.endpoint_url, "assumed.role.sts.endpoint.region": s3.region}
        address = open_bucket(spark, s3, "lent", **options, **(sts if pipelines.HAS_HUDI else {}))
        with set_jvm_properties(spark, properties):
            assert Folder(spark, f"{address}/c").read("note") == "text"
    (request,) = roles.asked
    assert (request["Action"], request["RoleArn"]) == ("AssumeRole", ROLE)
    assert proxy.tokens == {TOKEN}


# AWS SDK 1, in Spark 3.5, calls STS only over TLS, and its endpoint is not configurable.
if not pipelines.HAS_HUDI:

    @pytest.mark.nightly
    @pytest.mark.spark
    @pytest.mark.dist
    def test_web_identity_assumes_a_role(spark: SparkSession, s3: S3, proxy: S3Proxy, tmp_path: Path) -> None:
        s3.create_bucket("pod")
        s3.put("pod", "c/note", b"text")
        token = tmp_path / "token"
        token.write_text("what the cluster says of its pod")
        with RoleServer(s3) as roles:
            # Only this provider of the chain, because the chain caches the environment of its first use in the JVM.
            provider = "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider"
            options = {"endpoint": proxy.hadoop_options["fs.s3a.endpoint"], "aws.credentials.provider": provider}
            address = open_bucket(spark, s3, "pod", **options)
            sts = {"aws.endpointUrlSts": roles.endpoint_url, "aws.region": s3.region}
            identity = {"aws.webIdentityTokenFile": str(token), "aws.roleArn": ROLE, "aws.roleSessionName": "pod"}
            with set_jvm_properties(spark, {**sts, **identity}):
                assert Folder(spark, f"{address}/c").read("note") == "text"
        request = roles.asked[-1]
        assert (request["Action"], request["RoleArn"]) == ("AssumeRoleWithWebIdentity", ROLE)
        assert request["WebIdentityToken"] == token.read_text()


class TestFaults:
    """Faults of S3 with Hadoop 3.3."""

    pytestmark = spark_tests

    @pytest.mark.parametrize(
        "fault", nightly_after(1, [SLOW_DOWN, RESET, Fault(500, "InternalError")]), ids=["slow", "reset", "500"]
    )
    def test_temporary_faults_are_retried(
        self, spark: SparkSession, s3: S3, proxy: S3Proxy, bucket: str, fault: Fault
    ) -> None:
        proxy.fail(fault, times=5)
        spark.range(10).write.parquet(f"{bucket}/t")
        assert spark.read.parquet(f"{bucket}/t").count() == 10
        assert proxy.faults_sent == 5

    @pytest.mark.nightly
    def test_clock_skew_is_corrected_when_s3_reports_it(self, spark: SparkSession, proxy: S3Proxy, bucket: str) -> None:
        proxy.fail(SKEWED, times=1, methods="PUT")
        Folder(spark, f"{bucket}/c").write("note", "text")
        assert (Folder(spark, f"{bucket}/c").read("note"), proxy.faults_sent) == ("text", 1)

    def test_failed_replacement_keeps_the_old_content(self, spark: SparkSession, proxy: S3Proxy, bucket: str) -> None:
        folder = Folder(spark, f"{bucket}/c")
        folder.write("note", "old")
        # The rule matches a direct write and a rename.
        proxy.fail(Fault(500, "InternalError"), times=1_000_000, methods="PUT", path="/c/note")
        with pytest.raises(Py4JJavaError):
            folder.write("note", "new")
        assert proxy.faults_sent
        proxy.fail(RESET, times=0)
        assert folder.read("note") == "old"
        folder.write("note", "new")
        assert (folder.read("note"), folder.names(hidden=True)) == ("new", ["note"])

    @pytest.mark.nightly
    def test_delayed_listing_is_reported(self, spark: SparkSession, proxy: S3Proxy, bucket: str) -> None:
        pipeline = make(f"{bucket}/c", FOLDER, sinks=[{"iceberg": {"warehouse": f"{bucket}/lake"}}])
        proxy.lists_late_by = 60
        expected = "the listing of the folder lacks a file that was just written"
        errors = [str(item.error) for item in pipeline.check(spark, connect=True) if item.error]
        assert [error.partition("\n")[0] for error in errors] == [
            f"{bucket}/{name}: {expected}" for name in ("c", "lake")
        ]
        proxy.lists_late_by = 0
        items = {item.what: item for item in pipeline.check(spark, connect=True)}
        assert items["checkpoint"].found == f"{bucket}/c: writable"

    @pytest.mark.nightly
    @pytest.mark.parametrize("readers", [[], ["spark"]], ids=["merged", "by key"])
    def test_iceberg_needs_no_listing(
        self, spark: SparkSession, proxy: S3Proxy, bucket: str, readers: list[str]
    ) -> None:
        proxy.lists_late_by = 600
        target = Target(IcebergSink({"warehouse": bucket, "readers": readers}), Sessions(spark).of(bucket))
        target.write("id int, name string", *[put(0, number, "old") for number in range(4)])
        for at in range(1, 4):
            target.write("id int, name string", put(at, at, f"n{at}"), remove(at, at - 1, ""))
        steps = list(
            target.sink.plan_maintenance(target.session, target.table, MaintenancePolicy(history_seconds=0, files=2))
        )
        assert "compact" in {step.name for step in steps}
        for step in steps:
            step.run()
        assert {row["id"]: row["name"] for row in target.rows()} == {3: "n3"}

    @pytest.mark.nightly
    @pytest.mark.parametrize(
        ("fault", "methods", "kind", "expected"),
        [
            (SLOW_DOWN, "HEAD", RetriableError, "S3 keeps throttling requests (503 SlowDown)"),
            (RESET, "HEAD", RetriableError, "S3 is unreachable: The target server failed to respond"),
            (Fault(500, "InternalError"), "HEAD", RetriableError, "S3 reported an internal error"),
            (SKEWED, "GET", FatalError, "the clock of this machine is wrong by more than 15 minutes"),
            (
                SKEWED,
                "HEAD",
                LoginError,
                "S3 denied the request (403) without a reason: the keys, the permissions or the clock",
            ),
            (EXPIRED, "GET", LoginError, "the session token has expired"),
            (EXPIRED, "HEAD", LoginError, "the bucket is in another region, the session token has expired"),
            (MOVED, "HEAD", ConfigError, "the bucket is in another region"),
            (MALFORMED, "GET", ConfigError, "the bucket is in another region"),
            (Fault(403, "AccessDenied", "You may not."), "GET", ConfigError, "access denied: You may not"),
        ],
        ids=lambda value: getattr(value, "code", None),
    )
    def test_permanent_faults_have_plain_errors(
        self, spark: SparkSession, proxy: S3Proxy, bucket: str, fault: Fault, methods: str, kind: type, expected: str
    ) -> None:
        proxy.fail(fault, times=1_000_000, methods=methods)
        error = error_of(spark, f"{bucket}/c")
        assert (type(error), expected in error.what) == (kind, True), str(error)
        assert error.fix
        if fault.headers:
            name = bucket.removeprefix("s3a://")
            assert f"`spark.hadoop.fs.s3a.bucket.{name}.endpoint.region: us-west-2`" in error.fix


class TestRefusals:
    """Rejections by the server."""

    pytestmark = spark_tests

    @pytest.mark.parametrize("user", ["wrong secret", "unknown key", "no rights"])
    def test_rejected_keys(self, spark: SparkSession, s3: S3, user: str) -> None:
        name = f"refused{next(_names)}"
        s3.create_bucket(name)
        s3.create_user(f"AKIA{name}".upper(), "secret")
        keys = {
            "wrong secret": {"secret_key": "guessed"},
            "unknown key": {"access_key": "AKIASTRANGER"},
            "no rights": {"access_key": f"AKIA{name}".upper(), "secret_key": "secret"},
        }
        error = error_of(spark, f"{open_bucket(spark, s3, name, **keys[user])}/c")
        assert isinstance(error, ConfigError)
        assert str(error.where).startswith(f"s3a://{name}/c")
        assert (
            "S3 denied the request (403) without a reason: the keys, the permissions or the clock are wrong"
            in error.what
        )
        assert "s3:ListBucket" in str(error.fix)

    def test_missing_bucket(self, spark: SparkSession, s3: S3) -> None:
        error = error_of(spark, f"{open_bucket(spark, s3, 'sea')}/c")
        assert str(error).startswith("s3a://sea/c/headrace.json: no such bucket: sea")

    def test_no_credentials(self, spark: SparkSession, s3: S3) -> None:
        provider = "com.amazonaws.auth.SystemPropertiesCredentialsProvider"
        address = open_bucket(spark, s3, "nobody", aws_credentials_provider=provider)
        error = error_of(spark, f"{address}/c")
        assert "no AWS credentials found" in str(error)
        assert "AWS_PROFILE" in str(error.fix)

    def test_unknown_class_of_credentials_provider(self, spark: SparkSession, s3: S3) -> None:
        address = open_bucket(spark, s3, "classless", aws_credentials_provider="com.example.Mine")
        assert "unknown class of a credentials provider: com.example.Mine" in str(error_of(spark, f"{address}/c"))

    @pytest.mark.nightly
    def test_source_without_read_permission(self, spark: SparkSession, s3: S3, tmp_path: Path) -> None:
        s3.create_bucket("closed")
        address = open_bucket(spark, s3, "closed", secret_key="guessed")
        with pytest.raises(ConfigError, match=r"^s3a://closed/bronze: S3 denied the request \(403\)"):
            make(str(tmp_path / "c"), f"{address}/bronze").check(spark)

    @pytest.mark.nightly
    @pytest.mark.parametrize("command", ["status", "show", "dead-letters", "replay"])
    def test_every_command_reports_a_missing_bucket(
        self, spark: SparkSession, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
    ) -> None:
        monkeypatch.setattr(startup, "start_session", lambda pipeline, reporter, others=(): spark)
        monkeypatch.setattr(spark, "stop", lambda: None)
        checkpoint = f"{open_bucket(spark, s3, 'ocean')}/c"
        source, sink = {"files": {"path": str(tmp_path), "format": "avro"}}, {"iceberg": {"warehouse": str(tmp_path)}}
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        spark_conf = {f"spark.hadoop.{name}": value for name, value in s3.hadoop_options.items()}
        pipeline = {"name": "artists", "source": source, "sink": sink, "checkpoint": checkpoint, "spark": spark_conf}
        file = tmp_path / "artists.yaml"
        file.write_text(json.dumps(pipeline))
        done = CliRunner().invoke(cli, [command, str(file)])
        assert (done.exit_code, "no such bucket: ocean" in done.output) == (2, True), done.output

    def test_unreachable_server(self, spark: SparkSession, s3: S3) -> None:
        error = error_of(spark, f"{open_bucket(spark, s3, 'away', endpoint='http://127.0.0.1:1')}/c")
        assert isinstance(error, RetriableError)
        assert "S3 is unreachable: Connect to 127.0.0.1:1" in str(error)


@pytest.mark.parametrize(
    ("kind", "aws_message", "expected"),
    [
        ("AccessDenied", "You may not. ", "S3 denied the request (403): You may not"),
        (
            "S3",
            "null ",
            "S3 denied the request (403) without a reason: the keys, the permissions or the clock are wrong",
        ),
    ],
)
def test_errors_of_aws_sdk_2(kind: str, aws_message: str, expected: str) -> None:
    text = f"s3a://lake/c: software.amazon.awssdk.services.s3.model.{kind}Exception: {aws_message}(Service: S3, Status Code: 403, Request ID: 1)"
    error = S3A().explain(OSError(text))
    assert error is not None
    assert error.what == expected


@pytest.mark.parametrize(
    "error",
    [
        "com.amazonaws.services.s3.model.AmazonS3Exception: Bad Request (Service: Amazon S3; Status Code: 400; Error Code: 400 Bad Request)",
        "software.amazon.awssdk.services.s3.model.S3Exception: null (Service: S3, Status Code: 400, Request ID: 1)",
        "software.amazon.awssdk.services.s3.model.S3Exception: Your key is too long (KeyTooLongError)",
    ],
)
def test_key_that_is_too_long(error: str) -> None:
    key = f"bronze/note=a, b: {'ä' * 510}/part-0.parquet"
    found = S3A().explain(OSError(f"getFileStatus on s3a://lake/{key}: {error}: 400"))
    assert isinstance(found, ConfigError)
    assert found.what == "the key has 1,053 bytes, and S3 accepts 1,024"
    assert str(found.where).startswith("s3a://lake/bronze/note=a, b: ää")
    assert "shorten the target of the table, the values of its partition columns" in str(found.fix)
    short = S3A().explain(OSError(f"getFileStatus on s3a://lake/c: {error}: Status Code: 400"))
    assert short is not None
    assert "the session token has expired, or the key is longer than 1,024 bytes" in short.what


def test_class_that_only_the_bundle_contains() -> None:
    text = "at org.apache.hadoop.fs.s3a.auth.STSClientFactory.getSTSEndpoint: NoClassDefFoundError: software/amazon/awssdk/thirdparty/X"
    error = S3A().explain(OSError(text))
    assert isinstance(error, ConfigError)
    assert "requires software/amazon/awssdk/thirdparty/X" in str(error)
    assert "remove `fs.s3a.assumed.role.sts.endpoint`" in str(error)


def test_other_errors_are_not_explained() -> None:
    assert S3A().explain(OSError("Access Denied: Status Code: 403 of https://registry")) is None
    assert S3A().explain(FileNotFoundError("s3a://lake/t: No such file or directory")) is None
    assert os.environ.get("AWS_SECRET_ACCESS_KEY") is None
