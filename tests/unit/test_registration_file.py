"""Is a registration what its digest says, can anybody recompute it, and is a hostile file refused in one sentence?"""

import hashlib
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audits.core import registry
from audits.core.records import Source, Subject
from audits.report.registration_checks import began, differences
from audits.report.registration_file import LARGEST, Registered, read_registration
from probes.core.errors import InputError

HASH, OTHER = "a" * 64, "b" * 64
SMALL = Registered(
    audit="audit-groups",
    criteria=("gap[by=accent].low > 0.05", "rate[group=ört=süd] > 1e-05"),
    data=(Source(role="manifest", path="clips.csv", sha256=HASH, items=9),),
    subject=Subject(path="model", family="tiny", sha256=OTHER, parameters=3),
    settings={"manifest": "clips.csv", "by": ["accent"], "limit": 1e-05, "predictions": ["a=heard.tsv"], "faas": False},
    seed=0,
    level=0.95,
    miles="0.1.0",
    created="2026-11-28T03:00:00Z",
)


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "criteria.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def changed(**more: Any) -> str:
    """Return the file with other values, and a digest that fits them."""
    content = {**SMALL.content(), **more}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return json.dumps({**content, "sha256": hashlib.sha256(text.encode()).hexdigest()})


def test_the_digest_is_what_the_documented_lines_compute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, SMALL.dumps())
    page = (Path(__file__).parents[2] / "docs" / "registration.md").read_text(encoding="utf-8")
    lines = page.partition("```python\n")[2].partition("```")[0]
    assert len(lines.splitlines()) == 3 and '"criteria.json"' in lines
    exec(lines.replace('"criteria.json"', repr(str(path))))
    assert capsys.readouterr().out == f"{SMALL.digest} True\n"
    written(tmp_path, SMALL.dumps().replace("0.05", "0.06"))
    exec(lines.replace('"criteria.json"', repr(str(path))))
    assert capsys.readouterr().out.endswith(" False\n")


def test_the_file_is_canonical_and_read_as_it_was_written(tmp_path: Path) -> None:
    text = SMALL.dumps()
    data = json.loads(text)
    assert list(data) == sorted(data) and ": " not in text and "\n" not in text and "ört=süd" in text
    assert read_registration(written(tmp_path, text)) == SMALL
    # The digest is of what it says, not of how it is laid out.
    assert read_registration(written(tmp_path, json.dumps(data, indent=2) + "\n")).digest == SMALL.digest


def test_what_is_said_counts_and_not_when() -> None:
    later = replace(SMALL, created="2026-11-29T00:00:00Z")
    assert SMALL.says_as(later) and later.digest != SMALL.digest
    assert not SMALL.says_as(replace(later, criteria=SMALL.criteria[::-1]))


NESTED = '{"a":' * 100_000 + "1" + "}" * 100_000
HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "changed": (SMALL.dumps().replace("0.05", "0.5"), "was changed"),
    "another digest": (SMALL.dumps().replace(SMALL.digest, HASH), "was changed"),
    "not a number": (changed(settings={"limit": float("nan")}), "cannot be read"),
    "no end": (SMALL.dumps().replace("1e-05,", "1e999,"), "cannot be read"),
    "nested": (NESTED, "cannot be read"),
    "nested settings": (SMALL.dumps().replace('"faas":false', f'"faas":{"[" * 900}{"]" * 900}'), "was changed"),
    "huge": (b" " * LARGEST + b"{}", "at most"),
    "not UTF-8": (SMALL.dumps().encode("utf-16"), "UTF-16"),
    "latin": (SMALL.dumps().encode("latin-1"), "not UTF-8"),
    "half a pair": (SMALL.dumps().replace("clips.csv", "\\ud800"), "no character"),
    "twice a key": (SMALL.dumps().replace('{"audit"', '{"seed":1,"audit"', 1), "stands twice"),
    "long number": (SMALL.dumps().replace('"seed":0', f'"seed":{"9" * 5000}'), "digits"),
    "a list": ("[]", "no registration"),
    "empty": ("", "empty"),
    "no JSON": ("{", "not JSON"),
    "another key": (changed(more=1), "no registration"),
    "no criteria": (changed(criteria=[]), "no registration"),
    "criteria that are none": (changed(criteria=[1]), "no registration"),
    "a day that no month has": (changed(created="2026-02-30T00:00:00Z"), "cannot be read"),
    "a later schema": (changed(schema="miles.registration/2"), "no registration"),
    "a report": (json.dumps({"schema": "miles.report/1"}), "no registration"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_registration_is_refused(name: str, tmp_path: Path) -> None:
    text, says = HOSTILE[name]
    path = written(tmp_path, text)
    with pytest.raises(InputError) as refused:
        read_registration(path)
    assert says in refused.value.message and str(path) in refused.value.where and refused.value.hint
    assert len(refused.value.message) < 400


def test_the_changes_of_these_files_alone_are_refused(tmp_path: Path) -> None:
    assert read_registration(written(tmp_path, changed())) == SMALL
    assert read_registration(written(tmp_path, changed(subject=None))).subject is None


@pytest.mark.parametrize("name", ["", "missing.json", "folder"])
def test_what_is_no_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError):
        read_registration(tmp_path / name)


def test_equal_files_elsewhere_are_no_difference_and_others_are_named_with_both_values() -> None:
    heard = Source(role="predictions", path="heard.tsv", sha256=OTHER, items=9)
    first = replace(SMALL, data=(*SMALL.data, heard))
    moved = replace(
        first,
        data=(replace(first.data[0], path="/ci/clips.csv"), replace(heard, path="/ci/heard.tsv")),
        settings={**first.settings, "manifest": "/ci/clips.csv", "predictions": ["a=/ci/heard.tsv"], "device": "cuda"},
        miles="9",
        criteria=("rate > 1",),
        created="2027-01-01T00:00:00Z",
    )
    assert differences(first, moved) == []
    other = replace(
        moved, seed=1, settings={**moved.settings, "by": ["age"], "faas": 0, "predictions": ["b=/ci/heard.tsv"]}
    )
    found = "; ".join(differences(first, other))
    assert 'by: registered ["accent"], here ["age"]' in found and "seed: registered 0, here 1" in found
    assert "faas: registered false, here 0" in found and "b=/ci/heard.tsv" in found and "manifest" not in found
    content = replace(moved, data=(replace(moved.data[0], sha256=OTHER),), subject=None)
    found = "; ".join(differences(first, content))
    assert f"manifest: registered clips.csv ({HASH[:12]}), here /ci/clips.csv ({OTHER[:12]})" in found
    assert f"predictions: registered heard.tsv ({OTHER[:12]}), here none" in found
    assert f"model: registered model ({OTHER[:12]}), here none" in found


def test_which_of_several_inputs_is_first_does_not_count() -> None:
    data = tuple(Source(role="predictions", path=f"{name}.tsv", sha256=name * 64, items=9) for name in "abc")
    first = replace(SMALL, data=data, settings={"predictions": ["x=a.tsv", "y=b.tsv", "z=c.tsv"]})
    moved = replace(first, data=data[::-1])
    assert differences(first, moved) == []
    # Two systems that change their transcripts are other systems.
    swapped = replace(first, settings={"predictions": ["x=b.tsv", "y=a.tsv", "z=c.tsv"]})
    assert len(differences(first, swapped)) == 1
    new = replace(data[0], path="d.tsv", sha256="d" * 64)
    other = replace(first, data=(data[1], data[2], new), settings={"predictions": ["x=d.tsv", "y=b.tsv", "z=c.tsv"]})
    assert differences(first, other)[0] == f"input predictions: registered a.tsv ({'a' * 12}), here d.tsv ({'d' * 12})"


def test_a_run_began_before_it_ended(sample_report: Any) -> None:
    made = replace(sample_report.provenance, seconds={"total": 90.0, "phase": 5.0})
    report = replace(sample_report, created="2026-11-28T03:02:00Z", provenance=made)
    # It ended before 03:02:01, and took a minute and a half.
    assert began(report).isoformat() == "2026-11-28T03:00:31+00:00"
    endless = replace(report, provenance=replace(made, seconds={"total": 1e300}))
    assert began(endless).year == 2016


def test_long_values_that_differ_in_the_middle_are_told_there() -> None:
    names = [f"attribute_number_{place:02d}" for place in range(20)]
    first = replace(SMALL, settings={"by": names})
    other = replace(SMALL, settings={"by": [*names[:9], "attribute_number_99", *names[10:]]})
    (found,) = differences(first, other)
    assert "attribute_number_09" in found and "attribute_number_99" in found and len(found) < 300


def test_files_that_have_exchanged_their_contents_are_told() -> None:
    a, b = (Source(role="corpus", path=f"corpus/{name}.txt", sha256=name * 64, items=9) for name in "ab")
    first = replace(SMALL, data=(a, b), settings={"corpus": "corpus"})
    assert differences(first, replace(first, data=(replace(b, path="else/b.txt"), a))) == []
    exchanged = replace(first, data=(replace(a, sha256=b.sha256), replace(b, sha256=a.sha256)))
    assert differences(first, exchanged)[0] == (
        f"input corpus: registered corpus/a.txt ({'a' * 12}), here corpus/a.txt ({'b' * 12})"
    )
    # Of equal names in two folders, the options say which is which.
    twins = [replace(one, path=f"{name}/x.csv") for one, name in ((a, "1"), (b, "2"))]
    first = replace(SMALL, data=tuple(twins), settings={"laws": ["p=1/x.csv", "q=2/x.csv"]})
    exchanged = replace(first, data=(replace(twins[0], sha256=b.sha256), replace(twins[1], sha256=a.sha256)))
    assert differences(first, exchanged) == [
        'laws: the files of ["p=1/x.csv", "q=2/x.csv"] have the content of one another'
    ]


def test_a_registration_of_many_options_is_compared_at_once() -> None:
    many = replace(SMALL, settings={**SMALL.settings, **{f"option {place}": 1 for place in range(40_000)}})
    begin = time.process_time()
    assert len(differences(many, SMALL)) == 40_000
    assert time.process_time() - begin < 5


def test_an_option_of_a_later_version_counts_where_it_has_not_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "later_defaults_of", lambda name: {"newer": 3})
    for settings, count in (({"newer": 3}, 0), ({"newer": 4}, 1)):
        planned = replace(SMALL, settings={**SMALL.settings, **settings})
        assert len(differences(SMALL, planned)) == count


def test_who_computes_is_no_difference_where_an_earlier_version_wrote_it_down() -> None:
    planned = SMALL
    named = {"workers": 8, "backend": "dask", "scheduler": None, "array": None, "sbatch": None}
    assert differences(replace(planned, settings={**planned.settings, **named}), planned) == []
    # Another audit may have options of these names.
    ours, theirs = (replace(planned, settings={**planned.settings, "workers": count}) for count in (2, 3))
    assert differences(ours, theirs) == ["workers: registered 2, here 3"]
