"""Is what a run cannot say, and what it will cost, said before it starts?"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited_points import inputs_of, labelled, points_of

from audits.membership import Options
from audits.membership.claims import Claim, searched
from audits.membership.membership_scores import ScoreSet, ShadowScores, read_scores
from audits.membership.pool import Pool
from audits.membership.preflight import FEW, coordinates_of, cost_of, names_of, possible, preview_of, warnings_of
from audits.membership.reading import Inputs
from audits.membership.releases import Release
from audits.membership.settings import ATTACKS, DENOISER, LIRA, NEED_REFERENCE
from probes.generators.diffusion import Denoiser, linear
from probes.generators.generative_networks import fresh_denoiser, fresh_gan
from probes.generators.generator_files import LoadedGenerator

DENOISING = fresh_denoiser((4,), hidden=8, layers=1, seed=0)
WEIGHTS = sum(weight.numel() for weight in DENOISING.parameters())
_KEPT: dict[str, Any] = {"shape": (4,), "path": "", "family": "", "sha256": ""}
PARTS: dict[str, Any] = {
    "generator": LoadedGenerator(
        module=fresh_gan((4,), latent=2, hidden=8, seed=0)[0], latent=2, parameters=1, notes=(), **_KEPT
    ),
    "denoiser": Denoiser(
        module=DENOISING, alphas_bar=linear(), prediction="epsilon", parameters=WEIGHTS,
        notes=("The names of the weights are those of mlp-denoiser.",), **_KEPT,
    ),
}  # fmt: skip


def given(folder: Path, values: Any, member: Any, column: str = "member") -> ScoreSet:
    lines = "".join(f"{value},{int(flag)}\n" for value, flag in zip(values, member, strict=True))
    (folder / "s.csv").write_text(f"score,{column}\n{lines}", encoding="utf-8")
    found = read_scores(folder / "s.csv", higher_is="member", target=None)
    assert isinstance(found, ScoreSet)
    return found


def pool(members: int, others: int, **more: Any) -> Pool:
    return labelled(np.arange(members + others) < members, **more)


def inputs(scores: ScoreSet | ShadowScores | None = None, sides: tuple[int, int] = (200, 200), **more: Any) -> Inputs:
    return inputs_of(**{"given": scores, "pool": pool(*sides), **more})


def release(part: str, name: str = "") -> Release:
    """Return a release of one part."""
    return Release(name=name, **{part: PARTS[part]})


@pytest.fixture
def samples(tmp_path: Path) -> Release:
    """Return a release of samples between -1 and 1, which the points of `seen` are too."""
    return Release(name="", samples=points_of(tmp_path / "samples", -1, 1))


def seen(folder: Path, low: float = -1, high: float = 1, *, pixels: bool = False) -> dict[str, Any]:
    """Return 200 members and 200 others whose values lie so, to be looked at and attacked."""
    whole = replace(pool(200, 200), points=points_of(folder / "points", low, high, pixels=pixels))
    return {"pool": whole, "blind": whole}


def warned(found: Inputs, **options: Any) -> dict[str, str]:
    return {one.id: one.message for one in warnings_of(found, Options(**options))}


@pytest.fixture
def scores(tmp_path: Path) -> ScoreSet:
    return given(tmp_path, np.random.default_rng(0).normal(size=400), np.arange(400) < 200)


def test_of_good_scores_only_the_blind_baseline_is_missed(scores: ScoreSet) -> None:
    assert set(warned(inputs(scores))) == {"no-blind-baseline"}
    assert warned(inputs(scores, blind=pool(200, 200))) == {}


@pytest.mark.parametrize(
    ("sides", "ids"),
    [((FEW, FEW), set()), ((FEW - 1, FEW), {"few-points"}), ((100, 1000), set()), ((100, 1001), {"unbalanced"}),
     ((1001, 100), {"unbalanced"}), ((20, 900), {"few-points", "unbalanced"})],
)  # fmt: skip
def test_few_points_and_unequal_sides_are_told(scores: ScoreSet, sides: tuple[int, int], ids: set[str]) -> None:
    assert set(warned(inputs(scores, sides))) - {"no-blind-baseline"} == ids


def test_points_beside_scores_should_be_as_many(scores: ScoreSet) -> None:
    found = warned(inputs(scores, blind=pool(50, 40)))
    assert "of 400 points" in found["other-points"] and "hold 90" in found["other-points"]


@pytest.mark.parametrize(("options", "told"), [({}, True), ({"independent": True}, False), ({"coin_flip": 0.5}, False)])
def test_bounds_of_one_training_run_are_called_heuristic(scores: ScoreSet, options: dict[str, Any], told: bool) -> None:
    claim = Claim(epsilon=1.0, delta=1e-5, source="", notes=("The accountant is loose.",))
    found = warned(inputs(scores, claim=claim), **options)
    assert ("heuristic-bounds" in found) == told and found["claim"] == "The accountant is loose."
    assert "heuristic-bounds" not in warned(inputs(scores), **options)


@pytest.mark.parametrize(
    ("column", "sides", "says"),
    [
        ("included", (211, 189), None),
        # An even split of 60 comes once in 9.7 times, of 400 once in 25.
        ("included", (30, 30), None),
        ("included", (200, 200), "Exactly half"),
        ("included", (66, 34), None),
        ("included", (67, 33), "67 members and 33 non-members"),
        ("included", (33, 67), "33 members and 67 non-members"),
        ("member", (211, 189), "not included"),
    ],
)
def test_what_does_not_look_like_fair_coins_is_doubted(
    tmp_path: Path, column: str, sides: tuple[int, int], says: str | None
) -> None:
    count = sum(sides)
    given_ = given(tmp_path, np.random.default_rng(0).normal(size=count), np.arange(count) < sides[0], column)
    found = warned(inputs(given_, sides), coin_flip=0.5)
    assert ("coins-doubtful" in found) == (says is not None)
    assert says is None or says in found["coins-doubtful"]
    assert "coins-doubtful" not in warned(inputs(given_, sides))


@pytest.mark.parametrize(
    ("options", "word"),
    [({}, None), ({"coin_flip": 0.5}, "each point was put in by a fair coin of its own"),
     ({"independent": True}, "every score is from a training run of its own")],
)  # fmt: skip
def test_certified_bounds_are_on_the_word_of_the_user(
    scores: ScoreSet, options: dict[str, Any], word: str | None
) -> None:
    found = warned(inputs(scores), **options)
    assert ("on-your-word" in found) == (word is not None)
    assert word is None or f"as you say, {word}." in found["on-your-word"]


@pytest.mark.parametrize(("delta", "told"), [(0.0, True), (1e-9, False)])
def test_without_delta_there_is_no_gaussian_bound(scores: ScoreSet, delta: float, told: bool) -> None:
    assert ("no-gdp" in warned(inputs(scores), delta=delta)) == told


def test_models_of_a_suite_have_their_bounds_called_heuristic_too(tmp_path: Path, samples: Release) -> None:
    claim = Claim(epsilon=1.0, delta=1e-5, source="", notes=("Loose for b.",))
    suite = inputs(releases=(replace(samples, name="a"), replace(samples, name="b", claim=claim)), **seen(tmp_path))
    found = warned(suite)
    assert "heuristic-bounds" in found and found["claim"] == "Loose for b."
    assert all(not one.where for one in warnings_of(suite, Options()) if one.id == "claim")


@pytest.mark.parametrize(
    ("reference", "scale", "told"),
    [(None, "unknown", False), (np.ones((3, 5)), "unknown", True), (np.ones((3, 5)), "probability", False)],
)
def test_what_is_no_probability_gives_no_rmia(reference: Any, scale: str, told: bool) -> None:
    several = ShadowScores(
        scores=np.zeros((3, 400, 1)), keep=np.zeros((3, 400), dtype=bool), target=0, reference=reference, scale=scale,
        names=(), given=400, skipped={}, sha256="", notes=(), path="", layout="", models=("a", "b", "c"),
    )  # fmt: skip
    found = inputs(several)
    assert ("no-rmia" in warned(found)) == told
    assert ("rmia" in possible(found, Options())) == (scale == "probability")


@pytest.mark.parametrize(("decimals", "told"), [(6, False), (0, True)])
def test_ties_are_told(tmp_path: Path, decimals: int, told: bool) -> None:
    values = np.random.default_rng(0).normal(size=400).round(decimals)
    found = warned(inputs(given(tmp_path, values, np.arange(400) < 200)))
    assert ("ties" in found) == told
    assert not told or f"{1 - len(np.unique(values)) / 400:.0%}" in found["ties"]


def test_a_constant_score_is_no_tie(tmp_path: Path) -> None:
    assert "ties" not in warned(inputs(given(tmp_path, np.ones(40), np.arange(40) < 20)))


@pytest.mark.parametrize(("column", "coin", "told"), [("member", None, False), ("included", None, True),
                                                      ("included", 0.5, False)])  # fmt: skip
def test_a_file_of_coins_asks_for_the_word(tmp_path: Path, column: str, coin: float | None, told: bool) -> None:
    scores = given(tmp_path, np.arange(40.0), np.arange(40) < 20, column)
    assert ("coin-flip" in warned(inputs(scores), coin_flip=coin)) == told


def test_what_was_left_out_is_told(scores: ScoreSet) -> None:
    found = warned(inputs(scores, pool=pool(200, 200, skipped={"repeated member": 1234})))
    assert found["skipped"] == "Left out: repeated member, 1,234."
    assert [one.id for one in warnings_of(inputs(scores), Options())] == list(warned(inputs(scores)))


@pytest.mark.parametrize(
    ("samples", "told"),
    [((-1.0, 1.0), False), ((-0.7, 0.8), False), ((0.0, 1.0), True), ((-1.0, 3.0), True), ((-30.0, 1.0), True)],
)
def test_samples_on_another_scale_are_told(tmp_path: Path, samples: tuple[float, float], told: bool) -> None:
    made = Release(name="", samples=points_of(tmp_path / "samples", *samples))
    found = warned(inputs(releases=(made,), **seen(tmp_path)))
    assert ("sample-scale" in found) == told and "no-reference" in found


@pytest.mark.parametrize(
    ("span", "pixels", "told"),
    [((0, 1), False, True), ((0, 1), True, False), ((-1, 1), False, False), ((0, 9), False, False)],
)  # fmt: skip
def test_points_that_a_network_may_not_know_are_told(
    tmp_path: Path, span: tuple[float, float], pixels: bool, told: bool
) -> None:
    found = warned(inputs(releases=(release("denoiser", "ddpm"),), **seen(tmp_path, *span, pixels=pixels)))
    assert ("scale" in found) == told and "names of the weights" in found["model"]


# Attacks, coordinates and costs.
def test_attacks_are_those_that_the_release_allows(samples: Release) -> None:
    def allowed(made: Release, **more: Any) -> list[str]:
        return possible(inputs(releases=(made,), **more), Options())

    assert allowed(samples) == [name for name in ATTACKS["samples"] if name not in NEED_REFERENCE]
    assert allowed(samples, reference=samples.samples) == list(ATTACKS["samples"])
    assert allowed(release("denoiser")) == [name for name in ATTACKS["denoiser"] if name not in LIRA]


def test_shadows_allow_likelihood_ratios_and_a_choice_leaves_the_rest_out() -> None:
    given = inputs(releases=(release("denoiser"),))
    assert possible(given, Options(shadows=4)) == [*DENOISER, *LIRA]
    assert names_of(given, Options(shadows=4, attack=("pia", "loss"))) == ["loss", "pia"]


def test_coordinates_are_those_of_the_inputs(scores: ScoreSet, samples: Release) -> None:
    found = coordinates_of(inputs(scores), Options())
    assert found["attack"] == ("score",) and found["fpr"] == (0.1, 0.01) and "model" not in found
    several = coordinates_of(inputs(releases=(replace(samples, name="a"), release("generator", "b"))), Options())
    assert several["model"] == several["against"] == ("a", "b")
    assert several["attack"] == ("nearest", "monte-carlo", "latent-search")


RUNS = "one-run one-run-fdp one-run-independent one-run-independent-gdp"
ASSUMED = "assumes-gdp assumes-independent-canaries assumes-independent-gdp"


@pytest.mark.parametrize(
    ("options", "methods", "validities"),
    [
        ({}, "clopper-pearson gdp", "heuristic assumes-gdp"),
        ({"delta": 0.0}, "clopper-pearson", "heuristic"),
        ({"independent": True}, "clopper-pearson gdp", "certified assumes-gdp"),
        ({"coin_flip": 0.5}, f"clopper-pearson gdp {RUNS}", f"certified heuristic {ASSUMED}"),
        ({"coin_flip": 0.5, "delta": 0.0}, "clopper-pearson one-run", "certified heuristic"),
        ({"coin_flip": 0.5, "selection": "fixed", "threshold": 0.1}, RUNS, f"certified {ASSUMED}"),
    ],
)
def test_coordinates_of_bounds_are_those_that_the_options_allow(
    scores: ScoreSet, options: dict[str, Any], methods: str, validities: str
) -> None:
    found = coordinates_of(inputs(scores), Options(**options))
    assert set(found["method"]) == set(methods.split()) and set(found["validity"]) == set(validities.split())


def test_coordinates_are_without_what_the_run_leaves_out(scores: ScoreSet) -> None:
    assert coordinates_of(inputs(scores), Options(tier="samples"))["tier"] == ("samples",)
    assert coordinates_of(inputs(releases=(release("generator"),)), Options())["tier"] == ("generator",)
    looked = inputs(scores, blind=pool(200, 200))
    assert coordinates_of(looked, Options())["classifier"] == ("linear", "trees")
    assert "classifier" not in coordinates_of(looked, Options(blind=False))
    assert "classifier" not in coordinates_of(inputs(scores), Options())


def test_training_of_the_shadow_discriminator_costs_time(tmp_path: Path, samples: Release) -> None:
    reference = points_of(tmp_path / "reference", -1, 1)
    found = inputs(releases=(samples,), reference=reference, pool=seen(tmp_path)["pool"])
    assert "shadow-discriminator" in names_of(found, Options())

    def minutes(**options: Any) -> float:
        return float(dict(cost_of(found, Options(**options), 0.95))["time"].split()[1])

    assert samples.samples is not None
    wide = replace(samples, samples=replace(samples.samples, shape=(3, 32, 32)))
    assert minutes(attack=("nearest",)) == 0.1
    found = replace(found, releases=(wide,))
    # 853,248 weights, 2,000 steps of 128 points, three passes a step.
    assert minutes() == round(3 * 2000 * 128 * 853_248 * 1e-10 / 60, 1) > 1
    assert minutes(attack=("nearest",)) == 0.1


def test_scores_cost_nothing(scores: ScoreSet) -> None:
    rows = dict(cost_of(inputs(scores, (200, 1200)), Options(), 0.95))
    assert rows["points"] == "200 members, 1,200 non-members" and rows["attacks"] == "score"
    assert rows["forwards"].startswith("none")


def test_what_so_many_scores_could_prove_is_told_before_the_run(scores: ScoreSet) -> None:
    def told(sides: tuple[int, int], **options: Any) -> str | None:
        return dict(cost_of(inputs(scores, sides), Options(**options), 0.95)).get("provable")

    # Ceilings of the page: with the default, half of the points prove.
    assert told((1000, 1000)) == "an epsilon of 4.90, by a perfect attack"
    assert told((1000, 1000), coin_flip=0.5) == "an epsilon of 5.78, by a perfect attack"
    assert told((500, 500), selection="fixed", threshold=0.0) == told((1000, 1000))
    assert told((1000, 1000), selection="bonferroni") is None


@pytest.mark.parametrize(
    ("epsilon", "runs", "options", "told"),
    # So many points could prove 4.90, or with coins 5.78.
    [(4.9, 1, {}, ""), (4.91, 1, {}, "the claimed epsilon of 4.91: a perfect attack could show at most 4.90."),
     (4.91, 1, {"coin_flip": 0.5}, ""), (4.91, 1, {"selection": "bonferroni"}, ""), (2, 2, {}, ""),
     (4, 2, {"coin_flip": 0.5}, "the search's epsilon of 8: a perfect attack could show at most")],
)  # fmt: skip
def test_a_claim_that_so_few_scores_cannot_contradict_is_told_before_the_run(
    scores: ScoreSet, epsilon: float, runs: int, options: dict[str, Any], told: str
) -> None:
    claim = searched(Claim(epsilon=epsilon, delta=1e-5, source="as given"), runs, "")
    notes = preview_of(inputs(scores, (1000, 1000), claim=claim), Options(**options), 0.95)
    assert len(notes) == bool(told) and all(f"Too few points to contradict {told}" in note for note in notes)
    assert preview_of(inputs(scores, (1000, 1000)), Options(**options), 0.95) == ()
    assert preview_of(inputs(sides=(30, 30), claim=claim), Options(**options), 0.95) == ()


def test_what_is_claimed_is_told_before_the_run(scores: ScoreSet) -> None:
    claims = (
        (Claim(epsilon=1.37848, delta=1e-5, source="as given"), "an epsilon of 1.37848, delta 1e-05, as given"),
        (
            Claim(epsilon=1.7119, delta=1e-5, source="accounted from the options", least=1.5),
            "an epsilon of at most 1.72, delta 1e-05, accounted from the options",
        ),
    )
    for claim, told in claims:
        found = inputs(scores, claim=claim)
        assert dict(cost_of(found, Options(), 0.95))["claimed"] == told
        assert any("an upper bound" in one.message for one in warnings_of(found, Options())) == (
            claim.least is not None
        )
    assert "claimed" not in dict(cost_of(inputs(scores), Options(), 0.95))


def test_a_model_costs_its_forward_passes() -> None:
    found = inputs(sides=(30, 50), timesteps=(10, 50, 100), releases=(release("denoiser"),))
    rows = dict(cost_of(found, Options(attack=("loss",), draws=5), 0.95))
    # Three timesteps, five draws, eighty points.
    assert rows["forwards"] == "1,200 of one point" and rows["access"] == "denoiser" and "time" in rows
    assert "shadow models" not in rows
    more = dict(cost_of(found, Options(attack=("loss",), draws=5, shadows=4), 0.95))
    assert more["shadow models"] == f"4 models of {WEIGHTS:,} weights" and "MB in the cache" in more["disk"]


def test_before_the_run_each_model_stands_with_the_delta_of_its_own_claim(scores: ScoreSet) -> None:
    def claimed(name: str, delta: float) -> Release:
        return Release(name=name, claim=Claim(epsilon=2.0, delta=delta, source="as given"))

    both = inputs(releases=(claimed("a", 0.0), claimed("b", 1e-5)))
    # The options' delta is of no model here.
    assert "gdp" in coordinates_of(both, Options(delta=0.0))["method"] and "no-gdp" in warned(both)
    only = inputs(releases=(claimed("b", 1e-5),))
    assert "no-gdp" not in warned(only, delta=0.0)
    assert "gdp" not in coordinates_of(inputs(releases=(claimed("a", 0.0),)), Options())["method"]


def test_of_a_search_the_provable_is_at_the_delta_of_all_runs(scores: ScoreSet) -> None:
    one = Claim(epsilon=2.0, delta=1e-3, source="as given")
    rows = {}
    for runs in (1, 100):
        found = inputs(scores, claim=searched(one, runs, ""))
        rows[runs] = dict(cost_of(found, Options(delta=1e-3, epsilon=2.0, runs_tried=runs), 0.95))
        messages = warned(found, delta=1e-3)
        assert ("search" in messages) == (runs > 1)
    assert rows[1]["provable"] != rows[100]["provable"]
    assert rows[100]["provable"] == dict(cost_of(inputs(scores), Options(delta=0.1), 0.95))["provable"]
    assert "an epsilon of 200, delta 0.1, by composition of 100 runs of an epsilon of 2 each" in rows[100]["claimed"]


def test_an_accounted_search_is_told_run_by_run_and_as_a_whole(scores: ScoreSet) -> None:
    one = Claim(epsilon=2.06, delta=1e-5, source="accounted from the options", least=1.83)
    messages = warned(inputs(scores, claim=searched(one, 3, "")))
    assert "The epsilon of at most 2.06 that is claimed of each run at delta 1e-05" in messages["claim"]
    assert messages["claim"].endswith("can go below 1.83."), "of the best run nothing is known from below"
    alone = warned(inputs(scores, claim=one))["claim"]
    assert "might refute the training" in alone and "of each run" not in alone
    assert "by plain composition at most 6.18 at delta 3e-05" in messages["search"]
