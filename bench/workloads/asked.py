"""Questions of the six families in the three types, of about a given length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from readoff.bench.workloads.lexicon import FAMILIES, Family, Forms, Writer
from readoff.bench.workloads.ruler import Ruler
from readoff.engine.questions import Choice, Noul, Question, QuestionType, Score

QUESTION_TOKENS = 40
_DRAWS = 12  # of which the one nearest to the length is taken
_TYPES: tuple[QuestionType, ...] = get_args(QuestionType)


def make_question(
    family: Family,
    kind: QuestionType,
    writer: Writer,
    ruler: Ruler,
    *,
    known: Sequence[Question] = (),
    tokens: int = QUESTION_TOKENS,
) -> Question:
    """A question of about `tokens` tokens that differs from all of `known`."""
    draws = [_draw(family, kind, writer) for _ in range(_DRAWS)]
    fresh = [question for question in draws if question not in known] or draws
    return min(fresh, key=lambda question: abs(ruler.question(question) - tokens))


def make_questions(count: int, writer: Writer, ruler: Ruler) -> dict[str, Question]:
    """`count` different questions by id, going round the families and the types."""
    made: dict[str, Question] = {}
    for index in range(count):
        family = FAMILIES[index % len(FAMILIES)]
        kind = _TYPES[(index + index // len(FAMILIES)) % len(_TYPES)]
        question = make_question(family, kind, writer, ruler, known=tuple(made.values()))
        made[f"{family}_{kind}_{index + 1}"] = question
    return made


def _draw(family: Family, kind: QuestionType, writer: Writer) -> Question:
    forms = writer.lexicon.forms[family]
    if kind == "choice":
        return Choice(
            instructions=writer.write(forms.choice),
            criteria=dict.fromkeys(_options(forms, writer)),
        )
    if kind == "score":
        pattern, levels = writer.dice.pick(list(zip(forms.score, forms.levels, strict=True)))
        return Score(instructions=writer.fill(pattern), criteria=levels)
    return Noul(instructions=writer.write(forms.noul))


def _options(forms: Forms, writer: Writer) -> list[str]:
    """Four to six options, or fewer where a domain has no more words for them."""
    count = writer.dice.number(4, 6)
    if len(forms.options) >= count:
        return writer.dice.sample(forms.options, count)
    drawn = [writer.fill(forms.options[0]) for _ in range(8 * count)]
    return list(dict.fromkeys(drawn))[:count]
