"""A target that an audit sets aside from a survey, in strata of clusters with design weights.

Every trial is a survey of its own, written as a table and divided by the code of an audit; its mean
per person of the population is at the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from proxyguard.audit.home import DataFolders
from proxyguard.audit.reserve import Division, divide
from proxyguard.registry.declaration import Member, read_declaration

pytestmark = pytest.mark.guarantee

LEVEL = 0.05
# Two strata of 25,000 households, of which 100 each were sampled; the pilot takes 20 and 70.
TEXT = """
format = 1
name = "survey"
purpose = "Is a target that is set aside by households at the limit?"

[target]
table = "survey.csv"
reserve = { seed = SEED }
[target.design]
by = "region"
sizes = { north = 80, south = 30 }
sampled = { north = 100, south = 100 }
[target.design.clusters]
by = "household"
weighting = "weight"
weight = "weight"
max_weight = "1250"
origin = "design"

[[requirement]]
name = "share"
form = "query"
query = { share = { ill = "1" } }
limit = "0.05"

[[release]]
name = "other"
file = "other.csv"

[claim]
level = "releases"
"""


def survey(rng: np.random.Generator) -> pd.DataFrame:
    """Return 200 households of 1 to 5 persons who are ill together, sorted by whether they are.

    Of the households .1 are ill in the north and .3 in the south, whatever their size: of all
    persons .2.
    """
    size = rng.integers(1, 6, 200)
    north = np.arange(200) < 100
    ill = rng.random(200) < np.where(north, 0.1, 0.3)
    frame = pd.DataFrame({
        "household": [f"h{k:03}" for k in range(200)], "region": np.where(north, "north", "south"),
        "ill": ill.astype(int), "weight": 250.0,
    })  # fmt: skip
    return frame.loc[frame.index.repeat(size)].sort_values(["ill", "household"])


def audited(folder: Path, rng: np.random.Generator, trial: int) -> tuple[Member, Division]:
    """Return a survey as an audit divides it."""
    frame = survey(rng)
    # Named anew in the order of the file, as agencies do: a name says whether a household is ill.
    names = {household: f"h{k:03}" for k, household in enumerate(frame["household"].unique())}
    frame["household"] = frame["household"].map(names)
    frame.to_csv(folder / "survey.csv", index=False)
    (member,) = read_declaration(TEXT.replace("SEED", str(trial))).members
    return member, divide(member, DataFolders((folder,)))


def verdicts(target: pd.DataFrame, design: object) -> tuple[bool, bool]:
    """Return whether the share of .2 is found below .2, and above it."""
    ill = target["ill"].astype(float).to_numpy()
    records = pg.Records(
        strata=target["region"].to_numpy(), clusters=target["household"].to_numpy(),
        weights=target["weight"].astype(float).to_numpy(),
    )  # fmt: skip
    requirement = pg.Requirement(name="ill", low=0, high=1, limit=0.2)
    found = pg.certify(
        pg.LossArray(ill[None, :, None], records), [requirement], design=design,
        reliability_target=0.5, seed=1, test="betting_fixed",
    ).evidence  # fmt: skip
    return bool(found.pvalues[0, 0] <= LEVEL), bool(found.violation_pvalues[0, 0] <= LEVEL)


def first_of_the_file(frame: pd.DataFrame) -> pd.DataFrame:
    """Return as many whole households of each region, the first ones of the table."""
    kept = [
        part[part["household"].isin(part["household"].unique()[:size])]
        for (_, part), size in zip(frame.groupby("region"), (80, 30), strict=True)
    ]
    return pd.concat(kept)


def test_a_target_set_aside_by_households_at_the_limit(
    tmp_path: Path, repeat: Callable[[int], int], within_budget: Callable[..., bool],
    beyond_doubt: Callable[..., bool],
) -> None:  # fmt: skip
    rng, trials = np.random.default_rng(401), repeat(400)
    wrong, sorted_wrong = np.zeros(2, dtype=int), 0
    for trial in range(trials):
        member, division = audited(tmp_path, rng, trial)
        design = member.target.sampling_design
        wrong += verdicts(division.target, design)
        assert division.surveyed == {"north": 100, "south": 100}
        whole = pd.read_csv(tmp_path / "survey.csv")
        sorted_wrong += verdicts(first_of_the_file(whole), design)[0]
    for errors in wrong:
        assert within_budget(int(errors), trials, LEVEL)
    # The twin deals out the first households and none at random.
    assert beyond_doubt(sorted_wrong, trials, LEVEL)
