"""Session of one client."""

from __future__ import annotations

import logging
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any

from headrace_stack.sqlserver import tds
from headrace_stack.sqlserver.database import CapturedDatabase
from headrace_stack.sqlserver.results import Result
from headrace_stack.sqlserver.sql_types import Refused
from headrace_stack.sqlserver.statements import answer
from headrace_stack.sqlserver.tds import Call, Connection, Kind

_LOG = logging.getLogger(__name__)
_LOGIN_FAILED = 18456
_EXECUTE, _PREPARE_AND_EXECUTE, _EXECUTE_PREPARED, _FORGET = (
    (10, "sp_executesql"),
    (13, "sp_prepexec"),
    (12, "sp_execute"),
    (15, "sp_unprepare"),
)


class ClientSession:
    """Session that answers requests until the client disconnects; ``lock`` guards the database."""

    def __init__(
        self, client: socket.socket, database: CapturedDatabase, lock: threading.Lock, user: str, password: str
    ) -> None:
        self._connection = Connection(client)
        self._database, self._lock = database, lock
        self._user, self._password = user, password
        self._prepared: dict[int, str] = {}

    def run(self) -> None:
        try:
            if self._is_authenticated():
                while True:
                    self._answer(*self._connection.receive())
        except (EOFError, ConnectionError):
            # A client can disconnect at any time.
            pass
        except (struct.error, ValueError, LookupError):
            _LOG.exception("unsupported message from a client; the connection was closed")

    def _is_authenticated(self) -> bool:
        kind, message = self._connection.receive()
        if kind == Kind.HELLO:
            self._connection.send(tds.hello())
            kind, message = self._connection.receive()
        if kind != Kind.LOGIN:
            _LOG.warning("first message of a client has kind %d; the connection was closed: set encrypt=false", kind)
            return False
        login = tds.login_of(message)
        if (login.user, login.password) != (self._user, self._password):
            _LOG.warning("login failed for user '%s'", login.user)
            self._connection.send(tds.error(f"Login failed for user '{login.user}'.", _LOGIN_FAILED, severity=14))
            return False
        self._connection.send(tds.login_answer(self._database.name))
        return True

    def _answer(self, kind: int, message: bytes) -> None:
        try:
            answer = self._answer_message(kind, message)
        except Refused as refused:
            _LOG.warning("refused: %s", refused)
            answer = tds.error(str(refused), refused.number)
        self._connection.send(answer)

    def _answer_message(self, kind: int, message: bytes) -> bytes:
        if kind == Kind.BATCH:
            result = self._execute(tds.batch_of(message), [])
            return tds.empty_answer() if result is None else tds.rows(result)
        if kind == Kind.CALL:
            return self._answer_call(tds.call_of(message))
        if kind == Kind.ATTENTION:
            return tds.attention_answer()
        raise Refused(f"this stand-in for SQL Server does not support messages of kind {kind}")

    def _answer_call(self, call: Call) -> bytes:
        name, parameters = call
        if name in _EXECUTE:
            # Statement, declarations of the parameters, parameters.
            return tds.call_answer(self._execute(parameters[0], parameters[2:]))
        if name in _PREPARE_AND_EXECUTE:
            handle = len(self._prepared) + 1
            self._prepared[handle] = parameters[2]
            return tds.call_answer(self._execute(parameters[2], parameters[3:]), handle)
        if name in _EXECUTE_PREPARED:
            return tds.call_answer(self._execute(self._prepared[parameters[0]], parameters[1:]))
        if name in _FORGET:
            return tds.call_answer(None)
        return tds.call_answer(self._execute(f"exec {name}", parameters))

    def _execute(self, statement: str, parameters: Sequence[Any]) -> Result | None:
        with self._lock:
            return answer(statement, parameters, self._database)
