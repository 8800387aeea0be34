"""Are the words that a system takes for others counted right, and is a group named only where it clearly does more?"""

import csv
from pathlib import Path

import numpy as np
import pytest

from audits.core import runner
from audits.core.context import Cache, Context, Draft
from audits.core.groups import group_sets
from audits.report.pages.content import listing
from audits.speaker_groups import AUDIT, Options
from audits.speaker_groups.confusions import Excess, excesses, most_frequent
from audits.speaker_groups.counts import Utterances
from probes.speech.word_edits import NOTHING, WordAligner, WordEdits
from probes.speech.word_errors import count_edits

WORDS = ("two", "goat", "found", "the", "river", "again")


def word_edits(references: list[str], hypotheses: list[str]) -> WordEdits:
    aligner = WordAligner()
    aligner.add(references, hypotheses)
    return aligner.edits()


def spoken(rng: np.random.Generator, count: int) -> list[str]:
    """Return sentences of up to nine words, some of none."""
    return [" ".join(rng.choice(WORDS, int(rng.integers(0, 10)))) for _ in range(count)]


def test_the_edits_are_those_that_are_counted() -> None:
    rng = np.random.default_rng(0)
    references, transcripts = spoken(rng, 400), spoken(rng, 400)
    counted, found = count_edits(references, transcripts, "word"), word_edits(references, transcripts)
    kinds = {
        "insertions": found.said == NOTHING,
        "deletions": found.written == NOTHING,
        "substitutions": (found.said != NOTHING) & (found.written != NOTHING),
    }
    for name, chosen in kinds.items():
        assert np.bincount(found.pair[chosen], minlength=400).tolist() == getattr(counted, name).tolist()
    assert (found.said != found.written).all()


def test_many_edits_are_those_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    references, transcripts = spoken(rng, 50), spoken(rng, 50)
    whole = word_edits(references, transcripts)
    monkeypatch.setattr("probes.speech.word_edits.BLOCK", 7)
    parts = word_edits(references, transcripts)
    assert whole.words == parts.words
    assert [whole.pair.tolist(), whole.said.tolist()] == [parts.pair.tolist(), parts.said.tolist()]


def test_ties_go_by_the_alphabet_and_not_by_the_order_of_clips() -> None:
    references, transcripts = ["one goat", "two", "by", ""], ["one boat", "too", "", "uh"]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        said, written = ([texts[at] for at in order] for texts in (references, transcripts))
        found = most_frequent(word_edits(said, written), said, 3)
        assert [(one.said, one.written, one.kind) for one in found] == [
            ("", "uh", "inserted"),
            ("by", "", "deleted"),
            ("goat", "boat", "substituted"),
        ]
        assert [int(one.chances.counts.sum()) for one in found] == [4, 1, 1]


def heard(seed: int, rate: dict[str, float], *, people: int = 60) -> list[tuple[Excess, ...]]:
    """Return the groups named for "two" written as "too", with a planted rate on each accent."""
    rng = np.random.default_rng(seed)
    accents = [("north", "south", "west")[speaker % 3] for speaker in range(people)]
    rows, references, transcripts, speakers = [], [], [], []
    for speaker, accent in enumerate(accents):
        # Speakers differ, as real ones do.
        own = min(1.0, rate[accent] * rng.gamma(2.0, 0.5))
        for _ in range(6):
            rows.append({"accent": accent})
            speakers.append(speaker)
            references.append("the two goats")
            transcripts.append("the too goats" if rng.random() < own else "the two goats")
    data = Utterances(
        systems=("one",),
        counts=(),
        speakers=np.array(speakers),
        attributes=rows,
        controls={},
        sets=tuple(group_sets(rows, ["accent"], max_order=1)),
    )
    confusions = most_frequent(word_edits(references, transcripts), references, 5)
    (found,) = excesses(data, [confusions], least=10, level=0.95)
    return found


def test_a_group_that_clearly_makes_an_error_more_often_is_named() -> None:
    (groups,) = heard(0, {"north": 0.05, "south": 0.5, "west": 0.05})
    (south,) = groups
    assert south.group == "accent=south" and south.low < 0.45 < south.high
    assert 5 <= south.speakers <= 20


def test_few_speakers_who_make_an_error_name_no_group() -> None:
    (groups,) = heard(0, {"north": 0.0, "south": 0.03, "west": 0.0}, people=36)
    assert groups == ()


@pytest.mark.slow
def test_groups_alike_are_seldom_named() -> None:
    named = sum(any(heard(seed, dict.fromkeys(("north", "south", "west"), 0.2))) for seed in range(300))
    # 15 are expected at most; 27 have a chance of 0.2 %.
    assert named <= 26


def draft_of(folder: Path, rows: list[dict[str, object]]) -> Draft:
    path = folder / "clips.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    options = Options(manifest=path, by=("accent",), bootstrap=200, permutations=100, min_speakers=6)
    context = Context(cache=Cache(folder / "cache"))
    return runner.carry_out(AUDIT, options, runner.check(AUDIT, options, context), context)


def clips(people: int = 24) -> list[dict[str, object]]:
    """Return clips on half of whose speakers "two" is written as "too"."""
    return [
        {
            "path": f"{speaker}-{take}.wav",
            "speaker": f"s{speaker}",
            "accent": ("north", "south")[speaker % 2],
            "text": "the two goats found the river again",
            "prediction": f"the {'too' if speaker % 2 else 'two'} goats found the river{' again' * (take > 0)}",
        }
        for speaker in range(people)
        for take in range(4)
    ]


def test_the_table_says_what_how_often_by_whom_and_on_which_group(tmp_path: Path) -> None:
    draft = draft_of(tmp_path, clips())
    (figure,) = [figure for figure in draft.figures if figure.id == "confusions"]
    table = listing(figure)
    assert table is not None and table.titles == ("said", "written", "times", "of", "by", "more often on")
    first, second = table.rows
    assert first[:5] == ("two", "too", "48", "96", "12 speakers")
    assert first[5].startswith("south speakers (accent): by 1.00 (") and first[5].endswith("), 12 speakers")
    assert second == ("again", "(nothing)", "24", "96", "24 speakers", "")


def test_what_each_group_has_is_counted(tmp_path: Path) -> None:
    rows = clips()
    rows[0]["accent"] = ""
    groups = {row.group: dict(row.counts) for row in draft_of(tmp_path, rows).coverage.groups}
    assert groups == {
        "all": {"speakers": 24, "clips": 96, "words": 672},
        "accent=north": {"speakers": 12, "clips": 47, "words": 329},
        "accent=south": {"speakers": 12, "clips": 48, "words": 336},
        "accent=unknown": {"speakers": 1, "clips": 1, "words": 7},
    }


def test_counts_alone_tell_of_no_words(tmp_path: Path) -> None:
    rows = [
        {key: row[key] for key in ("path", "speaker", "accent")} | {"errors": at % 3, "words": 7}
        for at, row in enumerate(clips())
    ]
    assert "confusions" not in {figure.id for figure in draft_of(tmp_path, rows).figures}
