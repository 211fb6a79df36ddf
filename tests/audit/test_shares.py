"""Shares of a query are counted: the evidence is that of losses formed record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.score_shares import ShareScorer
from proxyguard.audit.target import Chunk
from proxyguard.errors import RegistryError
from proxyguard.evidence.component import component_pvalues
from proxyguard.losses.measure import measure_query
from proxyguard.losses.query import BoundedQuery
from proxyguard.losses.records import Records
from proxyguard.registry.design import Iid
from proxyguard.registry.parts import RequirementPart
from proxyguard.registry.test import ComponentTest

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
reliability = "0.3"
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
        }
    )
    (root / "data").mkdir(parents=True)
    frame.to_csv(root / "data" / "table.csv", index=False)
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    audit.init(declaration)
    return audit


def evidence(root: Path, declaration: str) -> dict[str, Any]:
    audit = audit_of(root, declaration)
    assert audit.check().problems == []
    audit.run()
    for with_target in (False, True):
        assert audit.verify(with_target=with_target).good
    found: dict[str, Any] = audit.folder.read_json("evidence.json")["groups"]["bootstrap"]
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
    for what in ("pvalues", "violation_pvalues", "estimates", "lower", "upper"):
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


class FourRecords:
    """A target of four records, three of them in the cell."""

    n_records = 4

    def chunks(self) -> Iterator[Chunk]:
        positions = np.arange(4)
        frame = pd.DataFrame({"colour": pd.Series(["red", "red", "red", "green"], dtype=object)})
        yield Chunk(frame=frame, positions=positions, y=None, records=Records(ids=positions))


def test_a_failed_draw_has_the_worst_share_everywhere() -> None:
    part = RequirementPart.model_validate(
        {"name": "red", "form": "query", "query": {"share": {"colour": "red"}}, "limit": "0.3"}
    )
    query = BoundedQuery("red", 0.0, 1.0, cell=(("colour", "red"),))
    scorer: Any = ShareScorer(
        folder=None,  # type: ignore[arg-type]  # a failed draw has no stored release
        target=FourRecords(),  # type: ignore[arg-type]
        measures=measure_query(part, query, limit="0.3", slack=None),
        design=Iid(),
        progress=lambda what, done, total: None,
    )
    above, below = scorer.columns("m", [{"seed": 1, "status": "timeout"}])
    for column, requirement in zip((above, below), scorer.measures, strict=True):
        # The loss of every record is 1, its upper bound: on the unit scale of [-1, 1] as well.
        assert (column.mean.tolist(), column.variance.tolist()) == ([1.0], [0.0])
        pair = component_pvalues(column, requirement.requirement, ComponentTest.BINOMIAL, Iid())
        assert pair[0].tolist() == [1.0]


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
