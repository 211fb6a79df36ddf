"""The command as it is typed in a folder of its own, and a small audit to type it on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import proxyguard as pg
from conformance import warm

ROOT = Path(pg.__file__).parent.parent

DECLARATION = """\
format = 1
name = "typed"
purpose = "Does the command line keep to its codes?"

[target]
table = "table.csv"
reserve = { rows = 200, seed = 11 }
outcome = "label"
positive = "yes"

[procedure]
library = ["fixed_logistic"]

[[requirement]]
name = "risk"
loss = "brier"
form = "absolute"
limit = "0.30"

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 4
seeds = { first = 100 }

[claim]
reliability_target = "0.3"
"""

Done = subprocess.CompletedProcess[str]


def environment(home: Path) -> dict[str, str]:
    # A child does not inherit sys.path, and nothing may touch the user's own home.
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "PROXYGUARD_HOME": str(home),
    }


def proxyguard(root: Path, *arguments: str) -> Done:
    """Run one command in ``root``, where ``data`` and ``home`` lie."""
    command = [sys.executable, "-m", "proxyguard.cli.main", *arguments]
    return warm.run(command, cwd=root, env=environment(root / "home"))


def write_table(path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 2)).round(4)
    label = np.where(x[:, 0] + 0.5 * x[:, 1] + 0.7 * rng.normal(size=400) > 0, "yes", "no")
    lines = ["first,second,label"]
    lines += [f"{a},{b},{c}" for (a, b), c in zip(x.tolist(), label.tolist(), strict=True)]
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines) + "\n")
