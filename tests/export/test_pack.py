"""A pack: written, read back, compared with its record; everything that can be wrong with one."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from readoff.engine.card import Card
from readoff.engine.card_fields import Temperature
from readoff.engine.checkpoint import open_checkpoint, read_json
from readoff.engine.errors import CheckpointError, ExportError
from readoff.export import pack_file
from readoff.export.errors import PackError
from readoff.export.graph.options import FixedLabels, GraphOptions, LabelBank
from readoff.export.pack import FORMAT, GRAPH, PACK_FILE, is_pack, oldest_runtime, read_pack
from readoff.export.pack_file import PackFile
from readoff.export.pack_writing import write_pack
from tests.export.packs import pack_of, tiny_pack
from tests.tokenizers import save_tiny

WEIGHTS = f"{GRAPH}.data"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_pack(tmp_path_factory.mktemp("made"), layers=1)[0]


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model.parent / "pack", tmp_path / "pack"))


def rewritten(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads((folder / PACK_FILE).read_text())
    change(content)
    (folder / PACK_FILE).write_text(json.dumps(content))


def test_what_is_written_is_read(model: Path, tmp_path: Path) -> None:
    card = Card(temperature=Temperature(choice=2.0))
    made = pack_of(model, tmp_path / "pack", card=card, adapter="abc")
    found = read_pack(made.folder, verify=True)
    assert found == made
    checkpoint = open_checkpoint(model)
    assert found.config == checkpoint.config
    assert (found.name, found.runtime) == ("model", "1.15.0")
    assert found.digests.weights == checkpoint.weights_digest()
    assert found.card.temperature.choice == 2.0
    assert found.card.digests.adapter == found.digests.adapter == "abc"
    assert found.card.template.digest == found.digests.template
    assert found.parity == ({"case": "1 token", "max |Δlogit|": 1e-6, "passed": True},)
    assert found.figures == {"answers": {"agreement": 1.0}}
    names = {path.name for path in made.folder.iterdir()}
    assert names == {*found.files, PACK_FILE}
    assert {GRAPH, WEIGHTS, "README.md", "example.py", "decision.json"} <= names
    assert found.nbytes == sum(path.stat().st_size for path in made.folder.iterdir()) - (
        (made.folder / PACK_FILE).stat().st_size
    )


@pytest.mark.parametrize(
    "labels", [None, LabelBank((5, 9, 300)), FixedLabels((4, 3), (0.5, -0.25), 1.5)]
)
def test_the_graphs_options_come_back(
    model: Path, tmp_path: Path, labels: LabelBank | FixedLabels | None
) -> None:
    options = GraphOptions(
        precision="int8", labels=labels, block=64, kept=frozenset({"down_proj", "o_proj"})
    )
    assert read_pack(pack_of(model, tmp_path / "p", graph=options).folder).options == options


def test_the_readme_tells_the_command_and_the_figures(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    assert "readoff decide --model . --request request.json" in text
    assert "qwen2, 1 layers of 64" in text
    assert "| 1 token | 1e-06 | True |" in text
    assert "| case | max \\|Δlogit\\| | passed |" in text
    assert "- answers, agreement: 1" in text


def test_a_pack_of_before_fine_inputs(folder: Path) -> None:
    rewritten(folder, lambda c: c["graph"].pop("fine"))
    assert read_pack(folder).options == GraphOptions()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (GraphOptions(), "1.15.0"),
        (GraphOptions(precision="int4"), "1.18.1"),
        (GraphOptions(flavour="contrib"), "1.32.0"),
    ],
)
def test_the_oldest_runtime_follows_from_the_operators(
    options: GraphOptions, expected: str
) -> None:
    assert oldest_runtime(options) == expected


def test_what_is_a_pack(folder: Path, model: Path, tmp_path: Path) -> None:
    assert is_pack(folder)
    assert is_pack(str(folder))
    for other in (model, folder / PACK_FILE, tmp_path / "nowhere", "demo", "a/b", "x" * 5000, "\0"):
        assert not is_pack(other)


@pytest.mark.parametrize("name", [GRAPH, WEIGHTS, "config.json", "tokenizer.json", "README.md"])
def test_a_changed_byte_is_found(folder: Path, name: str) -> None:
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 3] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(PackError, match=f"{name} isn't the file .* sha256 differs"):
        read_pack(folder)


def test_a_file_that_was_cut_short(folder: Path) -> None:
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[:-4096])
    with pytest.raises(PackError, match=r"bytes and the pack was made with \d+\. It was cut short"):
        read_pack(folder)
    (folder / WEIGHTS).write_bytes(data + b"\0")
    with pytest.raises(PackError, match=r"was made with \d+\. Copy"):
        read_pack(folder)


@pytest.mark.parametrize("name", [GRAPH, WEIGHTS, "config.json", "tokenizer.json"])
def test_a_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(PackError, match=f"{name} is missing"):
        read_pack(folder)


def test_of_large_files_windows_are_compared(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_file, "SMALL", 1000)
    monkeypatch.setattr(pack_file, "WINDOW", 16)
    path = tmp_path / "large"
    data = bytearray(range(256)) * 40
    path.write_bytes(data)
    record = PackFile.of(path)
    assert record.sampled is not None
    assert PackFile.parse("large", record.to_json()) == record
    record.check(path, verify=True)
    last = len(data) - 16
    begins = [last * window // 63 for window in range(64)]
    between = begins[0] + 16 + 1
    assert between < begins[1]
    for place, seen in ((0, True), (len(data) - 1, True), (begins[31] + 3, True), (between, False)):
        changed = bytearray(data)
        changed[place] ^= 255
        path.write_bytes(changed)
        if seen:
            with pytest.raises(PackError, match="sha256"):
                record.check(path)
        else:
            record.check(path)
        with pytest.raises(PackError, match="sha256"):
            record.check(path, verify=True)


def test_small_files_have_no_sample(folder: Path) -> None:
    assert all(file.sampled is None for file in read_pack(folder).files.values())


def test_a_folder_that_is_no_pack(model: Path, tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"is no pack: it has no pack\.json"):
        read_pack(model)
    with pytest.raises(PackError, match="is no pack"):
        read_pack(tmp_path / "nowhere")
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(PackError, match="is no pack"):
        read_pack(file)


def test_a_pack_of_a_newer_format(folder: Path) -> None:
    rewritten(folder, lambda c: c.update(format=FORMAT + 1, readoff="9.1"))
    with pytest.raises(PackError, match=rf"format {FORMAT + 1}, made by readoff 9\.1.*Update"):
        read_pack(folder)


@pytest.mark.parametrize("value", [None, "1", True, 0, 1.0])
def test_a_pack_without_a_format(folder: Path, value: object) -> None:
    rewritten(folder, lambda c: c.update(format=value))
    with pytest.raises(PackError, match="no format number"):
        read_pack(folder)


@pytest.mark.parametrize("text", ["", "[]", "{", "\ufeff{}", "[" * 100_000])
def test_a_record_that_is_no_object(folder: Path, text: str) -> None:
    (folder / PACK_FILE).write_text(text)
    with pytest.raises(PackError, match="Copy the pack again"):
        read_pack(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.pop("graph"),
        lambda c: c.pop("digests"),
        lambda c: c.pop("prompt"),
        lambda c: c.pop("model"),
        lambda c: c.pop("onnxruntime"),
        lambda c: c.update(onnxruntime=None),
        lambda c: c.update(onnxruntime="new"),
        lambda c: c["graph"].update(precision="int2"),
        lambda c: c["graph"].update(labels={"kind": "bank", "ids": []}),
        lambda c: c["graph"].update(labels={"kind": "fixed", "ids": [1]}),
        lambda c: c["digests"].update(more="x"),
        lambda c: c.update(files=[]),
    ],
)
def test_a_record_that_makes_no_sense(
    folder: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    rewritten(folder, change)
    with pytest.raises(PackError, match=r"can't be understood .* Export again"):
        read_pack(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.pop(GRAPH),
        lambda f: f.pop("decision.json"),
        lambda f: f.pop(WEIGHTS),
        lambda f: f.update({"../outside": f[GRAPH]}),
        lambda f: f.update({"a/b": f[GRAPH]}),
        lambda f: f.update({"": f[GRAPH]}),
        lambda f: f.update({GRAPH: 5}),
        lambda f: f[GRAPH].update(size=-1),
        lambda f: f[GRAPH].update(size=True),
        lambda f: f[GRAPH].update(sha256=None),
        lambda f: f[GRAPH].update(sampled=1),
    ],
)
def test_a_list_of_files_that_makes_no_sense(
    folder: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    rewritten(folder, lambda c: change(c["files"]))
    with pytest.raises(PackError, match="Export again"):
        read_pack(folder)


def test_what_cannot_be_read_is_told(folder: Path) -> None:
    record = PackFile.of(folder / GRAPH)
    (folder / GRAPH).unlink()
    (folder / GRAPH).mkdir()
    size = (folder / GRAPH).stat().st_size
    with pytest.raises(PackError, match="can't be read: Is a directory"):
        replace(record, size=size).check(folder / GRAPH)


def test_a_folder_that_nobody_may_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    monkeypatch.setattr(Path, "read_text", refuse)
    assert is_pack(folder)
    with pytest.raises(PackError, match=r"pack\.json can't be read: Permission denied"):
        read_pack(folder)


def test_a_pack_is_made_of_a_graph_and_a_tokenizer(model: Path, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(model)
    given: dict[str, Any] = {
        "name": "m",
        "config": read_json(model / "config.json"),
        "options": GraphOptions(),
        "tokenizer_files": model,
        "card": Card.default(),
        "weights": checkpoint.weights_digest(),
    }
    with pytest.raises(ExportError, match=r"holds no model\.onnx yet"):
        write_pack(tmp_path, **given)
    (tmp_path / GRAPH).write_bytes(b"x")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ExportError, match=r"no tokenizer\.json"):
        write_pack(tmp_path, **given | {"tokenizer_files": empty})
    save_tiny(empty)
    small = given["config"] | {"vocab_size": 100}
    with pytest.raises(CheckpointError, match="vocabulary has 100"):
        write_pack(tmp_path, **given | {"config": small})
