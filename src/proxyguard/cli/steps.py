"""Verbs that do a step of an audit, from init to rotate-key, and the demonstration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxyguard.cli import show
from proxyguard.cli.show import (
    AskPassphrase,
    Data,
    Folder,
    Home,
    Json,
    KeyFile,
    Workers,
    ask_passphrase,
    audit_of,
)

if TYPE_CHECKING:
    from proxyguard.audit.outcome import JudgedCandidate, Registration, SealedCertificate


def init(
    folder: Folder,
    home: Home = None,
    declaration: Annotated[
        Path | None, typer.Option("--declaration", help="Start from this audit.toml.")
    ] = None,
    json: Json = False,
) -> None:
    """Make an audit folder with a declaration to fill in, and a signing key."""
    from proxyguard.errors import RegistryError

    text = None
    if declaration is not None:
        try:
            text = declaration.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RegistryError(f"{declaration} cannot be read: {error}") from error
    audit = audit_of(folder, home, None, None, None)
    place = audit.init(text)
    if json:
        show.give({"declaration": str(place), "signer": audit.home.signing_key().public})
        return
    show.say(f"Fill in {place}, then: proxyguard check {folder}")


def check(
    folder: Folder, home: Home = None, data: Data = None, workers: Workers = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Say whether the audit could succeed as declared; nothing is changed."""
    with show.bars(json) as progress:
        found = audit_of(folder, home, data, workers, progress).check()
    if json:
        show.give(found.to_dict())
    else:
        for kind, lines in (
            ("problem", found.problems), ("warning", found.warnings), ("fact", found.facts),
        ):  # fmt: skip
            for line in lines:
                show.say(f"{kind}: {line}")
        show.say("Nothing stands in the way." if found.good else "This cannot be registered.")
    if not found.good:
        raise typer.Exit(show.Exit.ERROR)


def seal(
    folder: Folder,
    home: Home = None,
    data: Data = None,
    passphrase: AskPassphrase = False,
    steward: Annotated[
        str | None,
        typer.Option("--steward", help="Identity of the person who grants the opening."),
    ] = None,
    json: Json = False,
) -> None:
    """Set the target aside and encrypt it; write the development part beside it."""
    words = ask_passphrase(passphrase, confirm=True)
    sealing = audit_of(folder, home, data, None, None).seal(passphrase=words, steward=steward)
    if json:
        show.give(show.with_head(sealing.to_dict(), folder))
        return
    for name, member in sealing.record.members.items():
        show.say(f"{name}: {member.records:,} records sealed; development {member.development}")
        show.say(f"    Means are over {member.estimand}.")
        show.say(f"    Commitment {member.commitment}")
    from proxyguard.audit.reserve import lineage_words

    show.say(f"Lineage: {lineage_words(sealing.record.lineage)}.")
    for line in sealing.warnings:
        show.say(f"warning: {line}")
    show.say_head(folder)


def register(
    folder: Folder, home: Home = None, data: Data = None, workers: Workers = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Resolve every rule on development data and freeze the claim."""
    with show.bars(json) as progress:
        audit = audit_of(folder, home, data, workers, progress)
        registration = audit.register()
    if json:
        show.give(show.with_head(registration.to_dict(), folder))
        return
    _show_limits(registration)
    show.say_head(folder)
    show.say(f"Registered. Next: proxyguard {audit.status().next} {folder}")


def amend(
    folder: Folder,
    reason: Annotated[str, typer.Option("--reason", help="Why the claim changes.")],
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            help="A draw to take out, as MECHANISM:SEED; repeatable. One that an earlier amendment "
            "took out and this one does not name is in again.",
        ),
    ] = None,
    home: Home = None,
    data: Data = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Register audit.toml as it stands now, while no outcome has been seen."""
    draws = [_excluded(text) for text in exclude or ()]
    with show.bars(json) as progress:
        audit = audit_of(folder, home, data, workers, progress)
        registration = audit.amend(reason, draws)
    if json:
        void = [draw.to_dict() for draw in registration.void]
        show.give(show.with_head({**registration.to_dict(), "void": void}, folder))
        return
    _show_limits(registration)
    for draw in registration.void:
        show.say(
            f"{draw.mechanism}:{draw.seed} was excluded before and is part of the "
            "claim again: this amendment does not repeat the exclusion. To keep it out, amend with "
            "every --exclude that should hold."
        )
    show.say_head(folder)
    show.say("Amended.")


def schema(json: Json = True) -> None:
    """Print the JSON Schema of audit.toml, for editors."""
    from proxyguard.registry.declaration import declaration_schema

    show.give(declaration_schema())


def _excluded(text: str) -> tuple[str, int]:
    name, _, seed = text.rpartition(":")
    if not name or not seed.isdigit():
        raise typer.BadParameter(f"{text!r} is no MECHANISM:SEED")
    return name, int(seed)


def _show_limits(registration: Registration) -> None:
    for one in registration.limits:
        slack = "" if one.slack is None else f", slack {one.slack}"
        show.say(f"{one.member}: {one.requirement}: limit {one.limit}{slack} ({one.rule})")


def draw(
    folder: Folder,
    home: Home = None,
    data: Data = None,
    workers: Workers = None,
    candidate: Annotated[
        Path | None, typer.Option("--candidate", help="The next candidate table of a stream.")
    ] = None,
    again: Annotated[
        list[str] | None,
        typer.Option(
            "--again",
            help="Draw these seeds again that are drawn and not frozen yet, as 103,105-107 or "
            "MECHANISM:103,105; what is dropped is recorded. Repeatable.",
        ),
    ] = None,
    key_file: KeyFile = None,
    passphrase: AskPassphrase = False,
    json: Json = False,
) -> None:
    """Draw every registered release and freeze them; what is drawn already is kept."""
    seeds = [one for text in again or () for one in _seeds(text)]
    with show.bars(json) as progress:
        audit = audit_of(folder, home, data, workers, progress)
        if candidate is not None:
            words = ask_passphrase(passphrase)
            _show_round(audit.submit(candidate, key_file=key_file, passphrase=words), folder, json)
            return
        releases = audit.draw(seeds)
    if json:
        show.give(show.with_head(releases.to_dict(), folder))
        return
    for frozen in releases.mechanisms:
        failed = frozen.failed
        show.say(f"{frozen.mechanism}: {len(frozen.draws)} draws frozen, {len(failed)} failed")
        for draw in failed:
            show.say(f"    seed {draw.seed}: {draw.error}")
    show.say_head(folder)
    show.say(f"Next: proxyguard open {folder}")


_MOST_AGAIN = 100_000
"""How many seeds a range of --again may have: each is compared with the registered ones."""


def _seeds(text: str) -> list[tuple[str | None, int]]:
    """Read seeds as they are given to --again."""
    name, _, numbers = text.rpartition(":")
    found: list[tuple[str | None, int]] = []
    for part in numbers.split(","):
        first, _, last = part.partition("-")
        # Ten digits hold every seed, and a number of thousands cannot even be read.
        if re.fullmatch(r"[0-9]{1,10}(-[0-9]{1,10})?", part) is None:
            raise typer.BadParameter(f"{text!r} is no list of seeds such as 103,105-107")
        start, stop = int(first), int(last or first) + 1
        if not 0 < stop - start <= _MOST_AGAIN:
            raise typer.BadParameter(
                f"{text!r} has the range {part}; give the smaller number first, and at most "
                f"{_MOST_AGAIN} seeds in a range"
            )
        found += [(name or None, seed) for seed in range(start, stop)]
    return found


def grant(
    folder: Folder,
    key: Annotated[Path, typer.Option("--key", help="The steward's key file.")],
    make_key: Annotated[
        bool, typer.Option("--make-key", help="Make that key first, and print its identity.")
    ] = False,
    again: Annotated[
        str | None,
        typer.Option(
            "--again",
            metavar="REASON",
            help="Why records are granted that were granted or seen before; the certificate "
            "repeats it and has no guarantee.",
        ),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """As steward: release the target's key for what is registered and frozen now.

    The target's records are fingerprinted into your own home, and refused if they are known.
    """
    from proxyguard.seal.crypto import SigningKey

    if make_key:
        SigningKey.create().save(key)
        identity = SigningKey.load(key).identity
        if json:
            show.give({"identity": identity})
            return
        show.say(f"Keep {key} to yourself. Your identity, for seal --steward:")
        show.say(identity)
        return
    from proxyguard.audit.folder import AuditFolder
    from proxyguard.audit.grant import grant as give_grant
    from proxyguard.audit.home import Home as Keep
    from proxyguard.audit.home import default_home

    memory = Keep(default_home() if home is None else home).lineage
    statement = give_grant(AuditFolder(folder), key, memory, again)
    if json:
        show.give(statement.to_dict())
        return
    show.say(f"Granted for registry {statement.registry[:16]}... and releases "
             f"{statement.releases[:16]}..., and for nothing else.")  # fmt: skip
    if statement.again is not None:
        show.say(f"Granted again ({statement.again.reason}): records of this target were "
                 f"seen before, {statement.again.met}.")  # fmt: skip
    show.say(f"Ledger head {statement.head}: the grant is for a ledger that begins with it.")
    show.say(f"Granted to author {statement.author[:64]}: see that this is who asked you.")


def open_(
    folder: Folder,
    home: Home = None,
    data: Data = None,
    key_file: KeyFile = None,
    passphrase: AskPassphrase = False,
    records: Annotated[
        bool, typer.Option("--records", help="Also write per-record outputs, encrypted.")
    ] = False,
    finish: Annotated[
        bool, typer.Option("--finish", help="End a stream of candidates and certify it.")
    ] = False,
    most: Annotated[
        int | None, typer.Option("--most", help="Stop a sequential audit after so many draws.")
    ] = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Open the target, score every release, certify. The target is opened once.

    Exit code 0 if all is validated, 3 unresolved, 4 for a violation, 7 if all is validated but no
    guarantee remains: the claim status says why.
    """
    words = ask_passphrase(passphrase)
    with show.bars(json) as progress:
        audit = audit_of(folder, home, data, workers, progress)
        if finish:
            certificate: SealedCertificate | None = audit.close(key_file=key_file, passphrase=words)
        else:
            certificate = audit.open(
                key_file=key_file, passphrase=words, write_records=records, most=most
            )
    _finish(certificate, folder, json)


def run(
    folder: Folder, home: Home = None, data: Data = None, workers: Workers = None,
    key_file: KeyFile = None, passphrase: AskPassphrase = False, json: Json = False,
) -> None:  # fmt: skip
    """Do all remaining steps, from sealing to the report.

    The exit codes are those of open: 0 validated, 3 unresolved, 4 a violation, 7 validated and no
    guarantee remains.
    """
    words = ask_passphrase(passphrase)
    with show.bars(json) as progress:
        audit = audit_of(folder, home, data, workers, progress)
        certificate = audit.run(key_file=key_file, passphrase=words)
    _finish(certificate, folder, json)


def deviate(
    folder: Folder,
    reason: Annotated[str, typer.Option("--reason", help="What was not done as registered.")],
    home: Home = None,
    json: Json = False,
) -> None:
    """Record, after opening, that something was not done as registered."""
    audit_of(folder, home, None, None, None).deviate(reason)
    if json:
        show.give(show.with_head({"recorded": reason}, folder))
        return
    show.say("Recorded.")
    show.say_head(folder)


def rotate_key(folder: Folder, home: Home = None, json: Json = False) -> None:
    """Hand the audit over to a new signing key; the old key signs that in the ledger."""
    handed = audit_of(folder, home, None, None, None).rotate_key()
    if json:
        show.give(show.with_head(handed.to_dict(), folder))
        return
    show.say(f"Handed over from {handed.before[:64]}")
    show.say(f"              to {handed.after[:64]}")
    show.say("Tell those who check your audits; hand over your other audits in the same way.")
    show.say_head(folder)


def correct(
    folder: Folder,
    reason: Annotated[str, typer.Option("--reason", help="Why the design was wrong.")],
    design: Annotated[
        str, typer.Option("--design", help="The corrected design, as an inline TOML table.")
    ],
    home: Home = None,
    data: Data = None,
    key_file: KeyFile = None,
    passphrase: AskPassphrase = False,
    json: Json = False,
) -> None:
    """Add a corrective certificate under a changed sampling design, once.

    Its test is the registered one where that covers the design, else the default for it. A second
    one is recorded as a deviation and decides nothing.
    """
    import tomllib

    try:
        value = tomllib.loads(f"design = {design}")["design"]
    except tomllib.TOMLDecodeError as error:
        raise typer.BadParameter(f"--design is no TOML value: {error}") from None
    with show.bars(json) as progress:
        corrected = audit_of(folder, home, data, None, progress).correct(
            reason, value, key_file=key_file, passphrase=ask_passphrase(passphrase)
        )
    if json:
        show.give(show.with_head(corrected.to_dict(), folder))
        return
    if corrected.deviation is not None:
        show.say(f"Recorded as a deviation: {corrected.deviation}")
        show.say_head(folder)
        return
    show.say("Corrective certificate, which does not replace the registered one:")
    # Without the mark and colour of a verdict: what was chosen after opening decides nothing.
    for verdict in corrected.verdicts:
        show.say(f"{verdict.mechanism}:")
        show.say(f"    {verdict.sentence}")
    show.say_head(folder)


def _finish(certificate: SealedCertificate | None, folder: Path, json: bool) -> None:
    if certificate is None:
        if json:
            show.give(show.with_head({"finished": False}, folder))
        else:
            show.say("Not decided yet; go on with open, when you like.")
            show.say_head(folder)
        raise typer.Exit(show.Exit.UNRESOLVED)
    if json:
        show.give(show.with_head(certificate.to_dict(), folder))
    else:
        show.show_outcome(folder, certificate)
        show.say_head(folder)
        show.say(f"Report: {folder / 'report.html'}")
        show.say(f"Anyone can check this: proxyguard verify {folder}")
    raise typer.Exit(show.outcome_code(folder, certificate))


def _show_round(judged: JudgedCandidate, folder: Path, json: bool) -> None:
    if json:
        show.give(show.with_head(judged.to_dict(), folder))
    else:
        show.say(
            f"{show.MARKS[judged.decision]}: round {judged.number}, {judged.candidate} "
            f"(p {judged.pvalue:.3g}, level {judged.level:.3g})",
            style=show.STYLES[judged.decision],
        )
        show.say_head(folder)
    raise typer.Exit(show.verdict_code([judged.decision]))


def demo(
    folder: Annotated[
        Path, typer.Option("--dir", help="Where the demonstration is put.", metavar="DIR")
    ] = Path("demo-audit"),
    json: Json = False,
) -> None:
    """Run a whole audit on embedded data: one mechanism validated, one not, one in between."""
    from proxyguard.audit.audit import run_demo

    with show.bars(json) as progress:
        place, certificate, good = run_demo(folder, progress, None if json else show.say)
    if json:
        show.give({"folder": str(place), "verified": good, "certificate": certificate.to_dict()})
        return
    show.say()
    show.show_outcome(place, certificate)
    show.say()
    show.say(f"Report:  {place / 'report.html'}")
    show.say(f"Check:   proxyguard verify {place}   -> {'everything holds' if good else 'BROKEN'}")
    if not good:
        raise typer.Exit(show.Exit.BROKEN)
