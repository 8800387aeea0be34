"""SCOPE (arXiv 2502.13674) against what miles finds: preferences for references over noisy decodes of one's own.

Writers are recurrent networks that see the slots of a restaurant, or nothing: both laws come from one network.
"""

import copy
import csv
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import torch
from replicating import DATA, Claim, Found, Given, Paper, main, mean_of
from torch import Tensor, nn
from torch.nn import functional

from miles_cli import run
from probes.core.random_streams import stream

PAPER = Paper(
    "SCOPE: a self-supervised framework for improving faithfulness in conditional text generation",
    "Duong, Le Bronnec, Allauzen, Guigue, Lumbreras, Soulier, Gallinari (ICLR 2025)",
    "2502.13674",
)
SUPPORT = "Share of the slot values in an output that its input has"
CLAIMS = {
    "noise": Claim(
        says="Decodes that leave out the input at half of the steps are less faithful.",
        source="abstract for unfaithful samples made by the model itself; one half is the code's default",
        measured=f"{SUPPORT}, noise of one half less none, drawn from the same network",
        below=0,
    ),
    "than_start": Claim(
        says="Learning to prefer references over such decodes makes a fine-tuned model more faithful.",
        source="abstract",
        measured=f"{SUPPORT}, less that of the network before this step, which had half of the texts",
        above=0,
    ),
    "than_tuning": Claim(
        says="It is more faithful than one that was fine-tuned on all texts.",
        source="abstract, more grounded text; the comparison at the same texts is ours",
        measured=f"{SUPPORT}, less that of a network fine-tuned on all texts",
        above=0,
    ),
    "recall": Claim(
        says="It gains in PARENT recall.",
        source="a public overview, up to 8.2 points",
        measured="PARENT recall less that of a network fine-tuned on all texts",
        above=0,
    ),
    "than_decoding": Claim(
        says="It is more faithful than other methods without supervision, here than one of them.",
        source="abstract; context-aware decoding is among those in the authors' code",
        measured=f"{SUPPORT}, less that of context-aware decoding with weight 0.5 of a network fine-tuned on all texts",
        above=0,
    ),
    "judged": Claim(
        says="People and a judging language model find its texts better grounded.",
        source="abstract",
        untried="There are neither people nor a language model that could judge.",
    ),
}
START, END, UNKNOWN = range(3)
LONGEST, WIDTH, BATCH, BETA, ALPHA, RATE = 36, 96, 32, 0.1, 0.5, 1e-5


def measured(given: Given) -> Mapping[str, Found]:
    """Return what is found of each claim that is tried."""
    pairs = {
        "noise": ("noisy", "drawn", "value_support"),
        "than_start": ("scope", "start", "value_support"),
        "than_tuning": ("scope", "all", "value_support"),
        "recall": ("scope", "all", "parent_recall"),
        "than_decoding": ("scope", "decoding", "value_support"),
    }
    found = [scores(given, seed) for seed in range(given.size(5, 2))]
    return {
        name: mean_of([one[ours, metric] - one[theirs, metric] for one in found], given.level, "seeds")
        for name, (ours, theirs, metric) in pairs.items()
    }


class Writer(nn.Module):
    """Words given those before and a vector of slot values, which is zero where nothing is seen."""

    def __init__(self, slots: int, words: int, seed: int) -> None:
        super().__init__()
        self.seen, self.words = nn.Linear(slots, WIDTH, bias=False), nn.Embedding(words, WIDTH)
        self.core, self.out = nn.GRU(2 * WIDTH, WIDTH, batch_first=True), nn.Linear(WIDTH, words)
        draws = stream(seed, "writer")
        with torch.no_grad():
            for one in self.parameters():
                one.copy_((torch.rand(one.shape, generator=draws) * 2 - 1) * (WIDTH**-0.5))

    def forward(self, slots: Tensor, tokens: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return logarithms of the next words' probabilities (n, t, words), and the state."""
        context = self.seen(slots)[:, None].expand(-1, tokens.shape[1], -1)
        hidden, state = self.core(torch.cat([self.words(tokens), context], 2), state)
        return self.out(hidden).log_softmax(2), state

    def likelihood(self, slots: Tensor, tokens: Tensor) -> Tensor:
        """Return the log likelihood of texts (n, t) that begin with START and are filled up with END, shape (n,)."""
        logs = self(slots, tokens[:, :-1])[0].gather(2, tokens[:, 1:, None])[..., 0]
        return (logs * (tokens[:, :-1] != END)).sum(1)


@cache
def corpus() -> tuple[list[dict[str, str]], dict[str, int], dict[str, int]]:
    """Return rows, and the numbers of slot values and of words."""
    path = DATA / "faithfulness" / "e2e" / "e2e_test_half.csv"
    rows = list(csv.DictReader(path.open(encoding="utf-8", newline="")))
    counts = Counter(word for row in rows for word in split(row["ref"]))
    words = ["<s>", "</s>", "<unk>", *sorted(word for word, count in counts.items() if count > 4)]
    values = sorted({value for row in rows for value in row["mr"].split(", ")})
    return rows, {value: at for at, value in enumerate(values)}, {word: at for at, word in enumerate(words)}


def split(text: str) -> list[str]:
    return re.findall(r"[\w£'-]+|[^\w\s]", text)


def tensors(rows: Sequence[Mapping[str, str]]) -> tuple[Tensor, Tensor]:
    """Return slot values (n, slots) and words (n, LONGEST) of rows."""
    _, values, words = corpus()
    slots, tokens = torch.zeros(len(rows), len(values)), torch.full((len(rows), LONGEST), END)
    for at, row in enumerate(rows):
        slots[at, [values[value] for value in row["mr"].split(", ")]] = 1
        said = [START, *(words.get(word, UNKNOWN) for word in split(row["ref"]))][: LONGEST - 1]
        tokens[at, : len(said)] = torch.tensor(said)
    return slots, tokens


def parts(seed: int) -> list[list[dict[str, str]]]:
    """Return two parts for training and one for the test, without inputs in common."""
    rows, *_ = corpus()
    inputs = sorted({row["mr"] for row in rows})
    share = dict(
        zip(np.random.default_rng(seed).permutation(inputs), np.arange(len(inputs)) * 5 // len(inputs), strict=True)
    )
    return [[row for row in rows if share[row["mr"]] in wanted] for wanted in ((0, 1), (2, 3), (4,))]


def tune(writer: Writer, rows: Sequence[Mapping[str, str]], epochs: int, seed: int) -> Writer:
    """Fine-tune by likelihood; 3 of 10 texts come without their input."""
    slots, tokens = tensors(rows)
    draws, steps = stream(seed, "tuning"), epochs * -(-len(rows) // BATCH)
    optimiser = torch.optim.Adam(writer.parameters(), lr=4e-3)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        at = torch.randint(len(rows), (BATCH,), generator=draws)
        kept = torch.rand(BATCH, 1, generator=draws) > 0.3
        optimiser.zero_grad()
        (-writer.likelihood(slots[at] * kept, tokens[at]).mean() / LONGEST).backward()
        optimiser.step()
        falling.step()
    return writer


def prefer(writer: Writer, rows: Sequence[Mapping[str, str]], epochs: int, seed: int) -> Writer:
    """Train a copy to prefer texts over noisy decodes for the same inputs, by direct preference optimisation."""
    (slots, tokens), ours, draws = tensors(rows), copy.deepcopy(writer), stream(seed, "preferring")
    worse = decode(writer, slots, seed, noise=ALPHA)
    optimiser = torch.optim.Adam(ours.parameters(), lr=RATE)
    with torch.no_grad():
        held = writer.likelihood(slots, tokens) - writer.likelihood(slots, worse)
    for order in (torch.randperm(len(rows), generator=draws) for _ in range(epochs)):
        for at in order.split(BATCH):
            margin = ours.likelihood(slots[at], tokens[at]) - ours.likelihood(slots[at], worse[at]) - held[at]
            optimiser.zero_grad()
            (-functional.logsigmoid(BETA * margin).mean()).backward()
            optimiser.step()
    return ours


@torch.no_grad()
def decode(writer: Writer, slots: Tensor, seed: int, *, noise: float | None = None, against: float = 0.0) -> Tensor:
    """Return the likeliest words step by step; with `noise` draws, of which so many steps do not see the input.

    With `against`, what is likely without the input counts for less: context-aware decoding.
    """
    tokens, states, draws = torch.full((len(slots), 1), START), [None, None], stream(seed, f"decoding {noise}")
    while tokens.shape[1] < LONGEST:
        logs, blind = (writer(one, tokens[:, -1:], states[at]) for at, one in enumerate((slots, slots * 0)))
        states = [logs[1], blind[1]]
        if noise is None:
            word = ((1 + against) * logs[0] - against * blind[0])[:, 0].argmax(1)
        else:
            coins = torch.rand(len(slots), 1, generator=draws) < noise
            chances = (torch.where(coins, blind[0][:, 0], logs[0][:, 0]) / 0.6).softmax(1)
            ranked, order = chances.sort(1, descending=True)
            ranked = ranked * (ranked.cumsum(1) - ranked < 0.9)
            word = order.gather(1, torch.multinomial(ranked, 1, generator=draws))[:, 0]
        tokens = torch.cat([tokens, word.where(tokens[:, -1] != END, END)[:, None]], 1)
    tokens[:, -1] = END
    return tokens


def scores(given: Given, seed: int) -> dict[tuple[str, str], float]:
    """Return what the audit finds of each system on new inputs: the mean of each metric."""
    first, second, test = (one[: given.size(len(one), 90)] for one in parts(seed))
    test = list({row["mr"]: row for row in test}.values())
    (slots, _), (_, values, words) = tensors(test), corpus()
    start = tune(Writer(len(values), len(words), seed), first, given.size(12, 1), seed)
    whole = tune(Writer(len(values), len(words), seed), first + second, given.size(12, 1), seed)
    written = {
        "start": decode(start, slots, seed),
        "all": decode(whole, slots, seed),
        "scope": decode(prefer(start, second, given.size(2, 1), seed), slots, seed),
        "decoding": decode(whole, slots, seed, against=0.5),
        "noisy": decode(start, slots, seed, noise=ALPHA),
        "drawn": decode(start, slots, seed, noise=0.0),
    }
    names, lines = list(words), []
    for system, texts in written.items():
        for row, text in zip(test, texts.tolist(), strict=True):
            said = " ".join(names[word] for word in text[1 : text.index(END)])
            lines.append({"system": system, "context": row["mr"], "output": said, "reference": row["ref"]})
    file = given.work / f"outputs-{seed}.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    report = run(
        "audit-faithfulness",
        file=file,
        metrics=["values", "parent"],
        plant=20,
        rates=["1"],
        level=given.level,
        out=given.work / f"seed-{seed}",
        force=True,
    )
    means = report.records().groupby("system")[["value_support", "parent_recall"]].mean()
    return {(str(system), metric): float(value) for (system, metric), value in means.stack().items()}


if __name__ == "__main__":
    main("scope_faithfulness", PAPER, CLAIMS, measured)
