"""`readoff decide` and other commands with a deployment pack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readoff.cli import main
from readoff.engine.card import Card
from readoff.engine.gate import Gate
from readoff.export.pack import Pack
from readoff.export.runtime import OnnxEngine
from tests.export.packs import tiny_pack

REQUEST = {"state": "Paid twice.", "questions": {"due": {"type": "noul"}}}


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    card = Card(gate=Gate(0.99).to_json())
    return tiny_pack(tmp_path_factory.mktemp("m"), layers=1, card=card)[1]


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(REQUEST))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    told = capsys.readouterr()
    code = caught.value.code
    return code if isinstance(code, int) else 0, told.out, told.err


def test_it_decides(capsys: pytest.CaptureFixture[str], pack: Pack, request_file: Path) -> None:
    code, out, err = run(
        capsys, "decide", "-m", pack.folder, "-r", request_file, "--device", "cpu", "--threads", 1
    )
    assert code == 0, err
    answer: dict[str, Any] = json.loads(out)
    assert answer["model"] == "model"
    assert answer["answers"]["due"]["x_accept"] is False
    with OnnxEngine.from_pretrained(pack.folder) as engine:
        noul = engine.decide("Paid twice.", {"due": _noul()})["due"]
    assert answer["answers"]["due"]["noul"] == pytest.approx(noul.noul, abs=1e-6)  # type: ignore[union-attr]


def _noul() -> Any:
    from readoff.engine.questions import Noul

    return Noul()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--adapter", "a/b"), "takes no adapter"),
        (("--quantize", "int8"), "takes no quantize"),
        (("--deterministic",), "takes no deterministic"),
        (("--legal-mass",), "can't measure the legal mass"),
    ],
)
def test_what_it_refuses(
    capsys: pytest.CaptureFixture[str],
    pack: Pack,
    request_file: Path,
    given: tuple[str, ...],
    told: str,
) -> None:
    code, out, err = run(capsys, "decide", "-m", pack.folder, "-r", request_file, *given)
    assert (code, out) == (1, "")
    assert told in err


def test_the_packs_card_is_looked_at_before_an_escalation(
    capsys: pytest.CaptureFixture[str],
    pack: Pack,
    request_file: Path,
    tmp_path: Path,
) -> None:
    url = ("--escalate-url", "http://127.0.0.1:9/v1")
    plain = tmp_path / "card.json"
    Card.default().save(plain)
    code, _, err = run(
        capsys, "decide", "-m", pack.folder, "-r", request_file, *url, "--card", plain
    )
    assert code == 1
    assert "no gate" in err
    code, out, err = run(capsys, "decide", "-m", pack.folder, "-r", request_file, *url)
    assert code == 0, err
    assert json.loads(out)["answers"]["due"]["x_accept"] is False


def test_a_pack_that_is_damaged(
    capsys: pytest.CaptureFixture[str], request_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "pack.json").write_text('{"format": 99}')
    code, out, err = run(capsys, "decide", "-m", tmp_path, "-r", request_file)
    assert (code, out) == (1, "")
    assert "is of format 99" in err


def test_commands_that_need_the_weights_say_so(
    capsys: pytest.CaptureFixture[str], pack: Pack
) -> None:
    code, out, err = run(capsys, "demo", "--model", pack.folder)
    assert (code, out) == (1, "")
    assert "is a pack, and this command needs the model's own weights" in err


def test_info_tells_how_a_pack_runs(capsys: pytest.CaptureFixture[str], pack: Pack) -> None:
    code, out, err = run(capsys, "info", "--model", pack.folder, "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["model"]["provider"]["name"] == "CPUExecutionProvider"
    assert told["model"]["pack"]["precision"] == "fp32"
    assert told["versions"]["onnxruntime"]
    code, out, err = run(capsys, "info", "--model", pack.folder)
    assert code == 0, err
    assert "model: architecture" in out
    assert "CUDAExecutionProvider: not in this" in " ".join(out.split())
