"""SQL of MySQL and MariaDB."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from headrace.sdk import ConfigError, HeadraceError
from headrace_verify.source_table import SourceColumn, SourceDatabase, SourceTable

#: Number of a binary log, and the position in it.
Position = tuple[int, int]
_SYSTEM = "('mysql', 'sys', 'performance_schema', 'information_schema')"


class MySqlDatabase(SourceDatabase):
    """Server of MySQL or MariaDB."""

    byte_length: ClassVar[str] = "length"

    def prepare_session(self) -> None:
        # The driver does not commit by itself: later reads would see the state of the first one.
        self.query("set autocommit = 1")
        self.query("set names utf8mb4")
        self.query("set session time_zone = '+00:00', session sql_mode = ''")
        # A server may let sessions read uncommitted rows by default.
        self.query("set session transaction isolation level repeatable read")

    def list_tables(self) -> list[tuple[str, str]]:
        sql = f"select table_schema, table_name from information_schema.tables where table_schema not in {_SYSTEM}"
        return [(schema, name) for schema, name in self.query(f"{sql} and table_type = 'BASE TABLE'")]

    def describe(self, schema: str, name: str) -> SourceTable:
        where = f"where table_schema = {self.quote_text(schema)} and table_name = {self.quote_text(name)}"
        found = self.query(
            "select column_name, data_type, column_type, numeric_scale from information_schema.columns "
            f"{where} order by ordinal_position"
        )
        key = self.query(
            f"select column_name from information_schema.key_column_usage {where} and constraint_name = 'PRIMARY' "
            "order by ordinal_position"
        )
        columns = [SourceColumn(c, _kind(data, whole), scale) for c, data, whole, scale in found]
        return SourceTable(schema, name, tuple(columns), tuple(column for (column,) in key))

    def estimate_rows(self, table: SourceTable) -> int:
        where = f"table_schema = {self.quote_text(table.schema)} and table_name = {self.quote_text(table.name)}"
        [(rows,)] = self.query(f"select table_rows from information_schema.tables where {where}")
        return int(rows or 0)

    def quote(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def join(self, texts: Sequence[str]) -> str:
        return f"concat_ws('|', {', '.join(texts)})"

    def concat(self, *texts: str) -> str:
        return f"concat({', '.join(texts)})"

    def hash(self, text: str) -> str:
        return f"md5({text})"

    def number(self, digits: str) -> str:
        return f"cast(conv(left({digits}, 15), 16, 10) as unsigned)"

    def quote_text(self, text: str) -> str:
        # Hexadecimal digits do not depend on the server's settings for backslashes.
        return f"convert(0x{text.encode().hex()} using utf8mb4)" if text else "''"

    def count_active(self) -> int:
        [(_, running)] = self.query("show global status like 'Threads_running'")
        return int(running) - 1  # this session

    def mark(self) -> Position:
        position = self._read_position()
        self.send_signal("log", '{"message": "headrace verify"}')
        return position

    def has_delivered(self, mark: Position) -> bool:
        if self.read_offsets is None:
            what = "only Kafka Connect reports how far the connector has read the binary log"
            raise ConfigError(what, fix="add the block `connect:` with its `url` and `name`")
        offsets = [item.get("offset") or {} for item in self.read_offsets()]
        return any(_number_file(str(o.get("file", ""))) >= 0 and _place(o) >= mark for o in offsets)

    def _read_position(self) -> Position:
        try:
            rows = self.query("show master status")
        except HeadraceError:  # MySQL 8.4
            rows = self.query("show binary log status")
        if not rows:
            raise ConfigError("the server has no binary log", fix="set `log_bin`")
        return _number_file(rows[0][0]), int(rows[0][1])


def _kind(data: str, whole: str) -> str:
    is_unsigned = data == "bigint" and "unsigned" in whole
    return "bigint unsigned" if is_unsigned else "bit(1)" if whole == "bit(1)" else data


def _place(offset: dict[str, object]) -> Position:
    return _number_file(str(offset["file"])), int(str(offset.get("pos", 0)))


def _number_file(name: str) -> int:
    digits = re.search(r"(\d+)$", name)
    return int(digits[1]) if digits else -1
