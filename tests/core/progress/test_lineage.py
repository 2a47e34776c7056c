"""Places of data by the naming rules of OpenLineage."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.sdk import Dataset


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        (("s3a://lake/silver/", "shop", "orders"), "s3://lake", "silver/shop/orders"),
        (("s3n://lake", "orders"), "s3://lake", "orders"),
        (("s3://lake/topics", "shop.orders/"), "s3://lake", "topics/shop.orders"),
        (("gs://lake/a",), "gs://lake", "a"),
        (("hdfs://node:8020/silver", "orders"), "hdfs://node:8020", "/silver/orders"),
        (("abfss://data@account.dfs.core.windows.net/a",), "abfss://data@account.dfs.core.windows.net", "/a"),
        (("hdfs://user:secret@node:8020/a",), "hdfs://node:8020", "/a"),
        (("file:///data/lake", "a"), "file", "/data/lake/a"),
        (("/data/lake/", "a"), "file", "/data/lake/a"),
        (("lake", "a"), "file", str(Path("lake/a").absolute())),
    ],
)
def test_dataset_of_a_folder(path: tuple[str, ...], namespace: str, name: str) -> None:
    assert Dataset.of_folder(*path) == Dataset(namespace, name)
