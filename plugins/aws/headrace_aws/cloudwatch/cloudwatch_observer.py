"""Observer that sends the metrics of a run to Amazon CloudWatch."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from headrace.sdk import ConfigError, ObservedRun, Observer, RunEvent
from headrace.sdk.options import seconds_of
from headrace_aws.clients import explain_error, find_region, make_client
from headrace_aws.cloudwatch.cloudwatch_config import CloudWatchConfig
from headrace_aws.cloudwatch.run_values import RunValues

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WHERE = "cloudwatch"
#: Metrics of one request: CloudWatch accepts 1,000 of them, and 1 MB.
_MOST_METRICS = 500
#: Metrics that wait while CloudWatch does not respond.
_MOST_WAITING = 50_000
#: Seconds for which the end of a run waits for the last request. The run itself waits five seconds.
_END_SECONDS = 4.0


class CloudWatch(Observer):
    """``cloudwatch: {}``, a key of the pipeline file."""

    name = "cloudwatch"
    api_version = 1
    Config = CloudWatchConfig
    config: CloudWatchConfig

    def check(self, spark: SparkSession | None = None) -> None:
        if self.config.region is None and find_region(self.config.profile) is None:
            raise ConfigError("no region is set", where=_WHERE, fix="set `region`, or AWS_REGION")

    def open(self, run: ObservedRun) -> None:
        options = self.config
        session = options.identity(options.region).open_session("CloudWatch")
        self._client = make_client(
            "cloudwatch", options.region, session, endpoint=options.endpoint_url, attempts=1, where=_WHERE
        )
        self._run, self._lock = run, threading.Lock()
        self._values = RunValues(run.pipeline, options.max_tables)
        #: Metrics that CloudWatch has not accepted, oldest first.
        self._waiting: list[dict[str, Any]] = []
        self._is_down = False
        self._end = threading.Event()
        # Lag grows while no event arrives.
        self._thread = threading.Thread(target=self._send_regularly, name="headrace-cloudwatch", daemon=True)
        self._thread.start()

    def observe(self, event: RunEvent) -> None:
        with self._lock:
            self._values.add(event)

    def close(self) -> None:
        self._end.set()
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive():
            self._run.warn("CloudWatch does not accept the last metrics in time")

    def _send_regularly(self) -> None:
        while not self._end.wait(seconds_of(self.config.interval)):
            self._send()
        self._send()

    def _send(self) -> None:
        """Send the values since the last call, and those that wait. A failure is a warning of the run."""
        status = self._run.status()
        with self._lock:
            self._waiting += self._values.take(status, time.time())
        try:
            while self._waiting:
                self._client.put_metric_data(Namespace=self.config.namespace, MetricData=self._waiting[:_MOST_METRICS])
                del self._waiting[:_MOST_METRICS]
        except Exception as error:  # noqa: BLE001 - the next request may succeed
            if not self._is_down:
                self._run.warn(str(explain_error(error, "cloudwatch:PutMetricData", where="PutMetricData")))
            self._is_down = True
            self._forget_oldest()
            return
        if self._is_down:
            self._run.warn("CloudWatch accepts metrics again")
        self._is_down = False

    def _forget_oldest(self) -> None:
        if (lost := len(self._waiting) - _MOST_WAITING) > 0:
            del self._waiting[:lost]
            self._run.warn(f"{lost} metrics are lost, because {_MOST_WAITING:,} wait already")
