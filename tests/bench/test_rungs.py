"""The rungs one by one: what they compute, what they count, what they answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from readoff.bench.json_answer import given_from, option_of, token_confidence
from readoff.bench.rungs.batched_callers import BatchedCallers
from readoff.bench.rungs.continuation import Continuation, Reading, batch_of
from readoff.bench.rungs.generation import GenerationTimes
from readoff.bench.rungs.greedy_json import GreedyJson
from readoff.bench.rungs.label_rows import LabelRows
from readoff.bench.rungs.opponent import Opponent
from readoff.bench.rungs.shared_state import SharedState
from readoff.bench.rungs.warm_state import WarmState
from readoff.bench.rungs.work import Work, body, bytes_moved, causal_pairs, flops, separate, shared
from readoff.engine.answers import ChoiceAnswer
from readoff.engine.checkpoint import open_checkpoint
from readoff.engine.engine import Engine
from readoff.engine.errors import ReadoffError
from readoff.engine.forest import Forest
from readoff.engine.pools import KeptPools
from readoff.engine.questions import Choice, Noul, Score
from tests import models
from tests.bench.asks import QUESTIONS, ask, workload
from tests.engine.backbones.build import backbone_of, random_ids
from tests.engine.models_on_disk import save_decider


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    save_decider(path, "qwen3_5", layers=4)
    return path


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return Engine.from_pretrained(folder, dtype="fp32")


@pytest.mark.parametrize("architecture", models.ARCHITECTURES)
def test_kept_pools_continue_token_by_token(architecture: models.Architecture) -> None:
    """A prefix, then three tokens one at a time beside a segment of two: as one cold pass each."""
    backbone = backbone_of(models.tiny_model(architecture))
    prefix, one, two = random_ids(70, 1), random_ids(3, 2), random_ids(2, 3)
    labels = list(range(40, 60))
    pools = KeptPools(backbone.config, 80, 6, torch.float32, torch.device("cpu"))
    chain = ((0, 70),)
    with torch.inference_mode():
        start = Continuation(prefix, 0, 0, state_out=1, readings=[Reading(0, labels)])
        backbone(batch_of([start], 80, 6), pools)
        found = []
        for n, token in enumerate(one):
            states = (1, 2, 3, 2)[n : n + 2]
            parts = [Continuation([token], 70 + n, 70 + n, n, chain, *states)]
            if n == 1:
                parts.append(Continuation(two, 70, 75, 0, chain, 1))
            parts = [_read(part, labels) for part in parts]
            batch = batch_of(parts, 80, 6)
            found.append(backbone.readout(backbone(batch, pools), batch).logits.split(20))
        expected = []
        for chain_ids in ([prefix, one[:1]], [prefix, one[:2]], [prefix, two], [prefix, one]):
            forest = Forest()
            forest.read(forest.add(chain_ids), labels)
            batch = forest.batch()
            expected.append(backbone.readout(backbone(batch), batch).logits)
    flat = [row for rows in found for row in rows]
    torch.testing.assert_close(torch.stack(flat), torch.stack(expected), rtol=1e-4, atol=1e-4)
    assert pools.nbytes > 0


def _read(part: Continuation, labels: list[int]) -> Continuation:
    return replace(part, readings=[Reading(len(part.ids) - 1, labels)])


def test_the_warm_state_computes_question_tokens_only(engine: Engine) -> None:
    rung = WarmState()
    rung.prepare(engine, workload())
    asked = ask("A long story. " * 10)
    prompts = engine.renderer.render(asked.state, asked.questions)
    first, again = rung.answer(asked), rung.answer(asked)
    assert first.tokens_computed == sum(len(prompt.pieces[-1].ids) for prompt in prompts)
    assert first.given == again.given
    cold = engine.decide(asked.state, asked.questions)["team"]
    assert isinstance(cold, ChoiceAnswer)
    warm = first.given["team"].probabilities
    assert warm == pytest.approx(tuple(cold.probabilities.values()), abs=1e-5)


def test_warm_states_are_not_mixed_up(engine: Engine) -> None:
    rung = WarmState()
    rung.prepare(engine, workload())
    asks = [ask(f"Case {n}.", "due") for n in range(20)]
    runs = [rung.answer(asked) for asked in asks]
    assert len({run.given["due"].probabilities for run in runs}) > 10
    again = rung.answer(asks[0]).given["due"].probabilities
    assert again == pytest.approx(runs[0].given["due"].probabilities, abs=1e-5)


def test_batched_callers_share_the_time(engine: Engine) -> None:
    rung = BatchedCallers()
    requests = workload()
    rung.prepare(engine, requests)
    runs = rung.answers(requests.asks)
    assert len({run.seconds for run in runs}) == 1
    alone = SharedState()
    alone.prepare(engine, requests)
    for asked, run in zip(requests.asks, runs, strict=True):
        assert list(run.given) == list(asked.questions)
        single = alone.answer(asked).given["anger"].probabilities
        assert run.given["anger"].probabilities == pytest.approx(single, abs=1e-5)
    assert rung.work.passes == 1


def test_work_is_counted_from_the_prompts(engine: Engine) -> None:
    asked = ask()
    prompts = engine.renderer.render(asked.state, asked.questions)
    apart, together = separate(prompts), shared(prompts)
    assert apart.tokens == sum(len(prompt) for prompt in prompts)
    assert apart.passes == 3
    common = sum(len(piece.ids) for piece in prompts[0].pieces[:-1])
    assert together.tokens == apart.tokens - 2 * common
    assert together.passes == 1
    assert apart.pairs - together.pairs == 2 * causal_pairs(common)
    assert apart.head_rows == together.head_rows == 3 + 3 + 2
    assert separate(prompts, 512).head_rows == 3 * 512
    warm = shared(prompts, warm=len(prompts[0].pieces) - 1)
    assert warm.tokens == together.tokens - common
    rung = LabelRows()
    rung.prepare(engine, workload())
    run = rung.answer(asked)
    assert run.tokens_computed == apart.tokens
    assert rung.work == apart


def test_flops_and_bytes(engine: Engine) -> None:
    config = engine.backbone.config
    weights = sum(p.numel() for p in models.tiny_model("qwen3_5", layers=4).parameters())
    assert body(config) == weights - config.vocab_size * config.hidden_size
    token = flops(config, Work(1, 1, 0, 0))
    assert token >= 2 * body(config)
    assert flops(config, Work(1, 1, 1, 0)) - token == 4 * 4 * 32  # one full layer, 4 heads of 32
    assert flops(config, Work(1, 1, 0, 5)) - token == 2 * 64 * 5
    assert bytes_moved(config, Work(2, 9, 0, 3), 2) == 2 * (2 * body(config) + 3 * 64)


def test_nothing_answers_before_it_is_prepared() -> None:
    with pytest.raises(ReadoffError, match="L4 was not prepared"):
        SharedState().answer(ask())


def test_plain_json_counts_its_failures(engine: Engine, folder: Path) -> None:
    opponent = Opponent(open_checkpoint(folder), torch.float32)
    rung = GreedyJson(opponent, max_new_tokens=3)
    requests = workload(ask(names="team due"))
    rung.prepare(engine, requests)
    run = rung.answer(requests.asks[0])
    assert run.tokens_generated == 6
    assert all(given.failure for given in run.given.values())
    assert all(given.value is None for given in run.given.values())
    assert rung.work.passes == 6
    assert rung.work.head_rows == 6 * 512
    assert rung.work.tokens == run.tokens_computed
    modelled = rung.modelled()
    assert modelled is not None
    assert modelled > 1
    assert opponent.model("L0") is opponent.model("L2t")
    rung.restart()
    assert rung.modelled() is None


def test_the_model_of_generated_time() -> None:
    times = GenerationTimes()
    assert times.modelled() is None
    times.add(0.5, 1.0, 10)
    times.add(0.5, 1.0, 10)
    assert times.modelled() == pytest.approx(1 + 10 * 0.1 / 0.5)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ('{"choice": "sales", "confidence": 0.5}', 'sales"'),
        ('{"choice": "a\\"}b", "confidence": 1}', 'a\\"}b"'),
        ('{"score": 2, "confidence": 0.5}', "2"),
        ('{"answer": false, "confidence": 0.5}', "false"),
        ('Sure: {"choice": "销售"}', '销售"'),
    ],
)
def test_the_tokens_that_spell_the_value(text: str, spelled: str) -> None:
    """One token a character; those of the value have p = 0.5, all others 0.1."""
    start = text.index(spelled)
    p = [0.5 if start <= n < start + len(spelled) else 0.1 for n in range(len(text))]
    found = token_confidence([ord(c) for c in text], p, lambda ids: "".join(map(chr, ids)))
    assert found == pytest.approx(0.5 ** len(spelled))


def test_no_value_has_no_confidence() -> None:
    assert token_confidence([97], [0.5], lambda ids: "I can't tell") is None


def test_values_as_options() -> None:
    assert [option_of(v) for v in ("sales", 2, True, False, None)] == [
        "sales",
        "2",
        "true",
        "false",
        None,
    ]
    for question, text, value in (
        (Choice(criteria={"a": None, "b": None}), '{"choice": "b", "confidence": 0.25}', "b"),
        (Score(criteria=["x", "y"]), '{"score": 1, "confidence": 0.25}', "1"),
        (Noul(), '{"answer": true, "confidence": 0.25}', "true"),
    ):
        given = given_from(text, question, 0.75)
        assert given.value in question.options
        assert (given.value, given.stated, given.token_confidence) == (value, 0.25, 0.75)
    assert given_from("no idea", QUESTIONS["team"], None).failure == "no JSON object"
