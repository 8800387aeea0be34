"""A language model whose probabilities are known in closed form: a GPT-2 with weights made by hand, on made-up slots.

A context names the values of m slots, each of V, and an output repeats them: "Aromi serves Chinese food ...". At a
slot the right value has probability 1 - e and each other one e/(V-1); without a context each has 1/V; all other words
follow from the word before. So a right token adds log((1-e)V) to the pointwise mutual information of output and
context, and a wrong one log(eV/(V-1)).

Every feature f of the residual stream has a twin -f, and the number of features that are 1 is the same for all tokens:
2, and 3 behind the attention. Layer normalisation then only scales by a constant. One head looks for a value of the
slot that comes next; where there is none it falls back on the start token, which copies to a feature without use.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from probes.core import library_imports as libraries

START, END, UNKNOWN = "<s>", "</s>", "<unk>"
POSITIONS = 256
_NEVER = -60.0
"""Logit of a word that cannot follow: its probability is lost in the rounding of 64 bits."""
_MATCH, _SINK = 120.0, 60.0
_SUFFIXES = ("", "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo")
_SLOTS: tuple[tuple[str, str, str, str], ...] = (
    ("name", "", "", "Aromi Bibimo Cotto Dalia Eatery Fenchel Giraffo Hotpot Indaba Jorvik"),
    ("food", "serves", "food", "Chinese Indian Italian French English Japanese Greek Thai Mexican Turkish"),
    ("price", "in the", "range", "high low moderate cheap fair steep middle modest top bottom"),
    ("near", "near", "", "Clowns Rainbows Burgers Crowns Sorrento Alimentum Raja Yippee Avalon Bakers"),
    ("seats", "with", "seats", " ".join(str(10 + 2 * at) for at in range(100))),
)
"""Attribute, words before and behind its value, and values; up to 100 of them are made by suffixes."""
MOST_SLOTS, MOST_VALUES = len(_SLOTS), 100


@dataclass(frozen=True, slots=True)
class SlotRow:
    """A context such as "name[Aromi], food[Chinese]", an output, and which of its values are not the context's."""

    context: str
    output: str
    wrong: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class SlotWorld:
    """Contexts and outputs of `slots` slots with `values` values, of which a writer gets each wrong with `error`."""

    slots: int = 5
    values: int = 10
    error: float = 0.1

    def __post_init__(self) -> None:
        if not (1 <= self.slots <= MOST_SLOTS and 2 <= self.values <= MOST_VALUES and 0 < self.error < 1):
            raise ValueError(f"{self} is no world of up to {MOST_SLOTS} slots of 2 to {MOST_VALUES} values")

    def information(self, *, right: bool) -> float:
        """Return log p(value | context) - log p(value) in nats.

        >>> [round(SlotWorld(error=0.1).information(right=right), 4) for right in (True, False)]
        [2.1972, -2.1972]
        """
        chance = 1 - self.error if right else self.error / (self.values - 1)
        return math.log(chance * self.values)

    def value(self, slot: int, at: int) -> str:
        """Return a value of a slot."""
        words = _SLOTS[slot][3].split()
        return words[at % len(words)] + _SUFFIXES[at // len(words)]

    def context(self, chosen: Sequence[int]) -> str:
        """Write the values of all slots as a list of slots."""
        return ", ".join(f"{_SLOTS[slot][0]}[{self.value(slot, at)}]" for slot, at in enumerate(chosen))

    def output(self, chosen: Sequence[int]) -> str:
        """Write the values of all slots as a sentence."""
        parts = [[before, self.value(slot, at), behind]
                 for (slot, at), (_, before, behind, _) in zip(enumerate(chosen), _SLOTS, strict=False)]  # fmt: skip
        return " ".join([*(word for part in parts for word in part if word), "."])

    def make_rows(self, count: int, error: float, seed: int) -> list[SlotRow]:
        """Draw contexts, and outputs of a writer who gets each value wrong with probability `error`."""
        stream = np.random.default_rng(seed)
        truth = stream.integers(self.values, size=(count, self.slots))
        wrong = stream.random(truth.shape) < error
        stated = np.where(wrong, (truth + stream.integers(1, self.values, truth.shape)) % self.values, truth)
        chosen = zip(truth.tolist(), stated.tolist(), wrong.tolist(), strict=True)
        return [SlotRow(self.context(held), self.output(said), tuple(off)) for held, said, off in chosen]

    def write_model(self, folder: Path) -> None:
        """Write the model as a Hugging Face folder, in double precision."""
        followers, slot_behind, vocabulary = self._grammar()
        folder.mkdir(parents=True, exist_ok=True)
        _network(self, followers, slot_behind, vocabulary).save_pretrained(folder)
        _tokeniser(vocabulary).save_pretrained(folder)

    def _grammar(self) -> tuple[dict[str, str | int], dict[str, int], list[str]]:
        """Return what follows each word (a word, or a slot), the slot of each value, and all tokens."""
        slots = {self.value(slot, at): slot for slot in range(self.slots) for at in range(self.values)}
        chain: list[str | int] = ["\n"]
        for slot, (_, before, behind, _) in enumerate(_SLOTS[: self.slots]):
            chain += [*before.split(), slot, *behind.split()]
        chain += [".", END]
        follows = dict(pairwise(chain))
        of_words = {word: follows[slots.get(word, word)] for word in [*slots, *chain[:-1]] if isinstance(word, str)}
        others = [START, END, UNKNOWN, *":[],", *(attribute for attribute, *_ in _SLOTS)]
        return of_words, slots, list(dict.fromkeys([*others, *of_words]))


def _tokeniser(vocabulary: Sequence[str]) -> Any:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

    ids = {word: at for at, word in enumerate(vocabulary)}
    whole = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    whole.pre_tokenizer = pre_tokenizers.Split(Regex(r"\n|\w+|[^\w\s]"), "removed", invert=True)
    whole.post_processor = processors.TemplateProcessing(single=f"{START} $A", special_tokens=[(START, ids[START])])
    return libraries.transformers().PreTrainedTokenizerFast(
        tokenizer_object=whole, bos_token=START, eos_token=END, unk_token=UNKNOWN, model_max_length=POSITIONS
    )


def _network(
    world: SlotWorld, followers: dict[str, str | int], slots: dict[str, int], vocabulary: Sequence[str]
) -> Any:
    transformers = libraries.transformers()
    # Features of a token: what follows it, and the value that it is (or none, or the start); then the value copied.
    states = list(dict.fromkeys(followers.values()))
    values, states_end = list(slots), len(states) + 1
    none, sink = len(values), len(values) + 1
    copied = states_end + len(values) + 2
    width = copied + len(values) + 1
    config = transformers.GPT2Config(
        vocab_size=len(vocabulary), n_positions=POSITIONS, n_embd=2 * width, n_layer=1, n_head=1, n_inner=1,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, tie_word_embeddings=False,
        bos_token_id=vocabulary.index(START), eos_token_id=vocabulary.index(END),
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        model = transformers.GPT2LMHeadModel(config).double().eval()
    weights = {name: torch.zeros_like(weight) for name, weight in model.state_dict().items()}
    for name in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        weights[f"transformer.{name}.weight"] += 1
    first, last = (math.sqrt(ones / width + config.layer_norm_epsilon) for ones in (2, 3))
    embedding, head = weights["transformer.wte.weight"], weights["lm_head.weight"]
    query, key, value = weights["transformer.h.0.attn.c_attn.weight"].split(2 * width, dim=1)
    ahead = {word: states.index(follows) for word, follows in followers.items()}
    found = {word: at for at, word in enumerate(values)}
    for token, word in enumerate(vocabulary):
        identity = found.get(word, sink if word == START else none)
        embedding[token, [ahead.get(word, states_end - 1), states_end + identity]] = 1
        allowed = [at for at, follows in enumerate(states) if follows in (word, slots.get(word))]
        head[token, : states_end - 1] = _NEVER * last
        head[token, allowed] = 0
        if word in found:
            odds = (1 - world.error) * (world.values - 1) / world.error
            head[token, copied + found[word]] = math.log(odds) * last
    embedding[:, width:] = -embedding[:, :width]
    scale = math.sqrt(2 * width) * first
    for at, follows in enumerate(states):
        if isinstance(follows, int):
            query[at, follows] = _MATCH * scale
    query[:states_end, world.slots] = _SINK * scale
    for word, at in found.items():
        key[states_end + at, slots[word]] = value[states_end + at, at] = first
    key[states_end + sink, world.slots] = value[states_end + sink, len(values)] = first
    out = weights["transformer.h.0.attn.c_proj.weight"]
    for at in range(len(values) + 1):
        out[at, copied + at], out[at, width + copied + at] = 1, -1
    model.load_state_dict(weights)
    return model
