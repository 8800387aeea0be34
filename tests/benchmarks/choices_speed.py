"""What does scoring multiple choices by a language model cost here, beside lm-evaluation-harness, and how exactly?

The job: the log-likelihood of each of four options behind each prompt, in batches of --batch, by a small model of the
GPT-2 architecture with random weights, which is written into a folder. `miles` is `spell_options` and `score_options`,
as `miles tracking` takes them. `lm-eval` asks `HFLM.loglikelihood` of lm-eval 0.4.13 for all pairs of prompt and
option. Both load the folder before the clock starts. `--tokens 1` has options of one token, which either side reads off
one pass over a prompt; more tokens are scored here behind one pass over their prompt, there each behind a pass of its
own over prompt and option.

lm-eval's models need accelerate too. Who is nearer the truth? `by one pass each` is the model in float64, each prompt
and option a whole text of its own.
"""

import argparse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import race

SHOTS, TRUE = 4, 24
WORDS = ("apple", "bread", "chair", "dress", "flour", "glass", "horse", "lemon")
OPTIONS = {
    "prompts": race.Option(200, 8, "of four options each"),
    "tokens": race.Option(3, 2, "words of an option"),
    "batch": race.Option(8, 4, "prompts of miles, pairs of lm-eval at a time"),
    "layers": race.Option(4, 2, "of the model"),
    "width": race.Option(256, 32, "of the model"),
}


def asked(given: argparse.Namespace) -> list[tuple[str, list[str]]]:
    """Return prompts of a few sentences, and their options."""
    import numpy as np

    rng = np.random.default_rng(0)
    rows = []
    for _ in range(given.prompts):
        told = [f"The {one} stands beside the {two}." for one, two in rng.choice(WORDS, (SHOTS + 2, 2)).tolist()]
        told = told[: int(rng.integers(SHOTS, SHOTS + 3))]
        firsts = rng.permutation(WORDS)[:4].tolist()
        options = [" " + " ".join([first, *rng.choice(WORDS, given.tokens - 1).tolist()]) for first in firsts]
        rows.append((" ".join([*told, "Beside it stand the"]), options))
    return rows


def prepare(given: argparse.Namespace) -> None:
    """Write the model."""
    import torch

    from probes.core.library_imports import transformers
    from probes.texts.causal_lm import train_tokeniser

    tokeniser = train_tokeniser([" ".join(f"The {one} stands beside the {one}. Beside it stand the" for one in WORDS)])
    tokeniser.model_max_length = 512
    size = {"n_embd": given.width, "n_layer": given.layers, "n_head": 4, "n_positions": 512}
    config = transformers().GPT2Config(vocab_size=len(tokeniser), **size, bos_token_id=0, eos_token_id=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformers().GPT2LMHeadModel(config).save_pretrained(given.folder / "model")
    tokeniser.save_pretrained(given.folder / "model")


def opened(folder: Path, dtype: str) -> Any:
    """Return the model as miles holds it."""
    from probes.models.checkpoints import find_model
    from probes.texts.text_generation import CausalLM

    return CausalLM(find_model(str(folder / "model")), device="cpu", dtype=dtype)


def miles(given: argparse.Namespace) -> race.Job:
    """Score."""
    import torch

    from probes.texts.option_scores import score_options, spell_options

    rows, model = asked(given), opened(given.folder, "float32")

    def job() -> race.Result:
        spelled = [spell_options(model, prompt, options) for prompt, options in rows]
        parts = [score_options(model, spelled[at : at + given.batch]) for at in range(0, len(rows), given.batch)]
        return {"likelihoods": torch.cat(parts).numpy()}

    return job


def lm_eval(given: argparse.Namespace) -> race.Job:
    """Ask for all pairs."""
    import numpy as np

    from probes.core.library_imports import torchaudio

    # Whatever transformers has imports it, and without CUDA it does not load as it is.
    with suppress(ModuleNotFoundError):
        torchaudio()
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model = HFLM(
        pretrained=str(given.folder / "model"), device="cpu", dtype="float32", batch_size=given.batch, max_length=512
    )
    rows = asked(given)
    pairs = [(prompt, option) for prompt, options in rows for option in options]

    def job() -> race.Result:
        requests = [
            Instance(request_type="loglikelihood", doc={}, arguments=pair, idx=at) for at, pair in enumerate(pairs)
        ]
        found = model.loglikelihood(requests, disable_tqdm=True)
        return {"likelihoods": np.array([total for total, _ in found]).reshape(len(rows), -1)}

    return job


def remarks(given: argparse.Namespace, found: race.Found) -> Iterator[str]:
    """Say how far the likelihoods of each side are from those of whole texts in float64, and whose choices differ."""
    import numpy as np
    import torch

    model = opened(given.folder, "float64")
    rows = asked(given)[:TRUE]
    true = np.empty((len(rows), 4))
    with torch.inference_mode():
        for row, (prompt, options) in enumerate(rows):
            start = len(model.speller.whole(prompt))
            for column, option in enumerate(options):
                ids = torch.tensor([model.speller.whole(prompt + option)])
                logs = model.network(input_ids=ids).logits[0].log_softmax(-1)
                true[row, column] = logs[:-1].gather(1, ids[0, 1:, None])[start - 1 :].sum()
    yield f"by one pass each, float64, the first {len(rows)} prompts:"
    for side, taken in found.items():
        scores = taken[0].result["likelihoods"][: len(rows)]
        apart, other = np.abs(scores - true).max(), (scores.argmax(1) != true.argmax(1)).sum()
        yield f"    {side}: likelihoods apart by {apart:.1e} at the most, another choice in {other} prompts"


if __name__ == "__main__":
    race.main(
        __doc__,
        options=OPTIONS,
        sides={"miles": miles, "lm-eval": lm_eval},
        prepare=prepare,
        remarks=remarks,
        packages=("lm_eval", "transformers"),
    )
