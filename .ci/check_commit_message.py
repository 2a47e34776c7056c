"""Check of commit messages: Conventional Commits, a subject of at most 72 characters, no trailing period.

::

    python .ci/check_commit_message.py FILE                  # a message in a file, as Git's commit-msg hook gets it
    python .ci/check_commit_message.py --range main..HEAD    # the messages of a range of commits
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

TYPES = ("build", "chore", "ci", "docs", "feat", "fix", "perf", "refactor", "revert", "style", "test")
LONGEST_SUBJECT = 72
#: Names that may begin a description with a capital. Words with a second capital or a digit (AWS, PostgreSQL, S3) may, too.
NAMES = (
    "Athena",
    "Avro",
    "Databricks",
    "Debezium",
    "Glue",
    "Hadoop",
    "Hive",
    "Hudi",
    "Iceberg",
    "Java",
    "Kafka",
    "Kinesis",
)
NAMES += ("Oracle", "Parquet", "Python", "Snowflake", "Spark", "Trino")

_SUBJECT = re.compile(rf"(?P<type>{'|'.join(TYPES)})(?:\((?P<scope>[a-z0-9][a-z0-9-]*)\))?!?: (?P<description>\S.*)")
#: Git writes these subjects: merges, reverts and commits for `git rebase --autosquash`.
_GIT = re.compile(r'Merge |Revert "|(fixup|squash|amend)! ')
#: Git ignores everything from this line on (`git commit --verbose`).
_SCISSORS = re.compile(r"^# -+ >8 -+$.*", re.MULTILINE | re.DOTALL)


def find_problems(message: str) -> list[str]:
    """Return what is wrong with a commit message, one sentence per problem."""
    text = _SCISSORS.sub("", message)
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    while lines and not lines[0]:
        lines.pop(0)
    if not lines:
        return ["The message is empty."]
    subject = lines[0]
    if _GIT.match(subject):
        return []
    problems = list(_find_subject_problems(subject))
    if len(lines) > 1 and lines[1]:
        problems.append("The second line must be empty: it separates the subject from the body.")
    return problems


def _find_subject_problems(subject: str) -> Iterator[str]:
    if len(subject) > LONGEST_SUBJECT:
        yield f"The subject has {len(subject)} characters; at most {LONGEST_SUBJECT} are allowed."
    if subject.endswith("."):
        yield "The subject must not end with a period."
    match = _SUBJECT.fullmatch(subject)
    if match is None:
        yield f"The subject must be `type: description` or `type(scope): description`. Types: {', '.join(TYPES)}."
        return
    word = match["description"].split()[0]
    if word[0].isupper() and not re.search(r"[A-Z0-9]", word[1:]) and word not in NAMES:
        yield f"The description must begin in lower case: {word.lower()!r}."


def _read_commits(commits: str) -> Iterator[tuple[str, str]]:
    """Yield the abbreviated hash and the message of each commit in a range."""
    command = ["git", "log", "--no-merges", "--format=%h%n%B%x00", commits]
    for entry in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0"):
        name, _, message = entry.strip().partition("\n")
        if name:
            yield name, message


def main(arguments: list[str] | None = None) -> int:
    """Print every problem and return the exit code: 1 if there is one."""
    parser = argparse.ArgumentParser(description="Check commit messages.")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("file", nargs="?", type=Path, help="file with one commit message")
    given.add_argument("--range", metavar="A..B", help="range of commits")
    options = parser.parse_args(arguments)
    if options.range:
        messages = list(_read_commits(options.range))
    else:
        messages = [(str(options.file), options.file.read_text(encoding="utf-8"))]
    problems = [f"{name}: {problem}" for name, message in messages for problem in find_problems(message)]
    for problem in problems:
        print(problem)
    if problems:
        print('CONTRIBUTING.md has the rules: section "Commit messages".')
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
