"""Checks of PostgreSQL: write-ahead log, slot, publication, replica identities and privileges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from headrace_connect.preflight.findings import Finding, choose_tables, find_missing_tables

Options = Mapping[str, str]
Query = Callable[[str], list[tuple[Any, ...]]]

_TABLES = """
select n.nspname || '.' || c.relname, c.oid::regclass::text, c.relreplident::text,
       exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary),
       has_table_privilege(c.oid, 'SELECT'), pg_has_role(c.relowner, 'MEMBER')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
order by 1"""


def check_postgresql(query: Query, options: Options) -> Iterator[Finding]:
    """Yield the findings about a database. ``options``: the connector's configuration."""
    ((level, user, may_replicate),) = query(
        "select current_setting('wal_level'), quote_ident(current_user), rolreplication or rolsuper "
        "or exists (select from pg_roles g where g.rolname = 'rds_replication' and pg_has_role(g.oid, 'MEMBER')) "
        "from pg_roles where rolname = current_user"
    )
    if level != "logical":
        yield Finding(f"wal_level is {level}", "ALTER SYSTEM SET wal_level = 'logical'; then restart PostgreSQL")
    if not may_replicate:
        yield Finding(f"the user {user} must not read the log", f"ALTER ROLE {user} REPLICATION;")
    rows = query(_TABLES)
    tables = choose_tables(options, [row[0] for row in rows])
    captured = [row for row in rows if row[0] in tables]
    yield from find_missing_tables(options, tables)
    for _, table, identity, has_key, may_read, _ in captured:
        yield from _check_table(table, identity, user, has_key=has_key, may_read=may_read)
    yield from _check_slot(query, options)
    yield from _check_publication(query, options, captured, user)
    yield from _check_signals(options.get("signal.data.collection"), [row[0] for row in rows])


def _check_table(table: str, identity: str, user: str, *, has_key: bool, may_read: bool) -> Iterator[Finding]:
    if not may_read:
        yield Finding(f"the user {user} must not read {table}", f"GRANT SELECT ON {table} TO {user};")
    full = f"ALTER TABLE {table} REPLICA IDENTITY FULL;"
    if identity == "n":
        statement = f"ALTER TABLE {table} REPLICA IDENTITY DEFAULT;" if has_key else full
        yield Finding(f"{table} has the replica identity NOTHING: deletes have no key", statement)
    elif identity == "d" and not has_key:
        what = f"{table} has no primary key: PostgreSQL rejects its updates and deletes once it is published"
        yield Finding(what, f"{full} or add a primary key")


def _check_slot(query: Query, options: Options) -> Iterator[Finding]:
    slot = options.get("slot.name", "debezium")
    found = query(
        "select slot_name, plugin, database = current_database(), coalesce(wal_status, ''), conflict from ("
        "select s.*, (to_jsonb(s) ->> 'conflicting')::boolean as conflict from pg_replication_slots s) s"
    )
    own = next((row for row in found if row[0] == slot), None)
    drop = f"SELECT pg_drop_replication_slot('{slot}'); then a new snapshot"
    if own is None:
        ((most,),) = query("select current_setting('max_replication_slots')::int")
        if len(found) >= most:
            statement = f"ALTER SYSTEM SET max_replication_slots = {most + 1}; then restart PostgreSQL"
            yield Finding(f"all {most} replication slots are in use", statement)
    elif own[3] == "lost" or own[4]:
        yield Finding(f"the slot {slot} has lost changes that the connector did not read", drop)
    elif not own[2] or own[1] != options.get("plugin.name", "decoderbufs"):
        yield Finding(f"the slot {slot} is of another database or plugin, {own[1]}", "set another `slot.name`")
    ((limit,),) = query("select current_setting('max_slot_wal_keep_size')")
    if limit != "-1":
        what = f"the slot loses changes if the connector is more than {limit} behind"
        yield Finding(what, "ALTER SYSTEM SET max_slot_wal_keep_size = -1; SELECT pg_reload_conf();", is_warning=True)


def _check_publication(query: Query, options: Options, captured: list[tuple[Any, ...]], user: str) -> Iterator[Finding]:
    name = options.get("publication.name", "dbz_publication")
    quoted = '"' + name.replace('"', '""') + '"'
    mode = options.get("publication.autocreate.mode", "all_tables")
    publications: dict[str, bool] = dict(
        query("select pubname, pubinsert and pubupdate and pubdelete and pubtruncate from pg_publication")
    )
    all_tables = ", ".join(row[1] for row in captured)
    if name not in publications:
        ((database, may_create),) = query(
            "select quote_ident(current_database()), has_database_privilege(current_database(), 'CREATE')"
        )
        foreign = [row[1] for row in captured if not row[5]]
        if mode == "disabled" or foreign:
            why = f"{user} does not own {', '.join(foreign)}" if mode != "disabled" else f"the mode is {mode}"
            statement = f"CREATE PUBLICATION {quoted} FOR TABLE {all_tables}; as their owner"
            yield Finding(f"there is no publication {name}, and the connector cannot create it: {why}", statement)
        elif not may_create:
            statement = f"GRANT CREATE ON DATABASE {database} TO {user};"
            yield Finding(f"the user {user} must not create the publication", statement)
        return
    if not publications[name]:
        statement = f"ALTER PUBLICATION {quoted} SET (publish = 'insert, update, delete, truncate');"
        yield Finding(f"the publication {name} leaves out changes", statement)
    published = query("select pubname, schemaname || '.' || tablename from pg_publication_tables")
    for table, quoted_table, *_ in captured:
        if (name, table) not in published and mode != "filtered":
            statement = f"ALTER PUBLICATION {quoted} ADD TABLE {quoted_table};"
            yield Finding(f"{quoted_table} is not in the publication {name}", statement)


def _check_signals(table: str | None, tables: Collection[str]) -> Iterator[Finding]:
    if table and table not in tables:
        columns = "id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)"
        statement = f"CREATE SCHEMA IF NOT EXISTS {table.partition('.')[0]}; CREATE TABLE {table} ({columns});"
        yield Finding(f"there is no signal table {table}: snapshots on request fail", statement, is_warning=True)
