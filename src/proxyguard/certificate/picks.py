"""How many of the releases that a reader picks are valid (theory section 3, "Any subset").

The e-values are recorded as whole numbers of one unit, exactly, so that whoever computes the
bound from them, in Python or in a page, gets the same integers, ties included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, lcm

from proxyguard.certificate.wording import confidence
from proxyguard.documents.certificate import PickGroup, PicksRecord
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
) -> PicksRecord:
    """Return the e-values of every release, with the levels they are held to.

    Guarantee
    ---------
    Theory section 3: outside one event of probability ``picks.alpha``, for every choice of
    releases of every group at once, however it was made, `ValidCount.of` the recorded values
    does not exceed the number of valid releases among those chosen. Rests on all releases
    having been drawn before the target was opened. ``counted`` says that the claim itself
    counts valid releases.
    """
    levels = picks.levels(list(evidence), shares)
    return PicksRecord(
        alpha=picks.alpha,
        rests_on=RESTS_ON,
        sentence=_sentence(Fraction(picks.alpha), counted),
        mechanisms={
            name: _group(releases, picks.cutoffs(levels[name]), levels[name])
            for name, releases in evidence.items()
        },
    )


def read_picks(record: PicksRecord) -> dict[str, ValidCount]:
    """Return the counts that a record of picks stands for, one a group."""
    return {
        name: ValidCount(
            releases=group.releases,
            evalues=[int(e) * Fraction(group.unit) for e in group.evalues],
            alpha=Fraction(*map(int, group.alpha)),
        )
        for name, group in record.mechanisms.items()
    }


def _group(evidence: ReleaseEvidence, cutoffs: Sequence[Fraction], level: Fraction) -> PickGroup:
    evalues = calibrated_evalues(evidence, thresholds=cutoffs)
    unit = lcm(*(e.denominator for e in evalues))
    # At R/alpha one release outweighs all others together: more would change no count.
    cap = ceil(evidence.n_releases / level * unit)
    return PickGroup(
        alpha=(str(level.numerator), str(level.denominator)),
        thresholds=tuple(str(t) for t in cutoffs),
        unit=f"1/{unit}",
        releases=evidence.releases,
        # A multiple of every denominator: int() cuts nothing off.
        evalues=tuple(str(min(cap, int(e * unit))) for e in evalues),
    )


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
