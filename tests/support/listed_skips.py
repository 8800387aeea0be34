"""A gate on skips: where MILES_LISTED_SKIPS is set, a run fails on a skip whose reason is not listed here.

A skip is silent in a green run, and what nobody sees skipped is soon not tested anywhere.
"""

import os
import re
from collections.abc import Iterator

import pytest

LISTED = {
    r"torchaudio's compiled part cannot load here": "its wheel is linked to CUDA; where it loads, it is the oracle",
    r"no file system can be mounted here": "a sandbox may forbid mounts even to root",
    r"torchvision and timm are not installed": "extras, whose wheel is linked to CUDA; small stand-ins are tested with",
    r"unzip is not installed": "the other two readers of zips are compared without it",
    r"ffmpeg is not installed": "a stand-in tests how it is called; what it decodes takes ffmpeg itself",
    r"schemas of other projects are not at hand": "`.ci/schemas FOLDER` fetches them, for MILES_SCHEMAS; the rules that"
    " matter most are tested without",
    r"only root may mount a file system": "the gate may run as another user",
    r"no peer of this race is at hand": "nothing of miles needs it; its numbers have oracles of their own, and"
    " docs/benchmarks.md tells how to install it apart",
    r"MILES_EEE_SCHEMA names no schema": "its package wants a newer Python; what it asks is tested without it",
}
"""Reasons, as expressions, and why each is let pass."""

_WANTED = "MILES_LISTED_SKIPS"


class SkipGate:
    """Collects the reasons of skips over all workers, and fails the run for those that are not listed."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in a test that was skipped."""
        self._take(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take in a file that was skipped as a whole."""
        self._take(report)

    def _take(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        # An expected failure is reported as skipped too, with words in place of a reason.
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = str(report.longrepr[2]).removeprefix("Skipped: ")
            self.found[reason] = self.found.get(reason, 0) + 1

    @property
    def unlisted(self) -> list[str]:
        """Return the reasons that no expression of the list matches."""
        return [reason for reason in self.found if not any(re.search(one, reason) for one in LISTED)]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run where a skip is not listed."""
        if self.unlisted:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
        """Count the skips by reason."""
        yield
        for reason, count in sorted(self.found.items()):
            mark = "not listed in tests/support/listed_skips.py" if reason in self.unlisted else "listed"
            terminalreporter.write_line(f"{count} skipped ({mark}): {reason}")


def pytest_configure(config: pytest.Config) -> None:
    """Watch the run where it is asked for; the workers' reports all pass through the process that started them."""
    if os.environ.get(_WANTED) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipGate(), "skip-gate")
