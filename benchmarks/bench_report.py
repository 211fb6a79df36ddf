"""Time and weigh the report of 1,000 releases under six requirements.

The record is made as the report's tests make it: random losses, a real certificate.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from proxyguard.modes.claim import Claim
from proxyguard.registry.design import Iid
from proxyguard.registry.requirement import Requirement
from proxyguard.report.advice import (
    Unsettled,
    advice_words,
    find_sizes,
    unit_deviations,
    unit_means,
)
from proxyguard.report.content import build_report
from proxyguard.report.html import to_html
from proxyguard.report.sources import Sources

MOST_SECONDS, MOST_BYTES = 2.0, 2_000_000


def main() -> None:
    """Print the time and the size of one mechanism's page, and of three with one unresolved."""
    synthetic = tests_module("synthetic")
    names = [f"requirement {j}" for j in range(6)]
    good = True
    for means in ({"careful": 0.2}, {"near its limits": 0.262}, synthetic.THREE):
        sources = synthetic.synthetic_sources(R=1000, n=300, means=means, requirements=names)
        decided = sources.verdicts
        unresolved = [v.mechanism for v in decided if v.decision == "unresolved"]
        advice = [timed_advice(name, sources, synthetic) for name in unresolved]
        sources = replace(sources, advice=advice)
        start = time.perf_counter()
        report = build_report(sources)
        content = time.perf_counter() - start
        page = to_html(report, sources).encode()
        whole = time.perf_counter() - start
        good &= whole < MOST_SECONDS and len(page) < MOST_BYTES
        print(
            f"{len(means)} x 1,000 releases, 6 requirements: built in {whole:.2f} s "
            f"(content {content:.2f} s), {len(page) / 1e6:.2f} MB"
        )
    print(f"  wanted: below {MOST_SECONDS:g} s and {MOST_BYTES / 1e6:g} MB")
    if not good:
        sys.exit(1)


def timed_advice(name: str, sources: Sources, synthetic: ModuleType) -> dict[str, Any]:
    """Print how long the search for sizes takes, once an audit; return the advice."""
    group = sources.groups[name]
    requirements = tuple(
        Requirement(name=one, low=0.0, high=1.0, limit=synthetic.LIMIT)
        for one in group.requirements
    )
    case = Unsettled(
        mechanism=name,
        claim=Claim.of({"reliability_target": 0.8, "test": "bentkus"}),
        design=Iid(),
        requirements=requirements,
        means=unit_means(group, requirements),
        deviations=unit_deviations(group),
        n=group.columns[0].n,
        mechanisms=len(sources.verdicts),
        binding=group.requirements[0],
    )
    start = time.perf_counter()
    sizes = find_sizes(case)
    searched = time.perf_counter() - start
    advice = advice_words(case, sizes)
    worded = time.perf_counter() - start - searched
    print(
        f"advice for {name!r}, 1,000 releases, 6 requirements: searched in {searched:.2f} s when "
        f"it is certified, worded in {worded:.3f} s; {sizes}"
    )
    return advice


def tests_module(name: str) -> ModuleType:
    """Return a module that the tests of the report share."""
    path = Path(__file__).parents[1] / "tests" / "report" / f"{name}.py"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
