"""A generator that draws many at once gives the releases that it gives one by one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import ValidationError

from proxyguard.audit.draw import made_draw
from proxyguard.documents.document import parse_canonical
from proxyguard.documents.releases import DrawnRelease, read_draw, same_outcome
from proxyguard.draw.confine import Confined, Reach
from proxyguard.draw.drawing import Worker, tables
from proxyguard.draw.job import DrawJob
from proxyguard.draw.messages import (
    Answer,
    DrawResult,
    Failed,
    FittedRelease,
    Killed,
    Made,
    Prepared,
    drawn_answers,
)
from proxyguard.draw.protocol import FACT, FACTS, Seed
from proxyguard.draw.worker import Forks, _Fits
from proxyguard.errors import DrawError
from proxyguard.tables.files import Schema, table_bytes

MODULE = """
import itertools

from proxyguard.errors import DrawError


class Many:
    def __init__(self, broken=None, rows=4, dtype="float64", many=None):
        self.broken, self.rows, self.dtype, self.batches = broken, rows, dtype, 0
        self.many = many
    def describe(self):
        return {}
    def prepare(self, source, rng):
        self.source = source
    def draw(self, seed):
        seed.computed(device="cpu", together=1)
        if int(seed) == self.broken:
            raise ValueError("no release")
        release = self.source.sample(self.rows, random_state=seed.take("rows"))
        return release.astype({"x": self.dtype})
    def draw_many(self, seeds):
        self.batches += 1
        if self.many == "endless":
            return itertools.repeat(self.draw(seeds[0]))
        if self.many == "errors":
            failed = DrawError("nothing was learned"), ValueError("not in its place")
            releases = [self.draw(seed) for seed in seeds]
            for seed in seeds:
                seed.computed(together=len(seeds))
            return [releases[0], *failed, *releases[3:]]
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
        schema_of_releases=Schema(kinds={"x": "number"}),
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


def test_an_error_in_the_place_of_a_release_fails_that_seed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, batches = drawn(tmp_path, monkeypatch, [5, 6, 7, 8], many="errors")
    assert batches == 1
    assert [record.status for record, _, _ in found] == ["drawn", "failed", "failed", "drawn"]
    computed = {"device": "cpu", "together": "4"}
    assert found[1].said == Failed(seed=6, error="nothing was learned", computed=computed)
    # No other error is a release that failed: whoever gives one has made a mistake.
    assert isinstance(found[2].said, Failed)
    assert "gave a ValueError" in found[2].said.error
    alone, _ = drawn(tmp_path, monkeypatch, [5])
    assert found[0].release == alone[0].release


def test_a_draw_says_how_it_was_computed_and_that_is_no_use_of_its_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (alone,), _ = drawn(tmp_path, monkeypatch, [5])
    batch, _ = drawn(tmp_path, monkeypatch, [5, 6, 7, 8], many="errors")
    assert isinstance(alone.said, FittedRelease)
    assert isinstance(batch[0].said, FittedRelease)
    assert alone.said.computed == {"device": "cpu", "together": "1"}
    assert batch[0].said.computed == {"device": "cpu", "together": "4"}
    seed = Seed(5)
    seed.computed(device="cpu")
    assert not seed.used


def test_the_record_of_a_draw_keeps_how_it_was_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (alone,), _ = drawn(tmp_path, monkeypatch, [5])
    result = DrawResult(
        said=alone.said,
        release=alone.release,
        model=alone.model,
        guard="audit hook",
        prepared=Prepared(prepared_at_random=False),
    )
    record = made_draw(result)
    assert isinstance(record, DrawnRelease)
    assert record.computed == {"device": "cpu", "together": "1"}
    read = read_draw(parse_canonical(record.to_bytes(), "a draw"), "a draw")
    assert read == record
    # Where it was made says nothing of what came out.
    assert same_outcome(record, record.model_copy(update={"computed": {"device": "cuda"}}))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"device": ["cpu"]}, "'device' = ['cpu']"),
        ({"device": None}, "'device' = None"),
        ({"device": ""}, "'device' = ''"),
        ({"device": "x" * (FACT + 1)}, "at most 200 characters"),
        ({"x" * (FACT + 1): "cpu"}, "at most 200 characters"),
        ({f"fact {i}": i for i in range(FACTS + 1)}, "at most 20 facts"),
    ],
)
def test_what_is_no_plain_fact_is_refused(facts: dict[str, Any], words: str) -> None:
    with pytest.raises(DrawError, match=re.escape(words)):
        Seed(5).computed(**facts)


def test_facts_of_a_hostile_process_are_few_and_short() -> None:
    made = {"seed": 5, "status": "made", "stages": ["rows"]}
    long = Made.model_validate({**made, "computed": {"device": "\ud800" + "x" * 10_000}})
    assert len(long.computed["device"]) == FACT
    for computed in ({"device": 5}, {"device": ""}, {str(i): "x" for i in range(FACTS + 1)}):
        with pytest.raises(ValidationError):
            Made.model_validate({**made, "computed": computed})


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
    computed = {"device": "cpu", "together": "1"}  # a failure of the fit says it too
    assert record == Failed(seed=5, error="the release has no record", computed=computed)
    assert (release, model) == (b"", b"")
