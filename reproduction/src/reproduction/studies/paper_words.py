"""What the paper says in words, or beside a table, next to what the rows say of it."""

from __future__ import annotations

from reproduction.studies.sentences import Rows, percent, pick


def split_error(rows: Rows) -> list[str]:
    """Return the error of a power of B9, of which the paper prints that of a single decision."""
    power = pick(rows, "two-level", "power", share=0.1)
    if power is None or power.standard_error is None:
        return []
    return [
        "The paper gives the standard errors of its first two powers as about .48 points, that of "
        "one decision in each of 10,000 runs; a run's power is a mean over five mechanisms, and "
        f"its error here is {100 * power.standard_error:.2f} points in {power.repetitions:,} runs."
    ]


def simes_gain(rows: Rows) -> list[str]:
    """Return where tail-Simes gains on Holm and where not, which B10's figure shows."""
    powers = {
        (row.method, row.cell["safe"], row.cell["n"], row.cell["R"]): row.value
        for row in rows
        if row.metric == "power" and row.cell["eta"] == 0.95
    }
    gained = {
        key[1:]: value - powers[("Holm", *key[1:])]
        for key, value in powers.items()
        if key[0] == "tail-Simes" and ("Holm", *key[1:]) in powers
    }
    easy = [gain for (safe, n, _), gain in gained.items() if (safe, n) == (0.04, 1000)]
    hard = [
        value
        for (method, safe, *_), value in powers.items()
        if safe == 0.08 and method in ("Holm", "tail-Simes")
    ]
    if not easy or not hard:
        return []
    safe, n, releases = max(gained, key=lambda key: gained[key])
    return [
        "The paper says of tail-Simes against Holm at reliability .95 that the strongest gain is "
        "at safe .04 and n 500, that at safe .04 and n 1000 there is none, and that at safe .08 "
        f"both have little power. Here the strongest, {100 * gained[safe, n, releases]:.1f} "
        f"points, is at safe {safe:g}, n {n} and R {releases}; at safe .04 and n 1000 it is at "
        f"most {100 * max(easy):.1f} points, and at safe .08 no power is above "
        f"{percent(max(hard))}."
    ]


def vacuous_allowance(rows: Rows) -> list[str]:
    """Return how often direct mode validates with 500 records, which the paper calls vacuous."""
    own = [
        row.value
        for row in rows
        if row.study == "mode-comparison"
        and (row.method, row.metric, row.cell["n"]) == ("direct", "validated", 500)
    ]
    if not own:
        return []
    return [
        "The paper calls direct mode's allowance vacuous with 500 records; its largest rate over "
        f"these {len(own)} cells is {percent(max(own))}."
    ]


def ramp_sums(rows: Rows) -> list[str]:
    """Return the paper's sum for the ceiling of B14's ramp score, and ours."""
    papers = pick(rows, "ramp + Markov", "kappa", eta=0.8)
    ours = pick(rows, "ramp + Markov, rescaled", "kappa", eta=0.8)
    if papers is None or ours is None:
        return []
    return [
        f"The paper's ceiling of the ramp score, {papers.value:.5f}, is a sum over slices of equal "
        "width; slices that shrink towards the cutoff overstate the integral by less and give "
        f"{ours.value:.5f}, which our bounds take."
    ]
