"""What the paper printed of its real-data audits: the types of published.toml, which has it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import field
from importlib.resources import files
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

NAMED, DIRECT = "named", "direct"
SHARED = "shared: "
"""What a note begins with that stands under several audits; the rest is its name."""

# A misspelt key would leave a published figure out, and nothing would be compared with it.
NOTHING_ELSE = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True, config=NOTHING_ELSE)
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
    pvalue: str = ""  # of the outer test, in the direction of the verdict
    inferred: frozenset[str] = frozenset()
    """Counts that are not printed: each is the only one that gives a printed bound."""


@dataclass(frozen=True, slots=True, kw_only=True, config=NOTHING_ELSE)
class Mean:
    """The published mean of a requirement over releases, and what was printed beside it."""

    mean: str
    upper: str = ""  # largest simultaneous upper bound of a release
    span: str = ""  # smallest and largest release
    violations: int | None = None  # releases with a corrected violation of this requirement


@dataclass(frozen=True, slots=True, kw_only=True, config=NOTHING_ELSE)
class Times:
    """Published seconds: of making and fitting the releases, and of evaluating the target."""

    draws: str
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=NOTHING_ELSE)
class Published:
    """One audit of the paper."""

    title: str
    data: tuple[str, ...]  # data sets to prepare
    limits: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, Row] = field(default_factory=dict)
    claims: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by analysis
    roles: Mapping[str, str] = field(default_factory=dict)
    causes: Mapping[str, str] = field(default_factory=dict)  # why a role fell to another pilot
    verdicts: Mapping[str, str] = field(default_factory=dict)  # of named releases
    tallies: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # verdicts of a table
    means: Mapping[str, Mean] = field(default_factory=dict)  # by requirement
    figures: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    """Of a named release: proxy less source on the target, in AUC, Brier score and Cost5x."""
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # target risks
    lineage: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    """Target records of an audit that were in training, validation and target of the first."""
    original: Mapping[str, tuple[int, float]] | None = None
    """Counts and bounds of an analysis that was withdrawn: NAME-original registers it.

    The paper prints bounds; each count is the only one that gives its bound.
    """
    single_class: int | None = None  # degraded releases with one class only
    needs: str | None = None  # the package without which its mechanism does not draw
    sealed_only: tuple[str, ...] = ()  # audits of which the lineage is all that is needed
    joins: str = ""  # a declaration whose candidates join those of `screen`, in one family
    variants: tuple[str, ...] = ()
    """Further declarations: with one of the published models each, or with another mechanism."""
    amend: tuple[str, str, str] | None = None  # text, its replacement, the reason
    steps: Mapping[str, str] = field(default_factory=dict)
    """Numbers on the way to the direct bound, by the label that a certificate gives them."""
    auc: tuple[str, str] | None = None  # of the source, and the mean over releases, on the target
    auc_change: str = ""  # the mean over releases less that of the source
    source: Mapping[str, str] = field(default_factory=dict)
    """Of the source: its threshold, and risks on the target by requirement."""
    smooth: str = ""  # what is said of the smooth certificate of the same evidence
    times: Times | None = None
    notes: tuple[str, ...] = ()


def _read() -> dict[str, Published]:
    """Return the audits of published.toml, in its order."""
    text = files("reproduction.audits").joinpath("published.toml").read_text(encoding="utf-8")
    document: dict[str, Any] = tomllib.loads(text)
    shared, settings = document["shared"], document["settings"]
    for audit in document["audits"].values():
        if "settings" in audit:
            audit["claims"] = settings[audit.pop("settings")]
        if "notes" in audit:
            audit["notes"] = [
                shared[note.removeprefix(SHARED)] if note.startswith(SHARED) else note
                for note in audit["notes"]
            ]
    return TypeAdapter(dict[str, Published]).validate_python(document["audits"])


AUDITS: Mapping[str, Published] = _read()
