"""The whole audit as one object: the same steps as on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from proxyguard.audit import amend as amending
from proxyguard.audit import draw as drawing
from proxyguard.audit import grant as granting
from proxyguard.audit import register as registering
from proxyguard.audit import seal as sealing
from proxyguard.audit.check import Check, check
from proxyguard.audit.correct import correct, deviate
from proxyguard.audit.data import DataFolders
from proxyguard.audit.folder import DECLARATION, REPORTS, AuditFolder
from proxyguard.audit.home import Handover, Home, default_home, processors, rotate_key
from proxyguard.audit.open import Opener
from proxyguard.audit.outcome import (
    CorrectiveCertificate,
    FrozenReleases,
    JudgedCandidate,
    Registration,
    SealedCertificate,
    Sealing,
)
from proxyguard.audit.report import figures_of, write_report
from proxyguard.audit.resolve import Progress, Workplace
from proxyguard.audit.seal import Keeper
from proxyguard.audit.sequential import SequentialOpener
from proxyguard.audit.stated import software_versions
from proxyguard.audit.status import Status, status_of
from proxyguard.audit.template import TEMPLATE
from proxyguard.audit.verify import TIMEOUT, Scope, Verification, verify
from proxyguard.documents.grant import GrantStatement
from proxyguard.documents.ledger import DesignText
from proxyguard.errors import RegistryError
from proxyguard.modes.count import ValidCount
from proxyguard.registry.numbers import callback, listed, path, whole
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Schedule, Stage
from proxyguard.seal.storage import exclusive, write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Audit:
    """One audit folder and the steps that lead from a declaration to a certificate.

    Guarantee
    ---------
    The order of the steps is the ledger's: a step that comes too early or twice raises
    `StageError` and changes nothing. A kill at any instant loses nothing that was recorded.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        home: Path | str | None = None,
        data: Sequence[Path | str] = (),
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.folder = AuditFolder(path(folder, "folder"))
        self.home = Home(default_home() if home is None else path(home, "home"))
        self._data = [path(one, "data") for one in listed(data, "data")]
        self._workers = processors() if workers is None else whole(workers, "workers")
        if progress is not None:
            callback(progress, "progress")
        self._progress: Progress = progress or (lambda what, done, total: None)

    @property
    def place(self) -> Workplace:
        """The folder with what the steps may use."""
        return Workplace(
            folder=self.folder,
            data=DataFolders.of(self.folder.path, self._data),
            home=str(self.home.root),
            workers=self._workers,
            progress=self._progress,
        )

    def init(self, declaration: str | None = None) -> Path:
        """Make the folder with a declaration to fill in, and the signing key if there is none."""
        self.folder.path.mkdir(parents=True, exist_ok=True)
        place = self.folder / DECLARATION
        with exclusive(self.folder.path):
            if place.exists():
                raise RegistryError(f"{place} is here already")
            write_atomic(place, (declaration or TEMPLATE).encode())
        self.home.make_signing_key()
        return place

    def check(self) -> Check:
        """Say whether the audit could succeed as declared, before anything irreversible."""
        return check(self.place)

    def seal(self, *, passphrase: str | None = None, steward: str | None = None) -> Sealing:
        """Set the target aside and encrypt it."""
        keeper = Keeper(passphrase=passphrase, steward=steward)
        return sealing.seal(self.folder, self.home, self.place.data, keeper, software_versions())

    def register(self) -> Registration:
        """Resolve every rule and freeze the claim."""
        registering.register(self.place, self.home, software_versions())
        return Registration.of(self.folder)

    def amend(self, reason: str, exclude: Sequence[tuple[str, int]] = ()) -> Registration:
        """Register `audit.toml` as it stands now, before any outcome is seen."""
        amending.amend(
            self.place, self.home, software_versions(), reason=reason, exclude=tuple(exclude)
        )
        return Registration.of(self.folder)

    def draw(self, again: Sequence[tuple[str | None, int]] = ()) -> FrozenReleases:
        """Draw every registered release and freeze them.

        ``again`` are seeds, each with its mechanism or None for all, whose draws wait already
        and are dropped and made again; the record says so.
        """
        return FrozenReleases(manifest=drawing.draw(self.place, self.home, again))

    def grant(self, steward_key: Path | str, *, again: str | None = None) -> GrantStatement:
        """Release the target's key for what is registered and frozen now: the steward's step.

        Records that were granted before are refused, unless ``again`` says why not; the
        certificate repeats that, and has no guarantee.
        """
        return granting.grant(self.folder, Path(steward_key), self.home.lineage, again)

    def open(
        self,
        *,
        key_file: Path | str | None = None,
        passphrase: str | None = None,
        write_records: bool = False,
        most: int | None = None,
    ) -> SealedCertificate | None:
        """Open the target, score, certify; return the certificate.

        ``most`` stops a sequential audit after so many further draws, with nothing to
        return unless it was decided.
        """
        if self.journal().ledger.schedule is Schedule.SEQUENTIAL:
            if not self._sequential(key_file, passphrase).run(most):
                return None
        else:
            Opener(
                self.place, self.home, key_file=_path(key_file), passphrase=passphrase,
                write_records=write_records,
            ).open()  # fmt: skip
        return self.certificate()

    def submit(
        self,
        candidate: Path | str,
        *,
        key_file: Path | str | None = None,
        passphrase: str | None = None,
    ) -> JudgedCandidate:
        """Judge the next candidate of a stream."""
        return self._sequential(key_file, passphrase).submit(Path(candidate))

    def close(
        self, *, key_file: Path | str | None = None, passphrase: str | None = None
    ) -> SealedCertificate:
        """End a stream and certify its rounds."""
        self._sequential(key_file, passphrase).close()
        return self.certificate()

    def deviate(self, reason: str) -> None:
        """Record, after opening, that something was not done as registered."""
        deviate(self.folder, self.home, reason)
        self._rewrite_report()

    def correct(
        self,
        reason: str,
        design: DesignText,
        *,
        key_file: Path | str | None = None,
        passphrase: str | None = None,
    ) -> CorrectiveCertificate:
        """Add a corrective certificate under a changed sampling design, once.

        Its test is the registered one where that covers the design, and the default for it
        otherwise. It has no confidence level of its own: the design was chosen after opening. A
        second one is recorded as a deviation, and what is returned then has no verdict.
        """
        opener = Opener(self.place, self.home, key_file=_path(key_file), passphrase=passphrase)
        corrected = correct(self.folder, self.home, reason, design, opener)
        self._rewrite_report()
        return corrected

    def rotate_key(self) -> Handover:
        """Hand the audit over to a new signing key: recorded, and signed by the old one.

        Returns
        -------
        The identities before and after. The old key is kept in the home's ``retired/``,
        because what was encrypted for it opens with it alone.
        """
        handed = rotate_key(self.folder, self.home)
        self._rewrite_report()
        return handed

    def report(self) -> list[Path]:
        """Write the report and return its files."""
        with exclusive(self.folder.path):
            return [self.folder / name for name in write_report(self.folder, self.journal())]

    def figures(self, *, scheme: str = "light") -> dict[str, list[Figure]]:
        """Return the report's pictures as matplotlib figures; needs the [plots] extra.

        By what they are about: ``audit.figures()["verdicts"][0].savefig("verdict.pdf")``. The
        other keys are the mechanisms and ``"error budget"``; ``scheme`` is light or dark.
        """
        return figures_of(self.folder, self.journal(), scheme)

    def _rewrite_report(self) -> None:
        if any(self.folder.has(name) for name in REPORTS):
            self.report()

    def verify(
        self,
        *,
        with_target: bool = False,
        key_file: Path | str | None = None,
        passphrase: str | None = None,
        steward_key: Path | str | None = None,
        trust: Sequence[str] = (),
        run_named_code: bool = False,
        redraw: int = 0,
        timeout: float = TIMEOUT,
        head: str | None = None,
    ) -> Verification:
        """Check the folder offline; with the target's key, compute the losses again too.

        That key is the author's, or the steward's own (``steward_key``). Stored models may
        contain our own types and those of ``trust``, whatever the folder says. Code that the
        folder names is run with ``run_named_code`` only, in a process without keys; what would
        need it is in ``not_checked`` otherwise. ``redraw`` draws so many registered seeds again,
        chosen at random, fits their models again from the stored releases, and compares what
        they give with what was stored. Named code and redraws are ended after ``timeout`` seconds
        each, and then are not checked either. ``head`` is the ledger's head as it was noted
        before: one that is no longer in it is a finding.
        """
        opener: Opener | None = None
        if with_target:
            sequential = self.journal().ledger.schedule is Schedule.SEQUENTIAL
            kind = SequentialOpener if sequential else Opener
            opener = kind(
                self.place, self.home, key_file=_path(key_file), passphrase=passphrase,
                steward_key=_path(steward_key), trusted=tuple(trust),
            )  # fmt: skip
        scope = Scope(
            types=tuple(trust), run_named_code=run_named_code, redraw=redraw,
            data=self.place.data.roots, timeout=timeout, head=head,
        )  # fmt: skip
        return verify(self.folder, opener, scope)

    def status(self) -> Status:
        """Say where the audit stands and what comes next."""
        return status_of(self.folder)

    def run(
        self, *, key_file: Path | str | None = None, passphrase: str | None = None
    ) -> SealedCertificate | None:
        """Do all remaining steps."""
        ledger = self.journal().ledger
        if not ledger.has(Stage.SEALED):
            self.seal(passphrase=passphrase)
        if not ledger.has(Stage.REGISTERED):
            self.register()
        if self.journal().ledger.schedule is Schedule.FIXED:
            self.draw()
        if ledger.has(Stage.CERTIFIED):
            if not all(self.folder.has(name) for name in REPORTS):
                self.report()
            return self.certificate()
        return self.open(key_file=key_file, passphrase=passphrase)

    def certificate(self) -> SealedCertificate:
        """Return the certificate that the ledger records."""
        return SealedCertificate.of(self.folder, self.journal())

    def picks(self) -> dict[str, ValidCount]:
        """Return, for each mechanism, how many of any releases that one picks are valid.

        ``audit.picks()["bootstrap"].of(["100", "101"])`` is the number that the report shows
        for these two, and holds with the registered confidence for every choice at once.
        """
        return self.certificate().picks()

    def journal(self) -> Journal:
        """Return the ledger as it stands on the disk."""
        return self.folder.journal()

    def _sequential(self, key_file: Path | str | None, passphrase: str | None) -> SequentialOpener:
        return SequentialOpener(
            self.place, self.home, key_file=_path(key_file), passphrase=passphrase
        )


def _path(given: Path | str | None) -> Path | None:
    return None if given is None else Path(given)
