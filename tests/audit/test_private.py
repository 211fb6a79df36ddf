"""What a sealed audit says of private mechanisms: where the noise came from, what it costs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import RELEASES
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
reliability_target = "0.3"
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


class Approximate(Refits):
    def describe(self):
        return {"privacy": {"epsilon": "5", "delta": "1e-6", "unit": "one row",
                            "fits": "each draw"}}
"""
TWO_MEMBERS = """\
format = 1
name = "private"
purpose = "What do the releases of two tables cost?"

[claim]
level = "releases"
""" + "".join(
    f"""
[[candidate]]
name = "{name}"
[candidate.target]
table = "table.csv"
reserve = {{ rows = 120, seed = 11 }}
outcome = "label"
positive = "yes"
[candidate.procedure]
library = ["onehot_logistic"]
[[candidate.requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = "0.45"
[[candidate.mechanism]]
name = "refits"
generator = "pg_private:Refits"
draws = {draws}
seeds = {{ first = {first} }}
"""
    for name, draws, first in (("first", 2, 200), ("second", 3, 300))
)
ROLES = (
    """
[development]
validation = { fraction = "0.3", seed = 4 }
[roles]
pilots = ["a", "b", "c"]
moderate = "0.1"
"""
    + "".join(
        f"""
[[pilot]]
name = "{name}"
generator = "pg_private:{made}"
draws = 2
seeds = {{ first = {first} }}
"""
        for name, made, first in (("a", "Refits", 1), ("b", "Approximate", 11), ("c", "Refits", 21))
    )
    + "".join(
        f"""
[[mechanism]]
name = "{role}"
role = "{role}"
draws = 30
seeds = {{ first = {first} }}
"""
        for role, first in (("high", 100), ("moderate", 200), ("degraded", 300))
    )
)


@pytest.fixture
def make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws_here: None
) -> Callable[[str], Audit]:
    """Return a function that makes an audit with these mechanisms."""
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
    assert audit.certificate().to_dict()["conditional_on"]["one fit"][1] == words
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
    assert audit.certificate().to_dict()["privacy"] == planned


@pytest.fixture
def kept_fit(make: Callable[[str], Audit]) -> Audit:
    """Return an audit that drew from one private fit, whose noise no seed repeats."""
    audit = make(ONE_FIT.replace("NOISE", 'noise = "opendp"\nfolder = "fits"'))
    audit.seal()
    audit.register()
    audit.draw()
    return audit


def test_releases_of_a_kept_fit_are_drawn_again_from_it(kept_fit: Audit, tmp_path: Path) -> None:
    tables = tmp_path / "data" / "fits" / "tables.json"
    before = tables.read_bytes()
    found = kept_fit.verify(redraw=1)
    assert found.good, found.findings
    assert found.complete, found.not_checked
    (told,) = (words for words in found.checked if words.startswith("redraw: target/one fit"))
    assert told.endswith("the same again")
    assert tables.read_bytes() == before


def test_releases_of_a_kept_fit_that_were_exchanged_are_found(
    kept_fit: Audit, forge: type[Any]
) -> None:
    def exchange(manifest: dict[str, Any]) -> None:
        draws = manifest["members"]["target"]["one fit"]["draws"]
        draws.append(draws.pop(0))
        for i, draw in enumerate(draws):
            draw["seed"] = 100 + i  # every seed has the release of the next one

    forge.manifest(kept_fit, exchange)
    assert kept_fit.verify().good  # nobody can tell without drawing again
    found = kept_fit.verify(redraw=1)
    assert [finding.place for finding in found.findings] == [RELEASES]
    assert "another content" in found.findings[0].problem


@pytest.mark.parametrize("name", ["tables.json", "source.json"])
def test_without_the_kept_fit_nothing_is_drawn_again_and_nothing_fitted(
    kept_fit: Audit, tmp_path: Path, name: str
) -> None:
    missing = tmp_path / "data" / "fits" / name
    missing.unlink()
    found = kept_fit.verify(redraw=1)
    assert found.good, found.findings
    assert any("the private fit that was kept is not at hand" in w for w in found.not_checked)
    assert any(words.startswith("refit: target/one fit") for words in found.checked)
    assert not missing.exists()


def test_another_fit_than_the_one_that_was_drawn_from_confirms_nothing(
    kept_fit: Audit, tmp_path: Path
) -> None:
    tables = tmp_path / "data" / "fits" / "tables.json"
    tables.write_bytes(tables.read_bytes() + b"\n")
    found = kept_fit.verify(redraw=1)
    assert found.good, found.findings
    assert any("the private fit at hand is another" in words for words in found.not_checked)
    assert not any(words.startswith("redraw: ") for words in found.checked)


def registered_privacy(audit: Audit, mechanism: str) -> list[str]:
    member = audit.folder.registry(audit.journal()).members["target"].to_dict()
    found: list[str] = member["mechanisms"][mechanism]["privacy"]
    return found


def test_refits_with_a_delta_can_be_planned_and_registered(make: Callable[[str], Audit]) -> None:
    audit = make(REFITS.replace("Refits", "Approximate").replace("draws = 4", "draws = 30"))
    planned = privacy_notes(audit.place)["refits"]
    # 30 fits of delta 1e-6 sum up to 3e-5, which is above the usual 1e-6.
    assert "costs epsilon 150, delta 3e-05 by basic composition" in planned[0]
    assert "delta 6e-05 (twice that of basic composition) by optimal" in planned[0]
    audit.seal()
    audit.register()
    assert registered_privacy(audit, "refits") == planned


def test_a_role_is_told_for_each_pilot_until_it_is_resolved(
    make: Callable[[str], Audit],
    monkeypatch: pytest.MonkeyPatch,
    draw_groups_here: Callable[..., None],
) -> None:
    monkeypatch.setattr("proxyguard.audit.development.draw_groups", draw_groups_here)
    audit = make(ROLES)
    planned = privacy_notes(audit.place)
    assert set(planned) == {"high", "moderate", "degraded"}
    assert [line.split(": ")[0] for line in planned["high"]] == [
        f"If the role falls to pilot {name}" for name in ("a", "b", "c")
    ]
    assert "epsilon 150, delta 3e-05" in planned["high"][1]
    audit.seal()
    audit.register()
    resolved = privacy_notes(audit.place)
    for role, lines in resolved.items():
        assert len(lines) == 1
        assert lines == registered_privacy(audit, role)


def test_members_with_mechanisms_of_one_name_are_told_apart(make: Callable[[str], Audit]) -> None:
    audit = make(REFITS)
    (audit.folder / "audit.toml").write_text(TWO_MEMBERS)
    planned = privacy_notes(audit.place)
    assert list(planned) == ["first/refits", "second/refits"]
    # Basic composition: 2 and 3 fits of epsilon 2 each.
    assert "To release all 2 costs epsilon 4," in planned["first/refits"][0]
    assert "To release all 3 costs epsilon 6," in planned["second/refits"][0]
