"""What the paper printed of its real-data audits, and the settings it analysed them with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NAMED, DIRECT = "named", "direct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The published counts and bounds of one mechanism; None where none was printed."""

    releases: int
    recognized: int | None = None  # V
    violations: int | None = None  # W
    favorable: int | None = None  # slack scores
    named: float | None = None
    direct: float | None = None
    upper: float | None = None
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One audit of the paper."""

    title: str
    data: tuple[str, ...]  # data sets to prepare
    limits: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, Row] = field(default_factory=dict)
    claims: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by analysis
    roles: Mapping[str, str] = field(default_factory=dict)
    verdicts: Mapping[str, str] = field(default_factory=dict)  # of named releases
    amend: tuple[str, str, str] | None = None  # text, its replacement, the reason
    notes: tuple[str, ...] = ()


def _neural(title: str, data: str, limits: Mapping[str, str], rows: Mapping[str, Row],
            roles: Mapping[str, str], *notes: str) -> Published:  # fmt: skip
    common = {"release_share": "0.9", "family": "bounds", "pooled_violations": False}
    return Published(
        title=title,
        data=(data,),
        limits=limits,
        rows=rows,
        roles=roles,
        claims={
            NAMED: {"mode": "named", "test": "chernoff", **common},
            DIRECT: {"mode": "direct", "bound": "paper", "score": "slack", "target_share": "0.8",
                     "family": "bounds"},
            "original iid analysis": {"mode": "named", "test": "empirical_bernstein",
                                      "design": "iid", **common},
        },
        notes=notes,
    )  # fmt: skip


LIBRARY = {NAMED: {"mode": "named", "test": "empirical_bernstein", "release_share": "0.5"}}

AUDITS: Mapping[str, Published] = {
    "shoppers-neural": _neural(
        "Online Shoppers, light neural generator",
        "shoppers",
        {"error": "0.2575", "Brier": "0.21001", "decision cost": "0.15925"},
        {
            "high": Row(releases=100, recognized=60, violations=0, favorable=52, named=0.449,
                        direct=0.363, verdict="unresolved"),
            "moderate": Row(releases=500, recognized=5, violations=0, favorable=30, named=0.002,
                            direct=0.017, verdict="unresolved"),
            "degraded": Row(releases=100, recognized=0, violations=44, favorable=0, named=0.0,
                            direct=0.0, upper=0.703, verdict="violation"),
        },
        {"high": "01", "moderate": "02", "degraded": "08"},
    ),
    "cdc-neural": _neural(
        "CDC diabetes indicators, light neural generator",
        "cdc",
        {"error": "0.3324", "Brier": "0.24943", "decision cost": "0.15632"},
        {
            "high": Row(releases=100, recognized=100, violations=0, favorable=99, named=0.938,
                        direct=0.917, verdict="validated"),
            "moderate": Row(releases=300, recognized=295, violations=0, favorable=292,
                            named=0.948, direct=0.931, verdict="validated"),
            "degraded": Row(releases=100, recognized=0, violations=85, favorable=0, named=0.0,
                            direct=0.0, upper=0.280, verdict="violation"),
        },
        {"high": "01", "moderate": "02", "degraded": "07"},
    ),
    "covertype-neural": _neural(
        "Covertype, light neural generator",
        "covertype",
        {"error": "0.3089", "Brier": "0.23362", "decision cost": "0.14332"},
        {
            "high": Row(releases=100, recognized=100, violations=0, favorable=100, named=0.938,
                        direct=0.910, verdict="validated"),
            "moderate": Row(releases=300, recognized=295, violations=0, favorable=288,
                            named=0.948, direct=0.885, verdict="validated"),
            "degraded": Row(releases=100, recognized=0, violations=100, favorable=0, named=0.0,
                            direct=0.0, upper=0.062, verdict="violation"),
        },
        {"high": "01", "moderate": "02", "degraded": "08"},
        "The paper quotes .827 for the original analysis of moderate, which is 267 of 300.",
    ),
    "mushroom-categorical": Published(
        title="Secondary Mushroom, categorical sampler",
        data=("mushroom",),
        limits={"Brier transfer": "0.100", "Brier risk": "0.182", "Cost5x transfer": "0.081",
                "Cost5x risk": "0.117"},
        rows={"noisy histograms": Row(releases=100, recognized=100, favorable=100,
                                      named=0.963783, direct=0.941216, verdict="validated")},
        claims={
            NAMED: LIBRARY[NAMED],
            DIRECT: {"mode": "direct", "bound": "paper", "score": "slack",
                     "target_share": "0.9", "test": "empirical_bernstein"},
        },
    ),
    "text-unigram": Published(
        title="20 Newsgroups, documents of independent words",
        data=("newsgroups",),
        limits={"error": "0.120537", "Brier": "0.078884", "Cost3x": "0.073557"},
        rows={
            "high": Row(releases=250, recognized=250, favorable=250, named=0.9810,
                        direct=0.9743, verdict="validated"),
            "moderate": Row(releases=500, recognized=500, favorable=500, named=0.9905,
                            direct=0.9869, verdict="validated"),
            # 31 is not printed: it is the only count that gives the printed bound .0701.
            "degraded": Row(releases=250, recognized=54, favorable=31, named=0.1569,
                            direct=0.0701, verdict="unresolved"),
        },
        roles={"high": "02", "moderate": "06", "degraded": "09"},
        claims={
            NAMED: {**LIBRARY[NAMED], "family": "bounds"},
            DIRECT: {"mode": "direct", "bound": "paper", "score": "slack",
                     "target_share": "0.9", "family": "bounds", "test": "empirical_bernstein"},
        },
        amend=(
            "size = 2000",
            "size = 4000",
            "2,000 target records cannot validate a reliability of 0.95 even if every score is "
            "favorable; 4,000 can",
        ),
        notes=(
            "The outcome hangs on how 1,193 documents were divided into source and planning part. "
            "A first run here, with another random division under the same rules, resolved the "
            "limits to .0970, .0706 and .0724, chose configurations 01, 02 and 09, and had no "
            "favorable score in any role: high and moderate unresolved, degraded a violation. "
            "Then the published division was taken.",
            "The Brier limit differs from the published one by 4 in the fifth digit: cause not "
            "found.",
        ),
    ),
    "magic-bootstrap": Published(
        title="MAGIC, row bootstrap",
        data=("magic",),
        limits={"Brier risk": "0.141", "log-loss risk": "0.072", "Cost5x risk": "0.108"},
        rows={"row bootstrap": Row(releases=30, recognized=30, named=0.884,
                                   verdict="validated")},
        claims=LIBRARY,
    ),
    "taiwan-pilot": Published(
        title="Taiwan default, row bootstrap, pilot",
        data=("taiwan",),
        rows={"row bootstrap": Row(releases=30, recognized=0, named=0.0, verdict="unresolved")},
        claims=LIBRARY,
    ),
    "taiwan-bootstrap": Published(
        title="Taiwan default, row bootstrap, positive control",
        data=("taiwan",),
        rows={"row bootstrap": Row(releases=30, recognized=30, named=0.884,
                                   verdict="validated")},
        claims=LIBRARY,
        notes=(
            "Its target overlaps every part of the pilot, as published: see the lineage.",
        ),
    ),
    "stand-ins": Published(
        title="Stand-ins: an earlier year, another clinic, a reduced schema",
        data=("stand-ins",),
        verdicts={"Bank Marketing/2009": "validated", "Heart Disease/Hungarian": "unresolved",
                  "Adult/reduced schema": "violation"},
        notes=("A first run here, in which releases were calibrated on the source's validation "
               "part, gave the same verdicts by the paper's tests; by our defaults Heart Disease "
               "was validated in it.",),
    ),
    "adult-aggregates": Published(
        title="Aggregate statistics of Adult (not in the paper)",
        data=("adult",),
    ),
    "screen": Published(
        title="Transformation screen",
        data=("adult", "australian", "bank", "wdbc", "german", "statlog_heart", "mammographic",
              "taiwan"),
        verdicts={"Adult Income": "1 validated, 2 unresolved",
                  "Australian Credit": "3 unresolved",
                  "Bank Marketing": "2 validated, 1 unresolved",
                  "Breast Cancer WDBC": "3 unresolved",
                  "German Credit": "3 unresolved",
                  "Heart Disease": "3 unresolved",
                  "Mammographic Mass": "3 unresolved",
                  "Taiwan Default": "1 validated, 2 unresolved"},
        notes=("German Credit is judged by UCI's own label, which the published screen did not "
               "use; Heart Disease is the Statlog table.",),
    ),
}  # fmt: skip
