"""`Policy`: what a card and a call ask for around the forward pass: debiasing, gate, escalation."""

from __future__ import annotations

from collections.abc import Sequence

from readoff.engine.answers import Decision
from readoff.engine.card import Card
from readoff.engine.card_fields import Debias, check_debias
from readoff.engine.debias import ROTATIONS, Ask, Priors, Questions, debiased
from readoff.engine.escalation import LIMIT, TIMEOUT, Escalate, gated
from readoff.engine.gate import Gate, choose_gate
from readoff.engine.text import Text


class Policy:
    """The card's debiasing and gate, and the content-free priors measured so far.

    One belongs to one engine. For several threads. Raises CardError for a card whose gate makes no
    sense.
    """

    def __init__(self, card: Card) -> None:
        self.card = card
        self.gate = choose_gate(None, card)
        self._priors = Priors()

    def plain(
        self, debias: Debias | None, gate: Gate | float | None, escalate: Escalate | None
    ) -> bool:
        """Whether a call asks for nothing but the forward pass."""
        nothing = escalate is None and gate is None and self.gate is None
        return nothing and (debias or self.card.debias) == "none"

    def decide(
        self,
        ask: Ask,
        requests: Sequence[tuple[Text, Questions]],
        *,
        debias: Debias | None = None,
        rotations: int = ROTATIONS,
        gate: Gate | float | None = None,
        escalate: Escalate | None = None,
        limit: int = LIMIT,
        timeout: float = TIMEOUT,
    ) -> list[Decision]:
        """`ask(requests)` debiased, then gated, then escalated. None takes what the card says.

        Raises what `ask` raises, CardError for a debiasing or a gate that is none, ReadoffError for
        an escalation without a gate.
        """
        mode = self.card.debias if debias is None else check_debias(debias)
        chosen = self.gate if gate is None else choose_gate(gate, self.card)
        gated([], [], chosen, escalate, limit=limit, timeout=timeout)  # or an error now
        if mode == "none":
            decisions = list(ask(requests))
        else:
            decisions = debiased(ask, requests, mode, self.card, self._priors, rotations)
        return gated(requests, decisions, chosen, escalate, limit=limit, timeout=timeout)
