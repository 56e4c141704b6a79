"""`Capture`: what became of one bucket of a captured forward."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from readoff.engine.buckets import Bucket


@dataclass(frozen=True)
class Capture:
    """Seconds and bytes of device memory that capturing `bucket` took, or the problem it met."""

    bucket: Bucket
    seconds: float = 0.0
    nbytes: int = 0
    problem: str = ""

    def __str__(self) -> str:
        took = f"{self.seconds * 1e3:.0f} ms, {self.nbytes / 2**20:.1f} MiB"
        return self.problem or f"captured ({took})"

    @classmethod
    def failed(cls, bucket: Bucket, error: BaseException) -> Capture:
        """The error in one line; a shortage of memory that led to it is told instead."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, torch.OutOfMemoryError):
            cause = cause.__cause__ or cause.__context__
        line = str(cause or error).strip().partition("\n")[0]
        kind = type(error).__name__
        told = f"no room: {line}" if cause else f"not captured: {kind}: {line}"
        return cls(bucket, problem=told)
