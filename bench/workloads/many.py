"""Many questions about one state: 1 to 32 of them, on states of 128 to 2048 tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from readoff.bench.records import Ask, Workload
from readoff.bench.workloads.asked import QUESTION_TOKENS, make_questions
from readoff.bench.workloads.lexicon import Dice, Lexicon, Writer
from readoff.bench.workloads.ruler import Ruler
from readoff.bench.workloads.states import SHAPES, make_state

QUESTIONS = (1, 2, 4, 8, 16, 32)
STATE_TOKENS = (128, 256, 512, 1024, 2048)


def many(
    lexicon: Lexicon,
    ruler: Ruler,
    *,
    seed: int,
    state_tokens: int,
    questions: Sequence[int],
    asks: int,
) -> Iterator[Workload]:
    """For each of the numbers in `questions`, a workload of `asks` requests.

    The states depend on the seed and their length only, and fewer questions are the first ones of
    more, so that cells of the grid differ in nothing but what their axes say.
    """
    drawn = [
        _ask(lexicon, ruler, Dice(seed, "many", lexicon.language, state_tokens, i), i, state_tokens)
        for i in range(asks)
    ]
    for count in questions:
        yield Workload(
            name=f"many-{lexicon.language}-s{state_tokens}-q{count}",
            kind="many",
            language=lexicon.language,
            asks=[Ask(a.state, dict(list(a.questions.items())[:count])) for a in drawn],
            axes={
                "state_tokens": state_tokens,
                "questions": count,
                "question_tokens": QUESTION_TOKENS,
            },
        )


def _ask(lexicon: Lexicon, ruler: Ruler, dice: Dice, index: int, state_tokens: int) -> Ask:
    writer = Writer(lexicon, dice.pick(lexicon.domains), dice)
    shapes = tuple(SHAPES)
    state = make_state(shapes[index % len(shapes)], state_tokens, writer, ruler)
    return Ask(state=state, questions=make_questions(QUESTIONS[-1], writer, ruler))
