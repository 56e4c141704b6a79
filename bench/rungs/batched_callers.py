"""L6: several callers at once, their requests packed into one call."""

from __future__ import annotations

import time
from collections.abc import Sequence

from readoff.bench.records import Ask, Run, Workload
from readoff.bench.rungs.rung import Rung, UnavailableError, given_by
from readoff.bench.rungs.work import Work, shared
from readoff.engine.engine import Engine
from readoff.engine.worker import STEP_TOKENS

CALLERS = 8


class BatchedCallers(Rung):
    """`Engine.decide_many` over up to eight requests. Seconds are a request's share of the call:
    this rung measures throughput, not how long a caller waits."""

    name = "L6"
    title = "readoff, batched callers"
    kind = "readout"
    calls_engine = True
    group = CALLERS

    def prepare(self, engine: Engine, workload: Workload) -> None:
        """Raises UnavailableError for a workload of one request."""
        super().prepare(engine, workload)
        if len(workload.asks) < 2:
            raise UnavailableError(f"{self.name} needs at least two requests in the workload.")

    def answer(self, ask: Ask) -> Run:
        """A batch of one."""
        return self.answers([ask])[0]

    def answers(self, asks: Sequence[Ask]) -> list[Run]:
        """One call for all of `asks`."""
        start = time.perf_counter()
        decisions = self.engine.decide_many(
            [(ask.state, ask.questions) for ask in asks], debias="none"
        )
        each = (time.perf_counter() - start) / len(asks)
        runs = []
        prompts = []
        for ask, decision in zip(asks, decisions, strict=True):
            given = {name: given_by(ask.questions[name], a) for name, a in decision.items()}
            runs.append(Run(given, each, decision.usage.computed_tokens, 0))
            prompts += self.engine.renderer.render(ask.state, ask.questions)
        # The engine opens another pass where one is full; its usage says what was computed.
        work = shared(prompts)
        passes = max(1, -(-work.tokens // STEP_TOKENS))
        self.work += Work(passes, work.tokens, work.pairs, work.head_rows)
        return runs
