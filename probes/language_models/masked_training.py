"""Training of masked language models on one or several languages so that any two can be compared.

Everything random is common to all models of one seed: initial weights, and for each language the order of its windows
and what is hidden in them. What differs between the model of a language and that of a pair is then the other language.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from probes.core.random_streams import stream
from probes.language_models.masked_lm import MaskedLM, Network
from probes.language_models.token_windows import Windows, hide_tokens, masked_positions

Budget = Literal["same-data", "same-total"]
Floats = NDArray[np.float64]
CURVE = 20
"""Stretches of the training over which the loss is averaged for its curve."""
DRAWS = 2
"""Sets of hidden tokens at which held-out text is scored."""
BATCH = 64
"""Windows of held-out text that are scored at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Training settings that all models of a matrix share.

    Parameters
    ----------
    steps, batch
        Training steps; windows of each language in a step (same-data), or of all together (same-total).
    share
        Share of the tokens that is hidden, all of them behind the mask token.
    rate, matrix_rate
        Peak learning rates of AdamW and, for the matrices inside the blocks, of Muon (Jordan et al. 2024);
        `matrix_rate` 0: AdamW for all, as in fine-tuning.
    warmup
        Share of the steps over which both rates rise; from there they fall to nothing in a straight line.
    """

    steps: int
    batch: int
    budget: Budget
    share: float = 0.15
    rate: float = 3e-3
    matrix_rate: float = 0.02
    warmup: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Course of a training: for each language its mean loss (nats per token) over each stretch of the steps."""

    curves: Mapping[str, tuple[float, ...]]
    finite: bool


def rows_of(languages: tuple[str, ...], batch: int, budget: Budget) -> dict[str, int]:
    """Return the number of windows of each language in one step.

    What cannot be shared out is left out: one language with a window more than another would be hurt less.

    >>> rows_of(("en", "fr"), 33, "same-total"), rows_of(("en", "fr"), 33, "same-data")
    ({'en': 16, 'fr': 16}, {'en': 33, 'fr': 33})
    """
    return dict.fromkeys(languages, batch if budget == "same-data" else batch // len(languages))


def train(
    network: nn.Module,
    texts: Mapping[str, Windows],
    recipe: Recipe,
    *,
    mask: int,
    seed: int,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    advance: Callable[[], None] = lambda: None,
) -> Trained:
    """Train a network on windows of one or several languages, by code.

    The loss is the mean over all hidden tokens of a step. It ends early where it is no number any more.
    """
    languages = tuple(sorted(texts))
    rows = rows_of(languages, recipe.batch, recipe.budget)
    feeds = {code: _Feed(texts[code], rows[code], recipe, mask, stream(seed, f"windows {code}")) for code in languages}
    bounds = np.cumsum([0, *(rows[code] for code in languages)])
    optimisers = _optimisers(network, recipe)
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    sums = torch.zeros(CURVE, len(languages), dtype=torch.float64)
    counts = torch.zeros(CURVE, 1, dtype=torch.float64)
    network.to(device).train()
    for step in range(recipe.steps):
        _set_rates(optimisers, step, recipe)
        parts = [feeds[code].batch(step) for code in languages]
        ids, positions, answers = (torch.cat(part).to(device) for part in zip(*parts, strict=True))
        with torch.autocast(torch.device(device).type, dtype=dtype, enabled=dtype != torch.float32):
            losses = _nats(network, ids, positions, answers)
        losses.mean().backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        each = torch.stack([losses[a:b].detach().mean() for a, b in pairwise(bounds)]).double()
        if not bool(each.isfinite().all()):
            return Trained(curves={}, finite=False)
        stretch = step * CURVE // recipe.steps
        sums[stretch] += each.cpu()
        counts[stretch] += 1
        advance()
    seen = counts[:, 0] > 0
    means = (sums[seen] / counts[seen]).T.tolist()
    curves = {code: tuple(round(value, 6) for value in line) for code, line in zip(languages, means, strict=True)}
    return Trained(curves=curves, finite=True)


class _Feed:
    """Batches of one language's windows in the order of a seed; a smaller share of a step takes its first rows."""

    def __init__(self, text: Windows, rows: int, recipe: Recipe, mask: int, generator: torch.Generator) -> None:
        self.text, self.rows, self.recipe, self.mask, self.generator = text, rows, recipe, mask, generator
        epochs = math.ceil(recipe.steps * recipe.batch / len(text))
        self.order = torch.cat([torch.randperm(len(text), generator=generator) for _ in range(epochs)])

    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        size = self.recipe.batch
        # Drawn for a whole batch, so that its first rows are the same in every model.
        positions = masked_positions(size, self.text.ids.shape[1], self.recipe.share, self.generator)[0, : self.rows]
        chosen = self.text.ids[self.order[step * size : step * size + self.rows]]
        ids, answers = hide_tokens(chosen, positions, self.mask)
        return ids, positions, answers


def _nats(network: Network, ids: Tensor, positions: Tensor, answers: Tensor) -> Tensor:
    logits = network(ids, positions).float()
    return functional.cross_entropy(logits.flatten(0, 1), answers.flatten(), reduction="none").view(answers.shape)


def _optimisers(network: nn.Module, recipe: Recipe) -> list[torch.optim.Optimizer]:
    named = [(name, weight) for name, weight in network.named_parameters() if weight.requires_grad]
    inner = [
        weight
        for name, weight in named
        if recipe.matrix_rate and weight.ndim == 2 and isinstance(network, MaskedLM) and name not in _TABLES
    ]
    held = {id(weight) for weight in inner}
    rest = [weight for _, weight in named if id(weight) not in held]
    made: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(rest, lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.01, foreach=True)
    ]
    if inner:
        made.append(torch.optim.Muon(inner, lr=recipe.matrix_rate, weight_decay=0.01, momentum=0.95))
    for optimiser in made:
        for group in optimiser.param_groups:
            group["peak"] = group["lr"]
    return made


_TABLES = ("token.weight", "position")
"""Looked up, not multiplied with: Muon is for matrices that states go through."""


def _set_rates(optimisers: list[torch.optim.Optimizer], step: int, recipe: Recipe) -> None:
    rising = math.ceil(recipe.warmup * recipe.steps)
    # In whole steps: the peak is reached at the last one that rises, and nothing would be left after the last of all.
    factor = (step + 1) / rising if step < rising else (recipe.steps - step) / (recipe.steps - rising + 1)
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["peak"] * factor


def score(
    network: nn.Module,
    held: Windows,
    *,
    share: float,
    mask: int,
    seed: int,
    code: str,
    device: str = "cpu",
    batch: int = BATCH,
) -> tuple[Floats, Floats]:
    """Score held-out text: nats over each sentence's hidden tokens, and their number; (sentences,) each.

    The hidden tokens depend on the seed and the language alone, never on the model.
    """
    drawn = held_positions(held, share=share, seed=seed, code=code)
    nats = np.zeros(held.sentences)
    counts = np.zeros(held.sentences)
    network.to(device).eval()
    with torch.inference_mode():
        for positions in drawn:
            for start in range(0, len(held), batch):
                part = slice(start, start + batch)
                ids, answers = hide_tokens(held.ids[part], positions[part], mask)
                found = _nats(network, ids.to(device), positions[part].to(device), answers.to(device))
                owner = held.sentence[part].long().gather(1, positions[part]).flatten().numpy()
                nats += np.bincount(owner, found.cpu().double().flatten().numpy(), minlength=held.sentences)
                counts += np.bincount(owner, minlength=held.sentences)
    return nats, counts


def held_positions(held: Windows, *, share: float, seed: int, code: str) -> Tensor:
    """Return the positions at which held-out windows are scored, int64, (draws, windows, count)."""
    return masked_positions(len(held), held.ids.shape[1], share, stream(seed, f"held-out {code}"), DRAWS)
