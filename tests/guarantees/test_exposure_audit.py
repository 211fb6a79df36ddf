"""Exposure at the boundary of its nulls, through the code that scores an opened target.

Records are one uniform number, so that the share of them within a distance of a release is a
length: each limit is put on the truth of the very release, members and threshold that are scored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from proxyguard.audit.attacks import MemberAttacks
from proxyguard.audit.exposure import ExposureScorer
from proxyguard.audit.target import Chunk
from proxyguard.documents.releases import DrawnRelease
from proxyguard.evidence.releases import evidence_of
from proxyguard.exact.rounding import Array
from proxyguard.losses.cell import Reading
from proxyguard.losses.measure import Measure, measure_exposure
from proxyguard.losses.records import Records
from proxyguard.registry.design import Iid
from proxyguard.registry.exposure import ExposurePart
from proxyguard.registry.parts import RequirementPart
from proxyguard.registry.test import default_test

pytestmark = pytest.mark.guarantee

LEVEL = 0.05
RECORDS = 150
Verdict = Callable[[int, int, float], bool]


def frame(numbers: Array) -> pd.DataFrame:
    return pd.DataFrame({"x": numbers})


class FreshTarget:
    """Records of the law, in two chunks."""

    n_records = RECORDS

    def __init__(self, rng: np.random.Generator) -> None:
        self._frame = frame(rng.random(RECORDS))

    def chunks(self) -> Iterator[Chunk]:
        whole = self.whole()
        yield whole.rows(0, 100)
        yield whole.rows(100, RECORDS)

    def whole(self) -> Chunk:
        places = np.arange(RECORDS)
        records = Records(ids=places, random_order=True)
        return Chunk(frame=self._frame, positions=places, y=None, records=records)


class Law:
    """A release that lies on some of its members, and what is true of it."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self.members, self.reference, self.calibration = (rng.random(n) for n in (120, 200, 80))
        self.release = np.sort(np.concatenate([self.members[:40] + 1e-3, rng.random(30)]))
        self.grid = (np.arange(400_000) + 0.5) / 400_000  # of all records there are

    def nearness(self, numbers: Array) -> Array:
        """Return the score: minus the distance to the release, in reference deviations."""
        at = np.searchsorted(self.release, numbers)
        right = self.release[np.minimum(at, self.release.size - 1)]
        left = self.release[np.maximum(at - 1, 0)]
        distance = np.minimum(np.abs(numbers - left), np.abs(right - numbers))
        return -distance / self.reference.std()

    def development(self) -> Any:
        table = frame(self.release)
        return SimpleNamespace(
            member=SimpleNamespace(
                attacking=ExposurePart(), target=SimpleNamespace(design=None, sampling_design=Iid())
            ),
            attacked=["x"],
            reference=lambda: frame(self.reference),
            calibration=lambda: frame(self.calibration),
            members=lambda: frame(self.members),
            members_of=lambda draw: frame(self.members),
            place=SimpleNamespace(folder=SimpleNamespace(stored_table=lambda address, what: table)),
        )

    def measures(self) -> list[Measure]:
        """Return the four kinds, each with its limit where the truth is."""
        members, law = np.sort(self.nearness(self.members)), np.sort(self.nearness(self.grid))

        def share(scores: Array, c: Any) -> Any:
            return 1.0 - np.searchsorted(scores, c, side="left") / scores.size

        c = np.quantile(self.nearness(self.calibration), 0.75, method="higher")
        found = members[members.size - 48]  # 40 % of 120 members are found from here on
        below = np.searchsorted(members, law, side="right")
        asked: list[dict[str, Any]] = [
            {"exposure": "advantage", "threshold": {"quantile": "0.75"},
             "limit": share(members, c) - share(law, c)},
            {"exposure": "advantage everywhere",
             "limit": np.max(share(members, members) - share(law, members))},
            {"exposure": "tpr at fpr", "fpr": repr(float(share(law, found))), "limit": 0.4},
            {"exposure": "membership auc", "limit": np.mean(1.0 - below / members.size)},
        ]  # fmt: skip
        return [
            measure
            for each in asked
            for measure in measure_exposure(
                RequirementPart.model_validate(
                    {**each, "name": each["exposure"], "attacks": ["dcr"],
                     "limit": repr(float(each["limit"]))}
                ),
                ExposurePart(),
                Iid(),
            )
        ]  # fmt: skip


def test_scoring_an_opened_target_errs_at_most_as_often_as_registered(
    within_budget: Verdict, effort: pytest.FixtureRequest
) -> None:
    trials = effort.times(whole=4000, reduced=400)
    law = Law()
    measures = law.measures()
    requirements = tuple(measure.requirement for measure in measures)
    reading = Reading(
        requirements=requirements, design=Iid(),
        tests=tuple(default_test(Iid(), requirement) for requirement in requirements),
        level=LEVEL, violation_level=LEVEL,
    )  # fmt: skip
    draw = DrawnRelease(
        seed=1, status="drawn", guard="audit hook", rows=law.release.size, content="0" * 64,
        stages=(), selected=None, threshold=None, temperature=None, prepared_at_random=False,
        release="0" * 64, model=None,
    )  # fmt: skip
    attacks = MemberAttacks(law.development(), measures)
    rng = np.random.default_rng(17)
    errors = np.zeros((2, len(measures)), dtype=int)
    for _ in range(trials):
        scorer = ExposureScorer(
            attacks=attacks, target=FreshTarget(rng), progress=lambda *told: None
        )
        (columns,) = scorer.score("m", [draw], [reading]).columns
        found = evidence_of(columns, reading, releases=("1",))
        errors[0] += found.pvalues[0] <= LEVEL
        errors[1] += found.violation_pvalues[0] <= LEVEL
    for direction in errors:
        for wrong in direction.tolist():
            assert within_budget(wrong, trials, LEVEL)
    # At one threshold both tests are exact up to whole counts, so that the limits do lie there.
    assert errors[:, [0, 2]].min() > 0.01 * trials
