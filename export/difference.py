"""How far two checkpoints of one model are apart, measured on decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from readoff.engine.card import Card
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.errors import NumericsError
from readoff.engine.forest import Forest
from readoff.engine.prompt import Renderer
from readoff.engine.questions import Choice, Noul, Question, Score
from readoff.engine.text import Text
from readoff.export.streamed import streamed_readout

PROBES: tuple[tuple[Text, Mapping[str, Question]], ...] = (
    (
        "The parcel was to come on Monday. It is Friday, nobody answers the phone, and the money "
        "has left my account.",
        {
            "team": Choice(
                instructions="Which team answers?",
                criteria={"shipping": "late or lost", "billing": None, "legal": None, "none": None},
            ),
            "anger": Score(instructions="How angry?", criteria=["calm", "annoyed", "furious"]),
            "refund": Noul(instructions="The customer asks for a refund."),
        },
    ),
    (
        {"客户": "王小姐", "留言": "谢谢，问题已经解决了。", "订单": 20417},
        {
            "mood": Choice(criteria={"满意": None, "不满": None, "中立": None}),
            "urgent": Noul(criteria={"true": "reply within an hour", "false": "it can wait"}),
        },
    ),
    (
        ["open(file)", "read 0 bytes", "error: end of file", "retry", "error: end of file"],
        {
            "progress": Score(criteria=["none", "little", "some", "much"]),
            "stuck": Noul(instructions="The program repeats itself without getting on."),
        },
    ),
)
"""States and questions of every kind; nobody needs to know the right answers."""


@dataclass(frozen=True)
class Difference:
    """The largest differences between two readouts of the same questions.

    `logit` and `probability` are maxima over all labels, `changed` counts the questions whose best
    label differs; `largest_logit` is the scale.
    """

    questions: int
    logit: float
    probability: float
    changed: int
    largest_logit: float


def compare(
    before: Checkpoint,
    after: Checkpoint,
    renderer: Renderer,
    card: Card,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Difference | None:
    """The difference on `PROBES`, both computed in fp32 on the CPU, a layer at a time.

    Prompts longer than the model's context are left out; None where that leaves nothing.
    `progress(layers done, layers)` counts those of both. Raises NumericsError for logits that
    aren't finite.
    """
    forest = _forest(renderer, card, before.config.max_position_embeddings)
    if not forest.reads:
        return None
    batch = forest.batch()
    layers = before.config.num_layers
    first = streamed_readout(before, batch, lambda done, of: progress(done, 2 * layers))
    second = streamed_readout(after, batch, lambda done, of: progress(layers + done, 2 * layers))
    if not (first.logits.isfinite().all() and second.logits.isfinite().all()):
        raise NumericsError(
            "The model gives logits that aren't finite numbers: its weights are damaged, or the "
            "adapter belongs to another."
        )
    counts = batch.label_offsets.diff().tolist()
    pairs = zip(first.logits.split(counts), second.logits.split(counts), strict=True)
    return Difference(
        questions=len(counts),
        logit=_largest(first.logits - second.logits),
        probability=_largest(first.probabilities - second.probabilities),
        changed=sum(int(a.argmax() != b.argmax()) for a, b in pairs),
        largest_logit=_largest(first.logits),
    )


def _forest(renderer: Renderer, card: Card, limit: int) -> Forest:
    forest = Forest()
    for state, questions in PROBES:
        prompts = renderer.render(state, questions)
        for question, prompt in zip(questions.values(), prompts, strict=True):
            if len(prompt) > limit:
                continue
            kind, options = question.type, len(question.options)
            forest.read(
                forest.add([piece.ids for piece in prompt.pieces]),
                prompt.labels.ids,
                card.prior_for(kind, None, options),
                card.temperature_for(kind, None, options),
            )
    return forest


def _largest(values: torch.Tensor) -> float:
    return float(values.abs().max())
