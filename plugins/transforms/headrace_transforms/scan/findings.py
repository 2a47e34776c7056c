"""Columns that look like personal data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from headrace_transforms.scan.detectors import DETECTORS, HASH_RULE, Detector, split_words
from headrace_transforms.scan.samples import Sample

_NULLIFY = "{nullify: true}"
#: Words that YAML reads as null or as a boolean.
_YAML_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
#: Characters that a glob of tags cannot have: backquotes, blanks around names, and dots beside dots.
_NOT_IN_GLOBS = re.compile(r"`|^/|(?<![^.])[\s.]|[\s.](?![^.])")
#: Factor of the chance of a match in a column whose name also fits.
_NAMED = 0.1
#: Share of the values from which on others that resemble them also match.
_RESEMBLANCE = 0.2


@dataclass(frozen=True)
class Finding:
    """Column that looks like personal data. It holds no value."""

    name: str
    #: Column of the table that has the values.
    column: str
    #: Rule of ``mask`` for the column.
    rule: str
    detector: Detector
    confidence: float
    #: Number of values that match, and of all values.
    matched: int
    values: int


def find_personal_data(samples: Iterable[Sample], min_confidence: float) -> list[Finding]:
    """Return the columns that look like personal data, each as its most probable kind."""
    found = (max((_judge(sample, d) for d in DETECTORS), key=lambda f: f.confidence) for sample in samples)
    return [finding for finding in found if finding.confidence >= min_confidence]


def _judge(sample: Sample, detector: Detector) -> Finding:
    """Return the confidence: the share of values that match, times the probability that they do not match by chance."""
    values = sample.values
    is_named = detector.words.search(split_words(sample.name)) is not None
    matches = detector.matches_named if is_named and detector.matches_named else detector.matches
    # Repeated values are one observation.
    distinct = {value: matches(value) for value in set(values)}
    if detector.resembles and sum(distinct.values()) >= _RESEMBLANCE * len(distinct):
        distinct = {value: is_match or detector.resembles(value) for value, is_match in distinct.items()}
    matched, hits = sum(distinct[value] for value in values), sum(distinct.values())
    chance = (detector.chance * (_NAMED if is_named else 1)) ** hits if hits else 1
    confidence = matched / max(1, len(values)) * (1 - chance)
    rule = _find_rule(sample, detector)
    return Finding(sample.name, sample.path[0], rule, detector, confidence, matched, len(values))


def _find_rule(sample: Sample, detector: Detector) -> str:
    """Return a rule that takes the type of the column. Lists and structs are masked as a whole."""
    if sample.has_list or len(sample.path) > 1:
        return _NULLIFY
    return HASH_RULE if sample.has_other_type else detector.rule


def write_block(findings: Iterable[Finding]) -> str:
    """Return the part of a pipeline file that tags and masks the columns. A field of a struct is masked with its whole column."""
    rules: dict[str, str] = {}
    for finding in findings:
        rules[finding.column] = finding.rule if finding.column not in rules else _NULLIFY
    lines = [
        "tags:",
        f"  pii: [{', '.join(_quote(_write_glob(column)) for column in rules)}]",
        "transforms:",
        "  - unwrap: {}",
        "  - mask:",
        "      columns:",
    ]
    return "\n".join([*lines, *(f"        {_quote(column)}: {rule}" for column, rule in rules.items())])


def show_name(name: str) -> str:
    """Return a name without characters that would control the terminal."""
    return name if name.isprintable() else json.dumps(name)


def _quote(name: str) -> str:
    """Return a name in YAML."""
    is_plain = name.isidentifier() and name.lower() not in _YAML_WORDS
    return name if is_plain else json.dumps(name, ensure_ascii=not name.isprintable())


def _write_glob(column: str) -> str:
    """Return the glob of a column."""
    return _NOT_IN_GLOBS.sub("?", re.sub(r"[*?[]", r"[\g<0>]", column))
