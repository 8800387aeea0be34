"""What to know of texts before a language model is attacked: which are cut, and whether lengths part the sides."""

import json
from collections.abc import Iterator

import numpy as np

from audits.core.records import Warning
from audits.membership import Options
from audits.membership.language_models import LanguageModel
from audits.membership.pool import Pool

DIFFERENT = 0.01
"""Probability by chance of lengths so unlike below which they are reported."""


def text_warnings(pool: Pool, language: LanguageModel, options: Options) -> Iterator[Warning]:
    """Warn of texts that are cut or begin with a token of ours, and of sides whose texts are of other lengths."""
    if any(one.opened for one in language.own.passages):
        text = (
            "Each text is read behind the model's start token, which its tokenizer does not write by itself. A model "
            "that was trained without it may show more with --no-start-token."
        )
        yield Warning(id="start-token", message=text)
    for reader, which in ((language.own, "the model"), (language.reference, "the reference model")):
        cut = 0 if reader is None else sum(one.left > 0 for one in reader.passages)
        if reader is not None and cut:
            text = (
                f"{cut:,} of {len(pool):,} texts are longer than the {reader.context:,} tokens that {which} is shown: "
                "only their beginning is read, and only that counts."
            )
            yield Warning(id="texts-cut", message=text)
    if language.reference is not None and not language.same_tokens:
        text = "The reference model has other tokens: nats a byte of text are compared, not nats a token."
        yield Warning(id="other-tokens", message=text)
    if language.reference is not None and options.coin_flip is not None:
        text = (
            "The one-run bounds of the attack reference hold only if no coin decided what the reference model was "
            "trained on: it has seen neither the texts that were included nor those that were not."
        )
        yield Warning(id="reference-coins", message=text)
    if language.canaries and options.coin_flip is None:
        text = (
            "The sealed list says which canaries were included. If its coins are as `miles canaries` drew them, say "
            "--coin-flip 0.5 for the one-run bounds."
        )
        yield Warning(id="coin-flip", message=text)
    yield from _lengths(pool)


def _lengths(pool: Pool) -> Iterator[Warning]:
    from scipy.stats import mannwhitneyu

    # In letters: how many tokens a text has may itself be what a tokenizer learnt of its training data.
    sizes = np.array([len(text) for text in pool.texts or ()])
    sides = sizes[pool.member], sizes[~pool.member]
    if np.ptp(sizes) == 0 or float(mannwhitneyu(*sides).pvalue) >= DIFFERENT:
        return
    middle = [f"{float(np.median(one)):g}" for one in sides]
    text = (
        f"The middle member has {middle[0]} letters, the middle non-member {middle[1]}. The loss of a token falls with "
        "the text before it, so lengths alone part the two: take texts of like lengths and topics."
    )
    yield Warning(id="text-lengths", message=text)


def setting_of(language: LanguageModel, name: str) -> str:
    """Return in words what an attack compares with; empty where there is nothing to say."""
    if name != "reference" or language.reference is None:
        return ""
    unit = "nats a token" if language.same_tokens else "nats a byte"
    return f"against {json.dumps(language.reference.folder.reference, ensure_ascii=False)}, {unit}"
