import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_models
import torch
from opened_models import causal, classifier, masked, speech, text_encoder
from safetensors.torch import load_file, save_file

from probes.contained import Limits
from probes.core.errors import InputError
from probes.models import hub_models
from probes.models.checkpoints import find_model
from probes.models.model_configs import check_config


def sentences(folder: Path) -> Path:
    place = small_models.hub("masked")(folder)
    steps = [("Transformer", ""), ("Pooling", "1_Pooling")]
    entries = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in steps]
    (place / "modules.json").write_text(json.dumps(entries))
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
    return place


FAMILIES: dict[str, tuple[Callable[[Path], Path], Callable[[Path], None]]] = {
    "speech": (small_models.hub("speech"), speech),
    "masked": (small_models.hub("masked"), masked),
    "causal": (small_models.hub("causal"), causal),
    "images": (small_models.hub("images"), classifier),
    "sentences": (sentences, text_encoder),
}
KERNEL = "kernels-community/flash-attn2@0123456789abcdef"
HOSTILE: dict[str, Any] = {
    "transformers_weights": "other.safetensors",
    "configuration_files": ["config.4.0.0.json"],
    "attn_implementation": KERNEL,
    "_attn_implementation": KERNEL,
    "_experts_implementation": KERNEL,
    "_attn_implementation_internal": KERNEL,
    "_experts_implementation_internal": KERNEL,
    "quantization_config": {"quant_method": "fp8"},
    "use_pretrained_backbone": True,
    "num_labels": 30_000_000,
    "n_layer": 3_000_000,
    "num_hidden_layers": 3_000_000,
}


def change(folder: Path, **keys: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Callable[[Path], None]]:
    make, action = FAMILIES[request.param]
    return make(tmp_path_factory.mktemp(request.param)), action


def test_a_configuration_that_passes_the_check_and_has_no_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small_models.hub("images")(tmp_path)
    change(folder, model_type="resnet", architectures=["ResNetForImageClassification"])
    change(folder, depths=[2] * 500, hidden_sizes=[8] * 500, downsample_in_bottleneck=False)
    monkeypatch.setattr(hub_models, "LIMITS", Limits(memory=2**30, seconds=0.2))
    with pytest.raises(InputError, match=r"cannot be made: it takes more than 0\.2 seconds") as caught:
        classifier(folder)
    assert caught.value.where == str(folder / "config.json") and caught.value.hint


@pytest.mark.parametrize(
    ("kind", "action", "name", "file"),
    [("speech", speech, "AutoFeatureExtractor", "preprocessor_config.json"), ("causal", causal, "AutoTokenizer", "")],
)
def test_what_stands_beside_a_model_is_read_within_limits(
    kind: str, action: Callable[[Path], None], name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small_models.hub(kind)(tmp_path)

    def endless(*args: object, **options: object) -> None:
        while True:
            pass

    monkeypatch.setattr(getattr(hub_models.transformers(), name), "from_pretrained", endless)
    monkeypatch.setattr(hub_models, "LIMITS", Limits(memory=2**30, seconds=0.2))
    with pytest.raises(InputError, match=r"cannot be made: it takes more than 0\.2 seconds") as caught:
        action(folder)
    assert caught.value.where == str(folder / file)


@pytest.mark.parametrize(
    ("kind", "action", "name"),
    [
        ("speech", speech, "AutoConfig"),
        ("speech", speech, "AutoFeatureExtractor"),
        ("causal", causal, "AutoTokenizer"),
    ],
)
def test_a_process_without_memory_is_no_fault_of_the_model(
    kind: str, action: Callable[[Path], None], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small_models.hub(kind)(tmp_path)

    def short(*args: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(getattr(hub_models.transformers(), name), "from_pretrained", short)
    # A limit of the user, as of `ulimit -v`, is lower than the one of the reader.
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + hub_models.LIMITS.memory // 2, before[1]))
    try:
        with pytest.raises(MemoryError):
            action(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_depths_are_counted_in_all(tmp_path: Path) -> None:
    check_config(tmp_path, {"depths": [3, 4, 23, 3]})
    with pytest.raises(InputError, match="more than 1000 layers in all"):
        check_config(tmp_path, {"depths": [1000] * 2})
    with pytest.raises(InputError, match="more than 1000 layers in all"):
        check_config(tmp_path, {"depths": [[400, "400"], 400.0]})
    with pytest.raises(InputError, match="more than 1000 layers in all"):
        check_config(tmp_path, {"subdepths": [-(10**400), 0.5]})


@pytest.mark.parametrize("key", HOSTILE)
def test_what_steers_loading_is_refused_for_every_family(
    family: tuple[Path, Callable[[Path], None]], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, action = family
    before = (folder / "config.json").read_text()
    # Nothing of transformers may see it.
    monkeypatch.setattr(hub_models, "configuration", lambda folder: pytest.fail("read by transformers"))
    start = time.process_time()
    try:
        change(folder, **{key: HOSTILE[key]})
        with pytest.raises(InputError) as caught:
            action(folder)
    finally:
        (folder / "config.json").write_text(before)
    assert caught.value.where == f"{folder / 'config.json'}, key {key}" and caught.value.hint
    assert time.process_time() - start < 5


def test_an_adapter_is_refused_for_every_family(family: tuple[Path, Callable[[Path], None]]) -> None:
    folder, action = family
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/else"}')
    try:
        with pytest.raises(InputError, match="weights elsewhere"):
            action(folder)
    finally:
        (folder / "adapter_config.json").unlink()


def test_no_file_is_opened_whose_hash_is_not_taken(family: tuple[Path, Callable[[Path], None]]) -> None:
    folder, action = family
    # Files that transformers would take notice of: other weights, a checkpoint of many processes, code.
    decoys = ("pytorch_model.bin", "model.safetensors.x", "custom_generate/generate.py", "modeling.py", ".metadata")
    for name in decoys:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("raise SystemExit")
    opened: set[str] = set()
    listening = True

    def note(event: str, args: tuple[Any, ...]) -> None:
        if listening and event == "open" and isinstance(args[0], str | bytes | os.PathLike):
            name = os.path.realpath(os.fsdecode(args[0]))
            if name.startswith(f"{folder.resolve()}/") and Path(name).is_file():
                opened.add(os.path.relpath(name, folder.resolve()))

    sys.addaudithook(note)
    try:
        action(folder)
    finally:
        listening = False
        for name in decoys:
            (folder / name).unlink()
    hashed = {path.name for pattern in ("*.json", "*.txt", "*.model") for path in folder.glob(pattern)}
    own = {"modules.json", "1_Pooling/config.json"}
    assert "model.safetensors" in opened
    assert opened <= hashed | own | {"model.safetensors"}


def test_the_model_that_is_loaded_is_the_one_that_is_hashed(tmp_path: Path) -> None:
    folder = small_models.hub("causal")(tmp_path)
    loader = hub_models.transformers().AutoModelForCausalLM
    tensors = load_file(folder / "model.safetensors")
    save_file({name: torch.full_like(value, 0.5) for name, value in tensors.items()}, folder / "other.safetensors")
    found = find_model(str(folder))
    config = hub_models.configuration(found)
    # Even a key that the check would let pass leads nowhere: the tensors are handed over.
    config.transformers_weights = "other.safetensors"
    meta = hub_models.empty_model(loader, config, found)
    loaded = hub_models.load_model(meta, config, found, limits=[])
    assert loaded.unused == loaded.lacking == []
    assert all(torch.equal(loaded.model.state_dict()[name], value) for name, value in tensors.items())


def test_a_model_that_is_slow_to_describe_is_no_model_of_these_weights(tmp_path: Path) -> None:
    folder = small_models.hub("causal")(tmp_path)
    change(folder, n_embd=2**20, n_head=2**10)
    with pytest.raises(InputError, match="the weights have"):
        causal(folder)


@pytest.mark.parametrize(
    "keys",
    [
        {"auto_map": {"AutoModel": "someone/else--code.Model"}, "dtype": "float16", "is_decoder": False},
        {"_attn_implementation": "eager", "attn_implementation": None, "quantization_config": None},
        {"rope_theta": 50_000_000, "rope_parameters": {"rope_theta": 10**9}, "max_position_embeddings": 10_485_760},
        {"id2label": {"0": "blocks"}, "label2id": {"blocks": 20_000, "transformers_weights": 3}},
        {"adapter_attn_dim": 16, "add_adapter": True, "num_adapter_layers": 3, "vocab_size_per_layer_input": 262_144},
        {"num_labels": 21_843, "depths": [2, 2, 18, 2], "num_local_experts": 384, "max_window_layers": 70},
        {"num_experts": 16_384, "depthwise_separable_out_channel": 1024, "depth_separable_channels": 2048},
        {"seed": 2_147_483_647, "n_params": 7 * 10**9, "num_parameters": 124_000_000, "total_flos": 10**18},
        {"hidden_act": "gelu", "hidden_dropout_prob": 0.1, "image_size": [[224, 224]], "out_features": ["stage1"]},
        {"hidden_size": 768.0, "layers_block_type": ["mamba", "attention"], "head_dim": None, "patch_size": "16"},
        {"max_depth": 2000, "conv_depthwise_dim": 2048, "ngram_vocab_size_base": 20_000_000},
    ],
)
def test_what_models_of_the_hub_hold_is_allowed(tmp_path: Path, keys: dict[str, Any]) -> None:
    check_config(tmp_path, {"model_type": "bert", "text_config": keys, **keys})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("depth", 1001), ("depths", [2, 1001]), ("encoder_depth", 1001), ("num_blocks", 1001), ("decoder_layers", 1001),
        ("num_layer", 1001), ("num_experts", 2**15 + 1), ("num_labels", 2**17 + 1), ("hidden_size", 2**24 + 1),
        ("d_model", 2**24 + 1), ("dff", 2**24 + 1), ("n_embd", 2**24 + 1), ("vocab_size", -(2**24) - 1),
        ("n_inner", 2**24 + 1), ("num_attention_heads", 2**24 + 1), ("num_codebooks", 2**24 + 1),
        ("num_hidden_layers", "3000000"), ("num_hidden_layers", "3e6"), ("num_hidden_layers", 3e9),
        ("num_hidden_layers", float("nan")), ("num_hidden_layers", float("inf")), ("num_labels", "9" * 5000),
        ("hidden_sizes", [[2**25]]), ("hidden_sizes", [8, [[8, ["33554432"]]]]),
    ],
)  # fmt: skip
def test_sizes_beyond_belief_are_refused(tmp_path: Path, key: str, value: object) -> None:
    for config in ({key: value}, {"text_config": {key: value}}):
        with pytest.raises(InputError, match="is larger than") as caught:
            check_config(tmp_path, {"model_type": "bert", **config})
        assert caught.value.where.endswith(f"key {key}")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_link_out_of_the_folder_is_refused_before_it_is_read(tmp_path: Path, name: str) -> None:
    folder = small_models.hub("masked")(tmp_path)
    (folder / name).unlink()
    (tmp_path / "secret").write_text("secret: 7")
    (folder / name).symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match=f"{name} is a link that leaves") as caught:
        masked(folder)
    assert "secret: 7" not in caught.value.message + str(caught.value.hint)


def test_a_file_that_the_system_does_not_give_is_named(tmp_path: Path) -> None:
    from probes.language_models.text_tokenizers import read_tokenizer

    (tmp_path / "tokenizer.json").symlink_to("/proc/self/mem")
    for place in (tmp_path / "tokenizer.json", tmp_path):
        with pytest.raises(InputError) as caught:
            read_tokenizer(place)
        assert str(tmp_path / "tokenizer.json") in caught.value.where and caught.value.hint
