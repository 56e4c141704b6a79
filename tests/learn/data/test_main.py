"""The command: what it prints and with which status it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from readoff.engine.prompt import Renderer
from readoff.engine.questions import Noul
from readoff.engine.template import Template
from readoff.learn.data.__main__ import main
from readoff.learn.data.draft import Draft
from readoff.learn.data.row import Row
from readoff.learn.data.tokens import count, row_tokens
from tests.tokenizers import tiny


def run(sources: Path, out: Path, *more: str) -> int:
    given = ["--sources", str(sources), "--out", str(out), "--states", "60", "--model", "none"]
    return main([*given, *more])


def test_json(sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(sources, tmp_path / "set", "--json") == 0
    printed, progress = capsys.readouterr()
    assert json.loads(printed) == json.loads((tmp_path / "set" / "data.json").read_text())
    assert "making rows" in progress


def test_text(sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(sources, tmp_path / "set") == 0
    printed = capsys.readouterr().out
    assert "train: 60 states" in printed
    assert "noise of clinc150: " in printed


def test_an_error_is_told_without_a_traceback(
    sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "set").mkdir()
    assert run(sources, tmp_path / "set") == 1
    assert "exists already" in capsys.readouterr().err


def test_wrong_usage() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--sources", "x"])
    assert caught.value.code == 2


def test_tokens_count_the_state_once() -> None:
    tokenizer = tiny()
    renderer = Renderer(tokenizer, Template.load(tokenizer))
    asked = {"a": Noul(instructions="one"), "b": Noul(instructions="two words")}
    drafts = {n: Draft("verification", n, q, {"true": 1.0}) for n, q in asked.items()}
    row = Row("some text", drafts, "en", "train", "clinc150", "CC BY 3.0", ("some text",))
    first, second = renderer.render("some text", asked)
    leaf = len(second.pieces[-1].ids)
    assert row_tokens(row, renderer) == len(first) + leaf < len(first) + len(second)
    assert count([row, row], renderer) == 2 * row_tokens(row, renderer)
