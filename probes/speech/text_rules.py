"""Rules of a user that rewrite texts before they are compared: regular expressions, applied one after the other.

A pattern is a stranger's program: `(a+)+b` runs for hours on thirty letters. Patterns are compiled and applied in a
child with limits of time and memory, and the rule that takes too much is named.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from probes.contained.client import Session, call
from probes.contained.limits import MIB, ContainedError, LimitError, Limits
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.files.tables import Table, read_table

MOST_RULES = 10_000
SECONDS = 5.0
"""Seconds of computing that a rule may take, and a second more for each `LETTERS` of the texts."""
LETTERS = 2_000_000
MEMORY = 1024 * MIB
_HINT = "Its columns are pattern, replacement: a regular expression and what takes its place."
_LIMITED = {
    "time": (
        "takes too long",
        "Write it without a repetition inside a repetition: (a+)+ can take forever where a+ does the same at once.",
    ),
    "memory": ("makes the texts too large", "Let it put less text in the place of what it finds."),
}
"""Message and hint for a rule that exceeds a limit, by what it exceeds."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A regular expression of Python's `re`, what takes the place of each match, and the line of both."""

    pattern: str
    replacement: str
    line: int


@dataclass(frozen=True)
class Rules:
    """The rules of a file, in its order."""

    path: Path
    rules: tuple[Rule, ...]

    @cached_property
    def sha256(self) -> str:
        """Hash of the rules: a CSV and a JSONL file with the same rules are one."""
        return sha256_json([[rule.pattern, rule.replacement] for rule in self.rules])

    def apply(self, texts: Sequence[str]) -> list[str]:
        """Return the texts after all rules.

        Raises
        ------
        InputError
            Where a rule takes too much time or memory.
        """
        if not texts:
            return []
        rule = self.rules[0]
        limits = Limits(memory=MEMORY, seconds=SECONDS + sum(map(len, texts)) / LETTERS)
        try:
            session = Session(Rewriting, list(texts), limits=limits)
            try:
                for rule in self.rules:
                    session.ask("apply", rule.pattern, rule.replacement)
                found: list[str] = session.ask("result")
            finally:
                session.close()
        except ContainedError as error:
            raise self._refusal(rule, error) from None
        return found

    def check(self) -> None:
        """Compile every rule.

        Raises
        ------
        InputError
            Where a pattern or a replacement cannot be read.
        """
        try:
            wrong = call(first_wrong, [[rule.pattern, rule.replacement] for rule in self.rules])
        except ContainedError as error:
            raise self._refusal(self.rules[0], error) from None
        if wrong is not None:
            number, message = wrong
            rule = self.rules[number]
            raise InputError(
                f"The rule '{rule.pattern[:60]}' cannot be read: {message}.",
                where=f"{self.path}:{rule.line}",
                hint="Write regular expressions of Python's re: \\. is a full stop, and \\1 the first group.",
            )

    def _refusal(self, rule: Rule, error: ContainedError) -> InputError:
        kind = error.what if isinstance(error, LimitError) else ""
        what, hint = _LIMITED.get(kind, (f"cannot be applied ({error.text})", "Leave it out, or write it more simply."))
        where = f"{self.path}:{rule.line}"
        return InputError(f"The rule '{rule.pattern[:60]}' {what}.", where=where, hint=hint)


class Rewriting:
    """Texts in a child, which rules are applied to."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def apply(self, pattern: str, replacement: str) -> None:
        """Apply a rule to every text."""
        compiled = re.compile(pattern)
        self._texts = [compiled.sub(replacement, text) for text in self._texts]

    def result(self) -> list[str]:
        """Return the texts."""
        return list(self._texts)


def first_wrong(rules: Sequence[Sequence[str]]) -> tuple[int, str] | None:
    """Return the number of the first rule that cannot be read, and why; None where there is none.

    >>> first_wrong([["a", "b"], ["(", ""]])
    (1, 'missing ), unterminated subpattern at position 0')
    """
    for number, (pattern, replacement) in enumerate(rules):
        try:
            # The replacement is read when it is used first.
            re.compile(pattern).sub(replacement, "")
        # A ValueError is that of a number of more digits than Python reads.
        except (re.error, IndexError, OverflowError, RecursionError, ValueError) as error:
            return number, str(error)[:200]
    return None


def read_rules(path: Path) -> Rules:
    """Read rules from a table with the columns pattern and replacement: CSV, TSV or JSONL.

    Raises
    ------
    InputError
        Where the file is no such table, or a rule cannot be read.
    """
    table = read_table(path, most_rows=MOST_RULES)
    _check_columns(table)
    rules = []
    for row in table.rows:
        pattern = row.values.get("pattern") or ""
        if not pattern:
            raise InputError("The rule has no pattern.", where=f"{path}:{row.line}", hint=_HINT)
        rules.append(Rule(pattern, row.values.get("replacement") or "", row.line))
    found = Rules(path, tuple(rules))
    found.check()
    return found


def _check_columns(table: Table) -> None:
    wanted = ("pattern", "replacement")
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise InputError(
            f"The rules have no column {missing[0]!r}.",
            where=str(table.path),
            hint=f"{_HINT} {table.suggest(missing[0])}",
        )
    table.check_flat(wanted)
