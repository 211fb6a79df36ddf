"""Error budgets under the paper's names (its error-budget table), as exact fractions.

Fractions make a union bound add up exactly and keep ``0.05`` from becoming
``0.05000000000000001``. A budget cannot be overspent: the parts are checked against the
total when it is made, and shares of a family against 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from proxyguard.errors import BudgetOverspent, RegistryError
from proxyguard.registry.numbers import Level, exact
from proxyguard.registry.numbers import share as read_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One error event and the probability that a budget sets aside for it.

    Attributes
    ----------
    symbol
        Its symbol in the paper: ``alpha_Q``.
    event
        The event that it pays for, in words.
    amount
        The probability.
    """

    symbol: str
    event: str
    amount: Fraction


@dataclass(frozen=True, slots=True)
class Budget:
    """Error levels that pay for one directional claim.

    Parameters
    ----------
    parts
        What each pays for.

    Raises
    ------
    RegistryError
        If a part is not positive as a double.
    BudgetOverspent
        If they sum to 1 or more.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        # Tests and bounds take each part as a double, where a positive fraction may be 0.
        if not self.parts or any(float(part.amount) <= 0.0 for part in self.parts):
            raise RegistryError(
                "every part of an error budget must be positive as a double, got "
                + ", ".join(f"{p.symbol} = {p.amount}" for p in self.parts)
            )
        if float(self.total) >= 1.0:
            raise BudgetOverspent(f"an error budget must stay below 1, got {float(self.total):g}")

    @property
    def total(self) -> Fraction:
        """The union bound over the parts."""
        return sum((part.amount for part in self.parts), Fraction(0))

    def __getitem__(self, symbol: str) -> Fraction:
        for part in self.parts:
            if part.symbol == symbol:
                return part.amount
        raise KeyError(symbol)  # a fault of ours: symbols are no input

    @property
    def draws(self) -> Fraction:
        """``alpha_Q`` or ``beta_Q``: what pays for the draws."""
        return self._paying("Q")

    @property
    def target(self) -> Fraction:
        """``alpha_Z`` or ``beta_Z``: what pays for the shared target."""
        return self._paying("Z")

    @property
    def release(self) -> Fraction:
        """``alpha_R`` or ``beta_R``: what pays for statements about single releases."""
        return self._paying("R")

    @property
    def mechanism(self) -> Fraction:
        """``alpha_M`` or ``beta_M``: what pays for the step from releases to the mechanism."""
        return self._paying("M")

    def _paying(self, letter: str) -> Fraction:
        for part in self.parts:
            if part.symbol.endswith(f"_{letter}"):
                return part.amount
        raise KeyError(letter)

    def to_list(self) -> list[dict[str, str]]:
        """Return the parts as plain values, amounts as exact fractions in text."""
        return [{"symbol": p.symbol, "event": p.event, "amount": str(p.amount)} for p in self.parts]

    def replaced(self, symbol: str, amount: Fraction) -> Budget:
        """Return the budget with another amount for one part."""
        return Budget(
            tuple(replace(p, amount=amount) if p.symbol == symbol else p for p in self.parts)
        )

    def scaled(self, share: Fraction) -> Budget:
        """Return a mechanism's local budget: every part times its share of the family."""
        return Budget(tuple(replace(p, amount=p.amount * share) for p in self.parts))


def _divided(
    total: Fraction, share: Fraction, first: tuple[str, str], second: tuple[str, str]
) -> Budget:
    """Return a budget of two parts, symbol and event each, the first with a share of the whole."""
    return Budget(
        (
            Part(symbol=first[0], event=first[1], amount=total * share),
            Part(symbol=second[0], event=second[1], amount=total * (1 - share)),
        )
    )


def _undivided(total: Level, symbol: str, event: str) -> Budget:
    return Budget((Part(symbol=symbol, event=event, amount=exact(total)),))


def named_budget(alpha: Level, *, release_share: Level = "1/2") -> Budget:
    """Return ``alpha_R + alpha_M = alpha`` of the named lower bound (Theorem 5)."""
    return _divided(
        exact(alpha),
        _share(release_share),
        ("alpha_R", "false recognition among named releases"),
        ("alpha_M", "false validation among mechanisms"),
    )


def direct_budget(alpha: Level, *, target_share: Level = "1/2") -> Budget:
    """Return ``alpha_Q + alpha_Z = alpha`` of the direct lower bound (Theorem 6)."""
    return _divided(
        exact(alpha),
        1 - _share(target_share),
        ("alpha_Q", "conditional score-probability coverage"),
        ("alpha_Z", "shared-target false-pass contamination"),
    )


def sharp_budget(alpha: Level) -> Budget:
    """Return the undivided budget of the sharp and block certificates."""
    return _undivided(alpha, "alpha", "reliability overstated")


def release_budget(alpha: Level) -> Budget:
    """Return the budget of Theorem 4: named releases without a mechanism."""
    return _undivided(alpha, "alpha", "an invalid release among the validated ones")


def violation_budget(beta: Level, *, release_share: Level = "1/2") -> Budget:
    """Return ``beta_R + beta_M = beta`` of the Holm violation bound (Theorem 8)."""
    return _divided(
        exact(beta),
        _share(release_share),
        ("beta_R", "false release-level violation"),
        ("beta_M", "false mechanism-level violation"),
    )


def direct_violation_budget(beta: Level) -> Budget:
    """Return the undivided budget of the direct violation bound (theory section 4)."""
    return _undivided(beta, "beta", "reliability understated")


def count_violation_budget(beta: Level, *, target_share: Level = "1/2") -> Budget:
    """Return ``beta_Q + beta_Z = beta`` of the e-value violation count (theory section 4)."""
    return _divided(
        exact(beta),
        1 - _share(target_share),
        ("beta_Q", "too few draws"),
        ("beta_Z", "an unlucky shared target"),
    )


def hybrid_budget(named: Budget, direct: Budget, *, alpha: Level) -> Budget:
    """Return ``alpha_N + alpha_D``, checked against ``alpha`` (Proposition 16)."""
    if named.total + direct.total > exact(alpha):
        raise BudgetOverspent(
            f"alpha_N + alpha_D = {float(named.total + direct.total):g} exceeds the registered "
            f"{float(exact(alpha)):g}"
        )
    return Budget(
        (
            Part(symbol="alpha_N", event="named component coverage", amount=named.total),
            Part(symbol="alpha_D", event="direct component coverage", amount=direct.total),
        )
    )


def family_shares(
    names: Sequence[str], shares: Mapping[str, Level] | None = None
) -> dict[str, Fraction]:
    """Return each mechanism's share of the family budgets; equal unless registered otherwise."""
    if shares is None:
        return {name: Fraction(1, len(names)) for name in names}
    given = {name: exact(share) for name, share in shares.items()}
    if set(given) != set(names):
        raise RegistryError(
            f"shares name {sorted(map(str, given))}, the family is {sorted(map(str, names))}; "
            "both must agree"
        )
    if any(share <= 0 for share in given.values()):
        raise RegistryError(f"shares must be positive, got {shares}")
    if sum(given.values()) > 1:
        raise BudgetOverspent(
            f"local levels sum to {float(sum(given.values())):g} times the budget; at most 1"
        )
    for name, share in given.items():
        if share < 1:  # a family of one has all of the budget
            read_share(share, f"the share of {name!r}")
    return given


def _share(given: Level) -> Fraction:
    return read_share(given, "a share of the error budget")
