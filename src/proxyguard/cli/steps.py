"""Verbs that do a step of an audit, in its order, and the demonstration.

Each reads what was typed, asks `proxyguard.audit` to do the step, and shows the object that it
gives back, as words or with ``--json`` as plain values. What a step records ends in the ledger;
its head is printed, to be noted outside the folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxyguard.cli import junit, show
from proxyguard.errors import RegistryError

if TYPE_CHECKING:
    from proxyguard.audit.audit import Audit
    from proxyguard.audit.check import Begun, Check
    from proxyguard.audit.outcome import (
        CorrectiveCertificate,
        FrozenReleases,
        JudgedCandidate,
        Registration,
        SealedCertificate,
        Sealing,
    )
    from proxyguard.documents.ledger import GrantStatement
    from proxyguard.tables.profile import TableProfile

Steward = Annotated[str | None, typer.Option(
    "--steward", help="Identity of the person who grants the opening.")]  # fmt: skip
# How many seeds a range of --again may have: each is compared with the registered ones.
_MOST_AGAIN = 100_000


def init(
    folder: show.Folder,
    home: show.HomeFolder = None,
    declaration: Annotated[Path | None, typer.Option(
        "--from", "--declaration",
        help="Start from an audit.toml, or from the page or the folder of try.")] = None,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Make an audit folder with a declaration to fill in, and a signing key."""
    from proxyguard.trial.page import declaration_in

    text = None if declaration is None else declaration_in(declaration)
    audit = show.audit_of(folder, home)
    written = audit.init(text)
    if declaration is not None:
        trial = declaration if declaration.is_dir() else declaration.parent
        # What this home knows of its own trials; a folder of somebody else's has no say in it.
        audit.home.remember_data(folder, audit.home.data_of(trial))
    values: dict[str, object] = {
        "declaration": str(written),
        "signer": audit.home.signing_key().public,
    }
    next_words = f"Next: proxyguard check {folder}"
    if text is None:
        show.answer(json, values, [f"Fill in {written}: your table, what is required, what draws.",
                                   next_words])  # fmt: skip
        return
    try:
        begin = audit.begun()
    except RegistryError as error:
        raise RegistryError(f"{written} is there to be mended: {error}") from None
    values |= {"missing": list(begin.missing), "named_code": list(begin.named),
               "carried_code": dict(begin.carried)}  # fmt: skip
    show.answer(json, values, [*_begun_lines(written, begin), next_words])


def _begun_lines(written: Path, begin: Begun) -> Iterator[str]:
    """Yield what has to be put where, and which code of others would run: it is shown."""
    yield f"{written} is written from what you named."
    yield from show.missing_lines(begin.missing)
    for name, text in begin.carried:
        yield (
            f"{name!r} is code that this declaration holds. check and every later step run it on "
            "this machine, without keys and target: go on only if you trust what you read here."
        )
        yield from (f"    | {line}" for line in text.splitlines())
    if begin.named:
        yield f"check and every later step run code of others: {', '.join(begin.named)}."


def check(
    folder: show.Folder, home: show.HomeFolder = None, data: show.Data = None,
    workers: show.Workers = None,
    draw: Annotated[bool, typer.Option(
        help="Draw one seed of generators that are not ours twice, and compare.")] = True,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Say whether the audit could succeed as declared; nothing is changed.

    Exit code 1 if a later step would stop; 3 if every step would run and no outcome could validate
    the claim, or none is likely to, as the development part foretells; else 0.
    """
    with show.at_work(folder, home, data, workers, json=json) as audit:
        checked = audit.check(draw=draw)
    lines = [
        *_obstacle_lines(checked),
        *(f"fact: {line}" for line in checked.facts),
        *(line for profile in checked.profiles.values() for line in _column_lines(profile)),
    ]
    end = [_check_end(checked)]
    if checked.good:
        status = audit.status()
        end.append(
            f"Next: proxyguard run {folder} (or, with a steward: run {folder} --steward IDENTITY)"
            if status.next == "seal" else status.next_words(folder)
        )  # fmt: skip
    show.answer(json, checked.to_dict(), [*lines, *end])
    _end_unless_good(checked)


def _obstacle_lines(checked: Check) -> Iterator[str]:
    yield from (f"problem: {line}" for line in checked.problems)
    yield from (f"cannot succeed: {line}" for line in checked.hopeless)
    yield from (f"unlikely: {line}" for line in checked.unlikely)
    yield from (f"warning: {line}" for line in checked.warnings)


def _check_end(checked: Check) -> str:
    """Return in a line what was found."""
    if checked.problems:
        return "This cannot run as it is: mend what is called a problem, and check again."
    if checked.hopeless:
        return "This audit would run and could not succeed: change it before anything is sealed."
    if checked.unlikely:
        return (
            "As the development part foretells, nothing would be validated and the target be used "
            "up: change what is called unlikely, and check again. A forecast is no proof: run "
            "--even-so goes on."
        )
    if not checked.guaranteed:
        return (
            "Every step would run, and the certificate would have no guarantee: see the warnings."
        )
    return "Nothing stands in the way."


def _end_unless_good(checked: Check) -> None:
    if checked.problems:
        raise typer.Exit(show.Exit.ERROR)
    if checked.hopeless or checked.unlikely:
        raise typer.Exit(show.Exit.UNRESOLVED)


def _column_lines(profile: TableProfile) -> Iterator[str]:
    """Yield a line for each column, under the names of what stands there."""
    rows = [("column", "kind", "missing", "range", "what is done with it")]
    for column in profile.columns:
        missing = "" if column.missing == 0.0 else f"{column.missing:.1%}"
        rows.append((column.name, column.kind, missing, column.range_words, column.use))
    widths = [min(32, max(map(len, cells))) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False))
        yield f"    {'  '.join([*cells, row[-1]])}"


def seal(
    folder: show.Folder,
    home: show.HomeFolder = None,
    data: show.Data = None,
    passphrase: show.AskPassphrase = False,
    steward: Steward = None,
    as_steward: Annotated[bool, typer.Option(
        "--as-steward",
        help="You are the steward of somebody else's audit: certificates say that you held the "
        "key, by your own word.")] = False,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Set the target aside and encrypt it; write the development part beside it."""
    # Asked before anything is done, and twice: with a mistyped one the target cannot be opened.
    words = show.ask_passphrase(passphrase, confirm=True)
    audit = show.audit_of(folder, home, data)
    sealing = audit.seal(passphrase=words, steward=steward, as_steward=as_steward)
    next_words = audit.status().next_words(folder)
    after = () if json else [*show.missing_lines(audit.begun().missing), next_words]
    show.answer(json, sealing.to_dict(), _sealing_lines(sealing), folder=folder, after=after)


def _sealing_lines(sealing: Sealing) -> Iterator[str]:
    """Yield what was set aside, and where its records were met before."""
    from proxyguard.audit.reserve import lineage_words
    from proxyguard.report.record import clear_words

    for name, member in sealing.record.members.items():
        yield f"{name}: {member.records:,} records sealed; development {member.development}"
        yield f"    Means are over {member.estimand}."
        if member.unlabelled:
            yield f"    {member.unlabelled:,} more had no outcome and were left out."
        if member.copies is not None:
            yield (
                f"    {member.copies:,} of these records have the values of a member: exposure is "
                f"about the other {member.records - member.copies:,}."
            )
        yield f"    Commitment {member.commitment}"
    yield from (f"{line}." for line in clear_words(sealing.record))
    yield f"Lineage: {lineage_words(sealing.record.lineage, sealing.record.name)}."
    yield from (f"warning: {line}" for line in sealing.warnings)


def register(
    folder: show.Folder, home: show.HomeFolder = None, data: show.Data = None,
    workers: show.Workers = None, json: show.Json = False,
) -> None:  # fmt: skip
    """Resolve every rule on development data and freeze the claim."""
    with show.at_work(folder, home, data, workers, json=json) as audit:
        registration = audit.register()
    lines, after = _limit_lines(registration), _next_lines(audit, folder, "Registered. ")
    show.answer(json, registration.to_dict(), lines, folder=folder, after=after)


def _next_lines(audit: Audit, folder: Path, done: str = "") -> Iterator[str]:
    """Yield what comes next; nothing is asked of the folder where nobody wants words."""
    yield f"{done}{audit.status().next_words(folder)}"


def amend(
    folder: show.Folder,
    reason: Annotated[str, typer.Option("--reason", help="Why the claim changes.")],
    exclude: Annotated[list[str] | None, typer.Option(
        "--exclude",
        help="A draw to take out, as MECHANISM:SEED; repeatable. One that an earlier amendment "
        "took out and this one does not name is in again.")] = None,
    home: show.HomeFolder = None,
    data: show.Data = None,
    workers: show.Workers = None,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Register audit.toml as it stands now, while no outcome has been seen."""
    draws = [_excluded(text) for text in exclude or ()]
    with show.at_work(folder, home, data, workers, json=json) as audit:
        registration = audit.amend(reason, draws)
    values = {**registration.to_dict(), "void": [draw.to_dict() for draw in registration.void]}
    again = [
        f"{draw.mechanism}:{draw.seed} was excluded before and is part of the "
        "claim again: this amendment does not repeat the exclusion. To keep it out, amend with "
        "every --exclude that should hold."
        for draw in registration.void
    ]
    lines, after = [*_limit_lines(registration), *again], _next_lines(audit, folder, "Amended. ")
    show.answer(json, values, lines, folder=folder, after=after)


def _excluded(text: str) -> tuple[str, int]:
    """Read a draw as it is given to --exclude: the name may have colons, the seed has none."""
    name, _, seed = text.rpartition(":")
    if not name or not seed.isdigit():
        raise typer.BadParameter(f"{text!r} is no MECHANISM:SEED")
    return name, int(seed)


def _limit_lines(registration: Registration) -> Iterator[str]:
    """Yield every limit with the rule that it came from."""
    for limit in registration.limits:
        unit = f" {limit.unit}" if limit.unit else ""
        said = f"limit {limit.limit}{unit}"
        said += "" if limit.slack is None else f", slack {limit.slack}{unit}"
        said += "" if limit.ramp is None else f", ramp {limit.ramp}{unit} chosen on development"
        yield f"{limit.member}: {limit.requirement}: {said} ({limit.rule})"


def schema(json: show.Json = True) -> None:
    """Print the JSON Schema of audit.toml, for editors."""
    from proxyguard.registry.declaration import declaration_schema

    show.give(declaration_schema())


def draw(
    folder: show.Folder,
    home: show.HomeFolder = None,
    data: show.Data = None,
    workers: show.Workers = None,
    candidate: Annotated[Path | None, typer.Option(
        "--candidate", help="The next candidate table of a stream.")] = None,
    again: Annotated[list[str] | None, typer.Option(
        "--again",
        help="Draw these seeds again that are drawn and not frozen yet, as 103,105-107 or "
        "MECHANISM:103,105; what is dropped is recorded. Repeatable.")] = None,
    key_file: show.TargetKey = None,
    passphrase: show.AskPassphrase = False,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Draw every registered release and freeze them; what is drawn already is kept."""
    seeds = [seed for text in again or () for seed in _seeds(text)]
    with show.at_work(folder, home, data, workers, json=json) as audit:
        if candidate is not None:
            words = show.ask_passphrase(passphrase)
            _show_round(audit.submit(candidate, key_file=key_file, passphrase=words), folder, json)
            return
        releases = audit.draw(seeds)
    lines, after = _drawn_lines(releases), _next_lines(audit, folder)
    show.answer(json, releases.to_dict(), lines, folder=folder, after=after)


def _drawn_lines(releases: FrozenReleases) -> Iterator[str]:
    """Yield how many draws each mechanism has, and why some failed."""
    for frozen in releases.mechanisms:
        yield f"{frozen.mechanism}: {len(frozen.draws)} draws frozen, {len(frozen.failed)} failed"
        yield from (f"    seed {failed.seed}: {failed.error}" for failed in frozen.failed)


def _seeds(text: str) -> list[tuple[str | None, int]]:
    """Read seeds as they are given to --again.

    Parameters
    ----------
    text
        ``103,105-107``, or ``MECHANISM:103,105``.

    Returns
    -------
    list of (str or None, int)
        Mechanism and seed; None stands for every mechanism.

    Raises
    ------
    BadParameter
        Where it is no such list, or a range is turned round or too long.
    """
    name, _, numbers = text.rpartition(":")
    seeds: list[tuple[str | None, int]] = []
    for piece in numbers.split(","):
        # Ten digits hold every seed, and a number of thousands cannot even be read.
        if re.fullmatch(r"[0-9]{1,10}(-[0-9]{1,10})?", piece) is None:
            raise typer.BadParameter(f"{text!r} is no list of seeds such as 103,105-107")
        first, _, last = piece.partition("-")
        start, stop = int(first), int(last or first) + 1
        if not 0 < stop - start <= _MOST_AGAIN:
            raise typer.BadParameter(
                f"{text!r} has the range {piece}; give the smaller number first, and at most "
                f"{_MOST_AGAIN} seeds in a range"
            )
        seeds += [(name or None, seed) for seed in range(start, stop)]
    return seeds


def _show_round(judged: JudgedCandidate, folder: Path, json: bool) -> None:
    """Show what was decided of a candidate, and end with its code."""
    if not json:
        show.say(
            f"{show.MARKS[judged.decision]}: round {judged.number}, {judged.candidate} "
            f"(p {judged.pvalue:.3g}, level {judged.level:.3g})",
            style=show.STYLES[judged.decision],
        )
    show.answer(json, judged.to_dict(), folder=folder)
    raise typer.Exit(show.verdict_code([judged.decision]))


def grant(
    folder: Annotated[Path | None, typer.Argument(
        help="The audit folder; --make-key needs none.", metavar="[DIR]")] = None,
    *,
    key: Annotated[Path, typer.Option("--key", help="The steward's key file.")],
    make_key: Annotated[bool, typer.Option(
        "--make-key", help="Make that key, print its identity, and grant nothing.")] = False,
    again: Annotated[str | None, typer.Option(
        "--again", metavar="REASON",
        help="Why records are granted that were granted or seen before; the certificate "
        "repeats it and has no guarantee.")] = None,
    home: show.HomeFolder = None,
    json: show.Json = False,
) -> None:  # fmt: skip
    """As steward: release the target's key for what is registered and frozen now.

    The target's records are fingerprinted into your own home, and refused if they are known.
    """
    if make_key:
        from proxyguard.seal.crypto import SigningKey

        # Saved and read again: what is printed is the identity of the key in the file.
        SigningKey.create().save(key)
        identity = SigningKey.load(key).identity
        lines = [f"Keep {key} to yourself. Your identity, for seal --steward:", identity]
        show.answer(json, {"identity": identity}, lines)
        return
    if folder is None:
        raise typer.BadParameter("name the audit folder that is granted: proxyguard grant DIR")
    statement = show.audit_of(folder, home).grant(key, again=again)
    back = (
        f"Give {folder / 'grant.json'} to the author. Next, by the author: proxyguard open {folder}"
    )
    show.answer(json, statement.to_dict(), [*_grant_lines(statement), back])


def _grant_lines(statement: GrantStatement) -> Iterator[str]:
    """Yield what was granted, and what the steward should look at."""
    yield (
        f"Granted for registry {statement.registry[:16]}... and releases "
        f"{statement.releases[:16]}..., and for nothing else."
    )
    if statement.again is not None:
        yield (
            f"Granted again ({statement.again.reason}): records of this target were "
            f"seen before, {statement.again.met}."
        )
    yield f"Ledger head {statement.head}: the grant is for a ledger that begins with it."
    yield f"Granted to author {statement.author[:64]}: see that this is who asked you."


def open_(
    folder: show.Folder,
    home: show.HomeFolder = None,
    data: show.Data = None,
    key_file: show.TargetKey = None,
    passphrase: show.AskPassphrase = False,
    records: Annotated[bool, typer.Option(
        "--records", help="Also write per-record outputs, encrypted.")] = False,
    finish: Annotated[bool, typer.Option(
        "--finish", help="End a stream of candidates and certify it.")] = False,
    most: Annotated[int | None, typer.Option(
        "--most", help="Stop a sequential audit after so many draws.")] = None,
    workers: show.Workers = None,
    file: junit.File = None,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Open the target, score every release, certify. The target is opened once.

    Exit code 0 if all is validated, 3 unresolved, 4 for a violation, 7 if all is validated but no
    guarantee remains: the claim status says why.
    """
    words = show.ask_passphrase(passphrase)
    junit.begin(file, "open")
    with show.at_work(folder, home, data, workers, json=json) as audit:
        certificate = (
            audit.close(key_file=key_file, passphrase=words)
            if finish
            else audit.open(key_file=key_file, passphrase=words, write_records=records, most=most)
        )
    _finish(audit, certificate, folder, "open", file, json)


def run(
    folder: show.Folder, home: show.HomeFolder = None, data: show.Data = None,
    workers: show.Workers = None, key_file: show.TargetKey = None,
    passphrase: show.AskPassphrase = False, steward: Steward = None, file: junit.File = None,
    even_so: Annotated[bool, typer.Option(
        "--even-so", help="Go on where check calls a success unlikely.")] = False,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Check, then do all remaining steps, from sealing to the report.

    Nothing is sealed or registered where check would say that the audit cannot run, not succeed,
    or hardly.
    With a steward it ends where the steward has to grant, and goes on from there when it is typed
    again.
    The exit codes are those of open: 0 validated, 3 unresolved, 4 a violation, 7 validated and no
    guarantee remains.
    """
    words = show.ask_passphrase(passphrase)
    junit.begin(file, "run")
    with show.at_work(folder, home, data, workers, json=json) as audit:
        step = audit.status().next
        if step in ("seal", "register"):
            checked = audit.check()
            if not (checked.good or (even_so and checked.possible)):
                done = f"Nothing was {'sealed' if step == 'seal' else 'registered'}."
                lines = [*_obstacle_lines(checked), _check_end(checked), done]
                show.answer(json, checked.to_dict(), lines)
                _end_unless_good(checked)
            for line in () if json else _obstacle_lines(checked):  # the warnings, while they help
                show.say(line)
        certificate = audit.run(key_file=key_file, passphrase=words, steward=steward)
    _finish(audit, certificate, folder, "run", file, json)


def _finish(
    audit: Audit, certificate: SealedCertificate | None, folder: Path, verb: str,
    file: Path | None, json: bool,
) -> None:  # fmt: skip
    """Show what opening led to, as test cases too where a file was named, and end with its code.

    Parameters
    ----------
    audit
        The audit.
    certificate
        What was certified; None where a sequential audit or a stream is not decided yet.
    folder
        The audit's folder, as it was typed.
    verb
        The command.
    file
        Where test cases go, if anywhere.
    json
        Whether plain values were asked for.
    """
    standing = audit.status()
    if certificate is None:
        message = "not decided yet; go on with open"
        cases = [junit.Case(name=verb, kind="failure", message=message, type="unresolved")]
        junit.put(file, verb, cases)
        after = [standing.next_words(folder)]
        show.answer(json, {"finished": False}, ["Not decided yet."], folder=folder, after=after)
        raise typer.Exit(show.Exit.UNRESOLVED)
    junit.put(file, verb, [*junit.verdict_cases(standing.verdicts)])
    if not json:
        show.show_outcome(standing, certificate)
    after = [f"Report: {folder / 'report.html'}", *_check_lines(certificate, folder)]
    show.answer(json, certificate.to_dict(), folder=folder, after=after)
    raise typer.Exit(show.outcome_code(standing))


def _check_lines(certificate: SealedCertificate, folder: Path) -> Iterator[str]:
    """Yield what checks all of an audit, what that takes, and what whoever gets the folder gets.

    Code of others is run where that is asked for alone.
    """
    from proxyguard.audit.check import begun
    from proxyguard.audit.home import DataFolders
    from proxyguard.audit.outcome import Registration

    registered = Registration.of(certificate.folder)
    begin = begun(registered.document.declaration, DataFolders((folder,)), folder)
    code = bool(begin.named or begin.carried)
    with_code = " --redraw 1 --run-named-code" if code else ""
    yield f"Whoever has the folder can check this: proxyguard verify {folder}{with_code}"
    if code:
        yield "That runs code of others, in a process without keys; without it exit code 6 says so."
    modules = dict.fromkeys(name.partition(":")[0] for name in begin.named if ":" in name)
    if modules:
        named = ", ".join(modules)
        yield f"What was audited must be installed there, in the same version: {named}."
    held = sum(
        sum(member.development.values())
        for member in certificate.folder.journal().ledger.sealed.members.values()
    )
    if held:
        yield (
            f"The folder holds {held:,} records in clear, in development/: give it to whom you may "
            "give these. Without them verify checks the rest, and names what it could not see. "
            "report.html holds none."
        )


def deviate(
    folder: show.Folder,
    reason: Annotated[str, typer.Option("--reason", help="What was not done as registered.")],
    home: show.HomeFolder = None,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Record, after opening, that something was not done as registered."""
    show.audit_of(folder, home).deviate(reason)
    show.answer(json, {"recorded": reason}, ["Recorded."], folder=folder)


def rotate_key(folder: show.Folder, home: show.HomeFolder = None, json: show.Json = False) -> None:
    """Hand the audit over to a new signing key; the old key signs that in the ledger."""
    handed = show.audit_of(folder, home).rotate_key()
    lines = [
        f"Handed over from {handed.before[:64]}",
        f"              to {handed.after[:64]}",
        "Tell those who check your audits; hand over your other audits in the same way.",
    ]
    show.answer(json, handed.to_dict(), lines, folder=folder)


def correct(
    folder: show.Folder,
    reason: Annotated[str, typer.Option("--reason", help="Why the design was wrong.")],
    design: Annotated[str, typer.Option(
        "--design", help="The corrected design, as an inline TOML table.")],
    home: show.HomeFolder = None,
    data: show.Data = None,
    key_file: show.TargetKey = None,
    passphrase: show.AskPassphrase = False,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Add a corrective certificate under a changed sampling design, once.

    Its test is the registered one where that covers the design, else the default for it. A second
    one is recorded as a deviation and decides nothing.
    """
    import tomllib

    try:
        changed = tomllib.loads(f"design = {design}")["design"]
    except tomllib.TOMLDecodeError as error:
        raise typer.BadParameter(f"--design is no TOML value: {error}") from None
    with show.at_work(folder, home, data, json=json) as audit:
        corrected = audit.correct(
            reason, changed, key_file=key_file, passphrase=show.ask_passphrase(passphrase)
        )
    show.answer(json, corrected.to_dict(), _correction_lines(corrected), folder=folder)


def _correction_lines(corrected: CorrectiveCertificate) -> Iterator[str]:
    """Yield what a correction says, or that it came to a deviation."""
    if corrected.deviation is not None:
        yield f"Recorded as a deviation: {corrected.deviation}"
        return
    yield "Corrective certificate, which does not replace the registered one:"
    # Without the mark and colour of a verdict: what was chosen after opening decides nothing.
    for verdict in corrected.verdicts:
        yield f"{verdict.mechanism}:"
        yield f"    {verdict.sentence}"


def demo(
    folder: Annotated[Path, typer.Option(
        "--dir", help="Where the demonstration is put.", metavar="DIR")] = Path("demo-audit"),
    json: show.Json = False,
) -> None:  # fmt: skip
    """Run two audits on embedded data: what mechanisms are good for, and what they give away."""
    from proxyguard.audit.demo import run_demo, run_exposure_demo

    say = None if json else show.say
    with show.bars(json) as progress:
        audited, certificate, good = run_demo(folder, progress, say)
    if not json:
        show.show_story(audited)
    with show.bars(json) as progress:
        exposed, told, safe = run_exposure_demo(audited.parent, progress, say)
    if not json:
        show.show_story(exposed)
    values = {
        "folder": str(audited), "verified": good, "certificate": certificate.to_dict(),
        "exposure": {"folder": str(exposed), "verified": safe, "certificate": told.to_dict()},
    }  # fmt: skip
    show.answer(json, values, [
        line
        for place, holds in ((audited, good), (exposed, safe))
        for line in (
            "",
            f"Report:  {place / 'report.html'}",
            f"Check:   proxyguard verify {place}   -> {'everything holds' if holds else 'BROKEN'}",
        )
    ], after=(
        "",
        "A word is explained by: proxyguard explain TERM",
        "These are teaching data that many have analysed before: no guarantee remains here,",
        "whatever the verdicts say. On records that nobody has seen they would carry one.",
    ))  # fmt: skip
    good = good and safe
    if not good:
        raise typer.Exit(show.Exit.BROKEN)
