"""Precision and recall of ``headrace scan``, on the labelled columns of tests/data/pii.

    python benchmarks/scan.py

A column counts as found only with the right kind.
"""

import json
from collections import Counter
from pathlib import Path

from headrace_transforms.scan.findings import find_personal_data
from headrace_transforms.scan.samples import Sample

COLUMNS = Path(__file__).parents[1] / "tests/data/pii/columns.jsonl"


def count_results(min_confidence: float = 0.5) -> Counter[tuple[str, str]]:
    """Return (label, kind that was found) → number of columns. An empty string is no personal data."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in COLUMNS.read_text(encoding="utf-8").splitlines():
        column = json.loads(line)
        values = [value for value in column["values"] if value]
        found = find_personal_data([Sample((column["name"],), values)], min_confidence)
        counts[column["label"], found[0].detector.kind if found else ""] += 1
    return counts


def compute_figures(counts: Counter[tuple[str, str]], kind: str | None = None) -> tuple[float, float]:
    """Return precision and recall, of one kind or of all."""
    kinds = {kind} if kind else {name for pair in counts for name in pair if name}
    right = sum(count for (label, found), count in counts.items() if label == found and label in kinds)
    reported = sum(count for (_, found), count in counts.items() if found in kinds)
    labelled = sum(count for (label, _), count in counts.items() if label in kinds)
    return right / reported if reported else 0.0, right / labelled if labelled else 0.0


if __name__ == "__main__":
    results = count_results()
    print(f"{'kind':12} precision recall columns")
    for kind in [None, *sorted({label for label, _ in results if label})]:
        precision, recall = compute_figures(results, kind)
        total = sum(count for (label, _), count in results.items() if (label == kind if kind else True))
        print(f"{kind or 'all':12} {precision:9.2f} {recall:6.2f} {total:7}")
