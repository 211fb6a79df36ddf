"""Time the scoring of 500 releases on 2,000 target records, beside one prediction after the other.

The package's way is `Scorer.score`, as an opened audit runs it: every release's stored model is
read, its losses of two requirements, their statistics and its AUC are computed. Every release
has a model of its own. The straightforward way fits the same regression or naive Bayes as a
pipeline of scikit-learn, reads what skops stored of it, predicts all records with each and
averages the same two losses; it is timed on 50 releases and multiplied. For the words the
pipelines of all releases count with the vocabulary of the training part, as the package does.
Printed are seconds of processor time with one thread, the reading of the models counted in both
and also shown alone. Then come the answers of one release to 200 queries, with a look at each
column for all of them and for every cell. All tables are made here.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from proxyguard.adapters.newton import FastLogistic, FastOnehotLogistic
from proxyguard.adapters.text import MAX_FEATURES, MIN_DF, count_nb, most_frequent
from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.score import Release, Scorer
from proxyguard.audit.target import Chunk
from proxyguard.documents.releases import DrawnRelease
from proxyguard.draw.protocol import Seed
from proxyguard.losses.cell import Reading
from proxyguard.losses.measure import measure_loss
from proxyguard.losses.query import BoundedQuery, CodedRecords
from proxyguard.losses.records import Records
from proxyguard.models.stored import load_model, model_bytes, skops_bytes
from proxyguard.modes.claim import Claim
from proxyguard.registry.declaration import read_declaration
from proxyguard.registry.design import Iid

RELEASES, RECORDS, TIMED = 500, 2000, 50

DECLARATION = """\
format = 1
name = "scoring"
purpose = "How long does scoring take?"

[target]
table = "table.csv"
reserve = { rows = 2000, seed = 1 }
outcome = "label"
positive = "1"

[development]
validation = { fraction = "0.2", seed = 1 }

[procedure]
library = ["fast_logistic"]

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = "0.2"

[[requirement]]
name = "error"
loss = "error"
form = "absolute"
limit = "0.3"

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 2
seeds = { first = 1 }

[claim]
reliability_target = "0.3"
"""

Array = NDArray[np.float64]
Fit = Callable[[Any, Array], Any]
Made = tuple[pd.DataFrame, Fit, Fit]


@dataclass(frozen=True)
class Target:
    """Target records as an opened audit gives them, without a sealed file."""

    frame: pd.DataFrame
    y: Array
    positions: NDArray[np.int64]

    @property
    def n_records(self) -> int:
        """The number of records."""
        return len(self.frame)

    def chunks(self) -> Iterator[Chunk]:
        """Yield all records at once."""
        records = Records(ids=self.positions, random_order=True)
        yield Chunk(frame=self.frame, positions=self.positions, y=self.y, records=records)


@dataclass(frozen=True, kw_only=True, eq=False)
class Timed(Scorer):
    """A scorer that notes how long it reads stored models."""

    reading: list[float]

    def _load(self, release: Release) -> None:
        start = time.process_time()
        Scorer._load(self, release)
        self.reading.append(time.process_time() - start)


@dataclass(frozen=True)
class Times:
    """Seconds of both ways, and how many of them are spent reading models."""

    package: float
    package_reading: float
    plain: float
    plain_reading: float


def main() -> None:
    """Print both times of each procedure, and both times of the queries."""
    print(f"scoring {RELEASES} releases on {RECORDS:,} records, seconds, reading counted")
    print(
        f"{'procedure':<28}{'package':>9}{'reading':>9}{'one by one':>12}{'reading':>9}{'ratio':>7}"
    )
    with threadpool_limits(1):
        for name, make in (("logistic", numbers), ("one-hot logistic", categories),
                           ("naive Bayes, 800 texts", texts),
                           ("naive Bayes, 2,000 texts", different_texts)):  # fmt: skip
            t = measure(*make())
            print(f"{name:<28}{t.package:>9.3f}{t.package_reading:>9.3f}{t.plain:>12.3f}"
                  f"{t.plain_reading:>9.3f}{t.plain / t.package:>7.1f}")  # fmt: skip
        queries()


def numbers() -> Made:
    """Return a table of 21 numbers and how a pipeline is fitted to a part of it."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(RECORDS, 21)), columns=[f"x{k}" for k in range(21)])
    plain = make_pipeline(StandardScaler(), liblinear())
    return (
        table,
        lambda x, y: FastLogistic().fit(x.to_numpy(), y),
        lambda x, y: clone(plain).fit(x.to_numpy(), y),
    )


def liblinear() -> LogisticRegression:
    """Return the regression whose minimum the package's has, run to its end."""
    return LogisticRegression(solver="liblinear", tol=1e-8, max_iter=1000)


def categories() -> Made:
    """Return a table of 17 categorical features with rare categories, which releases may lack."""
    rng = np.random.default_rng(2)
    letters = np.array(list("abcdefg"), dtype=object)
    shares = 1.0 / (1.0 + np.arange(7)) ** 3
    columns = {f"x{k}": rng.choice(letters, RECORDS, p=shares / shares.sum()) for k in range(17)}
    table = pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()})
    plain = make_pipeline(OneHotEncoder(handle_unknown="ignore"), liblinear())
    return table, FastOnehotLogistic().fit, lambda x, y: clone(plain).fit(x, y)


def texts() -> Made:
    """Return a table of documents, drawn with replacement from 800."""
    made = documents(800)
    return text_table(made[np.random.default_rng(7).integers(0, 800, RECORDS)])


def different_texts() -> Made:
    """Return a table of documents, none of which repeats."""
    return text_table(documents(RECORDS))


def documents(count: int) -> NDArray[Any]:
    """Return documents of 20 to 200 words out of 3,000."""
    rng = np.random.default_rng(3)
    words = np.array([f"word{k}" for k in range(3000)], dtype=object)
    shares = 1.0 / (1.0 + np.arange(3000))
    made = [" ".join(rng.choice(words, rng.integers(20, 200), p=shares / shares.sum()))
            for _ in range(count)]  # fmt: skip
    return np.array(made, dtype=object)


def text_table(made: NDArray[Any]) -> Made:
    """Return documents as a table, with the text learner prepared on it."""
    table = pd.DataFrame({"text": pd.Series(made, dtype=object)})
    words, _ = most_frequent(
        table["text"], max_features=MAX_FEATURES, min_df=MIN_DF, stop_words="english",
        lowercase=True,
    )  # fmt: skip
    counter = ColumnTransformer([("words", CountVectorizer(vocabulary=words), "text")])
    plain = make_pipeline(counter, MultinomialNB())
    return table, count_nb.prepare(table)(Seed(1)).fit, lambda x, y: clone(plain).fit(x, y)


def measure(x: pd.DataFrame, fit: Fit, plain_fit: Fit) -> Times:
    """Return the times of the package and of the straightforward way."""
    y = (np.random.default_rng(4).random(RECORDS) < 0.5) * 1.0
    # A record drawn twice is the same record.
    positions = pd.factorize(x.iloc[:, 0])[0] if x.shape[1] == 1 else np.arange(RECORDS)
    target = Target(x, y, positions.astype(np.int64))
    with tempfile.TemporaryDirectory() as place:
        folder = AuditFolder(Path(place))
        draws, others = stored(folder, x, y, fit, plain_fit)
        scorer, how = scorer_of(folder, target)
        start = time.process_time()
        scored = scorer.score("bench", draws, [how])
        package = time.process_time() - start
        plain, reading, means = one_by_one(folder, others, x, y)
    found = np.stack([column.mean for column in scored.columns[0]], axis=1)
    # liblinear stops near the minimum, and a record may then fall on the other side of 0.5.
    np.testing.assert_allclose(found[:TIMED], means, atol=1e-3)
    return Times(package, sum(scorer.reading), plain, reading)


def one_by_one(
    folder: AuditFolder, addresses: list[str], x: pd.DataFrame, y: Array
) -> tuple[float, float, list[list[float]]]:
    """Return the time of the straightforward way, that of its reading, and the mean losses."""
    plain_x = x.to_numpy() if x.iloc[:, 0].dtype.kind == "f" else x
    reading, means = 0.0, []
    start = time.process_time()
    for address in addresses:
        before = time.process_time()
        model = load_model(folder.store.get(address), "a model")
        reading += time.process_time() - before
        p = model.predict_proba(plain_x)[:, 1]
        means.append([float(np.mean((p - y) ** 2)), float(np.mean((p >= 0.5) != (y > 0.5)))])
    times = RELEASES / len(addresses)
    return times * (time.process_time() - start), times * reading, means


def stored(
    folder: AuditFolder, x: pd.DataFrame, y: Array, fit: Fit, plain_fit: Fit
) -> tuple[list[DrawnRelease], list[str]]:
    """Store models fitted to bootstrap samples, and to the first ones pipelines by skops.

    Returns what is recorded of the draws, and where the models of skops are.
    """
    rng = np.random.default_rng(5)
    draws, others = [], []
    for k in range(RELEASES):
        rows = rng.integers(0, RECORDS, 1000)
        table = x.iloc[rows].reset_index(drop=True)
        model = folder.store.put(model_bytes(fit(table, y[rows])))
        draws.append(
            DrawnRelease(
                seed=k, status="drawn", rows=1000, content=model, release=model, model=model,
                stages=("bootstrap",), guard="audit hook", selected="bench", threshold="0.5",
                temperature=None, prepared_at_random=False,
            )
        )  # fmt: skip
        if k < TIMED:
            others.append(folder.store.put(skops_bytes(plain_fit(table, y[rows]))))
    return draws, others


def scorer_of(folder: AuditFolder, target: Target) -> tuple[Timed, Reading]:
    """Return what scores the releases, and how their losses are read."""
    member = read_declaration(DECLARATION).members[0]
    assert member.target.predicted is not None
    measures = [
        measure_loss(part, limit=str(part.limit), slack=None, outcome=member.target.predicted,
                     choose=None)
        for part in member.requirement
    ]  # fmt: skip
    requirements = tuple(m.requirement for m in measures)
    # Drawn with replacement, as the target of the text audit is: records may repeat.
    design = Iid(with_replacement=True)
    tests = Claim.of({"mode": "releases", "beta": None}).tests(design, requirements)
    opened: Any = target
    scorer = Timed(folder=folder, member=member, measures=measures, target=opened,
                   features=list(target.frame.columns), source=None, trusted=(),
                   reading=[])  # fmt: skip
    reading = Reading(requirements=requirements, design=design, tests=tests, level=0.05,
                      violation_level=0.05)  # fmt: skip
    return scorer, reading


def queries() -> None:
    """Print the time of the answers of one release to the cells of two-way marginals."""
    rng = np.random.default_rng(6)
    letters = [f"value {k}" for k in range(10)]
    names = ("a", "b", "c")
    columns = {n: np.array(letters, dtype=object)[rng.integers(0, 10, 20_000)] for n in names}
    frame = pd.DataFrame({n: pd.Series(v, dtype=object) for n, v in columns.items()})
    asked = [
        BoundedQuery(f"{one} {i}, {two} {j}", 0.0, 1.0, cell=((one, i), (two, j)))
        for one, two in (("a", "b"), ("b", "c"))
        for i, j in product(letters, letters)
    ]
    start = time.process_time()
    coded = CodedRecords(frame)
    together = [query.answer(coded) for query in asked]
    middle = time.process_time()
    alone = [query.answer(CodedRecords(frame)) for query in asked]
    end = time.process_time()
    assert together == alone
    print(
        f"answers of a release of 20,000 rows to {len(asked)} cells: {middle - start:.3f} s, with "
        f"every column read for every cell {end - middle:.3f} s"
    )


if __name__ == "__main__":
    main()
