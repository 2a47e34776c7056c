"""Properties files of Hudi Streamer, which are not Java properties, with the files that they include."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.sdk import ConfigError
from headrace_import.input_files import read_text

INCLUDE = "include"


def is_streamer(text: str) -> bool:
    """Return whether properties are those of Hudi Streamer."""
    return any(key.startswith("hoodie.") or key == INCLUDE for key, _ in _iterate_pairs(text))


def read_properties(path: Path, *including: Path, text: str | None = None) -> dict[str, str]:
    """Return the options of a file and of the files that it includes, in place: a later line replaces an earlier one.

    ``including``: files that include this one; ``text``: the text of the file, which the path may not have. ConfigError if a file
    cannot be read, or includes itself.
    """
    if path in including:
        what, fix = "the file includes itself, or a file that includes it", "remove the `include` of one of the files"
        raise ConfigError(what, where=str(path), fix=fix)
    options: dict[str, str] = {}
    for key, value in _iterate_pairs(read_text(path) if text is None else text):
        if key == INCLUDE and value:
            options |= read_properties(find_file(path.parent, value), *including, path)
        options[key] = value
    return options


def find_file(folder: Path, name: str) -> Path:
    """Return a file that another file names: at its path below the folder, or in the folder itself."""
    is_below = not Path(name).is_absolute() and ".." not in Path(name).parts
    return folder / name if is_below and (folder / name).is_file() else folder / Path(name).name


def _iterate_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield key and value of each line with a ``=``. A backslash has no meaning."""
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith("#"):
            yield key.strip(), value.strip()
