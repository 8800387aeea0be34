"""The demo: three recognisers whose errors depend on who speaks in a planted way.

Old speakers are really served worse; the accent of the west only looks so, since most of its speakers are old; and
one recogniser fails on one intersection.
"""

from collections.abc import Iterator

from audits.core.context import Context
from audits.core.planted import Planted, findings_of, first_headline, rows
from audits.core.records import Report
from audits.core.wording import listed
from audits.speaker_groups import Options
from audits.speaker_groups.transcripts import SYSTEMS, Corpus, write_corpus
from probes.core.hashing import sha256_json

VERSION = 1
"""Raised whenever the corpus changes, so that no old demo is taken for a new one."""


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Write the corpus and the transcripts, or take them from the cache, and return the audit's options."""
    folder = context.cache.examples(f"groups-{sha256_json([VERSION, context.seed, balanced])[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as made:
            write_corpus(made, seed=context.seed, balanced=balanced)
    corpus = Corpus(folder=folder, balanced=balanced)
    return Options(
        manifest=corpus.manifest,
        by=("accent", "age", "gender"),
        predictions=tuple(f"{name}={path}" for name, path in corpus.predictions.items()),
        control=("duration",),
    )


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield what is real, what only looks so, and the intersection, with what the report shows of them."""
    gaps = findings_of(report, "groups.gap")
    confirmed = findings_of(report, "groups.confirmed")
    if balanced:
        seen = first_headline(gaps + confirmed, "No gap is shown, and no group is confirmed.")
        what = "Nothing: who speaks has no effect on the errors."
        yield Planted(what=what, found=bool(gaps or confirmed), seen=seen, real=False)
        return
    old = [str(gap.where["system"]) for gap in gaps if gap.where["group"] == "age=old"]
    seen = f"A gap by age is shown for {listed(old)}." if old else "No gap by age is shown."
    yield Planted(what="All three recognisers err more on old speakers.", found=len(old) == len(SYSTEMS), seen=seen)
    spurious = [str(one.where["system"]) for one in findings_of(report, "groups.spurious", by="accent")]
    seen = f"Most of the gap by accent goes with age for {listed(spurious)}." if spurious else "No gap is called so."
    what = "The west only looks worse: most of its speakers are old."
    yield Planted(what=what, found=bool(spurious), seen=seen)
    group = "age=middle&gender=female"
    shown = [one for one in rows(report, "intersection_ratio", system="amber", group=group) if one.above(1.0)]
    cited = [one for one in findings_of(report, "groups.confirmed", system="amber") if one.evidence]
    found = [one for one in cited if any(report.estimates[index] in shown for index in one.evidence)]
    what = "amber alone fails on middle-aged women, an intersection."
    yield Planted(what=what, found=bool(found), seen=first_headline(found, "No finding names them."))
