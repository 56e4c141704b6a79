"""The commands on a whole model: a tiny random one, and the demonstration model where it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from readoff.bench.json_answer import token_limit
from readoff.commands.demo_states import CASES
from tests import models, tokenizers

REQUEST = {
    "state": ["Kunde: wo bleibt mein Päckchen?", {"bot": "三天 – unterwegs"}],
    "questions": {
        "late": {"type": "noul", "criteria": {"true": "The parcel is late"}},
        "team": {"type": "choice", "criteria": {"shipping": "Parcels", "billing": None}},
        "heat": {"type": "score", "instructions": None, "criteria": ["Calm", "Angry"]},
    },
}


def readoff(*arguments: str, stdin: str = "") -> tuple[dict[str, Any], str]:
    """(the JSON on stdout, stderr) of `readoff ARGUMENTS` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "readoff", *arguments],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document, done.stderr


def check_response(response: dict[str, Any]) -> None:
    assert list(response["answers"]) == ["late", "team", "heat"]
    late, team, heat = response["answers"].values()
    assert 0 <= late["noul"] <= 1
    assert sum(team["probabilities"].values()) == pytest.approx(1)
    assert team["choice"] == max(team["probabilities"], key=team["probabilities"].get)
    assert heat["score"] == pytest.approx(heat["probabilities"]["1"])
    assert heat["legend"] == {"0": "Calm", "1": "Angry"}
    assert all(answer["x_legal_mass"] > 0 for answer in (late, team, heat))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    models.save_tiny(folder, "qwen2", layers=2, max_position_embeddings=8192)
    tokenizers.save_tiny(folder)
    return str(folder)


def test_decide_on_a_tiny_model(tiny: str) -> None:
    arguments = ("decide", "--model", tiny, "--request", "-", "--legal-mass", "--dtype", "fp32")
    response, err = readoff(*arguments, stdin=json.dumps(REQUEST))
    assert response["model"] == "tiny"
    check_response(response)
    assert f"loading {tiny}" in err


def test_demo_on_a_tiny_model(tiny: str) -> None:
    document, err = readoff("demo", "--model", tiny, "--repeats", "1", "--json", "--threads", "1")
    rows = [row for state in document["states"] for row in state["decisions"]]
    assert [row["question"] for row in rows] == [name for case in CASES for name in case.questions]
    assert document["threads"] == 1
    assert document["json_failures"] == 12, "a random model writes no JSON"
    limits = {name: token_limit(asked) for case in CASES for name, asked in case.questions.items()}
    assert all(row["generated"]["new_tokens"] <= limits[row["question"]] for row in rows)
    assert document["speed_up"] > 0
    assert "round 1 of 1" in err


@pytest.mark.parametrize(("given", "name"), [((), "demo"), (("-m", "demo-base"), "demo-base")])
def test_decide_on_the_demonstration_model(
    demo_checkpoint: Path, given: tuple[str, ...], name: str
) -> None:
    response, err = readoff("decide", "-r", "-", "--legal-mass", *given, stdin=json.dumps(REQUEST))
    assert response["model"] == name
    check_response(response)
    masses = [answer["x_legal_mass"] for answer in response["answers"].values()]
    if name == "demo-base":  # an adapter is trained on the labels alone: what they share is free
        assert min(masses) > 0.5
    assert all(0.0 < mass <= 1.0 + 1e-6 for mass in masses)
    assert "fetching" not in err
