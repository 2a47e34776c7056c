"""Time of a batch of one change by the number of columns.

    python -m benchmarks.wide iceberg|hudi --work FOLDER [--columns 12,100,500] [--batches 10]

Each batch applies a file with one change: JSON with schemas, and columns of numbers, decimals, times and 20 strings. A second run
omits one string per change, as PostgreSQL does with unchanged large values.
"""

import argparse
import base64
import json
import os
import shutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace import Pipeline

TOPIC, TABLE = "shop.public.wide", "shop.wide"
#: Sink → its option for the location of tables.
SINKS = {"iceberg": "warehouse", "hudi": "path"}
#: Warm-up batches, which create the table and load classes.
WARM = 3
_LEFT_OUT = "__debezium_unavailable_value"
#: Most columns that can be omitted.
TEXTS = 20
#: Schemas of columns, used in turn; strings stop at their limit.
_KINDS: Sequence[dict[str, Any]] = (
    {"type": "string"},
    {"type": "int32"},
    {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
    },
    {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the median batch time of each width, and its ratio to the first width."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("sink", choices=SINKS)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--columns", default="12,100,500", help="widths; the first one is the reference")
    cli.add_argument("--batches", type=int, default=10, help="measured batches")
    options = cli.parse_args(arguments)
    medians: dict[str, dict[int, float]] = {"whole": {}, "left out": {}}
    for columns in map(int, options.columns.split(",")):
        for kind, found in medians.items():
            folder = options.work.resolve() / f"{options.sink}-{columns}-{kind.replace(' ', '-')}"
            found[columns] = measure(options.sink, folder, columns, options.batches, leaves_out=kind == "left out")
    for line in report(options.sink, medians):
        print(line)


def report(sink: str, medians: Mapping[str, Mapping[int, float]]) -> list[str]:
    """Return a line for each kind of change: seconds by width, and each as a multiple of the first width's full row."""
    unit = next(iter(next(iter(medians.values())).values()))
    return [
        f"{sink}, {kind}: " + ", ".join(f"{width} columns {s:.2f} s ({s / unit:.1f}x)" for width, s in found.items())
        for kind, found in medians.items()
    ]


def measure(sink: str, folder: Path, columns: int, batches: int, *, leaves_out: bool) -> float:
    """Return the median seconds of a batch of one change."""
    shutil.rmtree(folder, ignore_errors=True)
    for turn in range(WARM + batches):
        deliver(folder, columns, turn, leaves_out=leaves_out and turn > 0)
    pipeline = Pipeline.from_dict(
        {
            "name": "wide",
            "source": {"files": {"path": str(folder / "bronze"), "format": "json", "maxFilesPerTrigger": 1}},
            "tables": [{"source": TOPIC, "key": ["id"], "target": TABLE}],
            "transforms": [{"unwrap": {}}],
            "sink": {sink: {SINKS[sink]: str(folder / "lake")}},
            "maintenance": {"enabled": False},
            "checkpoint": str(folder / "checkpoint"),
        }
    )
    seconds: list[float] = []
    pipeline.start_available_now(
        pipeline.session(), on_progress=lambda progress: seconds.append(progress.seconds)
    ).await_termination()
    assert len(seconds) == WARM + batches, f"{len(seconds)} batches"
    return statistics.median(seconds[WARM:])


def deliver(folder: Path, columns: int, turn: int, *, leaves_out: bool) -> None:
    """Write a file with one update of one row; ``columns`` includes the key."""
    fields = [{"field": "id", "type": "int64", "optional": False}]
    fields += [{"field": f"c{at}", "optional": True, **_KINDS[_kind(at)]} for at in range(columns - 1)]
    row: dict[str, Any] = {"id": 1, **{f"c{at}": _value(at, turn) for at in range(columns - 1)}}
    if leaves_out:
        row["c0"] = _LEFT_OUT
    lsn = 10**12 + turn
    payload = {
        "before": None,
        "after": row,
        "source": {"connector": "postgresql", "ts_ms": 1, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'},
        "op": "u" if turn else "c",
    }
    source = [("connector", "string"), ("ts_ms", "int64"), ("lsn", "int64"), ("sequence", "string")]
    schema = {
        "type": "struct",
        "fields": [
            *({"type": "struct", "fields": fields, "optional": True, "field": image} for image in ("before", "after")),
            {"type": "struct", "fields": [{"field": n, "type": t} for n, t in source], "field": "source"},
            {"type": "string", "field": "op"},
        ],
    }
    bronze = folder / "bronze" / TOPIC / "partition=0"
    bronze.mkdir(parents=True, exist_ok=True)
    file = bronze / f"{TOPIC}+0+{turn:010d}.json"
    file.write_text(json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")) + "\n")
    os.utime(file, (1_700_000_000 + turn, 1_700_000_000 + turn))  # the oldest is taken first


def _value(at: int, turn: int) -> Any:
    values = (f"text {turn}", turn, base64.b64encode(bytes([1, turn % 256])).decode(), 1_700_000_000_000_000 + turn)
    return values[_kind(at)]


def _kind(at: int) -> int:
    kinds = len(_KINDS)
    return at % kinds if at < TEXTS * kinds else 1 + at % (kinds - 1)


if __name__ == "__main__":
    main()
