"""A small audit, built once and copied at whatever step a test starts from."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from proxyguard.audit.audit import Audit

DECLARATION = """\
format = 1
name = "small"
purpose = "Is this small audit sound?"

[target]
table = "table.csv"
reserve = { rows = 300, seed = 11 }
outcome = "label"
positive = "yes"

[development]
validation = { fraction = "0.25", stratify = true, seed = 12 }

[procedure]
library = ["fixed_logistic"]
choose = { loss = "cost", false_negative = "2", thresholds = 51 }

[[requirement]]
name = "Brier transfer"
loss = "brier"
form = "relative"
limit = "0.10"

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = { source_validation_plus = "0.10", round_up = "0.001" }

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 8
seeds = { first = 100 }

[[secondary]]
name = "strict"
limits = { "Brier risk" = "0.10" }

[claim]
reliability = "0.6"
"""

STAGES = ("new", "sealed", "registered", "drawn", "certified")


def write_table(path: Path, *, rows: int = 700, seed: int = 1) -> None:
    """Write a table of two features and a label that follows from them, with noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2)).round(4)
    label = np.where(x[:, 0] + 0.5 * x[:, 1] + 0.7 * rng.normal(size=rows) > 0, "yes", "no")
    lines = ["first,second,label"]
    lines += [f"{a},{b},{c}" for (a, b), c in zip(x.tolist(), label.tolist(), strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def audit_in(root: Path, **options: object) -> Audit:
    """Return the audit of a folder that has ``audit``, ``home`` and ``data``."""
    return Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1, **options)


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy of the small audit after each step."""
    root = tmp_path_factory.mktemp("stages")
    work = root / "work"
    write_table(work / "data" / "table.csv")
    audit = audit_in(work)
    steps: dict[str, Callable[[], object]] = {
        "new": lambda: audit.init(DECLARATION),
        "sealed": audit.seal,
        "registered": audit.register,
        "drawn": audit.draw,
        "certified": audit.open,
    }
    for stage in STAGES:
        steps[stage]()
        shutil.copytree(work, root / stage)
    return root


@pytest.fixture
def at(stages: Path, tmp_path: Path) -> Callable[[str], Audit]:
    """Return a fresh copy of the small audit after a step; one call a test."""

    def copy(stage: str) -> Audit:
        root = tmp_path / stage
        shutil.copytree(stages / stage, root)
        return audit_in(root)

    return copy
