"""`readoff kernels report`: the table, the document, and the exit codes."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from readoff.kernels import aot
from readoff.kernels.aot import Compiled
from tests.readoff.test_cli import call

GOOD = Compiled("toy.good[bf16, D=64]", 90, 96, 0, 40960, 232448, 4, 2, True, 120, 32, 8, 1)
SPILLING = Compiled("toy.spilling", 80, 255, 12, 1024, 166912, 4, 2, False, 900, 0, 0, 5)
LARGE = Compiled("toy.large", 86, 64, 0, 131072, 101376, 4, 2, True, 50, 8, 4, 0)
BROKEN = Compiled("toy.broken", 120, error="CompilationError: [no] such thing")

Asked = list[tuple[Sequence[str], Sequence[int]]]


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Asked]:
    """`compiler(result, …)` answers with these, and returns what it was asked for."""

    def answer_with(*results: Compiled) -> Asked:
        asked: Asked = []

        def compile_all(
            names: Sequence[str], targets: Sequence[int], progress: Callable[[int, int], None]
        ) -> list[Compiled]:
            asked.append((names, targets))
            for done in range(len(results) + 1):
                progress(done, len(results))
            return list(results)

        monkeypatch.setattr(aot, "compile_all", compile_all)
        return asked

    return answer_with


@pytest.mark.parametrize("command", [(), ("report",)])
def test_help_has_examples(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert call("kernels", *command, "--help") == 0
    assert "readoff kernels report" in capsys.readouterr().out.partition("Example")[2]


def test_the_document_is_the_last_line(
    compiler: Callable[..., Asked], capsys: pytest.CaptureFixture[str]
) -> None:
    compiler(GOOD)
    assert call("kernels", "report", "--json") == 0
    captured = capsys.readouterr()
    (row,) = json.loads(captured.out.splitlines()[-1])
    assert row == {
        "kernel": "toy.good[bf16, D=64]",
        "target": 90,
        "registers": 96,
        "spills": 0,
        "shared_bytes": 40960,
        "shared_limit": 232448,
        "warps": 4,
        "stages": 2,
        "loop": True,
        "instructions": 120,
        "matrix_instructions": 32,
        "wide_loads": 8,
        "narrow_loads": 1,
        "error": None,
        "problems": [],
    }
    assert "kernels compiled: 1 of 1" in captured.err


def test_the_table(compiler: Callable[..., Asked], capsys: pytest.CaptureFixture[str]) -> None:
    compiler(GOOD)
    assert call("kernels", "report") == 0
    out = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    (title,) = (line for line in lines if line.startswith("toy "))
    (line,) = (line for line in lines if line.startswith("good"))
    assert title == "toy sm registers spilled shared of code matrix wide narrow"
    assert line == "good[bf16, D=64] 90 96 0 40.0 loop 120 32 8 1"


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (SPILLING, "sm_80 toy.spilling: spills 12 bytes"),
        (LARGE, "sm_86 toy.large: 131072 bytes of shared memory of 101376"),
        (BROKEN, "sm_120 toy.broken: CompilationError: [no] such thing"),
    ],
)
def test_an_unfit_kernel_is_exit_status_1(
    result: Compiled,
    told: str,
    compiler: Callable[..., Asked],
    capsys: pytest.CaptureFixture[str],
) -> None:
    compiler(GOOD, result)
    assert call("kernels", "report") == 1
    assert told in capsys.readouterr().out
    assert call("kernels", "report", "--json") == 1
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [bool(row["problems"]) for row in rows] == [False, True]


def test_targets_and_operators_are_chosen(compiler: Callable[..., Asked]) -> None:
    asked = compiler(GOOD)
    words = "kernels report --target 90 --target sm_80 --target 90 --op tree_attention"
    assert call(*words.split()) == 0
    assert asked == [(["readoff.kernels.tree_attention.triton"], [90, 80])]
    assert call("kernels", "report") == 0
    assert asked[1] == (aot.modules(), [80, 86, 89, 90, 100, 120])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--target 75", "'75' is none of 80, 86, 89, 90, 100, 120"),
        ("--op gelu", "'gelu' has no Triton kernel"),
    ],
)
def test_what_is_not_there_is_wrong_usage(
    words: str, told: str, compiler: Callable[..., Asked], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = compiler(GOOD)
    assert call("kernels", "report", *words.split()) == 2
    assert told in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert asked == []


def test_without_triton_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    true_find = importlib.util.find_spec

    def find_spec(name: str, *rest: Any) -> Any:
        return None if name == "triton" else true_find(name, *rest)

    monkeypatch.setattr("readoff.commands.kernels.find_spec", find_spec)
    assert call("kernels", "report") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "needs triton, which isn't installed" in captured.err
    assert 'pip install "readoff[torch]"' in captured.err


def test_it_compiles_under_the_interpreter_variable() -> None:
    """Which this process has set for its tests."""
    words = ("kernels", "report", "--op", "unpack", "--target", "90", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "readoff", *words],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout.splitlines()[-1])
    assert row["registers"] > 0
    assert row["narrow_loads"] > 0


def test_operators_are_found_by_their_own_name() -> None:
    """`readoff info` calls them so."""
    from readoff.commands.kernels import _operators
    from readoff.kernels import aot
    from readoff.kernels.dispatch import Op

    known = aot.operators()
    assert _operators(["rms_norm", "swiglu"], known) == ["pointwise"]
    for folder in known:
        module = importlib.import_module(f"readoff.kernels.{folder}")
        names = [made.name for made in vars(module).values() if isinstance(made, Op)]
        assert names
        assert {home for name in names for home in _operators([name], known)} == {folder}
