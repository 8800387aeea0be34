"""Are several logs named, read and paired as their options say, and is what does not belong together refused?"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audits.certification import Options
from audits.certification.inputs import check
from audits.certification.named_logs import named, read_logs, together
from audits.core.context import Cache, Context
from audits.statistics.mean_intervals import claim_interval, claim_p
from audits.statistics.paired_shares import paired_difference
from probes.core.errors import InputError

HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime"


def log(path: Path, *rows: str, header: str = HEADER) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)


def predicted(path: Path, *rows: str) -> str:
    return log(path, *rows, header=HEADER.replace("radius\t", ""))


def checked(tmp_path: Path, *texts: str, **more: Any) -> Any:
    options = Options(**{"from_log": texts, "sigma": 0.5, **more})
    return check(options, Context(cache=Cache(tmp_path)))


def test_a_log_without_a_name_has_that_of_its_file(tmp_path: Path) -> None:
    odd = log(tmp_path / "sigma=0.5" / "x.tsv", "0\t1\t1\t0.3\t1\t1.0")
    assert named([odd, f"other={odd}"]) == [("x", Path(odd)), ("other", Path(odd))]


def test_one_log_of_certificates_is_audited_alone_and_keeps_its_setting(tmp_path: Path) -> None:
    path = log(tmp_path / "x.tsv", "0\t1\t1\t0.3\t1\t1.0")
    plan = checked(tmp_path, path)
    assert plan.settings == {"from_log": path} and plan.inputs.log is not None
    assert checked(tmp_path, f"name={path}").inputs.log.verdicts == plan.inputs.log.verdicts


def test_a_plan_of_several_names_their_files_and_keys(tmp_path: Path) -> None:
    first = log(tmp_path / "a.tsv", "0\t1\t1\t0.3\t1\t1.0", "1\t1\t-1\t0.0\t0\t1.0")
    second = log(tmp_path / "b.tsv", "1\t1\t1\t0.3\t1\t1.0", "2\t1\t1\t0.3\t1\t1.0")
    plan = checked(tmp_path, first, second, radii=("0.1",))
    assert [(source.role, source.items) for source in plan.data] == [("log", 2), ("log", 2)]
    assert plan.coordinates["log"] == ("a", "b") and plan.coordinates["against"] == ("a",)
    assert plan.coordinates["radius"] == (0.1,)
    assert (plan.inputs.given, plan.inputs.used) == (3, 1)
    assert "2 of 3 images are not in all logs and were left out." in plan.notes


@pytest.mark.parametrize(
    ("texts", "more", "where", "what"),
    [
        (["a=a.tsv", "a=b.tsv"], {}, "--from-log", "Two logs have the name 'a'"),
        (["=a.tsv"], {}, "--from-log", "is not NAME=FILE"),
        (["a="], {}, "--from-log", "is not NAME=FILE"),
        (["a\x1b=a.tsv", "b.tsv"], {}, "--from-log", "is not NAME=FILE"),
        ([f"{'x' * 41}=a.tsv"], {}, "--from-log", "is not NAME=FILE"),
        ([f"l{place}=a.tsv" for place in range(13)], {}, "--from-log", "more than 12"),
        (["a.tsv", "b.tsv"], {"log_sigma": ("c=0.5",)}, "--log-sigma", "No log has the name 'c'"),
        (["a.tsv", "b.tsv"], {"log_sigma": ("b",)}, "--log-sigma", "is not NAME=S"),
        (["a.tsv", "b.tsv"], {"log_sigma": ("b=-1",)}, "--log-sigma", "is not NAME=S"),
        (["a.tsv", "b.tsv"], {"sigma": None}, "--sigma", "no noise level"),
        (["a.tsv", "b.tsv"], {"family_wise": True}, "--family-wise", "cannot be made to hold together"),
        (["a.tsv", "p.tsv"], {}, "--from-log p.tsv", "It holds predictions, and another log certificates"),
        (["a.tsv", "far.tsv"], {}, "--from-log", "No image is in all of the logs"),
        (["a.tsv", "odd.tsv"], {}, "odd.tsv, idx 1", "has the label 7 here and 1 in a.tsv"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    texts: list[str], more: dict[str, Any], where: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ["0\t1\t1\t0.3\t1\t1.0", "1\t1\t1\t0.3\t1\t1.0"]
    for name in ("a.tsv", "b.tsv"):
        log(Path(name), *rows)
    log(Path("far.tsv"), "9\t1\t1\t0.3\t1\t1.0")
    log(Path("odd.tsv"), "1\t7\t1\t0.3\t0\t1.0")
    predicted(Path("p.tsv"), "0\t1\t1\t1\t1.0")
    with pytest.raises(InputError, match=what) as raised:
        checked(tmp_path, *texts, **more)
    assert raised.value.where == where and raised.value.hint


def test_predictions_need_no_sigma_and_have_no_radii(tmp_path: Path) -> None:
    path = predicted(tmp_path / "p.tsv", "0\t1\t1\t1\t0:00:01.5", "1\t2\t-1\t0\t2")
    logs = together(read_logs(Options(from_log=(path,))))
    assert not logs.certified and logs.radii == () and logs.logs[0].rule is None
    assert [(row.predict, row.correct, row.seconds) for row in logs.verdicts["p"]] == [(1, True, 1.5), (-1, False, 2.0)]


def test_radii_reach_as_far_as_the_log_of_the_most_noise(tmp_path: Path) -> None:
    paths = [log(tmp_path / f"{name}.tsv", "0\t1\t1\t0.3\t1\t1.0") for name in "ab"]
    logs = together(read_logs(Options(from_log=tuple(paths), sigma=0.1, log_sigma=("b=1",), n=1000)))
    assert max(logs.radii) == 2 and {one.rule.geometry.sigma for one in logs.logs if one.rule} == {0.1, 1.0}


def test_the_interval_of_paired_shares_covers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    held = wrong = 0
    for _ in range(400):
        first = rng.random(60) < 0.7
        # One in five changes sides, half of them each way: the truth is 0.7 * -0.2 + 0.3 * 0.2.
        second = np.where(rng.random(60) < 0.2, ~first, first)
        found = paired_difference(second, first)
        held += found.low <= -0.08 <= found.high
        same = paired_difference(first, np.where(rng.random(60) < 0.2, rng.permutation(first), first))
        wrong += same.p < 0.05
    assert held >= 370 and wrong <= 20


def test_paired_shares_at_the_edges() -> None:
    none = paired_difference(np.ones(9, dtype=bool), np.ones(9, dtype=bool))
    assert (none.value, none.p) == (0.0, 1.0) and -1 <= none.low < 0 < none.high <= 1
    whole = paired_difference(np.ones(9, dtype=bool), np.zeros(9, dtype=bool))
    assert whole.value == whole.high == 1.0 and whole.low > 0 and whole.p == pytest.approx(2 * 0.5**9)


def test_the_p_value_of_a_mean_is_the_level_at_which_its_interval_leaves_zero_out() -> None:
    values = np.random.default_rng(3).exponential(1.0, 30) - 0.6
    p = claim_p(values)
    for alpha, outside in ((p * 1.001, True), (p * 0.999, False)):
        ends = claim_interval(values, level=1 - alpha)
        assert ends is not None and (not ends[0] <= 0 <= ends[1]) == outside
    assert claim_p(np.zeros(5)) == claim_p(np.ones(5)) == 1.0
