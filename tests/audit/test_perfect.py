"""What a release would get that answers exactly as the target does (`audit/plan.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from proxyguard import Audit
from proxyguard.audit.plan import Perfect, perfect_release
from proxyguard.exact.betting import STAKES
from proxyguard.registry.declaration import read_declaration

TEXT = """
format = 1
name = "survey"
purpose = "What could these releases get?"

[target]
file = "target.csv"
exclude = ["region", "household", "weight"]
DESIGN

[development]
table = "pilot.csv"

[[requirement]]
name = "ill"
form = "query"
query = QUERY
limit = "0.1"

[claim]
level = "releases"
"""
PERSONS = """
[target.design]
by = "region"
sizes = { north = 30, south = 20 }
sampled = { north = 40, south = 60 }
[target.design.clusters]
by = "household"
weighting = "weight"
weight = "weight"
max_weight = "40"
origin = "design"
"""
SHARE = '{ share = { ill = "yes" } }'


def releases(count: int) -> str:
    return "".join(f'[[release]]\nname = "r{k}"\nfile = "r{k}.csv"\n\n' for k in range(count))


def declared(design: str = "", query: str = SHARE, count: int = 3) -> Any:
    text = TEXT.replace("DESIGN", design).replace("QUERY", query)
    return read_declaration(text + releases(count))


def people(north: int, south: int, seed: int, name: str = "h") -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    household = np.repeat(np.arange(north + south), rng.integers(1, 5, north + south))
    return pd.DataFrame({
        "household": [f"{name}{k}" for k in household],
        "region": np.where(household < north, "north", "south"),
        "weight": rng.choice([2.0, 5.0], household.size), "age": rng.uniform(0, 90, household.size),
        "ill": np.where(rng.random(household.size) < 0.2, "yes", "no"),
    })  # fmt: skip


def foretold(rows: pd.DataFrame, units: int, **how: Any) -> Perfect:
    declaration = declared(**how)
    kinds = dict.fromkeys(rows, "text") | {"weight": "number", "age": "number"}
    found = perfect_release(declaration, declaration.members[0], kinds, rows, units)
    assert found is not None
    return found


def test_strata_of_clusters_with_weights_by_hand() -> None:
    rows = people(30, 20, 1)  # as many as the target has: each is taken once
    perfect = foretold(rows, 50, design=PERSONS)
    weight, ill = rows["weight"].to_numpy(), (rows["ill"] == "yes").to_numpy(dtype=float)
    clusters = np.unique(rows["household"], return_inverse=True)[1]
    north = np.zeros(50, dtype=bool)
    north[clusters] = rows["region"] == "north"
    omega = np.where(north, 0.4 / 30, 0.6 / 20)
    c = (omega[clusters] * weight * ill).sum() / (omega[clusters] * weight).sum()
    total = np.bincount(clusters, weight)
    means = np.bincount(clusters, weight * ill) / total
    worst = 0.0
    for u, v in ((means, c + 0.1), (1.0 - means, 1.0 - c + 0.1)):
        gain = omega / omega.max() * (total / 40) * (v - u) / (1.0 - v)
        capitals = [np.prod(1.0 + f * gain) for f in STAKES]
        worst = max(worst, 1.0 / float(np.mean(capitals)))
    assert perfect.pvalue == pytest.approx(worst, rel=1e-6)
    assert perfect.share == pytest.approx((omega * total).sum() / 40)
    assert perfect.heaviest == total.max()
    assert (perfect.units, perfect.releases) == (50, 3)
    assert perfect.first == pytest.approx(0.05 / 3)


def test_a_pilot_is_repeated_until_it_is_as_large_as_the_target() -> None:
    rows = people(6, 4, 2)
    small, large = (foretold(rows, 50, design=PERSONS), foretold(people(30, 20, 3), 50,
                                                               design=PERSONS))  # fmt: skip
    assert small.units == large.units == 50
    assert small.pvalue == pytest.approx(large.pvalue, rel=3)  # of the same law, from a fifth


def test_records_that_are_counted_by_hand() -> None:
    rows = people(60, 60, 4).head(200)
    perfect = foretold(rows, 200)
    ones = int((rows["ill"] == "yes").sum())
    sides = [stats.binom.cdf(k, 200, k / 200 + 0.1) for k in (ones, 200 - ones)]
    assert perfect.pvalue == pytest.approx(max(sides), rel=1e-9)
    assert perfect.share is None
    assert "records" not in perfect.words()[0].split("a release with")[0]


@pytest.mark.parametrize(
    "query",
    [
        '{ mean = "weight", range = ["0", "5"] }',
        '{ ratio = ["age", "weight"], ranges = { age = ["0", "90"], weight = ["0", "5"] } }',
        '{ correlation = ["age", "weight"], range = ["-4", "4"] }',
    ],
)
def test_every_query_of_numbers_has_a_perfect_answer(query: str) -> None:
    few, many = (foretold(people(300, 300, 5), n, query=query).pvalue for n in (50, 40_000))
    assert many <= few <= 1.0
    assert many < 0.5


def test_where_development_cannot_tell_nothing_is_said() -> None:
    declaration = declared(PERSONS)
    kinds = dict.fromkeys(people(1, 1, 1), "text") | {"weight": "number", "age": "number"}
    for rows in (people(5, 0, 6), people(5, 5, 6).assign(weight=100.0)):
        assert perfect_release(declaration, declaration.members[0], kinds, rows, 50) is None


def audit_of(tmp_path: Path, limit: str, count: int, size: int) -> Audit:
    (tmp_path / "data").mkdir()
    for name, seed, rows in (("target", 7, size), ("pilot", 8, 20)):
        people(rows, rows, seed, name).to_csv(tmp_path / "data" / f"{name}.csv", index=False)
    for k in range(count):
        people(30, 30, 9 + k).to_csv(tmp_path / "data" / f"r{k}.csv", index=False)
    design = PERSONS.replace("30", str(size)).replace("20", str(size)).replace("40 }", "90 }")
    design = design.replace("north = 40, south = 60", f"north = {size + 20}, south = {size + 20}")
    text = TEXT.replace("DESIGN", design).replace("QUERY", SHARE) + releases(count)
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "data"], workers=1)
    audit.init(text.replace('limit = "0.1"', f'limit = "{limit}"'))
    return audit


def test_check_tells_what_holm_asks_and_what_would_help(tmp_path: Path) -> None:
    checked = audit_of(tmp_path, "0.05", 3, 60).check()
    assert checked.good
    (warning,) = (w for w in checked.warnings if "exactly the target's answers" in w)
    for words in (
        "the target's 120 clusters count as about ", "% of the registered largest on average",
        "Holm asks 0.017 of the first of 3 releases", "it would stay unresolved; what helps is",
        "a smaller max_weight (development's heaviest cluster weighs ", "a larger limit",
    ):  # fmt: skip
        assert words in warning


def test_check_says_what_no_outcome_can_mend(tmp_path: Path) -> None:
    checked = audit_of(tmp_path, "0.3", 40, 2).check()
    (line,) = checked.hopeless
    assert "Holm asks 0.0013 of the first of 40 releases, and 4 units of the target reach" in line


def test_a_release_that_could_be_validated_is_told_as_a_fact(tmp_path: Path) -> None:
    checked = audit_of(tmp_path, "0.9", 1, 60).check()
    assert any("exactly the target's answers" in fact for fact in checked.facts)


def test_what_named_releases_lacked_is_told_by_the_rule_that_foretold_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name, seed, rows in (("target", 7, 60), ("pilot", 8, 60)):
        people(rows, rows, seed, name).to_csv(tmp_path / "data" / f"{name}.csv", index=False)
    for k in range(3):
        rows = people(400, 400, 9 + k)
        if k == 2:
            rows["ill"] = "no"
        rows.to_csv(tmp_path / "data" / f"r{k}.csv", index=False)
    text = TEXT.replace("DESIGN", "").replace("QUERY", SHARE) + releases(3)
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "data"], workers=1)
    audit.init(text.replace('limit = "0.1"', 'limit = "0.06"'))
    asked = "Holm asks 0.017 of the first of 3 releases"
    checked = audit.check()
    assert any(asked in line for line in checked.facts + checked.warnings), checked
    audit.run()
    verdicts = {verdict.mechanism: verdict for verdict in audit.status().verdicts}
    unresolved = [v for v in verdicts.values() if v.decision.value == "unresolved"]
    assert len(unresolved) == 2
    recorded = json.loads(audit.folder.read("advice.json"))["sizes"]
    assert set(recorded) == {verdict.mechanism for verdict in unresolved}
    assert any(recorded.values())
    page = audit.folder.read("report.md").decode()
    for verdict in unresolved:
        assert asked in verdict.advice
        assert "below its limit of 0.06" in verdict.advice
        sizes = recorded[verdict.mechanism]
        would = "no target of up to 5,000" if sizes is None else f"about {sizes['n']:,} records"
        assert would in verdict.advice
        assert verdict.advice.partition(". ")[0] in page.replace("\\", "")
    assert not [v for v in verdicts.values() if v.advice and v not in unresolved]
    assert audit.verify().good
