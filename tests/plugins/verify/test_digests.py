"""Digests of equal values are equal in a database and in Spark, for each type and its extreme values; planted errors are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from headrace_verify.array_texts import find_postgresql_form
from headrace_verify.compared_table import choose_columns
from headrace_verify.comparison import Comparison, Difference, Settlement, find_candidates
from headrace_verify.mysql_database import MySqlDatabase
from headrace_verify.postgresql_database import PostgreSqlDatabase
from headrace_verify.sides import LakeSide, SourceSide
from headrace_verify.source_table import SourceDatabase
from headrace_verify.value_texts import find_mysql_form

from headrace_connect.preflight.source_database import open_database, resolve_options
from headrace_stack import MariaDb, Postgres

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.slow]


@dataclass(frozen=True)
class Values:
    """Column with its type in the database and in Spark, and equal literals of both."""

    name: str
    ddl: str
    stored: str
    #: Literals of the database and of Spark; one string for both.
    pairs: tuple[str | tuple[str, str], ...]

    def pair(self, row: int) -> tuple[str, str]:
        value = self.pairs[row] if row < len(self.pairs) else "null"
        return (value, value) if isinstance(value, str) else value


_TEXTS = ("''", "'a|b'", "'N'", "'1:x'", "'é中😀'", "' lead'", "'null'")
_DATES = ("date '2024-02-29'", "date '1582-10-10'", "date '0001-01-01'", "date '9999-12-31'", "date '1500-03-01'")
_MOMENTS = (
    "1582-10-10 01:02:03.000001",
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59.999999",
    "1969-12-31 23:59:59.999999",
)
_DOUBLES = ("0.1", "1e22", "-1.5e-7", "5e-324", "1.7976931348623157e308", "2e-44", "123456789012345680")

POSTGRES = [
    Values("small", "smallint", "smallint", ("-32768", "32767")),
    Values("whole", "int", "int", ("-2147483648", "0")),
    Values("big", "bigint", "bigint", (("'-9223372036854775808'", "-9223372036854775808L"), "9223372036854775807")),
    Values("flag", "boolean", "boolean", ("true", "false")),
    Values("fee", "numeric(12,2)", "decimal(12,2)", ("-0.01", "0", "9999999999.99")),
    Values("tiny", "numeric(20,12)", "decimal(20,12)", ("0.000000000001", "-0.0000001", "0", "12345678.000000000001")),
    Values("grown", "numeric(8,2)", "decimal(10,4)", ("1.5", "-999999.99")),
    Values(
        "free", "numeric", "string", (("1.50", "'1.5'"), ("100", "'100'"), ("'NaN'", "'NAN'"), ("-0.0010", "'-0.001'"))
    ),
    Values("money", "money", "decimal(38,2)", (("'-12.34'", "-12.34"),)),
    Values(
        "ratio",
        "double precision",
        "double",
        (*((f"'{v}'", f"double('{v}')") for v in (*_DOUBLES, "NaN", "-Infinity")), ("'-0'", "double('-0.0')")),
    ),
    Values(
        "single", "real", "float", (("'0.1'", "float('0.1')"), ("'NaN'", "float('NaN')"), ("'3e38'", "float('3e38')"))
    ),
    Values("note", "text", "string", (*_TEXTS, "'line\nnext'", (r"E'back\\slash'", r"'back\\slash'"))),
    Values("code", "char(4)", "string", (("'ab'", "'ab  '"), "'abcd'")),
    Values("ref", "uuid", "string", ("'6f1d3c1e-5b1c-4b8a-9c7e-0f1e2d3c4b5a'",)),
    Values("about", "jsonb", "string", (("'{\"a\": [1, 2]}'", "'{\"a\": [1, 2]}'"), "'null'")),
    Values("host", "inet", "string", ("'10.0.0.1'", "'10.0.0.0/8'")),
    Values("raw", "bytea", "binary", (("'\\xdeadbeef'", "X'DEADBEEF'"), ("''", "X''"))),
    Values(
        "born", "date", "date", (*_DATES, ("'infinity'", "date '9999-12-31'"), ("'-infinity'", "date '0001-01-01'"))
    ),
    Values("at", "timestamp", "timestamp_ntz", tuple((f"'{m}'", f"timestamp_ntz '{m}'") for m in _MOMENTS)),
    Values(
        "seen",
        "timestamptz",
        "timestamp",
        (("'2026-01-02 03:04:05.678901+02'", "timestamp '2026-01-02 01:04:05.678901Z'"),),
    ),
    Values("clock", "time", "bigint", (("'23:59:59.999999'", "86399999999"), ("'00:00'", "0"))),
    Values("sizes", "int[]", "array<int>", (("'{1,NULL,-3}'", "array(1, null, -3)"), ("'{}'", "array()"))),
    Values(
        "words",
        "text[]",
        "array<string>",
        (("array['a,N', null, '1:é']", "array('a,N', null, '1:é')"), ("'{N}'", "array('N')")),
    ),
    Values("fees", "numeric(8,2)[]", "array<decimal(8,2)>", (("'{1.5,-0.01}'", "array(1.50BD, -0.01BD)"),)),
]
MARIADB = [
    Values("small", "smallint", "smallint", ("-32768", "32767")),
    Values("big", "bigint unsigned", "bigint", (("18446744073709551615", "-1L"), "1")),
    Values("wide", "bigint unsigned", "decimal(20,0)", ("18446744073709551615", "0")),
    Values("flag", "bit(1)", "boolean", (("b'1'", "true"), ("b'0'", "false"))),
    Values("fee", "decimal(12,2)", "decimal(12,2)", ("-0.01", "0", "9999999999.99")),
    Values("tiny", "decimal(20,12)", "decimal(20,12)", ("0.000000000001", "-0.0000001", "0")),
    Values("grown", "decimal(8,2)", "decimal(10,4)", ("1.5", "-999999.99")),
    Values("ratio", "double", "double", tuple((v, f"double('{v}')") for v in _DOUBLES)),
    Values("single", "float", "float", (("0.1", "float('0.1')"), ("3e38", "float('3e38')"))),
    Values("note", "text", "string", (*_TEXTS, "'line\nnext'", r"'back\\slash'")),
    Values("latin", "varchar(20) character set latin1", "string", ("'é'", "'ß'")),
    Values("code", "char(4)", "string", ("'ab'", "'abcd'")),
    Values("kind", "enum('x','y')", "string", ("'x'", "'y'")),
    Values("raw", "varbinary(20)", "binary", (("x'DEADBEEF'", "X'DEADBEEF'"), ("''", "X''"))),
    Values("born", "date", "date", tuple((d.removeprefix("date "), d) for d in _DATES)),
    Values("at", "datetime(6)", "timestamp_ntz", tuple((f"'{m}'", f"timestamp_ntz '{m}'") for m in _MOMENTS)),
    Values(
        "seen",
        "timestamp(6)",
        "timestamp",
        (("'2026-01-02 03:04:05.678901'", "timestamp '2026-01-02 03:04:05.678901Z'"),),
    ),
    Values("year", "year", "int", ("1901", "2155")),
]
ROWS = 12


@dataclass(frozen=True)
class Case:
    """Database with a table of all types, and the same rows in Spark."""

    database: SourceDatabase
    find_form: Callable[..., Any]
    values: list[Values]
    schema: str

    def create(self) -> None:
        columns = ", ".join(f"{self.database.quote(v.name)} {v.ddl}" for v in self.values)
        rows = ", ".join(f"({n}, {', '.join(v.pair(n)[0] for v in self.values)})" for n in range(ROWS))
        self.database.query(f"create table {self.schema}.every (id int primary key, {columns})")
        self.database.query(f"insert into {self.schema}.every values {rows}")

    def build_frame(self, spark: SparkSession) -> DataFrame:
        rows = ", ".join(f"({n}, {', '.join(v.pair(n)[1] for v in self.values)})" for n in range(ROWS))
        names = ", ".join(["id", *(f"`{v.name}`" for v in self.values)])
        frame = spark.sql(f"select * from values {rows} as t({names})")
        return frame.selectExpr("id", *(f"cast(`{v.name}` as {v.stored}) as `{v.name}`" for v in self.values))

    def compare(self, frame: DataFrame) -> list[Difference]:
        """Return the differences; nothing is on its way."""
        table = choose_columns(
            self.database, self.find_form, self.database.describe(self.schema, "every"), frame.schema, ()
        )
        assert dict(table.left_out) == {}
        source, lake = SourceSide(self.database, table, 1, None), LakeSide(lambda: frame, table, 1, None)
        result = Comparison()
        candidates = find_candidates(source, lake, result)
        names = [column.name for column in table.columns]
        Settlement(source, lake, names, lambda: None).settle(candidates, result, 3)
        assert result.rows == ROWS
        assert not result.unsettled
        return result.differences


@pytest.fixture(scope="module")
def cases(postgres: Postgres, mariadb: MariaDb) -> Iterator[dict[str, Case]]:
    postgres.execute("create schema verified")
    mariadb.execute("create database verified character set utf8mb4")
    with ExitStack() as stack:

        def open_case(options: dict[str, str], kind: type[SourceDatabase], find: Any, values: list[Values]) -> Case:
            query = stack.enter_context(open_database(resolve_options(options, {}), 60))
            case = Case(kind(query, options), find, values, "verified")
            case.create()
            return case

        yield {
            "postgres": open_case(postgres.debezium("v"), PostgreSqlDatabase, find_postgresql_form, POSTGRES),
            "mariadb": open_case(mariadb.debezium("v", ""), MySqlDatabase, find_mysql_form, MARIADB),
        }


@pytest.fixture(scope="module", params=["postgres", "mariadb"])
def case(request: pytest.FixtureRequest, cases: dict[str, Case]) -> Case:
    return cases[request.param]


def test_equal_values_have_equal_digests(case: Case, spark: SparkSession) -> None:
    assert case.compare(case.build_frame(spark)) == []


def test_planted_errors_are_named(case: Case, spark: SparkSession) -> None:
    planted = {
        (0, "note"): "'wrong'",
        (1, "at"): "timestamp_ntz '0001-01-01 01:00:00'",
        (2, "fee"): "9999999999.98BD",
        (3, "note"): "'1:'",
        (4, "ratio"): "double('1.7976931348623155e308')",
        (5, "note"): "null",
        (6, "tiny"): "0",
        **({(1, "words"): "array(null)", (2, "sizes"): "array()"} if case.find_form is find_postgresql_form else {}),
    }
    frame = case.build_frame(spark)
    changed: dict[str, str] = {name: f"`{name}`" for name in frame.columns}
    for (row, column), value in planted.items():
        stored = next(v.stored for v in case.values if v.name == column)
        inner = changed[column].removesuffix(f" as `{column}`")
        changed[column] = f"case when id = {row} then cast({value} as {stored}) else {inner} end as `{column}`"
    broken = frame.selectExpr(*changed.values()).where("id <> 7")
    extra = broken.where("id = 8").selectExpr("explode(array(8, 108)) as id", *(f"`{v.name}`" for v in case.values))
    # Two rows with each other's values.
    swapped = broken.selectExpr(
        "case id when 9 then 10 when 10 then 9 else id end as id", *(f"`{v.name}`" for v in case.values)
    )
    found = case.compare(swapped.union(extra))
    named = {difference.key: (difference.kind, difference.columns) for difference in found}
    for row in {row for row, _ in planted}:
        columns = tuple(v.name for v in case.values if (row, v.name) in planted)
        assert named.pop((str(row),)) == ("different", columns)
    assert named.pop(("7",)) == ("missing", ())
    assert named.pop(("8",)) == ("extra", ())  # a second row
    assert named.pop(("108",)) == ("extra", ())
    assert set(named) <= {("9",), ("10",)}
