"""L4: all questions of a request in one pass, its state computed once."""

from __future__ import annotations

import time

from readoff.bench.records import Ask, Run
from readoff.bench.rungs.rung import Rung, given_by
from readoff.bench.rungs.work import shared


class SharedState(Rung):
    """`Engine.decide` as its users call it."""

    name = "L4"
    title = "readoff, state shared"
    kind = "readout"
    calls_engine = True

    def answer(self, ask: Ask) -> Run:
        """One pass."""
        start = time.perf_counter()
        decision = self.engine.decide(ask.state, ask.questions, debias="none")
        seconds = time.perf_counter() - start
        given = {name: given_by(ask.questions[name], answer) for name, answer in decision.items()}
        self.work += shared(self.engine.renderer.render(ask.state, ask.questions))
        return Run(given, seconds, decision.usage.computed_tokens, 0)
