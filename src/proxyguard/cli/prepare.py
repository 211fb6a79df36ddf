"""Verbs before anything is drawn: init, check, seal, register, amend, schema.

The demonstration: a whole audit with three mechanisms and three verdicts.
"""

from __future__ import annotations

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
    Workers,
    ask_passphrase,
    audit_of,
)

if TYPE_CHECKING:
    from proxyguard.audit.outcome import Registration


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
    draws = [_draw(text) for text in exclude or ()]
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


def _draw(text: str) -> tuple[str, int]:
    name, _, seed = text.rpartition(":")
    if not name or not seed.isdigit():
        raise typer.BadParameter(f"{text!r} is no MECHANISM:SEED")
    return name, int(seed)


def _show_limits(registration: Registration) -> None:
    for one in registration.limits:
        slack = "" if one.slack is None else f", slack {one.slack}"
        show.say(f"{one.member}: {one.requirement}: limit {one.limit}{slack} ({one.rule})")


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
