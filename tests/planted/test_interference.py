"""Does the matrix say what is planted: nothing of a language's copy, harm from its scrambled or ciphered self?

The text is ASCII of an artificial language; every other language is made of it. Models are small, and few.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from ciphers import permuted_letters, shuffled_bytes

from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from audits.interference import AUDIT, Options, figures
from audits.interference.convergence import failures
from audits.interference.inputs import Inputs, check
from audits.interference.losses import from_models
from audits.interference.matrix import Judged, Matrix
from audits.interference.measure import baselines_of
from audits.interference.synthetic_languages import make_language
from probes.language_models.mixture_models import fit

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {"hidden": 64, "window": 48, "batch": 24, "steps": 160, "seeds": 2, "held_out": 10_000, "workers": 1}
PLAIN = "plain"
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Cells:
    """What each source does to the plain language."""

    judged: Mapping[str, Judged]

    def value(self, source: str) -> float:
        return self.judged[source].crossed.value

    def verdict(self, source: str) -> str:
        return self.judged[source].verdict(LEVEL)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out figures, which say nothing here."""
    monkeypatch.setattr(figures, "figures", lambda *given: [])


def write(folder: Path, languages: Mapping[str, Sequence[bytes]]) -> None:
    folder.mkdir()
    for code, sentences in languages.items():
        (folder / f"{code}.txt").write_bytes(b"".join(sentence + b"\n" for sentence in sentences))


def asked(folder: Path, seed: int, **options: object) -> tuple[Options, Context]:
    given = Options(corpus=folder, **{**SMALL, **options})
    return given, Context(seed=seed, cache=Cache(folder.parent / "cache"))


def cells_of_plain(folder: Path, seed: int, sources: Sequence[str], **options: object) -> Cells:
    """Train the plain language alone and with each source; the sources alone are not needed."""
    pairs = tuple(f"{PLAIN}-{source}" for source in sources)
    given, context = asked(folder, seed, pairs=pairs, **options)
    inputs = check(given, context).inputs
    assert isinstance(inputs, Inputs)
    found = []
    for job, (chosen, number) in zip(inputs.jobs, inputs.trainings, strict=True):
        if PLAIN in chosen:
            fit(job)
            value = job.results.read(job.key)
            assert value is not None
            found.append((chosen, number, value))
    losses = from_models(inputs.languages, found)
    failed = failures(losses, baselines_of(inputs, context), given.margin)
    matrix = Matrix(losses=losses, failed=failed, level=LEVEL, correction="holm")
    family = [matrix.cell(PLAIN, source) for source in sources]
    assert all(family), failed
    return Cells(dict(zip(sources, matrix.judge([one for one in family if one]), strict=True)))


def text_of(size: int, seed: int) -> list[bytes]:
    """Return different sentences of one artificial language, ASCII."""
    return list(dict.fromkeys(make_language(size, family=70 + seed, seed=seed)))


@pytest.fixture(scope="module")
def half_of_each(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    """Return what a copy, a scrambled and a ciphered self do where the total is the same; no text is read twice."""
    text = text_of(240_000, 0)
    folder = tmp_path_factory.mktemp("total") / "corpus"
    others = {
        "copy": text,
        "shuffled": shuffled_bytes(text, seed=0),
        "clone": permuted_letters(text, seed=0),
    }
    write(folder, {PLAIN: text} | others)
    return cells_of_plain(folder, 0, tuple(others), budget="same-total", steps=100, batch=16)


@pytest.mark.slow
def test_a_copy_that_takes_half_of_the_places_changes_nothing(half_of_each: Cells) -> None:
    assert half_of_each.verdict("copy") == "indistinguishable"


@pytest.mark.slow
@pytest.mark.parametrize("source", ["shuffled", "clone"])
def test_a_self_that_teaches_something_else_hurts_and_more_than_a_copy(half_of_each: Cells, source: str) -> None:
    assert half_of_each.verdict(source) == "interference"
    copy, other = (half_of_each.judged[one].crossed for one in ("copy", source))
    assert copy.high is not None and other.low is not None and copy.high < other.low


@pytest.mark.slow
def test_noise_hurts_more_than_a_cipher_while_training_is_short(half_of_each: Cells) -> None:
    # A cipher asks for more in the end, but it teaches to look at neighbours; noise puts that off.
    assert half_of_each.value("shuffled") > half_of_each.value("clone")


@pytest.mark.slow
def test_a_copy_helps_where_it_comes_on_top_and_training_is_short(tmp_path: Path) -> None:
    text = text_of(40_000, 0)
    write(tmp_path / "corpus", {PLAIN: text, "copy": text})
    cells = cells_of_plain(tmp_path / "corpus", 0, ["copy"], budget="same-data", steps=100)
    assert cells.verdict("copy") == "synergy"


def test_models_that_never_left_the_plateau_have_no_cells_but_reasons(tmp_path: Path) -> None:
    write(tmp_path / "corpus", {code: make_language(30_000, family=at) for at, code in enumerate(("aa", "bb"))})
    options, context = asked(tmp_path / "corpus", 0, front=0, matrix_rate=0.0, steps=20, hidden=16)
    draft: Draft = drafted(AUDIT, options, context)
    assert not [one for one in draft.estimates if one.name.startswith("interference") or one.name == "asymmetry"]
    refused = [one.where for one in draft.warnings if one.id == "interference.not-converged" and "target" in one.where]
    assert sorted((str(one["target"]), str(one["source"])) for one in refused) == [("aa", "bb"), ("bb", "aa")]
    assert [one.id for one in draft.findings] == ["interference.none"]
