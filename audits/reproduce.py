"""Run the audits of this folder and write docs/audits.md, published figures beside ours.

    python audits/reproduce.py [NAME ...] [--draws N] [--out docs/audits.md] [--work DIR]

Each audit runs twice on the same draws: with the paper's settings, and with our defaults
(NAME-ours). Every step of an audit can be resumed, so a killed run goes on where it was. Data are
read from PROXYGUARD_DATA, or from where `proxyguard data fetch` puts them.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

from document import document
from newsgroups import write_newsgroups
from published import AUDITS, Published
from stand_ins import write_stand_ins

import proxyguard as pg
from proxyguard.audit.draw import pending_folder, tasks
from proxyguard.datasets.fetch import content
from proxyguard.datasets.prepare import prepare
from proxyguard.seal.canonical import canonical_bytes
from proxyguard.seal.ledger import Stage
from proxyguard.seal.storage import write_atomic

HERE = Path(__file__).parent


def main() -> None:
    """Run the audits that were named, and write the document about all that are finished."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(AUDITS))
    parser.add_argument("--draws", type=int, help="at most so many draws a mechanism")
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "audits.md")
    parser.add_argument("--work", type=Path, default=HERE.parent / "build" / "audits")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(AUDITS))
    if unknown:
        parser.error(f"no audits {unknown}; there are {', '.join(AUDITS)}")
    for name in given.names or AUDITS:
        print(f"== {name}", flush=True)
        run_pair(name, given.work, given.draws)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(document(finished(given.work, given.draws), given.draws), "utf-8")
    print(f"wrote {given.out}")


def run_pair(name: str, work: Path, draws: int | None = None) -> tuple[pg.Audit, pg.Audit]:
    """Run an audit with the paper's settings and with ours, and return both."""
    published = AUDITS[name]
    prepare_data(published, work / "data")
    paper = run(name, published, work, draws)
    return paper, run(f"{name}-ours", published, work, draws, same_draws_as=paper)


def prepare_data(published: Published, folder: Path) -> None:
    """Write the tables that an audit reads, unless they are there."""
    for name in published.data:
        folder.mkdir(parents=True, exist_ok=True)
        if name == "stand-ins":
            write_stand_ins(folder / name)
        elif name == "magic":  # its declaration reads the file as its source has it
            (folder / name).mkdir(exist_ok=True)
            write_atomic(folder / name / "magic04.data", content(name))
        elif not (folder / name).exists():
            part = folder / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            prepare(name, part)
            part.rename(folder / name)
        if name == "newsgroups":
            write_newsgroups(folder / name)


def run(
    name: str,
    published: Published,
    work: Path,
    draws: int | None = None,
    same_draws_as: pg.Audit | None = None,
) -> pg.Audit:
    """Do all steps of one audit that are left, and verify it."""
    audit = open_folder(name, work, draws)
    text = with_draws((HERE / name / "audit.toml").read_text("utf-8"), draws)
    if not audit.folder.path.exists():
        audit.init(text)
    if not audit.journal().ledger.has(Stage.SEALED):
        audit.seal()
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
    found = audit.verify()
    if not found.good:
        sys.exit(f"{name}: the record does not verify: {found.findings}")
    decisions = {v["mechanism"]: v["decision"] for v in audit.certificate()["verdicts"]}
    print(f"{name}: {decisions}", flush=True)
    return audit


def open_folder(name: str, work: Path, draws: int | None) -> pg.Audit:
    """Return the audit of this name in the work folder; fewer draws are another audit."""
    folder = name if draws is None else f"{name}-{draws}-draws"
    return pg.Audit(work / folder, home=work / "home", data=[work / "data"])


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
    manifest = drawn.folder.read_json("releases.json")
    for key, place in places[other].items():
        if places[drawn].get(key, Path()).name != place.name:
            continue
        place.mkdir(parents=True, exist_ok=True)
        for draw in manifest["members"][key[0]][key[1]]["draws"]:
            (place / f"{draw['seed']}.json").write_bytes(canonical_bytes(draw))


def finished(work: Path, draws: int | None) -> dict[str, tuple[pg.Audit, pg.Audit]]:
    """Return the pairs of audits that have their certificates."""
    pairs = {
        name: (open_folder(name, work, draws), open_folder(f"{name}-ours", work, draws))
        for name in AUDITS
    }
    return {
        name: pair
        for name, pair in pairs.items()
        if all((audit.folder.path / "certificate.json").exists() for audit in pair)
    }


if __name__ == "__main__":
    main()
