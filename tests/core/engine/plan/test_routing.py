"""Routing of topics to tables."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.config.model import TableRule
from headrace.engine.plan.routing import Route, Routes, route
from headrace.sdk.events import Events

ARTISTS = "moma.public.artists"


def table(topic: str, *rules: dict[str, object]) -> str | None:
    found = Routes([TableRule.model_validate(rule) for rule in rules]).of(topic)
    return found.table if found else None


def test_without_rules_a_topic_is_a_table() -> None:
    assert table(ARTISTS) == ARTISTS


def test_topic_that_matches_no_rule_has_no_table() -> None:
    assert table(ARTISTS, {"source": "moma.public.artworks"}) is None


def test_rule_without_a_target_uses_the_topic_as_the_table() -> None:
    assert table(ARTISTS, {"source": ARTISTS}) == ARTISTS


def test_first_matching_rule_is_used() -> None:
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
def test_names_globs_and_regular_expressions_match_complete_topics(source: str, *, matches: bool) -> None:
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
def test_target_fields_are_derived_from_the_topic(topic: str, fields: tuple[str, ...]) -> None:
    names = ("topic", "prefix", "db", "schema", "table")
    assert tuple(table(topic, {"source": "*", "target": f"{{{name}}}"}) for name in names) == fields


@pytest.mark.parametrize(
    ("target", "found"),
    [("orders_{1}", "orders_eu"), ("{2}.{1}", "v2.eu"), ("{table}_{1}", "v2_eu"), ("x{3}", "x")],
)
def test_target_may_use_groups_of_the_pattern(target: str, found: str) -> None:
    """A group that does not match is empty, as in Kafka Connect's RegexRouter."""
    assert table("shop.eu.orders.v2", {"source": r"/shop\.(eu|us)\.orders\.(\w+)(-test)?/", "target": target}) == found


@pytest.mark.parametrize(
    ("source", "target"), [("/shop.(.*)/", "{2}"), ("shop.*", "{1}"), ("/a(.)/", "{0}"), ("/a(.)/", "{}")]
)
def test_target_with_an_unknown_group(source: str, target: str) -> None:
    with pytest.raises(ValueError, match="uses an unknown field; known fields: "):
        TableRule(source=source, target=target)


def test_route_contains_the_key_columns() -> None:
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
def test_table_of_a_split_topic_is_named_by_its_routing_fields(target: str | None, table: str) -> None:
    rule = TableRule.model_validate({"source": "moma", "target": target, "route.by.field": "source.table"})
    found = Routes([rule]).of("moma", "public.artists")
    assert found == Route(table, by=("source.table",))


def test_route_contains_the_columns_that_order_changes() -> None:
    route = Routes([TableRule.model_validate({"source": "*", "order.by": "updated"})]).of(ARTISTS)
    assert route is not None
    assert route.order_by == ("updated",)


def test_topics_of_a_table_must_have_one_order() -> None:
    rules = [{"source": "a", "target": "t", "order.by": ["updated"]}, {"source": "*", "target": "t"}]
    routes = Routes([TableRule.model_validate(rule) for rule in rules])
    first, second = routes.of("a"), routes.of("b")
    assert first is not None
    assert first.error is None
    assert second is not None
    assert "the rules of its topics have different `order.by`" in str(second.error)
    assert "table t, topic b" in str(second.error)


def test_order_names_each_column_once() -> None:
    with pytest.raises(ValueError, match="names the column 'id' more than once"):
        TableRule.model_validate({"source": "*", "order.by": ["id", "at", "id"]})


def test_each_table_of_a_split_topic_may_have_its_own_key() -> None:
    rule = {"source": "moma", "route.by.field": "source.table", "key": {"artists": "artist_id", "*": ["id"]}}
    routes = Routes([TableRule.model_validate(rule)])
    keys = [found.key for part in ("artists", "works", None) if (found := routes.of("moma", part))]
    assert keys == [("artist_id",), ("id",), ()]
    assert routes.key_columns("moma") == ("artist_id", "id")
    assert routes.key_columns("other") == ()


def test_parts_of_a_topic_with_the_same_target_are_one_table() -> None:
    rule = TableRule.model_validate({"source": "moma", "target": "all", "route.by.field": "source.table"})
    none: Any = None
    parts = [Events("moma", none, none, part=part) for part in ("a", "b")]
    [target], unrouted = route(parts, Routes([rule]))
    assert (target.name, target.topics, [events.part for events, _ in target.sources]) == ("all", ["moma"], ["a", "b"])
    assert unrouted == ()


def test_each_split_topic_of_a_table_is_a_series_of_batches() -> None:
    none: Any = None
    rules = [{"source": "split*", "target": "all", "route.by.field": "source.table"}, {"source": "*", "target": "all"}]
    events = [Events(topic, none, none, part=part) for topic, part in (("split1", "a"), ("b", None), ("split2", "a"))]
    events += [Events("split1", none, none, part="b"), Events("a", none, none)]
    [target], _ = route(events, Routes([TableRule.model_validate(rule) for rule in rules]))
    found = target.split_by_series()
    assert next(iter(found)) == ""
    assert sorted(part.topics for part in found.values()) == [["b", "a"], ["split1"], ["split2"]]
    assert sorted(len(part.sources) for part in found.values()) == [1, 2, 2]
    assert (
        found.keys()
        == route(events[:3], Routes([TableRule.model_validate(r) for r in rules]))[0][0].split_by_series().keys()
    )


@pytest.mark.parametrize("topic", ["moma.public.Quoted Table", "a/b", "..", "a;b", "x.", "a'b"])
def test_only_a_topic_with_an_invalid_table_name_fails(topic: str) -> None:
    none: Any = None
    good, bad = Events("good", none, none), Events(topic, none, none)
    [first, second], _ = route([bad, good], Routes([]))
    assert (second.name, second.sources[0][0]) == ("good", good)
    assert (first.name, first.topics) == (topic, [topic])
    assert str(first.sources[0][0].error) == (
        f"topic {topic}: {topic!r} is not a table name: parts of letters, digits, '_' and '-', joined by '.'\n"
        "  fix: name a `target:` for it under `tables:`"
    )
    assert table(topic, {"source": "*", "target": "named"}) == "named"


def test_topic_fields_in_the_target_are_validated() -> None:
    found = Routes([TableRule(source="*", target="lake.{topic}")]).of("../x")
    assert found is not None
    assert "'lake.../x' is not a table name" in str(found.error)
