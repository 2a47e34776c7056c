"""Checks of PostgreSQL: write-ahead log, slot, publication, replica identities and privileges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from headrace_connect.preflight.findings import Finding, choose_tables, find_missing_tables

Options = Mapping[str, str]
Query = Callable[[str], list[tuple[Any, ...]]]

#: Debezium's default plugin.
_DECODERBUFS = "decoderbufs"
#: Without pg_partition_ancestors, which PostgreSQL 11 lacks.
_TABLES = """
with recursive up (leaf, oid) as (
  select oid, oid from pg_class where relkind in ('r', 'p')
  union all select up.leaf, i.inhparent from up join pg_class p on p.oid = up.oid join pg_inherits i on i.inhrelid = p.oid
  where p.relispartition)
select n.nspname || '.' || c.relname, format('%I.%I', n.nspname, c.relname), quote_ident(n.nspname), c.relreplident::text,
       exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary),
       exists (select from pg_index i where i.indrelid = c.oid and i.indisreplident),
       has_schema_privilege(n.oid, 'USAGE'), has_table_privilege(c.oid, 'SELECT'), pg_has_role(c.relowner, 'MEMBER'),
       row_security_active(c.oid), c.relpersistence = 'u', c.relkind = 'p', array(select a.nspname || '.' || r.relname from up join pg_class r on r.oid = up.oid
         join pg_namespace a on a.oid = r.relnamespace where up.leaf = c.oid and up.oid <> c.oid)::text[]
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relpersistence <> 't' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
order by 1"""
#: Tables of publications. The view has partitions in place of their root, which the catalog has.
_PUBLISHED = """
select p.pubname, n.nspname || '.' || c.relname from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
join pg_class c on c.oid = r.prrelid join pg_namespace n on n.oid = c.relnamespace
union select pubname, schemaname || '.' || tablename from pg_publication_tables"""
#: Tables with a part of their rows or columns in a publication, since PostgreSQL 15.
_FILTERED = """
select p.pubname, n.nspname || '.' || c.relname, to_jsonb(r) ->> 'prqual' is not null
from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
join pg_class c on c.oid = r.prrelid join pg_namespace n on n.oid = c.relnamespace
where to_jsonb(r) ->> 'prqual' is not null or to_jsonb(r) ->> 'prattrs' is not null"""


class _Table(NamedTuple):
    """Table; ``quoted`` and ``schema``: names for statements; ``parents``: the partitioned tables that it is a part of."""

    name: str
    quoted: str
    schema: str
    identity: str
    has_key: bool
    has_identity_index: bool
    may_use_schema: bool
    may_read: bool
    is_owned: bool
    hides_rows: bool
    is_unlogged: bool
    is_partitioned: bool
    parents: list[str]

    def is_in(self, names: Collection[str]) -> bool:
        return self.name in names or any(parent in names for parent in self.parents)


class _Publication(NamedTuple):
    """Publication; ``is_complete``: it has all operations."""

    name: str
    is_complete: bool
    has_all_tables: bool
    is_owned: bool
    has_roots: bool


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
    tables = [_Table(*row) for row in query(_TABLES)]
    names = choose_tables(options, [table.name for table in tables])
    captured = [table for table in tables if table.name in names]
    yield from find_missing_tables(options, names)
    for schema in dict.fromkeys(table.schema for table in captured if not table.may_use_schema):
        yield Finding(f"the user {user} must not use the schema {schema}", f"GRANT USAGE ON SCHEMA {schema} TO {user};")
    for table in tables:
        if table.name in names and not table.may_read:
            what = f"the user {user} must not read {table.quoted}"
            yield Finding(what, f"GRANT SELECT ON {table.quoted} TO {user};")
        if table.name in names and table.hides_rows:
            what = f"policies of {table.quoted} hide rows from the user {user}: snapshots lack them"
            yield Finding(what, f"ALTER ROLE {user} BYPASSRLS;")
        if table.is_in(names) and not table.is_partitioned:  # the partitions have the replica identities
            yield from _check_identity(table)
    yield from _check_slot(query, options)
    if options.get("plugin.name", _DECODERBUFS).lower() != _DECODERBUFS:  # This plugin has no publication.
        yield from _check_publication(query, options, tables, captured, user)
    yield from _check_signals(query, options.get("signal.data.collection"), [table.name for table in tables])


def _check_identity(table: _Table) -> Iterator[Finding]:
    name = table.quoted
    full = f"ALTER TABLE {name} REPLICA IDENTITY FULL;"
    default = f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT;" if table.has_key else full
    if table.is_unlogged:
        yield Finding(f"{name} is unlogged: the log has none of its changes", f"ALTER TABLE {name} SET LOGGED;")
    if table.identity == "n":
        yield Finding(f"{name} has the replica identity NOTHING: deletes have no key", default)
    elif table.identity == "i" and not table.has_identity_index:
        what = f"the index of the replica identity of {name} was dropped"
        yield Finding(f"{what}: PostgreSQL rejects its updates and deletes once it is published", default)
    elif table.identity == "d" and not table.has_key:
        what = f"{name} has no primary key: PostgreSQL rejects its updates and deletes once it is published"
        yield Finding(what, f"{full} or add a primary key")


def _check_slot(query: Query, options: Options) -> Iterator[Finding]:
    slot = options.get("slot.name", "debezium")
    found = query(
        "select slot_name, plugin, database = current_database(), coalesce(to_jsonb(s) ->> 'wal_status', ''), "
        "(to_jsonb(s) ->> 'conflicting')::boolean from pg_replication_slots s"
    )
    own = next((row for row in found if row[0] == slot), None)
    drop = f"SELECT pg_drop_replication_slot({quote_text(slot)}); then a new snapshot"
    if own is None:
        ((most,),) = query("select current_setting('max_replication_slots')::int")
        if len(found) >= most:
            statement = f"ALTER SYSTEM SET max_replication_slots = {most + 1}; then restart PostgreSQL"
            yield Finding(f"all {most} replication slots are in use", statement)
    elif own[3] == "lost" or own[4]:
        yield Finding(f"the slot {slot} has lost changes that the connector did not read", drop)
    elif not own[2] or own[1] != options.get("plugin.name", _DECODERBUFS).lower():
        yield Finding(f"the slot {slot} is of another database or plugin, {own[1]}", "set another `slot.name`")
    elif own[3] == "unreserved":
        what = (
            f"the slot {slot} loses changes at the next checkpoint of PostgreSQL, unless the connector reads them first"
        )
        yield Finding(what, "start the connector")
    # Before PostgreSQL 13 there is no limit.
    ((limit,),) = query("select coalesce(current_setting('max_slot_wal_keep_size', true), '-1')")
    if limit != "-1":
        what = f"the slot loses changes if the connector is more than {limit} behind"
        yield Finding(what, "ALTER SYSTEM SET max_slot_wal_keep_size = -1; SELECT pg_reload_conf();", is_warning=True)


def _check_publication(
    query: Query, options: Options, tables: list[_Table], captured: list[_Table], user: str
) -> Iterator[Finding]:
    name = options.get("publication.name", "dbz_publication")
    quoted = _quote_name(name)
    mode = options.get("publication.autocreate.mode", "all_tables").lower()
    rows = query(
        "select pubname, pubinsert and pubupdate and pubdelete and pubtruncate, puballtables, pg_has_role(pubowner, 'MEMBER'), "
        "coalesce((to_jsonb(p) ->> 'pubviaroot')::boolean, false) from pg_publication p"
    )
    publication = next((_Publication(*row) for row in rows if row[0] == name), None)
    if publication is None:
        created = {table.name for table in (tables if mode == "all_tables" else captured)}
        yield from _check_creation(query, name, quoted, mode, captured, user)
        has_roots = options.get("publish.via.partition.root") == "true"
        setting = "set `publish.via.partition.root: {}`"
        yield from _check_partitions(tables, captured, created, setting, has_roots=has_roots)
        return
    if not publication.is_complete:
        statement = f"ALTER PUBLICATION {quoted} SET (publish = 'insert, update, delete, truncate');"
        yield Finding(f"the publication {name} leaves out changes", statement)
    if mode == "filtered" and publication.has_all_tables:
        what = f"the publication {name} is for all tables: the connector rejects it in the mode filtered"
        yield Finding(what, "set `publication.autocreate.mode: all_tables`")
    obstacle = _explain_no_change(publication, captured, user) if mode == "filtered" else ""
    published = {table for publication, table in query(_PUBLISHED) if publication == name}
    if mode == "filtered" and not obstacle:  # the connector replaces the tables
        published = {table.name for table in captured}
    else:
        yield from _check_filters(query, name, quoted, captured)
    for table in captured:
        if not _is_published(table, published, tables):
            what = f"{table.quoted} is not in the publication {name}"
            what += f", and the connector cannot add it: {obstacle}" if obstacle else ""
            yield Finding(what, f"ALTER PUBLICATION {quoted} ADD TABLE {table.quoted};")
    setting = f"ALTER PUBLICATION {quoted} SET (publish_via_partition_root = {{}});"
    yield from _check_partitions(tables, captured, published, setting, has_roots=publication.has_roots)


def _check_filters(query: Query, name: str, quoted: str, captured: list[_Table]) -> Iterator[Finding]:
    """Yield the tables of a publication that it has a part of."""
    filtered = {table: has_row_filter for publication, table, has_row_filter in query(_FILTERED) if publication == name}
    for table in captured:
        if table.name in filtered:
            part = "rows" if filtered[table.name] else "columns"
            change = f"ALTER PUBLICATION {quoted} {{}} TABLE {table.quoted};"
            what = f"the publication {name} leaves out {part} of {table.quoted}"
            statement = f"{change.format('DROP')} {change.format('ADD')}"
            yield Finding(what, statement, is_warning=not filtered[table.name])


def _list_leaves(table: _Table, tables: list[_Table]) -> list[_Table]:
    """Return the partitions that have the rows of a partitioned table."""
    is_part = table.is_partitioned
    return [leaf for leaf in tables if table.name in leaf.parents and not leaf.is_partitioned] if is_part else []


def _is_published(table: _Table, published: Collection[str], tables: list[_Table]) -> bool:
    leaves = _list_leaves(table, tables)
    return table.is_in(published) or (bool(leaves) and all(leaf.is_in(published) for leaf in leaves))


def _check_partitions(
    tables: list[_Table], captured: list[_Table], published: Collection[str], setting: str, *, has_roots: bool
) -> Iterator[Finding]:
    """Yield the tables whose changes have names that the connector does not capture.

    ``has_roots``: the changes have the name of the root in the publication, not those of the partitions.
    """
    names = {table.name for table in captured}
    for table in captured:
        leaves = _list_leaves(table, tables)
        roots = [parent for parent in table.parents if parent in published]
        others = roots if has_roots else [leaf.name for leaf in leaves]
        if others and not names.intersection(others):
            what = f"the changes of {table.quoted} have the names of other tables, {', '.join(others)}"
            statement = f"{setting.format('false' if has_roots else 'true')} or correct `table.include.list`"
            yield Finding(f"{what}, which the connector does not capture", statement)


def _explain_no_change(publication: _Publication, captured: list[_Table], user: str) -> str:
    """Return why the connector cannot change the tables of a publication. The statement names all tables."""
    foreign = [table.quoted for table in captured if not table.is_owned]
    if not publication.is_owned:
        return f"{user} does not own the publication"
    return f"{user} does not own {', '.join(foreign)}" if foreign else ""


def _check_creation(
    query: Query, name: str, quoted: str, mode: str, captured: list[_Table], user: str
) -> Iterator[Finding]:
    """Yield what prevents the connector from creating its publication."""
    ((database, may_create, may_publish_all),) = query(
        "select quote_ident(current_database()), has_database_privilege(current_database(), 'CREATE'), rolsuper "
        "or exists (select from pg_roles g where g.rolname = 'rds_superuser' and pg_has_role(g.oid, 'MEMBER')) "
        "from pg_roles where rolname = current_user"
    )
    foreign = [table.quoted for table in captured if not table.is_owned]
    if mode == "disabled" or foreign:
        why = f"{user} does not own {', '.join(foreign)}" if mode != "disabled" else f"the mode is {mode}"
        names = ", ".join(table.quoted for table in captured)
        statement = f"CREATE PUBLICATION {quoted} FOR TABLE {names}; as their owner"
        yield Finding(f"there is no publication {name}, and the connector cannot create it: {why}", statement)
    elif mode == "all_tables" and not may_publish_all:
        what = f"there is no publication {name}, and only a superuser can create it for all tables"
        statement = f"CREATE PUBLICATION {quoted} FOR ALL TABLES; as a superuser"
        yield Finding(what, f"set `publication.autocreate.mode: filtered`, or {statement}")
    elif not may_create:
        yield Finding(
            f"the user {user} must not create the publication", f"GRANT CREATE ON DATABASE {database} TO {user};"
        )


def _check_signals(query: Query, path: str | None, tables: Collection[str]) -> Iterator[Finding]:
    if path and path not in tables:
        columns = "id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)"
        parts = path.split(".", 1)
        # PostgreSQL quotes the names that need it.
        (names,) = query("select " + ", ".join(f"quote_ident({quote_text(part)})" for part in parts))
        schema = f"CREATE SCHEMA IF NOT EXISTS {names[0]}; " if len(names) > 1 else ""
        statement = f"{schema}CREATE TABLE {'.'.join(names)} ({columns});"
        yield Finding(f"there is no signal table {path}: snapshots on request fail", statement, is_warning=True)


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
