"""The text side works where only the base dependencies are installed."""

from __future__ import annotations

import json
import subprocess
import sys

BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "triton", "transformers", "gguf"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter in which the packages of readoff[torch] can't be imported."""
    return subprocess.run(
        [sys.executable, "-c", BLOCK + script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_block_blocks() -> None:
    done = run("import torch")
    assert done.returncode == 1
    assert "No module named 'torch'" in done.stderr


def test_questions_validate_and_answers_are_calibrated() -> None:
    done = run("""
import readoff
from readoff.engine.calibration import choice_confidence, probabilities

question = readoff.Choice(criteria={"yes": None, "no": None})
assert question.options == ("yes", "no")
try:
    readoff.Choice(criteria={"yes": None})
except readoff.QuestionError:
    pass
else:
    raise SystemExit("one option was accepted")
p = probabilities([2.0, 0.0], [0.0, 0.0], 2.0)
print(f"{p[0]:.3f} {choice_confidence(p):.3f}")
print(readoff.Card.default().temperature_for("choice", None, 2))
""")
    assert done.stderr == ""
    assert done.stdout.split() == ["0.731", "0.462", "1.0"]


def test_the_command_line_explains_what_is_missing() -> None:
    call = "from readoff.cli import main; main(sys.argv[1:])"
    version = run(call, "--version")
    assert version.returncode == 0
    assert version.stdout.startswith("readoff ")
    info = run(call, "info", "--json")
    assert info.returncode == 0, info.stderr
    facts = json.loads(info.stdout)
    assert facts["versions"]["numpy"]
    assert (facts["device"], facts["kernels"], facts["threads"]) == (None, None, None)
    demo = run(call, "demo", "--model", "/nowhere/model")
    assert demo.returncode == 1
    assert demo.stdout == ""
    assert 'pip install "readoff[torch]"' in demo.stderr
    assert "Traceback" not in demo.stderr
