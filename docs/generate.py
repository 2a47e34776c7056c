"""Generator of docs/options.md, docs/capabilities.md, docs/contracts/, llms.txt and tables of README.md, docs/readers.md and docs/doctor.md.

::

    python docs/generate.py            # write the pages
    python docs/generate.py --check    # fail if a page is outdated
"""  # noqa: INP001 - a script

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from contracts import CONTRACTS, contract_page
from findings import finding_table
from index_pages import llms_page
from readers import TABLES, reader_table

from headrace.config.capabilities import CAPABILITIES, CONNECT
from headrace.config.command_blocks import list_block_commands
from headrace.config.maintenance_options import Maintenance
from headrace.config.model import PipelineConfig, TableRule
from headrace.config.option_docs import list_inner_models, list_options
from headrace.config.view_rule import ViewRule
from headrace.registry.plugin_registry import registry
from headrace.runtime.session.spark_support import list_lines
from headrace.sdk.config import Config
from headrace.sdk.plugin import Plugin

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
BEGIN, END = "<!-- made by docs/generate.py -->", "<!-- end -->"
KINDS = {
    "source": "Sources",
    "format": "Formats",
    "transform": "Transforms",
    "dialect": "Dialects",
    "sink": "Sinks",
    "auth": "Auth providers",
    "catalog": "Catalogs",
    "observer": "Observers",
}
HEAD = """\
# Options reference

`python docs/generate.py` generates this page from the models that validate pipeline files; edit the models instead.
`headrace schema` prints the options as JSON Schema, including those of all plugins installed on your machine.

An unknown key is rejected with its line number, unless it matches a pattern under *Passed on*. Such a key is passed on
unchanged; see the documentation of Spark, Hudi, Iceberg or Delta. Every value may be a reference such as `${env:NAME}`.
"""

CAPABILITIES_HEAD = """\
# Plugin capabilities

`python docs/generate.py` generates this page from the capabilities that plugins declare, which the
[conformance kits](plugins.md#6-tests) test, and from the methods that they implement. `headrace plugins` lists the
capabilities of all plugins installed on your machine, and `headrace plugins NAME` shows the options of a plugin.
"""


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page and its content."""
    yield DOCS / "options.md", options_page()
    yield DOCS / "capabilities.md", capability_page()
    yield README, fill_table(README, capability_table("sink"))
    yield DOCS.parent / "llms.txt", llms_page()
    yield DOCS / "doctor.md", fill_table(DOCS / "doctor.md", finding_table())
    yield DOCS / "readers.md", readers_page()
    for kind in CONTRACTS:
        yield DOCS / "contracts" / f"{kind}.md", contract_page(kind)


def options_page() -> str:
    """Return the options reference."""
    parts = [HEAD, "## Pipeline file", *_table(PipelineConfig), "## Rules under `tables:`", *_table(TableRule)]
    parts += ["## Views under `views:`", *_table(ViewRule), "## Maintenance", *_table(Maintenance)]
    for kind, title in KINDS.items():
        parts.append(f"## {title}")
        for name, plugin in _own(kind):
            parts += [f"### {kind} `{name}`", *_block(plugin.Config)]
    parts.append("## Blocks of commands")
    for name, command in list_block_commands().items():
        if registry().find("command", str(command.name)).is_own:
            parts += [f"### `{name}`", *_block(command.model)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _own(kind: str) -> Iterator[tuple[str, type[Plugin]]]:
    """Yield the plugins of this distribution by name, so that other installed plugins do not change the page."""
    for item in registry().registrations():
        if item.kind == kind and item.distribution.split(" ")[0] == "headrace":
            yield item.name, registry().get(kind, item.name)


def _block(model: type[Config]) -> list[str]:
    said = inspect.cleandoc(model.__doc__ or "") if model is not Config else ""
    parts = [said.replace("``", "`")] if said else []
    if model.model_fields:
        parts += _table(model)
    elif not model.passthrough:
        parts.append("It has no options.")
    if model.passthrough:
        parts.append("Passed on: " + ", ".join(f"`{pattern}`" for pattern in model.passthrough) + ".")
    for inner in list_inner_models(model):
        parts += [f"#### {inner.__name__}", inspect.cleandoc(inner.__doc__ or "").replace("``", "`"), *_table(inner)]
    return parts


def _table(model: type[Config]) -> list[str]:
    rows = ["| key | type | default | |", "|---|---|---|---|"]
    for option in list_options(model):
        cells = [f"`{option.key}`", option.kind, option.default, option.text.replace("``", "`")]
        rows.append(_row(cells))
    return ["\n".join(rows)]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def capability_page() -> str:
    """Return the page of capabilities: a table for each kind of plugin, and the meaning of its columns."""
    parts = [CAPABILITIES_HEAD]
    for kind, capabilities in CAPABILITIES.items():
        meanings = [f"- {capability.name}: {capability.meaning}" for capability in capabilities]
        parts += [f"## {KINDS.get(kind, 'Connectors')}", capability_table(kind), "\n".join(meanings)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def capability_table(kind: str) -> str:
    """Return a table with the plugins of a kind and their capabilities."""
    capabilities = [*CAPABILITIES[kind], CONNECT]
    plugins = list(_own(kind))
    capabilities = [one for one in capabilities if any(one.has(plugin) for _, plugin in plugins)]
    rows = [_row([kind, *(capability.name for capability in capabilities), "Spark"])]
    rows.append("|---" * (len(capabilities) + 2) + "|")
    for name, plugin in plugins:
        marks = ["✓" if capability.has(plugin) else "" for capability in capabilities]
        rows.append(_row([f"`{name}`", *marks, ", ".join(list_lines(plugin))]))
    return "\n".join(rows)


def fill_table(page: Path, table: str) -> str:
    """Return a page with the table between its marks."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}\n{table}\n{end}{after}"


def readers_page() -> str:
    """Return docs/readers.md with its tables between their marks."""
    text = (DOCS / "readers.md").read_text(encoding="utf-8")
    for name in TABLES:
        before, begin, rest = text.partition(f"<!-- made by docs/generate.py: {name} -->")
        _, end, after = rest.partition(END)
        text = f"{before}{begin}\n{reader_table(name)}\n{end}{after}"
    return text


def main(arguments: list[str]) -> int:
    """Write the pages, or report outdated pages."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: python docs/generate.py [--check]\n")
        return 2
    old = [(file, text) for file, text in pages() if not file.is_file() or file.read_text(encoding="utf-8") != text]
    for file, text in old:
        if arguments == ["--check"]:
            sys.stderr.write(f"{file.name} is outdated: run `python docs/generate.py`\n")
        else:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    return int(bool(old) and arguments == ["--check"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
