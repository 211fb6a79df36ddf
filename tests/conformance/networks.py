"""What the generators that train networks owe beside all others, and a table that tries them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from proxyguard.adapters.neural import SAMPLING, TRAINING
from proxyguard.draw.catalog import load_generator
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError


def messy(n: int = 50) -> pd.DataFrame:
    """Numbers with gaps, whole numbers, a constant, truth values, rare and missing categories."""
    rng = np.random.default_rng(5)
    income = rng.lognormal(3, 1, n)
    income[::2] = np.nan
    children = np.array([0.0, 2.0, 5.0, 6.0, 9.0])[rng.integers(0, 5, n)]
    town = np.where(np.arange(n) == 3, "rare", rng.choice(["a", "b", ""], n))
    return pd.DataFrame(
        {
            "income": income,
            "town": pd.Series(town, dtype=object),
            "children": children,
            "same": np.full(n, 0.1),
            "member": rng.random(n) < 0.5,
            "empty": np.full(n, np.nan),
            "grade": rng.integers(1, 4, n).astype(float),
            "y": pd.Series(np.where(children > 2, "yes", "no"), dtype=object),
        }
    )


class NetworkConformance:
    """The behaviour that every kind owes; a subclass names it, and options that train quickly."""

    name: ClassVar[str]
    small: ClassVar[dict[str, Any]]
    learned: ClassVar[dict[str, Any]] = {}
    """Options with which every common category comes."""

    def spoil(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        """Have the networks of a seed end with something that is no number."""
        raise NotImplementedError

    def with_options(self, table: pd.DataFrame | None = None, **options: Any) -> Any:
        generator = load_generator(self.name, {**self.small, **options})
        generator.prepare(messy() if table is None else table, np.random.default_rng(0))
        return generator

    def checked_release(self, **options: Any) -> pd.DataFrame:
        source = messy()
        generator = self.with_options(rows=400, discrete=["grade"], **{**self.learned, **options})
        release = generator.draw(Seed(1))
        assert list(release.columns) == list(source.columns)
        assert dict(release.dtypes) == dict(source.dtypes)
        assert len(release) == 400
        assert release["income"].isna().any()
        assert release["income"].notna().any()
        for name in ("town", "grade", "y"):
            assert set(release[name]) <= set(source[name])
        assert (release["same"] == 0.1).all()
        assert release["empty"].isna().all()
        assert (release["children"] % 1.0 == 0.0).all()
        for name in ("income", "children"):
            known = release[name].dropna()
            assert known.between(source[name].min(), source[name].max()).all()
        return release

    def test_a_release_has_the_columns_kinds_and_gaps_of_the_source(self) -> None:
        self.checked_release()

    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_a_table_of_few_rows_is_learned_all_the_same(self, n: int) -> None:
        assert len(self.with_options(messy(50).iloc[10 : 10 + n], rows=5).draw(Seed(3))) == 5

    @pytest.mark.parametrize(
        "names", [["income"], ["children"], ["town", "y"], ["same"], ["same", "y"]]
    )
    def test_a_table_of_one_kind_of_columns_is_learned(self, names: list[str]) -> None:
        release = self.with_options(messy()[names]).draw(Seed(3))
        assert list(release.columns) == names
        assert len(release) == 50

    def test_a_category_that_no_training_row_has_is_not_drawn(self, **options: Any) -> None:
        source = messy(200)
        generator = self.with_options(source, train_rows=20, rows=300, **options)
        missed = 0
        for seed in map(Seed, range(6)):
            release = generator.draw(seed)
            assert seed.members is not None
            known = set(source["town"].iloc[seed.members])
            assert set(release["town"]) <= known
            missed += "rare" not in known
        assert missed  # or nothing was tried

    def test_a_draw_that_does_not_train_to_numbers_fails_alone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        generator = self.with_options()
        alone = [generator.draw(Seed(seed)) for seed in (1, 3)]
        self.spoil(monkeypatch, 2)
        first, failed, last = generator.draw_many([Seed(1), Seed(2), Seed(3)])
        assert isinstance(failed, DrawError)
        assert f"{self.name}: the network did not train to finite numbers" in str(failed)
        pd.testing.assert_frame_equal(first, alone[0])
        pd.testing.assert_frame_equal(last, alone[1])
        with pytest.raises(DrawError, match="finite"):
            generator.draw(Seed(2))

    def test_a_draw_says_how_it_was_computed_and_what_it_redraws(self) -> None:
        import torch

        seeds = [Seed(seed) for seed in range(5)]
        self.with_options(together=2).draw_many(seeds)
        for seed, together in zip(seeds, "22221", strict=True):
            assert seed.facts["device"] == "cpu"
            assert seed.facts["torch"] == torch.__version__
            assert seed.facts["together"] == together
            assert seed.taken == [TRAINING, SAMPLING]
