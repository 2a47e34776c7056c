"""Rules for the files of Hudi Streamer jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace import ConfigError
from headrace_import.import_report import Kind
from headrace_sources.transports.file_listing import find_topic

JOB = (
    "spark-submit --class HoodieStreamer hudi.jar --target-base-path s3://lake/{0} --target-table {0} "
    "--source-class org.apache.hudi.utilities.sources.JsonDFSSource "
    "--hoodie-conf hoodie.datasource.write.recordkey.field=id --hoodie-conf hoodie.streamer.source.dfs.root="
)


def run(importer: Any, folder: Path, *roots: str, table: str = "") -> Any:
    """Import a job for each root, with tables of their own or one table."""
    files = [folder / f"{number}.sh" for number in range(len(roots))]
    for number, (file, root) in enumerate(zip(files, roots, strict=True)):
        file.write_text(JOB.format(table or f"t{number}") + root, encoding="utf-8")
    result = importer.run(*files)
    importer.check(result)
    return result


@pytest.mark.parametrize(
    "root", ["/in/2024/01", "s3://in/raw", "/in/day=1/", "2024", "'${LANDING}'", "/raw/2024-01-31"]
)
@pytest.mark.parametrize("below", ["", "2024-01-31/", "2024/01/31/", "day=1/", "shop/"])
def test_rule_of_one_folder_has_all_of_its_files(
    root: str, below: str, importer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANDING", "/landing")
    result = run(importer, tmp_path, root)
    files = f"/data/{root.strip('/')}/{below}"
    assert importer.name_tables(result, find_topic(f"{files}part-0.json"), find_topic(f"{files}a.b+0+1.json")) == [
        "t0",
        "t0",
    ]
    assert "topic" not in str(result.report)


@pytest.mark.parametrize("below", ["", "2024/01/31/", "day=1/"])
def test_rules_of_several_folders_have_their_files(below: str, importer: Any, tmp_path: Path) -> None:
    roots = ["s3://in/shop/2024/01", "s3://in/crm/day=1/", "s3://in/raw"]
    result = run(importer, tmp_path, *roots)
    topics = [find_topic(f"{root.rstrip('/')}/{below}part-0.json") for root in roots]
    assert importer.name_tables(result, *topics) == ["t0", "t1", "t2"]
    assert "other folders below" in " ".join(str(result.report).split())


def test_folders_of_one_topic(importer: Any, tmp_path: Path) -> None:
    roots = ["s3://in/shop/2024/01", "s3://in/shop/2024/02"]
    with pytest.raises(ConfigError, match="the files of these jobs have one topic: shop"):
        run(importer, tmp_path, *roots)
    tables = yaml.safe_load(run(importer, tmp_path, *roots, table="orders").pipeline)["tables"]
    assert {(table["source"], table["target"]) for table in tables} == {("shop", "orders")}


def test_second_table_of_a_folder_is_reported(importer: Any, tmp_path: Path, find_keys: Any) -> None:
    result = run(importer, tmp_path, "s3://in/shop", "s3://in/shop/")
    assert [table["target"] for table in yaml.safe_load(result.pipeline)["tables"]] == ["t0"]
    assert "--target-table" in find_keys(result, Kind.NOT_IMPORTED)
