"""Which models an evaluation compares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from readoff.engine import source as sources
from readoff.learn.evaluate.errors import EvaluationError
from readoff.learn.evaluate.subject import Options, Subject
from tests.adapters import save_adapter
from tests.engine.models_on_disk import save_decider

OPTIONS = Options("cpu", "fp32", 1)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A base, and an adapter that names it."""
    model = save_decider(tmp_path / "base", "qwen2", layers=1)
    save_adapter(tmp_path / "adapter", model.float(), target_modules=["q_proj"])
    config = tmp_path / "adapter" / "adapter_config.json"
    named = json.loads(config.read_text()) | {"base_model_name_or_path": "../base"}
    config.write_text(json.dumps(named))
    return tmp_path / "base", tmp_path / "adapter"


def test_an_adapter_is_never_merged_twice(pair: tuple[Path, Path]) -> None:
    base, adapter = pair
    assert Subject(str(base), adapter, OPTIONS).adapter_digest
    with pytest.raises(EvaluationError, match=r"is in .*adapter already"):
        Subject(str(adapter), adapter, OPTIONS)
    with pytest.raises(EvaluationError, match=r"comes with an adapter \(adapter\)"):
        Subject(str(adapter), None, OPTIONS)


def test_demo_is_compared_without_the_adapter_that_it_brings(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    base, adapter = pair
    monkeypatch.setattr(sources, "fetch_demo", lambda progress: base)
    monkeypatch.setattr(sources, "DEMO_ADAPTER", adapter)
    alone = Subject("demo", None, OPTIONS)
    assert alone.adapter_digest is None
    assert alone.model == "demo-base"
    assert Subject("demo-base", None, OPTIONS).key == alone.key
