"""What needs what this Spark does not have is left out."""

from __future__ import annotations

from tests.support import pipelines

# It writes into Hudi too, and refuses to start where there is none for this Spark.
collect_ignore = [] if "hudi" in pipelines.TABLE_SINKS else ["test_live_command.py"]
