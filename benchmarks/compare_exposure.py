"""Two releases of one table under three packages: ours, anonymeter 1.1.0, mostlyai-qa 1.10.11.

The table is Adult (`adult/adult.data.gz` under ``PROXYGUARD_DATA``), 13 columns. Of its rows, in a
seeded random order, 3,000 are members, the next 3,000 are kept from every release (the others'
"control" or "holdout", our target) and 1,500 more are our reference rows. ``bootstrap`` draws 3,000
members with replacement; ``marginals`` draws every column by itself from the members.

    python benchmarks/compare_exposure.py tables FOLDER
    python benchmarks/compare_exposure.py ours FOLDER

The other two are no dependencies, and each wants an environment of its own:

    pip install anonymeter==1.1.0      &&  python benchmarks/compare_exposure.py anonymeter ...
    pip install mostlyai-qa==1.10.11   &&  python benchmarks/compare_exposure.py mostlyai ...

`docs/howto-exposure.md` has what they print, and what each number answers.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from proxyguard.exposure.statistics import Census, ThresholdCounter

COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "edunum", "marital", "occupation", "relationship",
    "race", "sex", "gain", "loss", "hours", "country", "income",
)  # fmt: skip
LEFT_OUT = ["edunum", "country"]
MEMBERS, HOLDOUT, REFERENCE = 3000, 3000, 1500
RELEASES = ("bootstrap", "marginals")
SIDES = (
    ("age", "workclass", "education", "hours"),
    ("marital", "occupation", "relationship", "sex", "income"),
)
SECRET = "income"
NUMBER = "fnlwgt"  # nearly unique
# Of ours: what attacks see and start from, and at which error.
SCORED = ("dcr", "density", "domias", "gen-lra")
COMPONENTS, SEED, THRESHOLDS, FPR, LEVEL = 10, 911, 20, 0.01, 0.05


def tables(folder: Path) -> None:
    """Write members, holdout, reference and both releases."""
    source = Path(os.environ["PROXYGUARD_DATA"]) / "adult" / "adult.data.gz"
    whole = pd.read_csv(source, names=list(COLUMNS), skipinitialspace=True)
    rows = whole.drop(columns=LEFT_OUT).sample(frac=1, random_state=1).reset_index(drop=True)
    members = rows[:MEMBERS]
    rng = np.random.default_rng(3)
    written = {
        "members": members,
        "holdout": rows[MEMBERS : MEMBERS + HOLDOUT],
        "reference": rows[MEMBERS + HOLDOUT : MEMBERS + HOLDOUT + REFERENCE],
        "bootstrap": members.iloc[rng.integers(0, MEMBERS, MEMBERS)],
        "marginals": pd.DataFrame({
            name: members[name].to_numpy()[rng.integers(0, MEMBERS, MEMBERS)] for name in members
        }),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in written.items():
        table.to_csv(folder / f"{name}.csv", index=False)


def read(folder: Path, name: str) -> pd.DataFrame:
    """Return one of the tables."""
    return pd.read_csv(folder / f"{name}.csv")


def ours(folder: Path) -> None:
    """Print what exposure requirements say of each release, from 3,000 nonmembers.

    These are the numbers of one release that an audit decides from, without the seal: the holdout
    stands for a target that nobody had seen. Limits are one-sided, 95 % each.
    """
    from proxyguard.exposure.attacks import AttackSuite
    from proxyguard.exposure.descriptive import describe_release
    from proxyguard.exposure.representation import Representation, Rows
    from proxyguard.exposure.statistics import Census, ThresholdCounter
    from proxyguard.registry.exposure import AttackPart

    frames = {name: read(folder, name) for name in ("members", "holdout", "reference", *RELEASES)}
    fitted = Representation.fit(frames["reference"], None, COMPONENTS)
    rows = {name: Rows(frame, fitted) for name, frame in frames.items()}
    parts = {kind: AttackPart(kind=kind) for kind in SCORED}
    parts["income"] = AttackPart(kind="nearest row", secret=SECRET)
    parts["link"] = AttackPart(kind="linkability", sides=SIDES)
    for release in RELEASES:
        figures = describe_release(rows[release], rows["members"], rows["holdout"])
        print(
            f"{release:10} copies {figures.copies} of {figures.rows} rows, of "
            f"{figures.copied_members} members; identical {figures.identical_members:.3f}"
        )
        suite = AttackSuite.fit(parts, rows[release], rows["reference"], rows["members"], SEED)
        members, others = suite.scores(rows["members"]), suite.scores(rows["holdout"])
        for attack in SCORED:
            census = Census(members[attack])
            counter = ThresholdCounter(census)
            counter.add(others[attack])
            print(
                f"{release:10} {attack:8} {everywhere(counter, census)}; "
                f"{found(census, others[attack])}; {ranked(census, others[attack])}"
            )
        for attack in ("income", "link"):
            print(f"{release:10} {attack:8} {succeeds(members[attack], others[attack])}")
        # What a person would try by hand: is the record's number among those of the release?
        known = frames[release][NUMBER]
        listed = [frames[name][NUMBER].isin(known).to_numpy() for name in ("members", "holdout")]
        print(f"{release:10} {NUMBER:8} {succeeds(*listed)}")


def everywhere(counter: ThresholdCounter, census: Census) -> str:
    """Return limits of the largest advantage of any threshold, and the p-values of .10."""
    from proxyguard.exact.exposure import everywhere_pvalue, everywhere_violation_pvalue

    flagged, n, shares = counter.flagged, counter.n, census.shares
    registered = census.registered(THRESHOLDS)

    def validation(limit: float) -> float:
        return float(everywhere_pvalue(flagged, n, shares, limit))

    def violation(limit: float) -> float:
        return float(everywhere_violation_pvalue(flagged[registered], n, shares[registered], limit))

    grid = np.arange(1, 1000) / 1000
    upper = next((limit for limit in grid if validation(limit) <= LEVEL), 1.0)
    lower = next((limit for limit in grid[::-1] if violation(limit) <= LEVEL), 0.0)
    largest = float(np.max(shares - flagged / n))
    return (
        f"advantage {largest:.3f} [{lower:.3f}, {upper:.3f}], "
        f"p below .10 {validation(0.1):.2g}, above {violation(0.1):.2g}"
    )


def found(census: Census, others: np.ndarray) -> str:
    """Return limits of the share of members that is found with false alarms on 1 % of others."""
    from proxyguard.exact.exposure import tpr_pvalues

    shares = np.arange(1, 1001) / 1000
    flagged = [int((others >= census.threshold_for(float(share))).sum()) for share in shares]
    fewer, more = tpr_pvalues(flagged, others.size, FPR)
    upper = float(shares[fewer <= LEVEL].min(initial=1.0))
    lower = float(shares[more <= LEVEL].max(initial=0.0))
    at = np.quantile(others, 1 - FPR, method="higher")
    return f"found at 1 % {float(census.share(at)):.3f} [{lower:.3f}, {upper:.3f}]"


def ranked(census: Census, others: np.ndarray) -> str:
    """Return limits of the chance that a member outscores another record."""
    from proxyguard.exact.betting import betting_upper
    from proxyguard.exposure.statistics import auc_losses

    losses = auc_losses(census, others)
    # The records of the holdout are in random order, which betting asks for.
    both = np.stack([losses, 1.0 - losses])
    upper, rest = betting_upper(both, level=LEVEL, delta=LEVEL).tolist()
    lower = 1.0 - rest
    return f"AUC {losses.mean():.3f} [{lower:.3f}, {upper:.3f}]"


def succeeds(members: np.ndarray, others: np.ndarray) -> str:
    """Return limits of how much more often an attack succeeds for members than for others."""
    from proxyguard.exact.binomial import clopper_pearson_lower, clopper_pearson_upper

    share, count, n = float(members.mean()), int(others.sum()), others.size
    lower = share - float(clopper_pearson_upper(count, n, alpha=LEVEL))
    upper = share - float(clopper_pearson_lower(count, n, alpha=LEVEL))
    return (
        f"members {share:.3f}, others {count / n:.3f}, advantage {share - count / n:.3f} "
        f"[{lower:.3f}, {upper:.3f}]"
    )


def main() -> None:
    """Run what the command names."""
    steps = {"tables": tables, "ours": ours, "anonymeter": anonymeter, "mostlyai": mostlyai}
    if len(sys.argv) != 3 or sys.argv[1] not in steps:
        raise SystemExit(f"usage: compare_exposure.py {'|'.join(steps)} FOLDER")
    steps[sys.argv[1]](Path(sys.argv[2]))


def anonymeter(folder: Path) -> None:
    """Print anonymeter's three risks: singling out, linkability, inference."""
    from anonymeter.evaluators import (
        InferenceEvaluator,
        LinkabilityEvaluator,
        SinglingOutEvaluator,
    )

    members, holdout = read(folder, "members"), read(folder, "holdout")
    known = [name for name in members if name != SECRET]
    for release in RELEASES:
        common = {"ori": members, "syn": read(folder, release), "control": holdout}
        # Which rows are attacked comes from NumPy's global state; singling out draws its guesses
        # from a generator that nobody can seed, so that its risk differs from run to run.
        np.random.seed(0)  # noqa: NPY002 - see above
        evaluators = {
            "singling out": SinglingOutEvaluator(**common, n_attacks=500),
            "linkability": LinkabilityEvaluator(
                **common, n_attacks=1000, aux_cols=tuple(map(list, SIDES)), n_neighbors=1
            ),
            "inference": InferenceEvaluator(
                **common, n_attacks=1000, aux_cols=known, secret=SECRET
            ),
        }
        for name, evaluator in evaluators.items():
            asked = {"mode": "univariate"} if name == "singling out" else {"n_jobs": 1}
            risk = evaluator.evaluate(**asked).risk(confidence_level=0.95)
            low, high = risk.ci
            results = evaluator.results()
            rates = ", ".join(
                f"{word} {rate.value:.3f}"
                for word, rate in (
                    ("attack", results.attack_rate),
                    ("control", results.control_rate),
                    ("baseline", results.baseline_rate),
                )
            )
            print(f"{release:10} {name:13} {risk.value:.3f} [{low:.3f}, {high:.3f}]  {rates}")


def mostlyai(folder: Path) -> None:
    """Print mostlyai-qa's distances: identical matches, to closest rows, and their ratios."""
    from mostlyai import qa

    for release in RELEASES:
        _, metrics = qa.report(
            syn_tgt_data=read(folder, release),
            trn_tgt_data=read(folder, "members"),
            hol_tgt_data=read(folder, "holdout"),
            report_path=folder / f"{release}.html",
        )
        print(f"{release:10} {metrics.distances}")


if __name__ == "__main__":
    main()
