"""Mixtures of many columns at once: the law of scikit-learn's, and independence of the company."""

from __future__ import annotations

import warnings
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from proxyguard.neural import mixtures  # noqa: E402 - after the skip
from proxyguard.neural.mixtures import COMPONENTS, KEPT, Mixtures, fit_mixtures  # noqa: E402
from proxyguard.neural.noise import Purpose, Streams  # noqa: E402

ROWS = 300


def columns(n: int = ROWS, seed: int = 0) -> NDArray[np.float64]:
    """Columns of very different shapes and units, ``(columns, n)``."""
    rng = np.random.default_rng(seed)
    two = np.where(rng.random(n) < 0.4, rng.normal(-3, 0.5, n), rng.normal(4, 1, n))
    return np.array(
        [
            rng.normal(12_000, 1_700, n),
            two,
            rng.lognormal(0, 1, n),
            rng.integers(0, 5, n).astype(float),
            rng.standard_t(2, n),
            np.round(rng.normal(0, 3, n)),
        ]
    )


def reference(start: NDArray[np.float64] | None = None, seed: int = 0) -> BayesianGaussianMixture:
    """The peer, by its defaults or from given responsibilities."""

    class Started(BayesianGaussianMixture):  # type: ignore[misc] # scikit-learn has no types
        def _initialize_parameters(self, x: Any, random_state: Any, xp: Any = None) -> None:
            self._initialize(x, start)

    kind = BayesianGaussianMixture if start is None else Started
    return kind(
        n_components=COMPONENTS,
        weight_concentration_prior_type="dirichlet_process",
        weight_concentration_prior=0.001,
        n_init=1,
        random_state=seed,
    )


def fitted(model: BayesianGaussianMixture, values: NDArray[np.float64]) -> BayesianGaussianMixture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 100 steps are the law here
        return model.fit(values[:, None])


def test_from_the_same_start_every_column_gets_the_mixture_of_scikit_learn() -> None:
    values = torch.from_numpy(columns())
    labels = np.random.default_rng(3).integers(0, COMPONENTS, values.shape)
    starts = np.eye(COMPONENTS)[labels]
    scaled, mask, centre, scale = mixtures._scaled(values, torch.full((len(values),), ROWS))
    powers = torch.stack([mask, scaled, scaled**2], dim=1)
    given = torch.from_numpy(starts).transpose(1, 2).contiguous()
    posterior, steps = mixtures._em(powers, given, mixtures._regular(scale))
    for k, column in enumerate(values.numpy()):
        peer = fitted(reference(starts[k]), column)
        assert int(steps[k, 0]) == peer.n_iter_
        close: dict[str, float] = {"rtol": 1e-6, "atol": 1e-9}
        np.testing.assert_allclose(posterior.weights()[k], peer.weights_, **close)
        unit = float(scale[k])
        means = posterior.mean[k] + float(centre[k]) / unit
        np.testing.assert_allclose(means, peer.means_[:, 0] / unit, rtol=1e-6, atol=1e-6)
        widths = posterior.variance[k].sqrt() * unit
        np.testing.assert_allclose(widths, np.sqrt(peer.covariances_[:, 0, 0]), **close)


def test_a_column_of_small_numbers_has_the_mixture_of_the_same_column_in_other_units() -> None:
    values = torch.from_numpy(columns(200)[1])
    small, smaller = (
        fit_mixtures(unit * values[None, None], Streams([2])) for unit in (1e-4, 1e-9)
    )
    torch.testing.assert_close(small.means * 1e4, smaller.means * 1e9)
    torch.testing.assert_close(small.deviations * 1e4, smaller.deviations * 1e9)
    # What scikit-learn adds is 1000 standard deviations of these.
    assert float(smaller.deviations[smaller.kept].max()) < 5e-9


def test_the_chances_of_components_are_those_of_scikit_learn() -> None:
    column = columns()[2]
    values = torch.from_numpy(column)[None, None]
    ours = fit_mixtures(values, Streams([7]))
    peer = fitted(reference(), column)
    # The same posterior in the peer's terms: what it predicts is then its own arithmetic.
    scaled, mask, _, scale = mixtures._scaled(values[0], torch.tensor([ROWS]))
    labels = mixtures._kmeans(
        scaled, mask, torch.tensor([ROWS]), Streams([7]).bits(Purpose.START, 0, (1, 37))[0]
    )
    peer = fitted(reference(np.eye(COMPONENTS)[labels[0].numpy()]), column)
    np.testing.assert_allclose(
        ours.chances(values)[0, 0].T, peer.predict_proba(column[:, None]), rtol=1e-6, atol=1e-9
    )
    assert float(scale[0]) == pytest.approx(column.std(ddof=1))


def test_from_starts_by_k_means_the_law_is_that_of_scikit_learn(effort: Any) -> None:
    runs = effort.times(whole=200, reduced=60)
    values = columns(150)[[2]]
    stacked = torch.from_numpy(values)[None].expand(runs, -1, -1)
    ours = fit_mixtures(stacked, Streams(range(runs)))
    for k, column in enumerate(values):
        peers = [fitted(reference(seed=seed), column) for seed in range(runs)]
        kept = [int((peer.weights_ > KEPT).sum()) for peer in peers]
        numbers = ours.kept[:, k].sum(dim=1).numpy()
        top = max(*kept, *numbers) + 1
        counts = np.array([np.bincount(numbers, minlength=top), np.bincount(kept, minlength=top)])
        assert stats.chi2_contingency(counts[:, counts.sum(axis=0) > 0] + 0.5).pvalue > 1e-4
        heaviest = np.sort(ours.weights[:, k].numpy(), axis=1)[:, ::-1]
        others = np.sort([peer.weights_ for peer in peers], axis=1)[:, ::-1]
        for rank in range(3):
            assert stats.ks_2samp(heaviest[:, rank], others[:, rank]).pvalue > 1e-4
        steps = ours.steps[:, k, 0].numpy()
        assert stats.ks_2samp(steps, [peer.n_iter_ for peer in peers]).pvalue > 1e-4


def parts(fit: Mixtures, draw: int) -> list[torch.Tensor]:
    return [getattr(fit, field.name)[draw] for field in fields(fit)]


def test_a_draw_gets_the_same_bits_alone_and_in_company(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.from_numpy(np.stack([columns(200, seed) for seed in range(6)]))
    together = fit_mixtures(values, Streams(range(6)))
    noise = Streams(range(6)).uniform(Purpose.COMPONENT, 0, (6, 200))
    encoded = together.encode(values, noise)
    for cached in (1, 1 << 14, 1 << 30):
        monkeypatch.setattr(mixtures, "CACHED", cached)
        for draw in (0, 3):
            alone = fit_mixtures(values[draw : draw + 1], Streams([draw]))
            for one, other in zip(parts(together, draw), parts(alone, 0), strict=True):
                assert torch.equal(one, other)
            again = alone.encode(values[draw : draw + 1], noise[draw : draw + 1])
            for one, other in zip(encoded, again, strict=True):
                assert torch.equal(one[draw], other[0])


@pytest.mark.parametrize("n", [1, 500])
def test_a_single_column_gets_the_same_bits_alone_and_in_company(n: int) -> None:
    values = torch.from_numpy(np.stack([columns(n, seed)[:1] for seed in range(6)]))
    together = fit_mixtures(values, Streams(range(6)))
    for draw in range(6):
        alone = fit_mixtures(values[draw : draw + 1], Streams([draw]))
        for whole, single in zip(parts(together, draw), parts(alone, 0), strict=True):
            assert torch.equal(whole, single)


def test_rows_that_only_fill_up_do_not_matter() -> None:
    values = torch.from_numpy(np.stack([columns(200, seed) for seed in range(2)]))
    rows = torch.tensor([200, 120])
    filled = values.clone()
    filled[1, :, 120:] = 1e9
    padded = fit_mixtures(filled, Streams([4, 5]), rows)
    short = fit_mixtures(values[1:, :, :120].contiguous(), Streams([5]))
    for one, other in zip(parts(padded, 1), parts(short, 0), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "column",
    [
        [3.0],
        [3.0, 4.0],
        [5.0] * 40,
        [0.1] * 7,
        [0.0, 1.0] * 30,
        [1e300, -1e300, 0.0] * 9,
        [1e-200, 2e-200] * 20,
        [*np.linspace(0, 1, 200), 1e9],
    ],
)
def test_columns_of_few_or_extreme_values_come_back_as_they_were(column: list[float]) -> None:
    values = torch.tensor(column, dtype=torch.float64)[None, None]
    fit = fit_mixtures(values, Streams([1]))
    assert bool(fit.kept.any())
    alphas, chosen = fit.encode(
        values, Streams([1]).uniform(Purpose.COMPONENT, 0, (1, len(column)))
    )
    assert bool(fit.kept[0, 0][chosen.flatten()].all())
    back = fit.decode(alphas, chosen)[0, :, 0].numpy()
    assert np.all(np.isfinite(back))
    inside = np.abs(alphas.flatten().numpy()) < mixtures.LIMIT
    width = np.ptp(column) or 1.0
    np.testing.assert_allclose(back[inside], np.array(column)[inside], atol=1e-5 * width, rtol=1e-6)
    if np.ptp(column) == 0:
        np.testing.assert_array_equal(back, column)


def test_components_are_drawn_by_their_posterior_chances() -> None:
    column = np.repeat([0.0, 1.0, 2.2, 3.0], 60) + np.tile(np.linspace(-0.5, 0.5, 60), 4)
    values = torch.from_numpy(column)[None, None]
    fit = fit_mixtures(values, Streams([3]))
    draws = 400
    many = Mixtures(*(part[None].expand(draws, *part.shape) for part in parts(fit, 0)))
    noise = Streams(range(draws)).uniform(Purpose.COMPONENT, 0, (1, column.size))
    _, chosen = many.encode(values.expand(draws, 1, -1), noise)
    chances = (fit.chances(values)[0, 0] + mixtures.FLOOR) * fit.kept[0, 0][:, None]
    chances = (chances / chances.sum(dim=0)).numpy()
    for k in np.flatnonzero(fit.kept[0, 0].numpy()):
        drawn = (chosen[:, :, 0] == int(k)).sum(dim=0).numpy()
        spread = np.sqrt(draws * chances[k] * (1 - chances[k])) + 1
        assert np.all(np.abs(drawn - draws * chances[k]) < 5.5 * spread)
