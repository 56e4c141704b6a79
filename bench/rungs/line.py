"""`Line`: one answer that is being written, and what the pools hold of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from readoff.bench.rungs.answer_grammar import Constraint
from readoff.bench.rungs.continuation import Continuation, Reading, Span

SPLIT = 16
"""A recurrent line with more pending tokens than this computes them in a segment of their own, so
that a draft that is dropped doesn't cost them a second pass."""


@dataclass
class Line:
    """`pending` tokens are known but not computed; `own` ones are, in the slots from `slot` on.

    The line's first tokens come after `chain`, at position `first`. `state` is the state slot after
    the computed tokens, `states` the two slots of the line's own that take turns.
    """

    name: str
    constraint: Constraint
    pending: list[int]
    first: int
    slot: int
    limit: int
    chain: tuple[Span, ...]
    state: int
    states: tuple[int, int]
    recurrent: bool
    own: int = 0
    tokens: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    """How much less probable the second choice was, for each token."""
    _draft: list[int] = field(default_factory=list)
    _allowed: list[list[int]] = field(default_factory=list)

    @property
    def stopped(self) -> bool:
        """Whether the answer is complete or as long as it may become."""
        return self.constraint.finished or len(self.tokens) >= self.limit

    @property
    def reads(self) -> list[int]:
        """How many labels each reading of the last `plan` has."""
        return [len(allowed) for allowed in self._allowed]

    def plan(self, encode: Callable[[str], Sequence[int]] | None) -> list[Continuation]:
        """The next segments: what is pending and, with `encode`, a draft of the forced text.

        The draft is checked, token by token, when its logits are there. Nothing where the rest
        needs no pass, because each of its tokens is the only legal one: it is accepted at once.
        """
        self._look_ahead(encode)
        if self.constraint.finished and all(len(allowed) == 1 for allowed in self._allowed):
            for token in self._draft:
                self._record(token, 1.0, 1.0)
            return []
        parts = []
        if self.recurrent and self._draft and len(self.pending) > SPLIT:
            *before, last = self.pending
            parts.append(self._segment(before))
            self._computed(len(before), [last])
        rows = len(self._allowed)
        start = len(self.pending) - 1
        readings = [Reading(start + n, allowed) for n, allowed in enumerate(self._allowed)]
        parts.append(self._segment([*self.pending, *self._draft[: rows - 1]], readings))
        return parts

    def _look_ahead(self, encode: Callable[[str], Sequence[int]] | None) -> None:
        """Fill the draft, and what is legal before each of its tokens and after it."""
        self._draft, self._allowed = [], [self.constraint.allowed()]
        forced = encode(self.constraint.forced()) if encode is not None else ()
        for token in forced[: self.limit - len(self.tokens) - 1]:
            if not self.constraint.accept(token):
                break
            self._draft.append(token)
            if self.constraint.finished:
                break
            self._allowed.append(self.constraint.allowed())

    def _segment(self, ids: Sequence[int], readings: Sequence[Reading] = ()) -> Continuation:
        return Continuation(
            ids=tuple(ids),
            position=self.first + self.own,
            slot=self.slot + self.own,
            own=self.own,
            chain=self.chain,
            parent_state=self.state,
            state_out=self._next_state,
            readings=readings,
        )

    @property
    def _next_state(self) -> int:
        return self.states[self.state == self.states[0]]

    def take(self, probabilities: Sequence[Sequence[float]]) -> None:
        """Go on by the most probable tokens, as far as the draft agrees with them."""
        drafted = len(self._draft)
        self.constraint.take_back(drafted)
        accepted = 0
        chosen = -1
        for row, (allowed, p) in enumerate(zip(self._allowed, probabilities, strict=True)):
            best = max(range(len(p)), key=p.__getitem__)
            second = max((x for n, x in enumerate(p) if n != best), default=0.0)
            chosen = allowed[best]
            assert self.constraint.accept(chosen), "the mask and the grammar disagree"
            self._record(chosen, p[best], p[best] - second)
            if row < drafted and chosen == self._draft[row]:
                accepted += 1
            else:
                break
        self._advance(accepted, chosen)

    def _record(self, token: int, probability: float, gap: float) -> None:
        self.tokens.append(token)
        self.probabilities.append(probability)
        self.gaps.append(gap)

    def _advance(self, accepted: int, chosen: int) -> None:
        computed = len(self._allowed) - 1  # draft tokens that went through the model
        if accepted < computed and self.recurrent:
            # The new state holds tokens that are taken back: go on from the old one once more.
            self.pending = [*self.pending, *self._draft[:accepted], chosen]
            return
        self._computed(len(self.pending) + min(accepted, computed), [chosen])

    def _computed(self, tokens: int, pending: list[int]) -> None:
        """The next `tokens` are in the pools now, and `pending` come after them."""
        self.own += tokens
        self.pending = pending
        self.state = self._next_state
