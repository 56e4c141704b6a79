"""The real clients against a folder of wheels and a hub on this machine."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from readoff.engine import downloads
from readoff.engine.downloads import HubFile, Wheel, from_hub, from_pip
from readoff.engine.errors import DownloadError
from tests.hub import SILENT, running_hub

CONTENT = hashlib.sha256(b"model").digest() * 40_000


def make_wheel(folder: Path) -> Wheel:
    folder.mkdir()
    path = folder / "some_data-1.0-py3-none-any.whl"
    info = "some_data-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some_data/data.bin", CONTENT)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: some-data\nVersion: 1.0\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return Wheel("some-data", "1.0", digest, len(content), "some_data/data.bin")


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wheel:
    """A wheel in a folder that pip is told, by its own settings, to look in and nowhere else."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return make_wheel(tmp_path / "index")


def test_pip_downloads_from_the_users_own_index(wheel: Wheel, tmp_path: Path) -> None:
    counts: list[int] = []
    path = from_pip(wheel, tmp_path / "here", counts.append)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == wheel.sha256
    assert list((tmp_path / "here").iterdir()) == [path]
    assert counts
    assert max(counts) <= wheel.size


def test_pip_refuses_a_wrong_hash(wheel: Wheel, tmp_path: Path) -> None:
    wrong = Wheel(wheel.project, wheel.version, "0" * 64, wheel.size, wheel.member)
    with pytest.raises(DownloadError, match=r"couldn't download some-data \(ERROR"):
        from_pip(wrong, tmp_path / "here", lambda done: None)
    assert list((tmp_path / "here").iterdir()) == []


def test_an_interruption_ends_pip_and_leaves_nothing(wheel: Wheel, tmp_path: Path) -> None:
    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        from_pip(wheel, tmp_path / "here", interrupt)
    assert list((tmp_path / "here").iterdir()) == []


def test_an_interpreter_without_pip(
    wheel: Wheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'python: No module named pip' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    with pytest.raises(DownloadError, match="No module named pip"):
        from_pip(wheel, tmp_path / "here", lambda done: None)


# ---- the hub


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "m.gguf").write_bytes(CONTENT)
    with running_hub(tmp_path / "hub") as address:
        yield address


# The hub's client reads its address when it is imported, hence an interpreter of its own.
CLIENT = """
import json, sys
from pathlib import Path
from readoff.engine.downloads import HubFile, from_hub
counts = []
path = from_hub(HubFile("org/name", "m.gguf"), Path(sys.argv[1]), counts.append)
print(json.dumps([str(path), counts[-1], counts == sorted(counts)]))
"""


def test_hub_downloads_and_counts(hub: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", CLIENT, str(tmp_path / "here")],
        env={"HF_ENDPOINT": hub, "HF_HOME": str(tmp_path / "home"), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    path, count, rising = json.loads(run.stdout)
    assert Path(path).read_bytes() == CONTENT
    assert (count, rising) == (len(CONTENT), True)
    assert run.stderr == ""


@pytest.fixture
def local_hub(hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe asks the address that `hf_hub_url` gives; nothing else of the client is used."""
    monkeypatch.setattr(
        "huggingface_hub.hf_hub_url",
        lambda repository, name: f"{hub}/{repository}/resolve/main/{name}",
    )


@pytest.mark.usefixtures("local_hub")
def test_a_hub_without_the_file(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="can't be reached"):
        from_hub(HubFile("org/other", "m.gguf"), tmp_path, lambda done: None)


@pytest.mark.usefixtures("local_hub")
def test_a_hub_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "_PROBE_SECONDS", 0.5)
    started = time.monotonic()
    with pytest.raises(DownloadError, match=r"didn't answer|timed out|reached"):
        from_hub(HubFile(SILENT, "m.gguf"), tmp_path, lambda done: None)
    assert time.monotonic() - started < 5
