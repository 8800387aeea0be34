"""Responsible benchmarking of recognisers (arXiv 2605.10615) against what miles finds of published ones.

Where the truth must be known, errors are drawn for the speakers of a real corpus, so that accent alone decides.
"""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from replicating import DATA, Claim, Found, Given, Paper, estimate, main, mean_of

from audits.statistics.binomial import clopper_pearson
from audits.statistics.poisson_gee import fit_poisson_gee
from audits.statistics.poisson_tests import coefficient_interval, wald_test
from audits.statistics.seeds import generator
from miles_cli import run
from probes.speech.word_errors import count_edits, normalise_all

FOLDER = DATA / "asr_predictions"
FIRST, SECOND = "amazon-en-US", "deepspeech-0.5.1"
BY = ("gender", "accent", "age")
SPREAD = 0.5  # of speakers' rates about that of their accent, as a share of it, in the drawn worlds
PAPER = Paper(
    "Responsible Benchmarking of Fairness for Automatic Speech Recognition",
    "Herron, Richard, Portet, Allauzen, Rossato (2026)",
    "2605.10615",
)
CORPUS = "Artie Bias Corpus, 1,712 clips of 969 speakers"
WORLDS = "errors drawn for its speakers from the rates of their accents, so that age has no effect"
CLAIMS = {
    "accent_spurious": Claim(
        says="A gap seen along one attribute, here accent, goes mostly with the speakers' other attributes.",
        source="abstract: single groups can misidentify who is treated badly; that most is above half is our border",
        measured="Share of the log ratio of errors, Indian to US accent, left with age and gender held fixed; "
        f"{FIRST}, {CORPUS}",
        below=0.5,
    ),
    "age_confounded": Claim(
        says="Part of a gap seen along one attribute, here age, goes with the speakers' other attributes.",
        source="abstract, as above",
        measured="Log ratio of errors, thirties to twenties, less the same with accent and gender held fixed; same "
        "system and clips",
        below=0,
    ),
    "misnamed": Claim(
        says="Looked at alone, an attribute without effect is found to matter, since it is tied to one that does.",
        source="abstract: spurious correlations between groups",
        measured=f"Share of worlds in which a test of age alone rejects at 0.05; {CORPUS}, {WORLDS}",
        above=0.05,
    ),
    "teased_out": Claim(
        says="Taking all attributes into account removes such false findings.",
        source="abstract: as fine-grained an analysis as possible, to tease out spurious correlations",
        measured="The same share, less that of a test of age with accent and gender held fixed, in the same worlds",
        above=0,
    ),
    "metric_difference": Claim(
        says="Of two systems one has the larger gap as a difference of rates, ...",
        source="abstract: metrics must be tailored to the hypothesis; the two systems and groups are our choice",
        measured=f"Rate on Indian less that on US speakers, {SECOND} less {FIRST}, paired by speaker",
        above=0,
    ),
    "metric_ratio": Claim(
        says="... and the smaller gap as a ratio, so that which is fairer depends on the metric.",
        source="as above",
        measured=f"Rate on Indian over that on US speakers, {SECOND} over {FIRST}, paired by speaker",
        below=1,
    ),
    "intersection": Claim(
        says="An intersection fares worse than its two groups lead to expect.",
        source="abstract: intersectional analysis; the intersection of the two groups with more errors is our choice",
        measured=f"Errors of Indian women over those that accent and gender lead to expect without it; {FIRST}, US and "
        "Indian speakers of known gender",
        above=1,
    ),
    "scarce": Claim(
        says="Many intersections have too few speakers to be judged.",
        source="a sentence of the paper on Fair-Speech, as quoted elsewhere; ten speakers and most are our borders",
        measured=f"Share of the intersections of gender, accent and age that occur with fewer than ten; {CORPUS}",
        above=0.5,
    ),
    "text": Claim(
        says="Complexity of the text is part of a gap between groups and must be controlled.",
        source="abstract and a summary by others: control of text complexity",
        measured=f"Log ratio of errors, Indian to US accent, less the same with words a clip, letters a word and the "
        f"share of words that occur once held fixed; {FIRST}",
        above=0,
    ),
    "recording": Claim(
        says="Quality of recording is part of a gap between groups and must be controlled.",
        source="a summary of the paper by others",
        untried="The corpus is here as transcripts, without its sound.",
    ),
}


def clips(*systems: str) -> pd.DataFrame:
    """Return the clips with words, errors of systems and the complexity of their text."""
    table = pd.read_csv(FOLDER / "manifest.csv", keep_default_na=False)
    table["clip"] = table["path"].str[:-4]
    texts = normalise_all(list(table["text"]), "basic")
    for system in systems:
        rows = pd.read_csv(FOLDER / "predictions" / f"{system}.tsv", sep="\t", quoting=3, keep_default_na=False)
        wrote = dict(zip(rows["path"].str[:-4], rows["prediction"], strict=True))
        said = normalise_all([wrote[one] for one in table["clip"]], "basic")
        table[f"errors_{system}"] = count_edits(texts, said, "word").errors
    words = [text.split() for text in texts]
    often = Counter(" ".join(texts).split())
    table["words"] = list(map(len, words))
    table["letters"] = [sum(map(len, text)) / len(text) for text in words]
    table["rare"] = [sum(often[word] == 1 for word in text) / len(text) for text in words]
    return table.drop(columns=["text", "native", "origin"])


def measured(given: Given) -> dict[str, Found]:
    table = clips(FIRST, SECOND)
    one = table.drop(columns=f"errors_{SECOND}").rename(columns={f"errors_{FIRST}": "errors"})
    pair = table[table["accent"].isin(["us", "indian"])]
    attributes = audit(given, one, BY)
    text = audit(given, one, ("accent",), control=["words", "letters", "rare"])
    indian_to_us = {"attribute": "accent", "level": "indian", "reference": "us"}
    return {
        "accent_spurious": Found.of(estimate(attributes, "share_left", **indian_to_us)),
        "age_confounded": Found.of(estimate(attributes, "attenuation", level="thirties", reference="twenties")),
        **drawn_worlds(given, one),
        "metric_difference": Found.of(estimate(audit(given, pair, ("accent",)), "gap_difference", system=SECOND)),
        "metric_ratio": ratio_of_ratios(given, pair),
        "intersection": intersection(given, pair),
        "scarce": scarce(one),
        "text": Found.of(estimate(text, "attenuation", **indian_to_us)),
    }


def audit(given: Given, table: pd.DataFrame, by: tuple[str, ...], **more: Any) -> Any:
    out = given.work / "-".join((*by, str(len(table))))
    more |= {"max_order": 1, "bootstrap": 200, "permutations": 100}
    return run("audit-groups", manifest=table, by=list(by), out=str(out), level=given.level, **more)


def model(table: pd.DataFrame, errors: Any, columns: list[Any]) -> Any:
    speakers = np.unique(table["speaker"], return_inverse=True)[1]
    design = np.column_stack([np.ones(len(table)), *columns]).astype(float)
    return fit_poisson_gee(np.asarray(errors, float), table["words"].to_numpy(float), design, speakers)


def last_ratio(given: Given, fit: Any) -> Found:
    value, low, high = np.exp(coefficient_interval(fit, np.eye(fit.coefficients.size)[-1], level=given.level))
    return Found(value, low, high, fit.clusters, "speakers", "Poisson GEE, clusters of speakers, Student t")


def ratio_of_ratios(given: Given, pair: pd.DataFrame) -> Found:
    both = pd.concat([pair, pair])
    second = np.repeat([0, 1], len(pair))
    indian = (both["accent"] == "indian").to_numpy()
    errors = np.concatenate([pair[f"errors_{system}"] for system in (FIRST, SECOND)])
    return last_ratio(given, model(both, errors, [second, indian, second * indian]))


def intersection(given: Given, pair: pd.DataFrame) -> Found:
    known = pair[pair["gender"].isin(["female", "male"])]
    indian, female = (np.array(known[name] == level) for name, level in (("accent", "indian"), ("gender", "female")))
    return last_ratio(given, model(known, known[f"errors_{FIRST}"], [indian, female, indian & female]))


def scarce(table: pd.DataFrame) -> Found:
    known = table[(table[list(BY)] != "").all(axis=1)]
    speakers = known.groupby(list(BY))["speaker"].nunique()
    return Found.exact(float((speakers < 10).mean()), len(speakers), "intersections", "exact count")


def levels(column: pd.Series, speakers: pd.Series) -> list[Any]:
    kept = column.where(column.map(speakers.groupby(column).nunique()).ge(10) & (column != ""), "few or unknown")
    return [(kept == level).to_numpy() for level in kept.value_counts().index[1:]]


def drawn_worlds(given: Given, table: pd.DataFrame) -> dict[str, Found]:
    """Test age, alone and with the rest held fixed, where accent alone decides the errors."""
    sums = table.groupby("accent")[["errors", "words"]].transform("sum")
    rates, words = (sums["errors"] / sums["words"]).to_numpy(), table["words"].to_numpy()
    speaker = np.unique(table["speaker"], return_inverse=True)[1]
    age, *others = (levels(table[name], table["speaker"]) for name in ("age", "accent", "gender"))
    columns, tested = [*age, *(one for other in others for one in other)], range(1, 1 + len(age))
    rejected = []
    for world in range(given.size(300, 4)):
        rng = generator(world, "replications", "worlds of accents")
        factor = rng.gamma(1 / SPREAD**2, SPREAD**2, speaker.max() + 1)
        errors = rng.poisson(rates * words * factor[speaker])
        rejected.append([wald_test(model(table, errors, made), tested) < 0.05 for made in (age, columns)])
    alone, fixed = np.array(rejected).T
    low, high = clopper_pearson(int(alone.sum()), len(alone), level=given.level)
    misnamed = Found(float(alone.mean()), low, high, len(alone), "worlds", "Clopper-Pearson")
    return {"misnamed": misnamed, "teased_out": mean_of(list(alone * 1.0 - fixed), given.level, "worlds")}


if __name__ == "__main__":
    main("intersectional_recognisers", PAPER, CLAIMS, measured)
