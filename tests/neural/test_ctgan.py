"""CTGAN of many draws: gradients against automatic ones, laws, and independence of the company."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from torch import Tensor  # noqa: E402 - after the skip
from torch.nn import functional  # noqa: E402

from conftest import Effort  # noqa: E402
from neural.plain_ctgan import PlainCtgan  # noqa: E402
from proxyguard.adapters.networks import CtganSettings  # noqa: E402
from proxyguard.neural.batched import chosen_device, reproducible  # noqa: E402
from proxyguard.neural.ctgan import (  # noqa: E402
    CtganNetworks,
    FlatAdam,
    RowConditions,
    bytes_of_draw,
    draw_tables,
)
from proxyguard.neural.encoding import EncodedTables, encode  # noqa: E402
from proxyguard.neural.noise import Purpose, Streams  # noqa: E402
from proxyguard.neural.releases import SampledTable, TrainingTables, WantedCodes  # noqa: E402

SMALL = CtganSettings(
    embedding=5, generator=(16, 9), critic=(13, 7), epochs=4, batch_size=20, pac=5
)


def arrays(
    draws: int, rows: int, numbers: int, sizes: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return training tables: numbers in two heaps, of which one goes with the categories."""
    rng = np.random.default_rng(5)
    codes = np.stack([rng.integers(0, k, (draws, rows)) for k in sizes], -1) if sizes else (
        np.empty((draws, rows, 0), dtype=np.int64)
    )  # fmt: skip
    heaps = rng.integers(0, 2, (draws, rows, numbers))
    return rng.normal(5.0 * heaps, 1.0 - 0.5 * heaps), codes


def training(draws: int, rows: int, numbers: int, sizes: Sequence[int]) -> EncodedTables:
    values, codes = arrays(draws, rows, numbers, sizes)
    return encode(
        torch.from_numpy(values), torch.from_numpy(codes), tuple(sizes), Streams(range(draws))
    )


def tensors(network: CtganNetworks) -> list[Tensor]:
    """Return all that a network has learned."""
    learned = [*network.generator.adam.parameters, *network.critic.adam.parameters]
    return [*learned, *network.generator.means, *network.generator.variances]


@pytest.mark.parametrize(
    ("numbers", "sizes", "settings"),
    [
        (3, (2, 3, 2), SMALL),
        (2, (), SMALL),
        (0, (4, 3), replace(SMALL, critic_steps=2)),
        (1, (1,), replace(SMALL, pac=1, generator=(6,), critic=(3,))),
        (2, (2,), replace(SMALL, generator=(17, 1), critic=(17, 1))),
    ],
    ids=["mixed", "numbers alone", "categories alone", "one layer", "widths of one"],
)
def test_a_draw_learns_and_gives_the_same_bits_alone_and_in_company(
    numbers: int, sizes: tuple[int, ...], settings: CtganSettings
) -> None:
    encoded = training(5, 31, numbers, sizes)
    together = CtganNetworks(encoded, Streams(range(5)), settings)
    together.train()
    rows = together.sample(range(5), 33)
    for i in range(5):
        alone = CtganNetworks(encoded.at(torch.tensor([i])), Streams([i]), settings)
        alone.train()
        for whole, single in zip(tensors(together), tensors(alone), strict=True):
            assert torch.equal(whole[i], single[0])
        again = alone.sample([0], 33)
        assert np.array_equal(rows.numbers[i], again.numbers[0])
        assert np.array_equal(rows.codes[i], again.codes[0])


# The gradients, written out in the product, against automatic differentiation.


def critic_scores(
    parameters: Sequence[Tensor], groups: Tensor, words: Tensor, settings: CtganSettings
) -> Tensor:
    """Return the scores of one draw's groups by plain operations; no bias at the end."""
    kept = (words >= settings.dropout * 2.0**32).float() / (1.0 - settings.dropout)
    masks = kept.split(list(settings.critic), dim=1)
    for layer, mask in enumerate(masks):
        weight, bias = parameters[2 * layer : 2 * layer + 2]
        groups = functional.leaky_relu(groups @ weight + bias, settings.slope) * mask
    return groups @ parameters[-1]


def learning(
    numbers: int, sizes: tuple[int, ...]
) -> tuple[CtganNetworks, list[tuple[Tensor, ...]]]:
    """Return networks after two steps, and what is handed to their gradients from then on."""
    network = CtganNetworks(training(3, 40, numbers, sizes), Streams(range(3)), SMALL)
    network.step()
    network.step()
    seen: list[tuple[Tensor, ...]] = []
    for owner, name in (
        (network.critic, "trace"), (network.critic, "slope"), (network.generator, "trace"),
    ):  # fmt: skip
        run = getattr(owner, name)

        def watched(*given: Tensor, run=run) -> Tensor:
            seen.append(tuple(tensor.clone() for tensor in given))
            return run(*given)

        setattr(owner, name, watched)
    return network, seen


def test_the_critics_gradient_is_that_of_its_loss_and_of_the_slopes_penalty() -> None:
    network, seen = learning(2, (2, 3))
    network.trace_critic()
    groups, words = seen[0]
    for draw in range(3):
        leaves = [p[draw].clone().requires_grad_() for p in network.critic.adam.parameters]
        real, fake, between = groups[draw].chunk(3)
        of_real, of_fake, of_between = words[draw].chunk(3)
        loss = (
            critic_scores(leaves, fake, of_fake, SMALL).mean()
            - critic_scores(leaves, real, of_real, SMALL).mean()
        )
        between.requires_grad_()
        scores = critic_scores(leaves, between, of_between, SMALL)
        slope = torch.autograd.grad(scores.sum(), between, create_graph=True)[0]
        penalty = SMALL.penalty * ((slope.norm(dim=1) - 1.0) ** 2).mean()
        expected = torch.autograd.grad(loss + penalty, leaves)
        for gradient, wanted in zip(network.critic.adam.gradients, expected, strict=True):
            torch.testing.assert_close(gradient[draw], wanted, rtol=1e-4, atol=1e-6)
    # The groups between are on the way from a generated to a real one, each by a share of its own.
    share = (between - fake) / (real - fake)
    known = (real - fake).abs() > 0.1
    for row, usable in zip(share.detach(), known, strict=True):
        assert 0.0 < float(row[usable].mean()) < 1.0
        assert float(row[usable].std()) < 1e-5


def test_the_generators_gradient_is_that_of_scores_and_conditions() -> None:
    network, seen = learning(2, (2, 3))
    network.trace_generator()
    (groups, words), (array, _) = seen
    layout, settings = network._layout, SMALL
    count, hidden = int(network._count), sum(settings.generator)
    uniform = network._streams.uniform(Purpose.GUMBEL, count, (20, layout.width - 2))
    for draw in range(3):
        parameters = network.generator.adam.parameters
        leaves = [p[draw].clone().requires_grad_() for p in parameters]
        rows = array[draw][:, hidden:]
        for layer in range(2):
            weight, bias = leaves[2 * layer : 2 * layer + 2]
            scale, shift = leaves[6 + 2 * layer : 8 + 2 * layer]
            units = functional.batch_norm(
                rows @ weight + bias, None, None, scale[0], shift[0], training=True
            )
            rows = torch.cat([units.relu(), rows], dim=1)
        logits = rows @ leaves[4] + leaves[5]
        logits = logits.masked_fill(~network._encoded.seen[draw], -torch.inf)
        noisy = (logits[:, 2:] - (-uniform[draw].log()).log()) / settings.temperature
        pieces, entropies = [logits[:, :2].tanh()], []
        condition = array[draw][:, hidden + settings.embedding :]
        for group in layout.groups:
            for k in range(group.count):
                start = group.start + k * group.size
                pieces.append(noisy[:, start - 2 : start - 2 + group.size].softmax(dim=1))
                if start >= 22:  # two numbers and twice ten components come first
                    block = slice(start, start + group.size)
                    chosen = condition[:, start - 22 : start - 22 + group.size]
                    entropy = -(chosen * logits[:, block].log_softmax(dim=1)).nan_to_num()
                    entropies.append(entropy.sum())
        fake = torch.cat([*pieces, condition], dim=1).reshape(4, -1)
        torch.testing.assert_close(fake, groups[draw], rtol=1e-4, atol=1e-6)
        critic = [p[draw] for p in network.critic.adam.parameters]
        loss = -critic_scores(critic, fake, words[draw], settings).mean() + sum(entropies) / 20
        expected = torch.autograd.grad(loss, leaves)
        for gradient, wanted in zip(network.generator.adam.gradients, expected, strict=True):
            torch.testing.assert_close(gradient[draw], wanted, rtol=1e-4, atol=2e-6)


def test_a_slope_of_zero_pulls_nowhere() -> None:
    # With one unit of which half are left out, some groups have no way to the score.
    settings = replace(SMALL, critic=(1,), epochs=30)
    network = CtganNetworks(training(4, 40, 2, (2,)), Streams(range(4)), settings)
    network.train()
    assert all(tensor.isfinite().all() for tensor in tensors(network))


def test_parameters_move_as_pytorchs_adam_moves_them() -> None:
    ours = FlatAdam(
        [(2, 3, 4), (2, 1, 4)], rate=0.01, decay=0.1, betas=(0.5, 0.9), device=torch.device("cpu")
    )
    for values in ours.parameters:
        values.normal_()
    theirs = [values.clone().requires_grad_() for values in ours.parameters]
    optimiser = torch.optim.Adam(theirs, lr=0.01, betas=(0.5, 0.9), weight_decay=0.1)
    for _ in range(5):
        for gradient, leaf in zip(ours.gradients, theirs, strict=True):
            gradient.normal_()
            leaf.grad = gradient.clone()
        ours.step()
        optimiser.step()
    for values, leaf in zip(ours.parameters, theirs, strict=True):
        torch.testing.assert_close(values, leaf.detach(), rtol=1e-5, atol=1e-6)


def test_a_release_is_normalised_by_averages_that_follow_as_pytorchs_do() -> None:
    network = CtganNetworks(training(2, 40, 2, (2,)), Streams(range(2)), SMALL)
    norm = torch.nn.BatchNorm1d(16)
    for _ in range(3):
        array = network.generator.inputs(torch.randn(2, 20, 5), torch.zeros(2, 20, 2))
        network.generator.learn(array)
        weight, bias = network.generator.adam.parameters[:2]
        norm(array[1][:, 25:] @ weight[1] + bias[1])
    torch.testing.assert_close(network.generator.means[0][1, 0], norm.running_mean)
    torch.testing.assert_close(network.generator.variances[0][1, 0], norm.running_var)
    norm.eval()
    network.generator.apply(array, torch.tensor([1, 0]))
    expected = norm(array[0][:, 25:] @ weight[1] + bias[1]).relu()
    torch.testing.assert_close(array[0][:, 9:25], expected.detach())


# Conditions.


def test_conditions_have_their_law_and_their_rows() -> None:
    codes = np.repeat([0, 1, 3], [60, 30, 10])
    rare = np.repeat([1, 0], [95, 5])
    encoded = encode(
        torch.empty((1, 100, 0), dtype=torch.float64),
        torch.from_numpy(np.stack([codes, rare], axis=1)[None]),
        (4, 2),
        Streams([1]),
    )
    conditions = RowConditions(encoded, torch.device("cpu"))
    words = Streams([1]).bits(Purpose.CONDITION, 0, (40_000,))
    # Columns in the order of their sizes: the rare one first, then the one of four categories.
    counts = np.array([5, 95, 60, 30, 0, 10])
    for law, weights in (
        ("frequencies", counts.astype(float)), ("log frequencies", np.log1p(counts)),
    ):  # fmt: skip
        chosen = conditions.choose(words, law)
        chances = np.concatenate([w / w.sum() / 2 for w in (weights[:2], weights[2:])])
        found = np.bincount(chosen[0].numpy(), minlength=6)
        assert found[4] == 0  # no row has it
        present = chances > 0
        assert stats.chisquare(found[present], 40_000 * chances[present]).pvalue > 1e-3
    rows = conditions.matching(chosen, Streams([1]).bits(Purpose.ROWS, 0, (40_000,)))[0].numpy()
    table = np.stack([rare, rare, codes, codes, codes, codes])
    assert np.array_equal(table[chosen[0].numpy(), rows], np.array([0, 1, 0, 1, 2, 3])[chosen[0]])
    of_last = np.bincount(rows[chosen[0].numpy() == 5], minlength=100)[90:]
    assert stats.chisquare(of_last).pvalue > 1e-3


def test_real_rows_of_a_step_have_the_conditions_that_stand_beside_them() -> None:
    network, seen = learning(2, (2, 3))
    network.trace_critic()
    real = seen[0][0].reshape(3, 3, 20, -1)[:, 0]
    fake = seen[0][0].reshape(3, 3, 20, -1)[:, 1]
    categories, condition = real[..., 22:27], real[..., 27:]
    assert torch.equal((categories * condition).sum(dim=2), torch.ones(3, 20))
    # The same conditions as the generated rows have, in another order.
    assert torch.equal(condition.sum(dim=1), fake[..., 27:].sum(dim=1))
    assert not torch.equal(condition, fake[..., 27:])


# Releases.


def released(
    settings: CtganSettings, draws: int = 3, rows: int = 50, wanted: WantedCodes | None = None
) -> list[SampledTable]:
    numbers, codes = arrays(draws, 60, 2, (2, 3))
    codes[..., 0] = numbers[..., 0] > 2.5
    tables = TrainingTables(numbers, codes, (2, 3), rows, [wanted] * draws)
    made = draw_tables(tables, range(draws), settings, torch.device("cpu"))
    assert all(isinstance(release, SampledTable) for release in made)
    return made


def test_components_and_categories_that_a_draw_has_not_are_never_generated() -> None:
    encoded = training(3, 40, 2, (2, 6))
    encoded.chosen[0, :, 3] = encoded.chosen[0, :, 3] % 2
    encoded.seen[0, 24:] = torch.tensor([True, True, False, False, False, False])
    network = CtganNetworks(encoded, Streams(range(3)), SMALL)
    network.train()
    rows = network.sample(range(3), 200)
    assert set(rows.codes[0, :, 1]) <= {0, 1}
    assert set(rows.codes[1, :, 1]) == set(range(6))


def test_a_row_of_a_release_does_not_depend_on_how_many_there_are() -> None:
    few, many = released(SMALL, rows=13), released(SMALL, rows=47)
    for less, more in zip(few, many, strict=True):
        assert np.array_equal(less.numbers, more.numbers[:13])
        assert np.array_equal(less.codes, more.codes[:13])


def test_a_wanted_category_is_in_every_row_or_as_published_likelier() -> None:
    learned = replace(SMALL, epochs=150, batch_size=60, generator_rate=3e-3, critic_rate=3e-3)
    codes = np.arange(400) % 2
    exactly = released(learned, draws=6, rows=400, wanted=WantedCodes(0, codes))
    kept = replace(learned, condition_by="likelihood")
    published = released(kept, draws=6, rows=400, wanted=WantedCodes(0, codes))
    for release in exactly:
        assert np.array_equal(release.codes[:, 0], codes)
    agreeing = [np.mean(release.codes[:, 0] == codes) for release in published]
    assert min(agreeing) > 0.9
    assert np.mean(agreeing) < 1.0
    # What was learned is the table, in which the number tells the category.
    telling = [(release.numbers[:, 0] > 2.5) == codes for release in exactly]
    assert np.mean(telling) > 0.55


def test_conditions_by_log_frequencies_give_rare_categories_more_rows() -> None:
    numbers, codes = arrays(4, 100, 1, (2,))
    codes[:] = np.arange(100)[:, None] < 5
    learned = replace(SMALL, epochs=80, batch_size=100, generator_rate=2e-3, critic_rate=2e-3)
    shares = {}
    for law in ("frequencies", "log frequencies"):
        settings = replace(learned, conditions_by=law)
        tables = TrainingTables(numbers, codes, (2,), 2000, [None] * 4)
        made = draw_tables(tables, range(4), settings, torch.device("cpu"))
        shares[law] = np.mean([release.codes.mean() for release in made])
    assert shares["log frequencies"] > shares["frequencies"] + 0.1
    assert shares["frequencies"] < 0.2


def figures(numbers: np.ndarray, codes: np.ndarray) -> dict[str, float]:
    """Return what an audit would look at: marginals, dependence, and a rule learned from rows."""
    first, second = numbers.T
    label, town = codes.T
    cut = np.median(numbers[:, 0])
    return {
        "mean": first.mean(),
        "spread": first.std(),
        "other mean": second.mean(),
        "other spread": second.std(),
        "upper heap": np.mean(first > 2.5),
        "correlation": np.corrcoef(first, second)[0, 1],
        "share of label": label.mean(),
        "rare town": np.mean(town == 2),
        "label with number": np.corrcoef(first, label)[0, 1] if 0 < label.mean() < 1 else 0.0,
        "error of a rule": np.mean((first > cut) != label),
        "label with town": np.mean((town == 1) & (label == 1)),
    }


LEARNED = CtganSettings(
    embedding=6, generator=(24, 16), critic=(24, 16), epochs=30, batch_size=80,
    pac=10, generator_rate=4e-3, critic_rate=4e-3,
)  # fmt: skip
NOTICED = 1e-5
"""Of 22 p-values one would lie below this by chance in one of 5,000 versions of torch."""


def compared_table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    label = rng.random(80) < 0.4
    first = rng.normal(np.where(label, 5.0, 0.0), np.where(label, 1.0, 0.5))
    town = rng.choice(3, 80, p=[0.55, 0.4, 0.05])
    numbers = np.column_stack([first, rng.exponential(2.0, 80) + 0.5 * first])
    return numbers, np.column_stack([label, town]).astype(np.int64)


@pytest.fixture(scope="module")
def plain_figures(effort: Effort) -> list[dict[str, float]]:
    plain = PlainCtgan(LEARNED, *compared_table(), (2, 3))
    draws = effort.times(whole=200, reduced=100)
    return [figures(*plain.draw(seed, 200)) for seed in range(draws)]


def pvalues(settings: CtganSettings, plain: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return for every figure how well our draws agree with the plain ones."""
    draws = len(plain)
    numbers, codes = (np.repeat(part[None], draws, axis=0) for part in compared_table())
    tables = TrainingTables(numbers, codes, (2, 3), 200, [None] * draws)
    made = draw_tables(tables, range(draws), settings, torch.device("cpu"))
    ours = [figures(release.numbers, release.codes) for release in made]
    found = {}
    for name in plain[0]:
        pair = [row[name] for row in ours], [row[name] for row in plain]
        found[name] = min(stats.ks_2samp(*pair).pvalue, stats.mannwhitneyu(*pair).pvalue)
    return found


def test_the_law_of_a_draw_is_that_of_a_plain_implementation(
    plain_figures: list[dict[str, float]],
) -> None:
    for name, pvalue in pvalues(LEARNED, plain_figures).items():
        assert pvalue > NOTICED, name


@pytest.mark.parametrize("other", [{"pac": 1}, {"temperature": 1.0}, {"epochs": 22}])
def test_another_law_would_be_noticed(
    other: dict[str, float], plain_figures: list[dict[str, float]]
) -> None:
    assert min(pvalues(replace(LEARNED, **other), plain_figures).values()) < NOTICED


def test_a_draw_that_does_not_train_to_numbers_fails_alone() -> None:
    values, codes = arrays(3, 40, 2, (2,))
    fine = draw_tables(
        TrainingTables(values, codes, (2,), 30, [None] * 3), range(3), SMALL, torch.device("cpu")
    )
    network = CtganNetworks(training(3, 40, 2, (2,)), Streams(range(3)), SMALL)
    network.train()
    network.generator.adam.parameters[0][1] = torch.nan
    rows = network.sample(range(3), 30)
    assert rows.finite.tolist() == [True, False, True]
    for i in (0, 2):
        assert np.array_equal(rows.codes[i], fine[i].codes)


def test_the_memory_that_a_draw_takes_grows_with_what_is_registered() -> None:
    def tables(rows: int) -> TrainingTables:
        numbers, codes = np.broadcast_to(0.0, (1, rows, 7)), np.broadcast_to(0, (1, rows, 1))
        return TrainingTables(numbers, codes, (2,), rows, [None])

    usual = bytes_of_draw(tables(500), CtganSettings())
    assert 10e6 < usual < 100e6
    for more in (
        {"batch_size": 5000}, {"embedding": 5000}, {"generator": (2048,)},
        {"critic": (2048,)},
    ):  # fmt: skip
        assert bytes_of_draw(tables(500), replace(CtganSettings(), **more)) > 1.5 * usual
    assert bytes_of_draw(tables(10**6), CtganSettings()) > 10 * usual


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [(2, 3), ()])
def test_a_recorded_step_gives_the_bits_of_single_launches_and_nearly_those_of_a_cpu(
    sizes: tuple[int, ...],
) -> None:
    device, settings = chosen_device("cuda"), replace(SMALL, epochs=3)
    values, codes = arrays(3, 40, 2, sizes)
    networks = []
    with reproducible():
        for place, graph in ((device, True), (device, False), (torch.device("cpu"), True)):
            streams = Streams([8, 3, 5], place)
            encoded = encode(
                torch.from_numpy(values).to(place),
                torch.from_numpy(codes).to(place),
                sizes,
                streams,
            )
            networks.append(CtganNetworks(encoded, streams, settings))
            networks[-1].train(graph=graph)
            assert networks[-1].sample(range(3), 33).finite.all()
    recorded, launched, there = (tensors(network) for network in networks)
    for a, b, c in zip(recorded, launched, there, strict=True):
        assert torch.equal(a, b)
        # Adam moves by the sign of a gradient that is nothing but rounding, so not all are near.
        assert torch.isclose(a.cpu(), c, rtol=1e-2, atol=1e-4).float().mean() > 0.95


def test_a_recording_that_runs_out_of_memory_says_so_whatever_its_end_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = CtganNetworks(training(2, 40, 2, (2,)), Streams(range(2)), SMALL)

    @contextmanager
    def recording(graph: object) -> Iterator[None]:
        try:
            yield
        finally:
            raise RuntimeError("the capture was invalidated")

    class Stream:
        def wait_stream(self, other: object) -> None:
            pass

    for name, fake in (
        ("Stream", Stream), ("current_stream", Stream), ("stream", nullcontext),
        ("CUDAGraph", object), ("graph", recording),
    ):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, fake)
    steps = iter([None, torch.OutOfMemoryError("no memory"), None, ValueError("another")])

    def step() -> None:
        error = next(steps)
        if error is not None:
            raise error

    monkeypatch.setattr(network, "step", step)
    with pytest.raises(torch.OutOfMemoryError):
        network._replay()
    with pytest.raises(RuntimeError, match="invalidated"):
        network._replay()
