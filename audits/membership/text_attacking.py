"""Attacks on a language model: one forward pass of each text serves all of them."""

import numpy as np

from audits.core.context import Context
from audits.core.intervals import Interval
from audits.membership import Options
from audits.membership.language_models import LanguageModel, Reader
from audits.membership.pool import Pool
from audits.membership.scoring import Scored, Variants, settle_on
from audits.membership.text_preflight import setting_of
from audits.statistics.mean_intervals import mean_interval
from probes.texts.membership_attacks import ATTACKS, REFERENCE, against_reference, scores_of
from probes.texts.text_likelihoods import Likelihood, likelihoods_of, read_texts

TIER = "generator"
"""Its weights, or an interface that tells the probability of given tokens."""


def attack_texts(found: Scored, language: LanguageModel, pool: Pool, options: Options, context: Context) -> None:
    """Add the attacks on a language model that the inputs allow, or those requested."""
    own = _read(language.own, "Reading texts", options, context)
    scores = scores_of(language.own.passages, own)
    wanted = options.attack or ATTACKS
    if language.reference is not None and REFERENCE in wanted:
        other = _read(language.reference, "Reading texts with the reference model", options, context)
        pairs = (language.own.passages, own), (language.reference.passages, other)
        scores[REFERENCE] = against_reference(*pairs, same_tokens=language.same_tokens)
    for name in ATTACKS:
        if name in scores and name in wanted:
            made = Variants(name=name, tier=TIER, settings=(setting_of(language, name),), scores=scores[name][None])
            found.attacks.append(settle_on(made, pool, {}))


def share_texts(language: LanguageModel, options: Options, context: Context) -> None:
    """Let the models read the texts, or this run's part of them."""
    wanted = options.attack or ATTACKS
    readers = [language.own, *([language.reference] if language.reference is not None and REFERENCE in wanted else [])]
    for reader in readers:
        read_texts(reader.folder, reader.passages, label="Reading texts", **context.running(options.batch))


def loss_on_nonmembers(language: LanguageModel, pool: Pool, options: Options, context: Context) -> Interval:
    """Return the mean loss of a token, in nats, on texts that were not trained on."""
    own = _read(language.own, "Loss on non-members", options, context)
    values = -np.array([one.mean for one, member in zip(own, pool.member, strict=True) if not member])
    made = mean_interval(values, level=context.level, positive=True)
    method, (low, high) = made or ("none", (None, None))
    if made is not None:
        method += "; nats a token, mean of each text"
    return Interval(value=float(values.mean()), low=low, high=high, method=method, n=len(values), unit="non-members")


def _read(reader: Reader, label: str, options: Options, context: Context) -> list[Likelihood]:
    return likelihoods_of(reader.folder, reader.passages, label=label, **context.running(options.batch))
