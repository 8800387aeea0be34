"""Does the demo write four languages that the audit takes, and, where it is balanced, four parts of one?"""

import csv
from pathlib import Path

import pytest

from audits.core.context import Cache, Context
from audits.interference import demo
from audits.interference.inputs import check
from probes.language_models.language_corpora import read_language

CODES = tuple(sorted(demo.LANGUAGES))


def context(folder: Path, seed: int = 0) -> Context:
    return Context(seed=seed, cache=Cache(folder))


def corpus(folder: Path, *, balanced: bool, seed: int = 0) -> Path:
    made = demo.prepare(context(folder, seed), balanced=balanced).corpus
    assert made is not None
    return made


@pytest.mark.parametrize(("balanced", "budget"), [(False, "same-data"), (True, "same-total")])
def test_the_example_fits_the_audit_and_is_made_once(tmp_path: Path, balanced: bool, budget: str) -> None:
    options = demo.prepare(context(tmp_path), balanced=balanced)
    assert options.corpus is not None and options.budget == budget
    written = (options.corpus / "langs.csv").stat().st_mtime_ns
    assert demo.prepare(context(tmp_path), balanced=balanced) == options
    assert (options.corpus / "langs.csv").stat().st_mtime_ns == written
    planned = check(options, context(tmp_path))
    assert planned.inputs.languages == CODES
    assert len(planned.inputs.jobs) == 10 * demo.SEEDS
    # No held-out sentence is trained on as another language, no file stands twice, all have script and family.
    assert planned.notes == planned.warnings == ()


def test_each_seed_and_kind_has_an_example_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SIZE", demo.SIZE // 10)
    folders = [corpus(tmp_path, balanced=balanced, seed=seed) for seed, balanced in ((0, False), (1, False), (0, True))]
    assert len({(folder / "bl.txt").read_bytes() for folder in folders}) == len(set(folders)) == 3


def test_languages_are_of_the_size_script_and_family_that_are_said(tmp_path: Path) -> None:
    folder = corpus(tmp_path, balanced=False)
    with (folder / "langs.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["code"]: (row["family"], row["script"]) for row in csv.DictReader(file)}
    texts = {code: (folder / f"{code}.txt").read_bytes() for code in CODES}
    assert tuple(sorted(rows)) == CODES
    assert len(set(rows.values())) == 3 and rows["al1"] == rows["al2"]
    for code, text in texts.items():
        assert 0.85 * demo.SIZE < len(text) <= demo.SIZE
        assert text.isascii() == (rows[code][1] == "Latn")
    words = {code: set(text.replace(b".", b"").split()) for code, text in texts.items()}
    assert len(words["al1"] & words["al2"]) > 4 * len(words["al1"] & words["bl"])


def test_balanced_parts_are_large_enough_to_be_read_once_and_share_no_sentence(tmp_path: Path) -> None:
    folder = corpus(tmp_path, balanced=True)
    asked = demo.STEPS * demo.BATCH * demo.WINDOW
    seen: set[bytes] = set()
    for code in CODES:
        text = read_language(folder, code, seed=0, train_bytes=asked, held_bytes=demo.HELD)
        assert sum(len(line) + 1 for line in text.train) > asked - 200
        lines = {*text.train, *text.held}
        assert not lines & seen
        seen |= lines
