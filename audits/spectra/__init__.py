"""Compare a neural operator run on another grid with the way over the grid of training.

That way upsamples the output on finer grids, and the input on coarser ones. Both ways are scored on the same samples,
and the loss is traced: to the input, to the coordinates or to aliasing, stage by stage.
"""

from dataclasses import dataclass
from pathlib import Path

from audits.core.measures import Measure
from audits.core.options import argument, option
from audits.core.registry import AuditSpec
from audits.core.summary import Summary

_MODEL, _DATA, _SPECTRA = "Model", "Data", "Spectra"
LEAST, MOST = 3, 2**13
"""Points on an axis that a spectrum needs, and that a run takes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `miles spectra`."""

    model: str | None = argument(
        "Checkpoint of a Fourier neural operator, or the weights for what --factory makes.",
        metavar="CHECKPOINT",
        required=False,
    )
    data: Path = option(
        "Input and target fields on the finest grid: NPZ, MAT, HDF5, or a .pt of neuralop.",
        metavar="FILE",
        required=True,
    )
    train_resolution: int = option(
        "Points on an axis of the grid of training.", metavar="s", required=True, least=LEAST, most=MOST
    )
    test_resolutions: tuple[str, ...] = option(
        "Points on an axis of the other grids, finer or coarser, or on each axis: 61,121,16,32x64.",
        (),
        several=False,
        metavar="S,...",
        required=True,
    )
    factory: str | None = option(
        "Callable that returns an operator of any kind, a torch.nn.Module; runs its code.",
        metavar="MODULE:CALLABLE",
        panel=_MODEL,
        only_with=("allow_code",),
        not_with=("family", "padding", "norm", "fftshift"),
        later=True,
    )
    allow_code: bool = option("Allow --factory, which runs code.", False, panel=_MODEL, later=True)
    stages: tuple[str, ...] = option(
        "Submodules of what --factory makes whose outputs are looked into. Default: none.",
        (),
        several=False,
        metavar="NAME,...",
        panel=_MODEL,
        only_with=("factory",),
        later=True,
    )
    coordinates: bool = option(
        "Put the coordinates of the nodes, first axis first, behind the fields that what --factory makes is given.",
        False,
        panel=_MODEL,
        only_with=("factory",),
        later=True,
    )
    family: str = option(
        "Who wrote the checkpoint.",
        "auto",
        choices=("auto", "li", "pdebench", "neuralop", "physicsnemo"),
        metavar="auto|li|pdebench|neuralop|physicsnemo",
        panel=_MODEL,
    )
    padding: str | None = option(
        "Zeros around the domain, where the checkpoint does not say: cells (9) or a share of the grid (0.25).",
        metavar="CELLS|FRACTION",
        panel=_MODEL,
    )
    norm: str = option(
        "Normalisation around the spectral convolutions, where the checkpoint does not say.",
        "none",
        choices=("none", "instance"),
        metavar="none|instance",
        panel=_MODEL,
    )
    fftshift: str = option(
        "On grids of odd size: shift spectra as the neuralop releases do, or as corrected since.",
        "release",
        choices=("release", "mended"),
        metavar="release|mended",
        panel=_MODEL,
    )
    grid: str | None = option(
        "Nodes at i/N, i/(N-1) or (i+1/2)/N. Default: what the data show, else the family's.",
        choices=("open", "closed", "cell"),
        metavar="open|closed|cell",
        panel=_DATA,
    )
    input: str | None = option("Name of the input field in the data.", metavar="KEY", panel=_DATA)
    target: str | None = option("Name of the target field; none: without targets.", metavar="KEY", panel=_DATA)
    input_scale: tuple[str, ...] = option(
        "The network takes (input - mean) / std. Default: x_mean and x_std of the checkpoint.",
        (),
        several=False,
        metavar="MEAN,STD",
        panel=_DATA,
    )
    target_scale: tuple[str, ...] = option(
        "The prediction is output * std + mean. Default: y_mean and y_std of the checkpoint.",
        (),
        several=False,
        metavar="MEAN,STD",
        panel=_DATA,
    )
    max_samples: int = option("Most samples used.", 50, metavar="N", panel=_DATA, least=1)
    upsample: str = option(
        "How fields are taken to a finer grid.",
        "auto",
        choices=("auto", "fourier", "sine", "even"),
        metavar="auto|fourier|sine|even",
        panel=_SPECTRA,
    )
    window: str = option(
        "How fields that are not periodic are read; auto: none on open grids, even on others.",
        "auto",
        choices=("auto", "none", "even", "hann"),
        metavar="auto|none|even|hann",
        panel=_SPECTRA,
    )
    cutoff: float | None = option(
        "Cycles per domain above which energy is high-frequency. Default: outside the modes kept; with --factory, half "
        "of what the grid of training can hold.",
        metavar="K",
        panel=_SPECTRA,
        above=0,
    )
    aliasing_samples: int = option(
        "Samples on which each activation's aliasing is measured.", 4, metavar="N", panel=_SPECTRA, least=0
    )


MEASURES = (
    Measure("relative_l2", ("path", "resolution"), "relative l2 error", unit="samples", worse="up"),
    Measure("relative_h1", ("path", "resolution"), "relative error of values and slopes", unit="samples", worse="up"),
    Measure(
        "direct_minus_upsampled",
        ("resolution",),
        "relative l2 error, direct less upsampled",
        unit="samples",
        neutral=0.0,
    ),
    Measure("direct_worse_share", ("resolution",), "share of samples on which direct errs more", unit="samples"),
    Measure(
        "band_error",
        ("band", "path", "resolution"),
        "relative error in a band of wavenumbers",
        unit="samples",
        worse="up",
    ),
    Measure("band_share", ("band", "path", "resolution"), "share of the error in a band", unit="samples"),
    Measure("mismatch", ("resolution", "tap"), "relative difference from the grid of training", unit="samples"),
    Measure(
        "mismatch_share", ("part", "resolution"), "part of the mismatch of the output", unit="samples", neutral=0.0
    ),
    Measure("domain_share", ("resolution",), "part of the mismatch made in the blocks", unit="samples", neutral=0.0),
    Measure("mismatch_law", ("part",), "fit of the mismatch over the grids", unit="samples", apart=("part",)),
    Measure("operator_aliasing", ("resolution",), "relative aliasing error of the operator", unit="samples"),
    Measure("energy", ("resolution", "tap", "wavenumber"), "energy of a stage at a wavenumber", unit="samples"),
    Measure(
        "high_frequency_share",
        ("resolution", "tap"),
        "share of a stage's energy that is high-frequency",
        unit="samples",
    ),
    Measure(
        "above_training_share", ("resolution", "tap"), "share of energy beyond the grid of training", unit="samples"
    ),
    Measure("high_frequency_made", ("resolution", "stage"), "high-frequency energy added by a stage", unit="samples"),
    Measure("centroid", ("resolution", "tap"), "mean wavenumber of a stage's energy", unit="samples"),
    Measure("activation_aliasing", ("resolution", "tap"), "relative aliasing error of an activation", unit="samples"),
    Measure(
        "energy_above_nyquist", ("resolution", "tap"), "share of an activation's energy above Nyquist", unit="samples"
    ),
)

LIMITATIONS = (
    "One checkpoint is judged, on these samples: another training run of the same network may do otherwise.",
    "Intervals take the samples as drawn at random from those that the operator is for.",
    "The targets are taken as the truth on every grid. Those of coarse grids are nodes of the finest one, so that an "
    "error of the solver that made them is in all of them.",
)

STEPS = {
    "spectra.poor-fit": (
        "Check scales, channels, grid, and padding or coordinates against those of the training before anything else."
    ),
    "spectra.verdict": (
        "Run the operator the way that errs less on each grid, as the answer says; where neither is shown to, "
        "take the cheaper one."
    ),
    "spectra.no-targets": (
        "Give targets (--target) to know which way errs less: a difference of predictions does not tell."
    ),
}
"""What can be done about a finding, by its id."""

AUDIT = AuditSpec(
    name="spectra",
    title="A neural operator across resolutions",
    question=(
        "On another grid than that of training, is this operator better run directly or run where it was trained, with "
        "input and output taken from one grid to the other, and where does the difference come from: the input, the "
        "coordinates, aliasing, or the operator as a whole?"
    ),
    summary="Is a neural operator better run on another grid, or where it was trained?",
    options=Options,
    package="audits.spectra",
    measures=MEASURES,
    limitations=LIMITATIONS,
    steps=STEPS,
    headed=("train_resolution", "test_resolutions", "upsample", "padding", "norm"),
    summaries=(
        Summary(
            measure="relative_l2",
            title="Relative error by grid and way",
            row="resolution",
            column="path",
            words={
                "resolution": "{} points",
                "path=same": "grid of training",
                "path=direct": "run directly",
                "path=upsampled": "via training grid",
                "path=floor": "truth via that grid",
            },
        ),
    ),
)
