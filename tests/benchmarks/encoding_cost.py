"""What do the probes cost beside the forward passes that any layerwise audit needs?

Run `python tests/benchmarks/encoding_cost.py [--clips 100] [--runs 1]` on a quiet machine. Each job is a
process of its own; the jobs of a run are interleaved, and the table shows medians over the runs.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOBS = ("forward", "sid", "sid+asr")
WORDS = (
    *("house", "river", "green", "seven", "music", "paper", "stone", "light", "table", "water"),
    *("garden", "winter", "orange", "people", "window", "yellow", "silver", "morning", "evening", "bridge"),
    *("doctor", "market", "forest", "candle", "pencil"),
)


def make_corpus(folder: Path, clips: int) -> Path:
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
    manifest = folder / "manifest.csv"
    manifest.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return manifest


def make_encoder(folder: Path, *, width: int, layers: int) -> None:
    """Save a wav2vec2 of random weights; 768 and 12 are those of the base size."""
    import torch

    from probes.loading.guarded import transformers

    hub = transformers()
    torch.manual_seed(0)
    config = hub.Wav2Vec2Config(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 64, intermediate_size=4 * width
    )
    hub.Wav2Vec2Model(config).save_pretrained(folder)
    hub.Wav2Vec2FeatureExtractor().save_pretrained(folder)


def run_job(job: str, folder: Path) -> None:
    """Do one job and print its seconds, and its peak memory in MB, as JSON."""
    from audits.asr_fairness import Options
    from audits.asr_fairness.inputs import Inputs, plan
    from audits.asr_fairness.measuring import measure
    from audits.asr_fairness.stacks import items_of
    from audits.context import Cache, Context
    from probes.activations import SpeechEncoder, batching_of
    from probes.embeddings import plan_batches

    tasks = ("sid",) if job == "sid" else ("sid", "asr")
    options = Options(model=str(folder / "model"), manifest=folder / "manifest.csv", by=("group",), tasks=tasks)
    with tempfile.TemporaryDirectory() as cache:
        context = Context(cache=Cache(Path(cache)))
        inputs = plan(options, context).inputs
        assert isinstance(inputs, Inputs)
        start = time.perf_counter()
        if job == "forward":
            import torch

            encoder = SpeechEncoder(inputs.folder, device="cpu", dtype="float32")
            items = items_of(inputs.recordings)
            for batch in plan_batches(items, batching_of(inputs.folder), largest=options.batch):
                prepared = encoder._inputs([items[index].read() for index in batch.items])
                with torch.inference_mode():
                    encoder._model(**prepared, output_hidden_states=True)
        else:
            measure(inputs, options, context)
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak": peak}))


def measured(job: str, folder: Path) -> dict[str, float]:
    """Return what a job printed in a process of its own."""
    command = [sys.executable, __file__, "--job", job, "--folder", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(clips: int, runs: int, width: int, layers: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_corpus(folder, clips)
        make_encoder(folder / "model", width=width, layers=layers)
        found: dict[str, list[dict[str, float]]] = {job: [] for job in JOBS}
        for _ in range(runs):
            for job in JOBS:
                found[job].append(measured(job, folder))
    print(f"{clips} clips, encoder of {layers} x {width}, medians over {runs} runs")
    print(f"{'job':<10}{'seconds':>10}{'ratio':>8}{'lowest':>8}{'highest':>9}{'peak MB':>10}")
    for job in JOBS:
        seconds = [run["seconds"] for run in found[job]]
        ratios = [run["seconds"] / bare["seconds"] for run, bare in zip(found[job], found["forward"], strict=True)]
        peak = statistics.median(run["peak"] for run in found[job])
        print(
            f"{job:<10}{statistics.median(seconds):>10.1f}{statistics.median(ratios):>8.2f}"
            f"{min(ratios):>8.2f}{max(ratios):>9.2f}{peak:>10.0f}"
        )


def main() -> None:
    """Read the options."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=100, help="at least 20")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        run_job(given.job, given.folder)
    else:
        compare(given.clips, given.runs, given.width, given.layers)


if __name__ == "__main__":
    main()
