"""Options of single tables: which rule sets which option, and what cannot be set for one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace import ConfigError, Pipeline
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.table_options import describe_settings, describe_sinks

PARTITIONS = "hoodie.datasource.write.partitionpath.field"
ANY = {"source": "moma.public.*", "target": "moma.{table}"}
ARTISTS = {"source": "moma.public.artists", "target": "moma.artists"}


def plan(*rules: dict[str, Any], sinks: Any = None, **settings: Any) -> Plan:
    config = {
        "name": "moma",
        "source": {"files": {"path": "bronze", "format": "json"}},
        "tables": list(rules),
        "sinks": sinks or [{"hudi": {"path": "lake/hudi"}}, {"iceberg": {"warehouse": "lake/iceberg"}}],
        "checkpoint": "checkpoint",
    }
    return Pipeline.from_dict({**config, **settings}).plan


def of_topic(found: Plan, topic: str) -> Plan:
    route = found.routes.of(topic)
    assert route is not None
    return found.for_table(route.table)


def test_each_option_comes_from_the_first_matching_rule_that_has_it() -> None:
    found = plan(
        {**ARTISTS, "sink": {"hudi": {PARTITIONS: "nationality"}}, "maintenance": {"history": "7 days"}},
        {
            "source": "/.*works/",
            "target": "moma.{table}",
            "sinks": ["iceberg"],
            "dead.letters": {"undecodable": "drop"},
        },
        {
            **ANY,
            "sink": {"hudi": {"table.type": "COPY_ON_WRITE", PARTITIONS: "x"}, "iceberg": {"mode": "append"}},
            "delete.retention": "1 day",
        },
        maintenance={"history": "2 hours", "files": 8},
        **{"dead.letters": {"too-large": "stop"}},
    )
    artists, works = of_topic(found, "moma.public.artists"), of_topic(found, "moma.public.artworks")
    assert describe_sinks(artists.sink_names) == (
        f"hudi: {{path: lake/hudi, table.type: COPY_ON_WRITE, {PARTITIONS}: nationality}}, "
        "iceberg: {mode: append, warehouse: lake/iceberg}"
    )
    assert describe_settings(artists.settings) == (
        "maintenance: {history: 7 days, files: 8}, dead.letters: {too-large: stop}, delete.retention: 1 day"
    )
    assert describe_sinks(works.sink_names) == "iceberg: {mode: append, warehouse: lake/iceberg}"
    assert describe_settings(works.settings) == (
        "maintenance: {history: 2 hours, files: 8}, dead.letters: {too-large: stop, undecodable: drop}, "
        "delete.retention: 1 day"
    )
    assert found.list_ruled_reasons("moma.public.artworks") == {"too-large": "stop", "undecodable": "drop"}
    assert found.delete_retention_of("moma.artists") == 86400


def test_tables_without_options_have_the_sinks_of_the_pipeline() -> None:
    found = plan({**ARTISTS, "sinks": ["hudi"]}, ANY)
    assert of_topic(found, "moma.public.artworks") is found
    assert [sink.name for sink in of_topic(found, "moma.public.artists").sinks] == ["hudi"]


def test_sinks_of_one_plugin_are_distinguished_by_their_names() -> None:
    sinks = [{"iceberg": {"warehouse": "gold"}}, {"iceberg": {"warehouse": "silver", "name": "silver"}}]
    rule = {**ARTISTS, "sinks": ["silver"], "sink": {"silver": {"table.type": "copy-on-write"}}}
    artists = of_topic(plan(rule, sinks=sinks), "moma.public.artists")
    assert describe_sinks(artists.sink_names) == (
        "silver: {name: silver, warehouse: silver, table.type: copy-on-write}"
    )


def test_sinks_are_built_once_for_all_tables_with_the_same_options() -> None:
    found = plan({**ANY, "sink": {"hudi": {"table.type": "COPY_ON_WRITE"}}})
    one, other = of_topic(found, "moma.public.artists"), of_topic(found, "moma.public.artworks")
    assert one is other
    assert one.sinks[0] is not found.sinks[0]
    assert one.sinks[1] is found.sinks[1]


def test_options_of_a_table_are_known_from_its_topics_in_the_checkpoint() -> None:
    rule = {"source": "moma.all", "route.by.field": "source.table", "target": "lake.{table}", "sinks": ["hudi"]}
    found = plan(rule)
    assert found.for_table("lake.artists") is found
    found.routes.learn(["moma.all//artists"])
    assert [sink.name for sink in found.for_table("lake.artists").sinks] == ["hudi"]


def test_topics_of_a_table_must_have_the_same_options() -> None:
    shared = {"target": "moma.people"}
    found = plan(
        {"source": "a.artists", **shared, "sinks": ["hudi"]},
        {"source": "b.artists", **shared, "sinks": ["hudi"]},
        {"source": "c.artists", **shared},
    )
    errors = [route.error for topic in "abc" if (route := found.routes.of(f"{topic}.artists"))]
    assert errors[:2] == [None, None]
    assert "table moma.people, topic c.artists: the rules of its topics give the table different options" in str(
        errors[2]
    )


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"sinks": ["hudy"]}, "config tables.0.sinks.0: the pipeline has no sink 'hudy'\n  fix: did you mean 'hudi'?"),
        ({"sink": {"s3": {"format": "json"}}}, "config tables.0.sink.s3: the pipeline has no sink 's3'"),
        ({"sink": {"iceberg": {"table.typ": "x"}}}, "config tables.0.sink.iceberg.table.typ: unknown key 'table.typ'"),
        ({"sink": {"iceberg": {PARTITIONS: "x"}}}, f"config tables.0.sink.iceberg.{PARTITIONS}: unknown key"),
        ({"sink": {"iceberg": {"catalog": "lake"}}}, "set either `warehouse:` (a folder) or `catalog:`"),
        ({"sinks": []}, "names no sink"),
        (
            {"sink": {"hudi": {"path": "other"}}},
            "tables[0].sink.hudi: options of the whole sink cannot be set for one table: path\n  fix: add another sink",
        ),
        ({"sink": {"iceberg": {"mode": "append"}}}, "it appends, so it cannot remove rows that the database deletes"),
    ],
)
def test_invalid_options_are_rejected_before_a_run(rule: dict[str, Any], message: str) -> None:
    from headrace.engine.write.table_plan import check_capabilities

    with pytest.raises(ConfigError) as raised:
        check_capabilities(plan({**ARTISTS, **rule}, transforms=["unwrap"]))
    assert message in str(raised.value)


def test_secrets_of_table_options_are_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_TOKEN", "swordfish")
    rule = {**ARTISTS, "sink": {"hudi": {"hoodie.token": "${env:LAKE_TOKEN}"}}}
    found = plan(rule)
    assert "swordfish" not in describe_sinks(of_topic(found, "moma.public.artists").sink_names)
    assert "swordfish" not in found.redact("token swordfish")


def test_tables_of_the_documented_example_reach_the_sinks_of_their_options() -> None:
    text = Path("docs/pipeline-file.md").read_text(encoding="utf-8")
    example = yaml.safe_load(text[text.index("tables:\n  - source: moma.public.artists") :].partition("```")[0])
    found = plan(*example["tables"], sinks=example["sinks"])
    names = {table: [*of_topic(found, f"moma.public.{table}").sink_names.values()] for table in ("artists", "visits")}
    assert names == {"artists": ["hudi", "iceberg"], "visits": ["iceberg"]}


def test_options_of_a_sink_that_a_later_rule_leaves_out_are_an_error_of_the_table() -> None:
    found = plan(
        {**ARTISTS, "sink": {"hudi": {"table.type": "COPY_ON_WRITE"}}},
        {"source": "moma.public.visits", "target": "moma.visits"},
        {"source": "moma.public.a*", "sinks": ["iceberg"], "sink": {"iceberg": {"mode": "append"}}},
    )
    route = found.routes.of("moma.public.artists")
    assert route is not None
    assert "a rule has options for the sink 'hudi', and `sinks: [iceberg]` of the rule for 'moma.public.a*'" in str(
        route.error
    )
    assert found.for_table("moma.artists") is found
    assert found.routes.of("moma.public.visits") is not None


def test_options_of_two_rules_are_checked_together() -> None:
    s3 = [{"s3": {"path": "lake", "format": "json", "flush.size": 9}}]
    time_based = {"partitioner": "time-based", "path.format": "'year'=YYYY", "partition.duration.ms": 3600000}
    broken = plan(
        {**ARTISTS, "sink": {"s3": {"partitioner": "field", "partition.field.name": "country"}}},
        {**ANY, "sink": {"s3": time_based}},
        sinks=s3,
    )
    artists, works = broken.routes.of("moma.public.artists"), broken.routes.of("moma.public.works")
    assert artists is not None
    assert works is not None
    assert "time-based" in str(artists.error)
    assert works.error is None
    merged = plan(
        {**ARTISTS, "sink": {"s3": {"partition.field.name": "country"}}},
        {**ANY, "sink": {"s3": {"partitioner": "field"}}},
        sinks=s3,
    )
    assert "partition.field.name: country" in describe_sinks(of_topic(merged, "moma.public.artists").sink_names)


def test_sinks_of_known_tables_are_called_when_the_run_is_idle() -> None:
    found = plan(
        {**ARTISTS, "sink": {"s3": {"format": "json"}}},
        {**ANY, "sink": {"s3": {"rotate.schedule.interval.ms": 60000}}},
        sinks=[{"s3": {"path": "lake", "format": "avro", "flush.size": 9}}],
    )
    found.routes.learn(["moma.public.artists"])
    (sink,) = found.for_table("moma.artists").sinks
    assert sink in found.all_sinks


def test_plan_of_a_table_is_the_same_for_the_table() -> None:
    found = plan({**ARTISTS, "sinks": ["iceberg"]}, {**ANY, "sink": {"hudi": {"table.type": "COPY_ON_WRITE"}}})
    artists = of_topic(found, "moma.public.artists")
    assert artists.for_table("moma.artists") is artists
    assert found.name_of(artists.sinks[0]) == "iceberg"


def test_renewed_references_apply_to_the_options_of_known_tables() -> None:
    def make(token: str) -> Plan:
        return plan({**ARTISTS, "sink": {"hudi": {"hoodie.token": token}}})

    used = make("old")
    of_topic(used, "moma.public.artists")
    (sink, _) = used.with_credentials_of(make("new")).for_table("moma.artists").sinks
    assert sink.config.options() == {"hoodie.token": "new"}


def test_settings_that_a_plugin_needs_win_against_settings_of_the_file() -> None:
    """The positions of records in files depend on the size of blocks."""
    size = "spark.sql.files.maxPartitionBytes"
    found = plan(ANY, spark={size: "1g", "spark.sql.shuffle.partitions": 7}).sql_conf
    assert (found[size], found["spark.sql.shuffle.partitions"]) == (str(32 << 20), "7")
