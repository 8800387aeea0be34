"""Sampling of candidates from a language model, in place of planned ones."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from audits.core.context import Context
from audits.precision_recall import Options
from audits.precision_recall.sides import Generation, Inputs, needed
from probes.core.errors import InputError
from probes.texts.text_files import TextSet
from probes.texts.text_words import count_words, first_words

if TYPE_CHECKING:
    from probes.texts.text_generation import Generated


def sample(generation: Generation, inputs: Inputs, options: Options, context: Context) -> Inputs:
    """Sample the missing texts; reduce the draws of every side where a candidate came out with fewer.

    Raises
    ------
    InputError
        Where too few of the sampled texts have a word.
    PartEnded
        Where another part has not sampled all of its texts.
    """
    from probes.texts.continuations import Continuations

    made = {
        name: Continuations(
            generation.folder,
            generation.prompts,
            sampling,
            seed=context.seed,
            batch=options.batch,
            device=context.device,
            dtype=context.dtype,
            cache=context.cache,
        )
        for name, sampling in generation.samplings
    }
    for name, texts in made.items():
        texts.write(context.progress, f"Sampling {name}", context.machines)
    context.machines.join()
    candidates = tuple(
        one
        if one.texts is not None
        else replace(one, texts=_sampled(one.name, made[one.name].read(), generation, inputs, options))
        for one in inputs.candidates
    )
    size = min(inputs.size, *(len(one.texts) for one in candidates if one.texts is not None))
    least = needed(inputs.settings)
    if size < least:
        raise InputError(
            f"Only {size:,} texts of a candidate have words; that takes {least}.",
            where="--generate",
            hint="Give more prompts, or look at what the model writes.",
        )
    return replace(inputs, candidates=candidates, size=size, control=min(inputs.control, size))


def _sampled(
    name: str, made: "Sequence[Generated]", generation: Generation, inputs: Inputs, options: Options
) -> TextSet:
    texts = [one.text if options.keep_prompt else one.continuation.strip() for one in made]
    most = inputs.settings.max_words
    cut = [text if most is None else first_words(text, most) for text in texts]
    kept = [number for number, text in enumerate(cut) if text]
    if not kept:
        raise InputError(
            f"None of the {len(texts):,} texts sampled at {name} has a word.",
            where="--generate",
            hint="Look at what the model writes: its end token may come first.",
        )
    words = np.array([count_words(texts[number]) for number in kept], dtype=np.int64)
    return TextSet(
        path=generation.folder.path,
        sha256=generation.folder.sha256,
        given=len(texts),
        places=generation.places[kept],
        texts=tuple(cut[number] for number in kept),
        embeddings=None,
        skipped={"empty text": len(texts) - len(kept)} if len(kept) < len(texts) else {},
        words=words,
        shortened=0 if most is None else int((words > most).sum()),
    )


def as_json_lines(generation: Generation, inputs: Inputs) -> bytes:
    """Return the sampled texts as JSON lines, which --candidate reads."""
    sampled = dict(generation.samplings)
    lines = [
        json.dumps({"candidate": one.name, "prompt": int(position), "text": text}, ensure_ascii=False)
        for one in inputs.candidates
        if one.name in sampled and one.texts is not None
        for position, text in zip(one.texts.places, one.texts.texts or (), strict=True)
    ]
    return "".join(f"{line}\n" for line in lines).encode("utf-8")
