"""Every exception proxyguard raises on purpose.

ProxyGuardError
  RegistryError          a declaration that cannot be honoured        (also ValueError)
    BudgetOverspent        error levels that sum past their budget
    AttackRefused          an attack by import path gave no scores that a claim could rest on
  UnsupportedDesign      no certificate here covers the declared design (also ValueError)
  LossError              an array of losses is not what was declared  (also ValueError)
    LossOutOfBounds        a loss left the interval the requirement promised
    LossMismatch           shapes, record ids or sizes disagree
  TableError             a table file is not what was declared        (also ValueError)
    UnreadValue            a value is not of the kind that its column holds
  DrawError              a generator or procedure did not give a usable release
    UnansweredDraw       a draw was begun and gave nothing that is kept
  SealError              the record of what was promised is broken or was not kept
    DigestMismatch         a value differs from the one that was sealed
    StageError             a step was attempted before the step it rests on, or twice
    KeyMissing             the key that a step needs is not here, or is another one
    KeyExists              a key would have replaced another one
    Busy                   another process is working on the audit
    DiskError              a file could not be written; nothing was changed
    DocumentError          a document of an audit is not in its form
    BrokenTable            a stored table is none that an audit writes (also TableError)
    Withheld               a part of the development rows is not in the folder
    UntrustedCode          the record asks for code that nobody here asked to be run
    Unprotected            a secret lies where others can reach it, and cannot be closed here
  TargetReused           a target record was offered a second time where it must be fresh
  MissingExtra           an extra of this package is not installed    (also ImportError)

"Unresolved" is a decision, not an error; an error is never reported as
"unresolved". Two are warnings: `StoodOpen`, that a secret could be read by others until now, and
`VoidGrant`, that a file in the place of a grant was none and was replaced.
"""

from __future__ import annotations

from collections.abc import Sequence


class ProxyGuardError(Exception):
    """Base of every error that proxyguard raises on purpose."""


class RegistryError(ProxyGuardError, ValueError):
    """A declaration that cannot be honoured."""


class BudgetOverspent(RegistryError):
    """Error levels that sum past the budget they are taken from."""


class AttackRefused(RegistryError):
    """An attack by import path gave no scores that a claim could rest on."""


class UnsupportedDesign(ProxyGuardError, ValueError):
    """No certificate here covers the declared design."""


class LossError(ProxyGuardError, ValueError):
    """An array of losses is not what was declared."""


class LossOutOfBounds(LossError):
    """A loss left the interval its requirement promised.

    The facts of the message are attributes, so that a program can act on them.
    """

    def __init__(
        self,
        *,
        requirement: str,
        release: object,
        record: object,
        value: float,
        promised: str,
        remedy: str,
        mechanism: str | None = None,
    ) -> None:
        self.requirement = requirement
        self.release = release
        self.record = record
        self.value = value
        self.promised = promised
        self.remedy = remedy
        self.mechanism = mechanism
        place = f"release {release}, record {record}"
        odd = "no number" if value != value else "another value"
        # Without the value itself, which may tell the outcome of a record.
        super().__init__(
            f"{requirement}: {f'{mechanism}, ' if mechanism else ''}{place} has {odd}, "
            f"promised {promised}; {remedy}"
        )

    def within(self, mechanism: str) -> LossOutOfBounds:
        """Return the same error, saying in which mechanism of a family it happened."""
        return LossOutOfBounds(
            requirement=self.requirement,
            release=self.release,
            record=self.record,
            value=self.value,
            promised=self.promised,
            remedy=self.remedy,
            mechanism=mechanism,
        )


class LossMismatch(LossError):
    """Shapes, record ids or sizes disagree with each other or with the declaration."""


class TableError(ProxyGuardError, ValueError):
    """A table file is missing, broken, or not what was declared."""


class UnreadValue(TableError):
    """A value is not of the kind that its column holds; the value itself is not told.

    Parameters
    ----------
    column
        The column.
    row
        The row of its table, from 0.
    holds
        What the column holds, in words.
    remedy
        What to do.
    release
        Whether it is a table's whose reading was sealed before it was made.
    more
        How many further values of the column cannot be read.
    others
        The same of other columns of the table.
    table
        The table, where it is a file.
    """

    def __init__(
        self, column: str, row: int, holds: str, remedy: str, *, release: bool = False,
        more: int = 0, others: Sequence[UnreadValue] = (), table: str | None = None,
    ) -> None:  # fmt: skip
        self.column, self.row, self.holds, self.remedy = column, row, holds, remedy
        self.release, self.more, self.others = release, more, tuple(others)
        self.place = f"row {row + 1}" + (f" and {more:,} more" if more else "")
        where = self.place if table is None else f"{table}, {self.place}"
        has = "have" if more else "has"
        self.words = f"column {column!r} {holds}, and {where} {has} none that can be read"
        also = [f"{error.column!r}, {error.place}" for error in self.others[:8]]
        also += [f"{len(self.others) - 8} more columns"] if len(self.others) > 8 else []
        same = f"; the same of {'; '.join(also)}" if also else ""
        if release:
            remedy = "mend the release; how columns are read is sealed with the target"
        super().__init__(f"{self.words}{same}; {remedy}")

    def within(
        self, table: str | None = None, *, others: Sequence[UnreadValue] = ()
    ) -> UnreadValue:
        """Return the same error, of a table by its name, or with those of other columns."""
        return UnreadValue(
            self.column, self.row, self.holds, self.remedy, release=self.release,
            more=self.more, others=others or self.others, table=table,
        )  # fmt: skip


class DrawError(ProxyGuardError):
    """A generator or a procedure did not give a usable release."""


class UnansweredDraw(DrawError):
    """A draw was begun and gave nothing that is kept; what it showed its author, it showed."""

    def __init__(self, seed: int, message: str) -> None:
        super().__init__(message)
        self.seed = seed


class SealError(ProxyGuardError):
    """The record of what was promised is broken or was not kept."""


class DigestMismatch(SealError):
    """A value differs from the one that was sealed."""

    def __init__(self, what: str, *, sealed: str, found: str) -> None:
        self.what, self.sealed, self.found = what, sealed, found
        super().__init__(
            f"{what} was sealed with digest {sealed[:16]}..., found {found[:16]}...; "
            "restore the sealed value, nothing else can repair this"
        )


class DocumentError(SealError):
    """A document of an audit is not in its form: which file, which field, and why.

    Of a folder that is verified this is a finding. ``field`` is a path such as
    ``members.target.bootstrap.draws.0.seed``, empty for the document as a whole.
    """

    def __init__(self, file: str, field: str, problem: str) -> None:
        self.file, self.field, self.problem = file, field, problem
        super().__init__(f"{file}: {f'{field}: ' if field else ''}{problem}")


class BrokenTable(SealError, TableError):
    """A stored table is none that an audit writes: broken, nested, or larger than it says."""


class Withheld(SealError):
    """A recorded part of the development rows is not in the folder: withheld, or removed."""


class StageError(SealError):
    """A step was attempted before the step it rests on, or twice."""


class KeyMissing(SealError):
    """The key that a step needs is not here, or is another one."""


class KeyExists(SealError):
    """A key would have replaced another one."""


class Busy(SealError):
    """Another process is working on the audit."""


class DiskError(SealError):
    """A file could not be written; nothing was changed."""


class UntrustedCode(SealError):
    """The record asks for code, or for types of a stored model, that are not run here.

    ``names`` are import paths or types: what a reader of the folder would have to trust.
    """

    def __init__(self, message: str, *, names: tuple[str, ...] = ()) -> None:
        self.names = names
        super().__init__(message)


class Unprotected(SealError):
    """A key or the lineage store lies where others can reach it, and cannot be closed here."""


class TargetReused(ProxyGuardError):
    """A target record was offered a second time where every record must be fresh."""


class MissingExtra(ProxyGuardError, ImportError):
    """Something was asked for that an extra of this package brings, and it is not installed."""

    def __init__(self, what: str, modules: Sequence[str], extra: str = "audit") -> None:
        self.what, self.modules, self.extra = what, tuple(modules), extra
        super().__init__(
            f'{what} needs the extra {extra}; type: pip install "proxyguard[{extra}]" '
            f"(not installed here: {', '.join(modules)})"
        )


class StoodOpen(ProxyGuardError, UserWarning):
    """A key or the lineage store could be read by others of this machine; it was closed."""


class VoidGrant(ProxyGuardError, UserWarning):
    """A file in the place of the grant was none for this folder, and was replaced."""


class NoFork(ProxyGuardError, UserWarning):
    """This system cannot fork, so draws are made in processes that are started one by one."""
