"""Kinds of findings of the core. Plugins define kinds of their own; docs/doctor.md lists both."""

from __future__ import annotations

from functools import partial

from headrace.findings import FindingKind, Severity

_error = partial(FindingKind, severity=Severity.ERROR)
_warning = partial(FindingKind, severity=Severity.WARNING)
_note = partial(FindingKind, severity=Severity.NOTE)

SPARK_UNUSABLE = _error("spark-unusable", meaning="PySpark is missing, or is not that of `SPARK_HOME`.")
SPARK_UNSUPPORTED = _error("spark-unsupported", meaning="headrace or a plugin does not support this version of Spark.")
SPARK_UNTESTED = _warning("spark-untested", meaning="headrace or a plugin is not tested with this version of Spark.")
JAVA_MISSING = _error("java-missing", meaning="The machine has no Java that this version of Spark supports.")
JAVA_IGNORED = _note("java-ignored", meaning="`JAVA_HOME` names a Java that this version of Spark does not support.")
JARS_MISSING = _warning("jars-missing", meaning="Jars are not on this machine yet. A run downloads them.")
JAR_INVALID = _error("jar-invalid", meaning="A jar differs from its first download, or its coordinates are invalid.")
MEMORY_EXCEEDED = _error("memory-exceeded", meaning="`spark.driver.memory` is more than the machine or container has.")
MEMORY_LOW = _warning("memory-low", meaning="`spark.driver.memory` is more than what is free now.")
DISK_FULL = _error("disk-full", meaning="A disk has less than 1 GB of free space, or no free inodes.")
DISK_LOW = _warning("disk-low", meaning="A disk has less than 5 GB of free space.")
FOLDER_UNWRITABLE = _error("folder-unwritable", meaning="This user cannot write to a folder of the pipeline.")
CLOCK_WRONG = _error(
    "clock-wrong", meaning="The clock differs by more than 5 minutes from that of a server. AWS rejects requests."
)
CLOCK_DIFFERS = _warning("clock-differs", meaning="The clock differs by more than 30 seconds from that of a server.")
PLUGIN_BROKEN = _error("plugin-broken", meaning="A plugin cannot be used, or violates its contract.")
FILE_INVALID = _error("file-invalid", meaning="The pipeline file cannot be read, or has errors.")
PIPELINE_IMPOSSIBLE = _error("pipeline-impossible", meaning="A sink lacks a capability that the pipeline requires.")
OPTION_REJECTED = _error("option-rejected", meaning="A plugin rejects its options.")
OPTION_UNWISE = _warning("option-unwise", meaning="An option is valid but unwise.")
OPTION_NOTE = _note("option-note", meaning="An option has an effect that users may not expect.")
SERVER_UNREACHABLE = _error("server-unreachable", meaning="A server does not answer, or is busy.")
LOGIN_REJECTED = _error("login-rejected", meaning="A server rejects the login.")
CONNECTION_REJECTED = _error(
    "connection-rejected", meaning="A connection fails for its address, its options or a permission."
)
DATA_INVALID = _error("data-invalid", meaning="The newest records of a topic cannot become rows.")
SESSION_FAILED = _error("session-failed", meaning="Spark does not start.")
CHECK_FAILED = _error("check-failed", meaning="A check itself fails with an unexpected error.")
CHECK_TIMED_OUT = _error("check-timed-out", meaning="A check did not end in time: a server does not answer.")
CHECKPOINT_INVALID = _error(
    "checkpoint-invalid", meaning="The checkpoint cannot be read, or is of another pipeline or layout."
)
CHECKPOINT_DAMAGED = _error("checkpoint-damaged", meaning="A file of the checkpoint is missing or damaged.")
TABLE_FAILED = _error("table-failed", meaning="A table was set aside after an error, and catches up later.")
TABLE_BEHIND = _warning("table-behind", meaning="A table is more than an hour behind its source.")
DEAD_LETTERS = _warning("dead-letters", meaning="The last 100 batches wrote dead letters.")
RUN_KILLED = _warning("run-killed", meaning="The last run on this machine was killed, or the machine was restarted.")
COMMAND_KILLED = _warning("command-killed", meaning="A command such as `headrace replay` was killed on this machine.")
RUN_ACTIVE = _note("run-active", meaning="A run uses the checkpoint.")
RUN_STOPPED = _note("run-stopped", meaning="No run is active.")
NEVER_RUN = _note("never-run", meaning="The pipeline has not applied a batch yet.")
MAINTENANCE_DUE = _note(
    "maintenance-due", meaning="Steps of maintenance are due: a run makes them. Only `--spark` finds them."
)
MAINTENANCE_OVERDUE = _warning(
    "maintenance-overdue", meaning="Steps of maintenance are due, and runs do not maintain the table."
)
MAINTENANCE_FAILED = _error("maintenance-failed", meaning="Maintenance of a table cannot be planned.")
