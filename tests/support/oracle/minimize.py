"""Minimization of packs: parts are removed as long as the pack still fails.

``python -m tests.support.oracle.minimize SEED`` or ``… FILE`` prints the minimized pack and its differences.
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.support.oracle.runner import Servers

Json = dict[str, Any]
CASES = Path(__file__).parent / "cases"


def minimize(pack: Mapping[str, Any], fails: Callable[[Json], bool], *, tries: int = 200) -> Json:
    """Return the smallest pack found that still fails. ``tries``: maximum number of calls of ``fails``."""
    smallest: Json = json.loads(json.dumps(pack))
    rest, found = tries, True
    while found and rest > 0:
        found = False
        for smaller in list_smaller(smallest):
            if rest <= 0:
                break
            rest -= 1
            if fails(copy.deepcopy(smaller)):
                smallest, found = smaller, True
                break
    return _drop_unused_kinds(smallest)


def list_smaller(pack: Json) -> Iterator[Json]:
    """Yield packs with one part removed: cases first, then actions, batches, records and columns."""
    cases: list[Json] = pack["cases"]
    if len(cases) > 1:
        yield from ({**pack, "cases": [case]} for case in cases)
        return
    case = cases[0]
    for number, step in enumerate(pack["steps"]):
        for action in [name for name, on in step.items() if on]:
            steps = [*pack["steps"][:number], {**step, action: False}, *pack["steps"][number + 1 :]]
            yield {**pack, "steps": steps}
    for number in reversed(range(len(pack["steps"]))):
        if len(pack["steps"]) > 1:
            batches = case["batches"][:number] + case["batches"][number + 1 :]
            yield {
                **pack,
                "steps": pack["steps"][:number] + pack["steps"][number + 1 :],
                "cases": [{**case, "batches": batches}],
            }
    for number, batch in enumerate(case["batches"]):
        for size in (len(batch) // 2, 1):
            for start in range(0, len(batch), size or 1):
                rest = batch[:start] + batch[start + (size or 1) :]
                batches = [*case["batches"][:number], rest, *case["batches"][number + 1 :]]
                yield {**pack, "cases": [{**case, "batches": batches}]}
    for column in sorted(_list_columns(case) - {"id", "shard"}):
        yield {**pack, "cases": [_without_column(case, column)]}


def _list_columns(case: Json) -> set[str]:
    """Return the names of the rows' columns."""
    return {name for fields in map(_row_fields, case["kinds"].values()) for name, _ in fields if name[:2] != "__"}


def _row_fields(kind: Any) -> list[Any]:
    """Return the fields of the row in a record's kind."""
    fields = dict(kind[1])
    row = fields.get("after") or fields.get("data") or kind
    return list(row[1]) if isinstance(row, list) and row[0] == "struct" else []


def _without_column(case: Json, column: str) -> Json:
    """Return the case without a column, in all its kinds; values without a kind are not written."""
    smaller = copy.deepcopy(case)
    for kind in smaller["kinds"].values():
        images = [inner for name, inner in kind[1] if name in ("before", "after", "data")]
        for row in images or [kind]:
            row[1] = [field for field in row[1] if field[0] != column]
    for batch in smaller["batches"]:
        batch[:] = [record for record in batch if not any(column in path for path, _ in record.get("raw", ()))]
    return smaller


def _drop_unused_kinds(pack: Json) -> Json:
    for case in pack["cases"]:
        records = [record for batch in case["batches"] for record in batch]
        used = {record["kind"] for record in records}
        used |= {"key" for record in records if not isinstance(record.get("key"), str | None)}
        case["kinds"] = {name: kind for name, kind in case["kinds"].items() if name in used}
    return pack


def minimize_run(
    pack: Mapping[str, Any], spark: SparkSession, servers: Servers, *, tries: int = 60
) -> tuple[Json, list[str]]:
    """Return a failing pack minimized with real runs, and its differences."""
    from tests.support.oracle.runner import find_differences

    def list_differences(smaller: Mapping[str, Any]) -> list[str]:
        with tempfile.TemporaryDirectory(prefix="oracle") as folder:
            return find_differences(smaller, spark, Path(folder), servers)

    smallest = minimize(pack, lambda smaller: bool(list_differences(smaller)), tries=tries)
    return smallest, list_differences(smallest)


def _main(argument: str) -> None:
    from tests.conftest import start_session
    from tests.plugins.sources.formats.test_avro_records import start_fake_registry
    from tests.support.oracle.grammar import make_pack
    from tests.support.oracle.runner import Servers

    path = Path(argument)
    pack = json.loads(path.read_text(encoding="utf-8")) if path.exists() else make_pack(argument)
    with start_session() as spark, start_fake_registry() as registry:
        smallest, differences = minimize_run(pack, spark, Servers(None, registry))
    sys.stdout.write("\n".join([json.dumps(smallest, indent=1), *differences, ""]))


if __name__ == "__main__":
    _main(sys.argv[1])
