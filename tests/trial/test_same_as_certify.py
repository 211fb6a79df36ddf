"""What a trial decides is what `certify` decides on the same losses.

A trial has no statistics of its own: it runs an audit, whose level is tested in `guarantees/`. Here
its losses are computed once more, from the tables alone, and given to `certify`.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import proxyguard as pg
from proxyguard.adapters.library import Library
from proxyguard.draw.protocol import Seed, features, predict
from proxyguard.registry.declaration import read_declaration
from proxyguard.registry.parts import Procedure
from proxyguard.registry.target import Outcome
from proxyguard.trial.seen import SeenRecord

OUTCOME = Outcome(column="ill", positive="yes")
LIMITS = {"error": 0.08, "Brier": 0.06, "two-way shares": 0.12}

Floats = NDArray[np.float64]


def table(rows: int, seed: int, spread: float = 0.0) -> pd.DataFrame:
    """Return a number and a label that it tells, the less the more ``spread`` there is."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    seen = x + spread * rng.choice([-1.0, 1.0], size=rows)
    ill = rng.random(rows) < 1.0 / (1.0 + np.exp(-2.0 * seen))
    return pd.DataFrame({"x": x, "ill": np.where(ill, "yes", "no")})


def predictions(train: pd.DataFrame, judge: pd.DataFrame) -> Floats:
    learner = Library(Procedure(library=("default",)), OUTCOME, ["x"])
    return predict(learner.fit(train, None, Seed(0)), features(judge, ["x"]), OUTCOME)


def losses_of(
    real: pd.DataFrame, releases: list[pd.DataFrame], judge: pd.DataFrame, end: float
) -> Floats:
    """Return error and Brier score beside the source's, and both sides of every share."""
    y = (judge["ill"] == "yes").to_numpy(dtype=float)
    source = predictions(real, judge)
    common = real["ill"].mode()[0]

    def inside(frame: pd.DataFrame, high: bool, usual: bool) -> NDArray[np.bool_]:
        above, same = frame["x"].to_numpy() >= end, frame["ill"].to_numpy() == common
        return np.asarray((above == high) & (same == usual))

    losses = []
    for release in releases:
        p = predictions(release, judge)
        columns = [
            1.0 * ((p >= 0.5) != (y > 0.5)) - 1.0 * ((source >= 0.5) != (y > 0.5)),
            (p - y) ** 2 - (source - y) ** 2,
        ]
        for cell in product([False, True], repeat=2):
            deviation = 1.0 * inside(judge, *cell) - inside(release, *cell).mean()
            columns += [deviation, -deviation]
        losses.append(np.stack(columns, axis=1))
    return np.stack(losses)


RELATIVE = [
    pg.Requirement(name=name, low=-1, high=1, limit=LIMITS[name], form=pg.Form.RELATIVE)
    for name in ("error", "Brier")
]
SHARES = [
    pg.Requirement(
        name=f"share {k}", low=-1, high=1, limit=LIMITS["two-way shares"], form=pg.Form.QUERY,
        indicator=True,
    )
    for k in range(8)
]  # fmt: skip


@pytest.mark.parametrize("spread", [0.0, 4.0])
def test_releases_and_what_makes_them_are_decided_as_certify_decides(spread: float) -> None:
    real, judge = table(600, 1), table(1500, 2)
    releases = [table(400, 10 + k, spread) for k in range(12)]
    known = {"outcome": "ill", "holdout": judge, "limits": LIMITS, "workers": 2}
    named = pg.try_out(real, releases, **known)  # type: ignore[arg-type]
    joint = pg.try_out(
        real, releases, independent=True, reliability=0.6, **known  # type: ignore[arg-type]
    )  # fmt: skip
    query = read_declaration(named.declaration).members[0].requirement[2].query
    assert query is not None
    assert query.bins is not None
    losses = losses_of(real, releases, judge, float(query.bins["x"][0]))
    rules = [*RELATIVE, *SHARES]
    alone = pg.certify_releases({"target": pg.NamedReleases(losses, rules)}, alpha=0.05, beta=0.05)
    # Far from every edge: tests that bet read the records in an order of their own.
    assert list(named.decisions.values()) == [v.decision for v in alone.verdicts]
    together = pg.certify(losses, rules, reliability_target=0.6, alpha=0.05, beta=0.05)
    assert joint.decision is together.decision
    assert joint.reliability is not None
    assert joint.reliability[0] == pytest.approx(together.reliability_lower)
    errors = losses[:, :, 0].mean(axis=1) * 100
    assert joint.requirements[0].estimates == pytest.approx(list(errors))
    deviations = losses[:, :, 2:].mean(axis=1).max(axis=1) * 100
    assert joint.requirements[2].estimates == pytest.approx(list(deviations))


@pytest.mark.parametrize("given", [{"releases": [table(400, 3), table(400, 4, 1.0)]},
                                   {"generator": "bootstrap", "draws": 4}])  # fmt: skip
def test_a_trial_repeats_by_its_seed(
    given: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[bytes] = []
    of = SeenRecord.of.__func__  # type: ignore[attr-defined]

    def watched(*arguments: object) -> SeenRecord:
        seen: SeenRecord = of(*arguments)
        measured.append(b"".join(group.to_bytes() for group in seen.groups.values()))
        return seen

    monkeypatch.setattr(SeenRecord, "of", classmethod(watched))
    pages = [
        pg.try_out(
            table(500, 1), outcome="ill", holdout=table(400, 2), limits=LIMITS, seed=seed,
            workers=workers, home=tmp_path / str(k), **given,  # type: ignore[arg-type]
        )
        for k, (seed, workers) in enumerate([(7, 1), (7, 2), (8, 1)])
    ]  # fmt: skip
    # P-values of tests that bet hang on the order: without the seed these differ at once.
    assert measured[0] == measured[1] != measured[2]
    assert pages[0].to_html() == pages[1].to_html()
    assert pages[0].to_dict() == pages[1].to_dict()
