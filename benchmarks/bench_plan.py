"""Time ``proxyguard plan`` on pilots of an error and a Brier score, of a subgroup, of 120 promises.

What a person waits for: the search, every way at the chosen size, the stress test and the
sequential forecast, on one thread. Prints processor seconds and their ratio to those of the fewest
pilots: a thousand pilots should cost hardly more than fifty.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from proxyguard.plan.law import Law, Others, nearest_requirements, pilot_law
from proxyguard.plan.question import Question
from proxyguard.plan.recommend import recommend
from proxyguard.plan.stress import default_looks, forecast, stress
from proxyguard.registry.requirement import Form, Requirement

PILOTS = (50, 200, 1000)
RECORDS = 1000
LIMIT = 20.0
"""Processor seconds that a plan from a thousand pilots may take."""

COLUMNS = 59
"""Columns of whose share both sides are required, beside the error and the Brier score."""

ERROR = Requirement(name="error", low=0, high=1, limit=0.12, two_valued=True)
BRIER = Requirement(name="Brier", low=0, high=1, limit=0.03)


def pilots(count: int) -> Law:
    """Return the law of pilots that share hard records and differ in skill."""
    rng = np.random.default_rng(1)
    hard = rng.beta(0.3, 4.0, RECORDS)
    skill = rng.normal(0.0, 0.3, count)[:, None]
    risk = 1.0 / (1.0 + np.exp(-np.log(hard + 1e-9) + np.log1p(1e-9 - hard) + skill))
    error = (rng.random(risk.shape) < risk).astype(float)
    brier = np.clip(0.8 * risk + rng.normal(0.0, 0.05, risk.shape), 0.0, 1.0) ** 2
    return pilot_law(np.stack([error, brier], axis=2), [ERROR, BRIER])


def grouped_pilots(count: int) -> Law:
    """Return the law of pilots with an error, that of a subgroup, and both sides of four shares."""
    rng = np.random.default_rng(2)
    old = rng.random(RECORDS) < 0.2
    error = (rng.random((count, RECORDS)) < 0.07).astype(float)
    requirements = [ERROR, replace(ERROR, name="error of the old", limit=0.15, group="old")]
    losses, answers = [error, error], [np.zeros(count)] * 2
    for share in (0.2, 0.3, 0.5, 0.7):
        inside = (rng.random(RECORDS) < share).astype(float)
        answer = inside.mean() + rng.normal(0.0, 0.01, count)
        for side, told in ((inside, answer), (1.0 - inside, 1.0 - answer)):
            requirements.append(
                Requirement(
                    name=f"share {len(requirements)}", low=-1, high=1, limit=0.08, form=Form.QUERY,
                    indicator=True,
                )
            )  # fmt: skip
            losses.append(side[None] - told[:, None])
            answers.append(told)
    counting = np.ones((RECORDS, len(requirements)), dtype=bool)
    counting[:, 1] = old
    return pilot_law(
        np.stack(losses, axis=2), requirements, counting=counting,
        answers=np.stack(answers, axis=1),
    )  # fmt: skip


def many_pilots(count: int) -> Law:
    """Return the law of pilots with an error, a Brier score and both sides of 59 shares.

    As `audit.plan` makes it: the ten nearest requirements, and the others beside them.
    """
    rng = np.random.default_rng(3)
    table = (rng.random((RECORDS, COLUMNS)) < rng.uniform(0.05, 0.95, COLUMNS)).astype(float)
    told = np.clip(table.mean(axis=0) + rng.normal(0.0, 0.01, (count, COLUMNS)), 0.0, 1.0)
    inside, answers = np.hstack([table, 1.0 - table]), np.hstack([told, 1.0 - told])
    means = (0.07, 0.015)
    error = (rng.random((count, RECORDS)) < means[0]).astype(float)
    brier = rng.beta(0.5, 0.5 / means[1], (count, RECORDS))
    shares = [
        Requirement(
            name=f"share {j}", low=-1, high=1, limit=0.08, form=Form.QUERY, indicator=True
        )
        for j in range(2 * COLUMNS)
    ]  # fmt: skip
    requirements = [ERROR, BRIER, *shares]
    every = np.arange(count)

    def losses(j: int, kinds: np.ndarray) -> np.ndarray:
        if j < 2:
            return (error, brier)[j][kinds]
        return inside[:, j - 2] - answers[kinds][:, [j - 2]]

    def said(places: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        return np.stack(
            [np.zeros(len(kinds)) if j < 2 else answers[kinds, j - 2] for j in places], axis=1
        )

    below = np.stack(
        [
            (one.limit - losses(j, every).mean(axis=1)) / losses(j, every).std(axis=1)
            for j, one in enumerate(requirements)
        ],
        axis=1,
    )
    kept = nearest_requirements(below)
    rest = np.setdiff1d(np.arange(len(requirements)), kept)

    def alone(place: int, kinds: np.ndarray) -> Law:
        j = rest[[place]]
        return pilot_law(
            losses(j[0], kinds)[:, :, None], [requirements[j[0]]], reliability=1,
            answers=said(j, kinds),
        )  # fmt: skip

    law = pilot_law(
        np.stack([losses(j, every) for j in kept], axis=2), [requirements[j] for j in kept],
        answers=said(kept, every),
    )  # fmt: skip
    others = Others(
        requirements=tuple(requirements[j] for j in rest), answers=said(rest, every), kinds=every,
        alone=alone, inside=lambda place: None if rest[place] < 2 else inside[:, rest[place] - 2],
    )  # fmt: skip
    return replace(law, others=others)


def seconds(law: Law) -> tuple[float, str]:
    """Return the processor seconds of one plan, and the plan."""
    question = Question(reliability_target="0.8", power=0.8, release_cost=5.0)
    start = time.process_time()
    found = recommend(law, question)
    plan = found.chosen.plan
    stress(found)
    if plan.claim.sequential:
        forecast(law, plan, default_looks(plan.releases, question.least_releases))
    spent = time.process_time() - start
    return spent, f"{plan.n:,} records, {plan.releases} draws, {found.chosen.power.value:.3f}"


def main() -> None:
    """Print a line for each number of pilots."""
    print(f"{'pilots':>7}{'CPU s':>8}{'ratio':>7}  plan and its power; {LIMIT:g} s are allowed")
    least = None
    with threadpool_limits(1):
        for count in PILOTS:
            spent, plan = seconds(pilots(count))
            least = least or spent
            print(f"{count:>7,}{spent:>8.1f}{spent / least:>7.2f}  {plan}")
        spent, plan = seconds(grouped_pilots(PILOTS[-1]))
        print(f"{PILOTS[-1]:>7,}{spent:>8.1f}{'':>7}  {plan}; a subgroup and eight sides of shares")
        spent, plan = seconds(many_pilots(PILOTS[-1]))
        print(f"{PILOTS[-1]:>7,}{spent:>8.1f}{'':>7}  {plan}; {2 + 2 * COLUMNS} requirements")


if __name__ == "__main__":
    main()
