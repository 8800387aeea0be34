"""The counts of the audit: texts are sampled and encoded, drawn from, compared with the reference, and clustered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from audits.core.context import Context
from audits.core.records import Subject, Warning
from audits.precision_recall import Options
from audits.precision_recall.clustering import Clustered, cluster
from audits.precision_recall.comparing import WIDENED, Referee
from audits.precision_recall.counts import Counts, Texts
from audits.precision_recall.pools import Pool, pool, set_against_itself, shuffled_words
from audits.precision_recall.preflight import warnings_of
from audits.precision_recall.relabelling import Relabelled, enough, relabel
from audits.precision_recall.sampling import sample
from audits.precision_recall.sequences import count_sequences
from audits.precision_recall.sides import ASKED, CEILING, FLOOR, REFERENCE, Inputs
from audits.precision_recall.spread_comparisons import share
from audits.precision_recall.tallies import Comparison
from audits.statistics import generator
from probes.core.holding import release
from probes.core.progress import Silent
from probes.texts.text_embeddings import Embeddings, encode_all


def measure(options: Options, inputs: Inputs, context: Context) -> Counts:
    """Sample the missing texts, encode every set, and compare it with the reference.

    Raises
    ------
    InputError
        Where too few texts were sampled that have a word, or half of a draw of the reference holds too few that differ.
    PartEnded
        Where this run is a part that has done what it can.
    """
    subject: Subject | None = None
    warnings: tuple[Warning, ...] = ()
    if inputs.generation is not None:
        from probes.texts.text_generation import parameters_of

        planned, inputs = inputs.size, sample(inputs.generation, inputs, options, context)
        assert inputs.generation is not None
        subject = inputs.generation.subject(parameters_of(inputs.generation.folder))
        warnings = warnings_of(inputs, options)
        if inputs.size < planned:
            fewer = f"{inputs.size:,} of every side are taken, not {planned:,}"
            text = f"Some texts that were sampled have no word: {fewer}."
            warnings = (*warnings, Warning(id="fewer-texts", message=text))
    sets = _Reader(inputs, options, context).sets()
    sides = _Sides.of(inputs, sets, options, context)
    main, controls = sides.compared()
    return Counts(
        inputs=inputs,
        sets=sets,
        main=main,
        controls=controls,
        clusters=sides.clusters() if options.curves else {},
        relabelled={} if inputs.control else _relabelled(inputs, sets, context),
        subject=subject,
        warnings=warnings,
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """The maker of vectors and draws of every set."""

    inputs: Inputs
    options: Options
    context: Context

    def sets(self) -> dict[str, Texts]:
        """Return every set as vectors, the reference first and the floor last."""
        inputs = self.inputs
        self.ahead()
        found: dict[str, Texts] = {}
        for name, texts in inputs.sets.items():
            vectors, cut = self.vectors(name, texts.texts or (), texts.embeddings)
            made = self.pool(name, vectors, inputs.size)
            most = inputs.settings.max_words
            if texts.embeddings is None and most is not None:
                # Cut twice, by words when read and by tokens when encoded: a text counts once.
                cut = cut | (texts.words > most)
            sequences = None
            if texts.texts is not None:
                # Many small products: threads would wait for one another longer than they work.
                with threadpool_limits(limits=1, user_api="blas"):
                    sequences = count_sequences(texts.texts, made, self.context.seed)
            found[name] = Texts(
                name=name,
                pool=made,
                texts=texts.texts,
                places=texts.places,
                words=texts.words,
                shortened=int(cut.sum()),
                sequences=sequences,
            )
        if dealt := self.dealt():
            vectors, _ = self.vectors(FLOOR, dealt, None)
            made = self.pool(FLOOR, vectors, inputs.control)
            places, words = inputs.reference.places, inputs.reference.words
            found[FLOOR] = Texts(name=FLOOR, pool=made, texts=dealt, places=places, words=words, shortened=0)
        return found

    def dealt(self) -> tuple[str, ...]:
        """Return the texts of the floor; none where there is no floor."""
        inputs = self.inputs
        if not inputs.control or inputs.encoder is None or inputs.reference.texts is None:
            return ()
        return tuple(shuffled_words(inputs.reference.texts, self.context.seed))

    def ahead(self) -> None:
        """Encode the texts of all sets, by whoever does the dear work; `tfidf` is quick, and only shared by parts."""
        encoder, machines = self.inputs.encoder, self.context.machines
        if encoder is None or (encoder.weak and machines.part is None):
            return
        sets = {name: one.texts or () for name, one in self.inputs.sets.items()} | {FLOOR: self.dealt()}
        for name, texts in sets.items():
            if texts:
                Embeddings(encoder, texts, **self._how()).write(self.context.progress, f"Encoding {name}", machines)
        machines.join()
        # Distances need the memory of the model.
        release()

    def _how(self) -> dict[str, Any]:
        """Return what else than its texts decides embeddings, and where they are kept."""
        context = self.context
        return {
            "reference": self.inputs.reference.texts or (),
            "device": context.device,
            "dtype": context.dtype,
            "batch": self.options.batch,
            "cache": context.cache,
        }

    def vectors(
        self, name: str, texts: Sequence[str], embeddings: NDArray[np.float32] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the vectors of texts, and which texts the encoder truncated."""
        vectors, cut = embeddings, np.zeros(0 if embeddings is None else len(embeddings), dtype=np.bool_)
        if self.inputs.encoder is not None:
            # What was encoded ahead is read.
            listener = self.context.progress if self.inputs.encoder.weak else Silent()
            encoded = encode_all(self.inputs.encoder, texts, **self._how(), progress=listener, label=f"Encoding {name}")
            vectors, cut = encoded.vectors, encoded.cut
        assert vectors is not None
        if self.inputs.settings.normalisation == "unit":
            vectors = _unit(vectors)
        return vectors, cut

    def pool(self, name: str, vectors: NDArray[np.float32], size: int) -> Pool:
        """Draw from a set: several times where any set has more texts than a draw takes, else once."""
        options, most = self.options, max(len(texts) for texts in self.inputs.sets.values())
        repeats = 1 if most == size else options.repeats
        keep = self.inputs.settings.duplicates == "keep"
        return pool(name, vectors, size, repeats=repeats, splits=options.splits, keep=keep, seed=self.context.seed)


@dataclass(frozen=True, slots=True)
class _Sides:
    """The pools that are compared; `apart` is the reference in two parts, where it has enough texts."""

    inputs: Inputs
    options: Options
    context: Context
    reference: Pool
    others: tuple[Pool, ...]
    apart: tuple[Pool, Pool] | None
    floor: tuple[Pool, ...]

    @classmethod
    def of(cls, inputs: Inputs, sets: Mapping[str, Texts], options: Options, context: Context) -> "_Sides":
        reference = sets[REFERENCE].pool
        apart = None
        if inputs.control:
            # Only their number counts here: which texts a draw takes is dealt anew, into two sides that share none.
            own = replace(reference, draws=np.tile(reference.draws[:1], (options.repeats, 1)))
            apart = set_against_itself(own, inputs.control, name=CEILING, seed=context.seed)
            if inputs.control == inputs.size:
                # Of one size, candidates are judged by the draws that the ceiling has: differences are then paired.
                reference = apart[0]
        others = tuple(sets[name].pool for name in inputs.names)
        floor = tuple(sets[name].pool for name in (FLOOR,) if name in sets)
        return cls(inputs, options, context, reference, others, apart, floor)

    def compared(self) -> tuple[dict[str, Comparison], dict[str, Comparison]]:
        """Return comparisons with the reference, and those at the size at which it is compared with itself."""
        inputs, apart = self.inputs, self.apart
        together = inputs.control == inputs.size
        draws = len(apart[0].draws) if apart else 0
        names = len(self.others)
        total = (0 if together else len(self.reference.draws) * names) + draws * (names + 1 + len(self.floor))
        judged = tuple(self._resized(one, draws) for one in self.others) if draws and not together else self.others
        given: list[tuple[Referee, Sequence[Pool]]] = []
        if apart is not None:
            given.append((Referee.of(apart[0], inputs.settings, self.context), [*judged, apart[1], *self.floor]))
        if not together:
            given.append((Referee.of(self.reference, inputs.settings, self.context), self.others))
        share(given, self.context)
        with self.context.progress.phase("Comparing", total, "comparisons") as advance:
            found = [referee.compare(sets, advance) for referee, sets in given]
        controls = found[0] if apart is not None else []
        main = controls[:names] if together else found[-1]
        return {one.name: one for one in main}, {one.name: one for one in controls}

    def _resized(self, one: Pool, draws: int) -> Pool:
        """Return a pool with draws of the size at which the reference is compared with itself."""
        order = generator(self.context.seed, "draws", one.name, "controls")
        size = self.inputs.control
        return replace(one, draws=np.stack([order.permutation(len(one))[:size] for _ in range(draws)]))

    def clusters(self) -> dict[str, Clustered]:
        """Return every candidate, and the controls, clustered with the reference."""
        pairs = [(self.reference, other) for other in self.others]
        if self.apart is not None:
            pairs += [(self.apart[0], one) for one in (self.apart[1], *self.floor)]
        found: dict[str, Clustered] = {}
        with self.context.progress.phase("Clustering", len(pairs), "sets") as advance:
            for own, other in pairs:
                found[other.name] = cluster(own, other, self.options.repeats, self.context)
                advance(1)
        return found


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors of length 1, those of zeros left."""
    found = np.empty_like(vectors)
    for start in range(0, len(vectors), step := max(1, WIDENED // vectors.shape[1])):
        # In float64, where squares neither overflow nor vanish.
        wide = vectors[start : start + step].astype(np.float64)
        lengths = np.linalg.norm(wide, axis=1, keepdims=True)
        found[start : start + step] = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0)
    return found


def _relabelled(inputs: Inputs, sets: Mapping[str, Texts], context: Context) -> dict[str, Relabelled | None]:
    """Return the scores of candidates after relabelling, where the reference has no ceiling."""
    # As many as are asked together: of each candidate its scores, and its likeness in words.
    count = enough((len(ASKED) + (inputs.reference.texts is not None)) * len(inputs.names), context.level)
    with context.progress.phase("Relabelling", count * len(inputs.names), "relabellings") as advance:
        return {
            name: relabel(sets[REFERENCE].pool, sets[name].pool, inputs.settings, count, context, advance)
            for name in inputs.names
        }
