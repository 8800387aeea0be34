"""Does huggingface_hub read the card as it is meant, and is all else in a card left as it was?"""

import dataclasses
import re
import shlex
from typing import Any

import pytest
import yaml

from audits.core.numbers import described
from audits.core.records import Estimate, Finding, GateResult, Report
from audits.report.exports import cards, model_card
from probes.core.errors import InputError

OTHERS = """---
# Written by hand.
license: mit
language: no   # Norwegian, which YAML 1.1 takes for a refusal
model-index:
- name: ours
  results:
  - task: {type: automatic-speech-recognition}
    dataset: {name: Common Voice, type: common_voice}
    metrics:
    - {type: wer, value: 0.25}

# What follows was there, too.
tags: [speech]
---

# A model

Text of others.
"""


def exported(report: Report, card: str, only: tuple[str, ...] = (), name: str | None = "ours") -> str:
    return cards.merge(card, report, model_card.result(report, only), model_card.section(report, only), name)[0]


def whole(report: Report, only: tuple[str, ...] = ()) -> str:
    return cards.front_matter(report, model_card.result(report, only))[0] + "\n" + model_card.section(report, only)


def loaded(text: str) -> Any:
    from huggingface_hub import ModelCard

    return ModelCard(text)


def test_huggingface_hub_reads_each_number_with_its_interval(sample_report: Report) -> None:
    card = loaded(whole(sample_report))
    found = card.data.eval_results
    cited = [place for finding in sample_report.findings for place in finding.evidence]
    judged = [place for gate in sample_report.gates for place in gate.rows]
    rows = [sample_report.estimates[place] for place in dict.fromkeys([*cited, *judged])]
    assert card.data.model_name == "wav2vec2-base"
    assert [one.metric_value for one in found] == [row.value for row in rows]
    for one, row in zip(found, rows, strict=True):
        assert (one.metric_type, one.task_name) == (row.name, "miles audit-fairness")
        held = [one.metric_args[key] for key in ("low", "high", "level", "n", "method")]
        assert held == [row.low, row.high, row.level, row.n, row.method]
        assert one.metric_args["where"] == dict(row.where)
    hashes = [source["sha256"] for source in found[0].dataset_args["sources"]]
    assert hashes == [source.sha256 for source in sample_report.data]
    # What it would write is what it read.
    assert loaded(str(card)).data.to_dict() == card.data.to_dict()


def test_the_section_says_what_the_report_says(sample_report: Report) -> None:
    text = model_card.section(sample_report)
    assert text.startswith("<!-- miles:audit-fairness -->\n## ") and text.endswith("<!-- /miles:audit-fairness -->\n")
    for finding in sample_report.findings:
        assert finding.statement in text
        assert all(described(sample_report.estimates[place]) in text for place in finding.evidence)
    assert all(line in text for line in sample_report.limitations)
    assert "12,400 items given, 12,113 used" in text and "201 skipped: no transcript" in text
    assert sample_report.subject.sha256 in text and "```\nmiles audit-fairness models/wav2vec2-base" in text
    assert "And " in text and "more of this kind." in text


def test_a_lower_bound_has_no_upper_end(sample_report: Report) -> None:
    bound = {"value": 1.5, "low": 1.5, "high": 4.0, "method": "Lower bound: one-sided"}
    rows = (Estimate(name="epsilon_lower", **bound, n=90, unit="points"),)
    gate = GateResult(expression="epsilon_lower > 1", outcome="fail", rows=(0,))
    report = dataclasses.replace(sample_report, estimates=rows, findings=(), gates=(gate,))
    (metric,) = model_card.result(report)["metrics"]
    assert metric["args"]["low"] == 1.5 and metric["args"]["provable"] == 4.0 and "high" not in metric["args"]
    assert "1.5 to 4.0" not in model_card.section(report) and "at least; 4.00 provable" in model_card.section(report)


def test_only_selects_other_estimates(sample_report: Report) -> None:
    only = ("error_rate[task=asr,metric=wer,layer=head,group=all]",)
    (metric,) = model_card.result(sample_report, only)["metrics"]
    assert metric["type"] == "error_rate"
    assert "| `error_rate[group=all,layer=head,metric=wer,task=asr]` |" in model_card.section(sample_report, only)
    with pytest.raises(InputError) as met:
        model_card.result(sample_report, ("error_rate[layer=77]",))
    assert "layer" in met.value.hint


def test_without_anything_that_carries_there_is_no_index(sample_report: Report) -> None:
    bare = dataclasses.replace(sample_report, findings=(), gates=())
    assert model_card.result(bare) is None
    assert cards.front_matter(bare, None) == ("", None)
    assert "Nothing was found" in model_card.section(bare)


def test_what_others_wrote_stays_to_the_letter(sample_report: Report) -> None:
    new = exported(sample_report, OTHERS)
    for kept in (
        "# Written by hand.\nlicense: mit\nlanguage: no   # Norw",
        "\n# What follows was there, too.\ntags: [sp",
    ):
        assert kept in new
    assert new.endswith(model_card.section(sample_report)) and "\n# A model\n\nText of others.\n" in new
    data = yaml.safe_load(new.split("---\n")[1])
    (model,) = data["model-index"]
    assert model["name"] == "ours" and len(model["results"]) == 2
    assert model["results"][0] == yaml.safe_load(OTHERS.split("---\n")[1])["model-index"][0]["results"][0]
    assert {one.metric_type for one in loaded(new).data.eval_results} >= {"wer", "gap"}


CARDS = {
    "others": OTHERS,
    "empty": "",
    "no front matter": "# A model\n\nText.",
    "windows": OTHERS.replace("\n", "\r\n"),
    "flow": "---\n{license: mit, tags: [a]}\n---\nText.\n",
    "quoted key": '---\n"model-index":\n  - name: a\n    results: []\nlicense: mit\n---\nText.\n',
    "empty front matter": "---\n---\nText.\n",
    "byte order mark": "\ufeff" + OTHERS,
    "rule": "Text.\n\n---\n\nMore.\n",
}


@pytest.mark.parametrize("name", CARDS)
def test_exporting_again_replaces_and_other_audits_stay(sample_report: Report, name: str) -> None:
    card = CARDS[name]
    once = exported(sample_report, card)
    assert exported(sample_report, once) == once
    other = dataclasses.replace(sample_report, audit="certify", title="Another")
    both = exported(other, once)
    assert exported(other, both) == both
    changed = dataclasses.replace(sample_report, question="Something else?")
    newer = exported(changed, both)
    assert newer.count("<!-- miles:") == 2 and newer.count("Something else?") == 1
    assert sample_report.question not in newer.replace("\r", "").split("<!-- miles:certify -->")[0]
    plain = newer.replace("\r\n", "\n")
    assert ("\r\n" in newer) is (name == "windows") and "\r" not in plain
    tasks = [one.task_type for one in loaded(plain).data.eval_results]
    assert tasks.count("audit-fairness") == tasks.count("certify") == len(model_card.chosen(sample_report, ()))
    held = loaded(card.removeprefix("\ufeff")).data.to_dict()
    assert {
        key: value for key, value in loaded(plain).data.to_dict().items() if key in held and key != "model-index"
    } == {key: value for key, value in held.items() if key != "model-index"}


def test_results_go_when_nothing_carries_them_any_more(sample_report: Report) -> None:
    bare = dataclasses.replace(sample_report, findings=(), gates=())
    new = exported(bare, exported(sample_report, OTHERS))
    (model,) = yaml.safe_load(new.split("---\n")[1])["model-index"]
    assert len(model["results"]) == 1 and "audit-fairness" not in new.split("---\n")[1]
    assert exported(bare, "Text.\n").startswith("Text.\n\n<!-- miles:")


@pytest.mark.parametrize(
    "front",
    [
        "{language: no, time: 12:30:45, zip: 0123, model-index: []}\n",
        'tags: ["a\u2028model-index: b"]\ntime: 12:30:45 # Remark\n',
        "model-index: []\ntime: 12:30:45\nmodel-index: []\nzip: 0123\n",
        "{license: [&a no, *a], model-index: []} # Remark\n",
    ],
)
def test_keys_of_others_are_never_read_as_something_else(sample_report: Report, front: str) -> None:
    new = exported(sample_report, f"---\n{front}---\nText.\n")
    text = new.split("---\n")[1]
    held, given = (yaml.load(one, Loader=yaml.BaseLoader) for one in (text, front))
    assert held.pop("model-index") and given.pop("model-index", True) is not None
    assert held == given
    assert yaml.safe_load(text).items() >= {
        (key, value) for key, value in yaml.safe_load(front).items() if not isinstance(value, list)
    }
    # Only what cannot be cut out of the text is written anew.
    assert (front in new) is ("\u2028" in front)
    assert exported(sample_report, new) == new


def index_of(card: str) -> Any:
    return yaml.safe_load(card.split("---\n")[1])["model-index"]


def card_of(*index: dict[str, Any]) -> str:
    return f"---\n{yaml.safe_dump({'model-index': list(index)})}---\n"


OTHER: dict[str, Any] = {"name": "other", "results": [{"task": {"type": "asr"}}]}
BARE, OWN = {"name": "bare"}, {"name": "wav2vec2-base", "results": []}


@pytest.mark.parametrize(
    ("held", "has_model", "name", "under"),
    [
        ([], True, None, "wav2vec2-base"),
        ([], True, "Ours", "Ours"),
        ([], False, "Ours", "Ours"),
        ([OTHER, BARE, OWN], True, None, "wav2vec2-base"),
        ([OTHER, BARE], True, "bare", "bare"),
        ([OTHER, BARE], True, "Ours", "Ours"),
        ([OTHER], False, None, "other"),
        ([OTHER, OWN], False, "Ours", "Ours"),
        ([{"name": 7}], False, None, "7"),
    ],
)
def test_results_stand_under_the_name_that_is_told(
    sample_report: Report, held: list[Any], has_model: bool, name: str | None, under: str
) -> None:
    report = sample_report if has_model else dataclasses.replace(sample_report, subject=None)
    parts = model_card.result(report), model_card.section(report)
    new, told = cards.merge(card_of(*held), report, *parts, name)
    assert told == under
    ours = [
        str(one["name"]) for one in index_of(new) if any("audit-fairness" in str(r) for r in one.get("results", ()))
    ]
    assert ours == [under]
    others = [[one for one in index if str(one["name"]) != under] for index in (index_of(new), held)]
    assert others[0] == others[1]
    if not held:
        assert cards.front_matter(report, parts[0], name) == (new.partition("<!--")[0], under)


@pytest.mark.parametrize(
    ("held", "has_model", "said", "mend"),
    [
        ([OTHER], True, "audited wav2vec2-base, and .* of: other", "--model-name other.*--model-name wav2vec2-base"),
        ([{"results": []}], True, "one without a name", "^Is it another one. --model-name wav2vec2-base"),
        ([{"name": "a b"}, BARE], True, "of: a b, bare", "--model-name 'a b'"),
        ([OTHER, BARE], False, "names no model.*other, bare", "--model-name NAME"),
        ([{"results": []}], False, "names no model", "--model-name NAME"),
        ([], False, "names no model", "--model-name NAME"),
    ],
)
def test_results_never_stand_under_the_name_of_another_model(
    sample_report: Report, held: list[Any], has_model: bool, said: str, mend: str
) -> None:
    report = sample_report if has_model else dataclasses.replace(sample_report, subject=None)
    with pytest.raises(InputError, match=said) as met:
        exported(report, card_of(*held), name=None)
    assert re.search(mend, met.value.hint)
    if not held:
        with pytest.raises(InputError, match=said):
            cards.front_matter(report, model_card.result(report))
    # Where there are no results, no name is wanted.
    bare = dataclasses.replace(report, findings=(), gates=())
    assert index_of(exported(bare, card_of(*held), name=None) if held else card_of()) == held


def test_another_name_takes_the_results_along_and_models_without_any_stay(sample_report: Report) -> None:
    once = exported(sample_report, card_of(OTHER, BARE), name="first")
    again = exported(sample_report, once, name="other")
    assert [(one["name"], len(one.get("results", ()))) for one in index_of(again)] == [("other", 2), ("bare", 0)]
    none = dataclasses.replace(sample_report, findings=(), gates=())
    assert index_of(exported(none, again)) == [OTHER, BARE]


@pytest.mark.parametrize(
    "word",
    ["a*b*c _d_", "<img src=x onerror=alert(1)>", "[x](http://e)", "```", "`\x00``", "a\n\n<b>", "<!-- x -->", "~~~"],
)
def test_the_command_can_be_copied_and_no_text_of_a_report_is_live(sample_report: Report, word: str) -> None:
    from markdown_it import MarkdownIt

    command = ("miles", "certify", "--fail-if", word)
    gate = GateResult(expression=word, outcome="pass", rows=())
    made = dataclasses.replace(sample_report.provenance, command=command)
    text = model_card.section(dataclasses.replace(sample_report, gates=(gate,), title=word, provenance=made))
    tokens = MarkdownIt("commonmark").parse(text)
    (block,) = [token for token in tokens if token.type in ("fence", "code_block")]
    if "\n" not in word and "<!--" not in word:
        assert shlex.split(block.content) == [part.replace("\x00", "") for part in command]
    live = [token.content for token in tokens if token.type == "html_block"]
    assert all(one.startswith(("<!-- miles:", "<!-- /miles:")) for one in live)
    inline = [child for token in tokens for child in token.children or ()]
    assert not {child.type for child in inline} & {"html_inline", "link_open", "image", "em_open"}
    codes = [child.content for child in inline if child.type == "code_inline"]
    assert " ".join(word.split()).replace("\x00", "").replace("<!--", "&lt;!--") in codes


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ("---\nmodel-index: [{name: a, results: {a: 1}}]\n---\n", "results that are no list"),
        ("---\na: [\n---\n", "no YAML"),
        ("---\n- a\n---\n", "no keys"),
        ("---\nmodel-index: 3\n---\n", "no list of models"),
        ("Text\n<!-- miles:audit-fairness -->\n", "1 times"),
        ("<!-- /miles:audit-fairness -->\n<!-- miles:audit-fairness -->\n", "1 times"),
        ("<!-- miles:audit-fairness --><!-- /miles:audit-fairness -->\n" * 2, "2 times"),
    ],
)
def test_a_card_that_cannot_be_changed_safely_is_refused(sample_report: Report, card: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        exported(sample_report, card)


def test_no_text_of_a_report_ends_the_section_or_the_front_matter(sample_report: Report) -> None:
    nasty = "x\n---\n<!-- /miles:audit-fairness --> `|` \x1b[31m\u2028y"
    row = Estimate(name=nasty, value=0.5, method=nasty, n=9, unit=nasty, where={"group": nasty}, low=0.4, high=0.6)
    report = dataclasses.replace(
        sample_report,
        title=nasty,
        estimates=(row,),
        findings=(),
        gates=(GateResult(expression=nasty, outcome="pass", rows=(0,)),),
        provenance=dataclasses.replace(sample_report.provenance, command=("miles", nasty)),
    )
    text = whole(report)
    assert text.split("\n---\n")[-1].count("<!-- /miles:") == 1 and "\x1b" not in text
    assert loaded(text).data.eval_results[0].metric_value == 0.5
    assert exported(report, exported(report, OTHERS)) == exported(report, OTHERS)


def test_a_card_of_one_system_holds_nothing_of_another(sample_report: Report) -> None:
    row = sample_report.estimates[0]
    rows = tuple(dataclasses.replace(row, where={"system": name}) for name in ("ours", "theirs"))
    found = tuple(
        Finding(id="gap", severity="low", statement=f"Of {name}.", where={"system": name}, evidence=(place,))
        for place, name in enumerate(("ours", "theirs"))
    )
    found += (Finding(id="all", severity="low", statement="Of both.", evidence=(0, 1)),)
    report = dataclasses.replace(sample_report, estimates=rows, findings=found, gates=(), warnings=(), answer=None)
    (metric,) = model_card.result(report, (), "ours")["metrics"]
    assert metric["args"]["where"] == {"system": "ours"}
    text = model_card.section(report, (), "ours")
    assert "Of ours." in text and "theirs" not in text
    assert len(model_card.result(report)["metrics"]) == 2 and "Of theirs." in model_card.section(report)
    assert "Of both." in text and text.count("`error_rate[system=ours]`") == 3
    with pytest.raises(InputError, match="no system 'nobody'"):
        model_card.section(report, (), "nobody")
