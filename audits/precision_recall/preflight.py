"""Cost of a run and warnings of what it will not be able to say, before anything is measured."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from audits.core.numbers import counted, minutes
from audits.core.records import Coordinate, Warning
from audits.core.wording import listed
from audits.precision_recall import Options
from audits.precision_recall.clustering import CURVES, MOST_TEXTS, SLOPES
from audits.precision_recall.comparing import STRIPS
from audits.precision_recall.divergence_curves import prd_slopes
from audits.precision_recall.diversity import QUANTILES
from audits.precision_recall.embedding_clusters import bucket_count
from audits.precision_recall.reckoning import TIMED, disk_row, memory_row, seconds_of
from audits.precision_recall.sequences import ORDERS
from audits.precision_recall.sides import CEILING, FLOOR, REFERENCE, RELABELLED, Inputs
from probes.texts.text_words import count_words, first_words, unspaced_share, words_of
from probes.vectors.support_metrics import METRICS

FEW = 1000
"""Texts a side below which the authors of the metrics call them hardly usable."""
FEW_CLUSTERS = 50
WIDTH = 512
"""Numbers of a vector where no encoder has said how many: between those of usual ones."""
UNSPACED = 0.05
"""Share of letters of scripts without spaces from which it is said that they count as words."""
MOST_NAMED = 6
COMMON, RARE = 0.5, 0.1
"""Shares of texts with the same first word on one side and on the other that are warned of."""
_PRODUCTS = 4e10
"""Products and sums a second of one core of a small virtual machine."""
_A_TEXT = 0.02
"""Seconds that a small encoder takes for a sentence."""


def coordinates_of(inputs: Inputs) -> Mapping[str, tuple[Coordinate, ...]]:
    """Return every key that an estimate of the run can have, with its values."""
    return {
        "candidate": (REFERENCE, *inputs.names, CEILING),
        "against": (REFERENCE, *inputs.names, CEILING, FLOOR, RELABELLED),
        "metric": (*METRICS, *CURVES, "self_bleu"),
        "k": inputs.settings.k,
        "side": ("precision", "recall"),
        "lambda": tuple(round(float(slope), 4) for slope in prd_slopes(SLOPES)),
        "n": tuple(range(1, ORDERS + 1)),
        "correction": ("holm",),
        "statistic": ("mean", *(name for name, _ in QUANTILES)),
    }


def warnings_of(inputs: Inputs, options: Options) -> tuple[Warning, ...]:
    """Return warnings that the inputs alone already give."""
    found: list[Warning] = []
    if inputs.size < FEW:
        text = f"{inputs.size:,} texts a side are few: scores depend on their number, and their intervals are wide."
        found.append(Warning(id="few-texts", message=text))
    if options.curves and bucket_count(inputs.size) < FEW_CLUSTERS:
        text = (
            f"With {inputs.size:,} texts a side there are {bucket_count(inputs.size)} clusters: MAUVE and the curve "
            "are rough; their authors ask for thousands of texts."
        )
        found.append(Warning(id="few-clusters", message=text))
    if not inputs.control:
        text = (
            f"The reference has {counted(len(inputs.reference), 'texts')}, too few to be set against itself: there is "
            "no ceiling and no floor. Candidates are held against labels dealt anew."
        )
        found.append(Warning(id="no-controls", message=text))
    elif inputs.control < inputs.size:
        text = (
            f"The reference can be set against itself with {inputs.control:,} texts a side only, not {inputs.size:,}: "
            "ceiling, floor and the differences from them are of that size."
        )
        found.append(Warning(id="smaller-controls", message=text))
    if inputs.control and inputs.encoder is None:
        text = "Embeddings hold no words to deal anew: there is no floor."
        found.append(Warning(id="no-floor", message=text))
    if inputs.encoder is not None and inputs.encoder.weak:
        text = (
            "tfidf sees words and letters, not meaning: fluent nonsense from common words passes. Its numbers are weak "
            "evidence; --encoder minilm (extra text) or a model of yours sees more."
        )
        found.append(Warning(id="weak-encoder", message=text))
    for name, texts in inputs.sets.items():
        if len(texts.words):
            found += _of_lengths(name, texts.words, inputs.reference.words)
        if texts.texts and inputs.reference.texts:
            found += _of_beginnings(name, texts.texts, inputs.reference.texts)
    if options.keep_prompt:
        found += _of_prompts(inputs)
    found += _of_scripts({name: texts.texts for name, texts in inputs.sets.items() if texts.texts})
    return tuple(found)


def _of_prompts(inputs: Inputs) -> list[Warning]:
    """Warn of sampled texts that begin with words of a prompt, which the model did not write."""
    made = inputs.generation
    if made is None:
        return []
    lengths = {int(place): count_words(text) for place, text in zip(made.places, made.prompts, strict=True)}
    found = []
    for name, _ in made.samplings:
        texts = inputs.sets.get(name)
        given = 0 if texts is None else sum(lengths.get(int(place), 0) for place in texts.places)
        if texts is None or not given:
            continue
        share = 100 * given / max(int(texts.words.sum()), given)
        text = (
            f"{share:.0f} % of the words of {name} are those of its prompts, which no model wrote: they make bad texts "
            "look better. --no-keep-prompt scores what follows them."
        )
        found.append(Warning(id="prompts-inside", message=text, where={"candidate": name}))
    return found


def _of_scripts(sides: Mapping[str, Sequence[str]]) -> list[Warning]:
    """Warn of scripts without spaces, whose letters are counted as words."""
    shares = {name: unspaced_share(texts) for name, texts in sides.items()}
    names = [name for name, share in shares.items() if share > UNSPACED]
    if not names:
        return []
    text = (
        f"Texts of {_several(names)} are in a script written without spaces between words. Each of its letters counts "
        "as a word: in the floor, Self-BLEU, distinct-n, lengths and --max-words. Compare these numbers with no text "
        "that has spaces."
    )
    return [Warning(id="unspaced-script", message=text)]


def _several(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMED
    return listed([*names[:MOST_NAMED], *([f"{rest} more"] if rest > 0 else [])])


def _of_lengths(name: str, words: NDArray[np.int64], reference: NDArray[np.int64]) -> list[Warning]:
    median = float(np.median(words))
    if len(reference):
        low, high = (float(end) for end in np.quantile(reference, (0.25, 0.75)))
        if not low <= median <= high:
            text = (
                f"Half of the reference texts have {low:.0f} to {high:.0f} words, the middle text of {name} has "
                f"{median:.0f}: part of any difference may be one of length."
            )
            return [Warning(id="other-lengths", message=text, where={"candidate": name})]
    return []


def _of_beginnings(name: str, texts: Sequence[str], reference: Sequence[str]) -> list[Warning]:
    """Warn of a first word, such as a heading, in nearly all texts of one side and hardly any of the other."""
    firsts = [[words_of(first_words(text, 1))[:1] for text in side] for side in (reference, texts)]
    counts = [Counter(word for words in side for word in words) for side in firsts]
    for one, other, owner in ((0, 1, "the reference"), (1, 0, name)):
        word, count = counts[one].most_common(1)[0]
        shares = [counts[side][word] / counts[side].total() for side in (one, other)]
        if count > 1 and shares[0] >= COMMON and shares[1] <= RARE:
            text = (
                f"{shares[0]:.0%} of the texts of {owner} begin with {word[:30]!r}, {shares[1]:.0%} on the other side: "
                "part of any difference may be one of layout."
            )
            return [Warning(id="other-beginnings", message=text, where={"candidate": name})]
    return []


def cost_of(inputs: Inputs, options: Options) -> tuple[tuple[str, str], ...]:
    """Return the cost of the run in words."""
    rows: list[tuple[str, str]] = []
    names = inputs.names
    rows.append(("judged", f"{listed(names[:8])}{' and more' if len(names) > 8 else ''} against the reference"))
    counts = [len(texts) for texts in inputs.sets.values()]
    draws = "" if inputs.size == max(counts) else f", {options.repeats} draws"
    rows.append(("texts", f"{inputs.size:,} of every side{draws}, k = {listed([str(k) for k in inputs.settings.k])}"))
    sampled = 0
    if inputs.generation is not None:
        sampled = len(inputs.generation.prompts) * len(inputs.generation.samplings)
        most = max(sampling.max_new_tokens for _, sampling in inputs.generation.samplings)
        rows.append(("sampling", f"{sampled:,} texts of at most {most} new tokens"))
    if inputs.encoder is not None:
        texts = sum(counts) + sampled + len(inputs.reference) * bool(inputs.control)
        rows.append(("encoder", f"{inputs.encoder.reference}: {inputs.encoder.description}"))
        seconds = 0.0 if inputs.encoder.weak else texts * _A_TEXT
        rows.append(
            ("forwards", f"{texts:,} texts" + (f", some {minutes(seconds)} on one CPU core" if seconds else ""))
        )
    rows.append(memory_row(inputs, options, width := width_of(inputs)))
    if inputs.size >= STRIPS:
        rows.append(disk_row(inputs, options, width))
    if inputs.size >= TIMED:
        return tuple(rows)
    passes = options.repeats * (2 * (len(names) + 2) + 1)
    seconds = passes * 2 * inputs.size**2 * width / _PRODUCTS
    seconds += passes * options.splits * inputs.size * 2e-6
    rows.append(_time_row(seconds, inputs, options))
    return tuple(rows)


def measured_of(inputs: Inputs, options: Options, device: str) -> tuple[tuple[str, str], ...]:
    """Return the time of many texts from a block of distances, which is computed now."""
    where = "on one CPU core" if device == "cpu" else f"on {device}"
    return (_time_row(seconds_of(inputs, options, width_of(inputs), device), inputs, options, where),)


def width_of(inputs: Inputs) -> int:
    """Return the width of the vectors; before texts are encoded, that of a usual encoder."""
    given = inputs.reference.embeddings
    return WIDTH if given is None else given.shape[1]


def _time_row(seconds: float, inputs: Inputs, options: Options, where: str = "on one CPU core") -> tuple[str, str]:
    if options.curves:
        clustered = min(inputs.size, MOST_TEXTS)
        seconds += options.repeats * len(inputs.names) * 3.0 * (clustered / 4000) ** 2
    return ("time", f"some {minutes(seconds)} of comparing {where}")
