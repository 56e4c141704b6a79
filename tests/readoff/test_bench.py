"""`readoff bench` on a tiny random model: the whole run, and every way in which it can end."""

from __future__ import annotations

import errno
import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from readoff.bench.records import Ask, Run, Workload
from readoff.bench.rungs.label_rows import LabelRows
from readoff.bench.rungs.shared_state import SharedState
from readoff.engine.card import Card
from tests.bench.asks import ask
from tests.bench.http import servers
from tests.engine.models_on_disk import save_decider
from tests.readoff.test_cli import call

pytest.importorskip("xgrammar")

FEW = ("--repeats", "1", "--rungs", "L2t,L2,L3,L4")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    save_decider(folder, "qwen3", layers=2, max_position_embeddings=8192)
    return str(folder)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few and short requests, and ceilings that take no time; both have tests of their own."""
    from readoff.bench import session
    from readoff.bench.ceilings import Ceilings
    from readoff.bench.workloads import plan

    sizes = {"state_tokens": 30.0, "questions": 1.0, "question_tokens": 40.0}
    asked = ("Paid twice.", "It is late!", "Ten more.", "Closed.", "Open.", "Lost.")
    steps = [ask(text, "due") for text in asked]
    made = [
        Workload("paper-en", "paper", "en", [ask(t, "team") for t in asked[:2]], sizes),
        Workload("many-en", "many", "en", [ask(asked[0])], sizes | {"questions": 8.0}),
        Workload("search-en", "search", "en", steps, {"documents": 5.0, "question_first": 1.0}),
    ]
    monkeypatch.setattr(plan, "workloads", lambda *_, **__: made)
    monkeypatch.setattr(session, "measure_ceilings", lambda *_, **__: Ceilings(1e12, 1e10))


def bench(model: str, out: Path, *arguments: str) -> int:
    """The exit code of a quick run in fp32."""
    fixed = ("--quick", "--model", model, "--dtype", "fp32", "--threads", "1")
    return call("bench", *fixed, "--out", str(out), *arguments)


def labelled(path: Path, count: int = 12) -> str:
    """A file of labelled decisions."""
    question = {"type": "choice", "criteria": {"billing": None, "sales": None}}
    for_both = itertools.cycle(["billing", "sales"])
    lines = [
        json.dumps({"state": f"mail {n}", "questions": {"q": question}, "answers": {"q": answer}})
        for n, answer in zip(range(count), for_both, strict=False)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def last_line(out: str) -> dict[str, Any]:
    """The document that ends stdout."""
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def test_a_whole_run(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report"
    data = labelled(tmp_path / "mails.jsonl", 4)
    assert bench(model, out, "--repeats", "1", "--data", data) == 0
    printed = capsys.readouterr()
    document = last_line(printed.out)
    assert json.loads((out / "result.json").read_text()) == document
    assert "<svg" in (out / "report.html").read_text()
    assert "not complete" not in (out / "report.md").read_text()
    assert document["complete"] is True
    assert document["stopped"] is None
    ran = {(row["workload"], row["name"]) for row in document["rungs"]}
    assert {name for workload, name in ran if workload == "paper-en"} == {
        *("L0", "L1", "L1j", "L2t", "L2", "L3", "L4", "L5", "L6")
    }
    kinds = [workload["kind"] for workload in document["workloads"]]
    assert kinds == ["paper", "many", "search", "quality"]
    for row in document["rungs"]:
        assert row["gate"] == ("none" if row["name"] == "L2t" else row["gate"])
        assert row["gate"] in ("ok", "none")
        assert row["p50_ms"] > 0
    paper = {row["name"]: row for row in document["rungs"] if row["workload"] == "paper-en"}
    assert paper["L4"]["speedup_vs_L0"] > 0
    assert paper["L0"]["tokens_generated"] > 0
    steps = [row for row in document["rungs"] if row["workload"].startswith("search")]
    assert all(row["step_ms"] > row["p50_ms"] for row in steps)
    assert {row["against"] for row in document["targets"]} == {"L0", "L1", "L2t"}
    assert {(row["rung"], row["kind"]) for row in document["quality"]} >= {
        ("L4", "readout"),
        ("L1", "stated"),
        ("L1", "tokens"),
    }
    assert document["ceilings"]["flops_per_s"] > 0
    assert document["machine"]["versions"]["torch"]
    assert "paper-en" in printed.err
    assert "asked 5.2x" in printed.out


def test_json_prints_the_document_and_nothing_else(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(model, tmp_path, *FEW, "--json") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert {row["name"] for row in json.loads(lines[0])["rungs"]} == {"L2t", "L2", "L3", "L4"}


def test_a_red_gate_names_the_rung_and_keeps_what_was_before(
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true = LabelRows.answer

    def shifted(self: LabelRows, ask: Ask) -> Run:
        """Labels shifted by one wherever a request has several questions."""
        run = true(self, ask)
        if len(ask.questions) > 1:
            for name, given in run.given.items():
                p = given.probabilities or ()
                object.__setattr__(run.given[name], "probabilities", (*p[1:], p[0]))
        return run

    monkeypatch.setattr(LabelRows, "answer", shifted)
    assert bench(model, tmp_path, *FEW) == 1
    printed = capsys.readouterr()
    document = last_line(printed.out)
    assert "Red gate: rung L3 doesn't answer as L2 does" in printed.err
    assert document["complete"] is False
    assert "rung L3" in document["stopped"]
    *before, red = document["rungs"]
    assert (red["name"], red["gate"], red["p50_ms"], red["seconds"]) == ("L3", "red", None, [])
    assert {row["workload"] for row in before} >= {"paper-en"}
    assert "This run is not complete: Red gate" in (tmp_path / "report.html").read_text()


def test_ctrl_c_keeps_what_was_measured(
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true, calls = SharedState.answer, itertools.count(1)

    def interrupted(self: SharedState, ask: Ask) -> Run:
        """Ctrl-C in the second of two timed rounds of two requests."""
        if next(calls) == 6:
            raise KeyboardInterrupt
        return true(self, ask)

    monkeypatch.setattr(SharedState, "answer", interrupted)
    assert bench(model, tmp_path, "--repeats", "2", "--rungs", "L3,L4") == 130
    document = last_line(capsys.readouterr().out)
    assert json.loads((tmp_path / "result.json").read_text()) == document
    assert (document["complete"], document["stopped"]) == (False, "interrupted by Ctrl-C.")
    assert {row["name"]: len(row["seconds"]) for row in document["rungs"]} == {"L3": 4, "L4": 3}


def test_a_full_disk_ends_with_1_and_the_document_on_stdout(
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert bench(model, tmp_path, "--repeats", "1", "--rungs", "L4") == 1
    printed = capsys.readouterr()
    assert last_line(printed.out)["complete"] is True
    assert "readoff: error: " in printed.err
    assert "No space left on device" in printed.err
    assert "--out" in printed.err
    assert printed.err.count("warning: ") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_opponent_is_swept_and_judged(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = labelled(tmp_path / "mails.jsonl")
    with servers.serving(servers.systemone()) as server:
        few = ("--repeats", "1", "--rungs", "L4", "--opponent", server.url, "--data", data)
        assert bench(model, tmp_path / "out", *few) == 0
    document = last_line(capsys.readouterr().out)
    (one,) = document["opponents"]
    assert (one["kind"], one["model"], one["workload"]) == ("systemone", "tiny-one", "paper-en")
    assert [level["concurrency"] for level in one["levels"]] == [1, 2, 4, 8]
    assert all(level["requests"] == 16 for level in one["levels"])
    assert 0 <= one["agreement"] <= 1
    (row,) = [row for row in document["quality"] if row["rung"] == server.url]
    assert (row["kind"], row["n"], row["accuracy"]) == ("readout", 12, 0.5)
    assert server.url in (tmp_path / "out" / "report.html").read_text()


def test_an_opponent_that_dies_leaves_the_ladder_and_its_own_first_answers(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counter = itertools.count()

    def dying(body: dict[str, Any]) -> Any:
        return servers.decided(body) if next(counter) < 20 else None

    with servers.serving(servers.systemone(dying)) as server:
        few = ("--repeats", "1", "--rungs", "L4", "--opponent", server.url)
        assert bench(model, tmp_path, *few) == 1
    printed = capsys.readouterr()
    document = last_line(printed.out)
    assert "can't be reached" in printed.err
    assert "answered requests of 16" in printed.err
    assert document["complete"] is False
    assert len(document["rungs"]) == len(document["workloads"])
    assert [level["complete"] for level in document["opponents"][0]["levels"]] == [True, False]


def test_a_line_that_does_not_parse_is_told_before_the_model_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(labelled(tmp_path / "mails.jsonl", 2))
    path.write_text(path.read_text() + '\n{"state": ')
    assert call("bench", "--model", "/nowhere/model", "--data", str(path)) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "mails.jsonl, line 3" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "/nowhere/model"], "/nowhere/model"),
        (["--data", "/nowhere/data.jsonl"], "can't be read"),
    ],
)
def test_what_is_not_there_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("bench", "--out", str(tmp_path), *arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_rung_is_told(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(model, tmp_path, "--rungs", "L4,L99") == 1
    assert "There is no rung 'L99'" in capsys.readouterr().err
    assert call("bench", "--rungs", " , ") == 2


def test_a_card_fitted_under_debiasing_is_refused(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = tmp_path / "decision.json"
    Card(debias="prior").save(card)
    assert bench(model, tmp_path / "report", "--card", str(card)) == 1
    assert 'fitted under debias="prior"' in capsys.readouterr().err


@pytest.mark.parametrize(("model", "measured"), [("demo", "demo-base"), ("./mine", "./mine")])
def test_demo_is_measured_without_its_adapter(
    monkeypatch: pytest.MonkeyPatch, model: str, measured: str, tmp_path: Path
) -> None:
    from readoff.commands import bench_run

    seen: list[tuple[str, str | None]] = []
    monkeypatch.setattr(
        bench_run, "run", lambda chosen, quiet: seen.append((chosen.model, chosen.adapter))
    )
    assert bench(model, tmp_path / "out", "--adapter", "own") == 0
    assert seen == [(measured, "own")]
