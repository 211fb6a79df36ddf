"""Status tells how far draws are, also while another process makes them, and what comes next."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import PENDING
from proxyguard.audit.status import DRAWING, DrawTally, Status

pytestmark = pytest.mark.usefixtures("draws_here")


def watched(audit: Audit, stop_at: int | None = None) -> list[Status]:
    """Draw, and ask for the status from elsewhere at every draw."""
    seen: list[Status] = []

    def look(what: str, done: int, total: int) -> None:
        seen.append(Audit(audit.folder.path, home=audit.home.root).status())
        if done == stop_at:
            raise KeyboardInterrupt

    drawing = Audit(
        audit.folder.path, home=audit.home.root, data=[audit.folder.path.parent / "data"],
        workers=1, progress=look,
    )  # fmt: skip
    if stop_at is None:
        drawing.draw()
    else:
        with pytest.raises(KeyboardInterrupt):
            drawing.draw()
    return seen


def test_draws_are_counted_while_another_process_makes_them(at: Callable[[str], Audit]) -> None:
    audit = at("registered")
    (before,) = audit.status().draws
    assert (before.finished, before.registered, before.words) == (0, 8, "bootstrap: 0 of 8 (0 %)")
    seen = watched(audit)
    assert [count.finished for status in seen for count in status.draws] == [*range(9)]
    assert audit.status().draws == ()  # they are frozen, and nothing is under way


def test_draws_that_wait_are_counted_when_nobody_draws(at: Callable[[str], Audit]) -> None:
    audit = at("registered")
    watched(audit, stop_at=3)
    (count,) = audit.status().draws
    assert (count.finished, count.had) == (3, 0)
    # Taken up again the pace is that of this time, not of the night between.
    watched(audit, stop_at=5)
    assert [(count.finished, count.had) for count in audit.status().draws] == [(5, 3)]


def test_draws_of_an_earlier_claim_do_not_count(at: Callable[[str], Audit]) -> None:
    audit = at("registered")
    watched(audit, stop_at=3)
    declared = audit.folder.path / "audit.toml"
    declared.write_text(declared.read_text().replace("draws = 8", "draws = 9"))
    audit.amend("one more draw")
    assert [count.finished for count in audit.status().draws] == [0]
    watched(audit, stop_at=4)  # the same mechanism: those that wait are kept
    assert [count.finished for count in audit.status().draws] == [4]


def count(**changed: object) -> DrawTally:
    usual = {
        "member": "target", "mechanism": "b", "finished": 50, "registered": 200, "had": 20,
        "seconds": 60.0, "last": 1.0,
    }  # fmt: skip
    return DrawTally(**{**usual, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "b: 50 of 200 (25 %), about 5 min left; the last was finished 1 s ago"),
        # Nobody draws any more: a time left would be made up.
        ({"last": 7200.0}, "b: 50 of 200 (25 %); the last was finished 2 h ago"),
        # Draws that take an hour each are not given up after a minute.
        ({"finished": 21, "seconds": 3600.0, "last": 900.0},
         "b: 21 of 200 (10 %), about 7 d 11 h left; the last was finished 15 min ago"),
        ({"finished": 0, "had": 0, "last": None}, "b: 0 of 200 (0 %)"),
        ({"finished": 200}, "b: 200 of 200 (100 %)"),
    ],
)  # fmt: skip
def test_a_time_left_is_told_only_while_draws_come(changed: dict[str, object], words: str) -> None:
    assert count(**changed).words == words


@pytest.mark.parametrize("kind", ["nonsense", "link", "fifo"])
def test_what_somebody_put_beside_draws_counts_nothing(
    at: Callable[[str], Audit], kind: str, tmp_path: Path
) -> None:
    audit = at("registered")
    watched(audit, stop_at=3)
    (mark,) = (audit.folder.path / PENDING).glob(f"*/{DRAWING}")
    moved = tmp_path / "mark"
    shutil.move(mark, moved)
    if kind == "nonsense":
        mark.write_text('{"registry": 1}')
    elif kind == "link":
        mark.symlink_to(moved)
    else:
        os.mkfifo(mark)
    assert [count.finished for count in audit.status().draws] == [0]


def test_a_registry_that_is_gone_leaves_the_steps(at: Callable[[str], Audit]) -> None:
    audit = at("registered")
    (audit.folder.path / "registry" / "0.json").unlink()
    status = audit.status()
    assert status.steps[-1].stage == "registered"
    assert status.draws == ()


def test_the_next_command_is_said_as_it_is_typed(at: Callable[[str], Audit]) -> None:
    for stage, words in {
        "new": "Next: proxyguard seal A", "drawn": "Next: proxyguard open A",
        "certified": "Next: proxyguard verify A",
    }.items():  # fmt: skip
        assert at(stage).status().next_words(Path("A")) == words
