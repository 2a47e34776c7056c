"""``headrace schema``."""

from __future__ import annotations

import json

import click


@click.command()
def schema() -> None:
    """Print the JSON Schema of pipeline files.

    It includes the options of all installed plugins. Editors use it to complete and check YAML.
    """
    from headrace.config.json_schema import pipeline_schema
    from headrace.registry.plugin_registry import registry

    click.echo(json.dumps(pipeline_schema(registry()), indent=2, ensure_ascii=False))
