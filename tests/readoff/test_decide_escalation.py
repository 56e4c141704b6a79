"""`readoff decide` with a gate and an escalation: what is told before the model is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from readoff.commands import options
from readoff.engine.card import Card
from tests.readoff.fakes import FakeEngine
from tests.readoff.test_cli import REQUEST, call


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    fake = FakeEngine()
    monkeypatch.setattr(options, "load_engine", lambda model, **_: fake)
    return fake


@pytest.fixture
def request_file(tmp_path: Path) -> str:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(REQUEST), encoding="utf-8")
    return str(path)


def test_what_can_not_be_escalated_is_told_before_the_model_is_loaded(
    request_file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(options, "load_engine", lambda *_, **__: pytest.fail("loaded"))
    card = tmp_path / "decision.json"
    Card().save(card)
    escalated = ["decide", "-r", request_file, "--card", str(card), "--escalate-url"]
    assert call(*escalated, "http://e:1") == 1
    assert "no gate" in capsys.readouterr().err
    Card(gate={"threshold": 0.5}).save(card)
    assert call(*escalated, "http://e:1", "--debias", "prior") == 1
    assert "isn't applied" in capsys.readouterr().err
    assert call(*escalated, "e:1", "--gate", "0.5") == 1
    assert "no URL" in capsys.readouterr().err
    monkeypatch.setenv("READOFF_ESCALATION_KEY", "schlüssel")
    assert call(*escalated, "http://e:1") == 1
    assert "schl" not in capsys.readouterr().err


def test_a_cards_gate_is_enough_to_escalate(
    engine: FakeEngine, request_file: str, tmp_path: Path
) -> None:
    card = tmp_path / "decision.json"
    Card(gate={"threshold": 0.5}).save(card)
    words = ["-r", request_file, "--card", str(card), "--escalate-url", "http://e:1"]
    assert call("decide", *words) == 0
    assert engine.how["gate"] is None
    assert engine.how["escalate"].url.startswith("http://e:1/")


@pytest.mark.parametrize("gate", ["nan", "1.5", "-0.1"])
def test_a_gate_that_is_none_is_wrong_usage(
    gate: str, request_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("decide", "-r", request_file, "--gate", gate) == 2
    assert f"{gate} is no number from 0 to 1" in capsys.readouterr().err
