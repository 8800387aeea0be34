"""Where two logs of different noise win at different radii, does the answer say both, and what one cannot reach?"""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from audits.certification import AUDIT
from audits.core.context import Claim, Draft
from audits.core.wording import size_words, span
from audits.statistics.binomial import lower_limit
from tests.planted.test_log_comparison import SIGMA, Floats, N, audited, ids, log, rows_of
from tests.support.headlines import faults

Rows = list[tuple[int, int, int, float]]


def without(rows: Rows, every: int) -> Rows:
    """Return rows of which one in so many abstains."""
    return [(i, label, -1, 0.0) if i % every == 0 else (i, label, p, r) for i, label, p, r in rows]


def differing(draft: Draft) -> Claim:
    return next(claim for claim in draft.findings if claim.id == "certify.logs-differ")


def both(tops: Floats, tmp_path: Path, *, every: int, **options: object) -> Draft:
    """Compare A at sigma 0.25, which reaches 0.615 at the most, with B at 0.5, of which one in so many abstains."""
    high = 0.9 + tops / 10.01
    a = log(tmp_path / "a.tsv", rows_of(high, np.random.default_rng(2), 0.25))
    b = log(tmp_path / "b.tsv", without(rows_of(high, np.random.default_rng(3)), every))
    given = {"radii": ("0.25", "0.3", "1"), "log_sigma": ("A=0.25", "B=0.5"), **options}
    return audited(f"A={a}", f"B={b}", **given)


@pytest.fixture
def tops() -> Floats:
    return np.random.default_rng(1).uniform(0.55, 0.999, 300)


def test_a_sign_that_changes_is_told_both_ways_with_radius_and_interval(tops: Floats, tmp_path: Path) -> None:
    draft = both(tops, tmp_path, every=3)
    worse, better = (
        draft.row("certified_accuracy_difference", log="B", against="A", radius=radius) for radius in (0.25, 1.0)
    )
    assert worse.high is not None and worse.high < 0 and better.low is not None and better.low > 0
    answer, claim = draft.answer, differing(draft)
    assert answer is not None and answer.title == claim.headline and faults(draft) == []
    assert claim.evidence[0] == worse and better in claim.evidence
    may = next(line for line in answer.may if "that of A" in line)
    for words in (f"{size_words(worse)} at radius 0.25", f"{span(better)} at radius 1"):
        assert words in may
    assert "lower" in may and "higher" in may and "which A cannot reach" in may
    for words in (f"{span(worse)} at radius 0.25", f"{span(better)} at 1, beyond A."):
        assert words in claim.headline
    tiles = {draft.estimates[number.row].where["radius"] for number in answer.numbers if " less " in number.words}
    assert tiles == {0.25, 1.0}
    assert any("A cannot reach" in number.words for number in answer.numbers)


def test_a_radius_that_one_log_cannot_reach_leads_only_alone(tops: Floats, tmp_path: Path) -> None:
    draft = both(tops, tmp_path, every=1000, radii=("0.5", "1"))
    claim = differing(draft)
    # By far the smaller p-value is that at radius 1, where A is 0 by construction.
    assert claim.evidence[0].where["radius"] == 0.5 and "at radius 0.5" in claim.headline
    assert "at radius 1, which A cannot reach" in claim.statement and "The sign is not the same" not in claim.statement
    alone = differing(both(tops, tmp_path, every=1000, radii=("1",)))
    assert alone.evidence[0].name == "average_certified_radius_difference"
    assert "at radius 1, which A cannot reach" in alone.statement and "logs-differ" in ids(draft)


def test_each_log_keeps_the_safeguards_of_a_log_alone(tops: Floats, tmp_path: Path) -> None:
    draft = both(tops, tmp_path, every=3)
    assert draft.answer is not None
    may, may_not = ("\n".join(lines) for lines in (draft.answer.may, draft.answer.may_not))
    for name, sigma in (("A", 0.25), ("B", 0.5)):
        at = draft.row("certified_accuracy", log=name, radius=0.25)
        assert (
            f"By the log {name}, the smoothed classifier has certified accuracy {span(at)} at radius 0.25 (l2)" in may
        )
        assert (
            f"As named for {name}: sigma {sigma:g} (l2), n = 1,000. Each certificate is false with probability" in may
        )
        assert f"That all certificates of {name} hold: at least one is false with probability up to 0." in may_not
        own = {warning.id for warning in draft.warnings if warning.where == {"log": name}}
        assert {"sigma-unit", "false-certificates", "printed-radii"} <= own
        claim = next(one for one in draft.findings if one.id == "certify.accuracy" and one.where["log"] == name)
        assert claim.headline.startswith(f"{name}: by the log, certified accuracy is")
        assert f"sigma {sigma:g}" in claim.statement and "false with probability 0.001 at most" in claim.how_sure
    assert "That the network alone is robust" in may_not
    assert [one.where for one in draft.warnings if one.id == "smoothed-classifier"] == [{}]
    assert [one.where for one in draft.warnings if one.id == "beyond-ceiling"] == [{"log": "A"}]


def test_a_log_that_does_not_fit_its_settings_is_not_cited(tops: Floats, tmp_path: Path) -> None:
    # The sigma of the first is taken for B, too.
    draft = both(tops, tmp_path, every=3, sigma=0.25, log_sigma=(), alpha=0.0005)
    assert draft.answer is not None and ids(draft)[0] == "other-settings"
    assert draft.answer.title.startswith("B: Sigma or n is not the log's")
    assert "--log-sigma B=S" in draft.answer.next_step and "A=S" not in draft.answer.next_step
    assert any(one.id == "certify.implied-alpha" and one.where == {"log": "A"} for one in draft.findings)
    cited = [line for line in draft.answer.may if "certified accuracy" in line]
    assert len(cited) == 1 and cited[0].startswith("By the log A, ")
    assert {draft.estimates[number.row].where.get("log") for number in draft.answer.numbers} == {"A"}
    assert any(line.startswith("Any certified accuracy of B, or a difference") for line in draft.answer.may_not)


def test_an_alpha_that_is_not_the_logs_lets_no_certificate_be_cited(tops: Floats, tmp_path: Path) -> None:
    high = 0.6 + tops / 4
    first, second = (log(tmp_path / f"{seed}.tsv", rows_of(high, np.random.default_rng(seed), 0.25)) for seed in (2, 3))
    draft = audited(f"A={first}", f"B={second}", log_sigma=("A=0.25",), radii=("0.1",))
    assert "unreachable-radii" in ids(draft) and draft.answer is not None
    (cited,) = [line for line in draft.answer.may if "certified accuracy" in line]
    assert cited.startswith("By the log A, ")
    assert not any("the log B," in line or "that of A" in line for line in draft.answer.may)
    assert "--log-sigma B=S" in draft.answer.next_step


def test_the_number_and_the_step_on_top_are_those_of_an_alpha_that_is_too_small(tops: Floats, tmp_path: Path) -> None:
    draft = both(tops, tmp_path, every=3, alpha=0.0005)
    assert draft.answer is not None
    assert re.fullmatch(
        r"[AB]: The log's largest radius needs an alpha of at least [\d.]+; it was read with 0\.0005; 0\.001 fits\.",
        draft.answer.title,
    )
    first = draft.answer.numbers[0]
    assert draft.estimates[first.row].name == "implied_alpha"
    assert first.words == f"least alpha that the largest radius needs of {draft.answer.title[0]}"
    draft.advise(AUDIT.steps)
    # What fits the one fits the other too.
    assert draft.answer.next_step.startswith("Run it again with the alpha that the log was made with (--alpha;")
    assert faults(draft) == []


def test_an_alpha_that_is_not_that_of_all_logs_is_to_be_named_for_its_log_alone(tops: Floats, tmp_path: Path) -> None:
    high = 0.9 + tops / 10.01
    first = log(tmp_path / "first.tsv", rows_of(high, np.random.default_rng(2)))
    votes = N - np.arange(25)
    larger = SIGMA * norm.ppf(lower_limit(votes, N, 0.01))
    second = log(tmp_path / "second.tsv", [(i, i % 3, i % 3, float(radius)) for i, radius in enumerate(larger)])
    draft = audited(f"first={first}", f"second={second}")
    assert draft.answer is not None and draft.answer.title.startswith("second: The log's largest radius needs")
    draft.advise(AUDIT.steps) if not draft.answer.next_step else None
    assert draft.answer.next_step == (
        "Audit second alone with the alpha that it was made with (--alpha; its finding says which fit), and cite its "
        "certificates with that alpha only."
    )
