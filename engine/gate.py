"""The gate: which answers are taken, and which are worth asking someone slower about.

As published: an answer is accepted when its largest probability reaches a threshold, and escalated
otherwise. Thresholds may be refined by question type and by field (a question's id).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real

from readoff.engine.answers import Answer, Decision, NoulAnswer
from readoff.engine.card import Card
from readoff.engine.card_fields import TYPES
from readoff.engine.errors import CardError


@dataclass(frozen=True)
class Gate:
    """Thresholds on the largest probability, each from 0 to 1, or None to accept nothing.

    A field's threshold counts before its type's, and that before `threshold`. `fitted` says how
    they were chosen, as JSON values, and decides nothing. Raises CardError.
    """

    threshold: float | None
    by_type: Mapping[str, float | None] = field(default_factory=dict)
    by_field: Mapping[str, float | None] = field(default_factory=dict)
    fitted: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", _checked(self.threshold, "The gate's threshold"))
        for name in ("by_type", "by_field"):
            table = getattr(self, name)
            if not isinstance(table, Mapping):
                raise CardError(f'The gate\'s "{name}" must be an object, not {table!r}.')
            odd = [key for key in table if not isinstance(key, str)]
            if odd:
                raise CardError(f'The names in the gate\'s "{name}" are text, not {odd[0]!r}.')
            made = {k: _checked(v, f'The gate\'s threshold of "{k}"') for k, v in table.items()}
            object.__setattr__(self, name, made)
        unknown = sorted(self.by_type.keys() - set(TYPES))
        if unknown:
            raise CardError(f'The gate names a type "{unknown[0]}"; there is {", ".join(TYPES)}.')
        if not isinstance(self.fitted, Mapping):
            raise CardError(f'The gate\'s "fitted" must be an object, not {self.fitted!r}.')

    @classmethod
    def parse(cls, content: object) -> Gate:
        """From the "gate" entry of a card. Raises CardError, for unknown entries too."""
        if not isinstance(content, Mapping):
            raise CardError(f"A gate must be an object, not {content!r}.")
        unknown = sorted(map(str, content.keys() - set(cls.__dataclass_fields__)))
        if unknown:
            raise CardError(f'The gate has an entry "{unknown[0]}" that readoff does not know.')
        if "threshold" not in content:
            raise CardError('The gate has no "threshold" (null accepts nothing).')
        return cls(**content)

    def to_json(self) -> dict[str, object]:
        """The "gate" entry of a card; `parse` reads it back to an equal gate."""
        found: dict[str, object] = {"threshold": self.threshold}
        for name in ("by_type", "by_field", "fitted"):
            if getattr(self, name):
                found[name] = dict(getattr(self, name))
        return found

    def threshold_for(self, question_type: str, field: str | None) -> float | None:
        """The threshold of a question; None accepts nothing."""
        if field is not None and field in self.by_field:
            return self.by_field[field]
        return self.by_type.get(question_type, self.threshold)

    def accepts(self, answer: Answer, field: str | None = None) -> bool:
        """Whether `answer`, to the question with id `field`, is accepted."""
        threshold = self.threshold_for(answer.type, field)
        return threshold is not None and top_probability(answer) >= threshold

    def judge(self, decision: Decision) -> dict[str, bool]:
        """Whether each answer of `decision` is accepted, by question id."""
        return {name: self.accepts(answer, name) for name, answer in decision.items()}


def top_probability(answer: Answer) -> float:
    """The largest of the probabilities that `answer` returns; of a noul, of either side."""
    if isinstance(answer, NoulAnswer):
        return max(answer.noul, 1.0 - answer.noul)
    return max(answer.probabilities.values())


def choose_gate(gate: Gate | float | None, card: Card) -> Gate | None:
    """The gate of a call: the one given, a number as the threshold of all; else the card's, if any.

    `Gate(0.0)` accepts everything. Raises CardError for a gate that makes no sense.
    """
    if gate is None:
        return Gate.parse(card.gate) if card.gate else None
    return gate if isinstance(gate, Gate) else Gate(gate)


def _checked(value: object, what: str) -> float | None:
    if value is None:
        return None
    real = isinstance(value, Real) and not isinstance(value, bool)  # NumPy's numbers are real too
    if not real or not 0.0 <= value <= 1.0:  # type: ignore[operator]  # nan fails too
        raise CardError(f"{what} must be a number from 0 to 1, or null, not {value!r}.")
    return float(value)  # type: ignore[arg-type]
