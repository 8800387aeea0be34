"""Measure the quality of generated texts (precision, density) and how much of a reference they cover (recall).

From texts or their embeddings, for any number of models, temperatures or seeds set against one reference.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audits.core.measures import SHARE, Measure
from audits.core.option_groups import Workers
from audits.core.options import option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary

DUPLICATES = ("distinct", "keep")
NORMALISATIONS = ("none", "unit")
PRESETS = ("none", "pr4llm")
POOLINGS = ("auto", "mean", "last", "cls")
GENERATED = "generated.jsonl"
"""File of the run folder with the texts that --generate sampled."""
_EMBEDDING, _SAMPLING, _GENERATION = "Embeddings", "Numbers and intervals", "Generation"
_SAMPLED: dict[str, Any] = {"panel": _GENERATION, "only_with": ("generate",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Workers):
    """Options of `miles precision-recall`."""

    reference: Path = option(
        "Texts of the kind that is wanted: JSONL, CSV, Parquet, TXT (a text a line), also .gz, a data set of Hugging "
        "Face (a folder, FOLDER:SPLIT, hf://datasets/OWNER/NAME@REVISION/SPLIT), or embeddings as NPZ or NPY.",
        required=True,
        metavar="FILE",
    )
    candidate: tuple[str, ...] = option(
        "Generated texts under a name, in the same forms; repeatable.",
        (),
        listed=False,
        metavar="NAME=FILE",
    )
    temperature: tuple[str, ...] = option(
        "Temperature at which a candidate was sampled; those that have one are a sweep; repeatable.",
        (),
        listed=False,
        metavar="NAME=T",
    )
    text_col: str = option(
        "Key or column of the texts, or a path into JSON such as messages.-1.content. Several: the first that a file "
        "has. SIDE=NAME is for one side alone: reference, prompts or a candidate's name.",
        "text",
        metavar="NAME,...|SIDE=NAME,...",
    )
    preset: str = option(
        "Published settings, unless your options say otherwise: pr4llm is gpt2-large, last token, unit norm, "
        "PCA 0.9, k 4, 4,000 texts of at most 370 words, duplicates kept.",
        "none",
        choices=PRESETS,
        metavar="none|pr4llm",
    )
    encoder: str | None = option(
        "What turns texts into vectors: a Hugging Face or sentence-transformers folder, a hub id, minilm (extra text) "
        "or tfidf (built in, weak). Default: minilm where it is installed, else tfidf.",
        metavar="PATH|HUB-ID|minilm|tfidf",
        panel=_EMBEDDING,
    )
    pooling: str | None = option(
        "What stands for a text: the mean of its tokens, the last or the first; auto: what suits the encoder.",
        choices=POOLINGS,
        metavar="auto|mean|last|cls",
        panel=_EMBEDDING,
    )
    layer: float | None = option(
        "Layer of the encoder: -1 the last, 0 the embeddings, a fraction such as 0.5 the middle.",
        metavar="N",
        panel=_EMBEDDING,
    )
    max_tokens: int | None = option(
        "Tokens after which the encoder cuts a text.", metavar="N", panel=_EMBEDDING, least=1
    )
    max_words: int | None = option(
        "Words after which a text is cut, on both sides.", metavar="N", panel=_EMBEDDING, least=1
    )
    normalisation: str | None = option(
        "Leave vectors as they are, or give all of them the length 1.",
        choices=NORMALISATIONS,
        metavar="none|unit",
        panel=_EMBEDDING,
    )
    pca: float | None = option(
        "Keep the principal components of reference and candidate that reach this share of variance; 0: all.",
        metavar="SHARE",
        panel=_EMBEDDING,
        least=0,
        under=1,
    )
    batch: int = option("Most texts in one forward pass.", 32, metavar="N", panel=_EMBEDDING, least=1)
    k: tuple[str, ...] = option(
        "Neighbours that the ball around a text reaches to; several may be given, the first leads. Default: 5.",
        (),
        metavar="K,...",
        panel=_SAMPLING,
    )
    samples: int | None = option(
        "Texts taken from every side in each draw. Default: as many as half of the reference or the smallest "
        "candidate has.",
        metavar="N",
        panel=_SAMPLING,
        least=2,
    )
    repeats: int = option("Draws, where there are more texts than one takes.", 5, metavar="N", panel=_SAMPLING, least=1)
    splits: int = option(
        "Random splits into halves that the intervals rest on.", 50, metavar="N", panel=_SAMPLING, least=10
    )
    duplicates: str | None = option(
        "Copies of a text count in every mean, but their balls reach to other texts (distinct), or to copies, "
        "whose balls have no size (keep, as published tools do).",
        choices=DUPLICATES,
        metavar="distinct|keep",
        panel=_SAMPLING,
    )
    curves: bool = option("MAUVE and the curve of precision and recall, from clusters.", True, panel=_SAMPLING)
    generate: str | None = option(
        "A causal language model to sample candidates from: a local Hugging Face folder or a hub id.",
        metavar="MODEL",
        panel=_GENERATION,
    )
    prompts: Path | None = option(
        "Beginnings for the model to continue, in the forms of --reference. Without them it starts by itself, as many "
        "texts as a draw takes.",
        metavar="FILE",
        panel=_GENERATION,
        only_with=("generate",),
    )
    temperatures: tuple[str, ...] = option("Temperatures to sample at.", ("1.0",), metavar="T,...", panel=_GENERATION)
    top_p: float = option(
        "Share of the probability that is sampled from.", 1.0, metavar="SHARE", above=0, most=1, **_SAMPLED
    )
    top_k: int = option("Tokens that are sampled from; 0: all.", 0, metavar="N", least=0, **_SAMPLED)
    repetition_penalty: float = option(
        "Penalty of tokens that have been used; 1: none.", 1.0, metavar="X", above=0, **_SAMPLED
    )
    max_new_tokens: int = option("Most tokens of a generated text.", 128, metavar="N", least=1, **_SAMPLED)
    keep_prompt: bool = option("Score the prompt with what follows it.", True, **_SAMPLED)


MEASURES = (
    Measure(
        "precision",
        ("candidate", "k"),
        "share of generated texts near the reference",
        unit="texts",
        worse="down",
        ends=SHARE,
    ),
    Measure(
        "recall",
        ("candidate", "k"),
        "share of reference texts near generated ones",
        unit="texts",
        worse="down",
        ends=SHARE,
    ),
    Measure("density", ("candidate", "k"), "reference balls around a generated text, over k", unit="texts"),
    Measure(
        "coverage",
        ("candidate", "k"),
        "share of reference balls with a generated text",
        unit="texts",
        worse="down",
        ends=SHARE,
    ),
    Measure("f1", ("candidate", "k"), "harmonic mean of precision and recall", unit="texts", worse="down", ends=SHARE),
    Measure("clipped_density", ("candidate", "k"), "clipped density", unit="texts", worse="down"),
    Measure("clipped_coverage", ("candidate", "k"), "clipped coverage", unit="texts", worse="down"),
    Measure("mauve", ("candidate", "k"), "MAUVE", unit="texts", worse="down", ends=SHARE),
    Measure("frontier_integral", ("candidate", "k"), "frontier integral of the divergences", unit="texts", worse="up"),
    Measure("prd_precision", ("candidate", "k"), "largest F1/8 on the curve", unit="texts"),
    Measure("prd_recall", ("candidate", "k"), "largest F8 on the curve", unit="texts"),
    Measure("curve", ("candidate", "lambda", "side"), "point on the precision-recall curve", unit="texts"),
    Measure(
        "difference",
        ("against", "candidate", "k", "metric"),
        "difference of two scores",
        unit="texts",
        neutral=0.0,
        apart=("metric",),
    ),
    Measure(
        "p_value",
        ("against", "candidate", "correction", "k", "metric"),
        "p-value of a difference",
        unit="texts",
        apart=("metric",),
        compared=False,
        written="probability",
    ),
    Measure("floor", ("k", "metric"), "score of reference texts, words shuffled", unit="texts", apart=("metric",)),
    Measure("ceiling", ("k", "metric"), "score of the reference against itself", unit="texts", apart=("metric",)),
    Measure(
        "relabelled", ("candidate", "k", "metric"), "score of texts of one source", unit="texts", apart=("metric",)
    ),
    Measure("expected_coverage", ("k",), "expected coverage of one distribution", unit="texts"),
    Measure("self_bleu", ("candidate",), "Self-BLEU", unit="texts"),
    Measure("distinct", ("candidate", "n"), "share of different word sequences", unit="word sequences"),
    Measure("duplicates", ("candidate",), "share of texts that repeat an earlier one", unit="texts", worse="up"),
    Measure("copied", ("candidate",), "share of texts that stand in the reference", unit="texts"),
    Measure("length", ("candidate", "statistic"), "words of a text", unit="texts", apart=("statistic",)),
    Measure("shortened", ("candidate",), "share of texts that were cut", unit="texts"),
    Measure("hubness", ("candidate", "k"), "skewness of k-occurrence", unit="texts"),
)

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

STEPS = {
    "texts.copied": "Take copied texts out of the samples and the reference, and run this again.",
    "texts.mode-collapse": (
        "Read the texts that repeat each other, and sample at a higher temperature or with less repetition."
    ),
    "texts.below-ceiling": (
        "Read texts of the reference that no candidate reaches, and try a higher temperature, or a model "
        "trained on more of them."
    ),
    "texts.below-reference": (
        "Read texts of the reference that no candidate reaches, and try a higher temperature, or a model "
        "trained on more of them."
    ),
    "texts.below-relabelled": (
        "Read texts of the reference that no candidate reaches, and try a higher temperature, or a model "
        "trained on more of them."
    ),
    "texts.not-above-floor": (
        "Read the candidate's texts: they look no better than shuffled words to this encoder. Try another "
        "encoder as well."
    ),
    "texts.more-alike": "Read the texts that repeat each other, and sample at a higher temperature.",
    "texts.no-shortfall": (
        "Before you say that the texts are as good, add samples until the shortfall that may have been missed "
        "is one you could live with."
    ),
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="precision-recall",
    title="Quality and diversity of generated text",
    question=(
        "How many generated texts lie where the reference texts lie (quality), and how many of the reference texts lie "
        "where the generated ones do (diversity)?"
    ),
    summary="Are generated texts good, and how much of the reference do they cover?",
    options=Options,
    package="audits.precision_recall",
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    headed=("encoder", "k", "samples", "repeats"),
    summaries=tuple(
        Summary(
            measure="difference",
            title=f"Difference to {what}, by candidate and score",
            row="candidate",
            column="metric",
            where={"against": against},
            leading=False,
        )
        for against, what in (
            ("ceiling", "the reference against itself"),
            ("relabelled", "texts of the reference's own source"),
        )
    ),
    files=(GENERATED,),
    spreads=("batches of texts", "lists of neighbours", "near pairs", "comparisons"),
)
