"""Navigation: BIG-bench, which question leads to the answer given, in the text given?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from readoff.bench.quality import bigbench
from readoff.bench.quality.items import Item, named, shuffled
from readoff.engine.questions import Choice


def question_selection(path: str | Path) -> Iterator[Item]:
    """A passage, a short answer and 2 to 10 questions.

    The file puts the right question first, so the options are shuffled. Sampling balances over
    the number of options and the place of the right one.
    """
    for example in bigbench.examples(path, "question_selection"):
        heading, answer, passage = example.split("Short Answer:", " Context:")
        question = shuffled(
            Choice(
                instructions="Which question does the passage answer with the short answer?",
                criteria=dict.fromkeys(example.options),
            ),
            (heading, example.input),
        )
        item = named({"passage": passage, "answer": answer}, "question", question, example.answer)
        place = question.options.index(example.answer)
        yield replace(item, stratum=(len(question.options), place))
