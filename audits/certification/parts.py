"""The images that share numbers of their own: all of them, a class, or a group."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from audits.certification.certificates import Verdict
from audits.core.records import Coordinate

LEAST = 5
"""Images that a class or group needs for numbers of its own."""


@dataclass(frozen=True, slots=True)
class Part:
    """Images, and the keys of their estimates: none for all images."""

    where: dict[str, Coordinate]
    verdicts: tuple[Verdict, ...]


def parts(verdicts: Sequence[Verdict], names: Sequence[str], attributes: Mapping[str, Sequence[str]]) -> Iterator[Part]:
    """Yield all images, then each class, then each group, those with few images too."""
    yield Part({}, tuple(verdicts))
    labels = sorted({row.label for row in verdicts})
    if len(labels) > 1:
        for label in labels:
            mine = tuple(row for row in verdicts if row.label == label)
            yield Part({"label": class_name(label, names)}, mine)
    for column, levels in sorted(attributes.items()):
        for level in sorted(set(levels)):
            mine = tuple(row for row, own in zip(verdicts, levels, strict=True) if own == level)
            yield Part({"group": f"{column}={level}"}, mine)


def class_name(label: int, names: Sequence[str]) -> Coordinate:
    """Return the name of a class where it has one, its number otherwise."""
    return names[label] if 0 <= label < len(names) else label


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of classes, with the number where several share a name: ImageNet has two cranes.

    >>> distinct(["crane", "boat", "crane"])
    ('crane (0)', 'boat', 'crane (2)')
    """
    count = Counter(names)
    return tuple(f"{name} ({label})" if count[name] > 1 else name for label, name in enumerate(names))
