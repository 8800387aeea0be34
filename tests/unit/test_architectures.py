from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from probes.classifiers.classifier_networks import LeNet, ResNet, Stage, small_cnn
from probes.core.errors import InputError
from probes.models.architectures import ARCHITECTURES, build, guess_architecture, input_shape, normalisation

State = dict[str, Tensor]


def randomised(module: nn.Module) -> State:
    """Weights, and running statistics, that are all different."""
    generator = torch.Generator().manual_seed(1)
    state: State = {}
    for name, value in module.state_dict().items():
        if not value.is_floating_point():
            state[name] = value
            continue
        drawn = torch.rand(value.shape, generator=generator) - 0.5
        state[name] = drawn + 1.2 if "bn" in name or name.endswith("running_var") else drawn / value[:1].numel() ** 0.5
    return state


def cifar(depth: int, *, head: str = "linear", deep: bool = False, width: int = 4, classes: int = 5) -> State:
    blocks = (depth - 2) // (9 if deep else 6)
    outs = [width * 2**place * (4 if deep else 1) for place in range(3)]
    stages = [Stage(blocks, out // 4 if deep else 0, out, min(2, place + 1)) for place, out in enumerate(outs)]
    shortcut = "padded" if head == "linear" else "downsample"
    return randomised(ResNet(3, width, stages, classes, large=False, shortcut=shortcut, head=head))


LARGE = {
    "resnet18": ((2, 2, 2, 2), 0, 1),
    "resnet34": ((3, 4, 6, 3), 0, 1),
    "resnet50": ((3, 4, 6, 3), 1, 4),
    "resnet101": ((3, 4, 23, 3), 1, 4),
    "resnet152": ((3, 8, 36, 3), 1, 4),
    "wide_resnet50_2": ((3, 4, 6, 3), 2, 4),
    "wide_resnet101_2": ((3, 4, 23, 3), 2, 4),
}


def imagenet(width: int, classes: int, arch: str = "resnet50") -> ResNet:
    counts, inner, out = LARGE[arch]
    stages = [
        Stage(count, inner * width * 2**place, out * width * 2**place, min(2, place + 1))
        for place, count in enumerate(counts)
    ]
    return ResNet(3, width, stages, classes, large=True, shortcut="downsample", head="fc")


STATES = {
    "mnist_lenet": randomised(LeNet(1, (4, 6), 7, 5)),
    "small_cnn": small_cnn((2, 9, 11), 3, width=4).state_dict(),
    **{f"cifar_resnet{depth}": cifar(depth) for depth in (20, 32, 44, 56, 110)},
    **{name: randomised(imagenet(2, 6, name)) for name in LARGE},
}


def refuse(arch: str, state: Mapping[str, Tensor]) -> InputError:
    with pytest.raises(InputError) as caught:
        build(arch, state)
    assert caught.value.where and caught.value.hint
    return caught.value


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_network_is_built_from_its_weights(arch: str) -> None:
    state = STATES[arch]
    assert guess_architecture(state) == arch
    module = build(arch, state).eval()
    shape = input_shape(arch, state)
    images = torch.rand(2, *(shape if arch not in LARGE else (3, 64, 64)))
    head = next(value for name, value in reversed(state.items()) if name.endswith(".bias"))
    logits = module(images)
    assert logits.shape == (2, len(head)) and bool(torch.isfinite(logits).all())
    assert torch.equal(fx.symbolic_trace(module)(images), logits)
    for name, value in module.state_dict().items():
        assert torch.equal(value, state[name])


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_convolutions_stand_directly_before_their_normalisation(arch: str) -> None:
    module = build(arch, STATES[arch])
    if arch == "mnist_lenet":
        assert not any(isinstance(part, nn.BatchNorm2d) for part in module.modules())
        return
    graph = fx.symbolic_trace(module).graph
    parts = dict(module.named_modules())
    for node in graph.nodes:
        if node.op == "call_module" and isinstance(parts[str(node.target)], nn.BatchNorm2d):
            before = node.args[0]
            assert isinstance(parts[str(before.target)], nn.Conv2d) and list(before.users) == [node]


@pytest.mark.parametrize(
    ("depth", "head", "count"),
    [
        (20, "linear", 269_722),
        (32, "linear", 464_154),
        (44, "linear", 658_586),
        (56, "linear", 853_018),
        (110, "linear", 1_727_962),
        (20, "fc", 272_474),
        (110, "fc", 1_730_714),
    ],
)
def test_published_parameter_counts(depth: int, head: str, count: int) -> None:
    module = build(f"cifar_resnet{depth}", cifar(depth, head=head, width=16, classes=10))
    assert sum(weight.numel() for weight in module.parameters()) == count


def test_published_parameter_counts_of_the_others() -> None:
    with torch.device("meta"):
        state = imagenet(64, 1000).state_dict()
        lenet = LeNet(1, (32, 64), 200, 10).state_dict()
    assert sum(weight.numel() for weight in build("resnet50", state).parameters()) == 25_557_032
    assert state["layer4.0.downsample.0.weight"].shape == (2048, 1024, 1, 1)
    assert sum(weight.numel() for weight in build("mnist_lenet", lenet).parameters()) == 648_226


@pytest.mark.parametrize(
    ("arch", "count"),
    [
        ("resnet18", 11_689_512),
        ("resnet34", 21_797_672),
        ("resnet101", 44_549_160),
        ("resnet152", 60_192_808),
        ("wide_resnet50_2", 68_883_240),
        ("wide_resnet101_2", 126_886_696),
    ],
)
def test_published_parameter_counts_of_large_networks(arch: str, count: int) -> None:
    with torch.device("meta"):
        state = imagenet(64, 1000, arch).state_dict()
    assert sum(weight.numel() for weight in build(arch, state).parameters()) == count
    assert input_shape(arch, state) == (3, 224, 224)
    assert normalisation(arch, state) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def test_a_stem_for_small_images_is_not_that_of_imagenet() -> None:
    small = {**STATES["resnet18"], "conv1.weight": torch.ones(2, 3, 3, 3)}
    assert guess_architecture(small) is None
    assert "conv1.weight is 2x3x3x3 in place of 2x3x7x7" in refuse("resnet18", small).message


def norm(state: State, name: str, features: Tensor) -> Tensor:
    mean, variance = state[f"{name}.running_mean"], state[f"{name}.running_var"]
    return functional.batch_norm(features, mean, variance, state[f"{name}.weight"], state[f"{name}.bias"])


def reference_cifar(state: State, images: Tensor, blocks: int, *, deep: bool) -> Tensor:
    """The network of the paper, written as one function of its weights."""
    features = functional.relu(norm(state, "bn1", functional.conv2d(images, state["conv1.weight"], padding=1)))
    for layer in (1, 2, 3):
        for block in range(blocks):
            at = f"layer{layer}.{block}"
            stride = 2 if layer > 1 and block == 0 else 1
            steps = (1, stride, 1) if deep else (stride, 1)
            branch = features
            for place, step in enumerate(steps, start=1):
                kernel = state[f"{at}.conv{place}.weight"]
                branch = functional.conv2d(branch, kernel, stride=step, padding=kernel.shape[-1] // 2)
                branch = norm(state, f"{at}.bn{place}", branch)
                branch = functional.relu(branch) if place < len(steps) else branch
            if f"{at}.downsample.0.weight" in state:
                kept = functional.conv2d(features, state[f"{at}.downsample.0.weight"], stride=stride)
                kept = norm(state, f"{at}.downsample.1", kept)
            elif stride == 2:
                pad = branch.shape[1] // 4
                kept = functional.pad(features[:, :, ::2, ::2], (0, 0, 0, 0, pad, pad))
            else:
                kept = features
            features = functional.relu(branch + kept)
    head = "fc" if "fc.weight" in state else "linear"
    return functional.linear(features.mean((2, 3)), state[f"{head}.weight"], state[f"{head}.bias"])


@pytest.mark.parametrize(("head", "deep"), [("linear", False), ("fc", False), ("fc", True)])
def test_cifar_networks_compute_what_the_paper_says(head: str, deep: bool) -> None:
    state = cifar(20, head=head, deep=deep)
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    expected = reference_cifar(state, images, 2 if deep else 3, deep=deep)
    assert expected.std() > 1e-3
    torch.testing.assert_close(build("cifar_resnet20", state).eval()(images), expected, rtol=1e-4, atol=1e-5)


def test_lenet_computes_what_its_example_says() -> None:
    state = STATES["mnist_lenet"]
    images = torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    features = images
    for name in ("conv1", "conv2"):
        features = functional.conv2d(features, state[f"{name}.weight"], state[f"{name}.bias"], padding=1)
        features = functional.max_pool2d(functional.relu(features), 2)
    hidden = functional.relu(functional.linear(features.flatten(1), state["linear1.weight"], state["linear1.bias"]))
    expected = functional.linear(hidden, state["linear2.weight"], state["linear2.bias"])
    torch.testing.assert_close(build("mnist_lenet", state)(images), expected)


def test_the_stem_of_resnet50_shrinks_four_times() -> None:
    module = build("resnet50", STATES["resnet50"])
    assert isinstance(module, ResNet)
    assert module.maxpool(module.conv1(torch.rand(1, 3, 64, 64))).shape == (1, 2, 16, 16)
    assert module.get_submodule("layer2.0.conv2").stride == (2, 2)
    assert module.get_submodule("layer2.0.conv1").stride == (1, 1)


def test_an_option_b_shortcut_is_known_by_its_name() -> None:
    state = {name.replace("downsample", "shortcut"): value for name, value in cifar(20, head="fc").items()}
    state = {name.replace("fc.", "linear."): value for name, value in state.items()}
    images = torch.rand(2, 3, 32, 32)
    expected = build("cifar_resnet20", cifar(20, head="fc")).eval()(images)
    torch.testing.assert_close(build("cifar_resnet20", state).eval()(images), expected)


def test_shapes_and_normalisation_of_each_layout() -> None:
    assert input_shape("mnist_lenet", STATES["mnist_lenet"]) == (1, 28, 28)
    assert input_shape("small_cnn", STATES["small_cnn"]) == (2, 9, 11)
    assert input_shape("cifar_resnet20", STATES["cifar_resnet20"]) == (3, 32, 32)
    assert input_shape("resnet50", STATES["resnet50"]) == (3, 224, 224)
    assert normalisation("mnist_lenet", STATES["mnist_lenet"]) is None
    assert normalisation("small_cnn", STATES["small_cnn"]) is None
    imagenet_means = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert normalisation("resnet50", STATES["resnet50"]) == imagenet_means
    assert normalisation("cifar_resnet20", cifar(20)) == imagenet_means
    cifar_means = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
    assert normalisation("cifar_resnet20", cifar(20, head="fc")) == cifar_means
    gray = {**cifar(20), "conv1.weight": torch.zeros(4, 1, 3, 3)}
    assert normalisation("cifar_resnet20", gray) is None and input_shape("cifar_resnet20", gray) == (1, 32, 32)


def test_the_depth_is_named_where_the_name_is_wrong() -> None:
    error = refuse("cifar_resnet32", cifar(20))
    assert "weights of cifar_resnet20" in error.message and "--arch cifar_resnet20" in error.hint
    assert "weights of mnist_lenet" in refuse("cifar_resnet110", STATES["mnist_lenet"]).message
    assert "weights of resnet50" in refuse("small_cnn", STATES["resnet50"]).message
    assert "weights of cifar_resnet20" in refuse("resnet50", cifar(20, deep=True, head="fc")).message


def test_missing_unexpected_and_other_shapes_are_listed_together() -> None:
    state = cifar(20)
    del state["layer2.1.conv2.weight"]
    state["layer1.0.bn1.bias"] = torch.zeros(9)
    state["aux.weight"] = torch.zeros(2)
    message = refuse("cifar_resnet20", state).message
    assert "1 missing (layer2.1.conv2.weight)" in message
    assert "1 unexpected (aux.weight)" in message
    assert "1 of another shape (layer1.0.bn1.bias is 9 in place of 4)" in message


def change(**entries: Tensor | None) -> State:
    changed = {**cifar(20), **{name.replace("__", "."): value for name, value in entries.items() if value is not None}}
    return {name: value for name, value in changed.items() if entries.get(name.replace(".", "__"), value) is not None}


@pytest.mark.parametrize(
    ("arch", "state", "message"),
    [
        ("cifar_resnet20", {}, "conv1.weight is missing"),
        ("resnet50", {"a": torch.ones(1)}, "conv1.weight is missing (there are a)"),
        ("cifar_resnet20", {"\x1b[2J": torch.ones(1)}, r"there are \x1b[2J"),
        ("cifar_resnet20", change(conv1__weight=torch.tensor(1.0)), "0 dimensions"),
        ("cifar_resnet20", change(conv1__weight=torch.zeros(10**9, 0, 3, 3)), "no elements (1000000000x0x3x3)"),
        ("cifar_resnet20", change(linear__weight=None), "fc.weight is missing"),
        ("cifar_resnet20", change(linear__weight=torch.zeros(5, 99)), "5x99 in place of 5x16"),
        ("cifar_resnet20", change(layer3__2__conv1__weight=None), "1 missing (layer3.2.conv1.weight)"),
        ("cifar_resnet20", change(layer1__9999__conv1__weight=torch.ones(1)), "1 unexpected"),
        ("mnist_lenet", {**STATES["mnist_lenet"], "linear1.weight": torch.zeros(7, 6 * 25)}, "7x150 in place of 7x294"),
        ("small_cnn", {**STATES["small_cnn"], "input_size": torch.tensor([10**12, 10**12])}, "from 4 to 65536"),
        ("small_cnn", {**STATES["small_cnn"], "input_size": torch.tensor([9.0, 9.0])}, "from 4 to 65536"),
        ("small_cnn", {**STATES["small_cnn"], "input_size": torch.tensor([16, 16])}, "another shape"),
        ("small_cnn", {**STATES["small_cnn"], "input_size": torch.tensor(8)}, "from 4 to 65536"),
        ("cifar_resnet20", change(conv1__weight=torch.ones(4, 3, 3, 3).long()), "its conv1.weight has numbers of type"),
        ("cifar_resnet20", change(bn1__running_mean=torch.ones(4).int()), "its bn1.running_mean has numbers of type"),
        ("cifar_resnet20", change(linear__bias=torch.ones(5) + 1j), "its linear.bias has numbers of type"),
        ("cifar_resnet21", {}, "not a known architecture"),
    ],
)
def test_weights_that_do_not_fit(arch: str, state: State, message: str) -> None:
    assert message in refuse(arch, state).message


def test_bottlenecks_with_padded_shortcuts_are_refused_not_misread() -> None:
    state = {name: value for name, value in cifar(20, head="fc").items() if "downsample" not in name}
    assert "layer2.0.downsample.0.weight" in refuse("cifar_resnet20", state).message


def test_counters_of_batches_may_be_absent_and_kinds_become_float32() -> None:
    state = {name: value for name, value in cifar(20).items() if not name.endswith("num_batches_tracked")}
    assert guess_architecture(state) == "cifar_resnet20"
    module = build("cifar_resnet20", {name: value.to(torch.float64) for name, value in state.items()})
    assert {value.dtype for value in module.parameters()} == {torch.float32}
    assert all(not bool(value) for name, value in module.named_buffers() if name.endswith("num_batches_tracked"))


@pytest.mark.parametrize("state", [{}, {"a": torch.ones(1)}, {"layer1.0.conv1.weight": torch.ones(1)}, cifar(14)])
def test_no_guess_is_made_of_what_is_not_known(state: State) -> None:
    assert guess_architecture(state) is None
