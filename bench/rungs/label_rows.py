"""L3: only the label rows of the head, one pass a question."""

from __future__ import annotations

import time

from readoff.bench.records import Ask, Run
from readoff.bench.rungs.rung import Rung, given_by
from readoff.bench.rungs.work import separate


class LabelRows(Rung):
    """`Engine.decide`, once a question."""

    name = "L3"
    title = "readoff, label rows"
    kind = "readout"
    calls_engine = True

    def answer(self, ask: Ask) -> Run:
        """One pass a question."""
        start = time.perf_counter()
        answers = {
            name: self.engine.decide(ask.state, {name: question}, debias="none")[name]
            for name, question in ask.questions.items()
        }
        seconds = time.perf_counter() - start
        given = {name: given_by(ask.questions[name], answer) for name, answer in answers.items()}
        work = separate(self.engine.renderer.render(ask.state, ask.questions))
        self.work += work
        return Run(given, seconds, work.tokens, 0)
