"""`PackAsking`: `Asking` that knows what an exported graph can't read."""

from __future__ import annotations

from typing import Any

from readoff.engine.asking import Asking, Questions
from readoff.engine.calibration import check_temperature
from readoff.engine.card import Card
from readoff.engine.errors import QuestionError, ReadoffError, TemplateError
from readoff.engine.job import Job
from readoff.engine.line import Line
from readoff.engine.prompt import Renderer
from readoff.engine.text import Text
from readoff.export.graph.options import FixedLabels
from readoff.export.pack import Pack


class PackAsking(Asking):
    """Jobs for a pack. Where labels are baked in, a question with others is refused at once."""

    def __init__(self, renderer: Renderer, card: Card, pack: Pack) -> None:
        precision = pack.options.precision
        narrow = precision != "fp32"
        super().__init__(
            renderer,
            card,
            pack.config.max_position_embeddings,
            pack.name,
            f", or {precision} too narrow for them; try an export in fp32" * narrow,
        )
        self._labels, self._vocab = pack.options.labels, pack.config.vocab_size

    def job(self, state: Text, questions: Questions, **how: Any) -> Job:
        """See `Asking.job`. Raises ReadoffError for `legal_mass` too."""
        if how.get("legal_mass"):
            raise ReadoffError(
                "A pack can't measure the legal mass: its graph multiplies the rows of the labels "
                "alone. Ask the model that it was exported from."
            )
        job = super().job(state, questions, **how)
        where = how.get("where", "")
        for name, line in zip(questions, job.lines, strict=True):
            self._check(f"{where}, question {name!r}" if where else f"{name!r}", line)
        return job

    def _check(self, where: str, line: Line) -> None:
        """What the graph can't refuse by itself: it would read anything."""
        check_temperature(line.temperature)
        if not (line.leaf and all(line.pieces)):
            raise TemplateError(f"{where}: a piece of the prompt has no tokens.")
        if not all(0 <= index < self._vocab for index in line.labels):
            raise TemplateError(f"{where}: a label is outside the vocabulary of {self._vocab}.")
        if self._labels is None:
            return
        asked = line.labels
        known = self._labels.ids
        if isinstance(self._labels, FixedLabels):
            legal, what = asked == known, f"one kind of question, of {len(known)} labels"
        else:
            legal, what = set(asked) <= set(known), f"{len(known)} labels"
        if not legal:
            raise QuestionError(
                f"{where}: the pack was exported for {what}, and this question has others. Ask "
                "within them, or export with other labels (or all: without --labels)."
            )
