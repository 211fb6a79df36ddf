"""What a declaration asks of a released table: a mean, a share, the cells of marginals."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise

from pydantic import Field, StrictStr, model_validator

from proxyguard.registry.fields import Count, Decimal, DeclarationPart, Name

OTHERS = "all others"
"""The cell of text values that are in no registered group."""


class Ways(DeclarationPart):
    """Every table over ``ways`` of these columns."""

    columns: tuple[Name, ...] = Field(min_length=1)
    ways: Count = 2

    @model_validator(mode="after")
    def _possible(self) -> Ways:
        if len(set(self.columns)) < len(self.columns) or self.ways > len(self.columns):
            raise ValueError(
                f"marginals over {self.ways} of different columns, got {list(self.columns)}"
            )
        return self


class Query(DeclarationPart):
    """A bounded query that a released table must answer as the target does.

    ``mean`` is the mean of a numeric column, clipped to ``range``; ``share`` the share of
    records with these values; ``marginals`` every cell of these tables, a workload: written
    one by one, or every table over so many ``ways`` of some ``columns``.

    The cells of marginals run over the values that a text column has in development. Those of
    a column in ``groups`` are its groups of values and one of all others; those of a numeric
    column are its ``bins``, given by the ends between them. An end belongs to the bin above.
    """

    mean: Name | None = None
    range: tuple[Decimal, Decimal] | None = None
    share: dict[Name, StrictStr] | None = None
    marginals: tuple[tuple[Name, ...], ...] | Ways | None = None
    bins: dict[Name, tuple[Decimal, ...]] | None = None
    groups: dict[Name, dict[Name, tuple[StrictStr, ...]]] | None = None

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """The columns of every marginal."""
        if isinstance(self.marginals, Ways):
            return tuple(combinations(self.marginals.columns, self.marginals.ways))
        return self.marginals or ()

    @model_validator(mode="after")
    def _one_kind(self) -> Query:
        kinds = [k for k in ("mean", "share", "marginals") if getattr(self, k) is not None]
        if len(kinds) != 1 or (self.mean is None) != (self.range is None):
            raise ValueError("a query is a mean with its range, a share, or marginals")
        return self

    @model_validator(mode="after")
    def _coded_once(self) -> Query:
        bins, groups = self.bins or {}, self.groups or {}
        asked = {column for table in self.tables for column in table}
        idle = sorted({*bins, *groups} - asked) + sorted(set(bins) & set(groups))
        if idle:
            raise ValueError(
                f"bins or groups, one of them, are of columns of the marginals; got {idle}"
            )
        for column, ends in bins.items():
            numbers = [Fraction(end) for end in ends]
            if not ends or any(a >= b for a, b in pairwise(numbers)):
                raise ValueError(
                    f"the bins of {column!r} have one end or more between them, each above the "
                    f"one before, got {list(ends)}"
                )
        for column, own in groups.items():
            members = [value for values in own.values() for value in values]
            if not all(own.values()) or len(set(members)) < len(members) or OTHERS in own:
                raise ValueError(
                    f"each group of {column!r} has values that no other has, and none is named "
                    f"{OTHERS!r}, got {own}"
                )
        return self
