"""The tokenizer whose tokens canaries are made of."""

from pathlib import Path

from audits.membership.canary_making import Tokens
from probes.texts.random_tokens import RandomTokens


def tokens_of(folder: Path) -> Tokens:
    """Return the tokens of a folder's tokenizer.

    Raises
    ------
    InputError
        Where it holds none, or one of few.
    """
    return RandomTokens(folder)
