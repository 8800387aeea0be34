"""The demo: four artificial languages, of two families in two scripts, that small encoders learn alone and in pairs.

Two are siblings in one script and help each other; all other pairs have another family or another script between them.
Where it is balanced all four are parts of one language: a model of two of them reads what a model of one reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from audits.core.context import Context
from audits.core.planted import Planted, findings_of, first_headline, rows
from audits.core.records import Report
from audits.core.wording import span
from audits.interference import Options
from audits.interference.synthetic_languages import make_language
from probes.core.hashing import sha256_json

VERSION = 1
"""Raised whenever the languages change, so that no old demo is taken for a new one."""
SIZE, HELD = 150_000, 20_000
"""Bytes of a language before what is there twice is left out, and of its held-out sentences."""
STEPS, BATCH, WINDOW, SEEDS = 100, 24, 64, 2
PART = STEPS * BATCH * WINDOW + 2 * HELD
"""Bytes of a part of the one language: no window is read twice, or two parts would be better than one."""
FAMILIES = ("Astric", "Borean")
LANGUAGES: Mapping[str, tuple[int, int, str]] = {
    "al1": (0, 0, "Latn"),
    "al2": (0, 1, "Latn"),
    "bl": (1, 0, "Latn"),
    "bc": (1, 0, "Cyrl"),
}
"""Number of the family, of the sibling, and script, by a code that begins with family and script."""
SIBLINGS = {"al1", "al2"}


def prepare(context: Context, *, balanced: bool = False) -> Options:
    """Write the four languages, or take them from the cache, and return the audit's options."""
    made_of = [VERSION, SIZE, PART, context.seed, balanced]
    folder = context.cache.examples(f"languages-{sha256_json(made_of)[:12]}")
    if not folder.is_dir():
        with context.cache.making(folder) as made:
            _write(made, _parts(context.seed) if balanced else _languages(context.seed))
    return Options(
        corpus=folder,
        budget="same-total" if balanced else "same-data",
        held_out=HELD,
        steps=STEPS,
        batch=BATCH,
        window=WINDOW,
        seeds=SEEDS,
    )


def _languages(seed: int) -> dict[str, list[bytes]]:
    made: dict[str, list[bytes]] = {}
    seen: set[bytes] = set()
    for code, (family, sibling, script) in LANGUAGES.items():
        sentences = make_language(SIZE, family=_family(seed, family), sibling=sibling, script=script, seed=seed)
        # Siblings have short sentences in common, which a model would have been trained on before it is judged.
        made[code] = [sentence for sentence in dict.fromkeys(sentences) if sentence not in seen]
        seen.update(sentences)
    return made


def _parts(seed: int) -> dict[str, list[bytes]]:
    count = len(LANGUAGES)
    # No sentence twice: what one part holds out, no other trains on.
    sentences = list(dict.fromkeys(make_language(int(1.1 * count * PART), family=_family(seed, 0), seed=seed)))
    return {code: sentences[index::count] for index, code in enumerate(LANGUAGES)}


def _family(seed: int, number: int) -> int:
    # Neighbouring seeds must not share a family.
    return len(FAMILIES) * seed + number + 1


def _write(folder: Path, languages: Mapping[str, Sequence[bytes]]) -> None:
    rows = ["code,name,script,family"]
    for code, sentences in languages.items():
        (folder / f"{code}.txt").write_bytes(b"".join(sentence + b"\n" for sentence in sentences))
        family, sibling, script = LANGUAGES[code]
        rows.append(f"{code},{FAMILIES[family]} {sibling + 1} ({script}),{script},{FAMILIES[family]}")
    (folder / "langs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def planted(report: Report, *, balanced: bool) -> Iterator[Planted]:
    """Yield who should help and who should hurt, with what the report shows of them."""
    effects = {(str(one.where["target"]), str(one.where["source"])): one for one in rows(report, "interference")}
    if balanced:
        found = [*findings_of(report, "interference.interference"), *findings_of(report, "interference.synergy")]
        seen = first_headline(found, "No pair is shown to help or to hurt.")
        what = "Nothing: all four are parts of one language."
        yield Planted(what=what, found=bool(found), seen=seen, real=False)
        return
    siblings = [one for pair, one in effects.items() if set(pair) == SIBLINGS]
    helped = [one for one in siblings if one.below(0.0)]
    seen = " ".join(
        f"Adding {one.where['source']} changes the loss of {one.where['target']} by {span(one)}." for one in siblings
    )
    yield Planted(what="al1 and al2 are siblings, and help each other.", found=len(helped) == 2, seen=seen)
    others = [one for pair, one in effects.items() if set(pair) != SIBLINGS]
    hurt = [one for one in others if one.above(0.0)]
    seen = f"{len(hurt)} of {len(others)} losses are shown to rise."
    what = "All other pairs differ in script or family, and hurt each other."
    yield Planted(what=what, found=0 < len(others) == len(hurt), seen=seen)
