"""Rules of an import that an earlier rule hides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace_import.hidden_rules import remove_hidden_rules
from headrace_import.import_report import Kind, Report
from headrace_import.pipeline_draft import Block, Blocks

_JOB = {
    "hoodie.streamer.source.kafka.topic": "shop.orders",
    "bootstrap.servers": "broker:9092",
    "hoodie.datasource.write.recordkey.field": "id",
}


def make_rule(source: str, target: str = "a", comment: str = "") -> Block:
    rule = Block()
    rule.add("source", source, comment)
    rule.add("target", target)
    return rule


@pytest.mark.parametrize(
    ("earlier", "source", "is_hidden"),
    [
        ("shop.orders", "shop.orders", True),
        ("shop.*", "shop.orders", True),
        ("/shop[.](.*)/", "shop.orders", True),
        ("*", "/shop[.].*/", True),
        ("/.*/", "shop.*", True),
        ("/shop\\.(?:.+)/", "/shop[.]or.*/", True),
        ("${env:P}.shop.*", "${env:P}.shop.orders", True),
        ("/${env:P}[.]shop[.].*/", "${env:P}.shop.orders", True),
        ("/${env:P}[.]shop[.].*/", "/${env:P}[.]shop[.]web.*/", True),
        ("/shop[.].+/", "shop.*", False),  # the topic `shop.`
        ("shop.orders", "shop.*", False),
        ("shop.web?", "shop.web*", False),
        ("/shop[.](a|b)/", "shop.*", False),
        ("/shop[.]a+/", "/shop[.].*/", False),
        ("${env:P}.shop.*", "${env:Q}.shop.orders", False),
        ("shop.[ab]", "shop.*", False),
    ],
)
def test_rule_with_topics_of_an_earlier_rule_is_removed_and_reported(
    earlier: str, source: str, is_hidden: bool
) -> None:
    rules, report = Blocks([make_rule(earlier), make_rule(source, "b", "f: route; g: x, y")]), Report()
    remove_hidden_rules(Block({"tables": rules}), report)
    assert len(rules.items) == 2 - is_hidden
    reported = [(finding.kind, finding.place, finding.keys) for finding in report.findings]
    assert reported == [(Kind.NOT_IMPORTED, "f", ("route",)), (Kind.NOT_IMPORTED, "g", ("x", "y"))][: 2 * is_hidden]


@pytest.mark.parametrize("rule", [make_rule("shop.a", "a", "f: route"), make_rule("*", "b", "all other topics")])
def test_rule_that_loses_no_option_of_an_input_stays(rule: Block) -> None:
    rules, report = Blocks([make_rule("*"), rule]), Report()
    remove_hidden_rules(Block({"tables": rules}), report)
    assert (len(rules.items), report.findings) == (2, [])


def test_second_job_of_a_topic_is_reported_and_its_options_do_not_change_the_first(
    importer: Any, tmp_path: Path
) -> None:
    for name, kind in (("a", "COPY_ON_WRITE"), ("b", "MERGE_ON_READ")):
        job = _JOB | {"--target-table": name, "--table-type": kind, "--target-base-path": f"s3://lake/{name}"}
        arguments = " ".join(
            f"{key if key[:2] == '--' else f'--hoodie-conf {key}'}={value}" for key, value in job.items()
        )
        (tmp_path / f"{name}.sh").write_text(
            f"spark-submit --class org.apache.hudi.HoodieStreamer hudi.jar {arguments}\n"
        )
    result = importer.run(tmp_path / "a.sh", tmp_path / "b.sh")
    importer.check(result)
    assert [rule["target"] for rule in yaml.safe_load(result.pipeline)["tables"]] == ["a"]
    found = {
        key
        for item in result.report.findings
        if item.place == "b.sh" and item.kind is not Kind.NO_MEANING
        for key in item.keys
    }
    assert {"hoodie.streamer.source.kafka.topic", "--target-table", "--table-type"} <= found
    assert "--target-base-path" not in found
