"""Do readers take mutated files with a value or a refusal? A short, fixed part of what `fuzz.py` does for minutes."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile import fuzz
from hostile.test_parsers import READERS

INPUTS = 40
NAMES = ("a.pt", "a.safetensors", "a.wav", "b.pt", "b.safetensors", "fields.h5", "fields.mat", "gate", "selection")
"""Readers whose files `test_parsers.py` does not mutate."""


@pytest.fixture
def timer() -> Iterator[None]:
    before = signal.signal(signal.SIGVTALRM, fuzz.late)
    yield
    signal.signal(signal.SIGVTALRM, before)


def test_every_reader_is_fuzzed(tmp_path: Path) -> None:
    assert fuzz.readers(tmp_path).keys() == {*READERS, *NAMES}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_mutated_files_are_read_or_refused(name: str, tmp_path: Path, timer: None) -> None:
    seeds, read = fuzz.readers(tmp_path)[name]
    fuzzed = fuzz.Fuzzed(name, read, tmp_path, tmp_path / "findings")
    fuzz.unguided(fuzzed, seeds, 60, INPUTS)
    assert fuzzed.kinds == {}
    assert fuzzed.counts["read"] + fuzzed.counts["refused"] == INPUTS
