"""``proxyguard plan``: what an audit needs, and what it will probably say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proxyguard.cli import show
from proxyguard.cli.show import Data, Home, Json, Workers, audit_of

if TYPE_CHECKING:
    from proxyguard.plan.law import Law
    from proxyguard.plan.question import Question
    from proxyguard.registry.requirement import Requirement

Require = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        help="A requirement: name=N,limit=L[,margin=M][,sd=S][,low=0][,high=1][,two-valued]; "
        "repeatable.",
    ),
]


def plan(
    folder: Annotated[
        Path | None, typer.Argument(help="An audit folder, for its pilots.", metavar="DIR")
    ] = None,
    require: Require = None,
    losses: Annotated[
        Path | None,
        typer.Option("--losses", help="Pilot losses, npz or Parquet.", exists=True, dir_okay=False),
    ] = None,
    pilot_draws: Annotated[int, typer.Option("--pilot-draws", min=1)] = 20,
    pilot_seed: Annotated[int, typer.Option("--pilot-seed", min=0)] = 4_000_000_000,
    reliability: Annotated[
        float | None,
        typer.Option("--reliability", help="Assumed share of valid releases; default: pilots'."),
    ] = None,
    spread: Annotated[float, typer.Option("--spread", help="Of margins, as a share.")] = 0.2,
    excess: Annotated[
        float, typer.Option("--excess", help="How far invalid releases miss, in margins.")
    ] = 0.0,
    reliability_target: Annotated[
        str | None, typer.Option("--reliability-target", help="Reliability to show.")
    ] = None,
    alpha: Annotated[str | None, typer.Option("--alpha")] = None,
    mechanisms: Annotated[int | None, typer.Option("--mechanisms", min=1)] = None,
    records: Annotated[int | None, typer.Option("--records", min=1, help="Fix n.")] = None,
    releases: Annotated[int | None, typer.Option("--releases", min=1, help="Fix R.")] = None,
    most_records: Annotated[int | None, typer.Option("--most-records", min=1)] = None,
    most_releases: Annotated[int | None, typer.Option("--most-releases", min=1)] = None,
    record_cost: Annotated[float, typer.Option("--record-cost", min=0)] = 1.0,
    release_cost: Annotated[float, typer.Option("--release-cost", min=0)] = 1.0,
    budget: Annotated[float | None, typer.Option("--budget", min=0)] = None,
    power: Annotated[
        float | None, typer.Option("--power", help="Find the cheapest plan that reaches it.")
    ] = None,
    digits: Annotated[
        int | None,
        typer.Option(
            "--digits",
            min=1,
            max=6,
            help="Of a disclosure: statistics are rounded to them. Default: as DIR declares.",
        ),
    ] = None,
    stress: Annotated[bool, typer.Option("--stress/--no-stress")] = True,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Draw power over n and R into this PNG.")
    ] = None,
    toml: Annotated[
        Path | None, typer.Option("--toml", help="Write the [claim] and [plan] blocks here.")
    ] = None,
    home: Home = None,
    data: Data = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Plan an audit: from pilots, from pilot losses, or from assumed margins."""
    given = {
        "reliability_target": reliability_target, "alpha": alpha, "mechanisms": mechanisms,
        "n": records, "releases": releases, "most_records": most_records,
        "most_releases": most_releases, "budget": budget, "power": power, "digits": digits,
    }  # fmt: skip
    choices: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    choices |= {"record_cost": record_cost, "release_cost": release_cost}
    with show.bars(json) as progress:
        if folder is not None:
            private = _privacy(audit_of(folder, home, data, workers, None))
            laws, question = _from_folder(
                audit_of(folder, home, data, workers, progress), choices, reliability,
                pilot_draws, pilot_seed,
            )  # fmt: skip
        else:
            private = {}
            laws = {"plan": _law(require, losses, reliability, spread, excess)}
            question = _question(choices)
        poor = {
            name: law for name, law in laws.items()
            if law.reliability <= question.target and len(laws) > 1
        }  # fmt: skip
        found = {
            name: _plan_one(law, question, stress, seed, progress)
            for name, law in laws.items()
            if name not in poor
        }
        if picture is not None:
            _draw(found, picture, seed, progress)
    if toml is not None:
        for index, one in enumerate(found.values()):
            _numbered(toml, index).write_text(one.to_toml(), encoding="utf-8")
    if json:
        unreliable = {
            name: {"origin": law.origin, "reliability": law.reliability, "plan": None}
            for name, law in poor.items()
        }
        plans = {name: one.to_dict() for name, one in found.items()}
        for name, lines in private.items():
            if name in plans:
                plans[name]["privacy"] = lines
        show.give({**plans, **unreliable})
    for name, one in () if json else found.items():
        if folder is not None:
            show.say(f"== {name}")
        for line in str(one).split("\n"):
            show.say(line)
        if not one.hopeless:
            show.say()
            show.say("For audit.toml:")
            show.say()
            for line in one.to_toml().split("\n"):
                show.say(line)
    for name, lines in () if json else private.items():
        show.say(f"== Privacy of {name}")
        for line in lines:
            show.say(line)
    for name, law in () if json else poor.items():
        show.say(f"== {name}")
        show.say(
            f"{law.origin}: {law.reliability:.0%} valid, not above the target "
            f"{question.target:g}; no audit should validate this mechanism."
        )
    if all(one.hopeless for one in found.values()):
        raise typer.Exit(show.Exit.UNRESOLVED)


def _plan_one(law: Law, question: Question, stressed: bool, seed: int, progress: Any) -> Any:
    from proxyguard.plan.recommend import recommend
    from proxyguard.plan.report import PlanReport
    from proxyguard.plan.stress import default_looks, forecast, stress

    found = recommend(law, question, seed=seed, progress=progress)
    chosen = found.chosen.plan
    sequential = None
    if chosen.claim.sequential:
        looks = default_looks(chosen.releases, question.least_releases)
        sequential = forecast(law, chosen, looks, seed=seed)
    tried = stress(found, seed=seed, progress=progress) if stressed else []
    return PlanReport(found=found, stress=tuple(tried), sequential=sequential)


def _from_folder(
    audit: Any, choices: dict[str, Any], reliability: float | None, draws: int, seed: int
) -> tuple[dict[str, Law], Question]:
    from proxyguard.audit.plan import declared_question, pilot_laws

    costs = {name: choices.pop(name) for name in ("record_cost", "release_cost")}
    question = declared_question(audit.place, **choices, **costs)
    laws = pilot_laws(audit.place, draws=draws, first_seed=seed, reliability=reliability)
    return laws, question


def _privacy(audit: Any) -> dict[str, list[str]]:
    from proxyguard.audit.plan import privacy_notes

    return privacy_notes(audit.place)


def _question(choices: dict[str, Any]) -> Question:
    from proxyguard.plan.question import Question

    if "reliability_target" not in choices:
        raise typer.BadParameter(
            "--reliability-target is missing: the reliability to show, such as 0.8"
        )
    return Question(**choices)


def _law(
    require: list[str] | None, losses: Path | None, reliability: float | None, spread: float,
    excess: float,
) -> Law:  # fmt: skip
    from proxyguard.plan.law import assumed_law, cautious, pilot_law

    if not require:
        raise typer.BadParameter("name an audit folder, or give --require for each requirement")
    parts = [_parts(text) for text in require]
    requirements = [_requirement(part) for part in parts]
    if losses is not None:
        from proxyguard.audit.seal import read_loss_file

        given = read_loss_file(losses, None)
        names = [r.name for r in requirements]
        if set(given.requirements) != set(names):
            raise typer.BadParameter(
                f"the losses are about {list(given.requirements)}, not {names}"
            )
        order = [given.requirements.index(name) for name in names]
        law = pilot_law(given.values[:, :, order], requirements, reliability=reliability)
        return law if reliability is not None else cautious(law)
    if reliability is None:
        raise typer.BadParameter("assumed margins need --reliability, the share of valid releases")
    missing = [r.name for r, part in zip(requirements, parts, strict=True) if "margin" not in part]
    if missing:
        raise typer.BadParameter(f"{', '.join(missing)}: margin is missing, or give --losses")
    return assumed_law(
        requirements,
        margins=[_number(part["margin"], "margin") for part in parts],
        deviations=[_number(part["sd"], "sd") if "sd" in part else None for part in parts],
        reliability=reliability,
        spread=spread,
        excess=excess,
    )


_KEYS = ("name", "limit", "margin", "sd", "low", "high", "two-valued")


def _parts(text: str) -> dict[str, str]:
    found = {}
    for piece in text.split(","):
        key, _, value = piece.strip().partition("=")
        if key not in _KEYS:
            raise typer.BadParameter(f"{key!r} in {text!r} is none of {', '.join(_KEYS)}")
        if key in found:
            raise typer.BadParameter(f"{key!r} is given twice in {text!r}")
        if (key == "two-valued") != (value == ""):
            raise typer.BadParameter(f"{piece.strip()!r} in {text!r}: two-valued stands alone, "
                                     "everything else has a value")  # fmt: skip
        found[key] = value
    if not {"name", "limit"} <= set(found):
        raise typer.BadParameter(f"{text!r} needs a name and a limit")
    return found


def _requirement(part: dict[str, str]) -> Requirement:
    from proxyguard.registry.requirement import Requirement

    return Requirement(
        name=part["name"],
        low=_number(part.get("low", "0"), "low"),
        high=_number(part.get("high", "1"), "high"),
        limit=_number(part["limit"], "limit"),
        two_valued="two-valued" in part,
    )


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{what} is a number, got {text!r}") from None


def _draw(found: dict[str, Any], picture: Path, seed: int, progress: Any) -> None:
    from proxyguard.plan.report import draw, surfaces

    for index, one in enumerate(found.values()):
        if not one.hopeless:
            panels = surfaces(one.found, seed=seed, progress=progress)
            _numbered(picture, index).write_bytes(draw(panels, one.found.chosen))


def _numbered(place: Path, index: int) -> Path:
    """Return the file of one mechanism among several: the name itself, then name-2, and so on."""
    return place if index == 0 else place.with_stem(f"{place.stem}-{index + 1}")
