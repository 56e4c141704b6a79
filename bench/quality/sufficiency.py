"""Sufficiency: BIG-bench, which statements are enough to answer a question?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from readoff.bench.quality import bigbench
from readoff.bench.quality.items import Item, named
from readoff.engine.questions import Choice

_ASKED = "Which of the following statements is/are sufficient to answer the previous question?"


def evaluating_information_essentiality(path: str | Path) -> Iterator[Item]:
    """A question with two statements, and five ways in which they may suffice."""
    for example in bigbench.examples(path, "evaluating_information_essentiality"):
        asked, statements = example.split(_ASKED)
        question = Choice(
            instructions="Which of the statements are sufficient to answer the question?",
            criteria=dict.fromkeys(example.options),
        )
        state = {"question": asked, "statements": statements}
        yield named(state, "sufficient", question, example.answer)
