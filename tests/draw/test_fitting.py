"""Models are fitted where no generator is loaded, and a draw that misbehaves fails alone."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from conformance.draws import DrawHere
from proxyguard.draw import confine as landlock
from proxyguard.draw.drawing import Fitter
from proxyguard.draw.job import DrawJob
from proxyguard.draw.messages import DrawResult, Failed, FittedRelease, Made
from proxyguard.draw.pool import DrawingPool, Draws, draw_groups
from proxyguard.draw.worker import _Fits
from proxyguard.errors import DrawError, TableError
from proxyguard.models.stored import load_model
from proxyguard.registry.parts import Procedure
from proxyguard.registry.target import Outcome
from proxyguard.tables.files import Schema, read_table_bytes, table_bytes

pytestmark = pytest.mark.usefixtures("starts_warm")

MODULE = """
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time


class Rows:
    '''Half of the source's rows, by a seed that is used as a plain number.'''

    def __init__(self, way=""):
        self.way = way

    def describe(self):
        return {}

    def prepare(self, source, rng):
        self.source = source
        if self.way == "listens":
            threading.Thread(target=sys.stdin.read, daemon=True).start()
            threading.Thread(target=os.read, args=(0, 10), daemon=True).start()
        if self.way == "exits while it prepares":
            sys.exit(3)
        if self.way == "ends while it prepares":
            os._exit(4)
        if self.way == "leaves a process and ends":
            if os.fork() == 0:
                time.sleep(600)
            os._exit(0)

    def draw(self, seed):
        if self.way == "leaves its seed alone":
            return self.source.sample(frac=0.5)
        if self.way == "names no stage":
            return self.source.sample(frac=0.5, random_state=seed.take(7))
        release = self.source.sample(frac=0.5, random_state=seed)
        if seed % 2 == 0:
            return release
        if self.way == "exits":
            sys.exit()
        if self.way == "ends":
            os._exit(0)
        if self.way == "wants memory":
            raise MemoryError("Unable to allocate 8. GiB")
        if self.way == "hangs":
            time.sleep(600)
        if self.way == "interrupts":
            raise KeyboardInterrupt
        if self.way == "leaves a process":
            if os.fork() == 0:
                time.sleep(600)
        if self.way == "works in parallel":
            multiprocessing.get_context("fork").Lock()
        if self.way == "wraps its refusal":
            try:
                open(os.path.dirname(os.path.dirname(__file__)) + "/a model")
            except PermissionError as error:
                raise RuntimeError("no model") from error
        return release


class Many(Rows):
    def draw_many(self, seeds):
        return [self.draw(seed) for seed in seeds]


class Uneven(Many):
    def draw(self, seed):
        return self.source.sample(100 + seed % 2, random_state=seed)


class Liar(Rows):
    '''Replaces what models and records are made by, wherever it is loaded.'''

    def prepare(self, source, rng):
        self.source = source
        import sklearn.linear_model
        from proxyguard.adapters import library, newton
        from proxyguard.draw import drawing as fitting
        from proxyguard.tables import files as content

        honest = library.Library.fit
        wrong = source.assign(y=source["y"].map({"0": "1", "1": "0"}))
        library.Library.fit = lambda self, table, *rest: honest(self, wrong, *rest)
        fitting.content_digest = content.content_digest = lambda frame: "0" * 64
        fitting.Fitter.fit = lambda self, made, table: 1 / 0
        sklearn.linear_model.LogisticRegression.fit = lambda self, *rest, **named: self


class Slow:
    '''A procedure that takes its time.'''

    def get_params(self, deep=True):
        return {}

    def fit(self, x, y):
        time.sleep(600)


class Large(Slow):
    def fit(self, x, y):
        raise MemoryError("Unable to allocate 8. GiB")


class SometimesSlow(Slow):
    '''A procedure that takes its time with releases of 101 rows.'''

    def fit(self, x, y):
        if len(x) == 101:
            time.sleep(600)
        raise ValueError("it was fitted")
"""
COLUMNS = {"a": "number", "b": "number", "y": "text"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fits")
    (folder / "code").mkdir()
    (folder / "code" / "pg_rows.py").write_text(MODULE)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 2))
    y = np.where(x[:, 0] + rng.normal(size=200) > 0, "1", "0").astype(object)
    table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})
    (folder / "source").write_bytes(table_bytes(table))
    (folder / "a model").write_text("weights")
    return folder


def job(root: Path, generator: str, way: str = "", **changes: Any) -> DrawJob:
    settings: dict[str, Any] = {
        "name": way or generator, "generator": f"pg_rows:{generator}", "options": {"way": way},
        "schema_of_releases": SCHEMA, "source": str(root / "source"), "root": str(root),
        "procedure": Procedure.model_validate({"library": ["fixed_logistic"]}),
        "outcome": Outcome(column="y", positive="1"), "features": ("a", "b"),
        **changes,
    }  # fmt: skip
    return DrawJob(**settings)


Kept = dict[tuple[str, int], DrawResult]


def drawn(
    root: Path, *jobs: DrawJob, seeds: tuple[int, ...] = (4, 5), timeout: float | None = None
) -> Kept:
    kept: Kept = {}

    def keeper(name: str) -> Any:
        def keep(result: DrawResult) -> None:
            kept[name, result.said.seed] = result

        return keep

    groups = [Draws(job=one, seeds=seeds, keep=keeper(one.name)) for one in jobs]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "code"))
        draw_groups(groups, pool=DrawingPool(), workers=1, timeout=timeout)
    return kept


def error_of(result: DrawResult) -> str:
    assert isinstance(result.said, Failed)
    return result.said.error


FAILING = {
    "exits": "it called sys.exit",
    "ends": "the generator ended its process (exit code 0)",
    "interrupts": "KeyboardInterrupt",
    "leaves its seed alone": "the draw left its seed alone",
    "names no stage": "name the stage that is redrawn in words",
}


@pytest.fixture(scope="module")
def kept(root: Path) -> Kept:
    ways = ("listens", "leaves a process", "works in parallel", "wraps its refusal")
    return drawn(
        root,
        job(root, "Rows"),
        job(root, "Liar"),
        *(job(root, "Rows", way) for way in (*FAILING, *ways)),
        job(root, "Rows", "works in parallel", allow=("/dev/shm",), name="is allowed to"),
        job(root, "Many", "ends", many=4, name="ends within a batch"),
        job(root, "Many", "exits", many=4, name="exits within a batch"),
        job(root, "Rows", "leaves its seed alone", may_ignore_seed=True, name="may"),
        seeds=(4, 5, 6),
    )


def test_a_generator_that_replaces_the_training_gets_the_models_of_its_releases(
    kept: Kept, root: Path
) -> None:
    for seed in (4, 5, 6):
        result = kept["Liar", seed]
        assert result.said.status == "drawn", result.said
        assert result == kept["Rows", seed]
        # And it is the model of these rows: who has the label has the larger a.
        assert load_model(result.model, "it").coefficients[0, 0] > 0


def test_what_processes_draw_is_what_one_process_draws(
    kept: Kept, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(root / "code"))
    monkeypatch.delitem(sys.modules, "pg_rows", raising=False)
    assert DrawHere(job(root, "Rows")).draw(4) == kept["Rows", 4]
    result = kept["Rows", 4]
    assert isinstance(result.said, FittedRelease)
    assert result.said.rows == 100
    assert result.said.stages == ["the release", "logistic fit"]
    schema = Schema.of_releases(COLUMNS, ())
    assert result.said.content == schema.content(read_table_bytes(result.release, "it"))


@pytest.mark.parametrize("way", FAILING)
def test_a_draw_that_ends_its_process_or_leaves_its_seed_alone_fails_and_says_why(
    kept: Kept, way: str
) -> None:
    result = kept[way, 5]
    assert result.said.status == "failed"
    assert FAILING[way] in error_of(result)
    assert (result.release, result.model) == (b"", b"")


@pytest.mark.parametrize("way", ["exits", "ends", "interrupts"])
def test_a_draw_that_ends_its_process_does_not_fail_the_others(kept: Kept, way: str) -> None:
    assert kept[way, 4] == kept["Rows", 4]
    assert kept[way, 6] == kept["Rows", 6]


@pytest.mark.parametrize("way", ["ends", "exits"])
def test_a_seed_at_which_a_batch_ends_fails_alone(kept: Kept, way: str) -> None:
    name = f"{way} within a batch"
    assert FAILING[way] in error_of(kept[name, 5])
    assert [kept[name, seed] for seed in (4, 6)] == [kept["Rows", seed] for seed in (4, 6)]


def test_a_mechanism_without_randomness_may_leave_its_seed_alone(kept: Kept) -> None:
    said = kept["may", 5].said
    assert isinstance(said, FittedRelease)
    assert said.stages[0] == "nothing: the draws leave their seed alone"


@pytest.mark.parametrize("way", ["listens", "leaves a process"])
def test_threads_and_processes_that_a_generator_leaves_hold_nothing_up(
    kept: Kept, way: str
) -> None:
    assert [kept[way, seed] for seed in (4, 5, 6)] == [kept["Rows", seed] for seed in (4, 5, 6)]


def test_what_a_draw_was_refused_is_named_with_the_line_to_register(kept: Kept) -> None:
    if landlock.version() == 0:
        pytest.skip("this kernel has no Landlock: nothing is refused")
    assert 'allow = ["/dev/shm"]' in error_of(kept["works in parallel", 5])
    assert kept["is allowed to", 5] == kept["Rows", 5]
    words = error_of(kept["wraps its refusal", 5])
    assert "RuntimeError: no model" in words
    assert '/a model"]' in words
    assert "allow = [" in words


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("exits while it prepares", "it called sys.exit: SystemExit: 3"),
        (
            "ends while it prepares",
            r"ended its process \(exit code 4\) while it was loaded or prepared",
        ),
        (
            "leaves a process and ends",
            r"ended its process \(exit code 0\) while it was loaded or prepared",
        ),
    ],
)
def test_a_generator_that_ends_while_it_is_prepared_is_named_and_holds_nothing_up(
    root: Path, way: str, words: str
) -> None:
    began = time.monotonic()
    with pytest.raises(DrawError, match=f"{way}: .*{words}"):
        drawn(root, job(root, "Rows", way))
    assert time.monotonic() - began < 60


def test_a_fit_ends_when_the_time_of_its_draw_is_up(root: Path) -> None:
    library = {"library": ["pg_rows:Slow"], "trusted": ["pg_rows.Slow"]}
    procedure = Procedure.model_validate(library)
    said = drawn(root, job(root, "Rows", procedure=procedure), seeds=(4,), timeout=1.0)[
        "Rows", 4
    ].said
    assert said == Failed(seed=4, status="timeout", error="more than 1 s")


@pytest.mark.parametrize("where", ["the draw", "the fit"])
def test_want_of_memory_is_no_failure_of_the_mechanism(root: Path, where: str) -> None:
    library = {"library": ["pg_rows:Large"], "trusted": ["pg_rows.Large"]}
    large = Procedure.model_validate(library)
    wanting = (
        job(root, "Rows", "wants memory")
        if where == "the draw"
        else job(root, "Rows", procedure=large)
    )
    with pytest.raises(DrawError, match="seed 5 was killed by signal 9, for want of memory"):
        drawn(root, wanting, seeds=(5,))


def test_want_of_memory_in_a_fit_of_ours_is_no_failure_of_the_mechanism() -> None:
    class Wanting:
        def fit(self, made: Made, table: bytes) -> None:
            raise MemoryError

    fits = object.__new__(_Fits)
    fits._fitter = cast(Fitter, Wanting())
    with pytest.raises(MemoryError):  # which ends the process: no answer, and draw is run again
        fits._one(Made(seed=5, status="made", stages=["it"]), b"")


def test_a_seed_at_which_a_batch_hangs_is_late_alone(kept: Kept, root: Path) -> None:
    batch = drawn(root, job(root, "Many", "hangs", many=2), seeds=(4, 5), timeout=1.5)
    assert batch["hangs", 5].said == Failed(seed=5, status="timeout", error="more than 1.5 s")
    assert batch["hangs", 4] == kept["Rows", 4]


def test_a_release_at_which_a_batch_of_fits_hangs_is_late_alone(root: Path) -> None:
    library = {"library": ["pg_rows:SometimesSlow"], "trusted": ["pg_rows.SometimesSlow"]}
    procedure = Procedure.model_validate(library)
    batch = drawn(root, job(root, "Uneven", procedure=procedure, many=2), seeds=(4, 5), timeout=1.5)
    assert error_of(batch["Uneven", 5]) == "more than 1.5 s"
    assert "it was fitted" in error_of(batch["Uneven", 4])


SCHEMA = Schema.of_releases(COLUMNS, ())
FRAME = pd.DataFrame({"a": [1.0, np.nan], "b": [-0.0, 2.5], "y": ["x", "é\n"]}).astype(
    {"y": object}
)


def test_a_table_crosses_as_it_is() -> None:
    received = SCHEMA.received(SCHEMA.sent(SCHEMA.records(FRAME.set_index(pd.Index([7, 7])))))
    pd.testing.assert_frame_equal(received, FRAME)
    assert table_bytes(received) == table_bytes(FRAME)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"rows": 2', b'"rows": 3'),
        (b'"rows": 2', b'"rows": -1'),
        (b'"rows": 2', b'"rows": 2.0'),
        (b'"rows": 2', b'"rows": 99999999999'),
        (b'"columns": ["a"', b'"columns": ["z"'),
        (b'"columns": ["a"', b'"columns": [1'),
        (b'"columns": ["a", "b"', b'"columns": ["b", "a"'),
        (b'"texts": {"y"', b'"texts": {"a"'),
        (b'["x", "', b'["x", 1, "'),
        (b', "\\u00e9\\n"', b""),
        (b"{", b"["),
    ],
)
def test_a_table_that_is_not_what_it_says_is_refused(old: bytes, new: bytes) -> None:
    content = SCHEMA.sent(SCHEMA.records(FRAME))
    assert old in content
    with pytest.raises(TableError, match="was sent"):
        SCHEMA.received(content.replace(old, new, 1))
