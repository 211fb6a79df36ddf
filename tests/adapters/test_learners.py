"""What each built-in learner takes is what the page says, and what it does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from proxyguard.adapters.library import ANY, Library
from proxyguard.draw.catalog import FILL_MISSING, LEARNERS, PROCEDURES, TAKE_INFINITE
from proxyguard.draw.protocol import Seed
from proxyguard.errors import DrawError
from proxyguard.registry.parts import Procedure
from proxyguard.registry.target import Outcome

PAGE = Path(__file__).parents[2] / "docs" / "learners.md"
OUTCOMES = {
    "binary": Outcome(column="y", positive="0"),
    "multiclass": Outcome(column="y", classes=("0", "1", "2")),
    "regression": Outcome(column="y", range=("0", "2")),
}
SLOW = ("forest", "boosting", "balanced_boosting")


def table(name: str, outcome: str, flaw: str | None = None) -> pd.DataFrame:
    """A small table that a learner takes, or that has one column which it does not."""
    rng, takes = np.random.default_rng(1), LEARNERS[name]
    columns: dict[str, object] = {}
    if takes.numbers:
        columns["size"] = rng.normal(size=60)
    if takes.text:
        columns["ward"] = rng.choice(["red blue", "blue cold", "cold red"], 60)
    if flaw is not None:
        columns["flaw"] = {
            "text": rng.choice(["a", "b"], 60),
            "numbers": rng.normal(size=60),
            "missing": np.where(rng.random(60) < 0.2, np.nan, rng.normal(size=60)),
            "infinite": np.where(rng.random(60) < 0.2, np.inf, rng.normal(size=60)),
        }[flaw]
    frame = pd.DataFrame(columns)
    labels = np.arange(60) % (2 if outcome == "binary" else 3)
    y = labels * 1.0 if outcome == "regression" else labels.astype(str)
    frame = frame.assign(y=y)
    return frame.astype({c: object for c in frame if frame[c].dtype.kind not in "fiub"})


def fit(name: str, frame: pd.DataFrame, outcome: str) -> None:
    names = [column for column in frame if column != "y"]
    library = Library(Procedure(library=(name,), seed=1), OUTCOMES[outcome], names)
    assert library.fit(frame, None, Seed(1)).selected == name


def test_there_is_a_word_about_every_learner() -> None:
    assert list(LEARNERS) == list(PROCEDURES)
    assert {"default"} == TAKE_INFINITE < FILL_MISSING


def test_the_page_has_a_row_for_each_learner_and_says_what_it_takes() -> None:
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [name for name, _ in rows] == list(LEARNERS)
    for name, row in rows:
        takes = LEARNERS[name]
        outcomes, columns = (cell.strip() for cell in row.split("|")[:2])
        said = {"two classes": "binary", "classes": "multiclass", "numbers": "regression"}
        assert {said[word] for word in outcomes.split(", ")} | {"binary"} == set(takes.outcomes)
        words = [
            *(["numbers"] if takes.numbers else []),
            *(["text"] if takes.text else []),
            *(["missing numbers"] if takes.missing else []),
            *(["infinite numbers"] if takes.infinite else []),
        ]
        assert columns.removesuffix(", one column alone").split(", ") == words, name


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in SLOW])
def test_an_outcome_is_predicted_or_refused_by_name(name: str, outcome: str) -> None:
    frame = table(name, outcome)
    if outcome in LEARNERS[name].outcomes:
        fit(name, frame, outcome)
        return
    with pytest.raises(DrawError, match=rf"{name!r} does not predict .*'y' is; write library"):
        fit(name, frame, outcome)


@pytest.mark.parametrize("flaw", ["text", "numbers", "missing", "infinite"])
@pytest.mark.parametrize("name", [n for n in LEARNERS if n not in (*SLOW, "count_nb")])
def test_a_column_is_taken_or_named_with_what_to_write_instead(name: str, flaw: str) -> None:
    frame, takes = table(name, "binary", flaw), LEARNERS[name]
    if getattr(takes, flaw) and (takes.numbers or flaw == "text"):
        fit(name, frame, "binary")
        return
    with pytest.raises(DrawError) as no:
        fit(name, frame, "binary")
    assert ANY in str(no.value)
    assert "column 'flaw' has " in str(no.value)
