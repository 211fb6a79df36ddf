"""Which configuration the pilots of the CDC audit call degraded, drawn as the paper's were.

    python -m reproduction.audits.cdc_roles [--out FILE]

The paper's pilots can be drawn again: the division, the seeds and the order of draws are known. An
audit draws the same seeds in another order, so its pilots are another sample. Both are compared
here with more pilots of the same nine configurations, in sets as large as the published one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from proxyguard.registry.declaration import read_declaration
from proxyguard.registry.parts import Seeds
from proxyguard.registry.requirement import choose_roles
from reproduction.datasets import load

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

DECLARATION = Path(__file__).parent / "cdc-neural" / "audit.toml"
OUTCOME, SEED = "Diabetes_binary", 2026080201
SOURCE, PLANNING, TARGET = 2500, 2500, 1000  # rows of either class
BUDGET, SLACK = 0.08, 0.045  # the published ones; no ceiling binds
MODERATE = SLACK + 0.015
SETS = 20  # of further pilots, each as large as the published one


class Division:
    """The published source and planning part, in the published order of rows."""

    def __init__(self) -> None:
        table = load.cdc()
        y = table[OUTCOME].to_numpy().astype(np.int64)
        x = table.drop(columns=OUTCOME).to_numpy(dtype=np.float64)
        source, planning = divide(y, np.random.default_rng(SEED))
        self.x, self.y = x[source], y[source]
        self.planning, self.planning_y = x[planning], y[planning]
        self.low, self.high = self.x.min(axis=0), self.x.max(axis=0)
        self.span = np.where(self.high > self.low, self.high - self.low, 1.0)
        self.scaled = (self.x - self.low) / self.span

    def limits(self) -> Array:
        """Return the three limits that the source's planning risks give."""
        return self._risks(_fitted(self.x, self.y, SEED)) + BUDGET

    def margin(self, seed: int, options: Mapping[str, Any], limits: Array) -> float:
        """Return the smallest margin below the limits of one pilot release."""
        x, y = self._release(np.random.default_rng(seed), options)
        return float(np.min(limits - self._risks(_fitted(x, y, seed))))

    def _risks(self, model: Any) -> Array:
        """Return error, Brier score and decision cost on the planning part."""
        p, y = model.predict_proba(self.planning)[:, 1], self.planning_y
        cost = ((p < 1 / 6) & (y == 1)) + ((p >= 1 / 6) & (y == 0)) / 5
        means = (np.mean((p >= 0.5) != y), np.mean((p - y) ** 2), np.mean(cost))
        return np.array(means, dtype=np.float64)

    def _release(self, rng: np.random.Generator, options: Mapping[str, Any]) -> tuple[Array, Rows]:
        """Draw one release in the paper's order: features and classes."""
        hidden, inputs, rows = int(options["hidden"]), self.x.shape[1] + 1, int(options["rows"])
        noise = rng.normal(0.0, float(options["train_noise"]), self.scaled.shape)
        corrupted = np.clip(self.scaled + noise, 0.0, 1.0)
        weights = rng.normal(0.0, 1.0 / np.sqrt(inputs), (inputs, hidden))
        bias = rng.uniform(-0.5, 0.5, hidden)

        def encoded(x: Array, y: Rows) -> Array:
            units = np.tanh(np.column_stack([x, y]) @ weights + bias)
            return np.column_stack([units, np.ones(len(units))])

        code = encoded(corrupted, self.y)
        penalty = np.diag([float(options["ridge"])] * hidden + [0.0])
        decoder = np.linalg.solve(code.T @ code + penalty, code.T @ self.scaled)
        y = np.arange(rows) % 2
        rng.shuffle(y)
        anchors = self.scaled[self._anchors(rng, y, float(options["label_fidelity"]))]
        noise = rng.normal(0.0, float(options["sample_noise"]), anchors.shape)
        decoded = encoded(np.clip(anchors + noise, 0.0, 1.0), y) @ decoder
        x = np.rint(np.clip(decoded, 0.0, 1.0) * self.span + self.low)
        return np.clip(x, self.low, self.high), y

    def _anchors(self, rng: np.random.Generator, y: Rows, fidelity: float) -> Rows:
        """Return a source row for each row, drawn class by class and wanted class by wanted."""
        matched = rng.random(y.size) < fidelity
        found = np.empty(y.size, dtype=np.int64)
        for group in (0, 1):
            for wanted in (0, 1):
                own = np.flatnonzero((y == group) & (matched == (group == wanted)))
                pool = np.flatnonzero(self.y == wanted)
                found[own] = rng.choice(pool, size=own.size, replace=True)
        return found


def divide(y: Rows, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Return the rows of source and planning part: dealt out by class, then permuted."""
    ends = np.cumsum([SOURCE, PLANNING, TARGET])
    dealt = [np.split(rng.permutation(np.flatnonzero(y == group)), ends)[:2] for group in (0, 1)]
    source, planning = (
        rng.permutation(np.concatenate(parts)) for parts in zip(*dealt, strict=True)
    )
    return source, planning


def _fitted(x: Array, y: Rows, seed: int) -> Any:
    model = LogisticRegression(solver="liblinear", max_iter=500, random_state=seed)
    return make_pipeline(StandardScaler(), model).fit(x, y)


def margins(division: Division, sets: int) -> list[dict[str, list[float]]]:
    """Return sets of pilot margins by configuration; the first has the published seeds."""
    limits = division.limits()
    pilots = read_declaration(DECLARATION.read_text("utf-8")).pilot
    first = {pilot.name: pilot.seeds.first for pilot in pilots if isinstance(pilot.seeds, Seeds)}
    return [
        {
            pilot.name: [
                division.margin(first[pilot.name] + j, pilot.options, limits)
                for j in range(k * pilot.draws, (k + 1) * pilot.draws)
            ]
            for pilot in pilots
        }
        for k in range(sets)
    ]


def roles(own: Mapping[str, list[float]]) -> dict[str, str]:
    """Return the configurations of the three roles."""
    return choose_roles(own, moderate=MODERATE)


def write_cdc_roles(place: Path) -> None:
    """Write what the published pilots and further sets of them give, unless it is there."""
    if place.exists():
        return
    published, *others = margins(Division(), 1 + SETS)
    found = {
        "roles": roles(published),
        "quantiles": {name: float(np.quantile(own, 0.9)) for name, own in published.items()},
        "others": [roles(own)["degraded"] for own in others],
    }
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Write what the pilots choose, and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/audits/cdc-roles.json"))
    given = parser.parse_args()
    write_cdc_roles(given.out)
    print(given.out.read_text("utf-8"))


if __name__ == "__main__":
    main()
