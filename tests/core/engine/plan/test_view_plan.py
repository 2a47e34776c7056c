"""Views of the pipeline file: errors with lines, and the order of views."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import Pipeline
from headrace.config.loader import build
from headrace.config.yaml_document import parse
from headrace.engine.write.table_plan import check_capabilities
from headrace.errors import ConfigError

HEAD = """\
name: shop
source: {files: {path: landing/, format: json}}
tables:
  - {source: db.shop.*, target: "shop.{table}", key: [id]}
checkpoint: checkpoint/
"""
SINK = "sink: {iceberg: {warehouse: lake/}}\n"
VIEW = """\
views:
  - name: shop.totals
    key: customer_id
    sql: SELECT customer_id, SUM(amount) AS total FROM shop.orders GROUP BY customer_id
"""


def load(text: str) -> Pipeline:
    return build(parse(text, "shop.yaml"), Pipeline)


def views(**changes: Any) -> str:
    """Return the view with changed keys; None removes a key."""
    view = {"name": "shop.totals", "key": "customer_id", "sql": "SELECT customer_id FROM shop.orders", **changes}
    lines = "\n    ".join(f"{key}: {value}" for key, value in view.items() if value is not None)
    return f"views:\n  - {lines}\n"


def test_views_follow_the_views_that_they_read() -> None:
    other = '  - {name: shop.all, key: n, sql: "SELECT customer_id AS n, total FROM shop.totals"}\n'
    plan = load(HEAD + SINK + "views:\n" + other + VIEW.removeprefix("views:\n")).plan
    assert [(view.name, view.key, view.base_sink) for view in plan.views] == [
        ("shop.totals", ("customer_id",), "iceberg"),
        ("shop.all", ("n",), "iceberg"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (views(sql="SELECT FROM WHERE"), "shop.yaml:10 views.0.sql: "),
        (views(sql="DELETE FROM shop.orders"), "shop.yaml:10 views.0.sql: "),
        (views(sql="SELECT customer_id, rand() AS r FROM shop.orders"), "shop.yaml:10 views.0.sql: "),
        (views(sql="SELECT customer_id FROM shop.totals"), "circle: shop.totals → shop.totals"),
        (views(sql="SELECT customer_id FROM other.orders"), "writes the table 'other.orders'"),
        (views(touched_by="{shop.people: id}"), "shop.yaml:11 views.0.touched_by: the SQL does not read"),
        (views(key="[a, a]"), "shop.yaml:9 views.0.key: names the column 'a' more than once"),
        (views(name="a b"), "shop.yaml:8 views.0.name: 'a b' is not a table name"),
        (views(sinks="[lake]"), "shop.yaml:11 views.0.sinks.0: the pipeline has no sink 'lake'"),
        (views(**{"from": "lake"}), "shop.yaml:11 views.0.from: the pipeline has no sink 'lake'"),
        (views(sinks="[]"), "shop.yaml:11 views.0.sinks: names no sink"),
        (views(key=None), "'key' is missing"),
        (views(recompute="never"), "shop.yaml:11 views.0.recompute: must be"),
        (views(refresh="full"), "unknown key 'refresh'"),
        (VIEW + VIEW.removeprefix("views:\n"), "shop.yaml:11 views.1.name: two views have the name 'shop.totals'"),
        (
            VIEW + VIEW.removeprefix("views:\n").replace("shop.totals", "shop.Totals"),
            "shop.yaml:11 views.1.name: the names 'shop.totals' and 'shop.Totals' of views differ in upper and lower case only",
        ),
    ],
)
def test_error_names_the_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(HEAD + SINK + text)
    assert message in str(raised.value)


def test_circle_of_two_views_is_an_error() -> None:
    first = '  - {name: shop.a, key: id, sql: "SELECT id FROM shop.b"}\n'
    second = '  - {name: shop.b, key: id, sql: "SELECT id FROM shop.a"}\n'
    with pytest.raises(ConfigError, match=r"shop\.yaml:\d+ views\.\d\.sql: the views read each other in a circle"):
        load(HEAD + SINK + "views:\n" + first + second)


def test_view_has_the_name_of_a_table() -> None:
    text = HEAD.replace('"shop.{table}"', "shop.orders") + SINK
    with pytest.raises(ConfigError, match="a rule of `tables:` writes a table"):
        load(text + views(name="shop.orders", sql="SELECT customer_id FROM shop.orders"))
    # The name of a topic may also give the name of a view. Only this table fails.
    route = load(HEAD + SINK + VIEW).plan.routes.of("db.shop.totals")
    assert route is not None
    assert "a view has the name of the table" in str(route.error)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "transforms:\n  - unwrap\n  - mask: {columns: {email: {nullify: true}}, tables: [shop.totals]}\n",
            "shop.yaml:9 transforms.1.mask.tables: 'shop.totals' is a view, and transforms apply to tables",
        ),
        (
            "transforms:\n  - drop: {columns: [email], tables.exclude: [shop.totals]}\n",
            "shop.yaml:8 transforms.0.drop.tables.exclude: 'shop.totals' is a view",
        ),
        ("tags: {pii: [shop.totals.email]}\n", "shop.yaml:7 tags.pii: 'shop.totals' is a view, and tags belong"),
    ],
)
def test_transforms_and_tags_name_no_view(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(
            HEAD.replace("shop.{table}", "shop.t_{table}") + SINK + text + VIEW.replace("shop.orders", "shop.t_orders")
        )
    assert message in str(raised.value)


def test_unknown_table_is_compared_with_the_sources_of_rules() -> None:
    text = HEAD.replace('{source: db.shop.*, target: "shop.{table}"', "{source: shop.orders")
    with pytest.raises(ConfigError, match="no view writes the table") as raised:
        load(text + SINK + views(sql="SELECT customer_id FROM shop.ordes"))
    assert raised.value.fix == "did you mean 'shop.orders'?"


def test_base_sink_is_named_if_there_are_several() -> None:
    sinks = "sinks: [{iceberg: {warehouse: lake/}}, {hudi: {path: lake/}}]\n"
    with pytest.raises(ConfigError, match="several sinks keep tables") as raised:
        load(HEAD + sinks + VIEW)
    assert raised.value.fix == "name one of them: `from: iceberg`"
    assert load(HEAD + sinks + VIEW + "    from: hudi\n").plan.views[0].base_sink == "hudi"
    with pytest.raises(ConfigError, match="no sink keeps tables"):
        load(HEAD + "sink: {console: {}}\n" + VIEW)


@pytest.mark.parametrize("sink", ["console: {}", "kafka: {bootstrap.servers: localhost, topic: all}"])
def test_base_sink_returns_rows(sink: str) -> None:
    name = sink.partition(":")[0]
    with pytest.raises(ConfigError) as raised:
        load(HEAD + f"sinks: [{{iceberg: {{warehouse: lake/}}}}, {{{sink}}}]\n" + VIEW + f"    from: {name}\n")
    message = f"shop.yaml:11 views.0.from: the sink '{name}' does not return the rows of its tables"
    assert message in str(raised.value)


def test_base_sink_receives_the_tables() -> None:
    sinks = "sinks: [{iceberg: {warehouse: lake/}}, {hudi: {path: hudi/}}]\n"
    text = HEAD.replace('target: "shop.{table}"', "target: shop.orders, sinks: [hudi]").replace("shop.*", "orders")
    check_capabilities(load(text + sinks + VIEW + "    from: hudi\n").plan)
    with pytest.raises(ConfigError, match="the sink 'iceberg' does not receive"):
        load(text + sinks + VIEW + "    from: iceberg\n")


@pytest.mark.parametrize(
    ("sinks", "more", "message"),
    [
        ("{files: {path: out/}}", "    sink: {files: {mode: append}}\n", "it appends, so it cannot remove rows"),
        ("{files: {path: out/, mode: changelog}}", "", None),
        ("{console: {}}", "", None),
        ("{files: {path: out/}}", "    sinks: [files]\n    recompute: full\n", "its sinks only append"),
        ("{console: {mode: append}}", "", "a view has one row per key"),
        ("{console: {mode: append}}", "    sinks: [iceberg]\n", None),
        ("{s3: {bucket: raw}}", "", "it stores columns of the source's records"),
    ],
)
def test_sinks_of_a_view(sinks: str, more: str, message: str | None) -> None:
    text = HEAD + f"sinks:\n  - {{iceberg: {{warehouse: lake/}}}}\n  - {sinks}\n" + VIEW + "    from: iceberg\n" + more
    if "s3" in sinks:
        text = text.replace("files: {path: landing/, format: json}", "kafka: {subscribe: db.shop.orders}, value: json")
        text = text.replace("kafka: {", "kafka: {bootstrap.servers: localhost, ")
        text = text.replace("s3: {bucket: raw}", 's3: {path: "s3://raw/", flush.size: 10}')
    plan = load(text).plan
    if message is None:
        check_capabilities(plan)
        return
    with pytest.raises(ConfigError, match=message):
        check_capabilities(plan)


def test_sink_of_views_alone_has_the_mode_of_views() -> None:
    text = HEAD.replace("key: [id]", "key: [id], sinks: [iceberg]") + "transforms: [{unwrap: {}}]\n"
    sinks = "sinks:\n  - {iceberg: {warehouse: lake/}}\n  - {files: {path: out/}}\n"
    check_capabilities(load(text + sinks + VIEW + "    sinks: [files]\n").plan)
    shared = text.replace(", sinks: [iceberg]", "")
    with pytest.raises(ConfigError, match="it appends, so it cannot remove rows that the database deletes"):
        check_capabilities(load(shared + sinks + VIEW + "    sinks: [files]\n").plan)


def test_view_has_another_name_than_the_table_of_dead_letters() -> None:
    text = HEAD + SINK + "dead.letters.table: shop.totals\n" + VIEW
    with pytest.raises(ConfigError, match="the table of dead letters has its name"):
        check_capabilities(load(text).plan)
