"""Phone probes trained on one group, on everyone else or on everyone: four a group, folds by speaker.

For every group g and fold, phones are read by probes that learned from all other folds: `all` (everyone), `matched`
(as many random tokens of everyone as g has, phone by phone), `in` (g alone) and `out` (everyone but g). The tokens of a
fold are classified by probes that saw none of its speakers. All probes expect the phones in one and the same mix, so
that none gains from knowing which phones its group says most.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.speech.discriminant import ClassMoments, Probe, fit_discriminant, sum_moments
from probes.speech.softmax_probes import softmax_probe
from probes.speech.token_moments import Chunks, Floats, Ints, Standard

Bools = NDArray[np.bool_]
BATCH_VALUES = 2**24
MOMENT_BYTES = 2**28
MOST_PRODUCTS = 1e9
"""Tokens by width by phones by probes that one softmax step may take: measured as about two minutes on one core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Design of the cross-validation: folds of the speakers, and tokens of everyone that match each group in number.

    Parameters
    ----------
    phones, speakers
        Class and speaker of each token, shape (tokens,); the class is -1 for phones that take no part.
    member
        Who is in which group, shape (groups, speakers).
    fold
        Of each speaker, shape (speakers,).
    matched
        Tokens of everyone, as many of each phone and fold as the group has there, shape (groups, tokens).
    mix
        Shares in which the probes expect the phones, shape (phones,).
    """

    phones: Ints
    speakers: Ints
    member: Bools
    fold: Ints
    folds: int
    matched: Bools
    mix: Floats

    @property
    def classes(self) -> int:
        """Number of phones that take part."""
        return int(self.phones.max()) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """Tokens classified correctly, by speaker and phone; means over repetitions.

    Parameters
    ----------
    trials
        Tokens, shape (speakers, phones).
    everyone
        Correct under the probe of everyone, shape (speakers, phones).
    matched
        Correct under the probe matched to each group, whoever speaks, shape (groups, speakers, phones).
    inside, outside
        Correct under the probe of the group alone and of everyone else, for the group's speakers; 0 elsewhere.
    """

    trials: Floats
    everyone: Floats
    matched: Floats
    inside: Floats
    outside: Floats


def make_design(
    phones: Ints,
    speakers: Ints,
    member: Bools,
    folds: int,
    rng: np.random.Generator,
    *,
    people: Ints | None = None,
    mix: Floats | None = None,
) -> Design:
    """Deal speakers into folds, those of every group evenly, and draw the matched tokens.

    Parameters
    ----------
    people
        Where one person stands for several speakers: the number of each speaker's person, who is in one fold only.
    mix
        Shares of the phones, shape (phones,); None: those of the tokens.

    Examples
    --------
    >>> member = np.array([[True, True, False, False]])
    >>> design = make_design(np.zeros(4, int), np.arange(4), member, 2, np.random.default_rng(0))
    >>> sorted(design.fold[:2].tolist()), sorted(design.fold[2:].tolist()), int(design.matched.sum())
    ([0, 1], [0, 1], 2)
    """
    person_of = np.arange(member.shape[1]) if people is None else people
    first, person = np.unique(person_of, return_index=True, return_inverse=True)[1:]
    fold = _assign_folds(member[:, first], folds, rng)[person.ravel()]
    matched = np.zeros((len(member), len(phones)), dtype=bool)
    used, classes = phones >= 0, int(phones.max()) + 1
    for k in range(folds):
        here = np.flatnonzero(used & (fold[speakers] == k))
        there = np.bincount(phones[here], minlength=classes)
        starts = np.cumsum(there) - there
        for group, inside in enumerate(member):
            own = np.bincount(phones[here[inside[speakers[here]]]], minlength=classes)
            # In random order within every phone, as many from the front as the group has.
            mixed = here[np.lexsort((rng.random(len(here)), phones[here]))]
            rank = np.arange(len(here)) - starts[phones[mixed]]
            matched[group, mixed[rank < own[phones[mixed]]]] = True
    shares = np.bincount(phones[used], minlength=classes) / max(used.sum(), 1) if mix is None else mix
    return Design(phones=phones, speakers=speakers, member=member, fold=fold, folds=folds, matched=matched, mix=shares)


def _assign_folds(member: Bools, folds: int, rng: np.random.Generator) -> Ints:
    """Assign people to folds so that each group, and everyone together, is spread over them evenly.

    In random order, those in small groups first, each goes where its own groups are least present so far.
    """
    sizes = np.maximum(member.sum(1), 1)
    rarity = (member / sizes[:, None]).sum(0)
    order = rng.permutation(member.shape[1])
    # Rounded, so that sums of the same shares tie, and stably, so that ties keep their random order.
    order = order[np.argsort(-rarity[order].round(9), kind="stable")]
    share, total = np.zeros((len(member), folds)), np.zeros(folds)
    fold = np.empty(member.shape[1], dtype=np.int64)
    for person in order.tolist():
        mine = member[:, person]
        # The size of the fold breaks ties: a person weighs a tenth there of what they weigh in a group, or less.
        present = share[mine].sum(0) + total / (10 * member.shape[1])
        best = np.flatnonzero(present <= present.min() + 1e-12)
        fold[person] = k = int(best[rng.integers(len(best))])
        share[mine, k] += 1 / sizes[mine]
        total[k] += 1
    return fold


def affordable(tokens: int, width: int, classes: int, groups: int, fits: int) -> bool:
    """Tell whether softmax probes of this size take at most minutes; `fits` is folds times repetitions."""
    return tokens * width * classes * (2 * groups + 1) * fits <= MOST_PRODUCTS


def fit_and_count(design: Design, chunks: Chunks, standard: Standard, *, method: str) -> Hits:
    """Fit every probe on one layer and count the tokens that it classifies correctly.

    Parameters
    ----------
    method
        "discriminant": two readings of the layer, of which nothing stays in memory. "logistic": its tokens do.
    """
    if method == "discriminant":
        probes = _discriminants(design, chunks, standard)
    else:
        probes = _logistic(design, chunks, standard)
    return _count(design, probes, chunks, standard)


@dataclass(frozen=True, slots=True)
class _Probes:
    """Probes of each fold: of everyone, and of each group `matched`, `in` and `out`."""

    everyone: list[Probe]
    matched: list[list[Probe]]
    inside: list[list[Probe]]
    outside: list[list[Probe]]


def _discriminants(design: Design, chunks: Chunks, standard: Standard) -> _Probes:
    folds, groups, mix = range(design.folds), len(design.member), torch.from_numpy(design.mix)
    found = _Probes([], [[] for _ in folds], [[] for _ in folds], [[] for _ in folds])
    rest: list[ClassMoments] = []
    # Second moments of many groups at once would not fit in memory; a layer is read again for each block.
    block = max(1, MOMENT_BYTES // (2 * 8 * design.folds * len(standard.mean) ** 2))
    for start in range(0, max(groups, 1), block):
        chosen = range(start, min(start + block, groups))
        masks = [design.member[group][design.speakers] for group in chosen]
        masks += [design.matched[group] for group in chosen]
        # Where the first groups hold everyone once, their sum saves the moments of everyone.
        parts = 0 if rest else _parts(design.member[start : start + block])
        if not rest and not parts:
            masks.append(np.ones(len(design.phones), dtype=bool))
        moments = _moments(design, chunks, standard, masks)
        if not rest:
            everyone = sum_moments(moments[:parts]) if parts else moments[-1]
            rest = [everyone.total([other for other in folds if other != k]) for k in folds]
            found.everyone.extend(fit_discriminant(part, mix) for part in rest)
        for own, matched in zip(moments[: len(chosen)], moments[len(chosen) :], strict=False):
            for k in folds:
                others = [other for other in folds if other != k]
                inside = own.total(others)
                found.inside[k].append(fit_discriminant(inside, mix))
                found.matched[k].append(fit_discriminant(matched.total(others), mix))
                found.outside[k].append(fit_discriminant(rest[k].subtract(inside), mix))
    return found


def _parts(member: Bools) -> int:
    """Return how many of the first groups together hold every speaker exactly once; 0 where none do."""
    once = (np.cumsum(member, axis=0) == 1).all(axis=1)
    return int(np.argmax(once)) + 1 if once.any() else 0


def _scaled_parts(chunks: Chunks, standard: Standard) -> Iterator[tuple[slice, Tensor]]:
    """Yield a slice of token numbers and their vectors, centred and scaled."""
    # In float32, which the probes work in: a shift by its rounding is harmless.
    mean, scale = (torch.from_numpy(side.astype(np.float32)) for side in (standard.mean, 1 / standard.scale))
    read = 0
    for part in chunks():
        yield slice(read, read + len(part)), (torch.from_numpy(part) - mean) * scale
        read += len(part)


def _moments(design: Design, chunks: Chunks, standard: Standard, masks: list[Bools]) -> list[ClassMoments]:
    """Sum the moments of several sets of tokens by fold, one record a set."""
    found = [ClassMoments.empty(design.folds, design.classes, len(standard.mean)) for _ in masks]
    fold = np.where(design.phones >= 0, design.fold[design.speakers], -1)
    for rows, values in _scaled_parts(chunks, standard):
        labels = torch.from_numpy(design.phones[rows])
        for mask, moments in zip(masks, found, strict=True):
            for k in range(design.folds):
                chosen = torch.from_numpy(np.flatnonzero(mask[rows] & (fold[rows] == k)))
                if len(chosen):
                    moments.add(k, values[chosen], labels[chosen])
    return found


def _logistic(design: Design, chunks: Chunks, standard: Standard) -> _Probes:
    values = torch.cat([part for _, part in _scaled_parts(chunks, standard)])
    labels, folds = torch.from_numpy(design.phones), range(design.folds)
    fold = np.where(design.phones >= 0, design.fold[design.speakers], -1)
    training = [(fold >= 0) & (fold != k) for k in folds]

    def fit(mask: Bools | None) -> list[Probe]:
        sets = [np.flatnonzero(rows if mask is None else rows & mask) for rows in training]
        return _softmax(values, labels, sets, design.mix)

    parts: list[list[list[Probe]]] = [[], [], []]
    everyone = fit(None)
    for group, inside in enumerate(design.member):
        own = inside[design.speakers]
        for part, mask in zip(parts, (design.matched[group], own, ~own), strict=True):
            part.append(fit(mask))
    return _Probes(everyone, *([[part[group][k] for group in range(len(part))] for k in folds] for part in parts))


def _softmax(values: Tensor, labels: Tensor, sets: list[NDArray[np.intp]], mix: Floats) -> list[Probe]:
    """Fit one softmax probe on each set of tokens, as many at once as memory allows.

    The vectors keep the scale of the layer, so that one penalty means the same for every probe: scaled by the spread of
    its own tokens, the probe of a group that keeps together would be shrunk less than one of everyone.
    """
    classes, wanted = len(mix), torch.from_numpy(mix).float()
    longest, width = max(max(map(len, sets)), 1), values.shape[1]
    step = max(1, BATCH_VALUES // (longest * width))
    found: list[Probe] = []
    for start in range(0, len(sets), step):
        part = sets[start : start + step]
        longest = max(map(len, part))
        features = torch.zeros((len(part), longest, width))
        targets, shares = torch.zeros((len(part), longest), dtype=torch.long), torch.zeros((len(part), longest))
        means = torch.zeros((len(part), width))
        for row, chosen in enumerate(part):
            mine = values[torch.from_numpy(chosen)]
            # The bias is not penalised: a shift changes no answer, and the fit converges sooner near the origin.
            means[row] = mine.mean(0)
            features[row, : len(chosen)] = mine - means[row]
            targets[row, : len(chosen)] = labels[torch.from_numpy(chosen)]
            shares_seen = torch.bincount(targets[row, : len(chosen)], minlength=classes).clamp_min(1) / len(chosen)
            shares[row, : len(chosen)] = (wanted / shares_seen)[targets[row, : len(chosen)]]
        weights, biases = softmax_probe(features, targets, classes, shares=shares)
        biases = biases - (means[:, None] @ weights)[:, 0]
        found += list(zip(weights, biases, strict=True))
    return found


def _count(design: Design, probes: _Probes, chunks: Chunks, standard: Standard) -> Hits:
    people, classes, groups = design.member.shape[1], design.classes, len(design.member)
    hits = [np.zeros(people * classes) for _ in range(1 + 3 * groups)]
    cells = design.speakers * classes + design.phones
    fold = np.where(design.phones >= 0, design.fold[design.speakers], -1)
    for rows, values in _scaled_parts(chunks, standard):
        for k in range(design.folds):
            chosen = np.flatnonzero(fold[rows] == k)
            if not len(chosen):
                continue
            tokens, x = chosen + rows.start, values[torch.from_numpy(chosen)]
            jobs = [(0, probes.everyone[k], np.ones(len(chosen), dtype=bool))]
            for group in range(groups):
                inside = design.member[group][design.speakers[tokens]]
                jobs.append((1 + group, probes.matched[k][group], np.ones(len(chosen), dtype=bool)))
                jobs.append((1 + groups + group, probes.inside[k][group], inside))
                jobs.append((1 + 2 * groups + group, probes.outside[k][group], inside))
            for index, (weights, biases), who in jobs:
                right = _right(x, weights, biases, design.phones[tokens], who)
                hits[index] += np.bincount(cells[tokens[who]], weights=right, minlength=people * classes)
    trials = np.bincount(cells[fold >= 0], minlength=people * classes).astype(np.float64)
    shape = (people, classes)
    stacked = np.stack(hits[1:]).reshape(3, groups, *shape) if groups else np.zeros((3, 0, *shape))
    return Hits(
        trials=trials.reshape(shape),
        everyone=hits[0].reshape(shape),
        matched=stacked[0],
        inside=stacked[1],
        outside=stacked[2],
    )


def _right(x: Tensor, weights: Tensor, biases: Tensor, phones: Ints, who: Bools) -> Floats:
    mine = x if who.all() else x[torch.from_numpy(np.flatnonzero(who))]
    best = (mine @ weights + biases).argmax(1).numpy()
    right: Floats = (best == phones[who]).astype(np.float64)
    return right


def mean_hits(repeats: Iterable[Hits]) -> Hits:
    """Return the mean over repetitions, of which one is held at a time."""
    names = ("trials", "everyone", "matched", "inside", "outside")
    sums: dict[str, Floats] = {}
    count = 0
    for one in repeats:
        count += 1
        sums = {name: getattr(one, name) + sums.get(name, 0.0) for name in names}
    return Hits(**{name: values / count for name, values in sums.items()})
