"""Reference data of ``lookup`` in memory: loaded once, and refreshed between batches."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, DataError, HeadraceError, RetriableError
from headrace.sdk.error_text import first_line, full_text
from headrace.sdk.sessions import move_to_session
from headrace_transforms.reference_rows import ReferenceShape
from headrace_transforms.reference_source import MALFORMED, ReferenceSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger(__name__)
#: Spark's names of a missing path or table.
_MISSING = ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND")


@dataclass(frozen=True)
class _Loaded:
    """Rows of a version."""

    rows: DataFrame
    version: str | None


class ReferenceData:
    """Reference data. All tables of a batch read the same rows."""

    def __init__(self, source: ReferenceSource, shape: ReferenceShape, refresh_seconds: float) -> None:
        self._source, self._shape, self._refresh_seconds = source, shape, refresh_seconds
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None
        #: Rows of the version before: a table that exceeded its time limit may still read them.
        self._outdated: DataFrame | None = None
        self._fault: DataError | None = None
        self._refresh_at, self._is_new_batch = 0.0, True

    def begin_batch(self) -> None:
        """Allow a refresh before the next rows are read."""
        with self._lock:
            self._is_new_batch = True

    def read(self, session: SparkSession) -> DataFrame:
        """Return the rows in a session, and load or refresh them first if that is due."""
        with self._lock:
            if self._loaded is not None and self._loaded.rows.sparkSession.sparkContext is not session.sparkContext:
                self._loaded = self._outdated = self._fault = (
                    None  # They ended with the Spark application that had loaded them.
                )
            if self._loaded is None or (self._is_new_batch and time.monotonic() >= self._refresh_at):
                self._refresh(session)
            self._is_new_batch = False
            if self._fault is not None:  # The tables of a batch fail together. Each gets an error of its own.
                raise DataError(self._fault.what, where=self._fault.where, fix=self._fault.fix)
            assert self._loaded is not None, "`_refresh` raises an error without data"
            return move_to_session(self._loaded.rows, session)

    def _refresh(self, session: SparkSession) -> None:
        """Load the data if its version changed. Data that cannot be read any more stays as it was loaded last."""
        try:
            version = self._source.find_version(session)
            if self._loaded is None or version is None or version != self._loaded.version or self._fault:
                self._load(session, version)
            self._fault, self._refresh_at = None, time.monotonic() + self._refresh_seconds
        except Exception as raised:
            error = self._explain(raised)
            if self._loaded is None:
                raise error from raised
            if isinstance(error, DataError):
                self._fault = error
                return
            self._refresh_at = time.monotonic() + self._refresh_seconds
            _LOG.warning("%s. The run continues with the reference data that was loaded last", error)

    def _load(self, session: SparkSession, version: str | None) -> None:
        frame = self._source.read(session, version)
        self._shape.check_columns(frame)
        rows = self._shape.load(frame)
        if self._outdated is not None:
            self._outdated.unpersist()
        self._outdated = None if self._loaded is None else self._loaded.rows
        self._loaded = _Loaded(rows, version)

    def _explain(self, error: Exception) -> HeadraceError:
        if isinstance(error, HeadraceError):
            return error.at(self._shape.where)
        known = [found for part in self._source.parts if (found := part.explain(error))]
        if known:
            return known[0].at(self._shape.where)
        if MALFORMED in full_text(error):  # The message has the values of the record.
            fix = "correct the record, or the types in `schema`; `mode: DROPMALFORMED` leaves out such records of files"
            return DataError("a record of the reference data cannot be read", where=self._shape.where, fix=fix)
        if "CSV header does not conform" in full_text(error):
            fix = "give all files of the folder the same header"
            return DataError("files have different headers", where=self._shape.where, fix=fix)
        text = first_line(error)
        if any(name in text for name in _MISSING):
            fix = "correct the path or the name, or create the reference data before the start"
            return ConfigError(f"the reference data does not exist: {text}", where=self._shape.where, fix=fix)
        return RetriableError(
            f"the reference data cannot be read: {text}",
            where=self._shape.where,
            fix="make it readable: the batch is tried again",
        )
