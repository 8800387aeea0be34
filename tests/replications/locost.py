"""LOCOST (arXiv 2401.17919) against what miles finds: how a long convolution grows, what it saves."""

from collections.abc import Mapping
from typing import Any

from replicating import Claim, Found, Given, Paper, main

PAPER = Paper(
    "LOCOST: state-space models for long document abstractive summarization",
    "Le Bronnec, Duong, Ravaut, Allauzen, Chen, Guigue, Lumbreras, Soulier, Gallinari (EACL 2024)",
    "2401.17919",
)
LONG = 16384
SPARSE = "window-128"
CLAIMS = {
    "order": Claim(
        says="The encoder's cost is of the order L log L, here that of the convolution in it.",
        source="abstract; the borders are the tolerance of `miles audit-scaling`",
        measured="Exponent of operations beyond n log n of the built-in `fft-conv`, width 64, counted to 2^24 tokens",
        above=-0.15,
        below=0.15,
    ),
    "memory_in_training": Claim(
        says="It saves memory in training, against transformers with sparse attention.",
        source="abstract, up to 50 %; any saving counts here",
        measured=f"Peak memory of `fft-conv` by that of `{SPARSE}`, forward and backward, width 64, {LONG} tokens",
        below=1,
    ),
    "memory_in_inference": Claim(
        says="It saves memory in inference.",
        source="abstract, up to 87 %; any saving counts here",
        measured=f"Peak memory of `fft-conv` by that of `{SPARSE}`, forward, width 64, {LONG} tokens",
        below=1,
    ),
    "memory_against_full": Claim(
        says="A long convolution needs less memory than attention that keeps all scores.",
        source="the abstract's ground, low complexity against transformers; the comparison is ours",
        measured=f"Peak memory of `fft-conv` by that of `attention`, forward, width 64, {LONG} tokens",
        below=1,
    ),
    "long_books": Claim(
        says="Inputs of more than 600,000 tokens can be processed in inference, here by one layer.",
        source="abstract; that 80 gigabytes, one large GPU, are at hand is our border",
        measured="Gigabytes of peak memory of `fft-conv`, forward, width 768, 2^20 tokens, counted without running",
        below=80,
    ),
    "performance": Claim(
        says="It summarises 93 to 96 % as well as sparse transformers of its size, and whole books better than any "
        "before.",
        source="abstract, 93 to 96 %",
        untried="It takes summarisers of a useful size, which no processor trains in minutes.",
    ),
}


def measured(given: Given) -> Mapping[str, Found]:
    """Return what is found of each claim that is tried."""
    forward = counted(given, "forward", ["fft-conv", SPARSE, "attention"])
    train = counted(given, "train", ["fft-conv", SPARSE])
    row = forward.frame("excess_exponent").query("target == 'fft-conv'").iloc[0]
    return {
        "order": Found.exact(float(row["value"]), int(row["n"]), "lengths", "counted"),
        "memory_in_training": memory_ratio(train, SPARSE),
        "memory_in_inference": memory_ratio(forward, SPARSE),
        "memory_against_full": memory_ratio(forward, "attention"),
        "long_books": Found.exact(gigabytes(given), 1, "length", "counted"),
    }


def counted(given: Given, mode: str, targets: list[str], **options: Any) -> Any:
    """Return the counts of some mixers in a forward pass, or in one with its backward pass."""
    from miles_cli import run

    return run(
        "audit-scaling",
        targets=targets,
        mode=mode,
        rounds=0,
        level=given.level,
        out=given.work / "-".join([mode, *map(str, options.values())]),
        **{
            "lengths": [f"1024:{LONG}"],
            "claim": ["fft-conv: operations=n log n"],
            "count_to": given.size(2**24, 0),
            **options,
        },
    )


def peak(report: Any, target: str, length: int) -> float:
    """Return the peak memory of a mixer at a length."""
    rows = report.records().query("target == @target and n == @length and round == 0")
    return float(rows["bytes"].iloc[0])


def memory_ratio(report: Any, against: str) -> Found:
    """Return the peak memory of the convolution by another mixer's."""
    ratio = peak(report, "fft-conv", LONG) / peak(report, against, LONG)
    return Found.exact(ratio, 1, "length", "counted")


def gigabytes(given: Given) -> float:
    """Return the gigabytes that a convolution of the width of a base model takes on a million tokens."""
    report = counted(given, "forward", ["fft-conv"], width=768, lengths=["1024:1048576"], count_to=0)
    return peak(report, "fft-conv", 2**20) / 1e9


if __name__ == "__main__":
    main("locost", PAPER, CLAIMS, measured)
