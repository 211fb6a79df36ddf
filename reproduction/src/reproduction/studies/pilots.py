"""The pilots of B11 to B14: the grids that the confirmatory studies were registered from.

A selection reads every cell of its grid, and a row belongs to one cell. So a pilot that selects
is one cell that simulates its whole grid, and all its repetitions are one block: the selection
comes from all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from reproduction.studies.mode_targets import (
    HIGH_SIGNAL,
    MODERATE,
    Design,
    FixedScaleTarget,
    Model,
    SmoothedTarget,
    Target,
)
from reproduction.studies.modes import direct_by, named_by, simulate
from reproduction.studies.passing import Decisions
from reproduction.studies.shared_target import false_pass, oracle_power, shared_target
from reproduction.studies.smooth_target import Means, Ramp
from reproduction.studies.study import (
    Cell,
    Outcome,
    Published,
    Status,
    Study,
    Sums,
    Wanted,
    grid,
)

ALPHA, TARGET = 0.05, 0.8
ONE_BLOCK = 10**9
"""More repetitions than any run: a selection is made once, from all of them."""

ETAS = (0.80, 0.90, 0.95)
RELEASE_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)  # phi
TARGET_SHARES = (0.25, 0.5, 0.75, 0.9)  # f

Setting = tuple[float, ...]


def tune(validated: Mapping[Setting, int]) -> Setting:
    """Return the setting that validated most often; ties go to the smallest, part by part.

    Counts over reliabilities with equal repetitions order settings by mean power, without ties
    being left to rounding.
    """
    return min(validated, key=lambda setting: (-validated[setting], setting))


def _named_method(setting: Setting) -> str:
    return f"named, phi = {setting[0]:g}"


def _direct_method(setting: Setting) -> str:
    return f"direct, f = {setting[0]:g}, slack = {setting[1]:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModePilot:
    """The grid of one pilot of B12."""

    model: Model
    design: Design
    slacks: tuple[float, ...]

    def named(self) -> tuple[Setting, ...]:
        """Return the settings of named mode: shares of the error for releases."""
        return tuple((phi,) for phi in RELEASE_SHARES)

    def direct(self) -> tuple[Setting, ...]:
        """Return the settings of direct mode: shares of the error for the target, and slacks."""
        return tuple((f, slack) for f in TARGET_SHARES for slack in self.slacks)

    def methods(self) -> dict[str, Status]:
        """Return a method for every setting, and one for the selection."""
        names = [_named_method(s) for s in self.named()]
        names += [_direct_method(s) for s in self.direct()]
        return dict.fromkeys([*names, "selected"], Status.REGISTERED)


def _settings(pilot: ModePilot, target: Target) -> dict[str, Callable[[], Decisions]]:
    """Return what each setting decides, all of them on the same draws."""
    shape, n = target.releases.shape, target.n
    scores = cache(target.slack)

    def direct(f: float, slack: float) -> Decisions:
        design = replace(pilot.design, target_share=f, slack=slack)
        return direct_by(scores(slack), (shape[1], n), design, ALPHA)

    named = {
        _named_method((phi,)): partial(named_by, target.bernstein, shape, phi, ALPHA)
        for (phi,) in pilot.named()
    }
    return {**named, **{_direct_method(one): partial(direct, *one) for one in pilot.direct()}}


def _sizes(repetitions: int, size: int = 50) -> list[int]:
    """Return parts of at most ``size``: what stays in the cache."""
    return [min(size, repetitions - done) for done in range(0, repetitions, size)]


def _validated_at(eta: float) -> str:
    return f"validated at {eta:.2f}"


def tune_modes(
    pilot: ModePilot, cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted
) -> Outcome:
    """Return the powers of every setting and the selected ones, from all of the draws."""
    evaluated = pilot.methods().keys() if "selected" in wanted else wanted
    found: dict[tuple[str, str], Sums] = {}
    for eta in ETAS:
        for size in _sizes(repetitions):
            target = simulate(pilot.model, pilot.design, {**cell, "eta": eta}, rng, size)
            for method, decide in _settings(pilot, target).items():
                if method in evaluated:
                    key = (method, _validated_at(eta))
                    found[key] = found.get(key, Sums(0, 0.0, 0.0)) + Sums.of(decide())
    if "selected" in wanted:
        found |= _selected(pilot, found)
    return {key: sums for key, sums in found.items() if key[0] in wanted}


def _selected(
    pilot: ModePilot, found: Mapping[tuple[str, str], Sums]
) -> dict[tuple[str, str], Sums]:
    """Return the settings of largest mean power over the two reliabilities above the target."""

    def powers(method: str) -> int:
        return round(sum(found[method, _validated_at(eta)].total for eta in ETAS[1:]))

    (phi,) = tune({setting: powers(_named_method(setting)) for setting in pilot.named()})
    f, slack = tune({setting: powers(_direct_method(setting)) for setting in pilot.direct()})
    parts = {"phi": phi, "f": f, "slack": slack}
    return {("selected", f"selected {part}"): Sums.of([one]) for part, one in parts.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothRates:
    """What the rule of B14's second pilot reads about one setting."""

    boundary: float  # smooth validation at reliability .80
    power: float  # smooth validation at .99
    hard_markov: float  # at .99
    ramp_markov: float  # at .99

    @property
    def eligible(self) -> bool:
        """Whether the smooth certificate holds its level, has power, and Markov has none."""
        markov = max(self.hard_markov, self.ramp_markov)
        return self.boundary <= 0.05 and self.power >= 0.80 and markov <= 0.10


def choose_smooth(rates: Mapping[Ramp, SmoothRates]) -> Ramp | None:
    """Return the eligible setting of fewest R, then least n, most power and narrowest ramp."""
    eligible = [ramp for ramp, found in rates.items() if found.eligible]
    return min(eligible, key=lambda r: (r.releases, r.n, -rates[r].power, r.ramp), default=None)


SMOOTH_GRID = tuple(
    Ramp(releases=cell["R"], n=cell["n"], ramp=cell["ramp"])
    for cell in grid(R=(250, 500, 1000), n=(100, 200, 400), ramp=(0.4, 0.5, 0.6, 0.7))
)


def _smooth_method(ramp: Ramp) -> str:
    return f"R = {ramp.releases}, n = {ramp.n}, ramp = {ramp.ramp:g}"


def _smooth_sums(ramp: Ramp, rng: np.random.Generator, repetitions: int) -> dict[str, Sums]:
    boundary, power = (Means(rng, eta, repetitions, ramp) for eta in (TARGET, 0.99))
    bounds = {
        "boundary": boundary.concentration(),
        "power": power.concentration(),
        "hard + Markov power": power.hard_markov(),
        "ramp + Markov power": power.ramp_markov(),
    }
    return {metric: Sums.of(bound > TARGET) for metric, bound in bounds.items()}


def tune_smooth(cell: Cell, rng: np.random.Generator, repetitions: int, wanted: Wanted) -> Outcome:
    """Return the rates of every setting, how many are eligible, and the selected one.

    All settings are drawn, whichever are wanted: the draws of one follow those of another.
    """
    found: dict[tuple[str, str], Sums] = {}
    rates: dict[Ramp, SmoothRates] = {}
    for ramp in SMOOTH_GRID:
        sums = _smooth_sums(ramp, rng, repetitions)
        rates[ramp] = SmoothRates(
            boundary=sums["boundary"].mean,
            power=sums["power"].mean,
            hard_markov=sums["hard + Markov power"].mean,
            ramp_markov=sums["ramp + Markov power"].mean,
        )
        found |= {(_smooth_method(ramp), metric): one for metric, one in sums.items()}
    found["selected", "eligible settings"] = Sums.of([sum(r.eligible for r in rates.values())])
    chosen = choose_smooth(rates)
    # Zeros where nothing is eligible: a selection that is missing must be seen to differ.
    parts = (0, 0, 0.0) if chosen is None else (chosen.releases, chosen.n, chosen.ramp)
    for part, value in zip(("R", "n", "ramp"), parts, strict=True):
        found["selected", f"selected {part}"] = Sums.of([value])
    return {key: sums for key, sums in found.items() if key[0] in wanted}


def _selection(values: Mapping[str, float]) -> dict[tuple[int, str, str], Published]:
    """Return a published selection: each part of it, as it was registered."""
    return {
        (0, "selected", f"selected {part}"): Published(value=value, digits=3)
        for part, value in values.items()
    }


def _mode_pilot(name: str, pilot: ModePilot, *, seed: int, repetitions: int, near: str) -> Study:
    """Return one pilot of B12; ``near`` says which of its choices is close."""
    selected = {
        "phi": pilot.design.release_share, "f": pilot.design.target_share,
        "slack": pilot.design.slack,
    }  # fmt: skip
    return Study(
        name=name,
        paper="pilot of Table direct_multirequirement",
        seed=seed,
        repetitions=repetitions,
        cells=({"R": 1000, "n": 1000},),
        simulate=partial(tune_modes, pilot),
        methods=pilot.methods(),
        published=_selection(selected),
        block=ONE_BLOCK,
        differs=f"Independent seeds, and a selection has no standard error: {near}",
    )


def _oracle(cell: Cell) -> Mapping[tuple[str, str], float]:
    return {("oracle", "validated"): oracle_power(cell["R"], cell.get("eta", TARGET))}


def _statuses(registered: Sequence[str]) -> dict[str, Status]:
    return {**dict.fromkeys(registered, Status.REGISTERED), "oracle": Status.ORACLE}


SHARED_TARGET_PILOT = Study(
    name="shared-target-pilot",
    paper="pilot of Table conditional_shared_target",
    seed=7285101,
    repetitions=100,
    cells=grid(R=(250, 1000), n=(500, 1000, 2000), eta=ETAS),
    simulate=shared_target,
    exact=_oracle,
    block=100,
    methods=_statuses(("named", "direct")),
    differs=(
        "Independent seeds; neither its figures nor its slacks were published, so every size is "
        "run with the slack and the split that were registered after it."
    ),
)
MODE_COMPARISON_PILOT = _mode_pilot(
    "mode-comparison-pilot",
    ModePilot(model=SmoothedTarget, design=MODERATE, slacks=(0.055, 0.06, 0.065, 0.07)),
    seed=9927017,
    repetitions=150,
    near=(
        "mean powers at phi .75 and .9 are .041 and .048 (3,000 repetitions); of 60 runs with "
        "other seeds 55 select .9, four .75 and one .5."
    ),
)
MODE_COMPARISON_HIGH_SIGNAL_PILOT = _mode_pilot(
    "mode-comparison-high-signal-pilot",
    ModePilot(model=FixedScaleTarget, design=HIGH_SIGNAL, slacks=(0.05, 0.06, 0.07, 0.08)),
    seed=8831041,
    repetitions=200,
    near=(
        "mean powers at slack .06 are .9990, .9995 and .9995 for f .5, .75 and .9 (2,000 "
        "repetitions), and a tie goes to the least; of 60 runs with other seeds 58 select f .5. "
        "All five phi have power 1, so .1 is a tie."
    ),
)
FALSE_PASS_PILOT = Study(
    name="false-pass-pilot",
    paper="pilot of Table false_pass_diagnostic",
    seed=9932401,
    repetitions=300,
    cells=grid(R=(250, 1000), n=(100, 250, 500, 1000), slack=(0.005, 0.01, 0.02, 0.03)),
    simulate=false_pass,
    exact=_oracle,
    block=300,
    methods={"score only": Status.INVALID, **_statuses(("direct",))},
    differs=(
        "Independent seeds; neither its figures nor the rule that chose R = 250, n = 1000 and "
        "slack .01 were published, so nothing is selected."
    ),
)
SMOOTH_TARGET_PILOT = Study(
    name="smooth-target-pilot",
    paper="pilot of Table smooth_target_concentration",
    seed=8172602,
    repetitions=300,
    cells=({"reliabilities": "0.80, 0.99"},),
    simulate=tune_smooth,
    methods={
        **dict.fromkeys(map(_smooth_method, SMOOTH_GRID), Status.REGISTERED),
        "selected": Status.REGISTERED,
    },
    published=_selection({"R": 500, "n": 200, "ramp": 0.6}),
    block=ONE_BLOCK,
    differs=(
        "Independent seeds; the second pilot's rule on a grid of our own, since its grid was not "
        "published: slack .05 (at .10 nothing is eligible), R 250 to 1000, n 100 to 400, ramp .4 "
        "to .7. The first pilot (seed 8172601, 200 repetitions), which found nothing, is left "
        "out: its grid was not published."
    ),
)
