"""Marks of batches as Delta's application transactions (``txnAppId``, ``txnVersion``).

Delta keeps the newest ``txnVersion`` of each ``txnAppId`` in the table's state, however old the commit is, and skips a write whose
version is not higher. A batch that is repeated with an older checkpoint has a lower number or other records, and must be written. The
version therefore also has a fingerprint of the batch's digest, and an epoch that increases when the number does not.

The numbers of a view's refreshes are times in milliseconds, and too large for a version: it has their last digits, and the fingerprint is also that
of the number. The last digits begin again every 25 days, with a new epoch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sdk import Batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FINGERPRINT_BITS, _NUMBER_BITS = 24, 31
_NUMBERS = 1 << _NUMBER_BITS
#: Settings that Delta reads when it commits. MERGE has no options of its own.
_APP_ID, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True, order=True)
class BatchVersion:
    """``txnVersion`` of a batch. Versions of one pipeline increase with each commit."""

    epoch: int
    #: Last digits of the batch's number: all of them if it is below 2 ** 31.
    number: int
    #: 24 bits of the digest; 0 without a digest. Of a larger number, the digest includes the number.
    fingerprint: int

    @classmethod
    def parse(cls, version: int) -> BatchVersion:
        """Parse a ``txnVersion``."""
        numbered, fingerprint = divmod(version, 1 << _FINGERPRINT_BITS)
        return cls(*divmod(numbered, 1 << _NUMBER_BITS), fingerprint)

    @classmethod
    def after(cls, stored: BatchVersion | None, batch: Batch) -> BatchVersion:
        """Return the version of a batch that is higher than the stored one."""
        epoch = stored.epoch if stored else 0
        version = cls(epoch, batch.id % _NUMBERS, _find_fingerprint(_complete_digest(batch)))
        return version if stored is None or version > stored else cls(epoch + 1, version.number, version.fingerprint)

    def __int__(self) -> int:
        """Return the ``txnVersion``."""
        return ((self.epoch << _NUMBER_BITS) + self.number << _FINGERPRINT_BITS) + self.fingerprint

    def is_applied(self, batch: Batch) -> bool | None:
        """Return whether the table has a batch, if this is its pipeline's stored version. None if unknown (``Batch.is_applied``)."""
        if batch.id >= _NUMBERS:
            found = self.number, self.fingerprint
            is_applied: bool | None = found == (batch.id % _NUMBERS, _find_fingerprint(_complete_digest(batch)))
        else:
            is_applied = self._is_applied_number(batch)
        # After an older checkpoint, the table also has batches of earlier epochs, whose numbers are not stored.
        return None if self.epoch and not is_applied else is_applied

    def _is_applied_number(self, batch: Batch) -> bool | None:
        if not self.fingerprint:
            digest = ""
        elif self.fingerprint == _find_fingerprint(batch.digest):
            digest = batch.digest
        else:
            digest = "another"
        return batch.is_applied([f"{batch.mark_prefix}{self.number}:{digest}"])


def find_app_id(batch: Batch) -> str:
    """Return the ``txnAppId`` of a batch's pipeline."""
    return f"headrace:{batch.pipeline}"


@contextmanager
def mark_commits(spark: SparkSession, batch: Batch, version: BatchVersion) -> Iterator[None]:
    """Let commits of the session have the batch's version, and its mark as ``userMetadata``. The session is headrace's own clone."""
    settings = {_APP_ID: find_app_id(batch), _VERSION: str(int(version)), _USER_METADATA: batch.mark}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)


def _complete_digest(batch: Batch) -> str:
    """Return the digest of a batch, with its number if a version has only its last digits."""
    return batch.digest if batch.id < _NUMBERS else f"{batch.id}:{batch.digest}"


def _find_fingerprint(digest: str) -> int:
    if not digest:
        return 0
    found = int.from_bytes(hashlib.sha256(digest.encode()).digest()[: _FINGERPRINT_BITS // 8], "big")
    return found or 1
