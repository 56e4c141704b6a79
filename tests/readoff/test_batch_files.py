"""`readoff batch` and its files: interrupted, resumed, full, another's."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import pytest

from readoff.commands import batch_run, options
from readoff.commands.batch_files import Lines, Output
from readoff.commands.errors import BatchError
from tests.readoff.batches import FakeMany, call, line, read, write


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeMany:
    fake = FakeMany()
    monkeypatch.setattr(options, "load_engine", lambda model, **_: fake)
    return fake


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    return str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl")


def interrupted(monkeypatch: pytest.MonkeyPatch, paths: tuple[str, str]) -> list[bytes]:
    """Ten requests, of which a run that broke down answered four."""
    lines = [line(f"row {i}", id=i) for i in range(10)]
    write(paths[0], *lines)
    with monkeypatch.context() as patch:
        patch.setattr(options, "load_engine", lambda model, **_: FakeMany(2))
        assert call(*paths, "--chunk", "2") == 1
    assert len(read(paths[1])) == 4
    return lines


def test_an_interrupted_run_goes_on(
    engine: FakeMany,
    paths: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    interrupted(monkeypatch, paths)
    assert "on fire" in capsys.readouterr().err
    whole = Path(paths[1]).read_bytes()
    Path(paths[1]).write_bytes(whole[:-9])  # as a crash leaves it: half a line at the end
    assert call(*paths, "--resume", "--json") == 0
    assert [state for state, _, _ in engine.asked] == [f"row {i}" for i in range(3, 10)]
    summary = json.loads(capsys.readouterr().out)
    assert (summary["rows"], summary["resumed"]) == (7, 3)
    resumed = Path(paths[1]).read_bytes()
    assert call(*paths, "--force") == 0
    assert Path(paths[1]).read_bytes() == resumed
    assert [row["x_id"] for row in read(paths[1])] == list(range(10))


def test_a_finished_run_has_nothing_to_do_and_a_longer_input_goes_on(
    engine: FakeMany, paths: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line(f"row {i}") for i in range(10)]
    write(paths[0], *lines)
    assert call(*paths) == 0
    engine.asked.clear()
    with monkeypatch.context() as patch:
        patch.setattr(options, "load_engine", lambda *_, **__: pytest.fail("nothing is needed"))
        assert call(*paths, "--resume") == 0
    write(paths[0], *lines, line("new"))
    assert call(*paths, "--resume") == 0
    assert [state for state, _, _ in engine.asked] == ["new"]
    assert len(read(paths[1])) == 11


def test_resume_without_an_output_starts_one(engine: FakeMany, paths: tuple[str, str]) -> None:
    write(paths[0], line("a"))
    assert call(*paths, "--resume") == 0
    assert len(read(paths[1])) == 1


def test_answers_of_something_else_are_not_gone_on_from(
    engine: FakeMany,
    paths: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = interrupted(monkeypatch, paths)
    before = Path(paths[1]).read_bytes()
    card = tmp_path / "card.json"
    card.write_text("{}")
    changed = [*lines[:1], line("other"), *lines[2:]]
    for given, option, words in [
        (changed, (), "line 2, doesn't answer line 2"),
        (lines, ("--model", "other"), "line 1, doesn't answer line 1"),
        (lines, ("--dtype", "fp32"), "line 1, doesn't answer"),
        (lines, ("--card", str(card)), "line 1, doesn't answer"),
        (lines[:3], (), "has 4 answers"),
    ]:
        write(paths[0], *given)
        capsys.readouterr()
        assert call(*paths, "--resume", *option) == 1
        assert words in capsys.readouterr().err
        assert Path(paths[1]).read_bytes() == before
    for text in (b'{"answers": {}}\n', b"text\n", b"3\n", b"[" * 100_000 + b"\n"):
        Path(paths[1]).write_bytes(before + text)
        assert call(*paths, "--resume") == 1
        assert "line 5, is no answer of a batch" in capsys.readouterr().err
        assert Path(paths[1]).read_bytes() == before + text
    assert engine.calls == []


def test_errors_of_the_earlier_run_count(
    engine: FakeMany, paths: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line("a"), b"{}\n", line("b")]
    write(paths[0], *lines)
    assert call(*paths) == 1
    write(paths[0], *lines, line("error"))
    capsys.readouterr()
    before = Path(paths[1]).read_bytes()
    assert call(*paths, "--resume", "--strict") == 1
    assert "line 2, is an error of an earlier run" in " ".join(capsys.readouterr().err.split())
    assert Path(paths[1]).read_bytes() == before
    assert call(*paths, "--resume", "--json") == 1
    summary = json.loads(capsys.readouterr().out)
    assert [summary[key] for key in ("rows", "resumed", "errors", "resumed_errors")] == [1, 3, 1, 1]
    assert call(*paths, "--resume") == 1
    assert "0 rows, 4 there before, 1 error (1 of them there before)" in capsys.readouterr().err


@pytest.mark.parametrize("append", [False, True], ids=["out", "standard output"])
def test_the_input_is_never_the_output(
    append: bool,
    engine: FakeMany,
    paths: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(paths[0], line("a"))
    with open(paths[0], "a+", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdout" if append else "stdin", file)
        arguments = (paths[0], "-") if append else ("-", paths[0], "--force")
        assert call(*arguments) == 1
    assert "is the input; the answers need" in " ".join(capsys.readouterr().err.split())
    assert Path(paths[0]).read_bytes() == line("a")


def test_usage(
    engine: FakeMany, paths: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = paths
    assert call(source, out) == 1
    assert f"{source} can't be read: No such file" in capsys.readouterr().err
    assert not Path(out).exists()
    write(source, line("a"))
    for arguments, code, words in [
        ((source, out, "--resume", "--force"), 2, "give one of them"),
        ((source, "-", "--json"), 2, "can't hold both"),
        ((source, source, "--force"), 1, "is the input"),
        ((source, str(tmp_path), "--force"), 1, "can't be written: Is a directory"),
        ((str(tmp_path), out), 1, "can't be read: Is a directory"),
        ((source, str(tmp_path / "no" / "out")), 1, "can't be written: No such file"),
    ]:
        assert call(*arguments) == code, arguments
        assert words in " ".join(capsys.readouterr().err.split()), arguments
    assert not Path(out).exists()
    Path(out).write_bytes(b"precious")
    assert call(source, out) == 1
    assert "--resume goes on where it ends, --force replaces it" in capsys.readouterr().err
    assert Path(out).read_bytes() == b"precious"
    assert engine.calls == []


def test_a_model_that_cannot_be_loaded_leaves_everything_as_it_was(
    paths: tuple[str, str], tmp_path: Path
) -> None:
    write(paths[0], line("a"))
    assert call(*paths, "--model", str(tmp_path / "none")) == 1
    assert not Path(paths[1]).exists()
    Path(paths[1]).write_bytes(b"precious")
    assert call(*paths, "--model", str(tmp_path / "none"), "--force") == 1
    assert Path(paths[1]).read_bytes() == b"precious"


def test_a_full_disk_leaves_whole_lines_and_can_be_gone_on_from(
    engine: FakeMany, paths: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(paths[0], *(line(f"row {i}") for i in range(5)))
    assert call(*paths) == 0
    whole = Path(paths[1]).read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2, limits[1]))
    try:
        assert call(*paths, "--force") == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    message = " ".join(capsys.readouterr().err.split())
    assert "can't be written: File too large. What was written before is whole" in message
    assert len(read(paths[1])) == 2
    assert call(*paths, "--resume") == 0
    assert Path(paths[1]).read_bytes() == whole


def test_a_full_device(
    engine: FakeMany, paths: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(paths[0], line("a"))
    assert call(paths[0], "/dev/full") == 1
    assert "/dev/full can't be written: No space left" in capsys.readouterr().err
    assert call(paths[0], "/dev/null") == 0


def test_two_runs_do_not_write_one_file(paths: tuple[str, str]) -> None:
    with Output(paths[1], "-", resume=False, force=False) as first:
        first.begin()
        with pytest.raises(BatchError, match="Another batch is writing"):
            Output(paths[1], "-", resume=True, force=False)
    with Output(paths[1], "-", resume=True, force=False) as again:
        again.begin()


def test_a_line_too_long_is_passed_over(paths: tuple[str, str]) -> None:
    write(paths[0], line("x" * 3_000_000), line("y"), b"z" * 2_000_001)
    with Lines(paths[0], "", most=2_000_000) as lines:
        found = list(lines)
    assert [(one.number, one.text is None) for one in found] == [(1, True), (2, False), (3, True)]
    assert found[1].text == line("y").rstrip(b"\n")
    assert len({one.digest for one in found}) == 3
    row = batch_run._parse(found[0], False)
    assert "longer than 64 MiB" in str(row.error)


def test_the_end_of_a_line_is_no_part_of_it(paths: tuple[str, str]) -> None:
    digests = []
    for data in (b'{"a": 1}', b'{"a": 1}\n', b'{"a": 1}\r\n', b'\xef\xbb\xbf{"a": 1}\n'):
        write(paths[0], data)
        with Lines(paths[0], "salt") as lines:
            assert lines.total == 1
            digests += [one.digest for one in lines]
    assert len(set(digests)) == 1
    with Lines(paths[0], "other salt") as lines:
        assert [one.digest for one in lines] != digests[:1]
