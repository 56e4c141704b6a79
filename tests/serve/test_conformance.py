"""The ecosystem's public conformance suite against `readoff serve`: every MUST and every SHOULD."""

from __future__ import annotations

from pathlib import Path

import pytest
from jevcompat import runner

from tests.engine.models_on_disk import save_decider

from .rig import process

KEY = "sk-conformance"
AUTH = {"auth.bearer", "auth.missing", "auth.invalid"}
OPEN = {"auth.ignored-when-off"}


def check(report: runner.Report, untested: set[str]) -> None:
    wrong = [f"{f.req}: {f.message}" for r in report.results for f in r.findings]
    assert wrong == []
    assert {r.id for r in report.results if r.status != "pass"} == untested
    assert report.aborted is None
    assert report.case_errors == []
    assert report.inconclusive == []


@pytest.mark.weights
def test_without_a_key(demo_checkpoint: Path) -> None:
    with process() as server:
        report = runner.run(server.url)
    check(report, AUTH)
    assert report.verdict == "conformant"


@pytest.mark.slow
@pytest.mark.weights
def test_with_a_key(demo_checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(KEY)
    with process("--api-key-file", str(path)) as server:
        report = runner.run(server.url, key=KEY)
    check(report, OPEN)
    assert report.verdict == "conformant"


def test_with_a_key_on_a_tiny_model(tmp_path: Path) -> None:
    """Everything but the many options that a tiny tokenizer has no labels for."""
    save_decider(tmp_path / "tiny", layers=2, max_position_embeddings=16_384)
    arguments = ("--model", str(tmp_path / "tiny"), "--dtype", "fp32")
    with process(*arguments, environ={"READOFF_API_KEYS": f"other, {KEY}"}) as server:
        names = {case.name for case in runner.CASES} - {"choice-options"}
        report = runner.run(server.url, key=KEY, only=names)
    check(report, OPEN)
