"""`readoff calibrate` on a tiny random model: what it writes, keeps, says, and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readoff.commands import options
from readoff.commands.calibrate_run import gate_rule
from readoff.engine.card import Card
from readoff.engine.engine import Engine
from readoff.engine.gate import choose_gate
from tests.engine.models_on_disk import save_decider
from tests.readoff.test_cli import call

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

TEAM = {"type": "choice", "criteria": {"billing": None, "sales": None, "tech": None}}
DUE = {"type": "noul", "instructions": "A refund is due."}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    save_decider(folder, "qwen2", layers=1)
    return str(folder)


@pytest.fixture(autouse=True)
def rough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals of few resamples: what they are has tests of its own."""
    from readoff.bench.calibrate import run

    monkeypatch.setattr(run, "RESAMPLES", 30)


def labelled(path: Path, count: int = 44, **change: Any) -> str:
    """Decisions on two questions a state, with all options among the answers."""
    lines = [
        {
            "state": f"mail {n}",
            "questions": {"team": TEAM, "due": DUE},
            "answers": {"team": ("billing", "sales", "tech")[n % 3], "due": n % 4 == 0},
            **change,
        }
        for n in range(count)
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return str(path)


def calibrate(model: str, data: str, out: Path, *arguments: str) -> int:
    fixed = ("--model", model, "--dtype", "fp32", "--threads", "1")
    return call("calibrate", data, *fixed, "--out", str(out), *arguments)


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("calibrate", "--help") == 0
    out = capsys.readouterr().out
    assert "readoff calibrate decisions.jsonl --model demo" in out
    assert "[default: demo]" in out


def test_a_whole_calibration_and_a_second_one_without_the_model(
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "calibrated"
    data = labelled(tmp_path / "mails.jsonl")
    assert calibrate(model, data, out, "--gate", "cost:5,1") == 0
    printed = capsys.readouterr()
    assert "88 decisions about 44 states, out of fold:" in printed.out
    assert "temperature of choice:" in printed.out
    assert "gate, all:" in printed.out
    assert "requests: 44 of 44" in printed.err
    names = {path.name for path in out.iterdir()}
    assert names >= {"decision.json", "result.json", "report.md", "report.html"}
    result = json.loads((out / "result.json").read_text())
    assert [part["name"] for part in result["parts"]][:3] == ["all", "choice", "noul"]

    card = Card.load(out)
    assert card.temperature.noul != 1.0
    assert card.digests.weights
    assert card.template.digest
    assert choose_gate(None, card) is not None
    plain = Engine.from_pretrained(model, dtype="fp32", threads=1)
    tuned = Engine.from_pretrained(model, card=out / "decision.json", dtype="fp32", threads=1)
    raw, found = (e.decide("mail 1", {"due": options_of(DUE)})["due"] for e in (plain, tuned))
    assert raw.logits == found.logits
    assert raw != found, "the temperature is applied"

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the model was loaded again")

    monkeypatch.setattr(options, "load_engine", refuse)
    labelled(tmp_path / "mails.jsonl", weight=1e308)
    assert calibrate(model, data, out, "--method", "type", "--prior", "--json") == 0
    printed = capsys.readouterr()
    assert "logits of an earlier run" in printed.err
    assert not (out / "calibration.json").exists(), "it couldn't tell of the prior"
    document = json.loads(printed.out)
    assert (document["method"], document["kappa"], document["gate"]) == ("type", "inf", None)
    assert document["seed"] == 0
    assert calibrate(model, data, out, "--method", "type") == 0
    assert "calibration.json" in capsys.readouterr().err
    assert Card.from_published(out).temperature == Card.load(out).temperature
    with pytest.raises(AssertionError, match="loaded again"):
        calibrate(model, data, out, "--debias", "rotate")
    with pytest.raises(AssertionError, match="loaded again"):
        calibrate(model, labelled(tmp_path / "mails.jsonl", 45), out)

    (kept,) = out.glob("logits-*.npz")
    kept.write_bytes(kept.read_bytes()[:-40])
    with pytest.raises(AssertionError, match="loaded again"):
        calibrate(model, labelled(tmp_path / "mails.jsonl"), out)
    assert "is damaged, so the model is asked again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("count", "change", "arguments", "message"),
    [
        (9, {}, (), "a fit needs 20"),
        (44, {"state": "one"}, (), "about one state"),
        (44, {"questions": {"due": DUE}, "answers": {"due": True}}, (), "the same option"),
        (15, {}, ("--gate", "risk:0.1,0.1"), "takes half of the decisions"),
    ],
)
def test_what_labels_tell_is_told_before_there_is_a_model(
    count: int,
    change: dict[str, Any],
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = labelled(tmp_path / "mails.jsonl", count, **change)
    assert calibrate("/nowhere", data, tmp_path / "out", *arguments) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_in_the_card_s_place_is_told_before_there_is_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out" / "decision.json").mkdir(parents=True)
    assert calibrate("/nowhere", labelled(tmp_path / "mails.jsonl"), tmp_path / "out") == 1
    assert "decision.json is a folder" in capsys.readouterr().err


def test_a_card_that_can_not_be_replaced_is_one_line(
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Card, "save", refuse)
    data = labelled(tmp_path / "mails.jsonl", 24)
    assert calibrate(model, data, tmp_path / "out", "--method", "type") == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert "decision.json can't be written (Operation not permitted)" in line


def options_of(question: dict[str, Any]) -> Any:
    from readoff.engine.questions import Noul

    return Noul(instructions=question["instructions"])


def test_debiased_logits_make_a_card_that_debiases(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = labelled(tmp_path / "mails.jsonl", 24)
    arguments = ("--debias", "both", "--rotations", "2", "--method", "type", "--json")
    assert calibrate(model, data, tmp_path / "out", *arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["debias"], document["rotations"]) == ("both", 2)
    assert Card.load(tmp_path / "out").debias == "both"


def test_a_promise_that_can_not_be_made_is_told(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = labelled(tmp_path / "mails.jsonl", 44)
    assert calibrate(model, data, tmp_path / "out", "--gate", "risk:0.01,0.01") == 0
    printed = capsys.readouterr()
    assert "nothing is accepted (nothing can be guaranteed with" in printed.out
    assert "note: The card was fitted to" in printed.err
    early, late = "note: The gate will accept nothing: its promise takes", "requests: 44 of 44"
    assert printed.err.index(early) < printed.err.index(late), "told before the model runs"
    gate = choose_gate(None, Card.load(tmp_path / "out"))
    assert gate is not None
    assert gate.threshold is None


@pytest.mark.parametrize(
    ("change", "count", "message"),
    [
        ({}, 9, "18 labelled decisions"),
        ({"answers": {"team": "other", "due": True}}, 44, "none of the options"),
        ({"weight": -1}, 44, "not negative"),
        ({"weight": 0}, 44, "no decision with a weight above zero"),
        ({"answers": {"team": "billing", "due": {"true": -1, "false": 2}}}, 44, "not negative"),
    ],
)
def test_bad_data_is_one_line(
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    count: int,
    message: str,
) -> None:
    data = labelled(tmp_path / "mails.jsonl", count, **change)
    assert calibrate(model, data, tmp_path / "out") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err.splitlines()[-1]
    assert not (tmp_path / "out" / "decision.json").exists()


def test_one_class_only_is_told_and_soft_labels_are_normalised_aloud(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = {"answers": {"team": {"billing": 3, "sales": 1}, "due": True}}
    data = labelled(tmp_path / "mails.jsonl", 24, **same)
    assert calibrate(model, data, tmp_path / "out", "--method", "type") == 0
    err = capsys.readouterr().err
    assert "note: 24 soft labels don't sum to 1; each was divided by its sum." in err
    assert "noul questions: the truth is the same option everywhere; temperature 1." in err
    assert Card.load(tmp_path / "out").temperature.noul == 1.0


def test_a_card_of_another_model_is_refused(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = labelled(tmp_path / "mails.jsonl", 24)
    for name in ("weights", "template"):
        card = tmp_path / f"{name}.json"
        entry = {"template": {"digest": "x"}} if name == "template" else {"digests": {name: "x"}}
        card.write_text(json.dumps({"version": 1, **entry}))
        assert calibrate(model, data, tmp_path / "out", "--card", str(card)) == 1
        assert f"its {name} digest is x" in capsys.readouterr().err


@pytest.mark.parametrize(
    "rule",
    ["", "foo", "cost", "cost:1", "cost:0,1", "risk:0.1", "risk:0,1", "risk:1,0.5", "coverage:2"],
)
def test_a_rule_that_is_none_is_wrong_usage(
    rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = labelled(tmp_path / "mails.jsonl", 24)
    assert calibrate("/nowhere", data, tmp_path / "out", "--gate", rule) == 2
    err = capsys.readouterr().err
    assert "--gate" in err
    assert "could not convert" not in err


def test_rules_are_read() -> None:
    from readoff.bench.calibrate.gate_fit import Costs
    from readoff.bench.calibrate.gates import Cost, Coverage, Risk

    assert gate_rule(None) is None
    assert gate_rule("cost:10,1") == Cost(Costs(10.0, 1.0))
    assert gate_rule("cost:10,1,0.5") == Cost(Costs(10.0, 1.0, 0.5))
    assert gate_rule("risk:0.1,0.05") == Risk(0.1, 0.05)
    assert gate_rule("coverage:0.8") == Coverage(0.8)


def test_a_full_disk_is_an_error(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = labelled(tmp_path / "mails.jsonl", 24)
    (tmp_path / "blocked").write_text("a file, not a folder")
    assert calibrate(model, data, tmp_path / "blocked" / "out") == 1
    assert "--out" in capsys.readouterr().err
