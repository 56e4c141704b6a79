"""The demonstration model: real weights, real text. Accuracies are printed, not tuned."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from readoff.engine.answers import ChoiceAnswer, NoulAnswer
from readoff.engine.engine import Engine
from readoff.engine.questions import Choice, Noul, Score
from readoff.engine.runtime import choose_dtype
from tests.engine import entailment


@pytest.fixture(scope="module")
def engine(demo_checkpoint: Path) -> Engine:
    return Engine.from_pretrained(demo_checkpoint, threads=1)


def test_entailed_polarity(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """Zero-shot, one Noul an item, no prior: better than 0.75, and the label mass is legal."""
    items = entailment.load()
    asked = [(item.fact, {"q": Noul(instructions=item.question)}) for item in items]
    answers = [d["q"] for d in engine.decide_many(asked, legal_mass=True)]
    right, mass = 0, 0.0
    for item, answer in zip(items, answers, strict=True):
        assert isinstance(answer, NoulAnswer)
        assert answer.legal_mass is not None
        right += (answer.noul > 0.5) == item.entailed
        mass += answer.legal_mass
    accuracy, mean = right / len(items), mass / len(items)
    with capsys.disabled():
        print(f"\nentailed polarity: {len(items)} items, accuracy {accuracy:.3f}, mass {mean:.3f}")
    assert accuracy > 0.75
    assert mean > 0.5


def test_a_trivial_question_puts_its_mass_on_the_labels(engine: Engine) -> None:
    """Pitfalls 7 and 8: a wrong label or a `<think>` first would show here."""
    decision = engine.decide(
        "The sky is blue and the grass is green.",
        {
            "colour": Choice(instructions="Sky?", criteria={"blue": None, "red": None}),
            "clouds": Score(instructions="How cloudy?", criteria=["clear", "some", "overcast"]),
            "true": Noul(instructions="The grass is green."),
        },
        legal_mass=True,
    )
    for answer in decision.values():
        assert answer.legal_mass is not None
        assert answer.legal_mass > 0.5


def test_255_options(engine: Engine) -> None:
    asked = Choice(criteria={f"shelf {i}": None for i in range(255)})
    answer = engine.decide("The book is on shelf 17.", {"q": asked})["q"]
    assert isinstance(answer, ChoiceAnswer)
    assert len(answer.probabilities) == 255
    assert sum(answer.probabilities.values()) == pytest.approx(1, abs=1e-5)


def test_bf16_and_a_crowd_stay_within_the_rounding_of_bf16(engine: Engine) -> None:
    """bf16: packed with others no further apart than 1.5 times the distance from fp32."""
    exact = Engine.from_pretrained("demo", dtype="fp32", threads=1)
    asked = {"q": Noul(instructions="The customer is satisfied.")}
    states = [f"Customer {i} writes: {text}" for i, text in enumerate(entailment.REVIEWS)]
    together = engine.decide_many([(state, asked) for state in states])
    worst, rounding = 0.0, 0.0
    for state, crowd in zip(states, together, strict=True):
        found = [d["q"] for d in (crowd, engine.decide(state, asked), exact.decide(state, asked))]
        crowded, alone, wide = (a.noul for a in found if isinstance(a, NoulAnswer))
        worst = max(worst, abs(crowded - alone))
        rounding = max(rounding, abs(alone - wide), abs(crowded - wide))
    assert worst <= 1.5 * rounding


MEMORY = """
import sys, threading, torch
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.forest import Forest
from readoff.engine.source import resolve

def resident():
    with open("/proc/self/status") as status:
        [line] = [line for line in status if line.startswith("RssAnon")]
    return int(line.split()[1]) / 1024

checkpoint = resolve(sys.argv[1], progress=False)
cpu = torch.device("cpu")
dtype = getattr(torch, sys.argv[3])
backbone = Backbone.load(checkpoint.config, checkpoint, dtype, cpu, pack=True)
forest = Forest()
ids = tuple(i % 1000 for i in range(int(sys.argv[2])))
forest.read(forest.add([ids]), [32, 33])
batch = forest.batch()
peak, done = [resident()], threading.Event()
before = peak[0]

def watch():
    while not done.wait(0.002):
        peak[0] = max(peak[0], resident())

watcher = threading.Thread(target=watch)
watcher.start()
with torch.inference_mode():
    assert backbone.readout(backbone(batch), batch).logits.isfinite().all()
done.set()
watcher.join()
print(peak[0] - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("tokens", [4096, pytest.param(8192, marks=pytest.mark.slow)])
def test_long_states_need_no_more_than_their_activations_and_keys(
    tokens: int, demo_checkpoint: Path
) -> None:
    """Pitfall 18: memory that grows with length × length or length × vocabulary.

    Live at once are a few rows of the residual, q, k and v, the rotation in fp32 (18 rows of bf16
    in all; of fp32 where the processor has no bf16) and one block of scores, twice. In bf16 the
    full score matrices of 4,096 tokens would take 448 MiB, the logits of all of them 1.2 GB; of
    8,192 tokens one head's matrix alone has 128 MiB. Large blocks go back to the system as soon as
    they are free: what is seen is what is live, not what a heap holds on to (which differs from run
    to run by half as much again).
    """
    hidden, heads, block = 896, 14, 128
    dtype = choose_dtype("auto", torch.device("cpu"))
    allowed = (18 * tokens * hidden + 2 * tokens * heads * block) * dtype.itemsize / 2**20
    name = str(dtype).removeprefix("torch.")
    command = [sys.executable, "-c", MEMORY, str(demo_checkpoint), str(tokens), name]
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(2**18)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=1200, env=env)
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) <= allowed
