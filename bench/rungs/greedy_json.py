"""L0: greedy JSON by `transformers.generate`, as people write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readoff.bench.json_answer import option_of
from readoff.bench.records import Ask, Given, Run, Workload
from readoff.bench.rungs.generation import GenerationTimes
from readoff.bench.rungs.opponent import Opponent
from readoff.bench.rungs.rung import Rung
from readoff.bench.rungs.work import Work, causal_pairs
from readoff.engine.engine import Engine

if TYPE_CHECKING:
    from readoff.bench.json_generate import Generated, JsonGenerator


class GreedyJson(Rung):
    """One chat a question, no grammar, stopped at the closing brace or at its `token_limit`."""

    name = "L0"
    title = "JSON, transformers.generate"
    kind = "json"

    def __init__(self, opponent: Opponent, *, max_new_tokens: int | None = None) -> None:
        super().__init__()
        self.opponent, self.max_new_tokens = opponent, max_new_tokens
        self.times = GenerationTimes()
        self._generator: JsonGenerator | None = None

    def prepare(self, engine: Engine, workload: Workload) -> None:
        """Loads the transformers model."""
        super().prepare(engine, workload)
        model = self.opponent.model(self.name)
        from readoff.bench.json_generate import JsonGenerator

        self._generator = JsonGenerator(
            model, engine.renderer.tokenizer, max_new_tokens=self.max_new_tokens
        )
        self.times = GenerationTimes()

    def restart(self) -> None:
        """Forget the times so far."""
        super().restart()
        self.times = GenerationTimes()

    def modelled(self) -> float | None:
        """`1 + n · t_token / t_prefill` of the answers since `restart`."""
        return self.times.modelled()

    def answer(self, ask: Ask) -> Run:
        """One generation a question, one after the other."""
        assert self._generator is not None, "prepare comes first"
        given: dict[str, Given] = {}
        seconds, computed, generated = 0.0, 0, 0
        for name, question in ask.questions.items():
            with self.computing():
                found = self._generator.ask(ask.state, question)
            given[name] = Given(
                option_of(found.value),
                stated=found.confidence,
                token_confidence=found.token_confidence,
                failure=found.failure,
            )
            seconds += found.seconds
            computed += found.prompt_tokens + found.new_tokens - 1
            generated += found.new_tokens
            self._count(found)
        return Run(given, seconds, computed, generated)

    def _count(self, found: Generated) -> None:
        tokens = found.prompt_tokens + found.new_tokens - 1  # nobody computes the last one
        rows = found.new_tokens * self.engine.backbone.config.vocab_size
        self.work += Work(found.new_tokens, tokens, causal_pairs(tokens), rows)
        if found.first_token_seconds is not None:
            self.times.add(
                found.first_token_seconds,
                found.seconds - found.first_token_seconds,
                found.new_tokens - 1,
            )
