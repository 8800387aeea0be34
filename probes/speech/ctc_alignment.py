"""Forced alignment: the best path of a CTC head through a known text, frame by frame.

CTC (Graves and others 2006) lets a path stay in a symbol or in the blank, and asks for a blank between two equal
symbols. The most probable path that spells the text is found by dynamic programming.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from unicodedata import normalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.core.errors import InputError
from probes.core.library_imports import compiled_aligner_available, torchaudio
from probes.speech.phones import PhoneInterval
from probes.speech.vocabularies import Vocabulary

SPACE = " "
"""The delimiter of words as `Vocabulary` writes it."""
_BETWEEN_WORDS = ("|", "/")
_STRESSED = re.compile(r"([A-Za-z]{2})[012]")
_NAMED = 5


@dataclass(frozen=True, slots=True)
class CtcPath:
    """A CTC path: frames of each target, from `starts` up to `ends`, and the mean log-probability per frame."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """A transcript as symbol numbers of a head, the transcript's symbol of each, and the count of letters left out."""

    numbers: tuple[int, ...]
    symbols: tuple[str, ...]
    left_out: int = 0


def align_ctc(log_probs: Tensor, targets: Sequence[int], *, blank: int, native: bool | None = None) -> CtcPath:
    """Return the most probable CTC path that spells the targets.

    Sums are in float64. Of equally probable ways into a state the path stays rather than comes from the state before,
    and comes from the blank rather than past it; it ends in the last target rather than in the blank behind it.
    torchaudio's aligner has the same rules but for one: where the ways from the blank and past it are equal, it stays
    even if that is worse. So where a frame gives exactly equal numbers, its path may have the lower score.

    Parameters
    ----------
    log_probs
        Of each symbol in each frame, shape (frames, symbols).
    native
        Whether torchaudio's compiled aligner is used; None: where it can load. Ours needs a byte for each frame and
        each of the 2 targets + 1 states.

    Raises
    ------
    InputError
        Where there are no targets, or more than the frames have room for; where a target is no symbol of the head,
        or is the blank; where no path has a probability above 0.
    ValueError
        Where a number is no log-probability.

    Examples
    --------
    >>> shares = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    >>> path = align_ctc(shares.log(), [1, 2], blank=0, native=False)
    >>> path.starts.tolist(), path.ends.tolist()
    ([1, 3], [2, 4])
    """
    wanted = np.array(targets, dtype=np.int64)
    _check(log_probs, wanted, blank)
    scores = log_probs.detach().cpu().double()
    if native is None:
        native = compiled_aligner_available()
    labels = _compiled_path(scores, wanted, blank) if native else _best_path(scores.numpy(), wanted, blank)
    starts, ends = _runs(labels, blank)
    score = float(scores[torch.arange(len(labels)), torch.from_numpy(labels)].mean())
    if native and not (np.array_equal(labels[starts], wanted) and np.isfinite(score)):
        # Ties can lead torchaudio off the text, and it raises no error where no path is possible.
        return align_ctc(log_probs, targets, blank=blank, native=False)
    return CtcPath(starts, ends, score)


def _check(log_probs: Tensor, targets: NDArray[np.int64], blank: int) -> None:
    frames, symbols = log_probs.shape
    if not bool((log_probs <= 1e-3).all()):
        raise ValueError("log-probabilities are numbers up to 0")
    if not len(targets):
        raise InputError(
            "The text holds no symbol to align.", where="targets", hint="Leave the clip out, or correct its text."
        )
    outside = targets[(targets < 0) | (targets >= symbols) | (targets == blank)]
    if len(outside):
        what = "the blank" if outside[0] == blank else f"none of the head's {symbols} symbols"
        raise InputError(
            f"Symbol number {outside[0]} of the text is {what}.",
            where="targets",
            hint="vocab.json and the weights must belong together.",
        )
    repeats = int((targets[1:] == targets[:-1]).sum())
    if len(targets) + repeats > frames:
        blanks = f" and {repeats} blank{'s' * (repeats > 1)} between equal ones" if repeats else ""
        raise InputError(
            f"The text is longer than the sound: {len(targets)} symbols{blanks} do not fit into {frames} frames.",
            where="targets",
            hint="Check that the clip and its text belong together.",
        )


def _best_path(scores: NDArray[np.float64], targets: NDArray[np.int64], blank: int) -> NDArray[np.int64]:
    """Return the symbol of each frame on the best path, by the Viterbi algorithm over 2 targets + 1 states."""
    states = np.full(2 * len(targets) + 1, blank)
    states[1::2] = targets
    may_skip = np.zeros(len(states), dtype=bool)
    may_skip[3::2] = targets[1:] != targets[:-1]
    # Two unreachable states before the first one, so that every state has two predecessors.
    best = np.full(len(states) + 2, -np.inf)
    # A path begins in the first blank or in the first symbol.
    best[2:4] = scores[0, states[:2]]
    moves = np.zeros((len(scores), len(states)), dtype=np.int8)
    for frame in range(1, len(scores)):
        stay, step, skip = best[2:], best[1:-1], np.where(may_skip, best[:-2], -np.inf)
        near = np.maximum(stay, step)
        moves[frame] = np.where(skip > near, 2, step > stay)
        best[2:] = np.maximum(near, skip) + scores[frame, states]
    if best[-2:].max() == -np.inf:
        raise InputError(
            "No path of the text has a probability above 0.",
            where="targets",
            hint="Check that the clip and its text belong together.",
        )
    state = len(states) - (1 if best[-1] > best[-2] else 2)
    path = np.empty(len(scores), dtype=np.int64)
    for frame in range(len(scores) - 1, -1, -1):
        path[frame] = states[state]
        state -= int(moves[frame, state])
    return path


def _compiled_path(scores: Tensor, targets: NDArray[np.int64], blank: int) -> NDArray[np.int64]:
    """Return the symbol of each frame on the best path as torchaudio finds it."""
    labels, _ = torchaudio().functional.forced_align(
        scores[None].contiguous(), torch.from_numpy(targets)[None], blank=blank
    )
    path: NDArray[np.int64] = labels[0].numpy().astype(np.int64)
    return path


def _runs(labels: NDArray[np.int64], blank: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first frame of each run of a symbol other than the blank, and the frame after the run."""
    changes = np.flatnonzero(np.diff(labels)) + 1
    starts, ends = np.concatenate([[0], changes]), np.concatenate([changes, [len(labels)]])
    spoken = labels[starts] != blank
    return starts[spoken], ends[spoken]


def phone_intervals(
    path: CtcPath, centres: NDArray[np.float64], symbols: Sequence[str], *, pauses: frozenset[str] = frozenset()
) -> tuple[PhoneInterval, ...]:
    """Return the interval in time of each target of a path.

    CTC heads put most of a symbol's sound into blanks, so that no blank is taken for silence: two neighbours meet in
    the middle of the blank frames between them. The first begins and the last ends half a frame outside its own
    frames, but never before 0.

    Parameters
    ----------
    centres
        Centre of each frame's receptive field, seconds, evenly spread, shape (frames,).
    symbols
        Name of each target.
    pauses
        Names that take their time but become no interval, such as the delimiter of words.

    Examples
    --------
    >>> path = CtcPath(np.array([1, 4]), np.array([2, 5]), 0.0)
    >>> phone_intervals(path, np.array([0.0, 1.0, 2.0, 3.0, 4.0]), ["a", "b"])
    (PhoneInterval(phone='a', start=0.5, end=2.5), PhoneInterval(phone='b', start=2.5, end=4.5))
    """
    # The receptive field of a lone frame reaches as far before its centre as behind it.
    half = (centres[-1] - centres[0]) / (len(centres) - 1) / 2 if len(centres) > 1 else centres[0]
    firsts, lasts = centres[path.starts], centres[path.ends - 1]
    meets = (lasts[:-1] + firsts[1:]) / 2
    edges = [max(float(firsts[0] - half), 0.0), *meets.tolist(), float(lasts[-1] + half)]
    return tuple(
        PhoneInterval(symbol, start, end)
        for symbol, start, end in zip(symbols, edges[:-1], edges[1:], strict=True)
        if symbol not in pauses
    )


def targets_of(vocabulary: Vocabulary, transcript: str, *, phones: bool) -> Targets:
    """Encode a transcript in the symbol numbers of a head, with its word delimiter if it has one.

    Phones stand between spaces, and "|" or "/" alone between words. A phone is looked up as it is written, then
    without the stress digit of ARPAbet (AH0 as AH), then in small letters. A letter is looked up as it is written,
    then small, then as a capital; letters that the head does not know are left out and counted.

    Parameters
    ----------
    phones
        Whether the transcript is one of phones, not of letters.

    Raises
    ------
    InputError
        Where the head does not know a phone.

    Examples
    --------
    >>> targets_of(Vocabulary(symbols={2: "AH", 3: "tʃ"}, blank=0), "tʃ AH0", phones=True).numbers
    (3, 2)
    >>> targets_of(Vocabulary(symbols={1: " ", 2: "A", 3: "B"}, blank=0), "a, ba", phones=False)
    Targets(numbers=(2, 1, 3, 2), symbols=('a', ' ', 'b', 'a'), left_out=1)
    """
    known = {normalize("NFC", symbol): number for symbol, number in vocabulary.numbers.items()}
    units = _units(normalize("NFC", transcript), phones)
    words = [[(unit, _number(unit, known, phones)) for unit in word] for word in units]
    lacking = [unit for word in words for unit, number in word if number is None]
    if phones and lacking:
        raise _unknown(list(dict.fromkeys(lacking)), list(known))
    found: list[tuple[str, int]] = []
    for word in words:
        encoded = [(unit, number) for unit, number in word if number is not None]
        if encoded and found and SPACE in known:
            found.append((SPACE, known[SPACE]))
        found += encoded
    return Targets(
        numbers=tuple(number for _, number in found), symbols=tuple(unit for unit, _ in found), left_out=len(lacking)
    )


def _units(transcript: str, phones: bool) -> list[list[str]]:
    """Return the phones or letters of each word."""
    if not phones:
        return [list(word) for word in transcript.split()]
    words: list[list[str]] = [[]]
    for unit in transcript.split():
        if unit in _BETWEEN_WORDS:
            words.append([])
        else:
            words[-1].append(unit)
    return words


def _number(unit: str, known: Mapping[str, int], phones: bool) -> int | None:
    plain = _STRESSED.sub(r"\1", unit) if _STRESSED.fullmatch(unit) else unit
    forms = (unit, plain, unit.lower(), plain.lower()) if phones else (unit, unit.lower(), unit.upper())
    return next((known[form] for form in forms if form in known), None)


def _unknown(lacking: Sequence[str], known: Sequence[str]) -> InputError:
    more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
    return InputError(
        f"The head does not know {len(lacking)} of the transcript's phones: {', '.join(lacking[:_NAMED])}{more}.",
        where="transcript",
        hint=f"Write phones as its vocab.json does: {', '.join(sorted(set(known) - {SPACE})[:80])}.",
    )
