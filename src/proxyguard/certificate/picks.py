"""How many of the releases that a reader picks are valid (theory section 3, "Any subset").

The e-values are recorded as whole numbers of one unit, exactly, so that whoever computes the
bound from them, in Python or in a page, gets the same integers, ties included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, lcm
from typing import Any

from proxyguard.certificate.wording import confidence
from proxyguard.evidence.releases import ReleaseEvidence
from proxyguard.modes.count import ValidCount, calibrated_evalues
from proxyguard.registry.parts import Picks

RESTS_ON = "theory section 3, any subset of the releases, by the mixture calibrator"


def picks_record(
    picks: Picks,
    evidence: Mapping[str, ReleaseEvidence],
    *,
    counted: bool,
    shares: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the e-values of every release as plain values, with the levels they are held to.

    Guarantee
    ---------
    Theory section 3: outside one event of probability ``picks.alpha``, for every choice of
    releases of every group at once, however it was made, `ValidCount.of` the recorded values
    does not exceed the number of valid releases among those chosen. Rests on all releases
    having been drawn before the target was opened. ``counted`` says that the claim itself
    counts valid releases.
    """
    levels = picks.levels(list(evidence), shares)
    return {
        "alpha": picks.alpha,
        "rests_on": RESTS_ON,
        "sentence": _sentence(Fraction(picks.alpha), counted),
        "mechanisms": {
            name: _group(one, picks.cutoffs(levels[name]), levels[name])
            for name, one in evidence.items()
        },
    }


def read_picks(record: Mapping[str, Any]) -> dict[str, ValidCount]:
    """Return the counts that a record of picks stands for, one a group."""
    found = {}
    for name, one in record["mechanisms"].items():
        unit = Fraction(one["unit"])
        numerator, denominator = one["alpha"]
        found[name] = ValidCount(
            releases=tuple(one["releases"]),
            evalues=[int(e) * unit for e in one["evalues"]],
            alpha=Fraction(int(numerator), int(denominator)),
        )
    return found


def _group(
    evidence: ReleaseEvidence, cutoffs: Sequence[Fraction], level: Fraction
) -> dict[str, Any]:
    evalues = calibrated_evalues(evidence, thresholds=cutoffs)
    unit = lcm(*(e.denominator for e in evalues))
    # At R/alpha one release outweighs all others together: more would change no count.
    cap = ceil(evidence.n_releases / level * unit)
    return {
        "alpha": [str(level.numerator), str(level.denominator)],
        "thresholds": [str(t) for t in cutoffs],
        "unit": f"1/{unit}",
        "releases": list(evidence.releases),
        "evalues": [str(min(cap, int(e * unit))) for e in evalues],
    }


def _sentence(alpha: Fraction, counted: bool) -> str:
    words = (
        f"With {confidence(alpha)} confidence, for every choice of releases of every mechanism at "
        "once, made after looking, at least the number shown are valid. This has an error budget "
        "of its own, apart from the claim's."
    )
    if counted:
        words += (
            " The claim's own count of valid releases holds for every choice too, outside its "
            "alpha_Z and by its own e-values; what is shown here does not rest on it."
        )
    return words
