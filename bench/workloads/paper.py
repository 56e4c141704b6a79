"""The paper-shaped workload: one question with 4 to 6 options about a state of 400 tokens."""

from __future__ import annotations

from readoff.bench.records import Ask, Workload
from readoff.bench.workloads.asked import QUESTION_TOKENS, make_question
from readoff.bench.workloads.lexicon import FAMILIES, Dice, Lexicon, Writer
from readoff.bench.workloads.ruler import Ruler
from readoff.bench.workloads.states import SHAPES, make_state

STATE_TOKENS = 400


def paper(lexicon: Lexicon, ruler: Ruler, *, seed: int, asks: int) -> Workload:
    """`asks` requests, going round the shapes of states and the families of questions."""
    name = f"paper-{lexicon.language}"
    return Workload(
        name=name,
        kind="paper",
        language=lexicon.language,
        asks=[_ask(lexicon, ruler, Dice(seed, name, index), index) for index in range(asks)],
        axes={
            "state_tokens": STATE_TOKENS,
            "questions": 1,
            "question_tokens": QUESTION_TOKENS,
        },
    )


def _ask(lexicon: Lexicon, ruler: Ruler, dice: Dice, index: int) -> Ask:
    writer = Writer(lexicon, dice.pick(lexicon.domains), dice)
    shapes = tuple(SHAPES)
    state = make_state(shapes[index % len(shapes)], STATE_TOKENS, writer, ruler)
    # The step beside the round of shapes makes every family meet every shape in time.
    family = FAMILIES[(index + index // len(shapes)) % len(FAMILIES)]
    return Ask(state=state, questions={family: make_question(family, "choice", writer, ruler)})
