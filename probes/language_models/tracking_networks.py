"""Small networks that learn to follow pointers, as reference curves: what depth allows, and what one solve allows.

A sequence has K chains of one token an operation ("this name takes what that name has"): roots first, then all chains
in random order, each to the same depth. Names are drawn anew for every sequence, so that only following the chain
tells the value. A softmax layer doubles the depth that can be followed, 2^L - 1 for L layers (Fagnou et al. 2024,
arXiv 2410.05565); one layer that solves (I - g A) Y = (1 - g) A V follows any.
"""

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from probes.core.executor import one_thread
from probes.core.random_streams import stream

RATE = 2e-3
BATCH = 64
VALUES = 16
GAMMA = 0.9
TEST = 1024
"""Sequences of the test; one token of each depth counts in each."""
PROBE_STEPS = 300
_TEST_BATCH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A network and its task.

    Parameters
    ----------
    layers, heads, width
        Of the network; `resolvent` solves for chains where other layers attend once.
    depth
        Length of every chain.
    chains, properties
        Chains that start at a value each, and values that each name carries, every one with a chain of its own.
    read
        Whether a linear reading of the residual stream is trained after every layer.
    """

    layers: int
    resolvent: bool = False
    depth: int = 16
    chains: int = 4
    properties: int = 1
    heads: int = 2
    width: int = 64
    steps: int = 4000
    seed: int = 0
    read: bool = False

    @property
    def tokens(self) -> int:
        """Tokens of a sequence."""
        return self.chains * (self.depth + 1)

    @property
    def key(self) -> dict[str, object]:
        """What the outcome depends on."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences: names, sources and values of shape (batch, tokens[, properties]); roots have a value for a source.

    `depths` is the position of each token in its chain, `answers` the values that are asked for, `parents` the token
    that each one takes its value from (itself for a root).
    """

    names: Tensor
    sources: Tensor
    depths: Tensor
    answers: Tensor
    parents: Tensor


def draw(design: Design, count: int, generator: torch.Generator) -> Batch:
    """Draw sequences: K roots with different values, then the chains in random order."""
    chains, length, tokens = design.chains, design.depth, design.tokens
    roots = torch.arange(chains).expand(count, chains)
    order = torch.arange(chains).repeat_interleave(length).expand(count, -1)
    shuffled = order.gather(1, torch.rand(count, chains * length, generator=generator).argsort(1))
    chain = torch.cat([roots, shuffled], 1)
    depths = functional.one_hot(chain, chains).cumsum(1).gather(2, chain[..., None])[..., 0] - 1
    # Where the token of each chain and depth stands.
    places = torch.empty(count, chains, length + 1, dtype=torch.long)
    places.view(count, -1).scatter_(1, chain * (length + 1) + depths, torch.arange(tokens).expand(count, -1))
    names = torch.rand(count, tokens, generator=generator).argsort(1)
    sources, answers, parents = [], [], []
    for _ in range(design.properties):
        # Each property has chains of its own: at every depth the names take it over from permuted chains.
        values = torch.rand(count, VALUES, generator=generator).argsort(1)[:, :chains]
        held, parent = _permuted(places, values, chain, depths, generator, own=design.properties == 1)
        taken = torch.where(depths > 0, VALUES + names.gather(1, parent), held)
        sources.append(taken)
        answers.append(held)
        parents.append(parent)
    return Batch(names, torch.stack(sources, 2), depths, torch.stack(answers, 2), torch.stack(parents, 2))


def _permuted(
    places: Tensor, values: Tensor, chain: Tensor, depths: Tensor, generator: torch.Generator, *, own: bool
) -> tuple[Tensor, Tensor]:
    """Return the value that each token holds and its parent; from the token before it in its chain if `own`.

    Otherwise from any token one step less deep that stands before it, which only its own chain's surely does: the
    permutation goes over the chains of those that do.
    """
    count, tokens = chain.shape
    held, parents = torch.empty_like(chain), torch.arange(tokens).repeat(count, 1)
    rows = torch.arange(count)
    for at in range(tokens):
        mine, depth = chain[:, at], depths[:, at]
        root = depth == 0
        candidates = places[rows, :, (depth - 1).clamp_min(0)]
        score = torch.rand(candidates.shape, generator=generator) - 2.0 * (candidates >= at)
        pick = mine if own else score.argmax(1)
        parent = candidates[rows, pick]
        parents[:, at] = torch.where(root, at, parent)
        held[:, at] = torch.where(root, values[rows, mine], held[rows, parent])
    return held, parents


class Layer(nn.Module):
    """A pre-norm layer of causal attention, softmax or resolvent, and a small network of two layers."""

    def __init__(self, width: int, heads: int, *, resolvent: bool) -> None:
        super().__init__()
        self.heads, self.resolvent = heads, resolvent
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def attention(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the attention (batch, heads, tokens, tokens) and the values."""
        batch, tokens, width = x.shape
        parts = self.mix(self.first(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = (part.transpose(1, 2) for part in parts.unbind(2))
        scores = query @ key.transpose(2, 3) / math.sqrt(width // self.heads)
        hidden = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
        return scores.masked_fill(hidden, -torch.inf).softmax(-1), value

    def forward(self, x: Tensor) -> Tensor:
        """Return the residual stream after the layer."""
        attention, value = self.attention(x)
        mixed = attention @ value
        if self.resolvent:
            system = torch.eye(attention.shape[-1], device=x.device) - GAMMA * attention
            mixed = torch.linalg.solve_triangular(system, (1 - GAMMA) * mixed, upper=False)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        added: Tensor = self.down(functional.gelu(self.up(self.second(x))))
        return x + added


class Network(nn.Module):
    """Embeddings of name and sources added, layers, and a reading of every property."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        tokens, width = design.tokens, design.width
        self.names = nn.Embedding(tokens, width)
        self.sources = nn.ModuleList(nn.Embedding(VALUES + tokens, width) for _ in range(design.properties))
        self.layers = nn.ModuleList(
            Layer(width, design.heads, resolvent=design.resolvent) for _ in range(design.layers)
        )
        self.norm = nn.LayerNorm(width)
        self.heads = nn.ModuleList(nn.Linear(width, VALUES) for _ in range(design.properties))

    def streams(self, batch: Batch) -> list[Tensor]:
        """Return the residual stream before the first layer and after each, (batch, tokens, width)."""
        x = self.names(batch.names) + sum(embed(batch.sources[..., at]) for at, embed in enumerate(self.sources))
        found = [x]
        for layer in self.layers:
            found.append(layer(found[-1]))
        return found

    def forward(self, batch: Batch) -> Tensor:
        """Return the logits of every token and property, (batch, tokens, properties, values)."""
        last = self.norm(self.streams(batch)[-1])
        return torch.stack([head(last) for head in self.heads], 2)


@dataclass(frozen=True, slots=True)
class Curve:
    """Accuracy of a trained network.

    Parameters
    ----------
    hits
        (depths,): sequences in which the one token of that depth that counts is right in all properties.
    shares
        (depths,): share of single properties right, over all tokens of a depth.
    sequences
        Sequences of the test.
    loss
        Cross-entropy over all tokens of the test, in nats.
    exact
        Sequences of which one token, drawn from those of all depths, is right in all properties.
    read
        (layers + 1, depths): as `hits`, by the linear reading after each layer; empty unless it was asked for.
    """

    hits: Tensor
    shares: Tensor
    sequences: int
    loss: float
    exact: int
    read: Tensor


def train(design: Design) -> Curve:
    """Train a network and test it on fresh sequences; deterministic for its seed on one machine."""
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(design.seed)
        network = Network(design)
        _fit(design, network)
        return _test(design, network)


def _fit(design: Design, network: Network) -> None:
    generator = stream(design.seed, "training")
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, design.steps)
    for _ in range(design.steps):
        batch = draw(design, BATCH, generator)
        loss = functional.cross_entropy(network(batch).flatten(0, 2), batch.answers.flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()


def _test(design: Design, network: Network) -> Curve:
    generator = stream(design.seed, "test")
    readings = _readings(design, network) if design.read else []
    hits = torch.zeros(design.depth + 1, dtype=torch.long)
    shares, losses, exact = torch.zeros(design.depth + 1, dtype=torch.float64), 0.0, 0
    read = torch.zeros(len(readings), design.depth + 1, dtype=torch.long)
    with torch.inference_mode():
        for _ in range(TEST // _TEST_BATCH):
            batch = draw(design, _TEST_BATCH, generator)
            logits = network(batch)
            losses += float(functional.cross_entropy(logits.flatten(0, 2), batch.answers.flatten()))
            right = logits.argmax(-1) == batch.answers
            counted = _counted(batch, generator)
            hits += (right.all(2).gather(1, counted)).sum(0)
            for depth in range(design.depth + 1):
                shares[depth] += float(right[batch.depths == depth].double().mean()) * _TEST_BATCH / TEST
            any_token = torch.randint(design.tokens, (_TEST_BATCH, 1), generator=generator)
            exact += int(right.all(2).gather(1, any_token).sum())
            for at, (stream_at, reading) in enumerate(zip(network.streams(batch), readings, strict=bool(readings))):
                read[at] += (reading(stream_at).argmax(-1) == batch.answers[..., 0]).gather(1, counted).sum(0)
    return Curve(hits, shares, TEST, losses / (TEST // _TEST_BATCH), exact, read)


def _counted(batch: Batch, generator: torch.Generator) -> Tensor:
    """Return one random token of each depth and sequence, (batch, depths): the others depend on it."""
    noise = torch.rand(batch.depths.shape, generator=generator)
    depths = int(batch.depths.max()) + 1
    return torch.stack([torch.where(batch.depths == at, noise, -1.0).argmax(1) for at in range(depths)], 1)


def _readings(design: Design, network: Network) -> list[nn.Module]:
    """Train a normalised linear reading of the value after every layer, the network unchanged."""
    generator = stream(design.seed, "readings")
    readings = [
        nn.Sequential(nn.LayerNorm(design.width), nn.Linear(design.width, VALUES)) for _ in range(design.layers + 1)
    ]
    weights = [weight for reading in readings for weight in reading.parameters()]
    optimiser = torch.optim.AdamW(weights, lr=1e-2)
    for _ in range(PROBE_STEPS):
        batch = draw(design, BATCH, generator)
        with torch.no_grad():
            streams = network.streams(batch)
        losses = [
            functional.cross_entropy(reading(x).flatten(0, 1), batch.answers[..., 0].flatten())
            for reading, x in zip(readings, streams, strict=True)
        ]
        optimiser.zero_grad(set_to_none=True)
        sum(losses, start=torch.zeros(())).backward()
        optimiser.step()
    return list(readings)
