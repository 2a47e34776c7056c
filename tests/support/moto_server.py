"""Program ``moto_server.py -p PORT``: moto's server, with the version check of Glue for concurrent commits."""

from __future__ import annotations

import sys
import threading
from typing import Any

from moto.glue import responses
from moto.glue.exceptions import GlueClientError
from moto.server import main

_lock = threading.Lock()
_update_table = responses.GlueResponse.update_table


class _ConcurrentModificationError(GlueClientError):
    def __init__(self) -> None:
        super().__init__("ConcurrentModificationException", "Update table failed due to concurrent modifications.")


def _check_and_update(self: Any) -> Any:
    """Reject an update of an older version, as AWS does. moto does not check the version."""
    with _lock:
        if (requested := self.parameters.get("VersionId")) is not None:
            name = self.parameters["TableInput"]["Name"]
            table = self.glue_backend.get_table(self.parameters["DatabaseName"], name)
            if str(table.as_dict()["VersionId"]) != str(requested):
                raise _ConcurrentModificationError
        return _update_table(self)


responses.GlueResponse.update_table = _check_and_update  # type: ignore[method-assign]
main(sys.argv[1:])
