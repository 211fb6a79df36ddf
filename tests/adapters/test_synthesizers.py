"""The adapters to other packages, against stand-ins that record how they are called."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conformance.draws import draw_here
from conformance.generator import GeneratorConformance, source
from conformance.warm import started_by
from proxyguard.adapters import synthesizers
from proxyguard.adapters.privacy import privacy_lines, privacy_of
from proxyguard.adapters.synthesizers import CtganModel, SdvModel, SmartNoiseModel, seeded
from proxyguard.audit.audit import Audit
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError, RegistryError, TableError

Calls = list[tuple[str, Any]]


class Torch(ModuleType):
    """PyTorch's seed, and the type that scipy asks every loaded PyTorch for."""

    Tensor = type("Tensor", (), {})
    state = 0

    def get_rng_state(self) -> int:
        return self.state

    def set_rng_state(self, state: int) -> None:
        self.state = state

    def manual_seed(self, number: int) -> None:
        self.state = number


def rows_of(table: pd.DataFrame, rows: int, rng: Any) -> pd.DataFrame:
    """What every stand-in samples: rows of its table, columns turned round, another index."""
    chosen = table.iloc[rng.randint(0, len(table), size=rows)]
    return chosen[list(reversed(table.columns))].set_index(np.arange(rows) + 7)


class Fakes:
    """Stand-ins for the packages; ``calls`` is what they were asked to do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Calls = []
        self.torch = Torch("torch")
        self._monkeypatch = monkeypatch
        self.install("torch", self.torch)
        self.versions = {"ctgan": "0.12.1", "sdv": "2.0.0", "smartnoise-synth": "1.0.8"}
        monkeypatch.setattr(synthesizers, "version", self.versions.__getitem__)
        self._ctgan()
        self._sdv()
        self._smartnoise()

    def install(self, name: str, module: Any = None, **content: Any) -> None:
        module = module or ModuleType(name)
        for key, value in content.items():
            setattr(module, key, value)
        self._monkeypatch.setitem(sys.modules, name, module)

    def seen(self, name: str) -> list[Any]:
        return [what for called, what in self.calls if called == name]

    def note(self, name: str, what: Any) -> None:
        self.calls.append((name, what))

    def state(self) -> tuple[float, float, int]:
        """What the global generators would give now."""
        return random.random(), float(np.random.random()), self.torch.state  # noqa: NPY002

    def _ctgan(self) -> None:
        fakes = self

        class Model:
            def __init__(self, **options: Any) -> None:
                fakes.note("options", options)

            def set_random_state(self, number: int) -> None:
                fakes.note("seed", number)

            def fit(self, table: pd.DataFrame, discrete: Sequence[str]) -> None:
                fakes.note("discrete", list(discrete))
                fakes.note("state", fakes.state())
                self.table = table

            def sample(self, rows: int) -> pd.DataFrame:
                return rows_of(self.table, rows, np.random)

        self.install("ctgan", CTGAN=Model, TVAE=type("TVAE", (Model,), {}))

    def _sdv(self) -> None:
        fakes = self

        class Metadata:
            @staticmethod
            def load_from_dict(content: dict[str, Any]) -> Any:
                return content["tables"]["table"]["columns"]

        class GaussianCopulaSynthesizer:
            seed = 73251  # as SDV has it: a seed of its own unless told otherwise

            def __init__(self, metadata: Any, **options: Any) -> None:
                fakes.note("metadata", metadata)
                fakes.note("options", options)

            def fit(self, tables: Any) -> None:
                self.by_name = isinstance(tables, dict)
                self.table = tables["table"] if self.by_name else tables

            def _set_random_state(self, number: int) -> None:
                fakes.note("seed", number)
                self.seed = number

            def sample(self, rows: int) -> Any:
                sampled = rows_of(self.table, rows, np.random.RandomState(self.seed))
                return {"table": sampled} if self.by_name else sampled

        self.sdv = GaussianCopulaSynthesizer
        self.install("sdv")
        self.install("sdv.metadata", Metadata=Metadata)
        self.install("sdv.single_table", GaussianCopulaSynthesizer=GaussianCopulaSynthesizer)

    def _smartnoise(self) -> None:
        fakes = self

        class Model:
            def fit(
                self, table: pd.DataFrame, *, transformer: Any, categorical_columns: list[str]
            ) -> None:
                fakes.note("encoders", transformer)
                fakes.note("categorical", categorical_columns)
                fakes.note("state", fakes.state())
                self.table = table

            def sample(self, rows: int) -> pd.DataFrame:
                return rows_of(self.table, rows, np.random)

        class Synthesizer:
            @staticmethod
            def create(name: str, **options: Any) -> Model:
                fakes.note("create", (name, options))
                return Model()

        self.install("snsynth", Synthesizer=Synthesizer)
        self.install("snsynth.transform", BinTransformer=lambda **options: options)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    return Fakes(monkeypatch)


def prepared(generator: Any, table: pd.DataFrame | None = None) -> Any:
    generator.prepare(source() if table is None else table, np.random.default_rng(0))
    return generator


class FakeConformance(GeneratorConformance):
    stage = "fit and sampling"

    @pytest.fixture(autouse=True)
    def _faked(self, fakes: Fakes) -> None:
        self.fakes = fakes

    def test_a_release_has_the_columns_of_the_source_and_counts_its_rows_from_0(self) -> None:
        release = self.prepared().draw(Seed(3))
        assert list(release.columns) == ["x", "y"]
        assert release.dtypes.tolist() == [np.dtype(np.float64), np.dtype(object)]
        assert list(release.index) == list(range(30))


class TestCtgan(FakeConformance):
    def make(self) -> CtganModel:
        return CtganModel(model="TVAE", rows=30, options={"epochs": 2})

    def test_every_draw_makes_a_model_seeds_it_and_fits_it(self) -> None:
        generator = self.prepared()
        generator.draw(Seed(41))
        generator.draw(Seed(42))
        assert self.fakes.seen("seed") == [41, 42]
        assert self.fakes.seen("options") == [{"epochs": 2}] * 2
        assert self.fakes.seen("discrete") == [["y"]] * 2
        expected = (random.Random(41).random(), np.random.RandomState(41).random(), 41)
        assert self.fakes.seen("state")[0] == expected

    def test_numbers_that_are_categories_are_declared(self) -> None:
        prepared(CtganModel(discrete=["x"])).draw(Seed(1))
        assert self.fakes.seen("discrete") == [["x", "y"]]
        with pytest.raises(RegistryError, match=r"discrete names \['z'\]"):
            prepared(CtganModel(discrete=["z"]))

    def test_missing_numbers_are_refused_before_any_draw(self) -> None:
        with pytest.raises(TableError, match=r"ctgan_package: \['x'\] have missing numbers"):
            prepared(CtganModel(), source().assign(x=np.nan))

    def test_as_many_rows_as_the_source_has_unless_told_otherwise(self) -> None:
        assert len(prepared(CtganModel()).draw(Seed(1))) == 12
        with pytest.raises(RegistryError, match="rows is a whole number"):
            CtganModel(rows=0)

    def test_settings_name_the_package_and_its_version(self) -> None:
        settings = self.make().describe()
        assert (settings["package"], settings["version"]) == ("ctgan", "0.12.1")
        assert "fixed seeds of its encoders" in str(settings["conditional on"])
        with pytest.raises(RegistryError, match='model is "CTGAN" or "TVAE"'):
            CtganModel(model="GAN")
        with pytest.raises(RegistryError, match="options is a mapping"):
            CtganModel(options=["epochs"])  # type: ignore[arg-type]


class TestSdv(FakeConformance):
    def make(self) -> SdvModel:
        return SdvModel(rows=30)

    def test_the_schema_comes_from_the_kinds_of_the_columns_unless_told_otherwise(self) -> None:
        self.prepared().draw(Seed(3))
        words = {"sdtype": "numerical", "computer_representation": "Int16"}
        prepared(SdvModel(columns={"x": words})).draw(Seed(3))
        text = {"sdtype": "categorical"}
        assert self.fakes.seen("metadata") == [
            {"x": {"sdtype": "numerical"}, "y": text},
            {"x": words, "y": text},
        ]
        with pytest.raises(RegistryError, match=r"columns describes \['z'\]"):
            prepared(SdvModel(columns={"z": words}))

    def test_sampling_is_seeded_although_the_package_has_a_seed_of_its_own(self) -> None:
        generator = self.prepared()
        first, second = generator.draw(Seed(1)), generator.draw(Seed(2))
        assert self.fakes.seen("seed") == [1, 2]
        assert not first.equals(second)

    def test_a_version_that_cannot_be_seeded_is_refused(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(self.fakes.sdv, "_set_random_state")
        with pytest.raises(DrawError, match=r"sdv 2\.0\.0 has no way to seed sampling"):
            self.prepared().draw(Seed(1))

    def test_before_version_2_tables_have_no_name(self) -> None:
        later = self.prepared().draw(Seed(1))
        self.fakes.versions["sdv"] = "1.20.1"
        pd.testing.assert_frame_equal(self.prepared().draw(Seed(1)), later)

    def test_a_model_that_the_package_lacks_is_refused_when_prepared(self) -> None:
        with pytest.raises(RegistryError, match=r"sdv 2\.0\.0 has no MagicSynthesizer"):
            prepared(SdvModel(model="MagicSynthesizer"))


class TestSmartNoise(FakeConformance):
    def make(self) -> SmartNoiseModel:
        bounds = {"x": ["0", "11"]}
        return SmartNoiseModel(model="aim", epsilon="5", delta="1e-6", bounds=bounds, rows=30)

    def test_every_draw_is_a_fit_with_the_declared_privacy_and_public_bounds(self) -> None:
        bounds = {"x": [0, "11"]}
        generator = SmartNoiseModel(
            model="aim", epsilon="5", delta="1e-6", bounds=bounds, bins=6, options={"degree": 2}
        )
        prepared(generator).draw(Seed(41))
        generator.draw(Seed(42))
        made = ("aim", {"epsilon": 5.0, "delta": 1e-6, "degree": 2})
        assert self.fakes.seen("create") == [made] * 2
        assert self.fakes.seen("encoders")[0] == {"x": {"bins": 6, "lower": 0.0, "upper": 11.0}}
        assert self.fakes.seen("categorical")[0] == ["y"]
        assert self.fakes.seen("state")[1][2] == 42

    def test_its_privacy_is_that_of_each_draw(self) -> None:
        stated = privacy_of(self.make())
        assert stated is not None
        assert stated.fits == "each draw"
        line = privacy_lines(stated, 30, at_delta="1e-4")[0]
        assert "To release all 30 costs epsilon 150, delta 3e-05 by basic composition" in line
        assert not any("number of rows" in one for one in stated.not_covered)
        whole = SmartNoiseModel(model="aim", epsilon="5", delta="1e-6", bounds={"x": [0, 11]})
        found = privacy_of(whole)
        assert found is not None
        assert any("number of rows" in one for one in found.not_covered)

    def test_a_mechanism_with_delta_0_is_given_none(self) -> None:
        prepared(SmartNoiseModel(model="mwem", epsilon=1, bounds={"x": [0, 11]})).draw(Seed(1))
        assert self.fakes.seen("create") == [("mwem", {"epsilon": 1.0})]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"model": "dpgan"}, "model is"),
            ({"delta": None}, "'aim' needs a delta"),
            ({"model": "mwem"}, "'mwem' has no delta"),
            ({"epsilon": "0"}, "epsilon is above 0"),
            ({"delta": "0"}, "delta above 0"),
            ({"epsilon": "much"}, "epsilon is a number"),
            ({"bins": 1}, "bins is a whole number"),
            ({"bounds": {"x": ["1"]}}, "are two numbers"),
            ({"bounds": {"x": ["1", "0"]}}, "rise"),
        ],
    )
    def test_settings_that_mean_nothing_are_refused(
        self, options: dict[str, Any], message: str
    ) -> None:
        given = {"model": "aim", "epsilon": "5", "delta": "1e-6", "bounds": {"x": ["0", "11"]}}
        with pytest.raises(RegistryError, match=message):
            SmartNoiseModel(**{**given, **options})

    def test_every_column_of_numbers_needs_its_public_range(self) -> None:
        generator = SmartNoiseModel(model="aim", epsilon="5", delta="1e-6")
        with pytest.raises(RegistryError, match=r"the source has \['x'\], bounds \[\]"):
            prepared(generator)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (CtganModel, "ctgan"),
        (SdvModel, "sdv"),
        (lambda: SmartNoiseModel(model="mwem", epsilon="1"), "smartnoise-synth"),
    ],
)
def test_a_package_that_is_not_installed_is_named_with_how_to_get_it(
    make: Callable[[], Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(distribution: str) -> str:
        raise synthesizers.PackageNotFoundError(distribution)

    monkeypatch.setattr(synthesizers, "version", absent)
    with pytest.raises(RegistryError, match=f"pip install {name}"):
        make()


def test_a_package_that_does_not_load_is_named(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctgan", None)
    with pytest.raises(RegistryError, match="ctgan_package: ctgan does not load"):
        prepared(CtganModel())


def test_seeds_beyond_32_bits_are_taken_by_their_low_bits() -> None:
    found = []
    for number in (2**32 + 5, 5, 6):
        with seeded(number) as taken:
            found.append((taken, np.random.random(), random.random()))  # noqa: NPY002
    assert found[0] == found[1]
    assert found[0][1:] != found[2][1:]


def test_global_generators_are_put_back_even_where_a_fit_fails(fakes: Fakes) -> None:
    random.seed(5)
    np.random.seed(6)  # noqa: NPY002
    fakes.torch.manual_seed(7)
    inside = []

    def fit() -> None:
        with seeded(41):
            inside.append(fakes.torch.state)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fit()
    assert inside == [41]
    expected = (random.Random(5).random(), np.random.RandomState(6).random(), 7)
    assert fakes.state() == expected


def test_a_sample_that_lacks_a_column_fails_its_draw(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = sys.modules["ctgan"].CTGAN  # type: ignore[attr-defined]
    monkeypatch.setattr(model, "sample", lambda self, rows: self.table[["x"]])
    with pytest.raises(DrawError, match=r"the source has \['y'\] as well"):
        prepared(CtganModel()).draw(Seed(1))


DECLARATION = """\
format = 1
name = "refits"
purpose = "Are the refits independent?"

[target]
table = "table.csv"
reserve = { rows = 60, seed = 11 }
outcome = "y"
positive = "yes"

[procedure]
library = ["fixed_logistic"]

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = "0.30"

[[mechanism]]
name = "refit"
generator = "pg_refits:KIND"
draws = 3
seeds = { first = 100 }

[claim]
reliability_target = "0.6"
"""
REFITS = """\
import numpy as np


class Refit:
    number = 73251

    def describe(self):
        return {"mechanism": "a normal law fitted in every draw"}

    def prepare(self, source, rng):
        self.source = source

    def draw(self, seed):
        rng = np.random.default_rng(self.seed_of(seed))
        release = self.source.copy()
        release["x"] = rng.normal(release["x"].mean(), release["x"].std(), size=len(release))
        return release


class Honest(Refit):
    def seed_of(self, seed):
        return seed.take("fit and sampling")


class Ignores(Refit):
    def seed_of(self, seed):
        seed.take("fit and sampling")  # says so, and samples from a number of its own
        return self.number
"""


@pytest.fixture
def audit_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Audit]:
    """Return a small audit of a user's own generator, registered and not yet drawn."""

    def make(kind: str) -> Audit:
        (tmp_path / "pg_refits.py").write_text(REFITS)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "pg_refits", raising=False)
        monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)
        rng = np.random.default_rng(1)
        lines = [f"{x:.4f},{'yes' if x + rng.normal() > 0 else 'no'}" for x in rng.normal(size=160)]
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "table.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
        audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "data"])
        audit.init(DECLARATION.replace("KIND", kind))
        audit.seal()
        audit.register()
        return audit

    return make


def test_a_refit_that_ignores_its_seed_is_caught_by_the_sealed_audit(
    audit_of: Callable[[str], Audit],
) -> None:
    with (
        started_by("proxyguard.draw.pool"),
        pytest.raises(DrawError, match="seeds 100 and 101 gave the same release"),
    ):
        audit_of("Ignores").draw()


def test_a_refit_that_uses_its_seed_raises_no_alarm(audit_of: Callable[[str], Audit]) -> None:
    with started_by("proxyguard.draw.pool"):
        audit = audit_of("Honest")
        audit.draw()
    assert "drawn" in str(audit.status())
