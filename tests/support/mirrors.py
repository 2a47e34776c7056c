"""Local Maven repository over TLS with its own certificate, like a company's mirror or proxy."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from headrace_stack.servers import key_stores


class Mirror(ThreadingHTTPServer):
    """Server of a folder's files. ``certificate``: file for clients to trust; ``asked``: requested paths."""

    def __init__(self, folder: Path, keys: Path) -> None:
        """Create the server. ``keys`` is a folder that contains the server's key or receives a new one."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.asked = folder, list[str]()
        if not keys.is_dir():
            keys.mkdir(parents=True)
            key_stores.make(keys, "mirror")
        self.certificate = keys / "mirror.pem"
        store = pkcs12.load_pkcs12((keys / "mirror.p12").read_bytes(), key_stores.PASSWORD.encode())
        assert store.key is not None
        key = store.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        key_and_certificate = keys / "key_and_certificate.pem"
        key_and_certificate.write_bytes(key + self.certificate.read_bytes())
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(key_and_certificate)
        self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """Ignore clients that disconnect because they do not trust the certificate."""


class _Handler(BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        file = self.server.folder / self.path.lstrip("/")
        if not file.is_file():
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(file.stat().st_size))
        self.end_headers()
        with file.open("rb") as content:
            while chunk := content.read(1 << 20):
                self.wfile.write(chunk)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve(folder: Path, keys: Path) -> Iterator[Mirror]:
    """Serve a mirror of a folder."""
    with Mirror(folder, keys) as mirror:
        thread = threading.Thread(target=mirror.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield mirror
        mirror.shutdown()
        thread.join()
