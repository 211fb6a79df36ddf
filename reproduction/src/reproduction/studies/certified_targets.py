"""B11 to B14, theory 2 and 4 through `pg.certify`: a mechanism whose releases share a target.

The paper's methods are asked of the package in every repetition, in turn on the grids of B12, and
ours always in turn: one in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

import proxyguard as pg
from reproduction.studies import modes, shared_target, sharp_rates, smooth_target, violation
from reproduction.studies.count_tests import COUNT_TESTS
from reproduction.studies.counts import VIOLATION, Array
from reproduction.studies.mode_targets import (
    HIGH_SIGNAL,
    LIMITS,
    MODERATE,
    Design,
    FixedScaleTarget,
    Model,
    SmoothedTarget,
)
from reproduction.studies.passing import COUNT_TARGET, COUNT_THRESHOLD
from reproduction.studies.shared_target import ALPHA, SLACK_TARGET, TARGET, Block
from reproduction.studies.study import Cell, Status, Study
from reproduction.studies.twice import Asked, Check, Losses, Twice, in_turn, two_valued

Choices = Mapping[str, Any]
TESTS: Mapping[str, str] = {**COUNT_TESTS, "betting": "betting"}
COUNTED: Choices = {
    "mode": "count",
    "threshold": COUNT_THRESHOLD,
    "target_share": COUNT_TARGET / Fraction(str(ALPHA)),
}
TUNED = "bets are tuned to a level that the study's modes share, and the package tunes its own"


def by_name(method: str, named: Choices) -> Choices | None:
    """Return the choices of "mode, test", the same in all studies; None for other methods."""
    mode, _, test = method.partition(", ")
    choices: dict[str, Choices] = {
        "named": {"mode": "named", **named}, "sharp": {"mode": "direct"}, "count": COUNTED,
        "hybrid": {"mode": "hybrid", **named},
        "sharp violation": {"mode": "direct", "beta": ALPHA},
    }  # fmt: skip
    return {**choices[mode], "test": TESTS[test]} if mode in choices and test in TESTS else None


def ask(
    losses: Losses, requirements: Sequence[pg.Requirement], choices: Choices
) -> Mapping[str, float]:
    """Return what the package says of one mechanism: validated, or in violation."""
    found = pg.certify(
        losses,
        requirements,
        # The records are iid as they stand: betting reads them in this order, as the study does.
        records=pg.Records(random_order=True),
        seed=1,
        **{"reliability_target": TARGET, "alpha": ALPHA, "beta": None, **choices},
    )
    if choices.get("beta") is not None:
        violation = found.decision is pg.Decision.VIOLATION
        return {"false violation": violation, VIOLATION: violation}
    return {"validated": found.decision is pg.Decision.VALIDATED}


def schedule(study: Study, skip: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the methods that are asked in every repetition, and those that take turns."""
    certified = [name for name in study.methods if name not in skip]
    papers = [name for name in certified if study.methods[name] is not Status.OURS]
    ours = [name for name in certified if name not in papers]
    # Betting first: some studies have it in their first repetitions alone.
    return papers, sorted(ours, key=lambda name: not name.endswith("betting"))


# B11 and B13, with their pilots.

SLACK: Choices = {"mode": "direct", "score": "slack"}
SPLIT: Choices = {"target_share": round(SLACK_TARGET / ALPHA, 6)}
SHARED: Mapping[str, Choices] = {
    "named": {"mode": "named", "test": "binomial"},
    "direct": {**SLACK, **SPLIT, "bound": "paper"},
    "direct, slack, rescaled": {**SLACK, **SPLIT, "bound": "rescaled"},
    "direct, slack, sharp": {**SLACK, "bound": "sharp"},
    "sharp, binomial, t = .01": {"mode": "direct", "test": "binomial", "threshold": "0.01"},
}
"""What methods of B11 and B13 are called in the package, where their name does not say it."""


def check_shared(
    study: Study, skip: Mapping[str, str], cell: Cell, rng: np.random.Generator, repetitions: int
) -> Iterator[Twice]:
    """Certify mechanisms whose losses are risks beside the uniforms of one target."""
    n, shape = cell["n"], (repetitions, cell["R"])
    false_pass = "slack" in cell
    slack = (
        shared_target.false_pass_slack(n, cell["slack"])
        if false_pass
        else shared_target.shared_slack(n)
    )
    draw = shared_target.false_pass_risks if false_pass else shared_target.shared_risks
    valid, risk = draw(rng, cell.get("eta", TARGET), shape)
    uniforms = rng.random((repetitions, n))
    counts = shared_target.ranks(risk, uniforms, side="right" if false_pass else "left")
    block = Block(counts, valid, slack)
    requirements = two_valued(slack.tolerance, 1, slack=round(slack.tolerance - slack.cutoff, 6))
    papers, ours = schedule(study, skip)
    asked = Asked()
    for row in range(repetitions):
        below = np.less_equal if false_pass else np.less
        losses = below(uniforms[row], risk[row, :, None])[..., None]
        for method in in_turn(papers, ours, row, every=True):
            # Betting reads every loss, of the first repetitions alone.
            if not (false_pass and method.endswith("betting")) or row < -(-repetitions // 5):
                choices = SHARED.get(method) or by_name(method, {})
                assert choices is not None, method
                asked.put(row, method, ask(losses, requirements, choices))
    fast = shared_target.false_pass_methods if false_pass else shared_target.shared_methods
    yield from asked.beside(fast(block, uniforms, lambda: block))


# B14.

SMOOTH: Mapping[str, Choices] = {
    "hard + Markov": {**SLACK, "bound": "paper"},
    "hard + Markov, rescaled": {**SLACK, "bound": "rescaled"},
    "hard, sharp": {**SLACK, "bound": "sharp"},
    "ramp + concentration": {"mode": "smooth", "bound": "paper"},
    "ramp + concentration, rescaled": {"mode": "smooth", "bound": "rescaled"},
}


def check_smooth(
    study: Study, skip: Mapping[str, str], cell: Cell, rng: np.random.Generator, repetitions: int
) -> Iterator[Twice]:
    """Certify mechanisms whose valid releases all have the same losses, as all others have."""
    settings = smooth_target.SMOOTH
    drawn = smooth_target.Means(rng, cell["eta"], repetitions, settings)
    scored = {"slack": round(settings.tolerance - settings.cutoff, 6)}
    hard = two_valued(settings.tolerance, 1, **scored)
    ramped = two_valued(settings.tolerance, 1, ramp=settings.ramp, **scored)
    papers, ours = schedule(study, skip)
    asked = Asked()
    for row in range(repetitions):
        valid = np.arange(settings.releases) < drawn.valid[row]
        good, bad = drawn.losses[:, row]
        losses = np.where(valid[:, None], good, bad)[..., None]
        for method in in_turn(papers, ours, row, every=True):
            choices = SMOOTH.get(method) or by_name(method, {})
            assert choices is not None, method
            requirements = ramped if choices["mode"] == "smooth" else hard
            asked.put(row, method, ask(losses, requirements, choices))
    yield from asked.beside(smooth_target.smooth_methods(drawn, lambda: drawn))


# B12.


def check_modes(
    model: Model,
    design: Design,
    study: Study,
    skip: Mapping[str, str],
    cell: Cell,
    rng: np.random.Generator,
    repetitions: int,
) -> Iterator[Twice]:
    """Certify mechanisms with three requirements, from losses that no count describes."""
    target = modes.simulate(model, design, cell, rng, repetitions)
    requirements, known = compared(design)
    share = {"release_share": design.release_share}
    papers, ours = schedule(study, skip)
    asked = Asked()
    for row in range(repetitions):
        losses: Array = target.losses(row)
        for method in in_turn(papers, ours, row, every=False):
            if method.endswith("betting") and not (
                modes.bets_on(target.n, losses.shape[0]) and row < target.betting_rows
            ):
                continue
            choices = known.get(method) or by_name(method, share)
            assert choices is not None, method
            asked.put(row, method, ask(losses, requirements, choices))
    yield from asked.beside(modes.compare(target, design, lambda: target))


def compared(design: Design) -> tuple[list[pg.Requirement], Mapping[str, Choices]]:
    """Return the requirements of B12, and what its methods are called in the package."""
    requirements = [
        pg.Requirement(name=f"loss {j}", low=0, high=1, limit=limit, slack=design.slack)
        for j, limit in enumerate(LIMITS)
    ]
    share = {"release_share": design.release_share}
    split = {**SLACK, "target_share": design.target_share}
    return requirements, {
        "named": {"mode": "named", "test": TESTS[modes.PAPERS_TEST], **share},
        "direct": {**split, "bound": "paper"},
        "hybrid": {**split, **share, "mode": "hybrid", "bound": "paper",
                   "test": TESTS[modes.PAPERS_TEST]},
        "direct, slack, rescaled": {**split, "bound": "rescaled"},
        "direct, slack, sharp": {**SLACK, "bound": "sharp"},
    }  # fmt: skip


def check_sharp_rates(
    study: Study, skip: Mapping[str, str], cell: Cell, rng: np.random.Generator, repetitions: int
) -> Iterator[Twice]:
    """Certify the mechanisms of the moderate comparison at registered thresholds (theory 2)."""
    target = modes.simulate(SmoothedTarget, MODERATE, cell, rng, repetitions)
    requirements, known = compared(MODERATE)
    known = {
        **known,
        "sharp, bentkus": {"mode": "direct", "test": "bentkus", "threshold": cell["t"]},
    }
    papers, ours = schedule(study, skip)
    asked = Asked()
    for row in range(repetitions):
        losses = target.losses(row)
        for method in in_turn(papers, ours, row, every=True):
            asked.put(row, method, ask(losses, requirements, known[method]))
    yield from asked.beside(sharp_rates.rates_of(cell, target))


# Theory section 4.

SHOWN: Mapping[str, Choices] = {
    "Holm, binomial": {"mode": "named"},
    "direct sharp, binomial": {"mode": "direct"},
    "direct sharp, t = .01": {"mode": "direct", "violation_threshold": "0.01"},
    "count, binomial": {"mode": "count", "target_share": "0.9", "violation_threshold": "0.01"},
}


def check_violations(
    study: Study, skip: Mapping[str, str], cell: Cell, rng: np.random.Generator, repetitions: int
) -> Iterator[Twice]:
    """Certify that mechanisms are less reliable than the target."""
    valid, risks = violation.draw_risks(rng, cell["reliability"], (repetitions, cell["R"]))
    uniforms = rng.random((repetitions, cell["n"]))
    requirements = two_valued(violation.TOLERANCE, 1)
    papers, ours = schedule(study, skip)
    asked = Asked()
    for row in range(repetitions):
        losses = (uniforms[row] < risks[row, :, None])[..., None]
        for method in in_turn(papers, ours, row, every=True):
            choices = {**SHOWN[method], "test": "binomial", "beta": violation.BETA}
            said = ask(losses, requirements, choices)
            asked.put(row, method, {"violation": said[VIOLATION]})
    yield from asked.beside(violation.shown(valid, risks, uniforms))


Made = Callable[[Study, Mapping[str, str]], Check]
"""From a study, and the methods that are not asked of the package, to its check."""


def made(check: Callable[..., Iterator[Twice]], *settings: Any) -> Made:
    """Return how to make the check of a study."""
    return lambda study, skip: partial(check, *settings, study, skip)


CHECKS: Mapping[str, Made] = {
    "shared-target-pilot": made(check_shared),
    "shared-target": made(check_shared),
    "mode-comparison": made(check_modes, SmoothedTarget, MODERATE),
    "mode-comparison-high-signal": made(check_modes, FixedScaleTarget, HIGH_SIGNAL),
    "false-pass-pilot": made(check_shared),
    "false-pass": made(check_shared),
    "smooth-target": made(check_smooth),
    "sharp-rates": made(check_sharp_rates),
    "violation-direct-holm": made(check_violations),
}
