"""Masks that keep a part or the shape of a value. A value that a mask does not take is a dead letter."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from tests.plugins.transforms.test_mask_tables import (
    PEOPLE,
    SALT,
    UNCOMPRESSED,
    event,
    find_on_disk,
    pipeline_of,
    write_events,
)
from tests.support.pipelines import TABLE_SINKS, rows
from tests.support.tiers import nightly_after

from headrace import ConfigError
from headrace.errors import DataError
from headrace.spark.sessions import Sessions
from headrace_transforms import Mask
from headrace_transforms.mask_rules import MaskRule

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KEY = "Key-that-nobody-sees"
ONE = settings(max_examples=1, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


def token(shape: str) -> dict[str, Any]:
    return {"token": {"format": shape, "key": KEY}}


#: A mask of each kind and shape, and a row whose values are searched for.
MASKS: dict[str, dict[str, Any]] = {
    "ssn": token("digits"),
    "phone": token("phone"),
    "card": token("card"),
    "email": token("email"),
    "account": {"partial": {"suffix": 2}},
    "born": {"date_trunc": "year"},
    "salary": {"bucket": 10_000},
    "ip": {"ip_network": {}},
    "street": {"sha256": {"salt": SALT}},
    "city": {"sha512": {"salt": SALT}},
    "iban": {"hmac_sha256": {"key": KEY}},
    "name": {"characters": 4},
    "nick": {"truncate": 3},
    "note": {"replacement": "hidden"},
    "doctor": {"nullify": True},
    "parish": {"empty": True},
}
ROW = {
    "ssn": "756471104711",
    "phone": "+41 79 471 10 47",
    "card": "4111 1111 1111 1111",
    "email": "canary-4711@example.org",
    "account": "CH93-0076-2011-6238",
    "born": "1947-11-23",
    "salary": "84711.47",
    "ip": "198.51.100.147",
} | {name: f"{name}-canary-4711" for name in ("street", "city", "iban", "name", "nick", "note", "doctor", "parish")}


def test_a_value_is_searched_for_under_each_kind_of_mask() -> None:
    assert {kind for rule in MASKS.values() for kind in rule} == set(MaskRule.KINDS)
    assert MASKS.keys() == ROW.keys()


def mask_values(spark: SparkSession, rule: dict[str, Any], kind: str, *values: Any) -> list[Any]:
    frame = spark.createDataFrame([(value,) for value in values], f"v {kind}").coalesce(1)
    masked = Mask(columns={"v": rule})(frame)
    assert masked.dtypes == frame.dtypes
    return [row[0] for row in masked.collect()]


def permute(digits: str, *, keeps_length: bool = False) -> str:
    """Return the token of digits: a Feistel network of ten rounds, as docs/masking.md describes it."""
    left_count = -(-len(digits) // 2)
    right_count = len(digits) - left_count
    lowest = 10 ** (left_count - 1) if keeps_length else 0
    left, right = int(digits[:left_count]) - lowest, int(digits[left_count:] or 0)
    for number in range(1, 11):
        text = f"digits|{len(digits)}|{number}|{right if number % 2 else left}"
        hashed = int(hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()[:15], 16)
        if number % 2:
            left = (left + hashed) % (10**left_count - lowest)
        else:
            right = (right + hashed) % 10**right_count
    return str(left + lowest).zfill(left_count) + (str(right).zfill(right_count) if right_count else "")


class TestParts:
    def test_partial_keeps_first_and_last_characters(self, spark: SparkSession) -> None:
        values = ["4111111111111111", "Zoë Grüße", "12345", "1234", "", None]
        rule = {"partial": {"prefix": 1, "suffix": 4}}
        assert mask_values(spark, rule, "string", *values) == ["4****1111", "Z****rüße", "****", "****", "****", None]
        assert mask_values(spark, {"partial": {"prefix": 2, "padding": "…"}}, "string", "hidden") == ["hi…"]

    def test_date_becomes_first_day_and_keeps_its_type(self, spark: SparkSession) -> None:
        day, month = date(1970, 5, 17), {"date_trunc": "month"}
        assert mask_values(spark, month, "date", day, None) == [date(1970, 5, 1), None]
        assert mask_values(spark, {"date_trunc": "year"}, "date", day) == [date(1970, 1, 1)]
        noon = datetime.fromisoformat("1970-05-17T12:30")
        assert mask_values(spark, month, "timestamp_ntz", noon) == [datetime.fromisoformat("1970-05-01T00:00")]
        texts = ["1970-05-17", "1970-05-17T23:59:59.5Z", "0001-12-31 00:00:00", None]
        assert mask_values(spark, month, "string", *texts) == ["1970-05-01", "1970-05-01", "0001-12-01", None]

    @pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/Los_Angeles"])
    def test_timestamp_is_truncated_in_utc(self, spark: SparkSession, zone: str) -> None:
        session = Sessions(spark).of("mask")
        session.conf.set("spark.sql.session.timeZone", zone)
        frame = session.sql("SELECT timestamp_seconds(col1) AS v FROM VALUES (1717199999L), (1717200000L), (-1L)")
        masked = Mask(columns={"v": {"date_trunc": "month"}})(frame)
        found = [row[0] for row in masked.selectExpr("unix_seconds(v)").collect()]
        starts = [datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC), datetime(1969, 12, 1, tzinfo=UTC)]
        assert found == [start.timestamp() for start in starts]

    @ONE
    @given(st.lists(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), min_size=50))  # noqa: DTZ001 - in UTC
    def test_timestamp_is_hashed_in_utc(self, spark: SparkSession, values: list[datetime]) -> None:
        """A digest of a timestamp is that of Spark's string in a session in UTC. An hour of this zone occurs twice."""
        session = Sessions(spark).of("mask")
        twice = [datetime(2026, 10, 25, hour, 30) for hour in (0, 1)]  # noqa: DTZ001
        micros = [(value - datetime(1970, 1, 1)) // timedelta(microseconds=1) for value in (*values, *twice)]  # noqa: DTZ001
        texts = []
        for zone in ("UTC", "Europe/Zurich"):
            session.conf.set("spark.sql.session.timeZone", zone)
            rows_of = "SELECT timestamp_micros(v) AS v, array(struct(map(1, timestamp_micros(v)))) AS w"
            frame = session.sql(f"{rows_of} FROM VALUES {', '.join(f'({n}L)' for n in micros)} AS t(v)")
            rule = {"hmac_sha256": {"key": KEY}}
            digests = Mask(columns={"v": rule, "w": rule})(frame)
            texts.append([tuple(row) for row in digests.collect()])
            if zone == "UTC":
                plain = [tuple(row) for row in frame.selectExpr("CAST(v AS STRING)", "CAST(w AS STRING)").collect()]
        hashed = [tuple(hmac.new(KEY.encode(), t.encode(), hashlib.sha256).hexdigest() for t in row) for row in plain]
        assert texts == [hashed, hashed]
        assert len({digest for digest, _ in hashed[-2:]}) == 2
        start = Mask(columns={"v": {"date_trunc": "year"}})(session.sql("SELECT TIMESTAMP'2100-05-05 00:00:00Z' AS v"))
        assert [row[0] for row in start.selectExpr("unix_seconds(v)").collect()] == [4_102_444_800]

    @pytest.mark.parametrize(
        ("kind", "width", "values"),
        [
            ("int", 10, {7: 0, 10: 10, -1: -10, 2147483630: 2147483630, None: None}),
            ("bigint", 1000, {999: 0, -9223372036854774000: -9223372036854774000}),
            ("tinyint", 5, {122: 120, -122: -125}),
            ("decimal(38,2)", 0.25, {Decimal("1.99"): Decimal("1.75"), Decimal("-0.01"): Decimal("-0.25")}),
            ("decimal(37,36)", 0.5, {Decimal("1.75"): Decimal("1.5"), Decimal("-9.5"): Decimal("-9.5")}),
            ("decimal(38,37)", 0.25, {Decimal("1.99"): Decimal("1.75"), Decimal("-0.01"): Decimal("-0.25")}),
            ("decimal(38,38)", 0.1, {Decimal("0.25"): Decimal("0.2"), Decimal("-0.85"): Decimal("-0.9"), None: None}),
            ("double", 0.1, {0.3: 0.3, 29.99: 29.9}),
            ("string", 10, {"34": "30", "-5.5": "-10", "0.25": "0"}),
        ],
    )
    def test_number_becomes_lower_bound(self, spark: SparkSession, kind: str, width: Any, values: Any) -> None:
        assert mask_values(spark, {"bucket": width}, kind, *values) == list(values.values())

    @ONE
    @given(
        st.lists(st.ip_addresses(v=4).map(str), min_size=50),
        st.lists(st.ip_addresses(v=6), min_size=50),
        st.integers(0, 31),
        st.integers(0, 64),
    )
    def test_ip_becomes_its_network(
        self, spark: SparkSession, v4: list[str], v6: list[ipaddress.IPv6Address], ipv4: int, ipv6: int
    ) -> None:
        values = [*v4, *map(str, v6), *(address.exploded.upper() for address in v6)]
        values += [f"{prefix}{address}" for address in v4[:20] for prefix in ("::ffff:", "64:ff9b::", "1:2:3:4:5:6:")]
        values += [
            "::",
            "::1",
            "::ffff:0:1.2.3.4",
            "fe80::1%eth0",
            "1:2:3:4:5:6:7::",
            "::2:3:4:5:6:7:8",
            "2001:db8:10::1",
        ]
        for first, second in ((24, 48), (ipv4, ipv6)):
            expected = []
            for value in values:
                length = second if ":" in value else first
                network = ipaddress.ip_network(f"{value.partition('%')[0]}/{length}", strict=False)
                expected.append(str(network.network_address))
            rule = {"ip_network": {"ipv4": first, "ipv6": second}}
            assert mask_values(spark, rule, "string", *values) == expected


class TestTokens:
    @ONE
    @given(
        st.lists(st.from_regex(r"\A[0-9]{0,30}\Z"), min_size=30),
        st.lists(st.from_regex(r"\A[-0-9 ./()]{1,20}\Z"), min_size=30),
    )
    def test_digits_are_permuted_in_their_places(
        self, spark: SparkSession, plain: list[str], formed: list[str]
    ) -> None:
        values = [*plain, *formed, None]
        expected = []
        for value in values:
            digits = "".join(c for c in value or "" if c.isdigit())
            left = iter(permute(digits) if digits else "")
            expected.append(value if value is None else "".join(next(left) if c.isdigit() else c for c in value))
        assert mask_values(spark, token("digits"), "string", *values) == expected

    def test_different_digits_have_different_tokens(self, spark: SparkSession) -> None:
        for count in (1, 2, 3):
            values = [f"{n:0{count}}" for n in range(10**count)]
            found = mask_values(spark, token("digits"), "string", *values)
            assert sorted(found) == values
            assert found != values

    def test_integers_keep_type_sign_and_length(self, spark: SparkSession) -> None:
        frame = spark.range(-999, 1000).selectExpr("CAST(id AS int) AS v").coalesce(1)
        found = [row[0] for row in Mask(columns={"v": token("digits")})(frame).collect()]
        assert sorted(found) == list(range(-999, 1000))
        assert found[999] == 0
        assert all(len(str(a)) == len(str(b)) for a, b in zip(range(-999, 1000), found, strict=True))
        large = 10**18 - 1
        assert mask_values(spark, token("digits"), "bigint", large) == [int(permute(str(large), keeps_length=True))]

    @pytest.mark.nightly
    def test_card_keeps_a_right_check_digit(self, spark: SparkSession) -> None:
        def is_valid(card: str) -> bool:
            digits = [int(c) for c in reversed(card) if c.isdigit()]
            return sum(digits[::2] + [sum(divmod(d * 2, 10)) for d in digits[1::2]]) % 10 == 0

        cards = ["4111 1111 1111 1111", "378282246310005", "5555-5555-5555-4444", "6304000000000000"]
        found = mask_values(spark, token("card"), "string", *cards, "4111111111111112", None)
        assert [is_valid(card) for card in found[:5]] == [True, True, True, True, False]
        assert found[5] is None
        assert [[c for c in card if not c.isdigit()] for card in found[:4]] == [[" "] * 3, [], ["-"] * 3, []]
        assert not set(found) & set(cards)
        check = [mask_values(spark, token("card"), "string", f"41111111111111{n:02}") for n in range(20)]
        assert len({card for [card] in check}) == 20

    def test_phone_keeps_country_code(self, spark: SparkSession) -> None:
        values = ["+41 79 123 45 67", "+1 (555) 010-9999", "+355 4 222 3333", "079 123 45 67"]
        found = mask_values(spark, token("phone"), "string", *values)
        rest = iter(permute("791234567"))
        assert found[0] == "+41 " + "".join(next(rest) if c.isdigit() else c for c in "79 123 45 67")
        assert [phone[:4] for phone in found[1:3]] == ["+1 (", "+355"]
        assert [len(phone) for phone in found] == [len(value) for value in values]

    def test_email_becomes_address_at_an_example_domain(self, spark: SparkSession) -> None:
        a, b, c, again = mask_values(spark, token("email"), "string", "a@x.org", "b@x.org", "a@y.org", "a@x.org")
        domain = hmac.new(KEY.encode(), b"domain|x.org", hashlib.sha256).hexdigest()[:12]
        local = hmac.new(KEY.encode(), b"email|a@x.org", hashlib.sha256).hexdigest()[:20]
        assert a == again == f"{local}@{domain}.example"
        assert b.partition("@")[2] == a.partition("@")[2] != c.partition("@")[2]
        assert len({a, b, c}) == 3

    def test_key_is_in_no_plan(self, spark: SparkSession) -> None:
        session = Sessions(spark).of("mask")
        frame = session.createDataFrame([("1234",)], "v string")
        execution: Any = Mask(columns={"v": token("digits")})(frame)._jdf.queryExecution()
        plans = [execution.analyzed(), execution.optimizedPlan(), execution.executedPlan()]
        texts = [execution.toString(), *(text for plan in plans for text in (plan.treeString(), plan.toJSON()))]
        pads = [bytes(byte ^ pad for byte in KEY.encode()).hex() for pad in (0x36, 0x5C)]
        for secret in (KEY, KEY.encode().hex(), *pads):
            assert not [text for text in texts if secret in text or secret.upper() in text]


UNFIT = {
    "token-digits": (token("digits"), "A123-canary"),
    "token-card": (token("card"), "4711-4711-471"),
    "token-phone": (token("phone"), "canary call"),
    "token-email": (token("email"), "canary-nobody"),
    "date": ({"date_trunc": "year"}, "17.05.1970"),
    "no-date": ({"date_trunc": "year"}, "1970-02-31"),
    "bucket": ({"bucket": 10}, "canary 30"),
    "ipv4": ({"ip_network": {}}, "192.0.2.256"),
    "ipv6": ({"ip_network": {}}, "1::2::3"),
    "short-ipv6": ({"ip_network": {}}, "1:2:3:4:5:6:7"),
    "long-ipv6": ({"ip_network": {}}, "1:2:3:4:5:6:7:8:9"),
    "colon-ipv6": ({"ip_network": {}}, "1:2:3:4:5:6:7:"),
}


@pytest.mark.one_spark
def test_value_that_does_not_fit_is_a_dead_letter_without_it(spark: SparkSession, tmp_path: Path) -> None:
    names = {name: f"c{n}" for n, name in enumerate(UNFIT)}
    good = {**dict.fromkeys(names.values()), "a": "12"}
    bad = [{"id": n, **good, names[name]: UNFIT[name][1]} for n, name in enumerate(UNFIT)]
    write_events(tmp_path, PEOPLE, *(event(row, n) for n, row in enumerate([*bad, {"id": 99, **good}])))
    masks = {names[name]: rule for name, (rule, _) in UNFIT.items()} | {"a": token("digits")}
    masked_pipeline = pipeline_of(tmp_path, masks=masks, spark=UNCOMPRESSED)
    masked_pipeline.run(spark)
    assert rows(masked_pipeline, spark, "shop.all", "id") == [{**good, "id": 99, "a": permute("12")}]
    letters = masked_pipeline.read("dead_letters", spark=spark).collect()
    found = {json.loads(row["value"])["id"]: (row["reason"], row["error"]) for row in letters}
    assert set(found) == set(range(len(UNFIT)))
    for n, (reason, detail) in found.items():
        assert reason == "untransformable"
        assert f"the column `c{n}` is not a" in detail
    for _, value in UNFIT.values():
        assert not find_on_disk(value, tmp_path / "lake", tmp_path / "checkpoint")


@pytest.mark.one_spark
@pytest.mark.parametrize("sink", nightly_after(1, TABLE_SINKS))
def test_no_disk_has_a_value_under_any_mask(spark: SparkSession, tmp_path: Path, sink: str) -> None:
    """The key is a token. Updates and deletes find its row, and a restart keeps the tokens."""
    rule = {"source": PEOPLE, "target": "people", "key": ["ssn"]}
    masked_pipeline = pipeline_of(tmp_path, sink, masks=MASKS, tables=[rule], spark=UNCOMPRESSED)
    write_events(tmp_path, PEOPLE, event({**ROW, "n": 1}, 1), event({**ROW, "ssn": "756471104712", "n": 1}, 2))
    masked_pipeline.run(spark)
    before = rows(masked_pipeline, spark, "people", "ssn")
    gone = {**ROW, "ssn": "756471104712"}
    write_events(
        tmp_path,
        PEOPLE,
        event({**ROW, "n": 2}, 3, op="u", before={**ROW, "n": 1}),
        event({}, 4, op="d", before={**gone, "n": 1}, after=None),
    )
    pipeline_of(tmp_path, sink, masks=MASKS, tables=[rule], spark=UNCOMPRESSED).run(spark)
    [first] = [found for found in before if found["ssn"] == permute(ROW["ssn"])]
    assert rows(masked_pipeline, spark, "people", "ssn") == [{**first, "n": 2}]
    assert (first["account"], first["born"], first["salary"], first["ip"]) == (
        "****38",
        "1947-01-01",
        "80000",
        "198.51.100.0",
    )
    for value in ROW.values():
        assert not find_on_disk(value, tmp_path / "lake", tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("rule", "value", "message"),
    [
        (token("card"), "1", "the column 'v' is int, and the mask `token` takes strings"),
        ({"date_trunc": "year"}, "1", "the mask `date_trunc` takes dates, timestamps and strings"),
        ({"bucket": 0.5}, "1", "the mask `bucket` takes numbers with 1 decimals or more for buckets of 0.5"),
        ({"ip_network": {}}, "1", "the mask `ip_network` takes strings with IP addresses"),
    ],
)
def test_type_that_a_mask_does_not_take(spark: SparkSession, rule: dict[str, Any], value: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        Mask(columns={"v": rule})(spark.sql(f"SELECT {value} AS v"))
    assert message in str(raised.value)


@pytest.mark.one_spark
@pytest.mark.parametrize(
    "rule", [{"partial": {"suffix": 1}}, {"date_trunc": "year"}, {"bucket": 2}, {"ip_network": {}}]
)
def test_key_column_rejects_masks_that_merge_values(spark: SparkSession, tmp_path: Path, rule: dict[str, Any]) -> None:
    write_events(tmp_path, PEOPLE, event({"id": "1"}, 1))
    with pytest.raises((ConfigError, DataError), match="'id' is part of the key, and this mask would merge rows"):
        pipeline_of(tmp_path, masks={"id": rule}).check(spark)
