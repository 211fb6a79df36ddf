"""B5, B8, B9, B10 through `pg.certify`: families of mechanisms, each with every mode and test.

The paper's methods are asked of the package in every repetition, in turn on the grid of B10, and
ours always in turn: one in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proxyguard as pg
from reproduction.studies import mechanisms
from reproduction.studies.count_tests import COUNT_TESTS
from reproduction.studies.counts import UNRELIABLE, VIOLATION
from reproduction.studies.mechanism_modes import (
    ALPHA,
    COUNT_SHARE,
    COUNT_THRESHOLD,
    OURS,
    REQUIREMENTS,
    TARGET,
    TOLERANCE,
    H,
    risks,
)
from reproduction.studies.study import Cell, Methods
from reproduction.studies.twice import Asked, Check, Losses, Twice, in_turn, largest, two_valued

COLLECTIVE = {"collective": "simes", "tail-Simes": "simes", "tail-Fisher": "fisher"}
PAPERS_NAMED = ("two-level", "Holm")
"""What the studies call the paper's named mode, whose test is the binomial one."""


@dataclass(frozen=True, eq=False)
class Family:
    """The mechanisms of one repetition."""

    losses: NDArray[np.bool_]  # (mechanisms, releases, records, requirements)
    valid: NDArray[np.bool_]  # (mechanisms, releases)

    @cached_property
    def shared(self) -> dict[str, Losses]:
        """Their losses by name."""
        return {str(h): losses for h, losses in enumerate(self.losses)}

    @cached_property
    def separate(self) -> dict[str, pg.Moments]:
        """The same where collective mode asks for it: every release on a sample of its own."""
        n = self.losses.shape[2]
        return {str(h): pg.Moments(n=n, mean=one.mean(axis=1)) for h, one in enumerate(self.losses)}

    def certify(self, **choices: Any) -> pg.FamilyCertificate:
        """Return the certificates of all mechanisms."""
        losses = self.separate if choices.get("mode") == "collective" else self.shared
        choices = {"reliability_target": TARGET, "alpha": ALPHA, "beta": None, **choices}
        return pg.certify(losses, two_valued(TOLERANCE, REQUIREMENTS), seed=1, **choices)


def families(cell: Cell, rng: np.random.Generator, repetitions: int) -> Iterator[Family]:
    """Yield mechanisms at the target, above it and below it, in a random order."""
    good, bad = (np.array(one) for one in risks(cell))
    for eta in rng.choice((TARGET, cell["eta"], UNRELIABLE), repetitions):
        valid = rng.random((H, cell["R"])) < eta
        risk = np.where(valid[..., None], good, bad)[:, :, None]
        shape = (H, cell["R"], cell["n"], REQUIREMENTS)
        yield Family(rng.random(shape, dtype=np.float32) < risk, valid)


Ask = Callable[[Cell, Family, str], Mapping[str, float]]
"""From a family and a method to what the package says, by metric."""


def check(
    ask: Ask,
    papers: Sequence[str],
    methods: Callable[[Cell, mechanisms.Blocks, mechanisms.Labels, mechanisms.Draw], Methods],
    cell: Cell,
    rng: np.random.Generator,
    repetitions: int,
    *,
    every: bool = True,
) -> Iterator[Twice]:
    """Decide families by the paper's methods and one of ours, and again by the study."""
    counts = np.empty((cell["R"], H, repetitions), dtype=np.int64)
    valid = np.empty(counts.shape, dtype=bool)
    asked, ours = Asked(), tuple(OURS)
    for row, family in enumerate(families(cell, rng, repetitions)):
        counts[:, :, row] = np.stack([largest(losses) for losses in family.losses], axis=1)
        valid[:, :, row] = family.valid.T
        for method in in_turn(papers, ours, row, every=every):
            asked.put(row, method, ask(cell, family, method))
    # One block plays both parts: what is false for it at the boundary is power above it.
    blocks, labels = dict.fromkeys(("boundary", "valid"), counts), {"boundary": valid}
    yield from asked.beside(methods(cell, blocks, labels, lambda: counts))


def decided(cell: Cell, family: Family, method: str) -> Mapping[str, float]:
    """Return what the package says of a family, by a method of the studies."""
    mode, _, test = method.partition(", ")
    if method == "sharp violation":
        found = family.certify(mode="direct", test="binomial", beta=ALPHA, family="bounds")
        shown = _share(found, pg.Decision.VIOLATION)
        return {"false violation": shown > 0, VIOLATION: shown}
    # fmt: off
    choices: dict[str, Any] = {
        "named": {"mode": "named", "release_share": cell.get("share", 0.5)},
        "collective": {"mode": "collective", "release_share": cell.get("share", 0.5),
                       "dependence": "independent",
                       "combination": COLLECTIVE.get(method, "simes")},
        "sharp": {"mode": "direct"},
        # The study counts at local levels, which sum to the budget; the others go through Holm.
        "count": {"mode": "count", "threshold": COUNT_THRESHOLD, "target_share": COUNT_SHARE,
                  "family": "bounds"},
    }["named" if method in PAPERS_NAMED else "collective" if method in COLLECTIVE else mode]
    # fmt: on
    found = family.certify(test=COUNT_TESTS[test or "binomial"], **choices)
    power = _share(found, pg.Decision.VALIDATED)
    return {"false validation": power > 0, "power": power}


def _share(found: pg.FamilyCertificate, decision: pg.Decision) -> float:
    return sum(one.decision is decision for one in found.values()) / H


def labelled(cell: Cell, family: Family, method: str) -> Mapping[str, float]:
    """Return what the package says where one family of labels spans all mechanisms (B8).

    That named releases are one family over all mechanisms is the study's choice: the labels are
    the package's, the test of their number is the study's own.
    """
    mode, _, test = method.partition(", ")
    if method != "inner Holm" and mode != "named":
        return decided(cell, family, method)
    requirements = two_valued(TOLERANCE, REQUIREMENTS)
    found = pg.certify_releases(
        {name: pg.NamedReleases(losses, requirements) for name, losses in family.shared.items()},
        alpha=ALPHA / 2, beta=None, test=COUNT_TESTS[test or "binomial"], seed=1,
    )  # fmt: skip
    labels = np.array([verdict.decision is pg.Decision.VALIDATED for verdict in found.verdicts])
    labels = labels.reshape(family.valid.shape)
    recognized = np.count_nonzero(labels, axis=1)[:, None]
    power = mechanisms.validated_by_tests(recognized, cell["R"], ALPHA / 2)[0] / H
    return {
        "any false label": bool((labels & ~family.valid).any()),
        "false validation": power > 0,
        "power": power,
    }


def _combined(
    cell: Cell, counts: mechanisms.Blocks, valid: mechanisms.Labels, unreliable: mechanisms.Draw
) -> Methods:
    return mechanisms.combined(cell, counts, unreliable)


CHECKS: Mapping[str, Check] = {
    "mechanism-calibration": partial(
        check, decided, ("two-level", "collective"), mechanisms.calibrated
    ),
    "error-split": partial(check, decided, ("two-level",), mechanisms.calibrated),
    "near-boundary": partial(check, labelled, ("inner Holm",), mechanisms.marked_near),
    "collective-grid": partial(
        check, decided, ("Holm", "tail-Simes", "tail-Fisher"), _combined, every=False
    ),
}
