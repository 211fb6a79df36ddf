"""The chains of diffusion against closed forms, exact posteriors and brute force."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from proxyguard.neural.diffusion import DiffusedLayout, Process, cosine_schedule  # noqa: E402 - after the skip
from proxyguard.neural.noise import Purpose, Streams  # noqa: E402

TIMES, SIZE = 7, 3
CPU = torch.device("cpu")


def test_the_schedule_is_the_cosine_at_30_digits_and_its_last_step_is_cut() -> None:
    schedule = cosine_schedule(100)
    with mpmath.workdps(30):

        def level(t: int) -> mpmath.mpf:
            share = (mpmath.mpf(t) / 100 + mpmath.mpf("0.008")) / mpmath.mpf("1.008")
            return mpmath.cos(share * mpmath.pi / 2) ** 2

        for t in range(99):
            assert schedule.kept[t] == pytest.approx(float(level(t + 1) / level(0)), rel=1e-11)
            assert schedule.beta[t] == pytest.approx(float(1 - level(t + 1) / level(t)), rel=1e-11)
    assert schedule.beta[99] == 0.999
    assert schedule.kept[99] == pytest.approx(schedule.kept[98] * 0.001, rel=1e-12)
    assert schedule.before[0] == 1.0
    assert np.array_equal(schedule.before[1:], schedule.kept[:-1])


@pytest.mark.parametrize("t", [0, 1, 50, 98, 99])
def test_a_step_back_has_the_mean_and_the_variance_of_the_posterior(t: int) -> None:
    schedule = cosine_schedule(100)
    process = Process(100, DiffusedLayout(1), CPU)
    beta, kept, before = schedule.beta[t], schedule.kept[t], schedule.before[t]
    start, noise = 0.7, -1.3
    after = np.sqrt(kept) * start + np.sqrt(1 - kept) * noise

    def one(value: float) -> torch.Tensor:
        return torch.full((1, 1, 1), value)

    diffused = process.diffused(one(start), torch.tensor([[t]]), one(noise))
    assert float(diffused) == pytest.approx(after, rel=1e-6)
    back = float(process.step_back(one(after), one(noise), t, one(0.0)))
    spread = float(process.step_back(one(after), one(noise), t, one(1.0))) - back
    if t == 0:
        assert back == pytest.approx(start, rel=1e-5)
        assert spread == 0.0
        return
    # By Bayes' rule for normal laws: x before the step ~ N(sqrt(A') x0, 1 - A'), and after it
    # ~ N(sqrt(1 - beta) x, beta).
    precision = 1.0 / (1.0 - before) + (1.0 - beta) / beta
    mean = (np.sqrt(before) * start / (1.0 - before) + np.sqrt(1 - beta) * after / beta) / precision
    # At the last time 1 - beta is a thousandth, by whose root a difference is divided.
    assert back == pytest.approx(mean, abs=3e-7 * np.sqrt(1.0 / (1.0 - beta)) + 1e-6)
    assert spread == pytest.approx(np.sqrt(beta), rel=1e-5, abs=1e-6)


def transitions() -> np.ndarray:
    """Return the matrices of all steps, (times, from, to)."""
    beta = cosine_schedule(TIMES).beta[:, None, None]
    return (1 - beta) * np.eye(SIZE) + beta / SIZE * np.ones((SIZE, SIZE))


def until(t: int) -> np.ndarray:
    """Return the matrix of the steps before step t."""
    chain = np.eye(SIZE)
    for step in transitions()[:t]:
        chain = chain @ step
    return chain


def brute_posterior(start: np.ndarray, code: int, t: int) -> np.ndarray:
    """Return the law before step t of a chain that starts by ``start`` and is then seen."""
    joint = (start @ until(t)) * transitions()[t][:, code]
    return joint / joint.sum()


@pytest.mark.parametrize("t", range(TIMES))
@pytest.mark.parametrize("code", range(SIZE))
def test_the_posterior_of_a_category_is_that_of_bayes_by_brute_force(t: int, code: int) -> None:
    process = Process(TIMES, DiffusedLayout(0, (SIZE,)), CPU)
    codes, times = torch.tensor([code]), torch.tensor([t])
    start = np.array([0.6, 0.3, 0.1])
    logs = torch.tensor(np.log(start), dtype=torch.float32)[None]
    expected = brute_posterior(start, code, t)
    learned = process.log_posterior(logs, codes, times)[0].exp()
    np.testing.assert_allclose(learned.numpy(), expected, rtol=2e-5)
    for true in range(SIZE):
        exact = brute_posterior(np.eye(SIZE)[true], code, t)
        far = float(process.divergence(logs, torch.tensor([true]), codes, times))
        some = exact > 0
        divergence = (exact[some] * np.log(exact[some] / expected[some])).sum()
        assert far == pytest.approx(divergence, rel=1e-4, abs=2e-6)
        if t == 0:
            assert far == pytest.approx(-np.log(expected[true]), rel=1e-5)


def test_a_divergence_has_finite_gradients_where_a_category_has_no_chance() -> None:
    process = Process(TIMES, DiffusedLayout(0, (SIZE,)), CPU)
    logits = torch.tensor([[0.0, 200.0, -200.0]], requires_grad=True)
    for t in range(TIMES):
        far = process.divergence(
            torch.log_softmax(logits, -1), torch.tensor([2]), torch.tensor([0]), torch.tensor([t])
        )
        (gradient,) = torch.autograd.grad(far.sum(), logits)
        assert bool(torch.isfinite(far).all())
        assert bool(torch.isfinite(gradient).all())


def test_diffused_codes_have_the_frequencies_of_the_chain() -> None:
    sizes = (5, 3, 1)
    layout = DiffusedLayout(0, sizes)
    process = Process(TIMES, layout, CPU)
    assert layout.order == (2, 1, 0)
    assert [(g.size, g.blocks, g.coordinates) for g in layout.groups] == [
        (1, slice(0, 1), slice(0, 1)),
        (3, slice(1, 2), slice(1, 4)),
        (5, slice(2, 3), slice(4, 9)),
    ]
    n, t = 40_000, 3
    noise = Streams([1]).uniform(Purpose.CATEGORY, 0, (n, 2, 3))
    codes = torch.tensor([0, 2, 4]).expand(1, n, 3)
    after = process.diffused_codes(codes, torch.full((1, n), t), noise)[0].numpy()
    kept = cosine_schedule(TIMES).kept[t]
    for k, size in enumerate((1, 3, 5)):
        law = np.full(size, (1 - kept) / size)
        law[(0, 2, 4)[k]] += kept
        counts = np.bincount(after[:, k], minlength=size)
        assert counts.size == size
        if size > 1:
            assert stats.chisquare(counts, n * law).pvalue > 1e-3


def test_the_greatest_uniform_number_gives_the_last_category_of_any_size() -> None:
    sizes = tuple(range(1, 1001))
    process = Process(TIMES, DiffusedLayout(0, sizes), CPU)
    greatest = torch.full((1000,), 1.0 - 2.0**-24)
    assert process.any_codes(greatest).tolist() == [size - 1 for size in sizes]
