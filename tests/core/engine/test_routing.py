"""Topics find their tables."""

from __future__ import annotations

import pytest

from headrace.config.model import TableRule
from headrace.engine.routing import Route, Routes
from headrace.errors import DataError

ARTISTS = "moma.public.artists"


def table(topic: str, *rules: dict[str, object]) -> str | None:
    route = Routes([TableRule.model_validate(rule) for rule in rules]).of(topic)
    return route.table if route else None


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
