"""Does the audit find in real recordings what is known of them, and no more than they can show?"""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from audits.asr_fairness import AUDIT, Options
from audits.asr_fairness.inputs import check
from audits.asr_fairness.layer_sets import baseline_source, encode, encoded_items
from audits.asr_fairness.recordings import Inputs
from audits.asr_fairness.sid import SidDeal, count_sid, split_sid
from audits.core.context import Cache, Context
from audits.core.testing import drafted
from probes.core.library_imports import transformers

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
pytestmark = [pytest.mark.real, pytest.mark.usefixtures("one_thread")]


def manifest(corpus: str) -> Path:
    path = DATA / corpus / "manifest.csv"
    if not path.is_file():
        pytest.skip(f"{path} is absent: set MILES_TEST_DATA to the folder of the recordings")
    return path


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny wav2vec2 with random weights: as an encoder of speech it knows nothing."""
    hub = transformers()
    folder = tmp_path_factory.mktemp("encoder")
    config = hub.Wav2Vec2Config(
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=48,
        conv_dim=(16,) * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        hub.Wav2Vec2Model(config).save_pretrained(folder)
    hub.Wav2Vec2FeatureExtractor().save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_log_mel_speaker_errors_of_children_and_adults(encoder: Path, tmp_path: Path) -> None:
    options = Options(
        model=str(encoder),
        manifest=manifest("nonnative_english"),
        by=("gender", "age_band"),
        tasks=("sid",),
        folds=3,
    )
    context = Context(cache=Cache(tmp_path))
    inputs = check(options, context).inputs
    assert isinstance(inputs, Inputs) and len(inputs.recordings) == 636
    deals = split_sid(inputs.recordings, options, context)
    assert [(split.classes, split.enrolled) for split in deals] == [(106, (4, 4))] * options.repeats
    source = baseline_source(inputs, options)
    encode([source], inputs, options, context)
    layers = source.layer_set(encoded_items(inputs, options, source), context.cache, options.batch)
    counts = count_sid([[SidDeal(layer_set=layers, split=split, seed=0, control="") for split in deals]], context.cache)
    right = counts.hits[:, 0]
    assert right.mean() == pytest.approx(0.868, abs=0.04)
    people = [inputs.recordings[clip].clip.attributes for clip in counts.clips]
    for (gender, band), accuracy in {
        ("female", "child"): 0.729,
        ("male", "child"): 0.812,
        ("female", "adult"): 0.917,
        ("male", "adult"): 1.000,
    }.items():
        mine = np.array([person["gender"] == gender and person["age_band"] == band for person in people])
        assert mine.sum() == 24 * 6
        assert right[mine].mean() == pytest.approx(accuracy, abs=0.06), (gender, band)


def test_six_speakers_carry_no_judgement_of_their_accents(encoder: Path, tmp_path: Path) -> None:
    options = Options(
        model=str(encoder),
        manifest=manifest("spoken_digits"),
        by=("accent",),
        tasks=("sid",),
        folds=3,
        bootstrap=200,
        permutations=100,
    )
    context = Context(cache=Cache(tmp_path))
    draft = drafted(AUDIT, options, context)
    found = [finding.id for finding in draft.findings]
    assert "fairness.gap" not in found
    assert found.count("fairness.too-few-speakers") == 1
    assert not [estimate for estimate in draft.estimates if estimate.name.startswith("gap")]
    rates = {
        str(estimate.where["group"]): estimate
        for estimate in draft.estimates
        if estimate.name == "error_rate" and estimate.where["layer"] == -1
    }
    assert rates["all"].value < 0.2
    accents = [estimate for name, estimate in rates.items() if name.startswith("accent=")]
    assert len(accents) >= 4 and sum(estimate.n for estimate in accents) == 6
