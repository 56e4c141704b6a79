"""What a report is made of, before it is Markdown or HTML: sections of text, tables, pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Paragraph:
    """One paragraph of plain text."""

    text: str


@dataclass(frozen=True)
class Table:
    """Cells of plain text, headings first. Columns whose number is in `left` are words."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: frozenset[int] = frozenset({0})
    caption: str = ""


@dataclass(frozen=True)
class Picture:
    """A drawing: `svg` stands by itself, `alt` says in words what it shows."""

    name: str
    title: str
    alt: str
    svg: str
    caption: str = ""


@dataclass(frozen=True)
class Pictures:
    """Drawings that stand side by side where there is room."""

    pictures: Sequence[Picture]


@dataclass(frozen=True)
class Card:
    """A number worth a glance. `good` is None where nothing was asked of it."""

    value: str
    label: str
    detail: str = ""
    good: bool | None = None


@dataclass(frozen=True)
class Cards:
    """Numbers side by side."""

    cards: Sequence[Card]


Block: TypeAlias = Paragraph | Table | Pictures | Cards


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    lead: Sequence[str]
    sections: Sequence[Section]
    warning: str = ""
