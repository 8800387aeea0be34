"""Labels of texts whose list of slots was corrected afterwards, as in the cleaned E2E data (Dusek and others, 2019).

The corrected slots say what the text states, and the original ones what its author was given.
"""

from probes.texts.evidence import read_evidence


def e2e_labels(mr: str, orig_mr: str) -> tuple[bool, bool]:
    """Return whether the text adds a value that its author was not given, and whether it leaves out a slot.

    Of a slot that the correction names twice the last value counts, since such corrections are doubtful.

    >>> e2e_labels("name[Aromi], food[Thai]", "name[Aromi], food[Chinese], area[riverside]")
    (True, True)
    """
    said, given = (dict(read_evidence(slots, "slots").cells) for slots in (mr, orig_mr))
    return any(given.get(slot) != value for slot, value in said.items()), bool(given.keys() - said.keys())
