"""One thread, one hypothesis profile and fixed seeds, and how much of the long tests is run.

`make test` runs reduced: long Monte Carlo with fewer repetitions, long sweeps with fewer cases,
and what makes no sense with less not at all. `make test-all` runs everything whole, and
`make test-whole` the rest: whole, and only what the reduced run did less of. A test says how far
it can be reduced in one of three ways, all of which are read here and nowhere else:

- it takes the fixture ``effort`` and asks it: ``effort.times(whole=2000, reduced=400)``, or which
  of the cases of a loop are tried, some of every kind;
- it is marked ``reduced(cases=5)``: five of its parameters, spread evenly, first and last among
  them;
- it is marked ``whole``, alone or as the mark of a parameter.

What needs torch, a module that skips itself without it, is marked ``torch`` here, and is what
`make test-torch` runs; what is marked ``gpu`` needs a CUDA device as well.

Tests of hypothesis try fewer examples. A reduced test asserts what the whole one does, with the
tolerance that its own number of repetitions allows.
"""

from __future__ import annotations

import gc
import glob
import os
import random
import sqlite3
from importlib.util import find_spec

# Read when the libraries are loaded, so this precedes the first import of numpy.
for _name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

T = TypeVar("T")

EXAMPLES = {"reduced": 25, "whole": 100, "rest": 100}
"""Examples of a property, where it names no number itself."""
SLOWEST = 10
"""Tests that are named at the end of a run."""
TORCH = find_spec("torch") is not None
NEURAL = Path(__file__).parents[1] / "src" / "proxyguard" / "neural"
"""Modules that import torch themselves: without it their docstrings cannot be tried."""
BESIDE = Path(__file__).parent / "neural"


@dataclass(frozen=True)
class Effort:
    """How much of a long test is run."""

    whole: bool

    def times(self, *, whole: int, reduced: int) -> int:
        """Return the number of repetitions: all of them, or so many as a reduced run takes."""
        return whole if self.whole else reduced

    def some(self, cases: Sequence[T], *, reduced: int, kind: Callable[[T], object]) -> list[T]:
        """Return the cases of a sweep: all of them, or so many of each kind, spread evenly."""
        if self.whole:
            return list(cases)
        kinds: dict[object, list[int]] = defaultdict(list)
        for place, case in enumerate(cases):
            kinds[kind(case)].append(place)
        kept = {places[k] for places in kinds.values() for k in spread(len(places), reduced)}
        return [case for place, case in enumerate(cases) if place in kept]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--effort",
        choices=list(EXAMPLES),
        default="reduced",
        help="long tests reduced (make test), whole (make test-all), or the rest: whole, and "
        "only what the reduced run does less of (make test-whole)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "whole: not run where long tests are reduced")
    config.addinivalue_line("markers", "reduced(cases): so many of its parameters where reduced")
    examples = EXAMPLES[config.getoption("effort")]
    settings.register_profile("proxyguard", derandomize=True, deadline=None, max_examples=examples)
    settings.load_profile("proxyguard")
    # Registered and not a function of this file, which is asked about files beside it alone.
    config.pluginmanager.register(WithoutTorch())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Look for no cycles among the tests themselves.

    Thousands of them are made and none is given back: to walk over all of them again and again
    takes a fifth of the collection, and a fortieth of the tests.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class WithoutTorch:
    """Leaves out, and says so, what cannot even be imported where torch is not installed."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        within = NEURAL in (collection_path, *collection_path.parents)
        # Tests skip with a reason; what lies beside them is imported for its examples.
        helper = collection_path.parent == BESIDE and not collection_path.name.startswith("test_")
        return True if (within or helper) and not TORCH else None

    def pytest_report_header(self) -> str | None:
        return None if TORCH else "torch is not installed: make test-torch tries proxyguard.neural"


def needs_torch(path: Path, known: dict[Path, bool]) -> bool:
    """Return whether the tests of a file are those that `make test-torch` runs."""
    if path not in known:
        known[path] = NEURAL in path.parents or 'importorskip("torch"' in path.read_text("utf-8")
    return known[path]


def mark_torch(items: Sequence[pytest.Item]) -> None:
    """Mark what needs torch, and skip what needs a GPU where there is none.

    By the device's file: to ask torch would start CUDA in this process, which forks.
    """
    known: dict[Path, bool] = {}
    no_gpu = not glob.glob("/dev/nvidia[0-9]*")
    for item in items:
        if needs_torch(item.path, known):
            item.add_marker("torch")
        if no_gpu and item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device, and there is none"))


def spread(number: int, cases: int) -> set[int]:
    """Return so many places out of a number of them, evenly, first and last among them."""
    if cases >= number:
        return set(range(number))
    return {round(k * (number - 1) / max(1, cases - 1)) for k in range(cases)}


def left_out(items: Sequence[pytest.Item]) -> set[str]:
    """Return the tests that a reduced run does not run at all."""
    out = {item.nodeid for item in items if item.get_closest_marker("whole")}
    families: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("reduced") and item.nodeid not in out:
            families[item.nodeid.partition("[")[0]].append(item)
    for family in families.values():
        mark = family[0].get_closest_marker("reduced")
        assert mark is not None  # by which they were found
        kept = spread(len(family), mark.kwargs["cases"])
        out |= {item.nodeid for place, item in enumerate(family) if place not in kept}
    return out


def runs_less(item: pytest.Item) -> bool:
    """Return whether a test that a reduced run has too does less there."""
    return "effort" in getattr(item, "fixturenames", ()) or hasattr(
        getattr(item, "obj", None), "hypothesis"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_torch(items)
    effort = config.getoption("effort")
    if effort == "whole":
        return
    out = left_out(items)
    chosen, other = [], []
    for item in items:
        here = item.nodeid not in out
        wanted = here if effort == "reduced" else not here or runs_less(item)
        (chosen if wanted else other).append(item)
    config.hook.pytest_deselected(items=other)
    items[:] = chosen


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the time went, by folder, and which tests took most of it."""
    by_folder: Counter[str] = Counter()
    by_test: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                by_folder["/".join(PurePosixPath(report.fspath).parts[:2])] += report.duration
                by_test[report.nodeid] += report.duration
    if sum(by_folder.values()) < 1.0:
        return
    terminalreporter.section("where the time went, in seconds of all processes")
    for folder, seconds in by_folder.most_common():
        terminalreporter.write_line(f"{seconds:8.1f}  {folder}")
    terminalreporter.write_line("of which the slowest tests")
    for test, seconds in by_test.most_common(SLOWEST):
        terminalreporter.write_line(f"{seconds:8.1f}  {test}")
    if terminalreporter.config.getoption("effort") == "reduced":
        terminalreporter.write_line("Long tests were reduced; make test-all runs everything whole.")


@pytest.fixture(scope="session")
def effort(pytestconfig: pytest.Config) -> Effort:
    """How much of a long test is run; whoever asks is run again, whole, by `make test-whole`."""
    return Effort(whole=pytestconfig.getoption("effort") != "reduced")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Hold libraries to one thread even if a plugin imported numpy before this file."""
    with threadpool_limits(limits=1):
        yield


@pytest.fixture(scope="session", autouse=True)
def no_flush() -> Iterator[None]:
    """Let nothing wait for the disk: no power is cut here, and what is written is read again.

    That files are flushed, and when, is counted where that is the rule that is tested.
    """
    connect = sqlite3.connect

    def connect_loosely(*place: Any, **options: Any) -> sqlite3.Connection:
        base = connect(*place, **options)
        try:
            base.execute("pragma synchronous = off")
        except sqlite3.Error:
            base.close()
            raise
        return base

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        patch.setattr("sqlite3.connect", connect_loosely)
        yield


@pytest.fixture(scope="session", autouse=True)
def repeatable_session() -> Iterator[None]:
    """Salts and keys of what many tests share come from a fixed sequence too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secrets.token_bytes", random.Random(20260803).randbytes)
        yield


@pytest.fixture(autouse=True)
def repeatable_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds, salts and keys come from a fixed sequence, still one after the other."""
    monkeypatch.setattr("secrets.randbits", random.Random(20260801).getrandbits)
    monkeypatch.setattr("secrets.token_bytes", random.Random(20260802).randbytes)
