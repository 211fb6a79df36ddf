"""Noise, coarsening and masking change what they say, by as much as they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from conformance.generator import GeneratorConformance, source
from proxyguard.adapters.transforms import Coarsen, Mask, Noise
from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError, TableError


def table(n: int = 2000) -> pd.DataFrame:
    """Numbers, whole numbers, a constant, missing values, text and an outcome."""
    rng = np.random.default_rng(20260819)
    x = rng.normal(10.0, 4.0, size=n)
    x[::10] = np.nan
    colour = np.array(["red", "blue", "green"], dtype=object)[rng.integers(0, 3, size=n)]
    return pd.DataFrame(
        {
            "x": x,
            "count": rng.integers(0, 50, size=n).astype(np.float64),
            "same": np.full(n, 7.0),
            "colour": pd.Series(colour, dtype=object),
            "y": (rng.random(n) < 0.5).astype(np.float64),
        }
    )


def prepared(generator: Any, frame: pd.DataFrame) -> Any:
    generator.prepare(frame, np.random.default_rng(0))
    return generator


class TestNoise(GeneratorConformance):
    stage = "noise in the numbers"

    def make(self) -> Noise:
        return Noise(keep=["y"])

    def test_the_noise_has_the_declared_share_of_the_standard_deviation(self) -> None:
        frame = table()
        release = prepared(Noise(keep=["y"], share="0.1"), frame).draw(Seed(3))
        for name in ("x", "count"):
            noise = (release[name] - frame[name]).dropna()
            spread = 0.1 * float(np.nanstd(frame[name]))
            # sd of a sample sd of n normals is about sd / sqrt(2 n); five of them, n >= 1800.
            assert float(noise.std()) == pytest.approx(spread, rel=5 / np.sqrt(2 * 1800))
            assert abs(float(noise.mean())) < 5 * spread / np.sqrt(1800)

    def test_only_numbers_that_are_not_kept_are_changed_and_missing_ones_stay_missing(self) -> None:
        frame = table()
        release = prepared(Noise(keep=["y"]), frame).draw(Seed(3))
        pd.testing.assert_frame_equal(
            release[["same", "colour", "y"]], frame[["same", "colour", "y"]]
        )
        np.testing.assert_array_equal(release["x"].isna(), frame["x"].isna())
        assert (release["count"] != frame["count"]).all()
        only = prepared(Noise(keep=["y"], columns=["count"]), frame).draw(Seed(3))
        pd.testing.assert_frame_equal(only.drop(columns="count"), frame.drop(columns="count"))

    def test_whole_numbers_stay_whole_where_that_is_asked_for(self) -> None:
        frame = table()
        release = prepared(Noise(keep=["y"], whole=True), frame).draw(Seed(3))
        assert (release["count"] == np.rint(release["count"])).all()
        assert (release["count"] != frame["count"]).any()
        known = release["x"].dropna()
        assert (known != np.rint(known)).any()

    @pytest.mark.parametrize("share", ["0", "-0.1", "much", 0, True, None, "1/0"])
    def test_a_share_that_is_none_is_refused(self, share: Any) -> None:
        with pytest.raises(RegistryError, match="noise: share is a number above 0"):
            Noise(keep=[], share=share)

    def test_a_column_of_text_or_without_values_gets_no_noise(self) -> None:
        with pytest.raises(RegistryError, match=r"\['colour'\] hold text"):
            prepared(Noise(keep=["y"], columns=["colour"]), table())
        with pytest.raises(TableError, match=r"noise: \['x'\] have no values"):
            prepared(Noise(keep=["y"]), table().assign(x=np.nan))
        with pytest.raises(RegistryError, match="whole is true or false"):
            Noise(keep=[], whole="yes")  # type: ignore[arg-type]


class TestCoarsen(GeneratorConformance):
    stage = "nothing: coarsening has no randomness"
    random = False

    def make(self) -> Coarsen:
        return Coarsen(keep=["y"])

    def test_a_number_becomes_the_median_of_its_quartile(self) -> None:
        # 0, ..., 11: quartiles 2.75, 5.5, 8.25, so bins of three with the middle as median.
        release = self.prepared().draw(Seed(1))
        assert release["x"].tolist() == [1.0] * 3 + [4.0] * 3 + [7.0] * 3 + [10.0] * 3
        assert release["y"].tolist() == source()["y"].tolist()
        assert list(release.index) == list(range(12))

    def test_a_value_at_the_end_of_a_bin_belongs_to_the_bin_below(self) -> None:
        # 1, 2, 2, 3 in two bins: the median 2 ends the first, so 1, 2, 2 have median 2.
        frame = pd.DataFrame({"x": [1.0, 2.0, 2.0, 3.0], "y": [0.0] * 4})
        release = prepared(Coarsen(keep=["y"], bins=2), frame).draw(Seed(1))
        assert release["x"].tolist() == [2.0, 2.0, 2.0, 3.0]

    def test_missing_values_stay_missing_and_text_is_left_alone(self) -> None:
        frame = table()
        release = prepared(Coarsen(keep=["y"]), frame).draw(Seed(1))
        np.testing.assert_array_equal(release["x"].isna(), frame["x"].isna())
        assert release["x"].nunique() == 4
        pd.testing.assert_series_equal(release["colour"], frame["colour"])
        assert (release["same"] == 7.0).all()

    def test_a_column_without_values_stays_without_them(self) -> None:
        release = prepared(Coarsen(keep=["y"]), table().assign(x=np.nan)).draw(Seed(1))
        assert release["x"].isna().all()

    @pytest.mark.parametrize("bins", [0, 2.0, True, "4"])
    def test_a_number_of_bins_that_is_none_is_refused(self, bins: Any) -> None:
        with pytest.raises(RegistryError, match="bins is a whole number of at least 1"):
            Coarsen(keep=[], bins=bins)


class TestMask(GeneratorConformance):
    stage = "masked cells"

    def make(self) -> Mask:
        return Mask(keep=["y"], share="0.25")

    def test_the_declared_share_of_each_column_is_masked_by_its_usual_value(self) -> None:
        frame = table().assign(x=np.arange(2000.0))
        frame["colour"] = pd.Series(["red"] * 500 + ["blue"] * 1500, dtype=object)
        release = prepared(Mask(keep=["y"], share="0.2"), frame).draw(Seed(3))
        changed = release["x"] != frame["x"]
        assert int(changed.sum()) == 400  # a fifth of 2000; the median 999.5 is no value
        assert (release["x"][changed] == 999.5).all()
        # 400 of 2000 cells are hit without replacement, and those of the 500 reds show: the
        # hypergeometric mean is 100 and its sd 7.75 (scipy.stats.hypergeom(2000, 500, 400)).
        shown = release["colour"] != frame["colour"]
        assert abs(int(shown.sum()) - 100) < 5 * 7.75
        assert (release["colour"][shown] == "blue").all()
        pd.testing.assert_series_equal(release["y"], frame["y"])

    def test_columns_are_masked_independently(self) -> None:
        frame = pd.DataFrame({"a": np.arange(1000.0), "b": np.arange(1000.0), "y": 0.0})
        release = prepared(Mask(keep=["y"], share="0.5"), frame).draw(Seed(3))
        both = (release["a"] != frame["a"]) & (release["b"] != frame["b"])
        # Of two independent halves of 1000 rows, 250 are shared, sd 7.91 (hypergeometric).
        assert abs(int(both.sum()) - 250) < 5 * 7.91

    def test_of_equally_frequent_texts_the_first_is_taken(self) -> None:
        frame = pd.DataFrame({"a": pd.Series(["v", "u", "w", "v", "u", "z"], dtype=object)})
        release = prepared(Mask(keep=[], share="1"), frame).draw(Seed(1))
        assert release["a"].tolist() == ["u"] * 6

    def test_a_share_of_no_cell_or_of_more_than_all_is_refused(self) -> None:
        with pytest.raises(RegistryError, match="a share of 1/100 of 12 rows is no cell"):
            prepared(Mask(keep=["y"], share="0.01"), source())
        with pytest.raises(RegistryError, match="above 0 and at most 1"):
            Mask(keep=[], share="1.5")


@pytest.mark.parametrize("kind", [Noise, Coarsen, Mask])
class TestColumns:
    def test_names_that_are_not_in_the_source_are_refused(self, kind: Any) -> None:
        with pytest.raises(RegistryError, match=r"the source has no columns \['label'\]"):
            prepared(kind(keep=["label"]), source())
        with pytest.raises(RegistryError, match=r"the source has no columns \['z'\]"):
            prepared(kind(keep=["y"], columns=["z"]), source())

    def test_nothing_left_to_change_is_an_error(self, kind: Any) -> None:
        with pytest.raises(TableError, match="to change in 12 rows"):
            prepared(kind(keep=["x", "y"]), source())

    def test_what_is_no_list_of_names_is_refused(self, kind: Any) -> None:
        for wrong in ("y", [1], ["y", "y"], None):
            with pytest.raises(RegistryError, match="keep"):
                kind(keep=wrong)
        with pytest.raises(RegistryError, match=r"\['x'\] are both to be kept and to be changed"):
            kind(keep=["x"], columns=["x"])

    def test_the_settings_say_what_the_paper_leaves_open(self, kind: Any) -> None:
        settings = kind(keep=["y"]).describe()
        assert settings["keep"] == ["y"]
        assert "source" in settings["chosen here"]
