"""Classifiers that tell members from non-members by the points alone, without any audited model.

Where they can, an attack's success may say nothing about the model: a shift between the two sets explains it as well.
Classifiers learn from the folds before a fold and score it. Cross-validation would score every point, but its folds
learn from one another's points: where nothing tells the sides apart, the area under the curve of 500 and 500 digits
then varies 1.6 times as much as the points alone make it, and an interval that takes them for independent is wrong. In
one direction each fold is new given those before it, so that the interval holds.
"""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression

from probes.core.errors import InputError
from probes.core.progress import Progress, Silent
from probes.generators.attacks.samples import Points, Singles, check_widths, taken, width

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Floats = NDArray[np.float64]

FOLDS = 5
MOST = 20_000
"""Points of both sides together; of more, a random part with the same shares."""
COMPONENTS = 100
"""Directions of largest variance that the linear classifier sees."""
TREES = 200
_VALUES = 2**25
"""Values of all points together, 128 MiB, of which a few copies are held at once."""


def blind_scores(
    members: Points,
    nonmembers: Points,
    *,
    rng: np.random.Generator,
    most: int = MOST,
    progress: Progress | None = None,
) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Score members and non-members by classifiers trained on earlier folds of them.

    Both classifiers see the values themselves and four summaries of a point: mean, standard deviation, least and
    largest value. Within a fold scores are replaced by their ranks, so that folds can be put together.

    Parameters
    ----------
    rng
        Source of what is drawn: the part, the folds and the trees.
    most
        Points of both sides together that are used.

    Returns
    -------
    scores
        By classifier, `linear` and `trees`, each of shape (points,), the higher the likelier a member. Points of the
        first fold have none: both classifiers learn from them.
    member
        Which of the scored points are members, shape (points,).

    Raises
    ------
    InputError
        Where there are too few different points.
    """
    check_widths(members, nonmembers)
    given = len(members) + len(nonmembers)
    share = min(1.0, most / given, _VALUES / (given * width(members)))
    sides = [taken(side, max(FOLDS, int(share * len(side))), rng) for side in (members, nonmembers)]
    rows = np.concatenate(sides)
    member = np.repeat([True, False], [len(side) for side in sides])
    folds = _folds(_same(rows), member, rng)
    rows = np.concatenate([rows, _summaries(rows)], axis=1)
    return _cross_fitted(_shortened(rows, rng), rows, member, folds, rng, strength=0.01, progress=progress)


def blind_text_scores(
    texts: Sequence[str],
    member: NDArray[np.bool_],
    *,
    rng: np.random.Generator,
    most: int = MOST,
    progress: Progress | None = None,
) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Score texts by classifiers trained on earlier folds: by words and pairs of words, and by lengths and letters.

    Returns
    -------
    scores, member
        As of `blind_scores`.

    Raises
    ------
    InputError
        Where there are too few different texts.
    """
    # With scikit-learn's text features behind it, which points do not need.
    from audits.membership.text_separability import text_features

    share = min(1.0, most / len(texts))
    sides = [np.flatnonzero(member == kind) for kind in (True, False)]
    chosen = np.concatenate([np.sort(rng.permutation(one)[: max(FOLDS, int(share * len(one)))]) for one in sides])
    texts, member = [texts[at] for at in chosen], member[chosen]
    seen: dict[str, int] = {}
    folds = _folds(np.array([seen.setdefault(text, len(seen)) for text in texts]), member, rng)
    linear, trees = text_features(texts)
    return _cross_fitted(linear, trees, member, folds, rng, strength=1.0, progress=progress)


def _cross_fitted(
    short: "Singles | csr_matrix",
    rows: Singles,
    member: NDArray[np.bool_],
    folds: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    strength: float,
    progress: Progress | None,
) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Return the ranks within their fold of all points but those of the first, by classifiers of the folds before."""
    scores: dict[str, Floats] = {"linear": np.empty(len(rows)), "trees": np.empty(len(rows))}
    with (progress or Silent()).phase("Telling apart without the model", FOLDS - 1, "folds") as advance:
        for fold in range(1, FOLDS):
            test, train = np.flatnonzero(folds == fold), np.flatnonzero(folds < fold)
            linear = LogisticRegression(C=strength, class_weight="balanced", max_iter=1000)
            trees = ExtraTreesClassifier(
                TREES, min_samples_leaf=3, class_weight="balanced", random_state=int(rng.integers(2**31))
            )
            found = linear.fit(short[train], member[train]).decision_function(short[test])
            scores["linear"][test] = _ranks(found)
            scores["trees"][test] = _ranks(trees.fit(rows[train], member[train]).predict_proba(rows[test])[:, 1])
            advance(1)
    scored = folds > 0
    return {name: found[scored] for name, found in scores.items()}, member[scored]


def _same(rows: Singles) -> NDArray[np.int64]:
    """Return the index of the class of equal points to which each point belongs."""
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(hashlib.sha256(row.tobytes()).digest(), len(seen)) for row in rows])


def _folds(same: NDArray[np.int64], member: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a fold for each point: equal points in one, and members and non-members dealt out evenly."""
    sizes = np.bincount(same)
    members = np.bincount(same, weights=member)
    order = rng.permutation(len(sizes))
    # Members before others, and in each the largest heaps of equal points first: dealt in turn, folds come out even.
    order = order[np.lexsort((-sizes[order], 2 * members[order] < sizes[order]))]
    folds = np.empty(len(sizes), dtype=np.int64)
    folds[order] = np.arange(len(sizes)) % FOLDS
    first = member[folds[same] == 0]
    if len(sizes) < FOLDS or first.all() or not first.any():
        raise InputError(
            f"Too few different points for {FOLDS} folds.",
            where="members, nonmembers",
            hint=f"Give at least {2 * FOLDS} different ones of each side.",
        )
    return folds[same]


def _summaries(rows: Singles) -> Singles:
    """Return mean, standard deviation, least and largest value of each point, shape (points, 4)."""
    return np.stack([rows.mean(1), rows.std(1), rows.min(1), rows.max(1)], axis=1)


def _shortened(rows: Singles, rng: np.random.Generator) -> Singles:
    """Return standardised features for the linear classifier, of values no more than their principal components.

    All points serve for this, which is no leak: it knows nothing of who is a member.
    """
    spread = rows.std(0)
    usual: Singles = (rows - rows.mean(0)) / np.where(spread > 0, spread, 1)
    most = min(COMPONENTS, len(rows) // 4)
    # The last four columns are the summaries, which stay as they are.
    if usual.shape[1] <= most + 4:
        return usual
    kind = PCA(most, whiten=True, svd_solver="randomized", random_state=int(rng.integers(2**31)))
    return np.concatenate([kind.fit_transform(usual[:, :-4]), usual[:, -4:]], axis=1)


def _ranks(found: Floats) -> Floats:
    return np.asarray((rankdata(found) - 0.5) / len(found), dtype=np.float64)
