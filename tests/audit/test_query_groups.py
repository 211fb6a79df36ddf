"""A query about a subgroup: the release answers over its own records of the group.

Half of the records are of group a. Inside it 50 % are red and outside 90 %, so 70 % in all: a
release whose answer were taken over all of its records would look wrong where it is right, and
one with 10 % inside and 90 % outside would look right.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from proxyguard.audit.audit import Audit
from proxyguard.errors import RegistryError, TableError
from proxyguard.losses.cell import share_column
from proxyguard.losses.measure import group_name

GENERATORS = '''
"""Generators that treat one group otherwise."""
import numpy as np


def _rows(source, rng):
    return source.iloc[rng.integers(0, len(source), len(source))].reset_index(drop=True)


def _paint(table, where, red):
    table.loc[where, "colour"] = np.where(red, "red", "green")
    table.loc[where, "weight"] = np.where(red, 100.0, 0.0)


def off_inside(source, rng):
    """Right outside the group, 40 points off inside it: all of the table is as red as the group."""
    table = _rows(source, rng)
    where = (table["site"] == "a").to_numpy()
    _paint(table, where, rng.random(where.sum()) < 0.1)
    return table


def without(source, rng):
    """No record of the group at all."""
    table = _rows(source, rng)
    return table[table["site"] != "a"].reset_index(drop=True)


def spelt(source, rng):
    """The rows of the source, the group written as another program would."""
    table = _rows(source, rng)
    table["site"] = [f" {float(value):.2f}" for value in table["site"]]
    return table


def with_gaps(source, rng):
    """The rows of the source, one weight of the group missing."""
    table = _rows(source, rng)
    table.loc[table.index[table["site"] == "a"][0], "weight"] = float("nan")
    return table


def gaps_elsewhere(source, rng):
    """The rows of the source, one weight outside the group missing."""
    table = _rows(source, rng)
    table.loc[table.index[table["site"] != "a"][0], "weight"] = float("nan")
    return table
'''

HEAD = """
format = 1
name = "groups"
purpose = "Is a subgroup compared with itself?"

[target]
table = "table.csv"
reserve = { rows = 800, seed = 11 }
prior_use = "none"
"""
MECHANISM = """
[[mechanism]]
name = "m"
generator = "callable"
options = { function = "generators_of_groups:%s" }
draws = 12
seeds = { first = 100 }

[claim]
reliability_target = "0.5"
"""
BOOTSTRAP = MECHANISM.replace(
    'generator = "callable"\noptions = { function = "generators_of_groups:%s" }',
    'generator = "bootstrap"',
)
KINDS = {
    "share": ('query = { share = { colour = "red" } }', "0.15"),
    "mean": ('query = { mean = "weight", range = ["0", "100"] }', "15"),
    "ratio": (
        'query = { ratio = ["weight", "days"], '
        'ranges = { weight = ["0", "100"], days = ["0", "5"] } }',
        "10",
    ),
    "correlation": (
        'query = { correlation = ["weight", "dose"], range = ["-4", "4"] }',
        "0.5",
    ),
    "marginals": ('query = { marginals = [["colour"]] }', "0.15"),
    "bins": ('query = { marginals = [["weight"]], bins = { weight = ["50"] } }', "0.15"),
    "coded": (
        'query = { marginals = [["colour"]], groups = { colour = { warm = ["red"] } } }',
        "0.15",
    ),
}
COUNTED = {"share", "marginals", "bins", "coded"}


def declaration(
    kind: str, generator: str, test: str | None, *, group: str = '{ site = "a" }'
) -> str:
    query, limit = KINDS[kind]
    requirement = (
        f'\n[[requirement]]\nname = "red"\nform = "query"\nlimit = "{limit}"\n{query}\n'
        f"group = {group}\n"
    )
    mechanism = MECHANISM % generator
    if generator == "bootstrap":
        mechanism = BOOTSTRAP
    return HEAD + requirement + mechanism + ("" if test is None else f'test = "{test}"\n')


@pytest.fixture
def make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws_here: None
) -> Callable[[str], Audit]:
    (tmp_path / "generators_of_groups.py").write_text(GENERATORS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("generators_of_groups", None)
    rng = np.random.default_rng(8)
    site = rng.choice(["a", "b"], size=2400)
    red = rng.random(2400) < np.where(site == "a", 0.5, 0.9)
    frame = pd.DataFrame(
        {
            "site": site,
            "colour": np.where(red, "red", "green"),
            "weight": np.where(red, 100.0, 0.0),
            "days": rng.integers(0, 4, size=2400),
            "dose": np.where(red, 5.0, 1.0) + rng.normal(size=2400),
        }
    )
    (tmp_path / "data").mkdir()
    frame.to_csv(tmp_path / "data" / "table.csv", index=False)

    def made(text: str) -> Audit:
        audit = Audit(
            tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "data"], workers=1
        )
        audit.init(text)
        return audit

    return made


def verdict(audit: Audit) -> str:
    assert audit.check().problems == []
    predicate = audit.run().to_dict()
    assert predicate is not None
    for with_target in (False, True):
        found = audit.verify(with_target=with_target)
        assert found.good, found.findings
    return str(predicate["verdicts"][0]["decision"])


def by_record(audit: Audit) -> bool:
    columns = json.loads(audit.folder.read("evidence.json"))["groups"]["m"]["columns"]
    return not any("answer" in column for column in columns)


EVERY_WAY = [
    (kind, test) for kind in KINDS for test in ((None, "betting") if kind in COUNTED else (None,))
]


@pytest.mark.reduced(cases=3)
@pytest.mark.parametrize(("kind", "test"), EVERY_WAY)
def test_a_faithful_bootstrap_is_validated_on_its_own_group(
    make: Callable[[str], Audit], kind: str, test: str | None
) -> None:
    audit = make(declaration(kind, "bootstrap", test))
    assert verdict(audit) == "validated"
    assert by_record(audit) == (kind not in COUNTED or test == "betting")


@pytest.mark.reduced(cases=3)
@pytest.mark.parametrize(("kind", "test"), EVERY_WAY)
def test_a_generator_that_is_off_inside_the_group_is_not_validated(
    make: Callable[[str], Audit], kind: str, test: str | None
) -> None:
    audit = make(declaration(kind, "off_inside", test))
    assert verdict(audit) == "violation"
    assert by_record(audit) == (kind not in COUNTED or test == "betting")


@pytest.mark.reduced(cases=3)
@pytest.mark.parametrize(("kind", "test"), EVERY_WAY)
def test_a_release_without_the_group_fails_the_requirement_and_stops_nothing(
    make: Callable[[str], Audit], kind: str, test: str | None
) -> None:
    audit = make(declaration(kind, "without", test))
    assert verdict(audit) == "violation"
    derived = json.loads(audit.folder.read("evidence.json"))["groups"]["m"]["derived"]
    assert {p for row in derived["pvalues"] for p in row} == {1.0}
    # Every loss is at its upper bound: the width of the query's range.
    worst = {"mean": 100.0, "correlation": 8.0}.get(kind, 1.0)
    assert {e for row in derived["estimates"] for e in row} == {worst}


@pytest.mark.parametrize(("kind", "test"), [
    ("share", None), ("share", "betting"), ("mean", None), ("ratio", None), ("correlation", None),
])  # fmt: skip
def test_better_statistics_for_a_release_without_an_answer_are_found(
    make: Callable[[str], Audit], forge: Any, kind: str, test: str | None
) -> None:
    audit = make(declaration(kind, "without", test))
    audit.run()

    def lie(value: dict[str, Any]) -> None:
        # The first release is said to agree with the target; all that follows from it follows.
        for column in value["groups"]["m"]["columns"]:
            column["mean"][0] = 0.5
            if "answer" in column:
                column["count"][0] = half = column["n"] // 2
                column["answer"][0] = half / column["n"]
                again = share_column(column["n"], np.array([half]), np.array([half / column["n"]]))
                assert again.variance is not None
                column["variance"][0] = float(again.variance[0])
            for capital in (column[name] for name in ("log_peak", "log_final") if name in column):
                capital[0][0], capital[1][0] = 20.0, 0.0
        forge.derive(audit, value, "m")

    forge.certificate(audit, evidence=lie)
    words = "is on record" if test is None and kind == "share" else "counts as the worst loss"
    assert words in forge.found_by(audit)


def test_a_failed_draw_that_is_said_to_have_passed_is_found(
    make: Callable[[str], Audit], forge: Any
) -> None:
    audit = make(declaration("share", "bootstrap", None))
    for step in (audit.seal, audit.register, audit.draw):
        step()

    def fail(manifest: dict[str, Any]) -> None:
        draws = manifest["members"]["target"]["m"]["draws"]
        kept = {key: draws[0][key] for key in ("seed", "guard")}
        draws[0] = {**kept, "status": "failed", "error": "no memory"}

    forge.manifest(audit, fail)
    audit.open()
    assert audit.verify().good

    def lie(value: dict[str, Any]) -> None:
        for column in value["groups"]["m"]["columns"]:
            # Its answer is the 0 that it should be, and no record is said to lie in the cell.
            column["count"] = [0] * len(column["count"])
            again = share_column(column["n"], np.array(column["count"]), np.array(column["answer"]))
            column["mean"] = again.mean.tolist()
            assert again.variance is not None
            column["variance"] = again.variance.tolist()
        forge.derive(audit, value, "m")

    forge.certificate(audit, evidence=lie)
    assert "release 100 failed or has nothing to answer with" in forge.found_by(audit)


@pytest.mark.parametrize(("generator", "validated"), [("bootstrap", True), ("off_inside", False)])
def test_draws_after_the_opening_answer_over_their_own_group_too(
    make: Callable[[str], Audit], generator: str, validated: bool
) -> None:
    text = declaration("share", generator, None) + (
        'mode = "sequential"\nthreshold = "0.01"\nlooks = [8, 12]\n'
    )
    assert (verdict(make(text)) == "validated") == validated


def test_a_group_is_the_same_group_however_its_value_is_written(
    make: Callable[..., Audit], tmp_path: Path
) -> None:
    audit = make(declaration("share", "spelt", None, group='{ site = "1.0" }'))
    table = pd.read_csv(tmp_path / "data" / "table.csv")
    table["site"] = table["site"].map({"a": "1", "b": "2"})
    table.to_csv(tmp_path / "data" / "table.csv", index=False)
    assert verdict(audit) == "validated"


@pytest.mark.parametrize(
    ("generator", "expected"), [("with_gaps", "violation"), ("gaps_elsewhere", "validated")]
)
def test_a_release_answers_a_mean_where_no_number_of_its_group_is_missing(
    make: Callable[[str], Audit], generator: str, expected: str
) -> None:
    assert verdict(make(declaration("mean", generator, None))) == expected


def test_a_target_with_a_gap_in_an_averaged_column_is_refused_before_it_is_sealed(
    make: Callable[[str], Audit], tmp_path: Path
) -> None:
    audit = make(declaration("mean", "bootstrap", None))
    table = pd.read_csv(tmp_path / "data" / "table.csv")
    table.loc[table.index % 3 == 0, "weight"] = np.nan  # in development as well
    table.to_csv(tmp_path / "data" / "table.csv", index=False)
    with pytest.raises(TableError, match="'weight' has missing values, and a requirement is about"):
        audit.seal()


def test_check_says_that_no_source_record_is_of_the_group(make: Callable[[str], Audit]) -> None:
    audit = make(declaration("share", "bootstrap", None, group='{ site = "c" }'))
    audit.seal()
    warning = audit.check().warnings[0]
    assert "red: the training part has no record with site = c" in warning


def test_a_group_of_no_value_is_refused(make: Callable[[str], Audit]) -> None:
    with pytest.raises(RegistryError, match="a group is of records with some value"):
        make(declaration("share", "bootstrap", None, group="{}")).check()


def test_a_stand_in_without_the_column_of_a_querys_group_is_refused(
    make: Callable[[str], Audit],
) -> None:
    text = declaration("share", "bootstrap", None)
    release = '\n[[release]]\nname = "narrow"\nfile = "narrow.csv"\nlacks = ["site"]\n'
    text = text.partition("[[mechanism]]")[0] + release + '\n[claim]\nlevel = "releases"\n'
    with pytest.raises(RegistryError, match=r"'narrow' lacks \['site'\], which every table"):
        make(text).check()


def test_two_groups_never_have_one_name() -> None:
    assert group_name({"site": "a", "age": "1"}) == "site = a, age = 1"
    assert group_name({"site": "a, age = 1"}) != group_name({"site": "a", "age": "1"})
    assert group_name({'site" = "a': "1"}) != group_name({"site": 'a" = "1'})


TABLES = """
format = 1
name = "answers"
purpose = "What do these tables answer?"
%s
[target]
file = "target.csv"
coincidence = "none expected"
%s
[development]
table = "open.csv"

[[requirement]]
name = "red"
form = "query"
query = { share = { colour = "red" } }
limit = "0.2"

[[requirement]]
name = "weight"
form = "query"
query = { mean = "weight", range = ["0", "90"] }
limit = "20"
unit = "kg"

[[requirement]]
name = "a day"
form = "query"
query = { ratio = ["weight", "days"], ranges = { weight = ["-10", "90"], days = ["1", "6"] } }
limit = "8"
unit = "kg a day"

[[requirement]]
name = "together"
form = "query"
query = { correlation = ["weight", "days"], range = ["-4", "4"], standard = %s }
limit = "0.5"

[[release]]
name = "near"
file = "near.csv"

[[release]]
name = "gap"
file = "gap.csv"

[claim]
level = "releases"
"""
STANDARD = '{ weight = ["40", "30"], days = ["3", "1"] }'


def shop(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    days = rng.integers(1, 6, size=rows)
    return pd.DataFrame(
        {
            "colour": rng.choice(["red", "green"], size=rows),
            "weight": (10.0 * days + rng.normal(0, 25, size=rows)).round(3),
            "days": days,
            "counts": rng.choice([0.5, 1.0, 2.0], size=rows),
        }
    )


def answered(table: pd.DataFrame, weights: Any) -> dict[str, float]:
    """What a table answers, computed without the package."""
    weights = np.ones(len(table)) if weights is None else np.asarray(weights)

    def mean(numbers: Any) -> float:
        return float(np.average(numbers, weights=weights))

    products = (table["weight"] - 40) / 30 * (table["days"] - 3)
    return {
        "red": mean(table["colour"] == "red"),
        "weight": mean(table["weight"].clip(0, 90)),
        "a day": mean(table["weight"].clip(-10, 90)) / mean(table["days"].clip(1, 6)),
        "together": mean(products.clip(-4, 4)),
    }


@pytest.mark.parametrize("way", ["plain", "weighted", "rounded"])
def test_the_report_has_what_the_tables_answer_and_no_more(
    tmp_path: Path, draws_here: None, way: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    target, near = shop(900, 1), shop(700, 2)
    gap = near.head(300).assign(weight=lambda table: table["weight"].where(table.index != 7))
    tables = {"target": target, "open": shop(400, 3), "near": near, "gap": gap}
    for name, table in tables.items():
        table.to_csv(data / f"{name}.csv", index=False)
    rounding = "disclosure = { digits = 2 }" if way == "rounded" else ""
    design = 'design = { weight = "counts", max_weight = "2", origin = "design" }'
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[data], workers=1)
    audit.init(TABLES % (rounding, design if way == "weighted" else "", STANDARD))
    audit.run()
    assert audit.verify().good
    rows = pd.read_csv(audit.folder.path / "report.csv")
    rows["query"] = rows["requirement"].str.partition(" (target ")[0]
    found = rows.set_index(["release", "query"])[["release_answer", "target_answer"]]
    weights = target["counts"] if way == "weighted" else None
    expected, real = answered(near, None), answered(target, weights)
    width = {"red": 2.0, "weight": 180.0, "a day": np.nan, "together": 16.0}
    for query, answer in expected.items():
        pair = found.loc[("near", query)]
        assert pair["release_answer"].tolist() == pytest.approx([answer, answer], rel=1e-8)
        told = pair["target_answer"].unique().tolist()
        if way != "rounded":
            assert told == pytest.approx([real[query]], rel=1e-8)
        elif query == "a day":
            assert np.isnan(told).all()  # of two rounded means a ratio says next to nothing
        else:  # a step of the loss's range, and no finer than the evidence has it
            assert abs(told[0] - real[query]) <= 0.01 * width[query]
    # A missing number: the release has no mean, and the target's answer is not told by it.
    assert found.loc[("gap", "weight")]["release_answer"].isna().all()
    page = (audit.folder.path / "report.md").read_text()
    (red,) = [line for line in page.splitlines() if line.startswith("| red | near |")]
    if way != "rounded":
        difference = 100 * (real["red"] - expected["red"])
        assert red == (
            f"| red | near | {100 * expected['red']:.1f} % | {100 * real['red']:.1f} % "
            f"| {difference:+.1f} points | 20 points |"
        )
        assert f"| {real['weight']:.1f} kg |" in page
        assert f"| {real['a day']:.2f} kg a day |" in page
    assert "| weight | gap | no answer |" in page
