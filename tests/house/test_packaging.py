"""What an installer gets to see: the wheel's metadata, and the versions that CI installs."""

from __future__ import annotations

import email
import re
import shutil
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    """The metadata of the wheel, as its build backend writes them."""
    backend = pytest.importorskip("hatchling.build", reason="an older .venv: make installs it anew")
    project, out = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("metadata")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, project)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        folder = backend.prepare_metadata_for_build_wheel(str(out))
    return email.message_from_bytes((out / folder / "METADATA").read_bytes())


@pytest.fixture(scope="module")
def required(metadata: Message) -> dict[str, Requirement]:
    """All that ``.[dev]`` asks for, by name."""
    every = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    asked = [one for one in every if one.marker is None or one.marker.evaluate({"extra": "dev"})]
    return {canonicalize_name(one.name): one for one in asked}


def test_the_wheel_shows_the_readme_and_where_the_project_lives(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().strip() == (ROOT / "README.md").read_text().strip()
    urls = dict(text.split(", ", 1) for text in metadata.get_all("Project-URL", []))
    assert {"Homepage", "Changelog"} <= set(urls)
    assert all(url.startswith("https://") for url in urls.values())
    assert f"\nurl: {urls['Homepage']}\n" in (ROOT / "CITATION.cff").read_text()


def test_no_skops_is_allowed_that_runs_code_of_a_stored_model(
    required: dict[str, Requirement],
) -> None:
    assert not required["skops"].specifier.contains("0.12.0")  # CVE-2025-54412
    assert required["skops"].specifier.contains("0.13.0")


def test_every_version_that_ci_installs_is_exact_and_one_that_is_allowed(
    required: dict[str, Requirement],
) -> None:
    lines = [
        line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1] != "#"
    ]
    assert all(re.fullmatch(r"[\w.-]+==[\w.+!]+", line) for line in lines)
    pinned = {canonicalize_name(n): Version(v) for n, v in (line.split("==") for line in lines)}
    assert "torch" not in pinned  # the adapters that use it have environments of their own
    for name, one in required.items():
        assert name in pinned, f"{name} has no exact version; run make constraints"
        assert one.specifier.contains(pinned[name]), f"{one} is asked for; run make constraints"


def test_ci_installs_these_versions_and_a_user_does_not() -> None:
    assert "export CONSTRAINTS=constraints.txt" in (ROOT / ".ci" / "run").read_text()
    makefile = (ROOT / "Makefile").read_text()
    assert "\nCONSTRAINTS ?=\n" in makefile
    assert makefile.count("$(addprefix -c ,$(CONSTRAINTS))") == 2  # with uv and with pip
