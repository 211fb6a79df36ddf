"""``python -m reproduction`` starts from its own folder, and says what it lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import reproduction

SOURCE = str(Path(reproduction.__file__).parents[1])


def test_without_the_product_it_says_what_to_install(tmp_path: Path) -> None:
    # -S leaves out site-packages, and with them the product and all that it brings.
    done = subprocess.run(
        [sys.executable, "-S", "-m", "reproduction", "study", "list"],
        env={**os.environ, "PYTHONPATH": SOURCE}, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == ""
    assert "does not have" in done.stderr
    assert "pip install -e . -e reproduction" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_name_is_an_error_of_usage_and_not_a_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reproduction", "study", "run", "ouija"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert "there is no study 'ouija'" in done.stderr
    assert "Usage: python -m reproduction study run" in done.stderr
    assert "Traceback" not in done.stderr
