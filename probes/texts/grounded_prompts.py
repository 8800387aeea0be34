"""Prompts that hold a context, and the token ids of an output behind them, the same behind every context.

Prompt and output are spelt together. A token in which the end of the prompt melts with the output is the output's.
Where two contexts would make the output spell otherwise, it is spelt alone behind both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from probes.core.errors import InputError
from probes.files.text import read_text
from probes.models.checkpoints import ModelFolder
from probes.texts.causal_folders import unfit
from probes.texts.text_generation import Speller

DEFAULT_TEMPLATE = "{context}\n{question}\n{output}"
"""How a model is asked; the line of {question} is left out where a row has none."""


@dataclass(frozen=True, slots=True)
class Template:
    """The text around context, question and output.

    >>> Template("{context}\\nSo: {output}").prompt("It rains.", None)
    ('It rains.\\nSo: ', 0, 9)

    Raises
    ------
    InputError
        Where it has not one {context} and then, at its end, one {output}.
    """

    text: str = DEFAULT_TEMPLATE
    where: str = "--template"

    def __post_init__(self) -> None:
        head, _, tail = self.text.rstrip().partition("{output}")
        if "{output}" not in self.text or tail or head.count("{context}") != 1:
            raise InputError(
                "A template needs {context} once, and {output} once, behind all else.",
                where=self.where,
                hint=f"Such as {DEFAULT_TEMPLATE!r}; {{question}} may be left out.",
            )

    def prompt(self, context: str, question: str | None) -> tuple[str, int, int]:
        """Return what stands before the output, and where the context begins and ends in it."""
        head = self.text.partition("{output}")[0]
        if not question:
            head = head.replace("{question}\n", "")
        before, after = (part.replace("{question}", question or "") for part in head.split("{context}"))
        return before + context + after, len(before), len(before) + len(context)


def read_template(path: Path) -> Template:
    """Read a template from a file; line breaks at its end do not count."""
    return Template(read_text(path).rstrip("\r\n"), str(path))


@dataclass(frozen=True, slots=True)
class Spelt:
    """Token ids of a prompt and of the output behind it, with the characters of the output that each of these spells.

    `cut` is the number of the context's last tokens that had to be left out.
    """

    prefix: tuple[int, ...]
    own: tuple[int, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    cut: int = 0


@dataclass(frozen=True, slots=True)
class _Split:
    prefix: list[int]
    inside: range
    own: list[int]
    spans: list[tuple[int, int]] = field(default_factory=list)


class Prompts:
    """Spelling of prompts for one model; no weights are loaded.

    Raises
    ------
    InputError
        Where the folder is no causal language model.
    """

    def __init__(self, folder: ModelFolder, template: Template) -> None:
        self.template = template
        self.speller = Speller(folder)

    def pair(self, contexts: Sequence[str], question: str | None, output: str) -> list[Spelt] | None:
        """Spell an output behind each of several contexts; None where it has no token or does not fit behind one."""
        splits = [self._together(context, question, output) for context in contexts]
        if len({tuple(split.own) for split in splits}) > 1:
            own, spans = self.speller.offsets(output, alone=True)
            splits = [self._together(context, question, "") for context in contexts]
            splits = [_Split(split.prefix, split.inside, own, spans) for split in splits]
        fitted = [self._fit(split, len(split.own)) for split in splits if split.own]
        found = [one for one in fitted if one is not None]
        return found if len(found) == len(contexts) else None

    def prefix(self, context: str, question: str | None, new: int) -> Spelt:
        """Spell a prompt behind which `new` tokens fit.

        Raises
        ------
        InputError
            Where that leaves nothing of the context.
        """
        found = self._fit(self._together(context, question, ""), new)
        if found is None:
            what = f"A prompt and {new} new tokens do not fit into the model's {self.speller.context} tokens."
            raise unfit(self.speller.folder, what, "Allow fewer new tokens, or shorten the template.")
        return found

    def _together(self, context: str, question: str | None, output: str) -> _Split:
        prompt, start, end = self.template.prompt(context, question)
        ids, spans = self.speller.offsets(prompt + output)
        first = next((at for at, span in enumerate(spans) if span[1] > len(prompt)), len(ids))
        inside = [at for at in range(first) if start <= spans[at][0] < spans[at][1] <= end]
        held = range(inside[0], inside[-1] + 1) if inside else range(0)
        own = [(max(0, left - len(prompt)), right - len(prompt)) for left, right in spans[first:]]
        prefix = ids[:first] or self.speller.whole("")
        if not prefix:
            hint = "Let the template hold words before {output}."
            raise unfit(self.speller.folder, "The model has no token to start a text with.", hint)
        return _Split(prefix, held, ids[first:], own)

    def _fit(self, split: _Split, new: int) -> Spelt | None:
        limit = self.speller.context
        cut = max(0, len(split.prefix) + new - limit) if limit else 0
        # Nothing of a context is no context.
        if cut and cut >= len(split.inside):
            return None
        stop = split.inside.stop
        kept = [*split.prefix[: stop - cut], *split.prefix[stop:]]
        return Spelt(tuple(kept), tuple(split.own), tuple(split.spans), cut)
