"""What a user should know before a run, and that does not stand in its way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.checkpoint.mask_log import MaskLog
from headrace.engine.plan.pipeline_plan import Plan

if TYPE_CHECKING:
    from headrace.spark.storage import Folder


def find_warnings(plan: Plan, folder: Folder, next_batch: int, *, remember: bool) -> list[str]:
    """What to know before a run: unwise options, and masks that are younger than the rows.

    ``remember``: the checkpoint in ``folder`` notes which masks there are; ``next_batch``: the first that was not planned yet.
    """
    log = MaskLog(folder)
    masks = log.compare(plan.mask_rules, next_batch)
    if remember:
        log.remember(masks)
    young = [
        f"the mask of {column!r} is new or another since batch {mask.since}: what was written before stays as it was, in tables, "
        'their older versions and dead letters; to rebuild them, see "A mask that comes later" in docs/masking.md'
        for column, mask in masks.items()
        if mask.since
    ]
    return [f"{plugin.name}: {text}" for plugin in plan.plugins for text in plugin.warnings()] + young
