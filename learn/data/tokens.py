"""How many tokens the rows are for a model: every piece of a row once, as the engine runs it."""

from __future__ import annotations

from collections.abc import Iterable

from readoff.engine.prompt import Renderer
from readoff.learn.data.row import Row


def renderer(model: str) -> Renderer:
    """The renderer of a model's tokenizer and chat template; its weights are not read.

    Raises SourceError, CardError or TemplateError.
    """
    # Inside, so that data sets can be made without torch when no tokens are counted.
    from readoff.engine.loading import find_card, load_renderer
    from readoff.engine.source import bare, resolve

    checkpoint = resolve(bare(model))
    return load_renderer(checkpoint, find_card(checkpoint))


def count(rows: Iterable[Row], render: Renderer) -> int:
    """The tokens of all rows: preamble and state once a row, then its questions."""
    return sum(row_tokens(row, render) for row in rows)


def row_tokens(row: Row, render: Renderer) -> int:
    """The tokens of one row in one pass."""
    questions = {name: draft.question for name, draft in row.drafts.items()}
    prompts = render.render(row.state, questions)
    shared = sum(len(piece.ids) for piece in prompts[0].pieces[:-1])
    return shared + sum(len(prompt.pieces[-1].ids) for prompt in prompts)
