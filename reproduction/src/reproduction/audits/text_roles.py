"""Which configurations each rule of roles chooses for text, from pilots drawn as the paper's were.

    python -m reproduction.audits.text_roles [--out FILE]
    python -m reproduction.audits.text_roles --words

The paper says of its rule no more than that it is deterministic and looks at margins. Its pilots
can be drawn again: the division, the seeds and the order of draws are known, and the vocabulary but
for 22 words that tie for its last 11 places, of which scikit-learn takes those that NumPy's sort
puts first (`--words` asks it). With the words that give the published limits, the rule without a
filter chooses the published configurations. The rule of the neural audits, which asks for a
positive 10 % quantile, does not.

The audits draw from the same seeds word by word, where the paper draws the counts of a document at
once, and take the tied words that come first in the alphabet. So that draws and words can be told
apart, their pilots are drawn with every set of words as well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB

from proxyguard.adapters.text import UnigramText
from proxyguard.draw.protocol import Seed
from proxyguard.registry.requirement import choose_roles
from reproduction.audits.newsgroups import SEED, SOURCE
from reproduction.datasets import load

Array = NDArray[np.float64]

# What is put first among the 22, by the instructions that NumPy sorts with: what `--words` printed
# with the versions below. The audits take the first in the alphabet.
TIES = {
    "AVX2": "202 applications article astro came canadian david posts short solid stuff",
    "AVX-512": "article astro canadian david hand posted posts results service short stuff",
    "neither": "applications base came david goes posted pretty results short solid stuff",
    "alphabet": "202 applications article astro base black came canadian david expected goes",
}
VERSIONS = {"numpy": "2.4", "scikit-learn": "1.9", "machine": "x86_64"}
DISABLED = {"AVX-512": "", "AVX2": "X86_V4 AVX512_ICL", "neither": "X86_V4 AVX512_ICL X86_V3"}
"""NPY_DISABLE_CPU_FEATURES, by what a processor with AVX-512 is left to sort with."""
CONFIGURATIONS = {
    "01": (4000, 1.0, 0.0), "02": (2000, 1.0, 0.0), "03": (1000, 1.0, 0.0), "04": (500, 1.0, 0.0),
    "05": (1000, 1.1, 0.0), "06": (500, 1.1, 0.0), "07": (300, 1.2, 0.0), "08": (500, 1.2, 0.08),
    "09": (300, 1.35, 0.15),
}  # fmt: skip
"""Rows, temperature and share of flipped labels."""
FIRST_SEED, PILOTS, MODERATE = 26082000, 20, 0.003
BUDGETS, SLACKS = (0.04, 0.03, 0.04), (0.03, 0.02, 0.03)  # of error, Brier and Cost3x
RULES = ("likely", "all")  # as a declaration writes them: roles.among


class Division:
    """The published source and planning part, and the words that occur often enough."""

    def __init__(self) -> None:
        table = load.newsgroups("train")
        order = np.random.default_rng(SEED).permutation(len(table))
        texts, groups = table["text"].to_numpy(), table["group"].to_numpy()
        self.source, self.planning = texts[order[:SOURCE]], texts[order[SOURCE:]]
        self.y, self.planning_y = groups[order[:SOURCE]], groups[order[SOURCE:]]
        vectorizer = CountVectorizer(min_df=2, stop_words="english")
        totals = np.asarray(vectorizer.fit_transform(self.source).sum(axis=0)).ravel()
        words = vectorizer.get_feature_names_out()
        self.above = words[totals > 37].tolist()
        self.tied = words[totals == 37].tolist()

    def counted(self, ties: str) -> Counted:
        """Return both parts counted in the vocabulary that has these of the tied words."""
        return Counted(self, sorted([*self.above, *ties.split()]))

    def taken(self) -> str:
        """Return the tied words that scikit-learn takes in this process."""
        vectorizer = CountVectorizer(max_features=500, min_df=2, stop_words="english")
        vectorizer.fit(self.source)
        return " ".join(sorted(set(vectorizer.vocabulary_) & set(self.tied)))


class Counted:
    """A division in numbers: what is drawn from and what judges."""

    def __init__(self, division: Division, words: list[str]) -> None:
        self.words, self.counter = words, CountVectorizer(vocabulary=words)
        self.texts = division.source
        self.x, self.y = self.counter.transform(division.source), division.y
        self.planning = self.counter.transform(division.planning)
        self.planning_y = division.planning_y

    def risks(self, model: MultinomialNB) -> Array:
        """Return error, Brier score and Cost3x on the planning part."""
        p, y = model.predict_proba(self.planning)[:, 1], self.planning_y
        missed, alarm = (p < 0.5) & (y == 1), (p >= 0.5) & (y == 0)
        means = (np.mean(missed | alarm), np.mean((p - y) ** 2), np.mean(missed + alarm / 3))
        return np.array(means, dtype=np.float64)

    def limits(self) -> Array:
        """Return the three limits that the source's planning risks give; no ceiling binds."""
        risks: Array = self.risks(MultinomialNB().fit(self.x, self.y)) + np.array(BUDGETS)
        return risks

    def margins(self) -> dict[str, list[float]]:
        """Return every pilot's smallest margin, by configuration, drawn in the paper's order."""
        return {
            name: [self._margin(self._fit(FIRST_SEED + 1000 * i + j, *how)) for j in range(PILOTS)]
            for i, (name, how) in enumerate(CONFIGURATIONS.items())
        }

    def own_margins(self) -> dict[str, list[float]]:
        """Return every pilot's smallest margin, by configuration, drawn as the audits draw."""
        analyse, kept = self.counter.build_analyzer(), set(self.words)
        # Without other words in it, the generator can take no other vocabulary than this one.
        texts = [" ".join(word for word in analyse(text) if word in kept) for text in self.texts]
        source = pd.DataFrame({"text": texts, "group": self.y})
        found = {}
        for i, (name, (rows, temperature, flip)) in enumerate(CONFIGURATIONS.items()):
            generator = UnigramText(outcome="group", positive=1, text="text", rows=rows,
                                    temperature=temperature, flip=flip)  # fmt: skip
            generator.prepare(source, np.random.default_rng())  # nothing in it is random
            releases = (generator.draw(Seed(FIRST_SEED + 1000 * i + j)) for j in range(PILOTS))
            found[name] = [
                self._margin(MultinomialNB().fit(self.counter.transform(one["text"]), one["group"]))
                for one in releases
            ]
        return found

    def _margin(self, model: MultinomialNB) -> float:
        """Return the smallest margin below the cutoffs."""
        return float(np.min(self.limits() - np.array(SLACKS) - self.risks(model)))

    def _fit(self, seed: int, rows: int, temperature: float, flip: float) -> MultinomialNB:
        """Draw one release in the paper's order and refit the classifier."""
        rng = np.random.default_rng(seed)
        documents, labels = [], np.repeat([0, 1], [rows // 2, rows - rows // 2])
        for group in (0, 1):
            own = self.x[self.y == group]
            counts = np.asarray(own.sum(axis=0)).ravel() + 0.5
            shares = (counts / counts.sum()) ** (1.0 / temperature)
            lengths = np.clip(np.asarray(own.sum(axis=1)).ravel(), 10, 150)
            sampled = rng.choice(lengths, size=int(np.sum(labels == group)), replace=True)
            documents += [rng.multinomial(length, shares / shares.sum()) for length in sampled]
        if flip > 0.0:
            labels = np.where(rng.random(rows) < flip, 1 - labels, labels)
        order = rng.permutation(rows)
        return MultinomialNB().fit(np.stack(documents)[order], labels[order])


def chosen(margins: dict[str, list[float]]) -> dict[str, dict[str, str]]:
    """Return the configurations of the three roles, by rule."""
    return {rule: choose_roles(margins, moderate=MODERATE, among=rule) for rule in RULES}


def tied_words(disabled: str) -> str:
    """Return the tied words that scikit-learn takes where NumPy lacks these instructions."""
    found = subprocess.run(
        [sys.executable, "-m", "reproduction.audits.text_roles", "--taken"],
        env={**os.environ, "NPY_DISABLE_CPU_FEATURES": disabled},
        capture_output=True,
        check=True,
        text=True,
    )
    return found.stdout.strip()


def write_text_roles(place: Path) -> None:
    """Write what each rule chooses in each vocabulary, unless it is there."""
    _write(place, Counted.margins)


def write_own_roles(place: Path) -> None:
    """Write the same from pilots drawn as the audits draw them, unless it is there."""
    _write(place, Counted.own_margins)


def _write(place: Path, margins: Callable[[Counted], dict[str, list[float]]]) -> None:
    if place.exists():
        return
    division = Division()
    found = {how: chosen(margins(division.counted(ties))) for how, ties in TIES.items()}
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Write what each rule chooses, and print it; or print the tied words that are taken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/audits/text-roles.json"))
    parser.add_argument("--words", action="store_true", help="tied words, by instructions")
    parser.add_argument("--taken", action="store_true", help="tied words, in this process")
    given = parser.parse_args()
    if given.taken:
        print(Division().taken())
    elif given.words:
        for disabled in DISABLED.values():
            print(f'NPY_DISABLE_CPU_FEATURES="{disabled}": {tied_words(disabled)}')
    else:
        own = given.out.with_name("text-own-roles.json")
        write_text_roles(given.out)
        write_own_roles(own)
        for draws, place in (("the paper's draws", given.out), ("our draws", own)):
            for how, rules in json.loads(place.read_text("utf-8")).items():
                for rule, roles in rules.items():
                    print(f"{draws}, ties by {how}, moderate among {rule}: {roles}")


if __name__ == "__main__":
    main()
