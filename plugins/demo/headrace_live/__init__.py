"""The live demonstration: a whole PostgreSQL database, followed by Debezium and Kafka into two lakes."""

from headrace.hookspecs import hookimpl


@hookimpl
def headrace_commands() -> dict[str, str]:
    """``headrace live``."""
    return {"live": "headrace_live.command:live|Follow a live PostgreSQL database into Iceberg and Hudi."}
