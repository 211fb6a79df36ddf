"""What the document says of known generators, and the Rice audit with fewer draws.

Published of the degraded TVAE: one release of 40 has one class only.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact

import proxyguard as pg
from proxyguard.errors import DrawError
from reproduction.audits import generators, kept, reproduce
from reproduction.audits.analyse import Run, analyse, certified_bounds, compare
from reproduction.audits.document import part_of
from reproduction.audits.kept import KeptDraw, Manifest
from reproduction.audits.published import AUDITS, NAMED, Mean
from reproduction.audits.tables import ORDER
from reproduction.audits.workload import workload

DATA = pytest.mark.skipif(
    "PROXYGUARD_DATA" not in os.environ, reason="PROXYGUARD_DATA names no folder with the data sets"
)


def test_releases_with_one_class_are_compared_over_more_draws(tmp_path: Path) -> None:
    run: Any = SimpleNamespace(
        paper=SimpleNamespace(folder=SimpleNamespace(path=tmp_path / "rice-tvae"))
    )
    published = AUDITS["rice-tvae"]
    assert generators.single_class("rice-tvae", run, published) == []
    counts = {"draws": 200, "single": 9, "failed": 3}
    (tmp_path / generators.SINGLE_CLASS).write_text(json.dumps(counts), "utf-8")
    (one,) = generators.single_class("rice-tvae", run, published)
    assert (one.published, one.here) == ((1, 40), (9, 197))  # a failed draw has no classes
    assert one.pvalue == pytest.approx(fisher_exact([[1, 39], [9, 188]]).pvalue)
    assert generators.single_class("spambase-aim", run, AUDITS["spambase-aim"]) == []


@DATA
def test_a_release_with_one_class_is_counted_and_a_failed_one_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Toy:
        def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
            assert len(source) == 500

        def draw_many(self, seeds: Any) -> list[Any]:
            both = pd.DataFrame({"Class": ["Cammeo", "Osmancik"]})
            kinds = [both, both.head(1), DrawError("no")]
            return [kinds[int(seed) % 3] for seed in seeds]

    declared: list[Any] = []
    monkeypatch.setattr(
        generators, "load_generator", lambda name, options: declared.append(options) or Toy()
    )
    found = generators.count_single_class(6)
    assert found == {"draws": 6, "single": 2, "failed": 2}
    assert declared[0]["corruption"]["kind"] == "overwrite"  # as in the published run


def test_the_cost_of_kept_draws_stands_in_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = tuple(
        KeptDraw(seed=k, seconds=50.0 + k, sha256="0" * 64, failure="no" if k == 2 else None,
                 versions={"opendp": "0.16.0"})
        for k in range(3)
    )  # fmt: skip
    manifest = Manifest(
        settings={"workload": "random", "pairs": 20, "rho": "2/5", "rounds": None}, draws=draws
    )
    folder = tmp_path / "spambase-aim"
    folder.mkdir()
    (folder / kept.MANIFEST).write_bytes(kept.MANIFESTS.dump_json(manifest))
    monkeypatch.setattr(generators, "KEPT", tmp_path)

    def named(name: str) -> Any:
        return SimpleNamespace(certificate=lambda: SimpleNamespace(name=name))

    run: Any = SimpleNamespace(
        paper=named("spambase-aim"), ours=named("spambase-aim-ours"), variants=()
    )
    shown = generators.kept_draws(run)
    assert (
        "| `spambase-aim` | workload random, pairs 20, rho 2/5 | 3 | 1 | 51 | 153 | opendp 0.16.0 |"
        in shown
    )
    assert "spambase-aim-ours" not in shown  # none of its draws is there yet
    other: Any = SimpleNamespace(
        paper=named("magic-bootstrap"), ours=named("magic-bootstrap-ours"), variants=()
    )
    assert generators.kept_draws(other) == ""


@pytest.fixture(scope="module")
def rice(tmp_path_factory: pytest.TempPathFactory) -> pg.Audit:
    pytest.importorskip("torch", reason="TVAE needs torch")
    work = tmp_path_factory.mktemp("rice")
    reproduce.prepare_data("rice-tvae", work / "data")
    audit = reproduce.open_folder("rice-tvae", work, None)
    text = (reproduce.HERE / "rice-tvae" / "audit.toml").read_text("utf-8")
    reproduce.begin(audit, reproduce.with_draws(text, 5))
    audit.register()
    audit.draw()
    assert audit.open().to_dict() is not None
    assert audit.verify().good
    return audit


@DATA
@pytest.mark.reproduction
@pytest.mark.whole
def test_rice_has_the_published_limits_and_counts(rice: pg.Audit) -> None:
    registry = rice.folder.registry(rice.journal())
    resolved = registry.members["target"].to_dict()["requirements"]
    published = AUDITS["rice-tvae"]
    for one in resolved:
        text = published.limits[one["part"]["name"]]
        assert f"{float(one['limit']['value']):.{len(text) - 2}f}" == text
    found = compare("rice-tvae", Run(paper=rice, ours=rice), published)
    assert len(found) == 9  # recognized, violations and favorable of three configurations
    for comparison in found:
        assert comparison.pvalue > 1e-4, comparison
    # What was registered, read from the evidence once more.
    assert analyse(rice, published.claims[NAMED]) == certified_bounds(rice)


def few(table: str, outcome: str, labels: tuple[int, int]) -> pd.DataFrame:
    """Return a table of few rows in which two numbers and a code know the outcome a little."""
    rng = np.random.default_rng(len(table))
    rows, known = 90, np.arange(90) % 2
    return pd.DataFrame(
        {"a": rng.normal(known, 1.0), "b": rng.normal(-known, 1.0), "c": rng.integers(0, 3, rows),
         outcome: np.array(labels)[known]}
    )  # fmt: skip


def test_the_declaration_of_tabddpm_runs_on_few_rows_and_steps(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra torch: make test-torch")
    data = tmp_path / "data" / "benchmarks"
    data.mkdir(parents=True)
    for table, outcome, labels in (
        ("heart", "class", (1, 2)), ("german", "class", (0, 1)),
        ("taiwan", "default.payment.next.month", (0, 1)),
    ):  # fmt: skip
        few(table, outcome, labels).to_csv(data / f"{table}-tabddpm.csv", index=False)
    text = reproduce.declaration("tabddpm")
    for old, new in (
        (r"rows = \d+", "rows = 30"),
        (r"library = .*", 'library = ["fixed_logistic"]'),
        (
            'clip = "none"',
            'clip = "none", device = "cpu", steps = 4, hidden = [16], embedding = 16',
        ),
    ):
        text, changed = re.subn(old, new, text)
        assert changed == 3, old
    audit = reproduce.open_folder("tabddpm", tmp_path, None)
    reproduce.begin(audit, text)
    for step in (audit.register, audit.draw, audit.open):
        step()
    reproduce.check(audit)
    part = part_of("tabddpm", Run(paper=audit, ours=None))
    verdicts = [(release, here) for _, release, _, here, _ in part.verdicts]
    assert [release for release, _ in verdicts] == list(AUDITS["tabddpm"].verdicts)
    assert {here for _, here in verdicts} <= set(ORDER)
    assert "(cpu)" in part.made
    assert "| Taiwan/TabDDPM/2028 | Cost5x | +0.010 |" in part.below
    # Nothing of the stand-ins' audit was run, which repeats these figures for its own releases.
    assert "spread" not in part.below


TOY = """
format = 1
name = "toy"
purpose = "May rows drawn again stand in?"

[target]
table = "toy.csv"
reserve = { rows = 300, seed = 1 }
outcome = "y"
positive = "1"

[procedure]
library = ["fast_logistic"]

[[requirement]]
name = "error"
loss = "error"
form = "absolute"
limit = "0.4"
threshold = "0.5"

[[mechanism]]
name = "AIM"
generator = "bootstrap"
draws = 3
seeds = { first = 4 }

[claim]
reliability_target = "0.5"
"""


def frame_of(audit: pg.Audit) -> pd.DataFrame:
    return audit.certificate().to_frame()


def test_both_workloads_stand_side_by_side_under_the_papers_analysis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=600)
    frame = pd.DataFrame({"x": x, "y": (x + rng.normal(size=600) > 0).astype(float)})
    frame.to_csv(tmp_path / "toy.csv", index=False)
    audit = pg.Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path])
    audit.init(TOY)
    for step in (audit.seal, audit.register, audit.draw, audit.open):
        step()
    run, published = Run(paper=audit, ours=audit), AUDITS["spambase-aim"]
    assert generators.other_workload(run, published) == ""  # its draws are not kept
    monkeypatch.setattr(generators, "recipes_of", lambda name: ("a recipe",))
    assert workload(audit) == ""  # losses of a classifier are no tables of counts
    assert generators.component_violations("rice-tvae", run, AUDITS["rice-tvae"]) == []
    violated = replace(published, means={"error": Mean(mean="0.5", violations=2)})
    (one,) = generators.component_violations("toy", run, violated)
    # The rule errs in a quarter of the records, and no release beyond .4.
    assert (one.what, one.published, one.here) == ("violations of error", (2, 30), (0, 3))
    broken = frame_of(audit).assign(violation_pvalue=[1e-9, 0.012, 0.5])
    with monkeypatch.context() as patched:
        patched.setattr(generators, "measured", lambda *_: broken[["violation_pvalue"]].rename(
            columns={"violation_pvalue": "error"}))  # fmt: skip
        (one,) = generators.component_violations("toy", run, violated)
    # Holm over three at half of .05: .012 is within .025 / 2.
    assert one.here == (2, 3)
    *_, head, _, row = generators.other_workload(
        replace(run, variants=(audit,)), published
    ).splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[0] == "AIM"
    assert head.count(f"`{audit.certificate().name}`") == 2  # its analysis and its mean AUC
    # Three of three recognized: .025 of the error gives .025^(1/3) = .2924.
    assert cells[1] == cells[2] == cells[3]
    assert cells[1].startswith("0 violations; recognized 3 of 3, at least 0.2924")
    assert (
        0.6 < float(cells[4]) == float(cells[5]) == float(cells[6]) < 0.95
    )  # areas of a noisy rule
