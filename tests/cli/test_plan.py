"""``proxyguard plan`` and ``check``: what an audit needs, said before anything is sealed."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from conformance.draws import draw_here as draw_in_this_process
from proxyguard.audit import plan as planning
from proxyguard.audit.audit import Audit
from proxyguard.audit.plan import pilot_laws
from proxyguard.cli import show
from proxyguard.cli.main import app
from proxyguard.errors import ProxyGuardError, RegistryError, StageError
from proxyguard.plan.law import Law
from proxyguard.plan.recommend import recommend
from proxyguard.registry.requirement import Form

ERROR = "name=error,limit=0.3,margin=0.1,two-valued"
SIZES = ("--records", "250", "--releases", "40")
ASSUMED = (
    "--require",
    ERROR,
    "--reliability",
    "0.95",
    "--reliability-target",
    "0.8",
    "--no-stress",
)


@pytest.fixture(scope="module", autouse=True)
def plans_soon() -> Iterator[None]:
    """Let plans search less long: how good they are is tested in tests/plan, here what is told."""
    defaults: dict[str, object] = recommend.__kwdefaults__
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(defaults, "repetitions", 400)
        patch.setitem(defaults, "effort", 4e5)
        patch.setattr("proxyguard.plan.recommend.TABLE", 100)
        for module in ("recommend", "search"):
            patch.setattr(f"proxyguard.plan.{module}.COARSE", 40)
        yield


def proxyguard(*arguments: object) -> Result:
    """Run one command in this process."""
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(done: Result, kind: type[ProxyGuardError], words: str) -> None:
    """The command ended with an error that `main` prints as one message."""
    assert isinstance(done.exception, kind), (done.exception, done.output)
    assert words in str(done.exception)
    assert done.stdout == ""
    assert show.exit_code(done.exception) == 1


def test_assumed_margins_give_a_plan_and_its_blocks() -> None:
    done = proxyguard("plan", *ASSUMED, *SIZES, "--all")
    assert done.exit_code == 0, done.output
    assert "Law: assumed margins (error 0.1); 95.0% of releases valid; " in done.stdout
    records, draws, chance = done.stdout.split("\n")[:3]
    assert (records, draws) == ("Target records: 250", "Draws: 40")
    assert chance.startswith("Chance of validating a reliability above 0.8: 0.")
    assert "\nCost 290; " in done.stdout
    _, _, blocks = done.stdout.partition("For audit.toml:")
    value = tomllib.loads(blocks)
    assert (value["plan"]["records"], value["plan"]["draws"]) == (250, 40)
    assert value["claim"]["reliability_target"] == "0.8"
    # Two-valued losses and one requirement: the power of the binomial test is a sum.
    assert "(exact)" in done.stdout


def test_json_holds_the_same_plan(tmp_path: Path) -> None:
    place = tmp_path / "plan.toml"
    done = proxyguard("plan", *ASSUMED, *SIZES, "--json", "--toml", place)
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)["plan"]
    assert value["chosen"]["n"] == 250
    assert value["chosen"]["releases"] == 40
    assert 0.0 < value["chosen"]["power"]["value"] < 1.0
    assert value["needs"]["obstacles"] == []
    assert value["stress"] == []
    assert place.read_text() == value["toml"]
    assert tomllib.loads(place.read_text())["plan"]["power"] == (
        f"{value['chosen']['power']['value']:.3f}"
    )


def test_stress_and_costs_are_part_of_the_answer() -> None:
    done = proxyguard(
        "plan", *ASSUMED[:-1], *SIZES, "--json", "--release-cost", "3", "--record-cost", "0.5"
    )
    value = json.loads(done.stdout)["plan"]
    assert value["chosen"]["cost"] == 0.5 * 250 + 3 * 40
    # .95 with six errors of reliability, and four margins; .95 - .10 is still above .8.
    assert len(value["stress"]) == 24
    assert all(one["regret"] >= 0.0 for one in value["stress"])


@pytest.mark.whole
def test_a_picture_is_written_where_it_was_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    place = tmp_path / "power.png"
    done = proxyguard("plan", *ASSUMED, "--records", 200, "--releases", 30, "--picture", place)
    assert done.exit_code == 0, done.output
    assert place.read_bytes().startswith(b"\x89PNG")


def write_losses(path: Path, *, wrong: float = 0.0) -> Path:
    rng = np.random.default_rng(3)
    hard = rng.random(200)
    first = (hard < rng.uniform(0.17, 0.21, size=(12, 1))).astype(float)
    second = np.clip(hard * 0.8 + 0.1 * rng.normal(size=(12, 200)) - 0.5, -1, 1) + wrong
    np.savez(
        path, losses=np.stack([second, first], axis=2), releases=np.arange(12),
        requirements=np.array(["cost", "error"]),
    )  # fmt: skip
    return path


def test_pilot_losses_are_read_by_the_names_of_their_requirements(tmp_path: Path) -> None:
    done = proxyguard(
        "plan", "--losses", write_losses(tmp_path / "pilots.npz"), "--reliability", "0.95",
        "--require", "name=error,limit=0.3,two-valued",
        "--require", "name=cost,low=-1,high=1.2,limit=0.1",
        "--reliability-target", "0.8", "--no-stress", "--json", *SIZES,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)["plan"]
    assert value["law"]["origin"] == "12 pilot releases on 200 records"
    assert value["law"]["reliability"] == pytest.approx(0.95)
    with np.load(tmp_path / "pilots.npz") as content:
        means = content["losses"].mean(axis=(0, 1))  # cost, error
    assert value["law"]["margins"]["error"] == pytest.approx(0.3 - means[1], rel=1e-9)
    assert value["law"]["margins"]["cost"] == pytest.approx(0.1 - means[0], rel=1e-9)


def test_pilot_losses_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    place = write_losses(tmp_path / "pilots.npz")
    done = proxyguard("plan", "--losses", place, "--require", ERROR, "--reliability-target", "0.8")
    assert done.exit_code == 2
    assert "the losses are about ['cost', 'error']" in done.stderr
    both = ("--require", "name=error,limit=0.3,two-valued",
            "--require", "name=cost,low=-1,high=1,limit=0.1",
            "--reliability-target", "0.8")  # fmt: skip
    outside = write_losses(tmp_path / "outside.npz", wrong=1.6)
    refused(proxyguard("plan", "--losses", outside, *both), RegistryError, "leave the bounds")
    absent = proxyguard("plan", "--losses", tmp_path / "none.npz", *both)
    assert absent.exit_code == 2
    assert "does not exist" in absent.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name an audit folder, or give --require"),
        (("--require", "name=error,limits=0.3"), "'limits' in 'name=error,limits=0.3' is none of"),
        (("--require", "name=error"), "needs a name and a limit"),
        (("--require", "name=error,limit=low"), "limit is a number, got 'low'"),
        (("--require", ERROR), "need --reliability"),
        (("--require", "name=error,limit=0.3", "--reliability", "0.9"), "margin is missing"),
        (("--require", ERROR, "--reliability", "0.9"), "--reliability-target is missing"),
        ((*ASSUMED, "--records", "0"), "--records"),
    ],
)
def test_a_wrong_option_is_named(arguments: tuple[str, ...], words: str) -> None:
    done = proxyguard("plan", *arguments)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())
    assert done.stdout == ""


def requiring(require: str, *more: str) -> Result:
    return proxyguard("plan", "--require", require, "--reliability-target", "0.8", *more)


def test_what_cannot_be_planned_is_refused_with_its_reason() -> None:
    refused(
        requiring("name=error,limit=0.3,margin=0.35,two-valued", "--reliability", "0.95", *SIZES),
        RegistryError, "a margin lies above 0 and leaves a mean above 0, got 0.35",
    )  # fmt: skip
    refused(
        requiring(ERROR, "--reliability", "0.75", *SIZES), RegistryError,
        "no audit should validate this mechanism",
    )  # fmt: skip
    refused(
        requiring("name=b,limit=0.3,margin=0.1,sd=0.6", "--reliability", "0.95", *SIZES),
        RegistryError,
        "declare two_valued losses as such",
    )  # fmt: skip
    refused(
        requiring(ERROR, "--reliability", "0.95", "--budget", "10"), RegistryError,
        "at least 14 draws",
    )  # fmt: skip
    refused(
        proxyguard("plan", *ASSUMED[:-2], "0.8.1"), RegistryError, "0.8.1"
    )  # fmt: skip


def test_a_refusal_names_the_option_that_was_typed() -> None:
    done = proxyguard("plan", "--require", ERROR, "--reliability", "0.9", "--reliability-target",
                      "95")  # fmt: skip
    refused(done, RegistryError, "--reliability-target must lie in (0, 1), got '95'")


def test_two_valued_takes_no_value() -> None:
    done = requiring(
        "name=error,limit=0.3,margin=0.1,two-valued=no", "--reliability", "0.95", *SIZES,
        "--no-stress",
    )  # fmt: skip
    assert done.exit_code == 2


def test_a_key_that_is_given_twice_is_refused() -> None:
    done = requiring(
        "name=error,limit=0.3,limit=0.4,margin=0.1,two-valued", "--reliability", "0.95", *SIZES,
        "--no-stress",
    )  # fmt: skip
    assert done.exit_code == 2
    assert "'limit' is given twice" in " ".join(done.stderr.split())


def test_a_hopeless_plan_ends_with_code_3_and_says_why() -> None:
    done = proxyguard("plan", *ASSUMED, "--records", 500, "--releases", 13)
    assert done.exit_code == show.Exit.UNRESOLVED == 3
    assert "This audit cannot succeed, because 13 draws cannot validate" in done.stdout
    assert "at least 14 are needed" in done.stdout  # .8^14 < .05 < .8^13
    assert "[claim]" not in done.stdout
    again = proxyguard("plan", *ASSUMED, "--records", 500, "--releases", 13, "--json")
    assert "cannot validate" in json.loads(again.stdout)["plan"]["needs"]["obstacles"][0]


def test_too_few_records_end_with_code_3() -> None:
    done = proxyguard("plan", *ASSUMED, "--records", 5, "--releases", 100)
    assert "cannot succeed" in done.stdout
    assert done.exit_code == show.Exit.UNRESOLVED


# In an audit folder.

DECLARATION = """\
format = 1
name = "planned"
purpose = "Could this small audit succeed?"
{disclosure}

[target]
table = "table.csv"
reserve = {{ rows = {rows}, seed = 11 }}
outcome = "label"
positive = "yes"

[development]
validation = {{ fraction = "0.25", stratify = true, seed = 12 }}

[procedure]
library = ["fixed_logistic"]

[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = "{limit}"
{score}

[[mechanism]]
name = "bootstrap"
generator = "bootstrap"
draws = {draws}
seeds = {{ first = 100 }}

[claim]
reliability_target = "0.6"
{claim}
"""


def draw_here(groups: Any, *, pool: object, workers: int, timeout: float | None) -> None:
    """Draw as the drawing process does, without the seconds that starting it takes."""
    for group in groups:
        draw_in_this_process(group.job, group.seeds, keep=group.keep)


Make = Callable[..., tuple[str, ...]]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a function that makes an audit folder and gives the arguments that name it."""
    monkeypatch.setattr("proxyguard.audit.development.draw_groups", draw_here)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(700, 2)).round(4)
    label = np.where(x[:, 0] + 0.5 * x[:, 1] + 0.7 * rng.normal(size=700) > 0, "yes", "no")
    lines = [f"{a},{b},{c}" for (a, b), c in zip(x.tolist(), label.tolist(), strict=True)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "table.csv").write_text("first,second,label\n" + "\n".join(lines) + "\n")

    def build(*, sealed: bool, **changes: Any) -> tuple[str, ...]:
        roles, edit = changes.pop("roles", "[claim]\n"), changes.pop("edit", str)
        text = DECLARATION.format(
            **{
                "rows": 300,
                "draws": 12,
                "limit": "0.25",
                "claim": "",
                "disclosure": "",
                "score": "",
                **changes,
            }
        ).replace("[claim]\n", roles)
        text = edit(text)
        folder, home, data = tmp_path / "audit", tmp_path / "home", tmp_path / "data"
        audit = Audit(folder, home=home, data=[data], workers=1)
        audit.init(text)
        if sealed:
            audit.seal()
        return (str(folder), "--home", str(home), "--data", str(data), "--workers", "1")

    return build


def test_pilots_of_a_sealed_audit_become_its_plan(make: Make) -> None:
    place = make(sealed=True)
    done = proxyguard("plan", *place, "--pilot-draws", 6, "--no-stress", "--json",
                      "--reliability", "0.9")  # fmt: skip
    assert done.exit_code == 0, (done.output, done.exception)
    value = json.loads(done.stdout)["bootstrap"]
    # 400 development rows, a quarter of them for validation.
    assert value["law"]["origin"] == "6 pilot releases on 100 records"
    assert value["law"]["reliability"] == pytest.approx(0.9)
    # Nothing was left open, so the declared sizes are judged.
    assert (value["chosen"]["n"], value["chosen"]["releases"]) == (300, 12)
    # A sealed target has the records that it has; draws are open within the budget.
    searched = proxyguard(
        "plan", *place, "--pilot-draws", 6, "--no-stress", "--reliability", "0.9", "--json",
        "--budget", "350",
    )  # fmt: skip
    chosen = json.loads(searched.stdout)["bootstrap"]["chosen"]
    assert chosen["n"] == 300
    assert chosen["releases"] <= 50


def test_a_plan_says_what_ramps_of_each_width_cost_and_writes_the_best(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    risks = np.r_[np.clip(rng.normal(0.18, 0.02, 29), 0.02, 0.28), 0.5]
    losses = (rng.random((30, 400)) < risks[:, None]).astype(float)
    np.savez(
        tmp_path / "pilots.npz", losses=losses[:, :, None], releases=np.arange(30),
        requirements=np.array(["error"]),
    )  # fmt: skip
    place = tmp_path / "plan.toml"
    done = proxyguard(
        "plan", "--require", "name=error,limit=0.3,two-valued", "--losses", tmp_path / "pilots.npz",
        "--reliability-target", "0.8", "--mode", "smooth", "--records", 20_000, "--releases", 200,
        "--no-stress", "--json", "--toml", place,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)["plan"]
    chosen, tried = value["chosen"], value["ramps"]
    assert chosen["mode"] == "smooth"
    cutoff = 0.3 - chosen["slacks"]["error"]
    means = losses.mean(axis=1)
    middle = np.sort(means[means < cutoff])[(np.sum(means < cutoff) - 1) // 2]
    for row in tried:
        assert row["ramps"][0] == pytest.approx(float(row["share"]) * (cutoff - middle), rel=1e-3)
        # Of the pilots below the limit together with those above it, by their cautious share.
        valid = means < 0.3
        score = np.clip((cutoff - means) / row["ramps"][0], 0.0, 1.0)
        share = (np.sum(valid) + 0.5) / 31
        assert row["score"] == pytest.approx(share * score[valid].mean(), rel=1e-6)
    best = max(tried, key=lambda row: row["bound"])
    assert chosen["ramps"]["error"] == best["ramps"][0]
    assert best["bound"] > 0.8
    assert best["records"] <= 20_000
    # In the blocks to register the costs are comments, the chosen widths marked.
    blocks = place.read_text()
    assert tomllib.loads(blocks)["claim"]["mode"] == "smooth"
    assert f'ramp = "{best["ramps"][0]!r}"' in blocks
    assert 'ramp = { width = "development", pilot = "NAME" }' in blocks
    (marked,) = (line for line in blocks.split("\n") if line.startswith("#   *"))
    assert marked.split()[2] == best["share"]
    assert f"{best['records']:,}" in marked


def test_pilots_of_clusters_are_planned_by_the_means_of_clusters(
    make: Make, tmp_path: Path
) -> None:
    def edit(declaration: str) -> str:
        clusters = declaration.replace("reserve = { rows = 300", "reserve = { clusters = 60")
        clusters = clusters.replace('loss = "brier"', 'loss = "error"')
        return clusters.replace('outcome = "label"', 'outcome = "label"\ndesign = { by = "house" }')

    place = make(sealed=False)  # its table, with houses of five records
    table = tmp_path / "data" / "table.csv"
    head, *lines = table.read_text().splitlines()
    housed = [f"{line},{k // 5}" for k, line in enumerate(lines)]
    table.write_text("\n".join([f"{head},house", *housed]) + "\n")
    shutil.rmtree(tmp_path / "audit")
    place = make(sealed=True, edit=edit, limit="0.35")
    done = proxyguard("plan", *place, "--pilot-draws", 4, "--no-stress", "--json",
                      "--reliability", "0.9")  # fmt: skip
    assert done.exit_code in (0, 3), (done.output, done.exception)
    value = json.loads(done.stdout)["bootstrap"]
    # Of 140 houses 60 are the target, and a quarter of the others is for validation.
    assert value["law"]["origin"] == "4 pilot releases on 20 clusters"
    assert value["chosen"]["n"] == 60
    audit = Audit(tmp_path / "audit", home=tmp_path / "home", data=[tmp_path / "data"], workers=1)
    (law,) = pilot_laws(audit.place, draws=4, first_seed=9, reliability=0.9).values()
    assert not law.requirements[0].two_valued
    assert law.losses[0].shape == (4, 20)
    assert set(np.unique(law.losses[0])) - {0.0, 1.0}


def test_a_declared_rule_for_ramps_is_planned_in_its_own_mode(make: Make) -> None:
    pilots = '[[pilot]]\nname = "p"\ngenerator = "bootstrap"\ndraws = 4\nseeds = { first = 50 }\n'
    place = make(
        sealed=True, claim='mode = "smooth"', roles=pilots + "\n[claim]\n",
        score='slack = "0.02"\nramp = { width = "development", pilot = "p" }',
    )  # fmt: skip
    asked = ("--pilot-draws", 6, "--no-stress", "--reliability", "0.9")
    done = proxyguard("plan", *place, *asked, "--power", "0.5", "--most-releases", 60)
    assert done.exit_code in (0, 3), (done.output, done.exception)
    assert "direct" not in done.stdout
    assert "smooth, sharp" in done.stdout or "This audit cannot succeed" in done.stdout
    registered = proxyguard("register", *place[:-2])
    assert registered.exit_code == 0, registered.output
    words = r"target: Brier risk: limit 0\.25, slack 0\.02, ramp 0\.\d+ chosen on development"
    assert re.search(words, registered.stdout)


@pytest.mark.whole
def test_a_plan_counts_with_the_disclosure_that_is_declared(make: Make) -> None:
    place = make(sealed=True, disclosure="disclosure = { digits = 1 }")
    fixed = (*place, "--pilot-draws", 6, "--no-stress", "--reliability", "0.9", "--json")
    plan = json.loads(proxyguard("plan", *fixed).stdout)["bootstrap"]
    finer = json.loads(proxyguard("plan", *fixed, "--digits", 6).stdout)["bootstrap"]
    assert (plan["digits"], finer["digits"]) == (1, 6)
    powers = [sum(way["power"]["value"] for way in p["alternatives"]) for p in (plan, finer)]
    assert powers[0] < powers[1] - 0.5
    assert "# at the top of the file: disclosure = { digits = 1 }" in plan["toml"]


ROLES = """
[[pilot]]
name = "large"
generator = "bootstrap"
draws = 3
seeds = { first = 200 }

[[pilot]]
name = "middle"
generator = "bootstrap"
draws = 3
seeds = { first = 210 }
options = { rows = 40 }

[[pilot]]
name = "small"
generator = "bootstrap"
draws = 3
seeds = { first = 220 }
options = { rows = 6 }

[roles]
pilots = ["large", "middle", "small"]
moderate = "0.01"

[[mechanism]]
name = "worst"
role = "degraded"
draws = 12
seeds = { first = 300 }

[claim]
"""


def test_a_mechanism_with_a_role_is_planned_from_the_pilot_that_plays_it(make: Make) -> None:
    place = make(sealed=True, roles=ROLES)
    done = proxyguard("plan", *place, "--pilot-draws", 6, "--no-stress", "--json",
                      "--reliability", "0.9")  # fmt: skip
    assert done.exit_code == 0, (done.output, done.exception)
    plans = json.loads(done.stdout)
    assert set(plans) == {"bootstrap", "worst"}
    # Six rows teach less than 300, so the role goes to `small`, whose Brier scores are higher.
    margins = {name: plan["law"]["margins"]["Brier risk"] for name, plan in plans.items()}
    assert margins["worst"] < margins["bootstrap"] - 0.01
    # Its three pilots were chosen for their margins, so the plan draws others.
    again = proxyguard("plan", *place, "--pilot-draws", 3, "--pilot-seed", 219)
    refused(again, RegistryError, "those pilots gave limits or roles")


QUERIES = """
[[requirement]]
name = "labels by sign"
form = "query"
query = { marginals = [["label", "first"]], bins = { first = ["0"] } }
limit = "0.25"

[[requirement]]
name = "second"
form = "query"
query = { mean = "second", range = ["-3", "3"] }
group = { label = "yes" }
limit = "0.7"

"""

EXPOSED = """
[[requirement]]
name = "who was in it"
exposure = "advantage everywhere"
attacks = ["dcr"]
limit = "0.5"

[exposure]
seed = 5

"""
LOSS = """[[requirement]]
name = "Brier risk"
loss = "brier"
form = "absolute"
limit = "0.25"
"""


def pilots_of(place: tuple[str, ...]) -> Law:
    """Return the law of six pilots of an audit."""
    folder, _, home, _, data, *_ = place
    audit = Audit(folder, home=home, data=[data], workers=1)
    return pilot_laws(audit.place, draws=6, first_seed=4000, reliability=0.9)["bootstrap"]


def test_queries_are_planned_like_losses(make: Make) -> None:
    law = pilots_of(make(sealed=True, roles=QUERIES + "[claim]\n"))
    # Four cells and one mean, two sides each, and the loss: the ten nearest of eleven.
    assert law.origin == (
        "6 pilot releases on 100 records, with the 10 of 11 requirements nearest to their limits "
        "(a release that misses another never scores)"
    )
    # The eleventh is read from the pilots when a plan is judged: counted and by its losses alike.
    assert law.others is not None
    ((left,), kinds) = law.others.requirements, law.others.kinds[:4]
    beside = law.others.alone(0, kinds)
    assert (beside.requirements, len(beside.means)) == ((left,), 4)
    inside = law.others.inside(0)
    if inside is not None:
        np.testing.assert_allclose(
            left.from_unit(beside.means[:, 0]), inside.mean() - law.others.answers[kinds, 0]
        )
    margins = dict(zip([r.name for r in law.requirements], law.margins, strict=True))
    cells = {name.partition(" (")[0] for name in margins if name.startswith("labels by sign: ")}
    for cell in cells:
        # What lies above the limit on one side lies below it on the other.
        sides = [margins.get(f"{cell} (target {side} release)") for side in ("above", "below")]
        assert None in sides or sum(sides) == pytest.approx(0.5, abs=1e-9)
    assert len(cells) == 4
    # The mean is over a group, and its release answers over its own records of it.
    (mean,) = [
        j for j, r in enumerate(law.requirements) if r.name == "second (target above release)"
    ]
    assert law.shares[mean] < 1.0
    assert law.answers is not None
    shares = np.array([r.indicator for r in law.requirements])
    assert np.all((law.answers > 0.0) == shares)


def test_what_validation_records_do_to_all_answers_is_partly_their_luck(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make(sealed=True, roles=QUERIES + "[claim]\n")
    law = pilots_of(place)
    monkeypatch.setattr(planning, "drawn_together", lambda shared, noise: (shared, 1.0))
    as_seen = pilots_of(place)
    assert law.luck is not None
    assert as_seen.luck is not None
    known = dict(zip([r.name for r in law.requirements], law.luck.records, strict=True))
    asked = [r.form is Form.QUERY for r in law.requirements]
    assert [r.name for r in law.requirements] == [r.name for r in as_seen.requirements]
    # What all answers have in common shrinks by one factor, in losses and in what is counted.
    none = np.array([r.from_unit(0.0) for r in law.requirements]) * -1.0
    width = np.array([r.width for r in law.requirements])
    shared, seen = (one.means.mean(axis=0) * width - none for one in (law, as_seen))
    assert np.all(np.abs(shared[asked]) < np.abs(seen[asked]))
    assert law.answers is not None
    assert as_seen.answers is not None
    counted = [r.indicator for r in law.requirements]
    moved = (law.answers - as_seen.answers)[:, counted]
    np.testing.assert_allclose(moved, (seen - shared)[None, counted] + np.zeros_like(moved))
    # And the more so the surer, where a loss is known on no more records than there are.
    assert all(known[r.name] > 50 for r in law.requirements if r.form is Form.QUERY)
    assert [records for name, records in known.items() if name == "Brier risk"] in ([], [50.0])


def test_queries_alone_are_planned_without_a_procedure(make: Make) -> None:
    def alone(text: str) -> str:
        text = text.replace('outcome = "label"\npositive = "yes"\n', "").replace(LOSS, "")
        return text.replace('[procedure]\nlibrary = ["fixed_logistic"]\n', "").replace(
            "stratify = true, ", ""
        )

    place = make(sealed=True, roles=QUERIES + "[claim]\n", edit=alone)
    assert len(pilots_of(place).requirements) == 10


def test_what_is_about_exposure_is_left_out_and_said(make: Make) -> None:
    def exposed(text: str) -> str:
        held = 'members = "0.5"\nreference = "0.25"\nsplit_seed = 4'
        return text.replace("[development]\n", f"[development]\n{held}\n")

    law = pilots_of(make(sealed=True, roles=EXPOSED + "[claim]\n", edit=exposed))
    assert [r.name for r in law.requirements] == ["Brier risk"]
    assert "records, without 'who was in it' about exposure (planned separately: " in law.origin
    assert "numbers of members and of target records" in law.origin


def test_an_audit_without_validation_says_what_to_write_before_the_seal(make: Make) -> None:
    chosen = 'validation = { fraction = "0.25", stratify = true, seed = 12 }\n'
    place = make(sealed=True, edit=lambda text: text.replace(chosen, ""))
    refused(proxyguard("plan", *place), RegistryError, 'write validation = { fraction = "0.25"')


def test_a_mechanism_with_a_role_is_planned_only_after_sealing(make: Make) -> None:
    done = proxyguard("plan", *make(sealed=False, roles=ROLES), "--no-stress")
    refused(done, StageError, "type: proxyguard seal")


def test_registered_seeds_take_no_part_in_planning(make: Make) -> None:
    place = make(sealed=True)
    for first in (91, 100, 111):  # registered are 100 to 111
        done = proxyguard("plan", *place, "--pilot-draws", 10, "--pilot-seed", first)
        refused(done, RegistryError, "are among the registered ones")


@pytest.mark.parametrize("records", [(), ("--records", 300)])
def test_a_target_of_its_own_is_planned_after_sealing_too(
    make: Make, records: tuple[object, ...]
) -> None:
    table = 'table = "table.csv"\n'
    own = f'file = "own.csv"\noutcome = "label"\npositive = "yes"\n\n[development]\n{table}'
    place = make(
        sealed=False,
        edit=lambda text: text[: text.index(table)] + own + text.partition("[development]\n")[2],
    )
    done = proxyguard("plan", *place, *records)
    refused(done, StageError, f"type: proxyguard seal {place[0]}")


def test_pilots_are_drawn_only_after_sealing(make: Make) -> None:
    refused(proxyguard("plan", *make(sealed=False)), StageError, "type: proxyguard seal")


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        # .6^5 = .078, .6^6 = .047.
        ({"draws": 5}, "5 draws cannot validate a reliability above 0.6 at error 0.05"),
        ({"rows": 6}, "6 target records cannot reach the score's threshold"),
        ({"claim": 'threshold = "0.06"'}, "the score's threshold 0.06 leaves no room"),
    ],
)
def test_check_says_what_cannot_succeed_before_sealing_and_after(
    make: Make, sealed: bool, changes: dict[str, Any], words: str
) -> None:
    place = make(sealed=sealed, **changes)
    done = proxyguard("check", *place)
    assert done.exit_code == 3
    assert "cannot succeed: bootstrap: " + words in done.stdout
    assert "This audit would run and could not succeed" in done.stdout


@pytest.mark.parametrize("sealed", [False, True])
def test_check_is_silent_where_a_perfect_outcome_would_validate(make: Make, sealed: bool) -> None:
    done = proxyguard("check", *make(sealed=sealed))
    assert done.exit_code == 0, done.output
    assert "cannot succeed" not in done.stdout
    assert "Nothing stands in the way." in done.stdout


def test_check_compares_the_plan_with_what_is_declared(make: Make) -> None:
    plan = '\n[plan]\nrecords = 400\ndraws = 20\npower = "0.8"\nreliability = "0.9"\norigin = "x"'
    done = proxyguard("check", *make(sealed=True, claim=plan))
    assert "[plan] counts on 400 records, the target has 300" in done.stdout
    assert "bootstrap: [plan] counts on 20 draws, declared are 12" in done.stdout
    assert done.exit_code == 0  # a warning, not a problem


SECOND = """

[[mechanism]]
name = "other"
generator = "bootstrap"
draws = 12
seeds = { first = 300 }
"""


def test_every_mechanism_gets_a_file_of_blocks(make: Make, tmp_path: Path) -> None:
    out = tmp_path / "plan.toml"
    place = make(sealed=True, claim=SECOND)
    done = proxyguard("plan", *place, "--pilot-draws", 4, "--no-stress", "--toml", out,
                      "--reliability", "0.9")  # fmt: skip
    assert done.exit_code == 0, (done.output, done.exception)
    for file in (out, tmp_path / "plan-2.toml"):
        assert tomllib.loads(file.read_text())["plan"]["draws"] == 12


def named(tmp_path: Path, *, sealed: bool = False) -> tuple[object, ...]:
    """An audit of six named releases, before or after the seal, and where its files are."""
    rng = np.random.default_rng(3)
    for name, rows in (("target", 400), ("real", 400)):
        ill = np.where(rng.random(rows) < 0.3, "yes", "no")
        lines = ["age,ill", *(f"{rng.normal(50, 9):.1f},{one}" for one in ill)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    releases = "".join(f'[[release]]\nname = "r{k}"\nfile = "r{k}.csv"\n' for k in range(6))
    (tmp_path / "their.toml").write_text(f"""
format = 1
name = "named"
purpose = "Do these tables answer as the target does?"
target = {{ file = "target.csv" }}
development = {{ table = "real.csv" }}
claim = {{ level = "releases" }}

[[requirement]]
name = "ill"
form = "query"
query = {{ share = {{ ill = "yes" }} }}
limit = "0.065"

[[requirement]]
name = "age"
form = "query"
query = {{ mean = "age", range = ["0", "100"] }}
limit = "4"
{releases}""")
    place = ("--home", tmp_path / "home", "--data", tmp_path)
    done = proxyguard("init", tmp_path / "audit", "--from", tmp_path / "their.toml", *place[:2])
    assert done.exit_code == 0, done.output
    if sealed:
        assert proxyguard("seal", tmp_path / "audit", *place).exit_code == 0
    return (tmp_path / "audit", *place)


def test_named_releases_are_told_what_they_would_get_and_what_would_do(tmp_path: Path) -> None:
    place = named(tmp_path)
    done = proxyguard("plan", *place)
    assert done.exit_code == 0, (done.output, done.exception)
    first, _, _, _, ill, age, together = done.stdout.split("\n")[:7]
    assert first == "Holm asks 0.0083 of the first of 6 releases; the target has 400 records."
    assert ill.split()[:2] == ["ill", "0.065"]
    assert age.split()[:4] == ["age", "4", "over", "99%"]
    assert together.split()[:3] == ["all", "at", "once"]
    assert "For 80% it takes:" in done.stdout
    assert "enough as it is" in done.stdout
    assert "A larger limit claims less." in done.stdout
    value = json.loads(proxyguard("plan", *place, "--json").stdout)["target"]
    told = {(o["requirement"], o["release"]): o for o in value["outlooks"]}
    assert set(told) == {(name, kind) for name in ("ill", "age", "") for kind in ("none", "half")}
    exact, half = told["ill", "none"], told["ill", "half"]
    assert half["chance"] < exact["chance"] < 0.8
    assert float(exact["limit_that_would_do"]) < float(half["limit_that_would_do"])
    assert exact["units_that_would_do"] < half["units_that_would_do"]
    assert told["", "none"]["chance"] <= exact["chance"]
    # As many as are said to do would do.
    again = json.loads(proxyguard(
        "plan", *place, "--json", "--records", exact["units_that_would_do"]
    ).stdout)["target"]["outlooks"][0]  # fmt: skip
    assert again["chance"] > 0.75


def test_a_steward_asks_again_after_a_limit_was_changed(tmp_path: Path) -> None:
    audit, *place = named(tmp_path, sealed=True)
    for name in ("target", "real"):
        (tmp_path / f"{name}.csv").unlink()  # who has the folder has no table
    before = json.loads(proxyguard("plan", audit, *place, "--json").stdout)["target"]["outlooks"]
    text = (tmp_path / "audit" / "audit.toml").read_text()
    (tmp_path / "audit" / "audit.toml").write_text(text.replace('limit = "0.065"', 'limit = "0.2"'))
    alone = ("--releases", 1, "--alpha", "0.04")
    after = json.loads(proxyguard("plan", audit, *place, *alone, "--json").stdout)["target"]
    assert before[0]["chance"] < 0.8 < after["outlooks"][0]["chance"]
    assert after["first"] == 0.04


def test_a_plan_that_no_target_would_validate_ends_unresolved(tmp_path: Path) -> None:
    done = proxyguard("plan", *named(tmp_path), "--records", 40)
    assert done.exit_code == show.Exit.UNRESOLVED
    assert re.search(r"ill +0.065 +none +none", done.stdout)


def test_what_is_asked_of_mechanisms_alone_is_refused_of_named_releases(tmp_path: Path) -> None:
    place = named(tmp_path)
    done = proxyguard("plan", *place, "--mode", "direct", "--budget", 10, "--toml", "x.toml")
    assert done.exit_code == 2
    said = " ".join(done.stderr.replace("│", "").split())
    assert "Invalid value: --toml, --budget, --mode: " in said
    assert "their plan takes --records, --releases, --alpha and --power alone" in said
    refused(proxyguard("plan", *place, "--power", 2), RegistryError, "--power")


def test_a_hopeless_plan_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = proxyguard("plan", *ASSUMED, "--records", 500, "--releases", 13, "--picture",
                      tmp_path / "power.png")  # fmt: skip
    assert done.exit_code == show.Exit.UNRESOLVED, done.exception


def test_a_sealed_target_keeps_its_records_when_the_draws_are_fixed(make: Make) -> None:
    place = make(sealed=True)
    done = proxyguard("plan", *place, "--pilot-draws", 4, "--no-stress", "--json",
                      "--reliability", "0.9", "--releases", "20")  # fmt: skip
    assert json.loads(done.stdout)["bootstrap"]["chosen"]["n"] == 300


TWO = [
    "name=miscls,limit=0.12,margin=0.04,two-valued",
    "name=undercov,limit=0.08,margin=0.022,two-valued",
]


def grouped(*ends: str, records: int = 1500) -> Result:
    """Plan two requirements, each with an end of its own."""
    asked = [
        part for text, end in zip(TWO, ends, strict=True) for part in ("--require", text + end)
    ]
    return proxyguard(
        "plan", *asked, "--reliability", "0.95", "--reliability-target", "0.8", "--records",
        records, "--releases", "60", "--mode", "direct", "--no-stress", "--json",
    )  # fmt: skip


def test_requirements_that_name_one_group_are_about_its_records_once() -> None:
    value = json.loads(grouped(*[",group=elderly,share=0.068"] * 2).stdout)["plan"]
    assert value["chosen"]["cost"] == pytest.approx(1500 * 0.068 + 60)
    separate = json.loads(grouped(*[",share=0.068"] * 2).stdout)["plan"]
    assert separate["chosen"]["cost"] == pytest.approx(1500 * 0.136 + 60)


def test_groups_are_told_and_that_they_are_taken_as_separate() -> None:
    asked = ("--reliability", "0.95", "--reliability-target", "0.8", "--records", 2000,
             "--releases", "60", "--mode", "direct", "--no-stress")  # fmt: skip
    one, other = TWO[0], TWO[1]
    two = proxyguard(
        "plan", "--require", one + ",share=0.2", "--require", other + ",share=0.3", *asked
    )
    assert (
        "Groups: the subgroup of miscls 20 %, the subgroup of undercov 30 %, taken as separate"
        in two.stdout
    )
    same = proxyguard("plan", "--require", one + ",share=0.2,group=old", "--require",
                      other + ",group=old,share=0.2", *asked)  # fmt: skip
    assert "Groups: old 20 %.\n" in same.stdout


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (
            (",group=old,share=0.2", ",group=old,share=0.3"),
            "group=old has share=0.2 and share=0.3",
        ),
        ((",group=old", ""), "write share= beside it"),
    ],
)
def test_a_group_has_one_share(ends: tuple[str, ...], words: str) -> None:
    done = grouped(*ends)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.replace("│", " ").split())


def test_pilot_losses_of_a_subgroup_alone_are_planned_with_its_share(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    losses = (rng.random((12, 200, 1)) < 0.15).astype(float)
    np.savez(
        tmp_path / "pilots.npz", losses=losses, releases=np.arange(12),
        requirements=np.array(["error"]),
    )  # fmt: skip

    def planned(end: str) -> Result:
        return proxyguard(
            "plan", "--losses", tmp_path / "pilots.npz", "--require",
            "name=error,limit=0.3,two-valued" + end, "--reliability-target", "0.8", "--no-stress",
            "--records", 900, "--releases", 60, "--mode", "direct", "--json",
        )  # fmt: skip

    every, some = (json.loads(planned(end).stdout)["plan"] for end in ("", ",share=0.1,group=old"))
    assert some["chosen"]["cost"] == pytest.approx(90 + 60)
    assert every["chosen"]["cost"] == pytest.approx(960)
    assert some["chosen"]["power"]["value"] < every["chosen"]["power"]["value"] - 0.1
    both = proxyguard(
        "plan", "--losses", tmp_path / "pilots.npz", "--require", "name=error,limit=0.3,share=0.1",
        "--require", "name=other,limit=0.3", "--reliability-target", "0.8",
    )  # fmt: skip
    assert both.exit_code == 2
    assert "the same records for all requirements" in " ".join(
        both.stderr.replace("│", " ").split()
    )
