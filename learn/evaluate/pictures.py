"""The pictures of an evaluation: reliability before and after, accuracy by family."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from readoff.bench.report.canvas import BLUE, GREY, ORANGE, RED, TEAL, VIOLET, Drawing, drawing
from readoff.learn.evaluate.contender import CALIBRATED, DEBIASED, JSON, TRAINED, ZERO_SHOT
from readoff.learn.evaluate.scope import SAMPLE

COLOURS = {
    JSON: RED,
    ZERO_SHOT: ORANGE,
    DEBIASED: VIOLET,
    TRAINED: TEAL,
    CALIBRATED: BLUE,
}
_BARS = (JSON, ZERO_SHOT, DEBIASED, TRAINED)  # a temperature changes no answer


@dataclass(frozen=True)
class Drawn:
    """A picture as PNG on white, and in words."""

    name: str
    alt: str
    png: bytes


def pictures(document: Mapping[str, Any]) -> Iterator[Drawn]:
    """For each scope: reliability of all, of each family, and the bars of accuracy.

    Where there is a sample that the JSON answered, the bars and the diagram of all are of it.
    """
    scopes = {scope["name"]: scope for scope in document["scopes"]}
    for name, scope in scopes.items():
        if name.endswith(SAMPLE):
            continue
        shared = scopes.get(name + SAMPLE, scope)
        yield _bars(shared, name)
        yield _reliability(shared, "all", "all", (JSON, ZERO_SHOT, _served(shared)), name)
        for row in scope["rows"]:
            if row["kind"] == "family" and row["contender"] == ZERO_SHOT:
                pair = (ZERO_SHOT, _served(scope))
                yield _reliability(scope, "family", row["slice"], pair, name)


def _served(scope: Mapping[str, Any]) -> str:
    known = {row["contender"] for row in scope["rows"]}
    return CALIBRATED if CALIBRATED in known else TRAINED


def _bars(scope: Mapping[str, Any], name: str) -> Drawn:
    rows = [row for row in scope["rows"] if row["kind"] == "family"]
    families = list(dict.fromkeys(row["slice"] for row in rows))
    shown = [one for one in _BARS if any(row["contender"] == one for row in rows)]
    height = 0.8 / max(1, len(shown))
    told = []
    with drawing(height=1.2 + 0.75 * len(families)) as made:
        axes = made.axes
        for number, contender in enumerate(shown):
            own = {row["slice"]: row for row in rows if row["contender"] == contender}
            values = [own[family]["accuracy"] for family in families]
            ends = [
                own[family]["accuracy_interval"] or [v, v]
                for family, v in zip(families, values, strict=True)
            ]
            spread = [
                [max(0.0, v - low) for v, (low, _) in zip(values, ends, strict=True)],
                [max(0.0, high - v) for v, (_, high) in zip(values, ends, strict=True)],
            ]
            places = [i + (number - (len(shown) - 1) / 2) * height for i in range(len(families))]
            axes.barh(
                places,
                values,
                height=height * 0.9,
                color=COLOURS[contender],
                label=contender,
                xerr=spread,
                error_kw={"ecolor": GREY, "elinewidth": 1.2, "capsize": 2.0},
            )
            told += [f"{contender} on {f} {v:.2f}" for f, v in zip(families, values, strict=True)]
        axes.set_yticks(range(len(families)), families)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("accuracy, 95 % intervals")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        png = _png(made)
    return Drawn(f"accuracy-{name}.png", f"Accuracy by family: {', '.join(told)}.", png)


def _reliability(
    scope: Mapping[str, Any], kind: str, part: str, contenders: Sequence[str], name: str
) -> Drawn:
    told = []
    with drawing(height=4.2) as made:
        axes = made.axes
        axes.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (3, 3)), linewidth=1.2)
        for contender in contenders:
            for row in scope["rows"]:
                if (row["kind"], row["slice"], row["contender"]) != (kind, part, contender):
                    continue
                x, y = ([b[key] for b in row["bins"]] for key in ("confidence", "accuracy"))
                ece = "" if row["ece"] is None else f", ECE {row['ece']:.3f}"
                axes.plot(
                    x,
                    y,
                    color=COLOURS[contender],
                    linewidth=1.6,
                    marker="o",
                    label=f"{contender}{ece}",
                    clip_on=False,
                )
                pairs = "; ".join(f"{a:.2f} said, {b:.2f} right" for a, b in zip(x, y, strict=True))
                told.append(f"{contender}{ece}: {pairs}")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("confidence (probability)")
        axes.set_ylabel("share that is right")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1)
        png = _png(made)
    slug = "".join(c if c.isalnum() else "-" for c in part.lower())
    alt = f"Reliability diagram, {part}. {'. '.join(told)}."
    return Drawn(f"reliability-{name}-{slug}.png", alt, png)


def _png(made: Drawing) -> bytes:
    """On white: equal documents give equal bytes."""
    out = io.BytesIO()
    made.figure.savefig(out, format="png", dpi=144, facecolor="white", metadata={"Software": None})
    return out.getvalue()
