"""Does a discriminator that tells samples from fresh data take a point for a sample?"""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from probes.attacks.samples import Points, blocks, check_widths, taken

Floats = NDArray[np.float64]

MOST = 20_000
"""Points of one side on which the network is trained; of more, a random part."""
HIDDEN, PASSES, DECAY = 256, 30, 1e-3


def discriminate(x: Points, samples: Points, reference: Points, *, rng: np.random.Generator) -> Floats:
    """Score points by the logit of a network trained on samples against reference points, shape (points,).

    The black-box attack of Hayes, Melis, Danezis and De Cristofaro (2019, "LOGAN", section 4.3), with data that the
    model has not seen as the other side. None of `x` may be among the reference.

    Parameters
    ----------
    rng
        Source of what is drawn: parts of large sets, first weights and the order of training.
    """
    check_widths(x, samples)
    check_widths(x, reference)
    made, real = (taken(side, MOST, rng) for side in (samples, reference))
    rows = np.concatenate([made, real])
    centre, spread = rows.mean(0, dtype=np.float64), rows.std(0, dtype=np.float64)
    # A coordinate that does not vary tells nothing, and one of another scale must not drown the others.
    scale = np.where(spread > 0, spread, 1.0)
    sides = np.repeat([1, 0], [len(made), len(real)])
    network = MLPClassifier(
        (HIDDEN,),
        alpha=DECAY,
        batch_size=min(128, len(rows)),
        learning_rate_init=1e-3,
        max_iter=PASSES,
        random_state=int(rng.integers(2**31)),
    )
    with warnings.catch_warnings():
        # The number of passes is fixed: a network trained to the end knows the samples by heart.
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit((rows - centre) / scale, sides)
    scores = np.empty(len(x))
    for place, own in blocks(x, 4096):
        scores[place] = _logits(network, (own - centre) / scale)
    return scores


def _logits(network: MLPClassifier, rows: Floats) -> Floats:
    """Return what stands before the logistic function, which would round the largest scores to one number."""
    inner, outer = network.coefs_
    found = np.maximum(rows @ inner + network.intercepts_[0], 0) @ outer + network.intercepts_[1]
    return np.asarray(found[:, 0], dtype=np.float64)
