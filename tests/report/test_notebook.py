"""Certificates and plans in a notebook, and certificates as pages of their own."""

from __future__ import annotations

from html import unescape
from typing import Any

import numpy as np
import pytest

import proxyguard as pg
from proxyguard.plan.report import PlanReport
from report.synthetic import unmarked

HOSTILE = "<script>alert('x')</script>\u202e\"><svg onload=alert(1)>"
RISK = pg.Requirement(name=HOSTILE, low=0, high=1, limit=0.3)


def losses(mean: float) -> Any:
    return np.random.default_rng(3).beta(4 * mean, 4 * (1 - mean), size=(40, 500, 1))


def shown(value: Any) -> str:
    return unescape(str(value)).replace("\N{NO-BREAK SPACE}", " ")


def stream() -> pg.CandidateStream:
    found = pg.CandidateStream([RISK], alpha=0.05, seed=1)
    found.submit(losses(0.2)[0])
    return found


def sequential() -> pg.SequentialAudit:
    audit = pg.SequentialAudit(
        pg.SequentialPlan(looks=(20, 40), reliability_target=0.8, kappa=0.01)
    )
    audit.add([True] * 40)
    return audit


def recommendation() -> Any:
    law = pg.assumed_law([RISK], margins=[0.05], reliability=0.95)
    question = pg.Question(reliability_target=0.8, n=300, releases=40, modes=("direct",))
    return pg.recommend(law, question, repetitions=50)


VALUES = {
    "certificate": lambda: pg.certify(losses(0.2), [RISK], reliability_target=0.8, seed=1),
    "family": lambda: pg.certify(
        {HOSTILE: losses(0.2), "other": losses(0.28)}, [RISK], reliability_target=0.8, seed=1
    ),
    "releases": lambda: pg.certify_releases(
        {HOSTILE: pg.NamedReleases(losses(0.2)[:3], [RISK])}, seed=1
    ),
    "sequential": sequential,
    "recommendation": recommendation,
    "plan": lambda: PlanReport(found=recommendation()),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_cell_shows_the_value_and_names_cannot_act(name: str) -> None:
    html = VALUES[name]()._repr_html_()
    assert "<script>alert" not in html
    assert "<svg onload" not in html
    assert "<table" in html
    if name != "sequential":
        assert "alert(&#39;x&#39;)" in html


def test_the_sentence_stands_in_the_cell_and_on_the_page() -> None:
    certificate = VALUES["certificate"]()
    assert certificate.sentence.split("meets")[0] in shown(certificate._repr_html_())
    page = certificate.to_html()
    assert certificate.sentence.split("meets")[0] in shown(unmarked(page))
    assert page.startswith("<!DOCTYPE html>")
    assert "Content-Security-Policy" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "nothing was registered or sealed" in page


def test_pages_of_families_and_named_releases() -> None:
    assert "other" in VALUES["family"]().to_html()
    assert "Named releases" in VALUES["releases"]().to_html()


def test_a_page_is_the_same_each_time() -> None:
    certificate = VALUES["certificate"]()
    assert certificate.to_html() == certificate.to_html()


def test_what_has_no_page_says_so() -> None:
    from proxyguard.report.notebook import fragment_of

    with pytest.raises(TypeError, match="int has no page"):
        fragment_of(3)
