"""Random and systematic errors of phones (arXiv 2604.22631) against what miles finds of measured vowels.

`miles audit-phonemes` reads measured vowels of men, women, boys and girls, as vectors themselves, and then in the
embeddings of small encoders that are trained here on other speakers, tuned on against or towards the group.
"""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from replicating import DATA, Claim, Found, Given, Paper, main, mean_of
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from audits.core.context import Cache, Context, Draft
from audits.core.testing import drafted
from audits.phoneme_errors import AUDIT
from audits.statistics.seeds import generator

FILE = DATA / "vowel_formants" / "vowels.csv"
TWO = ["F1_50", "F2_50"]
ALL = ["duration_ms", "f0", "F1", "F2", "F3", *(f"F{n}_{share}" for share in (20, 50, 80) for n in (1, 2, 3))]
GIRLS = "group=girl"
PAPER = Paper(
    "Identifying and typifying demographic unfairness in phoneme-level embeddings of self-supervised speech "
    "recognition models",
    "Herron, Rossato, Allauzen, Portet (Findings of ACL 2026)",
    "2604.22631",
)
VOWELS = "12 American vowels of 139 people"
TRAINED = "Encoders (14-64-16) trained on the vowels of half of the people, read on the other half; tuned on for the "
CLAIMS = {
    "own_two": Claim(
        says="A probe trained on one disadvantaged group alone sometimes reads that group better, which shows that the "
        "group's embeddings are biased.",
        source="abstract",
        measured=f"Accuracy on girls of a probe of girls less that of a probe of everyone; {VOWELS}, two formants",
        above=0,
    ),
    "own_fourteen": Claim(
        says="The same in a richer space.",
        source="abstract, as above",
        measured="The same with 14 numbers: pitch, duration, and formants at several times",
        above=0,
    ),
    "speakers": Claim(
        says="Speakers whose phonemes vary more are those whose phonemes are read worse.",
        source="abstract",
        measured="Rank correlation over speakers of scatter and accuracy, from different vowels; 14 numbers",
        below=0,
    ),
    "groups": Claim(
        says="Groups whose phonemes vary more are those whose phonemes are read worse.",
        source="abstract",
        measured="Variance of girls' vowels, the group read worst, over that of the others; 14 numbers",
        above=1,
    ),
    "greater": Claim(
        says="Random error is the greater hindrance.",
        source="abstract: likely",
        measured="Accuracy that their own data add for girls, less the gap to the others that these leave; 14 numbers",
        below=0,
    ),
    "adversarial_systematic": Claim(
        says="Adversarial finetuning does not change what a group's own probe is worth.",
        source="abstract; that a change within 0.02 is none is our border",
        measured=f"{TRAINED}phones and against the group: systematic error, mean of the groups, less that of tuning on "
        "for the phones alone",
        above=-0.02,
        below=0.02,
    ),
    "adversarial_random": Claim(
        says="Adversarial finetuning does not change random error.",
        source="abstract; that a change within a tenth is none is our border",
        measured="The same encoders: log ratio of the variance of girls' vowels over the others', less that of tuning "
        "on for the phones alone",
        above=-0.1,
        below=0.1,
    ),
    "enhancing_systematic": Claim(
        says="Domain-enhancing finetuning does not change what a group's own probe is worth.",
        source="abstract; our border, and our reading of the name: the group is learned too",
        measured=f"{TRAINED}phones and the group: systematic error, as above",
        above=-0.02,
        below=0.02,
    ),
    "enhancing_random": Claim(
        says="Domain-enhancing finetuning does not change random error.",
        source="abstract; our border and reading, as above",
        measured="The same encoders: log ratio of variances, as above",
        above=-0.1,
        below=0.1,
    ),
}


def measured(given: Given) -> dict[str, Found]:
    table = pd.read_csv(FILE).dropna(subset=ALL)
    read = {"transform": "log", "on_bad": "skip", "repeats": given.size(5, 1), "bootstrap": given.size(2000, 200)}
    two, fourteen = (audit(given, FILE, features=tuple(columns), **read) for columns in (TWO, ALL))
    tuned = np.array([both_errors(given, table, seed) for seed in range(given.size(12, 2))])
    changes = (tuned[:, 1:] - tuned[:, :1]).reshape(len(tuned), 4).T
    names = [f"{how}_{error}" for how in ("adversarial", "enhancing") for error in ("systematic", "random")]
    return {
        "own_two": found(two, "own_data_gain", group=GIRLS),
        "own_fourteen": found(fourteen, "own_data_gain", group=GIRLS),
        "speakers": found(fourteen, "split_correlation", partial="no"),
        "groups": found(fourteen, "variance_ratio", group=GIRLS),
        "greater": found(fourteen, "systematic_minus_remaining", group=GIRLS),
        **{name: mean_of(list(change), given.level, "seeds") for name, change in zip(names, changes, strict=True)},
    }


def audit(given: Given, tokens: Path, **more: Any) -> Draft:
    context = Context(level=given.level, cache=Cache(given.work / "cache"))
    more |= {"probe": "discriminant", "folds": 2} if given.trial else {}
    return drafted(AUDIT, {"tokens": str(tokens), "by": ("group",), "permutations": 100, **more}, context)


def found(draft: Draft, name: str, **where: Any) -> Found:
    (one,) = draft.select(name, **where)
    return Found.of(one)


def both_errors(given: Given, table: pd.DataFrame, seed: int) -> list[list[float]]:
    """Return mean systematic error and log variance ratio of girls, for an encoder tuned on in each way."""
    people = table.groupby("speaker")["group"].first()
    draw = pd.Series(generator(seed, "replications", "halves").random(len(people)), index=people.index)
    learned = table["speaker"].map(draw.groupby(people).rank(pct=True) <= 0.5).to_numpy()
    numbers = np.log(table[ALL].to_numpy(float))
    x = torch.tensor((numbers - numbers[learned].mean(0)) / numbers[learned].std(0), dtype=torch.float32)
    y, group = (torch.tensor(pd.factorize(table[name], sort=True)[0]) for name in ("phone", "group"))
    steps = given.size(250, 50)
    layers = embeddings(
        seed, x, x[torch.tensor(learned)], y[torch.tensor(learned)], group[torch.tensor(learned)], steps
    )
    file, heard = given.work / f"tokens-{seed}.npz", table[~learned]
    labels = {name: heard[name].to_numpy(str) for name in ("phone", "speaker", "group")}
    np.savez(file, features=layers[:, ~learned], **labels)
    draft = audit(given, file, min_speakers=5, repeats=given.size(2, 1), bootstrap=200)
    systematic = [np.mean([one.value for one in draft.select("systematic_error", layer=way)]) for way in range(3)]
    scatter = [np.log(found(draft, "variance_ratio", layer=way, group=GIRLS).value) for way in range(3)]
    return [list(pair) for pair in zip(systematic, scatter, strict=True)]


def embeddings(seed: int, x: Tensor, learned: Tensor, y: Tensor, group: Tensor, steps: int) -> np.ndarray:
    """Train an encoder for vowels, then on for vowels alone, against the group, or for it too; return all of x."""
    torch.manual_seed(seed)
    encoder, judge = (
        nn.Sequential(nn.Linear(wide, 64), nn.GELU(), nn.Linear(64, out)) for wide, out in ((14, 16), (16, 4))
    )
    start = nn.ModuleList([encoder, nn.Linear(16, 12), judge])
    train(start, 0.0, learned, y, group, steps)
    layers = []
    for weight in (0.0, -1.0, 1.0):
        model = copy.deepcopy(start)
        train(model, weight, learned, y, group, steps)
        layers.append(model[0](x).detach().numpy())
    return np.stack(layers)


def train(model: nn.ModuleList, weight: float, x: Tensor, y: Tensor, group: Tensor, steps: int) -> None:
    """Learn vowels, with `weight` times the loss of the group, of which a judge learns from what is made."""
    encoder, phones, judge = model
    learns = torch.optim.Adam([*encoder.parameters(), *phones.parameters()], 5e-3, weight_decay=1e-4)
    judges = torch.optim.Adam(judge.parameters(), 1e-2)
    for _ in range(steps):
        made = encoder(x)
        judges.zero_grad()
        cross_entropy(judge(made.detach()), group).backward()
        judges.step()
        learns.zero_grad()
        (cross_entropy(phones(made), y) + weight * cross_entropy(judge(made), group)).backward()
        learns.step()


if __name__ == "__main__":
    main("random_systematic_phonemes", PAPER, CLAIMS, measured)
