"""Multipole attention, MANO (arXiv 2507.02748), against what miles finds: growth with nodes, memory, seconds, reach."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from replicating import Claim, Found, Given, Paper, main, mean_of
from torch import Tensor, nn

from probes.core.random_streams import stream
from probes.operators.multipole_operator import (
    BLOCKS,
    HEADS,
    LEVELS,
    WIDTH,
    WINDOW,
    MultipoleAttention,
    MultipoleOperator,
)

PAPER = Paper(
    "Linear attention with global context: a multipole attention mechanism for vision and physics",
    "Colagrande, Caillon, Feillet, Allauzen (2025)",
    "2507.02748",
)
SIDE = 64
NET = "operator of 3 blocks of 32 channels, 4 levels of windows of 4 x 4"
FULL = "the same operator with one window over the whole grid"
CLAIMS = {
    "linear_operations": Claim(
        says="Its complexity is linear in the number of grid points.",
        source="abstract; the borders are the tolerance of `miles audit-scaling`",
        measured=f"Exponent of operations from 128 x 128 to 256 x 256 nodes, {NET}",
        above=0.85,
        below=1.15,
    ),
    "linear_memory": Claim(
        says="Its memory is linear in the number of grid points.",
        source="abstract; borders as above",
        measured=f"Exponent of peak memory from 128 x 128 to 256 x 256 nodes, {NET}",
        above=0.85,
        below=1.15,
    ),
    "orders_of_memory": Claim(
        says="It reduces peak memory by orders of magnitude, here against attention between all nodes.",
        source="abstract, against ViT and Swin; by orders, so at least a hundredfold; the size of the grid is ours",
        measured=f"Peak memory of a forward pass by that of {FULL}, {SIDE} x {SIDE} nodes, counted",
        below=0.01,
    ),
    "orders_of_time": Claim(
        says="It reduces runtime by orders of magnitude.",
        source="as above",
        measured=f"Seconds of a forward pass by those of {FULL}, {SIDE} x {SIDE} nodes, one processor, in turns",
        below=0.01,
    ),
    "global_reach": Claim(
        says="Every head sees the whole domain.",
        source="abstract, a global receptive field in each attention head; border: all nodes but one in a hundred",
        measured="Least share of 32 x 32 nodes that the output at a node depends on, through one head, one layer, "
        "4 levels, random weights",
        above=0.99,
    ),
    "global_reach_finer": Claim(
        says="It still does on a finer grid than it was made for, with the same levels.",
        source="ours, of the same claim: a window is a number of nodes",
        measured=f"The same on {SIDE} x {SIDE} nodes",
        above=0.99,
    ),
    "rivals": Claim(
        says="It rivals the state of the art on images and Darcy flow.",
        source="abstract",
        untried="An operator of each kind takes minutes of training for each seed, more than a page has.",
    ),
}


class OnTokens(nn.Module):
    """The operator on square grids whose nodes stand in a row."""

    def __init__(self, operator: nn.Module) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, nodes, width) to (batch, 1, side, side), by the first feature."""
        side = math.isqrt(x.shape[1])
        field: Tensor = self.operator(x[..., 0].unflatten(1, (1, side, side)))
        return field


def multipole(batch: int, n: int, width: int, device: str) -> nn.Module:
    """Return the operator, for `miles audit-scaling`."""
    del batch, n, width, device
    return OnTokens(MultipoleOperator(WIDTH, HEADS, BLOCKS, WINDOW, LEVELS))


def full(batch: int, n: int, width: int, device: str) -> nn.Module:
    """Return the operator with one window over the grid."""
    del batch, width, device
    return OnTokens(MultipoleOperator(WIDTH, HEADS, BLOCKS, math.isqrt(n), 1))


def measured(given: Given) -> Mapping[str, Found]:
    """Return what is found of each claim that is tried."""
    report = growth(given)
    cells = report.records().query("round == 0 and n == @SIDE * @SIDE").set_index("target")["bytes"].astype(float)
    return {
        "linear_operations": last_exponent(report, "operations"),
        "linear_memory": last_exponent(report, "memory"),
        "orders_of_memory": Found.exact(cells["multipole"] / cells["full"], 1, "grid", "counted"),
        "orders_of_time": mean_of(seconds(given), given.level, "turns"),
        "global_reach": reach(given, 32),
        "global_reach_finer": reach(given, SIDE),
    }


def growth(given: Given) -> Any:
    """Return the counts of both operators on square grids."""
    from miles_cli import run

    return run(
        "audit-scaling",
        targets=["multipole=multipole_attention:multipole", "full=multipole_attention:full"],
        allow_code=True,
        lengths=["256,1024,4096" if given.trial else "256,1024,4096,16384,65536"],
        count_to=0,
        rounds=0,
        level=given.level,
        out=given.work / "growth",
    )


def last_exponent(report: Any, quantity: str) -> Found:
    """Return the exponent of the last step in size, which is counted exactly."""
    rows = report.frame("local_exponent").query("target == 'multipole' and quantity == @quantity")
    last = rows.loc[rows["where.n"].astype(int).idxmax()]
    return Found.exact(float(last["value"]), len(rows) + 1, "grids", "counted")


def seconds(given: Given) -> tuple[float, ...]:
    """Return the seconds of multipole attention by those of full attention, turn by turn."""
    from probes.core.timing import in_turns, ratios

    side = given.size(SIDE, 16)
    near, whole = (make(1, side * side, WIDTH, "cpu") for make in (multipole, full))
    x = torch.randn(1, side * side, WIDTH, generator=stream(0, "timed"))
    with torch.inference_mode():
        taken = in_turns({"near": lambda: near(x), "whole": lambda: whole(x)}, given.size(6, 2))
    return ratios(taken["near"], taken["whole"])


def reach(given: Given, side: int) -> Found:
    """Return the least share of nodes that an output depends on, over random nodes and the parts of all heads."""
    torch.manual_seed(0)
    layer = MultipoleAttention(WIDTH, 1, WINDOW, LEVELS)
    nodes = torch.randint(side, (given.size(20, 2), 2), generator=stream(0, "nodes")).tolist()
    shares = []
    for row, column in nodes:
        x = torch.randn(1, WIDTH, side, side, generator=stream(row, "field")).requires_grad_()
        (slope,) = torch.autograd.grad(layer(x)[0, :, row, column].sum(), x)
        shares.append(float((slope[0].abs().sum(0) > 0).float().mean()))
    return Found.exact(min(shares), len(shares), "nodes", "least")


if __name__ == "__main__":
    main("multipole_attention", PAPER, CLAIMS, measured)
