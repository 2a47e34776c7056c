"""Encryption of connections to SQL Server with Python's own TLS.

python-tds needs pyOpenSSL for TLS, always verifies the server, and fails in the check of its name since pyOpenSSL 26.2.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from typing import Any

from headrace.sdk import ConfigError

_PRELOGIN = 0x12
_HEADER = 8
_LAST_PACKET = 1
#: Option of PRELOGIN for the encryption, the end of the options, and two values of the option.
_ENCRYPTION, _END = 1, 0xFF
_ENCRYPT_ON, _NOT_SUPPORTED = 1, 2
_CHUNK = 65536
_FIX = "set `driver.trustStore` in `connect: {preflight: …}` to a PEM file with the certificate of the authority"

_ENCRYPT = "encrypt the connections of SQL Server, or correct `database.hostname` and `database.port`"


class TdsSocket:
    """Socket of a connection to SQL Server for python-tds, which connects as without TLS.

    The first message and its answer negotiate the encryption. The socket requests it and hides the answer from python-tds. The packets of
    the handshake are messages of the same kind; later messages are encrypted as in any connection with TLS.
    """

    def __init__(self, options: Mapping[str, str], port: int, timeout: float) -> None:
        """Connect to ``database.hostname``. ConfigError for options of the driver that Python cannot apply."""
        host = options.get("database.hostname", "localhost")
        mode = read_driver_option(options, "encrypt", "true").lower()
        if mode == "strict":
            fix = "add `driver.encrypt: true` to `connect: {preflight: …}`"
            raise ConfigError("the preflight has no strict encryption", fix=fix)
        self._is_required = mode not in ("false", "no", "optional")
        self._context = _make_context(options, is_required=self._is_required)
        self._name = read_driver_option(options, "hostNameInCertificate", host)
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._answer = bytearray()
        self._is_negotiated = False
        self._socket = socket.create_connection((host, port), timeout)

    def sendall(self, data: bytes, _flags: int = 0) -> None:
        if not self._is_negotiated:
            self._negotiate(bytearray(data))
        elif self._tls:
            self._tls.write(bytes(data))
            self._socket.sendall(self._to_send.read())
        else:
            self._socket.sendall(data)

    def recv(self, size: int, _flags: int = 0) -> bytes:
        if self._answer:
            data = bytes(self._answer[:size])
            del self._answer[:size]
            return data
        if not self._tls:
            return self._socket.recv(size)
        while True:
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                if not (data := self._socket.recv(_CHUNK)):
                    return b""
                self._received.write(data)

    def recv_into(self, buffer: Any, size: int = 0, _flags: int = 0) -> int:
        data = self.recv(size or len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def setsockopt(self, *option: Any) -> None:
        self._socket.setsockopt(*option)

    def gettimeout(self) -> float | None:
        return self._socket.gettimeout()

    def settimeout(self, _timeout: float | None) -> None:
        """Do nothing: the socket has one timeout for all messages."""

    def shutdown(self, how: int = socket.SHUT_RDWR) -> None:
        self._socket.shutdown(how)

    def close(self) -> None:
        self._socket.close()

    def _negotiate(self, hello: bytearray) -> None:
        self._is_negotiated = True
        _replace_encryption(hello, _ENCRYPT_ON)
        self._socket.sendall(hello)
        answer = self._receive_packet()
        if _replace_encryption(answer, _NOT_SUPPORTED) != _NOT_SUPPORTED:
            tls = self._context.wrap_bio(self._received, self._to_send, server_hostname=self._name)
            self._shake_hands(tls)
            self._tls = tls
        elif self._is_required:
            raise ConfigError("the server has no encryption: the password would not be safe", fix=_ENCRYPT)
        self._answer = answer

    def _shake_hands(self, tls: ssl.SSLObject) -> None:
        is_done = False
        while not is_done:
            try:
                tls.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError as error:
                what = f"the certificate of the server is not valid for {self._name}: {error.verify_message}"
                raise ConfigError(what, fix=f"{_FIX}, or `driver.hostNameInCertificate` to its name") from error
            if data := self._to_send.read():
                header = struct.pack(">BBHHBB", _PRELOGIN, _LAST_PACKET, len(data) + _HEADER, 0, 0, 0)
                self._socket.sendall(header + data)
            if not is_done:
                self._received.write(self._receive_packet()[_HEADER:])

    def _receive_packet(self) -> bytearray:
        packet = self._receive(_HEADER)
        (length,) = struct.unpack_from(">H", packet, 2)
        return packet + self._receive(length - _HEADER)

    def _receive(self, size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            if not (more := self._socket.recv(size - len(data))):
                raise ConnectionResetError("the server closed the connection")
            data += more
        return data


def _replace_encryption(message: bytearray, value: int) -> int:
    """Set the encryption of a PRELOGIN message; return the value before. It is _NOT_SUPPORTED in a message without one."""
    at = _HEADER
    while message[at] != _END:
        option, offset, _ = struct.unpack_from(">BHH", message, at)
        if option == _ENCRYPTION:
            before: int = message[_HEADER + offset]
            message[_HEADER + offset] = value
            return before
        at += 5
    return _NOT_SUPPORTED


def _make_context(options: Mapping[str, str], *, is_required: bool) -> ssl.SSLContext:
    """Return the TLS context for the options of Microsoft's driver. A server without required encryption is not verified."""
    store = read_driver_option(options, "trustStore", "")
    try:
        context = ssl.create_default_context(cafile=store or None)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no trust store {store} on this machine", fix=_FIX) from error
    except ssl.SSLError as error:
        raise ConfigError(f"the trust store {store} is not a PEM file", fix=_FIX) from error
    # This encryption of TDS has no TLS 1.3.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    if not is_required or read_driver_option(options, "trustServerCertificate", "false").lower() == "true":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def read_driver_option(options: Mapping[str, str], name: str, default: str) -> str:
    """Return an option of Microsoft's driver. ``database.`` is the older prefix."""
    return options.get(f"driver.{name}", options.get(f"database.{name}", default))
