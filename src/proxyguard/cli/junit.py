"""Verdicts and checks as JUnit XML, which services that run jobs show beside a project's tests.

What the file says agrees with the exit code: a mechanism is a test case that passes where it is
validated and a guarantee remains, and fails where it is a violation, unresolved, or without a
guarantee. Of `verify` each check is one: what does not hold fails, and what was not checked is
skipped, for it says nothing against the folder. Until a command has ended its file holds an error,
so that neither a kill nor the file of an earlier run can be taken for success.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from xml.etree import ElementTree

import typer

from proxyguard.modes.evidence import Decision
from proxyguard.printable import printable
from proxyguard.seal.storage import write_atomic

if TYPE_CHECKING:
    from proxyguard.audit.status import StandingVerdict
    from proxyguard.audit.verify import Verification

File = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Also write the outcome as JUnit XML, for CI."),
]
NO_GUARANTEE = "no guarantee"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test case; without a kind it passes."""

    name: str
    kind: Literal["failure", "skipped", "error"] | None = None
    message: str = ""
    type: str = ""  # of a failure: the decision, in a word


def begin(file: Path | None, verb: str) -> None:
    """Write that the command has not ended, over what an earlier one said.

    Parameters
    ----------
    file
        Where to; nothing is written without one.
    verb
        The command.
    """
    ended = Case(name=verb, kind="error", message="the command ended before it had an outcome")
    put(file, verb, [ended])


def put(file: Path | None, verb: str, cases: Sequence[Case]) -> None:
    """Write test cases.

    Parameters
    ----------
    file
        Where to; nothing is written without one.
    verb
        The command, which the suite is named for.
    cases
        In their order.
    """
    if file is None:
        return
    suite = ElementTree.Element("testsuite", name=f"proxyguard {verb}", tests=str(len(cases)))
    for kind, plural in _COUNTED.items():
        suite.set(plural, str(sum(case.kind == kind for case in cases)))
    for case in cases:
        written = ElementTree.SubElement(
            suite, "testcase", classname=f"proxyguard.{verb}", name=_text(case.name)
        )
        if case.kind is not None:
            said = ElementTree.SubElement(written, case.kind, message=_text(case.message))
            if case.type:
                said.set("type", case.type)
    whole = ElementTree.Element("testsuites")
    whole.append(suite)
    write_atomic(file, ElementTree.tostring(whole, encoding="utf-8", xml_declaration=True))


_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def _text(text: str) -> str:
    # XML has no way to write most controls, not even by number, nor halves of a sign: a name that
    # somebody chose must not make a file that no reader takes.
    return printable(text)


def verdict_cases(verdicts: Sequence[StandingVerdict]) -> Iterator[Case]:
    """Yield a case for every mechanism, as its verdict stands now.

    Parameters
    ----------
    verdicts
        Those of `status`, which knows what was recorded after the certificate.
    """
    for verdict in verdicts:
        if verdict.decision is Decision.VALIDATED and not verdict.warning:
            yield Case(name=verdict.mechanism)
            continue
        lost = verdict.decision is Decision.VALIDATED
        yield Case(
            name=verdict.mechanism,
            kind="failure",
            message=" ".join(filter(None, (verdict.warning, verdict.sentence, verdict.advice))),
            type=NO_GUARANTEE if lost else verdict.decision.value,
        )


def check_cases(verified: Verification) -> Iterator[Case]:
    """Yield a case for every check, finding, and thing that was not checked.

    Parameters
    ----------
    verified
        What `verify` found.
    """
    yield from (Case(name=name) for name in verified.checked)
    for finding in verified.findings:
        yield Case(name=finding.place, kind="failure", message=finding.problem, type="broken")
    for left in verified.not_checked:
        yield Case(name=left.partition(":")[0], kind="skipped", message=left)


def withheld_cases(verified: Verification) -> Iterator[Case]:
    """Yield a failure where the development part is not here, which verdicts rest on.

    Parameters
    ----------
    verified
        What `verify` found.
    """
    if verified.withheld:
        message = f"{', '.join(verified.withheld)}: not here, withheld or removed"
        yield Case(name="development", kind="failure", message=message, type="withheld")
