"""Polynomial mixers (arXiv 2604.06129, 2603.00683) against what miles finds: growth, memory, seconds."""

from collections.abc import Mapping
from typing import Any

from replicating import Claim, Found, Given, Paper, main, mean_of

PAPER = Paper(
    "PoM: a linear-time replacement for attention with the polynomial mixer; polynomial mixing for speech encoders",
    "Picard, Dufour, Degeorge and others; Feillet, Whetten, Picard, Allauzen (2026)",
    "2604.06129",
)
COUNTED = "built-in module of width 64, last doubling of length that is counted"
LONG = 8192
CLAIMS = {
    "linear_operations": Claim(
        says="The mixer costs operations linear in the length of the sequence.",
        source="abstracts of both; the borders are the tolerance of `miles audit-scaling`",
        measured=f"Exponent of operations of `pom`, {COUNTED}",
        above=0.85,
        below=1.15,
    ),
    "quadratic_computation": Claim(
        says="Self-attention has quadratic complexity in computation.",
        source="abstract of 2603.00683",
        measured=f"Exponent of operations of `sdpa`, attention by a fused kernel, {COUNTED}",
        above=1.85,
        below=2.15,
    ),
    "quadratic_memory": Claim(
        says="Self-attention has quadratic complexity in memory.",
        source="abstract of 2603.00683",
        measured=f"Exponent of peak memory of `sdpa`, attention by a fused kernel, {COUNTED}",
        above=1.85,
        below=2.15,
    ),
    "less_memory": Claim(
        says="Replacing attention by the mixer saves memory.",
        source="abstract of 2603.00683, a better trade of performance for time and memory; any saving counts here",
        measured=f"Peak memory of a forward pass of `pom` by that of `sdpa`, width 64, {LONG} tokens, counted",
        below=1,
    ),
    "faster_when_long": Claim(
        says="It drastically reduces the cost of long sequences.",
        source="abstract of 2604.06129; any reduction counts here",
        measured=f"Seconds of `pom` by those of `sdpa`, width 64, {LONG} tokens, forward, one processor, same rounds",
        below=1,
    ),
    "matches_attention": Claim(
        says="Models with the mixer match those with attention, in text generation among others.",
        source="abstract of 2604.06129",
        untried="Small models of text need longer training than this page has before attention gains by context.",
    ),
    "constant_state": Claim(
        says="All that is kept of the tokens is one representation, whatever their number.",
        source="abstract of 2604.06129, a compact representation of the tokens",
        measured=f"Exponent of the decode state of `pom`, {COUNTED}",
        above=-0.15,
        below=0.15,
    ),
    "speech_recognition": Claim(
        says="Pre-trained speech encoders with the mixer reach a competitive word error rate.",
        source="abstract of 2603.00683",
        untried="Self-supervised training needs hundreds of hours of speech and days of a GPU.",
    ),
}


def measured(given: Given) -> Mapping[str, Found]:
    """Return what is found of each claim that is tried."""
    report = growth(given)
    return {
        "linear_operations": last_exponent(report, "pom", "operations"),
        "quadratic_computation": last_exponent(report, "sdpa", "operations"),
        "quadratic_memory": last_exponent(report, "sdpa", "memory"),
        "less_memory": memory_ratio(report, "pom", "sdpa"),
        "faster_when_long": seconds_ratio(report, given.level),
        "constant_state": last_exponent(report, "pom", "state"),
    }


def growth(given: Given) -> Any:
    """Return the report of both mixers: counted far beyond what is timed."""
    from miles_cli import run

    return run(
        "audit-scaling",
        targets=["pom", "sdpa"],
        lengths=[f"{given.size(LONG, 512) // 4}:{given.size(LONG, 512)}"],
        count_to=given.size(2**24, 0),
        rounds=given.size(8, 2),
        budget_seconds=60.0,
        level=given.level,
        out=given.work / "growth",
    )


def last_exponent(report: Any, target: str, quantity: str) -> Found:
    """Return the exponent of the last doubling of length, which is counted exactly."""
    rows = report.frame("local_exponent").query("target == @target and quantity == @quantity")
    # `n` is the number of lengths, `where.n` the length.
    last = rows.loc[rows["where.n"].astype(int).idxmax()]
    return Found.exact(float(last["value"]), len(rows) + 1, "lengths", "counted")


def memory_ratio(report: Any, target: str, against: str) -> Found:
    """Return the peak memory of one mixer by another's at the longest length that is timed."""
    cells = report.records()
    length = cells.loc[cells["round"] > 0, "n"].max()
    counted = cells[(cells["round"] == 0) & (cells["n"] == length)].set_index("target")["bytes"].astype(float)
    return Found.exact(counted[target] / counted[against], 1, "length", "counted")


def seconds_ratio(report: Any, level: float) -> Found:
    """Return the seconds of the mixer by those of attention at the longest length that is timed, round by round."""
    cells = report.records().query("round > 0").query("n == n.max()")
    seconds = cells.pivot(index="round", columns="target", values="seconds").astype(float)
    return mean_of(list(seconds["pom"] / seconds["sdpa"]), level, "rounds")


if __name__ == "__main__":
    main("polynomial_mixers", PAPER, CLAIMS, measured)
