"""What the paper printed of its real-data audits, and the settings it analysed them with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NAMED, DIRECT = "named", "direct"
FAVORABLE = frozenset({"favorable"})


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
    inferred: frozenset[str] = frozenset()
    """Counts that are not printed: each is the only one that gives a printed bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The published mean of a requirement over releases, and what was printed beside it."""

    mean: str
    upper: str = ""  # largest simultaneous upper bound of a release
    span: str = ""  # smallest and largest release


@dataclass(frozen=True, slots=True, kw_only=True)
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
    sealed_only: tuple[str, ...] = ()  # audits of which the lineage is all that is needed
    variants: tuple[str, ...] = ()  # further declarations, with one of the published models each
    amend: tuple[str, str, str] | None = None  # text, its replacement, the reason
    notes: tuple[str, ...] = ()


def _neural(title: str, data: str, limits: Mapping[str, str], rows: Mapping[str, Row],
            roles: Mapping[str, str], original: Mapping[str, tuple[int, float]] | None = None,
            causes: Mapping[str, str] | None = None) -> Published:  # fmt: skip
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
        },
        original=original or {},
        causes=causes or {},
    )  # fmt: skip


TAIWAN = (
    "The paper winsorised numbers at quantiles of all rows, target rows included; here they are "
    "those of the rows that are in no target. Its target has the class shares of the table by "
    "design, and was analysed as an iid sample; so it is here.",
)
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
        causes={"degraded": "The order of draws decides it: from the same seeds, in the paper's "
                            "order, the pilots choose 07 (table below)."},
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
        # The paper quotes .827; 267 is the only count of 300 that gives it.
        {"moderate": (267, 0.827)},
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
        means={"Brier transfer": Mean(mean="0.0474", span="0.0433 to 0.0519"),
               "Brier risk": Mean(mean="0.1467", span="0.1427 to 0.1513"),
               "Cost5x transfer": Mean(mean="0.0225", span="0.0165 to 0.0320"),
               "Cost5x risk": Mean(mean="0.0794", span="0.0733 to 0.0889")},
    ),
    "text-unigram": Published(
        title="20 Newsgroups, documents of independent words",
        data=("newsgroups",),
        limits={"error": "0.120537", "Brier": "0.078884", "Cost3x": "0.073557"},
        rows={
            "high": Row(releases=250, recognized=250, favorable=250, named=0.9810,
                        direct=0.9743, verdict="validated", inferred=FAVORABLE),
            "moderate": Row(releases=500, recognized=500, favorable=500, named=0.9905,
                            direct=0.9869, verdict="validated", inferred=FAVORABLE),
            "degraded": Row(releases=250, recognized=54, favorable=31, named=0.1569,
                            direct=0.0701, verdict="unresolved", inferred=FAVORABLE),
        },
        roles={"high": "02", "moderate": "06", "degraded": "09"},
        causes={
            "high": "The two hardly differ, and the draws and the tied words of the vocabulary "
            "both decide it: the pilots choose 02 if drawn as the paper draws and with the "
            "words that give the published limits, and 01 in every other case tried (table below).",
            "moderate": "The draws and the tied words of the vocabulary decide it (table below).",
        },
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
            "The Brier limit differs from the published one because of a tie. The vocabulary is "
            "the 500 most frequent words; 489 occur more than 37 times, 22 occur 37 times, and 11 "
            "of these fill the last places. scikit-learn takes those that NumPy's sort puts "
            "first, and that depends on the processor: .078884, as published, where it sorts "
            "with AVX2 instructions, .078847 with AVX-512, .079748 with neither. Here ties go by "
            "the alphabet on every processor, which gives .078608. The other two limits are the "
            "published ones in every case but the last of the three.",
            "The paper does not print the values of its strict and permissive envelopes, nor what "
            "they gave. Those above are ours.",
            "The outcome hangs on how 1,193 documents were divided into source and planning part. "
            "Rows are therefore arranged so that the division is the published one.",
        ),
    ),
    "magic-bootstrap": Published(
        title="MAGIC, row bootstrap",
        data=("magic",),
        limits={"Brier risk": "0.141", "log-loss risk": "0.072", "Cost5x risk": "0.108"},
        rows={"row bootstrap": Row(releases=30, recognized=30, named=0.884,
                                   verdict="validated")},
        claims=LIBRARY,
        means={"Brier transfer": Mean(mean="0.0031", upper="0.0158"),
               "log-loss transfer": Mean(mean="0.0006", upper="0.0100"),
               "Cost5x transfer": Mean(mean="0.0027", upper="0.0216"),
               "Brier risk": Mean(mean="0.0973", upper="0.1143"),
               "log-loss risk": Mean(mean="0.0232", upper="0.0301"),
               "Cost5x risk": Mean(mean="0.0675", upper="0.0871")},
    ),
    "taiwan-pilot": Published(
        title="Taiwan default, row bootstrap, pilot",
        data=("taiwan",),
        rows={"row bootstrap": Row(releases=30, recognized=0, violations=0, named=0.0,
                                   verdict="unresolved")},
        claims=LIBRARY,
        means={"Brier transfer": Mean(mean="0.0036", upper="0.0164"),
               "log-loss transfer": Mean(mean="0.0008", upper="0.0095"),
               "Cost5x transfer": Mean(mean="0.0059", upper="0.0281")},
        notes=TAIWAN,
    ),
    "taiwan-bootstrap": Published(
        title="Taiwan default, row bootstrap, positive control",
        data=("taiwan",),
        rows={"row bootstrap": Row(releases=30, recognized=30, named=0.884,
                                   verdict="validated")},
        claims=LIBRARY,
        means={"Brier transfer": Mean(mean="0.004", upper="0.017"),
               "log-loss transfer": Mean(mean="0.001", upper="0.010"),
               "Cost5x transfer": Mean(mean="0.004", upper="0.027"),
               "Brier risk": Mean(mean="0.138", upper="0.157"),
               "log-loss risk": Mean(mean="0.032", upper="0.039"),
               "Cost5x risk": Mean(mean="0.113", upper="0.136")},
        references={"source": ("0.135", "0.031", "0.109"), "constant": ("0.250", "0.050", "0.156"),
                    "prevalence": ("0.172", "0.038", "0.156")},
        lineage={"taiwan-aim": (3623, 1169, 1208), "taiwan-bootstrap": (3598, 1184, 1218)},
        sealed_only=("taiwan-aim",),
        notes=(
            *TAIWAN,
            "On validation the forest costs .1085 and boosted trees .1087, so near that seeds "
            "decide which of them is the source. Here it is the forest. The published risks of "
            "the source are nearest to those of boosted trees (.1345/.0310/.1071 here, see "
            "tests/reproduction/audits/test_taiwan_parts.py), and regrets against these are larger "
            "by the "
            "difference.",
        ),
    ),
    "stand-ins": Published(
        title="Stand-ins: an earlier year, another clinic, a reduced schema",
        data=("stand-ins",),
        verdicts={"Bank Marketing/2009": "validated", "Heart Disease/Hungarian": "unresolved",
                  "Adult/reduced schema": "violation"},
        figures={"Bank Marketing/2009": ("-0.030", "-0.135", "-0.317"),
                 "Heart Disease/Hungarian": ("-0.062", "0.014", "0.104"),
                 "Adult/reduced schema": ("-0.044", "0.030", "0.012")},
        variants=("stand-ins-logistic", "stand-ins-boosting"),
        notes=(
            "The paper fits a balanced logistic regression and balanced boosted trees and does "
            "not print which of them a row shows. That source and proxy each take the model with "
            "the lower validation cost is inferred, and from the printed figures on the target, "
            "after they had been seen: no single model gives them. Adult's figures are "
            "those of boosted trees for the source and a logistic regression for the proxy, and "
            "Heart's Brier regret, with boosted trees alone, is negative in almost every division. "
            "That the cheaper models agree with the paper is therefore no evidence for them.",
            "Bank Marketing is divided by date, the last fifth to choose on, and values that are "
            "missing in Heart Disease are filled with the medians of the rows that a model learns "
            "from.",
        ),
    ),
    "adult-aggregates": Published(
        title="Aggregate statistics of Adult (not in the paper)",
        data=("adult",),
        notes=(
            "Workload and limit are ours: every cell of every two-way table of the 15 columns, to "
            "be answered within .03 in both directions. Numbers are in bins and long lists of "
            "categories in groups, all of them registered. A release that answers one cell badly "
            "fails, however well it answers the others.",
            "The noise of the sampler is OpenDP's and comes from no seed: its figures here are "
            "those of one fit, and another run has others. The verdict does not hang on that. The "
            "sampler draws the columns independently within a class of income, so that columns "
            "which belong together, such as education and its number of years, or relationship and "
            "sex, come apart whatever the noise.",
        ),
    ),
    "screen": Published(
        title="Transformation screen",
        data=("adult", "australian", "bank", "wdbc", "german", "statlog_heart", "mammographic",
              "taiwan"),
        tallies={"Adult Income": {"validated": 1, "unresolved": 2},
                 "Australian Credit": {"unresolved": 3},
                 "Bank Marketing": {"validated": 2, "unresolved": 1},
                 "Breast Cancer WDBC": {"unresolved": 3},
                 "German Credit": {"unresolved": 3},
                 "Heart Disease": {"unresolved": 3},
                 "Mammographic Mass": {"unresolved": 3},
                 "Taiwan Default": {"validated": 1, "unresolved": 2}},
        notes=(
            "The paper prints neither limits nor learner settings of its screen, and had ten "
            "tables in one family of 30 releases; here there are eight tables and 24 releases, "
            "under rules of our own. These are the likely causes where a tally differs; which of "
            "them it is cannot be told while the published settings are not known. German Credit "
            "is judged by UCI's own label, which the published screen did not use; Heart Disease "
            "is the Statlog table.",
            "The verdicts of a table share its target and nothing here is drawn anew but the "
            "transformations, so a p-value of the screen says how far apart the tallies are and "
            "not how often chance alone would do that.",
        ),
    ),
}  # fmt: skip
