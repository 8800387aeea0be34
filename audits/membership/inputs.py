"""The plan of the audit: everything that can be checked before an attack runs."""

from audits.core.context import Context, Plan
from audits.core.records import Subject
from audits.membership import Options
from audits.membership.claims import check_used
from audits.membership.preflight import coordinates_of, cost_of, names_of, possible, preview_of, warnings_of
from audits.membership.reading import Inputs, read
from audits.membership.settings import ATTACKS, DENOISER, LANGUAGE, check_options
from probes.core.errors import InputError
from probes.core.hashing import sha256_json

_NEEDS = {
    "samples": "--samples",
    "generator": "a generator's weights: --model with --arch mlp-generator, or --latent",
    "denoiser": "a diffusion model: --model",
    "full": "--discriminator",
}


def check(options: Options, context: Context) -> Plan:
    """Read and check everything that an audit needs.

    Raises
    ------
    InputError
        Where an option or a file is wrong, or they do not go together.
    """
    check_options(options)
    inputs, sources = read(options, context)
    check_used(inputs.claims.values(), options)
    _check_attacks(inputs, options)
    return Plan(
        inputs=inputs,
        subject=_subject(inputs, options),
        data=sources,
        cost=cost_of(inputs, options, context.level),
        coordinates=coordinates_of(inputs, options),
        settings={"fpr": [f"{rate:g}" for rate in inputs.fprs]},
        warnings=warnings_of(inputs, options),
        preview=preview_of(inputs, options, context.level),
    )


def _check_attacks(inputs: Inputs, options: Options) -> None:
    """Refuse attacks, and shadows, that the given files do not allow."""
    there = possible(inputs, options)
    for name in options.attack:
        if name in there:
            continue
        if inputs.given is not None:
            hint = f"It has: {', '.join(there)}."
            raise InputError(f"The file gives no attack {name!r}.", where=f"--attack {name}", hint=hint)
        if name in LANGUAGE and (name not in DENOISER or inputs.pool.texts is not None):
            hint = "Give --reference-model FOLDER." if inputs.pool.texts is not None else "Give it with texts."
            what = "needs a model to compare with." if inputs.pool.texts is not None else "is for language models."
            raise InputError(f"{name} {what}", where=f"--attack {name}", hint=hint)
        if inputs.pool.texts is not None:
            hint = f"A language model allows: {', '.join(there)}."
            raise InputError(f"{name} is not for language models.", where=f"--attack {name}", hint=hint)
        tier = next(tier for tier, names in ATTACKS.items() if name in names)
        raise InputError(
            f"{name} needs more than was given.", where=f"--attack {name}", hint=f"It needs {_NEEDS[tier]}."
        )
    made = len(names_of(inputs, options)) * max(1, len(inputs.releases))
    if options.selection == "fixed" and options.coin_flip is None and made > 1:
        raise InputError(
            f"One threshold cannot serve {made} attacks.", where="--threshold", hint="Name one attack by --attack."
        )
    if options.shadows and not any(one.denoiser is not None for one in inputs.releases):
        raise InputError(
            "Shadow models are those of a diffusion model.", where="--shadows", hint="Leave it out for a generator."
        )


def _subject(inputs: Inputs, options: Options) -> Subject | None:
    """Return the model, or all models of a suite as one subject."""
    models = [
        part
        for one in inputs.releases
        for part in (one.denoiser, one.generator, one.discriminator, one.language)
        if part is not None
    ]
    if not models:
        return None
    families = sorted({part.family for part in models})
    return Subject(
        path=models[0].path if options.suite is None else str(options.suite),
        family=", ".join(families),
        sha256=models[0].sha256 if len(models) == 1 else sha256_json([part.sha256 for part in models]),
        parameters=sum(part.parameters for part in models),
    )
