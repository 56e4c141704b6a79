"""The workloads: batches made by hand or by a forest, cold, and warm on kept pools."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from readoff.engine.batch import Batch
from readoff.engine.forest import Forest
from readoff.engine.packing import Placed, Reading, pack

LENGTHS = (128, 256, 512, 1024)
STATE, QUESTIONS, QUESTION = 400, 8, 40
MANY = 64
DOCUMENTS, DOCUMENT, QUERY, KEPT = 20, 150, 80, 3
LABELS = 8
STATES = 2 + 2 * QUESTIONS
"""State slots of the kept pools: zeros, the state, and two a line that is written on."""


@dataclass(frozen=True)
class Case:
    """`passes` one after the other answer it; `before` (untimed) fills the kept pools; `cold` is
    the same in one pass from nothing."""

    name: str
    passes: tuple[Batch, ...]
    before: Batch | None = None
    cold: Batch | None = None

    @property
    def tokens(self) -> int:
        """New tokens of all passes."""
        return sum(len(batch.tokens) for batch in self.passes)


class Cases:
    """All cases for one vocabulary; `scale` divides the lengths. Equal arguments, equal tokens."""

    def __init__(self, vocabulary: int, scale: int = 1, seed: int = 0) -> None:
        self._dice = random.Random(seed)
        self._vocabulary, self._scale = min(vocabulary, 100_000), scale
        self.state, self.question = self.size(STATE), self.size(QUESTION)
        self.kv_slots = self.state + MANY * (self.question + 24) + self.size(1024)
        """KV slots that the warm cases and the written answers use, the last one free."""

    def size(self, tokens: int) -> int:
        """A length at this scale."""
        return max(2, tokens // self._scale)

    def ids(self, length: int) -> tuple[int, ...]:
        """Random tokens."""
        return tuple(self._dice.randrange(self._vocabulary) for _ in range(length))

    def all(self) -> list[Case]:
        """In the order in which they are measured: what is aimed at first."""
        cold = [self.single(self.size(n)) for n in LENGTHS]
        tree = Case(f"{STATE} + {QUESTIONS}x{QUESTION} cold", (self.tree(QUESTIONS),))
        warm = [self.warm(n) for n in (QUESTIONS, 1, MANY)]
        return [cold[2], tree, *warm, cold[0], cold[1], cold[3], self.search()]

    def single(self, tokens: int) -> Case:
        """One decision: a state and one question, `tokens` together."""
        forest = Forest()
        own = min(self.question, tokens // 2)
        forest.read(forest.add([self.ids(tokens - own), self.ids(own)]), range(LABELS))
        return Case(f"one decision, {tokens} tokens", (forest.batch(),))

    def tree(self, questions: int) -> Batch:
        """A state and questions on it, cold."""
        forest = Forest()
        state = self.ids(self.state)
        for _ in range(questions):
            forest.read(forest.add([state, self.ids(self.question)]), range(LABELS))
        return forest.batch()

    def warm(self, questions: int) -> Case:
        """Questions on a state that lies in the kept pools, its snapshot in state slot 1."""
        state = Placed(self.ids(self.state), 0, 0, state_out=1)
        asked = [
            Placed(
                self.ids(self.question),
                self.state,
                self.state + n * self.question,
                ((0, self.state),),
                parent_state=1,
            )
            for n in range(questions)
        ]
        name = f"{questions}x{QUESTION} on a warm state of {STATE}"
        cold = Forest()
        for part in asked:
            cold.read(cold.add([tuple(state.ids), tuple(part.ids)]), range(LABELS))
        warm = self.batch(asked, range(questions))
        return Case(name, (warm,), self.batch([state], [0]), cold.batch())

    def search(self) -> Case:
        """A step: one query, every document below it with its question; then, over what was kept,
        whether it suffices and whether to stop."""
        first, then = Forest(), Forest()
        query = self.ids(self.size(QUERY))
        documents = [self.ids(self.size(DOCUMENT)) for _ in range(DOCUMENTS)]
        asked = self.ids(self.question)
        for document in documents:
            first.read(first.add([query, document, asked]), range(2))
        kept = [query, *documents[:KEPT]]
        for _ in range(2):
            then.read(then.add([*kept, self.ids(self.question)]), range(2))
        return Case(f"search step, {DOCUMENTS} documents", (first.batch(), then.batch()))

    def gate(self) -> Batch:
        """Everything at once: odd lengths, branches, repeated tokens, 1 to 255 labels."""
        forest = Forest()
        start, state = self.ids(5), self.ids(self.size(150))
        repeated = (7,) * self.size(130)
        for chain, labels in (
            ([start, state, self.ids(1)], 2),
            ([start, state, self.ids(3)], 27),
            ([start, state, self.ids(self.size(65))], 255),
            ([start, state, self.ids(2), self.ids(self.size(40))], 26),
            ([start, repeated, (7,) * self.size(40)], 1),
            ([self.ids(self.size(64)), self.ids(self.size(63))], 8),
        ):
            choices = self._dice.sample(range(self._vocabulary), labels)
            forest.read(forest.add(chain), choices, [0.1 * (n % 3) for n in range(labels)], 0.7)
        return forest.batch()

    @staticmethod
    def whole(passes: Sequence[Batch]) -> Batch:
        """The tokens of all passes as one segment from nothing, read at its end."""
        forest = Forest()
        ids = [token for batch in passes for token in batch.tokens.tolist()]
        forest.read(forest.add([tuple(ids)]), range(LABELS))
        return forest.batch()

    def batch(self, segments: Sequence[Placed], read: Iterable[int]) -> Batch:
        """A batch for the kept pools that reads at the end of the segments numbered `read`."""
        readings = [
            Reading(n, len(segments[n].ids) - 1, range(LABELS), [0.0] * LABELS) for n in read
        ]
        return pack(segments, readings, self.kv_slots, STATES)
