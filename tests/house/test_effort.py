"""What a reduced run leaves out or does less of, the rest runs whole: nothing is lost between."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent.parent / "conftest.py"
TESTS = """
import pytest
from hypothesis import given, strategies as st


def test_plain():
    pass


@pytest.mark.whole
def test_long():
    pass


@pytest.mark.reduced(cases=3)
@pytest.mark.parametrize("place", range(9))
def test_sweep(place):
    pass


@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.whole)])
def test_sizes(size):
    pass


@pytest.fixture(scope="module")
def simulated(effort):
    return effort.times(whole=2000, reduced=400)


def test_monte_carlo(simulated, pytestconfig):
    assert simulated == {"reduced": 400}.get(pytestconfig.getoption("effort"), 2000)


seen = []


@given(st.integers())
def test_property(x):
    seen.append(x)


def test_examples(pytestconfig):
    assert not seen or len(seen) >= {"reduced": 25}.get(pytestconfig.getoption("effort"), 100)
    assert len(seen) < {"reduced": 60}.get(pytestconfig.getoption("effort"), 300)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Return the tests that each effort runs; all of them pass."""
    folder = tmp_path_factory.mktemp("effort")
    shutil.copy(CONFTEST, folder / "conftest.py")
    (folder / "test_toy.py").write_text(TESTS)
    names = {}
    for effort in ("reduced", "whole", "rest"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:xdist",
             "--strict-markers", "--effort", effort, "--rootdir", str(folder), str(folder)],
            capture_output=True, text=True, check=False, cwd=folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        names[effort] = {
            line.split()[0].partition("::")[2]
            for line in done.stdout.splitlines()
            if "PASSED" in line
        }
    return names


def test_nothing_is_lost_between_the_reduced_run_and_the_rest(ran: dict[str, set[str]]) -> None:
    assert ran["reduced"] | ran["rest"] == ran["whole"]
    assert len(ran["whole"]) == 1 + 1 + 9 + 2 + 1 + 1 + 1


def test_a_reduced_run_keeps_first_and_last_of_a_sweep_and_leaves_out_what_is_marked(
    ran: dict[str, set[str]],
) -> None:
    swept = {name for name in ran["reduced"] if name.startswith("test_sweep")}
    assert swept == {"test_sweep[0]", "test_sweep[4]", "test_sweep[8]"}
    assert {"test_long", "test_sizes[2]"} & ran["reduced"] == set()
    assert {"test_plain", "test_sizes[1]", "test_monte_carlo", "test_property"} <= ran["reduced"]


def test_the_rest_runs_again_what_was_reduced_and_nothing_else(ran: dict[str, set[str]]) -> None:
    assert ran["rest"] & ran["reduced"] == {"test_monte_carlo", "test_property"}
