from dataclasses import replace

import numpy as np

from audits.core.records import Estimate, Finding, Report
from audits.group_rates.details import pair_and_p
from audits.group_rates.rates import group_rates
from audits.statistics import SpeakerSums


def test_a_rate_counts_the_speakers_that_its_interval_rests_on() -> None:
    # The second speaker said nothing, and of what the first system heard there the second heard none.
    errors = np.array([[[2.0, 2.0]], [[1.0, 0.0]], [[1.0, 1.0]]])
    sums = SpeakerSums(errors=errors, hits=0 * errors, sizes=np.array([[10.0], [0.0], [10.0]]))
    ((first, second),) = group_rates(sums, level=0.95)
    assert (first.n, second.n) == (3, 2)


def test_a_cell_names_the_worst_and_the_best_group_and_the_p_value(sample_report: Report) -> None:
    common = {"method": "exact", "n": 9, "unit": "speakers"}
    where = {"by": "age", "metric": "wer"}
    rows = (
        Estimate(name="gap", value=0.1, where={**where, "kind": "absolute", "adjusted": "no"}, **common),
        Estimate(name="p_value", value=0.5, where={**where, "correction": "none"}, **common),
        Estimate(name="p_value", value=0.0025, where={**where, "correction": "holm"}, **common),
        Estimate(name="rate", value=0.3, where={"group": "age=old", "metric": "wer"}, **common),
        Estimate(name="rate", value=0.2, where={"group": "age=young", "metric": "wer"}, **common),
        Estimate(name="gap", value=0.0, where={"by": "accent"}, **common),
    )
    told = Finding(id="g", severity="low", statement="So.", evidence=(0, 2, 3, 4))
    report = replace(sample_report, estimates=rows, findings=(told,), warnings=(), gates=(), figures=())
    assert pair_and_p(report, 0) == "old against young · p = 0.0025"
    assert pair_and_p(replace(report, findings=()), 0) == "p = 0.0025"
    assert pair_and_p(report, 5) == ""
