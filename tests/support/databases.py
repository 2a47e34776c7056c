"""Sample databases for tests, and expressions that print rows the same way in the database and in Spark."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"
Query = Callable[[str], list[tuple[Any, ...]]]

#: Expressions of the database and of Spark by type of the database. Both print equal values as equal strings.
_POSTGRES = {
    "timestamp with time zone": ("(extract(epoch from {c}) * 1000000)::bigint::text", "string(unix_micros({c}))"),
    "timestamp without time zone": (
        "(extract(epoch from {c}) * 1000000)::bigint::text",
        "string(unix_micros(timestamp({c})))",
    ),
    "ARRAY": ("array_to_string({c}, ',', 'null')", "array_join({c}, ',', 'null')"),
    "bytea": ("encode({c}, 'hex')", "lower(hex({c}))"),
    # Trailing spaces are not significant in PostgreSQL.
    "character": ("rtrim({c}::text)", "rtrim({c})"),
    "": ("{c}::text", "string({c})"),
}
_MARIADB = {
    "datetime": ("concat(timestampdiff(microsecond, '1970-01-01', {c}))", "string(unix_micros(timestamp({c})))"),
    "timestamp": ("concat(cast(unix_timestamp({c}) * 1000000 as integer))", "string(unix_micros({c}))"),
    "tinyint": ("concat({c})", "string(int({c}))"),
    "blob": ("lower(hex({c}))", "lower(hex({c}))"),
    "float": ("format({c}, 3)", "format_number({c}, 3)"),
    "": ("concat({c})", "string({c})"),
}


@dataclass(frozen=True)
class Printed:
    """Table with the expressions of its columns and key in the database and in Spark."""

    name: str
    database: tuple[str, ...]
    lake: tuple[str, ...]


def describe_postgres_tables(query: Query, schema: str) -> list[Printed]:
    """Describe the tables of a schema; a partitioned table counts as one."""
    is_not_partition = "format('%I.%I', table_schema, table_name)::regclass not in (select inhrelid from pg_inherits)"
    return _list_tables(query, schema, is_not_partition, _POSTGRES, '"{}"')


def describe_mariadb_tables(query: Query, schema: str) -> list[Printed]:
    """Describe the tables of a database."""
    return _list_tables(query, schema, "true", _MARIADB, "`{}`")


def _list_tables(
    query: Query, schema: str, condition: str, rules: dict[str, tuple[str, str]], quoted: str
) -> list[Printed]:
    columns = query(
        "select c.table_name, c.column_name, c.data_type from information_schema.columns c "
        "join information_schema.tables t using (table_schema, table_name) "
        f"where table_schema = '{schema}' and table_type = 'BASE TABLE' and {condition} order by 1, ordinal_position"
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in columns:
        database, lake = rules.get(kind, rules[""])
        found.setdefault(table, []).append((database.format(c=quoted.format(column)), lake.format(c=f"`{column}`")))
    return [Printed(table, tuple(d for d, _ in pairs), tuple(s for _, s in pairs)) for table, pairs in found.items()]


def sort_rows(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sort rows of strings in Python, because databases sort differently."""
    return sorted(map(tuple, rows), key=lambda row: [(value is None, value) for value in row])


def sakila() -> str:
    """Return the Sakila database for MariaDB: all tables and triggers, rentals and payments of fifty customers."""
    return lzma.decompress((DATA / "sakila/sakila.sql.xz").read_bytes()).decode()


def inventory() -> str:
    """Return the database of Debezium's tutorial for MariaDB."""
    return (DATA / "inventory/inventory.sql").read_text(encoding="utf-8")


#: The seven tables of TICKIT, the sample database of Amazon Redshift, with generated rows.
TICKIT = """
create schema tickit;
create table tickit.users (
  userid integer primary key, username char(8), firstname varchar(30), city varchar(30), state char(2),
  email varchar(100), phone char(14), likesports boolean, likejazz boolean
);
create table tickit.venue (
  venueid smallint primary key, venuename varchar(100), venuecity varchar(30), venuestate char(2), venueseats integer
);
create table tickit.category (
  catid smallint primary key, catgroup varchar(10), catname varchar(10), catdesc varchar(50)
);
create table tickit.date (
  dateid smallint primary key, caldate date not null, day character(3) not null, week smallint not null,
  year smallint not null, holiday boolean default false
);
create table tickit.event (
  eventid integer primary key, venueid smallint references tickit.venue, catid smallint references tickit.category,
  dateid smallint references tickit.date, eventname varchar(200), starttime timestamp
);
create table tickit.listing (
  listid integer primary key, sellerid integer references tickit.users, eventid integer references tickit.event,
  numtickets smallint not null, priceperticket decimal(8,2), totalprice decimal(8,2), listtime timestamp
);
create table tickit.sales (
  salesid integer primary key, listid integer references tickit.listing, buyerid integer references tickit.users,
  qtysold smallint not null, pricepaid decimal(8,2), commission decimal(8,2), saletime timestamp
);
insert into tickit.users select i, 'USER' || i, 'Ünal ' || i, null, 'WA', i || '@example.org', null, i % 2 = 0, null
  from generate_series(1, 50) i;
insert into tickit.venue select i, 'Hall ' || i, 'Zürich', 'ZH', i * 1000 from generate_series(1, 10) i;
insert into tickit.category select i, 'Shows', 'Opera', null from generate_series(1, 5) i;
insert into tickit.date select i, date '2008-01-01' + i, 'MO', i / 7, 2008, i % 50 = 0 from generate_series(1, 200) i;
insert into tickit.event select i, i % 10 + 1, i % 5 + 1, i % 200 + 1, 'Event ' || i,
  timestamp '2008-01-01 19:30' + i * interval '1 day' from generate_series(1, 300) i;
insert into tickit.listing select i, i % 50 + 1, i % 300 + 1, i % 4 + 1, i * 1.25, i * 2.5, '2008-02-03 04:05:06.789'
  from generate_series(1, 400) i;
insert into tickit.sales select i, i, i % 50 + 1, 1, i * 1.25, round(i * 0.1875, 2), now() from generate_series(1, 400) i;
"""
