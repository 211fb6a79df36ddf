"""What is learned on development data: the source, its risks, reference policies, pilots.

`MemberDevelopment` reads the parts that sealing wrote under ``development/``. `develop` fits the
source, tries reference policies and draws pilots: the facts, which `register` records and from
which `rules` resolves limits and roles. Nothing of the target is read here; only the source's
model is written, to the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from proxyguard.adapters.library import Library, best_threshold
from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.home import DataFolders, one_thread
from proxyguard.audit.jobs import Descriptions, draw_job
from proxyguard.audit.rules import measures_of, provisional_measure
from proxyguard.documents.ledger import DevelopmentRole, SealedMember
from proxyguard.documents.registry import (
    Facts,
    NoFacts,
    PilotFacts,
    RegisteredMember,
    SourceModel,
)
from proxyguard.documents.releases import Draw, DrawnRelease
from proxyguard.draw.job import DrawJob
from proxyguard.draw.messages import DrawResult, Failed, FittedRelease
from proxyguard.draw.pool import BatchCheck, DrawingPool, Draws, Keep, draw_groups
from proxyguard.draw.protocol import Fitted, Inputs, Seed, features, members_in, outcomes, predict
from proxyguard.draw.sources import allowed_files, changed_settings, refuse_changes
from proxyguard.errors import DrawError, RegistryError, SealError
from proxyguard.exact.rounding import Array
from proxyguard.losses.cell import Clusters
from proxyguard.losses.measure import Measure, Predicted
from proxyguard.losses.query import CodedRecords
from proxyguard.models.stored import load_model, model_bytes
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.design import Clustered
from proxyguard.registry.fields import number
from proxyguard.registry.parts import Drawn
from proxyguard.registry.requirement import NARROWEST, WIDEST
from proxyguard.registry.target import Outcome
from proxyguard.seal.fingerprint import canonical_value
from proxyguard.seal.storage import OBJECT
from proxyguard.tables.columns import as_labels, as_text
from proxyguard.tables.files import read_table_bytes

if TYPE_CHECKING:
    import pandas as pd

    from proxyguard.plan.search import Progress


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedPilot:
    """One pilot release, judged on the validation part."""

    losses: dict[str, Array]
    """By requirement, one for each record that counts."""
    answers: dict[str, float | None]
    """By query, what the release answers, nothing where it cannot."""


# By pilot and seed.
JudgedPilots = dict[str, dict[int, JudgedPilot]]


# The facts of a member that has no procedure and asks for no values.
NOTHING_LEARNED = Facts(source=None, risks={}, references={}, pilots={}, domains={})


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """What the steps of one command work with."""

    folder: AuditFolder
    """The audit folder."""
    data: DataFolders
    """Where the tables lie that the declaration names."""
    home: str
    """The home with keys and lineage, which draws may not open."""
    workers: int = 1
    """How many processes may draw at once."""
    progress: Progress = lambda what, done, total: None
    """What is told how many draws are done."""
    shared: DrawingPool | None = None
    """The drawing processes of several commands; else each has its own."""

    @cached_property
    def descriptions(self) -> Descriptions:
        """What generators said of themselves in this command, and in no earlier one."""
        return Descriptions()

    @cached_property
    def pool(self) -> DrawingPool:
        """The drawing processes of this command, of which some draw nothing."""
        return self.shared or DrawingPool()


def development_file(index: int, role: DevelopmentRole) -> str:
    """Return the file of one part of a member's development rows."""
    return f"development/{index}.{role}.parquet"


def own_members(folder: AuditFolder, draw: Draw, rows: int) -> NDArray[np.bool_] | None:
    """Return which of so many training rows a draw named as its members; nothing where all are.

    Raises
    ------
    SealError
        What is stored names no rows of them.
    """
    if not isinstance(draw, DrawnRelease) or draw.members is None:
        return None
    try:
        return members_in(folder.store.get(draw.members), rows)
    except DrawError as error:
        raise SealError(f"{draw.label}: {error}") from None


class MemberDevelopment:
    """The development part of one member, as sealing wrote it.

    Parameters
    ----------
    place
        What the command works with.
    member
        The declared member.
    sealed
        What the ledger says of its target and its development part.
    """

    def __init__(self, place: Workplace, member: Member, sealed: SealedMember) -> None:
        self.place, self.member, self.sealed = place, member, sealed
        self.training_name = development_file(sealed.index, "training")
        self.validation_name = development_file(sealed.index, "validation")
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
        return self.member.features(self.kinds)

    @property
    def attacked(self) -> list[str]:
        """The columns that attacks read."""
        return self.member.attacked(self.kinds)

    def training(self) -> pd.DataFrame:
        """Return the rows that sources and releases are made from."""
        return self._read(self.training_name)

    def validation(self) -> pd.DataFrame | None:
        """Return the rows that choose, where some were set aside."""
        if "validation" not in self.sealed.development:
            return None
        return self._read(self.validation_name)

    def members(self) -> pd.DataFrame:
        """Return the rows that some draw may have been trained on, all of which are members."""
        return self.training()

    def members_of(self, draw: Draw) -> pd.DataFrame:
        """Return the rows that a draw was trained on: all, or those that its generator named."""
        members = self.members()
        mask = own_members(self.place.folder, draw, len(members))
        return members if mask is None else members[mask].reset_index(drop=True)

    def reference(self) -> pd.DataFrame:
        """Return the rows that attacks compare with; nothing was trained on them."""
        return self._read(self._held("reference"))

    def calibration(self) -> pd.DataFrame | None:
        """Return the rows that thresholds of attacks are taken from, where some were set aside."""
        if "calibration" not in self.sealed.development:
            return None
        return self._read(self._held("calibration"))

    def _held(self, role: DevelopmentRole) -> str:
        if role not in self.sealed.development:
            raise SealError(f"{self.member.name}: the seal set no {role} rows aside")
        return development_file(self.sealed.index, role)

    def _read(self, name: str) -> pd.DataFrame:
        frame = read_table_bytes(self.place.folder.read(name, most=OBJECT), name)
        if [str(column) for column in frame.columns] != list(self.kinds):
            raise SealError(
                f"{name} has the columns {list(frame.columns)}, the seal says {list(self.kinds)}"
            )
        return frame

    def learner(self) -> Library | None:
        """Return the declared procedure, ready to fit; nothing where none is declared."""
        if self.member.procedure is None:
            return None
        return Library(self.member.procedure, self.outcome, self.features, self.member.columns)

    def trusted(self, given: Sequence[str] | None) -> Sequence[str]:
        """Return the types that stored models may contain beside our own.

        Those that were ``given``, or else the declaration's. It names them where its own author
        opens; it is no reason for anyone else to build such a type: ``trusted`` in a stranger's
        folder could name anything.
        """
        if given is not None:
            return given
        predicts = self.member.target.predicted is not None
        learner = self.learner() if predicts else None
        return () if learner is None else learner.trusted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source procedure, fitted on the training part, and its record."""

    fitted: Fitted
    record: SourceModel


def fit_source(development: MemberDevelopment) -> Source | None:
    """Fit the declared procedure on the training part and put its model into the store."""
    fitted, procedure = fit_training(development), development.member.procedure
    if fitted is None or procedure is None:
        return None
    choices = FitChoices.around(fitted)
    record = SourceModel(
        model=development.place.folder.store.put(model_bytes(fitted.estimator)),
        selected=choices.selected,
        threshold=choices.threshold,
        temperature=choices.temperature,
        seed=procedure.seed,
    )
    return Source(fitted=fitted, record=record)


def fit_training(development: MemberDevelopment) -> Fitted | None:
    """Return the declared procedure, fitted on the training part; nothing is stored."""
    learner, procedure = development.learner(), development.member.procedure
    if learner is None or procedure is None:
        return None
    seed = Seed(procedure.seed)
    # Verify fits the source again.
    with one_thread():
        return learner.fit(development.training(), development.validation(), seed, source=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitChoices:
    """What a fit chose besides its model; numbers as text, which keeps every bit."""

    selected: str
    threshold: str | None
    temperature: str | None

    @classmethod
    def around(cls, fitted: Fitted) -> FitChoices:
        """Return the choices of a fit, as they are recorded."""
        return cls(
            selected=fitted.selected,
            threshold=None if fitted.threshold is None else repr(fitted.threshold),
            temperature=None if fitted.temperature is None else repr(fitted.temperature),
        )


# What was recorded around an estimator: of a fit just made, of a draw, of the source.
Chosen = FitChoices | FittedRelease | DrawnRelease | SourceModel


def load_fitted(
    folder: AuditFolder, address: str, chosen: Chosen, trusted: Sequence[str]
) -> Fitted:
    """Load a stored procedure with the choices recorded around it.

    Parameters
    ----------
    folder
        The audit folder, whose store has the model.
    address
        The digest that the model is stored under.
    chosen
        The record of the source or of a draw.
    trusted
        Types of others that the model may contain; others are refused before they are built.
    """
    return fitted_from(chosen, load_model(folder.store.get(address), address, trusted))


def fitted_from(chosen: Chosen, estimator: object) -> Fitted:
    """Return an estimator with the choices that were recorded around it."""
    return Fitted(
        estimator=estimator,
        selected=str(chosen.selected),
        threshold=None if chosen.threshold is None else float(chosen.threshold),
        temperature=None if chosen.temperature is None else float(chosen.temperature),
    )


class ValidationPart:
    """The validation part, read once for all that is judged on it.

    Parameters
    ----------
    development
        The development part that it belongs to.
    records
        Its validation rows.
    """

    def __init__(self, development: MemberDevelopment, records: pd.DataFrame) -> None:
        self._development, self._records = development, records
        self.coded = CodedRecords(records)

    @cached_property
    def y(self) -> Array:
        """The outcomes; a member without one has queries alone."""
        outcome = self._development.outcome
        return outcomes(self._records[outcome.column], outcome, "validation")

    @cached_property
    def _x(self) -> Inputs:
        return features(self._records, self._development.features)

    @classmethod
    def of(cls, development: MemberDevelopment) -> ValidationPart | None:
        """Return the validation part, where rows were set aside for it."""
        records = development.validation()
        return None if records is None else cls(development, records)

    @cached_property
    def clusters(self) -> Clusters | None:
        """Its clusters, where these are the units of inference."""
        target = self._development.member.target
        if target.clusters is None:
            return None
        labels = np.array(as_labels(self._records[target.clusters.by]))
        return Clusters.of(labels, Clustered(), shuffle=False, seed=0)

    def predicted(self, fitted: Fitted) -> Predicted:
        """Return what a fitted procedure predicts for its records."""
        with one_thread():
            return Predicted(
                values=predict(fitted, self._x, self._development.outcome),
                threshold=fitted.threshold,
            )

    def counting(self, measure: Measure) -> NDArray[np.bool_]:
        """Return which of its records count for a measure: all, or those of its group."""
        inside = measure.inside(self.coded)
        return np.ones(len(self.coded), dtype=bool) if inside is None else inside

    def mean_losses(self, measures: Sequence[Measure], predicted: Predicted) -> dict[str, float]:
        """Return the mean loss of every measure over the records that count for it.

        A group that validation has no record of has no mean: a rule over it is refused later.
        """
        means = {}
        for measure in measures:
            counting = self.counting(measure)
            if measure.loss is None or not counting.any():
                continue
            loss = measure.loss(predicted.threshold)
            losses = loss(self.y, predicted.values)
            # A loss of somebody else is code like any other: its bounds are promised, not known.
            if not np.all((losses >= loss.low) & (losses <= loss.high)):
                raise RegistryError(
                    f"{measure.part}: {loss.name} leaves its declared bounds [{loss.low:g}, "
                    f"{loss.high:g}] on validation data; mend the loss or its bounds"
                )
            means[measure.requirement.name] = float(np.mean(losses[counting]))
        return means


def validation_risks(
    development: MemberDevelopment, measures: Sequence[Measure], fitted: Fitted
) -> dict[str, float]:
    """Return the mean loss of a fitted procedure on validation data, over each one's group."""
    validation = ValidationPart.of(development)
    return {} if validation is None else validation.mean_losses(
        measures, validation.predicted(fitted)
    )  # fmt: skip


def source_risks(
    development: MemberDevelopment, resolved: RegisteredMember, trusted: Sequence[str] | None
) -> dict[str, float]:
    """Return the validation risks of a member's stored source procedure, as it is registered.

    ``trusted`` are the types that its model may have beside our own; those of the declaration,
    in a process without keys, if it is None.
    """
    member, source = development.member, resolved.source
    if source is None:
        raise SealError(f"{member.name}: no source procedure is registered")
    fitted = load_fitted(
        development.place.folder, source.model, source, development.trusted(trusted)
    )
    return validation_risks(development, measures_of(member, resolved.requirements), fitted)


def reference_policies(
    development: MemberDevelopment, measures: Sequence[Measure]
) -> dict[str, dict[str, float]]:
    """Return the validation losses of policies that learn nothing from the features.

    *constant* says one half, every class alike, or the middle of the range; *prevalence*
    what is common in the training part.

    Parameters
    ----------
    development
        The development part.
    measures
        The losses; queries among them have none and are left out.

    Returns
    -------
    dict
        Mean losses by policy and requirement; nothing without procedure or validation part.
    """
    procedure, validation = development.member.procedure, ValidationPart.of(development)
    if procedure is None or validation is None:
        return {}
    outcome, choose = development.outcome, procedure.choose
    seen = outcomes(development.training()[outcome.column], outcome, "training")
    policies: dict[str, dict[str, float]] = {}
    for policy in procedure.references:
        values, threshold = policy_predictions(policy, seen, validation.y.size, outcome), None
        if choose is not None:
            weight = number(choose.false_negative) if choose.loss == "cost" else 1.0
            threshold, _ = best_threshold(validation.y, values, weight, choose.thresholds)
        predicted = Predicted(values=values, threshold=threshold)
        policies[policy] = validation.mean_losses(measures, predicted)
    return policies


def policy_predictions(policy: str, seen: Array, n: int, outcome: Outcome) -> Array:
    """Return what a policy predicts for ``n`` records, after the outcomes that it has seen."""
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
    source: Fitted | None,
) -> JudgedPilots:  # fmt: skip
    """Draw every pilot and return each release's losses on validation data, and its answers.

    Parameters
    ----------
    development
        The development part: pilots are drawn from training and judged on validation.
    pilots
        The generators and the seeds of their draws.
    measures
        The losses and queries.
    source
        The fitted source, for relative requirements; nothing where there are queries alone.

    Raises
    ------
    RegistryError
        There is no validation part, or it has no record of a group.
    DrawError
        A draw failed, or a file that a pilot may read changed meanwhile.
    """
    place = development.place
    validation = ValidationPart.of(development)
    if validation is None:
        raise RegistryError(
            "pilots are judged on development.validation, which is missing: write "
            'validation = { fraction = "0.25", seed = 1 } under [development] before the seal, or '
            "plan from assumed margins, proxyguard plan --require"
        )
    counting = [(m, validation.counting(m)) for m in measures]
    empty = [m.requirement.name for m, inside in counting if not inside.any()]
    if empty:
        raise RegistryError(
            f"pilots are judged on development.validation, which has no record of the group of "
            f"{empty}; name a group that it has, or leave the pilots out"
        )
    judged = [(m, inside) for m, inside in counting if m.loss is not None]
    asked = {m.query.name: m for m in measures if m.query is not None}  # both sides ask the same
    base = None if source is None else validation.predicted(source)
    by_pilot: JudgedPilots = {pilot.name: {} for pilot in pilots}

    def keeper(pilot: Drawn) -> Keep:
        kept = by_pilot[pilot.name]

        def keep(result: DrawResult) -> None:
            said = result.said
            if isinstance(said, Failed):
                raise DrawError(f"pilot {pilot.name!r}, seed {said.seed}: {said.error}")
            losses, answers = {}, {}
            if judged:
                fitted = fitted_from(said, load_model(result.model, "a pilot", ()))
                predicted = validation.predicted(fitted)
                losses = {
                    m.requirement.name: m.of_predictions(validation.y, predicted, base)[inside]
                    for m, inside in judged
                }
            if asked:
                table = read_table_bytes(result.release, f"pilot {pilot.name!r}, seed {said.seed}")
                release = CodedRecords(table)
                answers = {name: m.answer(release) for name, m in asked.items()}
            kept[said.seed] = JudgedPilot(losses=losses, answers=answers)
            place.progress(f"pilot {pilot.name}", len(kept), pilot.draws)

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
    return by_pilot


def _same_allowed(pilot: Drawn) -> BatchCheck:
    """Return a check that the files which a pilot may read stay what they are now."""
    began = allowed_files(pilot.allow)

    def check() -> None:
        changes = list(changed_settings(began, allowed_files(pilot.allow)))
        refuse_changes(f"pilot {pilot.name!r}", changes)

    return check


def _pilot_job(development: MemberDevelopment, pilot: Drawn) -> DrawJob:
    return draw_job(
        development,
        str(pilot.generator),
        pilot.options,
        name=pilot.name,
        prepare_seed=pilot.prepare_seed,
        allow=pilot.allow,
        may_ignore_seed=True,  # a pilot of a mechanism that has no randomness; none is certified
    )


def run_pilots(
    development: MemberDevelopment, declaration: Declaration, measures: Sequence[Measure],
    source: Source,
) -> dict[str, PilotFacts]:  # fmt: skip
    """Draw every registered pilot and return its mean losses on validation data."""
    judged = pilot_losses(development, declaration.pilot, measures, source.fitted)
    return {
        pilot.name: PilotFacts(
            generator=str(pilot.generator),
            options=pilot.options,
            allowed=allowed_files(pilot.allow) if pilot.allow else None,
            means={
                str(seed): {name: repr(float(np.mean(x))) for name, x in one.losses.items()}
                for seed, one in sorted(judged[pilot.name].items())
            },
        )
        for pilot in declaration.pilot
    }


def develop(development: MemberDevelopment, declaration: Declaration) -> Facts:
    """Fit the source, try reference policies, draw pilots: all that rules are resolved from.

    Parameters
    ----------
    development
        The development part of a member.
    declaration
        The declaration, which has the pilots.

    Returns
    -------
    Facts
        What `resolve_limits` and `resolve_roles` need, numbers as text.
    """
    member = development.member
    domains, moments = _domains(development), _moments(development)
    source = fit_source(development)
    if source is None:
        return NOTHING_LEARNED.model_copy(update={"domains": domains, "moments": moments})
    measures = loss_measures(member)
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
        moments=moments,
    )


def unsealed_facts(development: MemberDevelopment, fitted: Fitted | None) -> Facts:
    """Return what may be learned before the target is sealed: nothing is stored, no pilot drawn.

    ``fitted`` is the procedure on the training part, where no code of others is in it or judges it.
    """
    risks: dict[str, float] = {}
    if fitted is not None and not development.member.measuring_code:
        risks = validation_risks(development, loss_measures(development.member), fitted)
    return NOTHING_LEARNED.model_copy(
        update={
            "risks": {name: repr(risk) for name, risk in risks.items()},
            "domains": _domains(development),
            "moments": _moments(development),
        }
    )


def loss_measures(member: Member) -> list[Measure]:
    """Return the losses that development is judged by."""
    declared = [part for part in member.requirement if part.loss is not None]
    return [provisional_measure(requirement, member) for requirement in declared]


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
    if facts.moments != _moments(development):
        raise SealError(
            f"{where}: means and deviations are not those of the development part, which "
            "correlations are standardised by"
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
        for requirement in development.member.requirement
        if (query := requirement.query) is not None
        for columns in query.tables
        for column in columns
        if development.kinds.get(column) == "text" and column not in (query.groups or {})
    }
    if not wanted:
        return {}
    training = development.training()
    return {
        name: tuple(sorted({canonical_value(as_text(v)) for v in training[name]}))
        for name in sorted(wanted)
    }


def standardised_columns(member: Member, kinds: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns of correlations whose constants are those of training."""
    columns = {
        column
        for requirement in member.requirement
        if (query := requirement.query) is not None
        for column in set(query.correlation or ()) - set(query.standard or {})
        if kinds.get(column) == "number"
    }
    return tuple(sorted(columns))


def moments_of(training: pd.DataFrame, columns: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return mean and standard deviation of columns, of those that vary; gaps are left out.

    Any constants make a claim of their own, so that six digits are enough, and people can read
    them.
    """
    moments = {}
    for name in columns:
        numbers = training[name].to_numpy(dtype=np.float64)
        numbers = numbers[np.abs(numbers) <= WIDEST]  # gaps are not
        # Summed exactly: verify computes them again, on another machine.
        mean = fsum(numbers) / max(numbers.size, 1)
        deviation = sqrt(fsum((numbers - mean) ** 2) / max(numbers.size - 1, 1))
        if deviation >= NARROWEST:
            moments[name] = (_six_digits(mean), _six_digits(deviation))
    return moments


def _moments(development: MemberDevelopment) -> dict[str, tuple[str, str]]:
    columns = standardised_columns(development.member, development.kinds)
    return moments_of(development.training(), columns) if columns else {}


def _six_digits(number: float) -> str:
    return repr(float(f"{number:.6g}"))
