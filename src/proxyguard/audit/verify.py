"""Check an audit folder as a stranger would: offline, without any key, from its bytes alone.

The steps, in order: (1) the ledger's chain and signatures, and the head that somebody noted, (2)
every file's bytes, and the form of every document, (3) the declaration and what was sealed and
registered from it, (4) the frozen releases, (5) the grant, (6) the evidence derived anew, (7) the
certificate decided anew, (8) the report built anew. With the target's key, (9) the losses are
computed again. Steps 3 to 9 are in `verify_claim`, which is loaded when there is a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, TypeVar

from proxyguard.audit.folder import (
    ADVICE,
    CERTIFICATE,
    CORRECTION,
    DECLARATION,
    DEVELOPMENT,
    EVIDENCE,
    RECORDS,
    RELEASES,
    REPORTS,
    AuditFolder,
    odd_entries,
    problems,
    recorded_files,
    unknown_files,
    withheld_files,
)
from proxyguard.documents.certificate import Advice, Correction, Envelope, Statement
from proxyguard.documents.document import Document
from proxyguard.documents.evidence import Evidence
from proxyguard.documents.registry import Registry
from proxyguard.documents.releases import ReleaseManifest
from proxyguard.draw.catalog import only_our_code
from proxyguard.errors import (
    DiskError,
    KeyMissing,
    ProxyGuardError,
    RegistryError,
    SealError,
    Unprotected,
    UntrustedCode,
    Withheld,
)
from proxyguard.modes.evidence import Decision
from proxyguard.printable import some
from proxyguard.seal.journal import NAME, Journal
from proxyguard.seal.ledger import Stage
from proxyguard.seal.storage import is_address, ours_to_mend

if TYPE_CHECKING:
    from proxyguard.audit.development import MemberDevelopment
    from proxyguard.audit.open import Opener
    from proxyguard.documents.canonical import Plain
    from proxyguard.registry.declaration import Member

# What a forged folder may raise once its documents have their form. Anything else, a KeyError or a
# TypeError, is a fault of ours: it says nothing about the folder, and is raised as it is.
_BROKEN = (ProxyGuardError, ValueError, OSError)

# Relative difference that another machine's arithmetic may make in a derived number.
WITHIN = 1e-9
Checked = TypeVar("Checked")

# Seconds that each part may take which named code computes, unless the verifier says otherwise.
TIMEOUT = 3600.0
# Seconds that a verifier can wait for named code: eleven days.
LONGEST = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that does not hold: which file or step, and why."""

    place: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What whoever verifies asks for and will run; the folder has no say in it."""

    types: tuple[str, ...] = ()  # that stored models may contain beside our own
    run_named_code: bool = False  # in a process that has no key and no home
    redraw: int = 0  # how many seeds to draw again
    data: tuple[Path, ...] = ()  # where delivered files are, for drawing them again
    timeout: float = TIMEOUT  # seconds for each part that named code computes, and each redraw
    head: str | None = None  # of the ledger, as it was noted before

    def __post_init__(self) -> None:
        if self.head is not None and not is_address(self.head):
            raise RegistryError(
                f"a ledger's head is 64 hexadecimal digits in small letters, got {self.head[:80]!r}"
            )
        if not 0.0 < self.timeout <= LONGEST:
            raise RegistryError(
                f"timeout is a number of seconds above 0 and at most {LONGEST:g}, got "
                f"{self.timeout!r}"
            )


@dataclass(slots=True, kw_only=True)
class Verification:
    """What was checked, what failed, what was not checked, and what nobody vouches for."""

    checked: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)  # files of development that are not here
    not_checked: list[str] = field(default_factory=list)  # and why
    signers: tuple[str, ...] = ()  # the author's keys, first to last, each handed over to the next
    stated: list[str] = field(default_factory=list)  # what stays the author's word
    attestation: str | None = None
    head: str | None = None
    entries: int = 0  # that the ledger has
    noted: str | None = None  # what the head that was noted before is now
    absent: list[str] = field(default_factory=list)  # reports of a certificate that are not here
    certified: bool | None = None
    moved: dict[str, str] = field(default_factory=dict)  # by generator: that its code is another
    decisions: dict[str, Decision] = field(default_factory=dict)  # decided anew, as certified
    lost: str = ""  # why no guarantee remains, if none does

    @property
    def good(self) -> bool:
        """Whether everything that was checked holds."""
        return not self.findings

    @property
    def complete(self) -> bool:
        """Whether nothing that was asked for had to be left unchecked."""
        return not self.not_checked and not self.withheld

    def step(
        self, place: str, name: str, check: Callable[[], Checked], *, told: bool = True
    ) -> Checked | None:
        """Run one check and return what it gives; what it raises is a finding or unchecked.

        It is told as one that holds where it found nothing, also where it adds findings itself.

        Parameters
        ----------
        place
            The file or step that a finding names.
        name
            What the check is called.
        check
            The check; of what it raises, `_BROKEN` alone says something about the folder.
        told
            Whether it is one by itself, and not the sum of others.
        """
        before = len(self.findings)
        try:
            given = check()
        except (KeyMissing, Unprotected, DiskError):
            raise  # of this person's own keys and disk: says nothing about the folder
        except (UntrustedCode, Withheld) as error:
            self.not_checked.append(f"{name}: {error}")
            return None
        except _BROKEN as error:
            if isinstance(error, OSError) and ours_to_mend(error):
                raise  # nor does this: the machine lacks rights, handles or a sound disk
            ours = isinstance(error, ProxyGuardError)
            problem = str(error) if ours else f"cannot be read: {error!r}"
            self.findings.append(Finding(place=place, problem=problem))
            return None
        if told and len(self.findings) == before:
            self.checked.append(name)
        return given

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values."""
        return {
            "good": self.good,
            "checked": self.checked,
            "findings": [{"place": f.place, "problem": f.problem} for f in self.findings],
            "unknown": self.unknown,
            "withheld": self.withheld,
            "not_checked": self.not_checked,
            "signers": list(self.signers),
            "stated_not_checked": self.stated,
            "attestation": self.attestation,
            "head": self.head,
            "entries": self.entries,
            "noted_head": self.noted,
            "absent": self.absent,
            "certified": self.certified,
            # Of a folder that does not hold nothing is said.
            "decisions": {k: v.value for k, v in self.decisions.items()} if self.good else {},
            "no_guarantee": self.lost,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredAudit:
    """A registered audit while it is verified: all that a check of its claim may look at."""

    folder: AuditFolder
    journal: Journal
    registry: Registry
    scope: Scope
    result: Verification

    def development(self, member: Member) -> MemberDevelopment:
        """Return the development part of a member, read from the folder and nothing else."""
        sealed = self.journal.ledger.sealed.members[member.name]
        # All of it or nothing: before code that the folder names is run for a part of it.
        for name in self.result.withheld:
            if name.startswith(f"{DEVELOPMENT}{sealed.index}."):
                raise Withheld(f"{name} is not here")
        # Loaded here: they read tables, which most of what is verified does not need.
        from proxyguard.audit.development import MemberDevelopment
        from proxyguard.audit.stated import reading_place

        return MemberDevelopment(reading_place(self.folder), member, sealed)


def verify(
    folder: AuditFolder, opener: Opener | None = None, scope: Scope | None = None
) -> Verification:
    """Check everything that can be checked here, and say what was not.

    Parameters
    ----------
    folder
        The audit's folder, which may come from anybody.
    opener
        With the target's key: then the losses are computed again, too.
    scope
        What the verifier asks for beyond that, and will run.

    Raises
    ------
    KeyMissing, Unprotected, DiskError, OSError
        For a reason that lies on this machine, and says nothing about the folder.
    """
    # One step: whoever exchanges a file while this runs cannot have one checked and another used.
    with only_our_code(), folder.step():
        return _verify(folder, opener, scope or Scope())


def _verify(folder: AuditFolder, opener: Opener | None, scope: Scope) -> Verification:
    result = Verification()
    # The chain comes first: it vouches for every other file, and a broken one for none.
    journal = result.step(NAME, "ledger: chain and signatures", folder.journal)
    if journal is None:
        return result
    result.signers, result.head = journal.signers, journal.ledger.head
    result.entries = len(journal.ledger.entries)
    result.certified = journal.ledger.has(Stage.CERTIFIED)
    if result.certified:
        result.absent = [name for name in REPORTS if not folder.has(name)]
    if scope.head is not None:
        noted = partial(_find_noted, journal, scope.head)
        result.noted = result.step(NAME, "head: the noted one is in the ledger", noted)
    # Bytes before documents: a file that was changed is told once, as that.
    with suppress(SealError):  # of an entry that lists what it must not, as the next step tells
        result.withheld = withheld_files(folder, journal)
    recorded = partial(_check_files, result, folder, journal)
    here = " of those that are here" if result.withheld else ""
    result.step("files", f"files: every recorded byte{here}", recorded)
    documents = partial(_check_documents, result, folder, journal)
    readable = result.step("documents", "documents: every one in its form", documents)
    if journal.ledger.has(Stage.SEALED):
        sealed = partial(_check_sealed, folder, journal)
        result.step("target", "the sealed targets: their shape", sealed)
    if result.good and RECORDS in recorded_files(journal.ledger.entries):
        records = "the sealed records: their shape"
        result.step(RECORDS, records, lambda: folder.sealed_records().check_shape(least=0))
    if not readable:
        return result  # what is derived from a document that has no form says nothing
    if journal.ledger.has(Stage.REGISTERED):
        # Here and not above: an audit that has no claim yet needs nothing of it.
        from proxyguard.audit.verify_claim import verify_claim

        claim = partial(verify_claim, result, folder, journal, opener, scope)
        result.step("the claim", "the claim", claim, told=False)
    elif scope.redraw:
        result.not_checked.append("redraw: nothing is drawn yet")
    return result


def _find_noted(journal: Journal, noted: str) -> str:
    """Say where the head stands that somebody noted; raise where the ledger does not have it.

    Whoever cuts the last entries leaves a shorter ledger that is whole in itself: only a head
    that was noted elsewhere shows that there were more.
    """
    digests = [entry.digest for entry in journal.ledger.entries]
    # Any entry will do, not the head alone: an honest author adds some after it was noted.
    if noted not in digests:
        raise SealError(
            f"the noted head {noted[:16]}... is none of its {len(digests)} entries: the last ones "
            "were cut since it was noted, or this is another ledger; ask for the folder as it was"
        )
    number = digests.index(noted) + 1
    since = [entry.stage.value for entry in journal.ledger.entries[number:]]
    if not since:
        return "is the head"
    added = "1 entry was" if len(since) == 1 else f"{len(since)} entries were"
    return f"is entry {number} of {len(digests)}; {added} added since"


def refuse_unsound(folder: AuditFolder, act: str, *, besides: Sequence[str] = ()) -> None:
    """Raise unless all of a folder holds that a stranger can check; ``act`` is what is refused.

    Asked before a key is released or used: what is looked at afterwards cannot be hidden again.
    ``besides`` are places of findings that whoever asks will mend.
    """
    # With the plain scope: no code that the folder names runs where the key is.
    verified = verify(folder)
    findings = [finding for finding in verified.findings if finding.place not in besides]
    findings += [Finding(place=name, problem="is missing") for name in verified.withheld]
    if findings:
        more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
        raise SealError(
            f"{act}: the folder does not hold, {findings[0].place}: {findings[0].problem}{more}; "
            "proxyguard verify DIR says all of it"
        )


def _check_files(result: Verification, folder: AuditFolder, journal: Journal) -> None:
    if result.withheld:
        what = f"development: {some(result.withheld, 4)}: not here, withheld or removed"
        result.not_checked.append(what)
    for listed in (problems(folder, journal), _unrecorded(folder, journal)):
        result.findings += [
            Finding(place=name, problem=why) for name, why in listed if name not in result.withheld
        ]
    # A link or a device in the place of a recorded file was told as that file's problem.
    known = {finding.place for finding in result.findings}
    result.findings += [
        Finding(place=name, problem=why) for name, why in odd_entries(folder) if name not in known
    ]
    result.unknown = unknown_files(folder, journal)


_DOCUMENTS: dict[str, type[Document]] = {
    RELEASES: ReleaseManifest,
    EVIDENCE: Evidence,
    CERTIFICATE: Envelope,
    ADVICE: Advice,
    CORRECTION: Correction,
}


def _check_documents(result: Verification, folder: AuditFolder, journal: Journal) -> bool:
    """Read every recorded document, and say whether all later steps can rely on their form.

    Those that are missing or have other bytes than were recorded are findings already.
    """
    broken = {finding.place for finding in result.findings}
    readable = True
    for name in recorded_files(journal.ledger.entries):
        registry = name.startswith("registry/") and name.endswith(".json")
        kind = Registry if registry else _DOCUMENTS.get(name)
        if kind is None:
            continue
        try:
            document = folder.document(kind, name)
            # What is signed is a document inside a document: a sound envelope could hold anything.
            if isinstance(document, Envelope):
                Statement.read(document.content, name)
        except SealError as error:
            # Also where the bytes are known to be wrong: nothing may be derived from such a file.
            readable = False
            if name not in broken:
                result.findings.append(Finding(place=name, problem=str(error)))
    return readable


def _check_sealed(folder: AuditFolder, journal: Journal) -> None:
    """See, with or without a claim, that the sealed files are such and as long as recorded."""
    for name, member in journal.ledger.sealed.members.items():
        file = folder.sealed_target(member)
        file.check_shape()
        # A larger number on record would make the same means count for more than they do.
        if file.rows != member.records:
            raise SealError(
                f"{name}: {member.records} records are recorded, the sealed file has {file.rows}"
            )


def _unrecorded(folder: AuditFolder, journal: Journal) -> Iterator[tuple[str, str]]:
    """Yield what a ledger that was removed or cut leaves behind."""
    if not journal.ledger.entries:
        names = {path.name for path in folder.path.iterdir()} - {DECLARATION, NAME}
        if names:
            yield NAME, f"is missing or empty, and {min(names)} is here; is this an audit folder?"
    certified = journal.ledger.has(Stage.CERTIFIED)
    # `open` writes them before it records the step: a kill in between leaves them, and so does
    # whoever cuts the last entry.
    for name in (EVIDENCE, CERTIFICATE, RECORDS):
        if folder.has(name) and not certified:
            yield (
                name,
                "is here, and the ledger records no certificate: opening was interrupted (run "
                "proxyguard open again), or the ledger was cut",
            )
    # What is encrypted nobody else can look into: only its digest says that it belongs here.
    if certified and folder.has(RECORDS) and RECORDS not in recorded_files(journal.ledger.entries):
        yield (
            RECORDS,
            "is here, and the ledger does not record it: records are sealed when the target is "
            "opened and at no other time, remove it",
        )


def agree(first: object, second: object, where: str) -> None:
    """Raise where two plain values differ by more than another machine's arithmetic explains.

    Parameters
    ----------
    first, second
        What is on record, and what follows from it: mappings, lists, texts and numbers.
    where
        What an error calls it; the keys that lead to the difference follow.

    Raises
    ------
    SealError
        At the first difference.

    Examples
    --------
    >>> agree({"mean": 0.1 + 0.2}, {"mean": 0.3}, "the evidence")
    >>> agree({"mean": 0.31}, {"mean": 0.3}, "the evidence")
    Traceback (most recent call last):
    ...
    proxyguard.errors.SealError: the evidence, mean does not follow from the record
    """
    for path in _differences(first, second, where):
        raise SealError(f"{path} does not follow from the record")


def _differences(first: object, second: object, where: str) -> Iterator[str]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        # A key more is a difference too: it would be read as if it followed from the record.
        if set(first) != set(second):
            yield where
            return
        for key in first:
            yield from _differences(first[key], second[key], f"{where}, {key}")
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if len(first) != len(second):
            yield where
            return
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            yield from _differences(a, b, f"{where}, {i}")
    elif _is_number(first) and _is_number(second):
        # Relative, because p-values of any smallness decide; numbers that underflow may differ.
        if not isclose(first, second, rel_tol=WITHIN, abs_tol=1e-300):
            yield where
    # To Python True equals 1, and a record in which a yes became a number would agree.
    elif isinstance(first, bool) is not isinstance(second, bool) or first != second:
        yield where


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
