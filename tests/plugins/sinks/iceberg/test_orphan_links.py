"""Orphan files behind symbolic links in a table's folder."""

from __future__ import annotations

from pathlib import Path

from headrace_sinks.iceberg.orphans import split_linked


def test_files_behind_a_link_are_not_inside(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "w" / "data" / "p=1").mkdir(parents=True)
    (tmp_path / "w" / "data" / "link").symlink_to(tmp_path / "home")
    (tmp_path / "w" / "data" / "file").symlink_to(tmp_path / "home")
    inside = [
        f"file:{tmp_path}/w/data/p=1/a.parquet",
        f"file://{tmp_path}/w/data/b%20c d.parquet",
        f"{tmp_path}/w/data/file",
    ]
    linked = [f"file:{tmp_path}/w/data/link/letter.txt", f"file:{tmp_path}/w/data/link/sub/photo.jpg", "/etc/passwd"]
    assert split_linked(f"file:{tmp_path}/w", [*inside, *linked]) == (inside, linked)


def test_link_above_the_table_is_not_a_link_in_it(tmp_path: Path) -> None:
    (tmp_path / "disk" / "w" / "data").mkdir(parents=True)
    (tmp_path / "lake").symlink_to(tmp_path / "disk")
    files = [f"file:{tmp_path}/lake/w/data/a.parquet"]
    assert split_linked(f"file:{tmp_path}/lake/w", files) == (files, [])


def test_object_stores_have_no_links() -> None:
    files = ["s3://lake/w/data/a.parquet", "hdfs://name/w/data/b.parquet"]
    assert split_linked("s3://lake/w", files) == (files, [])
