"""A model by its id: the hub's own client, on a hub on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hub import running_hub
from tests.models import save_tiny


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    base = tmp_path / "base"
    save_tiny(base, "qwen2", layers=1)
    (base / "decision.json").write_text("{}")
    (base / "model.py").write_text("raise SystemExit")
    with running_hub(base) as address:
        yield address


# The hub's client reads its address when it is imported, hence an interpreter of its own.
CLIENT = """
import json, sys, time
from readoff.engine.errors import SourceError
from readoff.engine.source import resolve
started = time.monotonic()
try:
    checkpoint = resolve(sys.argv[1])
    files = sorted(file.name for file in checkpoint.folders[0].iterdir())
    text = [files, checkpoint.config.num_layers]
except SourceError as error:
    text = str(error)
print(json.dumps([text, time.monotonic() - started]))
"""


def ask(name: str, home: Path, address: str, **environment: str) -> tuple[Any, float]:
    run = subprocess.run(
        [sys.executable, "-c", CLIENT, name],
        env={"HF_ENDPOINT": address, "HF_HOME": str(home), "PATH": "/usr/bin"} | environment,
        cwd=home.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    text, seconds = json.loads(run.stdout)
    return text, seconds


def test_a_hub_id(hub: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    expected = ["config.json", "decision.json", "generation_config.json", "model.safetensors"]
    assert ask("org/name", home, hub)[0] == [expected, 1]
    nowhere = "http://127.0.0.1:9"
    assert ask("org/name", home, nowhere, READOFF_OFFLINE="1")[0] == [expected, 1]
    text, _ = ask("org/other", home, hub)
    assert "'org/other' is no folder or file here" in text
    assert "doesn't exist on the hub" in text
    text, seconds = ask("org/other", home, nowhere)
    assert "the hub can't be reached" in text
    assert seconds < 10
