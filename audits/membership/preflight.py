"""Cost of a run and warnings of what it will not be able to say, before anything is measured."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from audits.core.numbers import bounded, counted
from audits.core.records import Coordinate, Warning
from audits.core.wording import listed
from audits.membership import TIERS, Options
from audits.membership.claims import accounted, of_search, stated
from audits.membership.membership_scores import ScoreSet, ShadowScores
from audits.membership.reading import Inputs
from audits.membership.settings import ATTACKS, DENOISER, LANGUAGE, LIRA, NEED_REFERENCE

if TYPE_CHECKING:
    from audits.membership.releases import Release

FEW = 100
"""Points a side below which intervals are wide and bounds nearly empty."""
UNLIKELY, RARE = 0.1, 0.001
"""Probabilities under fair coins of an even split, and of one so uneven, below which coins are doubted."""
TIED = 0.1
"""Share of points with a score that others have too, from which ties are reported."""
_A_PASS = 1e-10
"""Seconds that a small network takes for one of its weights and one point, forwards, on one core."""


def coordinates_of(inputs: Inputs, options: Options) -> Mapping[str, tuple[Coordinate, ...]]:
    """Return every key that an estimate of the run can have, with its values."""
    from audits.membership.bounding import (
        ASSUMES_GDP,
        ASSUMES_INDEPENDENT,
        ASSUMES_INDEPENDENT_GDP,
        CERTIFIED,
        CLOPPER_PEARSON,
        GDP,
        HEURISTIC,
        INDEPENDENT,
        INDEPENDENT_GDP,
        ONE_RUN,
        ONE_RUN_FDP,
    )

    coins, plain = options.coin_flip is not None, options.coin_flip is None or options.selection != "fixed"
    methods = [CLOPPER_PEARSON] * plain + [ONE_RUN] * coins
    validities = [CERTIFIED] * (coins or options.independent) + [HEURISTIC] * (plain and not options.independent)
    if any(deltas_of(inputs, options)):
        methods += [GDP] * plain + [ONE_RUN_FDP, INDEPENDENT, INDEPENDENT_GDP] * coins
        validities += [ASSUMES_GDP, *[ASSUMES_INDEPENDENT, ASSUMES_INDEPENDENT_GDP] * coins]
    names = tuple(one.name for one in inputs.releases if one.name)
    tiers = {tier for one in inputs.releases for tier in one.tiers} or {options.tier}
    found: dict[str, tuple[Coordinate, ...]] = {
        "attack": tuple(names_of(inputs, options)),
        "tier": tuple(tier for tier in TIERS if tier in tiers),
        "fpr": inputs.fprs,
        "method": tuple(methods),
        "validity": tuple(validities),
        "access": ("samples", "weights", "full"),
        "measure": ("held_out_loss", "precision", "recall"),
    }
    if any(one.samples is not None for one in inputs.releases):
        found |= {"match": ("exact", "near"), "side": ("members", "nonmembers")}
    if options.blind and inputs.blind is not None:
        found["classifier"] = ("linear", "trees")
    return found | ({"model": names, "against": names} if names else {})


def deltas_of(inputs: Inputs, options: Options) -> set[float]:
    """Return the deltas of all bounds: of the claim of a model, or of the options where it has none."""
    return {inputs.claims[model].delta if model in inputs.claims else options.delta for model in inputs.models}


def names_of(inputs: Inputs, options: Options) -> list[str]:
    """Return the attacks that the run makes."""
    names = possible(inputs, options)
    return [name for name in names if name in options.attack] if options.attack else names


def possible(inputs: Inputs, options: Options) -> list[str]:
    """Return the attacks that the given files allow."""
    if isinstance(inputs.given, ScoreSet):
        return list(inputs.given.scores)
    if inputs.given is not None:
        with_likelihoods = inputs.given.reference is not None and inputs.given.scale == "probability"
        return ["threshold", "lira-online", "lira-offline", *(["rmia"] if with_likelihoods else [])]
    languages = [one.language for one in inputs.releases if one.language is not None]
    if languages:
        return [name for name in LANGUAGE if name != "reference" or languages[0].reference is not None]
    tiers = {tier for one in inputs.releases for tier in one.tiers}
    names = [name for tier, own in ATTACKS.items() if tier in tiers for name in own]
    lacking = NEED_REFERENCE if inputs.reference is None else ()
    return [name for name in names if name not in lacking and (options.shadows or name not in LIRA)]


def warnings_of(inputs: Inputs, options: Options) -> tuple[Warning, ...]:
    """Return warnings that the inputs alone already give."""
    found = [Warning(id="input", message=note) for note in inputs.notes]
    found += [
        Warning(id="skipped", message=f"Left out: {reason}, {count:,}.")
        for reason, count in sorted(inputs.pool.skipped.items())
    ]
    sides = int(inputs.pool.member.sum()), int((~inputs.pool.member).sum())
    found += _of_sides(*sides)
    if not all(deltas_of(inputs, options)):
        text = "With delta 0 no Gaussian trade-off curve has a finite epsilon: no such bound."
        found.append(Warning(id="no-gdp", message=text))
    for one in inputs.releases:
        found += _of_release(one, inputs, options)
    found += _of_claims(inputs, options)
    if options.coin_flip is not None:
        found += _of_coins(inputs, sides)
    if isinstance(inputs.given, ScoreSet):
        found += _of_scores(inputs.given, options)
    several = inputs.given if isinstance(inputs.given, ShadowScores) else None
    if several is not None and several.reference is not None and several.scale != "probability":
        text = "RMIA was not made: it takes probabilities, and these scores are not known to be such."
        found.append(Warning(id="no-rmia", message=text))
    if inputs.given is not None and inputs.blind is not None and len(inputs.blind) != len(inputs.pool):
        text = f"The scores are of {len(inputs.pool):,} points, --members and --nonmembers hold {len(inputs.blind):,}."
        found.append(Warning(id="other-points", message=f"{text} Are they the same?"))
    if inputs.blind is None:
        found.append(Warning(id="no-blind-baseline", message=NO_BLIND))
    return tuple(found)


def _of_sides(members: int, others: int) -> Iterator[Warning]:
    if min(members, others) < FEW:
        text = (
            f"{members:,} members and {others:,} non-members are few: intervals are wide, and next to no epsilon "
            "can be proved."
        )
        yield Warning(id="few-points", message=text)
    if max(members, others) > 10 * min(members, others):
        text = f"{members:,} members stand against {others:,} non-members: the smaller side decides what can be said."
        yield Warning(id="unbalanced", message=text)


def _of_claims(inputs: Inputs, options: Options) -> Iterator[Warning]:
    for model, claim in inputs.claims.items():
        if claim.least is not None:
            # Without coordinates: it limits no other number of the model.
            yield Warning(id="claim", message=accounted(claim, f" for {model}" if model else ""))
        if claim.each is not None:
            yield Warning(id="search", message=of_search(claim, f" as {model}" if model else ""))
        for note in claim.notes:
            yield Warning(id="claim", message=note)
    word = stated(options)
    if inputs.claims and not word:
        yield Warning(id="heuristic-bounds", message=HEURISTIC_BOUNDS)
    if word:
        text = f"Certified bounds hold only if, as you say, {word}. Nothing here can check it."
        yield Warning(id="on-your-word", message=text)


def _of_coins(inputs: Inputs, sides: tuple[int, int]) -> Iterator[Warning]:
    """Warn where membership does not look like fair coins, as in an exactly even split."""
    from scipy.stats import binom

    few, all_ = min(sides), sum(sides)
    # Few points split evenly by chance so often that nothing can be read off it.
    if sides[0] == sides[1] and (chance := float(binom.pmf(few, all_, 0.5))) < UNLIKELY:
        text = f"Exactly half of the points are members, which fair coins give once in {1 / chance:.0f} times."
    elif 2 * float(binom.cdf(few, all_, 0.5)) < RARE:
        text = f"{sides[0]:,} members and {sides[1]:,} non-members are not what fair coins give."
    elif isinstance(inputs.given, ScoreSet) and not inputs.given.one_run:
        text = "The file calls them members, not included: one-run bounds need inclusion drawn for the audit, by coins."
    else:
        return
    yield Warning(id="coins-doubtful", message=text)


HEURISTIC_BOUNDS = (
    "Bounds of epsilon are heuristic: they count points of one training run as independent trials. Certified ones need "
    "inclusion by a coin for each point (--coin-flip 0.5), or a training run for each score (--independent)."
)
NO_BLIND = (
    "Only scores were given: whether members and non-members differ without the model was not looked at. Give "
    "--members and --nonmembers beside the scores."
)


def _of_release(one: "Release", inputs: Inputs, options: Options) -> Iterator[Warning]:
    where: Mapping[str, Coordinate] = dict(one.where)
    if one.language is not None:
        from audits.membership.text_preflight import text_warnings

        yield from text_warnings(inputs.pool, one.language, options)
    for part in (one.denoiser, one.generator, one.discriminator):
        for note in () if part is None else part.notes:
            yield Warning(id="model", message=note, where=where)
    if one.samples is not None and inputs.reference is None:
        text = f"Without --reference the attacks {listed(list(NEED_REFERENCE))} are not made."
        yield Warning(id="no-reference", message=text, where=where)
    points = inputs.pool.points
    if points is not None and (one.denoiser or one.generator or one.discriminator) and not points.pixels:
        low, high = points.span
        # No array says what its network was trained on: a range of 0 to 1 is the usual slip.
        if low >= 0 and high <= 1:
            text = (
                f"Values of the points lie from {low:.3g} to {high:.3g} and go to the network as they are; most are "
                "trained on -1 to 1. Give 8-bit images, or an array named img_r01, to have them brought there."
            )
            yield Warning(id="scale", message=text, where=where)
    if points is not None and one.samples is not None:
        wide = points.span[1] - points.span[0]
        if any(abs(own - other) >= 0.4 * wide > 0 for own, other in zip(one.samples.span, points.span, strict=True)):
            text = (
                f"Samples run from {one.samples.span[0]:.3g} to {one.samples.span[1]:.3g}, points from "
                f"{points.span[0]:.3g} to {points.span[1]:.3g}: are they on one scale?"
            )
            yield Warning(id="sample-scale", message=text, where=where)


def _of_scores(given: ScoreSet, options: Options) -> Iterator[Warning]:
    for name, scores in given.scores.items():
        distinct = len(np.unique(scores))
        tied = 1 - distinct / len(scores)
        if distinct > 1 and tied > TIED:
            text = (
                f"{tied:.0%} of the scores of {name} repeat another: a threshold takes all points of a score or none, "
                "and ties count half in the AUC."
            )
            yield Warning(id="ties", message=text, where={"attack": name})
    if given.one_run and options.coin_flip is None:
        text = (
            "The file says who was included. If a fair coin decided that for each point, say --coin-flip 0.5 for the "
            "one-run bounds."
        )
        yield Warning(id="coin-flip", message=text)


def cost_of(inputs: Inputs, options: Options, level: float) -> tuple[tuple[str, str], ...]:
    """Return the cost of the run in words, and for scores the largest epsilon that it could prove."""
    pool = inputs.pool
    rows = [("points", f"{int(pool.member.sum()):,} members, {int((~pool.member).sum()):,} non-members")]
    rows += [
        (f"{model} claimed".strip(), f"an epsilon of {claim.words}, delta {claim.delta:g}, {claim.source}")
        for model, claim in inputs.claims.items()
    ]
    if inputs.given is not None:
        rows.append(("attacks", listed(names_of(inputs, options))))
        rows += _provable(inputs, options, level)
        rows.append(("forwards", "none: scores were given"))
        return tuple(rows)
    seconds = 0.0
    for one in inputs.releases:
        rows.append((one.name or "access", listed(one.tiers)))
        for reader in () if one.language is None else (one.language.own, one.language.reference):
            if reader is not None:
                tokens = sum(len(text.ids) for text in reader.passages)
                rows.append((f"forwards of {reader.folder.reference}", f"{len(pool):,} texts, {tokens:,} tokens"))
                seconds += tokens * reader.parameters * _A_PASS
        if one.samples is not None and "shadow-discriminator" in names_of(inputs, options):
            from probes.generators.attacks.discriminators import weighed

            seconds += weighed(math.prod(one.samples.shape)) * _A_PASS
        if one.denoiser is not None:
            passes, weights = _passes(one, inputs, options), one.denoiser.parameters
            rows.append((f"{one.name} forwards".strip(), f"{passes:,} of one point"))
            seconds += passes * weights * _A_PASS
            if options.shadows:
                # A step goes forwards once and backwards for about two.
                trained = 3 * options.shadow_steps * min(options.shadow_batch, len(pool) // 2)
                rows.append(("shadow models", f"{counted(options.shadows, 'models')} of {weights:,} weights"))
                rows.append(("disk", f"{4 * options.shadows * weights / 2**20:,.0f} MB in the cache"))
                seconds += options.shadows * (trained + passes) * weights * _A_PASS
    rows.append(("time", f"some {max(0.1, seconds / 60):,.1f} minutes of the networks on one CPU core"))
    return tuple(rows)


def _provable(inputs: Inputs, options: Options, level: float) -> list[tuple[str, str]]:
    attacks, most = len(names_of(inputs, options)), _most_provable(inputs, options, level)
    shared = f"; {attacks} attacks share the error" if attacks > 1 else ""
    return [] if most is None else [("provable", f"an epsilon of {bounded(most)}, by a perfect attack{shared}")]


def _most_provable(inputs: Inputs, options: Options, level: float) -> float | None:
    """Return the epsilon that a perfect attack would prove from these scores; None where it is not known yet."""
    from audits.membership.bounding import provable

    # Of several models' scores, which points a likelihood ratio leaves out is not known yet.
    if not isinstance(inputs.given, ScoreSet):
        return None
    (delta,) = deltas_of(inputs, options)
    return provable(inputs.pool, options, len(names_of(inputs, options)), level, delta=delta)


def preview_of(inputs: Inputs, options: Options, level: float) -> tuple[str, ...]:
    """Return notes on claims that no attack on so many points can contradict, as the verdicts of the run say."""
    most = _most_provable(inputs, options, level) if inputs.claims else None
    if most is None:
        return ()
    notes = []
    for claim in inputs.claims.values():
        if most < claim.epsilon:
            which = "claimed" if claim.each is None else "search's"
            text = f"Too few points to contradict the {which} epsilon of {claim.words}: a perfect attack could show at "
            notes.append(f"{text}most {bounded(most)}. More points are needed to test it.")
    return tuple(notes)


def _passes(one: "Release", inputs: Inputs, options: Options) -> int:
    from audits.membership.attacking import requests_of
    from probes.generators.attacks.denoiser import DENOISER_ATTACKS

    assert one.denoiser is not None
    names = [name for name in DENOISER if not options.attack or name in options.attack]
    total = len(one.denoiser.alphas_bar)
    each = [
        DENOISER_ATTACKS[request.attack].evaluations(request.timestep, total, options.draws)
        for request in requests_of(names, one.denoiser, inputs.timesteps)
    ]
    return sum(each) * len(inputs.pool)
