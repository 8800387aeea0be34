"""The plan of the audit: checkpoint, data, grids and scales, checked before the operator runs."""

import math
import time
from dataclasses import replace

import numpy as np
import torch

from audits.core.context import Context, Plan
from audits.core.options import numbers
from audits.core.records import Coordinate, Source, Subject, Warning
from audits.spectra import Options
from audits.spectra.factories import open_factory, tried_everywhere, without_insides
from audits.spectra.grids import (
    Grid,
    band_names,
    grids_of,
    half_of,
    kinds_of,
    resolutions_of,
    with_other_kinds,
)
from audits.spectra.hooks import Cut, Names
from audits.spectra.preflight import cautions, check_fit
from audits.spectra.setup import Setup, predicted, read_batch, silent_pass
from probes.core.errors import InputError
from probes.operators.fields import Fields, load_fields
from probes.operators.fno.layers import GridKind
from probes.operators.fno.network import FourierOperator
from probes.operators.fno.reading import Loaded, fit_fields, load_operator
from probes.operators.grids import crossed
from probes.operators.radial_spectrum import View
from probes.operators.resampling import Method, suitable

TRIED = 4
"""Samples on which it is tried whether model and data fit."""


def check(options: Options, context: Context) -> Plan:
    """Check options, checkpoint and data; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can fix.
    """
    resolutions = resolutions_of(options)
    if context.dtype != "float32":
        raise InputError(
            f"Fourier transforms are not made in {context.dtype}.", where="--dtype", hint="Leave it at float32."
        )
    loaded, fields = _opened(options) if options.factory is None else open_factory(options, context)
    kind, stored, chosen = kinds_of(options, loaded, fields, resolutions)
    try:
        grids = grids_of(options, loaded.operator, fields, kind, stored, resolutions)
    except InputError as error:
        raise with_other_kinds(error, options, loaded, fields, resolutions) from None
    setup = _setup(options, loaded, fields, kind, grids, context)
    fields.check_finite(setup.samples)
    setup, seconds, doubts = _tried(options, setup)
    known = (
        Warning(id="input", message=chosen),
        *doubts,
        *cautions(setup, asked=options.upsample),
        *without_insides(setup),
    )
    return Plan(
        inputs=setup,
        subject=Subject(
            path=loaded.reference,
            family=_named(loaded),
            sha256=loaded.sha256,
            parameters=loaded.parameters,
        ),
        data=(Source(role="fields", path=str(fields.path), sha256=fields.sha256, items=fields.count),),
        cost=_cost(setup, seconds),
        warnings=known,
        notes=(*loaded.notes, *fields.notes, chosen, _scales_in_words(setup)),
        coordinates=_coordinates(setup),
    )


def _opened(options: Options) -> tuple[Loaded, Fields]:
    """Return the operator of a checkpoint whose family is known, and the fields that fit it."""
    if options.model is None:
        raise InputError(
            "There is nothing to audit.",
            where="CHECKPOINT",
            hint="Give the checkpoint of a Fourier neural operator, or --factory module:callable --allow-code.",
        )
    loaded = load_operator(
        options.model,
        family=options.family,
        padding=options.padding,
        normalised=options.norm == "instance",
        fftshift_fixed=options.fftshift == "mended",
    )
    fields = _fields(options, loaded)
    # The data decide whether coordinates are among the fields: the first neuralop releases do not say it.
    return fit_fields(loaded, fields.channels), fields


def _fields(options: Options, loaded: Loaded) -> Fields:
    operator = loaded.operator
    taken, dimensions = operator.layout.fields, operator.dimensions
    # The first releases of neuralop take coordinates as fields, which their loaders of data put in.
    brought = operator.layout.coordinates == "none" and loaded.family == "neuralop" and taken > dimensions
    able = [taken, *([taken - dimensions] if brought else [])]
    return load_fields(
        options.data,
        input_key=options.input,
        target_key=options.target,
        dimensions=dimensions,
        fields=able,
        outputs=operator.outputs,
        initial_steps=max(1, taken // operator.outputs),
    )


def _named(loaded: Loaded) -> str:
    if not loaded.operator.divided:
        return loaded.family
    release = loaded.operator.layout.release
    return release if release.startswith(loaded.family) else f"{loaded.family} ({release})"


def _scales_in_words(setup: Setup) -> str:
    (mean, std), (shift, factor) = setup.input_scale, setup.target_scale
    return f"The network takes (input - {mean:g}) / {std:g}; the prediction is its output * {factor:g} + {shift:g}."


def _scale(flag: str, texts: tuple[str, ...], loaded: Loaded, letter: str) -> tuple[float, float]:
    try:
        given = numbers(flag, texts)
    except InputError:
        given = (math.nan,)
    if given and (len(given) != 2 or not all(map(math.isfinite, given))):
        raise InputError(
            f"{','.join(texts)} are not two numbers.", where=flag, hint=f"Give MEAN,STD, such as {flag} 0.5,2."
        )
    held = loaded.scales.get(f"{letter}_mean"), loaded.scales.get(f"{letter}_std")
    mean, std = (given[0], given[1]) if given else (held[0] or 0.0, 1.0 if held[1] is None else held[1])
    if not std > 0:
        raise InputError(f"{std} is no standard deviation.", where=flag, hint="Give MEAN,STD with STD above 0.")
    return float(mean), float(std)


def _setup(
    options: Options, loaded: Loaded, fields: Fields, kind: GridKind, grids: tuple[Grid, ...], context: Context
) -> Setup:
    operator = loaded.operator.to(context.device).eval()
    half = half_of(kind, options.train_resolution)
    views: dict[str, View] = {"none": "periodic", "even": "even", "hann": "hann"}
    view = views["none" if kind == "open" else "even"] if options.window == "auto" else views[options.window]
    samples = min(options.max_samples, fields.count)
    scales = (
        _scale("--input-scale", options.input_scale, loaded, "x"),
        _scale("--target-scale", options.target_scale, loaded, "y"),
    )
    # Of an operator that keeps no known modes, half of what the grid of training can hold.
    radius = options.cutoff if options.cutoff is not None or operator.modes else half / 2
    cut = Cut(box=tuple(map(float, operator.modes)), radius=radius, training=half)
    shape = [[grid.resolution, list(grid.sizes), [str(part) for part in grid.stored]] for grid in grids]
    shifted = options.fftshift if operator.shifted_at_odd else ""
    # All that counts depend on, and no more: another --level or --max-samples finds them in the cache.
    key = (loaded.sha256, repr(operator.layout), options.norm, shifted, fields.sha256, list(map(str, fields.keys)),
           fields.channels, kind, shape, scales, view, list(cut.box), cut.radius, half, context.device)  # fmt: skip
    return Setup(
        loaded=loaded,
        fields=fields,
        kind=kind,
        grids=grids,
        input_scale=scales[0],
        target_scale=scales[1],
        input_method="fourier" if kind == "open" else "even",
        output_method=_method(options, kind),
        view=view,
        cut=cut,
        samples=samples,
        aliasing_samples=min(options.aliasing_samples, samples),
        stages=(),
        activations=(),
        key=key,
        device=context.device,
    )


def _method(options: Options, kind: GridKind) -> Method:
    if options.upsample != "auto" and kind == "open" and options.upsample != "fourier":
        raise InputError(
            f"{options.upsample} extends a field beyond both its ends, which an open grid has not.",
            where="--upsample",
            hint="Leave it at auto; or give --grid closed where the data hold both ends.",
        )
    if options.upsample == "sine" and kind != "closed":
        raise InputError("sine needs a closed grid.", where="--upsample", hint="Leave it at auto.")
    chosen: dict[str, Method] = {"fourier": "fourier", "sine": "sine", "even": "even"}
    return chosen.get(options.upsample, "fourier")


def _tried(options: Options, setup: Setup) -> tuple[Setup, float, list[Warning]]:
    """Run a few samples on the grid of training, for errors, fit, list of stages and time."""
    if not isinstance(setup.loaded.operator, FourierOperator):
        setup = tried_everywhere(setup, options.stages)
    arrays = setup.fields.read(0, min(TRIED, setup.samples))
    inputs, target = read_batch(setup, setup.grids[0], arrays)
    names = Names()
    began = time.perf_counter()
    output = predicted(setup, silent_pass(setup, inputs, names))
    seconds = (time.perf_counter() - began) / len(inputs)
    if not bool(torch.isfinite(output).all()):
        raise InputError(
            "The network puts out numbers that are not finite.",
            where=setup.loaded.reference,
            hint="Check the checkpoint, and --input-scale.",
        )
    doubts = [] if target is None else check_fit(setup, inputs, output, target, sure=bool(options.target_scale))
    method = setup.output_method
    if options.upsample == "auto":
        method = suitable(output if target is None else target, setup.kind)
    stages, activations = tuple(names.stages), tuple(names.activations)
    # Only now is it known how fields are upsampled, which the counts depend on.
    key = (*setup.key, setup.input_method, method)
    return replace(setup, stages=stages, activations=activations, output_method=method, key=key), seconds, doubts


def _cost(setup: Setup, seconds: float) -> tuple[tuple[str, str], ...]:
    first, *others = setup.grids
    nodes, finer = float(np.prod(first.sizes)), [float(np.prod(grid.sizes)) for grid in others]
    # Four passes on every finer grid, and the spectra of each stage for about as much again as two.
    passes = 3.0 + sum(6.0 * cells / nodes for cells in finer)
    aliased = setup.aliasing_samples * 20.0 * (1 + sum(cells / nodes for cells in finer))
    minutes = seconds * (setup.samples * passes + aliased) / 60
    runs = setup.samples * (1 + sum(setup.passes(grid) for grid in others))
    runs += (setup.aliasing_samples + 2) * sum(not grid.refused for grid in setup.grids)
    return (
        ("samples", f"{setup.samples:,} of {setup.fields.count:,}"),
        ("forwards", f"{runs:,}, on grids of {', '.join(crossed(grid.sizes) for grid in setup.grids)}"),
        ("disk", "under 10 MB in the cache"),
        ("time", f"about {max(minutes, 0.1):.1f} minutes here"),
    )


def _coordinates(setup: Setup) -> dict[str, tuple[Coordinate, ...]]:
    resolutions = tuple(grid.resolution for grid in setup.grids)
    bands = dict.fromkeys(name for grid in setup.grids for name in band_names(grid.bands))
    reach = max(math.ceil(math.hypot(*(size / 2 for size in grid.sizes))) for grid in setup.grids)
    return {
        "resolution": resolutions,
        "path": ("same", "direct", "upsampled", "floor"),
        "band": tuple(bands),
        "tap": (*setup.stages, "target"),
        "stage": (*setup.stages, "all"),
        "part": (
            *dict.fromkeys(part for grid in setup.grids[1:] for part in setup.parts(grid)),
            "coefficient",
            "r2",
            "order",
        ),
        "wavenumber": tuple(range(reach + 2)),
    }
