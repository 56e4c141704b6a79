"""One small data set for all tests that only read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from readoff.learn.data.build import Options, build, offices
from readoff.learn.data.clinc150 import clinc150
from readoff.learn.data.desk import Desk
from readoff.learn.data.posterior import posterior
from tests.learn.data import fabricated

Rows = dict[str, list[dict[str, Any]]]
STATES = 150


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fabricated sources; tests that change them copy the folder."""
    return fabricated.write(tmp_path_factory.mktemp("public") / "data")


@pytest.fixture(scope="session")
def built(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of STATES training rows."""
    out = tmp_path_factory.mktemp("made") / "set"
    build(Options(sources, out, seed=1, states=STATES, model=None))
    return out


@pytest.fixture(scope="session")
def read() -> Callable[[Path], Rows]:
    """Reads the three files of a data set."""

    def reader(folder: Path) -> Rows:
        return {
            split: [
                json.loads(line)
                for line in (folder / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
            ]
            for split in ("train", "valid", "test")
        }

    return reader


@pytest.fixture(scope="session")
def desk(sources: Path) -> Desk:
    """The training messages of the fabricated CLINC150."""
    source = clinc150(sources)
    return offices({"clinc150": source}, {"clinc150": posterior(source)}, "train")["clinc150"][0]
