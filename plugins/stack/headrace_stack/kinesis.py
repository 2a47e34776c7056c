"""Stand-in for Amazon Kinesis: kinesis-local, which supports splits and merges of shards."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.errors import FatalError
from headrace_stack.download import artifacts, npm
from headrace_stack.servers.aws_server import AwsServer
from headrace_stack.servers.json_http import request

#: Preloaded by Node: kinesis-local has no setting for the interface and listens on all of them.
_ON_THIS_MACHINE = """
const { Server } = require("net");
const { listen } = Server.prototype;
Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, port, "127.0.0.1", ...rest.slice(-1));
};
"""
#: Seconds to wait for a new stream or a change of its shards.
_TIMEOUT = 20


class Kinesis(AwsServer):
    """Streams at ``endpoint_url``. They are in memory, and a stop deletes them. Requires Node on the PATH."""

    name = "kinesis"
    ports = ("port", "_tls_port")
    _tls_port: int

    def client(self) -> Any:
        """Return a boto3 client."""
        return self.open_client("kinesis")

    def create_stream(self, stream: str, shards: int = 1) -> None:
        """Create a stream and wait until it is active."""
        client = self.client()
        client.create_stream(StreamName=stream, ShardCount=shards)
        self._await_active(client, stream)

    def put(self, stream: str, *records: tuple[str, bytes]) -> list[str]:
        """Append records (partition key, data) in order; return their sequence numbers."""
        client = self.client()
        answers = [client.put_record(StreamName=stream, PartitionKey=key, Data=data) for key, data in records]
        return [answer["SequenceNumber"] for answer in answers]

    def shards(self, stream: str) -> list[dict[str, Any]]:
        """Return all shards in the format of ListShards, including closed ones."""
        shards: list[dict[str, Any]] = self.client().list_shards(StreamName=stream)["Shards"]
        return shards

    def split(self, stream: str, shard: str) -> None:
        """Split a shard into halves and wait for them."""
        client = self.client()
        (found,) = (one for one in self.shards(stream) if one["ShardId"] == shard)
        keys = found["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
        client.split_shard(StreamName=stream, ShardToSplit=shard, NewStartingHashKey=str(middle))
        self._await_active(client, stream)

    def merge(self, stream: str, shard: str, neighbor: str) -> None:
        """Merge two adjacent shards and wait for their child."""
        client = self.client()
        client.merge_shards(StreamName=stream, ShardToMerge=shard, AdjacentShardToMerge=neighbor)
        self._await_active(client, stream)

    def fetch(self) -> None:
        npm.find_program("node")
        artifacts.unpack("kinesis")

    def prepare(self) -> None:
        (self.folder / "listen.js").write_text(_ON_THIS_MACHINE, encoding="utf-8")
        # It reads its certificate from the working directory.
        (self.folder / "server.json").symlink_to(self._package / "server.json")

    def command(self) -> Sequence[str | Path]:
        settings = {
            "KINESIS_MOCK_PLAIN_PORT": self.port,
            "KINESIS_MOCK_TLS_PORT": self._tls_port,
            "AWS_REGION": self.region,
            "LOG_LEVEL": "WARN",
            "SHARD_LIMIT": 1000,
            **{
                f"{step}_DURATION": "20ms"
                for step in ("CREATE_STREAM", "SPLIT_SHARD", "MERGE_SHARDS", "UPDATE_SHARD_COUNT")
            },
        }
        variables = [f"{name}={value}" for name, value in settings.items()]
        program: list[str | Path] = [
            npm.find_program("node"),
            "--require",
            self.folder / "listen.js",
            self._package / "main.js",
        ]
        return ["/usr/bin/env", *variables, *program]

    def ready(self) -> bool:
        try:
            return request("GET", f"{self.endpoint_url}/healthcheck")[0] == 200
        except OSError:
            return False

    @property
    def _package(self) -> Path:
        return artifacts.unpack("kinesis") / "package"

    def _await_active(self, client: Any, stream: str) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while (
            state := client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamStatus"]
        ) != "ACTIVE":
            if time.monotonic() > deadline:
                raise FatalError(f"stream {stream} is still {state} after {_TIMEOUT} s", where=self.name)
            time.sleep(0.02)
