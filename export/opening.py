"""`open_engine`: whatever a user names as a model, as an engine that decides.

A pack's folder is opened by `OnnxEngine`, without torch; anything else by `Engine`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from readoff.engine.card import Card
from readoff.engine.errors import ReadoffError
from readoff.export.pack import is_pack

if TYPE_CHECKING:
    import torch

    from readoff.engine.engine import Engine
    from readoff.export.runtime import OnnxEngine
    from readoff.kernels.linear import Kind

_FIXED = {
    "adapter": "is merged in when a pack is exported",
    "revision": "belongs to hub ids",
    "dtype": "was chosen when it was exported",
    "quantize": "was chosen when it was exported",
    "deterministic": "is a mode of the torch engine",
    "snapshot_every": "belongs to the torch engine's cache",
}
"""Options of `Engine.from_pretrained` that a pack can't take, and why."""


def open_engine(
    source: str | Path,
    *,
    adapter: str | Path | None = None,
    card: str | Path | Card | None = None,
    revision: str | None = None,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    threads: int | None = None,
    quantize: Kind | None = None,
    progress: bool | None = None,
    cache_bytes: int | None = None,
    max_queue: int = 1024,
    max_wait_ms: float = 0.0,
    step_tokens: int | None = None,
    snapshot_every: int | None = None,
    deterministic: bool = False,
) -> Engine | OnnxEngine:
    """Load `source`: a pack's folder, or anything that `Engine.from_pretrained` takes.

    The options are those of `Engine.from_pretrained`; for a pack `device` is "auto", "cpu" or
    "cuda" and chooses ONNX Runtime's provider.

    Raises ReadoffError, also for an option that a pack can't take, and ModuleNotFoundError where
    torch is needed and isn't installed.
    """
    shared: dict[str, Any] = {
        "card": card,
        "threads": threads,
        "cache_bytes": cache_bytes,
        "max_queue": max_queue,
        "max_wait_ms": max_wait_ms,
        "step_tokens": step_tokens,
    }
    others: dict[str, Any] = {
        "adapter": adapter,
        "revision": revision,
        "dtype": dtype,
        "quantize": quantize,
        "deterministic": deterministic,
        "snapshot_every": snapshot_every,
    }
    if is_pack(source):
        given = [name for name, value in others.items() if value not in (None, False, "auto")]
        if given:
            raise ReadoffError(
                f"{source} is a pack, which takes no {given[0]}: that {_FIXED[given[0]]}. Leave it "
                "out, or open the model that the pack was exported from."
            )
        from readoff.export.runtime import OnnxEngine

        return OnnxEngine.from_pretrained(source, provider=str(device), **shared)
    from readoff.engine.engine import Engine

    return Engine.from_pretrained(source, device=device, progress=progress, **shared, **others)
