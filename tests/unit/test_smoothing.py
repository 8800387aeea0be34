"""Do counts under noise depend on nothing but the model, the image, the seed and how many draws there are?"""

import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm
from torch import Tensor, nn

from probes.classifiers import smoothing
from probes.classifiers.classifier_networks import Normalise, small_cnn
from probes.classifiers.noise import BLOCK, STREAMS, Noise, Stream
from probes.classifiers.smoothing import BATCHES, MOST, ONE, ImageCounts, Sampler, VoteCounts
from probes.core.cache import Cache
from probes.core.errors import InputError
from probes.core.executor import one_thread

pytestmark = pytest.mark.numerical

SHAPE = (1, 12, 12)
GAUSSIAN = Noise("gaussian", 0.5)
UNIFORM = Noise("uniform", 0.5)


@pytest.fixture(autouse=True)
def as_in_a_job() -> Iterator[None]:
    """Count with one thread, as every job does: two may share out sums by the size of a batch."""
    with one_thread():
        yield


def image(number: int = 0, shape: tuple[int, int, int] = SHAPE) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(number))


def make_net(kind: str) -> nn.Module:
    """Return a network between several classes; the kinds end in sums that are computed in different ways."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        nets: dict[str, nn.Module] = {
            "batch norm": small_cnn(SHAPE, 5, 4, seed=1),
            "linear": nn.Sequential(nn.Flatten(), nn.Linear(144, 77), nn.ReLU(), nn.Linear(77, 5)),
            "odd sizes": nn.Sequential(
                *(nn.Conv2d(1, 33, 5), nn.GELU(), nn.Conv2d(33, 17, 1)),
                *(nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(153, 5)),
            ),
        }
    net = nets[kind]
    last = [layer for layer in net.modules() if isinstance(layer, nn.Linear)][-1]
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2.5)
        # Without noise no class is before another, so that noise decides.
        last.bias -= net.eval()(image()[None])[0]
    return net


NETS = ("batch norm", "linear", "odd sizes")


class Recorder(nn.Module):
    """Keeps what it is shown; of two classes, 0 wins where the first pixel is positive."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, pixels: Tensor) -> Tensor:
        self.seen.append(pixels.clone())
        first = pixels.flatten(1)[:, 0]
        return torch.stack([first, -first], 1)

    @property
    def all(self) -> Tensor:
        """Every image shown so far, in order, shape (draws, c, h, w)."""
        return torch.cat(self.seen)


class Slow(nn.Module):
    """A network that counts its calls and sleeps in each, unless it is given a batch of one size."""

    def __init__(self, net: nn.Module, fast: int) -> None:
        super().__init__()
        self.net, self.fast, self.calls = net, fast, 0

    def forward(self, pixels: Tensor) -> Tensor:
        self.calls += 1
        time.sleep(0.05 * (len(pixels) != self.fast))
        logits: Tensor = self.net(pixels)
        return logits


class Fickle(nn.Module):
    """A network that counts its calls and fails at one of them."""

    def __init__(self, net: nn.Module, fail_at: float = math.inf) -> None:
        super().__init__()
        self.net, self.fail_at, self.calls = net, fail_at, 0

    def forward(self, pixels: Tensor) -> Tensor:
        self.calls += 1
        if self.calls >= self.fail_at:
            raise KeyboardInterrupt
        logits: Tensor = self.net(pixels)
        return logits


def make_sampler(net: nn.Module, **more: Any) -> Sampler:
    settings = {"classes": 5, "noise": GAUSSIAN, "seed": 0, "device": "cpu", "dtype": "float32", "batch": 64}
    return Sampler(net, **{**settings, **more})


def noise_of(noise: Noise, draws: int, index: int = 0, stream: Stream = "estimation", seed: int = 0) -> Tensor:
    """Return the noise of the first draws: what a black image turns into, shape (draws, c, h, w)."""
    recorder = Recorder()
    sampler = make_sampler(recorder, classes=2, noise=noise, seed=seed)
    sampler.count_votes(torch.zeros(SHAPE), index, stream, 0, draws)
    # Whole blocks may be run, of which only the first draws count.
    return recorder.all[:draws]


def same(one: VoteCounts, other: VoteCounts) -> bool:
    parts = zip((one.votes, one.sums, one.squares), (other.votes, other.sums, other.squares), strict=True)
    return one.draws == other.draws and all(torch.equal(left, right) for left, right in parts)


def make_counts(cache: Cache, sampler: Sampler | Callable[[], Sampler], **more: Any) -> ImageCounts:
    make = sampler if callable(sampler) else lambda: sampler
    return ImageCounts(**{"sampler": make, "cache": cache, "key": "k", "index": 3, "pixels": image(), **more})


def refuse() -> Sampler:
    raise AssertionError("a draw was made that is known")


def ticking() -> dict[str, Any]:
    """A second goes by whenever the clock is read, and what was counted is saved every time."""
    return {"clock": itertools.count().__next__, "pause": -1.0}


@pytest.mark.parametrize("kind", NETS)
def test_counts_do_not_depend_on_the_batch_size(kind: str) -> None:
    found = [
        make_sampler(make_net(kind), batch=batch).count_votes(image(), 3, "estimation", 0, 555)
        for batch in (1, 16, 17, 32, 48, 64, 100, 128, 200, 256)
    ]
    assert int((found[0].votes > 0).sum()) >= 3
    assert all(same(found[0], other) for other in found[1:])


@pytest.mark.parametrize("kind", NETS)
@pytest.mark.parametrize("cuts", [(16,), (1,), (15, 17), (100, 187, 351), tuple(range(0, 555, 5))[1:]])
def test_counts_do_not_depend_on_where_they_are_split(kind: str, cuts: tuple[int, ...]) -> None:
    sampler = make_sampler(make_net(kind))
    whole = sampler.count_votes(image(), 3, "estimation", 0, 555)
    total = VoteCounts(0, *(torch.zeros(5, dtype=torch.int64) for _ in range(3)))
    for start, stop in itertools.pairwise((0, *cuts, 555)):
        total = total + sampler.count_votes(image(), 3, "estimation", start, stop)
    assert torch.equal(total.votes, whole.votes)
    assert same(total, whole)


def test_counts_do_not_depend_on_the_order_of_images_and_streams() -> None:
    sampler = make_sampler(make_net("batch norm"))
    jobs = [(number, stream) for number in range(3) for stream in STREAMS]
    forwards = {job: sampler.count_votes(image(job[0]), job[0], job[1], 0, 200) for job in jobs}
    for number, stream in reversed(jobs):
        again = make_sampler(make_net("batch norm"), batch=32).count_votes(image(number), number, stream, 0, 200)
        assert same(sampler.count_votes(image(number), number, stream, 0, 200), forwards[number, stream])
        assert same(again, forwards[number, stream])


@pytest.mark.parametrize("kind", NETS)
@pytest.mark.parametrize("batch", [16, 48])
def test_an_interrupted_count_goes_on_where_it_was_saved(tmp_path: Any, kind: str, batch: int) -> None:
    whole = make_sampler(make_net(kind)).count_votes(image(), 3, "estimation", 0, 500)
    cache = Cache(tmp_path)
    broken = Fickle(make_net(kind), fail_at=8)
    with pytest.raises(KeyboardInterrupt):
        make_counts(cache, make_sampler(broken, batch=batch), **ticking()).until("estimation", 500)
    resumed = Fickle(make_net(kind))
    counts = make_counts(cache, make_sampler(resumed, batch=batch), **ticking())
    assert same(counts.until("estimation", 500), whole)
    # Seven batches were saved before the eighth failed.
    assert resumed.calls == -(-(500 - 7 * batch) // batch)


@pytest.mark.parametrize("batch", [32, 64])
@pytest.mark.parametrize("kind", NETS)
def test_more_draws_later_are_the_draws_of_one_go(tmp_path: Any, kind: str, batch: int) -> None:
    sampler = make_sampler(make_net(kind), batch=batch)
    short = sampler.count_votes(image(), 3, "estimation", 0, 500)
    long = sampler.count_votes(image(), 3, "estimation", 0, 2000)
    counts = make_counts(Cache(tmp_path / "up"), sampler)
    assert same(counts.until("estimation", 500), short)
    assert torch.equal(counts.until("estimation", 2000).votes, long.votes)
    assert same(counts.until("estimation", 2000), long)
    counts = make_counts(Cache(tmp_path / "down"), sampler)
    assert same(counts.until("estimation", 2000), long)
    assert same(counts.until("estimation", 500), short)


def test_extension_through_the_cache_draws_only_what_is_missing(tmp_path: Any) -> None:
    cache = Cache(tmp_path)
    first = make_counts(cache, make_sampler(make_net("batch norm")))
    first.until("estimation", 512)
    first.save()
    module = Fickle(make_net("batch norm"))
    second = make_counts(cache, make_sampler(module))
    assert same(
        second.until("estimation", 1024),
        make_sampler(make_net("batch norm")).count_votes(image(), 3, "estimation", 0, 1024),
    )
    assert module.calls == 512 // 64
    second.save()
    # The shorter count stays known beside the longer one.
    third = make_counts(cache, refuse)
    assert (third.until("estimation", 512).draws, third.until("estimation", 1024).draws) == (512, 1024)


def test_nothing_is_run_where_all_is_known(tmp_path: Any) -> None:
    cache = Cache(tmp_path)
    first = make_counts(cache, make_sampler(make_net("linear")))
    known = [first.until(stream, draws) for stream, draws in (("selection", 100), ("estimation", 333), ("pilot", 7))]
    clean = first.clean()
    first.save()
    told: list[int] = []
    second = make_counts(cache, refuse, advance=told.append)
    assert second.clean() == clean
    again = [second.until(stream, draws) for stream, draws in (("selection", 100), ("estimation", 333), ("pilot", 7))]
    assert all(same(one, other) for one, other in zip(known, again, strict=True))
    assert second.seconds == pytest.approx(first.seconds)
    # Known draws count as progress too, and nothing new is written.
    assert sum(told) == 1 + 100 + 333 + 7
    before = [path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")]
    second.save()
    assert [path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")] == before
    with pytest.raises(AssertionError, match="is known"):
        second.until("estimation", 334)


def test_the_clean_class_is_that_of_the_image_alone() -> None:
    net = make_net("batch norm").eval()
    for number in range(1, 6):
        with torch.no_grad():
            expected = int(net(image(number)[None]).argmax())
        assert make_sampler(net).clean(image(number)) == expected


def test_every_seed_image_and_stream_has_noise_of_its_own() -> None:
    noises = {
        (seed, index, stream): noise_of(GAUSSIAN, 64, index, stream, seed)
        for seed in (0, 1, 11, 2**62)
        for index in (0, 1, 10)
        for stream in STREAMS
    }
    for one, other in itertools.combinations(noises.values(), 2):
        assert not (one == other).flatten(1).all(1).any()
        # 9216 pairs: four standard errors of the correlation of independent noise.
        correlation = float((one * other).mean()) / GAUSSIAN.scale**2
        assert abs(correlation) < 5 / math.sqrt(one.numel())


def test_draws_of_one_image_are_independent_of_each_other() -> None:
    drawn = noise_of(GAUSSIAN, 512).flatten(1).double()
    assert len(drawn.unique(dim=0)) == 512
    products = drawn @ drawn.T / drawn.shape[1] / GAUSSIAN.scale**2
    others = products[~torch.eye(512, dtype=torch.bool)]
    assert float(others.abs().max()) < 6 / math.sqrt(drawn.shape[1])
    assert float(others.std()) == pytest.approx(1 / math.sqrt(drawn.shape[1]), rel=0.05)


def test_no_noise_comes_twice_in_a_long_run() -> None:
    # This image, stream and seed have two blocks whose seeds agree in their lower 32 bits.
    recorder = Recorder()
    sampler = make_sampler(recorder, classes=2, batch=4096)
    sampler.count_votes(torch.zeros(1, 1, 1), 55, "estimation", 0, 28_000 * BLOCK)
    blocks = recorder.all.reshape(-1, BLOCK)
    assert len(blocks) == 28_000
    assert len(blocks.unique(dim=0)) == len(blocks)


@pytest.mark.parametrize(
    ("noise", "law"),
    [(GAUSSIAN, norm(0, 0.5).cdf), (UNIFORM, lambda x: np.clip((x + 0.5) / 1.0, 0, 1))],
    ids=["gaussian", "uniform"],
)
def test_noise_has_the_distribution_that_it_is_named_after(noise: Noise, law: Any) -> None:
    values = noise_of(noise, 1000).flatten().double().numpy()
    deviation = 0.5 if noise.kind == "gaussian" else 0.5 / math.sqrt(3)
    assert values.mean() == pytest.approx(0, abs=4 * deviation / math.sqrt(values.size))
    assert values.std() == pytest.approx(deviation, rel=0.01)
    assert kstest(values, law).pvalue > 1e-3
    if noise.kind == "uniform":
        assert -0.5 <= values.min() < -0.4999 and 0.4999 < values.max() <= 0.5


def test_every_pixel_and_channel_has_noise_of_its_own() -> None:
    recorder = Recorder()
    pixels = image(0, (3, 5, 4))
    make_sampler(recorder, classes=2).count_votes(pixels, 0, "estimation", 0, 4000)
    drawn = (recorder.all - pixels).flatten(1).double().numpy()
    together = np.corrcoef(drawn.T) - np.eye(60)
    assert np.abs(together).max() < 5.5 / math.sqrt(4000)
    # The image under the noise is the image itself, every pixel in its place.
    assert float((recorder.all.mean(0) - pixels).abs().max()) < 5.5 * 0.5 / math.sqrt(4000)


@pytest.mark.parametrize("draws", [1, 15, 16, 17, 63, 64, 65, 333])
def test_the_last_partial_batch_counts(draws: int) -> None:
    tally = make_sampler(make_net("linear")).count_votes(image(), 0, "selection", 0, draws)
    assert tally.draws == draws == int(tally.votes.sum())
    # Each output loses less than 1 / ONE to rounding.
    assert draws * (ONE - 5) <= int(tally.sums.sum()) <= draws * ONE


def test_a_network_in_training_mode_is_evaluated() -> None:
    net = nn.Sequential(make_net("batch norm"), nn.Dropout(0.5)).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found = make_sampler(net).count_votes(image(), 3, "estimation", 0, 300)
    assert not any(part.training for part in net.modules())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert same(found, make_sampler(make_net("batch norm").eval()).count_votes(image(), 3, "estimation", 0, 300))


def test_noise_is_added_before_the_normalisation() -> None:
    recorder = Recorder()
    make_sampler(nn.Sequential(Normalise((0.5,), (0.1,)), recorder), classes=2).count_votes(
        image(), 0, "estimation", 0, 500
    )
    spread = (recorder.all * 0.1 + 0.5 - image()).double()
    assert float(spread.std()) == pytest.approx(0.5, rel=0.02)


def test_votes_for_a_linear_classifier_come_as_often_as_theory_says() -> None:
    # f = sign(w.x + b): the top class has probability Phi(distance / sigma).
    generator = torch.Generator().manual_seed(2)
    weight = torch.randn(144, generator=generator)
    linear = nn.Linear(144, 2)
    with torch.no_grad():
        linear.weight[0], linear.weight[1] = weight, -weight
        shift = 0.3 * float(weight.norm()) - float(weight @ ((image().flatten() - 0.5) / 0.25))
        linear.bias[0], linear.bias[1] = shift, -shift
    net = nn.Sequential(Normalise((0.5,), (0.25,)), nn.Flatten(), linear)
    draws = 20_000
    tally = make_sampler(net, classes=2, batch=256).count_votes(image(), 0, "estimation", 0, draws)
    # After the normalisation a distance of 0.3 is one of 0.3 * 0.25 in pixels.
    expected = norm.cdf(0.3 * 0.25 / 0.5)
    assert int(tally.votes[0]) / draws == pytest.approx(expected, abs=4.5 * math.sqrt(0.25 / draws))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_refused(bad: float) -> None:
    class Overflowing(nn.Module):
        def forward(self, pixels: Tensor) -> Tensor:
            first = pixels.flatten(1)[:, :2]
            return torch.where(first > 1.8, bad, first)

    sampler = make_sampler(Overflowing(), classes=2)
    with pytest.raises(InputError, match="not finite") as caught:
        sampler.count_votes(torch.zeros(SHAPE), 0, "estimation", 0, 50_000)
    assert "--sigma" in caught.value.hint


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_runs(dtype: str) -> None:
    exact = make_sampler(make_net("batch norm")).count_votes(image(), 3, "estimation", 0, 400)
    sampler = make_sampler(make_net("batch norm"), dtype=dtype)
    found = sampler.count_votes(image(), 3, "estimation", 0, 400)
    assert next(sampler.module.parameters()).dtype == getattr(torch, dtype)
    assert int(found.votes.sum()) == 400
    assert float((found.votes - exact.votes).abs().max()) <= 20
    assert 0 <= sampler.clean(image()) < 5
    assert same(found, make_sampler(make_net("batch norm"), dtype=dtype).count_votes(image(), 3, "estimation", 0, 400))


def test_sums_are_those_of_the_soft_outputs() -> None:
    net = make_net("batch norm").eval()
    noisy = image() + noise_of(GAUSSIAN, 700, index=3)
    with torch.no_grad():
        soft = net(noisy).double().softmax(1)
    tally = make_sampler(net).count_votes(image(), 3, "estimation", 0, 700)
    assert float((tally.sums / ONE / 700 - soft.mean(0)).abs().max()) < 1.5e-6
    assert float((tally.squares / ONE / ONE / 700 - (soft**2).mean(0)).abs().max()) < 3e-6
    assert torch.equal(tally.votes, soft.argmax(1).bincount(minlength=5))
    # Rounded down, so that a lower limit stays one.
    assert bool((tally.sums / ONE <= soft.sum(0) + 1e-5).all())


def test_sums_of_squares_hold_as_many_draws_as_may_be_asked() -> None:
    # A class with soft output 1 in every draw.
    draws = MOST
    one = VoteCounts(1, *(torch.tensor([ONE**power, 0]) for power in range(3)))
    rest = VoteCounts(draws - 1, *(torch.tensor([(draws - 1) * ONE**power, 0]) for power in range(3)))
    total = rest + one
    mean = total.sums.double() / ONE / draws
    square = total.squares.double() / float(ONE) ** 2 / draws
    assert mean[0] == pytest.approx(1) and square[0] == pytest.approx(1)


@pytest.mark.parametrize("fast", [32, 64])
def test_the_fastest_batch_size_is_found_once_among_the_sizes(fast: int) -> None:
    module = Slow(make_net("linear"), fast)
    sampler = make_sampler(module, batch=0)
    sampler.prepare(image())
    assert sampler.batch == fast and fast in BATCHES
    assert sampler.piece >= sampler.batch
    calls = module.calls
    assert calls > 0
    sampler.prepare(image(1))
    assert module.calls == calls
    # The trial leaves no trace in the counts.
    assert same(
        sampler.count_votes(image(), 0, "pilot", 0, 96),
        make_sampler(make_net("linear")).count_votes(image(), 0, "pilot", 0, 96),
    )


@pytest.mark.parametrize("pieces", [(32,), (32, 64, 96), (160, 32)])
def test_draws_fall_into_the_same_batches_however_long_a_second_is(tmp_path: Any, pieces: tuple[int, ...]) -> None:
    recorder = Recorder()
    sampler = make_sampler(recorder, classes=2, batch=32)
    counts = make_counts(Cache(tmp_path), sampler, pixels=torch.zeros(SHAPE))
    counts.until("estimation", 100)
    recorder.seen.clear()
    drawn = counts.until("estimation", 100)
    for piece in itertools.cycle(pieces):
        if drawn.draws >= 300:
            break
        sampler.piece = piece
        drawn = counts._grown("estimation", drawn, 300)
    # From the block that holds draw 100 on: 96 to 304 in batches of two blocks.
    assert [len(seen) for seen in recorder.seen] == [32] * 6 + [16]


def test_no_larger_batch_is_tried_where_one_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoothing, "_LONG", 0.0)
    module = Slow(make_net("linear"), 64)
    sampler = make_sampler(module, batch=0)
    sampler.prepare(image())
    assert sampler.batch == BATCHES[0]


def test_the_batch_of_large_images_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoothing, "MOST_VALUES", 40 * 144)
    sampler = make_sampler(make_net("linear"), batch=0)
    sampler.prepare(image())
    assert sampler.batch in (16, 32)
    monkeypatch.setattr(smoothing, "MOST_VALUES", 1)
    sampler = make_sampler(make_net("linear"), batch=0)
    sampler.prepare(image())
    assert sampler.batch == BLOCK


def test_memory_does_not_grow_with_the_draws(tmp_path: Any) -> None:
    recorder = Recorder()
    sampler = make_sampler(recorder, classes=2)
    sizes = []
    for draws in (64, 1000, 20_000):
        make_counts(Cache(tmp_path), sampler, key=draws).until("estimation", draws)
        assert max(len(batch) for batch in recorder.seen) <= 64
        recorder.seen.clear()
        sizes.append(
            sum(value.untyped_storage().nbytes() for value in vars(sampler).values() if isinstance(value, Tensor))
        )
    assert sizes == [64 * 144 * 4] * 3


def test_seconds_grow_with_the_draws_and_are_kept(tmp_path: Any) -> None:
    cache = Cache(tmp_path)
    counts = make_counts(cache, make_sampler(make_net("linear"), batch=16), **ticking())
    counts.until("estimation", 160)
    # By the clock of this test a piece takes a second.
    assert counts.seconds == 10
    counts.save()
    # What was saved on the way is not kept.
    stored = cache.read(smoothing.KIND, "k")
    assert stored is not None and stored["estimation.draws"].tolist() == [160]
    assert make_counts(cache, refuse).seconds == 10
