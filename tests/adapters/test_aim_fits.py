"""AIM and MST as OpenDP fits them. Every fit is made in a fork or in the pool: JAX starts threads,
and the process of the tests forks."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from proxyguard.adapters.aim import Aim
from proxyguard.adapters.kept import FILE, SOURCE
from proxyguard.adapters.marginals import THREADS, gaussian_counts, mirror_descent, steepness
from proxyguard.draw.job import DrawJob
from proxyguard.draw.messages import DrawResult
from proxyguard.draw.pool import DrawingPool, Draws, draw_groups
from proxyguard.draw.processes import in_a_fork
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError
from proxyguard.tables.files import Schema, read_table_bytes, table_bytes

pytestmark = [
    pytest.mark.aim,
    pytest.mark.skipif(
        find_spec("mbi") is None or find_spec("polars") is None,
        reason="OpenDP's tables need mbi and polars: make test-aim",
    ),
]

BOUNDS = {"a": ["0", "10"], "len": ["-1", "1"]}
CATEGORIES = {"group": ["u", "v"], "y": ["0", "1"], "one": ["only"]}
OPTIONS = {"rho": "20", "delta": "1e-6", "bounds": BOUNDS, "categories": CATEGORIES, "bins": 3,
           "outcome": "y", "workload": "pairs with the outcome", "rounds": 6}  # fmt: skip


def source(n: int = 1_000) -> pd.DataFrame:
    """Return a table in which `a` and `group` know the outcome, and `len` knows nothing."""
    rng = np.random.default_rng(16)
    y = (rng.random(n) < 0.3).astype(int)
    return pd.DataFrame(
        {
            "a": np.clip(rng.normal(2.0 + 6.0 * y, 1.0), 0.0, 10.0),
            "group": pd.Series(np.where(rng.random(n) < 0.1 + 0.8 * y, "u", "v"), dtype=object),
            "len": rng.choice([-0.9, 0.1], n, p=[0.8, 0.2]),
            "one": pd.Series(["only"] * n, dtype=object),
            "y": y.astype(float),
        }
    )


def prepared(root: Path = Path(), /, **options: Any) -> Aim:
    generator = Aim(**{**OPTIONS, **options})
    generator.root = root
    generator.prepare(source(), np.random.default_rng(0))
    return generator


def in_fork(make: Callable[[], Any]) -> Any:
    """Return what a fork makes, which goes through JSON."""
    content = in_a_fork(lambda: json.dumps(make()).encode()).made
    assert content is not None, "the fork failed; see what it printed"
    return json.loads(content)


def releases(generator: Aim, *numbers: int) -> list[pd.DataFrame]:
    """Return releases that one fork draws."""
    drawn = in_fork(lambda: [generator.draw(Seed(n)).to_dict("list") for n in numbers])
    return [pd.DataFrame(columns) for columns in drawn]


def test_a_release_knows_what_the_pairs_of_its_workload_say() -> None:
    given = source()
    (release,) = releases(prepared(), 1)
    assert list(release.columns) == list(given.columns)
    assert len(release) == len(given)
    assert abs(release["y"].mean() - 0.3) < 0.05
    assert set(release["a"].round(3)) <= {1.667, 5.0, 8.333}
    assert set(release["len"].round(3)) <= {-0.667, 0.0, 0.667}
    assert release.groupby("y")["a"].mean().diff().iloc[-1] > 4.0
    assert (release["group"] == "u")[release["y"] == 1].mean() > 0.7
    assert (release["len"] < 0).mean() > 0.7  # where OpenDP's own bins would reach to -2
    assert set(release["one"]) == {"only"}


def test_what_is_in_no_pair_is_uniform_where_it_is_not_measured_alone() -> None:
    options = {"workload": "random", "pairs": 1, "outcome": None, "singles": "in the workload"}
    generator = prepared(**options)
    number = next(n for n in range(99) if generator._drawn_pairs(Seed(n)) == [("a", "y")])
    (release,) = releases(generator, number)
    cells = release["len"].value_counts(normalize=True)
    assert len(cells) == 3
    assert (cells - 1 / 3).abs().max() < 0.08
    assert release.groupby("y")["a"].mean().diff().iloc[-1] > 4.0


def test_the_noise_is_the_systems_and_draws_of_one_seed_differ() -> None:
    first, second = releases(prepared(rho="0.05", bins=6), 3, 3)
    assert not first.equals(second)


def test_mst_measures_every_column() -> None:
    options = {"algorithm": "mst", "workload": "all pairs", "rounds": None, "sampling": "sample",
               "values": "uniform", "rows": 700}  # fmt: skip
    (release,) = releases(prepared(**options), 1)
    assert len(release) == 700
    assert release.groupby("y")["a"].mean().diff().iloc[-1] > 4.0
    assert release["a"].nunique() > 600
    assert release["a"].between(0.0, 10.0).all()


def test_there_is_one_kept_fit_and_its_draws_repeat(tmp_path: Path) -> None:
    before = set(sys.modules)
    options = {"fit": "once", "folder": "fits/one", "sampling": "sample"}
    generator = prepared(tmp_path, **options)
    kept = (tmp_path / "fits/one" / FILE).read_bytes()
    again = prepared(tmp_path, **options)
    assert (tmp_path / "fits/one" / FILE).read_bytes() == kept
    assert {path.name for path in (tmp_path / "fits/one").iterdir()} == {FILE, SOURCE}
    assert generator.prepared_from == again.prepared_from
    # This process forks for every draw, and so must have loaded nothing that starts threads.
    assert not {"jax", "mbi", "polars"} & (set(sys.modules) - before)
    first, other = releases(generator, 1, 2)
    (repeated,) = releases(again, 1)
    pd.testing.assert_frame_equal(first, repeated)
    assert not first.equals(other)
    assert first.groupby("y")["a"].mean().diff().iloc[-1] > 4.0


def test_draws_of_the_pool_are_confined_and_say_what_computed_them(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(table_bytes(source()))
    results: dict[int, DrawResult] = {}
    job = DrawJob(
        name="aim",
        generator="aim",
        options=OPTIONS,
        schema_of_releases=Schema(
            kinds={"a": "number", "group": "text", "len": "number", "one": "text", "y": "number"}
        ),
        source=str(tmp_path / "source"),
        root=str(tmp_path),
        forbidden=(str(tmp_path / "target"),),
    )
    draws = Draws(job=job, seeds=(7, 8), keep=lambda r: results.update({r.said.seed: r}))
    draw_groups([draws], pool=DrawingPool(), workers=1, timeout=None)
    assert sorted(results) == [7, 8]
    for result in results.values():
        assert result.said.status == "drawn", result.said
        assert set(result.said.computed) == {"opendp", "mbi", "jax", "polars"}
        assert "the private fit, whose noise is the system's" in result.said.stages
        release = read_table_bytes(result.release, "release")
        assert list(release.columns) == list(source().columns)
    assert results[7].said.content != results[8].said.content


def test_a_model_that_may_take_no_memory_is_a_failed_draw() -> None:
    def failure() -> str:
        try:
            prepared(rho="1e-300").draw(Seed(1))
        except DrawError as error:
            return str(error)
        return "drawn"

    assert "OpenDP gave no model" in in_fork(failure)


def test_counts_cost_at_most_what_they_may_and_little_less() -> None:
    def facts() -> list[Any]:
        counts = [np.array([500, 300, 200]), np.array([900, 100])]
        rho = Fraction(1, 7)
        noisy, scale, spent = gaussian_counts(counts, rho)
        return [[len(table) for table in noisy], scale, spent <= rho, float(spent / rho)]

    sizes, scale, within, share = in_fork(facts)
    assert sizes == [3, 2]
    assert within
    assert share > 1 - 1e-9
    assert scale == pytest.approx(math.sqrt(7.0))  # two tables: 2 / (2 scale**2) = 1 / 7


def test_the_fit_is_that_of_mbi_and_the_steepness_what_its_power_iteration_finds() -> None:
    def facts() -> list[float]:
        import os

        os.environ.update(THREADS)
        import mbi

        domain = mbi.Domain.fromdict({"a": 4, "b": 3, "y": 2})
        tables = {("a",): 3.0, ("b",): 2.0, ("y",): 5.0, ("a", "y"): 4.0, ("a", "b"): 7.0}
        rng = np.random.default_rng(0)
        measured = [
            mbi.LinearMeasurement(rng.random(domain.size(c)) * 100, c, stddev=s)
            for c, s in tables.items()
        ]
        loss = mbi.marginal_loss.from_linear_measurements(measured, domain=domain)
        warm = mbi.estimation.mirror_descent(domain, measured[:3]).potentials
        model = mirror_descent(domain, measured, potentials=warm)
        plain = mbi.estimation.mirror_descent(domain, measured, potentials=warm)
        apart = [
            float(np.abs(model.project(c).values - plain.project(c).values).max()) for c in tables
        ]
        return [float(loss.lipschitz), steepness(domain, loss.cliques, measured), max(apart)]

    found, formula, apart = in_fork(facts)
    assert formula == pytest.approx(found, rel=1e-3)
    assert apart < 1e-3  # of about a hundred in a cell
