"""What sections of docs/audits.md show of known generators besides their audits.

Of draws that are kept: how they were made, and at which cost. Of a workload that contains the
outcome: what the paper's own analysis says of its draws, so that workload and claim are not
confounded. Of the degraded TVAE: how often a release has one class only, over more draws than the
audit has (`python -m reproduction.audits.generators` counts them).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import proxyguard as pg
from proxyguard.draw.catalog import load_generator
from proxyguard.draw.protocol import Seed
from proxyguard.exact.multiplicity import holm
from proxyguard.modes.catalog import mechanism_claim
from proxyguard.registry.declaration import read_declaration
from reproduction.audits.analyse import NOT_REGISTERED, Comparison, Run, analyse, measured
from reproduction.audits.benchmarks import rice_parts
from reproduction.audits.details import bound
from reproduction.audits.kept import KEPT, Manifest, manifest_of, missing, recipes_of
from reproduction.audits.published import NAMED, Published
from reproduction.audits.tables import say, table
from reproduction.datasets import load
from reproduction.files import write_atomic

HERE = Path(__file__).parent
SINGLE_CLASS = "rice-single-class.json"
"""In the work folder."""
DRAWS, TOGETHER = 200, 50
RICE, DEGRADED = "rice-tvae", "degraded"
SHOWN = ("workload", "pairs", "rho", "bins", "max_size", "rounds")
"""Settings of kept draws that the document names, where a generator has them."""


def count_single_class(draws: int = DRAWS) -> dict[str, int]:
    """Return how many releases of the degraded TVAE have one class only, and how many failed."""
    declared = read_declaration((HERE / RICE / "audit.toml").read_text("utf-8"))
    (degraded,) = (m for m in declared.mechanism if m.name == DEGRADED)
    generator: Any = load_generator(str(degraded.generator), degraded.options)
    rice = load.rice()
    source, _, _ = rice_parts(len(rice))
    generator.prepare(rice.iloc[source].reset_index(drop=True), np.random.default_rng(0))
    seeds = [Seed(degraded.seed_list[0] + i) for i in range(draws)]
    single = failed = 0
    for begin in range(0, draws, TOGETHER):
        for release in generator.draw_many(seeds[begin : begin + TOGETHER]):
            if isinstance(release, Exception):
                failed += 1
            else:
                single += int(release["Class"].nunique() < 2)
    return {"draws": draws, "single": single, "failed": failed}


def write_single_class(path: Path) -> None:
    """Write these counts, unless they are there."""
    if not path.exists():
        write_atomic(path, json.dumps(count_single_class(), indent=1).encode() + b"\n")


def single_class(name: str, run: Run, published: Published) -> list[Comparison]:
    """Return the published number of releases with one class beside that of more draws of ours."""
    path = run.paper.folder.path.parent / SINGLE_CLASS
    if published.single_class is None or not path.exists():
        return []
    found = json.loads(path.read_text("utf-8"))
    row = published.rows[DEGRADED]
    return [
        Comparison(
            audit=name, mechanism=DEGRADED, what="releases with one class",
            published=(published.single_class, row.releases),
            here=(found["single"], found["draws"] - found["failed"]),
        )
    ]  # fmt: skip


def component_violations(name: str, run: Run, published: Published) -> list[Comparison]:
    """Return in how many releases each requirement is violated, corrected over all of them."""
    wanted = {n: m.violations for n, m in published.means.items() if m.violations is not None}
    if not wanted:
        return []
    ((mechanism, row),) = published.rows.items()
    pvalues = measured(run.paper, mechanism, "violation_pvalue")
    declared = run.paper.folder.registry(run.paper.journal()).declaration.claim
    common = {"reliability_target": declared.reliability_target, "alpha": declared.alpha,
              "beta": declared.beta}  # fmt: skip
    levels = mechanism_claim({**common, **published.claims[NAMED]}).levels(
        n_releases=len(pvalues), n_requirements=pvalues.shape[1], share=Fraction(1)
    )
    assert levels.upper is not None  # the paper claims violations too
    found = holm(pvalues.to_numpy().ravel(), alpha=float(levels.upper["beta_R"]))
    counts = np.asarray(found).reshape(pvalues.shape).sum(axis=0)
    here = dict(zip(pvalues.columns, counts.tolist(), strict=True))
    return [
        Comparison(audit=name, mechanism=mechanism, what=f"violations of {requirement}",
                   published=(count, row.releases), here=(here[requirement], len(pvalues)))
        for requirement, count in wanted.items()
    ]  # fmt: skip


def kept_draws(run: Run) -> str:
    """Return how the draws that are kept were made, and what they cost."""
    names = [audit.certificate().name for audit in (run.paper, run.ours, *run.variants) if audit]
    rows = [
        (f"`{recipe.folder}`", *_cells(manifest))
        for name in names
        for recipe in recipes_of(name)
        if (manifest := manifest_of(KEPT / recipe.folder)) is not None
    ]
    if not rows:
        return ""
    columns = ("draws", "settings", "made", "failed", "CPU seconds a draw", "in all", "with")
    return say("kept") + table(columns, rows)


def not_drawn(name: str, draws: int | None = None) -> str:
    """Return in words how many of an audit's kept draws are there, if some are missing."""
    recipes = recipes_of(name)
    wanted = sum(len(recipe.seeds[:draws]) for recipe in recipes)
    made = wanted - sum(len(missing(recipe, KEPT, draws)) for recipe in recipes)
    return "" if made == wanted else f"{made} of its {wanted} draws are made"


def _cells(manifest: Manifest) -> tuple[object, ...]:
    seconds = [draw.seconds for draw in manifest.draws]
    versions = sorted(
        {f"{name} {number}" for draw in manifest.draws for name, number in draw.versions.items()}
    )
    told = {name: manifest.settings.get(name) for name in SHOWN}
    settings = ", ".join(f"{name} {said}" for name, said in told.items() if said is not None)
    return (
        settings, len(seconds), sum(draw.failure is not None for draw in manifest.draws),
        f"{np.mean(seconds):.0f}", f"{sum(seconds):.0f}", ", ".join(versions),
    )  # fmt: skip


def other_workload(run: Run, published: Published) -> str:
    """Return the paper's analysis of its draws, and of those with another workload or bins."""
    if run.ours is None:
        name = f"{run.paper.certificate().name}-ours"
        return say("ours_not_drawn", name=name, lacking=not_drawn(name))
    if not recipes_of(run.ours.certificate().name) or NAMED not in published.claims:
        return ""
    audits = {
        "published workload": run.paper,
        "pairs with the outcome": run.ours,
        **{f"`{audit.certificate().name}`": audit for audit in run.variants},
    }
    found = {what: analyse(audit, published.claims[NAMED]) for what, audit in audits.items()}
    rows = [
        (mechanism, *(_both(bounds, mechanism) for bounds in found.values()),
         *(_auc(audit, mechanism) for audit in audits.values()))
        for mechanism in found["published workload"]
    ]  # fmt: skip
    columns = ("mechanism", *audits, *(f"mean AUC, {what}" for what in audits))
    return say("other_workload", mark=NOT_REGISTERED) + table(columns, rows)


def _both(found: Mapping[str, Any], mechanism: str) -> str:
    one = found[mechanism]
    return f"{one.violations} violations; recognized {bound(one)}: {one.decision}"


def _auc(audit: pg.Audit, mechanism: str) -> str:
    diagnostics = audit.certificate().predicate.diagnostics
    areas = (diagnostics.auc or {}).get(mechanism, {}) if diagnostics is not None else {}
    known = [area for area in areas.values() if area is not None]
    return f"{np.mean(known):.3f}" if known else ""


def main() -> None:
    """Count the releases of the degraded TVAE that have one class only."""
    parser = argparse.ArgumentParser(description=(main.__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=DRAWS)
    print(json.dumps(count_single_class(parser.parse_args().draws)))


if __name__ == "__main__":
    main()
