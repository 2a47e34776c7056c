"""Groups of embedded schemas that one schema of Spark can parse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.sdk import RejectReason
from headrace_sources.kafka_connect.connect_schema import ConnectSchema, union_by_name


@dataclass(frozen=True)
class SchemaGroup:
    """Writer schemas whose payloads one schema can parse."""

    ids: tuple[str, ...]
    tree: ConnectSchema
    #: Why their records are dead letters; None if they are rows.
    reason: RejectReason | None = None


def group_trees(trees: Mapping[str, ConnectSchema]) -> list[SchemaGroup]:
    """Group the schemas for as few parses as possible: added and removed columns share a parse."""
    groups: list[SchemaGroup] = []
    for id_, tree in trees.items():
        for i, group in enumerate(groups):
            if (both := union_by_name(group.tree, tree)) is not None:
                groups[i] = SchemaGroup((*group.ids, id_), both)
                break
        else:
            groups.append(SchemaGroup((id_,), tree))
    return groups
