"""``proxyguard plan``: what an audit needs, and what it will probably say.

The law of a mechanism comes from pilots of an audit folder, from pilot losses in a file, or from
assumed margins; the question from the folder's declaration and the options. What is planned, and
what it rests on, is `proxyguard.plan`'s; here it is asked and shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from proxyguard.cli import show
from proxyguard.errors import RegistryError

if TYPE_CHECKING:
    from proxyguard.audit.plan import OpenChoices
    from proxyguard.plan.law import Law
    from proxyguard.plan.question import Question
    from proxyguard.plan.report import PlanReport
    from proxyguard.plan.search import Progress
    from proxyguard.registry.requirement import Requirement


def plan(
    folder: Annotated[Path | None, typer.Argument(
        help="An audit folder, for its pilots.", metavar="DIR")] = None,
    require: Annotated[list[str] | None, typer.Option(
        "--require",
        help="A requirement: name=N,limit=L[,margin=M][,sd=S][,low=0][,high=1][,two-valued]"
        "[,share=S][,group=G], S the part of the records that count, of a subgroup, and G its "
        "name, which requirements about one subgroup share; repeatable.")] = None,
    losses: Annotated[Path | None, typer.Option(
        "--losses", help="Pilot losses: npz, or a long or wide table (CSV, Parquet, Feather). With "
        "share= they are those of the subgroup's records alone.",
        exists=True, dir_okay=False)] = None,
    pilot_draws: Annotated[int, typer.Option("--pilot-draws", min=1)] = 20,
    pilot_seed: Annotated[int, typer.Option("--pilot-seed", min=0)] = 4_000_000_000,
    reliability: Annotated[float | None, typer.Option(
        "--reliability", help="Assumed share of valid releases; default: pilots'.")] = None,
    spread: Annotated[float, typer.Option("--spread", help="Of margins, as a share.")] = 0.2,
    excess: Annotated[float, typer.Option(
        "--excess", help="How far invalid releases miss, in margins.")] = 0.0,
    reliability_target: Annotated[str | None, typer.Option(
        "--reliability-target", help="Reliability to show.")] = None,
    alpha: Annotated[str | None, typer.Option("--alpha")] = None,
    mechanisms: Annotated[int | None, typer.Option("--mechanisms", min=1)] = None,
    records: Annotated[int | None, typer.Option("--records", min=1, help="Fix n.")] = None,
    releases: Annotated[int | None, typer.Option("--releases", min=1, help="Fix R.")] = None,
    most_records: Annotated[int | None, typer.Option("--most-records", min=1)] = None,
    most_releases: Annotated[int | None, typer.Option("--most-releases", min=1)] = None,
    record_cost: Annotated[float, typer.Option("--record-cost", min=0)] = 1.0,
    release_cost: Annotated[float, typer.Option("--release-cost", min=0)] = 1.0,
    screening_cost: Annotated[float, typer.Option(
        "--screening-cost", min=0,
        help="Of seeing whether a record is of a subgroup, for every record.")] = 0.0,
    budget: Annotated[float | None, typer.Option("--budget", min=0)] = None,
    power: Annotated[float | None, typer.Option(
        "--power", help="Find the cheapest plan that reaches it.")] = None,
    digits: Annotated[int | None, typer.Option(
        "--digits", min=1, max=6,
        help="Of a disclosure: statistics are rounded to them. Default: as DIR declares.")] = None,
    mode: Annotated[list[str] | None, typer.Option(
        "--mode", help="A mode to compare, repeatable; with --all smooth says what ramps "
        "of each width cost. Default: all.")] = None,
    stress: Annotated[bool, typer.Option(
        "--stress/--no-stress", help="Judge the plan under other laws: --all shows them.")] = True,
    everything: Annotated[bool, typer.Option(
        "--all", help="Every way and size, other laws, what is necessary, the blocks.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    picture: Annotated[Path | None, typer.Option(
        "--picture", help="Draw power over n and R into this PNG.")] = None,
    page: Annotated[Path | None, typer.Option(
        "--page", help="Write a page with sliders here, to be opened in a browser.")] = None,
    toml: Annotated[Path | None, typer.Option(
        "--toml", help="Write the [claim] and [plan] blocks here.")] = None,
    home: show.HomeFolder = None,
    data: show.Data = None,
    workers: show.Workers = None,
    json: show.Json = False,
) -> None:  # fmt: skip
    """Plan an audit: from pilots, from pilot losses, or from assumed margins.

    Of DIR with named releases it says what a release that is exactly right, and one halfway to its
    limits, would get, and which limits and sizes would do: with --records, --releases, --alpha and
    --power alone.
    """
    given = {
        "reliability_target": reliability_target, "alpha": alpha, "mechanisms": mechanisms,
        "n": records, "releases": releases, "most_records": most_records,
        "most_releases": most_releases, "budget": budget, "power": power, "digits": digits,
        "record_cost": record_cost, "release_cost": release_cost,
        "screening_cost": screening_cost, "modes": tuple(mode) if mode else None,
    }  # fmt: skip
    # What was not typed is left to the declaration, or to the default of a question.
    choices = cast(
        "OpenChoices", {name: chosen for name, chosen in given.items() if chosen is not None}
    )
    if folder is not None and _names_releases(folder, home, data):
        others = {
            "--require": require, "--losses": losses, "--reliability": reliability,
            "--picture": picture, "--page": page, "--toml": toml,
        }  # fmt: skip
        _refuse_others(folder, choices, [o for o, typed in others.items() if typed is not None])
        _plan_named(folder, home, data, choices, json)
        return
    from proxyguard.plan.recommend import past_hope

    private: Mapping[str, list[str]] = {}
    with show.bars(json) as progress, _as_typed(choices):
        if folder is not None:
            from proxyguard.audit.plan import declared_question, pilot_laws, privacy_notes

            private = privacy_notes(show.audit_of(folder, home, data, workers).place)
            place = show.audit_of(folder, home, data, workers, progress).place
            question = declared_question(place, **choices)
            laws = pilot_laws(
                place, draws=pilot_draws, first_seed=pilot_seed, reliability=reliability
            )
        else:
            laws = {"plan": _law(require, losses, reliability, spread, excess)}
            question = _question(choices)
        # Of several mechanisms some may be past hope; one alone is planned for whatever it is.
        poor = {
            name: law for name, law in laws.items()
            if law.reliability <= question.target and len(laws) > 1
        }  # fmt: skip
        plans = {
            name: _planned(law, question, stress, seed, progress)
            for name, law in laws.items()
            if name not in poor
        }
        if picture is not None:
            _draw(list(plans.values()), picture, seed, progress)
    for index, made in enumerate(plans.values()):
        if toml is not None:
            _numbered(toml, index).write_text(made.to_toml(), encoding="utf-8")
        if page is not None:
            _numbered(page, index).write_text(made.to_html(), encoding="utf-8")
    lines = [
        *(line for name, made in plans.items()
          for line in _plan_lines(made, name if len(laws) > 1 else "", everything)),
        *(line for name, notes in private.items() for line in (f"== Privacy of {name}", *notes)),
        *(line for name, law in poor.items() for line in (
            f"== {name}",
            past_hope(law, question.target),
        )),
    ]  # fmt: skip
    if not everything and any(not made.hopeless for made in plans.values()):
        weak = any(made.found.chosen.power.value < USUAL for made in plans.values())
        lines += ["", *_next_lines(folder, toml, page, weak and "power" not in choices)]
    show.answer(json, _values(plans, private, poor), lines)
    if all(made.hopeless for made in plans.values()):
        raise typer.Exit(show.Exit.UNRESOLVED)


# What may be asked about named releases, by the names of choices.
NAMED = ("n", "releases", "alpha", "power")
# The option that a choice is typed by, where it has another name.
OPTIONS = {"n": "records", "modes": "mode"}
# Costs have a default that is typed by nobody.
COSTS = ("record_cost", "release_cost", "screening_cost")


def _names_releases(folder: Path, home: Path | None, data: list[Path] | None) -> bool:
    """Say whether the claim of a folder is about named releases, whose plan is another."""
    declaration = show.audit_of(folder, home, data).place.folder.declaration()
    return declaration.claim.level == "releases" and not declaration.claim.stream


def _refuse_others(folder: Path, choices: Collection[str], typed: Sequence[str]) -> None:
    """Refuse what only a plan of mechanisms takes: it would be passed over in silence."""
    asked = [name for name in choices if name not in (*NAMED, *COSTS)]
    wrong = [*typed, *(f"--{OPTIONS.get(name, name).replace('_', '-')}" for name in asked)]
    if wrong:
        raise typer.BadParameter(
            f"{', '.join(wrong)}: {folder} names releases, and their plan takes --records, "
            "--releases, --alpha and --power alone"
        )


def _plan_named(
    folder: Path, home: Path | None, data: list[Path] | None, choices: OpenChoices, json: bool
) -> None:
    """Say what named releases would get, member by member."""
    from proxyguard.audit.forecast import NamedPlan, forecasts
    from proxyguard.registry.numbers import share

    with show.at_work(folder, home, data, json=json) as audit, _as_typed(choices):
        wanted = float(share(choices.get("power", USUAL), "power"))
        told = forecasts(
            audit.place, alpha=choices.get("alpha"), releases=choices.get("releases"),
            records=choices.get("n"),
        )  # fmt: skip
        plans = {name: NamedPlan.of(forecast, wanted) for name, forecast in told.items()}
    lines: list[str] = []
    for name, made in plans.items():
        lines += [*([f"== {name}"] if len(plans) > 1 else []), *made.lines()]
    show.answer(json, {name: made.to_dict() for name, made in plans.items()}, lines)
    if any(made.hopeless for made in plans.values()):
        raise typer.Exit(show.Exit.UNRESOLVED)


def _values(
    plans: Mapping[str, PlanReport], private: Mapping[str, list[str]], poor: Mapping[str, Law]
) -> dict[str, object]:
    """Return every plan as plain values, with what its releases cost in privacy."""
    costs = {name: {"privacy": notes} for name, notes in private.items()}
    return {
        **{name: {**made.to_dict(), **costs.get(name, {})} for name, made in plans.items()},
        **{name: {"origin": law.origin, "reliability": law.reliability, "plan": None}
           for name, law in poor.items()},
    }  # fmt: skip


# The chance that people usually want.
USUAL = 0.8


def _next_lines(
    folder: Path | None, toml: Path | None, page: Path | None, weak: bool
) -> Iterator[str]:
    """Yield what to type next; what was written already is named."""
    if weak:
        yield f"--power {USUAL:g}, in place of fixed sizes, finds the cheapest that reach it."
    blocks = f"{toml} has" if toml is not None else "--toml FILE writes"
    then = "" if folder is None else f", then proxyguard register {folder}"
    yield f"Next: {blocks} the [claim] and [plan] blocks for audit.toml{then}."
    sliders = f"{page} has" if page is not None else "--page FILE writes a page with"
    yield f"{sliders} sliders for all of this; --all prints every way and size that was compared."


def _plan_lines(made: PlanReport, name: str, everything: bool) -> Iterator[str]:
    """Yield a plan in words, and with everything the blocks to register it by."""
    if name:
        yield f"== {name}"
    yield from (str(made) if everything else made.brief()).split("\n")
    if everything and not made.hopeless:
        yield from ("", "For audit.toml:", "", *made.to_toml().split("\n"))


def _planned(
    law: Law, question: Question, stressed: bool, seed: int, progress: Progress
) -> PlanReport:
    """Return the plan for one mechanism, with its stress test and its sequential counterpart.

    Parameters
    ----------
    law
        What is known or assumed of its releases.
    question
        Which claim, and which sizes are open.
    stressed
        Whether other laws are tried too.
    seed
        Of the simulations.
    progress
        What is told how far the search is.
    """
    from proxyguard.plan.recommend import recommend
    from proxyguard.plan.report import PlanReport
    from proxyguard.plan.stress import default_looks, forecast, stress

    recommended = recommend(law, question, seed=seed, progress=progress)
    chosen = recommended.chosen.plan
    sequential = None
    if chosen.claim.sequential:
        looks = default_looks(chosen.releases, question.least_releases)
        sequential = forecast(recommended.judged, chosen, looks, seed=seed)
    tried = stress(recommended, seed=seed, progress=progress) if stressed else []
    return PlanReport(found=recommended, stress=tuple(tried), sequential=sequential)


@contextmanager
def _as_typed(choices: Collection[str]) -> Iterator[None]:
    """Let an error that begins with the name of a choice begin with the option that was typed."""
    try:
        yield
    except RegistryError as error:
        name, _, rest = str(error).partition(" ")
        if name not in choices:
            raise
        option = OPTIONS.get(name, name.replace("_", "-"))
        raise RegistryError(f"--{option} {rest}") from error


def _question(choices: OpenChoices) -> Question:
    """Return what is asked where no folder declares it.

    Raises
    ------
    BadParameter
        Where no reliability is named: there is no usual one. Where nothing limits the records.
    """
    from proxyguard.plan.question import Question

    if "reliability_target" not in choices:
        raise typer.BadParameter(
            "--reliability-target is missing: the reliability to show, such as 0.8"
        )
    question = Question(**choices)
    if question.unlimited:
        raise typer.BadParameter(
            "nothing limits the number of records: give --power, such as 0.9, for the cheapest "
            "plan that reaches it, or one of --records, --most-records and --budget"
        )
    return question


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """A requirement as it is typed: ``--require name=N,limit=L,...``; two-valued stands alone.

    Attributes
    ----------
    name, limit
        Of the requirement; both must be given.
    margin, sd
        What is assumed of its mean and deviation; a margin is needed unless there are losses.
    low, high
        The bounds of the loss.
    two_valued
        Empty where the loss has two values alone, None where nothing is known.
    share, group
        The share of the records that count, for a requirement about a subgroup, and its name.
    """

    name: str = ""
    limit: str = ""
    margin: str | None = None
    sd: str | None = None
    low: str = "0"
    high: str = "1"
    two_valued: str | None = None
    share: str | None = None
    group: str | None = None

    @classmethod
    def read(cls, text: str) -> Required:
        """Return what one option says.

        Parameters
        ----------
        text
            What stands after ``--require``.

        Raises
        ------
        BadParameter
            Where a key is unknown, given twice or without its value, or name or limit is missing.
        """
        known = [field.name.replace("_", "-") for field in fields(cls)]
        given: dict[str, str] = {}
        for piece in text.split(","):
            key, _, written = piece.strip().partition("=")
            if key not in known:
                raise typer.BadParameter(f"{key!r} in {text!r} is none of {', '.join(known)}")
            if key in given:
                raise typer.BadParameter(f"{key!r} is given twice in {text!r}")
            if (key == "two-valued") != (written == ""):
                raise typer.BadParameter(
                    f"{piece.strip()!r} in {text!r}: two-valued stands alone, "
                    "everything else has a value"
                )
            given[key] = written
        if not {"name", "limit"} <= set(given):
            raise typer.BadParameter(f"{text!r} needs a name and a limit")
        if "group" in given and "share" not in given:
            raise typer.BadParameter(
                f"{text!r} names a group and not how common it is: write share= beside it, the "
                "part of the records that belong to it"
            )
        return cls(**{key.replace("-", "_"): written for key, written in given.items()})

    @property
    def requirement(self) -> Requirement:
        """The requirement that is meant."""
        from proxyguard.registry.requirement import Requirement

        return Requirement(
            name=self.name,
            low=_number(self.low, "low"),
            high=_number(self.high, "high"),
            limit=_number(self.limit, "limit"),
            two_valued=self.two_valued is not None,
            group=self.subgroup,
        )

    @property
    def subgroup(self) -> str | None:
        """What the subgroup is called: one without a name is this requirement's own."""
        if self.share is None:
            return None
        return f"the subgroup of {self.name}" if self.group is None else self.group

    @property
    def part(self) -> float:
        """The share of the records that count."""
        return 1.0 if self.share is None else _number(self.share, "share")


def _law(
    require: list[str] | None, losses: Path | None, reliability: float | None, spread: float,
    excess: float,
) -> Law:  # fmt: skip
    """Return the law of releases, from pilot losses or from assumed margins.

    Parameters
    ----------
    require
        The requirements as they are typed.
    losses
        A file of pilot losses, in place of margins.
    reliability
        The share of valid releases; of pilots their own share, taken cautiously, unless given.
    spread, excess
        How margins differ between releases, and how far invalid ones miss.

    Raises
    ------
    BadParameter
        Where something is missing, or the file is about other requirements.
    """
    from proxyguard.plan.law import assumed_law, pilot_law

    if not require:
        raise typer.BadParameter("name an audit folder, or give --require for each requirement")
    typed = [Required.read(text) for text in require]
    requirements = [asked.requirement for asked in typed]
    shares = _shares(typed)
    if losses is not None:
        if len(set(shares.values())) > 1 or len({asked.group for asked in typed}) > 1:
            raise typer.BadParameter(
                "--losses are of the same records for all requirements: give all of them one "
                "share= and one group=, or none of them, and plan other groups by themselves"
            )
        from proxyguard.errors import TableError
        from proxyguard.losses.given import read_loss_file

        try:
            read = read_loss_file(losses, None, [r.name for r in requirements])
        except TableError as error:
            raise typer.BadParameter(str(error)) from None
        return pilot_law(
            read.values, requirements, reliability=reliability, share=next(iter(shares.values()))
        )
    if reliability is None:
        raise typer.BadParameter("assumed margins need --reliability, the share of valid releases")
    missing = [asked.name for asked in typed if asked.margin is None]
    if missing:
        raise typer.BadParameter(f"{', '.join(missing)}: margin is missing, or give --losses")
    return assumed_law(
        requirements,
        margins=[_number(asked.margin or "", "margin") for asked in typed],
        deviations=[None if asked.sd is None else _number(asked.sd, "sd") for asked in typed],
        reliability=reliability,
        spread=spread,
        excess=excess,
        shares=[asked.part for asked in typed],
    )


def _shares(typed: Sequence[Required]) -> dict[str | None, float]:
    """Return the share of every subgroup; one name has one."""
    shares: dict[str | None, float] = {}
    for asked in typed:
        have = shares.setdefault(asked.subgroup, asked.part)
        if have != asked.part:
            raise typer.BadParameter(
                f"group={asked.group} has share={have:g} and share={asked.part:g}; requirements "
                "of one name are about one group"
            )
    return shares


def _number(text: str, what: str) -> float:
    """Return a number that was typed, or say which one is none."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{what} is a number, got {text!r}") from None


def _draw(plans: list[PlanReport], picture: Path, seed: int, progress: Progress) -> None:
    """Draw the power of each plan over both sizes; a hopeless one has nothing to show."""
    from proxyguard.plan.report import draw, surfaces

    for index, made in enumerate(plans):
        if not made.hopeless:
            panels = surfaces(made.found, seed=seed, progress=progress)
            _numbered(picture, index).write_bytes(draw(panels, made.found.chosen))


def _numbered(path: Path, index: int) -> Path:
    """Return the file of one mechanism among several: the name itself, then name-2, and so on."""
    return path if index == 0 else path.with_stem(f"{path.stem}-{index + 1}")
