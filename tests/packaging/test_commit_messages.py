"""The commit-msg hook, .ci/check_commit_message.py."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.dist import ROOT

SCRIPT = ROOT / ".ci/check_commit_message.py"
FindProblems = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def find_problems() -> FindProblems:
    found: FindProblems = runpy.run_path(str(SCRIPT))["find_problems"]
    return found


@pytest.mark.parametrize(
    "message",
    [
        "docs: shorten the tables page",
        "refactor(engine): split the table writer",
        "feat(s3-sink)!: write objects with one name for each topic",
        "fix: AWS credentials expire while a batch runs",
        "fix: S3 listings skip new objects",
        "build: Spark 4.0.1",
        "feat: add a sink\n\nWhy it is needed.\nAnd more.\n",
        "\n# a comment\nfix: read the last block\n# Please enter the commit message\n",
        "fix: read the last block\n# ------------------------ >8 ------------------------\ndiff --git a/a b/a\n",
        "Merge branch 'main' into front",
        'Revert "feat: add a sink"',
        "fixup! feat: add a sink",
        f"fix: {'x' * 67}",
    ],
)
def test_valid_messages_have_no_problems(find_problems: FindProblems, message: str) -> None:
    assert find_problems(message) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("", "empty"),
        ("# only a comment\n", "empty"),
        ("Shorten the tables page", "`type: description`"),
        ("improve: shorten the tables page", "`type: description`"),
        ("docs:shorten the tables page", "`type: description`"),
        ("docs: ", "`type: description`"),
        ("docs(The Tables): shorten the page", "`type: description`"),
        ("docs: shorten the tables page.", "period"),
        ("docs: Shorten the tables page", "'shorten'"),
        ("docs: shorten the page\nof tables", "second line"),
        (f"fix: {'x' * 68}", "73 characters"),
    ],
)
def test_invalid_messages_have_one_problem(find_problems: FindProblems, message: str, problem: str) -> None:
    assert len([found for found in find_problems(message) if problem in found]) == 1


def test_hook_exit_code_and_output(tmp_path: Path) -> None:
    file = tmp_path / "COMMIT_EDITMSG"
    for message, code, printed in (
        ("docs: shorten the page\n", 0, ""),
        ("Docs.\n", 1, f"{file}: The subject must not end with a period.\n"),
    ):
        file.write_text(message, encoding="utf-8")
        done = subprocess.run([sys.executable, SCRIPT, file], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert done.stdout.startswith(printed)
        assert bool(done.stdout) == bool(code)


def test_range_of_commits_is_checked(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.hooksPath=/dev/null")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--initial-branch", "main")
    for message in ("Start", "feat: add a sink", "Add one more"):
        git("commit", "--allow-empty", "--message", message)
    for commits, code in (("main~2..main~1", 0), ("main~2..main", 1)):
        done = subprocess.run(
            [sys.executable, SCRIPT, "--range", commits], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        assert ("`type: description`" in done.stdout) == bool(code)
