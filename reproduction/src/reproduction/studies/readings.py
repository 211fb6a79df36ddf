"""What each study asks, what to see in its rows, and where the published material misleads.

The words are in readings.toml. Every number in a sentence is taken from the rows; a sentence whose
rows are not there is left out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any

from reproduction.studies import paper_words, reading_rules
from reproduction.studies.sentences import (
    Reading,
    Rows,
    asked_at_target,
    gain_sentences,
    largest_error,
    pick,
    rarely_shown,
    say,
)

Words = Mapping[str, Any]
"""A table of readings.toml."""


def _largest_error(
    rows: Rows, *, metric: str, above: float | None = None, only: Words | None = None
) -> list[str]:
    chosen = [row for row in rows if all(row.cell.get(k) == v for k, v in (only or {}).items())]
    return largest_error(chosen, metric, above=above)


def _gains(
    rows: Rows, *, metric: str, ours: str, names: Sequence[str], above_target: bool = False
) -> list[str]:
    if not above_target:
        return gain_sentences(rows, metric, ours, names)
    chosen = [row for row in rows if row.cell.get("eta", 1.0) > 0.8]
    return gain_sentences(chosen, metric, ours, names, above=" above the target")


RULES: Mapping[str, Callable[..., list[str]]] = {
    "a design that cannot decide": reading_rules.undecidable_design,
    "asked at target": asked_at_target,
    "cells without a count": reading_rules.cells_without_count,
    "costs and powers": reading_rules.costs_and_powers,
    "draws saved": reading_rules.draws_saved,
    "gains": _gains,
    "labels needed": reading_rules.labels_needed,
    "largest error": _largest_error,
    "least releases": reading_rules.least_releases,
    "losses of wrong pilots": reading_rules.losses_of_wrong_pilots,
    "mean powers of tests": reading_rules.mean_powers,
    "near boundary": reading_rules.near_boundary,
    "powers by law": reading_rules.powers_by_law,
    "ramp sums": paper_words.ramp_sums,
    "rarely shown": rarely_shown,
    "simes gain": paper_words.simes_gain,
    "split error": paper_words.split_error,
    "vacuous allowance": paper_words.vacuous_allowance,
}
"""What a `rule` of readings.toml may name; its other keys are the arguments."""


def _seen(entries: Sequence[Words], rows: Rows) -> list[str]:
    """Return the sentences of one study."""
    sentences: list[str] = []
    for entry in entries:
        if "rule" in entry:
            arguments = {name: given for name, given in entry.items() if name != "rule"}
            sentences += RULES[entry["rule"]](rows, **arguments)
        else:
            picked = {
                name: pick(rows, method, metric, **entry.get("at", {}), **(cell[0] if cell else {}))
                for name, (method, metric, *cell) in entry["rows"].items()
            }
            sentences += say(entry["say"], **picked)
    return sentences


def _read() -> dict[str, Reading]:
    words = tomllib.loads(files(__package__).joinpath("readings.toml").read_text("utf-8"))
    shared = words.pop("shared")
    return {
        name: Reading(
            asks=table["asks"],
            see=partial(_seen, table.get("see", ())),
            beware=table.get("beware", ""),
            ours=shared[table["ours"]] if "ours" in table else "",
        )
        for name, table in words.items()
    }


READINGS: Mapping[str, Reading] = _read()
"""The words of every study's section."""
