"""The audit from plan to draft: sample, encode, compare, estimate, judge, draw, list."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from audits.context import Context, Draft, Plan
from audits.precision_recall import GENERATED, Options
from audits.precision_recall.clustering import Clustered, cluster
from audits.precision_recall.comparing import Comparison, Referee
from audits.precision_recall.differences import add_differences
from audits.precision_recall.diversity import Texts, describe
from audits.precision_recall.estimating import Found, Measured, estimate
from audits.precision_recall.figures import draw
from audits.precision_recall.inputs import ASKED, CEILING, FLOOR, REFERENCE, Candidate, Inputs, needed
from audits.precision_recall.judging import judge
from audits.precision_recall.listing import records_of
from audits.precision_recall.outlook import warnings_of
from audits.precision_recall.pools import Pool, pool, set_against_itself, shuffled_words
from audits.precision_recall.relabelling import Relabelled, enough, relabel
from audits.records import Coverage, Skipped
from audits.statistics import generator
from probes.errors import InputError
from probes.loading.texts import TextSet
from probes.text_embeddings import encode_all
from probes.text_generation import generate_all, parameters_of
from probes.text_words import count_words, first_words

LIMITATIONS = (
    "All scores are of texts as the encoder sees them: what it does not tell apart, no score can. They are to be "
    "compared with each other and with the ceiling, not with numbers by another encoder, k or number of texts.",
    "Recall is generous to noisy texts: their balls are wide and reach many reference texts. Where density falls and "
    "recall does not, trust density and coverage.",
    "Intervals hold the texts that were drawn to be a sample of what the model writes and of what people write. They "
    "do not hold another training run, other prompts or another encoder, nor texts that come in families, such as ten "
    "answers to one prompt: these are held to be independent, and differences are then shown too easily.",
    "MAUVE, Self-BLEU and distinct-n depend on the number of texts: compare them within this report only.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What was read, measured and estimated, for whoever judges, draws and lists it."""

    inputs: Inputs
    sets: Mapping[str, Texts]
    measured: Measured
    found: Found


def run(options: Options, plan: Plan, context: Context) -> Draft:
    """Carry the audit out on checked inputs."""
    inputs: Inputs = plan.inputs
    subject = plan.subject
    if inputs.generation is not None:
        candidates = tuple(_sampled(one, inputs, options, context) for one in inputs.candidates)
        subject = plan.subject and replace(plan.subject, parameters=parameters_of(inputs.generation.folder))
        inputs = _fitted(replace(inputs, candidates=candidates))
    draft = Draft(limitations=list(LIMITATIONS), coverage=_coverage(inputs), subject=subject)
    for id, message, where in warnings_of(inputs, options):
        draft.warn(id, message, **where)
    if inputs.size < plan.inputs.size:
        fewer = f"{inputs.size:,} of every side are taken, not {plan.inputs.size:,}"
        draft.warn("fewer-texts", f"Some texts that were sampled have no word: {fewer}.")
    sets = _sets(inputs, options, context)
    for one in sets.values():
        if one.shortened:
            text = f"{one.shortened:,} of {len(one.pool):,} texts of {one.name} were longer than is read, and were cut."
            draft.warn("shortened", text, candidate=one.name)
    measured = _measured(inputs, sets, options, context)
    # Many small products: threads would wait for one another longer than they work.
    with threadpool_limits(limits=1, user_api="blas"):
        found = estimate(draft, measured, inputs, context)
        described = {name: one for name, one in sets.items() if name != FLOOR}
        describe(draft, found, described, measured.main, context)
        add_differences(draft, found, measured, inputs, context)
    results = Results(inputs=inputs, sets=sets, measured=measured, found=found)
    judge(draft, results, context)
    draft.figures = draw(draft, results)
    draft.records = records_of(results)
    if inputs.generation is not None:
        draft.files = {GENERATED: _generated(inputs)}
    return draft


def _generated(inputs: Inputs) -> bytes:
    """Return the sampled texts as JSON lines, whose texts can be given as --candidate again."""
    sampled = {name for name, _ in inputs.generation.samplings} if inputs.generation else set()
    lines = [
        json.dumps({"candidate": one.name, "prompt": int(place), "text": text}, ensure_ascii=False)
        for one in inputs.candidates
        if one.name in sampled and one.texts is not None
        for place, text in zip(one.texts.places, one.texts.texts or (), strict=True)
    ]
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def _sampled(candidate: Candidate, inputs: Inputs, options: Options, context: Context) -> Candidate:
    """Sample a candidate's texts, if it has none."""
    generation = inputs.generation
    if candidate.texts is not None or generation is None:
        return candidate
    sampling = dict(generation.samplings)[candidate.name]
    made = generate_all(
        generation.folder,
        generation.prompts,
        sampling,
        seed=context.seed,
        batch=options.batch,
        device=context.device,
        dtype=context.dtype,
        cache=context.cache,
        progress=context.progress,
        label=f"Sampling {candidate.name}",
    )
    texts = [one.text if options.keep_prompt else one.continuation.strip() for one in made]
    most = inputs.settings.max_words
    cut = [text if most is None else first_words(text, most) for text in texts]
    kept = [place for place, text in enumerate(cut) if text]
    if not kept:
        raise InputError(
            f"None of the {len(texts):,} texts sampled at {candidate.name} has a word.",
            where="--generate",
            hint="Look at what the model writes: its end token may come first.",
        )
    words = np.array([count_words(texts[place]) for place in kept], dtype=np.int64)
    made_set = TextSet(
        path=generation.folder.path,
        sha256=generation.folder.sha256,
        given=len(texts),
        places=generation.places[kept],
        texts=tuple(cut[place] for place in kept),
        embeddings=None,
        skipped={"empty text": len(texts) - len(kept)} if len(kept) < len(texts) else {},
        words=words,
        shortened=0 if most is None else int((words > most).sum()),
    )
    return replace(candidate, texts=made_set)


def _fitted(inputs: Inputs) -> Inputs:
    """Take fewer texts of every side where a candidate came out with fewer."""
    size = min(inputs.size, *(len(one.texts) for one in inputs.candidates if one.texts is not None))
    least = needed(inputs.settings)
    if size < least:
        raise InputError(
            f"Only {size:,} texts of a candidate have words; that takes {least}.",
            where="--generate",
            hint="Give more prompts, or look at what the model writes.",
        )
    return replace(inputs, size=size, control=min(inputs.control, size))


def _coverage(inputs: Inputs) -> Coverage:
    sets = [inputs.reference, *(one.texts for one in inputs.candidates if one.texts is not None)]
    reasons = Counter[str]()
    for one in sets:
        reasons.update(one.skipped)
    skipped = tuple(Skipped(reason=reason, count=count) for reason, count in sorted(reasons.items()))
    return Coverage(given=sum(one.given for one in sets), used=sum(len(one) for one in sets), skipped=skipped)


def _sets(inputs: Inputs, options: Options, context: Context) -> dict[str, Texts]:
    """Return every set as vectors, the reference first and the floor last."""
    named: list[tuple[str, TextSet]] = [(REFERENCE, inputs.reference)]
    named += [(one.name, one.texts) for one in inputs.candidates if one.texts is not None]
    found: dict[str, Texts] = {}
    for name, texts in named:
        vectors, cut = _vectors(name, texts.texts or (), texts.embeddings, inputs, options, context)
        made = _pool(name, vectors, inputs.size, inputs, options, context)
        most = inputs.settings.max_words
        if texts.embeddings is None and most is not None:
            # Cut twice, by words when read and by tokens when encoded: a text counts once.
            cut = cut | (texts.words > most)
        found[name] = Texts(name=name, pool=made, texts=texts.texts, words=texts.words, shortened=int(cut.sum()))
    if inputs.control and inputs.encoder is not None and inputs.reference.texts is not None:
        dealt = tuple(shuffled_words(inputs.reference.texts, context.seed))
        vectors, _ = _vectors(FLOOR, dealt, None, inputs, options, context)
        made = _pool(FLOOR, vectors, inputs.control, inputs, options, context)
        found[FLOOR] = Texts(name=FLOOR, pool=made, texts=dealt, words=inputs.reference.words, shortened=0)
    return found


def _vectors(
    name: str,
    texts: Sequence[str],
    embeddings: NDArray[np.float32] | None,
    inputs: Inputs,
    options: Options,
    context: Context,
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the vectors of texts, and which of these the encoder cut."""
    vectors, cut = embeddings, np.zeros(0 if embeddings is None else len(embeddings), dtype=np.bool_)
    if inputs.encoder is not None:
        encoded = encode_all(
            inputs.encoder,
            texts,
            reference=inputs.reference.texts or (),
            device=context.device,
            dtype=context.dtype,
            batch=options.batch,
            cache=context.cache,
            progress=context.progress,
            label=f"Encoding {name}",
        )
        vectors, cut = encoded.vectors, encoded.cut
    assert vectors is not None
    if inputs.settings.normalisation == "unit":
        # In float64, whose squares neither overflow nor vanish.
        wide = vectors.astype(np.float64)
        lengths = np.linalg.norm(wide, axis=1, keepdims=True)
        vectors = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0).astype(np.float32)
    return vectors, cut


def _pool(
    name: str, vectors: NDArray[np.float32], size: int, inputs: Inputs, options: Options, context: Context
) -> Pool:
    """Draw from a set: several times where any set has more texts than a draw takes, but the same ones only once."""
    counts = [len(inputs.reference), *(len(one.texts) for one in inputs.candidates if one.texts is not None)]
    repeats = 1 if max(counts) == size else options.repeats
    keep = inputs.settings.duplicates == "keep"
    return pool(name, vectors, size, repeats=repeats, splits=options.splits, keep=keep, seed=context.seed)


def _measured(inputs: Inputs, sets: Mapping[str, Texts], options: Options, context: Context) -> Measured:
    names = [one.name for one in inputs.candidates]
    reference = sets[REFERENCE].pool
    others = [sets[name].pool for name in names]
    apart = None
    if inputs.control:
        # Only their number counts here: which texts a draw takes is dealt anew, into two sides without a common one.
        own = replace(reference, draws=np.tile(reference.draws[:1], (options.repeats, 1)))
        apart = set_against_itself(own, inputs.control, name=CEILING, seed=context.seed)
    # Of one size, candidates are judged by the draws that the ceiling has: differences are then paired.
    together = inputs.control == inputs.size
    main: dict[str, Comparison] = {}
    controls: dict[str, Comparison] = {}
    draws = len(apart[0].draws) if apart else 0
    total = (0 if together else len(reference.draws) * len(names)) + draws * (len(names) + 1 + (FLOOR in sets))
    with context.progress.phase("Comparing", total, "comparisons") as advance:
        if apart is not None:
            judged = [_resized(one, inputs.control, draws, context) for one in others] if not together else others
            rest = [apart[1], *([sets[FLOOR].pool] if FLOOR in sets else [])]
            compared = Referee(apart[0], inputs.settings, context).compare([*judged, *rest], advance)
            controls = {one.name: one for one in compared}
        if together and apart is not None:
            reference = apart[0]
            main = {name: controls[name] for name in names}
        else:
            main = {one.name: one for one in Referee(reference, inputs.settings, context).compare(others, advance)}
    clusters: dict[str, Clustered] = {}
    if options.curves:
        pairs = [(reference, other) for other in others]
        if apart is not None:
            pairs += [(apart[0], one) for one in (apart[1], *([sets[FLOOR].pool] if FLOOR in sets else []))]
        with context.progress.phase("Clustering", len(pairs), "sets") as advance:
            for own, other in pairs:
                clusters[other.name] = cluster(own, other, options.repeats, context)
                advance(1)
    relabelled = {} if inputs.control else _relabelled(inputs, sets, context)
    return Measured(main=main, controls=controls, clusters=clusters, relabelled=relabelled)


def _relabelled(inputs: Inputs, sets: Mapping[str, Texts], context: Context) -> dict[str, Relabelled | None]:
    """Return what candidates would score if all texts were of one source, where the reference has no ceiling."""
    names = [one.name for one in inputs.candidates]
    # As many as are asked together: of each candidate its scores, and its likeness in words.
    count = enough((len(ASKED) + (inputs.reference.texts is not None)) * len(names), context.level)
    with context.progress.phase("Relabelling", count * len(names), "relabellings") as advance:
        return {
            name: relabel(sets[REFERENCE].pool, sets[name].pool, inputs.settings, count, context, advance)
            for name in names
        }


def _resized(one: Pool, size: int, draws: int, context: Context) -> Pool:
    """Return a pool with smaller draws."""
    order = generator(context.seed, "draws", one.name, "controls")
    return replace(one, draws=np.stack([order.permutation(len(one))[:size] for _ in range(draws)]))
