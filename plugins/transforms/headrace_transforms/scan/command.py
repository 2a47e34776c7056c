"""``headrace scan``."""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path

import click

from headrace_transforms.scan.findings import find_personal_data, show_name, write_block
from headrace_transforms.scan.samples import read_rows, sample_columns


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="Rows to read of each file.")
@click.option(
    "--min-confidence",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Confidence of a column to report.",
)
def scan(files: tuple[Path, ...], *, limit: int, min_confidence: float) -> None:
    """Report columns that look like personal data, without their values.

    FILES are JSON lines, CSV, Parquet or Avro files of one table: rows, or Debezium's change events.
    """
    samples = sample_columns(chain.from_iterable(islice(read_rows(path), limit) for path in files))
    findings = find_personal_data(samples, min_confidence)
    if not findings:
        click.echo(f"none of {len(samples)} columns looks like personal data")
        return
    names = [show_name(finding.name) for finding in findings]
    for name, finding in zip(names, findings, strict=True):
        counts = f"{finding.matched:,} of {finding.values:,} values"
        click.echo(f"{name:{max(map(len, names))}}  {finding.detector.kind:11}  {finding.confidence:4.0%}  {counts}")
    click.echo(f"\n{write_block(findings)}")
