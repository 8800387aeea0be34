"""report.html: one file, in order, complete, small, and deaf to what names try to say."""

import base64
import hashlib
import html
import json
import random
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from audits.core.numbers import described, interval, point
from audits.core.records import Estimate, Figure, Finding, Report, Warning
from audits.core.registry import measures_of
from audits.report.pages import overview
from audits.report.pages.content import SECTIONS
from audits.report.pages.figures import draw, for_page
from audits.report.pages.html import to_html
from probes.core.errors import InputError

EVIL = "a=</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'{{ 7*7 }}<!--"
LIMIT = 1_500_000


class _Page(HTMLParser):
    """Collects elements, attributes and the text of each script; noscript counts as markup."""

    def __init__(self, page) -> None:
        super().__init__()
        self.elements = []
        self.scripts = []
        self.heads = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")
        if tag == "h2":
            self.heads.append("")

    def handle_endtag(self, tag) -> None:
        self._inside = ""

    def handle_data(self, data) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        if self._inside == "h2":
            self.heads[-1] += data


@pytest.fixture(scope="module")
def page(sample_report) -> str:
    return to_html(sample_report, {stem: picture.svg for stem, picture in draw(sample_report).items()})


@pytest.fixture(scope="module")
def parsed(page) -> _Page:
    return _Page(page)


def _data(page) -> dict[str, object]:
    return json.loads(_Page(page).scripts[0])


def _column(packed, rows) -> list[object]:
    if isinstance(packed, list):
        return packed
    if "all" in packed:
        return [packed["all"]] * rows
    values = packed["runs"]
    return [value for value, count in zip(values[::2], values[1::2], strict=True) for _ in range(count)]


def test_sections_stand_in_their_order(parsed, sample_report) -> None:
    matrix = overview.matrix(sample_report)
    assert matrix is not None and parsed.heads == ["You may report", "Keep in mind", matrix.title, *SECTIONS]


def _found(page) -> str:
    return page[page.index('id="found"') : page.index('id="coverage"')]


def test_head_has_gates_as_chips_and_language(page, parsed) -> None:
    assert ("html", {"lang": "en"}) in parsed.elements
    chips = [
        attributes["class"] for tag, attributes in parsed.elements if "gate" in attributes.get("class", "").split()
    ]
    assert chips == ["gate fail", "gate pass"]
    assert "gap[by=accent,layer=head,metric=wer,kind=absolute].low &gt; 0.05" in page


def test_findings_have_icon_word_glyph_and_numbers(page, sample_report) -> None:
    flat = html.unescape(page).replace("\u00a0", " ")
    for icon, word in (("▲", "High"), ("◆", "Medium"), ("○", "Info")):
        assert f'<span aria-hidden="true">{icon}</span> {word}' in flat
    for finding in sample_report.findings:
        assert finding.title in flat and finding.rest in flat
        assert all(described(sample_report.estimates[index]) in flat for index in finding.evidence)
    assert _found(page).count('<svg class="glyph"') == 3
    assert ">limit 0.05</text>" in page


def test_findings_come_worst_first(sample_report) -> None:
    page = to_html(replace(sample_report, findings=sample_report.findings[::-1], figures=()), {})
    assert (
        page.index('class="finding high"') < page.index('class="finding medium"') < page.index('class="finding info"')
    )


def test_nothing_is_loaded_from_anywhere(page, parsed) -> None:
    for tag, attributes in parsed.elements:
        assert tag not in ("link", "iframe", "object", "embed", "img", "base")
        for name, value in attributes.items():
            if name in ("src", "href", "action", "data", "poster", "srcset", "xlink:href", "style", "http-equiv"):
                assert "//" not in (value or ""), (tag, name, value)
        if tag == "script":
            assert "src" not in attributes
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_admits_just_the_script_of_the_page(page, parsed) -> None:
    policy = next(a["content"] for t, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    hashes = re.findall(r"'sha256-([^']+)'", policy)
    assert len(parsed.scripts) == 3
    assert hashes == [base64.b64encode(hashlib.sha256(parsed.scripts[2].encode()).digest()).decode()]
    kinds = [attributes.get("type") for tag, attributes in parsed.elements if tag == "script"]
    assert kinds == ["application/json", "application/octet-stream", None]
    assert "\r" not in page


def test_the_bundle_stands_once_and_cannot_close_its_element(page) -> None:
    packed = page[page.index('id="bundle">') + 12 :].partition("<")[0]
    bundle = zlib.decompress(base64.b64decode(packed))
    assert bundle.count(b"window.vega=") == 1 and b"window.vega=null" not in bundle
    assert b"vega-lite" not in bundle, "charts are compiled before"
    assert page.count("</script>") == 3


def test_the_page_is_small_enough(page) -> None:
    assert len(page.encode()) < LIMIT


def test_the_page_of_a_single_finding_has_at_most_400_kilobytes(sample_report) -> None:
    row = Estimate(name="bound", value=1.25, low=1.0, high=1.5, method="bootstrap", n=50, unit="clips")
    finding = Finding(id="f", severity="low", headline="It is 1.25 (1.00 to 1.50).", statement="So.", evidence=(0,))
    figures = sample_report.figures[:2]
    report = replace(sample_report, estimates=(row,), findings=(finding,), gates=(), figures=figures, warnings=())
    page = to_html(report, {stem: picture.svg for stem, picture in draw(report).items()})
    assert len(_data(page)["figures"]) == 2
    assert len(page.encode()) <= 400_000


def test_each_figure_has_a_live_chart_a_picture_and_words(page, parsed, sample_report) -> None:
    charts = {attributes["id"]: attributes for _, attributes in parsed.elements if attributes.get("role") == "img"}
    assert len(charts) == len(sample_report.figures)
    assert page.count("<noscript>") == len(sample_report.figures) + 1
    assert [figure["at"] for figure in _data(page)["figures"]] == list(charts)
    for figure in sample_report.figures:
        assert figure.caption in page
        assert figure.title in page
    for identity, attributes in charts.items():
        assert attributes["aria-labelledby"] == f"{identity}-title {identity}-caption"


def test_the_tables_carry_every_estimate_to_the_digit(page, sample_report) -> None:
    names = list(dict.fromkeys(row.name for row in sample_report.estimates))
    tables = _data(page)["tables"]
    assert [table["name"] for table in tables] == names
    for table in tables:
        rows = [row for row in sample_report.estimates if row.name == table["name"]]
        assert table["rows"] == table["count"] == len(rows)
        columns = {key: _column(table[key], len(rows)) for key in ("decimals", "value", "below", "above", "n")}
        for place, row in enumerate(rows):
            digits, value = columns["decimals"][place], columns["value"][place]
            low, high = value - columns["below"][place], value + columns["above"][place]
            shown = [f"{number / 10**digits:.{digits}f}" for number in (value, low, high)]
            assert shown[0] == point(row)
            assert f"{shown[1]} to {shown[2]}" == interval(row)
            assert columns["n"][place] == row.n


def test_a_proved_bound_is_rounded_away_from_the_truth_all_over_the_page(sample_report) -> None:
    bound = Estimate(
        name="bound", value=1142.4, low=225.97, high=1142.4, method="Upper bound: proved", n=5, unit="layers"
    )
    finding = Finding(id="f", severity="low", statement="So it is.", evidence=(0,))
    page = to_html(
        replace(sample_report, estimates=(bound,), findings=(finding,), warnings=(), figures=(), gates=()), {}
    )
    table = _data(page)["tables"][0]
    assert table["odd"] == {"0": [1142.4, 225.97, 1142.4, "1143", "at most; at least 225"]}
    # Chance has no part in it: neither a column nor a sentence names a level.
    assert table["levels"] == [""] and "1143 (at most; at least 225), 5 layers" in page
    glyph = page[page.index('<svg class="glyph"') : page.index("</svg>", page.index('<svg class="glyph"'))]
    assert ">225<" in glyph and ">1143<" in glyph and "1142" not in glyph and "226" not in glyph


def test_a_column_without_any_interval_is_not_headed_by_a_level(sample_report) -> None:
    exact = Estimate(name="claim", value=8.0, method="exact", n=1, unit="claims")
    held = Estimate(name="claim", value=8.0, low=7.0, high=9.0, method="bootstrap", n=1, unit="claims")
    for rows, levels in (((exact, exact), [""]), ((exact, held), ["95 %"])):
        page = to_html(replace(sample_report, estimates=rows, findings=(), gates=(), answer=None), {})
        assert _data(page)["tables"][0]["levels"] == levels


def test_rows_of_small_groups_are_faint(page, sample_report) -> None:
    small = {warning.where["group"] for warning in sample_report.warnings if warning.id == "small-group"}
    table = _data(page)["tables"][0]
    rows = [row for row in sample_report.estimates if row.name == "error_rate"]
    assert _column(table["faint"], len(rows)) == [int(row.where["group"] in small) for row in rows]


def test_warnings_stand_beside_what_they_limit(sample_report) -> None:
    row = sample_report.estimates[0]
    warning = Warning(id="w", message="Only on Tuesdays.", where=row.where)
    finding = Finding(id="f", severity="low", statement="So it is.", evidence=(0,))
    page = to_html(replace(sample_report, findings=(finding,), warnings=(warning,), figures=()), {})
    found = _found(page)
    assert "Only on Tuesdays." in found
    assert "Only on Tuesdays." in page[page.index('id="limits"') :]
    table = _data(page)["tables"][0]
    assert table["messages"] == ["Only on Tuesdays."]
    notes = _column(table["notes"], table["rows"])
    assert table["sayings"][notes[0]] == [0]
    assert all(table["sayings"][code] == [] for code in notes[1:])


def test_without_scripts_the_cited_numbers_are_there(page, sample_report) -> None:
    block = page[page.rindex("<noscript>") : page.rindex("</noscript>")]
    assert block.count("<tr><th") == 1 + len({index for f in sample_report.findings for index in f.evidence})
    assert f"All {len(sample_report.estimates)} are in" in block


def test_what_others_wrote_is_shown_not_run(sample_report) -> None:
    row = Estimate(
        name=EVIL, value=0.5, low=0.4, high=0.6, method=EVIL, n=5, unit=EVIL, where={"group": EVIL, EVIL: EVIL}
    )
    sides = {"y": {"field": "a", "type": "nominal"}, "x": {"field": "b", "type": "quantitative"}}
    spec = {"data": {"values": [{"a": EVIL, "b": 1}]}, "mark": "bar", "title": EVIL, "encoding": sides}
    report = replace(
        sample_report,
        title=EVIL, question=EVIL, limitations=(EVIL,), estimates=(row,), gates=(), settings={EVIL: EVIL},
        findings=(Finding(id="f", severity="high", statement=EVIL, evidence=(0,)),),
        warnings=(Warning(id=EVIL, message=EVIL, where={"group": EVIL}),),
        figures=(Figure(id=EVIL, title=EVIL, caption=EVIL, file="evil", spec=spec),),
        provenance=replace(sample_report.provenance, command=(EVIL,), packages={EVIL: EVIL}),
    )  # fmt: skip
    page = to_html(report, {stem: picture.svg for stem, picture in draw(report).items()})
    parsed = _Page(page)
    assert len(parsed.scripts) == 3
    assert not [tag for tag, attributes in parsed.elements if tag == "img" or "onerror" in attributes]
    assert "alert(1)" not in parsed.scripts[1] + parsed.scripts[2]
    assert _data(page)["tables"][0]["where"][0]["values"] == [EVIL]
    assert "49" not in page[page.index("<h1>") : page.index("</h1>")]


def test_equal_reports_give_equal_pages(sample_report, page) -> None:
    read = Report.from_json(
        json.loads(json.dumps(sample_report.to_json(), sort_keys=True)), measures_of(sample_report.audit)
    )
    assert to_html(read, {stem: picture.svg for stem, picture in draw(read).items()}) == page


def test_only_date_and_provenance_change_between_equal_runs(sample_report) -> None:
    bare = replace(sample_report, figures=())
    later = replace(bare, created="2027-02-02T10:00:00Z")
    page = to_html(later, {}).replace("2027-02-02 10:00:00", "2026-01-15 09:30:00")
    assert page.replace(" · 2027-02-02</p>", " · 2026-01-15</p>") == to_html(bare, {})


def test_twenty_thousand_estimates_fit(sample_report) -> None:
    draws = random.Random(3)
    groups = [f"accent={accent}&age={age}&gender={sex}" for accent in range(30) for age in range(4) for sex in "fm"]
    estimates = []
    for place in range(20_000):
        value, width = draws.random(), 0.2 * draws.random()
        where = {"task": "asr", "metric": "wer", "layer": place // 240, "group": groups[place % 240]}
        ends = {"low": value - width, "high": value + 1.1 * width}
        estimates.append(
            Estimate(name="error_rate", value=value, **ends, method="bootstrap", n=draws.randint(5, 3000),
                     unit="speakers", where=where)
        )  # fmt: skip
    report = replace(sample_report, estimates=tuple(estimates), findings=(), gates=())
    page = to_html(report, {figure.file: "<svg>" + "x" * 60_000 + "</svg>" for figure in report.figures})
    assert len(page.encode()) < LIMIT
    (table,) = _data(page)["tables"]
    assert table["count"] == 20_000
    assert table["rows"] >= 10_000


def test_a_chart_that_is_too_large_is_left_to_its_file(sample_report) -> None:
    large = replace(sample_report.figures[0], spec={"data": {"values": ["x" * 400_000]}})
    report = replace(sample_report, figures=(large, *sample_report.figures[1:]))
    page = to_html(report, {})
    assert 'href="figures/gap-by-layer.svg"' in page
    assert len(_data(page)["figures"]) == len(report.figures) - 1
    assert len(page.encode()) < LIMIT


def test_extreme_numbers_travel_as_they_are_written(sample_report) -> None:
    rows = (
        Estimate(name="p_value", value=2.5e-12, low=2e-12, high=3e-12, method="m", n=5, unit="clips"),
        Estimate(name="p_value", value=0.25, method="none", n=5, unit="clips"),
    )
    page = to_html(replace(sample_report, estimates=rows, findings=(), gates=(), figures=()), {})
    (table,) = _data(page)["tables"]
    assert table["odd"]["0"][3:] == ["2.5 x 10^-12", "2 x 10^-12 to 3 x 10^-12"]
    assert _column(table["below"], 2) == [None, None]


def test_bounds_are_written_on_the_page_as_everywhere(sample_report) -> None:
    common = {"n": 90, "unit": "points", "value": 1.37848}
    rows = (
        Estimate(name="epsilon_lower", low=1.37848, high=4.20874, method="Lower bound: one-sided", **common),
        Estimate(name="epsilon_lower", low=0.5, high=1.37848, method="Upper bound: accountant", **common),
    )
    page = to_html(replace(sample_report, estimates=rows, findings=(), gates=(), figures=()), {})
    (table,) = _data(page)["tables"]
    assert table["odd"]["0"][3:] == ["1.37", "at least; 4.20 provable"]
    assert table["odd"]["1"][3:] == ["1.38", "at most; at least 0.500"]


def test_pictures_repeat_and_share_no_names(sample_report) -> None:
    two = replace(
        sample_report, figures=(sample_report.figures[3], replace(sample_report.figures[3], id="b", file="b"))
    )
    first, again = draw(two), draw(two)
    assert first == again
    names = [set(re.findall(r'id="([^"]+)"', picture.svg)) for picture in first.values()]
    assert names[0]
    assert not names[0] & names[1]
    assert 'fill="white"' in first["b"].svg
    bare = for_page(first["b"].svg)
    assert not [word for word in ('fill="white"', "font-family", ' opacity="1"', 'd=""') if word in bare]
    assert bare.count("<text") == first["b"].svg.count("<text") > 0, "nothing that is seen is dropped"
    assert first["b"].png.startswith(b"\x89PNG")


def test_a_chart_from_elsewhere_fetches_nothing(sample_report) -> None:
    spec = {"data": {"url": "https://example.org/x.csv"}, "mark": "point"}
    figure = Figure(id="f", title="t", caption="c", file="f", spec=spec)
    with pytest.raises(InputError, match="cannot be drawn"):
        draw(replace(sample_report, figures=(figure,)))


def test_characters_that_no_picture_can_hold_do_not_end_the_process() -> None:
    from audits.report.pages.figures import picture_of

    odd = "".join(map(chr, [*range(32), 0x7F, 0x9F, 0xFFFE, 0xFFFF])) + "\\u001b end"
    spec = {
        "data": {"values": [{"name": odd, "size": 1}]},
        "mark": "bar",
        "encoding": {"x": {"field": "size", "type": "quantitative"}, "y": {"field": "name", "type": "nominal"}},
        "title": odd,
    }
    assert "end" in picture_of(spec, "odd").svg


def _listed(sample_report, table, stem="listed") -> Report:
    spec = {**sample_report.figures[0].spec, "usermeta": {"miles": {"table": table}, "embedOptions": {"x": 1}}}
    return replace(sample_report, figures=(replace(sample_report.figures[0], file=stem, spec=spec),))


LIST = {"columns": [["place", "line"], ["text", "text"], ["radii", "radii"]], "rows": [[3, EVIL, 1.5], [12, "b", 2]]}


def test_a_list_under_a_figure_is_shown_in_full_and_travels_once(sample_report) -> None:
    report = _listed(sample_report, LIST)
    page = to_html(report, {stem: picture.svg for stem, picture in draw(report).items()})
    block = page[page.index('<div class="scroll passages"') : page.index('<section id="coverage"')]
    cells = [html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", block)]
    assert cells == ["3", EVIL, "1.50", "12", "b", "2.00"]
    assert re.findall(r'<th scope="col"( class="right")?>(.*?)</th>', block) == [
        (' class="right"', "line"), ("", "text"), (' class="right"', "radii"),
    ]  # fmt: skip
    assert len(_Page(page).scripts) == 3
    assert "usermeta" not in json.dumps(_data(page))
    assert not [tag for tag, attributes in _Page(page).elements if tag == "img" or "onerror" in attributes]


@pytest.mark.parametrize(
    "table",
    [
        None, 3, "x", [], {}, {"columns": 3, "rows": []}, {"columns": [], "rows": [[]]}, {"columns": [["a", "b"]]},
        {"columns": [["a"]], "rows": [["x"]]}, {"columns": [["a", 3]], "rows": [["x"]]},
        {"columns": [["a", "b"]], "rows": [["x", "y"], 3, [{"a": 1}], [["x"]], [True], [10**400], [1e300]]},
        {"columns": [["a", "b"]] * 9, "rows": [["x"] * 9]},
    ],
)  # fmt: skip
def test_a_list_that_does_not_fit_is_left_out(sample_report, table) -> None:
    assert "passages" not in _body(to_html(_listed(sample_report, table), {}))


def test_rows_that_fit_stay_and_long_ones_are_cut(sample_report) -> None:
    rows = [["x", "y"], [7], ["w" * 5000], *[["fine"]] * 50]
    body = _body(to_html(_listed(sample_report, {"columns": [["a", "b"]], "rows": rows}), {}))
    assert body.count("<td") - _body(to_html(replace(sample_report, figures=()), {})).count("<td") == 20
    assert "w" * 400 + "…" in body and "w" * 401 not in body


def test_lists_that_do_not_fit_the_page_are_left_to_markdown(sample_report) -> None:
    table = {"columns": [["a", "b"]] * 8, "rows": [["<" * 400] * 8] * 20}
    figures = tuple(replace(_listed(sample_report, table).figures[0], id=f"f{n}", file=f"f{n}") for n in range(9))
    page = to_html(replace(sample_report, figures=figures), {})
    assert len(page.encode()) < LIMIT
    assert page.count("too long for the page") == 9


def _body(page) -> str:
    return page[page.index("<main") : page.index("</main>")]


def test_the_glyph_of_a_finding_is_that_of_the_number_in_its_headline(sample_report) -> None:
    row = sample_report.estimates[0]
    told = Finding(id="f", severity="low", headline=f"It is {point(row)}.", statement="So.", evidence=(0,))
    bare = replace(told, headline="It is much.")
    pages = [to_html(replace(sample_report, findings=(one,), figures=(), gates=()), {}) for one in (told, bare)]
    assert [_found(page).count('<svg class="glyph"') for page in pages] == [1, 0]
