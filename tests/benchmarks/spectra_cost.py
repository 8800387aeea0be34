"""What do the spectra of all stages cost on top of a forward pass? `python tests/benchmarks/spectra_cost.py`.

A network of the published Darcy settings (width 32, modes 12, four blocks) with random weights runs on one sample of
421 x 421 points: bare, heard by the audit, and as the usual implementation of the family does it (whole transforms),
in turn in one process. Printed are medians over the rounds and their ratios; nothing is asserted.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from audits.spectra.hooks import Cut, StageHook
from probes.operators.darcy_operator import fresh_operator
from probes.operators.field_norms import sobolev_squares, squares
from probes.operators.fno.layers import GridKind, Padding, SpectralConv
from probes.operators.fno.network import FourierOperator, Layout
from probes.operators.radial_spectrum import RadialSpectrum, View


class WholeConv(SpectralConv):
    """The spectral convolution as it is usually written: transform everything, then keep the corners."""

    def forward(self, x: Tensor) -> Tensor:
        hat = torch.fft.rfft2(x)
        modes = len(self.frequencies[-1])
        out = hat.new_zeros(len(x), self.weight.shape[1], *hat.shape[2:])
        for rows, part in ((slice(0, modes), slice(0, modes)), (slice(-modes, None), slice(modes, None))):
            out[:, :, rows, :modes] = torch.einsum("bixy,ioxy->boxy", hat[:, :, rows, :modes], self.weight[:, :, part])
        return torch.fft.irfft2(out, s=x.shape[2:])


def whole(operator: FourierOperator) -> FourierOperator:
    """Return the same network with the usual convolutions."""
    copy = fresh_operator(operator.lift.channels[1], operator.modes[0], len(operator.blocks), 0)
    copy.load_state_dict(operator.state_dict())
    for block in copy.blocks:
        block.spectral = WholeConv(block.spectral.weight.data, block.spectral.frequencies)
    return copy


def seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def compare(
    operator: FourierOperator, usual: FourierOperator, fields: Tensor, kind: GridKind, view: View, rounds: int
) -> None:
    spectrum = RadialSpectrum(fields.shape[2:], kind, view)
    cut = Cut(box=(12.0, 11.0), radius=None, training=42.5)
    coarse = (slice(None, None, 5),) * 2
    first = StageHook(spectrum, cut)
    operator(fields, kind, first)
    reference = {name: value[(..., *coarse)].clone() for name, value in first.kept.items()}
    stages = len(first.sums)
    del first

    def heard() -> None:
        output = operator(fields, kind, StageHook(spectrum, cut, common=coarse, reference=reference))
        # The scores of three paths, as the audit takes them.
        for field in (output, output - 1, output + 1):
            squares(field)
            sobolev_squares(field, kind)
            spectrum.bands(spectrum.power(spectrum.transform(field)), (0.0, 4.0, 12.0, 42.5))

    runs = (lambda: operator(fields, kind), heard, lambda: usual(fields, kind))
    rows = [[seconds(run) for run in runs] for _ in range(rounds)]
    bare, full, common = (statistics.median(column) for column in zip(*rows, strict=True))
    print(
        f"{kind}, {view} view, {stages} stages: bare {bare:.2f} s, heard {full:.2f} s, usual forward {common:.2f} s; "
        f"on top {(full - bare) / bare:.2f}x of bare, {(full - bare) / common:.2f}x of the usual forward"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=421)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--padding", type=int, default=9)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    operator = fresh_operator(32, 12, 4, 0)
    layout = operator.layout
    operator.layout = Layout(
        family=layout.family, release=layout.release, fields=layout.fields, coordinates=layout.coordinates,
        padding=Padding(amounts=(asked.padding, asked.padding)),
    )  # fmt: skip
    usual = whole(operator)
    usual.layout = operator.layout
    fields = torch.randn(1, 1, asked.size, asked.size)
    with torch.no_grad():
        torch.testing.assert_close(usual(fields, "closed"), operator(fields, "closed"), rtol=1e-4, atol=1e-5)
        compare(operator, usual, fields, "open", "periodic", asked.rounds)
        compare(operator, usual, fields, "closed", "even", asked.rounds)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
