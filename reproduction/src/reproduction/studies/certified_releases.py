"""B1 to B4 and B6 through `pg.certify_releases`: named releases, and candidates in a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proxyguard as pg
from reproduction.studies import calibration, component_power, exposure, held_out, searches
from reproduction.studies.counts import any_of, share_of
from reproduction.studies.study import Array, Cell, Methods, Metrics
from reproduction.studies.twice import Asked, Losses, Twice, drawn, largest, twice, two_valued


def holm_pvalues(
    losses: Losses, requirements: Sequence[pg.Requirement], **choices: Any
) -> tuple[int, Array]:
    """Return how many named releases are validated, and the p-value of each."""
    found = pg.certify_releases(
        {"all": pg.NamedReleases(losses, requirements)}, beta=None, **choices
    )
    return len(found.validated), np.array([verdict.pvalue for verdict in found.verdicts])


# B1 and B2: named releases, each with exact binomial tests.


def check_calibration(cell: Cell, rng: np.random.Generator, repetitions: int) -> Iterator[Twice]:
    """Certify twenty candidates as named releases, invalid ones and valid ones."""
    alpha, candidates = cell["alpha"], calibration.CANDIDATES
    requirements = two_valued(calibration.TOLERANCE, 3)
    counts = np.empty((2, candidates, repetitions), dtype=np.int64)
    accepted: dict[str, Array] = {
        name: np.empty((2, repetitions)) for name in ("Holm", "Bonferroni", "per-proxy IUT")
    }
    for block, risks in enumerate((calibration.INVALID, calibration.VALID)):
        for row in range(repetitions):
            losses = drawn(rng, risks, (candidates, cell["n"]))
            counts[block, :, row] = largest(losses)
            validated, pvalues = holm_pvalues(losses, requirements, alpha=alpha)
            accepted["Holm"][block, row] = validated
            accepted["Bonferroni"][block, row] = np.sum(pvalues <= alpha / candidates)
            accepted["per-proxy IUT"][block, row] = np.sum(pvalues <= alpha)
    yield from twice(
        calibration.calibrated(cell, counts[0], counts[1]),
        {
            name: {"false acceptance": invalid > 0, "power": valid / candidates}
            for name, (invalid, valid) in accepted.items()
        },
    )


def check_reuse(cell: Cell, rng: np.random.Generator, repetitions: int) -> Iterator[Twice]:
    """Certify the best screened candidate on used records, and one on records of its own."""
    alpha, n, candidates = cell["alpha"], cell["n"], calibration.CANDIDATES
    requirements = two_valued(calibration.TOLERANCE, 3)
    screening = np.empty((candidates, repetitions), dtype=np.int64)
    fresh = np.empty(repetitions, dtype=np.int64)
    decided = {name: np.empty(repetitions) for name in ("Holm", "reuse", "sealed")}
    for row in range(repetitions):
        losses = drawn(rng, calibration.INVALID, (candidates, n))
        own = drawn(rng, calibration.INVALID, (1, n))
        screening[:, row], fresh[row] = largest(losses), largest(own)[0]
        best = int(np.argmin(screening[:, row]))
        used = losses[best : best + 1]
        decided["Holm"][row] = holm_pvalues(losses, requirements, alpha=alpha)[0] > 0
        decided["reuse"][row] = holm_pvalues(used, requirements, alpha=alpha)[0]
        decided["sealed"][row] = holm_pvalues(own, requirements, alpha=alpha)[0]
    yield from twice(
        calibration.reused(cell, screening, fresh),
        {name: {"false validation": values} for name, values in decided.items()},
    )


# B3: named releases whose losses are no counts.


def check_held_out(cell: Cell, rng: np.random.Generator, repetitions: int) -> Iterator[Twice]:
    """Certify six candidates from their records, which they share or have for themselves."""
    n, family = cell["n"], held_out.FAMILIES[cell["law"]]
    requirements = [
        pg.Requirement(name=f"regret {j}", low=0, high=1, limit=held_out.UNIT_LIMIT)
        for j in range(held_out.REQUIREMENTS)
    ]
    tests = {"empirical Bernstein": "empirical_bernstein", "bentkus": "bentkus",
             "betting": "betting"}  # fmt: skip
    decided = {name: np.zeros((2, repetitions, held_out.CANDIDATES), dtype=bool) for name in tests}
    uncorrected = np.zeros((2, repetitions, held_out.CANDIDATES), dtype=bool)
    moments: list[list[held_out.Moments]] = [[], []]
    bets = np.empty((2, repetitions, held_out.CANDIDATES))
    for valid in (False, True):
        for row in range(repetitions):
            u = family.records(rng, 1, n, valid)
            moments[valid].append(held_out.unit_moments(u.sum(axis=-1), np.vecdot(u, u), n))
            bets[int(valid), row] = held_out.betting_pvalues(rng, family, u).max(axis=-1)[0]
            members = _members(np.moveaxis(u[0], 1, 2), requirements, shared=family.shared)
            for name, test in tests.items():
                found = pg.certify_releases(
                    members, alpha=held_out.ALPHA, beta=None, test=test, seed=1
                )
                decided[name][int(valid), row] = [
                    verdict.decision is pg.Decision.VALIDATED for verdict in found.verdicts
                ]
                if test == "empirical_bernstein":
                    uncorrected[int(valid), row] = [
                        verdict.pvalue <= held_out.ALPHA for verdict in found.verdicts
                    ]
    at_limit, below = (
        (np.concatenate([mean for mean, _ in one]), np.concatenate([var for _, var in one]))
        for one in moments
    )
    fast: Methods = {
        **held_out.by_moments(n, at_limit, below),
        "Holm, betting": lambda: held_out.by_holm(lambda valid: bets[int(valid)]),
    }

    def metrics(block: NDArray[np.bool_]) -> Metrics:
        return {"false validation": any_of(block[0]), "power": share_of(block[1])}

    yield from twice(
        fast,
        {
            "uncorrected IUT": metrics(uncorrected),
            **{f"Holm, {name}": metrics(block) for name, block in decided.items()},
        },
    )


def _members(
    losses: Losses, requirements: Sequence[pg.Requirement], *, shared: bool
) -> dict[str, pg.NamedReleases]:
    """Return candidates on one target, or each on a target of its own."""
    # The records were drawn independently, so the order they stand in is random already.
    records = pg.Records(random_order=True)
    if shared:
        return {"all": pg.NamedReleases(losses, requirements, records=records)}
    return {
        str(k): pg.NamedReleases(losses[k : k + 1], requirements, records=records)
        for k in range(len(losses))
    }


# Theory section 1: one release at a time, by each test.


def check_components(cell: Cell, rng: np.random.Generator, repetitions: int) -> Iterator[Twice]:
    """Certify releases inside their limit and at it, each alone at level .01."""
    law, n = component_power.LAWS[cell["law"]], component_power.N
    shape = (repetitions, n)
    losses = {"power": law.inside(rng, shape), "false validation": law.at_limit(rng, shape)}
    requirements = [
        pg.Requirement(name="loss", low=0, high=1, limit=law.limit, two_valued=law.two_valued)
    ]
    strata = np.repeat(["first", "second"], n // 2)
    design: pg.Iid | pg.Stratified = pg.Iid()
    records = pg.Records(random_order=True)
    if law.strata:
        halves = dict.fromkeys(("first", "second"), n // 2)
        design = pg.Stratified(sizes=halves, weights=dict.fromkeys(halves, Fraction(1, 2)))
        records = pg.Records(strata=strata, random_order=True)
    fast = component_power.tested(law, losses, rng)
    asked = Asked()
    for metric, drawn_losses in losses.items():
        for row, one in enumerate(drawn_losses):
            member = pg.NamedReleases(
                one[None, :, None], requirements, design=design, records=records
            )
            for test in fast.keys() - {"randomized_binomial"}:
                found = pg.certify_releases(
                    {"alone": member}, alpha=component_power.LEVEL, beta=None, test=test, seed=1
                )
                asked.put(row, test, {metric: len(found.validated)})
    yield from asked.beside(fast)


# Theory section 6: one release at a time, by the count of flagged records and by pairs.


def check_exposure(cell: Cell, rng: np.random.Generator, repetitions: int) -> Iterator[Twice]:
    """Certify releases from the records that an attack flags, and from pairs with members.

    The loss is 1 where a record is not flagged, and its limit the share of members that are not,
    plus the ceiling; a claim about every threshold has one requirement for each of them.
    """
    n, rate, ceiling = int(cell["n"]), exposure.threshold_rate(cell), cell["ceiling"]
    share, against = rate + cell["advantage"], cell["claim"] == exposure.AGAINST
    every, rates = cell["claim"] == exposure.EVERY, exposure.rates_of(cell)
    # A threshold that flags members no more often than the ceiling has nothing to test.
    kept = [j for j, flags in enumerate(exposure.RANKS) if flags > ceiling + 1e-9]
    unflagged = {
        # Members are flagged no more often than the ceiling: one flagged record suffices.
        "one": [_unflagged(0, min(1.0 - share + ceiling, 1.0 - 1e-12))],
        "every": [_unflagged(j, 1.0 - exposure.RANKS[j] + ceiling) for j in kept],
    }
    difference = [pg.Requirement(name="difference", low=-1, high=1, limit=ceiling)]
    flagged, paired = np.empty((2, repetitions), dtype=np.int64)
    curve = np.zeros((repetitions, rates.size), dtype=np.int64)
    asked = Asked()
    for row in range(repetitions):
        u = rng.random(n)
        place = rates[exposure.place_of(cell)] if every else rate
        at, members = u <= place, rng.random(n) < share
        flagged[row], paired[row] = np.count_nonzero(at), np.count_nonzero(members)
        if every:
            curve[row] = np.count_nonzero(u[:, None] <= rates, axis=0)
        for method in exposure.METHODS_OF[cell["claim"]]:
            test = "hoeffding" if method.startswith(exposure.PAIRED) else "binomial"
            losses: Losses
            if test == "hoeffding":
                losses, requirements = (members * 1.0 - at)[:, None], difference
            elif method.startswith(exposure.EVERY):
                losses, requirements = u[:, None] > rates[kept], unflagged["every"]
            else:
                losses, requirements = np.logical_not(at)[:, None], unflagged["one"]
            level = exposure.level_of(method)
            found = pg.certify_releases(
                {"alone": pg.NamedReleases(losses[None], requirements)},
                alpha=level,
                beta=level if against else None,
                test=test,
            )
            wanted = pg.Decision.VIOLATION if against else pg.Decision.VALIDATED
            asked.put(row, method, {exposure.metric_of(cell): found.verdicts[0].decision is wanted})
    yield from asked.beside(exposure.decided(cell, flagged, paired, curve))


def _unflagged(place: int, limit: float) -> pg.Requirement:
    return pg.Requirement(
        name=f"not flagged {place}", low=0, high=1, limit=float(limit), two_valued=True
    )


# B4 and B6: a group within the target, and candidates one after the other.


def check_rare_group(cell: Cell, rng: np.random.Generator, repetitions: int) -> Iterator[Twice]:
    """Certify a requirement of a group, whose size is random or fixed by strata."""
    whole = two_valued(searches.TOLERANCE, 1)
    grouped = two_valued(searches.TOLERANCE, 1, group="rare")
    for method in ("simple random", "stratified"):
        sizes = np.empty(repetitions, dtype=np.int64)
        counts = np.empty((2, repetitions, searches.CANDIDATES), dtype=np.int64)
        validated = np.empty((2, repetitions))
        for row in range(repetitions):
            simple = method == "simple random"
            inside = np.asarray(
                rng.random(cell["n"]) < 0.02 if simple else np.ones(cell["rare"], dtype=bool)
            )
            sizes[row] = np.count_nonzero(inside)
            for block, risk in enumerate(searches.RARE_RISKS):
                losses = drawn(rng, (risk,), (searches.CANDIDATES, inside.size))
                counts[block, row] = np.count_nonzero(losses[:, inside, 0], axis=1)
                member = (
                    pg.NamedReleases(losses, grouped, records=pg.Records(groups={"rare": inside}))
                    if simple
                    else pg.NamedReleases(losses, whole)
                )
                found = pg.certify_releases({"all": member}, alpha=searches.ALPHA, beta=None)
                validated[block, row] = len(found.validated)
        yield from twice(
            {method: lambda s=sizes, c=counts: searches.in_group(s, c[0], c[1])},  # type: ignore[misc]
            {method: {"false validation": validated[0] > 0,
                      "power": validated[1] / searches.CANDIDATES}},
        )  # fmt: skip


def check_adaptive(cell: Cell, rng: np.random.Generator, repetitions: int) -> Iterator[Twice]:
    """Submit candidates to a stream, each with fresh records; valid ones in the rounds shown."""
    n, rounds, shown = cell["n"], max(searches.ROUNDS), searches.ROUNDS
    requirements = two_valued(searches.TOLERANCE, 3)
    counts = np.empty((repetitions, rounds), dtype=np.int64)
    good = np.empty((repetitions, len(shown)), dtype=np.int64)
    validated = np.zeros((2, repetitions, rounds), dtype=bool)
    for row in range(repetitions):
        for block, name in enumerate(("invalid", "valid where shown")):
            stream = pg.CandidateStream(requirements, alpha=searches.ALPHA, seed=1)
            for k in range(rounds):
                valid = name != "invalid" and k + 1 in shown
                losses = drawn(rng, searches.STREAM_RISKS[valid], (1, n))
                records = pg.Records(ids=np.arange(k * n, (k + 1) * n))
                decision = stream.submit(losses[0], records).decision
                validated[block, row, k] = decision is pg.Decision.VALIDATED
                if valid:
                    good[row, shown.index(k + 1)] = largest(losses)[0]
                elif block == 0:
                    counts[row, k] = largest(losses)[0]
    wrong, right = validated
    yield from twice(
        searches.spent(cell, counts, good),
        {
            "spending": {
                **{f"false validation by round {k}": any_of(wrong[:, :k]) for k in shown},
                **{f"power in round {k}": right[:, k - 1] for k in shown},
            }
        },
    )
