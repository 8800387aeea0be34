"""Does `miles membership` leave what the contract says, whatever is released and whenever it is killed?"""

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headlines import faults, says
from run_folders import estimate, estimates, files, found, read, records, stripped, warned
from scipy.stats import norm

from audits.report.pages.content import headed
from audits.report.report_file import read_report

# Runs in processes of their own make their pages.
pytestmark = pytest.mark.usefixtures("no_pages")

Call = Callable[..., Any]
Row = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
SIDE, MU = 200, 2.0
SHAPE, POINTS = (1, 4, 4), 60
SHADOWS = (
    "--shadows",
    "4",
    "--shadow-steps",
    "20",
    "--shadow-batch",
    "16",
    "--attack",
    "loss,lira-online,lira-offline",
)
STEPS = ("--timesteps", "20,100", "--draws", "2")


@dataclass(frozen=True)
class Small:
    """Scores in every form, and points with three networks that saw none of them."""

    folder: Path

    def scored(self, *more: object, scores: object = "scores.csv", higher: str | None = "member") -> list[str]:
        """Return a run on scores; None leaves the orientation out."""
        told = [] if higher is None else ["--higher-is", higher]
        return [str(word) for word in ("membership", "--scores", self.folder / str(scores), *told, *more)]

    def points(
        self, *more: object, members: object = "members.npy", nonmembers: object = "nonmembers.npy"
    ) -> list[str]:
        """Return a run on points."""
        sides = ("--members", self.folder / str(members), "--nonmembers", self.folder / str(nonmembers))
        return [str(word) for word in ("membership", *sides, *more)]

    def sampled(self, *more: object, samples: object = "samples.npy", **sides: object) -> list[str]:
        """Return a run on samples."""
        return self.points("--samples", self.folder / str(samples), *more, **sides)

    def denoised(self, *more: object, schedule: object = "linear", **sides: object) -> list[str]:
        """Return a run on a diffusion model."""
        model = ("--model", self.folder / "den.safetensors", "--arch", "mlp-denoiser", "--schedule", schedule)
        return self.points(*model, *more, **sides)


def scores(seed: int = 0, mu: float = MU, side: int = SIDE) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of a Gaussian mechanism, and who is a member: the first half."""
    member = np.arange(2 * side) < side
    return np.random.default_rng(seed).normal(size=2 * side) + mu * member, member


def written(path: Path, columns: dict[str, Any], separator: str = ",") -> Path:
    lines = [separator.join(columns), *(separator.join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def table(path: Path, values: np.ndarray, member: np.ndarray, **more: Any) -> Path:
    return written(path, {"score": values.tolist(), "member": member.astype(int).tolist(), **more})


def images(seed: int, count: int = POINTS, shift: float = 0.0) -> np.ndarray:
    return np.tanh(np.random.default_rng(seed).normal(size=(count, *SHAPE)) + shift).astype(np.float32)


def models(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return logits of right classes under eight models, (8, n), and who was in which; in every form of a folder."""
    rng = np.random.default_rng(5)
    first = rng.random((4, 2 * SIDE)) < 0.5
    keep = np.concatenate([first, ~first])
    logits = 2 * rng.normal(size=2 * SIDE) + rng.normal(size=(8, 2 * SIDE)) + 1.5 * keep
    np.savez(folder / "lira.npz", scores=logits, keep=keep)
    for model in range(8):
        place = folder / "lira" / f"experiment_{model}_of_8"
        (place / "scores").mkdir(parents=True)
        np.save(place / "keep.npy", keep[model])
        np.save(place / "scores" / "0001.npy", logits[model])
    chances = 1 / (1 + np.exp(-logits))
    population = 1 / (1 + np.exp(-rng.normal(size=(300, 8))))
    (folder / "meter" / "models").mkdir(parents=True)
    (folder / "meter" / "signals").mkdir()
    np.save(folder / "meter" / "models" / "memberships.npy", keep)
    np.save(folder / "meter" / "signals" / "rmia_signals.npy", chances.T)
    np.save(folder / "meter" / "signals" / "rmia_signals_pop.npy", population)
    return logits, keep


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    from safetensors.torch import save_file

    from probes.generators.generative_networks import fresh_denoiser, fresh_gan

    made = Small(tmp_path_factory.mktemp("membership"))
    values, member = scores()
    noise = np.random.default_rng(9).normal(size=2 * SIDE)
    flags, names = member.astype(int).tolist(), [f"p{place}" for place in range(2 * SIDE)]
    several = {"id": names, "score_strong": values.tolist(), "loss_weak": (noise - 0.5 * member).tolist(),
               "score_none": noise.tolist(), "member": flags}  # fmt: skip
    written(made.folder / "several.csv", several)
    table(made.folder / "scores.csv", values, member)
    for seed, name in enumerate(("members", "nonmembers", "reference", "samples", "others")):
        np.save(made.folder / f"{name}.npy", images(seed))
    np.save(made.folder / "shifted.npy", images(7, shift=1.0))
    generator, discriminator = fresh_gan(SHAPE, latent=4, hidden=8, seed=0)
    networks = {"den": fresh_denoiser(SHAPE, hidden=8, layers=1, seed=0), "gen": generator, "disc": discriminator}
    for name, network in networks.items():
        save_file(network.state_dict(), made.folder / f"{name}.safetensors")
    models(made.folder)
    (made.folder / "suite.toml").write_text(
        '[[model]]\nname = "ddpm"\nsamples = "samples.npy"\ndenoiser = "den.safetensors"\narch = "mlp-denoiser"\n'
        'schedule = "linear"\nepsilon = 8.0\ndelta = 1e-3\n\n[[model]]\nname = "gan"\nsamples = "others.npy"\n'
        'generator = "gen.safetensors"\narch = "mlp-generator"\ndiscriminator = "disc.safetensors"\n',
        encoding="utf-8",
    )
    return made


# Runs.
WATCHED = """
import json, sys

from miles_cli.main import main

place, sys.argv = sys.argv[1], ["miles", *sys.argv[2:]]
try:
    main()
finally:
    with open(place, "w") as file:
        json.dump(sorted(sys.modules), file)
"""
"""Leaves a list of all modules that a call imported."""
CLAIMED = ("--epsilon", "1", "--delta", "1e-5", "--independent", "--fpr", "0.1,0.01,0.001")


@pytest.fixture(scope="session")
def whole(small: Small, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """Return a finished run of a process of its own that nobody may change, and what it imported."""
    place = tmp_path_factory.mktemp("membership-run")
    words = small.scored(*CLAIMED, "--out", place / "run", "--quiet", scores="several.csv")
    line = [sys.executable, "-c", WATCHED, str(place / "modules.json"), *words]
    done = subprocess.run(line, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return place / "run", set(json.loads((place / "modules.json").read_text(encoding="utf-8")))


@pytest.fixture
def quick(quick: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Spare the runs what takes long and is tested elsewhere: the run of a process of its own has all of it."""
    from audits.membership import bounding, separability
    from probes.generators.attacks import discriminators

    monkeypatch.setattr(bounding, "joint_beta", lambda *_, **__: (0.5, 1.5))
    monkeypatch.setattr(separability, "TREES", 25)
    monkeypatch.setattr(discriminators, "STEPS", 50)
    return quick


def attacks(folder: Path) -> set[str]:
    return {row["where"]["attack"] for row in estimates(folder, "auc")}


# What a run leaves.
def test_a_report_says_what_was_attacked(small: Small, whole: tuple[Path, set[str]]) -> None:
    report = read(whole[0])
    assert report["figures"] and report["subject"] is None
    (source,) = report["data"]
    assert (source["role"], source["path"], source["items"]) == ("scores", str(small.folder / "several.csv"), 2 * SIDE)
    assert report["coverage"] == {"given": 2 * SIDE, "used": 2 * SIDE, "skipped": []}
    settings = report["settings"]
    assert (settings["epsilon"], settings["selection"], settings["fpr"]) == (1.0, "split", ["0.1", "0.01", "0.001"])


def test_scores_alone_need_no_torch(whole: tuple[Path, set[str]]) -> None:
    modules = whole[1]
    assert {"numpy", "audits.membership.measure"} <= modules
    assert not {"torch", "diffusers", "opacus", "transformers"} & modules


@pytest.mark.parametrize(
    ("name", "keys", "unit"),
    [
        *((name, "attack tier", "points") for name in (
            "auc", "balanced_accuracy", "advantage", "balanced_accuracy_held_out", "advantage_held_out"
        )),
        ("tpr", "attack fpr", "members"), ("epsilon_lower", "attack method validity", "points"),
        ("epsilon_ceiling", "attack method", "points"), ("epsilon_credible", "attack", "points"),
        ("epsilon_claimed", "", "claims"), ("leakage", "access attack", "points"),
    ],
)  # fmt: skip
def test_estimates_have_their_coordinates(whole: tuple[Path, set[str]], name: str, keys: str, unit: str) -> None:
    rows = estimates(whole[0], name)
    assert rows and all(" ".join(sorted(row["where"])) == keys and row["unit"] == unit for row in rows)


def test_every_attack_has_every_number(whole: tuple[Path, set[str]]) -> None:
    folder, names = whole[0], {"strong", "weak", "none"}
    for name in ("auc", "advantage", "advantage_held_out", "epsilon_credible"):
        assert {row["where"]["attack"] for row in estimates(folder, name)} == names
    assert {row["where"]["method"] for row in estimates(folder, "epsilon_lower")} == {"clopper-pearson", "gdp"}
    told = {(row["where"]["attack"], row["where"]["fpr"]) for row in estimates(folder, "tpr")}
    # 200 non-members do not resolve one in a thousand.
    assert told == {(name, rate) for name in names for rate in (0.1, 0.01)} and "fpr-resolution" in warned(folder)


def test_numbers_hold_the_truth(whole: tuple[Path, set[str]]) -> None:
    folder = whole[0]
    truth = {"strong": MU, "weak": 0.5}
    for name, mu in truth.items():
        row = estimate(folder, "auc", attack=name)
        assert row["low"] <= norm.cdf(mu / np.sqrt(2)) <= row["high"] and row["n"] == 2 * SIDE
        held = estimate(folder, "advantage_held_out", attack=name)
        assert held["low"] <= 2 * norm.cdf(mu / 2) - 1 <= held["high"] + 0.05
    assert "flipped" not in warned(folder)
    # mu 2 is an epsilon of 9.997 at delta 1e-5.
    for method in ("clopper-pearson", "gdp"):
        lower = estimate(folder, "epsilon_lower", attack="strong", method=method)
        top = estimate(folder, "epsilon_ceiling", attack="strong", method=method)
        assert 1 < lower["value"] < 9.997 and lower["value"] <= top["value"] == lower["high"]
    assert estimate(folder, "epsilon_lower", attack="none", method="clopper-pearson")["value"] == 0
    (broken,) = found(folder)["membership.verdict"]
    assert broken["where"] == {"attack": "strong", "verdict": "violation"} and broken["severity"] == "high"
    (leak,) = found(folder)["membership.leak"]
    assert leak["where"]["attack"] == "strong"


def test_records_have_a_row_for_each_point_and_attack(small: Small, whole: tuple[Path, set[str]]) -> None:
    rows = records(whole[0])
    assert list(rows[0]) == ["attack", "tier", "point", "member", "score", "chooses", "judged"]
    assert len(rows) == 3 * 2 * SIDE
    with (small.folder / "several.csv").open(newline="", encoding="utf-8") as file:
        given = {row["id"]: row for row in csv.DictReader(file)}
    for row in rows:
        own = given[row["point"]]
        loss = row["attack"] == "weak"
        value = float(own["loss_weak" if loss else f"score_{row['attack']}"])
        assert float(row["score"]) == pytest.approx(-value if loss else value)
        assert row["member"] == own["member"] and row["judged"] == "1"
    for attack in ("strong", "weak", "none"):
        halves = [row["member"] for row in rows if row["attack"] == attack and row["chooses"] == "1"]
        assert halves.count("1") == halves.count("0") == SIDE // 2


# The same again, and otherwise.
def test_the_same_seed_gives_the_same_bytes(small: Small, quick: Any) -> None:
    words = small.scored(*CLAIMED)
    first, again, other = (
        quick(*words, "--seed", seed, name=name) for name, seed in (("one", 0), ("two", 0), ("other", 1))
    )
    assert stripped(first) == stripped(again)
    assert (first / "records.csv").read_bytes() == (again / "records.csv").read_bytes()
    assert (first / "records.csv").read_bytes() != (other / "records.csv").read_bytes()
    held = [estimate(folder, "advantage_held_out")["value"] for folder in (first, other)]
    areas = [estimate(folder, "auc")["value"] for folder in (first, other)]
    assert held[0] != held[1] and areas[0] == areas[1], "only what is split depends on the seed"


@pytest.mark.parametrize("kind", ["scored", "denoised"])
def test_a_dry_run_writes_nothing(
    small: Small, call_miles: Call, environment: dict[str, str], tmp_path: Path, kind: str
) -> None:
    shadows = SHADOWS if kind == "denoised" else ()
    cache = Path(environment["MILES_CACHE"])
    before = files(cache)
    outcome = call_miles(*getattr(small, kind)(*shadows), "--out", tmp_path / "run", "--dry-run", cwd=tmp_path)
    assert outcome.code == 0 and "every input is in order" in outcome.out
    assert list(tmp_path.iterdir()) == [] and files(cache) == before
    assert (f"{POINTS} members, {POINTS} non-members" if shadows else f"{SIDE} members") in outcome.out
    assert ("4 models" in outcome.out) == bool(shadows)


# Forms of scores.
def test_all_forms_of_scores_are_the_same_data(small: Small, quick: Any, tmp_path: Path) -> None:
    values, member = scores()
    flags = member.astype(int).tolist()
    written(tmp_path / "s.tsv", {"score": values.tolist(), "member": flags}, "\t")
    written(tmp_path / "loss.csv", {"loss": (-values).tolist(), "member": flags})
    np.savez(tmp_path / "s.npz", scores=values, member=member)
    np.savez(tmp_path / "sides.npz", in_scores=values[:SIDE], out_scores=values[SIDE:])
    np.savez(tmp_path / "losses.npz", loss_train=-values[:SIDE], loss_test=-values[SIDE:])
    plain = read(quick(*small.scored()))
    for name, higher in (("s.tsv", "member"), ("s.npz", "member"), ("sides.npz", "member"), ("loss.csv", None),
                         ("losses.npz", None)):  # fmt: skip
        made = read(quick(*small.scored(scores=tmp_path / name, higher=higher), name=f"from-{name}"))
        rows = json.loads(json.dumps(made["estimates"]).replace('"loss"', '"score"'))
        assert rows == plain["estimates"], name
    turned = table(tmp_path / "turned.csv", -values, member)
    made = read(quick(*small.scored(scores=turned, higher="nonmember"), name="turned"))
    assert made["estimates"] == plain["estimates"]


def test_one_run_bounds_need_the_word_that_coins_were_flipped(small: Small, quick: Any, tmp_path: Path) -> None:
    values, included = scores(side=500)
    np.savez(tmp_path / "s.npz", scores=values, included=included)
    words = small.scored("--epsilon", "1", scores=tmp_path / "s.npz")
    plain, flipped = quick(*words), quick(*words, "--coin-flip", "0.5", name="flipped")
    validity = {
        folder.name: {row["where"]["method"]: row["where"]["validity"] for row in estimates(folder, "epsilon_lower")}
        for folder in (plain, flipped)
    }
    assert validity["run"] == {"clopper-pearson": "heuristic", "gdp": "assumes-gdp"}
    assert validity["flipped"] == validity["run"] | {
        "one-run": "certified",
        "one-run-fdp": "assumes-gdp",
        "one-run-independent": "assumes-independent-canaries",
        "one-run-independent-gdp": "assumes-independent-gdp",
    }
    assert "coin-flip" in warned(plain) and "coin-flip" not in warned(flipped)
    assert "heuristic-bounds" in warned(plain) and "heuristic-bounds" not in warned(flipped)
    # The verdict rests on what is certified.
    (told,) = found(flipped)["membership.verdict"]
    assert told["severity"] == "high" and "as you stated, each point was included by its own fair coin flip" in says(
        told
    )
    (told,) = found(plain)["membership.verdict"]
    assert told["severity"] == "medium" and "heuristic" in says(told)


def test_scores_of_several_models_are_attacked_with_shadows(small: Small, quick: Any) -> None:
    packed = quick(*small.scored(scores="lira.npz"), name="packed")
    folder = quick(*small.scored(scores="lira", higher=None), name="folder")
    assert read(packed)["estimates"] == read(folder)["estimates"]
    assert attacks(packed) == {"threshold", "lira-online", "lira-offline"}
    areas = {row["where"]["attack"]: row["value"] for row in estimates(packed, "auc")}
    assert areas["lira-online"] > areas["threshold"] + 0.02
    other = quick(*small.scored("--target", "0", scores="lira.npz"), name="other")
    assert estimates(other, "auc") != estimates(packed, "auc")
    one = quick(*small.scored("--attack", "lira-offline", scores="lira.npz"), name="one")
    assert attacks(one) == {"lira-offline"}


def test_privacy_meter_is_read(small: Small, quick: Any) -> None:
    folder = quick(*small.scored(scores="meter", higher=None))
    assert attacks(folder) == {"threshold", "lira-online", "lira-offline", "rmia"}
    assert {row["low"] > 0.5 for row in estimates(folder, "auc", attack="rmia")} == {True}


# What is released.
def test_samples_alone(small: Small, quick: Any) -> None:
    folder = quick(*small.sampled("--reference", small.folder / "reference.npy"))
    assert attacks(folder) == {"nearest", "calibrated", "monte-carlo", "domias", "shadow-discriminator"}
    assert {row["where"]["tier"] for row in estimates(folder, "auc")} == {"samples"}
    assert {row["where"]["access"] for row in estimates(folder, "leakage")} == {"samples"}
    assert {row["where"]["measure"] for row in estimates(folder, "utility")} == {"precision", "recall"}
    assert {row["where"]["classifier"] for row in estimates(folder, "blind_auc")} == {"linear", "trees"}
    assert "membership.no-leak" in found(folder) and "membership.leak" not in found(folder)
    bare = quick(*small.sampled("--no-blind"), name="bare")
    assert attacks(bare) == {"nearest", "monte-carlo"} and "no-reference" in warned(bare)
    assert not estimates(bare, "blind_auc")


def test_samples_that_are_copies_of_members_are_told(small: Small, quick: Any) -> None:
    folder = quick(*small.sampled("--attack", "nearest", samples="members.npy"))
    assert estimate(folder, "auc", attack="nearest")["value"] == 1.0
    assert found(folder)["membership.leak"][0]["severity"] == "high"


def test_a_diffusion_model(small: Small, quick: Any) -> None:
    folder = quick(*small.denoised(*STEPS, "--epsilon", "8"))
    own = {"loss", "sima", "pia", "pian", "secmi", "pfami", "gradnorm"}
    assert attacks(folder) == own
    assert read(folder)["subject"]["path"] == str(small.folder / "den.safetensors")
    assert read(folder)["subject"]["family"] == "mlp-denoiser"
    assert {row["where"]["tier"] for row in estimates(folder, "auc")} == {"denoiser"}
    assert {row["where"]["measure"] for row in estimates(folder, "utility")} == {"held_out_loss"}
    # The timestep was chosen on half of the points: the others are judged.
    assert {row["n"] for row in estimates(folder, "auc")} == {POINTS}
    rows = [row for row in records(folder) if row["attack"] == "pia"]
    assert all((row["chooses"], row["judged"]) in (("1", "0"), ("0", "1")) for row in rows)
    (vain,) = found(folder)["membership.verdict"]
    assert vain["where"]["verdict"] == "vacuous"
    one = quick(*small.denoised("--timesteps", "20", "--draws", "2", "--attack", "pia,loss"), name="one")
    assert attacks(one) == {"pia", "loss"} and {row["n"] for row in estimates(one, "auc")} == {2 * POINTS}


def test_a_suite_compares_models_by_access(small: Small, quick: Any) -> None:
    words = ("--reference", small.folder / "reference.npy", "--attack", "nearest,loss,latent-search,discriminator")
    folder = quick(*small.points("--suite", small.folder / "suite.toml", *words, *STEPS))
    tiers = {(row["where"]["model"], row["where"]["attack"]): row["where"]["tier"] for row in estimates(folder, "auc")}
    assert tiers == {
        ("ddpm", "nearest"): "samples", ("ddpm", "loss"): "denoiser", ("gan", "nearest"): "samples",
        ("gan", "latent-search"): "generator", ("gan", "discriminator"): "full",
    }  # fmt: skip
    cells = {(row["where"]["model"], row["where"]["access"]) for row in estimates(folder, "leakage")}
    assert cells == {(model, access) for model in ("ddpm", "gan") for access in ("samples", "weights", "full")}
    pairs = [(row["where"]["access"], row["where"]["model"], row["where"]["against"])
             for row in estimates(folder, "leakage_difference")]  # fmt: skip
    assert sorted(pairs) == [(access, "ddpm", "gan") for access in ("full", "samples", "weights")]
    assert {row["where"]["access"] for row in found(folder)["membership.alike"]} == {"full", "samples", "weights"}
    (claim,) = estimates(folder, "epsilon_claimed")
    assert claim["where"] == {"model": "ddpm"} and claim["value"] == 8.0
    assert [row["where"]["model"] for row in found(folder)["membership.verdict"]] == ["ddpm"]
    assert {row["model"] for row in records(folder)} == {"ddpm", "gan"}


def test_a_factory_runs_where_that_is_allowed(small: Small, quick: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "from probes.generators.generative_networks import fresh_denoiser\n\n\n"
        "def net():\n    return fresh_denoiser((1, 4, 4), "
    )
    (tmp_path / "factory_of_mine.py").write_text(f"{text}hidden=8, layers=1, seed=3)\n", encoding="utf-8")
    model = ("--model", small.folder / "den.safetensors", "--schedule", "linear", "--attack", "sima", *STEPS)
    made = quick(*small.points(*model, "--arch", "factory_of_mine:net", "--allow-code"), name="made")
    plain = quick(*small.points(*model, "--arch", "mlp-denoiser"), name="plain")
    assert estimates(made, "auc") == estimates(plain, "auc")
    assert any("factory_of_mine:net" in message for message in warned(made).values())


# What is unusual, and must be said.
def test_ties_are_said(small: Small, quick: Any, tmp_path: Path) -> None:
    values, member = scores()
    folder = quick(*small.scored(scores=table(tmp_path / "s.csv", np.round(values), member)))
    assert "repeat another" in warned(folder)["ties"] and "ties count half" in warned(folder)["ties"]
    row = estimate(folder, "auc")
    inside, outside = np.round(values[member]), np.round(values[~member])
    direct = np.mean(inside[:, None] > outside) + np.mean(inside[:, None] == outside) / 2
    assert row["value"] == pytest.approx(direct)
    assert "ties" not in warned(quick(*small.scored(), name="plain"))


def test_constant_scores_tell_nobody_apart(small: Small, quick: Any, tmp_path: Path) -> None:
    values, member = scores()
    folder = quick(*small.scored("--epsilon", "0", scores=table(tmp_path / "s.csv", 0 * values + 0.3, member)))
    assert "equal" in warned(folder)["constant-scores"]
    row = estimate(folder, "auc")
    assert (row["value"], row["low"], row["method"]) == (0.5, None, "none")
    assert {row["value"] for row in estimates(folder, "epsilon_lower")} == {0.0}
    leak = estimate(folder, "leakage")
    assert (leak["low"], leak["value"], leak["high"], leak["method"]) == (None, 0.5, None, "none")
    assert not estimates(folder, "epsilon_credible")
    assert set(found(folder)) == {"membership.equal"} and "no-verdict" in warned(folder)


def test_scores_the_wrong_way_round_are_said_and_not_turned(small: Small, quick: Any) -> None:
    folder = quick(*small.scored(higher="nonmember"))
    assert "wrong way round" in warned(folder)["flipped"] and "not turned" in warned(folder)["flipped"]
    assert estimate(folder, "auc")["high"] < 0.5 and "membership.leak" not in found(folder)


def test_twenty_members_are_few(small: Small, quick: Any, tmp_path: Path) -> None:
    values, member = scores(mu=10.0, side=20)
    folder = quick(*small.scored("--epsilon", "5", scores=table(tmp_path / "s.csv", values, member)))
    assert "20 members and 20 non-members are few" in warned(folder)["few-points"]
    assert "hits at 0.01, 0.001 are not told" in warned(folder)["fpr-resolution"]
    (told,) = found(folder)["membership.verdict"]
    assert told["where"]["verdict"] == "vacuous" and "Too few points to test epsilon" in says(told)
    lower = estimate(folder, "epsilon_lower", method="clopper-pearson")
    assert 0 < lower["value"] <= lower["high"] < 5


def test_a_claim_that_few_points_cannot_contradict_is_told_before_and_after_the_run(
    small: Small, call_miles: Call, quick: Any, tmp_path: Path
) -> None:
    values, member = scores(mu=0.0, side=20)
    words = small.scored("--epsilon", "8", "--runs-tried", "2", scores=table(tmp_path / "s.csv", values, member))
    plan = call_miles(*words, "--dry-run", cwd=tmp_path)
    assert "Too few points to contradict the search's epsilon of 16" in " ".join(plan.out.split())
    folder = quick(*words)
    assert "Too few points to test the search's epsilon = 16" in says(found(folder)["membership.verdict"][0])
    assert not any("Too few points to contradict" in message for message in warned(folder).values())
    step = read(folder)["answer"]["next_step"]
    assert "more points" in step and "Withdraw" not in step


def test_sides_of_very_different_sizes_are_said(small: Small, quick: Any, tmp_path: Path) -> None:
    values, member = scores()
    few = np.flatnonzero(~member | (np.arange(2 * SIDE) < 15))
    folder = quick(*small.scored(scores=table(tmp_path / "s.csv", values[few], member[few])))
    assert "15 members stand against 200" in warned(folder)["unbalanced"]


def test_scores_that_are_missing_are_left_out_and_counted(small: Small, quick: Any, tmp_path: Path) -> None:
    values, member = scores()
    holed = values.copy()
    holed[3], holed[-1], holed[7] = np.nan, np.inf, -np.inf
    folder = quick(*small.scored(scores=table(tmp_path / "s.csv", holed, member)))
    assert read(folder)["coverage"] == {
        "given": 2 * SIDE, "used": 2 * SIDE - 3,
        "skipped": [{"reason": "score missing, NaN or infinite", "count": 3}],
    }  # fmt: skip
    assert "score missing, NaN or infinite, 3" in warned(folder)["skipped"]
    assert estimate(folder, "auc")["n"] == 2 * SIDE - 3
    kept = np.isfinite(holed)
    inside, outside = values[member & kept], values[~member & kept]
    assert estimate(folder, "auc")["value"] == pytest.approx(np.mean(inside[:, None] > outside))
    assert {"5", "9", "401"}.isdisjoint(row["point"] for row in records(folder)), "names are lines of the file"


def test_ids_on_both_sides_are_left_out(small: Small, quick: Any, tmp_path: Path) -> None:
    values, member = scores()
    names = [f"p{place}" for place in range(2 * SIDE)]
    names[SIDE + 1], names[5] = "p1", "p4"
    folder = quick(*small.scored(scores=table(tmp_path / "s.csv", values, member, id=names)))
    assert {row["reason"]: row["count"] for row in read(folder)["coverage"]["skipped"]} == {
        "id both member and non-member": 2, "id given before": 1,
    }  # fmt: skip
    assert {"p1"}.isdisjoint(row["point"] for row in records(folder))


def test_points_on_both_sides_are_left_out(small: Small, quick: Any, tmp_path: Path) -> None:
    members, others = images(0), images(1)
    others[:3] = members[:3]
    np.save(tmp_path / "others.npy", others)
    twice = np.concatenate([members, members[10:12]])
    np.save(tmp_path / "members.npy", twice)
    sides = {"members": tmp_path / "members.npy", "nonmembers": tmp_path / "others.npy"}
    folder = quick(*small.sampled("--attack", "nearest", "--no-blind", **sides))
    assert {row["reason"]: row["count"] for row in read(folder)["coverage"]["skipped"]} == {
        "both member and non-member": 6, "repeated member": 2,
    }  # fmt: skip
    assert "both member and non-member, 6" in " ".join(row["message"] for row in read(folder)["warnings"])
    assert estimate(folder, "auc")["n"] == 2 * POINTS - 6


def test_reference_points_that_are_audited_are_not_used(small: Small, quick: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "reference.npy", np.concatenate([images(2), images(0)[:4], images(1)[:1]]))
    words = ("--attack", "calibrated", "--no-blind")
    clean = quick(*small.sampled("--reference", small.folder / "reference.npy", *words), name="clean")
    mixed = quick(*small.sampled("--reference", tmp_path / "reference.npy", *words), name="mixed")
    assert "5 points of the reference are members or non-members too" in warned(mixed)["input"]
    assert [row["score"] for row in records(mixed)] == [row["score"] for row in records(clean)]


def test_samples_on_another_scale_are_said(small: Small, quick: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "tens.npy", 10 * images(3))
    np.save(tmp_path / "halves.npy", images(3) / 2 + 0.5)
    words = ("--attack", "nearest", "--no-blind")
    for name in ("tens", "halves"):
        folder = quick(*small.sampled(*words, samples=tmp_path / f"{name}.npy"), name=name)
        assert "are they on one scale?" in warned(folder)["sample-scale"]
    assert "sample-scale" not in warned(quick(*small.sampled(*words), name="plain"))


def test_nonmembers_from_elsewhere_stop_the_verdict(small: Small, quick: Any) -> None:
    words = ("--epsilon", "0.1", "--attack", "nearest")
    folder = quick(*small.sampled(*words, nonmembers="shifted.npy"))
    (shift,) = found(folder)["membership.shifted"]
    assert shift["severity"] == "high" and "differ without any model" in says(shift)
    assert "No verdict on the claimed epsilon is given" in says(shift)
    assert "membership.verdict" not in found(folder) and "no claim can be judged" in warned(folder)["no-verdict"]
    assert read(folder)["estimates"][shift["evidence"][0]]["name"] == "blind_auc"
    for leak in found(folder).get("membership.leak", []):
        assert "may be the difference between the two sides" in says(leak)
    unasked = quick(*small.sampled("--attack", "nearest", nonmembers="shifted.npy"), name="unasked")
    assert "membership.shifted" in found(unasked) and "no-verdict" not in warned(unasked)
    alike = quick(*small.sampled(*words), name="alike")
    assert "membership.shifted" not in found(alike) and "membership.verdict" in found(alike)


def test_points_beside_scores_are_compared_blindly(small: Small, quick: Any) -> None:
    words = small.scored("--epsilon", "0.1")
    assert "no-blind-baseline" in warned(quick(*words))
    sides = ("--members", small.folder / "members.npy", "--nonmembers")
    folder = quick(*words, *sides, small.folder / "shifted.npy", name="shifted")
    assert "membership.shifted" in found(folder) and "membership.verdict" not in found(folder)
    assert "no-blind-baseline" not in warned(folder)
    assert "membership.verdict" in found(quick(*words, *sides, small.folder / "nonmembers.npy", name="alike"))


def test_a_delta_of_0_leaves_no_gaussian_bound(small: Small, quick: Any, tmp_path: Path) -> None:
    values, included = scores()
    np.savez(tmp_path / "s.npz", scores=values, included=included)
    folder = quick(*small.scored("--delta", "0", "--epsilon", "1", "--coin-flip", "0.5", scores=tmp_path / "s.npz"))
    assert {row["where"]["method"] for row in estimates(folder, "epsilon_lower")} == {"clopper-pearson", "one-run"}
    assert "delta 0." in says(found(folder)["membership.verdict"][0])


def test_a_claim_follows_from_noise_rate_and_steps(small: Small, quick: Any, tmp_path: Path) -> None:
    training = ("--noise-multiplier", "1", "--sample-rate", "0.01", "--steps", "1000")
    asked = quick(*small.scored(*training), name="asked")
    (tmp_path / "h.json").write_text(json.dumps({"history": [[1.0, 0.01, 1000]]}), encoding="utf-8")
    history = quick(*small.scored("--history", tmp_path / "h.json"), name="history")
    # The accountant of Opacus has 2.101 for the same.
    values = [estimate(folder, "epsilon_claimed")["value"] for folder in (asked, history)]
    assert values[0] == values[1] == pytest.approx(2.10, abs=0.02)
    assert "accounted from the options" in warned(asked)["claim"] and "an upper bound" in warned(asked)["claim"]
    row = estimate(asked, "epsilon_claimed")
    # By privacy loss distributions it is 1.82 to 1.84.
    assert row["method"].startswith("Upper bound:") and row["high"] == row["value"] and 1.78 < row["low"] < 1.84
    assert "accounted from h.json" in " ".join(row["message"] for row in read(history)["warnings"])


def test_an_accountant_and_runs_stand_on_top_where_they_change_the_claim(small: Small, quick: Any) -> None:
    training = ("--noise-multiplier", "1", "--sample-rate", "0.01", "--steps", "100")
    plain = read_report(quick(*small.scored(*training), name="plain"))
    top = dict(headed(plain))
    assert list(top) == ["selection", "delta", "noise multiplier", "sample rate", "steps"]
    searched = read_report(quick(*small.scored(*training, "--runs-tried", "2000"), name="searched"))
    assert dict(headed(searched)) == top | {"runs tried": "2,000"}
    by_losses = replace(plain, settings={**plain.settings, "accountant": "pld"})
    assert dict(headed(by_losses)) == top | {"accountant": "pld"}
    # Reports of older versions know neither.
    older = {name: value for name, value in plain.settings.items() if name not in ("accountant", "runs_tried")}
    assert dict(headed(replace(plain, settings=older))) == top


@pytest.mark.parametrize("selection", ["split", "bonferroni", "fixed"])
def test_how_the_threshold_was_found_is_said(small: Small, quick: Any, selection: str) -> None:
    given = ("--threshold", "1") if selection == "fixed" else ()
    folder = quick(*small.scored("--selection", selection, *given))
    said = {"split": "threshold from the other half", "bonferroni": "Bonferroni over", "fixed": "threshold as given"}
    row = estimate(folder, "epsilon_lower", method="clopper-pearson")
    assert said[selection] in row["method"] and 0 < row["value"] < 9.997
    assert row["n"] == (SIDE if selection == "split" else 2 * SIDE)


def test_a_schedule_that_is_cut_off_is_said(small: Small, quick: Any, tmp_path: Path) -> None:
    (tmp_path / "betas.json").write_text(json.dumps(np.linspace(1e-4, 0.02, 100).tolist()), encoding="utf-8")
    words = ("--attack", "sima", "--timesteps", "20", "--no-blind")
    folder = quick(*small.denoised(*words, schedule=tmp_path / "betas.json"))
    told = " ".join(row["message"] for row in read(folder)["warnings"])
    assert "read as betas" in told and "is it cut off?" in told


# Shadow models, and runs that are killed.
DRIVER = """
import json, os, sys

import audits.membership.attacking, audits.membership.utility
import audits.membership.figures
import probes.core.cache
from audits.membership import bounding
from miles_cli.main import main

moments, log = json.loads(sys.argv[1]), sys.argv[2]
sys.argv = ["miles", *sys.argv[4:]]
report = sys.argv[sys.argv.index("--out") + 1] + "/report.json"
plain = probes.core.cache.Cache.write
audits.membership.figures.figures = lambda *_: iter(())
bounding.joint_beta = lambda *_, **__: (0.5, 1.5)


def run(kind, count):
    seen = 0

    def write(self, what, key, tensors):
        nonlocal seen
        seen += what == kind
        if what == kind and seen == count:
            os.kill(os.getpid(), 9)
        plain(self, what, key, tensors)
        with open(log, "a") as file:
            print(self.path(what, key), file=file)

    probes.core.cache.Cache.write = write
    main()


for moment in moments:
    child = os.fork()
    if not child:
        run(*moment)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == 9 and not os.path.exists(report), moment
run("", 0)
"""
"""Is killed before it keeps so many results of a kind, once for each moment; lists those that were kept."""
MOMENTS = (("denoiser-scores", 2), ("shadow-models", 3))


def of_any_cores(folder: Path) -> Any:
    """Return the report without the number of processes, in which equal runs may differ too."""
    report = json.loads(stripped(folder))
    return report | {"settings": {key: value for key, value in report["settings"].items() if key != "workers"}}


@pytest.mark.slow
def test_a_run_killed_at_any_moment_ends_in_the_report_of_any_number_of_cores(
    small: Small, quick: Any, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = small.denoised(*SHADOWS, *STEPS, "--no-blind", "--workers")
    out, log, caches = tmp_path / "killed", tmp_path / "log", [tmp_path / "cache-1", tmp_path / "cache-2"]
    line = [sys.executable, "-c", DRIVER, json.dumps(MOMENTS), str(log), "miles", *command, "1", "--out", str(out)]
    done = subprocess.run(
        [*line, "--quiet"], env={**environment, "MILES_CACHE": str(caches[0])}, cwd=ROOT, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = log.read_text(encoding="utf-8").split()
    # What was done before a kill was not done again; a killed shadow model was trained a second time.
    assert len(set(kept)) == len(kept) and sum("shadow-models" in path for path in kept) == 4
    monkeypatch.setitem(environment, "MILES_CACHE", str(caches[1]))
    plain = quick(*command, "2")
    assert of_any_cores(out) == of_any_cores(plain)
    assert (out / "records.csv").read_bytes() == (plain / "records.csv").read_bytes()
    entries = [{path.name: path.read_bytes() for path in cache.rglob("shadow-models/*/*")} for cache in caches]
    assert entries[0] == entries[1] and len(entries[0]) == 4
    assert not (out / "state").exists() and (out / "report.html").exists()
    assert attacks(plain) == {"loss", "lira-online", "lira-offline"}
    # Shadow models choose the timestep, so that all points are judged.
    assert {row["n"] for row in estimates(plain, "auc")} == {2 * POINTS}


def test_headlines_are_short_and_their_numbers_stand_in_the_evidence(prepared: Path) -> None:
    from audits.report.report_file import read_report

    for name in ("suite", "canaries"):
        report = read_report(prepared / "work" / "runs" / name)
        assert report.answer is not None and faults(report) == []
