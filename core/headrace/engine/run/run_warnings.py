"""Warnings before a run, which do not prevent it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.checkpoint.mask_log import MaskLog
from headrace.engine.plan.pipeline_plan import Plan
from headrace.registry.hook_results import check_strings
from headrace.runtime.session.spark_support import find_version_warnings

if TYPE_CHECKING:
    from headrace.spark.storage import Folder


def find_warnings(plan: Plan, folder: Folder, next_batch: int, spark_version: str, *, remember: bool) -> list[str]:
    """Return warnings about this version of Spark, about unwise options, and about masks that are newer than the rows.

    ``remember``: save the masks in the checkpoint in ``folder``; ``next_batch``: the first batch that is not planned yet.
    """
    log = MaskLog(folder)
    masks = log.compare(plan.mask_rules, next_batch)
    if remember:
        log.remember(masks)
    new_masks = [
        f"the mask of {column!r} is new or changed since batch {mask.since}: earlier rows are unchanged in tables, "
        'their older versions and dead letters; to rebuild them, see "Adding or changing a mask" in docs/masking.md'
        for column, mask in masks.items()
        if mask.since
    ]
    versions = find_version_warnings(plan.all_plugins, spark_version)
    return [*versions, *_collect_texts(plan, "warnings"), *new_masks]


def find_notes(plan: Plan) -> list[str]:
    """Return the notes of all plugins."""
    return _collect_texts(plan, "notes")


def _collect_texts(plan: Plan, method: str) -> list[str]:
    """Return the strings that a method of all plugins returns, with the plugins' names. Several plugins may share a string."""
    texts: dict[str, str] = {}
    for plugin in plan.all_plugins:
        for text in check_strings(plugin, method, getattr(plugin, method)()):
            texts.setdefault(text, f"{plugin.name}: {text}")
    return list(texts.values())
