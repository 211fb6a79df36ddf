"""What a report says of records that have the values of a target's: coincidence, or a re-coding."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from typer.testing import CliRunner

from proxyguard.audit.audit import Audit
from proxyguard.cli.main import app
from proxyguard.documents.ledger import Opened, Overlap
from proxyguard.report.record import lineage_table


def opened(**changes: Any) -> Any:
    one = {"audit": "first", "member": "target", "role": "target", "same_table": False,
           "records": 1000, "shared": 0, "twins": 0, "expected_twins": "0.0",
           "excess": False, "columns": "all columns", "same_audit": False,
           "opened": True, "reused": False, **changes}  # fmt: skip
    body = Opened.model_construct(lineage=(Overlap.of(one, "the overlap"),))
    return [SimpleNamespace(body=body)]


def test_more_twins_than_coincidence_explains_may_be_the_same_records() -> None:
    # The case of a target that comes again in a file of its own: 0 shared, 1000 twins, 0 expected.
    note = lineage_table(opened(twins=1000, excess=True, reused=True)).note
    assert "Those in target of first" in note
    assert "taken for the same records under another coding" in note


def test_twins_by_coincidence_are_not_called_so() -> None:
    assert "another coding" not in lineage_table(opened(twins=85, expected_twins="70.0")).note


def test_within_one_table_it_is_known_which_records_are_the_same() -> None:
    shared = opened(same_table=True, shared=1000, twins=1000, reused=True)
    assert "another coding" not in lineage_table(shared).note
    assert "another coding" not in lineage_table(opened(same_table=True, twins=1000)).note


def test_the_command_says_where_sealed_records_were_met_before(
    at: Callable[[str], Audit],
) -> None:
    audit = at("sealed")
    second = audit.folder.path.parent / "second"
    second.mkdir()
    (second / "audit.toml").write_bytes((audit.folder / "audit.toml").read_bytes())
    data = ["--data", str(audit.folder.path.parent / "data")]
    ended = CliRunner().invoke(app, ["seal", str(second), "--home", str(audit.home.root), *data])
    assert ended.exit_code == 0, ended.exception
    assert "300" in ended.output.split("Lineage: ")[1].splitlines()[0]
