"""Is information by token that of plain passes over whole texts, whatever the batch, the template and the length?"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.library_imports import transformers
from probes.core.progress import Advance, Silent
from probes.models.checkpoints import find_model
from probes.texts import token_information
from probes.texts.causal_lm import train_tokeniser
from probes.texts.evidence import Evidence, Grounded
from probes.texts.grounded_prompts import DEFAULT_TEMPLATE, Prompts, Template, read_template
from probes.texts.noisy_decoding import write
from probes.texts.synthetic_sentences import make_sentences
from probes.texts.token_draws import Sampling
from probes.texts.token_information import Information

TEXTS = make_sentences(60, seed=4)
CONTEXT = 64
PAIRS = [
    Grounded(Evidence(TEXTS[at] if at != 3 else ""), TEXTS[at + 20], question="Why so?" if at % 2 else None)
    for at in range(7)
]
TOLERANCE = 2e-5
"""Rounding of single precision over a few layers, at log-likelihoods of about 7."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lm")
    tokeniser = train_tokeniser(["\n".join(TEXTS[:20])])
    tokeniser.model_max_length = CONTEXT
    config = transformers().GPT2Config(
        vocab_size=len(tokeniser), n_positions=CONTEXT, n_embd=32, n_layer=2, n_head=2,
        bos_token_id=0, eos_token_id=0, initializer_range=0.3,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformers().GPT2LMHeadModel(config).save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return folder


def probe(
    model: Path, cache: Path, template: str = DEFAULT_TEMPLATE, without: str = "blank", **call: Any
) -> Information:
    call = dict(seed=0, batch=3, dtype="float32", progress=Silent()) | call  # noqa: C408
    return Information(find_model(str(model)), Template(template), without, device="cpu", cache=Cache(cache), **call)


class Plain:
    """transformers alone, without batches, padding or a cache."""

    def __init__(self, folder: Path) -> None:
        self.model = transformers().AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
        self.tokeniser = transformers().AutoTokenizer.from_pretrained(folder, local_files_only=True)

    def ids(self, text: str) -> list[int]:
        return list(self.tokeniser(text).input_ids)

    def likely(self, prefix: list[int], own: list[int]) -> np.ndarray:
        with torch.inference_mode():
            logits = self.model(input_ids=torch.tensor([prefix + own])).logits[0].double().log_softmax(-1)
        return np.array([float(logits[len(prefix) + at - 1, token]) for at, token in enumerate(own)], float)

    def information(self, prefixes: tuple[list[int], list[int]], own: list[int]) -> np.ndarray:
        given, alone = (self.likely(prefix, own) for prefix in prefixes)
        return given - alone


@pytest.fixture(scope="module")
def plain(model: Path) -> Plain:
    return Plain(model)


def test_information_is_that_of_passes_over_whole_texts(model: Path, plain: Plain, tmp_path: Path) -> None:
    measured = probe(model, tmp_path)
    found, scores, lowest = measured.by_token(PAIRS), measured.score(PAIRS), measured.lowest_span(PAIRS)
    for at, pair in enumerate(PAIRS):
        asked = f"{pair.question}\n" if pair.question else ""
        prefixes = (plain.ids(f"{pair.evidence.text}\n{asked}"), plain.ids(f"\n{asked}"))
        own, one = plain.ids(pair.output), found[at]
        expected, given = plain.information(prefixes, own), plain.likely(prefixes[0], own)
        assert one is not None and np.abs(one.information - expected).max() < TOLERANCE
        assert "".join(pair.output[start:stop] for start, stop in one.spans) == pair.output
        sums = [expected.sum(), expected.mean(), expected.min(), given.mean()]
        names = ["cxmi_output", "cxmi_token", "cxmi_minimum", "log_probability"]
        assert [scores[name][at] for name in names] == pytest.approx(sums, abs=TOLERANCE * len(own))
        assert lowest[at] == one.spans[int(expected.argmin())] or pair.evidence.empty
    assert scores["cxmi_output"][3] == 0 and (np.abs(np.delete(scores["cxmi_output"], 3)) > 0.1).all()
    assert not measured.truncated(PAIRS).any()


def test_results_do_not_depend_on_the_batch(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = probe(model, tmp_path / "3").score(PAIRS)
    one = probe(model, tmp_path / "1", batch=1).score(PAIRS)
    many = probe(model, tmp_path / "50", batch=50).score(PAIRS[::-1])
    monkeypatch.setattr(token_information, "_SLICE", 1000)
    monkeypatch.setattr(token_information, "_MOST_LOGITS", 30_000)
    small = probe(model, tmp_path / "small", batch=50).score(PAIRS)
    assert len(list((tmp_path / "small").rglob("*.safetensors"))) > 2
    for name, values in whole.items():
        for other in (one[name], many[name][::-1], small[name]):
            assert np.abs(values - other).max() < 30 * TOLERANCE


SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": SIZES | {"intermediate_size": 32},
    # Neither of these takes positions of tokens.
    "Bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 2},
    "Mamba": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
}


@pytest.fixture(scope="module", params=FAMILIES)
def other(request: pytest.FixtureRequest, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    tokeniser = transformers().AutoTokenizer.from_pretrained(model, local_files_only=True)
    config = getattr(transformers(), f"{request.param}Config")(
        vocab_size=len(tokeniser), initializer_range=0.3, bos_token_id=0, eos_token_id=0, **FAMILIES[request.param]
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformers().AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return folder


def test_other_families_read_padded_batches_alike(other: Path, tmp_path: Path) -> None:
    plain = Plain(other)
    for pair, one in zip(PAIRS[:3], probe(other, tmp_path).by_token(PAIRS[:3]), strict=True):
        asked = f"{pair.question}\n" if pair.question else ""
        prefixes = (plain.ids(f"{pair.evidence.text}\n{asked}"), plain.ids(f"\n{asked}"))
        expected = plain.information(prefixes, plain.ids(pair.output))
        assert one is not None and np.abs(one.information - expected).max() < TOLERANCE


def test_other_families_write_without_context_alike_in_any_batch(other: Path, tmp_path: Path) -> None:
    call = {"template": Template(), "seed": 0, "device": "cpu", "dtype": "float32", "progress": Silent()}
    call |= {"cache": Cache(tmp_path), "sampling": Sampling(max_new_tokens=8)}
    whole, single = (write(find_model(str(other)), PAIRS[:4], 0.5, batch=batch, **call).read() for batch in (4, 1))
    assert whole == single and len(set(whole)) == 4


@pytest.mark.parametrize("number", ["bfloat16", "float16"])
def test_other_number_formats_come_close(model: Path, number: str, tmp_path: Path) -> None:
    whole, rough = (probe(model, tmp_path, dtype=one).score(PAIRS)["cxmi_token"] for one in ("float32", number))
    assert 0 < np.abs(whole - rough).max() < 0.5


def test_a_token_in_which_prompt_and_output_melt_is_the_outputs(model: Path, plain: Plain, tmp_path: Path) -> None:
    pair = Grounded(PAIRS[0].evidence, "the essay is read.")
    one = probe(model, tmp_path, "{context}\nSo {output}").by_token([pair])[0]
    own = plain.ids(f" {pair.output}")
    assert own != plain.ids(" ") + plain.ids(pair.output)
    expected = plain.information((plain.ids(f"{pair.evidence.text}\nSo"), plain.ids("\nSo")), own)
    assert one is not None and np.abs(one.information - expected).max() < TOLERANCE
    assert one.spans[0][0] == 0 and "".join(pair.output[slice(*span)] for span in one.spans) == pair.output


def test_an_output_is_spelt_alike_where_only_one_context_melts_with_it(
    model: Path, plain: Plain, tmp_path: Path
) -> None:
    words = [word for text in TEXTS[:20] for word in text.split() if len(plain.ids(f" {word}")) == 1 and len(word) > 5]
    first, second = words[0][:3], words[0][3:]
    one = probe(model, tmp_path, "{context}{output}", "One.").by_token([Grounded(Evidence(f"No {first}"), second)])[0]
    own = plain.ids(second)
    expected = plain.information((plain.ids(f"No {first}"), plain.ids("One.")), own)
    assert one is not None and len(one.spans) == len(own)
    assert np.abs(one.information - expected).max() < TOLERANCE


def test_without_any_prompt_a_text_begins_with_the_start_token(model: Path, plain: Plain, tmp_path: Path) -> None:
    one = probe(model, tmp_path, "{context}{output}").by_token([Grounded(Evidence("Yes.\n"), TEXTS[30])])[0]
    expected = plain.information((plain.ids("Yes.\n"), [0]), plain.ids(TEXTS[30]))
    assert one is not None and np.abs(one.information - expected).max() < TOLERANCE


def test_a_long_context_loses_its_end_and_is_flagged(model: Path, plain: Plain, tmp_path: Path) -> None:
    long, after = " ".join(TEXTS[:6]), "\nSo:\n"
    pairs = [Grounded(Evidence(long), TEXTS[30]), PAIRS[0], Grounded(Evidence(long), " ".join(TEXTS[30:38]))]
    measured = probe(model, tmp_path, "Read: {context}\nSo:\n{output}")
    assert measured.truncated(pairs).tolist() == [True, False, False]
    found = measured.by_token(pairs)
    own = plain.ids(TEXTS[30])
    room = CONTEXT - len(own) - len(plain.ids(after))
    prefix = plain.ids(f"Read: {long}")[:room] + plain.ids(after)
    expected = plain.information((prefix, plain.ids(f"Read: {after}")), own)
    assert found[0] is not None and found[0].cut and np.abs(found[0].information - expected).max() < TOLERANCE
    assert found[1] is not None and not found[1].cut
    # The third output leaves no room for any context.
    assert found[2] is None and measured.lowest_span(pairs)[2] is None
    assert all(np.isnan(values).tolist() == [False, False, True] for values in measured.score(pairs).values())


def test_the_longest_output_that_fits_has_one_token_of_context(model: Path, plain: Plain) -> None:
    prompts = Prompts(find_model(str(model)), Template())
    output, long = TEXTS[30], " ".join(TEXTS[:6])
    room = CONTEXT - len(plain.ids("\n"))
    for new, fits in ((room - 1, True), (room, False)):
        if fits:
            assert len(prompts.prefix(long, None, new).prefix) == 1 + len(plain.ids("\n"))
        else:
            with pytest.raises(InputError, match="do not fit"):
                prompts.prefix(long, None, new)
    found = prompts.pair([long, ""], None, output)
    assert found is not None and len(found[0].prefix) + len(found[0].own) == CONTEXT and found[1].cut == 0


def test_outputs_without_a_token_are_not_numbers(model: Path, tmp_path: Path) -> None:
    pairs = [Grounded(Evidence("Some."), ""), PAIRS[0]]
    measured = probe(model, tmp_path)
    assert all(np.isnan(values).tolist() == [True, False] for values in measured.score(pairs).values())
    assert measured.lowest_span(pairs)[0] is None and not measured.truncated(pairs).any()
    assert {name: len(values) for name, values in measured.score([]).items()} == dict.fromkeys(measured.score(pairs), 0)


def test_shuffled_contexts_are_those_of_other_rows(model: Path, plain: Plain, tmp_path: Path) -> None:
    pairs = [Grounded(Evidence(text), TEXTS[30]) for text in (*TEXTS[:4], TEXTS[0])]
    found = probe(model, tmp_path, without="shuffled").by_token(pairs)
    likely = np.array([plain.likely(plain.ids(f"{text}\n"), plain.ids(TEXTS[30])) for text in TEXTS[:4]])
    dealt = []
    for one in found:
        assert one is not None
        dealt.append(int(np.abs(likely - one.alone).max(axis=1).argmin()))
        assert np.abs(likely[dealt[-1]] - one.alone).max() < TOLERANCE
    assert sorted(dealt[:4]) == [0, 1, 2, 3] and all(at != other for at, other in enumerate(dealt[:4]))
    # Equal contexts get the same other one, and other seeds deal anew.
    assert dealt[4] == dealt[0]
    sums = [probe(model, tmp_path, without="shuffled", seed=seed).score(pairs)["cxmi_output"] for seed in range(4)]
    assert len({tuple(values) for values in sums}) > 1


def test_a_context_is_shuffled_alike_for_few_pairs_and_for_all(model: Path, tmp_path: Path) -> None:
    contexts = [pair.evidence.text for pair in PAIRS]
    asked = probe(model, tmp_path, without="shuffled", contexts=contexts)
    whole = asked.score(PAIRS)["cxmi_token"]
    for at, pair in enumerate(PAIRS):
        (alone,) = asked.score([pair])["cxmi_token"]
        assert alone == pytest.approx(whole[at], abs=TOLERANCE, nan_ok=True)


def test_a_context_cannot_be_shuffled_with_itself(model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="All rows have the same context"):
        probe(model, tmp_path, without="shuffled").score([PAIRS[0], PAIRS[0]])


def test_a_given_text_stands_for_no_context(model: Path, plain: Plain, tmp_path: Path) -> None:
    one = probe(model, tmp_path, without="Nothing is known.").by_token(PAIRS[:1])[0]
    expected = plain.likely(plain.ids("Nothing is known.\n"), plain.ids(PAIRS[0].output))
    assert one is not None and np.abs(one.alone - expected).max() < TOLERANCE


class _Killed:
    """Progress that ends the run after the first batch."""

    @contextmanager
    def phase(self, name: str, total: int, unit: str) -> Iterator[Advance]:
        def advance(steps: int) -> None:
            raise KeyboardInterrupt

        yield advance


def test_a_killed_run_goes_on_and_a_second_one_needs_no_model(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    original = token_information.log_likelihoods
    monkeypatch.setattr(token_information, "log_likelihoods", lambda *call: [batches.append(1), original(*call)][1])
    with pytest.raises(KeyboardInterrupt):
        probe(model, tmp_path, progress=_Killed()).score(PAIRS)
    assert len(batches) == 1
    whole = probe(model, tmp_path).score(PAIRS)
    count = len(batches)
    # Row 3 has no context, which is as blank as what it is held against.
    assert count == -(-(2 * len(PAIRS) - 1) // 3)
    monkeypatch.setattr(token_information, "CausalLM", lambda *call, **named: pytest.fail("loaded again"))
    again = probe(model, tmp_path).score(PAIRS[::-1])
    assert len(batches) == count
    assert all((again[name][::-1] == values).all() for name, values in whole.items())


def test_another_template_or_number_format_is_computed_anew(model: Path, tmp_path: Path) -> None:
    for count, call in enumerate([{}, {"template": "{context} {output}"}, {"dtype": "bfloat16"}, {}], 1):
        probe(model, tmp_path, **call).score(PAIRS[:1])
        assert len(list(tmp_path.rglob("*.safetensors"))) == min(count, 3)


@pytest.mark.parametrize(
    "text",
    ["{context}", "{output}", "{output}\n{context}", "{context}{context}{output}", "{context}{output}{output}",
     "{context}\n{output} so", "{Context}{output}", "{context}{ output}"],
)  # fmt: skip
def test_templates_without_their_places_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "template.txt"
    path.write_text(text + " ", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_template(path)
    assert "{context} once" in str(caught.value) and caught.value.where == str(path) and caught.value.hint


def test_a_template_holds_texts_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "template.txt"
    path.write_bytes(b"Q: {question}\r\nRead: {context}\nA:{output}\r\n")
    template = read_template(path)
    prompt, start, end = template.prompt("{output} {question} \\1", "{context}?")
    assert prompt[start:end] == "{output} {question} \\1" and prompt.endswith("\nA:")
    assert Template().prompt("x", None)[0] == "x\n" and Template().prompt("x", "y")[0] == "x\ny\n"
