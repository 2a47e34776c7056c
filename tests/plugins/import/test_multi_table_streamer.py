"""Tables of a HoodieMultiTableStreamer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace import ConfigError


def write_job(folder: Path, options: str, tables: str, topics: Mapping[str, str]) -> None:
    """Write the command and the properties of a job. ``topics``: name of a table's file, before `_config.properties` → its topic."""
    main_class = "org.apache.hudi.utilities.streamer.HoodieMultiTableStreamer"
    command = f"spark-submit --class {main_class} hudi.jar --props main.properties {options}"
    (folder / "run.sh").write_text(command, encoding="utf-8")
    main = f"hoodie.streamer.ingestion.tablesToBeIngested={tables}\nbootstrap.servers=broker:9092\n"
    (folder / "main.properties").write_text(main, encoding="utf-8")
    for name, topic in topics.items():
        text = f"hoodie.streamer.source.kafka.topic={topic}\nhoodie.datasource.write.recordkey.field=id\n"
        (folder / f"{name}_config.properties").write_text(text, encoding="utf-8")


def test_multi_table_streamer(importer: Any, tmp_path: Path) -> None:
    main = (
        "hoodie.streamer.ingestion.tablesToBeIngested=shop.orders,shop.people\n"
        "hoodie.streamer.ingestion.shop.orders.configFile=s3://conf/orders.properties\n"
        "hoodie.streamer.ingestion.shop.people.configFile=s3://conf/people.properties\n"
        "bootstrap.servers=broker:9092\n"
    )
    (tmp_path / "main.properties").write_text(main, encoding="utf-8")
    for name in ("orders", "people"):
        text = f"hoodie.streamer.source.kafka.topic={name}\nhoodie.datasource.write.recordkey.field={name}_id\n"
        (tmp_path / f"{name}.properties").write_text(text, encoding="utf-8")
    result = importer.run(tmp_path / "main.properties")
    importer.check(result)
    pipeline = yaml.safe_load(result.pipeline)
    assert pipeline["source"]["kafka"] == {"bootstrap.servers": "broker:9092", "subscribe": ["orders", "people"]}
    assert pipeline["tables"] == [
        {"source": "orders", "target": "shop.orders", "key": ["orders_id"]},
        {"source": "people", "target": "shop.people", "key": ["people_id"]},
    ]
    with pytest.raises(ConfigError) as error:
        importer.run(tmp_path / "main.properties", take_over=True)
    assert "--base-path-prefix" in str(error.value)


@pytest.mark.parametrize("take_over", [False, True])
def test_tables_of_multi_table_streamer_have_their_own_names_and_folders(
    take_over: bool, importer: Any, tmp_path: Path
) -> None:
    """Hudi ignores --target-table for several tables; one without a database is in the database `default`."""
    options = "--config-folder ./ --base-path-prefix s3://lake/hudi/ --target-table default.orders --op UPSERT"
    topics = {"default_orders": "shop.orders", "default_people": "shop.people"}
    write_job(tmp_path, options, "orders,people", topics)
    with (tmp_path / "default_people_config.properties").open("a", encoding="utf-8") as file:
        file.write("hoodie.streamer.ingestion.targetBasePath=s3://lake/hudi/default/persons\n")
    result = importer.run(tmp_path / "run.sh", tmp_path / "main.properties", take_over=take_over)
    importer.check(result)
    pipeline = yaml.safe_load(result.pipeline)
    targets = ["orders", "persons"] if take_over else ["default.orders", "default.people"]
    assert [table["target"] for table in pipeline["tables"]] == targets
    assert pipeline["sink"]["hudi"]["path"] == f"s3://lake/hudi/default{'' if take_over else '/headrace'}"
    assert "unknown options" not in str(result.report)


def take_over(importer: Any, folder: Path, *folders: str, options: str = "") -> Any:
    """Import one job for each folder with --take-over."""
    files = [folder / f"{number}.sh" for number in range(len(folders))]
    for number, (file, path) in enumerate(zip(files, folders, strict=True)):
        source = f"--hoodie-conf hoodie.streamer.source.dfs.root=s3://events/t{number} {options}"
        command = f"spark-submit --class HoodieStreamer hudi.jar --target-base-path '{path}' {source}"
        file.write_text(command, encoding="utf-8")
    result = importer.run(*files, take_over=True)
    importer.check(result)
    return result


@pytest.mark.parametrize(
    ("folders", "path", "targets"),
    [
        (["s3://lake/hudi/shop/a", "s3://lake/hudi/crm/a/"], "s3://lake/hudi", ["shop.a", "crm.a"]),
        (["s3://lake/shop/a", "s3://lake/b"], "s3://lake", ["shop.a", "b"]),
        (["lake/shop/a", "crm/a"], ".", None),
        (["shop/a", "crm/a"], ".", ["shop.a", "crm.a"]),
        (["/data/shop/a", "/data/crm/a"], "/data", ["shop.a", "crm.a"]),
        (["s3://one/a", "s3://two/a"], "", None),
        (["s3://lake/x/shop/a", "s3://lake/y/shop/a"], "", None),
        (["/shop/a", "/crm/a"], "", None),
        (["${ONE}/a", "${TWO}/a"], "", None),
        (["s3://lake/shop.v1/a", "s3://lake/crm/a"], "", None),
    ],
)
def test_tables_of_several_folders_are_taken_over_in_them(
    folders: list[str], path: str, targets: list[str] | None, importer: Any, tmp_path: Path
) -> None:
    if targets is None:
        with pytest.raises(
            ConfigError, match=r"the tables have different parent folders|cannot be the name of a table"
        ):
            take_over(importer, tmp_path, *folders)
        return
    pipeline = yaml.safe_load(take_over(importer, tmp_path, *folders).pipeline)
    assert pipeline["sink"]["hudi"]["path"] == path
    assert [table["target"] for table in pipeline["tables"]] == targets


@pytest.mark.parametrize(("database", "is_reported"), [("shop", False), ("lake", True)])
def test_database_of_the_catalog_is_the_folder(database: str, is_reported: bool, importer: Any, tmp_path: Path) -> None:
    options = f"--enable-sync --hoodie-conf hoodie.datasource.hive_sync.database={database}"
    result = take_over(importer, tmp_path, "s3://lake/shop/a", "s3://lake/b", options=options)
    assert ("each folder is the database of its tables" in " ".join(str(result.report).split())) is is_reported


def test_databases_below_one_prefix_are_taken_over(importer: Any, tmp_path: Path) -> None:
    topics = {"shop_orders": "shop_orders", "crm_people": "crm_people"}
    write_job(tmp_path, "--base-path-prefix s3://lake/hudi", "shop.orders,crm.people", topics)
    result = importer.run(tmp_path / "run.sh", tmp_path / "main.properties", take_over=True)
    importer.check(result)
    pipeline = yaml.safe_load(result.pipeline)
    assert pipeline["sink"]["hudi"]["path"] == "s3://lake/hudi"
    assert [table["target"] for table in pipeline["tables"]] == ["shop.orders", "crm.people"]


def test_files_of_tables_are_found_at_their_paths(importer: Any, tmp_path: Path) -> None:
    start = "hoodie.streamer.ingestion."
    text = f"{start}tablesToBeIngested=d.c\n{start}d.c.configFile=config/c.properties\nbootstrap.servers=b:9092\n"
    (tmp_path / "all.properties").write_text(text, encoding="utf-8")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/c.properties").write_text("hoodie.streamer.source.kafka.topic=c\n", encoding="utf-8")
    pipeline = yaml.safe_load(importer.run(tmp_path / "all.properties").pipeline)
    assert pipeline["source"]["kafka"]["subscribe"] == ["c"]
