"""Is each piece of the CTC probe what its formula says, and does no fold see what it is tested on?"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import ctc_loss, log_softmax

from probes.speech.ctc import Alphabet, CtcProbes, Utterances, fit_ctc
from probes.speech.ctc.forward_backward import even_alignment, forward_backward, scores
from probes.speech.ctc.utterances import chunks
from probes.speech.ctc.whitening import whiten

pytestmark = [pytest.mark.numerical, pytest.mark.usefixtures("one_thread")]

FOLDS, LAYERS, WIDTH, SYMBOLS = 3, 2, 6, 5


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Corpus:
    """Random frames with random letters; clip i is of speaker i % 9, and every fold tests three speakers."""

    folds, symbols, step = FOLDS, SYMBOLS, 32

    def __init__(self, clips: int = 40, *, seed: int = 0, stored: int = 1) -> None:
        draw = rng(seed)
        counts = [int(torch.randint(8, 20, (1,), generator=draw)) for _ in range(clips)]
        # Common offsets and unequal scales, as encoders have them.
        scale = torch.logspace(-1, 2, WIDTH)
        self.clips = [torch.randn(LAYERS, count, WIDTH, generator=draw) * scale + 40 for count in counts]
        self.targets = [torch.randint(1, SYMBOLS, (count // 4,), generator=draw) for count in counts]
        speaker = torch.arange(clips) % 9
        self.fold = speaker % FOLDS
        self.dev = torch.stack([speaker == (fold + 1) % FOLDS + 3 for fold in range(FOLDS)])
        self.order = [list(range(start, min(start + stored, clips))) for start in range(0, clips, stored)]
        self.reads: list[int] = []

    def read(self, clips: Sequence[int]) -> Utterances:
        chosen = list(clips)
        self.reads.append(len(chosen))
        return Utterances(
            frames=torch.cat([self.clips[clip] for clip in chosen], dim=1),
            counts=[self.clips[clip].shape[1] for clip in chosen],
            targets=[self.targets[clip] for clip in chosen],
            fold=self.fold[chosen],
            dev=self.dev[:, chosen],
        )


def batch_of(counts: Sequence[int], targets: Sequence[Sequence[int]], *, folds: int = 1) -> Utterances:
    return Utterances(
        frames=torch.zeros(1, sum(counts), 1),
        counts=list(counts),
        targets=[torch.tensor(target, dtype=torch.long) for target in targets],
        fold=torch.full((len(counts),), folds),
        dev=torch.zeros(folds, len(counts), dtype=torch.bool),
    )


def everyone(batch: Utterances, folds: int = 1) -> Tensor:
    return torch.ones(folds, len(batch.counts), dtype=torch.bool)


@given(st.lists(st.text(alphabet="abc 'é", min_size=1), min_size=1))
def test_what_is_encoded_is_decoded(texts: list[str]) -> None:
    alphabet = Alphabet.of(texts)
    assert len(alphabet) == len(set("".join(texts))) + 1
    for text in texts:
        numbers = alphabet.encode(text)
        assert numbers.dtype == torch.long and int(numbers.min()) >= 1
        # A blank between all letters keeps those that are doubled.
        path = torch.stack([torch.zeros_like(numbers), numbers], 1).reshape(-1).repeat_interleave(2)
        assert alphabet.decode(path) == " ".join(text.split())


def test_decoding_joins_repeats_and_drops_blanks() -> None:
    alphabet = Alphabet(symbols=(" ", "a", "b"))
    assert alphabet.decode(torch.tensor([1, 0, 2, 2, 0, 2, 1, 0, 1, 3, 3, 1])) == "aa b"
    assert alphabet.decode(torch.tensor([0, 0])) == ""


def test_loss_is_that_of_torch_clip_by_clip() -> None:
    batch = batch_of([7, 4, 9], [[1, 2, 1], [3], [2, 2]], folds=FOLDS)
    found = torch.randn(FOLDS, LAYERS, 20, SYMBOLS, generator=rng())
    result = forward_backward(batch, found, everyone(batch, FOLDS))
    assert result.loss.shape == (FOLDS, LAYERS, 3)
    start = 0
    for clip, (count, target) in enumerate(zip(batch.counts, batch.targets, strict=True)):
        for fold, layer in itertools.product(range(FOLDS), range(LAYERS)):
            leaf = found[fold, layer, start : start + count].clone().requires_grad_()
            lengths = torch.tensor([count]), torch.tensor([len(target)])
            loss = ctc_loss(log_softmax(leaf, -1)[:, None], target[None], *lengths, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, leaf)
            assert float(result.loss[fold, layer, clip]) == pytest.approx(loss.item(), abs=1e-4)
            assert torch.allclose(result.gradient[fold, layer, start : start + count], gradient, atol=1e-5)
        start += count


def test_posterior_sums_to_one_and_holds_only_the_letters() -> None:
    batch = batch_of([9, 6], [[1, 2, 1], [3]])
    result = forward_backward(batch, torch.randn(1, LAYERS, 15, SYMBOLS, generator=rng()), everyone(batch))
    posterior = result.probability - result.gradient
    assert torch.allclose(posterior.sum(-1), torch.ones(1, LAYERS, 15), atol=1e-5)
    assert float(posterior.min()) > -1e-6
    assert float(posterior[:, :, :9, 3:].abs().max()) < 1e-6
    assert float(posterior[:, :, 9:, [1, 2, 4]].abs().max()) < 1e-6


def test_posterior_is_that_of_all_paths() -> None:
    frames, target = 3, [1, 2]
    logits = torch.randn(1, 1, frames, 3, generator=rng(4))
    logs = log_softmax(logits[0, 0], -1)
    total, mass = 0.0, torch.zeros(frames, 3)
    for path in itertools.product(range(3), repeat=frames):
        if [symbol for symbol, _ in itertools.groupby(path) if symbol != 0] == target:
            weight = math.exp(sum(float(logs[frame, symbol]) for frame, symbol in enumerate(path)))
            total += weight
            for frame, symbol in enumerate(path):
                mass[frame, symbol] += weight
    batch = batch_of([frames], [target])
    result = forward_backward(batch, logits, everyone(batch))
    assert float(result.loss) == pytest.approx(-math.log(total), abs=1e-5)
    assert torch.allclose((result.probability - result.gradient)[0, 0], mass / total, atol=1e-5)


def test_only_the_chosen_clips_are_run() -> None:
    batch = batch_of([7, 4, 9], [[1, 2, 1], [3], [2, 2]], folds=FOLDS)
    found = torch.randn(FOLDS, LAYERS, 20, SYMBOLS, generator=rng())
    whole = forward_backward(batch, found, everyone(batch, FOLDS))
    chosen = torch.tensor([[True, False, False], [False, False, False], [False, True, True]])
    part = forward_backward(batch, found, chosen)
    over = batch.over_frames(chosen)[:, None, :, None]
    assert torch.allclose(part.loss, whole.loss * chosen[:, None], atol=1e-6)
    assert torch.allclose(part.gradient, whole.gradient * over, atol=1e-6)
    assert torch.equal(part.probability, whole.probability)
    none = forward_backward(batch, found, torch.zeros_like(chosen))
    assert float(none.loss.abs().max()) == float(none.gradient.abs().max()) == 0.0


def test_a_text_that_cannot_fit_is_left_out() -> None:
    batch = batch_of([3, 3, 2], [[1, 2, 1], [1, 1, 2], [1]])
    assert batch.train.tolist() == [[True, False, True]]
    result = forward_backward(batch, torch.randn(1, 1, 8, 3, generator=rng()), everyone(batch))
    assert float(result.loss[0, 0, 1]) == 0.0 and float(result.gradient[0, 0, 3:6].abs().max()) == 0.0


def test_scores_are_a_linear_map_of_each_fold_and_layer() -> None:
    frames = torch.randn(LAYERS, 11, WIDTH, generator=rng(1))
    weights = torch.randn(FOLDS, LAYERS, WIDTH, SYMBOLS, generator=rng(2))
    biases = torch.randn(FOLDS, LAYERS, SYMBOLS, generator=rng(3))
    expected = torch.einsum("lnw,flwv->flnv", frames, weights) + biases[:, :, None]
    assert torch.allclose(scores(frames, weights, biases), expected, atol=1e-5)


def test_even_alignment_spreads_letters_between_blanks() -> None:
    share = even_alignment(batch_of([8, 4], [[3, 1], [2]]), FOLDS, LAYERS, 4)
    assert share.shape == (FOLDS, LAYERS, 12, 4)
    assert share[1, 1].argmax(-1).tolist() == [0, 0, 3, 3, 1, 1, 0, 0, 0, 0, 2, 0]


def test_training_frames_are_white_without_the_fold_that_tests() -> None:
    corpus = Corpus(60)
    found = whiten(corpus, shrink=1e-6)
    for fold, layer in itertools.product(range(FOLDS), range(LAYERS)):
        kept = torch.cat(
            [clip[layer] for clip, tested in zip(corpus.clips, corpus.fold.tolist(), strict=True) if tested != fold]
        )
        assert torch.allclose(found.mean[fold, layer], kept.mean(0), atol=1e-3)
        white = (kept - found.mean[fold, layer]) @ found.root[fold, layer]
        assert torch.allclose(white.T @ white / len(white), torch.eye(WIDTH), atol=1e-3)


def test_frames_of_the_fold_that_tests_do_not_count() -> None:
    corpus, other = Corpus(), Corpus()
    other.clips = [clip * (9 if fold == 0 else 1) for clip, fold in zip(other.clips, other.fold.tolist(), strict=True)]
    one, two = whiten(corpus), whiten(other)
    assert torch.allclose(one.root[0], two.root[0], rtol=1e-2, atol=1e-4)
    assert not torch.allclose(one.root[1], two.root[1], rtol=1e-2, atol=1e-4)


def test_a_loud_dimension_does_not_drown_the_others() -> None:
    corpus = Corpus(60)
    for clip in corpus.clips:
        clip[:, :, -1] *= 10
    found = whiten(corpus)
    kept = torch.cat([clip[0] for clip, fold in zip(corpus.clips, corpus.fold.tolist(), strict=True) if fold != 0])
    white = (kept - found.mean[0, 0]) @ found.root[0, 0]
    assert torch.allclose(white.var(0), torch.ones(WIDTH), atol=0.02)


def test_a_constant_dimension_stays_finite() -> None:
    corpus = Corpus()
    for clip in corpus.clips:
        clip[:, :, 0] = 7.0
    probes = fit_ctc(corpus, generator=rng(), alignments=2, epochs=2)
    assert bool(torch.isfinite(probes.weights).all()) and bool(torch.isfinite(probes.loss).all())
    assert float(scores(corpus.clips[0], probes.weights, probes.biases).abs().max()) < 1e4


def fitted(corpus: Corpus, seed: int = 5) -> CtcProbes:
    return fit_ctc(corpus, generator=rng(seed), alignments=2, epochs=3)


def test_the_same_generator_gives_the_same_probes() -> None:
    one, same, other = fitted(Corpus(80)), fitted(Corpus(80)), fitted(Corpus(80), seed=6)
    assert torch.equal(one.weights, same.weights) and torch.equal(one.epochs, same.epochs)
    assert not torch.equal(one.weights, other.weights)


def test_probes_leave_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    fitted(Corpus())
    assert torch.equal(torch.get_rng_state(), before)


def test_no_fold_hears_the_speakers_that_it_tests() -> None:
    corpus, other = Corpus(), Corpus()
    for clip in range(len(other.clips)):
        if int(other.fold[clip]) == 0:
            # As many letters as before, so that nothing but the words differs.
            other.targets[clip] = 1 + other.targets[clip] % (SYMBOLS - 1)
    one, two = fitted(corpus), fitted(other)
    assert torch.equal(one.weights[0], two.weights[0]) and torch.equal(one.biases[0], two.biases[0])
    assert not torch.equal(one.weights[1], two.weights[1])


def test_clips_kept_for_stopping_choose_the_pass_and_nothing_else() -> None:
    corpus, other = Corpus(), Corpus()
    for clip in range(len(other.clips)):
        if bool(other.dev[0, clip]):
            other.targets[clip] = 1 + other.targets[clip] % (SYMBOLS - 1)
    one, two = (fit_ctc(source, generator=rng(), alignments=2, epochs=0) for source in (corpus, other))
    assert torch.equal(one.weights[0], two.weights[0])
    assert float(one.loss[0, 0]) != float(two.loss[0, 0])


def test_without_clips_for_stopping_the_alignment_stands() -> None:
    corpus = Corpus()
    corpus.dev = torch.zeros_like(corpus.dev)
    stopped = fit_ctc(corpus, generator=rng(), alignments=2, epochs=5)
    aligned = fit_ctc(corpus, generator=rng(), alignments=2, epochs=0)
    assert torch.equal(stopped.weights, aligned.weights)
    assert int(stopped.epochs.max()) == 0


def test_loss_kept_is_the_least_seen() -> None:
    corpus = Corpus(80)
    few, many = (fit_ctc(corpus, generator=rng(), alignments=1, epochs=epochs) for epochs in (0, 6))
    assert bool((many.loss <= few.loss).all())
    batch = corpus.read(range(80))
    run = forward_backward(batch, scores(batch.frames, many.weights, many.biases), corpus.dev)
    letters = (torch.tensor([len(target) for target in corpus.targets]) * corpus.dev).sum(1)
    assert torch.allclose(run.loss.sum(-1) / letters[:, None], many.loss, atol=1e-3)


def test_clips_are_read_a_chunk_at_a_time() -> None:
    corpus = Corpus(150, stored=8)
    steps: list[int] = []
    fit_ctc(corpus, generator=rng(), alignments=2, epochs=2, advance=steps.append)
    assert max(corpus.reads) < corpus.step + 8
    assert sum(steps) <= 1 + 2 + 2


def test_chunks_take_all_clips_once() -> None:
    corpus = Corpus(70, stored=4)
    assert sorted(clip for part in chunks(corpus) for clip in part) == list(range(70))
    order = torch.randperm(len(corpus.order), generator=rng()).tolist()
    parts = list(chunks(corpus, order))
    assert sorted(clip for part in parts for clip in part) == list(range(70))
    assert parts[0][:4] == corpus.order[order[0]]
    some = [clip for part in chunks(corpus, only=corpus.dev[0]) for clip in part]
    assert some == torch.nonzero(corpus.dev[0]).flatten().tolist()


def test_each_clip_is_read_by_the_fold_that_tests_it() -> None:
    corpus = Corpus(12)
    probes = fitted(corpus)
    paths = probes.best_paths(corpus.read(range(12)))
    for clip, path in enumerate(paths):
        fold = int(corpus.fold[clip])
        single = replace(probes, weights=probes.weights[fold : fold + 1], biases=probes.biases[fold : fold + 1])
        expected = scores(corpus.clips[clip], single.weights, single.biases)[0].argmax(-1)
        assert torch.equal(path, expected)
