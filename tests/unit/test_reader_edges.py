"""Answers of readers that no other test tells apart: what a hash covers, and what a text is taken for."""

from pathlib import Path

import numpy as np
import pytest

from audits.membership.score_folders import read_score_folder
from probes.core.errors import InputError
from probes.core.hashing import sha256_folder
from probes.files.text import read_text

RNG = np.random.default_rng(0)
KEEP = np.tile(np.arange(6) % 2 == 0, (12, 1))


@pytest.mark.parametrize("population", [False, True])
def test_the_hash_of_a_privacy_meter_folder_covers_the_reference_where_there_is_one(
    tmp_path: Path, population: bool
) -> None:
    names = ["signals/rmia_signals.npy", "models/memberships.npy"]
    for folder in ("models", "signals"):
        (tmp_path / folder).mkdir()
    np.save(tmp_path / names[0], RNG.random((6, 12)))
    np.save(tmp_path / names[1], KEEP)
    (tmp_path / "models/models_metadata.json").write_text("{}")
    if population:
        names.append("signals/rmia_signals_pop.npy")
        np.save(tmp_path / names[2], RNG.random((3, 12)))
    found = read_score_folder(tmp_path, higher_is="member", target=None)
    assert found.sha256 == sha256_folder([tmp_path / name for name in names])


@pytest.mark.parametrize(
    ("text", "encoding", "likely"),
    [("Привет мир A", "cp1251", "Windows-1251"), ("un été à Rome", "latin-1", "Latin-1 or")],
)
def test_a_few_latin_letters_make_no_latin_text(tmp_path: Path, text: str, encoding: str, likely: str) -> None:
    (tmp_path / "words.txt").write_text(text, encoding=encoding)
    with pytest.raises(InputError, match=f"is not UTF-8 text: it looks like .*{likely}"):
        read_text(tmp_path / "words.txt")
