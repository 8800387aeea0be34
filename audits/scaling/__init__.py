"""Measure how operations, memory, decode state and time of a module grow with length, and judge what is claimed.

Counts on fake tensors are exact at lengths that nobody can run, so they decide about a claim. Measured seconds are only
ever consistent with one: caches and allocators bend them, and no clock tells n from n log n.
"""

from dataclasses import dataclass
from pathlib import Path

from audits.core.measures import Measure
from audits.core.options import argument, option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary
from probes.scaling.workloads import MODES

QUANTITIES = ("operations", "bytes_moved", "memory", "state", "time")
VARIED = ("length", "width", "batch")
_TARGETS, _CLAIMS, _TIME = "Targets", "Lengths and claims", "Time"
_OF_MODULES = ("submodule", "mode", "lengths", "count_to", "batch", "width", "vary")
_OF_TIME = ("threads", "clock", "allocator", "budget_seconds")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `miles audit-scaling`."""

    targets: tuple[str, ...] = argument(
        "Built-in module (attention, sdpa, linear-attention, window-128, fft-conv, ssm-scan, ssm-parallel, pom, "
        "multipole, blockwise, dyadic, square-lag), NAME=module:callable, or folder of a Hugging Face model, of which "
        "only config.json is read; repeatable.",
        metavar="TARGET",
        required=False,
        listed=False,
    )
    from_csv: Path | None = option(
        "Measurements made elsewhere: a table of target, n, round, seconds and, where known, bytes, state_bytes, "
        "operations.",
        metavar="FILE",
        panel=_TARGETS,
        not_with=("targets", *_OF_MODULES, "rounds", *_OF_TIME),
    )
    allow_code: bool = option("Allow NAME=module:callable, which runs code.", False, panel=_TARGETS)
    submodule: str | None = option(
        "Part of the folder's model that is called alone, such as model.layers.0.self_attn.",
        metavar="PATH",
        panel=_TARGETS,
    )
    mode: str = option(
        "A forward pass, one with its backward pass, the next token after n, or the pass that makes the decode state.",
        "forward",
        choices=MODES,
        metavar="|".join(MODES),
        panel=_TARGETS,
    )
    lengths: tuple[str, ...] = option(
        "Lengths: FIRST:LAST doubles, or a list.", ("256:65536",), metavar="N:N|N,...", panel=_CLAIMS, several=False
    )
    count_to: int = option(
        "Longest length up to which counting goes on beyond --lengths, doubling; 0: no further.",
        2**30,
        metavar="N",
        panel=_CLAIMS,
        least=0,
        most=2**40,
    )
    batch: int = option("Sequences in a batch.", 1, metavar="N", panel=_CLAIMS, least=1, most=65_536)
    width: int = option(
        "Features of a token; a model folder has its own.", 64, metavar="N", panel=_CLAIMS, least=2, most=65_536
    )
    vary: tuple[str, ...] = option(
        "What grows. Width and batch have exponents of their own at the last length; length,width has one of both too.",
        ("length",),
        choices=VARIED,
        metavar=",".join(VARIED),
        panel=_CLAIMS,
        several=False,
    )
    claim: tuple[str, ...] = option(
        'What is claimed, such as "operations=n,memory=n,state=const,time=n log n"; "NAME: operations=n" of one '
        "target; repeatable.",
        (),
        listed=False,
        several=False,
        metavar="QUANTITY=LAW,...",
        panel=_CLAIMS,
    )
    tolerance: float = option(
        "Exponent by which growth may exceed a claim.", 0.15, metavar="X", panel=_CLAIMS, above=0, most=1
    )
    rounds: int = option(
        "Rounds in which every length is timed once; 0: count only.", 9, metavar="N", panel=_TIME, least=0, most=1000
    )
    threads: int = option("Threads of the timed process.", 1, metavar="N", panel=_TIME, least=1, most=1024)
    clock: str = option(
        "Clock of the exponents of time: that of the processor, of the wall, or the first with the second beside it.",
        "cpu",
        choices=("cpu", "wall", "both"),
        metavar="cpu|wall|both",
        panel=_TIME,
    )
    allocator: str = option(
        "Whether the timed process keeps memory that was freed, so that page faults bend no exponent.",
        "held",
        choices=("held", "default"),
        metavar="held|default",
        panel=_TIME,
    )
    budget_seconds: float = option(
        "Seconds for all timing; the longest lengths are left out where they would not fit.",
        300.0,
        metavar="X",
        panel=_TIME,
        above=0,
    )


_CURVE = ("target", "quantity")
MEASURES = (
    Measure("exponent", (*_CURVE, "range", "variable"), "exponent", unit="lengths", worse="up"),
    Measure("local_exponent", (*_CURVE, "n"), "local exponent", unit="lengths", compared=False),
    Measure("operations", ("target", "n"), "operations", unit="calls", worse="up", written="given"),
    Measure("memory", ("target", "n"), "peak memory in bytes", unit="calls", worse="up", written="given"),
    Measure("state_bytes", ("target", "n"), "decode state in bytes", unit="calls", worse="up", written="given"),
    Measure("seconds", ("target", "n"), "seconds", unit="rounds", worse="up"),
    Measure("law_weight", (*_CURVE, "law"), "weight of a law", unit="lengths", compared=False, ends=(0.0, 1.0)),
    Measure("overhead", _CURVE, "seconds before growth", unit="rounds", worse="up"),
    Measure("crossover", ("target", "against", "quantity", "crossing"), "length of equal cost", unit="rounds"),
    Measure(
        "ratio_at",
        ("target", "against", "quantity", "n"),
        "cost by the other's",
        unit="rounds",
        worse="up",
        neutral=1.0,
    ),
    Measure(
        "excess_exponent",
        (*_CURVE, "claim"),
        "exponent beyond the claim",
        unit="lengths",
        worse="up",
        neutral=0.0,
        apart=("quantity",),
    ),
)

LIMITATIONS = (
    "Operations are multiplications and additions of matrix products, convolutions, attention and Fourier transforms. "
    "Elementwise work has no operations, and is seen in bytes moved.",
    "Causal attention is counted as the full square, an upper bound of what a kernel may do.",
    "Memory is what tensors take; the workspaces of kernels and the weights are not in it.",
    "A claim is judged as an upper bound: growth that is slower confirms it too.",
    "Seconds are those of this machine and thread count. They never decide between n and n log n.",
)

STEPS = {
    "scaling.claim": "Read the local exponents: they say whether growth has settled, and from which length on.",
    "scaling.leak": "Look what the decode state keeps with each token.",
    "scaling.quadratic_memory": "Look for a mask or a table of n by n, and for a fused kernel.",
    "scaling.time_not_operations": "Look where seconds leave operations: overhead, caches or allocation.",
    "scaling.contention": "Time again when nothing else runs, with another --seed, before you report seconds.",
    "scaling.uncounted": "Read bytes moved beside operations.",
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="audit-scaling",
    title="Growth with length",
    question="How do operations, memory, decode state and time grow with length, and does that match the claim?",
    summary="How do operations, memory, decode state and time grow, and does it match the claim?",
    options=Options,
    package="audits.scaling",
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    summaries=(
        Summary(
            measure="exponent",
            title="Exponent of growth in the tail",
            row="target",
            column="quantity",
            where={"range": "tail"},
            words={"quantity=bytes_moved": "bytes moved", "quantity=memory": "peak memory"},
        ),
    ),
    headed=("targets", "mode", "lengths", "batch", "width", "claim", "tolerance", "rounds"),
    model=("targets",),
)
