"""Run the audits of this folder and write docs/audits.md, published figures beside ours.

    python -m reproduction.audits.reproduce [NAME ...] [--draws N] [--out docs/audits.md]
        [--work DIR] [--parts DIR] [--write]

Each audit runs twice from the same seeds: with the paper's settings, and with our defaults (NAME-
ours). Where the paper has two models, two more audits have one of them each. Where it withdrew an
analysis, a third audit registers it, records the deviation and adds the corrective certificate
(NAME-original). Every step of an audit can be resumed, so a killed run goes on where it was. Where
draws take too long for that, they are kept beside the declaration, and only those that are missing
are made (see kept.py). The name `exposure` is no audit: it attacks releases as App. V does, and
writes membership-attacks.md beside the document. `screen-whole` needs two files of the user's own
and is left out where they are not there. Data are read from PROXYGUARD_DATA, or from where
`python -m reproduction data fetch` puts them. Each name is followed by its part of the document:
the paper's table beside ours. Parts are kept in `parts/`, so that the document still has those of
audits that are not run here: without torch, without files of the user's own, or because another was
named. A shortened run (`--draws`) has parts and a document of its own, in the work folder.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import proxyguard as pg
from proxyguard.audit.draw import pending_folder, tasks
from proxyguard.documents.canonical import canonical_bytes
from proxyguard.documents.ledger import Stage
from proxyguard.registry.target import StratifiedDesign
from reproduction.audits.attack import (
    is_finished,
    kept_results,
    left_to_attack,
    run_attacks,
)
from reproduction.audits.attack_page import write_page
from reproduction.audits.benchmarks import (
    BENCHMARKS,
    write_benchmark,
    write_rice,
    write_spambase,
)
from reproduction.audits.blocks import write_blocks
from reproduction.audits.cdc_roles import write_cdc_roles
from reproduction.audits.document import (
    PARTS,
    Run,
    document,
    kept_parts,
    part_of,
    section,
    write_part,
)
from reproduction.audits.experiments import (
    CDC_ROLES,
    SPREAD,
    SPREAD_OTHERWISE,
    TAIWAN_POLICIES,
    TEXT_OWN_ROLES,
    TEXT_ROLES,
)
from reproduction.audits.generators import SINGLE_CLASS, not_drawn, write_single_class
from reproduction.audits.kept import KEPT, complete_apart
from reproduction.audits.newsgroups import write_newsgroups
from reproduction.audits.published import AUDITS, Published
from reproduction.audits.spread import write_otherwise, write_spread
from reproduction.audits.stand_ins import write_stand_ins
from reproduction.audits.taiwan import write_policies, write_taiwan
from reproduction.audits.text_roles import write_own_roles, write_text_roles
from reproduction.datasets.catalog import CATALOG, Origin
from reproduction.datasets.fetch import content, found
from reproduction.datasets.prepare import prepare
from reproduction.files import write_atomic

HERE = Path(__file__).parent
EXPOSURE, ATTACKS_PAGE = "exposure", "membership-attacks.md"
DEVIATION = (
    "The target has as many records of either class by design, and was registered as an iid "
    "sample, which it is not: the certificate rests on a theorem whose condition fails."
)
CORRECTION = (
    "The design is fixed class strata with equal weights (Proposition 11), which empirical "
    "Bernstein does not cover. No record, limit, mechanism or seed is changed."
)


def main() -> None:
    """Run the audits that were named, and write the document about all that are finished."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names()))
    parser.add_argument("--draws", type=int, help="at most so many draws a mechanism")
    parser.add_argument("--out", type=Path, help="docs/audits.md, or in DIR if shortened")
    parser.add_argument("--work", type=Path, default=Path("build/audits"))
    parser.add_argument("--parts", type=Path, help="where parts of the document are kept")
    parser.add_argument("--write", action="store_true", help="run no audit, write the document")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(names()))
    if unknown:
        parser.error(f"no audits {unknown}; there are {', '.join(names())}")
    # What a shortened run says is true of fewer draws: it does not replace what a whole one said.
    short = None if given.draws is None else given.work / f"shortened-{given.draws}"
    parts = given.parts or short or PARTS
    out = given.out or (Path("docs") if short is None else short) / "audits.md"
    chosen = [] if given.write else given.names or possible(given.draws)
    for name in chosen:
        print(f"== {name}", flush=True)
        if name == EXPOSURE:
            run_attacks(given.work / EXPOSURE)
        else:
            part = part_of(name, run_all(name, given.work, given.draws))
            write_part(parts, name, part)
            print(section(name, part), flush=True)
    attacked = kept_results(given.work / EXPOSURE)
    if is_finished(attacked):
        write_page(attacked, out.with_name(ATTACKS_PAGE))
        print(f"wrote {out.with_name(ATTACKS_PAGE)}")
    elif EXPOSURE in chosen:
        left = ", ".join(f"{mechanism} on {table}" for table, mechanism in left_to_attack(attacked))
        print(f"{ATTACKS_PAGE} stays as it is, for want of {left}; TabDDPM needs torch")
    if chosen == [EXPOSURE]:
        return  # the document has nothing of it
    if given.write:
        for name, run in finished(given.work, given.draws).items():
            write_experiments(name, given.work)
            write_part(parts, name, part_of(name, run))
    write_document(out, parts, given.draws)


def write_document(out: Path, parts: Path, draws: int | None) -> None:
    """Write the document of all parts that are kept, those of earlier runs too."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(document(kept_parts(parts), draws), "utf-8")
    print(f"wrote {out}, of the parts in {parts}")


def names() -> tuple[str, ...]:
    """Return what can be run: the audits, and the attacks."""
    return (*AUDITS, EXPOSURE)


def possible(draws: int | None = None) -> list[str]:
    """Return what can be run with the packages and files that are here, and say what cannot."""
    chosen = []
    for name in names():
        needs = AUDITS[name].needs if name in AUDITS else None
        if needs is not None and find_spec(needs) is None:
            print(f"== {name} is left out: {needs} is not installed", flush=True)
        elif lacking := missing_files(name):
            print(f"== {name} is left out: it needs {' and '.join(lacking)}", flush=True)
        elif not drawable(name, draws):
            words = f"{not_drawn(name, draws)}, and mbi, which makes them, is not installed"
            print(f"== {name} is left out: {words}", flush=True)
        else:
            chosen.append(name)
    return chosen


def drawable(name: str, draws: int | None = None) -> bool:
    """Return whether the kept draws of an audit are there, or can be made."""
    return not not_drawn(name, draws) or find_spec("mbi") is not None


def missing_files(name: str) -> list[str]:
    """Return the files of the user's own that an audit needs and that are not there."""
    data = AUDITS[name].data if name in AUDITS else ()
    known = [CATALOG[one] for one in data if one in CATALOG]  # others are made from several
    needed = [file for one in known if one.origin is Origin.USER for file in one.files]
    return [file.path for file in needed if found(file) is None]


def declaration(name: str) -> str:
    """Return the declaration of an audit: its file, or those of two screens in one family."""
    base = name.removesuffix("-ours")
    joins = AUDITS[base].joins if base in AUDITS else ""
    if not joins:
        return (HERE / name / "audit.toml").read_text("utf-8")
    screen = "screen-ours" if name.endswith("-ours") else "screen"
    return joined(declaration(screen), declaration(joins), name)


def joined(screen: str, more: str, name: str) -> str:
    """Return a declaration with the candidates of both, and the claim of the first.

    >>> first = 'name = "a"\\n[[candidate]]\\n1\\n[claim]\\nalpha\\n'
    >>> second = 'name = "b"\\n[[candidate]]\\n2\\n[claim]\\nbeta\\n'
    >>> joined(first, second, "both").split()
    ['name', '=', '"both"', '[[candidate]]', '1', '[[candidate]]', '2', '[claim]', 'alpha']
    """
    before, claim, levels = screen.partition("[claim]\n")
    candidates = more[more.index("[[candidate]]\n") : more.index("[claim]\n")]
    text = before + candidates + claim + levels
    return re.sub(r'^name = "[^"]*"$', f'name = "{name}"', text, count=1, flags=re.MULTILINE)


def run_all(name: str, work: Path, draws: int | None = None) -> Run:
    """Run the audits of one name: the paper's settings, ours, and one that was withdrawn."""
    published = AUDITS[name]
    prepare_data(name, work / "data")
    sealed = tuple(open_folder(other, work, draws) for other in published.sealed_only)
    for other, audit in zip(published.sealed_only, sealed, strict=True):
        begin(audit, declaration(other))
    paper = run(name, published, work, draws)
    ours = None
    if drawable(f"{name}-ours", draws):
        ours = run(f"{name}-ours", published, work, draws, same_draws_as=paper)
    else:
        print(f"{name}-ours is left out: {not_drawn(f'{name}-ours', draws)}", flush=True)
    variants = tuple(run(other, published, work, draws) for other in published.variants)
    write_experiments(name, work)
    if published.original is None:
        return Run(paper=paper, ours=ours, sealed_only=sealed, variants=variants)
    original = run(f"{name}-original", published, work, draws, same_draws_as=paper)
    correct(original, paper)
    return Run(paper=paper, ours=ours, original=original, sealed_only=sealed)


def write_experiments(name: str, work: Path) -> None:
    """Write what the section of an audit shows besides its audits, unless it is there."""
    if name == "cdc-neural":
        write_cdc_roles(work / CDC_ROLES)
    if name == "rice-tvae":
        write_single_class(work / SINGLE_CLASS)
    if name == "stand-ins":
        write_spread(work / SPREAD)
        write_otherwise(work / SPREAD_OTHERWISE)
    if name == "taiwan-bootstrap":
        write_policies(work / TAIWAN_POLICIES)
    if name == "text-unigram":
        write_text_roles(work / TEXT_ROLES)
        write_own_roles(work / TEXT_OWN_ROLES)


def prepare_data(name: str, folder: Path) -> None:
    """Write the tables that an audit reads, unless they are there."""
    published = AUDITS[name]
    for data in published.data:
        own = folder / data
        folder.mkdir(parents=True, exist_ok=True)
        if data == "stand-ins":
            write_stand_ins(own)
        elif data == "benchmarks":
            own.mkdir(exist_ok=True)
            for table in BENCHMARKS:
                write_benchmark(table, own)
        elif data == "magic":  # its declaration reads the file as its source has it
            own.mkdir(exist_ok=True)
            write_atomic(own / "magic04.data", content(data))
        elif not own.exists():
            part = folder / f"{data}.part"
            shutil.rmtree(part, ignore_errors=True)
            prepare(data, part)
            part.rename(own)
        if data == "newsgroups":
            write_newsgroups(own)
        if data == "taiwan":
            write_taiwan(own)
        if data == "rice":
            write_rice(own)
        if data == "spambase":
            write_spambase(own)
        if published.original is not None:
            write_blocks(HERE / name / "audit.toml", data, own)


def begin_named(name: str, work: Path) -> pg.Audit:
    """Return the audit of this name, its data prepared and its target sealed."""
    base = next((base for base, known in AUDITS.items() if name in known.variants), None)
    prepare_data(base or name.removesuffix("-ours"), work / "data")
    audit = open_folder(name, work, None)
    begin(audit, declaration(name))
    return audit


def begin(audit: pg.Audit, text: str) -> None:
    """Make the folder and seal the target, unless that is done."""
    if not audit.folder.path.exists():
        audit.init(text)
    if not audit.journal().ledger.has(Stage.SEALED):
        audit.seal()


def correct(original: pg.Audit, paper: pg.Audit) -> None:
    """Record the deviation of an audit and correct it by the design that the paper took later."""
    ledger = original.journal().ledger
    if not ledger.has(Stage.DEVIATED):
        original.deviate(DEVIATION)
    if not ledger.has(Stage.CORRECTED):
        declared = paper.folder.registry(paper.journal()).declaration
        assert declared.target is not None  # one target, not a family of candidates
        assert isinstance(declared.target.design, StratifiedDesign)
        original.correct(CORRECTION, declared.target.design.model_dump(mode="json"))
    check(original)


def run(
    name: str,
    published: Published,
    work: Path,
    draws: int | None = None,
    same_draws_as: pg.Audit | None = None,
) -> pg.Audit:
    """Do all steps of one audit that are left, and verify it."""
    audit = open_folder(name, work, draws)
    text = with_draws(declaration(name), draws)
    begin(audit, text)
    complete_apart(name, audit, draws)
    if not audit.journal().ledger.has(Stage.REGISTERED):
        audit.register()
    if published.amend is not None and not audit.journal().ledger.has(Stage.AMENDED):
        before, after, reason = published.amend
        (audit.folder.path / "audit.toml").write_text(text.replace(before, after), "utf-8")
        audit.amend(reason)
    if same_draws_as is not None and not audit.journal().ledger.has(Stage.DRAWN):
        share_draws(same_draws_as, audit)
    audit.draw()
    if not audit.journal().ledger.has(Stage.CERTIFIED):
        audit.open()
    check(audit)
    decisions = audit.certificate().decisions
    print(f"{name}: { {name: one.value for name, one in decisions.items()} }", flush=True)
    return audit


def check(audit: pg.Audit) -> None:
    """End the run where the record of an audit does not verify."""
    checked = audit.verify()
    if not checked.good:
        sys.exit(f"{audit.folder.path}: the record does not verify: {checked.findings}")


def open_folder(name: str, work: Path, draws: int | None) -> pg.Audit:
    """Return the audit of this name in the work folder; fewer draws are another audit."""
    folder = name if draws is None else f"{name}-{draws}-draws"
    return pg.Audit(work / folder, home=work / "home", data=[work / "data", KEPT])


def with_draws(text: str, draws: int | None, pilots: int | None = None) -> str:
    """Return a declaration with at most so many draws a mechanism, and so many a pilot."""

    def capped(part: re.Match[str]) -> str:
        most = pilots if part[1] == "pilot" else draws
        return part[0] if most is None else f"{part[2]}draws = {min(int(part[3]), most)}"

    parts = r"^(?=\[\[(?:candidate\.)?(pilot|mechanism)\]\])(.*?^)draws = (\d+)$"
    return re.sub(parts, capped, text, flags=re.MULTILINE | re.DOTALL)


def share_draws(drawn: pg.Audit, other: pg.Audit) -> None:
    """Let an audit go on from the draws of another, as if its own had been interrupted.

    Finished draws wait under a digest of all that they depend on; only where that is the same
    in both audits are they the draws that the other one would make.
    """
    journals = {a: a.journal() for a in (drawn, other)}
    places = {
        a: {(t.member, t.mechanism): pending_folder(a.folder, t)
            for t in tasks(a.place, a.folder.registry(journals[a]), journals[a])}
        for a in (drawn, other)
    }  # fmt: skip
    shutil.copytree(drawn.folder / "store", other.folder / "store", dirs_exist_ok=True)
    manifest = json.loads(drawn.folder.read("releases.json"))
    for key, place in places[other].items():
        if places[drawn].get(key, Path()).name != place.name:
            continue
        place.mkdir(parents=True, exist_ok=True)
        for draw in manifest["members"][key[0]][key[1]]["draws"]:
            (place / f"{draw['seed']}.json").write_bytes(canonical_bytes(draw))


def finished(work: Path, draws: int | None) -> dict[str, Run]:
    """Return the audits, by name, that have their certificates."""

    def folder(name: str) -> pg.Audit:
        return open_folder(name, work, draws)

    runs = {
        name: Run(
            paper=folder(name),
            ours=folder(f"{name}-ours") if drawable(f"{name}-ours", draws) else None,
            original=None if published.original is None else folder(f"{name}-original"),
            sealed_only=tuple(folder(other) for other in published.sealed_only),
            variants=tuple(folder(other) for other in published.variants),
        )
        for name, published in AUDITS.items()
    }
    return {name: one for name, one in runs.items() if one.finished}


if __name__ == "__main__":
    main()
