"""Are the clips of a corpus aligned once, each by itself, and left out where their text has no room?"""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.progress import Silent
from probes.models.checkpoints import ModelFolder
from probes.speech.corpus_alignment import ALIGNED, ClipAlignment, align_corpus
from probes.speech.ctc_alignment import Targets, align_ctc, phone_intervals
from probes.speech.embeddings import Item
from probes.speech.frames import head_centres

SYMBOLS, FRAMES = 6, 12
SAMPLES = 400 + 320 * (FRAMES - 1)
FOLDER = ModelFolder(reference="", path=Path("m"), family="wav2vec2", config={}, weights=(), sha256="")


class Fake:
    """A head whose answers depend on the clip alone, that counts the clips it is given."""

    def __init__(self) -> None:
        self.clips, self.opened = 0, 0

    def open(self) -> "Fake":
        self.opened += 1
        return self

    def log_probs(self, waves: Sequence[Tensor]) -> list[Tensor]:
        self.clips += len(waves)
        return [answers(wave) for wave in waves]


def answers(wave: Tensor) -> Tensor:
    """Return log-probabilities that the clip's first sample decides."""
    draw = torch.Generator().manual_seed(int(wave[0]))
    frames = (len(wave) - 400) // 320 + 1
    return torch.log_softmax(2 * torch.randn(frames, SYMBOLS, generator=draw), dim=-1)


def item(number: int, samples: int = SAMPLES) -> Item:
    return Item(sha256=f"{number:064x}", samples=samples, read=lambda: torch.full((samples,), float(number)))


def targets(*numbers: int) -> Targets:
    return Targets(numbers=numbers, symbols=tuple("-abcde"[number] for number in numbers))


ITEMS = [item(number, SAMPLES + 320 * (number % 3)) for number in range(7)]
TEXTS = [targets(*(1 + (number + place) % 5 for place in range(2 + number % 4))) for number in range(7)]


def aligned(
    folder: Path, encoder: Fake, items=ITEMS, texts=TEXTS, *, key: str = "k", **options
) -> list[ClipAlignment | None]:
    given = {"blank": 0, "key": {"head": key}, "cache": Cache(folder), "progress": Silent()}
    return align_corpus(items, texts, FOLDER, encoder.open, **{**given, **options})


def alone(one: Item, text: Targets) -> ClipAlignment:
    logs = answers(one.read())
    path = align_ctc(logs, text.numbers, blank=0)
    phones = phone_intervals(path, head_centres(FOLDER, one.samples), text.symbols, pauses=frozenset({" "}))
    best = logs.argmax(1).tolist()
    heard = [one for one, before in zip(best, [None, *best], strict=False) if one != before]
    errors = edits([one for one in heard if one], list(text.numbers))
    return ClipAlignment(phones=phones, score=path.score, errors=errors, length=len(text.numbers))


def edits(one: list[int], other: list[int]) -> int:
    """Return the least number of insertions, deletions and substitutions, by the textbook recurrence."""
    row = list(range(len(other) + 1))
    for place, here in enumerate(one, start=1):
        left = [place]
        for column, there in enumerate(other):
            left.append(min(left[-1] + 1, row[column + 1] + 1, row[column] + (here != there)))
        row = left
    return row[-1]


def test_every_clip_has_the_phones_it_has_alone_and_in_its_place(tmp_path: Path) -> None:
    for largest in (1, 2, 8):
        found = aligned(tmp_path / str(largest), Fake(), largest=largest)
        assert found == [alone(one, text) for one, text in zip(ITEMS, TEXTS, strict=True)]
    assert [tuple(one.phone for one in placed.phones) for placed in found if placed] == [text.symbols for text in TEXTS]


def test_the_order_of_clips_does_not_matter(tmp_path: Path) -> None:
    order, encoder = [4, 0, 6, 2, 5, 1, 3], Fake()
    straight = aligned(tmp_path, encoder)
    mixed = aligned(tmp_path, encoder, [ITEMS[place] for place in order], [TEXTS[place] for place in order])
    assert mixed == [straight[place] for place in order]
    assert encoder.opened == 1 and encoder.clips == 7


def test_the_second_time_nothing_is_opened(tmp_path: Path) -> None:
    first, second = Fake(), Fake()
    found = aligned(tmp_path, first)
    assert (first.opened, first.clips) == (1, 7)
    assert aligned(tmp_path, second) == found
    assert (second.opened, second.clips) == (0, 0)


@pytest.mark.parametrize(
    ("change", "clips"), [("key", 7), ("text", 1), ("sound", 1), ("names", 0)], ids=["key", "text", "sound", "names"]
)
def test_what_depends_on_something_else_is_aligned_anew(tmp_path: Path, change: str, clips: int) -> None:
    encoder = Fake()
    aligned(tmp_path, encoder, largest=1)
    items, texts = list(ITEMS), list(TEXTS)
    if change == "text":
        texts[3] = targets(5, 4)
    if change == "sound":
        items[3] = item(70, ITEMS[3].samples)
    if change == "names":
        texts[3] = Targets(numbers=TEXTS[3].numbers, symbols=tuple("vwxyz"[: len(TEXTS[3].numbers)]))
    found = aligned(tmp_path, encoder, items, texts, key="other" if change == "key" else "k", largest=1)
    assert encoder.clips == 7 + clips
    assert found[3] == alone(items[3], texts[3])


@pytest.mark.parametrize("largest", [1, 8])
def test_a_clip_whose_text_has_no_room_is_none_and_stays_so(tmp_path: Path, largest: int) -> None:
    """The other clips of its batch are aligned as ever."""
    long = targets(*[1, 2] * 9)
    # As many symbols as frames, but equal ones need a blank between them.
    twice, full = targets(*[3] * 7), targets(*[1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2])
    items = [item(number) for number in range(4)]
    texts, encoder = [long, TEXTS[1], twice, full], Fake()
    for _ in range(2):
        found = aligned(tmp_path, encoder, items, texts, largest=largest)
        assert [placed is None for placed in found] == [True, False, True, False]
        assert found[1] == alone(items[1], TEXTS[1]) and found[3] == alone(items[3], full)
    assert encoder.clips == 4


def test_where_no_clip_has_room_all_are_none(tmp_path: Path) -> None:
    long, encoder = targets(*[1, 2] * 9), Fake()
    for _ in range(2):
        assert aligned(tmp_path, encoder, ITEMS[:2], [long, long]) == [None, None]
    assert encoder.opened == 1


def test_delimiters_of_words_become_no_phone(tmp_path: Path) -> None:
    text = Targets(numbers=(1, 5, 2), symbols=("a", " ", "b"))
    (found,) = aligned(tmp_path, Fake(), ITEMS[:1], [text])
    assert found is not None and [one.phone for one in found.phones] == ["a", "b"]
    assert found.phones[0].end < found.phones[1].start


@pytest.mark.parametrize("harm", ["cut", "noise", "empty"])
def test_a_damaged_entry_is_computed_again(tmp_path: Path, harm: str) -> None:
    encoder = Fake()
    found = aligned(tmp_path, encoder)
    path = next((tmp_path / ALIGNED).glob("*/*.safetensors"))
    data = path.read_bytes()
    path.write_bytes({"cut": data[: len(data) // 2], "noise": b"\xff" * 100, "empty": b""}[harm])
    assert aligned(tmp_path, encoder) == found
    assert 7 < encoder.clips < 14 and path.read_bytes() == data


def test_a_text_that_is_not_of_the_head_is_told(tmp_path: Path) -> None:
    """A vocabulary larger than the head is no lack of room."""
    with pytest.raises(InputError, match="6 symbols"):
        aligned(tmp_path, Fake(), ITEMS[:1], [Targets(numbers=(1, 9), symbols=("a", "i"))])


def test_without_clips_there_is_nothing(tmp_path: Path) -> None:
    encoder = Fake()
    assert aligned(tmp_path, encoder, [], []) == [] and encoder.opened == 0
