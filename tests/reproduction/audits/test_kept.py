"""Draws that are kept: made once, read by audits, and gone on with where a run was stopped."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import proxyguard as pg
from proxyguard.adapters.transforms import RowBootstrap
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError, RegistryError
from proxyguard.registry.declaration import read_declaration
from reproduction.audits import kept, reproduce
from reproduction.audits.kept import Recipe, complete, manifest_of, missing, path_of, release_table

RECIPE = Recipe(
    folder="toy", generator="bootstrap", seeds=(7, 941, 12), options={}, unseen=("ID",)
)  # fmt: skip
SOURCE = pd.DataFrame({"ID": np.arange(1.0, 21.0), "x": np.tile([0.5, 1.5], 10), "y": 1.0})


def test_a_run_that_was_stopped_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete(RECIPE, SOURCE, tmp_path, draws=2)
    first = path_of(tmp_path / "toy", 0, 7)
    before = first.stat().st_mtime_ns
    assert missing(RECIPE, tmp_path) == [12]

    def stopped(generator: RowBootstrap, seed: Seed) -> pd.DataFrame:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(RowBootstrap, "draw", stopped)
        with pytest.raises(KeyboardInterrupt):
            complete(RECIPE, SOURCE, tmp_path)
    assert missing(RECIPE, tmp_path) == [12]
    complete(RECIPE, SOURCE, tmp_path)
    assert missing(RECIPE, tmp_path) == []
    assert first.stat().st_mtime_ns == before
    manifest = manifest_of(tmp_path / "toy")
    assert manifest is not None
    assert [draw.seed for draw in manifest.draws] == [7, 941, 12]
    assert all(draw.seconds >= 0 and "numpy" in draw.versions for draw in manifest.draws)
    # In the order of the seeds and not of their numbers: an audit counts files by name.
    names = sorted(path.name for path in (tmp_path / "toy").glob("*.parquet"))
    assert names == ["00-7.parquet", "01-941.parquet", "02-12.parquet"]


def test_draws_made_side_by_side_are_those_made_one_by_one(tmp_path: Path) -> None:
    complete(RECIPE, SOURCE, tmp_path / "alone")
    complete(RECIPE, SOURCE, tmp_path / "together", jobs=3)
    alone, together = (manifest_of(tmp_path / name / "toy") for name in ("alone", "together"))
    assert alone is not None
    assert together is not None
    assert [(draw.seed, draw.sha256) for draw in together.draws] == [
        (draw.seed, draw.sha256) for draw in alone.draws
    ]
    assert missing(RECIPE, tmp_path / "together") == []


def test_a_column_that_numbers_rows_is_not_seen_and_is_counted_anew(tmp_path: Path) -> None:
    complete(RECIPE, SOURCE, tmp_path, draws=1)
    release = release_table(path_of(tmp_path / "toy", 0, 7))
    assert list(release.columns) == ["ID", "x", "y"]
    np.testing.assert_array_equal(release["ID"], np.arange(1.0, 21.0))
    generator = RowBootstrap()
    generator.prepare(SOURCE.drop(columns="ID"), np.random.default_rng(0))
    np.testing.assert_array_equal(release["x"], generator.draw(Seed(7))["x"])


def test_draws_of_other_settings_are_refused(tmp_path: Path) -> None:
    complete(RECIPE, SOURCE, tmp_path, draws=1)
    other = replace(RECIPE, generator="noise", options={"keep": ["y"]})
    with pytest.raises(RegistryError, match="other settings"):
        complete(other, SOURCE, tmp_path)


@pytest.mark.whole
def test_a_draw_that_failed_is_kept_as_its_reason_and_counted_by_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=600)
    table = pd.DataFrame({"x": x, "y": (x + rng.normal(size=600) > 0).astype(float)})
    draw = RowBootstrap.draw

    def fails_once(generator: RowBootstrap, seed: Seed) -> pd.DataFrame:
        if int(seed) == 5:
            raise DrawError("no table this time")
        return draw(generator, seed)

    monkeypatch.setattr(RowBootstrap, "draw", fails_once)
    (tmp_path / "data").mkdir()
    table.to_csv(tmp_path / "data" / "toy.csv", index=False)
    audit = pg.Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "data"])
    audit.init(DECLARATION)
    audit.seal()
    recipe = Recipe(folder="kept", generator="bootstrap", seeds=(4, 5, 6), options={})
    complete(recipe, release_table(audit.folder.path / kept.TRAINING), tmp_path / "data")
    manifest = manifest_of(tmp_path / "data" / "kept")
    assert manifest is not None
    assert [one.failure for one in manifest.draws] == [None, "no table this time", None]
    audit.register()
    audit.draw()
    certificate = audit.open().to_dict()
    assert certificate is not None
    assert audit.verify().good
    frame = audit.certificate().to_frame()
    worst = frame[frame["requirement"] == "error"]["estimate"].tolist()
    assert worst[1] == 1.0  # every loss at its upper bound
    assert max(worst[0], worst[2]) < 0.5


DECLARATION = """
format = 1
name = "toy"
purpose = "May kept draws stand in?"

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
name = "kept"
generator = "files"
draws = 3
seeds = { first = 4 }
options = { folder = "kept", pattern = "*.parquet", first = 4 }

[claim]
reliability_target = "0.5"
"""


@pytest.mark.parametrize("name", sorted(p.parent.name for p in kept.HERE.glob("*/draws.toml")))
def test_recipes_name_the_folders_and_numbers_of_draws_that_audits_read(name: str) -> None:
    declared = read_declaration((kept.HERE / name / "audit.toml").read_text("utf-8"))
    found = {recipe.folder: len(recipe.seeds) for recipe in kept.recipes_of(name)}
    assert found == {str(m.options["folder"]): m.draws for m in declared.mechanism}
    for mechanism in declared.mechanism:
        assert mechanism.options["first"] == mechanism.seed_list[0]


def test_what_is_kept_are_the_tables_of_the_recipes_and_their_bytes() -> None:
    names = sorted(path.parent.name for path in kept.HERE.glob("*/draws.toml"))
    recipes = {recipe.folder: recipe for name in names for recipe in kept.recipes_of(name)}
    for folder in sorted(path for path in kept.KEPT.glob("*") if path.is_dir()):
        recipe, manifest = recipes[folder.name], manifest_of(folder)
        assert manifest is not None
        paths = {path_of(folder, recipe.seeds.index(d.seed), d.seed): d for d in manifest.draws}
        assert set(folder.glob("*.parquet")) == set(paths)
        for path, draw in paths.items():
            assert hashlib.sha256(path.read_bytes()).hexdigest() == draw.sha256
            # What was made is what the recipe says: the settings that both name agree.
            for option in ("bins", "workload", "pairs", "max_cells"):
                if option in recipe.options:
                    assert manifest.settings[option] == recipe.options[option]


@pytest.mark.aim
@pytest.mark.skipif(
    find_spec("mbi") is None or find_spec("polars") is None,
    reason="OpenDP's tables need mbi and polars: make test-aim",
)
def test_a_recipe_makes_a_draw_of_aim_and_says_what_it_took(tmp_path: Path) -> None:
    (declared,) = kept.recipes_of("spambase-aim")
    few = {**declared.options, "pairs": 2, "rounds": 2}  # of 16 a column, which take 20 seconds
    recipe = replace(declared, seeds=declared.seeds[:1], options=few)
    rng = np.random.default_rng(5)
    spam = rng.integers(0, 2, 300)
    words = {f"word {k}": rng.exponential(0.2 + 0.5 * spam).round(2) for k in range(3)}
    training = pd.DataFrame({**words, "spam": spam.astype(float)})
    # In a process of its own, as side by side: JAX starts threads, and this one forks later.
    complete(recipe, training, tmp_path, jobs=2)
    manifest = manifest_of(tmp_path / recipe.folder)
    assert manifest is not None
    (draw,) = manifest.draws
    assert draw.failure is None
    assert draw.seconds > 0
    assert {"opendp", "mbi", "jax", "polars"} <= set(draw.versions)
    assert (manifest.settings["workload"], manifest.settings["pairs"]) == ("random", 2)
    release = release_table(path_of(tmp_path / recipe.folder, 0, recipe.seeds[0]))
    assert list(release.columns) == list(training.columns)
    assert len(release) == len(training)
    assert set(release["spam"]) <= {0.0, 1.0}
    assert release.drop(columns="spam").nunique().max() <= 6  # the middles of six bins


@pytest.mark.reproduction
@pytest.mark.whole
@pytest.mark.skipif(
    "PROXYGUARD_DATA" not in os.environ, reason="PROXYGUARD_DATA names no folder with the data sets"
)
def test_spambase_has_the_published_source_and_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce, "KEPT", tmp_path / "kept")
    reproduce.prepare_data("spambase-aim", tmp_path / "data")
    text = (kept.HERE / "spambase-aim" / "audit.toml").read_text("utf-8")
    audit = reproduce.open_folder("spambase-aim", tmp_path, None)
    reproduce.begin(audit, reproduce.with_draws(text, 1))
    training = release_table(audit.folder.path / kept.TRAINING)
    assert training.shape == (2208, 13)
    recipe = Recipe(folder="spambase-aim", generator="bootstrap", seeds=(941000,), options={})
    complete(recipe, training, tmp_path / "kept")
    audit.register()
    registry = audit.folder.registry(audit.journal())
    resolved = registry.members["target"].to_dict()
    # Published: a forest with threshold .33, risks .12371, .02938 and .04087 on validation.
    source = resolved["facts"]["source"]
    assert source["selected"] == "forest"
    assert float(source["threshold"]) == pytest.approx(0.33, abs=1e-9)
    found = {r["part"]["name"]: r["limit"]["value"] for r in resolved["requirements"]}
    published = reproduce.AUDITS["spambase-aim"].limits
    assert {name: float(found[name]) for name in published} == pytest.approx(
        {name: float(limit) for name, limit in published.items()}
    )
