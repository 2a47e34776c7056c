"""Queue of Amazon SQS with S3 event notifications."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, TypeVar

from headrace.sdk import ConfigError, HeadraceError
from headrace_aws.clients import error_code, explain_error, make_client
from headrace_sources.notifications.notifications_config import NotificationsConfig

_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")
#: Most messages of one request. With a wait, SQS looks for messages on all its servers.
_PER_REQUEST, _WAIT_SECONDS = 10, 1
#: Seconds after which received messages are handled, so that none becomes visible again before.
_RECEIVE_SECONDS = 5
_COUNT = "ApproximateNumberOfMessages"
#: The run shows a queue that does not respond, and repeats the request.
_ATTEMPTS = 2


@dataclass(frozen=True)
class Message:
    """Received message. ``handle`` deletes it; ``sent``: seconds since 1970 by the clock of SQS."""

    id: str
    handle: str
    body: str
    sent: float


class NotificationQueue:
    """Client of one queue."""

    def __init__(self, config: NotificationsConfig) -> None:
        self._url = config.queueUrl
        self._where = f"source files, queue {config.queueUrl}"
        region = config.find_region()
        self._client = make_client(
            "sqs",
            region,
            config.identity(region).open_session("sqs"),
            endpoint=config.endpoint,
            attempts=_ATTEMPTS,
            where=self._where,
        )

    def receive(self, limit: int) -> list[Message]:
        """Return up to ``limit`` available messages, or those of some seconds. SQS hides them until they are deleted or time out.

        A response with fewer messages than requested is the last one: to wait for each message of a steady flow would never end.
        """
        messages: dict[str, Message] = {}
        count, is_full, end = -1, True, time.monotonic() + _RECEIVE_SECONDS
        # A queue with a short timeout returns the same messages again.
        while is_full and count < len(messages) < limit and time.monotonic() < end:
            count, received = len(messages), self._call("sqs:ReceiveMessage", self._receive_some)
            messages.update({found["MessageId"]: _read_message(found) for found in received})
            is_full = len(received) >= _PER_REQUEST
        return list(messages.values())

    def delete(self, messages: Sequence[Message]) -> None:
        """Delete messages. A message that cannot be deleted arrives again."""
        for first in range(0, len(messages), _PER_REQUEST):
            part = messages[first : first + _PER_REQUEST]
            entries = [{"Id": f"{number}", "ReceiptHandle": one.handle} for number, one in enumerate(part)]
            response = self._call("sqs:DeleteMessage", partial(self._delete_some, entries))
            for failed in response.get("Failed", []):
                _LOG.info("%s: a message is not deleted and arrives again: %s", self._where, failed.get("Code"))

    def describe(self) -> str:
        """Return the number of messages in the queue as text."""
        return f"about {self._get_attributes()['Attributes'][_COUNT]} messages"

    def read_time(self) -> float:
        """Return the time of the clock of SQS in seconds since 1970: at least the ``sent`` of each message that is there now."""
        headers = self._get_attributes()["ResponseMetadata"]["HTTPHeaders"]
        # The header has whole seconds.
        return parsedate_to_datetime(headers["date"]).timestamp() + 1 if "date" in headers else time.time()

    def _get_attributes(self) -> dict[str, Any]:
        return self._call(
            "sqs:GetQueueAttributes",
            lambda: self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=[_COUNT]),
        )

    def _receive_some(self) -> list[dict[str, Any]]:
        response = self._client.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=_PER_REQUEST,
            WaitTimeSeconds=_WAIT_SECONDS,
            AttributeNames=["SentTimestamp"],
        )
        return response.get("Messages", [])  # type: ignore[no-any-return]

    def _delete_some(self, entries: list[dict[str, str]]) -> dict[str, Any]:
        return self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)  # type: ignore[no-any-return]

    def _call(self, action: str, call: Callable[[], _Result]) -> _Result:
        try:
            return call()
        except Exception as error:
            raise self._explain(error, action) from error

    def _explain(self, error: Exception, action: str) -> HeadraceError:
        code = error_code(error)
        if "NonExistentQueue" in code or "QueueDoesNotExist" in code:
            fix = "correct `queueUrl`, which contains the region and the account, or create the queue"
            return ConfigError("no such queue", where=self._where, fix=fix)
        return explain_error(error, action, where=self._where)


def _read_message(found: dict[str, Any]) -> Message:
    sent = int(found.get("Attributes", {}).get("SentTimestamp", 0)) / 1000
    return Message(found["MessageId"], found["ReceiptHandle"], found["Body"], sent)
