"""The adapters to other packages, with those packages as they are installed here.

Run by ``make test-adapters``. PROXYGUARD_REAL_ADAPTERS names the modules that have to be there;
tests of others are skipped.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from conformance.draws import draw_here
from conformance.generator import GeneratorConformance
from proxyguard.adapters.privacy import privacy_of
from proxyguard.adapters.synthesizers import TABLE, CtganModel, SdvModel, SmartNoiseModel, seeded
from proxyguard.audit.audit import Audit
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError
from proxyguard.seal.ledger import Stage

# What these packages warn of (deprecations of each other) is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")


def needs(module: str) -> None:
    """Skip a test whose package is not asked for; one that is and does not load is a failure."""
    # These packages want versions of each other's dependencies that do not go together, so
    # `make test-adapters` makes one environment for each and says which one it is in.
    if module not in os.environ["PROXYGUARD_REAL_ADAPTERS"].split():
        pytest.skip(f"{module} is tested in an environment of its own")
    import_module(module)


def source() -> pd.DataFrame:
    rng = np.random.default_rng(20260819)
    x = rng.normal(size=200).clip(-3.0, 3.0)
    label = np.where(x + rng.normal(size=200) > 0, "yes", "no").astype(object)
    return pd.DataFrame({"x": x, "y": pd.Series(label, dtype=object)})


class RealConformance(GeneratorConformance):
    stage = "fit and sampling"
    package: str

    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        needs(self.package)

    def source(self) -> pd.DataFrame:
        return source()

    def test_a_release_looks_like_the_source(self) -> None:
        release = self.prepared().draw(Seed(5))
        assert release.shape == (40, 2)
        assert release.dtypes.tolist() == [np.dtype(np.float64), np.dtype(object)]
        assert set(release["y"]) <= {"yes", "no"}
        assert release["x"].notna().all()


class TestCtgan(RealConformance):
    package = "ctgan"

    def make(self) -> CtganModel:
        options = {"epochs": 1, "batch_size": 20, "enable_gpu": False}
        return CtganModel(model="CTGAN", rows=40, options=options)

    def test_encoders_are_the_same_in_all_draws_and_the_settings_say_so(self) -> None:
        """Their seeds are fixed, so that only another table gives other mixtures."""
        generator = self.prepared()
        coded = []
        for number in (1, 2):
            with seeded(number):
                model = generator._load()(epochs=1, batch_size=20, enable_gpu=False)
                model.set_random_state(number)
                model.fit(source(), ["y"])
                coded.append(np.asarray(model._transformer.transform(source())))
        np.testing.assert_array_equal(*coded)
        assert "fixed seeds of its encoders" in generator.describe()["conditional on"]


class TestTvae(RealConformance):
    package = "ctgan"

    def make(self) -> CtganModel:
        options = {"epochs": 1, "batch_size": 20, "enable_gpu": False}
        return CtganModel(model="TVAE", rows=40, options=options)


class TestSdvCopula(RealConformance):
    package = "sdv"

    def make(self) -> SdvModel:
        return SdvModel(rows=40)

    def test_without_the_seed_that_we_set_all_draws_would_be_equal(self) -> None:
        """The copula learns nothing random, and SDV samples it from a seed of its own."""
        generator = self.prepared()
        found = []
        for number in (1, 2):
            with seeded(number):
                model = generator._load()(generator._metadata(source()))
                model.fit({TABLE: source()})
                found.append(model.sample(40)[TABLE])
        pd.testing.assert_frame_equal(*found)


class TestSdvTvae(RealConformance):
    package = "sdv"

    def make(self) -> SdvModel:
        return SdvModel(model="TVAESynthesizer", rows=40, options={"epochs": 1, "batch_size": 20})


class TestNoiseOfTheSystem:
    @pytest.fixture(params=["aim", "mst", "mwem"])
    def generator(self, request: pytest.FixtureRequest) -> SmartNoiseModel:
        needs("snsynth")
        delta = None if request.param == "mwem" else "1e-6"
        found = SmartNoiseModel(
            model=request.param, epsilon="2", delta=delta, bounds={"x": [-3, 3]}, rows=40
        )
        found.prepare(source(), np.random.default_rng(0))
        return found

    def test_a_seed_does_not_repeat_a_release_and_the_settings_say_so(
        self, generator: SmartNoiseModel
    ) -> None:
        first, again = generator.draw(Seed(1)), generator.draw(Seed(1))
        for release in (first, again):
            assert list(release.columns) == ["x", "y"]
            assert len(release) == 40
            assert set(release["y"]) <= {"yes", "no"}
            assert release["x"].between(-3.0, 3.0).all()
        assert not first.equals(again)
        assert generator.describe()["repeatable"].startswith("no")
        stated = privacy_of(generator)
        assert stated is not None
        assert (stated.fits, stated.seeded) == ("each draw", False)


DECLARATION = """\
format = 1
name = "refits"
purpose = "Is a refit that ignores its seed noticed?"

[target]
table = "table.csv"
reserve = { rows = 80, seed = 1 }
outcome = "y"
positive = "yes"

[procedure]
library = ["fixed_logistic"]

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = "0.3"

[[mechanism]]
name = "copula"
generator = "sdv_package"
options = { rows = 60 }
draws = 3
seeds = { first = 100 }

[claim]
reliability_target = "0.3"
"""


@pytest.mark.parametrize("seeded", [True, False])
def test_a_copula_that_ignores_its_seed_is_caught_by_the_sealed_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeded: bool
) -> None:
    """SDV's copula learns nothing random: without the seed that we set, all refits are equal."""
    needs("sdv")
    from sdv.single_table import GaussianCopulaSynthesizer

    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)
    if not seeded:
        real = GaussianCopulaSynthesizer._set_random_state
        monkeypatch.setattr(
            GaussianCopulaSynthesizer, "_set_random_state", lambda self, number: real(self, 1)
        )
    (tmp_path / "data").mkdir()
    source().to_csv(tmp_path / "data" / "table.csv", index=False)
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "data"])
    audit.init(DECLARATION)
    audit.seal()
    audit.register()
    if seeded:
        audit.draw()
        assert audit.journal().ledger.has(Stage.DRAWN)
    else:
        with pytest.raises(DrawError, match="seeds 100 and 101 gave the same release"):
            audit.draw()
        assert not audit.journal().ledger.has(Stage.DRAWN)
