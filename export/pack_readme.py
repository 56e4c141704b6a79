"""The README of a pack: what it is, the commands, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from readoff.export.graph.options import FixedLabels

if TYPE_CHECKING:
    from readoff.export.pack import Pack

_PRECISIONS = {
    "fp32": "fp32",
    "fp16": "fp16 (norms, softmax and states in fp32)",
    "int8": "int8 weights, inputs of products in 8 bits (the rest in fp32)",
    "int4": "int4 weights in blocks (the rest in fp32)",
}


def render_readme(pack: Pack, weights: int) -> str:
    """Markdown for `pack`, whose graph and weights have `weights` bytes."""
    config, options = pack.config, pack.options
    operators = "standard operators" if not options.uses_contrib else "ONNX Runtime's own operators"
    facts = {
        "Model": f"{config.architecture}, {config.num_layers} layers of {config.hidden_size}",
        "Context": f"{config.max_position_embeddings:,} tokens",
        "Weights": f"{weights / 1e6:,.0f} MB, {_PRECISIONS[options.precision]}",
        "Graph": f"{options.flavour}, {operators}",
        "Labels": _labels(pack),
        "Runtime": f"onnxruntime {pack.runtime} or newer",
        "Made by": f"readoff {pack.readoff}",
        "Digest of the base": f"`{pack.digests.weights}`",
        "Digest of the adapter": f"`{pack.digests.adapter}`" if pack.digests.adapter else "none",
    }
    lines = [
        f"# {pack.name}",
        "",
        "A decision model as an ONNX graph: a state and typed questions in, calibrated "
        "probabilities out, in one pass. Nothing is generated, and no torch is needed.",
        "",
        "```",
        'pip install "readoff[onnx]"',
        "readoff decide --model . --request request.json",
        "```",
        "",
        "In Python:",
        "",
        "```python",
        "from readoff.export.runtime import OnnxEngine",
        "",
        'engine = OnnxEngine.from_pretrained(".")',
        "decision = engine.decide(state, questions)",
        "```",
        "",
        "`example.py` uses the graph without readoff and shows what its tensors mean. "
        "`readoff export check .` compares every byte with `pack.json`.",
        "",
        *(f"- {name}: {told}" for name, told in facts.items()),
    ]
    if pack.parity:
        lines += ["", "## Checked after the export", "", *_table(pack.parity)]
    if pack.figures:
        lines += ["", "## Measured", "", *(f"- {k}: {v}" for k, v in _flat(pack.figures))]
    return "\n".join(lines) + "\n"


def _labels(pack: Pack) -> str:
    labels = pack.options.labels
    if labels is None:
        return "any token"
    if isinstance(labels, FixedLabels):
        return f"{len(labels.ids)} baked in, with prior and temperature; no others"
    return f"one of {len(labels.ids)} tokens; the rest of the vocabulary isn't stored"


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    columns = list(rows[0])
    yield f"| {' | '.join(map(_told, columns))} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(_told(row.get(name)) for name in columns)} |"


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}, ")
        else:
            yield f"{above}{name}", _told(value)


def _told(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")
