"""Bayesian Gaussian mixtures of one dimension, of all draws and columns at once.

The law is that of scikit-learn's ``BayesianGaussianMixture`` for one feature: a Dirichlet process
prior, a start by k-means, and at most 100 steps of variational EM. A mixture is a row of every
tensor, and no sum runs over rows of two: its numbers do not depend on the others beside it.

Values are scaled to mean 0 and variance 1 first, which moves the lower bound by a constant; the
number that scikit-learn adds to variances is scaled along.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from proxyguard.neural.batched import product
from proxyguard.neural.noise import Purpose, Streams

COMPONENTS = 10
# Prior of the Dirichlet process.
CONCENTRATION = 1e-3
ITERATIONS = 100
# Change of the lower bound that ends EM.
TOLERANCE = 1e-3
# Added to every variance, in the units of the column, as scikit-learn does.
REGULAR = 1e-6
# Shares of the column's variance that are added at most: a column of small numbers, with a
# deviation below 0.01, would drown in what scikit-learn adds.
DROWNING = 1e-2
# A component with less weight is not used.
KEPT = 0.005
# Added to the chance of every component that is kept.
FLOOR = 1e-6
# Standard deviations that a normalised number is in units of.
REACH = 4.0
LIMIT = 0.99

# Candidates for every next centre, of which the best is taken, as in scikit-learn.
TRIALS = 2 + int(math.log(COMPONENTS))
LLOYD = 300
# Sum of squared moves of the centres, in variances, that ends k-means.
LLOYD_TOLERANCE = 1e-4
EPSILON = 10.0 * torch.finfo(torch.float64).eps
# Scaled values as whole numbers, whose running sums are exact on every device.
FIXED = 2.0**32
# Chances of rows to be the next centre as whole numbers, for the same reason.
CHANCES = 2.0**30
# Values, rows times components, that a CPU works on at a time: they stay in its cache.
CACHED = 1 << 17
# Steps of EM after which finished mixtures are taken out.
CHECKED = 8


@dataclass(frozen=True, slots=True)
class Mixtures:
    """Mixtures of the columns of several draws, ``(draws, columns, components)``.

    Attributes
    ----------
    weights, means, deviations
        Of the components, in the units of the column. Those of a column with one value alone have
        no deviation.
    kept
        Which components are used, at least one of each mixture.
    coefficients
        ``(draws, columns, components, 3)``: the logarithm of a component's posterior chance as a
        polynomial of the scaled value.
    centre, scale
        ``(draws, columns, 1)``: the mean and the standard deviation that values are scaled by.
    steps
        ``(draws, columns, 1)``: steps of EM.
    """

    weights: Tensor
    means: Tensor
    deviations: Tensor
    kept: Tensor
    coefficients: Tensor
    centre: Tensor
    scale: Tensor
    steps: Tensor

    def at(self, draws: slice[int, int, None] | Tensor) -> Mixtures:
        """Return those of some draws."""
        return Mixtures(*(getattr(self, f.name)[draws] for f in fields(self)))

    def chances(self, values: Tensor) -> Tensor:
        """Return each component's posterior chance, ``(draws, columns, components, rows)``."""
        draws, columns, rows = values.shape
        scaled = ((values - self.centre) / self.scale).flatten(0, 1)
        powers = torch.stack([torch.ones_like(scaled), scaled, scaled * scaled], dim=1)
        chances, _ = _expected(powers, self.coefficients.flatten(0, 1))
        return chances.reshape(draws, columns, COMPONENTS, rows)

    def encode(self, values: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        """Return the numbers within their components, and these, drawn from their posterior.

        Parameters
        ----------
        values
            ``(draws, columns, rows)`` in float64.
        uniforms
            As many numbers between 0 and 1, by which components are drawn.

        Returns
        -------
        tuple
            ``(draws, rows, columns)``: in units of four deviations from the mean, within -.99 and
            .99, in float32; and the components' numbers.
        """
        pieces = [
            self.at(slice(i, k))._encode(values[i:k], uniforms[i:k])
            for i, k in _pieces(len(values), values[0].numel() * COMPONENTS, values.device)
        ]
        alphas, chosen = zip(*pieces, strict=True)
        return torch.cat(alphas), torch.cat(chosen)

    def _encode(self, values: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        chances = self.chances(values).add_(FLOOR).mul_(self.kept[..., None])
        reached = torch.zeros_like(values)
        chosen = torch.zeros(values.shape, dtype=torch.int64, device=values.device)
        wanted = uniforms * chances.sum(dim=2)
        # As many as the running sum leaves behind. The last that is kept is not passed, whatever
        # rounding does to the sum.
        last = (self.kept * torch.arange(COMPONENTS, device=values.device)).amax(2, keepdim=True)
        for k in range(COMPONENTS - 1):
            reached += chances[:, :, k]
            chosen += reached <= wanted
        chosen = torch.minimum(chosen, last)
        means, deviations = self.means.gather(2, chosen), self.deviations.gather(2, chosen)
        width = torch.where(deviations > 0, REACH * deviations, 1.0)
        alpha = ((values - means) / width).clamp_(-LIMIT, LIMIT)
        return alpha.transpose(1, 2).to(torch.float32), chosen.transpose(1, 2)

    def decode(self, alphas: Tensor, components: Tensor) -> Tensor:
        """Return numbers in the units of their columns, ``(draws, rows, columns)`` in float64."""
        chosen = components.transpose(1, 2)
        means, deviations = self.means.gather(2, chosen), self.deviations.gather(2, chosen)
        return (means + REACH * deviations * alphas.transpose(1, 2)).transpose(1, 2)


def fit_mixtures(values: Tensor, streams: Streams, rows: Tensor | None = None) -> Mixtures:
    """Fit a mixture to every column of every draw.

    Parameters
    ----------
    values
        ``(draws, columns, rows)``, finite numbers in float64.
    streams
        The noise of the draws, for the starts of k-means.
    rows
        ``(draws,)``: how many of the rows of each draw are its own, the first ones; all of them
        if nothing is said. What stands in the others does not matter.

    Returns
    -------
    Mixtures
        One for every column of every draw.
    """
    draws, columns, n = values.shape
    starts = streams.bits(Purpose.START, 0, (columns, 1 + (COMPONENTS - 1) * TRIALS))
    own = torch.full((draws,), n, device=values.device) if rows is None else rows.to(values.device)
    every = (values.flatten(0, 1), own.repeat_interleave(columns), starts.flatten(0, 1))
    pieces = [
        _fit(*(tensor[i:k] for tensor in every))
        for i, k in _pieces(draws * columns, n * COMPONENTS, values.device)
    ]
    joined = (torch.cat([getattr(piece, f.name) for piece in pieces]) for f in fields(Mixtures))
    return Mixtures(*(tensor.reshape(draws, columns, *tensor.shape[1:]) for tensor in joined))


def _pieces(count: int, size: int, device: torch.device) -> Iterator[tuple[int, int]]:
    """Yield what is computed at a time: everything on a GPU, on a CPU what its cache holds."""
    width = max(1, count if device.type != "cpu" else CACHED // max(1, size))
    for start in range(0, count, width):
        yield start, min(count, start + width)


def _dot(left: Tensor, right: Tensor) -> Tensor:
    """Return one sum of products for each row of two tensors ``(mixtures, n)``."""
    # A batched product, whose bits do not depend on how many mixtures there are.
    return product(left[:, None, :], right[:, :, None])[:, 0, 0]


def _total(terms: Tensor) -> Tensor:
    return _dot(terms, torch.ones_like(terms))


def _after(terms: Tensor) -> Tensor:
    """Return for each component the sum of the terms of those after it."""
    size = terms.shape[1]
    later = torch.ones((size, size), dtype=terms.dtype, device=terms.device).tril_(-1)
    return torch.bmm(terms[:, None, :], later.expand(len(terms), size, size))[:, 0]


def _before(terms: Tensor) -> Tensor:
    """Return for each component the sum of the terms of those before it."""
    return _after(terms.flip(1)).flip(1)


def _fit(values: Tensor, rows: Tensor, starts: Tensor) -> Mixtures:
    scaled, mask, centre, scale = _scaled(values, rows)
    powers = torch.stack([mask, scaled, scaled * scaled], dim=1)
    labels = _kmeans(scaled, mask, rows, starts)
    components = torch.arange(COMPONENTS, device=values.device)[None, :, None]
    given = (labels[:, None, :] == components).to(torch.float64)
    constant = scale == 0.0
    unit = torch.where(constant, 1.0, scale)
    posterior, steps = _em(powers, given, _regular(unit))
    weights = posterior.weights()
    return Mixtures(
        weights=weights,
        means=posterior.mean * unit + centre,
        # A column of one value has no width: it is decoded to its value.
        deviations=torch.where(constant, 0.0, posterior.variance.sqrt() * unit),
        kept=torch.where(constant, components[:, :, 0] == 0, weights > KEPT),
        coefficients=posterior.coefficients(),
        centre=centre,
        scale=unit,
        steps=steps,
    )


def _regular(scale: Tensor) -> Tensor:
    """Return what is added to the variances of scaled values."""
    return (math.sqrt(REGULAR) / scale).square_().clamp_(max=DROWNING)


def _scaled(values: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return scaled values, 0 in rows of nobody; which rows are; and mean and deviation."""
    own = torch.arange(values.shape[1], device=values.device) < rows[:, None]
    # From the first value on, so that a column of one value has exactly no variance; and in units
    # of the largest distance, whose squares neither vanish nor overflow.
    first = values[:, :1]
    apart = torch.where(own, values - first, 0.0)
    widest = apart.abs().amax(dim=1, keepdim=True)
    apart = apart / torch.where(widest > 0, widest, 1.0)
    mean = _total(apart)[:, None] / rows[:, None]
    apart = torch.where(own, apart - mean, 0.0)
    deviation = (_dot(apart, apart)[:, None] / (rows[:, None] - 1).clamp(min=1)).sqrt()
    scaled = apart / torch.where(deviation > 0, deviation, 1.0)
    return scaled, own.to(torch.float64), first + mean * widest, deviation * widest


# --- k-means, in one dimension: of sorted values, clusters are intervals ---


def _kmeans(scaled: Tensor, mask: Tensor, rows: Tensor, starts: Tensor) -> Tensor:
    """Return the cluster of every row, ``(mixtures, rows)``; -1 in rows of nobody.

    A cluster that loses all its rows keeps its centre, where scikit-learn moves it to the row that
    is farthest from its own; neither happens but rarely. Clusters beyond the number of different
    values are empty, and the last ones.
    """
    centres = _plus_plus(scaled, mask, rows, starts)
    order = torch.argsort(centres, dim=1, stable=True)
    centres = centres.gather(1, order)
    values = torch.where(mask > 0, scaled, math.inf).sort(dim=1).values
    whole = torch.where(values.isinf(), 0.0, values * FIXED).round_().to(torch.int64)
    sums = torch.nn.functional.pad(whole.cumsum(1), (1, 0))
    ends = rows[:, None]
    edges = torch.full((len(scaled), COMPONENTS - 1), -1, dtype=torch.int64, device=scaled.device)
    done = torch.zeros((len(scaled), 1), dtype=torch.bool, device=scaled.device)
    for _ in range(LLOYD):
        middles = 0.5 * (centres[:, 1:] + centres[:, :-1])
        cuts = torch.searchsorted(values, middles, right=True)
        bounds = torch.cat([torch.zeros_like(ends), cuts, ends], dim=1)
        sizes = bounds.diff(dim=1)
        moved = sums.gather(1, bounds).diff(dim=1) / (sizes * FIXED)
        moved = torch.where((sizes > 0) & ~done, moved, centres)
        done = done | (cuts == edges).all(dim=1, keepdim=True)
        done = done | (_total((moved - centres) ** 2)[:, None] <= LLOYD_TOLERANCE)
        centres, edges = moved, cuts
        if bool(done.all()):
            break
    middles = 0.5 * (centres[:, 1:] + centres[:, :-1])
    labels = order.gather(1, torch.searchsorted(middles, scaled))
    return torch.where(mask > 0, labels, -1)


def _plus_plus(scaled: Tensor, mask: Tensor, rows: Tensor, starts: Tensor) -> Tensor:
    """Return first centres, each the best of some rows drawn by squared distance."""
    # Products of 32 bits and fewer than 2^31 rows or chances, so nothing overflows.
    first = (starts[:, :1] * rows[:, None]) >> 32
    centres = [scaled.gather(1, first)]
    nearest = mask * (scaled - centres[0]) ** 2
    for k in range(1, COMPONENTS):
        total = _total(nearest)[:, None]
        chances = (nearest * (CHANCES / torch.where(total > 0, total, 1.0))).to(torch.int64)
        reached = chances.cumsum(1)
        noise = starts[:, 1 + (k - 1) * TRIALS : 1 + k * TRIALS]
        # Of rows that are all centres already the last is taken, once more.
        tried = torch.searchsorted(reached, (noise * reached[:, -1:]) >> 32, right=True)
        candidates = scaled.gather(1, torch.minimum(tried, rows[:, None] - 1))
        apart = mask[:, None, :] * (scaled[:, None, :] - candidates[:, :, None]) ** 2
        apart = torch.minimum(nearest[:, None, :], apart)
        best = product(apart, mask[:, :, None])[:, :, 0].argmin(dim=1, keepdim=True)
        centres.append(candidates.gather(1, best))
        nearest = apart.gather(1, best[:, :, None].expand(-1, -1, apart.shape[2]))[:, 0]
    return torch.cat(centres, dim=1)


# --- variational EM ---


@dataclass(slots=True)
class _Posterior:
    """The variational posterior of mixtures of scaled values, ``(mixtures, components)``.

    The prior of the mean is 0 with the precision of one row, that of the variance 1 with one
    degree of freedom.
    """

    rows: Tensor  # that a component is responsible for
    after: Tensor  # the same of the components after it, and the concentration
    mean: Tensor
    variance: Tensor

    def coefficients(self) -> Tensor:
        """Return ``(mixtures, components, 3)``: the log chance as a polynomial of the value."""
        more = 1.0 + self.rows
        total = torch.digamma(more + self.after)
        weight = torch.digamma(more) - total + _before(torch.digamma(self.after) - total)
        inverse = 1.0 / self.variance
        level = weight + 0.5 * (
            torch.digamma(0.5 * more)
            - (self.variance * more).log()
            - 1.0 / more
            - self.mean**2 * inverse
            - math.log(math.pi)
        )
        return torch.stack([level, self.mean * inverse, -0.5 * inverse], dim=2)

    def bound(self) -> Tensor:
        """Return the terms of the lower bound that depend on the posterior alone."""
        more = 1.0 + self.rows
        # Minus the norms of the Wishart laws of precisions and the beta laws of sticks.
        terms = torch.lgamma(0.5 * more) - 0.5 * more * ((self.variance * more).log() - math.log(2))
        terms += torch.lgamma(more) + torch.lgamma(self.after) - torch.lgamma(more + self.after)
        return _total(terms - 0.5 * more.log())

    def weights(self) -> Tensor:
        """Return the expected weights, which sum to 1."""
        total = 1.0 + self.rows + self.after
        shares = (1.0 + self.rows) / total * _before((self.after / total).log()).exp()
        return shares / _total(shares)[:, None]


def _maximised(moments: Tensor, regular: Tensor) -> _Posterior:
    """Return the posterior given the count of rows, their sum and squares of each component."""
    count, first, second = moments.unbind(2)
    rows = count + EPSILON
    mean = first / rows
    spread = (second - 2.0 * mean * first + mean * mean * count).clamp_(min=0.0) / rows + regular
    more = 1.0 + rows
    return _Posterior(
        rows=rows,
        after=CONCENTRATION + _after(rows),
        mean=rows * mean / more,
        variance=(1.0 + rows * spread + rows / more * mean * mean) / more,
    )


def _expected(powers: Tensor, coefficients: Tensor) -> tuple[Tensor, Tensor]:
    """Return the chances of components, and the logarithms of their sums before division."""
    chances = product(coefficients, powers)
    highest = chances.amax(dim=1, keepdim=True)
    chances.sub_(highest).exp_()
    total = chances.sum(dim=1, keepdim=True)
    chances.div_(total)
    return chances, total.log_().add_(highest)[:, 0]


def _em(powers: Tensor, given: Tensor, regular: Tensor) -> tuple[_Posterior, Tensor]:
    """Return the posteriors, and how many steps each took.

    Parameters
    ----------
    powers
        ``(mixtures, 3, rows)``: 1, the scaled value and its square; 0 in rows of nobody.
    given
        ``(mixtures, components, rows)``: the chances of components to begin with.
    regular
        ``(mixtures, 1)``: what is added to variances.
    """
    state = _maximised(torch.bmm(given, powers.transpose(1, 2)), regular)
    ended = [torch.empty_like(tensor) for tensor in _tensors(state)]
    steps = torch.zeros((len(powers), 1), dtype=torch.int64, device=powers.device)
    index = torch.arange(len(powers), device=powers.device)
    going = torch.ones(len(powers), dtype=torch.bool, device=powers.device)
    bound = torch.full((len(powers),), -math.inf, dtype=torch.float64, device=powers.device)
    taken = torch.zeros_like(index)
    for step in range(1, ITERATIONS + 1):
        coefficients = state.coefficients()
        chances, log_total = _expected(powers, coefficients)
        moments = torch.bmm(chances, powers.transpose(1, 2))
        # The sum of r log r over all rows, as log r is the polynomial less the log total.
        entropy = _total((moments * coefficients).flatten(1)) - _dot(log_total, powers[:, 0])
        new = _maximised(moments, regular)
        # A mixture that has converged waits unchanged until it is taken out.
        state = _Posterior(
            *(
                torch.where(going[:, None], after, before)
                for after, before in zip(_tensors(new), _tensors(state), strict=True)
            )
        )
        taken += going
        risen = state.bound() - entropy
        going &= (risen - bound).abs() >= TOLERANCE
        bound = risen
        if step % CHECKED and step < ITERATIONS:
            continue
        for whole, tensor in zip(ended, _tensors(state), strict=True):
            whole[index] = tensor
        steps[index, 0] = taken
        left = going.nonzero()[:, 0]
        if not len(left):
            break
        if len(left) < len(index):
            state = _Posterior(*(tensor[left] for tensor in _tensors(state)))
            index, powers, regular, bound = (t[left] for t in (index, powers, regular, bound))
            going, taken = going[left], taken[left]
    return _Posterior(*ended), steps


def _tensors(state: _Posterior) -> list[Tensor]:
    return [state.rows, state.after, state.mean, state.variance]
