"""`readoff serve`: what is wrong is one line and exit code 2, before anything is loaded."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from readoff.commands.serve import serve
from tests.serve.rig import command

APP = typer.Typer()
APP.command()(serve)


def refused(*arguments: str) -> str:
    """The one line that the command prints, having ended with 2."""
    done = CliRunner().invoke(APP, ["--port", "0", *arguments])
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    line = done.stderr.rstrip("\n")
    assert line.startswith("readoff: error: ")
    assert "\n" not in line
    return line


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"Port {port} of 127.0.0.1 is in use" in refused("--port", str(port))


def test_a_missing_key_file(tmp_path: Path) -> None:
    said = refused("--api-key-file", str(tmp_path / "none"))
    assert "can't be read (No such file" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "/no/model"], "There is no model at /no/model"),
        (["--alias", "x=nobody"], "but there is none"),
        (["--header-timeout", "0"], "header_timeout must be more than 0"),
        (["--deadline-ms", "nan"], "deadline_ms must be more than 0"),
        (["--card", "/no/card.json"], "There is no decision card"),
        (["--host", "no such host"], "can't be looked up"),
        (["-m", "demo", "-m", "demo"], "Two models are called"),
    ],
)
def test_options_that_make_no_sense(arguments: list[str], said: str) -> None:
    assert said in refused(*arguments)


def test_a_model_that_cannot_be_read(tmp_path: Path) -> None:
    """Found by loading it: the log's lines come first, the message last."""
    (tmp_path / "config.json").write_text("{")
    done = subprocess.run(
        command("--port", "0", "--model", str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2
    *log, last = done.stderr.splitlines()
    assert last.startswith("readoff: error: ")
    assert all(line.startswith("{") for line in log)
    assert "Traceback" not in done.stderr


def test_a_stop_while_a_model_is_loaded(tmp_path: Path) -> None:
    """Whatever the loading thread is at, it holds nobody up."""
    code = (
        "import time, readoff.export.opening as o; o.open_engine = lambda *a, **k: time.sleep(99);"
    )
    launch = command("--port", "0", "--drain-seconds", "0")
    launch[2] = code + launch[2]
    process = subprocess.Popen(launch, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process.stderr as lines:
        assert "listening" in lines.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert "stopped" in lines.read()


def test_help_says_how() -> None:
    done = CliRunner().invoke(APP, ["--help"])
    assert done.exit_code == 0
    for word in ("--api-key-file", "--max-queue", "--alias", "readoff serve", "SIGTERM"):
        assert word in done.stdout
