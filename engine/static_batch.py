"""`StaticBatch`: a batch in buffers of fixed size and place, padded with sentinels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np
import torch

from readoff.engine.batch import Batch, Runs
from readoff.engine.buckets import Bucket
from readoff.engine.config import ModelConfig
from readoff.engine.pools import KV, KeptPools, States
from readoff.kernels.unpack import BLOCK, HEADER, unpack


@dataclass(frozen=True)
class _Field:
    """One tensor of `Batch`: its path, its size in a bucket, and what stands in unused entries.

    `filler` is a number, the field whose count it repeats (offsets stand still behind the last
    range, which makes all later ranges empty), or "trash": the KV slot that nobody reads.
    """

    path: str
    size: Callable[[Bucket], int]
    filler: int | str = 0

    def values(self, batch: Batch) -> np.ndarray[Any, Any]:
        found: torch.Tensor = attrgetter(self.path)(batch)
        return found.numpy().reshape(-1)


def _runs(name: str, runs: str, spans: str) -> tuple[_Field, ...]:
    size = attrgetter(runs)
    return (
        *(_Field(f"{name}.{n}", size) for n in ("q_start", "q_length", "kv_start", "kv_length")),
        _Field(f"{name}.chain_offsets", lambda b: size(b) + 1, f"{name}.chain_spans"),
        _Field(f"{name}.chain_spans", lambda b: 2 * int(getattr(b, spans))),
    )


_TOKENS, _SEGMENTS = attrgetter("tokens"), attrgetter("segments")
_READS, _LABELS = attrgetter("reads"), attrgetter("labels")

INTS = (
    _Field("tokens", _TOKENS),
    _Field("positions", _TOKENS),
    _Field("slots", _TOKENS, "trash"),
    *(_Field(name, _SEGMENTS) for name in ("seg_start", "seg_length", "seg_depth", "parent_state")),
    *(_Field(name, _SEGMENTS, -1) for name in ("state_out", "seg_parent")),
    _Field("seg_wave", _SEGMENTS),
    *_runs("runs", "segments", "spans"),
    *_runs("read_runs", "reads", "read_spans"),
    _Field("rows", _READS),
    _Field("label_offsets", lambda b: b.reads + 1, "label_ids"),
    _Field("label_ids", _LABELS),
)
FLOATS = (_Field("prior", _LABELS), _Field("temperature", _READS, 1))
FIELDS = INTS + FLOATS


class StaticBatch:
    """The buffers of one bucket on a device, and the way from a `Batch` on the host into them.

    `write` packs what the batch holds into one pinned message and copies it, without waiting;
    `unpack`, one kernel, writes every entry of `batch` from the message. Unused token rows are
    token 0 at position 0 and belong to no segment; unused segments and reads have length 0. Their
    keys go to the last KV slot of the pools, which must be left free for that.
    """

    def __init__(
        self, bucket: Bucket, kv_slots: int, state_slots: int, device: torch.device
    ) -> None:
        self.bucket = bucket
        self._trash = kv_slots - 1
        sizes = [field.size(bucket) for field in FIELDS]
        padded = [-(-size // BLOCK) * BLOCK for size in sizes]
        starts = np.concatenate([[0], np.cumsum(padded)])
        ints = int(starts[len(INTS)])
        self._starts = torch.from_numpy(starts.astype(np.int64)).to(device)
        self._ints = torch.zeros(ints, dtype=torch.int64, device=device)
        self._floats = torch.zeros(int(starts[-1]) - ints, device=device)
        words = HEADER * len(FIELDS) + sum(sizes)
        cuda = device.type == "cuda"
        self._host = torch.zeros(words, dtype=torch.int32, pin_memory=cuda)
        self._message = torch.zeros(words, dtype=torch.int32, device=device)
        self._words = self._host.numpy()
        self._copied = torch.cuda.Event() if cuda else None
        views = {}
        for field, start, size in zip(FIELDS, starts[:-1].tolist(), sizes, strict=True):
            buffer, at = (self._ints, start) if field in INTS else (self._floats, start - ints)
            views[field.path] = buffer[at : at + size]
        self.batch = _batch(views, bucket, kv_slots, state_slots)

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        held = (self._starts, self._ints, self._floats, self._message)
        return sum(tensor.nbytes for tensor in held)

    def write(self, batch: Batch | None) -> None:
        """Send a batch (on the host, fitting the bucket), or with None sentinels only."""
        if self._copied is not None:
            self._copied.synchronize()  # the copy before may still be reading the message
        values = {f.path: f.values(batch) for f in FIELDS} if batch is not None else {}
        counts = {path: len(found) for path, found in values.items()}
        spans = ("runs.chain_spans", "read_runs.chain_spans")
        ends = counts | {path: counts.get(path, 0) // 2 for path in spans} | {"trash": self._trash}
        at = HEADER * len(FIELDS)
        for number, field in enumerate(FIELDS):
            count = counts.get(field.path, 0)
            filler = field.filler if isinstance(field.filler, int) else ends.get(field.filler, 0)
            self._words[HEADER * number : HEADER * (number + 1)] = at, count, filler
            if count:
                found = values[field.path]
                bits = found.view(np.int32) if found.dtype == np.float32 else found
                self._words[at : at + count] = bits
                at += count
        self._message[:at].copy_(self._host[:at], non_blocking=True)
        if self._copied is not None:
            self._copied.record()

    def unpack(self) -> None:
        """Write every entry of `batch` from the message. Can be captured."""
        unpack(self._message, self._starts, self._ints, self._floats)


class ScratchPools:
    """Pools for cold passes in one place: all layers use the same memory, one after the other.

    Every pass writes its slots before it reads them, in every layer. Slot 0 of the states is
    zeros and the last KV slot is never read.
    """

    def __init__(
        self,
        config: ModelConfig,
        kv_slots: int,
        state_slots: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        kinds = tuple(dict.fromkeys(config.layer_types))
        one = replace(config, layer_types=kinds, num_layers=len(kinds))
        self._pools = KeptPools(one, kv_slots, state_slots, dtype, device)
        self._place = {kind: n for n, kind in enumerate(kinds)}
        self.kv_slots, self.state_slots = kv_slots, state_slots
        self.nbytes = self._pools.nbytes

    def kv(self, layer: int) -> KV:
        """The same keys and values for every layer."""
        return self._pools.kv(self._place["full_attention"])

    def states(self, layer: int) -> States:
        """The same states and tails for every layer."""
        return self._pools.states(self._place["linear_attention"])


def _batch(
    views: dict[str, torch.Tensor], bucket: Bucket, kv_slots: int, state_slots: int
) -> Batch:
    """The buffers under the names of `Batch`."""
    plain = {path: view for path, view in views.items() if "." not in path}
    runs = {
        name: Runs(
            **{f.name: views[f"{name}.{f.name}"] for f in fields(Runs)[:-1]},
            chain_spans=views[f"{name}.chain_spans"].view(-1, 2),
        )
        for name in ("runs", "read_runs")
    }
    sizes = {"kv_slots": kv_slots, "state_slots": state_slots, "waves": bucket.waves}
    made: dict[str, Any] = {**plain, **runs, **sizes}
    return Batch(**made)
