"""Cross-validation splits of the two probes: over the clips within speakers, and over the speakers."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DEV_SHARE = 0.125
"""Share of the speakers that the CTC probe keeps for early stopping."""


def within_speakers(
    speakers: Sequence[str], hashes: Sequence[str], *, folds: int, least: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Split every speaker's clips over the folds, with an equal number of training clips per speaker.

    A speaker with more enrolment clips would be easier to recognise, and a group of such speakers would
    look better than it is.

    Parameters
    ----------
    hashes
        Content hash of each clip: it fixes the order in which clips are dealt out.
    least
        Speakers with fewer clips take no part.

    Returns
    -------
    fold that tests each clip, shape (clips,), -1 where the speaker takes no part; and the training clips
    of each fold
    """
    clips: dict[str, list[int]] = defaultdict(list)
    for index in sorted(range(len(speakers)), key=lambda index: (speakers[index], hashes[index])):
        clips[speakers[index]].append(index)
    fold = np.full(len(speakers), -1, dtype=np.int64)
    order: dict[str, list[int]] = {}
    taking_part = {speaker: own for speaker, own in sorted(clips.items()) if len(own) >= least}
    for number, (speaker, own) in enumerate(taking_part.items()):
        order[speaker] = [own[position] for position in rng.permutation(len(own))]
        for position, index in enumerate(order[speaker]):
            # Speakers start at different folds: else the first ones would test the odd clips of all of them.
            fold[index] = (position + number) % folds
    training = []
    for tested in range(folds):
        kept = [[index for index in own if fold[index] != tested] for own in order.values()]
        enrolled = min(len(own) for own in kept)
        training.append(np.array(sorted(index for own in kept for index in own[:enrolled]), dtype=np.int64))
    return fold, training


def across_speakers(
    speakers: Sequence[str], *, folds: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Split the speakers over the folds, so that no speaker is in training and test at once.

    Returns
    -------
    fold that tests each clip, shape (clips,); and whether each fold keeps the clip for early stopping,
    shape (folds, clips)
    """
    names = sorted(set(speakers))
    shuffled = [names[position] for position in rng.permutation(len(names))]
    fold_of = {name: position % folds for position, name in enumerate(shuffled)}
    fold = np.array([fold_of[name] for name in speakers], dtype=np.int64)
    ranked = [names[position] for position in rng.permutation(len(names))]
    dev = np.zeros((folds, len(speakers)), dtype=bool)
    for tested in range(folds):
        others = [name for name in ranked if fold_of[name] != tested]
        kept = set(others[: round(DEV_SHARE * len(others))])
        dev[tested] = [name in kept for name in speakers]
    return fold, dev
