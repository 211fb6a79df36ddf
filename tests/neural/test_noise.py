"""Counter-based noise: known answers, laws, and independence of the company of a draw."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from proxyguard.neural import noise  # noqa: E402 - after the skip
from proxyguard.neural.noise import Purpose, Streams, philox  # noqa: E402

# Known answers that are published with the generator (Random123, kat_vectors, philox 4x32 10).
ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def words(text: str) -> list[torch.Tensor]:
    return [torch.tensor([int(word, 16)]) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "answer"), ANSWERS)
def test_philox_gives_its_published_answers(counter: str, key: str, answer: str) -> None:
    assert [int(word) for word in philox(words(counter), words(key))] == [
        int(word, 16) for word in answer.split()
    ]


def test_a_draw_has_the_same_numbers_alone_and_in_any_company() -> None:
    seeds = [3, 2**40 + 7, 3 + 2**32, 11]
    together = Streams(seeds).normal(Purpose.LATENT, 5, (50_000,))
    for i, seed in enumerate(seeds):
        assert torch.equal(Streams([seed]).normal(Purpose.LATENT, 5, (50_000,))[0], together[i])
    assert torch.equal(
        Streams(seeds).part(1, 3).normal(Purpose.LATENT, 5, (50_000,)), together[1:3]
    )


def test_seed_use_and_step_each_give_other_numbers() -> None:
    def bits(seed: int, use: Purpose, step: int) -> tuple[int, ...]:
        return tuple(Streams([seed]).bits(use, step, (8,))[0].tolist())

    all_bits = {
        bits(seed, use, step)
        for seed in (0, 1, 2**32)
        for use in list(Purpose)
        for step in (0, 1, 99)
    }
    assert len(all_bits) == 3 * len(Purpose) * 3


def test_a_step_may_be_a_tensor_that_is_counted_up() -> None:
    step = torch.tensor(7)
    assert torch.equal(
        Streams([5]).uniform(Purpose.TIME, step, (9,)), Streams([5]).uniform(Purpose.TIME, 7, (9,))
    )


def test_uniform_and_normal_numbers_have_their_laws() -> None:
    noise = Streams(range(20))
    uniform = noise.uniform(Purpose.START, 0, (50, 1001)).numpy().ravel()
    assert uniform.min() > 0.0
    assert uniform.max() < 1.0
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    normal = noise.normal(Purpose.START, 1, (50, 1001)).double().numpy()
    assert stats.kstest(normal.ravel(), "norm").pvalue > 1e-3
    assert np.isfinite(normal).all()
    # Beyond what 24 bits could reach, with the frequency of the normal law.
    assert (np.abs(normal) > 4.0).mean() == pytest.approx(6.3e-5, rel=0.5)
    between_draws = np.corrcoef(normal.reshape(20, -1))
    assert np.abs(between_draws - np.eye(20)).max() < 5.0 / np.sqrt(normal[0].size)


@pytest.mark.parametrize("word", [0, 2**32 - 1])
def test_a_uniform_number_is_neither_0_nor_1_whatever_the_bits(
    word: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A logarithm is taken of it, and of what is left to 1.
    monkeypatch.setattr(Streams, "bits", lambda *_: torch.full((1, 1), word))
    assert 0.0 < float(Streams([1]).uniform(Purpose.GUMBEL, 0, (1,))) < 1.0


def test_a_permutation_holds_every_row_once_and_each_order_as_often() -> None:
    orders = Streams(range(6000)).permutation(Purpose.SHUFFLE, 0, 3)
    assert torch.equal(orders.sort(dim=1).values, torch.arange(3).expand(6000, 3))
    counts = np.unique(orders.numpy() @ np.array([9, 3, 1]), return_counts=True)[1]
    assert counts.size == 6
    assert stats.chisquare(counts).pvalue > 1e-3


def test_no_numbers_are_asked_for_where_a_table_has_no_column_of_a_kind() -> None:
    assert Streams([1, 2]).uniform(Purpose.CATEGORY, 0, (5, 0)).shape == (2, 5, 0)


@pytest.mark.parametrize("cached", [1, 7, 1 << 15])
def test_the_words_in_a_cache_are_those_of_philox(
    monkeypatch: pytest.MonkeyPatch, cached: int
) -> None:
    monkeypatch.setattr(noise, "CACHED", cached)
    seeds = [3, 2**64 - 1, 2**40 + 5]
    bits = Streams(seeds).bits(Purpose.LATENT, 2**31 + 9, (5, 9)).reshape(3, 45)
    words = [torch.tensor(w).reshape(-1) for w in (range(12), [0], [2**31 + 9], [Purpose.LATENT])]
    keys = torch.tensor([[seed & noise.MASK, seed >> 32] for seed in seeds])
    lanes = torch.stack(philox(words, (keys[:, :1], keys[:, 1:])), dim=1)
    assert torch.equal(bits, lanes.reshape(3, 48)[:, :45])


@pytest.mark.gpu
@pytest.mark.parametrize("step", [0, 7, 2**31 + 9])
def test_a_gpu_has_the_integers_of_a_cpu_and_its_floats_to_the_last_bits(step: int) -> None:
    seeds = [3, 2**64 - 1, 2**40 + 5]
    there, here = Streams(seeds, torch.device("cuda")), Streams(seeds)
    for use in Purpose:
        for shape in ((1,), (5, 9), (1 << 17,)):
            assert torch.equal(there.bits(use, step, shape).cpu(), here.bits(use, step, shape))
    for law in (Streams.uniform, Streams.normal):
        both = [law(one, Purpose.LATENT, step, (1 << 17,)).cpu() for one in (there, here)]
        torch.testing.assert_close(*both, rtol=1e-5, atol=1e-5)
    orders = [one.permutation(Purpose.SHUFFLE, step, 500).cpu() for one in (there, here)]
    assert torch.equal(*orders)
