"""Are texts drawn exactly, each from its own random stream, whatever the batch, and kept over a kill?"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import chisquare

from probes.core import library_imports as libraries
from probes.core.cache import Cache
from probes.core.errors import IncompleteError, InputError
from probes.core.progress import Silent
from probes.core.spreading import Machines
from probes.models.checkpoints import find_model
from probes.texts import text_generation
from probes.texts.causal_lm import train_causal_lm, train_tokeniser
from probes.texts.continuations import Continuations
from probes.texts.synthetic_sentences import make_sentences
from probes.texts.text_generation import TEXTS, CausalLM, Generated, check_causal
from probes.texts.token_draws import Sampling, row_seed

SENTENCES = make_sentences(120, seed=4)
PROMPTS = ["The baker", "", "If you cut the bread in the kitchen, my old neighbour", "Why", "There was a warm"]
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 48}),
    "llama": ("Llama", {"num_key_value_heads": 1, "max_position_embeddings": 48}),
    "gpt_neox": ("GPTNeoX", {"max_position_embeddings": 48, "attention_dropout": 0.0}),
}
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


def save(folder: Path, family: str, *, end: int | None = 0, change: Callable[[Any], None] | None = None) -> Path:
    """Save a random model of a family, whose logits are far apart, with a real tokenizer."""
    transformers = libraries.transformers()
    tokeniser = train_tokeniser(SENTENCES)
    name, options = FAMILIES[family]
    shape = {} if family == "gpt2" else SHAPE
    tokens = {"vocab_size": len(tokeniser), "bos_token_id": 0, "eos_token_id": end}
    config = getattr(transformers, f"{name}Config")(**tokens, **options, **shape, initializer_range=0.3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        model = getattr(transformers, f"{name}LMHeadModel" if family == "gpt2" else f"{name}ForCausalLM")(config)
    if change:
        change(model)
    model.save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=list(FAMILIES))
def random_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> CausalLM:
    return open_model(save(tmp_path_factory.mktemp(request.param), request.param, end=None))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train_causal_lm(SENTENCES, folder, seed=1, progress=Silent(), steps=60, layers=1)
    return folder


@pytest.fixture(scope="module")
def writer(trained: Path) -> CausalLM:
    return open_model(trained)


def open_model(folder: Path) -> CausalLM:
    return CausalLM(find_model(str(folder)), device="cpu", dtype="float32")


def run(folder: Path, cache: Path, prompts: list[str], *, batch: int, **options: Any) -> list[Generated]:
    sampling = Sampling(**{"max_new_tokens": 12, **options})
    how: dict[str, Any] = {"batch": batch, "seed": 3, "device": "cpu", "dtype": "float32", "cache": Cache(cache)}
    texts = Continuations(find_model(str(folder)), prompts, sampling, **how)
    texts.write(Silent(), "Writing", Machines())
    return texts.read()


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0}, {"repetition_penalty": 1.7, "temperature": 0.5}, {"top_k": 20, "top_p": 0.8}],
    ids=str,
)
def test_a_prompt_alone_or_among_others_gives_the_same_text(random_model: CausalLM, options: dict[str, Any]) -> None:
    sampling = Sampling(max_new_tokens=10, **options)
    together = random_model.generate(PROMPTS, sampling, range(5))
    alone = [random_model.generate([prompt], sampling, [row])[0] for row, prompt in enumerate(PROMPTS)]
    assert together == alone
    assert all(text.tokens == 10 and not text.ended for text in together)
    assert len({text.continuation for text in together}) == 5


def test_greedy_text_is_that_of_one_forward_pass_a_token(random_model: CausalLM) -> None:
    ids, _ = random_model.speller.spell(PROMPTS[2], 8)
    (new,) = random_model.continue_ids([ids], Sampling(temperature=0, max_new_tokens=8), [0])
    for at, token in enumerate(new):
        assert token == int(next_logits(random_model, [*ids, *new[:at]]).argmax())


@cache
def loaded(folder: Path) -> Any:
    return libraries.transformers().AutoModelForCausalLM.from_pretrained(folder).eval()


def next_logits(model: CausalLM, ids: list[int]) -> torch.Tensor:
    """Return the logits of the token after these, by transformers alone."""
    with torch.inference_mode():
        logits: torch.Tensor = loaded(model.speller.folder.path)(torch.tensor([ids])).logits[0, -1]
    return logits.double()


@pytest.mark.parametrize(
    ("temperature", "top_p", "top_k"), [(1.0, 1.0, 0), (0.6, 1.0, 0), (1.5, 0.7, 0), (1.0, 1.0, 5), (0.8, 0.9, 12)]
)
def test_tokens_are_drawn_with_their_probabilities(
    writer: CausalLM, temperature: float, top_p: float, top_k: int
) -> None:
    ids, _ = writer.speller.spell("The baker", 1)
    sampling = Sampling(temperature=temperature, top_p=top_p, top_k=top_k, max_new_tokens=1)
    seeds = [row_seed(0, row, sampling) for row in range(4_000)]
    drawn = torch.tensor([row[0] for row in writer.continue_ids([ids] * 4_000, sampling, seeds)])
    probability, order = (next_logits(writer, ids) / temperature).softmax(0).sort(descending=True)
    if top_k:
        probability[top_k:] = 0
        probability /= probability.sum()
    # A token stays while those before it hold less than top_p.
    probability[probability.cumsum(0) - probability >= top_p] = 0
    probability /= probability.sum()
    counts = torch.bincount(drawn, minlength=len(order))[order]
    assert counts[probability == 0].sum() == 0
    expected = 4_000 * probability
    # Kinds expected fewer than ten times are one kind.
    rare = expected < 10
    pairs = list(zip(counts[~rare].tolist(), expected[~rare].tolist(), strict=True))
    if expected[rare].sum() > 1:
        pairs.append((int(counts[rare].sum()), float(expected[rare].sum())))
    observed, wanted = zip(*pairs, strict=True)
    assert len(pairs) >= 4
    assert chisquare(observed, wanted, sum_check=False).pvalue > 0.001


def test_neighbours_in_a_batch_and_steps_of_a_text_have_other_noise(writer: CausalLM) -> None:
    texts = writer.generate(["The"] * 20, Sampling(max_new_tokens=10), range(20))
    assert len({text.continuation for text in texts}) == 20
    same = writer.generate(["The"] * 3, Sampling(max_new_tokens=10), [7, 7, 7])
    assert len({text.continuation for text in same}) == 1


def test_a_penalty_on_repetition_counts_prompt_and_text(random_model: CausalLM) -> None:
    plain, hard = (Sampling(temperature=0, max_new_tokens=30, repetition_penalty=one) for one in (1.0, 50.0))
    ids, _ = random_model.speller.spell("The baker", 30)
    (repeating,) = random_model.continue_ids([ids], plain, [0])
    (new,) = random_model.continue_ids([ids], hard, [0])
    assert len(set(repeating)) < len(repeating)
    assert len(set(ids + new)) == len(ids + new)


def test_a_penalty_on_repetition_leaves_padding_alone(tmp_path: Path) -> None:
    def favour_the_padding(model: Any) -> None:
        weight = model.transformer.wte.weight.data[0]
        model.transformer.ln_f.bias.data += 10 * weight / weight.norm()

    model = open_model(save(tmp_path, "gpt2", change=favour_the_padding))
    sampling = Sampling(temperature=0, repetition_penalty=50.0, max_new_tokens=3)
    assert model.continue_ids([[5], [1, 2, 3]], sampling, [0, 1]) == [[0], [0]]
    # Once it is in the text, it is penalised.
    assert model.continue_ids([[5, 0], [0, 2, 3]], sampling, [0, 1])[0][0] != 0


def test_a_text_ends_at_its_end_token(writer: CausalLM) -> None:
    texts = writer.generate([""] * 60, Sampling(max_new_tokens=8), range(60))
    assert {text.ended for text in texts} == {True, False}
    for text in texts:
        assert "<|endoftext|>" not in text.text and text.text == text.continuation.strip()
        assert (text.tokens < 8) if text.ended else (text.tokens == 8)


def test_the_text_is_the_prompt_and_what_follows(writer: CausalLM) -> None:
    (text,) = writer.generate(["The baker"], Sampling(max_new_tokens=6), [0])
    assert text.text == f"The baker{text.continuation}".strip()
    (special,) = writer.generate(["<|endoftext|>The baker"], Sampling(max_new_tokens=6), [0])
    assert special.text.startswith("The baker") and "<|" not in special.text


def test_a_long_prompt_is_cut_from_the_left_and_says_so(random_model: CausalLM) -> None:
    sampling = Sampling(temperature=0, max_new_tokens=8)
    long = " ".join(SENTENCES[:8])
    ids, cut = random_model.speller.spell(long, 8)
    whole, none = random_model.speller.spell(long[-40:], 8)
    assert len(ids) == 40 and cut > 0 and none == 0 and len(whole) < 40
    assert ids[-5:] == whole[-5:]
    text, short = random_model.generate([long, "The"], sampling, [0, 1])
    assert text.cut == cut and short.cut == 0 and text.text.startswith(long[:30])
    with pytest.raises(InputError, match="do not fit"):
        random_model.generate(["The"], Sampling(max_new_tokens=48), [0])


def test_results_do_not_depend_on_the_size_of_the_batches(trained: Path, tmp_path: Path) -> None:
    prompts = PROMPTS * 3
    one = run(trained, tmp_path / "a", prompts, batch=1)
    assert run(trained, tmp_path / "b", prompts, batch=4) == one == run(trained, tmp_path / "c", prompts, batch=100)
    assert len({text.text for text in one}) > 10
    assert run(trained, tmp_path / "d", [], batch=4) == []


def test_the_texts_of_a_killed_run_are_kept(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(trained, tmp_path / "whole", PROMPTS, batch=2)
    done: list[int] = []
    real = CausalLM.continue_ids

    def killed(self: CausalLM, prompts: Any, *rest: Any) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(len(prompts))
        return real(self, prompts, *rest)

    monkeypatch.setattr(CausalLM, "continue_ids", killed)
    with pytest.raises(KeyboardInterrupt):
        run(trained, tmp_path / "part", PROMPTS, batch=2)
    done.clear()
    assert run(trained, tmp_path / "part", PROMPTS, batch=2) == whole and done == [1]

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the model was loaded although nothing is missing")

    monkeypatch.setattr(text_generation, "CausalLM", refuse)
    assert run(trained, tmp_path / "part", PROMPTS, batch=2) == whole
    assert Cache(tmp_path / "part").usage()[TEXTS][0] == 3


@pytest.mark.parametrize("change", [{"temperature": 0.9}, {"top_p": 0.9}, {"max_new_tokens": 11}], ids=str)
def test_other_settings_are_other_entries(trained: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    first = run(trained, tmp_path, PROMPTS, batch=8)
    assert run(trained, tmp_path, PROMPTS, batch=8, **change) != first
    assert run(trained, tmp_path, PROMPTS, batch=8) == first
    assert Cache(tmp_path).usage()[TEXTS][0] == 2


def test_settings_have_noise_of_their_own_but_length_does_not() -> None:
    base = Sampling()
    others = [replace(base, temperature=0.9), replace(base, top_p=0.9), replace(base, top_k=3)]
    assert len({row_seed(0, row, sampling) for row in range(50) for sampling in (base, *others)}) == 200
    assert row_seed(0, 1, base) == row_seed(0, 1, replace(base, max_new_tokens=5)) != row_seed(1, 1, base)


def test_the_listener_hears_of_every_text(trained: Path, tmp_path: Path) -> None:
    heard: list[int] = []

    class Listener:
        @contextmanager
        def phase(self, name: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
            heard.append(-total)
            yield heard.append

    how: dict[str, Any] = {"batch": 3, "seed": 0, "device": "cpu", "dtype": "float32", "cache": Cache(tmp_path)}
    texts = Continuations(find_model(str(trained)), PROMPTS, Sampling(max_new_tokens=2), **how)
    texts.write(Listener(), "Writing", Machines())
    assert heard == [-5, 3, 2]


def test_the_global_random_state_is_left_alone(trained: Path, tmp_path: Path) -> None:
    before = torch.random.get_rng_state()
    run(trained, tmp_path, PROMPTS, batch=8)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_settings_of_the_folder_do_not_change_the_sampling(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "model")
    path = tmp_path / "model" / "generation_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings |= {"do_sample": True, "temperature": 0.01, "top_k": 1, "repetition_penalty": 9.0, "min_new_tokens": 12}
    path.write_text(json.dumps(settings), encoding="utf-8")
    plain = run(trained, tmp_path / "a", PROMPTS, batch=8)
    assert run(tmp_path / "model", tmp_path / "b", PROMPTS, batch=8) == plain


def test_a_tokenizer_without_padding_and_an_end_named_elsewhere(tmp_path: Path) -> None:
    model = open_model(save(tmp_path / "model", "llama", end=None))
    assert model.speller.ends == [0] and model.parameters > 1_000
    path = tmp_path / "model" / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": [5, 99_999]}), encoding="utf-8")
    assert open_model(tmp_path / "model").speller.ends == [0, 5]


def test_logits_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    def spoil(model: Any) -> None:
        model.transformer.ln_f.weight.data.fill_(float("nan"))

    folder = save(tmp_path / "model", "gpt2", change=spoil)
    with pytest.raises(InputError, match="not finite"):
        run(folder, tmp_path / "cache", PROMPTS, batch=8)
    assert Cache(tmp_path / "cache").usage() == {}


def test_too_little_memory_is_told(writer: CausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(libraries.transformers().GPT2LMHeadModel, "generate", full)
    with pytest.raises(IncompleteError, match="batch of 2 texts") as caught:
        writer.generate(["a", "b"], Sampling(max_new_tokens=4), [0, 1])
    assert "--batch" in caught.value.hint


def test_half_precision_writes_too_with_the_range_that_it_has(tmp_path: Path) -> None:
    def enlarge(model: Any) -> None:
        model.transformer.ln_f.weight.data *= 1e5

    folder = find_model(str(save(tmp_path, "gpt2", change=enlarge)))
    for dtype in ("float32", "bfloat16", "float16"):
        model = CausalLM(folder, device="cpu", dtype=dtype)
        with pytest.raises(InputError, match="not finite") if dtype == "float16" else nullcontext():
            assert model.generate(["The"], Sampling(max_new_tokens=5), [0])[0].tokens >= 0


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"top_p": 0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"repetition_penalty": 0},
        {"max_new_tokens": 0},
    ],
    ids=str,
)
def test_impossible_settings_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="cannot be") as caught:
        Sampling(**options)
    assert caught.value.where in options


def config_with(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def without_tokeniser(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "an encoder": (lambda folder: config_with(folder, model_type="bert", architectures=["BertModel"]), "no causal"),
    "an encoder with the head": (
        lambda folder: config_with(folder, model_type="bert", architectures=["BertLMHeadModel"]),
        "no causal",
    ),
    "another head": (lambda folder: config_with(folder, architectures=["GPT2ForSequenceClassification"]), "no causal"),
    "speech": (lambda folder: config_with(folder, model_type="wav2vec2"), "no causal"),
    "one that knows no padding": (
        lambda folder: config_with(folder, model_type="rwkv", architectures=["RwkvForCausalLM"]),
        "no causal",
    ),
    "an unknown family": (lambda folder: config_with(folder, model_type="nonsense"), "cannot be loaded"),
    "no tokenizer": (without_tokeniser, "no tokenizer"),
    "a broken tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text("{}", encoding="utf-8") and None,
        "cannot be loaded",
    ),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_folder_that_writes_no_text_is_refused(trained: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(trained, folder)
    check_causal(find_model(str(folder)))
    spoil, message = BROKEN[name]
    spoil(folder)
    with pytest.raises(InputError, match=message) as caught:
        check_causal(find_model(str(folder)))
    assert str(folder) in caught.value.where and caught.value.hint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layer": 3}, "lack"),
        ({"n_embd": 64}, "config.json asks for"),
        ({"n_embd": 100_000, "n_head": 1}, "config.json describes"),
        ({"vocab_size": 100}, "gives token|config.json asks for"),
    ],
    ids=str,
)
def test_weights_that_do_not_fit_are_refused(
    trained: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(trained, folder)
    config_with(folder, **changes)
    with pytest.raises(InputError, match=message):
        run(folder, tmp_path / "cache", ["The old neighbour"], batch=1)


def test_an_empty_prompt_needs_a_token_to_start_with(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", "llama", end=None)
    config_with(folder, bos_token_id=None)
    (folder / "generation_config.json").unlink()
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings |= {"bos_token": None, "eos_token": None}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    model = open_model(folder)
    assert model.speller.ends == []
    assert model.generate(["The"], Sampling(max_new_tokens=3), [0])[0].tokens == 3
    with pytest.raises(InputError, match="prompt is empty"):
        model.generate([""], Sampling(max_new_tokens=3), [0])
