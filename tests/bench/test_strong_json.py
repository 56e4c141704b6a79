"""L1 and L1j write what a plain loop over transformers writes under the same grammar."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from readoff.bench.json_answer import messages
from readoff.bench.records import Ask
from readoff.bench.rungs.answer_grammar import AnswerGrammar
from readoff.bench.rungs.strong_json import StrongJson
from readoff.engine.chat import ChatTemplate
from readoff.engine.engine import Engine
from readoff.engine.questions import Choice, Question
from tests import models
from tests.bench.asks import ask, workload
from tests.engine.models_on_disk import save_decider

pytest.importorskip("xgrammar")


@pytest.fixture(scope="module", params=models.ARCHITECTURES)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Engine]:
    """A transformers model and the engine on its weights, fp32."""
    folder = tmp_path_factory.mktemp(str(request.param))
    model = save_decider(folder, request.param, seed=5)
    return model, Engine.from_pretrained(folder, dtype="fp32")


@torch.inference_mode()
def plainly(model: Any, engine: Engine, state: Any, question: Question, limit: int) -> list[int]:
    """Greedy constrained decoding by transformers and its cache, one question, token by token."""
    tokenizer = engine.renderer.tokenizer
    constraint = AnswerGrammar(tokenizer, model.config.vocab_size).start(question)
    ids = list(
        tokenizer.encode_control(ChatTemplate.of(tokenizer).render(messages(state, question)))
    )
    tokens: list[int] = []
    out = model(torch.tensor([ids]), use_cache=True)
    while True:
        allowed = constraint.allowed()
        tokens.append(allowed[int(out.logits[0, -1][allowed].argmax())])
        assert constraint.accept(tokens[-1])
        if constraint.finished or len(tokens) >= limit:
            break
        new = torch.tensor([tokens[-1:]])
        with warnings.catch_warnings():  # newer versions have another name for the argument
            warnings.simplefilter("ignore", FutureWarning)
            out = model(new, past_key_values=out.past_key_values, use_cache=True)
    return tokens


_KNOWN: dict[tuple[int, str], list[int]] = {}


def _cached(model: Any, engine: Engine, state: Any, question: Question) -> list[int]:
    key = (id(model), repr((state, question)))
    if key not in _KNOWN:
        _KNOWN[key] = plainly(model, engine, state, question, 64)
    return _KNOWN[key]


@pytest.mark.parametrize("jump", [False, True], ids=["L1", "L1j"])
@pytest.mark.parametrize("names", ["team", "team anger due"])
def test_it_equals_the_plain_loop(pair: tuple[Any, Engine], names: str, jump: bool) -> None:
    model, engine = pair
    asked = ask(names=names)
    rung = StrongJson(jump=jump)
    rung.prepare(engine, workload(asked))
    run = rung.answer(asked)
    for name, question in asked.questions.items():
        expected = _cached(model, engine, asked.state, question)
        assert list(rung.transcripts[name].tokens) == expected
        assert run.given[name].value in question.options
        assert run.given[name].failure is None
    assert run.tokens_generated == sum(len(t.tokens) for t in rung.transcripts.values())


def test_forced_text_that_the_model_spells_its_own_way(pair: tuple[Any, Engine]) -> None:
    """Pairs of capitals are tokens too: a draft of pairs is dropped where single letters win."""
    model, engine = pair
    tokenizer = engine.renderer.tokenizer
    names = [first + tail for first in "xyz" for tail in ("ABBACADABE", "CEDEFAGAHA")]
    question = Choice(criteria=dict.fromkeys(names))
    begin_alike = Choice(criteria={"ABBACADABEx": None, "ABBACADABEy": None})
    asked = Ask("What is it?", {"fork first": question, "fork last": begin_alike})
    own_way = 0
    runs = {}
    for jump in (False, True):
        rung = StrongJson(jump=jump)
        rung.prepare(engine, workload(asked))
        runs[jump] = rung.answer(asked)
        for name, transcript in rung.transcripts.items():
            expected = _cached(model, engine, asked.state, asked.questions[name])
            assert list(transcript.tokens) == expected, name
            text = tokenizer.decode(transcript.tokens)
            own_way += transcript.tokens != tokenizer.encode_text(text)
    assert own_way, "this model spells everything as the tokenizer does: choose other names"
    values = [{n: g.value for n, g in run.given.items()} for run in runs.values()]
    assert values[0] == values[1]


def test_the_token_limit_is_kept(pair: tuple[Any, Engine]) -> None:
    _, engine = pair
    asked = ask(names="team due")
    for jump in (False, True):
        rung = StrongJson(jump=jump, max_new_tokens=7)
        rung.prepare(engine, workload(asked))
        run = rung.answer(asked)
        assert run.tokens_generated == 14
        assert all(given.failure for given in run.given.values())


def test_jumping_saves_passes_and_not_tokens(pair: tuple[Any, Engine]) -> None:
    _, engine = pair
    asked = ask()
    rungs = StrongJson(), StrongJson(jump=True)
    for rung in rungs:
        rung.prepare(engine, workload(asked))
        rung.answer(asked)
    plain, jumping = rungs
    assert plain.transcripts.keys() == jumping.transcripts.keys()
    assert [t.tokens for t in plain.transcripts.values()] == [
        t.tokens for t in jumping.transcripts.values()
    ]
    assert jumping.work.passes < plain.work.passes / 2
    assert plain.work.passes == max(len(t.tokens) for t in plain.transcripts.values())


def test_a_second_request_finds_clean_pools(pair: tuple[Any, Engine]) -> None:
    _, engine = pair
    rung = StrongJson(jump=True)
    asks = [ask("A long story. " * 8), ask("Short.", "due"), ask("A long story. " * 8)]
    rung.prepare(engine, workload(*asks))
    first, _, third = (rung.answer(asked).given for asked in asks)
    assert {n: g.value for n, g in first.items()} == {n: g.value for n, g in third.items()}
