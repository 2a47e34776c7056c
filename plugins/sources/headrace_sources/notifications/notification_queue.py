"""Queue of Amazon SQS with S3 event notifications."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from headrace.sdk import ConfigError, HeadraceError
from headrace_aws.clients import error_code, explain_error, make_client
from headrace_sources.notifications.notifications_config import NotificationsConfig

_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")
#: Most messages of one request. With a wait, SQS looks for messages on all its servers.
_PER_REQUEST, _WAIT_SECONDS = 10, 1
#: The run shows a queue that does not respond, and repeats the request.
_ATTEMPTS = 2


@dataclass(frozen=True)
class Message:
    """Received message. ``handle`` deletes it."""

    id: str
    handle: str
    body: str


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
        """Return available messages until there are none, or ``limit`` is reached. SQS hides them until they are deleted or time out."""
        messages: dict[str, Message] = {}
        count = -1
        # A queue with a short timeout returns the same messages again.
        while count < len(messages) < limit:
            count = len(messages)
            for found in self._call("sqs:ReceiveMessage", self._receive_some):
                messages[found["MessageId"]] = Message(found["MessageId"], found["ReceiptHandle"], found["Body"])
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
        names = ["ApproximateNumberOfMessages"]
        found = self._call(
            "sqs:GetQueueAttributes",
            lambda: self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=names),
        )
        return f"about {found['Attributes'][names[0]]} messages"

    def _receive_some(self) -> list[dict[str, Any]]:
        response = self._client.receive_message(
            QueueUrl=self._url, MaxNumberOfMessages=_PER_REQUEST, WaitTimeSeconds=_WAIT_SECONDS
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
