"""JSON written token by token, as strong as we can make it: the opponent on the same weights.

Seeded weights can't write JSON, so the answer is forced: `ANSWER` tokens of which the first is read
from the prompt's own pass, each of the others from a pass of one token a line. Every pass is a
captured graph without padding; keys, values and recurrent states are kept; only the head rows that
a grammar would allow are multiplied (our own trick, given away); all questions of a request are
written in lockstep. Each token comes to the host before the next pass, as it must where a grammar
decides what is legal; the grammar itself is free here.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from readoff.bench.gpu.cases import QUESTIONS, Case, Cases
from readoff.bench.gpu.clock import Clock
from readoff.bench.gpu.runner import Runner
from readoff.engine.batch import Batch
from readoff.engine.packing import Placed

ANSWER = 20


def measure(runner: Runner, clock: Clock) -> list[dict[str, Any]]:
    """A decision against a written answer, for one question and for several on one state."""
    cases = runner.cases
    length = cases.size(512)
    single = cases.single(length)
    tree = Case(f"{QUESTIONS} questions", (cases.tree(QUESTIONS),))
    return [
        _compare(runner, clock, single, written(cases, length)),
        _compare(runner, clock, tree, [_branches(cases), *_branch_steps(cases)]),
    ]


def _compare(runner: Runner, clock: Clock, decision: Case, passes: list[Batch]) -> dict[str, Any]:
    def write() -> None:
        for batch in passes:
            runner.warm.run(batch)

    with runner.padded():
        captured = runner.was_captured(passes, runner.warm)
        answer = clock.host(write)
        first = clock.host(lambda: runner.warm.run(passes[0]))
        read = clock.host(lambda: runner.run(decision, True))
    return {
        "decision": decision.name,
        "answer_tokens": ANSWER,
        "passes": len(passes),
        "captured": captured,
        "json_ms": asdict(answer),
        "json_prefill_ms": asdict(first),
        "token_ms": (answer.p50 - first.p50) / (ANSWER - 1),
        "readout_ms": asdict(read),
        "speedup": answer.p50 / read.p50,
    }


def written(cases: Cases, length: int) -> list[Batch]:
    """The passes of one answer to a prompt of `length` tokens. Its tokens in this order are what
    the last of them has seen."""
    return [_prompt(cases, length), *_steps(cases, length)]


def _prompt(cases: Cases, length: int) -> Batch:
    return cases.batch([Placed(cases.ids(length), 0, 0, state_out=2)], [0])


def _steps(cases: Cases, length: int) -> list[Batch]:
    """One line that grows: its state goes to and fro between two slots."""
    return [
        cases.batch([_token(cases, 0, 0, length + n, (), 2, n)], [0]) for n in range(ANSWER - 1)
    ]


def _branches(cases: Cases) -> Batch:
    """The state, and below it every question, in one pass."""
    parts = [Placed(cases.ids(cases.state), 0, 0, state_out=1)]
    parts += [
        Placed(
            cases.ids(cases.question),
            cases.state,
            _slot(cases, line),
            ((0, cases.state),),
            parent=0,
            parent_state=1,
            state_out=2 + 2 * line,
        )
        for line in range(QUESTIONS)
    ]
    return cases.batch(parts, range(1, QUESTIONS + 1))


def _branch_steps(cases: Cases) -> list[Batch]:
    before, chain = cases.state, ((0, cases.state),)
    steps = []
    for n in range(ANSWER - 1):
        own = cases.question + n
        lines = [
            _token(cases, before, _slot(cases, line), own, chain, 2 + 2 * line, n)
            for line in range(QUESTIONS)
        ]
        steps.append(cases.batch(lines, range(QUESTIONS)))
    return steps


def _token(
    cases: Cases,
    before: int,
    first: int,
    own: int,
    chain: tuple[tuple[int, int], ...],
    states: int,
    step: int,
) -> Placed:
    """One more token of a line behind `before` tokens of ancestors; the line's keys begin in slot
    `first`, `own` of them so far."""
    return Placed(
        cases.ids(1),
        before + own,
        first + own,
        chain,
        own,
        parent_state=states + step % 2,
        state_out=states + 1 - step % 2,
    )


def _slot(cases: Cases, line: int) -> int:
    return cases.state + line * (cases.question + ANSWER)
