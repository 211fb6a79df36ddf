"""Power over records and draws, one panel a mode: data here, drawn with the [plots] extra."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyguard.errors import RegistryError
from proxyguard.plan.power import exact_power, power_on
from proxyguard.plan.question import geometric
from proxyguard.plan.recommend import Recommendation
from proxyguard.plan.search import Option, Progress
from proxyguard.plan.targets import Targets
from proxyguard.plan.ways import settings

STEPS = 7
"""Records, and draws, along each axis."""

REPETITIONS = 120


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surface:
    """Power of one way over sizes, tuned at each of them."""

    label: str
    records: tuple[int, ...]
    releases: tuple[int, ...]
    power: NDArray[np.float64]  # (releases, records)

    def to_dict(self) -> dict[str, Any]:
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
    plan, question, law = found.chosen.plan, found.question, found.law
    records = geometric(max(20, plan.n // 4), min(plan.n * 4, 40_000), STEPS)
    least = question.least_releases
    releases = geometric(least, max(4 * plan.releases, 2 * least), STEPS)
    best = _one_a_mode((found.chosen, *found.alternatives))
    power = np.zeros((len(best), len(releases), len(records)))
    for column, n in enumerate(records):
        targets = Targets(
            law, n, repetitions=REPETITIONS, seed=seed, aim=_aim(found.chosen),
            digits=question.digits,
        )  # fmt: skip
        for row, count in enumerate(releases):
            for panel, option in enumerate(best):
                power[panel, row, column] = max(
                    (
                        _value(targets, audit, requirements)
                        for audit, requirements in settings(option.way, question, law, n, count)
                    ),
                    default=0.0,
                )
        progress("picture", column + 1, len(records))
    return [
        Surface(
            label=_label(option), records=tuple(records), releases=tuple(releases),
            power=power[panel],
        )
        for panel, option in enumerate(best)
    ]  # fmt: skip


def _one_a_mode(options: Sequence[Option]) -> list[Option]:
    found: dict[object, Option] = {}
    for option in options:  # the chosen one, then the strongest first
        found.setdefault(option.way.mode, option)
    return list(found.values())


def _label(option: Option) -> str:
    tests = option.way.tests
    return option.way.label if tests == "-" else f"{option.way.label}: {tests.replace('_', ' ')}"


def _plain_ticks(axis: Any, values: Sequence[int]) -> None:
    """Mark every second value by a plain number."""
    shown = values[::2]
    axis.set_ticks(shown, labels=[f"{value:,}" for value in shown])
    axis.set_ticks([], minor=True)


def _aim(option: Option) -> float | None:
    threshold = option.plan.claim.registered().get("threshold")
    return float(threshold) if isinstance(threshold, Fraction) else None


def _value(targets: Targets, audit: Any, requirements: Any) -> float:
    exact = exact_power(targets.law.requiring(requirements), audit)
    return exact if exact is not None else power_on(targets.requiring(requirements), audit).value


def draw(panels: Sequence[Surface], chosen: Option) -> bytes:
    """Return the picture as PNG."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise RegistryError(
            'a picture needs matplotlib: pip install "proxyguard[plots]"'
        ) from error
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
