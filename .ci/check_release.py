"""Check of a release: the tag is the version, the changelog is complete, and the upgrade test of later versions has its state.

::

    python .ci/check_release.py v0.1.0
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def read_version(root: Path) -> str:
    """Return the version in the package's source, which this script does not import."""
    text = (root / "core/headrace/__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if match is None:
        raise SystemExit("core/headrace/__init__.py has no literal __version__.")
    return match[1]


def find_problems(root: Path, tag: str) -> Iterator[str]:
    """Yield what prevents the release, one sentence per problem."""
    version = read_version(root)
    if tag != f"v{version}":
        yield f"The tag is {tag}, but the version is {version}: the tag must be v{version}."
    sections = re.findall(r"^## \[(.+?)\] - (.*)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if not sections or sections[0][0] != version or not re.fullmatch(r"\d{4}-\d\d-\d\d", sections[0][1]):
        yield f"The first section of CHANGELOG.md is not `## [{version}] - YYYY-MM-DD`."
    if len({name for name, _ in sections}) < len(sections):
        yield "CHANGELOG.md has two sections of one version."
    if fragments := sorted(path.name for path in (root / "changelog.d").glob("*.*.md")):
        yield f"changelog.d/ still has fragments: {', '.join(fragments)}. Run `tox run -e changelog -- --yes`."
    if not (root / f"tests/data/releases/{version}.tar.xz").is_file():
        yield f"The upgrade test has no state of {version}. Run `python -m tests.support.release_state`."


def main(tag: str) -> int:
    """Print every problem and return the exit code: 1 if there is one."""
    problems = list(find_problems(ROOT, tag))
    for problem in problems:
        print(problem)
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
