"""curves.png: the loss of each step, the validation NLL, and the learning rate."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from readoff.bench.report.canvas import BLUE, GREY, ORANGE, STYLE


def curves(document: Mapping[str, Any]) -> bytes | None:
    """The picture as a PNG on white, None where no step was made."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    trained = [record for record in document["curve"] if "loss" in record]
    measured = [record for record in document["curve"] if "valid_nll" in record]
    if not trained:
        return None
    # Colours of the page are placeholders in the report's style; here the paper is white.
    style = {**STYLE, "text.color": "black", "axes.labelcolor": "black"}
    style |= {"xtick.labelcolor": "black", "ytick.labelcolor": "black"}
    with mpl.rc_context(style):
        figure = Figure(figsize=(7.0, 5.0), layout="constrained", facecolor="white")
        upper, lower = figure.subplots(2, 1, height_ratios=[3, 1], sharex=True)
        steps = [record["step"] for record in trained]
        nll = [record["nll"] for record in trained]
        upper.plot(steps, nll, color=GREY, linewidth=1.2, label="training NLL, step by step")
        at, values = ([record[key] for record in measured] for key in ("step", "valid_nll"))
        upper.plot(at, values, color=BLUE, marker="o", label="validation NLL")
        if document["best_step"]:
            upper.axvline(document["best_step"], color=GREY, linestyle=(0, (3, 3)), linewidth=1.2)
        upper.set_ylabel("NLL (nats)")
        upper.legend(loc="upper right")
        lower.plot(steps, [record["rate"] for record in trained], color=ORANGE)
        lower.set_ylabel("learning rate")
        lower.set_xlabel("step (dashed: the one that is stored)")
        raw = io.BytesIO()
        figure.savefig(raw, format="png", dpi=150, metadata={"Software": None})
    return raw.getvalue()
