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
