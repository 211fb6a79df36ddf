"""Whatever is put into a public call, it is read or refused in our own words."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from proxyguard.plan.stress import stress
from proxyguard.registry.numbers import LEAST

NAN, INF = float("nan"), float("inf")
STRANGE: list[Any] = [object(), 1j, {"a": 1}, np.array([0.1, 0.2]), b"1"]

# Numbers in (0, 1) that are 0 or 1 as doubles, which every level is computed with.
VANISHING = ["1e-400", "0." + "0" * 330 + "1", Decimal("1e-320"), "0." + "9" * 30,
             1 - Fraction(1, 10**23)]  # fmt: skip

# What no argument of a kind may be.
NUMBER = [NAN, INF, -0.1, 0, 1, "x", "", "1/0", "nan", "1e999999999", Decimal("nan"), True, [],
          Decimal("1e400"), *STRANGE]  # fmt: skip
LEVEL = [*NUMBER, *VANISHING]
SIZE = [NAN, 0, -1, 2.5, 2.0, "3", "", True, [], Decimal("2.5"), Fraction(5, 2), *STRANGE]
SEED = [-1, np.int64(-1), 1.5, "1", True, NAN, [], *STRANGE]
COST = [NAN, INF, -1, "x", "", True, [], *STRANGE]
FLAG = ["no", "", 2, None, [], NAN, *STRANGE]
CHOICE = ["x", 3, True, [], *STRANGE]
LIST = [3, "x", NAN, [object()], [[1], [1, 2]], {"a": 1}, object(), True]
LISTS_OF_NUMBERS = [*LIST, ["x"], [NAN], [None]]
OBJECT = [3, "x", NAN, [], True, *STRANGE]
ARRAY = ["x", ["x"], [[1], [1, 2]], object(), {"a": 1}, np.ma.masked_array([1.0], mask=[True]), 1j]

LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.2, slack=0.05)
RULES = [LOSS]
ZEROS = np.zeros((3, 20, 1))
LAW = pg.assumed_law(RULES, margins=[0.1], reliability=0.95)
QUESTION = pg.Question(reliability_target="0.8", n=60, releases=20, modes=["direct"],
                       tests=["bentkus"])  # fmt: skip
PLAN = pg.SequentialPlan(looks=(20, 40), reliability_target=0.8, kappa=0.01)
CHOICES = {"reliability_target": LEVEL, "alpha": LEVEL, "mode": CHOICE, "test": CHOICE}


def member(**given: Any) -> Any:
    return pg.certify_releases({"a": pg.NamedReleases(**given)})


def submit(**given: Any) -> Any:
    return pg.CandidateStream(RULES).submit(**given)


def claim(**given: Any) -> Any:
    return pg.Claim.of(given)


def score(losses: Any) -> Any:
    return pg.FavorableScore(RULES, threshold="0.01")(losses)


def add(favorable: Any) -> Any:
    return pg.SequentialAudit(PLAN).add(favorable)


def in_a_notebook() -> Any:
    """Return a function as a cell of a notebook defines it."""
    text = "def f(source, rng):\n    return source\n"
    linecache.cache["<cell>"] = (len(text), None, text.splitlines(keepends=True), "<cell>")
    session: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, "<cell>", "exec"), session)
    return session["f"]


def moments(**given: Any) -> Any:
    choices: dict[str, Any] = {"reliability_target": 0.8, "test": "bentkus"}
    return pg.certify(pg.Moments(**given), RULES, **choices)


def stream(**given: Any) -> Any:
    return pg.certify(pg.LossStream(**given), RULES, reliability_target=0.8, test="bentkus")


def recommended(**given: Any) -> Any:
    return pg.recommend(**({"repetitions": 2} | given))


def stressed(**given: Any) -> Any:
    return stress(**({"found": RECOMMENDED, "repetitions": 2} | given))


def tried(**given: Any) -> Any:
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(90, 2)), columns=["a", "b"])
    if "generator" not in given:
        given = {"releases": table} | given
    with TemporaryDirectory() as home:
        known = {"real": table, "holdout": table + 1.0, "workers": 1, "home": home}
        return pg.try_out(**(known | given))


RECOMMENDED = pg.recommend(LAW, QUESTION, repetitions=2)

# Every public call that takes something: what it takes when all is well, and what it may not.
Door = tuple[Callable[..., Any], dict[str, Any], dict[str, list[Any]]]
DOORS: dict[str, Door] = {
    "Audit": (pg.Audit, {"folder": "x"}, {
        "folder": [3, None, NAN, object(), []], "home": [3, NAN, object()],
        "data": [3, "x", object(), [3]], "workers": SIZE, "progress": [3, "x"],
    }),
    "CandidateStream": (pg.CandidateStream, {"requirements": RULES}, {
        "requirements": [*LIST, None], "alpha": [*LEVEL, None], "design": OBJECT, "test": CHOICE,
        "seed": SEED,
    }),
    "CandidateStream.submit": (
        submit, {"losses": ZEROS[0], "records": pg.Records(ids=np.arange(20))},
        {"losses": [*ARRAY, None], "records": [*OBJECT, None]},
    ),
    "Claim": (claim, {"reliability_target": 0.8}, {
        "mode": CHOICE, "bound": CHOICE, "score": CHOICE, "test": CHOICE, "threshold": LEVEL,
        "violation_threshold": LEVEL, "reliability_target": [*LEVEL, None],
        "alpha": [*LEVEL, None], "beta": LEVEL, "release_share": [*LEVEL, None],
        "target_share": [*LEVEL, None], "named_share": [*LEVEL, None], "family": CHOICE,
        "shares": [3, "x", [], object()], "dependence": CHOICE, "combination": CHOICE,
        "thresholds": [*LISTS_OF_NUMBERS, None, *([level] for level in VANISHING)],
        "calibrator": CHOICE,
        "unused": [(), 3, "x"],
        "block_size": SIZE, "pooled_violations": FLAG,
        "stakes": [*LISTS_OF_NUMBERS, None, [], [2], *([stake] for stake in VANISHING)],
    }),
    "Clustered": (pg.Clustered, {}, {"weighting": [*CHOICE, None], "max_size": SIZE}),
    "FavorableScore": (pg.FavorableScore, {"requirements": RULES, "threshold": 0.01}, {
        "requirements": [*LIST, None], "threshold": [*LEVEL, None], "design": OBJECT,
        "test": CHOICE, "seed": SEED,
    }),
    "FavorableScore.call": (score, {"losses": ZEROS}, {"losses": [*ARRAY, None]}),
    "Iid": (pg.Iid, {}, {"with_replacement": FLAG}),
    "Law": (
        pg.Law,
        {"requirements": tuple(RULES), "losses": ([[0.0]],), "records": ([1.0],),
         "releases": [1.0], "joint": True, "origin": "x"},
        {"requirements": [*LIST, None, (), (LOSS, LOSS)], "losses": [*LIST, None, ([[2.0]],)],
         "records": [*LIST, None, ([0.5],), ([NAN],)], "releases": [*ARRAY, None, [2.0], [NAN]],
         "joint": FLAG, "sampled": FLAG, "origin": [3, None, object()],
         "others": [3, "a", object()], "luck": [3, "a", object()],
         "counting": [*LIST, ([False],), ([True, True],), ([0.5],)],
         "answers": [*ARRAY, [[0.5, 0.5]], [0.5]]},
    ),
    "LossArray": (pg.LossArray, {"values": ZEROS}, {
        "values": [*ARRAY, None], "records": [*OBJECT, None], "releases": [3, "abc", object(), []],
    }),
    "LossBatches": (
        pg.LossBatches, {"batches": [pg.LossArray(ZEROS[:1])]}, {"batches": [*LIST, None, []]},
    ),
    "LossStream": (
        stream,
        {"chunks": [ZEROS], "n_releases": 3, "n_records": 20, "n_requirements": 1},
        {"chunks": [3, "x", None, object(), [object()], [[[1], [1, 2]]]],
         "n_releases": [*SIZE, None], "n_records": [*SIZE, None], "n_requirements": [*SIZE, None],
         "random_order": FLAG, "releases": [3, "abc", object(), []]},
    ),
    "NamedReleases": (member, {"losses": ZEROS, "requirements": RULES}, {
        "losses": [*ARRAY, None], "requirements": [*LIST, None], "design": OBJECT,
        "records": [*OBJECT, 0, ""], "names": [*LIST, "ab", [3]],
    }),
    "Moments": (moments, {"n": 20, "mean": [[0.1]]}, {
        "n": [NAN, -1, 2.5, "3", True, object(), [[1], [1, 2]], None, 2**60],
        "mean": [*ARRAY, None, [[NAN]], [[2.0]]], "variance": [*ARRAY, [[NAN]], [[-1.0]], [[9.0]]],
        "releases": [3, "abc", object(), []],
    }),
    "Question": (pg.Question, {"reliability_target": 0.8}, {
        "reliability_target": [*LEVEL, None], "alpha": [*LEVEL, None],
        "mechanisms": [*SIZE, None, 10**400], "n": SIZE, "releases": SIZE, "most_records": SIZE,
        "most_releases": SIZE, "record_cost": [*COST, None], "release_cost": [*COST, None],
        "screening_cost": [*COST, None], "labelled": [*COST, None, 1.5],
        "budget": COST, "power": LEVEL, "design": OBJECT,
        "modes": ["direct", 3, ("x",), (), None, ("direct", "direct"), ("releases",),
                  ("collective",)],
        "tests": ["binomial", 3, ("x",), (), None, ("binomial", "binomial")],
        "digits": [*SIZE, 7],
    }),
    "Records": (pg.Records, {}, {
        "ids": [3, "x", NAN, object(), [None], [NAN], [""], [[1], [1, 2]], [object()], {"a": 1}],
        "strata": [3, "x", [None], [NAN]], "clusters": [3, "x", [None], [NAN]],
        "weights": [3, "x", [None], [NAN], [-1.0], ["x"], [[1.0], [1.0]], {"a": 1}],
        "groups": [3, "x", None, {"g": [1, 0]}, {3: [True]}, {"g": 3}], "random_order": FLAG,
    }),
    "Requirement": (pg.Requirement, {"name": "loss", "low": 0, "high": 1, "limit": 0.2}, {
        "name": [3, "", None, object()], "low": [*NUMBER[5:], NAN, None, INF, 0.2, -1e308],
        "high": [*NUMBER[5:], NAN, None, INF, 0.2, 1e308], "limit": [*LEVEL[:1], *LEVEL[3:], None],
        "form": [*CHOICE, None], "two_valued": FLAG, "indicator": FLAG, "slack": LEVEL,
        "missing": [*CHOICE, None],
        "ramp": [*LEVEL, 0.1], "group": [3, "", object()], "promise": [3, "", object()],
        "attack": [3, "", object()], "quantity": [3, "x", object()],
        "thresholds": SIZE, "member_error": [*COST, 1.0, None],
    }),
    "SequentialAudit": (pg.SequentialAudit, {"plan": PLAN}, {
        "plan": [*OBJECT, None], "score": OBJECT,
    }),
    "SequentialAudit.add": (add, {"favorable": [True]}, {
        "favorable": [3, "x", None, [[True], [True, False]], [0.5], object()],
    }),
    "SequentialPlan": (
        pg.SequentialPlan, {"looks": (10, 20), "reliability_target": 0.8, "kappa": 0.01},
        {"looks": [3, "x", None, (), (10.5, 20), (10, 10), (20, 10), (0, 5), ("10",), (True, 2),
                   np.array([[1, 2]]), np.array([1.5, 2.5]), object()],
         "reliability_target": [*LEVEL, None], "kappa": [*COST, 1, None, *VANISHING],
         "alpha": [*LEVEL, None], "bound": [*CHOICE, "paper", None],
         "target_share": [*LEVEL, None],
         "levels": [*LISTS_OF_NUMBERS, (0.7,), (0.9, 0.85), (1.0,), None], "futility": FLAG},
    ),
    "Stratified": (pg.Stratified, {"sizes": {"a": 1}, "weights": {"a": 1}}, {
        "sizes": [3, "x", None, [], {"a": 0}, {"a": 1.5}, {"a": "1"}, {None: 1}, {"b": 1}],
        "weights": [3, "x", None, [], {"a": NAN}, {"a": "x"}, {"a": 0.5}, {"a": True}, {}],
    }),
    "StratifiedClusters": (
        pg.StratifiedClusters, {"sizes": {"a": 1}, "weights": {"a": 1}}, {
            "sizes": [3, "x", None, {"a": 0}, {"b": 1}], "weights": [3, "x", None, {"a": "x"}, {}],
            "sampled": [3, "x", None, {"a": 1}, {"a": "x"}],
            "clusters": [*OBJECT, None],
        },
    ),
    "Weighted": (pg.Weighted, {"max_weight": 5, "origin": "design"}, {
        "max_weight": [0, -1, NAN, "x", None, True, [], object(), "1e999"],
        "origin": [*CHOICE, None, "calibrated"],
    }),
    "WeightedClusters": (pg.WeightedClusters, {"max_weight": 5, "origin": "design"}, {
        "max_weight": [0, -1, NAN, "x", None, True, [], object(), "1e999"],
        "origin": [*CHOICE, None, "calibrated"], "max_size": SIZE,
    }),
    "WithoutReplacement": (pg.WithoutReplacement, {"pool": 5}, {"pool": [*SIZE, None]}),
    "assumed_law": (
        pg.assumed_law, {"requirements": RULES, "margins": [0.1], "reliability": 0.9},
        {"requirements": [*LIST, None, [], [LOSS, LOSS]],
         "margins": [*LISTS_OF_NUMBERS, None, [], [0.0], [-0.1], [0.1, 0.1]],
         "deviations": [3, "x", [object()], ["x"], [NAN], [-1.0], [9.0], []],
         "reliability": [NAN, INF, -0.1, 1.1, "x", True, None, [], *STRANGE],
         "spread": [*COST, 1, None], "excess": [*COST, None, 9],
         "shares": [*LISTS_OF_NUMBERS, [], [0.0], [1.5], [0.5, 0.5]]},
    ),
    "certify": (pg.certify, {"losses": ZEROS, "requirements": RULES, "reliability_target": 0.8}, {
        "losses": [*ARRAY, None, {"": ZEROS}, {1: ZEROS}, {}], "requirements": [*LIST, None],
        "design": OBJECT, "records": OBJECT, "seed": SEED, **CHOICES,
    }),
    "certify_releases": (pg.certify_releases, {"losses": ZEROS, "requirements": RULES}, {
        "losses": [*ARRAY, None, {}, {"a": 3}, {"": pg.NamedReleases(ZEROS, RULES)}],
        "requirements": [*LIST, None], "names": [*LIST, "ab", [3], ["", "b"], ["a", "a"]],
        "design": OBJECT, "records": OBJECT, "seed": SEED, "alpha": [*LEVEL, None], "mode": CHOICE,
    }),
    "choose_ramps": (
        pg.choose_ramps, {"law": LAW, "n": 900, "releases": 20, "reliability_target": "0.8"}, {
            "law": [*OBJECT, None], "n": [*SIZE, None], "releases": [*SIZE, None],
            "reliability_target": [*LEVEL, None], "alpha": [*LEVEL, None],
            "mechanisms": [*SIZE, None], "bound": [*CHOICE, None],
        },
    ),
    "code_of": (pg.code_of, {"defined": in_a_notebook()}, {
        "defined": [*OBJECT, None, len, int, np.zeros, lambda source, rng: source],
    }),
    "pilot_law": (pg.pilot_law, {"losses": ZEROS, "requirements": RULES}, {
        "losses": [*ARRAY, None, ZEROS[0], ZEROS + 2, ZEROS + NAN],
        "requirements": [*LIST, None, [], [LOSS, LOSS]],
        "reliability": [NAN, INF, -0.1, 1.1, "x", True, [], *STRANGE],
        "counting": [*ARRAY, [[0.5]], [[True]], ZEROS[0] > 0],
        "answers": [*ARRAY, [[0.5, 0.5, 0.5]], [0.5]],
        "share": [NAN, INF, 0, -0.1, 1.1, "x", True, [], *STRANGE],
        "truth": FLAG,
        "known_records": [*LISTS_OF_NUMBERS, [], [0], [-1], [1, 1]],
    }),
    "recommend": (recommended, {"law": LAW, "question": QUESTION}, {
        "law": [*OBJECT, None], "question": [*OBJECT, None], "seed": [*SEED, None],
        "repetitions": [*SIZE, None], "effort": [0, -1, NAN, None, "x"], "progress": [3, "x"],
        "compare": [3, "x", None],
    }),
    "stress": (stressed, {}, {
        "found": [*OBJECT, None], "reliability_errors": [*LISTS_OF_NUMBERS, None],
        "margin_factors": [*LISTS_OF_NUMBERS, None], "repetitions": [*SIZE, None],
        "seed": [*SEED, None], "progress": [3, "x"],
    }),
    "supports": (pg.supports, {"requirements": RULES, "reliability_target": 0.8}, {
        "requirements": [*LIST, None], "design": OBJECT, **CHOICES,
    }),
    "try_out": (tried, {}, {
        "real": [3, "x", None, object(), []], "releases": [3, "x", object(), [], {}, [3]],
        "outcome": [3, "x", [], object()], "generator": [3, "x", object(), []],
        "made_from": [3, "x", object(), []], "holdout": [3, "x", object(), []],
        "kind": [*CHOICE, "binary"], "positive": [3, "x", object()],
        "limits": [3, "x", [], {"a": 0.1}, {"means": 2}, {"means": "x"}, {3: 0.1}],
        "exclude": [*LIST, None, ["x"]],
        "columns": [3, "x", [], {"x": {}}, {"a": 3}, {"a": {"b": 1}}],
        "home": [3, NAN, object()], "independent": FLAG, "reliability": LEVEL,
        "draws": SIZE, "options": [3, "x", [], {3: 1}], "exposure": [*FLAG, True],
        "seed": [*SEED, None], "workers": SIZE, "progress": [3, "x"], "keep": [*SEED, None, 10**6],
        "tell": [3, "x"], "out": [3, [], object()],
    }),
}  # fmt: skip

CASES = [(name, key) for name, (_, _, kinds) in DOORS.items() for key in kinds]


@pytest.mark.parametrize("name", DOORS)
def test_what_is_good_is_taken(name: str) -> None:
    call, good, _ = DOORS[name]
    call(**good)


@pytest.mark.parametrize(("name", "key"), CASES, ids=[f"{name}-{key}" for name, key in CASES])
def test_what_is_bad_is_refused_and_in_our_own_words(name: str, key: str) -> None:
    call, good, kinds = DOORS[name]
    for bad in kinds[key]:
        try:
            call(**(good | {key: bad}))
        except pg.ProxyGuardError:
            continue
        except Exception as error:
            pytest.fail(f"{name}({key}={bad!r}) ended in {type(error).__name__}: {error}")
        pytest.fail(f"{name}({key}={bad!r}) was taken")


RESULTS = {  # made by certify, by Audit and by try_out alone
    "Certificate", "FamilyCertificate", "ReleaseCertificate", "SealedCertificate", "Trial",
}  # fmt: skip
FIXED = {"Decision", "Form", "Independent"}  # enumerations, and a design without a setting


def test_every_public_call_and_every_argument_is_tried() -> None:
    calls = {
        name for name in pg.__all__
        if not (isinstance(getattr(pg, name), type) and issubclass(getattr(pg, name), Exception))
    }  # fmt: skip
    assert calls - RESULTS - FIXED == {name for name in DOORS if "." not in name} - {"stress"}
    for name in calls - RESULTS - FIXED:
        parameters = inspect.signature(getattr(pg, name)).parameters.values()
        named = {p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD}
        assert named <= set(DOORS[name][2]), f"{name} has arguments that nothing tries"


def test_numbers_come_in_as_people_have_them() -> None:
    plain = pg.SequentialPlan(looks=(10, 20), reliability_target=0.8, kappa=0.01, alpha="1/20")
    for looks in (np.arange(10, 30, 10), [np.int32(10), 20], range(10, 30, 10)):
        for eighty in ("0.8", Fraction(4, 5), Decimal("0.80"), np.float32(0.8)):
            made = pg.SequentialPlan(
                looks=looks,
                reliability_target=eighty,
                kappa=Decimal("0.01"),
                alpha=0.05,  # type: ignore[arg-type]
            )
            assert made == plain
    asked = pg.Question(reliability_target="4/5", n=60, releases=20, modes=("direct",))
    same = pg.Question(
        reliability_target=Decimal("0.8"), n=np.int64(60), releases=np.uint8(20),
        modes=[pg.Claim.of({"reliability_target": "1/2"}).mode],  # type: ignore[arg-type]
    )  # fmt: skip
    assert asked == same
    assert type(same.n) is int
    law = pg.assumed_law(RULES, margins=["1/10"], reliability=Fraction(19, 20))
    assert law.reliability == LAW.reliability


def test_losses_come_before_requirements_everywhere() -> None:
    for call in (pg.certify, pg.NamedReleases, pg.pilot_law):
        assert list(inspect.signature(call).parameters)[:2] == ["losses", "requirements"]


WAYS: list[dict[str, Any]] = [
    *({"mode": "direct", "bound": bound} for bound in ("sharp", "rescaled", "paper")),
    *({"mode": "smooth", "bound": bound} for bound in ("sharp", "rescaled", "paper")),
    {"mode": "hybrid", "bound": "rescaled"}, {"mode": "named"}, {"mode": "count"},
    {"mode": "block", "block_size": 5},
]  # fmt: skip
LEVELS = ("alpha", "beta", "reliability_target", "threshold", "violation_threshold",
          "release_share", "target_share", "named_share")  # fmt: skip
RAMPED = [replace(LOSS, ramp=0.01), replace(LOSS, name="other", ramp=0.01)]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
@pytest.mark.parametrize("edge", [LEAST, Fraction(2**53 - 1, 2**53)], ids=["least", "largest"])
def test_every_level_that_is_taken_can_be_computed_with(way: dict[str, Any], edge: Any) -> None:
    usual = {**way, "reliability_target": "0.5", "test": "bentkus"}
    alone: list[dict[str, Any]] = [{level: edge} for level in LEVELS]
    used = [one for one in alone if not pg.supports(RAMPED, **(usual | one))]
    together: dict[str, Any] = {level: edge for one in used for level in one}
    assert len(used) >= 4
    losses = np.zeros((5, 20, 2))
    for levels in [*used, together]:
        assert str(pg.certify(losses, RAMPED, seed=1, **(usual | levels)))
    shares = {"a": LEAST, "b": Fraction(1, 2)}
    family = {"a": losses, "b": losses}
    assert str(pg.certify(family, RAMPED, seed=1, **(usual | together), shares=shares))
