"""Shares of a query are counted: the evidence is that of losses formed record by record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from proxyguard.audit.audit import Audit
from proxyguard.audit.home import load_key_file
from proxyguard.audit.score import ShareScorer, countable
from proxyguard.audit.target import Chunk, OpenTarget
from proxyguard.documents.releases import AnyDraw, DrawnRelease, FailedDraw
from proxyguard.draw.messages import DrawResult
from proxyguard.errors import LossMismatch, RegistryError
from proxyguard.evidence.component import component_pvalues
from proxyguard.losses.cell import Reading
from proxyguard.losses.measure import Measure, measure_query
from proxyguard.losses.query import BoundedQuery
from proxyguard.losses.records import Records
from proxyguard.registry.design import Clustered, Design, Iid, Stratified, WithoutReplacement
from proxyguard.registry.parts import RequirementPart
from proxyguard.registry.test import ComponentTest
from proxyguard.seal.sealed_file import SealedFile
from proxyguard.tables.files import content_digest, read_table_bytes, table_bytes

DECLARATION = """
format = 1
name = "shares"
purpose = "Are shares counted as they are defined?"

[target]
table = "table.csv"
reserve = { rows = 300, seed = 11 }
prior_use = "none"

[[requirement]]
name = "mean weight"
form = "query"
query = { mean = "weight", range = ["0", "100"] }
limit = "20"

[[requirement]]
name = "cell"
form = "query"
limit = "0.2"

[requirement.query]
marginals = { columns = ["weight", "site", "colour"] }
bins = { weight = ["20", "60"] }
groups = { site = { near = ["a", "b"] } }

[[requirement]]
name = "red of near"
form = "query"
query = { share = { colour = "red" } }
group = { site = "a" }
limit = "0.3"

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 3
seeds = { first = 100 }

[claim]
reliability_target = "0.3"
"""


@pytest.fixture(autouse=True)
def _draws_here(monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]) -> None:
    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)


def audit_of(root: Path, declaration: str) -> Audit:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "weight": rng.integers(0, 100, size=700).astype(float),
            "site": rng.choice(["a", "b", "c", "d"], size=700),
            "colour": rng.choice(["red", "green"], size=700),
            "ward": [f"w{k}" for k in rng.integers(0, 60, size=700)],
        }
    )
    (root / "data").mkdir(parents=True)
    frame.to_csv(root / "data" / "table.csv", index=False)
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    audit.init(declaration)
    return audit


def certified(root: Path, declaration: str) -> Audit:
    audit = audit_of(root, declaration)
    assert audit.check().problems == []
    audit.run()
    for with_target in (False, True):
        found = audit.verify(with_target=with_target)
        assert found.good, found.findings
    return audit


def evidence(root: Path, declaration: str) -> dict[str, Any]:
    return evidence_of(certified(root, declaration))


def evidence_of(audit: Audit) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit.folder.read("evidence.json"))["groups"]["bootstrap"]
    return found


def test_counting_gives_what_losses_of_single_records_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declaration = DECLARATION + 'test = "empirical_bernstein"\n'
    counted = evidence(tmp_path / "counted", declaration)
    # 3 bins, 2 groups with the others, 2 colours: 3 x 2 + 3 x 2 + 2 x 2 cells, both sides, and two.
    assert len(counted["requirements"]) == 2 * (16 + 2)
    assert sum("answer" in column for column in counted["columns"]) == 2 * (16 + 1)
    monkeypatch.setattr("proxyguard.audit.score.countable", lambda measures, readings: [])
    by_record = evidence(tmp_path / "by-record", declaration)
    assert not any("answer" in column for column in by_record["columns"])
    assert counted["requirements"] == by_record["requirements"]
    for one, other in zip(counted["columns"], by_record["columns"], strict=True):
        assert one["n"] == other["n"]
        for what in ("mean", "variance"):
            np.testing.assert_allclose(one[what], other[what], rtol=0, atol=1e-12)
    for what in ("pvalues", "violation_pvalues", "estimates"):
        np.testing.assert_allclose(
            counted["derived"][what], by_record["derived"][what], rtol=1e-8, atol=1e-12
        )


def test_the_default_test_of_a_share_is_exact_and_no_weaker_than_bernsteins(
    tmp_path: Path,
) -> None:
    exact = evidence(tmp_path / "ours", DECLARATION)
    assert set(exact["tests"][:2]) == {"betting"}  # of the mean
    assert set(exact["tests"][2:]) == {"binomial"}
    paper = evidence(tmp_path / "paper", DECLARATION + 'test = "empirical_bernstein"\n')
    for ours, theirs in zip(exact["derived"]["pvalues"], paper["derived"]["pvalues"], strict=True):
        assert np.all(np.array(ours[2:]) <= np.array(theirs[2:]))


def test_a_mean_is_tested_on_the_range_that_the_answer_leaves(tmp_path: Path, forge: Any) -> None:
    audit = certified(tmp_path, DECLARATION)
    above, below = evidence_of(audit)["columns"][:2]
    for r, release in enumerate(releases_of(audit)):
        answer = release["weight"].clip(0, 100).mean() / 100  # the registered range is 0 to 100
        np.testing.assert_allclose(
            [above["ends"][0][r], above["ends"][1][r], below["ends"][0][r], below["ends"][1][r]],
            [(1 - answer) / 2, (2 - answer) / 2, answer / 2, (1 + answer) / 2],
            rtol=0, atol=1e-12,
        )  # fmt: skip

    def narrow(evidence: Any) -> None:
        # A range that ends nearer to the limit would let bets be larger.
        evidence["groups"]["bootstrap"]["columns"][0]["ends"][1][0] -= 0.05
        forge.derive(audit, evidence)

    forge.certificate(audit, evidence=narrow)
    assert "of their range by its own answer, and " in forge.found_by(audit)

    def impossible(evidence: Any) -> None:
        evidence["groups"]["bootstrap"]["columns"][0]["ends"][1][0] = 0.5
        forge.derive(audit, evidence)

    forge.certificate(audit, evidence=impossible)
    assert "no releases' losses have such ends" in forge.found_by(audit)


def opened(audit: Audit) -> pd.DataFrame:
    """Return the target's records, with the key that lies in the audit's home."""
    journal = audit.journal()
    sealed = journal.ledger.sealed
    holder = load_key_file(audit.home.target_key_path(sealed.audit))
    own = sealed.members["target"]
    key = SealedFile(audit.folder / f"target/{own.index}.sealed").unwrap(holder)
    member = audit.folder.registry(journal).declaration.members[0]
    return OpenTarget(audit.folder, member, own, key).whole().frame


def releases_of(audit: Audit) -> list[pd.DataFrame]:
    draws = json.loads(audit.folder.read("releases.json"))["members"]["target"]["bootstrap"][
        "draws"
    ]
    return [read_table_bytes(audit.folder.store.get(d["release"]), "release") for d in draws]


RED = """
[[requirement]]
name = "red"
form = "query"
query = { share = { site = "a" } }
limit = "0.2"
"""
HEAD, _, TAIL = DECLARATION.partition('[[requirement]]\nname = "mean weight"')
TAIL = RED + "\n[[mechanism]]" + TAIL.partition("[[mechanism]]")[2]
PROPORTIONAL = 'design = { by = "colour", sizes = { red = 180, green = 120 }, weights = %s }'


@pytest.mark.reduced(cases=2)
@pytest.mark.parametrize(
    ("reserve", "design", "test", "counted"),
    [
        ("seed = 11", PROPORTIONAL % '{ red = "0.6", green = "0.4" }', None, True),
        ("seed = 11", PROPORTIONAL % '{ red = "0.3", green = "0.7" }', "hoeffding", False),
        ("clusters = 25, seed = 11", 'design = { by = "ward" }', "hoeffding", False),
    ],
    ids=["proportional", "weighted", "clustered"],
)
def test_shares_of_strata_and_clusters_are_what_their_design_says(
    tmp_path: Path, reserve: str, design: str, test: str | None, counted: bool
) -> None:
    head = HEAD.replace("{ rows = 300, seed = 11 }", f"{{ {reserve} }}\n{design}")
    text = head + TAIL + ("" if test is None else f'test = "{test}"\n')
    audit = certified(tmp_path, text)
    found, target = evidence_of(audit), opened(audit)
    inside = (target["site"] == "a").astype(float)
    if "ward" in design:
        truth = inside.groupby(target["ward"]).mean().mean()
    else:
        red = 0.6 if counted else 0.3
        means = inside.groupby(target["colour"]).mean()
        truth = red * means["red"] + (1 - red) * means["green"]
        assert abs(truth - inside.mean()) < 1e-12 or not counted
    assert ["answer" in column for column in found["columns"]] == [counted] * 2
    for (above, below), release in zip(
        found["derived"]["estimates"], releases_of(audit), strict=True
    ):
        gap = truth - (release["site"] == "a").mean()
        np.testing.assert_allclose([above, below], [gap, -gap], rtol=0, atol=1e-12)
    if counted:
        # scipy.stats.binom, and 1 where fewer than a whole record lies between count and limit.
        n, count = 300, int(inside.sum())
        v = np.array(found["columns"][0]["answer"]) + 0.2
        tail = np.where((count + 1) / n > v, 1.0, binom.cdf(count, n, v))
        np.testing.assert_allclose(np.array(found["derived"]["pvalues"])[:, 0], tail, rtol=1e-8)


@pytest.mark.parametrize(
    ("design", "counts"),
    [
        (Iid(), True),
        (Stratified(sizes={"a": 2, "b": 2}, weights={"a": "0.5", "b": "0.5"}), True),
        (Stratified(sizes={"a": 2, "b": 2}, weights={"a": "0.3", "b": "0.7"}), False),
        (Clustered(), False),
    ],
    ids=["iid", "proportional", "weighted", "clustered"],
)
def test_shares_are_counted_where_every_record_weighs_alike(design: Any, counts: bool) -> None:
    sides = red_measures()
    reading = Reading(
        requirements=tuple(side.requirement for side in sides), design=design,
        tests=(ComponentTest.HOEFFDING,) * 2, level=0.01, violation_level=0.01,
    )  # fmt: skip
    assert countable(sides, [reading]) == ([0, 1] if counts else [])
    assert countable(sides, [reading, replace(reading, block_size=2)]) == []


class Target:
    """A target of given colours and strata, in chunks."""

    def __init__(
        self, colours: str, *, n_records: int | None = None, ids: Sequence[int] | None = None
    ) -> None:
        self._chunks = [
            ["red" if letter == "r" else "green" for letter in part] for part in colours.split()
        ]
        self.n_records = sum(map(len, self._chunks)) if n_records is None else n_records
        self._ids = ids

    def chunks(self) -> Iterator[Chunk]:
        start = 0
        for colours in self._chunks:
            stop = start + len(colours)
            positions = np.arange(start, stop) if self._ids is None else np.array(
                self._ids[start:stop]
            )  # fmt: skip
            frame = pd.DataFrame({"colour": pd.Series(colours, dtype=object)})
            records = Records(ids=positions, strata=np.array(colours))
            yield Chunk(frame=frame, positions=positions, y=None, records=records)
            start = stop


def red_measures() -> tuple[Measure, Measure]:
    part = RequirementPart.model_validate(
        {"name": "red", "form": "query", "query": {"share": {"colour": "red"}}, "limit": "0.3"}
    )
    query = BoundedQuery("red", 0.0, 1.0, cell=(("colour", "red"),))
    return measure_query(part, query, limit="0.3", slack=None)


def scorer_of(target: Target, design: Design | None = None, folder: Any = None) -> Any:
    return ShareScorer(
        folder=folder,
        target=target,  # type: ignore[arg-type]
        measures=red_measures(),
        design=Iid() if design is None else design,
        progress=lambda what, done, total: None,
    )


TIMEOUT = [FailedDraw(seed=1, status="timeout", error="too slow", guard="audit hook")]


def release_of(rows: int) -> DrawnRelease:
    return DrawnRelease(
        seed=1, status="drawn", guard="audit hook", rows=rows, content="0" * 64, stages=(),
        selected=None, threshold=None, temperature=None, prepared_at_random=False,
        release="0" * 64, model=None,
    )  # fmt: skip


class Stored:
    """A folder with one stored release."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def stored_table(self, address: str, what: str) -> pd.DataFrame:
        return self._frame


def test_the_counts_of_all_chunks_are_one_count() -> None:
    release = pd.DataFrame({"colour": pd.Series(["red", "green"], dtype=object)})
    strata = Stratified(sizes={"red": 4, "green": 3}, weights={"red": "4/7", "green": "3/7"})
    drawn = [release_of(2)]
    # Three chunks, with 2, 1 and 1 red records of 7 in all.
    scorer = scorer_of(Target("rrg rg rg"), strata, Stored(release))
    above, below = scorer.columns("m", drawn)
    assert (above.n, above.count.tolist(), above.answer.tolist()) == (7, [4], [0.5])
    assert (below.n, below.count.tolist(), below.answer.tolist()) == (7, [3], [0.5])


@pytest.mark.parametrize(
    ("target", "design", "message"),
    [
        (Target("rrg r", n_records=5), Iid(), "the target has 4 records, sealed were 5"),
        (Target("rrg r", ids=[0, 1, 2, 1]), Iid(), "record id 1 occurs 2 times"),
        (Target("rrg rr"), WithoutReplacement(pool=4), "5 records cannot come from a pool of 4"),
        (Target("rrg g"), Stratified(sizes={"red": 3, "green": 1},
                                     weights={"red": "0.75", "green": "0.25"}),
         "strata were registered with sizes"),
    ],
    ids=["size", "ids", "pool", "strata"],
)  # fmt: skip
def test_records_that_are_not_those_of_the_design_are_refused(
    target: Target, design: Any, message: str
) -> None:
    with pytest.raises(LossMismatch, match=message):
        scorer_of(target, design).columns("m", TIMEOUT)


@pytest.mark.parametrize("draw", [TIMEOUT[0], release_of(0)], ids=["timeout", "no records"])
def test_a_draw_without_answers_has_the_worst_share_everywhere(draw: AnyDraw) -> None:
    empty = pd.DataFrame({"colour": pd.Series([], dtype=object)})
    scorer = scorer_of(Target("rrrg"), folder=Stored(empty))
    above, below = scorer.columns("m", [draw])
    for column, requirement in zip((above, below), scorer.measures, strict=True):
        # The loss of every record is 1, its upper bound: on the unit scale of [-1, 1] as well.
        assert (column.mean.tolist(), column.variance.tolist()) == ([1.0], [0.0])
        pair = component_pvalues(column, requirement.requirement, ComponentTest.BINOMIAL, Iid())
        assert pair[0].tolist() == [1.0]


def test_a_release_without_records_does_not_stop_an_opened_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]
) -> None:
    def with_an_empty_release(*job: Any, keep: Callable[..., None], **settings: Any) -> None:
        def kept(result: DrawResult) -> None:
            if result.said.seed == 101:
                frame = read_table_bytes(result.release, "release").iloc[:0]
                empty = {"rows": 0, "content": content_digest(frame)}
                said = result.said.model_copy(update=empty)
                result = replace(result, said=said, release=table_bytes(frame))
            keep(result)

        draw_here(*job, keep=kept, **settings)

    monkeypatch.setattr("proxyguard.audit.draw.draw_all", with_an_empty_release)
    found = evidence(tmp_path, DECLARATION)
    estimates = np.array(found["derived"]["estimates"])
    # The mean of a weight lies in [0, 100], and a share in [0, 1]: so far off can each be.
    assert estimates[1, :2].tolist() == [100.0, 100.0]
    assert set(estimates[1, 2:].tolist()) == {1.0}
    assert set(found["derived"]["pvalues"][1]) == {1.0}
    assert estimates[0].max() < 10.0


def test_an_answer_that_the_stored_release_does_not_give_is_found(
    tmp_path: Path, forge: Any
) -> None:
    audit = certified(tmp_path, DECLARATION)

    def lie(value: dict[str, Any]) -> None:
        # All that follows from the answer follows: the release is said to agree with the target.
        column = value["groups"]["bootstrap"]["columns"][2]
        share = column["count"][0] / column["n"]
        column["answer"][0], column["mean"][0] = share, 0.5
        forge.derive(audit, value)

    forge.certificate(audit, evidence=lie)
    assert re.search(
        r"evidence.json: cell: .* \(target above release\): release 100 answers 0\.\d+, and "
        r"0\.\d+ is on record",
        forge.found_by(audit),
    )


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('bins = { weight = ["20", "60"] }', "", r"\['weight'\], which are no text columns"),
        ('groups = { site = { near = ["a", "b"] } }',
         'groups = { site = { near = ["a"] } }\nbins = { colour = ["1"] }', "bins"),
    ],
)  # fmt: skip
def test_numbers_need_bins_and_texts_have_none(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    text = DECLARATION.replace(before, after)
    if after.endswith("}"):
        text = text.replace('bins = { weight = ["20", "60"] }\n', "").replace(
            '["weight", "site", "colour"]', '["site", "colour"]'
        )
    audit = audit_of(tmp_path, text)
    audit.seal()
    with pytest.raises(RegistryError, match=message):
        audit.register()
