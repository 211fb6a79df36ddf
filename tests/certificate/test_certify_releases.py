"""Named releases, each member on its own target, one Holm family (Theorem 4)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import proxyguard as pg
from proxyguard.evidence.releases import ReleaseEvidence
from proxyguard.exact.multiplicity import holm, holm_adjusted

HIT = pg.Requirement(name="hit", low=0, high=1, limit=0.2, two_valued=True)
REGRET = pg.Requirement(name="regret", low=-1, high=1, limit=0.1, form="relative")
VALIDATED, UNRESOLVED, VIOLATION = (
    pg.Decision.VALIDATED, pg.Decision.UNRESOLVED, pg.Decision.VIOLATION,
)  # fmt: skip

LOSS = pg.Requirement(name="loss", low=0, high=1, limit=0.2)


def hits(*rates: float, n: int = 300, seed: int = 1) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    return (rng.random((len(rates), n, 1)) < np.array(rates)[:, None, None]).astype(float)


def members() -> dict[str, pg.NamedReleases]:
    regret = np.clip(np.random.default_rng(2).normal(-0.1, 0.1, (2, 500)), -1, 1)
    strata = pg.Stratified(sizes={"a": 100, "b": 150}, weights={"a": "1/2", "b": "1/2"})
    return {
        "table": pg.NamedReleases(hits(0.05, 0.19, 0.5), [HIT]),
        "paired": pg.NamedReleases(
            np.stack([hits(0.05, 0.05, n=500)[:, :, 0], regret], axis=2), [HIT, REGRET]
        ),
        "survey": pg.NamedReleases(
            hits(0.01, n=250),
            [HIT],
            design=strata,
            records=pg.Records(strata=np.repeat(["a", "b"], [100, 150])),
        ),
        "tiny": pg.NamedReleases(hits(0.0, n=5), [HIT]),
    }


def test_one_holm_family_over_all_members() -> None:
    certificate = pg.certify_releases(members(), seed=3)
    pvalues = [v.pvalue for v in certificate.verdicts]
    assert [v.decision is VALIDATED for v in certificate.verdicts] == holm(
        pvalues, alpha=0.05
    ).tolist()
    np.testing.assert_allclose(
        [v.adjusted for v in certificate.verdicts], holm_adjusted(pvalues), rtol=1e-12
    )
    assert [(v.member, v.release, v.decision) for v in certificate.verdicts] == [
        ("table", "0", VALIDATED),
        ("table", "1", UNRESOLVED),
        ("table", "2", VIOLATION),
        ("paired", "0", VALIDATED),
        ("paired", "1", VALIDATED),
        ("survey", "0", VALIDATED),
        ("tiny", "0", UNRESOLVED),
    ]
    assert certificate.validated == ("table/0", "paired/0", "paired/1", "survey/0")


def test_each_member_keeps_its_design_size_and_requirements() -> None:
    evidence = pg.certify_releases(members(), seed=3).evidence
    assert {name: e.n_records for name, e in evidence.items()} == {
        "table": (300,),
        "paired": (500, 500),
        "survey": (250,),
        "tiny": (5,),
    }
    assert [t.value for t in evidence["survey"].tests] == ["betting_fixed"]
    assert [t.value for t in evidence["paired"].tests] == ["binomial", "betting"]


def test_a_release_is_only_as_certain_as_its_worst_requirement() -> None:
    certificate = pg.certify_releases(members(), seed=3)
    for verdict, row in zip(
        certificate.verdicts[3:5], certificate.evidence["paired"].pvalues, strict=True
    ):
        assert verdict.pvalue == row.max()
        assert verdict.binding == ("hit", "regret")[int(row.argmax())]


def test_violations_are_one_holm_family_over_releases_and_requirements() -> None:
    certificate = pg.certify_releases(members(), seed=3, beta="0.01")
    q = np.concatenate([e.violation_pvalues.ravel() for e in certificate.evidence.values()])
    assert holm(q, alpha=0.01).sum() == 1
    assert [v.violated for v in certificate.verdicts if v.violated] == [("hit",)]
    silent = pg.certify_releases(members(), seed=3, beta=None)
    assert not any(v.violated for v in silent.verdicts)
    assert silent.verdicts[2].decision is UNRESOLVED


def test_the_text_says_theorem_family_and_what_is_not_claimed() -> None:
    text = str(pg.certify_releases(members(), seed=3))
    for part in (
        "4 of 7 named releases validated",
        "With 95 % confidence, every validated release",
        "Theorem 4",
        "Holm",
        "table/2: violation",
        "violates 'hit': ",
        "Violations are called with 95 % confidence, separately.",
        "Not claimed: anything about fresh releases of a mechanism",
        "choices asserted by the caller",
    ):
        assert part in text, part
    assert "reliab" not in text


def test_relative_only_releases_meet_the_relative_transfer_requirements() -> None:
    values = np.full((1, 400, 1), -0.2)
    text = str(pg.certify_releases({"t": pg.NamedReleases(values, [REGRET])}, seed=1))
    assert "meets the relative-transfer requirement 'regret'" in text


def test_a_release_found_both_valid_and_violated_is_unresolved() -> None:
    # Rows called random that are not.
    drift = np.ones((1, 2000, 1))
    drift[:, :100] = 0.0
    plain = pg.Requirement(name="x", low=0, high=1, limit=0.5)
    member = pg.NamedReleases(drift, [plain], records=pg.Records(random_order=True))
    verdict = pg.certify_releases({"t": member}).verdicts[0]
    assert verdict.adjusted < 0.05
    assert verdict.violated == ("x",)
    assert verdict.decision is UNRESOLVED


@pytest.mark.parametrize("field", ["to_dict", "to_frame"])
def test_verdicts_convert(field: str) -> None:
    certificate = pg.certify_releases(members(), seed=3)
    made: Any = getattr(certificate, field)()
    if field == "to_frame":
        assert made.groupby("mechanism").size().to_dict() == {
            "paired": 4, "survey": 1, "table": 3, "tiny": 1,
        }  # fmt: skip
    else:
        assert [v["decision"] for v in made["verdicts"]] == [
            v.decision.value for v in certificate.verdicts
        ]
        assert made["rests_on"] == "Theorem 4"


def test_a_family_needs_a_member() -> None:
    with pytest.raises(pg.RegistryError, match="needs at least one"):
        pg.certify_releases({})


def test_the_same_seed_gives_the_same_verdicts() -> None:
    plain = {
        "t": pg.NamedReleases(hits(0.1, 0.1), [pg.Requirement(name="x", low=0, high=1, limit=0.2)])
    }
    a, b, c = (pg.certify_releases(plain, seed=s).verdicts for s in (5, 5, 6))
    assert a == b
    assert a != c


def test_the_seed_of_named_releases_is_recorded() -> None:
    certificate = pg.certify_releases(
        {"t": pg.NamedReleases(np.full((1, 50, 1), 0.1), [LOSS])}, seed=77
    )
    assert "(seed 77, given by the caller)" in str(certificate)
    assert certificate.to_dict()["seed"] == 77


def test_members_with_different_requirements_are_said_to_meet_all_their_own() -> None:
    other = pg.Requirement(name="other", low=0, high=1, limit=0.3)
    values = np.full((1, 200, 1), 0.01)
    text = str(
        pg.certify_releases(
            {"a": pg.NamedReleases(values, [LOSS]), "b": pg.NamedReleases(values, [other])}
        )
    )
    assert "all 2 requirements" not in text  # no release has two


def test_where_nothing_was_validated_nothing_is_promised() -> None:
    text = str(pg.certify_releases({"t": pg.NamedReleases(hits(0.19), [HIT])}, seed=1))
    assert "0 of 1 named release validated" in text
    assert "No release was validated; " in text
    assert "not evidence of a violation" in text
    assert "every validated release" not in text


def test_evidence_is_passed_over_equally_often_however_many_releases_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A pass costs as much as there are releases: one more for each release is quadratic.
    passes: Counter[str] = Counter()
    computed = {k: v for k, v in vars(ReleaseEvidence).items() if isinstance(v, property)}

    def counted(name: str, compute: Any) -> property:
        return property(lambda evidence: (passes.update([name]), compute(evidence))[1])

    for name, known in computed.items():
        monkeypatch.setattr(ReleaseEvidence, name, counted(name, known.fget))

    def passes_with(releases: int) -> dict[str, int]:
        passes.clear()
        pg.certify_releases({"table": pg.NamedReleases(hits(*[0.1] * releases), [HIT])}, seed=1)
        return dict(passes)

    assert passes_with(60) == passes_with(3)


SEASONS = ["spring", "autumn", "winter"]


def test_losses_on_one_target_bring_the_names_of_their_releases() -> None:
    losses = hits(0.05, 0.19, 0.5)
    certificate = pg.certify_releases(losses, [HIT], names=SEASONS, seed=3)
    assert [verdict.release for verdict in certificate.verdicts] == SEASONS
    assert certificate.validated == ("target/spring",)
    assert certificate.sentence.startswith(
        "With 95 % confidence, every validated release (target/spring) meets"
    )
    assert list(certificate.to_frame().release) == SEASONS
    text, page = str(certificate), certificate.to_html()
    for name in SEASONS:
        assert f"  target/{name}: " in text
        assert f"target/{name}" in page
    # A name changes no verdict: numbered, and as the one member of a family.
    numbered = pg.certify_releases(losses, [HIT], seed=3)
    family = pg.certify_releases({"target": pg.NamedReleases(losses, [HIT], names=SEASONS)}, seed=3)
    assert [v.pvalue for v in numbered.verdicts] == [v.pvalue for v in certificate.verdicts]
    assert numbered.validated == ("target/0",)
    assert str(family) == str(certificate)


def test_many_names_are_listed_and_stand_in_no_sentence() -> None:
    names = [f"table {k}" for k in range(6)]
    many = pg.certify_releases(hits(*[0.02] * 6), [HIT], names=names, seed=3)
    assert len(many.validated) == 6
    assert "every validated release meets" in many.sentence


@pytest.mark.parametrize(("names", "words"), [
    (SEASONS[:2], "need 3 different release names, one for each row of the losses, got 2"),
    ([*SEASONS[:2], "spring"], "got 3; 'spring' stands there twice"),
    ([*SEASONS[:2], 3], "texts that are not empty, got 3"),
    ([*SEASONS[:2], " "], "texts that are not empty, got ' '"),
    ("abc", "release names are a list, got 'abc'"),
])  # fmt: skip
def test_names_are_different_texts_and_as_many_as_releases(names: Any, words: str) -> None:
    with pytest.raises(pg.LossMismatch, match=words):
        pg.certify_releases(hits(0.1, 0.1, 0.1), [HIT], names=names)


def test_names_stand_where_nothing_else_names_the_releases() -> None:
    losses = hits(0.1, 0.1, 0.1)
    with pytest.raises(pg.LossMismatch, match="leave out names, which are for plain arrays"):
        pg.certify_releases(pg.LossArray(losses), [HIT], names=SEASONS)
    frame = pg.certify_releases(losses, [HIT], names=SEASONS).to_frame()
    wide = frame.pivot_table(columns="release", values="estimate")
    with pytest.raises(pg.LossMismatch, match="leave out names, which are for plain arrays"):
        pg.certify_releases(wide, [HIT], names=SEASONS)
    with pytest.raises(pg.RegistryError, match="losses on one target need their requirements"):
        pg.certify_releases(losses, names=SEASONS)
    for beside in ({"names": SEASONS}, {"requirements": [HIT]}, {"design": pg.Iid()}):
        with pytest.raises(pg.RegistryError, match="each member of a family has requirements"):
            pg.certify_releases({"a": pg.NamedReleases(losses, [HIT])}, **beside)
