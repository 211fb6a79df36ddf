"""The kinds of value that a declaration is made of, each refusing what it cannot mean.

Texts, numbers written as text, sizes and paths first; then the base of every part of a
declaration; then the query, what a declaration may ask of a released table: a mean, a ratio of two,
a correlation, a share, the cells of marginals.
"""

from __future__ import annotations

import ast
import inspect
import json
import linecache
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise
from math import comb
from typing import Annotated, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    SerializerFunctionWrapHandler,
    StrictInt,
    StrictStr,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from proxyguard.errors import RegistryError
from proxyguard.registry.numbers import (
    MOST_DRAWS,
    MOST_POOL,
    MOST_RECORDS,
    canonical_value,
    exact,
    share,
)
from proxyguard.registry.requirement import check_range


def _decimal(text: str) -> str:
    try:
        exact(text)
    except RegistryError:
        raise ValueError(
            f'expected a number written as text, such as "0.05", got "{text}"{_meant(text)}'
        ) from None
    return text


def _meant(text: str) -> str:
    """Return what was probably meant by a percentage, a comma for the point, or a unit."""
    number = text.strip().replace(",", ".").replace("percent", "%")
    percent = number.endswith("%")
    amount, _, unit = number.partition(" ")
    if unit and not percent and _meant(f"{amount}%"):
        return f'; write "{amount}", and of a loss of numbers unit = "{unit.strip()}" beside it'
    try:
        meant = exact(number.removesuffix("%").strip()) / (100 if percent else 1)
    except RegistryError:
        return ""
    return f'; write "{float(meant):g}"'


def _share(text: str) -> str:
    if not 0 < Fraction(_decimal(text)) < 1:
        share_of_100 = 2 <= Fraction(text) < 100
        raise ValueError(
            f'expected a number between 0 and 1, such as "0.05", got "{text}"'
            + (f'; for {text} % write "{float(Fraction(text) / 100):g}"' if share_of_100 else "")
        )
    try:
        share(text, "a level or share")
    except RegistryError as error:
        raise ValueError(str(error)) from None
    return text


def _inside(text: str) -> str:
    # A declaration may come from anybody: it names files of the data folders and no others.
    if text.startswith("/") or "\\" in text or ".." in text.split("/"):
        raise ValueError(
            f"expected a path inside the data folders, with forward slashes, got {text!r}"
        )
    return text


def number(text: str) -> float:
    """Return a declared number as the nearest double: ``0.05``, ``1/6``."""
    return float(Fraction(text))


_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def is_day(text: str) -> bool:
    """Return whether an end between bins is written as a date, and not as a number."""
    return _DAY.fullmatch(text) is not None


def bin_end(text: str) -> Fraction:
    """Return an end between bins as a number; a date is its days since 1970-01-01.

    >>> bin_end("1961-01-10"), bin_end("26.5")
    (Fraction(-3278, 1), Fraction(53, 2))
    """
    if not is_day(text):
        return Fraction(text)
    return Fraction((date.fromisoformat(text) - date(1970, 1, 1)).days)


def _bin_end(text: str) -> str:
    if not is_day(text):
        return _decimal(text)
    bin_end(text)  # a ValueError says what is wrong with its month or day
    return text


DecimalText = Annotated[StrictStr, AfterValidator(_decimal)]
BinEnd = Annotated[StrictStr, AfterValidator(_bin_end)]
Share = Annotated[StrictStr, AfterValidator(_share)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=200)]
TableDigest = Annotated[StrictStr, Field(pattern="^[0-9a-f]{64}$")]
Text = Annotated[StrictStr, Field(min_length=1, max_length=2000)]
FilePath = Annotated[StrictStr, Field(min_length=1, max_length=500), AfterValidator(_inside)]
# Bounded where they are read: lists and arrays are made from them, and a registry from anybody
# must not exhaust the memory of whoever verifies it.
Positive = Annotated[StrictInt, Field(ge=1, le=MOST_RECORDS)]
DrawCount = Annotated[StrictInt, Field(ge=1, le=MOST_DRAWS)]
GridSize = Annotated[StrictInt, Field(ge=1, le=10_001)]  # thresholds that are tried
PoolSize = Annotated[StrictInt, Field(ge=1, le=MOST_POOL)]
SeedNumber = Annotated[StrictInt, Field(ge=0, lt=2**32)]  # what every library takes as a seed
Label = StrictStr | StrictInt | bool


# The format of `audit.toml` and of every document of an audit: one number, for one release reads
# and writes all of them.
Format = Literal[1]
FORMAT: Format = 1


class DescribedModel(BaseModel):
    """A model whose fields are described, in its schema, by the text under each of them.

    pydantic can read these texts too, but does so when a class is made: for all documents of an
    audit that takes a tenth of a second of every start, and schemas are asked for once a release.
    """

    example: ClassVar[str] = ""
    """How a declaration writes it, where its required keys alone do not show that."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        # From the class itself up: a field that is declared again is described by its own text.
        for kind in cls.__mro__:
            for name, text in described(kind) if issubclass(kind, DescribedModel) else ():
                field = cls.model_fields.get(name)
                if field is not None:
                    properties[field.alias or name].setdefault("description", text)
        return schema


@cache  # a file has many classes
def _classes(file: str) -> dict[str, ast.ClassDef]:
    """Return the classes at the top of a file, by their names."""
    lines = linecache.getlines(file)
    return {
        made.name: made for made in ast.parse("".join(lines)).body if isinstance(made, ast.ClassDef)
    }


def _source(kind: type[DescribedModel]) -> ast.ClassDef:
    """Return a class as it is written."""
    if "." not in kind.__qualname__:
        return _classes(inspect.getfile(kind))[kind.__name__]
    # inspect reads the whole file for each class that it looks for.
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(made, ast.ClassDef)  # the source of a class
    return made


@cache  # one class is a part of many schemas
def described(kind: type[DescribedModel]) -> list[tuple[str, str]]:
    """Return the fields that a class itself declares, each with the text that stands under it."""
    described = []
    for field, text in pairwise(_source(kind).body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(words))):
                described.append((name, " ".join(words.split())))
    return described


class DeclarationPart(DescribedModel):
    """A frozen part of a declaration; a key that it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    LATER: ClassVar[tuple[str, ...]] = ()
    """Keys that the format got later: written where declared, so that old registries keep their
    bytes."""

    @model_serializer(mode="wrap")
    def _leave_out_later(self, written: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        values: dict[str, JsonValue] = written(self)
        for name in self.LATER:
            field = type(self).model_fields[name]
            if getattr(self, name) == field.get_default(call_default_factory=True):
                values.pop(name, None)
        return values


QUERIES = ("mean", "ratio", "correlation", "share", "marginals")
# Marginals of one query.
MOST_TABLES = 10_000
# The cell of text values that are in no registered group.
OTHERS = "all others"


class Ways(DeclarationPart):
    """Every table over ``ways`` of these columns."""

    columns: tuple[Name, ...] = Field(min_length=1)
    """The columns."""
    ways: Positive = 2
    """How many of them a table is over."""

    @model_validator(mode="after")
    def _possible(self) -> Ways:
        if len(set(self.columns)) < len(self.columns) or self.ways > len(self.columns):
            raise ValueError(
                f"marginals over {self.ways} of different columns, got {list(self.columns)}"
            )
        # Counted before they are made: 10 of 100 columns are more tables than there is memory.
        tables = comb(len(self.columns), self.ways)
        if tables > MOST_TABLES:
            raise ValueError(
                f"{self.ways} of {len(self.columns)} columns make {tables:,} tables, and there are "
                f"at most {MOST_TABLES:,}; name fewer columns or fewer ways"
            )
        return self


Ends = tuple[DecimalText, DecimalText]


class Query(DeclarationPart):
    """A bounded query that a released table must answer as the target does.

    ``mean`` is the mean of a numeric column, clipped to ``range``; ``ratio`` the mean of one
    over the mean of another, both clipped to their ``ranges``; ``correlation`` the mean product of
    two, each less a centre and divided by a scale, clipped to ``range``. ``share`` is the share of
    records with these values; ``marginals`` every cell of these tables, a workload: written
    one by one, or every table over so many ``ways`` of some ``columns``.

    The cells of marginals run over the values that a text column has in development. Those of
    a column in ``groups`` are its groups of values and one of all others; those of a numeric
    column are its ``bins``, given by the ends between them. An end belongs to the bin above.
    """

    LATER = ("ratio", "ranges", "correlation", "standard")

    mean: Name | None = None
    """A numeric column, whose mean is asked for."""
    range: Ends | None = None
    """Of a mean or a correlation: the ends that values are clipped to."""
    ratio: tuple[Name, Name] | None = None
    """Two numeric columns: the mean of the first over the mean of the second."""
    ranges: dict[Name, Ends] | None = None
    """Of a ratio: the ends that each column is clipped to, from 0 on for the second."""
    correlation: tuple[Name, Name] | None = None
    """Two numeric columns, whose mean product is asked for once they are standardised."""
    standard: dict[Name, tuple[DecimalText, DecimalText]] | None = None
    """Of a correlation: centre and scale of a column; else its mean and deviation in training."""
    share: dict[Name, StrictStr] | None = None
    """Columns and values: the share of the records that have them."""
    marginals: tuple[tuple[Name, ...], ...] | Ways | None = None
    """Tables of columns: the share of every cell."""
    bins: dict[Name, tuple[BinEnd, ...]] | None = None
    """The ends between the bins of a numeric column; of one of dates, dates: "2024-01-31"."""
    groups: dict[Name, dict[Name, tuple[StrictStr, ...]]] | None = None
    """Groups of the values of a text column, by name."""

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """The columns of every marginal."""
        if isinstance(self.marginals, Ways):
            return tuple(combinations(self.marginals.columns, self.marginals.ways))
        return self.marginals or ()

    @property
    def columns(self) -> frozenset[str]:
        """Every column that the query is asked of."""
        cells = (*(self.share or ()), *(c for table in self.tables for c in table))
        return self.averaged | frozenset(cells)

    @property
    def averaged(self) -> frozenset[str]:
        """The columns of which numbers are averaged, so that none may be missing."""
        mean = () if self.mean is None else (self.mean,)
        return frozenset((*mean, *(self.ratio or ()), *(self.correlation or ())))

    @model_validator(mode="after")
    def _one_kind(self) -> Query:
        kinds = [k for k in QUERIES if getattr(self, k) is not None]
        ranged = self.mean is not None or self.correlation is not None
        if len(kinds) == 1 and ranged and self.range is None:
            cut = "numbers are" if self.correlation is None else "products are"
            raise ValueError(
                f"a {kinds[0]} has the range that {cut} cut to; write for example range = "
                + ('["0", "100"]' if self.correlation is None else '["-4", "4"]')
            )
        if len(kinds) == 1 and self.ratio is not None and self.ranges is None:
            ranges = ", ".join(f'{json.dumps(c)} = ["0", "100"]' for c in self.ratio)
            raise ValueError(
                f"a ratio has a range of each of its columns; write for example ranges = "
                f"{{ {ranges} }}"
            )
        idle = (self.range is not None and not ranged) or (
            self.ranges is not None and self.ratio is None
        )
        if len(kinds) != 1 or idle:
            raise ValueError(
                "a query is one of: a mean with its range, a ratio with ranges of its two columns, "
                "a correlation with its range, a share, marginals"
            )
        if self.range is not None:
            asked = "a correlation" if self.mean is None else repr(self.mean)
            check_range(f"the range of {asked}", *(number(end) for end in self.range))
        if self.share is not None and not self.share:
            raise ValueError("a share is of records with some value, and none is named")
        return self

    @model_validator(mode="after")
    def _two_columns(self) -> Query:
        pair = self.ratio or self.correlation
        if pair is not None and pair[0] == pair[1]:
            raise ValueError(f"a ratio or correlation is of two columns, got {pair[0]!r} twice")
        if self.ratio is not None and self.ranges is not None:
            if set(self.ranges) != set(self.ratio):
                raise ValueError(
                    f"a ratio has a range of each of its columns, {_both(self.ratio)}, and got "
                    f"one of {_both(sorted(self.ranges))}"
                )
            for column, ends in self.ranges.items():
                check_range(f"the range of {column!r}", *(number(end) for end in ends))
            if Fraction(self.ranges[self.ratio[1]][0]) < 0:
                raise ValueError(
                    f"the mean below the line is of numbers from 0 on; the range of "
                    f"{self.ratio[1]!r} starts at {self.ranges[self.ratio[1]][0]}"
                )
        strange = sorted(set(self.standard or ()) - set(self.correlation or ()))
        if strange or (self.standard is not None and self.correlation is None):
            raise ValueError(f"standard is of the columns of a correlation, got {strange}")
        for column, (_, scale) in (self.standard or {}).items():
            if Fraction(scale) <= 0:
                raise ValueError(f"the scale of {column!r} is above 0, got {scale}")
            check_range(f"the scale of {column!r}", 0.0, number(scale))
        return self

    @model_validator(mode="after")
    def _each_table_once(self) -> Query:
        if self.marginals is None:
            return self
        if not self.tables or not all(self.tables):
            raise ValueError(
                f"marginals are over one column or more each, got {[list(t) for t in self.tables]}"
            )
        for table in self.tables:
            if len(set(table)) < len(table):
                raise ValueError(f"a marginal is over different columns, got {list(table)}")
        often = Counter(tuple(sorted(table)) for table in self.tables)
        again = [list(table) for table, times in often.items() if times > 1]
        if again:
            raise ValueError(f"marginals are asked once each, and more than once over {again}")
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
            numbers = [bin_end(end) for end in ends]
            if not ends or any(a >= b for a, b in pairwise(numbers)):
                raise ValueError(
                    f"the bins of {column!r} have one end or more between them, each above the "
                    f"one before, got {list(ends)}"
                )
        for column, grouped in groups.items():
            _check_groups(column, grouped)
        return self


def _both(columns: Sequence[str]) -> str:
    return " and ".join(map(repr, columns)) or "none"


def _check_groups(column: str, groups: Mapping[str, Sequence[str]]) -> None:
    """Refuse groups that share a name or a value; ``1`` and ``1.0`` are one value."""
    names = [canonical_value(name) for name in groups]
    members = [canonical_value(text) for texts in groups.values() for text in texts]
    if not groups or not all(groups.values()) or _repeated([*names, OTHERS]) or _repeated(members):
        raise ValueError(
            f"each group of {column!r} has values that no other has and a name of its own, numbers "
            f"by value, and none is named {OTHERS!r}, got {dict(groups)}"
        )


def _repeated(values: Sequence[str]) -> bool:
    return len(set(values)) < len(values)
