"""A small world with an input for every audit, and a finished run of each, made once for all tests that want one."""

import contextlib
import csv
import io
import json
import os
import random
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock
import pytest
from drawn_once import drawn_once

ROOT = Path(__file__).resolve().parents[2]
FAIRNESS = ["audit-fairness", "encoder", "--manifest", "clips.csv", "--by", "gender", "accent", "--out", "runs/first"]
"""As on the page of audit-fairness."""
SLOPES = ["lipschitz", "net.safetensors", "--arch", "small_cnn", "--data", "images.npz", "--out", "runs/slopes"]
"""As on the page of lipschitz."""
CERTIFY = [
    *("certify", "net.safetensors", "--arch", "small_cnn", "--data", "images.npz", "--sigma", "0.25"),
    *("--n", "1000", "--radii", "0.1,0.25", "--out", "runs/certified"),
]
"""As on the page of certify, which then shows the finished run."""
SPECTRA = [
    *("spectra", "darcy.pt", "--data", "darcy.npz", "--train-resolution", "13", "--test-resolutions", "25,49"),
    *("--padding", "0", "--out", "runs/grids"),
]
"""As on the page of spectra."""
GROUPS = [
    *("audit-groups", "clips.csv", "--predictions", "ours=ours.tsv", "--by", "gender", "accent"),
    *("--out", "runs/groups"),
]
"""As on the page of audit-groups."""
PHONES = ["audit-phonemes", "tokens.csv", "--by", "dialect", "--out", "runs/phones"]
"""As on the page of audit-phonemes."""
TEXT_SETS = [
    *("precision-recall", "--reference", "human.jsonl", "--candidate", "fresh=fresh.jsonl"),
    *("--candidate", "cold=cold.jsonl", "--candidate", "hot=hot.jsonl", "--encoder", "tfidf", "--out", "runs/texts"),
]
"""As on the page of precision-recall."""
SUITE = [
    *("membership", "--members", "members.npy", "--nonmembers", "nonmembers.npy", "--reference", "reference.npy"),
    *("--suite", "suite.toml", "--attack", "nearest,domias,loss,sima,latent-search,discriminator"),
    *("--out", "runs/suite"),
]
"""As on the page of membership, where suite.toml stands too."""
CANARIES = [
    *("membership", "--scores", "canaries.npz", "--higher-is", "member", "--coin-flip", "0.5", "--epsilon", "1"),
    *("--out", "runs/canaries"),
]
"""As on the page of membership."""
LANGUAGES = [
    *("interference", "--losses", "losses.csv", "--similarity", "distances.csv", "--downstream", "tagging.csv"),
    *("--out", "runs/matrix"),
]
"""As on the page of interference."""
SHORT = [
    *("interference", "corpora", "--langs", "en,fr", "--steps", "20", "--hidden", "32", "--batch", "16"),
    *("--seeds", "2", "--workers", "1", "--out", "runs/short"),
]
"""As on the page of interference."""
TRACKING = [
    *("audit-tracking", "--items", "variables.csv", "--predictions", "ours=answers.csv", "--scoring", "choice"),
    *("--out", "runs/tracking"),
]
"""As on the page of audit-tracking."""
FAITHFULNESS = ["audit-faithfulness", "outputs.jsonl", "--plant", "60", "--out", "runs/faithfulness"]
"""As on the page of audit-faithfulness."""
GRADIENTS = ["audit-gradients", "--gradients", "saved", "--out", "runs/gradients"]
"""As on the page of audit-gradients."""
CONDITIONAL = [
    *("audit-conditional", "--data", "outcomes.npz", "--candidate", "ours=draws.npz", "--out", "runs/conditional")
]
"""As on the page of audit-conditional."""
SCALING = ["audit-scaling", "--from-csv", "cells.csv", "--claim", "time=n,memory=n", "--out", "runs/growth"]
"""As on the page of audit-scaling."""
BY_GENDER = [
    *("audit-fairness", "encoder", "--manifest", "clips.csv", "--by", "gender", "--tasks", "sid", "--layers", "0,4"),
    *("--bootstrap", "200", "--permutations", "100", "--out", "runs/second"),
]
"""A smaller run than the first, to be compared with it."""
RUNS = (
    *(
        FAIRNESS,
        BY_GENDER,
        CERTIFY,
        SLOPES,
        SPECTRA,
        GROUPS,
        PHONES,
        TEXT_SETS,
        SUITE,
        CANARIES,
        LANGUAGES,
        SHORT,
        TRACKING,
        FAITHFULNESS,
        GRADIENTS,
        SCALING,
        CONDITIONAL,
    ),
)
"""Every run of the small world; the last words are `--out` and its folder."""
ONE_EACH = {
    "audit-conditional": CONDITIONAL,
    "audit-fairness": FAIRNESS,
    "audit-faithfulness": FAITHFULNESS,
    "audit-gradients": GRADIENTS,
    "audit-groups": GROUPS,
    "audit-phonemes": PHONES,
    "audit-scaling": SCALING,
    "audit-tracking": TRACKING,
    "certify": CERTIFY,
    "interference": SHORT,
    "lipschitz": SLOPES,
    "membership": SUITE,
    "precision-recall": TEXT_SETS,
    "spectra": SPECTRA,
}
"""A run of every audit, by the name of its command."""
PICTURES = "pictures"
"""Link beside the folder of a run, to where the pictures of charts are kept that are drawn once for all."""
COUNTS = ["audit-groups", "counts.csv", "--by", "accent", "age", "gender", "--bootstrap", "200"]
TEXTS = ("no go up so we do at", "up at no do so we go", "we do so at up go no")
_SUITE = re.compile(r'^```toml title="suite.toml"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Outcome:
    """How a call of miles ended; `out` is what went to stdout and stderr."""

    code: int
    out: str


def call(words: list[str], folder: Path) -> Outcome:
    """Run the command line in this process, which saves the imports; the cache lies beside the folder.

    Where there are `PICTURES` beside it, charts are taken from there that were drawn before.
    """
    from miles_cli.main import main

    heard, pictures = io.StringIO(), folder.parent / PICTURES
    drawing = drawn_once(pictures) if pictures.exists() else contextlib.nullcontext()
    with pytest.MonkeyPatch.context() as patch, drawing:
        for name, value in (("MILES_CACHE", str(folder.parent / "cache")), ("HF_HUB_OFFLINE", "1"), ("COLUMNS", "200")):
            patch.setenv(name, value)
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["miles", *words])
        with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
            try:
                main()
                code: Any = 0
            except SystemExit as left:
                code = left.code
    return Outcome(code if isinstance(code, int) else int(code is not None), heard.getvalue())


def _encoder(folder: Path) -> None:
    import torch

    from probes.core.library_imports import transformers

    hub = transformers()
    symbols = ["<pad>", "|", *sorted({letter for text in TEXTS for letter in text} - {" "})]
    config = hub.Wav2Vec2Config(
        hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=24, conv_dim=(8,) * 5,
        conv_kernel=(10, 3, 3, 3, 2), conv_stride=(5, 4, 2, 2, 2), feat_extract_norm="layer",
        do_stable_layer_norm=True, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, hidden_dropout=0,
        attention_dropout=0, feat_proj_dropout=0, layerdrop=0, mask_time_prob=0, vocab_size=len(symbols),
        pad_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        hub.Wav2Vec2ForCTC(config).save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps({symbol: place for place, symbol in enumerate(symbols)}))
    hub.Wav2Vec2FeatureExtractor(do_normalize=True).save_pretrained(folder)


def _classifier(folder: Path) -> None:
    """Train a tiny network under noise to tell in which rows of an image a bar lies."""
    import numpy as np
    import torch
    from safetensors.torch import save_file

    from probes.classifiers.classifier_networks import small_cnn

    rng = np.random.default_rng(0)
    labels = np.arange(330) % 3
    pixels = np.clip(0.3 + 0.1 * rng.normal(size=(330, 1, 8, 8)), 0, 1)
    for image, label in zip(pixels, labels, strict=True):
        image[0, 1 + 2 * label : 3 + 2 * label] += rng.uniform(0.1, 0.3)
    x, y = torch.tensor(pixels[30:], dtype=torch.float32), torch.tensor(labels[30:])
    net = small_cnn((1, 8, 8), 3, width=4)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    stream = torch.Generator().manual_seed(0)
    for _ in range(60):
        optimiser.zero_grad()
        noisy = x + 0.25 * torch.randn(x.shape, generator=stream)
        torch.nn.functional.cross_entropy(net(noisy), y).backward()
        optimiser.step()
    save_file(net.state_dict(), folder / "net.safetensors")
    camera = np.array(["left", "right"])[np.arange(30) % 2]
    np.savez(folder / "images.npz", x=pixels[:30].astype(np.float32), y=labels[:30], camera=camera)


def _operator(folder: Path) -> None:
    """Train a tiny Fourier neural operator for Darcy flow on every fourth node of a grid; keep it and other flows."""
    import numpy as np
    import torch

    from probes.operators.darcy import HIGH, LOW, darcy_samples
    from probes.operators.darcy_operator import fresh_operator, li_state, train

    high, pressure = darcy_samples(84, 49, 0)
    permeability = np.where(high, HIGH, LOW).astype(np.float32)
    mean, std, size = (HIGH + LOW) / 2, (HIGH - LOW) / 2, float(pressure[24:].std())
    x = torch.from_numpy((permeability[24:, None, ::4, ::4] - mean) / std)
    y = torch.from_numpy(pressure[24:, None, ::4, ::4] / size)
    operator = fresh_operator(8, 4, 2, 0)
    train(operator, [x], [y], epochs=20, batch=10, seed=0)
    scales = {"x_mean": mean, "x_std": std, "y_mean": 0.0, "y_std": size}
    torch.save({"state_dict": li_state(operator), **scales}, folder / "darcy.pt")
    np.savez(folder / "darcy.npz", a=permeability[:24], u=pressure[:24])


def _clips(folder: Path) -> None:
    import numpy as np
    import soundfile

    rng = np.random.default_rng(0)
    (folder / "clips").mkdir()
    rows = []
    for take, text in enumerate(TEXTS):
        for speaker in range(20):
            times = np.arange(int(16000 * (0.3 + 0.1 * take))) / 16000
            sound = 0.3 * np.sin(2 * np.pi * (90 + 12 * speaker) * times) + 0.05 * rng.normal(size=times.size)
            path = f"clips/s{speaker:02d}-{take}.wav"
            soundfile.write(folder / path, sound, 16000, subtype="PCM_16")
            gender, accent = ("female", "male")[speaker % 2], ("north", "south")[speaker // 2 % 2]
            rows.append((path, f"s{speaker:02d}", text, gender, accent, 20 + speaker * 2))
    with (folder / "clips.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("path", "speaker", "text", "gender", "accent", "age"), *rows])


def _transcripts(folder: Path) -> None:
    """Write what two recognisers heard of clips.csv: the first errs more on the south, the second on nobody."""
    import numpy as np

    rng = np.random.default_rng(0)
    ours, theirs = ["path\tprediction\n"], []
    for take, text in enumerate(TEXTS):
        for speaker in range(20):
            heard = []
            for rate in (0.35 if speaker // 2 % 2 else 0.08, 0.2):
                wrong = rng.random(len(text.split())) < rate
                heard.append(" ".join("oh" if bad else word for word, bad in zip(text.split(), wrong, strict=True)))
            ours.append(f"clips/s{speaker:02d}-{take}.wav\t{heard[0]}\n")
            theirs.append(json.dumps({"audio_filepath": f"s{speaker:02d}-{take}.flac", "pred_text": heard[1]}) + "\n")
    (folder / "ours.tsv").write_text("".join(ours), encoding="utf-8")
    (folder / "theirs.jsonl").write_text("".join(theirs), encoding="utf-8")


def _tokens(folder: Path) -> None:
    """Write phone tokens: those of the south lie elsewhere, in `after.csv` no more, those of the west scatter."""
    import numpy as np
    from phone_tokens import Planted, draw_tokens

    for name, shift in (("tokens.csv", 2.0), ("after.csv", 0.0)):
        plain = Planted(speakers=10)
        groups = {
            "east": plain,
            "north": plain,
            "south": Planted(speakers=10, shift=shift),
            "west": Planted(speakers=10, inflation=3.0),
        }
        drawn = draw_tokens(np.random.default_rng(0), groups=groups, phones=6, width=6, spread=1.2)
        rows = zip(drawn.phones, drawn.speakers, drawn.group, *drawn.vectors.T.round(3).tolist(), strict=True)
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            columns = ("phone", "speaker", "dialect", *(f"x{number}" for number in range(6)))
            csv.writer(file, lineterminator="\n").writerows([columns, *rows])


def _alignments(folder: Path) -> None:
    """Write when the letters of each clip were said, as if they all took equally long."""
    (folder / "alignments").mkdir()
    for take, text in enumerate(TEXTS):
        letters = [letter for letter in text if letter != " "]
        step = (0.3 + 0.1 * take) / len(letters)
        lines = [f"{place * step},{(place + 1) * step},{one}" for place, one in enumerate(letters)]
        table = "\n".join(["start,end,phone", *lines, ""])
        for speaker in range(20):
            (folder / "alignments" / f"s{speaker:02d}-{take}.csv").write_text(table, encoding="utf-8")


def _counts(folder: Path) -> None:
    """Write counts of errors: the old are served worse, most of the west are old, `a` fails on young women too."""
    import numpy as np

    from audits.speaker_groups.populations import Effect, Plan, draw_counts, draw_speakers

    shares = {
        (accent, age, gender): 1.0 if (accent == "west") != (age == "old") else 4.0
        for accent in ("east", "west")
        for age in ("old", "young")
        for gender in ("female", "male")
    }
    rng = np.random.default_rng(1)
    people = draw_speakers(("accent", "age", "gender"), shares, 160, rng)
    old = Effect(where={"age": "old"}, ratio=2.0)
    women = Effect(where={"age": "young", "gender": "female"}, ratio=4.0)
    drawn = [
        draw_counts(people, Plan(base=0.1, effects=effects, law="binomial"), np.random.default_rng(2), clips=(3, 3))
        for effects in ((old, women), (old,))
    ]
    first = drawn[0]
    rows = zip(first.speaker, *first.labels.values(), first.words, *(counts.errors for counts in drawn), strict=True)
    with (folder / "counts.csv").open("w", newline="", encoding="utf-8") as file:
        columns = ("speaker", *first.labels, "words", "errors_a", "errors_b")
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])


def _texts_of_models(folder: Path) -> None:
    """Write sentences, others of their kind, some that come again and again, and some whose words are dealt anew.

    `model` is a language model that has hardly learned anything, for commands that only check it.
    """
    import numpy as np

    from probes.core.progress import Silent
    from probes.texts.causal_lm import train_causal_lm
    from probes.texts.synthetic_sentences import make_sentences

    made = make_sentences(440, seed=0)
    human, fresh, rest = made[:200], made[200:320], made[320:]
    rng = np.random.default_rng(0)
    words = iter(rng.permutation([word for text in rest for word in text.split()]).tolist())
    sets = {
        "human": human,
        "fresh": fresh,
        "cold": [rest[int(place)] for place in np.minimum(rng.geometric(0.04, 120) - 1, 119)],
        "hot": [" ".join(next(words) for _ in text.split()) for text in rest],
    }
    for name, texts in sets.items():
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    beginnings = "".join(" ".join(text.split()[:3]) + "\n" for text in fresh)
    (folder / "prompts.txt").write_text(beginnings, encoding="utf-8")
    train_causal_lm(human, folder / "model", seed=0, progress=Silent(), steps=1, layers=1)


def _memberships(folder: Path) -> None:
    """Train a small diffusion model and a GAN, and write points, samples, a suite, and scores of two attacks.

    The suite is that of the page; canaries were included by coins.
    """
    import numpy as np
    from safetensors.torch import save_file

    from probes.generators.diffusion import Denoiser, linear, sample
    from probes.generators.generative_training import sample_gan, train_denoiser, train_gan

    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(12, 36))
    rows = np.tanh(0.7 * (kinds[rng.integers(12, size=360)] + 0.6 * rng.normal(size=(360, 36))))
    points = rows.reshape(-1, 1, 6, 6).astype(np.float32)
    for place, name in enumerate(("members", "nonmembers", "reference")):
        np.save(folder / f"{name}.npy", points[120 * place : 120 * place + 120])
    denoiser = train_denoiser(points[:120], alphas_bar=linear(), hidden=128, layers=1, steps=700, batch=64, rate=3e-3)
    made, judge = train_gan(points[:120], hidden=32, steps=200, batch=32)
    for name, network in (("ddpm", denoiser), ("gan", made), ("discriminator", judge)):
        save_file(network.state_dict(), folder / f"{name}.safetensors")
    whole = Denoiser(module=denoiser, alphas_bar=linear(), prediction="epsilon", shape=(1, 6, 6), path="", family="",
                     sha256="", parameters=0)  # fmt: skip
    np.save(folder / "ddpm-samples.npy", sample(whole, 200, seed=0, steps=20))
    np.save(folder / "gan-samples.npy", sample_gan(made, 200))
    page = (ROOT / "docs" / "audits" / "membership.md").read_text(encoding="utf-8")
    (folder / "suite.toml").write_text(_SUITE.search(page)[1], encoding="utf-8")
    coins = rng.random(4000) < 0.5
    np.savez(folder / "canaries.npz", scores=rng.normal(2.0 * coins), included=coins)
    member = np.arange(1200) < 600
    columns = zip(member, rng.normal(0.8 * member), rng.normal(-0.3 * member), strict=True)
    lines = [f"p{place},{one:d},{score:.4f},{loss:.4f}\n" for place, (one, score, loss) in enumerate(columns)]
    (folder / "scores.csv").write_text("id,member,score,loss_t50\n" + "".join(lines), encoding="utf-8")


def _planted_texts(folder: Path) -> None:
    """Write a language model that learnt canaries by heart, their list, another model, and texts of both sides."""
    import random

    from memorised_texts import background, train_lm

    from audits.membership.canary_making import LIST, files_of, make_canaries
    from audits.membership.canary_tokens import tokens_of

    texts = background(300)
    train_lm(folder / "other-lm", texts[60:120], known=texts, steps=10, width=32)
    tokens = tokens_of(folder / "other-lm")
    canaries = make_canaries(120, kind="tokens", length=8, tokens=tokens, rng=random.Random(0))
    included = [one.text for one in canaries if one.included]
    train_lm(folder / "lm", texts[:60] + included, known=texts, steps=100)
    (folder / "sealed.csv").write_text(files_of(canaries)[LIST], encoding="utf-8")
    for name, part in {"seen": texts[:60], "unseen": texts[120:180]}.items():
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n", encoding="utf-8")


def _languages(folder: Path) -> None:
    """Write three small languages, and losses of six: those of one script help each other, and ar hurts most."""
    import numpy as np

    from audits.interference.synthetic_languages import make_language

    (folder / "corpora").mkdir()
    made = {"ar": (3, "Geor"), "en": (1, "Latn"), "fr": (2, "Latn")}
    for code, (family, script) in made.items():
        lines = make_language(60_000, family=family, script=script)
        (folder / "corpora" / f"{code}.txt").write_bytes(b"".join(line + b"\n" for line in lines))
    table = "code,script,family,speakers\nar,Arab,Semitic,380\nbg,Cyrl,Slavic,7\nen,Latn,Germanic,1500\n"
    table += "fa,Arab,Iranian,90\nfr,Latn,Romance,310\nuk,Cyrl,Slavic,40\n"
    for place in (folder, folder / "corpora"):
        (place / "langs.csv").write_text(table, encoding="utf-8")
    codes, scripts = ("ar", "bg", "en", "fa", "fr", "uk"), "ACLALC"
    rng = np.random.default_rng(0)
    hard = {code: rng.normal(1.5, 0.3, 20) for code in codes}
    rows, sets = [], [(a,) for a in codes] + [(a, b) for a in codes for b in codes if a < b] + [codes[:3]]
    for chosen in sets:
        for code in chosen:
            alike = [scripts[codes.index(code)] == scripts[codes.index(other)] for other in chosen if other != code]
            effect = sum(-0.02 if same else 0.06 for same in alike)
            name = "+".join(other for other in chosen if other != code) or code
            for seed in range(3):
                level = effect + rng.normal(0, 0.004)
                rows += [
                    (code, name, seed, place, f"{value:.5f}", 60)
                    for place, value in enumerate(hard[code] + level + rng.normal(0, 0.02, 20))
                ]
    with (folder / "losses.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("lang", "with", "seed", "sentence", "loss", "bytes"), *rows])
    pairs = [(a, b, round(float(rng.random()), 3)) for a in codes for b in codes if a < b]
    with (folder / "distances.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("a", "b", "syntax"), *pairs])
    scores = "".join(f"{code},{0.7 + 0.02 * place:.2f}\n" for place, code in enumerate(codes))
    (folder / "tagging.csv").write_text("code,tagging\n" + scores, encoding="utf-8")


def _variables(folder: Path) -> None:
    """Write items of two variables, one of which may be copied, and answers that are all right but a few."""
    with (folder / "variables.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "task", "prompt", "options", "target", "depth"))
        for at in range(200):
            a, b, depth = at % 7, at % 7 + 3, at % 2
            text = f"x = {a}. y = {b}. {'x = y. ' * depth}What is x?"
            rows.writerow((at, "variables", text, f"{a}|{b}", (a, b)[depth], depth))
    answers = [at % 7 + 3 * (at % 2 and at % 40 > 1) for at in range(200)]
    lines = [f"{at},{answer}" for at, answer in enumerate(answers)]
    (folder / "answers.csv").write_text("\n".join(["id,prediction", *lines]) + "\n", encoding="utf-8")


def _outputs(folder: Path) -> None:
    """Write what two systems say of restaurants, of which the second gets every fourth dish wrong."""
    lines = []
    for at in range(60):
        animal = ("Duck", "Lion", "Bear", "Swan", "Crow", "Deer", "Wolf", "Hare", "Frog", "Boar", "Goat", "Mole")[
            at // 5
        ]
        name = f"The {('Red', 'Blue', 'Green', 'Grey', 'Gold')[at % 5]} {animal}"
        food = ("Italian", "French", "Thai")[at % 3]
        context = f"name[{name}], food[{food}], rating[{at % 5 + 1} stars]"
        for system in ("first", "second"):
            wrong = system == "second" and at % 4 == 0
            output = f"{name} serves {'Mexican' if wrong else food} food and is rated {at % 5 + 1} stars."
            row = {"id": str(at), "system": system, "context": context, "output": output, "label": int(not wrong)}
            lines.append(json.dumps(row))
    (folder / "outputs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # With its context each of these fits into the 32 tokens of lm.
    rows = [{"id": str(at), "system": "first", "context": f"x {at}.", "output": f"x {at}"} for at in range(24)]
    (folder / "short.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _gradients(folder: Path) -> None:
    """Write gradients of two layers, noisy ones, and their signs."""
    import numpy as np
    from safetensors.numpy import save_file

    rng, shapes = np.random.default_rng(0), {"first.weight": (16, 16), "last.weight": (4, 16)}
    (folder / "saved").mkdir()
    for step in (0, 100):
        for batch in range(8):
            exact = {name: rng.normal(size=shape) for name, shape in shapes.items()}
            found = {f"reference/{name}": value for name, value in exact.items()}
            found |= {f"noisy/{name}": value + rng.normal(size=value.shape) for name, value in exact.items()}
            found |= {f"signs/{name}": np.sign(value) for name, value in exact.items()}
            save_file(found, folder / "saved" / f"step{step}_batch{batch}.safetensors")


def _cells(folder: Path) -> None:
    """Write seconds and bytes of two modules, one linear and one quadratic."""
    rng = random.Random(0)
    rows = ["target,n,round,seconds,bytes"]
    for n in (256, 512, 1024, 2048, 4096, 8192, 16384, 32768):
        for turn in range(9):
            for target, seconds in (("ours", 1e-5 + 1e-7 * n), ("theirs", 5e-5 + 4e-11 * n**2)):
                rows.append(f"{target},{n},{turn},{seconds * rng.lognormvariate(0, 0.05):.3e},{256 * n}")
    (folder / "cells.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def _laws(folder: Path) -> None:
    """Write outcomes whose spread grows with x, and draws whose spread does not."""
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.uniform(size=400)
    np.savez(folder / "outcomes.npz", x=x, y=np.sin(6 * x) + (0.3 + x) * rng.normal(size=400))
    np.savez(folder / "draws.npz", samples=np.sin(6 * x)[:, None] + 0.6 * rng.normal(size=(400, 20)))


def make_inputs(work: Path) -> None:
    """Write the inputs of all runs into a new folder."""
    work.mkdir(parents=True)
    _encoder(work / "encoder")
    for write in (
        *(_clips, _classifier, _operator, _transcripts, _counts, _tokens, _alignments, _texts_of_models),
        *(_memberships, _planted_texts, _languages, _variables, _outputs, _gradients, _cells, _laws),
    ):
        write(work)


@contextlib.contextmanager
def made_once(factory: pytest.TempPathFactory, name: str) -> Iterator[tuple[Path, bool]]:
    """Yield a folder that the processes of these tests share, and whether it is new; the first one fills it.

    Where `MILES_TEST_WORLDS` names a folder, other calls of pytest on the same code share it too.
    """
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    place = Path(os.environ.get("MILES_TEST_WORLDS", base)) / name
    # One process makes it, the others wait: tests run side by side in several.
    with filelock.FileLock(f"{place}.lock"):
        new = not (place / "ready").exists()
        if new:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        yield place, new
        # Only once: tests look that nothing in it is written.
        if new:
            (place / "ready").touch()


def _run_all(work: Path) -> None:
    for words in RUNS:
        outcome = call(words, work)
        assert outcome.code == 0, outcome.out


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that holds `work`, which nobody may change, and the cache of the runs in it.

    encoder, clips.csv, and the runs first and second of them; net.safetensors, images.npz, and the runs certified and
    slopes; darcy.pt, darcy.npz, and the run grids; ours.tsv and theirs.jsonl for clips.csv, and the run groups;
    counts.csv; tokens.csv and after.csv, and the run phones; alignments for clips.csv; human.jsonl, fresh.jsonl,
    cold.jsonl and hot.jsonl, model, prompts.txt, and the run texts; members.npy, nonmembers.npy, reference.npy,
    suite.toml and what it names, scores.csv, canaries.npz, and the runs suite and canaries; corpora, langs.csv,
    losses.csv, distances.csv and tagging.csv, and the runs matrix and short; variables.csv and answers.csv, and the run
    tracking; outputs.jsonl, and the run faithfulness; saved, and the run
    gradients; cells.csv, and the run growth; outcomes.npz and draws.npz, and the run conditional.
    """
    with made_once(tmp_path_factory, "small-world") as (place, new):
        if new:
            make_inputs(place / "work")
            pictures = place.with_name(f"{place.name}-{PICTURES}")
            pictures.mkdir(exist_ok=True)
            (place / PICTURES).symlink_to(pictures)
            _run_all(place / "work")
    return place
