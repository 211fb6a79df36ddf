"""What two keys of a declaration cannot say together is refused, and every key is passed on."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from proxyguard.audit.rules import measures_of
from proxyguard.documents.registry import ResolvedNumber, ResolvedQuery, ResolvedRequirement
from proxyguard.errors import RegistryError
from proxyguard.exact.multiplicity import Dependence
from proxyguard.modes.claim import Claim
from proxyguard.registry.declaration import Declaration, as_declaration
from proxyguard.registry.design import (
    Clustered,
    Iid,
    Stratified,
    Weighted,
    WithoutReplacement,
)
from proxyguard.registry.parts import ClaimPart
from proxyguard.registry.requirement import required
from proxyguard.registry.test import Bound, ComponentTest, Family, Score

RISK: dict[str, Any] = {"name": "risk", "loss": "brier", "form": "absolute", "limit": "0.2"}
SHARE: dict[str, Any] = {
    "name": "share", "form": "query", "query": {"share": {"a": "b"}}, "limit": "0.1",
}  # fmt: skip
DRAWN: dict[str, Any] = {
    "name": "m", "generator": "bootstrap", "draws": 4, "seeds": {"first": 10},
}  # fmt: skip
RULE = {"source_validation_plus": "0.05"}
VALIDATION = {"validation": {"fraction": "0.2", "seed": 1}}
APART = {"table": None, "reserve": None, "file": "f.csv"}
SEQUENTIAL = {
    "mode": "sequential",
    "looks": [2, 4],
    "threshold": "0.01",
    "reliability_target": "0.5",
}
STREAM = {"mode": "stream", "level": "releases", "batch": 10}


def value(**changes: Any) -> dict[str, Any]:
    """Return a whole declaration as plain values, with some parts replaced or left out."""
    whole: dict[str, Any] = {
        "format": 1,
        "name": "forms",
        "purpose": "Is this refused?",
        "target": target(),
        "procedure": {"library": ["logistic"]},
        "requirement": [RISK],
        "mechanism": [DRAWN],
        "claim": {"reliability_target": "0.8"},
        **changes,
    }
    return {key: part for key, part in whole.items() if part is not None}


def target(**changes: Any) -> dict[str, Any]:
    whole = {
        "table": "t.csv",
        "reserve": {"rows": 10, "seed": 1},
        "outcome": "y",
        "positive": "yes",
        **changes,
    }
    return {key: part for key, part in whole.items() if part is not None}


def given(**changes: Any) -> dict[str, Any]:
    """Return a target of losses that were computed elsewhere."""
    return {"losses": "l.npz", **changes}


def candidate(**changes: Any) -> dict[str, Any]:
    whole = {
        "name": "c",
        "target": target(),
        "procedure": {"library": ["logistic"]},
        "requirement": [RISK],
        "release": [{"name": "r", "file": "r.csv"}],
        **changes,
    }
    return {key: part for key, part in whole.items() if part is not None}


def family(*candidates: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "name": "forms",
        "purpose": "Is this refused?",
        "candidate": list(candidates),
        "claim": {"level": "releases"},
        **changes,
    }


def pilot(name: str, first: int, **changes: Any) -> dict[str, Any]:
    return {"name": name, "generator": "bootstrap", "draws": 2, "seeds": {"first": first},
            **changes}  # fmt: skip


PILOTS = [pilot("one", 100), pilot("two", 200), pilot("three", 300)]
ROLES = {"pilots": ["one", "two", "three"], "moderate": "0.01"}
QUERY = {"form": "query", "loss": None}
RATIO = {"ratio": ["x", "n"], "ranges": {"x": ["0", "9"], "n": ["0", "5"]}}
PILOT_LIMIT = {"pilot_largest_plus": "0.01", "pilot": "one", "round_up": "0.001"}


def read(declared: dict[str, Any]) -> Declaration:
    return as_declaration(declared)


@pytest.mark.parametrize(
    "declared",
    [
        value(),
        value(target=target(**APART), development={"table": "d.csv"}),
        value(
            target=target(table=None, reserve=None, population="p.csv",
                          draw={"size": 9, "replace": True, "seed": 1}),
            development={"table": "d.csv"},
        ),
        value(target=given(), procedure=None, mechanism=[{**DRAWN, "generator": "losses"}]),
        value(target={"table": "t.csv", "reserve": {"rows": 9, "seed": 1}}, procedure=None,
              requirement=[SHARE]),
        value(procedure=None, mechanism=[{**DRAWN, "generator": "predictions"}]),
        value(mechanism=None, release=[{"name": "r", "file": "r.csv"}],
              claim={"level": "releases"}),
        value(claim={"level": "releases"}),
        value(claim=SEQUENTIAL),
        value(claim=STREAM, mechanism=None),
        value(pilot=PILOTS, roles=ROLES, development=VALIDATION,
              mechanism=[{"name": "m", "role": "high", "draws": 3, "seeds": [1, 2, 3]}]),
        value(pilot=PILOTS, development=VALIDATION,
              requirement=[{**RISK, "limit": PILOT_LIMIT, "slack": "0.01"}]),
        family(candidate(), candidate(name="d")),
        value(target=target(read={"header": False, "columns": ["x", "y"]})),
        value(target=target(positive=None, classes=["a", "b", "c"])),
        value(target=target(positive=None, range=["0", "1"])),
    ],
)  # fmt: skip
def test_what_says_one_thing_is_read(declared: dict[str, Any]) -> None:
    read_once = read(declared)
    assert read(read_once.to_dict()) == read_once


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # one source
        ({"table": "t.csv", "reserve": None},
         "[target]: name one source of target records (table and reserve, or file, or population "
         "and draw, or losses), got table alone; write reserve = { rows = 1000, "
         "seed = 1 } beside it"),
        ({"table": None}, "got reserve alone; write table = "),
        ({"table": None, "reserve": None}, "got none"),
        ({"file": "f.csv"}, "got table and reserve and file"),
        ({"losses": "l.npz"}, "got table and reserve and losses"),
        ({"population": "p.csv"}, "got table and reserve and population and draw"),
        ({"table": None, "reserve": None, "population": "p.csv"}, "got population alone"),
        ({"table": None, "reserve": None, "draw": {"size": 9, "replace": True, "seed": 1}},
         "got draw alone"),
        # reserved rows
        ({"reserve": {"seed": 1}}, "reserve needs rows, how many records are set aside"),
        ({"design": {"by": "s", "sizes": {"a": 3, "b": 4}, "weights": {"a": "0.5", "b": "0.5"}}},
         "reserve.rows differs from the sum of the stratum sizes"),
        # strata
        ({"design": {"by": "s", "sizes": {"a": 3, "b": 4}, "weight": "w"}},
         "and sampled = { a = ..., b = ... } beside sizes. Records that were sampled one by one"),
        ({"design": {"by": "s", "sizes": {"a": 3, "b": 4}, "weights": "w"}},
         "Records that were sampled one by one are clusters of one record"),
        ({"design": {"by": ["s", "t"], "sizes": {"a": 3, "b": 4}, "weights": {"a": 1, "b": 2}}},
         "strata of several columns are those of one that joins them"),
        ({"design": {"by": "s", "sizes": {"a": 3}, "weights": {"a": "0.5", "b": "0.5"}}},
         "sizes and weights must name the same strata"),
        ({"design": {"by": "s", "sizes": {"a": 5, "b": 5}, "weights": {"a": "0.5", "b": "0.4"}}},
         "weights must sum to exactly 1"),
        # outcome
        ({"outcome": None},
         "an outcome has one of positive, classes or range, and nothing else does; outcome is "
         "missing, and there is positive. Write"),
        ({"positive": None}, 'outcome is "y", and there is none of them'),
        ({"classes": ["a", "b"]}, "there is positive and classes"),
        ({"range": ["0", "1"]}, "there is positive and range"),
        ({"positive": None, "range": ["1", "1"]},
         'range must increase, the smaller end first; got "1" and "1"'),
        ({"positive": None, "range": ["1000000000000000", "1000000000000001"]},
         "the range of 'y': doubles in the range [1000000000000000.0, 1000000000000001.0] are "
         "0.125 apart"),
        ({"positive": None, "range": ["-1.7e308", "1.7e308"]}, "has width inf"),
        ({"positive": None, "classes": ["a"]}, "[target] classes: has at least 2 members, found 1"),
        # reading
        ({"read": {"header": False}}, "give columns where the file has no header, and only there"),
        ({"read": {"columns": ["x"]}}, "give columns where the file has no header, and only there"),
        ({"read": {"separator": ",,"}}, "[target] read.separator: has at most 1 sign, found 2"),
        # paths
        ({"table": "/t.csv"}, "expected a path inside the data folders"),
        ({"table": "../t.csv"}, "expected a path inside the data folders"),
        ({"table": "a\\t.csv"}, "with forward slashes"),
    ],
)  # fmt: skip
def test_a_target_is_one_thing(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RegistryError, match=re.escape(message)):
        read(value(target=target(**changes)))


@pytest.mark.parametrize(
    "design",
    [
        {"pool": 100},
        {"by": "s"},
        {"by": "s", "sizes": {"a": 5, "b": 4}, "weights": {"a": "0.5", "b": "0.5"}},
    ],
)
def test_records_drawn_with_replacement_are_iid(design: dict[str, Any]) -> None:
    own = target(table=None, reserve=None, population="p.csv", design=design,
                 draw={"size": 9, "replace": True, "seed": 1})  # fmt: skip
    message = "records drawn with replacement are iid; leave design out"
    with pytest.raises(RegistryError, match=message):
        read(value(target=own, development={"table": "d.csv"}))


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        # names
        (value(requirement=[RISK, RISK]), 'requirement names must differ, and two are "risk"'),
        (value(mechanism=[DRAWN, {**DRAWN, "seeds": {"first": 50}}]),
         'mechanism or release names must differ, and two are "m"'),
        (value(mechanism=None, claim={"level": "releases"},
               release=[{"name": "r", "file": "a"}, {"name": "r", "file": "b"}]),
         'mechanism or release names must differ, and two are "r"'),
        (value(pilot=[pilot("one", 100), pilot("one", 200)]),
         'pilot names must differ, and two are "one"'),
        (family(candidate(), candidate()), 'candidate names must differ, and two are "c"'),
        (value(secondary=[{"name": "s", "limits": {"risk": "0.1"}}] * 2),
         'secondary names must differ, and two are "s"'),
        # losses computed elsewhere
        (value(target=given()), "losses computed elsewhere need no procedure here"),
        (value(target=given(), procedure=None, requirement=[{**RISK, "limit": RULE}]),
         "losses computed elsewhere need plain limits and slacks, no query and no group"),
        (value(target=given(), procedure=None, requirement=[SHARE]),
         "losses computed elsewhere need plain limits and slacks, no query and no group"),
        # development
        (value(target=target(**APART)),
         "development.table is missing: the source that releases replace"),
        (value(development={"table": "d.csv"}),
         "rows of the table that are not reserved are the development part; leave table out of "
         "[development]"),
        # procedure
        (value(procedure=None), "a loss needs a [procedure] that makes predictions"),
        (value(procedure=None, mechanism=[
            DRAWN, {**DRAWN, "name": "p", "generator": "predictions", "seeds": {"first": 50}}]),
         "a loss needs a [procedure] that makes predictions"),
        (value(target=target(outcome=None, positive=None)),
         "a loss needs target.outcome, what is predicted"),
        (value(procedure={"library": ["logistic", "forest"]}),
         "development.validation is missing: the procedure chooses on it, or a limit is a rule"),
        (value(procedure={"library": ["logistic"], "calibrate": "temperature"}),
         "development.validation is missing"),
        (value(procedure={"library": ["logistic"], "choose": {}}),
         "development.validation is missing"),
        (value(requirement=[{**RISK, "limit": RULE}]), "development.validation is missing"),
        (value(target=target(positive=None, classes=["a", "b", "c"]), development=VALIDATION,
               procedure={"library": ["logistic"], "choose": {}}),
         "choose and calibrate are for a binary outcome, target.positive"),
        (value(target=target(positive=None, range=["0", "1"]), development=VALIDATION,
               procedure={"library": ["logistic"], "calibrate": "temperature"}),
         "choose and calibrate are for a binary outcome, target.positive"),
        # sources
        (value(candidate=[candidate()]),
         "candidates bring their own parts; leave target, procedure, requirement, mechanism out"),
        (family(candidate(), secondary=[{"name": "s", "limits": {"risk": "0.1"}}]),
         "candidates bring their own parts; leave secondary out"),
        (value(target=None), "target is missing: the records that decide"),
        # claim
        (value(mechanism=None),
         "a claim about a mechanism needs at least one [[mechanism]], and named releases make "
         "none"),
        (value(release=[{"name": "r", "file": "r.csv"}]),
         "a claim about a mechanism needs at least one [[mechanism]]"),
        (family(candidate(release=None, mechanism=[DRAWN]), claim={"reliability_target": "0.8"}),
         "candidates with their own targets are named releases"),
        (value(mechanism=None, claim={"level": "releases"}),
         "a claim about releases needs [[release]] or [[mechanism]]"),
        (value(claim=STREAM),
         "the candidates of a stream come one after the other, at the draw"),
        (family(candidate(release=None), claim=STREAM),
         "the candidates of a stream come one after the other, at the draw"),
        (value(claim=SEQUENTIAL,
               mechanism=[DRAWN, {**DRAWN, "name": "n", "seeds": {"first": 50}}]),
         "a sequential audit is about one mechanism"),
        (value(claim={**SEQUENTIAL, "looks": [2, 3]}), "the last look is at 3 draws, not 4"),
        # references
        (value(development=VALIDATION,
               requirement=[{**RISK, "limit": PILOT_LIMIT, "slack": "0.01"}]),
         "requirement 'risk' names no [[pilot]]: 'one'"),
        (value(roles=ROLES, pilot=PILOTS[:2]),
         "roles name pilots that are none: ['one', 'two', 'three']"),
        (value(roles=ROLES, pilot=[
            {**p, "generator": "files", "options": {"folder": p["name"]}} for p in PILOTS]),
         "roles name 'one', whose releases exist already"),
        (value(mechanism=[{"name": "m", "role": "high", "draws": 1, "seeds": [1]}]),
         "a mechanism has a role, and there is no [roles]"),
        (value(secondary=[{"name": "s", "limits": {"risk": "0.1", "other": "0.1"}}]),
         "secondary 's' limits ['other'], which are no requirements"),
        (value(requirement=[{"name": "r", "form": "query", "limit": "0.1", "query": RATIO}],
               secondary=[{"name": "s", "limits": {"r": "0.2"}}]),
         "and what is tested there follows from the registered one"),
        (value(target=target(positive=None, range=["0", "9"]),
               requirement=[{**RISK, "loss": "absolute", "limit": "2.5"}]),
         "'risk': a limit is a share of the outcome's range, below 1, got 2.5"),
        # seeds
        (value(pilot=[pilot("one", 13)]),
         "seed 13 is registered for 'one' and for 'm'; every draw needs a seed of its own"),
        (value(mechanism=[{**DRAWN, "seeds": [1, 2, 3]}]), "4 draws need as many seeds, got 3"),
        (value(mechanism=[{**DRAWN, "seeds": [1, 2, 3, 3]}]),
         "every draw needs a seed of its own; a seed is repeated"),
    ],
)  # fmt: skip
def test_parts_that_contradict_each_other_are_refused(
    declared: dict[str, Any], message: str
) -> None:
    with pytest.raises(RegistryError, match=re.escape(message)):
        read(declared)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": None}, "a relative or absolute requirement names a loss, a query requirement a"),
        ({"query": {"share": {"a": "b"}}}, "a relative or absolute requirement names a loss"),
        ({"form": "query"}, "a relative or absolute requirement names a loss"),
        ({"form": "query", "loss": None}, "a relative or absolute requirement names a loss"),
        ({"loss": "m:f"}, "a loss by import path, module:function, declares low and high"),
        ({"loss": "m:f", "low": "0"}, "a loss by import path, module:function, declares low"),
        ({"low": "0", "high": "1"},
         "'risk': the bounds of 'brier' are known; leave low and high out"),
        ({"form": "query", "loss": None, "query": {"share": {"a": "b"}}, "limit": RULE},
         "the limit of a query is a number"),
        ({"limit": PILOT_LIMIT}, "a limit from pilots is a cutoff plus a slack: give the slack"),
        ({"limit": PILOT_LIMIT, "slack": {"smallest_of": ["0.1"], "allowance": "0.1"}},
         "a limit from pilots is a cutoff plus a slack: give the slack"),
        ({"form": "query", "loss": None, "query": {}},
         "a query is one of: a mean with its range, a ratio with ranges of its two columns"),
        ({"form": "query", "loss": None, "query": {"mean": "x"}},
         'a mean has the range that numbers are cut to; write for example range = ["0", "100"]'),
        ({"form": "query", "loss": None, "query": {"mean": "x", "range": ["1", "0"]}},
         "the range of 'x': need a finite range low < high, got 1.0 and 0.0"),
        ({"form": "query", "loss": None, "query": {"mean": "x", "range": ["-1.7e308", "1.7e308"]}},
         "the range of 'x': the range [-1.7e+308, 1.7e+308] has width inf"),
        ({"form": "query", "loss": None, "query": {"range": ["0", "1"], "share": {"a": "b"}}},
         "a query is one of"),
        ({"form": "query", "loss": None, "query": {"share": {"a": "b"}, "marginals": [["a"]]}},
         "a query is one of"),
        ({"unit": "kg"}, "'risk': the loss 'brier' is a share or a score of classes, without a"),
        ({"loss": "m:f", "low": "0", "high": "9", "unit": "9 kg"}, "a unit is its name alone"),
        ({"loss": "absolute", "unit": "kg", "slack": {"smallest_of": ["0.1"], "allowance": "0.1"}},
         "a slack that is chosen from a plan is a share of the range"),
        ({**QUERY, "query": {"share": {"a": "b"}}, "unit": "kg"},
         "a share or a correlation has no unit of its own"),
        ({**QUERY, "query": {"ratio": ["x", "n"]}},
         'a ratio has a range of each of its columns; write for example ranges = { "x" = ["0", '),
        ({**QUERY, "query": {"share": {"a": "b"}, "ranges": {"a": ["0", "1"]}}},
         "a query is one of"),
        ({**QUERY, "query": {"ratio": ["x", "n"], "ranges": {"x": ["0", "9"]}}},
         "a ratio has a range of each of its columns, 'x' and 'n', and got one of 'x'"),
        ({**QUERY, "query": {"ratio": ["x", "x"], "ranges": {"x": ["0", "9"]}}},
         "a ratio or correlation is of two columns, got 'x' twice"),
        ({**QUERY, "query": {**RATIO, "ranges": {"x": ["0", "9"], "n": ["-1", "9"]}}},
         "the mean below the line is of numbers from 0 on; the range of 'n' starts at -1"),
        ({**QUERY, "query": {**RATIO, "ranges": {"x": ["9", "0"], "n": ["0", "9"]}}},
         "the range of 'x': need a finite range low < high"),
        ({**QUERY, "query": RATIO, "limit": "0"}, "the limit of a ratio is above 0, got 0"),
        ({**QUERY, "query": RATIO, "limit": "1e200"},
         "the limit of a ratio: the range [0.0, 1e+200]"),
        ({**QUERY, "query": RATIO, "slack": "0.01"}, "a ratio has no slack and no ramp"),
        ({**QUERY, "query": {"correlation": ["x", "n"]}},
         'a correlation has the range that products are cut to; write for example range = ["-4", '),
        ({**QUERY, "query": {"correlation": ["x", "n"], "range": ["-4", "-4"]}},
         "the range of a correlation: need a finite range low < high"),
        ({**QUERY, "query": {"correlation": ["x", "n"], "range": ["-4", "4"],
                             "standard": {"y": ["0", "1"]}}},
         "standard is of the columns of a correlation, got ['y']"),
        ({**QUERY, "query": {"correlation": ["x", "n"], "range": ["-4", "4"],
                             "standard": {"x": ["0", "0"]}}},
         "the scale of 'x' is above 0, got 0"),
        ({"form": "query", "loss": None, "query": {"marginals": {"columns": ["a"]}}},
         "marginals over 2 of different columns, got ['a']"),
        ({"form": "query", "loss": None, "query": {"marginals": {"columns": ["a", "b", "a"]}}},
         "marginals over 2 of different columns"),
        ({"form": "query", "loss": None, "query": {"share": {"a": "b"}, "bins": {"a": ["1"]}}},
         "bins or groups, one of them, are of columns of the marginals; got ['a']"),
        ({"form": "query", "loss": None, "query": {"marginals": [["a"]], "bins": {"a": ["1"]},
                                                   "groups": {"a": {"g": ["v"]}}}},
         "bins or groups, one of them, are of columns of the marginals; got ['a']"),
        ({"form": "query", "loss": None, "query": {"marginals": [["a"]], "bins": {"a": []}}},
         "the bins of 'a' have one end or more between them"),
        ({"form": "query", "loss": None,
          "query": {"marginals": [["a"]], "bins": {"a": ["10", "9"]}}},
         "each above the one before, got ['10', '9']"),
        ({"form": "query", "loss": None,
          "query": {"marginals": [["a"]], "bins": {"a": ["2024-02-30"]}}},
         "day"),
        ({"form": "query", "loss": None,
          "query": {"marginals": [["a"]], "groups": {"a": {"g": ["v"], "h": ["v"]}}}},
         "each group of 'a' has values that no other has"),
        ({"form": "query", "loss": None,
          "query": {"marginals": [["a"]], "groups": {"a": {"all others": ["v"]}}}},
         "none is named 'all others'"),
        ({"form": "query", "loss": None, "query": {"marginals": [["a", "a"]]}},
         "a marginal is over different columns, got ['a', 'a']"),
        ({"form": "query", "loss": None, "query": {"marginals": [[]]}},
         "marginals are over one column or more each, got [[]]"),
        ({"form": "query", "loss": None, "query": {"marginals": []}},
         "marginals are over one column or more each, got []"),
        ({"form": "query", "loss": None, "query": {"marginals": [["a", "b"], ["c"], ["b", "a"]]}},
         "marginals are asked once each, and more than once over [['a', 'b']]"),
        ({"form": "query", "loss": None, "query": {"share": {}}},
         "a share is of records with some value, and none is named"),
        ({"form": "query", "loss": None,
          "query": {"marginals": [["a"]], "groups": {"a": {"g": ["1"], "h": ["1.0"]}}}},
         "each group of 'a' has values that no other has"),
        ({"form": "query", "loss": None,
          "query": {"marginals": [["a"]], "groups": {"a": {"1": ["v"], "1.0": ["w"]}}}},
         "and a name of its own, numbers by value"),
        ({"form": "query", "loss": None,
          "query": {"marginals": [["a"]], "groups": {"a": {"all others ": ["v"]}}}},
         "none is named 'all others'"),
        ({"form": "query", "loss": None,
          "query": {"marginals": [["a"]], "groups": {"a": {}}}},
         "each group of 'a' has values"),
    ],
)  # fmt: skip
def test_a_requirement_is_about_one_thing(changes: dict[str, Any], message: str) -> None:
    part = {key: one for key, one in {**RISK, **changes}.items() if one is not None}
    with pytest.raises(RegistryError, match=re.escape(message)):
        read(value(requirement=[part], development=VALIDATION, pilot=PILOTS))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generator": None}, "a mechanism needs a generator, or the role of a pilot"),
        ({"role": "high"}, "a mechanism needs a generator, or the role of a pilot"),
        ({"role": "high", "generator": None, "options": {"rows": 3}},
         "options and allow of a role are those of its pilot"),
        ({"role": "high", "generator": None, "allow": ["/opt/model"]},
         "options and allow of a role are those of its pilot"),
    ],
)  # fmt: skip
def test_a_mechanism_has_one_generator(changes: dict[str, Any], message: str) -> None:
    part = {key: one for key, one in {**DRAWN, **changes}.items() if one is not None}
    with pytest.raises(RegistryError, match=message):
        read(value(mechanism=[part], pilot=PILOTS, roles=ROLES))


def test_a_pilot_needs_a_generator() -> None:
    bare = {key: one for key, one in pilot("one", 100).items() if key != "generator"}
    with pytest.raises(RegistryError, match="a pilot needs a generator"):
        read(value(pilot=[bare]))


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({}, 'such as reliability_target = "0.9", and a claim about named releases '
             'has none; level is "mechanism"'),
        ({"level": "releases", "reliability_target": "0.8"},
         'level is "releases"'),
        ({"level": "releases", "mode": "direct"}, "named releases have no mode"),
        ({"level": "releases", "mode": "sequential", "looks": [4], "threshold": "0.1"},
         "named releases have no mode 'sequential'"),
        ({"reliability_target": "0.8", "mode": "releases"},
         'is about named releases: set level = "releases"'),
        ({"reliability_target": "0.8", "mode": "stream", "batch": 3},
         "mode 'stream' is about named releases"),
        ({"reliability_target": "0.8", "mode": "collective"},
         "collective mode needs a target of its own for every release"),
        ({"reliability_target": "0.8", "mode": "sequential", "threshold": "0.1"},
         "registers its looks and the threshold of its score"),
        ({"reliability_target": "0.8", "mode": "sequential", "looks": [4]},
         "registers its looks and the threshold of its score"),
        ({"reliability_target": "0.8", "looks": [4]}, "nothing else has looks"),
        ({"reliability_target": "0.8", "levels": ["0.9"]},
         "levels and futility belong to a sequential audit"),
        ({"reliability_target": "0.8", "futility": False},
         "levels and futility belong to a sequential audit"),
        ({"level": "releases", "mode": "stream"},
         "a stream registers its batch, target records a round"),
        ({"reliability_target": "0.8", "batch": 5},
         "a stream registers its batch, target records a round"),
    ],
)  # fmt: skip
def test_a_claim_has_the_keys_of_its_mode(claim: dict[str, Any], message: str) -> None:
    with pytest.raises(RegistryError, match=re.escape(message)):
        read(value(claim=claim))


def test_designs_are_those_that_tests_rely_on() -> None:
    def design(**changes: Any) -> object:
        own = read(value(target=target(**changes), development=changes.pop("development", None)))
        assert own.target is not None
        return own.target.sampling_design

    assert design() == Iid()
    apart = target(table=None, reserve=None, file="t.csv", design={"pool": 70})
    pooled = read(value(target=apart, development={"table": "d.csv"})).target
    assert pooled is not None
    assert pooled.sampling_design == WithoutReplacement(pool=70)
    with pytest.raises(RegistryError, match="a reserve is cut from the same table"):
        design(design={"pool": 70})
    clusters = {"by": "s", "weighting": "record", "max_size": 3}
    assert design(design=clusters, reserve={"clusters": 2, "seed": 1}) == Clustered(
        weighting="record", max_size=3
    )
    weights = {"weight": "w", "max_weight": "7.5", "origin": "design"}
    assert design(design=weights) == Weighted(max_weight=Fraction(15, 2), origin="design")
    for change, words in (
        ({"origin": "calibrated"}, "calibrated on the sample itself"),
        ({"max_weight": "0"}, "largest weight that a record could have"),
    ):
        with pytest.raises(RegistryError, match=words):
            design(design=weights | change)
    strata = {"by": "s", "sizes": {"a": 4, "b": 6}, "weights": {"a": "0.3", "b": "0.7"}}
    assert design(design=strata, reserve={"seed": 1}) == Stratified(
        sizes={"a": 4, "b": 6}, weights={"a": Fraction(3, 10), "b": Fraction(7, 10)}
    )
    drawn = value(
        target=target(table=None, reserve=None, population="p.csv",
                      draw={"size": 9, "replace": True, "seed": 1}),
        development={"table": "d.csv"},
    )  # fmt: skip
    whole = read(drawn).target
    assert whole is not None
    assert whole.sampling_design == Iid(with_replacement=True)


PASSED: dict[str, tuple[Any, Any]] = {
    "mode": ("hybrid", "hybrid"),
    "bound": ("paper", Bound.PAPER),
    "score": ("slack", Score.SLACK),
    "test": ("hoeffding", ComponentTest.HOEFFDING),
    "threshold": ("0.01", Fraction(1, 100)),
    "violation_threshold": ("0.02", Fraction(1, 50)),
    "reliability_target": ("0.7", Fraction(7, 10)),
    "alpha": ("0.1", Fraction(1, 10)),
    "beta": ("0.2", Fraction(1, 5)),
    "release_share": ("0.25", Fraction(1, 4)),
    "target_share": ("0.75", Fraction(3, 4)),
    "named_share": ("0.4", Fraction(2, 5)),
    "family": ("bounds", Family.BOUNDS),
    "shares": ({"m": "0.5", "n": "0.5"}, {"m": "0.5", "n": "0.5"}),
    "dependence": ("independent", Dependence.INDEPENDENT),
    "calibrator": ("capital", "capital"),
    "thresholds": (["0.01", "0.1"], (Fraction(1, 100), Fraction(1, 10))),
    "block_size": (7, 7),
    "pooled_violations": (False, False),
}
OWN_PLAN = {"level", "looks", "levels", "futility", "batch"}


def test_every_key_of_a_claim_is_passed_on_or_belongs_to_a_plan_of_its_own() -> None:
    assert set(ClaimPart.model_fields) == set(PASSED) | OWN_PLAN


@pytest.mark.parametrize("key", PASSED)
def test_a_key_of_the_claim_arrives_as_it_was_declared(key: str) -> None:
    written, expected = PASSED[key]
    claim = ClaimPart.model_validate({"reliability_target": "0.8", key: written}).to_claim()
    assert claim.choices()[key] == expected


def test_keys_that_are_left_out_have_the_defaults_of_the_claim() -> None:
    assert ClaimPart.model_validate({"reliability_target": "0.8"}).to_claim() == Claim.of(
        {"reliability_target": "0.8"}
    )
    assert ClaimPart.model_validate({"level": "releases"}).to_claim() == Claim.of(
        {"mode": "releases"}
    )


def test_tests_may_be_named_for_each_requirement() -> None:
    part = ClaimPart.model_validate(
        {"reliability_target": "0.8", "test": {"risk": "bentkus", "cost": "betting"}}
    )
    assert part.to_claim().test == {
        "risk": ComponentTest.BENTKUS, "cost": ComponentTest.BETTING,
    }  # fmt: skip


@pytest.mark.parametrize("claim", [SEQUENTIAL, STREAM])
def test_a_plan_of_its_own_is_no_fixed_claim(claim: dict[str, Any]) -> None:
    part = ClaimPart.model_validate(claim)
    assert part.after_opening
    with pytest.raises(ValueError, match="has a plan of its own"):
        part.to_claim()


@pytest.mark.parametrize(
    "asks",
    [
        {"group": {"y": "yes"}},
        {"loss": None, "form": "query", "query": {"mean": "y", "range": ["0", "1"]}},
        {"loss": None, "form": "query", "query": {"share": {"x": "a"}}, "group": {"y": "yes"}},
    ],
)
def test_nobody_slips_out_of_a_group_or_mean_by_a_missing_outcome(asks: dict[str, Any]) -> None:
    part = {key: one for key, one in {**RISK, **asks}.items() if one is not None}
    read(value(requirement=[part]))
    with pytest.raises(RegistryError, match="says neither who belongs to a group"):
        read(value(requirement=[part], target=target(missing_outcomes="worst")))


def test_a_share_of_an_outcome_that_may_be_missing_is_of_those_known_to_have_it() -> None:
    part = {"name": "ill", "form": "query", "query": {"share": {"y": "yes"}}, "limit": "0.1"}
    (member,) = read(value(requirement=[part], target=target(missing_outcomes="worst"))).members
    query = ResolvedQuery(name="ill", low="0", high="1", column=None, cell=(("y", "yes"),))
    limit = ResolvedNumber(value="0.1", rule="as declared", inputs={})
    resolved = ResolvedRequirement(
        part=member.requirement[0], limit=limit, slack=None, queries=(query,)
    )
    (said,) = required([m.requirement for m in measures_of(member, [resolved])])
    assert said.startswith("The share of records known to have y = yes in a release may differ")


def test_a_missing_outcome_is_written_in_one_place() -> None:
    with pytest.raises(RegistryError, match=re.escape("stand in target.read.missing")):
        read(value(columns={"y": {"missing": ["99"]}}))
