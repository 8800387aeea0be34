"""Text generation by a causal language model, with temperature, top-k, top-p and repetition penalty.

Every text has a random stream of its own, so that it does not depend on its neighbours in the batch; only rounding,
which differs between batch shapes, can turn a near-tie the other way. Batches are kept by content: a killed run goes
on where it was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from probes.core.hashing import sha256_json
from probes.core.holding import held
from probes.core.library_imports import transformers
from probes.models import hub_models
from probes.models.checkpoints import ModelFolder
from probes.texts.causal_folders import (
    check_config,
    generation_settings,
    load_network,
    load_tokeniser,
    one_batch,
    special_tokens,
    unfit,
)
from probes.texts.token_draws import Draw, Sampling

TEXTS = "generated-texts"
_ABSENT = -1


@dataclass(frozen=True, slots=True)
class Generated:
    """One text that a model wrote.

    Parameters
    ----------
    text
        Prompt and continuation without special tokens, stripped.
    tokens
        New tokens, the end token not counted.
    ended
        Whether it ended by itself within the tokens allowed.
    cut
        Tokens at the left of the prompt that the model did not see, since its context is too short for them.
    """

    text: str
    continuation: str
    tokens: int
    ended: bool
    cut: int = 0


def check_causal(folder: ModelFolder, prompts: Sequence[str] = (), new: int = 1) -> None:
    """Check that a folder holds a causal language model that can add `new` tokens to prompts; loads no weights.

    Raises
    ------
    InputError
        Where it does not.
    """
    speller = Speller(folder)
    for prompt in dict.fromkeys(prompts):
        speller.spell(prompt, new)


def fits_context(folder: ModelFolder, prompts: Sequence[str], new: int) -> list[bool]:
    """Tell of each prompt whether all of it and `new` more tokens fit into the model's context; loads no weights."""
    speller = Speller(folder)
    return [not speller.context or len(speller.whole(prompt)) + new <= speller.context for prompt in prompts]


def chat_turns(folder: ModelFolder, texts: Sequence[str]) -> list[str]:
    """Return texts as a user's turns by the folder's chat template; loads no weights.

    Raises
    ------
    InputError
        Where it has none, or it does not work.
    """
    return Speller(folder).turns(texts)


class Speller:
    """Conversion of prompts to token ids and back, which needs no weights."""

    def __init__(self, folder: ModelFolder) -> None:
        self.folder = folder
        self.config = check_config(folder)
        self._tokeniser = load_tokeniser(folder)
        text = self.config.get_text_config(decoder=True)
        self.vocabulary = int(text.vocab_size)
        sources = (self._tokeniser, generation_settings(folder), text, self.config)
        self.ends = special_tokens(sources, "eos_token_id", self.vocabulary)
        self.begin = special_tokens(sources, "bos_token_id", self.vocabulary)[:1]
        self._start = [*self.begin, *self.ends][:1]
        # Some families write -1 for no limit of length.
        self._context = max(0, getattr(text, "max_position_embeddings", None) or 0)

    @property
    def context(self) -> int:
        """Tokens that the model can see; 0 for no limit."""
        return self._context

    def whole(self, text: str) -> list[int]:
        """Return the token ids of a text that is to be continued, however many."""
        return self._open(list(self._tokeniser(text).input_ids)) or self._start

    def _open(self, ids: list[int]) -> list[int]:
        # Some tokenizers close every text; a text to be continued is still open.
        while ids and ids[-1] in self.ends:
            ids.pop()
        if max(ids, default=0) >= self.vocabulary:
            what = f"The tokenizer gives token {max(ids)}; the model has only {self.vocabulary}."
            raise unfit(self.folder, what, "Take the tokenizer that the model was trained with.")
        return ids

    def offsets(self, text: str, *, alone: bool = False) -> tuple[list[int], list[tuple[int, int]]]:
        """Return token ids of a text that is to be continued, and which of its characters each of them spells.

        Parameters
        ----------
        alone
            Whether special tokens, such as one that starts a text, are left out.
        """
        if not self._tokeniser.is_fast:
            hint = "Save it with a recent release of transformers, which writes tokenizer.json."
            raise unfit(self.folder, "The tokenizer does not say which characters a token spells.", hint)
        found = self._tokeniser(text, return_offsets_mapping=True, add_special_tokens=not alone)
        ids = self._open(list(found.input_ids))
        return ids, list(found.offset_mapping)[: len(ids)]

    def vocabulary_hash(self) -> str:
        """Return a hash of all tokens with their ids and of the size of the model's vocabulary."""
        return sha256_json([self.vocabulary, self._tokeniser.get_vocab()])

    def turns(self, texts: Sequence[str]) -> list[str]:
        """Return texts as a user's turns of a chat, up to where the answer begins, by the folder's own template."""
        tokeniser = self._tokeniser
        if not tokeniser.chat_template:
            raise unfit(self.folder, "The tokenizer has no chat template.", "Leave out --chat.")
        chats = [[{"role": "user", "content": text}] for text in texts]
        path = self.folder.path
        with hub_models.within_limits("turn of a chat", path), hub_models.loading_errors("chat template", self.folder):
            turns = tokeniser.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
        # Many tokenizers put the start before a text by themselves.
        own = tokeniser("a").input_ids[:1] == [tokeniser.bos_token_id]
        return [turn.removeprefix(tokeniser.bos_token) if own else turn for turn in turns]

    def spell(self, prompt: str, new: int) -> tuple[list[int], int]:
        """Return the prompt's token ids, cut so that `new` more fit behind them, and the number cut off."""
        ids = self.whole(prompt)
        if not ids:
            what = "The prompt is empty, and the model has no token to start a text with."
            raise unfit(self.folder, what, "Give prompts.")
        return self._fit(ids, new)

    def _fit(self, ids: list[int], new: int) -> tuple[list[int], int]:
        room = self._context - new
        if not self._context or len(ids) <= room:
            return ids, 0
        if room < 1:
            what = f"{new} new tokens and a prompt do not fit into the model's {self._context} tokens."
            raise unfit(self.folder, what, f"Allow at most {self._context - 1} new tokens.")
        # A start token stays: models that were trained with one write badly without it.
        kept = ids[:1] if room > 1 and ids[:1] == self._start else []
        return kept + ids[len(ids) - room + len(kept) :], len(ids) - room

    def read(self, prompt: str, seen: Sequence[int], new: Sequence[int], cut: int) -> Generated:
        """Decode new token ids after a prompt."""
        end = next((at for at, token in enumerate(new) if token in self.ends), len(new))
        before, whole = self._decode(seen), self._decode([*seen, *new[:end]])
        # Decoded alone, the first word would lose the space before it in some tokenizers.
        continuation = whole[len(before) :] if whole.startswith(before) else self._decode(new[:end])
        for special in self._tokeniser.all_special_tokens:
            prompt = prompt.replace(special, "")
        return Generated((prompt + continuation).strip(), continuation, end, end < len(new), cut)

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokeniser.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


def parameters_of(folder: ModelFolder) -> int:
    """Count the parameters of a causal language model without loading its weights.

    Raises
    ------
    InputError
        Where the folder holds none.
    """
    loader = transformers().AutoModelForCausalLM
    with hub_models.loading_errors("model", folder):
        model = hub_models.empty_model(loader, check_config(folder), folder)
    return sum(weight.numel() for weight in model.parameters())


class CausalLM:
    """A frozen causal language model with its tokenizer.

    Raises
    ------
    InputError
        Where the folder is no causal language model, has no tokenizer, or its weights do not fit the configuration.
    """

    def __init__(self, folder: ModelFolder, *, device: str, dtype: str) -> None:
        self.speller = Speller(folder)
        self._device = device
        self._model = load_network(folder, self.speller.config, dtype)
        self._model.to(device=device).eval()
        # The folder's own sampling settings would be mixed with ours.
        self._model.generation_config = transformers().GenerationConfig()
        self.parameters = sum(weight.numel() for weight in self._model.parameters())

    def generate(self, prompts: Sequence[str], sampling: Sampling, seeds: Sequence[int]) -> list[Generated]:
        """Continue every prompt, each with random numbers of its own seed, in one batch.

        Raises
        ------
        IncompleteError
            Where the device runs out of memory.
        InputError
            Where a prompt cannot be spelt or the model gives numbers that are not finite.
        """
        rows = [(prompt, *self.speller.spell(prompt, sampling.max_new_tokens)) for prompt in prompts]
        news = self.continue_ids([ids for _, ids, _ in rows], sampling, seeds)
        return [self.speller.read(prompt, ids, new, cut) for (prompt, ids, cut), new in zip(rows, news, strict=True)]

    def continue_ids(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seeds: Sequence[int],
        before: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> list[list[int]]:
        """Return the new token ids of every prompt, up to its end token, which is the last one where there is one.

        Parameters
        ----------
        before
            What changes the logits of a step before a token is drawn, given all tokens so far and the logits.
        """
        ends = self.speller.ends
        tokens, mask = self.padded(prompts)
        longest = tokens.shape[1]
        draw = Draw(sampling, seeds, mask, self.speller.folder)
        stop = {"max_new_tokens": sampling.max_new_tokens, "eos_token_id": ends or None, "pad_token_id": self._pad}
        settings = transformers().GenerationConfig(do_sample=False, num_beams=1, **stop)
        call = {
            "attention_mask": mask,
            "generation_config": settings,
            "logits_processor": [before, draw] if before else [draw],
        }
        with one_batch(len(prompts), hint="Lower --batch, or allow fewer new tokens."):
            output = self._model.generate(tokens, **call)
        return [_to_end(row, ends) for row in output[:, longest:].tolist()]

    @property
    def network(self) -> Any:
        """The model itself."""
        return self._model

    @property
    def _pad(self) -> int:
        return self.speller.ends[0] if self.speller.ends else 0

    def padded(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Return prompts padded to the left, and the mask of what is no padding, both (prompts, tokens)."""
        longest = max(len(ids) for ids in prompts)
        tokens = torch.tensor([[self._pad] * (longest - len(ids)) + list(ids) for ids in prompts], device=self._device)
        lengths = torch.tensor([len(ids) for ids in prompts], device=self._device)
        return tokens, (torch.arange(longest, device=self._device) >= longest - lengths[:, None]).long()


def held_model(folder: ModelFolder, device: str, dtype: str) -> CausalLM:
    """Return the model of a folder, loaded once for all jobs of this process."""
    key = ["causal language model", str(folder.path), folder.sha256, device, dtype]
    return held(key, partial(CausalLM, folder, device=device, dtype=dtype))


def token_entry(rows: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """Return new token ids as an entry of the cache."""
    longest = max(len(row) for row in rows)
    padded = [[*row, *[_ABSENT] * (longest - len(row))] for row in rows]
    return {"tokens": torch.tensor(padded, dtype=torch.int32)}


def tokens_of_entry(entry: dict[str, Tensor]) -> list[list[int]]:
    """Return the new token ids that an entry of the cache holds."""
    return [[token for token in row if token != _ABSENT] for row in entry["tokens"].tolist()]


def _to_end(row: list[int], ends: Sequence[int]) -> list[int]:
    return row[: next((at + 1 for at, token in enumerate(row) if token in ends), len(row))]
