"""AWS Glue and S3 on moto in a separate process."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.local_server import LocalServer

from headrace_stack.servers.aws_server import AwsServer
from headrace_stack.servers.json_http import request

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Glue(AwsServer):
    """Catalog in memory at ``endpoint_url``. It accepts any keys, so it cannot test authentication."""

    name = "glue"
    region = "eu-west-1"

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables with the keys and the endpoint for AWS clients."""
        return {**super().environment, "AWS_ENDPOINT_URL": self.endpoint_url}

    def client(self, service: str = "glue") -> Any:
        """Return a boto3 client."""
        return self.open_client(service)

    def tables(self, database: str) -> dict[str, dict[str, Any]]:
        """Return the tables of a database by name."""
        found = self.client().get_tables(DatabaseName=database)["TableList"]
        return {table["Name"]: table for table in found}

    def partitions(self, database: str, table: str) -> dict[tuple[str, ...], dict[str, Any]]:
        """Return the partitions of a table by their values."""
        pages = self.client().get_paginator("get_partitions").paginate(DatabaseName=database, TableName=table)
        return {tuple(one["Values"]): one for page in pages for one in page["Partitions"]}

    def places(self, database: str, table: str) -> dict[tuple[str, ...], str]:
        """Return the locations of the partitions by their values."""
        found = self.partitions(database, table)
        return {values: one["StorageDescriptor"]["Location"] for values, one in found.items()}

    def count_versions(self, database: str, table: str) -> int:
        """Return the number of versions of a table."""
        return len(self.client().get_table_versions(DatabaseName=database, TableName=table)["TableVersions"])

    def fetch(self) -> None:
        """Do nothing, because the extra ``test`` installs moto."""

    def command(self) -> Sequence[str | Path]:
        return [sys.executable, "-P", Path(__file__).with_name("moto_server.py"), "-H", self.host, "-p", str(self.port)]

    def ready(self) -> bool:
        try:
            return request("GET", f"{self.endpoint_url}/moto-api/data.json")[0] == 200
        except OSError:
            return False


@contextmanager
def set_aws_keys(spark: SparkSession, access_key: str = "AKIDEXAMPLE", secret_key: str = "example") -> Iterator[None]:
    """Set AWS keys in the JVM for a block. Other tests share the JVM."""
    with set_jvm_properties(spark, {"aws.accessKeyId": access_key, "aws.secretAccessKey": secret_key}):
        yield


@contextmanager
def set_jvm_properties(spark: SparkSession, properties: Mapping[str, str]) -> Iterator[None]:
    """Set system properties of the JVM for a block."""
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    before = {name: system.setProperty(name, value) for name, value in properties.items()}
    try:
        yield
    finally:
        for name, value in before.items():
            # MSK's authentication needs the region that the session started with.
            system.setProperty(name, value) if value else system.clearProperty(name)


class Refusing(LocalServer):
    """Server that returns one Glue error to every request."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.body = b""
        #: Received requests: operation and parameters.
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def refuse(self, code: str, message: str) -> None:
        self.body = json.dumps({"__type": code, "Message": message}).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Refusing

    def do_POST(self) -> None:
        parameters = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.headers["X-Amz-Target"].partition(".")[2], parameters))
        self.send_response(400)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: Any) -> None: ...


def column_types(described: Mapping[str, Any]) -> dict[str, str]:
    """Return the types of a Glue table or partition by column."""
    return {column["Name"]: column["Type"] for column in described["StorageDescriptor"]["Columns"]}


def read_table(spark: SparkSession, table: Mapping[str, Any]) -> DataFrame:
    """Read a data source table with Spark from its description in Hive's catalog."""
    from pyspark.sql.types import StructType

    known = table["Parameters"]
    parts = [
        known[f"spark.sql.sources.schema.part.{i}"] for i in range(int(known["spark.sql.sources.schema.numParts"]))
    ]
    schema = StructType.fromJson(json.loads("".join(parts)))
    options = table["StorageDescriptor"]["SerdeInfo"]["Parameters"]
    reader = spark.read.format(known["spark.sql.sources.provider"]).schema(schema)
    return reader.options(**options).load()  # from the option `path`, as Spark does
