"""Cost of single steps of reading a batch: its time with each step, divided by the time without it.

    python -m benchmarks.hot_paths --work FOLDER [--records 200000] [--rounds 5]

Each batch reads one file of Debezium envelopes, JSON without and with schemas, and its rows are read without storing them. The step
is replaced by a function that does nothing. Rounds with and without it alternate, and the fastest counts.
"""

from __future__ import annotations

import argparse
import inspect
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from headrace import Pipeline
from headrace.engine.read import change_reader
from headrace.errors import NoSuchTableError
from headrace.sdk import Transform
from headrace.sdk.sink import Batch, Capabilities, Sink, Table, WriteResult
from headrace_sources.formats.json import embedded_schema, inference, json_format, schemaless
from headrace_sources.kafka_connect import json_values
from headrace_sources.transports.files import FilesSource
from headrace_transforms.unwrap import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TOPIC, TABLE = "shop.public.orders", "shop.orders"
_TEXTS = 6


class NoStorage(Sink):
    """Sink that reads all rows and stores none."""

    name = "no-storage"
    api_version = 1
    capabilities = Capabilities(upsert=True, delete=True, schema_evolution=True, single_pass=True)

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        rows.write.format("noop").mode("overwrite").save()
        return WriteResult()

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        raise NoSuchTableError(f"there is no table {table.name!r}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the cost of each step for both formats."""
    options = parse_arguments(__doc__, arguments)
    for title, folder in deliver_formats(options):
        best: dict[str, float] = {}
        for turn in range(options.rounds):
            for name, without in {"a batch": ExitStack, **STEPS}.items():
                with without():
                    best[name] = min(best.get(name, 1e9), run(folder, turn))
        whole = best.pop("a batch")
        print(f"{title}: {whole:.2f} s")
        for name, seconds in best.items():
            print(f"  {name}: {whole / seconds:.3f}x")


def parse_arguments(description: str | None, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    cli = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--records", type=int, default=200_000)
    cli.add_argument("--rounds", type=int, default=5)
    return cli.parse_args(arguments)


def deliver_formats(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """Yield a title and the folder with a file of events, for JSON without and with schemas. A first batch has loaded the classes."""
    for style in ("without schemas", "with schemas"):
        folder = options.work.resolve() / style.replace(" ", "-")
        deliver(folder, options.records, has_schema=style == "with schemas")
        run(folder, 0)
        yield f"JSON {style}, {options.records:,} records", folder


def run(folder: Path, turn: int, transforms: Sequence[Transform] = (Unwrap(),), mode: str = "upsert") -> float:
    """Return the seconds of the batch in a new checkpoint."""
    checkpoint = folder / f"checkpoint-{turn}"
    shutil.rmtree(checkpoint, ignore_errors=True)
    source = FilesSource(path=str(folder / "bronze"), format="json")
    tables: list[dict[str, Any]] = [{"source": TOPIC, "key": ["id"], "target": TABLE}]
    sink = NoStorage(mode=mode)
    pipeline = Pipeline("orders", source, [sink], str(checkpoint), tables=tables, transforms=transforms)
    seconds: list[float] = []
    pipeline.run(pipeline.session(), on_progress=lambda progress: seconds.append(progress.seconds))
    return sum(seconds)


def deliver(folder: Path, records: int, *, has_schema: bool) -> None:
    """Write a file of updates."""
    bronze = folder / "bronze" / TOPIC / "partition=0"
    shutil.rmtree(bronze, ignore_errors=True)
    bronze.mkdir(parents=True)
    kinds = [("id", "int64"), ("amount", "double"), *((f"text{n}", "string") for n in range(_TEXTS))]
    rows = {"type": "struct", "optional": True, "fields": [{"field": n, "type": t, "optional": True} for n, t in kinds]}
    source = {"type": "struct", "field": "source", "fields": [{"field": "lsn", "type": "int64"}]}
    images = [{**rows, "field": "before"}, {**rows, "field": "after"}]
    fields = [*images, source, {"field": "op", "type": "string"}]
    schema = {"type": "struct", "optional": False, "fields": fields}
    with (bronze / f"{TOPIC}+0+0000000000.json").open("w") as file:
        for n in range(records):
            row = {
                "id": n,
                "amount": n * 1.25e7,
                **{f"text{i}": f"a text of the row {n}, {i}: žluť" for i in range(_TEXTS)},
            }
            event = {"before": row, "after": row, "source": {"lsn": 10**12 + n}, "op": "u"}
            record = {"schema": schema, "payload": event} if has_schema else event
            file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


@contextmanager
def replace(name: str, instead: Callable[..., Any], *modules: Any) -> Iterator[None]:
    """Replace a function in modules."""
    with ExitStack() as scope:
        for module in modules:
            scope.enter_context(patch.object(module, name, instead))
        # It keeps the columns that it has built.
        scope.enter_context(patch.object(embedded_schema, "_head", inspect.unwrap(embedded_schema._head)))  # noqa: SLF001
        yield


def _keep(value: Any, *_: Any) -> Any:
    return value


def _never(_: Column) -> Column:
    from pyspark.sql import functions as F

    return F.lit(False)


#: Step → a context without it.
STEPS: dict[str, Callable[[], Any]] = {
    "keep_utf8 (records are UTF-8)": lambda: replace("keep_utf8", _keep, schemaless, embedded_schema, inference),
    "has_half_pair": lambda: replace("has_half_pair", _never, schemaless, embedded_schema, inference),
    "take_payload (records inside a payload)": lambda: replace("take_payload", _keep, schemaless),
    "has_null_payload": lambda: replace("has_null_payload", _never, embedded_schema, json_format),
    "numbers above a double": lambda: replace("_has_type", lambda *_: False, json_values),
    "numbers above a double, in types": lambda: replace("spoil_infinite_numbers", _keep, inference),
    "split_key_updates (a rule names the key)": lambda: replace("split_key_updates", _keep, change_reader),
}

if __name__ == "__main__":
    main()
