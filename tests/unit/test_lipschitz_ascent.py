"""Are slopes by ascent told as lower bounds, kept over an interrupt, and flat networks spoken of rightly?"""

import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from headlines import faults
from torch import nn

from audits.core import runner
from audits.core.context import Cache, Context, Draft
from audits.core.numbers import point
from audits.core.records import Report
from audits.core.testing import drafted
from audits.lipschitz import AUDIT, Options, ascent, measure
from audits.lipschitz.ascent import BATCH, ascend
from audits.lipschitz.estimates import estimates
from audits.lipschitz.findings import findings
from audits.lipschitz.inputs import STARTS, check
from audits.report.pages.content import headed
from probes.classifiers.classifier_networks import small_cnn
from probes.core.errors import IncompleteError, InputError

SHAPE = (1, 8, 8)


def images(folder: Path, count: int) -> Path:
    drawn = np.random.default_rng(0)
    np.savez(folder / "images.npz", x=drawn.random((count, *SHAPE), dtype=np.float32), y=drawn.integers(3, size=count))
    return folder / "images.npz"


@pytest.fixture
def options(tmp_path: Path) -> Options:
    torch.save(small_cnn(SHAPE, 3, width=2, seed=3).state_dict(), tmp_path / "net.pt")
    return Options(
        model=str(tmp_path / "net.pt"), arch="small_cnn", input=("1", "8", "8"), lower_steps=60, ascent_steps=12
    )


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(cache=Cache(tmp_path / "cache"))


CODE = """
from torch import nn

def build():
    return nn.Sequential(nn.Flatten(), {layers})
"""
Own = Callable[..., Options]


@pytest.fixture
def own(tmp_path: Path, options: Options, monkeypatch: pytest.MonkeyPatch) -> Own:
    """Return options for layers of one's own on flat pictures, filled with one number or at random."""
    monkeypatch.chdir(tmp_path)

    def make(name: str, layers: str, fill: float | None = None, **more: Any) -> Options:
        (tmp_path / f"{name}.py").write_text(CODE.format(layers=layers), encoding="utf-8")
        space: dict[str, Any] = {}
        exec(CODE.format(layers=layers), space)
        net: nn.Module = space["build"]()
        for place, value in enumerate(net.state_dict().values()):
            drawn = torch.randn(value.shape, generator=torch.Generator().manual_seed(place))
            value.copy_(drawn if fill is None else torch.full_like(value, fill))
        torch.save(net.state_dict(), tmp_path / "own.pt")
        factory = f"{name}:build"
        changed = replace(options, model=str(tmp_path / "own.pt"), arch=None, factory=factory, allow_code=True)
        return replace(changed, **more)

    return make


def said(draft: Draft) -> str:
    assert draft.answer is not None
    parts = [finding.words for finding in draft.findings]
    return " ".join((*parts, draft.answer.title, *draft.answer.may, *draft.answer.may_not))


def test_the_lower_bound_stands_beside_the_upper_one_with_what_it_leaves_open(
    options: Options, context: Context
) -> None:
    draft = drafted(AUDIT, options, context)
    slope, left, product = draft.row("ascent_slope"), draft.row("left_open"), draft.row("product_bound")
    assert 0 < slope.value <= product.value and (slope.low, slope.high) == (slope.value, product.value)
    assert slope.method.startswith("Attained:") and "lower bound" in slope.method and slope.n == STARTS == 8
    assert left.value == pytest.approx(product.value / slope.value) and (left.low, left.high) == (1.0, left.value)
    assert left.method.startswith("Upper bound:") and product.low == slope.value
    finding = next(found for found in draft.findings if found.id == "lipschitz.ascent")
    assert f"a slope of {point(slope)}" in finding.headline and f"at most {point(left)} times" in finding.headline
    assert "8 random pictures" in finding.statement and "lower bound" in finding.how_sure
    assert f"up to {point(product)} still fits the proof" in said(draft) and "takes images" not in said(draft)
    assert faults(draft) == []


def test_without_it_nothing_of_it_is_told(options: Options, context: Context) -> None:
    draft = drafted(AUDIT, replace(options, ascent_steps=None), context)
    assert draft.get("ascent_slope") is None and draft.get("left_open") is None and "scent met" not in said(draft)
    assert check(replace(options, ascent_steps=None), context).settings == {}


def test_starts_without_steps_are_refused(options: Options, context: Context) -> None:
    for starts in (3, STARTS):
        with pytest.raises(InputError) as caught:
            runner.check(AUDIT, replace(options, ascent_steps=None, ascent_starts=starts), context)
        assert caught.value.where == "--ascent-starts" and "--ascent-steps" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "where"), [("ascent_steps", "--ascent-steps"), ("ascent_starts", "--ascent-starts")]
)
def test_no_steps_or_starts_are_refused(options: Options, context: Context, change: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        runner.check(AUDIT, replace(options, **{change: 0}), context)
    assert caught.value.where == where


def test_settings_and_cost_tell_how_many(options: Options, context: Context) -> None:
    plan = check(options, context)
    assert plan.settings == {"ascent_starts": 8} and "ascent: 8 starts" in dict(plan.cost)["forwards"]
    assert check(replace(options, ascent_starts=3), context).settings == {"ascent_starts": 3}


def test_ascents_start_from_images_and_then_from_random_pictures(
    tmp_path: Path, options: Options, context: Context
) -> None:
    given = replace(options, data=images(tmp_path, 6), ascent_starts=9)
    found = ascend(given, check(given, context).inputs, context)
    assert found is not None and len(found.climbs) == 9 and found.images == 6
    draft = drafted(AUDIT, given, context)
    finding = next(one for one in draft.findings if one.id == "lipschitz.ascent")
    assert "from 6 images and 3 random pictures" in finding.statement
    steepest = max(draft.row("ascent_slope").value, draft.row("constant_lower").value)
    assert draft.row("product_bound").low == steepest and faults(draft) == []


def test_the_seed_decides_and_more_starts_keep_the_first(options: Options, context: Context) -> None:
    def climbed(seed: int, starts: int) -> list[float]:
        given, own = replace(options, ascent_starts=starts), replace(context, seed=seed)
        found = ascend(given, check(given, own).inputs, own)
        assert found is not None
        return [one.slope for one in found.climbs]

    few = climbed(0, 2)
    assert few != climbed(1, 2) and climbed(0, 3)[:2] == pytest.approx(few, rel=1e-6)


def test_an_interrupted_run_goes_on_where_it_stopped(
    options: Options, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = replace(options, ascent_starts=BATCH + 2, ascent_steps=3)
    inputs, climb, calls = check(given, context).inputs, ascent.climb, []

    def interrupted(*args: Any, **named: Any) -> Any:
        calls.append(len(args[1]))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return climb(*args, **named)

    monkeypatch.setattr(ascent, "climb", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ascend(given, inputs, context)
    found = ascend(given, inputs, context)
    # The first group was kept, the second is climbed now; a third time nothing is.
    assert calls == [BATCH, 2, 2] and ascend(given, inputs, context) == found and len(calls) == 3
    fresh = ascend(given, inputs, replace(context, cache=Cache(context.cache.folder / "other")))
    assert fresh == found and len(calls) == 5


def test_another_network_around_the_same_weights_is_climbed_anew(own: Own, context: Context) -> None:
    plain = own("lipschitz_ascent_one", "nn.Linear(64, 3), nn.LeakyReLU(0.1)", ascent_starts=1)
    bent = own("lipschitz_ascent_other", "nn.Linear(64, 3), nn.LeakyReLU(0.9)", ascent_starts=1)
    for given in (plain, bent):
        inputs = check(given, context).inputs
        # A factory may build another network by what its file does not hold: then no hash tells the two apart.
        ascend(given, replace(inputs, classifier=replace(inputs.classifier, sha256="alike")), context)
    assert context.cache.usage()["slope-ascents"][0] == 2


def test_a_full_device_is_told(options: Options, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **named: Any) -> Any:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(ascent, "climb", full)
    with pytest.raises(IncompleteError, match="ran out of memory on 8 ascents") as caught:
        ascend(options, check(options, context).inputs, context)
    assert caught.value.where == "--device"


# Networks of which more is known


@pytest.mark.parametrize("steps", [None, 4])
@pytest.mark.parametrize("data", [False, True])
def test_a_network_of_zeros_is_said_to_be_constant(
    own: Own, context: Context, tmp_path: Path, steps: int | None, data: bool
) -> None:
    given = own(
        "lipschitz_ascent_zero", "nn.Linear(64, 3)", 0.0, ascent_steps=steps,
        data=images(tmp_path, 12) if data else None,
    )  # fmt: skip
    draft = drafted(AUDIT, given, context)
    words = said(draft)
    assert "The logits are the same for every picture: the proved bound is 0." in words
    assert "still fits" not in words and "up to 0" not in words and "at most 0 times" not in words
    assert "No change of the pixels moves the logits" in words and faults(draft) == []
    assert draft.answer is not None
    assert draft.answer.title == "The logits are the same for every picture: the proved bound is 0."
    assert draft.answer.title == draft.findings[0].headline and "grey level" not in words
    assert draft.answer.next_step.startswith("Check the checkpoint") and "bounded norms" not in draft.answer.next_step
    assert "The bound is 0 at layer 1 (Linear)." in draft.findings[0].statement
    assert [number.words for number in draft.answer.numbers if "radius" in number.words] == []
    assert "flat" not in {warning.id for warning in draft.warnings}
    if steps:
        assert draft.get("left_open") is None and draft.row("ascent_slope").value == 0.0


def test_a_bound_above_zero_that_no_slope_came_near_is_warned_of(own: Own, context: Context) -> None:
    # All inputs of the ReLU are below zero wherever the pixels lie in [0, 1], which the bound does not see.
    given = own("lipschitz_ascent_dead", "nn.Linear(64, 3), nn.ReLU(), nn.Linear(3, 3)", -1.0, ascent_steps=4)
    draft = drafted(AUDIT, given, context)
    assert draft.row("product_bound").value > 0 and draft.get("left_open") is None
    assert "flat" in {warning.id for warning in draft.warnings}


@pytest.mark.parametrize("data", [False, True])
def test_how_much_too_large_the_bound_can_be_is_written_in_one_way(
    options: Options, context: Context, tmp_path: Path, data: bool
) -> None:
    draft = drafted(AUDIT, replace(options, data=images(tmp_path, 12) if data else None), context)
    told = set(re.findall(r"the bound is at most (\S+) times too large", said(draft), re.IGNORECASE))
    assert told == {point(draft.row("left_open"))}
    assert said(draft).lower().count("the bound is at most") == 3


def test_a_layer_that_has_only_a_number_is_called_a_layer(own: Own, context: Context) -> None:
    layers = "nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 3)"
    draft = drafted(AUDIT, own("lipschitz_ascent_number", layers, ascent_steps=None), context)
    told = {finding.id: finding for finding in draft.findings}
    largest = told["lipschitz.stages"]
    assert re.search(r"product of 2 parts, layer [13] \(Linear\) the largest\.$", largest.headline)
    assert re.search(r"those of layer [13] \(Linear, [\d.]+\), layer [13] \(Linear, [\d.]+\)\.", largest.statement)
    assert faults(draft) == []


@pytest.mark.parametrize(("steps", "top"), [(None, []), (12, [("ascent steps", "12"), ("ascent starts", "8")])])
def test_the_steps_of_an_ascent_stand_on_top_of_the_page(
    options: Options, context: Context, sample_report: Report, steps: int | None, top: list[tuple[str, str]]
) -> None:
    given = replace(options, ascent_steps=steps)
    settings = {**{item.name: getattr(given, item.name) for item in fields(given)}, **check(given, context).settings}
    assert headed(replace(sample_report, audit=AUDIT.name, settings=settings)) == top


def test_a_linear_network_has_one_slope_and_ascent_meets_it(own: Own, context: Context) -> None:
    given = own("lipschitz_ascent_linear", "nn.Linear(64, 3)", ascent_steps=1, ascent_starts=2)
    draft = drafted(AUDIT, given, context)
    weight = torch.load(given.model)["1.weight"].double()
    truth = float(torch.linalg.matrix_norm(weight, ord=2))
    assert draft.row("ascent_slope").value <= truth <= draft.row("product_bound").value
    assert draft.row("ascent_slope").value == pytest.approx(truth, rel=1e-6)
    assert draft.row("left_open").value == pytest.approx(1.0, rel=1e-6)
    words = said(draft)
    assert "the bound itself" in words and "no smaller constant holds" in words
    assert "still fits" not in words and "steeper than" not in words and faults(draft) == []


def test_ascent_is_not_said_to_meet_a_bound_that_an_image_met(own: Own, context: Context, tmp_path: Path) -> None:
    given = own("lipschitz_ascent_near", "nn.Linear(64, 3)", ascent_steps=1, ascent_starts=2, data=images(tmp_path, 12))
    counts = measure.measure(given, check(given, context).inputs, context)
    assert counts.ascent is not None
    product = counts.bound.product
    climbs = tuple(replace(one, slope=product / 2) for one in counts.ascent.climbs)
    near = tuple(replace(one, slope=product) for one in counts.answers)
    draft = Draft(measures=AUDIT.by_name)
    told = replace(counts, ascent=replace(counts.ascent, climbs=climbs), answers=near)
    estimates(draft, told)
    findings(draft, told)
    headline = next(one for one in draft.findings if one.id == "lipschitz.ascent").headline
    assert "the bound itself" not in headline
    # What stays open is left by the steepest slope of all, wherever it was met.
    assert draft.row("left_open").value == pytest.approx(1.0, rel=1e-6)
    assert "no smaller constant holds" in said(draft) and faults(draft) == []


def test_a_linear_network_whose_bound_was_not_met_is_told_so(own: Own, context: Context, tmp_path: Path) -> None:
    layers = "nn.Linear(64, 5), nn.Linear(5, 3)"
    given = own("lipschitz_ascent_two", layers, ascent_steps=None, data=images(tmp_path, 12))
    words = said(drafted(AUDIT, given, context))
    assert "The network is linear, so that one slope, the norm of its matrix, holds everywhere." in words
    assert "that of a linear network is one number" in words and "still fits" not in words


def test_a_network_that_cuts_is_not_called_linear(own: Own, context: Context) -> None:
    words = said(drafted(AUDIT, own("lipschitz_ascent_cut", "nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 3)"), context))
    assert "is linear" not in words and "of a linear network" not in words


def test_layers_that_divide_by_their_own_spread_are_warned_of(own: Own, context: Context) -> None:
    given = own("lipschitz_ascent_spread", "nn.LayerNorm(64), nn.Linear(64, 3)", ascent_steps=None)
    warned = {warning.id: warning.message for warning in drafted(AUDIT, given, context).warnings}
    assert warned["own-spread"].startswith("A layer divides by the spread of each picture's own numbers (LayerNorm).")
