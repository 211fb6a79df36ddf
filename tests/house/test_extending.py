"""The worked examples of CONTRIBUTING, each put in: generator, loss, attack, report section."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import proxyguard
from conformance.generator import GeneratorConformance, source
from proxyguard.documents.certificate import ReportTable
from proxyguard.draw import catalog
from proxyguard.draw.protocol import Seed
from proxyguard.losses.measure import measure_loss
from proxyguard.registry.exposure import AttackPart
from proxyguard.registry.parts import RequirementPart
from proxyguard.registry.target import Outcome
from proxyguard.report import content
from proxyguard.report.html import to_html
from proxyguard.report.sources import Sources, table
from report.synthetic import synthetic_sources

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PRODUCT = Path(proxyguard.__file__).parent


class Permuted:
    """Every column in an order of its own: keeps the margins and nothing else."""

    def describe(self) -> Mapping[str, object]:
        """Return the settings that are sealed."""
        return {"mechanism": "columns in random order"}

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Keep the source; whatever is fitted here is conditioned upon."""
        self._source = source

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return one release, from this seed alone."""
        rng = seed.rng("order of every column")
        return self._source.apply(lambda column: rng.permutation(column.to_numpy()))


class TestPermuted(GeneratorConformance):
    stage = "order of every column"

    def make(self) -> Permuted:
        return Permuted()


def test_a_generator_is_a_class_and_a_line_of_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "house.test_extending:Permuted"
    monkeypatch.setitem(catalog.GENERATORS, "permuted", path)
    monkeypatch.setattr(catalog, "SEEDED", catalog.SEEDED | {"permuted"})
    made = catalog.load_generator("permuted", {})
    made.prepare(source(), np.random.default_rng(0))
    release = made.draw(Seed(1))
    assert sorted(release["x"]) == sorted(source()["x"])
    assert catalog.is_built_in("permuted")
    assert catalog.is_random("permuted")


def confident_error(outcome: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 for a record that is wrong with a probability of at least 0.9, else 0."""
    return np.where(np.where(outcome > 0.5, 1.0 - p, p) >= 0.9, 1.0, 0.0)


def test_a_loss_is_a_function_and_its_declared_bounds() -> None:
    part = RequirementPart.model_validate({
        "name": "confident errors", "loss": "house.test_extending:confident_error",
        "form": "absolute", "limit": "0.05", "low": "0", "high": "1", "two_valued": True,
    })  # fmt: skip
    outcome = Outcome(column="ill", positive="yes")
    measure = measure_loss(part, limit="0.05", slack=None, outcome=outcome, choose=None)
    assert measure.requirement.two_valued  # so that the exact binomial test is its default
    assert measure.loss is not None
    losses = measure.loss(None)(np.array([1.0, 1.0, 0.0]), np.array([0.05, 0.5, 0.95]))
    np.testing.assert_array_equal(losses, [1.0, 0.0, 1.0])


class NearestRow:
    """Minus the distance to the nearest row of the release, on one column."""

    def __init__(self, column: str) -> None:
        self._column = column

    def fit(self, release: pd.DataFrame, reference: pd.DataFrame) -> None:
        """Learn from the release, beside rows that it was not made from."""
        self._numbers = release[self._column].to_numpy(dtype=float)

    def score(self, rows: pd.DataFrame) -> NDArray[np.float64]:
        """Return a number for each row, from that row alone."""
        numbers = rows[self._column].to_numpy(dtype=float)
        return -np.abs(numbers[:, None] - self._numbers).min(axis=1)


def test_an_attack_is_a_class_that_scores_each_row_by_itself() -> None:
    part = AttackPart(kind="house.test_extending:NearestRow", options={"column": "x"})
    assert part.asks == "membership"
    attack = NearestRow(**part.options)
    release, rows = pd.DataFrame({"x": [1.0, 5.0]}), pd.DataFrame({"x": [1.0, 2.0, 9.0]})
    attack.fit(release, rows)
    np.testing.assert_array_equal(attack.score(rows), [0.0, -1.0, -4.0])
    alone = [attack.score(rows.iloc[[k]])[0] for k in range(3)]
    np.testing.assert_array_equal(alone, attack.score(rows))


def release_table(sources: Sources) -> ReportTable:
    """Return how many releases each mechanism drew."""
    rows = [(name, str(len(sources.groups[name].releases))) for name in sources.group_names]
    return table("Releases", ("mechanism", "releases"), rows, section="draws")


def test_a_section_is_a_function_of_the_sources_and_a_line_of_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources = synthetic_sources(R=5)
    before = content._tables
    monkeypatch.setattr(
        content, "_tables", lambda given, *more: (*before(given, *more), release_table(given))
    )
    report = content.build_report(sources)
    assert report.section("draws")[-1].rows[0] == ("careful", "5")
    page = to_html(report, sources)
    assert re.search(r"Releases</(h3|caption|summary)>", page)
    assert b'"title":"Releases"' in content.to_json(report, sources)


def test_the_examples_are_those_that_run_here() -> None:
    here = Path(__file__).read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        assert textwrap.dedent(block).strip() in here


def test_every_file_that_knows_the_tests_by_name_is_named() -> None:
    # A new test statistic is put in wherever an old one is told from others.
    (section,) = re.findall(r"## Adding a test statistic\n(.*?)\n## ", TEXT, flags=re.DOTALL)
    knowing = {
        path.relative_to(PRODUCT).as_posix()
        for path in PRODUCT.rglob("*.py")
        if "ComponentTest.HOEFFDING" in path.read_text("utf-8")
    }
    named = set(re.findall(r"`([a-z]+/[a-z_]+\.py)`", section))
    assert knowing
    assert knowing <= named
    assert all((PRODUCT / name).exists() for name in named)


def test_what_a_diff_shows_around_its_change_stands_in_that_file() -> None:
    diffs = re.findall(r"```diff\n(.*?)```", TEXT, flags=re.DOTALL)
    shown = 0
    for diff in diffs:
        text = ""
        for line in diff.splitlines():
            if line.startswith("--- "):
                text = (ROOT / line[4:]).read_text("utf-8")
            elif line.startswith(" "):
                assert line[1:] in text.splitlines(), line
                shown += 1
    assert len(diffs) == 4
    assert shown >= 6
