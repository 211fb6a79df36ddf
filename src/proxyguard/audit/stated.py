"""What a record says of itself: what follows from the rest, and what stays its author's word.

An author with keys can sign any statement. What can be computed again without the target is
computed again, here; the rest is listed in the certificate under *stated, not checked*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

from proxyguard.adapters.privacy import privacy_lines, privacy_of
from proxyguard.audit.development import MemberDevelopment, Workplace
from proxyguard.audit.folder import AuditFolder
from proxyguard.audit.home import DataFolders
from proxyguard.audit.members import MemberCounts
from proxyguard.audit.reserve import held_out_sizes
from proxyguard.documents.canonical import digest
from proxyguard.documents.certificate import Stated
from proxyguard.documents.ledger import DevelopmentRole, PersonWrap, Sealed, SealedMember
from proxyguard.documents.registry import (
    DrawnMechanism,
    GivenMechanism,
    Origin,
    RegisteredMember,
    Registry,
)
from proxyguard.documents.releases import AnyDraw, DrawnRelease
from proxyguard.draw.catalog import PROCEDURES, installed_version, is_ours, load_ours
from proxyguard.draw.protocol import negative_of
from proxyguard.draw.sources import Described
from proxyguard.errors import RegistryError, TableError, Withheld
from proxyguard.printable import some
from proxyguard.registry.declaration import Declaration, Member
from proxyguard.registry.parts import DELIVERED, MechanismPart, RampRule
from proxyguard.seal.sealed_file import SealedFile

if TYPE_CHECKING:
    import pandas as pd

PRODUCT, PACKAGE, VERSION = "proxyguard", "package", "version"
# What something is about, and what is said of it.
_Statement: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Redrawn:
    """What every draw of a mechanism redraws, and what is the same for all of them."""

    redraws: tuple[str, ...]
    conditional_on: tuple[str, ...]


def redrawn(
    member: Member, mechanism: str, draws: Sequence[AnyDraw], registered: DrawnMechanism | None
) -> Redrawn:
    """Return what took a seed in these draws and what did not.

    It is never stored: open and verify alike derive it from the draws, the declaration and the
    registered description, so that nobody can leave out what a claim is conditional on.
    """
    if member.target.losses is not None:
        return Redrawn((), ("whatever made the losses, which were computed elsewhere",))
    # A failed draw counts as the worst release and has no stages.
    good = [draw for draw in draws if isinstance(draw, DrawnRelease)]
    redraws = tuple(dict.fromkeys(stage for draw in good for stage in draw.stages))
    fixed = ["the source table"]
    # One is enough: in doubt the claim gets the longer list of conditions.
    if any(draw.prepared_at_random for draw in good):
        fixed.append(_random_preparation(_prepare_seed(member, mechanism), registered))
    elif not member.tossed(mechanism):  # else prepared for every draw, on the rows of its coins
        fixed.append("the generator's preparation, in which nothing was random")
    if any(m.deterministic for m in member.mechanism if m.name == mechanism):
        fixed.append("the declaration that the mechanism has no randomness")
    if member.procedure is not None:
        fixed.append("the learning procedure and its settings")
        own = member.procedure.validation == "end of release"  # no seed says which rows
        if member.development.chooses and "validation part of the release" not in redraws:
            fixed.append(f"the validation part of {'the release' if own else 'development'}")
    return Redrawn(redraws, tuple(fixed))


def _prepare_seed(member: Member, mechanism: str) -> int:
    return {m.name: m.prepare_seed for m in member.mechanism}.get(mechanism, 0)


def _random_preparation(seed: int, registered: DrawnMechanism | None) -> str:
    """Return where the randomness of a preparation came from, as the mechanism registered it.

    Noise that is meant to be private comes from the system: no seed makes it again.
    """
    private = None if registered is None else privacy_of(registered.describe)
    if private is not None and private.fits == "once" and not private.seeded:
        return (
            "one preparation of the generator, made once with random noise of the system, which "
            "no seed repeats"
        )
    return f"one preparation of the generator, random and made once from seed {seed}"


def stated_not_checked(registry: Registry) -> tuple[Stated, ...]:
    """Return what stays the author's word when everything that `verify` checks holds."""
    declaration = registry.declaration
    # These stand in every audit: nothing that a folder can hold would show them to a stranger.
    statements = [
        ("software", "which versions of Python and of the packages were used"),
        ("times", "every time in the ledger, which is its author's own clock"),
        (
            "target",
            "that its records were sampled as declared, and that nobody had seen them before "
            "beyond what target.prior_use says",
        ),
        ("lineage", "what the author's own lineage store knew of these records"),
        ("deviations", "that all that was not done as registered is recorded as one"),
        (
            "statistics",
            "the statistics of the losses on the target, until somebody who has its key runs "
            "verify --with-target",
        ),
    ]
    statements.append(("advice", "the sizes that are suggested where a verdict is unresolved"))
    if any(member.target.losses is None for member in declaration.members):
        statements += _about_draws(declaration)
    if declaration.pilot:
        statements.append(("pilots", "the validation losses of pilots, by which roles are given"))
    for member in declaration.members:
        if member.target.predicted is not None and member.target.missing_outcomes != "refuse":
            words = "how many rows of releases were left out of them or of their models"
            if member.target.missing_outcomes == "leave out":
                words = f"{words}, how many records were left out, and that none had an outcome"
            statements.append(("records without an outcome", words))
        for mechanism in member.mechanism:
            statements += _about_mechanism(mechanism, registry.members[member.name])
        if member.release:
            names = ", ".join(release.name for release in member.release)
            statements.append((names, "who made these tables, and from what"))
    return tuple(Stated(about=about, words=words) for about, words in statements)


def _about_draws(declaration: Declaration) -> Iterator[_Statement]:
    yield (
        "development",
        "that training and validation are the rows beside the target, divided as declared: limits "
        "that follow from validation losses follow from this division",
    )
    if any(member.exposures for member in declaration.members):
        yield (
            "members",
            "that the rows which attacks compare with are others than the members, as declared; "
            "that a draw was trained on all members or on those that its generator named; and how "
            "many target records have the values of a member, until verify --with-target",
        )
    if declaration.claim.after_opening:
        yield (
            "scores",
            "that no draw was cut from the ledger after its score and another one made in its "
            "place: only a head that was noted after every score shows that, with a steward too",
        )
    if declaration.claim.stream:
        yield ("candidates", "which table each name stands for, and who made it")
    seeds = "that none was chosen for what it gave on development data"
    # It gives attacks their noise and samples members, and may be amended once releases are drawn.
    if any(member.exposures for member in declaration.members):
        seeds += ", nor that of the attacks for what they found among members"
    yield ("seeds", seeds)
    yield (
        "draws",
        "that each stored release is what its registered seed gives, which stages took that seed, "
        "whether the preparation was random and from which files it was made, what held the draw, "
        "and why one failed; verify --redraw K draws some of them again",
    )
    yield (
        "draws not kept",
        "that the ledger counts every draw that waited when the claim was amended, and that the "
        "releases name every draw that was dropped and made again, as it was: both decide the "
        "guarantee, and a folder from which such draws are gone looks as if there had been none",
    )
    if any(member.procedure is not None for member in declaration.members):
        yield (
            "models",
            "that the source's model was fitted to the training part and every other one to its "
            "release, and its threshold chosen, as the procedure says; verify --redraw K fits the "
            "source and some of the others again",
        )


def _about_mechanism(mechanism: MechanismPart, resolved: RegisteredMember) -> Iterator[_Statement]:
    registered = resolved.mechanisms[mechanism.name]
    generator = registered.generator
    states_privacy = isinstance(registered, DrawnMechanism) and registered.privacy is not None
    if mechanism.deterministic:
        yield (
            f"{mechanism.name} without randomness",
            "that it has no randomness, so that equal releases are what it gives and not copies of "
            "one draw: it is declared with deterministic = true",
        )
    if generator == "losses":
        yield (mechanism.name, "everything about its losses, which were computed elsewhere")
    elif generator in DELIVERED:
        yield (mechanism.name, "that the delivered files are independent draws of one mechanism")
    elif not is_ours(generator):
        private = ", among them those on privacy" if states_privacy else ""
        yield (
            mechanism.name,
            f"the settings by which {generator} describes itself{private}, and what its code does",
        )
    elif states_privacy:
        yield (mechanism.name, "that its noise was drawn as it describes")


def rests_on_development(declaration: Declaration) -> list[str]:
    """Return the claims that nobody can see to hold who has no development part."""
    said = ["how it was divided, and what its columns hold"]
    for member in declaration.members:
        parts = member.requirement
        by_rule = [
            p.name for p in parts if not isinstance(p.limit, str) or isinstance(p.ramp, RampRule)
        ]
        coded = [p.name for p in parts if (q := p.query) and (q.tables or q.correlation)]
        generated = [m.name for m in member.mechanism if m.generator not in DELIVERED]
        procedure = member.procedure is not None and member.target.losses is None
        claims = {
            "the limits and ramps by a rule, of": by_rule,
            "the cells and constants that are asked for, of": coded,
            "what its source and the policies that learn nothing lose, of": [
                p.name for p in parts if procedure and p.loss is not None
            ],
            "what attacks find among its members, of": [p.name for p in member.exposures],
            "how often coins were guessed, of": [member.guessed(p).name for p in member.epsilons],
            "that the releases are drawn from it, of": generated,
        }
        said += [f"{what} {some(names)}" for what, names in claims.items() if names]
    return said


@dataclass(frozen=True, slots=True)
class Doubt:
    """A statement that does not hold, or that could not be checked here."""

    problem: str
    broken: bool


class SelfDescription(BaseModel):
    """What a generator says of itself, here or in a process apart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    describe: dict[str, JsonValue]
    batch: int
    origin: Origin


# Asks a generator that is not ours, by name and options, for what describes it.
AskGenerator = Callable[[str, dict[str, JsonValue]], SelfDescription]


def reading_place(folder: AuditFolder) -> Workplace:
    """Return a place from which a folder is read and nothing else: no data, no home."""
    return Workplace(folder=folder, data=DataFolders((folder.path,)), home="")


def doubts(
    folder: AuditFolder,
    registry: Registry,
    sealed: Sealed,
    describe: AskGenerator | None,
) -> Iterator[Doubt]:
    """Yield every statement of seal and registry that does not follow, or was not checked.

    Parameters
    ----------
    folder
        The audit's folder.
    registry
        The claim in force.
    sealed
        What the ledger says was sealed.
    describe
        Asks generators that are not ours; without it, what they say stays unchecked.
    """
    if sealed.name != registry.declaration.name:
        yield Doubt(f"the seal is of an audit named {sealed.name!r}", True)
    for index, member in enumerate(registry.declaration.members):
        target = sealed.members[member.name]
        # Development's files are named by it: exchanged, a member would rest on another's.
        if target.index != index:
            problem = f"sealed as number {target.index}, declared as {index}"
            yield Doubt(f"{member.name}: {problem}", True)
        development = MemberDevelopment(reading_place(folder), member, target)
        try:
            for problem in _sealed_problems(member, target, development):
                yield Doubt(f"{member.name}: {problem}", True)
        except Withheld:
            what = "how development is divided, and what its columns hold: its rows are not here"
            yield Doubt(f"{member.name}: {what}", False)
        for problem in _holder_problems(folder.sealed_target(target), sealed.steward):
            yield Doubt(f"{member.name}: {problem}", True)
        yield from _procedure_doubts(registry, member, development)
        for mechanism in member.mechanism:
            yield from _mechanism_doubts(registry, member, mechanism, describe)


def _sealed_problems(
    member: Member, sealed: SealedMember, development: MemberDevelopment
) -> Iterator[str]:
    """Yield what the ledger says of a sealed target that declaration and development do not."""
    yield from _record_problems(member, sealed)
    if member.target.losses is not None:
        yield from _loss_problems(member, sealed)
        return
    # Read from the files, whose bytes the ledger vouches for: recorded numbers could be any.
    parts = _parts(development)
    yield from _division_problems(member, sealed, {role: len(part) for role, part in parts.items()})
    yield from _member_problems(member, sealed, development)
    yield from _column_problems(member, sealed, parts)


def _record_problems(member: Member, sealed: SealedMember) -> Iterator[str]:
    """Yield what is said otherwise of how many records there are, and of which."""
    if sealed.estimand != member.target.estimand:
        yield f"the estimand is {sealed.estimand!r}, declared is {member.target.estimand!r}"
    reserved = member.target.reserve_rows
    divided = sealed.records + (sealed.unlabelled or 0)
    if reserved not in (None, divided):
        apart = f", {sealed.unlabelled} left out" if sealed.unlabelled else ""
        yield f"{sealed.records} records were sealed{apart}, the declaration reserves {reserved}"
    left_out = member.target.missing_outcomes == "leave out"
    if left_out is (sealed.unlabelled is None):
        yield "how many records without an outcome were left out is told where it is declared alone"


def _loss_problems(member: Member, sealed: SealedMember) -> Iterator[str]:
    """Yield what is said otherwise of losses that were computed elsewhere."""
    requirements, releases = sealed.requirements or (), sealed.releases or ()
    if requirements != member.loss_names:
        yield f"the losses are of {list(requirements)}, declared are {list(member.loss_names)}"
    if len(releases) != member.draws:
        yield f"the losses are of {len(releases)} releases, declared are others"


def _parts(development: MemberDevelopment) -> dict[DevelopmentRole, pd.DataFrame]:
    """Return the parts of development that are recorded, by role."""
    held = "reference" in development.sealed.development
    parts: dict[DevelopmentRole, pd.DataFrame | None] = {
        "training": development.training(),
        "validation": development.validation(),
        "reference": development.reference() if held else None,
        "calibration": development.calibration(),
    }
    return {role: part for role, part in parts.items() if part is not None}


def _division_problems(
    member: Member, sealed: SealedMember, rows: Mapping[DevelopmentRole, int]
) -> Iterator[str]:
    """Yield what is said otherwise of how development was divided."""
    if (member.development.reference is not None) is not ("reference" in rows):
        yield "rows that attacks compare with are declared or recorded, and not both"
    if ("validation" in rows) is not member.development.chooses or sealed.development != rows:
        yield f"development has {rows} rows, recorded are {sealed.development}"
    # The shares are registered: fewer reference rows than that make weaker attacks.
    held = held_out_sizes(member.development, sum(rows.values()))
    chosen = {role: size for role, size in rows.items() if role in ("reference", "calibration")}
    if held != chosen:
        yield f"attacks compare with {chosen} rows, and the declared shares are {held}"


def _member_problems(
    member: Member, sealed: SealedMember, development: MemberDevelopment
) -> Iterator[str]:
    """Yield what is said otherwise of copies of members, or why too few rows judge attacks."""
    attacked = member.development.reference is not None
    if (sealed.copies is not None) is not attacked:
        yield "copies of members are counted where rows are set aside for attacks, and only there"
    if not attacked or "reference" not in sealed.development:
        return  # nothing to be judged, or not the rows to judge it by, which is said above
    counts = MemberCounts.sealed(development)
    if counts is not None:
        try:
            counts.require(development.training(), sealed.kind_of)
        except TableError as error:
            yield str(error)


def _column_problems(
    member: Member, sealed: SealedMember, parts: Mapping[DevelopmentRole, pd.DataFrame]
) -> Iterator[str]:
    """Yield what is said otherwise of what columns hold, and of the other label."""
    import pandas as pd

    training = parts["training"]
    kinds = tuple(
        (str(name), "number" if training[name].dtype.kind == "f" else "text")
        for name in training.columns
    )
    withheld = {*member.excluded} - {*training.columns}
    declared = {
        name: part.holds
        for name, part in member.columns.items()
        if part.holds and name not in withheld
    }
    otherwise = {name for name, kind in declared.items() if sealed.kind_of.get(name) != kind}
    if otherwise:
        yield f"the columns {sorted(otherwise)} are recorded otherwise than [columns] declares them"
    if sealed.kinds != kinds:
        yield f"the columns are recorded as {sealed.kinds}, development has {kinds}"
    elif sealed.negative != negative_of(pd.concat(parts.values()), member.target.predicted):
        yield f"{sealed.negative!r} is recorded as the other label, development has another"


def _holder_problems(file: SealedFile, steward: str | None) -> Iterator[str]:
    """Yield for whom else a target's key was wrapped than for its one holder.

    An author who wraps it for themselves beside the steward reads the target before any grant.
    """
    wraps = file.header.wraps
    if len(wraps) != 1:
        yield f"the target's key is wrapped for {len(wraps)} holders, and a seal has one"
    elif steward is None:
        if isinstance(wraps[0], PersonWrap):
            yield "the target's key is wrapped for a person, and the seal names no steward"
    # An identity is two public keys of 64 digits, and the second is the one that receives.
    elif not isinstance(wraps[0], PersonWrap) or wraps[0].public != steward[64:]:
        yield "the target's key is not wrapped for the steward whom the seal names"


def _procedure_doubts(
    registry: Registry, member: Member, development: MemberDevelopment
) -> Iterator[Doubt]:
    """Compare the registered procedure with the declared one."""
    resolved = registry.members[member.name]
    features: list[str] = []
    if member.procedure is None or member.target.losses is not None:
        if resolved.procedure is not None:
            yield Doubt(f"{member.name}: a procedure is registered, and none declared", True)
    else:
        features = development.features
        stated = resolved.procedure
        if stated is None:
            yield Doubt(f"{member.name}: a procedure is declared, and none registered", True)
            return
        # By path alone: which text lay there is the author's word, and to import it would run it.
        paths = {name: origin.path for name, origin in stated.pipelines.items()}
        expected = {name: PROCEDURES.get(name, path) for name, path in paths.items()}
        if (
            stated.procedure != member.procedure
            or list(stated.features) != features
            or set(paths) != set(member.procedure.library)
            or paths != {n: n if ":" in n else p for n, p in expected.items()}
        ):
            yield Doubt(f"{member.name}: the procedure is registered otherwise than declared", True)
    if list(resolved.features) != features:
        yield Doubt(
            f"{member.name}: the features are registered as {list(resolved.features)}, declaration "
            f"and columns give {features}",
            True,
        )


def _mechanism_doubts(
    registry: Registry, member: Member, mechanism: MechanismPart, describe: AskGenerator | None
) -> Iterator[Doubt]:
    """Let a generator describe itself again and compare."""
    registered = registry.members[member.name].mechanisms[mechanism.name]
    if isinstance(registered, GivenMechanism):
        return  # which describe no generator, by their type
    generator, options = registered.generator, registered.options
    where = f"{member.name}/{mechanism.name}"
    described: SelfDescription | None = None
    if is_ours(generator):
        try:
            made = Described.by(generator, load_ours(generator, options))
            described = SelfDescription.model_validate(made.registered())
        except RegistryError as error:  # a package of somebody else's that it needs
            yield Doubt(f"{where}: its settings, because it cannot be made here: {error}", False)
    elif describe is None:
        yield Doubt(
            f"{where}: its settings, which {generator} alone could tell; ask it with "
            "--run-named-code",
            False,
        )
    else:
        described = describe(generator, options)
    if described is not None:
        yield from _described_otherwise(where, registry, registered, described)
    # Also where nobody could be asked: these words follow from the registered description.
    yield from _privacy_doubts(where, registered, mechanism)


def _described_otherwise(
    where: str, registry: Registry, registered: DrawnMechanism, described: SelfDescription
) -> Iterator[Doubt]:
    """Compare what is registered of a generator with what it says now."""
    other = _other_version(registry, registered, described)
    moved = "" if is_ours(registered.generator) else other_code(registered.origin, described.origin)
    for key in ("describe", "batch"):
        stated, said = getattr(registered, key), getattr(described, key)
        if digest(stated) != digest(said) and moved:
            yield Doubt(f"{where}: {key}: {moved}", False)
        elif digest(stated) != digest(said):
            words = f"{where}: {key} is registered as {stated}, and {registered.generator} says"
            yield Doubt(f"{words} {said}{other}", not other)
    # No version excuses this: another path is other code.
    if registered.origin.path != described.origin.path:
        yield Doubt(
            f"{where}: its code is registered as {registered.origin.path}, and is "
            f"{described.origin.path}",
            True,
        )


def other_code(then: Origin, here: Origin) -> str:
    """Return in words that the code of others is not the one that was audited, or nothing.

    As with versions, the digests of then are the author's word, and false ones never make it agree.
    """
    changed = [name for name, text in then.code.items() if here.code.get(name, text) != text]
    if not changed:
        return ""
    return (
        f"the code of {then.path} is not the one that was audited (changed: {', '.join(changed)}); "
        "install the version that was, and verify again"
    )


def _other_version(
    registry: Registry, registered: DrawnMechanism, described: SelfDescription
) -> str:
    """Return, where other code than the registered one described itself, that it is other code."""
    # Those of then are the author's word. A false one turns a finding into what was not checked,
    # which the exit code says, and never into agreement.
    versions = {
        "proxyguard": (registry.software.get(PRODUCT), installed_version(PRODUCT)),
        "its package": (registered.origin.version, described.origin.version),
    }
    package = described.describe.get(PACKAGE)
    if package is not None:  # of the synthesizers of other packages
        then, here = registered.describe.get(VERSION), described.describe.get(VERSION)
        versions[str(package)] = (str(then), str(here))
    other = [f"{name} {then} then, {here} here" for name, (then, here) in versions.items()
             if then != here]  # fmt: skip
    return f" ({'; '.join(other)})" if other else ""


def _privacy_doubts(
    where: str, registered: DrawnMechanism, mechanism: MechanismPart
) -> Iterator[Doubt]:
    """Derive the words on privacy again from the registered description."""
    private = privacy_of(registered.describe)
    try:
        anew = mechanism.inclusion == "coins"
        draws = mechanism.draws
        lines = None if private is None else privacy_lines(private, draws, anew=anew)
    except RegistryError as error:  # the accounting library is not here
        yield Doubt(f"{where}: what its releases cost in privacy: {error}", False)
        return
    stated = None if registered.privacy is None else list(registered.privacy)
    if stated == lines:
        return
    # The derived lines decide whether an accountant computed any of it, never the stated ones: a
    # lie would excuse itself by naming one.
    elsewhere = (
        any("dp-accounting" in line for line in lines or ())
        and [_unaccounted(line) for line in stated or ()]
        == [_unaccounted(line) for line in lines or ()]
        and _accountants(stated or ()) != _accountants(lines or ())
        # Versions differ in how they round; a much smaller cost is not of that making.
        and all(
            said >= 0.99 * derived
            for said, derived in zip(_epsilons(stated or ()), _epsilons(lines or ()), strict=True)
        )
    )
    yield Doubt(
        f"{where}: on privacy it is registered that {stated}, its description gives {lines}"
        + (" with another version of dp-accounting" if elsewhere else ""),
        not elsewhere,
    )


_VERSION = r"[0-9][0-9a-z]*(?:\.[0-9a-z]+)*"
# Costs and versions where the accountant is named; every other word has to agree.
_ACCOUNTED = re.compile(
    rf"or epsilon [0-9]+\.[0-9]+, (?=.*\(dp-accounting )|(?<=\(dp-accounting ){_VERSION}(?=[\s,)])"
)
_EPSILON = re.compile(r"or epsilon ([0-9]+\.[0-9]+), (?=.*\(dp-accounting )")
_ACCOUNTANT = re.compile(rf"\(dp-accounting ({_VERSION})(?=[\s,)])")


def _unaccounted(line: str) -> str:
    """Return a line without what another version of dp-accounting would say otherwise."""
    return _ACCOUNTED.sub("*", line)


def _epsilons(lines: Sequence[str]) -> list[float]:
    """Return the costs that dp-accounting computed."""
    return [float(number) for line in lines for number in _EPSILON.findall(line)]


def _accountants(lines: Sequence[str]) -> list[str]:
    """Return the versions of dp-accounting that lines name."""
    return [name for line in lines for name in _ACCOUNTANT.findall(line)]
