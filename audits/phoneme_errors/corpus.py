"""The speakers, groups and phones that take part, once the tokens are known.

A speaker who has several levels of an attribute counts as several, each with one. Phones are compared like with
like: only those that every compared group has enough tokens of take part.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audits.core.groups import ALL, GroupSet, group_sets
from audits.core.numbers import counted
from audits.core.records import Warning
from audits.phoneme_errors import Options
from audits.phoneme_errors.tokens import Tokens
from probes.core.errors import InputError
from probes.speech.phone_scatter import MIN_SPEAKERS

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
DOMINATING = 0.25
"""Share of a group's tokens from which one speaker is warned of."""
NOTHING_COMPARED = "nothing-compared"
SHARED = "phone not shared by all compared groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """The tokens as statistics see them: speakers, groups and phones.

    Parameters
    ----------
    phones, speakers
        Number of each token's phone among `phone_names`, -1 where it takes no part, and of its speaker; (tokens,).
    names, attributes
        Of each speaker.
    groups, member, rest
        Names of the compared groups; who is in each, and who in the others of its kind, shape (groups, speakers).
    by
        The attributes of each group.
    small
        Groups with too few speakers, and how many they have.
    dropped
        Phones that take no part, and how many tokens they have.
    several, people
        By how many the speakers outnumber the people, and the person behind each speaker, shape (speakers,).
    """

    phones: Ints
    speakers: Ints
    phone_names: tuple[str, ...]
    names: tuple[str, ...]
    attributes: tuple[Mapping[str, str], ...]
    groups: tuple[str, ...]
    by: tuple[str, ...]
    member: Bools
    rest: Bools
    small: Mapping[str, int]
    dropped: Mapping[str, int]
    several: int
    people: Ints

    @property
    def used(self) -> int:
        """Tokens that take part."""
        return int((self.phones >= 0).sum())

    @property
    def home(self) -> Ints:
        """Index of each speaker's group by the first attribute, -1 for none."""
        first = [row for row, by in enumerate(self.by) if by == self.by[0]]
        home = np.full(len(self.names), -1)
        for row in first:
            home[self.member[row]] = row
        return home

    def inside(self, group: str) -> Bools:
        """Return a mask of the speakers in a compared group, or of everyone, shape (speakers,)."""
        return np.ones(len(self.names), dtype=bool) if group == ALL else self.member[self.groups.index(group)]


def corpus_of(tokens: Tokens, options: Options) -> Corpus:
    """Return the speakers, the compared groups and the phones that they share.

    Raises
    ------
    InputError
        Where fewer than two phones are left.
    """
    for name in options.by:
        if np.array_equal(tokens.levels[name], tokens.phones) and len(tokens.level_names[name]) > 1:
            raise InputError(
                f"{name!r} has the phones themselves as its levels.",
                where="--by",
                hint="Name a column of the speakers, such as gender.",
            )
    codes = np.stack([tokens.speakers, *(tokens.levels[name] for name in options.by)])
    kinds, speakers = np.unique(codes, axis=1, return_inverse=True)
    speakers = speakers.ravel()
    attributes = tuple(
        {name: tokens.level_names[name][code] for name, code in zip(options.by, column[1:], strict=True)}
        for column in kinds.T.tolist()
    )
    sets = group_sets(attributes, options.by, max_order=options.max_order)
    groups, by, member, rest, small = _compared(sets, options.min_speakers)
    kept = _shared(tokens, speakers, member, options)
    index_of = np.full(len(tokens.phone_names), -1)
    index_of[kept] = np.arange(len(kept))
    counts = np.bincount(tokens.phones, minlength=len(index_of))
    people = [tokens.speaker_names[code] for code in kinds[0].tolist()]
    return Corpus(
        phones=index_of[tokens.phones],
        speakers=speakers,
        phone_names=tuple(tokens.phone_names[number] for number in kept),
        names=tuple(people),
        attributes=attributes,
        groups=groups,
        by=by,
        member=member,
        rest=rest,
        small=small,
        dropped={name: int(counts[n]) for n, name in enumerate(tokens.phone_names) if index_of[n] < 0},
        several=len(people) - len(set(people)),
        people=kinds[0],
    )


def group_warnings(corpus: Corpus, options: Options) -> list[Warning]:
    """Return the warnings about groups and phones."""
    found: list[Warning] = []
    for group, people in corpus.small.items():
        few = f"{group} has {counted(people, 'speakers')} and is not compared: that takes {options.min_speakers}."
        found.append(Warning(id="small-group", message=few, where={"group": group}))
    if not corpus.groups:
        text = f"No two groups have {options.min_speakers} speakers: nothing is compared."
        found.append(Warning(id=NOTHING_COMPARED, message=text))
    if corpus.dropped:
        shown = ", ".join(list(corpus.dropped)[:12]) + (", ..." if len(corpus.dropped) > 12 else "")
        text = (
            f"{counted(len(corpus.dropped), 'phones')} with {counted(sum(corpus.dropped.values()), 'tokens')} left "
            f"out, since not every compared group has {options.min_tokens} tokens by {MIN_SPEAKERS} speakers: {shown}."
        )
        found.append(Warning(id="phones-not-shared", message=text))
    tokens = np.bincount(corpus.speakers[corpus.phones >= 0], minlength=len(corpus.names))
    for group, inside in zip(corpus.groups, corpus.member, strict=True):
        largest = int(np.argmax(tokens * inside))
        share = tokens[largest] / max(tokens[inside].sum(), 1)
        if share > DOMINATING:
            text = (
                f"One speaker, {corpus.names[largest]}, has {share:.0%} of the tokens of {group}: its numbers are "
                "mostly that speaker's."
            )
            found.append(Warning(id="dominating-speaker", message=text, where={"group": group}))
    if corpus.several:
        text = (
            f"Some speakers have several levels of an attribute and count as a speaker for each, {corpus.several} more "
            "than there are. Intervals take these for different people."
        )
        found.append(Warning(id="speaker-in-several-groups", message=text))
    return found


def _compared(
    sets: list[GroupSet], least: int
) -> tuple[tuple[str, ...], tuple[str, ...], Bools, Bools, dict[str, int]]:
    names: list[str] = []
    by: list[str] = []
    inside: list[Bools] = []
    others: list[Bools] = []
    small: dict[str, int] = {}
    for groups in sets:
        masks = groups.masks
        enough = masks.sum(1) >= least
        small |= {groups.names[row]: int(masks[row].sum()) for row in np.flatnonzero(~enough).tolist()}
        if enough.sum() < 2:
            continue
        for row in np.flatnonzero(enough).tolist():
            names.append(groups.names[row])
            by.append(groups.by)
            inside.append(masks[row])
            others.append((groups.member >= 0) & ~masks[row])
    people = len(sets[0].member)
    stacked = [np.stack(part) if part else np.zeros((0, people), dtype=bool) for part in (inside, others)]
    return tuple(names), tuple(by), stacked[0], stacked[1], small


def _shared(tokens: Tokens, speakers: Ints, member: Bools, options: Options) -> list[int]:
    """Return the phones of which every compared group has enough tokens, of enough speakers."""
    people = int(speakers.max()) + 1
    counts = np.zeros((people, len(tokens.phone_names)))
    np.add.at(counts, (speakers, tokens.phones), 1)
    masks = np.concatenate([member, np.ones((1, people), dtype=bool)]).astype(np.float64)
    enough = (masks @ counts >= options.min_tokens) & (masks @ (counts > 0) >= MIN_SPEAKERS)
    kept: list[int] = np.flatnonzero(enough.all(0)).tolist()
    if len(kept) < 2:
        raise InputError(
            f"The compared groups share {counted(len(kept), 'phones')} of which each has {options.min_tokens} tokens "
            f"of {MIN_SPEAKERS} speakers.",
            where="--min-tokens",
            hint="Lower --min-tokens, raise --min-speakers so that small groups are not compared, or join phones"
            f"{' with --phone-map' if options.manifest else ' in the file'}.",
        )
    return kept
