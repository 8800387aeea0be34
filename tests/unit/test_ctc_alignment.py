"""Is the path through a text the best one, and does each symbol stand where it was said?"""

import itertools
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from probes.core.errors import InputError
from probes.core.library_imports import compiled_aligner_available, torchaudio
from probes.speech.ctc_alignment import CtcPath, Targets, align_ctc, phone_intervals, targets_of
from probes.speech.phones import PhoneInterval
from probes.speech.vocabularies import Vocabulary

pytestmark = pytest.mark.numerical

LETTERS = Vocabulary(symbols={1: " ", 2: "A", 3: "B", 4: "É"}, blank=0)
PHONES = Vocabulary(symbols={1: "aɪ", 2: "tʃ", 3: "AH", 4: "s", 5: "AH1", 6: "t", 7: "l̩", 8: "ah"}, blank=0)
AND_SPACE = Vocabulary(symbols={**PHONES.symbols, 9: " "}, blank=0)


def drawn(frames: int, symbols: int, seed: int, *, sharp: float = 2.0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return (torch.randn(frames, symbols, generator=source, dtype=torch.float64) * sharp).log_softmax(-1)


def spelled(labels: Sequence[int], blank: int) -> list[int]:
    return [label for label, _ in itertools.groupby(labels) if label != blank]


def labels_of(path: CtcPath, targets: Sequence[int], frames: int, blank: int) -> list[int]:
    labels = [blank] * frames
    for target, start, end in zip(targets, path.starts, path.ends, strict=True):
        assert start < end
        assert labels[start:end] == [blank] * (end - start)
        labels[start:end] = [target] * (end - start)
    return labels


def every_score(log_probs: Tensor, targets: Sequence[int], blank: int) -> dict[tuple[int, ...], float]:
    """Return the mean log-probability of each labelling of the frames that spells the targets."""
    frames, symbols = log_probs.shape
    table = log_probs.tolist()
    return {
        labels: sum(table[frame][label] for frame, label in enumerate(labels)) / frames
        for labels in itertools.product(range(symbols), repeat=frames)
        if spelled(labels, blank) == list(targets)
    }


def probability(log_probs: Tensor, targets: Sequence[int], blank: int) -> float:
    """Return the log-probability of all paths together."""
    lengths = torch.tensor([len(log_probs)]), torch.tensor([len(targets)])
    loss = torch.nn.functional.ctc_loss(
        log_probs[:, None], torch.tensor([targets]), *lengths, blank=blank, reduction="sum"
    )
    return -float(loss)


@pytest.mark.parametrize("frames", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("blank", [0, 2])
def test_no_labelling_of_the_text_is_better(frames: int, blank: int) -> None:
    others = [symbol for symbol in range(4) if symbol != blank]
    one, two, three = others
    for seed, targets in enumerate(
        [[one], [one, two], [one, one], [one, two, one], [two, two, three], [one, one, one], [three, two, one, one]]
    ):
        log_probs = drawn(frames, 4, seed)
        scores = every_score(log_probs, targets, blank)
        if not scores:
            with pytest.raises(InputError, match="longer than the sound"):
                align_ctc(log_probs, targets, blank=blank, native=False)
            continue
        path = align_ctc(log_probs, targets, blank=blank, native=False)
        best = max(scores, key=lambda labels: scores[labels])
        assert tuple(labels_of(path, targets, frames, blank)) == best
        assert path.score == pytest.approx(scores[best], abs=1e-12)


def planted(spans: Sequence[tuple[int, int, int]], frames: int, symbols: int) -> Tensor:
    shares = torch.full((frames, symbols), 0.1 / (symbols - 1))
    said = torch.zeros(frames, dtype=torch.long)
    for target, start, end in spans:
        said[start:end] = target
    shares[torch.arange(frames), said] = 0.9
    return shares.log()


@pytest.mark.parametrize(
    "spans",
    [
        [(3, 0, 1)],
        [(1, 2, 5), (2, 5, 6), (1, 9, 12)],
        [(4, 0, 3), (4, 4, 6), (4, 8, 20)],
        [(2, 0, 10), (3, 10, 20)],
        [(1, 19, 20)],
    ],
)
def test_what_was_planted_is_found(spans: list[tuple[int, int, int]]) -> None:
    path = align_ctc(planted(spans, 20, 6), [target for target, *_ in spans], blank=0, native=False)
    assert path.starts.dtype == path.ends.dtype == np.int64
    assert list(zip(path.starts.tolist(), path.ends.tolist(), strict=True)) == [span[1:] for span in spans]
    assert path.score == pytest.approx(np.log(0.9), abs=1e-6)


@pytest.mark.parametrize(("frames", "targets"), [(12, [1, 2, 2, 3]), (40, [4, 4, 4, 1, 2]), (200, [1, 2, 3] * 20)])
@pytest.mark.parametrize("sharp", [0.1, 1.0, 8.0])
def test_one_path_is_no_more_probable_than_all(frames: int, targets: list[int], sharp: float) -> None:
    log_probs = drawn(frames, 6, frames, sharp=sharp)
    path = align_ctc(log_probs, targets, blank=0, native=False)
    labels = labels_of(path, targets, frames, 0)
    assert spelled(labels, 0) == targets
    assert path.score == pytest.approx(float(log_probs[torch.arange(frames), labels].mean()), abs=1e-12)
    assert path.score * frames <= probability(log_probs, targets, 0) + 1e-9


def test_a_text_that_just_fits_has_one_path() -> None:
    log_probs = drawn(5, 4, 1)
    path = align_ctc(log_probs, [1, 1, 2, 3], blank=0, native=False)
    assert path.starts.tolist() == [0, 2, 3, 4]
    assert path.score * 5 == pytest.approx(probability(log_probs, [1, 1, 2, 3], 0), abs=1e-9)


def test_of_equal_paths_the_one_that_stays_is_taken() -> None:
    even = torch.full((6, 3), 1 / 3).log()
    path = align_ctc(even, [1, 2], blank=0, native=False)
    assert (path.starts.tolist(), path.ends.tolist()) == ([0, 1], [1, 6])
    # Equal from the blank and past it, and both better than to stay.
    shares = torch.tensor([[0.1, 0.8, 0.1], [0.45, 0.45, 0.1], [0.1, 0.1, 0.8]])
    path = align_ctc(shares.log(), [1, 2], blank=0, native=False)
    assert (path.starts.tolist(), path.ends.tolist()) == ([0, 2], [1, 3])


def test_symbols_without_any_probability_are_gone_around() -> None:
    shares = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
    path = align_ctc(shares.log(), [1, 2], blank=0, native=False)
    assert (path.starts.tolist(), path.ends.tolist()) == ([0, 2], [1, 4])
    with pytest.raises(InputError, match="No path"):
        align_ctc(shares.log(), [2, 1], blank=0, native=False)


def test_many_frames_of_a_long_text_take_a_byte_each() -> None:
    source = torch.Generator().manual_seed(2)
    targets = torch.randint(1, 40, (400,), generator=source).tolist()
    log_probs = drawn(3000, 40, 3)
    tracemalloc.start()
    path = align_ctc(log_probs, targets, blank=0, native=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The log-probabilities stand beside the steps back, in numbers of 8 bytes.
    assert peak < 1.2 * 3000 * 801 + 8 * 3000 * 40
    assert spelled(labels_of(path, targets, 3000, 0), 0) == targets


@pytest.mark.parametrize(
    ("targets", "blank", "said"),
    [
        ([], 0, "no symbol to align"),
        ([1, 0], 0, "number 0 of the text is the blank"),
        ([1, 4], 4, "number 4 of the text is the blank"),
        ([1, 5], 0, "number 5 of the text is none of the head's 5 symbols"),
        ([-1], 0, "number -1"),
        ([1, 1, 2], 0, "3 symbols and 1 blank between equal ones do not fit into 3 frames"),
        ([1, 2, 3, 4], 0, "4 symbols do not fit into 3 frames"),
    ],
)
def test_targets_that_have_no_path_are_refused(targets: list[int], blank: int, said: str) -> None:
    for native in (None, False):
        with pytest.raises(InputError) as caught:
            align_ctc(drawn(3, 5, 0), targets, blank=blank, native=native)
        assert said in caught.value.message
        assert caught.value.hint


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2.5])
def test_what_is_no_log_probability_is_refused(value: float) -> None:
    log_probs = drawn(3, 5, 0)
    log_probs[1, 4] = value
    with pytest.raises(ValueError, match="log-probabilities"):
        align_ctc(log_probs, [1], blank=0)


@pytest.mark.skipif(not compiled_aligner_available(), reason="torchaudio's compiled part cannot load here")
@pytest.mark.parametrize("seed", range(20))
def test_torchaudio_finds_the_same_path(seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    targets = torch.randint(1, 5, (3 + 2 * seed,), generator=source).tolist()
    log_probs = drawn(120, 5, seed)
    ours, theirs = (align_ctc(log_probs, targets, blank=0, native=native) for native in (False, True))
    assert ours.starts.tolist() == theirs.starts.tolist()
    assert ours.ends.tolist() == theirs.ends.tolist()
    assert ours.score == pytest.approx(theirs.score, abs=1e-12)


@pytest.mark.parametrize("wrong", [[0, 1, 1, 1], [2, 2, 1, 1], [1, 0, 2, 2]])
def test_a_compiled_path_that_leaves_the_text_is_not_taken(monkeypatch: pytest.MonkeyPatch, wrong: list[int]) -> None:
    shares = torch.tensor([[0.0, 0.9, 0.1], [0.9, 0.0, 0.1], [0.8, 0.2, 0.0], [0.1, 0.1, 0.8]])
    monkeypatch.setattr(torchaudio().functional, "forced_align", lambda *_, **__: (torch.tensor([wrong]), None))
    path = align_ctc(shares.log(), [1, 2], blank=0, native=True)
    assert (path.starts.tolist(), path.ends.tolist()) == ([0, 3], [1, 4])
    assert np.isfinite(path.score)


def test_neighbours_meet_in_the_middle_of_the_blanks() -> None:
    centres = 0.0125 + 0.02 * np.arange(12)
    path = CtcPath(np.array([2, 3, 7]), np.array([3, 5, 8]), -0.1)
    found = phone_intervals(path, centres, ["a", " ", "b"])
    assert [one.phone for one in found] == ["a", " ", "b"]
    # Frames 0.02 s apart: halfway from frame 2 to 3; of the blanks 5 and 6, the middle is the edge between them.
    edges = [found[0].start, *(one.end for one in found)]
    assert edges == pytest.approx([0.0425, 0.0625, 0.1225, 0.1625], abs=1e-12)
    assert all(before.end == after.start for before, after in itertools.pairwise(found))
    without = phone_intervals(path, centres, ["a", " ", "b"], pauses=frozenset({" "}))
    assert without == (found[0], found[2])


def test_no_interval_begins_before_the_sound() -> None:
    centres = 0.005 + 0.02 * np.arange(3)
    (found,) = phone_intervals(CtcPath(np.array([0]), np.array([2]), 0.0), centres, ["a"])
    assert (found.start, found.end) == pytest.approx((0.0, 0.035))
    (lone,) = phone_intervals(CtcPath(np.array([0]), np.array([1]), 0.0), np.array([0.0125]), ["a"])
    assert lone == PhoneInterval("a", 0.0, 0.025)


def test_names_must_be_as_many_as_targets() -> None:
    with pytest.raises(ValueError, match="zip"):
        phone_intervals(CtcPath(np.array([0]), np.array([2]), 0.0), np.array([0.01, 0.03]), ["a", "b"])


@pytest.mark.parametrize(
    ("text", "numbers", "left_out"),
    [
        ("AB", (2, 3), 0),
        ("ab  Ba\n", (2, 3, 1, 3, 2), 0),
        ("a, b!", (2, 1, 3), 2),
        ("a - b", (2, 1, 3), 1),
        ("- a", (2,), 1),
        ("e\u0301a", (4, 2), 0),
        ("xyz", (), 3),
        ("", (), 0),
    ],
)
def test_letters_are_looked_up_in_both_cases(text: str, numbers: tuple[int, ...], left_out: int) -> None:
    found = targets_of(LETTERS, text, phones=False)
    assert (found.numbers, found.left_out) == (numbers, left_out)
    assert len(found.symbols) == len(numbers)


def test_capitals_are_looked_up_small_and_words_joined_where_there_is_no_delimiter() -> None:
    small = Vocabulary(symbols={1: "a", 2: "b", 3: "B"}, blank=0)
    assert targets_of(small, "A b B", phones=False) == Targets(numbers=(1, 2, 3), symbols=("A", "b", "B"))


@pytest.mark.parametrize(
    ("text", "numbers", "with_space"),
    [
        ("tʃ aɪ", (2, 1), (2, 1)),
        ("AH0 s AH1 AH2", (3, 4, 5, 3), (3, 4, 5, 3)),
        ("S T | aɪ", (4, 6, 1), (4, 6, 9, 1)),
        ("/ s / / t /", (4, 6), (4, 9, 6)),
        ("l\u0329 Ah0", (7, 8), (7, 8)),
        (" | ", (), ()),
    ],
)
def test_phones_are_looked_up_whole(text: str, numbers: tuple[int, ...], with_space: tuple[int, ...]) -> None:
    assert targets_of(PHONES, text, phones=True).numbers == numbers
    found = targets_of(AND_SPACE, text, phones=True)
    assert found.numbers == with_space
    assert [symbol for symbol in found.symbols if symbol != " "] == [unit for unit in text.split() if unit not in "|/"]


def test_unknown_phones_are_named() -> None:
    with pytest.raises(InputError) as caught:
        targets_of(PHONES, "q1 s q2 q1 q3 q4 q5 q6 t0", phones=True)
    assert "7 of the transcript's phones: q1, q2, q3, q4, q5 and 2 more" in caught.value.message
    assert "aɪ" in caught.value.hint or "tʃ" in caught.value.hint
    with pytest.raises(InputError, match=r"1 of the transcript's phones: q\."):
        targets_of(PHONES, "q s", phones=True)


def test_from_planted_sound_to_intervals() -> None:
    targets = targets_of(AND_SPACE, "t s | tʃ", phones=True)
    spans = [(6, 4, 6), (4, 8, 9), (9, 12, 14), (2, 20, 22)]
    path = align_ctc(planted(spans, 30, 10), targets.numbers, blank=0, native=False)
    found = phone_intervals(path, np.arange(30) + 0.5, targets.symbols, pauses=frozenset({" "}))
    assert found == (PhoneInterval("t", 4.0, 7.0), PhoneInterval("s", 7.0, 10.5), PhoneInterval("tʃ", 17.0, 22.0))
