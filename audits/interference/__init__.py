"""Which languages hurt each other, and which help, when one model has to learn both?

From small models that are trained on every language and every pair, from an encoder of yours that is trained on, or
from losses that were measured elsewhere.
"""

from dataclasses import dataclass
from pathlib import Path

from audits.measures import Measure
from audits.options import argument, option
from audits.registry import AuditSpec

BUDGETS = ("same-data", "same-total")
CORRECTIONS = ("holm", "bh")
BACKENDS = ("loky", "dask", "ray")
_CORPORA, _MODELS, _STATISTICS, _WORK = ("Languages", "Models", "Numbers and intervals", "Work and machines")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `miles interference` can be asked."""

    corpus: Path | None = argument(
        "Folder with one file a language, <code>.txt, a sentence a line; langs.csv beside them may say script, family "
        "and more (columns code, script, family, ...).",
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
        "Bytes of every language that models are judged on and never see.", 40_000, metavar="BYTES", panel=_CORPORA
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
    layers: int = option("Layers of the small encoders that are trained.", 2, metavar="N", panel=_MODELS)
    hidden: int = option("Width of the encoders' states.", 64, metavar="N", panel=_MODELS)
    heads: int = option("Attention heads in each layer.", 4, metavar="N", panel=_MODELS)
    front: int = option(
        "Tokens that the convolution in front of the encoders spans (odd); 0: none.", 9, metavar="N", panel=_MODELS
    )
    window: int | None = option(
        "Tokens that are read together. Default: 64; with --model 128, or what it can take.", metavar="N", panel=_MODELS
    )
    steps: int | None = option(
        "Training steps. Default: 300; with --model 100. With --model, 0 scores it as it is.",
        metavar="N",
        panel=_MODELS,
    )
    batch: int = option("Windows in a step, of each language or of all (--budget).", 32, metavar="N", panel=_MODELS)
    rate: float | None = option(
        "Peak learning rate of AdamW. Default: 3e-3; with --model 5e-5.", metavar="X", panel=_MODELS
    )
    matrix_rate: float | None = option(
        "Peak learning rate of Muon, for the matrices inside the layers; 0: AdamW for all. Default: 0.02; with --model "
        "0.",
        metavar="X",
        panel=_MODELS,
    )
    tokenizer: str = option(
        "What a token is: bytes, bpe (trained on these languages), or a tokenizer.json.",
        "bytes",
        metavar="bytes|bpe|FILE",
        panel=_MODELS,
    )
    vocabulary: int = option("Tokens of --tokenizer bpe.", 4096, metavar="N", panel=_MODELS)
    model: str | None = option(
        "An encoder of yours to start from (a Hugging Face folder with a masked-LM head, or a hub id), or a folder of "
        "such folders named en, en+fr, ... to be scored as they are.",
        metavar="FOLDER",
        panel=_MODELS,
    )
    seeds: int = option(
        "How often every model is trained, from other random numbers each time (all follow from --seed). Verdicts need "
        "two, better three.",
        3,
        metavar="N",
        panel=_MODELS,
    )
    check_triples: int = option(
        "Mixtures of three to train, to see whether the effects of pairs add up.", 0, metavar="N", panel=_MODELS
    )
    margin: float = option(
        "A model has converged where it loses less than counts of tokens (unigram and bigram) do, by this share of it.",
        0.05,
        metavar="SHARE",
        panel=_STATISTICS,
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
    )
    workers: int = option("Models trained side by side; 0: one on each core.", 0, metavar="N", panel=_WORK)
    backend: str = option(
        "What runs them: processes of this machine (loky), a dask or a ray cluster (extra cluster).",
        "loky",
        choices=BACKENDS,
        metavar="|".join(BACKENDS),
        panel=_WORK,
    )
    scheduler: str | None = option("Address of the cluster, for dask and ray.", metavar="ADDRESS", panel=_WORK)
    array: str | None = option(
        "Train only the I-th of N parts of the models, as one task of a SLURM array; then run without it for the "
        "report.",
        metavar="I/N",
        panel=_WORK,
    )
    sbatch: Path | None = option(
        "Write the SLURM job of all N parts of --array here; with --dry-run nothing else happens.",
        metavar="FILE",
        panel=_WORK,
    )
    results: Path | None = option(
        "Folder of finished models, a small JSON each, shared by all machines of a run. Default: in the cache.",
        metavar="DIR",
        panel=_WORK,
    )
    merge: tuple[str, ...] = option(
        "Further folders of finished models, from other machines; repeatable.",
        (),
        listed=False,
        metavar="DIR",
        panel=_WORK,
    )


MEASURES = (
    Measure("loss", ("lang", "with"), "TODO", unit="held-out sentences"),
    Measure("baseline", ("lang", "order"), "TODO", unit="held-out sentences"),
    Measure("interference", ("source", "target"), "TODO", unit="held-out sentences", neutral=0.0),
    Measure("interference_relative", ("source", "target"), "TODO", unit="held-out sentences", neutral=0.0),
    Measure("asymmetry", ("a", "b"), "TODO", unit="held-out sentences", neutral=0.0),
    Measure("received", ("target",), "TODO", unit="held-out sentences"),
    Measure("caused", ("source",), "TODO", unit="held-out sentences"),
    Measure("seed_deviation", (), "TODO", unit="cells"),
    Measure("script_effect", ("adjusted",), "TODO", unit="held-out sentences", neutral=0.0),
    Measure("family_effect", ("adjusted",), "TODO", unit="held-out sentences", neutral=0.0),
    Measure("similarity_correlation", ("attribute",), "TODO", unit="languages", neutral=0.0),
    Measure(
        "p_value",
        ("adjusted", "correction", "test"),
        "TODO",
        unit="arrangements",
        apart=("test",),
        compared=False,
        written="probability",
    ),
    Measure("predicted_interference", ("mixture",), "TODO", unit="held-out sentences", neutral=0.0),
    Measure(
        "prediction_error", ("mixture", "target", "with", "of", "predictor", "score"), "TODO", unit="held-out sentences"
    ),
    Measure("downstream_correlation", ("score", "side"), "TODO", unit="languages", neutral=0.0),
)

AUDIT = AuditSpec(
    name="interference",
    title="Interference of languages",
    question="By how much does adding one language to a model's training hurt, or help, another?",
    summary="Which languages hurt each other, and which help, when one model learns both?",
    options=Options,
    plan="audits.interference.inputs:plan",
    run="audits.interference.report:run",
    demo="audits.interference.demo:prepare",
    measures=MEASURES,
    model=("corpus",),
)
