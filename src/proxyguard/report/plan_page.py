"""A plan as a page with sliders: what it assumes goes in, its chance is computed in the browser.

The page's two scripts are `templates/bounds.js`, bounds that other pages can share, and
`templates/plan.js`; `plan.assumed` says what it computes from. Where that is no exact sum, sizes
around the plan are simulated here, and the page brings its chances into line with them; beyond
these sizes it shows nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.documents.canonical import Plain
from proxyguard.errors import RegistryError
from proxyguard.modes.catalog import planned_mode
from proxyguard.plan.assumed import Assumptions, Kinds
from proxyguard.plan.question import MOST_RECORDS, geometric
from proxyguard.plan.recommend import Recommendation
from proxyguard.plan.report import chances_over, decimal_text, group_lines, plan_toml
from proxyguard.plan.search import EFFORT
from proxyguard.registry.design import Sampling
from proxyguard.registry.requirement import Requirement
from proxyguard.registry.test import ComponentTest
from proxyguard.report.html import data_markup, render_page

if TYPE_CHECKING:
    from markupsafe import Markup

# The chance that is wanted where a plan names none.
WANTED = 0.8

# Tests of losses that are not two-valued.
TESTS = [ComponentTest.BETTING, ComponentTest.CHERNOFF]

# Modes that the page computes.
PAGE_MODES = ("direct", "named")

# How far from the plan sizes are simulated, as a factor; how many numbers of records and of draws;
# and simulated targets of each.
REACH, RECORDS, DRAWS, TARGETS = 4, 7, 5, 400

# A reliability below this says no more than that one release is valid.
_NONE = 0.01

# The largest share of the way from a limit to the lower bound that a slider offers as a margin.
_ROOM = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class Slider:
    """One slider: its ends and where it starts."""

    name: str
    label: str
    low: float
    high: float
    start: float
    step: str = "any"
    note: str = ""
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """What the page's template shows."""

    data: Markup
    sliders: list[tuple[str, list[Slider]]]
    basis: list[str]
    unit: str
    one: bool


def plan_page(found: Recommendation) -> str:
    """Return a plan as a whole page with sliders.

    Parameters
    ----------
    found
        What `recommend` returned.

    Raises
    ------
    RegistryError
        The design is one that no test of the page covers.
    """
    assumed = Assumptions.of(found.law, found.question)
    view = PlanView(
        data=data_markup(_data(found, assumed)),
        sliders=_sliders(found, assumed),
        basis=_basis(found, assumed),
        unit=found.question.unit,
        one=_one(found),
    )
    scripts = ("page.js", "bounds.js", "plan.js")
    return render_page("plan.html.j2", scripts, ("plan.css",), page=view)


def _one(found: Recommendation) -> bool:
    """Return whether a plan is of one release, of which no reliability is to be shown."""
    return found.chosen.plan.releases == 1 and found.question.target < _NONE


def _test(found: Recommendation) -> ComponentTest:
    """Return the test of losses that are not two-valued: the plan's, or one that the design has."""
    design, others = found.question.design, [r for r in found.law.requirements if not r.two_valued]
    covering = [test for test in TESTS if not any(test.objections(design, r) for r in others)]
    if not covering or design.sampling is Sampling.WEIGHTED:
        raise RegistryError(
            f"the page computes with {' and '.join(test.value for test in TESTS)}, which do not "
            f"cover the design {type(design).__name__}; read the plan itself"
        )
    planned = found.chosen.way.test
    return planned if planned in covering else covering[0]


def _simulated(found: Recommendation, test: ComponentTest) -> dict[str, Plain]:
    """Return the chances of both modes at sizes around the plan, less one error of each."""
    question, plan, requirements = found.question, found.chosen.plan, found.law.requirements
    counted = {r.two_valued for r in requirements}
    tests = [None if len(counted) > 1 else ComponentTest.BINOMIAL if True in counted else test]
    ways = [
        found.chosen.way if _on_page(found) == mode
        else replace(planned_mode(mode).ways(question, tests)[0], ordered=question.iid)
        for mode in PAGE_MODES
    ]  # fmt: skip
    least = question.least_releases
    records = geometric(max(1, plan.n // REACH), plan.n * REACH, RECORDS)
    draws = geometric(min(least, plan.releases), max(REACH * plan.releases, least), DRAWS)
    sizes = sorted({*records, plan.n}), sorted({*draws, plan.releases})
    chances = chances_over(found, ways, sizes, repetitions=TARGETS, effort=3 * EFFORT)
    power = np.clip(chances[..., 0] - chances[..., 1], 0.0, 1.0)
    if _on_page(found):  # the plan's own chance is that of more targets
        place = PAGE_MODES.index(_on_page(found))
        power[place, sizes[1].index(plan.releases), sizes[0].index(plan.n)] = float(
            found.chosen.power.shown
        )
    return {
        "records": list(sizes[0]), "draws": list(sizes[1]),
        "power": {
            mode: np.round(table, 4).tolist() for mode, table in zip(PAGE_MODES, power, strict=True)
        },
    }  # fmt: skip


def _on_page(found: Recommendation) -> str:
    """Return the mode of the plan where the page computes its way; nothing where it does not."""
    option = found.chosen
    own = option.plan.claim.mode in PAGE_MODES and option.way.score != "slack"
    return option.plan.claim.mode if own else ""


def _data(found: Recommendation, assumed: Assumptions) -> dict[str, Plain]:
    """Return what the script starts from."""
    plan, question, law = found.chosen.plan, found.question, found.law
    test = _test(found)
    # Where the page computes the very sum of the plan there is nothing to bring into line.
    exact = found.chosen.power.exact and all(r.two_valued for r in law.requirements)
    return {
        "test": test.value,
        "kinds": _pilots(assumed.kinds),
        "simulated": None if exact and not law.joint else _simulated(found, test),
        "requirements": [
            {
                "name": r.name, "low": r.low, "high": r.high, "limit": r.limit, "margin": margin,
                "sd": deviation, "two_valued": r.two_valued, "share": share,
            }
            for r, margin, deviation, share in zip(
                assumed.requirements, assumed.margins, assumed.deviations, assumed.shares,
                strict=True,
            )
        ],
        "spread": assumed.spread,
        "reliability": assumed.reliability,
        "excess": assumed.excess,
        "alpha": question.level,
        "family_alpha": decimal_text(Fraction(question.alpha)),
        "power": float(found.chosen.power.shown),
        "n": plan.n,
        "releases": plan.releases,
        "unit": question.unit,
        "one": _one(found),
        # The one size that was fixed while the other was searched for.
        "fixed": "" if (question.releases is None) == (question.n is None)
        else "draws" if question.n is None else "records",
        "origin": law.origin,
        "toml": plan_toml(found),
        "labelled": question.labelled,
        "screening_cost": question.screening_cost,
        "most_records": ceil(MOST_RECORDS / min(assumed.shares)),
        "mode": _on_page(found),
        "way": found.chosen.way.label,
    }  # fmt: skip


def _pilots(kinds: Kinds | None) -> dict[str, Plain] | None:
    """Return pilots as the script reads them; None of assumed margins."""
    if kinds is None:
        return None
    return {name: getattr(kinds, name).tolist() for name in Kinds.__dataclass_fields__}


def _sliders(found: Recommendation, assumed: Assumptions) -> list[tuple[str, list[Slider]]]:
    """Return the sliders under their headings."""
    question = found.question
    wanted = 100 * (question.power or WANTED)
    target = 100 * question.target
    assumed_reliability = 100 * assumed.reliability
    dearest = 20.0 * max(question.record_cost, question.release_cost, 1.0)
    return [
        ("Sizes", [
            # By ratios: the script turns the share of the way into a number.
            Slider(name="records", label=f"target {question.unit}", low=0, high=1000, start=500),
            Slider(name="draws", label="draws", low=0, high=1000, start=500,
                   hidden=_one(found)),
        ]),
        ("Wanted", [
            Slider(name="wanted", label="chance of validating", low=min(50, wanted),
                   high=max(99, wanted), start=wanted),
            Slider(name="target", label="reliability to show: more than", low=min(50, target),
                   high=max(99, target), start=target, hidden=_one(found),
                   step="1" if target == round(target) else "any"),
        ]),
        ("Assumed of the mechanism", [
            Slider(name="reliability", label="share of valid releases", hidden=_one(found),
                   low=min(50, assumed_reliability), high=100, start=assumed_reliability),
            *(
                _margin(j, r, margin, assumed.spread)
                for j, (r, margin) in enumerate(
                    zip(assumed.requirements, assumed.margins, strict=True)
                )
            ),
        ]),
        ("Cost", [
            Slider(name="record-cost", label="of a target record", low=0,
                   high=dearest, start=question.record_cost),
            Slider(name="release-cost", label="of a draw", low=0,
                   high=dearest, start=question.release_cost),
        ]),
    ]  # fmt: skip


def _margin(j: int, requirement: Requirement, margin: float, spread: float) -> Slider:
    """Return the slider of one requirement's margin."""
    # No spread margin may leave a mean at or below the lower bound.
    most = _ROOM * (requirement.limit - requirement.low) / (1.0 + spread)
    return Slider(
        name=f"margin-{j}", label=f"margin of {requirement.name}",
        low=0.05 * margin, high=max(margin, min(3.0 * margin, most)), start=margin,
        note=f"how far valid releases stay below the limit {requirement.limit:g}{requirement.unit}",
    )  # fmt: skip


def _basis(found: Recommendation, assumed: Assumptions) -> list[str]:
    """Return in words what the page computes, what it approximates and what it leaves out."""
    option, question = found.chosen, found.question
    counted = [r.name for r in assumed.requirements if r.two_valued]
    others = [
        f"{r.name} (standard deviation {deviation:.3g})"
        for r, deviation in zip(assumed.requirements, assumed.deviations, strict=True)
        if deviation is not None
    ]
    simulated = assumed.kinds is not None or not found.chosen.power.exact
    lines = [
        f"Planned by proxyguard plan, from {found.law.origin}: {option.plan.n:,} {question.unit}, "
        f"{option.plan.releases:,} draws; {option.way.label}; tests: {option.way.tests}; chance "
        f"{found.most}{option.power.words}. Reset brings the sliders back there.",
        *found.scope,
        *found.obstacles,
        "The page predicts and certifies nothing: its chances hold if the sliders are right.",
    ]
    if counted:
        lines.append(
            f"Two-valued losses ({', '.join(counted)}) are tested by the binomial test"
            + ("." if simulated else ", and the chance is an exact sum over all targets.")
        )
    if others:
        lines.append(
            f"Approximate for other losses ({', '.join(others)}): the logarithm of a bet's capital "
            "is taken as normal, and so is the mean that Chernoff's test sees."
        )
    if min(assumed.shares) < 1.0:
        lines += [line.strip() for line in group_lines(found)[2:]]
    lines += [
        *_releases(found, assumed),
        "Named mode counts releases that pass Holm's first level; Holm recognizes somewhat more. "
        "Not on this page: the tests of Hoeffding, Bentkus and the empirical Bernstein "
        "inequality, slack and ramp scores, and hybrid, count, smooth, block and sequential mode; "
        "proxyguard plan compares them.",
        f"A false validation has probability {question.level:.3g} at the most"
        + (f", for each of {question.mechanisms} mechanisms." if question.mechanisms > 1 else "."),
    ]
    return lines


def _releases(found: Recommendation, assumed: Assumptions) -> list[str]:
    """Return in words how releases and records are taken to be."""
    records = f"{found.question.unit.capitalize()} are taken as drawn independently"
    if assumed.kinds is not None:
        return [
            "Releases are as the pilots are, each with its own margins; a slider moves those of all"
            f" in proportion. They differ by {assumed.spread:.0%}{_by_chance(assumed)}.",
            f"{records}; what a target's do to all pilots and requirements alike is read from the "
            "pilots' records, a few effects that are taken as normal.",
        ]
    missed = (
        "by the least there is" if assumed.excess == 0.0 else f"by {assumed.excess:.2g} margins"
    )
    return [
        f"Margins of valid releases are spread evenly by {assumed.spread:.0%} around the sliders; "
        f"invalid releases meet every requirement but one, which they miss {missed}.",
        f"{records}, and the losses of several requirements as independent of each other.",
    ]


def _by_chance(assumed: Assumptions) -> str:
    """Return what of the spread the few records of pilots make by chance, where it is much."""
    if assumed.chance_spread < 0.5 * assumed.spread or not assumed.chance_spread:
        return ""
    return (
        f" (a spread of {assumed.chance_spread:.0%} is what the chance of the pilots' few records "
        "gives where all releases are alike: pilots on more records would plan with less)"
    )
