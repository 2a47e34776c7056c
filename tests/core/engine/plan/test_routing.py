"""Topics find their tables."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.config.model import TableRule
from headrace.engine.plan.routing import Route, Routes, route
from headrace.errors import DataError
from headrace.sdk.events import Events

ARTISTS = "moma.public.artists"


def table(topic: str, *rules: dict[str, object]) -> str | None:
    found = Routes([TableRule.model_validate(rule) for rule in rules]).of(topic)
    return found.table if found else None


def test_without_rules_a_topic_is_a_table() -> None:
    assert table(ARTISTS) == ARTISTS


def test_with_rules_a_topic_that_none_matches_goes_nowhere() -> None:
    assert table(ARTISTS, {"source": "moma.public.artworks"}) is None


def test_a_rule_without_a_target_lets_the_topic_be_the_table() -> None:
    assert table(ARTISTS, {"source": ARTISTS}) == ARTISTS


def test_the_first_rule_that_matches_decides() -> None:
    assert table(ARTISTS, {"source": "moma.*", "target": "first"}, {"source": ARTISTS, "target": "second"}) == "first"


@pytest.mark.parametrize(
    ("source", "matches"),
    [
        ("moma.public.*", True),
        ("moma.public.artist?", True),
        ("moma.public.[a-b]*", True),
        ("moma.public", False),
        ("MOMA.public.artists", False),
        (r"/moma\.public\..*/", True),
        (r"/public/", False),
        (r"/.*\.(artists|artworks)/", True),
        ("moma.public.artist", False),
    ],
)
def test_names_globs_and_regular_expressions_match_whole_topics(source: str, *, matches: bool) -> None:
    assert (table(ARTISTS, {"source": source, "target": "t"}) == "t") is matches


@pytest.mark.parametrize(
    ("topic", "fields"),
    [
        ("moma.public.artists", ("moma.public.artists", "moma", "moma", "public", "artists")),
        ("prod.moma.public.artists", ("prod.moma.public.artists", "prod", "moma", "public", "artists")),
        ("inventory.customers", ("inventory.customers", "inventory", "inventory", "inventory", "customers")),
        ("artists", ("artists", "artists", "artists", "artists", "artists")),
    ],
)
def test_fields_of_the_target(topic: str, fields: tuple[str, ...]) -> None:
    names = ("topic", "prefix", "db", "schema", "table")
    assert tuple(table(topic, {"source": "*", "target": f"{{{name}}}"}) for name in names) == fields


def test_key_columns_come_with_the_route() -> None:
    routes = Routes([TableRule(source="*", target="t", key=("a", "b"))])
    assert routes.of(ARTISTS) == Route("t", ("a", "b"))


@pytest.mark.parametrize(
    ("target", "table"),
    [
        (None, "public.artists"),
        ("moma.{table}", "moma.artists"),
        ("{schema}_{table}", "public_artists"),
        ("all", "all"),
    ],
)
def test_a_part_of_a_topic_is_named_by_the_fields_that_it_is_routed_by(target: str | None, table: str) -> None:
    rule = TableRule.model_validate({"source": "moma", "target": target, "route.by.field": "source.table"})
    found = Routes([rule]).of("moma", "public.artists")
    assert found == Route(table, by=("source.table",))


def test_the_parts_of_a_topic_may_have_keys_of_their_own() -> None:
    rule = {"source": "moma", "route.by.field": "source.table", "key": {"artists": "artist_id", "*": ["id"]}}
    routes = Routes([TableRule.model_validate(rule)])
    keys = [found.key for part in ("artists", "works", None) if (found := routes.of("moma", part))]
    assert keys == [("artist_id",), ("id",), ()]
    assert routes.key_columns("moma") == ("artist_id", "id")
    assert routes.key_columns("other") == ()


def test_the_parts_of_a_topic_that_have_one_target_are_one_table() -> None:
    rule = TableRule.model_validate({"source": "moma", "target": "all", "route.by.field": "source.table"})
    none: Any = None
    parts = [Events("moma", none, none, part=part) for part in ("a", "b")]
    [target], unrouted = route(parts, Routes([rule]))
    assert (target.name, target.topics, [events.part for events, _ in target.sources]) == ("all", ["moma"], ["a", "b"])
    assert unrouted == ()


@pytest.mark.parametrize("topic", ["moma.public.Quoted Table", "a/b", "..", "a;b", "x.", "a'b"])
def test_a_topic_that_can_be_no_table_needs_a_target(topic: str) -> None:
    with pytest.raises(DataError) as raised:
        table(topic)
    assert str(raised.value) == (
        f"topic {topic}: {topic!r} is not a table name: parts of letters, digits, '_' and '-', joined by '.'\n"
        "  fix: name a `target:` for it under `tables:`"
    )
    assert table(topic, {"source": "*", "target": "named"}) == "named"


def test_a_topics_own_parts_are_checked_in_the_target() -> None:
    with pytest.raises(DataError, match=r"'lake\.\.\./x' is not a table name"):
        table("../x", {"source": "*", "target": "lake.{topic}"})
