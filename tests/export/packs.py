"""Deployment packs of seeded tiny models, complete with tokenizer, template and card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from readoff.engine.answers import Answer, Decision, NoulAnswer
from readoff.engine.card import Card
from readoff.engine.card_fields import Prior, Temperature
from readoff.engine.checkpoint import open_checkpoint, read_json
from readoff.export.graph.model import build_model
from readoff.export.graph.options import GraphOptions
from readoff.export.graph.save import save
from readoff.export.pack import GRAPH, Pack
from readoff.export.pack_writing import write_pack
from tests.engine.models_on_disk import save_decider
from tests.models import Architecture

CARD = Card(
    temperature=Temperature(choice=0.5, score=2.0, noul=1.5, by_field={"team": 0.7}),
    prior=Prior(by_field={"refund": (0.3, -0.2)}, by_options={"choice:3": (0.1, 0.0, -0.4)}),
)
BOUND = 1e-4
"""Of a probability, against the torch engine in fp32; about 2e-6 is seen."""


def tiny_pack(
    folder: Path,
    architecture: Architecture = "qwen2",
    *,
    graph: GraphOptions | None = None,
    card: Card | None = None,
    adapter: str | None = None,
    **model: Any,
) -> tuple[Path, Pack]:
    """Writes `folder`/model, which the torch engine loads, and `folder`/pack; returns that model's
    folder and the pack. `model`: options of `tests.models.tiny_model`; `adapter`: a digest."""
    source = folder / "model"
    save_decider(source, architecture, **model)
    return source, pack_of(source, folder / "pack", graph=graph, card=card, adapter=adapter)


def pack_of(
    source: Path,
    out: Path,
    *,
    graph: GraphOptions | None = None,
    card: Card | None = None,
    adapter: str | None = None,
) -> Pack:
    """A pack of a model's folder."""
    checkpoint, options = open_checkpoint(source), graph or GraphOptions()
    out.mkdir(parents=True)
    save(build_model(checkpoint, options), out / GRAPH)
    return write_pack(
        out,
        name=source.name,
        config=read_json(source / "config.json"),
        options=options,
        tokenizer_files=checkpoint.tokenizer_files,
        card=card or Card.default(),
        weights=checkpoint.weights_digest(),
        adapter=adapter,
        parity=[{"case": "1 token", "max |Δlogit|": 1e-6, "passed": True}],
        figures={"answers": {"agreement": 1.0}},
    )


def values(answer: Answer) -> list[float]:
    if isinstance(answer, NoulAnswer):
        return [answer.noul]
    return list(answer.probabilities.values())


def distance(a: Mapping[str, Answer], b: Mapping[str, Answer]) -> float:
    """The largest difference of a probability."""
    assert list(a) == list(b)
    assert all(x.type == y.type for x, y in zip(a.values(), b.values(), strict=True))
    found = zip(a.values(), b.values(), strict=True)
    return max(abs(p - q) for x, y in found for p, q in zip(values(x), values(y), strict=True))


def cached(decision: Decision) -> int:
    return decision.usage.cached_tokens
