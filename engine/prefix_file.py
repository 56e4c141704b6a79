"""Saved prefixes: what a cache holds, as a safetensors file with the key of everything in it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from readoff.engine.backbones.decoder import Backbone
from readoff.engine.backbones.linear import Linear
from readoff.engine.errors import PrefixFileError, ReadoffError
from readoff.engine.prefix_cache import Node, PrefixCache

_FORMAT = "readoff prefixes 1"


@dataclass(frozen=True)
class _Entry:
    """A saved node: its tokens from row `at` on; the numbers of its parent and snapshot, or -1."""

    parent: int
    at: int
    length: int
    state: int


def save(cache: PrefixCache, identity: Mapping[str, str], path: Path) -> int:
    """Write all that is ready under the cache's plain root; returns the number of tokens."""
    plain = cache.root(())
    nodes = [n for n in cache.nodes() if n.ready and _root(n) is plain]
    number = {node: n for n, node in enumerate(nodes)}
    entries, at, states = [], 0, 0
    for node in nodes:
        assert node.parent is not None
        kept = node.state >= 0
        parent = number.get(node.parent, -1)
        entries.append([parent, at, len(node.ids), states if kept else -1])
        at += len(node.ids)
        states += kept
    tensors = {"ids": torch.tensor([t for n in nodes for t in n.ids], dtype=torch.int32)}
    rows = [torch.arange(n.kv, n.kv + len(n.ids)) for n in nodes]
    slots = torch.cat(rows) if rows else torch.arange(0)
    snapshots = torch.tensor([n.state for n in nodes if n.state >= 0], dtype=torch.long)
    for name, tensor, by_token in _layers(cache):
        index = slots if by_token else snapshots
        tensors[name] = tensor[index.to(tensor.device)].cpu().contiguous()
    told = {"format": _FORMAT, "identity": json.dumps(dict(identity)), "nodes": json.dumps(entries)}
    partial = path.parent / f".{path.name}.{os.getpid()}.partial"
    try:
        save_file(tensors, partial, told)
        os.replace(partial, path)
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        raise ReadoffError(f"The prefixes can't be written to {path}: {error}.") from error
    return at


def load(cache: PrefixCache, identity: Mapping[str, str], path: Path) -> int:
    """Add what a file holds, as far as there is room; returns the number of tokens added.

    Call in inference mode. Raises PrefixFileError before anything is changed.
    """
    tensors, entries = _read(cache, identity, path)
    ids = tensors["ids"].tolist()
    placed: dict[int, Node] = {-1: cache.root(())}
    added = 0
    for number, entry in enumerate(entries):
        parent = placed.get(entry.parent)
        if parent is None or not parent.ready:
            continue  # its beginning found no room
        end = entry.at + entry.length
        node = cache.extend(parent, tuple(ids[entry.at : end]))
        new = list(cache.pending)
        kept = entry.state >= 0 and bool(new)
        if new:
            lengths = [len(n.ids) for n in new]
            cache.pin(parent)
            try:
                fits = cache.storage.fits(sum(lengths), int(kept))
                room = cache.make_room(lengths, int(kept)) if fits else None
            finally:
                cache.unpin(parent)
            if room is None:
                cache.discard_pending()
                continue
            at = end - sum(lengths)
            for part, start in zip(new, room.spans, strict=True):
                state = room.states[0] if kept and part is node else -1
                _fill(cache, tensors, part, start, at, state, entry.state)
                cache.commit(part, start, state)
                at += len(part.ids)
            added += sum(lengths)
        placed[number] = node
    return added


def weights_digest(backbone: Backbone) -> str:
    """sha256 over the parameters as they are multiplied, whatever file they came from."""
    digest = hashlib.sha256()
    for name, module in backbone.named_modules():
        held = dict(module.named_parameters(recurse=False))
        if isinstance(module, Linear):
            held["weight"] = torch.nn.Parameter(module.dense(), requires_grad=False)
        for part, tensor in sorted(held.items()):
            digest.update(f"{name}.{part} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _fill(
    cache: PrefixCache,
    tensors: Mapping[str, torch.Tensor],
    node: Node,
    start: int,
    at: int,
    state: int,
    saved_state: int,
) -> None:
    for name, tensor, by_token in _layers(cache):
        if by_token:
            tensor[start : start + len(node.ids)] = tensors[name][at : at + len(node.ids)]
        elif state >= 0:
            tensor[state] = tensors[name][saved_state]


def _layers(cache: PrefixCache) -> Iterator[tuple[str, torch.Tensor, bool]]:
    """(name, pool, whether its slots are tokens) of every tensor of the pools."""
    pools = cache.storage.pools
    for layer, kind in enumerate(pools.config.layer_types):
        if kind == "full_attention":
            kv = pools.kv(layer)
            yield f"k.{layer}", kv.k, True
            yield f"v.{layer}", kv.v, True
        else:
            states = pools.states(layer)
            yield f"recurrent.{layer}", states.recurrent, False
            yield f"tails.{layer}", states.tails, False


def _read(
    cache: PrefixCache, identity: Mapping[str, str], path: Path
) -> tuple[dict[str, torch.Tensor], list[_Entry]]:
    try:
        with safe_open(path, "pt") as file:
            told = file.metadata() or {}
            if told.get("format") != _FORMAT:
                raise PrefixFileError(f"{path} isn't a file of saved prefixes.")
            _check_identity(json.loads(told["identity"]), identity, path)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        entries = [_Entry(*entry) for entry in json.loads(told["nodes"])]
    except FileNotFoundError as error:
        raise PrefixFileError(f"There is no file {path}.") from error
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise PrefixFileError(f"{path} is damaged: {error}. Save the prefixes anew.") from error
    if not _sound(cache, tensors, entries):
        raise PrefixFileError(f"{path} is damaged: its parts don't fit together. Save it anew.")
    return tensors, entries


def _check_identity(found: Any, wanted: Mapping[str, str], path: Path) -> None:
    if not isinstance(found, dict):
        raise ValueError("its key isn't an object")
    other = [name for name, value in wanted.items() if found.get(name) != value]
    if other:
        raise PrefixFileError(
            f"{path} was made with other {' and '.join(other)}: its numbers would be wrong here. "
            "Compute the prefixes anew, or load the model they were made with."
        )


def _sound(cache: PrefixCache, tensors: Mapping[str, torch.Tensor], entries: list[_Entry]) -> bool:
    """Whether tensors and tree have the shapes that they must have."""
    tokens, states = 0, 0
    for number, entry in enumerate(entries):
        if not all(type(value) is int for value in vars(entry).values()):
            return False
        if not -1 <= entry.parent < number or entry.at != tokens or entry.length < 1:
            return False
        if entry.state not in (-1, states):
            return False
        tokens += entry.length
        states += entry.state >= 0
    ids = tensors.get("ids")
    vocabulary = cache.storage.pools.config.vocab_size
    if ids is None or ids.dtype != torch.int32 or tuple(ids.shape) != (tokens,):
        return False
    if tokens and not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary:
        return False
    for name, pool, by_token in _layers(cache):
        tensor = tensors.get(name)
        if tensor is None or tensor.dtype != pool.dtype:
            return False
        if tuple(tensor.shape) != (tokens if by_token else states, *pool.shape[1:]):
            return False
        if not bool(torch.isfinite(tensor).all()):
            return False
    return True


def _root(node: Node) -> Node:
    while node.parent is not None:
        node = node.parent
    return node
