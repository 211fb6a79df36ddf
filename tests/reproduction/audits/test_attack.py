"""The paper's attack study (App. V): samples, scores, tests, and the page about them."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import binom, gaussian_kde
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reproduction.audits import attack, attack_page, reproduce
from reproduction.audits.attack import (
    ATTACKS,
    ClaimEvidence,
    Exact,
    FittedAttacks,
    ReleaseResult,
    decisions,
    exact_tests,
    needed_means,
    paired_test,
    seed_figures,
    subsample,
)
from reproduction.audits.attacked import TABLES, Pools, attackable, pools_of, release_of
from reproduction.audits.attacked import attacked as on_the_page

ROOT = Path(__file__).parents[3]
needs_data = pytest.mark.skipif(
    "PROXYGUARD_DATA" not in os.environ,
    reason="PROXYGUARD_DATA names no folder with the data sets",
)


@pytest.fixture
def pools() -> Pools:
    rng = np.random.default_rng(20)
    columns = [f"x{k}" for k in range(12)] + ["y"]

    def rows(n: int) -> pd.DataFrame:
        numbers = rng.normal(size=(n, 13)) @ rng.normal(size=(13, 13))
        numbers[:, 12] = numbers[:, 12] > 0
        return pd.DataFrame(numbers, columns=pd.Index(columns))

    return Pools(
        members=rows(60), reference=rows(80), nonmembers=rows(40), outcome="y", seed=3
    )  # fmt: skip


def test_samples_are_drawn_in_the_papers_order_from_one_stream() -> None:
    sizes = {"synthetic": 18_000, "reference": 6_000, "nonmembers": 6_000, "members": 18_000}
    drawn = subsample(sizes, 1011)
    rng = np.random.default_rng(1011)
    order = (("members", 500), ("nonmembers", 500), ("reference", 1_000), ("synthetic", 2_000))
    for name, limit in order:
        expected = np.sort(rng.choice(sizes[name], size=limit, replace=False))
        np.testing.assert_array_equal(drawn[name], expected)


def test_a_pool_that_is_not_above_its_limit_is_taken_whole_without_a_draw() -> None:
    # German: 600 members are sampled, all else is whole. Heart: nothing is sampled.
    german = {"members": 600, "nonmembers": 200, "reference": 200, "synthetic": 600}
    drawn = subsample(german, 911)
    first = np.random.default_rng(911).choice(600, size=500, replace=False)
    np.testing.assert_array_equal(drawn["members"], np.sort(first))
    assert all(drawn[name].size == german[name] for name in german if name != "members")
    larger = {"members": 500, "nonmembers": 501, "reference": 200, "synthetic": 600}
    first = np.random.default_rng(911).choice(501, size=500, replace=False)
    np.testing.assert_array_equal(subsample(larger, 911)["nonmembers"], np.sort(first))


def test_ten_attacker_seeds_are_the_published_ones() -> None:
    assert attack.SEEDS == (911, 1011, 1111, 1211, 1311, 1411, 1511, 1611, 1711, 1811)


def test_scores_are_the_papers_formulas_on_ten_components_of_the_reference(pools: Pools) -> None:
    release = release_of("heart", "noise", pools)
    scores = FittedAttacks(pools, release, 911).scores(pools.nonmembers)
    steps = (SimpleImputer(strategy="median"), StandardScaler(), PCA(10, svd_solver="full"))
    encode = make_pipeline(*steps).fit(pools.reference.to_numpy())
    x, s, r = (
        encode.transform(rows.to_numpy()) for rows in (pools.nonmembers, release, pools.reference)
    )
    n, d = r.shape
    assert d == 10
    np.testing.assert_allclose(scores["DCR"], -cdist(x, s).min(axis=1), rtol=1e-9)
    log_s, log_r = (gaussian_kde(points.T).logpdf(x.T) for points in (s, r))
    # Within what noise of 1e-6 on the points does.
    np.testing.assert_allclose(scores["Density"], log_s, atol=1e-2)
    np.testing.assert_allclose(scores["DOMIAS"], log_s - log_r, atol=1e-2)
    h = (n * (d + 2) / 4) ** (-1 / (d + 4))

    def kernel(z: Any, points: Any) -> Any:
        return np.exp(-cdist(z, points, "sqeuclidean") / (2 * h * h)) / (2 * np.pi * h * h) ** (
            d / 2
        )

    for row, score in zip(x, scores["Gen-LRA"], strict=True):
        near = s[np.argsort(np.linalg.norm(s - row, axis=1))[:10]]
        p = kernel(near, r).mean(axis=1)
        q = (n * p + kernel(near, row[None])[:, 0]) / (n + 1)
        assert score == pytest.approx(float((np.log(q) - np.log(p)).sum()), rel=1e-6, abs=1e-9)


def test_figures_and_their_bootstrap_are_those_of_resampled_rows() -> None:
    rng = np.random.default_rng(4)
    members, others = rng.integers(0, 12, 30) / 4.0, rng.integers(0, 10, 25) / 4.0
    figures = seed_figures(members, others, 911)

    def area(first: Any, second: Any) -> float:
        return float(np.mean((first[:, None] > second) + (first[:, None] == second) / 2))

    def found(first: Any, second: Any, rate: float) -> float:
        return float(np.mean(first >= np.quantile(second, 1 - rate, method="higher")))

    resampling = np.random.default_rng(911 + 911)
    drawn = [resampling.integers(0, size, (500, size)) for size in (30, 25)]
    pairs = [(members[i], others[j]) for i, j in zip(*drawn, strict=True)]
    ends = np.quantile([area(*pair) for pair in pairs], (0.025, 0.975))
    assert figures.auc == pytest.approx((area(members, others), *ends))
    for rate, result in zip((0.01, 0.05), figures.found, strict=True):
        ends = np.quantile([found(*pair, rate) for pair in pairs], (0.025, 0.975))
        assert result == pytest.approx((found(members, others, rate), *ends))


def test_the_papers_test_pairs_the_first_members_with_the_second_half_of_nonmembers() -> None:
    # Of ten nonmembers the first five set the threshold: their largest score, 5.
    others = np.array([1.0, 2, 3, 4, 5, 9, 0, 0, 5, 0])
    members = np.array([5.0, 6, 7, 4, 8, 0, 0, 0])  # flagged of the first five: four
    tested = paired_test(members, others)
    mean = 4 / 5 - 2 / 5
    assert (tested.n, tested.statistic) == (5, pytest.approx(mean))
    assert tested.validation == 1.0
    assert tested.violation == pytest.approx(exp(-5 * (mean - 0.05) ** 2 / 2))
    below = paired_test(np.zeros(5), others)
    assert below.validation == pytest.approx(exp(-5 * (0.05 + 2 / 5) ** 2 / 2))


@pytest.mark.reproduction
@pytest.mark.parametrize(
    ("m", "validates", "violates"),
    # From the published design: pairs of Heart, German and Taiwan, 12 releases, 48 attacks.
    [(27, -0.587, 0.763), (100, -0.281, 0.421), (250, -0.159, 0.284)],
)
def test_the_published_design_asks_for_more_than_a_difference_can_be(
    m: int, validates: float, violates: float
) -> None:
    needed = needed_means(m, 12)
    assert needed == pytest.approx((validates, violates), abs=5e-4)
    assert exp(-m * (0.05 - needed[0]) ** 2 / 2) == pytest.approx(0.05 / 12)
    assert exp(-m * (needed[1] - 0.05) ** 2 / 2) == pytest.approx(0.05 / 48)
    # No member flagged and one nonmember in twenty is as far down as a difference gets.
    assert needed[0] < -0.05


def test_exact_claims_are_binomial_sums_over_nonmembers_that_set_no_threshold() -> None:
    rng = np.random.default_rng(8)
    members, others = rng.normal(0.5, 1, 90), rng.normal(0, 1, 70)
    fresh = np.arange(70) >= 20
    threshold = float(np.quantile(others[:20], 0.95, method="higher"))
    tests = exact_tests(members, others, threshold, fresh)
    share, flagged = np.mean(members >= threshold), int(np.sum(others[20:] >= threshold))
    one = tests[Exact.ADVANTAGE]
    assert (one.n, one.statistic) == (50, pytest.approx(share - flagged / 50))
    assert one.validation == pytest.approx(binom.sf(flagged - 1, 50, share - 0.05))
    assert one.violation == pytest.approx(binom.cdf(flagged, 50, share - 0.05))
    shares = [np.mean(members >= c) for c in members]
    counts = [int(np.sum(others >= c)) for c in members]
    everywhere = tests[Exact.EVERYWHERE]
    largest = max(
        binom.sf(k - 1, 70, t - 0.10) if t > 0.10 else 0.0
        for t, k in zip(shares, counts, strict=True)
    )
    assert everywhere.validation == pytest.approx(largest)
    assert everywhere.statistic == pytest.approx(
        max(t - k / 70 for t, k in zip(shares, counts, strict=True))
    )
    limit = np.sort(members)[-9]  # a tenth of 90 members score at least this
    count = int(np.sum(others >= limit))
    assert tests[Exact.TPR].validation == pytest.approx(binom.sf(count - 1, 70, 0.01))
    labels = np.repeat([1, 0], [90, 70])
    area = roc_auc_score(labels, np.concatenate([members, others]))
    assert tests[Exact.AUC].statistic == pytest.approx(area)


def test_a_release_is_decided_by_its_worst_attack_within_its_family() -> None:
    def tested(validation: float, violation: float) -> ClaimEvidence:
        return ClaimEvidence(n=10, statistic=0.0, validation=validation, violation=violation)

    good, bad, open_ = tested(0.001, 1.0), tested(1.0, 0.0001), tested(0.2, 0.3)
    family = [
        {"DCR": good, "Density": good},
        {"DCR": good, "Density": open_},
        {"DCR": good, "Density": bad},
    ]
    assert decisions(family) == ["validated", "unresolved", "violation"]
    # The first step of three releases asks for .05/3, that of one for .05.
    near = {"DCR": tested(0.03, 1.0), "Density": good}
    assert decisions([near]) == ["validated"]
    assert decisions([near, *family[1:]]) == ["unresolved", "unresolved", "violation"]
    # Violations are corrected over releases and attacks.
    shown = {"DCR": tested(1.0, 0.02), "Density": open_}
    assert decisions([shown]) == ["violation"]
    assert decisions([shown, family[1]])[0] == "unresolved"


def _result(table: str, mechanism: str) -> ReleaseResult:
    rng = np.random.default_rng([len(table), len(mechanism)])
    members, others = rng.normal(0.2, 1, 60), rng.normal(0, 1, 40)
    figures = (seed_figures(members, others, 911),)
    exact = exact_tests(members, others, 1.0, np.arange(40) >= 20)
    each = attack.AttackResult(seeds=figures, paired=paired_test(members, others), exact=exact)
    return ReleaseResult(
        table=table, mechanism=mechanism, columns=5, members=60, copied_members=0, reference=20,
        nonmembers=40, copies=1, attacks=dict.fromkeys(ATTACKS, each),
    )  # fmt: skip


def test_releases_that_were_attacked_are_not_attacked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        attack, "TABLES", {name: replace(one, load=pd.DataFrame) for name, one in TABLES.items()}
    )
    monkeypatch.setattr("reproduction.audits.attack.pools_of", lambda table, study: None)
    monkeypatch.setattr("reproduction.audits.attacked.find_spec", lambda name: True)
    attacked: list[tuple[str, str]] = []

    def once(table: str, mechanism: str, pools: Any) -> ReleaseResult:
        attacked.append((table, mechanism))
        if len(attacked) == 3:
            raise KeyboardInterrupt
        return _result(table, mechanism)

    monkeypatch.setattr(attack, "attack_release", once)
    with pytest.raises(KeyboardInterrupt):
        attack.run_attacks(tmp_path)
    assert len(attack.kept_results(tmp_path)) == 2
    attack.run_attacks(tmp_path)
    assert len(attacked) == 1 + len(attackable())
    kept = attack.run_attacks(tmp_path)
    assert len(attacked) == 1 + len(attackable())
    assert attack.is_finished(kept)
    assert kept == [_result(table, mechanism) for table, mechanism in attackable()]


def test_attacks_alone_write_their_page_and_leave_the_document(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results = [_result(table, mechanism) for table, mechanism in on_the_page()]
    monkeypatch.setattr(reproduce, "run_attacks", lambda work: results)
    monkeypatch.setattr(reproduce, "kept_results", lambda work: results)
    out = tmp_path / "audits.md"
    monkeypatch.setattr(
        "sys.argv", ["reproduce.py", "exposure", "--work", str(tmp_path), "--out", str(out)]
    )
    reproduce.main()
    assert not out.exists()
    written = (tmp_path / "membership-attacks.md").read_text("utf-8")
    assert f"]({attack_page.FIGURE})" in written
    assert (tmp_path / attack_page.FIGURE).stat().st_size > 0


def test_without_torch_the_page_of_attacks_keeps_its_releases_of_tabddpm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Attacks that can be had here are made; a page of these alone would lose the others.
    monkeypatch.setattr("reproduction.audits.attacked.find_spec", lambda name: None)
    assert set(on_the_page()) - set(attackable()) == {
        (table, "TabDDPM") for table in ("heart", "german", "taiwan")
    }
    results = [_result(table, mechanism) for table, mechanism in attackable()]
    monkeypatch.setattr(reproduce, "run_attacks", lambda work: results)
    monkeypatch.setattr(reproduce, "kept_results", lambda work: results)
    monkeypatch.setattr("sys.argv", ["reproduce.py", "exposure", "--work", str(tmp_path),
                                     "--out", str(tmp_path / "audits.md")])  # fmt: skip
    reproduce.main()
    assert not (tmp_path / "membership-attacks.md").exists()
    said = capsys.readouterr().out
    assert "stays as it is, for want of TabDDPM on heart" in said
    assert said.endswith("TabDDPM needs torch\n")


def _page() -> str:
    return (ROOT / "docs" / "membership-attacks.md").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(attack_page.WORDS))
def test_every_paragraph_stands_on_the_page(name: str) -> None:
    fixed = re.split(r"\{\w+(?::[^}]*)?\}", attack_page.WORDS[name].strip("\n"))
    assert re.search(".*?".join(map(re.escape, fixed)), _page(), flags=re.DOTALL)


@pytest.mark.reproduction
def test_the_page_has_the_published_table_and_none_of_it_is_resolved() -> None:
    rows = attack_page.PUBLISHED
    assert sum(sum(row.decisions) for row in rows) == 12
    assert all(row.decisions[0] == row.decisions[2] == 0 for row in rows)
    for row in rows:
        line = f"| {row.generator} (published) | {row.table} | {row.auc} |"
        assert line in _page()


@needs_data
def test_parts_are_the_published_ones() -> None:
    # Published: 162/54/54, 600/200/200 and 18,000/6,000/6,000.
    sizes = {"heart": 270, "german": 1000, "german-uci": 1000}
    for name, rows in sizes.items():
        pools = pools_of(name)
        parts = (len(pools.members), len(pools.reference), len(pools.nonmembers))
        assert parts == (rows * 6 // 10, rows * 2 // 10, rows * 2 // 10)


@needs_data
def test_the_page_has_what_a_bootstrap_of_heart_gives() -> None:
    result = attack.attack_release("heart", "bootstrap", pools_of("heart"))
    line = next(line for line in _page().splitlines() if line.startswith("| Heart | bootstrap |"))
    shown = [float(cell.split()[0]) for cell in line.split("|")[3:7]]
    assert [a.auc for a in result.attacks.values()] == pytest.approx(shown, abs=2e-3)
    assert f"| {result.copied_members} | 0 | 0 | 0 | 0 |" in _page()
    # The paper's test leaves it open, and the same records suffice for the exact one.
    dcr = result.attacks["DCR"]
    assert dcr.paired.violation > 0.05 / 80
    assert dcr.exact[Exact.ADVANTAGE].n == dcr.paired.n == 27
    assert dcr.exact[Exact.ADVANTAGE].violation < 0.05 / 80
