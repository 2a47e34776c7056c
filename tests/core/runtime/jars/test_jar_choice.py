"""Choice of jars by the running version of Spark."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import given, strategies as st

from headrace.errors import ConfigError
from headrace.runtime.jars.jar_choice import choose_key, find_nearest, list_coordinates, parse_version
from headrace.sdk.plugin import Plugin

PATCHES = ["3.5.5", "3.5.7", "3.5.9", "4.0.0", "4.0.2", "4.1.1"]
LINES = ["3.5", "4.0", "4.1"]


class Lake(Plugin):
    """Plugin with one jar for all patches of a line."""

    name = "lake"
    jars: ClassVar = {line: (f"org.lake:lake-{line}:1",) for line in LINES}


class Stream(Plugin):
    """Plugin whose jar is released with Spark."""

    name = "stream"
    jars: ClassVar = {patch: (f"org.spark:stream:{patch}",) for patch in PATCHES}


@pytest.mark.parametrize(
    ("version", "line", "shown"),
    [
        ("3.5.7", "3.5", "3.5.7"),
        ("3.5.4-amzn-0", "3.5", "3.5.4"),
        ("4.0.2-emr-7.9", "4.0", "4.0.2"),
        ("3.3.2.3.3.7190.0-91", "3.3", "3.3.2"),
        ("4.2.0.dev3", "4.2", "4.2.0"),
        ("4.1-preview1", "4.1", "4.1"),
        ("3.5", "3.5", "3.5"),
        ("10.12.0", "10.12", "10.12.0"),
    ],
)
def test_versions_of_vendors_are_parsed(version: str, line: str, shown: str) -> None:
    parsed = parse_version(version)
    assert (parsed.line, str(parsed)) == (line, shown)


@pytest.mark.parametrize("version", ["", "unknown", "4", "v3.5.7", "latest-3.5"])
def test_other_texts_are_rejected(version: str) -> None:
    with pytest.raises(ConfigError, match=r"version that is not one of Spark: .*\n.*fix: pip install"):
        parse_version(version)


@pytest.mark.parametrize(
    ("version", "key"),
    [
        ("3.5.7", "3.5.7"),
        ("3.5.6", "3.5.5"),  # a newer patch may use classes that this Spark lacks
        ("3.5.8-amzn-0", "3.5.7"),
        ("3.5.12", "3.5.9"),
        ("3.5.2", "3.5.5"),  # there is no older one
        ("3.5", "3.5.9"),
        ("4.0.1", "4.0.0"),
        ("4.1.0", "4.1.1"),
        ("4.3.0", "4.1.1"),  # newer than all
        ("3.4.4", None),
        ("5.0.0", None),
    ],
)
def test_nearest_patch_is_chosen(version: str, key: str | None) -> None:
    assert choose_key(PATCHES, version) == key


def test_line_applies_to_its_patches_only() -> None:
    assert [choose_key(LINES, version) for version in ("3.5.1", "4.1.9", "4.1", "3.4.0", "4.2.0")] == [
        "3.5", "4.1", "4.1", None, None,
    ]  # fmt: skip
    assert choose_key(["3.5", "3.5.9"], "3.5.9") == "3.5.9"
    assert choose_key(["3.5", "3.5.9"], "3.5.8") == "3.5"
    # A line between two others has no jars; the plugin knows newer ones.
    assert choose_key(["4.0.0", "4.2"], "4.1.3") is None


@given(
    st.sets(st.tuples(st.sampled_from([3, 4]), st.integers(0, 3), st.integers(0, 12)), min_size=1),
    st.tuples(st.sampled_from([3, 4]), st.integers(0, 3), st.integers(0, 12)),
)
def test_choice_is_never_of_another_major_version_nor_needlessly_newer(
    keys: set[tuple[int, int, int]], running: tuple[int, int, int]
) -> None:
    chosen = choose_key([".".join(map(str, key)) for key in keys], ".".join(map(str, running)))
    of_line = [key for key in keys if key[:2] == running[:2]]
    if chosen is None:
        assert not of_line
        return
    found = tuple(map(int, chosen.split(".")))
    assert found[0] == running[0]
    assert found == running if running in keys else True
    if found > running:
        assert found == min(of_line)
        assert found[:2] == running[:2]


def test_plugins_have_their_own_choice() -> None:
    assert list_coordinates([Lake(), Stream(), Stream()], "3.5.8") == ["org.lake:lake-3.5:1", "org.spark:stream:3.5.7"]
    assert find_nearest([Lake(), Stream(), Stream()], "3.5.8") == {"3.5.7": ["stream"]}
    assert find_nearest([Lake(), Stream()], "3.5.9") == {}
