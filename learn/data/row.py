"""A row: a state with its questions, as a line of a labelled file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from readoff.bench.quality.labels import render_label
from readoff.bench.records import Language
from readoff.bench.workloads.lexicon import Dice
from readoff.engine.questions import Question, Score
from readoff.engine.text import Text
from readoff.engine.wire import dumps
from readoff.learn.data.draft import Draft, draw
from readoff.learn.data.messages import Split

HUMAN, DERIVED = 1.0, 0.5
"""The fixed weights of labels that people gave and of labels derived from those or built."""


@dataclass(frozen=True)
class Row:
    """One state. `messages` are the keys of the messages in it, or of what was built instead;
    `licence` is that of its source."""

    state: Text
    drafts: Mapping[str, Draft]
    language: Language
    split: Split
    source: str
    licence: str
    messages: tuple[str, ...]

    @property
    def group(self) -> str:
        """The same for rows with the same messages, whatever else is in their states."""
        return sha256("\n".join(sorted(self.messages)).encode()).hexdigest()[:16]

    def line(self, weights: Mapping[str, float]) -> str:
        """The row as JSON, `weights` by question id.

        Training targets are distributions. Elsewhere a question has one label, since what is
        measured there is how probable the model finds the label given: the largest of the target,
        which is how it was made, or, for a score, a level drawn from the target, since there the
        borders of the levels are what the target leaves open. (Were it always the largest, whoever
        answers exactly the target would look too modest.)
        """
        answers: dict[str, object] = {}
        for name, draft in self.drafts.items():
            target = draft.target if self.split == "train" else {self._label(name, draft): 1.0}
            answers[name] = render_label(target, draft.question)
        content: dict[str, object] = {
            "state": self.state,
            "questions": {name: _question(d.question) for name, d in self.drafts.items()},
            "answers": answers,
            "weight": dict(weights),
            "family": {name: draft.family for name, draft in self.drafts.items()},
            "language": self.language,
            "split": self.split,
            "group": self.group,
            "source": self.source,
            "licence": self.licence,
        }
        return dumps(content)

    def _label(self, name: str, draft: Draft) -> str:
        if isinstance(draft.question, Score):
            return draw(Dice("label", self.group, name), draft.target)
        return draft.answer


def _question(question: Question) -> dict[str, object]:
    fields = {"instructions": question.instructions, "criteria": question.criteria}
    return {"type": question.type, **{k: v for k, v in fields.items() if v is not None}}
