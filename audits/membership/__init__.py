"""Test whether scores, generated samples or a released model show which points it was trained on.

What attacks find is also held against the differential privacy that was claimed.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from audits.core.measures import SHARE, Measure
from audits.core.option_groups import Workers, decimal_mark
from audits.core.options import option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary

TIERS = ("samples", "generator", "denoiser", "full")
"""What an attacker holds: samples only, the weights of a generator or a denoiser, or all (discriminator, gradients)."""
# As in the module of the bounds, which takes numpy: no command line should wait for that.
SELECTIONS = ("split", "bonferroni", "fixed")
MOST_FPR = 3
ACCOUNTANTS = ("rdp", "pld")
MOST_RUNS = 10**6
_points, _model, _claim = (
    partial(option, panel=panel) for panel in ("Points", "Models and samples", "Claimed privacy")
)
_numbers, _SHADOWS = partial(option, panel="Numbers and intervals"), "Shadow models"
_of_shadows = partial(option, panel=_SHADOWS, only_with=("shadows",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Workers):
    """Options of `miles membership`."""

    scores: Path | None = _points(
        "Scores by any attack with membership: CSV, NPZ, or a folder of LiRA or Privacy Meter. Needs no model.",
        metavar="FILE|DIR",
    )
    members: Path | None = _points(
        "Points that the model was trained on: a folder of images, NPY, NPZ or CSV; texts of a language model.",
        metavar="PATH",
    )
    nonmembers: Path | None = _points(
        "Points of the same distribution that it never saw, in the same forms.", metavar="PATH"
    )
    reference: Path | None = _points(
        "Further points of the distribution that the attacker holds, disjoint from both.", metavar="PATH"
    )
    canaries: Path | None = _points(
        "Canaries that a language model may have been trained on: the sealed list of miles canaries, in place of "
        "--members and --nonmembers.",
        metavar="FILE",
        only_with=("model",),
        not_with=("members", "nonmembers"),
        later=True,
    )
    text_col: str = _points(
        "Key or column of the texts, or a path into JSON such as messages.-1.content. Several: the first that a file "
        "has. SIDE=NAME is for one side alone: members or nonmembers.",
        "text",
        metavar="NAME,...|SIDE=NAME,...",
        only_with=("model",),
        not_with=("canaries",),
        later=True,
    )
    higher_is: str | None = _points(
        "Whether high scores mean members or non-members; needed unless the column is named loss.",
        choices=("member", "nonmember"),
        metavar="member|nonmember",
        only_with=("scores",),
    )
    target: int | None = _points(
        "Which model of a file with many is audited (0 the first). Default: what the file says, or the last.",
        metavar="N",
        least=0,
        only_with=("scores",),
    )
    decimal: str | None = decimal_mark("Points", only_with=("scores",))
    tier: str = _points("What the attacker who made the scores had.", "full", choices=TIERS, metavar="|".join(TIERS))
    samples: Path | None = _model("What the model generated, in the forms of --members.", metavar="PATH")
    model: str | None = _model(
        "The released model: a diffusers folder, weights with --arch, or a causal language model's folder.",
        metavar="PATH",
    )
    reference_model: str | None = _model(
        "A language model that was not trained on the members, for the attack reference: a folder or a hub id.",
        metavar="MODEL",
        only_with=("model",),
        later=True,
    )
    start_token: bool = _model(
        "Put the start token of a language model before each text where its tokenizer does not.",
        True,
        only_with=("model",),
        later=True,
    )
    suite: Path | None = _model(
        "Several models to be compared, with their samples and claims: a TOML file.", metavar="FILE"
    )
    attack: tuple[str, ...] = _model("Attacks to run. Default: all that the access allows.", (), metavar="NAME,...")
    arch: str | None = _model(
        "Network of bare weights: mlp-denoiser, mlp-generator, or module:callable of your own (with --allow-code).",
        metavar="NAME",
        only_with=("model",),
    )
    schedule: str | None = _model(
        "Noise schedule of a denoiser of bare weights: linear, scaled_linear, cosine, or a JSON file.",
        metavar="NAME|FILE",
    )
    prediction: str | None = _model(
        "What a denoiser of bare weights predicts. Default: epsilon.",
        choices=("epsilon", "v_prediction", "sample"),
        metavar="epsilon|v_prediction|sample",
    )
    discriminator: Path | None = _model("Weights of the discriminator, where that was released too.", metavar="FILE")
    discriminator_arch: str = _model(
        "Network of the discriminator's weights, as for --arch.",
        "mlp-discriminator",
        metavar="NAME",
        only_with=("discriminator", "suite"),
    )
    latent: int | None = _model("Length of a generator's input, where its weights do not say.", metavar="N", least=1)
    allow_code: bool = _model("Allow a network of module:callable, which runs code.", False)
    timesteps: tuple[str, ...] = _model(
        "Timesteps at which a denoiser is attacked. Several: the best is chosen on points that are not reported, or on "
        "shadow models. Default: 1, 3, 5, 10, 20 and 40 % of the schedule.",
        (),
        metavar="T,...",
    )
    draws: int = _model("Draws of noise for each point and timestep.", 8, metavar="N", least=1)
    batch: int = _model("Most points in one forward pass.", 512, metavar="N", least=1)
    epsilon: float | None = _claim("The epsilon that is claimed.", metavar="E", least=0)
    delta: float = _claim("The delta of claim and bounds.", 1e-5, metavar="D", least=0, under=1)
    noise_multiplier: float | None = _claim(
        "Claim of DP-SGD in place of --epsilon: standard deviation of the noise over the clipping norm.",
        metavar="S",
        above=0,
    )
    sample_rate: float | None = _claim("Share of the data in a Poisson batch of DP-SGD.", metavar="Q", above=0, most=1)
    steps: int | None = _claim("Steps of DP-SGD.", metavar="N", least=1)
    history: Path | None = _claim(
        "Claim by an accountant's history: a checkpoint of Opacus, or JSON. Looked for in --model too.",
        metavar="FILE",
    )
    accountant: str = _claim(
        "How DP-SGD is accounted: Renyi differential privacy, or privacy loss distributions, which are tighter.",
        "rdp",
        choices=ACCOUNTANTS,
        metavar="|".join(ACCOUNTANTS),
        later=True,
    )
    runs_tried: int = _claim(
        "Runs of which the released model is the best, each of the claimed epsilon and delta: the claim of the whole "
        "search is judged.",
        1,
        metavar="N",
        least=1,
        most=MOST_RUNS,
        later=True,
    )
    coin_flip: float | None = _claim(
        "Your statement that each point was included by its own fair coin toss (0.5), in one training run: allows the "
        "one-run bounds.",
        metavar="0.5",
    )
    independent: bool = _claim(
        "Your statement that every score comes from its own training run: bounds are then certified.", False
    )
    selection: str = _numbers(
        "How the threshold of a bound is found: on the other half of the points, among many that share the error, or "
        "given by --threshold.",
        "split",
        choices=SELECTIONS,
        metavar="|".join(SELECTIONS),
    )
    threshold: float | None = _numbers(
        "Score from which, or loss up to which, a point is called a member (fixed), in the file's own units; with the "
        "one-run bounds, the share of the points that is guessed.",
        metavar="X",
    )
    fpr: tuple[str, ...] = _numbers(
        "False-alarm rates at which hits are reported.", ("0.1", "0.01", "0.001"), metavar="F,..."
    )
    blind: bool = _numbers("Check whether members and non-members can be told apart without the model.", True)
    shadows: int = option(
        "Models of the same kind to train on random halves of the points (even, 4 or more): LiRA, and the choice of "
        "timesteps; 0: none.",
        0,
        panel=_SHADOWS,
        metavar="N",
        least=0,
        only_with=("model",),
    )
    shadow_steps: int = _of_shadows("Training steps of a shadow model.", 4000, metavar="N", least=1)
    shadow_batch: int = _of_shadows("Points in a training step of a shadow model.", 128, metavar="N", least=1)
    shadow_rate: float = _of_shadows("Learning rate of shadow models (Adam).", 1e-3, metavar="X", above=0)


_attacked = partial(Measure, unit="points", apart=("attack",))
_leaking = partial(_attacked, worse="up")
_RATES, _AT_FPR, _MADE = ("attack", "tier", "model"), ("attack", "fpr", "model"), ("match", "model")
MEASURES = (
    _leaking("auc", _RATES, "AUC of an attack", neutral=0.5, ends=SHARE),
    _leaking("balanced_accuracy", _RATES, "balanced accuracy at the best threshold", neutral=0.5, ends=SHARE),
    _leaking("advantage", _RATES, "membership advantage at the best threshold", neutral=0.0),
    _leaking(
        "balanced_accuracy_held_out",
        _RATES,
        "balanced accuracy, threshold from the other half",
        neutral=0.5,
        ends=SHARE,
    ),
    _leaking("advantage_held_out", _RATES, "membership advantage, threshold from the other half", neutral=0.0),
    _leaking("tpr", _AT_FPR, "true positive rate at few false alarms", unit="members"),
    _attacked("hit_ratio", _AT_FPR, "least ratio of hits to false alarms", neutral=1.0),
    Measure("copied_members", _MADE, "share of members that samples repeat", unit="members", worse="up"),
    Measure("copied_nonmembers", _MADE, "share of non-members that samples repeat", unit="non-members"),
    Measure("copies", ("side", *_MADE), "share of samples that repeat a point", unit="samples"),
    _attacked(
        "epsilon_lower", ("attack", "method", "validity", "model"), "proved lower bound of epsilon", compared=False
    ),
    _attacked(
        "epsilon_ceiling", ("attack", "method", "model"), "largest epsilon that could be proved", written="down"
    ),
    _attacked("epsilon_credible", ("attack", "model"), "credible epsilon", compared=False),
    Measure("epsilon_claimed", ("model",), "claimed epsilon", unit="claims", written="given"),
    Measure("blind_auc", ("classifier",), "AUC without the model", unit="points", neutral=0.5, ends=SHARE),
    _leaking("leakage", ("access", "attack", "model"), "AUC of the best attack", neutral=0.5, ends=SHARE),
    Measure("leakage_difference", ("access", "against", "model"), "difference in AUC of two models", unit="points",
            neutral=0.0),
    Measure("utility", ("measure", "model"), "quality of the model", unit="samples"),
)  # fmt: skip

LIMITATIONS = (
    "An attack that finds nothing proves no privacy: a better one may. Bounds of epsilon are from below only.",
    "Numbers of one access are not to be set against numbers of another: who holds the weights can do more than who "
    "holds samples.",
    "All rates hold for these members and non-members. Intervals take them as random draws from one distribution; they "
    "do not hold another training run.",
)

STEPS = {
    "membership.leak": (
        "Do not give out what this attack uses. Train with privacy, fewer passes or more data, and run this "
        "again on the new model."
    ),
    "membership.copies": (
        "Take the copies out of what you give out, remove duplicates from the training data, and train again."
    ),
    "membership.verdict": (
        "Withdraw the claimed epsilon if it is contradicted; else test it with more points and canaries."
    ),
    "membership.flipped": "Check which scores are higher for members (--higher-is).",
    "membership.shifted": (
        "Compare members with non-members of the same source and time: a difference of the data passes for leakage."
    ),
    "membership.no-leak": (
        "Before you say that nothing leaks, add points and attacks that know more: a stronger one may find "
        "what these do not."
    ),
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="membership",
    title="Membership inference and claims of privacy",
    question=(
        "Can an attacker tell which points the model was trained on, and does what can be told contradict the privacy "
        "that was claimed?"
    ),
    summary="Can one tell which points a model was trained on, and does its claimed epsilon hold?",
    options=Options,
    package="audits.membership",
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    headed=(
        "selection",
        "epsilon",
        "delta",
        "noise_multiplier",
        "sample_rate",
        "steps",
        "accountant",
        "runs_tried",
        "coin_flip",
    ),
    summaries=(
        Summary(
            measure="leakage",
            title="AUC of the best attack, by what the attacker holds",
            row="access",
            column="model",
        ),
    ),
    model=("model", "suite"),
    spreads=("shadow models and scores",),
)
