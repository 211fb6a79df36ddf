"""The vocabulary does not depend on how a processor sorts equally frequent words."""

from __future__ import annotations

import numpy as np

from proxyguard.adapters.text import most_frequent


def test_of_equally_frequent_words_the_first_in_the_alphabet_are_kept() -> None:
    # 300 words, each in two texts; one more is in three. Enough for a sort that is not stable.
    words = [f"w{k:03d}" for k in range(300)]
    texts = [" ".join(words), " ".join(reversed(words)), "w250"]
    kept, counts = most_frequent(texts, max_features=20, min_df=2, stop_words=None, lowercase=True)
    assert kept == [*words[:19], "w250"]
    np.testing.assert_array_equal(counts.sum(axis=0).ravel(), [[*[2] * 19, 3]])
