"""Build the database of `headrace live` from Pagila's dump. A script for developers, not part of a wheel.

    python plugins/demo/tools/make_pagila.py --pagila FOLDER [--out plugins/demo-data/headrace_demo_data/pagila]

FOLDER contains pagila-schema.sql and pagila-data.sql, the git blobs in BLOBS. The script writes pagila.sql.xz: tables,
rows, then keys, indexes and triggers. SOURCE.md next to it lists the differences from Pagila. The same input and the same
liblzma give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import re
from pathlib import Path

BLOBS = {
    "pagila-schema.sql": "762d0a82dec3c3d8a56e1970c5581dc77ec0a650",
    "pagila-data.sql": "709baeb73c4749f2fbe7430ec7c52a2a2370bf12",
}
#: Replacements in the schema: its partitions are for 2022, but the rows are from 2020.
PARTITIONS = ("p2022_", "p2020_"), ("'2022-", "'2020-")
#: Later versions of Pagila have this key. Without a key, PostgreSQL rejects updates of a replicated table.
PAYMENT_KEY = "ALTER TABLE public.payment ADD CONSTRAINT payment_pkey PRIMARY KEY (payment_date, payment_id);\n"
#: First key of the schema. The rows are inserted before it, as pg_dump does.
FIRST_KEY = "ALTER TABLE ONLY public.actor\n    ADD CONSTRAINT actor_pkey"


def main() -> None:
    """Read and check the dump, combine its parts, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pagila", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[2] / "demo-data/headrace_demo_data/pagila")
    arguments = parser.parse_args()
    schema, rows = (read(arguments.pagila / name, blob) for name, blob in BLOBS.items())
    for old, new in PARTITIONS:
        schema = schema.replace(old, new)
    tables, key, rest = schema.partition(FIRST_KEY)
    assert key
    text = strip_comments(tables) + strip_comments(rows) + PAYMENT_KEY + strip_comments(key + rest)
    (arguments.out / "pagila.sql.xz").write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def read(file: Path, blob: str) -> str:
    """Read a file. SystemExit unless it is the git blob ``blob``."""
    content = file.read_bytes()
    found = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324 - git's own
    if found != blob:
        raise SystemExit(f"{file} is the blob {found}, not {blob}")
    return content.decode()


def strip_comments(sql: str) -> str:
    """Remove comments, empty lines and owners."""
    return re.sub(r"^(--.*|ALTER .* OWNER TO postgres;)?\n", "", sql, flags=re.MULTILINE)


if __name__ == "__main__":
    main()
