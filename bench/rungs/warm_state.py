"""L5: the state was computed before the question came."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from readoff.bench.records import Ask, Given, Run, Workload
from readoff.bench.rungs.continuation import Continuation, Reading, batch_of
from readoff.bench.rungs.rung import Rung, card_of, given_by, shared_pieces
from readoff.bench.rungs.work import shared
from readoff.engine.answers import build_answer
from readoff.engine.engine import Engine
from readoff.engine.errors import NumericsError
from readoff.engine.pools import KeptPools
from readoff.engine.prompt import Prompt

KEPT = 32
"""Requests whose states stay in memory at a time."""


@dataclass(frozen=True)
class _Warm:
    """A request's pools with `tokens` of its beginning in them, its last state in slot 1."""

    ask: Ask
    pools: KeptPools
    pieces: int
    tokens: int


class WarmState(Rung):
    """The pieces that a request's prompts share lie in kept pools; the rest is one timed pass."""

    name = "L5"
    title = "readoff, warm state"
    kind = "readout"

    def __init__(self) -> None:
        super().__init__()
        self._warm: OrderedDict[int, _Warm] = OrderedDict()

    def prepare(self, engine: Engine, workload: Workload) -> None:
        """Forgets the states of another workload."""
        super().prepare(engine, workload)
        self._warm.clear()

    def answer(self, ask: Ask) -> Run:
        """Render the questions, run their tokens, read."""
        with self.computing():
            warm = self._state(ask)
            start = time.perf_counter()
            prompts = self.engine.renderer.render(ask.state, ask.questions)
            given = self._read(ask, self._rest(ask, prompts, warm), warm)
            seconds = time.perf_counter() - start
        work = shared(prompts, warm=warm.pieces)
        self.work += work
        return Run(given, seconds, work.tokens, 0)

    def _state(self, ask: Ask) -> _Warm:
        """The pools that hold this request's state; computed when it is first asked for."""
        found = self._warm.get(id(ask))
        if found is not None and found.ask is ask:
            self._warm.move_to_end(id(ask))
            return found
        prompts = self.engine.renderer.render(ask.state, ask.questions)
        pieces = shared_pieces(prompts)
        ids = [t for piece in prompts[0].pieces[:pieces] for t in piece.ids]
        slots = len(ids) + sum(len(prompt) - len(ids) for prompt in prompts)
        backbone, device = self.engine.backbone, self.engine.device
        pools = KeptPools(backbone.config, slots, 2 + len(prompts), self.engine.dtype, device)
        # The last layer runs the rows that are read only; its keys are written all the same.
        first = Continuation(ids, 0, 0, state_out=1, readings=[Reading(0, [0])])
        backbone(batch_of([first], slots, pools.state_slots).to(device), pools)
        warm = _Warm(ask, pools, pieces, len(ids))
        self._warm[id(ask)] = warm
        while len(self._warm) > KEPT:
            self._warm.popitem(last=False)
        return warm

    def _rest(self, ask: Ask, prompts: Sequence[Prompt], warm: _Warm) -> list[Continuation]:
        """The tokens that are new, a segment a question."""
        slot = warm.tokens
        parts = []
        for (name, question), prompt in zip(ask.questions.items(), prompts, strict=True):
            ids = [t for piece in prompt.pieces[warm.pieces :] for t in piece.ids]
            prior, temperature = card_of(self.engine, name, question)
            reading = Reading(len(ids) - 1, prompt.labels.ids, prior, temperature)
            chain = ((0, warm.tokens),)
            parts.append(
                Continuation(
                    ids, warm.tokens, slot, chain=chain, parent_state=1, readings=[reading]
                )
            )
            slot += len(ids)
        return parts

    def _read(self, ask: Ask, parts: Sequence[Continuation], warm: _Warm) -> Mapping[str, Given]:
        backbone, pools = self.engine.backbone, warm.pools
        batch = batch_of(parts, pools.kv_slots, pools.state_slots).to(self.engine.device)
        readout = backbone.readout(backbone(batch, pools), batch)
        logits, probabilities = readout.logits.tolist(), readout.probabilities.double().tolist()
        given = {}
        at = 0
        for name, question in ask.questions.items():
            here = slice(at, at + len(question.options))
            try:
                answer = build_answer(question, logits[here], probabilities[here])
            except NumericsError as error:
                raise NumericsError(f"Rung {self.name}, question {name!r}: {error}") from error
            given[name] = given_by(question, answer)
            at = here.stop
        return given
