"""Does the CTC probe read letters that were planted in the frames, and none where there are none?"""

from collections.abc import Sequence

import pytest
import torch

from probes.speech.ctc import Alphabet, Utterances, fit_ctc
from probes.speech.word_errors import count_characters

pytestmark = pytest.mark.usefixtures("one_thread")

FOLDS, SPEAKERS, CLIPS, WIDTH = 3, 15, 90, 24
LETTERS = "abcdefgh"


class Planted:
    """Every letter is a point; each layer adds noise of its own size, and `inf` means noise alone."""

    folds, symbols, step = FOLDS, len(LETTERS) + 1, 32

    def __init__(self, noises: Sequence[float], *, loud: float = 0.0, seed: int = 0) -> None:
        self._draw = torch.Generator().manual_seed(seed)
        self._points = torch.randn(self.symbols, WIDTH, generator=self._draw)
        self.targets = [self._letters() for _ in range(CLIPS)]
        self.clips = [self._frames(target, noises, loud) for target in self.targets]
        speaker = torch.arange(CLIPS) % SPEAKERS
        self.fold = speaker % FOLDS
        self.dev = torch.stack([speaker == (fold + 1) % FOLDS + FOLDS for fold in range(FOLDS)])
        self.order = [[clip] for clip in range(CLIPS)]

    def _whole(self, low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=self._draw))

    def _letters(self) -> torch.Tensor:
        return torch.randint(1, self.symbols, (self._whole(4, 10),), generator=self._draw)

    def _frames(self, target: torch.Tensor, noises: Sequence[float], loud: float) -> torch.Tensor:
        path = [0] * 3
        for letter in target.tolist():
            path += [0] * (path[-1] == letter) + [letter] * self._whole(2, 5)
        path += [0] * 3
        layers = []
        for noise in noises:
            size, signal = (1.0, 0.0) if noise == float("inf") else (noise, 1.0)
            frames = signal * self._points[path] + size * torch.randn(len(path), WIDTH, generator=self._draw)
            frames[:, 0] += loud * torch.randn(len(path), generator=self._draw)
            layers.append(frames + 5)
        return torch.stack(layers)

    def read(self, clips: Sequence[int]) -> Utterances:
        chosen = list(clips)
        return Utterances(
            frames=torch.cat([self.clips[clip] for clip in chosen], dim=1),
            counts=[self.clips[clip].shape[1] for clip in chosen],
            targets=[self.targets[clip] for clip in chosen],
            fold=self.fold[chosen],
            dev=self.dev[:, chosen],
        )


def character_errors(source: Planted) -> list[float]:
    """Return the character error rate of every layer over all clips, each by the fold that tests it."""
    probes = fit_ctc(source, generator=torch.Generator().manual_seed(1))
    alphabet = Alphabet(symbols=tuple(LETTERS))
    texts = ["".join(LETTERS[number - 1] for number in target.tolist()) for target in source.targets]
    paths = probes.best_paths(source.read(range(CLIPS)))
    rates = []
    for layer in range(len(paths[0])):
        heard = [alphabet.decode(path[layer]) for path in paths]
        errors = sum(count_characters(text, guess).errors for text, guess in zip(texts, heard, strict=True))
        rates.append(errors / sum(map(len, texts)))
    return rates


def test_planted_letters_are_read_where_noise_is_low() -> None:
    clear, some, more, nothing = character_errors(Planted((0.3, 0.7, 1.5, float("inf"))))
    assert clear < 0.02
    assert some < 0.1
    assert clear <= some < more < nothing
    # Eight letters with nothing to go by: saying little is the best that can be done.
    assert nothing > 0.8


def test_a_loud_dimension_hides_no_letter() -> None:
    assert max(character_errors(Planted((0.3, 0.7), loud=1000.0))) < 0.1


def test_a_layer_is_read_alike_whatever_is_beside_it() -> None:
    alone = Planted((0.7,))
    beside = Planted((0.7,))
    noise = torch.Generator().manual_seed(9)
    beside.clips = [torch.cat([clip, torch.randn(clip.shape, generator=noise)]) for clip in beside.clips]
    assert character_errors(beside)[0] == pytest.approx(character_errors(alone)[0], abs=0.02)
