"""Matrices of the interference audit with verdicts by hand, and its inputs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from given_results import given

from audits.core.context import Cache, Context
from audits.interference import Options
from audits.interference.inputs import check
from audits.interference.losses import Losses
from audits.interference.matrix import Judged, Matrix
from audits.interference.measure import Counts
from audits.interference.mixtures import Mixtures
from audits.interference.settings import Inputs, settle_training
from audits.statistics.crossed import Crossed
from probes.language_models.language_corpora import Attributes

SMALL = {"layers": 1, "hidden": 8, "heads": 1, "window": 8, "batch": 4, "steps": 5, "seeds": 2, "held_out": 1000,
         "workers": 1}  # fmt: skip
"""Options of models that train in no time."""


def corpus_of(folder: Path, codes: Sequence[str]) -> Path:
    """Write a file of sentences for each language into a new folder."""
    folder.mkdir()
    for code in codes:
        lines = "".join(f"{code} {place} sentence of this language {place * 7}\n" for place in range(60))
        (folder / f"{code}.txt").write_text(lines, encoding="utf-8")
    return folder


def planned(corpus: Path, **options: Any) -> tuple[Inputs, Options]:
    """Return the inputs and options of small models of a folder of languages, as they are checked before a run."""
    asked = Options(corpus=corpus, **{**SMALL, **options})
    return check(asked, Context(cache=Cache(corpus.parent / "cache"))).inputs, asked


def inputs_of(
    languages: Sequence[str], sets: Any = (), columns: Mapping[str, Mapping[str, str]] | None = None, **more: Any
) -> Inputs:
    """Return inputs of models that were trained elsewhere; `columns` are what is known of the languages."""
    plain: dict[str, Any] = {
        "kind": "trained", "texts": {}, "tokenizer": None, "tokenizer_file": None, "jobs": (), "trainings": (),
        "training": settle_training(Options()), "table": None,
        "attributes": Attributes(path=None, columns=columns or {}, missing=()),
    }  # fmt: skip
    return Inputs(languages=tuple(languages), sets=tuple(sets), **{**plain, **more})


def judged(value: float, verdict: str, half: float = 0.05, *, sentences: bool = False) -> Judged:
    """Return a contrast of three seeds with this verdict at 95 %; the sign of the value decides between the two."""
    adjusted = {"untested": None, "indistinguishable": 0.5}.get(verdict, 0.001)
    crossed = Crossed(
        value=value, se=0.01, df=2.0, low=value - half, high=value + half, p=adjusted, seed_sd=0.01, sentence_se=0.01,
        n=9, seeds=3, seeds_known=True, sentences_known=sentences,
    )  # fmt: skip
    made = Judged(crossed=crossed, adjusted=adjusted)
    assert made.verdict(0.95) == verdict
    return made


def counts_of(
    inputs: Inputs, *, cells: Any = None, asymmetries: Any = None, losses: Any = None, failed: Any = None,
    effects: Any = (), mixtures: Mixtures | None = None, **options: Any,
) -> Counts:  # fmt: skip
    """Return the counts of a matrix with these cells, by target and source, which were judged by hand."""
    asked, cells = Options(**options), cells or {}
    found = Losses(languages=inputs.languages, cells=losses or {}, curves={}, diverged=frozenset())
    pairs = tuple(sorted({(min(cell), max(cell)) for cell in cells}))
    matrix = Matrix(losses=found, failed=failed or {}, level=0.95, correction=asked.correction, pairs=pairs)
    return given(
        Counts(
            inputs=inputs,
            options=asked,
            matrix=given(matrix, cells=cells, asymmetries=asymmetries or {}),
            baselines={},
            seed=0,
        ),
        effect_outcomes=tuple(effects),
        mixtures=mixtures or Mixtures(),
        downstream_outcomes=(),
    )
