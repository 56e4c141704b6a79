"""The command line: what goes to stdout, what to stderr, and the exit codes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import readoff
from readoff.cli import main
from readoff.commands import options
from readoff.engine.errors import CardError, QuestionError, RequestError
from tests.readoff.fakes import FakeEngine

REQUEST = {
    "state": "Wir warten seit Tagen – 三天 – auf das Päckchen.",
    "questions": {
        "angry": {"type": "noul", "instructions": "The customer is angry."},
        "team": {"type": "choice", "criteria": {"shipping": None, "büro": "Everything else"}},
        "heat": {"type": "score", "criteria": ["Calm", "Annoyed", "Furious"]},
    },
}


def call(*arguments: str) -> int:
    """The exit code of `readoff ARGUMENTS`."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    code = exit_.value.code
    return code if isinstance(code, int) else 0


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


def failing(error: BaseException) -> Any:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version") == 0
    assert capsys.readouterr().out == f"readoff {readoff.__version__}\n"


@pytest.mark.parametrize("command", [(), ("demo",), ("decide",), ("info",), ("fetch",)])
def test_help(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*command, "--help") == 0
    out = capsys.readouterr().out
    assert "Usage: readoff" in out
    if command in {("demo",), ("decide",), ("fetch",)}:
        assert "--model" in out
        assert "[default: demo]" in out


def test_decide_prints_the_response_and_nothing_else(
    engine: FakeEngine, request_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("decide", "--request", request_file) == 0
    response = json.loads(capsys.readouterr().out)
    assert engine.asked == [(REQUEST["state"], ("angry", "team", "heat"), False)]
    assert response["model"] == "fake-model"
    assert response["answers"]["team"]["choice"] == "shipping"
    assert list(response["answers"]["team"]["probabilities"]) == ["shipping", "büro"]
    assert set(response["answers"]["angry"]) == {"type", "noul"}
    assert response["usage"]["input_tokens"] == 30


def test_decide_reads_standard_input_and_gives_legal_mass_on_request(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(REQUEST).encode("utf-8-sig")))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert call("decide", "-r", "-", "--legal-mass") == 0
    response = json.loads(capsys.readouterr().out)
    assert engine.asked[0][2] is True
    assert response["answers"]["heat"]["x_legal_mass"] == 0.75
    for wish, mass in ((True, True), (False, False), (None, False)):
        asked = json.dumps(REQUEST | {"x_legal_mass": wish}).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(asked)))
        assert call("decide", "-r", "-") == 0
        assert engine.asked[-1][2] is mass
    capsys.readouterr()


def test_options_reach_the_engine(
    request_file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: dict[str, Any] = {}
    engine = FakeEngine()
    monkeypatch.setattr(
        options, "load_engine", lambda model, **rest: seen.update(model=model, **rest) or engine
    )
    card = tmp_path / "decision.json"
    card.write_text("{}")
    words = f"decide -r {request_file} --model m --adapter a --revision r --device cpu"
    words += " --quantize int8 --deterministic --debias both --gate 0.7 --escalate-url http://e:1"
    words += " --rotations 6"
    assert call(*words.split(), "--card", str(card), "--dtype", "fp32", "--threads", "3") == 0
    escalate = engine.how.pop("escalate")
    assert escalate.url.startswith("http://e:1/")
    assert engine.how == {"debias": "both", "rotations": 6, "gate": 0.7}
    assert seen == {
        "model": "m",
        "adapter": "a",
        "card": card,
        "revision": "r",
        "device": "cpu",
        "dtype": options.Dtype.FP32,
        "threads": 3,
        "quantize": options.Quantise.INT8,
        "deterministic": True,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ["decide"],
        ["decide", "--request", "/nowhere/request.json"],
        ["demo", "--repeats", "0"],
        ["demo", "--dtype", "int3"],
        ["info", "--nonsense"],
        ["oracle"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Usage: readoff" in captured.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "The request is not JSON"),
        (b"\xff{}", "not UTF-8"),
        (b'{"state": "a", "state": "b"}', "state"),
        (b'{"state": NaN}', "NaN"),
        (b'{"state": "a", "questions": {}}', "body.questions"),
        (b'{"state": 1, "questions": {"q": {"type": "noul"}}}', "body.state"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_request_is_one_line(
    text: bytes,
    message: str,
    tmp_path: Path,
    engine: FakeEngine,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(text)
    assert call("decide", "--request", str(path)) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("readoff: error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert engine.asked == []


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (CardError("the card is\n  for another model"), "the card is for another model"),
        (QuestionError("two options are equal"), "two options are equal"),
        (
            RequestError("no such field", ("body", "questions", 0)),
            "body.questions.0: no such field",
        ),
        (
            ModuleNotFoundError("No module named 'torch'", name="torch"),
            'pip install "readoff[torch]"',
        ),
    ],
)
def test_errors_are_one_line_and_exit_1(
    error: Exception,
    line: str,
    request_file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(options, "load_engine", failing(error))
    assert call("decide", "-r", request_file) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert line in captured.err
    assert captured.err.count("\n") == 1


def test_ctrl_c_exits_with_130(request_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "load_engine", failing(KeyboardInterrupt()))
    assert call("decide", "-r", request_file) == 130


def test_a_fault_of_ours_is_not_dressed_up(
    request_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the errors we mean are one line; a bug keeps its traceback."""
    missing = ModuleNotFoundError("No module named 'sqlite9'", name="sqlite9")
    for error in (ZeroDivisionError(), missing):
        monkeypatch.setattr(options, "load_engine", failing(error))
        with pytest.raises(type(error)):
            main(["decide", "-r", request_file])


def test_demo_prints_a_table_or_one_document(
    engine: FakeEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("demo", "--no-generate", "--repeats", "1") == 0
    out = capsys.readouterr().out
    assert engine.warm
    for family in demo_states_families():
        assert family in out
    assert "12 decisions read off" in out
    assert "Speed-up" not in out

    assert call("demo", "--no-generate", "--repeats", "2", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [len(state["decisions"]) for state in document["states"]] == [4, 4, 4]
    assert "speed_up" not in document


def demo_states_families() -> tuple[str, ...]:
    from readoff.commands.demo_states import FAMILIES

    return FAMILIES


def test_info_in_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("info", "--device", "cpu", "--dtype", "fp32", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["device"] == "cpu"
    assert call("info", "--device", "cpu", "--dtype", "fp32") == 0
    out = capsys.readouterr().out
    assert "tree_attention" in out
    assert "used" in out


def test_text_that_stdout_cannot_carry_is_escaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from readoff.commands.output import print_json

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    print_json({"büro": "三"})
    sys.stdout.flush()
    assert json.loads(raw.getvalue().decode("ascii")) == {"büro": "三"}
