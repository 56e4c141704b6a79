"""The pictures of a calibration: reliability before and after, and risk over coverage."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from readoff.bench.report.blocks import Picture
from readoff.bench.report.canvas import BLUE, GREY, ORANGE, Drawing, drawing

BEFORE, AFTER = ("before", ORANGE), ("after", BLUE)


@dataclass(frozen=True)
class Drawn:
    """A picture for a page, and as a PNG on white."""

    picture: Picture
    png: bytes


def pictures(document: Mapping[str, Any]) -> Iterator[Drawn]:
    """Those of all decisions, then of each type where there are several."""
    for part in document["parts"]:
        if not part["name"].startswith('"'):
            yield _reliability(part)
            yield _risk(part)


def _reliability(part: Mapping[str, Any]) -> Drawn:
    told = []
    with drawing(height=4.0) as made:
        axes = made.axes
        axes.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (3, 3)), linewidth=1.2)
        for key, colour in (BEFORE, AFTER):
            bins = part[key]["bins"]
            x, y = ([b[name] for b in bins] for name in ("confidence", "accuracy"))
            if key == "after" and part[key]["calibrated_ece"] is not None:
                low, high = ([b[n] for b in bins] for n in ("expected_low", "expected_high"))
                axes.fill_between(x, low, high, color=GREY, alpha=0.25, linewidth=0)
            axes.plot(x, y, color=colour, linewidth=1.6, marker="o", label=key, clip_on=False)
            pairs = "; ".join(f"{a:.2f} said, {b:.2f} right" for a, b in zip(x, y, strict=True))
            told.append(f"{key}: {pairs}")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("confidence (probability)")
        axes.set_ylabel("share that is right")
        axes.legend(loc="upper left")
    name = part["name"]
    before, after = part["before"], part["after"]
    caption = (
        f"{part['decisions']} decisions, out of fold: ECE {before['ece']:.3f} before and "
        f"{after['ece']:.3f} after"
    )
    if after["calibrated_ece"] is None:
        caption += "; some labels are soft, so what a calibrated model would show isn't told."
    else:
        caption += (
            f"; {after['calibrated_ece']:.3f} if perfectly calibrated. The grey band holds 95 % of "
            "samples of a calibrated model."
        )
    alt = f"Reliability diagram of {name}. {'. '.join(told)}."
    return _drawn(made, f"reliability-{name}", f"Reliability, {name}", alt, caption)


def _risk(part: Mapping[str, Any]) -> Drawn:
    with drawing(height=4.0) as made:
        axes = made.axes
        for key, colour in (BEFORE, AFTER):
            points = part[key]["curve"]
            x, y = ([point[i] for point in points] for i in (0, 1))
            axes.plot(x, y, color=colour, label=key, linewidth=1.6)
        axes.set_xlim(0, 1)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("coverage: share that is accepted")
        axes.set_ylabel("risk: share of these that is wrong")
        axes.legend(loc="lower right")
    before, after = part["before"], part["after"]
    caption = (
        f"Area under the curve {before['aurc']:.3f} before and {after['aurc']:.3f} after; "
        f"{after['best_aurc']:.3f} if every right answer were surer than every wrong one."
    )
    name = part["name"]
    alt = f"Risk over coverage of {name}: {caption}"
    return _drawn(made, f"risk-{name}", f"Risk and coverage, {name}", alt, caption)


def _drawn(made: Drawing, name: str, title: str, alt: str, caption: str) -> Drawn:
    png = io.BytesIO()
    made.figure.savefig(png, format="png", dpi=144, facecolor="white", metadata={"Software": None})
    return Drawn(made.picture(name, title, alt, caption), png.getvalue())
