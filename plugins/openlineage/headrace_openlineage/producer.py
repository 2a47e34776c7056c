"""Name of headrace in events."""

from __future__ import annotations

# Packages of a cluster may have no metadata of their distributions.
from headrace import __version__

#: It is a URI, as OpenLineage requires.
PRODUCER = f"urn:headrace:{__version__}"
