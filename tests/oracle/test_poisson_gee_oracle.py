"""The model of error rates against statsmodels' own formula interface, and against other ways to the same numbers."""

import numpy as np
import pytest

from audits.statistics import poisson_tests
from audits.statistics.poisson_gee import PoissonFit, fit_poisson_gee

pytestmark = pytest.mark.numerical

Clips = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def clips(seed: int, *, most: int, speakers: int = 60) -> Clips:
    """Clips of speakers with 1 to `most` of them, in mixed order; columns of ones, two groups, one control."""
    rng = np.random.default_rng(seed)
    speaker = rng.permutation(np.repeat(np.arange(speakers), rng.integers(1, most + 1, speakers)))
    words = rng.integers(3, 20, speaker.size).astype(float)
    control = rng.normal(size=speaker.size)
    errors = rng.poisson(0.3 * words * rng.gamma(3, 1 / 3, speakers)[speaker] * np.exp(0.3 * control)).astype(float)
    design = np.stack([np.ones(speaker.size), speaker % 3 == 1, speaker % 3 == 2, control], axis=1).astype(float)
    return errors, words, design, speaker


def by_formula(data: Clips):  # noqa: ANN201
    import pandas as pd
    import statsmodels.api as sm
    import statsmodels.formula.api as smf

    errors, words, design, speaker = data
    frame = pd.DataFrame(design[:, 1:], columns=["b", "c", "x"]).assign(errors=errors, speaker=speaker)
    independent = sm.cov_struct.Independence()
    return smf.gee(
        "errors ~ b + c + x", "speaker", frame, family=sm.families.Poisson(), cov_struct=independent,
        offset=np.log(words),
    ).fit(cov_type="bias_reduced", ctol=1e-9)  # fmt: skip


@pytest.mark.parametrize("most", [2, 9, 40])
def test_the_fit_is_that_of_the_formula_interface(most: int) -> None:
    data = clips(most, most=most)
    fit, other = fit_poisson_gee(*data), by_formula(data)
    assert fit.coefficients == pytest.approx(other.params.to_numpy(), abs=1e-8)
    assert fit.covariance == pytest.approx(other.cov_robust_bc, rel=1e-7, abs=1e-12)
    assert fit.robust == pytest.approx(other.cov_robust, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("most", [1, 2, 9, 40])
def test_the_squared_influences_add_up_to_the_robust_covariance(most: int) -> None:
    data = clips(most, most=most)
    fit, other = fit_poisson_gee(*data), by_formula(data)
    total = fit.influence.T @ fit.influence
    assert np.abs(total - other.cov_robust).max() <= 1e-8 * np.abs(other.cov_robust).max()
    assert np.abs(fit.influence.sum(axis=0)).max() < 1e-8


def test_one_clip_per_speaker_is_a_poisson_regression() -> None:
    import statsmodels.api as sm

    errors, words, design, speaker = clips(3, most=1, speakers=200)
    fit = fit_poisson_gee(errors, words, design, speaker)
    model = sm.GLM(errors, design, family=sm.families.Poisson(), offset=np.log(words))
    plain, sandwich = model.fit(tol=1e-12), model.fit(tol=1e-12, cov_type="HC0")
    assert fit.coefficients == pytest.approx(plain.params, abs=1e-8)
    assert fit.dispersion == pytest.approx(plain.pearson_chi2 / plain.df_resid, rel=1e-8)
    assert fit.robust == pytest.approx(sandwich.cov_params(), rel=1e-7, abs=1e-12)


def influences_in_full(fit: PoissonFit, data: Clips, *, corrected: bool) -> np.ndarray:
    """Matrices written out, one speaker after another; corrected is Mancl and DeRouen's (I - H)^-1 residual."""
    errors, words, design, speaker = data
    mean = words * np.exp(design @ fit.coefficients)
    parts = []
    for each in np.unique(speaker):
        own = speaker == each
        slope = design[own] * mean[own, None]
        parts.append((slope, np.diag(1 / mean[own]), errors[own] - mean[own]))
    bread = np.linalg.inv(sum(slope.T @ inverse @ slope for slope, inverse, _ in parts))
    rows = []
    for slope, inverse, residual in parts:
        hat = slope @ bread @ slope.T @ inverse
        spread = np.linalg.solve(np.eye(len(residual)) - hat, residual) if corrected else residual
        rows.append(bread @ slope.T @ inverse @ spread)
    return np.array(rows)


def test_influences_and_covariances_are_those_of_the_matrices_in_full() -> None:
    data = clips(4, most=9)
    fit = fit_poisson_gee(*data)
    assert fit.influence == pytest.approx(influences_in_full(fit, data, corrected=False), abs=1e-10)
    corrected = influences_in_full(fit, data, corrected=True)
    assert fit.covariance == pytest.approx(corrected.T @ corrected, rel=1e-7, abs=1e-12)


def test_influences_foretell_what_leaving_a_speaker_out_does() -> None:
    data = clips(5, most=6, speakers=150)
    whole = fit_poisson_gee(*data)
    for left_out in (0, 77, 149):
        kept = data[3] != left_out
        moved = whole.coefficients - fit_poisson_gee(*(part[kept] for part in data)).coefficients
        assert moved == pytest.approx(whole.influence[left_out], abs=0.004)


def moves_in_full(fit: PoissonFit, data: Clips, contrasts: np.ndarray) -> np.ndarray:
    """How each speaker moves contrasts, as a linear map of the clips' deviations: shape (speakers, q, clips)."""
    _, words, design, speaker = data
    mean = words * np.exp(design @ fit.coefficients)
    slope = design * mean[:, None]
    bread = np.linalg.inv(design.T @ slope)
    settled = np.eye(len(mean)) - slope @ bread @ design.T
    maps = []
    for each in np.unique(speaker):
        own = speaker == each
        hat = slope[own] @ bread @ design[own].T
        maps.append(contrasts @ bread @ design[own].T @ np.linalg.inv(np.eye(own.sum()) - hat) @ settled[own])
    return np.array(maps)


@pytest.mark.parametrize("contrasts", [np.eye(4)[[1]], np.eye(4)[1:3], np.array([[0, 1.0, -1, 0], [0, 0, 1, 1]])])
def test_degrees_of_freedom_are_those_of_all_pairs_of_speakers_in_full(contrasts: np.ndarray) -> None:
    data = clips(6, most=5, speakers=24)
    fit = fit_poisson_gee(*data)
    mean = data[1] * np.exp(data[2] @ fit.coefficients)
    maps = moves_in_full(fit, data, contrasts)
    together = np.einsum("iac,c,jbc->ijab", maps, mean, maps)
    values, vectors = np.linalg.eigh(np.einsum("iiab->ab", together))
    half = vectors / np.sqrt(values) @ vectors.T
    scaled = half @ together @ half
    total = (np.einsum("ijaa->ij", scaled) ** 2).sum() + np.einsum("ijab,ijba->", scaled, scaled)
    q = len(contrasts)
    assert poisson_tests.freedom_by_design(fit, contrasts) == pytest.approx(q * (q + 1) / total, rel=1e-8)


def test_of_many_columns_the_degrees_of_freedom_are_nearly_the_same() -> None:
    fit = fit_poisson_gee(*clips(7, most=5, speakers=80))
    exact = poisson_tests.freedom_by_design(fit, np.eye(4)[1:])
    assert poisson_tests.freedom_by_design(fit, np.eye(4)[1:], most_products=0) == pytest.approx(exact, rel=0.05)
