"""Four membership attacks on one release: the paper's figures and claim (App. V), and exact claims.

The paper scores samples of members and nonmembers for ten attacker seeds, and tests the claim on
the first: half of the nonmembers set a threshold, each of the others is paired with a member, and
Hoeffding's inequality bounds the mean of the paired differences. The exact claims take the same
fitted attacks, all members as a census, and every audit record that is no copy of a member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from math import log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from proxyguard.exact.betting import BettingCapital
from proxyguard.exact.exposure import (
    advantage_pvalues,
    everywhere_pvalue,
    everywhere_violation_pvalue,
    tpr_pvalues,
)
from proxyguard.exact.mean import hoeffding_pvalue
from proxyguard.exact.multiplicity import holm, intersection_union
from proxyguard.exposure.attacks import AttackSuite
from proxyguard.exposure.descriptive import Copies, auc, found_at
from proxyguard.exposure.representation import Representation, Rows
from proxyguard.exposure.statistics import (
    Census,
    ThresholdCounter,
    auc_losses,
    flags,
    higher_quantile,
)
from proxyguard.registry.exposure import AttackPart
from reproduction.audits.attacked import (
    MECHANISMS,
    TABLES,
    Pools,
    attackable,
    attacked,
    pools_of,
    release_of,
)
from reproduction.files import write_atomic

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
Positions = NDArray[np.intp]

ATTACKS = {"DCR": "dcr", "Density": "density", "DOMIAS": "domias", "Gen-LRA": "gen-lra"}
"""The paper's names, in the order of its figure, and ours."""
LIMITS = {"members": 500, "nonmembers": 500, "reference": 1000, "synthetic": 2000}
"""The largest samples, in the order in which they are drawn."""
SEEDS = tuple(range(911, 1812, 100))
CLAIM_SEED = SEEDS[0]
COMPONENTS = 10
RATES = (0.01, 0.05)
REPETITIONS = 500
FIRST_BOOTSTRAP_SEED = 911

LEVEL = 0.05
QUANTILE = "0.95"
CEILING = 0.05
"""Of the advantage at the paper's threshold."""
EVERYWHERE, THRESHOLDS = 0.10, 20
FOUND, FALSE_ALARMS = "0.10", 0.01
AREA = 0.55


class Exact(Enum):
    """The exact claims, by what they bound."""

    ADVANTAGE = "advantage at the paper's threshold"
    EVERYWHERE = "advantage everywhere"
    TPR = "members found at 1 %"
    AUC = "membership AUC"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimEvidence:
    """A statistic, and the p-values that the claim fails and that it holds."""

    n: int
    statistic: float
    validation: float
    violation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedFigures:
    """What one attacker seed gives: AUC and two rates of members found, each with an interval."""

    auc: tuple[float, float, float]
    found: tuple[tuple[float, float, float], ...]
    """At each of `RATES`; first the figure, then the ends of its bootstrap interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult:
    """One attack on one release."""

    seeds: tuple[SeedFigures, ...]
    paired: ClaimEvidence
    exact: Mapping[Exact, ClaimEvidence]

    @property
    def auc(self) -> float:
        """The mean AUC over seeds."""
        return float(np.mean([figures.auc[0] for figures in self.seeds]))

    def found(self, rate: float) -> float:
        """Return the mean share of members found at this rate of false alarms."""
        place = RATES.index(rate)
        return float(np.mean([figures.found[place][0] for figures in self.seeds]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseResult:
    """All attacks on one release."""

    table: str
    mechanism: str
    columns: int
    members: int
    copied_members: int
    """Members that the release has a row of, value for value."""
    reference: int
    nonmembers: int
    copies: int
    """Nonmembers that equal a member, which the exact claims leave out."""
    attacks: Mapping[str, AttackResult]


def subsample(sizes: Mapping[str, int], seed: int) -> dict[str, Positions]:
    """Return sorted positions of each pool, drawn in the order of `LIMITS` from one stream.

    A pool that is not above its limit is taken whole, without a draw.
    """
    rng = np.random.default_rng(seed)
    return {
        pool: np.sort(rng.choice(sizes[pool], size=limit, replace=False))
        if sizes[pool] > limit
        else np.arange(sizes[pool])
        for pool, limit in LIMITS.items()
    }


class FittedAttacks:
    """The four attacks as one attacker seed fits them, and the rows that it drew.

    Parameters
    ----------
    pools
        The table's members, reference and nonmembers.
    release
        The release.
    seed
        The attacker's.
    """

    def __init__(self, pools: Pools, release: pd.DataFrame, seed: int) -> None:
        frames = {
            "members": pools.members, "nonmembers": pools.nonmembers,
            "reference": pools.reference, "synthetic": release,
        }  # fmt: skip
        self.positions = subsample({name: len(frame) for name, frame in frames.items()}, seed)
        drawn = {name: frames[name].iloc[rows] for name, rows in self.positions.items()}
        self._representation = Representation.fit(drawn["reference"], components=COMPONENTS)
        rows = {name: Rows(frame, self._representation) for name, frame in drawn.items()}
        self._suite = AttackSuite.fit(
            {name: AttackPart(kind=kind) for name, kind in ATTACKS.items()},
            rows["synthetic"], rows["reference"], rows["members"], seed,
        )  # fmt: skip

    def scores(self, frame: pd.DataFrame) -> dict[str, Array]:
        """Return the scores of these rows by attack."""
        return self._suite.scores(Rows(frame, self._representation))


def seed_figures(members: Array, others: Array, seed: int) -> SeedFigures:
    """Return the figures of one seed, with intervals of a bootstrap within either pool."""
    rng = np.random.default_rng(FIRST_BOOTSTRAP_SEED + seed)
    first = rng.integers(0, members.size, (REPETITIONS, members.size))
    second = rng.integers(0, others.size, (REPETITIONS, others.size))
    # The AUC of a resample is a mean over pairs of rows that were drawn so many times each.
    wins = (members[:, None] > others) + 0.5 * (members[:, None] == others)
    times = [
        np.apply_along_axis(np.bincount, 1, drawn, minlength=size).astype(np.float64)
        for drawn, size in ((first, members.size), (second, others.size))
    ]
    areas = np.einsum("bi,bi->b", times[0] @ wins, times[1]) / (members.size * others.size)
    thresholds = np.quantile(others[second], [1.0 - f for f in RATES], axis=1, method="higher")
    shares = [(members[first] >= c[:, None]).mean(axis=1) for c in thresholds]
    return SeedFigures(
        auc=(auc(members, others), *_ends(areas)),
        found=tuple(
            (share, *_ends(resampled))
            for share, resampled in zip(found_at(members, others, RATES), shares, strict=True)
        ),
    )


def _ends(values: Array) -> tuple[float, float]:
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def calibrating(nonmembers: int) -> int:
    """Return how many nonmembers of a sample set the threshold: the first half of them."""
    return round(nonmembers / 2)


def paired_test(members: Array, others: Array) -> ClaimEvidence:
    """Return the paper's test of one attack: pairs in the order of the samples."""
    half = calibrating(others.size)
    threshold = higher_quantile(others[:half], QUANTILE)
    m = others.size - half
    difference = flags(members[:m], threshold).astype(int) - flags(others[half:], threshold)
    mean = float(difference.mean())
    unit, limit = (mean + 1.0) / 2.0, (CEILING + 1.0) / 2.0
    return ClaimEvidence(
        n=m, statistic=mean, validation=float(hoeffding_pvalue(unit, m, limit)),
        violation=float(hoeffding_pvalue(1.0 - unit, m, 1.0 - limit)),
    )  # fmt: skip


def needed_means(m: int, releases: int, attacks: int = len(ATTACKS)) -> tuple[float, float]:
    """Return the largest mean difference that validates, and the least that is a violation.

    At the first step of Holm's procedure, over releases and over releases times attacks.

    >>> [f"{mean:.3f}" for mean in needed_means(250, 12)]
    ['-0.159', '0.284']
    """
    validates = CEILING - sqrt(2.0 * log(releases / LEVEL) / m)
    violates = CEILING + sqrt(2.0 * log(releases * attacks / LEVEL) / m)
    return validates, violates


def exact_tests(
    members: Array, others: Array, threshold: float, fresh: NDArray[np.bool_]
) -> dict[Exact, ClaimEvidence]:
    """Return the exact claims of one attack.

    Parameters
    ----------
    members
        The scores of all members.
    others
        Those of all nonmembers that are no copies.
    threshold
        The paper's, from the scores of some nonmembers.
    fresh
        Which of ``others`` did not set the threshold: the claim about it counts them alone.
    """
    census, n = Census(members), others.size
    counter = ThresholdCounter(census)
    counter.add(others)
    counted = int(np.count_nonzero(fresh))
    flagged = int(np.count_nonzero(flags(others[fresh], threshold)))
    share = float(census.share(threshold))
    at_one = advantage_pvalues(flagged, counted, share, CEILING)
    registered = census.registered(THRESHOLDS)
    found = int(np.count_nonzero(flags(others, census.threshold_for(FOUND))))
    found_pvalues = tpr_pvalues(found, n, FALSE_ALARMS)
    losses = auc_losses(census, others)
    capital = BettingCapital(columns=1, n=n, v=AREA, level=LEVEL, violation_level=LEVEL)
    capital.update(losses[None])
    area = capital.pvalues()
    return {
        Exact.ADVANTAGE: ClaimEvidence(
            n=counted, statistic=share - flagged / counted, validation=float(at_one[0]),
            violation=float(at_one[1]),
        ),
        Exact.EVERYWHERE: ClaimEvidence(
            n=n, statistic=float((census.shares - counter.flagged / n).max()),
            validation=float(everywhere_pvalue(counter.flagged, n, census.shares, EVERYWHERE)),
            violation=float(everywhere_violation_pvalue(
                counter.flagged[registered], n, census.shares[registered], EVERYWHERE
            )),
        ),
        Exact.TPR: ClaimEvidence(
            n=n, statistic=found / n, validation=float(found_pvalues[0]),
            violation=float(found_pvalues[1]),
        ),
        Exact.AUC: ClaimEvidence(
            n=n, statistic=float(losses.mean()), validation=float(area[0, 0]),
            violation=float(area[1, 0]),
        ),
    }  # fmt: skip


def attack_release(table: str, mechanism: str, pools: Pools) -> ReleaseResult:
    """Return all figures and claims of one release of a mechanism."""
    release = release_of(table, mechanism, pools)
    seeds: dict[str, list[SeedFigures]] = {name: [] for name in ATTACKS}
    claimed: dict[str, tuple[ClaimEvidence, dict[Exact, ClaimEvidence]]] = {}
    for seed in SEEDS:
        fitted = FittedAttacks(pools, release, seed)
        sampled = [
            fitted.scores(frame.iloc[fitted.positions[name]])
            for name, frame in (("members", pools.members), ("nonmembers", pools.nonmembers))
        ]
        for name, several in seeds.items():
            several.append(seed_figures(sampled[0][name], sampled[1][name], seed))
        if seed == CLAIM_SEED:
            claimed = _claims(pools, fitted, sampled)
    copies = Copies(pools.members)
    return ReleaseResult(
        table=table,
        mechanism=mechanism,
        columns=pools.members.shape[1],
        members=len(pools.members),
        copied_members=int(copies.released(release).sum()),
        reference=len(pools.reference),
        nonmembers=len(pools.nonmembers),
        copies=int(copies.among(pools.nonmembers).sum()),
        attacks={
            name: AttackResult(seeds=tuple(seeds[name]), paired=paired, exact=exact)
            for name, (paired, exact) in claimed.items()
        },
    )


def _claims(
    pools: Pools, fitted: FittedAttacks, sampled: Sequence[Mapping[str, Array]]
) -> dict[str, tuple[ClaimEvidence, dict[Exact, ClaimEvidence]]]:
    """Return the paper's claim of each attack, and the exact ones, from the attacks of one seed."""
    half = calibrating(fitted.positions["nonmembers"].size)
    fresh = np.ones(len(pools.nonmembers), dtype=np.bool_)
    fresh[fitted.positions["nonmembers"][:half]] = False
    kept = ~Copies(pools.members).among(pools.nonmembers)
    members, others = fitted.scores(pools.members), fitted.scores(pools.nonmembers[kept])
    claims = {}
    for name in ATTACKS:
        threshold = higher_quantile(sampled[1][name][:half], QUANTILE)
        exact = exact_tests(members[name], others[name], threshold, fresh[kept])
        claims[name] = (paired_test(sampled[0][name], sampled[1][name]), exact)
    return claims


def decisions(tests: Sequence[Mapping[str, ClaimEvidence]]) -> list[str]:
    """Return the decision about each release of a family, given its attacks' tests.

    A release is validated by its largest p-value, with Holm's procedure over releases, and a
    violation if one of its attacks is, with Holm's procedure over releases and attacks.
    """
    validation = np.array([[one.validation for one in by.values()] for by in tests])
    violation = np.array([[one.violation for one in by.values()] for by in tests])
    validated = holm(intersection_union(validation), alpha=LEVEL)
    violated = np.any(holm(violation.ravel(), alpha=LEVEL).reshape(violation.shape), axis=1)
    # Both cannot be true; both budgets can err, and then neither is to be believed.
    return [
        "violation" if bad and not good else "validated" if good and not bad else "unresolved"
        for good, bad in zip(validated.tolist(), np.asarray(violated).tolist(), strict=True)
    ]


RESULT = TypeAdapter(ReleaseResult)


def result_path(work: Path, table: str, mechanism: str) -> Path:
    """Return where the result of one release is kept."""
    return work / f"{table}-{mechanism.replace(', ', '-')}.json"


def run_attacks(work: Path) -> list[ReleaseResult]:
    """Attack every release whose result is not there yet, and return all results."""
    work.mkdir(parents=True, exist_ok=True)
    for table, mechanism in attackable():
        if not result_path(work, table, mechanism).exists():
            pools = pools_of(table, MECHANISMS[mechanism].study)
            result = attack_release(table, mechanism, pools)
            write_atomic(result_path(work, table, mechanism), RESULT.dump_json(result, indent=1))
    return kept_results(work)


def kept_results(work: Path) -> list[ReleaseResult]:
    """Return the results that are there, in the order of tables and mechanisms."""
    paths = [result_path(work, table, mechanism) for table in TABLES for mechanism in MECHANISMS]
    return [RESULT.validate_json(path.read_bytes()) for path in paths if path.exists()]


def is_finished(results: Sequence[ReleaseResult]) -> bool:
    """Whether every release of the page has a result: a family is decided as a whole."""
    return not left_to_attack(results)


def left_to_attack(results: Sequence[ReleaseResult]) -> list[tuple[str, str]]:
    """Return the releases of the page that have no result yet."""
    known = {(one.table, one.mechanism) for one in results}
    return [one for one in attacked() if one not in known]
