"""The studies by name, in the paper's order, and then those that it lacks."""

from __future__ import annotations

from reproduction.studies import (
    calibration,
    component_power,
    costs,
    exposure,
    held_out,
    labels_needed,
    mechanisms,
    modes,
    pilots,
    searches,
    sequential_draws,
    shared_target,
    sharp_rates,
    sharp_tables,
    smooth_target,
    violation,
    worst_case,
)
from reproduction.studies.study import Study

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
        pilots.SHARED_TARGET_PILOT,
        shared_target.SHARED_TARGET,
        pilots.MODE_COMPARISON_PILOT,
        modes.MODE_COMPARISON,
        pilots.MODE_COMPARISON_HIGH_SIGNAL_PILOT,
        modes.MODE_COMPARISON_HIGH_SIGNAL,
        pilots.FALSE_PASS_PILOT,
        shared_target.FALSE_PASS,
        pilots.SMOOTH_TARGET_PILOT,
        smooth_target.SMOOTH_TARGET,
        costs.COST_PLAN,
        costs.MODE_PHASE,
        costs.COST_PLAN_SENSITIVITY,
        component_power.COMPONENT_TESTS,
        sharp_tables.SHARP_COUNTS,
        sharp_rates.SHARP_RATES,
        labels_needed.LABELS_NEEDED,
        sequential_draws.SEQUENTIAL_DRAWS,
        violation.VIOLATION_DIRECT_HOLM,
        exposure.EXPOSURE,
        worst_case.WORST_CASE,
    )
}
