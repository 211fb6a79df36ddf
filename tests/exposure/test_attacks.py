"""Scores are those of the formulas, written out plainly here, and each is a function of one row."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import gaussian_kde

from proxyguard.errors import RegistryError, TableError, UnsupportedDesign
from proxyguard.exposure.attacks import ATTACKS, AttackSuite
from proxyguard.exposure.geometry import Neighbors, row_sums
from proxyguard.exposure.representation import Representation, Rows
from proxyguard.registry.exposure import ATTRIBUTE, LINKABILITY, MEMBERSHIP, AttackPart

Array = NDArray[np.float64]
OTHER = {
    "nearest row": {"secret": "job", "known": ("age", "since", "town")},
    "model": {"secret": "job", "known": ("age", "since", "town")},
    "linkability": {"sides": (("age", "job"), ("since", "town")), "neighbors": 3},
    "gen-lra refit": {"neighbors": 15},
}
SUITE = {kind: AttackPart(kind=kind, **OTHER.get(kind, {})) for kind in ATTACKS}
SUITE["model of a number"] = AttackPart(
    kind="model", secret="age", known=("job", "town"), tolerance="0.1"
)
NUMERIC = {name: part for name, part in SUITE.items() if not part.secret and not part.sides}


def people(n: int, seed: int) -> pd.DataFrame:
    """Return a mixed table with missing values."""
    rng = np.random.default_rng(seed)
    age = np.round(rng.normal(45.0, 15.0, n))
    age[rng.random(n) < 0.05] = np.nan
    job = rng.choice(np.array(["cook", "clerk", "driver", "nurse", None], dtype=object), n)
    town = rng.choice(np.array([f"town {k}" for k in range(12)], dtype=object), n)
    since = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    return pd.DataFrame(
        {
            "age": age,
            "job": pd.Series(job, dtype=object),
            "town": pd.Series(town, dtype=object),
            "since": pd.Series(since.strftime("%Y-%m-%d").to_numpy(dtype=object), dtype=object),
            "paid": rng.random(n) < 0.4,
            "weight": rng.gamma(5.0, 15.0, n),
        }
    )


def numbers(n: int, seed: int, d: int = 4) -> pd.DataFrame:
    """Return a table of numbers that are correlated."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(n, d)) @ np.random.default_rng(99).normal(size=(d, d))
    return pd.DataFrame(mixed, columns=[f"x{k}" for k in range(d)])


class Table:
    """Release, reference and members in one representation, and their arrays."""

    def __init__(self, make, sizes=(120, 90, 70), components: int | None = None) -> None:
        self.release, self.reference, self.members = (
            make(n, seed) for n, seed in zip(sizes, (1, 2, 3), strict=True)
        )
        self.representation = Representation.fit(self.reference, None, components)
        self.s, self.r, self.m = (
            self.representation.points(f) for f in (self.release, self.reference, self.members)
        )

    def suite(self, attacks: dict[str, AttackPart], seed: int = 5) -> AttackSuite:
        frames = (self.release, self.reference, self.members)
        rows = (Rows(frame, self.representation) for frame in frames)
        return AttackSuite.fit(attacks, *rows, seed)

    def scores(self, kind: str, frame: pd.DataFrame, **options: object) -> Array:
        suite = self.suite({"it": AttackPart(kind=kind, **options)})
        return suite.scores(Rows(frame, self.representation))["it"]


def lengths(x: Array, points: Array) -> Array:
    return np.array([math.dist(x, p) for p in points])


def round_density(z: Array, points: Array, h: float) -> float:
    d = points.shape[1]
    kernels = [math.exp(-(math.dist(z, p) ** 2) / (2 * h * h)) for p in points]
    return sum(kernels) / len(points) / (2 * math.pi * h * h) ** (d / 2)


@pytest.fixture(scope="module")
def table() -> Table:
    return Table(numbers)


@pytest.fixture(scope="module")
def queries(table: Table) -> tuple[pd.DataFrame, Array]:
    frame = numbers(25, 4)
    frame.iloc[0] = table.release.iloc[7]  # a copy
    return frame, table.representation.points(frame)


def test_dcr_is_minus_the_smallest_distance(table: Table, queries) -> None:
    frame, points = queries
    expected = [-lengths(x, table.s).min() for x in points]
    np.testing.assert_allclose(table.scores("dcr", frame), expected, atol=1e-12)
    assert table.scores("dcr", frame)[0] == 0.0


def test_calibrated_dcr_is_the_difference_of_smallest_distances(table: Table, queries) -> None:
    frame, points = queries
    expected = [lengths(x, table.r).min() - lengths(x, table.s).min() for x in points]
    np.testing.assert_allclose(table.scores("calibrated dcr", frame), expected, atol=1e-12)


def test_the_ratio_is_of_nearest_and_second_nearest(table: Table, queries) -> None:
    frame, points = queries
    expected = []
    for x in points:
        one, two = np.sort(lengths(x, table.s))[:2]
        expected.append(-one / two)
    np.testing.assert_allclose(table.scores("nearest-neighbour ratio", frame), expected)


def test_density_and_domias_are_those_of_scipy(table: Table, queries) -> None:
    frame, points = queries
    # The noise is part of the registered attack, and far below what is compared here.
    synthetic, reference = gaussian_kde(table.s.T), gaussian_kde(table.r.T)
    logs = synthetic.logpdf(points.T)
    np.testing.assert_allclose(table.scores("density", frame), logs, atol=1e-3)
    np.testing.assert_allclose(
        table.scores("density", frame, jitter="1e-11"), logs, rtol=1e-8, atol=1e-8
    )
    np.testing.assert_allclose(
        table.scores("domias", frame, jitter="1e-11"),
        logs - reference.logpdf(points.T),
        rtol=1e-8,
        atol=1e-8,
    )


def test_gen_lra_is_its_formula(table: Table, queries) -> None:
    frame, points = queries
    n, d = table.r.shape
    h = (n * (d + 2) / 4) ** (-1 / (d + 4))
    expected = []
    for x in points:
        near = table.s[np.argsort(lengths(x, table.s))[:10]]
        total = 0.0
        for z in near:
            p = round_density(z, table.r, h)
            kernel = math.exp(-(math.dist(z, x) ** 2) / (2 * h * h)) / (2 * math.pi * h * h) ** (
                d / 2
            )
            total += math.log((n * p + kernel) / (n + 1)) - math.log(p)
        expected.append(total)
    np.testing.assert_allclose(table.scores("gen-lra", frame), expected, rtol=1e-9)


@pytest.mark.parametrize("kept", [True, False])
def test_gen_lra_refit_is_a_density_fitted_again(
    table: Table, queries, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kept:  # a large release: distances are worked out again for each row
        monkeypatch.setattr("proxyguard.exposure.membership.BLOCK", 1)
    frame, points = queries
    before = gaussian_kde(table.r.T, bw_method="silverman")
    expected = []
    for x in points:
        near = table.s[np.argsort(lengths(x, table.s))[:15]]
        after = gaussian_kde(np.vstack([table.r, x]).T, bw_method="silverman")
        expected.append(float((after.logpdf(near.T) - before.logpdf(near.T)).sum()))
    scores = table.scores("gen-lra refit", frame, neighbors=15, jitter="1e-11")
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-8)


def test_the_radius_is_the_median_distance_of_members(table: Table, queries) -> None:
    frame, points = queries
    radius = np.median([lengths(x, table.s).min() for x in table.m])
    expected = [(lengths(x, table.s) <= radius).mean() for x in points]
    np.testing.assert_allclose(table.scores("share in radius", frame), expected)


def test_synthetic_rows_are_counted_among_the_nearest(table: Table, queries) -> None:
    frame, points = queries
    both = np.vstack([table.s, table.r])
    expected = [(np.argsort(lengths(x, both))[:20] < len(table.s)).mean() for x in points]
    np.testing.assert_allclose(table.scores("synthetic among nearest", frame), expected)


def test_rows_at_the_last_distance_count_by_their_share() -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 1.0, 1.0]})
    release, reference = frame.iloc[[1, 1]], pd.concat([frame.iloc[[1]], frame.iloc[[0]]])
    fitted = Representation.fit(pd.DataFrame({"x": [0.0, 1.0]}))
    suite = AttackSuite.fit(
        {"it": AttackPart(kind="synthetic among nearest", neighbors=2)},
        *(Rows(part, fitted) for part in (release, reference, frame)),
        1,
    )
    # The nearest to 0 is a reference row; of the three rows at 1, two are synthetic.
    assert suite.scores(Rows(frame.iloc[[0]], fitted))["it"][0] == pytest.approx(2 / 3 / 2)


def test_a_classifier_knows_a_release_from_elsewhere() -> None:
    away = Table(lambda n, seed: numbers(n, seed) + (30.0 if seed == 1 else 0.0))
    near, far = away.scores("classifier", numbers(50, 8)), numbers(50, 8) + 30.0
    assert near.max() < 0.2 < 0.8 < away.scores("classifier", far).min()


def naive_mixed(table: Table, row: pd.Series, known: tuple[str, ...]) -> Array:
    """Return the mixed distance of a row to each row of the release, value by value."""
    distances = np.zeros(len(table.release))
    for name in known:
        column = [item for item in table.reference[name] if item is not None and item == item]
        number = name in ("age", "weight", "since")
        days = {item: pd.Timestamp(item).toordinal() for item in column} if name == "since" else {}
        scale = sorted(days.get(item, item) for item in column)
        usual = (
            np.median(scale) if number else max(scale, key=lambda t: (scale.count(t), -ord(t[-1])))
        )
        for k, item in enumerate(table.release[name]):
            pair = []
            for one in (row[name], item):
                missing = one is None or one != one
                pair.append(usual if missing else pd.Timestamp(one).toordinal() if days else one)
            apart = (
                abs(pair[0] - pair[1]) / (scale[-1] - scale[0]) if number else pair[0] != pair[1]
            )
            distances[k] += apart
    return distances


def test_the_nearest_row_on_the_known_columns_tells_the_secret() -> None:
    table, frame = Table(people), people(60, 9)
    known = ("age", "since", "town")
    scores = table.scores("nearest row", frame, secret="job", known=known)
    for k, score in enumerate(scores):
        guess = table.release["job"].iloc[int(np.argmin(naive_mixed(table, frame.iloc[k], known)))]
        truth = frame["job"].iloc[k]
        assert score == (truth is not None and guess == truth)
    assert 0 < scores.sum() < len(frame)


def test_a_number_is_guessed_within_its_tolerance() -> None:
    table, frame = Table(people), people(80, 9)
    known = ("job", "since", "town")
    scores = table.scores("nearest row", frame, secret="age", known=known, tolerance="0.2")
    for k, score in enumerate(scores):
        guess = table.release["age"].iloc[int(np.argmin(naive_mixed(table, frame.iloc[k], known)))]
        truth = frame["age"].iloc[k]
        assert score == (abs(guess - truth) <= 0.2 * abs(guess))
    assert 0 < scores.sum() < len(frame)


def test_two_sides_of_a_row_are_linked_by_a_row_that_is_near_to_both() -> None:
    table, frame = Table(people), people(60, 9)
    sides = (("weight", "job"), ("since", "town"))
    scores = table.scores("linkability", frame, sides=sides, neighbors=3)
    for k, score in enumerate(scores):
        near = [
            set(np.argsort(naive_mixed(table, frame.iloc[k], side), kind="stable")[:3])
            for side in sides
        ]
        assert score == bool(near[0] & near[1])
    assert 0 < scores.sum() < len(frame)


@pytest.mark.parametrize("kind", ["nearest row", "model"])
@pytest.mark.parametrize("tolerance", ["0", "0.4"])
def test_a_release_of_the_members_gives_their_secrets_away(kind: str, tolerance: str) -> None:
    def made(n: int, seed: int) -> pd.DataFrame:
        frame = people(200, 1 if seed in (1, 3) else seed)
        quarter = pd.PeriodIndex(pd.to_datetime(frame["since"]), freq="Q").astype("int64")
        return frame.assign(pay=2.0 ** (quarter - quarter.min()))

    table = Table(made)
    options = {"secret": "pay", "known": ("since", "town"), "tolerance": tolerance}
    assert table.scores(kind, table.members, **options).mean() > 0.85
    others = table.members.assign(pay=table.members["pay"].to_numpy()[::-1])
    assert table.scores(kind, others, **options).mean() < 0.3


def test_what_is_missing_is_not_guessed() -> None:
    table = Table(people)
    table.release = table.release.assign(job=None, age=np.nan)
    frame = people(20, 9).assign(job=None, age=np.nan)
    for kind, secret in (("nearest row", "job"), ("model", "job"), ("model", "age")):
        scores = table.scores(kind, frame, secret=secret, known=("town",), tolerance="0.5")
        assert not scores.any()


# A score is a function of one row.


MIXED, NUMBERS = Table(people), Table(numbers, components=3)
FITTED = [
    (MIXED, MIXED.suite(SUITE), people(60, 21)),
    (NUMBERS, NUMBERS.suite(NUMERIC), numbers(60, 21)),
]
WHOLE = [suite.scores(Rows(frame, table.representation)) for table, suite, frame in FITTED]


@pytest.mark.parametrize("k", [0, 1], ids=["mixed", "components"])
@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_a_score_is_the_same_alone_or_in_any_batch_and_order(k: int, seed: int, size: int) -> None:
    table, suite, frame = FITTED[k]
    chosen = np.random.default_rng(seed).permutation(len(frame))[:size]
    again = suite.scores(Rows(frame.iloc[chosen], table.representation))
    for name, scores in WHOLE[k].items():
        assert again[name].tobytes() == scores[chosen].tobytes(), name


@pytest.mark.parametrize("k", [0, 1], ids=["mixed", "components"])
@pytest.mark.parametrize("block", [1, 7, 1000])
def test_blocks_change_no_score(k: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table, suite, frame = FITTED[k]
    monkeypatch.setattr("proxyguard.exposure.geometry.BLOCK", block)
    again = suite.scores(Rows(frame, table.representation))
    for name, scores in WHOLE[k].items():
        assert again[name].tobytes() == scores.tobytes(), name


@pytest.mark.parametrize("k", [0, 1], ids=["mixed", "components"])
def test_a_score_does_not_depend_on_the_other_attacks(k: int) -> None:
    table, _, frame = FITTED[k]
    for name, scores in WHOLE[k].items():
        alone = table.suite({name: SUITE[name]}).scores(Rows(frame, table.representation))
        assert alone[name].tobytes() == scores.tobytes(), name


def test_a_score_that_reads_the_scored_rows_would_be_noticed() -> None:
    table, suite, frame = FITTED[1]
    pooled = suite.scores(Rows(frame, table.representation))["dcr"]
    few = suite.scores(Rows(frame.iloc[:10], table.representation))["dcr"]
    # The radius of the pooled median, as some public code has it.
    assert not np.array_equal((pooled > np.median(pooled))[:10], few > np.median(few))


# Cases in which a formula has nothing to divide by.


@pytest.mark.parametrize(
    "release",
    [
        people(1, 1),
        pd.concat([people(1, 1)] * 40, ignore_index=True),
        people(3, 1),
        people(30, 1).assign(age=np.nan, job=None, town=None, since=None),
        people(30, 1).assign(age=1e308, job="astronaut", town="nowhere"),
    ],
    ids=["one row", "one row many times", "fewer rows than neighbours", "nothing known", "far"],
)
@pytest.mark.parametrize("reference", [60, 3])
def test_every_score_is_a_number(
    release: pd.DataFrame, reference: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("membership", "attributes"):
        monkeypatch.setattr(f"proxyguard.exposure.{module}.TREES", 3)
    others = people(reference, 2)
    for components in (None, 2):
        fitted = Representation.fit(others, None, components)
        suite = AttackSuite.fit(
            SUITE, *(Rows(frame, fitted) for frame in (release, others, people(20, 3))), 5
        )
        odd = people(2, 5).assign(age=[1e308, -np.inf], job="astronaut", since="never")
        frame = pd.concat([people(20, 4), release.iloc[:1], odd], ignore_index=True)
        for name, scores in suite.scores(Rows(frame, fitted)).items():
            assert np.isfinite(scores).all(), name
            assert scores.shape == (len(frame),)


def test_a_density_of_categories_is_not_one_of_the_noise() -> None:
    # Their coordinates sum to one, so that one direction holds nothing but the noise.
    def made(n: int, seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        letters = np.array(list("abc"), dtype=object)[rng.integers(0, 3, n)]
        return pd.DataFrame({"x": rng.normal(size=n), "t": pd.Series(letters, dtype=object)})

    table, frame = Table(made), made(50, 9)
    rows = Rows(frame, table.representation)
    for kind in ("density", "domias"):
        one, two = (
            table.suite({"it": AttackPart(kind=kind)}, seed).scores(rows) for seed in (1, 2)
        )
        np.testing.assert_allclose(one["it"], two["it"], atol=0.01)


def test_signs_of_components_change_no_distance() -> None:
    table, _, frame = FITTED[1]
    fitted = table.representation
    assert fitted.axes is not None
    turned = Representation(fitted.numbers, fitted.texts, fitted.mean, fitted.axes * [-1, 1, -1])
    frames = (table.release, table.reference, table.members)
    suite = AttackSuite.fit(NUMERIC, *(Rows(part, turned) for part in frames), 5)
    for name, scores in suite.scores(Rows(frame, turned)).items():
        # The noise does not turn with the axes, nor do a forest's thresholds.
        if name != "classifier":
            np.testing.assert_allclose(scores, WHOLE[1][name], rtol=1e-3, atol=1e-3)


def test_the_reference_is_worked_out_once_for_all_releases() -> None:
    table = NUMBERS
    reference, members, rows = (
        Rows(frame, table.representation)
        for frame in (table.reference, table.members, numbers(30, 30))
    )
    for seed in (1, 2):
        release = Rows(numbers(50, seed), table.representation)
        AttackSuite.fit(NUMERIC, release, reference, members, 5).scores(rows)
        kept = len(rows._kept), len(reference._kept)
        if seed == 1:
            first = kept
    assert kept == first


def test_the_seed_is_the_attackers() -> None:
    table, frame = NUMBERS, numbers(20, 30)
    rows = Rows(frame, table.representation)
    one, same, two = (table.suite(NUMERIC, seed).scores(rows) for seed in (5, 5, 6))
    for name in NUMERIC:
        assert one[name].tobytes() == same[name].tobytes()
    assert one["density"].tobytes() != two["density"].tobytes()
    assert one["dcr"].tobytes() == two["dcr"].tobytes()


def test_every_attack_that_can_be_declared_is_there() -> None:
    assert set(ATTACKS) == {*MEMBERSHIP, *ATTRIBUTE, *LINKABILITY}


def test_each_release_has_noise_of_its_own_and_the_reference_one_for_all() -> None:
    table = NUMBERS
    frames = (table.release, table.reference, table.members, numbers(20, 30))
    *given, rows = (Rows(frame, table.representation) for frame in frames)
    one, two = (AttackSuite.fit(NUMERIC, *given, 5, draw).scores(rows) for draw in (1, 2))
    assert one["density"].tobytes() != two["density"].tobytes()
    shift = [scores["density"] - scores["domias"] for scores in (one, two)]
    np.testing.assert_allclose(shift[0], shift[1], rtol=1e-12)


def test_what_cannot_be_attacked_is_refused() -> None:
    table = NUMBERS
    with pytest.raises(RegistryError, match="no attack of the kind 'ours:Guess' here"):
        table.suite({"it": AttackPart(kind="ours:Guess")})
    with pytest.raises(TableError, match="'salary' is missing"):
        table.suite({"it": AttackPart(kind="nearest row", secret="salary", known=("x0",))})
    other = Representation.fit(table.reference)
    rows = Rows(table.members, table.representation)
    with pytest.raises(UnsupportedDesign, match="two representations"):
        AttackSuite.fit({}, rows, Rows(table.reference, other), rows, 1)
    empty = Rows(table.release.iloc[:0], table.representation)
    with pytest.raises(UnsupportedDesign, match="has no rows"):
        AttackSuite.fit({}, empty, rows, rows, 1)


# The order of sums, and of equal distances.


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 9))
@settings(max_examples=50, deadline=None)
def test_row_sums_are_exact_to_rounding_and_the_same_for_each_row(
    seed: int, width: int, rows: int
) -> None:
    terms = np.random.default_rng(seed).normal(size=(rows, width)) * 1e3
    sums = row_sums(terms.copy())
    for k, row in enumerate(terms):
        assert sums[k] == row_sums(row[None].copy())[0]
        assert sums[k] == pytest.approx(math.fsum(row), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("dimension", [2, 40], ids=["a tree", "a plain pass"])
@pytest.mark.parametrize("count", [1, 2, 5, 30, 99])
def test_the_nearest_are_the_nearest(dimension: int, count: int) -> None:
    rng = np.random.default_rng(dimension)
    points = rng.integers(0, 2, (30, dimension)).astype(float)  # many are equal
    rows = rng.integers(0, 2, (20, dimension)).astype(float)
    distances, indices = Neighbors(points).nearest(rows, count)
    for k, row in enumerate(rows):
        expected = lengths(row, points)
        np.testing.assert_allclose(distances[k], np.sort(expected)[:count], atol=1e-12)
        np.testing.assert_allclose(expected[indices[k]], distances[k], atol=1e-12)
        assert len(set(indices[k])) == min(count, 30)
        if dimension == 40:
            assert (
                list(indices[k]) == list(np.argsort(np.round(expected, 9), kind="stable"))[:count]
            )


def test_memory_does_not_grow_with_the_scored_rows() -> None:
    table = Table(numbers, sizes=(2000, 1000, 500))
    suite = table.suite({kind: SUITE[kind] for kind in ("dcr", "density", "domias", "gen-lra")})
    rows = Rows(numbers(8000, 7), table.representation)
    rows.array  # noqa: B018  # encoded before, so that attacks alone are measured
    tracemalloc.start()
    suite.scores(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # All distances at once would be 8,000 x 2,000 doubles, 128 MB.
    assert peak < 30e6
