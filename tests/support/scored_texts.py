"""Counts of `miles precision-recall` with given scores, for tests of what is made of them: table, findings, figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard
from scipy.stats import t

from audits.core.context import Claim, Draft
from audits.precision_recall import AUDIT, Options
from audits.precision_recall.counts import Counts, Texts
from audits.precision_recall.estimates import estimates
from audits.precision_recall.findings import findings
from audits.precision_recall.pools import pool
from audits.precision_recall.settings import settle
from audits.precision_recall.sides import REFERENCE, Candidate, Inputs
from audits.precision_recall.tallies import Comparison, Tally
from probes.texts.text_encoders import TextEncoderSpec
from probes.texts.text_files import TextSet
from probes.vectors.support_metrics import METRICS

K, SIZE, SPLITS = 5, 500, 64
SIGNS = hadamard(SPLITS)
"""Noise of halves: that of two sets of other numbers has nothing in common."""
HALF = 0.03
"""Half the width of the interval of a difference of two sets."""
GAP = HALF * 2**0.5 / float(t.isf(0.025, SPLITS))
FAIR = {"precision": 0.9, "recall": 0.9, "density": 1.0, "coverage": 0.95}

MINILM = TextEncoderSpec(
    reference="minilm", kind="transformer", folder=None, pooling="mean", layer=-1, max_tokens=256, unit=True
)


def fair(**more: float) -> dict[str, float]:
    """Return the scores of the reference against itself, some of them changed by a number."""
    return {metric: value + more.get(metric, 0.0) for metric, value in FAIR.items()}


def parts(value: float, gap: float = GAP, number: int = 0, draws: int = 2) -> NDArray[np.float64]:
    """Return a value and halves that lie `gap` apart, above and below by the signs of a number."""
    rows = np.full((1 + 2 * SPLITS, draws), value, dtype=np.float64)
    halves = SIGNS[number % SPLITS][:, None] * gap / 2
    rows[1::2] += halves
    rows[2::2] -= halves
    return rows


def tally(judged: Any = 1, apart: Any = 0, share: Any = 0.5, *, empty: Any = 0, nearest: Any = 0, count: int = SIZE,
          distance: Any = None) -> Tally:  # fmt: skip
    """Return counts of texts, each a number for all or one for each; without distances radii are 2 wide."""

    def filled(value: Any, kind: type = np.int64) -> NDArray[Any]:
        return np.array(np.broadcast_to(np.asarray(value, dtype=kind), count))

    share = filled(share, np.float64)
    far = np.where(np.isfinite(share), 2 * share, 7.0) if distance is None else filled(distance, np.float64)
    return Tally(filled(judged), filled(apart), filled(empty), filled(nearest), far, share)


def compared(
    name: str,
    scores: Mapping[str, float],
    *,
    number: int = 0,
    ks: Sequence[int] = (K,),
    gap: float = GAP,
    hubs: float = 0.5,
    grouped: tuple[float, float] = (0.0, 0.0),
    generated: Tally | None = None,
    reference: Tally | None = None,
    first: tuple[Tally, Tally] | None = None,
) -> Comparison:
    """Return a comparison with these scores, and 0.8 of what is not said; without `first` there was one draw."""
    values = {**dict.fromkeys(METRICS, 0.8), **FAIR, **scores}
    generated, reference = generated or tally(), reference or tally()
    return Comparison(
        name=name,
        size=SIZE,
        scores={(metric, k): parts(values[metric], gap, number) for metric in METRICS for k in ks},
        hubs={k: (parts(hubs, gap, number), 26) for k in ks},
        grouped=dict.fromkeys(ks, grouped),
        generated=generated,
        reference=reference,
        first=first or (generated, reference),
    )


def described(
    name: str, kinds: Any, *, texts: Sequence[str] | None = None, words: Sequence[int] = (), places: Any = None,
    **more: Any,
) -> Texts:  # fmt: skip
    """Return a set whose vectors are the numbers of its kinds, drawn once and whole."""
    vectors = np.asarray(kinds, dtype=np.float32)[:, None]
    return Texts(
        name=name,
        pool=pool(name, vectors, len(vectors), repeats=1, splits=SPLITS, keep=False, seed=0),
        texts=None if texts is None else tuple(texts),
        places=np.arange(1, len(vectors) + 1) if places is None else np.asarray(places),
        words=np.array(words, dtype=np.int64),
        shortened=0,
        **more,
    )


def counted(
    candidates: Mapping[str, Mapping[str, float] | Comparison],
    controls: Mapping[str, Mapping[str, float] | Comparison] | None = None,
    *,
    ks: Sequence[int] = (K,),
    heat: Mapping[str, float] | None = None,
    sets: Sequence[Texts] = (),
    where: str = "line",
    control: int | None = None,
    encoder: TextEncoderSpec | None = None,
    **more: Any,
) -> Counts:
    """Return the counts of candidates, and of controls, by their scores; sets that are not given have no copies."""
    numbered = enumerate({**candidates, **(controls or {})}.items())
    ready = {
        name: one if isinstance(one, Comparison) else compared(name, one, number=number, ks=ks)
        for number, (name, one) in numbered
    }
    names = (REFERENCE, *candidates)
    known = {one.name: one for one in sets}
    whole = {
        name: known.get(name) or described(name, np.arange(SIZE) + number * SIZE) for number, name in enumerate(names)
    }
    files = {name: file_of(one, where) for name, one in whole.items()}
    inputs = Inputs(
        settings=settle(Options(reference=files[REFERENCE].path, k=tuple(map(str, ks)))),
        reference=files[REFERENCE],
        candidates=tuple(
            Candidate(name=name, texts=files[name], temperature=(heat or {}).get(name)) for name in candidates
        ),
        encoder=encoder,
        generation=None,
        size=SIZE,
        control=(SIZE if controls else 0) if control is None else control,
    )
    main = {name: ready[name] for name in candidates}
    return Counts(
        **{"inputs": inputs, "sets": whole, "main": main, "controls": ready if controls else {}, "clusters": {}, **more}
    )


def file_of(one: Texts, where: str = "line") -> TextSet:
    """Return the file that a set was read from."""
    return TextSet(
        path=Path(f"{one.name}.jsonl"),
        sha256=one.pool.sha256,
        given=len(one.pool),
        places=one.places,
        texts=one.texts,
        embeddings=None if one.texts else one.pool.vectors[one.pool.point],
        skipped={},
        words=one.words,
        shortened=one.shortened,
        where=where,
    )


def estimated(counts: Counts) -> Draft:
    """Return the table of counts."""
    draft = Draft(measures=AUDIT.by_name)
    estimates(draft, counts)
    return draft


def told(counts: Counts) -> dict[str, list[Claim]]:
    """Return the findings by their ids."""
    return found_in(judged(counts))


def judged(counts: Counts) -> Draft:
    """Return the table of counts with its findings."""
    draft = estimated(counts)
    findings(draft, counts)
    return draft


def found_in(draft: Draft) -> dict[str, list[Claim]]:
    """Return the findings of a draft by what follows `texts.` in their ids."""
    found: dict[str, list[Claim]] = {}
    for one in draft.findings:
        found.setdefault(one.id.removeprefix("texts."), []).append(one)
    return found
