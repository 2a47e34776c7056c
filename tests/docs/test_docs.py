"""Examples in the documentation: each example is run or checked."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml
from tests.support.bronze import Bronze
from tests.support.dist import ROOT
from tests.support.pages import FENCE, PAGES, Block, list_blocks
from tests.support.tiers import nightly_after

from headrace import Pipeline
from headrace.cli.main import cli
from headrace.config.model import PipelineConfig
from headrace.config.observer_blocks import list_plugin_keys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Page with a complete distribution, which tests/packaging builds, installs and runs.
PLUGIN_PAGE = "docs/plugins.md"
#: Pipeline that completes a fragment of a pipeline file.
BASE = {
    "name": "docs",
    "source": {"files": {"path": "bronze/", "format": "avro"}},
    "tables": [
        {"source": "moma.public.artists", "key": ["artist_id"], "target": "moma.artists"},
        {"source": "shop.*", "key": ["id"]},
    ],
    "transforms": [{"unwrap": {}}],
    "sinks": [{"iceberg": {"warehouse": "lake/"}}],
    "checkpoint": "checkpoint",
}


BLOCKS = [block for page in PAGES for block in list_blocks(page)]
PIPELINES = [b for b in BLOCKS if b.language == "yaml" and b.page != PLUGIN_PAGE]
RUNNABLE = sorted({b.page for b in BLOCKS if "run" in b.marks})
COMMANDS = [
    pytest.param(line, id=f"{block}-{line}")
    for block in BLOCKS
    for line in block.body.splitlines()
    for line in [line.removeprefix("$ ").strip()]
    if block.language in ("sh", "console", "bash", "") and re.match(r"(\w+=\S+ )*headrace \w", line)
]


def test_every_code_block_has_a_known_language() -> None:
    known = {"", "yaml", "python", "sh", "console", "toml", "json", "ini"}
    assert [str(b) for b in BLOCKS if b.language not in known] == []
    for page in PAGES:
        assert page.read_text(encoding="utf-8").count("```") % 2 == 0, page


@pytest.mark.parametrize("block", PIPELINES, ids=str)
def test_pipeline_files_load(
    block: Block, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Complete files load without changes. Fragments replace keys of a complete pipeline."""
    monkeypatch.setenv("SALT", "pepper")
    for name in (
        "KAFKA_PASSWORD",
        "REGISTRY_PASSWORD",
        "EXTERNAL_ID",
        "PASSWORD",
        "TOKEN",
        "KEY",
        "MASK_KEY",
        "PAGERDUTY_KEY",
    ):
        monkeypatch.setenv(name, "secret")
    for name in ("SERVE_TOKEN", "SERVE_PASSWORD"):
        monkeypatch.setenv(name, "secret-of-20-letters")
    for name in ("SLACK_URL", "PING_URL"):
        monkeypatch.setenv(name, "https://example.com/secret")
    data: dict[str, Any] = yaml.safe_load(block.body)
    assert set(data) <= {*PipelineConfig.keys(), *list_plugin_keys()}, "not a part of a pipeline file"
    if "${secretManager:" in block.body:
        request.getfixturevalue("aws")
    if {"name", "source", "checkpoint"} <= set(data):
        file = tmp_path / "pipeline.yaml"
        file.write_text(block.body, encoding="utf-8")
        assert Pipeline.from_file(file).name == data["name"]
        return
    if "acme_log" in data.get("source", {}) or block.page.startswith("examples/"):
        request.getfixturevalue("third_party_plugins")
    base = {key: value for key, value in BASE.items() if not (key == "sinks" and "sink" in data)}
    assert Pipeline.from_dict({**base, **data}).name == "docs"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Provide Secrets Manager and Parameter Store with moto."""
    import boto3
    import moto

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "example")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    with moto.mock_aws():
        client = boto3.client("secretsmanager", region_name="eu-west-1")
        client.create_secret(Name="prod/headrace", SecretString='{"salt": "pepper-and-salt-of-16"}')
        store = boto3.client("ssm", region_name="eu-west-1")
        store.put_parameter(Name="/prod/headrace/external-id", Value="secret", Type="SecureString")
        yield


@pytest.fixture
def third_party_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the source of docs/plugins.md and the plugins under examples/ as if they were installed."""
    from headrace.config import loader as build
    from headrace.registry.plugin_registry import PluginRegistry

    plugins = PluginRegistry.from_entry_points()
    examples = [path for path in (ROOT / "examples").iterdir() if (path / "setup.cfg").exists()]
    for folder in (ROOT / "tests/packaging/headrace_acme", *examples):
        monkeypatch.syspath_prepend(folder)
        name = folder.name.replace("-", "_")
        plugins.register(import_module(name), f"{name} 1.0")
    monkeypatch.setattr(build, "registry", lambda: plugins)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "python"], ids=str)
def test_python_blocks_compile(block: Block) -> None:
    compile(block.body, str(block), "exec")


@pytest.mark.parametrize("block", [b for b in BLOCKS if any("title=examples/" in mark for mark in b.marks)], ids=str)
def test_code_of_an_example_is_in_its_file(block: Block) -> None:
    """Other tests run the example files. Pages show parts of functions without indentation."""
    file = ROOT / block.marks[0].removeprefix("title=")
    part, content = (
        "\n".join(line.strip() for line in text.splitlines()) for text in (block.body, file.read_text(encoding="utf-8"))
    )
    assert part in content


@pytest.fixture
def folder(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create an empty working directory for Python and for the JVM, which otherwise keeps its initial one."""
    jvm: Any = spark._jvm
    files = jvm.org.apache.hadoop.fs.FileSystem.get(spark._jsparkSession.sessionState().newHadoopConf())
    before = files.getWorkingDirectory()
    monkeypatch.chdir(tmp_path)
    files.setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(str(tmp_path)))
    yield tmp_path
    files.setWorkingDirectory(before)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("page", nightly_after(1, RUNNABLE))
def test_python_blocks_run(page: str, folder: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of a page in order, in a folder with the README's pipeline file and some events."""
    monkeypatch.setenv("SALT", "pepper")
    for name in ("KAFKA_PASSWORD", "REGISTRY_PASSWORD"):
        monkeypatch.setenv(name, "secret")
    bronze = Bronze(folder / "bronze")
    columns = {"artist_id": "int", "name": "string", "nationality": "string"}
    artists = bronze.topic("moma.public.artists", key="artist_id", columns=columns)
    artists.snapshot({"artist_id": 1, "name": "Arp", "nationality": "German"})
    artists.snapshot({"artist_id": 2, "name": "Höch", "nationality": "German"})
    bronze.flush()
    file = next(b for b in BLOCKS if b.page == "README.md" and b.language == "yaml")
    (folder / "pipeline.yaml").write_text(file.body, encoding="utf-8")
    names: dict[str, Any] = {"spark": spark, "__name__": "docs"}
    for block in BLOCKS:
        if block.page == page and "run" in block.marks:
            source = "\n" * block.line + block.body
            exec(compile(source, str(ROOT / page), "exec", flags=0, dont_inherit=True), names)


@pytest.mark.parametrize("text", COMMANDS)
def test_commands_and_their_options_exist(text: str) -> None:
    words = [word for word in shlex.split(text, comments=True) if word not in ("|", ">", "&&")]
    words = words[words.index("headrace") + 1 :]
    if ">" in text:
        words = words[:-1]
    with click.Context(cli) as context:
        command = cli.get_command(context, words[0])
        assert command is not None, f"there is no command {words[0]!r}"
        arguments = ["pipeline.yaml" if word == "FILE" else word for word in words[1:]]
        command.make_context(words[0], arguments, parent=context)


def test_commands_in_sentences_exist() -> None:
    with click.Context(cli) as context:
        known = set(cli.list_commands(context))
    for page in PAGES:
        for words in re.findall(r"`headrace (\w[^`\n]*)`", page.read_text(encoding="utf-8")):
            name = words.split()[0]
            assert name in known, f"{page.name}: headrace {words}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_link_targets_exist(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        linked_page = (page.parent / name).resolve() if name else page
        assert linked_page.exists(), target
        if anchor:
            assert anchor in _anchors(linked_page), target


def test_every_page_is_in_the_index() -> None:
    """Decisions have a separate index page."""
    docs = ROOT / "docs"
    unlisted = []
    for page in PAGES:
        if not page.is_relative_to(docs) or page == docs / "index.md":
            continue
        is_decision = page.parent.name == "decisions" and page.name != "README.md"
        index = page.parent / "README.md" if is_decision else docs / "index.md"
        if f"({page.relative_to(index.parent)})" not in index.read_text(encoding="utf-8"):
            unlisted.append(page)
    assert unlisted == []


def test_each_decision_has_a_number_of_its_own() -> None:
    files = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    numbers = [file.name[:4] for file in files]
    assert len(numbers) == len(set(numbers))
    for file in files:
        assert file.read_text(encoding="utf-8").startswith(f"# {file.name[:4]}: "), file.name


def test_batch_lifecycle_names_existing_code() -> None:
    page = (ROOT / "docs/batch-lifecycle.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:engine|upsert)/[\w/]+\.py)`(?:, `(?:\w+\.)?(\w+)`)?", page)
    assert len(named) > 10
    for file, name in named:
        code = (ROOT / "core/headrace" / file).read_text(encoding="utf-8")
        assert f"def {name}(" in code or not name, f"{file}: {name}"


def test_generated_option_tables_are_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs/generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_readme_has_the_make_commands() -> None:
    readme, makefile = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "Makefile"))
    for target in ("demo", "live", "test"):
        assert re.search(rf"^make {target}\b", readme, re.MULTILINE)
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_readme_and_changelog_name_plugins_and_commands() -> None:
    from headrace.registry.plugin_registry import registry

    readme, changes = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CHANGELOG.md"))
    builtins = [r for r in registry().registrations() if r.distribution.startswith("headrace ")]
    for plugin in builtins:
        if plugin.kind in ("transform", "sink", "source"):
            assert plugin.name.lower() in readme.lower(), plugin.name
    with click.Context(cli) as context:
        for name in cli.list_commands(context):
            if any(r.kind == "command" and r.name == name for r in builtins) or name in cli.commands:
                assert f"`{name}`" in changes, name


def test_progress_example_has_the_current_format() -> None:
    from headrace.progress.model import BatchProgress

    (block,) = [b for b in BLOCKS if b.page == "docs/checkpoint.md" and b.language == "json"]
    assert json.loads(BatchProgress.from_json(block.body).json()) == json.loads(block.body)


def test_reasons_of_dead_letters_are_documented() -> None:
    from headrace.sdk.reject_reason import RejectReason

    page = (ROOT / "docs/dead-letters.md").read_text(encoding="utf-8")
    assert [reason for reason in RejectReason if f"| `{reason}` | {reason.meaning} |" not in page] == []


def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub generates for the headings of a page."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
