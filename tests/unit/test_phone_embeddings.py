"""Are the vectors of phones the same whatever the batches, the chunks and the cache, from one pass a clip?"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from probes.core.cache import Cache
from probes.core.holding import release
from probes.core.progress import Advance, Silent
from probes.speech.activations import States
from probes.speech.embeddings import Item
from probes.speech.phone_embeddings import PHONES, PhoneEmbeddings
from probes.speech.phones import PhoneInterval, pool_phones

WIDTH, DEPTH, FRAME = 6, 3, 0.01


class Fake:
    """An encoder of frames of 160 samples that counts its clips."""

    def __init__(self) -> None:
        self.clips: list[int] = []
        self.opened = 0

    def open(self) -> "Fake":
        self.opened += 1
        return self

    def frames(self, samples: int) -> int:
        return samples // 160

    def encode(self, waves: Sequence[Tensor]) -> list[States]:
        self.clips += [len(wave) for wave in waves]
        return [self._one(wave) for wave in waves]

    def _one(self, wave: Tensor) -> States:
        frames = wave[: len(wave) // 160 * 160].reshape(-1, 160)[:, :WIDTH]
        return States(torch.stack([frames * (1 + layer) + layer for layer in range(DEPTH)]))

    def pool(self, layers: Tensor) -> Tensor:
        raise AssertionError("whole clips are not wanted")


def item(number: int, samples: int) -> Item:
    def read() -> Tensor:
        return torch.randn(samples, generator=torch.Generator().manual_seed(number))

    return Item(sha256=f"{number:064x}", samples=samples, read=read)


ITEMS = [item(number, 1600 + 160 * (number % 4)) for number in range(14)]
CENTRES = [FRAME * (np.arange(one.samples // 160) + 0.5) for one in ITEMS]


def intervals(number: int) -> list[PhoneInterval]:
    """Return the phones of a clip, none of every fifth one."""
    count = 0 if number % 5 == 2 else 1 + number % 3
    edges = np.linspace(0.0, ITEMS[number].samples / 16000, count + 1).tolist() if count else []
    return [PhoneInterval("abc"[place], edges[place], edges[place + 1]) for place in range(count)]


SAID = [intervals(number) for number in range(14)]


def embed(
    folder: Path,
    encoder: Fake,
    *,
    order: Sequence[int] = range(14),
    said: Sequence[Sequence[PhoneInterval]] = SAID,
    batching: str = "equal",
    largest: int = 4,
    key: str = "fake",
) -> PhoneEmbeddings:
    # All fakes have one key, and this process holds what it opened last.
    release()
    return PhoneEmbeddings(
        [ITEMS[number] for number in order],
        [said[number] for number in order],
        [CENTRES[number] for number in order],
        encoder.open,
        key={"encoder": key},
        batching=batching,
        cache=Cache(folder),
        largest=largest,
    )


def computed(folder: Path, encoder: Fake, **options) -> PhoneEmbeddings:
    found = embed(folder, encoder, **options)
    found.compute(Silent(), "")
    return found


def rows(embeddings: PhoneEmbeddings, layer: int, *, size: int = 1000) -> np.ndarray:
    return np.concatenate(list(embeddings.chunks(layer, size)))


def by_hand(number: int, place: int, layer: int) -> np.ndarray:
    frames = ITEMS[number].read()[: len(CENTRES[number]) * 160].reshape(-1, 160)[:, :WIDTH].double().numpy()
    one = SAID[number][place]
    inside = (CENTRES[number] >= one.start) & (CENTRES[number] < one.end)
    found: np.ndarray = (frames[inside] * (1 + layer) + layer).mean(0)
    return found


@pytest.mark.parametrize("batching", ["equal", "padded", "fixed", "single"])
def test_each_token_has_the_vector_of_its_phone(tmp_path: Path, batching: str) -> None:
    embeddings = computed(tmp_path, Fake(), batching=batching)
    assert embeddings.layers == (0, 1, 2) and embeddings.width(1) == WIDTH
    expected = [(number, place) for number in range(14) for place in range(len(SAID[number]))]
    assert sorted(embeddings.tokens) == expected
    for layer in range(DEPTH):
        found = rows(embeddings, layer)
        assert found.dtype == np.float32 and found.shape == (len(expected), WIDTH)
        for vector, (number, place) in zip(found, embeddings.tokens, strict=True):
            assert vector == pytest.approx(by_hand(number, place, layer), abs=1e-5)


def test_tokens_point_into_the_list_that_was_given(tmp_path: Path) -> None:
    order = torch.randperm(14, generator=torch.Generator().manual_seed(3)).tolist()
    straight, mixed = computed(tmp_path / "a", Fake()), computed(tmp_path / "b", Fake(), order=order)
    assert [(order[index], place) for index, place in mixed.tokens] == straight.tokens
    assert np.array_equal(rows(straight, 2), rows(mixed, 2))


@pytest.mark.parametrize("batching", ["equal", "single"])
def test_every_clip_with_phones_is_encoded_once(tmp_path: Path, batching: str) -> None:
    encoder = Fake()
    embeddings = computed(tmp_path, encoder, batching=batching)
    for layer in range(DEPTH):
        rows(embeddings, layer)
        rows(embeddings, layer, size=2)
    assert encoder.opened == 1
    said = sum(bool(phones) for phones in SAID)
    # Clips without a phone go along with others of their batch, never alone.
    assert len(encoder.clips) == (said if batching == "single" else 14)


def test_a_full_cache_is_used_by_whoever_asks_the_same(tmp_path: Path) -> None:
    encoder = Fake()
    first = rows(computed(tmp_path, encoder), 1)
    again = computed(tmp_path, encoder)
    assert np.array_equal(rows(again, 1), first)
    assert encoder.opened == 1 and len(encoder.clips) == 14
    assert len(list((tmp_path / PHONES).glob("*/*.safetensors"))) > 1


@pytest.mark.parametrize("change", ["key", "place", "end", "lacking"])
def test_other_phones_or_another_encoder_are_computed_anew(tmp_path: Path, change: str) -> None:
    encoder = Fake()
    computed(tmp_path, encoder, batching="single")
    moved = list(SAID)
    first = moved[0][0]
    if change == "place":
        moved[0] = [PhoneInterval(first.phone, first.start + 0.02, first.end)]
    elif change == "end":
        moved[0] = [PhoneInterval(first.phone, first.start, first.end - 0.03)]
    elif change == "lacking":
        moved[1] = moved[1][:1]
    before = len(encoder.clips)
    found = computed(tmp_path, encoder, said=moved, batching="single", key="other" if change == "key" else "fake")
    expected = sum(map(bool, SAID)) if change == "key" else 1
    assert len(encoder.clips) - before == expected
    if change != "key":
        centres, number = torch.from_numpy(CENTRES[0]).float(), 0
        pooled = pool_phones(Fake().encode([ITEMS[0].read()])[0].layers, centres, moved[0])
        assert rows(found, 2)[found.tokens.index((number, 0))] == pytest.approx(pooled[2, 0].numpy(), abs=1e-6)


def test_the_name_of_a_phone_does_not_matter_to_the_cache(tmp_path: Path) -> None:
    encoder = Fake()
    computed(tmp_path, encoder)
    renamed = [[PhoneInterval("x", one.start, one.end) for one in phones] for phones in SAID]
    computed(tmp_path, encoder, said=renamed)
    assert encoder.opened == 1


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 20, 1000])
def test_chunks_of_any_size_are_the_same_stream(tmp_path: Path, size: int) -> None:
    embeddings = computed(tmp_path, Fake())
    whole = rows(embeddings, 1)
    parts = list(embeddings.chunks(1, size))
    assert [len(part) for part in parts[:-1]] == [size] * (len(parts) - 1) and 0 < len(parts[-1]) <= size
    assert np.array_equal(np.concatenate(parts), whole)
    assert all(part.dtype == np.float32 for part in parts)


@pytest.mark.parametrize("harm", ["deleted", "cut", "noise", "empty"])
def test_a_lost_entry_is_computed_again_to_the_same_bits(tmp_path: Path, harm: str) -> None:
    encoder = Fake()
    embeddings = computed(tmp_path, encoder)
    whole = [rows(embeddings, layer) for layer in range(DEPTH)]
    before = {path: path.read_bytes() for path in (tmp_path / PHONES).glob("*/*.safetensors")}
    release()
    for path, data in list(before.items())[:2]:
        if harm == "deleted":
            path.unlink()
        else:
            path.write_bytes({"cut": data[: len(data) // 2], "noise": b"\xff" * 100, "empty": b""}[harm])
    for layer in range(DEPTH):
        assert np.array_equal(rows(embeddings, layer), whole[layer])
    assert {path: path.read_bytes() for path in before} == before
    assert encoder.opened == 2


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    class Killed(Fake):
        def encode(self, waves: Sequence[Tensor]) -> list[States]:
            if len(self.clips) >= 8:
                raise KeyboardInterrupt
            return super().encode(waves)

    killed, encoder = Killed(), Fake()
    with pytest.raises(KeyboardInterrupt):
        computed(tmp_path, killed)
    found = computed(tmp_path, encoder)
    assert len(killed.clips) + len(encoder.clips) == 14
    assert np.array_equal(rows(found, 0), rows(computed(tmp_path / "other", Fake()), 0))


def test_half_precision_states_are_pooled_to_single_precision(tmp_path: Path) -> None:
    class Half(Fake):
        def encode(self, waves: Sequence[Tensor]) -> list[States]:
            return [States(state.layers.half()) for state in super().encode(waves)]

    found = rows(computed(tmp_path, Half()), 2)
    assert found.dtype == np.float32
    assert found == pytest.approx(rows(computed(tmp_path / "b", Fake()), 2), abs=0.01)


def test_progress_counts_every_clip_once(tmp_path: Path) -> None:
    class Counting(Silent):
        def __init__(self) -> None:
            self.totals: list[int] = []
            self.steps: list[int] = []

        def phase(self, name: str, total: int, unit: str) -> AbstractContextManager[Advance]:
            self.totals.append(total)
            return nullcontext(self.steps.append)

    # Those without a phone are never encoded.
    clips = sum(map(bool, SAID))
    for _ in range(2):
        progress = Counting()
        embed(tmp_path, Fake(), batching="single").compute(progress, "")
        assert progress.totals == [clips] and sum(progress.steps) == clips < 14
