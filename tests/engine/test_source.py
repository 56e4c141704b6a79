"""What a user may write for a model, and what they are told when it leads nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readoff.engine import source as sources
from readoff.engine.errors import AdapterError, CheckpointError, DownloadError, SourceError
from readoff.engine.gguf_checkpoint import GgufCheckpoint
from readoff.engine.lora import AdaptedCheckpoint
from readoff.engine.safetensors_checkpoint import SafetensorsCheckpoint
from readoff.engine.source import resolve
from tests.adapters import edit_adapter, save_adapter
from tests.gguf_files import write_gguf
from tests.models import save_tiny, tiny_model


def forbidden(repository: str, revision: str | None) -> Path:
    pytest.fail(f"the hub was asked for {repository}")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    save_tiny(tmp_path / "base", "qwen2", layers=1)
    return tmp_path / "base"


@pytest.fixture
def adapter(tmp_path: Path, base: Path) -> Path:
    save_adapter(tmp_path / "adapter", tiny_model("qwen2", layers=1), target_modules=["q_proj"])
    return tmp_path / "adapter"


def name_base(adapter: Path, name: str | None, revision: str | None = None) -> None:
    file = adapter / "adapter_config.json"
    changes = {"base_model_name_or_path": name, "revision": revision}
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_model_folder(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(resolve(base, snapshot=forbidden), SafetensorsCheckpoint)
    monkeypatch.setenv("HOME", str(base.parent))
    assert resolve("~/base", snapshot=forbidden).folders == (base,)
    monkeypatch.chdir(base.parent.parent)
    nearby = f"{base.parent.name}/base"  # has the form of a hub id too: the disk wins
    assert resolve(nearby, snapshot=forbidden).folders == (Path(nearby),)


def test_a_gguf_file_and_a_folder_with_one(tmp_path: Path) -> None:
    (tmp_path / "only").mkdir()
    path = tmp_path / "only" / "m.GGUF"
    write_gguf(path, tiny_model("qwen2", layers=1))
    assert isinstance(resolve(str(path), snapshot=forbidden), GgufCheckpoint)
    path = path.rename(path.with_suffix(".gguf"))
    assert resolve(path.parent, snapshot=forbidden).folders[0] == path.parent
    write_gguf(path.with_name("n.gguf"), tiny_model("qwen2", layers=1))
    with pytest.raises(SourceError, match=r"several GGUF files \(m\.gguf, n\.gguf\)"):
        resolve(path.parent, snapshot=forbidden)


def test_head_reaches_the_gguf_file(tmp_path: Path) -> None:
    model = tiny_model("qwen2", layers=1)
    extra = {"output.weight": model.get_parameter("model.embed_tokens.weight")}
    write_gguf(tmp_path / "m.gguf", model, extra=extra)
    assert resolve(tmp_path / "m.gguf").config.tie_word_embeddings
    assert not resolve(tmp_path / "m.gguf", head="untie").config.tie_word_embeddings


def test_demo_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(tmp_path / "m.gguf", tiny_model("qwen2", layers=1))
    heard: list[Any] = []

    def fetch_demo(progress: Any) -> Path:
        heard.append(progress)
        return tmp_path / "m.gguf"

    monkeypatch.setattr(sources, "fetch_demo", fetch_demo)
    assert resolve("demo-base", progress=False, snapshot=forbidden).folders == (tmp_path,)
    assert heard == [False]


def test_demo_brings_its_adapter_unless_another_is_given(
    tmp_path: Path, base: Path, adapter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    save_adapter(other, tiny_model("qwen2", layers=1), target_modules=["up_proj"])
    for folder in (adapter, other):
        name_base(folder, sources.DEMO_BASE)
    monkeypatch.setattr(sources, "fetch_demo", lambda progress: base)
    monkeypatch.setattr(sources, "DEMO_ADAPTER", adapter)
    assert resolve(snapshot=forbidden).folders == (adapter, base)
    assert resolve("demo", other, snapshot=forbidden).folders == (other, base)
    assert resolve("demo-base", other, snapshot=forbidden).folders == (other, base)
    assert resolve("demo-base", snapshot=forbidden).folders == (base,)
    assert [sources.bare(name) for name in ("demo", "demo-base", "a/b")] == [
        "demo-base",
        "demo-base",
        "a/b",
    ]


# ---- adapters


@pytest.mark.parametrize("spelling", ["absolute", "beside", "from here", "hub"])
def test_an_adapter_finds_its_base(
    base: Path, adapter: Path, spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str | None]] = []

    def snapshot(repository: str, revision: str | None) -> Path:
        asked.append((repository, revision))
        return base

    monkeypatch.chdir(base.parent if spelling == "from here" else "/")
    names = {"absolute": str(base), "beside": "../base", "from here": "base", "hub": "org/name"}
    name_base(adapter, names[spelling], revision="v1.5")
    checkpoint = resolve(adapter, snapshot=snapshot)
    assert isinstance(checkpoint, AdaptedCheckpoint)
    assert [folder.resolve() for folder in checkpoint.folders] == [adapter, base]
    assert asked == ([("org/name", "v1.5")] if spelling == "hub" else [])


def test_an_adapter_repository(base: Path, adapter: Path) -> None:
    name_base(adapter, "org/base")
    repositories = {("someone/adapter", "v2"): adapter, ("org/base", None): base}
    checkpoint = resolve(
        "someone/adapter", revision="v2", snapshot=lambda *asked: repositories[asked]
    )
    assert checkpoint.folders == (adapter, base)


def test_an_adapter_beside_a_source(base: Path, adapter: Path) -> None:
    name_base(adapter, "another/name")  # what the user says wins over what the adapter says
    checkpoint = resolve(base, adapter, snapshot=forbidden)
    assert checkpoint.folders == (adapter, base)
    assert checkpoint.adapter_digest() is not None


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-Coder-0.5B-Instruct"),
        ("demo", "Qwen/Qwen2.5-0.5B-Instruct"),
        ("demo-base", "Qwen/Qwen2.5-0.5B-Instruct"),
    ],
)
def test_an_adapter_of_another_base_that_fits(
    base: Path, adapter: Path, source: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "fetch_demo", lambda progress: base)
    name_base(adapter, named)
    with pytest.raises(AdapterError, match=f"trained on '{named}'.* as a local folder"):
        resolve(source, adapter, snapshot=lambda *asked: base)
    assert resolve(base, adapter, snapshot=forbidden).folders == (adapter, base)


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("Qwen/Some-Model", "mirror/some-model"),
        ("Qwen/Some-Model-GGUF", "Qwen/Some-Model"),
        ("demo", "Qwen/Qwen2.5-Coder-0.5B-Instruct"),
        ("demo-base", "Qwen/Qwen2.5-Coder-0.5B-Instruct"),
        ("demo", "./runs/base"),
        ("Qwen/Some-Model", None),
    ],
)
def test_an_adapter_of_the_same_or_an_unknown_base(
    base: Path, adapter: Path, source: str, named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "fetch_demo", lambda progress: base)
    name_base(adapter, named)
    assert resolve(source, adapter, snapshot=lambda *asked: base).folders == (adapter, base)


def test_a_second_adapter_may_name_the_base_of_the_first(
    tmp_path: Path, base: Path, adapter: Path
) -> None:
    name_base(adapter, "org/base")
    save_adapter(tmp_path / "second", tiny_model("qwen2", layers=1), target_modules=["up_proj"])
    hub = {"someone/first": adapter, "org/base": base}
    for named in ("org/base", "someone/first"):
        name_base(tmp_path / "second", named)
        found = resolve("someone/first", tmp_path / "second", snapshot=lambda name, _: hub[name])
        assert found.folders == (tmp_path / "second", adapter, base)
    name_base(tmp_path / "second", "org/other")
    with pytest.raises(AdapterError, match="trained on 'org/other'"):
        resolve("someone/first", tmp_path / "second", snapshot=lambda name, _: hub[name])


def test_an_adapter_on_an_adapter(tmp_path: Path, base: Path, adapter: Path) -> None:
    name_base(adapter, str(base))
    model = tiny_model("qwen2", layers=1)
    save_adapter(tmp_path / "second", model, target_modules=["up_proj"])
    name_base(tmp_path / "second", str(adapter))
    folders = (tmp_path / "second", adapter, base)
    assert resolve(tmp_path / "second", snapshot=forbidden).folders == folders
    assert resolve(adapter, tmp_path / "second", snapshot=forbidden).folders == folders


def test_adapters_in_a_circle(adapter: Path) -> None:
    name_base(adapter, str(adapter))
    with pytest.raises(AdapterError, match="deeper"):
        resolve(adapter, snapshot=forbidden)


def test_a_merged_folder_that_kept_its_adapter_config(base: Path, adapter: Path) -> None:
    (base / "adapter_config.json").write_text((adapter / "adapter_config.json").read_text())
    assert isinstance(resolve(base, snapshot=forbidden), SafetensorsCheckpoint)


def test_an_adapter_without_a_base(base: Path, adapter: Path) -> None:
    name_base(adapter, None)
    with pytest.raises(AdapterError, match="base_model_name_or_path"):
        resolve(adapter, snapshot=forbidden)
    name_base(adapter, "../gone")
    with pytest.raises(SourceError, match=r"The base '\.\./gone' of the adapter .*adapter"):
        resolve(adapter, snapshot=forbidden)
    (base / "model.safetensors").unlink()
    name_base(adapter, str(base))
    with pytest.raises(CheckpointError, match=r"The base .* of the adapter"):
        resolve(adapter, snapshot=forbidden)


def test_a_misfit_says_so(base: Path, adapter: Path) -> None:
    edit_adapter(adapter, lambda tensors: {k: v[:, :3] * 1 for k, v in tensors.items()})
    with pytest.raises(AdapterError, match="belongs to this base"):
        resolve(base, adapter, snapshot=forbidden)


# ---- nothing there


@pytest.mark.parametrize(
    "name", ["", " ", "nowhere", "./nowhere", "a/b/c", "models/m.gguf", "-x/y", "a/../b", "a b/c"]
)
def test_a_source_that_leads_nowhere(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "m").mkdir()
    monkeypatch.chdir(tmp_path / "m")
    with pytest.raises(SourceError, match=r"no folder or file here|is empty") as caught:
        resolve(name, snapshot=forbidden)
    assert '"demo"' in str(caught.value)


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"x")
    with pytest.raises(SourceError, match=r"not a \.gguf file"):
        resolve(tmp_path / "model.bin", snapshot=forbidden)


def test_offline_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READOFF_CACHE", str(tmp_path))
    monkeypatch.setenv("READOFF_OFFLINE", "1")
    with pytest.raises(DownloadError, match="READOFF_OFFLINE"):
        resolve("demo")
