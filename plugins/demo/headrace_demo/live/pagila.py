"""Sample database Pagila: a video rental shop in 15 tables, loaded without psql."""

from __future__ import annotations

import io
import lzma
import re
from typing import TYPE_CHECKING

from headrace_demo.data import find_data

if TYPE_CHECKING:
    from pg8000.native import Connection

    from headrace_stack import Postgres

#: Rows in the format of pg_dump, between the statements.
_COPY = re.compile(r"^(COPY [^\n]* FROM stdin;)\n(.*?)^\\\.\n", re.MULTILINE | re.DOTALL)
#: A partitioned table counts once; its partitions do not count.
_TABLES = """
select relname from pg_class
where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition order by relname
"""


def load(connection: Connection) -> None:
    """Create the tables, rows, keys, indexes and triggers in the schema ``public`` of an empty database."""
    file = find_data("pagila") / "pagila.sql.xz"
    statements = _COPY.split(lzma.decompress(file.read_bytes()).decode())
    connection.run(statements[0])
    for copy, rows, following in zip(statements[1::3], statements[2::3], statements[3::3], strict=True):
        connection.run(copy, stream=io.BytesIO(rows.encode()))
        if following.strip():
            connection.run(following)


def count_rows(postgres: Postgres) -> dict[str, int]:
    """Return table → row count, all from one snapshot."""
    names = [name for (name,) in postgres.query(_TABLES)]
    selects = (f"select '{name}', count(*) from public.{name}" for name in names)  # noqa: S608 - from the catalog
    return dict(postgres.query(" union all ".join(selects)))


def read_row(postgres: Postgres, table: str, condition: str) -> dict[str, str]:
    """Return one row: column → string, as in PostgreSQL's JSON."""
    ((fields,),) = postgres.query(f"select to_json({table}) from public.{table} where {condition}")  # noqa: S608 - our own
    return {name: str(value) for name, value in fields.items()}
