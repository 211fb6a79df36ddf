"""What named releases would get, foretold from the development part (`audit/forecast.py`)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import proxyguard as pg
from proxyguard import Audit
from proxyguard.audit.development import Workplace
from proxyguard.audit.forecast import (
    USUAL,
    Distance,
    Forecast,
    Outlook,
    Population,
    Supposed,
    forecast_unsealed,
    out_of_reach,
    unsealed_reference,
)
from proxyguard.audit.reserve import Division
from proxyguard.audit.seal import PreparedMember, UnsealedDevelopment
from proxyguard.cli.main import app
from proxyguard.registry.declaration import read_declaration

TEXT = """
format = 1
name = "survey"
purpose = "What could these releases get?"

[target]
file = "target.csv"
exclude = ["region", "household", "weight"]
OUTCOME
DESIGN

[development]
table = "pilot.csv"
VALIDATION

REQUIRED

[claim]
level = "releases"
CLAIM

"""
QUERIED = """
[[requirement]]
name = "ill"
form = "query"
query = QUERY
limit = "LIMIT"
"""
LOSSES = """
[procedure]
library = ["logistic"]

[[requirement]]
name = "Brier"
loss = "brier"
form = "FORM"
limit = "LIMIT"
"""
OUTCOME = 'outcome = "ill"\npositive = "yes"'
IN_STRATA = """
[target.design]
by = "region"
sizes = { north = 30, south = 20 }
weights = { north = "0.4", south = "0.6" }
"""
CLUSTERS = """
[target.design]
by = "household"
"""
WEIGHTED = """
[target.design]
weight = "weight"
max_weight = "10"
origin = "design"
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
MEAN = '{ mean = "age", range = ["0", "90"] }'
RATIO = '{ ratio = ["age", "told"], ranges = { age = ["0", "90"], told = ["0", "1"] } }'


def text_of(
    *, design: str = "", query: str = SHARE, limit: str = "0.1", count: int = 3, form: str = "",
    validation: str = "", claim: str = "", outcome: str = "",
) -> str:  # fmt: skip
    required = LOSSES.replace("FORM", form) if form else QUERIED.replace("QUERY", query)
    changes = {
        "OUTCOME": outcome or (OUTCOME if form else ""), "DESIGN": design, "VALIDATION": validation,
        "REQUIRED": required.replace("LIMIT", limit), "CLAIM": claim,
    }  # fmt: skip
    text = TEXT
    for word, written in changes.items():
        text = text.replace(word, written)
    named = (f'[[release]]\nname = "r{k}"\nfile = "r{k}.csv"\n\n' for k in range(count))
    return text + "".join(named)


def people(north: int, south: int, seed: int, name: str = "h") -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    household = np.repeat(np.arange(north + south), rng.integers(1, 5, north + south))
    age = rng.uniform(0, 90, household.size)
    return pd.DataFrame({
        "household": [f"{name}{k}" for k in household],
        "region": np.where(household < north, "north", "south"),
        "weight": rng.choice([2.0, 5.0], household.size), "age": age,
        "told": rng.choice([0.0, 1.0], household.size, p=[0.2, 0.8]),
        "ill": np.where(rng.random(household.size) < 0.1 + 0.008 * age, "yes", "no"),
    })  # fmt: skip


KINDS = {"household": "text", "region": "text", "weight": "number", "age": "number",
         "told": "number", "ill": "text"}  # fmt: skip


def foretold(
    rows: pd.DataFrame, units: int, *, judging: pd.DataFrame | None = None,
    gaps: float = 0.0, **how: Any,
) -> Forecast:  # fmt: skip
    declaration = read_declaration(text_of(**how))
    (member,) = declaration.members
    parts: dict[Any, pd.DataFrame] = {"training": rows}
    if judging is not None:
        parts["validation"] = judging
    division = Division(rows, np.arange(len(rows)), rows, gaps=gaps)
    ready = PreparedMember(member=member, division=division, kinds=KINDS, parts=parts)
    place = Workplace.__new__(Workplace)  # nothing is read or written
    fitted = unsealed_reference(UnsealedDevelopment(place, ready))
    return replace(forecast_unsealed(declaration, place, ready, fitted), units=units)


def looked(
    forecast: Forecast, distance: Distance = Distance.NONE, wanted: float | None = None
) -> Outlook:
    outlook = forecast.outlook(forecast.required, distance, wanted)
    assert outlook is not None
    return outlook


def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every target be the development part itself."""

    def drawn(self: Population, units: int, count: int, rng: object, inside: object) -> Any:
        return np.tile(np.concatenate(self.strata), (count, 1))

    monkeypatch.setattr(Population, "drawn", drawn)


def audited(
    rows: pd.DataFrame, design: pg.Design, losses: Any, *, low: float, high: float, limit: float
) -> float:
    """The p-value that an audit of these losses has, by the public function."""
    given = pg.Records(
        strata=rows["region"] if isinstance(design, pg.Stratified) else None,
        clusters=rows["household"] if "Cluster" in type(design).__name__ else None,
        weights=rows["weight"] if "Weighted" in str(design) else None, random_order=True,
    )  # fmt: skip
    found = pg.certify_releases(
        pg.LossArray(np.asarray(losses, dtype=float)[None, :, None], given),
        [pg.Requirement(name="x", low=low, high=high, limit=limit)],
        design=design, alpha=0.05 / 3, seed=1,
    )  # fmt: skip
    return found.verdicts[0].pvalue


DESIGNS = {
    "strata": (IN_STRATA, pg.Stratified(sizes={"north": 30, "south": 20},
                                        weights={"north": "0.4", "south": "0.6"})),
    "persons": (PERSONS, pg.StratifiedClusters(
        sizes={"north": 30, "south": 20}, sampled={"north": 40, "south": 60},
        clusters=pg.WeightedClusters(max_weight=40, origin="design"))),
}  # fmt: skip


def of_design(name: str) -> tuple[pd.DataFrame, str, pg.Design, Any]:
    """Rows as many as the target has, and what each counts in the mean, by hand."""
    rows = people(30, 20, 1)
    text, design = DESIGNS[name]
    if name == "strata":
        rows = rows.drop_duplicates("household").reset_index(drop=True)
    north = (rows["region"] == "north").to_numpy()
    each = np.where(north, 0.4 / 30, 0.6 / 20)
    return rows, text, design, each * (rows["weight"] if name == "persons" else 1.0)


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize(("query", "limit"), [(SHARE, 0.1), (MEAN, 9.0)], ids=["share", "mean"])
@pytest.mark.parametrize("distance", Distance)
def test_the_p_value_of_a_query_is_the_audits_own(
    name: str, query: str, limit: float, distance: Distance, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(monkeypatch)
    rows, text, design, each = of_design(name)
    pvalue = looked(foretold(rows, 50, design=text, query=query, limit=str(limit)), distance).pvalue
    values = (rows["ill"] == "yes").to_numpy(float) if query == SHARE else rows["age"].to_numpy()
    high = 1.0 if query == SHARE else 90.0
    mean = float(each @ values / each.sum())
    sides = []
    for shift in (distance.value * limit, -distance.value * limit):
        answer = mean + shift
        sides.append(max(
            audited(rows, design, values, low=0.0, high=high, limit=answer + limit),
            audited(rows, design, high - values, low=0.0, high=high, limit=high - answer + limit),
        ))  # fmt: skip
    assert pvalue == pytest.approx(max(sides), rel=1e-6)


def test_records_that_are_counted_have_the_exact_p_value(monkeypatch: pytest.MonkeyPatch) -> None:
    once(monkeypatch)
    rows = people(60, 60, 4).head(200)
    forecast = foretold(rows, 200)
    ones = (rows["ill"] == "yes").to_numpy(float)
    sides = [
        audited(rows, pg.Iid(), ones, low=0, high=1, limit=ones.mean() + 0.1),
        audited(rows, pg.Iid(), 1 - ones, low=0, high=1, limit=1.1 - ones.mean()),
    ]
    # These losses were not declared two-valued, so that bets were made: the exact test has less.
    assert looked(forecast).pvalue < min(sides)
    assert forecast.counting_words == ""


@pytest.mark.parametrize("query", [RATIO, '{ correlation = ["age", "told"], range = ["-4", "4"] }'])
@pytest.mark.parametrize("design", ["", CLUSTERS, WEIGHTED])
def test_every_query_is_easier_on_more_units_and_nearer_to_the_answer(
    query: str, design: str
) -> None:
    rows = people(300, 300, 5)
    few, many = (foretold(rows, n, query=query, design=design, limit="0.2") for n in (50, 4000))
    assert looked(many).pvalue < looked(few).pvalue <= 1.0
    assert looked(many).pvalue < looked(many, Distance.HALF).pvalue


def test_strata_are_drawn_in_their_proportions_whatever_the_size() -> None:
    rows = people(60, 70, 6)
    population = foretold(rows, 50, design=PERSONS).population
    places = population.drawn(100, 7, np.random.default_rng(1), None)
    assert places.shape == (7, 100)
    assert set(places[:, :60].ravel()) <= set(range(60))
    assert set(places[:, 60:].ravel()) <= set(range(60, 130))
    weights = population.sized(100).weights  # type: ignore[union-attr]  # a design of strata
    assert [float(w) for w in weights.values()] == [0.4, 0.6]


def test_weights_make_units_count_as_few() -> None:
    forecast = foretold(people(30, 20, 1), 50, design=PERSONS)
    rows = people(30, 20, 1)
    totals = rows.groupby("household", sort=False)["weight"].sum().to_numpy()
    share = (0.4 * totals[:30].mean() + 0.6 * totals[30:].mean()) / 40
    assert forecast.population.share == pytest.approx(share)
    counting = round(share / (0.4**2 / 30 + 0.6**2 / 20))
    assert f"the target's 50 clusters count as about {counting}, " in forecast.basis
    assert forecast.heaviest == totals.max()


@pytest.mark.parametrize("form", ["relative", "absolute"])
def test_a_model_is_as_good_as_the_reference_or_halfway_to_the_limit(form: str) -> None:
    rows, judging = people(150, 150, 7), people(80, 80, 8)
    forecast = foretold(
        rows, 3000, judging=judging, form=form, limit="0.04" if form == "relative" else "0.27",
        validation='validation = { fraction = "0.25", seed = 1 }',
    )  # fmt: skip
    (required,) = forecast.required
    (measure,) = forecast._measures(required, None)
    cases: dict[Distance, Supposed] = {}
    for distance in Distance:
        (cases[distance],) = forecast._cases(required, distance, [measure])
    exact, half = (float(cases[d].losses[0].mean()) for d in Distance)
    if form == "relative":
        assert exact == 0.0
        assert half == pytest.approx(0.02, abs=1e-4)
        assert cases[Distance.HALF].losses[0].std() > 0.02  # not alike on every record
        assert looked(forecast, Distance.HALF).pvalue > looked(forecast).pvalue
    else:
        assert cases[Distance.NONE].population is not forecast.population  # it learned from that
        assert 0.1 < exact < 0.27
        assert half == pytest.approx((exact + 0.27) / 2.0, abs=1e-4)


def test_outcomes_that_are_missing_take_their_part_of_a_limit() -> None:
    rows = people(150, 150, 7)
    worst = OUTCOME + '\nmissing_outcomes = "worst"'
    how = {"form": "relative", "limit": "0.05", "outcome": worst}
    full, lacking = (foretold(rows, 900, gaps=gaps, **how) for gaps in (0.0, 0.03))
    assert looked(full).pvalue < looked(lacking).pvalue
    (required,) = lacking.required
    (case,) = lacking._cases(required, Distance.NONE, lacking._measures(required, None))
    assert case.losses[0].mean() == pytest.approx(0.03, abs=0.002)


def test_what_would_do_is_what_the_forecast_finds_to_do() -> None:
    rows = people(300, 300, 9)
    outlook = looked(foretold(rows, 100, design=CLUSTERS, count=12), wanted=USUAL)
    assert outlook.chance < USUAL
    assert outlook.limit is not None
    assert outlook.units is not None
    by_limit = looked(foretold(rows, 100, design=CLUSTERS, count=12, limit=outlook.limit))
    by_size = looked(foretold(rows, outlook.units, design=CLUSTERS, count=12))
    assert by_limit.chance >= USUAL
    assert by_size.chance >= USUAL - 0.06  # of 400 targets that were drawn anew
    below = f"{0.85 * float(outlook.limit):.3g}"
    assert looked(foretold(rows, 100, design=CLUSTERS, count=12, limit=below)).chance < USUAL


def test_the_chance_is_that_of_audits_on_targets_of_the_same_population() -> None:
    # The population itself is what is drawn from; a test of each audit decides.
    rows = people(200, 200, 10)
    forecast = foretold(rows, 60, design=CLUSTERS, limit="0.19")
    means = rows.assign(ill=rows["ill"] == "yes").groupby("household")["ill"].mean().to_numpy()
    rng, validated = np.random.default_rng(1), 0
    for _ in range(200):
        values = rng.choice(means, 60)
        sides = [
            pg.certify_releases(
                pg.LossArray(x[None, :, None], pg.Records(random_order=True)),
                [pg.Requirement(name="x", low=0, high=1, limit=limit)], alpha=0.05 / 3, seed=1,
            ).verdicts[0].pvalue
            for x, limit in ((values, means.mean() + 0.19), (1 - values, 1.19 - means.mean()))
        ]  # fmt: skip
        validated += max(sides) <= 0.05 / 3
    # Two samples of 200 and 400: five standard errors of their difference.
    chance = looked(forecast).chance
    assert 0.1 < chance < 0.95
    assert abs(validated / 200 - chance) < 5 * (0.25 / 200 + 0.25 / 400) ** 0.5


def test_of_many_shares_the_ones_that_vary_most_are_judged() -> None:
    rows = people(100, 100, 3)
    rows["household"] = [f"h{k % 40}" for k in range(len(rows))]
    forecast = foretold(rows, 5000, query='{ marginals = [["household"], ["ill"]] }')
    (required,) = forecast.required
    assert len(required.queries) == 10
    assert {("ill", "yes"), ("ill", "no")} <= {query.cell[0] for query in required.queries}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (people(5, 0, 6), "nothing of stratum 'south'"),
        (people(5, 5, 6).assign(weight=100.0), "weighs more than the registered max_weight 40"),
    ],
    ids=["a stratum", "a weight"],
)
def test_development_that_cannot_tell_says_why(rows: pd.DataFrame, words: str) -> None:
    with pytest.raises(pg.RegistryError, match=words):
        foretold(rows, 50, design=PERSONS)


def audit_of(tmp_path: Path, limit: str, count: int, size: int) -> Audit:
    (tmp_path / "data").mkdir()
    for name, seed, rows in (("target", 7, size), ("pilot", 8, 20)):
        people(rows, rows, seed, name).to_csv(tmp_path / "data" / f"{name}.csv", index=False)
    for k in range(count):
        people(30, 30, 9 + k).to_csv(tmp_path / "data" / f"r{k}.csv", index=False)
    design = PERSONS.replace("30", str(size)).replace("20", str(size)).replace("40 }", "90 }")
    design = design.replace("north = 40, south = 60", f"north = {size + 20}, south = {size + 20}")
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "data"], workers=1)
    audit.init(text_of(design=design, limit=limit, count=count))
    return audit


def proxyguard(verb: str, tmp_path: Path, *more: str) -> Result:
    place = ["--home", str(tmp_path / "home"), "--data", str(tmp_path / "data")]
    return CliRunner().invoke(app, [verb, str(tmp_path / "audit"), *place, *more])


def test_a_perfect_release_that_stays_unresolved_stops_check_and_run(tmp_path: Path) -> None:
    audit = audit_of(tmp_path, "0.1", 12, 60)
    checked = audit.check()
    assert checked.possible
    assert not checked.good
    (line,) = checked.unlikely
    for words in (
        "'ill': a release with exactly the target's answers would be validated on none of 400 ",
        "for 80% it takes a limit of 0.", ", which claims less, or about ", " clusters",
    ):  # fmt: skip
        assert words in line
    (fact,) = (fact for fact in checked.facts if "count as about" in fact)
    assert "Holm asks 0.0042 of the first of 12 releases" in fact
    assert any("a smaller max_weight" in warning for warning in checked.warnings)
    done = proxyguard("check", tmp_path)
    assert done.exit_code == 3
    assert f"unlikely: {line}" in done.stdout
    done = proxyguard("run", tmp_path)
    assert done.exit_code == 3
    assert "run --even-so goes on.\nNothing was sealed.\n" in done.stdout
    # Of what is sealed the same is told, from what the folder holds.
    audit.seal()
    assert audit.check().unlikely == [line]


def test_a_forecast_is_no_proof_and_may_be_passed_by(tmp_path: Path) -> None:
    audit = audit_of(tmp_path, "0.05", 1, 60)
    assert audit.check().unlikely
    done = proxyguard("run", tmp_path, "--even-so")
    assert done.exit_code == 3
    assert "UNRESOLVED" in done.stdout
    assert (tmp_path / "audit" / "certificate.json").exists()
    assert not audit.check().unlikely  # it is opened: nothing is left to foretell


def test_check_says_what_no_outcome_can_mend(tmp_path: Path) -> None:
    audit_of(tmp_path, "0.3", 40, 2)
    done = proxyguard("run", tmp_path, "--even-so")
    assert done.exit_code == 3
    assert (
        "Holm asks 0.0013 of the first of 40 releases, and 4 clusters of the target reach"
        in (done.stdout.split("cannot succeed: ")[1])
    )
    assert "Nothing was sealed" in done.stdout


def test_losses_at_their_lower_bound_are_too_few_of_losses_too() -> None:
    declaration = read_declaration(text_of(form="absolute", limit="0.3", count=40))
    brier = pg.Requirement(name="Brier", low=0, high=1, limit=0.3)
    (line,) = out_of_reach(declaration, pg.Iid(), [brier], 12, 40)
    assert line.startswith("'Brier': Holm asks 0.0013 of the first of 40 releases, and 12 records")
    assert not out_of_reach(declaration, pg.Iid(), [brier], 60, 40)
    # The design of a target of clusters counts those, and weights make fewer of them.
    design = DESIGNS["persons"][1]
    assert out_of_reach(declaration, design, [brier], 8, 40)


def test_a_release_that_would_be_validated_is_told_as_a_fact(tmp_path: Path) -> None:
    checked = audit_of(tmp_path, "0.9", 1, 60).check()
    assert checked.good
    (fact,) = (fact for fact in checked.facts if "exactly the target's answers" in fact)
    assert fact.endswith("would be validated with a chance of over 99%")
    assert not any("judged once the target is sealed" in fact for fact in checked.facts)


def test_what_named_releases_lacked_is_told_by_the_rule_that_foretold_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name, seed, rows in (("target", 7, 60), ("pilot", 8, 60)):
        people(rows, rows, seed, name).to_csv(tmp_path / "data" / f"{name}.csv", index=False)
    for k in range(3):
        rows = people(400, 400, 9 + k)
        if k == 2:
            rows["ill"] = "no"
        rows.to_csv(tmp_path / "data" / f"r{k}.csv", index=False)
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "data"], workers=1)
    audit.init(text_of(limit="0.06"))
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
