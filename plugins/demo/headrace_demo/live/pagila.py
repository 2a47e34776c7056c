"""The Pagila database: a video rental shop in 15 tables, as SQL that needs no psql."""

from __future__ import annotations

import io
import lzma
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pg8000.native import Connection

    from headrace_stack import Postgres

_FILE = Path(__file__).with_name("data") / "pagila.sql.xz"
#: Rows as pg_dump writes them, between the statements.
_COPY = re.compile(r"^(COPY [^\n]* FROM stdin;)\n(.*?)^\\\.\n", re.MULTILINE | re.DOTALL)
#: A partitioned table counts once, its parts do not.
_TABLES = """
select relname from pg_class
where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition order by relname
"""


def load(connection: Connection) -> None:
    """Create its tables, rows, keys, indexes and triggers in the schema ``public`` of an empty database."""
    statements = _COPY.split(lzma.decompress(_FILE.read_bytes()).decode())
    connection.run(statements[0])
    for copy, rows, following in zip(statements[1::3], statements[2::3], statements[3::3], strict=True):
        connection.run(copy, stream=io.BytesIO(rows.encode()))
        if following.strip():
            connection.run(following)


def counts(postgres: Postgres) -> dict[str, int]:
    """Table → its rows now, all at one moment."""
    names = [name for (name,) in postgres.query(_TABLES)]
    selects = (f"select '{name}', count(*) from public.{name}" for name in names)  # noqa: S608 - from the catalogue
    return dict(postgres.query(" union all ".join(selects)))


def row(postgres: Postgres, table: str, condition: str) -> dict[str, str]:
    """A row, each column as PostgreSQL prints it."""
    ((fields,),) = postgres.query(f"select to_json({table}) from public.{table} where {condition}")  # noqa: S608 - our own
    return {name: str(value) for name, value in fields.items()}
