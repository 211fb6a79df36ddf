"""A plan as text for people, as blocks for `audit.toml`, and as a picture.

`PlanReport` puts a recommendation, its stress test and its sequential counterpart into words and
plain values; `plan_toml` writes what is to be registered; `surfaces` computes power over records
and draws, one panel a mode, and `draw` makes a picture of it with the [plots] extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from proxyguard.exact.binomial import lower_tail
from proxyguard.exact.planning import records_to_screen
from proxyguard.extras import need
from proxyguard.modes.planning import AuditPlan, Choice, Way, least_size
from proxyguard.plan.law import Law
from proxyguard.plan.question import geometric, settings
from proxyguard.plan.recommend import Recommendation
from proxyguard.plan.search import (
    DOUBTED_MARGIN,
    EFFORT,
    Option,
    Power,
    Progress,
    affordable,
    bets_on,
    exact_power,
    power_on,
)
from proxyguard.plan.stress import SequentialForecast, Stress
from proxyguard.plan.targets import Targets
from proxyguard.printable import ShownAsPage, printable, toml, toml_key
from proxyguard.registry.design import Design, Iid, Stratified
from proxyguard.registry.test import Requirements

# The chance with which screened records are to be enough.
CERTAINTY = 0.95

if TYPE_CHECKING:
    from matplotlib.axis import Axis

    from proxyguard.documents.canonical import Plain


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanReport(ShownAsPage):
    """A recommendation with its stress test and its sequential counterpart."""

    found: Recommendation
    stress: tuple[Stress, ...] = ()
    sequential: SequentialForecast | None = None

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values, ready for JSON."""
        return {
            **self.found.to_dict(),
            "stress": [one.to_dict() for one in self.stress],
            "sequential": None if self.sequential is None else self.sequential.to_dict(),
            "toml": self.to_toml(),
        }

    def to_toml(self) -> str:
        """Return the blocks to put into `audit.toml`."""
        return plan_toml(self.found) + _sequential_toml(self.found, self.sequential)

    @property
    def hopeless(self) -> bool:
        """Whether no outcome at all could validate at the sizes that were fixed."""
        return bool(self.found.needs.obstacles) and self.found.chosen.power.value == 0.0

    def brief(self) -> str:
        """Return what a person reads first: the plan, its cost, and what else is worth knowing."""
        if self.hopeless:
            return str(self)
        found = self.found
        return "\n".join(
            [
                *_chosen_lines(found),
                *screening_lines(found.question.design),
                *_group_sizes(found),
                *_worth_knowing(found, self.sequential),
            ]
        )

    def __str__(self) -> str:
        if self.hopeless:
            return "\n".join(_hopeless_lines(self.found))
        return "\n".join(
            [
                *_chosen_lines(self.found),
                *_comparison_lines(self.found),
                "",
                *_way_lines(self.found.alternatives, self.found.question.unit),
                "",
                *_size_lines(self.found.sizes),
                *_stress_lines(self.stress),
                *_sequential_lines(self.found, self.sequential),
                "",
                *ramp_lines(self.found),
                *([""] if self.found.ramps else []),
                *_limit_lines(self.found),
                *screening_lines(self.found.question.design),
                *group_lines(self.found),
            ]
        )


def _hopeless_lines(found: Recommendation) -> list[str]:
    advice = "Leave a size open and ask for a power, or for the best within a budget."
    if found.question.budget is not None:
        advice = "A larger budget is needed; ask for a power instead to learn how large."
    return [
        *found.sizes_asked,
        *(f"This audit cannot succeed, because {why}." for why in found.needs.obstacles),
        advice,
    ]


def _chosen_lines(found: Recommendation) -> list[str]:
    option, law = found.chosen, found.law
    alike = "; records taken as drawn independently" * isinstance(found.question.design, Iid)
    if option.plan.strata is not None:
        alike = "; losses taken as alike in all strata, which keep weights and proportions"
    lines = [
        *found.summary,
        "",
        f"Cost {option.cost:,.10g}; {option.way.label}; tests: {option.way.tests}"
        f"{_settings(option)}.",
        f"Law: {law.origin}; {law.reliability:.1%} of releases valid{alike}.",
        *found.scope,
        f"If that is too hopeful (reliability {found.doubted_reliability:.1%}, margins "
        f"{1 - DOUBTED_MARGIN:.0%} smaller), the chance is {'at most ' * bool(found.scope)}"
        f"{found.doubted.words}.",
    ]
    lines += _group_words(law)
    if found.question.unit == "clusters":
        lines.append(
            "The unit is the cluster, and its loss the mean over its records: margins and standard "
            "deviations are those of cluster means, and pilot losses have a row a cluster."
        )
    if found.question.digits is not None:
        lines.append(
            f"Statistics are rounded to {found.question.digits} digits before they decide, "
            "as the disclosure is registered; every power here counts that."
        )
    return lines


def _comparison_lines(found: Recommendation) -> list[str]:
    """Return what the law's margins and the releases that stand for all may hide."""
    law, lines = found.law, []
    by_chance, margins = law.chance_spread, law.spread
    if np.any(by_chance > 0.5 * margins):
        lines.append(
            f"Margins of the pilots differ by {np.max(margins):.2g} of their range (standard "
            f"deviation), and {np.max(by_chance):.2g} is what the chance of their few records "
            "gives where all releases are alike: pilots on more records would plan with less."
        )
    if law.thinned() is not law:
        lines.append(
            f"Sizes and ways were compared on {law.thinned().releases.size} releases that stand "
            f"for all {law.releases.size:,}."
        )
    return lines


# What is told of other sizes: part of the cost, the draws or the chance that is missing.
CHEAPER, FEWER, SURER = 0.95, 0.6, 0.5
# By how much less a chance counts as about the same, and what is hardly worth a plan.
ABOUT, LEAST_CHANCE = 0.03, 0.5


def _worth_knowing(found: Recommendation, sequential: SequentialForecast | None) -> list[str]:
    """Return the few alternatives that a person may want, where there are any."""
    chosen, unit = found.chosen, found.question.unit
    # With the nearest requirements alone more is promised than all of them leave.
    most = "at most " * bool(found.scope)
    lines = [
        f"  {words}: {option.plan.n:,} {unit}, {option.plan.releases:,} draws, cost "
        f"{option.cost:,.10g}: {most}{option.power.words}"
        for words, option in _other_sizes(found).items()
    ]
    if sequential is not None:
        lines.append(
            f"  drawn one after the other: {sequential.expected_draws:.1f} draws on average, "
            f"{sequential.worst_draws:,} at the most: {most}{sequential.validation:.3f}"
        )
    recognizes = chosen.way.kind.recognizes
    unlike = [o for o in found.alternatives if o.way.kind.recognizes is not recognizes]
    if unlike:  # the best comes first
        best, says = unlike[0], "" if recognizes else " (also says which releases are valid)"
        lines.append(f"  {best.way.mode} mode{says}, same sizes: {most}{best.power.words}")
    return ["", "Other plans, and their chance:", *lines] if lines else []


def _other_sizes(found: Recommendation) -> dict[str, Option]:
    """Return a surer, a cheaper and a smaller plan among the sizes that were tried."""
    chosen = found.chosen
    chance, draws = chosen.power.value, chosen.plan.releases
    others = sorted((o for o in found.sizes if o.power.value >= LEAST_CHANCE), key=lambda o: o.cost)
    alike = [o for o in others if o.power.value >= chance - ABOUT]
    wanted = {
        "surer": [o for o in others if 1.0 - o.power.value <= SURER * (1.0 - chance)],
        "cheaper": sorted(
            (o for o in others if o.cost <= CHEAPER * chosen.cost), key=lambda o: -o.power.value
        ),
        "fewer draws": [o for o in alike if o.plan.releases <= FEWER * draws],
    }
    told: dict[str, Option] = {}
    for words, options in wanted.items():
        if options and all(options[0] is not known for known in told.values()):
            told[words] = options[0]
    return told


def _group_words(law: Law) -> list[str]:
    """Return which subgroups a law has, and that assumed ones share no record."""
    shares = _subgroups(law)
    if not shares:
        return []
    words = ", ".join(f"{group} {100 * share:.3g} %" for group, share in shares.items())
    if len(shares) > 1 and not law.joint:
        words += ", taken as separate: no record is in two of them. Requirements about one group "
        words += "name it alike"
    return [f"Groups: {words}."]


def _settings(option: Option) -> str:
    parts = [
        _setting(name, value)
        for name, value in option.plan.claim.registered().items()
        if not isinstance(value, Enum)  # bound and score are in the way's words
    ]
    slacks = {r.name: r.slack for r in option.requirements if r.slack is not None}
    if slacks:
        parts.append("slacks " + ", ".join(f"{name} {slack:g}" for name, slack in slacks.items()))
    ramps = {r.name: r.ramp for r in option.requirements if r.ramp is not None}
    if ramps:
        parts.append("ramps " + ", ".join(f"{name} {ramp:g}" for name, ramp in ramps.items()))
    return "; " + "; ".join(parts) if parts else ""


def _setting(name: str, value: Fraction | int) -> str:
    if name == "block_size":
        return f"blocks of {value}"
    digits = ".4g" if name == "threshold" else "g"
    return f"{name.replace('_', ' ')} {float(value):{digits}}"


def _way_lines(options: Sequence[Option], unit: str) -> list[str]:
    if not options:
        return []
    first = options[0].plan
    lines = [
        f"Every way, tuned, at {first.n:,} {unit} and {first.releases:,} draws:",
        f"  {'way':<30} {'tests':<22} {'power':>7}",
    ]
    for option in options:
        mark = "exact" if option.power.exact else f"+-{option.power.standard_error:.3f}"
        lines.append(
            f"  {option.way.label:<30} {option.way.tests:<22} {option.power.shown:>7} {mark}"
        )
    return lines


def _size_lines(options: Sequence[Option]) -> list[str]:
    lines = [
        "Sizes that were tried (power from the search, on few targets, but for the plan itself):",
        f"  {'n':>8} {'R':>6} {'cost':>12} {'power':>7}  best way",
    ]
    for option in sorted(options, key=lambda o: (o.plan.releases, o.plan.n)):
        lines.append(
            f"  {option.plan.n:>8,} {option.plan.releases:>6,} {option.cost:>12,.10g} "
            f"{option.power.shown:>7}  {option.way.label}, {option.way.tests}"
        )
    return lines


def _stress_lines(stress: Sequence[Stress]) -> list[str]:
    if not stress:
        return []
    lines = [
        "",
        "If the pilot was wrong (power of this plan; regret against the best plan on offer):",
        f"  {'reliability':>11} {'margin':>7} {'power':>7} {'error':>7} {'regret':>7}",
    ]
    lines += [
        f"  {s.reliability:>11.3f} {'x ' + format(s.margin_factor, 'g'):>7} {s.power:>7.3f} "
        f"{'exact' if s.standard_error == 0.0 else f'+-{s.standard_error:.3f}':>7} {s.regret:>7.3f}"
        for s in stress
    ]
    if any(s.standard_error > 0.0 for s in stress):
        lines.append("  all rows see the same records, so that their differences err by less")
    regrets = [s.regret for s in stress]
    lines.append(f"  mean regret {sum(regrets) / len(regrets):.3f}, largest {max(regrets):.3f}")
    return lines


def _sequential_lines(found: Recommendation, forecast: SequentialForecast | None) -> list[str]:
    if forecast is None:
        return []
    return [
        "",
        f"Drawn one look after the other ({forecast.boundary.looks.size} looks): "
        f"{forecast.expected_draws:.1f} draws on average{_error(forecast.standard_error)}, "
        f"{forecast.worst_draws} at the most, "
        f"validation with probability {forecast.validation:.3f}; fixed: "
        f"{found.chosen.plan.releases} draws.",
        "Exact, if the target gives this share of favorable scores:",
        *(
            f"  {rate:.3f}: {draws:.1f} draws on average, validation with probability "
            f"{validation:.3f}"
            for rate, draws, validation in forecast.at_rates
        ),
    ]


def _error(standard_error: float) -> str:
    return f" (Monte Carlo error {standard_error:.2g})" if standard_error > 0.0 else " (exact)"


def ramp_lines(found: Recommendation) -> list[str]:
    """Return what ramps of each width cost, the chosen ones marked; nothing without ramps."""
    if not found.ramps:
        return []
    requirements = found.chosen.requirements
    chosen = tuple(r.ramp for r in requirements)
    lines = [
        "Ramp widths, as shares of the releases' distance to the cutoff (score: their mean ramp",
        "score; bound: on the reliability, if draws score so; records: the fewest with which that",
        f"validates; widths: of {', '.join(r.name for r in requirements)}):",
        f"    {'share':>5} {'score':>7} {'kappa_h':>9} {'rho_h':>9} {'bound':>7} {'records':>11}"
        "  widths",
    ]
    for one in found.ramps:
        mark = "*" if one.ramps == chosen else " "
        records = "none" if one.records is None else f"{one.records:,}"
        widths = ", ".join(f"{ramp:g}" for ramp in one.ramps)
        if len(one.ramps) > 4:
            widths = f"{min(one.ramps):g} to {max(one.ramps):g}"
        lines.append(
            f"  {mark} {one.share:>5} {one.score:>7.3f} {one.kappa:>9.2g} {one.sensitivity:>9.2g} "
            f"{one.bound:>7.3f} {records:>11}  {widths}"
        )
    return lines


def _limit_lines(found: Recommendation) -> list[str]:
    needs, paper = found.needs, found.paper
    lines = ["Necessary, whatever the releases score:"]
    if needs.least_count is not None:
        lines.append(
            f"  {needs.least_count} favorable scores or recognized releases out of "
            f"{found.chosen.plan.releases}"
        )
    if needs.least_releases is not None:
        lines.append(f"  {needs.least_releases} draws, if all of them score")
    if needs.least_records is not None:
        lines.append(f"  {needs.least_records} {found.question.unit}, if no loss is ever made")
    if needs.largest_threshold is not None:
        lines.append(f"  a threshold of at most {needs.largest_threshold:.4g}")
    lines.append("The paper's limits, budgets split in halves:")
    lines.append(f"  Proposition 18: {paper.least_releases} draws in named mode")
    if paper.least_records is not None:
        lines.append(
            f"  Proposition 14: {paper.least_records} {found.question.unit} for these slacks"
        )
    if paper.sufficient_records is not None:
        lines.append(
            f"  Proposition 17: {paper.sufficient_records:,} {found.question.unit} suffice for "
            "named mode "
            "(Hoeffding tests)"
        )
    if paper.direct_shortfall is not None and paper.direct_shortfall < 1.0:
        lines.append(
            f"  Theorem 15: the paper's direct bound lies at most {paper.direct_shortfall:.3f} "
            "below the reliability, in nine of ten audits"
        )
    return lines


def screening_lines(design: Design) -> list[str]:
    """Return what it takes to find the records of the stratum that is rarest for its size.

    Nothing where every stratum has its share of the records: then none is looked for.
    """
    if not isinstance(design, Stratified):
        return []
    rarest = max(design.sizes, key=lambda name: design.sizes[name] / design.weights[name])
    size, weight = design.sizes[rarest], float(design.weights[rarest])
    mean, certain = records_to_screen(size, weight, certainty=CERTAINTY)
    if mean <= design.n_records:
        return []
    return [
        f"To find {size:,} records of stratum {rarest!r} about {mean:,} are screened where the "
        f"population has it at its weight of {weight:g}, {certain:,} for a chance of "
        f"{CERTAINTY:g}; the cost above has none of that."
    ]


def group_lines(found: Recommendation) -> list[str]:
    """Return how many records each subgroup will have, and what it takes to find them."""
    law, question, n = found.law, found.question, found.chosen.plan.n
    if law.counting is None:
        return []
    lines = ["", "Subgroups (how many records they will have is random; every chance counts that):"]
    for group, share in _subgroups(law).items():
        mean = round(n * share)
        few = _at_least_sure(n, share)
        about, certain = records_to_screen(max(1, mean), share, certainty=CERTAINTY)
        lines += [
            f"  {group}: {share:.3g} of the records; about {mean:,} of the {n:,}, at least {few:,} "
            f"with a chance of {CERTAINTY:g}",
            f"  {group}: a stratum of {max(1, mean):,} such records means about {about:,} "
            f"screened, {certain:,} for a chance of {CERTAINTY:g}: strata save no screening",
        ]
    lines.append(
        f"  cost of a record: {question.screening_cost:g} for screening, and "
        f"{question.record_cost:g} for {question.labelled:.3g} of them, those that some "
        "requirement is about"
    )
    return lines


def _group_sizes(found: Recommendation) -> list[str]:
    """Return how many records each subgroup will have, about and at the least."""
    n = found.chosen.plan.n
    if found.law.counting is None:
        return []
    return [
        f"  {group}: about {round(n * share):,} of the {n:,} records, at least "
        f"{_at_least_sure(n, share):,} with a chance of {CERTAINTY:g}"
        for group, share in _subgroups(found.law).items()
    ]


def _subgroups(law: Law) -> dict[str, float]:
    """Return the share of the records that each subgroup has."""
    named = zip(law.requirements, law.shares, strict=True)
    # Chances of all records are a rounded sum too, below 1 by a last digit.
    return {r.group: float(share) for r, share in named if r.group is not None}


def _at_least_sure(n: int, share: float) -> int:
    """Return how many of ``n`` records a subgroup has at the least, with `CERTAINTY`."""
    return least_size(lambda count: float(lower_tail(count, n, share)) > 1.0 - CERTAINTY, 1, n)


def plan_toml(found: Recommendation) -> str:
    """Return the ``[claim]`` and ``[plan]`` blocks, with what else has to be set, as TOML."""
    option, law = found.chosen, found.law
    plan, claim = option.plan, option.plan.claim
    lines = [
        f"# target: {plan.n} {found.question.unit}; every mechanism: draws = {plan.releases}",
    ]
    if found.question.unit != "records":
        lines.append("# the records of [plan] are clusters")
    if plan.digits is not None:
        lines.append(f"# at the top of the file: disclosure = {{ digits = {plan.digits} }}")
    for requirement in option.requirements:
        if requirement.slack is not None:
            ramp = "" if requirement.ramp is None else f', ramp = "{requirement.ramp!r}"'
            name = printable(requirement.name)
            lines.append(f'# requirement {name}: slack = "{requirement.slack!r}"{ramp}')
    if found.ramps:
        lines.append(
            '# or at registration, by a [[pilot]]: ramp = { width = "development", pilot = "NAME" }'
        )
        lines += [f"# {line}" for line in ramp_lines(found)]
    lines += ["[claim]", f'mode = "{claim.mode}"']
    if option.way.test is not None:
        lines.append(f'test = "{option.way.test.value}"')
    lines += [f"{name} = {_toml(value)}" for name, value in claim.registered().items()]
    assert claim.reliability_target is not None  # a claim about a mechanism
    lines += [
        f'reliability_target = "{decimal_text(claim.reliability_target)}"',
        f'alpha = "{decimal_text(claim.alpha)}"',
        "",
        "[plan]",
        f"records = {plan.n}",
        f"draws = {plan.releases}",
        f'power = "{option.power.shown}"',
        f'reliability = "{law.reliability:.4g}"',
        f"origin = {toml(law.origin)}",
        f'cost = "{option.cost:.10g}"',
        f"seed = {found.seed}",
        "[plan.margins]",
        *(
            f'{toml_key(r.name)} = "{float(margin):.6g}"'
            for r, margin in zip(law.requirements, law.margins, strict=True)
        ),
    ]
    return "\n".join(lines) + "\n"


def _sequential_toml(found: Recommendation, forecast: SequentialForecast | None) -> str:
    """Return the sequential claim as a comment: one file has one claim."""
    if forecast is None:
        return ""
    plan = found.chosen.plan
    threshold = plan.levels(found.chosen.requirements).threshold
    looks = ", ".join(str(int(look)) for look in forecast.boundary.looks)
    assert plan.claim.reliability_target is not None  # a claim about a mechanism
    lines = [
        "# To draw until a look settles it, one mechanism with as many draws as the last look:",
        "# [claim]",
        '# mode = "sequential"',
        f"# looks = [{looks}]",
        f'# threshold = "{decimal_text(threshold)}"',
        f'# reliability_target = "{decimal_text(plan.claim.reliability_target)}"',
        f'# alpha = "{decimal_text(plan.claim.alpha)}"',
    ]
    return "\n" + "\n".join(lines) + "\n"


def _toml(value: Choice) -> str:
    """Return a choice as it is registered: levels as exact text, whole numbers as such."""
    if isinstance(value, int):
        return str(value)
    return toml(value.value if isinstance(value, Enum) else decimal_text(value))


def decimal_text(value: Fraction) -> str:
    """Return a level as it can be registered: a decimal if it is one, else a fraction."""
    text = f"{float(value):.12g}"
    if "e" not in text and Fraction(text) == value:
        return text
    return str(value)


# Records, and draws, along each axis.
STEPS = 7

REPETITIONS = 120


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surface:
    """Power of one way over sizes, tuned at each of them."""

    label: str
    records: tuple[int, ...]
    releases: tuple[int, ...]
    power: NDArray[np.float64]  # (releases, records)

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values."""
        return {
            "label": self.label,
            "records": list(self.records),
            "releases": list(self.releases),
            "power": self.power.tolist(),
        }


def surfaces(
    found: Recommendation,
    *,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
) -> list[Surface]:
    """Return the power of the strongest way of every mode around the chosen sizes."""
    plan, least = found.chosen.plan, found.question.least_releases
    records = geometric(max(20, plan.n // 4), min(plan.n * 4, 40_000), STEPS)
    releases = geometric(least, max(4 * plan.releases, 2 * least), STEPS)
    best = _one_a_mode((found.chosen, *found.alternatives))
    ways = [option.way for option in best]
    chances = chances_over(found, ways, (records, releases), seed=seed, progress=progress)
    return [
        Surface(
            label=_label(option), records=tuple(records), releases=tuple(releases),
            power=chances[place, :, :, 0],
        )
        for place, option in enumerate(best)
    ]  # fmt: skip


def chances_over(
    found: Recommendation, ways: Sequence[Way], sizes: tuple[Sequence[int], Sequence[int]], *,
    seed: int = 0, repetitions: int = REPETITIONS, effort: float = EFFORT,
    progress: Progress = lambda what, done, total: None,
) -> NDArray[np.float64]:  # fmt: skip
    """Return the power of ways, tuned at each of the sizes, with its error.

    An array (ways, numbers of draws, numbers of records, 2). Where a plan is judged on more
    requirements than it was found with, so is every size.
    """
    (records, releases), question = sizes, found.question
    law, judged = found.law.thinned(), found.judged.thinned()
    chances = np.zeros((len(ways), len(releases), len(records), 2))
    for column, n in enumerate(records):
        few = {way: affordable(bets_on(law, n, way), effort, repetitions) for way in ways}
        kept, every = (
            {
                size: Targets(
                    one, n, repetitions=size, seed=seed, aim=_aim(found.chosen),
                    digits=question.digits, strata=question.strata(n),
                )
                for size in few.values()
            }
            for one in (law, judged)
        )  # fmt: skip
        for place, way in enumerate(ways):
            targets = kept[few[way]]
            for row, count in enumerate(releases):
                options = settings(way, question, law, n, count)
                powers = [(_power(targets, *setting), setting) for setting in options]
                if not powers:
                    continue
                best, (plan, tuned) = max(powers, key=lambda made: made[0].value)
                if judged.others is not None and best.value > 0.0:
                    best = _power(every[few[way]], plan, tuned)
                chances[place, row, column] = best.value, best.standard_error
        progress("picture", column + 1, len(records))
    return chances


def _one_a_mode(options: Sequence[Option]) -> list[Option]:
    found: dict[object, Option] = {}
    for option in options:  # the chosen one, then the strongest first
        found.setdefault(option.way.mode, option)
    return list(found.values())


def _label(option: Option) -> str:
    tests = option.way.tests
    return option.way.label if tests == "-" else f"{option.way.label}: {tests.replace('_', ' ')}"


def _plain_ticks(axis: Axis, values: Sequence[int]) -> None:
    """Mark every second value by a plain number."""
    shown = values[::2]
    axis.set_ticks(shown, labels=[f"{value:,}" for value in shown])
    axis.set_ticks([], minor=True)


def _aim(option: Option) -> float | None:
    threshold = option.plan.claim.registered().get("threshold")
    return float(threshold) if isinstance(threshold, Fraction) else None


def _power(targets: Targets, plan: AuditPlan, requirements: Requirements) -> Power:
    exact = exact_power(targets.law.requiring(requirements), plan)
    if exact is not None:
        return Power(value=exact, standard_error=0.0, repetitions=0)
    return power_on(targets.requiring(requirements), plan)


def draw(panels: Sequence[Surface], chosen: Option) -> bytes:
    """Return the picture as PNG."""
    need("a picture", ["matplotlib"], "plots")
    from matplotlib.figure import Figure

    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.6 * columns + 0.9, 3.2 * rows + 0.7), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    image = None
    for axis, surface in zip(axes.flat, panels, strict=False):
        image = axis.pcolormesh(
            surface.records, surface.releases, surface.power, cmap="cividis", vmin=0, vmax=1,
            shading="gouraud",
        )  # fmt: skip
        if surface.power.min() < 0.8 < surface.power.max():
            line = axis.contour(
                surface.records, surface.releases, surface.power, levels=[0.8], colors="black",
                linewidths=1.5,
            )  # fmt: skip
            axis.clabel(line, fmt={0.8: "80 %"}, fontsize=8)
        axis.set_xscale("log")
        axis.set_yscale("log")
        _plain_ticks(axis.xaxis, surface.records)
        _plain_ticks(axis.yaxis, surface.releases)
        axis.set_title(surface.label, fontsize=10, loc="left")
        if surface.label == _label(chosen):
            axis.plot(
                chosen.plan.n, chosen.plan.releases, marker="*", markersize=14,
                color="white", markeredgecolor="black",
            )  # fmt: skip
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for index, axis in enumerate(axes.flat[: len(panels)]):
        if index + columns >= len(panels):  # nothing below it
            axis.set_xlabel("target records n")
            axis.xaxis.set_tick_params(labelbottom=True)
    for axis in axes[:, 0]:
        axis.set_ylabel("draws R")
    if image is not None:
        figure.colorbar(image, ax=axes, label="chance of validation", shrink=0.9)
    figure.suptitle(
        f"Chance of validating a reliability above {chosen.plan.claim.target:g}; "
        "the star is the plan",
        fontsize=11, x=0.01, ha="left",
    )  # fmt: skip
    out = BytesIO()
    figure.savefig(out, format="png", dpi=130, metadata={"Software": None})
    return out.getvalue()
