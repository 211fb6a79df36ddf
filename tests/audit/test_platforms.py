"""An audit on a system that cannot fork, opens no folders and has none of POSIX's modules."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import proxyguard as pg
from audit.conftest import DECLARATION
from conformance import windows
from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import RELEASES
from proxyguard.audit.home import examine
from proxyguard.documents.releases import DrawnRelease, MadeDraw, ReleaseManifest
from proxyguard.draw import pool

TESTS = Path(__file__).parents[1]

ARRAYS = """
import os, sys
assert not hasattr(os, "fork") and not hasattr(os, "O_NOFOLLOW")
from pathlib import Path
import numpy as np
import proxyguard as pg

losses = (np.random.default_rng(1).random((40, 500, 1)) < 0.06).astype(float)
error = [pg.Requirement(name="error", low=0, high=1, limit=0.15, two_valued=True)]
print(pg.certify(losses, error, reliability_target=0.8, seed=1).decision.value)
law = pg.assumed_law(error, margins=[0.04], reliability=0.95)
plan = pg.recommend(law, pg.Question(reliability_target="0.8", n=1000, releases=60))
print(plan.chosen.power.value > 0.5)
"""

LOOK = """
import sys
from pathlib import Path
import proxyguard as pg

folder = Path(sys.argv[1])
audit = pg.Audit(folder / "audit", home=folder / "home", data=[folder / "data"])
verified = audit.verify()
print(verified.good, verified.complete)
print(len(audit.report()), audit.status().next)
"""

AUDIT = """
import sys, warnings
from pathlib import Path
import proxyguard as pg
from audit.conftest import DECLARATION, write_table

folder = Path(sys.argv[1])
write_table(folder / "data" / "table.csv")
audit = pg.Audit(folder / "audit", home=folder / "home", data=[folder / "data"], workers=1)
audit.init(DECLARATION.replace("draws = 8", "draws = 3"))
assert audit.check().good
audit.seal()
audit.register()
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    audit.draw()
assert ["cannot fork" in str(warning.message) for warning in said] == [True]
assert audit.open() is not None
verified = audit.verify(redraw=1)
assert verified.good, verified.findings
assert not verified.complete
print(*[entry.stage.value for entry in audit.journal().ledger.entries])
"""


def run_there(script: str, *arguments: str, folder: Path) -> str:
    """Run a script, and all that it starts, where POSIX is hidden."""
    hides = folder / "hides"
    hides.mkdir()
    (hides / "sitecustomize.py").write_text(Path(windows.__file__).read_text("utf-8"))
    environment = {
        **windows_environment(), "PYTHONPATH": f"{hides}:{TESTS}:{TESTS.parent / 'src'}"
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def windows_environment() -> dict[str, str]:
    import os

    return {**os.environ, "OMP_NUM_THREADS": "1"}


def test_arrays_are_certified_and_audits_planned_without_posix(tmp_path: Path) -> None:
    assert run_there(ARRAYS, folder=tmp_path).splitlines() == ["validated", "True"]


@pytest.mark.whole
def test_a_folder_is_checked_and_reported_without_posix(
    at: Callable[[str], Audit], tmp_path: Path
) -> None:
    folder = at("certified").folder.path.parent
    said = run_there(LOOK, str(folder), folder=tmp_path).splitlines()
    assert said == ["True True", "4 verify"]


@pytest.mark.whole
def test_a_whole_audit_runs_without_posix(tmp_path: Path) -> None:
    said = run_there(AUDIT, str(tmp_path), folder=tmp_path)
    assert said.split() == ["sealed", "developed", "registered", "drawn", "opened", "certified"]
    # What was made there holds here, where more is checked.
    verified = Audit(tmp_path / "audit", home=tmp_path / "home").verify(redraw=1)
    assert verified.good
    assert verified.complete


def drawn(audit: Audit) -> list[MadeDraw]:
    manifest = audit.folder.document(ReleaseManifest, RELEASES)
    return list(manifest.members["target"]["bootstrap"].draws)


def declare(audit: Audit, mechanism: str) -> None:
    text = DECLARATION.replace('generator = "bootstrap"', mechanism).replace(
        "draws = 8", "draws = 3"
    )
    (audit.folder.path / "audit.toml").write_text(text)


BOOTSTRAP = 'generator = "bootstrap"'


def with_code(text: str, more: str = "") -> str:
    return f"generator = \"code\"\noptions.name = \"f\"\noptions.text = '''\n{text}'''\n{more}"


# It remembers in its module what it drew before, which a fresh process does not know.
REMEMBERS = with_code("""\
seen = []
def f(source, rng):
    table = source.sample(150, random_state=rng).reset_index(drop=True)
    seen.append(1)
    return table.assign(first=float(len(seen)))
""")
HANGS = with_code(
    """\
import time
def f(source, rng):
    if rng.integers(0, 2**62) == STUCK:
        time.sleep(600)
    return source.sample(150, random_state=rng).reset_index(drop=True)
""",
    'timeout = 20\non_failure = "worst_loss"\n',
)


@pytest.fixture
def no_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "can_fork", lambda: False)


def test_draws_are_the_same_without_forks_and_it_is_said(
    at: Callable[[str], Audit], no_fork: None
) -> None:
    forked, spawned = at("drawn"), at("registered")
    with pytest.warns(pg.NoFork, match="cannot fork"):
        spawned.draw()
    pairs = list(zip(drawn(forked), drawn(spawned), strict=True))
    assert len(pairs) == 8
    for first, second in pairs:
        assert isinstance(first, DrawnRelease)
        assert isinstance(second, DrawnRelease)
        assert (first.content, first.model, first.stages) == (
            second.content, second.model, second.stages
        )  # fmt: skip


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::proxyguard.errors.NoFork")
def test_no_draw_of_others_knows_the_one_before_it(
    at: Callable[[str], Audit], no_fork: None
) -> None:
    audit = at("new")
    declare(audit, REMEMBERS)
    audit.seal()
    audit.register()
    audit.draw()
    for draw in drawn(audit):
        assert isinstance(draw, DrawnRelease)
        release = audit.folder.stored_table(draw.release, "a release")
        assert set(release["first"]) == {1.0}


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::proxyguard.errors.NoFork")
def test_a_draw_that_hangs_fails_alone(at: Callable[[str], Audit], no_fork: None) -> None:
    audit = at("new")
    stuck = np.random.default_rng(101).integers(0, 2**62)
    declare(audit, HANGS.replace("STUCK", str(stuck)))
    audit.seal()
    audit.register()
    audit.draw()
    assert [draw.status for draw in drawn(audit)] == ["drawn", "timeout", "drawn"]


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore::proxyguard.errors.NoFork")
def test_a_draw_that_ends_its_process_stops(at: Callable[[str], Audit], no_fork: None) -> None:
    audit = at("new")
    declare(audit, with_code("import os\ndef f(source, rng):\n    os._exit(3)\n"))
    audit.seal()
    audit.register()
    with pytest.raises(pg.UnansweredDraw, match="ended"):
        audit.draw()


def test_the_doctor_says_how_draws_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import proxyguard.audit.home as home

    assert examine(tmp_path / "home").facts["draws are made in"] == "forked processes"
    monkeypatch.setattr(home, "can_fork", lambda: False)
    assert "cannot fork" in examine(tmp_path / "home").facts["draws are made in"]
