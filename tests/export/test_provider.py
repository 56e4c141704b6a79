"""Where a graph runs, and the runtimes that can't run it."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from readoff.engine.errors import ReadoffError
from readoff.export import provider, running, session
from readoff.export.errors import PackError
from readoff.export.graph.options import GraphOptions, Precision
from readoff.export.pack import Pack
from readoff.export.past import Past
from readoff.export.provider import CUDA, Provider, choose_provider, loaded_provider
from readoff.export.running import Running
from readoff.export.runtime import OnnxEngine
from readoff.export.session import CPU, Outcome
from tests.engine.models_on_disk import ASKED, STATE
from tests.export.packs import tiny_pack


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    return tiny_pack(tmp_path_factory.mktemp("m"), layers=1)[1]


def installed(
    monkeypatch: pytest.MonkeyPatch, *providers: str, version: str = "1.32.0+gpu"
) -> None:
    runtime = SimpleNamespace(
        __version__=version, get_available_providers=lambda: [*providers, CPU]
    )
    monkeypatch.setattr(provider, "load_runtime", lambda: runtime)


def of(pack: Pack, precision: Precision) -> Pack:
    return replace(pack, options=GraphOptions(precision=precision))


def test_without_a_gpu(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    found = choose_provider("auto", pack)
    assert (found.name, found.device, found.names) == (CPU, "cpu", (CPU,))
    assert "not in this onnxruntime" in found.reasons[CUDA]
    assert choose_provider("cpu", pack).name == CPU
    with pytest.raises(PackError, match=r"CUDAExecutionProvider is not in .* It has CPUExec"):
        choose_provider("cuda", pack)


@pytest.mark.parametrize(
    ("precision", "expected", "why"),
    [
        ("fp16", CUDA, "present"),
        ("fp32", CUDA, "export with fp16"),
        ("int8", CPU, "made for CPUs"),
        ("int4", CPU, "made for CPUs"),
    ],
)
def test_with_a_gpu(
    pack: Pack, monkeypatch: pytest.MonkeyPatch, precision: Precision, expected: str, why: str
) -> None:
    installed(monkeypatch, CUDA)
    found = choose_provider("auto", of(pack, precision))
    assert found.name == expected
    assert why in found.reasons[CUDA]
    forced = choose_provider("cuda", of(pack, precision))
    assert (forced.device, forced.names) == ("cuda", (CUDA, CPU))
    assert choose_provider("cpu", of(pack, precision)).name == CPU


def test_the_runtime_fell_back() -> None:
    wanted = Provider(CUDA, {CUDA: "present"})
    assert loaded_provider(wanted, CUDA, "cuda") is wanted
    found = loaded_provider(wanted, CPU, "auto")
    assert found.name == CPU
    assert "can't be loaded" in found.reasons[CUDA]
    with pytest.raises(PackError, match="was asked for, and its libraries can't be loaded"):
        loaded_provider(wanted, CPU, "cuda")


@pytest.mark.parametrize(
    ("version", "needed", "good"),
    [
        ("1.15.0", "1.15.0", True),
        ("1.9.9", "1.15.0", False),
        ("1.14.99", "1.15.0", False),
        ("1.15", "1.15.0", True),
        ("2.0.0.dev1", "1.32.0", True),
        ("1.31.2+cpu", "1.32.0", False),
    ],
)
def test_an_old_runtime(
    pack: Pack, monkeypatch: pytest.MonkeyPatch, version: str, needed: str, good: bool
) -> None:
    installed(monkeypatch, version=version)
    pack = replace(pack, runtime=needed)
    if good:
        assert choose_provider("auto", pack).name == CPU
        return
    with pytest.raises(PackError, match=re.escape(f"{needed} or newer, and {version}")):
        choose_provider("auto", pack)


def test_without_a_runtime(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(PackError, match=r'pip install "readoff\[onnx\]"'):
        OnnxEngine.from_pretrained(pack.folder)


def test_a_provider_that_is_none(pack: Pack) -> None:
    with pytest.raises(ReadoffError, match=r'"auto", "cpu" or "cuda", not \'rocm\''):
        choose_provider("rocm", pack)


def test_a_graph_that_is_none(pack: Pack, tmp_path: Path) -> None:
    from readoff.export.session import GraphSession

    (tmp_path / "bad.onnx").write_bytes(b"no graph")
    with pytest.raises(PackError, match="can't load the graph"):
        GraphSession(tmp_path / "bad.onnx", pack.config, pack.options)


def test_on_a_device_pasts_are_copied_there_once(
    pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA itself can't run here: its path does, with the CPU in its place."""
    copied: list[int] = []

    def put(array: Any, device: str, number: int) -> Any:
        assert (device, number) == ("cuda", 0)
        copied.append(array.nbytes)
        return runtime.OrtValue.ortvalue_from_numpy(array, "cpu", 0)

    with OnnxEngine.from_pretrained(pack.folder, threads=1) as engine:
        expected = engine.decide(STATE, ASKED)
        runtime = session.load_runtime()
        fake = SimpleNamespace(OrtValue=SimpleNamespace(ortvalue_from_numpy=put))
        monkeypatch.setattr(running, "load_runtime", lambda: fake)
        worker = engine._worker
        graph = worker.running._session
        worker.running = Running(graph, worker.running._empty, worker.cache, device="cuda")
        worker.scheduler._step = worker.running.step
        engine.clear_cache()
        for _ in range(2):
            found = engine.decide(STATE, ASKED)
            for name in ASKED:
                assert found[name].logits == pytest.approx(expected[name].logits, abs=1e-5)
        tensors = 2 * pack.config.num_layers
        assert len(copied) == 2 * tensors  # of nothing, and of the state


def test_what_a_run_leaves_is_an_array(pack: Pack) -> None:
    with OnnxEngine.from_pretrained(pack.folder) as engine:
        engine.prefill(STATE)
        cache = engine._worker.cache
        assert cache is not None
        past, _ = cache.find([piece.ids for piece in engine.renderer.prefix(STATE).pieces])
        assert isinstance(past, Past)
        assert {type(array) for array in past.arrays().values()} == {np.ndarray}
    assert Outcome.__dataclass_fields__.keys() == {"logits", "probabilities", "new"}
