"""Is a phone's vector the mean of the frames inside it, or else the nearest one?"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from probes.speech.phones import PhoneInterval, pool_phones

STATES = torch.tensor([[[1.0, 0.0], [3.0, 10.0], [8.0, -4.0]], [[10.0, 1.0], [30.0, 2.0], [80.0, 3.0]]])
CENTRES = torch.tensor([0.25, 0.5, 0.75])


def pooled(*places: tuple[float, float], states: Tensor = STATES, centres: Tensor = CENTRES) -> Tensor:
    return pool_phones(states, centres, [PhoneInterval("a", start, end) for start, end in places])


@pytest.mark.parametrize(
    ("place", "frames"),
    [
        ((0.0, 1.0), [0, 1, 2]),
        ((0.0, 0.6), [0, 1]),
        ((0.3, 0.6), [1]),
        # The start belongs to a phone, the end to the next one.
        ((0.25, 0.5), [0]),
        ((0.5, 0.75), [1]),
        ((0.25, 0.75), [0, 1]),
        ((0.75, 2.0), [2]),
        # Between two frames: the one nearest to the middle.
        ((0.3, 0.35), [0]),
        ((0.4, 0.45), [1]),
        ((0.26, 0.49), [0]),
        # Before the first and behind the last frame.
        ((0.0, 0.1), [0]),
        ((5.0, 5.5), [2]),
        # Of no length.
        ((0.6, 0.6), [1]),
    ],
)
def test_a_phone_is_the_mean_of_its_frames(place: tuple[float, float], frames: list[int]) -> None:
    found = pooled(place)
    assert found.shape == (2, 1, 2)
    assert torch.allclose(found[:, 0], STATES[:, frames].mean(1))


def test_phones_may_overlap_and_come_in_any_order() -> None:
    found = pooled((0.5, 1.0), (0.0, 1.0), (0.5, 1.0), (0.0, 0.3))
    assert found.shape == (2, 4, 2)
    assert torch.equal(found[:, 0], found[:, 2])
    assert torch.allclose(found[:, 1], STATES.mean(1)) and torch.allclose(found[:, 3], STATES[:, 0])


def test_one_phone_alone_is_what_it_is_beside_others() -> None:
    places = [(0.0, 0.3), (0.3, 0.31), (0.31, 0.9), (0.9, 1.2)]
    together = pooled(*places)
    for number, place in enumerate(places):
        assert torch.equal(together[:, number], pooled(place)[:, 0])


def test_without_phones_there_is_an_empty_array() -> None:
    found = pooled(states=STATES.half())
    assert found.shape == (2, 0, 2) and found.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_pooled_vectors_are_float32_and_summed_in_it(dtype: torch.dtype) -> None:
    states = torch.full((1, 3000, 1), 40.0, dtype=dtype)
    found = pooled((0.0, 4000.0), states=states, centres=torch.arange(3000.0))
    assert found.dtype == torch.float32 and float(found) == pytest.approx(40.0, rel=1e-5)


@settings(deadline=None, max_examples=100)
@given(
    frames=st.integers(1, 12),
    places=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 150)), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_pooling_is_that_of_a_slow_loop(frames: int, places: list[tuple[int, int]], seed: int) -> None:
    """Times of eighths of a frame, which floats hold exactly."""
    states = torch.randn(2, frames, 3, generator=torch.Generator().manual_seed(seed))
    centres = [0.625 + number for number in range(frames)]
    intervals = [(start / 32, (start + length) / 32) for start, length in places]
    found = pooled(*intervals, states=states, centres=torch.tensor(centres))
    for number, (start, end) in enumerate(intervals):
        inside = [frame for frame, centre in enumerate(centres) if start <= centre < end]
        if not inside:
            away = [abs(centre - (start + end) / 2) for centre in centres]
            near = [frame for frame in range(frames) if away[frame] == min(away)]
            assert any(torch.allclose(found[:, number], states[:, frame]) for frame in near)
        else:
            assert torch.allclose(found[:, number], states[:, inside].mean(1), atol=1e-6)


def test_a_lone_frame_is_every_phone() -> None:
    found = pooled((0.0, 0.1), (3.0, 4.0), states=STATES[:, :1], centres=CENTRES[:1])
    assert torch.equal(found, STATES[:, :1].expand(2, 2, 2))
