"""What can't be merged: one clear error, and nothing left behind."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from readoff.engine.card import Card
from readoff.engine.card_fields import Digests
from readoff.engine.errors import (
    AdapterError,
    CardError,
    CheckpointError,
    ExportError,
    NumericsError,
    ReadoffError,
)
from readoff.engine.source import resolve
from readoff.export import merge as merging
from readoff.export.merge import merge
from tests.adapters import save_adapter
from tests.export.merging import GGUF_TOKENIZER, Case, case
from tests.gguf_files import write_gguf
from tests.models import tiny_model


def refused(
    made: Case, error: type[ReadoffError], message: str, *, force: bool = False, **options: Any
) -> None:
    """The merge fails so, and the folder around it is as before."""
    before = sorted(made.base.parent.rglob("*"))
    with pytest.raises(error, match=message):
        made.merge(force=force, **options)
    assert sorted(made.base.parent.rglob("*")) == before


def edit_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_base(made: Case, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    file = made.base / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file, metadata={"format": "pt"})


def test_an_adapter_of_another_size(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", layers=1)
    save_adapter(
        made.adapters[0], tiny_model("qwen2", hidden=32, layers=1), target_modules=["q_proj"]
    )
    refused(made, AdapterError, "Check that the adapter belongs")


def test_the_second_adapter_of_another_size(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", [{"target_modules": ["q_proj"]}] * 2, layers=1)
    save_adapter(
        made.adapters[1], tiny_model("qwen2", hidden=32, layers=1), target_modules=["q_proj"]
    )
    refused(made, AdapterError, "adapter1.*belongs")


def test_an_adapter_of_another_kind(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", layers=1)
    edit_json(made.adapters[0] / "adapter_config.json", peft_type="IA3")
    refused(made, AdapterError, "'IA3' isn't supported")


def test_no_adapter_at_all(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", (), layers=1)
    refused(made, ExportError, "nothing to merge.*--adapter")


def test_a_quantised_folder(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", layers=1)
    edit_json(made.base / "config.json", quantization_config={"quant_method": "awq"})
    refused(made, CheckpointError, "quantised.*unquantised")


def test_a_quantised_gguf_file_with_an_adapter(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", layers=1)
    write_gguf(tmp_path / "m.gguf", made.model, default="Q8_0")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ExportError, match=r"m\.gguf is quantised \(Q8_0\).*unquantised base"):
        merge(tmp_path / "m.gguf", made.adapters, made.out, progress=False)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_quantised_gguf_file_with_an_adapter_trained_beside_it(tmp_path: Path) -> None:
    """`readoff train` records the numbers that it trained beside."""
    made = case(tmp_path, "qwen2", layers=1)
    write_gguf(tmp_path / "m.gguf", made.model, default="Q8_0", metadata=GGUF_TOKENIZER)
    record = made.adapters[0] / "training.json"
    digest = resolve(tmp_path / "m.gguf").digest()
    own = resolve(made.base, made.adapters[0]).adapter_digest()
    for facts, digests in ((1, {}), ({"base": digest}, {}), ({"base": digest}, {"adapter": "x"})):
        record.write_text(json.dumps({"facts": facts, "digests": digests}))
        with pytest.raises(ExportError, match="unquantised base"):
            merge(tmp_path / "m.gguf", made.adapters, made.out, progress=False)
    record.write_text(json.dumps({"facts": {"base": "x"}, "digests": {"adapter": own}}))
    with pytest.raises(ExportError, match="unquantised base"):
        merge(tmp_path / "m.gguf", made.adapters, made.out, progress=False)
    record.write_text(json.dumps({"facts": {"base": digest}, "digests": {"adapter": own}}))
    merged = merge(
        tmp_path / "m.gguf", made.adapters, made.out, dtype=torch.float32, progress=False
    )
    assert merged.dequantised == "Q8_0"
    assert merged.difference is not None
    assert merged.difference.probability < 1e-4


def test_a_missing_tokenizer(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", layers=1)
    (made.base / "tokenizer.json").unlink()
    refused(made, CheckpointError, r"no tokenizer\.json")


def test_a_tokenizer_of_another_model(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", layers=1, vocab=300)
    refused(made, CheckpointError, "don't belong together")


def test_a_card_with_other_digests(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", layers=1)
    for digests in (Digests(weights="0" * 64), Digests(adapter="0" * 64)):
        Card(digests=digests).save(made.adapters[0])
        refused(made, CardError, "belongs to another model")
    (made.adapters[0] / "decision.json").unlink()
    Card(digests=Digests(tokenizer="0" * 64)).save(tmp_path / "card.json")
    refused(made, CardError, "tokenizer digest", card=tmp_path / "card.json")
    refused(made, CardError, "no decision card at", card=tmp_path / "none.json")


def test_an_existing_folder(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", layers=1)
    made.merge()
    refused(made, ExportError, "exists already")
    made.merge(force=True)


def test_the_base_is_never_the_target(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", layers=1)
    # A folder that no export wrote is refused before it is known what the export is made from.
    for out, told in (
        (made.base, "made from"),
        (made.adapters[0], "no export wrote"),
        (tmp_path, "no export wrote"),
    ):
        onto = Case(made.base, made.adapters, out, made.model)
        refused(onto, ExportError, told, force=True)


def test_the_name_of_a_target_is_checked_before_anything_is_opened(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(ExportError, match="exists already"):
        merge("no/such-model", ["nor/adapter"], tmp_path / "out")


def test_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = case(tmp_path, "qwen2", layers=1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**6))
    refused(made, ExportError, r"has 1\.0 MB free")


def test_the_disk_fills_up_while_weights_are_written(tmp_path: Path) -> None:
    """A true failure of a write: the system allows no file beyond 200 kB."""
    made = case(tmp_path, "qwen2")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))  # Python ignores the signal of it
    try:
        refused(made, ExportError, "no room left")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    made.merge()


def test_a_failure_after_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = case(tmp_path, "qwen2", layers=1)

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(merging, "copy_files", full)
    refused(made, ExportError, "no room left")


def test_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = case(tmp_path, "qwen2", layers=1)

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(merging, "compare", interrupt)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(KeyboardInterrupt):
        made.merge()
    assert sorted(tmp_path.rglob("*")) == before


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", layers=1)

    def spoil(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.layers.0.mlp.up_proj.weight"][3, 5] = torch.nan

    edit_base(made, spoil)
    refused(made, ExportError, r"up_proj\.weight has values that aren't finite")


def test_weights_too_large_for_fp16(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", layers=1)

    def enlarge(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.layers.0.mlp.up_proj.weight"][3, 5] = 1e5

    edit_base(made, enlarge)
    refused(made, ExportError, "wider dtype", dtype=torch.float16)


def test_logits_that_overflow(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2", layers=1)

    def enlarge(tensors: dict[str, torch.Tensor]) -> None:
        tensors["model.norm.weight"].fill_(3e38)

    edit_base(made, enlarge)
    refused(made, NumericsError, "aren't finite")


def test_a_config_that_would_describe_another_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = case(tmp_path, "qwen2", layers=1)
    monkeypatch.setattr(
        merging, "write_config", lambda folder, fields: write(folder, fields | {"rope_theta": 9.0})
    )

    def write(folder: Path, fields: dict[str, Any]) -> None:
        fields.pop("rope_parameters", None)
        (folder / "config.json").write_text(json.dumps(fields))

    refused(made, ExportError, "describes another model")
