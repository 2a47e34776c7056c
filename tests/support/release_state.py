"""State of a release: checkpoint and tables that its version wrote, for the upgrade test of later versions.

::

    python -m tests.support.release_state    # writes tests/data/releases/<version>.tar.xz with this version

Run it in the commit of a release. The files contain absolute paths (Iceberg's metadata, Spark's log of files), so the state is always in FOLDER.
"""

from __future__ import annotations

import fcntl
import shutil
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from tests.support.bronze import Bronze
from tests.support.dist import ROOT
from tests.support.pipelines import COLUMNS, TOPIC, configure

from headrace import Pipeline, __version__

FOLDER = Path("/tmp/headrace-release-state")
STATES = ROOT / "tests/data/releases"
FILE = FOLDER / "pipeline.yaml"
SINKS = ("iceberg", "hudi", "delta")
ARP = {"artist_id": 1, "name": "Arp", "nationality": "German"}
BAUER = {"artist_id": 2, "name": "Bauer", "nationality": "Austrian"}
COOL = {"artist_id": 3, "name": "Cool", "nationality": "American"}
DIX = {"artist_id": 4, "name": "Dix", "nationality": "German", "born": 1891}
ERNST = {"artist_id": 5, "name": "Ernst", "nationality": "German", "born": 1891}
#: Position of the snapshot, which is older than all changes, and one that is newer than all changes of the release.
OLD, NEW = 1000, 9000


@contextmanager
def hold_folder() -> Iterator[Path]:
    """Keep the folder for the time of a block; another test run on this machine waits."""
    with FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir()
        try:
            yield FOLDER
        finally:
            shutil.rmtree(FOLDER)


def write_state() -> None:
    """Run two batches: a snapshot, then an update, a delete, a new column, an insert and a damaged record."""
    config = configure(FOLDER, *SINKS)
    FILE.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    bronze = Bronze(FOLDER / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    for row in (ARP, BAUER, COOL):
        artists.snapshot(row)
    bronze.flush()
    Pipeline.from_file(FILE).run()
    artists.update(ARP, {**ARP, "nationality": "French"})
    artists.delete(BAUER)
    artists.columns["born"] = "int"
    artists.insert(DIX)
    artists.event("?", None, ARP)
    bronze.flush()
    Pipeline.from_file(FILE).run()


def add_changes() -> int:
    """Add changes of all kinds after an upgrade, and late ones that must have no effect; return their number."""
    bronze = Bronze(FOLDER / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns={**COLUMNS, "born": "int"})
    bronze.lsn, artists.offset = NEW, 100
    artists.event("u", None, {**BAUER, "name": "late, after its delete"}, lsn=OLD + 1)
    artists.event("u", None, {**ARP, "name": "late, after its update"}, lsn=OLD + 1)
    artists.update(COOL, {**COOL, "nationality": "Swiss", "born": 1897})
    artists.insert(ERNST)
    artists.delete(DIX)
    added = len(artists.pending)
    bronze.flush()
    return added


#: Rows after the changes of ``add_changes``.
ROWS: list[dict[str, Any]] = [
    {**ARP, "nationality": "French", "born": None},
    {**COOL, "nationality": "Swiss", "born": 1897},
    ERNST,
]


def main() -> None:
    """Write the archive of this version."""
    STATES.mkdir(exist_ok=True)
    archive = STATES / f"{__version__}.tar.xz"
    with hold_folder():
        write_state()
        with tarfile.open(archive, "w:xz") as tar:
            tar.add(FOLDER, arcname=".")
    sys.stdout.write(f"{archive}\n")


if __name__ == "__main__":
    main()
