"""`readoff batch`: a line of answers for every line of requests, whatever is wrong with some."""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path

import pytest

from readoff.commands import batch_rows as rows
from readoff.commands import batch_run, options
from readoff.engine.engine import Engine
from readoff.engine.wire import parse_request, render_response
from tests.engine.models_on_disk import save_decider
from tests.export.packs import tiny_pack
from tests.readoff.batches import ASKED, TEAMS, FakeMany, call, line, read, write


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeMany:
    fake = FakeMany()
    monkeypatch.setattr(options, "load_engine", lambda model, **_: fake)
    return fake


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    return str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl")


def test_line_n_answers_line_n(
    engine: FakeMany, paths: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        paths[0],
        b"\xef\xbb\xbf" + line("first", id=7),
        line(["a", {"b": "三天"}], questions=TEAMS, model="jev-latest", id={"row": "二"}),
        line("third", id=None)[:-1] + b"\r\n",
        line("last")[:-1],  # without its newline
    )
    assert call(*paths, "--chunk", "3") == 0
    found = read(paths[1])
    assert [sorted(row["answers"]) for row in found] == [["refund"], ["team"], *[["refund"]] * 2]
    assert [row.get("x_id", "none") for row in found] == [7, {"row": "二"}, None, "none"]
    assert found[1]["answers"]["team"]["choice"] == "büro"
    assert all(row["model"] == "fake-model" and row["x_latency_ms"] == 12.5 for row in found)
    assert engine.calls == [(3, False), (1, False)]
    assert [asked[0] for asked in engine.asked] == ["first", ["a", {"b": "三天"}], "third", "last"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "4 rows, 0 errors, 120 tokens computed, 0 saved" in captured.err


BAD = [
    (b"\n", "empty", ["body"]),
    (b"   \t\n", "empty", ["body"]),
    (b"{}\n", '"state" is required', ["body", "state"]),
    (b"[1]\n", "must be a JSON object", ["body"]),
    (b"not json\n", "not JSON", ["body", 0]),
    (b'{"state": "\xff"}\n', "not UTF-8", ["body", 11]),
    (b'{"state": NaN}\n', "NaN", ["body"]),
    (b'{"state": "a", "state": "b"}\n', "twice", ["body"]),
    (b'{"state": ' + b"[" * 5000 + b"]" * 5000 + b"}\n", "nested too deeply", ["body"]),
    (b'{"id": "\\ud800"}\n', "half of a", ["body", "id"]),
    (line("x", questions={}), "no question", ["body", "questions"]),
    (
        line(
            "x",
            questions={"q": {"type": "choice", "criteria": dict.fromkeys(map(str, range(256)))}},
        ),
        "2 to 255 options",
        ["body", "questions", "q", "choice", "criteria"],
    ),
    (line("x", x_legal_mass="yes"), "true or false", ["body", "x_legal_mass"]),
    (line("x", model=3), "must be a string", ["body", "model"]),
    (b'{"id": 1e999, "state": "x", "questions": {"q": {"type": "noul"}}}\n', "", None),
]


def test_what_is_wrong_is_told_in_its_place_and_counted(
    engine: FakeMany, paths: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [text for bad, _, _ in BAD for text in (line("fine"), bad)]
    write(paths[0], *lines)
    assert call(*paths, "--json") == 1
    found = read(paths[1])
    assert len(found) == 2 * len(BAD)
    assert all("answers" in row for row in found[::2])
    for number, (row, (_, words, loc)) in enumerate(zip(found[1::2], BAD, strict=True), 1):
        error = row["error"]
        assert "answers" not in row
        assert words in error["msg"]
        assert (error["type"], error["line"]) == ("value_error", 2 * number)
        assert loc is None or error["loc"] == loc
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rows"], summary["errors"]) == (2 * len(BAD), len(BAD))
    assert summary["tokens_computed"] == 30 * len(BAD)
    assert summary["rows_per_second"] > 0


@pytest.mark.parametrize("state", ["too long", "poison", "labels"])
def test_a_row_that_fails_disturbs_no_other(
    state: str, engine: FakeMany, paths: tuple[str, str]
) -> None:
    states = [f"row {i}" for i in range(64)]
    states[13] = state
    write(paths[0], *(line(text, id=text) for text in states))
    assert call(*paths) == 1
    found = read(paths[1])
    assert [row["x_id"] for row in found] == states
    assert [number for number, row in enumerate(found) if "error" in row] == [13]
    error = found[13]["error"]
    if state == "poison":
        assert (error["type"], error["loc"]) == ("not_finite", ["body"])
    elif state == "labels":
        assert (error["type"], error["loc"]) == ("value_error", ["body"])
        assert "there are 200" in error["msg"]
    else:
        assert (error["type"], error["loc"]) == ("too_long", ["body", "state"])
        assert "9 tokens and the model takes 5" in error["msg"]
    assert len(engine.calls) == 13, "halves, not single rows"


def test_legal_mass_where_it_is_asked_for(engine: FakeMany, paths: tuple[str, str]) -> None:
    write(paths[0], line("a"), line("b", x_legal_mass=True), line("c"))
    assert call(*paths) == 0
    masses = [row["answers"]["refund"].get("x_legal_mass") for row in read(paths[1])]
    assert masses == [None, 0.75, None]
    assert engine.calls == [(2, False), (1, True)]
    assert call(*paths, "--legal-mass", "--force") == 0
    assert all("x_legal_mass" in row["answers"]["refund"] for row in read(paths[1]))


def test_a_pack_answers_and_says_what_it_cannot_measure(
    tmp_path: Path, paths: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    pack = tiny_pack(tmp_path / "m", layers=1)[1]
    write(paths[0], line("a"), line("b", x_legal_mass=True), line("c"))
    assert call(*paths, "-m", str(pack.folder), "--device", "cpu", "--threads", "1") == 1
    found = read(paths[1])
    assert ["error" in row for row in found] == [False, True, False]
    assert found[1]["error"]["loc"] == ["body", "x_legal_mass"]
    assert "can't measure the legal mass" in found[1]["error"]["msg"]


@pytest.mark.parametrize("id_", [math.inf, [{"a": math.nan}], "\ud800", {1}])
def test_an_id_that_cannot_be_written_is_an_error_without_it(id_: object) -> None:
    row = rows.parse(line("a", id=3), 1, "digest")
    rows.decide(FakeMany(), [row])
    row.id = id_
    found = json.loads(rows.render(row))
    assert found["error"]["loc"] == ["body", "id"]
    assert sorted(found) == ["error", "x_request"]
    assert row.decision is None, "it is counted as an error"


def test_threads_that_would_end_the_process(
    engine: FakeMany, paths: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(paths[0], line("a"))
    assert call(*paths, "--threads", "999999") == 2
    assert "999999 is more than this machine's" in " ".join(capsys.readouterr().err.split())
    assert not Path(paths[1]).exists()
    assert call(*paths, "--threads", "64") == 0


def test_no_requests_no_answers(engine: FakeMany, paths: tuple[str, str]) -> None:
    write(paths[0])
    assert call(*paths) == 0
    assert read(paths[1]) == []


def test_standard_input_and_output(
    engine: FakeMany, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    data = io.TextIOWrapper(io.BytesIO(line("三天") + line("b")))
    monkeypatch.setattr(sys, "stdin", data)
    assert call("-", "-") == 0
    captured = capsysbinary.readouterr()
    rows = [json.loads(text) for text in captured.out.splitlines()]
    assert [sorted(row["answers"]) for row in rows] == [["refund"], ["refund"]]
    assert b"2 rows" in captured.err


def test_strict_stops_at_the_first_error(
    engine: FakeMany, paths: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(paths[0], line("a"), line("b"), b"{}\n", line("c"))
    assert call(*paths, "--strict") == 1
    assert 'Line 3: The field "state" is required' in capsys.readouterr().err
    assert len(read(paths[1])) == 2
    write(paths[0], line("a"), line("b"), line("mended"), line("c"))
    assert call(*paths, "--strict", "--resume") == 0
    assert len(read(paths[1])) == 4


def test_a_chunk_ends_early_where_lines_are_long(
    engine: FakeMany, paths: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_run, "CHUNK_BYTES", 1000)
    write(paths[0], *(line("x" * 600) for _ in range(5)))
    assert call(*paths) == 0
    assert [size for size, _ in engine.calls] == [2, 2, 1]


def test_a_tiny_model_answers_as_it_does_alone(
    tmp_path: Path, paths: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    save_decider(folder, max_position_embeddings=700)
    states = [
        "The invoice was paid twice. " * 8 + tail for tail in ("Why?", "Again!", "", "x" * 900)
    ]
    write(paths[0], *(line(state, questions=TEAMS | ASKED) for state in states))
    options_ = ("--model", str(folder), "--deterministic", "--dtype", "fp32", "--threads", "1")
    assert call(*paths, *options_, "--chunk", "4", "--json") == 1
    found = read(paths[1])
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rows"], summary["errors"]) == (4, 1)
    assert summary["tokens_computed"] > 0
    assert summary["tokens_saved"] > 0
    assert found[3]["error"]["type"] == "too_long"
    assert "the model takes 700" in found[3]["error"]["msg"]
    with Engine.from_pretrained(folder, dtype="fp32", threads=1, deterministic=True) as engine:
        for row, state in zip(found[:3], states[:3], strict=True):
            request = parse_request({"state": state, "questions": TEAMS | ASKED})
            alone = render_response(engine.decide(state, request.questions), "model")
            assert row["answers"] == alone["answers"]
            assert row["model"] == "model"
