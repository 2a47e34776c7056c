"""Connection to the source database of a pipeline file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from headrace.sdk import ConfigError
from headrace.sdk.options import did_you_mean
from headrace_connect.command import connect, open_target
from headrace_connect.preflight.source_database import open_database, resolve_options
from headrace_verify.array_texts import find_postgresql_form
from headrace_verify.mysql_database import MySqlDatabase
from headrace_verify.postgresql_database import PostgreSqlDatabase
from headrace_verify.source_table import SourceDatabase
from headrace_verify.value_texts import FindForm, find_mysql_form
from headrace_verify.verify_config import VerifyConfig

#: Seconds for an answer of the database: a sum over a large table takes minutes.
_TIMEOUT = 3600
KINDS: Mapping[str, tuple[type[SourceDatabase], FindForm]] = {
    "io.debezium.connector.postgresql.PostgresConnector": (PostgreSqlDatabase, find_postgresql_form),
    "io.debezium.connector.mysql.MySqlConnector": (MySqlDatabase, find_mysql_form),
    "io.debezium.connector.mariadb.MariaDbConnector": (MySqlDatabase, find_mysql_form),
}


@contextmanager
def open_source(
    file: str, config: VerifyConfig, others: Mapping[str, Any]
) -> Iterator[tuple[SourceDatabase, FindForm]]:
    """Yield the database of a pipeline file, and the text forms of its columns.

    ``config``: the block ``verify:``, whose options replace those of ``connect:``; ``others``: the other keys of the file.
    """
    own = config.connection_options()
    with ExitStack() as stack:
        options: dict[str, str | None] = {}
        read_offsets: Callable[[], list[dict[str, Any]]] | None = None
        if connect.name in others:
            target = stack.enter_context(open_target(file))
            options, read_offsets = {**target.deployment.options, **target.preflight}, target.deployment.read_offsets
        if not (own.get("connector.class") or options.get("connector.class")):
            fix = "add the block `connect:`, or `verify: {config: {…}}` with `connector.class` and the options of the connection"
            raise ConfigError("the file does not name the source database", where=file, fix=fix)
        resolved = resolve_options(options, own)
        kind = resolved["connector.class"]
        if kind not in KINDS:
            what = f"tables of {kind} cannot be verified"
            raise ConfigError(what, where=file, fix=did_you_mean(kind, list(KINDS)))
        database, find_form = KINDS[kind]
        query = stack.enter_context(open_database(resolved, _TIMEOUT))
        yield database(query, resolved, read_offsets), find_form
