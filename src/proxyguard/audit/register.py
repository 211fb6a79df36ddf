"""Resolve every rule, check that the claim is covered, and freeze it (the audit's second step).

`register` reads the declaration and the development part, and writes ``registry/0.json`` with the
text of the declaration beside it. `amend` writes the next registry in the open, while no outcome
has been seen. `build_registry` resolves for both: limits and roles by `rules`, mechanisms by what
their generators say of themselves and by the digests of their code and files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from proxyguard.adapters.kept import kept_folders
from proxyguard.adapters.privacy import privacy_lines, privacy_of
from proxyguard.audit.development import NOTHING_LEARNED, MemberDevelopment, Workplace, develop
from proxyguard.audit.folder import DECLARATION, AuditFolder, registry_name, snapshot_name
from proxyguard.audit.home import Home, extra_versions
from proxyguard.audit.jobs import check_source, forbidden_paths
from proxyguard.audit.manifest import faults_of, named_delivery, release_schema
from proxyguard.audit.members import MemberCounts
from proxyguard.audit.reserve import check_lineage
from proxyguard.audit.rules import (
    measures_of,
    planned_records,
    resolve_limits,
    resolve_roles,
    schedule_of,
)
from proxyguard.audit.seal import check_sealed_part, sealed_anew
from proxyguard.documents.document import FORMAT
from proxyguard.documents.ledger import Amended, Developed, Registered
from proxyguard.documents.registry import (
    DrawnMechanism,
    ExcludedDraw,
    Facts,
    GivenMechanism,
    NoFacts,
    NoOrigin,
    RegisteredMember,
    Registry,
    ResolvedRequirement,
    StandIn,
)
from proxyguard.draw.catalog import is_random, path_origin
from proxyguard.draw.job import Survey
from proxyguard.draw.sources import allowed_files
from proxyguard.errors import LossMismatch, RegistryError, StageError, UnsupportedDesign
from proxyguard.losses.measure import Measure
from proxyguard.losses.records import check_size
from proxyguard.modes.catalog import NO_MECHANISM
from proxyguard.modes.claim import Claim
from proxyguard.printable import found
from proxyguard.registry.budget import family_shares
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.design import Design
from proxyguard.registry.fields import is_day, number
from proxyguard.registry.parts import MechanismPart, Secondary, rounding_objections
from proxyguard.registry.requirement import Requirement
from proxyguard.seal.journal import Journal, writing
from proxyguard.seal.ledger import Stage
from proxyguard.seal.storage import now
from proxyguard.tables.columns import notation_of

# Members, and calibration rows, on which an attack by import path is tried.
TRIED = 500


def register(workplace: Workplace, home: Home, software: dict[str, str]) -> None:
    """Register the declaration; after this only an amendment can change it.

    Parameters
    ----------
    workplace
        What the command works with.
    home
        The home, whose key signs and whose lineage store is asked once more.
    software
        Versions to record.

    Raises
    ------
    StageError
        The target is not sealed, or a claim is registered already.
    RegistryError
        A rule resolves to nothing, or a generator cannot be registered.
    UnsupportedDesign
        The claim is not covered on the declared design.
    """
    folder = workplace.folder
    text, declaration = folder.declaration_text(), folder.declaration()
    key = home.signing_key()
    with writing(folder.path) as journal:
        if not journal.ledger.has(Stage.SEALED):
            raise StageError("registered: the target must be sealed first, run proxyguard seal")
        if journal.ledger.has(Stage.REGISTERED):
            raise StageError(
                "registered: recorded already; change it with proxyguard amend --reason WHY"
            )
        # Asked again since the seal: other audits may have opened these records meanwhile.
        overlaps = check_lineage(folder, journal, home)
        # Facts before the claim: the ledger shows what the author knew when the claim was made.
        registry = build_registry(workplace, declaration, journal, software)
        developed = Developed(
            members={name: member.facts for name, member in registry.members.items()},
            files=_model_files(folder, registry),
            time=now(),
        )
        steps = journal.ledger.find(Developed)
        # A kill after this entry leaves it there: the same facts are not recorded twice.
        if not steps or steps[-1].body.model_copy(update={"time": developed.time}) != developed:
            journal.record(developed, key)
        # Files before the entry: a kill in between leaves some that nothing vouches for, and never
        # an entry without its files.
        registered = Registered(
            declaration=registry.digest,
            path=schedule_of(declaration),
            lineage=tuple(overlaps),
            files=write_registry(folder, 0, registry, text),
            time=now(),
        )
        journal.record(registered, key)


def build_registry(
    workplace: Workplace, declaration: Declaration, journal: Journal, software: dict[str, str],
    drawn: Registry | None = None,
) -> Registry:  # fmt: skip
    """Return the registry that a declaration resolves to, with the facts of development.

    Parameters
    ----------
    workplace
        What the command works with.
    declaration
        The declaration as it stands now.
    journal
        The ledger, which has the seal.
    software
        Versions to record.
    drawn
        The registry that releases were drawn for, if they were.
    """
    sealed = journal.ledger.sealed
    # Target and division are those of the seal: an edit since would be about other records.
    check_sealed_part(workplace.folder, declaration, sealed)
    members = {}
    for member in declaration.members:
        development = MemberDevelopment(workplace, member, sealed.members[member.name])
        given = member.target.losses is not None
        if given:
            given_losses = development.sealed
            check_given(member, given_losses.requirements or (), given_losses.releases or ())
        check_queries(member, development.kinds)
        # Once more since the seal: requirements may name other groups, attacks and columns now.
        counts = MemberCounts.sealed(development)
        if counts is not None:
            counts.require(development.members(), development.kinds)
        facts = NOTHING_LEARNED if given else develop(development, declaration)
        n = planned_records(member, development.sealed.records)
        requirements = resolve_limits(member, facts, declaration.claim, n)
        learner = None if given else development.learner()
        procedure = None
        if learner is not None:
            procedure = learner.describe()
        before = None if drawn is None else drawn.members.get(member.name)
        mechanisms = resolve_mechanisms(
            declaration, development, requirements, facts,
            {} if before is None else before.mechanisms,
        )  # fmt: skip
        stand_ins = {} if before is None else before.stand_ins
        members[member.name] = RegisteredMember(
            requirements=requirements,
            mechanisms=mechanisms,
            # What was drawn from stays registered, whatever became of the files since.
            stand_ins=stand_ins or resolve_stand_ins(development),
            losses={path: path_origin(path) for path in member.measuring_code},
            procedure=procedure,
            features=() if learner is None else tuple(development.features),
            source=facts.source,
            facts=NoFacts() if given else facts,
            commitment=development.sealed.commitment,
        )
        check_sizes(member, development.sealed.records)
        _try_attacks(development)
        _check_guesses(development)
        measures = measures_of(member, requirements)
        for spec in declaration.secondary:
            check_secondary(spec, measures)
        check_claim(declaration, [m.requirement for m in measures], member.name)
    generators = [
        mechanism.generator
        for member in members.values()
        for mechanism in member.mechanisms.values()
        if isinstance(mechanism, DrawnMechanism)
    ]
    registry = Registry(
        format=FORMAT, declaration=declaration, members=members,
        software=software | extra_versions(generators),
    )  # fmt: skip
    # What cannot be read back is refused before it is recorded.
    return Registry.read(registry.to_bytes(), "the registry")


def check_claim(declaration: Declaration, requirements: Sequence[Requirement], name: str) -> None:
    """Raise with every reason why the claim is not covered on this member's design."""
    member = declaration.member(name)
    reasons = claim_reasons(declaration, member.target.sampling_design, requirements)
    if reasons:
        raise UnsupportedDesign("; ".join(dict.fromkeys(reasons)))


def claim_reasons(
    declaration: Declaration, design: Design, requirements: Sequence[Requirement]
) -> list[str]:
    """Return every reason why a claim is not covered; empty if it is."""
    claim, rounded = declaration.claim, declaration.disclosure is not None
    rounding = rounding_objections(design, requirements) if rounded else []
    rounding += _share_reasons(declaration)
    if claim.after_opening:
        plain = Claim.of({"mode": NO_MECHANISM, "beta": None, "test": claim.test})
        later = _later_reasons(declaration, design)
        return [*plain.supports(design, requirements), *later, *rounding]
    return [*claim.to_claim().supports(design, requirements), *rounding]


def _share_reasons(declaration: Declaration) -> list[str]:
    """Return why the family's shares cannot be spent; after the opening it would be too late."""
    if declaration.claim.level != "mechanism":
        return []
    names = [drawn.name for member in declaration.members for drawn in member.mechanism]
    try:
        family_shares(names, declaration.claim.shares)
    except RegistryError as error:
        return [str(error)]
    return []


def _later_reasons(declaration: Declaration, design: Design) -> list[str]:
    """Return why an audit that draws after opening cannot be honoured or cannot succeed."""
    claim = declaration.claim
    plan = claim.sequential_plan().objections() if claim.sequential else []
    return [*claim.kind.target_objections(design), *plan]


def check_sizes(member: Member, pool: int) -> None:
    """See that the target has the records that its design and its draw need."""
    n = planned_records(member, pool)
    draw = member.target.draw
    if draw is not None and not draw.replace and n > pool:
        raise RegistryError(f"{n} records cannot be drawn without replacement from {pool}")
    try:
        check_size(n, member.target.sampling_design)
    except LossMismatch as error:
        raise RegistryError(f"{member.name}: {error}") from None


def write_registry(
    folder: AuditFolder, index: int, registry: Registry, text: str
) -> dict[str, str]:
    """Write a registry and the declaration's own text; return the files and their digests."""
    # The text that was resolved, not the file as it may be by now.
    content = text.encode()
    return {
        registry_name(index): folder.put(registry_name(index), registry),
        snapshot_name(index): folder.write(snapshot_name(index), content),
        DECLARATION: folder.sha256(DECLARATION),
    }


def check_queries(member: Member, kinds: Mapping[str, str]) -> None:
    """See that means and bins are of numbers, groups of texts, and that all columns are there."""
    # A requirement may be amended after the seal, which withheld what nothing asked for then.
    absent = sorted({*member.excluded} - {*kinds} - member.withheld)
    if absent:
        raise RegistryError(
            f"the requirements ask for {', '.join(map(repr, absent))}, excluded when the target "
            "was sealed and so in no file of development; ask for it before the seal"
        )
    for requirement in member.requirement:
        query, name = requirement.query, requirement.name
        if query is None:
            continue
        for column in sorted(query.averaged):
            if kinds.get(column) != "number":
                asked = "mean" if query.correlation is None else "correlation"
                raise RegistryError(f"{name}: the {asked} of {column!r}, which holds no numbers")
        for what, columns, kind in (
            ("bins", query.bins, "number"),
            ("groups", query.groups, "text"),
        ):
            wrong = sorted(c for c in columns or () if kinds.get(c) != kind)
            if wrong:
                raise RegistryError(f"{name}: {what} of {wrong}, which hold no {kind}s")
        for column, ends in (query.bins or {}).items():
            part = member.columns.get(column)
            dates = None if part is None or part.kind != "date" else notation_of(part)
            if any(map(is_day, ends)) and (dates is None or not dates.has_days):
                raise RegistryError(f"{name}: bins of {column!r} are dates, which it has none of")


def _try_attacks(development: MemberDevelopment) -> None:
    """Try on open rows what attacks need, and those by import path: the opening stops for nothing.

    After it rows that cannot be told apart would be an error, and a refused attack the worst.
    """
    member = development.member
    if not member.exposures:
        return
    attacks = {
        name: member.attacking.settings(name)
        for part in member.exposures
        for name in part.attacks or ()
    }
    # Here: whoever asks for no exposure loads nothing of it.
    from proxyguard.exposure.representation import Representation, Rows

    frame, calibration = development.reference(), development.calibration()
    fitted = Representation.fit(frame, development.attacked, member.attacking.components)
    if not any(settings.by_path for settings in attacks.values()):
        return
    from proxyguard.exposure.attacks import try_attacks
    from proxyguard.exposure.named import Apart

    members = Rows(development.members().head(TRIED), fitted)
    others = [] if calibration is None else [Rows(calibration.head(TRIED), fitted)]
    apart = Apart(forbidden=forbidden_paths(development.place, member))
    try_attacks(attacks, Rows(frame, fitted), [members, *others], apart)


def _check_guesses(development: MemberDevelopment) -> None:
    """Refuse more guesses than there are training rows, before anything is drawn."""
    rows = development.sealed.development.get("training", 0)
    for part in development.member.epsilons:
        if part.guesses > rows:
            raise RegistryError(
                f"exposure.epsilon makes {part.guesses} guesses about each draw, and there are "
                f"{rows} training rows: make at most {rows - rows % 2}"
            )


def check_secondary(spec: Secondary, measures: Sequence[Measure]) -> None:
    """See that the limits of a secondary specification can be limits at all."""
    for measure in measures:
        if measure.part in spec.limits:
            # Made and thrown away: a requirement refuses a limit beyond the bounds of its loss.
            replace(measure.requirement, limit=number(spec.limits[measure.part]))


def check_given(member: Member, requirements: Sequence[str], releases: Sequence[str]) -> None:
    """See that a loss file has the declared requirements and as many releases as draws."""
    if member.loss_names != tuple(requirements):
        raise RegistryError(
            f"the losses are about {', '.join(map(found, requirements))}, declared are "
            f"{', '.join(map(found, member.loss_names))}; call them alike, in one order"
        )
    declared = member.draws
    if declared != len(releases):
        raise RegistryError(
            f"the losses have {len(releases)} releases, declared are {declared} draws; write "
            f"draws = {len(releases)}"
        )


def _model_files(folder: AuditFolder, registry: Registry) -> dict[str, str]:
    """Return the stored source procedures, which are named by their digest."""
    addresses = [m.source.model for m in registry.members.values() if m.source is not None]
    return {folder.store.name(address): address for address in addresses}


def amend(
    workplace: Workplace,
    home: Home,
    software: dict[str, str],
    *,
    reason: str,
    exclude: tuple[tuple[str, int], ...] = (),
) -> None:
    """Register `audit.toml` as it stands now in place of what was registered before.

    Parameters
    ----------
    workplace
        What the command works with.
    home
        The home, whose key signs.
    software
        Versions to record.
    reason
        Why, for the reader of the ledger.
    exclude
        Draws, by mechanism and seed, that leave the claim before any outcome is seen; they are
        drawn and kept as descriptive. It is the whole list: what an earlier amendment excluded
        and this one does not name is part of the claim again, and the ledger says so.

    Raises
    ------
    StageError
        Nothing is registered, the target was opened, or what releases were drawn for changes.
    RegistryError
        There is no reason, a draw is not a registered one, or none of a mechanism would be left.
    """
    folder = workplace.folder
    text, declaration = folder.declaration_text(), folder.declaration()
    if not reason.strip():
        raise RegistryError("an amendment says why; give a reason")
    key = home.signing_key()
    with writing(folder.path) as journal:
        if not journal.ledger.has(Stage.REGISTERED):
            raise StageError("amended: the claim must be registered first")
        if journal.ledger.has(Stage.OPENED):
            raise StageError("amended: the target has been opened; record a deviation instead")
        # The lineage store is told before the ledger: a kill between the two leaves this trace.
        sealed = journal.ledger.sealed.members
        if any(home.lineage.was_opened(member.commitment) for member in sealed.values()):
            raise StageError(
                "amended: the opening of this target has begun and was interrupted; run open"
            )
        before = folder.registry(journal)
        if schedule_of(declaration) is not journal.ledger.schedule:
            raise RegistryError("an amendment cannot turn a fixed audit into a sequential one")
        check_lineage(folder, journal, home)
        drawn = before if journal.ledger.has(Stage.DRAWN) else None
        registry = build_registry(workplace, declaration, journal, software, drawn)
        # The whole list in one order, so that one set of exclusions has one digest.
        registry = registry.model_copy(update={"excluded": _draws(set(exclude))})
        check_excluded(registry)
        # The author could look at the releases: nothing that made them may change under them.
        if journal.ledger.has(Stage.DRAWN) and drawn_part(registry) != drawn_part(before):
            raise StageError(
                "amended: the releases are drawn; only limits, claim and excluded draws can change"
            )
        index = len(journal.ledger.claims)
        amended = Amended(
            declaration=registry.digest,
            supersedes=before.digest,
            reason=reason,
            void=void_exclusions(before, registry),
            # Counted now, also those that were not kept: the author could look at them.
            pending=folder.begun_draws(),
            files=write_registry(folder, index, registry, text),
            time=now(),
        )
        journal.record(amended, key)


def void_exclusions(before: Registry, after: Registry) -> tuple[ExcludedDraw, ...]:
    """Return the exclusions that the amendment from one registry to the next did not repeat."""
    return _draws(before.left_out - after.left_out)


def _draws(draws: Set[tuple[str, int]]) -> tuple[ExcludedDraw, ...]:
    return tuple(ExcludedDraw(mechanism=name, seed=seed) for name, seed in sorted(draws))


def check_excluded(registry: Registry) -> None:
    """Raise unless an amendment excludes registered draws, each once, and leaves some of each."""
    if registry.left_out and registry.declaration.claim.after_opening:
        raise RegistryError(
            "an audit that draws after opening takes its seeds in their order and leaves none out; "
            "declare other seeds instead"
        )
    if registry.excluded != _draws(registry.left_out):
        raise RegistryError("an amendment lists the draws that it excludes, in order, each once")
    seeds = registry.declaration.registered_draws
    unknown = registry.left_out - seeds
    if unknown:
        named = ", ".join(f"{name}:{seed}" for name, seed in sorted(unknown))
        raise RegistryError(f"no registered draws: {named}; registered are the seeds of audit.toml")
    left = {name for name, _ in seeds - registry.left_out}
    empty = {name for name, _ in seeds} - left
    if empty:
        raise RegistryError(
            f"no draw of {', '.join(sorted(empty))} would be left; drop the mechanism instead"
        )


def drawn_part(registry: Registry) -> object:
    """Return what the drawn releases depend on."""
    declaration = registry.declaration
    # Who was trained on is open once releases are: an attack that was chosen later could know it.
    guessing = [m.attacking for m in declaration.members if m.epsilons]
    return (
        declaration.mechanism, declaration.release, declaration.procedure, guessing,
        [(c.name, c.mechanism, c.release, c.procedure) for c in declaration.candidate],
        {name: (m.mechanisms, m.stand_ins, m.procedure, m.source)
         for name, m in registry.members.items()},
    )  # fmt: skip


def resolve_stand_ins(development: MemberDevelopment) -> dict[str, StandIn]:
    """Return the file of every named release as it is now.

    Raises
    ------
    RegistryError
        Some are no releases: until their digests are registered they can still be mended.
    """
    member, faults, stand_ins = development.member, [], {}
    for release in member.release:
        delivery = named_delivery(development.place.data, member, release, development.kinds)
        faults += [fault.words for fault in faults_of(delivery, member, development.kinds)]
        # Its bytes alone: which records they are is found out where the file is drawn.
        file = delivery.file.registered().model_copy(update={"content": None, "problem": None})
        stand_ins[release.name] = StandIn(files=(file,))
    if faults:
        raise RegistryError(
            f"{'; '.join(faults)}. Nothing is registered: mend the files; to read them otherwise, "
            f"{sealed_anew(development.place.folder)}"
        )
    return stand_ins


def random_objection(mechanism: MechanismPart, generator: str | None) -> str | None:
    """Return why a mechanism cannot be declared to have no randomness, if it is.

    The word switches off the search for copies: eight copies of one draw would count as eight.
    """
    if not mechanism.deterministic or not is_random(str(generator)):
        return None
    return (
        f"{mechanism.name}: {generator} takes its seed and is random, so that it cannot be "
        "declared with deterministic = true; take that out"
    )


def resolve_mechanisms(
    declaration: Declaration, development: MemberDevelopment,
    requirements: Sequence[ResolvedRequirement], facts: Facts,
    drawn: Mapping[str, DrawnMechanism | GivenMechanism],
) -> dict[str, DrawnMechanism | GivenMechanism]:  # fmt: skip
    """Return each mechanism's generator, options and description; roles by their rule.

    Parameters
    ----------
    declaration
        The declaration, which has the pilots and the rule of their roles.
    development
        The development part of the member.
    requirements, facts
        What roles follow from.
    drawn
        The mechanisms as they were when they were drawn. What draws depend on is then not looked
        at again: it says what made the releases, whatever became of it since.
    """
    roles = resolve_roles(declaration, requirements, facts)
    place, member = development.place, development.member
    resolved: dict[str, DrawnMechanism | GivenMechanism] = {}
    for mechanism in member.mechanism:
        pilot = roles.get(mechanism.role or "")
        drawn_as = declaration.drawn_as(mechanism, pilot)
        generator, options = drawn_as.generator, drawn_as.options
        # Here too, where the generator of a role is known: `check` sees the declared ones.
        objection = random_objection(mechanism, generator)
        if objection is not None:
            raise RegistryError(objection)
        if generator == "losses":
            resolved[mechanism.name] = GivenMechanism(
                generator="losses", options={}, describe={}, origin=NoOrigin(), pilot=None
            )
            continue
        before = drawn.get(mechanism.name)
        if before is not None and (before.generator, before.options) == (generator, options):
            resolved[mechanism.name] = before.model_copy(update={"pilot": pilot})
            continue
        schema = release_schema(member, development.kinds, generator)
        survey = Survey(seeds=mechanism.seed_list, schema=schema)
        if mechanism.inclusion == "coins" and kept_folders(
            str(generator), options, place.folder.path
        ):
            raise RegistryError(
                f"{mechanism.name}: it keeps one private fit for all draws, and with inclusion = "
                '"coins" each draw is fitted to other rows; leave its folder out, with noise = '
                '"seeded" (categorical) or fit = "each draw" (aim)'
            )
        check_source(member, drawn_as, development.training())
        described = place.descriptions.of(place, member, drawn_as, survey)
        registered: dict[str, object] = {
            "generator": generator,
            "options": options,
            "pilot": pilot,
            **described.registered(),
        }
        # What draws may read besides code makes them too, and must not change between two of them.
        if drawn_as.allow:
            registered |= {"allowed": allowed_files(drawn_as.allow)}
        if described.files is not None:
            registered |= {"files": [file.registered().to_dict() for file in described.files]}
        stated = privacy_of(described.describe)
        if stated is not None:  # recorded here: to read it again takes no accounting library
            lines = privacy_lines(stated, mechanism.draws, anew=mechanism.inclusion == "coins")
            registered |= {"privacy": lines}
        resolved[mechanism.name] = DrawnMechanism.of(registered, mechanism.name)
    return resolved
