"""What do the embeddings of all layers, and the audits that stand on them, cost beside the forward passes they need?

`one call` is the way of transformers' documentation: each clip goes through Wav2Vec2Model with `output_hidden_states`
once, and the mean over time of each layer is kept. `layer by layer` is the slow way, a run over all clips for each
layer anew, as where one layer is probed at a time: about as many times the work as there are layers. `miles` makes the
same vectors in one pass, in batches, and writes them to its cache and reads them back. `bare passes` runs the encoder
over the same batches and keeps nothing. `audit of speakers` and `audit of both` are what `miles audit-fairness`
measures (--tasks sid; sid and asr) with all layers, from clips to scores, in the time of which the bare passes are one
part. The encoder has random weights; all sides read and decode the clips.
"""

import argparse
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import race

WORDS = (
    *("house", "river", "green", "seven", "music", "paper", "stone", "light", "table", "water"),
    *("garden", "winter", "orange", "people", "window", "yellow", "silver", "morning", "evening", "bridge"),
    *("doctor", "market", "forest", "candle", "pencil"),
)
OPTIONS = {
    "clips": race.Option(20, 20, "of 2 to 4 s, at least 20"),
    "layers": race.Option(6, 2, "of the encoder"),
    "width": race.Option(768, 64, "of a layer"),
    "channels": race.Option(512, 32, "of the convolutions before the layers"),
}


def prepare(given: argparse.Namespace) -> None:
    """Write the clips and the encoder."""
    make_corpus(given.folder, given.clips)
    make_encoder(given.folder / "model", width=given.width, layers=given.layers, channels=given.channels)


def make_corpus(folder: Path, clips: int) -> None:
    """Write clips of 2 to 4 s, about ten a speaker: noise in the speaker's band, in bursts as long as syllables."""
    import numpy as np
    import soundfile

    rng = np.random.default_rng(0)
    rows = ["path,text,speaker,group"]
    people = max(5, clips // 10)
    for clip in range(clips):
        speaker = clip % people
        length = int(rng.integers(2 * 16000, 4 * 16000))
        spectrum = np.fft.rfft(rng.normal(size=length))
        frequency = np.fft.rfftfreq(length, 1 / 16000)
        spectrum *= np.exp(-(((frequency - 600 - 90 * speaker) / 500) ** 2))
        sound = np.fft.irfft(spectrum, length) * (1.2 + np.sin(np.arange(length) * 2 * np.pi * 4 / 16000))
        soundfile.write(folder / f"{clip:04d}.wav", 0.3 * sound / np.abs(sound).max(), 16000)
        text = " ".join(rng.choice(WORDS, int(rng.integers(3, 7))))
        rows.append(f"{clip:04d}.wav,{text},s{speaker:03d},{'ab'[speaker % 2]}")
    (folder / "manifest.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def make_encoder(folder: Path, *, width: int, layers: int, channels: int = 512) -> None:
    """Save a wav2vec2 of random weights; 768, 12 and 512 are those of the base size."""
    import torch

    from probes.core.library_imports import transformers

    hub = transformers()
    torch.manual_seed(0)
    config = hub.Wav2Vec2Config(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        conv_dim=(channels,) * 7,
    )
    hub.Wav2Vec2Model(config).save_pretrained(folder)
    hub.Wav2Vec2FeatureExtractor().save_pretrained(folder)


def planned(given: argparse.Namespace, tasks: tuple[str, ...] = ("sid",)) -> tuple[Any, Any, Any]:
    """Return inputs, options and context of an audit, with an empty cache."""
    from audits.asr_fairness import Options
    from audits.asr_fairness.inputs import check
    from audits.core.context import Cache, Context

    folder = given.folder
    options = Options(model=str(folder / "model"), manifest=folder / "manifest.csv", by=("group",), tasks=tasks)
    context = Context(cache=Cache(Path(tempfile.mkdtemp(dir=folder))))
    return check(options, context).inputs, options, context


def by_transformers(given: argparse.Namespace, *, at_once: bool) -> race.Job:
    """Take all layers from transformers, or one after the other."""
    import numpy as np
    import soundfile
    import torch

    from probes.core.library_imports import transformers

    hub = transformers()
    model = hub.Wav2Vec2Model.from_pretrained(given.folder / "model").eval()
    extractor = hub.Wav2Vec2FeatureExtractor.from_pretrained(given.folder / "model")
    clips = sorted(given.folder.glob("*.wav"))

    def states(clip: Path) -> Any:
        sound, rate = soundfile.read(clip, dtype="float32")
        values = extractor(sound, sampling_rate=rate, return_tensors="pt").input_values
        with torch.no_grad():
            return model(values, output_hidden_states=True).hidden_states

    def job() -> race.Result:
        layers = range(given.layers + 1)
        if at_once:
            kept = [[one[0].mean(0).numpy() for one in states(clip)] for clip in clips]
            return {"embeddings": np.stack([np.stack(one) for one in zip(*kept, strict=True)])}
        made = [[states(clip)[layer][0].mean(0).numpy() for clip in clips] for layer in layers]
        return {"embeddings": np.stack([np.stack(one) for one in made])}

    return job


def miles(given: argparse.Namespace) -> race.Job:
    """Take all layers at once, through the cache."""
    from audits.asr_fairness.layer_sets import items_of
    from probes.core.progress import Silent
    from probes.speech.activations import SpeechEncoder, batching_of, encoder_key
    from probes.speech.embeddings import Embeddings

    inputs, options, context = planned(given)
    device = {"device": "cpu", "dtype": "float32"}
    encoder = SpeechEncoder(inputs.folder, **device)

    def job() -> race.Result:
        # Its key counts the runs, lest a second one find the cache full.
        made = Embeddings(
            items_of(inputs.recordings),
            lambda: encoder,
            key={**encoder_key(inputs.folder, **device), "run": encoder.forwards},
            batching=batching_of(inputs.folder),
            cache=context.cache,
            largest=options.batch,
        )
        made.compute(Silent(), "Encoding", frames=False)
        return {"embeddings": made.pooled(range(made.depth())).numpy()}

    return job


def bare(given: argparse.Namespace) -> race.Job:
    """Run the encoder over the same batches."""
    import torch

    from audits.asr_fairness.layer_sets import items_of
    from probes.speech.activations import SpeechEncoder
    from probes.speech.embeddings import plan_batches

    inputs, options, _ = planned(given)
    encoder = SpeechEncoder(inputs.folder, device="cpu", dtype="float32")
    items = items_of(inputs.recordings)

    def job() -> race.Result:
        for batch in plan_batches(items, encoder.batching, largest=options.batch):
            prepared = encoder.inputs([items[index].read() for index in batch.items])
            with torch.inference_mode():
                encoder.model(**prepared, output_hidden_states=True)
        return {}

    return job


def audit(*tasks: str) -> race.Side:
    """Return a side that measures these tasks."""

    def side(given: argparse.Namespace) -> race.Job:
        from audits.asr_fairness.measure import measure

        def job() -> race.Result:
            inputs, options, context = planned(given, tasks)
            measure(options, inputs, context)
            return {}

        return job

    return side


def remarks(given: argparse.Namespace, found: race.Found) -> Iterator[str]:
    """Say how many times the bare passes each side takes."""
    for side in found if "bare passes" in found else ():
        if side != "bare passes":
            yield f"{side} / bare passes, CPU: {race.spread(race.ratios(found, side, 'bare passes'))}"


SIDES = {
    "miles": miles,
    "one call": partial(by_transformers, at_once=True),
    "layer by layer": partial(by_transformers, at_once=False),
    "bare passes": bare,
    "audit of speakers": audit("sid"),
    "audit of both": audit("sid", "asr"),
}

if __name__ == "__main__":
    race.main(
        __doc__, options=OPTIONS, sides=SIDES, prepare=prepare, remarks=remarks, packages=("transformers", "soundfile")
    )
