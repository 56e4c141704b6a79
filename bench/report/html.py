"""A report as one HTML file: no script, nothing from outside, pictures inside."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from readoff.bench.report.blocks import Block, Cards, Page, Paragraph, Picture, Pictures, Table
from readoff.bench.report.style import CSS

LONG = 40
"""Characters from which a cell's text may take several lines."""


def render(page: Page) -> str:
    """The whole document."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(page.title)}</title>",
        # An icon of its own: without one a browser asks the server for one.
        '<link rel="icon" href="data:,">',
        f"<style>{CSS}</style></head><body><main>",
        f"<h1>{escape(page.title)}</h1>",
    ]
    if page.warning:
        parts.append(f'<p class="warning" role="alert">{escape(page.warning)}</p>')
    lead = "".join(f"<p>{escape(text)}</p>" for text in page.lead)
    parts.append(f'<div class="lead">{lead}</div>')
    for section in page.sections:
        parts.append(f"<section><h2>{escape(section.title)}</h2>")
        for block in section.blocks:
            parts.extend(_block(block))
        parts.append("</section>")
    parts.append("</main></body></html>")
    return "\n".join(parts) + "\n"


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Paragraph):
        yield f"<p>{escape(block.text)}</p>"
    elif isinstance(block, Cards):
        yield '<div class="cards">'
        for card in block.cards:
            mood = "" if card.good is None else " good" if card.good else " bad"
            yield (
                f'<div class="card{mood}"><b>{escape(card.value)}</b>'
                f'<span class="label">{escape(card.label)}</span>'
                f"<span>{escape(card.detail)}</span></div>"
            )
        yield "</div>"
    elif isinstance(block, Pictures):
        yield '<div class="pictures">'
        for picture in block.pictures:
            yield _figure(picture)
        yield "</div>"
    else:
        yield from _table(block)


def _figure(picture: Picture) -> str:
    caption = f"<figcaption>{escape(picture.caption)}</figcaption>" if picture.caption else ""
    return (
        f'<figure id="{escape(picture.name)}"><h3>{escape(picture.title)}</h3>'
        f"{picture.svg}{caption}</figure>"
    )


def _table(table: Table) -> Iterator[str]:
    # A table wider than the screen scrolls by itself; tabindex lets the keyboard do so too.
    if table.caption:  # outside: it doesn't scroll away
        yield f'<p class="caption">{escape(table.caption)}</p>'
    label = f' aria-label="{escape(table.caption)}"' if table.caption else ""
    yield f'<div class="scroll" tabindex="0"><table{label}>'
    heads = "".join(f"<th{_class(i, table)}>{escape(h)}</th>" for i, h in enumerate(table.head))
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for row in table.rows:
        cells = "".join(
            f"<td{_class(i, table, cell)}>{escape(cell)}</td>" for i, cell in enumerate(row)
        )
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table></div>"


def _class(column: int, table: Table, cell: str = "") -> str:
    names = []
    if column in table.left:
        names.append("word")
    if len(cell) > LONG:
        names.append("long")
    mood = {"met": "good", "green": "good", "missed": "bad", "red": "bad"}
    if cell.partition(" ")[0] in mood:
        names.append(mood[cell.partition(" ")[0]])
    return f' class="{" ".join(names)}"' if names else ""
