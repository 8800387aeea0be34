"""What sentences call a layer or a part of the network, and how they count the images."""

from collections.abc import Mapping

from probes.classifiers.lipschitz_bound import LipschitzBound


def answered(wrong: int, images: int) -> str:
    """Return how many images have no radius since the answer to them is wrong, in words.

    >>> answered(0, 100), answered(1, 100)
    ('All 100 images are classified correctly.', '1 of 100 images is misclassified and has radius 0.')
    """
    if not wrong:
        return (
            f"All {images:,} images are classified correctly." if images > 1 else "The image is classified correctly."
        )
    return f"{misclassified(wrong, images)} and {'has' if wrong == 1 else 'have'} radius 0."


def misclassified(wrong: int, images: int) -> str:
    """Return how many images are misclassified, in words.

    >>> misclassified(1, 12), misclassified(8, 12)
    ('1 of 12 images is misclassified', '8 of 12 images are misclassified')
    """
    return f"{wrong:,} of {images:,} images {'is' if wrong == 1 else 'are'} misclassified"


def kinds_of(bound: LipschitzBound) -> dict[str, str]:
    """Return the class or function of each layer of a bound, by its name."""
    return {layer.name: layer.kind for layer in bound.layers}


def called(name: str, kinds: Mapping[str, str], *details: str) -> str:
    """Return what a sentence calls a layer or a part, with details of it in brackets.

    A layer of an nn.Sequential has only a number for a name; its kind is added.

    >>> kinds = {"conv1": "Conv2d", "3": "Linear"}
    >>> called("conv1", kinds, "4.01"), called("3", kinds), called("3", kinds, "2.00"), called("0", kinds)
    ('conv1 (4.01)', 'layer 3 (Linear)', 'layer 3 (Linear, 2.00)', 'part 0')
    """
    if _is_number(name) and name in kinds:
        details = (kinds[name], *details)
    return f"{word(name, kinds)} ({', '.join(details)})" if details else word(name, kinds)


def word(name: str, kinds: Mapping[str, str]) -> str:
    """Return the name of a layer or a part, with a noun before a number."""
    return f"{'layer' if name in kinds else 'part'} {name}" if _is_number(name) else name


def _is_number(name: str) -> bool:
    return name[:1].isdigit()
