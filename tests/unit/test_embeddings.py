"""Are embeddings the same bits whatever the order, the cache and the number of runs?"""

import weakref
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from probes.core.cache import Cache
from probes.core.progress import Silent
from probes.speech.activations import States
from probes.speech.embeddings import FRAMES, POOLED, Embeddings, Item, plan_batches

WIDTH, DEPTH = 6, 3


class Fake:
    """An encoder of frames of 100 samples that notes every batch it is given."""

    def __init__(self, *, scale: float = 1.0, head: int = 0) -> None:
        self.scale, self.head = scale, head
        self.batches: list[int] = []
        self.opened = 0

    def open(self) -> "Fake":
        self.opened += 1
        return self

    def frames(self, samples: int) -> int:
        return samples // 100

    def encode(self, waves: Sequence[Tensor]) -> list[States]:
        self.batches.append(len(waves))
        return [self._one(wave) for wave in waves]

    def _one(self, wave: Tensor) -> States:
        frames = wave[: len(wave) // 100 * 100].reshape(-1, 100)[:, :WIDTH]
        layers = torch.stack([frames * self.scale + layer for layer in range(DEPTH)])
        return States(layers, torch.arange(len(frames) // self.head) if self.head else None)

    def pool(self, layers: Tensor) -> Tensor:
        return layers.mean(1)


def item(number: int, samples: int) -> Item:
    def read() -> Tensor:
        return torch.randn(samples, generator=torch.Generator().manual_seed(number))

    return Item(sha256=f"{number:064x}", samples=samples, read=read)


ITEMS = [item(number, 800 + 100 * (number % 3)) for number in range(20)]


def embed(items: Sequence[Item], encoder: Fake, folder: Path, *, batching: str = "equal") -> Embeddings:
    return Embeddings(items, encoder.open, key={"encoder": "fake"}, batching=batching, cache=Cache(folder), largest=4)


def composition(items: Sequence[Item], batching: str) -> list[list[str]]:
    return [[items[place].sha256 for place in batch.items] for batch in plan_batches(items, batching, largest=4)]


@pytest.mark.parametrize("batching", ["equal", "padded", "fixed", "single"])
def test_batches_depend_on_the_clips_and_not_on_their_order(batching: str) -> None:
    order = torch.randperm(len(ITEMS), generator=torch.Generator().manual_seed(3)).tolist()
    found = composition(ITEMS, batching)
    assert composition([ITEMS[place] for place in order], batching) == found
    assert sorted(name for batch in found for name in batch) == sorted(item.sha256 for item in ITEMS)


def test_batches_join_what_may_be_joined() -> None:
    lengths = {item.sha256: item.samples for item in ITEMS}
    sizes = {kind: [len(batch) for batch in composition(ITEMS, kind)] for kind in ("equal", "fixed", "single")}
    assert sizes == {"equal": [4, 3, 4, 3, 4, 2], "fixed": [4] * 5, "single": [1] * 20}
    assert all(len({lengths[name] for name in batch}) == 1 for batch in composition(ITEMS, "equal"))
    near = [item(number, 1600 * 5 + number * 500) for number in range(8)]
    spread = [[near[place].samples for place in batch.items] for batch in plan_batches(near, "padded")]
    assert len(spread) < 8 and all(max(batch) - min(batch) < 1600 for batch in spread)
    assert plan_batches([], "equal") == []


def test_the_order_of_clips_changes_no_bit(tmp_path: Path) -> None:
    order = torch.randperm(len(ITEMS), generator=torch.Generator().manual_seed(3)).tolist()
    first, second = Fake(), Fake()
    straight = embed(ITEMS, first, tmp_path / "a")
    straight.compute(Silent(), "", frames=True)
    mixed = embed([ITEMS[place] for place in order], second, tmp_path / "a")
    mixed.compute(Silent(), "", frames=True)
    assert (first.opened, second.opened) == (1, 0)
    assert torch.equal(straight.pooled([0, 2])[:, order], mixed.pooled([0, 2]))
    assert straight.pooled([2]).shape == (1, 20, WIDTH)
    assert (straight.depth(), straight.pooled_width(), straight.frame_width()) == (DEPTH, WIDTH, WIDTH)


def test_a_full_cache_never_opens_the_encoder(tmp_path: Path) -> None:
    encoder = Fake()
    embed(ITEMS, encoder, tmp_path).compute(Silent(), "", frames=True)
    assert sum(encoder.batches) == len(ITEMS)
    again = embed(ITEMS, encoder, tmp_path)
    assert all(batch.present() for batch in again.encodings(frames=True))
    again.compute(Silent(), "", frames=True)
    again.pooled([0])
    assert encoder.opened == 1 and sum(encoder.batches) == len(ITEMS)


def test_frames_wanted_later_cost_one_pass(tmp_path: Path) -> None:
    encoder = Fake()
    embed(ITEMS, encoder, tmp_path).compute(Silent(), "", frames=False)
    assert not (tmp_path / FRAMES).exists()
    embed(ITEMS, encoder, tmp_path).compute(Silent(), "", frames=True)
    assert sum(encoder.batches) == 2 * len(ITEMS)


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    class Killed(Fake):
        def encode(self, waves: Sequence[Tensor]) -> list[States]:
            if len(self.batches) == 3:
                raise KeyboardInterrupt
            return super().encode(waves)

    with pytest.raises(KeyboardInterrupt):
        embed(ITEMS, Killed(), tmp_path).compute(Silent(), "", frames=True)
    encoder = Fake()
    resumed = embed(ITEMS, encoder, tmp_path)
    resumed.compute(Silent(), "", frames=True)
    assert len(encoder.batches) == len(resumed.batches) - 3
    whole = embed(ITEMS, Fake(), tmp_path / "other")
    whole.compute(Silent(), "", frames=True)
    assert torch.equal(resumed.pooled([0, 1, 2]), whole.pooled([0, 1, 2]))


@pytest.mark.parametrize("kind", [POOLED, FRAMES])
@pytest.mark.parametrize("harm", ["deleted", "cut", "noise", "empty"])
def test_a_lost_entry_is_computed_again_to_the_same_bits(tmp_path: Path, kind: str, harm: str) -> None:
    encoder = Fake()
    embeddings = embed(ITEMS, encoder, tmp_path)
    embeddings.compute(Silent(), "", frames=True)
    before = {path: path.read_bytes() for path in (tmp_path / kind).glob("*/*.safetensors")}
    assert len(before) == len(embeddings.batches)
    for path, data in list(before.items())[:3]:
        if harm == "deleted":
            path.unlink()
        else:
            path.write_bytes({"cut": data[: len(data) // 2], "noise": b"\xff" * 100, "empty": b""}[harm])
    if kind == POOLED:
        embeddings.pooled([0])
    else:
        for batch in embeddings.batches:
            embeddings.frames(batch)
    assert {path: path.read_bytes() for path in before} == before
    # Loading a real encoder takes seconds: once is enough for all that is lost.
    assert encoder.opened == 2


def test_frames_are_half_and_pooled_vectors_single_precision(tmp_path: Path) -> None:
    embeddings = embed(ITEMS, Fake(scale=3.0), tmp_path)
    embeddings.compute(Silent(), "", frames=True)
    batch = embeddings.batches[0]
    frames, counts = embeddings.frames(batch)
    assert frames.dtype == torch.float16 and frames.shape == (DEPTH, sum(counts), WIDTH)
    assert counts == [ITEMS[place].samples // 100 for place in batch.items]
    pooled = embeddings.pooled([1])
    assert pooled.dtype == torch.float32
    first = ITEMS[batch.items[0]]
    (states,) = Fake(scale=3.0).encode([first.read()])
    assert torch.equal(frames[:, : counts[0]], states.layers.half())
    assert torch.equal(pooled[0, batch.items[0]], states.layers[1].mean(0))


def test_states_beyond_half_precision_keep_their_range(tmp_path: Path) -> None:
    embeddings = embed(ITEMS, Fake(scale=1e5), tmp_path)
    embeddings.compute(Silent(), "", frames=True)
    frames, counts = embeddings.frames(embeddings.batches[0])
    (states,) = Fake(scale=1e5).encode([ITEMS[embeddings.batches[0].items[0]].read()])
    assert bool(torch.isfinite(frames.float()).all())
    assert torch.allclose(frames[:, : counts[0]].float(), states.layers, rtol=0.01, atol=1.0)


@pytest.mark.parametrize("share", [1, 3])
def test_what_the_head_read_comes_back_clip_by_clip(tmp_path: Path, share: int) -> None:
    embeddings = embed(ITEMS, Fake(head=share), tmp_path)
    embeddings.compute(Silent(), "", frames=False)
    heads = embeddings.heads()
    assert [len(head) for head in heads] == [item.samples // 100 // share for item in ITEMS]
    assert heads[0].tolist() == list(range(8 // share))


def test_without_a_head_nothing_was_read(tmp_path: Path) -> None:
    embeddings = embed(ITEMS, Fake(), tmp_path)
    embeddings.compute(Silent(), "", frames=False)
    assert embeddings.heads() == []


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    class Counting(Fake):
        """Keeps count of the bytes of tensors that it gave and that are still alive."""

        alive: list[int]

        def encode(self, waves: Sequence[Tensor]) -> list[States]:
            states = super().encode(waves)
            for state in states:
                self.alive[0] += 1
                weakref.finalize(state.layers, self._gone)
            self.alive[1] = max(self.alive[1], self.alive[0])
            return states

        def _gone(self) -> None:
            self.alive[0] -= 1

    peaks = []
    for count in (20, 200):
        encoder = Counting()
        encoder.alive = [0, 0]
        items = [item(number, 800) for number in range(count)]
        embed(items, encoder, tmp_path / str(count)).compute(Silent(), "", frames=True)
        peaks.append(encoder.alive[1])
    assert peaks[0] == peaks[1] <= 8
