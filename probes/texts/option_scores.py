"""Likelihoods of given continuations by a causal language model: which of several answers it finds most likely.

s(o) = sum_t log p(o_t | prompt, o_<t). Prompt and option are tokenised together; what of the prompt's tokens is not
shared by all options, since its end melted into the answer, is scored with the option.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probes.texts.causal_folders import one_batch
from probes.texts.text_generation import CausalLM


@dataclass(frozen=True, slots=True)
class Spelling:
    """Tokens that all options of a prompt share, and those of each option behind them."""

    shared: tuple[int, ...]
    options: tuple[tuple[int, ...], ...]

    @property
    def longest(self) -> int:
        """Tokens of the prompt with its longest option."""
        return len(self.shared) + max(len(option) for option in self.options)

    @property
    def single(self) -> bool:
        """Whether every option is one token."""
        return all(len(option) == 1 for option in self.options)


def spell_options(model: CausalLM, prompt: str, options: Sequence[str]) -> Spelling:
    """Tokenise a prompt with each option; they share one token less than all of a prompt that ends an option."""
    whole = [model.speller.whole(prompt + option) for option in options]
    shared = 0
    # One token at least is each option's own.
    most = min(map(len, whole)) - 1
    while shared < most and len({ids[shared] for ids in whole}) == 1:
        shared += 1
    alone = model.speller.whole(prompt)
    shared = min(
        shared, next((at for at, pair in enumerate(zip(alone, whole[0], strict=False)) if len({*pair}) > 1), len(alone))
    )
    return Spelling(tuple(whole[0][:shared]), tuple(tuple(ids[shared:]) for ids in whole))


def score_options(model: CausalLM, spellings: Sequence[Spelling]) -> Tensor:
    """Return the log-likelihoods in nats of all options, shape (prompts, options); -inf where a prompt has fewer.

    The prompts go through the model once; options of several tokens then share what the model keeps of their prompt.

    Raises
    ------
    IncompleteError
        Where the device runs out of memory.
    """
    with one_batch(len(spellings), "prompts"):
        if all(spelling.single for spelling in spellings):
            return _of_one_token(model, spellings)
        return torch.stack([_of_several(model, spelling, _widest(spellings)) for spelling in spellings])


def _widest(spellings: Sequence[Spelling]) -> int:
    return max(len(spelling.options) for spelling in spellings)


def _of_one_token(model: CausalLM, spellings: Sequence[Spelling]) -> Tensor:
    tokens, mask = model.padded([spelling.shared for spelling in spellings])
    logits = last_logits(model, tokens, mask).float().log_softmax(-1).cpu()
    found = torch.full((len(spellings), _widest(spellings)), -torch.inf)
    for at, spelling in enumerate(spellings):
        ids = [option[0] for option in spelling.options]
        found[at, : len(ids)] = logits[at, ids]
    return found


def last_logits(model: CausalLM, tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the logits behind the last token of each row, (rows, vocabulary), of left-padded prompts."""
    return logits_behind(model, tokens, mask, 1)[:, 0]


def logits_behind(model: CausalLM, tokens: Tensor, mask: Tensor, last: int) -> Tensor:
    """Return the logits behind each of the last tokens of left-padded rows, (rows, last, vocabulary)."""
    call = {"attention_mask": mask, "use_cache": False, "position_ids": positions(mask)}
    if "logits_to_keep" in inspect.signature(model.network.forward).parameters:
        # Those of all tokens of long prompts would take gigabytes.
        call["logits_to_keep"] = last
    logits: Tensor = model.network(input_ids=tokens, **call).logits[:, -last:]
    return logits


def positions(mask: Tensor) -> Tensor:
    """Return the position of each token of left-padded rows, shape (rows, tokens); padding has 0."""
    return (mask.cumsum(1) - 1).clamp_min(0)


def _of_several(model: CausalLM, spelling: Spelling, width: int) -> Tensor:
    """Score options of several tokens: one pass over the prompt, whose keys and values all options then share."""
    prompt, mask = model.padded([spelling.shared])
    takes = inspect.signature(model.network.forward).parameters
    # transformers renamed it in 5.24.
    name = "cache" if "cache" in takes else "past_key_values"
    # Those of all tokens of long prompts would take gigabytes.
    last = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
    first = model.network(input_ids=prompt, attention_mask=mask, use_cache=True, **last)
    count, longest = len(spelling.options), max(map(len, spelling.options))
    rows = torch.tensor(
        [[*option, *[0] * (longest - len(option))] for option in spelling.options], device=prompt.device
    )
    inside = torch.tensor([[at < len(option) for at in range(longest)] for option in spelling.options])
    logits = first.logits[:, -1:].expand(count, 1, -1)
    if longest > 1:
        kept = first.get(name)
        if not all(hasattr(layer, "batch_repeat_interleave") for layer in getattr(kept, "layers", [None])):
            return _of_whole_texts(model, spelling, width)
        kept.batch_repeat_interleave(count)
        whole = torch.ones(count, prompt.shape[1] + longest - 1, dtype=torch.long, device=prompt.device)
        behind = model.network(input_ids=rows[:, :-1], attention_mask=whole, **{name: kept}).logits
        logits = torch.cat([logits, behind], 1)
    likely = logits.float().log_softmax(-1).gather(2, rows[..., None])[..., 0].cpu()
    found = torch.full((width,), -torch.inf)
    found[:count] = torch.where(inside, likely, 0.0).sum(1)
    return found


def _of_whole_texts(model: CausalLM, spelling: Spelling, width: int) -> Tensor:
    """Score options by one pass over each whole text: what some models keep, such as Mamba, cannot be shared."""
    found = torch.full((width,), -torch.inf)
    for at, option in enumerate(spelling.options):
        tokens, mask = model.padded([(*spelling.shared, *option)])
        logits = model.network(input_ids=tokens, attention_mask=mask, use_cache=False).logits[0]
        likely = logits[-len(option) - 1 : -1].float().log_softmax(-1)
        found[at] = likely.gather(1, tokens[0, -len(option) :, None]).sum().cpu()
    return found
