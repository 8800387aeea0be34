"""The audit from plan to draft: place, encode, measure, estimate, compare, judge, draw, list."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from audits.context import Context, Draft, Plan
from audits.groups import ALL
from audits.phoneme_errors import ALIGNMENTS, Options
from audits.phoneme_errors.alignment_errors import add_alignment_errors
from audits.phoneme_errors.comparing import Changes, compare
from audits.phoneme_errors.corpus import SHARED, Corpus, corpus_of
from audits.phoneme_errors.correlations import add_correlations
from audits.phoneme_errors.estimating import Found, estimate
from audits.phoneme_errors.figures import draw
from audits.phoneme_errors.inputs import Inputs, check_unchanged, chosen_layers
from audits.phoneme_errors.judging import judge
from audits.phoneme_errors.measuring import Measured, measure, probe_of
from audits.phoneme_errors.outlook import NOTHING_COMPARED, warnings_of
from audits.phoneme_errors.speech import alignment_table, embeddings_of, placed, tokens_of
from audits.phoneme_errors.values import Values
from audits.records import Coverage, Skipped
from probes.loading.checkpoints import ModelFolder
from probes.loading.tokens import Tokens, Vectors

FIXED = ("speaker", "status", "tokens", "phones")
LIMITATIONS = (
    "A systematic error is one that a linear probe trained on the group's own tokens mends. It is measured at the "
    "number of tokens that the group has; with more, a common probe may mend it too.",
    "The tokens that are matched to a group in number come from more speakers than the group has, which makes them a "
    "little more instructive: a small systematic error may go unseen.",
    "They come from everyone in the corpus' proportions: a group that is most of the corpus is nearly all, and its "
    "systematic error near nought whatever the encoder does: sizes are not to be compared between groups of other "
    "shares, or between corpora.",
    "variance_accuracy_correlation takes variance and accuracy of a speaker from the same tokens: what chance did to "
    "these is part of it. split_correlation takes them from different phones, and is what the findings rest on.",
    "What a group's own probe leaves of a gap is more than its noise: phones that lie close together for the group "
    "are hard to read with any data.",
    "A random error is variance: of contexts, rates of speech, recordings and ages within the group as well as of the "
    "encoder. What of it the encoder makes is not told apart.",
    "Intervals are over speakers. The training speakers of a probe are themselves a sample, which the intervals of "
    "systematic errors and remaining gaps do not contain: with few speakers in many dimensions they are somewhat too "
    "short.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What was measured and estimated, for whoever judges and draws it."""

    corpus: Corpus
    measured: Measured
    found: Found
    changes: Changes | None


def run(options: Options, plan: Plan, context: Context) -> Draft:
    """Carry the audit out on checked inputs."""
    inputs, tokens, stacks = _ready(plan.inputs, options, context)
    corpus = inputs.corpus or corpus_of(tokens, options)
    layers = chosen_layers(inputs.layers, _common([vectors for vectors, _ in stacks]))
    draft = Draft(limitations=list(LIMITATIONS), coverage=_coverage(inputs, tokens, corpus))
    for id, message, where in warnings_of(corpus, options):
        if id != NOTHING_COMPARED:
            # That is a finding.
            draft.warn(id, message, **where)
    for note in inputs.notes:
        draft.warn(note.id, note.message)
    method = probe_of(stacks[0][0], layers, corpus, options)
    measured = [
        measure(vectors, layers, corpus, method, key, options, context, unchanged=lambda: check_unchanged(inputs))
        for vectors, key in stacks
    ]
    # Many small products: threads would wait for one another longer than they work.
    with threadpool_limits(limits=1, user_api="blas"):
        found = estimate(draft, measured[0], corpus, options, context)
        add_correlations(draft, found, measured[0], corpus, options, context)
        changes = compare(draft, measured[0], measured[1], corpus, options, context) if len(measured) > 1 else None
    results = Results(corpus=corpus, measured=measured[0], found=found, changes=changes)
    judge(draft, results, options, context)
    draft.figures = draw(draft, results, options)
    draft.records = _records(results)
    if inputs.speech is not None and inputs.speech.aligner is not None:
        add_alignment_errors(draft, inputs.speech.recordings, corpus, options, context)
        draft.files = {ALIGNMENTS: alignment_table(inputs.speech.recordings)}
    return draft


def _common(stacks: Sequence[Vectors]) -> tuple[int, ...]:
    """Return the layers that every encoder has."""
    return tuple(layer for layer in stacks[0].layers if all(layer in other.layers for other in stacks[1:]))


def _ready(inputs: Inputs, options: Options, context: Context) -> tuple[Inputs, Tokens, list[tuple[Vectors, object]]]:
    """Place the phones where nobody has, and run the encoders over them.

    Returns
    -------
    the tokens, and for each encoder its vectors with what they depend on
    """
    if inputs.speech is None:
        files = [one for one in (inputs.tokens, inputs.second) if isinstance(one, Tokens)]
        how = [list(options.features), options.transform]
        return inputs, files[0], [(one.vectors, [one.sha256, *how]) for one in files]
    speech = placed(inputs.speech, options, context)
    folders = [speech.folder, *([inputs.second] if isinstance(inputs.second, ModelFolder) else [])]
    stacks = [embeddings_of(folder, speech.recordings, options, context) for folder in folders]
    for vectors, label in zip(stacks, ("Encoding", "Encoding with the second encoder"), strict=False):
        vectors.compute(context.progress, label)
    tokens = tokens_of(speech.recordings, stacks[0], options.by)
    return (
        replace(inputs, speech=speech),
        tokens,
        [(vectors, [vectors.key, options.batch, tokens.sha256]) for vectors in stacks],
    )


def _coverage(inputs: Inputs, tokens: Tokens, corpus: Corpus) -> Coverage:
    """Count tokens; a clip that gave none is one item that was given and left out."""
    reasons = Counter(tokens.skipped)
    reasons[SHARED] += len(tokens.phones) - corpus.used
    clips = Counter(f"clip: {reason}" for _, reason in inputs.speech.skipped) if inputs.speech else Counter[str]()
    skipped = tuple(Skipped(reason=reason, count=count) for reason, count in sorted((reasons + clips).items()))
    return Coverage(given=tokens.given + clips.total(), used=corpus.used, skipped=skipped)


def _records(results: Results) -> Sequence[Mapping[str, Any]]:
    """Return one row a speaker: what was said, how well it was read in each layer, and how far it scatters."""
    corpus, layers = results.corpus, results.measured.layers
    trials = layers[0].hits.trials
    rows: list[Mapping[str, Any]] = []
    columns = [Values(counts, corpus, results.measured.mix).tokens(ALL, "all") for counts in layers]
    for number, name in enumerate(corpus.names):
        row: dict[str, Any] = {"speaker": name, "tokens": int(trials[number].sum())}
        row["phones"] = int((trials[number] > 0).sum())
        row |= {_column(key): level for key, level in corpus.attributes[number].items()}
        for counts, (right, given) in zip(layers, columns, strict=True):
            spread = {"own_variance": counts.scatter.own[0], "distance": counts.scatter.around[0]}
            cells = {"accuracy": right[number] / given[number] if given[number] else np.nan}
            cells |= {key: values[number] for key, values in spread.items()}
            row |= {
                f"{key}_{counts.layer}": round(float(value), 6) if np.isfinite(value) else ""
                for key, value in cells.items()
            }
        rows.append(row)
    return rows


def _column(name: str) -> str:
    """Return the column of an attribute in records.csv, apart from the columns that are always there."""
    return (
        f"attribute_{name}" if name in FIXED or name.startswith(("accuracy_", "own_variance_", "distance_")) else name
    )
