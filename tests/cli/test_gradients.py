"""Does `miles audit-gradients` refuse what is wrong with one panel, and claim no more than its numbers carry?"""

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from refusals import one_panel
from safetensors.numpy import save_file

from audits.core.records import Report
from audits.report.report_file import read_report
from probes.gradients import methods
from probes.gradients.estimators import backpropagated

FACTORIES = """
    import torch
    from torch import nn

    entropy = nn.functional.cross_entropy

    def batches(count=6):
        rng = torch.Generator().manual_seed(1)
        drawn = [(torch.randn(12, 6, generator=rng), torch.randint(3, (12,), generator=rng)) for _ in range(count)]
        return drawn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.norm = nn.Linear(6, 8), nn.BatchNorm1d(8)
            self.drop, self.last = nn.Dropout(0.5), nn.Linear(8, 3)

        def forward(self, inputs):
            return self.last(self.drop(torch.tanh(self.norm(self.first(inputs)))))

    def fine():
        return Net(), entropy, batches()

    def tied():
        model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
        model[2].weight = model[0].weight
        return model, entropy, batches()

    def shared():
        model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
        model[2].weight = nn.Parameter(model[0].weight.data)
        return model, entropy, batches()

    def dead():
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        nn.init.constant_(model[0].bias, -1000.0)
        return model, entropy, batches()

    def frozen():
        model = Net()
        model.first.weight.requires_grad_(False)
        return model, entropy, batches()

    def unused():
        model = Net()
        model.aside = nn.Linear(3, 3)
        return model, entropy, batches()

    class Sometimes(Net):
        def __init__(self):
            super().__init__()
            self.extra = nn.Linear(6, 3)

        def forward(self, inputs):
            return super().forward(inputs) + (self.extra(inputs) if inputs[0, 0] > 0 else 0)

    def sometimes():
        return Sometimes(), entropy, batches()

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.inside, self.last = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 3)

        def forward(self, inputs):
            steps = inputs.unsqueeze(1).repeat(1, 3, 1)
            return self.last(self.inside(steps, steps, steps, need_weights=False)[0].mean(1))

    def attention():
        return Attention(), entropy, batches()

    def number():
        return 3

    def fails():
        raise RuntimeError("no such thing")

    def few():
        return Net(), entropy, batches(3)

    def no_pairs():
        return Net(), entropy, [1, 2, 3, 4]

    def of_each_row():
        return Net(), nn.CrossEntropyLoss(reduction="none"), batches()

    def noisy():
        return nn.Sequential(Noise(), nn.Linear(6, 3)), entropy, batches()

    class Noise(nn.Module):
        def forward(self, inputs):
            return inputs + torch.randn_like(inputs)

    def loss_fails():
        def loss(output, target):
            raise KeyError("hm")
        return Net(), loss, batches()

    def other_width():
        given = batches()
        given[2] = torch.zeros(12, 9), given[2][1]
        return Net(), entropy, given

    def not_finite():
        given = batches()
        given[2][0][0, 0] = float("nan")
        return Net(), entropy, given

    def held_out_not_finite():
        given = batches()
        given[-1][0][0, 0] = float("nan")
        return Net(), entropy, given
"""
MLP = ["--net", "mlp", "--widths", "6,8,8,3", "--batches", "4", "--batch-size", "8"]
Gradients = Mapping[str, np.ndarray]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "made_for_gradients.py").write_text(textwrap.dedent(FACTORIES))
    (work / "empty").mkdir()
    monkeypatch.chdir(work)
    write("saved", lambda reference, rng: {"near": {name: 1.1 * value for name, value in reference.items()}})
    return work


def factory(name: str) -> list[str]:
    return ["--factory", f"made_for_gradients:{name}", "--allow-code"]


def write(
    name: str,
    made: Callable[[Gradients, np.random.Generator], Mapping[str, Gradients]],
    batches: int = 5,
    steps: tuple[int, ...] = (0,),
    draws: str = "",
) -> None:
    """Write gradients of two layers, and what is made of them."""
    Path(name).mkdir()
    rng = np.random.default_rng(0)
    for step in steps:
        for batch in range(batches):
            reference = {"first.weight": rng.normal(size=(20, 10)), "last.weight": rng.normal(size=(10, 5))}
            found = {"reference": reference, **made(reference, rng)}
            tensors = {f"{method}/{key}": value for method, own in found.items() for key, value in own.items()}
            save_file(tensors, Path(name, f"step{step}_batch{batch}.safetensors"), {"draws": draws})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "There is nothing to audit"),
        (["weights.safetensors", *MLP, "--methods", "bp"], "MODEL are weights for --factory"),
        (["--net", "mlp"], "No method is named"),
        (["--net", "cnn", "--methods", "bp"], "is not a choice"),
        ([*MLP, "--methods", "fotonn"], "no method 'fotonn'"),
        ([*MLP, "--methods", "highway-x"], "no method 'highway-x'"),
        ([*MLP, "--methods", "truncated-2"], "No method fits this network"),
        (["--net", "gru", "--widths", "4,6,3", "--methods", "dsf,dsf:linspace"], "is named twice"),
        (["--net", "mlp", "--widths", "6,3", "--methods", "bp"], "no widths of a mlp"),
        (["--net", "mlp", "--widths", "6,0,3", "--methods", "bp"], "is no list of whole numbers from"),
        (["--net", "mlp", "--widths", "6,x,3", "--methods", "bp"], "is no list of whole numbers from"),
        (["--net", "resmlp", "--widths", "6,8,3", "--methods", "bp"], "no widths of a resmlp"),
        (["--net", "gru", "--widths", "6,8,8,3", "--methods", "dsf"], "no widths of a gru"),
        ([*MLP, "--methods", "bp", "--at-steps", "0,-1"], "is no list of whole numbers from"),
        ([*MLP, "--methods", "bp", "--lr-grid", "0.1,0"], "is no rate"),
        ([*MLP, "--methods", "bp", "--lr-grid", "nan"], "is no rate"),
        ([*MLP, "--methods", "bp", "--budget", "joules"], "is not a choice"),
        ([*MLP, "--methods", "bp", "--seeds", "3"], "--seeds is only for --train-steps"),
        ([*MLP, "--methods", "bp", "--claim", "foton=5"], "is not METHOD=X"),
        ([*MLP, "--methods", "foton", "--claim", "foton=fast"], "is not METHOD=X"),
        ([*MLP, "--methods", "foton", "--claim", "foton=inf"], "is not METHOD=X"),
        ([*MLP, "--methods", "foton", "--claim", "foton=5", "--claim", "foton=2"], "once for each method"),
        ([*MLP, "--methods", "bp", "--eps", "0"], "--eps"),
        ([*factory("fine"), "--widths", "6,8,3", "--methods", "bp"], "--widths is only for --net"),
        ([*factory("fine"), "--net", "mlp", "--methods", "bp"], "exclude each other"),
        (["--factory", "made_for_gradients:fine", "--methods", "bp"], "--allow-code"),
        ([*factory("absent"), "--methods", "bp"], "no attribute 'absent'"),
        ([*factory("number"), "--methods", "bp"], "does not return (model, loss, batches)"),
        ([*factory("fails"), "--methods", "bp"], "no such thing"),
        ([*factory("few"), "--methods", "bp"], "4 are needed"),
        ([*factory("no_pairs"), "--methods", "bp"], "no pairs"),
        ([*factory("tied"), "--methods", "bp"], "0.weight and 2.weight are one tensor"),
        ([*factory("shared"), "--methods", "bp"], "0.weight and 2.weight are one tensor"),
        ([*factory("of_each_row"), "--methods", "bp"], "A loss is one finite number"),
        ([*factory("noisy"), "--methods", "bp"], "Two passes of one batch"),
        ([*factory("loss_fails"), "--methods", "bp"], "loss failed: KeyError"),
        ([*factory("other_width"), "--methods", "bp"], "loss failed: RuntimeError"),
        ([*factory("not_finite"), "--methods", "bp"], "batch 2"),
        ([*factory("held_out_not_finite"), "--methods", "bp"], "batch 5, held out"),
        ([*factory("fine"), "--methods", "foton"], "No method fits this network"),
        ([*factory("fine"), "--methods", "bp", "--train-steps", "2", "--budget", "span"], "built-in networks alone"),
        (["absent.safetensors", *factory("fine"), "--methods", "bp"], "absent.safetensors"),
        (["--gradients", "absent"], "no such folder"),
        (["--gradients", "empty"], "no gradients to compare"),
        (["--gradients", "saved", "--net", "mlp"], "exclude each other"),
        (["--gradients", "saved", "--methods", "foton"], "exclude each other"),
        (["--gradients", "saved", "--claim", "near=50"], "exclude each other"),
        (["--gradients", "saved", "--train-steps", "5"], "exclude each other"),
        (["weights.safetensors", "--gradients", "saved"], "exclude each other"),
    ],
)
def test_what_is_wrong_is_said_in_one_panel_and_nothing_is_written(
    folder: Path, call_miles: Any, words: list[str], said: str
) -> None:
    one_panel(call_miles("audit-gradients", *words, "--out", "run"), said)
    assert not (folder / "run").exists()


def run(call_miles: Any, *words: str) -> Report:
    outcome = call_miles("audit-gradients", *words, "--out", "run", "--force")
    assert outcome.code == 0, outcome.err
    return read_report(Path("run"))


def warned(report: Report) -> set[str]:
    return {warning.id for warning in report.warnings}


def found(report: Report, method: str) -> set[str]:
    return {one.id.partition(".")[2] for one in report.findings if one.where.get("method") == method}


def values(report: Report, name: str, **where: object) -> list[float]:
    rows = [row for row in report.estimates if row.name == name]
    return [row.value for row in rows if all(row.where[key] == value for key, value in where.items())]


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Return a function that installs a package whose estimator `theirs` is a function."""

    def install(gradients: Callable[..., Any]) -> None:
        class Theirs:
            name, stochastic = "theirs", False

            def supports(self, model: torch.nn.Module) -> str | None:
                return None

            def gradients(self, *given: Any, rng: torch.Generator) -> Any:
                return gradients(*given)

        package = SimpleNamespace(name="theirs", value="theirs:It", load=lambda: Theirs, dist=None)
        monkeypatch.setattr(methods, "entry_points", lambda group: (package,))

    return install


def test_an_estimator_that_changes_the_model_is_refused(folder: Path, call_miles: Any, foreign: Any) -> None:
    def change(model: torch.nn.Module, batch: Any, loss: Any) -> Any:
        gradient = backpropagated(model, batch, loss)
        with torch.no_grad():
            next(model.parameters()).add_(1.0)
        return gradient

    foreign(change)
    one_panel(call_miles("audit-gradients", *MLP, "--methods", "theirs", "--out", "run"), "changes what it is given")
    assert not (folder / "run").exists()


@pytest.mark.parametrize("kept", ["layers.2", "layers.0"])
def test_a_part_of_the_gradient_is_absent_and_is_not_called_the_gradient(
    folder: Path, call_miles: Any, foreign: Any, kept: str
) -> None:
    def part(model: torch.nn.Module, batch: Any, loss: Any) -> Any:
        return {name: g for name, g in backpropagated(model, batch, loss).items() if name.startswith(kept)}

    foreign(part)
    report = run(call_miles, *MLP, "--methods", "bp,theirs")
    assert {"absent", "no-gradient"} <= warned(report) and "not-finite" not in warned(report)
    assert "equal" in found(report, "bp")
    assert not {"equal", "below_noise"} & found(report, "theirs")
    assert not values(report, "cosine", method="theirs", layer="layers.1.weight")


def test_what_an_estimator_of_another_package_gave_is_not_kept(folder: Path, call_miles: Any, foreign: Any) -> None:
    words = [*MLP, "--methods", "theirs", "--train-steps", "4", "--seeds", "2", "--lr-grid", "0.1"]
    losses = []
    for scale in (1.0, -1.0):
        foreign(lambda *given, by=scale: {name: by * g for name, g in backpropagated(*given).items()})
        losses.append(values(run(call_miles, *words), "loss_at_budget", method="theirs"))
    assert losses[0] < losses[1]


def test_dropout_and_batch_norm_are_the_same_in_every_pass(folder: Path, call_miles: Any) -> None:
    report = run(call_miles, *factory("fine"), "--methods", "bp,forward-gradient", "--at-steps", "0,3")
    assert "equal" in found(report, "bp") and not warned(report)


def test_a_dead_network_has_no_cosine_where_no_gradient_comes(folder: Path, call_miles: Any) -> None:
    report = run(call_miles, *factory("dead"), "--methods", "bp,sign")
    assert "dead" in warned(report) and "gradients.dead" in {one.id for one in report.findings}
    assert not values(report, "cosine", layer="0.weight")
    assert len(values(report, "cosine", layer="2.bias", method="bp")) == 1


@pytest.mark.parametrize(
    ("name", "absent"), [("frozen", "first.weight"), ("unused", "aside.weight"), ("sometimes", ""), ("attention", "")]
)
def test_parameters_that_do_not_move_and_layers_without_second_derivative(
    folder: Path, call_miles: Any, name: str, absent: str
) -> None:
    report = run(call_miles, *factory(name), "--methods", "bp,sign")
    assert values(report, "cosine", method="bp", layer="last.weight") == [1.0]
    assert not absent or not values(report, "cosine", layer=absent)
    assert values(report, "progress_ratio", method="bp", kind="curvature") in ([], [1.0])


def test_layers_of_few_entries_are_not_called_chance(folder: Path, call_miles: Any) -> None:
    words = ["--net", "mlp", "--widths", "1,2,2", "--act", "tanh", "--batches", "4"]
    report = run(call_miles, *words, "--methods", "bp,sign")
    assert "chance" not in found(report, "bp") | found(report, "sign") | found(report, "random")


def test_an_unbiased_estimate_whose_mean_is_above_zero_is_not_called_chance(folder: Path, call_miles: Any) -> None:
    words = ["--net", "mlp", "--widths", "16,32,32,4", "--batches", "32", "--draws", "32"]
    report = run(call_miles, *words, "--methods", "forward-gradient")
    (row,) = [
        row
        for row in report.estimates
        if row.name == "cosine" and row.where["method"] == "forward-gradient" and row.where["layer"] == "hidden"
    ]
    assert row.low is not None and row.low > 0 and row.high is not None and row.high < 1.96 / 1600**0.5
    assert "chance" not in found(report, "forward-gradient") and "descent" in found(report, "forward-gradient")


def test_stored_gradients_that_are_not_finite_or_not_there_are_told(folder: Path, call_miles: Any) -> None:
    write("whole", lambda reference, rng: {"same": dict(reference)}, steps=(0, 5))
    report = run(call_miles, "--gradients", "whole")
    assert "equal" in found(report, "same") and not warned(report)
    Path("whole/step5_batch1.safetensors").unlink()
    report = run(call_miles, "--gradients", "whole")
    assert "equal" in found(report, "same") and warned(report) == {"no-file"}
    assert (report.coverage.given, report.coverage.used) == (9, 9)
    turn = iter(range(100))

    def broken(reference: Gradients, rng: np.random.Generator) -> Mapping[str, Gradients]:
        bad = next(turn) == 2
        return {"same": {name: value * (np.nan if bad else 1.0) for name, value in reference.items()}}

    write("broken", broken)
    report = run(call_miles, "--gradients", "broken")
    assert "equal" not in found(report, "same") and warned(report) == {"not-finite"}
    assert (report.coverage.given, report.coverage.used) == (5, 4)


def test_draws_that_are_stored_have_bias_and_variance(folder: Path, call_miles: Any) -> None:
    def noisy(reference: Gradients, rng: np.random.Generator) -> Mapping[str, Gradients]:
        drawn = {name: value + rng.normal(size=(8, *value.shape)) for name, value in reference.items()}
        return {"drawn": drawn, "against": {name: -value for name, value in reference.items()}}

    write("drawn", noisy, draws="drawn")
    report = run(call_miles, "--gradients", "drawn")
    assert values(report, "relative_variance", method="drawn", layer="all") == pytest.approx([1.0], rel=0.2)
    verdicts = {one.where["method"]: one.where["verdict"] for one in report.findings if "verdict" in one.where}
    assert verdicts == {"drawn": "descent", "against": "ascent"}


def test_a_claim_above_the_ceiling_is_found_and_one_below_is_not(folder: Path, call_miles: Any) -> None:
    report = run(call_miles, *MLP, "--methods", "foton,dfa", "--claim", "foton=100", "--claim", "dfa=2.5")
    assert "claimed_speed" in found(report, "foton") and "claimed_speed" not in found(report, "dfa")


def test_every_budget_has_its_losses_and_the_same_command_the_same_numbers(folder: Path, call_miles: Any) -> None:
    words = [*MLP, "--methods", "dfa", "--train-steps", "4", "--seeds", "2", "--lr-grid", "0.1", "--at-steps", "0,2"]
    words += ["--budget", "steps,operations,span"]
    one, other = (run(call_miles, *words) for _ in range(2))
    assert {row.where["budget"] for row in one.estimates if row.name == "loss_at_budget"} == {
        "steps",
        "operations",
        "span",
    }
    assert values(one, "loss_at_budget", method="bp", budget="steps") == values(
        one, "loss_at_budget", method="bp", budget="span"
    )

    def timeless(report: Report) -> list[Any]:
        timed = {"cost", "speedup", "speedup_ceiling"}
        return [row for row in report.estimates if row.name not in timed or row.where.get("kind") in ("work", "span")]

    assert timeless(one) == timeless(other)
    another = run(call_miles, *words, "--seed", "1")
    assert timeless(one) != timeless(another)


def test_a_training_that_leaves_the_numbers_is_told(folder: Path, call_miles: Any) -> None:
    words = [*MLP, "--methods", "sign", "--lr-grid", "1e5", "--act", "linear", "--at-steps", "0,400"]
    one_panel(call_miles("audit-gradients", *words, "--out", "run", "--quiet"), "leaves the numbers")


def test_a_plan_names_what_would_run_and_runs_nothing(folder: Path, call_miles: Any) -> None:
    outcome = call_miles("audit-gradients", *MLP, "--methods", "foton,highway-2", "--out", "run", "--dry-run")
    assert outcome.code == 0, outcome.err
    assert "foton, random" in outcome.out and not (folder / "run").exists()


def test_a_gate_on_the_cosine_fails_where_it_is_low(folder: Path, call_miles: Any) -> None:
    gate = ["--fail-if", "relative_error[method=near,layer=hidden].high > 0.05"]
    assert call_miles("audit-gradients", "--gradients", "saved", "--out", "run", *gate).code == 1
    assert call_miles("audit-gradients", "--gradients", "saved", "--out", "other").code == 0


def test_weights_of_a_file_are_those_that_are_audited(
    folder: Path, call_miles: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import save_file as save

    monkeypatch.syspath_prepend(folder)
    from made_for_gradients import Net  # type: ignore[import-not-found]

    model = Net()
    torch.nn.init.zeros_(model.last.weight)
    save(model.state_dict(), "weights.safetensors")
    report = run(call_miles, "weights.safetensors", *factory("fine"), "--methods", "bp")
    assert not values(report, "cosine", layer="first.weight") and "dead" in warned(report)


def test_a_descent_is_said_of_the_steps_that_were_looked_at(folder: Path, call_miles: Any) -> None:
    report = run(call_miles, *MLP, "--methods", "sign", "--at-steps", "3")
    (said,) = [one.headline for one in report.findings if one.id == "gradients.descent"]
    assert said.startswith("sign descends at step 3: cosine")


def test_the_balanced_demo_finds_nothing_that_is_not_there(folder: Path, call_miles: Any, no_pages: object) -> None:
    outcome = call_miles("demo", "audit-gradients", "--balanced", "--out", "run")
    assert outcome.code == 0 and "✗" not in outcome.out, outcome.out
    report = read_report(Path("run"))
    assert "equal" in found(report, "foton") and not [one for one in report.findings if one.severity == "high"]
