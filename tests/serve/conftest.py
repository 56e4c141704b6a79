"""A tiny model on the disk, and one engine for all tests of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from readoff.engine.engine import Engine
from tests.engine.models_on_disk import save_decider

from .rig import Borrowed


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A seeded model's folder; its tokenizer counts bytes."""
    path = tmp_path_factory.mktemp("served") / "tiny"
    save_decider(path, layers=2, max_position_embeddings=4096)
    return path


@pytest.fixture(scope="session")
def shared(tiny: Path) -> Iterator[Engine]:
    """One engine for all."""
    with Engine.from_pretrained(tiny, dtype="fp32") as engine:
        yield engine


@pytest.fixture
def engine(shared: Engine) -> Borrowed:
    """It, for servers that close theirs."""
    return Borrowed(shared)
