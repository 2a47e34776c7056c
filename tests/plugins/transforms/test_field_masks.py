"""Masks of fields in structs, lists and maps: in each row image, in flat rows, and in values taken from a row image."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.transforms.test_mask_tables import find_on_disk, pipeline_of, write_events
from tests.support.pipelines import rows

from headrace.errors import ConfigError, DataError
from headrace.sdk import Transform
from headrace.sdk.changes import DETAIL, ERROR, Changes
from headrace_transforms import Compute, Flatten, Mask, Rename

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SALT = "a-salt-of-sixteen-characters"
HASH = {"sha256": {"salt": SALT}}
ROW = (
    "id int, address struct<street: string, geo: struct<lat: double, lon: double>>, "
    "contacts array<struct<kind: string, email: string>>, phones array<string>, labels map<string, string>"
)
PERSON = (1, ("Main St", (46.9, 7.4)), [("home", "a@x"), ("work", None), None], ["1", None], {"k": "v", "n": None})
EMPTY = (2, None, None, None, None)
MASKS: dict[str, Any] = {
    "Address.Street": {"characters": 3},
    "address.geo.lat": {"bucket": 10},
    "contacts.email": HASH,
    "phones.element": {"hmac_sha256": {"key": SALT}},
    "labels.value": {"replacement": "?"},
}


def digest(text: str) -> str:
    return hashlib.sha256((SALT + text).encode()).hexdigest()


def event(row: dict[str, Any], lsn: int) -> dict[str, Any]:
    return {"before": None, "after": row, "source": {"connector": "postgresql", "lsn": lsn}, "op": "c"}


def as_values(row: Any) -> Any:
    return json.loads(json.dumps(row.asDict(recursive=True)))


class TestPaths:
    @pytest.fixture
    def hidden(self, spark: SparkSession) -> list[Any]:
        frame = spark.createDataFrame([PERSON, EMPTY], ROW).coalesce(1)
        masked = Mask(columns=MASKS)(frame)
        assert SALT not in masked._jdf.queryExecution().toString()
        return [as_values(row) for row in masked.collect()]

    def test_flat_row(self, hidden: list[Any]) -> None:
        person, empty = hidden
        assert person["address"] == {"street": "***", "geo": {"lat": 40.0, "lon": 7.4}}
        assert person["contacts"] == [
            {"kind": "home", "email": digest("a@x")},
            {"kind": "work", "email": None},
            None,
        ]
        assert len(person["phones"][0]) == 64
        assert person["phones"][1] is None
        assert person["labels"] == {"k": "?", "n": None}
        assert empty == {"id": 2, "address": None, "contacts": None, "phones": None, "labels": None}

    def test_each_image_of_an_envelope(self, spark: SparkSession) -> None:
        # Only one image has the field.
        schema = f"before struct<id: int, address: struct<city: string>>, after struct<{ROW.replace(' int', ': int', 1)}>, op string"
        schema = schema.replace("address struct", "address: struct").replace("contacts array", "contacts: array")
        schema = schema.replace("phones array", "phones: array").replace("labels map", "labels: map")
        frame = spark.createDataFrame([((1, ("Bern",)), PERSON, "u"), (None, EMPTY, "c")], schema).coalesce(1)
        changes = Mask(columns=MASKS).apply(Changes(frame, envelope=True))
        first, second = (as_values(row) for row in changes.frame.collect())
        assert first["before"] == {"id": 1, "address": {"city": "Bern"}}
        assert first["after"]["address"] == {"street": "***", "geo": {"lat": 40.0, "lon": 7.4}}
        assert second["after"]["address"] is None

    def test_column_mask_hides_fields_that_were_taken_from_it(self, spark: SparkSession) -> None:
        frame = spark.sql("SELECT 1 AS id, 'Main St' AS street, 46.9D AS lat, 7.4D AS lon")
        origins = {
            "street": ("before", "address", "street"),
            "lat": ("after", "address", "geo", "lat"),
            "lon": ("before", "address", "geo", "lon"),
        }
        changes = Changes(frame, envelope=False, origins=origins)
        for rules, expected in (
            ({"address": {"nullify": True}}, (1, None, None, None)),
            ({"address.street": {"characters": 2}}, (1, "**", 46.9, 7.4)),
            ({"address.geo": {"nullify": True}}, (1, "Main St", None, None)),
        ):
            assert [tuple(row) for row in Mask(columns=rules).apply(changes).frame.collect()] == [expected]

    def test_column_with_a_dot_in_its_name(self, spark: SparkSession) -> None:
        frame = spark.sql("SELECT 'x' AS `address.street`, named_struct('street', 'y') AS address")
        masked = Mask(columns={"address.street": {"characters": 1}})(frame)
        assert as_values(masked.collect()[0]) == {"address.street": "*", "address": {"street": "*"}}

    def test_outer_mask_replaces_inner_ones(self, spark: SparkSession) -> None:
        frame = spark.createDataFrame([PERSON], ROW)
        rules = {"address.geo.lat": {"bucket": 10}, "address.geo": {"nullify": True}, "phones": {"nullify": True}}
        (row,) = Mask(columns={**rules, "phones.element": HASH})(frame).collect()
        assert as_values(row)["address"] == {"street": "Main St", "geo": None}
        assert row.phones is None


class TestErrors:
    def test_value_that_does_not_fit_is_a_dead_letter_without_it(self, spark: SparkSession) -> None:
        frame = spark.sql(
            "SELECT array(named_struct('ip', '192.0.2.7'), named_struct('ip', 'secret-place')) AS hosts, "
            f"CAST(NULL AS STRING) AS {ERROR}, CAST(NULL AS STRING) AS {DETAIL}"
        )
        changes = Mask(columns={"hosts.ip": {"ip_network": {}}}).apply(Changes(frame, envelope=False, table="shop.t"))
        (row,) = changes.frame.collect()
        assert row[DETAIL] == "the column `hosts.ip` is not an IP address, which its mask requires"
        assert [host.ip for host in row.hosts] == ["192.0.2.0", None]

    def test_type_that_the_mask_does_not_take(self, spark: SparkSession) -> None:
        frame = spark.createDataFrame([PERSON], ROW)
        with pytest.raises(DataError, match=r"the column 'address\.geo' is struct.*`bucket` takes"):
            Mask(columns={"address.geo": {"bucket": 10}})(frame)

    def test_column_that_was_computed_from_a_field(self, spark: SparkSession) -> None:
        frame = spark.sql("SELECT 'Main St' AS road, named_struct('street', 'Main St') AS address")
        changes = Changes(frame, envelope=False, derived={"road": frozenset({"address"})})
        with pytest.raises(DataError, match=r"'road' is computed from 'address\.street', which is masked only later"):
            Mask(columns={"address.street": HASH}).apply(changes)

    def test_column_that_was_computed_from_its_own_fields(self, spark: SparkSession) -> None:
        changes = Changes(spark.sql("SELECT named_struct('street', 'Main St') AS address"), envelope=False)
        computed = Compute(columns={"address": "named_struct('street', '-', 'full', address.street)"}).apply(changes)
        with pytest.raises(
            DataError, match=r"'address' is computed from 'address\.street', which is masked only later"
        ):
            Mask(columns={"address.street": HASH}).apply(computed)
        masked = Mask(columns={"address": {"nullify": True}}).apply(computed)
        assert [tuple(row) for row in masked.frame.collect()] == [(None,)]

    @pytest.mark.parametrize(
        "column",
        ["'text'", "array('text')", "map('street', 'Main St')", "CAST('text' AS BINARY)", "array(array(map(1, 'x')))"],
    )
    def test_column_that_may_hide_the_field(self, spark: SparkSession, column: str) -> None:
        flat = spark.sql(f"SELECT 1 AS id, {column} AS address")
        image = spark.sql(f"SELECT named_struct('id', 1, 'address', {column}) AS after")
        for changes in (Changes(flat, envelope=False), Changes(image, envelope=True)):
            with pytest.raises(DataError, match=r"the column 'address' has a .*, in which 'address\.street' may be"):
                Mask(columns={"address.street": HASH}).apply(changes)
            Mask(columns={"address.street": HASH, "address": {"nullify": True}}).apply(changes)
        number = Changes(spark.sql("SELECT 1 AS id, 2 AS address"), envelope=False)
        assert Mask(columns={"address.street": HASH}).apply(number) == number

    @pytest.mark.parametrize("origin", [("before",), ("before", "address")])
    def test_row_image_with_the_text_of_an_expanded_column(self, spark: SparkSession, origin: tuple[str, ...]) -> None:
        text = """'{"street": "Main St"}'"""
        value = text if len(origin) > 1 else f"named_struct('id', 1, 'Address', {text})"
        frame = spark.sql(f"SELECT named_struct('street', 'x') AS address, {value} AS old")
        changes = Changes(frame, envelope=False, origins={"old": origin})
        with pytest.raises(DataError, match=r"has a string, in which 'address\.street' may be"):
            Mask(columns={"address.street": HASH}).apply(changes)
        (row,) = Mask(columns={"address": {"nullify": True}}).apply(changes).frame.collect()
        assert as_values(row) == {"address": None, "old": {"id": 1, "Address": None} if len(origin) == 1 else None}


@pytest.mark.one_spark
class TestRowsThatWhenDoesNotSelect:
    """A transform with ``when`` moves the values of some rows. A mask of the new place must not leave the old one visible."""

    @pytest.mark.parametrize(
        ("transforms", "masked", "place"),
        [
            ([Flatten(delimiter="_", when="id > 100")], "p_email", "p.email"),
            ([Flatten(delimiter="_", when="id > 100")], "P_Mails.Email", "p.mails.email"),
            ([Rename(columns={"p": "q"}, when="id > 100")], "q.email", "p.email"),
            ([Rename(columns={"p": "q"}, when="id > 100"), Rename(columns={"q": "r"})], "r", "p"),
            ([Rename(columns={"p": "q"}, when="id > 100"), Flatten(delimiter="_")], "q_email", "p_email"),
            (
                [Rename(columns={"p": "q"}, when="id > 100"), Rename(columns={"q": "r"}, when="id > 200")],
                "r.email",
                "q.email",
            ),
        ],
    )
    def test_old_place_must_be_masked(
        self, spark: SparkSession, transforms: list[Transform], masked: str, place: str
    ) -> None:
        person = "named_struct('email', 'RAW-1', 'mails', array(named_struct('email', 'RAW-2')))"
        frame = spark.sql(f"SELECT id, {person} AS p FROM VALUES (1L), (150L), (250L) t(id)").coalesce(1)
        changes = Changes(frame, envelope=False)
        for transform in transforms:
            changes = transform.process(changes)
        with pytest.raises(DataError, match=rf" in '{re.escape(place)}', because of an earlier `when`") as raised:
            Mask(columns={masked: {"nullify": True}}).process(changes)
        assert raised.value.fix == f"mask '{place}' as well, or put `mask` before the transform with `when`"
        places = [masked, place]
        if masked == "r.email":  # Each `when` leaves the value of some rows.
            places.append("p.email")
        elif "mails" in place:  # The new column has a field, and is not masked as a whole.
            places = ["p_mails", "p.mails"]
        hidden = Mask(columns={name: {"nullify": True} for name in places}).process(changes)
        assert ("RAW-2" if "mails" in place else "RAW-1") not in str(hidden.frame.collect())

    def test_column_that_is_computed_from_the_old_place(self, spark: SparkSession) -> None:
        frame = spark.sql("SELECT 1 AS id, named_struct('email', 'RAW') AS p")
        changes = Flatten(delimiter="_", when="id > 100").process(Changes(frame, envelope=False))
        changes = Compute(columns={"copy": "p.email"}).process(changes)
        with pytest.raises(DataError, match=r"'copy' is computed from 'p\.email'"):
            Mask(columns={"p_email": HASH, "p.email": HASH}).process(changes)


class TestPipelines:
    def test_no_disk_has_a_masked_field(self, spark: SparkSession, tmp_path: Path) -> None:
        secret = "canary-4711"
        people = [
            {"id": n, "address": {"street": secret, "city": "Bern"}, "emails": [{"email": secret}]} for n in (1, 2)
        ]
        write_events(tmp_path, "shop.public.people", *[event(row, n) for n, row in enumerate(people, 1)])
        masks = {"address.street": HASH, "emails.email": {"characters": 1}}
        pipeline = pipeline_of(tmp_path, "iceberg", masks=masks, target="shop.people")
        pipeline.run(spark)
        found = rows(pipeline, spark, "shop.people", "id")
        assert [row["address"] for row in found] == [{"street": digest(secret), "city": "Bern"}] * 2
        assert [row["emails"] for row in found] == [[{"email": "*"}]] * 2
        assert not find_on_disk(secret, tmp_path / "checkpoint", tmp_path / "lake")

    def test_path_that_no_table_has_is_an_error(self, spark: SparkSession, tmp_path: Path) -> None:
        write_events(tmp_path, "shop.public.people", event({"id": 1, "address": {"street": "a"}}, 1))
        pipeline = pipeline_of(tmp_path, "iceberg", masks={"address.stret": HASH}, target="shop.people")
        with pytest.raises(ConfigError, match=r"no table has the column 'address\.stret'"):
            pipeline.run(spark)
        transforms = [{"unwrap": {}}, {"drop": {"columns": ["address.street"]}}]
        with pytest.raises(ConfigError, match=r"transform drop: no table has the column 'address\.street'"):
            pipeline_of(tmp_path, "iceberg", masks={}, target="shop.people", transforms=transforms).run(spark)
