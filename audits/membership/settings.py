"""Checks of the options that need no file, and the numbers that they name."""

from audits.core.options import numbers
from audits.membership import MOST_FPR, Options
from probes.core.errors import InputError

SAMPLES = ("nearest", "calibrated", "monte-carlo", "domias", "shadow-discriminator")
GENERATOR = ("latent-search",)
DENOISER = ("loss", "sima", "pia", "pian", "secmi", "pfami", "gradnorm")
FULL = ("discriminator",)
LANGUAGE = ("loss", "zlib", "min-k", "min-k++", "reference")
"""Attacks on a language model, which is a generator that tells the probability of a text."""
LIRA = ("lira-online", "lira-offline", "lira-offline-two-sided")
ATTACKS = {"samples": SAMPLES, "generator": GENERATOR, "denoiser": (*DENOISER, *LIRA), "full": FULL}
"""Attacks by what they need to hold; those of score files have the names of their columns."""
NEED_REFERENCE = ("calibrated", "domias", "shadow-discriminator")
LEAST_SHADOWS = 4


def check_options(options: Options) -> None:
    """Check all that needs no file.

    Raises
    ------
    InputError
        Where options contradict each other, or one is out of its range.
    """
    _check_inputs(options)
    _check_ranges(options)
    _check_attacks(options)
    rates_of(options)
    timesteps_of(options)


def rates_of(options: Options) -> tuple[float, ...]:
    """Return the rates of false alarms, descending.

    Raises
    ------
    InputError
        Where one is no rate, one is given twice, or there are too many.
    """
    rates = numbers("--fpr", options.fpr, example="0.1,0.01")
    for rate in rates:
        if not 0 < rate < 1:
            raise InputError(f"{rate:g} is no rate of false alarms.", where="--fpr", hint="Give shares, such as 0.01.")
    if len(set(rates)) < len(rates) or len(rates) > MOST_FPR:
        raise InputError(
            f"{len(rates)} rates are given, or one twice.", where="--fpr", hint=f"Give up to {MOST_FPR} different ones."
        )
    return tuple(sorted(rates, reverse=True))


def timesteps_of(options: Options) -> tuple[int, ...]:
    """Return the timesteps in the order given; none where they are left to each attack.

    Raises
    ------
    InputError
        Where one is no timestep, or one is given twice.
    """
    steps = numbers("--timesteps", options.timesteps, example="10,50")
    for step in steps:
        if not 0 <= step < 1e6 or step != int(step):
            raise InputError(f"{step:g} is no timestep.", where="--timesteps", hint="Give whole numbers from 0.")
    if len(set(steps)) < len(steps):
        raise InputError("A timestep is named twice.", where="--timesteps", hint="Name each once.")
    return tuple(int(step) for step in steps)


def _check_inputs(options: Options) -> None:
    from_model = options.samples is not None or options.model is not None or options.discriminator is not None
    ways = [options.scores is not None, options.suite is not None, from_model]
    if sum(ways) != 1:
        raise InputError(
            "There is nothing to audit." if not any(ways) else "Scores, one model and a suite exclude each other.",
            where="--scores, --samples, --model or --suite",
            hint="Give scores of an attack; or members and non-members with what a model generated, or with the model.",
        )
    if options.scores is None and options.canaries is None:
        for flag, path in (("--members", options.members), ("--nonmembers", options.nonmembers)):
            if path is None:
                hint = "Without scores, the points themselves are needed."
                raise InputError(f"{flag} is missing.", where=flag, hint=hint)
    elif (options.members is None) != (options.nonmembers is None) and options.canaries is None:
        raise InputError(
            "Members and non-members come together.", where="--members, --nonmembers", hint="Give both, or neither."
        )
    if options.suite is not None:
        for name in ("epsilon", "history", "noise_multiplier", "sample_rate", "steps"):
            if getattr(options, name) is not None:
                flag, hint = f"--{name.replace('_', '-')}", "Write each model's claim into the suite."
                raise InputError(f"{flag} claims the same for all.", where=flag, hint=hint)
    if options.independent and options.scores is None:
        raise InputError(
            "All scores of one model are of one training run.",
            where="--independent",
            hint="It is for --scores that were made with a training run each.",
        )
    if options.independent and options.coin_flip is not None:
        raise InputError(
            "One training run, or one for each score: not both.",
            where="--independent, --coin-flip",
            hint="Give the one that is true.",
        )


def _check_ranges(options: Options) -> None:
    if options.shadows and (options.shadows < LEAST_SHADOWS or options.shadows % 2):
        raise InputError(
            f"{options.shadows} shadow models cannot be dealt into halves and their complements.",
            where="--shadows",
            hint=f"Give an even number of {LEAST_SHADOWS} or more; 16 serve well.",
        )
    if options.coin_flip is not None and options.coin_flip != 0.5:
        raise InputError(
            f"The one-run bounds hold for fair coins, not for {options.coin_flip}.",
            where="--coin-flip",
            hint="Give 0.5, or leave it out.",
        )
    if (options.threshold is not None) != (options.selection == "fixed"):
        raise InputError(
            "A fixed threshold is one that is given.",
            where="--selection, --threshold",
            hint="Give --selection fixed with --threshold X, or neither.",
        )
    share = options.coin_flip is not None and options.threshold is not None
    if share and not 0 < (options.threshold or 0) <= 1:
        raise InputError(
            f"{options.threshold} is no share of points to guess.", where="--threshold", hint="Such as 0.1."
        )


def _check_attacks(options: Options) -> None:
    if options.scores is not None:
        return
    known = list(dict.fromkeys([*(name for names in ATTACKS.values() for name in names), *LANGUAGE]))
    for name in options.attack:
        if name not in known:
            raise InputError(f"There is no attack {name!r}.", where="--attack", hint=f"There are: {', '.join(known)}.")
        if name in LIRA and not options.shadows:
            raise InputError(f"{name} needs shadow models.", where="--attack", hint="Give --shadows 16.")
        if name in NEED_REFERENCE and options.reference is None:
            raise InputError(f"{name} needs points of the attacker's own.", where="--attack", hint="Give --reference.")
    if len(set(options.attack)) < len(options.attack):
        raise InputError("An attack is named twice.", where="--attack", hint="Name each once.")
