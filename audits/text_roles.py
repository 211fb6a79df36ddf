"""Which configurations each rule of roles chooses for text, from pilots drawn as the paper's were.

    python audits/text_roles.py [--out FILE]

The paper says of its rule no more than that it is deterministic and looks at margins. Its pilots
can be drawn again: the division, the seeds and the order of draws are known, and the vocabulary but
for 22 words that tie for its last 11 places, of which scikit-learn takes those that NumPy's sort
puts first. With the words that give the published limits, the rule without a filter chooses the
published configurations. The rule of the neural audits, which asks for a positive 10 % quantile,
does not.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from newsgroups import SEED, SOURCE
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB

from proxyguard.datasets import load
from proxyguard.registry.rules import choose_roles

Array = NDArray[np.float64]

# What NumPy 2.4 puts first among the 22, by the instructions it sorts with. Seen with
# NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL" (AVX2 is left), with nothing disabled on a processor
# with AVX-512, and with X86_V3 disabled too. The audits take the first in the alphabet.
TIES = {
    "AVX2": "202 applications article astro came canadian david posts short solid stuff",
    "AVX-512": "article astro canadian david hand posted posts results service short stuff",
    "neither": "applications base came david goes posted pretty results short solid stuff",
    "alphabet": "202 applications article astro base black came canadian david expected goes",
}
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
        return Counted(self, CountVectorizer(vocabulary=sorted([*self.above, *ties.split()])))


class Counted:
    """A division in numbers: what is drawn from and what judges."""

    def __init__(self, division: Division, counter: CountVectorizer) -> None:
        self.x, self.y = counter.transform(division.source), division.y
        self.planning, self.planning_y = counter.transform(division.planning), division.planning_y

    def risks(self, model: MultinomialNB) -> Array:
        """Return error, Brier score and Cost3x on the planning part."""
        p, y = model.predict_proba(self.planning)[:, 1], self.planning_y
        missed, alarm = (p < 0.5) & (y == 1), (p >= 0.5) & (y == 0)
        means = (np.mean(missed | alarm), np.mean((p - y) ** 2), np.mean(missed + alarm / 3))
        return np.array(means, dtype=np.float64)

    def limits(self) -> Array:
        """Return the three limits that the source's planning risks give; no ceiling binds."""
        return self.risks(MultinomialNB().fit(self.x, self.y)) + np.array(BUDGETS)

    def margins(self) -> dict[str, list[float]]:
        """Return the smallest margin below the cutoffs of every pilot, by configuration."""
        cutoffs = self.limits() - np.array(SLACKS)
        return {
            name: [
                float(np.min(cutoffs - self.risks(self._fit(FIRST_SEED + 1000 * i + j, *how))))
                for j in range(PILOTS)
            ]
            for i, (name, how) in enumerate(CONFIGURATIONS.items())
        }

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


def write_text_roles(place: Path) -> None:
    """Write what each rule chooses in each vocabulary, unless it is there."""
    if place.exists():
        return
    division = Division()
    found = {how: chosen(division.counted(ties).margins()) for how, ties in TIES.items()}
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Write what each rule chooses, and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/audits/text-roles.json"))
    given = parser.parse_args()
    write_text_roles(given.out)
    for how, rules in json.loads(given.out.read_text("utf-8")).items():
        for rule, roles in rules.items():
            print(f"ties by {how}, moderate among {rule}: {roles}")


if __name__ == "__main__":
    main()
