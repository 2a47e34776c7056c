"""Tables of a HoodieMultiTableStreamer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace import ConfigError


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
    command = (
        "spark-submit --class org.apache.hudi.utilities.streamer.HoodieMultiTableStreamer hudi.jar --props main.properties "
        "--config-folder ./ --base-path-prefix s3://lake/hudi/ --target-table default.orders --op UPSERT"
    )
    (tmp_path / "run.sh").write_text(command, encoding="utf-8")
    main = "hoodie.streamer.ingestion.tablesToBeIngested=orders,people\nbootstrap.servers=broker:9092\n"
    (tmp_path / "main.properties").write_text(main, encoding="utf-8")
    for name in ("orders", "people"):
        text = f"hoodie.streamer.source.kafka.topic=shop.{name}\nhoodie.datasource.write.recordkey.field=id\n"
        (tmp_path / f"default_{name}_config.properties").write_text(text, encoding="utf-8")
    with (tmp_path / "default_people_config.properties").open("a", encoding="utf-8") as file:
        file.write("hoodie.streamer.ingestion.targetBasePath=s3://lake/hudi/default/persons\n")
    result = importer.run(tmp_path / "run.sh", tmp_path / "main.properties", take_over=take_over)
    importer.check(result)
    pipeline = yaml.safe_load(result.pipeline)
    targets = ["orders", "persons"] if take_over else ["default.orders", "default.people"]
    assert [table["target"] for table in pipeline["tables"]] == targets
    assert pipeline["sink"]["hudi"]["path"] == f"s3://lake/hudi/default{'' if take_over else '/headrace'}"
    assert "unknown options" not in str(result.report)


def test_files_of_tables_are_found_at_their_paths(importer: Any, tmp_path: Path) -> None:
    start = "hoodie.streamer.ingestion."
    text = f"{start}tablesToBeIngested=d.c\n{start}d.c.configFile=config/c.properties\nbootstrap.servers=b:9092\n"
    (tmp_path / "all.properties").write_text(text, encoding="utf-8")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/c.properties").write_text("hoodie.streamer.source.kafka.topic=c\n", encoding="utf-8")
    pipeline = yaml.safe_load(importer.run(tmp_path / "all.properties").pipeline)
    assert pipeline["source"]["kafka"]["subscribe"] == ["c"]
