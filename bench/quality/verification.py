"""Verification: BIG-bench, does a sentence follow from another one?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from readoff.bench.quality import bigbench
from readoff.bench.quality.items import Item, named
from readoff.engine.questions import Choice, Noul


def entailed_polarity(path: str | Path) -> Iterator[Item]:
    """A fact and a yes/no question."""
    for example in bigbench.examples(path, "entailed_polarity"):
        _, fact, asked = example.split("Fact:", " Q:")
        question = Noul(instructions=asked, criteria={"true": "Yes", "false": "No"})
        yield named(fact, "answer", question, "true" if example.answer == "yes" else "false")


def analytic_entailment(path: str | Path) -> Iterator[Item]:
    """Two sentences, the second drawn as a conclusion from the first."""
    question = Noul(instructions="The last sentence follows from what stands before it.")
    for example in bigbench.examples(path, "analytic_entailment"):
        answer = "true" if example.answer == "entailment" else "false"
        yield named(example.input.strip(), "follows", question, answer)


def presuppositions_as_nli(path: str | Path) -> Iterator[Item]:
    """Premise and hypothesis: entailment, neutral or contradiction."""
    question = Choice(
        instructions="What does the premise say about the hypothesis?",
        criteria={
            "entailment": "It follows from the premise",
            "neutral": "The premise leaves it open",
            "contradiction": "The premise rules it out",
        },
    )
    for example in bigbench.examples(path, "presuppositions_as_nli"):
        _, premise, hypothesis, _ = example.split("Sentence 1:", "Sentence 2:", "The answer is:")
        state = {"premise": premise, "hypothesis": hypothesis}
        yield named(state, "relation", question, example.answer)
