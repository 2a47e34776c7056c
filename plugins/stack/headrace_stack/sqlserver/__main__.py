"""Process of the stand-in: TDS on one port, changes by HTTP on another. ``SqlServer`` starts it."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from headrace_stack.sqlserver.cdc_log import Journal
from headrace_stack.sqlserver.client_session import ClientSession
from headrace_stack.sqlserver.database import CapturedDatabase
from headrace_stack.sqlserver.sql_types import Refused
from headrace_stack.sqlserver.statements import VERSION

_LOG = logging.getLogger("headrace_stack.sqlserver")


def main() -> None:
    """Listen until the process is terminated."""
    parser = argparse.ArgumentParser(description=VERSION)
    for name in ("--host", "--user", "--database"):
        parser.add_argument(name, required=True)
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--control-port", required=True, type=int)
    for name in ("--journal", "--password-file"):
        parser.add_argument(name, required=True, type=Path)
    options = parser.parse_args()
    password = options.password_file.read_text(encoding="utf-8")
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(message)s")
    # Exit immediately: no work is pending, and threads of clients may block.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    database, lock = CapturedDatabase(options.database), threading.Lock()
    journal = Journal(options.journal, database, lock)
    control = ThreadingHTTPServer((options.host, options.control_port), _handler(journal))
    control.daemon_threads = True
    threading.Thread(target=control.serve_forever, daemon=True).start()
    with socket.create_server((options.host, options.port)) as server:
        _LOG.info("%s", VERSION)
        _LOG.info("ready for connections on port %d, for changes on port %d", options.port, options.control_port)
        while True:
            client, _ = server.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            session = ClientSession(client, database, lock, options.user, password)
            threading.Thread(target=_serve, args=(client, session), daemon=True).start()


def _serve(client: socket.socket, session: ClientSession) -> None:
    with client:
        session.run()


def _handler(journal: Journal) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Handler of changes: one per POST."""

        def do_POST(self) -> None:
            work = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if work["do"] == "rows":
                self._answer(lambda: journal.rows(work["table"]))
            else:
                self._answer(lambda: journal.change(work))

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
            """Suppress the log of requests."""

        def _answer(self, work: Callable[[], Any]) -> None:
            try:
                code, answer = 200, work()
            except Refused as refused:
                _LOG.warning("refused: %s", refused)
                code, answer = 400, {"number": refused.number, "words": str(refused)}
            body = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


if __name__ == "__main__":
    main()
