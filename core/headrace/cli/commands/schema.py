"""``headrace schema``."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it here, not to the screen.")
def schema(output: Path | None) -> None:
    """Print the JSON Schema of pipeline files.

    It includes the options of all installed plugins. Editors use it to complete and check YAML.
    """
    from headrace.config.json_schema import pipeline_schema
    from headrace.registry.plugin_registry import registry

    text = json.dumps(pipeline_schema(registry()), indent=2, ensure_ascii=False)
    if output is None:
        click.echo(text)
    else:
        output.write_text(f"{text}\n", encoding="utf-8")
