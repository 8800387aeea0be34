"""Which calls of a pickle are followed, and which are refused before anything is made of them?"""

import codecs
import io
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mutations
import numpy as np
import pytest
import torch

from probes.errors import InputError
from probes.loading.pickles import check_calls
from probes.loading.weights import read_pickle

HARMLESS: dict[str, Callable[[], Any]] = {
    "weights": lambda: {"a": torch.ones(2, 3), "b": torch.nn.Parameter(torch.ones(2)), "c": torch.ones(2).half()},
    "counters of a training loop": lambda: {"epoch": 3, "loss": np.float64(0.5), "milestones": Counter({3: 1})},
    "an optimiser": lambda: torch.optim.Adam([torch.nn.Parameter(torch.ones(2))]).state_dict(),
    "containers": lambda: OrderedDict(
        a=({1, 2}, [3], (4, (5,)), 6j, b"bytes", torch.Size([1, 2]), torch.float32, None)
    ),
    "a tensor with a note": lambda: {"a": _noted(torch.nn.Parameter(torch.ones(2)))},
    "views": lambda: {"a": torch.arange(6.0).view(2, 3).T, "b": torch.arange(6.0)[::2]},
    "seen many times": lambda: {"a": torch.ones(1).expand(50, 60), "b": torch.ones(10).as_strided((5, 6), (1, 1))},
    "bytes that can change": lambda: {"a": bytearray(b"abc\xff"), "b": bytearray(), "c": torch.ones(1)},
    "other kinds of numbers": lambda: {
        "a": torch.ones(2).bfloat16(),
        "b": torch.ones(2, dtype=torch.complex64).conj(),
        "c": torch.tensor([True]),
        "e": torch.empty(0),
        "f": torch.tensor(2.0),
    },
    "keys that are tuples": lambda: {("a", 1, (2.5, None)): 1, 7: {140_234_567_890_123: 2}, b"c": 3, True: 4},
    "what old releases of Python wrote": lambda: OrderedDict(a=torch.ones(2), b=torch.zeros(1)),
}


def _noted(tensor: Any) -> Any:
    tensor.is_shared_by_all = True
    return tensor


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", HARMLESS)
def test_what_training_loops_save_is_read(name: str, zipped: bool, tmp_path: Path) -> None:
    content, path = HARMLESS[name](), tmp_path / "a.pt"
    old = mutations.Call(OrderedDict, [[key, value] for key, value in content.items()])
    torch.save(old if name.startswith("what old") else content, path, _use_new_zipfile_serialization=zipped)
    found: Any = read_pickle(path, device="cpu")
    assert list(found) == list(content)
    for key, value in content.items():
        assert torch.equal(found[key], value) if isinstance(value, torch.Tensor) else str(found[key]) == str(value)


@pytest.mark.filterwarnings("ignore")
def test_numbers_without_a_storage_of_their_own_are_read(tmp_path: Path) -> None:
    content = {"a": torch.ones(3).to(torch.uint16), "b": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)}
    torch.save(content, tmp_path / "a.pt")
    found: Any = read_pickle(tmp_path / "a.pt", device="cpu")
    assert found["a"].tolist() == [1, 1, 1] and torch.equal(found["b"].int_repr(), content["b"].int_repr())


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (bytearray, (2**20,)), (torch.Tensor, (5,)), (torch.FloatTensor, (5,)), (codecs.encode, ("a", "hex")),
        (set, (torch.ones(2),)), (Counter, (torch.ones(2),)), (OrderedDict, (torch.ones(2, 2),)),
        (torch._utils._rebuild_device_tensor_from_cpu_tensor, (torch.ones(2), torch.float64, "cpu", False)),
        (torch._tensor._rebuild_from_type_v2, (bytearray, int, (5,), {})), (print, ("a",)),
    ],
)  # fmt: skip
def test_calls_that_no_checkpoint_needs_are_refused(function: Any, values: tuple[Any, ...], tmp_path: Path) -> None:
    for zipped in (True, False):
        torch.save({"a": mutations.Call(function, *values)}, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
        with pytest.raises(InputError, match=f"holds an object of .*{function.__name__}"):
            read_pickle(tmp_path / "a.pt", device="cpu")


def test_what_a_file_writes_onto_its_tensors_is_taken_off(tmp_path: Path) -> None:
    state: OrderedDict[str, Any] = OrderedDict(numel=3, element_size=None)
    parameter = mutations.Call(torch._utils._rebuild_parameter_with_state, torch.ones(2), False, OrderedDict(), state)
    torch.save({"inner": [{"a": parameter}]}, tmp_path / "a.pt")
    found: Any = read_pickle(tmp_path / "a.pt", device="cpu")
    assert found["inner"][0]["a"].numel() == 2


def test_a_tuple_that_cannot_be_gone_through_is_refused() -> None:
    with pytest.raises(pickle.UnpicklingError, match="too many parts"):
        check_calls(io.BytesIO(mutations.key_of_tuples(60)), ())
    check_calls(io.BytesIO(mutations.key_of_tuples(10)), ())


@pytest.mark.parametrize("name", ["items", "values", "keys", "get", "__len__"])
def test_what_a_file_writes_onto_its_dictionaries_is_taken_off(name: str, tmp_path: Path) -> None:
    state = {"_metadata": {"": {"version": 1}}, name: 3}
    torch.save({"inner": [Dictionary(state)]}, tmp_path / "a.pt")
    found: Any = read_pickle(tmp_path / "a.pt", device="cpu")
    inner = found["inner"][0]
    assert list(inner.items()) == [("a", 1)] and vars(inner) == {"_metadata": state["_metadata"]}


class Dictionary:
    """A dictionary with a state that no writer would give it."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def __reduce__(self) -> tuple[Any, ...]:
        return OrderedDict, ([["a", 1]],), self.state
