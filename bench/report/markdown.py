"""A report as Markdown: what a terminal, a pull request or a mail shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from readoff.bench.report.blocks import Block, Cards, Page, Paragraph, Pictures, Table


def render(page: Page) -> str:
    """The whole report; pictures are told in words."""
    lines = [f"# {_escaped(page.title)}", ""]
    if page.warning:
        lines += [f"**{_escaped(page.warning)}**", ""]
    for text in page.lead:
        lines += [_escaped(text), ""]
    for section in page.sections:
        lines += [f"## {_escaped(section.title)}", ""]
        for block in section.blocks:
            lines += [*_block(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Paragraph):
        yield _escaped(block.text)
    elif isinstance(block, Cards):
        for card in block.cards:
            detail = f" ({_escaped(card.detail)})" if card.detail else ""
            yield f"- **{_escaped(card.value)}** {_escaped(card.label)}{detail}"
    elif isinstance(block, Pictures):
        for picture in block.pictures:
            yield f"*{_escaped(picture.title)}* (drawn in report.html): {_escaped(picture.alt)}"
            yield ""
    else:
        yield from render_table(block)


def render_table(table: Table) -> Iterator[str]:
    """The lines of one table."""
    if table.caption:
        yield _escaped(table.caption)
        yield ""
    yield _row([_escaped(cell) for cell in table.head])
    yield _row(["---" if i in table.left else "---:" for i in range(len(table.head))])
    for row in table.rows:
        yield _row([_escaped(cell) for cell in row])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    """Text whose own characters aren't taken for markup."""
    for sign in "\\`*_<>|[]":
        text = text.replace(sign, "\\" + sign)
    return " ".join(text.split())
