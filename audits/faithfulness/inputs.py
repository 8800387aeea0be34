"""The plan of the audit: outputs, contexts and models, checked before anything runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from audits.core.context import Context, Plan
from audits.core.records import Source, Subject, Warning
from audits.core.wording import many
from audits.faithfulness import Options
from audits.faithfulness.faithful_texts import faithful_texts
from audits.faithfulness.metrics import TAKEN, families_of
from audits.faithfulness.samples import DATASET, FIELDS, Sample, Wanted, read_samples, sentences_of
from probes.core.errors import InputError
from probes.files.table_sources import find_table, reported_path, sha256_table
from probes.models.checkpoints import ModelFolder, find_model

if TYPE_CHECKING:
    from probes.texts.grounded_prompts import Template


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the audit.

    Parameters
    ----------
    samples
        Outputs that metrics score.
    apart
        Outputs of a class of their own, such as empty ones, by reason.
    families
        Metrics that are computed here, by family.
    folders
        Of the models: model, nli, context_free.
    rates, alphas
        Shares of corrupted mentions, and of steps that are decoded without the context.
    """

    samples: tuple[Sample, ...]
    apart: Mapping[str, int]
    families: tuple[str, ...]
    folders: Mapping[str, ModelFolder]
    template: "Template | None"
    rates: tuple[float, ...]
    alphas: tuple[float, ...]


def check(options: Options, context: Context) -> Plan:
    """Check options, rows and models; write nothing.

    Raises
    ------
    InputError
        Where anything is wrong that the user can fix.
    """
    wanted = Wanted(
        columns=_columns(options.column),
        faithful=frozenset(options.faithful),
        by=tuple(dict.fromkeys(options.by)),
        scores=options.scores,
    )
    named = Counter(name.removeprefix("-") for name in options.scores)
    for name in [one for one, count in named.items() if count > 1 or one in TAKEN]:
        what = "is named twice" if named[name] > 1 else "is the name of a metric of this audit"
        raise InputError(f"{name!r} {what}.", where="--scores", hint="Give each column once, by a name of its own.")
    samples, table = read_samples(options.file, options.preset, wanted)
    if options.unit == "sentence":
        if options.scores:
            hint = "Leave out one of the two."
            raise InputError("--scores are of whole outputs, not of sentences.", where="--unit", hint=hint)
        samples = sentences_of(samples)
    used = tuple(sample for sample in samples if not sample.apart)
    apart = Counter(sample.apart for sample in samples if sample.apart)
    if not used:
        reasons = "; ".join(f"{count:,}: {reason}" for reason, count in apart.items())
        raise InputError(f"No output can be scored ({reasons}).", where=str(options.file), hint="Give outputs.")
    texts = any(sample.pair.output for sample in used)
    families = families_of(options, [sample.pair for sample in used]) if texts else ()
    if not (families or options.scores):
        hint = "Give a context and an output in each row, or columns of --scores."
        raise InputError("There is nothing to judge the outputs by.", where=str(options.file), hint=hint)
    folders = _folders(options)
    inputs = Inputs(
        samples=used,
        apart=dict(apart),
        families=families,
        folders=folders,
        template=_template(options.template) if options.model else None,
        rates=_shares(options.rates, "--rates", above=True),
        alphas=_shares(options.noisy, "--noisy") if options.noisy else (),
    )
    # A file beside the table counts too.
    own = find_table(options.file)
    paths = [options.file, *(path for path in table.sources if path not in own.files)]
    sources = tuple(
        Source(role="rows", path=reported_path(path), sha256=sha256_table(path), items=len(table.rows))
        for path in paths
    )
    return Plan(
        inputs=inputs,
        subject=_subject(folders.get("model")),
        data=sources,
        cost=_cost(options, inputs, context.seed),
        notes=table.notes,
        warnings=tuple(_warnings(inputs)),
    )


def _columns(entries: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in entries:
        name, separator, column = entry.partition("=")
        if not separator or name not in FIELDS or not column or name in found:
            hint = f"Such as --column context=knowledge; fields are {', '.join(FIELDS)}."
            raise InputError(f"{entry[:80]!r} is not FIELD=COLUMN, once for each field.", where="--column", hint=hint)
        found[name] = column
    return found


def _shares(texts: Sequence[str], flag: str, *, above: bool = False) -> tuple[float, ...]:
    found = []
    for text in texts:
        try:
            share = float(text)
        except ValueError:
            share = -1.0
        if not (0 < share <= 1 if above else 0 <= share <= 1):
            hint = f"Give numbers {'above 0' if above else 'from 0'} and at most 1, such as {flag} 0.1,0.5,1."
            raise InputError(f"{text[:40]!r} is no share.", where=flag, hint=hint)
        found.append(share)
    return tuple(sorted(set(found)))


def _template(path: Path | None) -> "Template":
    from probes.texts.grounded_prompts import Template, read_template

    return Template() if path is None else read_template(path)


def _folders(options: Options) -> dict[str, ModelFolder]:
    """Return the folders of the models that are named, each looked at before anything runs."""
    named = {"model": options.model, "context_free": options.context_free, "nli": options.nli}
    found = {role: find_model(name) for role, name in named.items() if name is not None}
    for role, folder in found.items():
        if role == "nli":
            from probes.texts.entailment import check_classifier

            check_classifier(folder)
        else:
            from probes.texts.text_generation import check_causal

            check_causal(folder)
    return found


def _subject(folder: ModelFolder | None) -> Subject | None:
    if folder is None:
        return None
    from probes.texts.text_generation import parameters_of

    return Subject(path=folder.reference, family=folder.family, sha256=folder.sha256, parameters=parameters_of(folder))


def _cost(options: Options, inputs: Inputs, seed: int) -> tuple[tuple[str, str], ...]:
    count = len(inputs.samples)
    lines = [
        ("outputs", f"{count:,} in {len({sample.context_id for sample in inputs.samples}):,} contexts"),
        ("metrics", ", ".join((*inputs.families, *options.scores))),
    ]
    texts = decoded = 0
    if inputs.families:
        source, rows, _ = faithful_texts(inputs.samples, options.plant, seed)
        kinds, rates, most = len(options.corrupt), len(inputs.rates), len(rows)
        planted = most * kinds * rates
        # Without noise twice, with two seeds.
        decoded = most * (2 + sum(alpha > 0 for alpha in inputs.alphas)) if inputs.alphas else 0
        of_each = f"{many(kinds, 'kind', 'kinds')} x {many(rates, 'rate', 'rates')} of each of {most:,} {source}"
        lines.append(("planted", f"at most {planted:,} changed texts: {of_each}"))
        lines.append(("beside them", f"each of the {most:,} texts as it is, and with the context of another one"))
        texts = count + planted + 2 * most + decoded
    if "cxmi" in inputs.families:
        lines.append(("forwards", f"2 of the language model for each of at most {texts:,} texts"))
    if "nli" in inputs.families:
        lines.append(("entailment", f"each sentence of at most {texts:,} texts against each chunk of its context"))
    if decoded:
        lines.append(("decodes", f"{decoded:,} of up to {options.max_new_tokens} tokens"))
    lines.append(("disk", "a few MB in the cache"))
    # Of one core: passages of 25 and outputs of 20 words; models of 124 million parameters, 300 tokens or one chunk.
    each = {"cxmi": 1.0 * _size(inputs.folders.get("model")), "nli": 0.3 * _size(inputs.folders.get("nli"))}
    seconds = texts * (0.0006 + sum(each[name] for name in each if name in inputs.families))
    if decoded:
        seconds += decoded * options.max_new_tokens * 0.03 * _size(inputs.folders["model"])
    lines.append(("time", f"about {seconds / 60:.1f} minutes" if seconds > 60 else "about a minute or less"))
    return tuple(lines)


def _size(folder: ModelFolder | None) -> float:
    """Return the parameters of a model in units of 124 million; small ones take time to call, too."""
    if folder is None:
        return 0.0
    from probes.texts.text_generation import parameters_of

    return max(parameters_of(folder) / 124e6, 0.005)


def _warnings(inputs: Inputs) -> list[Warning]:
    found = []
    datasets = {sample.groups[DATASET] for sample in inputs.samples if DATASET in sample.groups}
    if len(datasets) > 1:
        message = f"Numbers of all rows pool {len(datasets)} datasets, which may differ: read each of them by itself."
        found.append(Warning(id="pooled-datasets", message=message, where={}))
    for reason, count in inputs.apart.items():
        found.append(Warning(id="class-apart", message=f"{count:,} rows are not scored: {reason}.", where={}))
    labels = {sample.label for sample in inputs.samples} - {None}
    if len(labels) == 1:
        message = "All labels are alike, so that no metric can be judged by them."
        found.append(Warning(id="one-label", message=message, where={}))
    return found
