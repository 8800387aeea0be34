"""Does a text get the same vector alone and in company, and is it the one that can be worked out by hand?"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

import probes.texts.text_embeddings as module
from probes.core.cache import Cache
from probes.core.errors import IncompleteError, InputError
from probes.core.library_imports import transformers
from probes.core.progress import Silent
from probes.texts.text_embeddings import CHUNK, TextEncoder, encode_all
from probes.texts.text_encoders import TextEncoderSpec, find_text_encoder
from probes.texts.transformer_encoder import LETTERS

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
TEXTS = ["a", "the red house", "", "Ünïcode 漢字 \ud800 and more", "one two three four five six seven", "a" * 30]
CPU: dict[str, Any] = {"device": "cpu", "dtype": "float32"}


def save_tokenizer(folder: Path, *, marks: bool) -> int:
    """Write a tokenizer of bytes, with marks around every text or with one mark and nothing for padding."""
    names = [*(SPECIAL if marks else ["</s>"]), *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    more = {"eos_token": "</s>"}
    if marks:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
        )
        more |= {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    transformers().PreTrainedTokenizerFast(tokenizer_object=tokenizer, **more).save_pretrained(folder)
    return len(names)


def save_model(folder: Path, family: str, **settings: Any) -> Path:
    hub = transformers()
    size = save_tokenizer(folder, marks=family != "gpt2")
    shapes: dict[str, tuple[str, dict[str, Any]]] = {
        "bert": ("Bert", {**SMALL, "max_position_embeddings": 40}),
        "roberta": ("Roberta", {**SMALL, "max_position_embeddings": 42, "pad_token_id": 0, "type_vocab_size": 1}),
        "gpt2": ("GPT2", {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 40, "eos_token_id": 0}),
        "fnet": ("FNet", {**SMALL, "max_position_embeddings": 40, "tpu_short_seq_length": 40}),
        "t5": ("T5", {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 3, "num_heads": 2}),
    }
    stem, shape = shapes[family]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        config = getattr(hub, f"{stem}Config")(**{"vocab_size": size, **shape, **settings})
        model = getattr(hub, f"{stem}Model")(config)
        for weight in model.parameters():
            # Far from the small numbers of a fresh model, so that a wrong position or mask shows.
            weight.data += 0.3 * torch.randn(weight.shape)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {family: save_model(root / family, family) for family in ("bert", "roberta", "gpt2", "fnet", "t5")}


def encoder(folder: Path, *, batch: int = 32, **options: Any) -> TextEncoder:
    return TextEncoder(find_text_encoder(str(folder), **options), reference=(), batch=batch, **CPU)


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "fnet", "t5"])
@pytest.mark.parametrize("pooling", ["mean", "last", "cls"])
def test_company_does_not_change_a_vector(folders: dict[str, Path], family: str, pooling: str) -> None:
    made = encoder(folders[family], pooling=pooling)
    together = made.encode(TEXTS)
    assert together.vectors.shape == (len(TEXTS), made.width) == (len(TEXTS), 16)
    assert together.vectors.dtype == np.float32
    for text, vector in zip(TEXTS, together.vectors, strict=True):
        np.testing.assert_allclose(made.encode([text]).vectors[0], vector, atol=1e-5)
    np.testing.assert_allclose(made.encode(TEXTS[::-1]).vectors[::-1], together.vectors, atol=1e-5)
    np.testing.assert_allclose(encoder(folders[family], pooling=pooling, batch=2).encode(TEXTS).vectors,
                               together.vectors, atol=1e-5)  # fmt: skip
    assert made.encode([]).vectors.shape == (0, 16)


@pytest.mark.parametrize("family", ["bert", "gpt2", "roberta"])
@pytest.mark.parametrize(("layer", "place"), [(0, 0), (2, 2), (-1, 3), (0.5, 2), (1.0, 3), (-4, 0)])
def test_pooling_and_layers_are_those_worked_out_by_hand(
    folders: dict[str, Path], family: str, layer: float, place: int
) -> None:
    hub, folder, text = transformers(), folders[family], "the red house"
    model = hub.AutoModel.from_pretrained(folder).eval()
    numbers = hub.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")["input_ids"]
    assert numbers.shape[1] == len(text) + (2 if family != "gpt2" else 0)
    with torch.inference_mode():
        states = model(numbers, output_hidden_states=True).hidden_states[place][0]
    wanted = {"mean": states.mean(0), "last": states[-1], "cls": states[0]}
    for pooling, vector in wanted.items():
        found = encoder(folder, pooling=pooling, layer=layer).encode(["", text, "x" * 30]).vectors[1]
        np.testing.assert_allclose(found, vector, atol=1e-5)


def test_padding_side_and_padding_of_the_tokenizer_do_not_matter(folders: dict[str, Path], tmp_path: Path) -> None:
    for family in ("bert", "gpt2"):
        plain = encoder(folders[family]).encode(TEXTS).vectors
        folder = save_model(tmp_path / family, family)
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "padding_side": "left"}))
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        # As some published tokenizers are: saved in the middle of training, with all texts made 16 tokens long.
        tokenizer.enable_padding(length=16, direction="left")
        tokenizer.enable_truncation(16)
        tokenizer.save(str(folder / "tokenizer.json"))
        np.testing.assert_array_equal(encoder(folder).encode(TEXTS).vectors, plain)


def test_long_texts_are_cut_at_the_end_and_counted(folders: dict[str, Path]) -> None:
    made = encoder(folders["bert"], max_tokens=10)
    # Two of the ten are the marks around the text.
    found = made.encode(["12345678", "123456789", "12345678 and more", "12345678" * 100_000, "1234567"])
    assert found.shortened == 3
    for row in (1, 2, 3):
        np.testing.assert_allclose(found.vectors[row], found.vectors[0], atol=1e-5)
    assert np.abs(found.vectors[4] - found.vectors[0]).max() > 1e-3


def test_a_book_is_cut_before_it_is_tokenised(tmp_path: Path) -> None:
    folder, most = save_model(tmp_path / "stripping", "bert"), 10
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    # What the tokenizer drops shows how much of a text it was given.
    tokenizer.normalizer = normalizers.Strip()
    tokenizer.save(str(folder / "tokenizer.json"))
    beyond, within = (" " * count + "x" for count in (LETTERS * most, LETTERS * most - 1))
    found = encoder(folder, max_tokens=most).encode([beyond, "", within, "x"])
    assert found.cut.tolist() == [True, False, False, False]
    np.testing.assert_array_equal(found.vectors[[0, 2]], found.vectors[[1, 3]])
    assert np.abs(found.vectors[0] - found.vectors[2]).max() > 1e-3


def test_a_text_without_tokens_is_read_as_the_end_mark(folders: dict[str, Path], tmp_path: Path) -> None:
    vectors = encoder(folders["gpt2"]).encode(["", "</s>", "a"]).vectors
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    assert np.abs(vectors[0] - vectors[2]).max() > 1e-3
    folder = save_model(tmp_path / "unmarked", "gpt2")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("eos_token")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    made = encoder(folder)
    assert np.isfinite(made.encode(["a"]).vectors).all()
    with pytest.raises(InputError, match="no tokens"):
        made.encode(["a", ""])


def test_steps_after_pooling_are_taken(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = save_model(tmp_path / "sentence", "bert")
    steps = ["Transformer", "Pooling", "Dense", "Normalize"]
    names = ["", "1_Pooling", "2_Dense", "3_Normalize"]
    entries = [
        {"idx": place, "name": str(place), "path": name, "type": f"sentence_transformers.models.{step}"}
        for place, (step, name) in enumerate(zip(steps, names, strict=True))
    ]
    (folder / "modules.json").write_text(json.dumps(entries))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 20, "do_lower_case": true}')
    for name in names[1:3]:
        (folder / name).mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    (folder / "2_Dense" / "config.json").write_text('{"activation_function": "torch.nn.modules.activation.Tanh"}')
    weight, bias = torch.arange(80.0).reshape(5, 16) / 80 - 0.5, torch.arange(5.0)
    save_file({"linear.weight": weight, "linear.bias": bias}, folder / "2_Dense" / "model.safetensors")
    made = encoder(folder)
    first = torch.from_numpy(encoder(folders["bert"], pooling="cls").encode(["the red house"]).vectors[0])
    raw = torch.tanh(weight @ first + bias)
    found = made.encode(["The RED house", "the red house"]).vectors
    np.testing.assert_allclose(found[0], raw / raw.norm(), atol=1e-5)
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    assert made.width == 5
    assert made.parameters == sum(w.numel() for w in load_file(folder / "model.safetensors").values()) + 85
    # Another layer than the folder's own: what follows its pooling does not belong to it.
    assert encoder(folder, layer=1).width == 16
    save_file({"linear.weight": torch.zeros(5, 9)}, folder / "2_Dense" / "model.safetensors")
    with pytest.raises(InputError, match="cannot be loaded"):
        encoder(folder)


def test_states_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "nan", "bert")
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][60] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    made = encoder(folder)
    every = "".join(map(chr, range(33, 127)))
    with pytest.raises(InputError, match="not finite") as caught:
        made.encode(["a", every[:30], every[30:60], every[60:]])
    assert "nan" in caught.value.where
    assert "--dtype float32" in caught.value.hint


def test_a_full_device_says_what_to_do(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    made = encoder(folders["bert"])

    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(transformers().BertModel, "forward", full)
    with pytest.raises(IncompleteError) as caught:
        made.encode(["a", "b"])
    assert "--batch" in caught.value.hint


def _lose(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file({name: weights[name] for name in list(weights)[:-6]}, folder / "model.safetensors",
              metadata={"format": "pt"})  # fmt: skip


def _widen(folder: Path, key: str = "intermediate_size", size: int = 25) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: size}))


def _spoil_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"model": 3}')


def _mistake_tokenizer(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    save_file({**weights, name: weights[name][:50].clone()}, folder / "model.safetensors", metadata={"format": "pt"})
    _widen(folder, "vocab_size", 50)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_lose, "lack"),
        (_widen, "config.json asks for"),
        (lambda folder: _widen(folder, "vocab_size", 10**7), "describes 1600"),
        (_spoil_tokenizer, "tokenizer cannot be loaded"),
        (_mistake_tokenizer, "knows 50 tokens"),
        (lambda folder: _widen(folder, "hidden_act", 7), "cannot be loaded"),
    ],
    ids=["missing weights", "wrong size", "huge", "broken tokenizer", "other tokenizer", "nonsense"],
)
def test_folders_that_do_not_fit_together_are_refused(tmp_path: Path, harm: Any, message: str) -> None:
    folder = save_model(tmp_path / "harmed", "bert")
    harm(folder)
    with pytest.raises(InputError, match=message) as caught:
        encoder(folder).encode(["hello"])
    assert "harmed" in caught.value.where


def test_no_room_beside_the_marks_is_refused(folders: dict[str, Path]) -> None:
    with pytest.raises(InputError, match="none is left"):
        encoder(folders["bert"], max_tokens=2)


def test_no_code_of_the_folder_is_run(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "hostile", "bert")
    mark = tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\nclass Evil: pass\n")
    for name, key in (("config.json", "AutoModel"), ("tokenizer_config.json", "AutoTokenizer")):
        settings = json.loads((folder / name).read_text())
        value: Any = "evil.Evil" if name == "config.json" else ["evil.Evil", "evil.Evil"]
        more = {"auto_map": {key: value, "AutoConfig": "evil.Evil"}}
        (folder / name).write_text(json.dumps({**settings, **more}))
    try:
        encoder(folder).encode(["a"])
    except InputError as error:
        assert "hostile" in error.where
    assert not mark.exists()


def test_a_model_saved_without_its_pooler_is_whole_and_draws_nothing(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = save_model(tmp_path / "bare", "bert")
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if "pooler" not in name}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    before = torch.random.get_rng_state()
    vectors = encoder(folder).encode(["a", "bc"]).vectors
    assert torch.random.get_rng_state().equal(before)
    np.testing.assert_array_equal(vectors, encoder(folders["bert"]).encode(["a", "bc"]).vectors)


def test_t5_saved_without_its_decoder_is_the_encoder_of_the_whole(folders: dict[str, Path], tmp_path: Path) -> None:
    model = transformers().T5EncoderModel.from_pretrained(folders["t5"])
    save_tokenizer(tmp_path, marks=True)
    model.save_pretrained(tmp_path)
    vectors = encoder(tmp_path).encode(["a", "bc"]).vectors
    np.testing.assert_allclose(vectors, encoder(folders["t5"]).encode(["a", "bc"]).vectors, atol=1e-6)


class Steps(Silent):
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, str]] = []
        self.steps: list[int] = []

    @contextmanager
    def phase(self, name: str, total: int, unit: str) -> Iterator[Any]:
        self.heard.append((name, total, unit))
        yield self.steps.append


def all_of(spec: TextEncoderSpec, texts: Sequence[str], folder: Path, **options: Any) -> Any:
    settings: dict[str, Any] = {"reference": ["a b", "c"], "batch": 64, "progress": Silent(), "label": "texts", **CPU}
    return encode_all(spec, texts, cache=Cache(folder), **{**settings, **options})


def test_copies_share_one_vector_and_nothing_is_computed_twice(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find_text_encoder(str(folders["bert"]), max_tokens=8)
    texts = ["one", "two", "one", "a long text", "one", "a long text"]
    progress = Steps()
    found = all_of(spec, texts, tmp_path, progress=progress, label="Encode A")
    assert progress.heard == [("Encode A", 3, "texts")]
    assert progress.steps == [3]
    assert found.shortened == 2
    np.testing.assert_array_equal(found.vectors[0], found.vectors[[2, 4]][1])
    np.testing.assert_allclose(found.vectors, encoder(folders["bert"], max_tokens=8).encode(texts).vectors, atol=1e-5)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("loaded again")

    monkeypatch.setattr(module, "TextEncoder", refuse)
    again = all_of(spec, texts, tmp_path)
    np.testing.assert_array_equal(again.vectors, found.vectors)
    assert again.shortened == 2
    assert all_of(spec, [], tmp_path).vectors.shape == (0, 0)
    # Whatever else an embedding depends on is another entry.
    for other, options in (
        (find_text_encoder(str(folders["bert"]), max_tokens=9), {}),
        (find_text_encoder(str(folders["bert"]), max_tokens=8, pooling="cls"), {}),
        (find_text_encoder(str(folders["bert"]), max_tokens=8, layer=1), {}),
        (find_text_encoder(str(folders["roberta"]), max_tokens=8), {}),
        (spec, {"dtype": "bfloat16"}),
        (find_text_encoder("tfidf"), {}),
    ):
        with pytest.raises(AssertionError, match="loaded again"):
            all_of(other, texts, tmp_path, **options)


def test_a_killed_run_goes_on_where_it_was(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find_text_encoder(str(folders["bert"]), max_tokens=8)
    texts = [f"{number:x}" for number in range(2 * CHUNK + 10)]
    each, seen = TextEncoder.encode_each, []

    def dying(self: TextEncoder, chunk: Sequence[str]) -> Any:
        if len(seen) == 1:
            raise KeyboardInterrupt
        seen.append(len(chunk))
        return each(self, chunk)

    monkeypatch.setattr(TextEncoder, "encode_each", dying)
    with pytest.raises(KeyboardInterrupt):
        all_of(spec, texts, tmp_path / "cache")
    assert seen == [CHUNK]
    monkeypatch.setattr(TextEncoder, "encode_each", lambda self, chunk: seen.append(len(chunk)) or each(self, chunk))
    found = all_of(spec, texts, tmp_path / "cache")
    assert seen == [CHUNK, CHUNK, 10]
    monkeypatch.setattr(TextEncoder, "encode_each", each)
    np.testing.assert_array_equal(found.vectors, all_of(spec, texts, tmp_path / "other").vectors)


def test_tfidf_depends_on_the_reference_and_not_on_its_order(tmp_path: Path) -> None:
    spec = find_text_encoder("tfidf")
    one = all_of(spec, ["a b", "\ud800 x"], tmp_path, reference=["a b", "b c", "b d \ud800"])
    two = all_of(spec, ["a b", "\ud800 x"], tmp_path, reference=["b d \ud800", "a b", "b c"])
    three = all_of(spec, ["a b", "\ud800 x"], tmp_path, reference=["a b", "a c", "a d"])
    assert one.vectors.shape == (2, 512)
    np.testing.assert_array_equal(one.vectors, two.vectors)
    assert np.abs(one.vectors[0] - three.vectors[0]).max() > 1e-3
    assert one.shortened == 0
    assert len(list(tmp_path.rglob("*.safetensors"))) == 2


def test_a_chunk_that_was_damaged_is_encoded_as_a_job_would(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, encoded = [], module._encoded

    def counted(job: Any) -> Any:
        seen.append(torch.get_num_threads())
        return encoded(job)

    monkeypatch.setattr(module, "_encoded", counted)
    cache, spec = Cache(tmp_path), find_text_encoder(str(folders["bert"]))
    how: dict[str, Any] = {"reference": (), "batch": 4, "cache": cache, "progress": Silent(), "label": "", **CPU}
    torch.set_num_threads(2)
    try:
        first = encode_all(spec, TEXTS, **how).vectors
        for path in cache.folder.glob(f"{module.KIND}/*/*"):
            path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
        assert np.array_equal(encode_all(spec, TEXTS, **how).vectors, first)
    finally:
        torch.set_num_threads(1)
    assert seen == [1, 1]
