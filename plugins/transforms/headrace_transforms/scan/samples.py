"""Values of the columns of files."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

from headrace.sdk import ConfigError
from headrace_transforms.scan.detectors import DETECTORS

_LIBRARY = "pip install 'headrace[scan]'"
_DELIMITERS = ",;\t|"
#: Characters of the longest field of a CSV file.
_LONGEST_FIELD = 1 << 27
#: How to correct a quote without its end.
_CLOSE = "close it; within a quoted value, write each quote twice"
#: Line after the last one of a CSV file.
_END = "\0end of the file\0"
#: Name of the fields of an object whose own names are values.
_ANY_NAME = "*"
#: Characters of a value that are examined. Personal data is short, and patterns are slow on long texts.
_LONGEST_VALUE = 1000


@dataclass
class Sample:
    """Values of a column, or of a field of a struct, as texts. ``path``: the column, and the names of the fields."""

    path: tuple[str, ...]
    values: list[str] = field(default_factory=list)
    #: Whether a value is no text in the file, and whether it is an element of a list.
    has_other_type: bool = False
    has_list: bool = False

    @property
    def name(self) -> str:
        return ".".join(self.path)


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
    except gzip.BadGzipFile:
        fix = "check the file; the name of a file without compression does not end with .gz"
        raise ConfigError(f"{path}: it is not a gzip file, or it is damaged", fix=fix) from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or 'cannot be read'}", fix="check the path") from None
    except _ContentError as error:
        raise ConfigError(f"{path}: {error}", fix=error.fix) from None
    except UnicodeError:
        fix = "convert it: `iconv -f UTF-16 -t UTF-8`, with the encoding of the file in place of UTF-16"
        raise ConfigError(f"{path}: its text is not UTF-8", fix=fix) from None
    except Exception as error:  # noqa: BLE001 - each library has errors of its own for a damaged file
        # The error may quote a value.
        raise ConfigError(
            f"{path}: its content is damaged ({type(error).__name__})",
            fix="check the file; JSON files have one object per line",
        ) from None


def sample_columns(rows: Iterable[Mapping[str, Any]]) -> list[Sample]:
    """Return the values of each column and of each field of a struct, without empty ones."""
    samples: dict[tuple[str, ...], Sample] = {}
    for row in rows:
        for path, value, is_element in _list_values(row):
            text = str(value, "utf-8", "replace") if isinstance(value, bytes) else str(value)
            if text := text.strip():
                sample = samples.setdefault(path, Sample(path))
                sample.values.append(text[:_LONGEST_VALUE])
                sample.has_other_type |= not isinstance(value, str)
                sample.has_list |= is_element
    return list(samples.values())


def _list_values(row: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any, bool]]:
    """Yield path, value, and whether it is an element of a list. A loop, because structs may be nested deeply."""
    stack: list[tuple[tuple[str, ...], Any, bool]] = [((), row, False)]
    while stack:
        path, value, is_element = stack.pop()
        if isinstance(value, Mapping):
            stack += reversed([((*path, name), inner, is_element) for name, inner in _name_fields(value, path)])
        elif isinstance(value, list):
            stack += [(path, inner, True) for inner in reversed(value)]
        elif value is not None and not isinstance(value, bool):
            yield path, value, is_element


def _name_fields(row: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each field. A name that is a value, such as an e-mail address, becomes a value."""
    for name, value in row.items():
        if path and _may_be_value(str(name)):
            yield _ANY_NAME, name
            yield _ANY_NAME, value
        else:
            yield str(name), value


@lru_cache(maxsize=10_000)
def _is_value(name: str) -> bool:
    return any(detector.matches(name.strip()) for detector in DETECTORS if detector.is_strict)


@lru_cache(maxsize=10_000)
def _may_be_value(name: str) -> bool:
    """Return whether the name of a field in an object looks like a value of any kind: a phone number, an address, a person's name."""
    text = name.strip()
    # Names of fields are rarely numbers with points or blanks.
    return any(
        detector.matches(text)
        or bool(detector.kind in ("ip", "phone") and detector.matches_named and detector.matches_named(text))
        for detector in DETECTORS
    )


class _ContentError(Exception):
    """Content of a file that is not rows with the names of columns. The message has no value."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


def _find_row(event: Any) -> Mapping[str, Any]:
    """Return the row of a change event; any other object stays."""
    if isinstance(event, Mapping) and isinstance(event.get("payload"), Mapping) and set(event) <= {"schema", "payload"}:
        event = event["payload"]
    if isinstance(event, Mapping) and "op" in event and ("after" in event or "before" in event):
        event = _join_images(event.get("before"), event.get("after"))
    elif isinstance(event, Mapping) and "data" in event and isinstance(event.get("metadata"), Mapping):
        event = _join_images(event.get("before-image"), event["data"])  # AWS DMS
    row = event if isinstance(event, Mapping) else {"value": event}
    if any(map(_is_value, map(str, row))):
        raise _ContentError("the names of columns are values", "put the object into a column")
    return row


def _join_images(before: Any, after: Any) -> dict[str, Any]:
    """Return the row after a change, with the values that the change removes: readers of changes see them, too."""
    images = [image for image in (before, after) if isinstance(image, Mapping)]
    return {name: value for image in images for name, value in image.items() if value is not None}


def _read_json(file: IO[bytes]) -> Iterator[Any]:
    for line in file:
        if line.strip():
            document = json.loads(line)
            yield from document if isinstance(document, list) else [document]


def _read_csv(file: IO[bytes]) -> Iterator[Any]:
    csv.field_size_limit(_LONGEST_FIELD)
    lines = (line.decode("utf-8-sig").rstrip("\r\n") + "\n" for line in file)
    header = next(lines, "")
    if "\0" in header:
        raise UnicodeError  # UTF-16 without a byte order mark
    delimiter = max(_DELIMITERS, key=lambda mark: len(next(csv.reader([header], delimiter=mark), [])))
    rows = _split_lines(chain([header], lines), delimiter)
    names = next(rows, [])
    _check_header(names)
    for number, values in enumerate(rows, 2):
        if any(values[len(names) :]):
            raise _ContentError(f"row {number} has more fields than the first line", "quote values with a delimiter")
        yield dict(zip(names, values, strict=False))


def _split_lines(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """Yield the fields of each row. A quote that does not close makes one field of all lines behind it."""
    reader = csv.reader(chain(lines, [_END]), delimiter=delimiter)
    start = 1
    while (row := _read_row(reader, start)) != [_END]:
        if row and row[-1].endswith(_END):
            number = reader.line_num - row[-1].count("\n")
            raise _ContentError(f"the quote that opens in line {number} does not close", _CLOSE)
        yield row
        start = reader.line_num + 1


def _read_row(reader: Iterator[list[str]], start: int) -> list[str]:
    """Return the fields of the row that begins in line ``start``."""
    try:
        return next(reader)
    except csv.Error as error:
        if "limit" not in str(error):
            raise
        what = f"the row that begins in line {start} has a value of more than {_LONGEST_FIELD:,} characters"
        raise _ContentError(what, f"if a quote does not close, {_CLOSE}") from None


def _check_header(names: Sequence[str]) -> None:
    """Raise if the first line has values: the report prints the names of columns."""
    if any(map(_is_value, names)):
        raise _ContentError("the first line has values, not the names of columns", "add a first line with the names")
    if len(set(names)) < len(names):
        raise _ContentError("two columns have the same name", "rename one of them")


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
