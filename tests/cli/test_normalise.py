"""Does `--normalise` take names and files, tell of both in the report, and refuse what is neither?"""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import one_panel

pytestmark = pytest.mark.usefixtures("no_pages")
Call = Callable[..., Any]
TEXTS = ("The colour of 5% grey", "an ice cream, um")
HEARD = ("the color of 5 percent gray", "an icecream")


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    path = tmp_path / "clips.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(("path", "speaker", "accent", "text", "prediction"))
        for speaker in range(24):
            for take, (text, heard) in enumerate(zip(TEXTS, HEARD, strict=True)):
                rows.writerow((f"{speaker}/{take}.wav", f"s{speaker}", ("north", "south")[speaker % 2], text, heard))
    return path


def run(call_miles: Call, clips: Path, normalise: object, name: str = "run", *more: object) -> Any:
    quick = ("--bootstrap", 200, "--permutations", 100, "--min-speakers", 6, "--quiet")
    out = clips.parent / name
    return call_miles(
        "audit-groups", clips, "--by", "accent", "--normalise", normalise, "--out", out, *quick, *more, cwd=clips.parent
    )


def report(clips: Path, name: str = "run") -> dict[str, Any]:
    content: dict[str, Any] = json.loads((clips.parent / name / "report.json").read_text(encoding="utf-8"))
    return content


def wer(content: dict[str, Any]) -> float:
    found = [
        row["value"]
        for row in content["estimates"]
        if row["name"] == "rate" and row["where"]["group"] == "all" and row["where"]["metric"] == "wer"
    ]
    assert len(found) == 1
    return float(found[0])


def test_the_leaderboards_normaliser_forgives_spellings_and_compounds(call_miles: Call, clips: Path) -> None:
    assert run(call_miles, clips, "open-asr").code == 0
    content = report(clips)
    assert wer(content) == 0 and content["settings"]["normalise"] == "open-asr"
    assert [source["role"] for source in content["data"]] == ["manifest"]


def test_the_content_of_rules_decides_the_run(call_miles: Call, clips: Path) -> None:
    rules = clips.parent / "rules.csv"
    rules.write_text("pattern,replacement\n(?i)our\\b,or\n")
    assert run(call_miles, clips, "rules.csv").code == 0
    first = report(clips)
    (source,) = [source for source in first["data"] if source["role"] == "rules of texts"]
    assert source["path"] == "rules.csv" and source["items"] == 1 and len(source["sha256"]) == 64
    # Nothing changed: the run is done. Another content under the same name is another run.
    assert run(call_miles, clips, "rules.csv").code == 0
    rules.write_text("pattern,replacement\n(?i)our\\b,or\ngrey,gray\n%, percent\num,\nice cream,icecream\n")
    one_panel(run(call_miles, clips, "rules.csv"), "--force")
    assert run(call_miles, clips, "rules.csv", "other").code == 0
    assert wer(first) > 0 and wer(report(clips, "other")) == 0


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("open_asr", None, ("no normaliser 'open_asr'", "--normalise", "did you mean 'open-asr'")),
        ("rules.csv", None, ("no such file", "rules.csv")),
        ("rules.csv", "pattern,replacement\nok,okay\n(a,b\n", ("rules.csv:3", "unterminated")),
        ("rules.csv", "from,to\na,b\n", ("no column 'pattern'", "from, to")),
        ("rules.csv", "pattern,replacement\n(c+)+$,x\n", ("takes too long", "rules.csv:2")),
    ],
)
def test_what_is_neither_is_refused(
    call_miles: Call,
    clips: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: str | None,
    says: tuple[str, ...],
) -> None:
    from probes.speech import text_rules

    monkeypatch.setattr(text_rules, "SECONDS", 0.3)
    if content is not None:
        (clips.parent / name).write_text(content)
        clips.write_text(clips.read_text().replace("ice cream, um", "ice " + "c" * 40 + "!"))
    one_panel(run(call_miles, clips, name), *says)
    assert not (clips.parent / "run").exists()
