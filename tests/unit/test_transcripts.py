"""Do the invented recognisers err as planned: where an effect was planted, and nowhere else?"""

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import jiwer
import numpy as np
import pytest
from rate_ratio import ratio

from audits.speaker_groups.populations import Counts
from audits.speaker_groups.transcripts import (
    ATTRIBUTES,
    COLUMNS,
    DELETED,
    INSERTED,
    SHARES,
    SUBSTITUTED,
    SYSTEMS,
    VOCABULARY,
    Corpus,
    compose,
    corrupt,
    write_corpus,
)
from probes.core.errors import InputError
from probes.speech.word_errors import count_words, normalise

SEEDS = range(2)


def test_sentences_have_six_to_twelve_words_of_the_vocabulary() -> None:
    rng = np.random.default_rng(0)
    sentences = [compose(rng) for _ in range(2000)]
    assert {len(words) for words in sentences} == set(range(6, 13))
    assert {word for words in sentences for word in words} == set(VOCABULARY)
    assert all(word == normalise(word, "basic") for word in VOCABULARY)
    assert len({" ".join(words) for words in sentences}) > 1950


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.7])
def test_errors_come_at_the_rate_and_in_the_mix_that_were_asked_for(rate: float) -> None:
    rng = np.random.default_rng(int(100 * rate))
    true = [compose(rng) for _ in range(6000)]
    pairs = [(" ".join(words), " ".join(corrupt(words, rate, rng))) for words in true]
    found = jiwer.process_words(*(list(side) for side in zip(*pairs, strict=True)))
    kinds = np.array([found.substitutions, found.deletions, found.insertions])
    words = sum(map(len, true))
    assert kinds.sum() / words == pytest.approx(rate, abs=4 * np.sqrt(rate * (1 - rate) / words))
    assert kinds / kinds.sum() == pytest.approx([SUBSTITUTED, DELETED, INSERTED], abs=0.025)


def test_an_aligner_finds_every_error_that_was_made() -> None:
    rng = np.random.default_rng(8)
    for _ in range(300):
        words = compose(rng)
        found = jiwer.process_words(" ".join(words), " ".join(corrupt(words, 1.0, rng)))
        assert found.substitutions + found.deletions + found.insertions == len(words)
        assert found.deletions == 0 or found.insertions == 0
        assert corrupt(words, 0.0, rng) == words


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="rate"):
        corrupt(["word"], rate, np.random.default_rng(0))


def read_rows(corpus: Corpus) -> list[dict[str, str]]:
    with corpus.manifest.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def read_predictions(path: Path) -> list[tuple[str, str]]:
    """Return names as they are written, and transcripts, in the order of the file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".tsv":
        assert lines[0] == "path\tprediction"
        return [(name, text) for name, text in (line.split("\t") for line in lines[1:])]
    if path.suffix == ".jsonl":
        return [(row["audio_filepath"], row["pred_text"]) for row in map(json.loads, lines)]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def counted(corpus: Corpus, rows: list[dict[str, str]], system: str) -> Counts:
    """Count the errors of the transcripts that hold a word."""
    heard = {Path(name).stem: text for name, text in read_predictions(corpus.predictions[system]) if text}
    kept = [row for row in rows if Path(row["path"]).stem in heard]
    edits = [
        count_words(normalise(row["text"], "basic"), normalise(heard[Path(row["path"]).stem], "basic")) for row in kept
    ]
    return Counts(
        errors=np.array([edit.errors for edit in edits]),
        words=np.array([edit.length for edit in edits]),
        speaker=np.array([int(row["speaker"][1:]) for row in kept]),
        labels={attribute: np.array([row[attribute] for row in kept]) for attribute in ATTRIBUTES},
    )


def pooled(parts: list[Counts]) -> Counts:
    return Counts(
        errors=np.concatenate([part.errors for part in parts]),
        words=np.concatenate([part.words for part in parts]),
        speaker=np.concatenate([240 * number + part.speaker for number, part in enumerate(parts)]),
        labels={attribute: np.concatenate([part.labels[attribute] for part in parts]) for attribute in ATTRIBUTES},
    )


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> list[Corpus]:
    return [write_corpus(tmp_path_factory.mktemp("corpus"), seed=seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> list[Corpus]:
    return [write_corpus(tmp_path_factory.mktemp("twin"), seed=seed, balanced=True) for seed in SEEDS]


@pytest.fixture(scope="module")
def counts(corpora: list[Corpus], twins: list[Corpus]) -> dict[str, Counts]:
    """Count the errors of every system, and as "twin" those of amber without any effect."""
    rows = [read_rows(corpus) for corpus in corpora]
    asked = [(system.name, system.name, corpora) for system in SYSTEMS] + [("twin", "amber", twins)]
    return {
        key: pooled([counted(corpus, its, name) for corpus, its in zip(made, rows, strict=True)])
        for key, name, made in asked
    }


def fingerprint(folder: Path) -> Mapping[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_seed_gives_the_same_bytes(corpora: list[Corpus], tmp_path: Path) -> None:
    again = write_corpus(tmp_path, seed=0)
    first, second, third = (fingerprint(corpus.folder) for corpus in (corpora[0], again, corpora[1]))
    assert first == second and len(first) == 1 + len(SYSTEMS)
    assert not set(first.values()) & set(third.values())


def test_the_manifest_lists_every_clip_of_every_speaker(corpora: list[Corpus]) -> None:
    rows = read_rows(corpora[0])
    assert tuple(rows[0]) == COLUMNS and 3400 < len(rows) < 3800
    clips = Counter(row["speaker"] for row in rows)
    assert len(clips) == 240 and (min(clips.values()), max(clips.values())) == (12, 18)
    assert len({row["path"] for row in rows}) == len(rows)
    people = {(row["speaker"], *(row[attribute] for attribute in ATTRIBUTES)) for row in rows}
    found = Counter(person[1:] for person in people)
    assert len(people) == 240 and all(abs(found[levels] - 240 * share) < 1 for levels, share in SHARES.items())
    for row in rows:
        assert row["path"].endswith(".flac") and row["text"][0].isupper() and row["text"].endswith(".")
        assert 0.3 < (float(row["duration"]) - 0.5) / len(row["text"].split()) < 0.46


@pytest.mark.parametrize(
    ("system", "suffix", "missing", "empty"),
    [("amber", ".wav", 0, 6), ("birch", ".mp3", 12, 0), ("cedar", "", 0, 20)],
)
def test_each_file_has_its_own_form_and_flaws(
    corpora: list[Corpus], system: str, suffix: str, missing: int, empty: int
) -> None:
    for corpus in corpora:
        names = [Path(row["path"]).stem for row in read_rows(corpus)]
        found = read_predictions(corpus.predictions[system])
        stems = [Path(name).stem for name, _ in found]
        assert len(set(stems)) == len(stems) and set(stems) <= set(names)
        assert len(names) - len(stems) == missing and sum(not text for _, text in found) == empty
        assert {Path(name).suffix for name, _ in found} == {suffix}
        assert {Path(name).parent.name for name, _ in found} == {"clips" if suffix else ""}
        if system == "cedar":
            assert stems == sorted(stems) and all(text == text.upper() for _, text in found)
        if system == "birch":
            assert stems == sorted(stems, reverse=True)


def rate(counts: Counts, **fixed: str) -> float:
    inside = np.logical_and.reduce([counts.labels[name] == level for name, level in fixed.items()])
    return float(counts.errors[inside].sum() / counts.words[inside].sum())


@pytest.mark.parametrize("system", ["amber", "birch", "cedar"])
def test_every_system_errs_as_planned(counts: dict[str, Counts], system: str) -> None:
    # The twin has the same speakers with the same factors: only the noise of the single errors remains.
    scale = {"amber": 1.0, "birch": 0.8, "cedar": 1.25}[system]
    for age, factor in {"young": 1.0, "middle": 1.1, "old": 1.8}.items():
        for gender in ("female", "male"):
            planted = scale * factor * (2.2 if (system, age, gender) == ("amber", "middle", "female") else 1)
            found = rate(counts[system], age=age, gender=gender) / rate(counts["twin"], age=age, gender=gender)
            assert found == pytest.approx(planted, rel=0.12), (age, gender)


@pytest.mark.parametrize("system", ["amber", "birch", "cedar"])
def test_accent_matters_only_where_age_is_left_out(counts: dict[str, Counts], system: str) -> None:
    def gap(counts: Counts, **fixed: str) -> float:
        merged = np.where(counts.labels["accent"] == "west", "west", "others")
        labels = {**counts.labels, "accent": merged}
        either = Counts(errors=counts.errors, words=counts.words, speaker=counts.speaker, labels=labels)
        return ratio(either, "accent", "west", "others", **fixed)

    # Shares of young, middle and old are 5, 35 and 60 % in west, and 50, 35 and 15 % elsewhere.
    middle = 1.1 * (1.3 if system == "amber" else 1)
    planted = (0.05 + 0.35 * middle + 0.6 * 1.8) / (0.5 + 0.35 * middle + 0.15 * 1.8)
    assert gap(counts[system]) / gap(counts["twin"]) == pytest.approx(planted, rel=0.06)
    for age in ("middle", "old"):
        assert gap(counts[system], age=age) / gap(counts["twin"], age=age) == pytest.approx(1, abs=0.12)


def test_the_balanced_twin_has_the_same_sentences_and_no_effect(
    corpora: list[Corpus], twins: list[Corpus], counts: dict[str, Counts]
) -> None:
    for plain, twin in zip(corpora, twins, strict=True):
        assert twin.manifest.read_bytes() == plain.manifest.read_bytes()
    found = counts["twin"]
    assert found.errors.sum() / found.words.sum() == pytest.approx(0.12, rel=0.08)
    assert ratio(found, "age", "old", "young") == pytest.approx(1, abs=0.16)
    assert ratio(found, "accent", "west", "south") == pytest.approx(1, abs=0.16)
    assert ratio(found, "gender", "female", "male", age="middle") == pytest.approx(1, abs=0.2)


def test_a_speaker_is_as_hard_for_one_system_as_for_another(counts: dict[str, Counts]) -> None:
    rates = []
    for system in ("birch", "cedar"):
        found = counts[system]
        young = found.labels["age"] == "young"
        errors, words = (np.bincount(found.speaker[young], values[young]) for values in (found.errors, found.words))
        rates.append(errors[words > 0] / words[words > 0])
    # Were the factors equal and single errors the only noise, it would be about 0.7.
    assert np.corrcoef(rates)[0, 1] > 0.5


def test_the_answer_says_what_was_planted() -> None:
    plain, balanced = (Corpus(folder=Path("corpus"), balanced=flag) for flag in (False, True))
    assert all(
        word in plain.answer for word in ("1.8", "amber", "age=middle&gender=female", "2.2 times", "0.8", "west")
    )
    assert balanced.answer == "No attribute has an effect in any system; birch makes 0.8 times the errors of amber."
    assert {name: len(plan.effects) for name, plan in plain.plans.items()} == {"amber": 3, "birch": 2, "cedar": 2}
    assert not any(plan.effects for plan in balanced.plans.values())
