"""Continuations of many prompts by a causal language model, in batches that are kept and spread over machines.

A text depends on the index of its prompt, not on the size of the batches (`probes.texts.text_generation`).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from torch import Tensor

from probes.core.cache import Cache
from probes.core.hashing import sha256_json
from probes.core.progress import Progress
from probes.core.spreading import Machines, read_entry, spread_entries
from probes.models.checkpoints import ModelFolder
from probes.texts.causal_folders import run_key
from probes.texts.text_generation import TEXTS, Generated, Speller, held_model, token_entry, tokens_of_entry
from probes.texts.token_draws import Sampling, row_seed

_VERSION = 1


class Continuations:
    """The continuations of prompts by a causal language model, written in batches, each an entry of the cache.

    Parameters
    ----------
    batch
        Prompts at a time, which is also what one entry of the cache holds; the model is loaded only where one is
        missing.

    Raises
    ------
    InputError
        Where the folder is no causal language model, or a prompt cannot be continued by it.
    """

    def __init__(
        self,
        folder: ModelFolder,
        prompts: Sequence[str],
        sampling: Sampling,
        *,
        seed: int,
        batch: int,
        device: str,
        dtype: str,
        cache: Cache,
    ) -> None:
        self._speller = Speller(folder)
        # All of them now: a prompt that cannot be continued is refused before hours are spent on others.
        self._rows = [(prompt, *self._speller.spell(prompt, sampling.max_new_tokens)) for prompt in prompts]
        weights, *machine = run_key(folder, device, dtype)
        common = [_VERSION, weights, asdict(sampling), seed, *machine]
        self._jobs = [
            _Job(
                folder=folder,
                sampling=sampling,
                prefixes=tuple(tuple(ids) for _, ids, _ in part),
                seeds=tuple(row_seed(seed, first + row, sampling) for row in range(len(part))),
                key=[common, sha256_json([prompt for prompt, _, _ in part]), first],
                device=device,
                dtype=dtype,
                cache=cache,
            )
            for first in range(0, len(prompts), batch)
            for part in [self._rows[first : first + batch]]
        ]

    def write(self, progress: Progress, label: str, machines: Machines) -> None:
        """Write the batches that are missing, or those of this run's part.

        Raises
        ------
        IncompleteError
            Where the device runs out of memory, a worker is lost, or the cache cannot be written.
        InputError
            Where the model gives numbers that are not finite.
        """
        with progress.phase(label, len(self._rows), "texts") as advance:
            spread_entries(
                _continued, self._jobs, TEXTS, machines, "batches of texts", lambda job: advance(len(job.prefixes))
            )

    def read(self) -> list[Generated]:
        """Return all texts in order; a batch that was damaged since is written again."""
        entries = (read_entry(_continued, job, TEXTS) for job in self._jobs)
        news = (new for entry in entries for new in tokens_of_entry(entry))
        return [
            self._speller.read(prompt, ids, new, cut) for (prompt, ids, cut), new in zip(self._rows, news, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One batch of prompts, as token ids, with the seed of each text."""

    folder: ModelFolder
    sampling: Sampling
    prefixes: tuple[tuple[int, ...], ...]
    seeds: tuple[int, ...]
    key: list[object]
    device: str
    dtype: str
    cache: Cache


def _continued(job: _Job) -> dict[str, Tensor]:
    model = held_model(job.folder, job.device, job.dtype)
    return token_entry(model.continue_ids(job.prefixes, job.sampling, job.seeds))
