"""A table as people have them: dates, thousands, gaps, ids, constants, empty and mixed columns."""

from __future__ import annotations

import numpy as np
import pandas as pd


def messy(n: int, seed: int) -> pd.DataFrame:
    """Return the features and ``score``, which depends on a date, an amount, a text and gaps."""
    rng = np.random.default_rng(seed)
    day = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), unit="D")
    amount = rng.lognormal(7, 1.5, n)
    ward = rng.choice(["A", "B", "C", "rare"], n, p=[0.5, 0.3, 0.19, 0.01])
    gap = rng.random(n) < 0.2
    frame = pd.DataFrame(
        {
            "id": [f"P{seed}-{k:06d}" for k in range(n)],
            "admitted": day.strftime("%d.%m.%Y"),
            "amount": [f"{x:,.2f}" for x in amount],
            "ward": ward,
            "lab": np.where(gap, np.nan, rng.normal(size=n)),
            "constant": "x",
            "one": 1.0,
            "empty": np.nan,
            "blank": "",
            "size": np.where(rng.random(n) < 0.01, np.inf, rng.normal(size=n) * 1e200),
            "mixed": rng.choice(["<5", "7.5", "12", ">100", "n/a"], n),
            "note": [f'visit {k}, "{"cough" if k % 3 else "no"}" \U0001f600' for k in range(n)],
            "score": (day.year - 2019) / 2 + (amount > 2000) * 2 - (ward == "B") * 2 + gap * 3 - 1,
        }
    )
    return frame.astype({c: object for c in frame if frame[c].dtype.kind not in "fiub"})


def labelled(n: int, seed: int, kind: str = "binary") -> pd.DataFrame:
    """Return features and an outcome ``y``: of two classes, of three, or a number."""
    frame = messy(n, seed)
    noisy = frame.pop("score") + np.random.default_rng(seed + 1).logistic(size=n)
    if kind == "regression":
        return frame.assign(y=noisy)
    levels = [0.0] if kind == "binary" else [-1.0, 1.0]
    return frame.assign(y=np.digitize(noisy, levels).astype(str).astype(object))
