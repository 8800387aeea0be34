from typing import Any

import numpy as np
import pytest
import torch

from probes.language_models.token_windows import Windows, cut_windows, hide_tokens, masked_positions

pytestmark = pytest.mark.numerical

SEPARATOR = 10


def ids(line: bytes) -> Any:
    return np.frombuffer(line, dtype=np.uint8).astype(np.int32)


def windows_of(lines: list[bytes], length: int) -> Windows:
    return cut_windows([ids(line) for line in lines], [len(line) for line in lines], separator=SEPARATOR, length=length)


def drawn_lines(seed: int, count: int = 40) -> list[bytes]:
    rng = np.random.default_rng(seed)
    # Some lines are empty, some span several windows.
    return [rng.integers(97, 123, size).astype(np.uint8).tobytes() for size in rng.integers(0, 50, count)]


@pytest.mark.parametrize("length", [1, 7, 16, 31])
@pytest.mark.parametrize("seed", [0, 1])
def test_windows_one_after_the_other_are_the_text(seed: int, length: int) -> None:
    lines = drawn_lines(seed)
    text = b"".join(line + b"\n" for line in lines)
    found = windows_of(lines, length)
    kept = len(text) // length * length
    assert found.ids.dtype == found.sentence.dtype == torch.int32
    assert found.ids.shape == found.sentence.shape == (len(found), length) == (kept // length, length)
    assert bytes(found.ids.flatten().tolist()) == text[:kept]
    assert found.tokens == kept and found.sentences == len(lines)


@pytest.mark.parametrize("length", [1, 7, 16])
def test_every_token_knows_its_sentence(length: int) -> None:
    lines = drawn_lines(2)
    found = windows_of(lines, length)
    expected = [number for number, line in enumerate(lines) for _ in range(len(line) + 1)]
    assert found.sentence.flatten().tolist() == expected[: found.tokens]


@pytest.mark.parametrize("length", [1, 7, 16, 31])
def test_of_text_in_bytes_the_bytes_are_the_tokens(length: int) -> None:
    found = windows_of(drawn_lines(3), length)
    assert found.bytes == pytest.approx(found.tokens, rel=1e-12)


def test_a_sentence_cut_through_brings_its_share_of_bytes() -> None:
    # Three tokens for nine bytes and the end of the line, of which two are kept; before it two tokens for five bytes.
    found = cut_windows([ids(b"a"), ids(b"bcd")], [4, 9], separator=SEPARATOR, length=4)
    assert found.tokens == 4 and found.bytes == pytest.approx(5 + 10 * 2 / 4)
    assert found.ids.tolist() == [[97, SEPARATOR, 98, 99]] and found.sentence.tolist() == [[0, 0, 1, 1]]


def test_sentences_behind_the_last_whole_window_are_counted_and_not_read() -> None:
    found = windows_of([b"abcdef", b"x", b""], 7)
    assert found.sentences == 3 and found.sentence.max() == 0 and found.bytes == 7


@pytest.mark.parametrize("lines", [[], [b""], [b"abc"]])
def test_a_text_shorter_than_a_window_has_none(lines: list[bytes]) -> None:
    found = windows_of(lines, 5)
    assert len(found) == 0 and found.ids.shape == (0, 5)
    assert (found.tokens, found.bytes, found.sentences) == (0, 0.0, len(lines))


@pytest.mark.parametrize(("length", "share", "count"), [(64, 0.15, 10), (16, 0.15, 2), (8, 0.01, 1), (10, 0.5, 5)])
def test_as_many_positions_are_hidden_in_every_window_and_none_twice(length: int, share: float, count: int) -> None:
    drawn = masked_positions(200, length, share, torch.Generator().manual_seed(0), draws=2)
    assert drawn.shape == (2, 200, count) and drawn.dtype == torch.int64
    assert all(len({*one, *two}) == 2 * count for one, two in zip(*drawn.tolist(), strict=True))
    assert drawn.min() >= 0 and drawn.max() < length


def test_each_position_is_hidden_as_often_as_any_other() -> None:
    drawn = masked_positions(6000, 20, 0.15, torch.Generator().manual_seed(1))[0]
    counts = np.bincount(drawn.flatten().numpy(), minlength=20)
    # Expected 900 each; hypergeometric, standard deviation sqrt(6000 * .15 * .85) = 28.
    assert abs(counts - 900).max() < 4.5 * 28


def test_positions_depend_on_the_generator_alone() -> None:
    def draw(seed: int) -> torch.Tensor:
        return masked_positions(5, 30, 0.2, torch.Generator().manual_seed(seed), 2)

    before = torch.get_rng_state()
    assert torch.equal(draw(3), draw(3)) and not torch.equal(draw(3), draw(4))
    assert torch.equal(before, torch.get_rng_state())


def test_more_draws_than_positions_are_refused() -> None:
    assert masked_positions(3, 10, 0.5, torch.Generator(), draws=2).shape == (2, 3, 5)
    with pytest.raises(ValueError, match="3 draws of 5 positions do not fit in 10"):
        masked_positions(3, 10, 0.5, torch.Generator(), draws=3)


def test_hidden_tokens_come_back_as_answers_and_all_others_stay() -> None:
    generator = torch.Generator().manual_seed(4)
    given = torch.randint(0, 256, (6, 20), generator=generator, dtype=torch.int32)
    before = given.clone()
    positions = masked_positions(6, 20, 0.25, generator)[0]
    found, answers = hide_tokens(given, positions, 256)
    assert found.dtype == answers.dtype == torch.int64 and torch.equal(given, before)
    for row in range(6):
        where = positions[row].tolist()
        assert answers[row].tolist() == [int(before[row, place]) for place in where]
        expected = [256 if place in where else int(before[row, place]) for place in range(20)]
        assert found[row].tolist() == expected
