"""Write docs/reading-the-paper.md: the paper's tables of words, what they are here, and its parts.

    python -m reproduction.paper.page [--out docs/reading-the-paper.md]

Nothing is drawn and nothing is read but this repository: it takes seconds. Where a figure of an
audit belongs, the page says whether docs/audits.md, which lies beside it, has it.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import typer.main
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

import proxyguard as pg
from proxyguard.cli.main import app
from proxyguard.draw.catalog import load_generator
from proxyguard.draw.protocol import Seed
from proxyguard.exact.contamination import (
    markov_allowance,
    ramp_ceiling,
    ramp_radius,
    ramp_score,
    ramp_sensitivity,
)
from proxyguard.exact.planning import records_to_screen
from reproduction.audits.published import AUDITS
from reproduction.audits.tables import table
from reproduction.datasets.catalog import CATALOG
from reproduction.files import write_atomic
from reproduction.studies.catalog import STUDIES
from reproduction.studies.study import Study

PAGE, AUDITS_PAGE = Path("docs/reading-the-paper.md"), "audits.md"
Row = Mapping[str, Any]

# The smooth confirmation of App. L, and the risk of its valid releases.
LIMIT, SLACK, RECORDS, DRAWS, ALPHA_Z = 0.8, 0.05, 200, 500, 0.025
WIDTHS, VALID_RISK, RELIABILITY = (0.15, 0.3, 0.45, 0.6, 0.75), 0.1, 0.99
RARE = {"eligible": 500, "prevalence": 0.02, "certainty": 0.95}  # App. K
FITS, EPSILON, DELTA = 30, 5, Fraction(1, 10**6)  # of the Spambase audit, App. O
LIGHT = ("cdc-neural", "covertype-neural", "shoppers-neural")
GENERATOR = "denoising"


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Place:
    """A part of the paper, and what became of it."""

    paper: str
    """Where it stands: a section, a table, a figure, a sentence."""
    what: str
    says: str = ""
    """What there is to say of it here; links lead to what is there."""
    studies: tuple[str, ...] = ()
    audits: tuple[str, ...] = ()
    explained: bool = False
    """Whether words are all that there is."""


@cache
def content() -> dict[str, Any]:
    """Return page.toml."""
    return tomllib.loads(files(__package__).joinpath("page.toml").read_text(encoding="utf-8"))


def places() -> tuple[Place, ...]:
    """Return the parts of the paper, in its order."""
    text = files(__package__).joinpath("places.toml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Place, ...]).validate_python(tomllib.loads(text)["place"])


def page(audits_page: str) -> str:
    """Return the page; ``audits_page`` is what docs/audits.md says now."""
    parts = (
        say("introduction"), objects(), randomness(), say("auc"), budgets(), ramps(), screening(),
        private(), architecture(), roadmap(), commands(), digests(), completeness(audits_page),
    )  # fmt: skip
    return "\n".join(parts)


def say(paragraph: str, **filled: object) -> str:
    """Return a paragraph of page.toml with what stands in its braces."""
    words: str = content()["words"][paragraph]
    return words.format(**filled) if filled else words


def objects() -> str:
    """Return the paper's objects with their names here."""
    rows = [
        (one["paper"], one["meaning"], one["observed"], one["role"],
         f"{one['says']} ({', '.join(f'`{name}`' for name in _short(one['here']))})")
        for one in content()["object"]
    ]  # fmt: skip
    columns = ("paper", "meaning", "observed?", "role", "here")
    return say("objects") + table(columns, rows)


def _short(names: Iterable[str]) -> list[str]:
    return [name.removeprefix("proxyguard.") for name in names]


def randomness() -> str:
    """Return what a certificate means by which randomness is redrawn."""
    rows = [(one["choice"], one["means"], one["says"]) for one in content()["randomness"]]
    columns = ("registered mechanism choice", "meaning of the certificate", "here")
    return say("randomness") + table(columns, rows)


def budgets() -> str:
    """Return which budget pays for which event: the paper's, and as certificates say it."""
    named, direct = _budgets(mode="named"), _budgets(mode="direct", bound="paper")
    events = {symbol: event for paid in (*named, direct[0]) for symbol, event in paid}
    hybrid, _ = _budgets(mode="hybrid")
    events[", ".join(symbol for symbol, _ in hybrid)] = "; ".join(event for _, event in hybrid)
    rows: list[Sequence[str]] = [
        (one["mode"], one["symbol"], one["event"], events[one["symbol"]])
        for one in content()["budget"]
    ]
    (lower, upper), (_, counted) = _budgets(mode="direct"), _budgets(mode="count")
    ours = (
        ("Sharp lower bound (default)", lower),
        ("Direct violation bound (default)", upper),
        ("Violations by counting", counted),
    )
    rows += [(mode, symbol, "", event) for mode, paid in ours for symbol, event in paid]
    columns = ("mode or direction", "budget", "event, published", "event, in a certificate")
    return say("budgets") + table(columns, rows)


Paid = list[tuple[str, str]]  # symbols, and the events that they pay for


def _budgets(**choices: str) -> tuple[Paid, Paid]:
    """Return what the budgets of both directions pay for, from a certificate of no losses."""
    requirement = [pg.Requirement(name="error", low=0, high=1, limit=0.1)]
    nothing_lost = np.zeros((30, 100, 1))
    settings: dict[str, Any] = dict(choices)
    plain: Any = pg.certify(
        nothing_lost, requirement, reliability_target=0.8, seed=1, **settings
    ).to_dict()
    lower, upper = (
        [(one["symbol"], one["event"]) for one in plain[side]["budget"]]
        for side in ("lower", "upper")
    )
    return lower, upper


def ramps() -> str:
    """Return what widths of a ramp cost and gain, and which the planner takes."""
    rows, cutoff = [], LIMIT - SLACK
    for width in WIDTHS:
        kappa = ramp_ceiling(cutoff, width, LIMIT, RECORDS)
        rho = ramp_sensitivity(np.array([width]), RECORDS)
        radius = ramp_radius(rho, RECORDS, alpha=ALPHA_Z)
        score = float(
            ramp_score(np.array([[VALID_RISK]]), np.array([cutoff]), np.array([width]))[0]
        )
        rows.append(
            (f"{width:g}", f"{rho:.4f}", f"{kappa:.5f}", f"{radius:.4f}", f"{kappa + radius:.4f}",
             f"{markov_allowance(kappa, ALPHA_Z):.4f}", f"{score:.3f}")
        )  # fmt: skip
    columns = ("width", "rho_h", "kappa_h", "radius r_h", "kappa_h + r_h", "kappa_h/alpha_Z",
               f"score of a release with risk {VALID_RISK:g}")  # fmt: skip
    words = say("ramps", limit=LIMIT, slack=SLACK, n=RECORDS, releases=DRAWS, alpha_z=ALPHA_Z)
    risk = [pg.Requirement(name="risk", low=0, high=1, limit=LIMIT, two_valued=True)]
    law = pg.assumed_law(risk, margins=[LIMIT - VALID_RISK], reliability=RELIABILITY)
    question = pg.Question(
        reliability_target="0.8", n=RECORDS, releases=DRAWS, modes=("smooth",)
    )  # fmt: skip
    chosen = pg.recommend(law, question).chosen
    (picked,) = chosen.requirements
    return words + table(columns, rows) + "\n" + say(
        "ramps_read", reliability=RELIABILITY, way=chosen.way.label, picked_slack=picked.slack,
        picked_ramp=picked.ramp, power=f"{chosen.power.value:.2f}",
    )  # fmt: skip


def screening() -> str:
    """Return how many records are screened for a rare group."""
    expected, certain = records_to_screen(
        int(RARE["eligible"]), RARE["prevalence"], certainty=RARE["certainty"]
    )
    filled = {**RARE, "eligible": int(RARE["eligible"])}
    return say("screening", expected=expected, certain=certain, **filled)


def private() -> str:
    """Return what many private fits cost together, and one that is sampled often."""
    return say(
        "private", fits=FITS, epsilon=EPSILON, delta=f"{float(DELTA):g}",
        all_epsilon=FITS * EPSILON, all_delta=f"{float(FITS * DELTA):g}",
    )  # fmt: skip


def architecture() -> str:
    """Return the rows of the light generator, from its declarations and its own description."""
    declared = [
        tomllib.loads(
            files("reproduction.audits").joinpath(name, "audit.toml").read_text(encoding="utf-8")
        )
        for name in LIGHT
    ]
    described = [
        dict(load_generator(GENERATOR, pilot["options"]).describe())
        for one in declared
        for pilot in one["pilot"]
    ]
    numbers = ("hidden", "train_noise", "sample_noise", "ridge", "label_fidelity", "rows")
    facts: dict[str, object] = {
        name: _range([float(str(one[name])) for one in described]) for name in numbers
    }
    first = declared[0]  # learner and thresholds are the same in all
    thresholds = [r["threshold"] for r in first["requirement"] if "threshold" in r]
    facts |= {
        "each": len(first["pilot"]), "rounding": f"`{described[0]['rounding']}`",
        "stage": _redrawn(first["pilot"][0]["options"]),
        "library": first["procedure"]["library"][0], "thresholds": " and ".join(thresholds),
    }  # fmt: skip
    rows = [
        (one["component"], one["published"], one["says"].format(**facts))
        for one in content()["architecture"]
    ]
    audits = ", ".join(f"`{name}`" for name in LIGHT)
    words = say("architecture", audits=audits, generator=GENERATOR, count=len(described))
    return words + table(("component", "published", "here"), rows)


def _redrawn(options: Mapping[str, Any]) -> str:
    """Return what a draw of the light generator says that it redraws."""
    import pandas as pd

    outcome = options["outcome"]
    source = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], outcome: [0, 0, 1, 1]})
    generator = load_generator(GENERATOR, {**options, "rows": 4})
    generator.prepare(source, np.random.default_rng(0))
    seed = Seed(1)
    generator.draw(seed)
    return "; ".join(seed.taken)


def _range(values: Sequence[float]) -> str:
    """Return the least and the largest of some numbers.

    >>> _range([0.5, 0.25])
    '0.25 to 0.5'
    >>> _range([5000.0, 5000.0])
    '5000'
    """
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def roadmap() -> str:
    """Return the paper's study blocks with the studies and audits here."""
    rows = []
    for one in content()["roadmap"]:
        studies = [STUDIES[name] for name in one.get("studies", ())]
        here = [*map(_study_link, studies), *(f"`{name}`" for name in one.get("audits", ()))]
        rows.append((one["block"], one["purpose"], one["confirmatory"], one["shared"],
                     ", ".join(here), _marks(studies)))  # fmt: skip
    columns = ("study block", "purpose", "confirmatory?", "shared target?", "here",
               "methods are marked")  # fmt: skip
    return say("roadmap") + table(columns, rows)


def _study_link(study: Study) -> str:
    return f"[{study.name}](reproduction.md#{study.name})"


def _marks(studies: Iterable[Study]) -> str:
    """Return how many methods of these studies have which mark."""
    marks = [status.value for study in studies for status in study.methods.values()]
    return ", ".join(f"{marks.count(mark)} {mark}" for mark in dict.fromkeys(marks))


def commands() -> str:
    """Return the paper's commands beside ours, and all verbs of an audit."""
    rows = [(f"`{one['paper']}`", ", ".join(_runs(one))) for one in content()["command"]]
    listed = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group
    verbs = [
        (f"`proxyguard {name}`", (command.help or "").splitlines()[0])
        for name, command in listed.items()
    ]
    inventory = say("commands") + table(("paper's script", "here"), rows)
    verb_table = say("verbs") + table(("command", "what it does"), verbs)
    return "\n".join((inventory, verb_table, say("per_record")))


def _runs(one: Row) -> Iterator[str]:
    for name in one.get("studies", ()):
        yield f"`python -m reproduction study run {STUDIES[name].name}`"
    for name in one.get("audits", ()):
        assert name in AUDITS  # a declaration that can be run
        yield f'`make audits ARGS="{name}"`'


def digests() -> str:
    """Return the published digests with what stands for each here."""
    rows = []
    for one in content()["digest"]:
        here = [_study_link(STUDIES[name]) for name in one.get("studies", ())]
        here += [f"declaration of `{name}`" for name in one.get("audits", ()) if name in AUDITS]
        if "data" in one:
            (file,) = CATALOG[one["data"]].files
            here.append(f"`{file.name}` inside, `{str(file.sha256)[:8]}...`")
        rows.append((f"`{one['begins']}`", one["of"], ", ".join(here)))
    words = say("digests", count=len(rows))
    return words + table(("begins", "digest of", "here"), rows)


def completeness(audits_page: str) -> str:
    """Return every part of the paper with its state."""
    rows = [(one.paper, one.what, *state_of(one, audits_page)) for one in places()]
    return say("places") + table(("place", "what", "state", "where, or why"), rows)


def state_of(one: Place, audits_page: str) -> tuple[str, str]:
    """Return what became of a part of the paper, and where it is or why it is not."""
    where = [_study_link(STUDIES[name]) for name in one.studies]
    done = 0
    for name in one.audits:
        title = AUDITS[name].title
        if f"## {title}\n" in audits_page:
            where.append(f"[{name}]({AUDITS_PAGE}#{slug(title)})")
            done += 1
        else:
            where.append(f"`{name}`")
    if one.says:
        where.append(one.says)
    if done == len(one.audits):
        state = "explained" if one.explained else "reproduced"
    else:
        state = "reproduced in part" if done else "declared"
    return state, "; ".join(where)


def slug(heading: str) -> str:
    """Return the anchor that a heading has on a page.

    >>> slug("20 Newsgroups, documents of independent words")
    '20-newsgroups-documents-of-independent-words'
    """
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def main() -> None:
    """Write the page beside docs/audits.md."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=PAGE)
    out: Path = parser.parse_args().out
    written = page(out.with_name(AUDITS_PAGE).read_text("utf-8"))
    write_atomic(out, written.encode())
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
