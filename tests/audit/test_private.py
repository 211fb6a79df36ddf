"""What a sealed audit says of private mechanisms: where the noise came from, what it costs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.plan import privacy_notes

DECLARATION = """\
format = 1
name = "private"
purpose = "What do the releases cost?"

[target]
table = "table.csv"
reserve = { rows = 120, seed = 11 }
outcome = "label"
positive = "yes"

[procedure]
library = ["onehot_logistic"]

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = "0.45"

[claim]
reliability = "0.3"
"""
ONE_FIT = """
[[mechanism]]
name = "one fit"
generator = "categorical"
draws = 4
seeds = { first = 100 }
prepare_seed = 3
[mechanism.options]
outcome = "label"
rows = 150
epsilon = "2"
NOISE
[mechanism.options.domains]
label = ["no", "yes"]
colour = ["red", "green", "blue"]
"""
REFITS = """
[[mechanism]]
name = "refits"
generator = "pg_private:Refits"
draws = 4
seeds = { first = 200 }
"""
MODULE = """\
class Refits:
    '''Private only in words: what is tested is what the audit makes of them.'''

    def describe(self):
        return {"privacy": {"epsilon": "2", "delta": "0", "unit": "one row", "fits": "each draw"}}

    def prepare(self, source, rng):
        self.source = source

    def draw(self, seed):
        return self.source.sample(frac=1.0, replace=True, random_state=seed.take("fit"))
"""


@pytest.fixture
def make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw_here: Callable[..., None]
) -> Callable[[str], Audit]:
    """Return a function that makes an audit with these mechanisms."""
    monkeypatch.setattr("proxyguard.audit.draw.draw_all", draw_here)
    (tmp_path / "pg_private.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pg_private", raising=False)
    rng = np.random.default_rng(1)
    colour = rng.choice(["red", "green", "blue"], size=300)
    label = np.where((colour == "red") ^ (rng.random(300) < 0.2), "yes", "no")
    (tmp_path / "data").mkdir()
    pd.DataFrame({"colour": colour, "label": label}).to_csv(
        tmp_path / "data" / "table.csv", index=False
    )

    def new(mechanisms: str) -> Audit:
        audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "data"])
        audit.init(DECLARATION + mechanisms)
        return audit

    return new


def finish(audit: Audit) -> None:
    audit.seal()
    audit.register()
    audit.draw()
    audit.open()


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (
            'noise = "opendp"\nfolder = "fits"',
            "one preparation of the generator, made once with random noise of the system, which "
            "no seed repeats",
        ),
        (
            'noise = "seeded"',
            "one preparation of the generator, random and made once from seed 3",
        ),
    ],
)
def test_a_certificate_names_a_seed_only_where_the_noise_came_from_it(
    make: Callable[[str], Audit], noise: str, words: str
) -> None:
    audit = make(ONE_FIT.replace("NOISE", noise))
    finish(audit)
    assert audit.certificate()["conditional_on"]["one fit"][1] == words
    assert audit.verify().good
    assert words in (audit.folder / "report.md").read_text()


def test_plan_and_certificate_tell_refits_from_samples_of_one_fit(
    make: Callable[[str], Audit],
) -> None:
    audit = make(ONE_FIT.replace("NOISE", 'noise = "opendp"\nfolder = "fits"') + REFITS)
    planned = privacy_notes(audit.place)
    assert planned["one fit"][0].startswith("One private fit (epsilon 2;")
    assert "all releases together cost the same epsilon 2." in planned["one fit"][0]
    assert planned["refits"][0].startswith("Each of 4 draws is a private fit of its own")
    # Basic composition: 4 fits of epsilon 2 cost 4 x 2.
    assert "To release all 4 costs epsilon 8, delta 0 by basic" in planned["refits"][0]
    finish(audit)
    assert audit.certificate()["privacy"] == planned
