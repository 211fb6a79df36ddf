"""The mistakes themselves: what was done, what was typed, and from which step of a good audit."""

# ruff: noqa: E501  # each mistake reads best on a line of its own

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

Change = Callable[[Path], object]


def nothing(_: Path) -> None:
    """Change nothing: the mistake is what is typed."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One mistake: a change of a good audit, a command, or a call of the library."""

    did: str
    typed: str = ""
    call: str | None = None
    at: str = "new"
    change: Change = nothing
    later: bool = False
    """Whether nobody could know it before: `check` lets it pass, and a later step says it."""


def declared(did: str, *edits: tuple[str, str], typed: str = "check audit", at: str = "new",
             then: Change = nothing, later: bool = False) -> Mistake:  # fmt: skip
    """Return a mistake in the declaration: texts that stand there, and what stands there now."""

    def change(root: Path) -> None:
        path = root / "audit" / "audit.toml"
        text = path.read_text(encoding="utf-8")
        for before, after in edits:
            assert before in text, before
            text = text.replace(before, after, 1)
        path.write_text(text, encoding="utf-8")
        then(root)

    return Mistake(did=did, typed=typed, at=at, change=change, later=later)


def tabled(did: str, edit: Callable[[str], str | bytes], *edits: tuple[str, str],
           file: str = "patients.csv", typed: str = "check audit") -> Mistake:  # fmt: skip
    """Return a mistake in a table, given as its text before and after."""

    def change(root: Path) -> None:
        changed = edit((root / file).read_text(encoding="utf-8"))
        (root / file).write_bytes(changed if isinstance(changed, bytes) else changed.encode())

    return declared(did, *edits, typed=typed, then=change)


def typed(did: str, command: str, at: str = "new", change: Change = nothing) -> Mistake:
    """Return a mistake on the command line."""
    return Mistake(did=did, typed=command, at=at, change=change)


def called(did: str, code: str) -> Mistake:
    """Return a mistake in Python."""
    return Mistake(did=did, call=code)


def line(number: int, edit: Callable[[str], str]) -> Callable[[str], str]:
    """Return an edit of one line of a text; the first is 1."""

    def change(text: str) -> str:
        lines = text.splitlines()
        lines[number - 1] = edit(lines[number - 1])
        return "\n".join(lines) + "\n"

    return change


def sealed_line(edit: Callable[[str], str]) -> Callable[[str], str]:
    """Return an edit of the first record that is set aside as target."""

    def change(text: str) -> str:
        lines = text.splitlines()
        k = next(k for k, line in enumerate(lines) if line.startswith("zqxjkvbw"))
        lines[k] = edit(lines[k])
        return "\n".join(lines) + "\n"

    return change


FILES = (
    ('generator = "bootstrap"', 'generator = "files"\noptions = { folder = "releases" }'),
    ("seeds = { first = 100 }", "seeds = { first = 0 }"),
)
MINE = ('generator = "bootstrap"', 'generator = "mygen:Good"')


def mine(name: str) -> tuple[str, str]:
    return ('generator = "bootstrap"', f'generator = "{name}"')


LOSSES = (
    ('table = "patients.csv"\nreserve = { rows = 80, seed = 11 }\noutcome = "ill"\n'
     'positive = "yes"\nexclude = ["patient", "ward"]', 'losses = "losses.npz"'),
    ('[development]\nvalidation = { fraction = "0.25", seed = 12 }\n', ""),
    ('[procedure]\nlibrary = ["fixed_logistic"]\n', ""),
    ('generator = "bootstrap"', 'generator = "losses"'),
)  # fmt: skip


def resaved(**arrays: np.ndarray) -> Change:
    """Return a change of some arrays of the loss file."""

    def change(root: Path) -> None:
        with np.load(root / "losses.npz") as given:
            kept = dict(given)
        np.savez(root / "losses.npz", **{**kept, **arrays})

    return change


def one_bad_loss(value: float) -> Change:
    def change(root: Path) -> None:
        with np.load(root / "losses.npz") as given:
            kept = dict(given)
        kept["losses"][2, 7, 0] = value
        np.savez(root / "losses.npz", **kept)

    return change


DECLARED = [
    # ---- keys and sections of audit.toml
    declared("a key of a requirement is misspelt", ("limit =", "limt =")),
    declared("a key of the claim is misspelt", ("reliability_target", "reliabilty_target")),
    declared("a key of the target is misspelt", ("outcome =", "outcom =")),
    declared("a key is written with a capital", ("outcome =", "Outcome =")),
    declared("a section is misspelt", ("[claim]", "[claims]")),
    declared("requirements in the plural", ("[[requirement]]", "[[requirements]]")),
    declared("a section of several is written as one", ("[[requirement]]", "[requirement]")),
    declared("a mechanism is written as one", ("[[mechanism]]", "[mechanism]")),
    declared("a section of one is written as several", ("[target]", "[[target]]")),
    declared("the claim is missing", ('[claim]\nreliability_target = "0.3"\n', "")),
    declared("the target is missing", ("[target]\n", "[aim]\n")),
    declared("the requirement is missing",
             ('[[requirement]]\nname = "risk"\nloss = "brier"\nform = "absolute"\nlimit = "0.30"\n', "")),
    declared("format is missing", ("format = 1\n", "")),
    declared("format is of the future", ("format = 1", "format = 2")),
    declared("format is text", ("format = 1", 'format = "1"')),
    declared("a key stands twice", ('limit = "0.30"', 'limit = "0.30"\nlimit = "0.20"')),
    declared("a key stands in the wrong section",
             ('positive = "yes"\n', ""), ("[procedure]\n", '[procedure]\npositive = "yes"\n')),
    declared("the reserve's rows are missing", ("rows = 80, ", "")),
    declared("the reserve's seed is missing", (", seed = 11", "")),
    declared("draws are missing", ("draws = 6\n", "")),
    declared("seeds are missing of a generator that draws", ("seeds = { first = 100 }\n", "")),
    # ---- values of audit.toml
    declared("a limit is a number and no text", ('limit = "0.30"', "limit = 0.30")),
    declared("a limit in percent", ('limit = "0.30"', 'limit = "30%"')),
    declared("a limit with a decimal comma", ('limit = "0.30"', 'limit = "0,30"')),
    declared("a limit is a word", ('limit = "0.30"', 'limit = "low"')),
    declared("a limit is a rule of another name",
             ('limit = "0.30"', 'limit = { source_plus = "0.05" }')),
    declared("a limit is a rule with a number",
             ('limit = "0.30"', "limit = { source_validation_plus = 0.05 }")),
    declared("a limit is above all that the loss can be", ('limit = "0.30"', 'limit = "1.5"')),
    declared("a limit is negative", ('limit = "0.30"', 'limit = "-0.1"')),
    declared("a limit is not a number", ('limit = "0.30"', 'limit = "nan"')),
    declared("a level of 5", ("[claim]\n", '[claim]\nalpha = "5"\n')),
    declared("a level in percent", ("[claim]\n", '[claim]\nalpha = "5 %"\n')),
    declared("a level as a number", ("[claim]\n", "[claim]\nalpha = 0.05\n")),
    declared("a level of 0", ("[claim]\n", '[claim]\nalpha = "0"\n')),
    declared("a reliability target of 90",
             ('reliability_target = "0.3"', 'reliability_target = "90"')),
    declared("a reliability target of 1",
             ('reliability_target = "0.3"', 'reliability_target = "1"')),
    declared("a reliability target with a comma",
             ('reliability_target = "0.3"', 'reliability_target = "0,9"')),
    declared("draws as text", ("draws = 6", 'draws = "6"')),
    declared("draws as a fraction", ("draws = 6", "draws = 6.5")),
    declared("no draws", ("draws = 6", "draws = 0")),
    declared("very many draws", ("draws = 6", "draws = 1_000_000")),
    declared("seeds as a number", ("seeds = { first = 100 }", "seeds = 100")),
    declared("seeds as text", ("seeds = { first = 100 }", 'seeds = "100"')),
    declared("seeds as a list that is too short", ("seeds = { first = 100 }", "seeds = [1, 2]")),
    declared("a seed twice", ("seeds = { first = 100 }", "seeds = [1, 2, 3, 4, 5, 5]")),
    declared("a negative seed", ("first = 100", "first = -1")),
    declared("a reserve as a number", ("reserve = { rows = 80, seed = 11 }", "reserve = 80")),
    declared("a reserve as a share", ("rows = 80", "rows = 0.3")),
    declared("a reserve in percent", ("rows = 80", 'rows = "30%"')),
    declared("a share of validation as a number", ('fraction = "0.25"', "fraction = 0.25")),
    declared("a share of validation of 25", ('fraction = "0.25"', 'fraction = "25"')),
    declared("a library as text", ('library = ["fixed_logistic"]', 'library = "fixed_logistic"')),
    declared("an empty library", ('library = ["fixed_logistic"]', "library = []")),
    declared("true as text", ("draws = 6", 'draws = 6\ndeterministic = "yes"')),
    declared("True as in Python", ("draws = 6", "draws = 6\ndeterministic = True")),
    declared("several mistakes at once", ("limit =", "limt ="), ("draws = 6", 'draws = "6"'),
             ("[claim]\n", '[claim]\nalpha = "5"\n'), ('loss = "brier"', 'loss = "briar"')),
    # ---- names of what there is
    declared("an unknown loss", ('loss = "brier"', 'loss = "briar"')),
    declared("a loss by another's name", ('loss = "brier"', 'loss = "accuracy"')),
    declared("an unknown form", ('form = "absolute"', 'form = "absolut"')),
    declared("the form is missing", ('form = "absolute"\n', "")),
    declared("an unknown generator", ('generator = "bootstrap"', 'generator = "bootstap"')),
    declared("a generator of sdv", ('generator = "bootstrap"', 'generator = "GaussianCopula"')),
    declared("an unknown learner", ('"fixed_logistic"', '"logistic_regression"')),
    declared("an unknown mode", ("[claim]\n", '[claim]\nmode = "directly"\n')),
    declared("an unknown test", ("[claim]\n", '[claim]\ntest = "t-test"\n')),
    declared("an unknown bound", ("[claim]\n", '[claim]\nbound = "exact"\n')),
    declared("an unknown level", ("[claim]\n", '[claim]\nlevel = "release"\n')),
    declared("an unknown family", ("[claim]\n", '[claim]\nfamily = "holm"\n')),
    declared("an unknown design", ("[target]\n", '[target]\ndesign = "random"\n')),
    declared("a design without its parts", ("[target]\n", '[target]\ndesign = "stratified"\n')),
    declared("strata whose weights do not sum to 1",
             ("[target]\n", '[target]\ndesign = { by = "ward", sizes = { north = 40, south = 40 }, '
              'weights = { north = "0.6", south = "0.5" } }\n')),
    declared("an unknown role", ("draws = 6", 'draws = 6\nrole = "best"')),
    declared("an unknown word for failures", ("draws = 6", 'draws = 6\non_failure = "ignore"')),
    declared("an unknown calibration",
             ("[procedure]\n", '[procedure]\ncalibrate = "isotonic"\n')),
    declared("an unknown option of a generator",
             ('generator = "bootstrap"', 'generator = "bootstrap"\noptions = { size = 100 }')),
    declared("an option of the wrong type",
             ('generator = "bootstrap"', 'generator = "noise"\noptions = { scale = "much" }')),
    # ---- what does not go together
    declared("a test for losses of two values", ("[claim]\n", '[claim]\ntest = "binomial"\n')),
    declared("a mode that needs targets of its own", ("[claim]\n", '[claim]\nmode = "named"\n')),
    declared("looks without a sequential mode", ("[claim]\n", "[claim]\nlooks = [2, 4, 6]\n")),
    declared("a claim about releases without any",
             ('reliability_target = "0.3"', 'level = "releases"')),
    declared("a claim about a mechanism without a target",
             ('reliability_target = "0.3"\n', "")),
    declared("a smooth mode without ramps", ("[claim]\n", '[claim]\nmode = "smooth"\n')),
    declared("a mode of strata on an iid target", ("[claim]\n", '[claim]\nmode = "block"\n')),
    declared("two requirements of one name",
             ("[[mechanism]]", '[[requirement]]\nname = "risk"\nloss = "error"\n'
              'form = "absolute"\nlimit = "0.4"\n\n[[mechanism]]')),
    declared("two mechanisms of one name",
             ("[claim]", '[[mechanism]]\nname = "copies"\ngenerator = "noise"\ndraws = 3\n'
              'seeds = { first = 300 }\n\n[claim]')),
    declared("two mechanisms with one seed",
             ("[claim]", '[[mechanism]]\nname = "others"\ngenerator = "noise"\ndraws = 3\n'
              'seeds = { first = 103 }\n\n[claim]')),
    declared("an outcome without a kind", ('positive = "yes"\n', "")),
    declared("an outcome of two kinds", ('positive = "yes"', 'positive = "yes"\nrange = ["0", "1"]')),
    declared("no reserve and no development table", ("reserve = { rows = 80, seed = 11 }\n", "")),
    declared("a loss without a procedure", ('[procedure]\nlibrary = ["fixed_logistic"]\n', "")),
    declared("several learners and nothing to choose on",
             ('["fixed_logistic"]', '["fixed_logistic", "logistic"]'),
             ('validation = { fraction = "0.25", seed = 12 }', "")),
    # ---- TOML itself
    declared("a quotation mark is missing", ('name = "small"', 'name = "small')),
    declared("a value without quotation marks", ('positive = "yes"', "positive = yes")),
    declared("typographic quotation marks", ('name = "small"', "name = “small”")),
    declared("a colon in place of an equals sign", ('outcome = "ill"', 'outcome: "ill"')),
    declared("a bracket is missing", ("[claim]", "[claim")),
    declared("None as in Python", ("draws = 6", "draws = 6\ntimeout = None")),
    declared("a backslash in a path", ('"patients.csv"', '"data\\patients.csv"')),
    # ---- files and columns
    declared("a table that is not there", ('"patients.csv"', '"patient.csv"')),
    declared("a table by its whole path", ('"patients.csv"', '"/home/me/patients.csv"')),
    declared("a table outside the folders", ('"patients.csv"', '"../patients.csv"')),
    declared("a folder in place of a table", ('"patients.csv"', '"releases"')),
    declared("a spreadsheet", ('"patients.csv"', '"patients.xlsx"'),
             then=lambda root: (root / "patients.xlsx").write_bytes(b"PK\x03\x04" + bytes(200))),
    declared("text that is called Parquet", ('"patients.csv"', '"patients.parquet"'),
             then=lambda root: shutil.copy(root / "patients.csv", root / "patients.parquet")),
    declared("the outcome is misspelt", ('outcome = "ill"', 'outcome = "il"')),
    declared("the outcome in another case", ('outcome = "ill"', 'outcome = "Ill"')),
    declared("an excluded column is not there", ('exclude = ["patient", "ward"]', 'exclude = ["id"]')),
    declared("an excluded column as text", ('exclude = ["patient", "ward"]', 'exclude = "patient"')),
    declared("strata by a column that is not there",
             ("[target]\n", '[target]\ndesign = { by = "region", sizes = { north = 40, south = 40 }, '
              'weights = { north = "0.5", south = "0.5" } }\n')),
    declared("more of a stratum than there is",
             ("rows = 80, ", ""),
             ("[target]\n", '[target]\ndesign = { by = "ward", sizes = { north = 400, south = 40 }, '
              'weights = { north = "0.5", south = "0.5" } }\n')),
    declared("a stratum that does not occur",
             ("rows = 80, ", ""),
             ("[target]\n", '[target]\ndesign = { by = "ward", sizes = { north = 40, West = 40 }, '
              'weights = { north = "0.5", West = "0.5" } }\n')),
    declared("a positive class that does not occur", ('positive = "yes"', 'positive = "Yes"')),
    declared("a positive class as a number", ('positive = "yes"', "positive = 1")),
    declared("a positive class as a truth value", ('positive = "yes"', "positive = true")),
    declared("classes of which one does not occur",
             ('positive = "yes"', 'classes = ["yes", "no", "maybe"]')),
    declared("classes of which one is missing", ('positive = "yes"', 'classes = ["yes", "nope"]')),
    declared("a number that is text", ('positive = "yes"', 'range = ["0", "1"]')),
    declared("a number outside its range", ('outcome = "ill"', 'outcome = "age"'),
             ('positive = "yes"', 'range = ["0", "40"]'), ('loss = "brier"', 'loss = "absolute"')),
    declared("a range turned round", ('positive = "yes"', 'range = ["1", "0"]')),
    declared("a reserve as large as the table", ("rows = 80", "rows = 240")),
    declared("a reserve larger than the table", ("rows = 80", "rows = 5000")),
    declared("nearly no development rows left", ("rows = 80", "rows = 238")),
    tabled("semicolons between values", lambda text: text.replace(",", ";")),
    tabled("tabs between values", lambda text: text.replace(",", "\t")),
    tabled("a byte order mark", lambda text: "\ufeff" + text),
    tabled("Latin-1 in place of UTF-8",
           lambda text: text.replace("north", "nörd").encode("latin-1")),
    tabled("UTF-16", lambda text: text.encode("utf-16")),
    tabled("a ragged row", line(7, lambda row: row + ",1")),
    tabled("a ragged target record", sealed_line(lambda row: row + ",1")),
    tabled("a header of one name twice", line(1, lambda row: row.replace("dose", "age"))),
    tabled("no header", lambda text: text.split("\n", 1)[1]),
    tabled("an empty file", lambda text: ""),
    tabled("a header alone", lambda text: text.split("\n", 1)[0] + "\n"),
    tabled("decimal commas", lambda text: re.sub(r"(\d)\.(\d)", r"\1,\2", text.replace(",", ";")),
           ('exclude = ["patient", "ward"]', 'exclude = ["patient", "ward"]\nread = { separator = ";" }')),
    tabled("a quoted field over two lines", line(5, lambda row: row.replace("north", '"no\nrth"')
                                                 .replace("south", '"so\nuth"'))),
    tabled("a missing outcome in development",
           line(4, lambda row: re.sub("(yes|no)$", "", row))),
    tabled("a missing outcome in the target",
           sealed_line(lambda row: re.sub("(yes|no)$", "", row))),
    tabled("an outcome in the target that is none",
           sealed_line(lambda row: re.sub("(yes|no)$", "zqxjkvbwmaybe", row))),
    tabled("text among the numbers of the target",
           sealed_line(lambda row: re.sub(",[^,]*,", ",zqxjkvbwold,", row, count=1)),),
    tabled("a word for what is missing among numbers",
           line(4, lambda row: re.sub(",[^,]*,", ",unknown,", row, count=1))),
    declared("a separator of two signs",
             ('exclude = ["patient", "ward"]', 'exclude = ["patient", "ward"]\nread = { separator = ";;" }')),
    declared("a separator that does not occur",
             ('exclude = ["patient", "ward"]', 'exclude = ["patient", "ward"]\nread = { separator = ";" }')),
    # ---- releases that exist already
    declared("releases with seeds that were asked for nowhere",
             FILES[0], ("seeds = { first = 100 }\n", "")),
    declared("more draws than files", *FILES, ("draws = 6", "draws = 10")),
    declared("fewer draws than files", *FILES, ("draws = 6", "draws = 4")),
    declared("a folder of releases that is not there", *FILES,
             ('folder = "releases"', 'folder = "synthetic"')),
    declared("a file in place of the folder of releases", *FILES,
             ('folder = "releases"', 'folder = "patients.csv"')),
    declared("the folder of releases is not named", *FILES,
             ('\noptions = { folder = "releases" }', "")),
    declared("a pattern that fits nothing", *FILES,
             ('folder = "releases"', 'folder = "releases", pattern = "*.parquet"')),
    declared("releases without the outcome", *FILES,
             then=lambda root: [
                 pd.read_csv(path).drop(columns="ill").to_csv(path, index=False)
                 for path in sorted((root / "releases").glob("*.csv"))
             ]),
    declared("two releases are odd", *FILES,
             then=lambda root: ((root / "releases" / "r1.csv").write_text("patient,age\n1,2\n"),
                                (root / "releases" / "r4.csv").write_bytes(b"\xff\xfe\x00"))),
    declared("a release with no row", *FILES,
             then=lambda root: (root / "releases" / "r2.csv").write_text(
                 "patient,age,dose,ward,ill\n")),
    declared("a release is empty", *FILES,
             then=lambda root: (root / "releases" / "r2.csv").write_text("")),
    declared("a release is a copy of another", *FILES,
             then=lambda root: shutil.copy(root / "releases" / "r2.csv",
                                           root / "releases" / "r3.csv")),
    declared("a note lies among the releases", *FILES,
             then=lambda root: (root / "releases" / "README.txt").write_text("made in May\n")),
    declared("a release with other names of columns", *FILES,
             then=lambda root: (root / "releases" / "r2.csv").write_text(
                 (root / "releases" / "r2.csv").read_text().replace("age,", "Age,", 1))),
    declared("a release with text among numbers", *FILES,
             then=lambda root: (root / "releases" / "r2.csv").write_text(
                 re.sub(r"\n([^,]*),[^,]*,", r"\n\1,old,",
                        (root / "releases" / "r2.csv").read_text(), count=1))),
    declared("a named release that is not there",
             ('reliability_target = "0.3"', 'level = "releases"'),
             ('[[mechanism]]\nname = "copies"\ngenerator = "bootstrap"\ndraws = 6\n'
              "seeds = { first = 100 }\n",
              '[[release]]\nname = "old"\nfile = "releases/old.csv"\n')),
    # ---- generators, losses and learners of somebody
    declared("a module that is not there", mine("mygenerator:Good")),
    declared("a class that is not there", mine("mygen:Goood")),
    declared("a class with a dot in place of a colon", mine("mygen.Good")),
    declared("a file in place of a module", mine("mygen.py:Good")),
    declared("a module that is no Python", mine("broken:Good")),
    declared("what is named is no class", mine("mygen:NUMBER")),
    declared("a function in place of a class", mine("mygen:sample")),
    declared("a class without draw", mine("mygen:NoDraw")),
    declared("a class without describe", mine("mygen:NoDescribe")),
    declared("a class with fit and sample", mine("mygen:FitsAndSamples")),
    declared("a class that describes itself by a list", mine("mygen:SaysAList")),
    declared("a class that describes itself by an array", mine("mygen:SaysAnArray")),
    declared("a class that fails when it is made", mine("mygen:FailsToStart")),
    declared("a class whose option is not given", mine("mygen:Wants")),
    declared("a class that takes no options",
             ('generator = "bootstrap"', 'generator = "mygen:Good"\noptions = { epochs = 10 }')),
    declared("a generator that raises", mine("mygen:Raises"), later=True),
    declared("a generator with other columns", mine("mygen:OtherColumns"), later=True),
    declared("a generator that returns an array", mine("mygen:AnArray"), later=True),
    declared("a generator that returns no row", mine("mygen:NoRows"), later=True),
    declared("a generator that leaves its seed alone", mine("mygen:NoSeed"), later=True),
    declared("a loss outside its bounds",
             ('loss = "brier"', 'loss = "mygen:far_loss"\nlow = "0"\nhigh = "1"'),
             later=True),
    declared("a loss of another shape",
             ('loss = "brier"', 'loss = "mygen:short_loss"\nlow = "0"\nhigh = "1"'),
             later=True),
    declared("a loss that raises",
             ('loss = "brier"', 'loss = "mygen:odd_loss"\nlow = "0"\nhigh = "1"'),
             later=True),
    declared("a loss without bounds", ('loss = "brier"', 'loss = "mygen:far_loss"')),
    declared("a loss that is not there",
             ('loss = "brier"', 'loss = "mygen:no_loss"\nlow = "0"\nhigh = "1"')),
    declared("a learner that is not there", ('"fixed_logistic"', '"mygen:learner"')),
    declared("files with an option that there is not", *FILES,
             ('folder = "releases"', 'folder = "releases", seperator = ";"')),
    declared("a generator whose extra is not installed",
             ('generator = "bootstrap"', 'generator = "aim"\noptions = { epsilon = "1", delta = "0.00001" }')),
    declared("a generator that needs options", ('generator = "bootstrap"', 'generator = "aim"')),
    declared("a learner that takes no text", ('exclude = ["patient", "ward"]', 'exclude = ["patient"]')),
    declared("a GPU that is not there",
             ('generator = "bootstrap"', 'generator = "tvae"\noptions = { device = "cuda" }')),
    # ---- losses that were computed elsewhere
    declared("losses of too few releases", *LOSSES, ("draws = 6", "draws = 8")),
    declared("losses under another name of requirement", *LOSSES,
             then=resaved(requirements=np.array(["error"]))),
    declared("losses with two axes", *LOSSES, then=resaved(losses=np.zeros((6, 90)))),
    declared("losses with too many names", *LOSSES,
             then=resaved(releases=np.array([f"r{k}" for k in range(7)]))),
    declared("losses that are text", *LOSSES, then=resaved(losses=np.full((6, 90, 1), "0.1"))),
    declared("a loss that is no number", *LOSSES, then=one_bad_loss(float("nan"))),
    declared("a loss above its bound", *LOSSES, then=one_bad_loss(3.739152846)),
    declared("losses whose file is no npz", *LOSSES,
             then=lambda root: (root / "losses.npz").write_text("0.1,0.2\n")),
    declared("losses without names", *LOSSES,
             then=lambda root: np.savez(root / "losses.npz", np.zeros((6, 90, 1)))),
    declared("losses with a procedure", *LOSSES,
             ("[[requirement]]", '[procedure]\nlibrary = ["fixed_logistic"]\n\n[[requirement]]')),
    # ---- what cannot succeed
    declared("too few draws for the target",
             ('reliability_target = "0.3"', 'reliability_target = "0.95"')),
    declared("too few records for the limit", ("rows = 80", "rows = 4"),
             ('limit = "0.30"', 'limit = "0.05"')),
    # ---- neural generators
    declared("more training rows than the source has",
             ('generator = "bootstrap"', 'generator = "copula"\noptions = { train_rows = 5000 }')),
    declared("a condition that does not occur",
             ('generator = "bootstrap"', 'generator = "copula"\n'
              'options = { condition = { column = "ill", value = "maybe" } }')),
    declared("a condition on a column that is not there",
             ('generator = "bootstrap"', 'generator = "copula"\n'
              'options = { condition = { column = "Ill", value = "yes" } }')),
]  # fmt: skip

TYPED = [
    typed("an unknown command", "cheque audit"),
    typed("a command in capitals", "CHECK audit"),
    typed("an unknown option", "check audit --datas ."),
    typed("an option without its value", "check audit --data"),
    typed("no command, and an option", "--check audit"),
    typed("a folder is not named", "check"),
    typed("too many folders", "check audit releases"),
    typed("an option that is no number", "draw audit --workers many"),
    typed("no worker", "draw audit --workers 0"),
    typed("a folder that is not there", "check audits"),
    typed("status of a folder that is not there", "status audits"),
    typed("a folder without an audit", "check releases"),
    typed("a folder without an audit is verified", "verify releases"),
    typed("a folder that is not there is verified", "verify audits"),
    typed("a file in place of the folder", "check patients.csv"),
    typed("a file in place of the folder is verified", "verify patients.csv"),
    typed("a file in place of the folder is made", "init patients.csv"),
    typed("the declaration in place of the folder", "check audit/audit.toml"),
    typed("made twice", "init audit"),
    typed("a declaration that is not there", "init other --declaration other.toml"),
    typed("a folder in place of a declaration", "init other --declaration releases"),
    typed("a table in place of a declaration", "check other",
          change=lambda root: ((root / "other").mkdir(),
                               shutil.copy(root / "patients.csv", root / "other" / "audit.toml"))),
    typed("registered before it is sealed", "register audit"),
    typed("drawn before it is sealed", "draw audit"),
    typed("drawn before it is registered", "draw audit", at="seal"),
    typed("opened before it is drawn", "open audit", at="register"),
    typed("opened before it is sealed", "open audit"),
    typed("planned before it is sealed", "plan audit"),
    typed("a report before there is one", "report audit", at="draw"),
    typed("verified before anything is recorded", "verify audit"),
    typed("corrected before it is opened", "correct audit --reason x --design '\"iid\"'", at="draw"),
    typed("deviated before it is opened", "deviate audit --reason x", at="draw"),
    typed("amended before it is registered", "amend audit --reason x", at="seal"),
    typed("amended without a reason", "amend audit", at="register"),
    typed("amended with an empty reason", "amend audit --reason ''", at="register"),
    typed("amended after it was opened", "amend audit --reason x", at="open"),
    typed("excluded without a seed", "amend audit --reason x --exclude copies", at="register"),
    typed("excluded what is not drawn", "amend audit --reason x --exclude copies:7", at="register"),
    typed("sealed twice", "seal audit", at="seal"),
    typed("registered twice", "register audit", at="register"),
    typed("drawn twice", "draw audit", at="draw"),
    typed("a draw that is not registered again", "draw audit --again 7", at="register"),
    typed("a list of seeds that is none", "draw audit --again one", at="register"),
    typed("a candidate of no stream", "draw audit --candidate patients.csv", at="register"),
    typed("another home", "register audit --home other", at="seal"),
    typed("another home with a key of its own", "open audit --home other", at="draw",
          change=lambda root: shutil.copytree(root / "home", root / "other",
                                              ignore=shutil.ignore_patterns("targets"))),
    typed("a key file that is not there", "open audit --key-file my.key", at="draw"),
    typed("a key file that is none", "open audit --key-file patients.csv", at="draw"),
    typed("the signing key is gone", "open audit", at="draw",
          change=lambda root: (root / "home" / "signing.pem").unlink()),
    typed("granted where nobody asked for a steward", "grant audit --key s.pem", at="draw"),
    typed("granted with a key that is none", "grant audit --key patients.csv", at="draw"),
    typed("a steward who is none", "seal audit --steward Anna"),
    typed("the table changed since the seal", "register audit", at="seal",
          change=lambda root: (root / "audit" / "audit.toml").write_text(
              (root / "audit" / "audit.toml").read_text().replace("rows = 80", "rows = 90"))),
    typed("a recorded file was changed", "verify audit", at="open",
          change=lambda root: (root / "audit" / "releases.json").write_text("{}")),
    typed("a recorded file is gone", "verify audit", at="open",
          change=lambda root: (root / "audit" / "registry" / "0.json").unlink()),
    typed("a recorded file is gone before the opening", "open audit", at="draw",
          change=lambda root: (root / "audit" / "releases.json").unlink()),
    typed("the ledger is cut", "verify audit --head " + "0" * 64, at="open"),
    typed("a head that is none", "verify audit --head abc", at="open"),
    typed("a comparison of one", "report audit --out both.html", at="open"),
    typed("a comparison with what is none", "report audit releases --out both.html", at="open"),
    typed("a comparison of another kind", "report audit audit --out both.pdf", at="open"),
    typed("the target is seen by a second audit", "check second", at="open",
          change=lambda root: ((root / "second").mkdir(),
                               shutil.copy(root / "good.toml", root / "second" / "audit.toml"))),
    typed("the target is set aside by a second audit", "check second", at="seal",
          change=lambda root: ((root / "second").mkdir(),
                               shutil.copy(root / "good.toml", root / "second" / "audit.toml"))),
    typed("a design that is no TOML", "correct audit --reason x --design stratified", at="open"),
    typed("a plan of nothing", "plan"),
    typed("a requirement that is none", "plan --require error"),
    typed("a requirement without a limit", "plan --require name=error,margin=0.04"),
    typed("a requirement with an unknown word",
          "plan --require name=error,limit=0.1,margn=0.04 --records 100 --releases 20"),
    typed("a limit that is no number", "plan --require name=error,limit=ten"),
    typed("pilot losses that are not there", "plan --losses pilots.npz"),
    typed("a reliability of 95", "plan --require name=error,limit=0.1,margin=0.04 "
          "--reliability-target 95 --records 100 --releases 20"),
    typed("a reliability in percent", "plan --require name=error,limit=0.1,margin=0.04 "
          "--reliability-target 95% --records 100 --releases 20"),
]  # fmt: skip

CALLED = [
    called("losses turned round",
           "pg.certify(losses.transpose(2, 0, 1), [error], reliability_target=0.8)"),
    called("a requirement too many",
           "pg.certify(losses, [error, error], reliability_target=0.8)"),
    called("a requirement without a list", "pg.certify(losses, error, reliability_target=0.8)"),
    called("no requirement", "pg.certify(losses, [], reliability_target=0.8)"),
    called("the name of a requirement", 'pg.certify(losses, ["error"], reliability_target=0.8)'),
    called("a loss that is no number",
           "losses[3, 17, 0] = np.nan\npg.certify(losses, [error], reliability_target=0.8)"),
    called("a loss above its bound",
           "losses[3, 17, 0] = 1.5\npg.certify(losses, [error], reliability_target=0.8)"),
    called("losses as text",
           "pg.certify(losses.astype(str), [error], reliability_target=0.8)"),
    called("losses as nested lists of different lengths",
           "pg.certify([[[0.1]], [[0.2], [0.3]]], [error], reliability_target=0.8)"),
    called("a path in place of losses",
           'pg.certify("losses.npz", [error], reliability_target=0.8)'),
    called("no reliability", "pg.certify(losses, [error])"),
    called("a reliability in percent", "pg.certify(losses, [error], reliability_target=80)"),
    called("a level of 5", "pg.certify(losses, [error], reliability_target=0.8, alpha=5)"),
    called("a level with a comma",
           'pg.certify(losses, [error], reliability_target="0,8")'),
    called("an unknown mode",
           'pg.certify(losses, [error], reliability_target=0.8, mode="Direct")'),
    called("an unknown test", 'pg.certify(losses, [error], reliability_target=0.8, test="t")'),
    called("an unknown keyword",
           "pg.certify(losses, [error], reliability_target=0.8, confidence=0.95)"),
    called("a test for losses of two values",
           'pg.certify(losses, [error], reliability_target=0.8, test="binomial")'),
    called("a limit outside the bounds",
           'pg.Requirement(name="error", low=0, high=1, limit=10)'),
    called("bounds turned round", 'pg.Requirement(name="error", low=1, high=0, limit=0.5)'),
    called("a slack that is too large",
           'pg.Requirement(name="error", low=0, high=1, limit=0.1, slack=0.2)'),
    called("labels of a wrong length",
           "pg.certify(losses, [error], reliability_target=0.8, "
           "records=pg.Records(ids=np.arange(7)))"),
    called("labels that are given twice",
           "pg.certify(losses, [error], reliability_target=0.8, "
           "records=pg.Records(ids=np.zeros(200)))"),
    called("a design without its labels",
           'pg.certify(losses, [error], reliability_target=0.8, design=pg.Stratified('
           'sizes={"a": 100, "b": 100}, weights={"a": "0.5", "b": "0.5"}))'),
    called("a design by its name",
           'pg.certify(losses, [error], reliability_target=0.8, design="stratified")'),
    called("a seed that is none",
           'pg.certify(losses, [error], reliability_target=0.8, seed="first")'),
    called("a folder that is a number", "pg.Audit(7)"),
    called("data as one path", 'pg.Audit("audit", data="releases")'),
    called("workers as text", 'pg.Audit("audit", workers="2")'),
    called("a step too early", 'pg.Audit("audit").open()'),
    called("no audit there", 'pg.Audit("audits").check()'),
    called("a declaration as a path",
           'pg.Audit("other").init("good.toml")\npg.Audit("other").check()'),
]  # fmt: skip


def queried(did: str, query: str, limit: str = "0.3", more: str = "",
            then: Change = nothing) -> Mistake:  # fmt: skip
    """Return a mistake in a query in the place of the requirement."""
    return declared(did, (
        'loss = "brier"\nform = "absolute"\nlimit = "0.30"',
        f'form = "query"\nlimit = "{limit}"\nquery = {{ {query} }}\n{more}',
    ), then=then)  # fmt: skip


def alike(root: Path) -> None:
    """Put a column of one number into the table."""
    path = root / "patients.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    ends = ["same", *["7"] * (len(lines) - 1)]
    path.write_text("\n".join(map(",".join, zip(lines, ends, strict=True))) + "\n")


RATIO = 'ratio = ["dose", "age"]'
RANGES = 'ranges = { dose = ["0", "10"], age = ["0", "120"] }'
QUERIED = [
    queried("a ratio without ranges", RATIO),
    queried("a range of a ratio as of a mean", f'{RATIO}, range = ["0", "100"]'),
    queried("a ratio with the range of one column", f'{RATIO}, ranges = {{ age = ["0", "120"] }}'),
    queried(
        "a ratio of a column and itself", 'ratio = ["age", "age"], ranges = { age = ["0", "9"] }'
    ),
    queried(
        "numbers below 0 below the line", f"{RATIO}, {RANGES}".replace('age = ["0"', 'age = ["-1"')
    ),
    queried("a ratio of text", f"{RATIO}, {RANGES}".replace("dose", "ill")),
    queried("a ratio of a column that is not there", f"{RATIO}, {RANGES}".replace("dose", "cost")),
    queried("a ratio with a slack", f"{RATIO}, {RANGES}", more='slack = "0.1"\n'),
    queried("a ratio with a limit of 0", f"{RATIO}, {RANGES}", limit="0"),
    queried(
        "other limits on a ratio",
        f"{RATIO}, {RANGES}",
        more='[[secondary]]\nname = "strict"\nlimits = { risk = "0.1" }\n',
    ),
    queried("a correlation without a range", 'correlation = ["dose", "age"]'),
    queried("a correlation of one column", 'correlation = ["age"], range = ["-4", "4"]'),
    queried("a correlation of text", 'correlation = ["ill", "age"], range = ["-4", "4"]'),
    queried(
        "constants of another column",
        'correlation = ["dose", "age"], range = ["-4", "4"], standard = { bmi = ["0", "1"] }',
    ),
    queried(
        "a centre without a scale",
        'correlation = ["dose", "age"], range = ["-4", "4"], standard = { age = ["50"] }',
    ),
    queried(
        "a column that does not vary",
        'correlation = ["same", "age"], range = ["-4", "4"]',
        then=alike,
    ),
    queried(
        "a scale of 0",
        'correlation = ["dose", "age"], range = ["-4", "4"], standard = { age = ["50", "0"] }',
    ),
    queried(
        "a mean and a correlation at once",
        'mean = "age", correlation = ["dose", "age"], range = ["-4", "4"]',
    ),
]

NUMBERED = (
    ('outcome = "ill"\npositive = "yes"', 'outcome = "age"\nrange = ["0", "900000000"]'),
    ('library = ["fixed_logistic"]', 'library = ["default"]'),
    ('loss = "brier"', 'loss = "absolute"'),
)
UNITS = [
    declared("a limit with its unit", *NUMBERED, ('limit = "0.30"', 'limit = "2.5 years"')),
    declared("a limit in a unit without a name", *NUMBERED, ('limit = "0.30"', 'limit = "2.5"')),
    declared(
        "a unit with a number", *NUMBERED, ('limit = "0.30"', 'limit = "5"\nunit = "5 years"')
    ),
    declared("a unit of a score of classes", ('limit = "0.30"', 'limit = "0.30"\nunit = "years"')),
    declared(
        "a share in a unit",
        (
            'loss = "brier"\nform = "absolute"\nlimit = "0.30"',
            'form = "query"\nlimit = "0.1"\nunit = "yes"\nquery = { share = { ill = "yes" } }',
        ),
    ),
    declared(
        "a slack by a rule beside a unit",
        *NUMBERED,
        (
            'limit = "0.30"',
            'limit = "5"\nunit = "years"\nslack = { smallest_of = ["1"], allowance = "0.1" }',
        ),
    ),
    declared(
        "a limit beyond the range in its unit",
        *NUMBERED,
        ('limit = "0.30"', 'limit = "950000000"\nunit = "years"'),
    ),
]

AT_ONCE = [
    declared("a table that is too small, and a positive class that does not occur",
             ("rows = 80", "rows = 5000"), ('positive = "yes"', 'positive = "Yes"')),
    declared("more draws than files, of which one is odd", *FILES, ("draws = 6", "draws = 10"),
             then=lambda root: (root / "releases" / "r4.csv").write_bytes(b"\xff\xfe\x00")),
    declared("the table of the target as development, too",
             ("[development]\n", '[development]\ntable = "patients.csv"\n')),
    typed("a plan that nothing limits", "plan --require name=error,limit=0.1,margin=0.04 "
          "--reliability 0.97 --reliability-target 0.9"),
    typed("a reliability of 95 to show", "plan --require name=error,limit=0.1,margin=0.04 "
          "--reliability 0.97 --reliability-target 95 --records 100 --releases 20"),
]  # fmt: skip

MISTAKES = [*DECLARED, *TYPED, *CALLED, *QUERIED, *UNITS, *AT_ONCE]
