"""Which settings do the printed radii of a log fit, and does every sentence about it say the same?"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from headlines import faults
from scipy.stats import norm

from audits.certification import AUDIT, Options
from audits.certification.estimates import estimates
from audits.certification.findings import findings
from audits.certification.inputs import Inputs
from audits.certification.logs import read_log
from audits.certification.measure import Counts
from audits.certification.rules import rule_of
from audits.core.context import Claim, Draft
from audits.core.numbers import interval
from audits.core.records import Estimate
from audits.core.testing import drafted
from audits.statistics.binomial import lower_limit

N = 100_000
HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime"
# Votes short of all: 3.56, 3.54, 3.52 and 3.49 with alpha 0.01 and sigma 1, and many that are too small to tell.
NEAR = (9, 10, 11, 13)
FAR = tuple(range(400, 49_000, 140))


def radius(missing: int, alpha: float, n: int = N) -> float:
    return float(norm.ppf(lower_limit(n - missing, n, alpha)))


def down(number: float) -> str:
    places = 2 if number >= 1 else 3
    return f"{np.floor(number * 10**places) / 10**places:.{places}f}"


def nearest(number: float) -> str:
    return f"{number:.3}"


def log_of(folder: Path, radii: Sequence[str]) -> Path:
    rows = [f"{index}\t{index % 3}\t{index % 3}\t{text}\t1\t15.0" for index, text in enumerate(radii)]
    path = folder / "log.tsv"
    path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="ascii")
    return path


def audited(path: Path, sigma: float = 1.0, n: int = N, **named: object) -> Draft:
    return drafted(AUDIT, {"from_log": (str(path),), "sigma": sigma, "n": n, **named})


def finding(draft: Draft, id: str) -> Claim:
    return next(row for row in draft.findings if row.id == f"certify.{id}")


def text(draft: Draft, id: str) -> str:
    """Return all that a finding says."""
    claim = finding(draft, id)
    return f"{claim.headline} {claim.statement} {claim.how_sure}"


def ids(draft: Draft) -> set[str]:
    return {row.id.removeprefix("certify.") for row in draft.findings}


def shares(draft: Draft) -> dict[tuple[object, object], Estimate]:
    rows = (row for row in draft.estimates if row.name == "reachable_share")
    return {(row.where["alpha"], row.where["rounding"]): row for row in rows}


def next_step(draft: Draft) -> str:
    """Return what can be done, as the run adds it where the audit itself sets none."""
    if draft.answer is not None and not draft.answer.next_step:
        draft.advise(AUDIT.steps)
    return draft.answer.next_step if draft.answer is not None else ""


def number(draft: Draft, name: str) -> float | None:
    row = draft.get(name)
    return None if row is None else row.value


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A log made with alpha 0.01 and printed to nearest, whose few telling radii fit 0.001 too if they were cut off."""
    log = log_of(tmp_path, [nearest(radius(missing, 0.01)) for missing in (*NEAR, *FAR)])
    assert [line.split("\t")[3] for line in log.read_text().splitlines()[1:5]] == ["3.56", "3.54", "3.52", "3.49"]
    return log


def test_an_alpha_that_fits_only_radii_cut_off_is_no_clean_bill(published: Path) -> None:
    draft = audited(published, alpha=0.001)
    doubt = finding(draft, "doubtful-alpha")
    assert doubt.severity == "medium" and "consistent-log" not in ids(draft)
    assert "is in doubt" in doubt.headline
    assert "fit alpha = 0.001 only if they were cut off when printed." in doubt.statement
    assert "The radii fit alpha 0.005 and 0.01 if rounded to nearest." in doubt.statement
    assert doubt.how_sure.endswith("4 radii for alpha 0.001, 4 radii for alpha 0.005 and 4 radii for alpha 0.01.")
    found = shares(draft)
    assert found[0.001, "down"].value == found[0.01, "nearest"].value == 1.0
    assert found[0.001, "nearest"].value < 1 and found[0.01, "down"].value < 1
    # In doubt, the weakest certificate that fits is the one that is told.
    assert "false with probability 0.01 at most" in finding(draft, "accuracy").how_sure


def test_the_alpha_of_the_log_is_told_with_the_others_that_fit(published: Path) -> None:
    draft = audited(published, alpha=0.01)
    claim = finding(draft, "consistent-log")
    told = claim.statement
    assert claim.headline == "All 4 radii that can tell fit the settings named; other alphas fit as well."
    assert told.startswith("Named were n = 100,000 and alpha = 0.01; the radii fit as rounded to nearest when printed.")
    assert re.search(r"also fit alpha (0\.\d+ and )?0\.\d+ if rounded to nearest; 0\.001 if cut off\. Which", told)
    assert told.endswith("the log does not tell.")


def test_an_alpha_that_fits_alone_is_told_alone(tmp_path: Path) -> None:
    path = log_of(tmp_path, [nearest(radius(missing, 0.01)) for missing in range(25)])
    draft = audited(path, alpha=0.01)
    assert finding(draft, "consistent-log").statement.endswith("; the radii fit as rounded to nearest when printed.")
    assert number(draft, "implied_alpha") == 0.01
    assert {row.severity for row in draft.findings} == {"info"}


def test_radii_that_were_cut_off_are_believed_where_nothing_else_fits(tmp_path: Path) -> None:
    path = log_of(tmp_path, [down(radius(missing, 0.001)) for missing in range(25)])
    draft = audited(path, alpha=0.001)
    assert finding(draft, "consistent-log").statement.endswith("; the radii fit as cut off when printed.")


@pytest.mark.parametrize("alpha", [0.1, 0.05, 0.01, 0.005, 0.001, 0.0001])
def test_every_alpha_in_common_use_is_tried(tmp_path: Path, alpha: float) -> None:
    path = log_of(tmp_path, [nearest(radius(missing, alpha)) for missing in range(25)])
    draft = audited(path, alpha=0.02)
    claim = next(row for row in draft.findings if row.severity == "high")
    told = claim.statement
    if claim.id == "certify.unreachable-radii":
        # The headline counts them, and its first row is what it counted.
        share = claim.evidence[0]
        assert share.where["alpha"] == 0.02
        assert claim.headline.startswith(f"{round((1 - share.value) * share.n)} of {share.n} radii cannot come from")
    assert f"fit alpha {alpha:g} if rounded to nearest." in told
    assert re.search(rf"Tested were \d+ radii for alpha 0\.02 and \d+ radii for alpha {alpha:g}\.", claim.how_sure)
    assert f"false with probability {alpha:g} at most" in finding(draft, "accuracy").how_sure
    assert number(draft, "false_certificate_bound") == pytest.approx(1 - (1 - alpha) ** 25)


def test_no_later_sentence_carries_an_alpha_that_the_radii_exclude(tmp_path: Path) -> None:
    # No alpha in common use, so that nothing but the largest radius speaks.
    path = log_of(tmp_path, [nearest(radius(missing, 0.02)) for missing in range(25)])
    draft = audited(path, alpha=0.001)
    claim = finding(draft, "implied-alpha")
    told, implied = claim.statement, draft.row("implied_alpha")
    assert implied in claim.evidence
    least = re.search(r"an alpha of at least ([\d.]+)\. The log's radii fit no alpha in common use\.", told)
    assert least is not None and 0.015 < float(least[1]) <= 0.02
    assert claim.headline == (
        f"The log's largest radius needs an alpha of at least {least[1]}; it was read with 0.001, the default."
    )
    assert next_step(draft) == (
        "Name the sigma (--sigma), n and alpha that the log was made with; cite none of its certificates before its "
        "radii fit."
    )
    accuracy = text(draft, "accuracy")
    assert f"Each certificate has an error probability of {least[1]} or more." in accuracy
    assert "0.001" not in accuracy
    # Without an error probability no certified accuracy may be reported.
    assert draft.answer is not None and "certified accuracy" not in " ".join(draft.answer.may)
    assert any("certified accuracy" in line for line in draft.answer.may_not)
    # What is not known has no number, and says why.
    assert number(draft, "false_certificate_bound") is None
    assert "alpha-unknown" in {row.id for row in draft.warnings}


@pytest.mark.parametrize(("sigma", "n"), [(0.24, 1000), (0.25, 900)])
def test_where_no_alpha_in_use_fits_the_next_step_asks_for_sigma_and_n(tmp_path: Path, sigma: float, n: int) -> None:
    path = log_of(tmp_path, [nearest(0.25 * radius(missing, 0.001, 1000)) for missing in range(25)])
    draft = audited(path, sigma=sigma, n=n)
    assert "The log's radii fit no alpha in common use." in finding(draft, "implied-alpha").statement
    assert next_step(draft).startswith("Name the sigma (--sigma), n and alpha") and faults(draft) == []
    # With votes that are not checked the alpha is as little known.
    assert next_step(audited(path, sigma=sigma, n=n, interval="auto")) == next_step(draft)


def test_where_an_alpha_in_use_fits_the_next_step_is_to_name_it(tmp_path: Path) -> None:
    path = log_of(tmp_path, [nearest(radius(missing, 0.001)) for missing in range(25)])
    draft = audited(path, alpha=0.0001)
    assert next_step(draft).startswith("Run it again with the alpha that the log was made with (--alpha;")
    assert finding(draft, "implied-alpha").headline == (
        "The log's largest radius needs an alpha of at least 0.00083; it was read with 0.0001; 0.001 fits."
    )
    assert faults(draft) == []


@pytest.mark.parametrize(
    ("alpha", "headline", "least"),
    [
        (0.000999, "needs an alpha of at least 0.00099998; it was read with 0.000999; 0.001 fits.", "0.00099998"),
        (0.0009999, "needs an alpha of at least 0.00099998; it was read with 0.0009999; 0.001 fits.", "0.00099998"),
        # The range of the evidence has too few digits to tell these apart.
        (0.00099998, "needs a larger alpha than 0.00099998, with which it was read; 0.001 fits.", "0.000999988"),
    ],
)
def test_the_least_alpha_has_digits_enough_to_be_more_than_the_one_named(
    tmp_path: Path, alpha: float, headline: str, least: str
) -> None:
    path = log_of(tmp_path, [f"{0.25 * radius(missing, 0.001, 1000):.6f}" for missing in range(25)])
    draft = audited(path, sigma=0.25, n=1000, alpha=alpha)
    claim = finding(draft, "implied-alpha")
    assert claim.headline == f"The log's largest radius {headline}"
    assert f"alpha = {alpha:g}: even unanimous votes need an alpha of at least {least}." in claim.statement
    assert faults(draft) == [] and interval(claim.evidence[0]).startswith("0.00099998 to ")


def test_an_alpha_that_nobody_uses_is_written_as_another_than_those_in_use(tmp_path: Path) -> None:
    path = log_of(tmp_path, [f"{0.25 * radius(missing, 0.1004, 1000):.6f}" for missing in range(25)])
    told = finding(audited(path, sigma=0.25, n=1000), "other-settings").statement
    assert "would take an alpha of at least 0.1003, which nobody uses." in told


@pytest.mark.parametrize(("sigma", "n"), [(0.5, N), (1.0, 1000)])
def test_another_sigma_or_n_is_asked_for_and_the_log_not_accused(published: Path, sigma: float, n: int) -> None:
    draft = audited(published, sigma=sigma, n=n, alpha=0.001)
    asked = finding(draft, "other-settings")
    assert asked.severity == "high" and asked.evidence
    assert "with which sigma, and with how many draws, was it made?" in asked.statement
    assert not ids(draft) & {"implied-alpha", "unreachable-radii", "consistent-log"}
    assert "weaker" not in text(draft, "other-settings")
    told = text(draft, "accuracy")
    assert (
        f"sigma {sigma:g}" not in told and "With which error probability a certificate is false, is not known" in told
    )
    assert draft.answer is not None and f"sigma {sigma:g}" not in str(draft.answer)
    assert number(draft, "false_certificate_bound") is None


def test_a_radius_far_from_the_ceiling_implies_no_alpha(published: Path) -> None:
    draft = audited(published, alpha=0.01)
    assert number(draft, "implied_alpha") is None
    assert "no-implied-alpha" in {row.id for row in draft.warnings}


def test_an_implied_alpha_rests_on_one_radius_and_its_range_on_no_level(tmp_path: Path) -> None:
    from audits.core.numbers import described

    draft = audited(log_of(tmp_path, [nearest(radius(missing, 0.01)) for missing in range(25)]), alpha=0.01)
    row = draft.row("implied_alpha")
    assert (row.n, row.unit) == (1, "radius") and row.low is not None and row.low <= 0.01
    assert re.fullmatch(r"0\.0100 \(0\.00\d+ to 0\.01\d+\), 1 radius", described(row))


def test_a_log_that_cannot_tell_gets_no_praise(tmp_path: Path) -> None:
    path = log_of(tmp_path, [nearest(radius(missing, 0.01)) for missing in FAR])
    told = finding(audited(path, alpha=0.001), "consistent-log").statement
    assert told.startswith("Nothing in the log contradicts") and "but nothing could" in told


def test_every_radius_that_was_asked_for_is_answered(published: Path) -> None:
    draft = audited(published, alpha=0.01, radii=("0", "0.5", "1.5", "3.5", "3.7"))
    told = finding(draft, "accuracy")
    for asked in ("0", "1.5", "3.5"):
        assert re.search(rf"[01]\.\d+ \([^)]+\) at radius {re.escape(asked)}(,| and )", told.statement), asked
    assert re.search(r"0\.0+ \(0\.0+ to 0\.0\d+\) at radius 3\.7\.", told.statement) and len(told.evidence) == 5
    # The headline is of the first positive one.
    assert re.search(r"certified accuracy is [01]\.\d+ \([^)]+\) at radius 0\.5\.$", told.headline)
    assert told.evidence[0].where["radius"] == 0.5
    # Of a grid only the radii worth a sentence.
    assert len(finding(audited(published, alpha=0.01), "accuracy").evidence) == 1


# Groups.


def grouped(path: Path, **levels: Sequence[str]) -> Draft:
    """Return what is found over the groups of a log's images."""
    rows = read_log(path).verdicts
    rule = rule_of(Options(sigma=1.0, alpha=0.01, radii=("1",)), images=len(rows))
    attributes = {name: tuple(values) for name, values in levels.items()}
    counts, draft = Counts(inputs=Inputs(rule=rule, given=len(rows), attributes=attributes), verdicts=rows), Draft()
    estimates(draft, counts)
    findings(draft, counts)
    return draft


def test_every_column_of_groups_is_told_of_whether_or_not_its_groups_differ(tmp_path: Path) -> None:
    far, near = nearest(radius(400, 0.01)), nearest(radius(40_000, 0.01))
    path = log_of(tmp_path, [far if index % 2 else near for index in range(100)])
    draft = grouped(
        path,
        parity=[str(index % 2) for index in range(100)],
        half=["first" if index < 50 else "second" for index in range(100)],
        one=[str(index) for index in range(100)],
    )
    uneven, even = finding(draft, "uneven"), finding(draft, "even")
    assert uneven.severity == "medium"
    assert uneven.headline.startswith("Certified accuracy is lower on 0 than on 1 images (parity): it is 0.")
    worst, best = uneven.evidence
    assert (worst.where["group"], best.where["group"]) == ("parity=0", "parity=1") and worst.value < best.value
    assert uneven.statement.startswith("The highest is 1.0") and "on 1 images (parity)." in uneven.statement
    assert uneven.statement.endswith("Images: 50 and 50.") and "=" not in uneven.statement
    # The other columns are families of their own, and none of their groups stands in the sentence.
    assert "all 2 groups of parity at once" in uneven.how_sure and "half" not in text(draft, "uneven")
    assert even.severity == "info" and "parity" not in text(draft, "even")
    assert re.fullmatch(
        r"No difference in certified accuracy is shown by half: 0\.50 \(0\.\d+ to 0\.\d+\) at the lowest\.",
        even.headline,
    )
    assert re.search(r"By half: 0\.50 \([^()]*\) \(first\) to 0\.50 \([^()]*\) \(second\)\.", even.statement)
    assert draft.answer is not None and draft.answer.title == uneven.headline
    assert [line for line in draft.answer.may_not if "alike by half" in line]
    assert even.statement.endswith("Of one nothing can be told: fewer than two groups have 5 images.")
    assert {row.where["group"] for row in even.evidence} == {"half=first", "half=second"}


def test_without_columns_nothing_is_said_of_groups(published: Path) -> None:
    assert "even" not in ids(audited(published, alpha=0.01))


@pytest.mark.parametrize(("n", "missing"), [(100_000, tuple(range(26))), (2000, (4,)), (500, (51,)), (1000, (0, 2, 9))])
@pytest.mark.parametrize("sigma", [0.12, 0.25, 1.0])
def test_an_honest_log_is_not_accused_for_a_rounding_that_cannot_tell(
    tmp_path: Path, sigma: float, n: int, missing: tuple[int, ...]
) -> None:
    radii = [f"{sigma * radius(count, 0.001, n):.2f}" for count in missing]
    told = audited(log_of(tmp_path, radii), sigma=sigma, n=n, alpha=0.001)
    assert ids(told).isdisjoint({"unreachable-radii", "doubtful-alpha", "implied-alpha", "other-settings"}), radii
    assert all(row.severity == "info" for row in told.findings)
