"""Does each normaliser forgive what it should, and nothing else? Systems whose errors are known, by kind."""

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest

from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from audits.speaker_groups import AUDIT, Options
from audits.speaker_groups.inputs import check
from audits.speaker_groups.measure import measure

SPEAKERS, TAKES = 24, 3
SAID = (
    "The colour of the ice cream is grey.",
    "Our neighbour has a white paper at home.",
    "She analysed the icecream in the theatre.",
)
SPELT = (
    "the color of the icecream is gray",
    "our neighbor has a whitepaper at home",
    "she analyzed the ice cream in the theater",
)
"""What a system writes whose errors are spellings and compounds alone: by `basic` 4, 3 and 4 of 8, 8 and 7 words."""
WRONG = tuple(" ".join(["well", *text.split()[1:]]) for text in SPELT)
"""The same with the first word of each in error."""


def options_of(folder: Path, heard: Sequence[str], normalise: str) -> Options:
    """Write a corpus in which everybody says the same and is heard so, and return the options of its audit."""
    rows = [
        {
            "path": f"{speaker}/{take}.wav",
            "speaker": f"s{speaker}",
            "accent": ("north", "south")[speaker % 2],
            "text": SAID[take],
            "prediction": heard[take],
        }
        for speaker in range(SPEAKERS)
        for take in range(TAKES)
    ]
    with (folder / "clips.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return Options(
        manifest=folder / "clips.csv",
        by=("accent",),
        normalise=normalise,
        bootstrap=200,
        permutations=100,
        min_speakers=6,
        max_order=1,
    )


def context(folder: Path) -> Context:
    return Context(cache=Cache(folder / "cache"), seed=0)


def audit(folder: Path, heard: Sequence[str], normalise: str) -> Draft:
    return drafted(AUDIT, options_of(folder, heard, normalise), context(folder))


def rate(draft: Draft, metric: str) -> float:
    (found,) = draft.select("rate", metric=metric, group="all")
    assert found.value is not None
    return found.value


def test_spellings_and_compounds_are_no_errors_of_the_leaderboard(tmp_path: Path) -> None:
    forgiven = audit(tmp_path, SPELT, "open-asr")
    assert rate(forgiven, "wer") == 0 and rate(forgiven, "cer") == 0
    assert rate(audit(tmp_path, SPELT, "basic"), "wer") == pytest.approx((4 + 3 + 4) / (8 + 8 + 7))
    # Only a spelling's table and the joining of words tell the two apart.
    assert rate(audit(tmp_path, SPELT, "whisper-english"), "wer") == pytest.approx((4 + 3 + 4) / (8 + 8 + 7))


def test_words_in_error_stay_errors(tmp_path: Path) -> None:
    assert rate(audit(tmp_path, WRONG, "open-asr"), "wer") == pytest.approx(3 / (8 + 8 + 7))


def test_rules_of_a_file_forgive_what_they_say(tmp_path: Path) -> None:
    rules = tmp_path / "rules.csv"
    rules.write_text(
        "pattern,replacement\n([a-z])our\\b,\\1or\ngrey,gray\ntheatre,theater\nanalysed,analyzed\n(ice|white) ,\\1\n"
    )
    assert rate(audit(tmp_path, SPELT, str(rules)), "wer") == 0
    rules.write_text("pattern,replacement\n([a-z])our\\b,\\1or\n")
    assert rate(audit(tmp_path, SPELT, str(rules)), "wer") == pytest.approx((3 + 2 + 4) / (8 + 8 + 7))


def test_confused_words_are_those_that_are_counted(tmp_path: Path) -> None:
    found = {}
    for how in ("basic", "open-asr"):
        options = options_of(tmp_path, SPELT, how)
        inputs = check(options, context(tmp_path)).inputs
        (found[how],) = measure(options, inputs, context(tmp_path)).confusions
    assert found["open-asr"] == ()
    assert {(one.said, one.written) for one in found["basic"]} >= {("colour", "color"), ("grey", "gray")}
