"""Random histories of a database model and of a pipeline that reads its records. A seed determines a history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.support.world import CONNECTORS, TABLES, DatabaseModel, Shape

#: Choices of ``Shape.shared`` for two tables.
SHARED = (None, None, "routed", "unrouted", "merged", "logical")


@dataclass(frozen=True)
class Step:
    """Next step of a pipeline.

    ``batch``: apply the records up to ``ends``; ``crash``: the same, but the run is killed before the batch is committed;
    ``restart``: let failed tables catch up, stop and start again; ``kill``: the same without catch-up; ``break``: a ``sink``
    fails for ``tables``, before or after (``when``) its commit; ``mend``: no sink fails; ``resync``: resync all tables.
    """

    what: str
    ends: dict[str, int] = field(default_factory=dict)
    sink: int = 0
    tables: tuple[str, ...] = ()
    when: str = "before"

    def __str__(self) -> str:
        details = {"batch": self.ends, "crash": self.ends, "break": f"sink {self.sink} {self.when} {self.tables}"}
        return f"{self.what.upper()} {details.get(self.what, '')}".rstrip()


@dataclass(frozen=True)
class History:
    """History of a database model and of a pipeline; its string describes it."""

    seed: int
    world: DatabaseModel
    steps: Sequence[Step]

    def __repr__(self) -> str:
        return "\n".join([f"history({self.seed}): {self.world.shape}", *self.world.trace])


def _shape(chance: Random, shared: tuple[str | None, ...]) -> Shape:
    rewrites = chance.random() < 0.25
    modes = ("append", "upsert", "changelog") if rewrites else ("upsert", "upsert", "changelog")
    tables = TABLES[: chance.choice((1, 2, 2))] if None in shared else TABLES
    return Shape(
        chance.choice(CONNECTORS),
        chance.random() < 0.4,
        tables,
        chance.choice(shared) if len(tables) > 1 else None,
        rewrites,
        (chance.choice(modes), chance.choice(modes)),
    )


def history(seed: int, shared: tuple[str | None, ...] = SHARED) -> History:
    """Return the history of a seed. ``shared``: choices of ``Shape.shared``."""
    chance = Random(seed)
    world = DatabaseModel(_shape(chance, shared), chance, chance.choice((1, 2, 3)))
    steps: list[Step] = []
    read: dict[str, int] = {}
    is_broken = False

    def step(what: str, **options: Any) -> None:
        steps.append(Step(what, **options))
        world.trace.append(str(steps[-1]))

    if chance.random() < 0.5:
        world.lose_slot()  # the database is older than its connector
    for _ in range(chance.randint(2, 6)):
        for _ in range(chance.randint(1, 4)):
            _happen(world, read)
        if is_broken and chance.random() < 0.4:
            is_broken = False
            step("mend")
        if not is_broken and chance.random() < 0.35:
            is_broken = True
            tables = chance.choice([*((table,) for table in world.shape.tables), world.shape.tables])
            step("break", sink=chance.randrange(2), tables=tables, when=chance.choice(("before", "after")))
        read = {
            part: chance.choice((end, chance.randint(read.get(part, 0), end))) for part, end in world.ends().items()
        }
        step("crash" if chance.random() < 0.15 else "batch", ends=read)
        dice = chance.random()
        if dice < 0.3:
            step("restart" if dice < 0.2 else "kill")
        elif dice < 0.4 and world.shape.removes_rows:
            is_broken, read = False, world.ends()
            step("mend")
            step("batch", ends=read)
            step("resync")
    step("mend")
    step("batch", ends=world.ends())
    if world.shape.removes_rows:
        step("resync")
    return History(seed, world, steps)


def _happen(world: DatabaseModel, read: dict[str, int]) -> None:
    dice = world.chance.random()
    if dice < 0.12:
        world.lose_slot()
    elif dice < 0.2:
        world.snapshot()
    elif dice < 0.28:
        world.repeat()
    elif dice < 0.34:
        world.add_partitions()
    elif dice < 0.44:
        world.add_column()
    elif dice < 0.52 and set(world.shape.modes) == {"upsert"} and not world.shape.rewrites:
        world.transaction()
        world.compact(read)
    else:
        world.transaction()
