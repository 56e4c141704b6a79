"""The search step: its grouping, its two orders, its lengths."""

from __future__ import annotations

import pytest

from readoff.bench.records import Workload
from readoff.bench.workloads.chinese import CHINESE
from readoff.bench.workloads.english import ENGLISH
from readoff.bench.workloads.lexicon import Lexicon
from readoff.bench.workloads.ruler import Ruler
from readoff.bench.workloads.search import KEPT, order_of, search, steps_of
from readoff.engine.prompt import Renderer
from readoff.engine.template import Template
from tests.tokenizers import qwen


def made(lexicon: Lexicon) -> list[Workload]:
    return list(search(lexicon, Ruler(qwen("qwen2.5")), seed=1, documents=(5, 20), steps=2))


@pytest.mark.parametrize("lexicon", [ENGLISH, CHINESE])
def test_a_step_is_a_request_a_document_and_a_closing_one(lexicon: Lexicon) -> None:
    ruler = Ruler(qwen("qwen2.5"))
    for workload in made(lexicon):
        steps = list(steps_of(workload))
        assert len(steps) == workload.axes["steps"] == 2
        assert [a for s in steps for a in (*s.documents, s.final)] == list(workload.asks)
        for step, kind in zip(steps, ("noul", "score"), strict=True):
            assert len(step.documents) == workload.axes["documents"]
            for ask in step.documents:
                assert [q.type for q in ask.questions.values()] == [kind]
                assert 196 <= ruler.state(ask.state) <= 408
            # One query a step: the question is the same for every document.
            assert all(ask.questions == step.documents[0].questions for ask in step.documents)
            assert [(n, q.type) for n, q in step.final.questions.items()] == [
                ("sufficient", "noul"),
                ("next_link", "choice"),
                ("stop", "noul"),
            ]


def test_the_closing_request_sees_the_query_and_the_documents_kept() -> None:
    keys = ENGLISH.keys
    for step in steps_of(made(ENGLISH)[0]):
        state = step.final.state
        assert isinstance(state, dict)
        asked = str(step.documents[0].questions["relevance"].instructions)
        assert str(state[keys["query"]]) in asked
        assert state[keys["documents"]] == [ask.state for ask in step.documents[:KEPT]]
        assert tuple(state[keys["links"]]) == step.final.questions["next_link"].options


def test_both_orders_ask_the_same_and_share_what_they_say() -> None:
    first, other = made(ENGLISH)[:2]
    assert list(first.asks) == list(other.asks)
    assert (order_of(first), order_of(other)) == ("state-first", "question-first")
    tokenizer = qwen("qwen2.5")
    step = next(steps_of(other))
    renderer = Renderer(tokenizer, Template.load(tokenizer, order_of(other)))
    prompts = [renderer.render(a.state, a.questions)[0] for a in step.documents]
    shared = {prompt.pieces[:2] for prompt in prompts}  # preamble and question
    assert len(shared) == 1
    assert len({prompt.pieces[2] for prompt in prompts}) == len(prompts)


def test_fewer_documents_are_the_first_of_more() -> None:
    few, more = made(CHINESE)[0], made(CHINESE)[2]
    for small, large in zip(steps_of(few), steps_of(more), strict=True):
        assert small.documents == large.documents[:5]
        assert small.final == large.final
