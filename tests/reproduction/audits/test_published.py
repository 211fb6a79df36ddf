"""The bounds that the paper printed follow from the counts that it printed, at its levels."""

from __future__ import annotations

from fractions import Fraction

import pytest

from proxyguard.exact.binomial import clopper_pearson_lower, clopper_pearson_upper, upper_tail
from proxyguard.exact.contamination import chernoff_ceiling
from proxyguard.modes.claim import Claim, Levels
from reproduction.audits.published import AUDITS, DIRECT, NAMED

pytestmark = pytest.mark.reproduction

# Target records, and each requirement's limit, slack and width; the frozen values of the paper.
TARGETS = {
    "shoppers-neural": (1000, [("0.2575", 0.055, 1), ("0.21001", 0.055, 1), ("0.15925", 0.055, 1)]),
    "cdc-neural": (2000, [("0.3324", 0.045, 1), ("0.24943", 0.045, 1), ("0.15632", 0.045, 1)]),
    "covertype-neural": (2000, [("0.3089", 0.04, 1), ("0.23362", 0.04, 1), ("0.14332", 0.04, 1)]),
    "mushroom-categorical": (
        10_000,
        [("0.100", 0.04, 2), ("0.182", 0.02, 1), ("0.081", 0.04, 2), ("0.117", 0.02, 1)],
    ),
    "text-unigram": (
        4000, [("0.120537", 0.03, 1), ("0.078884", 0.02, 1), ("0.073557", 0.03, 1)],
    ),
    "rice-tvae": (2000, [("0.151", 0.035, 1), ("0.134384", 0.035, 1), ("0.112", 0.035, 1)]),
}  # fmt: skip
ROWS = [(name, mechanism) for name, audit in AUDITS.items() for mechanism in audit.rows]


def levels(name: str, analysis: str, releases: int) -> Levels:
    audit = AUDITS[name]
    claim = Claim.of({"reliability_target": "0.8", **audit.claims[analysis]})  # type: ignore[typeddict-item]
    share = Fraction(1, len(audit.rows))
    return claim.levels(n_releases=releases, n_requirements=3, share=share)


@pytest.mark.parametrize(("name", "mechanism"), ROWS)
def test_named_bounds(name: str, mechanism: str) -> None:
    row = AUDITS[name].rows[mechanism]
    assert row.recognized is not None
    local = levels(name, NAMED, row.releases)
    lower = clopper_pearson_lower(row.recognized, row.releases, alpha=float(local.lower["alpha_M"]))
    assert lower == pytest.approx(row.named, abs=6e-4)
    if row.upper is not None:
        assert row.violations is not None
        assert local.upper is not None
        valid = row.releases - row.violations
        upper = clopper_pearson_upper(valid, row.releases, alpha=float(local.upper["beta_M"]))
        # The nine AIM mechanisms are printed with two digits.
        assert upper == pytest.approx(row.upper, abs=6e-3 if name.startswith("aim-") else 6e-4)


def allowance(name: str, releases: int) -> float:
    n, requirements = TARGETS[name]
    kappa = 0.0
    for text, slack, width in requirements:
        limit, low = float(text), 0.0 if width == 1 else -1.0
        v, cutoff = (limit - low) / width, (limit - slack - low) / width
        kappa = max(kappa, chernoff_ceiling(cutoff, v, n))
    return kappa / float(levels(name, DIRECT, releases).lower["alpha_Z"])


def direct_bound(name: str, favorable: int, releases: int) -> float:
    budget = levels(name, DIRECT, releases).lower
    rate = clopper_pearson_lower(favorable, releases, alpha=float(budget["alpha_Q"]))
    return max(0.0, rate - allowance(name, releases))


def named_bounds(name: str, recognized: int, violations: int, releases: int) -> tuple[float, float]:
    local = levels(name, NAMED, releases)
    assert local.upper is not None
    return (
        clopper_pearson_lower(recognized, releases, alpha=float(local.lower["alpha_M"])),
        clopper_pearson_upper(releases - violations, releases, alpha=float(local.upper["beta_M"])),
    )


def test_the_bounds_of_rice_follow_from_its_counts_to_four_digits() -> None:
    # From the printed counts 40 of 40, 65 and 67 of 120, 2 of 40 with 34 violations, at the
    # registered levels; printed are three digits of each.
    name = "rice-tvae"
    local = levels(name, NAMED, 40)
    assert local.lower["alpha_R"] == Fraction(3, 200)
    assert local.lower["alpha_M"] == Fraction(1, 600)
    budget = levels(name, DIRECT, 40).lower
    assert (budget["alpha_Z"], budget["alpha_Q"]) == (Fraction(1, 75), Fraction(1, 300))
    assert allowance(name, 40) == pytest.approx(0.0026586, abs=5e-8)
    assert named_bounds(name, 40, 0, 40)[0] == pytest.approx(0.8522, abs=5e-5)
    assert direct_bound(name, 40, 40) == pytest.approx(0.8644, abs=5e-5)
    assert named_bounds(name, 65, 1, 120)[0] == pytest.approx(0.4047, abs=5e-5)
    assert direct_bound(name, 67, 120) == pytest.approx(0.4282, abs=5e-5)
    assert named_bounds(name, 2, 34, 40) == pytest.approx((0.0015, 0.3751), abs=5e-5)
    assert direct_bound(name, 2, 40) == 0.0


def test_the_bounds_and_pvalues_of_the_aim_audits_follow_from_their_counts() -> None:
    # All 30 Spambase releases violate: U = 1 - .025^(1/30) and p = .2^30.
    assert named_bounds("spambase-aim", 0, 30, 30)[1] == pytest.approx(0.1157, abs=5e-5)
    assert float(upper_tail(30, 30, 0.2)) == pytest.approx(1.07e-21, rel=5e-3)
    # All 24 of the informed replication: U = 1 - .025^(1/24) and p = .2^24.
    assert named_bounds("taiwan-aim", 0, 24, 24)[1] == pytest.approx(0.1425, abs=5e-5)
    assert float(upper_tail(24, 24, 0.2)) == pytest.approx(1.68e-17, rel=5e-3)
    # Five releases at a ninth of the error: five and four violations.
    assert named_bounds("aim-taiwan", 0, 5, 5)[1] == pytest.approx(0.692, abs=5e-4)
    assert named_bounds("aim-taiwan", 0, 4, 5)[1] == pytest.approx(0.841, abs=5e-4)


@pytest.mark.parametrize(("name", "mechanism"), [r for r in ROWS if r[0] in TARGETS])
def test_direct_bounds(name: str, mechanism: str) -> None:
    row = AUDITS[name].rows[mechanism]
    assert row.favorable is not None
    assert direct_bound(name, row.favorable, row.releases) == pytest.approx(row.direct, abs=6e-4)


INFERRED = [(name, mechanism) for name, mechanism in ROWS if AUDITS[name].rows[mechanism].inferred]


def test_the_counts_that_are_not_printed_are_those_of_the_text_audit() -> None:
    expected = {("text-unigram", role) for role in ("high", "moderate", "degraded")}
    assert set(INFERRED) == expected


@pytest.mark.parametrize(("name", "mechanism"), INFERRED)
def test_a_count_from_the_bound_is_the_only_one_that_gives_it(name: str, mechanism: str) -> None:
    row = AUDITS[name].rows[mechanism]
    fitting = [
        count
        for count in range(row.releases + 1)
        if direct_bound(name, count, row.releases) == pytest.approx(row.direct, abs=6e-4)
    ]
    assert fitting == [row.favorable]


def test_the_count_of_the_withdrawn_analysis_is_the_only_one_that_gives_its_bound() -> None:
    audit = AUDITS["covertype-neural"]
    ((mechanism, (count, bound)),) = (audit.original or {}).items()
    n = audit.rows[mechanism].releases
    alpha = float(levels("covertype-neural", NAMED, n).lower["alpha_M"])
    lower = [clopper_pearson_lower(k, n, alpha=alpha) for k in range(n + 1)]
    found = [k for k, value in enumerate(lower) if value == pytest.approx(bound, abs=5e-4)]
    assert found == [count]
