"""Verbs that change nothing but a report: report, verify, status, log, doctor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxyguard.cli import junit, show
from proxyguard.errors import RegistryError
from proxyguard.printable import some

if TYPE_CHECKING:
    from proxyguard.audit.status import StandingVerdict
    from proxyguard.audit.verify import Verification

# Files that nothing vouches for, named one by one before the rest is counted.
MOST_NOTES = 10


def report(
    folders: Annotated[list[Path], typer.Argument(
        help="The audit folder; several are compared.", metavar="DIR...")],
    out: Annotated[Path | None, typer.Option(
        "--out", help="Where a comparison is written: .html, .md or .json.")] = None,
    mlflow: Annotated[bool, typer.Option(
        "--mlflow", help="Also log verdicts, bounds and the page to MLflow.")] = False,
    home: show.HomeFolder = None,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Write the report of a certified audit; of several, one page that compares them."""
    if len(folders) == 1:
        if out is not None:
            raise typer.BadParameter("a report lies in its audit's folder; --out is for several")
        audit = show.audit_of(folders[0], home)
        files = [str(path) for path in audit.report()]
        if mlflow:
            from proxyguard.audit.tracking import log_to_mlflow

            log_to_mlflow(audit.folder)
    else:
        if mlflow:
            raise typer.BadParameter("--mlflow logs one audit; name one folder")
        from proxyguard.audit.outcome import write_comparison

        files = [str(write_comparison(folders, out or Path("comparison.html")))]
    show.answer(json, {"files": files}, files)


def verify(
    folder: show.Folder,
    with_target: Annotated[bool, typer.Option(
        "--with-target", help="Also compute the losses again; needs the key.")] = False,
    home: show.HomeFolder = None,
    data: show.Data = None,
    key_file: show.TargetKey = None,
    passphrase: show.AskPassphrase = False,
    steward_key: Annotated[Path | None, typer.Option(
        "--steward-key", help="The steward's own key, to recompute.")] = None,
    trust: Annotated[list[str] | None, typer.Option(
        "--trust", metavar="TYPE",
        help="A type that stored models may contain, such as package.module.Class; repeatable. "
        "What the folder trusts is not asked.")] = None,
    run_named_code: Annotated[bool, typer.Option(
        "--run-named-code",
        help="Run the losses, procedures and model types that the folder names, in a process "
        "without keys. With --with-target that code sees the target's records.")] = False,
    redraw: Annotated[int, typer.Option(
        "--redraw", metavar="K", min=0,
        help="Draw K registered seeds again, chosen at random, fit their models again from "
        "the stored releases, and compare both with what was stored.")] = 0,
    timeout: Annotated[float, typer.Option(
        "--timeout", metavar="SECONDS", min=1.0, max=1e6,
        help="How long each part may take that runs named code, and each redraw; then it is "
        "ended and not checked.")] = 3600.0,
    head: Annotated[str | None, typer.Option(
        "--head", metavar="DIGEST",
        help="The ledger's head as it was noted before; exit code 5 unless the ledger still "
        "has that entry. Nothing else shows that the last entries were cut.")] = None,
    require_validated: Annotated[bool, typer.Option(
        "--require-validated",
        help="For CI: end with 0 only if all is validated too. Exit code 4 for a violation, 3 if "
        "something is unresolved or not certified, 7 if no guarantee remains.")] = False,
    file: junit.File = None,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Check everything that can be checked, offline.

    Exit code 5 if something does not hold, 6 if all that was checked holds and a part could not
    be checked, 0 if everything holds, whatever was decided: --require-validated asks for that.
    """
    from proxyguard.audit.folder import AuditFolder
    from proxyguard.audit.verify import Scope
    from proxyguard.audit.verify import verify as check

    junit.begin(file, "verify")
    # Without these nothing of the verifier's own is needed: no home, no key, no data.
    if with_target or redraw:
        words = show.ask_passphrase(passphrase) if with_target else None
        with show.at_work(folder, home, data, json=json) as audit:
            verified = audit.verify(
                with_target=with_target, key_file=key_file, passphrase=words,
                steward_key=steward_key, trust=trust or (), run_named_code=run_named_code,
                redraw=redraw, timeout=timeout, head=head,
            )  # fmt: skip
    else:
        scope = Scope(
            types=tuple(trust or ()), run_named_code=run_named_code, timeout=timeout, head=head
        )
        verified = check(AuditFolder(folder), scope=scope)
    standing = _standing(folder) if verified.good and verified.decisions else ()
    cases = [*junit.check_cases(verified)]
    if require_validated:
        cases += [*junit.verdict_cases(standing), *junit.withheld_cases(verified)]
    junit.put(file, "verify", cases)
    show.answer(json, verified.to_dict(), _verification_lines(verified))
    if not json:
        show.show_verdicts(standing, unseen="rests on rows not seen" if verified.withheld else "")
        show.say(_end_words(verified))
    if not verified.good:
        raise typer.Exit(show.Exit.BROKEN)
    worst = show.decided_code(verified.decisions.values(), verified.lost)
    if require_validated and worst is not show.Exit.DONE:
        raise typer.Exit(worst)
    if not verified.complete:
        raise typer.Exit(show.Exit.PARTLY)


def _standing(folder: Path) -> Sequence[StandingVerdict]:
    """Return the verdicts of an audit that holds, as `status` tells them."""
    from proxyguard.audit.folder import AuditFolder
    from proxyguard.audit.status import status_of

    return status_of(AuditFolder(folder)).verdicts


def _verification_lines(verified: Verification) -> Iterator[str]:
    """Yield what holds, what does not, what was not checked, and who signed.

    Parameters
    ----------
    verified
        What `verify` found.
    """
    yield from (f"ok   {name}" for name in verified.checked)
    yield from (f"BAD  {finding.place}: {finding.problem}" for finding in verified.findings)
    yield from (f"not checked: {name}" for name in verified.not_checked)
    for name in verified.unknown[:MOST_NOTES]:
        yield f"note {name}: nothing vouches for this file"
    more = len(verified.unknown) - MOST_NOTES
    if more > 0:  # or a folder of a million files would push the verdict off the screen
        yield f"note {more:,} more files that nothing vouches for; --json names them all"
    for name in verified.absent:
        yield (
            f"note {name}: is missing, and the audit is certified; proxyguard report "
            "writes it, from the ledger as it is now"
        )
    if verified.head is not None:
        yield f"Ledger head {verified.head}, {verified.entries} entries"
    if verified.noted is not None:
        yield f"The noted head {verified.noted}."
    for index, key in enumerate(verified.signers):
        yield f"Signed by {key}" if index == 0 else f"then, handed over to, {key}"
    if verified.attestation:
        yield f"Attestation: {verified.attestation}."
    yield from show.stated_lines(verified.stated)
    if verified.certified is False:
        yield "There is no certificate yet."


def _end_words(verified: Verification) -> str:
    """Return the last line, which scripts and people read."""
    if not verified.good:
        return "This folder does not hold."
    if verified.withheld:
        return (
            "What could be checked holds. The development part is not here, withheld or removed: "
            "what rests on it is its author's word; see above what was not checked."
        )
    return (
        "Everything holds."
        if verified.complete
        else "This holds as far as it was checked; see above what was not."
    )


def status(folder: show.Folder, json: show.Json = False) -> None:
    """Say where the audit stands and what comes next."""
    from proxyguard.audit.folder import AuditFolder
    from proxyguard.audit.status import status_of

    standing = status_of(AuditFolder(folder))
    if json:
        show.give(standing.to_dict())
        return
    show.say(standing.name or "not sealed yet")
    for step in standing.steps:
        show.say(f"  {step.index:>3}  {step.stage:<10} {step.time}")
    if standing.verdicts:
        show.say()
        show.show_verdicts(standing.verdicts)
        show.say()
        show.show_required(standing.required)
        show.show_standing(standing)
    if standing.no_grant is not None:
        show.say(f"grant.json is no grant for this folder: {standing.no_grant}")
    if standing.holder:
        show.say(f"Key: {standing.holder}.")
    if standing.withheld:
        rows = some(standing.withheld)
        show.say(f"Not here: {rows}; proxyguard verify {folder} says what rests on it")
    show.say(f"Ledger head {standing.head}")
    for count in standing.draws:
        show.say(count.words)
    if standing.stopped is not None:
        show.say(f"The last draw stopped: {standing.stopped}")
    if standing.next in ("register", "draw"):
        with suppress(RegistryError):  # of a declaration that was changed: the next step says it
            for line in show.missing_lines(show.audit_of(folder, None).begun().missing):
                show.say(line)
    show.say(standing.next_words(folder))


def explain(
    words: Annotated[list[str] | None, typer.Argument(
        metavar="TERM",
        help="A term, a key of audit.toml, or a command; left out, all terms are listed.")
    ] = None,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Say what a term of reports, messages and audit.toml means."""
    from proxyguard.report import glossary

    if not words:
        told = list(glossary.terms())
        lines = [f"{term.name}: {term.text}" for term in told]
    else:
        from proxyguard.cli.main import app  # which knows this verb, among all

        told = [glossary.explain(" ".join(words), {
            str(verb.name): str(verb.callback.__doc__).partition("\n")[0]
            for verb in app.registered_commands if verb.callback is not None
        })]  # fmt: skip
        lines = told[0].text.splitlines()
    show.answer(json, {term.name: term.text for term in told}, lines)


def log(folder: show.Folder, json: show.Json = False) -> None:
    """Print the ledger, entry by entry."""
    from proxyguard.audit.folder import AuditFolder

    journal = AuditFolder(folder).journal()
    entries = journal.ledger.entries
    if json:
        said = [{**entry.to_dict(), "digest": entry.digest} for entry in entries]
        show.give({"signers": list(journal.signers), "entries": said})
        return
    for entry in entries:
        show.say(f"{entry.index:>3} {entry.stage.value:<10} {entry.body.time}")
        show.say(f"      digest {entry.digest}")
        show.say(f"      signer {entry.signer}")
        # Bodies differ by stage; what one has of these is what a reader looks for.
        for name in ("declaration", "supersedes", "releases", "reason", "grant", "successor"):
            told = getattr(entry.body, name, None)
            if told:
                show.say(f"      {name} {told}")


def doctor(home: show.HomeFolder = None, json: show.Json = False) -> None:
    """Say what this machine has: versions, keys, the lineage store, a disk that can be locked."""
    from proxyguard.audit.home import examine

    examined = examine(home)
    lines = [
        *(f"{name}: {words}" for name, words in examined.facts.items()),
        *(f"problem: {problem}" for problem in examined.problems),
        "See the problems above." if examined.problems else "All well.",
    ]
    show.answer(json, examined.to_dict(), lines)
    if examined.problems:
        raise typer.Exit(show.Exit.ERROR)
