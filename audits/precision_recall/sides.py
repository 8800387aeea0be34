"""The sides of a comparison: the reference, the candidates, and the language model that some are sampled from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from audits.core.records import Subject
from audits.precision_recall.settings import Settings
from probes.models.checkpoints import ModelFolder
from probes.texts.text_encoders import TextEncoderSpec
from probes.texts.text_files import TextSet

if TYPE_CHECKING:
    from probes.texts.token_draws import Sampling

REFERENCE = "reference"
CEILING, FLOOR, RELABELLED = "ceiling", "floor", "relabelled"
RESERVED = (REFERENCE, CEILING, FLOOR, RELABELLED)
QUALITY, DIVERSITY = ("precision", "density"), ("recall", "coverage")
ASKED = (*QUALITY, *DIVERSITY)
"""Scores of which it is asked whether a candidate falls short."""
FLOORED = ("precision", "density", "coverage")
"""Scores that should be above the floor; recall is generous to word salad."""
LEAST, PER_K = 30, 10
"""Texts a side for each neighbour that k counts: with fewer, half of them would hold hardly more than a ball."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Generated texts to be judged.

    Parameters
    ----------
    texts
        None where they have yet to be sampled.
    temperature
        Where it belongs to a sweep.
    """

    name: str
    texts: TextSet | None
    temperature: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A language model that candidates are sampled from.

    Parameters
    ----------
    prompts
        What it goes on from; empty where it begins by itself.
    source, places
        The file of the prompts, if there is one, and where in it each stands.
    """

    folder: ModelFolder
    prompts: tuple[str, ...]
    source: TextSet | None
    places: NDArray[np.int64]
    samplings: "tuple[tuple[str, Sampling], ...]"

    def subject(self, parameters: int = 0) -> Subject:
        """Return the model as the report names it; its number of parameters is known once it is loaded."""
        folder = self.folder
        return Subject(path=folder.reference, family=folder.family, sha256=folder.sha256, parameters=parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the audit.

    Parameters
    ----------
    encoder
        None where embeddings were given.
    size
        Texts of every side in one draw.
    control
        Texts of every side where the reference is set against itself; 0 where it has too few for that.
    """

    settings: Settings
    reference: TextSet
    candidates: tuple[Candidate, ...]
    encoder: TextEncoderSpec | None
    generation: Generation | None
    size: int
    control: int

    @property
    def sets(self) -> dict[str, TextSet]:
        """The reference and every candidate with texts, by name."""
        return {REFERENCE: self.reference} | {one.name: one.texts for one in self.candidates if one.texts is not None}

    @property
    def names(self) -> tuple[str, ...]:
        """The candidates in their order."""
        return tuple(one.name for one in self.candidates)


def needed(settings: Settings) -> int:
    """Return the number of texts that every side needs in a draw."""
    return max(PER_K * max(settings.k), LEAST)
