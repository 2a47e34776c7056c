"""Proxies in front of the stand-in for Kinesis: one observes requests, the other pushes records as AWS does."""

from __future__ import annotations

import base64
import http.client
import json
import struct
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler
from typing import Any

from botocore.exceptions import BotoCoreError
from tests.support.local_server import LocalServer

from headrace_stack import Kinesis


class KinesisProxy(LocalServer):
    """Proxy for Kinesis; subclasses observe requests or respond themselves."""

    def __init__(self, kinesis: Kinesis) -> None:
        super().__init__(_Handler)
        self.kinesis = kinesis

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        """Forward the request and its response."""
        with self.hand_on(request, body) as answer:
            reply(request, answer.status, answer.read(), answer.headers)

    def hand_on(self, request: BaseHTTPRequestHandler, body: bytes) -> http.client.HTTPResponse:
        """Return the response of kinesis-local."""
        connection = http.client.HTTPConnection(self.kinesis.host, self.kinesis.port, timeout=30)
        connection.request("POST", request.path, body, dict(request.headers))
        return connection.getresponse()


class _Handler(BaseHTTPRequestHandler):
    server: KinesisProxy
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.server.answer(self, self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *_: Any) -> None: ...


def reply(request: BaseHTTPRequestHandler, status: int, content: bytes, headers: Mapping[str, str] | Message) -> None:
    """Send a response of known length."""
    request.send_response(status)
    for name in ("Content-Type", "Date", "x-amzn-RequestId"):
        if value := headers.get(name):
            request.send_header(name, value)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)


def start_event_stream(request: BaseHTTPRequestHandler) -> None:
    """Send the head of a response that continues for minutes, and the first frame that boto3 requires."""
    request.send_response(200)
    request.send_header("Content-Type", "application/vnd.amazon.eventstream")
    request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
    request.close_connection = True
    send(request, frame("initial-response", "initial-response", {}))


def send(request: BaseHTTPRequestHandler, content: bytes) -> None:
    """Send a chunk of a chunked response; the last chunk is empty."""
    request.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")


def frame(kind: str, name: str, content: Mapping[str, Any]) -> bytes:
    """Encode an event, an exception or the initial response in the format of AWS event streams."""
    header = "exception-type" if kind == "exception" else "event-type"
    headers = b"".join(
        struct.pack("!B", len(key)) + key.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()
        for key, value in ((":message-type", kind), (f":{header}", name), (":content-type", "application/json"))
    )
    payload = json.dumps(content).encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack("!I", zlib.crc32(message))


class Sender(KinesisProxy):
    """Proxy that responds to SubscribeToShard as the service's documentation describes, with the records of kinesis-local.

    kinesis-local also pushes records, but without the end of a shard, the lag and the first frame. It rejects a second subscription,
    while AWS ends the older one.
    """

    #: Minimum seconds between subscriptions to a shard, and duration of a subscription. The values are those of AWS.
    again, longest = 5.0, 300.0
    #: Maximum number of records per event, and seconds between empty events.
    records, silence = 50, 0.2

    def __init__(self, kinesis: Kinesis) -> None:
        super().__init__(kinesis)
        self.operations: dict[str, int] = defaultdict(int)
        #: Start times of the subscriptions by shard.
        self.subscriptions: dict[str, list[float]] = defaultdict(list)
        self._lock = threading.Lock()

    def __exit__(self, *_: object) -> None:
        self.longest = 0.0
        super().__exit__()

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        operation = request.headers["X-Amz-Target"].rpartition(".")[2]
        with self._lock:
            self.operations[operation] += 1
        if operation != "SubscribeToShard":
            super().answer(request, body)
            return
        parameters = json.loads(body)
        now = time.monotonic()
        with self._lock:
            starts = self.subscriptions[parameters["ShardId"]]
            if starts and now - starts[-1] < self.again:
                error = {"__type": "ResourceInUseException", "message": "a subscription was made less than 5 s ago"}
                reply(request, 400, json.dumps(error).encode(), {"Content-Type": "application/x-amz-json-1.1"})
                return
            starts.append(now)
        try:
            start_event_stream(request)
            self._send(request, parameters, now)
        except (OSError, BotoCoreError):  # the subscriber disconnected, or the test ended
            return

    def _send(self, request: BaseHTTPRequestHandler, parameters: dict[str, Any], started: float) -> None:
        client, shard = self.kinesis.client(), parameters["ShardId"]
        start = dict(parameters["StartingPosition"])
        position = {"ShardIteratorType": start.pop("Type")}
        if "SequenceNumber" in start:
            position["StartingSequenceNumber"] = last = start.pop("SequenceNumber")
        else:
            last = "0"
        arn = parameters["ConsumerARN"].partition("/consumer/")[0]
        iterator = client.get_shard_iterator(StreamARN=arn, ShardId=shard, **position, **start)["ShardIterator"]
        while iterator is not None:
            if self.subscriptions[shard][-1] != started:
                error = {"message": "another subscription took over"}
                send(request, frame("exception", "ResourceInUseException", error))
                break
            page = client.get_records(ShardIterator=iterator, Limit=self.records)
            last = page["Records"][-1]["SequenceNumber"] if page["Records"] else last
            iterator = page.get("NextShardIterator")
            send(request, frame("event", "SubscribeToShardEvent", self._make_event(page, last)))
            if time.monotonic() - started > self.longest:
                break
            if not page["Records"]:
                time.sleep(self.silence)
        send(request, b"")

    @staticmethod
    def _make_event(page: dict[str, Any], last: str) -> dict[str, Any]:
        records = [
            {
                **record,
                "Data": base64.b64encode(record["Data"]).decode(),
                "ApproximateArrivalTimestamp": record["ApproximateArrivalTimestamp"].timestamp(),
            }
            for record in page["Records"]
        ]
        event = {"Records": records, "MillisBehindLatest": page["MillisBehindLatest"]}
        if page.get("NextShardIterator") is None:
            return {**event, "ChildShards": page.get("ChildShards", [])}
        return {**event, "ContinuationSequenceNumber": last}
