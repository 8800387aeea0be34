"""Fairness of the layers of self-supervised speech encoders (arXiv 2604.18249) against what miles finds of a small one.

An encoder learns here, without labels, to name the clusters of masked stretches of real recordings, and is then tuned
for recognition on half of the speakers. `miles audit-fairness` probes its layers.
"""

from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
import soundfile
import torch
from replicating import DATA, Claim, Found, Given, Paper, main
from sklearn.cluster import MiniBatchKMeans
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, ctc_loss
from torch.nn.utils.rnn import pad_sequence

from audits.asr_fairness import AUDIT
from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from audits.statistics.seeds import generator
from probes.speech.activations import LogMel

FOLDER = DATA / "nonnative_english"
BLOCKS, WIDTH, CLUSTERS, BATCH = 5, 96, 64, 16
LETTERS = " abcdefghijklmnopqrstuvwxyz'"
PAPER = Paper(
    "Where Do Self-Supervised Speech Models Become Unfair?",
    "Herron, Hjuler, Rossato, Allauzen, Portet (2026)",
    "2604.18249",
)
SPEAKERS = "children and adults among 96 people who read English as their second language"
FINE = "The finetuned encoder on the half of the speakers whom finetuning never heard: the same"
CLAIMS = {
    "first_sid": Claim(
        says="Embeddings are biased from the first layer on: speakers of one group are told apart worse,",
        source="abstract",
        measured=f"Gap in error of naming the speaker, layer 0, {SPEAKERS}",
        above=0,
    ),
    "first_asr": Claim(
        says="and what one group says is read worse.",
        source="abstract",
        measured="Gap in error of characters, layer 0, of the same",
        above=0,
    ),
    "sid_pattern": Claim(
        says="Bias in speaker identification is least in the layers that err least.",
        source="abstract",
        measured=f"Rank correlation of error and absolute gap over layers 0 to {BLOCKS}",
        above=0,
    ),
    "asr_pattern": Claim(
        says="Bias in recognition is greatest in the layers that err least.",
        source="abstract",
        measured="Rank correlation of error of characters and absolute gap over the layers",
        below=0,
    ),
    "asr_pattern_odds": Claim(
        says="The same where a gap is a ratio of odds, which no ceiling of errors squeezes.",
        source="our check; the abstract names no metric",
        measured="Rank correlation of error of characters and gap in log odds over the layers",
        below=0,
    ),
    "finetuned_pattern": Claim(
        says="Finetuning for recognition leaves that inverse relation as it is.",
        source="abstract",
        measured=f"{FINE} rank correlation of error and absolute gap",
        below=0,
    ),
    "finetuned_gap": Claim(
        says="Finetuning for recognition does not remove the bias.",
        source="abstract: difficult to remove",
        measured=f"{FINE} gap in error of characters, on the last layer",
        above=0,
    ),
}


class Encoder(nn.Module):
    """Blocks of attention over stacked log-mel frames, with a kernel that tells them where they stand."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.enter, self.place = nn.Linear(numbers, WIDTH), nn.Conv1d(WIDTH, WIDTH, 15, padding=7, groups=16)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(BLOCKS)
        )
        self.masked, self.norm = nn.Parameter(torch.zeros(numbers)), nn.LayerNorm(WIDTH)
        self.clusters, self.letters = nn.Linear(WIDTH, CLUSTERS), nn.Linear(WIDTH, len(LETTERS) + 1)

    def forward(self, x: Tensor, padded: Tensor | None = None) -> list[Tensor]:
        states = self.enter(x)
        layers = [states + torch.tanh(self.place(states.mT).mT)]
        for block in self.blocks:
            layers.append(block(layers[-1], src_key_padding_mask=padded))
        return [*layers[:-1], self.norm(layers[-1])]


def batches(clips: list[Tensor], rng: np.random.Generator) -> list[list[int]]:
    """Deal clips of like lengths into batches, in random order."""
    order = sorted(range(len(clips)), key=lambda one: len(clips[one]) + rng.random())
    dealt = [order[at : at + BATCH] for at in range(0, len(order), BATCH)]
    return [dealt[at] for at in rng.permutation(len(dealt))]


def learn(model: Encoder, clips: list[Tensor], goals: list[Tensor], passes: int, *, letters: bool) -> None:
    """Learn the clusters of masked frames, or letters."""
    rng = generator(int(letters), "replications", "passes")
    count = passes * -(-len(clips) // BATCH)
    step = torch.optim.AdamW(model.parameters(), 2e-3)
    pace = torch.optim.lr_scheduler.OneCycleLR(step, 2e-3, total_steps=count, pct_start=0.15)
    for dealt in (one for _ in range(passes) for one in batches(clips, rng)):
        x, lengths = pad_sequence([clips[one] for one in dealt], True), torch.tensor([len(clips[one]) for one in dealt])
        padded, wanted = torch.arange(x.shape[1]) >= lengths[:, None], [goals[one] for one in dealt]
        if letters:
            shares = model.letters(model(x, padded)[-1]).log_softmax(-1).transpose(0, 1)
            wanted = [goals[one] for one in dealt]
            loss = ctc_loss(
                shares, torch.cat(wanted), lengths, torch.tensor(list(map(len, wanted))), zero_infinity=True
            )
        else:
            starts = torch.from_numpy(rng.random(padded.shape) < 0.08)
            hidden = torch.stack([torch.roll(starts, by, 1) for by in range(5)]).any(0) & ~padded
            made = model(torch.where(hidden[..., None], model.masked, x), padded)[-1]
            loss = cross_entropy(
                model.clusters(made[hidden]), pad_sequence([goals[one] for one in dealt], True)[hidden]
            )
        step.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        step.step()
        pace.step()


def heard(paths: pd.Series) -> tuple[list[Tensor], list[Tensor]]:
    """Return standardised log-mel frames of 40 ms of each clip, and the clusters of its frames."""
    mel, clips = LogMel(), []
    for path in paths:
        wave = torch.from_numpy(soundfile.read(FOLDER / path, dtype="float32")[0])
        frames = mel.encode([wave])[0].layers[0]
        clips.append(frames[: len(frames) // 2 * 2].reshape(-1, 320))
    together = torch.cat(clips)
    clips = [(clip - together.mean(0)) / together.std(0) for clip in clips]
    means = MiniBatchKMeans(CLUSTERS, n_init=1, random_state=0).fit(torch.cat(clips).numpy())
    return clips, [torch.from_numpy(means.predict(clip.numpy())).long() for clip in clips]


def measured(given: Given) -> dict[str, Found]:
    torch.manual_seed(0)
    table = pd.read_csv(FOLDER / "manifest.csv", keep_default_na=False, dtype=str).query("age_band != 'teen'")
    # In turn of age and gender, so that every second speaker is half of each group.
    order = table.drop_duplicates("speaker").sort_values(["age_band", "gender", "speaker"])["speaker"].tolist()
    rows = table[table["speaker"].isin(order[:: given.size(1, 6)])]
    clips, clusters = heard(rows["path"])
    model = Encoder(320)
    learn(model, clips, clusters, given.size(4, 1), letters=False)
    before = audit(given, "pretrained", model, rows, clips, ("sid", "asr"))
    tuned = rows["speaker"].isin(order[:: given.size(2, 12)]).to_numpy()
    letters = [torch.tensor([LETTERS.index(letter) + 1 for letter in text.lower()]) for text in rows["text"]]
    learn(model, list(compress(clips, tuned)), list(compress(letters, tuned)), given.size(6, 1), letters=True)
    after = audit(given, "finetuned", model, rows[~tuned], list(compress(clips, ~tuned)), ("asr",))
    # A trial learns to read nothing: its layers err alike, which has no pattern, and odds have no ratio.
    ratio, after = ("absolute", before) if given.trial else ("log_odds", after)
    return {
        "first_sid": found(before, "gap", task="sid", layer=0, kind="absolute"),
        "first_asr": found(before, "gap", metric="cer", layer=0, kind="absolute"),
        "sid_pattern": found(before, "layer_correlation", task="sid", kind="absolute"),
        "asr_pattern": found(before, "layer_correlation", metric="cer", kind="absolute"),
        "asr_pattern_odds": found(before, "layer_correlation", metric="cer", kind=ratio),
        "finetuned_pattern": found(after, "layer_correlation", metric="cer", kind="absolute"),
        "finetuned_gap": found(after, "gap", metric="cer", layer=BLOCKS, kind="absolute"),
    }


def audit(
    given: Given, name: str, model: Encoder, rows: pd.DataFrame, clips: list[Tensor], tasks: tuple[str, ...]
) -> Draft:
    """Probe all layers of what an encoder makes of clips."""
    with torch.inference_mode():
        vectors = {path: torch.cat(model(clip[None])).numpy() for path, clip in zip(rows["path"], clips, strict=True)}
    file = given.work / f"{name}.npz"
    np.savez(file, hop=640, **vectors)
    rows.to_csv(file.with_suffix(".csv"), index=False)
    files: dict[str, Any] = {"model": str(file), "manifest": file.with_suffix(".csv"), "audio_root": FOLDER}
    probes = {"folds": 3, "repeats": given.size(2, 1), "probe_epochs": given.size(4, 1), "baseline": False}
    more = {"tasks": tasks, "by": ("age_band",), "min_speakers": 5, "workers": 1}
    return drafted(AUDIT, files | probes | more, Context(level=given.level, cache=Cache(given.work / "cache")))


def found(draft: Draft, name: str, **where: Any) -> Found:
    (one,) = draft.select(name, **where)
    return Found.of(one)


if __name__ == "__main__":
    main("encoder_layers", PAPER, CLAIMS, measured)
