"""Do the steps of the audits say what their inputs allow, and nothing where nothing honest can be said?"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from audited_points import inputs_of, labelled

from audits.certification import AUDIT as CERTIFY
from audits.certification import Options as CertifyOptions
from audits.core import runner
from audits.core.context import Cache, Context, Plan
from audits.core.detectable import Detectable
from audits.interference.detectable import _over_seeds
from audits.lipschitz.detectable import detectable as of_lipschitz
from audits.membership import Options as MembershipOptions
from audits.membership.detectable import detectable as of_membership
from audits.phoneme_errors.detectable import _random as variance_of
from audits.precision_recall.detectable import detectable as of_texts
from audits.scaling import Options as ScalingOptions
from audits.scaling.detectable import detectable as of_scaling
from audits.spectra.detectable import detectable as of_spectra
from audits.statistics.power_exact import area_above_half, rates_apart

HEAD = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(cache=Cache(tmp_path / "cache"))


def planned(inputs: Any) -> Plan:
    return Plan(inputs=inputs, subject=None, data=(), cost=())


def test_what_has_no_interval_has_no_effect(context: Context) -> None:
    assert of_lipschitz(None, planned(SimpleNamespace(images=None)), context) == ()  # type: ignore[arg-type]
    bare = SimpleNamespace(grids=(SimpleNamespace(),), scored=False, samples=9)
    assert of_spectra(None, planned(bare), context) == ()  # type: ignore[arg-type]
    assert of_scaling(ScalingOptions(rounds=0), planned(None), context) == ()
    (time,) = of_scaling(ScalingOptions(), planned(None), context)
    assert time.effect is None and "no size (9 rounds; " in time.line


def log(path: Path, label_of: Any, radius_of: Any, images: int = 60) -> str:
    rows = (f"{i}\t{label_of(i)}\t{label_of(i)}\t{radius_of(i):.3g}\t1\t0:00:01\n" for i in range(images))
    path.write_text(HEAD + "".join(rows))
    return str(path)


def certified(context: Context, *logs: str, sigma: str = "0.5") -> tuple[Detectable, ...]:
    options = CertifyOptions(from_log=logs, sigma=float(sigma))
    return runner.detectable(CERTIFY, options, runner.check(CERTIFY, options, context), context)


def test_a_log_tells_classes_that_have_enough_images(tmp_path: Path, context: Context) -> None:
    # 40 images of class 0, 16 of class 1, 90 of class 3, and 4 of class 2, which are too few.
    path = log(tmp_path / "a.tsv", lambda i: 0 if i < 40 else 1 if i < 56 else 2 if i < 60 else 3, lambda i: 0.3, 150)
    stated, classes = certified(context, path)
    assert stated.units == "150 images" and stated.effect is not None and 0.1 < stated.effect < 0.15
    assert classes.units.startswith("16 and 40 images") and "Bonferroni over 3," in classes.assuming
    assert classes.effect == rates_apart(0.5, (16, 40), 1 - 0.05 / 3)
    assert classes.needed is not None and classes.needed(classes.effect) == "16 and 40 images of these"


def test_two_logs_tell_how_often_they_differ_and_not_for_whom(tmp_path: Path, context: Context) -> None:
    base = log(tmp_path / "a.tsv", lambda i: 0, lambda i: 0.9)
    worse = log(tmp_path / "b.tsv", lambda i: 0, lambda i: 0.9 if i < 40 else 0.001)
    forth, back = certified(context, f"a={base}", f"b={worse}"), certified(context, f"b={worse}", f"a={base}")
    assert forth[0].effect == back[0].effect is not None
    assert "they differ on 33 % of the images; Holm over" in forth[0].assuming


def test_more_attacks_and_models_leave_less_to_be_shown(context: Context) -> None:
    pool = labelled(pytest.importorskip("numpy").arange(400) < 200)
    releases = tuple(
        SimpleNamespace(name=name, tiers=("samples", "generator"), denoiser=None, language=None, samples=None)
        for name in ("a", "b", "c")
    )
    one = of_membership(
        MembershipOptions(attack=("nearest",)), planned(inputs_of(pool, releases=releases[:1])), context
    )
    many = of_membership(MembershipOptions(), planned(inputs_of(pool, releases=releases)), context)
    assert one[0].effect is not None and many[0].effect is not None and one[0].effect < many[0].effect
    assert many[0].effect == area_above_half((100, 100), 1 - 2 * 0.05 / 6)
    assert many[0].needed is not None and one[0].needed is not None
    assert many[0].needed(many[0].effect) == "200 members, 200 non-members, half of which choose"
    assert one[0].needed(one[0].effect) == "200 members, 200 non-members"
    assert one[0].units == "200 members, 200 non-members" and many[0].units == "100 members, 100 non-members"
    assert "Holm over 6 models and accesses at most" in many[0].assuming and "Holm" not in one[0].assuming
    assert one[1].effect is not None and many[1].effect is not None and one[1].effect < many[1].effect


def test_shortfalls_share_the_error_and_pairs_are_asked_of_several(context: Context) -> None:
    def told(*names: str) -> tuple[Detectable, ...]:
        return of_texts(None, planned(SimpleNamespace(names=names, encoder=None, control=200, size=400)), context)  # type: ignore[arg-type]

    (alone,), (short, pair) = told("a"), told("a", "b")
    assert alone.effect is not None and short.effect is not None and pair.effect is not None
    assert pair.effect < alone.effect < short.effect and (alone.units, pair.units) == (
        "200 texts a side",
        "400 texts a side",
    )
    assert short.needed is not None and short.needed(short.effect) == "200 texts a side"


def test_more_seeds_show_less_and_cells_lend_each_other_their_spread() -> None:
    two, four = _over_seeds(2, 4, 0.05 / 12), _over_seeds(4, 4, 0.05 / 12)
    # Student's interval of one cell by itself, of two seeds, would ask for more than a hundred.
    assert four < two < 25 and four > 1.5


def test_few_tokens_of_a_speaker_leave_less_of_a_variance_to_be_shown() -> None:
    def size(tokens: int, people: int = 20) -> float:
        member = np.arange(3 * people) < people
        corpus: Any = SimpleNamespace(
            member=member[None], rest=~member[None], speakers=np.repeat(np.arange(3 * people), tokens),
            names=tuple(map(str, range(3 * people))), groups=("accent=north",),
        )  # fmt: skip
        effect = variance_of(corpus, 0, 0.95, "").effect
        assert effect is not None
        return effect

    assert size(4) > size(17) > size(1000) > size(1000, 60)
    # Calibration: with 20 speakers of 17 tokens a group 0.6 is shown in 80 of 100 (three tests), 0.2 in 13.
    assert 0.3 < size(17) < 0.6
