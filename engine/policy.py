"""`Policy`: what a card and a call ask for around the forward pass: debiasing, gate, escalation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

from readoff.engine.answers import Decision
from readoff.engine.card import Card
from readoff.engine.card_fields import Debias, check_debias, check_rotations
from readoff.engine.debias import Ask, Priors, Questions, debiased
from readoff.engine.errors import ReadoffError
from readoff.engine.escalation import LIMIT, TIMEOUT, Escalate, check_escalation, gated
from readoff.engine.gate import Gate, choose_gate
from readoff.engine.text import Text


class Wishes(TypedDict, total=False):
    """What a call may ask for; None and what is left out take what the card says."""

    debias: Debias | None
    rotations: int | None
    gate: Gate | float | None
    escalate: Escalate | None
    limit: int
    timeout: float


@dataclass(frozen=True)
class Plan:
    """What is done for a call, every part of it checked."""

    debias: Debias
    rotations: int
    gate: Gate | None
    escalate: Escalate | None
    limit: int
    timeout: float

    @property
    def plain(self) -> bool:
        """Whether it is nothing but the forward pass and a look at its answers."""
        return self.debias == "none" and self.escalate is None


class Policy:
    """The card's debiasing and gate, and the content-free priors measured so far.

    The card's gate was fitted to probabilities under the card's debiasing. Where a call debiases in
    another way, or in another number of rotations, it is not applied: there are no verdicts unless
    the call gives a gate. The card's temperatures and prior are applied all the same.

    One belongs to one engine. For several threads. Raises CardError for a card whose gate makes no
    sense.
    """

    def __init__(self, card: Card) -> None:
        self.card = card
        self.gate = choose_gate(None, card)
        self._priors = Priors()

    def plan(self, **wishes: Unpack[Wishes]) -> Plan:
        """What a call gets; nothing is computed.

        Raises CardError for a debiasing, rotations or a gate that is none, ReadoffError for what
        can't be escalated with and for an escalation without a gate.
        """
        debias, rotations = wishes.get("debias"), wishes.get("rotations")
        mode = self.card.debias if debias is None else check_debias(debias)
        orders = self.card.rotations if rotations is None else check_rotations(rotations)
        turned = mode in ("rotate", "both") and orders != self.card.rotations
        fitted = mode == self.card.debias and not turned
        wanted, escalate = wishes.get("gate"), wishes.get("escalate")
        gate = choose_gate(wanted, self.card) if wanted is not None else None
        if wanted is None and fitted:
            gate = self.gate
        limit, timeout = wishes.get("limit", LIMIT), wishes.get("timeout", TIMEOUT)
        if gate is None and self.gate is not None and escalate is not None:
            raise ReadoffError(
                f'The card\'s gate was fitted under debias="{self.card.debias}" '
                f"(rotations={self.card.rotations}) and isn't applied under another debiasing, so "
                "nothing would be escalated. Give gate= too, or leave debias= and rotations= out."
            )
        check_escalation(gate, escalate, limit, timeout)
        return Plan(mode, orders, gate, escalate, limit, timeout)

    def decide(
        self, ask: Ask, requests: Sequence[tuple[Text, Questions]], **wishes: Unpack[Wishes]
    ) -> list[Decision]:
        """`ask(requests)` debiased, then gated, then escalated. Raises what `ask` and `plan` do."""
        plan = self.plan(**wishes)
        if plan.debias == "none":
            decisions = list(ask(requests))
        else:
            decisions = debiased(
                ask, requests, plan.debias, self.card, self._priors, plan.rotations
            )
        return gated(
            requests, decisions, plan.gate, plan.escalate, limit=plan.limit, timeout=plan.timeout
        )
