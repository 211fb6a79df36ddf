"""Tables have the records and classes of their files, and encodings that no row decides."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from proxyguard.errors import TableError
from reproduction.datasets import columns, domains, load
from reproduction.datasets.catalog import CATALOG
from reproduction.datasets.read import read
from reproduction.datasets.taiwan import winsor_limits, winsorised, with_features

if TYPE_CHECKING:
    import pandas as pd

DATA = os.environ.get("PROXYGUARD_DATA")
needs_data = pytest.mark.skipif(
    DATA is None or not (Path(DATA) / "magic").exists(),
    reason="PROXYGUARD_DATA does not name a folder with the data sets",
)


def lines(path: str) -> list[str]:
    """Return the lines of a file, read without the package."""
    text = gzip.decompress((Path(str(DATA)) / f"{path}.gz").read_bytes()).decode()
    return [line for line in text.splitlines() if line.strip()]


def last(path: str, separator: str = ",", skip: int = 0) -> Counter[str]:
    """Return how often each value stands last in a line."""
    return Counter(line.split(separator)[-1].strip(' ".') for line in lines(path)[skip:])


def degrees(site: str) -> Counter[str]:
    found = last(f"heart_disease/processed.{site}.data")
    return Counter({"0": found["0"], "1": sum(found.values()) - found["0"]})


LARGE = pytest.mark.whole  # half a million rows, which take seconds to be read


def forest() -> Counter[str]:
    found = last("covertype/covtype.csv", skip=1)
    return Counter({"1": found["2"], "0": sum(found.values()) - found["2"]})


def news() -> tarfile.TarFile:
    place = Path(str(DATA)) / "newsgroups" / "20news-bydate-hockey-space.tar.xz"
    return tarfile.open(fileobj=io.BytesIO(lzma.decompress(place.read_bytes())))


def posts(part: str) -> Counter[str]:
    with news() as archive:
        names = archive.getnames()
    groups = [name.split("/")[1] for name in names if name.startswith(f"20news-bydate-{part}")]
    return Counter(str(("rec.sport.hockey", "sci.space").index(group)) for group in groups)


CLASSES: dict[str, tuple[str, Callable[[], Counter[str]]]] = {
    "magic": ("magic", lambda: last("magic/magic04.data")),
    "spambase": ("spambase", lambda: last("spambase/spambase.data")),
    "rice": (
        "rice",
        lambda: Counter(re.findall(r",(\w+)$", "\n".join(lines(
            "rice/Rice_Cammeo_Osmancik.arff")), re.MULTILINE)),
    ),
    "cdc": (
        "cdc",
        lambda: Counter(line[0] for line in lines(
            "cdc_diabetes/diabetes_binary_health_indicators_BRFSS2015.csv")[1:]),
    ),
    "covertype": ("covertype", forest),
    "shoppers": (
        "shoppers",
        lambda: Counter(str(int(line.endswith("TRUE"))) for line in lines(
            "online_shoppers/online_shoppers_intention.csv")[1:]),
    ),
    "mushroom": (
        "mushroom",
        lambda: Counter(line[0] for line in lines("secondary_mushroom/secondary_data.csv")[1:]),
    ),
    "taiwan": ("taiwan", lambda: last("taiwan_default/UCI_Credit_Card.csv", skip=1)),
    "taiwan-features": ("taiwan", lambda: last("taiwan_default/UCI_Credit_Card.csv", skip=1)),
    "german": ("german", lambda: last("german_credit/german.data", " ")),
    "heart-cleveland": ("heart", lambda: degrees("cleveland")),
    "heart-hungarian": ("heart", lambda: degrees("hungarian")),
    "heart-switzerland": ("heart", lambda: degrees("switzerland")),
    "heart-va": ("heart", lambda: degrees("va")),
    "statlog_heart": ("statlog_heart", lambda: last("statlog_heart/heart.dat", " ")),
    "bank": ("bank", lambda: last("bank_marketing/bank-full.csv", ";", skip=1)),
    "adult-train": ("adult", lambda: last("adult/adult.data")),
    "adult-test": ("adult", lambda: last("adult/adult.test", skip=1)),
    "australian": ("australian", lambda: last("australian_credit/australian.dat", " ")),
    "mammographic": ("mammographic", lambda: last("mammographic_mass/mammographic_masses.data")),
    "newsgroups-train": ("newsgroups", lambda: posts("train")),
    "newsgroups-test": ("newsgroups", lambda: posts("test")),
    # scikit-learn's description of the data set: 212 malignant, 357 benign.
    "wdbc": ("wdbc", lambda: Counter({"1": 212, "0": 357})),
}  # fmt: skip


def as_written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@needs_data
@pytest.mark.parametrize(
    "table",
    [pytest.param(one, marks=LARGE) if one == "covertype" else one for one in CLASSES],
)
def test_a_table_has_the_classes_of_its_file_and_two_kinds_of_column(table: str) -> None:
    name, counted = CLASSES[table]
    frame = load.TABLES[name][table]()
    entry = CATALOG[name]
    found = Counter(as_written(value) for value in frame[entry.outcome])
    assert found == counted()
    assert entry.positive in found
    assert len(found) == 2
    assert {str(dtype) for dtype in frame.dtypes} <= {"float64", "object"}
    assert list(frame.index) == list(range(len(frame)))


@needs_data
def test_the_tables_of_a_data_set_have_its_rows_together() -> None:
    for name in ("heart", "adult", "newsgroups"):
        assert sum(len(table()) for table in load.TABLES[name].values()) == CATALOG[name].rows


@needs_data
def test_german_credit_has_the_official_label_and_not_one_built_from_amount_and_duration() -> None:
    frame = load.german()
    raw = [line.split() for line in lines("german_credit/german.data")]
    assert [f"{label:g}" for label in frame["class"]] == [fields[20] for fields in raw]
    assert Counter(frame["class"]) == {1.0: 700, 2.0: 300}  # UCI's description of the data set
    # A label that amount and duration decide is the same wherever both are; UCI's is not.
    sides = frame.groupby(["amount", "duration"])["class"].nunique()
    assert (sides == 2).any()


@needs_data
@pytest.mark.parametrize(
    ("table", "path", "separator", "attributes"),
    # The numbers that the descriptions of the headerless files give to their attributes.
    [
        ("german", "german_credit/german.data", " ",
         {"checking": 1, "duration": 2, "purpose": 4, "amount": 5, "age": 13, "foreign": 20}),
        ("magic", "magic/magic04.data", ",", {"fLength": 1, "fAsym": 6, "fAlpha": 9, "fDist": 10}),
        ("spambase", "spambase/spambase.data", ",",
         {"word_freq_make": 1, "word_freq_george": 27, "word_freq_conference": 48,
          "char_freq_;": 49, "char_freq_$": 53, "capital_run_length_total": 57}),
        ("heart-cleveland", "heart_disease/processed.cleveland.data", ",",
         {"age": 1, "cp": 3, "chol": 5, "thalach": 8, "oldpeak": 10, "ca": 12, "thal": 13}),
        ("statlog_heart", "statlog_heart/heart.dat", " ", {"sex": 2, "chol": 5, "thal": 13}),
        ("adult-train", "adult/adult.data", ", ",
         {"age": 1, "fnlwgt": 3, "education-num": 5, "race": 9, "hours-per-week": 13}),
        ("mammographic", "mammographic_mass/mammographic_masses.data", ",",
         {"BI-RADS": 1, "Age": 2, "Density": 5}),
        ("australian", "australian_credit/australian.dat", " ", {"A1": 1, "A14": 14}),
    ],
)  # fmt: skip
def test_a_column_without_a_header_has_the_name_of_its_attribute(
    table: str, path: str, separator: str, attributes: dict[str, int]
) -> None:
    frame = load.TABLES[CLASSES[table][0]][table]()
    rows = [line.split(separator) for line in lines(path)]
    for name, number in attributes.items():
        written = [row[number - 1] for row in rows]
        if frame[name].dtype == object:
            assert frame[name].tolist() == written
        else:
            numbers = [float("nan") if text == "?" else float(text) for text in written]
            np.testing.assert_array_equal(frame[name], numbers)


@needs_data
def test_shoppers_are_coded_by_the_registered_order_and_not_by_appearance() -> None:
    frame = load.shoppers()
    raw = [line.split(",") for line in lines("online_shoppers/online_shoppers_intention.csv")]
    header, rows = raw[0], raw[1:]
    months = "Jan Feb Mar Apr May June Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905
    visitors = ["New_Visitor", "Returning_Visitor", "Other"]
    place = header.index
    assert [months[int(code)] for code in frame["Month"]] == [r[place("Month")] for r in rows]
    assert [visitors[int(code)] for code in frame["VisitorType"]] == [
        r[place("VisitorType")] for r in rows
    ]
    assert [("FALSE", "TRUE")[int(code)] for code in frame["Weekend"]] == [
        r[place("Weekend")] for r in rows
    ]
    # January and April have no session in the file: codes learned from rows would be others.
    assert 0.0 not in set(frame["Month"])
    assert 3.0 not in set(frame["Month"])


@needs_data
def test_numbers_are_the_nearest_doubles_of_what_is_written() -> None:
    frame = load.shoppers()
    written = [line.split(",") for line in lines("online_shoppers/online_shoppers_intention.csv")]
    for name in ("BounceRates", "ProductRelated_Duration", "PageValues"):
        column = written[0].index(name)
        assert frame[name].tolist() == [float(row[column]) for row in written[1:]]


@needs_data
@pytest.mark.parametrize("site", load.HEART_SITES)
def test_a_question_mark_in_a_number_is_missing(site: str) -> None:
    frame = load.heart(site)
    rows = [line.split(",") for line in lines(f"heart_disease/processed.{site}.data")]
    expected = np.array([[field == "?" for field in row[:13]] for row in rows])
    np.testing.assert_array_equal(frame[list(columns.HEART)].isna().to_numpy(), expected)
    assert not frame["disease"].isna().any()
    assert not any(row[13] == "?" for row in rows)


@needs_data
def test_mushrooms_have_seventeen_registered_features_and_blanks_are_unknown() -> None:
    frame = load.mushroom()
    assert list(frame.columns) == list(domains.MUSHROOM)
    raw = [line.split(";") for line in lines("secondary_mushroom/secondary_data.csv")]
    column = raw[0].index("veil-type")
    assert frame["veil-type"].tolist() == [row[column] or "?" for row in raw[1:]]
    for name, domain in domains.MUSHROOM.items():
        assert set(frame[name]) <= set(domain)
    assert {"cap-diameter", "stem-height", "stem-width"} < set(load.mushroom(numbers=True).columns)


def test_a_mushroom_value_outside_its_domain_is_unknown_and_a_class_is_an_error() -> None:
    head = ";".join(columns.MUSHROOM)
    row = "p;1.5;Z;;n;t;a;c;n;2;3;b;i;n;p;n;t;c;n;g;s"
    options: dict[str, Any] = {"separator": ";", "header": True, "outside": "?"}
    frame = read("m", f"{head}\n{row}\n".encode(), columns.MUSHROOM, domains.MUSHROOM, **options)
    assert frame.loc[0, ["cap-shape", "cap-surface", "cap-color"]].tolist() == ["?", "?", "n"]
    bad = f"{head}\nq{row[1:]}\n".encode()
    with pytest.raises(TableError, match="m, row 0: 'class' is 'q', and its registered domain"):
        read("m", bad, columns.MUSHROOM, domains.MUSHROOM, **options)


def test_a_table_of_other_columns_or_kinds_is_refused() -> None:
    with pytest.raises(TableError, match=r"expected \['a', 'b'\], found \['a', 'c'\]"):
        read("t", b"a,c\n1,2\n", ("a", "b"), header=True)
    with pytest.raises(TableError, match="is no table of its columns"):
        read("t", b"a,b\n1,x\n", ("a", "b"), header=True)
    with pytest.raises(TableError, match="is no table of its columns"):
        read("t", b"1,2\n1,2,3\n", ("a", "b"))
    with pytest.raises(TableError, match="row 1: 'b' is 'z'"):
        read("t", b"1,x\n2,z\n", ("a", "b"), {"b": ("x", "y")})


@needs_data
def test_the_bank_file_is_in_the_order_of_its_dates() -> None:
    # The paper's shift audit: 27,729 rows before the first January block, 14,862 from there to
    # the second, 2,620 after.
    january = (load.bank()["month"] == "jan").to_numpy()
    starts = np.flatnonzero(january & ~np.concatenate([[False], january[:-1]]))
    assert np.diff([0, *starts, len(january)]).tolist() == [27_729, 14_862, 2_620]


@needs_data
def test_adult_keeps_unknown_as_a_word_and_loses_the_full_stop_of_its_test_part() -> None:
    test = load.adult("test")
    assert set(test["income"]) == {"<=50K", ">50K"}
    assert (test["workclass"] == "?").sum() == sum(
        line.split(", ")[1] == "?" for line in lines("adult/adult.test")[1:]
    )


@needs_data
@pytest.mark.parametrize("part", load.PARTS)
def test_news_keep_lines_of_the_body_without_quotes_in_the_order_of_scikit_learn(part: str) -> None:
    frame = load.newsgroups(part)
    order = (Path(str(DATA)) / "newsgroups" / f"order-{part}.txt").read_text().split()
    assert frame["group"].tolist() == [float(name.startswith("sci.space")) for name in order]
    with news() as archive:
        members = {member.name: member for member in archive.getmembers()}
        for name, text in zip(order, frame["text"], strict=True):
            stream = archive.extractfile(members[f"20news-bydate-{part}/{name}"])
            assert stream is not None
            # A body may itself begin with "From:", so the lines are compared and not searched.
            # Blanks at the ends of a text are stripped with the footer, so also here.
            whole = stream.read().decode("latin1").partition("\n\n")[2]
            body = iter([line.strip() for line in whole.split("\n")])
            kept = [line.strip() for line in text.strip().split("\n")]
            assert all(line in body for line in kept), name  # in order: each look moves on
            # Only marks at the very start of a line are quotes to scikit-learn.
            assert not any(line.startswith((">", "|")) for line in text.split("\n")), name


def credit(rows: int = 40) -> pd.DataFrame:
    import pandas as pd

    rng = np.random.default_rng(3)
    names = [name for name in columns.TAIWAN if name != "ID"]
    frame = pd.DataFrame(rng.integers(-2, 9, size=(rows, len(names))).astype(float), columns=names)
    return frame.assign(LIMIT_BAL=rng.integers(1, 80, size=rows) * 10_000.0)


def test_credit_features_follow_their_definitions_row_by_row() -> None:
    raw = credit()
    raw.loc[0, ["SEX", "EDUCATION", "MARRIAGE", "LIMIT_BAL"]] = [2.0, 5.0, 3.0, 100.0]
    raw.loc[0, ["PAY_0", *(f"PAY_{k}" for k in range(2, 7))]] = [2.0, -1.0, 0.0, 3.0, 1.0, -2.0]
    raw.loc[0, [f"BILL_AMT{k}" for k in range(1, 7)]] = [50.0, -20.0, 10.0, 0.0, 8.0, 12.0]
    raw.loc[0, [f"PAY_AMT{k}" for k in range(1, 7)]] = [5.0, 1.0, 0.0, 0.0, 4.0, 2.0]
    features = with_features(raw)
    derived = [name for name in features.columns if name not in raw.columns]
    # By hand from the definitions: delays 2 -1 0 3 1 -2, bills sum to 60, payments to 12.
    expected = {
        "months_delayed": 3, "months_severely_delayed": 2, "delay_max": 3, "delay_mean": 0.5,
        "bill_total": 60, "bill_mean": 10, "payment_total": 12, "payment_mean": 2,
        "bill_first_by_limit": 0.5, "bill_mean_by_limit": 0.1, "payment_by_bill": 12 / 61,
        "bill_change": 38, "payment_change": 3, "limit_log": np.log(101.0),
        "sex_male": 0, "sex_female": 1,
        "education_1": 0, "education_2": 0, "education_3": 0, "education_4": 0,
        "education_other": 1,
        "marriage_1": 0, "marriage_2": 0, "marriage_3": 1, "marriage_other": 0,
    }  # fmt: skip
    assert derived == list(expected)
    for name, value in expected.items():
        assert features.loc[0, name] == pytest.approx(value, rel=1e-15)
    assert features.columns[-1] == "default.payment.next.month"
    alone = with_features(raw.iloc[[7]])
    np.testing.assert_array_equal(alone.to_numpy()[0], features.to_numpy()[7])


def test_winsor_limits_come_from_the_development_part_alone() -> None:
    outcome = "default.payment.next.month"
    frame = with_features(credit(400))
    frame.iloc[300:, frame.columns.get_loc("bill_total")] = np.repeat([-1e9, 1e9], 50)
    development, target = frame.iloc[:300], frame.iloc[300:]
    limits = winsor_limits(development, outcome=outcome)
    low, high = np.quantile(development["bill_total"], [0.01, 0.99])
    assert limits["bill_total"] == (low, high)
    # The published way, quantiles of all rows, would have taken its limits from the target.
    assert winsor_limits(frame, outcome=outcome)["bill_total"] == (-1e9, 1e9)
    assert winsorised(target, limits)["bill_total"].tolist() == [low] * 50 + [high] * 50
    assert target["bill_total"].iloc[0] == -1e9  # the table given is left as it was
    assert outcome not in limits
    assert "sex_male" not in limits
    assert "SEX" in limits  # eleven different values in these made-up rows, at least eight
    with pytest.raises(TableError, match="no columns of the table"):
        winsorised(target, {"else": (0.0, 1.0)})


COMPAS = """\
id,name,sex,age,race,juv_fel_count,decile_score,juv_misd_count,juv_other_count,priors_count,\
c_charge_degree,decile_score,priors_count,two_year_recid
1,"a, b",Male,69,Other,0,1,0,0,2,F,1,99,0
2,c,Female,34,African-American,0,3,0,0,0,M,3,99,1
"""
CREDIT = """\
"",SeriousDlqin2yrs,RevolvingUtilizationOfUnsecuredLines,age,NumberOfTime30-59DaysPastDueNotWorse,\
DebtRatio,MonthlyIncome,NumberOfOpenCreditLinesAndLoans,NumberOfTimes90DaysLate,\
NumberRealEstateLoansOrLines,NumberOfTime60-89DaysPastDueNotWorse,NumberOfDependents
1,1,0.766,45,2,0.803,9120,13,0,6,0,2
2,0,0.957,40,0,0.122,NA,4,0,0,0,NA
"""


def test_a_file_of_the_user_is_read_by_column_and_persons_are_not(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(COMPAS)
    frame = load.compas(file)
    assert list(frame.columns) == list(columns.COMPAS)
    assert frame["priors_count"].tolist() == [2.0, 0.0]  # the first of two columns of that name
    assert frame["race"].tolist() == ["Other", "African-American"]
    file.write_text(CREDIT)
    frame = load.give_me_some_credit(file)
    assert frame["SeriousDlqin2yrs"].tolist() == [1.0, 0.0]
    assert np.isnan(frame["MonthlyIncome"].to_numpy()).tolist() == [False, True]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("two_year_recid", "recid", "has no columns .'two_year_recid'."),
        ("Male,69", "Male,old", "row 0: 'age' holds numbers, found 'old'"),
        ("Male,69", "Male,inf", "row 0: 'age' holds numbers, found 'inf'"),
        (",Male,", ",male,", "row 0: 'sex' is 'male', and its registered domain"),
        ("2,c,", "2,", "row 1 has 13 values, and there are 14 columns"),
    ],
)
def test_a_file_of_the_user_that_is_another_is_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(COMPAS.replace(old, new))
    with pytest.raises(TableError, match=words):
        load.compas(file)


@pytest.mark.parametrize("ask", [load.adult, load.newsgroups, load.heart])
def test_a_part_that_does_not_exist_is_named(ask: Callable[[str], Any]) -> None:
    with pytest.raises(TableError, match="got 'validation'"):
        ask("validation")


def test_malignant_is_one_although_scikit_learn_calls_it_zero() -> None:
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    frame = load.wdbc()
    assert bunch.target_names[0] == "malignant"
    np.testing.assert_array_equal(frame["malignant"] == 1.0, bunch.target == 0)


def test_numbers_of_scikit_learn_that_changed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import sklearn.datasets

    bunch = sklearn.datasets.load_breast_cancer()
    bunch.data[7, 3] = np.nextafter(bunch.data[7, 3], np.inf)  # as many rows and malignant ones
    monkeypatch.setattr(sklearn.datasets, "load_breast_cancer", lambda: bunch)
    with pytest.raises(TableError, match=r"212 malignant ones and SHA-256 .*expected 569 rows"):
        load.wdbc()


def planning_risks(
    x: np.ndarray, y: np.ndarray, source: np.ndarray, planning: np.ndarray
) -> list[float]:
    """Return error, Brier risk and cost of the paper's fixed logistic on the planning rows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(solver="liblinear", max_iter=500))
    p = model.fit(x[source], y[source]).predict_proba(x[planning])[:, 1]
    truth = y[planning]
    cost = ((p < 1 / 6) & (truth == 1)) + 0.2 * ((p >= 1 / 6) & (truth == 0))
    return [float(((p >= 0.5) != truth).mean()), float(((p - truth) ** 2).mean()),
            float(cost.mean())]  # fmt: skip


@needs_data
@pytest.mark.reproduction
@pytest.mark.parametrize(
    ("name", "seed", "rows", "published"),
    # The paper's frozen source-on-planning risks, with the split that it registered.
    [
        ("cdc", 2026080201, 2500, (0.2524, 0.16943, 0.07632)),
        pytest.param("covertype", 2026080202, 5000, (0.2489, 0.17362, 0.08332), marks=LARGE),
        ("shoppers", 2026080203, 400, (0.1675, 0.12001, 0.06925)),
    ],
)
def test_the_published_planning_risks_follow_from_the_loaded_table(
    name: str, seed: int, rows: int, published: tuple[float, ...]
) -> None:
    frame = load.TABLES[name][name]()
    y = frame.pop(CATALOG[name].outcome).to_numpy()
    rng = np.random.default_rng(seed)
    classes = [rng.permutation(np.flatnonzero(y == label)) for label in (0, 1)]
    source = np.concatenate([one[:rows] for one in classes])
    planning = np.concatenate([one[rows : 2 * rows] for one in classes])
    risks = planning_risks(frame.to_numpy(), y, source, planning)
    assert risks == pytest.approx(published, abs=5.1e-6)


@needs_data
@pytest.mark.reproduction
def test_the_published_rice_limits_follow_from_the_loaded_table() -> None:
    frame = load.rice()
    y = (frame.pop("Class") == "Cammeo").to_numpy(dtype=float)
    rows = np.random.default_rng(2026080301).permutation(len(frame))
    risks = planning_risks(frame.to_numpy(), y, rows[:500], rows[500:1500])
    # The paper's limits .151, .134384 and .112 are these risks plus .08.
    assert [risk + 0.08 for risk in risks] == pytest.approx([0.151, 0.134384, 0.112], abs=5e-7)


@needs_data
@pytest.mark.reproduction
def test_the_published_text_risks_follow_from_the_loaded_documents() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB

    frame = load.newsgroups("train")
    text, y = frame["text"].to_numpy(), frame["group"].to_numpy()
    rows = np.random.default_rng(26081701).permutation(len(frame))
    source, planning = rows[:895], rows[895:]
    words = CountVectorizer(max_features=500, min_df=2, stop_words="english")
    model = MultinomialNB(alpha=1.0).fit(words.fit_transform(text[source]), y[source])
    p = model.predict_proba(words.transform(text[planning]))[:, 1]
    said, truth = p >= 0.5, y[planning] == 1
    # The paper's limits .120537 and .073557 are error and cost plus .04.
    assert (said != truth).mean() + 0.04 == pytest.approx(0.120537, abs=5e-7)
    cost = (~said & truth) + (said & ~truth) / 3
    assert cost.mean() + 0.04 == pytest.approx(0.073557, abs=5e-7)
    # 22 words tie for the last 11 of the 500 places, and which are taken depends on how numpy
    # sorts: three ways of sorting gave Brier risks .04861 to .04885, and the paper has .048884.
    assert ((p - truth) ** 2).mean() == pytest.approx(0.048884, abs=5e-4)
