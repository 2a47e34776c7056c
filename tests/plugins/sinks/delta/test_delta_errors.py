from __future__ import annotations

import pytest

from headrace import ConfigError, DataError, RetriableError
from headrace_sinks import DeltaSink

SINK = DeltaSink(path="/lake")


@pytest.mark.parametrize(
    "name",
    [
        "ConcurrentAppendException",
        "ConcurrentDeleteReadException",
        "ConcurrentDeleteDeleteException",
        "ConcurrentTransactionException",
        "ConcurrentWriteException",
        "MetadataChangedException",
        "ProtocolChangedException",
    ],
)
def test_conflicts_with_other_writers_are_retriable(name: str) -> None:
    error = SINK.explain(RuntimeError(f"io.delta.exceptions.{name}: [DELTA_X] files were added"))
    assert isinstance(error, RetriableError)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: name.", DataError),
        (
            "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint c (a > 0) violated by row with values:\n - a : 5",
            DataError,
        ),
        ("[DELTA_CANNOT_CREATE_LOG_PATH] Cannot create file:/proc/lake/shop/orders/_delta_log", ConfigError),
        ("[DELTA_PATH_EXISTS] Cannot write to already existent path file:/lake/shop/orders", RetriableError),
        ("[DELTA_CANNOT_MODIFY_APPEND_ONLY] This table is configured to only allow appends.", ConfigError),
        ("[DELTA_UNSUPPORTED_FEATURES_FOR_WRITE] Unsupported Delta write feature: rowTracking", ConfigError),
        ("java.io.FileNotFoundException: File file:/lake/a/part-0.parquet does not exist", RetriableError),
    ],
)
def test_known_errors_have_a_class_and_no_values(text: str, kind: type[Exception]) -> None:
    error = SINK.explain(RuntimeError(text))
    assert isinstance(error, kind)
    assert "a : 5" not in str(error)
