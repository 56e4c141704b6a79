"""`CrowdJson`: the strong JSON rung, writing the answers to several requests in lockstep.

One pass a token serves all of them, so that thousands of answers are affordable on a CPU; the
answers are those of the rung alone, up to the rounding of another number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from readoff.bench.records import Ask, Given, Workload
from readoff.bench.rungs.continuation import Continuation
from readoff.bench.rungs.line import Line
from readoff.bench.rungs.strong_json import StrongJson
from readoff.engine.engine import Engine

MAX_NEW_TOKENS = 160
"""The token limit of one answer. Options may be whole sentences, which have to be spelled."""


@dataclass(frozen=True)
class Crowd(Ask):
    """Several requests as one. Its questions are those of all `parts`, each under a name that
    begins with the number of its part."""

    parts: tuple[Ask, ...] = field(default=())

    @classmethod
    def of(cls, asks: Sequence[Ask]) -> Crowd:
        """Requests with one question at least."""
        parts = tuple(
            replace(ask, questions={f"{n}:{name}": q for name, q in ask.questions.items()})
            for n, ask in enumerate(asks)
        )
        questions = {name: q for part in parts for name, q in part.questions.items()}
        return cls(asks[0].state, questions, parts=parts)


class CrowdJson(StrongJson):
    """L1j over crowds."""

    def __init__(self, engine: Engine, asks: Sequence[Ask]) -> None:
        """Compiles the grammars of `asks`. Raises UnavailableError without xgrammar."""
        super().__init__(jump=True, max_new_tokens=MAX_NEW_TOKENS)
        self.prepare(engine, Workload("evaluation", "quality", "en", tuple(asks)))

    def write(self, asks: Sequence[Ask]) -> list[dict[str, Given]]:
        """The answers to all questions of `asks`."""
        run = self.where_it_computes(lambda: self.answer(Crowd.of(asks)))
        return [
            {name: run.given[f"{n}:{name}"] for name in ask.questions} for n, ask in enumerate(asks)
        ]

    def _lines(self, ask: Ask) -> tuple[list[Line], list[Continuation]]:
        """Those of each part, moved to slots of their own."""
        if not isinstance(ask, Crowd):
            return super()._lines(ask)
        lines: list[Line] = []
        beginnings: list[Continuation] = []
        slot, state = 0, 0
        for part in ask.parts:
            own, beginning = super()._lines(part)
            end = max(line.slot + len(line.pending) + line.limit for line in own)
            lines += [_moved(line, slot, state) for line in own]
            beginnings += [
                replace(one, slot=one.slot + slot, state_out=one.state_out + state)
                for one in beginning
            ]
            slot += end
            state += 1 + 2 * len(own)  # slot 0, which is never written, is everybody's
        self._reserve(slot, state + 1)
        return lines, beginnings


def _moved(line: Line, slot: int, state: int) -> Line:
    line.slot += slot
    line.chain = tuple((at + slot, count) for at, count in line.chain)
    line.state += state if line.state else 0
    line.states = (line.states[0] + state, line.states[1] + state)
    return line
