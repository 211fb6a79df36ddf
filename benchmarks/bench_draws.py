"""Time one draw of the paper's audits: fit the generator, sample a release, learn from it.

Each audit runs twice in this process, interleaved: with the package's generator and learner,
and with the straightforward version written below, one step after the other with NumPy and
scikit-learn. Printed are milliseconds of processor time a draw, the best of several rounds,
which is what the rounds have in common on a busy machine, and draws per second. Data come
from the folders that ``PROXYGUARD_DATA`` names; without them, from made tables of the same
shape, and that is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from threadpoolctl import threadpool_limits

from proxyguard.adapters.denoising import DenoisingAutoencoder
from proxyguard.adapters.library import Library, best_threshold, split_table
from proxyguard.adapters.pipelines import fixed_logistic, onehot_logistic
from proxyguard.adapters.text import UnigramText
from proxyguard.draw.catalog import load_generator
from proxyguard.draw.protocol import Seed
from proxyguard.errors import TableError
from proxyguard.registry.parts import Procedure
from proxyguard.registry.target import Outcome
from reproduction.datasets import load

Array = NDArray[np.float64]
ROUNDS, BATCH = 8, 8


@dataclass(frozen=True)
class Case:
    """One audit's draw, as the package makes it and step by step."""

    name: str
    data: str
    fast: Callable[[list[int]], Any]
    plain: Callable[[int], Any]
    batch: int = BATCH


def main() -> None:
    """Print both times and both rates of every audit."""
    with threadpool_limits(1):
        print(
            f"{'audit':<34}{'data':<6}{'fast ms':>9}{'plain ms':>10}{'ratio':>7}"
            f"{'fast draws/s':>14}{'plain draws/s':>15}"
        )
        for make in (shoppers, cdc, covertype, text, mushroom):
            case = make()
            fast, plain = measure(case)
            print(
                f"{case.name:<34}{case.data:<6}{fast:>9.1f}{plain:>10.1f}{plain / fast:>7.1f}"
                f"{1e3 / fast:>14.0f}{1e3 / plain:>15.0f}",
                flush=True,
            )


def measure(case: Case) -> tuple[float, float]:
    """Return the processor time of a draw, in milliseconds, fast and straightforward."""
    fast, plain = [], []
    for k in range(ROUNDS + 1):  # the first round warms up
        seeds = list(range(1000 * k, 1000 * k + case.batch))
        start = time.process_time()
        case.fast(seeds)
        middle = time.process_time()
        for seed in seeds[:2]:
            case.plain(seed)
        fast.append((middle - start) / case.batch)
        plain.append((time.process_time() - middle) / 2)
    return 1e3 * min(fast[1:]), 1e3 * min(plain[1:])


def shoppers() -> Case:
    """Online Shoppers: 800 source rows, 1,000 released, 17 features, 32 hidden units."""
    return neural("Online Shoppers, 1,000 x 17", "shoppers", "Revenue", 400, 1000, 32)


def cdc() -> Case:
    """CDC Diabetes: 5,000 source rows, 5,000 released, 21 features, 32 hidden units."""
    return neural("CDC Diabetes, 5,000 x 21", "cdc", "Diabetes_binary", 2500, 5000, 32)


def covertype() -> Case:
    """Covertype: 10,000 source rows, 10,000 released, 54 features, 48 hidden units."""
    return neural("Covertype, 10,000 x 54", "covertype", "Cover_Type_2", 5000, 10_000, 48)


def found(name: str, make: Callable[[], pd.DataFrame]) -> tuple[pd.DataFrame, str]:
    """Return a data set and "real", or a made one and "made" where the folder is not there."""
    try:
        return getattr(load, name)(), "real"
    except TableError:
        return make(), "made"


def made_numbers(columns: int, outcome: str) -> Callable[[], pd.DataFrame]:
    """Return the maker of a table of whole numbers, rates and an outcome."""

    def make() -> pd.DataFrame:
        rng = np.random.default_rng(1)
        x = rng.gamma(1.0, 20.0, (24_000, columns))
        x[:, ::2] = np.rint(x[:, ::2])
        z = (x[:, :5] - 20.0).sum(axis=1) / 40.0
        table = pd.DataFrame(x, columns=[f"x{k}" for k in range(columns)])
        return table.assign(**{outcome: (rng.random(len(x)) < 1 / (1 + np.exp(-z))) * 1.0})

    return make


def neural(name: str, dataset: str, outcome: str, each: int, rows: int, hidden: int) -> Case:
    """Return an audit with the denoising autoencoder, second configuration, and the logistic."""
    columns = {"shoppers": 17, "cdc": 21, "covertype": 54}[dataset]
    table, data = found(dataset, made_numbers(columns, outcome))
    rng = np.random.default_rng(2)
    chosen = np.concatenate(
        [rng.permutation(np.flatnonzero(table[outcome] == c))[:each] for c in (0, 1)]
    )
    source = table.iloc[chosen].reset_index(drop=True)
    features = [str(c) for c in source.columns if c != outcome]
    text_source = source.assign(**{outcome: source[outcome].map({0.0: "0", 1.0: "1"})})
    text_source[outcome] = text_source[outcome].astype(object)
    generator = DenoisingAutoencoder(
        outcome=outcome, positive="1", rows=rows, hidden=hidden, train_noise="0.03",
        sample_noise="0.03", label_fidelity="0.95", ridge="0.003", rounding="published",
    )  # fmt: skip
    generator.prepare(text_source, np.random.default_rng(0))
    learner = Library(
        Procedure(library=("fast_logistic",)), Outcome(column=outcome, positive="1"), features
    )

    def fast(seeds: list[int]) -> None:
        many = [Seed(s) for s in seeds]
        for seed, release in zip(many, generator.draw_many(many), strict=True):
            learner.fit(release, None, seed)

    x, y = source[features].to_numpy(), source[outcome].to_numpy()
    return Case(name, data, fast, lambda seed: plain_neural(x, y, rows, hidden, seed))


def plain_neural(x: Array, y: Array, rows: int, hidden: int, number: int) -> Any:
    """Fit, sample and learn, step by step, as the paper states them."""
    rng = np.random.default_rng(number)
    low, high = x.min(axis=0), x.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    scaled = (x - low) / span
    inputs = x.shape[1] + 1
    corrupted = np.clip(scaled + rng.normal(0.0, 0.03, scaled.shape), 0.0, 1.0)
    weights = rng.normal(0.0, 1.0 / np.sqrt(inputs), (inputs, hidden))
    bias = rng.uniform(-0.5, 0.5, hidden)

    def encode(features: Array, labels: Array) -> Array:
        units = np.tanh(np.column_stack([features, labels]) @ weights + bias)
        return np.column_stack([units, np.ones(labels.size)])

    encoded = encode(corrupted, y)
    penalty = 0.003 * np.eye(hidden + 1)
    penalty[-1, -1] = 0.0
    decoder = np.linalg.solve(encoded.T @ encoded + penalty, encoded.T @ scaled)
    labels = np.arange(rows) % 2
    rng.shuffle(labels)
    wanted = np.where(rng.random(rows) < 0.95, labels, 1 - labels)
    anchors = np.empty((rows, x.shape[1]))
    for c in (0, 1):
        mine = np.flatnonzero(wanted == c)
        anchors[mine] = scaled[rng.choice(np.flatnonzero(y == c), mine.size)]
    noisy = np.clip(anchors + rng.normal(0.0, 0.03, anchors.shape), 0.0, 1.0)
    decoded = np.clip(encode(noisy, labels.astype(np.float64)) @ decoder, 0.0, 1.0)
    release = np.clip(np.rint(low + decoded * span), low, high)
    table = pd.DataFrame(release).assign(y=labels)
    features = table.drop(columns="y").to_numpy()
    return fixed_logistic(Seed(number)).pipeline(features).fit(features, table["y"])


def made_texts() -> pd.DataFrame:
    """Return documents of made words, two classes."""
    rng = np.random.default_rng(1)
    words = np.array([f"word{k}" for k in range(3000)], dtype=object)
    weights = 1.0 / (1.0 + np.arange(3000))
    texts, groups = [], np.arange(1193) % 2
    for group in groups:
        shares = np.roll(weights, 20 * group)
        texts.append(" ".join(rng.choice(words, rng.integers(20, 200), p=shares / shares.sum())))
    return pd.DataFrame({"text": pd.Series(texts, dtype=object), "group": groups * 1.0})


def text() -> Case:
    """20 Newsgroups: 895 source documents, 2,000 released, 500 words."""
    table, data = found("newsgroups", made_texts)
    order = np.random.default_rng(26081701).permutation(len(table))[:895]
    source = table.iloc[order].reset_index(drop=True)
    source["group"] = source["group"].map({0.0: "hockey", 1.0: "space"}).astype(object)
    generator = UnigramText(outcome="group", positive="space", text="text", rows=2000)
    generator.prepare(source, np.random.default_rng(0))
    learner = Library(
        Procedure(library=("count_nb",)), Outcome(column="group", positive="space"), ("text",)
    )
    learner.prepare(source)

    def fast(seeds: list[int]) -> None:
        for number in seeds:
            seed = Seed(number)
            learner.fit(generator.draw(seed), None, seed)

    vectorizer = CountVectorizer(max_features=500, min_df=2, stop_words="english")
    counts = vectorizer.fit_transform(source["text"])
    space = (source["group"] == "space").to_numpy()
    parts = [counts[np.flatnonzero(space == c)] for c in (False, True)]
    shares = [np.asarray(part.sum(axis=0)).ravel() + 0.5 for part in parts]
    lengths = [np.clip(np.asarray(part.sum(axis=1)).ravel(), 10, 150) for part in parts]

    def plain(number: int) -> Any:
        # Counts alone: unlike the package's release there is no text to store or to read.
        rng = np.random.default_rng(number)
        drawn = [
            rng.multinomial(rng.choice(lengths[c], 1000), shares[c] / shares[c].sum())
            for c in (0, 1)
        ]
        order = rng.permutation(2000)
        return MultinomialNB().fit(np.vstack(drawn)[order], np.repeat([0, 1], 1000)[order])

    return Case("20 Newsgroups, 2,000 documents", data, fast, plain)


def made_mushrooms() -> pd.DataFrame:
    """Return a table of two classes and 17 features of 7 categories each."""
    rng = np.random.default_rng(1)
    poison = rng.random(51_069) < 0.55
    columns: dict[str, Any] = {"class": np.where(poison, "p", "e")}
    for k in range(17):
        code = (rng.gamma(1.0, 1.5, poison.size) + poison * (k % 3)).astype(int)
        columns[f"feature {k}"] = np.array(list("abcdefg"))[np.minimum(code, 6)]
    return pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()})


def mushroom() -> Case:
    """Secondary Mushroom: 10,000 rows of 17 categories, a fifth of them to set the threshold."""
    table, data = found("mushroom", made_mushrooms)
    domains = {str(c): sorted(table[c].unique()) for c in table.columns}
    generator = load_generator(
        "categorical",
        {"outcome": "class", "domains": domains, "rows": 10_000, "scale": "0.9",
         "noise": "seeded"},
    )  # fmt: skip
    generator.prepare(table, np.random.default_rng(0))
    features = [str(c) for c in table.columns if c != "class"]
    declared = Procedure.model_validate(
        {
            "library": ["fast_onehot_logistic"],
            "validation": "release",
            "choose": {"loss": "cost", "false_negative": "5"},
        }
    )
    learner = Library(declared, Outcome(column="class", positive="p"), features)

    def fast(seeds: list[int]) -> None:
        for number in seeds:
            seed = Seed(number)
            learner.fit(generator.draw(seed), None, seed)

    tables = {
        name: np.stack(
            [
                [(part == value).sum() + 1.0 for value in domains[name]]
                for part in (table[name][table["class"] == c] for c in ("e", "p"))
            ]
        )
        for name in features
    }
    poison = float((table["class"] == "p").mean())

    def plain(number: int) -> Any:
        rng = np.random.default_rng(number)
        labels = (rng.random(10_000) < poison).astype(int)
        columns: dict[str, Any] = {"class": np.where(labels == 1, "p", "e")}
        for name, cells in tables.items():
            values = np.empty(10_000, dtype=object)
            for c in (0, 1):
                mine = np.flatnonzero(labels == c)
                values[mine] = rng.choice(domains[name], mine.size, p=cells[c] / cells[c].sum())
            columns[name] = values
        release = pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()})
        train, rest = split_table(release, labels, 0.2, number)
        pipeline = onehot_logistic(Seed(number)).pipeline(train[features])
        model = pipeline.fit(train[features], train["class"] == "p")
        p = model.predict_proba(rest[features])[:, 1]
        return best_threshold((rest["class"] == "p").to_numpy(dtype=float), p, 5.0, 501)

    return Case("Secondary Mushroom, 10,000 x 17", data, fast, plain, batch=4)


if __name__ == "__main__":
    main()
