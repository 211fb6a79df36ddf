"""With numpy and scipy alone arrays are certified and audits planned; the rest says what it needs.

The interpreter of these tests has no site-packages: it sees the standard library, this package,
and links to numpy and scipy.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

import proxyguard
from proxyguard.errors import MissingExtra
from proxyguard.extras import AUDIT, need

SOURCE = Path(proxyguard.__file__).parents[1]
PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "statistician.md"
INSTALL = 'type: pip install "proxyguard[audit]"'

Run = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run code where nothing but numpy and scipy is installed."""
    folder = tmp_path_factory.mktemp("core")
    for name in ("numpy", "scipy"):
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        package = Path(spec.origin).parent
        (folder / name).symlink_to(package)
        libraries = package.with_name(f"{name}.libs")  # compiled code that its wheel carries
        if libraries.exists():
            (folder / libraries.name).symlink_to(libraries)

    def run(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", "-W", "error", "-c", textwrap.dedent(code)],
            env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{SOURCE}"},
            capture_output=True,
            text=True,
        )

    return run


def test_nothing_of_the_extra_is_in_reach_here(run: Run) -> None:
    code = "from importlib.util import find_spec\nprint([n for n in {!r} if find_spec(n)])"
    done = run(code.format(AUDIT))
    assert done.stdout.split() == ["[]"], done.stderr


def test_the_statistician_s_page_runs_without_the_audit_and_prints_what_it_shows(run: Run) -> None:
    blocks = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    shown, code = "", "import numpy as np\nimport proxyguard as pg\n"
    for (language, text), (following, output) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language == "python":
            code += text
            shown += output if following == "text" else ""
    done = run(code)
    assert done.stdout == shown, done.stderr
    assert shown


def test_exact_functions_modes_and_planner_import_nothing_else(run: Run) -> None:
    done = run(
        """
        import importlib, pkgutil
        for folder in ("exact", "modes", "plan"):
            package = importlib.import_module(f"proxyguard.{folder}")
            for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                importlib.import_module(module.name)
                print(module.name)
        """
    )
    assert done.returncode == 0, done.stderr
    assert "proxyguard.plan.recommend" in done.stdout


CERTIFICATE = """
    import numpy as np, proxyguard as pg
    rules = [pg.Requirement(name="error", low=0, high=1, limit=0.1)]
    made = pg.certify(np.zeros((40, 200, 1)), rules, reliability_target=0.5, test="bentkus")
"""


def test_a_certificate_is_printed_and_turned_into_plain_values(run: Run) -> None:
    done = run(CERTIFICATE + "    print(made, made.to_dict())")
    assert "VALIDATED" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("call", "missing"), [("made.to_frame()", "pandas"), ("made.to_html()", ", ".join(AUDIT))]
)
def test_tables_and_pages_say_what_to_install(run: Run, call: str, missing: str) -> None:
    done = run(CERTIFICATE + f"    {call}")
    assert "proxyguard.errors.MissingExtra: " in done.stderr
    assert f"{INSTALL} (not installed here: {missing})" in done.stderr


def test_a_picture_of_a_plan_names_the_extra_that_draws_it(run: Run) -> None:
    done = run("from proxyguard.plan.report import draw; draw([], None)")
    assert 'type: pip install "proxyguard[plots]" (not installed here: matplotlib)' in done.stderr


def test_what_python_refuses_to_import_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match="not installed here: pandas"):
        need("a table", ["pandas", "json"])


def test_a_notebook_shows_the_text_and_what_would_draw_it(run: Run) -> None:
    done = run(CERTIFICATE + "    print(made._repr_html_())")
    assert "<pre>VALIDATED: mechanism" in done.stdout, done.stderr
    assert "[audit]" in done.stdout


@pytest.mark.parametrize("name", ["Audit", "SealedCertificate"])
def test_the_audit_says_what_to_install_and_is_an_import_that_failed(run: Run, name: str) -> None:
    done = run(
        f"""
        try:
            from proxyguard import {name}
        except ImportError as error:
            print(error)
        """
    )
    assert f"proxyguard.{name} needs" in done.stdout
    assert INSTALL in done.stdout


def test_the_command_says_in_one_line_what_to_install(run: Run) -> None:
    done = run("from proxyguard.extras import command; command()")
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("proxyguard: the command proxyguard needs")
    assert INSTALL in line
