"""How far the stand-ins' figures move with what the paper does not print: divisions and seeds.

    python -m reproduction.audits.spread [--out FILE]

The paper gives one seed a relation and not which rows it puts where. So source and proxy are
divided anew many times, and the figures of its table computed on the same target each time: Heart
Disease in training and validation part, Adult in cohorts as well. Bank Marketing is divided by
date, so only the seed of the boosted trees changes there. Both published models are fitted;
*chosen* is the one with the least validation cost, source and proxy each for itself.

Two choices that the declarations do not make are tried as well: Bank Marketing divided at random
and not by date, and the gaps of all clinics filled with the medians of Cleveland.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from proxyguard.adapters.library import Library, last_fifth, split_table
from proxyguard.draw.protocol import Fitted, Seed, features, outcomes, predict
from proxyguard.registry.parts import Choose, Procedure
from proxyguard.registry.target import Outcome
from reproduction.audits.stand_ins import Parts, adult, bank, heart

MODELS = {"boosting": "balanced_boosting", "logistic": "balanced_logistic"}
CHOSEN = "chosen"
FIGURES = ("AUC", "Brier", "Cost5x")
REPEATS = {"Bank Marketing": 40, "Heart Disease": 100, "Adult": 40}
RANDOM_FIFTH, MEDIANS = "a random fifth to choose on", "Cleveland's medians in all clinics"
OTHERWISE = {RANDOM_FIFTH: ("Bank Marketing", 20), MEDIANS: ("Heart Disease", 100)}
"""What is done otherwise, of which relation, and how often it is divided anew."""
OUTCOMES = {
    "Bank Marketing": Outcome(column="y", positive="yes"),
    "Heart Disease": Outcome(column="disease", positive="1"),
    "Adult": Outcome(column="income", positive=">50K"),
}

Spread = dict[str, dict[str, list[list[float]]]]  # by relation and model, the figures of a repeat


def spread(repeats: Mapping[str, int]) -> Spread:
    """Return the figures of every repeat: proxy less source, in the order of `FIGURES`."""
    return {
        relation: _collected(
            _figures(relation, parts, seed, by_date=relation == "Bank Marketing")
            for seed, parts in _repeated(relation, count)
        )
        for relation, count in repeats.items()
    }


def otherwise(repeats: Mapping[str, int]) -> Spread:
    """Return the same of choices that the declarations do not make, by choice."""
    found: Spread = {}
    for choice, count in repeats.items():
        relation, _ = OTHERWISE[choice]
        parts = bank() if choice == RANDOM_FIFTH else filled(heart())
        found[choice] = _collected(
            _figures(relation, parts, seed, by_date=False) for seed in range(1, count + 1)
        )
    return found


def filled(parts: Parts) -> Parts:
    """Return the parts with the medians of the first where a number is missing."""
    medians = parts[0].median(numeric_only=True)
    first, second, third = (part.fillna(medians) for part in parts)
    return first, second, third


def _collected(several: Iterable[Mapping[str, list[float]]]) -> dict[str, list[list[float]]]:
    own: dict[str, list[list[float]]] = {model: [] for model in (CHOSEN, *MODELS)}
    for one in several:
        for model, values in one.items():
            own[model].append(values)
    return own


def _repeated(relation: str, count: int) -> Iterator[tuple[int, Parts]]:
    fixed = {"Bank Marketing": bank, "Heart Disease": heart}
    parts = fixed[relation]() if relation in fixed else None
    for seed in range(1, count + 1):
        yield seed, adult(seed) if parts is None else parts


def _figures(relation: str, parts: Parts, seed: int, *, by_date: bool) -> dict[str, list[float]]:
    source, proxy, target = parts
    first, second = (_fitted(relation, table, seed, by_date) for table in (source, proxy))
    risks = [
        {model: _risks(fitted, table, target, OUTCOMES[relation]) for model, fitted in own.items()}
        for own, table in ((first, source), (second, proxy))
    ]
    picked = [_cheapest(own) for own in (first, second)]
    pairs = {CHOSEN: (picked[0], picked[1]), **{model: (model, model) for model in MODELS}}
    return {
        name: [float(b - a) for a, b in zip(risks[0][one], risks[1][other], strict=True)]
        for name, (one, other) in pairs.items()
    }


def _fitted(relation: str, table: pd.DataFrame, seed: int, by_date: bool) -> dict[str, Fitted]:
    """Return both models, each calibrated and with its threshold, on the parts of a table."""
    outcome = OUTCOMES[relation]
    if by_date:
        training, validation = last_fifth(table.sort_index())
    else:
        y = outcomes(table[outcome.column], outcome, relation)
        training, validation = split_table(table, y, 0.2, seed)
    return {
        model: Library(_procedure(name), outcome, _features(table, outcome)).fit(
            training, validation, Seed(seed)
        )
        for model, name in MODELS.items()
    }


def _procedure(name: str) -> Procedure:
    choose = Choose(loss="cost", false_negative="5", thresholds=101)
    return Procedure(library=(name,), calibrate="temperature", choose=choose)


def _features(table: pd.DataFrame, outcome: Outcome) -> list[str]:
    return [str(name) for name in table.columns if name != outcome.column]


def _cheapest(fitted: Mapping[str, Fitted]) -> str:
    """Return the model that the library would keep; ties go to the first in the alphabet."""
    return min(sorted(fitted), key=lambda model: float(fitted[model].notes["loss"]))


def _risks(
    fitted: Fitted, table: pd.DataFrame, target: pd.DataFrame, outcome: Outcome
) -> tuple[float, float, float]:
    y = outcomes(target[outcome.column], outcome, "target")
    p = predict(fitted, features(target, _features(table, outcome)), outcome)
    if fitted.threshold is None:
        raise ValueError("a policy has a threshold, and this model has none")
    said = p >= fitted.threshold
    cost = ((y > 0.5) & ~said) + ((y < 0.5) & said) / 5.0
    return float(roc_auc_score(y, p)), float(np.mean((p - y) ** 2)), float(np.mean(cost))


def main() -> None:
    """Write the figures of all repeats as JSON, and print their means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/audits/spread.json"))
    given = parser.parse_args()
    other = given.out.with_name("spread-otherwise.json")
    write_spread(given.out)
    write_otherwise(other)
    for place in (given.out, other):
        for relation, own in json.loads(place.read_text("utf-8")).items():
            for model, values in own.items():
                means = ", ".join(f"{x:.3f}" for x in np.mean(values, axis=0))
                print(f"{relation}, {model}: mean {', '.join(FIGURES)} {means}")


def write_spread(place: Path) -> None:
    """Write the figures of all repeats, unless they are there."""
    _write(place, lambda: spread(REPEATS))


def write_otherwise(place: Path) -> None:
    """Write the figures of the choices that the declarations do not make, unless there."""
    _write(place, lambda: otherwise({choice: count for choice, (_, count) in OTHERWISE.items()}))


def _write(place: Path, figures: Callable[[], Spread]) -> None:
    if place.exists():
        return
    with threadpool_limits(1):
        text = json.dumps(figures(), indent=1)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
