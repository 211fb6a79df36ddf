"""Why the Brier limit of the text audit differs from the published one: ties in the vocabulary.

The limits are printed as .120537, .078884 and .073557 (audits/published.py). They follow from the
published division alone, but for which of 22 equally frequent words fill the last 11 of 500 places.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from newsgroups import SEED, SOURCE
from published import AUDITS
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB

from proxyguard.adapters.vocabulary import most_frequent
from proxyguard.datasets import load

pytestmark = [
    pytest.mark.reproduction,
    pytest.mark.skipif(
        "PROXYGUARD_DATA" not in os.environ,
        reason="PROXYGUARD_DATA names no folder with the data sets",
    ),
]

# What NumPy 2.4 puts first among the 22, by the instructions it sorts with, and the Brier limit
# that follows. Seen with NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL" (AVX2 is left), with
# nothing disabled on a processor with AVX-512, and with X86_V3 disabled too.
TIES = {
    "AVX2": ("202 applications article astro came canadian david posts short solid stuff",
             0.078884),
    "AVX-512": ("article astro canadian david hand posted posts results service short stuff",
                0.078847),
    "neither": ("applications base came david goes posted pretty results short solid stuff",
                0.079748),
    "alphabet": ("202 applications article astro base black came canadian david expected goes",
                 0.078608),
}  # fmt: skip


class Division:
    """Source and planning part, and the words that occur often enough."""

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

    def limits(self, vocabulary: list[str]) -> dict[str, float]:
        """Return the three limits that the source's planning risks give."""
        counter = CountVectorizer(vocabulary=sorted(vocabulary))
        model = MultinomialNB().fit(counter.transform(self.source), self.y)
        p, y = model.predict_proba(counter.transform(self.planning))[:, 1], self.planning_y
        missed, alarm = (p < 0.5) & (y == 1), (p >= 0.5) & (y == 0)
        return {
            "error": float(np.mean(missed | alarm)) + 0.04,
            "Brier": float(np.mean((p - y) ** 2)) + 0.03,
            "Cost3x": float(np.mean(missed + alarm / 3)) + 0.04,
        }


@pytest.fixture(scope="module")
def division() -> Division:
    return Division()


def test_twenty_two_words_tie_for_eleven_places(division: Division) -> None:
    assert (len(division.above), len(division.tied)) == (489, 22)
    ours, _ = most_frequent(
        division.source, max_features=500, min_df=2, stop_words="english", lowercase=True
    )
    assert sorted([*division.above, *division.tied[:11]]) == ours


@pytest.mark.parametrize("how", TIES)
def test_the_brier_limit_depends_on_how_ties_are_broken(division: Division, how: str) -> None:
    words, limit = TIES[how]
    assert set(words.split()) <= set(division.tied)
    found = division.limits([*division.above, *words.split()])
    assert found["Brier"] == pytest.approx(limit, abs=5.1e-7)
    if how != "neither":
        published = {name: float(value) for name, value in AUDITS["text-unigram"].limits.items()}
        for name in ("error", "Cost3x"):
            assert found[name] == pytest.approx(published[name], abs=5.1e-7)


def test_with_the_words_of_avx2_every_limit_is_the_published_one(division: Division) -> None:
    published = {name: float(value) for name, value in AUDITS["text-unigram"].limits.items()}
    found = division.limits([*division.above, *TIES["AVX2"][0].split()])
    assert found == pytest.approx(published, abs=5.1e-7)
