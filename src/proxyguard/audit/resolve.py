"""From a declaration to a registry: fit the source, draw pilots, resolve every rule.

All of it on development data. What comes out names each number's rule and inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from proxyguard.adapters.library import Library, best_threshold
from proxyguard.audit.data import DataFolders
from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.jobs import draw_job, forbidden_paths
from proxyguard.draw.catalog import load_generator, origin
from proxyguard.draw.models import load_model, model_bytes
from proxyguard.draw.outcome import features, outcomes, predict
from proxyguard.draw.pool import draw_all
from proxyguard.draw.protocol import Fitted, Seed
from proxyguard.errors import DrawError, RegistryError
from proxyguard.losses.measure import Measure, Predicted, measure_loss, measure_query
from proxyguard.losses.query import BoundedQuery, expand
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.design import Design, Stratified
from proxyguard.registry.fields import number
from proxyguard.registry.parts import (
    ClaimPart,
    PilotRule,
    RequirementPart,
    SlackRule,
    SourceRule,
)
from proxyguard.registry.rules import (
    Resolved,
    choose_roles,
    cutoff_from_pilot,
    limit_from_source,
    slack_from_plan,
)
from proxyguard.registry.target import Outcome
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.seal.table import as_text, read_table_bytes

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """The folder, the files it may use, and how many processes may work at once."""

    folder: AuditFolder
    data: DataFolders
    home: str
    workers: int = 1
    progress: Progress = lambda what, done, total: None


class MemberDevelopment:
    """The development part of one member, and what follows from it."""

    def __init__(self, place: Workplace, member: Member, sealed: Mapping[str, Any]) -> None:
        self.place, self.member, self.sealed = place, member, sealed
        index = sealed["index"]
        self.training_name = f"development/{index}.training.parquet"
        self.validation_name = f"development/{index}.validation.parquet"
        self.kinds: dict[str, str] = dict(sealed["kinds"])

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
        if "validation" not in self.sealed["development"]:
            return None
        return self._read(self.validation_name)

    def _read(self, name: str) -> pd.DataFrame:
        return read_table_bytes((self.place.folder / name).read_bytes(), name)

    def learner(self) -> Library | None:
        """Return the registered procedure."""
        if self.member.procedure is None:
            return None
        return Library(self.member.procedure, self.outcome, self.features)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source procedure, fitted on the training part."""

    fitted: Fitted
    record: dict[str, Any]


def fit_source(development: MemberDevelopment) -> Source | None:
    """Fit the registered procedure on the training part and store it."""
    learner, procedure = development.learner(), development.member.procedure
    if learner is None or procedure is None:
        return None
    seed = Seed(procedure.seed)
    with threadpool_limits(1):
        fitted = learner.fit(development.training(), development.validation(), seed)
    address = development.place.folder.store.put(model_bytes(fitted.estimator))
    record = {
        "model": address,
        "selected": fitted.selected,
        "threshold": None if fitted.threshold is None else repr(fitted.threshold),
        "temperature": None if fitted.temperature is None else repr(fitted.temperature),
        "seed": procedure.seed,
    }
    return Source(fitted=fitted, record=record)


def load_fitted(folder: AuditFolder, record: Mapping[str, Any], trusted: Sequence[str]) -> Fitted:
    """Load a stored procedure with the choices recorded around it."""
    return Fitted(
        estimator=load_model(folder.store.get(record["model"]), record["model"], trusted),
        selected=str(record["selected"]),
        threshold=None if record["threshold"] is None else float(record["threshold"]),
        temperature=None if record["temperature"] is None else float(record["temperature"]),
    )


def validation_risks(
    development: MemberDevelopment, measures: Sequence[Measure], fitted: Fitted
) -> dict[str, float]:
    """Return the mean loss of a fitted procedure on validation data, absolute requirements."""
    part = development.validation()
    if part is None:
        return {}
    y = outcomes(part[development.outcome.column], development.outcome, "validation")
    x = features(part, development.features)
    with threadpool_limits(1):
        own = Predicted(values=predict(fitted, x, development.outcome), threshold=fitted.threshold)
    return {m.requirement.name: _mean_loss(m, y, own) for m in measures if m.loss is not None}


def _mean_loss(measure: Measure, y: Array, predicted: Predicted) -> float:
    assert measure.loss is not None  # queries have no loss
    return float(np.mean(measure.loss(predicted.threshold)(y, predicted.values)))


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
        found[policy] = {
            m.requirement.name: _mean_loss(m, y, own) for m in measures if m.loss is not None
        }
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


def run_pilots(
    development: MemberDevelopment, declaration: Declaration, measures: Sequence[Measure],
    source: Source,
) -> dict[str, Any]:  # fmt: skip
    """Draw every pilot and return each release's mean losses on validation data."""
    place, member = development.place, development.member
    part = development.validation()
    if part is None:
        raise RegistryError("pilots are judged on development.validation, which is missing")
    y = outcomes(part[development.outcome.column], development.outcome, "validation")
    x = features(part, development.features)
    with threadpool_limits(1):
        base = Predicted(
            values=predict(source.fitted, x, development.outcome),
            threshold=source.fitted.threshold,
        )
    found: dict[str, Any] = {}
    for pilot in declaration.pilot:
        means: dict[int, dict[str, float]] = {}

        def keep(
            record: dict[str, Any], release: bytes, model: bytes, means: Any = means,
            name: str = pilot.name, total: int = pilot.draws,
        ) -> None:  # fmt: skip
            if record["status"] != "drawn":
                raise DrawError(f"pilot {name!r}, seed {record['seed']}: {record['error']}")
            fitted = Fitted(
                estimator=load_model(model, "a pilot", ()),
                selected=record["selected"],
                threshold=None if record["threshold"] is None else float(record["threshold"]),
                temperature=(
                    None if record["temperature"] is None else float(record["temperature"])
                ),
            )
            with threadpool_limits(1):
                own = Predicted(
                    values=predict(fitted, x, development.outcome), threshold=fitted.threshold
                )
            means[record["seed"]] = {
                m.requirement.name: float(np.mean(m.of_predictions(y, own, base)))
                for m in measures
                if m.loss is not None
            }
            place.progress(f"pilot {name}", len(means), total)

        job = draw_job(
            development.training_name, development.validation_name, place, member,
            development.kinds, development.features, name=pilot.name,
            generator=str(pilot.generator), options=pilot.options,
            prepare_seed=pilot.prepare_seed,
            forbidden=forbidden_paths(place, member),
            validated=development.validation() is not None,
        )  # fmt: skip
        draw_all(
            job, pilot.seed_list, module="proxyguard.adapters.worker", workers=place.workers,
            timeout=None, keep=keep,
        )  # fmt: skip
        found[pilot.name] = {
            "generator": pilot.generator,
            "options": pilot.options,
            "means": {
                str(seed): {k: repr(v) for k, v in means[seed].items()} for seed in sorted(means)
            },
        }
    return found


def resolve_requirements(
    development: MemberDevelopment, declaration: Declaration
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Resolve every limit and slack of a member; return requirements and development facts."""
    member = development.member
    provisional = [
        _provisional(part, development) for part in member.requirement if part.loss is not None
    ]
    source = fit_source(development) if member.procedure is not None else None
    facts: dict[str, Any] = {"source": None, "risks": {}, "references": {}, "pilots": {}}
    pilots: dict[str, Any] = {}
    risks: dict[str, float] = {}
    if source is not None:
        facts["source"] = source.record
        risks = validation_risks(development, provisional, source.fitted)
        facts["risks"] = {name: repr(value) for name, value in risks.items()}
        facts["references"] = {
            policy: {name: repr(value) for name, value in losses.items()}
            for policy, losses in reference_policies(development, provisional).items()
        }
        if declaration.pilot:
            pilots = run_pilots(development, declaration, provisional, source)
            facts["pilots"] = pilots
    n = _planned_records(member, development.sealed)
    share = len(member.mechanism) or 1
    resolved = []
    for part in member.requirement:
        limit, slack = _limits(part, risks, pilots, declaration.claim, n, share, development)
        resolved.append(
            {
                "part": part.model_dump(mode="json"),
                "limit": _resolved(limit),
                "slack": None if slack is None else _resolved(slack),
                "queries": [q.to_dict() for q in _queries(part, development)],
            }
        )
    return resolved, facts


def _provisional(part: RequirementPart, development: MemberDevelopment) -> Measure:
    """Return a measure whose limit does not matter yet: only its loss is used."""
    procedure = development.member.procedure
    any_limit = part.limit if isinstance(part.limit, str) else "0.5"
    bare = part.model_copy(update={"ramp": None, "slack": None})
    measure = measure_loss(
        bare,
        limit=any_limit,
        slack=None,
        outcome=development.outcome,
        choose=None if procedure is None else procedure.choose,
    )
    return measure


def _queries(part: RequirementPart, development: MemberDevelopment) -> list[BoundedQuery]:
    if part.query is None:
        return []
    training = development.training()
    domains = {
        name: sorted({canonical_value(as_text(v)) for v in training[name]})
        for name, kind in development.kinds.items()
        if kind == "text"
    }
    return expand(part.name, part.query, domains)


def _planned_records(member: Member, sealed: Mapping[str, Any]) -> int:
    draw = member.target.draw
    return draw.size if draw is not None else int(sealed["records"])


def _limits(
    part: RequirementPart,
    risks: Mapping[str, float],
    pilots: Mapping[str, Any],
    claim: ClaimPart,
    n: int,
    share: int,
    development: MemberDevelopment,
) -> tuple[Resolved, Resolved | None]:
    """Return a requirement's limit and slack, by their rules."""
    if isinstance(part.limit, SourceRule):
        limit = limit_from_source(
            repr(risks[part.name]),
            plus=part.limit.source_validation_plus,
            step=part.limit.round_up,
            at_most=part.limit.at_most,
        )
    elif isinstance(part.limit, PilotRule):
        means = [float(m[part.name]) for m in pilots[part.limit.pilot]["means"].values()]
        cutoff = cutoff_from_pilot(
            repr(max(means)), margin=part.limit.pilot_largest_plus, step=part.limit.round_up
        )
        total = limit_from_source(cutoff.value, plus=str(part.slack), step=part.limit.round_up)
        limit = Resolved(
            value=total.value,
            rule=f"{cutoff.rule}; plus the slack, rounded up",
            inputs={**cutoff.inputs, "slack": str(part.slack)},
        )
    else:
        limit = Resolved(value=part.limit, rule="as declared", inputs={})
    if part.slack is None:
        return limit, None
    if isinstance(part.slack, SlackRule):
        requirement = _provisional_requirement(part, limit.value, development)
        alpha_target = _alpha_target(claim) / share
        return limit, slack_from_plan(
            part.slack.smallest_of,
            [requirement],
            n_records=n,
            alpha_target=alpha_target,
            allowance=part.slack.allowance,
        )
    return limit, Resolved(value=part.slack, rule="as declared", inputs={})


def _provisional_requirement(
    part: RequirementPart, limit: str, development: MemberDevelopment
) -> Any:
    procedure = development.member.procedure
    bare = part.model_copy(update={"ramp": None})
    return measure_loss(
        bare,
        limit=limit,
        slack=None,
        outcome=development.outcome,
        choose=None if procedure is None else procedure.choose,
    ).requirement


def _alpha_target(claim: ClaimPart) -> float:
    share = number(claim.target_share) if claim.target_share is not None else 0.5
    return number(claim.alpha) * share


def _resolved(value: Resolved) -> dict[str, Any]:
    return {"value": value.value, "rule": value.rule, "inputs": dict(value.inputs)}


def measures_of(member: Member, resolved: Sequence[Mapping[str, Any]]) -> list[Measure]:
    """Return the measures of a member from its registered requirements, queries expanded."""
    found: list[Measure] = []
    choose = None if member.procedure is None else member.procedure.choose
    for one in resolved:
        part = RequirementPart.model_validate(one["part"])
        limit = one["limit"]["value"]
        slack = None if one["slack"] is None else one["slack"]["value"]
        if part.query is not None:
            for query in one["queries"]:
                found += measure_query(
                    part, BoundedQuery.from_dict(query), limit=limit, slack=slack
                )
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
    from proxyguard.registry.requirement import Form, Requirement

    low, high = (-1.0, 1.0) if part.form == "relative" else (0.0, 1.0)
    if part.low is not None and part.high is not None:
        low, high = number(part.low), number(part.high)
    return Measure(
        requirement=Requirement(
            name=part.name,
            low=low,
            high=high,
            limit=number(limit),
            form=Form(part.form),
            two_valued=part.two_valued,
            slack=None if slack is None else number(slack),
            ramp=None if part.ramp is None else number(part.ramp),
        )
    )


def resolve_mechanisms(
    declaration: Declaration, development: MemberDevelopment,
    requirements: Sequence[Mapping[str, Any]], facts: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Return each mechanism's generator, options and description; roles by their rule."""
    roles: dict[str, str] = {}
    if declaration.roles is not None:
        roles = _roles(declaration, requirements, facts)
    found: dict[str, Any] = {}
    for mechanism in development.member.mechanism:
        generator, options = mechanism.generator, mechanism.options
        if mechanism.role is not None:
            pilot = next(p for p in declaration.pilot if p.name == roles[mechanism.role])
            generator, options = pilot.generator, pilot.options
        if generator == "losses":
            found[mechanism.name] = {"generator": "losses", "options": {}, "describe": {},
                                     "origin": {}, "pilot": None}  # fmt: skip
            continue
        made = load_generator(str(generator), options)
        found[mechanism.name] = {
            "generator": generator,
            "options": options,
            "describe": dict(made.describe()),
            "origin": origin(str(generator)),
            "pilot": roles.get(mechanism.role or ""),
            "batch": int(getattr(made, "batch", 32)) if hasattr(made, "draw_many") else 1,
        }
    return found


def _roles(
    declaration: Declaration, requirements: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]
) -> dict[str, str]:
    assert declaration.roles is not None  # the caller checked
    against = {}
    for one in requirements:
        limit = number(one["limit"]["value"])
        if declaration.roles.against == "cutoff":
            limit -= number(one["slack"]["value"]) if one["slack"] else 0.0
        against[one["part"]["name"]] = limit
    margins = {
        name: [
            min(against[r] - float(value) for r, value in means.items())
            for means in facts["pilots"][name]["means"].values()
        ]
        for name in declaration.roles.pilots
    }
    return choose_roles(margins, moderate=number(declaration.roles.moderate))


def design_of(member: Member) -> Design:
    """Return the design that component tests rely on, strata named as the records name them."""
    design = member.target.sampling_design
    if isinstance(design, Stratified):
        return Stratified(
            sizes={canonical_value(str(k)): v for k, v in design.sizes.items()},
            weights={canonical_value(str(k)): v for k, v in design.weights.items()},
        )
    return design
