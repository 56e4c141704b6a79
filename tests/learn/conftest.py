"""A tiny model, and rows that it can learn, for whole trainings."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.engine.models_on_disk import save_decider

from .rig import row, write_rows


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    save_decider(folder, "qwen2", layers=1)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The route follows from the state's last word, of which each is many times in a row."""
    dice, rows = random.Random(0), []
    for i in range(48):
        answer = "abc"[i % 3]
        state = f"{dice.randrange(10**6)} {answer.upper() * 12}"
        answers = {"route": answer, "angry": i % 3, "due": i % 3 == 0}
        split = "valid" if i >= 40 else "train"
        rows.append(row(state, answers=answers, split=split, family=f"f{i % 2}"))
    return write_rows(tmp_path_factory.mktemp("data") / "rows.jsonl", rows)
