"""Functions in expressions over a row, with values for which functions of Spark fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.row_calls import CALLS, GOOD, HOSTILE
from tests.support.tiers import nightly_after

from headrace.errors import ConfigError
from headrace.sdk.sql import evaluate, read_columns
from headrace.spark.row_arguments import LITERALS
from headrace.spark.row_expressions import check_sql
from headrace.spark.row_functions import ALLOWED, FORBIDDEN, OTHER_ROWS, REFUSED
from headrace.spark.sessions import Sessions
from headrace.views.sql_functions import AGGREGATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

#: Number of expressions in a plan.
GROUP = 40
#: Number of parts of the calls. `make test` runs the first part.
PARTS = 4
#: More functions that need other rows, or return several of them.
OTHERS = {
    *("cume_dist", "dense_rank", "lag", "lead", "nth_value", "ntile", "percent_rank", "rank", "stack"),
    *("inline", "inline_outer", "json_tuple"),
    *("session_window", "window", "window_time", "range", "sql_keywords", "collations"),
    *("variant_explode", "variant_explode_outer", "python_worker_logs"),
}
#: Syntax that Spark lists as functions.
SYNTAX = {"case", "map"}


def test_every_function_has_one_class() -> None:
    classes = [
        ALLOWED,
        FORBIDDEN,
        REFUSED.keys(),
        LITERALS.keys(),
        AGGREGATES,
        {*OTHERS, *OTHER_ROWS} - AGGREGATES,
        SYNTAX,
    ]
    assert sum(map(len, classes)) == len(set().union(*classes))


def test_every_function_is_called() -> None:
    assert sorted((ALLOWED | LITERALS.keys()) - CALLS.keys()) == []


class TestWithoutJava:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("to_number(a, '9')", "calls to_number, which fails the batch for one invalid value: write CAST"),
            ("TO_BINARY/**/(a, 'hex')", "write try_to_binary"),
            ("To_Binary -- a comment\n (a)", "write try_to_binary"),
            ("`to_binary` (a)", "write try_to_binary"),
            ("system.builtin.unbase64(a)", r"write try_to_binary\(…, 'base64'\)"),
            ("r'\\' || url_decode(a)", "write try_url_decode"),
            ("now/* ' */()", "calls now, which is not a function of the row"),
            ("map_concat(a, b)", "make a struct or an array"),
            ("uuid()", r"write md5\(concat_ws\('\|', …\)\)"),
            ("Current_Timestamp()", "use a time of the record: `_headrace_timestamp`"),
        ],
    )
    def test_name_of_a_function(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            check_sql(text)

    @pytest.mark.parametrize(
        "text", ["'to_number(' || a", '"now()"', "a -- now()\n", "a /* now() */", r"r'\' || '' || 'now()'", "to_number"]
    )
    def test_text_is_no_call(self, text: str) -> None:
        assert check_sql(text) == text


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Return a session with the settings of a pipeline."""
    return Sessions(spark).of("row expressions")


@pytest.mark.spark
class TestRefused:
    def test_every_function_of_spark_has_a_class(self, session: SparkSession) -> None:
        """A function of a new version needs a decision, and a call in ``tests/support/row_calls.py`` if it is allowed."""
        known = {str(row[0]) for row in session.sql("SHOW SYSTEM FUNCTIONS").collect()}
        decided = ALLOWED.union(FORBIDDEN, REFUSED, LITERALS, AGGREGATES, OTHERS, OTHER_ROWS, SYNTAX)
        assert sorted(name for name in known - decided if name.isidentifier()) == []

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "TO_NUMBER/**/(s, '9')",
                "calls to_number, which fails the batch for one invalid value\n  fix: write CAST",
            ),
            ("`Unbase64`(s)", "calls unbase64"),
            ("max(i)", "calls max, which needs other rows than its own\n  fix: write greatest(…)"),
            ("explode(xs)", "use the transform `explode`"),
            ("row_number() OVER (ORDER BY i)", "use a view"),
            ("stddev(i)", "calls stddev, which is no known function of a row"),
            ("i < current_date", "fix: use a time of the record"),
            ("uper(s)", "did you mean 'upper'"),
            ("default.upper(s)", "calls default.upper, which is no known function"),
            ("current_user()", "calls current_user, which is not a function of the row"),
            ("i = (SELECT 1)", "uses ScalarSubquery, which is not a function of the row"),
            ("to_utc_timestamp(t, w)", "computes the time zone of to_utc_timestamp"),
            ("to_utc_timestamp(t, 'Bad/Zone')", "with the time zone 'Bad/Zone'"),
            ("convert_timezone(w, CAST(t AS TIMESTAMP_NTZ))", "computes the time zone of convert_timezone"),
            ("make_timestamp(2024, 1, 1, 1, 1, 1, w)", "computes the time zone of make_timestamp"),
            ("s RLIKE w", "computes the regular expression of rlike"),
            ("split(s, w)", "computes the regular expression of split"),
            ("s RLIKE '(['", "it does not compile: Unclosed character class"),
            ("s RLIKE '(a|b)*c'", "it repeats groups without a limit, and a long text would end the process"),
            ("regexp_extract(s, 'a')", "with the number of the group 1: the regular expression has 0 groups"),
            ("regexp_replace(s, '(a)', '$2')", "with the replacement '$2'"),
            (r"regexp_replace(s, '(a)', 'b\\')", "with the replacement"),
            ("regexp_replace(s, 'a', w)", "computes the replacement of regexp_replace"),
            ("s LIKE concat('%', w)", "computes the pattern of like"),
            (r"s LIKE 'a\\b'", "with the pattern"),
            ("s LIKE 'a!b' ESCAPE '!'", "! is not before %, _ or !"),
            ("parse_url(s, 'QUERY', w)", "computes the regular expression of parse_url"),
            ("encode(s, w)", "computes the charset of encode"),
            ("encode(s, 'US-ASCII')", "write one of UTF-8"),
            ("decode(b, 'UTF-8')", "with the charset 'UTF-8'"),
            ("repeat(s, i)", "computes the size of repeat"),
            ("space(2147483647)", "with the size 2147483647: it is no number up to 1,000"),
            ("sequence(1, i)", "computes the size of sequence"),
            ("rpad(s, i)", "computes the size of rpad"),
            ("array_insert(ns, 0, 1)", "the first index is 1"),
            ("element_at(ns, i)", "computes the index of element_at"),
            ("try_element_at(ns, 0)", "the first index is 1"),
            ("slice(ns, 1, -1)", "with the length -1"),
            ("split_part(s, ',', i)", "computes the number of the part of split_part"),
            ("bit_get(i, 64)", "with the position of the bit 64"),
            ("array_sort(ns, (x, y) -> NULL)", "computes the order of array_sort"),
            ("date_format(t, w)", "computes the format of date_format"),
            ("to_date(s, w)", "computes the format of to_date"),
            ("to_timestamp(s, 'ddMMyyyy-HHmmss')", "a text such as +999999999-01-01 overflows"),
            ("try_to_timestamp(s, 'uuuuuu')", "a text such as +999999999-01-01 overflows"),
            ("to_date(s, 'd.M.y')", "Write a year of four digits as yyyy"),
            ("substring_index(s, w, i)", "computes the count of substring_index"),
            ("date_format(t, 'DD')", "DD fails for the 100th day"),
            ("add_months(n, i)", "computes the number of months of add_months"),
            ("dateadd(HOUR, i, t)", "calculates with dates and times"),
            ("format_string(s, i)", "computes the format of format_string"),
            ("format_string('%c', i)", "%c fails for some values"),
            ("format_string('%2000000000d', i)", "the width is more than 1,000"),
            ("aes_encrypt(s, w, 'ECB')", "computes the key of aes_encrypt"),
            ("aes_encrypt(s, 'abc', 'ECB')", "it has 3 bytes, and not 16, 24 or 32"),
            ("map(s, 1, w, 2)", "makes a map of keys that may be equal or null"),
            ("map('a', 1, 'a', 2)", "makes a map of keys that may be equal or null"),
            ("from_json(s, 'a INT', map('mode', ' FailFast'))", "FAILFAST fails the batch for one invalid value"),
            ("from_json(s, 'a INT', map('mode', 'FAIL' || 'FAST'))", "computes the options of from_json"),
            ("from_json(s, 'a ARRAY<Decimal(10,2)>')", "reads a DECIMAL with from_json"),
            ("CAST(s AS INTERVAL DAY)", "casts to an interval"),
            ("t /* + */ + INTERVAL 1 DAY", "calculates with an interval"),
            ("t + INTERVAL 1 DAY * i", "calculates with an interval"),
        ],
    )
    def test_call_that_fails_for_some_value(self, spark: SparkSession, text: str, message: str) -> None:
        with pytest.raises(ConfigError) as raised:
            read_columns(text)
        assert message in str(raised.value)

    def test_column_may_have_the_name_of_a_function(self, spark: SparkSession) -> None:
        assert read_columns("version > uuid OR now = `user`") == ("version", "uuid", "now", "user")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("t - t", "SubtractTimestamps"),
            ("n - n", "SubtractDates"),
            ("t + -INTERVAL 1 DAY", "write try_add"),
            ("t + ns[0] * (n - n)", "calculates with dates and times"),
            ("negative(m)", "negates a decimal of more than 34 digits"),
            ("format_string('%d', s)", "has a format for other types than those of its values"),
        ],
    )
    def test_operator_over_types(self, session: SparkSession, text: str, message: str) -> None:
        from pyspark.sql import functions as F

        with pytest.raises(ConfigError, match=message):
            evaluate(frame_of(session, [[0] * len(GOOD)]), {name: F.col(name) for name in GOOD}, [text], "v")


@pytest.mark.spark
def test_text_with_an_extreme_exponent_is_no_decimal(session: SparkSession) -> None:
    from pyspark.sql import functions as F

    values = {"s": ["1.255", "1e-400000000", "-1E+99999", "25e-1", "0" * 1001], "w": ["2.5"] * 5}
    frame = session.createDataFrame(list(zip(values["s"], values["w"], strict=True)), "s STRING, w STRING")
    texts = [
        "CAST(s AS DECIMAL(10,2))",
        "try_cast(trim(s) AS DECIMAL(10,2))",
        "CAST( s AS DECIMAL(10,2) )",
        "decimal(s)",
        "transform(array(s, w), x -> CAST(x AS DECIMAL(5,1)))",
        "/* é😀 */ CAST((s || '') AS DECIMAL(10,2)) + CAST(w AS DECIMAL(3,1)) - 1",
        "CAST(CAST(CAST(s AS DECIMAL(10,2)) AS STRING) AS DECIMAL(5,1))",
    ]
    result = evaluate(frame, {name: F.col(name) for name in values}, texts, "v").drop(*values)
    found = [["null" if v is None else str(v) for v in row] for row in result.collect()]
    none, half = "null", "2.5"
    extreme = [none, none, none, none, f"[None, Decimal('{half}')]", none, none]
    assert found == [
        ["1.26", "1.26", "1.26", "1", "[Decimal('1.3'), Decimal('2.5')]", "2.76", "1.3"],
        extreme,
        extreme,
        ["2.50", "2.50", "2.50", "3", "[Decimal('2.5'), Decimal('2.5')]", "4.00", "2.5"],
        extreme,
    ]


#: Expression → its value as a text.
VALUES = {
    "t + INTERVAL '1' DAY": "2024-03-01 12:00:00",
    "n + INTERVAL 1 MONTH": "2024-03-29",
    "n + INTERVAL '1' DAY": "2024-03-01",
    "INTERVAL 1 DAY + t": "2024-03-01 12:00:00",
    "(t) - (INTERVAL 1 DAY) + INTERVAL '02:00' HOUR TO MINUTE": "2024-02-28 14:00:00",
    "timestamp_micros(9223372036854775807L) + INTERVAL 1 DAY": None,
    "to_date('31.12.2024', 'dd.MM.yyyy') + INTERVAL 1 DAY": "2025-01-01",
    "to_date(concat(to_date('😀2024', '😀yyyy'), ''), 'yyyy-MM-dd')": "2024-01-01",
    "to_timestamp('20240101-123456', 'yyyyMMdd-HHmmss')": "2024-01-01 12:34:56",
    "to_date('01022024', 'ddMMyyyy')": "2024-02-01",
    "unix_timestamp(t, 'yyyy') - unix_timestamp(t)": "0",
    "to_date('01.01.+999999999', 'dd.MM.yyyy')": None,
    # what messages advise
    "greatest(i, k)": "2",
    "pmod(xxhash64(s), 100) < 100": "true",
    "length(md5(concat_ws('|', s, w)))": "32",
    "try_to_binary('YQ==', 'base64')": "a",
    "CAST(replace('1,000.5', ',', '') AS DECIMAL(6,1))": "1000.5",
    "CAST(k AS TIMESTAMP)": "1970-01-01 00:00:02",
    "timestamp_micros(try_multiply(k, 1000))": "1970-01-01 00:00:00.002",
    "date_add(n, i)": "2024-03-01",
    "try_add(t, make_interval(0, 0, 0, i))": "2024-03-01 12:00:00",
    "try_add(t, try_multiply(INTERVAL 1 DAY, 2))": "2024-03-02 12:00:00",
    "datediff(n, date_sub(n, 2))": "2",
    "unix_micros(t) - unix_micros(t)": "0",
    "get(split(s, ','), i)": "b c",
    "contains(s, w)": "false",
    "sort_array(ns, false)[0]": "2",
    "CAST('2024-12-31' AS DATE)": "2024-12-31",
}


@pytest.mark.spark
def test_values_of_common_forms_and_of_those_that_messages_advise(session: SparkSession) -> None:
    from pyspark.sql import functions as F

    frame = frame_of(session, [[0] * len(GOOD)])
    result = evaluate(frame, {name: F.col(name) for name in GOOD}, [*VALUES], "v")
    [row] = result.selectExpr(*[f"CAST(v{n} AS STRING)" for n in range(len(VALUES))]).collect()
    assert dict(zip(VALUES, row, strict=True)) == VALUES


def frame_of(session: SparkSession, rows: list[list[int]]) -> DataFrame:
    """Return rows of values by their numbers: 0 for the ordinary value of a column, and then its hostile ones."""
    numbers = session.createDataFrame(rows, ", ".join(f"{name} INT" for name in GOOD))
    values = {name: ", ".join([GOOD[name], *HOSTILE[name]]) for name in GOOD}
    return numbers.selectExpr(*[f"array({values[name]})[{name}] AS {name}" for name in GOOD]).repartition(1)


def list_hostile_rows() -> list[list[int]]:
    """Return rows in which one column has a hostile value, and rows in which all columns have one."""
    sizes = [len(HOSTILE[name]) for name in GOOD]
    alone = [
        [n + 1 if p == place else 0 for p in range(len(sizes))] for place, size in enumerate(sizes) for n in range(size)
    ]
    together = [
        [(n + shift * place) % size + 1 for place, size in enumerate(sizes)]
        for n in range(max(sizes))
        for shift in (0, 1, 5)
    ]
    return [*alone, *together]


@pytest.fixture(scope="module")
def hostile(session: SparkSession) -> Iterator[DataFrame]:
    frame = frame_of(session, list_hostile_rows()).cache()
    assert frame.count() > 200
    yield frame
    frame.unpersist()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("part", nightly_after(1, range(PARTS)))
def test_no_value_fails_an_allowed_function(session: SparkSession, hostile: DataFrame, part: int) -> None:
    from pyspark.sql import functions as F

    known = {row[0] for row in session.sql("SHOW SYSTEM FUNCTIONS").collect()}
    calls = [text for name, texts in CALLS.items() if name in known or not name.isidentifier() for text in texts]
    for start in range(part, len(calls), GROUP * PARTS):
        texts = calls[start : start + GROUP * PARTS : PARTS]
        result = evaluate(hostile, {name: F.col(name) for name in GOOD}, texts, "v")
        result.drop(*GOOD).write.format("noop").mode("append").save()
