"""What a causal language model answers to items: by the likelihood of their options, and in its own words."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from audits.core.context import Cache, Context
from audits.tracking import Options
from audits.tracking.items import Item
from probes.core.errors import InputError
from probes.core.hashing import sha256_json
from probes.core.holding import release
from probes.core.spreading import entry_of, spread
from probes.models.checkpoints import ModelFolder

if TYPE_CHECKING:
    from torch import Tensor

    from probes.texts.continuations import Continuations

CHOICES = "tracking-choices"
VERSION = 1
ANSWER = "Answer:"
COT = "Let's think step by step, and end with 'the answer is'.\n"
MOST_STRUCTURED = 64
"""Items of each task whose attention is measured."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The option of the highest likelihood, and how far above the next one it is, in nats.

    `tied` says that another is as likely, `several` that options have more than one token: then their likelihood
    behind "Answer:" alone is taken off (Holtzman et al. 2021).
    """

    option: int
    gap: float
    tied: bool
    several: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model wrote, up to the end of the line or sentence."""

    text: str


def questions(folder: ModelFolder, items: Sequence[Item], options: Options) -> list[tuple[str, tuple[str, ...]]]:
    """Return for each item the text that a model continues, and its options as they would go on."""
    from probes.texts.text_generation import chat_turns

    texts = [item.prompt.rstrip() + (f"\n{ANSWER}" if item.labels else "") for item in items]
    if options.cot:
        texts = [f"{text}\n{COT}" for text in texts]
    # An answer that begins a turn has no space before it.
    space = "" if options.chat else " "
    choices = (tuple(space + option for option in item.labels or item.options) for item in items)
    return list(zip(chat_turns(folder, texts) if options.chat else texts, choices, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceJob:
    """Items whose options are scored together: their texts with options, and what stands before an option alone."""

    rows: tuple[int, ...]
    texts: list[tuple[str, tuple[str, ...]]]
    behind: str
    key: list[object]
    folder: ModelFolder
    device: str
    dtype: str
    cache: Cache


def score_choices(
    folder: ModelFolder, items: Sequence[Item], options: Options, context: Context
) -> tuple[ChoiceJob, ...]:
    """Score the options of all items, or of those of this run's part, and return the jobs, whose scores are kept."""
    from probes.texts.text_generation import chat_turns

    asked, (behind,) = questions(folder, items, options), chat_turns(folder, [ANSWER]) if options.chat else [ANSWER]
    packages = [version(name) for name in ("torch", "transformers", "tokenizers")]
    common = [VERSION, folder.sha256, context.dtype, context.device.partition(":")[0], packages]
    optional = [at for at, item in enumerate(items) if item.options]
    # Those of like length together: there is little padding then.
    optional.sort(key=lambda at: len(items[at].prompt))
    jobs = tuple(
        ChoiceJob(
            rows=tuple(part),
            texts=texts,
            behind=behind,
            key=[*common, sha256_json(texts)],
            folder=folder,
            device=context.device,
            dtype=context.dtype,
            cache=context.cache,
        )
        for part in _batches(optional, options.batch)
        for texts in [[asked[at] for at in part]]
    )
    with context.progress.phase("Choosing among options", len(optional), "items") as advance:
        spread(
            _score,
            jobs,
            made=lambda index: context.cache.has(CHOICES, jobs[index].key),
            machines=context.machines,
            things="batches of items",
            done=lambda index: advance(len(jobs[index].rows)),
        )
    return jobs


def choices_of(jobs: Sequence[ChoiceJob], items: Sequence[Item]) -> dict[int, Choice]:
    """Return the choice among the options of every item that has some and fits into the model's context."""
    found: dict[int, Choice] = {}
    for job in jobs:
        kept = entry_of(job.cache, CHOICES, job.key, partial(_scores, job))
        for row, at in enumerate(job.rows):
            if kept["fits"][row]:
                found[at] = _choice(kept["scores"][row, : len(items[at].options)].tolist(), bool(kept["several"][row]))
    return dict(sorted(found.items()))


def _score(job: ChoiceJob) -> None:
    job.cache.write(CHOICES, job.key, _scores(job))


def _scores(job: ChoiceJob) -> "dict[str, Tensor]":
    import torch

    from probes.texts.option_scores import score_options, spell_options
    from probes.texts.text_generation import held_model

    texts, model = job.texts, held_model(job.folder, job.device, job.dtype)
    spelled = [spell_options(model, *text) for text in texts]
    bare = [spell_options(model, job.behind, choices) for _, choices in texts]
    limit = model.speller.context
    fits = torch.tensor([not limit or one.longest <= limit for one in spelled])
    scores = torch.full((len(texts), max(len(choices) for _, choices in texts)), -torch.inf)
    whole = [at for at, fit in enumerate(fits.tolist()) if fit]
    several = torch.tensor([not one.single for one in spelled])
    if whole:
        part = score_options(model, [spelled[at] for at in whole])
        scores[whole, : part.shape[1]] = part
    for at in whole:
        if several[at]:
            alone = score_options(model, [bare[at]])[0]
            scores[at, : len(alone)] -= alone
    if bool(scores.isnan().any()):
        hint = "Its weights are damaged, or too large for the number format: try --dtype float32."
        message = "The model gives logits that are not finite numbers."
        raise InputError(message, where=str(job.folder.reference), hint=hint)
    return {"scores": scores, "fits": fits, "several": several}


def _choice(scores: Sequence[float], several: bool) -> Choice:
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
    gap = scores[order[0]] - scores[order[1]]
    return Choice(order[0], gap, gap == 0, several)


def _batches(rows: Sequence[int], size: int) -> Iterator[list[int]]:
    return (list(rows[start : start + size]) for start in range(0, len(rows), size))


@dataclass(frozen=True, slots=True)
class Replies:
    """What the model writes to the items, by their positions, once it is written."""

    items: list[int]
    texts: "Continuations"

    def read(self, *, whole: bool) -> dict[int, Reply]:
        """Return what the model wrote, up to the end of the line or sentence, or the whole of it."""
        return {
            at: Reply(_said(one.continuation, whole)) for at, one in zip(self.items, self.texts.read(), strict=True)
        }


def write_replies(
    folder: ModelFolder, items: Sequence[Item], tokens: int, options: Options, context: Context
) -> Replies:
    """Let the model go on greedily behind all items that fit, or those of this run's part."""
    from probes.texts.continuations import Continuations
    from probes.texts.text_generation import fits_context
    from probes.texts.token_draws import Sampling

    texts = [text for text, _ in questions(folder, items, options)]
    fitting = [at for at, fits in enumerate(fits_context(folder, texts, tokens)) if fits]
    written = Continuations(
        folder,
        [texts[at] for at in fitting],
        Sampling(temperature=0.0, max_new_tokens=tokens),
        seed=0,
        batch=options.batch,
        device=context.device,
        dtype=context.dtype,
        cache=context.cache,
    )
    written.write(context.progress, "Writing answers", context.machines)
    return Replies(fitting, written)


def _said(text: str, whole: bool) -> str:
    if whole:
        return text
    lines = [line for line in text.strip().splitlines() if line.strip()]
    # A point within a number or a word ends no sentence.
    return re.split(r"\.(?!\w)", lines[0])[0].strip() if lines else ""


def attention_shares(
    folder: ModelFolder, items: Sequence[Item], sizes: Sequence[int], options: Options, context: Context
) -> dict[tuple[int, int, int, str], list[float]]:
    """Return the share of attention within blocks by layer, head, block and kind, a number an item.

    Maps are read one item at a time: those of one hold layers x heads x tokens x tokens numbers. Of each task the first
    items are taken.
    """
    import torch

    from probes.language_models.chain_attention import automatic_block, block_shares, dependency_map
    from probes.texts.text_generation import CausalLM

    # The model that scored is still held, and there may be room for one only.
    release()
    model = CausalLM(folder, device=context.device, dtype=context.dtype)
    network: Any = model.network
    # Only this implementation returns its attention.
    network.set_attn_implementation("eager")
    found: dict[tuple[int, int, int, str], list[float]] = {}
    taken = _first_of_each(items, MOST_STRUCTURED)
    texts = [text for text, _ in questions(folder, items, options)]
    with torch.inference_mode(), context.progress.phase("Reading attention", len(taken), "items") as advance:
        for at in taken:
            ids = model.speller.whole(texts[at])
            limit = model.speller.context
            if not limit or len(ids) <= limit:
                tokens, mask = model.padded([ids])
                output = network(input_ids=tokens, attention_mask=mask, output_attentions=True)
                maps = getattr(output, "attentions", None)
                if not maps:
                    hint = "Leave out --structure."
                    raise InputError("The model gives no maps of attention.", where="--structure", hint=hint)
                graph = None
                if items[at].graph and items[at].prompt in texts[at]:
                    lengths, sources = zip(*items[at].graph, strict=True)
                    before = texts[at].index(items[at].prompt)
                    ends = [len(model.speller.whole(texts[at][: before + end])) for end in lengths]
                    graph = dependency_map(ends, sources, len(ids))
                for layer, whole in enumerate(maps):
                    for size in sizes:
                        every = block_shares(whole[0].float().cpu(), size or automatic_block(len(ids)), graph)
                        for kind, shares in every.items():
                            for head, share in enumerate(shares):
                                found.setdefault((layer, head, size, kind), []).append(share)
            advance(1)
    return found


def _first_of_each(items: Sequence[Item], most: int) -> list[int]:
    counts: dict[str, int] = {}
    taken = []
    for at, item in enumerate(items):
        counts[item.task] = counts.get(item.task, 0) + 1
        if counts[item.task] <= most:
            taken.append(at)
    return taken
