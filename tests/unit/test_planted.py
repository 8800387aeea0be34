"""Does every demo say what it planted, and read off the report, and not off a script, whether it was found?"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audits.core import registry
from audits.core.context import Cache, Context
from audits.core.planted import Planted, findings_of, rows
from audits.core.planted import row as row_of
from audits.core.records import Coordinate, Estimate, Finding, Report
from audits.lipschitz import demo as lipschitz_demo
from audits.report.pages.terminal import tell_planted

AUDITS = tuple(entry.name for entry in registry.AUDITS)


def planted_of(name: str) -> Callable[..., Any]:
    step = registry.find(name).step("demo", "planted")
    assert step is not None
    return step


def estimate(name: str, value: float, low: float, high: float, **where: Coordinate) -> Estimate:
    return Estimate(name=name, value=value, low=low, high=high, method="bootstrap", n=30, unit="speakers", where=where)


def found(id: str, *evidence: int, **where: Coordinate) -> Finding:
    return Finding(id=id, severity="high", statement="", headline=f"{id} is shown.", where=where, evidence=evidence)


def verdicts(name: str, report: Report, *, balanced: bool = False) -> list[bool]:
    return [plant.as_planted for plant in planted_of(name)(report, balanced=balanced)]


@pytest.fixture
def empty(sample_report: Report) -> Report:
    return replace(sample_report, estimates=(), findings=(), gates=())


@pytest.mark.parametrize("name", AUDITS)
def test_every_demo_names_its_plants_and_finds_none_in_an_empty_report(name: str, empty: Report) -> None:
    plants = list(planted_of(name)(empty, balanced=False))
    assert plants and any(plant.real for plant in plants)
    assert not any(plant.found for plant in plants)
    assert all(plant.what.endswith(".") and plant.seen for plant in plants if plant.real is False)


@pytest.mark.parametrize("name", AUDITS)
def test_every_balanced_demo_says_what_it_holds(name: str, empty: Report) -> None:
    assert [plant.what for plant in planted_of(name)(empty, balanced=True)] != [
        plant.what for plant in planted_of(name)(empty, balanced=False)
    ]


GAP = {"by": "accent", "group": "accent=scottish", "metric": "wer", "task": "asr"}
COIN = {**GAP, "by": "coin", "group": "coin=heads"}
OTHER = {**GAP, "group": "accent=british"}


@pytest.mark.parametrize(
    ("findings", "balanced", "right"),
    [
        ([found("fairness.gap", **GAP)], False, [True, True]),
        ([found("fairness.gap", **OTHER)], False, [False, True]),
        ([found("fairness.gap", **GAP), found("fairness.gap", **COIN)], False, [True, False]),
        ([], True, [True, True]),
        ([found("fairness.gap", **OTHER)], True, [False, True]),
    ],
)
def test_speech_encoder(empty: Report, findings: list[Finding], balanced: bool, right: list[bool]) -> None:
    assert verdicts("audit-fairness", replace(empty, findings=tuple(findings)), balanced=balanced) == right


def test_what_was_seen_is_the_headline_of_the_finding(empty: Report) -> None:
    report = replace(empty, findings=(found("fairness.gap", **GAP),))
    first, _ = planted_of("audit-fairness")(report, balanced=False)
    assert first.seen == "fairness.gap is shown."


def test_speaker_groups(empty: Report) -> None:
    systems = ("amber", "birch", "cedar")
    gaps = [found("groups.gap", by="age", group="age=old", system=one) for one in systems]
    ratio = estimate("intersection_ratio", 1.9, 1.4, 2.7, system="amber", by="age&gender",
                     group="age=middle&gender=female")  # fmt: skip
    crossing = found("groups.confirmed", 0, system="amber")
    spurious = found("groups.spurious", by="accent", system="birch")
    whole = replace(empty, estimates=(ratio,), findings=(*gaps, spurious, crossing))
    assert verdicts("audit-groups", whole) == [True, True, True]
    assert verdicts("audit-groups", replace(whole, findings=whole.findings[1:])) == [False, True, True]
    assert verdicts("audit-groups", replace(whole, findings=tuple(gaps))) == [True, False, False]
    weak = replace(ratio, low=0.9)
    assert verdicts("audit-groups", replace(whole, estimates=(weak,))) == [True, True, False]
    assert verdicts("audit-groups", whole, balanced=True) == [False]


def test_phonemes(empty: Report) -> None:
    shown = found("phonemes.both", group="accent=scottish")
    tossed = found("phonemes.random", group="coin=heads")
    assert verdicts("audit-phonemes", replace(empty, findings=(shown,))) == [True, True]
    assert verdicts("audit-phonemes", replace(empty, findings=(tossed,))) == [False, False]
    # Noise alone is no sign of another place.
    noisy = found("phonemes.random", group="accent=scottish")
    assert verdicts("audit-phonemes", replace(empty, findings=(noisy,))) == [False, True]
    assert verdicts("audit-phonemes", replace(empty, findings=(noisy,)), balanced=True) == [False, True]


def test_certificates(empty: Report) -> None:
    def report(low: float, noisy: float) -> Report:
        rows = (
            estimate("certified_accuracy", 0.6, low, 0.7, radius=0.25),
            estimate("clean_accuracy", 0.9, 0.8, 0.95),
            estimate("noisy_accuracy", noisy, noisy - 0.1, noisy + 0.1),
        )
        return replace(empty, estimates=rows)

    assert verdicts("certify", report(0.55, 0.85)) == [True]
    assert verdicts("certify", report(0.45, 0.85)) == [False]
    assert verdicts("certify", report(0.55, 0.5), balanced=True) == [True]
    assert verdicts("certify", report(0.55, 0.89), balanced=True) == [False]


def test_interference(empty: Report) -> None:
    def report(helped: float, hurt: float) -> Report:
        cells = [("al1", "al2", helped), ("al2", "al1", helped), ("al1", "bl", hurt), ("bl", "bc", hurt)]
        made = [estimate("interference", v, v - 0.1, v + 0.1, target=a, source=b) for a, b, v in cells]
        return replace(empty, estimates=tuple(made))

    assert verdicts("interference", report(-0.5, 0.5)) == [True, True]
    assert verdicts("interference", report(-0.05, 0.05)) == [False, False]
    shown = found("interference.synergy", target="al1", source="bl")
    assert verdicts("interference", replace(empty, findings=(shown,)), balanced=True) == [False]


def test_membership(empty: Report) -> None:
    leak = found("membership.leak", model="ddpm", access="full")
    broken = found("membership.verdict", model="gan-dp", verdict="violation")
    kept = found("membership.verdict", model="gan-dp", verdict="consistent")
    assert verdicts("membership", replace(empty, findings=(leak, kept))) == [True, False, True]
    assert verdicts("membership", replace(empty, findings=(leak, broken)))[-1] is False
    assert verdicts("membership", replace(empty, findings=(leak, kept)), balanced=True) == [False, True]


def test_texts(empty: Report) -> None:
    table = tuple(
        estimate("difference", -0.5, -0.6, -0.4, candidate=name, metric=metric)
        for name, metric in (("T=0.3", "recall"), ("T=1.6", "precision"))
    )
    low, high = (found("texts.below-ceiling", at, candidate=name) for at, name in enumerate(("T=0.3", "T=1.6")))
    assert verdicts("precision-recall", replace(empty, estimates=table, findings=(low, high))) == [True, True]
    # Falling short in another score is not what was planted.
    swapped = (replace(low, evidence=(1,)), replace(high, evidence=(0,)))
    assert verdicts("precision-recall", replace(empty, estimates=table, findings=swapped)) == [False, False]
    assert verdicts("precision-recall", replace(empty, findings=(low,)), balanced=True) == [False]


def test_operators(empty: Report) -> None:
    loses = tuple(found("spectra.verdict", resolution=at, verdict="upsample") for at in (61, 121))
    shares = tuple(
        estimate("mismatch_share", value, value - 0.1, value + 0.1, resolution=121, part=part)
        for part, value in (("coordinates", 0.7), ("input", 0.2), ("nonlinear", 0.1))
    )
    assert verdicts("spectra", replace(empty, findings=loses, estimates=shares)) == [True, True]
    unclear = (replace(shares[0], low=0.25), *shares[1:])
    assert verdicts("spectra", replace(empty, findings=loses[:1], estimates=unclear)) == [False, False]
    assert verdicts("spectra", replace(empty, findings=loses[1:]), balanced=True) == [True]
    assert verdicts("spectra", replace(empty, findings=loses), balanced=True) == [False]


def test_rows_and_findings_are_found_by_their_coordinates(empty: Report) -> None:
    table = (estimate("rate", 0.2, 0.1, 0.3, group="a", layer=1), estimate("rate", 0.4, 0.3, 0.5, group="a"))
    report = replace(empty, estimates=table, findings=(found("x.gap", group="a", layer=1),))
    assert rows(report, "rate", group="a") == list(table)
    assert row_of(report, "rate", group="a") == table[1] and row_of(report, "rate") is None
    assert findings_of(report, "x.gap", layer=1) and not findings_of(report, "x.gap", layer=2)


def test_what_was_planted_fits_into_eighty_columns_and_cannot_steer_the_terminal() -> None:
    import io

    from rich.console import Console

    plants = (
        Planted(what="A plant of \x1b[2Jmany words " * 8, found=True, seen="It was seen. " * 9),
        Planted(what="A coin.", found=False, seen="Nothing.", real=False),
        Planted(what="A third.", found=False, seen="Not here."),
        Planted(what="A fourth.", found=True, seen="There.", real=False),
    )
    out = io.StringIO()
    Console(file=out, width=80).print(tell_planted(plants))
    text = out.getvalue()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    for mark, words in (
        ("✓ Planted  A plant", "Found    Yes. It was seen."),
        ("✓ Planted  A coin", "Nothing, as it should be."),
        ("✗ Planted  A third", "Found    No. Not here."),
        ("✗ Planted  A fourth", "Something that is not there."),
    ):
        assert mark in text and words in text


@pytest.mark.parametrize("seed", range(3))
def test_the_constant_of_the_lipschitz_demo_is_met_and_without_the_plant_it_is_not(tmp_path: Path, seed: int) -> None:
    from audits.core.testing import drafted
    from audits.lipschitz import AUDIT

    context = Context(seed=seed, cache=Cache(tmp_path))
    for balanced in (False, True):
        options = lipschitz_demo.prepare(context, balanced=balanced)
        assert lipschitz_demo.prepare(context, balanced=balanced) == options
        draft = drafted(AUDIT, options, context)
        bound, slope = draft.row("product_bound").value, draft.row("constant_lower").value
        assert bound == pytest.approx(lipschitz_demo.CONSTANT, rel=1e-6) and bound >= slope
        assert (slope == pytest.approx(lipschitz_demo.CONSTANT, rel=1e-6)) is not balanced
