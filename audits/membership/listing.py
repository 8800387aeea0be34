"""One row for each point and attack: who it is, its score, and what the points were used for."""

from collections.abc import Mapping, Sequence
from typing import Any

from audits.membership.pool import Pool
from audits.membership.scoring import Attack

MOST_ROWS = 200_000
"""Rows of records.csv; of more points, the first are listed, and a warning says so."""


def records_of(attacks: Sequence[Attack], pool: Pool) -> Sequence[Mapping[str, Any]]:
    """Return the rows, all points of one attack together."""
    each = max(1, MOST_ROWS // max(1, len(attacks)))
    several = any(one.where for one in attacks)
    rows: list[Mapping[str, Any]] = []
    for attack in attacks:
        scores, judged = attack.scores.tolist(), attack.judged.tolist()
        usable = None if attack.usable is None else attack.usable.tolist()
        for place in range(min(each, len(pool))):
            row: dict[str, Any] = {"model": attack.where["model"]} if several else {}
            row |= {
                "attack": attack.name,
                "tier": attack.tier,
                "point": pool.names[place],
                "member": int(pool.member[place]),
                "score": scores[place] if usable is None or usable[place] else "",
                "chooses": int(pool.chooses[place]),
                "judged": int(judged[place]),
            }
            rows.append(row)
    return rows


def shortened(attacks: Sequence[Attack], pool: Pool) -> int:
    """Return how many points of each attack are listed, where not all are; else 0."""
    each = max(1, MOST_ROWS // max(1, len(attacks)))
    return each if each < len(pool) else 0
