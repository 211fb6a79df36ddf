"""A first look in one call: what stands in for a table is tried on rows of it, and shown on a page.

A trial is an audit that nobody registered: the same declaration, the same draws in clean processes,
the same losses and decisions, run in a folder that is thrown away. What it cannot have is what a
record is for, so that everything it says is exploratory. Where nobody says which rows the releases
were made from, they may have seen the records that judge them, and nothing is decided at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import DECLARATION
from proxyguard.audit.home import Home, default_home
from proxyguard.documents.canonical import Plain, canonical_bytes
from proxyguard.errors import TableError
from proxyguard.modes.evidence import Decision
from proxyguard.seal.storage import write_atomic
from proxyguard.tables.files import table_bytes
from proxyguard.trial.demands import AWAITED, number_words
from proxyguard.trial.rows import Standing, read_source

if TYPE_CHECKING:
    import pandas as pd

PAGE = "page.html"
# The records of an audit that is begun in Python.
FRESH = "fresh.parquet"
# Rows that were kept for an audit, and the rest of their table, from which it learns: in a folder
# that git leaves alone, for they are the very records that nobody is to see.
KEPT = "kept"
FRESH_ROWS, OTHER_ROWS = f"{KEPT}/fresh.csv", f"{KEPT}/other-rows.csv"
SUMMARY = "summary.json"
EXPLORATORY = "Exploratory: nothing was registered before the data were seen."
DRAWN_ALIKE = (
    "Records are taken as drawn independently, each counting once: strata, clusters and weights "
    "are declared in an audit."
)
SEEN = (
    "The releases may have seen these very records: nobody said which rows they were made from. So "
    "the figures only describe, and may flatter; --made-from or --holdout says it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequirement:
    """What was seen of one requirement, in the unit in which it is told.

    Attributes
    ----------
    name, promise
        What ``--limit`` calls it, and what is required in a sentence.
    limit, unit
        The limit as it is shown, and its unit.
    makers
        What made each release; the empty name where there is one alone, or nobody said.
    releases
        The releases, in their order.
    estimates
        What each release has; of many shares the largest deviation.
    where
        Which share or mean an estimate is, where there are several.
    decided
        What was decided of it in words; nothing where nothing is decided.
    """

    name: str
    promise: str
    limit: float
    unit: str
    makers: tuple[str, ...]
    releases: tuple[str, ...]
    estimates: tuple[float, ...]
    where: tuple[str, ...]
    decided: str = ""

    @property
    def largest(self) -> int:
        """The place of the release that comes nearest to the limit, or passes it most."""
        return int(np.argmax(self.estimates))

    @property
    def seen(self) -> str:
        """What was seen: the range of what made each release has, and how many keep the limit."""
        makers = dict.fromkeys(self.makers)
        return "; ".join(f"{m}: {self.of(m)}" if m else self.of(m) for m in makers) + "."

    @property
    def sentence(self) -> str:
        """What was decided, what is required and what was seen."""
        decided = f"{self.decided} " if self.decided else ""
        return f"{decided}{self.promise} Seen: {self.seen}"

    def of(self, maker: str) -> str:
        """Return what was seen of the releases of one maker."""
        at = [r for r, other in enumerate(self.makers) if other == maker]
        most = max(at, key=lambda r: self.estimates[r])
        said = number_words(self.estimates[most], self.unit)
        if len(at) > 1:
            least = number_words(min(self.estimates[r] for r in at))
            met = sum(self.estimates[r] < self.limit for r in at)
            said = f"{least} to {said} over {len(at):,} releases, {met:,} of them below the limit"
        if self.where[most]:
            said += f"; the largest is {self.where[most]}"
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenVerdict:
    """What was decided of one named release, or of what makes releases.

    Attributes
    ----------
    name
        The release, or what makes releases.
    decision
        The exploratory decision.
    asked
        Of what makes releases: the share of good ones that must be exceeded.
    lower, upper
        The ends of the interval that decided; nothing where p-values of a family did.
    """

    name: str
    decision: Decision
    asked: float | None = None
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenConclusion:
    """What was decided of one generator, or of the named releases with one decision, in words."""

    name: str
    """The generator, where there are several."""
    decision: Decision
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialColumn:
    """What one column was taken for."""

    name: str
    kind: str
    missing: str
    span: str
    use: str
    otherwise: str
    """The line of ``[columns]`` that says otherwise; nothing of what is not used as a feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a first look at releases has shown: sentences, figures, a page, and the way to an audit.

    `try_out` makes it.

    Attributes
    ----------
    name
        What was tried.
    standing
        What is known of the records that judge.
    requirements
        What was seen of each requirement.
    judged
        The exploratory decision on what makes the releases, or on each named release; none where
        nobody said what they were made from.
    conclusions
        The same in sentences.
    columns
        What every column was taken for: its name, its kind, the share that is missing, its range,
        and what was done with it.
    notes
        What was guessed, what was left out, and what the user vouches for.
    declaration
        The `audit.toml` of the same audit, on records that nobody has looked at.
    power
        The chance that such an audit would have with as many records and draws, in a sentence.
    n_records
        Records that judge.
    unusable
        Releases that nothing could be learned from, and why.
    weaker
        Why the requirements say less than they seem to: limits that a model which learned nothing
        keeps, columns that not everything has.
    unread
        Columns most of whose values cannot be read in some release.
    tables
        What was given as an object and lies in no file: by name, as `save_audit` writes it.
    kept
        The files of rows that were kept for an audit, ``kept/fresh.csv``, by name.
    again
        Whether an earlier trial had the same table.
    home, root
        The home that remembers, and the folder from which the declaration names files; None where
        none was given.

    Examples
    --------
    ::

        page = pg.try_out(real, releases, outcome="ill", holdout=test)
        page.sentences       # in plain words
        page.to_frame()      # one row for each release and requirement
        page.save_audit("work", fresh=later_records).run()
        page.save("try-out") # page.html, audit.toml, summary.json
    """

    name: str
    standing: Standing
    requirements: tuple[SeenRequirement, ...]
    judged: tuple[SeenVerdict, ...]
    conclusions: tuple[SeenConclusion, ...]
    columns: tuple[TrialColumn, ...]
    notes: tuple[str, ...]
    declaration: str = field(repr=False)
    power: str
    n_records: int
    unusable: Mapping[str, str] = field(default_factory=dict)
    weaker: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    tables: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    kept: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    again: bool = False
    home: Home = field(default_factory=lambda: Home(default_home()), repr=False)
    root: Path | None = field(default=None, repr=False)

    @property
    def decided(self) -> tuple[str, ...]:
        """What was decided, in sentences."""
        return tuple(
            f"{f'{said.name}: ' if said.name else ''}"
            f"{said.decision.value.capitalize()}: {' '.join(said.sentences)}"
            for said in self.conclusions
        )

    @property
    def decisions(self) -> dict[str, Decision]:
        """The decision on each by its name."""
        return {verdict.name: verdict.decision for verdict in self.judged}

    @property
    def reliability(self) -> tuple[float, float, float] | None:
        """Of one generator: the interval for the share of good releases, and what was asked."""
        if len(self.judged) != 1 or self.judged[0].asked is None:
            return None
        (verdict,) = self.judged
        lower = 0.0 if verdict.lower is None else verdict.lower
        return lower, 1.0 if verdict.upper is None else verdict.upper, float(verdict.asked or 0.0)

    @property
    def decision(self) -> Decision | None:
        """The worst of all decisions; none where nothing is decided."""
        for worst in (Decision.VIOLATION, Decision.UNRESOLVED, Decision.VALIDATED):
            if worst in self.decisions.values():
                return worst
        return None

    @property
    def heading(self) -> tuple[str, ...]:
        """What stands above everything: what this is, and what it is not."""
        what = (EXPLORATORY,) if self.standing.unseen else (SEEN, EXPLORATORY)
        return (*self.unread, *what, *self.weaker, *(DRAWN_ALIKE for _ in self.judged[:1]))

    @property
    def top(self) -> tuple[str, ...]:
        """The two lines of `heading` that stand at the top of the page."""
        most = (*self.unread, *self.weaker)[:1]
        first = (EXPLORATORY,) if self.standing.unseen else (SEEN,)
        return (*first, *(most or self.heading[len(first) : 2]))

    @property
    def below(self) -> tuple[str, ...]:
        """The other lines of `heading`, which the page has below."""
        return tuple(line for line in self.heading if line not in self.top)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was seen, in plain words: what this is, what is decided, every requirement."""
        return (*self.heading, *self.decided, *(r.sentence for r in self.requirements))

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each release and requirement, in the units that are shown."""
        import pandas as pd

        rows = []
        for requirement in self.requirements:
            for r, release in enumerate(requirement.releases):
                rows.append(
                    {
                        "maker": requirement.makers[r],
                        "release": release,
                        "requirement": requirement.name,
                        "estimate": requirement.estimates[r],
                        "limit": requirement.limit,
                        "where": requirement.where[r],
                    }
                )
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Plain]:
        """Return plain values, ready for JSON."""
        said: dict[str, Plain] = {
            "name": self.name,
            "what": list(self.heading),
            "records": self.n_records,
            "records that judge": self.standing.value,
            "sentences": list(self.sentences),
            "requirements": [
                {
                    "name": requirement.name,
                    "promise": requirement.promise,
                    "limit": requirement.limit,
                    "unit": requirement.unit.strip(),
                    "decided": requirement.decided,
                    "sentence": requirement.sentence,
                }
                for requirement in self.requirements
            ],
            "releases": [
                {str(key): _plain(cell) for key, cell in row.items()}
                for row in self.to_frame().astype(object).to_dict(orient="records")
            ],
            "columns": [asdict(column) for column in self.columns],
            "notes": list(self.notes),
            "power": self.power,
            "declaration": self.declaration,
        }
        if self.judged:
            said["decisions"] = {name: decision.value for name, decision in self.decisions.items()}
        if self.unusable:
            said["unusable"] = dict(self.unusable)
        return said

    def to_html(self) -> str:
        """Return the page, which asks for nothing from outside."""
        from proxyguard.trial.page import trial_page

        return trial_page(self)

    def _repr_html_(self) -> str:
        from proxyguard.trial.page import trial_fragment

        return trial_fragment(self)

    def save(self, folder: Path | str) -> Path:
        """Write the page, the declaration and the figures into a folder; return the page.

        Parameters
        ----------
        folder
            Made where it is not there; what an earlier trial left in it is replaced.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        self._write(place, self.kept)
        self._remember(place, place)
        write_atomic(place / DECLARATION, self.declaration.encode())
        write_atomic(place / SUMMARY, canonical_bytes(self.to_dict()))
        write_atomic(place / PAGE, self.to_html().encode())
        return place / PAGE

    def save_audit(self, folder: Path | str, fresh: object = None) -> Audit:
        """Begin the same audit: its declaration, and the tables that no file holds yet.

        Parameters
        ----------
        folder
            Where tables lie, and the audit in ``my-audit`` beside them. Tables that the trial read
            from files are not copied: the audit finds them where they are.
        fresh
            Records that nobody has looked at, in any form that `try_out` takes; without them put
            ``fresh.csv`` there.

        Returns
        -------
        Audit
            ``check`` says whether it could succeed, and ``run`` does every step.

        Raises
        ------
        RegistryError
            Where an audit was begun there already.
        TableError
            Where a table is there already under a name that is needed, or ``fresh`` is none.
        """
        place, declaration = Path(folder), self.declaration
        tables = {**self.tables, **self.kept}
        if fresh is not None:
            tables.pop(FRESH_ROWS, None)
            tables[FRESH] = table_bytes(read_source(fresh, "fresh"))
            waited = FRESH_ROWS if self.kept else AWAITED
            declaration = declaration.replace(f'file = "{waited}"', f'file = "{FRESH}"', 1)
        self._write(place, tables)
        audit = Audit(place / "my-audit", home=self.home.root)
        audit.init(declaration)
        self._remember(audit.folder.path, place)
        return audit

    def _write(self, place: Path, tables: Mapping[str, bytes]) -> None:
        for name, content in tables.items():
            write_new(place / name, content)
        if (place / KEPT).is_dir():
            write_atomic(place / KEPT / ".gitignore", b"*\n")

    def _remember(self, folder: Path, place: Path) -> None:
        """Let the home know where a declaration of this trial finds its tables."""
        self.home.remember_data(folder, [place] if self.root is None else [place, self.root])

    def __str__(self) -> str:
        return "\n".join([*self.sentences, "", *self.notes, self.power])


def refuse_other(path: Path, content: bytes) -> None:
    """Raise where a file holds something else than a table that is to be written there."""
    if path.exists() and path.read_bytes() != content:
        raise TableError(f"{path} is there already with other records; name another folder")


def write_new(path: Path, content: bytes) -> None:
    """Write a table, over no other one: it may be the only copy of records that nobody has seen."""
    refuse_other(path, content)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content)


def _plain(cell: object) -> Plain:
    if cell is None or isinstance(cell, str):
        return cell
    number = float(str(cell))
    return number if isfinite(number) else None
