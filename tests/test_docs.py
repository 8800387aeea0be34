"""Do the pages say what the program does? Their commands run, their code runs, and nothing is left out."""

import ast
import contextlib
import csv
import importlib
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest
from refusals import everything
from small_world import COUNTS, GROUPS, PHONES, Outcome, call

from audits.core import registry
from audits.core.records import Answer, Report
from audits.report.report_file import write_report

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
AUDITS = {
    name: ROOT / "docs" / "audits" / f"{name}.md"
    for name in (entry.target.partition(":")[0].removeprefix("audits.") for entry in registry.AUDITS)
}
RUNS = {
    "asr_fairness": "first",
    "certification": "certified",
    "conditional": "conditional",
    "faithfulness": "faithfulness",
    "gradients": "gradients",
    "interference": "matrix",
    "membership": "suite",
    "phoneme_errors": "phones",
    "precision_recall": "texts",
    "speaker_groups": "groups",
    "scaling": "growth",
    "spectra": "grids",
    "tracking": "tracking",
}
"""A run in the prepared folder of each audit that has one."""
SOME_IDS = {
    "asr_fairness": {"error_rate", "gap", "best_layer", "fairness.gap", "small-group"},
    "certification": {"certified_accuracy", "implied_alpha", "certify.accuracy", "sigma-unit", "printed-radii"},
    "conditional": {"self_gap", "best_of", "conditional.verdict", "conditional.best_of", "no-oracle", "too-few-draws"},
    "faithfulness": {"human_auc", "omission_auc", "faithfulness.trust", "one-training-run", "not-planted"},
    "gradients": {"cosine", "speedup_ceiling", "gradients.chance", "reference-check", "one-batch"},
    "interference": {"received", "interference.matrix", "interference.not-converged", "no-guard", "corpus", "one-seed"},
    "membership": {"leakage", "membership.verdict", "membership.flipped", "coins-doubtful", "other-shadows", "no-gdp"},
    "phoneme_errors": {"own_data_gain", "phonemes.neither", "phonemes.letters", "small-group", "phones-not-shared"},
    "precision_recall": {"density", "expected_coverage", "texts.outside", "few-texts", "other-lengths", "hubs"},
    "speaker_groups": {"rate", "rate_ratio", "groups.spurious", "too-many-groups", "no-errors", "no-interval"},
    "spectra": {"relative_l2", "mismatch_share", "spectra.verdict", "few-samples", "poor-fit", "unit"},
    "scaling": {"crossover", "law_weight", "scaling.leak", "real-tensors", "one-round"},
    "tracking": {"critical_n", "format_gap", "tracking.shortcut", "not-reached", "few-items"},
}
"""Some of the names that must be found in the code of an audit, or else nothing was looked at."""
VENV = "python3 -m venv .venv && .venv/bin/pip install -e"
ELSEWHERE = (
    f"{VENV} '.[demo]' && .venv/bin/miles demo",
    f"{VENV} '.[test]' && .venv/bin/pytest",
    f"{VENV} '.[dev]'",
    ".venv/bin/pytest",
    ".venv/bin/ruff check . && .venv/bin/ruff format --check .",
    ".venv/bin/mypy",
    ".venv/bin/python docs/make_reference.py",
)
"""Lines of the pages that are not run here: they install miles or are what the gate of the repository runs."""

_BLOCK = re.compile(r'^```(\w+)(?: title="([\w.]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SCHEME = re.compile("#gh-(light|dark)-mode-only$")
"""The end of a picture's address that says for which scheme it is."""
_LINK = re.compile(r"""(?:\[[^\]]*\]\(|\bsrc(?:set)?=")([^)"\s]+)""")


@dataclass(frozen=True)
class Block:
    """A block of a page: its language, the file that it stands for, its text and its line."""

    language: str
    title: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2] or "", m[3], text.count("\n", 0, m.start()) + 1) for m in _BLOCK.finditer(text)]


def prose(page: Path) -> str:
    return re.sub("<!--.*?-->", "", _BLOCK.sub("", page.read_text(encoding="utf-8")))


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def coded(page: Path) -> set[str]:
    """Return everything that stands between single backticks."""
    return set(re.findall(r"`([^`\n]+)`", prose(page)))


# The reference, and constants of the code


def _made(name: str) -> Any:
    """Return a module of docs/."""
    place = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert place is not None and place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def maker() -> Any:
    return _made("make_reference")


@pytest.fixture(scope="module")
def constants() -> Any:
    return _made("constants")


def test_the_constants_on_the_pages_are_those_of_the_code(constants: Any) -> None:
    assert [name_of(page) for page in constants.write(check=True)] == [], "run: python docs/make_reference.py"


def test_every_mark_of_a_constant_is_read(constants: Any) -> None:
    pages = [page.read_text(encoding="utf-8") for page in PAGES if page.is_relative_to(ROOT / "docs")]
    read = [found["mark"] for text in pages for found in constants.STAMP.finditer(text)]
    assert [text for page in pages for text in re.findall("<!--=.*?-->", page)] == read and len(read) > 150
    # No sense is left to a mark in a block or between backticks, where it would be shown.
    assert not any("<!--=" in block.text for page in PAGES for block in blocks(page))
    assert not any("<!--=" in word for text in pages for word in re.findall(r"`[^`\n]+`", text))


@pytest.mark.parametrize("mark", ["audits.spectra.NONE", "audits.nowhere.LEAST", "audits.spectra.Options.none"])
def test_a_constant_that_is_gone_is_an_error(constants: Any, mark: str) -> None:
    with pytest.raises(AttributeError):
        constants.stamped(f"3<!--= {mark} -->")


def test_the_reference_is_up_to_date(maker: Any) -> None:
    text = maker.PAGE.read_text(encoding="utf-8")
    assert maker.page(text) == text, "run: python docs/make_reference.py"


def test_every_command_and_option_has_help_and_stands_in_the_reference(maker: Any) -> None:
    sections = re.split(r"^## ", maker.PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    by_name = {section.partition("\n")[0]: section for section in sections}
    for name, command in maker.commands().items():
        section = by_name[f"miles {name}"]
        assert command.help and command.help.splitlines()[0] in section
        for item in maker.parameters(command):
            assert item.help, (name, item.name)
            words = item.opts if item.param_type_name == "option" else [str(item.metavar or item.name).upper()]
            assert all(f"`{word}`" in section for word in words), (name, item.name)


# The pictures and the printed summaries of the tutorials


@pytest.fixture(scope="module")
def examples() -> Any:
    return _made("make_examples")


def test_a_tutorial_shows_the_answer_and_the_first_entries_of_each_list(
    examples: Any, sample_report: Report, tmp_path: Path
) -> None:
    sentences = tuple(f"Sentence {number}." for number in range(5))
    findings = tuple(replace(sample_report.findings[0], headline=f"Finding {number}.") for number in range(12))
    answer = Answer(title="This is the answer.", may=sentences, may_not=sentences)
    write_report(replace(sample_report, findings=findings, answer=answer), tmp_path)
    lines = examples.shown(tmp_path / "report.json").splitlines()
    assert lines[0] == "This is the answer." and max(map(len, lines)) <= 80
    assert [line for line in lines if "Finding" in line][-1].endswith(f"Finding {examples.FINDINGS - 1}.")
    assert [line for line in lines if "Sentence" in line] == 2 * ["- Sentence 0.", "- Sentence 1."]
    assert lines.count("[...]") == 3 and not any(line.startswith(("- Warning", "Report", "Next")) for line in lines)


def test_a_gate_that_ends_otherwise_than_the_tutorial_says_is_named(
    examples: Any, sample_report: Report, tmp_path: Path
) -> None:
    write_report(sample_report, tmp_path)
    rows = [f"| `findings > {most}` | {said} | why |" for most, said in ((0, "fails"), (0, "passes"), (99, "fails"))]
    assert examples.wrong_gates(tmp_path / "report.json", "\n".join(rows)) == ["findings > 0", "findings > 99"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_picture_of_a_report_has_the_ground_and_the_ink_of_its_scheme(
    examples: Any, sample_report: Report, tmp_path: Path, scheme: str
) -> None:
    write_report(sample_report, tmp_path)
    drawn = examples.chart(tmp_path / "report.json", sample_report.figures[0].id, scheme).convert("RGB")
    colours = {
        f"#{red:02x}{green:02x}{blue:02x}" for _, (red, green, blue) in drawn.getcolors(drawn.width * drawn.height)
    }
    assert {examples.GROUNDS[scheme], examples.INKS[scheme]} <= colours
    assert f"#{drawn.getpixel((0, 0))[0]:02x}" == examples.GROUNDS[scheme][:3]


# The report


def schema_keys(node: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield every key of the schema as the page writes it: `coverage.skipped[].reason`."""
    for choice in (node, *node.get("anyOf", ())):
        for key, inner in choice.get("properties", {}).items():
            place = f"{path}.{key}" if path else key
            yield place
            yield from schema_keys(inner, place)
        if "items" in choice:
            yield from schema_keys(choice["items"], f"{path}[]")


def test_every_key_of_the_report_is_documented_and_no_other() -> None:
    from audits.report.report_file import schema

    page = prose(ROOT / "docs" / "report.md").partition("## report.json")[2]
    documented = re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE)
    assert sorted(documented) == sorted(schema_keys(schema()))


# The pages of the audits


def _is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and name in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))


def _texts(node: ast.AST | None) -> list[str]:
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body), *_texts(node.orelse)]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def names_used(folder: Path) -> set[str]:
    """Return the estimates that an audit declares, and ids of warnings and findings that its code writes down."""
    found: list[str] = list(spec_of(folder.name).estimates)
    for file in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["name"]:
                found += _texts(node.value)
            if file.stem == "cautions" and isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple):
                found += _texts(node.value.elts[0])
            listed = isinstance(node, ast.Return) and isinstance(node.value, ast.List)
            if (
                file.stem == "outlook"
                and isinstance(node, ast.Tuple)
                and any(isinstance(one, ast.Dict) for one in node.elts[2:])
            ):
                found += _texts(node.elts[0])
            if file.stem in ("fitting", "outlook") and listed:
                found += [text for pair in node.value.elts for text in _texts(getattr(pair, "elts", [None])[0])]
            if not isinstance(node, ast.Call):
                continue
            # `find` of a draft is given more than an id; that of an archive is not.
            found_one = _is_call(node, "find") and len(node.args) + len(node.keywords) > 1
            if found_one or any(_is_call(node, name) for name in ("warn", "Note")):
                found += _texts(node.args[0])
            if _is_call(node, "Warning") or _is_call(node, "Undefined"):
                found += [text for word in node.keywords if word.arg == "id" for text in _texts(word.value)]
            if _is_call(node, "append") and isinstance(node.args[0], ast.Tuple):
                found += _texts(node.args[0].elts[0]) if isinstance(node.args[0].elts[-1], ast.Dict) else []
    # What a phase of the work is called has spaces.
    return {name for name in found if name and " " not in name}


def spec_of(audit: str) -> registry.AuditSpec:
    spec: registry.AuditSpec = importlib.import_module(f"audits.{audit}").AUDIT
    return spec


@pytest.mark.parametrize("audit", AUDITS)
def test_every_estimate_warning_and_finding_is_on_the_page_of_its_audit(audit: str) -> None:
    used = names_used(ROOT / "audits" / audit) | set(spec_of(audit).estimates)
    assert SOME_IDS.get(audit, set()) <= used
    assert used - coded(AUDITS[audit]) == set()


@pytest.mark.parametrize(
    "audit",
    [
        *("certification", "interference", "membership", "phoneme_errors", "precision_recall", "speaker_groups"),
        *("conditional", "faithfulness", "gradients", "scaling", "spectra", "tracking"),
    ],
)
def test_every_option_of_an_audit_is_on_its_page(audit: str) -> None:
    page = prose(AUDITS[audit])
    flags = {f"--{field.name.replace('_', '-')}" for field in fields(spec_of(audit).options)}
    flags -= {"--model", "--manifest"} if audit == "speaker_groups" else {"--tokens", "--corpus", "--file", "--targets"}
    flags -= set() if audit == "interference" else {"--model"}
    assert [flag for flag in sorted(flags) if not re.search(rf"`{flag}[ `]", page)] == []


def test_the_blocks_and_the_unit_of_counts_in_the_decision_are_those_of_the_code() -> None:
    from probes.classifiers.noise import BLOCK
    from probes.classifiers.smoothing import ONE

    counts = " ".join(prose(ROOT / "docs/decisions/0005-counts-are-the-cache.md").split())
    assert f"noise of {BLOCK} draws in a row" in counts and f"2^-{ONE.bit_length() - 1}" in counts


def test_the_thresholds_of_audit_phonemes_on_the_page_are_those_of_the_code() -> None:
    from audits.phoneme_errors import corpus, values
    from probes.speech import phone_probes

    text = " ".join(prose(AUDITS["phoneme_errors"]).split()).casefold()
    assert values.MOST_IN_PART == 0.5 and "at least half of the speakers said some phone twice" in text
    assert corpus.DOMINATING == 0.25 and "has more than a quarter of a group's tokens" in text
    assert f"layers is at most {phone_probes.MOST_PRODUCTS:.0e}.".replace("1e+0", "10^") in text


def test_the_thresholds_of_precision_recall_on_the_page_are_those_of_the_code() -> None:
    from audits.core.options import specs_of
    from audits.precision_recall import (
        clustering,
        demo,
        preflight,
        sequences,
        settings,
        sides,
        sweep,
    )
    from audits.precision_recall.divergence_curves import prd_slopes
    from audits.precision_recall.embedding_clusters import bucket_count
    from probes.core.hashing import sha256_json
    from probes.texts.tfidf import RARE
    from probes.vectors import knn
    from probes.vectors.support_metrics import coverage_ceiling, widened_share
    from probes.vectors.token_arrays import MAX_WIDTH

    text = " ".join(prose(AUDITS["precision_recall"]).split()).casefold()
    options = spec_of("precision_recall").options(reference=Path())
    slopes = prd_slopes(clustering.SLOPES)
    assert sides.PER_K == 10 and f"ten texts for each that `--k` counts, and {sides.LEAST} at least" in text
    assert RARE == 2 and "fewer than two texts counts as in two" in text
    assert bucket_count(10 * preflight.FEW_CLUSTERS) == preflight.FEW_CLUSTERS
    assert sides.FLOORED == ("precision", "density", "coverage") and widened_share.__defaults__ == (3.0,)
    assert f"demo/texts-{sha256_json([demo.VERSION, 0, False])[:12]}\n" in AUDITS["precision_recall"].read_text("utf-8")
    assert bucket_count(5000) == 500 and "one cluster for every ten texts of a side" in text
    assert sequences.HYPOTHESES == 0.2 and "of every fifth text" in text
    assert sweep.NATURAL == 1 and "no candidate at t = 1" in text
    assert f"of a width up to {MAX_WIDTH:,}" in " ".join(prose(ROOT / "docs" / "formats.md").split())
    for said in (
        "Precision, density or coverage of a candidate is shown to be below the ceiling and not shown to be above",
        f"{2 * sides.PER_K * 5} for $k = 5$, {2 * sides.LEAST} for $k = 3$",
        f"fewer than {preflight.FEW_CLUSTERS} clusters, so fewer than some {10 * preflight.FEW_CLUSTERS} texts",
        f"{clustering.SLOPES} slopes from {slopes[0]:.3f} to {slopes[-1]:.3f}",
        f"`--splits` times, {options.splits} by default, {specs_of(type(options))['splits'].least} at least",
        f"`--k` is {settings._DEFAULTS['k'][0]} by default",
        f"blocks of {4 * knn.ROWS * knn.COLUMNS // 2**20} MiB",
        f"at 1,000 a side it is {coverage_ceiling(1000, 1000, 5):.3f}",
    ):
        assert said.casefold() in text, said
    rows = re.findall(r"^\| `--([\w-]+)` \| ([^|]+) \|", prose(AUDITS["precision_recall"]), flags=re.MULTILINE)
    told = {flag.replace("-", "_"): value.replace(",", "").replace("`", "") for flag, value in rows}
    for name, value in settings._PR4LLM.items():
        assert told[name].startswith(str(value[0] if isinstance(value, tuple) else value)), name


def test_the_thresholds_of_membership_on_the_page_are_those_of_the_code() -> None:
    from audits.core.numbers import bounded
    from audits.membership import (
        MOST_FPR,
        bounding,
        copying,
        preflight,
        privacy_loss,
        separability,
        utility,
    )
    from audits.statistics import threshold_selection
    from audits.statistics.epsilon_bounds import ceiling
    from audits.statistics.one_run import one_run_epsilon
    from probes.generators.attacks import copies, denoiser, denoiser_attacks

    text = " ".join(prose(AUDITS["membership"]).split()).casefold()
    options = spec_of("membership").options()
    assert MOST_FPR == 3 and "`--fpr` names up to three rates of false alarms: " in text
    assert (separability.FOLDS, denoiser_attacks._STRIDES, utility.K) == (5, 100, 5)
    assert (preflight.UNLIKELY, preflight.RARE) == (0.1, 0.001)
    assert "less than once in a thousand times" in text and "rarer than one in ten" in text
    steps = {name: [f"{100 * part:g}" for part in one.fractions] for name, one in denoiser.DENOISER_ATTACKS.items()}
    shares = [f"{100 * share:g}" for share in bounding.SHARES]
    for said in (
        f"up to {threshold_selection.CANDIDATES} thresholds, or the {len(bounding.SHARES)} shares",
        f"{', '.join(shares[:-1])} or {shares[-1]} % of the points",
        f"{', '.join(steps['loss'][:-1])} and {steps['loss'][-1]} % of the schedule for `loss`, `sima` and `pia`",
        f"{', '.join(steps['pian'][:-1])} and {steps['pian'][-1]} % for `pian`",
        f"{', '.join(steps['secmi'][:-1])} and {steps['secmi'][-1]} % for `secmi` and `pfami`",
        f"and {steps['gradnorm'][0]} % for `gradnorm`",
        f"at `--delta`, {options.delta:g} by default".replace("e-0", "e-"),
        f"{options.fpr[0]}, {options.fpr[1]} and {options.fpr[2]}. One",
    ):
        assert said.casefold() in text, said
    assert (copies.NEAR, copying.CLEARLY) == (1 / 5, 2) and "at most a fifth of that" in text
    assert "at least twice the high end" in text and f"2^{{{int(privacy_loss.CELLS).bit_length() - 1}}}" in text
    assert steps["loss"] == steps["sima"] == steps["pia"] and steps["secmi"] == steps["pfami"]
    for points in (100, 500, 1000, 5000, 10_000):
        # Half of the points choose: of both sides together as many are left as stand in the first column.
        plain = [ceiling(points // 2, points // 2, delta=1e-5, alpha=alpha) for alpha in (0.05, 0.005)]
        runs = [one_run_epsilon(points, points, points, delta=1e-5, level=level) for level in (0.95, 0.995)]
        row = " | ".join(bounded(value) for value in (*plain, *runs))
        assert f"| {points:,} | {row} |" in text


def test_the_thresholds_of_interference_on_the_page_are_those_of_the_code() -> None:
    import numpy as np

    from audits.interference import (
        convergence,
        downstream,
        effects,
        measure,
        mixtures,
        settings,
    )
    from audits.statistics import qap
    from probes.language_models import language_corpora, masked_training

    text = " ".join(prose(AUDITS["interference"]).split()).casefold()
    options = spec_of("interference").options()
    training = settings.settle_training(options)
    given = settings.settle_training(spec_of("interference").options(model="encoder"))
    recipe = masked_training.Recipe(steps=1, batch=1, budget="same-data")
    read = training.steps * training.batch * training.window
    assert (convergence.LEAST_MARGIN, convergence.MOST_APART) == (0.02, 0.2)
    assert (measure.MOST_UNKNOWN, measure.FEW_UNKNOWN) == (0.1, 0.001)
    assert (convergence.LATEST_EXIT, mixtures.SHOWN, qap.ENUMERATED) == (0.5, 3, 8) and recipe.warmup == 0.1
    assert (masked_training.DRAWS, language_corpora._HELD_SHARE, downstream.FEWEST, effects.FEWEST) == (2, 5, 5, 5)
    assert qap.FEWEST == 4
    for said in (
        f"together, {training.window}; windows in a step, {training.batch}, of each language or of all; steps, "
        f"{training.steps}.",
        f"of muon for the matrices inside the layers, {training.matrix_rate:g};",
        f"of adamw, {training.rate:.0e}".replace("e-0", "e-"),
        f"windows of {given.window} tokens",
        f"{given.steps} steps, `--rate` {given.rate:.0e}".replace("e-0", "e-"),
        f"reads {read:,} bytes",
        f"with `same-total` {read // 2:,}.",
        f"{recipe.share:.0%} of the tokens are hidden".replace("%", " %"),
    ):
        assert said.casefold() in text, said
    rows = re.findall(
        r"^\| ([\d, ]+) \| (\d) \| (\d+) \| 0?([.\d]+) \|$", prose(AUDITS["interference"]), flags=re.MULTILINE
    )
    assert len(rows) > 10
    for sizes, languages, arrangements, least in rows:
        kinds = [kind for kind, size in enumerate(map(int, sizes.split(", "))) for _ in range(size)]
        same = np.equal.outer(kinds, kinds).astype(float)
        cells = np.random.default_rng(0).normal(size=same.shape)
        test = qap.permutation_test(cells, same, statistic="difference", rng=np.random.default_rng(0))
        assert (test.languages, test.arrangements, test.exact) == (int(languages), int(arrangements), True), sizes
        assert f"{test.smallest_p:.2g}".lstrip("0") in (least, least.rstrip("0")), sizes


def test_what_interference_knows_by_name_is_documented() -> None:
    from audits.core.option_groups import BACKENDS
    from audits.interference import BUDGETS, CORRECTIONS, likenesses
    from audits.interference.convergence import BASELINES

    verdicts = {"interference", "synergy", "indistinguishable", "untested", "not converged", "not measured"}
    told = {f"interference.{name}" for name in ("interference", "synergy", *likenesses.EFFECTS)}
    page = coded(AUDITS["interference"])
    known = {*BACKENDS, *BUDGETS, *CORRECTIONS, *BASELINES, *verdicts, *told, likenesses.OVERLAP, "bytes", "bpe", "all"}
    assert known - page == set()
    assert set(likenesses.NEVER) - coded(ROOT / "docs" / "formats.md") == set()


def test_what_membership_reads_and_knows_by_name_is_documented() -> None:
    from audits.membership import (
        SELECTIONS,
        TIERS,
        bounding,
        leaks,
        membership_scores,
        releases,
        score_tables,
        settings,
    )
    from probes.generators import accountants, point_sets
    from probes.generators.diffusion import PREDICTIONS, SCHEDULES
    from probes.generators.generative_networks import NETWORKS

    attacks = {name for names in settings.ATTACKS.values() for name in names}
    standing = {bounding.CERTIFIED, bounding.HEURISTIC, bounding.ASSUMES_GDP, bounding.ASSUMES_INDEPENDENT}
    standing.add(bounding.ASSUMES_INDEPENDENT_GDP)
    methods = {bounding.CLOPPER_PEARSON, bounding.GDP, *bounding._RUNS}
    verdicts = {"violation", "vacuous", "consistent"}
    known = {*attacks, *TIERS, *SELECTIONS, *standing, *methods, *verdicts, *leaks.ACCESS}
    assert known - coded(AUDITS["membership"]) == set()
    pairs = {name for pair in membership_scores._PAIRS.values() for name in pair}
    read = {*score_tables.SIDES, *score_tables.BESIDE, *pairs, *point_sets._NAMES, *accountants._MECHANISMS}
    assert {*read, *releases._KEYS, *SCHEDULES, *PREDICTIONS, *NETWORKS} - coded(ROOT / "docs" / "formats.md") == set()
    text = " ".join(prose(ROOT / "docs" / "formats.md").split())
    assert f"Up to {membership_scores.MAX_POINTS:,} points" in text
    assert f"a table for each model, {releases.MOST_MODELS} at most" in text


def test_what_precision_recall_knows_by_name_is_documented() -> None:
    from audits.precision_recall import DUPLICATES, NORMALISATIONS, POOLINGS, PRESETS, diversity
    from audits.precision_recall.sides import RESERVED
    from probes.vectors.support_metrics import METRICS

    names = {name for name, _ in diversity.QUANTILES}
    known = {*DUPLICATES, *NORMALISATIONS, *RESERVED, *METRICS, *names}
    assert known - {word.split()[-1] for word in coded(AUDITS["precision_recall"])} == set()
    assert all(f"`{name}`" in prose(AUDITS["precision_recall"]) for name in POOLINGS if name != "auto")
    assert all(f"`--preset {name}`" in prose(AUDITS["precision_recall"]) for name in PRESETS if name != "none")


def test_what_audit_phonemes_reads_and_knows_by_name_is_documented() -> None:
    from audits.phoneme_errors import PROBES, TRANSFORMS, WEIGHTS, token_tables, tokens
    from audits.phoneme_errors.values import TESTS, TRAININGS
    from probes.speech import alignment_files, alignments, phone_names, textgrids
    from probes.vectors import token_arrays

    page, formats = AUDITS["phoneme_errors"], ROOT / "docs" / "formats.md"
    kinds = {f"phonemes.{kind}" for kind in (*TESTS, "both")}
    wanted = {*PROBES, *TRANSFORMS, *WEIGHTS, *TRAININGS, *TESTS, *kinds}
    assert wanted - coded(page) == set()
    columns = (name for ranks in alignment_files._COLUMNS.values() for names in ranks for name in names)
    read = {*tokens.PHONE_NAMES, *alignment_files._CLIPS, *columns, *(f"alignments.{id}" for id in alignments._NOTES)}
    known = {word.casefold() for word in coded(formats)}
    assert {*read, *alignments.FORMS, *textgrids.PHONE_TIERS} - known == set()
    assert tokens._ABSENT - {""} - coded(formats) == set()
    text = " ".join(prose(formats).split())
    for said in (
        f"{token_tables.MAX_CELLS:,} cells",
        f"{token_arrays.MAX_TOKENS:,} tokens",
        f"{token_arrays.MAX_WIDTH:,} numbers",
        f"{token_arrays.MAX_LAYERS:,} layers",
        f"{token_arrays.MAX_TEXT} letters",
        f"A file may have {textgrids.MAX_BYTES // 2**20} MiB",
        f"more than {1000 * alignments._BEYOND:g} ms after its recording",
    ):
        assert said in text, said
    for word in ("sil", "<eps>", "h#", "<usb>", "VOCNOISE", "{SL}", "laugh", "noise"):
        assert word.casefold() in phone_names.PAUSES and word in coded(formats), word


def test_every_usual_name_of_a_column_that_audit_groups_finds_is_documented() -> None:
    from audits.group_rates.comparing import KINDS
    from audits.speaker_groups import HYPOTHESES, METRICS, MISSING, columns, designs
    from audits.speaker_groups.discovery import TESTS
    from audits.speaker_groups.gaps import RATIOS
    from audits.speaker_groups.indices import INDICES, PARTS
    from audits.speaker_groups.predictions import NAME_COLUMNS, TEXT_COLUMNS

    tests = (name for names in TESTS.values() for name in names)
    page = {*HYPOTHESES, *METRICS, *MISSING, *KINDS, *RATIOS, *INDICES, *PARTS, *tests, *columns.PARTS}
    page |= {*columns.NAMES, *columns.PREDICTION_COLUMNS, columns.ONE_SYSTEM, designs.FEW}
    assert page - coded(AUDITS["speaker_groups"]) == set()
    formats = {*NAME_COLUMNS, *(name for names in TEXT_COLUMNS for name in names), *columns.PARTS}
    assert formats - coded(ROOT / "docs" / "formats.md") == set()


def test_every_family_kind_and_name_that_spectra_knows_is_documented() -> None:
    from probes.operators.fields import INPUT_NAMES, TARGET_NAMES
    from probes.operators.fno.contents import SCALES
    from probes.operators.fno.physicsnemo import ACTIVATIONS
    from probes.operators.fno.reading import FAMILIES
    from probes.operators.grids import KINDS
    from probes.operators.resampling import METHODS

    methods = {method for several in METHODS.values() for method in several}
    wanted = {*FAMILIES, *KINDS, *methods, *SCALES, *INPUT_NAMES, *TARGET_NAMES, *ACTIVATIONS}
    assert wanted - coded(AUDITS["spectra"]) == set()


def test_every_preset_note_and_name_of_a_column_is_documented() -> None:
    from probes.files.levels import UNKNOWN_TOKENS
    from probes.speech.activations import FAMILIES
    from probes.speech.corpora import PRESETS
    from probes.speech.manifests import ROLES

    page = ROOT / "docs" / "formats.md"
    words = coded(page)
    notes = {
        note
        for folder in ("speech", "files")
        for file in (ROOT / "probes" / folder).rglob("*.py")
        for note in re.findall(r'"((?:manifest|corpus)\.[a-z-]+)"', file.read_text(encoding="utf-8"))
    }
    assert "manifest.unknown" in notes
    notes -= {"manifest.csv"}
    assert {*notes, *PRESETS, *(name for names in ROLES.values() for name in names)} - words == set()
    assert (UNKNOWN_TOKENS - {""}) - {word.casefold() for word in words} == set()
    assert [family for family in FAMILIES if family not in prose(page)] == []


def test_the_page_on_plugins_names_every_parameter_of_what_an_audit_declares() -> None:
    from audits.core.detectable import Detectable
    from audits.core.measures import Measure
    from audits.core.options import OptionSpec

    page = prose(ROOT / "docs" / "plugins.md")
    for declared in (Detectable, Measure):
        named = page.partition(f"`{declared.__name__}(")[2].partition(")`")[0]
        assert set(re.findall(r"\w+", named)) == {item.name for item in fields(declared)}, declared
    # `positional` is what `argument` sets.
    told = set(re.findall(r"[\w-]+", " ".join(re.findall(r"`[^`]+`", page.partition("### Options")[2]))))
    assert {item.name for item in fields(OptionSpec)} - {"positional"} <= told


def test_every_audit_that_spreads_is_on_the_pages_of_many_machines() -> None:
    spread = {spec_of(name).name for name in AUDITS if spec_of(name).spreads}
    assert {"audit-gradients", "interference"} <= spread
    for page in ("clusters", "cluster-costs"):
        rows = re.findall(r"^\| \[?`([\w-]+)`", prose(ROOT / "docs" / f"{page}.md"), flags=re.MULTILINE)
        assert spread - set(rows) == set(), page


# Links


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = SCHEME.sub("", target).partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists() and file.is_relative_to(ROOT), f"{target} leads nowhere"
        assert not anchor or anchor in anchors(file), f"{target}: no such heading"


# What the pages run


@pytest.fixture(scope="module")
def unchanged(prepared: Path) -> Iterator[None]:
    """Fail where a page writes into a file that it only has a link to."""
    before = everything(prepared)
    yield
    assert everything(prepared) == before


@pytest.fixture
def work(prepared: Path, unchanged: None, tmp_path: Path) -> Iterator[Path]:
    """Return a copy of the prepared folder in which one page may do what it likes."""
    made_by_miles = [str(prepared / "cache"), str(prepared / "work" / "runs")]

    def copied(file: str, there: str) -> None:
        # miles writes no file anew that has a name, and these are most of all.
        if file.startswith(tuple(made_by_miles)):
            with contextlib.suppress(OSError):
                return os.link(file, there)
        shutil.copy2(file, there)
        return None

    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True, symlinks=True, copy_function=copied)
    folder = tmp_path / "work"
    known = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder
    for name in set(sys.modules) - known:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(folder)):
            del sys.modules[name]


def _matches(expected: str, out: str) -> bool:
    """Tell whether the pieces between dots stand in the output, in their order, whatever the spaces."""
    place, plain = 0, " ".join(out.split())
    for piece in expected.split("..."):
        words = " ".join(piece.split())
        place = plain.find(words, place)
        if place < 0:
            return False
        place += len(words)
    return True


def _check_options(words: list[str]) -> None:
    """Check a command that takes minutes by its options alone."""
    from miles_cli.main import _real

    known = {name for item in _real(words[0]).params for name in (*item.opts, *item.secondary_opts)}
    unknown = [word for word in words if word.startswith("-") and word.partition("=")[0] not in known]
    assert unknown == [], f"miles {words[0]} has no {unknown}"


def _run_line(line: str, folder: Path) -> Outcome | None:
    if line in ELSEWHERE:
        return None
    words = shlex.split(line)
    assert words[0] == "miles", f"{line!r} is neither a call of miles nor a line that is run elsewhere"
    if words[1] == "demo":
        _check_options(words[1:])
        return None
    if "--scheduler" in words:
        # There is no such cluster here.
        _check_options(words[1:])
        return None
    return call(words[1:], folder)


def _run_console(block: Block, folder: Path) -> None:
    prompted = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert prompted[0] == "", "a console block begins with a command"
    steps = [(line, shown) for part in prompted[1:] for line, _, shown in [part.partition("\n")]]
    done: Outcome | None = None
    for place, (line, shown) in enumerate(steps):
        if line == "echo $?":
            assert done is not None and done.code == int(shown), done
            continue
        done = _run_line(line, folder)
        if done is not None:
            judged = place + 1 < len(steps) and steps[place + 1][0] == "echo $?"
            assert judged or done.code == 0, f"{line}: {done.code}\n{done.out}"
            assert _matches(shown, done.out), f"{line}: the page shows\n{shown}\nmiles says\n{done.out}"


def _install(project: dict[str, Any], folder: Path) -> None:
    """Stand in for `pip install`: put a package's metadata beside its modules."""
    name, version = project["name"], project["version"]
    place = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    lines = [
        line
        for group, points in project.get("entry-points", {}).items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in points.items()))
    ]
    (place / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    importlib.invalidate_caches()


def _run_block(block: Block, folder: Path) -> None:
    if block.title:
        (folder / block.title).write_text(block.text, encoding="utf-8")
    if block.language == "toml":
        content = tomllib.loads(block.text)
        if block.title == "pyproject.toml":
            _install(content["project"], folder)
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "csv":
        rows = list(csv.reader(io.StringIO(block.text), strict=True))
        assert len(rows) > 1 and {len(row) for row in rows} == {len(rows[0])}
    elif block.language == "python" and block.title:
        importlib.invalidate_caches()
        importlib.import_module(Path(block.title).stem)
    elif block.language == "python":
        with contextlib.chdir(folder):
            exec(compile(block.text, "block", "exec"), {"__name__": "block"})
    elif block.language == "console":
        _run_console(block, folder)
    elif block.language == "sh":
        for line in block.text.splitlines():
            done = _run_line(line, folder)
            assert done is None or done.code == 0, done
    else:
        assert block.language == "text", f"{block.language}: nobody checks such a block"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_what_a_page_shows_runs(page: Path, work: Path) -> None:
    for block in blocks(page):
        try:
            _run_block(block, work)
        except AssertionError as error:
            raise AssertionError(f"{page.name}:{block.line}: {error}") from error


def test_no_block_escapes_the_tests() -> None:
    for page in PAGES:
        fences = re.findall(r"^\s*```", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert len(fences) == 2 * len(blocks(page)), page


def test_the_readme_gives_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert set(ELSEWHERE[:2]) <= set(lines)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_front_pages_ask_what_miles_list_asks(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [entry.name for entry in registry.AUDITS if entry.summary not in text] == []


# What a run writes, against the page of its audit


def _documented_where(page: Path) -> dict[str, set[str]]:
    section = prose(page).partition("## Estimates")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", section, flags=re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", keys)) for names, keys in rows for name in re.findall(r"`(\w+)`", names)}


def _report(prepared: Path, audit: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((prepared / "work/runs" / RUNS[audit] / "report.json").read_text("utf-8"))
    return report


def test_estimates_have_the_coordinates_that_the_page_names(prepared: Path) -> None:
    report = _report(prepared, "asr_fairness")
    documented = _documented_where(AUDITS["asr_fairness"])
    odd = [row for row in report["estimates"] if documented.get(row["name"]) != set(row["where"])]
    assert odd == []
    methods = {row["method"] for row in report["estimates"] if row["name"] == "error_rate"}
    assert methods - coded(AUDITS["asr_fairness"]) == set()


def test_estimates_of_certify_have_the_coordinates_that_the_page_names(prepared: Path, work: Path) -> None:
    again = ["--lipschitz", "1", "--radii", "0.1", "--out", "runs/soft"]
    log = ["--from-log", "runs/certified/certify.tsv", "--sigma", "0.25", "--n", "1000", "--out", "runs/log"]
    certified = (work / "runs" / "certified" / "certify.tsv").read_text().splitlines()
    # The same images, of which every third is not certified here.
    rows = [line.split("\t") for line in certified[1:]]
    other = [[*row[:2], "-1", "0", "0", "1"] if place % 3 == 0 else row for place, row in enumerate(rows)]
    text = "\n".join([certified[0], *("\t".join(row) for row in other)]) + "\n"
    (work / "other.tsv").write_text(text)
    for name, made in (("a.tsv", rows), ("b.tsv", other)):
        lines = ("\t".join([*row[:3], *row[4:]]) for row in made)
        (work / name).write_text("\n".join(["idx\tlabel\tpredict\tcorrect\ttime", *lines]) + "\n")
    logs = [*log[:1], "first=runs/certified/certify.tsv", "--from-log", "other.tsv", *log[2:-1], "runs/logs"]
    predicted = ["--from-log", "a.tsv", "--from-log", "b.tsv", "--out", "runs/predicted"]
    attacked = ["net.safetensors", "--arch", "small_cnn", "--data", "images.npz", "--sigma", "0.25", "--n", "100"]
    attacked += ["--attack-steps", "1", "--attack-draws", "2", "--attack-images", "5", "--out", "runs/attacked"]
    for words in (["--from-counts", "runs/certified", *again], log, logs, predicted, attacked):
        assert call(["certify", *words], work).code == 0
    documented = _documented_where(AUDITS["certification"])
    methods = coded(AUDITS["certification"]) | coded(AUDITS["asr_fairness"])
    seen = set()
    optional = {"label", "group", "log", "radius"}
    for run in ("certified", "soft", "log", "logs", "predicted", "attacked"):
        report = json.loads((work / "runs" / run / "report.json").read_text("utf-8"))
        for row in report["estimates"]:
            parts = set(row["where"]) & {"label", "group", "log"}
            assert set(row["where"]) <= documented[row["name"]] and len(parts) <= 1, row
            assert set(row["where"]) >= documented[row["name"]] - optional, row
            assert row["method"] in methods or row["name"] == "implied_alpha", row
            seen.add(row["name"])
    # Of a sound certificate nothing turns within its radius.
    assert {*seen, "attack_error_chance"} == set(spec_of("certification").estimates) == set(documented)


def test_estimates_of_spectra_have_the_coordinates_that_the_page_names(prepared: Path) -> None:
    report = _report(prepared, "spectra")
    documented, words = _documented_where(AUDITS["spectra"]), coded(AUDITS["spectra"])
    assert [row for row in report["estimates"] if documented.get(row["name"]) != set(row["where"])] == []
    assert {row["name"] for row in report["estimates"]} == set(spec_of("spectra").estimates) == set(documented)
    assert {row["method"] for row in report["estimates"]} - words == set()
    for key in ("path", "part", "tap", "stage"):
        values = {str(row["where"][key]) for row in report["estimates"] if key in row["where"]}
        assert values and {value.replace("block1", "block0") for value in values} - words == set(), key


def test_estimates_of_audit_groups_have_the_coordinates_that_the_page_names(prepared: Path, work: Path) -> None:
    both = [*GROUPS[:-2], "--predictions", "theirs=theirs.jsonl", "--faas", "--bootstrap", "200", "--out", "runs/both"]
    worst = [*COUNTS, "--hypothesis", "worst-group", "--out", "runs/worst"]
    for words in (both, [*COUNTS, "--out", "runs/counts"], worst):
        outcome = call(words, work)
        assert outcome.code == 0, outcome.out
    page = AUDITS["speaker_groups"]
    documented, words_of_page = _documented_where(page), coded(page) | coded(AUDITS["asr_fairness"])
    seen = set()
    for run in ("groups", "both", "counts", "worst"):
        report = json.loads((work / "runs" / run / "report.json").read_text("utf-8"))
        for row in report["estimates"]:
            # A declared test is one of an attribute, one of the search is one of a group.
            apart = {"by", "group"} - set(row["where"]) if row["name"] == "p_value" else set()
            assert set(row["where"]) == documented[row["name"]] - apart and len(apart) < 2, row
            assert row["method"] in words_of_page, row
            seen.add(row["name"])
    assert seen == set(spec_of("speaker_groups").estimates) == set(documented)


def test_estimates_of_audit_phonemes_have_the_coordinates_that_the_page_names(prepared: Path, work: Path) -> None:
    quick = ["--probe", "discriminant", "--repeats", "1", "--bootstrap", "200", "--permutations", "100"]
    outcome = call([*PHONES[:-1], "runs/both", "--against", "after.csv", *quick], work)
    assert outcome.code == 0, outcome.out
    page, aligning = AUDITS["phoneme_errors"], {"alignment_error_rate"}
    documented, words = _documented_where(page), coded(page) | coded(AUDITS["asr_fairness"])
    reports = [_report(prepared, "phoneme_errors"), json.loads((work / "runs/both/report.json").read_text("utf-8"))]
    rows = [row for report in reports for row in report["estimates"]]
    for row in rows:
        # A test is one of a group, or of a correlation over some unit.
        apart = {"group", "unit", "partial"} - set(row["where"]) if row["name"] == "p_value" else set()
        assert set(row["where"]) == documented[row["name"]] - apart and len(apart) < 3, row
        assert set(row["method"].split("; ")) <= words, row
    assert {row["name"] for row in rows} | aligning == set(spec_of("phoneme_errors").estimates) == set(documented)
    for key in ("training", "unit", "partial", "test", "correction"):
        assert {str(row["where"][key]) for row in rows if key in row["where"]} - words == set(), key
    told = {row["id"] for report in reports for part in ("findings", "warnings") for row in report[part]}
    assert "phonemes.moved" in told and told - words == set()


def test_estimates_of_precision_recall_have_the_coordinates_that_the_page_names(prepared: Path) -> None:
    report = _report(prepared, "precision_recall")
    documented, words = _documented_where(AUDITS["precision_recall"]), coded(AUDITS["precision_recall"])
    rows = report["estimates"]
    for row in rows:
        # Self-BLEU knows no neighbours.
        apart = {"k"} if row["where"].get("metric") == "self_bleu" else set()
        assert set(row["where"]) == documented[row["name"]] - apart, row
    # With as many texts as these there is a ceiling.
    named = {row["name"] for row in rows} | {"relabelled"}
    assert named == set(spec_of("precision_recall").estimates) == set(documented)
    for key in ("against", "metric", "side", "statistic", "correction"):
        values = {str(row["where"][key]) for row in rows if key in row["where"]} - {"cold", "fresh", "hot"}
        assert values and values - words == set(), key
    assert {row["method"] for row in rows} - words == set()
    told = {row["id"] for part in ("findings", "warnings") for row in report[part]}
    assert {"texts.below-ceiling", "texts.mode-collapse", "texts.more-alike", "few-clusters"} <= told <= words
    assert report["figures"] and {figure["id"] for figure in report["figures"]} <= words


def test_estimates_of_membership_have_the_coordinates_that_the_page_names(prepared: Path) -> None:
    one_run = json.loads((prepared / "work/runs/canaries/report.json").read_text("utf-8"))
    reports = [_report(prepared, "membership"), one_run]
    documented, words = _documented_where(AUDITS["membership"]), coded(AUDITS["membership"])
    seen = set()
    for report in reports:
        for row in report["estimates"]:
            # There is no model in a report on one.
            apart = {"model"} if report is one_run else set()
            assert set(row["where"]) == documented[row["name"]] - apart, row
            assert re.split("[,;]", row["method"])[0] in words, row
            seen.add(row["name"])
        told = {row["id"] for part in ("findings", "warnings") for row in report[part]}
        assert told - words == set()
        assert report["figures"] and {figure["id"] for figure in report["figures"]} <= words
    assert seen == set(spec_of("membership").estimates) == set(documented)
    rows = [row for report in reports for row in report["estimates"]]
    for key in ("attack", "tier", "method", "validity", "access", "classifier", "measure", "match", "side"):
        values = {str(row["where"][key]) for row in rows if key in row["where"]}
        assert values and values - words == set(), key
    told = {row["where"]["verdict"] for report in reports for row in report["findings"] if "verdict" in row["where"]}
    assert told == {"violation", "vacuous"}


def test_estimates_of_interference_have_the_coordinates_that_the_page_names(prepared: Path) -> None:
    short = json.loads((prepared / "work/runs/short/report.json").read_text("utf-8"))
    reports = [_report(prepared, "interference"), short]
    documented, words = _documented_where(AUDITS["interference"]), coded(AUDITS["interference"])
    seen = set()
    for report in reports:
        for row in report["estimates"]:
            where = set(row["where"])
            # Tests of script and family may be adjusted; an error of prediction is of a mixture, of all, or of a score.
            apart = {"adjusted"} if row["name"] == "p_value" else documented["prediction_error"]
            least = documented[row["name"]] - (apart if row["name"] in ("p_value", "prediction_error") else set())
            assert least <= where <= documented[row["name"]], row
            seen.add(row["name"])
        told = {row["id"] for part in ("findings", "warnings") for row in report[part]}
        assert told - words == set()
        assert {figure["id"] for figure in report["figures"]} <= words
    assert seen == set(spec_of("interference").estimates) == set(documented)
    rows = [row for report in reports for row in report["estimates"]]
    for key in ("order", "correction", "of", "side", "predictor"):
        values = {str(row["where"][key]) for row in rows if key in row["where"]}
        assert values and values - words == set(), key


@pytest.mark.parametrize("audit", RUNS)
def test_the_columns_of_the_records_are_on_the_page(audit: str, prepared: Path) -> None:
    with (prepared / "work/runs" / RUNS[audit] / "records.csv").open(encoding="utf-8", newline="") as file:
        header = next(csv.reader(file))
    stems = {re.sub(r"_(-?\d+|head)$", "_LAYER", name) for name in header} - {"gender", "accent", "dialect"}
    stems = {re.sub(r"_errors_ours$", "_errors_NAME", name) for name in stems}
    assert len(stems) > 5 and stems - coded(AUDITS[audit]) == set()


@pytest.mark.parametrize("audit", RUNS)
def test_the_files_of_a_run_folder_are_on_the_page(audit: str, prepared: Path) -> None:
    words = {word.rstrip("/") for page in (ROOT / "docs" / "report.md", AUDITS[audit]) for word in coded(page)}
    found = {item.name for item in (prepared / "work/runs" / RUNS[audit]).iterdir()}
    files = set(spec_of(audit).files)
    # Phones are placed with --align-with only, texts sampled with --generate only.
    assert files - {"alignments.csv", "generated.jsonl"} <= found <= words and files <= words


def test_the_tensors_of_the_counts_are_on_the_page(prepared: Path) -> None:
    from safetensors import safe_open

    with safe_open(prepared / "work/runs/certified/counts.safetensors", framework="np") as file:
        names = set(file.keys())
    assert names and names - coded(ROOT / "docs" / "formats.md") == set()


def test_every_architecture_of_classifiers_is_on_the_page() -> None:
    from probes.models.architectures import ARCHITECTURES

    assert set(ARCHITECTURES) - coded(ROOT / "docs" / "formats.md") == set()
