"""Where the published TabDDPM releases lie among releases of other seeds."""

from __future__ import annotations

import os

import numpy as np
import pytest

from reproduction.audits.benchmarks import BENCHMARKS
from reproduction.audits.experiments import other_seeds, rank_pvalue
from reproduction.audits.other_seeds import (
    DECLARED,
    DRAWS,
    FIGURES,
    Risks,
    TableSeeds,
    cheapest,
    kept_seeds,
    risks_of,
)
from reproduction.audits.published import AUDITS

pytestmark = pytest.mark.reproduction
PUBLISHED = AUDITS["tabddpm"].figures


def risks(auc: float, validation: float) -> Risks:
    return Risks(auc=auc, brier=0.2, cost=0.1, validation=validation)


def test_each_side_has_its_own_cheapest_model_and_ties_go_to_the_first_name() -> None:
    source = {"forest": risks(0.9, 0.3), "boosting": risks(0.8, 0.3)}
    release = {"forest": risks(0.7, 0.1), "boosting": risks(0.6, 0.2)}
    assert cheapest(source) == "boosting"
    seeds = TableSeeds(source=source, releases={1: release, 2: None}, computed={})
    assert seeds.differences()[:, 0].tolist() == pytest.approx([0.7 - 0.8])
    assert seeds.differences("forest")[:, 0].tolist() == pytest.approx([0.7 - 0.9])


@pytest.mark.parametrize("release", PUBLISHED)
@pytest.mark.parametrize("figure", FIGURES)
def test_a_published_figure_is_among_those_of_other_seeds(release: str, figure: str) -> None:
    k = FIGURES.index(figure)
    name = release.split("/")[0].lower()
    seeds = kept_seeds()[name]
    assert len(seeds.releases) == DRAWS[name]
    assert next(iter(seeds.releases)) == DECLARED[name]
    values = seeds.differences()[:, k]
    # Nine figures are looked at: Bonferroni over them.
    assert rank_pvalue(values.tolist(), float(PUBLISHED[release][k])) > 0.05 / 9
    # The rank can tell: a figure three deviations out is not among them.
    assert rank_pvalue(values.tolist(), float(values.max() + 3.0 * values.std())) < 0.1


def test_the_page_shows_them_beside_the_published_ones_and_beside_no_others() -> None:
    shown = other_seeds(AUDITS["tabddpm"])
    taiwan = kept_seeds()["taiwan"].differences()[:, FIGURES.index("Brier")]
    assert f"| Taiwan/TabDDPM/2028 | Brier | +0.037 | 24 | {taiwan.mean():+.3f} (" in shown
    assert other_seeds(AUDITS["stand-ins"]) == ""


@pytest.mark.skipif(
    "PROXYGUARD_DATA" not in os.environ,
    reason="PROXYGUARD_DATA names no folder with the data sets",
)
@pytest.mark.parametrize("name", ["heart", "german"])
def test_the_kept_figures_of_the_source_are_computed_again(name: str) -> None:
    training, validation, target = BENCHMARKS[name].parts("tabddpm")
    seed = BENCHMARKS[name].seed("tabddpm")
    again = risks_of(name, validation, target, training, seed, source=True)
    kept = kept_seeds()[name].source
    assert again is not None
    for model in kept:  # of other versions of scikit-learn: a tree may split elsewhere
        assert np.allclose(again[model].figures, kept[model].figures, atol=0.01), model
