"""Labels: an option's name, a level's index, true or false, or a weight for each of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from readoff.bench.records import Target
from readoff.engine.questions import Choice, Question, Score

_ROUNDING = 1e-12  # sums this near to 1 are left alone, so that a file can be written and reread


def parse_label(label: object, question: Question) -> Target:
    """The target that a label of `question` stands for; options of weight 0 are left out.

    Raises ValueError, whose message says what is wrong.
    """
    if isinstance(label, Mapping):
        return normalised(label, question)
    return {_option(label, question): 1.0}


def render_label(target: Target, question: Question) -> object:
    """The plainest label that `parse_label` reads back as `target`."""
    if len(target) > 1:
        return dict(target)
    (option,) = target
    if isinstance(question, Choice):
        return option
    return int(option) if isinstance(question, Score) else option == "true"


def normalised(weights: Mapping[str, object], question: Question) -> Target:
    """Weights by option, divided by their sum. Raises ValueError."""
    found: dict[str, float] = {}
    for option, weight in weights.items():
        if option not in question.options:
            raise ValueError(_outside(option, question))
        found[option] = parse_weight(weight, f"the weight of label {_show(option)}")
    largest = max(found.values(), default=0.0)
    if largest == 0.0:
        raise ValueError("no label has a weight above zero")
    total = math.fsum(weight / largest for weight in found.values())  # can't overflow
    if not abs(total * largest - 1.0) <= _ROUNDING:
        found = {option: weight / largest / total for option, weight in found.items()}
    return {option: weight for option, weight in found.items() if weight > 0.0}


def parse_weight(weight: object, what: str) -> float:
    """A finite number that isn't negative. Raises ValueError, naming `what`."""
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise ValueError(f"{what} must be a number, not {_show(weight)}")
    try:
        number = float(weight)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0.0:
        raise ValueError(f"{what} must be finite and not negative, and it is {number}")
    return number


def _option(label: object, question: Question) -> str:
    if isinstance(question, Choice):
        if not isinstance(label, str):
            raise ValueError(f"the label of a choice is an option's name, not {_show(label)}")
        option = label
    elif isinstance(question, Score):
        if isinstance(label, bool) or not isinstance(label, int):
            raise ValueError(f"the label of a score is a level's index, not {_show(label)}")
        option = str(label)
    else:
        if not isinstance(label, bool):
            raise ValueError(f"the label of a noul is true or false, not {_show(label)}")
        option = "true" if label else "false"
    if option not in question.options:
        raise ValueError(_outside(label, question))
    return option


def _outside(label: object, question: Question) -> str:
    shown = ", ".join(question.options[:8]) + (", …" if len(question.options) > 8 else "")
    return f"the label {_show(label)} is none of the options ({shown})"


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"
