"""The paper's planner makes the paper's choices, in Python and on the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from proxyguard.cli import show
from proxyguard.errors import ProxyGuardError, RegistryError
from reproduction.cli.main import app
from reproduction.studies.paper_planner import PaperGrid, PaperPlan

RATES = ("--rates", "direct=0.95,named=0.80")


def plan(*arguments: str) -> Result:
    """Run ``python -m reproduction plan`` in this process."""
    return CliRunner().invoke(app, ["plan", *arguments])


def refused(done: Result, kind: type[ProxyGuardError], words: str) -> None:
    """The command ended with an error that is printed as one message."""
    assert isinstance(done.exception, kind), (done.exception, done.output)
    assert words in str(done.exception)
    assert done.stdout == ""
    assert show.exit_code(done.exception) == 1


@pytest.mark.parametrize(
    ("named", "mode", "records", "projections"),
    [
        # studies.md C1: direct, n = 5000, slack .06.
        (0.80, "direct", 5000, (0.934610, 0.934610, 0.934610, 0.927072, 0.779265)),
        # studies.md C2: the named rate .98 makes named win, at n = 250.
        (0.98, "named", 250, (0.969280, 0.969280, 0.969280, 0.963528, 0.827831)),
    ],
)
def test_the_papers_planner_makes_the_papers_choices(
    named: float, mode: str, records: int, projections: tuple[float, ...]
) -> None:
    grid, rates = PaperGrid(), {"direct": 0.95, "named": named}
    for ratio, releases, projection in zip(
        (0.01, 0.1, 1.0, 10.0, 100.0), (1000, 1000, 1000, 500, 30), projections, strict=True
    ):
        chosen = grid.choose(ratio, rates)
        assert (chosen.mode, chosen.n, chosen.releases) == (mode, records, releases)
        if mode == "direct":
            assert chosen.slack == 0.06
        # Six printed digits.
        assert grid.projection(chosen, rates[mode]) == pytest.approx(projection, abs=5e-7)
        assert chosen.cost(ratio) <= grid.budget


def test_a_named_projection_of_the_paper_does_not_see_the_records() -> None:
    grid = PaperGrid()
    plans = [PaperPlan(mode="named", n=n, releases=100, share=0.5) for n in (250, 5000)]
    assert grid.projection(plans[0], 0.9) == grid.projection(plans[1], 0.9)


def test_the_command_gives_the_papers_row() -> None:
    done = plan(*RATES, "--release-cost", "10")
    assert done.exit_code == 0, done.output
    # studies.md C1, cost ratio 10: n = 5000, R = 500, slack .06, projection .927072.
    assert "direct: 5,000 records, 500 draws" in done.stdout
    assert "slack 0.06; projected bound 0.927, cost 10,000" in done.stdout
    named = plan("--rates", "named=0.98,direct=0.95", "--release-cost", "100", "--json")
    value = json.loads(named.stdout)
    # studies.md C2, cost ratio 100.
    assert (value["mode"], value["n"], value["releases"], value["slack"]) == (
        "named",
        250,
        30,
        None,
    )
    assert value["projected_bound"] == pytest.approx(0.827831, abs=5e-7)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "--rates"),
        (("--rates", "direct=0.95"), "names direct and named"),
        (("--rates", "direct=high,named=0.8"), "direct is a number"),
        ((*RATES, "--record-cost", "0"), "their cost is above 0"),
        ((*RATES, "--alpha", "0.05", "--records", "100"), "--records"),
    ],
)
def test_the_command_needs_its_rates_and_takes_only_what_it_uses(
    more: tuple[str, ...], words: str
) -> None:
    done = plan(*more)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


def test_the_command_refuses_what_it_cannot_project() -> None:
    # Its smallest plan has 250 records and 30 draws.
    refused(plan(*RATES, "--budget", "200"), RegistryError, "200")
    refused(plan("--rates", "direct=95,named=80"), RegistryError, "95")
