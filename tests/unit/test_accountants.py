import json
import math
import warnings
from collections import OrderedDict
from pathlib import Path

import pytest
import torch

from probes.core.errors import InputError
from probes.generators.accountants import MAX_STAGES, read_history
from probes.generators.accounting import Stage

KEY = "privacy_accountant_state_dict"
HISTORY = [(2.292, 0.128, 1500), (1.1, 0.01, 20)]
STAGES = tuple(Stage(*stage) for stage in HISTORY)


def checkpoint(path, accountant) -> Path:
    content = {"module_state_dict": {"_module.weight": torch.ones(2)}}
    if accountant is not None:
        content[KEY] = accountant
    torch.save(content, path)
    return path


@pytest.mark.parametrize("suffix", [".pt", ".ckpt"])
def test_the_history_beside_weights_is_read(tmp_path, suffix) -> None:
    state = OrderedDict(history=HISTORY, mechanism="prv")
    assert read_history(checkpoint(tmp_path / f"model{suffix}", state)) == STAGES


def test_what_opacus_saves_is_read(tmp_path) -> None:
    opacus = pytest.importorskip("opacus", reason="opacus is not installed")
    with warnings.catch_warnings():
        # It warns of its random numbers, which are not used here.
        warnings.simplefilter("ignore")
        engine = opacus.PrivacyEngine(accountant="rdp")
    for _ in range(3):
        engine.accountant.step(noise_multiplier=1.5, sample_rate=0.25)
    engine.save_checkpoint(path=tmp_path / "model.pt", module=torch.nn.Linear(2, 1))
    assert read_history(tmp_path / "model.pt") == (Stage(1.5, 0.25, 3),)


def test_the_history_of_a_json_file_is_read(tmp_path) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps({"history": HISTORY}))
    assert read_history(path) == STAGES
    path.write_text('{"history": [[2, 1, 3.0]]}')
    found = read_history(path)
    assert found == (Stage(2.0, 1.0, 3),)
    assert type(found[0].steps) is int


def test_a_file_without_a_history_has_none(tmp_path) -> None:
    assert read_history(checkpoint(tmp_path / "plain.pt", None)) is None
    torch.save([1, 2], tmp_path / "list.pt")
    assert read_history(tmp_path / "list.pt") is None
    (tmp_path / "config.json").write_text('{"width": 3}')
    assert read_history(tmp_path / "config.json") is None
    assert read_history(tmp_path) is None
    assert read_history(tmp_path / "weights.safetensors") is None


@pytest.mark.parametrize(
    ("history", "word", "place"),
    [
        ([], "list of 0", "history"),
        ({"a": 1}, "a dict", "history"),
        ("rdp", "a str", "history"),
        ([[1.0, 0.1, 1]] * (MAX_STAGES + 1), str(MAX_STAGES + 1), "history"),
        ([[1.0, 0.1, 1], [1.0, 0.1]], "not three numbers", "history[1]"),
        ([[1.0, "0.1", 1]], "float, str, int", "history[0]"),
        ([[1.0, True, 1]], "bool", "history[0]"),
        ([7], "a int", "history[0]"),
        ([[0.0, 0.1, 1]], "noise multiplier is 0", "history[0]"),
        ([[1.0, 1.5, 1]], "sample rate is 1.5", "history[0]"),
        ([[1.0, 0.1, 2.5]], "2.5", "history[0]"),
        ([[1.0, 0.1, -3]], "-3", "history[0]"),
        ([[1.0, 0.1, math.inf]], "infinite", "history[0]"),
        ([[math.nan, 0.1, 1]], "nan", "history[0]"),
        ([[1.0, 0.1, math.nan]], "NaN", "history[0]"),
        ([[10**400, 0.1, 1]], "too large", "history[0]"),
    ],
)
def test_what_is_no_history_is_refused_with_its_place(tmp_path, history, word, place) -> None:
    path = checkpoint(tmp_path / "model.pt", {"history": history, "mechanism": "rdp"})
    with pytest.raises(InputError) as caught:
        read_history(path)
    assert word in caught.value.message
    assert caught.value.where == f"{path}, {KEY}.{place}"
    assert caught.value.hint


@pytest.mark.parametrize("accountant", [{"mechanism": "rdp"}, [1], torch.ones(1)])
def test_an_accountant_without_history_is_refused(tmp_path, accountant) -> None:
    with pytest.raises(InputError, match="without a history"):
        read_history(checkpoint(tmp_path / "model.pt", accountant))


@pytest.mark.parametrize("mechanism", ["laplace", None, ["rdp"]])
def test_another_mechanism_is_refused(tmp_path, mechanism) -> None:
    path = checkpoint(tmp_path / "model.pt", {"history": HISTORY, "mechanism": mechanism})
    with pytest.raises(InputError) as caught:
        read_history(path)
    assert caught.value.where.endswith(f"{KEY}.mechanism")


class Harm:
    def __reduce__(self) -> tuple:
        return (print, ("harm",))


def test_nothing_is_unpickled(tmp_path, capsys) -> None:
    path = checkpoint(tmp_path / "model.pt", {"history": [Harm()], "mechanism": "rdp"})
    with pytest.raises(InputError, match="refused"):
        read_history(path)
    assert not capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{", '{"history": [[1, 1, 1]], "history": []}'])
def test_damaged_json_is_refused(tmp_path, text) -> None:
    path = tmp_path / "history.json"
    path.write_text(text)
    with pytest.raises(InputError):
        read_history(path)
