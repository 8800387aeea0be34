"""Is what a run will cost, and cannot say, told before it starts?"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judged_matrices import corpus_of, planned

from audits.core.context import Context
from audits.interference import Options
from audits.interference.inputs import Inputs, check
from audits.interference.preflight import coordinates_of, cost_of, measured_cost, models_words, warnings_of
from probes.core.cache import Cache
from probes.core.executor import Workers
from probes.core.spreading import Machines, part_of


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return corpus_of(tmp_path / "corpus", ("en", "fr", "hi"))


def warned(corpus: Path, **options: Any) -> dict[str, str]:
    return {one.id: one.message for one in warnings_of(*planned(corpus, **options))}


@pytest.mark.parametrize(
    ("sizes", "seeds", "words"),
    [
        ((1, 1, 2), 1, "3 (2 languages, 1 pair; 1 seed)"),
        ((1, 1, 1, 2, 2, 2, 3), 3, "21 (3 languages, 3 pairs, 1 triple; 3 seeds)"),
        ((1,) * 50 + (2,) * 1225, 3, "3,825 (50 languages, 1,225 pairs; 3 seeds)"),
    ],
)
def test_models_are_counted(sizes: tuple[int, ...], seeds: int, words: str) -> None:
    assert models_words([("x",) * size for size in sizes], seeds) == words


def test_the_plan_tells_models_parts_and_what_is_finished(corpus: Path) -> None:
    rows = dict(cost_of(planned(corpus)[0]))
    assert rows["models"] == "12 (3 languages, 3 pairs; 2 seeds)" and rows["finished"].startswith("0 of these")
    # Models 1, 6 and 11 of twelve.
    part = Machines(workers=Workers(count=1), part=part_of("1/5"))
    assert " for 3 models, 1 at once" in dict(measured_cost(planned(corpus)[0], part))["time"]


def test_the_time_is_measured_and_nothing_is_left_behind(corpus: Path) -> None:
    found, _ = planned(corpus)
    before = sorted(corpus.parent.rglob("*"))
    rows = dict(measured_cost(found, Machines()))
    assert list(rows) == ["a model", "time", "memory", "disk"]
    assert "1 language " in rows["a model"] and "2 languages " in rows["a model"]
    assert "12 models" in rows["time"] and "core-hours" in rows["time"] and "GiB" in rows["memory"]
    assert sorted(corpus.parent.rglob("*")) == before


def test_the_time_is_told_from_the_least_to_the_most(corpus: Path) -> None:
    found, _ = planned(corpus, steps=30_000, seeds=1)
    one, four = (
        dict(measured_cost(found, Machines(workers=Workers(count=count))))["time"].partition(" for ")[0]
        for count in (1, 4)
    )
    # Six models on four workers: their share of the work, and up to one model more.
    assert " to " in four and " to " not in one


def test_what_is_finished_is_not_measured(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = planned(corpus, seeds=1)
    for job in found.jobs:
        job.results.write(job.key, {"status": "diverged", "losses": {}, "curves": {}, "parameters": 1})
    found, _ = planned(corpus, seeds=1)
    assert dict(cost_of(found))["finished"].startswith("6 of these")
    assert measured_cost(found, Machines()) == (("time", "nothing is left to train"),)


def test_longer_training_is_said_to_take_longer(corpus: Path) -> None:
    def hours(steps: int) -> float:
        found = dict(measured_cost(planned(corpus, steps=steps, seeds=1)[0], Machines()))["time"]
        return float(found.split("; ")[1].split(" ")[0])

    assert hours(3_000_000) > 10 * hours(3_000)


def test_the_same_text_and_shared_sentences_are_told(corpus: Path) -> None:
    assert "same-text" not in warned(corpus) and "seen-before" not in warned(corpus)
    (corpus / "hi.txt").write_bytes((corpus / "en.txt").read_bytes())
    found = warned(corpus)
    assert "en and hi" in found["same-text"] and "are trained on as" not in found["same-text"]


def test_sentences_that_a_source_trains_on_are_told_with_their_place(corpus: Path) -> None:
    # Lines of one number are held out or trained on in all files alike: these have moved.
    both = (corpus / "fr.txt").read_text(encoding="utf-8") + (corpus / "en.txt").read_text(encoding="utf-8")
    (corpus / "fr.txt").write_text(both, encoding="utf-8")
    places = [one.where for one in warnings_of(*planned(corpus)) if one.id == "seen-before"]
    assert {"target": "fr", "source": "en"} in places


def test_one_seed_is_told(corpus: Path) -> None:
    assert "no cell gets a verdict" in warned(corpus, seeds=1)["one-seed"] and "one-seed" not in warned(corpus)


def test_missing_attributes_are_told(corpus: Path) -> None:
    assert "no langs.csv" in warned(corpus)["no-attributes"]
    (corpus / "langs.csv").write_text("code,script\nen,Latn\nfr,Latn\n", encoding="utf-8")
    assert "hi is not in langs.csv" in warned(corpus)["no-attributes"]
    (corpus / "langs.csv").write_text("code,script\nen,Latn\nfr,Latn\nhi,Deva\n", encoding="utf-8")
    assert "no-attributes" not in warned(corpus)


def test_every_key_of_an_estimate_is_foreseen(corpus: Path) -> None:
    (corpus / "langs.csv").write_text(
        "code,script,speakers,name\nen,Latn,1,E\nfr,Latn,2,F\nhi,Deva,3,H\n", encoding="utf-8"
    )
    (corpus.parent / "f1.csv").write_text("code,f1\nen,1\nfr,2\n", encoding="utf-8")
    (corpus.parent / "near.csv").write_text("a,b,near\nen,fr,1\n", encoding="utf-8")
    found, _ = planned(corpus, check_triples=1, downstream=corpus.parent / "f1.csv",
                       similarity=(str(corpus.parent / "near.csv"),))  # fmt: skip
    keys = coordinates_of(found)
    assert keys["lang"] == keys["target"] == keys["source"] == ("en", "fr", "hi")
    assert set(keys["with"]) == {"en", "fr", "hi", "en+fr", "en+hi", "fr+hi"} and keys["mixture"] == ("en+fr+hi",)
    assert set(keys["attribute"]) == {"speakers", "near", "byte-trigram overlap"} and keys["score"] == ("f1",)
    assert {"script", "family", "speakers", "near", "f1"} <= set(keys["test"])


def test_losses_from_elsewhere_have_no_guard(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("lang,with,loss\na,a,9\na,b,2\nb,b,1\n", encoding="utf-8")
    options = Options(losses=tmp_path / "l.csv")
    found: Inputs = check(options, Context(cache=Cache(tmp_path / "cache"))).inputs
    told = {one.id: one.message for one in warnings_of(found, options)}
    assert "unigram plateau cannot be told" in told["no-guard"] and "above 5.55 nats" in told["losses"]
    assert cost_of(found) == (("losses", "3 losses of 2 languages; nothing is trained"),)


def test_a_model_that_is_scored_as_it_is_is_there_once(corpus: Path) -> None:
    found, options = planned(corpus)
    told = {one.id: one.message for one in warnings_of(replace(found, kind="scored"), options)}
    assert "Each model is there once" in told["one-seed"]
