"""The targets of `miles export`, and the options that each of them takes."""

from dataclasses import dataclass
from difflib import get_close_matches

from probes.core.errors import InputError

RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
"""What an evaluator may be to the makers of a model, in the words of Every Eval Ever."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target of `miles export`: its name, its purpose, and the options that it takes."""

    name: str
    summary: str
    options: tuple[str, ...]


TARGETS = (
    Target(
        "mlflow", "a run in a tracking store of MLflow", ("--tracking-uri", "--experiment", "--no-records", "--force")
    ),
    Target(
        "model-card",
        "a section of a Hugging Face model card",
        ("--out", "--only", "--section-only", "--card", "--model-name", "--system"),
    ),
    Target("junit", "gates as the test cases of a pipeline", ("--out",)),
    Target("in-toto", "an unsigned attestation of what was tested", ("--out",)),
    Target("sarif", "gates and findings for code scanning", ("--out", "--problems-only")),
    Target("github", "annotations and the summary of a job of GitHub Actions", ("--out",)),
    Target(
        "cyclonedx",
        "a machine-learning bill of materials of CycloneDX",
        ("--out", "--only", "--system", "--model-name"),
    ),
    Target(
        "every-eval-ever",
        "a record for the shared store of Every Eval Ever",
        ("--out", "--only", "--system", "--model-name", "--evaluator", "--relationship"),
    ),
)


def find(name: str, given: tuple[str, ...] = ()) -> Target:
    """Return a target by its name, which must take all the options that were `given`.

    Raises
    ------
    InputError
        Where there is no such target, or an option belongs to another.

    Examples
    --------
    >>> find("junit").options
    ('--out',)
    """
    names = [target.name for target in TARGETS]
    if name not in names:
        near = get_close_matches(name, names, n=1)
        meant = f"Did you mean {near[0]}? " if near else ""
        raise InputError(
            f"{name!r} is nothing to export to.", where="--to", hint=f"{meant}There are: {', '.join(names)}."
        )
    found = TARGETS[names.index(name)]
    for option in given:
        if option not in found.options:
            *others, last = [target.name for target in TARGETS if option in target.options]
            owners = f"{', '.join(others)} and {last}" if others else last
            raise InputError(
                f"{option} says nothing to --to {name}.",
                where=option,
                hint=f"It belongs to {owners}; {name} takes {', '.join(found.options)}.",
            )
    return found
