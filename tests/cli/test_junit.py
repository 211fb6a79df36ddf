"""What a service that runs jobs is told agrees with the exit code, whatever a folder chose."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from proxyguard.audit.status import StandingVerdict
from proxyguard.audit.verify import Finding, Verification
from proxyguard.cli import junit
from proxyguard.cli.main import app
from proxyguard.modes.evidence import Decision

HOSTILE = 'a\x1b[2J]]>&<"\'\0\ud800\nfailures="0" \u202e\ufffe'


def verdict(decision: Decision, name: str = "bootstrap", warning: str = "") -> StandingVerdict:
    return StandingVerdict(
        mechanism=name, decision=decision, sentence="a sentence", target=0.5, lower=0.4,
        upper=0.6, certified=True, together="", warning=warning, binding="", advice="draw more",
    )  # fmt: skip


def suite(path: Path) -> ElementTree.Element:
    root = ElementTree.parse(path).getroot()
    assert root.tag == "testsuites"
    (found,) = root
    counted = {kind: len(found.findall(f"testcase/{kind}")) for kind in
               ("failure", "error", "skipped")}  # fmt: skip
    assert {plural: int(found.get(plural, "-1")) for plural in ("failures", "errors", "skipped")} \
        == {"failures": counted["failure"], "errors": counted["error"],
            "skipped": counted["skipped"]}  # fmt: skip
    assert int(found.get("tests", "-1")) == len(found.findall("testcase"))
    return found


@pytest.mark.parametrize(
    ("decision", "warning", "kind"),
    [
        (Decision.VALIDATED, "", None),
        (Decision.VALIDATED, "no guarantee remains: looked", "no guarantee"),
        (Decision.UNRESOLVED, "", "unresolved"),
        (Decision.VIOLATION, "", "violation"),
    ],
)
def test_a_mechanism_passes_only_where_it_is_validated_with_its_guarantee(
    tmp_path: Path, decision: Decision, warning: str, kind: str | None
) -> None:
    cases = [*junit.verdict_cases([verdict(decision, warning=warning)])]
    junit.put(tmp_path / "out.xml", "open", cases)
    (case,) = suite(tmp_path / "out.xml")
    assert case.get("name") == "bootstrap"
    failures = [failure.get("type") for failure in case.findall("failure")]
    assert failures == ([] if kind is None else [kind])
    if warning:
        assert warning in case.findall("failure")[0].get("message", "")


def test_any_name_gives_xml_that_can_be_read(tmp_path: Path) -> None:
    cases = [
        *junit.verdict_cases([verdict(Decision.VIOLATION, HOSTILE)]),
        *junit.check_cases(
            Verification(
                checked=[HOSTILE],
                findings=[Finding(place=HOSTILE, problem=HOSTILE)],
                not_checked=[f"losses: {HOSTILE}"],
            )
        ),
    ]
    junit.put(tmp_path / "out.xml", "verify", cases)
    found = suite(tmp_path / "out.xml")
    assert found.get("failures") == "2"  # and no count that a name wrote
    assert [case.get("name", "")[:8] for case in found] == ["a\\x1b[2J"] * 3 + ["losses"]
    assert "\x1b" not in (tmp_path / "out.xml").read_text(encoding="utf-8")


def test_a_check_is_a_case_and_what_was_not_checked_is_skipped(tmp_path: Path) -> None:
    verified = Verification(
        checked=["ledger"],
        findings=[Finding(place="evidence.json", problem="was changed")],
        not_checked=["losses: code of others"],
    )
    junit.put(tmp_path / "out.xml", "verify", [*junit.check_cases(verified)])
    found = [
        (case.get("name"), [(said.tag, said.get("message")) for said in case])
        for case in suite(tmp_path / "out.xml")
    ]
    assert found == [
        ("ledger", []),
        ("evidence.json", [("failure", "was changed")]),
        ("losses", [("skipped", "losses: code of others")]),
    ]


@pytest.mark.parametrize("verb", ["open", "run", "verify"])
def test_a_command_that_did_not_end_leaves_an_error_and_no_earlier_success(
    tmp_path: Path, verb: str
) -> None:
    (tmp_path / "out.xml").write_text("<testsuites>all well</testsuites>")
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "audit.toml").write_text("format = 1\n")
    (tmp_path / "audit" / "ledger.jsonl").write_text("cut")
    arguments = [verb, str(tmp_path / "audit"), "--home", str(tmp_path / "home"),
                 "--junit", str(tmp_path / "out.xml")]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code != 0
    (case,) = suite(tmp_path / "out.xml")
    assert case.find("error") is not None or case.find("failure") is not None


@pytest.mark.parametrize(
    ("decisions", "lost", "code"),
    [
        ([Decision.VALIDATED, Decision.VALIDATED], "", 0),
        ([Decision.VALIDATED, Decision.UNRESOLVED], "", 3),
        ([Decision.UNRESOLVED, Decision.VIOLATION], "", 4),
        ([], "", 3),
        ([Decision.VALIDATED], "looked at before", 7),
    ],
)
def test_a_record_that_holds_is_enough_unless_all_must_be_validated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decisions: list[Decision], lost: str, code: int
) -> None:
    verified = Verification(lost=lost)
    verified.decisions = {str(k): decision for k, decision in enumerate(decisions)}
    monkeypatch.setattr("proxyguard.audit.verify.verify", lambda *_, **__: verified)
    monkeypatch.setattr("proxyguard.cli.look._standing", lambda _: ())
    ask = CliRunner().invoke
    assert ask(app, ["verify", str(tmp_path)]).exit_code == 0
    assert ask(app, ["verify", str(tmp_path), "--require-validated"]).exit_code == code
    # A part that was not checked does not hide a worse end, and a broken record comes first.
    verified.not_checked.append("redraw: no such module")
    assert ask(app, ["verify", str(tmp_path), "--require-validated"]).exit_code == (code or 6)
    verified.findings.append(Finding(place="ledger", problem="cut"))
    assert ask(app, ["verify", str(tmp_path), "--require-validated"]).exit_code == 5
    assert verified.to_dict()["decisions"] == {}
