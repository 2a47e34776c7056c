"""Regular expressions that a long text can drive into an overflow of the stack."""

from __future__ import annotations

import pytest

from headrace.spark.regular_expressions import find_repetition


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(a|b)*",
            "(?:a|b)+c",
            "(a|b){2,}",
            "(a|b)*?",
            "((a|b)*c)*+",
            "(?=(a|b)*)",
            "(?<q>a)+",
            "(?x)( a ) *",
            "([)])*",
        ),
        *(r"\R+", r"a\X*b", r"(\R{0,100}){0,100}"),
        *("(a){201}", "((a|b){0,20}c?){0,20}", "(a){0,150}(b){0,150}", r"\Q(\E(a)*", r"\\(a)*", "(a[b(]c)*"),
    ],
)
def test_group_that_may_overflow_the_stack(pattern: str) -> None:
    assert find_repetition(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "[ab]*",
            ".*",
            "(a|b)?",
            "(a|b)*+",
            r"(\d{1,3}\.){3}\d+",
            "(a)(b)(c)",
            "(a+)",
            r"\(a\)*",
            "[()]*",
            r"\Q(a)*\E",
        ),
        *(r"\R", r"\X{0,100}", r"\R++", r"[\r\n]+"),
        *("(?i)ab+", "((a|b){0,10}c?){0,10}", "", "(", ")", "[a", r"[\]()]*"),
    ],
)
def test_pattern_that_cannot(pattern: str) -> None:
    assert find_repetition(pattern) is None
