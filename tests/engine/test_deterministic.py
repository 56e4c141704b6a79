"""The deterministic mode: equal bits alone, batched, permuted, cold and warm."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readoff.engine.answers import Decision
from readoff.engine.engine import Engine
from readoff.engine.questions import Noul, Question
from readoff.engine.runtime import deterministic_kernels
from readoff.engine.serving import Serving
from readoff.engine.text import Text
from readoff.kernels.dispatch import OPS
from tests import models
from tests.engine.models_on_disk import ANGER, REFUND, STATE, TEAM, save_decider

STATES: list[Text] = [
    STATE,
    "x",
    STATE * 3,
    f"{STATE * 3} And more.",
    ["one", "two"],
    ["one", "two", "three"],
    {"a": STATE, "b": 1},
    "longer " * 60,
]
QUESTIONS: Mapping[str, Question] = {"team": TEAM, "anger": ANGER, "refund": REFUND, "n": Noul()}
Bits = list[float]


def bits(decision: Decision) -> dict[str, Bits]:
    return {name: list(answer.logits.values()) for name, answer in decision.items()}


class Subject:
    """Engines over one model, and what a cold engine says of one question at a time."""

    def __init__(self, folder: Path, architecture: models.Architecture, dtype: str) -> None:
        save_decider(folder, architecture)
        self.cold = Engine.from_pretrained(folder, dtype=dtype, cache_bytes=0, deterministic=True)
        self.cached = self.cold.with_serving(Serving(8 << 20, deterministic=True, step_tokens=256))
        self.tight = self.cold.with_serving(Serving(700_000, deterministic=True))

    @functools.cache  # noqa: B019  # lives as long as the module's fixture
    def alone(self, state: int, question: str) -> Bits:
        asked = {question: QUESTIONS[question]}
        return bits(self.cold.decide(STATES[state], asked))[question]


@pytest.fixture(
    scope="module", params=[("qwen2", "bf16"), ("qwen3_5", "fp32"), ("qwen3_5", "bf16")]
)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    architecture, dtype = request.param
    return Subject(tmp_path_factory.mktemp("model"), architecture, dtype)


REQUESTS = st.lists(
    st.tuples(
        st.integers(0, len(STATES) - 1),
        st.lists(st.sampled_from(sorted(QUESTIONS)), min_size=1, unique=True),
    ),
    min_size=1,
    max_size=6,
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(REQUESTS)
def test_equal_bits_in_any_company(subject: Subject, requests: list[tuple[int, list[str]]]) -> None:
    asked = [(STATES[s], {name: QUESTIONS[name] for name in names}) for s, names in requests]
    for engine in (subject.cached, subject.cold, subject.tight):
        for (state, names), decision in zip(requests, engine.decide_many(asked), strict=True):
            assert bits(decision) == {name: subject.alone(state, name) for name in names}
    state, names = random.Random(0).choice(requests)
    warm = subject.cached.decide(STATES[state], {name: QUESTIONS[name] for name in names})
    assert warm.usage.cached_tokens > 0
    assert bits(warm) == {name: subject.alone(state, name) for name in names}


def test_callers_at_once_get_the_same_bits(subject: Subject) -> None:
    engine = subject.cold.with_serving(Serving(8 << 20, deterministic=True, max_wait_ms=5))
    tickets = [
        (n % len(STATES), engine.submit(STATES[n % len(STATES)], {"team": TEAM})) for n in range(24)
    ]
    for state, ticket in tickets:
        assert bits(ticket.result())["team"] == subject.alone(state, "team")
    assert engine.stats()["steps"] < 24
    engine.close()


def test_legal_mass_too(subject: Subject) -> None:
    alone = subject.cold.decide(STATE, {"team": TEAM}, legal_mass=True)["team"]
    many = subject.cached.decide_many(
        [("x", {"anger": ANGER}), (STATE, {"refund": REFUND, "team": TEAM})], legal_mass=True
    )
    assert many[1]["team"].legal_mass == alone.legal_mass


def test_which_kernels_ran(subject: Subject) -> None:
    chosen = dict(deterministic_kernels(torch.device("cpu")))
    for op in OPS.values():
        op.calls.clear()
    subject.cached.decide("something new", QUESTIONS)
    ran = {name: set(op.calls) for name, op in OPS.items() if op.calls}
    assert {"linear", "tree_attention", "label_readout", "rms_norm"} <= ran.keys()
    assert ran == {name: {chosen[name]} for name in ran}
    told = subject.cached.info()
    assert told["deterministic"] is True
    assert told["kernels"]["tree_attention"]["fixed"].startswith("used")


def test_it_is_close_to_the_fast_path(tmp_path: Path) -> None:
    save_decider(tmp_path, "qwen3_5")
    fast = Engine.from_pretrained(tmp_path, dtype="fp32")
    fixed = fast.with_serving(Serving(deterministic=True))
    for state in STATES:
        one, other = fast.decide(state, {"team": TEAM}), fixed.decide(state, {"team": TEAM})
        assert one["team"].logits == pytest.approx(other["team"].logits, abs=2e-5)
