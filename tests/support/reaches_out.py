"""Authentication plugin whose module contacts a server at import."""

import socket
from contextlib import suppress

from tests.support.broken_auth_plugins import Login

with suppress(OSError), socket.socket() as one:
    one.connect(("127.0.0.1", 9))


class ReachesOutAtImport(Login):
    """Plugin that works if its module can be imported."""
