"""The Taiwan table as its audits read it: the published parts, and no number from a target.

The paper holds out 40 % of the rows class by class and halves them, again class by class, into
validation and target; each audit has a seed of its own. It winsorised numbers at their 1 % and
99 % quantiles over all rows. Here the quantiles are those of the rows that are in no audit's
target, so that one table serves all audits and the lineage store knows a record when it meets it
again. `ID` tells equal rows apart; it is no feature.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from proxyguard.adapters.library import best_threshold
from reproduction.audits.arrange import Rows, divided, reserved
from reproduction.datasets import load
from reproduction.datasets.prepare import csv_bytes
from reproduction.datasets.taiwan import winsor_limits, winsorised
from reproduction.files import write_atomic

OUTCOME = "default.payment.next.month"
SEEDS = {"pilot": 3609, "aim": 1155954205, "bootstrap": 4921}
FRACTION = 0.25  # of the rows outside the target: validation

Parts = tuple[Rows, Rows, Rows]


def published_parts(outcome: Rows, seed: int) -> Parts:
    """Return the rows of training, validation and target that the paper's rule gives."""
    rows = np.arange(outcome.size)
    training, held = train_test_split(rows, test_size=0.4, random_state=seed, stratify=outcome)
    validation, target = train_test_split(
        held, test_size=0.5, random_state=seed + 1, stratify=outcome[held]
    )
    return training, validation, target


def policy_risks() -> dict[str, list[float]]:
    """Return the target risks of policies that learn nothing: Brier, log loss and Cost5x.

    A policy says the same of every record and takes its threshold from validation, so that its
    risks follow from the class shares of the target, which is open by then.
    """
    y = load.taiwan()[OUTCOME].to_numpy(dtype=np.float64)
    training, validation, target = published_parts(y.astype(np.int64), SEEDS["bootstrap"])
    share = float(y[target].mean())
    found = {}
    for policy, p in (("constant", 0.5), ("prevalence", float(y[training].mean()))):
        said = np.full(validation.size, p)
        threshold, _ = best_threshold(y[validation], said, 5.0, 501)
        log = -(share * np.log(p) + (1 - share) * np.log1p(-p)) / -np.log(1e-6)
        cost = (1 - share) / 5 if p >= threshold else share
        found[policy] = [share * (1 - p) ** 2 + (1 - share) * p**2, float(log), cost]
    return found


def write_policies(place: Path) -> None:
    """Write these risks, unless they are there."""
    if not place.exists():
        place.write_text(json.dumps(policy_risks(), indent=1) + "\n", encoding="utf-8")


def write_taiwan(folder: Path) -> None:
    """Write one arranged table an audit, unless they are there."""
    places = {name: folder / f"taiwan-{name}.csv" for name in SEEDS}
    if all(place.exists() for place in places.values()):
        return
    table = load.taiwan_features()
    outcome = table[OUTCOME].to_numpy().astype(np.int64)
    parts = {name: published_parts(outcome, seed) for name, seed in SEEDS.items()}
    in_a_target = np.zeros(len(table), dtype=bool)
    for _, _, target in parts.values():
        in_a_target[target] = True
    table = winsorised(table, winsor_limits(table[~in_a_target], outcome=OUTCOME))
    table.insert(0, "ID", np.arange(1.0, len(table) + 1.0))
    for name, (training, validation, target) in parts.items():
        rest = divided(training, validation, fraction=FRACTION, seed=SEEDS[name] + 1)
        order = reserved(target, rest, seed=SEEDS[name])
        write_atomic(places[name], csv_bytes(table.iloc[order]))
