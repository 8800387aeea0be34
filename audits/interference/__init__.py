"""Measure which languages hurt each other, and which help, when one model has to learn both.

From small models that are trained on every language and every pair, from an encoder of yours that is trained on, or
from losses that were measured elsewhere.
"""

from dataclasses import dataclass
from pathlib import Path

from audits.core.measures import Measure
from audits.core.option_groups import WORKERS, Workers
from audits.core.options import argument, option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary

BUDGETS = ("same-data", "same-total")
CORRECTIONS = ("holm", "bh")
_CORPORA, _MODELS, _STATISTICS = ("Languages", "Models", "Numbers and intervals")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Workers):
    """Options of `miles interference`."""

    corpus: Path | None = argument(
        "Folder with one file per language, <code>.txt, one sentence per line; langs.csv next to them may give script, "
        "family and more (columns code, script, family, ...).",
        required=False,
        metavar="CORPUS_DIR",
    )
    langs: tuple[str, ...] = option(
        "Codes of the languages. Default: all files of the folder, or all languages of --losses.",
        (),
        metavar="a,b,c",
        panel=_CORPORA,
    )
    pairs: tuple[str, ...] = option(
        "Pairs to train: all, or such as en-fr,en-de.", ("all",), metavar="all|a-b,...", panel=_CORPORA
    )
    held_out: int = option(
        "Bytes of every language that models are judged on and never see.",
        40_000,
        metavar="BYTES",
        panel=_CORPORA,
        least=1000,
        most=2**28,
    )
    losses: Path | None = option(
        "Losses measured elsewhere (CSV, TSV or JSONL: lang, with, seed, loss): nothing is trained.",
        metavar="FILE",
        panel=_CORPORA,
    )
    similarity: tuple[str, ...] = option(
        "Similarities of the languages to set against the matrix (CSV: a, b, values; or a square table); repeatable.",
        (),
        listed=False,
        metavar="FILE",
        panel=_CORPORA,
    )
    downstream: Path | None = option(
        "Scores of a downstream task to set against the matrix (CSV: code, scores; or target, source, scores).",
        metavar="FILE",
        panel=_CORPORA,
    )
    budget: str = option(
        "same-data: the model of a pair sees as much of each language as the model of one does; same-total: half of "
        "it. The sign of the answer depends on it.",
        "same-data",
        choices=BUDGETS,
        metavar="same-data|same-total",
        panel=_MODELS,
    )
    layers: int = option(
        "Layers of the small encoders that are trained.", 2, metavar="N", panel=_MODELS, least=1, most=96
    )
    hidden: int = option("Width of the encoders' states.", 64, metavar="N", panel=_MODELS, least=8, most=16_384)
    heads: int = option("Attention heads in each layer.", 4, metavar="N", panel=_MODELS, least=1, most=256)
    front: int = option(
        "Tokens that the convolution in front of the encoders spans (odd); 0: none.",
        9,
        metavar="N",
        panel=_MODELS,
        least=0,
        most=63,
    )
    window: int | None = option(
        "Tokens that are read together. Default: 64; with --model 128, or what it can take.",
        metavar="N",
        panel=_MODELS,
        least=8,
        most=8192,
    )
    steps: int | None = option(
        "Training steps. Default: 300; with --model 100. With --model, 0 scores it as it is.",
        metavar="N",
        panel=_MODELS,
        least=0,
        most=10**7,
    )
    batch: int = option(
        "Windows in a step, of each language or of all (--budget).",
        32,
        metavar="N",
        panel=_MODELS,
        least=3,
        most=65_536,
    )
    rate: float | None = option(
        "Peak learning rate of AdamW. Default: 3e-3; with --model 5e-5.", metavar="X", panel=_MODELS, above=0, most=10
    )
    matrix_rate: float | None = option(
        "Peak learning rate of Muon, for the matrices inside the layers; 0: AdamW for all. Default: 0.02; with --model "
        "0.",
        metavar="X",
        panel=_MODELS,
        least=0,
        most=10,
    )
    tokenizer: str = option(
        "What a token is: bytes, bpe (trained on these languages), or a tokenizer.json.",
        "bytes",
        metavar="bytes|bpe|FILE",
        panel=_MODELS,
    )
    vocabulary: int = option("Tokens of --tokenizer bpe.", 4096, metavar="N", panel=_MODELS, least=300, most=65_536)
    model: str | None = option(
        "Your encoder to start from (a Hugging Face folder with a masked-LM head, or a hub id), or a folder of "
        "such folders named en, en+fr, ... to be scored as they are.",
        metavar="MODEL|DIR",
        panel=_MODELS,
    )
    seeds: int = option(
        "How often every model is trained, from other random numbers each time (all follow from --seed). Verdicts need "
        "two, better three.",
        3,
        metavar="N",
        panel=_MODELS,
        least=1,
        most=1000,
    )
    check_triples: int = option(
        "Mixtures of three to train, to see whether the effects of pairs add up.",
        0,
        metavar="N",
        panel=_MODELS,
        least=0,
        most=100_000,
    )
    margin: float = option(
        "A model has converged where it loses less than counts of tokens (unigram and bigram) do, by this share of it.",
        0.05,
        metavar="SHARE",
        panel=_STATISTICS,
        least=0,
        under=1,
    )
    correction: str = option(
        "What a verdict is corrected by for the number of cells: holm (no false verdict in the whole matrix), or bh (a "
        "small share of false ones).",
        "holm",
        choices=CORRECTIONS,
        metavar="holm|bh",
        panel=_STATISTICS,
    )
    permutations: int = option(
        "Relabellings of the languages in a test of script, family or similarity, where all are too many.",
        20_000,
        metavar="N",
        panel=_STATISTICS,
        least=100,
        most=10**6,
    )
    results: Path | None = option(
        "Folder of finished models, a small JSON each, shared by all machines of a run. Default: in the cache.",
        metavar="DIR",
        panel=WORKERS,
    )
    merge: tuple[str, ...] = option(
        "Further folders of finished models, from other machines; repeatable.",
        (),
        listed=False,
        metavar="DIR",
        panel=WORKERS,
    )


OF_SENTENCES = "held-out sentences"
"""What most numbers rest on."""

MEASURES = (
    Measure("loss", ("lang", "with"), "held-out loss, nats per byte", unit=OF_SENTENCES),
    Measure("baseline", ("lang", "order"), "loss of an n-gram model, nats per byte", unit=OF_SENTENCES),
    Measure(
        "interference",
        ("target", "source"),
        "change of loss by an added language, nats per byte",
        unit=OF_SENTENCES,
        neutral=0.0,
    ),
    Measure(
        "interference_relative",
        ("target", "source"),
        "relative change of loss by an added language",
        unit=OF_SENTENCES,
        neutral=0.0,
    ),
    Measure("asymmetry", ("a", "b"), "difference of both changes in a pair", unit=OF_SENTENCES, neutral=0.0),
    Measure("received", ("target",), "mean change of loss that a language receives", unit=OF_SENTENCES),
    Measure("caused", ("source",), "mean change of loss that a language causes", unit=OF_SENTENCES),
    Measure("seed_deviation", (), "standard deviation of a cell over seeds", unit="cells"),
    Measure("script_effect", ("adjusted",), "effect of sharing a script", unit=OF_SENTENCES, neutral=0.0),
    Measure("family_effect", ("adjusted",), "effect of sharing a family", unit=OF_SENTENCES, neutral=0.0),
    Measure(
        "similarity_correlation",
        ("attribute",),
        "rank correlation of cells with a similarity",
        unit="languages",
        neutral=0.0,
    ),
    Measure(
        "p_value",
        ("test", "correction", "adjusted"),
        "p-value of a permutation test",
        unit="arrangements",
        apart=("test",),
        compared=False,
        written="probability",
    ),
    Measure(
        "predicted_interference",
        ("mixture",),
        "predicted mean change of loss in a mixture",
        unit=OF_SENTENCES,
        neutral=0.0,
    ),
    Measure(
        "prediction_error",
        ("mixture", "target", "with", "of", "score", "predictor"),
        "error of a predicted loss or score",
        unit=OF_SENTENCES,
    ),
    Measure(
        "downstream_correlation",
        ("score", "side"),
        "rank correlation with a downstream score",
        unit="languages",
        neutral=0.0,
    ),
)

LIMITATIONS = (
    "Texts of different languages differ in what they are about as well as in language; a matrix cannot part the two.",
    "Intervals hold other trainings and other held-out sentences of the same texts. They do not hold other texts or "
    "other languages; only the permutation tests speak of languages, and only by relabelling these.",
    "An effect of script is a mean over pairs of one family and of two, and one of family over pairs of scripts: where "
    "these differ in sign they cancel.",
    "Nats per byte compare a language with itself. Equal bytes are not equal text: a script of three bytes a letter "
    "has a third of the letters.",
)

STEPS = {
    "interference.interference": (
        "Leave out the language that hurts, weigh it less, or give the model more room, and train that "
        "mixture once to see whether it holds."
    ),
    "interference.not-converged": (
        "Train longer (--steps): a model that is still learning says nothing about its languages."
    ),
    "interference.synergy": (
        "Add the language that helps to the training of the other, and train that mixture once to see whether it holds."
    ),
    "interference.none": (
        "Before you mix all languages, add seeds or data until the interference that may have been missed is "
        "one you could live with."
    ),
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="interference",
    title="Interference of languages",
    question="By how much does adding one language to a model's training hurt, or help, another?",
    summary="Which languages hurt each other, and which help, when one model learns both?",
    options=Options,
    package="audits.interference",
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    headed=("budget", "layers", "hidden", "steps", "seeds", "tokenizer", "correction"),
    summaries=(
        Summary(
            measure="interference",
            title="Change of loss of a language (rows) by an added language (columns), nats per byte",
            row="target",
            column="source",
            words={"source": "+ {}"},
        ),
    ),
    model=("corpus",),
    spreads=("models",),
)
