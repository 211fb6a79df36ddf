"""The whole audit as one object, the same steps as on the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from proxyguard.audit import draw as drawing
from proxyguard.audit import grant as granting
from proxyguard.audit import register as registering
from proxyguard.audit import seal as sealing
from proxyguard.audit.check import Begun, Check, begun, check, template
from proxyguard.audit.development import Workplace
from proxyguard.audit.folder import DECLARATION, REPORTS, AuditFolder
from proxyguard.audit.home import (
    DataFolders,
    Handover,
    Home,
    default_home,
    processors,
    rotate_key,
    software_versions,
)
from proxyguard.audit.open import Opener, deviate
from proxyguard.audit.outcome import (
    CorrectiveCertificate,
    FrozenReleases,
    JudgedCandidate,
    Registration,
    SealedCertificate,
    Sealing,
    drawn_figures,
    write_report,
)
from proxyguard.audit.seal import Keeper
from proxyguard.audit.status import GRANT_NEXT, Status, status_of
from proxyguard.audit.verify import TIMEOUT, Scope, Verification, verify
from proxyguard.documents.ledger import DesignText, GrantStatement
from proxyguard.draw.pool import DrawingPool
from proxyguard.errors import RegistryError, StageError
from proxyguard.modes.count import ValidCount
from proxyguard.progress import Progress, progress_here
from proxyguard.registry.numbers import callback, listed, path, whole
from proxyguard.seal.journal import Journal
from proxyguard.seal.ledger import Schedule, Stage
from proxyguard.seal.storage import exclusive, write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Audit:
    """One audit folder and the steps that lead from a declaration to a certificate.

    Parameters
    ----------
    folder
        Where the audit lies, or will: what is given to others.
    home
        Where keys and the lineage store lie, never in the folder; the user's own unless given.
    data
        Folders in which the tables of the declaration are looked for, before
        ``$PROXYGUARD_DATA`` and the folder that the audit lies in.
    workers
        How many processes draw and fit; as many as there are processors unless given.
    progress
        Called with what is done, how much of it, and of how much. Unless given, a notebook shows
        a line of it, and nothing is shown elsewhere.

    Raises
    ------
    RegistryError
        Where an argument is none.

    Guarantee
    ---------
    The order of the steps is the ledger's: a step that comes too early or twice raises
    `StageError` and changes nothing. A kill at any instant loses nothing that was recorded.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as work:
    ...     audit = Audit(f"{work}/audit", home=f"{work}/home")
    ...     written = audit.init()
    ...     print(written.name, audit.status().next)
    audit.toml seal
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
        self._data = [path(root, "data") for root in listed(data, "data")]
        self._workers = processors() if workers is None else whole(workers, "workers")
        if progress is not None:
            callback(progress, "progress")
        if progress is None and "IPython" in sys.modules:
            progress = progress_here()
        self._progress: Progress = progress or (lambda what, done, total: None)
        self._pool: DrawingPool | None = None

    @property
    def place(self) -> Workplace:
        """The folder with what the steps may use."""
        return Workplace(
            folder=self.folder,
            data=DataFolders.of(
                self.folder.path, [*self._data, *self.home.data_of(self.folder.path)]
            ),
            home=str(self.home.root),
            workers=self._workers,
            progress=self._progress,
            shared=self._pool,
        )

    @contextmanager
    def _drawing_soon(self) -> Iterator[None]:
        """Let the process that draws are forked from import while the steps before them run."""
        with DrawingPool() as pool:
            pool.open()
            self._pool = pool
            try:
                yield
            finally:
                self._pool = None

    def init(self, declaration: str | None = None) -> Path:
        """Make the folder with a declaration to fill in, and the signing key if there is none.

        Parameters
        ----------
        declaration
            The text of `audit.toml`; a template unless given.

        Returns
        -------
        Path
            Of the declaration.

        Raises
        ------
        RegistryError
            Where there is one already.
        """
        if self.folder.path.exists() and not self.folder.path.is_dir():
            raise RegistryError(f"{self.folder.path} is a file; name the folder to be made")
        self.folder.path.mkdir(parents=True, exist_ok=True)
        written = self.folder / DECLARATION
        with exclusive(self.folder.path):
            if written.exists():
                raise RegistryError(
                    f"{written} is here already; go on with proxyguard check {self.folder.path}"
                )
            write_atomic(written, (declaration or template()).encode())
        self.home.make_signing_key()
        return written

    def begun(self) -> Begun:
        """Return what the declaration wants put where, and whose code it runs."""
        sealed = self.journal().ledger.has(Stage.SEALED)
        declaration, beside = self.folder.declaration(), self.folder.path.parent
        return begun(declaration, self.place.data, beside, sealed=sealed)

    def check(self, *, draw: bool = True) -> Check:
        """Say whether the audit could succeed as declared, before anything irreversible.

        Parameters
        ----------
        draw
            Draw one seed of every generator that is not ours twice, to compare the releases; what
            takes longer than twenty seconds is left.

        Returns
        -------
        Check
            Problems, what cannot succeed, warnings and facts.
        """
        return check(self.place, draw=draw)

    def seal(
        self,
        *,
        passphrase: str | None = None,
        steward: str | None = None,
        as_steward: bool = False,
    ) -> Sealing:
        """Set the target aside and encrypt it.

        Parameters
        ----------
        passphrase
            Protects the target's key on this machine.
        steward
            The identity of a second person, without whom the target cannot be opened.
        as_steward
            Whether this person is the steward of somebody else's audit, and holds the key.

        Returns
        -------
        Sealing
            What was recorded of the sealed target.

        Raises
        ------
        RegistryError
            Where the declaration cannot be honoured.
        StageError
            Where it is sealed already.
        """
        keeper = Keeper(passphrase=passphrase, steward=steward, by_steward=as_steward)
        return sealing.seal(self.folder, self.home, self.place.data, keeper, software_versions())

    def register(self) -> Registration:
        """Resolve every rule on development data and freeze the claim.

        Returns
        -------
        Registration
            The limits and roles that the rules gave.

        Raises
        ------
        RegistryError
            Where what was sealed is no longer declared alike, or a rule cannot be honoured.
        StageError
            Where nothing is sealed, or the claim is registered.
        """
        registering.register(self.place, self.home, software_versions())
        return Registration.of(self.folder)

    def amend(self, reason: str, exclude: Sequence[tuple[str, int]] = ()) -> Registration:
        """Register `audit.toml` as it stands now, before any outcome is seen.

        Parameters
        ----------
        reason
            Why; it stands in the certificate.
        exclude
            Mechanism and seed of every draw that is taken out of the claim; it is kept as
            descriptive, and what is not listed counts again.

        Returns
        -------
        Registration
            The limits and roles that the rules gave.

        Raises
        ------
        StageError
            Where the target was opened already, or nothing is registered.
        """
        registering.amend(
            self.place, self.home, software_versions(), reason=reason, exclude=tuple(exclude)
        )
        return Registration.of(self.folder)

    def draw(self, again: Sequence[tuple[str | None, int]] = ()) -> FrozenReleases:
        """Draw every registered release and freeze them.

        Parameters
        ----------
        again
            Seeds, each with its mechanism or None for all, whose draws wait already and are dropped
            and made again; the record says so.

        Returns
        -------
        FrozenReleases
            What was drawn, and which draws failed.

        Raises
        ------
        DrawError
            Where draws could not be made; those that were are kept.
        StageError
            Where nothing is registered.
        """
        return FrozenReleases(manifest=drawing.draw(self.place, self.home, again))

    def grant(self, steward_key: Path | str, *, again: str | None = None) -> GrantStatement:
        """Release the target's key for what is registered and frozen now: the steward's step.

        Parameters
        ----------
        steward_key
            The file with the steward's own key.
        again
            Why records that were granted before are granted once more; the certificate repeats it,
            and has no guarantee. Without it they are refused.

        Returns
        -------
        GrantStatement
            What was granted.

        Raises
        ------
        SealError
            Where the folder is broken, or the key is not the steward's.
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

        Parameters
        ----------
        key_file
            The target's key, where it is not in the home.
        passphrase
            Of the target's key, where it has one.
        write_records
            Write the losses of single records, encrypted, into the folder.
        most
            Stops a sequential audit after so many further draws.

        Returns
        -------
        SealedCertificate or None
            None where a sequential audit was stopped by ``most`` and is not decided.

        Raises
        ------
        StageError
            Where a step before it is missing, or the target was opened already.
        KeyMissing
            Where the target's key is not here.
        """
        opener = Opener(
            self.place, self.home, key_file=_path(key_file), passphrase=passphrase,
            write_records=write_records,
        )  # fmt: skip
        if self.journal().ledger.schedule is Schedule.SEQUENTIAL:
            return self.certificate() if opener.open(most) else None
        # Nothing is read before the opener has locked the folder; from there on every file is
        # read once, so that what was checked is what is scored, signed and reported.
        with self.folder.step():
            opener.open()
            return self.certificate()

    def submit(
        self,
        candidate: Path | str,
        *,
        key_file: Path | str | None = None,
        passphrase: str | None = None,
    ) -> JudgedCandidate:
        """Judge the next candidate of a stream.

        Parameters
        ----------
        candidate
            The file with the candidate.
        key_file
            The target's key, where it is not in the home.
        passphrase
            Of the target's key, where it has one.

        Returns
        -------
        JudgedCandidate
            The verdict of this round.
        """
        return self._opener(key_file, passphrase).submit(Path(candidate))

    def close(
        self, *, key_file: Path | str | None = None, passphrase: str | None = None
    ) -> SealedCertificate:
        """End a stream and certify its rounds.

        Parameters
        ----------
        key_file
            The target's key, where it is not in the home.
        passphrase
            Of the target's key, where it has one.

        Returns
        -------
        SealedCertificate
            The verdicts of all rounds.
        """
        self._opener(key_file, passphrase).close()
        return self.certificate()

    def deviate(self, reason: str) -> None:
        """Record, after opening, that something was not done as registered.

        Parameters
        ----------
        reason
            What, and why; it stands in the report, and verify repeats it.
        """
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
        otherwise. It has no confidence level of its own: the design was chosen after opening.

        Parameters
        ----------
        reason
            Why the registered design was not the right one.
        design
            The design that is.
        key_file
            The target's key, where it is not in the home.
        passphrase
            Of the target's key, where it has one.

        Returns
        -------
        CorrectiveCertificate
            Without a verdict where it is the second one, which is recorded as a deviation.
        """
        corrected = self._opener(key_file, passphrase).correct(reason, design)
        self._rewrite_report()
        return corrected

    def rotate_key(self) -> Handover:
        """Hand the audit over to a new signing key: recorded, and signed by the old one.

        Returns
        -------
        Handover
            The identities before and after. The old key is kept in the home's ``retired/``,
            because what was encrypted for it opens with it alone.
        """
        handed = rotate_key(self.folder, self.home)
        self._rewrite_report()
        return handed

    def report(self) -> list[Path]:
        """Write the report and return its files."""
        with exclusive(self.folder.path), self.folder.step():
            return [self.folder / name for name in write_report(self.folder, self.journal())]

    def figures(self, *, scheme: str = "light") -> dict[str, list[Figure]]:
        """Return the report's pictures as matplotlib figures; needs the [plots] extra.

        Parameters
        ----------
        scheme
            ``light`` or ``dark``.

        Returns
        -------
        dict of str to list of Figure
            By what they are about: ``audit.figures()["verdicts"][0].savefig("verdict.pdf")``. The
            other keys are the mechanisms and ``"error budget"``.
        """
        return drawn_figures(self.folder, self.journal(), scheme)

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

        Parameters
        ----------
        with_target
            Open the target again and compute the losses.
        key_file
            The target's key, where it is not in the home.
        passphrase
            Of the target's key, where it has one.
        steward_key
            The steward's own key, in place of the author's.
        trust
            Types that stored models may contain beside our own, whatever the folder says.
        run_named_code
            Run code that the folder names, in a process without keys; what would need it is in
            ``not_checked`` otherwise.
        redraw
            Draw so many registered seeds again, chosen at random, fit their models again from the
            stored releases, and compare what they give with what was stored.
        timeout
            Seconds after which named code and redraws are each ended, and then are not checked.
        head
            The ledger's head as it was noted before: one that is no longer in it is a finding.

        Returns
        -------
        Verification
            What does not hold, and what was not checked.
        """
        opener: Opener | None = None
        if with_target:
            opener = Opener(
                self.place, self.home, key_file=_path(key_file), passphrase=passphrase,
                steward_key=_path(steward_key), trusted=tuple(trust),
                run_named_code=run_named_code,
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
        self,
        *,
        key_file: Path | str | None = None,
        passphrase: str | None = None,
        steward: str | None = None,
    ) -> SealedCertificate | None:
        """Do all remaining steps.

        Parameters
        ----------
        key_file
            The target's key, where it is not in the home.
        passphrase
            Of the target's key, where it has one.
        steward
            As `seal`: the steps end where the steward has to grant, and go on after that.

        Returns
        -------
        SealedCertificate or None
            As `open`, and None where the steward's step comes next.
        """
        ledger = self.journal().ledger
        if not ledger.has(Stage.SEALED):
            self.seal(passphrase=passphrase, steward=steward)
        elif steward not in (None, ledger.sealed.steward):
            raise StageError("sealed: it is sealed already, and not for this steward")
        if not ledger.has(Stage.REGISTERED):
            self.register()
        if self.journal().ledger.schedule is Schedule.FIXED:
            self.draw()
        if ledger.has(Stage.CERTIFIED):
            if not all(self.folder.has(name) for name in REPORTS):
                self.report()
            return self.certificate()
        if self.status().next == GRANT_NEXT:
            return None
        return self.open(key_file=key_file, passphrase=passphrase)

    def certificate(self) -> SealedCertificate:
        """Return the certificate that the ledger records."""
        return SealedCertificate.of(self.folder, self.journal())

    def picks(self) -> dict[str, ValidCount]:
        """Return, for each mechanism, how many of any releases that one picks are valid.

        Returns
        -------
        dict of str to ValidCount
            ``audit.picks()["bootstrap"].of(["100", "101"])`` is the number that the report shows
            for these two, and holds with the registered confidence for every choice at once.

        Raises
        ------
        RegistryError
            Where no budget was registered for picks.
        """
        return self.certificate().picks()

    def journal(self) -> Journal:
        """Return the ledger as it stands on the disk."""
        return self.folder.journal()

    def _opener(self, key_file: Path | str | None, passphrase: str | None) -> Opener:
        return Opener(self.place, self.home, key_file=_path(key_file), passphrase=passphrase)


def _path(given: Path | str | None) -> Path | None:
    return None if given is None else Path(given)
