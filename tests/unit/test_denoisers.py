"""Is a loaded denoiser the one that was saved, and is refused what is not one, or would run code?"""

import json
import os
import pickle
import shutil
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from probes.core.errors import InputError
from probes.core.library_imports import transformers
from probes.core.progress import Silent
from probes.generators.attacks.denoiser import Request, score_denoiser
from probes.generators.denoisers import load_denoiser
from probes.generators.diffusion import PREDICTIONS, cosine, from_betas, linear
from probes.generators.generative_networks import MlpDenoiser, MlpGenerator, fresh_denoiser

pytestmark = pytest.mark.usefixtures("one_thread")

# Every worker collects this file, one runs it: the seconds of the import are left to that one.
if find_spec("diffusers") is None:
    pytest.skip("the extra `privacy` is not installed", allow_module_level=True)

SIZES: dict[str, Any] = {
    "sample_size": 8,
    "in_channels": 1,
    "out_channels": 1,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
    "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    "norm_num_groups": 4,
}
X = torch.linspace(-1, 1, 128).view(2, 1, 8, 8)
T = torch.tensor([3, 700])


@pytest.fixture(scope="module")
def package() -> Any:
    transformers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import diffusers

        assert diffusers.UNet2DModel and diffusers.DDPMScheduler
    return diffusers


def unet(package: Any, **settings: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return package.UNet2DModel(**{**SIZES, **settings}).eval()


@pytest.fixture(scope="module")
def saved(package: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a pipeline's folder as diffusers writes it."""
    folder = tmp_path_factory.mktemp("pipeline")
    package.DDPMPipeline(unet(package), package.DDPMScheduler()).save_pretrained(folder)
    return folder


@pytest.fixture
def pipeline(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def change(path: Path, **settings: Any) -> None:
    content = json.loads(path.read_text())
    content = {key: value for key, value in {**content, **settings}.items() if value != "away"}
    path.write_text(json.dumps(content))


def refuse(path: Path, said: str, **options: Any) -> InputError:
    with pytest.raises(InputError, match=said) as caught:
        load_denoiser(path, **options)
    assert caught.value.where
    return caught.value


@pytest.mark.parametrize("prediction", PREDICTIONS)
@pytest.mark.parametrize("scheduler", ["DDPMScheduler", "DDIMScheduler"])
def test_a_pipeline_is_the_one_that_was_saved(package: Any, tmp_path: Path, prediction: str, scheduler: str) -> None:
    net = unet(package)
    steps = getattr(package, scheduler)(prediction_type=prediction, beta_schedule="squaredcos_cap_v2")
    package.DDPMPipeline(net, steps).save_pretrained(tmp_path)
    state = torch.get_rng_state()
    found = load_denoiser(tmp_path)
    assert torch.equal(state, torch.get_rng_state())
    with torch.no_grad():
        raw = net(X, T).sample
        torch.testing.assert_close(found.module(X, T), raw, rtol=1e-6, atol=1e-6)
        noise = found.epsilon(X, T)
    assert found.alphas_bar == pytest.approx(steps.alphas_cumprod.numpy(), rel=1e-4)
    kept = steps.alphas_cumprod[T].view(-1, 1, 1, 1)
    truth = {
        "epsilon": raw,
        "v_prediction": kept.sqrt() * raw + (1 - kept).sqrt() * X,
        "sample": (X - kept.sqrt() * raw) / (1 - kept).sqrt(),
    }
    # Their schedule is a product of float32.
    torch.testing.assert_close(noise, truth[prediction], rtol=1e-3, atol=1e-4)
    assert (found.prediction, found.shape, found.family) == (prediction, (1, 8, 8), "UNet2DModel")
    assert found.parameters == sum(weight.numel() for weight in net.parameters())
    assert not any(part.training for part in found.module.modules())
    assert not any(weight.requires_grad or weight.is_meta for weight in found.module.parameters())


@pytest.mark.parametrize("kind", ["linear", "scaled_linear", "sigmoid", "squaredcos_cap_v2"])
@pytest.mark.parametrize("zero", [False, True])
def test_schedules_are_those_of_diffusers(package: Any, pipeline: Path, kind: str, zero: bool) -> None:
    settings: dict[str, Any] = {"beta_schedule": kind, "num_train_timesteps": 300, "rescale_betas_zero_snr": zero}
    change(pipeline / "scheduler" / "scheduler_config.json", **settings)
    theirs = package.DDPMScheduler(**settings).alphas_cumprod.double().numpy()
    # Theirs is a product of float32, and 0 or a little below at the end of a rescaled schedule.
    assert load_denoiser(pipeline).alphas_bar[:-1] == pytest.approx(theirs[:-1], rel=2e-3, abs=1e-6)


def test_the_hash_covers_weights_schedule_prediction_and_settings(pipeline: Path) -> None:
    scheduler, config = pipeline / "scheduler" / "scheduler_config.json", pipeline / "unet" / "config.json"
    weights = pipeline / "unet" / "diffusion_pytorch_model.safetensors"
    hashes = [load_denoiser(pipeline).sha256, load_denoiser(pipeline).sha256]
    assert hashes[0] == hashes[1]
    change(scheduler, beta_end=0.03)
    hashes.append(load_denoiser(pipeline).sha256)
    hashes.append(load_denoiser(pipeline, prediction="v_prediction").sha256)
    change(config, freq_shift=1)
    hashes.append(load_denoiser(pipeline).sha256)
    tensors = load_file(weights)
    tensors["conv_in.bias"][0] += 1
    save_file(tensors, weights)
    hashes.append(load_denoiser(pipeline).sha256)
    assert len(set(hashes)) == 5


def test_weights_of_older_releases_and_of_torch_save_are_read(package: Any, pipeline: Path) -> None:
    folder = pipeline / "unet"
    tensors = load_file(folder / "diffusion_pytorch_model.safetensors")
    olds = {".to_q.": ".query.", ".to_k.": ".key.", ".to_v.": ".value.", ".to_out.0.": ".proj_attn."}
    renamed = {}
    for name, value in tensors.items():
        for new, old in olds.items():
            name = name.replace(new, old)
        renamed[name] = value
    assert renamed.keys() != tensors.keys()
    (folder / "diffusion_pytorch_model.safetensors").unlink()
    torch.save(renamed, folder / "diffusion_pytorch_model.bin")
    change(pipeline / "scheduler" / "scheduler_config.json", prediction_type="away", predict_epsilon=False)
    found = load_denoiser(pipeline)
    assert found.prediction == "sample"
    with torch.no_grad():
        torch.testing.assert_close(found.module(X, T), unet(package)(X, T).sample, rtol=1e-6, atol=1e-6)


def test_other_networks_of_the_class_are_the_ones_that_were_saved(package: Any, tmp_path: Path) -> None:
    made: list[dict[str, Any]] = [
        {"resnet_time_scale_shift": "scale_shift", "add_attention": False, "center_input_sample": True},
        {"sample_size": [8, 8], "act_fn": "gelu", "mid_block_type": None},
    ]
    for number, settings in enumerate(made):
        net = unet(package, **settings)
        net.save_pretrained(tmp_path / str(number))
        found = load_denoiser(tmp_path / str(number), schedule="linear")
        with torch.no_grad():
            torch.testing.assert_close(found.module(X, T), net(X, T).sample, rtol=1e-6, atol=1e-6)


def test_a_network_of_continuous_times_is_refused(package: Any, tmp_path: Path) -> None:
    # It takes the logarithm of a time, and has nothing to say about step 0.
    unet(package, time_embedding_type="fourier").save_pretrained(tmp_path)
    refuse(tmp_path, "no finite numbers", schedule="linear")


def test_a_network_alone_needs_a_schedule(pipeline: Path, tmp_path: Path) -> None:
    assert "--schedule" in refuse(pipeline / "unet", "noise schedule").hint
    found = load_denoiser(pipeline / "unet", schedule="cosine", prediction="v_prediction")
    assert found.alphas_bar.tolist() == cosine().tolist() and found.prediction == "v_prediction"
    by_file = load_denoiser(pipeline / "unet", schedule=str(pipeline / "scheduler" / "scheduler_config.json"))
    assert by_file.alphas_bar.tolist() == linear().tolist()
    assert load_denoiser(pipeline).sha256 == by_file.sha256
    (tmp_path / "betas.json").write_text("[0.1, 0.5, 0.9]")
    found = load_denoiser(pipeline / "unet", schedule=str(tmp_path / "betas.json"))
    assert found.alphas_bar.tolist() == from_betas([0.1, 0.5, 0.9]).tolist() and "betas" in found.notes[-1]
    refuse(pipeline / "unet", "neither", schedule="liner")
    refuse(pipeline, "schedule of its own", schedule="linear")
    refuse(pipeline, "names its own", arch="mlp-denoiser")


def test_the_shape_is_that_of_the_points(pipeline: Path) -> None:
    assert load_denoiser(pipeline, shape=(1, 8, 8)).shape == (1, 8, 8)
    refuse(pipeline, "1x8x8", shape=(1, 16, 16))
    refuse(pipeline, "3x8x8", shape=(3, 8, 8))
    refuse(pipeline, "64", shape=(64,))
    change(pipeline / "unet" / "config.json", sample_size=None)
    assert load_denoiser(pipeline, shape=(1, 16, 16)).shape == (1, 16, 16)
    refuse(pipeline, "shape of its points")
    refuse(pipeline, "fails on points of 1x7x7", shape=(1, 7, 7))


INDEX = [
    ({"unet": ["diffusers", "UNet2DConditionModel"]}, "UNet2DConditionModel"),
    ({"unet": ["pipeline_of_a_stranger", "UNet2DModel"]}, "stranger"),
    ({"unet": "away"}, "None"),
    ({"vqvae": ["diffusers", "VQModel"]}, "vqvae"),
    ({"scheduler": ["diffusers", "ScoreSdeVeScheduler"]}, "ScoreSdeVeScheduler"),
    ({"scheduler": "away"}, "scheduler"),
]


@pytest.mark.parametrize(("settings", "said"), INDEX)
def test_other_pipelines_are_refused(pipeline: Path, settings: dict[str, Any], said: str) -> None:
    change(pipeline / "model_index.json", **settings)
    assert "UNet2DModel" in refuse(pipeline, said).hint


CONFIG = [
    ({"_class_name": "UNet2DConditionModel"}, "UNet2DConditionModel"),
    ({"num_class_embeds": 10}, "conditional"),
    ({"class_embed_type": "timestep"}, "conditional"),
    ({"out_channels": 2}, "gives 2"),
    ({"in_channels": 10**6, "out_channels": 10**6}, "in_channels"),
    ({"block_out_channels": [8, 10**9]}, "block_out_channels"),
    ({"block_out_channels": [20000, 40000]}, "parameters"),
    ({"block_out_channels": [8] * 1000}, "block_out_channels"),
    ({"layers_per_block": 10**6}, "layers_per_block"),
    ({"layers_per_block": 2}, "missing"),
    ({"block_out_channels": [8, 32]}, "of another shape|parameters"),
    ({"norm_num_groups": 3}, "cannot be built"),
    ({"down_block_types": ["DownBlock2D", "NoSuchBlock"]}, "cannot be built"),
    ({"dropout": {"a": 1}}, "dropout"),
    ({"norm_eps": float("nan")}, "norm_eps"),
]


@pytest.mark.parametrize(("settings", "said"), CONFIG)
def test_networks_that_the_weights_are_not_of_are_refused(pipeline: Path, settings: Any, said: str) -> None:
    change(pipeline / "unet" / "config.json", **settings)
    refuse(pipeline, said)


@pytest.mark.parametrize(("settings", "said"), [
    ({"prediction_type": "flow_prediction"}, "flow_prediction"),
    ({"beta_schedule": "laplace"}, "laplace"),
    ({"beta_start": "away"}, "None"),
    ({"trained_betas": [0.1] * 10 + [-1]}, "-1"),
])  # fmt: skip
def test_other_schedules_are_refused(pipeline: Path, settings: Any, said: str) -> None:
    change(pipeline / "scheduler" / "scheduler_config.json", **settings)
    assert "scheduler_config.json" in refuse(pipeline, said).where


def test_settings_that_are_not_known_are_told(pipeline: Path) -> None:
    change(pipeline / "unet" / "config.json", magic=1)
    assert "magic" in load_denoiser(pipeline).notes[0]


@pytest.mark.parametrize(
    "name", ["unet/config.json", "scheduler/scheduler_config.json", "unet/diffusion_pytorch_model.safetensors"]
)
def test_folders_that_lack_something_or_lead_elsewhere_are_refused(pipeline: Path, name: str) -> None:
    outside = pipeline.parent / "outside"
    shutil.move(pipeline / name, outside)
    refuse(pipeline, Path(name).name)
    (pipeline / name).symlink_to(outside)
    refuse(pipeline, "leaves the model's folder")


def test_links_within_the_cache_of_the_hub_are_followed(saved: Path, tmp_path: Path) -> None:
    blobs, revision = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    for file in [file for file in saved.rglob("*") if file.is_file()]:
        place = revision / file.relative_to(saved)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, blobs / file.name)
        place.symlink_to(blobs / file.name)
    assert load_denoiser(revision).sha256 == load_denoiser(saved).sha256


def test_damaged_weights_are_refused(pipeline: Path) -> None:
    weights = pipeline / "unet" / "diffusion_pytorch_model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-5])
    refuse(pipeline, "damaged")
    weights.write_bytes(whole)
    broken = load_file(weights)
    broken["conv_in.bias"] = torch.full_like(broken["conv_in.bias"], float("nan"))
    save_file(broken, weights)
    refuse(pipeline, "not finite")


def test_without_diffusers_the_panel_says_how_to_get_it(pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", None)
    assert "privacy" in refuse(pipeline, "needs that package").hint


def test_attacks_run_on_a_network_of_diffusers(pipeline: Path) -> None:
    model = load_denoiser(pipeline)
    points = np.random.default_rng(0).uniform(-1, 1, (3, 1, 8, 8)).astype(np.float32)
    requests = [Request(name, 50) for name in ("loss", "sima", "gradnorm")]
    found = {}
    for batch in (2, 64):
        found[batch] = score_denoiser(
            model, points, requests, seed=0, draws=2, batch=batch, device="cpu", dtype="float32", cache=None,
            progress=Silent(), label="test",
        )  # fmt: skip
    for request in requests:
        assert np.isfinite(found[2][request]).all()
        assert found[2][request] == pytest.approx(found[64][request], rel=1e-3)


FLAT = torch.linspace(-1, 1, 128).view(2, 64)


def small(seed: int = 0) -> MlpDenoiser:
    return fresh_denoiser((64,), hidden=16, layers=2, seed=seed)


def assert_is(path: Path, net: nn.Module, **options: Any) -> Any:
    found = load_denoiser(path, **{"schedule": "linear", **options})
    with torch.no_grad():
        torch.testing.assert_close(found.module(FLAT, T), net(FLAT, T), rtol=1e-6, atol=1e-6)
    return found


def prefixed(net: nn.Module, prefix: str) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in net.state_dict().items()}


def test_weights_by_name_are_read_from_every_layout(tmp_path: Path) -> None:
    net, other, path = small(), small(1), tmp_path / "weights.pt"
    found = []
    layouts: list[tuple[Any, str]] = [
        (net.state_dict(), ""),
        ({"state_dict": prefixed(net, "module."), "epoch": 3}, "epoch"),
        ({"net_model": prefixed(other, "module."), "ema_model": prefixed(net, "module."), "step": 7}, "averaged"),
        ({"module_state_dict": prefixed(net, "_module."), "privacy_accountant_state_dict": {"history": []}}, ""),
        ({"ema": {"n_averaged": torch.tensor(3), **prefixed(net, "module.")}, "model": other.state_dict()}, "ema"),
        (prefixed(net, "_orig_mod.module."), ""),
    ]
    for content, told in layouts:
        torch.save(content, path)
        loaded = assert_is(path, net, arch="mlp-denoiser")
        assert told in " ".join(loaded.notes)
        found.append(loaded.sha256)
    save_file(net.state_dict(), tmp_path / "weights.safetensors")
    found.append(assert_is(tmp_path / "weights.safetensors", net, arch="mlp-denoiser").sha256)
    assert len(set(found)) == 1
    loaded = assert_is(path, net)
    assert loaded.shape == (64,) and loaded.family == "mlp-denoiser"
    assert load_denoiser(path, schedule="cosine").sha256 != loaded.sha256


class Touch:
    """An object whose pickle runs a command when an ordinary reader opens it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, (f"touch {self.path}",)


def test_what_would_run_code_is_refused_unopened(pipeline: Path, tmp_path: Path) -> None:
    mark, path = tmp_path / "touched", tmp_path / "weights.pt"
    torch.save({"state_dict": small().state_dict(), "more": Touch(mark)}, path)
    refuse(path, "run code", schedule="linear", arch="mlp-denoiser")
    path.write_bytes(pickle.dumps(Touch(mark)))
    refuse(path, "refused|damaged", schedule="linear", arch="mlp-denoiser")
    tensors = load_file(pipeline / "unet" / "diffusion_pytorch_model.safetensors")
    (pipeline / "unet" / "diffusion_pytorch_model.safetensors").unlink()
    torch.save({**tensors, "conv_in.weight": Touch(mark)}, pipeline / "unet" / "diffusion_pytorch_model.bin")
    refuse(pipeline, "run code")
    refuse(path, "not run unless", schedule="linear", factory="no_such_module:net")
    assert not mark.exists()


def test_files_that_hold_no_denoiser_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    refuse(tmp_path / "nothing.pt", "no such file", schedule="linear")
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    refuse(path, "LFS", schedule="linear")
    torch.save([1, 2], path)
    refuse(path, "a list", schedule="linear")
    torch.save({"a": torch.zeros(2)}, path)
    assert "mlp-denoiser" in refuse(path, "do not say which network", schedule="linear").hint
    torch.save(MlpGenerator((64,)).state_dict(), path)
    refuse(path, "fails on points|returns", schedule="linear", arch="mlp-generator")
    torch.save(small().state_dict(), path)
    refuse(path, "noise schedule")
    refuse(path, "epsilom", schedule="linear", prediction="epsilom")
    refuse(path, "wrong", schedule="linear", arch="wrong")
    refuse(path, "100", schedule="linear", shape=(100,))
    refuse(path, "Both", schedule="linear", arch="mlp-denoiser", factory="a:b", allow_code=True)
    (tmp_path / "folder").mkdir()
    refuse(tmp_path / "folder", "config.json")


def test_wrappers_without_end_are_refused(tmp_path: Path) -> None:
    path, content = tmp_path / "weights.pt", {"epoch": 3}
    content["model"] = content
    for endless in (content, {"_orig_mod." * 2000 + name: value for name, value in small().state_dict().items()}):
        torch.save(endless, path)
        found = refuse(path, "tensors|weights|lack|checkpoint needs", schedule="linear", arch="mlp-denoiser")
        assert found.hint and len(found.message) < 2000


FACTORY = """
import torch
from dataclasses import dataclass

@dataclass
class Output:
    sample: torch.Tensor

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Linear(64, 64, bias=False)

    def forward(self, x, t):
        return Output(self.scale(x) + t[:, None] / 1000)

def empty():
    return Net()

def full(path):
    net = Net()
    net.scale.weight.data.fill_(0.5)
    return net
"""


def test_factories_build_what_names_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_denoisers.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    weight = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    torch.save({"ema_model": {"module.scale.weight": weight}, "step": 1}, tmp_path / "weights.pt")
    options: dict[str, Any] = {"schedule": "linear", "allow_code": True, "shape": (64,)}
    try:
        found = load_denoiser(tmp_path / "weights.pt", factory="own_denoisers:empty", **options)
        expected = FLAT @ weight.T + T[:, None] / 1000
        torch.testing.assert_close(found.module(FLAT, T), expected)
        assert "was run" in found.notes[0] and "averaged" in found.notes[1]
        full = load_denoiser(tmp_path / "weights.pt", factory="own_denoisers:full", **options)
        torch.testing.assert_close(full.module(FLAT, T), (FLAT.sum(1) / 2 + T / 1000)[:, None].expand(2, 64))
        assert full.sha256 != found.sha256
        torch.save({"wrong": weight}, tmp_path / "weights.pt")
        refuse(tmp_path / "weights.pt", "missing", factory="own_denoisers:empty", **options)
        options["factory"] = "own_denoisers:full"
        refuse(tmp_path / "weights.pt", "shape of its points", **{**options, "shape": None})
        refuse(tmp_path / "weights.pt", "fails on points of 9", **{**options, "shape": (9,)})
    finally:
        sys.modules.pop("own_denoisers", None)
