"""report.html in headless Chromium: every picture, its axes and units, from phone to desktop."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from readoff.bench.report import html, sections

from . import samples
from .browser import look

PAGE = html.render(sections.page(samples.document()))


def axes(name: str) -> list[str]:
    """What must be written on a picture's axes, units included."""
    if name.startswith("ladder"):
        return ["milliseconds a request (log)", "L0", "L4"]
    if name.startswith("reliability"):
        return ["confidence (probability)", "share that is right"]
    across = {
        "latency-by-state": "state length, tokens",
        "latency-by-questions": "questions a request",
        "search": "documents",
    }
    (label,) = (text for start, text in across.items() if name.startswith(start))
    return [label, "milliseconds a request"]


@pytest.mark.parametrize("width", [360, 1200])
def test_every_picture_is_there_and_readable(chromium: str, width: int, tmp_path: Path) -> None:
    found, console = look(chromium, PAGE, width, tmp_path)
    assert console == ""
    assert found["width"] == width
    assert found["content"] <= width, "the page scrolls sideways"
    pictures: list[dict[str, Any]] = found["pictures"]
    names = [picture["name"] for picture in pictures]
    kinds = {re.match(r"[a-z]+(-by-[a-z]+)?", name)[0] for name in names}  # type: ignore[index]
    assert kinds == {"ladder", "latency-by-state", "latency-by-questions", "search", "reliability"}
    assert sum(name.startswith("reliability") for name in names) == 3
    for picture in pictures:
        for text in axes(picture["name"]):
            assert text in picture["texts"], picture["name"]
        assert picture["outside"] == [], picture["name"]
        assert 0 <= picture["left"] < picture["right"] <= width
        assert picture["right"] - picture["left"] >= 0.8 * min(width, 360)
        assert picture["height"] >= 150
        assert picture["smallest"] >= 9, "too small to read"
        assert picture["role"] == "img"
        assert len(picture["label"]) > 40
    assert min(found["fonts"]) >= 12
    assert found["missing"] == []
    assert len(found["ids"]) == len(set(found["ids"])), "two elements share an id"


def test_the_bound_is_drawn_beside_the_measured_times(chromium: str, tmp_path: Path) -> None:
    found, _ = look(chromium, PAGE, 600, tmp_path)
    drawn = [p for p in found["pictures"] if p["name"].startswith("latency-by-questions")]
    assert drawn
    assert all("bound" in picture["texts"] for picture in drawn)


def test_dark_readers_get_light_ink(chromium: str, tmp_path: Path) -> None:
    colours = {}
    for dark in (False, True):
        found, _ = look(chromium, PAGE, 600, tmp_path, dark=dark)
        red = {re.search(r"\d+", picture["colour"])[0] for picture in found["pictures"]}  # type: ignore[index]
        (colours[dark],) = map(int, red)
    assert colours[False] < 60
    assert colours[True] > 200
