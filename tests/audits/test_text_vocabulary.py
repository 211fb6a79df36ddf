"""Two things that ties in the vocabulary of the text audit decide: a limit, and a role.

The limits are printed as .120537, .078884 and .073557, and the configurations as 02, 06 and 09
(audits/published.py). They follow from the published division and seeds, but for which of 22
equally frequent words fill the last 11 of 500 places.
"""

from __future__ import annotations

import os

import pytest
from published import AUDITS
from text_roles import TIES, Division, chosen

from proxyguard.adapters.vocabulary import most_frequent

pytestmark = [
    pytest.mark.reproduction,
    pytest.mark.skipif(
        "PROXYGUARD_DATA" not in os.environ,
        reason="PROXYGUARD_DATA names no folder with the data sets",
    ),
]

# The Brier limit that follows from the words that NumPy 2.4 puts first, by the instructions it
# sorts with, and from the first in the alphabet; seen on processors with and without them.
BRIER = {"AVX2": 0.078884, "AVX-512": 0.078847, "neither": 0.079748, "alphabet": 0.078608}
PUBLISHED = {name: float(value) for name, value in AUDITS["text-unigram"].limits.items()}


def limits(division: Division, how: str) -> dict[str, float]:
    return dict(zip(PUBLISHED, division.counted(TIES[how]).limits().tolist(), strict=True))


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
    assert set(TIES[how].split()) <= set(division.tied)
    found = limits(division, how)
    assert found["Brier"] == pytest.approx(BRIER[how], abs=5.1e-7)
    if how != "neither":
        for name in ("error", "Cost3x"):
            assert found[name] == pytest.approx(PUBLISHED[name], abs=5.1e-7)


def test_with_the_words_of_avx2_every_limit_is_the_published_one(division: Division) -> None:
    assert limits(division, "AVX2") == pytest.approx(PUBLISHED, abs=5.1e-7)


def test_with_these_words_the_registered_rule_chooses_the_published_configurations(
    division: Division,
) -> None:
    found = chosen(division.counted(TIES["AVX2"]).margins())
    assert found["all"] == dict(AUDITS["text-unigram"].roles)
    # The filter of the neural audits leaves 06 out: its 10 % quantile is negative.
    assert found["likely"] == {**AUDITS["text-unigram"].roles, "moderate": "05"}
