"""What a resumed batch takes for the same model: `salt`."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from readoff.commands import batch_salt, options
from readoff.commands.batch_salt import salt
from readoff.commands.errors import BatchError
from tests.readoff.batches import FakeMany, call, line, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text("{}")
    (made / "model.safetensors").write_bytes(b"weights")
    return made


def later(path: Path) -> None:
    """As after writing it again, with as many bytes."""
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1_000_000_000))


def test_a_folder_goes_on_when_moved_and_not_when_changed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = salt(str(folder), None, None)
    (folder / "answers.jsonl").write_text("of the batch")
    (folder / "notes").mkdir()
    assert salt(str(folder), None, None) == first
    monkeypatch.chdir(folder)
    assert salt(".", None, None) == first
    moved = tmp_path / "elsewhere" / "model"
    moved.parent.mkdir()
    shutil.move(folder, moved)
    assert salt(str(moved), None, None) == first
    later(moved / "model.safetensors")
    changed = salt(str(moved), None, None)
    (moved / "decision.json").write_text("{}")
    assert len({first, changed, salt(str(moved), None, None)}) == 3


def test_a_file_and_the_card_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF")
    found = [salt(str(file), None, None)]
    later(file)
    found.append(salt(str(file), None, None))
    (tmp_path / "decision.json").write_text("{}")
    found.append(salt(str(file), None, None))
    assert len(set(found)) == 3


def test_adapters_and_their_bases(folder: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    config = {"base_model_name_or_path": "../model"}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    (adapter / "adapter_model.safetensors").write_bytes(b"a")
    before = salt("demo", str(adapter), None), salt(str(adapter), None, None)
    later(folder / "model.safetensors")
    assert salt(str(adapter), None, None) != before[1]
    later(adapter / "adapter_model.safetensors")
    assert salt("demo", str(adapter), None) != before[0]
    config = {"base_model_name_or_path": str(adapter)}  # its own base: no endless search
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    assert salt(str(adapter), None, None)


def test_demo_is_told_apart_by_the_adapter_that_it_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = tmp_path / "adapter_model.safetensors"
    for path in (weights, tmp_path / "decision.json"):
        path.write_bytes(b"a")
    monkeypatch.setattr(batch_salt, "DEMO_ADAPTER", tmp_path)
    before = salt("demo", None, None), salt("demo-base", None, None)
    later(weights)
    (tmp_path / "README.md").touch()
    assert salt("demo", None, None) == before[0], "the same, installed again"
    weights.write_bytes(b"b")
    assert salt("demo", None, None) != before[0]
    assert salt("demo-base", None, None) == before[1]


def test_a_pack_is_its_record(folder: Path) -> None:
    (folder / "pack.json").write_text("{}")
    first = salt(str(folder), None, None)
    later(folder / "model.safetensors")
    later(folder / "pack.json")
    assert salt(str(folder), None, None) == first
    (folder / "pack.json").write_text("[]")
    assert salt(str(folder), None, None) != first


def test_names_that_are_not_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = salt("demo", None, None, revision=None)
    (tmp_path / "demo").mkdir()
    assert salt("demo", None, None, revision=None) == first
    hub = {salt("some/model", None, None, revision=revision) for revision in (None, "v1", "v2")}
    assert len(hub) == 3
    assert salt("x\0" + "y" * 5000, None, None)


def test_a_card_is_its_content(folder: Path, tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    card.write_text("{}")
    (folder / "decision.json").write_text("{}")
    first = salt("demo", None, card)
    assert salt("demo", None, folder) == first, "a folder stands for the card in it"
    card.write_text("{ }")
    assert salt("demo", None, card) != first
    (folder / "decision.json").unlink()
    with pytest.raises(BatchError, match=r"decision\.json can't be read: No such file"):
        salt("demo", None, folder)


def test_a_changed_model_is_not_gone_on_with(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(options, "load_engine", lambda model, **_: FakeMany())
    paths = str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl")
    write(paths[0], line("a"))
    assert call(*paths, "--model", str(folder)) == 0
    assert call(*paths, "--model", str(folder), "--resume") == 0
    later(folder / "model.safetensors")
    assert call(*paths, "--model", str(folder), "--resume") == 1
    assert "doesn't answer line 1" in " ".join(capsys.readouterr().err.split())
    assert call(*paths, "--card", str(folder), "--force") == 1
    assert "decision.json can't be read" in " ".join(capsys.readouterr().err.split())
