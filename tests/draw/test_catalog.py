"""A name means one thing: ours, an entry point, or an import path, and never two of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from proxyguard.adapters.transforms import RowBootstrap
from proxyguard.draw.catalog import (
    EXTRAS,
    GENERATORS,
    LEAVE_NOTHING,
    PROCEDURES,
    TORCH,
    _distributions,
    code_digests,
    find_pipeline,
    leaves_nothing,
    load_callable,
    load_generator,
    need_extra,
    origin,
)
from proxyguard.draw.protocol import Generator
from proxyguard.errors import RegistryError

MODULE = """\
class Maker:
    def __init__(self, *, size=1):
        self.size = size

    class Inner:
        pass


def pipeline(seed):
    return "unfitted"
"""


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, entry_points: str = ""
) -> None:
    """Put a package of one module, with these entry points, on the path of this test."""
    (folder / f"{name}.py").write_text(MODULE)
    info = folder / f"{name}-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.5\n")
    (info / "top_level.txt").write_text(f"{name}\n")
    (info / "entry_points.txt").write_text(entry_points)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.fixture
def distributions_anew() -> Iterator[None]:
    """Let this test see its own packages, and no later test see them."""
    _distributions.cache_clear()
    yield
    _distributions.cache_clear()


OTHERS = {
    "ctgan_package": {}, "sdv_package": {},
    "smartnoise_package": {"model": "mwem", "epsilon": "1"},
}  # fmt: skip
"""Adapters to packages that a user may have, with options."""


@pytest.mark.parametrize("name", OTHERS)
def test_an_adapter_to_a_package_that_is_not_here_says_which(name: str) -> None:
    with pytest.raises(RegistryError, match=r"the package [\w-]+ is not here.*pip install"):
        load_generator(name, OTHERS[name])


@pytest.mark.parametrize(
    ("name", "options"),
    [("ctgan", {"model": "TVAE"}), ("ctgan", {"options": {"epochs": 1}}), ("sdv", {}),
     ("smartnoise", {"model": "mwem", "epsilon": "1"})],
)  # fmt: skip
def test_an_old_declaration_of_an_adapter_is_told_both_names(
    name: str, options: dict[str, object]
) -> None:
    with pytest.raises(RegistryError, match=f"'{name}'.*'{name}_package' now.*declare the one"):
        load_generator(name, options)


def test_what_is_ours_now_and_was_an_adapters_name_is_told_apart_by_its_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(GENERATORS, "ctgan", GENERATORS["bootstrap"])
    assert isinstance(load_generator("ctgan", {"rows": 3}), RowBootstrap)
    with pytest.raises(RegistryError, match=r"\['model'\].*'ctgan' is a generator of proxyguard"):
        load_generator("ctgan", {"rows": 3, "model": "CTGAN"})


@pytest.mark.parametrize("name", ["bootstrap", GENERATORS["bootstrap"]])
def test_a_generator_whose_extra_is_missing_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    need_extra(name)
    monkeypatch.setitem(EXTRAS, "bootstrap", TORCH)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RegistryError) as caught:
        need_extra(name)
    assert 'pip install "proxyguard[torch]"' in str(caught.value)
    assert "pip install torch==2.13.0" in str(caught.value)
    load_generator("bootstrap", {})  # who verifies has it describe itself, without the extra
    need_extra("noise")


@pytest.mark.parametrize("name", sorted(set(GENERATORS) - set(OTHERS)))
def test_every_generator_of_ours_can_be_loaded_and_is_one(name: str) -> None:
    options = {
        "bootstrap": {"rows": 3},
        "files": {"folder": "releases"},
        "callable": {"function": "math:sqrt"},
        "code": {"name": "f", "text": "def f(source, rng): return source"},
        "predictions": {"folder": "predictions"},
        "noise": {"keep": ["y"]},
        "coarsen": {"keep": ["y"]},
        "mask": {"keep": ["y"]},
        "categorical": {"outcome": "y", "domains": {"y": ["a", "b"], "x": ["u", "v"]},
                        "rows": 10, "epsilon": "1", "noise": "seeded"},
        "denoising": {"outcome": "y", "positive": "yes", "rows": 10, "hidden": 2,
                      "train_noise": "0.1", "sample_noise": "0.1", "label_fidelity": "1",
                      "ridge": "0.1"},
        "text": {"outcome": "y", "positive": "yes", "text": "t", "rows": 10},
        "tvae": {"epochs": 3},
        "ctgan": {"epochs": 3},
        "tabddpm": {"outcome": "y"},
        "copula": {"rows": 10},
        "bayesian_network": {"rows": 10},
        "aim": {"rho": "1", "delta": "1e-6"},
    }  # fmt: skip
    assert isinstance(load_generator(name, options[name]), Generator)


@pytest.mark.parametrize("name", sorted(PROCEDURES))
def test_every_procedure_of_ours_can_be_loaded(name: str) -> None:
    assert find_pipeline(name).__name__ == name


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(
        RegistryError, match=r'no generator "magic"; ours are .* bootstrap, callable'
    ):
        load_generator("magic", {})
    with pytest.raises(RegistryError, match=r'no procedure "magic"; ours are balanced'):
        find_pipeline("magic")


def test_an_import_path_names_an_attribute_at_any_depth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "pg_catalog_path")
    assert load_generator("pg_catalog_path:Maker", {"size": 4}).size == 4
    assert load_callable("pg_catalog_path:Maker.Inner").__name__ == "Inner"
    assert find_pipeline("pg_catalog_path:pipeline")(0) == "unfitted"


@pytest.mark.parametrize(
    "path",
    ["no_such_module:x", "math:no_such_name", "math:", "math:pi.no", ":x", "math:sqrt.", "math"],
)
def test_an_import_path_that_leads_nowhere_is_refused_by_name(path: str) -> None:
    with pytest.raises(RegistryError, match=f"'{path}' cannot be loaded"):
        load_callable(path)


def test_options_that_a_generator_does_not_take_are_named() -> None:
    with pytest.raises(RegistryError, match="'bootstrap' has no option size; it has rows"):
        load_generator("bootstrap", {"size": 3})
    with pytest.raises(RegistryError, match="'files' needs options"):
        load_generator("files", {})


def test_a_generator_that_refuses_its_options_itself_is_heard() -> None:
    with pytest.raises(RegistryError, match="rows is a whole number of at least 1, got 0"):
        load_generator("bootstrap", {"rows": 0})


@pytest.mark.usefixtures("distributions_anew")
def test_an_entry_point_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = (
        "[proxyguard.generators]\nmade = pg_catalog_entry:Maker\n"
        "[proxyguard.procedures]\nlearned = pg_catalog_entry:pipeline\n"
    )
    install(tmp_path, monkeypatch, "pg_catalog_entry", points)
    assert load_generator("made", {"size": 2}).size == 2
    assert find_pipeline("learned")(0) == "unfitted"
    assert (origin("made").path, origin("made").version) == ("pg_catalog_entry:Maker", "2.5")
    assert origin("learned", "procedure").path == "pg_catalog_entry:pipeline"
    with pytest.raises(RegistryError, match='no procedure "made"'):
        find_pipeline("made")


def test_an_entry_point_is_not_imported_before_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = "[proxyguard.generators]\nmade = pg_catalog_lazy:Maker\n"
    install(tmp_path, monkeypatch, "pg_catalog_lazy", points)
    load_generator("bootstrap", {})
    origin("made")
    assert "pg_catalog_lazy" not in sys.modules
    load_generator("made", {})
    assert "pg_catalog_lazy" in sys.modules


def test_a_name_of_ours_that_a_package_claims_too_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = "[proxyguard.generators]\nbootstrap = pg_catalog_claim:Maker\n"
    install(tmp_path, monkeypatch, "pg_catalog_claim", points)
    with pytest.raises(RegistryError, match=r"'bootstrap' is claimed by .*pg_catalog_claim:Maker"):
        load_generator("bootstrap", {})
    # By its import path each of them can still be had.
    own = load_generator("proxyguard.adapters.transforms:RowBootstrap", {})
    assert isinstance(own, RowBootstrap)


def test_a_name_that_two_packages_claim_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pg_catalog_first", "pg_catalog_second"):
        install(tmp_path, monkeypatch, name, f"[proxyguard.generators]\nmade = {name}:Maker\n")
    with pytest.raises(
        RegistryError, match=r"claimed by \['pg_catalog_first:Maker', 'pg_catalog_second:Maker'\]"
    ):
        load_generator("made", {})


@pytest.mark.usefixtures("distributions_anew")
def test_the_origin_of_an_entry_point_tells_the_version_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "pg_origin", "[proxyguard.generators]\nmade = pg_origin:Maker\n")
    assert (origin("made").path, origin("made").version) == ("pg_origin:Maker", "2.5")


@pytest.mark.usefixtures("distributions_anew")
def test_the_installed_packages_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def distributions() -> dict[str, list[str]]:
        calls.append(1)
        return {"sklearn": ["scikit-learn"]}

    monkeypatch.setattr("proxyguard.draw.catalog.packages_distributions", distributions)
    for _ in range(3):
        found = origin("sklearn.linear_model:Ridge", "procedure")
        assert found.version == metadata.version("scikit-learn")
    assert len(calls) == 1


@pytest.mark.usefixtures("distributions_anew")
def test_our_own_version_is_known_without_a_look_at_all_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused() -> dict[str, list[str]]:
        raise AssertionError("every drawing process would read the metadata of all packages")

    monkeypatch.setattr("proxyguard.draw.catalog.packages_distributions", refused)
    assert origin("bootstrap").version == metadata.version("proxyguard")


def test_draws_of_code_that_is_not_plainly_ours_leave_something() -> None:
    assert {name for name in GENERATORS if leaves_nothing(name)} == LEAVE_NOTHING
    assert leaves_nothing(GENERATORS["bootstrap"])
    assert not leaves_nothing("proxyguard.adapters.transforms:RowBootstrap.draw")
    assert not leaves_nothing("sklearn.linear_model:Ridge")


def test_the_origin_of_a_name_tells_the_version_of_its_package() -> None:
    found = origin("sklearn.linear_model:Ridge", "procedure")
    assert found.path == "sklearn.linear_model:Ridge"
    assert found.version == metadata.version("scikit-learn")
    assert list(found.code) == ["sklearn.linear_model"]  # the version stands for the others
    assert origin("math:sqrt").version == "not packaged"
    assert origin("bootstrap").path == GENERATORS["bootstrap"]


def test_code_that_no_version_stands_for_is_followed_through_its_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "pg_followed"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "start.py").write_text(
        "import json\nimport numpy as np\nfrom . import near\nfrom pg_followed_beside import deep\n"
    )
    (package / "near.py").write_text("from .start import something\n")  # a circle ends
    (package / "unused.py").write_text("")
    (tmp_path / "pg_followed_beside.py").write_text("def deep():\n    import pg_followed.near\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = code_digests("pg_followed.start")
    assert list(found) == [
        "pg_followed", "pg_followed.near", "pg_followed.start", "pg_followed_beside",
    ]  # fmt: skip
    (package / "near.py").write_text("# another text\n")
    again = code_digests("pg_followed.start")
    assert {name for name in found if found[name] != again[name]} == {"pg_followed.near"}


def test_a_module_without_a_file_has_no_text() -> None:
    assert code_digests("sys") == {}


def test_the_text_of_a_module_and_of_its_packages_is_digested_and_none_of_them_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "pg_outer" / "inner"  # a package without __init__ in one that has it
    inner.mkdir(parents=True)
    (tmp_path / "pg_outer" / "__init__.py").write_text("import pg_outer.helper\n1 / 0\n")
    (tmp_path / "pg_outer" / "helper.py").write_text("1 / 0\n")
    (inner / "made.py").write_text("from . import beside\n1 / 0\n")
    (inner / "beside.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    code = origin("pg_outer.inner.made:Maker").code
    modules = ["pg_outer", "pg_outer.helper", "pg_outer.inner.beside", "pg_outer.inner.made"]
    assert list(code) == modules
    assert not {name for name in sys.modules if name.startswith("pg_outer")}


@pytest.mark.parametrize("module", ["", "no.such.module", "sys.path", "os/path", "../pg", "."])
def test_a_name_that_leads_to_no_module_has_no_text(module: str) -> None:
    assert origin(f"{module}:x").code == {}
