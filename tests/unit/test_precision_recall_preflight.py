"""Is what the inputs already show of how little a run could say told, and nothing else?"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scored_texts import MINILM, counted, described

from audits.precision_recall import Options
from audits.precision_recall.preflight import warnings_of
from audits.precision_recall.sides import Generation
from probes.models.checkpoints import ModelFolder
from probes.texts.token_draws import Sampling

WORDS = [f"word{number} goes on from here" for number in range(100)]


def warned(
    reference: Sequence[str] | None, candidate: Sequence[str] | None = WORDS, *, size: int = 2000, curves: bool = True
) -> dict[tuple[object, ...], str]:
    """Return the warnings of a run on a good encoder, by what they are and of whom."""
    sets = [
        described(name, np.arange(len(texts or WORDS)), texts=texts, words=[len(text.split()) for text in texts or ()])
        for name, texts in (("reference", reference), ("one", candidate))
    ]
    inputs = replace(counted({"one": {}}, encoder=MINILM, sets=sets).inputs, size=size, control=size)
    found = warnings_of(inputs, Options(reference=Path("reference.jsonl"), curves=curves))
    return {(one.id, *one.where.values()): one.message for one in found}


def test_of_many_texts_alike_nothing_is_warned() -> None:
    assert warned(WORDS) == {}


@pytest.mark.parametrize("size", [400, 498, 500, 2000])
def test_few_clusters_are_warned_of_where_there_are_curves(size: int) -> None:
    from audits.precision_recall.embedding_clusters import bucket_count

    assert (("few-clusters",) in warned(WORDS, size=size)) == (bucket_count(size) < 50)
    assert ("few-clusters",) not in warned(WORDS, size=size, curves=False)


def test_words_of_prompts_in_sampled_texts_are_warned_of() -> None:
    ours = [f"word{number} goes on" for number in range(100)]
    sets = [
        described(name, np.arange(100), texts=WORDS, words=[len(text.split()) for text in WORDS])
        for name in ("reference", "one")
    ]
    inputs = replace(counted({"one": {}}, encoder=MINILM, sets=sets).inputs, size=2000, control=2000)
    places = inputs.sets["one"].places
    folder = ModelFolder(path=Path("lm"), reference="lm", family="gpt2", sha256="", config={}, weights=())
    made = Generation(
        folder=folder, prompts=tuple(ours), source=None, places=places, samplings=(("one", Sampling()),)
    )  # fmt: skip

    def told(prompts: Sequence[str], *, keep: bool = True) -> list[str]:
        given = replace(inputs, generation=replace(made, prompts=tuple(prompts)))
        found = warnings_of(given, Options(reference=Path("reference.jsonl"), keep_prompt=keep))
        return [one.message for one in found if one.id == "prompts-inside"]

    (message,) = told(ours)
    # Three of five words.
    assert message.startswith("60 % of the words of one are those of its prompts")
    assert told(ours, keep=False) == [] == told([""] * 100)


def headed(share: float, head: str = "Abstract:") -> list[str]:
    count = round(100 * share)
    return [f"{head} goes on from here" for _ in range(count)] + WORDS[count:]


@pytest.mark.parametrize(
    ("reference", "candidate", "whose"),
    [
        (WORDS, headed(0.9), "one"),
        (headed(0.5), headed(0.1), "the reference"),
        (headed(0.5), headed(0.11), None),
        (headed(0.49), WORDS, None),
        (headed(0.9), headed(0.9), None),
        (headed(0.9), headed(0.9, "Summary:"), "the reference"),
        (None, None, None),
    ],
)
def test_a_first_word_of_one_side_alone_is_warned_of(reference, candidate, whose: str | None) -> None:
    found = warned(reference, candidate)
    assert set(found) == ({("other-beginnings", "one")} if whose else set())
    assert whose is None or f"of the texts of {whose} begin with" in found["other-beginnings", "one"]


def test_scripts_without_spaces_are_warned_of_once_with_whose_texts_they_are() -> None:
    chinese = ["我們決定工作職掌"] * 20
    message = warned(WORDS, chinese)["unspaced-script",]
    assert message.startswith("Texts of one are in a script written without spaces")
    assert "Texts of reference and one are" in warned(chinese, chinese)["unspaced-script",]
    assert ("unspaced-script",) not in warned(WORDS, [*WORDS, "the word 我 means I"])
    assert ("unspaced-script",) not in warned(WORDS, ["나는 책을 읽는다"] * 20)
