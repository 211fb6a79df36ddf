"""What is learned on development data, and what the registered rules make of it.

`develop` fits the source, tries reference policies and draws pilots: the facts. Limits, slacks,
roles and measures follow from recorded facts alone, so that `register` and `verify` get the same
numbers from the same facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from proxyguard.adapters.library import Library, best_threshold
from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.home import DataFolders
from proxyguard.audit.jobs import Descriptions, draw_job, forbidden_paths
from proxyguard.documents.ledger import SealedMember
from proxyguard.documents.registry import (
    Facts,
    NoFacts,
    PilotFacts,
    ResolvedNumber,
    ResolvedQuery,
    ResolvedRequirement,
    SourceModel,
)
from proxyguard.documents.releases import DrawnRelease
from proxyguard.draw.pool import Check, DrawingPool, Draws, Keep, draw_groups
from proxyguard.draw.protocol import Fitted, Seed, features, outcomes, predict
from proxyguard.draw.sources import (
    allowed_files,
    changed_settings,
    refuse_changes,
)
from proxyguard.errors import DrawError, RegistryError, SealError
from proxyguard.losses.measure import Measure, Predicted, measure_loss, measure_query
from proxyguard.losses.query import BoundedQuery, CodedRecords, codings, expand
from proxyguard.models.stored import load_model, model_bytes
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.fields import number
from proxyguard.registry.parts import (
    ClaimPart,
    Drawn,
    PilotRule,
    RequirementPart,
    SlackRule,
    SourceRule,
)
from proxyguard.registry.requirement import (
    Form,
    Requirement,
    Resolved,
    choose_roles,
    cutoff_from_pilot,
    limit_from_source,
    slack_from_plan,
)
from proxyguard.registry.target import Outcome
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.seal.storage import OBJECT
from proxyguard.tables.columns import as_text
from proxyguard.tables.files import read_table_bytes

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


Progress = Callable[[str, int, int], None]


# The facts of a member that has no procedure and asks for no values.
NOTHING_LEARNED = Facts(source=None, risks={}, references={}, pilots={}, domains={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """The folder, the files it may use, and how many processes may work at once."""

    folder: AuditFolder
    data: DataFolders
    home: str
    workers: int = 1
    progress: Progress = lambda what, done, total: None
    descriptions: Descriptions = field(default_factory=Descriptions)  # those of one command
    pool: DrawingPool = field(default_factory=DrawingPool)  # and its drawing processes


class MemberDevelopment:
    """The development part of one member, and what follows from it."""

    def __init__(self, place: Workplace, member: Member, sealed: SealedMember) -> None:
        self.place, self.member, self.sealed = place, member, sealed
        self.training_name = f"development/{sealed.index}.training.parquet"
        self.validation_name = f"development/{sealed.index}.validation.parquet"
        self.kinds = sealed.kind_of

    @property
    def outcome(self) -> Outcome:
        """The outcome; a member without one has no losses."""
        outcome = self.member.target.predicted
        if outcome is None:
            raise RegistryError(f"{self.member.name}: target.outcome is missing")
        return outcome

    @property
    def features(self) -> list[str]:
        """The columns that predict: all but the outcome, clusters and excluded ones."""
        target = self.member.target
        other = {target.outcome, *target.exclude}
        if target.design_column is not None:
            other.add(target.design_column)
        return [name for name in self.kinds if name not in other]

    def training(self) -> pd.DataFrame:
        """Return the rows that sources and releases are made from."""
        return self._read(self.training_name)

    def validation(self) -> pd.DataFrame | None:
        """Return the rows that choose, where some were set aside."""
        if "validation" not in self.sealed.development:
            return None
        return self._read(self.validation_name)

    def _read(self, name: str) -> pd.DataFrame:
        frame = read_table_bytes(self.place.folder.read(name, most=OBJECT), name)
        if [str(column) for column in frame.columns] != list(self.kinds):
            raise SealError(
                f"{name} has the columns {list(frame.columns)}, the seal says {list(self.kinds)}"
            )
        return frame

    def learner(self) -> Library | None:
        """Return the registered procedure."""
        if self.member.procedure is None:
            return None
        return Library(self.member.procedure, self.outcome, self.features)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source procedure, fitted on the training part."""

    fitted: Fitted
    record: SourceModel


def fit_source(development: MemberDevelopment) -> Source | None:
    """Fit the registered procedure on the training part and store it."""
    fitted, procedure = fit_training(development), development.member.procedure
    if fitted is None or procedure is None:
        return None
    address = development.place.folder.store.put(model_bytes(fitted.estimator))
    return Source(
        fitted=fitted,
        record=SourceModel(model=address, seed=procedure.seed, **choices_around(fitted)),
    )


def fit_training(development: MemberDevelopment) -> Fitted | None:
    """Return the registered procedure, fitted on the training part; nothing is stored."""
    learner, procedure = development.learner(), development.member.procedure
    if learner is None or procedure is None:
        return None
    seed = Seed(procedure.seed)
    with threadpool_limits(1):
        return learner.fit(development.training(), development.validation(), seed, source=True)


def choices_around(fitted: Fitted) -> dict[str, Any]:
    """Return what a fit chose besides its model, as it is recorded."""
    return {
        "selected": fitted.selected,
        "threshold": None if fitted.threshold is None else repr(fitted.threshold),
        "temperature": None if fitted.temperature is None else repr(fitted.temperature),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What was chosen around an estimator, numbers as text."""

    selected: str | None
    threshold: str | None
    temperature: str | None


def load_fitted(
    folder: AuditFolder, address: str, chosen: Chosen | DrawnRelease | SourceModel,
    trusted: Sequence[str],
) -> Fitted:  # fmt: skip
    """Load a stored procedure with the choices recorded around it."""
    return fitted_from(chosen, load_model(folder.store.get(address), address, trusted))


def fitted_from(chosen: Chosen | DrawnRelease | SourceModel, estimator: Any) -> Fitted:
    """Return an estimator with the choices that were recorded around it."""
    return Fitted(
        estimator=estimator,
        selected=str(chosen.selected),
        threshold=None if chosen.threshold is None else float(chosen.threshold),
        temperature=None if chosen.temperature is None else float(chosen.temperature),
    )


def validation_risks(
    development: MemberDevelopment, measures: Sequence[Measure], fitted: Fitted
) -> dict[str, float]:
    """Return the mean loss of a fitted procedure on validation data, over each one's group."""
    part = development.validation()
    if part is None:
        return {}
    y = outcomes(part[development.outcome.column], development.outcome, "validation")
    x = features(part, development.features)
    with threadpool_limits(1):
        own = Predicted(values=predict(fitted, x, development.outcome), threshold=fitted.threshold)
    return _mean_losses(measures, part, y, own)


def _mean_losses(
    measures: Sequence[Measure], part: pd.DataFrame, y: Array, predicted: Predicted
) -> dict[str, float]:
    """Return the mean loss of every measure over the validation records that count for it.

    A group that validation has no record of has no mean: a rule over it is refused later.
    """
    coded = CodedRecords(part)
    found = {}
    for measure in measures:
        inside = measure.inside(coded)
        if measure.loss is not None and (inside is None or inside.any()):
            found[measure.requirement.name] = _mean_loss(measure, y, predicted, inside)
    return found


def _mean_loss(
    measure: Measure, y: Array, predicted: Predicted, inside: NDArray[np.bool_] | None
) -> float:
    assert measure.loss is not None  # queries have no loss
    loss = measure.loss(predicted.threshold)
    values = loss(y, predicted.values)
    if not np.all((values >= loss.low) & (values <= loss.high)):
        raise RegistryError(
            f"{measure.part}: {loss.name} leaves its declared bounds [{loss.low:g}, "
            f"{loss.high:g}] on validation data; mend the loss or its bounds"
        )
    return float(np.mean(_counted(values, inside)))


def reference_policies(
    development: MemberDevelopment, measures: Sequence[Measure]
) -> dict[str, dict[str, float]]:
    """Return the validation losses of policies that learn nothing from the features.

    *constant* says one half, every class alike, or the middle of the range; *prevalence*
    what is common in the training part.
    """
    procedure, part = development.member.procedure, development.validation()
    if procedure is None or part is None:
        return {}
    outcome = development.outcome
    y = outcomes(part[outcome.column], outcome, "validation")
    seen = outcomes(development.training()[outcome.column], outcome, "training")
    found: dict[str, dict[str, float]] = {}
    for policy in procedure.references:
        values = _policy(policy, seen, y.size, outcome)
        threshold = None
        if procedure.choose is not None:
            weight = (
                number(procedure.choose.false_negative) if procedure.choose.loss == "cost" else 1.0
            )
            threshold, _ = best_threshold(y, values, weight, procedure.choose.thresholds)
        own = Predicted(values=values, threshold=threshold)
        found[policy] = _mean_losses(measures, part, y, own)
    return found


def _policy(policy: str, seen: Array, n: int, outcome: Outcome) -> Array:
    if outcome.kind == "binary":
        return np.full(n, 0.5 if policy == "constant" else float(seen.mean()))
    if outcome.kind == "multiclass":
        k = len(outcome.classes or ())
        shares = np.bincount(seen.astype(int), minlength=k) / seen.size
        return np.tile(np.full(k, 1.0 / k) if policy == "constant" else shares, (n, 1))
    low, high = (number(end) for end in outcome.range or ("0", "1"))
    return np.full(n, (low + high) / 2.0 if policy == "constant" else float(seen.mean()))


def pilot_losses(
    development: MemberDevelopment, pilots: Sequence[Drawn], measures: Sequence[Measure],
    source: Fitted,
) -> dict[str, dict[int, dict[str, Array]]]:  # fmt: skip
    """Draw every pilot and return each release's losses on validation data.

    By pilot, seed and requirement, one loss for each validation record that counts.
    """
    place = development.place
    part = development.validation()
    if part is None:
        raise RegistryError("pilots are judged on development.validation, which is missing")
    y = outcomes(part[development.outcome.column], development.outcome, "validation")
    x = features(part, development.features)
    coded = CodedRecords(part)
    counting = {m.requirement.name: m.inside(coded) for m in measures}
    empty = [name for name, inside in counting.items() if inside is not None and not inside.any()]
    if empty:
        raise RegistryError(
            f"pilots are judged on development.validation, which has no record of the group of "
            f"{empty}; name a group that it has, or leave the pilots out"
        )
    with threadpool_limits(1):
        base = Predicted(values=predict(source, x, development.outcome), threshold=source.threshold)
    found: dict[str, dict[int, dict[str, Array]]] = {pilot.name: {} for pilot in pilots}

    def keeper(pilot: Drawn) -> Keep:
        losses = found[pilot.name]

        def keep(record: dict[str, Any], release: bytes, model: bytes) -> None:
            if record["status"] != "drawn":
                raise DrawError(f"pilot {pilot.name!r}, seed {record['seed']}: {record['error']}")
            chosen = Chosen(
                selected=record["selected"],
                threshold=record["threshold"],
                temperature=record["temperature"],
            )
            fitted = fitted_from(chosen, load_model(model, "a pilot", ()))
            with threadpool_limits(1):
                own = Predicted(
                    values=predict(fitted, x, development.outcome), threshold=fitted.threshold
                )
            losses[record["seed"]] = {
                m.requirement.name: _counted(
                    m.of_predictions(y, own, base), counting[m.requirement.name]
                )
                for m in measures
                if m.loss is not None
            }
            place.progress(f"pilot {pilot.name}", len(losses), pilot.draws)

        return keep

    groups = [
        Draws(
            job=_pilot_job(development, pilot),
            seeds=pilot.seed_list,
            keep=keeper(pilot),
            check=_same_allowed(pilot),
        )
        for pilot in pilots
    ]
    draw_groups(groups, pool=place.pool, workers=place.workers, timeout=None)
    return found


def _counted(losses: Array, inside: NDArray[np.bool_] | None) -> Array:
    """Return the losses of the records that count."""
    return losses if inside is None else losses[inside]


def _same_allowed(pilot: Drawn) -> Check:
    """Return a check that the files which a pilot may read stay what they are now."""
    began = allowed_files(pilot.allow)

    def check() -> None:
        changes = list(changed_settings(began, allowed_files(pilot.allow)))
        refuse_changes(f"pilot {pilot.name!r}", changes)

    return check


def _pilot_job(development: MemberDevelopment, pilot: Drawn) -> dict[str, Any]:
    place, member = development.place, development.member
    return draw_job(
        development.training_name, development.validation_name, place, member,
        development.kinds, development.features, name=pilot.name,
        generator=str(pilot.generator), options=pilot.options,
        prepare_seed=pilot.prepare_seed,
        forbidden=forbidden_paths(place, member),
        validated=True,
        allow=pilot.allow,
        may_ignore_seed=True,  # a pilot of a mechanism that has no randomness; none is certified
    )  # fmt: skip


def run_pilots(
    development: MemberDevelopment, declaration: Declaration, measures: Sequence[Measure],
    source: Source,
) -> dict[str, PilotFacts]:  # fmt: skip
    """Draw every registered pilot and return its mean losses on validation data."""
    losses = pilot_losses(development, declaration.pilot, measures, source.fitted)
    return {
        pilot.name: PilotFacts(
            generator=str(pilot.generator),
            options=pilot.options,
            allowed=allowed_files(pilot.allow) if pilot.allow else None,
            means={
                str(seed): {name: repr(float(np.mean(x))) for name, x in by_name.items()}
                for seed, by_name in sorted(losses[pilot.name].items())
            },
        )
        for pilot in declaration.pilot
    }


def develop(development: MemberDevelopment, declaration: Declaration) -> Facts:
    """Fit the source, try reference policies, draw pilots: all that rules are resolved from."""
    member = development.member
    domains = _domains(development)
    if member.procedure is None:
        return NOTHING_LEARNED.model_copy(update={"domains": domains})
    measures = loss_measures(member)
    source = fit_source(development)
    assert source is not None  # there is a procedure
    risks = validation_risks(development, measures, source.fitted)
    references = reference_policies(development, measures)
    return Facts(
        source=source.record,
        risks={name: repr(risk) for name, risk in risks.items()},
        references={
            policy: {name: repr(loss) for name, loss in losses.items()}
            for policy, losses in references.items()
        },
        pilots=(
            run_pilots(development, declaration, measures, source) if declaration.pilot else {}
        ),
        domains=domains,
    )


def loss_measures(member: Member) -> list[Measure]:
    """Return the losses that development is judged by."""
    return [provisional_measure(p, member) for p in member.requirement if p.loss is not None]


def check_facts(
    development: MemberDevelopment, declaration: Declaration, facts: Facts | NoFacts, name: str
) -> None:
    """Raise unless recorded facts are the ones that development gives, as far as no model is asked.

    Limits, slacks and queries follow from the facts, so that a fact of the author's own choice is
    a claim of their choice: a marginal over one value of three can hide two. Risks and reference
    policies need losses, and are computed again where those may be run.
    """
    member = development.member
    where = f"{name}, facts of {member.name}"
    if member.target.losses is not None:
        if isinstance(facts, Facts):
            raise SealError(f"{where}: facts are recorded of losses that were given")
        return
    if not isinstance(facts, Facts):
        raise SealError(f"{where}: nothing is recorded, and development has facts")
    domains = _domains(development)
    if facts.domains != domains:
        raise SealError(
            f"{where}: the values of {sorted({*facts.domains, *domains})} are not those of the "
            f"development part, which queries are made from"
        )
    recorded = {
        name: (
            pilot.generator,
            pilot.options,
            pilot.allowed is not None,  # digests of files elsewhere
            {seed: sorted(means) for seed, means in pilot.means.items()},
        )
        for name, pilot in facts.pilots.items()
    }
    names = sorted(part.name for part in member.requirement if part.loss is not None)
    pilots = declaration.pilot if member.procedure is not None else ()
    declared = {
        pilot.name: (
            pilot.generator,
            pilot.options,
            bool(pilot.allow),
            {str(seed): names for seed in pilot.seed_list},
        )
        for pilot in pilots
    }
    if recorded != declared:
        raise SealError(f"{where}: the pilots are not the declared ones, each seed of them once")


def _domains(development: MemberDevelopment) -> dict[str, tuple[str, ...]]:
    """Return the values in training of the marginals' text columns that have no groups."""
    wanted = {
        column
        for part in development.member.requirement
        if part.query is not None
        for columns in part.query.tables
        for column in columns
        if development.kinds.get(column) == "text" and column not in (part.query.groups or {})
    }
    if not wanted:
        return {}
    training = development.training()
    return {
        name: tuple(sorted({canonical_value(as_text(v)) for v in training[name]}))
        for name in sorted(wanted)
    }


def resolve_limits(
    member: Member, facts: Facts, claim: ClaimPart, n_records: int
) -> tuple[ResolvedRequirement, ...]:
    """Return every requirement of a member with its limit, its slack and its queries."""
    resolved = []
    limits = {part.name: _limit(part, facts) for part in member.requirement}
    for part in member.requirement:
        limit = limits[part.name]
        slack = _slack(part, limits, member, claim, n_records)
        queries = [] if part.query is None else expand(part.name, part.query, facts.domains)
        resolved.append(
            ResolvedRequirement(
                part=part,
                limit=_record(limit),
                slack=None if slack is None else _record(slack),
                queries=tuple(ResolvedQuery.of(query.to_dict(), part.name) for query in queries),
            )
        )
    return tuple(resolved)


def planned_records(member: Member, records: int) -> int:
    """Return how many target records will be scored, of so many that are sealed."""
    draw = member.target.draw
    return draw.size if draw is not None else records


def provisional_measure(part: RequirementPart, member: Member, limit: str | None = None) -> Measure:
    """Return a measure for its loss alone: without slack, and with any limit if none is given."""
    assert member.target.predicted is not None  # a loss has an outcome
    low, high = (number(part.low or "0"), number(part.high or "1"))
    bare = part.model_copy(update={"ramp": None, "slack": None})
    return measure_loss(
        bare,
        limit=limit or repr((low + high) / 2.0),
        slack=None,
        outcome=member.target.predicted,
        choose=None if member.procedure is None else member.procedure.choose,
    )


def _limit(part: RequirementPart, facts: Facts) -> Resolved:
    if isinstance(part.limit, SourceRule):
        if part.name not in facts.risks:
            raise RegistryError(
                f"{part.name}: its limit is the source's validation risk plus a margin, and "
                f"development.validation has no record of the group {part.group}; give the limit "
                "as a number"
            )
        return limit_from_source(
            facts.risks[part.name],
            plus=part.limit.source_validation_plus,
            step=part.limit.round_up,
            at_most=part.limit.at_most,
        )
    if isinstance(part.limit, PilotRule):
        means = [float(m[part.name]) for m in facts.pilots[part.limit.pilot].means.values()]
        cutoff = cutoff_from_pilot(
            repr(max(means)), margin=part.limit.pilot_largest_plus, step=part.limit.round_up
        )
        total = limit_from_source(cutoff.value, plus=str(part.slack), step=part.limit.round_up)
        return Resolved(
            value=total.value,
            rule=f"{cutoff.rule}; plus the slack, rounded up",
            inputs={**cutoff.inputs, "slack": str(part.slack)},
        )
    return Resolved(value=part.limit, rule="as declared", inputs={})


def _slack(
    part: RequirementPart, limits: Mapping[str, Resolved], member: Member, claim: ClaimPart,
    n_records: int,
) -> Resolved | None:  # fmt: skip
    if not isinstance(part.slack, SlackRule):
        if part.slack is None:
            return None
        return Resolved(value=part.slack, rule="as declared", inputs={})
    share = number(part.slack.target_share or claim.target_share or "0.5")
    alike = [part]
    if part.slack.common:
        alike = [
            other
            for other in member.requirement
            if isinstance(other.slack, SlackRule) and other.slack.common
        ]
    return slack_from_plan(
        part.slack.smallest_of,
        [provisional_measure(one, member, limits[one.name].value).requirement for one in alike],
        n_records=n_records,
        alpha_target=number(claim.alpha) * share / (len(member.mechanism) or 1),
        allowance=part.slack.allowance,
    )


def resolve_roles(
    declaration: Declaration, requirements: Sequence[ResolvedRequirement], facts: Facts
) -> dict[str, str]:
    """Return which pilot plays which role, by the registered rule."""
    if declaration.roles is None:
        return {}
    against = {}
    for requirement in requirements:
        limit = number(requirement.limit.value)
        if declaration.roles.against == "cutoff" and requirement.slack is not None:
            limit -= number(requirement.slack.value)
        against[requirement.part.name] = limit
    margins = {
        name: [
            min(against[r] - float(value) for r, value in means.items())
            for means in facts.pilots[name].means.values()
        ]
        for name in declaration.roles.pilots
    }
    roles = declaration.roles
    return choose_roles(margins, moderate=number(roles.moderate), among=roles.among)


def _record(value: Resolved) -> ResolvedNumber:
    return ResolvedNumber(value=value.value, rule=value.rule, inputs=dict(value.inputs))


def given_bounds(part: RequirementPart) -> tuple[float, float]:
    """Return the declared bounds: by default [0, 1], and [-1, 1] of a difference."""
    if part.low is not None and part.high is not None:
        return number(part.low), number(part.high)
    return (-1.0, 1.0) if part.form == "relative" else (0.0, 1.0)


def measures_of(member: Member, resolved: Sequence[ResolvedRequirement]) -> list[Measure]:
    """Return the measures of a member from its registered requirements, queries expanded."""
    found: list[Measure] = []
    choose = None if member.procedure is None else member.procedure.choose
    for requirement in resolved:
        part, limit = requirement.part, requirement.limit.value
        slack = None if requirement.slack is None else requirement.slack.value
        if part.query is not None:
            coding = codings(part.query)
            for query in requirement.queries:
                bounded = BoundedQuery(
                    query.name, float(query.low), float(query.high), query.column, query.cell,
                    coding,
                )  # fmt: skip
                found += measure_query(part, bounded, limit=limit, slack=slack)
        elif member.target.losses is not None:
            found.append(_given(part, limit, slack))
        else:
            assert member.target.predicted is not None  # checked in the declaration
            found.append(
                measure_loss(
                    part, limit=limit, slack=slack, outcome=member.target.predicted, choose=choose
                )
            )
    return found


def _given(part: RequirementPart, limit: str, slack: str | None) -> Measure:
    """Return the requirement of a loss that was computed elsewhere, with declared bounds."""
    low, high = given_bounds(part)
    return Measure(
        part=part.name,
        requirement=Requirement(
            name=part.name,
            low=low,
            high=high,
            limit=number(limit),
            form=Form(part.form),
            two_valued=part.two_valued,
            slack=None if slack is None else number(slack),
            ramp=None if part.ramp is None else number(part.ramp),
        ),
    )
