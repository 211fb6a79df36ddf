"""Draw some registered seeds again, and see whether releases and models are what they give.

The release is drawn in one process and compared here; the procedure is fitted in another, which
does not load the generator, on the release that was stored. So models are also fitted again
where nobody but the author can draw. Which seeds is the verifier's own choice at random, made
after everything was frozen, so that an author who exchanged one release in twenty is found by a
few draws with the odds of that. Neither process has a key or sees what was stored.

A release whose generator says that it was computed otherwise here (another device, version or
processor) may have other last bits, which training makes more of. It is then *not checked*, with
what can be said: how far apart the losses on development records are of what is learned from both.
Another release of like losses would look the same, so this confirms nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isclose
from pathlib import Path
from secrets import SystemRandom

import numpy as np

from proxyguard.adapters.kept import kept_files, kept_folders
from proxyguard.adapters.networks import DEVICE, TOGETHER
from proxyguard.adapters.privacy import privacy_of
from proxyguard.audit.apart import Redraw, RefitSource, ask, refit_apart
from proxyguard.audit.development import ValidationPart, fitted_from
from proxyguard.audit.folder import RELEASES
from proxyguard.audit.home import extra_versions, one_thread, software_versions
from proxyguard.audit.manifest import schema_of
from proxyguard.audit.rules import provisional_measure
from proxyguard.audit.verify import RegisteredAudit, Scope
from proxyguard.documents.ledger import Committed
from proxyguard.documents.registry import Registry, SourceModel
from proxyguard.documents.releases import DrawnRelease, GivenRelease, MadeDraw, ReleaseManifest
from proxyguard.draw.catalog import OF_PACKAGES, is_ours
from proxyguard.draw.messages import FittedAgain, Made, NotAgain, SourceAgain
from proxyguard.draw.protocol import Fitted, features, predict
from proxyguard.errors import ProxyGuardError, SealError, TableError, UntrustedCode
from proxyguard.losses.measure import Predicted
from proxyguard.models.stored import load_model
from proxyguard.registry.declaration import Member
from proxyguard.seal.ledger import Schedule
from proxyguard.seal.storage import sha256_plain
from proxyguard.tables.files import content_digest, table_bytes

# How far predictions and thresholds may lie apart that another processor fitted again.
CLOSE = 1e-6
# How far mean losses may lie apart, as a share of a loss's range, to be called alike, that were
# learned from releases of one seed, computed in two ways.
ALIKE = 0.02
# A table that differs in one cell is another release. What a fit chooses by name is exact too;
# thresholds and temperatures are numbers that another processor may round otherwise.
DRAWN = ("rows", "content", "members", "prepared_at_random")
FITTED = ("selected",)
NEAR = ("threshold", "temperature")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeatable:
    """One recorded draw, and what of it can be made again."""

    member: Member
    mechanism: str
    record: MadeDraw
    draws: bool  # its release, from its seed
    fits: bool  # its model, from its release

    @property
    def name(self) -> str:
        """What it is called where it is told."""
        what = "redraw" if self.draws else "refit"
        return f"{what}: {self.member.name}/{self.mechanism}, seed {self.record.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Again:
    """What of a draw was made again, or why it failed."""

    stages: Sequence[str] = ()
    rows: int | None = None
    content: str | None = None
    members: str | None = None
    prepared_at_random: bool | None = None
    fitted: FittedAgain | None = None
    failed: str | None = None
    computed: Mapping[str, str] = field(default_factory=dict)
    made: Made | None = None
    release: bytes = b""  # as it came out here, which need not be the one that is fitted


def redraw(audit: RegisteredAudit) -> None:
    """Make ``scope.redraw`` draws again, chosen at random among all that can be repeated.

    Parameters
    ----------
    audit
        A registered audit whose releases hold so far; what is found is added to its result.
    """
    result, scope = audit.result, audit.scope
    repeatable: list[Repeatable] = []
    recorded = 0
    for member in audit.registry.declaration.members:
        why_not_fitted = _not_fitted(member, scope)
        if why_not_fitted is not None:
            result.not_checked.append(f"redraw: {member.name}: {why_not_fitted}")
        fits = member.procedure is not None and why_not_fitted is None
        for mechanism, records in _recorded(audit, member):
            recorded += len(records)
            why = _not_drawn(audit, member, mechanism, records)
            if why is not None:
                result.not_checked.append(f"redraw: {member.name}/{mechanism}: {why}")
            repeatable += [
                Repeatable(
                    member=member, mechanism=mechanism, record=record, draws=why is None,
                    fits=fits and _has_model(record, drawn=why is None),
                )
                for record in records
            ]  # fmt: skip
        if fits and member.target.losses is None:
            # Whatever K is: every relative requirement and many limits rest on this one model.
            result.step("registry", f"refit: the source of {member.name}: the same again",
                 partial(_check_source, audit, member))  # fmt: skip
    # Before the choice: what cannot be repeated must not use up one of the K.
    repeatable = [draw for draw in repeatable if draw.draws or draw.fits]
    count = min(scope.redraw, len(repeatable))
    unsettled = 0
    # Of the system and of no seed: an author who knew the choice would exchange the other draws.
    for chosen in SystemRandom().sample(repeatable, count):
        # What it is told as depends on what could be compared.
        left = len(result.not_checked)
        told = result.step(RELEASES, chosen.name, partial(_check, audit, chosen), told=False)
        if told is not None:
            result.checked.append(told)
        unsettled += len(result.not_checked) > left
    # Said, because (1 - q)^K holds for as many as were made again and could be compared.
    compared = count - unsettled
    if compared == 0 or compared < min(scope.redraw, recorded):
        result.not_checked.append(
            f"redraw: {compared} of the {scope.redraw} seeds that were asked for could be drawn "
            "again and compared"
        )


def _has_model(draw: MadeDraw, *, drawn: bool) -> bool:
    """Return whether a draw's fit can be made again: it has a model, or failed and is drawn."""
    # A failure may have been the fit's, and without a stored release only a new draw can tell.
    return draw.model is not None if isinstance(draw, DrawnRelease) else drawn


def _recorded(audit: RegisteredAudit, member: Member) -> Iterator[tuple[str, list[MadeDraw]]]:
    """Yield the records of every mechanism; tables and candidates from outside have no seed."""
    names = [mechanism.name for mechanism in member.mechanism]
    ledger = audit.journal.ledger
    if ledger.schedule is Schedule.SEQUENTIAL:
        records = [entry.body.record for entry in ledger.find(Committed)]
        yield from ((name, records) for name in names)
        return
    manifest = audit.folder.document(ReleaseManifest, RELEASES)
    for name in names:
        draws = manifest.draws(member.name, name)
        yield name, [draw for draw in draws if not isinstance(draw, GivenRelease)]


def _not_drawn(
    audit: RegisteredAudit, member: Member, mechanism: str, records: Sequence[MadeDraw]
) -> str | None:
    """Return why a mechanism's seeds are not drawn again, or nothing where they can be."""
    registered = audit.registry.members[member.name].mechanisms[mechanism]
    generator = registered.generator
    if generator == "losses":
        return "its losses were computed elsewhere, from no seed"
    # Before the question whose code it is: no permission makes this noise repeatable.
    private = privacy_of(registered.describe)
    if private is not None and not private.seeded:
        if not kept_folders(generator, registered.options, Path()):
            return "not repeatable: its noise comes from the system and takes no seed"
        # The noise stands in what was kept, and releases follow from that and their seeds.
        return _not_kept(audit.scope, generator, registered.options, records)
    # The code of a package is run like any that a folder names.
    ours = is_ours(generator) and generator not in OF_PACKAGES
    if not audit.scope.run_named_code and not ours:
        return "it runs code that is not ours; draw it again with --run-named-code"
    return None


def _not_kept(
    scope: Scope, generator: str, options: Mapping[str, object], records: Sequence[MadeDraw]
) -> str | None:
    """Return why the private fit that draws rest on is not at hand, or nothing where it is."""
    folders = [folder for root in scope.data for folder in kept_folders(generator, options, root)]
    # The first that is there, as draws look for it.
    folder = next((folder for folder in folders if Path(folder).is_dir()), None)
    files = () if folder is None else kept_files(folder)
    if not files or not all(Path(path).is_file() and os.access(path, os.R_OK) for path in files):
        (name,) = kept_folders(generator, options, Path())
        missing = " and ".join(Path(path).name for path in kept_files(name))
        return (
            f"its noise takes no seed, and the private fit that was kept is not at hand: {missing} "
            f"of {name!r} are not to be read in a data folder; name theirs with --data"
        )
    tables = sha256_plain(Path(files[0]))
    rests_on = {digest for draw in records for digest in (draw.prepared_from or {}).values()}
    if rests_on != {tables}:
        recorded = ", ".join(f"{digest[:16]}..." for digest in sorted(rests_on)) or "none"
        return (
            f"its noise takes no seed, and the private fit at hand is another than the one that "
            f"draws rest on: recorded is {recorded}, {files[0]} has {tables[:16]}...; put that one "
            "back"
        )
    return None


def _not_fitted(member: Member, scope: Scope) -> str | None:
    """Return why a procedure is not fitted again, or nothing where there is none or it can be."""
    library = () if member.procedure is None else member.procedure.library
    if scope.run_named_code or all(is_ours(name, "procedure") for name in library):
        return None
    return "its procedure runs code that is not ours; fit it again with --run-named-code"


def _check(audit: RegisteredAudit, chosen: Repeatable) -> str:
    """Make one draw again and compare; return in words what was found to be the same.

    Another version of a library excuses a difference, and so does another device that the
    generator itself says it was computed on here: the draw is then neither false nor checked.
    """
    again = _made_again(audit, chosen)
    draw = chosen.record
    different = list(_differences(chosen, again))
    elsewhere = _computed_otherwise(draw.computed or {}, again.computed)
    # Bits alone may differ: rows, members and stages are the same on every device.
    other_bits = bool(elsewhere) and "content" in different
    if other_bits:
        different.remove("content")
    # Models last: to load and to ask two of them costs more than all that was compared so far.
    if not different and again.fitted is not None and isinstance(draw, DrawnRelease):
        different += _model_differences(audit, chosen.member, draw, again.fitted)
    if not different:
        if other_bits and isinstance(draw, DrawnRelease):
            raise UntrustedCode(
                f"computed otherwise here ({elsewhere}), its content is another. "
                f"{_what_losses_tell(audit, chosen, draw, again)}",
            )
        return f"{chosen.name}: the same again"
    made = "drawn again" if chosen.draws else "fitted again"
    words = f"{chosen.name}: {made}, it has another {' and another '.join(different)}"
    other = _other_software(audit.registry, chosen)
    registered = audit.registry.members[chosen.member.name].mechanisms[chosen.mechanism]
    other = other or audit.result.moved.get(registered.generator, "")
    if draw.status != "drawn":
        other = other or elsewhere  # a network that ended in no number may not do so elsewhere
    # None of these shows a lie: honest draws, too, come out otherwise, or not at all, elsewhere.
    if other or draw.status == "timeout" or again.failed is not None:
        why = other or again.failed or "the recorded draw ran out of time"
        raise UntrustedCode(f"{words}; here it could not be repeated as it was: {why}")
    raise SealError(words)


def _computed_otherwise(then: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return in words what the last bits of two draws depend on and is not the same for both.

    Of what is said here alone: what only the record says is its author's, and excuses nothing.
    """
    facts = [name for name in here if then.get(name) != here[name]]
    # A batch changes no bit on a CPU. On a GPU it does, and a seed is drawn again alone.
    if then.get(DEVICE) == here.get(DEVICE) == "cpu":
        facts = [name for name in facts if name != TOGETHER]
    return "; ".join(f"{name} {then.get(name, 'unsaid')} then, {here[name]} here" for name in facts)


def _what_losses_tell(
    audit: RegisteredAudit, chosen: Repeatable, draw: DrawnRelease, again: _Again
) -> str:
    """Say how near a release of other bits is by what is learned from it, and what that leaves."""
    member = chosen.member
    if not chosen.fits or again.made is None:
        return "Nothing is learned from it to compare"
    learned = refit_apart(
        audit.folder, member.name, again.made, again.release, timeout=audit.scope.timeout
    )
    if isinstance(learned, NotAgain):
        return f"Nothing could be learned from it here: {learned.error}"
    apart = _losses_apart(audit, member, (draw, audit.folder.store.get(str(draw.model))),
                          (learned, learned.model))  # fmt: skip
    if not apart:
        return "No loss of ours is declared to compare"
    name = max(apart, key=lambda loss: apart[loss])
    told = (
        f"Of what is learned from both releases the mean losses on development were compared: that "
        f"of {name!r} lies {apart[name]:.4f} of its range apart"
    )
    if apart[name] > ALIKE:
        # No finding: training leads honest draws far away, too.
        return f"{told}, more than {ALIKE:g}: whether it is what the seed gave is open"
    return (
        f"{told}, at most {ALIKE:g}. Another release with like losses would pass this too, and "
        "what the two expose is not compared: draw it again where it was computed, in a batch of "
        "as many if that was a GPU"
    )


# What was chosen in a fit, and its model.
LearnedModel = tuple[DrawnRelease | FittedAgain, bytes]


def _losses_apart(
    audit: RegisteredAudit, member: Member, first: LearnedModel, second: LearnedModel
) -> dict[str, float]:
    """Return how far two models lie apart in each mean loss on development, of the loss's range."""
    development = audit.development(member)
    # On records that lie in the folder: those of the target would take its key.
    records = ValidationPart(development, development.training())
    # A loss of others would run its code here.
    measures = [
        provisional_measure(part, member)
        for part in member.requirement
        if part.loss is not None and ":" not in part.loss
    ]
    fits = [fitted_from(chosen, _loaded(audit, model)) for chosen, model in (first, second)]
    then, here = (records.mean_losses(measures, _predicted(records, fit)) for fit in fits)
    apart = {}
    for measure in measures:
        name = measure.requirement.name
        if measure.loss is not None and name in then:
            loss = measure.loss(fits[0].threshold)
            apart[name] = abs(then[name] - here[name]) / (loss.high - loss.low)
    return apart


def _loaded(audit: RegisteredAudit, model: bytes) -> object:
    # The verifier's list: what the declaration trusts is its author's word.
    return load_model(model, "a model", audit.scope.types)


def _predicted(records: ValidationPart, fitted: Fitted) -> Predicted:
    try:  # the procedure may have answered anything
        return records.predicted(fitted)
    except (ProxyGuardError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UntrustedCode(f"what was fitted again cannot predict: {error}") from None


def _check_source(audit: RegisteredAudit, member: Member) -> None:
    """Fit the source again: a poor one would make any release look as good as it."""
    source = audit.registry.members[member.name].source
    if source is None:
        raise SealError(f"{member.name}: no source procedure is registered")
    again = ask(audit.folder, RefitSource(member=member.name), timeout=audit.scope.timeout)
    name = f"the source of {member.name}"
    if isinstance(again, NotAgain):
        raise UntrustedCode(f"{name}: it could not be fitted again here: {again.error}")
    different = [key for key in FITTED if getattr(source, key) != getattr(again, key)]
    different += [key for key in NEAR if not _near(getattr(source, key), getattr(again, key))]
    if not different:
        different += _model_differences(audit, member, source, again)
    if not different:
        return
    words = (
        f"{name}: fitted again to the training part, it has another "
        f"{' and another '.join(different)}"
    )
    why = _other_software(audit.registry)
    if why:
        raise UntrustedCode(f"{words}; here it could not be repeated as it was: {why}")
    raise SealError(words)


def _made_again(audit: RegisteredAudit, chosen: Repeatable) -> _Again:
    """Return what of a draw was made again, as far as it can be."""
    folder, timeout = audit.folder, audit.scope.timeout
    draw, member = chosen.record, chosen.member
    stored = folder.store.get(draw.release) if isinstance(draw, DrawnRelease) else None
    stages = list(draw.stages) if isinstance(draw, DrawnRelease) else []
    made = Made(seed=draw.seed, status="made", stages=stages)
    again = _Again(stages=stages)
    if chosen.draws:
        job = Redraw(
            member=member.name,
            mechanism=chosen.mechanism,
            seed=draw.seed,
            data=tuple(str(path.resolve()) for path in audit.scope.data),
        )
        drawn = ask(folder, job, timeout=timeout)
        if isinstance(drawn, NotAgain):
            return _Again(failed=drawn.error)
        sealed = audit.journal.ledger.sealed.members[member.name]
        schema = schema_of(audit.registry, member, chosen.mechanism, sealed)
        try:  # the generator may have given anything
            release = schema.received(drawn.table)
        except (ValueError, LookupError, TypeError, TableError) as error:
            raise UntrustedCode(f"{chosen.name}: it gave no table: {error}") from None
        made = Made(seed=draw.seed, status="made", stages=drawn.stages, files=drawn.files)
        # Which records these are is found out here, where the generator can say nothing.
        again = _Again(
            stages=drawn.stages,
            rows=len(release),
            content=content_digest(release),
            members=drawn.members and hashlib.sha256(bytes.fromhex(drawn.members)).hexdigest(),
            prepared_at_random=drawn.prepared_at_random,
            computed=drawn.computed,
            made=made,
            release=table_bytes(release),
        )
        # The frozen release where there is one: its model is the one that was audited.
        stored = again.release if stored is None else stored
    if chosen.fits and stored is not None:
        fitted = refit_apart(folder, member.name, made, stored, timeout=timeout)
        if isinstance(fitted, NotAgain):
            return replace(again, failed=fitted.error)
        # Records and rows are those of the release that was drawn again, not of the stored one.
        again = replace(again, stages=fitted.stages, fitted=fitted)
    return again


def _differences(chosen: Repeatable, again: _Again) -> Iterator[str]:
    """Yield what a draw has otherwise than it was recorded, apart from its model."""
    draw = chosen.record
    status = "drawn" if again.failed is None else "failed"
    if draw.status != status:
        yield f"status ({draw.status}, now {status})"
        return
    # Failed then and now: the words of an error may differ between two machines.
    if not isinstance(draw, DrawnRelease):
        return
    for key in DRAWN if chosen.draws else ():
        if getattr(draw, key) != getattr(again, key):
            yield key.replace("_", " ")
    stages = list(draw.stages)
    if chosen.member.procedure is not None and not chosen.fits:
        stages = stages[: len(again.stages)]  # the procedure's come after the generator's
    if stages != list(again.stages):
        yield "stages"
    if again.fitted is not None:
        fitted = again.fitted
        yield from (key for key in FITTED if getattr(draw, key) != getattr(fitted, key))
        yield from (key for key in NEAR if not _near(getattr(draw, key), getattr(fitted, key)))


def _near(first: str | None, second: str | None) -> bool:
    """Return whether two recorded numbers differ by another processor's arithmetic at most."""
    if first is None or second is None:
        return first is second
    return isclose(float(first), float(second), rel_tol=CLOSE, abs_tol=CLOSE)


def _model_differences(
    audit: RegisteredAudit,
    member: Member,
    draw: DrawnRelease | SourceModel,
    again: FittedAgain | SourceAgain,
) -> Iterator[str]:
    """Compare two models by their bytes, or else by what they predict for development."""
    address = str(draw.model)
    # Other bytes can still be the same model, rounded by another processor.
    if hashlib.sha256(again.model).hexdigest() == address:
        return
    # The verifier's list for both: what the declaration trusts is its author's word.
    types = audit.scope.types
    development = audit.development(member)
    # On records that lie in the folder: those of the target would take its key.
    x = features(development.training(), development.features)
    with one_thread():
        stored = load_model(audit.folder.store.get(address), "a model", types)
        try:
            first = predict(fitted_from(draw, stored), x, development.outcome)
        except (ValueError, TypeError, ArithmeticError):  # it is of other classes or columns
            yield "model"
            return
        try:  # the procedure may have answered anything
            given = load_model(again.model, "the model that was fitted again", types)
            second = predict(fitted_from(draw, given), x, development.outcome)
        except (ProxyGuardError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise UntrustedCode(f"what was fitted again cannot predict: {error}") from None
    if not np.allclose(first, second, rtol=CLOSE, atol=CLOSE):
        yield "model"


def _other_software(registry: Registry, chosen: Repeatable | None = None) -> str:
    """Return which registered versions are not those here; they may draw or fit otherwise.

    Of what an extra brings where this draw needs it: the others are drawn without it.
    """
    made, here = registry.software, software_versions()
    if chosen is not None and chosen.draws:
        mechanism = registry.members[chosen.member.name].drawn(chosen.mechanism)
        here |= extra_versions([] if mechanism is None else [mechanism.generator])
    other = [f"{name} {made.get(name)} then, {here[name]} here" for name in here
             if made.get(name) != here[name]]  # fmt: skip
    return "; ".join(other)
