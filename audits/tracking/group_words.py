"""Products in small groups: the elements of permutation and cyclic groups, their tables, and words of them."""

from collections.abc import Sequence
from functools import cache
from itertools import permutations

GROUPS = ("S3", "S5", "A5", "Z60", "Z2")
"""A5 and S5 are not solvable: no shortcut of constant depth to their products is known. The others have one."""

Permutation = tuple[int, ...]


@cache
def table(group: str) -> tuple[tuple[int, ...], ...]:
    """Return the product table of a group: `table[a][b]` is a, then b; element 0 is the identity.

    Permutations are in lexicographic order, and the product of a and b applies b first, as composed functions do.

    Examples
    --------
    >>> len(table("A5")), table("A5")[0][7], table("Z60")[59][2], table("Z2")
    (60, 7, 1, ((0, 1), (1, 0)))
    >>> sum(table("A5")[a][b] == table("A5")[b][a] for a in range(60) for b in range(60))
    300
    """
    if group.startswith("Z"):
        order = int(group[1:])
        return tuple(tuple((a + b) % order for b in range(order)) for a in range(order))
    elements = _elements(int(group[1:]), even=group[0] == "A")
    numbers = {element: number for number, element in enumerate(elements)}
    return tuple(tuple(numbers[tuple(a[at] for at in b)] for b in elements) for a in elements)


def fold(group: str, word: Sequence[int]) -> list[int]:
    """Return the running products of a word, from the left.

    >>> fold("Z60", [30, 40, 50])
    [30, 10, 0]
    """
    return fold_by(table(group), word)


def fold_by(products: Sequence[Sequence[int]], word: Sequence[int]) -> list[int]:
    """Return the running products of a word by a given table."""
    state, running = 0, []
    for letter in word:
        state = products[state][letter]
        running.append(state)
    return running


def _elements(size: int, *, even: bool) -> list[Permutation]:
    found = permutations(range(size))
    return [element for element in found if not even or _is_even(element)]


def _is_even(element: Permutation) -> bool:
    pairs = [(a, b) for at, a in enumerate(element) for b in element[at + 1 :]]
    return sum(a > b for a, b in pairs) % 2 == 0
