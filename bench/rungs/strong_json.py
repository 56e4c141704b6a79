"""L1 and L1j: JSON as fast as it can be generated, on our own backbone.

The strongest opponent we could build, so that what is left of the lead is the readout's own:
keys, values and recurrent states are kept; the beginning that a request's prompts share is
computed once, in one pass with all of their ends; the answers of one request are then written in
lockstep, one pass a token for all of them; a grammar allows legal answers only, compiled before
the clock starts; only the head rows that the grammar allows are multiplied (our own trick, given
away); writing stops at the closing brace, whose own pass is never run.

L1j also jumps: the text that the grammar forces is computed as one segment, together with what
came before it. Forced text can be spelled by different tokens, so it is a draft: its logits, which
the pass gives anyway, say whether the model would have spelled it so, and from the first token
where it would not the draft is dropped. The tokens are therefore those of L1.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from readoff.bench.json_answer import given_from, messages, token_confidence, token_limit
from readoff.bench.records import Ask, Given, Run, Workload
from readoff.bench.rungs.answer_grammar import AnswerGrammar
from readoff.bench.rungs.continuation import Continuation, batch_of
from readoff.bench.rungs.generation import GenerationTimes
from readoff.bench.rungs.line import Line
from readoff.bench.rungs.rung import Rung
from readoff.bench.rungs.work import Work, causal_pairs
from readoff.engine.chat import ChatTemplate
from readoff.engine.engine import Engine
from readoff.engine.pools import KeptPools


@dataclass(frozen=True)
class Transcript:
    """The tokens of one answer, and how far ahead of the second choice each of them was."""

    tokens: tuple[int, ...]
    gaps: tuple[float, ...]


class StrongJson(Rung):
    """Greedy, constrained, batched JSON. `jump`: forced text in one segment (L1j). `max_new_tokens`
    None: the `token_limit` of each question."""

    kind = "json"

    def __init__(self, *, jump: bool = False, max_new_tokens: int | None = None) -> None:
        super().__init__()
        self.jump, self.max_new_tokens = jump, max_new_tokens
        self.name = "L1j" if jump else "L1"
        self.title = "JSON, strong, jumping" if jump else "JSON, strong"
        self.times = GenerationTimes()
        self.transcripts: dict[str, Transcript] = {}
        """Of the last request, by question."""
        self._grammar: AnswerGrammar | None = None
        self._pools: KeptPools | None = None

    def prepare(self, engine: Engine, workload: Workload) -> None:
        """Compiles the grammars. Raises UnavailableError without xgrammar."""
        super().prepare(engine, workload)
        tokenizer = engine.renderer.tokenizer
        self._grammar = AnswerGrammar(tokenizer, engine.backbone.config.vocab_size, self.name)
        self._chat = ChatTemplate.of(tokenizer)
        self.times = GenerationTimes()
        for question in {
            id(q): q for ask in workload.asks for q in ask.questions.values()
        }.values():
            self._grammar.start(question)

    def restart(self) -> None:
        """Forget the times so far."""
        super().restart()
        self.times = GenerationTimes()

    def modelled(self) -> float | None:
        """`1 + n · t_token / t_prefill` of the answers since `restart`."""
        return self.times.modelled()

    def answer(self, ask: Ask) -> Run:
        """Write the answers to all questions of one request."""
        start = time.perf_counter()
        work = Work()
        with self.computing():
            lines, beginning = self._lines(ask)
            encode = self.engine.renderer.tokenizer.encode_text if self.jump else None
            writing = lines
            first_seconds = 0.0
            while writing:
                planned = [(line, line.plan(encode)) for line in writing]
                writing = [line for line, segments in planned if segments]
                if not writing:
                    break
                parts = [*beginning, *(p for _, segments in planned for p in segments)]
                work += self._pass(writing, parts)
                beginning = []
                first_seconds = first_seconds or time.perf_counter() - start
                writing = [line for line in writing if not line.stopped]
        decode = self.engine.renderer.tokenizer.decode
        texts = {line.name: decode(line.tokens) for line in lines}
        seconds = time.perf_counter() - start
        given: dict[str, Given] = {}
        for line in lines:
            spelled = token_confidence(line.tokens, line.probabilities, decode)
            given[line.name] = given_from(texts[line.name], ask.questions[line.name], spelled)
        self.transcripts = {x.name: Transcript(tuple(x.tokens), tuple(x.gaps)) for x in lines}
        self.times.add(first_seconds, seconds - first_seconds, work.passes - 1)
        self.work += work
        return Run(given, seconds, work.tokens, sum(len(line.tokens) for line in lines))

    def _lines(self, ask: Ask) -> tuple[list[Line], list[Continuation]]:
        """A line a question, and the beginning they share (empty where there is one question)."""
        assert self._grammar is not None, "prepare comes first"
        encode = self.engine.renderer.tokenizer.encode_control
        prompts = [
            encode(self._chat.render(messages(ask.state, question)))
            for question in ask.questions.values()
        ]
        same = _common(prompts) if len(prompts) > 1 else 0
        config = self.engine.backbone.config
        slot = same
        lines = []
        for number, (name, prompt) in enumerate(zip(ask.questions, prompts, strict=True)):
            tail = list(prompt[same:])
            limit = self.max_new_tokens or token_limit(ask.questions[name])
            lines.append(
                Line(
                    name=name,
                    constraint=self._grammar.start(ask.questions[name]),
                    pending=tail,
                    first=same,
                    slot=slot,
                    limit=limit,
                    chain=((0, same),) if same else (),
                    state=1 if same else 0,
                    states=(2 + 2 * number, 3 + 2 * number),
                    recurrent=bool(config.conv_kernel),
                )
            )
            slot += len(tail) + limit
        self._reserve(slot, 2 + 2 * len(lines))
        return lines, [Continuation(prompts[0][:same], 0, 0, state_out=1)] if same else []

    def _reserve(self, kv_slots: int, state_slots: int) -> None:
        """Pools of at least this size; the same ones as before where they are large enough."""
        old = self._pools
        if old is None or old.kv_slots < kv_slots or old.state_slots < state_slots:
            backbone = self.engine.backbone
            if old is not None:
                kv_slots = max(kv_slots, old.kv_slots)
                state_slots = max(state_slots, old.state_slots)
            self._pools = None
            self._pools = KeptPools(
                backbone.config, kv_slots, state_slots, self.engine.dtype, self.engine.device
            )

    def _pass(self, lines: Sequence[Line], parts: Sequence[Continuation]) -> Work:
        """One pass over `parts`; every line goes on by what it reads."""
        assert self._pools is not None
        backbone = self.engine.backbone
        batch = batch_of(parts, self._pools.kv_slots, self._pools.state_slots)
        batch = batch.to(self.engine.device)
        readout = backbone.readout(backbone(batch, self._pools), batch)
        flat = readout.probabilities.tolist()
        at = 0
        for line in lines:
            rows = []
            for count in line.reads:
                rows.append(flat[at : at + count])
                at += count
            line.take(rows)
        pairs = sum(
            causal_pairs(len(part.ids), part.own + sum(n for _, n in part.chain)) for part in parts
        )
        return Work(1, sum(len(part.ids) for part in parts), pairs, at)


def _common(prompts: Sequence[Sequence[int]]) -> int:
    """The length of the beginning that all prompts share, at least one token left to each."""
    shortest = min(len(prompt) for prompt in prompts) - 1
    for n in range(shortest):
        if len({prompt[n] for prompt in prompts}) > 1:
            return n
    return shortest
