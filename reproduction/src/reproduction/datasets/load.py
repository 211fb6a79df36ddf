"""Data sets as tables: numbers are float64, text is objects, rows are in the files' order.

Nothing is learned from rows: columns, kinds and codes are written down in `columns` and
`domains`, so a table can be split before or after it is loaded. A number that is missing is
NaN. The outcome stays as its source writes it, unless the function says otherwise; the catalog
names its positive label.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from proxyguard import TableError
from reproduction.datasets import columns, domains, recipes
from reproduction.datasets.catalog import entry
from reproduction.datasets.fetch import content
from reproduction.datasets.read import read, read_given
from reproduction.datasets.taiwan import with_features

if TYPE_CHECKING:
    import pandas as pd

HEART_SITES = ("cleveland", "hungarian", "switzerland", "va")
PARTS = ("train", "test")


def magic() -> pd.DataFrame:
    """Return MAGIC: ten measurements and ``class``, g or h."""
    return read("magic", content("magic"), columns.MAGIC, domains.MAGIC)


def spambase() -> pd.DataFrame:
    """Return Spambase: 57 frequencies and ``spam``, 1 or 0; the paper's target is 1 - spam."""
    return read("spambase", content("spambase"), columns.SPAMBASE)


def rice() -> pd.DataFrame:
    """Return Rice: seven measurements and ``Class``, Cammeo or Osmancik."""
    header, _, rows = content("rice").partition(b"@DATA\n")
    declared = [line.split()[1].decode() for line in header.splitlines()
                if line.upper().startswith(b"@ATTRIBUTE")]  # fmt: skip
    if declared != list(columns.RICE):
        raise TableError(f"rice: expected the attributes {list(columns.RICE)}, found {declared}")
    return read("rice", rows, columns.RICE, domains.RICE)


def cdc() -> pd.DataFrame:
    """Return CDC Diabetes: 21 coded answers and ``Diabetes_binary``; there is no ID column."""
    return read("cdc", content("cdc"), columns.CDC, header=True)


def covertype() -> pd.DataFrame:
    """Return Covertype: 54 features, and ``Cover_Type_2``, 1 for type 2 and 0 for the others."""
    frame = read("covertype", content("covertype"), columns.COVERTYPE, header=True)
    cover = frame.pop("Cover_Type")
    frame["Cover_Type_2"] = (cover == 2).astype(np.float64)
    return frame


def shoppers() -> pd.DataFrame:
    """Return Online Shoppers, all numbers.

    ``Month`` (0 to 11) and ``VisitorType`` (0 to 2) are places in their registered domains;
    ``Weekend`` and ``Revenue`` are 0 or 1.
    """
    frame = read("shoppers", content("shoppers"), columns.SHOPPERS, domains.SHOPPERS, header=True)
    for name, domain in domains.SHOPPERS.items():
        codes = {value: float(code) for code, value in enumerate(domain)}
        frame[name] = frame[name].map(codes).astype(np.float64)
    return frame


def mushroom(*, numbers: bool = False) -> pd.DataFrame:
    """Return Secondary Mushroom: ``class``, e or p, and 17 features of text.

    A blank, or a value outside its registered domain, is ``?``. The three sizes, which the
    paper leaves out, are there with ``numbers``.
    """
    frame = read("mushroom", content("mushroom"), columns.MUSHROOM, domains.MUSHROOM,
                  separator=";", header=True, outside=domains.UNKNOWN)  # fmt: skip
    sizes = [name for name in columns.MUSHROOM if name not in domains.MUSHROOM]
    return frame if numbers else frame.drop(columns=sizes)


def german() -> pd.DataFrame:
    """Return German Credit with UCI's codes, and UCI's label ``class``: 1 good, 2 bad.

    The published audits used a label that was built from amount and duration; this is not it.
    """
    return read("german", content("german"), columns.GERMAN, domains.GERMAN, separator=" ")


def heart(site: str) -> pd.DataFrame:
    """Return Heart Disease of one clinic: 13 numbers, ``?`` is NaN, and ``disease``.

    The source has five degrees; ``disease`` is 1 for degrees 1 to 4 and 0 for degree 0.
    """
    if site not in HEART_SITES:
        raise TableError(f"the clinics are {HEART_SITES}, got {site!r}")
    frame = read("heart", content("heart", f"processed.{site}.data"), (*columns.HEART, "num"))
    degree = frame.pop("num")
    frame["disease"] = (degree > 0).astype(np.float64)
    return frame


def statlog_heart() -> pd.DataFrame:
    """Return Statlog Heart: 13 numbers and ``class``, 1 without and 2 with disease."""
    return read("statlog_heart", content("statlog_heart"), (*columns.HEART, "class"), separator=" ")


def bank() -> pd.DataFrame:
    """Return Bank Marketing in the order of dates: 7 numbers, 9 texts, and ``y``, yes or no."""
    return read("bank", content("bank"), columns.BANK, domains.BANK, separator=";", header=True)


def adult(part: str = "train") -> pd.DataFrame:
    """Return a part of Adult: 6 numbers, 8 texts (``?`` is unknown), and ``income``.

    The full stop that the test part writes after its labels is taken off.
    """
    _check_part(part)
    raw = content("adult", "adult.data" if part == "train" else "adult.test")
    lines = raw.replace(b", ", b",").splitlines()
    if part == "test":  # the first line says how the part was made
        lines = [line.removesuffix(b".") for line in lines[1:]]
    return read("adult", b"\n".join(lines), columns.ADULT, domains.ADULT)


def australian() -> pd.DataFrame:
    """Return Australian Credit: the codes A1 to A14 as numbers, and ``class``, 1 or 0."""
    return read("australian", content("australian"), columns.AUSTRALIAN, separator=" ")


def mammographic() -> pd.DataFrame:
    """Return Mammographic Mass: five numbers, ``?`` is NaN, and ``Severity``, 0 or 1."""
    return read("mammographic", content("mammographic"), columns.MAMMOGRAPHIC)


def wdbc() -> pd.DataFrame:
    """Return Breast Cancer Wisconsin: 30 numbers and ``malignant``, 1 or 0.

    scikit-learn's own target is the other way round: there 0 is malignant. The catalog's digest is
    that of its numbers, row by row as doubles, and then its targets as 64-bit integers, both
    with the lowest byte first.
    """
    import pandas as pd
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    frame = pd.DataFrame(bunch.data, columns=pd.Index(list(bunch.feature_names)))
    frame["malignant"] = (bunch.target == 0).astype(np.float64)
    digest = hashlib.sha256(bunch.data.astype("<f8").tobytes())
    digest.update(bunch.target.astype("<i8").tobytes())
    expected, found = entry("wdbc").sha256, digest.hexdigest()
    if found != expected:
        raise TableError(
            f"wdbc: scikit-learn gave {len(frame)} rows with {frame['malignant'].sum():g} "
            f"malignant ones and SHA-256 {found}; expected 569 rows with 212 malignant ones and "
            f"{expected}. Take a release that has the data set unchanged"
        )
    return frame


def taiwan() -> pd.DataFrame:
    """Return Taiwan default as its source has it, without ID: 23 numbers and the outcome."""
    frame = read("taiwan", content("taiwan"), columns.TAIWAN, header=True)
    return frame.drop(columns="ID")


def taiwan_features() -> pd.DataFrame:
    """Return Taiwan default with the paper's derived features beside the raw columns."""
    return with_features(taiwan())


def newsgroups(part: str = "train") -> pd.DataFrame:
    """Return a part of 20 Newsgroups: ``text``, and ``group``, 0 hockey or 1 space.

    Headers, footers and quotes are removed by scikit-learn's own functions, and documents come
    in the order in which its loader gives them unshuffled.
    """
    import pandas as pd
    from sklearn.datasets import _twenty_newsgroups as helpers

    _check_part(part)
    order = content("newsgroups", f"order-{part}.txt").decode().split()
    archive = io.BytesIO(content("newsgroups", "20news-bydate-hockey-space.tar"))
    texts = []
    with tarfile.open(fileobj=archive, mode="r:") as documents:
        members = {member.name: member for member in documents.getmembers()}
        for name in order:
            stream = documents.extractfile(members[f"20news-bydate-{part}/{name}"])
            if stream is None:
                raise TableError(f"newsgroups: {name} of order-{part}.txt is no document")
            text = helpers.strip_newsgroup_header(stream.read().decode("latin1"))
            text = helpers.strip_newsgroup_footer(text)
            texts.append(helpers.strip_newsgroup_quoting(text))
    groups = [float(recipes.GROUPS.index(name.split("/")[0])) for name in order]
    return pd.DataFrame({"text": pd.Series(texts, dtype=object), "group": groups})


def compas(file: Path | None = None) -> pd.DataFrame:
    """Return COMPAS from the user's compas-scores-two-years.csv: 8 columns and the outcome.

    Every row is kept; names, dates and the scores themselves are not read.
    """
    return read_given("compas", _given("compas", file), columns.COMPAS, domains.COMPAS)


def give_me_some_credit(file: Path | None = None) -> pd.DataFrame:
    """Return Give Me Some Credit from the user's cs-training.csv: 10 numbers and the outcome.

    ``NA`` is NaN; the column of row numbers, which has no name, is not read.
    """
    raw = _given("give_me_some_credit", file)
    return read_given("give_me_some_credit", raw, columns.GMSC, {}, missing=("NA", ""))


TABLES: Mapping[str, Mapping[str, Callable[..., pd.DataFrame]]] = {
    "magic": {"magic": magic},
    "spambase": {"spambase": spambase},
    "rice": {"rice": rice},
    "cdc": {"cdc": cdc},
    "covertype": {"covertype": covertype},
    "shoppers": {"shoppers": shoppers},
    "mushroom": {"mushroom": mushroom},
    "taiwan": {"taiwan": taiwan, "taiwan-features": taiwan_features},
    "german": {"german": german},
    "heart": {f"heart-{site}": partial(heart, site) for site in HEART_SITES},
    "statlog_heart": {"statlog_heart": statlog_heart},
    "bank": {"bank": bank},
    "adult": {f"adult-{part}": partial(adult, part) for part in PARTS},
    "australian": {"australian": australian},
    "mammographic": {"mammographic": mammographic},
    "newsgroups": {f"newsgroups-{part}": partial(newsgroups, part) for part in PARTS},
    "wdbc": {"wdbc": wdbc},
    "compas": {"compas": compas},
    "give_me_some_credit": {"give_me_some_credit": give_me_some_credit},
}
"""The tables that each data set gives, by name."""


def _check_part(part: str) -> None:
    if part not in PARTS:
        raise TableError(f"the parts are {PARTS}, got {part!r}")


def _given(name: str, file: Path | None) -> bytes:
    """Return the user's file, or the one that lies where a data set's files are looked for."""
    try:
        return content(name) if file is None else file.read_bytes()
    except OSError as error:
        raise TableError(f"{name}: {file} could not be read: {error}") from error
