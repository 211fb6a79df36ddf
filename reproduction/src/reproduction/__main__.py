"""``python -m reproduction``: the paper's simulations, planner and data sets."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Run one command; without the product, say what to install."""
    if find_spec("proxyguard") is None:
        sys.exit(
            "reproduction: the paper is reproduced with the package proxyguard, which this Python "
            f"({sys.executable}) does not have; install both from a checkout with: "
            "python -m pip install -e . -e reproduction"
        )
    from proxyguard.cli.main import run
    from reproduction.cli.main import app

    run(app, ["python", "-m", "reproduction"])


if __name__ == "__main__":
    main()
