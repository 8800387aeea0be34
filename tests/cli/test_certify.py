"""Does `miles certify` leave what the contract says, draw nothing twice, and refuse whatever is wrong?"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headlines import faults
from refusals import Table, Words, one_panel
from run_folders import estimates, files, read, records

from audits.report.pages.content import headed
from audits.report.report_file import read_report

# Runs in processes of their own make their pages.
pytestmark = pytest.mark.usefixtures("no_pages")

Call = Callable[..., Any]
COLUMNS = ["idx", "label", "predict", "radius", "correct", "p_lower", "draws", "seconds"]
LOG = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t3\t3\t0.41\t1\t0:00:13.2\n1\t8\t-1\t0.0\t0\t0:00:13.1\n"


@dataclass(frozen=True)
class Digits:
    """A small network that tells three patterns apart, and images of them."""

    folder: Path
    model: Path
    data: Path

    def command(self, *more: object, **other: object) -> Words:
        """Return the words of a quick run; `other` replaces values by flag, None leaves the flag out."""
        flags: dict[str, object] = {"--arch": "small_cnn", "--data": self.data, "--sigma": 0.5, "--n0": 40, "--n": 300}
        flags |= {f"--{name.replace('_', '-')}": value for name, value in other.items()}
        pairs = [str(word) for flag, value in flags.items() if value is not None for word in (flag, value)]
        return ["certify", str(self.model), *pairs, *(str(word) for word in more)]


def patterns(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Return images of 8x8 with a bright left, middle or right, and which."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    pixels = 0.3 + 0.1 * rng.random((count, 1, 8, 8))
    for image, label in zip(pixels, labels, strict=True):
        image[:, :, 3 * label : 3 * label + 3] += 0.3
    return pixels.astype(np.float32), labels


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    import torch
    from safetensors.torch import save_file

    from probes.classifiers.classifier_networks import small_cnn

    folder = tmp_path_factory.mktemp("digits")
    net = small_cnn((1, 8, 8), 3, 4).train()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(0)
    pixels, labels = (torch.from_numpy(part) for part in patterns(96, seed=1))
    for _ in range(40):
        noisy = pixels + 0.5 * torch.randn(pixels.shape, generator=generator)
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(noisy), labels).backward()
        optimiser.step()
    save_file(net.state_dict(), folder / "net.safetensors")
    x, y = patterns(21)
    site = np.array([("north", "south")[place % 2] for place in range(21)])
    np.savez(folder / "digits.npz", x=x, y=y, site=site)
    return Digits(folder=folder, model=folder / "net.safetensors", data=folder / "digits.npz")


@pytest.fixture(scope="session")
def certified(digits: Digits, finish_run: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run that nobody may change."""
    folder: Path = finish_run(*digits.command("--by", "site"), out=tmp_path_factory.mktemp("certified") / "run")
    return folder


@pytest.fixture
def no_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every forward pass fail: what succeeds has run no network."""
    from torch import nn

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a network was run")

    monkeypatch.setattr(nn.Module, "__call__", refuse)


def counts_of(folder: Path) -> dict[str, Any]:
    """Return the stored counts but for the seconds that they took."""
    from safetensors.numpy import load_file

    return {
        name: value.tolist() for name, value in load_file(folder / "counts.safetensors").items() if name != "seconds"
    }


def overall(folder: Path, name: str) -> dict[str, Any]:
    """Return the one estimate of a name that is about all images."""
    (found,) = [row for row in estimates(folder, name) if not row["where"]]
    return found


def finish(call: Call, words: Words, folder: Path) -> Path:
    done = call(*words, "--out", folder, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    return folder


def test_a_report_says_what_was_certified(certified: Path, digits: Digits) -> None:
    report = read(certified)
    assert len(report["figures"]) >= 3
    assert report["subject"]["path"] == str(digits.model) and report["subject"]["family"] == "small_cnn"
    assert report["data"] == [
        {"role": "images", "path": str(digits.data), "sha256": report["data"][0]["sha256"], "items": 21}
    ]
    assert report["coverage"] == {"given": 21, "used": 21, "skipped": []}
    assert report["settings"]["sigma"] == 0.5 and report["settings"]["alpha"] == 0.001
    said = " ".join(warning["message"] for warning in report["warnings"])
    assert "[0, 1]" in said and "1 x 8 x 8" in said


def test_records_and_log_tell_the_same_certificates(certified: Path) -> None:
    rows = records(certified)
    assert list(rows[0])[:8] == COLUMNS
    assert list(rows[0])[-1] == "site"
    lines = (certified / "certify.tsv").read_text(encoding="ascii").splitlines()
    assert lines[0] == "idx\tlabel\tpredict\tradius\tcorrect\ttime"
    assert len(rows) == len(lines) - 1 == 21
    for number, (row, line) in enumerate(zip(rows, lines[1:], strict=True)):
        index, label, predict, radius, correct, _ = line.split("\t")
        assert [row[name] for name in ("idx", "label", "predict", "correct")] == [index, label, predict, correct]
        assert int(row["idx"]) == number and int(row["label"]) == number % 3
        assert float(row["radius"]) == float(radius) and int(row["draws"]) == 340
        assert correct == str(int(label == predict))


def test_certificates_are_those_of_the_stored_counts(certified: Path) -> None:
    from scipy.stats import beta, norm

    counts = counts_of(certified)
    for place, row in enumerate(records(certified)):
        votes = counts["looks.votes"][place][0]
        assert (sum(counts["selection.votes"][place]), sum(votes)) == (40, 300)
        top = int(np.argmax(counts["selection.votes"][place]))
        low = float(beta.ppf(0.001, votes[top], 300 - votes[top] + 1)) if votes[top] else 0.0
        assert float(row["p_lower"]) == pytest.approx(low, abs=1e-12)
        radius = 0.5 * norm.ppf(low) if low >= 0.5 else 0.0
        assert int(row["predict"]) == (top if low >= 0.5 else -1)
        # Told with six decimals, never more than is proved.
        assert radius - 1e-6 <= float(row["radius"]) <= radius


def test_estimates_have_the_names_and_coordinates_of_the_contract(certified: Path) -> None:
    folder = certified
    plain = ("average_certified_radius", "abstention_rate", "clean_accuracy", "noisy_accuracy")
    for name in plain:
        places = [row["where"] for row in estimates(folder, name)]
        assert {} in places
        assert [place for place in places if "label" in place] == [{"label": label} for label in (0, 1, 2)]
        assert {"group": "site=north"} in places and {"group": "site=south"} in places
    curve = estimates(folder, "certified_accuracy")
    assert {frozenset(row["where"]) for row in curve} == {
        frozenset({"radius"}),
        frozenset({"radius", "label"}),
        frozenset({"radius", "group"}),
    }
    radii = [row["where"]["radius"] for row in curve if set(row["where"]) == {"radius"}]
    assert radii[0] == 0 and radii == sorted(radii) and 1 < len(radii) < 12
    for row in curve:
        assert 0 <= row["low"] <= row["value"] <= row["high"] <= 1
    assert overall(folder, "draws_per_item")["value"] == 340
    bound = overall(folder, "false_certificate_bound")
    assert bound["value"] == bound["high"] == pytest.approx(1 - 0.999**21) and bound["low"] == 0
    assert bound["method"].startswith("Upper bound:")


def test_estimates_are_the_averages_of_the_records(certified: Path) -> None:
    folder = certified
    counts = counts_of(folder)
    rows = records(folder)
    for name, value in {
        "average_certified_radius": np.mean([float(row["radius"]) * int(row["correct"]) for row in rows]),
        "abstention_rate": np.mean([row["predict"] == "-1" for row in rows]),
        "clean_accuracy": np.mean([row["clean"] == row["label"] for row in rows]),
        "noisy_accuracy": np.mean(
            [votes[0][label] / 300 for votes, label in zip(counts["looks.votes"], counts["label"], strict=True)]
        ),
    }.items():
        assert overall(folder, name)["value"] == pytest.approx(value), name
    for row in estimates(folder, "certified_accuracy"):
        kept = [
            own for own in rows
            if row["where"].get("label", int(own["label"])) == int(own["label"])
            and row["where"].get("group", f"site={own['site']}") == f"site={own['site']}"
        ]  # fmt: skip
        hits = [int(own["correct"]) and float(own["radius"]) >= row["where"]["radius"] for own in kept]
        assert row["value"] == pytest.approx(np.mean(hits)) and row["n"] == len(kept)


@pytest.fixture
def own_cache(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return an empty cache for the runs of this test."""
    monkeypatch.setitem(environment, "MILES_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_batch_size_changes_no_count(
    digits: Digits, certified: Path, own_cache: Path, call_miles: Call, tmp_path: Path
) -> None:
    finish(call_miles, digits.command("--by", "site", "--batch", "48"), tmp_path / "run")
    assert counts_of(tmp_path / "run") == counts_of(certified)
    assert read(tmp_path / "run")["estimates"] == read(certified)["estimates"]


@pytest.mark.parametrize(
    "more",
    [{"seed": 1}, {"sigma": 0.4}, {"norm": "l1"}, {"dtype": "bfloat16"}, {"mean": 0.2, "std": 0.8}],
    ids=lambda more: " ".join(more),
)
def test_whatever_changes_the_counts_draws_anew(
    digits: Digits,
    certified: Path,
    call_miles: Call,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    more: dict[str, object],
) -> None:
    folder = finish(call_miles, digits.command(**more), tmp_path / "run")
    assert counts_of(folder)["looks.votes"] != counts_of(certified)["looks.votes"]
    # As if nothing had been drawn before.
    monkeypatch.setitem(environment, "MILES_CACHE", str(tmp_path / "cache"))
    again = finish(call_miles, digits.command(**more), tmp_path / "again")
    assert counts_of(again) == counts_of(folder)


def test_other_pixels_and_other_weights_draw_anew(
    digits: Digits, certified: Path, call_miles: Call, tmp_path: Path
) -> None:
    from safetensors.numpy import load_file, save_file

    whole = counts_of(certified)["looks.sums"]
    x, y = patterns(21)
    x[4] = 1 - x[4]
    np.savez(tmp_path / "other.npz", x=x, y=y)
    sums = counts_of(finish(call_miles, digits.command(data=tmp_path / "other.npz"), tmp_path / "run"))["looks.sums"]
    assert [place for place in range(21) if sums[place] != whole[place]] == [4]
    tensors = load_file(digits.model)
    tensors["linear.bias"] += np.array([0.3, 0, 0], dtype=np.float32)
    save_file(tensors, tmp_path / "other.safetensors")
    words = digits.command()
    words[1] = str(tmp_path / "other.safetensors")
    sums = counts_of(finish(call_miles, words, tmp_path / "other"))["looks.sums"]
    assert all(one != other for one, other in zip(sums, whole, strict=True))


@pytest.mark.parametrize(
    "more",
    [
        ("--alpha", "0.05"), ("--interval", "two-class"), ("--interval", "auto"), ("--radii", "0.1,0.3"),
        ("--family-wise",), ("--lipschitz", "1.5"), ("--n0", "40", "--n", "300", "--max", "20"), ("--level", "0.9"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_other_questions_about_the_same_draws_run_no_network(
    digits: Digits,
    certified: Path,
    call_miles: Call,
    no_forward: None,
    tmp_path: Path,
    more: tuple[str, ...],
) -> None:
    folder = finish(call_miles, digits.command("--by", "site", *more), tmp_path / "run")
    images = read(folder)["coverage"]["used"]
    assert counts_of(folder)["looks.votes"] == counts_of(certified)["looks.votes"][:images]


@pytest.mark.parametrize("more", [{"n0": 40}, {"mode": "pilot", "pilot": 40}], ids=["fixed", "pilot"])
def test_the_certificate_rests_on_no_draw_that_chose_the_class(
    digits: Digits, call_miles: Call, tmp_path: Path, more: dict[str, object]
) -> None:
    counts = counts_of(finish(call_miles, digits.command(**{"n": 40, **more}), tmp_path / "run"))
    for chosen, (estimated, *_) in zip(counts["selection.sums"], counts["looks.sums"], strict=True):
        assert chosen != estimated
    assert set(counts["selection.draws"]) == {40} == {draws for row in counts["looks.draws"] for draws in row}


def test_more_draws_run_only_what_is_missing(
    digits: Digits, call_miles: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from probes.classifiers.smoothing import Sampler

    asked: list[tuple[int, int]] = []
    plain = Sampler.count_votes

    def count_votes(self: Any, pixels: Any, index: int, stream: Any, start: int, stop: int) -> Any:
        asked.append((start, stop))
        return plain(self, pixels, index, stream, start, stop)

    short = digits.command("--max", "5", "--seed", "5")
    finish(call_miles, short, tmp_path / "short")
    monkeypatch.setattr(Sampler, "count_votes", count_votes)
    long = finish(call_miles, digits.command("--max", "5", "--seed", "5", n=900), tmp_path / "long")
    assert len({start for start, _ in asked}) >= 1 and min(start for start, _ in asked) == 300
    assert sum(stop - start for start, stop in asked) == 5 * 600
    assert np.array(counts_of(long)["looks.votes"]).sum() == 5 * 900


def test_decide_stops_early_and_decides_as_all_draws_do(digits: Digits, call_miles: Call, tmp_path: Path) -> None:
    words = digits.command("--mode", "decide", "--radii", "0.1,0.2", n=8_000)
    early = finish(call_miles, words, tmp_path / "early")
    late = finish(call_miles, digits.command("--radii", "0.1,0.2", n=8_000), tmp_path / "late")
    draws = overall(early, "draws_per_item")
    assert draws["value"] < 3000 < overall(late, "draws_per_item")["value"]
    # Where every image stops at the same look, no spread tells of others: no interval, and a warning.
    if draws["low"] is None:
        assert draws["method"] == "none" and "no-interval" in [warning["id"] for warning in read(early)["warnings"]]
    else:
        assert draws["low"] <= draws["value"] <= draws["high"]
    told = [row["where"]["radius"] for row in estimates(early, "certified_accuracy") if len(row["where"]) == 1]
    assert told == [0.1, 0.2]
    for one, other in zip(records(early), records(late), strict=True):
        assert int(one["draws"]) <= 8_040
        if float(one["radius"]) >= 0.2:
            assert one["predict"] == other["predict"]
    assert (
        abs(estimates(early, "certified_accuracy")[0]["value"] - estimates(late, "certified_accuracy")[0]["value"])
        < 0.1
    )
    assert "early-stopping" in [warning["id"] for warning in read(early)["warnings"]]
    # Looks are kept: judged again with the same alpha, nothing changes.
    again = finish(call_miles, ["certify", "--from-counts", str(early), "--radii", "0.1,0.2"], tmp_path / "again")
    assert read(again)["estimates"] == read(early)["estimates"]


def test_anytime_says_by_what_it_stopped(digits: Digits, call_miles: Call, tmp_path: Path) -> None:
    words = digits.command("--mode", "anytime", "--radii", "0.1,0.2", "--max", "6", n=2_000)
    early = finish(call_miles, words, tmp_path / "early")
    assert all(104 <= int(row["draws"]) <= 2_040 for row in records(early))
    counts = ["certify", "--from-counts", str(early)]
    # Without radii, those that the draws were for are asked again.
    again = finish(call_miles, counts, tmp_path / "again")
    assert read(again)["estimates"] == read(early)["estimates"]
    other = finish(call_miles, [*counts, "--radii", "0.3"], tmp_path / "other")
    for folder, told in ((again, False), (other, True)):
        assert ("drawn-otherwise" in [warning["id"] for warning in read(folder)["warnings"]]) is told
    assert "radii 0.1, 0.2, not 0.3" in warned(other)["drawn-otherwise"]
    assert "early-stopping" in warned(again) and "early-stopping" not in warned(other)
    # What is judged again keeps what it was drawn for.
    twice = finish(call_miles, ["certify", "--from-counts", str(other)], tmp_path / "twice")
    assert read(twice)["estimates"] == read(early)["estimates"]


def warned(folder: Path) -> dict[str, str]:
    return {warning["id"]: warning["message"] for warning in read(folder)["warnings"]}


def test_the_loss_that_stopped_draws_is_kept_and_no_other_taken(
    digits: Digits, call_miles: Call, tmp_path: Path
) -> None:
    words = digits.command("--mode", "anytime", "--target-loss", "0.2", "--max", "6", n=4_000)
    early = finish(call_miles, words, tmp_path / "early")
    counts = ["certify", "--from-counts", str(early)]
    again = finish(call_miles, counts, tmp_path / "again")
    for folder in (early, again):
        assert "add 0.2 of the radius at most" in warned(folder)["early-stopping"]
    notes = [warning["message"] for warning in read(again)["warnings"] if warning["id"] == "input"]
    assert any("target loss 0.2, l2 with" in note for note in notes)
    refusal = call_miles(*counts, "--target-loss", "0.1", cwd=tmp_path)
    one_panel(refusal, "with target loss 0.2, not 0.1", "--target-loss")


def test_old_counts_of_decide_ask_for_radii_and_say_what_they_lack(
    digits: Digits, call_miles: Call, tmp_path: Path
) -> None:
    early = finish(
        call_miles, digits.command("--mode", "decide", "--radii", "0.1", "--max", "6", n=2000), tmp_path / "run"
    )

    def old(tensors: dict[str, Any], about: dict[str, Any]) -> None:
        about["settings"] = {name: about["settings"][name] for name in ("mode", "n0", "n", "pilot")}

    words = rewritten(early, tmp_path, old)
    refusal = call_miles(*words, cwd=tmp_path)
    one_panel(refusal, "--radii")
    assert "--mode decide" not in refusal.err
    judged = finish(call_miles, [*words, "--radii", "0.1"], tmp_path / "judged")
    assert read(judged)["estimates"] == read(early)["estimates"]
    assert "drawn-otherwise" in [warning["id"] for warning in read(judged)["warnings"]]


def test_random_numbers_are_kept_and_judge_again(
    digits: Digits, certified: Path, call_miles: Call, tmp_path: Path
) -> None:
    lucky = finish(call_miles, digits.command("--by", "site", "--randomised"), tmp_path / "run")
    numbers = [float(row["u"]) for row in records(lucky)]
    assert counts_of(lucky)["u"] == numbers and len(set(numbers)) == 21
    plain = [float(row["radius"]) for row in records(certified)]
    assert all(float(row["radius"]) >= own for row, own in zip(records(lucky), plain, strict=True))
    assert "u" not in records(certified)[0]
    for source in (lucky, certified):
        # The numbers are of the seed that drew, whatever the seed of the judge.
        words = ["certify", "--from-counts", str(source), "--randomised", "--seed", "9"]
        again = finish(call_miles, words, tmp_path / source.parent.name / "again")
        assert [row["radius"] for row in records(again)] == [row["radius"] for row in records(lucky)]
    without = finish(call_miles, ["certify", "--from-counts", str(lucky)], tmp_path / "without")
    assert [float(row["radius"]) for row in records(without)] == plain
    assert "randomised-otherwise" in [warning["id"] for warning in read(without)["warnings"]]


def test_pilot_draws_less_for_a_little_less(digits: Digits, call_miles: Call, tmp_path: Path) -> None:
    words = digits.command("--mode", "pilot", "--pilot", "200", "--target-loss", "0.1", n=20_000)
    few = finish(call_miles, words, tmp_path / "few")
    all_ = finish(call_miles, digits.command(n=20_000), tmp_path / "all")
    assert overall(few, "draws_per_item")["value"] < 0.5 * overall(all_, "draws_per_item")["value"]
    share = overall(few, "average_certified_radius")["value"] / overall(all_, "average_certified_radius")["value"]
    assert 0.8 < share < 1.02
    assert all(200 < int(row["draws"]) <= 20_200 for row in records(few))


def test_l1_uses_uniform_noise_and_its_radius(digits: Digits, call_miles: Call, tmp_path: Path) -> None:
    import torch

    from probes.classifiers.classifier_files import load_classifier
    from probes.classifiers.folding import fold_batchnorm
    from probes.classifiers.noise import Noise
    from probes.classifiers.smoothing import Sampler

    folder = finish(call_miles, digits.command("--norm", "l1"), tmp_path / "run")
    for row in records(folder):
        low = float(row["p_lower"])
        assert float(row["radius"]) == pytest.approx(max(0.5 * (2 * low - 1), 0), abs=1.1e-6)
    assert max(float(row["radius"]) for row in records(folder)) <= 0.5
    assert "l1" in next(warning["message"] for warning in read(folder)["warnings"] if warning["id"] == "sigma-unit")
    net = fold_batchnorm(load_classifier(str(digits.model), arch="small_cnn").module)
    sampler = Sampler(net, classes=3, noise=Noise("uniform", 0.5), seed=0, device="cpu", dtype="float32", batch=64)
    first = sampler.count_votes(torch.from_numpy(patterns(21)[0][0]), 0, "estimation", 0, 300)
    assert counts_of(folder)["looks.votes"][0][0] == first.votes.tolist()
    assert np.allclose(counts_of(folder)["looks.sums"][0][0], first.sums.tolist(), atol=300)


@pytest.mark.parametrize("given", ["1.5", "computed"])
def test_lipschitz_radii_stand_beside_those_without(
    digits: Digits, call_miles: Call, tmp_path: Path, given: str
) -> None:
    folder = finish(call_miles, digits.command("--lipschitz", given), tmp_path / "run")
    rows = records(folder)
    for row in rows:
        exact, published, plain = (float(row[name]) for name in ("radius", "radius_published", "radius_gaussian"))
        assert exact >= published - 1e-6 >= plain - 2e-6
    if given == "1.5":
        assert any(float(row["radius"]) > float(row["radius_gaussian"]) for row in rows)
    assert {"average_certified_radius_published", "average_certified_radius_gaussian"} <= {
        row["name"] for row in read(folder)["estimates"]
    }
    warned = "asserted-lipschitz" in [warning["id"] for warning in read(folder)["warnings"]]
    assert warned == (given == "1.5")


def test_family_wise_shares_alpha_between_the_images(
    digits: Digits, certified: Path, call_miles: Call, tmp_path: Path
) -> None:
    folder = finish(call_miles, digits.command("--family-wise"), tmp_path / "run")
    assert overall(folder, "false_certificate_bound")["value"] == pytest.approx(0.001, rel=1e-3)
    direct = finish(call_miles, digits.command("--alpha", str(0.001 / 21)), tmp_path / "direct")
    assert [row["radius"] for row in records(folder)] == [row["radius"] for row in records(direct)]
    assert sum(float(row["radius"]) for row in records(folder)) < sum(
        float(row["radius"]) for row in records(certified)
    )


def test_skip_and_max_choose_images_and_keep_their_numbers(
    digits: Digits, certified: Path, call_miles: Call, tmp_path: Path
) -> None:
    folder = finish(call_miles, digits.command("--skip", "4", "--max", "5", "--by", "site"), tmp_path / "run")
    assert [int(row["idx"]) for row in records(folder)] == [0, 4, 8, 12, 16]
    assert read(folder)["coverage"] == {
        "given": 21, "used": 5, "skipped": [{"reason": "not taken (--skip, --max)", "count": 16}]
    }  # fmt: skip
    whole = {row["idx"]: row for row in records(certified)}
    for row in records(folder):
        assert {**row, "seconds": ""} == {**whole[row["idx"]], "seconds": ""}
    assert "few-images" in [warning["id"] for warning in read(folder)["warnings"]]


def test_names_of_groups_may_come_from_a_table(
    digits: Digits, certified: Path, call_miles: Call, tmp_path: Path
) -> None:
    table = tmp_path / "sites.csv"
    table.write_text("idx,site\n" + "".join(f"{i},{('north', 'south')[i % 2]}\n" for i in reversed(range(21))))
    folder = finish(call_miles, digits.command("--by", "site", "--attributes", table), tmp_path / "run")
    assert read(folder)["estimates"] == read(certified)["estimates"]


def test_a_dry_run_writes_nothing(
    digits: Digits, call_miles: Call, tmp_path: Path, environment: dict[str, str]
) -> None:
    cached = set(Path(environment["MILES_CACHE"]).rglob("*"))
    done = call_miles(*digits.command("--dry-run"), cwd=tmp_path)
    assert done.code == 0, done.err
    for word in ("small_cnn", "21 items", "forwards", "7,161", "disk", "time", "[0, 1]"):
        assert word in done.out, done.out
    assert list(tmp_path.iterdir()) == []
    assert set(Path(environment["MILES_CACHE"]).rglob("*")) == cached


def test_a_dry_run_says_which_radii_no_draws_certify(digits: Digits, call_miles: Call, tmp_path: Path) -> None:
    for radii, said in (("0.1,5", True), ("0.1", False)):
        done = call_miles(*digits.command("--radii", radii, "--dry-run"), cwd=tmp_path)
        assert done.code == 0, done.err
        assert ("cannot be certified with n = 300: 5." in " ".join(done.out.split())) == said


def test_a_radius_that_no_draws_certify_is_no_answer(digits: Digits, call_miles: Call, tmp_path: Path) -> None:
    for radii, begins in (
        ("5", "No radius that was asked for can be certified with n = 300 draws."),
        ("0.1,5", "Cert"),
    ):
        report = read(finish(call_miles, digits.command("--radii", radii), tmp_path / radii))
        (claim,) = [one for one in report["findings"] if one["id"] == "certify.accuracy"]
        assert claim["headline"].startswith(begins)
        assert "radius 5" not in claim["headline"] + claim["statement"]
        cited = [report["estimates"][key["row"]]["where"].get("radius") for key in report["answer"]["numbers"]]
        assert 5 not in cited and (0.1 in cited) == ("0.1" in radii)


def pictures(folder: Path) -> list[Path]:
    """Write the images of three classes as files, and return these."""
    from PIL import Image

    x, y = patterns(21)
    files = []
    for place, (image, label) in enumerate(zip(x, y, strict=True)):
        files.append(folder / str(label) / f"{place:02d}.png")
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 * image[0]).round().astype(np.uint8)).save(files[-1])
    return sorted(files)


def cut(*files: Path) -> None:
    """Leave a header that is right, and no pixels."""
    for file in files:
        file.write_bytes(file.read_bytes()[:45])


def test_a_dry_run_decodes_every_image_that_will_be_certified(digits: Digits, call_miles: Call, tmp_path: Path) -> None:
    files = pictures(tmp_path / "data")
    done = call_miles(*digits.command("--dry-run", data=tmp_path / "data"))
    assert done.code == 0 and "decoded    21 images, without an error" in done.out, done.err
    cut(files[12], files[20])
    outcome = call_miles(*digits.command("--dry-run", data=tmp_path / "data"))
    one_panel(outcome, "2 of 21 images cannot be used", "1/16.png: The file cannot be read as an image", "2/20.png")
    assert call_miles(*digits.command("--dry-run", "--max", "12", data=tmp_path / "data")).code == 0
    outcome = call_miles(*digits.command("--dry-run", "--skip", "4", data=tmp_path / "data"))
    one_panel(outcome, "2 of 6 images cannot be used")
    # One on which the model is tried comes with the others.
    cut(files[1])
    outcome = call_miles(*digits.command("--dry-run", data=tmp_path / "data"))
    one_panel(outcome, "3 of 21 images cannot be used", "0/03.png", "1/16.png", "2/20.png")


def test_wrong_headers_and_images_that_cannot_be_decoded_are_one_list(
    digits: Digits, call_miles: Call, tmp_path: Path
) -> None:
    from PIL import Image

    files = pictures(tmp_path / "data")
    cut(files[2], files[20])
    files[4].write_bytes(b"")
    files[9].write_text("<!doctype html><title>Not found</title>")
    Image.new("L", (8, 9)).save(files[12])
    Image.fromarray(np.full((8, 8), 9000, dtype=np.uint16)).save(files[17])
    outcome = call_miles(*digits.command("--dry-run", data=tmp_path / "data"))
    named = [file.relative_to(tmp_path / "data").as_posix() for file in files]
    said = [f"{named[index]}: The file cannot be read as an image" for index in (2, 20)]
    one_panel(outcome, "6 of 21 images cannot be used", *said, *(f"{named[index]}: " for index in (4, 9, 12, 17)))
    # In the order of the images, and not those of the headers first.
    places = [outcome.err.index(named[index]) for index in (2, 4, 9, 12, 17, 20)]
    assert places == sorted(places)
    # One that is not taken is not decoded either.
    one_panel(call_miles(*digits.command("--dry-run", "--max", "14", data=tmp_path / "data")), "4 of 14 images")


def test_an_image_that_max_leaves_out_stops_nothing(digits: Digits, call_miles: Call, tmp_path: Path) -> None:
    from PIL import Image

    files = pictures(tmp_path / "data")
    Image.new("RGB", (400, 300)).save(files[7])
    files[9].write_bytes(b"")
    files[11].write_bytes(b"no image")
    cut(files[20])
    words = digits.command("--max", "2", data=tmp_path / "data")
    assert call_miles(*words, "--dry-run").code == 0
    folder = finish(call_miles, words, tmp_path / "run")
    assert [int(row["idx"]) for row in records(folder)] == [0, 1]
    assert read(folder)["coverage"]["given"] == 21


def test_the_dry_run_of_a_model_that_was_run_before_still_costs_time(
    digits: Digits, certified: Path, call_miles: Call
) -> None:
    done = call_miles(*digits.command("--dry-run", n=5_000_000))
    (line,) = [line for line in done.out.splitlines() if line.strip().startswith("time")]
    assert " 0.0 minutes" not in line


# Counts judged again.


@pytest.mark.parametrize(
    "more",
    [
        ("--alpha", "0.05"), ("--interval", "two-class"), ("--interval", "auto", "--alpha", "0.01"),
        ("--radii", "0.05,0.4"), ("--family-wise",), ("--lipschitz", "1.5"), (),
    ],
    ids=" ".join,
)  # fmt: skip
def test_counts_judged_again_give_what_a_run_gives(
    digits: Digits, certified: Path, call_miles: Call, tmp_path: Path, more: tuple[str, ...]
) -> None:
    direct = finish(call_miles, digits.command("--by", "site", *more), tmp_path / "direct")
    again = finish(call_miles, ["certify", "--from-counts", str(certified), *more], tmp_path / "again")
    assert read(again)["estimates"] == read(direct)["estimates"]
    assert read(again)["findings"] == read(direct)["findings"]
    assert records(again) == [
        {**row, "seconds": own["seconds"]} for row, own in zip(records(direct), records(again), strict=True)
    ]
    assert read(again)["subject"] == read(direct)["subject"]
    assert "judged-again" in [warning["id"] for warning in read(again)["warnings"]]
    # Its counts can be judged once more.
    assert counts_of(again) == counts_of(certified)


def test_counts_may_be_named_by_their_file(certified: Path, call_miles: Call, no_forward: None, tmp_path: Path) -> None:
    folder = finish(call_miles, ["certify", "--from-counts", str(certified / "counts.safetensors")], tmp_path / "run")
    assert read(folder)["estimates"] == read(certified)["estimates"]


def rewritten(certified: Path, folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> Words:
    """Return the judging of counts of which tensors or metadata were changed."""
    from safetensors import safe_open
    from safetensors.numpy import save_file

    with safe_open(certified / "counts.safetensors", framework="numpy") as content:
        tensors = {name: content.get_tensor(name).copy() for name in content.keys()}  # noqa: SIM118
        about = json.loads(content.metadata()["miles"])
    changed = change(tensors, about)
    metadata = changed if isinstance(changed, dict) else {"miles": json.dumps(about)}
    save_file(
        {name: np.ascontiguousarray(value) for name, value in tensors.items()}, folder / "bad.safetensors", metadata
    )
    return ["certify", "--from-counts", str(folder / "bad.safetensors")]


def put(key: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """Return a change that sets a tensor, or a place a.b of the metadata."""

    def change(tensors: dict[str, Any], about: dict[str, Any]) -> None:
        if key in tensors:
            tensors[key] = value(tensors[key])
            return
        *path, last = key.split("/")
        inside = about
        for part in path:
            inside = inside[part]
        inside[last] = value

    return change


def at(place: tuple[int, ...], number: float) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[place] = number
        return array

    return change


def moved(array: Any) -> Any:
    array[0, ..., 0] -= 2 * array[0, ..., 0] + 5
    array[0, ..., 1] += 0
    array[0, ..., 2] -= array[0].sum() - 300
    return array


HOSTILE: dict[str, Callable[[dict[str, Any], dict[str, Any]], Any]] = {
    "votes do not add up": put("looks.votes", at((0, 0, 0), 100_000)),
    "votes below nought": put("looks.votes", moved),
    "selection does not add up": put("selection.votes", at((3, 1), 77)),
    "no draws": put("looks.draws", lambda array: array * 0),
    "draws below nought": put("looks.draws", lambda array: -array),
    "label beyond the classes": put("label", at((2,), 99)),
    "label below nought": put("label", at((2,), -5)),
    "clean class beyond": put("clean", at((2,), 99)),
    "index below nought": put("index", at((0,), -1)),
    "the same image twice": put("index", at((1,), 0)),
    "index beyond what was given": put("index", at((20,), 10**6)),
    "seconds not a number": put("seconds", at((0,), float("nan"))),
    "seconds below nought": put("seconds", at((0,), -1.0)),
    "one image less in a tensor": put("looks.votes", lambda array: array[:-1]),
    "labels for fewer images": put("label", lambda array: array[:-1]),
    "one class less in a tensor": put("looks.sums", lambda array: array[..., :-1]),
    "one class": lambda tensors, about: (
        [
            put(f"{a}.{b}", lambda array: array[..., :1])(tensors, about)
            for a in ("looks", "selection")
            for b in ("votes", "sums", "squares")
        ]
        and None
    ),
    "no images": lambda tensors, about: tensors.update({name: value[:0] for name, value in tensors.items()}),
    "votes are fractions": put("looks.votes", lambda array: array.astype(np.float32)),
    "votes are a scalar": put("selection.votes", lambda array: array.sum()),
    "index is missing": lambda tensors, about: tensors.pop("index") is None or None,
    "votes are missing": lambda tensors, about: tensors.pop("looks.votes") is None or None,
    "sums beyond the draws": put("looks.sums", lambda array: array * 3 + 10**12),
    "squares beyond the sums": put("looks.squares", lambda array: array * 0 - 1),
    "no metadata": lambda tensors, about: {},
    "metadata not ours": lambda tensors, about: {"format": "pt"},
    "metadata no JSON": lambda tensors, about: {"miles": "{"},
    "metadata a list": lambda tensors, about: {"miles": "[]"},
    "metadata deep": lambda tensors, about: {"miles": "[" * 100_000},
    "another format": put("format", "miles.counts/2"),
    "no settings": put("settings", None),
    "mode unknown": put("settings/mode", "guess"),
    "n is text": put("settings/n", "300"),
    "n below nought": put("settings/n", -300),
    "n is another": put("settings/n", 10_000),
    "n0 is null": put("settings/n0", None),
    "sigma nought": put("geometry/sigma", 0),
    "sigma is text": put("geometry/sigma", "0.5"),
    "sigma endless": put("geometry/sigma", float("inf")),
    "norm unknown": put("geometry/norm", "linf"),
    "geometry is missing": lambda tensors, about: about.pop("geometry") is None or None,
    "given fewer than used": put("given", 2),
    "given is text": put("given", "many"),
    "names are a number": put("names", 3),
    "levels for fewer images": put("attributes/site", ["north"]),
    "attributes are a list": put("attributes", ["site"]),
    "subject is text": put("subject", "me"),
    "subject with more": put("subject/surprise", 1),
    "given endless": put("given", float("inf")),
    "sigma beyond every float": put("geometry/sigma", 10**400),
    "radii are text": put("settings/radii", "far"),
    "radii below nought": put("settings/radii", [-0.5]),
    "radii not a number": put("settings/radii", [float("nan")]),
    "radii endless": put("settings/radii", [float("inf")]),
    "radii beyond every float": put("settings/radii", [10**400]),
    "radii that fall": put("settings/radii", [0.5, 0.25]),
    "one radius twice": put("settings/radii", [0.5, 0.5]),
    "radii in lists": put("settings/radii", [[0.5]]),
    "radii are null": put("settings/radii", None),
    "alpha is missing": lambda tensors, about: about["settings"].pop("alpha") is None or None,
    "alpha nought": put("settings/alpha", 0),
    "alpha one half": put("settings/alpha", 0.5),
    "alpha not a number": put("settings/alpha", float("nan")),
    "alpha beyond every float": put("settings/alpha", 10**400),
    "target loss one": put("settings/target_loss", 1),
    "target loss beyond every float": put("settings/target_loss", -(10**400)),
    "interval unknown": put("settings/interval", "widest"),
    "interval a list": put("settings/interval", ["auto"]),
    "constant nought": put("settings/lipschitz", 0.0),
    "constant beyond every float": put("settings/lipschitz", 10**400),
    "randomised a number": put("settings/randomised", 1),
    "draws said by text": put("drawn", "seed 0"),
    "random numbers for fewer images": lambda tensors, about: tensors.update(u=np.full(20, 0.5)),
    "random numbers in float32": lambda tensors, about: tensors.update(u=np.full(21, 0.5, dtype=np.float32)),
    "a random number of nought": lambda tensors, about: tensors.update(u=np.linspace(0.0, 1.0, 21)),
    "a random number above one": lambda tensors, about: tensors.update(u=np.linspace(0.1, 1.1, 21)),
    "a random number that is none": lambda tensors, about: tensors.update(u=np.full(21, np.nan)),
    "random numbers in a table": lambda tensors, about: tensors.update(u=np.full((21, 1), 0.5)),
    "subject of numbers": put("subject", {"path": 1, "family": 2, "sha256": 3, "parameters": "many"}),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_counts_are_refused(certified: Path, call_miles: Call, tmp_path: Path, name: str) -> None:
    inputs, place = tmp_path / "inputs", tmp_path / "place"
    inputs.mkdir()
    place.mkdir()
    words = rewritten(certified, inputs, HOSTILE[name])
    one_panel(call_miles(*words, cwd=place))
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("length", [0, 4, 8, 100, 2000, -1])
def test_counts_cut_off_are_refused(certified: Path, call_miles: Call, tmp_path: Path, length: int) -> None:
    whole = (certified / "counts.safetensors").read_bytes()
    (tmp_path / "counts.safetensors").write_bytes(whole[:length])
    outcome = call_miles("certify", "--from-counts", tmp_path, "--out", tmp_path / "run")
    one_panel(outcome)
    said = " ".join(outcome.err.split())
    assert "The file of counts is damaged" in said and "again with miles certify" in said and "weights" not in said
    assert not (tmp_path / "run").exists()


def test_bytes_flipped_in_counts_never_end_in_a_traceback(certified: Path, tmp_path: Path) -> None:
    from audits.certification import AUDIT, Options
    from audits.core.context import Cache, Context
    from audits.core.errors import InputError
    from audits.core.testing import drafted

    whole = (certified / "counts.safetensors").read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        spoilt = bytearray(whole)
        # Half of them in the header.
        places = rng.integers(0, 1800 if rng.random() < 0.5 else len(whole), size=rng.integers(1, 4))
        for place in places:
            spoilt[place] = rng.integers(0, 256)
        (tmp_path / "counts.safetensors").write_bytes(spoilt)
        options = Options(from_counts=tmp_path)
        context = Context(cache=Cache(tmp_path / "cache"))
        try:
            drafted(AUDIT, options, context)
        except InputError:
            refused += 1
    assert refused > 20


def test_looks_are_those_of_the_mode_whatever_the_file_says(digits: Digits, call_miles: Call, tmp_path: Path) -> None:
    early = finish(call_miles, digits.command("--mode", "decide", "--radii", "0.1", n=2000), tmp_path / "run")
    # One look in place of twelve would let each spend twelve times the alpha.
    for number, looks in enumerate(([2000], [], None, "many")):
        folder = tmp_path / str(number)
        folder.mkdir()
        words = [*rewritten(early, folder, put("settings/looks", looks)), "--radii", "0.1"]
        assert read(finish(call_miles, words, folder / "run"))["estimates"] == read(early)["estimates"]


# Another tool's log.


def test_a_log_gives_its_figures(call_miles: Call, no_forward: None, tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text(LOG)
    folder = finish(
        call_miles,
        ["certify", "--from-log", str(tmp_path / "log.tsv"), "--sigma", "0.25", "--n", "1000"],
        tmp_path / "run",
    )
    report = read(folder)
    assert report["subject"] is None and report["data"][0]["role"] == "log"
    assert overall(folder, "abstention_rate")["value"] == 0.5
    assert overall(folder, "average_certified_radius")["value"] == pytest.approx(0.205)
    assert not estimates(folder, "clean_accuracy") and not estimates(folder, "draws_per_item")
    assert files(folder) == {"report.json", "records.csv", "certify.tsv"}


def test_our_own_log_is_consistent_with_its_settings(certified: Path, call_miles: Call, tmp_path: Path) -> None:
    log = certified / "certify.tsv"
    words = ["certify", "--from-log", str(log), "--sigma", "0.5", "--n", "300"]
    folder = finish(call_miles, words, tmp_path / "run")
    assert [
        finding["id"] for finding in read(folder)["findings"] if "log" in finding["id"] or "alpha" in finding["id"]
    ] == ["certify.consistent-log"]
    for name in ("average_certified_radius", "abstention_rate"):
        assert overall(folder, name)["value"] == pytest.approx(overall(certified, name)["value"], abs=1e-6)
    other = finish(call_miles, [*words, "--alpha", "0.00001"], tmp_path / "other")
    found = {finding["id"]: finding for finding in read(other)["findings"]}
    assert {"certify.implied-alpha", "certify.unreachable-radii"} & set(found)


def test_two_logs_are_compared_in_one_call(call_miles: Call, no_forward: None, tmp_path: Path) -> None:
    rows = [f"{i}\t0\t{0 if i % 3 else -1}\t{0.4 if i % 3 else 0.0}\t{int(i % 3 > 0)}\t1" for i in range(40)]
    fewer = [f"{i}\t0\t{0 if i % 2 else -1}\t{0.3 if i % 2 else 0.0}\t{i % 2}\t1" for i in range(5, 40)]
    for name, lines in (("one", rows), ("two", fewer)):
        (tmp_path / f"{name}.tsv").write_text("\n".join([LOG.splitlines()[0], *lines]) + "\n")
    words = ["certify", "--from-log", f"a={tmp_path / 'one.tsv'}", "--from-log", f"b={tmp_path / 'two.tsv'}"]
    words += ["--sigma", "0.25", "--n", "1000", "--radii", "0.35", "--log-sigma", "b=0.2"]
    folder = finish(call_miles, words, tmp_path / "run")
    report = read(folder)
    assert report["coverage"] == {
        **report["coverage"], "given": 40, "used": 35, "skipped": [{"count": 5, "reason": "not in all logs"}]
    }  # fmt: skip
    (found,) = estimates(folder, "certified_accuracy_difference")
    # Of 35 images 23 reach 0.35 in the first log, and none in the second.
    assert found["value"] == pytest.approx(-23 / 35) and found["where"] == {"log": "b", "against": "a", "radius": 0.35}
    assert report["settings"]["from_log"] == words[2:5:2] and report["settings"]["log_sigma"] == ["b=0.2"]
    assert files(folder) == {"report.json", "records.csv"}
    assert faults(read_report(folder)) == []
    assert (folder / "records.csv").read_text().splitlines()[0] == "idx,label,predict,radius,correct,seconds,log"
    plan = call_miles(*words, "--dry-run")
    assert plan.code == 0 and "b: 35 certificates" in plan.out
    # On top of the page stand the settings of each log, and no draws that none of them tells.
    top = headed(read_report(folder))
    assert top[0] == ("sigma", "a 0.25, b 0.2") and "n0" not in dict(top) and dict(top)["n"] == "1,000"


def test_a_log_of_predictions_gives_accuracy_and_no_certificate(call_miles: Call, tmp_path: Path) -> None:
    lines = [f"{i}\t{i % 2}\t{i % 2 if i % 4 else -1}\t{int(i % 4 > 0)}\t0:00:01.5" for i in range(40)]
    (tmp_path / "p.tsv").write_text("\n".join(["idx\tlabel\tpredict\tcorrect\ttime", *lines]) + "\n")
    folder = finish(call_miles, ["certify", "--from-log", str(tmp_path / "p.tsv")], tmp_path / "run")
    assert [row["value"] for row in estimates(folder, "prediction_accuracy")] == [0.75]
    assert [row["value"] for row in estimates(folder, "abstention_rate")] == [0.25]
    report = read(folder)
    assert "Any certified radius: predictions certify nothing." in report["answer"]["may_not"]
    assert not estimates(folder, "certified_accuracy") and faults(read_report(folder)) == []
    words = ["certify", *(word for name in "pq" for word in ("--from-log", f"{name}={tmp_path / 'p.tsv'}"))]
    assert headed(read_report(finish(call_miles, words, tmp_path / "both"))) == []


def test_headlines_are_short_and_rest_on_their_evidence(certified: Path, call_miles: Call, tmp_path: Path) -> None:
    log = ["certify", "--from-log", str(certified / "certify.tsv"), "--n", "300"]
    runs = [
        certified,
        finish(call_miles, [*log, "--sigma", "0.5"], tmp_path / "fits"),
        finish(call_miles, [*log, "--sigma", "0.5", "--alpha", "0.00001"], tmp_path / "larger"),
        finish(call_miles, [*log, "--sigma", "0.2"], tmp_path / "other"),
        finish(call_miles, ["certify", "--from-counts", str(certified), "--lipschitz", "2"], tmp_path / "soft"),
    ]
    for run in runs:
        assert faults(read_report(run)) == []
    answers = [read(run)["answer"] for run in runs]
    settings = "sigma 0.5 (l2), n = 300 draws an image after n0 = 40 that choose, alpha 0.001 an image"
    assert settings in " ".join(answers[0]["may"])
    assert "soft outputs with the Lipschitz constant 2." in " ".join(answers[4]["may"])
    assert "as you stated" in " ".join(answers[4]["may_not"])
    assert re.fullmatch(r"(\d+) of \1 radii cannot come from the settings that were named\.", answers[2]["title"])
    # Of a log that does not fit its settings no certified accuracy is among the numbers on top.
    names = [{read(run)["estimates"][one["row"]]["name"] for one in read(run)["answer"]["numbers"]} for run in runs]
    assert "certified_accuracy" in names[0] & names[1] & names[4] and "certified_accuracy" not in names[3]


# Wrong input.

CASES = Table()
case = CASES.case


def simple(name: str, says: str, *more: str, **other: object) -> None:
    """Register a wrong value of an option."""
    CASES.add(name, says, lambda digits, _: digits.command(*more, **other))


simple("sigma_missing", "--sigma", sigma=None)
simple("sigma_nought", "--sigma", sigma=0)
simple("sigma_negative", "--sigma", sigma=-0.5)
simple("sigma_nan", "--sigma", sigma="nan")
simple("sigma_endless", "--sigma", sigma="inf")
simple("sigma_word", "--sigma", sigma="much")
simple("alpha_nought", "--alpha", "--alpha", "0")
simple("alpha_one", "--alpha", "--alpha", "1")
simple("alpha_half", "--alpha", "--alpha", "0.5")
simple("alpha_nan", "--alpha", "--alpha", "nan")
simple("n_nought", "--n", n=0)
simple("n_negative", "--n", n=-5)
simple("n_fraction", "--n", n="1e5")
simple("n_beyond_reason", "--n", n=10**12)
simple("n_beyond_what_squares_hold", "--n", n=2**23)
simple("n0_nought", "--n0", n0=0)
simple("pilot_few", "--pilot", "--mode", "pilot", "--pilot", "3")
simple("loss_one", "--target-loss", "--target-loss", "1")
simple("radii_words", "--radii", "--radii", "near,far")
simple("radii_negative", "--radii", "--radii", "0.1,-0.2")
simple("radii_nan", "--radii", "--radii", "nan")
simple("radii_endless", "--radii", "--radii", "inf")
simple("decide_without_radii", "--radii", "--mode", "decide")
simple("mode_unknown", "--mode", "--mode", "guess")
simple("interval_unknown", "--interval", "--interval", "goodman")
simple("norm_unknown", "--norm", "--norm", "linf")
simple("l1_with_lipschitz", "--lipschitz", "--norm", "l1", "--lipschitz", "2")
simple("lipschitz_nought", "--lipschitz", "--lipschitz", "0")
simple("lipschitz_word", "--lipschitz", "--lipschitz", "small")
simple("lipschitz_nan", "--lipschitz", "--lipschitz", "nan")
simple("batch_word", "--batch", "--batch", "large")
simple("batch_nought", "--batch", "--batch", "0")
simple("batch_negative", "--batch", "--batch=-4")
simple("batch_superscript", "--batch", "--batch", "²")
simple("batch_endless", "--batch", "--batch", "9" * 30)
simple("skip_nought", "--skip", "--skip", "0")
simple("max_nought", "--max", "--max", "0")
simple("layout_unknown", "--layout", "--layout", "whc")
simple("arch_unknown", "--arch", arch="small_cn")
simple("arch_of_no_package", "--arch torchvision", arch="torchvision:none_such")
simple("resize_arrays", "--resize", "--resize", "16", "--crop", "8")
simple("crop_alone", "--crop is only for --resize", "--crop", "8")
simple("arch_of_another", "mnist_lenet", arch="mnist_lenet")
simple("arch_missing", "--arch small_cnn", arch=None)
simple("arch_and_factory", "--arch", "--factory", "mine:net", "--allow-code")
simple("factory_without_leave", "--allow-code", "--factory", "mine:net", arch=None)
simple("factory_from_nowhere", "no_such_module", "--factory", "no_such_module:net", "--allow-code", arch=None)
simple("mean_alone", "--mean", "--mean", "0.5")
simple("mean_words", "--mean", "--mean", "grey", "--std", "0.5")
simple("std_nought", "--mean, --std", "--mean", "0.5", "--std", "0")
simple("mean_of_other_channels", "--mean, --std", "--mean", "0.5,0.5", "--std", "0.2,0.2")
simple("data_missing", "--data", data=None)
simple("data_from_nowhere", "nowhere.npz", data="/nowhere.npz")
simple("column_missing", "sites", "--by", "sites")
simple("attributes_from_nowhere", "sites.csv", "--by", "site", "--attributes", "/nowhere/sites.csv")
simple("log_and_counts", "exclude each other", "--from-log", "a.tsv", "--from-counts", "b")
CASES.add("log_and_data", "--data", lambda digits, _: ["certify", "--data", digits.data, "--from-log", "a.tsv"])
simple("log_and_arch", "--arch", "--from-log", "a.tsv")
CASES.add("log_and_checkpoint", "CHECKPOINT", lambda digits, _: ["certify", digits.model, "--from-log", "a.tsv"])
CASES.add(
    "counts_and_checkpoint", "CHECKPOINT", lambda digits, _: ["certify", digits.model, "--from-counts", digits.folder]
)


def with_data(digits: Digits, folder: Path, **arrays: Any) -> Words:
    x, y = patterns(12)
    kept = {name: value for name, value in {"x": x, "y": y, **arrays}.items() if value is not None}
    np.savez(folder / "wrong.npz", **kept)
    return digits.command(data=folder / "wrong.npz")


@case("Label 3")
def label_beyond_the_classes(digits: Digits, folder: Path) -> Words:
    return with_data(digits, folder, y=np.arange(12) % 4)


@case("Label 7")
def label_beyond_the_classes_at_the_end(digits: Digits, folder: Path) -> Words:
    return with_data(digits, folder, y=np.array([0] * 11 + [7]))


@case("label")
def label_negative(digits: Digits, folder: Path) -> Words:
    return with_data(digits, folder, y=np.array([0] * 11 + [-1]))


@case("label")
def label_fraction(digits: Digits, folder: Path) -> Words:
    return with_data(digits, folder, y=np.array([0.5] * 12))


@case("y has the shape")
def labels_for_fewer_images(digits: Digits, folder: Path) -> Words:
    return with_data(digits, folder, y=np.zeros(11, dtype=int))


@case("no array 'y'")
def no_labels(digits: Digits, folder: Path) -> Words:
    return with_data(digits, folder, y=None)


@case("(1, 8, 8)")
def wrong_image_size(digits: Digits, folder: Path) -> Words:
    return with_data(digits, folder, x=np.zeros((12, 1, 9, 9), dtype=np.float32))


@case("(1, 8, 8)")
def wrong_channels(digits: Digits, folder: Path) -> Words:
    return with_data(digits, folder, x=np.zeros((12, 3, 8, 8), dtype=np.float32))


@case("not a finite number")
def pixels_not_finite(digits: Digits, folder: Path) -> Words:
    return with_data(digits, folder, x=np.full((12, 1, 8, 8), np.nan, dtype=np.float32))


@case("negative")
def pixels_standardised_already(digits: Digits, folder: Path) -> Words:
    return with_data(digits, folder, x=patterns(12)[0] - 0.5)


@case("no images")
def no_images(digits: Digits, folder: Path) -> Words:
    return with_data(digits, folder, x=np.zeros((0, 1, 8, 8), dtype=np.float32), y=np.zeros(0, dtype=int))


@case("Python objects")
def pickled_array(digits: Digits, folder: Path) -> Words:
    return with_data(digits, folder, y=np.array([{}] * 12, dtype=object))


@case("cut off")
def data_cut_off(digits: Digits, folder: Path) -> Words:
    (folder / "wrong.npz").write_bytes(digits.data.read_bytes()[:-200])
    return digits.command(data=folder / "wrong.npz")


def with_model(digits: Digits, folder: Path, content: bytes, name: str = "wrong.safetensors") -> Words:
    (folder / name).write_bytes(content)
    words = digits.command()
    words[1] = str(folder / name)
    return words


@case("no such file")
def model_misspelt(digits: Digits, folder: Path) -> Words:
    words = digits.command()
    words[1] = str(digits.model) + "s"
    return words


@case("CHECKPOINT is missing")
def model_missing(digits: Digits, folder: Path) -> Words:
    words = digits.command()
    return [words[0], *words[2:]]


@case("damaged")
def model_cut_off(digits: Digits, folder: Path) -> Words:
    return with_model(digits, folder, digits.model.read_bytes()[:-100])


@case("web page")
def page_as_model(digits: Digits, folder: Path) -> Words:
    return with_model(digits, folder, b"<!DOCTYPE html>\n<html><body>Not found</body></html>\n")


@case("refused")
def pickle_with_code_as_model(digits: Digits, folder: Path) -> Words:
    import pickle

    class Trap:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {folder / 'trace'}",)

    return with_model(digits, folder, pickle.dumps({"conv1.weight": Trap()}, protocol=2), "wrong.pt")


@case("not finite")
def weights_not_finite(digits: Digits, folder: Path) -> Words:
    from safetensors.numpy import load_file, save

    tensors = load_file(digits.model)
    tensors["linear.bias"][0] = np.nan
    return with_model(digits, folder, save(tensors))


@case("not finite")
def logits_not_finite_under_noise(digits: Digits, folder: Path) -> Words:
    return digits.command("--seed", "9", sigma="1e38", n=16)


@case("--class-map")
def class_map_of_arrays(digits: Digits, folder: Path) -> Words:
    (folder / "index.json").write_text('{"0": ["n01440764", "tench"]}')
    return digits.command("--class-map", str(folder / "index.json"))


@case("ONNX")
def checkpoint_of_another_framework(digits: Digits, folder: Path) -> Words:
    (folder / "net.onnx").write_bytes(bytes([8, 7, 0x12, 7]) + b"pytorch" + bytes(64))
    return ["certify", str(folder / "net.onnx"), *digits.command()[2:]]


def with_log(digits: Digits, folder: Path, text: str, *more: str) -> Words:
    (folder / "log.tsv").write_text(text)
    return ["certify", "--from-log", str(folder / "log.tsv"), "--sigma", "0.25", "--n", "1000", *more]


@case("no column")
def log_is_no_table(digits: Digits, folder: Path) -> Words:
    return with_log(digits, folder, "Dear diary,\n")


@case("separated by tabs")
def log_separated_by_commas(digits: Digits, folder: Path) -> Words:
    return with_log(digits, folder, LOG.replace("\t", ","))


@case("no rows")
def log_without_rows(digits: Digits, folder: Path) -> Words:
    return with_log(digits, folder, LOG.splitlines()[0] + "\n")


@case("log.tsv:3")
def log_with_a_short_row(digits: Digits, folder: Path) -> Words:
    return with_log(digits, folder, LOG.replace("\t0:00:13.1", ""))


@case("column radius")
def log_with_a_word_for_a_radius(digits: Digits, folder: Path) -> Words:
    return with_log(digits, folder, LOG.replace("0.41", "large"))


@case("abstention")
def log_with_a_radius_of_an_abstention(digits: Digits, folder: Path) -> Words:
    return with_log(digits, folder, LOG.replace("-1\t0.0", "-1\t0.3"))


@case("column predict")
def log_with_a_word_for_a_class(digits: Digits, folder: Path) -> Words:
    return with_log(digits, folder, LOG.replace("\t3\t3\t", "\t3\tthree\t"))


@case("column time")
def log_with_a_word_for_a_time(digits: Digits, folder: Path) -> Words:
    return with_log(digits, folder, LOG.replace("0:00:13.1", "soon"))


@case("empty")
def log_empty(digits: Digits, folder: Path) -> Words:
    return with_log(digits, folder, "")


@case("log.tsv")
def log_of_bytes(digits: Digits, folder: Path) -> Words:
    (folder / "log.tsv").write_bytes(bytes(range(256)))
    return ["certify", "--from-log", str(folder / "log.tsv"), "--sigma", "0.25"]


@case("--sigma")
def log_without_sigma(digits: Digits, folder: Path) -> Words:
    words = with_log(digits, folder, LOG)
    return words[:3]


@case("--by")
def log_with_groups(digits: Digits, folder: Path) -> Words:
    return with_log(digits, folder, LOG, "--by", "site")


@case("log.tsv")
def log_from_nowhere(digits: Digits, folder: Path) -> Words:
    return ["certify", "--from-log", str(folder / "log.tsv"), "--sigma", "0.25"]


@case("no counts here")
def counts_from_nowhere(digits: Digits, folder: Path) -> Words:
    return ["certify", "--from-counts", str(folder)]


@pytest.mark.parametrize("name", CASES.names())
def test_wrong_input_ends_in_one_panel(digits: Digits, refused: Callable[..., None], name: str) -> None:
    refused(CASES[name], digits)


OTHERS = (
    ("--sigma", "0.25"), ("--n", "500"), ("--n0", "41"), ("--norm", "l1"), ("--mode", "decide", "--radii", "0.1"),
    ("--data", "x.npz"), ("--by", "site"), ("--lipschitz", "computed"), ("--skip", "2"), ("--max", "5"),
    ("--arch", "small_cnn"), ("--mean", "0.5", "--std", "0.5"),
    # At their defaults, which these counts were not drawn with.
    ("--n", "100000"), ("--n0", "100"), ("--skip", "1"),
)  # fmt: skip


@pytest.mark.parametrize("more", OTHERS, ids=" ".join)
def test_counts_refuse_what_they_were_not_drawn_with(
    certified: Path, call_miles: Call, tmp_path: Path, more: tuple[str, ...]
) -> None:
    outcome = call_miles("certify", "--from-counts", certified, *more, cwd=tmp_path)
    one_panel(outcome, more[0])
    assert list(tmp_path.iterdir()) == []


def test_a_label_beyond_the_classes_is_seen_though_the_model_was_checked_before(
    digits: Digits, call_miles: Call, tmp_path: Path
) -> None:
    x, y = patterns(12, seed=4)
    y[11] = 7
    np.savez(tmp_path / "wrong.npz", x=x, y=y)
    finish(call_miles, digits.command("--max", "9", data=tmp_path / "wrong.npz"), tmp_path / "few")
    outcome = call_miles(*digits.command(data=tmp_path / "wrong.npz"), "--out", tmp_path / "all")
    one_panel(outcome, "Label 7")
    assert not (tmp_path / "all").exists()
