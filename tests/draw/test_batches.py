"""A generator that draws many at once gives the releases that it gives one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from proxyguard.draw.confine import Confined, Reach
from proxyguard.draw.messages import Answer, DrawJob, Failed, Killed, drawn_answers
from proxyguard.draw.worker import Forks, Worker, _Fits, tables
from proxyguard.tables.files import table_bytes

MODULE = """
import itertools


class Many:
    def __init__(self, broken=None, rows=4, dtype="float64", many=None):
        self.broken, self.rows, self.dtype, self.batches = broken, rows, dtype, 0
        self.many = many
    def describe(self):
        return {}
    def prepare(self, source, rng):
        self.source = source
    def draw(self, seed):
        if int(seed) == self.broken:
            raise ValueError("no release")
        release = self.source.sample(self.rows, random_state=seed.take("rows"))
        return release.astype({"x": self.dtype})
    def draw_many(self, seeds):
        self.batches += 1
        if self.many == "endless":
            return itertools.repeat(self.draw(seeds[0]))
        return [self.draw(seed) for seed in seeds][: self.many]
"""


def drawn(
    folder: Path, monkeypatch: pytest.MonkeyPatch, seeds: list[int], **options: Any
) -> tuple[list[Answer], int]:
    (folder / "pg_many.py").write_text(MODULE)
    monkeypatch.syspath_prepend(folder)
    (folder / "source").write_bytes(table_bytes(pd.DataFrame({"x": [float(i) for i in range(30)]})))
    job = DrawJob(
        name="many",
        generator="pg_many:Many",
        options=options,
        kinds={"x": "number"},
        source=str(folder / "source"),
        root=str(folder),
    )
    worker = Worker(job)
    forks = Forks(Confined(guard="none", reach=Reach(read=(), listed=(), changed=())), "", (), "")
    answer = _Fits(job, None, forks).answer(tables(worker, seeds), seeds, None)
    answers = drawn_answers(answer, job, seeds)
    return [one for one in answers if not isinstance(one, Killed)], worker._generator.batches


def test_a_batch_is_what_single_draws_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together, batches = drawn(tmp_path, monkeypatch, [5, 6, 7])
    alone = [drawn(tmp_path, monkeypatch, [seed])[0][0] for seed in (5, 6, 7)]
    assert together == alone
    assert batches == 1
    assert [record.stages for record, _, _ in together] == [["rows"]] * 3


def test_one_bad_seed_does_not_fail_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = drawn(tmp_path, monkeypatch, [5, 6, 7], broken=6)
    assert [record.status for record, _, _ in found] == ["drawn", "failed", "drawn"]


@pytest.mark.parametrize(("many", "gave"), [(2, "gave 2"), (0, "gave 0"), ("endless", "gave more")])
def test_a_batch_of_too_few_or_too_many_releases_fails_its_seeds_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: object, gave: str
) -> None:
    found, _ = drawn(tmp_path, monkeypatch, [5, 6, 7], many=many)
    assert [record.status for record, _, _ in found] == ["failed"] * 3
    assert all(f"asked for 3 releases and {gave}" in record.error for record, _, _ in found)


@pytest.mark.parametrize(("dtype", "kind"), [("complex", "complex"), ("m8[s]", "Timedelta")])
def test_a_release_of_values_that_no_column_holds_is_a_failed_draw_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, kind: str
) -> None:
    ((record, release, _),), _ = drawn(tmp_path, monkeypatch, [5], dtype=dtype)
    assert record.status == "failed"
    assert f"column 'x' holds {kind} values" in record.error
    assert release == b""


def test_a_release_without_records_is_a_failed_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((record, release, model),), _ = drawn(tmp_path, monkeypatch, [5], rows=0)
    assert record == Failed(seed=5, error="the release has no record")
    assert (release, model) == (b"", b"")
