"""The whole command on a tiny model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readoff.learn.evaluate.__main__ import main
from readoff.learn.evaluate.subject import Subject
from tests.learn.evaluate.made import labelled, save_pair, write

pytest.importorskip("xgrammar")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluated")
    save_pair(folder)
    write(folder / "test.jsonl", labelled(24))
    write(folder / "valid.jsonl", labelled(48, split="valid", start=100))
    return folder


def run(place: Path, *more: str) -> int:
    options = ["--model", str(place / "base"), "--adapter", str(place / "adapter")]
    options += ["--test", str(place / "test.jsonl"), "--out", str(place / "out")]
    options += ["--dtype", "fp32", "--resamples", "20", "--json-rows", "2", *more]
    with pytest.raises(SystemExit) as end:
        main(options)
    assert isinstance(end.value.code, int)
    return end.value.code


def test_it_evaluates_writes_and_repeats_itself_without_a_model(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = ["--fit", str(place / "valid.jsonl")]
    assert run(place, *fit) == 0
    told = capsys.readouterr().out
    assert "routing, 15 options" in told
    assert "not measured" in told
    out = place / "out"
    content = (out / "evaluation.json").read_bytes()
    found: dict[str, Any] = json.loads(content)
    assert [one["name"] for one in found["contenders"]] == [
        "zero-shot",
        "zero-shot debiased",
        "trained",
        "trained + temperature",
        "greedy JSON",
    ]
    whole, sampled = found["scopes"]
    assert (whole["name"], sampled["name"]) == ("test", "test sample")
    assert (whole["decisions"], sampled["decisions"]) == (36, 12)
    assert {row["contender"] for row in sampled["rows"]} == {c["name"] for c in found["contenders"]}
    assert found["temperatures"]["values"]["noul"] != 1.0
    text = (out / "evaluation.md").read_text()
    assert text.index("osses against zero-shot" if found["losses"] else "No loss") < text.index("|")
    for name in ("accuracy-test.png", "reliability-test-all.png", "reliability-test-routing.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
        assert name in text

    monkeypatch.setattr(Subject, "engine", property(lambda self: pytest.fail("asked again")))
    assert run(place, *fit) == 0
    assert (out / "evaluation.json").read_bytes() == content
    assert run(place, *fit, "--check") == 1  # a gate that wasn't measured isn't met


def test_without_rows_to_fit_on_it_says_what_is_left_out(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(place, "--json-rows", "0", "--debias", "none", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["temperatures"] is None
    assert "left out" in found["notes"][0]
    assert [scope["name"] for scope in found["scopes"]] == ["test"]
    assert {row["contender"] for row in found["scopes"][0]["rows"]} == {
        "zero-shot",
        "zero-shot debiased",
        "trained",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fit", "{place}/test.jsonl"], "is of the test split"),
        (["--bigbench", "{place}/nowhere"], "no folder of public data"),
        (["--adapter", "{place}/base"], "adapter"),
        (["--model", "{place}/adapter"], ""),
    ],
)
def test_errors_are_told_before_a_model_is_asked(
    place: Path,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Subject, "engine", property(lambda self: pytest.fail("asked")))
    assert run(place, *(option.format(place=place) for option in options)) == 1
    told = capsys.readouterr().err
    assert "readoff: error:" in told
    assert message in told


def test_wrong_usage_is_2(place: Path) -> None:
    assert run(place, "--json-rows", "-1") == 2
    assert run(place, "--debias", "some") == 2
