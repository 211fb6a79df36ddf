"""Losses from elsewhere: strata and survey weights, in memory and as a sealed file."""

from __future__ import annotations

import numpy as np

import proxyguard as pg

rng = np.random.default_rng(7)
R, n = 40, 2000  # releases, target records
error = [pg.Requirement(name="error", low=0, high=1, limit=0.10, two_valued=True)]
losses = (rng.random((R, n, 1)) < 0.06).astype(float)

plain = pg.certify(losses, error, reliability_target=0.8, seed=1)
print("independent records:", plain.sentence)

regions = np.repeat(["city", "country"], [1500, 500])
strata = pg.Stratified(
    sizes={"city": 1500, "country": 500}, weights={"city": "0.6", "country": "0.4"}
)
stratified = pg.certify(
    losses, error, design=strata, records=pg.Records(strata=regions), reliability_target=0.8, seed=1
)
print("strata:", stratified.sentence)

weights = rng.choice([1.0, 2.5, 4.0], n)  # persons that each record represents
per_person = pg.certify(
    losses,
    error,
    design=pg.Weighted(max_weight=4, origin="design"),
    records=pg.Records(weights=weights),
    reliability_target=0.8,
    seed=1,
)
print("survey weights:", per_person.sentence)

np.savez(
    "losses.npz",
    losses=losses,
    releases=np.array([f"release {k}" for k in range(R)]),
    requirements=np.array(["error"]),
    region=regions,
)
