"""Local server that answers some requests with injected faults."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Generic, TypeVar

from tests.support.local_server import LocalServer

FaultT = TypeVar("FaultT")


class FaultyServer(LocalServer, Generic[FaultT]):
    """Server with a fault for the requests that ``fail`` selects; its handler sends the fault."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(handler)
        self.faults_sent = 0
        self._fault: Callable[[str, str], FaultT | None] = lambda method, path: None
        self._lock = threading.Lock()

    def fail(self, fault: FaultT, *, times: int, methods: str = "GET HEAD PUT POST DELETE", path: str = "") -> None:
        """Inject a fault into the next ``times`` requests with one of these methods and ``path`` in their address."""
        remaining = times

        def choose(method: str, address: str) -> FaultT | None:
            nonlocal remaining
            if remaining and method in methods.split() and path in address:
                remaining -= 1
                return fault
            return None

        self._fault, self.faults_sent = choose, 0

    def find_fault(self, method: str, path: str) -> FaultT | None:
        """Return the fault of a request, and count it."""
        with self._lock:
            fault = self._fault(method, path)
            self.faults_sent += fault is not None
            return fault
