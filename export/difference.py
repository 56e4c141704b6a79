"""How far two checkpoints of one model are apart, measured on decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from readoff.engine.batch import Batch
from readoff.engine.card import Card
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.errors import NumericsError
from readoff.engine.forest import Forest
from readoff.engine.prompt import Renderer
from readoff.engine.questions import Choice, Noul, Question, Score
from readoff.engine.text import Text
from readoff.export.streamed import streamed_readouts

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
    batches = _batches(renderer, card, before.config.max_position_embeddings)
    if not batches:
        return None
    layers = before.config.num_layers
    pair = (
        streamed_readouts(before, batches, lambda done, of: progress(done, 2 * layers)),
        streamed_readouts(after, batches, lambda done, of: progress(layers + done, 2 * layers)),
    )
    first, second = (torch.cat([one.logits for one in readouts]) for readouts in pair)
    p, q = (torch.cat([one.probabilities for one in readouts]) for readouts in pair)
    if not (first.isfinite().all() and second.isfinite().all()):
        raise NumericsError(
            "The model gives logits that aren't finite numbers: its weights are damaged, or the "
            "adapter belongs to another."
        )
    counts = torch.cat([batch.label_offsets.diff() for batch in batches]).tolist()
    questions = zip(first.split(counts), second.split(counts), strict=True)
    return Difference(
        questions=len(counts),
        logit=_largest(first - second),
        probability=_largest(p - q),
        changed=sum(int(a.argmax() != b.argmax()) for a, b in questions),
        largest_logit=_largest(first),
    )


def _batches(renderer: Renderer, card: Card, limit: int) -> list[Batch]:
    """A batch a state, so that little is held at a time."""
    batches = []
    for state, questions in PROBES:
        forest = Forest()
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
        if forest.reads:
            batches.append(forest.batch())
    return batches


def _largest(values: torch.Tensor) -> float:
    return float(values.abs().max())
