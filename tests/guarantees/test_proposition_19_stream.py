"""Proposition 19: candidates proposed one after the other, each on fresh records."""

from __future__ import annotations

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.exact.mean import binomial_pvalue
from proxyguard.exact.multiplicity import spending_level

pytestmark = pytest.mark.guarantee

ALPHA, ROUNDS = 0.05, 50
LEVELS = np.array([spending_level(t, alpha=ALPHA) for t in range(1, ROUNDS + 1)])


def boundary_pvalues(seed: int, trials: int, n: int, limit: float) -> np.ndarray:
    counts = np.random.default_rng(seed).binomial(n, limit, (trials, ROUNDS))
    return binomial_pvalue(np.arange(n + 1), n, limit)[counts]


# The paper's study (B6: n = 250, limit .10) and one whose p-values are finer.
@pytest.mark.parametrize(("n", "limit"), [(250, 0.1), (5000, 0.5)])
def test_invalid_candidates_for_ever(n, limit, within_budget):
    trials = 8000
    errors = int((boundary_pvalues(1901, trials, n, limit) <= LEVELS).any(axis=1).sum())
    assert within_budget(errors, trials, ALPHA)
    assert errors > 0.5 * ALPHA * trials


def test_twin_a_fixed_level(beyond_doubt, two_sample):
    trials = 3000
    errors = int((boundary_pvalues(1902, trials, 250, 0.1) <= ALPHA).any(axis=1).sum())
    assert beyond_doubt(errors, trials, ALPHA)
    assert two_sample(errors, trials, 0.798, 5000) > 1e-4  # paper: .798 after 50 rounds


def search(seed: int, trials: int, reuse: bool) -> int:
    """Count streams in which an invalid candidate was ever validated.

    The proposer sees every earlier record and picks, of 200 invalid candidates with errors
    of their own, the one that looked best so far. ``reuse`` hides from the stream that all
    rounds are judged on the records of the first.
    """
    rng = np.random.default_rng(seed)
    error = pg.Requirement(name="error", low=0, high=1, limit=0.5, two_valued=True)
    errors = 0
    for trial in range(trials):
        stream = pg.CandidateStream([error], alpha=ALPHA, seed=trial)
        seen = np.zeros(200)
        batch = rng.random((200, 100)) < 0.5
        for t in range(6):
            losses = batch[int(np.argmin(seen))]
            verdict = stream.submit(losses[:, None], pg.Records(ids=np.arange(100) + 100 * t))
            if verdict.decision is pg.Decision.VALIDATED:
                errors += 1
                break
            seen += batch.sum(axis=1)
            if not reuse:
                batch = rng.random((200, 100)) < 0.5
    return errors


def test_a_stream_that_looks_back(within_budget, repeat):
    trials = repeat(300)
    assert within_budget(search(1903, trials, reuse=False), trials, ALPHA)


def test_twin_records_that_come_back(beyond_doubt):
    assert beyond_doubt(search(1904, 60, reuse=True), 60, ALPHA)
    stream = pg.CandidateStream([pg.Requirement(name="e", low=0, high=1, limit=0.5)], seed=1)
    stream.submit(np.zeros((5, 1)), pg.Records(ids=np.arange(5)))
    with pytest.raises(pg.TargetReused):
        stream.submit(np.zeros((5, 1)), pg.Records(ids=np.arange(4, 9)))
