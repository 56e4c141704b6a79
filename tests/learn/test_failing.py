"""How the command lines end: the status and the one line that says why."""

from __future__ import annotations

import pytest

from readoff.engine.errors import ReadoffError
from readoff.engine.extras import advice
from readoff.learn.failing import exit_with, status


def raising(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ReadoffError("no\nrows"), 1, "readoff: error: no rows\n"),
        (KeyboardInterrupt(), 130, ""),
        (
            ModuleNotFoundError("No module named 'sklearn.svm'", name="sklearn.svm"),
            1,
            "readoff: error: this command needs sklearn, which isn't installed. "
            'Install it with: pip install "readoff[torch,learn]"\n',
        ),
    ],
)
def test_what_ends_a_run(
    error: BaseException, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(lambda: raising(error)) == code
    assert capsys.readouterr().err == told


def test_a_package_of_no_extra_is_a_fault_of_ours() -> None:
    with pytest.raises(ModuleNotFoundError):
        status(lambda: raising(ModuleNotFoundError("x", name="readoff.nothing")))


@pytest.mark.parametrize("code", [0, 1])
def test_the_status_of_a_run_is_that_of_the_process(code: int) -> None:
    with pytest.raises(SystemExit) as caught:
        exit_with(lambda: code)
    assert caught.value.code == code


def test_an_extra_that_a_command_prefers_is_named() -> None:
    error = ModuleNotFoundError("x", name="matplotlib.pyplot")
    assert "readoff[torch,bench]" in str(advice(error))
    assert "readoff[torch,learn]" in str(advice(error, "torch,learn"))
    assert advice(ModuleNotFoundError("x", name="nothing")) is None
