"""Does each race run on small inputs, with every other tool that is at hand, and do the sides agree as they should?"""

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@dataclass(frozen=True)
class Race:
    """A script with its options, sides by the modules that they need, and how far from miles they may be at most."""

    script: str
    peers: dict[str, str]
    apart: float
    options: tuple[str, ...] = ()
    told: tuple[str, ...] = field(default=())


RACES = (
    Race("word_errors_speed", {"kaldialign": "kaldialign", "jiwer": "jiwer"}, 0),
    Race("word_errors_speed", {"kaldialign": "kaldialign"}, 0, ("--compounds",)),
    Race("word_intervals", {"kaldialign": "kaldialign"}, 0.05, (), (r"miles: \d+\.\d% of 10 intervals hold 0\.12",)),
    Race("gee_speed", {"statsmodels": "statsmodels", "statsmodels, plain": "statsmodels"}, 1e-9),
    Race("scores_speed", {"scoringrules, numpy": "scoringrules", "scoringrules, pwm, numpy": "scoringrules"}, 1e-12),
    Race("scores_speed", {"scoringrules, numpy": "scoringrules"}, 1e-12, ("--score", "energy")),
    Race("operations_speed", {"fvcore": "fvcore"}, float("inf"), (), (r"perceptron.*miles 100\.0%, .*fvcore 100\.0%",)),
    Race("knn_speed", {"prdc": "prdc", "torch-fidelity": "torch_fidelity"}, 1e-6),
    Race("choices_speed", {"lm-eval": "lm_eval accelerate"}, 1e-3, (), (r"lm-eval: .* another choice in 0 prompts",)),
    Race("one_run_bound_speed", {"jax-privacy": "jax_privacy"}, 0, (), (r"true epsilon: 9\.99",)),
)


def at_hand(module: str) -> bool:
    """Tell whether a package is installed, or stands in a folder that is named for it."""
    folders = [os.environ.get(name) for name in ("MILES_RACES", "MILES_JAX_PRIVACY")]
    places = [Path(folder) / module for folder in folders if folder]
    return bool(importlib.util.find_spec(module)) or any(place.exists() for place in places)


@pytest.mark.parametrize("race", RACES, ids=lambda race: " ".join((race.script, *race.options)))
def test_a_race_runs_and_its_sides_agree(race: Race) -> None:
    sides = [side for side, module in race.peers.items() if all(map(at_hand, module.split()))]
    if not sides:
        pytest.skip(f"no peer of this race is at hand: {', '.join(dict.fromkeys(race.peers.values()))}")
    command = [sys.executable, str(FOLDER / f"{race.script}.py"), "--trial", *race.options]
    done = subprocess.run([*command, "--sides", "miles", *sides], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ")[0].removeprefix("| ") for line in done.stdout.splitlines() if line.startswith("| ")]
    assert rows[2:] == ["miles", *sides], done.stdout
    apart = re.findall(r"largest difference of .* from miles: (\S+)", done.stdout)
    assert all(float(one) <= race.apart for one in apart), done.stdout
    for told in race.told:
        assert re.search(told, done.stdout), done.stdout
