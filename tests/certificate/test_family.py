"""Families of mechanisms: familywise decisions or simultaneous bounds, never both."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import proxyguard as pg
from proxyguard.certificate import wording
from proxyguard.exact.multiplicity import holm, holm_adjusted
from proxyguard.exact.sharp import sharp_lower

ERROR = pg.Requirement(name="error", low=0, high=1, limit=0.2, two_valued=True)
R, N = 50, 500
VALIDATED, UNRESOLVED, VIOLATION = (
    pg.Decision.VALIDATED, pg.Decision.UNRESOLVED, pg.Decision.VIOLATION,
)  # fmt: skip

LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.2)


def hits(good: int, seed: int = 1) -> NDArray[np.bool_]:
    """Fifty releases, ``good`` of them with an error of .08, the others with .5."""
    rng = np.random.default_rng(seed)
    rates = np.where(np.arange(R) < good, 0.08, 0.5)[:, None, None]
    return rng.random((R, N, 1)) < rates


FAMILY = {"best": hits(50), "good": hits(47), "middling": hits(40), "bad": hits(5)}


def certify(losses: Any = None, **choices: Any) -> pg.FamilyCertificate:
    if choices.get("mode") != "named":  # which has no threshold
        choices = {"threshold": "0.001"} | choices
    choices = {"reliability_target": 0.8} | choices
    return pg.certify(FAMILY if losses is None else losses, [ERROR], seed=1, **choices)


def test_a_mapping_is_a_family_and_a_mapping() -> None:
    family = certify()
    assert list(family) == list(FAMILY)
    assert len(family) == 4
    assert family.decisions == {
        "best": VALIDATED,
        "good": VALIDATED,
        "middling": UNRESOLVED,
        "bad": VIOLATION,
    }
    with pytest.raises(KeyError):
        family["other"]


def test_decisions_are_holm_over_the_mechanisms_at_the_family_budget() -> None:
    family = certify()
    values = [c.lower.pvalue for c in family.values()]
    rejected = holm(values, alpha=0.05)
    assert [c.decision is VALIDATED for c in family.values()] == rejected.tolist()
    np.testing.assert_allclose(
        [c.adjusted_pvalue for c in family.values()], holm_adjusted(values), rtol=1e-12
    )


def test_holm_decides_more_than_local_levels_do() -> None:
    # 46 of 50 lie between alpha and alpha/2: decided only after the first was rejected.
    two = {"best": hits(50), "good": hits(46)}
    p = certify(two)["good"].lower.pvalue
    assert p is not None
    assert 0.025 / 2 < p <= 0.05
    choices: dict[str, Any] = {"alpha": Fraction(p)}
    assert certify(two, **choices).decisions == {"best": VALIDATED, "good": VALIDATED}
    assert certify(two, family="bounds", **choices).decisions["good"] is UNRESOLVED


def test_in_a_family_of_decisions_no_bound_is_certified() -> None:
    family = certify()
    for certificate in family.values():
        assert not certificate.certifies_bounds
        assert certificate.to_dict()["certified"] == "decisions"
        text = str(certificate)
        assert "lower bound (not certified):" in text
        assert "upper bound (not certified):" in text
        assert "Certified here: the familywise decision" in text
        assert "Shown together" not in text
        assert "at least" not in certificate.sentence
        assert "at most" not in certificate.sentence
    assert "more than 80 % of future releases" in family["best"].sentence
    assert "for all audited mechanisms at once" in family["best"].sentence
    assert "fewer than 80 % of future releases" in family["bad"].sentence
    # Nothing beyond the target is certified, so the attributes say the target.
    assert family["best"].reliability_lower == 0.8
    assert family["best"].reliability_upper == 1.0
    assert family["middling"].reliability_lower == 0.0
    assert family["bad"].reliability_upper == 0.8
    assert family["best"].lower.value > 0.8


def test_in_a_family_of_bounds_no_familywise_pvalue_is_printed() -> None:
    family = certify(family="bounds")
    for certificate in family.values():
        assert certificate.certifies_bounds
        assert certificate.adjusted_pvalue is None
        assert certificate.to_dict()["certified"] == "bounds"
        text = str(certificate)
        assert "not certified" not in text
        assert "familywise decision" not in text
        assert "Shown together, the two bounds hold with 90 % confidence." in text
        assert certificate.reliability_lower == certificate.lower.value
        assert certificate.lower.budget.total == Fraction(1, 80)
    assert "at least" in family["best"].sentence


def test_local_levels_are_equal_or_as_registered_and_sum_to_the_budget() -> None:
    shares = {"best": "0.1", "good": "0.2", "middling": "0.3", "bad": "0.4"}
    family = certify(family="bounds", shares=shares)
    assert {n: c.lower.budget.total for n, c in family.items()} == {
        n: Fraction(s) / 20 for n, s in shares.items()
    }
    assert sum(c.lower.budget.total for c in family.values()) == Fraction(1, 20)
    for certificate in family.values():
        favorable = int(certificate.lower.steps[0][1])
        kappa = certificate.lower.steps[2][1]
        assert certificate.lower.value == sharp_lower(
            favorable, R, kappa=kappa, alpha=float(certificate.lower.budget.total)
        )


@pytest.mark.parametrize(
    ("mode", "symbol"), [("named", "alpha_M"), ("count", "alpha_Q"), ("direct", "alpha")]
)
def test_holm_spends_only_the_outer_part_across_mechanisms(mode: str, symbol: str) -> None:
    # Theorem 5: the inner part stays split over the mechanisms.
    family = certify(mode=mode)
    for certificate in family.values():
        assert certificate.lower.outer == symbol
        assert certificate.lower.budget.total == Fraction(1, 80)
    values = [c.lower.pvalue for c in family.values()]
    level = 0.05 if mode == "direct" else 0.025
    assert [c.decision is VALIDATED for c in family.values()] == holm(values, alpha=level).tolist()


@pytest.mark.parametrize("choices", [{"bound": "paper"}, {"mode": "hybrid"}], ids=str)
def test_bounds_without_a_pvalue_are_certified_as_bounds(choices: dict[str, Any]) -> None:
    family = certify(threshold="0.0001", **choices)
    for certificate in family.values():
        assert certificate.lower.pvalue is None
        assert (certificate.decision is VALIDATED) == (certificate.lower.value > 0.8)
        assert certificate.certifies_bounds
        assert certificate.lower.budget.total == Fraction(1, 80)
        assert "familywise decision" not in str(certificate)
        assert wording.BOUNDS_INSTEAD in certificate.notes
        assert wording.BOUNDS_INSTEAD in str(certificate)
    assert family["best"].decision is VALIDATED


def test_only_a_family_that_lost_its_decisions_is_told_so() -> None:
    asked = certify(bound="paper", family="bounds")
    alone = certify({"only": hits(50)}, bound="paper")
    for certificate in (*certify().values(), *asked.values(), *alone.values()):
        assert wording.BOUNDS_INSTEAD not in certificate.notes


def test_violations_form_one_holm_family_unless_registered_otherwise() -> None:
    # Theorem 8 in the paper's text: all releases and requirements of the family.
    family = certify(mode="named")
    q = np.concatenate([c.evidence.violation_pvalues.ravel() for c in family.values()])
    detected = holm(q, alpha=0.025).reshape(4, R).sum(axis=1)
    assert [c.upper.steps[0][1] for c in family.values() if c.upper] == detected.tolist()
    apart = certify(mode="named", pooled_violations=False)
    for certificate in apart.values():
        own = holm(certificate.evidence.violation_pvalues.ravel(), alpha=0.025 / 4).sum()
        assert certificate.upper is not None
        assert certificate.upper.steps[0][1] == own


def test_pooled_violations_spend_their_inner_part_once_for_all_mechanisms() -> None:
    for pooled, inner in ((True, Fraction(1, 40)), (False, Fraction(1, 160))):
        for certificate in certify(mode="named", pooled_violations=pooled).values():
            assert certificate.upper is not None
            assert certificate.upper.budget["beta_R"] == inner
            assert certificate.upper.budget["beta_M"] == Fraction(1, 160)


def test_a_familywise_pvalue_names_its_level_and_no_joint_coverage_is_given() -> None:
    for mode, level in (("direct", "alpha"), ("named", "alpha_M")):
        for certificate in certify(mode=mode).values():
            plain = certificate.to_dict()
            assert plain["adjusted_pvalue_level"] == level
            assert plain["joint_coverage"] is None
    for certificate in certify(family="bounds").values():
        plain = certificate.to_dict()
        assert plain["adjusted_pvalue_level"] is None
        assert plain["joint_coverage"] == 0.9


def test_a_family_of_one_is_certified_like_one_mechanism() -> None:
    one = certify({"only": hits(50)})
    alone = pg.certify(hits(50), [ERROR], reliability_target=0.8, threshold="0.001", seed=1)
    assert one["only"].certifies_bounds
    assert one["only"].reliability_lower == alone.reliability_lower
    assert one["only"].decision is alone.decision


def test_mechanisms_of_a_family_share_their_records() -> None:
    first = pg.LossArray(hits(50), pg.Records(ids=np.arange(N)))
    moved = np.arange(N)
    moved[[7, 8]] = [8, 7]
    second = pg.LossArray(hits(50), pg.Records(ids=moved))
    with pytest.raises(pg.LossMismatch, match=r"record 7 is .*8.* in 'b' and .*7.* in 'a'"):
        certify({"a": first, "b": second})
    with pytest.raises(pg.LossMismatch, match="share the target"):
        certify({"a": hits(50), "b": hits(50)[:, :400]})
    assert len(certify({"a": first, "b": pg.LossArray(hits(40), first.records)})) == 2


def test_an_empty_family_is_refused() -> None:
    with pytest.raises(pg.RegistryError, match="names of mechanisms"):
        certify({})


def test_a_conflict_inside_a_family_is_unresolved_with_its_reason() -> None:
    drift = np.ones((R, 1500, 1))
    drift[:, :80] = 0.0
    plain = pg.Requirement(name="x", low=0, high=1, limit=0.5)
    family = pg.certify(
        {"drift": drift, "fine": np.zeros((R, 1500, 1))},
        [plain],
        records=pg.Records(random_order=True),
        reliability_target=0.5,
    )
    assert family.decisions == {"drift": UNRESOLVED, "fine": VALIDATED}
    assert any("in error" in note for note in family["drift"].notes)
    assert not family["fine"].notes


def test_a_family_frame_names_its_mechanisms() -> None:
    frame = certify().to_frame()
    assert frame.groupby("mechanism").size().to_dict() == dict.fromkeys(FAMILY, R)
    assert set(certify().to_dict()) == set(FAMILY)


def test_streams_of_a_family_list_the_same_records() -> None:
    def stream(start: int) -> pg.LossStream:
        part = pg.LossArray(np.zeros((3, 60, 1)), pg.Records(ids=np.arange(start, start + 60)))
        return pg.LossStream(
            chunks=[part], n_releases=3, n_records=60, n_requirements=1, random_order=True
        )

    with pytest.raises(pg.LossMismatch):
        pg.certify({"a": stream(0), "b": stream(7)}, [LOSS], reliability_target=0.8)


def test_many_mechanisms_are_counted_and_the_worst_come_first() -> None:
    losses = {f"m{k}": np.full((60, 300, 1), float(k % 3 == 0)) for k in range(24)}
    error = pg.Requirement(name="error", low=0, high=1, limit=0.1, two_valued=True)
    family = pg.certify(losses, [error], reliability_target=0.8, seed=1)
    text = str(family)
    first, *rest = text.splitlines()
    counts = Counter(str(d) for d in family.decisions.values())
    assert counts["violation"] == 8
    assert first == f"{counts['validated']} of 24 mechanisms validated, 0 unresolved, 8 violations"
    assert [line for line in rest if ": m" in line][:9] == [
        *(f"VIOLATION: m{k}" for k in range(0, 24, 3)), "VALIDATED: m1",
    ]  # fmt: skip
    assert rest[-1].startswith("  and 14 more mechanisms: .to_frame() has")
    assert rest[-1].endswith("certificate[NAME] is one of them")
    assert len(rest) == 21
    # What is printed is what a notebook without HTML and a debugger show, too.
    assert repr(family) == text
    # A few are told whole.
    few = pg.certify({k: losses[k] for k in ("m0", "m1")}, [error], reliability_target=0.8, seed=1)
    assert str(few) == "\n\n".join(map(str, few.values()))


def test_of_many_requirements_the_text_has_those_with_the_least_room() -> None:
    limits = [
        pg.Requirement(name=f"error {k}", low=0, high=1, limit=(k + 5) / 100) for k in range(60)
    ]
    certificate = pg.certify(
        np.full((5, 200, 60), 0.3), limits[::-1],
        reliability_target=0.5, seed=1,
    )  # fmt: skip
    text = str(certificate)
    assert text.count("and 50 more requirements: ") == 2  # what was required, and what was seen
    assert re.findall(r"^  (error \d+): limit", text, re.MULTILINE) == [
        f"error {k}" for k in range(10)
    ]
    assert len(text.splitlines()) < 50
