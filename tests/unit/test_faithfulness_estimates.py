"""Do estimates and findings of grounding hold where chance, a missing number or few runs could make them claim more?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from audits.core.context import Draft
from audits.faithfulness.estimates import estimates
from audits.faithfulness.findings import findings
from audits.faithfulness.measure import NOISY, REFERENCES, Counts, Planted
from audits.faithfulness.samples import Sample
from probes.texts.evidence import Evidence, Grounded


def sample(at: int, system: str = "one", **more: Any) -> Sample:
    given = {"id": str(at), "context_id": str(at), "pair": Grounded(Evidence(""), "x"), **more}
    return Sample(system=system, **given)


def judged(samples: Sequence[Sample], scores: Mapping[str, Any], **more: Any) -> Draft:
    draft = Draft(level=0.95, seed=0)
    counts = Counts(samples=tuple(samples), apart={}, scores=scores, **more)
    estimates(draft, counts)
    findings(draft, counts)
    return draft


def test_names_of_systems_that_do_not_differ_tell_nothing() -> None:
    found = []
    for seed in range(8):
        labels = np.random.default_rng(seed).random(320) < 0.5
        draft = judged([sample(at, f"system {at % 40}", label=bool(one)) for at, one in enumerate(labels)], {})
        found += draft.select("system_only_auc")
        assert "faithfulness.system_name" not in {claim.id for claim in draft.findings}
    assert abs(np.mean([row.value for row in found]) - 0.5) < 0.05


def test_names_of_systems_that_differ_tell_as_much_as_their_rates() -> None:
    labels = [at % 4 != place for place in (0, 4) for at in range(400)]
    draft = judged([sample(at, str(at // 400), label=one) for at, one in enumerate(labels)], {})
    # Of 400 and 300 faithful outputs and 100 others, all of the first system; halves differ a little in size.
    assert abs(draft.select("system_only_auc")[0].value - (400 + 300 / 2) / 700) < 1e-3


def test_decodes_are_judged_by_metrics_that_faithful_texts_have_no_score_of() -> None:
    rows = np.arange(20)
    spread = np.linspace(0, 1, 20)
    decodes = [
        Planted(corruption=NOISY, strength=alpha, rows=rows, scores={"parent_precision": spread - alpha})
        for alpha in (0.0, 0.5, 1.0, 0.0)
    ]
    draft = judged(
        [sample(at) for at in range(20)],
        {"parent_precision": spread},
        source=REFERENCES,
        faithful=rows,
        decodes=tuple(decodes),
    )
    assert len(draft.select("detection_auc", corruption=NOISY)) == 3
