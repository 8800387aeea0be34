"""Do the rates, gaps and models of five published recognisers come out as computed by other means?

The figures known were made apart from this code: pooled rates by jiwer, a bootstrap over speakers, and a Poisson GEE of
statsmodels, on texts in lower case of which letters and apostrophes alone were kept.
"""

import csv
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

from audits.core.context import Cache, Context, Draft
from audits.core.records import Estimate
from audits.core.testing import drafted
from audits.speaker_groups import AUDIT, Options
from audits.speaker_groups.clips import Inputs
from audits.speaker_groups.inputs import check
from probes.speech.normalisers import Normaliser
from probes.speech.word_errors import count_edits, count_words, normalise

DATA = Path(os.environ.get("MILES_TEST_DATA") or Path(__file__).resolve().parents[2].parent / "shared" / "data")
FOLDER = DATA / "asr_predictions"
SYSTEMS = ("amazon-en-US", "amazon-en-IN", "google-en-US", "deepspeech-0.5.1", "deepspeech-0.6.0")
FIRST = SYSTEMS[0]
GROUPS = ("all", "gender=female", "gender=male", "accent=us", "accent=england", "accent=indian")
KNOWN = {
    "amazon-en-US": (0.2467, 0.2824, 0.2408, 0.1832, 0.2216, 0.3472),
    "amazon-en-IN": (0.3417, 0.3952, 0.3330, 0.3138, 0.3524, 0.3293),
    "google-en-US": (0.2536, 0.3144, 0.2428, 0.1870, 0.3056, 0.2925),
    "deepspeech-0.5.1": (0.4919, 0.5371, 0.4840, 0.4059, 0.4336, 0.6406),
    "deepspeech-0.6.0": (0.4251, 0.4864, 0.4134, 0.3523, 0.4002, 0.5541),
}
COLUMNS = 9
"""Of the known model: one, 2 accents, 1 gender, 4 ages, and the rest of the ages."""
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not FOLDER.is_dir(), reason=f"{FOLDER} is absent; MILES_TEST_DATA names another place"),
]
Rows = Sequence[Mapping[str, str]]


def plain(text: str) -> str:
    return " ".join(re.sub(r"[^a-z']", " ", text.lower().replace("\u2019", "'")).split())


def read(path: Path, delimiter: str) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        quoting = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        return list(csv.DictReader(file, delimiter=delimiter, quoting=quoting))


def write(path: Path, rows: Rows) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the files again with plain texts."""
    place = tmp_path_factory.mktemp("plain")
    manifest = [{**row, "text": plain(row["text"])} for row in read(FOLDER / "manifest.csv", ",")]
    write(place / "manifest.csv", manifest)
    for system in SYSTEMS:
        rows = read(FOLDER / "predictions" / f"{system}.tsv", "\t")
        write(place / f"{system}.tsv", [{**row, "prediction": plain(row["prediction"])} for row in rows])
    return place


def audit(folder: Path, options: Options) -> Draft:
    context = Context(cache=Cache(folder / "cache"))
    return drafted(AUDIT, options, context)


def only(folder: Path, name: str, **wanted: tuple[str, ...]) -> Path:
    """Write the manifest of the clips whose attributes are among those wanted."""
    rows = read(folder / "manifest.csv", ",")
    return write(folder / name, [row for row in rows if all(row[key] in levels for key, levels in wanted.items())])


def find(draft: Draft, name: str, **where: str) -> Estimate:
    """Return the one estimate of a name whose place has these words in it."""
    (found,) = [row for row in draft.estimates if row.name == name and where.items() <= row.where.items()]
    return found


@pytest.fixture(scope="module")
def five(folder: Path) -> Draft:
    predictions = tuple(f"{system}={folder / f'{system}.tsv'}" for system in SYSTEMS)
    return audit(
        folder,
        Options(
            manifest=folder / "manifest.csv",
            by=("gender", "accent"),
            predictions=predictions,
            normalise="none",
            max_order=1,
            permutations=100,
        ),
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_rates_of_groups_are_the_known_ones(five: Draft, system: str) -> None:
    for group, known in zip(GROUPS, KNOWN[system], strict=True):
        found = find(five, "rate", system=system, metric="wer", group=group)
        assert found.value == pytest.approx(known, abs=0.0005), group
    assert find(five, "rate", system=system, metric="wer", group="all").n == 969


@pytest.mark.parametrize(
    ("group", "low", "high", "naive", "slack"),
    [
        # The known ends are percentiles; those here reach further, the more so the more skewed the speakers are.
        ("accent=us", 0.160, 0.206, 0.040, 0.006),
        ("accent=england", 0.172, 0.278, 0.085, 0.0105),
        ("accent=indian", 0.305, 0.393, 0.073, 0.0105),
    ],
)
def test_intervals_are_those_over_speakers_not_over_clips(
    five: Draft, group: str, low: float, high: float, naive: float, slack: float
) -> None:
    found = find(five, "rate", system=FIRST, metric="wer", group=group)
    assert found.low is not None and found.high is not None
    assert low - slack <= found.low <= low + 0.006 and high - 0.006 <= found.high <= high + slack
    assert found.high - found.low > naive


def test_the_gap_of_two_accents_is_the_known_one(folder: Path) -> None:
    options = Options(
        manifest=only(folder, "two.csv", accent=("us", "indian")),
        by=("accent",),
        reference=("accent=us",),
        predictions=(f"{FIRST}={folder / f'{FIRST}.tsv'}",),
        normalise="none",
    )
    found = find(audit(folder, options), "gap_to_reference", metric="wer", group="accent=indian")
    assert found.where["reference"] == "accent=us"
    assert found.value == pytest.approx(0.164, abs=0.0005)
    # Known by resampling; Student's, of the pair's own degrees of freedom, are a little further.
    assert 0.105 <= found.low <= 0.116 and 0.214 <= found.high <= 0.225


def test_adjusted_ratios_are_those_of_the_known_model(folder: Path) -> None:
    options = Options(
        manifest=only(folder, "three.csv", accent=("us", "indian", "england"), gender=("female", "male")),
        by=("gender", "accent", "age"),
        reference=("accent=us", "gender=female"),
        predictions=(f"{FIRST}={folder / f'{FIRST}.tsv'}",),
        normalise="none",
        permutations=100,
        max_order=1,
    )
    draft = audit(folder, options)
    for attribute, level, known, error in (
        ("accent", "indian", 0.598, 0.090),
        ("accent", "england", 0.207, 0.135),
        # Of clips taken as independent; with those of a speaker taken as alike it is -0.327.
        ("gender", "male", -0.364, 0.114),
    ):
        found = find(draft, "rate_ratio", attribute=attribute, level=level, adjusted="yes")
        assert found.low is not None and found.high is not None and found.n == 564
        half = np.log(found.high / found.low) / 2
        assert np.log(found.value) == pytest.approx(known, abs=0.01), level
        # The known errors are not corrected for the pull of each speaker on the fit, nor for how few decide a level.
        assert error - 0.001 < half / t.isf(0.025, found.n - COLUMNS) < error + 0.02, level


@pytest.mark.parametrize(("system", "errors"), [("amazon-en-US", 41), ("google-en-US", 52)])
def test_quotation_marks_in_the_references_are_no_errors(system: str, errors: int) -> None:
    def bare(text: str) -> str:
        """Return the text without the apostrophes at the edges of words, made apart from the normaliser."""
        letters = re.sub(r"[^a-z0-9' ]", "", text.lower().replace("\u2019", "'").replace("\u2018", "'"))
        return " ".join(word.strip("'") for word in letters.split() if word.strip("'"))

    rows = read(FOLDER / "manifest.csv", ",")
    marked = [row for row in rows if re.search(r"(?<!\w)['\u2018]|['\u2019](?!\w)", row["text"])]
    heard = {row["path"][:-4]: row["prediction"] for row in read(FOLDER / "predictions" / f"{system}.tsv", "\t")}
    pairs = [(row["text"], heard[row["path"][:-4]]) for row in marked]
    found, wanted = (
        sum(count_words(rule(reference), rule(text)).errors for reference, text in pairs)
        for rule in (lambda text: normalise(text, "basic"), bare)
    )
    # With the marks as letters of their words, these were 50 and 59.
    assert (len(pairs), found, wanted) == (14, errors, errors)


def test_every_clip_of_the_original_files_meets_its_transcript(tmp_path: Path) -> None:
    predictions = tuple(f"{system}={FOLDER / 'predictions' / f'{system}.tsv'}" for system in SYSTEMS)
    options = Options(manifest=FOLDER / "manifest.csv", by=("gender", "accent", "age"), predictions=predictions)
    inputs = check(options, Context(cache=Cache(tmp_path))).inputs
    assert isinstance(inputs, Inputs)
    assert (len(inputs.clips), inputs.skipped) == (1712, ())
    assert {note.id for note in inputs.notes} == {"manifest.unknown"}, "unused transcripts"
    assert inputs.systems == SYSTEMS
    (clip,) = [place for place, row in enumerate(inputs.clips) if row.name == "common_voice_en_100738.mp3"]
    assert inputs.texts["google-en-US"][clip].startswith("the boy who swore that every time")
    assert inputs.texts[FIRST][clip].startswith("The boy saw that every time you hear the alarm")


def test_rates_by_the_leaderboards_normaliser_are_those_of_its_own_code(folder: Path) -> None:
    # Made with the code of the Open ASR Leaderboard and kaldialign 0.12.0: errors of 14,716 words of reference.
    known = {"google-en-US": 3604, "amazon-en-US": 3510, "amazon-en-IN": 4849, "deepspeech-0.5.1": 7062,
             "deepspeech-0.6.0": 6099}  # fmt: skip
    original = {Path(row["path"]).stem: row["text"] for row in read(FOLDER / "manifest.csv", ",")}
    normaliser = Normaliser("open-asr")
    for system, errors in known.items():
        heard = {
            Path(row["path"]).stem: row["prediction"] or ""
            for row in read(FOLDER / "predictions" / f"{system}.tsv", "\t")
        }
        references, transcripts = (
            normaliser.all(list(original.values())),
            normaliser.all([heard[name] for name in original]),
        )
        found = count_edits(references, transcripts, "word", compounds=True)
        assert (found.errors.sum(), found.lengths.sum()) == (errors, 14716), system
