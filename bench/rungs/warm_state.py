"""L5: the state was computed before the question came."""

from __future__ import annotations

import time

from readoff.bench.records import Ask, Run, Workload
from readoff.bench.rungs.rung import Rung, given_by
from readoff.bench.rungs.work import shared
from readoff.engine.engine import Engine
from readoff.engine.errors import ReadoffError
from readoff.engine.serving import Serving

CACHE_BYTES = 4 << 30


class WarmState(Rung):
    """`Engine.decide` with its prefix cache, for a prompt whose shared pieces are in it."""

    name = "L5"
    title = "readoff, warm state"
    kind = "readout"
    calls_engine = True

    def __init__(self) -> None:
        super().__init__()
        self._warm: Engine | None = None

    def prepare(self, engine: Engine, workload: Workload) -> None:
        """An engine with an empty cache."""
        super().prepare(engine, workload)
        if self._warm is not None:
            self._warm.close()
        self._warm = engine.with_serving(Serving(cache_bytes=CACHE_BYTES))

    def answer(self, ask: Ask) -> Run:
        """One pass over the last pieces; what comes before them is made warm before the clock."""
        assert self._warm is not None, "prepare comes first"
        prompts = self.engine.renderer.render(ask.state, ask.questions)
        leaves = sum(len(leaf) for leaf in {prompt.pieces[-1].ids for prompt in prompts})
        for _ in range(2):  # the first time warms what a second one finds
            start = time.perf_counter()
            decision = self._warm.decide(ask.state, ask.questions, debias="none")
            seconds = time.perf_counter() - start
            if decision.usage.computed_tokens <= leaves:
                break
        else:
            raise ReadoffError(f"{self.name}: {CACHE_BYTES >> 20} MiB don't hold one state.")
        given = {name: given_by(ask.questions[name], answer) for name, answer in decision.items()}
        self.work += shared(prompts, warm=min(len(prompt.pieces) for prompt in prompts) - 1)
        return Run(given, seconds, decision.usage.computed_tokens, 0)
