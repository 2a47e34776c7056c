"""SQL of PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from headrace.sdk import ConfigError
from headrace_verify.source_table import SourceColumn, SourceDatabase, SourceTable

#: Columns with the base type of a domain. The precision and the scale of a numeric are in one number, the modifier.
_COLUMNS = """
select a.attname, case when b.typtype = 'e' then 'enum' else b.typname end,
  case when b.typname = 'numeric' then coalesce(nullif(a.atttypmod, -1), t.typtypmod) end
from pg_attribute a join pg_type t on t.oid = a.atttypid
join pg_type b on b.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
where a.attrelid = {table}::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
_KEY = """
select a.attname from pg_index i cross join unnest(i.indkey) with ordinality k(attnum, place)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
where i.indrelid = {table}::regclass and i.indisprimary order by k.place
"""
_TABLES = """
select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')
"""
#: The connector's session sends changes all the time, and is no client.
_ACTIVE = """
select count(*) filter (where state = 'active' and backend_type = 'client backend' and pid <> pg_backend_pid()),
  pg_has_role('pg_read_all_stats', 'usage'), current_user
from pg_stat_activity
"""
#: Bytes before the precision and the scale in the modifier of a numeric.
_HEADER, _SCALE_BITS = 4, 0x7FF


class PostgreSqlDatabase(SourceDatabase):
    """Database of PostgreSQL 14 or newer."""

    byte_length: ClassVar[str] = "octet_length"

    def prepare_session(self) -> None:
        for setting in ("time zone 'UTC'", "datestyle = 'ISO'", "bytea_output = 'hex'", "extra_float_digits = 1"):
            self.query(f"set {setting}")
        [(encoding,)] = self.query("show server_encoding")
        if encoding != "UTF8":
            what = f"the database has the encoding {encoding}: digests of its texts cannot be compared"
            raise ConfigError(what, fix="only databases in UTF8 can be verified")

    def list_tables(self) -> list[tuple[str, str]]:
        return [(schema, name) for schema, name in self.query(_TABLES)]

    def describe(self, schema: str, name: str) -> SourceTable:
        table = self.quote_text(f"{self.quote(schema)}.{self.quote(name)}")
        columns = [SourceColumn(c, kind, _scale(mod)) for c, kind, mod in self.query(_COLUMNS.format(table=table))]
        key = [column for (column,) in self.query(_KEY.format(table=table))]
        return SourceTable(schema, name, tuple(columns), tuple(key))

    def estimate_rows(self, table: SourceTable) -> int:
        name = self.quote_text(self.reference(table))
        [(rows,)] = self.query(
            f"select coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint from pg_partition_tree({name}::regclass) p "
            f"join pg_class c on c.oid = p.relid"
        )
        return int(rows)

    def quote(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def quote_text(self, text: str) -> str:
        # The E prefix makes backslashes independent of the server's settings.
        return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"

    def join(self, texts: Sequence[str]) -> str:
        # Functions have at most 100 arguments.
        return " || '|' || ".join(texts)

    def concat(self, *texts: str) -> str:
        return " || ".join(texts)

    def hash(self, text: str) -> str:
        return f"md5({text})"

    def number(self, digits: str) -> str:
        return f"('x' || left({digits}, 15))::bit(60)::bigint"

    @property
    def row_version(self) -> str:
        return "xmin::text::bigint"

    def count_active(self) -> int:
        [(active, is_permitted, user)] = self.query(_ACTIVE)
        if not is_permitted:
            what = f"`max.load` cannot be observed: the user {user} does not see the sessions of other users"
            raise ConfigError(what, fix=f"grant pg_read_all_stats to {self.quote(user)}")
        return int(active)

    def mark(self) -> int:
        [(position,)] = self.query(
            "select (pg_logical_emit_message(true, 'headrace', 'verify') - '0/0'::pg_lsn)::bigint"
        )
        return int(position)

    def has_delivered(self, mark: int) -> bool:
        slot = self.options.get("slot.name", "debezium")
        found = self.query(
            "select coalesce(confirmed_flush_lsn - '0/0'::pg_lsn, 0)::bigint from pg_replication_slots "
            f"where slot_name = {self.quote_text(slot)}"
        )
        if not found:
            fix = "start the connector, or set `slot.name` in `connect: {config: …}` or `verify: {config: …}`"
            raise ConfigError(f"there is no replication slot {slot}", fix=fix)
        return int(found[0][0]) >= mark


def _scale(modifier: int | None) -> int | None:
    """Return the scale of a numeric; None without one."""
    if modifier is None or modifier < _HEADER:
        return None
    scale = (modifier - _HEADER) & _SCALE_BITS
    return scale - 2 * (scale & 0x400)
