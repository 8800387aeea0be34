"""Laws of growth, and claims such as `operations=n,memory=n,state=const,time=n log n`."""

import re
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probes.core.errors import InputError

Floats = NDArray[np.float64]

QUANTITIES = ("operations", "bytes_moved", "memory", "state", "time")
ALIASES = {"flops": "operations", "peak_memory": "memory"}
MOST_POWER = 10
_NUMBER = r"\d+(?:\.\d+)?(?:/\d+)?"
_LOG = r"log(?:n|\(n\))"
_LAW = re.compile(
    rf"(?:1|const|constant|sqrt(?P<root>n|\(n\))|(?P<n>n)(?:\^(?P<power>{_NUMBER}|\({_NUMBER}\)|\{{{_NUMBER}\}}))?)?"
    rf"(?P<star>\*)?(?P<log>{_LOG})?"
)
_HINT = "Laws are const, log n, sqrt n, n, n log n, n^4/3, n^1.5, n^2, n^2 log n and so on."


@dataclass(frozen=True, slots=True)
class Law:
    """The law n^power (log n)^log, logarithms to base e.

    Examples
    --------
    >>> Law(1, 1).text, Law(Fraction(4, 3)).text, Law(0).text
    ('n log n', 'n^4/3', 'const')
    >>> Law(2).values([1, 2, 4]).tolist()
    [1.0, 4.0, 16.0]
    """

    power: float | Fraction
    log: int = 0

    @property
    def text(self) -> str:
        """The law as it is written in a claim."""
        fraction = Fraction(self.power).limit_denominator(1000)
        powers = {Fraction(0): "", Fraction(1, 2): "sqrt n", Fraction(1): "n"}
        short = fraction if fraction.denominator in (1, 3, 7) else f"{float(self.power):g}"
        words = [powers.get(fraction, f"n^{short}"), ("", "log n")[self.log] if self.log < 2 else f"log^{self.log} n"]
        return " ".join(filter(None, words)) or "const"

    def values(self, n: ArrayLike) -> Floats:
        """Return the law at lengths; the logarithm is taken of 2 at the least, so that none is 0."""
        sizes = np.asarray(n, np.float64)
        return np.asarray(sizes ** float(self.power) * np.log(np.maximum(sizes, 2)) ** self.log)

    def local_exponent(self, n: ArrayLike) -> Floats:
        """Return d log(law) / d log n, which is power + log / log n.

        >>> Law(1, 1).local_exponent([np.exp(4)]).tolist()
        [1.25]
        """
        return np.asarray(float(self.power) + self.log / np.log(np.maximum(np.asarray(n, np.float64), 2)))

    def outgrows(self, other: "Law") -> bool:
        """Tell whether the quotient of this law by another grows without bound."""
        return (float(self.power), self.log) > (float(other.power), other.log)


def read_law(text: str) -> Law:
    """Return the law that a text names; spaces make no difference.

    Raises
    ------
    InputError
        Of a text that names none.

    Examples
    --------
    >>> read_law("n^{4/3}"), read_law("n*log(n)"), read_law("1")
    (Law(power=Fraction(4, 3), log=0), Law(power=Fraction(1, 1), log=1), Law(power=Fraction(0, 1), log=0))
    """
    bare = re.sub(r"\s+", "", text).lower().replace("**", "^")
    bare = whole[1] if (whole := re.fullmatch(r"o\((.*)\)", bare)) else bare
    found = _LAW.fullmatch(bare)
    # A star stands between two factors, and a number stands alone.
    alone = found is not None and not found["root"] and not found["n"]
    if not bare or found is None or (found["star"] and (alone or not found["log"])):
        raise InputError(f"No law of growth: '{text.strip()}'.", where="--claim", hint=_HINT)
    if alone and found["log"] and bare != found["log"]:
        raise InputError(f"No law of growth: '{text.strip()}'.", where="--claim", hint=_HINT)
    if found["power"]:
        return Law(_power(found["power"].strip("(){}"), text), int(bool(found["log"])))
    power = Fraction(1, 2) if found["root"] else Fraction(1 if found["n"] else 0)
    return Law(power, int(bool(found["log"])))


def _power(digits: str, text: str) -> Fraction:
    top, _, bottom = digits.partition("/")
    if bottom and int(bottom) == 0:
        raise InputError(f"A power with a denominator of 0: '{text.strip()}'.", where="--claim", hint=_HINT)
    power = Fraction(top) / int(bottom or 1)
    if power > MOST_POWER:
        raise InputError(f"A power above {MOST_POWER}: '{text.strip()[:40]}'.", where="--claim", hint=_HINT)
    return power


def read_claims(text: str) -> dict[str, Law]:
    """Return the claimed law of each quantity that a text names.

    Raises
    ------
    InputError
        Of a quantity or law that is none, and of a quantity that is named twice.

    Examples
    --------
    >>> {name: law.text for name, law in read_claims("flops = n, time=n log n").items()}
    {'operations': 'n', 'time': 'n log n'}
    """
    claims: dict[str, Law] = {}
    for part in text.split(","):
        name, mark, law = (word.strip() for word in part.partition("="))
        quantity = ALIASES.get(name.lower(), name.lower())
        if not mark or quantity not in QUANTITIES:
            hint = f'Write QUANTITY=LAW, such as "operations=n,state=const"; quantities are {", ".join(QUANTITIES)}.'
            raise InputError(f"No claim on a quantity: '{part.strip()}'.", where="--claim", hint=hint)
        if quantity in claims:
            raise InputError(f"Two claims on {quantity}.", where="--claim", hint="Give one law for each quantity.")
        claims[quantity] = read_law(law)
    return claims
