"""report.md: the page's sections and numbers, and nothing that a name could smuggle in."""

import json
import re
from dataclasses import replace

from audits.core.numbers import described
from audits.core.records import Estimate, Report
from audits.core.registry import measures_of
from audits.report.pages import overview, write_pages
from audits.report.pages.content import SECTIONS, asked
from audits.report.pages.markdown import MOST_ROWS, code, escaped, to_markdown


def test_sections_stand_in_their_order(sample_report) -> None:
    text = to_markdown(sample_report)
    assert text.startswith("# At the head, the model errs more often")
    assert "\n\nDoes wav2vec2-base serve every group of speakers alike? · wav2vec2-base · 12,113 items" in text
    matrix = overview.matrix(sample_report)
    assert matrix is not None and re.findall(r"^## (.+)$", text, flags=re.M) == [escaped(matrix.title), *SECTIONS]


def test_findings_carry_their_numbers(sample_report) -> None:
    text = to_markdown(sample_report)
    for finding in sample_report.findings:
        assert finding.title in text and finding.rest in text
        for index in finding.evidence:
            assert described(sample_report.estimates[index]) in text
    found = text[text.index("## What we found") :]
    assert found.index("▲ High") < found.index("◆ Medium") < found.index("○ Info")


def test_gates_coverage_warnings_and_command(sample_report) -> None:
    text = to_markdown(sample_report)
    assert "Gate ✗ failed: `gap[by=accent,layer=head,metric=wer,kind=absolute].low > 0.05`" in text
    assert "| skipped: no transcript | 201 |" in text
    assert "Two folds share a recording room." in text
    assert "    miles audit-fairness models/wav2vec2-base --manifest" in text
    figure = sample_report.figures[0]
    assert f"![{figure.title}](figures/" in text and text.count(figure.caption) == 1
    assert "(figures/gap-by-layer.svg)" in text


def test_the_methods_of_most_numbers_are_named_and_the_others_counted(sample_report) -> None:
    ways = ["one", "two", "two", "three", "three", "three", "four", "five"]
    rows = tuple(replace(sample_report.estimates[place], method=way) for place, way in enumerate(ways))
    facts = dict(asked(replace(sample_report, estimates=rows)))
    assert facts["Intervals"] == "three; two; one; and 2 more, beside each number in the tables"
    facts = dict(asked(replace(sample_report, estimates=rows[:6])))
    assert facts["Intervals"] == "three; two; one"


def test_long_tables_are_cut_and_say_so(sample_report) -> None:
    text = to_markdown(sample_report)
    table = text[text.index("(`error_rate`)") : text.index("(`gap`)")]
    assert table.count("\n| asr") + table.count("\n| sid") == MOST_ROWS
    assert f"{MOST_ROWS} of 630 rows" in table


def test_small_groups_are_marked(sample_report) -> None:
    lines = [line for line in to_markdown(sample_report).splitlines() if line.startswith("| asr")]
    marked = [line for line in lines if "†" in line]
    assert marked
    assert all("7 speakers" in line for line in marked)


def test_names_are_shown_not_obeyed(sample_report) -> None:
    name = "a=<script>alert(1)</script>|b*c_d*[x](http://e)`"
    row = Estimate(name="rate", value=0.5, low=0.4, high=0.6, method="m", n=5, unit="clips", where={"group": name})
    text = to_markdown(replace(sample_report, estimates=(row,), findings=(), gates=(), title=f"# {name}\n## More"))
    assert "<script" not in text
    assert re.findall(r"^## (.+)$", text, flags=re.M) == list(SECTIONS)
    line = next(line for line in text[text.index("## All numbers") :].splitlines() if line.startswith("| a="))
    assert len(re.findall(r"(?<!\\)\|", line)) == 7
    assert "](http" not in text.replace("\\](http", "")


def test_escapes() -> None:
    assert escaped("&amp; accent=indian&gender=female") == "&amp;amp; accent=indian&gender=female"
    assert escaped("_x_ error_rate") == r"\_x\_ error_rate"
    assert escaped("_www.a.b mailto:c ftp://d 1://e a: /b") == r"\_www\.a.b mailto\:c ftp\://d 1\://e a: /b"
    assert code("a`b``c`") == "``` a`b``c` ```"


def test_no_text_of_a_report_becomes_a_link(sample_report) -> None:
    address, word = "https://x.example/steal", "[x](https://x.example)"
    rows = [replace(row, unit=word, method=address, where={"by": address}) for row in sample_report.estimates]
    text = to_markdown(replace(sample_report, title=address, question=address, estimates=tuple(rows)))
    outside = re.sub(r"(`+).*?\1|^    .*$", "", text, flags=re.M)
    assert "https\\://x.example" in outside
    assert not re.findall(r"\w://|(?<!\\)\]\(h", outside)


def test_the_order_of_keys_does_not_show(sample_report) -> None:
    read = Report.from_json(
        json.loads(json.dumps(sample_report.to_json(), sort_keys=True)), measures_of(sample_report.audit)
    )
    assert to_markdown(read) == to_markdown(sample_report)


def test_pages_are_all_there_and_repeat(sample_report, tmp_path) -> None:
    short = replace(sample_report, figures=sample_report.figures[:2])
    read = Report.from_json(json.loads(json.dumps(short.to_json(), sort_keys=True)), measures_of(short.audit))
    for name, report in (("one", short), ("two", read)):
        (tmp_path / name).mkdir()
        write_pages(report, tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert [str(file) for file in files] == [
        "figures/error-by-accent.png", "figures/error-by-accent.svg", "figures/gap-by-layer.png",
        "figures/gap-by-layer.svg", "report.html", "report.md",
    ]  # fmt: skip
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_a_list_under_a_figure_is_a_table_that_texts_cannot_break(sample_report) -> None:
    evil = "<script>alert(1)</script>|x\n| y ![a](http://e) `"
    columns = [["place", "line"], ["text", "generated | text"]]
    rows = [[n, evil] for n in range(30)]
    spec = {**sample_report.figures[0].spec, "usermeta": {"miles": {"table": {"columns": columns, "rows": rows}}}}
    text = to_markdown(replace(sample_report, figures=(replace(sample_report.figures[0], spec=spec),)))
    lines = text[text.index("| line |") : text.index("## What was used")].strip().splitlines()
    assert len(lines) == 22 and lines[1] == "| ---: | --- |"
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in lines)
    assert "<script" not in text and "](http" not in text.replace("\\](http", "")
