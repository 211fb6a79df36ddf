"""Attacks of others run apart, and a score that is no function of one row is refused."""

from __future__ import annotations

import socket
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from conformance.warm import started_by
from proxyguard.draw import confine
from proxyguard.draw.processes import LINUX
from proxyguard.errors import AttackRefused, RegistryError
from proxyguard.exposure.attacks import AttackSuite, try_attacks
from proxyguard.exposure.named import Apart
from proxyguard.exposure.representation import Representation, Rows
from proxyguard.registry.exposure import AttackPart

MODULE = '''
    import os
    import socket
    import time
    from pathlib import Path

    import numpy as np


    class Base:
        def fit(self, release, reference):
            self.center = float(release["x"].mean())

        def score(self, rows):
            return -np.abs(rows["x"].to_numpy() - self.center)


    class Honest(Base):
        def __init__(self, scale=1.0):
            self.scale = scale

        def score(self, rows):
            print("x" * 100000, flush=True)  # no score, and no answer
            return self.scale * super().score(rows)


    class PooledMedian(Base):
        def score(self, rows):
            distances = -super().score(rows)
            return (distances <= np.median(distances)).astype(float)


    class Chance(Base):
        def score(self, rows):
            return np.random.default_rng().normal(size=len(rows))


    class Remembers(Base):
        """Scores by how many rows it has met in its process."""
        met = 0

        def score(self, rows):
            Remembers.met += len(rows)
            return np.full(len(rows), float(Remembers.met))


    class Missing(Base):
        def score(self, rows):
            return np.full(len(rows), np.nan)


    class Few(Base):
        def score(self, rows):
            return [1.0]


    class Raises(Base):
        def score(self, rows):
            raise KeyError("no such column")


    class Exits(Base):
        def score(self, rows):
            os._exit(0)


    class Sleeps(Base):
        def score(self, rows):
            time.sleep(600)


    class Seen(Base):
        """Says in its scores what it can reach."""
        def __init__(self, secret, port):
            self.secret, self.port = secret, port

        def score(self, rows):
            def does(act):
                try:
                    act()
                    return True
                except OSError:
                    return False
            file = does(lambda: Path(self.secret).read_bytes())
            net = does(lambda: socket.create_connection(("127.0.0.1", self.port), 2).close())
            datagram = does(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close())
            home = "PROXYGUARD_SECRET" in os.environ
            named = list(rows.columns) != ["x"] or list(rows.index) != list(range(len(rows)))
            return np.full(len(rows), file + 2.0 * net + 4.0 * datagram + 8.0 * home + 16.0 * named)
'''


@pytest.fixture(scope="module", autouse=True)
def starts_warm() -> Iterator[None]:
    """Start the processes from one that has imported already."""
    with started_by("proxyguard.draw.processes"):
        yield


def frame(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"x": rng.normal(size=n), "cluster": np.arange(n)})


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Rows]:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "foreign_attack.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    fitted = Representation.fit(frame(50, 2), ["x"])
    return [Rows(frame(n, k), fitted) for k, n in enumerate((40, 50, 30, 20, 25))]


def suite(rows: list[Rows], kind: str, timeout: float = 60.0, **options: object) -> AttackSuite:
    attacks = {
        "dcr": AttackPart(kind="dcr"),
        "theirs": AttackPart(kind=f"foreign_attack:{kind}", options=options),
    }
    release, reference, members = rows[:3]
    return AttackSuite.fit(attacks, release, reference, members, 1, apart=Apart(timeout=timeout))


def test_an_honest_attack_scores_each_group_as_if_alone(rows: list[Rows]) -> None:
    scored = suite(rows, "Honest", scale=2.0).score_together(rows[2:])
    assert not scored.refused
    center = rows[0].frame["x"].mean()
    for group, scores in zip(rows[2:], scored.groups, strict=True):
        assert list(scores) == ["dcr", "theirs"]
        np.testing.assert_array_equal(scores["theirs"], -2.0 * np.abs(group.frame["x"] - center))


@pytest.mark.parametrize("kind", ["PooledMedian", "Chance", "Remembers"])
def test_a_score_that_depends_on_other_rows_is_refused(rows: list[Rows], kind: str) -> None:
    scored = suite(rows, kind).score_together(rows[2:])
    assert "depends on other rows" in scored.refused["theirs"]
    assert [list(scores) for scores in scored.groups] == [["dcr"]] * 3


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("Missing", "finite"),
        ("Few", "shape"),
        ("Raises", "no such column"),
        ("Exits", "without an answer"),
        ("Absent", "Absent"),
    ],
)
def test_an_attack_that_gives_no_scores_is_refused(rows: list[Rows], kind: str, words: str) -> None:
    with pytest.raises(AttackRefused, match=words):
        suite(rows, kind).scores(rows[3])


def test_an_attack_that_does_not_answer_is_ended(rows: list[Rows]) -> None:
    refused = suite(rows, "Sleeps", timeout=1.5).score_together(rows[2:]).refused
    assert "did not answer within 1.5 seconds" in refused["theirs"]


@pytest.mark.skipif(not LINUX or confine.guard_here() == confine.HOOK, reason="needs Landlock")
def test_an_attack_reaches_rows_and_nothing_else(
    rows: list[Rows], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxyguard.draw.processes.subprocess", subprocess)  # as users start it
    monkeypatch.setenv("PROXYGUARD_SECRET", "a key")
    secret = tmp_path / "target.sealed"
    secret.write_text("records")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        theirs = suite(rows, "Seen", secret=str(secret), port=port)
        scored = theirs.score_together(rows[2:])
    assert not scored.refused
    assert {float(s) for scores in scored.groups for s in scores["theirs"]} == {0.0}


def test_attacks_are_tried_before_anything_depends_on_them(rows: list[Rows]) -> None:
    try_attacks({"dcr": AttackPart(kind="dcr")}, rows[1], rows[2:], Apart())  # none of others
    attacks = {"theirs": AttackPart(kind="foreign_attack:PooledMedian")}
    with pytest.raises(AttackRefused, match="depends on other rows"):
        try_attacks(attacks, rows[1], rows[2:], Apart())


def test_code_of_others_runs_only_where_that_was_said(rows: list[Rows]) -> None:
    attacks = {"theirs": AttackPart(kind="foreign_attack:Honest")}
    with pytest.raises(RegistryError, match="where code of others may be run"):
        AttackSuite.fit(attacks, *rows[:3], 1)
