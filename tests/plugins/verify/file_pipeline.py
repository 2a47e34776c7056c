"""Pipeline over files with the changes of a table of PostgreSQL, without a broker or a connector."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from headrace_stack import Postgres

ROWS = 100


def write_pipeline(folder: Path, server: Postgres, schema: str, **verify: Any) -> Path:
    """Create a table with rows in the database, and return a pipeline file that reads the same rows. ``verify``: options of the block."""
    server.execute(f"create schema {schema}")
    server.execute(f"create table {schema}.orders (id int primary key, note text)")
    server.execute(f"insert into {schema}.orders select n, 'note ' || n from generate_series(1, {ROWS}) n")
    topic = folder / "topics" / f"{schema}.{schema}.orders"
    topic.mkdir(parents=True)
    events = [json.dumps(describe_insert(schema, number)) for number in range(1, ROWS + 1)]
    (topic / "1.json").write_text("\n".join(events), encoding="utf-8")
    content = {
        "name": schema,
        "source": {"files": {"path": str(folder / "topics"), "format": "json"}},
        "tables": [{"source": "*", "target": "{schema}.{table}", "key": ["id"]}],
        "transforms": [{"unwrap": {}}],
        "sink": {"iceberg": {"warehouse": f"{folder}/lake"}},
        "checkpoint": f"{folder}/checkpoint",
        "verify": {"config": server.debezium(schema), **verify},
    }
    file = folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def describe_insert(schema: str, number: int) -> dict[str, Any]:
    """Return a change event of Debezium."""
    source = {
        "connector": "postgresql",
        "name": schema,
        "db": "shop",
        "schema": schema,
        "table": "orders",
        "lsn": number,
        "ts_ms": 1,
    }
    return {"op": "c", "before": None, "after": {"id": number, "note": f"note {number}"}, "source": source, "ts_ms": 1}
