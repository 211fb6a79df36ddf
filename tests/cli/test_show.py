"""The terminal tells the report's story, and no name can steer it."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from proxyguard.audit.status import StandingVerdict
from proxyguard.cli import main, show
from proxyguard.modes.evidence import Decision
from proxyguard.report.record import NO_GUARANTEE

HOSTILE = "[bold red]x[/] \x1b[2J\x1b]0;title\x07 \u202eevil\r\n[link=http://a]y"


def verdict(**changes: Any) -> StandingVerdict:
    shown = {
        "mechanism": "m", "decision": Decision.UNRESOLVED, "sentence": "It is open.", "target": 0.8,
        "lower": 0.5, "upper": 0.95, "binding": "risk", "advice": "Draw more.", "certified": True,
        "warning": "", "together": "",
    }  # fmt: skip
    return StandingVerdict(**{**shown, **changes})


def test_a_verdict_has_mark_word_interval_binding_and_next(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show.show_verdicts([verdict()])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "? UNRESOLVED: m"
    assert lines[1:] == [
        "    It is open.",
        f"    {show.interval_bar(0.5, 0.95, 0.8)}",
        "    between 50.0 % and 95.0 %; required: more than 80 %",
        "    Binding requirement: risk",
        "    What next: Draw more.",
    ]


def test_many_named_releases_are_told_by_decision(capsys: pytest.CaptureFixture[str]) -> None:
    open_ = [verdict(mechanism=f"r{k}", target=None, binding="ab"[k % 2]) for k in range(9)]
    good = verdict(mechanism="s", target=None, decision=Decision.VALIDATED, sentence="It holds.")
    show.show_verdicts([*open_, good, verdict()])
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == "✓ VALIDATED: 1 of 10 releases"
    at = lines.index("? UNRESOLVED: 9 of 10 releases")
    assert lines[at + 1] == "    r0, r1, r2, r3, r4 and 4 more"
    assert lines[at + 3] == "    Binding requirement: a (5), b (4)"
    assert lines[at + 4].startswith("    r0, what next: ")
    assert sum(", what next: " in line for line in lines) == 10
    assert "? UNRESOLVED: m" in lines  # a claim about a mechanism stays a verdict of its own
    assert out.count("It is open.") == 2


def test_of_names_that_are_stated_the_first_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = show.stated_lines(["times", ", ".join(f"r{k}" for k in range(20))])
    assert line == "Stated by the author, not checked: times, r0, r1, r2 and 17 more."


@pytest.mark.parametrize("key", ["mechanism", "sentence", "binding", "advice"])
def test_no_text_of_a_user_steers_the_terminal(
    key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show.show_verdicts([verdict(**{key: HOSTILE})])
    out = capsys.readouterr().out
    assert not set("\x1b\x07\r\u202e") & set(out)
    assert "[bold red]x[/]" in out  # shown as written, not read as markup
    assert "\\x1b[2J" in out


@pytest.mark.parametrize(
    ("lower", "upper", "first", "last"),
    # 40 letters: an interval is drawn outwards, so that it never looks narrower than it is.
    [(0.0, None, 0, 40), (0.887, None, 35, 40), (0.0, 0.408, 0, 17), (0.5, 0.55, 20, 22)],
)
def test_the_bar_is_never_narrower_than_the_interval(
    lower: float, upper: float | None, first: int, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", TextIOWrapper(BytesIO(), encoding="ascii"))
    bar = show.interval_bar(lower, upper, 0.8)
    letters = bar.removeprefix("0 % ").removesuffix(" 100 %")
    assert len(letters) == show.BAR
    assert letters[32] == "|"
    expected = ["=" if first <= i < last else "." for i in range(40)]
    expected[32] = "|"
    assert letters == "".join(expected)


def test_verdicts_without_an_interval_have_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    bare = {"binding": "", "advice": ""}
    show.show_verdicts([verdict(certified=False, **bare)])  # Holm settles nothing, and no bound is
    show.show_verdicts([verdict(target=None, lower=None, **bare)])
    assert capsys.readouterr().out.splitlines() == ["? UNRESOLVED: m", "    It is open."] * 2


def test_the_three_verdicts_differ_by_word_and_mark() -> None:
    marks = set(show.MARKS.values())
    assert len(marks) == 3
    assert len({mark[0] for mark in marks}) == 3


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"certified": False, "decision": Decision.VALIDATED, "lower": 0.8, "upper": None},
         "more than 80 %; required: more than 80 %"),
        ({"lower": 0.50003, "upper": 0.79999},
         "between 50.0 % and 79.999 %; required: more than 80 %"),
        ({"lower": 0.9, "upper": 0.2},
         "contradictory: at least 90.0 %, at most 20.0 %; required: more than 80 %"),
        ({"decision": "validated", "lower": 0.8, "upper": None},
         "more than 80 %; required: more than 80 %"),
    ],
    ids=["decided by Holm", "apart", "contradictory", "on the target"],
)  # fmt: skip
def test_the_interval_says_no_more_than_is_certified(
    changes: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show.show_verdicts([verdict(**changes)])
    lines = capsys.readouterr().out.splitlines()
    assert f"    {line}" in lines
    bars = [one for one in lines if one.startswith("    0 % ")]
    assert len(bars) == (0 if "contradictory" in line else 1)


def test_a_lost_guarantee_comes_before_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    show.show_verdicts([verdict(warning="No guarantee remains: seen.", together="Each end.")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "No guarantee remains: seen."
    assert lines[1].endswith("(no guarantee remains)")
    assert lines[2] == "    It is open."
    assert "    Each end." in lines
    show.show_verdicts([verdict(decision="validated", warning="No guarantee remains: seen.")])
    assert "✓" not in capsys.readouterr().out


def test_a_demonstration_begins_with_what_was_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lost = verdict(warning="No guarantee remains: seen.", sentence=f"{NO_GUARANTEE}It is open.")
    standing = SimpleNamespace(verdicts=[lost], required=())
    monkeypatch.setattr("proxyguard.audit.status.status_of", lambda folder: standing)
    show.show_story(tmp_path)
    told = capsys.readouterr().out
    assert "    It is open." in told.splitlines()
    assert "guarantee" not in told  # which is said at the end


@pytest.mark.parametrize("words", [[], ["--json"]])
@pytest.mark.parametrize(("good", "safe"), [(True, True), (False, True), (True, False)])
def test_a_demonstration_that_does_not_verify_ends_with_the_code_of_a_broken_audit(
    words: list[str], good: bool, safe: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Certificate:
        def to_dict(self) -> dict[str, object]:
            return {"verdicts": []}

    ran, exposed = ((tmp_path, Certificate(), holds) for holds in (good, safe))
    monkeypatch.setattr("proxyguard.audit.demo.run_demo", lambda *_: ran)
    monkeypatch.setattr("proxyguard.audit.demo.run_exposure_demo", lambda *_: exposed)
    monkeypatch.setattr(show, "show_outcome", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["proxyguard", "demo", "--dir", str(tmp_path), *words])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == (show.Exit.DONE if good and safe else show.Exit.BROKEN)


def test_help_lists_every_verb_once_as_people_meet_them_and_cuts_no_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["proxyguard", "--help"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 0
    text = capsys.readouterr().out
    listed = [name for verbs in main.VERBS.values() for name in verbs]
    assert sorted(listed) == sorted(str(one.name) for one in main.app.registered_commands)
    assert listed[0] == "try"
    shown = " ".join(text.split())
    for verb in main.app.registered_commands:
        first = (verb.callback.__doc__ or "").partition("\n")[0] if verb.callback else ""
        assert first
        assert f"{verb.name} {first}" in shown
    assert "..." not in shown.partition("[ARGS]...")[2]


def test_a_verb_that_is_typed_is_read_alone_as_it_is_among_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    among_all = typer.main.get_command(main.app).commands  # type: ignore[attr-defined]  # a group
    for name, verb in among_all.items():
        monkeypatch.setattr("sys.argv", ["proxyguard", name])
        alone = typer.main.get_command(main._as_typed(main.app))
        assert list(alone.commands) == [name]  # type: ignore[attr-defined]
        read = alone.commands[name]  # type: ignore[attr-defined]
        assert [option.opts for option in read.params] == [option.opts for option in verb.params]
        assert read.help == verb.help
    for typed in ([], ["--help"], ["chek"], ["--version", "check"]):
        monkeypatch.setattr("sys.argv", ["proxyguard", *typed])
        assert main._as_typed(main.app) is main.app
