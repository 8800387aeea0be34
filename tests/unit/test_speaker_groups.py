"""Does audit-groups hold what it states, where the truth is known and where the data are odd?"""

import csv
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counted_clips import counted as counted_clips
from counted_clips import inputs_of

from audits.core import runner
from audits.core.context import Cache, Context, Draft, Plan
from audits.core.groups import UNKNOWN, reported_groups
from audits.core.records import Estimate
from audits.core.wording import span
from audits.speaker_groups import AUDIT, Options
from audits.speaker_groups.counts import Utterances
from audits.speaker_groups.designs import design_of
from audits.speaker_groups.estimates import examine
from audits.speaker_groups.measure import counts_of
from audits.statistics import enough_permutations, few_resamples, out_of_reach
from probes.core.errors import InputError

WORDS = ("today", "green", "farmers", "found", "letters", "behind", "every", "narrow", "bridge", "again")
SPEAKERS, TAKES, LENGTH = 24, 4, 8
QUICK = {"bootstrap": 200, "permutations": 100, "min_speakers": 6, "max_order": 1}
FINDINGS = {
    f"groups.{name}"
    for name in (
        *("gap", "spurious", "no-gap-shown", "nothing-compared", "not-tested", "conclusion", "confirmed"),
        *("nothing-found", "system", "skipped", "columns"),
    )
}
WARNINGS = {
    *("no-speakers", "missing-as-empty", "empty-reference", "joined-words", "empty-transcript", "unused-transcripts"),
    "wordless-transcript",
    *("varies-within-speaker", "many-levels", "control-missing", "small-group", "no-words", "kinds-unknown"),
    *("no-errors", "no-interval", "too-many-groups", "small-crossings"),
    *("level-out-of-reach", "few-resamples"),
    *("constant-attribute", "too-few-speakers", "not-compared", "reference-too-small", "undefined-gap", "not-pooled"),
    *("not-adjusted", "term-left-out", "no-benefit", "no-faas", "faas-compatibility", "p-without-interval"),
    *("manifest.unknown", "manifest.replaced", "manifest.binned", "manifest.outside", "manifest.not-numeric"),
    *("manifest.no-speaker", "manifest.mapped", "manifest.map-unused", "manifest.case"),
    *("manifest.decimal-comma", "manifest.dialect", "manifest.unit", "small-levels", "rates-part"),
}
Row = dict[str, Any]
Rule = Callable[[int, int], str]


def by_accent(row: Row) -> float:
    """Return the planted error rate: south errs three times as often."""
    return 0.3 if row["accent"] == "south" else 0.1


def clips(
    rate: Callable[[Row], float] = by_accent, *, people: int = SPEAKERS, takes: int = TAKES, **rules: Rule
) -> Any:
    """Return rows of a manifest: rules of (speaker, take) give the attributes, half of the speakers each by default."""
    rng = np.random.default_rng(0)
    rules = {"gender": lambda s, _: "fm"[s % 2], "accent": lambda s, _: ("north", "south")[s // 2 % 2], **rules}
    rows = []
    for speaker in range(people):
        for take in range(takes):
            row: Row = {"path": f"s{speaker:03d}/{take}.wav", "speaker": f"s{speaker:03d}"}
            row |= {name: rule(speaker, take) for name, rule in rules.items()}
            text = rng.choice(WORDS, LENGTH).tolist()
            wrong = rng.random(LENGTH) < rate(row)
            heard = ["uh" if missed else word for word, missed in zip(text, wrong, strict=True)]
            rows.append({**row, "text": " ".join(text), "prediction": " ".join(heard), "errors": int(wrong.sum())})
    return rows


def counted(rows: list[Row]) -> list[Row]:
    """Return the same clips with counts in place of texts, which saves aligning and the characters."""
    dropped = ("text", "prediction")
    return [{**{key: value for key, value in row.items() if key not in dropped}, "words": LENGTH} for row in rows]


def written(rows: list[Row]) -> list[Row]:
    """Return the same clips with texts alone."""
    return [{key: value for key, value in row.items() if key != "errors"} for row in rows]


@dataclass(frozen=True)
class Heard:
    """A run, with what it was planned on."""

    plan: Plan
    draft: Draft

    def rows(self, name: str, **where: object) -> list[Estimate]:
        return [
            row for row in self.draft.estimates
            if row.name == name and all(row.where.get(key) == value for key, value in where.items())
        ]  # fmt: skip

    def value(self, name: str, **where: object) -> float:
        (row,) = self.rows(name, **where)
        return row.value

    def said(self, id: str) -> str:
        """Return the words of all findings and warnings of one id."""
        told = [finding.words for finding in self.draft.findings if finding.id == id]
        return " ".join(told + [warning.message for warning in self.draft.warnings if warning.id == id])

    def found(self) -> set[Any]:
        """Return the attributes of which a gap is called one."""
        return {finding.where["by"] for finding in self.draft.findings if finding.id == "groups.gap"}


Hear = Callable[..., Heard]


@pytest.fixture(scope="module")
def hear(tmp_path_factory: pytest.TempPathFactory) -> Hear:
    """Return a function that audits rows, checks what holds for every run, and draws only where asked to."""

    def heard(
        rows: list[Row], *, drawn: bool = False, level: float = 0.95, delimiter: str = ",", **asked: Any
    ) -> Heard:
        folder = tmp_path_factory.mktemp("heard")
        path = folder / "clips.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, list(rows[0]), lineterminator="\n", delimiter=delimiter)
            table.writeheader()
            table.writerows(rows)
        options = Options(manifest=path, **{"by": ("gender", "accent"), **QUICK, **asked})
        context = Context(cache=Cache(folder / "cache"), level=level)
        planned = runner.check(AUDIT, options, context)
        with pytest.MonkeyPatch.context() as patch:
            if not drawn:
                patch.setattr("audits.speaker_groups.figures.figures", lambda *_: ())
            done = Heard(planned, runner.carry_out(AUDIT, options, planned, context))
        sound(done, level)
        return done

    return heard


@pytest.fixture(scope="module")
def plain(hear: Hear) -> Heard:
    """Return a run of one system whose errors are counted, with nothing asked for."""
    return hear(counted(clips()))


def sound(heard: Heard, level: float) -> None:
    """Check what must hold for every run."""
    draft = heard.draft
    sane(draft)
    for row in draft.estimates:
        assert row.level == level or row.method in ("exact", "none"), row
        for key, value in row.where.items():
            assert value in heard.plan.coordinates[key], (row.name, key, value)
    assert {warning.id for warning in draft.warnings} <= WARNINGS
    assert {finding.id for finding in draft.findings} <= FINDINGS
    for finding in draft.findings:
        assert all(row in draft.estimates for row in finding.evidence)
        assert finding.evidence or finding.severity == "info"
        assert "nan" not in finding.words.split() and "inf" not in finding.words.split()
    assert {row.method for row in draft.estimates if row.low is None} <= {"exact", "none"}
    assert len({tuple(row) for row in draft.records}) == 1
    assert len(draft.records) == draft.coverage.given
    assert Counter(row["status"] for row in draft.records) == {
        "used": draft.coverage.used, **{item.reason: item.count for item in draft.coverage.skipped}
    }  # fmt: skip
    json.dumps([figure.spec for figure in draft.figures], allow_nan=False)


def sane(draft: Draft) -> None:
    """Check that every number is finite, in its interval, of a known name, and told once."""
    places = Counter((row.name, *sorted(row.where.items())) for row in draft.estimates)
    assert [place for place, times in places.items() if times > 1] == []
    for row in draft.estimates:
        assert row.name in AUDIT.estimates
        ends = [row.value] if row.low is None or row.high is None else [row.low, row.value, row.high]
        assert all(math.isfinite(end) for end in ends) and ends == sorted(ends), row
        assert row.n >= 0 and row.unit in ("speakers", "speaker profiles", "clips")


# What is said of a gap that is there.
@pytest.mark.parametrize("hypothesis", ["parity", "worst-group", "conditional"])
@pytest.mark.parametrize("reference", ["overall", "best", "accent=north"])
def test_a_planted_gap_is_found_and_the_other_attribute_is_not(hear: Hear, hypothesis: str, reference: str) -> None:
    heard = hear(counted(clips()), hypothesis=hypothesis, reference=(reference,))
    assert heard.found() == {"accent"}
    (finding,) = [finding for finding in heard.draft.findings if finding.id == "groups.gap"]
    assert finding.severity in ("medium", "high") and finding.where["group"] == "accent=south"
    assert "gender" in heard.said("groups.no-gap-shown") and "accent" not in heard.said("groups.no-gap-shown")
    for correction in ("none", "holm"):
        assert heard.value("p_value", test=hypothesis, by="accent", correction=correction) < 0.05
        assert heard.value("p_value", test=hypothesis, by="gender", correction=correction) > 0.05
    assert heard.draft.findings[-1].id == "groups.conclusion"
    assert "rejected in 1 of 2 tests" in heard.draft.findings[-1].headline


def test_what_groups_are_compared_with_is_what_was_asked_for(hear: Hear) -> None:
    rows = counted(clips(accent=lambda s, _: ("north", "south", "west")[s % 3]))

    def compared(*reference: str) -> dict[Any, Any]:
        heard = hear(rows, reference=reference)
        assert heard.rows("gap_to_reference", by="gender")
        for row in heard.rows("gap_to_reference"):
            rates = {where: heard.value("rate", group=where) for where in (row.where["group"],)}
            if row.where["reference"] != "others":
                rates["reference"] = heard.value("rate", group=row.where["reference"])
                assert row.value == pytest.approx(rates[row.where["group"]] - rates["reference"])
        return {row.where["group"]: row.where["reference"] for row in heard.rows("gap_to_reference", by="accent")}

    assert compared("overall") == dict.fromkeys(("accent=north", "accent=south", "accent=west"), "others")
    assert compared("accent=south") == dict.fromkeys(("accent=north", "accent=west"), "accent=south")
    assert set(compared("best").values()) <= {"accent=north", "accent=west"}
    assert compared("accent=west", "best") == dict.fromkeys(("accent=north", "accent=south"), "accent=west")


def test_nobody_errs_more_than_the_group_that_errs_most(hear: Hear) -> None:
    heard = hear(counted(clips()), hypothesis="worst-group", reference=("accent=south",))
    assert heard.found() == set()
    assert heard.value("p_value", test="worst-group", by="accent", correction="none") > 0.9
    assert "may be chance" not in heard.said("groups.no-gap-shown")


@pytest.mark.parametrize(("reference", "rate"), [("overall", 0.13), ("accent=north", 0.1225)])
def test_what_one_side_rejects_is_told_by_the_bound_of_that_side(hear: Hear, reference: str, rate: float) -> None:
    """A gap that the one-sided test sees lies beyond its own bound, and not beyond both ends of an interval."""
    rates = {"south": rate, "north": 0.1, "west": 0.1, "east": 0.1}
    levels = tuple(rates)
    rows = counted(clips(lambda row: rates[row["accent"]], people=96, accent=lambda s, _: levels[s // 2 % 4]))
    asked = {"by": ("accent",), "bootstrap": 1000, "permutations": 1000}
    heard = hear(rows, hypothesis="worst-group", reference=(reference,), **asked)
    (excess,) = heard.rows("excess", by="accent")
    both = heard.rows("gap_to_reference", group=excess.where["group"], reference=excess.where["reference"])[0]
    assert excess.where["group"] == "accent=south" and excess.value == both.value
    assert both.low < excess.low < excess.value < excess.high < both.high
    assert heard.value("p_value", by="accent", correction="holm") < 0.05
    assert both.low < 0 < excess.low, "the plant is of no use: both or neither show it"
    assert heard.found() == {"accent"} and "(at least 0.0" in heard.said("groups.gap")
    assert "rejected in 1 of 1 tests." in heard.draft.findings[-1].headline


def test_as_many_tests_are_said_to_reject_as_p_values_do(hear: Hear, monkeypatch: pytest.MonkeyPatch) -> None:
    from audits.speaker_groups import hypotheses, null_findings

    for module in (null_findings, hypotheses):
        monkeypatch.setattr(module, "beyond", lambda *_: False)
    for hypothesis, words in (("parity", "The groups do not err alike by accent"), ("worst-group", "Some group errs")):
        heard = hear(counted(clips()), hypothesis=hypothesis)
        small = [row for row in heard.rows("p_value", correction="holm") if row.value < 0.05]
        said = heard.draft.findings[-1].words
        assert (
            len(small) == 1 and "rejected in 1 of 2 tests." in said and "In 0 of them a difference can be told." in said
        )
        assert words in heard.said("groups.no-gap-shown")


def test_a_decision_that_other_shuffles_could_turn_is_said_to_be_open(hear: Hear) -> None:
    rows = counted(clips(lambda row: 0.17 if row["accent"] == "south" else 0.1))
    heard = hear(rows, by=("accent",))
    (p,) = heard.rows("p_value", test="parity", by="accent", correction="holm")
    said = heard.said("groups.conclusion")
    assert f"decide otherwise by accent {span(p)}: the interval of p spans 0.05. More --permutations" in said
    assert said.startswith("The default hypothesis is rejected in ")
    clear = hear(counted(clips()), hypothesis="worst-group", by=("accent",)).said("groups.conclusion")
    assert clear.startswith("The declared hypothesis is rejected in 1 of 1 tests.") and "--permutations" not in clear


def test_a_group_of_one_speaker_and_one_who_was_heard_in_silence_has_a_mean_and_no_interval(hear: Hear) -> None:
    rows = counted(clips())
    silent = [{**rows[0], "path": f"{who}.wav", "speaker": who, "accent": "west", "errors": 2} for who in ("x", "y")]
    silent[1]["words"] = 0
    heard = hear([*rows, *silent])
    (row,) = heard.rows("speaker_rate", group="accent=west")
    assert (row.value, row.low, row.high, row.method) == (0.25, None, None, "none")


def test_a_p_value_is_one_text_in_sentences_and_tables(hear: Hear) -> None:
    from audits.core.numbers import point

    heard = hear(counted(clips()), permutations=800)
    (row,) = heard.rows("p_value", by="accent", correction="holm")
    assert row.value < 0.01
    assert f"p = {point(row)}: labels permuted" in heard.said("groups.gap")
    assert float(point(row)) >= row.value


def test_a_gap_that_goes_with_a_control_is_called_spurious(hear: Hear) -> None:
    rows = clips(lambda row: 0.35 if row["room"] == "loud" else 0.08, people=48,
                 room=lambda s, take: "loud" if (take < 3) == (s // 2 % 2) else "quiet")  # fmt: skip
    without = hear(counted(rows))
    assert "accent" in without.found()
    held = hear(counted(rows), control=("room",))
    assert held.found() == set()
    assert "goes with room" in held.said("groups.spurious")
    assert held.value("rate_ratio", attribute="accent", level="south", reference="north", adjusted="no") > 1.5 or (
        held.value("rate_ratio", attribute="accent", level="north", reference="south", adjusted="no") < 1 / 1.5
    )


@pytest.mark.parametrize("more", [1, 2])
def test_with_nothing_held_fixed_both_gaps_are_one(hear: Hear, more: int) -> None:
    errors = {"a": [1] * 9 + [12], "b": [1 + more] * 9 + [12 + more]}
    rows = [
        {"path": f"{accent}{at}.wav", "speaker": f"{accent}{at}", "accent": accent, "words": 20, "errors": own}
        for accent, every in errors.items()
        for at, own in enumerate(every)
    ]
    heard = hear(rows, by=("accent",), min_speakers=5)
    for name, kind in (("gap", "absolute"), ("gap", "relative"), ("gap_ratio", "ratio")):
        adjusted, plain = (heard.rows(name, kind=kind, adjusted=which)[0] for which in ("yes", "no"))
        assert adjusted.value == pytest.approx(plain.value, abs=1e-9)
        assert adjusted.low <= plain.low and plain.high <= adjusted.high
        # Of a gap of nought to a tenth, neither shows anything, and neither lies far from the other.
        assert plain.low < (name == "gap_ratio") and (adjusted.high - adjusted.low) < 5 * (plain.high - plain.low)
    absolute = heard.rows("gap", kind="absolute", adjusted="yes")[0]
    assert absolute.low >= -1 and absolute.high <= 1


# Data at the edge.
def test_no_errors_at_all(hear: Hear) -> None:
    heard = hear(written(clips(lambda _: 0.0)), drawn=True, max_order=2)
    assert {row.value for row in heard.rows("rate")} == {0.0}
    assert all(row.high is not None and row.high > 0 for row in heard.rows("rate"))
    assert "may have been missed" in heard.said("groups.no-gap-shown")
    assert not heard.found() and not heard.rows("gap", kind="ratio") and not heard.rows("rate_ratio")
    assert "undefined-gap" in {warning.id for warning in heard.draft.warnings}


def test_more_errors_than_words_everywhere(hear: Hear) -> None:
    heard = hear(written([{**row, "prediction": "uh " * 20} for row in clips()]), drawn=True, max_order=2)
    assert {row.value for row in heard.rows("rate", metric="wer")} == {20 / LENGTH}
    assert not heard.found() and "no-benefit" in {warning.id for warning in heard.draft.warnings}
    assert all(abs(row.value) < 1e-12 for row in heard.rows("gap", kind="absolute", metric="wer"))


@pytest.mark.parametrize("hypothesis", ["parity", "worst-group"])
@pytest.mark.parametrize("reference", ["overall", "best", "accent=north"])
def test_where_all_err_alike_every_difference_is_nought(hear: Hear, reference: str, hypothesis: str) -> None:
    rows = written([{**row, "prediction": "uh " * 20} for row in clips()])
    heard = hear(rows, reference=(reference,), hypothesis=hypothesis)
    assert {row.value for row in heard.rows("gap_to_reference", metric="wer")} == {0.0}
    assert not heard.found()


def test_an_empty_reference_counts_insertions_without_words(hear: Hear) -> None:
    rows = written(clips())
    rows[0]["text"], rows[0]["prediction"] = "?!", "uh uh uh"
    heard = hear(rows)
    assert "1 clip has no word of reference" in heard.said("empty-reference")
    own = [row for row in heard.draft.records if row["gender"] == rows[0]["gender"]]
    assert own[0]["words"] == 0 and own[0]["word_errors_prediction"] == 3
    errors, words = (sum(row[name] for row in own) for name in ("word_errors_prediction", "words"))
    assert heard.value("rate", metric="wer", group="gender=f") == pytest.approx(errors / words)
    assert heard.value("overdispersion") > 0 and heard.rows("overdispersion")[0].n == len(rows) - 1


@pytest.mark.parametrize("form", [written, counted])
def test_clips_without_a_reference_are_told_of_before_a_run_and_can_be_left_out(hear: Hear, form: Any) -> None:
    rows = form(clips())
    for row in rows[:3]:
        row |= {"text": "?!"} if "text" in row else {"words": 0}
    kept = hear(rows)
    assert [note for note in kept.plan.preview if "3 clips have no word of reference" in note]
    assert "3 clips have no word of reference" in kept.said("empty-reference")
    left_out = hear(rows, on_empty_reference="skip")
    assert [(item.reason, item.count) for item in left_out.draft.coverage.skipped] == [("no word of reference", 3)]
    assert not left_out.said("empty-reference") and "3 no word of reference" in left_out.said("groups.skipped")
    assert [note for note in left_out.plan.preview if "clips are left out (3 no word of reference)" in note]
    assert left_out.draft.estimates == hear(rows[3:]).draft.estimates
    with pytest.raises(InputError, match="The clip has no word of reference") as stopped:
        hear(rows, on_empty_reference="stop")
    assert "clips.csv:2" in stopped.value.where


def test_quotation_marks_of_one_group_are_no_errors(hear: Hear) -> None:
    rows = written(clips(lambda _: 0.0))
    for row in rows:
        first, *rest = row["text"].split()
        row["text"] = (
            f"\u2018{first.capitalize()},\u2019 \u2018{' '.join(rest)}.\u2019"
            if row["accent"] == "south"
            else row["text"]
        )
    heard = hear(rows)
    assert {row.value for row in heard.rows("rate")} == {0.0} and not heard.found()


@pytest.mark.parametrize(
    "asked", [{"control": ("place",)}, {"prediction_col": "place"}, {"by": ("gender",), "cluster_by": ("place",)}]
)
def test_a_list_is_no_control_transcript_or_part_of_a_profile(tmp_path: Path, asked: dict[str, Any]) -> None:
    rows = [{**row, "place": ["at", "home"]} for row in written(clips())]
    if "cluster_by" in asked:
        rows = [{name: value for name, value in row.items() if name != "speaker"} for row in rows]
    path = tmp_path / "clips.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    options = Options(manifest=path, **{"by": ("gender", "accent"), **asked})
    with pytest.raises(InputError, match="The column 'place' holds a list") as refused:
        runner.check(AUDIT, options, Context(cache=Cache(tmp_path / "cache")))
    assert refused.value.where == f"{path}:1"


def test_transcripts_that_lose_all_words_when_normalised_are_counted(hear: Hear) -> None:
    rows = written(clips())
    for row in rows[:TAKES]:
        row["prediction"] = "[noise]"
    # Of a reference without a word none is deleted.
    rows[TAKES] = {**rows[TAKES], "text": "[noise]", "prediction": "[noise]"}
    heard = hear(rows, normalise="whisper-english", on_empty_reference="count")
    assert f"leaves no word of {TAKES} of {len(rows)} transcripts" in heard.said("wordless-transcript")
    assert "such as '[noise]'" in heard.said("wordless-transcript")
    assert not any(item.id == "empty-transcript" for item in heard.draft.warnings)


def test_an_empty_transcript_is_all_deletions(hear: Hear) -> None:
    rows = written(clips())
    for row in rows[:TAKES]:
        row["prediction"] = ""
    heard = hear(rows)
    assert f"wrote nothing for {TAKES} of {len(rows)} clips" in heard.said("empty-transcript")
    share = heard.value("deletion_rate", group="all")
    assert share == pytest.approx(TAKES * LENGTH / (len(rows) * LENGTH))


def test_a_group_of_one_speaker_is_shown_and_not_compared(hear: Hear) -> None:
    rows = counted(clips())
    for row in rows[:TAKES]:
        row["accent"] = "lonely"
    heard = hear(rows, drawn=True, max_order=2)
    (rate,) = heard.rows("rate", group="accent=lonely")
    assert (rate.low, rate.high, rate.method, rate.n) == (None, None, "none", 1)
    assert "accent=lonely" in heard.said("small-group") and "accent=lonely" in heard.said("not-compared")
    for name in ("gap_to_reference", "confirmed_difference"):
        assert all(row.where["group"] != "accent=lonely" for row in heard.rows(name))


def test_two_hundred_levels_are_told_of_before_and_after(hear: Hear) -> None:
    rows = counted(clips(lambda _: 0.1, people=220, takes=1, town=lambda s, _: f"t{s % 200:03d}"))
    heard = hear(rows, by=("gender", "town"), drawn=True)
    assert "The column town has 200 levels" in heard.said("many-levels")
    assert any("200 levels" in note for note in heard.plan.preview)
    assert len([row for row in heard.rows("rate") if str(row.where["group"]).startswith("town=")]) == 200
    assert not heard.rows("gap", by="town") and heard.rows("gap", by="gender")


def test_a_constant_attribute_is_told_of_and_the_others_go_on(hear: Hear) -> None:
    heard = hear(counted(clips(lambda _: 0.1, accent=lambda *_: "north")), max_order=2)
    assert "accent=north" in heard.said("constant-attribute")
    assert {row.where["by"] for row in heard.rows("gap")} == {"gender"}
    assert heard.rows("rate", group="accent=north") and not heard.rows("rate", group="accent=north&gender=f")


def test_nothing_but_constant_attributes_is_refused(hear: Hear) -> None:
    with pytest.raises(InputError, match="no column has two known levels"):
        hear(counted(clips(lambda _: 0.1, accent=lambda *_: "north", gender=lambda s, _: ("f", "NA")[s % 2])))


def test_aliases_cannot_be_told_apart_and_that_is_said(hear: Hear) -> None:
    rows = counted(clips(accent=lambda s, _: ("north", "south")[s % 2]))
    heard = hear(rows)
    assert "not-adjusted" in {warning.id for warning in heard.draft.warnings}
    assert "gender" in heard.said("not-adjusted")
    assert not heard.rows("gap", adjusted="yes") and not heard.rows("rate_ratio")
    assert heard.found() == {"accent", "gender"}
    assert heard.value("gap", by="accent", kind="absolute") == heard.value("gap", by="gender", kind="absolute")


def test_a_model_that_cannot_be_fitted_is_no_lack_of_speakers(hear: Hear) -> None:
    rows = counted(clips(accent=lambda s, _: ("north", "south")[s % 2]))
    heard = hear(rows, hypothesis="conditional")
    assert heard.found() == set() and not heard.rows("p_value", test="conditional")
    assert "enough speakers" not in " ".join(finding.words for finding in heard.draft.findings)


def test_speakers_in_several_groups_are_told_of(hear: Hear) -> None:
    heard = hear(counted(clips(accent=lambda _, take: ("north", "south")[take % 2])))
    assert "accent" in heard.found()
    assert f"{SPEAKERS} speakers are in several groups by accent" in heard.said("varies-within-speaker")
    assert "Some speakers are in several of these groups" in heard.said("groups.gap")
    assert heard.rows("rate", group="accent=north")[0].n == SPEAKERS


def test_it_is_said_where_those_who_say_more_err_otherwise(hear: Hear) -> None:
    # One speaker in four says ten times as much and gets half of it wrong.
    rows = [
        row | ({"words": 10 * LENGTH, "errors": 5 * LENGTH} if int(row["speaker"][1:]) % 8 < 2 else {})
        for row in counted(clips(lambda _: 0.1))
    ]
    heard, alike = hear(rows), hear(counted(clips(lambda _: 0.1)))
    (mean,), (pooled,) = (heard.rows(name, group="all") for name in ("speaker_rate", "rate"))
    assert mean.value < 0.6 * pooled.value
    assert f"in all ({mean.value:.3f} each, {pooled.value:.3f} pooled)" in heard.said("rates-part")
    assert "rates-part" not in {warning.id for warning in alike.draft.warnings}


def test_the_search_names_a_group_also_where_nobody_differs_within_any(hear: Hear) -> None:
    rows = [row | {"errors": 3 if row["accent"] == "south" else 1} for row in counted(clips(people=60))]
    heard = hear(rows, by=("accent",))
    assert "accent" in heard.found()
    (row,) = heard.rows("p_value", test="discovery")
    assert row.value < 0.001 and "north speakers (accent)" in heard.said("groups.confirmed")
    assert heard.draft.answer is not None
    assert any(line.endswith("size seen there: north speakers (accent).") for line in heard.draft.answer.may)


def test_a_group_of_the_search_is_no_contradiction_of_what_no_two_levels_show(
    hear: Hear, monkeypatch: pytest.MonkeyPatch
) -> None:
    from audits.speaker_groups import hypotheses

    rows = counted(clips(people=60))
    monkeypatch.setattr(hypotheses, "adjust", lambda raw, _: [1.0] * len(raw))
    silent = hear(rows)
    assert "No gap by accent, gender, between any two levels, is shown." in silent.said("groups.no-gap-shown")
    assert "sets one level against all others together, did confirm" in silent.said("groups.no-gap-shown")
    assert "errors than all others together, by" in silent.said("groups.confirmed")
    named = hear(rows, reference=("accent=north",))
    assert "any two levels" not in named.said("groups.no-gap-shown")
    assert "crossing" not in silent.said("groups.no-gap-shown")


def test_a_confirmed_crossing_is_none_of_one_level_against_the_others(hear: Hear) -> None:
    alike = clips(people=240)
    rows = [
        row | {"errors": 4 if (row["accent"] == "north") == (row["gender"] == "m") else 1} for row in counted(alike)
    ]
    said = hear(rows, max_order=2).said("groups.no-gap-shown")
    assert "The search did confirm a crossing of accent and gender: see there." in said
    assert "any two levels" not in said and "one level against all others" not in said


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_no_index_between_groups_ends_at_its_own_value(hear: Hear, level: float) -> None:
    heard = hear(counted(clips(lambda _: 0.1)), by=("accent",), level=level)
    between = heard.rows("entropy_index", part="between")
    assert len(between) == 2
    assert all(row.low <= row.value < row.high for row in between)


def test_unknown_levels_have_a_rate_and_no_part_in_any_comparison(hear: Hear) -> None:
    spellings = ("north", "south", "NA", "")
    heard = hear(counted(clips(accent=lambda s, _: spellings[s // 2 % 4])))
    assert heard.rows("rate", group="accent=unknown")[0].n == SPEAKERS // 2
    assert "NA" in heard.said("manifest.unknown")
    for row in heard.draft.estimates:
        assert row.name in ("rate", "speaker_rate") or not any("unknown" in str(value) for value in row.where.values())


def test_odd_names_come_through_whole(hear: Hear) -> None:
    names = ('a&b=c "q", <b>', "x|y; *z*", "日本 é", "[1]{2}\\n'")
    heard = hear(counted(clips(lambda _: 0.2, gender=lambda s, _: names[s % 4])), by=("gender",), drawn=True)
    shown = {row.where["group"] for row in heard.rows("rate")}
    assert shown == {"all", 'gender=a+b:c "q", <b>', *(f"gender={name}" for name in names[1:])}
    assert "manifest.replaced" in {warning.id for warning in heard.draft.warnings}


def test_an_attribute_with_the_name_of_a_count_keeps_its_own_column(hear: Hear) -> None:
    heard = hear(written(clips(characters=lambda s, _: ("latin", "other")[s // 2 % 2])), by=("characters",))
    assert {row["attribute_characters"] for row in heard.draft.records} == {"latin", "other"}
    assert all(row["characters"] > LENGTH for row in heard.draft.records)


def test_a_reference_that_is_too_small_is_refused(hear: Hear) -> None:
    rows = counted(clips(accent=lambda s, _: "rare" if s < 3 else ("north", "south")[s // 2 % 2]))
    with pytest.raises(InputError, match="accent=rare has 3 speakers: too few to compare others with"):
        hear(rows, reference=("accent=rare",), hypothesis="worst-group")


# Speakers.
def anonymous(rows: list[Row]) -> list[Row]:
    return [{key: value for key, value in row.items() if key != "speaker"} for row in rows]


def test_without_speakers_equal_attributes_are_one_and_that_is_said(hear: Hear) -> None:
    heard = hear(anonymous(counted(clips())))
    assert "(4 profiles)" in heard.said("no-speakers")
    assert heard.rows("rate", group="all")[0].n == 4
    assert {row.unit for row in heard.draft.estimates} == {"speaker profiles"}
    assert "nothing is said about any gap" in heard.said("groups.nothing-compared")


def test_columns_may_stand_for_speakers(hear: Hear, plain: Heard) -> None:
    rows = counted(clips())
    stood_in = hear([{**row, "house": speaker["speaker"]} for row, speaker in zip(anonymous(rows), rows, strict=True)],
                    cluster_by=("house", "accent"))  # fmt: skip
    told = [replace(row, unit=row.unit.replace("speaker profiles", "speakers")) for row in stood_in.draft.estimates]
    assert told == plain.draft.estimates
    assert stood_in.draft.answer is not None and "without speakers" in stood_in.draft.answer.may_not[-1]


@pytest.mark.parametrize("column", ["text", "path"])
def test_a_column_with_another_part_stands_for_nobody(hear: Hear, column: str) -> None:
    with pytest.raises(InputError, match=f"The column '{column}' .* cannot be part of a profile"):
        hear(anonymous(written(clips())), cluster_by=(column,))


def test_clips_without_a_speaker_are_skipped_where_others_have_one(hear: Hear) -> None:
    rows = counted(clips())
    for row in rows[:3]:
        row["speaker"] = "NA"
    heard = hear(rows)
    assert [(item.reason, item.count) for item in heard.draft.coverage.skipped] == [("no speaker", 3)]
    assert "3 of 96 clips were left out. Why: 3 no speaker." in heard.said("groups.skipped")


# Controls.
def test_a_control_with_missing_numbers_leaves_those_clips_out(hear: Hear) -> None:
    rows = counted(clips(duration=lambda s, take: "" if s < 3 else f"{1 + (s + take) % 5}.5"))
    heard = hear(rows, control=("duration",))
    assert f"{3 * TAKES} clips have no duration: they are not in the adjusted model" in heard.said("control-missing")
    assert heard.rows("overdispersion")[0].n == len(rows) - 3 * TAKES


def test_a_control_of_words_with_missing_ones_keeps_them_as_a_level(hear: Hear) -> None:
    rows = counted(clips(room=lambda s, take: ("", "hall", "car", "hall")[take]))
    heard = hear(rows, control=("room",))
    assert "form a level of their own" in heard.said("control-missing")
    assert heard.rows("overdispersion")[0].n == len(rows)


def test_a_control_with_a_rare_level_is_no_obstacle(hear: Hear) -> None:
    rows = counted(clips(device=lambda s, _: "laptop" if s == 3 else "phone"))
    heard = hear(rows, control=("device",))
    assert heard.found() == {"accent"}


def test_words_of_the_reference_can_be_held_fixed(hear: Hear) -> None:
    rows = written(clips())
    for place, row in enumerate(rows):
        kept = LENGTH - place % 3
        row["text"], row["prediction"] = (" ".join(row[name].split()[:kept]) for name in ("text", "prediction"))
    heard = hear(rows, control=("words",))
    plain = hear(rows)
    assert heard.value("overdispersion") != plain.value("overdispersion")
    assert heard.found() == {"accent"} and heard.rows("attenuation", attribute="accent")


def test_words_of_a_column_win_over_those_of_the_reference(hear: Hear) -> None:
    rows = written(clips())
    own = [{**row, "words": place % 5 + 1} for place, row in enumerate(rows)]
    assert hear(own, control=("words",)).value("overdispersion") != hear(rows).value("overdispersion")


def test_words_of_equal_number_are_not_held_fixed_and_that_is_said(hear: Hear) -> None:
    heard = hear(written(clips()), control=("words",))
    assert heard.said("term-left-out").startswith("words ")
    assert [row.value for row in heard.rows("gap")] == [row.value for row in hear(written(clips())).rows("gap")]


@pytest.mark.parametrize("values", [("3", "3"), ("", "NA"), ("7", "")])
def test_a_constant_control_is_refused(hear: Hear, values: tuple[str, str]) -> None:
    with pytest.raises(InputError, match="nothing to hold fixed"):
        hear(counted(clips(duration=lambda _, take: values[take % 2])), control=("duration",))


def lasting(written: Callable[[float], str], *, people: int = 48) -> list[Row]:
    """Return clips whose errors depend on how long they are alone; those of the south are longer."""
    rng = np.random.default_rng(1)
    rows = counted(clips(people=people, takes=6))
    for row in rows:
        drawn = rng.normal(5.0 if row["accent"] == "south" else 2.5, 1.2)
        seconds = round(float(np.clip(drawn, 0.5, 8.0)), 2)
        row |= {"errors": int(rng.binomial(LENGTH, 0.06 * np.exp(0.25 * seconds))), "duration": written(seconds)}
    return rows


def ratio_of_south(heard: Heard) -> tuple[float, float]:
    """Return the ends of the adjusted ratio of the south to the north."""
    row = heard.rows("rate_ratio", attribute="accent", adjusted="yes")[0]
    assert row.low and row.high
    return (row.low, row.high) if row.where["level"] == "south" else (1 / row.high, 1 / row.low)


def test_counts_between_semicolons_may_be_whole_numbers_with_a_decimal_comma(hear: Hear, plain: Heard) -> None:
    # So a data frame writes a column of counts that was not whole somewhere.
    rows = [row | {"errors": f"{row['errors']},0"} for row in counted(clips())]
    assert hear(rows, delimiter=";").draft.estimates == plain.draft.estimates
    with pytest.raises(InputError, match="'1,000' may be 1000 or 1: three digits follow its comma"):
        hear([row | {"errors": "1,000"} for row in counted(clips())], delimiter=";")


@pytest.mark.parametrize("cell", ["{}.0", "{}.00", "{}.", "{}e0", "+{}"])
def test_counts_may_be_whole_numbers_with_a_decimal_point(hear: Hear, plain: Heard, cell: str) -> None:
    assert hear([row | {"errors": cell.format(row["errors"])} for row in counted(clips())]).draft.estimates == (
        plain.draft.estimates
    )


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("column", ["words", "errors"])
def test_a_count_that_may_be_one_of_thousands_is_refused_with_its_line(
    hear: Hear, plain: Heard, delimiter: str, column: str
) -> None:
    rows = counted(clips())
    rows[4] |= {column: "1.000"}
    with pytest.raises(InputError, match=r"'1\.000' may be 1000 or 1: three digits follow its point") as caught:
        hear(rows, delimiter=delimiter)
    assert ":6 " in str(caught.value.where) and str(caught.value.where).endswith(f"column {column}")
    assert "such as 1000, or say --decimal . if" in caught.value.hint


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("3,00", "write 3.00, or say --decimal , if"),
        ("1.234.567", "without marks between thousands."),
        ("2,5", "Counts are whole numbers from 0 up"),
        ("many", "Counts are whole numbers from 0 up"),
    ],
)
def test_a_count_that_is_refused_for_its_marks_says_how_to_write_it(hear: Hear, cell: str, hint: str) -> None:
    rows = counted(clips())
    rows[4] |= {"errors": cell}
    with pytest.raises(InputError, match="is no count") as caught:
        hear(rows)
    assert hint in caught.value.hint


@pytest.mark.parametrize("mark", [".", ","])
def test_counts_with_three_decimals_are_read_by_the_named_mark(hear: Hear, plain: Heard, mark: str) -> None:
    rows = [row | {"errors": f"{row['errors']}{mark}000"} for row in counted(clips())]
    assert hear(rows, decimal=mark).draft.estimates == plain.draft.estimates
    words = {".": "point", ",": "comma"}
    other = "," if mark == "." else "."
    said = f"has a {words[mark]}, and --decimal says that numbers have a decimal {words[other]}"
    with pytest.raises(InputError, match=said):
        hear(rows, decimal=other)


def test_a_control_is_read_by_the_named_mark(hear: Hear) -> None:
    plain = hear(lasting(lambda seconds: f"{seconds:.3f}"), control=("duration",))
    rows = lasting(lambda seconds: f"{seconds:.3f}".replace(".", ","))
    # Without the mark it cannot be known where all numbers are as large as these.
    assert hear(rows, control=("duration",), decimal=",").draft.estimates == plain.draft.estimates
    rows[7] |= {"duration": "1.5"}
    with pytest.raises(InputError, match=r"'1\.5' has a point, and --decimal says") as caught:
        hear(rows, control=("duration",), decimal=",")
    assert ":9, duration" in str(caught.value.where)


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_decimal_commas_are_numbers_and_hold_as_much_fixed_as_points(hear: Hear, delimiter: str) -> None:
    points = hear(lasting(lambda seconds: f"{seconds:.2f}"), control=("duration",))
    rows = lasting(lambda seconds: f"{seconds:.2f}".replace(".", ","))
    commas = hear(rows, control=("duration",), delimiter=delimiter)
    assert "with gender and duration (a number, linear) held fixed" in commas.said("groups.spurious")
    assert commas.draft.estimates == points.draft.estimates
    assert "288 numbers have a decimal comma" in commas.said("manifest.decimal-comma")
    assert not points.said("manifest.decimal-comma")
    for heard in (commas, points):
        assert "Controls: duration: a number, 0.5 to" in heard.said("groups.columns")
        assert ("control", heard.said("groups.columns").partition("Controls: ")[2].rstrip(".")) in heard.plan.cost
        assert ("by", "accent: 2 levels") in heard.plan.cost


def test_a_control_of_tiny_levels_is_not_held_fixed_and_that_is_said(hear: Hear) -> None:
    heard = hear(lasting(lambda seconds: f"{seconds * 1000:.0f} ms"), control=("duration",))
    assert heard.found() == {"accent"}
    assert "duration could not be held fixed" in heard.said("groups.gap")
    assert "with duration" not in heard.said("groups.gap").lower()
    assert "next to nothing to hold fixed" in heard.said("term-left-out")
    assert "are 2" in heard.said("manifest.unit") and "levels, not numbers" in heard.said("manifest.unit")
    assert "of them with fewer than 5 speakers" in heard.said("groups.columns")


def test_clips_in_tiny_levels_do_not_hide_a_control_that_explains_all(hear: Hear) -> None:
    heard = hear(lasting(lambda seconds: f"bin {seconds * 20:.0f}", people=240), control=("duration",))
    low, high = ratio_of_south(heard)
    # Put together in one level, those of the shortest and of the longest clips would leave much of the gap.
    assert low < 1 < high
    assert "errors in the regression of prediction's errors: these clips are not in it" in heard.said("small-levels")
    assert "levels) held fixed" in heard.said("groups.spurious")
    assert heard.rows("overdispersion")[0].n < 240 * 6


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda seconds: f"{seconds:.2f} s", "is a number with a unit: duration would be"),
        (lambda seconds: f"{int(seconds * 1000):,}", "of duration may be"),
        (
            lambda seconds: f"{seconds:.2f}".replace(".", ",") if seconds < 4 else f"{seconds:.2f}",
            "has a decimal comma",
        ),
        (lambda seconds: f"{seconds:.2f}" if seconds < 7 else "long", "'long' is no number, and most values of"),
    ],
)
def test_numbers_that_cannot_be_read_are_refused(hear: Hear, rule: Callable[[float], str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hear(lasting(rule), control=("duration",))


def test_findings_name_how_each_control_was_held(hear: Hear) -> None:
    rows = counted(clips(room=lambda s, take: ("hall", "car", "yard", "hall")[take], age=lambda s, _: f"{20 + s}"))
    heard = hear(rows, control=("room", "age"))
    assert "with gender, room (3 levels) and age (a number, linear) held fixed" in heard.said("groups.gap")


def test_attributes_of_many_small_levels_say_how_many_are_held(hear: Hear) -> None:
    rows = counted(clips(people=60, town=lambda s, _: "ab"[s % 2] if s < 24 else f"t{s}"))
    heard = hear(rows, by=("accent", "town"))
    assert "with town (2 of 38 levels, the others as one) held fixed" in heard.said("groups.gap")
    assert "town has 38 levels, 36 of them, with 144 of 240 clips" in heard.said("small-levels")


# Options.
def test_the_character_rate_can_be_the_one_that_is_tested(hear: Hear) -> None:
    words, letters = (hear(written(clips()), metric=metric) for metric in ("wer", "cer"))
    assert {row.where["metric"] for row in letters.rows("p_value")} == {"cer"}
    assert {row.where["metric"] for row in words.rows("p_value")} == {"wer"}
    assert letters.found() == {"accent"} and "Character error rate" in letters.said("groups.gap")
    for name in ("rate", "substitution_rate"):
        assert [row.value for row in letters.rows(name)] == [row.value for row in words.rows(name)]


def test_the_faas_comes_with_its_warning_and_without_an_interval(hear: Hear, plain: Heard) -> None:
    heard = hear(counted(clips()), faas=True)
    (score,) = heard.rows("faas")
    assert score.method == "none" and score.low is None and score.unit == "clips"
    assert "not as a measure" in heard.said("faas-compatibility")
    assert not plain.rows("faas")


@pytest.mark.parametrize(("order", "sets"), [(1, 3), (2, 6), (3, 7)])
def test_crossings_go_up_to_the_order_asked_for(hear: Hear, order: int, sets: int) -> None:
    rows = counted(clips(age=lambda s, _: ("old", "young")[s // 4 % 2]))
    heard = hear(rows, by=("gender", "accent", "age"), max_order=order, min_speakers=5)
    by = {"&".join(part.partition("=")[0] for part in row.where["group"].split("&")) for row in heard.rows("rate")}
    assert len(by - {"all"}) == sets
    assert ("accent=north&age=old&gender=f" in {row.where["group"] for row in heard.rows("rate")}) == (order == 3)


def test_a_lower_level_makes_narrower_intervals(hear: Hear, plain: Heard) -> None:
    wide, narrow = plain, hear(counted(clips()), level=0.9)
    for name in ("rate", "gap", "rate_ratio", "differential_fairness", "shrunken_rate"):
        pairs = list(zip(wide.rows(name), narrow.rows(name), strict=True))
        assert pairs and all(one.value == other.value for one, other in pairs)
        assert all(one.high - one.low > other.high - other.low for one, other in pairs if one.low is not None)


def test_bins_make_levels_of_numbers(hear: Hear) -> None:
    rows = counted(clips(age=lambda s, _: str(20 + 10 * (s // 2 % 2) + s % 5)))
    heard = hear(rows, by=("age",), bin=("age=0,25,30",))
    assert {row.where["group"] for row in heard.rows("rate")} == {"all", "age=0-24", "age=30+"}


def test_one_system_and_three(hear: Hear, plain: Heard) -> None:
    rows, alone = counted(clips()), plain
    assert not alone.rows("system_difference") and not alone.rows("gap_difference")
    assert alone.said("groups.gap").startswith("The system makes more errors")
    three = [{**row, "errors_a": row["errors"], "errors_b": min(row["errors"], 1), "errors_c": row["errors"]}
             for row in rows]  # fmt: skip
    heard = hear([{key: value for key, value in row.items() if key != "errors"} for row in three], drawn=True)
    assert {row.where["system"] for row in heard.rows("rate")} == {"a", "b", "c"}
    assert {(row.where["system"], row.where["against"]) for row in heard.rows("system_difference")} == {
        ("b", "a"), ("c", "a")
    }  # fmt: skip
    for row in heard.rows("system_difference", system="b"):
        rates = [heard.value("rate", system=name, group=row.where["group"]) for name in "ba"]
        assert row.value == pytest.approx(rates[0] - rates[1]) and row.value <= 0
    assert "b makes fewer errors than a, " in heard.said("groups.system")
    assert "of 6 tests" in heard.draft.findings[-1].headline
    named = [{("errors_a" if key == "errors" else key): value for key, value in row.items()} for row in rows]
    assert hear(named).said("groups.gap").startswith("a makes more errors")
    assert [row.value for row in heard.rows("rate", system="a")] == [row.value for row in alone.rows("rate")]


def test_systems_are_compared_by_the_rate_that_was_asked_for(hear: Hear, tmp_path: Path) -> None:
    rows, lines = [], {"a": ["path\tprediction"], "b": ["path\tprediction"]}
    for row in written(clips()):
        pairs = list(zip(row["text"].split(), row.pop("prediction").split(), strict=True))
        rows.append(row)
        # The second system gets the same words wrong, each by one character.
        lines["a"].append(f"{row['path']}\t{' '.join(heard for _, heard in pairs)}")
        lines["b"].append(f"{row['path']}\t{' '.join(text + 's' * (text != heard) for text, heard in pairs)}")
    for name, each in lines.items():
        (tmp_path / f"{name}.tsv").write_text("\n".join(each) + "\n", encoding="utf-8")
    given = tuple(f"{name}={tmp_path / name}.tsv" for name in "ab")
    words, characters = hear(rows, predictions=given), hear(rows, predictions=given, metric="cer")
    for heard, metric in ((words, "wer"), (characters, "cer")):
        tests = heard.rows("p_value", test="system")
        assert {row.where["metric"] for row in tests} == {metric}
    assert words.value("system_difference", metric="wer", group="all") == 0
    assert "b makes fewer errors than a, " not in words.said("groups.system")
    (p,) = characters.rows("p_value", test="system", correction="none", group="all")
    assert p.value < 0.001 and "b makes fewer errors than a, " in characters.said("groups.system")


# What holds whatever the counts are.
Names = Mapping[str, Mapping[str, str]]


def drawn_counts(seed: int, *, people: int = 30) -> dict[str, Any]:
    """Return random counts of two systems with substitutions, deletions and insertions, and who spoke."""
    rng = np.random.default_rng(seed)
    speaker = np.repeat(np.arange(people), rng.integers(1, 5, people))
    sizes = rng.integers(0, 20, len(speaker)).astype(float)
    chance = np.stack([0.1 + 0.2 * (speaker % 3 == 0), np.full(len(speaker), 0.15)], axis=1)
    wrong = rng.binomial(sizes.astype(int)[:, None], chance)
    lost = rng.binomial(wrong, 0.3)
    more = rng.poisson(0.4, wrong.shape)
    rows = [
        {"accent": ("north", "south", "west")[who % 3], "gender": (UNKNOWN, "f", "m", "f", "m")[who % 5]}
        for who in speaker.tolist()
    ]
    parts = {"substitution": wrong - lost, "deletion": lost, "insertion": more}
    return {"speaker": speaker, "sizes": sizes, "parts": parts, "rows": rows}


def utterances(counts: dict[str, Any], order: Any = None, systems: tuple[int, ...] = (0, 1)) -> Utterances:
    """Return the counts as the statistics see them, in another order of clips, or with other systems."""
    order = np.arange(len(counts["speaker"])) if order is None else order
    parts = {name: part[order][:, list(systems)].astype(float) for name, part in counts["parts"].items()}
    rows = [counts["rows"][at] for at in order]
    return counted_clips(
        rows, sum(parts.values()), counts["sizes"][order], by=("accent", "gender"), speakers=counts["speaker"][order],
        parts=parts,
    )  # fmt: skip


def examined(data: Utterances, tmp_path: Path, **asked: Any) -> Draft:
    options = Options(manifest=Path("m"), by=("accent", "gender"), **{**QUICK, "min_speakers": 5, **asked})
    draft = Draft(measures=AUDIT.by_name)
    examine(draft, counts_of(data, inputs_of(data), options, seed=0, level=0.95))
    sane(draft)
    return draft


def numbers(row: Estimate) -> list[float]:
    return [end for end in (row.value, row.low, row.high) if end is not None]


def table(draft: Draft) -> dict[Any, Estimate]:
    return {(row.name, *sorted(row.where.items())): row for row in draft.estimates}


SEEDS = pytest.mark.parametrize("seed", [1, 2])


@SEEDS
def test_rates_are_errors_over_words_of_all_clips_of_a_group(tmp_path: Path, seed: int) -> None:
    counts = drawn_counts(seed)
    data = utterances(counts)
    found = table(examined(data, tmp_path))
    names, member = reported_groups(data.attributes, data.sets)
    told = 0
    for name, inside in zip(names, member, strict=True):
        for system in range(2):
            where = (("group", name), ("metric", "wer"), ("system", f"system {system}"))
            kinds = {part: counts["parts"][part][inside, system].sum() for part in counts["parts"]}
            words = counts["sizes"][inside].sum()
            assert found["rate", *where].value == pytest.approx(sum(kinds.values()) / words)
            assert found["rate", *where].n == len(np.unique(data.speakers[inside & (counts["sizes"] > 0)]))
            for part, errors in kinds.items():
                if (row := found.get((f"{part}_rate", *where))) is not None:
                    assert row.value == pytest.approx(errors / words)
                    told += 1
    assert told > 3 * len(names)


def test_the_order_of_clips_changes_no_number(tmp_path: Path) -> None:
    counts = drawn_counts(3)
    order = np.random.default_rng(3).permutation(len(counts["speaker"]))
    one, other = (table(examined(utterances(counts, by), tmp_path)) for by in (None, order))
    assert one.keys() == other.keys()
    for key, row in one.items():
        assert numbers(row) == pytest.approx(numbers(other[key]), rel=1e-6, abs=1e-9), key
        assert (row.n, row.method) == (other[key].n, other[key].method)


def test_a_system_compared_with_itself_differs_by_nothing(tmp_path: Path) -> None:
    found = examined(utterances(drawn_counts(4), systems=(0, 0)), tmp_path).estimates
    differences = [row for row in found if row.name in ("system_difference", "gap_difference")]
    assert {row.name for row in differences} == {"system_difference", "gap_difference"}
    # The audit cannot know that it is the same system: on other speakers it may differ.
    assert all(row.value == 0 and row.low == -(row.high or 0) < 0 for row in differences)


def renamed(counts: dict[str, Any], names: Names) -> dict[str, Any]:
    rows = [{key: names.get(key, {}).get(level, level) for key, level in row.items()} for row in counts["rows"]]
    return {**counts, "rows": rows}


def with_names(key: Any, names: Names) -> Any:
    """Return the place of an estimate with the levels under other names."""

    def level(part: str) -> str:
        attribute, _, own = part.partition("=")
        return f"{attribute}={names.get(attribute, {}).get(own, own)}" if own else part

    def other(name: str, value: Any) -> Any:
        if name in ("group", "reference") and "=" in value:
            return "&".join(level(part) for part in value.split("&"))
        return names["accent"].get(value, value) if name in ("level", "reference") else value

    return (key[0], *((name, other(name, value)) for name, value in key[1:]))


def test_names_of_groups_change_no_number(tmp_path: Path) -> None:
    counts = drawn_counts(5)
    names = {"accent": {"north": "a", "south": "b & more", "west": "c"}}
    one = table(examined(utterances(counts), tmp_path))
    other = table(examined(utterances(renamed(counts, names)), tmp_path))
    assert {with_names(key, names) for key in one} == set(other)
    for key, row in one.items():
        # Its labels are shuffled by a seed of the group's own.
        if ("test", "confirmation") not in key:
            assert replace(row, where={}) == replace(other[with_names(key, names)], where={}), key


def test_the_alphabetical_order_of_names_changes_no_point(tmp_path: Path) -> None:
    counts = drawn_counts(6)
    names = {"accent": {"north": "z", "south": "y", "west": "x"}}
    one = table(examined(utterances(counts), tmp_path))
    other = table(examined(utterances(renamed(counts, names)), tmp_path))
    compared = 0
    for key, row in one.items():
        if row.name in ("rate", "gap", "gap_to_reference", "differential_fairness", "entropy_index", "shrunken_rate",
                        "system_difference", "gap_difference"):  # fmt: skip
            assert row.value == pytest.approx(other[with_names(key, names)].value, rel=1e-6, abs=1e-9), key
            compared += 1
    assert compared > 80


def test_every_clip_twice_is_no_more_evidence(tmp_path: Path) -> None:
    counts = drawn_counts(7)
    twice = np.repeat(np.arange(len(counts["speaker"])), 2)
    one, other = (table(examined(utterances(counts, by), tmp_path)) for by in (None, twice))
    for key, row in one.items():
        # Gaps on a log scale and Bayesian rates have priors, which weigh less the more words there are.
        # The adjusted model weighs the clips of a speaker, and so does not count here either.
        told = row.where.get("kind", "absolute") == "absolute" and row.where.get("adjusted") != "yes"
        if told and row.name in ("gap", "system_difference", "gap_to_reference"):
            # Longer texts show better that speakers differ: an interval may grow, and never shrinks.
            again, low, high = other[key].value, other[key].low, other[key].high
            assert again == pytest.approx(row.value, rel=1e-5, abs=1e-8), key
            assert low <= row.low + 1e-8 and high >= row.high - 1e-8, key


def test_a_gap_to_which_references_without_words_add_says_so(hear: Hear) -> None:
    rows = written(clips())
    for row in rows[:: len(rows) // 3]:
        row["text"], row["prediction"] = "?!", "uh"
    said = hear(rows).said("groups.gap")
    assert "3 clips have no word to be read, and what was written there counts as errors" in said
    assert "no word to be read" not in hear(rows, on_empty_reference="skip").said("groups.gap")


@pytest.mark.parametrize("seed", [21, 24, 31, 43])
def test_which_crowded_control_is_given_up_does_not_hang_on_their_order(seed: int) -> None:
    rng, people = np.random.default_rng(seed), 60
    named = {
        name: [f"{name}{level}" for level in rng.exponential(rng.uniform(3, 6), people).astype(int)] for name in "ab"
    }
    errors = rng.poisson(1.0, people)
    first, second = (
        design_of(data, data.of("wer"), 0, Options(manifest=Path("m"), by=()))
        for data in (
            counted_clips([{}] * people, errors, 10.0, **{name: named[name] for name in order})
            for order in ("ab", "ba")
        )
    )
    assert first.left_out == second.left_out == ("a",) and first.rows.tolist() == second.rows.tolist()


def test_a_level_that_no_shuffle_can_reach_is_told_before_and_after_a_run(hear: Hear) -> None:
    # As few as would be made at most for far more tests.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audits.statistics.permutation.MOST_NEEDED", 2000)
        patch.setattr("audits.statistics.permutation.MOST", 2000)
        heard = hear(counted(clips()), level=0.9995)
    said = next(warning.message for warning in heard.draft.warnings if warning.id == "level-out-of-reach")
    assert said.startswith("No finding can be made at --level 0.9995 with 2 tests by 2,000 shuffles: the smallest")
    assert said in heard.plan.preview
    silence = heard.said("groups.no-gap-shown")
    assert "Nothing was told by" in silence and said in silence
    assert "missed" not in silence and "may be chance" not in silence
    assert not [finding for finding in heard.draft.findings if finding.id == "groups.gap"]
    plain = hear(counted(clips()), level=0.9995)
    assert not [warning for warning in plain.draft.warnings if warning.id == "level-out-of-reach"]
    assert {warning.id for warning in plain.draft.warnings} >= {"few-resamples"}


def test_shuffles_are_as_many_as_the_correction_needs() -> None:
    assert not out_of_reach(enough_permutations(2000, 3, 0.9999), 3, 0.9999)
    assert not out_of_reach(enough_permutations(2000, 21, 0.999), 21, 0.999)
    assert "--permutations" in out_of_reach(20_000, 3, 0.9999)
    # No option takes as many as 21 tests would need; fewer columns would do.
    assert out_of_reach(200_000, 21, 0.9999).endswith("Take a lower --level or fewer --by columns.")
    assert out_of_reach(200_000, 1, 0.999999).endswith("Take a lower --level.")
    assert out_of_reach(enough_permutations(2000, 21, 0.9999), 21, 0.9999)
    assert not few_resamples(200, 0.95) and few_resamples(2000, 0.999)
