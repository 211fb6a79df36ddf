"""What every generator adapter owes; a new adapter is one file and a few lines of test."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from proxyguard.documents.canonical import canonical_bytes
from proxyguard.draw.protocol import Generator, Seed


def source() -> pd.DataFrame:
    return pd.DataFrame(
        {"x": np.arange(12.0), "y": pd.Series(["yes", "no"] * 6, dtype=object)},
        index=range(100, 112),
    )


class GeneratorConformance:
    """The behaviour every generator adapter owes; subclass it and set ``make``."""

    seeds = (1, 2)
    stage = ""  # what a draw says it took its seed for
    random = True  # whether another seed gives another release
    fits_once = False  # whether preparing takes randomness that draws are conditioned upon
    folder: Path

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = tmp_path
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "pg_helper", raising=False)

    def make(self) -> Any:
        """Return the generator, not yet prepared."""
        raise NotImplementedError

    def source(self) -> pd.DataFrame:
        """Return the table that it is prepared with, a fresh one each time."""
        return source()

    def prepared(self) -> Any:
        generator = self.make()
        generator.prepare(self.source(), np.random.default_rng(0))
        return generator

    def test_it_is_a_generator(self) -> None:
        assert isinstance(self.make(), Generator)

    def test_settings_can_be_sealed(self) -> None:
        settings = canonical_bytes(dict(self.make().describe()))
        assert settings == canonical_bytes(dict(self.prepared().describe()))

    def test_draws_do_not_remember_each_other(self) -> None:
        reused = self.prepared()
        reused.draw(Seed(self.seeds[0]))
        pd.testing.assert_frame_equal(
            reused.draw(Seed(self.seeds[1])), self.prepared().draw(Seed(self.seeds[1]))
        )

    def test_the_same_seed_gives_the_same_release_and_another_one_another(self) -> None:
        generator = self.prepared()
        first = generator.draw(Seed(self.seeds[0]))
        again = generator.draw(Seed(self.seeds[0]))
        pd.testing.assert_frame_equal(again, first)
        assert generator.draw(Seed(self.seeds[1])).equals(first) != self.random

    def test_what_is_done_with_a_release_does_not_reach_the_next_draw(self) -> None:
        generator = self.prepared()
        first = generator.draw(Seed(self.seeds[0]))
        kept = first.copy()
        first.iloc[:, 0] = first.iloc[::-1, 0].to_numpy()
        pd.testing.assert_frame_equal(generator.draw(Seed(self.seeds[0])), kept)

    def test_a_draw_says_what_it_took_its_seed_for(self) -> None:
        generator, seed = self.prepared(), Seed(self.seeds[0])
        assert seed.taken == []
        generator.draw(seed)
        assert self.stage in seed.taken[0]

    def test_preparing_is_as_random_as_it_says_and_a_draw_changes_no_source(self) -> None:
        generator, given, rng = self.make(), self.source(), np.random.default_rng(0)
        generator.prepare(given, rng)
        generator.draw(Seed(self.seeds[0]))
        untouched = rng.bit_generator.state == np.random.default_rng(0).bit_generator.state
        assert untouched != self.fits_once
        pd.testing.assert_frame_equal(given, self.source())

    def test_a_global_seed_does_not_matter(self) -> None:
        np.random.seed(1)  # noqa: NPY002
        first = self.prepared().draw(Seed(self.seeds[0]))
        np.random.seed(2)  # noqa: NPY002
        pd.testing.assert_frame_equal(self.prepared().draw(Seed(self.seeds[0])), first)


class BatchConformance(GeneratorConformance):
    """What a generator with ``draw_many`` owes beside that."""

    def test_many_draws_at_once_are_those_one_by_one(self) -> None:
        generator = self.prepared()
        together = generator.draw_many([Seed(s) for s in self.seeds])
        for seed, release in zip(self.seeds, together, strict=True):
            pd.testing.assert_frame_equal(release, self.prepared().draw(Seed(seed)))
