"""Which workloads a run has, and all of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from readoff.bench.records import Language, Workload
from readoff.bench.workloads import many as grid
from readoff.bench.workloads import search as step
from readoff.bench.workloads.chinese import CHINESE
from readoff.bench.workloads.english import ENGLISH
from readoff.bench.workloads.lexicon import Lexicon
from readoff.bench.workloads.many import many
from readoff.bench.workloads.paper import paper
from readoff.bench.workloads.ruler import Ruler
from readoff.bench.workloads.search import search
from readoff.engine.tokenizer import Tokenizer

LEXICONS: Mapping[Language, Lexicon] = {"en": ENGLISH, "zh": CHINESE}


@dataclass(frozen=True)
class Plan:
    """How much of each workload a run has. `cells` maps state tokens to numbers of questions."""

    paper_asks: int
    cells: Mapping[int, tuple[int, ...]]
    many_asks: int
    documents: tuple[int, ...]
    steps: int


FULL = Plan(
    paper_asks=24,
    cells=dict.fromkeys(grid.STATE_TOKENS, grid.QUESTIONS),
    many_asks=2,
    documents=step.DOCUMENTS,
    steps=2,
)
QUICK = Plan(paper_asks=2, cells={128: (1,), 512: (1, 8)}, many_asks=1, documents=(5,), steps=1)
QUICK_OTHER = Plan(paper_asks=1, cells={}, many_asks=0, documents=(), steps=0)
"""A quick run has this of every language but its first: enough to see that it works there too."""


def workloads(
    tokenizer: Tokenizer,
    *,
    seed: int = 0,
    quick: bool,
    languages: Sequence[Language] = ("en", "zh"),
) -> list[Workload]:
    """All workloads of a run. The same seed and tokenizer give the same ones, byte for byte.

    A quick run's requests are the first ones of the full run's workload of the same name.
    """
    ruler = Ruler(tokenizer)
    made: list[Workload] = []
    for place, language in enumerate(languages):
        plan = (QUICK if place == 0 else QUICK_OTHER) if quick else FULL
        made += _planned(LEXICONS[language], ruler, seed, plan)
    return made


def _planned(lexicon: Lexicon, ruler: Ruler, seed: int, plan: Plan) -> Iterator[Workload]:
    yield paper(lexicon, ruler, seed=seed, asks=plan.paper_asks)
    for tokens, counts in plan.cells.items():
        yield from many(
            lexicon,
            ruler,
            seed=seed,
            state_tokens=tokens,
            questions=counts,
            asks=plan.many_asks,
        )
    yield from search(lexicon, ruler, seed=seed, documents=plan.documents, steps=plan.steps)
