"""Is what was released loaded from options and suites, and every wrong word of a suite told with its place?"""

from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file

from audits.membership import Options
from audits.membership.releases import LONGEST_NAME, MOST_MODELS, Release, releases_of
from probes.core.errors import InputError
from probes.generators.generative_networks import fresh_denoiser, fresh_gan

SHAPE = (1, 3, 3)
DENOISER = 'denoiser = "den.safetensors"\narch = "mlp-denoiser"\nschedule = "linear"\n'
GENERATOR = 'generator = "gen.safetensors"\narch = "mlp-generator"\n'
SAMPLES = 'samples = "samples.npy"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("releases")
    generator, discriminator = fresh_gan(SHAPE, latent=4, hidden=6, seed=0)
    networks = {"den": fresh_denoiser(SHAPE, hidden=6, layers=1, seed=0), "gen": generator, "disc": discriminator}
    for name, network in networks.items():
        save_file(network.state_dict(), made / f"{name}.safetensors")
    np.save(made / "samples.npy", np.random.default_rng(0).normal(size=(12, *SHAPE)).astype(np.float32))
    (made / "h.json").write_text('{"history": [[1.0, 0.01, 1000]]}', encoding="utf-8")
    return made


def suite(folder: Path, *models: str, **options: object) -> tuple[Release, ...]:
    """Return the releases of a suite, whose models are given without their first line."""
    path = folder / "suite.toml"
    path.write_text("".join(f"[[model]]\n{model}\n" for model in models), encoding="utf-8")
    return releases_of(Options(suite=path, **options), SHAPE)


def refused(folder: Path, *models: str) -> InputError:
    with pytest.raises(InputError) as met:
        suite(folder, *models)
    assert met.value.hint and "suite.toml" in str(met.value.where)
    return met.value


@pytest.mark.parametrize(
    ("options", "tiers"),
    [
        ({"samples": "samples.npy"}, ("samples",)),
        ({"model": "den.safetensors", "arch": "mlp-denoiser", "schedule": "linear"}, ("denoiser",)),
        ({"model": "gen.safetensors", "arch": "mlp-generator"}, ("generator",)),
        ({"discriminator": "disc.safetensors", "samples": "samples.npy"}, ("samples", "full")),
    ],
)
def test_one_model_by_options(folder: Path, options: dict[str, str], tiers: tuple[str, ...]) -> None:
    files = {
        key: folder / value if value.endswith((".npy", ".safetensors")) else value for key, value in options.items()
    }
    files |= {"model": str(files["model"])} if "model" in files else {}
    (found,) = releases_of(Options(**files, epsilon=3.0), SHAPE)
    assert found.tiers == tiers and found.where == {} and found.label == "the model"
    assert found.claim is not None and found.claim.epsilon == 3.0


def test_several_models_of_a_suite(folder: Path) -> None:
    first = f'name = "ddpm"\n{SAMPLES}{DENOISER}epsilon = 8\ndelta = 1e-3\n'
    second = f'name = "gan"\n{GENERATOR}discriminator = "disc.safetensors"\nhistory = "h.json"\n'
    one, other = suite(folder, first, second, 'name = "bare"\n' + SAMPLES, delta=1e-6)[:2]
    assert (one.tiers, other.tiers) == (("samples", "denoiser"), ("generator", "full"))
    assert one.where == {"model": "ddpm"} and other.label == "gan"
    assert one.claim is not None and (one.claim.epsilon, one.claim.delta) == (8.0, 1e-3)
    assert other.claim is not None and other.claim.delta == 1e-6 and other.claim.source == "accounted from h.json"
    assert suite(folder, 'name = "bare"\n' + SAMPLES)[0].claim is None


def test_runs_of_a_suite_are_those_of_the_model_or_of_the_option(folder: Path) -> None:
    first = f'name = "a"\n{SAMPLES}epsilon = 8\ndelta = 1e-3\nruns_tried = 3\n'
    second = f'name = "b"\n{SAMPLES}history = "h.json"\n'
    one, other, bare = suite(folder, first, second, f'name = "c"\n{SAMPLES}', delta=1e-6, runs_tried=20)
    assert one.claim is not None and (one.claim.epsilon, one.claim.delta, one.claim.runs) == (24.0, 3e-3, 3)
    assert one.claim.each is not None and (one.claim.each.epsilon, one.claim.each.delta) == (8.0, 1e-3)
    assert other.claim is not None and (other.claim.delta, other.claim.runs) == (2e-5, 20) and bare.claim is None


def test_what_a_key_takes_is_told_in_words(folder: Path) -> None:
    for line, hint in (
        ('runs_tried = "3"', "Give a whole number."), ("runs_tried = 3.0", "Give a whole number."),
        ("runs_tried = true", "Give a whole number."), ("latent = 1.5", "Give a whole number."),
        ('epsilon = "3"', "Give a number."), ("arch = 3", "Give text in quotes."),
    ):  # fmt: skip
        assert refused(folder, f'name = "one"\n{SAMPLES}{line}\n').hint == hint


def test_a_checkpoint_of_several_runs_claims_for_them_all(folder: Path) -> None:
    import torch

    weights = fresh_denoiser(SHAPE, hidden=6, layers=1, seed=0).state_dict()
    account = {"history": [(1.0, 0.01, 1000)], "mechanism": "rdp"}
    torch.save({"module_state_dict": weights, "privacy_accountant_state_dict": account}, folder / "own.pt")
    how = {"model": str(folder / "own.pt"), "arch": "mlp-denoiser", "schedule": "linear"}
    one, all_ = (releases_of(Options(**how, runs_tried=runs), SHAPE)[0].claim for runs in (1, 5))
    assert one is not None and all_ is not None and all_.each == one and all_.delta == 5e-5


def test_an_absolute_path_is_taken_as_it_stands(folder: Path, tmp_path: Path) -> None:
    (found,) = suite(tmp_path, f'name = "one"\nsamples = "{folder / "samples.npy"}"\n')
    assert found.samples is not None and len(found.samples) == 12


@pytest.mark.parametrize(
    ("model", "where", "says"),
    [
        (SAMPLES, "model 1", "no name"),
        (f'name = "  "\n{SAMPLES}', "model 1", "no name"),
        (f'name = "{"a" * (LONGEST_NAME + 1)}"\n{SAMPLES}', "model 1", "no name"),
        (f'name = "a\\u0007"\n{SAMPLES}', "model 1", "no name"),
        (f'name = 3\n{SAMPLES}', "model 1", "name = 3"),
        ('name = "one"\n', "model 1", "Nothing of the model"),
        ('name = "one"\narch = "mlp-denoiser"\n', "model 1", "Nothing of the model"),
        (f'name = "one"\n{SAMPLES}weights = "w"\n', "model 1", "'weights' is no key"),
        (f'name = "one"\n{SAMPLES}epsilon = "3"\n', "model 1", "cannot be read"),
        (f'name = "one"\n{SAMPLES}epsilon = true\n', "model 1", "cannot be read"),
        (f'name = "one"\n{SAMPLES}latent = 1.5\n', "model 1", "cannot be read"),
        (f'name = "one"\n{SAMPLES}epsilon = -3\n', "model 1, epsilon", "-3.0 is no epsilon"),
        (f'name = "one"\n{SAMPLES}epsilon = inf\n', "model 1, epsilon", "inf is no epsilon"),
        (f'name = "one"\n{SAMPLES}epsilon = nan\n', "model 1, epsilon", "nan is no epsilon"),
        (f'name = "one"\n{SAMPLES}delta = 1\n', "model 1, delta", "no delta"),
        (f'name = "one"\n{SAMPLES}epsilon = 1{"0" * 400}\n', "model 1, epsilon", "too large"),
        (f'name = "one"\n{SAMPLES}delta = 1{"0" * 400}\n', "model 1, delta", "too large"),
        (f'name = "one"\n{SAMPLES}epsilon = 1\nruns_tried = 0\n', "model 1, runs_tried", "0 runs"),
        (f'name = "one"\n{SAMPLES}epsilon = 1\nruns_tried = -2\n', "model 1, runs_tried", "-2 runs"),
        (f'name = "one"\n{SAMPLES}epsilon = 1\nruns_tried = 1{"0" * 400}\n', "model 1, runs_tried", "cannot have"),
        (f'name = "one"\n{SAMPLES}epsilon = 1\nruns_tried = 0x{"f" * 9000}\n', "model 1, runs_tried", "So many runs"),
        (f'name = "one"\n{SAMPLES}arch = 0x{"f" * 9000}\n', "model 1", "arch = a huge number cannot be read"),
        (f'name = "one"\n{SAMPLES}epsilon = 1\ndelta = 0.5\nruns_tried = 2\n', "model 1, runs_tried", "a delta of 1"),
        (f'name = "one"\n{SAMPLES}runs_tried = 1\n', "model 1, runs_tried", "is given, but no privacy is claimed"),
        (f'name = "one"\n{SAMPLES}epsilon = 3\nhistory = "h.json"\n', "model 1", "two claims"),
        (f'name = "one"\n{SAMPLES}delta = 0\nhistory = "h.json"\n', "model 1, delta", "delta 0"),
        (f'name = "one"\n{SAMPLES}history = "none.json"\n', "model 1, history", "no such file"),
        ('name = "one"\nsamples = "none.npy"\n', "model 1, samples", "no such file"),
        ('name = "one"\nsamples = "../samples.npy"\n', "model 1, samples", "leads out"),
        ('name = "one"\nsamples = "a/../../samples.npy"\n', "model 1, samples", "leads out"),
        ('name = "one"\nsamples = "http://a/b.npy"\n', "model 1, samples", "address"),
        ('name = "one"\ndenoiser = "den.safetensors"\narch = "mlp-denoiser"\n', "model 1, denoiser", "schedule"),
        (f'name = "one"\n{DENOISER.replace("mlp-denoiser", "mine:net")}', "model 1, denoiser", "code"),
        (f'name = "one"\n{GENERATOR}latent = 9\n', "model 1, generator", "not of 9"),
        (f'name = "one"\n{SAMPLES}discriminator = "gen.safetensors"\n', "model 1, discriminator", "mlp-generator"),
    ],
)  # fmt: skip
def test_a_wrong_model_is_told_with_its_place(folder: Path, model: str, where: str, says: str) -> None:
    met = refused(folder, model)
    assert where in str(met.where) and says in met.message, (met.where, met.message)
    assert "--factory" not in f"{met.where} {met.hint}" and "--audio-root" not in met.hint


def test_the_second_model_is_told_by_its_number(folder: Path) -> None:
    assert "model 2, epsilon" in str(
        refused(folder, f'name = "a"\n{SAMPLES}', f'name = "b"\n{SAMPLES}epsilon = -1').where
    )


def test_names_are_their_own(folder: Path) -> None:
    assert "same name" in refused(folder, f'name = "a"\n{SAMPLES}', f'name = "a"\n{SAMPLES}').message


def test_a_suite_has_so_many_models(folder: Path) -> None:
    models = [f'name = "m{place}"\n{SAMPLES}' for place in range(MOST_MODELS + 1)]
    assert f"{MOST_MODELS + 1} models" in refused(folder, *models).message
    assert len(suite(folder, *models[:-1])) == MOST_MODELS


def test_samples_of_two_scales_are_refused(folder: Path) -> None:
    np.save(folder / "bytes.npy", np.zeros((12, *SHAPE), dtype=np.uint8))
    with pytest.raises(InputError, match="pixels") as met:
        suite(folder, f'name = "a"\n{SAMPLES}', 'name = "b"\nsamples = "bytes.npy"\n')
    assert "samples of b" in str(met.value.where)


@pytest.mark.parametrize(
    ("text", "says"),
    [("model = [[", "not TOML"), ("# nothing", "no list"), ("model = 3", "no list"), ("model = [3]", "no list"),
     ("model = []", "0 models"), ("[[model]]\nname = 'a'\n[other]\n", "no list"), ("\x00", "suite|TOML|text")],
)  # fmt: skip
def test_a_file_that_is_no_suite_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "suite.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=says) as met:
        releases_of(Options(suite=tmp_path / "suite.toml"), SHAPE)
    assert "suite.toml" in str(met.value.where)
