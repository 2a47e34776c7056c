"""Values of the columns of files."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from headrace.sdk import ConfigError

_LIBRARY = "pip install 'headrace[scan]'"


def read_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a file, which its name describes. ConfigError for a file that cannot be read."""
    name = path.name.lower().removesuffix(".gz")
    read = next((read for suffix, read in _READERS.items() if name.endswith(suffix)), None)
    if read is None:
        raise ConfigError(f"{path}: files end with {', '.join(_READERS)}", fix="convert it to JSON lines")
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield from map(_find_row, read(cast("IO[bytes]", file)))
    except ImportError as error:
        raise ConfigError(f"{path}: the package {error.name} is not installed", fix=_LIBRARY) from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or 'cannot be read'}", fix="check the path") from None
    except (ValueError, KeyError) as error:
        # The error may quote a value.
        raise ConfigError(
            f"{path}: its content is damaged ({type(error).__name__})",
            fix="check the file; JSON files have one object per line",
        ) from None


def sample_columns(rows: Iterable[Mapping[str, Any]], limit: int) -> dict[str, list[str]]:
    """Return column → its values that are not empty, of the first rows. Fields of structs have a path: ``address.street``."""
    columns: dict[str, list[str]] = {}
    for row in islice(rows, limit):
        for name, value in _list_values(row, ""):
            if text := str(value).strip():
                columns.setdefault(name, []).append(text)
    return columns


def _list_values(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _list_values(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _list_values(inner, path)
    elif value is not None and not isinstance(value, bool | bytes):
        yield path, value


def _find_row(event: Any) -> Mapping[str, Any]:
    """Return the row of a change event, after the change if there is one; any other object stays."""
    if isinstance(event, Mapping) and isinstance(event.get("payload"), Mapping) and set(event) <= {"schema", "payload"}:
        event = event["payload"]
    if isinstance(event, Mapping) and "op" in event and ("after" in event or "before" in event):
        event = event.get("after") or event.get("before") or {}
    return event if isinstance(event, Mapping) else {"value": event}


def _read_json(file: IO[bytes]) -> Iterator[Any]:
    for line in file:
        if line.strip():
            yield json.loads(line)


def _read_csv(file: IO[bytes]) -> Iterator[Any]:
    yield from csv.DictReader(line.decode("utf-8-sig") for line in file)


def _read_parquet(file: IO[bytes]) -> Iterator[Any]:
    from pyarrow import parquet

    for batch in parquet.ParquetFile(file).iter_batches(1000):
        yield from batch.to_pylist()


def _read_avro(file: IO[bytes]) -> Iterator[Any]:
    import fastavro

    yield from fastavro.reader(file)


_READERS: dict[str, Callable[[IO[bytes]], Iterator[Any]]] = {
    ".json": _read_json,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".avro": _read_avro,
}
