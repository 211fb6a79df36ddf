"""Audits that go on after the target is opened: look by look, or candidate by candidate.

`FavorableScore` scores releases on one target, `SequentialAudit` counts the scores of successive
draws until a registered look settles it (theory section 5), and `CandidateStream` judges
candidates from outside, each on records that no earlier one has seen (Proposition 19).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyguard.certificate import wording
from proxyguard.errors import LossMismatch, RegistryError, TargetReused, UnsupportedDesign
from proxyguard.evidence.releases import gather_evidence
from proxyguard.exact.contamination import markov_allowance
from proxyguard.exact.multiplicity import spending_level
from proxyguard.exact.sequential import bernoulli_lower
from proxyguard.losses.cell import Reading
from proxyguard.losses.read import LossArray, as_array
from proxyguard.losses.records import Records, check_labels
from proxyguard.modes.catalog import NO_MECHANISM
from proxyguard.modes.claim import Claim
from proxyguard.modes.evidence import Decision, rescale
from proxyguard.modes.sequential import SequentialPlan
from proxyguard.printable import Shown
from proxyguard.registry.design import Design, WithoutReplacement, as_design
from proxyguard.registry.numbers import Level, as_seed, exact, share
from proxyguard.registry.requirement import Requirement, as_requirements
from proxyguard.registry.test import Bound, ComponentTest

if TYPE_CHECKING:
    from proxyguard.documents.canonical import Plain


class FavorableScore:
    """One fixed score for all releases: is the release p-value at most ``threshold``?

    The order of the records, and the uniforms of a randomised test, are part of the
    target: they stay the same for every release that this object scores, and a release
    scored on other records is refused.

    Parameters
    ----------
    requirements
        What a release must satisfy.
    threshold
        The level at which a release p-value scores.
    design
        How the target was sampled; iid unless said otherwise.
    test
        The component test of every requirement; by declaration unless given.
    seed
        Of the order of the records and the uniforms; drawn afresh unless given.

    Raises
    ------
    RegistryError
        Where the threshold is no level.
    UnsupportedDesign
        Where no theorem covers the test on this design.

    Guarantee
    ---------
    Theory section 2: an invalid release scores with probability at most ``threshold``,
    which is the plan's ``kappa``.

    Examples
    --------
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10, two_valued=True)
    >>> score = FavorableScore([error], threshold="0.01")
    >>> score(np.zeros((2, 300, 1)))
    array([ True,  True])
    """

    def __init__(
        self,
        requirements: Sequence[Requirement],
        *,
        threshold: Level,
        design: Design | None = None,
        test: ComponentTest | str | None = None,
        seed: int | None = None,
    ) -> None:
        level = float(share(threshold, "threshold"))
        claim = Claim.of({"mode": NO_MECHANISM, "test": test, "beta": None})
        design, requirements = as_design(design), as_requirements(requirements)
        claim.require_support(design, requirements)
        self._reading = Reading(
            requirements=requirements,
            design=design,
            tests=claim.tests(design, requirements),
            level=level,
            violation_level=level,
            seed=as_seed(seed),
        )
        self._n: int | None = None
        self._records = Records()

    @property
    def threshold(self) -> float:
        """The level at which a release p-value scores favorably: the ceiling of the score."""
        return self._reading.level

    @property
    def seed(self) -> int:
        """The seed behind the order of the records and the uniforms."""
        return self._reading.seed

    def __call__(self, losses: ArrayLike | LossArray) -> NDArray[np.bool_]:
        """Return which of these releases, (R, n, J), score favorably on the target."""
        array = losses if isinstance(losses, LossArray) else LossArray(as_array(losses))
        n, records = array.shape[1], array.records
        if self._n is not None and (n != self._n or not records.same_as(self._records)):
            raise LossMismatch(
                f"these releases were scored on other records than the first ones ({n} against "
                f"{self._n} records, or other ids, strata, clusters, subgroups or order); one "
                "target serves the whole audit"
            )
        evidence = gather_evidence(array, self._reading)
        # Remembered only after the losses were read: a refused array fixes no target.
        # Ids that are first given later are kept from then on; until then there is less to compare.
        if self._n is None or self._records.ids is None:
            self._n, self._records = n, records
        return np.asarray(evidence.release_pvalues <= self._reading.level)


class SequentialAudit(Shown):
    """The scores of successive frozen-seed draws on one opened target.

    Each release must be committed before it is scored, and nothing about scores or target
    may reach the generator.

    Parameters
    ----------
    plan
        What was registered.
    score
        What `add_losses` scores releases by; whoever adds scores needs none.

    Raises
    ------
    RegistryError
        Where the score's ceiling is above the plan's ``kappa``.

    Guarantee
    ---------
    Theory section 5: with probability at least ``1 - alpha`` the reported bound never
    exceeds the reliability, at any look. *Sharp*: the boundary's crossing chance at the
    worst law of the shared target is at most ``alpha``. *Rescaled*: a time-uniform limit
    for the score rate at ``alpha_Q`` and Markov's allowance at ``alpha_Z``.

    Examples
    --------
    >>> plan = SequentialPlan(looks=(20, 40), reliability_target=0.8, kappa=0.01)
    >>> audit = SequentialAudit(plan)
    >>> print(audit.add([True] * 20))
    validated
    """

    def __init__(self, plan: SequentialPlan, score: FavorableScore | None = None) -> None:
        if not isinstance(plan, SequentialPlan):
            raise RegistryError(f"a sequential audit needs a SequentialPlan, got {plan!r}")
        if score is not None and not isinstance(score, FavorableScore):
            raise RegistryError(f"score is a FavorableScore or left out, got {score!r}")
        # A stricter score passes: kappa then overstates its false scores, which only weakens.
        if score is not None and score.threshold > plan.kappa:
            raise RegistryError(
                f"the plan was made for a score ceiling kappa of {plan.kappa:g}, and this score "
                f"has {score.threshold:g}; register both alike"
            )
        self.plan = plan
        self._score = score
        self._scores: list[bool] = []

    @property
    def draws(self) -> int:
        """The number of draws scored so far."""
        return len(self._scores)

    @property
    def favorable(self) -> int:
        """The number of favorable scores so far."""
        return sum(self._scores)

    @property
    def rests_on(self) -> str:
        """The theorem behind the bound."""
        return f"theory section 5, {self.plan.bound.value} form"

    def add(self, favorable: ArrayLike | bool) -> Decision:
        """Record the next scores, in the order of the draws, and return the decision so far.

        Parameters
        ----------
        favorable
            A truth value for each draw.

        Returns
        -------
        Decision
            Validated, or unresolved so far.

        Raises
        ------
        RegistryError
            Where these are no truth values, or more draws than were registered.
        """
        try:
            scores: NDArray[np.bool_] = np.atleast_1d(np.asarray(favorable))
        except ValueError as error:
            raise RegistryError(f"scores are booleans in one row, one a draw: {error}") from None
        # P-values and losses are refused: read as truth values, nearly all would be favorable.
        if scores.dtype != np.bool_ or scores.ndim != 1:
            raise RegistryError(
                f"scores are booleans in one row, one a draw, got {scores.dtype} of shape "
                f"{scores.shape}"
            )
        # The sharp boundary's error was computed up to the last look: a later one is not paid for.
        if self.draws + scores.size > self.plan.looks[-1]:
            raise RegistryError(
                f"at most {self.plan.looks[-1]} draws were registered, "
                f"got {self.draws + scores.size}"
            )
        self._scores += scores.tolist()
        return self.decision

    def add_losses(self, losses: ArrayLike | LossArray) -> Decision:
        """Score the next releases by the registered score and record the result.

        Parameters
        ----------
        losses
            Releases x records x requirements, on the one target.

        Returns
        -------
        Decision
            Validated, or unresolved so far.

        Raises
        ------
        RegistryError
            Where the audit has no score.
        LossMismatch
            Where releases were scored on other records than the first ones.
        """
        if self._score is None:
            raise RegistryError("this audit has no score: give it one, or add scores yourself")
        return self.add(self._score(losses))

    @property
    def decision(self) -> Decision:
        """Validated once the bound lies above the target; there is no violation direction."""
        crossed = (
            self._crossed(0)
            if self.plan.bound is Bound.SHARP
            else (self.reliability_lower > self.plan.reliability_target)
        )
        return Decision.VALIDATED if crossed else Decision.UNRESOLVED

    @property
    def reliability_lower(self) -> float:
        """The bound at the looks reached so far; it never falls.

        The sharp form certifies a reliability above the value it gives.
        """
        if self.plan.bound is Bound.SHARP:
            ladder = (self.plan.reliability_target, *self.plan.levels)
            value = 0.0
            for i, eta in enumerate(ladder):
                # What lies above does not count even if crossed: alpha pays in this order.
                if not self._crossed(i):
                    break
                value = eta
            return value
        looks, counts = self._reached()
        if looks.size == 0:
            return 0.0
        budget = self.plan.budget
        rates = bernoulli_lower(counts, looks, alpha=float(budget.draws))
        allowance = markov_allowance(self.plan.kappa, float(budget.target))
        # The limits hold at all looks together, so that the largest of them does.
        return rescale(float(rates.max()), allowance)

    @property
    def sentence(self) -> str:
        """The verdict so far as a sentence."""
        return wording.sequential_sentence(self)

    def __str__(self) -> str:
        return wording.sequential_text(self)

    def to_dict(self) -> dict[str, Plain]:
        """Return the audit so far as plain values, ready for JSON."""
        return {
            "decision": self.decision.value,
            "sentence": self.sentence,
            "reliability_target": self.plan.reliability_target,
            "reliability_lower": self.reliability_lower,
            "draws": self.draws,
            "favorable": self.favorable,
            "finished": self.finished,
            "largest_number_of_draws": self.plan.looks[-1],
            "kappa": self.plan.kappa,
            "bound": self.plan.bound.value,
            "rests_on": self.rests_on,
            "budget": self.plan.budget.to_list(),
            "basis": wording.ASSERTED,
        }

    @property
    def finished(self) -> bool:
        """Whether the audit has validated, used all draws, or become futile."""
        if self.decision is Decision.VALIDATED or self.draws >= self.plan.looks[-1]:
            return True
        # The rescaled form has no registered counts that could be out of reach.
        return self.plan.futility and self.plan.bound is Bound.SHARP and self._futile()

    def _futile(self) -> bool:
        boundary = self.plan.boundaries[0]
        if boundary is None:
            return True
        # Futile is what fails even if every draw to come scores; a look at hand is no later one.
        later = boundary.looks > self.draws
        best = self.favorable + (boundary.looks[later] - self.draws)
        return bool(np.all(best < boundary.counts[later]))

    def _crossed(self, index: int) -> bool:
        boundary = self.plan.boundaries[index]
        return boundary is not None and bool(np.any(boundary.crossed(self._reached()[1])))

    def _reached(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the looks reached and the favorable counts at them."""
        # Registered looks alone: judging the draws between them would be looks beyond the plan.
        looks = np.array([look for look in self.plan.looks if look <= self.draws], dtype=np.int64)
        totals = np.concatenate([[0], np.cumsum(np.asarray(self._scores, dtype=np.int64))])
        return looks, totals[looks]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The verdict on the candidate of one round."""

    number: int
    decision: Decision  # validated or unresolved; the stream has no violation direction
    pvalue: float
    level: float  # 6 alpha / (pi^2 t^2)
    rests_on: str = "Proposition 19"


class CandidateStream(Shown):
    """An open-ended search that may look at every earlier verdict.

    Parameters
    ----------
    requirements
        What every candidate must satisfy.
    alpha
        The error over all rounds that there will ever be.
    design
        How every batch was sampled; iid unless said otherwise.
    test
        The component test of every requirement; by declaration unless given.
    seed
        Of the random orders and uniforms of all rounds; drawn afresh unless given.

    Raises
    ------
    UnsupportedDesign
        Where batches are not independent of each other, or no theorem covers the test.

    Guarantee
    ---------
    Paper Proposition 19: the chance that an invalid candidate is ever validated is at
    most ``alpha``, however each candidate depends on earlier rounds, because every round
    is judged on records that no earlier round has seen. A record that comes back is
    refused.

    Examples
    --------
    >>> error = Requirement(name="error", low=0, high=1, limit=0.10, two_valued=True)
    >>> search = CandidateStream([error])
    >>> print(search.submit(np.zeros((300, 1)), Records(ids=np.arange(300))).decision)
    validated
    """

    def __init__(
        self,
        requirements: Sequence[Requirement],
        *,
        alpha: Level = "0.05",
        design: Design | None = None,
        test: ComponentTest | str | None = None,
        seed: int | None = None,
    ) -> None:
        self._claim = Claim.of(
            {"mode": NO_MECHANISM, "alpha": exact(alpha), "beta": None, "test": test}
        )
        self._requirements = as_requirements(requirements)
        self._design = as_design(design)
        if isinstance(self._design, WithoutReplacement):
            raise UnsupportedDesign(
                "each round of a stream needs an independent batch; batches drawn one after the "
                "other from one pool without replacement are not independent"
            )
        self._claim.require_support(self._design, self._requirements)
        self._seed = as_seed(seed)
        self._used: set[tuple[str, str]] = set()  # what the rounds so far were judged on
        self._rounds: list[Round] = []

    @property
    def seed(self) -> int:
        """The seed behind the random orders and uniforms of all rounds."""
        return self._seed

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The verdicts so far."""
        return tuple(self._rounds)

    def __str__(self) -> str:
        return wording.stream_text(self)

    def to_dict(self) -> dict[str, Plain]:
        """Return all rounds as plain values, ready for JSON."""
        return {
            "alpha": str(self._claim.alpha),
            "rests_on": "Proposition 19",
            "seed": self._seed,
            "basis": wording.ASSERTED,
            "rounds": [
                {
                    "number": r.number,
                    "decision": r.decision.value,
                    "pvalue": r.pvalue,
                    "level": r.level,
                }
                for r in self._rounds
            ],
        }

    @property
    def alpha(self) -> Fraction:
        """The error budget of the whole stream."""
        return self._claim.alpha

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """What every candidate must satisfy."""
        return self._requirements

    def submit(self, losses: ArrayLike, records: Records) -> Round:
        """Judge the next candidate on a fresh batch.

        Parameters
        ----------
        losses
            Of the candidate: records x requirements.
        records
            Those of the batch, with their ids.

        Returns
        -------
        Round
            The verdict, with its p-value and the level of the round.

        Raises
        ------
        TargetReused
            Where a record or a cluster was seen in an earlier round.
        LossMismatch
            Where the records have no ids, or there are several candidates.
        """
        if not isinstance(records, Records):
            raise LossMismatch(f"a round needs Records with the ids of its batch, got {records!r}")
        values = as_array(losses)
        array = LossArray(values[None] if values.ndim == 2 else values, records)
        # The level of a round pays for one candidate; the best of several would need more.
        if array.shape[0] != 1:
            raise LossMismatch(f"one candidate a round, got {array.shape[0]}")
        check_labels(records, self._design)
        if records.ids is None:
            raise LossMismatch("a stream needs records.ids, to see that every batch is fresh")
        # Records of one cluster depend on each other: the cluster is what must be fresh.
        batch = {("record", label) for label in records.texts("ids")} | {
            ("cluster", label) for label in records.texts("clusters")
        }
        again = batch & self._used
        if again:
            noun, label = min(again)
            raise TargetReused(
                f"records or clusters were seen in an earlier round, {len(again)} of them, for "
                f"example {noun} {label}; every round needs records that shaped no earlier "
                "candidate"
            )
        number = len(self._rounds) + 1
        # Levels fall so that all rounds there can be sum to alpha: no end has to be registered.
        level = spending_level(number, alpha=float(self._claim.alpha))
        reading = Reading(
            requirements=self._requirements,
            design=self._design,
            tests=self._claim.tests(self._design, self._requirements),
            level=level,
            violation_level=level,
            seed=self._seed + number,  # an order, and uniforms, of its own for every batch
        )
        evidence = gather_evidence(array, reading)
        pvalue = float(evidence.release_pvalues[0])
        verdict = Round(
            number=number,
            decision=Decision.VALIDATED if pvalue <= level else Decision.UNRESOLVED,
            pvalue=pvalue,
            level=level,
        )
        # Only now: a batch that was refused has been looked at by nobody.
        self._used |= batch
        self._rounds.append(verdict)
        return verdict
