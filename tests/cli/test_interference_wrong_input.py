"""Does every wrong input of `miles interference` end in one panel that says what is wrong, before any training?"""

import json
import os
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from refusals import HTML, Table, Words, nothing_runs, one_panel

from audits.core import runner

CASES = Table()
case = CASES.case
CARRY_OUT = runner.carry_out
"""As it is before it is replaced."""
TEXT = b"".join(f"sentence number {place} of this language\n".encode() for place in range(40))
CODES = ("ar", "en", "fr")
LOSSES = "lang,with,seed,loss\n" + "".join(
    f"{lang},{other},{seed},{2 + seed / 10 + (lang != other) / 5}\n"
    for seed in (0, 1)
    for lang in CODES
    for other in CODES
)


@dataclass(frozen=True)
class Small:
    """Three short texts with their attributes, losses, and folders of models; nothing in it is wrong."""

    folder: Path

    @property
    def corpus(self) -> Path:
        return self.folder / "corpus"

    def trained(self, *more: Any, corpus: Any = None) -> Words:
        """Return a run that trains."""
        return ["interference", corpus or self.corpus, "--workers", "1", *more]

    def given(self, *more: Any, losses: Any = None) -> Words:
        """Return a run on losses."""
        return ["interference", "--losses", losses or self.folder / "losses.csv", *more]


def trained(name: str, says: Any, *words: Any, **more: Any) -> None:
    """Register wrong words of an otherwise right run that trains."""
    CASES.add(name, says, lambda small, _: small.trained(*words, **more))


def given(name: str, says: Any, *words: Any, **more: Any) -> None:
    """Register wrong words of an otherwise right run on losses."""
    CASES.add(name, says, lambda small, _: small.given(*words, **more))


def text(name: str, says: Any, content: bytes) -> None:
    """Register a corpus of which one text is this."""

    def make(small: Any, folder: Path) -> Words:
        return small.trained(corpus=corpus(folder, en=content))

    CASES.add(name, says, make)


def table(name: str, says: Any, content: str | bytes, flag: str, file: str = "wrong.csv") -> None:
    """Register a file that is given beside right losses, or in their place."""

    def make(small: Any, folder: Path) -> Words:
        path = folder / file
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return small.given(losses=path) if flag == "--losses" else small.given(flag, path)

    CASES.add(name, (says, file) if isinstance(says, str) else (*says, file), make)


def attributes(name: str, says: Any, content: str | bytes) -> None:
    """Register a langs.csv beside right texts."""

    def make(small: Any, folder: Path) -> Words:
        place = corpus(folder)
        (place / "langs.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
        return small.trained(corpus=place)

    CASES.add(name, (says, "langs.csv") if isinstance(says, str) else (*says, "langs.csv"), make)


def corpus(folder: Path, **texts: bytes) -> Path:
    """Write three languages, some of which are others."""
    place = folder / "corpus"
    place.mkdir(exist_ok=True)
    for code, content in {**{code: code.encode() + TEXT for code in CODES}, **texts}.items():
        (place / f"{code}.txt").write_bytes(content)
    return place


# The texts.
CASES.add("nothing_at_all", ("CORPUS_DIR is missing", "--losses"), lambda small, _: ["interference"])
trained("corpus_missing", ("no such folder", "/nowhere/corpus"), corpus="/nowhere/corpus")
trained("corpus_missing_with_codes", ("no such folder", "/nowhere"), "--langs", "en,fr", corpus="/nowhere")
text("text_empty", ("The file is empty", "en.txt"), b"")
text("text_of_one_sentence", ("only one sentence", "en.txt"), b"one sentence\n")
text("text_of_nineteen", ("19 sentences", "en.txt"), TEXT[: TEXT.index(b"sentence number 19 ")])
text("text_blank", ("no sentences", "en.txt"), b"\n \n\t\n" * 30)
text("text_in_latin_1", ("0xe9 is not UTF-8", "en.txt"), TEXT + "été\n".encode("latin-1"))
text("text_in_utf_16", ("UTF-16", "en.txt"), TEXT.decode().encode("utf-16"))
text("text_with_a_nul", ("NUL byte", "en.txt"), TEXT + b"a\0b\n")
text("text_gzipped", ("gzip", "en.txt"), b"\x1f\x8b" + bytes(99))
text("text_pickled", ("en.txt",), pickle.dumps(list(range(999))))
text("text_of_a_web_page", ("web page", "en.txt"), HTML.encode() * 30)
text("text_of_one_endless_line", ("en.txt",), b"word " * 300_000)
text("text_of_one_sentence_again_and_again", ("No sentence is left", "en.txt"), b"the same\n" * 40)


@case("no language", "corpus")
def corpus_empty(small: Any, folder: Path) -> Words:
    (folder / "corpus").mkdir()
    return small.trained(corpus=folder / "corpus")


@case("corpus")
def corpus_is_a_file(small: Any, folder: Path) -> Words:
    (folder / "corpus").write_text("mine", encoding="utf-8")
    return small.trained(corpus=folder / "corpus")


@case("nobody to interfere with", "--langs")
def corpus_of_one_language(small: Any, folder: Path) -> Words:
    (folder / "corpus").mkdir()
    (folder / "corpus" / "en.txt").write_bytes(TEXT)
    return small.trained(corpus=folder / "corpus")


@case("a folder, not a file", "en.txt")
def text_is_a_folder(small: Any, folder: Path) -> Words:
    place = corpus(folder)
    (place / "en.txt").unlink()
    (place / "en.txt").mkdir()
    return small.trained(corpus=place)


@case("link leads out of its folder", "en.txt")
def text_is_a_dead_link(small: Any, folder: Path) -> Words:
    place = corpus(folder)
    (place / "en.txt").unlink()
    (place / "en.txt").symlink_to(folder / "nowhere")
    return small.trained(corpus=place)


@case("not an ordinary file", "en.txt")
def text_is_a_pipe(small: Any, folder: Path) -> Words:
    place = corpus(folder)
    (place / "en.txt").unlink()
    os.mkfifo(place / "en.txt")
    return small.trained(corpus=place)


@case("link leads out of its folder", "en.txt")
def text_is_a_device(small: Any, folder: Path) -> Words:
    place = corpus(folder)
    (place / "en.txt").unlink()
    (place / "en.txt").symlink_to("/dev/zero")
    return small.trained(corpus=place)


@case("differ only by case", "--langs")
def codes_that_differ_by_case(small: Any, folder: Path) -> Words:
    return small.trained("--langs", "en,EN", corpus=corpus(folder, EN=TEXT))


# Codes and pairs.
trained("langs_of_one", ("nobody to interfere with", "--langs"), "--langs", "en")
trained("langs_twice", ("'en' is given twice", "--langs"), "--langs", "en,fr,en")
trained("langs_unknown", ("no such file", "de.txt"), "--langs", "en,de")
trained("langs_that_escape", ("'../en' cannot be the code", "--langs"), "--langs", "../en,fr")
trained("langs_that_are_absolute", ("cannot be the code", "--langs"), "--langs", "/etc/passwd,fr")
trained("langs_joined_by_plus", ("cannot be the code", "--langs"), "--langs", "en+fr,ar")
trained("langs_with_a_nul", ("cannot be the code", "--langs"), "--langs", "e\0n,fr")
trained("pairs_malformed", ("'en' is no pair", "--pairs"), "--pairs", "en")
trained("pairs_unknown", ("'de'", "--pairs", "There are: ar, en, fr"), "--pairs", "en-de")
trained("pairs_twice", ("given twice", "--pairs"), "--pairs", "en-fr,fr-en")
trained("pairs_beyond_langs", ("'ar'", "--pairs"), "--langs", "en,fr", "--pairs", "en-ar")

# langs.csv.
attributes("attributes_without_codes", "There is no column 'code'", "name,script\nen,Latn\n")
attributes("attributes_twice", "'en' has a row already", "code,script\nen,Latn\nen,Arab\n")
attributes("attributes_of_nobody", "The code is empty", "code,script\n,Latn\n")
attributes("attributes_short", (), "code,script\nen\n")
attributes("attributes_binary", (), bytes(range(256)) * 9)
attributes("attributes_empty", (), "")

# Numbers.
# One of each kind: tests/unit/test_options.py has the bounds and the choices of all options.
for flag, value, word in (("--window", "7", "small"), ("--vocabulary", "70000", "large"), ("--rate", "nan", "small")):
    trained(f"{flag[2:]}_of_{value}", (flag, f"{value} is too {word}"), f"{flag}={value}")
trained(
    "hidden_that_heads_do_not_divide",
    ("split among 3 heads", "--hidden", "multiple of the heads", "--heads"),
    "--heads",
    "3",
)
trained("front_even", ("has no middle", "--front", "odd number"), "--front", "8")
trained("seeds_of_a_word", ("--seeds",), "--seeds", "three")
trained("triples_beyond_all", ("1 mixtures of three", "--check-triples"), "--check-triples", "2")
trained("budget_unknown", ("--budget", "same-data"), "--budget", "same-steps")
trained("level_beyond_all", ("--level",), "--level", "1")
trained("option_unknown", "No such option", "--epochs", "3")
trained("window_beyond_the_text", ("--window",), "--window", "8192")

# Machines.
trained("array_of_4_of_3", ("is no part of the work", "--array"), "--array=4/3")
trained("scheduler_of_loky", ("--scheduler", "--backend dask"), "--scheduler", "tcp://127.0.0.1:8786")
trained("merge_missing", ("no folder", "--merge"), "--merge", "/nowhere/results")


@case("--array", "--sbatch")
def sbatch_without_a_number_of_tasks(small: Any, folder: Path) -> Words:
    return small.trained("--sbatch", folder / "job.sh", "--dry-run")


@case("job.sh")
def sbatch_in_no_folder(small: Any, folder: Path) -> Words:
    return small.trained("--sbatch", folder / "nowhere" / "job.sh", "--array", "1/3", "--dry-run")


@case("job.sh")
def sbatch_is_a_folder(small: Any, folder: Path) -> Words:
    (folder / "job.sh").mkdir()
    return small.trained("--sbatch", folder / "job.sh", "--array", "1/3", "--dry-run")


@case("--sbatch")
def sbatch_over_a_text(small: Any, folder: Path) -> Words:
    place = corpus(folder)
    return small.trained("--sbatch", place / "en.txt", "--array", "1/3", "--dry-run", corpus=place)


@case("--results")
def results_is_a_file(small: Any, folder: Path) -> Words:
    (folder / "results").write_text("mine", encoding="utf-8")
    return small.trained("--results", folder / "results")


@case("--merge")
def merge_is_a_file(small: Any, folder: Path) -> Words:
    (folder / "results").write_text("mine", encoding="utf-8")
    return small.trained("--merge", folder / "results")


# Losses.
given("losses_missing", ("no such file", "/nowhere/l.csv"), losses="/nowhere/l.csv")
given("losses_and_a_model", ("--model", "nothing is trained"), "--model", "somewhere")
given("losses_of_an_unknown_language", ("no loss of 'de'", "losses.csv"), "--langs", "en,de")
given("losses_of_one_language", ("losses.csv",), "--langs", "en")
given("losses_of_a_language_twice", ("'en' is given twice", "--langs"), "--langs", "en,fr,en")
given("losses_of_an_unknown_pair", ("'de'", "--pairs"), "--pairs", "en-de")
given("losses_beside_no_corpus", ("no such folder", "/nowhere"), "/nowhere")
table("losses_empty", (), "", "--losses")
table("losses_only_a_header", "a header but no rows", "lang,with,seed,loss\n", "--losses")
table("losses_binary", (), bytes(range(256)) * 9, "--losses")
table("losses_of_a_web_page", "web page", HTML, "--losses")
table("losses_without_a_column", "There is no column 'with'", LOSSES.replace("with", "other", 1), "--losses")
table("losses_of_a_word", "'high' is no loss", LOSSES + "en,fr,7,high\n", "--losses")
table("losses_twice", "already", LOSSES + "en,fr,0,2\n", "--losses")
table("losses_of_no_code", "is no code of a language", LOSSES + "../en,fr,0,2\n", "--losses")
table("losses_of_singles_only", "can be compared", "lang,with,loss\nen,en,2\nfr,fr,2\n", "--losses")
table("losses_of_broken_json", (), '{"lang": "en"', "--losses", file="wrong.jsonl")
table("losses_of_deep_json", (), "[" * 100_000, "--losses", file="wrong.json")
table("losses_in_utf_16", (), LOSSES.encode("utf-16"), "--losses")


@case("pipe")
def losses_are_a_pipe(small: Any, folder: Path) -> Words:
    os.mkfifo(folder / "pipe")
    return small.given(losses=folder / "pipe")


@case("losses")
def losses_are_a_folder(small: Any, folder: Path) -> Words:
    (folder / "losses").mkdir()
    return small.given(losses=folder / "losses")


# Similarities and scores.
for flag in ("--similarity", "--downstream"):
    name = flag[2:]
    given(f"{name}_missing", ("no such file", "/nowhere/s.csv"), flag, "/nowhere/s.csv")
    table(f"{name}_empty", (), "", flag)
    table(f"{name}_binary", (), bytes(range(256)) * 9, flag)
    table(f"{name}_of_a_web_page", (), HTML, flag)
table("similarity_of_words", "No column holds a number", "a,b,near\nen,fr,yes\n", "--similarity")
table("similarity_of_half_a_number", "is not a number", "a,b,near\nen,fr,1\nen,ar,about 2\n", "--similarity")
table("similarity_of_strangers", "no number for any pair", "a,b,near\nde,es,1\n", "--similarity")
table("similarity_twice", "already", "a,b,near\nen,fr,1\nen,fr,2\n", "--similarity")
table("similarity_of_nobody", "names no language", "a,b,near\n,fr,1\n", "--similarity")
table("similarity_of_no_form", "neither of pairs nor square", "x,y,near\n1,2,3\n", "--similarity")
table("downstream_of_nobody", "do not say of which language", "task,f1\nner,0.5\n", "--downstream")
table("downstream_of_words", "No column holds a number", "code,f1\nen,good\n", "--downstream")
table("downstream_of_half_a_number", "is not a number", "code,f1\nen,0.5\nfr,half\n", "--downstream")
table("downstream_of_strangers", "no number for any language", "code,f1\nde,0.5\n", "--downstream")
table("downstream_of_strange_pairs", "no number for any pair", "target,source,f1\nde,es,0.5\n", "--downstream")
table("downstream_twice", "already", "code,f1\nen,0.5\nen,0.6\n", "--downstream")


@case("named 'near'", "--similarity")
def similarities_of_one_name(small: Any, folder: Path) -> Words:
    for name in ("one.csv", "two.csv"):
        (folder / name).write_text("a,b,near\nen,fr,1\n", encoding="utf-8")
    return small.given("--similarity", folder / "one.csv", "--similarity", folder / "two.csv")


@case("family", "--similarity")
def similarity_named_as_an_attribute(small: Any, folder: Path) -> Words:
    (folder / "one.csv").write_text("a,b,family\nen,fr,1\n", encoding="utf-8")
    return small.given(small.corpus, "--similarity", folder / "one.csv")


# Tokenizers and models.
trained("tokenizer_missing", ("no such file", "/nowhere/t.json"), "--tokenizer", "/nowhere/t.json")
trained("tokenizer_unknown", ("wordpiece",), "--tokenizer", "wordpiece")
trained("model_missing", ("/nowhere/model",), "--model", "/nowhere/model")
trained("model_and_a_size", ("--hidden does nothing", "has its own"), "--model", "anything", "--hidden", "32")
trained("model_and_a_rate_of_muon", ("--matrix-rate does nothing",), "--model", "anything", "--matrix-rate", "0.01")
trained("vocabulary_of_bytes", ("--vocabulary", "trained here", "--tokenizer bpe"), "--vocabulary", "500")
CASES.add(
    "langs_that_take_the_folder",
    ("for a language", "--langs", "Put the folder first"),
    lambda small, _: ["interference", "--langs", "en,fr", small.corpus],
)
trained("model_and_tokenizer", ("--tokenizer does nothing", "has its own"), "--model", "anything", "--tokenizer", "bpe")


def tokenizer(name: str, says: Any, content: str | bytes) -> None:
    def make(small: Any, folder: Path) -> Words:
        path = folder / "tokenizer.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return small.trained("--tokenizer", path)

    CASES.add(name, (says, "tokenizer.json") if isinstance(says, str) else (*says, "tokenizer.json"), make)


tokenizer("tokenizer_empty", (), "")
tokenizer("tokenizer_no_json", (), "hello")
tokenizer("tokenizer_of_nothing", (), "{}")
tokenizer("tokenizer_list", (), "[1, 2]")
tokenizer("tokenizer_deep", (), "[" * 100_000)
tokenizer("tokenizer_pickled", (), pickle.dumps({"model": 1}))
tokenizer("tokenizer_of_no_known_model", (), json.dumps({"version": "1.0", "model": {"type": "Evil", "vocab": {}}}))
tokenizer("tokenizer_of_huge_ids", (), json.dumps({
    "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None, "decoder": None, "truncation": None, "padding": None,
    "model": {"type": "WordLevel", "vocab": {"[MASK]": 0, "[UNK]": 4_000_000_000}, "unk_token": "[UNK]"},
}))  # fmt: skip


def model(name: str, says: Any, **files: Any) -> None:
    """Register a folder of a model that holds these files; a dictionary is written as JSON."""

    def make(small: Any, folder: Path) -> Words:
        place = folder / "model"
        place.mkdir()
        for file, content in files.items():
            path = place / file.replace("_json", ".json").replace("__", ".")
            path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return small.trained("--model", place)

    CASES.add(name, (says,) if isinstance(says, str) else says, make)


BERT = {"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 300, "hidden_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8, "max_position_embeddings": 64,
        "torch_dtype": "float32"}  # fmt: skip
GPT = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 300, "n_embd": 8, "n_layer": 1,
       "n_head": 1, "n_positions": 64}  # fmt: skip
model("model_of_an_empty_folder", "No subfolder holds a model")
model("model_of_no_json", "config.json", config_json=b"hello")
model("model_without_weights", "model", config_json=BERT)
model("model_pickled", "model", config_json=BERT, pytorch_model__bin=pickle.dumps({"weight": 1}))
model("model_of_weights_that_are_none", "model", config_json=BERT, model__safetensors=bytes(16))
model("model_of_no_known_family", "model", config_json={"model_type": "evil"}, model__safetensors=bytes(16))
model("model_of_code", "model", config_json={**BERT, "auto_map": {"AutoModelForMaskedLM": "evil.Evil"},
                                            "model_type": "evil"}, evil__py=b"raise SystemExit(7)")  # fmt: skip


def tokenizer_into(folder: Path) -> None:
    """Write the rules of a few words and marks."""
    names = {name: place for place, name in enumerate(["[PAD]", "[UNK]", "[MASK]", "</s>", "word"])}
    tokens = [{"id": place, "content": name, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
               "normalized": False} for name, place in names.items() if name != "word"]  # fmt: skip
    content = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": None,
               "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
               "model": {"type": "WordLevel", "vocab": names, "unk_token": "[UNK]"}}  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")


@case("sees only what stands before", "config.json")
def model_that_continues_texts(small: Any, folder: Path) -> Words:
    from probes.core.library_imports import transformers

    hub = transformers()
    hub.GPT2LMHeadModel(hub.GPT2Config(**GPT)).save_pretrained(folder / "model")
    tokenizer_into(folder / "model")
    return small.trained("--model", folder / "model")


@case("parameters, which would be drawn at random")
def model_without_its_head(small: Any, folder: Path) -> Words:
    from probes.core.library_imports import transformers

    hub = transformers()
    hub.BertModel(hub.BertConfig(**BERT), add_pooling_layer=False).save_pretrained(folder / "model")
    tokenizer_into(folder / "model")
    return small.trained("--model", folder / "model")


@case("is a file", "model")
def model_is_a_file(small: Any, folder: Path) -> Words:
    (folder / "model").write_text("mine", encoding="utf-8")
    return small.trained("--model", folder / "model")


@case("no model of ar", "sets")
def models_without_one_of_a_language(small: Any, folder: Path) -> Words:
    for name in ("en", "fr", "en+fr"):
        (folder / "sets" / name).mkdir(parents=True)
        (folder / "sets" / name / "config.json").write_text(json.dumps(BERT), encoding="utf-8")
    return small.trained("--model", folder / "sets")


@case("models of the same languages", "sets")
def models_of_the_same_languages(small: Any, folder: Path) -> Words:
    for name in ("en", "fr", "en+fr", "fr+en"):
        (folder / "sets" / name).mkdir(parents=True)
        (folder / "sets" / name / "config.json").write_text(json.dumps(BERT), encoding="utf-8")
    return small.trained("--model", folder / "sets", "--langs", "en,fr")


# The run folder, gates and the configuration.
trained("gate_of_nobody", ("--fail-if", "de"), "--fail-if", "interference[target=de,source=en].low > 0")
trained("gate_of_no_key", ("--fail-if", "layer", "target"), "--fail-if", "interference[layer=1].low > 0")
trained("gate_of_no_estimate", ("--fail-if", "hurts"), "--fail-if", "hurts[target=en] > 0")
trained("gate_of_no_order", ("--fail-if", "trigram"), "--fail-if", "baseline[lang=en,order=trigram] > 0")
given("gate_of_a_language_without_losses", ("--fail-if", "de"), "--fail-if", "interference[target=de].low > 0")
given("gate_of_no_attribute", ("--fail-if", "tone"), "--fail-if", "similarity_correlation[attribute=tone] > 0")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Let a case that wrongly passes its checks end at once instead of running the audit."""
    made = Small(tmp_path_factory.mktemp("small"))
    corpus(made.folder)
    (made.corpus / "langs.csv").write_text("code,script,family\nen,Latn,IE\nfr,Latn,IE\nar,Arab,AA\n", encoding="utf-8")
    (made.folder / "losses.csv").write_text(LOSSES, encoding="utf-8")
    with nothing_runs():
        yield made


@pytest.mark.parametrize("name", CASES.names())
def test_wrong_input_ends_in_one_panel(small: Small, refused: Callable[..., None], name: str) -> None:
    refused(CASES[name], small)


def test_a_cluster_that_is_not_there_is_told(
    small: Small, call_miles: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    from audits.core import runner
    from probes.core import executor

    monkeypatch.setattr(executor, "PATIENCE", 0.2)
    monkeypatch.setattr(runner, "carry_out", CARRY_OUT)
    words = small.trained("--backend", "dask", "--scheduler", "tcp://127.0.0.1:1", "--out", tmp_path / "run")
    outcome = call_miles(*words, "--seeds", "1", "--window", "8", cwd=tmp_path)
    one_panel(outcome, "--scheduler", "tcp://127.0.0.1:1")
    assert not (tmp_path / "run" / "report.json").exists()


def test_what_is_not_wrong_passes(small: Small, call_miles: Any, tmp_path: Path) -> None:
    # Its time is measured in the tests of its own.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audits.interference.inputs.measured_cost", lambda *_: ())
        (tmp_path / "near.csv").write_text("a,b,near\nen,fr,1\nen,ar,2\n", encoding="utf-8")
        (tmp_path / "f1.csv").write_text("code,f1\nen,0.5\nfr,0.7\n", encoding="utf-8")
        for words in (
            small.trained(),
            small.trained("--langs", "fr,en", "--pairs", "fr-en", "--budget", "same-total"),
            small.trained("--check-triples", "1", "--front", "0", "--matrix-rate", "0", "--margin", "0"),
            small.trained("--array", "3/3", "--merge", tmp_path),
            small.trained("--fail-if", "interference[target=en,source=fr].low > 0.1"),
            small.trained("--fail-if", "baseline[lang=en,order=bigram] > 9"),
            small.given(),
            small.given(small.corpus, "--langs", "en,fr"),
            small.given("--pairs", "en-fr", "--correction", "bh"),
            small.given("--similarity", tmp_path / "near.csv", "--downstream", tmp_path / "f1.csv"),
            small.given("--downstream", tmp_path / "f1.csv", "--fail-if", "downstream_correlation[score=f1] < 0"),
            small.given("--downstream", tmp_path / "f1.csv", "--fail-if", "p_value[test=f1] < 0.05"),
        ):
            outcome = call_miles(*words, "--dry-run", cwd=tmp_path)
            assert outcome.code == 0, (words, outcome.err)
            assert "every input is in order" in outcome.out


def test_a_language_without_attributes_is_told_and_the_run_goes_on(
    small: Small, call_miles: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audits.interference.inputs.measured_cost", lambda *_: ())
    place = corpus(tmp_path)
    (place / "langs.csv").write_text("code,script\nen,Latn\nfr,Latn\n", encoding="utf-8")
    outcome = call_miles(*small.trained("--dry-run", corpus=place), cwd=tmp_path)
    assert outcome.code == 0 and "ar is not in langs.csv" in " ".join(outcome.out.split())


def test_damaged_losses_never_end_in_a_traceback(small: Small, call_miles: Any, tmp_path: Path) -> None:
    """Bytes of a right file are changed at random: it is refused in one panel, or read."""
    rng = random.Random(0)
    for _ in range(25):
        data = bytearray(LOSSES.encode())
        for _ in range(rng.randrange(1, 8)):
            place = rng.randrange(len(data))
            if rng.random() < 0.5:
                data[place] = rng.randrange(256)
            else:
                del data[place : place + rng.randrange(1, 30)]
        (tmp_path / "wrong.csv").write_bytes(bytes(data))
        outcome = call_miles(*small.given("--dry-run", losses=tmp_path / "wrong.csv"), cwd=tmp_path)
        assert outcome.code in (0, 2) and "Traceback" not in outcome.err, bytes(data)
        assert "an error of its own" not in outcome.err, bytes(data)


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 80
