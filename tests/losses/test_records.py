"""Labels of records: one spelling, one length, and no design that ignores them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import proxyguard as pg
from proxyguard.registry.numbers import canonical_label

LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.2)
N = 12
LABELS = np.repeat(["a", "b"], N // 2)
# A loss that leaves its bounds: an error about it shows that losses were read.
UNREADABLE = np.full((2, N, 1), np.nan)
STRATA = pg.Stratified(sizes={"a": 6, "b": 6}, weights={"a": "1/4", "b": "3/4"})


def fitting(design: Any) -> pg.Records:
    """Records with the labels that a design needs."""
    return pg.Records(
        strata=LABELS if isinstance(design, pg.Stratified) else None,
        clusters=LABELS if isinstance(design, pg.Clustered) else None,
    )


def stream_of(records: pg.Records) -> pg.LossStream:
    chunks = [pg.LossArray(UNREADABLE, records)]
    return pg.LossStream(chunks=chunks, n_releases=2, n_records=N, n_requirements=1)


def batches_of(records: pg.Records) -> pg.LossBatches:
    return pg.LossBatches([pg.LossArray(UNREADABLE[:1], records)])


def certify(losses: Any, design: Any, **choices: Any) -> Any:
    return pg.certify(
        losses, [LOSS], design=design, reliability_target=0.8, test="hoeffding", **choices
    )


def add_losses(records: pg.Records, design: Any) -> Any:
    score = pg.FavorableScore([LOSS], threshold="0.01", design=design, test="hoeffding")
    plan = pg.SequentialPlan(looks=(30,), reliability_target=0.8, kappa=0.01)
    return pg.SequentialAudit(plan, score).add_losses(pg.LossArray(UNREADABLE, records))


# Every way by which records come in beside their losses.
DOORS: dict[str, Callable[[pg.Records, Any], Any]] = {
    "certify": lambda records, design: certify(UNREADABLE, design, records=records),
    "certify a family": lambda records, design: certify(
        {
            "first": pg.LossArray(UNREADABLE, fitting(design)),
            "second": pg.LossArray(UNREADABLE, records),
        },
        design,
    ),
    "certify a stream": lambda records, design: certify(stream_of(records), design),
    "certify batches": lambda records, design: certify(
        batches_of(records), design, mode="collective", dependence="independent"
    ),
    "certify_releases": lambda records, design: pg.certify_releases(
        {"member": pg.NamedReleases(UNREADABLE, [LOSS], design=design, records=records)},
        test="hoeffding",
    ),
    "CandidateStream": lambda records, design: pg.CandidateStream(
        [LOSS], design=design, test="hoeffding"
    ).submit(UNREADABLE[0], records),
    "FavorableScore": lambda records, design: pg.FavorableScore(
        [LOSS], threshold="0.01", design=design, test="hoeffding"
    )(pg.LossArray(UNREADABLE, records)),
    "SequentialAudit": add_losses,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("column", "design"),
    [
        ("clusters", None),
        ("clusters", pg.Iid()),
        ("clusters", pg.Independent()),
        ("clusters", pg.WithoutReplacement(pool=100)),
        ("strata", None),
        ("strata", pg.Iid()),
        ("strata", pg.Independent()),
        ("strata", pg.WithoutReplacement(pool=100)),
        ("strata", pg.Clustered()),
        ("clusters", STRATA),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_labels_that_the_design_does_not_use_are_refused_unread(
    door: str, column: str, design: Any
) -> None:
    if door == "CandidateStream" and isinstance(design, pg.WithoutReplacement):
        design = pg.Iid()  # no stream is drawn without replacement
    fit = fitting(design)
    given: dict[str, Any] = {"strata": fit.strata, "clusters": fit.clusters, column: LABELS}
    named = "Clustered" if column == "clusters" else "Stratified"
    if given["strata"] is not None and given["clusters"] is not None:
        named = "StratifiedClusters"
    with pytest.raises(pg.LossMismatch, match=rf"records.{column} was given.*design={named}\("):
        DOORS[door](pg.Records(ids=np.arange(N), **given), design)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("column", ["ids", "strata", "clusters", "groups"])
def test_labels_of_another_length_are_refused_whether_or_not_they_are_used(
    door: str, column: str
) -> None:
    short: Any = {"g": np.ones(N - 1, dtype=bool)} if column == "groups" else LABELS[1:]
    with pytest.raises(pg.LossMismatch, match=r"has shape \(11,\), the losses have 12"):
        DOORS[door](pg.Records(**{column: short}), None)


def test_a_subgroup_that_no_requirement_names_changes_nothing() -> None:
    values = np.random.default_rng(1).random((3, N, 1))
    plain = certify(values, None, seed=1)
    named = certify(values, None, seed=1, records=pg.Records(groups={"g": LABELS == "a"}))
    assert plain.to_dict() == named.to_dict()


def test_strata_match_their_design_by_value_and_not_by_spelling() -> None:
    values = np.random.default_rng(1).random((3, N, 1))
    design = pg.Stratified(sizes={1: 6, 2: 6}, weights={1.0: "1/4", "2 ": "3/4"})
    assert dict(design.sizes) == {"1": 6, "2": 6}
    seen = [
        certify(values, design, seed=1, records=pg.Records(strata=labels)).to_dict()
        for labels in (np.repeat([1, 2], 6), np.repeat(["1", "2.0"], 6), [1.0] * 6 + ["2"] * 6)
    ]
    assert seen[0] == seen[1] == seen[2]
    with pytest.raises(pg.RegistryError, match="every stratum once"):
        pg.Stratified(sizes={1: 6, "1.0": 6}, weights={1: "1/2", "1.0": "1/2"})
    with pytest.raises(pg.RegistryError, match="every stratum once"):
        pg.Stratified(sizes={None: 6}, weights={None: 1})


def test_two_spellings_of_a_cluster_are_one_cluster() -> None:
    # Two clusters where there is one would be two independent values of one.
    values = np.random.default_rng(1).random((3, N, 1))
    spelled = np.array([1, "1.0", "1 ", b"1", 1.0, "01"] * 2, dtype=object)
    evidence = certify(values, pg.Clustered(), records=pg.Records(clusters=spelled)).evidence
    assert evidence.n_records == (1,)


def test_a_family_may_spell_its_records_differently_and_no_more() -> None:
    values = np.zeros((3, N, 1))

    def family(ids: Any) -> Any:
        first = pg.LossArray(values, pg.Records(ids=np.arange(N)))
        return certify({"a": first, "b": pg.LossArray(values, pg.Records(ids=ids))}, None)

    assert family([f"{k}.0" for k in range(N)])["a"] is not None
    with pytest.raises(pg.LossMismatch, match="record 0 is 1 in 'b' and 0 in 'a'"):
        family([str(k) for k in range(1, N + 1)])


def test_batches_that_spell_a_shared_record_differently_are_refused() -> None:
    one = np.zeros((1, 2, 1))
    first, second = pg.Records(ids=[1, 2]), pg.Records(ids=["3", "2.0"])
    with pytest.raises(pg.LossMismatch, match="record 2 is in batch 0 and in batch 1"):
        pg.LossBatches([pg.LossArray(one, first), pg.LossArray(one, second)])


def test_chunks_that_spell_a_shared_cluster_differently_are_refused() -> None:
    half = np.zeros((2, 6, 1))
    chunks = [pg.LossArray(half, pg.Records(clusters=[c] * 6)) for c in (1, "1.0")]
    losses = pg.LossStream(chunks=chunks, n_releases=2, n_records=N, n_requirements=1)
    with pytest.raises(pg.LossMismatch, match="spread over two chunks"):
        certify(losses, pg.Clustered())


@pytest.mark.parametrize(
    "later",
    [
        {"clusters": np.repeat(["a", "c"], 6)},
        {"groups": {"g": LABELS == "b"}},
        {"random_order": True},
        {"groups": {}},
    ],
    ids=str,
)
def test_a_score_keeps_the_labels_of_its_first_release(later: dict[str, Any]) -> None:
    first: dict[str, Any] = {"clusters": LABELS, "groups": {"g": LABELS == "a"}}
    score = pg.FavorableScore([LOSS], threshold="0.01", design=pg.Clustered(), test="hoeffding")
    zeros = np.zeros((1, N, 1))
    for _ in range(2):
        score(pg.LossArray(zeros, pg.Records(**first)))
    with pytest.raises(pg.LossMismatch, match="other records"):
        score(pg.LossArray(zeros, pg.Records(**(first | later))))


@given(st.integers(-(10**20), 10**20), st.data())
def test_every_spelling_of_a_whole_number_is_one_id(number: int, data: st.DataObject) -> None:
    text = str(number)
    zeros = data.draw(st.integers(0, 3))
    spelled = [
        number,
        text,
        text.encode(),
        f" {text}\t",
        f"{text}.{'0' * zeros}",
        text.replace("-", "-" + "0" * zeros) if number < 0 else "0" * zeros + text,
    ]
    assert {canonical_label(one) for one in spelled} == {text}
    with pytest.raises(pg.LossMismatch, match=r"occurs 2 times"):
        certify(
            np.zeros((1, 2, 1)),
            None,
            records=pg.Records(ids=data.draw(st.permutations(spelled))[:2]),
        )


@given(st.lists(st.one_of(st.integers(-(10**9), 10**9), st.text(min_size=1)), max_size=8))
def test_labels_keep_apart_what_the_sealed_tables_keep_apart(ids: list[Any]) -> None:
    labels = [canonical_label(one) for one in ids]
    if "" in labels:
        with pytest.raises(pg.LossMismatch, match="has no label"):
            pg.Records(ids=ids)
    else:
        assert pg.Records(ids=ids).texts("ids") == labels


@pytest.mark.parametrize(
    "strange",
    [date(2020, 1, 1), np.datetime64("2020-01-01"), object(), [1], 1j, b"\xff"],
    ids=[
        "date",
        "datetime64",
        "object",
        "list",
        "complex",
        "bytes",
    ],  # an address differs by process
)
def test_a_label_without_a_text_of_its_own_is_refused(strange: Any) -> None:
    column = np.empty(1, dtype=object)
    column[0] = strange
    with pytest.raises(pg.LossMismatch, match=r"records\.ids: record 0"):
        pg.Records(ids=column)


def test_a_column_of_timestamps_is_refused_and_not_read_as_numbers() -> None:
    with pytest.raises(pg.LossMismatch, match="write it as text"):
        pg.Records(ids=np.array(["2020-01-01"], dtype="datetime64[ns]"))
    with pytest.raises(pg.LossMismatch, match="write it as text"):
        pg.Records(ids=pd.Series(pd.to_datetime(["2020-01-01"])))


def test_labels_come_in_the_columns_that_people_have() -> None:
    for ids in (
        pd.Series(["a", "b"]),
        pd.Series(["a", "b"], dtype="category"),
        pd.Series(["a", "b"], dtype="string"),
        np.array([b"a", b"b"]),
        ("a", "b "),
    ):
        assert pg.Records(ids=ids).texts("ids") == ["a", "b"]
    for whole in ([1, 2], np.array([1, 2], dtype=np.uint64), np.array([1.0, 2.0]), range(1, 3)):
        assert pg.Records(ids=whole).texts("ids") == ["1", "2"]
    large = 2**63 + 5
    assert pg.Records(ids=np.array([large], dtype=np.uint64)).texts("ids") == [str(large)]
    assert pg.Records(ids=[True, "True "]).texts("ids") == ["True", "True"]
    assert pg.Records(ids=[UUID(int=1)]).texts("ids") == [str(UUID(int=1))]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ids": 3}, "one label a record"),
        ({"ids": "abc"}, "one label a record"),
        ({"ids": [[1], [2]]}, "shape"),
        ({"ids": np.ma.masked_array([1, 2], mask=[0, 1])}, "masked"),
        ({"groups": [True]}, "maps names of subgroups"),
        ({"groups": {"g": [1, 0]}}, "booleans"),
        ({"groups": {3: [True]}}, "needs a name"),
        ({"random_order": "yes"}, "True or False"),
    ],
    ids=str,
)
def test_records_of_the_wrong_kind_are_refused_in_words(given: dict[str, Any], said: str) -> None:
    with pytest.raises(pg.LossMismatch, match=said):
        pg.Records(**given)
