"""The rows of a study in a notebook."""

from __future__ import annotations

from reproduction.studies.report import Rows
from reproduction.studies.rows import Row

HOSTILE = "<script>alert('x')</script>\u202e\"><svg onload=alert(1)>"


def test_rows_of_a_study_are_a_table() -> None:
    row = Row(
        study=HOSTILE, cell={"n": 3}, method="sharp", status="ours", metric="power", value=0.5,
        standard_error=0.01, wilson=None, upper95=None, repetitions=100, published=0.6, exact=None,
        p_agree=0.2,
    )  # fmt: skip
    html = Rows([row])._repr_html_()
    assert "<script>alert" not in html
    assert "0.5000" in html
    assert "0.6" in html
    assert Rows([row]) == [row]
