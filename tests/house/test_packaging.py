"""What an installer gets to see: the wheel's metadata, and the versions that CI installs."""

from __future__ import annotations

import email
import re
import shutil
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import proxyguard
from proxyguard.draw.catalog import TORCH
from proxyguard.extras import AUDIT

ROOT = Path(__file__).parents[2]
VERSION = proxyguard.__version__


def wheel_of(project: Path, copy: Path) -> zipfile.ZipFile:
    """Return the wheel that the build backend makes of a copy of a project."""
    backend = pytest.importorskip("hatchling.build", reason="an older .venv: make installs it anew")
    out = copy / "dist"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (project / name).exists():
            shutil.copy(project / name, copy)
    shutil.copytree(project / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(copy)
        return zipfile.ZipFile(out / backend.build_wheel(str(out)))


def metadata_of(wheel: zipfile.ZipFile) -> Message:
    """Return the metadata of a wheel."""
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(wheel.read(name))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The product's wheel."""
    return wheel_of(ROOT, tmp_path_factory.mktemp("product") / "project")


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    """The metadata of the product's wheel, as its build backend writes them."""
    return metadata_of(wheel)


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of the reproduction."""
    return wheel_of(ROOT / "reproduction", tmp_path_factory.mktemp("paper") / "project")


@pytest.fixture(scope="module")
def required(metadata: Message, paper: zipfile.ZipFile) -> dict[str, Requirement]:
    """All that ``make test`` asks for, by name."""
    every = [*requirements(metadata_of(paper)), *requirements(metadata, "dev")]
    every += requirements(metadata, "audit")  # which dev and the reproduction name
    return {canonicalize_name(one.name): one for one in every if one.name != "proxyguard"}


def requirements(metadata: Message, extra: str = "") -> list[Requirement]:
    """Return what a package asks for, with one of its extras or with none."""
    every = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    return [one for one in every if one.marker is None or one.marker.evaluate({"extra": extra})]


def test_the_package_brings_numpy_and_scipy_and_an_audit_is_an_extra(metadata: Message) -> None:
    plain = {one.name for one in requirements(metadata)}
    assert plain == {"numpy", "scipy"}
    audit = {one.name for one in requirements(metadata, "audit")} - plain
    modules = {"scikit-learn": "sklearn"}
    assert {modules.get(name, name) for name in audit} == set(AUDIT)


def test_what_needs_the_extra_asks_for_it(metadata: Message, paper: zipfile.ZipFile) -> None:
    audit = {one.name for one in requirements(metadata, "audit")}
    assert audit < {one.name for one in requirements(metadata, "dev")}
    (product,) = (one for one in requirements(metadata_of(paper)) if one.name == "proxyguard")
    assert "audit" in product.extras
    installs = re.findall(r"install,(-e .*?),\.venv", (ROOT / "Makefile").read_text())
    assert len(installs) == 5
    assert all('".[audit]"' in line or '".[dev' in line for line in installs)


def test_the_command_starts_where_nothing_of_the_extra_is_imported(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "proxyguard = proxyguard.extras:command" in wheel.read(name).decode()


def test_the_wheel_is_the_product_and_the_paper_has_a_wheel_of_its_own(
    wheel: zipfile.ZipFile, paper: zipfile.ZipFile
) -> None:
    folders = {name.split("/")[0] for name in wheel.namelist()}
    assert folders == {"proxyguard", f"proxyguard-{VERSION}.dist-info"}
    inside = {name.split("/")[1] for name in wheel.namelist() if name.startswith("proxyguard/")}
    assert {"__init__.py", "py.typed", "exact"} <= inside
    assert not inside & {"studies", "datasets", "audits"}
    assert "proxyguard/plan/paper.py" not in wheel.namelist()
    declared = "reproduction/audits/screen/audit.toml"
    assert "reproduction/studies/page.md.j2" in paper.namelist()
    assert "reproduction/studies/readings.toml" in paper.namelist()
    assert "reproduction/audits/published.toml" in paper.namelist()
    assert "reproduction/audits/words.toml" in paper.namelist()
    assert {"reproduction/__main__.py", "reproduction/datasets/catalog.toml", declared} <= set(
        paper.namelist()
    )


def test_the_reproduction_depends_on_the_product_and_the_product_not_on_it(
    metadata: Message, paper: zipfile.ZipFile
) -> None:
    asks = {Requirement(text).name for text in metadata_of(paper).get_all("Requires-Dist", [])}
    assert "proxyguard" in asks
    product = {Requirement(text).name for text in metadata.get_all("Requires-Dist", [])}
    assert metadata_of(paper)["Name"] not in product


def test_the_wheel_shows_the_readme_and_where_the_project_lives(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().strip() == (ROOT / "README.md").read_text().strip()
    urls = dict(text.split(", ", 1) for text in metadata.get_all("Project-URL", []))
    assert {"Homepage", "Changelog"} <= set(urls)
    assert all(url.startswith("https://") for url in urls.values())
    assert f"\nurl: {urls['Homepage']}\n" in (ROOT / "CITATION.cff").read_text()


def test_skops_is_an_extra_and_none_is_allowed_that_runs_code_of_a_stored_model(
    metadata: Message,
) -> None:
    every = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    asked = [one for one in every if one.name == "skops"]
    extras = {str(one.marker).split('"')[1] for one in asked}
    assert {"pipelines", "dev"} <= extras
    for one in asked:
        assert one.marker is not None
        assert not one.marker.evaluate({"extra": ""})
        assert not one.specifier.contains("0.12.0")  # CVE-2025-54412
        assert one.specifier.contains("0.13.0")


def test_every_version_that_ci_installs_is_exact_and_one_that_is_allowed(
    required: dict[str, Requirement],
) -> None:
    lines = [
        line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1] != "#"
    ]
    assert all(re.fullmatch(r"[\w.-]+==[\w.+!]+", line) for line in lines)
    pinned = {canonicalize_name(n): Version(v) for n, v in (line.split("==") for line in lines)}
    assert "torch" not in pinned  # nobody gets it who does not ask for it
    for name, one in required.items():
        assert name in pinned, f"{name} has no exact version; run make constraints"
        assert one.specifier.contains(pinned[name]), f"{one} is asked for; run make constraints"


def test_torch_is_an_extra_that_ci_tests_with_one_version_and_a_user_gets_with_any(
    metadata: Message,
) -> None:
    (torch,) = (one for one in requirements(metadata, "torch") if one.name == "torch")
    assert "torch" not in {one.name for one in requirements(metadata, "dev")}
    makefile = (ROOT / "Makefile").read_text()
    (named,) = re.findall(r"^TORCH \?= torch==(\S+)$", makefile, re.MULTILINE)
    assert torch.specifier.contains(named)
    assert f"torch=={named}" == TORCH.first  # which is what a user is told to type
    assert torch.specifier.contains("3.0")  # no exact version: which build is a user's choice
    assert "\nstage test-torch\n" in (ROOT / ".ci" / "run").read_text()


def test_ci_installs_these_versions_and_a_user_does_not() -> None:
    assert "export CONSTRAINTS=constraints.txt" in (ROOT / ".ci" / "run").read_text()
    makefile = (ROOT / "Makefile").read_text()
    assert "\nCONSTRAINTS ?=\n" in makefile
    assert makefile.count("$(addprefix -c ,$(CONSTRAINTS))") == 2  # with uv and with pip


def test_the_wheel_carries_what_pages_are_made_of(wheel: zipfile.ZipFile) -> None:
    templates = ROOT / "src" / "proxyguard" / "report" / "templates"
    ours = {f"proxyguard/report/templates/{path.name}" for path in templates.iterdir()}
    assert "proxyguard/report/templates/bounds.js" in ours
    assert ours <= set(wheel.namelist())
