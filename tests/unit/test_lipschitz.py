"""Does the audit report the bounds that the layers have, and radii within which no answer changes?"""

import math
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headlines import faults
from scipy.stats import binom

from audits.core import runner
from audits.core.context import Cache, Context, Draft, Plan
from audits.core.numbers import point
from audits.core.registry import find, page
from audits.core.testing import drafted
from audits.lipschitz import AUDIT, Options
from audits.lipschitz.findings import GREY
from audits.lipschitz.inputs import check, part_name
from audits.lipschitz.margins import MEDIAN, Answer, measure_margins, median_interval, rounded
from audits.lipschitz.measure import cached_norm
from audits.report.pages.figures import draw as pictures
from probes.classifiers.classifier_networks import SmallCNN, small_cnn
from probes.classifiers.linear_operators import Convolution, Dense
from probes.classifiers.lipschitz_bound import lipschitz_bound
from probes.classifiers.spectral_norm import measure
from probes.core.errors import InputError
from probes.core.progress import Silent

SHAPE = (1, 8, 8)


@pytest.fixture(scope="module")
def network() -> SmallCNN:
    """A small network whose statistics and weights leave its logits well apart."""
    net = small_cnn(SHAPE, 3, width=2, seed=3).eval()
    with torch.no_grad():
        net.bn1.running_var.fill_(0.5)
        net.linear.weight.mul_(4)
    return net


@pytest.fixture(scope="module")
def pixels() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random((40, *SHAPE), dtype=np.float32)


@pytest.fixture
def options(tmp_path: Path, network: SmallCNN, pixels: np.ndarray[Any, Any]) -> Options:
    """The network and 40 images labelled as it sees them, but for every fifth."""
    torch.save(network.state_dict(), tmp_path / "net.pt")
    with torch.no_grad():
        labels = network(torch.from_numpy(pixels)).argmax(1).numpy()
    labels[::5] = (labels[::5] + 1) % 3
    np.savez(tmp_path / "images.npz", x=pixels, y=labels)
    return Options(model=str(tmp_path / "net.pt"), arch="small_cnn", data=tmp_path / "images.npz", lower_steps=100)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(cache=Cache(tmp_path / "cache"))


@pytest.fixture
def audited(options: Options, context: Context) -> tuple[Plan, Draft]:
    checked = check(options, context)
    return checked, runner.carry_out(AUDIT, options, checked, context)


def values(draft: Draft, name: str) -> dict[tuple[Any, ...], Any]:
    return {tuple(sorted(row.where.items())): row for row in draft.estimates if row.name == name}


def test_the_audit_can_be_found() -> None:
    assert find("lipschitz") is AUDIT and page("lipschitz") == "docs/audits/lipschitz.md"


def test_layers_and_product_are_those_of_the_engine(audited: tuple[Plan, Draft], network: SmallCNN) -> None:
    checked, draft = audited
    bound = lipschitz_bound(network, SHAPE, lower_steps=100)
    rows = values(draft, "spectral_norm")
    for layer in ("conv1", "conv2", "linear"):
        found = next(record for record in bound.layers if record.name == layer)
        # Only a matrix is its own symbol: with zero padding the norm is that of a larger layer.
        kind = "exact" if layer == "linear" else "gram"
        above, below = (rows[("kind", one), ("layer", layer)] for one in (kind, "lower"))
        assert above.value == found.bound and below.value == below.low == found.lower and below.high == found.bound
        ends = (None, None) if kind == "exact" else (found.lower, found.bound)
        assert (above.low, above.high) == ends and found.method == kind
    pools = values(draft, "operation_constant")
    assert list(pools) == [(("layer", "avgpool"),), (("layer", "avgpool#2"),)]
    assert [row.value for row in pools.values()] == [pytest.approx(0.5)] * 2
    assert values(draft, "product_bound")[()].value == bound.product
    assert [row.value for row in values(draft, "operation_constant").values()] == [0.5, 0.5]
    beginnings = {
        "spectral_norm": ("exact", "Upper bound:", "Attained:"),
        "operation_constant": "Upper bound:",
        "product_bound": "Upper bound:",
        "constant_lower": "Attained:",
        "margin_radius": MEDIAN,
    }
    assert all(row.method.startswith(beginnings[row.name]) for row in draft.estimates)
    assert {row.name for row in draft.estimates} <= set(AUDIT.estimates)
    known = checked.coordinates
    assert all(value in known[key] for row in draft.estimates for key, value in row.where.items())


def test_radii_are_the_margins_over_the_root_of_two_and_the_bound(
    audited: tuple[Plan, Draft], network: SmallCNN, pixels: np.ndarray[Any, Any]
) -> None:
    _, draft = audited
    product = values(draft, "product_bound")[()].value
    logits = deepcopy(network).double()(torch.from_numpy(pixels).double()).detach()
    best = logits.topk(2).values
    for place, row in enumerate(draft.records):
        right = place % 5 != 0
        exact = float(best[place, 0] - best[place, 1]) / (math.sqrt(2) * product) if right else 0.0
        assert row["correct"] == right and row["idx"] == place
        assert row["radius"] <= exact and row["radius"] == pytest.approx(exact, rel=1e-5)
    radii = [row["radius"] for row in draft.records]
    middle = values(draft, "margin_radius")[()]
    assert (middle.value, middle.low, middle.high) == limits(radii, 0.95)
    assert middle.n == 40 and middle.low < middle.value < middle.high


def test_no_step_within_the_radius_alters_an_answer(
    audited: tuple[Plan, Draft], network: SmallCNN, pixels: np.ndarray[Any, Any]
) -> None:
    _, draft = audited
    before = network(torch.from_numpy(pixels)).argmax(1)
    for row in draft.records:
        if not row["radius"]:
            continue
        x = torch.from_numpy(pixels[row["idx"]])[None].clone().requires_grad_()
        best = network(x).topk(2, dim=1).values
        (slope,) = torch.autograd.grad(best[0, 0] - best[0, 1], x)
        moved = x.detach() - row["radius"] * slope / slope.norm()
        assert int(network(moved).argmax()) == int(before[row["idx"]])


def test_the_slope_that_was_met_is_below_the_bound_and_not_nothing(audited: tuple[Plan, Draft]) -> None:
    _, draft = audited
    lower, product = values(draft, "constant_lower")[()], values(draft, "product_bound")[()]
    assert lower.value == pytest.approx(max(row["slope"] for row in draft.records), rel=1e-8)
    assert 0 < lower.value <= product.value


def test_sentences_and_charts_write_a_bound_as_its_table_does_and_away_from_the_truth(
    audited: tuple[Plan, Draft], network: SmallCNN
) -> None:
    _, draft = audited
    product, lower = values(draft, "product_bound")[()], values(draft, "constant_lower")[()]
    said = {finding.id: f"{finding.headline} {finding.statement}" for finding in draft.findings}
    assert f"at most {point(product)} times its length" in said["lipschitz.product"]
    assert f"The bound of {point(product)} is" in said["lipschitz.stages"]
    assert draft.answer is not None
    answered = " ".join((*draft.answer.may, *draft.answer.may_not))
    assert (
        f"at most {point(product)} times" in answered
        and f"steeper than {point(lower)}: up to {point(product)}" in answered
    )
    assert f"a slope of {point(lower)} was met" in said["lipschitz.product"]
    assert float(point(product)) >= product.value and float(point(lower)) <= lower.value
    assert (product.low, product.high, lower.high) == (lower.value, product.value, product.value)
    layers = {layer.name: layer for layer in lipschitz_bound(network, SHAPE, lower_steps=100).layers}
    rows = values(draft, "spectral_norm")
    for part in said["lipschitz.stages"].partition("those of ")[2].partition(". ")[0].split(", "):
        name, _, factor = part.partition(" (")
        if name in layers and layers[name].lower is not None:
            assert factor.rstrip(").") == point(rows[("kind", layers[name].method), ("layer", name)])
    assert not any(re.search(r"\de[+-]\d", statement) for statement in said.values())
    chart = next(figure.spec for figure in draft.figures if figure.id == "layers")
    assert len(chart["data"]["values"]) == 3
    for row in chart["data"]["values"]:
        layer = layers[row["layer"]]
        assert float(f"{row['lower']:.3g}") <= (layer.lower or 0.0)
        assert layer.method == "exact" or float(f"{row['bound']:.3g}") >= layer.bound
    radii = next(figure.spec for figure in draft.figures if figure.id == "radii")
    for row in radii["data"]["values"]:
        shown = float(f"{row['radius']:.3g}")
        assert row["images"] == sum(one["correct"] and one["radius"] >= shown for one in draft.records)


def test_the_answers_are_counted_in_words(audited: tuple[Plan, Draft], options: Options, context: Context) -> None:
    assert "8 of 40 images are misclassified and have radius 0." in audited[1].findings[0].statement
    assert options.data is not None
    held = np.load(options.data)
    right = [place for place in range(40) if place % 5]
    np.savez(options.data, x=held["x"][right], y=held["y"][right])
    draft = drafted(AUDIT, options, context)
    assert draft.findings[0].statement.endswith("All 32 images are classified correctly.")
    assert draft.answer is not None and "All 32 images are classified correctly." in draft.answer.may


def test_classes_with_ten_images_have_a_radius_of_their_own(audited: tuple[Plan, Draft]) -> None:
    _, draft = audited
    labels = [row["label"] for row in draft.records]
    enough = {label for label in set(labels) if labels.count(label) >= 10}
    assert enough
    assert {key[0][1] for key in values(draft, "margin_radius") if key} == enough
    small = len(set(labels)) - len(enough)
    assert ("few-images" in {warning.id for warning in draft.warnings}) == (small > 0)


def test_every_finding_rests_on_estimates_and_every_figure_can_be_drawn(audited: tuple[Plan, Draft]) -> None:
    _, draft = audited
    assert [finding.id for finding in draft.findings][1:] == [
        "lipschitz.product", "lipschitz.stages", "lipschitz.layers"
    ]  # fmt: skip
    assert all(finding.evidence for finding in draft.findings)
    assert [figure.id for figure in draft.figures] == ["radii", "layers", "parts"]

    class Drawn:
        figures = tuple(draft.figures)

    assert all(len(picture.png) > 1000 for picture in pictures(Drawn()).values())  # type: ignore[arg-type]


def test_headlines_are_short_and_rest_on_their_evidence(
    audited: tuple[Plan, Draft], options: Options, context: Context
) -> None:
    for draft in (audited[1], drafted(AUDIT, replace(options, data=None), context)):
        assert faults(draft) == [] and draft.answer is not None


@pytest.mark.parametrize(("factor", "id", "severity"), [(1.0, "radius", "info"), (1e6, "vacuous", "low")])
def test_radii_below_a_grey_level_are_called_of_no_use(
    options: Options, context: Context, network: SmallCNN, factor: float, id: str, severity: str
) -> None:
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    # One channel is made larger and smaller again: the function stays, the product of the norms does not.
    weights["bn1.weight"][0] *= factor
    weights["bn1.bias"][0] *= factor
    weights["conv2.weight"][:, 0] /= factor
    torch.save(weights, options.model)
    draft = drafted(AUDIT, options, context)
    finding = draft.findings[0]
    high = values(draft, "margin_radius")[()].high
    assert (finding.id, finding.severity) == (f"lipschitz.{id}", severity)
    assert (high < GREY) == (id == "vacuous")
    assert ("below one grey level" in finding.headline) == (id == "vacuous") and "0.0039" in finding.statement
    assert draft.answer is not None and draft.answer.title == finding.headline
    assert any("smaller median fits" in line for line in draft.answer.may_not) == (id == "vacuous")


@pytest.mark.parametrize("right", [0, 1, 19, 20, 21])
def test_radii_of_zero_are_laid_to_wrong_answers_where_half_are_wrong(
    options: Options, context: Context, network: SmallCNN, pixels: np.ndarray[Any, Any], right: int
) -> None:
    assert options.data is not None
    with torch.no_grad():
        labels = network(torch.from_numpy(pixels)).argmax(1).numpy()
    labels[right:] = (labels[right:] + 1) % 3
    np.savez(options.data, x=pixels, y=labels)
    draft = drafted(AUDIT, options, context)
    assert draft.answer is not None and faults(draft) == []
    finding, step = draft.findings[0], draft.answer.next_step
    mostly = right <= 20
    assert (finding.id == "lipschitz.wrong") == mostly and draft.answer.title == finding.headline
    assert (f": {40 - right} of 40 images are misclassified." in finding.headline) == mostly
    assert step.startswith("Check the labels") == mostly and "bounded norms" not in step
    assert ("of an image that is classified correctly" in finding.statement) == (mostly and right > 0)
    # Where no image has a radius there is nothing to be reported of radii.
    assert any("an image's radius" in line for line in draft.answer.may) == (right > 0)
    assert f"{40 - right} of 40 images are misclassified and have radius 0." in draft.answer.may


def test_without_images_there_are_layers_and_no_radii(options: Options, context: Context) -> None:
    bare = replace(options, data=None)
    checked = check(bare, context)
    draft = runner.carry_out(AUDIT, bare, checked, context)
    assert checked.data == () and not values(draft, "margin_radius") and not values(draft, "constant_lower")
    assert [row["layer"] for row in draft.records if row["lower"] != ""] == ["conv1", "conv2", "linear"]
    assert draft.records[0]["height"] == 8 and draft.records[0]["stride"] == "1x1"
    assert draft.coverage.given == len(draft.records) and [figure.id for figure in draft.figures] == ["layers", "parts"]
    assert "How much less" in next(found.statement for found in draft.findings if found.id == "lipschitz.product")
    assert draft.answer is not None and draft.answer.title == draft.findings[0].headline
    assert any("Any radius" in line for line in draft.answer.may_not)


def test_the_normalisation_put_in_front_does_not_rename_layers(options: Options, context: Context) -> None:
    scaled = replace(options, mean=("0.5",), std=("0.25",))
    draft = drafted(AUDIT, scaled, context)
    assert values(draft, "operation_constant")[(("layer", "normalisation"),)].value == pytest.approx(4.0)
    assert (("kind", "gram"), ("layer", "conv1")) in values(draft, "spectral_norm")


def test_norms_are_measured_once(options: Options, context: Context, audited: tuple[Plan, Draft]) -> None:
    def stored() -> dict[Path, int]:
        return {path: path.stat().st_ino for path in context.cache.folder.glob("spectral-norms/*/*.safetensors")}

    before = stored()
    again = drafted(AUDIT, options, context)
    # What is measured is stored, in a new file.
    assert before and stored() == before
    assert again.estimates == audited[1].estimates and again.records == audited[1].records


def test_the_cache_tells_layers_apart(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    weight = torch.arange(36.0).reshape(2, 2, 3, 3)
    layers = [
        Convolution(weight=weight, size=(6, 6)),
        Convolution(weight=weight, size=(6, 6), stride=(2, 2)),
        Convolution(weight=weight, size=(6, 6), padding=(1, 1, 1, 1)),
        Convolution(weight=weight, size=(6, 6), padding=(1, 1, 1, 1), circular=True),
        Convolution(weight=weight, size=(6, 6), dilation=(2, 1)),
        Convolution(weight=weight, size=(8, 6)),
        Convolution(weight=weight + 1, size=(6, 6)),
        Convolution(weight=weight.reshape(4, 1, 3, 3), size=(6, 6), groups=2),
        Dense(weight=weight.reshape(6, 6)),
        Dense(weight=weight.reshape(2, 18)),
    ]
    for _ in range(2):
        for layer in layers:
            found, fresh = cached_norm(layer, 20, cache), measure(layer, steps=20)
            assert (found.value, found.lower, found.kind, found.grid, found.tight) == (
                fresh.value, fresh.lower, fresh.kind, fresh.grid, fresh.tight
            )  # fmt: skip
    assert cache.usage()["spectral-norms"][0] == len(layers)


@pytest.mark.parametrize("place", ["audits.lipschitz.measure.VERSION", "torch.__version__"])
def test_another_version_measures_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    cache, layer = Cache(tmp_path), Dense(weight=torch.eye(2))
    cached_norm(layer, 20, cache)
    monkeypatch.setattr(place, "0")
    cached_norm(layer, 20, cache)
    assert cache.usage()["spectral-norms"][0] == 2


def limits(values: Sequence[float], level: float) -> tuple[float, float | None, float | None]:
    found = median_interval(values, level, unit="images")
    return found.value, found.low, found.high


# Numbers


@pytest.mark.parametrize("count", [6, 7, 20, 40, 101])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_interval_of_the_median_covers_it_as_often_as_it_says_and_is_no_longer(count: int, level: float) -> None:
    found = limits(range(1, count + 1), level)
    middle, low, high = found
    assert low is not None and high is not None
    assert middle == (count + 1) / 2 and low + high == count + 1

    def coverage(k: float) -> float:
        return 1 - 2 * float(binom.cdf(k - 1, count, 0.5))

    assert coverage(low) >= level > coverage(low + 1)


def test_too_few_values_have_no_interval() -> None:
    assert limits([1, 2, 3, 4, 5], 0.95) == (3.0, None, None)
    assert limits([1, 2, 3, 4, 5, 6], 0.95) == (3.5, 1.0, 6.0)


def test_few_images_give_a_median_without_interval_and_a_warning(options: Options, context: Context) -> None:
    assert options.data is not None
    held = np.load(options.data)
    np.savez(options.data, x=held["x"][:4], y=held["y"][:4])
    draft = drafted(AUDIT, options, context)
    middle = values(draft, "margin_radius")[()]
    assert middle.method == "none" and middle.low is None
    assert "no-interval" in {warning.id for warning in draft.warnings}


@pytest.mark.parametrize("number", [1 / 3, 2e-13, 0.999999999, 8.4e20, 1.0, 123456.789])
@pytest.mark.parametrize("digits", [2, 3, 6])
def test_numbers_are_rounded_the_safe_way(number: float, digits: int) -> None:
    down, up = rounded(number, digits), rounded(number, digits, up=True)
    assert down <= number <= up
    assert down == pytest.approx(number, rel=10.0 ** (1 - digits)) and up == pytest.approx(
        number, rel=10.0 ** (1 - digits)
    )


def test_a_wrong_answer_has_no_radius() -> None:
    answer = Answer(label=1, predict=2, margin=3.0, radius=0.0, slope=1.0)
    assert not answer.correct and replace(answer, predict=1).correct


def test_margins_do_not_depend_on_batches(options: Options, context: Context) -> None:
    inputs = check(options, context).inputs
    found = [
        measure_margins(inputs.classifier, inputs.images, 10.0, device="cpu", progress=Silent(), batch=size)
        for size in (64, 7)
    ]
    for one, other in zip(*found, strict=True):
        assert one.radius == pytest.approx(other.radius, rel=1e-5) and one.slope == pytest.approx(other.slope, rel=1e-5)


# Refusals


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"lower_steps": 0}, "--lower-steps"),
        ({"input": ("3", "8")}, "--input"),
        ({"input": ("1", "8", "zwei")}, "--input"),
        ({"input": ("1", "9", "9")}, "--input"),
        ({"mean": ("a",), "std": ("1",)}, "--mean"),
    ],
)
def test_wrong_options_are_told(options: Options, context: Context, change: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as caught:
        runner.check(AUDIT, replace(options, **change), context)
    assert caught.value.where == where


CODE = """
from torch import nn

def build():
    return nn.Sequential(nn.Conv2d(1, 2, 3), {layer}, nn.Flatten(), nn.Linear(72, 3))
"""


@pytest.fixture
def own(tmp_path: Path, options: Options, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Options]:
    """Return options for a network of one's own, with a layer of choice."""
    monkeypatch.chdir(tmp_path)

    def make(name: str, layer: str) -> Options:
        (tmp_path / f"{name}.py").write_text(CODE.format(layer=layer), encoding="utf-8")
        space: dict[str, Any] = {}
        exec(CODE.format(layer=layer), space)
        torch.save(space["build"]().state_dict(), tmp_path / "own.pt")
        factory = f"{name}:build"
        return replace(options, model=str(tmp_path / "own.pt"), arch=None, factory=factory, allow_code=True, data=None)

    return make


def test_parts_behind_a_normalisation_are_named_as_in_the_checkpoint(audited: tuple[Plan, Draft]) -> None:
    own = audited[0].inputs.classifier
    bare, fronted = replace(own, mean=()), replace(own, mean=(0.5,))
    names = ("0.shift", "1.conv1", "1.block2", "1.conv1 to 1.fc", "0.shift to 1.fc", "1")
    shown = ["normalisation", "conv1", "block2", "conv1 to fc", "normalisation to fc", "network"]
    assert [part_name(name, fronted) for name in names] == shown
    assert [part_name(name, bare) for name in ("0", "1", "1.conv1", "0.shift to 1.fc")] == [
        "0",
        "1",
        "1.conv1",
        "0.shift to 1.fc",
    ]


def test_a_network_of_ones_own_needs_the_shape_of_its_pictures(
    own: Callable[[str, str], Options], context: Context
) -> None:
    mine = own("lipschitz_own_relu", "nn.ReLU()")
    with pytest.raises(InputError, match="does not say how large"):
        check(mine, context)
    draft = runner.carry_out(
        AUDIT, replace(mine, input=("1", "8", "8")), check(replace(mine, input=("1", "8", "8")), context), context
    )
    assert len(values(draft, "spectral_norm")) == 4


def test_a_layer_without_a_proof_is_refused_before_anything_runs(
    own: Callable[[str, str], Options], context: Context
) -> None:
    mine = replace(own("lipschitz_own_silu", "nn.SiLU()"), input=("1", "8", "8"))
    with pytest.raises(InputError, match="No Lipschitz constant is known for SiLU") as caught:
        check(mine, context)
    assert caught.value.where == "layer 1"
