"""How long does `miles audit-groups` take for a million clips, and how much memory?

Run `python tests/benchmarks/million_clips.py [--clips 200000,1000000]`. The clips are texts of 8 to 12 words of 20,000,
drawn by Zipf's law, by a speaker for each 50 clips; gender, accent and age are those of the speaker. A recogniser errs
on one word in ten, more for some speakers and for one accent. The command runs as a process of its own, with one
thread. The table shows wall seconds, CPU seconds, those of the system among them, and the peak of resident memory.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
WORDS, BLOCK, EACH = 20_000, 20_000, 50
LEVELS = {
    "gender": ("female", "male", "other"),
    "accent": ("us", "england", "indian", "scotland", "canada", "african"),
    "age": ("teens", "twenties", "thirties", "fourties", "fifties", "sixties"),
}
SHARES = {"gender": (0.45, 0.5, 0.05), "accent": (0.35, 0.25, 0.15, 0.1, 0.1, 0.05), "age": (1 / 6,) * 6}
RATE, SPREAD, WORSE = 0.1, 0.4, 1.5


def vocabulary(rng: np.random.Generator) -> list[str]:
    """Return invented words of two to nine letters."""
    letters = np.array(list("eeeeetttaaooiinnsshhrrddlcumwfgypbvk"))
    words = sorted({"".join(rng.choice(letters, rng.integers(2, 10))) for _ in range(WORDS)})
    rng.shuffle(words)
    return words


def heard(said: list[str], chance: np.ndarray, other: list[str], rate: float) -> list[str]:
    """Return what is written: of the errors 70 % are substitutions, 18 % deletions and 12 % insertions."""
    written: list[str] = []
    for word, drawn, wrong in zip(said, chance / rate, other, strict=True):
        if drawn >= 1:
            written.append(word)
        elif drawn < 0.7:
            written.append(wrong)
        elif drawn >= 0.88:
            written += [word, wrong]
    return written


def write(folder: Path, clips: int) -> None:
    """Write a manifest and the transcripts of one system."""
    rng = np.random.default_rng(0)
    words, people = vocabulary(rng), max(clips // EACH, 200)
    common = 1 / np.arange(1, len(words) + 1)
    levels = {name: rng.choice(known, people, p=SHARES[name]) for name, known in LEVELS.items()}
    rates = RATE * rng.lognormal(0, SPREAD, people) * np.where(levels["accent"] == "indian", WORSE, 1.0)
    speakers = rng.integers(people, size=clips)
    with (folder / "clips.csv").open("w", newline="") as one, (folder / "ours.csv").open("w", newline="") as two:
        manifest, transcripts = csv.writer(one), csv.writer(two)
        manifest.writerow(["path", "text", "speaker", *LEVELS])
        transcripts.writerow(["path", "prediction"])
        for start in range(0, clips, BLOCK):
            block = speakers[start : start + BLOCK]
            lengths = rng.integers(8, 13, len(block))
            ends = np.cumsum(lengths)
            said = rng.choice(len(words), ends[-1], p=common / common.sum())
            chance, other = rng.random(ends[-1]), rng.integers(len(words), size=ends[-1])
            for number, (who, end, length) in enumerate(zip(block.tolist(), ends, lengths, strict=True), start=start):
                part = slice(end - length, end)
                text = [words[at] for at in said[part]]
                path = f"clips/common_voice_en_{10_000_000 + number}.mp3"
                own = [levels[name][who] for name in LEVELS]
                manifest.writerow([path, f"{' '.join(text).capitalize()}.", f"speaker{who:06d}", *own])
                wrong = [words[at] for at in other[part]]
                transcripts.writerow([path, " ".join(heard(text, chance[part], wrong, min(rates[who], 0.8)))])


def measured(folder: Path) -> tuple[float, float, float, float]:
    """Return wall seconds, CPU seconds, those of the system among them, and peak MB of a run."""
    command = [sys.executable, "-m", "miles_cli", "audit-groups", str(folder / "clips.csv")]
    command += ["--predictions", f"ours={folder / 'ours.csv'}", "--by", "gender", "accent", "--out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MILES_CACHE": str(folder / "cache")}
    begun = time.perf_counter()
    with (folder / "output").open("w+") as output:
        process = subprocess.Popen(
            [*command, str(folder / "run"), "--force"],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise SystemExit(f"the run failed with {process.returncode}:\n{output.read()}")
    wall = time.perf_counter() - begun
    return wall, used.ru_utime + used.ru_stime, used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Read the options and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--clips", default="200000,1000000", help="how many, one number or several (default: %(default)s)"
    )
    given = parser.parse_args()
    print(f"load of the last minute {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print(f"{'clips':>10}{'wall s':>8}{'CPU s':>8}{'system s':>10}{'peak MB':>9}{'bytes a clip':>14}")
    for clips in (int(text) for text in given.clips.split(",")):
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), clips)
            wall, cpu, system, peak = measured(Path(name))
        print(
            f"{clips:>10,}{wall:>8.1f}{cpu:>8.1f}{system:>10.1f}{peak:>9.0f}{peak * 2**20 / clips:>14.0f}", flush=True
        )


if __name__ == "__main__":
    main()
