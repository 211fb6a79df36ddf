"""Whom a release could give away: members, the rows that attacks compare with, and copies.

Members are the rows that draws were trained on, nonmembers the target's records. A target record
with the values of a member, in the columns that attacks see, belongs to neither: nobody could tell
the two apart, and a release that gives the member away would give it away too. `Copies`
finds these, `MemberCounts` says how many rows there will be of each kind, what stands in the way of
an exposure, and which limits finite members alone would break.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import TYPE_CHECKING

from proxyguard.documents.ledger import DevelopmentRole
from proxyguard.errors import TableError
from proxyguard.losses.measure import group_name
from proxyguard.losses.query import CodedRecords
from proxyguard.registry.declaration import Member
from proxyguard.registry.design import Iid
from proxyguard.registry.exposure import ExposureKind, ThresholdRule
from proxyguard.registry.fields import number
from proxyguard.registry.parts import RequirementPart
from proxyguard.registry.target import StratifiedDesign
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.tables.columns import as_labels

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.audit.development import MemberDevelopment


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberCounts:
    """How many members and nonmembers an audit of exposure has."""

    member: Member
    rows: Mapping[DevelopmentRole, int]
    """Rows of development, by role."""
    records: int
    """Records of the target."""
    copies: int
    """Those that have the values of a member."""
    inside: Mapping[str, int] = field(default_factory=dict)
    """Members in the group of each requirement that has one, by requirement."""

    @classmethod
    def of(
        cls, member: Member, rows: Mapping[DevelopmentRole, int], records: int, copies: int,
        members: pd.DataFrame,
    ) -> MemberCounts:  # fmt: skip
        """Count the members of every group that an exposure is about."""
        coded = CodedRecords(members)
        inside = {
            part.name: int(coded.inside(part.group.items()).sum())
            for part in member.exposures
            if part.group is not None
        }
        return cls(member=member, rows=rows, records=records, copies=copies, inside=inside)

    @classmethod
    def sealed(cls, development: MemberDevelopment) -> MemberCounts | None:
        """Return what was counted at sealing, for the requirements as they are declared now."""
        sealed = development.sealed
        if sealed.copies is None:
            return None
        counted = (sealed.development, sealed.records, sealed.copies)
        return cls.of(development.member, *counted, development.members())

    def require(self, members: pd.DataFrame, kinds: Mapping[str, str]) -> None:
        """Raise where attacks would have no members, or too few others, to be judged by.

        Parameters
        ----------
        members
            The rows that some draw may be trained on.
        kinds
            What each column holds.

        Raises
        ------
        TableError
            Fewer than half of the target are no copies, or some are where none may be left out; or
            a group or a stratum has no member, members are in strata that the target lacks, or an
            attack names a column that is not as it should be.
        """
        self._require_columns(kinds)
        if not self.member.exposures:
            return  # a claimed epsilon asks no target record
        left = self.records - self.copies
        if 2 * left < self.records:
            raise TableError(
                f"{self.member.name}: {self.copies:,} of {self.records:,} target records have the "
                "values of a member, so that fewer than half are left to be told from members; "
                "leave out the requirements about exposure, or seal records with columns that "
                "attacks see and that tell them apart"
            )
        # A record less changes the sizes of strata, and the pool that a sample is from.
        if self.copies and not isinstance(self.member.target.sampling_design, Iid):
            raise TableError(
                f"{self.member.name}: {self.copies:,} target records have the values of a member "
                "and would be left out, which is covered for iid records alone; take them out of "
                "the target, or register it as iid"
            )
        empty = [name for name, size in self.inside.items() if size == 0]
        if empty:
            raise TableError(
                f"{self.member.name}: no member is in the group of {empty}, so that there is "
                "nobody to be given away; name a group that development has"
            )
        design = self.member.target.design
        if isinstance(design, StratifiedDesign):
            self._require_strata(design, members)

    def _require_strata(self, design: StratifiedDesign, members: pd.DataFrame) -> None:
        """Raise unless the strata of members are those of the target.

        What members are flagged is the registered mixture of what each stratum's are: one without
        a member has no share, and members of another have no weight.
        """
        sizes = Counter(as_labels(members[design.by]))
        lacking = sorted(g for g in design.sizes if canonical_value(g) not in sizes)
        if lacking:
            raise TableError(
                f"{self.member.name}: the strata {lacking} of {design.by!r} have no member, "
                "and members count with the weights of their strata; enlarge "
                "development.members, or leave the strata out of the target"
            )
        beside = {
            label or "no label": size
            for label, size in sorted(sizes.items())
            if label not in {canonical_value(g) for g in design.sizes}
        }
        if beside:
            raise TableError(
                f"{self.member.name}: {sum(beside.values()):,} of {len(members):,} members are in "
                f"strata of {design.by!r} that the target lacks, {beside}, and members count with "
                "the weights of its strata; take rows of these strata out of the table, or name "
                "the strata in target.design with sizes and weights"
            )

    def _require_columns(self, kinds: Mapping[str, str]) -> None:
        for part in self.member.exposures:
            for name in part.attacks or ():
                settings = self.member.attacking.settings(name)
                absent = sorted(settings.columns - set(kinds))
                if absent:
                    raise TableError(
                        f"{part.name}: {name!r} names the columns {absent}, and the table has "
                        f"{list(kinds)}"
                    )
                if settings.tolerance is not None and kinds[str(settings.secret)] != "number":
                    raise TableError(
                        f"{part.name}: {name!r} takes guesses of {settings.secret!r} within a "
                        "tolerance, and that column holds no numbers; leave tolerance out"
                    )

    def words(self) -> str:
        """Say how many rows there are of each kind."""
        held = [f"{self.rows['reference']:,} reference rows"]
        if "calibration" in self.rows:
            held.append(f"{self.rows['calibration']:,} calibration rows")
        hidden = self.member.excluded
        unseen = f"; no attack sees {list(hidden)}, which are excluded and not compared"
        return (
            f"{self.member.name}: exposure is about {self.rows['training']:,} members, with "
            f"{' and '.join(held)}, and {self.records - self.copies:,} nonmembers: of "
            f"{self.records:,} target records {self.copies:,} have the values of a member and are "
            f"left out{unseen if hidden else ''}"
        )

    def warnings(self) -> list[str]:
        """Return which limits lie below what finite members alone produce, and by how much."""
        return [warning for part in self.member.exposures for warning in self._too_low(part)]

    def _too_low(self, part: RequirementPart) -> Iterator[str]:
        rows = self.inside.get(part.name, self.rows["training"])
        # By coins a draw gets about every other row, and the rest are no members of it.
        tossed = any(self.member.tossed(mechanism.name) for mechanism in self.member.mechanism)
        members = max(1, rows // 2) if tossed else rows
        chance = by_chance(part, members)
        limit = number(str(part.limit))
        if limit > chance.expected:
            return
        group = "" if part.group is None else f" with {group_name(part.group)}"
        most = "up to" if part.exposure is not None and part.exposure.counts_success else "about"
        coins = f", about half of {rows:,} by coins," if tossed else ""
        remedy = "raise the limit"
        enough = chance.enough(limit)
        if enough is not None:
            remedy += f", or train on at least {enough:,} members"
            remedy += f", {2 * enough:,} rows to toss for" if tossed else ""
        yield (
            f"{part.name}: {members:,} members{group}{coins} are themselves a sample, so that "
            f"releases that give nothing away often reach {most} {chance.expected:.3g}, and the "
            f"limit is {part.limit}; {remedy}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """What an attack shows of a release that gives nothing away, because members are a sample.

    Attributes
    ----------
    base
        What it shows on average.
    spread
        How far from that it often is with one member; with ``N`` it is ``spread/sqrt(N)``.
    members
        How many members there are.
    """

    base: float
    spread: float
    members: int

    @property
    def expected(self) -> float:
        """What is often reached."""
        return self.base + self.spread / sqrt(self.members)

    def enough(self, limit: float) -> int | None:
        """Return how many members bring it below a limit; nothing where no number does."""
        return ceil((self.spread / (limit - self.base)) ** 2) + 1 if limit > self.base else None


# One-sided Kolmogorov distance of a sample from its own law: exp(-2 x^2) is 0.2 at x = 0.9.
_EVERYWHERE = 0.9


def by_chance(part: RequirementPart, members: int) -> Chance:
    """Return what an exposure is where a release gives nothing away, in about one of six cases.

    Members are as many draws of the law that others come from: the share of them that is flagged
    has standard deviation ``sqrt(phi(1 - phi)/N)``, the mean rank of their scores
    ``1/sqrt(12 N)``.
    """
    base, flagged = 0.0, 0.5  # whose standard deviation is largest, where nothing is known of it
    if isinstance(part.threshold, ThresholdRule):
        flagged = 1.0 - number(part.threshold.quantile)
    if part.fpr is not None:
        base = flagged = number(part.fpr)
    spread = sqrt(flagged * (1.0 - flagged))
    if part.exposure is ExposureKind.EVERYWHERE:
        spread = _EVERYWHERE
    elif part.exposure is ExposureKind.AUC:
        base, spread = 0.5, sqrt(1.0 / 12.0)
    return Chance(base=base, spread=spread, members=members)
