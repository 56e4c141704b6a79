"""What an exported graph is checked on: runs whose answers our own backbone computes too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from readoff.engine.card import Card
from readoff.engine.prompt import Prompt, Renderer
from readoff.engine.questions import Choice, Noul, Question, Score
from readoff.engine.text import Text
from readoff.export.graph.options import FixedLabels, GraphOptions

Ids = tuple[int, ...]

LENGTHS = (1, 63, 64, 65, 200)
"""Tokens: one, around a chunk of the delta rule, and several chunks."""

QUESTIONS: Mapping[str, Question] = {
    "team": Choice(
        instructions="Which team answers?",
        criteria={"shipping": "late or lost", "billing": None, "legal": None, "none": None},
    ),
    "anger": Score(instructions="How angry?", criteria=["calm", "annoyed", "furious"]),
    "refund": Noul(instructions="The customer asks for a refund."),
}
_SENTENCES = (
    "The parcel was to come on Monday, it is Friday, and nobody answers the phone. ",
    "I was charged twice, 39.90 each, and the bank says that it can't undo either. ",
    "谢谢，问题已经解决了，但是退款还没有到账。",
    "def total(rows):\n    return sum(row.price for row in rows if not row.cancelled)\n",
)
_TEMPERATURES = (0.7, 1.0, 1.9)


@dataclass(frozen=True)
class Row:
    """New tokens, and the labels, prior and temperature to read them with."""

    tokens: Ids
    labels: Ids
    prior: tuple[float, ...]
    temperature: float = 1.0


@dataclass(frozen=True)
class Probe:
    """One run: `rows` after the tokens `past`, which are run before and by themselves.

    `asked`: the rows end like prompts, so that the answers mean something.
    """

    what: str
    past: Ids
    rows: tuple[Row, ...]
    asked: bool = True

    def __len__(self) -> int:
        """Tokens of the longest chain."""
        return len(self.past) + max(len(row.tokens) for row in self.rows)


def parity_probes(renderer: Renderer, options: GraphOptions, limit: int) -> list[Probe]:
    """The check after every export, as far as it fits a context of `limit` tokens.

    New tokens of `LENGTHS` with and without a past, pasts of those lengths under questions, and
    runs of one repeated token; each with 1 row and with 3 of different lengths, which also have
    priors and temperatures.
    """
    made = [*_cold(renderer), *_after_a_state(renderer), *_states(renderer), *_repeated(renderer)]
    fitting = [probe for probe in made if len(probe) <= limit]
    return [_with_labels(probe, options) for probe in fitting]


def question_probes(
    renderer: Renderer, card: Card, state: Text, questions: Mapping[str, Question]
) -> list[Probe]:
    """The prompts of one request, in order, calibrated by `card`: questions about one state are one
    run after it. Where the question comes first nothing is shared, and each is a run.

    Raises QuestionError and TemplateError as the renderer does.
    """
    prompts = renderer.render(state, questions)
    rows = [
        Row(
            prompt.pieces[-1].ids,
            prompt.labels.ids,
            card.prior_for(question.type, name, len(question.options)),
            card.temperature_for(question.type, name, len(question.options)),
        )
        for (name, question), prompt in zip(questions.items(), prompts, strict=True)
    ]
    pasts = [_past(prompt) for prompt in prompts]
    if len(set(pasts)) == 1:
        return [Probe("questions", pasts[0], tuple(rows))]
    return [Probe("question", past, (row,)) for past, row in zip(pasts, rows, strict=True)]


def _past(prompt: Prompt) -> Ids:
    return tuple(index for piece in prompt.pieces[:-1] for index in piece.ids)


def _row(tokens: Ids, labels: Ids) -> Row:
    return Row(tokens, labels, (0.0,) * len(labels))


def _calibrated(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with priors and temperatures that differ from row to row."""
    return tuple(
        replace(
            row,
            prior=tuple(0.5 * (k - n) for k in range(len(row.labels))),
            temperature=_TEMPERATURES[n % len(_TEMPERATURES)],
        )
        for n, row in enumerate(rows)
    )


def _leaves(renderer: Renderer) -> list[Row]:
    """The question pieces of `QUESTIONS`."""
    order = replace(renderer.template, order="state-first")
    prompts = Renderer(renderer.tokenizer, order, renderer.alphabet.space).render("", QUESTIONS)
    return [_row(prompt.pieces[-1].ids, prompt.labels.ids) for prompt in prompts]


def _state(renderer: Renderer, length: int, first: int) -> Ids:
    """How a prompt of some text begins: exactly `length` tokens, the text from sentence `first`."""
    ids = renderer.prefix("").pieces[0].ids
    turn = 0
    while len(ids) < length:
        sentence = _SENTENCES[(first + turn) % len(_SENTENCES)]
        ids += renderer.tokenizer.encode_text(sentence)
        turn += 1
    return ids[:length]


def _ending(renderer: Renderer, ids: Ids) -> Ids:
    """`ids` with the answer cue at the end, where it leaves more than half of them."""
    cue = renderer.tokenizer.encode_control(renderer.template.cue)
    return ids if len(cue) * 2 > len(ids) else ids[: -len(cue)] + cue


def _lengths(longest: int) -> tuple[int, int, int]:
    return longest, max(1, longest // 2), max(1, longest - 1)


def _texts(renderer: Renderer, longest: int, drop: int = 0) -> list[Row]:
    """Three rows of text, the first `longest` tokens long; `drop` tokens are left out before."""
    labels = tuple(i for leaf in _leaves(renderer) for i in leaf.labels)
    rows = []
    for n, length in enumerate(_lengths(longest)):
        text = _state(renderer, drop + length, n)[drop:]
        rows.append(_row(_ending(renderer, text), labels))
    return rows


def _cold(renderer: Renderer) -> Iterator[Probe]:
    for length in LENGTHS:
        rows = _texts(renderer, length)
        yield Probe("text", (), tuple(rows[:1]), asked=False)
        yield Probe("text", (), _calibrated(rows), asked=False)


def _after_a_state(renderer: Renderer) -> Iterator[Probe]:
    state = _state(renderer, 70, 2)
    for length in LENGTHS:
        rows = _texts(renderer, length, drop=len(state))
        yield Probe("text", state, tuple(rows[:1]), asked=False)
        yield Probe("text", state, _calibrated(rows), asked=False)


def _states(renderer: Renderer) -> Iterator[Probe]:
    leaves = _leaves(renderer)
    for length in LENGTHS:
        state = _state(renderer, length, 1)
        yield Probe("questions", state, (leaves[-1],))
        yield Probe("questions", state, _calibrated(leaves))


def _repeated(renderer: Renderer) -> Iterator[Probe]:
    tokens = renderer.tokenizer.encode_text(_SENTENCES[0])[1:4]
    labels = _leaves(renderer)[0].labels
    longest = LENGTHS[-1]
    rows = tuple(
        _row((token,) * length, labels)
        for token, length in zip(tokens, _lengths(longest), strict=True)
    )
    for past in ((), rows[0].tokens):
        yield Probe("one token repeated", past, rows[:1], asked=False)
        yield Probe("one token repeated", past, rows, asked=False)


def _with_labels(probe: Probe, options: GraphOptions) -> Probe:
    """The probe with the labels that the graph has, where it hasn't all."""
    labels = options.labels
    if labels is None:
        return probe
    if isinstance(labels, FixedLabels):
        prior = labels.prior or (0.0,) * len(labels.ids)
        fixed = tuple(Row(r.tokens, labels.ids, prior, labels.temperature) for r in probe.rows)
        return replace(probe, rows=fixed)
    known = set(labels.ids)
    rows = (r if known.issuperset(r.labels) else _row(r.tokens, labels.ids) for r in probe.rows)
    return replace(probe, rows=tuple(rows))
