"""How far rounding may carry a result: bounds that follow from eps, condition and size, and not from one machine."""

import math
import sys

EPS = sys.float_info.epsilon
"""Distance from 1 to the next number of 64 bits."""


def transform_error(*sizes: int, condition: float = 1.0) -> float:
    """Bound the rounding of a Fourier transform and one back, float64, in the largest norm, for values up to 1.

    A transform of n values errs by a multiple of eps * log2(n) in the Euclidean norm (Higham 2002, Accuracy and
    Stability of Numerical Algorithms, theorem 24.2), and values up to 1 have a norm of sqrt(n) at most. A length that
    is prime goes through lengths of up to 4 n, and each library takes another way there: that is what differs between
    processors. The multiple is 4; the theorem's worst case is about 20.

    Parameters
    ----------
    sizes
        Lengths of the transforms, or all nodes of a field of several axes.
    condition
        What multiplies an error of the inputs, such as the wavenumber of a wave whose angle is rounded.

    Examples
    --------
    >>> round(transform_error(4) / EPS)
    32
    """
    n = max(*sizes, 1)
    return 4 * EPS * condition * math.sqrt(n) * math.log2(4 * n)
