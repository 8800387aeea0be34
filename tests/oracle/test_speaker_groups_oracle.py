"""The audit of groups against fairlearn's rates by group and statsmodels' formula interface, on the same clips."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from counted_clips import counted

from audits.core.context import Draft
from audits.core.records import Estimate
from audits.speaker_groups import Options
from audits.speaker_groups.adjusting import add_adjusted, adjust_gaps
from audits.speaker_groups.counts import Utterances, cohort_of
from audits.speaker_groups.gaps import add_gaps, compare
from audits.speaker_groups.rates import add_rates, small_groups
from audits.statistics import generator

BY = ("accent", "age", "gender")
SYSTEMS = ("one", "two")
OPTIONS = Options(manifest=Path("manifest.csv"), by=BY, bootstrap=200, permutations=100)


@pytest.fixture(scope="module")
def clips() -> pd.DataFrame:
    """Clips of 150 speakers who differ, in mixed order; some have no word of reference."""
    rng = np.random.default_rng(4)
    speakers = 150
    labels = {
        "accent": rng.choice(["x", "y", "z"], speakers, p=[0.5, 0.3, 0.2]),
        "age": rng.choice(["young", "old"], speakers),
        "gender": rng.choice(["female", "male"], speakers),
    }
    speaker = rng.permutation(np.repeat(np.arange(speakers), rng.integers(2, 9, speakers)))
    words = rng.integers(0, 15, speaker.size)
    own = 0.2 * rng.gamma(4, 0.25, speakers) * np.where(labels["accent"] == "z", 1.5, 1.0)
    errors = {f"errors {name}": rng.poisson(words * own[speaker]) for name in SYSTEMS}
    levels = {name: values[speaker] for name, values in labels.items()}
    return pd.DataFrame({"speaker": speaker, "words": words, **errors, **levels})


@pytest.fixture(scope="module")
def data(clips: pd.DataFrame) -> Utterances:
    errors = clips[[f"errors {name}" for name in SYSTEMS]]
    rows = clips[list(BY)].to_dict("records")
    return counted(rows, errors, clips["words"], by=BY, speakers=clips["speaker"], systems=SYSTEMS)


@pytest.fixture(scope="module")
def draft(data: Utterances) -> Draft:
    draft, (words,) = Draft(), data.counts
    cohort = cohort_of(data, OPTIONS.bootstrap, generator(0, "bootstrap"))
    add_rates(draft, data, cohort, small_groups(data, cohort))
    comparisons = [compare(data, words, groups, OPTIONS, seed=0, level=0.95) for groups in data.sets]
    for comparison in comparisons:
        add_gaps(draft, data, comparison, OPTIONS)
    for adjustment in adjust_gaps(data, words, comparisons, OPTIONS, 0.95):
        add_adjusted(draft, data, words, adjustment)
    return draft


def pooled(words: pd.Series, errors: pd.Series) -> float:
    return float(errors.sum() / words.sum())


def find(draft: Draft, name: str, **where: str) -> Estimate:
    (found,) = [row for row in draft.estimates if row.name == name and where.items() <= row.where.items()]
    return found


@pytest.mark.parametrize("by", [("accent",), ("gender",), ("accent", "age"), ("age", "gender")])
@pytest.mark.parametrize("system", SYSTEMS)
def test_rates_and_gaps_of_groups_are_those_of_a_metric_frame(
    clips: pd.DataFrame, draft: Draft, by: tuple[str, ...], system: str
) -> None:
    from fairlearn.metrics import MetricFrame

    frame = MetricFrame(
        metrics=pooled, y_true=clips["words"], y_pred=clips[f"errors {system}"], sensitive_features=clips[list(by)]
    )
    assert find(draft, "rate", system=system, group="all").value == pytest.approx(float(frame.overall), rel=1e-12)
    for levels, rate in frame.by_group.items():
        names = (levels,) if isinstance(levels, str) else levels
        group = "&".join(f"{key}={level}" for key, level in zip(by, names, strict=True))
        assert find(draft, "rate", system=system, group=group).value == pytest.approx(rate, rel=1e-12), group
    where = {"system": system, "by": "&".join(by), "adjusted": "no"}
    gap = find(draft, "gap", kind="absolute", **where)
    assert gap.value == pytest.approx(float(frame.difference()), rel=1e-12)
    most_to_least = find(draft, "gap_ratio", kind="ratio", **where)
    assert most_to_least.value == pytest.approx(1 / float(frame.ratio()), rel=1e-12)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("adjusted", ["no", "yes"])
def test_ratios_of_rates_are_those_of_the_formula_interface(
    clips: pd.DataFrame, draft: Draft, system: str, adjusted: str
) -> None:
    import statsmodels.api as sm
    import statsmodels.formula.api as smf
    from scipy.stats import t

    frame = clips[clips["words"] > 0].rename(columns={f"errors {system}": "errors"})
    assert len(frame) < len(clips)
    for attribute in BY:
        row = find_first(draft, system, attribute)
        reference, level = str(row.where["reference"]), str(row.where["level"])
        others = [name for name in BY if name != attribute] if adjusted == "yes" else []
        formula = " + ".join([f"C({attribute}, Treatment('{reference}'))", *(f"C({name})" for name in others)])
        fit = smf.gee(
            f"errors ~ {formula}",
            "speaker",
            frame,
            family=sm.families.Poisson(),
            cov_struct=sm.cov_struct.Independence(),
            offset=np.log(frame["words"]),
        ).fit(cov_type="bias_reduced", ctol=1e-9)
        column = f"C({attribute}, Treatment('{reference}'))[T.{level}]"
        known, error = fit.params[column], fit.bse[column]
        found = find(
            draft, "rate_ratio", system=system, attribute=attribute, level=level, reference=reference, adjusted=adjusted
        )
        assert found.low is not None and found.high is not None
        low, value, high = np.log([found.low, found.value, found.high])
        assert value == pytest.approx(known, abs=1e-6), attribute
        assert value - low == pytest.approx(high - value, abs=1e-9)
        # A little more than by Student's t of clusters less columns, where few clusters decide.
        assert 1 - 1e-6 < (high - low) / 2 / (error * t.isf(0.025, frame["speaker"].nunique() - len(fit.params))) < 1.05


def find_first(draft: Draft, system: str, attribute: str) -> Estimate:
    """Return the first ratio of an attribute: of a level and the reference."""
    wanted = {"system": system, "attribute": attribute, "adjusted": "yes"}
    return next(row for row in draft.estimates if row.name == "rate_ratio" and wanted.items() <= row.where.items())
