"""Certify radii within which no perturbation changes the prediction of a smoothed classifier.

Random noise turns any classifier into a smoothed one; counts of its votes under noise prove, image by image and
with a stated error probability, a radius within which its prediction cannot change.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audits.core import option_groups
from audits.core.measures import SHARE, Measure
from audits.core.options import argument, option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary
from probes.classifiers.smoothing import MOST

_MODEL, _DATA, _NOISE, _OTHER = "Model", "Data", "Certificates", "Without a model"
_LOG, _COUNTS, _DRAWN = ("from_log",), ("from_counts",), ("from_log", "from_counts")
"""Sources of which nothing is drawn any more: what decides the draws has no meaning beside them."""
_ATTACK: dict[str, Any] = {"panel": "Attack", "least": 1, "only_with": ("attack_steps",), "later": True}
_CHANNELS: dict[str, Any] = {"several": False, "panel": _MODEL, "not_with": _DRAWN}

ARCHITECTURES = (
    "mnist_lenet",
    "small_cnn",
    "cifar_resnet20",
    "cifar_resnet32",
    "cifar_resnet44",
    "cifar_resnet56",
    "cifar_resnet110",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "wide_resnet50_2",
    "wide_resnet101_2",
)
"""Networks that are built here; `PACKAGE:NAME` takes one of torchvision or timm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(option_groups.Workers):
    """Options of `miles certify`."""

    model: str | None = argument(
        "Weights (with --arch or --factory), or a Hugging Face image-classification folder.",
        required=False,
        metavar="CHECKPOINT",
        not_with=_DRAWN,
    )
    data: Path | None = option(
        "Images with labels: NPZ (x, y), CSV (label, pixels), or folders by class.", metavar="FILE", not_with=_DRAWN
    )
    sigma: float | None = option(
        "Noise in pixel units, [0, 1]: standard deviation (l2), or half the width of uniform noise (l1).",
        metavar="S",
        above=0,
    )
    n0: int = option("Draws that choose the class and the interval.", 100, metavar="N", least=1, most=MOST)
    n: int = option(
        "Draws that the certificate rests on; the most in decide, pilot and anytime.",
        100_000,
        metavar="N",
        least=1,
        most=MOST,
    )
    alpha: float = option(
        "Probability that an image's certificate is false, at most.", 0.001, metavar="X", above=0, under=0.5
    )
    radii: tuple[str, ...] = option(
        "Radii at which certified accuracy is reported. Default: a grid up to the ceiling.",
        (),
        several=False,
        metavar="R,...",
    )
    mode: str = option(
        "fixed: n draws per image; decide: until the radii are decided; pilot: as many as a first look asks for; "
        "anytime: until the radii are decided, or without --radii until more draws would add little.",
        "fixed",
        choices=("fixed", "decide", "pilot", "anytime"),
        metavar="fixed|decide|pilot|anytime",
    )
    interval: str = option(
        "Limits of the top class alone, of the top class and its rivals, or whichever the n0 draws favour.",
        "one-sided",
        choices=("one-sided", "two-class", "auto"),
        metavar="one-sided|two-class|auto",
        panel=_NOISE,
    )
    norm: str = option(
        "l2 with Gaussian noise, or l1 with uniform noise.", "l2", choices=("l2", "l1"), metavar="l2|l1", panel=_NOISE
    )
    randomised: bool = option(
        "Limits that spend alpha exactly, with a random number for each image, kept in records.csv (not in anytime).",
        False,
        panel=_NOISE,
        not_with=_LOG,
        later=True,
    )
    lipschitz: str | None = option(
        "Lipschitz constant of each soft output, as you assert it, or computed: certify soft outputs with it.",
        metavar="L|computed",
        panel=_NOISE,
        not_with=_LOG,
    )
    family_wise: bool = option("Make alpha hold for all images together: alpha / m each.", False, panel=_NOISE)
    pilot: int = option(
        "Draws of the pilot, which choose n (mode pilot).", 1000, metavar="N", panel=_NOISE, least=10, most=MOST
    )
    target_loss: float = option(
        "Share of the radius at n draws that pilot and anytime may give up.",
        0.025,
        metavar="SHARE",
        above=0,
        under=1,
        panel=_NOISE,
    )
    batch: str = option(
        "Draws in one forward pass; auto: the fastest, on a GPU by the size of the images.",
        "auto",
        metavar="auto|N",
        panel=_NOISE,
    )
    attack_steps: int = option(
        "Attack certified images within their radius and twice as far, in so many steps; 0: not at all.",
        0,
        metavar="N",
        panel="Attack",
        least=0,
        most=10_000,
        not_with=(*_DRAWN, "lipschitz"),
        later=True,
    )
    attack_draws: int = option("Noisy copies that a step of an attack follows.", 32, metavar="K", most=MOST, **_ATTACK)
    attack_images: int = option(
        "Images chosen at random, of which those that are certified are attacked.", 100, metavar="M", **_ATTACK
    )
    arch: str | None = option(
        "Architecture of the weights: resnet50 and others, torchvision:NAME, timm:NAME.",
        metavar="NAME",
        panel=_MODEL,
        not_with=_DRAWN,
    )
    factory: str | None = option(
        "Callable that returns the model; runs its code.", metavar="MODULE:CALLABLE", panel=_MODEL, not_with=_DRAWN
    )
    allow_code: bool = option("Allow --factory, TorchScript and .pt2, which run code.", False, panel=_MODEL)
    mean: tuple[str, ...] = option("Mean of each channel. Default: the model's own.", (), metavar="M,...", **_CHANNELS)
    std: tuple[str, ...] = option(
        "Standard deviation of each channel. Default: the model's own.", (), metavar="S,...", **_CHANNELS
    )
    class_map: Path | None = option_groups.class_map(not_with=_DRAWN)
    resize: str | None = option_groups.resize(not_with=_DRAWN)
    crop: int | None = option_groups.crop()
    layout: str = option(
        "Order of the pixels in a CSV row.",
        "hwc",
        choices=("hwc", "chw"),
        metavar="hwc|chw",
        panel=_DATA,
        not_with=_DRAWN,
    )
    skip: int = option("Use only every Nth image.", 1, metavar="N", panel=_DATA, least=1, not_with=_DRAWN)
    max: int | None = option("Use at most this many images.", metavar="N", panel=_DATA, least=1, not_with=_DRAWN)
    by: tuple[str, ...] = option(
        "Columns whose levels are reported separately.",
        (),
        several=False,
        metavar="COLUMN,...",
        panel=_DATA,
        not_with=_DRAWN,
    )
    attributes: Path | None = option(
        "CSV with the columns of --by, a row per image.",
        metavar="FILE",
        panel=_DATA,
        only_with=("by",),
        not_with=_DRAWN,
    )
    from_counts: Path | None = option(
        "Judge the counts of a finished run again: other alpha, interval, radii.",
        metavar="RUN",
        panel=_OTHER,
        not_with=_LOG,
    )
    from_log: tuple[str, ...] = option(
        "Audit another tool's log of certificates, or compare several, paired by idx; repeatable.",
        (),
        listed=False,
        metavar="[NAME=]FILE.tsv",
        panel=_OTHER,
    )
    log_sigma: tuple[str, ...] = option(
        "Noise of one of several logs, where it is not --sigma; repeatable.",
        (),
        listed=False,
        metavar="NAME=S",
        panel=_OTHER,
        only_with=_LOG,
        later=True,
    )


_PART = ("label", "group")
_AGAINST = ("log", "against")
MEASURES = (
    Measure(
        "certified_accuracy", ("radius", *_PART, "log"), "certified accuracy", unit="images", worse="down", ends=SHARE
    ),
    Measure("average_certified_radius", (*_PART, "log"), "average certified radius", unit="images", worse="down"),
    Measure("abstention_rate", (*_PART, "log"), "abstention rate", unit="images", worse="up", ends=SHARE),
    Measure("clean_accuracy", _PART, "accuracy without noise", unit="images", worse="down", ends=SHARE),
    Measure("noisy_accuracy", _PART, "accuracy under noise", unit="images", worse="down", ends=SHARE),
    Measure("draws_per_item", (), "draws per image", unit="images"),
    Measure("false_certificate_bound", ("log",), "probability of any false certificate, at most", unit="images"),
    Measure(
        "attack_success",
        ("multiple",),
        "share of attacked images whose answer the attack turned",
        unit="images",
        worse="up",
        ends=SHARE,
    ),
    Measure(
        "attack_error_chance",
        (),
        "probability of so many certificates contradicted by error alone, at most",
        unit="images",
        compared=False,
        written="probability",
        ends=SHARE,
        gated=False,
    ),
    Measure("lipschitz_constant", ("origin",), "Lipschitz constant of each soft output", unit="networks"),
    Measure("implied_alpha", ("log",), "least alpha that the largest radius needs", unit="radius"),
    Measure("reachable_share", ("alpha", "rounding", "log"), "share of radii that whole votes can reach", unit="radii"),
    Measure(
        "average_certified_radius_published", _PART, "average certified radius by the published bound", unit="images"
    ),
    Measure(
        "average_certified_radius_gaussian",
        _PART,
        "average certified radius without the Lipschitz constant",
        unit="images",
    ),
    Measure("prediction_accuracy", ("log",), "accuracy of predictions", unit="images", worse="down", ends=SHARE),
    Measure(
        "certified_accuracy_difference",
        ("radius", *_AGAINST),
        "certified accuracy less that of the first log",
        unit="images",
        worse="down",
        neutral=0.0,
    ),
    Measure(
        "average_certified_radius_difference",
        _AGAINST,
        "average certified radius less that of the first log",
        unit="images",
        worse="down",
        neutral=0.0,
    ),
    Measure(
        "prediction_accuracy_difference",
        _AGAINST,
        "accuracy of predictions less that of the first log",
        unit="images",
        worse="down",
        neutral=0.0,
    ),
    Measure(
        "p_value",
        ("test", "correction", "radius", *_AGAINST),
        "p-value of no difference",
        unit="images",
        compared=False,
        written="probability",
        ends=SHARE,
    ),
)

LIMITATIONS = (
    "A certificate covers every perturbation up to its radius in its norm, and nothing else: no rotation, no other "
    "norm (an l2 radius r proves only r / sqrt(d) in l-infinity for d pixels), no shift of the data.",
    "Certified accuracy holds for images drawn like these; its interval covers the choice of images, not the error "
    "probability alpha of each certificate.",
)

STEPS = {
    "certify.noise-defeats": "Train the classifier under noise of this sigma, or certify with a smaller one.",
    "certify.noise-costs": (
        "Train the classifier under noise of this sigma, or certify with a smaller one and accept smaller radii."
    ),
    "certify.contradicted": (
        "Cite no certificate of this run. Look for what makes the network answer otherwise than when its votes were "
        "counted: chance, other images of a batch, device, rounding."
    ),
    "certify.uneven": (
        "Report the weakest class with the whole, and look at its images that are abstained from or wrong."
    ),
    "certify.implied-alpha": (
        "Run it again with the alpha that the log was made with (--alpha; the finding says which fit), and cite its "
        "certificates with that alpha only."
    ),
    "certify.other-settings": (
        "Ask who made the log for its sigma and n, and cite none of its certificates before its radii fit."
    ),
    "certify.doubtful-alpha": (
        "Ask who made the log for its alpha and for how radii were printed, and cite the larger alpha until you know."
    ),
    "certify.unreachable-radii": (
        "Ask who made the log for its sigma, n and alpha, and cite no certificate before they fit its radii."
    ),
    "certify.accuracy": (
        "Compare the radius with the perturbation that you must withstand. For larger radii, draw more "
        "samples (--n) or train under more noise."
    ),
    "certify.logs-differ": (
        "Choose between the logs by the radius that you must withstand, and say on which images they were compared."
    ),
    "certify.predictions": "For radii, certify the classifier (miles certify, or certify.py of the other tool).",
    "certify.nothing": "Draw more samples (--n), or train the classifier under noise of this sigma.",
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="certify",
    title="Certified robustness of a smoothed classifier",
    question=(
        "On what share of these images is the smoothed classifier right, and proved not to change its mind within a "
        "given distance?"
    ),
    summary="Within which radius can no perturbation change a smoothed classifier's answer?",
    options=Options,
    package="audits.certification",
    model=("model",),
    files=("certify.tsv", "counts.safetensors"),
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    spreads=("images",),
    headed=("sigma", "n", "n0", "alpha", "norm", "mode", "interval", "attack_steps"),
    summaries=tuple(
        Summary(
            measure="certified_accuracy",
            title=f"Certified accuracy by {what} and radius",
            row=key,
            column="radius",
            crossed=True,
            words={"label": "class {}", "radius": "radius {}"},
        )
        for key, what in (("group", "group"), ("label", "class"), ("log", "log"))
    ),
)
