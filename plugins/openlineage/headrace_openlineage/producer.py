"""Name of headrace in events."""

from __future__ import annotations

from importlib.metadata import version

HEADRACE_VERSION = version("headrace")
#: It is a URI, as OpenLineage requires.
PRODUCER = f"urn:headrace:{HEADRACE_VERSION}"
