"""The engine from end to end on tiny models: answers, usage, cards, adapters, errors."""

from __future__ import annotations

import gc
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from readoff.engine.answers import ChoiceAnswer, Decision, NoulAnswer, ScoreAnswer
from readoff.engine.engine import Engine
from readoff.engine.errors import (
    ContextError,
    NumericsError,
    QuestionError,
)
from readoff.engine.prompt import Renderer
from readoff.engine.questions import Choice, Noul
from readoff.kernels.dispatch import OPS
from readoff.kernels.linear.cpu import packable
from tests import models

from .backbones.build import backbone_of, logits_of, random_ids
from .models_on_disk import ASKED, REFUND, STATE, TEAM, save_decider


@pytest.fixture(scope="module", params=models.ARCHITECTURES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(str(request.param))
    save_decider(path, request.param)
    return path


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return Engine.from_pretrained(folder, dtype="fp32")


def spread(a: Decision, b: Decision) -> float:
    """The largest difference of two decisions' probabilities."""
    found = []
    for name, answer in a.items():
        other = b[name]
        if isinstance(answer, NoulAnswer):
            assert isinstance(other, NoulAnswer)
            found.append(abs(answer.noul - other.noul))
        else:
            assert not isinstance(other, NoulAnswer)
            pairs = zip(answer.probabilities.values(), other.probabilities.values(), strict=True)
            found += [abs(x - y) for x, y in pairs]
    return max(found)


def test_answers_are_typed_and_consistent(engine: Engine) -> None:
    decision = engine.decide(STATE, ASKED, legal_mass=True)
    assert list(decision) == ["team", "anger", "refund"]
    team, anger, refund = decision.values()
    assert isinstance(team, ChoiceAnswer)
    assert isinstance(anger, ScoreAnswer)
    assert isinstance(refund, NoulAnswer)
    assert list(team.probabilities) == ["billing", "tech", "sales"]
    assert sum(team.probabilities.values()) == pytest.approx(1, abs=1e-6)
    assert team.choice == max(team.probabilities, key=team.probabilities.__getitem__)
    mean = sum(i * p for i, p in enumerate(anger.probabilities.values()))
    assert anger.score == pytest.approx(mean, abs=1e-6)  # pitfall 12
    assert anger.legend == {"0": "calm", "1": "cross", "2": "furious"}
    for answer in decision.values():
        assert answer.legal_mass is not None
        assert 0 < answer.legal_mass < 1
    assert engine.decide(STATE, ASKED)["team"].legal_mass is None


def test_the_answer_is_read_off_transformers_logits(engine: Engine, folder: Path) -> None:
    """An independent road: the prompt's ids through transformers, a softmax over the labels."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    answer = engine.decide(STATE, {"team": TEAM})["team"]
    assert isinstance(answer, ChoiceAnswer)
    [prompt] = engine.renderer.render(STATE, {"team": TEAM})
    with torch.no_grad():
        logits = model(torch.tensor([prompt.ids])).logits[0, -1, list(prompt.labels.ids)]
    wanted = logits.double().softmax(-1).tolist()
    assert list(answer.probabilities.values()) == pytest.approx(wanted, abs=1e-5)
    assert list(answer.logits.values()) == pytest.approx(logits.tolist(), abs=1e-4)


def test_one_pass_whatever_the_number_of_questions(engine: Engine) -> None:
    before = OPS["label_readout"].calls.total(), OPS["swiglu"].calls.total()
    engine.decide(STATE, ASKED)
    after = OPS["label_readout"].calls.total(), OPS["swiglu"].calls.total()
    assert after[0] - before[0] == 1
    assert after[1] - before[1] == engine.backbone.config.num_layers


def test_the_full_head_is_multiplied_only_for_the_legal_mass(engine: Engine) -> None:
    before = OPS["log_partition"].calls.total()
    engine.decide(STATE, ASKED)
    assert OPS["log_partition"].calls.total() == before
    engine.decide(STATE, ASKED, legal_mass=True)
    assert OPS["log_partition"].calls.total() == before + 1


def test_questions_do_not_see_each_other_or_their_ids(engine: Engine) -> None:
    alone = {name: engine.decide(STATE, {name: q})[name] for name, q in ASKED.items()}
    together = engine.decide(STATE, ASKED)
    one_by_one = Decision(alone, together.usage, 0.0, "model")
    assert spread(together, one_by_one) <= 1e-5
    renamed = engine.decide(STATE, {f"other {n}": q for n, q in reversed(ASKED.items())})
    back = {n: renamed[f"other {n}"] for n in ASKED}
    assert spread(together, Decision(back, together.usage, 0.0, "model")) <= 1e-5


def test_many_requests_equal_single_ones(engine: Engine) -> None:
    states: list[Any] = [STATE, {"invoice": 7, "paid": [True, None]}, ["one", "two"], STATE, "x"]
    requests = [(state, ASKED) for state in states]
    for decision, (state, asked) in zip(engine.decide_many(requests), requests, strict=True):
        assert spread(decision, engine.decide(state, asked)) <= 1e-5


def test_many_requests_take_several_passes_when_they_are_long(engine: Engine, folder: Path) -> None:
    requests = [(f"{STATE} {i}", ASKED) for i in range(6)]
    wanted = engine.decide_many(requests)
    for cache_bytes in (0, None):
        small = Engine.from_pretrained(
            folder, dtype="fp32", step_tokens=300, cache_bytes=cache_bytes
        )
        found = small.decide_many(requests)
        assert small.stats()["steps"] >= 6
        assert max(spread(a, b) for a, b in zip(found, wanted, strict=True)) <= 1e-5
    assert engine.decide_many([]) == []


def test_usage_counts_every_distinct_piece_once(folder: Path) -> None:
    engine = Engine.from_pretrained(folder, dtype="fp32", cache_bytes=0)
    prompts = engine.renderer.render(STATE, ASKED)
    shared = sum(len(piece.ids) for piece in prompts[0].pieces[:-1])
    own = sum(len(prompt.pieces[-1].ids) for prompt in prompts)
    usage = engine.decide(STATE, ASKED).usage
    assert (usage.input_tokens, usage.computed_tokens, usage.cached_tokens) == (
        shared + own,
        shared + own,
        0,
    )
    first, second = engine.decide_many([(STATE, {"a": TEAM}), (STATE, {"b": REFUND})])
    assert first.usage.cached_tokens == 0
    assert second.usage.cached_tokens == shared
    assert second.usage.computed_tokens == len(prompts[2].pieces[-1].ids)


def test_many_threads_get_their_own_answers(engine: Engine) -> None:
    """Pitfall 20: 1..16 callers at once, each with its own codeword."""
    wanted = {word: engine.decide(word, ASKED) for word in (f"codeword {i}" for i in range(16))}
    barrier = threading.Barrier(16)

    def ask(word: str) -> Decision:
        barrier.wait(30)
        return engine.decide(word, ASKED)

    with ThreadPoolExecutor(16) as executor:
        found = list(executor.map(ask, wanted))
    for word, decision in zip(wanted, found, strict=True):
        assert spread(decision, wanted[word]) <= 1e-5


@pytest.mark.parametrize("options", [2, 26, 27, 53, 100])
def test_any_number_of_options(engine: Engine, options: int) -> None:
    """Pitfalls 10 and 14. (255 options: on the true tokenizers.)"""
    asked = Choice(criteria={f"option {i}": None for i in range(options)})
    answer = engine.decide("x", {"q": asked})["q"]
    assert isinstance(answer, ChoiceAnswer)
    assert len(answer.probabilities) == options
    assert all(p > 0 for p in answer.probabilities.values())


def test_a_prompt_beyond_the_context_is_refused_and_nothing_runs(engine: Engine) -> None:
    before = OPS["rms_norm"].calls.total()
    with pytest.raises(ContextError, match="question 'refund'") as caught:
        engine.decide_many([(STATE, {"refund": REFUND}), ("word " * 500, {"refund": REFUND})])
    assert caught.value.limit == 2048
    assert caught.value.length > 2048
    assert OPS["rms_norm"].calls.total() == before


@pytest.mark.parametrize("nested", [False, True])
def test_a_state_of_too_many_entries_is_refused_before_it_is_text(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    """Indented a hundred levels deep, it would be a hundred times as long as its JSON."""
    monkeypatch.setattr(Renderer, "render", None)
    monkeypatch.setattr(Renderer, "prefix", None)
    state: Any = [1] * 3000
    for _ in range(90 if nested else 0):
        state = {"": state}
    with pytest.raises(ContextError, match="3000 entries") as caught:
        engine.decide(state, {"refund": REFUND})
    assert (caught.value.limit, caught.value.length) == (2048, 3000)
    with pytest.raises(ContextError, match="3000 entries"):
        engine.prefill(state)


def test_a_prompt_that_fits_exactly_is_taken(engine: Engine) -> None:
    ask = {"q": Noul()}
    room = engine.context_length - len(engine.renderer.render("1", ask)[0]) + 1
    assert len(engine.renderer.render("1" * room, ask)[0]) == engine.context_length
    assert isinstance(engine.decide("1" * room, ask)["q"], NoulAnswer)
    with pytest.raises(ContextError):
        engine.decide("1" * (room + 1), ask)


def test_no_questions(engine: Engine) -> None:
    with pytest.raises(QuestionError, match="question"):
        engine.decide(STATE, {})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_an_error(folder: Path, value: float) -> None:
    """Pitfall 15: NaN in the answer."""
    engine = Engine.from_pretrained(folder, dtype="fp32")
    with torch.no_grad():
        engine.backbone.norm[0] = value
    with pytest.raises(NumericsError, match=r"Question 'refund'.*damaged"):
        engine.decide(STATE, {"refund": REFUND})


def test_warmup_and_info(engine: Engine) -> None:
    before = OPS["label_readout"].calls.total()
    engine.warmup()
    gc.unfreeze()
    assert OPS["label_readout"].calls.total() == before + 2  # cold and cached
    info = engine.info()
    assert json.loads(json.dumps(info)) == info
    assert info["device"] == "cpu"
    assert info["dtype"] == "float32"
    used = {
        n: [i for i, w in told.items() if w.startswith("used")]
        for n, told in info["kernels"].items()
    }
    assert all(len(names) == 1 for names in used.values())
    assert used["tree_attention"] == ["cpu"]
    assert used["linear"] == ["onednn" if packable(torch.zeros(1, 1)) else "plain"]


@pytest.mark.parametrize("tokens", [2049, 3000])
def test_long_inputs_in_blocks_equal_transformers(tokens: int) -> None:
    """Beyond 2048 rows the MLPs work block by block."""
    model = models.tiny_model("qwen3", layers=2, max_position_embeddings=4096)
    ids = random_ids(tokens)
    found = logits_of(backbone_of(model), [[ids]])
    with torch.no_grad():
        wanted = model(torch.tensor([ids])).logits[0, -1:]
    assert (found - wanted).abs().max() <= 1e-4 * wanted.abs().max()


def test_nothing_is_recorded_for_gradients(engine: Engine) -> None:
    seen = []
    hook = engine.backbone.register_forward_hook(
        lambda *_: seen.append(torch.is_inference_mode_enabled())
    )
    engine.decide(STATE, ASKED)
    hook.remove()
    assert seen == [True]
