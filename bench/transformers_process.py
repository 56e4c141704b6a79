"""A transformers model in a process of its own: what its users get, our settings kept out."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import torch

from readoff.engine.errors import ReadoffError


class TransformersProcess:
    """Plain forward passes of `transformers` in bf16 or fp32, started with `spawn`.

    `source` is "seeded" (Qwen3.5-0.8B's shape) or anything that `resolve` opens. Use as a context
    manager. Raises ReadoffError if the process fails, with what it said.
    """

    def __init__(self, source: str, dtype: torch.dtype) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, source, dtype), daemon=True)

    def __enter__(self) -> TransformersProcess:
        self._process.start()
        self._ask(("ready",))
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()

    def seconds(self, ids: Sequence[int], *, whole_head: bool = False) -> float:
        """Time one pass over `ids`. `whole_head`: logits of every token, its default."""
        found: float = self._ask(("time", list(ids), whole_head))
        return found

    def logits(self, ids: Sequence[int]) -> torch.Tensor:
        """The last token's logits, [vocab] fp32."""
        return torch.tensor(self._ask(("logits", list(ids), False)))

    def _ask(self, message: tuple[Any, ...]) -> Any:
        self._pipe.send(message)
        try:
            kind, value = self._pipe.recv()
        except (EOFError, OSError):
            raise ReadoffError("The transformers process ended without an answer.") from None
        if kind == "error":
            raise ReadoffError(f"The transformers process failed: {value}")
        return value


def _serve(pipe: Connection, source: str, dtype: torch.dtype) -> None:
    warnings.simplefilter("ignore")
    try:
        from transformers.utils import logging

        from readoff.bench.seeded import QWEN35_08B, SeededCheckpoint
        from readoff.bench.transformers_model import transformers_model
        from readoff.engine.source import resolve

        logging.set_verbosity_error()
        seeded = source == "seeded"
        checkpoint = SeededCheckpoint(QWEN35_08B) if seeded else resolve(source, progress=False)
        model = transformers_model(checkpoint, dtype=dtype)
        while True:
            kind, *rest = pipe.recv()
            if kind == "ready":
                pipe.send(("ok", None))
                continue
            ids, whole_head = rest
            with torch.inference_mode():
                start = time.perf_counter()
                keep = 0 if whole_head else 1
                out = model(torch.tensor([ids]), use_cache=False, logits_to_keep=keep)
                took = time.perf_counter() - start
            last = out.logits[0, -1].float().tolist() if kind == "logits" else None
            pipe.send(("ok", took if last is None else last))
    except (EOFError, OSError):
        return
    except Exception as error:  # to the parent, which says what failed
        pipe.send(("error", f"{type(error).__name__}: {error}"))
