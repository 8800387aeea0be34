"""What `--dry-run` and `--detect` print of the effects that a run could show."""

from pathlib import Path

import pytest
import small_world
from small_world import FAITHFULNESS, PHONES, TRACKING, call

GROUPS = ["audit-groups", "clips.csv", "--predictions", "ours=ours.tsv", "--by", "gender", "accent"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the inputs of these audits, without any run."""
    folder = tmp_path_factory.mktemp("detectable") / "work"
    folder.mkdir()
    for name in ("clips", "transcripts", "tokens", "variables", "outputs"):
        getattr(small_world, f"_{name}")(folder)
    return folder


def test_a_dry_run_says_which_gaps_could_be_shown_and_what_one_needs(inputs: Path) -> None:
    found = call([*GROUPS, "--dry-run", "--detect", "0.1"], inputs)
    assert found.code == 0
    lines = [" ".join(line.split()) for line in found.out.splitlines()]
    assert "can show with probability 0.8, at the level 0.95:" in lines
    assert any(line.startswith("gap in WER by gender, female and male: 0.2") for line in lines)
    assert any(line.startswith("gap in WER by accent, north and south: needs") for line in lines)
    assert "--detect 0.1, with the same probability:" in lines


def test_a_group_that_is_too_small_shows_no_size(inputs: Path) -> None:
    found = call([*GROUPS, "--min-speakers", "11", "--dry-run"], inputs)
    assert found.code == 0 and "female, male: no size (10 speakers" in found.out


def test_a_higher_level_asks_for_a_larger_gap(inputs: Path) -> None:
    def size(*more: str) -> float:
        out = call([*GROUPS, "--dry-run", *more], inputs).out
        return float(out.partition("female and male: ")[2].split()[0])

    assert size("--level", "0.99") > size() > size("--level", "0.8")


@pytest.mark.parametrize("words", [PHONES, TRACKING, FAITHFULNESS], ids=lambda words: words[0])
def test_other_audits_say_what_they_could_show(words: list[str], inputs: Path) -> None:
    found = call([*words[:-2], "--dry-run", "--detect", "0.2"], inputs)
    assert found.code == 0 and "can show" in found.out and "or more (" in found.out
    assert "0.2, with the same probability:" in found.out and ": needs" in found.out


@pytest.mark.parametrize(
    "more", [["--detect", "0.1"], ["--dry-run", "--detect", "0"], ["--dry-run", "--detect", "nan"]]
)
def test_an_effect_that_cannot_be_asked_for_is_refused(more: list[str], inputs: Path) -> None:
    found = call([*GROUPS, *more], inputs)
    assert found.code == 2 and "--detect" in found.out
