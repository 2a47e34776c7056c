"""A login whose module looks for a server when it is imported."""

import socket
from contextlib import suppress

from tests.support.broken_logins import Login

with suppress(OSError), socket.socket() as one:
    one.connect(("127.0.0.1", 9))


class ReachesOutAtImport(Login):
    """Works wherever its module could be imported."""
