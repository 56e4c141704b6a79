"""Many threads at one `OnnxEngine`, and what it refuses before anything runs."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from readoff.engine.asking import Asking
from readoff.engine.errors import ReadoffError
from readoff.export.pack import Pack
from readoff.export.runtime import OnnxEngine
from tests.engine.models_on_disk import ASKED, REFUND, STATE
from tests.export.packs import tiny_pack

ONE = {"refund": REFUND}


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    return tiny_pack(tmp_path_factory.mktemp("m"), "qwen3_5")[1]


@pytest.fixture
def engine(pack: Pack) -> Iterator[OnnxEngine]:
    with OnnxEngine.from_pretrained(pack.folder, threads=1) as made:
        yield made


def test_many_threads_at_once(pack: Pack) -> None:
    """Each caller gets its own answer, from a cache that is too small for all states."""
    counts = {"a": 1, "b": 9, "c": 30, "d": 60, "e": 70, "f": 90}
    states = [f"{name} " * count for name, count in counts.items()]
    names = list(ASKED)
    with OnnxEngine.from_pretrained(pack.folder, threads=1, cache_bytes=0) as plain:
        expected = [plain.decide(state, ASKED) for state in states]
    failures: list[str] = []

    def work(seed: int) -> None:
        random_ = random.Random(seed)
        for _ in range(8):
            number = random_.randrange(len(states))
            asked = {name: ASKED[name] for name in random_.sample(names, random_.randint(1, 3))}
            found = shared.decide(states[number], asked, priority=random_.randint(0, 2))
            for name, answer in found.items():
                if answer.logits != pytest.approx(expected[number][name].logits, abs=1e-4):
                    failures.append(f"{number} {name}")

    with OnnxEngine.from_pretrained(
        pack.folder, threads=1, cache_bytes=250_000, step_tokens=64
    ) as shared:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert failures == []
        stats = shared.stats()
        assert stats["answered"] == 8 * 8
        assert stats["cache"]["evictions"] > 0
        assert stats["cache"]["hits"] > 0
        assert shared._worker.cache is not None
        shared._worker.cache.check()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"leaf": ()}, "a piece of the prompt has no tokens"),
        ({"pieces": ((1,), ())}, "a piece of the prompt has no tokens"),
        ({"labels": (512, 3)}, "outside the vocabulary of 512"),
        ({"labels": (-1, 3)}, "outside the vocabulary"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
    ],
)
def test_what_a_graph_cannot_refuse_is_refused_before(
    engine: OnnxEngine, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], told: str
) -> None:
    job = Asking.job

    def spoilt(self: Asking, *given: Any, **named: Any) -> Any:
        made = job(self, *given, **named)
        made.lines = [replace(line, **change) for line in made.lines]
        return made

    with monkeypatch.context() as patch:
        patch.setattr(Asking, "job", spoilt)
        with pytest.raises(ReadoffError, match=told):
            engine.decide(STATE, ONE)
    assert engine.stats()["requests"] == 0


def test_bad_options(pack: Pack, tmp_path: Path) -> None:
    for option, value in (
        ("threads", 0),
        ("cache_bytes", -1),
        ("max_queue", 0),
        ("max_wait_ms", -1),
        ("step_tokens", 5),
        ("provider", "tpu"),
    ):
        with pytest.raises(ReadoffError, match=option if option != "provider" else "tpu"):
            OnnxEngine.from_pretrained(pack.folder, **{option: value})  # type: ignore[arg-type]
