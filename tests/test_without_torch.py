"""A prompt is rendered and a decision calibrated where only the base dependencies are installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tokenizers import save_tiny

BLOCK = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "triton", "transformers"):
            raise ModuleNotFoundError("blocked: " + name)

sys.meta_path.insert(0, Block())
"""

SCRIPT = """
import importlib

TEXT_SIDE = (
    "answers asking calibration calls card card_fields chat compute debias errors escalation "
    "escalation_http gate host job labels line policy prompt published questions scheduler serving "
    "strict_json template text tokenizer wire wire_openai"
)
for module in TEXT_SIDE.split():
    importlib.import_module("readoff.engine." + module)

from readoff.engine import wire
from readoff.engine.answers import Decision, Usage, build_answer
from readoff.engine.calibration import probabilities
from readoff.engine.card import Card
from readoff.engine.errors import RequestError
from readoff.engine.prompt import Renderer
from readoff.engine.strict_json import loads
from readoff.engine.template import Template
from readoff.engine.tokenizer import Tokenizer

tokenizer = Tokenizer.load(sys.argv[1])
renderer = Renderer(tokenizer, Template.load(tokenizer))
request = wire.parse_request(loads(sys.stdin.read()))
(prompt,) = renderer.render(request.state, request.questions)
card = Card.default()
question = request.questions["q"]
prior = card.prior_for("choice", "q", 2)
p = probabilities([2.0, 0.0], prior, card.temperature_for("choice", "q", 2))
answer = build_answer(question, [2.0, 0.0], p.tolist())
decision = Decision({"q": answer}, Usage(len(prompt), len(prompt), 0), 1.0, "m")
response = wire.render_response(decision, "m")
print(tokenizer.decode(prompt.ids))
print(wire.dumps(response))
try:
    wire.parse_request({"state": "s", "questions": {}})
except RequestError:
    print("refused")
print(sorted({"torch", "triton", "transformers"} & set(sys.modules)))
"""


def run(script: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCK + script, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("name", ["torch", "triton", "transformers.utils"])
def test_the_blocker_blocks(name: str) -> None:
    done = run(f"import {name}")
    assert done.returncode != 0
    assert "blocked: " in done.stderr


def test_the_text_side_works_alone(tmp_path: Path) -> None:
    save_tiny(tmp_path)
    request = (
        '{"state": {"subject": "Refund"}, "questions": {"q": {"type": "choice", '
        '"criteria": {"billing": "Pay", "sales": null}}}}'
    )
    done = run(SCRIPT, str(tmp_path), given=request)
    assert done.stderr == ""
    *shown, response, refused, loaded = done.stdout.splitlines()
    assert shown[-6:-2] == [
        "Question: Which option fits the state?",
        "A. billing: Pay",
        "B. sales",
        "Answer with the letter of one option.<|im_end|>",
    ]
    assert '"billing": 0.8807970779778' in response
    assert refused == "refused"
    assert loaded == "[]"
