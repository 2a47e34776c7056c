"""Lookups in reference data: on static frames, with changes between batches, and in a pipeline."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import yaml
from tests.plugins.transforms.test_row_transforms import envelopes, flat
from tests.plugins.transforms.test_transform_pipelines import write_events
from tests.support.pages import find_block
from tests.support.pipelines import pipeline, rows

from headrace import Pipeline
from headrace.errors import ConfigError, DataError
from headrace.sdk.changes import DETAIL, ERROR, KEY, UNAVAILABLE, Changes
from headrace.testing.transforms import TransformConformance
from headrace_transforms import Lookup, Mask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

spark_only = [pytest.mark.spark, pytest.mark.one_spark]

COUNTRIES = "code,name,region\nCH,Switzerland,Alps\nDE,Germany,\n,Nowhere,\n"
ROW = "id int, name string, country string"


def write_reference(folder: Path, text: str = COUNTRIES, name: str = "countries.csv") -> Path:
    """Write a file with a modification time of its own: some file systems count in seconds."""
    file = folder / name
    last = file.stat().st_mtime if file.exists() else 0.0
    file.write_text(text)
    os.utime(file, (last + 10, last + 10))
    return file


def options_of(file: Path, **changed: Any) -> dict[str, Any]:
    """Return options that look up the country of a row."""
    return {
        "from": {"csv": {"path": str(file), "header": True}},
        "key": {"country": "code"},
        "columns": {"country_name": "name", "region": "region"},
        "refresh.interval": "0 seconds",
        **changed,
    }


def found(changes: Changes, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of flat rows in the order of their ids."""
    names = columns or ("id", "country_name", "region")
    return [tuple(row) for row in changes.frame.sort(f"{KEY}.id").select(*names).collect()]


class TestRows:
    pytestmark = spark_only

    def test_columns_of_a_header_are_found_by_name(self, spark: SparkSession, tmp_path: Path) -> None:
        people = flat(spark, ROW, (1, "a", "CH"), (2, "b", "DE"))
        text = "name,region,code,size\nSwitzerland,Alps,CH,8\nGermany,,DE,83\n"
        source = {"path": str(write_reference(tmp_path, text)), "header": True, "schema": "size INT, code STRING"}
        options = {"from": {"csv": source}, "key": {"country": "code"}, "columns": {"label": "name", "size": "size"}}
        assert found(Lookup(options).process(people), "label", "size") == [("Switzerland", 8), ("Germany", 83)]
        source["schema"] = "code STRING, zise INT"
        with pytest.raises(ConfigError, match="the header has no column 'zise'"):
            Lookup(options).process(people)

    def test_files_with_different_headers(self, spark: SparkSession, tmp_path: Path) -> None:
        write_reference(tmp_path, "code,name\nCH,Switzerland\n", "a.csv")
        write_reference(tmp_path, "name,code\nGermany,DE\n", "b.csv")
        people = flat(spark, ROW, (1, "a", "CH"), (2, "b", "DE"))
        with pytest.raises(DataError, match="files have different headers"):
            Lookup(options_of(tmp_path, columns={"label": "name"})).process(people)

    def test_rows_get_the_columns_of_their_key(self, spark: SparkSession, tmp_path: Path) -> None:
        """A null refers to no row, also if the reference data has a row without a key."""
        people = flat(spark, ROW, (1, "Arp", "CH"), (2, "Höch", "DE"), (3, "Ray", "US"), (4, "Bo", None))
        file = write_reference(tmp_path)
        result = Lookup(options_of(file)).process(people)
        assert result.event_columns == ["id", "name", "country", "country_name", "region"]
        expected: list[tuple[Any, ...]] = [
            (1, "Switzerland", "Alps"),
            (2, "Germany", None),
            (3, None, None),
            (4, None, None),
        ]
        assert found(result) == expected
        filled = Lookup(options_of(file, defaults={"region": "?"})).process(people)
        assert [row[2] for row in found(filled)] == ["Alps", None, "?", "?"]

    def test_missing_key_is_a_dead_letter(self, spark: SparkSession, tmp_path: Path) -> None:
        """A null refers to no row, and a delete needs none."""
        lookup = Lookup(options_of(write_reference(tmp_path), **{"missing.key": "reject"}))
        people = [(1, "Arp", "CH"), (2, "Ray", "US"), (3, "Bo", None), (4, "Xu", "CN")]
        result = lookup.process(flat(spark, ROW, *people, ops="uuud"))
        text = "the reference data has no row for the value of `country`"
        assert found(result, "id", ERROR, DETAIL) == [
            (1, None, None),
            (2, "untransformable", text),
            (3, None, None),
            (4, None, None),
        ]
        both = envelopes(spark, ((5, "Ray", "US"), None, "d"), ((6, "Ray", "US"), (6, "Ray", "CH"), "u"))
        result = lookup.process(both)
        assert found(result, ERROR) == [(None,), (None,)]
        assert found(result, "before.country_name", "after.country_name") == [(None, None), (None, "Switzerland")]

    def test_only_rows_of_when(self, spark: SparkSession, tmp_path: Path) -> None:
        people = flat(spark, ROW, (1, "Arp", "CH"), (2, "Ray", "US"), (3, "Bo", "DE"))
        options = options_of(write_reference(tmp_path), **{"missing.key": "reject", "when": "id <> 2"})
        assert found(Lookup(options).process(people), "id", "country_name", ERROR) == [
            (1, "Switzerland", None),
            (2, None, None),
            (3, "Germany", None),
        ]

    def test_unavailable_key(self, spark: SparkSession, tmp_path: Path) -> None:
        """The stored row has the columns of the unchanged key. A key that is known in part finds nothing."""
        from pyspark.sql import functions as F

        people = flat(spark, ROW, (1, "Arp", None), (2, "Bo", "CH"))
        flags = F.struct((F.col("id") == 1).alias("country"))
        people = replace(people, frame=people.frame.withColumn(UNAVAILABLE, flags))
        file = write_reference(tmp_path)
        result = Lookup(options_of(file, **{"missing.key": "reject"})).process(people)
        names = ("country", "country_name", "region")
        assert found(result, ERROR, *(f"{UNAVAILABLE}.{name}" for name in names)) == [
            (None, True, True, True),
            (None, False, False, False),
        ]
        write_reference(tmp_path, "code,who,rank\nCH,Bo,1\n", "ranks.csv")
        key = {"key": {"country": "code", "name": "who"}, "columns": ["rank"]}
        result = Lookup(options_of(tmp_path / "ranks.csv", **key)).process(people)
        assert found(result, "rank", DETAIL) == [(None, "the event omits a part of the key of `lookup`"), ("1", None)]

    def test_copies_of_a_masked_column_are_found(self, spark: SparkSession, tmp_path: Path) -> None:
        """A looked-up column can be masked, and one that repeats the key is masked before or with the key."""
        people = flat(spark, ROW, (1, "Arp", "CH"))
        options = options_of(write_reference(tmp_path), columns={"iso": "code", "country_name": "name"})
        result = Lookup(options).process(people)
        assert found(Mask(columns={"country_name": {"empty": True}}).process(result), "country_name") == [("",)]
        with pytest.raises(DataError, match="'iso' is computed from 'country', which is masked only later"):
            Mask(columns={"country": {"empty": True}}).process(result)

    def test_columns_that_do_not_fit(self, spark: SparkSession, tmp_path: Path) -> None:
        people, file = flat(spark, ROW, (1, "Arp", "CH")), write_reference(tmp_path)
        with pytest.raises(DataError, match="already has a column 'Name'") as raised:
            Lookup(options_of(file, columns={"Name": "name"})).process(people)
        assert "columns: {new_Name: name}" in str(raised.value)
        with pytest.raises(DataError, match=r"has no column 'regio'(.|\n)*did you mean 'region'"):
            Lookup(options_of(file, columns=["regio"])).process(people)
        with pytest.raises(DataError, match="'id' is int, and 'code' of the reference data is string") as raised:
            Lookup(options_of(file, key={"id": "code"})).process(people)
        assert "put `cast` before `lookup`, or give the column of the files its type with `schema`" in str(raised.value)
        numbers = {"from": {"csv": {"path": str(file), "schema": "code INT, name STRING, region STRING"}}}
        with pytest.raises(DataError, match="a record of the reference data cannot be read") as raised:
            Lookup(options_of(file, key={"id": "code"}, **numbers)).process(people)
        assert "Switzerland" not in str(raised.value)
        options = options_of(file, defaults={"rank": "high"}, columns={"rank": "code"})
        write_reference(tmp_path, "1,x,y\n")
        with pytest.raises(ConfigError, match="the default of 'rank' is not int"):
            Lookup({**options, "key": {"country": "name"}, **numbers}).process(people)
        options["defaults"] = {"rank": 1.7}
        with pytest.raises(ConfigError, match="the default of 'rank' is not int"):
            Lookup({**options, "key": {"country": "name"}, **numbers}).process(people)
        write_reference(tmp_path, "1\n")
        with pytest.raises(DataError, match="a record of the reference data cannot be read"):
            Lookup({**options, "key": {"country": "name"}, "defaults": {}, **numbers}).process(people)


class TestReferenceData:
    pytestmark = spark_only

    def test_key_with_several_rows(self, spark: SparkSession, tmp_path: Path) -> None:
        people = flat(spark, ROW, (1, "Arp", "CH"))
        file = write_reference(tmp_path, "code,name,region,at\nCH,Old,a,1\nCH,New,b,2\n")
        with pytest.raises(DataError, match="has up to 2 rows with the same code") as raised:
            Lookup(options_of(file)).process(people)
        assert str(file) in str(raised.value)
        for duplicates, name in (("first", "Old"), ("last", "New")):
            options = options_of(file, **{"duplicate.key": duplicates, "order.by": ["at"]})
            assert found(Lookup(options).process(people), "country_name") == [(name,)]

    def test_too_much_data(self, spark: SparkSession, tmp_path: Path) -> None:
        people, file = flat(spark, ROW, (1, "Arp", "CH")), write_reference(tmp_path)
        for option, limit in (("max.rows", 1), ("max.bytes", 50)):
            with pytest.raises(DataError, match=rf"has more than {limit} (rows|bytes)") as raised:
                Lookup(options_of(file, **{option: limit})).process(people)
            assert f"raise `{option}`" in str(raised.value)
        # Rows without a key do not count.
        assert found(Lookup(options_of(file, **{"max.rows": 2})).process(people), "region") == [("Alps",)]

    def test_refresh_between_batches(
        self, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A batch keeps what its first table read. Missing data stays, and a wrong key fails the tables until it is repaired."""
        people, file = flat(spark, ROW, (1, "Arp", "CH")), write_reference(tmp_path)
        lookup = Lookup(options_of(file))

        def region() -> Any:
            return found(lookup.process(people), "region")[0][0]

        lookup.begin_batch()
        assert region() == "Alps"
        write_reference(tmp_path, "code,name,region\nCH,Schweiz,Mitte\n")
        assert region() == "Alps"
        lookup.begin_batch()
        assert region() == "Mitte"
        file.unlink()
        lookup.begin_batch()
        with caplog.at_level(logging.WARNING):
            assert (region(), region()) == ("Mitte", "Mitte")
        [message] = [record.getMessage() for record in caplog.records if "reference data" in record.getMessage()]
        assert "does not exist" in message
        assert "continues with the reference data that was loaded last" in message
        with pytest.raises(ConfigError, match="the reference data does not exist") as raised:
            Lookup(options_of(file)).process(people)
        assert "create the reference data before the start" in str(raised.value)
        write_reference(tmp_path, "code,name,region\nCH,a,b\nCH,c,d\n")
        lookup.begin_batch()
        for _ in range(2):
            with pytest.raises(DataError, match="up to 2 rows with the same code"):
                region()
        write_reference(tmp_path, "code,name,region\nCH,a,West\n")
        lookup.begin_batch()
        assert region() == "West"

    def test_unchanged_version_is_not_read_again(self, spark: SparkSession, tmp_path: Path) -> None:
        """The file changes without a new size or modification time, so that only a second read would show it."""
        people, file = flat(spark, ROW, (1, "Arp", "CH")), write_reference(tmp_path)
        lookup = Lookup(options_of(file))
        assert found(lookup.process(people), "region") == [("Alps",)]
        stat = file.stat()
        file.write_text(COUNTRIES.replace("Alps", "Alpz"))
        os.utime(file, (stat.st_mtime, stat.st_mtime))
        lookup.begin_batch()
        assert found(lookup.process(people), "region") == [("Alps",)]


class TestHistory:
    pytestmark = spark_only
    OPTIONS: ClassVar = {"key": {"country": "code"}, "columns": ["rate"], "valid.from": "since", "valid.at": "at"}

    def reference(self, folder: Path, text: str) -> dict[str, Any]:
        file = write_reference(folder, text, "rates.csv")
        schema = "code STRING, rate INT, since TIMESTAMP, until TIMESTAMP"
        return {"from": {"csv": {"path": str(file), "schema": schema}}, **self.OPTIONS}

    def test_row_that_was_valid_at_the_time_of_the_change(self, spark: SparkSession, tmp_path: Path) -> None:
        text = "CH,1,,2020-01-01\nCH,3,2022-01-01,\nCH,2,2020-01-01,2021-01-01\n"
        options = self.reference(tmp_path, text)
        times = [datetime(year, 1, 1) for year in (2019, 2020, 2021, 2023)]  # noqa: DTZ001 - PySpark's timestamps are naive
        people = flat(
            spark, "id int, country string, at timestamp", *[(n, "CH", t) for n, t in enumerate(times)], (4, "CH", None)
        )
        with_end = Lookup({**options, "valid.to": "until", "missing.key": "reject"}).process(people)
        assert found(with_end, "id", "rate", ERROR) == [
            (0, 1, None),
            (1, 2, None),
            (2, None, "untransformable"),
            (3, 3, None),
            (4, None, None),
        ]
        assert [row[0] for row in found(Lookup(options).process(people), "rate")] == [1, 2, 2, 3, None]

    def test_period_within_a_longer_period(self, spark: SparkSession, tmp_path: Path) -> None:
        options = self.reference(tmp_path, "CH,10,2020-01-01,2020-12-31\nCH,5,2020-03-01,2020-03-08\n")
        times = [datetime(2020, month, 2) for month in (2, 3, 4)]  # noqa: DTZ001 - PySpark's timestamps are naive
        people = flat(spark, "id int, country string, at timestamp", *[(n, "CH", t) for n, t in enumerate(times)])
        changes = Lookup({**options, "valid.to": "until"}).process(people)
        assert [row[0] for row in found(changes, "rate")] == [10, 5, 10]

    def test_two_rows_that_begin_at_the_same_time(self, spark: SparkSession, tmp_path: Path) -> None:
        options = self.reference(tmp_path, "CH,1,2020-01-01,2021-01-01\nCH,2,2020-01-01,\n")
        people = flat(spark, "id int, country string, at timestamp", (1, "CH", datetime(2020, 5, 1)))  # noqa: DTZ001
        with pytest.raises(DataError, match="up to 2 rows with the same code, since"):
            Lookup(options).process(people)
        options |= {"duplicate.key": "last", "order.by": ["rate"]}
        assert found(Lookup(options).process(people), "rate") == [(2,)]
        dates = flat(spark, "id int, country string, at string", (1, "CH", "2020"))
        with pytest.raises(DataError, match="'at' is string, and 'since' of the reference data is timestamp"):
            Lookup(options).process(dates)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"from": {"csv": {}}}, "`path` is missing"),
        ({"from": {"iceberg": {"warehouse": "lake"}}}, "`table` is missing"),
        ({"from": {"icberg": {"warehouse": "lake"}}}, "did you mean 'iceberg'"),
        ({"from": {"jdbc": {"connection.url": "jdbc:db:x"}}}, "connection.url"),
        ({"columns": {"_headrace_x": "name"}}, "is not a valid column name"),
        ({"columns": {"a": "name", "A": "region"}}, "two columns would be named"),
        ({"order.by": ["name"]}, "`order.by` goes with"),
        ({"duplicate.key": "last"}, "`order.by` goes with"),
        ({"valid.from": "since"}, "`valid.from` and `valid.at` go together"),
        ({"valid.to": "until"}, "`valid.from` and `valid.at` go together"),
        ({"defaults": {"name": "?"}}, "`defaults` has 'name', which is no name in `columns`"),
        ({"defaults": {"region": "?"}, "missing.key": "reject"}, "`defaults` go with `missing.key: keep`"),
        ({"refresh.interval": "soon"}, "'soon' is not an interval"),
    ],
)
def test_wrong_options(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Lookup({**options_of(Path("countries.csv")), **changed})


class TestLookupKit(TransformConformance):
    pytestmark = spark_only
    plugin_class = Lookup
    schema = "id int, name string, country string"
    golden = (
        ((1, "Arp", "CH"), (1, "Arp", "CH", "Switzerland", "Alps")),
        ((2, None, None), (2, None, None, None, None)),
    )

    def config(self, folder: Path) -> dict[str, Any]:
        return options_of(write_reference(folder))


ORDERS, RATES = "shop.public.orders", "shop.public.rates"


def order(op: str, lsn: int, before: Any, after: Any) -> dict[str, Any]:
    """Return an event of an order. The images are its columns."""
    return {"before": before, "after": after, "source": {"connector": "postgresql", "lsn": lsn}, "op": op}


def documented(part: str, folder: Path, **changed: Any) -> list[dict[str, Any]]:
    """Return the transforms of the page, with its folders in a folder, and changed options of the lookup."""
    text = (
        find_block("docs/lookup.md", "yaml", part)
        .replace("path: ", f"path: {folder}/")
        .replace("lake/", f"{folder}/lake/")
    )
    transforms: list[dict[str, Any]] = yaml.safe_load(text)["transforms"]
    transforms[-1]["lookup"] |= changed
    return transforms


def make_pipeline(folder: Path, table: str, transforms: list[dict[str, Any]]) -> Pipeline:
    return pipeline(
        folder,
        source={"files": {"path": str(folder / table / "bronze"), "format": "json"}},
        tables=[{"source": f"shop.public.{table}", "target": f"shop.{table}", "key": ["id"]}],
        transforms=transforms,
        sinks=[{"iceberg": {"warehouse": str(folder / "lake")}}],
        checkpoint=str(folder / f"checkpoint_{table}"),
    )


@pytest.mark.spark
@pytest.mark.one_spark
class TestPipelines:
    @pytest.mark.nightly
    def test_documented_files(self, spark: SparkSession, tmp_path: Path) -> None:
        """An update with another country, a delete, and a country that the reference data lacks until the second run."""
        (tmp_path / "reference").mkdir()
        write_reference(tmp_path / "reference")
        one, two, three = [{"id": n, "country": country} for n, country in enumerate(("CH", "DE", "US"), 1)]
        write_events(
            tmp_path / "orders",
            ORDERS,
            0,
            order("c", 1, None, one),
            order("c", 2, None, two),
            order("c", 3, None, three),
            order("u", 4, one, {**one, "country": "DE"}),
            order("d", 5, two, None),
            order("d", 6, {"id": 9, "country": "FR"}, None),
        )
        changed = {"missing.key": "reject", "refresh.interval": "0 seconds"}
        orders = make_pipeline(tmp_path, "orders", documented("countries.csv", tmp_path, **changed))
        orders.run(spark)
        assert [
            (row["id"], row["country_name"], row["region"]) for row in rows(orders, spark, "shop.orders", "id")
        ] == [(1, "Germany", None)]
        [dead_letter] = orders.read("dead_letters", spark=spark).collect()
        assert dead_letter["error"] == "the reference data has no row for the value of `country`"
        write_reference(tmp_path / "reference", "code,name,region\nUS,United States,\nDE,Deutschland,Mitte\n")
        write_events(tmp_path / "orders", ORDERS, 6, order("u", 7, three, three))
        orders.run(spark)
        found = [(row["id"], row["country_name"]) for row in rows(orders, spark, "shop.orders", "id")]
        assert found == [(1, "Germany"), (3, "United States")]

    def test_documented_history_of_a_table(self, spark: SparkSession, tmp_path: Path) -> None:
        """The second run reads the new snapshot of the table, and takes the rate at the time of each order."""
        rates = make_pipeline(tmp_path, "rates", [{"unwrap": {}}])
        orders = make_pipeline(
            tmp_path, "orders", documented("valid.from", tmp_path, **{"refresh.interval": "0 seconds"})
        )

        def add_rate(number: int, rate: int, start: int, end: int | None) -> None:
            row = {"id": number, "currency": "CHF", "rate": rate, "valid_from": start, "valid_to": end}
            write_events(tmp_path / "rates", RATES, number, order("c", number, None, row))
            rates.run(spark)

        def add_order(number: int, time: int) -> list[Any]:
            row = {"id": number, "currency": "CHF", "ordered_at": time}
            write_events(tmp_path / "orders", ORDERS, number, order("c", number, None, row))
            orders.run(spark)
            return [row["rate"] for row in rows(orders, spark, "shop.orders", "id")]

        write_events(tmp_path / "orders", ORDERS, 0)
        with pytest.raises(ConfigError, match=r"there is no table 'shop\.rates'"):
            orders.run(spark)
        add_rate(1, 10, 100, 200)
        assert add_order(1, 150) == [10]
        add_rate(2, 20, 200, None)
        assert add_order(2, 199) == [10, 10]
        assert add_order(3, 200) == [10, 10, 20]
