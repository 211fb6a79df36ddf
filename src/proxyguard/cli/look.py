"""Verbs that change nothing: report, verify, status, log, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proxyguard.cli import show
from proxyguard.cli.show import (
    AskPassphrase,
    Data,
    Folder,
    Home,
    Json,
    KeyFile,
    ask_passphrase,
    audit_of,
)

MOST_NOTES = 10
"""Files that nothing vouches for, named one by one before the rest is counted."""


def report(
    folders: Annotated[
        list[Path], typer.Argument(help="The audit folder; several are compared.", metavar="DIR...")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where a comparison is written: .html, .md or .json."),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Write the report of a certified audit; of several, one page that compares them."""
    if len(folders) == 1:
        if out is not None:
            raise typer.BadParameter("a report lies in its audit's folder; --out is for several")
        files = [str(path) for path in audit_of(folders[0], home, None, None, None).report()]
    else:
        from proxyguard.audit.outcome import write_comparison

        files = [str(write_comparison(folders, out or Path("comparison.html")))]
    if json:
        show.give({"files": files})
        return
    for name in files:
        show.say(name)


def verify(
    folder: Folder,
    with_target: Annotated[
        bool, typer.Option("--with-target", help="Also compute the losses again; needs the key.")
    ] = False,
    home: Home = None,
    data: Data = None,
    key_file: KeyFile = None,
    passphrase: AskPassphrase = False,
    steward_key: Annotated[
        Path | None, typer.Option("--steward-key", help="The steward's own key, to recompute.")
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust",
            metavar="TYPE",
            help="A type that stored models may contain, such as package.module.Class; repeatable. "
            "What the folder trusts is not asked.",
        ),
    ] = None,
    run_named_code: Annotated[
        bool,
        typer.Option(
            "--run-named-code",
            help="Run the losses, procedures and model types that the folder names, in a process "
            "without keys. With --with-target that code sees the target's records.",
        ),
    ] = False,
    redraw: Annotated[
        int,
        typer.Option(
            "--redraw",
            metavar="K",
            min=0,
            help="Draw K registered seeds again, chosen at random, fit their models again from "
            "the stored releases, and compare both with what was stored.",
        ),
    ] = 0,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=1.0,
            max=1e6,
            help="How long each part may take that runs named code, and each redraw; then it is "
            "ended and not checked.",
        ),
    ] = 3600.0,
    head: Annotated[
        str | None,
        typer.Option(
            "--head",
            metavar="DIGEST",
            help="The ledger's head as it was noted before; exit code 5 unless the ledger still "
            "has that entry. Nothing else shows that the last entries were cut.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check everything that can be checked, offline.

    Exit code 5 if something does not hold, 6 if all that was checked holds and a part could not
    be checked, 0 if everything holds.
    """
    from proxyguard.audit.folder import AuditFolder
    from proxyguard.audit.verify import Scope
    from proxyguard.audit.verify import verify as check

    if with_target or redraw:
        words = ask_passphrase(passphrase) if with_target else None
        with show.bars(json) as progress:
            found = audit_of(folder, home, data, None, progress).verify(
                with_target=with_target, key_file=key_file, passphrase=words,
                steward_key=steward_key, trust=trust or (), run_named_code=run_named_code,
                redraw=redraw, timeout=timeout, head=head,
            )  # fmt: skip
    else:
        own = Scope(
            types=tuple(trust or ()), run_named_code=run_named_code, timeout=timeout, head=head
        )
        found = check(AuditFolder(folder), scope=own)
    if json:
        show.give(found.to_dict())
    else:
        for name in found.checked:
            show.say(f"ok   {name}")
        for finding in found.findings:
            show.say(f"BAD  {finding.place}: {finding.problem}")
        for name in found.not_checked:
            show.say(f"not checked: {name}")
        for name in found.unknown[:MOST_NOTES]:
            show.say(f"note {name}: nothing vouches for this file")
        more = len(found.unknown) - MOST_NOTES
        if more > 0:  # or a folder of a million files would push the verdict off the screen
            show.say(f"note {more:,} more files that nothing vouches for; --json names them all")
        for name in found.absent:
            show.say(f"note {name}: is missing, and the audit is certified; proxyguard report "
                     "writes it, from the ledger as it is now")  # fmt: skip
        if found.head is not None:
            show.say(f"Ledger head {found.head}, {found.entries} entries")
        if found.noted is not None:
            show.say(f"The noted head {found.noted}.")
        for index, key in enumerate(found.signers):
            show.say(f"Signed by {key}" if index == 0 else f"then, handed over to, {key}")
        if found.attestation:
            show.say(f"Attestation: {found.attestation}.")
        show.say_stated(found.stated)
        if found.certified is False:
            show.say("There is no certificate yet.")
        if found.good and not found.complete:
            show.say("This holds as far as it was checked; see above what was not.")
        else:
            show.say("Everything holds." if found.good else "This folder does not hold.")
    if not found.good:
        raise typer.Exit(show.Exit.BROKEN)
    if not found.complete:
        raise typer.Exit(show.Exit.PARTLY)


def status(folder: Folder, json: Json = False) -> None:
    """Say where the audit stands and what comes next."""
    from proxyguard.audit.folder import AuditFolder
    from proxyguard.audit.outcome import status_of

    found = status_of(AuditFolder(folder))
    if json:
        show.give(found.to_dict())
        return
    show.say(found.name or "not sealed yet")
    for step in found.steps:
        show.say(f"  {step.index:>3}  {step.stage:<10} {step.time}")
    if found.verdicts:
        show.say()
        show.show_verdicts(found.verdicts)
        show.say()
        show.show_standing(found)
    if found.no_grant is not None:
        show.say(f"grant.json is no grant for this folder: {found.no_grant}")
    show.say(f"Ledger head {found.head}")
    show.say(f"Next: proxyguard {found.next} {folder}")


def log(folder: Folder, json: Json = False) -> None:
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
        for name in ("declaration", "supersedes", "releases", "reason", "grant", "successor"):
            told = getattr(entry.body, name, None)
            if told:
                show.say(f"      {name} {told}")


def doctor(home: Home = None, json: Json = False) -> None:
    """Say what this machine has: versions, keys, the lineage store, a disk that can be locked."""
    from proxyguard.audit.home import examine

    found = examine(home)
    if json:
        show.give(found.to_dict())
    else:
        for name, words in found.facts.items():
            show.say(f"{name}: {words}")
        for problem in found.problems:
            show.say(f"problem: {problem}")
        show.say("All well." if not found.problems else "See the problems above.")
    if found.problems:
        raise typer.Exit(show.Exit.ERROR)
