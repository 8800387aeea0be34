"""Training of a small causal language model on given texts, in less than a minute, into an ordinary model folder.

A stand-in for a language model trained on known texts, with nothing fetched from anywhere: a byte-level BPE tokenizer
and a GPT-2 of two layers, both trained here.
"""

import math
import string
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from probes.core import library_imports as libraries
from probes.core.executor import one_thread
from probes.core.progress import Progress

STEPS = 600
BATCH = 32
PEAK_RATE = 4e-3
WARM_UP = 50
VOCABULARY = 1_500
"""Tokens at most: enough that the usual words of a few thousand sentences are one token each."""
LAYERS, WIDTH, HEADS = 2, 128, 4
CONTEXT = 192
"""Tokens that the model can see, the two end tokens included; longer texts are cut."""
END = "<|endoftext|>"

_IGNORED = -100


def train_causal_lm(
    texts: Sequence[str], folder: Path, *, seed: int, progress: Progress, steps: int = STEPS, layers: int = LAYERS
) -> None:
    """Train a tokenizer and a GPT-2 on texts, one text a sequence, and save a Hugging Face folder.

    Deterministic for a seed on one machine; the process's own random state is left as it was.

    Parameters
    ----------
    steps, layers
        Optimiser steps of 32 texts each, and the depth of the network.
    """
    tokeniser = train_tokeniser(texts)
    end = tokeniser.convert_tokens_to_ids(END)
    examples = [torch.tensor([end, *ids[: CONTEXT - 2], end]) for ids in tokeniser(list(texts)).input_ids]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = _build(len(tokeniser), end, layers)
        batches = deal_batches(examples, torch.Generator().manual_seed(seed))
        _fit(model, batches, steps, progress)
    folder.mkdir(parents=True, exist_ok=True)
    model.eval().save_pretrained(folder)
    tokeniser.save_pretrained(folder)


def train_tokeniser(texts: Sequence[str]) -> Any:
    """Train a byte-level BPE tokenizer, whose one special token opens and ends a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    whole = Tokenizer(models.BPE())
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END],
        # Bytes that no text needs would only come out as control characters at a high temperature.
        initial_alphabet=list(string.ascii_letters + string.digits + string.punctuation),
        show_progress=False,
    )
    whole.train_from_iterator(texts, trainer)
    return libraries.transformers().PreTrainedTokenizerFast(
        tokenizer_object=whole, bos_token=END, eos_token=END, model_max_length=CONTEXT
    )


def _build(tokens: int, end: int, layers: int) -> Any:
    transformers = libraries.transformers()
    config = transformers.GPT2Config(
        vocab_size=tokens,
        n_positions=CONTEXT,
        n_embd=WIDTH,
        n_layer=layers,
        n_head=HEADS,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=end,
        eos_token_id=end,
    )
    return transformers.GPT2LMHeadModel(config)


def deal_batches(examples: Sequence[Tensor], generator: torch.Generator) -> Iterator[list[Tensor]]:
    """Deal the examples into batches of similar length, in random order, over and over."""
    while True:
        noise = torch.rand(len(examples), generator=generator).tolist()
        # Noise of two tokens: other companions in every pass, and still little padding.
        order = sorted(range(len(examples)), key=lambda at: len(examples[at]) + 2 * noise[at])
        groups = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        for group in torch.randperm(len(groups), generator=generator).tolist():
            yield [examples[at] for at in groups[group]]


def _fit(model: Any, batches: Iterator[list[Tensor]], steps: int, progress: Progress) -> None:
    optimiser = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.1, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, steps))
    with one_thread(), progress.phase("Training the language model of the example", steps, "steps") as advance:
        for _ in range(steps):
            loss = _loss(model, next(batches))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            advance(1)


def _rate(step: int, steps: int) -> float:
    return min((step + 1) / WARM_UP, 0.5 + 0.5 * math.cos(math.pi * step / steps))


def _loss(model: Any, batch: Sequence[Tensor]) -> Tensor:
    # Padding stands to the right, where no earlier token can see it.
    pad = torch.nn.utils.rnn.pad_sequence
    inputs = pad([ids[:-1] for ids in batch], batch_first=True)
    wanted = pad([ids[1:] for ids in batch], batch_first=True, padding_value=_IGNORED)
    logits = model(input_ids=inputs, use_cache=False).logits
    return functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=_IGNORED)
