import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_models
import torch

from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.hashing import sha256_file
from probes.language_models import mixture_models as module
from probes.language_models.language_corpora import read_language
from probes.language_models.masked_training import Recipe, held_positions
from probes.language_models.mixture_models import (
    DIVERGED,
    TRAINED,
    Corpus,
    Held,
    Job,
    Sizes,
    check_value,
    fit,
    held_of,
    windows_of,
)
from probes.language_models.model_results import Results
from probes.language_models.text_tokenizers import BYTES, read_tokenizer, train_bpe

WORDS = {"de": b"der hund und das haus", "en": b"the dog and the house", "fr": b"le chien et la maison"}


def write_languages(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for number, (code, line) in enumerate(WORDS.items()):
        rng = np.random.default_rng(number)
        lines = [b" ".join(rng.permutation(line.split())) + b" %d" % count for count in range(120)]
        (folder / f"{code}.txt").write_bytes(b"\n".join(lines) + b"\n")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return small(tmp_path)


def small(place: Path) -> Job:
    """Return a model of two languages that trains in no time."""
    folder = place / "corpus"
    write_languages(folder)
    corpus = Corpus(
        folder=folder,
        hashes={code: sha256_file(folder / f"{code}.txt") for code in WORDS},
        seed=0,
        train_bytes=1500,
        held_bytes=400,
        tokenizer=None,
        tokenizer_hash=BYTES.sha256,
        window=16,
    )
    return Job(
        codes=("de", "en"),
        scored=("de", "en"),
        seed=11,
        corpus=corpus,
        recipe=Recipe(steps=5, batch=4, budget="same-data"),
        sizes=Sizes(layers=1, width=16, heads=2, front=3),
        start=None,
        start_hash="",
        device="cpu",
        dtype="float32",
        cache=Cache(place / "cache"),
        results=Results(place / "results"),
    )


def kept(job: Job) -> list[Path]:
    return sorted(path for path in job.results.folder.rglob("*") if path.is_file())


def texts(job: Job, **more: Any) -> Job:
    return replace(job, corpus=replace(job.corpus, **more))


def recipe(job: Job, **more: Any) -> Job:
    return replace(job, recipe=replace(job.recipe, **more))


def sizes(job: Job, **more: Any) -> Job:
    assert job.sizes is not None
    return replace(job, sizes=replace(job.sizes, **more))


CHANGES: dict[str, Callable[[Job], Job]] = {
    "trained on": lambda job: replace(job, codes=("de",)),
    "scored on": lambda job: replace(job, scored=("de",)),
    "seed": lambda job: replace(job, seed=12),
    "a text": lambda job: texts(job, hashes={**job.corpus.hashes, "de": "0" * 64}),
    "texts exchanged": lambda job: texts(
        job, hashes={"de": job.corpus.hashes["en"], "en": job.corpus.hashes["de"], "fr": job.corpus.hashes["fr"]}
    ),
    "division": lambda job: texts(job, seed=1),
    "bytes to train on": lambda job: texts(job, train_bytes=1501),
    "bytes held out": lambda job: texts(job, held_bytes=401),
    "tokenizer": lambda job: texts(job, tokenizer_hash="1" * 64),
    "window": lambda job: texts(job, window=17),
    "steps": lambda job: recipe(job, steps=6),
    "batch": lambda job: recipe(job, batch=5),
    "budget": lambda job: recipe(job, budget="same-total"),
    "share": lambda job: recipe(job, share=0.16),
    "rate": lambda job: recipe(job, rate=2e-3),
    "matrix rate": lambda job: recipe(job, matrix_rate=0.0),
    "warm-up": lambda job: recipe(job, warmup=0.2),
    "layers": lambda job: sizes(job, layers=2),
    "width": lambda job: sizes(job, width=18),
    "heads": lambda job: sizes(job, heads=4),
    "front": lambda job: sizes(job, front=0),
    "start": lambda job: replace(job, sizes=None, start="folder", start_hash="2" * 64),
    "device": lambda job: replace(job, device="cuda"),
    "type": lambda job: replace(job, dtype="bfloat16"),
}


def test_whatever_changes_what_is_scored_changes_the_key(job: Job) -> None:
    keys = {name: json.dumps(change(job).key, sort_keys=True) for name, change in CHANGES.items()}
    keys["as it is"] = json.dumps(job.key, sort_keys=True)
    assert len(set(keys.values())) == len(keys)


def test_the_version_of_torch_and_of_this_module_are_in_the_key(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [job.key]
    monkeypatch.setattr(module, "VERSION", module.VERSION + 1)
    keys.append(job.key)
    monkeypatch.setattr(module, "version", lambda name: "0.0")
    keys.append(job.key)
    assert keys[0] != keys[1] != keys[2]


SAME: dict[str, Callable[[Job], Job]] = {
    "folder of the texts": lambda job: texts(job, folder=Path("/elsewhere")),
    "path of the tokenizer": lambda job: texts(job, tokenizer=Path("/elsewhere/tokenizer.json")),
    "a further language": lambda job: texts(job, hashes={**job.corpus.hashes, "xx": "3" * 64}),
    "another text of a language that is not read": lambda job: texts(job, hashes={**job.corpus.hashes, "fr": "4" * 64}),
    "cache": lambda job: replace(job, cache=Cache(Path("/elsewhere"))),
    "results": lambda job: replace(job, results=Results(Path("/elsewhere"), (Path("/more"),))),
    "path of the start": lambda job: replace(job, start="/elsewhere"),
}


@pytest.mark.parametrize("name", SAME)
def test_paths_and_other_languages_do_not_change_the_key(job: Job, name: str) -> None:
    assert SAME[name](job).key == job.key


def test_which_of_several_gpus_does_not_change_the_key(job: Job) -> None:
    assert replace(job, device="cuda:0").key == replace(job, device="cuda:3").key


def test_a_model_is_trained_once_and_leaves_one_small_file(job: Job) -> None:
    assert fit(job) == TRAINED
    path = job.results.path(job.key)
    assert kept(job) == [path] and path.stat().st_size < 20_000
    first = (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes())
    # Training again would write another file over it.
    assert fit(job) == TRAINED
    assert first == (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes())
    path.unlink()
    assert fit(job) == TRAINED and path.read_bytes() == first[2]


def test_a_model_of_another_machine_is_not_trained_again(job: Job, tmp_path: Path) -> None:
    # Losses that training here would not give.
    value = module.measure(job)
    for row in value["losses"].values():
        row["nats"] = [nats / 2 for nats in row["nats"]]
    job.results.write(job.key, value)
    here = replace(job, results=Results(tmp_path / "here", (job.results.folder,)))
    assert fit(here) == TRAINED and [path.read_bytes() for path in kept(here)] == [
        path.read_bytes() for path in kept(job)
    ]


def test_what_is_kept_is_of_every_held_out_sentence(job: Job) -> None:
    value = module.measure(job)
    assert value["status"] == TRAINED and set(value["losses"]) == set(value["curves"]) == {"de", "en"}
    for code, loss in value["losses"].items():
        text = read_language(job.corpus.folder, code, seed=0, train_bytes=1500, held_bytes=400)
        held = windows_of(job.corpus, code, BYTES, job.cache)[1]
        assert len(loss["nats"]) == len(loss["masked"]) == held.sentences == len(text.held)
        drawn = held_positions(held, share=0.15, seed=0, code=code)
        assert sum(loss["masked"]) == drawn.numel() and loss["tokens_per_byte"] == pytest.approx(1)
        # After five steps a byte costs about what it costs at random.
        assert 2 < sum(loss["nats"]) / sum(loss["masked"]) < 7
        assert all((nats > 0) == (count > 0) for nats, count in zip(loss["nats"], loss["masked"], strict=True))
    assert all(len(curve) == 5 for curve in value["curves"].values())


def test_advance_is_called_at_every_step(job: Job) -> None:
    told: list[None] = []
    module.measure(job, lambda: told.append(None))
    assert len(told) == 5


def test_each_language_is_scored_alike_beside_any_other(job: Job) -> None:
    whole = module.measure(job)
    part = module.measure(replace(job, scored=("en",)))
    assert part["losses"] == {"en": whole["losses"]["en"]} and part["curves"] == whole["curves"]
    unseen = module.measure(replace(job, scored=("fr",)))
    assert set(unseen["losses"]) == {"fr"} and set(unseen["curves"]) == {"de", "en"}


def test_models_of_all_seeds_are_asked_the_same(job: Job) -> None:
    one, two = (module.measure(replace(job, seed=seed)) for seed in (1, 2))
    for code in ("de", "en"):
        assert one["losses"][code]["masked"] == two["losses"][code]["masked"]
        assert one["losses"][code]["nats"] != two["losses"][code]["nats"]


def test_without_steps_a_model_is_scored_as_it_is(job: Job) -> None:
    value = module.measure(recipe(job, steps=0))
    assert value["curves"] == {}
    # Weights that are drawn close to nothing make all bytes alike likely.
    for loss in value["losses"].values():
        assert sum(loss["nats"]) / sum(loss["masked"]) == pytest.approx(np.log(257), rel=0.02)


def test_a_model_that_diverged_is_told_and_kept_as_such(job: Job) -> None:
    wild = recipe(job, rate=1e25, matrix_rate=0.0)
    assert fit(wild) == DIVERGED
    value = wild.results.read(wild.key)
    assert value is not None and value["status"] == DIVERGED and value["losses"] == value["curves"] == {}
    assert value["parameters"] > 0
    path = wild.results.path(wild.key)
    first = (path.stat().st_mtime_ns, path.stat().st_ino)
    assert fit(wild) == DIVERGED and first == (path.stat().st_mtime_ns, path.stat().st_ino)


def test_a_model_that_diverged_in_its_last_step_is_told(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = module.train

    def broken(network: torch.nn.Module, *words: Any, **more: Any) -> Any:
        went = plain(network, *words, **more)
        with torch.no_grad():
            next(network.parameters()).fill_(float("nan"))
        return went

    monkeypatch.setattr(module, "train", broken)
    assert fit(job) == DIVERGED


def test_texts_are_read_once_and_then_taken_from_the_cache(job: Job) -> None:
    first = windows_of(job.corpus, "de", BYTES, job.cache)
    text = job.corpus.folder / "de.txt"
    lines = text.read_bytes().splitlines()
    text.unlink()
    again = windows_of(job.corpus, "de", BYTES, job.cache)
    for one, two in zip(first, again, strict=True):
        assert torch.equal(one.ids, two.ids) and torch.equal(one.sentence, two.sentence)
        assert (one.sentences, one.tokens, one.bytes) == (two.sentences, two.tokens, two.bytes)
    held = b"".join(bytes(row) for row in again[1].ids.tolist())
    assert all(line in lines for line in held.split(b"\n")[:-1])


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"train_bytes": 700}, {"held_bytes": 300}, {"window": 8}, {"tokenizer_hash": "5" * 64}]
)
def test_texts_that_are_cut_otherwise_are_not_taken_from_the_cache(job: Job, change: dict[str, Any]) -> None:
    windows_of(job.corpus, "de", BYTES, job.cache)
    other = replace(job.corpus, **change)
    tokenizer = replace(BYTES, sha256=change.get("tokenizer_hash", BYTES.sha256))
    found = windows_of(other, "de", tokenizer, job.cache)
    anew = windows_of(other, "de", tokenizer, Cache(job.cache.folder / "empty"))
    for one, two in zip(found, anew, strict=True):
        assert torch.equal(one.ids, two.ids) and one.bytes == two.bytes
    assert len(list(job.cache.folder.rglob("*.safetensors"))) == 3


def test_a_text_that_changed_meanwhile_is_refused_and_nothing_is_kept(job: Job) -> None:
    path = job.corpus.folder / "de.txt"
    path.write_bytes(path.read_bytes().replace(b"hund", b"katze"))
    with pytest.raises(InputError, match="changed"):
        fit(job)
    assert kept(job) == []


def test_a_trained_tokenizer_is_read_from_its_file(job: Job, tmp_path: Path) -> None:
    lines = (job.corpus.folder / "de.txt").read_bytes().splitlines()
    file = tmp_path / "tokenizer.json"
    file.write_bytes(train_bpe({"de": lines}, 320))
    tokenizer = read_tokenizer(file)
    pieces = texts(job, tokenizer=file, tokenizer_hash=tokenizer.sha256)
    value = module.measure(pieces)
    assert value["status"] == TRAINED and pieces.key != job.key
    assert 0.2 < value["losses"]["de"]["tokens_per_byte"] < 0.6 < value["losses"]["en"]["tokens_per_byte"] < 1
    assert value["parameters"] - module.measure(job)["parameters"] == (tokenizer.size - BYTES.size) * (16 + 1)


def test_a_tokenizer_that_changed_meanwhile_is_refused_and_nothing_is_kept(job: Job, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    lines = (job.corpus.folder / "de.txt").read_bytes().splitlines()
    file.write_bytes(train_bpe({"de": lines}, 320))
    pieces = texts(job, tokenizer=file, tokenizer_hash=read_tokenizer(file).sha256)
    file.write_bytes(train_bpe({"en": (job.corpus.folder / "en.txt").read_bytes().splitlines()}, 320))
    with pytest.raises(InputError, match="changed since the run began") as told:
        fit(pieces)
    assert told.value.where == str(file) and kept(job) == []


def test_an_encoder_that_changed_meanwhile_is_refused_and_nothing_is_kept(job: Job, tmp_path: Path) -> None:
    start = str(small_models.hub("masked")(tmp_path))
    with pytest.raises(InputError, match="changed since the run began") as told:
        fit(replace(job, sizes=None, start=start, start_hash="7" * 64))
    assert told.value.where == start and kept(job) == []


# What is kept of a model, and is known without it.
def held(job: Job) -> dict[str, Held]:
    return {code: held_of(job, code, BYTES) for code in job.scored}


def test_what_is_known_of_a_held_out_text_is_what_a_model_keeps_of_it(job: Job) -> None:
    value, known = module.measure(job), held(job)
    for code in job.scored:
        assert list(known[code].masked) == value["losses"][code]["masked"]
        assert known[code].tokens_per_byte == value["losses"][code]["tokens_per_byte"]
        assert known[code].unknown == 0
    check_value(value, job, known)
    check_value({**value, "parameters": 1}, job, known)
    check_value({"status": DIVERGED, "losses": {}, "curves": {}}, job, known)
    still = recipe(job, steps=0)
    check_value(module.measure(still), still, known)


def test_tokens_that_the_tokenizer_does_not_know_are_counted(job: Job) -> None:
    some = int(windows_of(job.corpus, "de", BYTES, job.cache)[1].ids[0, 0])
    ids = windows_of(job.corpus, "de", BYTES, job.cache)[1].ids
    found = held_of(job, "de", replace(BYTES, unknown=some))
    assert found.unknown == pytest.approx(float((ids == some).double().mean())) and 0 < found.unknown < 1


def row(value: dict[str, Any], **more: Any) -> None:
    value["losses"]["de"].update(more)


def first(value: dict[str, Any], name: str, number: Any) -> None:
    value["losses"]["de"][name][0] = number


CONTRADICTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no status": lambda value: value.pop("status"),
    "another status": lambda value: value.update(status="done"),
    "diverged with losses": lambda value: value.update(status=DIVERGED),
    "no losses": lambda value: value.pop("losses"),
    "losses in a list": lambda value: value.update(losses=[1.0]),
    "a language is not there": lambda value: value["losses"].pop("de"),
    "a language too many": lambda value: value["losses"].update(fr=value["losses"]["de"]),
    "losses of a language in a list": lambda value: value["losses"].update(de=[1.0]),
    "negative nats": lambda value: first(value, "nats", -0.1),
    "nats beyond any": lambda value: first(value, "nats", 1e10),
    "nats in words": lambda value: first(value, "nats", "1.0"),
    "nats that are true": lambda value: first(value, "nats", True),
    "nats that are no number": lambda value: first(value, "nats", float("nan")),
    "a sentence too few": lambda value: value["losses"]["de"]["nats"].pop(),
    "no nats": lambda value: value["losses"]["de"].pop("nats"),
    "other hidden tokens": lambda value: first(value, "masked", 99),
    "no hidden tokens": lambda value: value["losses"]["de"].pop("masked"),
    "other tokens a byte": lambda value: row(value, tokens_per_byte=0.99),
    "less than no tokens a byte": lambda value: row(value, tokens_per_byte=-1.0),
    "no tokens a byte": lambda value: value["losses"]["de"].pop("tokens_per_byte"),
    "no curves": lambda value: value.pop("curves"),
    "empty curves": lambda value: value.update(curves={}),
    "a curve of another language": lambda value: value["curves"].update(fr=value["curves"].pop("de")),
    "a short curve": lambda value: value["curves"]["de"].pop(),
    "a curve below nothing": lambda value: value["curves"]["de"].append(-value["curves"]["de"].pop()),
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, dict[str, Any], dict[str, Held]]:
    made = small(tmp_path_factory.mktemp("measured"))
    return made, module.measure(made), held(made)


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_result_that_contradicts_what_is_known_is_refused(
    measured: tuple[Job, dict[str, Any], dict[str, Held]], name: str
) -> None:
    made, value, known = measured
    forged = json.loads(json.dumps(value))
    CONTRADICTIONS[name](forged)
    with pytest.raises(ValueError, match=r"^(it|its|other|the) "):
        check_value(forged, made, known)


def test_a_result_of_no_training_has_no_curves(measured: tuple[Job, dict[str, Any], dict[str, Held]]) -> None:
    made, value, known = measured
    with pytest.raises(ValueError, match="not trained on these languages"):
        check_value(value, recipe(made, steps=0), known)


def test_a_forged_result_is_trained_anew_in_its_place(job: Job) -> None:
    fit(job)
    path = job.results.path(job.key)
    before = path.read_bytes()
    forged = json.loads(before)["value"]
    first(forged, "nats", -1.0)
    job.results.write(job.key, forged)
    assert path.read_bytes() != before
    assert fit(job) == TRAINED and path.read_bytes() == before
