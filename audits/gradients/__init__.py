"""Measure whether a training signal is the gradient: where in a network, when in training, and what it saves.

An error below that of a minibatch costs nothing, and a cosine within the band of chance says nothing: both stand beside
every estimator. Costs are counted as work and as span, and measured in seconds; none of these stands for another.
"""

from dataclasses import dataclass
from pathlib import Path

from audits.core.measures import Measure
from audits.core.option_groups import Workers
from audits.core.options import argument, option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary

NETS = ("mlp", "resmlp", "gru")
BUDGETS = ("steps", "operations", "span", "seconds")
BASELINES = ("minibatch", "random")
"""Methods that stand beside all others: what sampling costs, and what chance gives."""
_OF_NETWORKS = ("methods", "claim", "reference", "draws", "batches", "at_steps", "train_steps")
_SUBJECT, _METHODS, _TRAINING = "Network", "Methods and batches", "Training"


@dataclass(frozen=True, kw_only=True)
class Options(Workers):
    """Options of `miles audit-gradients`."""

    model: str | None = argument("Weights for the network that --factory makes.", metavar="MODEL", required=False)
    gradients: Path | None = option(
        "Folder of gradients that were computed elsewhere: step<S>_batch<B>.safetensors with keys METHOD/PARAMETER and "
        "reference/PARAMETER. No network is needed.",
        metavar="DIR",
        panel=_SUBJECT,
        not_with=("model", "net", "factory", *_OF_NETWORKS),
    )
    net: str | None = option(
        "A built-in network on made-up classes.",
        choices=NETS,
        metavar="|".join(NETS),
        panel=_SUBJECT,
        not_with=("factory",),
    )
    widths: tuple[str, ...] = option(
        "Widths of the built-in network: features, hidden ones, classes.",
        ("64", "64", "64", "64", "64", "10"),
        metavar="N,...",
        panel=_SUBJECT,
        several=False,
        only_with=("net",),
    )
    act: str = option(
        "Activation of the built-in network.",
        "relu",
        choices=("linear", "relu", "tanh"),
        metavar="linear|relu|tanh",
        panel=_SUBJECT,
        only_with=("net",),
    )
    init: str = option(
        "First weights of the built-in network.",
        "orthogonal",
        choices=("orthogonal", "normal"),
        metavar="orthogonal|normal",
        panel=_SUBJECT,
        only_with=("net",),
    )
    sequence: int = option(
        "Steps in time of a gru's sequences.", 32, metavar="N", panel=_SUBJECT, least=2, most=4096, only_with=("net",)
    )
    factory: str | None = option(
        "Callable that returns (model, loss, batches); runs its code.",
        metavar="MODULE:CALLABLE",
        panel=_SUBJECT,
        only_with=("allow_code",),
    )
    allow_code: bool = option("Allow --factory, which runs code.", False, panel=_SUBJECT)
    methods: tuple[str, ...] = option(
        "Estimators: bp, random, sign, foton, pepita, fa, dfa, highway-K, truncated-K, chunked-K, dsf[:KIND], "
        "forward-gradient, and those of other packages.",
        (),
        metavar="NAME,...",
        panel=_METHODS,
        several=False,
    )
    reference: str = option(
        "What estimates are compared with: the gradient of the same batch, or of all batches.",
        "bp",
        choices=("bp", "full-batch"),
        metavar="bp|full-batch",
        panel=_METHODS,
    )
    draws: int = option("Draws of a stochastic estimator on each batch.", 8, metavar="N", panel=_METHODS, least=1)
    batches: int = option("Batches on which estimates are compared.", 16, metavar="N", panel=_METHODS, least=2)
    batch_size: int = option(
        "Samples in a batch of the built-in network.", 64, metavar="N", panel=_METHODS, least=1, only_with=("net",)
    )
    eps: float = option("Size of FOTON's second step.", 1.0, metavar="X", panel=_METHODS, above=0)
    claim: tuple[str, ...] = option(
        "A speed-up that is claimed, such as foton=5; repeatable.",
        (),
        listed=False,
        metavar="METHOD=X",
        panel=_METHODS,
    )
    at_steps: tuple[str, ...] = option(
        "Steps of training by the reference at which estimates are compared.",
        ("0",),
        metavar="N,...",
        panel=_TRAINING,
        several=False,
    )
    train_steps: int = option(
        "Steps that each method trains, for its loss at a budget; 0: none.", 0, metavar="N", panel=_TRAINING, least=0
    )
    budget: tuple[str, ...] = option(
        "What every method may spend equally much of.",
        ("steps",),
        metavar=",".join(BUDGETS),
        choices=BUDGETS,
        panel=_TRAINING,
        several=False,
        only_with=("train_steps",),
    )
    lr_grid: tuple[str, ...] = option(
        "Learning rates, the same for every method: the best of each counts, and the middle one leads to --at-steps.",
        ("0.03", "0.1", "0.3"),
        metavar="X,...",
        panel=_TRAINING,
        several=False,
    )
    seeds: int = option(
        "Trainings of each method and rate.", 5, metavar="N", panel=_TRAINING, least=2, only_with=("train_steps",)
    )


_CELL = ("method", "layer", "step")
MEASURES = (
    Measure("cosine", _CELL, "cosine with the gradient", unit="batches", worse="down", neutral=0.0),
    Measure("norm_ratio", _CELL, "length by that of the gradient", unit="batches", neutral=1.0),
    Measure("sign_agreement", _CELL, "entries of equal sign", unit="batches", worse="down", neutral=0.5),
    Measure("relative_error", _CELL, "error by the gradient's length", unit="batches", worse="up"),
    Measure("relative_bias", _CELL, "bias by the gradient's length", unit="batches", worse="up"),
    Measure("relative_variance", _CELL, "variance by the gradient's square", unit="batches", worse="up"),
    Measure(
        "progress_ratio",
        ("method", "step", "kind"),
        "progress of a step by the gradient's",
        unit="batches",
        worse="down",
        neutral=1.0,
    ),
    Measure("loss_at_budget", ("method", "budget"), "loss after equal cost", unit="seeds", worse="up"),
    Measure(
        "loss_difference",
        ("method", "against", "budget"),
        "loss beyond the other's",
        unit="seeds",
        worse="up",
        neutral=0.0,
    ),
    Measure("cost", ("method", "kind"), "cost of a step", unit="steps", worse="up"),
    Measure(
        "speedup", ("method",), "seconds of backpropagation by the method's", unit="steps", worse="down", neutral=1.0
    ),
    Measure("speedup_ceiling", ("method",), "most that a faster backward pass can gain", unit="steps", neutral=1.0),
    Measure(
        "assumption_gap", ("method", "layer", "kind"), "distance from what equality assumes", unit="batches", worse="up"
    ),
    Measure("iterations_needed", ("method", "cosine"), "iterations to a cosine", unit="batches", worse="up"),
)

LIMITATIONS = (
    "A cosine is no progress: what a step gains depends on curvature and on its length. Along training, and after "
    "tuned rates, methods may be nearer to each other than at the beginning.",
    "Work and span are counted for equal layers. Seconds are those of this machine and of this code; a saving in span "
    "needs hardware that works side by side.",
    "The last layer's update is exact by construction of most methods: hidden layers stand apart.",
)

STEPS = {
    "gradients.claimed_speed": "Claim no more than the ceiling, or speed up the forward pass too.",
    "gradients.not_equal": "Look which assumption is not met (assumption_gap) before you rely on equality.",
    "gradients.chance": "Do not train these layers with this signal: it is no better than a random direction.",
    "gradients.descent": "Look along training too (--at-steps), and drop a method where its direction ascends.",
    "gradients.dead": "Check the initialisation and the loss: no signal reaches these layers.",
    "gradients.below_noise": "Use the cheaper method here: its error is below that of sampling a batch.",
    "gradients.equal": "Use whichever is cheaper: the two signals are the same here.",
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="audit-gradients",
    title="Training signals against the gradient",
    question="Is this training signal the gradient: where, when, and what does it save?",
    summary="Is a training signal the gradient: where, when, and what does it save?",
    options=Options,
    package="audits.gradients",
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    summaries=(
        Summary(
            measure="cosine",
            title="Cosine with the gradient in hidden layers",
            row="method",
            column="step",
            where={"layer": "hidden"},
            words={"step": "step {}"},
        ),
    ),
    headed=("net", "widths", "act", "init", "reference", "batches", "draws", "at_steps"),
    model=("net", "factory"),
    spreads=("trainings",),
)
