"""The head: the last row of each, its labels' logits, prior, temperature, softmax."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from readoff.export.graph import interface
from readoff.export.graph.builder import Builder
from readoff.export.graph.context import Context
from readoff.export.graph.linear import head_name, make_embedding
from readoff.export.graph.norms import make_rms_norm
from readoff.export.graph.options import FixedLabels, LabelBank
from readoff.export.graph.shared import HIDDEN


def make_readout(
    b: Builder, context: Context, hidden: ir.Value, inputs: Mapping[str, ir.Value]
) -> None:
    """hidden: [B, 1, H], the rows that are read. Makes the outputs logits and probabilities.

    `logits` are raw, 0 behind a row's labels; `probabilities` are softmax((z - prior) / T) over
    the row's labels alone, and 0 behind them.
    """
    hidden = make_rms_norm(b.within("norm"), context, hidden, context.traits.plus_one)
    column = b.transpose(hidden, 0, 2, 1)  # [B, H, 1]
    labels = context.options.labels
    if isinstance(labels, FixedLabels):
        _fixed(b, context, column, labels)
        return
    ids = inputs[interface.LABEL_IDS]
    numbers = b.row_numbers(b.size(ids, 1))
    legal = b.op("Less", numbers, b.unsqueeze(inputs[interface.LABEL_COUNTS], 1))  # [B, L]
    rows = _label_rows(b, context, ids, legal)  # [B, L, H]
    raw = b.op("Squeeze", b.op("MatMul", rows, column), b.ints(2))
    logits = b.op("Where", legal, raw, b.number(0.0), output=interface.LOGITS)
    shifted = b.op("Sub", logits, inputs[interface.PRIOR])
    shifted = b.op("Where", legal, shifted, b.number(HIDDEN))
    share = _softmax(b, shifted, b.unsqueeze(inputs[interface.TEMPERATURE], 1))
    b.op("Where", legal, share, b.number(0.0), output=interface.PROBABILITIES)


def _fixed(b: Builder, context: Context, column: ir.Value, labels: FixedLabels) -> None:
    """Labels, prior and temperature as constants."""
    name = head_name(context)
    rows = b.weight(f"{name}.labels", context.tensors.picked(name, labels.ids))
    logits = b.op("Squeeze", b.op("MatMul", rows, column), b.ints(2), output=interface.LOGITS)
    prior = labels.prior or (0.0,) * len(labels.ids)
    shifted = b.op("Sub", logits, b.constant([prior], np.float32))
    share = _softmax(b, shifted, b.number(labels.temperature))
    b.op("Identity", share, output=interface.PROBABILITIES)


def _label_rows(b: Builder, context: Context, ids: ir.Value, legal: ir.Value) -> ir.Value:
    """Rows of the head, [B, L, H] fp32; anything where a label isn't `legal`."""
    labels = context.options.labels
    name = head_name(context)
    if not isinstance(labels, LabelBank):
        return make_embedding(b, context, ids, name)
    # An id outside the bank points behind its last row, which is an error when the graph runs.
    places = np.full(context.config.vocab_size, len(labels.ids), np.int32)
    places[list(labels.ids)] = np.arange(len(labels.ids))
    place = b.op("Gather", b.weight(f"{name}.places", ir.tensor(places)), ids, axis=0)
    place = b.op("Where", legal, place, b.constant(0, np.int32))
    rows = b.weight(f"{name}.labels", context.tensors.picked(name, labels.ids))
    return b.op("Gather", rows, place, axis=0)


def _softmax(b: Builder, x: ir.Value, temperature: ir.Value) -> ir.Value:
    """softmax(x / T), shifted before the division so that a tiny temperature can't overflow."""
    shifted = b.op("Sub", x, b.op("ReduceMax", x, axes=[-1], keepdims=1))
    return b.op("Softmax", b.op("Div", shifted, temperature), axis=-1)
