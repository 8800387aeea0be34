"""The counts of the audit: scores of every output, of outputs with planted errors, and of noisy decodes.

Whatever is resampled later rests on these numbers: no model runs twice for an interval.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from audits.core.context import Context
from audits.faithfulness import Options
from audits.faithfulness.corruptions import Pool, corrupt
from audits.faithfulness.faithful_texts import REFERENCES, faithful_texts
from audits.faithfulness.inputs import Inputs
from audits.faithfulness.metrics import KINDS, Family, Floats, build, compute_all, score_all
from audits.faithfulness.samples import Sample
from audits.statistics import generator
from probes.texts.evidence import Grounded
from probes.texts.overlap_precision import OverlapPrecision
from probes.texts.support_checks import SupportCheck

if TYPE_CHECKING:
    # With torch behind it, which metrics of words do not need.
    from probes.texts.noisy_decoding import Written

SHUFFLED, NOISY = "shuffled", "noisy"
LEAST = "least_information"
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """Outputs with one kind of error at one rate: rows of their sources, and their scores by metric.

    Parameters
    ----------
    failed
        Sources in which no error of the kind can be planted that is surely false.
    """

    corruption: str
    strength: float
    rows: Integers
    scores: Mapping[str, Floats]
    failed: int = 0


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What was measured.

    Parameters
    ----------
    scores
        Of every output, by metric, shape (samples,); NaN where a metric is not defined.
    mentions
        By kind of mention: all, and those without support, of every output.
    faithful, faithful_scores
        Rows of the texts in which errors are planted, and the scores of these texts before.
    source
        What these texts are.
    decodes
        By share of steps without the context: rows and scores of what the model wrote; the second of share 0 is of
        another seed.
    spans
        Of words without support, by row and family, for records.
    """

    samples: tuple[Sample, ...]
    apart: Mapping[str, int]
    scores: Mapping[str, Floats]
    mentions: Mapping[str, tuple[Integers, Integers]] = field(default_factory=dict)
    source: str = ""
    faithful: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    faithful_scores: Mapping[str, Floats] = field(default_factory=dict)
    planted: tuple[Planted, ...] = ()
    decodes: tuple[Planted, ...] = ()
    truncated: int = 0
    spans: Mapping[str, Sequence[Sequence[tuple[int, int]]]] = field(default_factory=dict)

    @property
    def systems(self) -> tuple[str, ...]:
        """Names of the systems, in their order."""
        return tuple(dict.fromkeys(sample.system for sample in self.samples))

    @cached_property
    def contexts(self) -> Integers:
        """The context of each sample, as a number, shape (samples,)."""
        return np.unique([sample.context_id for sample in self.samples], return_inverse=True)[1].astype(np.int64)


def measure(options: Options, inputs: Inputs, context: Context) -> Counts:
    """Score all outputs, plant errors in faithful ones and score these, and decode with noise where asked."""
    samples = inputs.samples
    pairs = [sample.pair for sample in samples]
    given = _given(samples, options.scores)
    if not inputs.families:
        return Counts(samples=samples, apart=inputs.apart, scores=given)
    families = build(inputs.families, pairs, inputs.folders, inputs.template, options, context)
    if context.machines.part is not None:
        _share(options, inputs, families, context)
    with context.progress.phase("Scoring outputs", len(pairs), "outputs") as advance:
        scores = score_all(families, pairs)
        advance(len(pairs))
    source, rows, texts = faithful_texts(samples, options.plant, context.seed)
    kept = _of_texts(families, source)
    with context.progress.phase("Scoring faithful texts", len(texts), "outputs") as advance:
        before = score_all(kept, texts)
        advance(len(texts))
    checks = {name: family for name, family in families.items() if isinstance(family, SupportCheck)}
    return Counts(
        samples=samples,
        apart=inputs.apart,
        scores={**scores, **given},
        mentions={KINDS[name]: check.count(pairs) for name, check in checks.items()},
        source=source,
        faithful=rows,
        faithful_scores=before,
        planted=_planted(options, inputs, kept, rows, texts, context),
        decodes=_decoded(options, inputs, families, texts, context),
        truncated=_truncated(families, pairs),
        spans=_spans(families, pairs),
    )


def _of_texts(families: Mapping[str, Family], source: str) -> dict[str, Family]:
    # A reference that is scored against itself says nothing about metrics that lean on it.
    return {name: family for name, family in families.items() if not (source == REFERENCES and name == "parent")}


def _share(options: Options, inputs: Inputs, families: Mapping[str, Family], context: Context) -> None:
    """Do a part of what the models have to do: for all texts, and then for those that they write themselves."""
    source, rows, texts = faithful_texts(inputs.samples, options.plant, context.seed)
    kept = _of_texts(families, source)
    compute_all(families, [sample.pair for sample in inputs.samples])
    compute_all(kept, texts)
    for _, _, outputs in _errors(options, inputs, rows, texts, context):
        compute_all(kept, _others(texts, outputs)[1])
    compute_all(kept, [pair for _, pair in _swapped(texts, context.seed)])
    written = _written(options, inputs, texts, context)
    context.machines.join(last=not written)
    for _, one in written:
        compute_all(families, _others(texts, one.read())[1])
    context.machines.join(last=True)


def _given(samples: Sequence[Sample], names: Sequence[str]) -> dict[str, Floats]:
    columns = [name.removeprefix("-") for name in names]
    return {name: np.array([sample.scores.get(name, np.nan) for sample in samples]) for name in columns}


def _planted(
    options: Options,
    inputs: Inputs,
    families: Mapping[str, Family],
    rows: Integers,
    texts: Sequence[Grounded],
    context: Context,
) -> tuple[Planted, ...]:
    """Plant errors of each kind at each rate, and give each text the context of another one."""
    found = []
    total = len(options.corrupt) * len(inputs.rates) + 1
    with context.progress.phase("Planting errors", total, "kinds") as advance:
        for kind, rate, outputs in _errors(options, inputs, rows, texts, context):
            found.append(_scored(families, kind, rate, texts, outputs))
            advance(1)
        swapped = _swapped(texts, context.seed)
        if swapped:
            rows = np.array([at for at, _ in swapped], dtype=np.int64)
            scored = score_all(families, [pair for _, pair in swapped])
            found.append(Planted(corruption=SHUFFLED, strength=1.0, rows=rows, scores=scored))
        advance(1)
    return tuple(found)


def _errors(
    options: Options, inputs: Inputs, rows: Integers, texts: Sequence[Grounded], context: Context
) -> Iterator[tuple[str, float, list[str]]]:
    """Yield each kind of error and rate with the texts that hold such errors, empty where none can be planted."""
    pool = Pool.fit([sample.pair.evidence for sample in inputs.samples])
    for kind, rate in [(kind, rate) for kind in options.corrupt for rate in inputs.rates]:
        # Without the rate, so that errors of one text nest from rate to rate.
        made = [
            corrupt(
                pair, kind, rate, generator(context.seed, "corruption", kind, inputs.samples[row].id, str(row)), pool
            )
            for row, pair in zip(rows.tolist(), texts, strict=True)
        ]
        yield kind, rate, ["" if one is None else one.output for one in made]


def _others(texts: Sequence[Grounded], outputs: Sequence[str]) -> tuple[list[int], list[Grounded]]:
    """Return where there are other outputs for the same contexts, and these."""
    there = [at for at, output in enumerate(outputs) if output.strip()]
    return there, [replace(texts[at], output=outputs[at]) for at in there]


def _scored(
    families: Mapping[str, Family], corruption: str, strength: float, texts: Sequence[Grounded], outputs: Sequence[str]
) -> Planted:
    """Return the scores of other outputs for the same contexts; those that are empty have failed."""
    there, pairs = _others(texts, outputs)
    return Planted(
        corruption=corruption,
        strength=strength,
        rows=np.array(there, dtype=np.int64),
        scores=score_all(families, pairs) if pairs else {},
        failed=len(outputs) - len(there),
    )


def _swapped(texts: Sequence[Grounded], seed: int) -> list[tuple[int, Grounded]]:
    """Give each text the evidence of another one; texts that have no other are left out."""
    order = generator(seed, "shuffled").permutation(len(texts))
    found = []
    for at, other in zip(order.tolist(), np.roll(order, 1).tolist(), strict=True):
        if texts[at].evidence != texts[other].evidence:
            found.append((at, replace(texts[at], evidence=texts[other].evidence)))
    return sorted(found, key=lambda pair: pair[0])


def _decoded(
    options: Options,
    inputs: Inputs,
    families: Mapping[str, Family],
    texts: Sequence[Grounded],
    context: Context,
) -> tuple[Planted, ...]:
    """Score what the model writes for each context at each share of steps without it."""
    written = _written(options, inputs, texts, context)
    return tuple(_scored(families, NOISY, alpha, texts, one.read()) for alpha, one in written)


def _written(
    options: Options, inputs: Inputs, texts: Sequence[Grounded], context: Context
) -> "list[tuple[float, Written]]":
    """Decode for each context at each share of steps without it, and last without noise and with another seed."""
    if not inputs.alphas:
        return []
    from probes.texts.noisy_decoding import SAMPLING, write

    assert inputs.template is not None
    found = []
    shares = (0.0, *(alpha for alpha in inputs.alphas if alpha))
    # Without noise once more with another seed: there no metric may tell the two apart.
    for alpha, seed in [*((alpha, context.seed) for alpha in shares), (0.0, context.seed + 1)]:
        written = write(
            inputs.folders["model"],
            texts,
            alpha,
            template=inputs.template,
            seed=seed,
            context_free=inputs.folders.get("context_free"),
            sampling=replace(SAMPLING, max_new_tokens=options.max_new_tokens),
            **context.running(options.batch),
        )
        found.append((alpha, written))
    return found


def _spans(families: Mapping[str, Family], pairs: Sequence[Grounded]) -> dict[str, list[tuple[tuple[int, int], ...]]]:
    """Return the characters of what has no support, by family, and of the token with the least information."""
    found = {}
    for name, family in families.items():
        if isinstance(family, SupportCheck | OverlapPrecision):
            found["words" if name == "overlap" else name] = [family.unsupported(pair) for pair in pairs]
        elif name == "cxmi":
            spans = family.lowest_span(pairs)  # type: ignore[attr-defined]
            found[LEAST] = [() if span is None else (span,) for span in spans]
    return found


def _truncated(families: Mapping[str, Family], pairs: Sequence[Grounded]) -> int:
    """Return how many contexts the language model cuts."""
    if "cxmi" not in families:
        return 0
    from probes.texts.token_information import Information

    family = families["cxmi"]
    assert isinstance(family, Information)
    return int(family.truncated(pairs).sum())
