"""matplotlib figures as SVG that lies inside a page: light and dark, no outside resource."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from readoff.bench.report.blocks import Picture

INK = "#010203"
"""Stands for the page's own text colour: replaced by `currentColor` in the SVG."""

GREY = "#8b95a1"
ORANGE, RED, VIOLET, BLUE, TEAL, GREEN = (
    "#d97706",
    "#dc4437",
    "#8b5cf6",
    "#3b82f6",
    "#0d9488",
    "#16a34a",
)
"""Readable on white and on near-black."""

COLOURS = {
    "L0": RED,
    "L1": ORANGE,
    "L1j": "#b7791f",
    "L2t": GREY,
    "L2": VIOLET,
    "L3": "#6366f1",
    "L4": BLUE,
    "L5": TEAL,
    "L6": GREEN,
    "L7": "#65a30d",
}
"""The same rung has the same colour in every picture: JSON warm, transformers grey, ours cool."""

STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and scaled
    "font.family": "sans-serif",
    "font.size": 12.0,
    "axes.labelsize": 12.0,
    "xtick.labelsize": 11.0,
    "ytick.labelsize": 11.0,
    "legend.fontsize": 11.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.markersize": 5.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}

WIDTH, HEIGHT = 5.0, 3.7  # inches: 360 by 266 units, so that a phone shows text at its size


class Drawing:
    """A figure with one pair of axes, and what it becomes."""

    def __init__(self, figure: Figure, axes: Axes) -> None:
        self.figure, self.axes = figure, axes

    def picture(self, name: str, title: str, alt: str, caption: str = "") -> Picture:
        """The figure as a picture whose ids begin with `name`."""
        with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
            raw = io.StringIO()
            self.figure.savefig(raw, format="svg", metadata={"Date": None})
        return Picture(name, title, alt, _inline(raw.getvalue(), name, alt), caption)


@contextmanager
def drawing(height: float = HEIGHT) -> Iterator[Drawing]:
    """An empty drawing `height` inches high, in the report's style."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield Drawing(figure, figure.add_subplot())


def _inline(svg: str, name: str, alt: str) -> str:
    """The <svg> element alone: own ids, the page's colour and font, a text for who can't see."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(xlink:href=")#', rf"\1#{name}-", svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font: \1 system-ui, sans-serif", svg)
    label = alt.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    head, _, rest = svg.partition(">")
    head = re.sub(r'\s(?:width|height)="[^"]*pt"', "", head)
    return f'{head} role="img" aria-label="{label}"><title>{label}</title>{rest.strip()}'
