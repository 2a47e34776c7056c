"""Server side of TDS 7.4: the part that mssql-jdbc uses without encryption."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from headrace_stack.sqlserver.results import Result
from headrace_stack.sqlserver.text_types import CODE_PAGE, COLLATION

_HEADER, _PACKET = 8, 8000
_LAST_PACKET = 1
#: Version of the protocol, and the reported version of the server.
_TDS_74, _SERVER = bytes.fromhex("74000004"), bytes([16, 0, 3, 0xE8])
_MORE, _ERROR, _COUNTED, _ATTENTION = 0x01, 0x02, 0x10, 0x20
_SELECT = 0xC1
_NULLABLE_WRITEABLE = 0x0009


class Kind(IntEnum):
    """Kind of a client message."""

    BATCH = 1
    CALL = 3
    ATTENTION = 6
    LOGIN = 0x10
    HELLO = 0x12


class _Token(IntEnum):
    RETURN_STATUS = 0x79
    COLUMNS = 0x81
    ERROR = 0xAA
    RETURN_VALUE = 0xAC
    LOGIN_ACK = 0xAD
    ROW = 0xD1
    CHANGED = 0xE3
    DONE = 0xFD
    DONE_CALL = 0xFE
    DONE_IN_CALL = 0xFF


class Login(NamedTuple):
    """User, password and database of a login."""

    user: str
    password: str
    database: str


class Call(NamedTuple):
    """Procedure, by name or number, and its parameters."""

    procedure: int | str
    parameters: list[Any]


class Connection:
    """Messages over a socket. EOFError if the client disconnects."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client

    def receive(self) -> tuple[int, bytes]:
        message = b""
        while True:
            kind, status, length = struct.unpack(">BBH4x", self._read(_HEADER))
            message += self._read(length - _HEADER)
            if status & _LAST_PACKET:
                return kind, message

    def send(self, tokens: bytes) -> None:
        size = _PACKET - _HEADER
        chunks = [tokens[i : i + size] for i in range(0, len(tokens), size)]
        packets = [
            struct.pack(">BBHHBB", 4, i == len(chunks) - 1, len(chunk) + _HEADER, 0, (i + 1) % 256, 0) + chunk
            for i, chunk in enumerate(chunks)
        ]
        self._client.sendall(b"".join(packets))

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._client.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data


# Messages of the client.


def login_of(message: bytes) -> Login:
    """Read LOGIN7."""

    def text(at: int) -> bytes:
        begin, length = struct.unpack_from("<HH", message, at)
        return message[begin : begin + 2 * length]

    # Decode the password: nibbles are swapped and bytes are XORed with 0xA5.
    secret = bytes(((byte ^ 0xA5) >> 4 | (byte ^ 0xA5) << 4) & 0xFF for byte in text(44))
    return Login(*(part.decode("utf-16-le") for part in (text(40), secret, text(68))))


def batch_of(message: bytes) -> str:
    """Read the text of SQLBatch."""
    return _after_headers(message).decode("utf-16-le")


def call_of(message: bytes) -> Call:
    """Read RPC. ValueError for a parameter type that driver and connector do not use."""
    reader = _Reader(_after_headers(message))
    length = reader.number(2)
    procedure: int | str = reader.number(2) if length == 0xFFFF else reader.text(length)
    reader.take(2)
    parameters = []
    while reader.is_open:
        parameters.append(reader.parameter())
    return Call(procedure, parameters)


def _after_headers(message: bytes) -> bytes:
    (length,) = struct.unpack_from("<I", message)
    return message[length:]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def is_open(self) -> bool:
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def text(self, length: int) -> str:
        return self.take(2 * length).decode("utf-16-le")

    def parameter(self) -> Any:
        self.text(self.number(1))
        self.take(1)
        kind = self.number(1)
        if kind in {0x26, 0x68}:
            return self._whole_number()
        if kind in {0xA5, 0xAD}:
            return self._read_value(text=False)
        if kind in {0xA7, 0xAF}:
            return _decode(self._read_value(text=True), CODE_PAGE)
        if kind in {0xE7, 0xEF}:
            return _decode(self._read_value(text=True), "utf-16-le")
        if kind == 0x63:
            # ntext, for a long statement: maximum length, collation, length.
            self.take(4 + len(COLLATION))
            return self.take(self.number(4)).decode("utf-16-le")
        raise ValueError(f"unsupported parameter type 0x{kind:02x}")

    def _whole_number(self) -> int | None:
        self.take(1)
        size = self.number(1)
        return int.from_bytes(self.take(size), "little", signed=size > 1) if size else None

    def _read_value(self, *, text: bool) -> bytes | None:
        most = self.number(2)
        if text:
            self.take(len(COLLATION))
        if most != 0xFFFF:
            size = self.number(2)
            return None if size == 0xFFFF else self.take(size)
        if self.take(8) == b"\xff" * 8:
            return None
        data = b""
        while size := self.number(4):
            data += self.take(size)
        return data


def _decode(data: bytes | None, encoding: str) -> str | None:
    return None if data is None else data.decode(encoding)


# Messages of the server.


def hello() -> bytes:
    """Encode PRELOGIN: version, no encryption, no instance, no thread, no MARS."""
    options = [(0, _SERVER[:2] + struct.pack(">H", 1000) + bytes(2)), (1, b"\x02"), (2, b"\0"), (3, b""), (4, b"\0")]
    begin, head, body = 5 * len(options) + 1, b"", b""
    for number, value in options:
        head += struct.pack(">BHH", number, begin + len(body), len(value))
        body += value
    return head + b"\xff" + body


def login_answer(database: str) -> bytes:
    """Encode the response to LOGIN7."""
    ack = b"\x01" + _TDS_74 + _short_text("Microsoft SQL Server") + _SERVER
    return b"".join(
        (
            _token(_Token.CHANGED, b"\x01" + _short_text(database) + _short_text("master")),
            _token(_Token.CHANGED, b"\x07" + bytes([len(COLLATION)]) + COLLATION + b"\0"),
            _token(_Token.LOGIN_ACK, ack),
            _token(_Token.CHANGED, b"\x04" + _short_text(str(_PACKET)) + _short_text("4096")),
            _end_token(_Token.DONE),
        )
    )


def rows(result: Result) -> bytes:
    """Encode the response to a batch with rows."""
    return _rows(result) + _end_token(_Token.DONE, _COUNTED, _SELECT, len(result.rows))


def empty_answer() -> bytes:
    """Encode the response to a batch without rows."""
    return _end_token(_Token.DONE)


def call_answer(result: Result | None, handle: int | None = None) -> bytes:
    """Encode the response to a call; ``handle``: the handle of a prepared statement."""
    rows_answer = b""
    if result is not None:
        rows_answer = _rows(result) + _end_token(_Token.DONE_IN_CALL, _COUNTED | _MORE, _SELECT, len(result.rows))
    status = bytes([_Token.RETURN_STATUS]) + bytes(4)
    value = b""
    if handle is not None:
        # An unnamed output parameter of type INTN.
        value = bytes([_Token.RETURN_VALUE, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x26, 4, 4]) + struct.pack("<i", handle)
    return rows_answer + status + value + _end_token(_Token.DONE_CALL)


def attention_answer() -> bytes:
    """Encode the response to an attention."""
    return _end_token(_Token.DONE, _ATTENTION)


def error(words: str, number: int, severity: int = 16) -> bytes:
    """Encode an error response."""
    # Clients show the name of the server in errors.
    server = _short_text("headrace's stand-in")
    body = (
        struct.pack("<iBB", number, 1, severity)
        + _long_text(words[:2000])
        + server
        + _short_text("")
        + struct.pack("<I", 1)
    )
    return _token(_Token.ERROR, body) + _end_token(_Token.DONE, _ERROR)


def _rows(result: Result) -> bytes:
    out = [struct.pack("<BH", _Token.COLUMNS, len(result.columns))]
    for name, kind in result.columns:
        out.append(struct.pack("<IH", kind.user_type, _NULLABLE_WRITEABLE) + kind.info())
        if kind.pointed:
            out.append(b"\x01" + _long_text(result.table))
        out.append(_short_text(name))
    kinds: Sequence[Any] = [kind for _, kind in result.columns]
    for row in result.rows:
        out.append(bytes([_Token.ROW]))
        out.extend(kind.encode(value) for kind, value in zip(kinds, row, strict=True))
    return b"".join(out)


def _end_token(token: _Token, status: int = 0, command: int = 0, count: int = 0) -> bytes:
    return struct.pack("<BHHQ", token, status, command, count)


def _token(token: _Token, body: bytes) -> bytes:
    return struct.pack("<BH", token, len(body)) + body


def _short_text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode("utf-16-le")


def _long_text(text: str) -> bytes:
    data = text.encode("utf-16-le")
    return struct.pack("<H", len(data) // 2) + data
