"""Checks, their results, and what happens when a check itself fails or never ends."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from headrace.doctor import finding_kinds as kinds
from headrace.errors import ConfigError, DataError, HeadraceError, LoginError, PluginError, RetriableError
from headrace.findings import Finding, FindingKind, Severity
from headrace.time_limit import run_within

#: Pipeline file in commands of fixes.
_FILE = re.compile(r"\bFILE\b")
#: Seconds of a check. The longest wait for a server is half of it.
LIMIT = 60.0


@dataclass(frozen=True)
class Passed:
    """Result of a check that is as it should be."""

    what: str
    found: str

    def redact(self, clean: Callable[[str], str]) -> Self:
        """Return the result with ``clean`` applied to its texts."""
        return replace(self, what=clean(self.what), found=clean(self.found))


@dataclass(frozen=True)
class Skipped:
    """Check that was not made, and why."""

    what: str
    why: str

    def redact(self, clean: Callable[[str], str]) -> Self:
        """Return the check with ``clean`` applied to its texts."""
        return replace(self, what=clean(self.what), why=clean(self.why))


Result = Finding | Passed | Skipped


@dataclass(frozen=True)
class Check:
    """Check of one thing. ``rejected``: kind of finding for a ConfigError of ``run``; ``limit``: its seconds; None: it has none, and runs in this thread."""

    what: str
    run: Callable[[], Iterable[Result]]
    rejected: FindingKind = kinds.CONNECTION_REJECTED
    limit: float | None = field(default_factory=lambda: LIMIT)

    def results(self) -> list[Result]:
        """Run the check, and return its results. An error and a time-out are findings that follow the results before them."""
        found: list[Result] = []

        def collect() -> None:
            try:
                for result in self.run():
                    found.append(result)  # noqa: PERF402 - an error and a time-out keep the results before them
            except Exception as error:  # noqa: BLE001 - the other checks run as well
                found.append(explain(error, self.what, self.rejected))

        if self.limit is None:
            collect()
            return found
        try:
            run_within(self.limit, collect, what="", fix="")
        except RetriableError:
            what = f"the check of {self.what} did not end within {self.limit:g} seconds"
            fix = "check that the servers of the pipeline answer, and the network between them and this machine"
            return [*found, Finding(kinds.CHECK_TIMED_OUT, what, self.what, fix)]
        return found or [Passed(self.what, "ok")]


@dataclass
class Report:
    """Results of all checks of a pipeline file."""

    file: str
    results: list[Result] = field(default_factory=list)
    #: Called with each check before it is made.
    step: Callable[[str], None] = field(default=lambda what: None, compare=False)

    @property
    def findings(self) -> list[Finding]:
        """The findings by severity, each once: several plugins may use one server."""
        found = dict.fromkeys(result for result in self.results if isinstance(result, Finding))
        return sorted(found, key=lambda finding: list(Severity).index(finding.severity))

    @property
    def passed(self) -> list[Passed]:
        return list(dict.fromkeys(result for result in self.results if isinstance(result, Passed)))

    @property
    def skipped(self) -> list[Skipped]:
        return [result for result in self.results if isinstance(result, Skipped)]

    @property
    def has_errors(self) -> bool:
        """Whether there is a finding that is an error."""
        return bool(self.of(Severity.ERROR))

    def of(self, severity: Severity) -> list[Finding]:
        """Return the findings of a severity."""
        return [finding for finding in self.findings if finding.severity == severity]

    def make(self, what: str, checks: Iterable[Check]) -> None:
        """Make checks and add their results. An error of a plugin that is asked for its checks is a finding, too."""
        try:
            for check in checks:
                self.step(f"checking: {check.what}")
                self.results += check.results()
        except Exception as error:  # noqa: BLE001 - the other checks run as well
            self.results.append(explain(error, what, kinds.CHECK_FAILED))

    def name_file(self) -> None:
        """Put the name of the file into the commands of all fixes."""
        self.results = [_name_file(one, self.file) if isinstance(one, Finding) else one for one in self.results]

    def redact(self, clean: Callable[[str], str]) -> Report:
        """Return the report with ``clean`` applied to its texts."""
        return Report(self.file, [result.redact(clean) for result in self.results])


def explain(error: BaseException, where: str, rejected: FindingKind) -> Finding:
    """Return the finding for the error of a check. ``rejected``: kind of finding for a ConfigError."""
    if not isinstance(error, HeadraceError):
        what = f"{type(error).__name__}: {_first_line(str(error))}"
        return Finding(
            kinds.CHECK_FAILED, what, where, "report it, with the archive of `headrace doctor FILE --bundle PATH`"
        )
    by_class: Sequence[tuple[type[HeadraceError], FindingKind]] = (
        (LoginError, kinds.LOGIN_REJECTED),
        (ConfigError, rejected),
        (RetriableError, kinds.SERVER_UNREACHABLE),
        (PluginError, kinds.PLUGIN_BROKEN),
        (DataError, kinds.DATA_INVALID),
    )
    kind = next((kind for error_class, kind in by_class if isinstance(error, error_class)), kinds.CHECK_FAILED)
    return Finding(kind, error.what, error.where or where, error.fix)


def _name_file(finding: Finding, file: str) -> Finding:
    return finding if finding.fix is None else replace(finding, fix=_FILE.sub(lambda _: shlex.quote(file), finding.fix))


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0] or "no message"
