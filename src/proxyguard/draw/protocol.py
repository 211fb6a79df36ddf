"""What outsiders plug in: release generators and learning procedures."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from proxyguard.errors import DrawError
from proxyguard.tables.files import read_file

if TYPE_CHECKING:
    import pandas as pd


STAGES = 1000
"""Stages that one draw names; every release's record lists them."""


class Seed(int):
    """The registered seed of one draw, which remembers what it was taken for.

    A generator or a procedure says ``seed.rng("sampling")`` or ``seed.take("model fit")``
    where it uses randomness. The certificate's statement of what each draw redraws is made
    from these calls; a stage that takes no seed is conditioned upon. A generator may also use
    it as a plain number, which `used` remembers: one that leaves its seed alone draws the same
    release each time, or a release that no seed repeats.
    """

    taken: list[str]
    files: dict[str, str | None]
    used: bool

    def __new__(cls, value: int) -> Seed:
        seed = super().__new__(cls, value)
        seed.taken = []
        seed.files = {}
        seed.used = False
        return seed

    def __getattribute__(self, name: str) -> Any:
        # Random numbers of numpy and the standard library read the digits of an integer, and
        # ask before what else it may be: by an attribute, or by isinstance.
        if name not in _RECORDED:
            self.used = True
        return super().__getattribute__(name)

    def read(self, name: str, path: Path) -> bytes:
        """Return the bytes of a file that this draw is made from, and remember their digest.

        The record of the draw has it, and it is compared with what was registered, so that a
        file that is replaced while draws run is noticed.
        """
        self.files[name] = None  # until it was read
        content = read_file(path)
        self.files[name] = hashlib.sha256(content).hexdigest()
        return content

    def take(self, stage: str) -> int:
        """Return the seed as a number, for a stage that is redrawn."""
        if not isinstance(stage, str) or not stage.strip():
            raise DrawError(
                f"seed.take and seed.rng name the stage that is redrawn in words, such as "
                f'seed.rng("sampling"), and got {stage!r}'
            )
        if stage not in self.taken:
            if len(self.taken) >= STAGES:  # a manifest that nobody can read would be frozen
                raise DrawError(
                    f"a draw names more than {STAGES:,} stages that are redrawn, the last of them "
                    f"{stage[:80]!r}; name kinds of randomness, not single rows"
                )
            self.taken.append(stage)
        return int(self)

    def rng(self, stage: str) -> np.random.Generator:
        """Return a random stream for a stage that is redrawn."""
        return np.random.default_rng(self.take(stage))


_RECORDED = frozenset({"taken", "files", "used"})
_USES = (
    "__int__", "__index__", "__float__", "__bool__", "__hash__", "__repr__", "__str__",
    "__format__", "__getnewargs__", "__abs__", "__neg__", "__pos__", "__invert__", "__trunc__",
    "__floor__", "__ceil__", "__round__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__",
    "__ge__", "to_bytes", "bit_length", "bit_count", "as_integer_ratio",
    *(f"__{side}{name}__" for side in ("", "r") for name in (
        "add", "sub", "mul", "floordiv", "truediv", "mod", "divmod", "pow", "lshift", "rshift",
        "and", "or", "xor",
    )),
)  # fmt: skip
"""The ways in which Python asks a number for its value, besides attributes. Native code that reads
the digits of an integer and asks nothing is not noticed; it can say ``seed.take``."""


def _noting(name: str) -> Any:
    """Return a method of plain numbers that also notes that the seed was used."""
    plain = getattr(int, name)

    @wraps(plain)
    def use(self: Seed, *arguments: Any, **options: Any) -> Any:
        self.used = True
        return plain(self, *arguments, **options)

    return use


for _name in _USES:
    setattr(Seed, _name, _noting(_name))


@runtime_checkable
class Generator(Protocol):
    """One release mechanism (paper Definition 3).

    Everything random that the claim should cover is redrawn inside ``draw``; what
    ``prepare`` does is done once and conditioned upon. A generator may also have

    - ``draw_many(seeds)``, which returns one release a seed, each as ``draw`` would;
    - ``code``, import paths of further code that its draws run, registered beside its own;
    - ``survey(seeds, schema)``, which returns the files that its draws read (`ReleaseFile`);
    - ``prepared_from``, after ``prepare`` the digests of the files that all draws rest on.
    """

    def describe(self) -> Mapping[str, Any]:
        """Return the settings that go into the seal, as plain values."""

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Take the source table, and do once what is not redrawn."""

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return one release, a table with the source's columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFile:
    """A file that a draw reads, as it was when it was registered."""

    name: str  # with the folder that the declaration names
    seed: int | None  # of the draw that it is; nothing for one that stands beside the draws
    sha256: str | None  # nothing where it could not be read
    content: str | None = None  # digest of its records; nothing where it is no release
    problem: str | None = None  # why it is no release

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A fitted procedure: an estimator, and what was chosen around it."""

    estimator: Any
    selected: str
    threshold: float | None = None
    temperature: float | None = None
    notes: Mapping[str, float] = field(default_factory=dict)  # validation losses, for reading


class Learner(Protocol):
    """A learning procedure: from a table to a fitted one."""

    def describe(self) -> Mapping[str, Any]:
        """Return the settings that go into the seal, as plain values."""

    def fit(self, table: pd.DataFrame, validation: pd.DataFrame | None, seed: Seed) -> Fitted:
        """Fit, calibrate and choose; ``validation`` may be nothing where nothing is chosen."""

    def trusted(self) -> Sequence[str]:
        """Return the types that a stored estimator of this procedure may contain."""
