import io
import json
import os
import pickle
import struct
import sys
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from probes.classifiers.class_maps import read_class_map
from probes.classifiers.classifier_files import Classifier, check_classifier, load_classifier
from probes.classifiers.classifier_networks import LeNet, ResNet, Stage, small_cnn
from probes.core.errors import InputError
from probes.core.library_imports import transformers

pytestmark = pytest.mark.usefixtures("one_thread")

State = dict[str, Tensor]
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


class Touch:
    """An object whose pickle runs a command when an ordinary reader opens it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, (f"touch {self.path}",)


def weights() -> State:
    return small_cnn((1, 8, 8), 3, width=2).state_dict()


def resnet(head: str = "fc") -> State:
    stages = [Stage(3, 0, 2 * 2**place, min(2, place + 1)) for place in range(3)]
    shortcut = "downsample" if head == "fc" else "padded"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ResNet(3, 2, stages, 4, large=False, shortcut=shortcut, head=head).state_dict()


def refuse(path: Path | str, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        load_classifier(str(path), **options)
    assert caught.value.where and caught.value.message
    return caught.value


def pixels(count: int = 3, *shape: int) -> Tensor:
    return torch.rand(count, *(shape or (1, 8, 8)), generator=torch.Generator().manual_seed(5))


def test_a_classifier_from_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    save_file(weights(), path)
    found = load_classifier(str(path), arch="small_cnn")
    assert (found.family, found.shape, found.mean, found.std) == ("small_cnn", (1, 8, 8), (), ())
    assert found.parameters == 2 * 9 + 4 + 8 * 9 + 8 + 3 * 16 + 3
    assert found.reference == str(path) and len(found.sha256) == 64 and found.class_names == () == found.notes
    assert not found.module.training and not any(weight.requires_grad for weight in found.module.parameters())
    expected = small_cnn((1, 8, 8), 3, width=2).eval()(pixels())
    assert torch.equal(found.module(pixels()), expected)
    check = check_classifier(found, pixels(), labels=[0, 2, 1])
    assert check.classes == 3 and check.seconds > 0
    (tmp_path / "map.csv").write_text("folder,index\ncat,0\nboat,7\n")
    with pytest.raises(InputError, match="The file gives the folder boat the output 7; the classifier has 3") as raised:
        check_classifier(found, pixels(), labels=[0, 7], class_map=read_class_map(tmp_path / "map.csv"))
    assert raised.value.where == f"--class-map {tmp_path / 'map.csv'}" and "Mend the number" in str(raised.value.hint)


def each(state: State, change: Callable[[Tensor], Tensor]) -> State:
    return {name: change(value) for name, value in state.items()}


FORMATS: dict[str, Callable[[State, Path], None]] = {
    "a.safetensors": save_file,
    "a.pt": torch.save,
    "legacy.pth": lambda state, path: torch.save(state, path, _use_new_zipfile_serialization=False),
    "wrapped.tar": lambda state, path: torch.save({"state_dict": state, "epoch": 3, "best_prec1": 0.5}, path),
    "model.ckpt": lambda state, path: torch.save({"model": state, "optimizer": {"lr": 0.1}}, path),
    "net.bin": lambda state, path: torch.save({"net": OrderedDict(state)}, path),
    "parallel.th": lambda state, path: torch.save({"module." + key: value for key, value in state.items()}, path),
    "cohen.pt": lambda state, path: torch.save({"1." + key: value for key, value in state.items()}, path),
    "cohen2.pt": lambda state, path: torch.save({"1.module." + key: value for key, value in state.items()}, path),
    "compiled.pt": lambda state, path: torch.save({"_orig_mod." + key: value for key, value in state.items()}, path),
    "module.pt": lambda state, path: torch.save(OrderedDict({"model." + k: v for k, v in state.items()}), path),
    "parameters.pt": lambda state, path: torch.save(each(state, lambda v: nn.Parameter(v, False)), path),
    "short.pt": lambda state, path: torch.save({k: v for k, v in state.items() if "tracked" not in k}, path),
    "wide.pt": lambda state, path: torch.save(each(state, lambda v: v.double() if v.is_floating_point() else v), path),
}  # fmt: skip


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_format_gives_the_same_function(tmp_path: Path, name: str) -> None:
    FORMATS[name](weights(), tmp_path / name)
    save_file(weights(), tmp_path / "plain.safetensors")
    found = load_classifier(str(tmp_path / name), arch="small_cnn")
    plain = load_classifier(str(tmp_path / "plain.safetensors"), arch="small_cnn")
    assert found.sha256 == plain.sha256 and found.parameters == plain.parameters
    assert torch.equal(found.module(pixels()), plain.module(pixels()))
    if name == "wrapped.tar":
        assert found.notes == ("Not used of the checkpoint: best_prec1, epoch.",)
    if name == "wide.pt":
        assert found.notes == ("Weights in float64 were turned into float32.",)


def test_the_hash_is_of_the_function(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(resnet(), path)
    plain = load_classifier(str(path), arch="cifar_resnet20")
    same = load_classifier(str(path), arch="cifar_resnet20", mean=CIFAR_MEAN, std=CIFAR_STD)
    other = load_classifier(str(path), arch="cifar_resnet20", mean=(0.5,) * 3, std=CIFAR_STD)
    assert plain.sha256 == same.sha256 != other.sha256
    changed = resnet()
    changed["layer3.2.bn2.running_var"] += 1e-3
    torch.save(changed, path)
    assert load_classifier(str(path), arch="cifar_resnet20").sha256 != plain.sha256


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.bool_, np.float16])
@pytest.mark.parametrize("legacy", [False, True])
def test_numbers_of_numpy_beside_the_weights(tmp_path: Path, kind: type, legacy: bool) -> None:
    path = tmp_path / "a.pt"
    content = {"state_dict": weights(), "best_prec1": kind(1)}
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    assert load_classifier(str(path), arch="small_cnn").notes == ("Not used of the checkpoint: best_prec1.",)


@pytest.mark.parametrize("prefix", ["", "1.", "1.module."])
def test_the_format_of_cohen_names_its_architecture(tmp_path: Path, prefix: str) -> None:
    path = tmp_path / "checkpoint.pth.tar"
    state = {prefix + name: value for name, value in resnet().items()}
    torch.save({"epoch": 90, "arch": "cifar_resnet20", "state_dict": state, "optimizer": {"state": {}}}, path)
    found = load_classifier(str(path))
    assert found.family == "cifar_resnet20" and (found.mean, found.std) == (CIFAR_MEAN, CIFAR_STD)
    assert any("cifar_resnet20 was read from the checkpoint" in note for note in found.notes)
    assert any("0.4914" in note and "published" in note for note in found.notes)
    assert load_classifier(str(path), arch="cifar_resnet20").sha256 == found.sha256
    torch.save({"arch": "resnet50", "state_dict": state}, path)
    error = refuse(path, arch="cifar_resnet20")
    assert "resnet50" in error.message and "key arch" in error.where and "resnet50" in error.hint


def test_an_architecture_that_is_not_known_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"arch": "resnet\x1b18", "state_dict": weights()}, path)
    assert r"resnet\x1b18" in refuse(path).message
    assert load_classifier(str(path), arch="small_cnn").family == "small_cnn"


def test_the_normalisation_stands_in_front(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save(resnet("linear"), path)
    found = load_classifier(str(path), arch="cifar_resnet20")
    assert found.mean == (0.485, 0.456, 0.406)
    own = load_classifier(str(path), arch="cifar_resnet20", mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    assert any("options" in note for note in own.notes) and not any("published" in note for note in own.notes)
    none = load_classifier(str(path), arch="cifar_resnet20", mean=(0.0,) * 3, std=(1.0,) * 3)
    images = pixels(2, 3, 32, 32)
    scaled = (images - torch.tensor([0.1, 0.2, 0.3])[:, None, None]) / torch.tensor([0.4, 0.5, 0.6])[:, None, None]
    torch.testing.assert_close(own.module(images), none.module(scaled))
    assert not torch.allclose(own.module(images), found.module(images))


def test_a_normalisation_in_the_checkpoint_is_used(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    state = {"1." + name: value for name, value in resnet().items()}
    inside = {"0.mean": torch.tensor([0.5, 0.25, 0.125])[None, :, None, None], "0.std": torch.ones(3)}
    torch.save({**state, **inside}, path)
    found = load_classifier(str(path), arch="cifar_resnet20")
    assert (found.mean, found.std) == ((0.5, 0.25, 0.125), (1.0, 1.0, 1.0))
    assert any("in the checkpoint" in note for note in found.notes)
    torch.save({**state, **inside, "0.std": torch.tensor([1.0, 0.0, float("nan")])}, path)
    assert "no mean and standard deviation" in refuse(path, arch="cifar_resnet20").message


def test_bare_weights_need_a_name_which_is_guessed_in_the_hint(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file(weights(), path)
    assert "--arch small_cnn" in refuse(path).hint
    save_file({"a": torch.ones(2)}, path)
    error = refuse(path)
    assert "--factory" in error.hint and "those of" not in error.hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arch": "resnet51"}, "not a known architecture"),
        ({"arch": "small_cnn", "factory": "a:b", "allow_code": True}, "Both"),
        ({"arch": "small_cnn", "mean": (0.5,)}, "--mean has 1 values and --std has 0"),
        ({"arch": "small_cnn", "std": (0.5,)}, "--std has 1"),
        ({"arch": "small_cnn", "mean": (0.5,), "std": (0.0,)}, "not above 0"),
        ({"arch": "small_cnn", "mean": (0.5,), "std": (-1.0,)}, "not above 0"),
        ({"arch": "small_cnn", "mean": (float("nan"),), "std": (1.0,)}, "not finite"),
        ({"arch": "small_cnn", "mean": (0.5,), "std": (float("inf"),)}, "not finite"),
        ({"arch": "small_cnn", "mean": (125.3,), "std": (63.0,)}, "not those of pixels in [0, 1]"),
        ({"arch": "small_cnn", "mean": (0.5, 0.5), "std": (1.0, 1.0)}, "images of 1 channels"),
        ({"arch": "mnist_lenet"}, "weights of small_cnn"),
        ({"factory": "a:b"}, "not run unless"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    path = tmp_path / "a.pt"
    torch.save(weights(), path)
    assert message in refuse(path, **options).message


def poisoned(name: str, value: float) -> State:
    state = weights()
    state[name].view(-1)[0] = value
    return state


def on_cuda(path: Path) -> None:
    """A legacy file whose storages say that they lay on a graphics card."""
    torch.save(weights(), path, _use_new_zipfile_serialization=False)
    data = path.read_bytes()
    assert b"X\x03\x00\x00\x00cpu" in data
    path.write_bytes(data.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0"))


def quantised(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.qint8)
        torch.save({**weights(), "linear.bias": value}, path)


def claimed(path: Path, legacy: bool) -> None:
    """A file whose pickle claims ten million times the numbers that are there."""
    plain = io.BytesIO()
    torch.save({"a": torch.ones(77, dtype=torch.float32)}, plain, _use_new_zipfile_serialization=not legacy)
    path.write_bytes(plain.getvalue().replace(b"K\x4d", b"J\xff\xff\xff\x7f"))


def rewritten(path: Path, names: Callable[[str], str], more: tuple[str, bytes] | None = None) -> None:
    """A checkpoint zipped anew, with other names, or with one entry more, which is compressed."""
    source = io.BytesIO()
    torch.save(weights(), source)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(names(name), old.read(name))
        if more:
            new.writestr(*more, compress_type=zipfile.ZIP_DEFLATED)


def truncated(path: Path, share: float, legacy: bool = False) -> None:
    FORMATS["legacy.pth" if legacy else "a.safetensors" if path.suffix == ".safetensors" else "a.pt"](weights(), path)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])


def header(entries: object, tail: int = 0) -> bytes:
    content = json.dumps(entries).encode()
    return struct.pack("<Q", len(content)) + content + bytes(tail)


def scripted(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(LeNet(1, (2, 2), 3, 3)), path)


LOADS = "loads"
Write = Callable[[Path, Path], object]


def holds(content: object, legacy: bool = False) -> Write:
    """Save a content known beforehand."""
    return lambda path, ran: torch.save(content, path, _use_new_zipfile_serialization=not legacy)


def traps(wrap: Callable[[Touch], object], legacy: bool = False) -> Write:
    """Save a content with a trap in it."""
    return lambda path, ran: torch.save(wrap(Touch(ran)), path, _use_new_zipfile_serialization=not legacy)


def pickles(protocol: int) -> Write:
    return lambda path, ran: path.write_bytes(pickle.dumps(Touch(ran), protocol=protocol))


def reads(content: bytes) -> Write:
    return lambda path, ran: path.write_bytes(content)


def swap(**entries: object) -> dict[str, object]:
    return {**weights(), **{name.replace("__", "."): value for name, value in entries.items()}}


HUGE = {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}
BROKEN: dict[str, tuple[str, Write, str]] = {
    "pickle that runs a command": ("a.pt", traps(lambda trap: {"a": trap}), "run code"),
    "the same, legacy": ("a.pt", traps(lambda trap: {"a": trap}, legacy=True), "run code"),
    "beside good weights": ("a.pt", traps(lambda trap: {"state_dict": weights(), "x": trap}), "run code"),
    "as a name": ("a.pt", traps(lambda trap: {(trap,): 1}), "run code"),
    "plain pickle, protocol 4": ("a.pt", pickles(4), "run code"),
    "plain pickle, protocol 0": ("a.bin", pickles(0), "run code"),
    "pickle named safetensors": ("a.safetensors", pickles(2), "damaged"),
    "whole module": ("a.pt", holds(small_cnn((1, 8, 8), 3)), "SmallCNN"),
    "module in a wrapper": ("a.pt", holds({"model": nn.ReLU()}), "run code"),
    "numpy array": ("a.pt", holds({"a": np.zeros(3)}), "run code"),
    "numpy kind that is huge": ("a.pt", holds({"a": np.dtype("V999999999")}), "numpy.dtype"),
    "pickle suffix": ("a.pkl", pickles(2), "suffix"),
    "no suffix": ("checkpoint", holds(weights()), "suffix"),
    "web page": ("a.pt", reads(b"<!DOCTYPE html><html>404</html>"), "web page"),
    "web page as safetensors": ("a.safetensors", reads(b"<html>" + b" " * 600), "web page"),
    "Git LFS": ("a.pth", reads(b"version https://git-lfs.github.com/spec/v1\n"), "Git LFS"),
    "empty": ("a.pt", reads(b""), "empty"),
    "zeros": ("a.pt", reads(bytes(5000)), "damaged"),
    "zip cut in half": ("a.pt", lambda p, ran: truncated(p, 0.5), "damaged"),
    "zip without its end": ("a.pt", lambda p, ran: truncated(p, 0.98), "damaged"),
    "legacy cut in half": ("a.pt", lambda p, ran: truncated(p, 0.5, legacy=True), "damaged"),
    "legacy without its end": ("a.pt", lambda p, ran: truncated(p, 0.99, legacy=True), "damaged"),
    "safetensors cut": ("a.safetensors", lambda p, ran: truncated(p, 0.9), "damaged"),
    "huge header": ("a.safetensors", reads(struct.pack("<Q", 2**60) + b"{}"), "damaged"),
    "huge shape": ("a.safetensors", reads(header(HUGE, 8)), "damaged"),
    "shape of nothing": ("a.pt", holds(swap(linear__weight=torch.zeros(10**9, 0))), "no elements"),
    "spread over one number": (
        "a.pt",
        holds(swap(linear__weight=torch.zeros(1).expand(10**7, 10**7))),
        "claims 100000000000000 numbers",
    ),
    "claims more than there is": ("a.pt", lambda p, ran: claimed(p, legacy=False), "damaged"),
    "claims more, legacy": ("a.pt", lambda p, ran: claimed(p, legacy=True), "damaged"),
    "compressed bomb": (
        "a.pt",
        lambda p, ran: rewritten(p, str, ("archive/data/99", bytes(10**7))),
        "entries would be",
    ),
    "entry that leaves the folder": ("a.pt", lambda p, ran: rewritten(p, str, ("../ran", b"ran")), "damaged"),
    "names that leave the folder": ("a.pt", lambda p, ran: rewritten(p, lambda name: f"../../{name}"), "damaged"),
    "absolute entry": ("a.pt", lambda p, ran: rewritten(p, str, (str(ran), b"ran")), "damaged"),
    "code beside the weights": ("a.pt", lambda p, ran: rewritten(p, str, ("archive/code/x.py", b"1/0")), LOADS),
    "zip of something else": ("a.pt", lambda p, ran: rewritten(p, lambda name: f"x/{name}.txt"), "damaged"),
    "not a number": ("a.pt", holds(poisoned("conv2.weight", float("nan"))), "first in conv2.weight"),
    "infinite": ("a.pt", holds(poisoned("bn1.running_mean", float("inf"))), "bn1.running_mean"),
    "too large for float32": (
        "a.pt",
        holds(swap(linear__bias=torch.tensor([1e300] * 3).double() * 1e300)),
        "linear.bias",
    ),
    "negative variance": ("a.pt", holds(poisoned("bn2.running_var", -1.0)), "negative variance"),
    "head of another shape": ("a.pt", holds(swap(linear__weight=torch.zeros(3, 17))), "3x17 in place of 3x16"),
    "no head": ("a.pt", holds({k: v for k, v in weights().items() if "linear" not in k}), "missing"),
    "extra weights": ("a.pt", holds(swap(a__weight=torch.ones(2))), "1 unexpected"),
    "another network": ("a.pt", holds(resnet()), "weights of cifar_resnet20"),
    "complex": ("a.pt", holds(swap(linear__bias=torch.zeros(3) * 1j)), "no plain array"),
    "sparse": ("a.pt", holds(swap(linear__bias=torch.zeros(3).to_sparse())), "no plain array"),
    "without content": ("a.pt", holds(swap(linear__bias=torch.zeros(3, device="meta"))), "no plain array"),
    "quantised": ("a.pt", lambda p, ran: quantised(p), "no plain array"),
    "a list": ("a.pt", holds([torch.ones(2)]), "list"),
    "a number among tensors": ("a.pt", holds(swap(epoch=3)), "'epoch' is a int"),
    "nothing in it": ("a.pt", holds({}), "empty"),
    "folder": ("a.pt", lambda p, ran: p.mkdir(), "no config.json"),
    "link to itself": ("a.pt", lambda p, ran: p.symlink_to("a.pt"), "no such file"),
    "link to nothing": ("a.pt", lambda p, ran: p.symlink_to("gone.pt"), "no such file"),
    "device": ("a.pt", lambda p, ran: p.symlink_to("/dev/zero"), "neither a file nor a folder"),
    "named pipe": ("a.pt", lambda p, ran: os.mkfifo(p), "neither a file nor a folder"),
    "TorchScript": ("a.pt", lambda p, ran: scripted(p), "TorchScript"),
    "exported": ("a.pt2", pickles(2), "exported program"),
    "saved on a graphics card": ("a.pt", lambda p, ran: on_cuda(p), LOADS),
    "link to weights": (
        "a.pt",
        lambda p, ran: (torch.save(weights(), p.parent / "b.pt"), p.symlink_to("b.pt")),
        LOADS,
    ),
}


@pytest.mark.parametrize("case", list(BROKEN))
def test_hostile_and_broken_checkpoints(tmp_path: Path, case: str) -> None:
    name, write, message = BROKEN[case]
    (tmp_path / "inner").mkdir()
    path, ran = tmp_path / "inner" / name, tmp_path / "ran"
    write(path, ran)
    before = sorted(tmp_path.rglob("*"))
    if message == LOADS:
        assert load_classifier(str(path), arch="small_cnn").parameters == 153
    else:
        error = refuse(path, arch=None if path.is_dir() else "small_cnn")
        assert message in error.message
    assert not ran.exists() and sorted(tmp_path.rglob("*")) == before


def test_allowing_code_does_not_open_pickles(tmp_path: Path) -> None:
    path, ran = tmp_path / "a.pt", tmp_path / "ran"
    for content in ({"a": Touch(ran)}, small_cnn((1, 8, 8), 3)):
        torch.save(content, path)
        error = refuse(path, arch="small_cnn", allow_code=True)
        assert "run code" in error.message and "safetensors" in error.hint
    assert not ran.exists()


def test_missing_paths_name_the_nearest(tmp_path: Path) -> None:
    torch.save(weights(), tmp_path / "weights.pt")
    assert "weights.pt" in refuse(tmp_path / "weihgts.pt", arch="small_cnn").hint
    assert "fetched" in refuse("org/no-such-model", arch="small_cnn").hint


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 3)

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.relu(self.norm(self.conv(pixels))).mean((2, 3)))
        return logits


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    plain = Plain().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(plain), folder / "script.pt")
        torch.jit.save(torch.jit.trace(plain, pixels()), folder / "trace.pt")
        batch = ({0: torch.export.Dim("b")},)
        torch.export.save(torch.export.export(plain, (pixels(),), dynamic_shapes=batch), folder / "net.pt2")
    torch.save(plain.state_dict(), folder / "weights.pt")
    return folder


@pytest.mark.parametrize(
    ("name", "family"), [("script.pt", "TorchScript"), ("trace.pt", "TorchScript"), ("net.pt2", "exported program")]
)
def test_programs_are_run_only_where_allowed(programs: Path, name: str, family: str) -> None:
    path = programs / name
    error = refuse(path)
    assert "run code" in error.message and "--allow-code" in error.hint
    assert "own architecture" in refuse(path, allow_code=True, arch="small_cnn").message
    found = load_classifier(str(path), allow_code=True, mean=(0.5,), std=(0.25,))
    assert (found.family, found.shape, found.mean, found.parameters) == (family, None, (0.5,), 63)
    plain = Plain().eval()
    plain.load_state_dict(torch.load(programs / "weights.pt", weights_only=True))
    torch.testing.assert_close(found.module(pixels()), plain((pixels() - 0.5) / 0.25))
    assert check_classifier(found, pixels()).classes == 3
    assert check_classifier(found, pixels(), dtype="bfloat16" if name == "script.pt" else "float32").classes == 3
    assert any("was run" in note for note in found.notes)
    assert found.sha256 != load_classifier(str(path), allow_code=True).sha256


def test_broken_programs(tmp_path: Path, programs: Path) -> None:
    for name in ("script.pt", "net.pt2"):
        with zipfile.ZipFile(programs / name) as old, zipfile.ZipFile(tmp_path / name, "w") as new:
            for entry in old.namelist():
                if not entry.endswith(("data.pkl", "model.json")):
                    new.writestr(entry, old.read(entry))
        assert "cannot be loaded" in refuse(tmp_path / name, allow_code=True).message


def factory_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, body: str) -> None:
    (tmp_path / f"{name}.py").write_text("import torch\nfrom torch import nn\n" + body)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


NET = """
def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))

def ready(path):
    model = net()
    model.load_state_dict({k[2:]: v for k, v in torch.load(path, weights_only=True)["x"].items()})
    return model

class Holder:
    net = staticmethod(net)
"""


def linear() -> State:
    return {"1.weight": torch.arange(192.0).reshape(3, 64) / 192, "1.bias": torch.zeros(3)}


@pytest.mark.parametrize("name", ["net", "Holder.net", "ready"])
def test_factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    factory_module(tmp_path, monkeypatch, "made_here", NET)
    ready = {"x": {f"a.{key}": value for key, value in linear().items()}}
    torch.save(ready if name == "ready" else linear(), tmp_path / "a.pt")
    options = {"factory": f"made_here:{name}", "allow_code": True}
    before, state = list(sys.path), torch.random.get_rng_state()
    found = load_classifier("a.pt", **options)
    assert sys.path == before and torch.equal(torch.random.get_rng_state(), state)
    assert found.family == f"factory made_here:{name}" and found.shape is None and found.parameters == 195
    images = pixels()
    torch.testing.assert_close(found.module(images), images.flatten(1) @ linear()["1.weight"].T)
    assert check_classifier(found, images).classes == 3
    (tmp_path / "made_here.py").write_text((tmp_path / "made_here.py").read_text() + "\n# another version\n")
    assert load_classifier("a.pt", **options).sha256 != found.sha256


def test_a_name_of_very_many_prefixes_is_refused_like_any_other(tmp_path: Path) -> None:
    torch.save({"model." * 3000 + key: value for key, value in linear().items()}, tmp_path / "a.pt")
    with pytest.raises(InputError):
        load_classifier(str(tmp_path / "a.pt"), arch="mnist_lenet")


def test_weights_for_a_factory_lose_only_a_prefix_that_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory_module(tmp_path, monkeypatch, "made_twice", NET)
    torch.save({f"model.{key}": value.double() for key, value in linear().items()}, tmp_path / "a.pt")
    with pytest.raises(InputError) as caught:
        load_classifier("a.pt", factory="made_twice:net", allow_code=True)
    assert "missing" in caught.value.message
    factory_module(tmp_path, monkeypatch, "made_twice", NET + "def bare():\n    return nn.Linear(64, 3)\n")
    bare = {f"module.1.{key[2:]}": value.double() for key, value in linear().items()}
    torch.save(bare, tmp_path / "a.pt")
    found = load_classifier("a.pt", factory="made_twice:bare", allow_code=True)
    assert {value.dtype for value in found.module.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("factory", "body", "message"),
    [
        ("bad_one", "", "not written as module:callable"),
        (":net", "", "not written as module:callable"),
        ("bad_one:", "", "not written as module:callable"),
        ("bad_none:net", None, "cannot be imported: ModuleNotFoundError"),
        ("bad_one:net", "x = 1", "was not found"),
        ("bad_one:net", "net = 1", "cannot be called"),
        ("bad_one:net", "raise SystemExit('stop')", "cannot be imported: SystemExit: stop"),
        ("bad_one:net", "net = (", "cannot be imported: SyntaxError"),
        ("bad_one:net", "def net():\n    raise ValueError('no luck')", "fails with ValueError: no luck"),
        ("bad_one:net", "def net():\n    exit()", "fails with SystemExit"),
        ("bad_one:net", "def net(a, b):\n    pass", "needs the arguments a, b"),
        ("bad_one:net", "def net(*, a):\n    pass", "needs the arguments a"),
        ("bad_one:net", "net = dict.fromkeys", "returns a"),
        ("bad_one:net", "def net():\n    return {}", "returns a dict"),
        ("bad_one:net", "def net():\n    return nn.Linear(2, 3)", "weight is 3x64 in place of 3x2"),
        (
            "bad_one:net",
            "def net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 4))",
            "3x64 in place of 4x64",
        ),
    ],
)
def test_factories_that_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: str, body: str | None, message: str
) -> None:
    torch.save(linear(), tmp_path / "a.pt")
    if body is not None:
        factory_module(tmp_path, monkeypatch, "bad_one", body)
    before = list(sys.path)
    error = refuse(tmp_path / "a.pt", factory=factory, allow_code=True)
    assert message in error.message and factory in error.where and sys.path == before


def test_a_factory_runs_nothing_unless_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    factory_module(tmp_path, monkeypatch, "not_run", f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    torch.save(linear(), tmp_path / "a.pt")
    assert "--allow-code" in refuse(tmp_path / "a.pt", factory="not_run:net").hint
    assert not (tmp_path / "ran").exists()


def hub_folder(folder: Path, processor: dict[str, Any] | None = None, **config: Any) -> Path:
    hub = transformers()
    values = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    values |= {"image_size": 8, "patch_size": 4, "num_labels": 3}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        hub.ViTForImageClassification(hub.ViTConfig(**values, **config)).save_pretrained(folder)
    if processor is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


VIT = {"do_normalize": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.6, 0.7], "do_rescale": True}
VIT |= {"rescale_factor": 1 / 255, "size": {"height": 224, "width": 224}, "image_processor_type": "ViTImageProcessor"}


def hub_logits(folder: Path, pixels: Tensor) -> Tensor:
    model = transformers().AutoModelForImageClassification.from_pretrained(folder, local_files_only=True).eval()
    with torch.inference_mode():
        logits: Tensor = model(pixel_values=pixels).logits
    return logits


def test_a_vision_transformer(tmp_path: Path) -> None:
    folder = hub_folder(tmp_path, VIT, id2label={0: "cat", 1: "dog", 2: "axolotl"})
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    config = json.loads((folder / "config.json").read_text())
    code = {"auto_map": {"AutoConfig": "evil.C", "AutoModelForImageClassification": "evil.M"}}
    (folder / "config.json").write_text(json.dumps(config | code))
    found = load_classifier(str(folder))
    assert (found.family, found.shape, found.class_names) == ("vit", (3, 8, 8), ("cat", "dog", "axolotl"))
    assert found.mean == pytest.approx((0.5, 0.4, 0.3)) and found.std == pytest.approx((0.5, 0.6, 0.7))
    images = pixels(2, 3, 8, 8)
    seen = (images - torch.tensor([0.5, 0.4, 0.3])[:, None, None]) / torch.tensor([0.5, 0.6, 0.7])[:, None, None]
    torch.testing.assert_close(found.module(images), hub_logits(folder, seen))
    assert check_classifier(found, images, labels=[0, 2]).classes == 3
    assert not (tmp_path / "ran").exists()
    own = load_classifier(str(folder), mean=(0.1,) * 3, std=(1.0,) * 3)
    assert own.mean == (0.1,) * 3 and own.sha256 != found.sha256
    assert "names its own" in refuse(folder, arch="resnet50").message


def test_a_residual_network_of_the_hub(tmp_path: Path) -> None:
    hub = transformers()
    config = hub.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", num_labels=2, num_channels=1
    )
    with torch.random.fork_rng(devices=[]):
        hub.ResNetForImageClassification(config).save_pretrained(tmp_path)
    nested = {"image_processor": {"do_normalize": False, "crop_size": {"shortest_edge": 32}, "size": 64}}
    (tmp_path / "processor_config.json").write_text(json.dumps(nested))
    found = load_classifier(str(tmp_path))
    assert (found.family, found.shape, found.mean, found.class_names) == ("resnet", (1, 32, 32), (), ())
    assert check_classifier(found, pixels(2, 1, 32, 32)).classes == 2


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({}, lambda x: (x - 0.5) / 0.25),
        ({"do_rescale": False}, lambda x: (255 * x - 0.5) / 0.25),
        ({"rescale_factor": 1 / 127.5, "rescale_offset": True}, lambda x: (2 * x - 1 - 0.5) / 0.25),
        ({"do_normalize": False}, lambda x: x),
        ({"do_normalize": False, "rescale_factor": 1 / 127.5, "rescale_offset": True}, lambda x: 2 * x - 1),
        ({"image_mean": 0.5, "image_std": 0.25}, lambda x: (x - 0.5) / 0.25),
    ],
)
def test_what_a_processor_does_to_pixels(
    tmp_path: Path, change: dict[str, Any], seen: Callable[[Tensor], Tensor]
) -> None:
    folder = hub_folder(tmp_path, VIT | {"image_mean": [0.5] * 3, "image_std": [0.25] * 3} | change)
    found, images = load_classifier(str(folder)), pixels(2, 3, 8, 8)
    torch.testing.assert_close(found.module(images), hub_logits(folder, seen(images)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (None, "does not say how pixels are standardised"),
        ({"size": 8}, "does not say how pixels are standardised"),
        (VIT | {"image_mean": [0.5]}, "image_mean is [0.5], not 3 finite numbers"),
        (VIT | {"image_mean": ["a", "b", "c"]}, "image_mean"),
        (VIT | {"image_std": [1.0, 1.0, 0.0]}, "not above 0"),
        (VIT | {"image_std": [1.0, float("nan"), 1.0]}, "image_std"),
        (VIT | {"rescale_factor": "1/255"}, "rescale_factor"),
        (VIT | {"rescale_factor": [1 / 255, 1 / 255]}, "not 1 finite numbers"),
        (VIT | {"rescale_factor": 0}, "not above 0"),
        (VIT | {"do_flip_channel_order": True}, "order of the channels"),
        (VIT | {"include_top": True}, "twice"),
    ],
)
def test_processors_that_cannot_be_a_layer(tmp_path: Path, processor: dict[str, Any] | None, message: str) -> None:
    error = refuse(hub_folder(tmp_path, processor))
    assert message in error.message and "preprocessor_config.json" in error.where
    if processor in (None, {"size": 8}):
        assert load_classifier(str(tmp_path), mean=(0.5,) * 3, std=(0.5,) * 3).mean == (0.5,) * 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 10**9}, "larger than 1000"),
        ({"hidden_size": 10**9}, "larger than"),
        ({"hidden_size": 2**20}, "parameters; the weights have"),
        ({"hidden_size": 32}, ""),
        ({"num_hidden_layers": 2}, "lack"),
        ({"num_hidden_layers": "two"}, "cannot be loaded"),
        ({"model_type": "wav2vec2"}, "cannot be loaded"),
        ({"model_type": "no-such-family"}, "cannot be loaded"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "quantised"),
        ({"_attn_implementation": "someone/kernel"}, "code from elsewhere"),
        ({"inner": {"attn_implementation": "someone/kernel"}}, "code from elsewhere"),
        ({"use_pretrained_backbone": True}, "weights from elsewhere"),
        ({"transformers_weights": "other.safetensors"}, "in place of the one that is checked"),
        ({"transformers_weights": ""}, "in place of the one that is checked"),
        ({"inner": {"parts": [{"transformers_weights": "other.safetensors"}]}}, "in place of the one that is checked"),
        ({"configuration_files": ["config.4.0.0.json"]}, "in place of the one that is checked"),
    ],
)
def test_configurations_that_do_not_fit(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder = hub_folder(tmp_path, VIT)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    assert message in refuse(folder).message


def test_no_other_file_of_weights_is_loaded(tmp_path: Path) -> None:
    folder = hub_folder(tmp_path, VIT)
    state = torch.load(io.BytesIO(saved(hub_state(folder))), weights_only=True)
    save_file(
        {name: value + 1 for name, value in state.items()}, folder / "other.safetensors", metadata={"format": "pt"}
    )
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.4.0.0.json").write_text(json.dumps(config | {"transformers_weights": "other.safetensors"}))
    for change in ({"transformers_weights": "other.safetensors"}, {"configuration_files": ["config.4.0.0.json"]}):
        (folder / "config.json").write_text(json.dumps(config | change))
        # transformers itself would follow either.
        model = transformers().AutoModelForImageClassification.from_pretrained(folder, local_files_only=True)
        assert torch.equal(model.state_dict()["classifier.bias"], state["classifier.bias"] + 1)
        assert next(iter(change)) in refuse(folder).message


def test_other_faults_of_a_folder(tmp_path: Path) -> None:
    folder = hub_folder(tmp_path, VIT)
    (folder / "adapter_config.json").write_text("{}")
    assert "elsewhere" in refuse(folder).message
    (folder / "adapter_config.json").unlink()
    (folder / "preprocessor_config.json").write_text("[1]")
    assert "not an object" in refuse(folder).message
    (folder / "preprocessor_config.json").write_text(json.dumps(VIT))
    state = torch.load(io.BytesIO(saved(hub_state(folder))), weights_only=True)
    state["classifier.bias"][1] = float("nan")
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    assert "classifier.bias" in refuse(folder).message
    del state["classifier.bias"], state["classifier.weight"]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    assert "trained head" in refuse(folder).hint
    (folder / "model.safetensors").unlink()
    torch.save({"a": Touch(tmp_path / "ran")}, folder / "pytorch_model.bin")
    assert "run code" in refuse(folder).message and not (tmp_path / "ran").exists()


def hub_state(folder: Path) -> State:
    from safetensors.torch import load_file

    loaded: State = load_file(folder / "model.safetensors")
    return loaded


def saved(state: State) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def wrapped(module: nn.Module, **changes: Any) -> Classifier:
    values: dict[str, Any] = {"reference": "net", "family": "planted", "sha256": "0" * 64, "shape": (1, 8, 8)}
    values |= {"parameters": 0, "mean": (), "std": (), "class_names": (), "notes": ()}
    return Classifier(module=module, **(values | changes))


class Planted(nn.Module):
    """A linear classifier with one fault."""

    def __init__(self, fault: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.fault = fault
        self.register_buffer("weight", torch.rand(64, 3, generator=torch.Generator().manual_seed(2)))
        self.eval()

    def forward(self, pixels: Tensor) -> object:
        return self.fault(pixels.flatten(1) @ self.get_buffer("weight").to(pixels.dtype))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda x: x - 0.1 * x.mean(0), "depend on the other images"),
        (lambda x: x - 0.01 * x.std(0) if len(x) > 1 else x, "depend on the other images"),
        (lambda x: x * torch.arange(1, len(x) + 1)[:, None], "depend on the other images"),
        (lambda x: x + torch.randn_like(x), "random numbers"),
        (lambda x: nn.functional.dropout(x), "random numbers"),
        (lambda x: x / 0 * 0, "not finite"),
        (lambda x: x + float("inf"), "not finite"),
        (lambda x: x[:, :1], "at least two logits"),
        (lambda x: x[:, 0], "at least two logits"),
        (lambda x: x.argmax(1)[:, None].expand(-1, 3), "at least two logits"),
        (lambda x: x[:1], "at least two logits"),
        (lambda x: x.T, "at least two logits"),
        (lambda x: (x, x), "returns a tuple"),
        (lambda x: {"logits": x}, "returns a dict"),
        (lambda x: x @ torch.ones(5, 5), "it fails"),
    ],
)
@pytest.mark.parametrize("count", [1, 4])
def test_planted_faults(fault: Callable[[Tensor], object], message: str, count: int) -> None:
    with torch.random.fork_rng(devices=[]), pytest.raises(InputError) as caught:
        # Two draws of dropout over so few logits may be the same.
        torch.manual_seed(0)
        check_classifier(wrapped(Planted(fault)), pixels(count))
    assert message in caught.value.message and caught.value.where == "net" and caught.value.hint


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_faultless_classifier_in_other_numbers(dtype: str) -> None:
    module = Planted(lambda x: x)
    before = torch.random.get_rng_state()
    assert check_classifier(wrapped(module), pixels(20), labels=[0, 1, 2] * 6, dtype=dtype).classes == 3
    assert module.weight.dtype == torch.float32
    assert torch.equal(torch.random.get_rng_state(), before)


def test_training_mode_and_its_batches_are_found() -> None:
    net = small_cnn((1, 8, 8), 3)
    with pytest.raises(InputError, match="training mode"):
        check_classifier(wrapped(net), pixels())
    net.eval()
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.track_running_stats, part.running_mean, part.running_var = False, None, None
    with pytest.raises(InputError, match="depend on the other images"):
        check_classifier(wrapped(net), pixels())


def test_images_and_labels_that_do_not_fit() -> None:
    good = wrapped(Planted(lambda x: x))
    cases: list[tuple[Classifier, Tensor, list[int], str]] = [
        (good, torch.zeros(2, 8, 8), [], "not (b, c, h, w)"),
        (good, torch.zeros(0, 1, 8, 8), [], "not (b, c, h, w)"),
        (good, torch.zeros(2, 3, 32, 32), [], "3x32x32 (channels, height, width); planted takes 1x8x8"),
        (good, torch.full((2, 1, 8, 8), float("nan")), [], "not a finite number"),
        (good, pixels(), [0, 3, 1], "Label 3 of image 1"),
        (good, pixels(), [0, -1, 1], "Label -1 of image 1"),
        (wrapped(Planted(lambda x: x), shape=None), torch.zeros(2, 1, 9, 9), [], "on images of 3x1x9x9 it fails"),
        (wrapped(Planted(lambda x: x), shape=None, mean=(0.5,) * 3, std=(1.0,) * 3), pixels(), [], "1 channels"),
    ]
    for classifier, images, labels, message in cases:
        with pytest.raises(InputError) as caught:
            check_classifier(classifier, images, labels=labels)
        assert message in caught.value.message and caught.value.where
    with pytest.raises(InputError) as caught:
        check_classifier(good, pixels(), labels=[1, 2, 3])
    assert "from 0" in caught.value.hint
