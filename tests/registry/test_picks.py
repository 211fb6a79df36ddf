"""`[picks]` is read as declared, refused where it cannot hold, and absent where it is not there."""

from __future__ import annotations

import pytest

from proxyguard.errors import RegistryError
from proxyguard.registry.declaration import as_declaration, read_declaration

TEXT = """
format = 1
name = "small"
purpose = "Is it read?"
[target]
table = "a.csv"
reserve = { rows = 100, seed = 1 }
outcome = "label"
positive = "yes"
[procedure]
library = ["fixed_logistic"]
[[requirement]]
name = "risk"
loss = "brier"
form = "absolute"
limit = "0.2"
[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = 30
seeds = { first = 1 }
[claim]
reliability_target = "0.8"
"""


def test_a_declaration_without_picks_keeps_its_bytes() -> None:
    # "picks" among the plain values would change the digest of every registry before it.
    declared = read_declaration(TEXT)
    assert "picks" not in declared.to_dict()
    assert as_declaration(declared.to_dict()) == declared


def test_picks_are_read_and_written_back() -> None:
    declared = read_declaration(TEXT + '[picks]\nalpha = "0.05"\n')
    assert declared.picks is not None
    assert declared.picks.thresholds is None
    assert declared.to_dict()["picks"] == {"alpha": "0.05", "thresholds": None}
    assert as_declaration(declared.to_dict()) == declared


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("alpha = 0.05", r"\[picks\] alpha: is a number between 0 and 1"),
        ('alpha = "0.05"\nthreshold = "0.1"', "threshold: unknown key; .* did you mean thresholds"),
        ('alpha = "0.05"\nthresholds = []', "thresholds: is missing or empty"),
        ('alpha = "0.05"\nthresholds = ["0.06"]', "largest e-value is 16.67"),
    ],
)
def test_what_cannot_be_honoured_is_refused(table: str, words: str) -> None:
    with pytest.raises(RegistryError, match=words):
        read_declaration(f"{TEXT}[picks]\n{table}\n")


def test_an_audit_that_draws_after_opening_has_no_picks() -> None:
    later = TEXT.replace(
        'reliability_target = "0.8"',
        'reliability_target = "0.8"\nmode = "sequential"\nlooks = [10, 30]\nthreshold = "0.01"',
    )
    read_declaration(later)
    with pytest.raises(RegistryError, match="drawn before the target is opened; in mode 'sequ"):
        read_declaration(later + '[picks]\nalpha = "0.05"\n')
