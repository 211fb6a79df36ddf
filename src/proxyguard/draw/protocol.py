"""What outsiders plug in, release generators and learning procedures, and what both are asked for.

Then how a table becomes features and outcomes, and how a fitted procedure predicts: drawing,
scoring and verifying ask here, so that none of them codes a record otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.documents.registry import RegisteredProcedure
from proxyguard.errors import DrawError, TableError
from proxyguard.exact.rounding import Array
from proxyguard.models.features import Features
from proxyguard.models.stored import Model
from proxyguard.printable import did_you_mean, found
from proxyguard.registry.fields import number
from proxyguard.registry.target import Outcome
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.tables.columns import Series, as_text, have_value, row_name
from proxyguard.tables.files import read_file

if TYPE_CHECKING:
    import pandas as pd

# Features: an array where all are numbers, else a frame.
Inputs: TypeAlias = "NDArray[np.float64] | pd.DataFrame"
OutcomeValues: TypeAlias = "Sequence[object] | NDArray[np.object_] | Series"

# Stages that one draw names; every release's record lists them.
STAGES = 1000
# Facts that a draw says of how it was computed.
FACTS = 20
# Characters of one of them, or of its name; a report prints them.
FACT = 200


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
    members: NDArray[np.int64] | None
    facts: dict[str, str]

    def __new__(cls, value: int) -> Seed:
        seed = super().__new__(cls, value)
        seed.taken = []
        seed.files = {}
        seed.used = False
        seed.members = None
        seed.facts = {}
        return seed

    def __getattribute__(self, name: str) -> object:
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

    def trained_on(self, rows: ArrayLike) -> None:
        """Say which rows of the source this draw is trained on, by position from 0.

        They are the draw's members, whom a release could give away; where nothing is said, all
        rows are. Said more than once, they are all that were named.
        """
        named = np.asarray(rows)
        whole = named.ndim == 1 and named.dtype.kind in "iu" and named.size > 0
        # Beyond the largest signed number a position would come back as a negative one.
        if not whole or named.min() < 0 or named.max() > np.iinfo(np.int64).max:
            raise DrawError(
                "seed.trained_on takes the positions of rows of the source, whole numbers from 0 "
                f"on and at least one, and got {rows!r:.200}"
            )
        positions = named.astype(np.int64)
        self.members = np.unique(
            positions if self.members is None else np.concatenate([self.members, positions])
        )

    def computed(self, **facts: str | float) -> None:
        """Say how this draw is computed: the device, the version of a library, its batch.

        What may change the last bits of a release and not its law. The record of the draw keeps
        it as text, the report shows it, and whoever draws the seed again elsewhere knows why
        contents differ. It is the generator's word. Said again, a fact is what was said last.
        ``device`` and ``together``, the draws of a batch, have a meaning: on the device "cpu" a
        batch changes no bit of a draw.

        Examples
        --------
        >>> seed = Seed(7)
        >>> seed.computed(device="cpu", together=50)
        >>> seed.facts
        {'device': 'cpu', 'together': '50'}
        """
        for name, fact in facts.items():
            text = str(fact)
            if not isinstance(fact, str | int | float) or not 0 < len(text) <= FACT >= len(name):
                raise DrawError(
                    "seed.computed takes facts by name, each a word or a number of at most "
                    f"{FACT} characters, and got {name[:80]!r} = {fact!r:.200}"
                )
            self.facts[name] = text
        if len(self.facts) > FACTS:
            raise DrawError(
                f"seed.computed keeps at most {FACTS} facts about a draw, and got "
                f"{len(self.facts)}; say what may change its bits, not how it went"
            )


def member_bits(seed: Seed, rows: int) -> bytes:
    """Return the members of a draw, one bit for each row of a source of so many; empty for all.

    Raises
    ------
    DrawError
        If it names rows that the source does not have.
    """
    if seed.members is None:
        return b""
    last = int(seed.members[-1])
    if last >= rows:
        raise DrawError(
            f"seed.trained_on names row {last}, and the source has {rows} rows, from 0 to "
            f"{rows - 1}"
        )
    # One set has one form: to name every row is to name none.
    if seed.members.size == rows:
        return b""
    mask = np.zeros(rows, dtype=bool)
    mask[seed.members] = True
    return np.packbits(mask).tobytes()


def coin_bits(seed: int, rows: int) -> bytes:
    """Return which rows a fair coin for each puts into the training of a draw, one bit a row.

    From the seed by a hash, so that they are the same with every version of every library, and
    have nothing in common with what ``default_rng(seed)`` gives a generator or an attack.
    """
    size = -(-rows // 8)
    digest = hashlib.shake_256(f"proxyguard inclusion {int(seed)}".encode()).digest(size)
    mask = np.unpackbits(np.frombuffer(digest, dtype=np.uint8))
    mask[rows:] = 0  # of the last byte
    return np.packbits(mask).tobytes()


def members_in(bits: bytes, rows: int) -> NDArray[np.bool_]:
    """Return which of so many rows of the source are members, by the bits that say so.

    Raises
    ------
    DrawError
        If they are not one bit a row, or no row or all rows are named, which has another form.
    """
    mask = np.unpackbits(np.frombuffer(bits, dtype=np.uint8)).astype(bool)
    if mask.size != -(-rows // 8) * 8 or mask[rows:].any():
        raise DrawError(
            f"its members are named by {len(bits)} bytes, and the source has {rows} rows"
        )
    members = int(mask.sum())
    if members in (0, rows):
        raise DrawError(f"it names {members} of the {rows} rows of the source as its members")
    return mask[:rows]


_RECORDED = frozenset({"taken", "files", "used", "members", "trained_on", "facts", "computed"})
# The ways in which Python asks a number for its value, besides attributes. Native code that reads
# the digits of an integer and asks nothing is not noticed; it can say ``seed.take``.
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


class Called(Protocol):
    """Something that is called: what it takes, its author says and no type."""

    __qualname__: str

    def __call__(self, *arguments: object, **options: object) -> object:
        """Call it."""


def _noting(name: str) -> Called:
    """Return a method of plain numbers that also notes that the seed was used."""
    plain: Called = getattr(int, name)

    @wraps(plain)
    def use(self: Seed, *arguments: object, **options: object) -> object:
        self.used = True
        return plain(self, *arguments, **options)

    return cast(Called, use)


# On the class: Python looks operators up there, past `__getattribute__`.
for _name in _USES:
    setattr(Seed, _name, _noting(_name))


@runtime_checkable
class Generator(Protocol):
    """One release mechanism (paper Definition 3).

    Everything random that the claim should cover is redrawn inside ``draw``; what
    ``prepare`` does is done once and conditioned upon. A draw that is trained on some rows of
    the source alone says so by ``seed.trained_on(rows)``, and one whose bits depend on a device
    or a batch by ``seed.computed(device=...)``. A generator may also have

    - ``draw_many(seeds)``, which returns one release a seed, each as ``draw`` would, and a
      `DrawError` in the place of a release that failed;
    - ``batch``, how many seeds it is given at once (32 if it does not say);
    - ``code``, import paths of further code that its draws run, registered beside its own;
    - ``survey(seeds, schema)``, which returns the files that its draws read (`DeliveredFile`);
    - ``prepared_from``, after ``prepare`` the digests of the files that all draws rest on.
    """

    def describe(self) -> Mapping[str, object]:
        """Return the settings that go into the seal, as plain values."""

    def prepare(self, source: pd.DataFrame, rng: np.random.Generator) -> None:
        """Take the source table, and do once what is not redrawn.

        Numbers are floats, texts objects with None for a gap, and columns that are declared dates
        datetimes; ``draw`` may give these so, as they are declared, or as days since 1970-01-01.
        """

    def draw(self, seed: Seed) -> pd.DataFrame:
        """Return one release, a table with the source's columns."""


@runtime_checkable
class DrawsMany(Protocol):
    """A generator that draws several seeds faster together than one by one."""

    def draw_many(self, seeds: Sequence[Seed]) -> Iterable[pd.DataFrame | DrawError]:
        """Return one release a seed, in their order, each as ``draw`` would.

        Where ``draw`` would fail, the error stands in the place of the release: the others of its
        batch are kept. An error that is raised has every seed drawn by itself.
        """


@runtime_checkable
class ChecksSource(Protocol):
    """A generator of ours that can tell before it draws from which sources it cannot."""

    def check_source(self, source: pd.DataFrame) -> None:
        """Raise where draws from this source could not be made; nothing is fitted."""


@runtime_checkable
class ChecksMachine(Protocol):
    """A generator of ours that may ask for a device."""

    def check_machine(self) -> None:
        """Raise where this machine has not the device."""


class ClassModel(Protocol):
    """What predicts the probabilities of classes, ours or scikit-learn's."""

    classes_: Sequence[float] | Array

    def predict_proba(self, x: Inputs | Features, /) -> Array:
        """Return one row a record, one column a class."""


class Regressor(Protocol):
    """What predicts numbers."""

    def predict(self, x: Inputs | Features, /) -> Array:
        """Return one number a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A fitted procedure: an estimator, and what was chosen around it.

    Attributes
    ----------
    estimator
        A `ClassModel` or a `Regressor`, whichever the outcome asks for.
    selected
        Which pipeline of the library it is.
    threshold, temperature
        What was chosen on validation data, if anything was.
    notes
        Validation losses, by which the pipeline was chosen.
    """

    estimator: object
    selected: str
    threshold: float | None = None
    temperature: float | None = None
    notes: Mapping[str, float] = field(default_factory=dict)


class Learner(Protocol):
    """A learning procedure: from a table to a fitted one."""

    def describe(self) -> RegisteredProcedure:
        """Return the settings that go into the seal, and the code of each pipeline."""

    def fit(self, table: pd.DataFrame, validation: pd.DataFrame | None, seed: Seed) -> Fitted:
        """Fit, calibrate and choose; ``validation`` may be nothing where nothing is chosen."""

    def trusted(self) -> Sequence[str]:
        """Return the types that a stored estimator of this procedure may contain."""


# Probabilities are kept this far from 0 and 1 before a logit is taken.
TINY = 1e-12


# What to do about rows without an outcome.
LACKING = (
    'give it one, or write missing_outcomes = "leave out" under [target] (nothing is claimed about '
    'such records) or "worst" (they count at their worst)'
)


def lost_texts(outcome: Outcome) -> set[str]:
    """Return the texts, in canonical form, that stand for a missing outcome, where it may be."""
    return {"", *map(canonical_value, outcome.missing or ())}


def learnable(release: pd.DataFrame, outcome: Outcome | None) -> pd.DataFrame:
    """Return the rows that are learned from: those with an outcome, where some may lack it."""
    if outcome is None or outcome.missing is None:
        return release
    known = have_value(release[outcome.column], outcome.missing)
    if not known.any():
        raise DrawError(f"no row of the release has an outcome {outcome.column!r}")
    return release if known.all() else release[known]


def outcomes(values: OutcomeValues, outcome: Outcome, where: str, *, secret: bool = False) -> Array:
    """Return outcomes as numbers: 0 or 1, the number of a class, or the value itself.

    Parameters
    ----------
    values
        The outcome's column.
    outcome
        How it is declared: which label is positive, which classes there are, or which range.
    where
        The table, as an error names it.
    secret
        Whether it is the target's, of which no error repeats a value. Its outcomes may be missing
        where the declaration says what they count as, and are NaN.

    Raises
    ------
    TableError
        If a value is missing or is not as declared; it names the first such row, from 1.
    """
    places, texts = _distinct(values)
    lost = lost_texts(outcome) if secret and outcome.missing is not None else set()
    texts = ["" if text in lost else text for text in texts]
    if outcome.kind == "binary":
        numbers = _binary(texts, outcome, where, secret)
    elif outcome.kind == "multiclass":
        numbers = _classes(texts, outcome)
    else:
        numbers = _inside(texts, outcome)
    coded = numbers[places]
    missing = np.array([bool(lost) and text == "" for text in texts], dtype=bool)
    wrong = np.flatnonzero(np.isnan(coded) & ~missing[places])
    if wrong.size:
        row = int(wrong[0])
        text = texts[places[row]]
        # The row and never the value: whoever reads the message may not be one who may read it.
        what = "is missing" if text == "" else f"is not as declared, {_declared(outcome)}"
        shown = "" if secret or text == "" else f"; found {found(text)}"
        more = f" (and {wrong.size - 1:,} more)" if wrong.size > 1 else ""
        remedy = "mend it, or the declaration" if text else LACKING
        raise TableError(
            f"{where}, {row_name(values, row)}{more}: {outcome.column!r} {what}{shown}; {remedy}"
        )
    return coded


def _distinct(values: OutcomeValues) -> tuple[NDArray[np.intp], list[str]]:
    """Return where each value stands among the different ones, and those in canonical form."""
    import pandas as pd

    codes, distinct = pd.factorize(np.asarray(values, dtype=object), use_na_sentinel=False)
    return np.asarray(codes), [canonical_value(as_text(value)) for value in distinct]


def _binary(texts: Sequence[str], outcome: Outcome, where: str, secret: bool) -> Array:
    positive = canonical_value(as_text(outcome.positive))
    # A missing outcome is no third label: `outcomes` says in which row it is.
    labels = sorted(set(texts) - {""})
    if len(labels) > 2 or (len(labels) == 2 and positive not in labels):
        written = as_text(outcome.positive)
        shown = "" if secret else f": {', '.join(map(found, labels[:5]))}"
        raise TableError(
            f"{where}: {outcome.column!r} is declared with {_declared(outcome)}, so it has that "
            f"value and one other; found {len(labels)} values{shown}"
            + ("" if secret or positive in labels else did_you_mean(written, labels))
        )
    return np.array([np.nan if text == "" else float(text == positive) for text in texts])


def _classes(texts: Sequence[str], outcome: Outcome) -> Array:
    classes = {canonical_value(as_text(c)): float(k) for k, c in enumerate(outcome.classes or ())}
    return np.array([classes.get(text, np.nan) for text in texts])


def _inside(texts: Sequence[str], outcome: Outcome) -> Array:
    low, high = (number(end) for end in outcome.range or ("0", "1"))
    numbers = []
    for text in texts:
        try:
            decimal = float(text)
        except ValueError:
            decimal = np.nan
        if outcome.clip and np.isfinite(decimal):
            decimal = min(max(decimal, low), high)
        numbers.append(decimal if low <= decimal <= high else np.nan)
    return np.array(numbers)


def _declared(outcome: Outcome) -> str:
    if outcome.kind == "binary":
        return f"positive = {found(outcome.positive)}"
    if outcome.kind == "multiclass":
        return f"one of the classes {', '.join(map(found, outcome.classes or ()))}"
    return f"a number in the range {' to '.join(outcome.range or ())} (clip = true takes others in)"


def negative_of(table: pd.DataFrame, outcome: Outcome | None) -> str | None:
    """Return the other label of a binary outcome, as development has it; of others nothing."""
    if outcome is None or outcome.kind != "binary":
        return None
    return negative_label(table[outcome.column], outcome)


def negative_label(values: OutcomeValues, outcome: Outcome) -> str | None:
    """Return the other label of a binary outcome, as development has it."""
    positive = canonical_value(as_text(outcome.positive))
    others = set(_distinct(values)[1]) - {positive}
    return others.pop() if len(others) == 1 else None


def features(frame: pd.DataFrame, names: Sequence[str]) -> Inputs:
    """Return the feature columns: an array where all are numbers, else a frame.

    Raises
    ------
    TableError
        If the table lacks one of the columns.
    """
    places = {name: k for k, name in enumerate(frame.columns.tolist())}
    missing = [name for name in names if name not in places]
    if missing:
        raise TableError(f"columns {missing} are missing; found {list(frame.columns)}")
    wanted = [places[name] for name in names]
    # By number: pandas would look every name up, which for a small release takes as long as
    # its regression.
    taken = frame.set_axis(range(len(places)), axis=1).take(wanted, axis=1)
    if all(dtype.kind in "fiub" for dtype in taken.dtypes):
        return taken.to_numpy(dtype=np.float64)
    return taken.set_axis(frame.columns.take(wanted), axis=1)


def predict(fitted: Fitted, x: Inputs | Features, outcome: Outcome) -> Array:
    """Return probabilities of the positive class, of every class, or predicted numbers.

    Parameters
    ----------
    fitted
        A fitted procedure; its temperature, where it has one, is applied to a binary outcome.
    x
        What `features` returned, or `Features` of it where many procedures predict the same
        records.
    outcome
        Which of the three it is, and within which range numbers are kept.

    Raises
    ------
    ValueError
        If it predicts other classes than the outcome has, or not one of each for every record.
    """
    known = known_classes(fitted.estimator, outcome)
    if isinstance(x, Features) and not isinstance(fitted.estimator, Model):
        x = x.table  # what is no model of ours knows plain tables
    if outcome.kind == "regression":
        low, high = (number(end) for end in outcome.range or ("0", "1"))
        # Within the registered range, which is what bounds the losses.
        numbers = np.asarray(cast("Regressor", fitted.estimator).predict(x), dtype=np.float64)
        _check_shape(numbers, (len(x),))
        return np.clip(numbers, low, high)
    estimator = cast("ClassModel", fitted.estimator)
    raw = np.asarray(estimator.predict_proba(x), dtype=np.float64)
    _check_shape(raw, (len(x), len(known)))
    if outcome.kind == "multiclass":
        # A release may lack a class; a model that never saw it gives it no chance.
        full = np.zeros((raw.shape[0], len(outcome.classes or ())))
        full[:, known] = raw
        return full
    p = raw[:, known.index(1)]
    return p if fitted.temperature is None else temper(p, fitted.temperature)


def known_classes(estimator: object, outcome: Outcome) -> list[int]:
    """Return the classes that an estimator predicts, by their number; none of a regression.

    Asked before it predicts: a stored model may come from anybody, and one of a million classes
    would take all memory there is for its probabilities.
    """
    classes = np.asarray(getattr(estimator, "classes_", ()))
    count = {"binary": 2, "regression": 0}.get(outcome.kind, len(outcome.classes or ()))
    known = range(count)
    if classes.ndim != 1 or classes.size > count or not np.isin(classes, known).all():
        raise ValueError(
            f"the model has {classes.size:,} classes, and the outcome has {count}: they are not "
            "all among these"
        )
    numbers = [int(label) for label in classes.tolist()]
    if len(set(numbers)) < len(numbers) or (not numbers and count):
        raise ValueError("the model names no class, or one of them twice")
    return numbers


def _check_shape(predicted: Array, shape: tuple[int, ...]) -> None:
    if predicted.shape != shape:
        raise ValueError(f"the model predicts an array of shape {predicted.shape}, not {shape}")


def temper(p: Array, temperature: float) -> Array:
    """Return probabilities whose logits were divided by the temperature."""
    inside = np.clip(p, TINY, 1.0 - TINY)
    logit = np.log(inside) - np.log1p(-inside)
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logit / temperature)))  # exp would overflow
