"""Metrics of a run in CloudWatch: the values that moto has after events of a run."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import moto
import pytest
from botocore.exceptions import ClientError
from tests.plugins.otel.doubles import ORDERS, STARTED, STATUS

from headrace.engine.run.observers import Observers
from headrace.errors import ConfigError
from headrace.sdk.observer import BatchProgress, RunEvent, RunEventKind, Status, TableProgress, TableStatus
from headrace.testing.observers import ObserverConformance
from headrace_aws.cloudwatch import cloudwatch_observer
from headrace_aws.cloudwatch.cloudwatch_observer import CloudWatch
from headrace_aws.cloudwatch.run_values import RunValues

PEOPLE = TableProgress("shop.people", "lake", error="disk full", latency_ms=9)


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    with moto.mock_aws():
        yield


def read(metric: str, table: str | None = None, statistic: str = "Sum") -> float | None:
    """Return a statistic of a metric over the last hours; None without a value."""
    about = {"Pipeline": "shop", **({"Table": table, "Sink": "lake"} if table else {})}
    client, now = boto3.client("cloudwatch", region_name="eu-west-1"), datetime.now(UTC)
    dimensions = [{"Name": name, "Value": value} for name, value in about.items()]
    metric_of = {"Namespace": "headrace", "MetricName": metric, "Dimensions": dimensions}
    # moto compares dimensions in this request alone.
    answer = client.get_metric_data(
        MetricDataQueries=[{"Id": "a", "MetricStat": {"Metric": metric_of, "Period": 86400, "Stat": statistic}}],
        StartTime=now - timedelta(hours=12),
        EndTime=now + timedelta(hours=12),
    )
    values = answer["MetricDataResults"][0]["Values"]
    return values[0] if values else None


class CloudWatchRun:
    """Run that CloudWatch observes."""

    def __init__(self, status: Status = STATUS, **options: Any) -> None:
        self.observer, self.warnings = CloudWatch({"interval": "1 hour", **options}), list[str]()
        self._observers = Observers([self.observer], str, self.warnings.append)
        self._observers.open("shop", lambda: status)

    def commit(self, *tables: TableProgress, error: object = None) -> None:
        self._observers.emit_batch(0, BatchProgress("shop", 0, STARTED, 0.8, tables), error)

    def send(self) -> None:
        """Send the values of all events so far, as at the end of an interval."""
        assert self._observers.drain(10)
        self.observer._send()

    def end(self) -> None:
        assert self._observers.drain(10)
        self._observers.end(None)


class TestCloudWatch(ObserverConformance):
    plugin_class = CloudWatch
    refused = ({"namespace": "AWS/Kinesis"}, {"interval": "10 ms"}, {"max.tables": -1})

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"namespace": "headrace", "max.tables": 10}


def test_values_of_batches_and_of_the_status() -> None:
    run = CloudWatchRun()
    run.commit(ORDERS, PEOPLE)
    run.commit(ORDERS)
    run.commit(replace(ORDERS, skipped=True), error="lost")
    run.end()
    assert run.warnings == []
    assert [read(name) for name in ("Batches", "FailedBatches", "RowsApplied", "DeadLetters")] == [2, 1, 12, 6]
    assert [read(name, "shop.orders") for name in ("RowsApplied", "RowsLate", "RowsFiltered")] == [12, 2, 2]
    assert read("LatencySeconds", "shop.orders", "Average") == 1.5
    assert read("BatchSeconds", statistic="Maximum") == 0.8
    assert [read("LagSeconds"), read("LagSeconds", "shop.orders"), read("LagRecords", "shop.orders")] == [2.5, 2.5, 3]
    assert [read("TablesSetAside"), read("SetAside", "shop.people"), read("SourceFailing")] == [1, 1, 0]
    assert read("RowsApplied", "shop.people") is None


def test_counts_are_sent_once_and_zeros_for_the_pipeline() -> None:
    run = CloudWatchRun()
    run.commit(ORDERS)
    run.send()
    run.end()
    assert read("RowsApplied") == 6
    assert read("RowsApplied", statistic="SampleCount") == 2
    assert read("Restarts") == 0


def test_values_of_an_outage_are_sent_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    run = CloudWatchRun()
    run.commit(ORDERS)

    def deny(**_: Any) -> None:
        denied = {"Code": "AccessDenied", "Message": "not authorized to perform: cloudwatch:PutMetricData on …"}
        raise ClientError({"Error": denied}, "PutMetricData")

    with monkeypatch.context() as patch:
        patch.setattr(run.observer._client, "put_metric_data", deny)
        run.send()
        run.send()
    (warning,) = run.warnings
    assert "cloudwatch: PutMetricData: access denied" in warning
    assert "allow cloudwatch:PutMetricData to this role or user" in warning
    run.commit(ORDERS)
    run.send()
    assert run.warnings[1:] == ["cloudwatch: CloudWatch accepts metrics again"]
    assert read("RowsApplied") == 12
    monkeypatch.setattr(run.observer._client, "put_metric_data", deny)
    monkeypatch.setattr(cloudwatch_observer, "_MOST_WAITING", 3)
    run.send()
    assert "metrics are lost, because 3 wait already" in run.warnings[-1]
    run.end()


def test_service_that_hangs_does_not_hold_the_end_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = CloudWatchRun()
    monkeypatch.setattr(cloudwatch_observer, "_END_SECONDS", 0.1)
    monkeypatch.setattr(run.observer._client, "put_metric_data", lambda **_: time.sleep(30))
    run.end()
    assert run.warnings == ["cloudwatch: CloudWatch does not accept the last metrics in time"]


def test_values_of_many_tables_and_times_are_limited() -> None:
    values = RunValues("shop", max_tables=2)
    tables = tuple(replace(ORDERS, table=f"t{n}", latency_ms=n * 37) for n in range(1000))
    progress = BatchProgress("shop", 0, STARTED, 0.8, tables)
    values.add(RunEvent(kind=RunEventKind.BATCH_COMMITTED, time=0, batch=0, progress=progress))
    lags = tuple(TableStatus(table.table, "lake", lag_seconds=n) for n, table in enumerate(tables))
    found = values.take(Status(True, "", 0, None, lags), time=0)
    names = {dimension["Value"] for one in found for dimension in one["Dimensions"] if dimension["Name"] == "Table"}
    assert names == {"t0", "t1"}
    by_metric = {one["MetricName"]: one for one in found if len(one["Dimensions"]) == 1}
    assert by_metric["RowsApplied"]["Value"] == 6000
    assert by_metric["LagSeconds"]["Value"] == 999
    assert len(by_metric["LatencySeconds"]["Values"]) <= 150
    assert sum(by_metric["LatencySeconds"]["Counts"]) == 1000


def test_table_of_the_page_lists_all_metrics() -> None:
    values = RunValues("shop", max_tables=10)
    progress = BatchProgress("shop", 0, STARTED, 0.8, (replace(ORDERS, dropped=1),))
    values.add(RunEvent(kind=RunEventKind.BATCH_COMMITTED, time=0, batch=0, progress=progress))
    found = {"pipeline": set[str](), "table": set[str]()}
    for one in values.take(STATUS, time=0):
        found["table" if len(one["Dimensions"]) == 3 else "pipeline"].add(f"{one['MetricName']} {one['Unit'].lower()}")
    page = (Path(__file__).parents[4] / "docs/cloudwatch.md").read_text(encoding="utf-8")
    documented = {"pipeline": set[str](), "table": set[str]()}
    for line in re.findall(r"^\| `.*", page.partition("## Alarms")[0], re.MULTILINE):
        names, unit, *cells = (cell.strip() for cell in line.split("|")[1:5])
        for place, cell in zip(documented, cells, strict=True):
            documented[place] |= {f"{name} {unit}" for name in re.findall(r"`(\w+)`", names) if cell}
    assert found == documented


def test_missing_region(monkeypatch: pytest.MonkeyPatch) -> None:
    CloudWatch().check()
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(ConfigError, match="cloudwatch: no region is set"):
        CloudWatch().check()
    CloudWatch({"region": "eu-west-1"}).check()
