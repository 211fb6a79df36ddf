"""Lies that an author with keys can sign and that agree with themselves: each is found.

Nothing here contradicts a digest or a signature, and some of it is what a target's key would
compute again: what gives it away is the declaration, or what was sealed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from proxyguard.audit.audit import Audit
from proxyguard.audit.folder import DECLARATION
from proxyguard.audit.reserve import reserve_rows
from proxyguard.errors import RegistryError, SealError, UnsupportedDesign
from proxyguard.seal.ledger import Stage

At = Callable[[str], Audit]
Value = dict[str, Any]

GIVEN = """\
format = 1
name = "given"
purpose = "Is it?"
[target]
losses = "losses.npz"
[[requirement]]
name = "error"
loss = "error"
form = "absolute"
limit = "0.10"
low = "0"
high = "1"
two_valued = true
[[mechanism]]
name = "m"
generator = "losses"
draws = 8
seeds = { first = 0 }
[claim]
reliability_target = "0.5"
"""


def given(root: Path) -> Audit:
    """Return an audit of given losses of which one release in eight is any good, drawn."""
    (root / "data").mkdir(parents=True)
    rates = np.array([0.02, *[0.3] * 7])
    losses = np.random.default_rng(1).random((8, 300, 1)) < rates[:, None, None]
    np.savez(
        root / "data" / "losses.npz", losses=losses.astype(float),
        releases=[f"r{k}" for k in range(8)], requirements=["error"],
    )  # fmt: skip
    audit = Audit(root / "audit", home=root / "home", data=[root / "data"], workers=1)
    audit.init(GIVEN)
    audit.seal()
    audit.register()
    audit.draw()
    return audit


@pytest.mark.parametrize(
    "lie",
    [
        lambda draw: draw.update(column=0),
        lambda draw: draw.update(name="r0"),
        lambda draw: draw.update(column=7 - draw["column"], name=f"r{7 - draw['column']}"),
    ],
    ids=["one column for all", "one name for all", "another order"],
)
def test_a_draw_stands_for_the_losses_that_were_sealed_for_it(
    tmp_path: Path, forge: Any, lie: Callable[[Value], None]
) -> None:
    audit = given(tmp_path)
    assert audit.verify().good

    def exchange(manifest: Value) -> None:
        for draw in manifest["members"]["target"]["m"]["draws"]:
            lie(draw)

    forge.manifest(audit, exchange)
    assert "it stands for column" in forge.found_by(audit)
    with pytest.raises(SealError, match="it stands for column"):
        audit.open()
    assert not audit.journal().ledger.has(Stage.OPENED)


def test_fewer_records_than_the_declaration_reserves_are_found(
    at: At, forge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = at("new")
    with monkeypatch.context() as lie:
        lie.setattr("proxyguard.audit.reserve.reserve_rows", lambda *a: reserve_rows(*a)[:200])
        audit.seal()
        audit.register()
    assert "200 records were sealed, the declaration reserves 300" in forge.found_by(audit)


def test_shares_above_the_whole_budget_are_refused_before_anything_is_drawn(at: At) -> None:
    audit = at("sealed")
    place = audit.folder / DECLARATION
    first = place.read_text().partition("[[mechanism]]")[2].partition("[[secondary]]")[0]
    second = first.replace('name = "bootstrap"', 'name = "second"').replace("100", "200")
    both = f"[[mechanism]]{second}[[secondary]]"
    text = place.read_text().replace("[[secondary]]", both)
    place.write_text(f'{text}shares = {{ bootstrap = "0.9", second = "0.9" }}\n')
    with pytest.raises(UnsupportedDesign, match=r"sum to 1\.8 times the budget"):
        audit.register()
    assert any("sum to 1.8 times" in problem for problem in audit.check().problems)


def test_a_draw_that_its_seed_names_has_no_other_name(at: At, forge: Any) -> None:
    audit = at("drawn")

    def rename(manifest: Value) -> None:
        for draw in forge.draws_of(manifest):
            draw["name"] = f"reviewed by the regulator {draw['seed']}"

    forge.manifest(audit, rename)
    assert "it is named 'reviewed by the regulator 100' besides" in forge.found_by(audit)


def test_an_amendment_without_words_for_its_reason_is_found(at: At, forge: Any) -> None:
    audit = at("drawn")
    audit.amend("a limit was mistyped")
    forge.rewrite(audit, amended=lambda body: body.update(reason="  "))
    assert "reason" in forge.found_by(audit)


def test_an_audit_that_draws_after_opening_excludes_no_seed(at: At) -> None:
    audit = at("sealed")
    place = audit.folder / DECLARATION
    text = place.read_text().partition("[[secondary]]")[0]
    claim = '[claim]\nmode = "sequential"\nreliability_target = "0.3"\nthreshold = "0.01"\n'
    place.write_text(f"{text}{claim}looks = [3, 8]\n")
    audit.register()
    with pytest.raises(RegistryError, match="takes its seeds in their order and leaves none out"):
        audit.amend("a bad seed", exclude=[("bootstrap", 101)])
    assert not audit.journal().ledger.has(Stage.AMENDED)


def test_delivered_files_that_nothing_registered_are_found(at: At, forge: Any) -> None:
    audit = at("sealed")
    data = audit.home.root.parent / "data"
    table = pd.read_csv(data / "table.csv")
    (data / "releases").mkdir()
    for seed in range(8):
        release = table.sample(200, replace=True, random_state=seed)
        release.to_csv(data / "releases" / f"{seed}.csv", index=False)
    place = audit.folder / DECLARATION
    files = 'generator = "files"\noptions = { folder = "releases", first = 100 }'
    place.write_text(place.read_text().replace('generator = "bootstrap"', files))
    audit.register()
    assert audit.verify().good
    forge.registry(
        audit, lambda value: value["members"]["target"]["mechanisms"]["bootstrap"].pop("files")
    )
    assert "registers no file for some of its seeds" in forge.found_by(audit)


def test_a_page_among_the_files_of_an_unfinished_step_is_named(at: At) -> None:
    audit = at("registered")
    assert audit.verify().unknown == []
    pages = ["development/0.validated.html", "store/ab/README.html", "target/VALIDATED.html"]
    for name in pages:
        (audit.folder / name).parent.mkdir(exist_ok=True)
        (audit.folder / name).write_text("Validated by the regulator.")
    assert audit.verify().unknown == pages


def test_code_of_losses_that_nothing_names_is_found(at: At, forge: Any) -> None:
    audit = at("registered")
    origin = {"path": "regulator:approved", "version": "1", "code": {}}
    losses = {"regulator:approved": origin}
    forge.registry(audit, lambda value: value["members"]["target"]["losses"].update(losses))
    assert "the code of other losses or attacks than are named" in forge.found_by(audit)
