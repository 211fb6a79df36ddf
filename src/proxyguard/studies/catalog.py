"""The studies by name, in the paper's order."""

from __future__ import annotations

from proxyguard.studies import (
    calibration,
    costs,
    held_out,
    mechanisms,
    modes,
    searches,
    shared_target,
)
from proxyguard.studies.study import Study

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        calibration.CALIBRATION,
        calibration.TARGET_REUSE,
        held_out.HELD_OUT_REGRETS,
        searches.RARE_GROUP,
        mechanisms.MECHANISM_CALIBRATION,
        searches.ADAPTIVE_STREAM,
        searches.RELEASE_PLANNING,
        mechanisms.NEAR_BOUNDARY,
        mechanisms.ERROR_SPLIT,
        mechanisms.COLLECTIVE_GRID,
        shared_target.SHARED_TARGET,
        modes.MODE_COMPARISON,
        modes.MODE_COMPARISON_HIGH_SIGNAL,
        shared_target.FALSE_PASS,
        shared_target.SMOOTH_TARGET,
        costs.COST_PLAN,
        costs.MODE_PHASE,
        costs.COST_PLAN_SENSITIVITY,
    )
}
