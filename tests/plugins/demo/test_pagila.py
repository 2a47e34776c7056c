"""Database of `headrace live`: complete, small, and with its license."""

from __future__ import annotations

import lzma
import re
from collections import Counter
from pathlib import Path

DATA = Path(__file__).parents[3] / "plugins/demo-data/headrace_demo_data/pagila"


def rows() -> Counter[str]:
    """Return table → number of rows; rows of a partition count for its parent table."""
    text = lzma.decompress((DATA / "pagila.sql.xz").read_bytes()).decode()
    found: Counter[str] = Counter()
    for table, block in re.findall(
        r"^COPY public\.(\w+) [^\n]* FROM stdin;\n(.*?)^\\\.$", text, re.MULTILINE | re.DOTALL
    ):
        found[re.sub(r"_p\d+_\d+$", "", table)] += block.count("\n")
    return found


def test_every_table_has_its_rows() -> None:
    found = rows()
    assert (len(found), found.total()) == (15, 46_273)
    assert (found["payment"], found["rental"], found["film"]) == (16_049, 16_044, 1_000)


def test_database_is_small_and_names_its_origin() -> None:
    assert {path.name for path in DATA.iterdir()} == {"LICENSE.txt", "SOURCE.md", "pagila.sql.xz"}
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 1_500_000
    assert "Devrim" in (DATA / "LICENSE.txt").read_text(encoding="utf-8")
