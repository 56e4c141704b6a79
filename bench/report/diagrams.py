"""Reliability diagrams: how often an answer is right, against how sure it says it is."""

from __future__ import annotations

from readoff.bench.report.blocks import Picture
from readoff.bench.report.canvas import BLUE, GREY, ORANGE, VIOLET, drawing
from readoff.bench.report.document import Row

KINDS = {
    "readout": ("Readout probability", BLUE),
    "stated": ("Confidence stated in the JSON", ORANGE),
    "tokens": ("Token probability of the JSON answer", VIOLET),
}


def reliability(row: Row) -> Picture | None:
    """One diagram: a rung's confidence of one kind on one set of labelled decisions.

    `row["bins"]` are {"confidence", "accuracy", "count", "expected_low", "expected_high"} of equal
    mass; what is expected is a calibrated model's accuracy in 95 % of samples, None where labels
    are soft, and so is `row["calibrated_ece"]`.
    """
    bins = [b for b in row.get("bins") or [] if b["count"]]
    if not bins:
        return None
    title, colour = KINDS[row["kind"]]
    with drawing(height=4.0) as made:
        axes = made.axes
        axes.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (3, 3)), linewidth=1.2)
        x = [b["confidence"] for b in bins]
        y = [b["accuracy"] for b in bins]
        if (expected := row.get("calibrated_ece")) is not None:
            low, high = ([b[key] for b in bins] for key in ("expected_low", "expected_high"))
            axes.fill_between(x, low, high, color=GREY, alpha=0.25, linewidth=0)
        most = max(b["count"] for b in bins)
        sizes = [24 + 70 * b["count"] / most for b in bins]
        axes.plot(x, y, color=colour, linewidth=1.6)
        axes.scatter(x, y, s=sizes, color=colour, zorder=3)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("confidence (probability)")
        axes.set_ylabel("share that is right")
    told = "; ".join(f"{a:.2f} said, {b:.2f} right" for a, b in zip(x, y, strict=True))
    name = "".join(c if c.isalnum() else "-" for c in f"{row['workload']}-{row['rung']}").lower()
    calibrated = "; some labels are soft, so what a calibrated model would show isn't told"
    band = ""
    if expected is not None:
        calibrated = f", {expected:.3f} if perfectly calibrated"
        band = "; the grey band holds 95 % of samples of a calibrated model"
    return made.picture(
        f"reliability-{name}-{row['kind']}",
        f"{title}, {row['rung']}",
        f"Reliability diagram of {title.lower()} of {row['rung']} on {row['workload']}: {told}.",
        f"{row['workload']}, {row['n']} decisions: ECE {row['ece']:.3f}{calibrated}. "
        f"On the dashed line, confidence is right as often as it says{band}.",
    )
