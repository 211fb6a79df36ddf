"""The private sampler: what it counts, what it promises, and that there is one fit."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conformance.generator import GeneratorConformance
from proxyguard.adapters.categorical import CategoricalSampler, laplace_measurement
from proxyguard.adapters.kept import FILE, SOURCE
from proxyguard.adapters.privacy import privacy_of
from proxyguard.draw.drawing import Worker
from proxyguard.draw.job import DrawJob
from proxyguard.draw.protocol import Seed
from proxyguard.errors import RegistryError, TableError
from proxyguard.registry.target import TableReading
from proxyguard.tables.files import RawTable, Schema, table_bytes

DATA = os.environ.get("PROXYGUARD_DATA")
MUSHROOM = Path(str(DATA)) / "secondary_mushroom" / "secondary_data.csv.gz"
DOMAINS = {"shape": ["b", "c", "?"], "class": ["e", "p"], "ring": ["t", "f"]}
# The registered domains of the published study; '?' is unknown.
MUSHROOM_DOMAINS = {
    name: list(values)
    for name, values in {
        "class": "ep",
        "cap-shape": "bcxfspo?",
        "cap-surface": "igyshlktwe?",
        "cap-color": "nbgrpuewylok?",
        "does-bruise-or-bleed": "tf?",
        "gill-attachment": "axdespf?",
        "gill-spacing": "cdf?",
        "gill-color": "nbgrpuewylokf?",
        "stem-root": "bscuezr?",
        "stem-surface": "igyshlktwef?",
        "stem-color": "nbgrpuewylokf?",
        "veil-type": "pu?",
        "veil-color": "nbgrpuewylokf?",
        "has-ring": "tf?",
        "ring-type": "cerglpszymf?",
        "spore-print-color": "nbgrpuewylok?",
        "habitat": "glmphuwd?",
        "season": "suaw?",
    }.items()
}


def source(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(20260819)
    label = np.array(["e", "p"], dtype=object)[rng.integers(0, 2, size=n)]
    shape = np.array(["b", "c", "x"], dtype=object)[rng.integers(0, 3, size=n)]
    return pd.DataFrame(
        {
            "class": pd.Series(label, dtype=object),
            "shape": pd.Series(shape, dtype=object),
            "ring": pd.Series(np.where(label == "e", "t", "f"), dtype=object),
        }
    )


def sampler(**options: Any) -> CategoricalSampler:
    chosen = {"outcome": "class", "domains": DOMAINS, "rows": 50, "noise": "seeded"}
    if not {"epsilon", "scale"} & set(options):
        chosen["epsilon"] = "3"
    return CategoricalSampler(**{**chosen, **options})


def prepared(generator: Any, frame: pd.DataFrame | None = None, seed: int = 0) -> Any:
    generator.prepare(source() if frame is None else frame, np.random.default_rng(seed))
    return generator


class TestSeeded(GeneratorConformance):
    stage = "records of the release"
    fits_once = True

    def make(self) -> CategoricalSampler:
        return sampler()

    def source(self) -> pd.DataFrame:
        return source()


class TestOpendp(GeneratorConformance):
    stage = "records of the release, from the private fit with digest "
    fits_once = True

    def make(self) -> CategoricalSampler:
        generator = sampler(noise="opendp", folder="fits/one")
        generator.root = self.folder
        return generator

    def source(self) -> pd.DataFrame:
        return source()

    def test_there_is_one_fit_however_often_it_is_prepared(self) -> None:
        place = self.folder / "fits" / "one" / FILE
        self.prepared()
        kept = place.read_bytes()
        seed = Seed(1)
        self.prepared().draw(seed)
        assert place.read_bytes() == kept
        assert {one.name for one in place.parent.iterdir()} == {FILE, SOURCE}
        assert seed.taken == [self.stage + hashlib.sha256(kept).hexdigest()]

    def test_another_folder_is_another_fit_with_noise_of_its_own(self) -> None:
        many = {f"f{k}": ["a", "b", "c", "d"] for k in range(40)}
        domains = {"class": ["e", "p"], **many}
        frame = source().assign(**dict.fromkeys(many, "a")).drop(columns=["shape", "ring"])
        found = []
        for name in ("one", "two"):
            generator = sampler(domains=domains, noise="opendp", folder=name, scale="0.9")
            generator.root = self.folder
            prepared(generator, frame)
            found.append(json.loads((self.folder / name / FILE).read_bytes())["tables"])
        first, second = (np.concatenate([np.ravel(t) for t in f.values()]) for f in found)
        # Two cells have equal noise with a chance below 0.6 at scale 0.9, all 322 of them
        # with a chance below 1e-70. A count is off by 60 with a chance below 1e-28.
        assert not np.array_equal(first, second)
        assert np.abs(first - second).max() < 120
        assert (first == np.rint(first)).all()

    def test_tables_of_other_settings_are_refused(self) -> None:
        self.prepared()
        other = sampler(noise="opendp", folder="fits/one", epsilon="4")
        other.root = self.folder
        with pytest.raises(RegistryError, match="fitted with other settings"):
            prepared(other)
        # Rows and pseudocount come after the noise, so the same fit serves them.
        later = sampler(noise="opendp", folder="fits/one", rows=7, pseudocount="0.5")
        later.root = self.folder
        assert len(prepared(later).draw(Seed(1))) == 7

    def test_a_kept_fit_serves_no_other_rows(self) -> None:
        self.prepared()
        other = source()
        other.loc[0, "shape"] = "c" if other.loc[0, "shape"] == "b" else "b"
        with pytest.raises(RegistryError, match=r"private fit of other rows.*another folder"):
            prepared(self.make(), other)
        with pytest.raises(RegistryError, match="private fit of other rows"):
            prepared(self.make(), source().iloc[1:])
        # The same rows in another order are the same source.
        prepared(self.make(), source().iloc[::-1])

    def test_what_tells_the_source_is_keyed_private_and_not_in_the_tables(self) -> None:
        self.prepared()
        place = self.folder / "fits" / "one"
        kept = json.loads((place / SOURCE).read_bytes())
        assert (place / SOURCE).stat().st_mode & 0o077 == 0
        tables = (place / FILE).read_text()
        assert kept["key"] not in tables
        assert kept["rows"] not in tables
        second = sampler(noise="opendp", folder="fits/two")
        second.root = self.folder
        prepared(second)
        # With another key the same rows have another digest: nobody can compare two fits.
        assert (
            json.loads((self.folder / "fits" / "two" / SOURCE).read_bytes())["rows"]
            != (kept["rows"])
        )

    def test_tables_without_their_source_or_of_another_fit_are_refused(self) -> None:
        self.prepared()
        second = sampler(noise="opendp", folder="fits/two")
        second.root = self.folder
        prepared(second)
        one, two = (self.folder / "fits" / name for name in ("one", "two"))
        (one / FILE).write_bytes((two / FILE).read_bytes())
        with pytest.raises(TableError, match="tables of another fit"):
            self.prepared()
        (one / SOURCE).unlink()
        with pytest.raises(TableError, match="file is missing"):
            self.prepared()

    @pytest.mark.parametrize(
        "edit",
        [
            lambda content: {},
            lambda content: [],
            lambda content: {**content, "tables": {"class": [1, 2]}},
            lambda content: {**content, "tables": {**content["tables"], "ring": [[1, 2]]}},
            lambda content: {**content, "tables": {**content["tables"], "class": ["x", "y"]}},
        ],
    )
    def test_a_file_that_holds_no_such_tables_is_refused(self, edit: Any) -> None:
        self.prepared()
        place = self.folder / "fits" / "one" / FILE
        place.write_text(json.dumps(edit(json.loads(place.read_bytes()))))
        with pytest.raises(TableError, match="tables"):
            self.prepared()

    def test_of_two_processes_that_fit_at_once_the_first_one_counts(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.prepared()
        kept = (self.folder / "fits" / "one" / FILE).read_bytes()
        real, asked = Path.exists, []

        def absent_at_first(path: Path, **options: Any) -> bool:
            if path.name == FILE and not asked:
                asked.append(path)
                return False
            return real(path, **options)

        monkeypatch.setattr(Path, "exists", absent_at_first)
        self.prepared()
        assert asked
        assert (self.folder / "fits" / "one" / FILE).read_bytes() == kept
        assert {p.name for p in (self.folder / "fits" / "one").iterdir()} == {FILE, SOURCE}

    def test_two_drawing_processes_draw_from_one_fit_and_record_it(self) -> None:
        """What a sealed audit does: each worker prepares for itself."""
        (self.folder / "source.parquet").write_bytes(table_bytes(source()))
        job = DrawJob(
            name="categorical",
            generator="categorical",
            options={"outcome": "class", "domains": {k: list(v) for k, v in DOMAINS.items()},
                     "rows": 50, "epsilon": "3", "folder": "fits"},
            root=str(self.folder),
            source=str(self.folder / "source.parquet"),
            schema_of_releases=Schema(kinds=dict.fromkeys(DOMAINS, "text")),
        )  # fmt: skip
        workers = [Worker(job) for _ in range(2)]
        assert all(worker.prepared.prepared_at_random for worker in workers)
        one, two = (worker.draw(Seed(5)) for worker in workers)
        assert one == two
        assert one[0].stages[0].startswith(self.stage)


def test_epsilon_is_the_number_of_tables_divided_by_the_scale() -> None:
    # Published: 18 histograms, epsilon 20, Laplace scale 18 / 20 = 0.9.
    by_epsilon = sampler(domains=MUSHROOM_DOMAINS, epsilon="20")
    assert by_epsilon.scale == Fraction(9, 10)
    by_scale = sampler(domains=MUSHROOM_DOMAINS, scale="0.9")
    assert by_scale.describe() == by_epsilon.describe()
    stated = privacy_of(by_scale)
    assert stated is not None
    assert (stated.epsilon, stated.delta, stated.parts) == (20, 0, 18)
    assert (stated.fits, stated.seeded) == ("once", True)


@pytest.mark.parametrize("epsilon", ["20", "1/3", "0.1", "7"])
@pytest.mark.parametrize("tables", [1, 3, 18])
def test_the_measurement_costs_no_more_than_epsilon_by_opendps_own_map(
    tables: int, epsilon: str
) -> None:
    measurement = laplace_measurement(tables, Fraction(epsilon))
    cost = Fraction(measurement.map(tables))
    assert cost <= Fraction(epsilon)
    assert float(cost) == pytest.approx(float(Fraction(epsilon)), rel=1e-12)


def test_the_noise_is_discrete_laplace_with_that_scale() -> None:
    measurement = laplace_measurement(18, Fraction(20))
    noise = np.array(measurement([0] * 5000))
    # P(k) is proportional to exp(-|k| / 0.9): P(0) = tanh(1 / 1.8) = 0.50467 and the variance
    # 2 q / (1 - q)^2 with q = exp(-1 / 0.9) is 1.46314. The noise has no seed; six standard
    # errors of 5000 draws (fourth moment 14.308) are passed less than once in ten million runs.
    assert abs((noise == 0).mean() - 0.50467) < 6 * np.sqrt(0.25 / 5000)
    assert abs((noise**2).mean() - 1.46314) < 6 * np.sqrt((14.308 - 1.46314**2) / 5000)


def test_a_row_more_changes_one_cell_of_each_table_by_one() -> None:
    generator = sampler()
    frame = source()
    generator._columns = generator._ordered(frame)
    full, less = generator._counts(frame), generator._counts(frame.iloc[1:])
    assert [int(np.abs(a - b).sum()) for a, b in zip(full, less, strict=True)] == [1, 1, 1]
    assert [table.shape for table in full] == [(2,), (2, 3), (2, 2)]


def test_noise_is_clipped_the_pseudocount_added_and_the_sum_is_one() -> None:
    frame = source()
    generator = prepared(sampler(scale="0.5", pseudocount="2"), frame, seed=11)
    rng = np.random.default_rng(11)
    classes = np.array([(frame["class"] == c).sum() for c in "ep"])
    expected = np.maximum(classes + rng.laplace(scale=0.5, size=2), 0.0) + 2.0
    np.testing.assert_allclose(generator._shares[0], expected / expected.sum(), rtol=1e-14)
    shape = pd.crosstab(frame["class"], frame["shape"])[["b", "c", "x"]].to_numpy()
    table = np.maximum(shape + rng.laplace(scale=0.5, size=(2, 3)), 0.0) + 2.0
    expected = table / table.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(generator._shares[1], expected, rtol=1e-14)


def test_a_release_is_drawn_class_by_class_as_numpys_own_choice_would() -> None:
    generator = prepared(sampler(rows=500))
    codes = generator.codes(Seed(9))
    rng = np.random.default_rng(9)
    label = rng.choice(2, size=500, p=generator._shares[0])
    np.testing.assert_array_equal(codes[0], label)
    for k in (1, 2):
        expected = np.empty(500, dtype=int)
        for c in (0, 1):
            own = generator._shares[k][c]
            expected[label == c] = rng.choice(own.size, size=(label == c).sum(), p=own)
        np.testing.assert_array_equal(codes[k], expected)
    assert generator.columns == ("class", "shape", "ring")
    assert codes.dtype == np.int8


def test_the_release_is_what_the_codes_stand_for() -> None:
    generator = prepared(sampler())
    release, codes = generator.draw(Seed(2)), generator.codes(Seed(2))
    assert list(release.columns) == ["class", "shape", "ring"]
    for name, row in zip(generator.columns, codes, strict=True):
        assert release[name].astype(object).tolist() == [DOMAINS[name][k] for k in row]


def test_many_categories_are_found_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = prepared(sampler(rows=500))
    few = generator.codes(Seed(9))
    monkeypatch.setattr("proxyguard.adapters.categorical.MANY", 1)
    np.testing.assert_array_equal(generator.codes(Seed(9)), few)
    wide = {"class": ["e", "p"], "shape": [str(k) for k in range(300)], "ring": ["t", "f"]}
    generator = prepared(sampler(domains=wide), source().assign(shape="7"))
    assert generator.codes(Seed(1)).dtype == np.int16


def test_the_order_of_the_domains_does_not_matter() -> None:
    turned = {name: DOMAINS[name] for name in reversed(DOMAINS)}
    one, two = prepared(sampler()), prepared(sampler(domains=turned))
    pd.testing.assert_frame_equal(one.draw(Seed(1)), two.draw(Seed(1)))


def test_values_outside_a_domain_count_as_unknown_or_are_an_error() -> None:
    generator = sampler()
    frame = source()
    generator._columns = generator._ordered(frame)
    # 'x' and a missing value are not in the domain of shape, which ends with '?'.
    frame.loc[frame["shape"] == "b", "shape"] = None
    assert generator._counts(frame)[1][:, 0].sum() == 0
    assert generator._counts(frame)[1][:, 2].sum() == (frame["shape"] != "c").sum()
    outside = r"'ring' has values that are not.*unknown category '\?'"
    with pytest.raises(TableError, match=outside) as caught:
        prepared(sampler(), source().assign(ring="z-4711"))
    assert "4711" not in str(caught.value)  # a value of the source, which the noise was to hide


def test_categories_that_are_numbers_in_the_source_are_numbers_in_the_release() -> None:
    domains = {**DOMAINS, "shape": ["1", "2", "?"]}
    frame = source().assign(shape=[1.0, 2.0, np.nan] * 20)
    release = prepared(sampler(domains=domains), frame).draw(Seed(1))
    assert release["shape"].dtype == np.float64
    assert set(release["shape"].dropna()) <= {1.0, 2.0}
    assert release["shape"].isna().any()
    with pytest.raises(RegistryError, match="the source has numbers in 'shape'"):
        prepared(sampler(), frame)


def test_numbers_are_rounded_down_to_those_of_the_domain() -> None:
    domains = {**DOMAINS, "shape": ["0", "10", "25.5"]}
    frame = source().assign(shape=[-3.0, 9.9, 10.0, 25.4, 25.5, 1e9] * 10)
    generator = prepared(sampler(domains=domains, floor=["shape"]), frame)
    # Two of six values at or below each number, by hand: -3 and 9.9, 10 and 25.4, 25.5 and 1e9.
    assert generator._counts(frame)[1].sum(axis=0).tolist() == [20, 20, 20]
    release = generator.draw(Seed(1))
    assert set(release["shape"]) == {0.0, 10.0, 25.5}
    assert generator.describe()["floor"] == ["shape"]
    assert "floor" not in sampler().describe()  # fits that were kept without it still serve
    with pytest.raises(TableError, match="'shape' in floor has missing values"):
        prepared(sampler(domains=domains, floor=["shape"]), frame.assign(shape=np.nan))


def test_blank_columns_are_there_and_empty() -> None:
    frame = source().assign(weight=1.5, note=pd.Series(["n"] * 60, dtype=object))
    release = prepared(sampler(blank=["weight", "note"]), frame).draw(Seed(1))
    assert list(release.columns) == list(frame.columns)
    assert release["weight"].isna().all()
    assert (release["note"] == "").all()
    with pytest.raises(RegistryError, match=r"they lack its columns \['note', 'weight'\]"):
        prepared(sampler(), frame)
    with pytest.raises(RegistryError, match=r"lacks the columns \['ring'\]"):
        prepared(sampler(), source().drop(columns="ring"))


def test_the_privacy_statement_says_what_is_public_and_what_is_not_covered() -> None:
    private = sampler(noise="opendp", folder="fits").describe()["privacy"]
    assert "never learned from the source" in private["public"]
    assert "L1 sensitivity 1" in private["composition"]
    assert not private["seeded"]
    assert not any("seed" in line for line in private["not covered"])
    seeded = sampler().describe()["privacy"]
    assert seeded["seeded"]
    assert "floating point" in seeded["not covered"][-1]
    assert not any("floating point" in line for line in private["not covered"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "rows is a whole number"),
        ({"rows": True}, "rows is a whole number"),
        ({"epsilon": "1", "scale": "1"}, "and not both"),
        ({"epsilon": "0"}, "epsilon is a number above 0"),
        ({"scale": "x"}, "scale is a number above 0"),
        ({"pseudocount": "-1"}, "pseudocount is a number above 0"),
        ({"noise": "none"}, 'noise is "opendp" or "seeded"'),
        ({"noise": "opendp"}, "name the folder"),
        ({"folder": "fits"}, "keeps none"),
        ({"noise": "opendp", "folder": "../fits"}, "inside the data folders"),
        ({"noise": "opendp", "folder": "/fits"}, "inside the data folders"),
        ({"outcome": "other"}, "domains maps the outcome"),
        ({"domains": {"class": ["e", "p"]}}, "at least one feature"),
        ({"domains": {"class": ["e", "p"], "a": "tf"}}, "the domain of 'a'"),
        ({"domains": {"class": ["e", "p"], "a": ["t"]}}, "the domain of 'a'"),
        ({"domains": {"class": ["e", "p"], "a": ["t", "t"]}}, "the domain of 'a'"),
        ({"domains": {"class": ["e", "p"], "a": [1, 2]}}, "the domain of 'a'"),
        ({"blank": ["ring"]}, "both blank and in domains"),
        ({"floor": ["ring"]}, "'ring' in floor has no domain of numbers"),
        ({"floor": ["weight"]}, "'weight' in floor has no domain of numbers"),
        (
            {"domains": {"class": ["e", "p"], "a": ["2", "1"]}, "floor": ["a"]},
            "numbers in rising order, got \\['2', '1'\\]",
        ),
    ],
)
def test_settings_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        sampler(**options)


def test_without_opendp_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    generator = sampler(noise="opendp", folder="fits")
    generator.root = tmp_path
    with pytest.raises(RegistryError, match=r'pip install "proxyguard\[dp\]"'):
        prepared(generator)


@pytest.mark.skipif(
    DATA is None or not MUSHROOM.exists(),
    reason="PROXYGUARD_DATA does not name a folder with secondary_mushroom",
)
def test_the_published_sampler_fits_the_mushrooms_and_keeps_their_shares() -> None:
    raw = RawTable(MUSHROOM, TableReading(separator=";"))
    table = raw.take(np.arange(len(raw)))
    blank = ["cap-diameter", "stem-height", "stem-width"]
    generator = sampler(domains=MUSHROOM_DOMAINS, epsilon="20", rows=10_000, blank=blank)
    prepared(generator, table)
    release = generator.draw(Seed(8480601))
    assert list(release.columns) == raw.columns
    for name in ("class", "season", "habitat"):
        drawn = release[name].astype(object).value_counts(normalize=True)
        for category, share in table[name].value_counts(normalize=True).items():
            # Five standard errors of a share of 10,000 draws; the noise is below 1e-4 of 61,069.
            margin = 5 * np.sqrt(share * (1 - share) / 10_000) + 1e-3
            assert abs(drawn.get(category, 0.0) - share) < margin
