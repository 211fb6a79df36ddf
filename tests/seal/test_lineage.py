"""The store remembers records between audits, however a table was written in between."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from proxyguard.documents.ledger import Overlap
from proxyguard.errors import DiskError, SealError, TargetReused
from proxyguard.seal.lineage import STORE_FORMAT, LineageStore

N = 40


@pytest.fixture
def store(tmp_path: Path) -> LineageStore:
    return LineageStore(tmp_path / "home" / "lineage.sqlite")


def table(n: int = N) -> pd.DataFrame:
    """A table of records that all differ, whose column ``x`` tells which is which."""
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {"x": [str(i) for i in range(n)], "y": ["yes" if i % 3 else "no" for i in range(n)],
         "z": [f"{value:.6f}" for value in rng.normal(size=n)]},
        dtype=object,
    )  # fmt: skip


def remember(
    store: LineageStore,
    audit: str,
    frame: pd.DataFrame,
    roles: Mapping[str, Sequence[int]],
    *,
    confirmed: bool = True,
    member: str = "main",
) -> None:
    """Record rows of a frame, by position, as an audit of the name ``audit`` does."""
    prints = store.table(frame)
    store.remember(
        audit,
        f"the audit {audit}",
        {(member, role): prints.records(list(rows)) for role, rows in roles.items()},
    )
    if confirmed:
        store.confirm(audit)


def meeting(store: LineageStore, audit: str, role: str, other: str) -> list[Overlap]:
    name = f"the audit {other}"
    return [o for o in store.overlaps(audit, {}) if (o.audit, o.role) == (name, role)]


def test_reuse_is_found_through_a_shuffle_another_column_order_and_other_types(
    store: LineageStore,
) -> None:
    remember(store, "one", table(), {"target": range(10), "training": range(10, N)})
    store.open("target one", audit="one", registry="r", releases="d")

    order = np.random.default_rng(7).permutation(N)
    again = table().iloc[order][["y", "x", "z"]].reset_index(drop=True)
    again["x"] = again["x"].astype(np.float64)  # 1 became 1.0
    target = list(range(15))
    remember(store, "two", again, {"target": target, "training": range(15, N)})

    were = order[target]  # the rows of the first table that these records are
    (old_target,) = meeting(store, "two", "target", "one")
    (old_training,) = meeting(store, "two", "training", "one")
    assert old_target.shared == int((were < 10).sum()) > 0
    assert old_training.shared == int((were >= 10).sum()) > 0
    assert old_target.twins == old_target.shared  # no two records are equal
    assert (old_target.records, old_training.records) == (10, 30)
    for overlap in (old_target, old_training):
        assert overlap.same_table
        assert not overlap.same_audit
        assert overlap.opened
        assert overlap.reused


def test_the_text_1_0_and_the_text_1_are_one_record(store: LineageStore) -> None:
    remember(store, "one", table(), {"target": range(10)})
    written = table()
    written["x"] = [f" {float(text):.1f}" for text in written["x"]]
    remember(store, "two", written, {"target": range(5, 15)})
    (overlap,) = meeting(store, "two", "target", "one")
    assert (overlap.same_table, overlap.shared, overlap.twins) == (True, 5, 5)


def test_an_old_target_that_was_never_opened_is_met_and_not_reused(store: LineageStore) -> None:
    remember(store, "one", table(), {"target": range(10)})
    remember(store, "two", table(), {"target": range(10)})
    (overlap,) = meeting(store, "two", "target", "one")
    assert (overlap.shared, overlap.opened, overlap.reused) == (10, False, False)
    store.open("target one", audit="one", registry="r", releases="d")
    (overlap,) = meeting(store, "two", "target", "one")
    assert (overlap.shared, overlap.opened, overlap.reused) == (10, True, True)


def test_a_record_that_trained_something_is_reused_whether_or_not_a_target_was_opened(
    store: LineageStore,
) -> None:
    remember(store, "one", table(), {"target": range(10), "training": range(10, N)})
    remember(store, "two", table(), {"target": [39]})
    (overlap,) = meeting(store, "two", "training", "one")
    assert (overlap.shared, overlap.opened, overlap.reused) == (1, False, True)
    assert meeting(store, "two", "target", "one") == []  # no record in common, none equal


def test_a_few_equal_values_of_another_table_are_twins_and_never_shared(
    store: LineageStore,
) -> None:
    longer = pd.concat([table(), table(1).assign(y="maybe")], ignore_index=True)
    remember(store, "one", longer, {"target": range(10), "training": range(10, N + 1)})
    store.open("target one", audit="one", registry="r", releases="d")
    remember(store, "two", table(), {"target": range(4, 12)})
    (old_target,) = meeting(store, "two", "target", "one")
    (old_training,) = meeting(store, "two", "training", "one")
    assert (old_target.shared, old_target.twins) == (0, 6)
    assert (old_training.shared, old_training.twins) == (0, 2)
    for overlap in (old_target, old_training):
        assert not overlap.same_table
        assert not overlap.reused


def test_tables_without_an_equal_record_do_not_meet(store: LineageStore) -> None:
    remember(store, "one", table(), {"target": range(10)})
    remember(store, "two", table().assign(y="maybe"), {"target": range(10)})
    assert store.overlaps("two", {}) == []


def test_an_audit_that_was_not_confirmed_does_not_count(store: LineageStore) -> None:
    remember(store, "killed", table(), {"training": range(N)}, confirmed=False)
    remember(store, "two", table(), {"target": range(10)})
    assert store.overlaps("two", {}) == []
    store.confirm("killed")
    assert [o.shared for o in store.overlaps("two", {})] == [10]


def test_an_audit_sealed_again_after_a_kill_counts_once(store: LineageStore) -> None:
    remember(store, "one", table(), {"training": range(N)}, confirmed=False)
    remember(store, "one", table(), {"training": range(5)})
    remember(store, "two", table(), {"target": range(10)})
    assert [(o.records, o.shared) for o in store.overlaps("two", {})] == [(5, 5)]


def test_parts_of_one_audit_meet_even_where_nothing_is_shared(store: LineageStore) -> None:
    frame = pd.concat([table(4), table(4)], ignore_index=True)  # every record twice
    remember(store, "one", frame, {"target": [0, 1, 2], "training": [3, 4, 5, 6, 7]})
    (overlap,) = store.overlaps("one", {("main", "training"): 2.5})
    # Rows 4, 5 and 6 equal the target's, and are other records.
    assert (overlap.shared, overlap.twins, overlap.same_audit) == (0, 3, True)
    assert overlap.expected_twins == "2.5"  # as the caller worked out for this very role
    assert overlap.to_dict() == {
        "audit": "the audit one",
        "member": "main",
        "role": "training",
        "same_table": True,
        "records": 5,
        "shared": 0,
        "twins": 3,
        "expected_twins": "2.5",
        "excess": False,
        "columns": "all columns",
        "same_audit": True,
        "opened": False,
        "reused": False,
    }


def test_twins_expected_of_another_table_follow_from_repeats_on_both_sides(
    store: LineageStore,
) -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=60)

    def crowded(n: int) -> pd.DataFrame:
        chosen = rng.choice(values, size=n)
        return pd.DataFrame({"x": chosen, "y": np.sin(chosen)})

    remember(store, "one", crowded(400), {"training": range(400)})
    remember(store, "two", crowded(100), {"target": range(100)})
    (overlap,) = store.overlaps("two", {("main", "training"): 99.0})
    assert overlap.twins > 90
    assert float(overlap.expected_twins) == pytest.approx(overlap.twins, rel=0.1)
    assert not overlap.excess


CHANGES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "a row less": lambda t: t.iloc[1:],
    "a column added": lambda t: t.assign(new=np.arange(len(t)) ** 0.5),
    "a column dropped": lambda t: t.drop(columns="weight"),
    "a column renamed": lambda t: t.rename(columns={"weight": "mass"}),
    "a column coded otherwise": lambda t: t.assign(smokes=t["smokes"].map({"y": "1", "n": "0"})),
    "all renamed and one added": lambda t: t.set_axis(list("pqrs"), axis=1).assign(
        new=np.arange(len(t)) ** 0.5
    ),
    "one dropped and one added": lambda t: t.drop(columns="age").assign(new=np.sqrt(t["weight"])),
    "constants and counters added": lambda t: t.assign(
        source="x", version=1, number=np.arange(len(t)), label=[f"R{i:04}" for i in range(len(t))]
    ),
    "every row twice": lambda t: pd.concat([t, t]),
    "hidden among copies of one row": lambda t: pd.concat([t, *[t.iloc[:1]] * 600]),
    "half of the rows": lambda t: t.iloc[: len(t) // 2],
}


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "weight": rng.normal(75, 10, n).round(1),
            "height": rng.normal(170, 9, n).round(1),
            "age": rng.integers(18, 90, n),
            "smokes": rng.choice(["y", "n"], n),
        }
    )


@pytest.mark.parametrize("change", CHANGES)
def test_an_opened_target_is_known_again_whatever_was_done_to_its_table(
    store: LineageStore, change: str
) -> None:
    target = people(300, 1)
    remember(store, "one", target, {"target": range(300)})
    store.open("target one", audit="one", registry="r", releases="d")
    again = CHANGES[change](target.sample(frac=1.0, random_state=2).reset_index(drop=True))
    remember(store, "two", again, {"target": range(len(again))})
    (overlap,) = meeting(store, "two", "target", "one")
    assert overlap.shared == 0
    assert overlap.twins == len(again)
    assert float(overlap.expected_twins) < 5
    assert overlap.excess
    assert overlap.reused
    # The other way round: the first was not opened yet when the second was.
    store.open("target two", audit="two", registry="r", releases="d")
    (overlap,) = meeting(store, "one", "target", "two")
    assert overlap.reused


@pytest.mark.parametrize("change", CHANGES)
def test_fresh_records_of_the_same_population_are_fresh(store: LineageStore, change: str) -> None:
    remember(store, "one", people(300, 1), {"target": range(300)})
    store.open("target one", audit="one", registry="r", releases="d")
    fresh = CHANGES[change](people(300, 7))
    remember(store, "two", fresh, {"target": range(len(fresh))})
    assert [o for o in store.overlaps("two", {}) if o.excess or o.reused] == []


def test_two_targets_of_one_audit_meet_each_other(store: LineageStore) -> None:
    for member, rows in (("main", range(10)), ("second", range(8, 20))):
        remember(store, "one", table(), {"target": rows}, member=member)
    found = store.overlaps("one", {})
    assert [(o.member, o.role, o.shared) for o in found] == [
        ("second", "target", 2),
        ("main", "target", 2),
    ]


def test_records_are_kept_as_keyed_fingerprints_only(tmp_path: Path) -> None:
    path = tmp_path / "lineage.sqlite"
    store = LineageStore(path)
    frame = pd.DataFrame({"x": ["a value that must not be seen"]})
    remember(store, "one", frame, {"target": [0]})
    assert b"must not be seen" not in path.read_bytes()
    other = LineageStore(tmp_path / "other.sqlite")
    assert other.table(frame).prints[0] != store.table(frame).prints[0]
    assert LineageStore(path).table(frame).prints[0] == store.table(frame).prints[0]


def test_a_target_is_opened_again_for_its_declaration_and_for_no_other(
    store: LineageStore,
) -> None:
    first = {"audit": "one", "registry": "a" * 64, "releases": "b" * 64}
    store.open("target", **first)
    store.open("target", **first)  # a killed run that goes on
    for change in ({"registry": "c" * 64}, {"releases": "c" * 64}, {"audit": "two"}):
        with pytest.raises(TargetReused, match=r"registry a{16}\.\.\. and releases b{16}\.\.\."):
            store.open("target", **{**first, **change})
    store.open("target", **first)  # a refusal changed nothing
    store.open("another target", **{**first, "registry": "c" * 64})


def test_of_many_threads_one_opens_the_target(tmp_path: Path) -> None:
    path = tmp_path / "lineage.sqlite"

    def attempt(number: int) -> tuple[bytes, bool]:
        store = LineageStore(path)
        seen = store.table(table(1)).prints.tobytes()
        try:
            store.open("target", audit="one", registry=f"{number}", releases="d")
        except TargetReused:
            return seen, False
        return seen, True

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(attempt, range(16)))
    assert sum(opened for _, opened in found) == 1
    assert len({seen for seen, _ in found}) == 1  # one key, whoever made the store


def test_of_several_processes_one_opens_the_target(tmp_path: Path) -> None:
    code = (
        "import json, sys; from pathlib import Path; import pandas as pd\n"
        "from proxyguard.errors import TargetReused\n"
        "from proxyguard.seal.lineage import LineageStore\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "store = LineageStore(Path(sys.argv[1])); opened = True\n"
        "try: store.open('target', audit='one', registry=sys.argv[2], releases='d')\n"
        "except TargetReused: opened = False\n"
        "print(json.dumps([opened, store._key.hex()]))\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "lineage.sqlite"), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = [json.loads(process.communicate(timeout=60)[0]) for process in running]
    assert sorted(opened for opened, _ in found) == [False, False, True]
    assert len({key for _, key in found}) == 1


@pytest.mark.parametrize("content", [b"no database " * 100, b"SQLite format 3\x00" + b"\xff" * 500])
def test_a_file_that_is_no_store_is_refused_by_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lineage.sqlite"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(SealError, match=r"the lineage store .*lineage\.sqlite cannot be used"):
        LineageStore(path)
    assert path.read_bytes() == content


def test_a_store_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lineage.sqlite"
    store = LineageStore(path)
    remember(store, "one", table(), {"target": range(N)})
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SealError, match="cannot be used"):
        LineageStore(path)
    with pytest.raises(SealError, match="cannot be used"):
        store.overlaps("one", {})


def test_a_folder_in_place_of_the_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="is not usable: Is a directory"):
        LineageStore(tmp_path)


def test_a_store_that_another_process_holds_can_be_used_later(
    store: LineageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr("sqlite3.connect", lambda path, timeout: connect(path, timeout=0.0))
    other = connect(tmp_path / "home" / "lineage.sqlite")
    other.execute("begin exclusive")
    with pytest.raises(DiskError, match=r"lineage\.sqlite is not usable: database is locked"):
        store.confirm("one")
    other.close()
    store.confirm("one")


def test_another_format_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "lineage.sqlite"
    LineageStore(path)
    base = sqlite3.connect(path)
    with base:
        base.execute("update store set format = ?", (STORE_FORMAT + 1,))
    base.close()
    words = f"format {STORE_FORMAT + 1}; this version reads {STORE_FORMAT}"
    with pytest.raises(SealError, match=words):
        LineageStore(path)
