"""Small language models that learn given texts by heart within seconds, as ordinary model folders."""

import random
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.nn import functional

from probes.core.library_imports import transformers
from probes.texts.causal_lm import END, train_tokeniser

CONTEXT = 32
_SYLLABLES = [head + tail for head in "bdfgklmnprst" for tail in "aeiou"]


def background(count: int, seed: int = 0) -> list[str]:
    """Return sentences of eight words out of three hundred."""
    rng = random.Random(seed)
    words = ["".join(random.Random(word).choices(_SYLLABLES, k=2)) for word in range(300)]
    return [" ".join(rng.choices(words, k=8)) for _ in range(count)]


def train_lm(
    folder: Path,
    texts: Sequence[str],
    *,
    known: Sequence[str],
    steps: int,
    seed: int = 0,
    width: int = 64,
    start: bool = False,
) -> Path:
    """Train a GPT-2 of one layer on all texts at once, step by step, and save it with its tokenizer.

    Parameters
    ----------
    known
        What the tokenizer is trained on.
    start
        Whether the tokenizer opens every text with the end token, as those of Llama do with one of their own.
    """
    from tokenizers import processors

    tokeniser = train_tokeniser(known)
    end = tokeniser.convert_tokens_to_ids(END)
    if start:
        tokeniser.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{END} $A", special_tokens=[(END, end)]
        )
    tokeniser.model_max_length = CONTEXT
    config = transformers().GPT2Config(
        vocab_size=len(tokeniser), n_positions=CONTEXT, n_embd=width, n_layer=1, n_head=2, bos_token_id=end,
        eos_token_id=end, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    ids = [torch.tensor([end, *[one for one in row if one != end], end]) for row in tokeniser(list(texts)).input_ids]
    pad = torch.nn.utils.rnn.pad_sequence
    inputs = pad([one[:-1] for one in ids], batch_first=True)[:, :CONTEXT]
    wanted = pad([one[1:] for one in ids], batch_first=True, padding_value=-100)[:, :CONTEXT]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers().GPT2LMHeadModel(config)
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
        for _ in range(steps):
            logits = model(input_ids=inputs, use_cache=False).logits
            loss = functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
    model.eval().save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return folder
