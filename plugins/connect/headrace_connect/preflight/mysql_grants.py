"""Privileges of a user of MySQL or MariaDB, from the statements of SHOW GRANTS."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_NAME = r"`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|\*"
#: Roles (GRANT `role` TO …) and privileges on procedures have another form.
_STATEMENT = re.compile(rf"(GRANT|REVOKE) (.+?) ON (?:TABLE )?({_NAME})\.({_NAME}) (?:TO|FROM) ", re.IGNORECASE)
#: Privileges for some columns of a table.
_COLUMNS = re.compile(r"[A-Z ]+ ?\([^)]*\)", re.IGNORECASE)


class _Grant(NamedTuple):
    """Statement of SHOW GRANTS; an empty name stands for all databases or tables. MySQL revokes parts of global privileges."""

    is_revoked: bool
    privileges: frozenset[str]
    database: str
    table: str

    def covers(self, privilege: str, database: str, table: str) -> bool:
        is_named = privilege in self.privileges or "ALL PRIVILEGES" in self.privileges
        in_database = not self.database or (
            bool(database) and _matches(self.database, database, is_exact=self.table != "")
        )
        return is_named and in_database and self.table in ("", table)


class MysqlGrants:
    """Privileges of the current user and its active roles."""

    def __init__(self, statements: Iterable[str]) -> None:
        self._grants = [grant for statement in statements for grant in _parse(statement)]

    def has(self, privilege: str, database: str = "", table: str = "") -> bool:
        """Return whether the user has a privilege: for a table, or for all databases."""
        covering = [grant for grant in self._grants if grant.covers(privilege, database, table)]
        is_revoked = any(grant.is_revoked for grant in covering)
        # A revocation limits global privileges only.
        return any(not grant.is_revoked and (grant.database or not is_revoked) for grant in covering)


def _parse(statement: str) -> Iterator[_Grant]:
    if match := _STATEMENT.match(statement):
        verb, names, database, table = match.groups()
        privileges = frozenset(name.strip().upper() for name in _COLUMNS.sub("", names).split(","))
        yield _Grant(verb.upper() == "REVOKE", privileges, _unquote(database), _unquote(table))


def _unquote(name: str) -> str:
    quote = name[0]
    return "" if quote == "*" else name[1:-1].replace(quote * 2, quote)


def _matches(pattern: str, database: str, *, is_exact: bool) -> bool:
    """Return whether a grant is for a database; without a table, its name is a pattern as of LIKE."""
    if is_exact:
        return pattern == database
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wildcards = {"%": ".*", "_": "."}
    expression = "".join(wildcards.get(part) or re.escape(part[-1]) for part in parts)
    return re.fullmatch(expression, database, re.DOTALL) is not None
