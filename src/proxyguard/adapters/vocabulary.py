"""The words that text is counted in: the most frequent ones, the same on every processor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer


def most_frequent(
    texts: Iterable[str],
    *,
    max_features: int,
    min_df: int,
    stop_words: str | None,
    lowercase: bool,
) -> tuple[list[str], Any]:
    """Return the words in order, and how often each occurs in each text, a sparse matrix.

    Of words that occur equally often the first in the alphabet are kept. scikit-learn keeps
    those that NumPy's sort happens to put first, which differs between processors.
    """
    vectorizer = CountVectorizer(min_df=min_df, stop_words=stop_words, lowercase=lowercase)
    counts = vectorizer.fit_transform(texts)
    totals = np.asarray(counts.sum(axis=0)).ravel()
    kept = np.sort(np.argsort(-totals, kind="stable")[:max_features])
    return [str(word) for word in vectorizer.get_feature_names_out()[kept]], counts[:, kept]
