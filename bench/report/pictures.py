"""The pictures of latency: the ladder, over state length, over questions, over documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from matplotlib.ticker import FuncFormatter, NullFormatter

from readoff.bench.report.blocks import Picture
from readoff.bench.report.canvas import COLOURS, GREY, INK, Drawing, drawing
from readoff.bench.report.document import (
    Document,
    Row,
    axis,
    interval,
    names,
    rung,
    rungs,
    sharing_bound,
    workloads,
)

LINES = ("L0", "L1", "L1j", "L2t", "L3", "L4", "L5")
"""Rungs that are drawn as lines: the others lie too close to one of these."""


def ladder(document: Document, workload: Row) -> Picture | None:
    """Latency of every rung on one workload, the slowest on top."""
    rows = [row for row in rungs(document, workload["name"]) if row["p50_ms"]]
    if not rows:
        return None
    with drawing(height=0.75 + 0.42 * len(rows)) as made:
        axes = made.axes
        values = [row["p50_ms"] for row in rows]
        spread = [[0.0] * len(rows), [max(0.0, r["p95_ms"] - r["p50_ms"]) for r in rows]]
        axes.barh(
            range(len(rows)),
            values,
            height=0.62,
            color=[COLOURS.get(row["name"], GREY) for row in rows],
            xerr=spread,
            error_kw={"ecolor": GREY, "elinewidth": 1.2, "capsize": 2.5},
        )
        axes.set_xscale("log")
        axes.set_xlim(min(values) / 2, max(row["p95_ms"] for row in rows) * 8)
        axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        for place, row in enumerate(rows):
            ahead = interval(row, "L0")
            gain = f", {ahead[0]:.1f}×" if ahead and row["name"] != "L0" else ""
            end = max(row["p95_ms"], row["p50_ms"])
            axes.text(end * 1.15, place, f"{_ms(row['p50_ms'])}{gain}", va="center", fontsize=11)
        axes.set_xlabel("milliseconds a request (log)")
        _plain_numbers(made, "x")
    told = ", ".join(f"{row['name']} {_ms(row['p50_ms'])}" for row in rows)
    return made.picture(
        f"ladder-{_slug(workload['name'])}",
        f"The ladder: {workload['name']}",
        f"Bars of the median latency in milliseconds of each rung on {workload['name']}: {told}.",
        "Median, whisker to p95, and how many times faster than L0. "
        + "; ".join(f"{row['name']} {row['title']}" for row in rows)
        + ".",
    )


def by_state(document: Document) -> list[Picture]:
    """Latency against the length of the state, one picture for each number of questions."""
    groups: dict[float, list[Row]] = defaultdict(list)
    for workload in _curves(document):
        groups[axis(workload, "questions") or 1].append(workload)
    made = []
    for questions, members in sorted(groups.items()):
        lengths = {axis(w, "state_tokens") for w in members}
        if len(lengths) < 2:
            continue
        noun = "question" if questions == 1 else "questions"
        picture = _lines(
            document,
            members,
            "state_tokens",
            f"latency-by-state-{questions:g}",
            f"Latency against state length, {questions:g} {noun}",
            "state length, tokens",
        )
        made += [picture] if picture else []
    return made


def by_questions(document: Document) -> list[Picture]:
    """Latency against the number of questions, with what sharing the state can gain at most."""
    groups: dict[float, list[Row]] = defaultdict(list)
    for workload in _curves(document):
        groups[axis(workload, "state_tokens") or 0].append(workload)
    made = []
    for state, members in sorted(groups.items()):
        if len({axis(w, "questions") for w in members}) < 2:
            continue

        def bound(drawn: Drawing, found: list[Row] = members) -> None:
            points = sorted(filter(None, (_bound_point(document, w) for w in found)))
            if points:
                x, y = zip(*points, strict=True)
                dashes = (0, (3, 3))
                drawn.axes.plot(x, y, label="bound", color=INK, linestyle=dashes, linewidth=1.4)

        picture = _lines(
            document,
            members,
            "questions",
            f"latency-by-questions-{state:g}",
            f"Latency against questions, state of {state:g} tokens",
            "questions a request",
            "Dashed: L3 divided by the sharing bound Q(S+q)/(S+Qq), the best that one pass for "
            "all questions can reach.",
            bound,
        )
        made += [picture] if picture else []
    return made


def by_documents(document: Document) -> list[Picture]:
    """A search step's latency against the number of documents."""
    members = workloads(document, "search")
    if len({axis(w, "documents") for w in members}) < 2:
        return []
    made = []
    for language in sorted({w["language"] for w in members}):
        picture = _lines(
            document,
            [w for w in members if w["language"] == language],
            "documents",
            f"search-{language}",
            f"A search step, {language}",
            "documents",
        )
        made += [picture] if picture else []
    return made


def _curves(document: Document) -> list[Row]:
    """Workloads of states and questions; English where both languages ran, so that points of one
    curve differ in one thing."""
    found = workloads(document, "many", "paper")
    english = [w for w in found if w["language"] == "en"]
    return english or found


def _bound_point(document: Document, workload: Row) -> tuple[float, float] | None:
    apart = rung(document, workload["name"], "L3")
    sizes = [axis(workload, a) for a in ("state_tokens", "questions", "question_tokens")]
    if apart is None or not apart["p50_ms"] or None in sizes:
        return None
    state, questions, question = (float(size or 0) for size in sizes)
    return questions, apart["p50_ms"] / sharing_bound(state, questions, question)


def _lines(
    document: Document,
    members: list[Row],
    over: str,
    name: str,
    title: str,
    label: str,
    caption: str = "",
    more: Callable[[Drawing], None] | None = None,
) -> Picture | None:
    """One line a rung over one axis of the workloads, both scales logarithmic."""
    ran = names(row for w in members for row in rungs(document, w["name"]))
    told = []
    with drawing() as made:
        for contender in (n for n in LINES if n in ran):
            points = sorted(
                (axis(w, over) or 0.0, row["p50_ms"])
                for w in members
                if (row := rung(document, w["name"], contender)) is not None and row["p50_ms"]
            )
            if not points:
                continue
            x, y = zip(*points, strict=True)
            made.axes.plot(x, y, marker="o", color=COLOURS[contender], label=contender)
            told.append(f"{contender} from {_ms(y[0])} at {x[0]:g} to {_ms(y[-1])} at {x[-1]:g}")
        if not told:
            return None
        if more is not None:
            more(made)
        made.axes.set_xscale("log", base=2)
        made.axes.set_yscale("log")
        ticks = sorted({axis(w, over) or 0.0 for w in members})
        made.axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        made.axes.minorticks_off()
        made.axes.set_xlabel(label)
        made.axes.set_ylabel("milliseconds a request")
        _plain_numbers(made, "y")
        made.axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    alt = f"Lines of the median latency in milliseconds over {label}: {'; '.join(told)}."
    return made.picture(name, title, alt, caption)


def _plain_numbers(made: Drawing, which: str) -> None:
    """1,000 in place of a power of ten."""
    scale = made.axes.xaxis if which == "x" else made.axes.yaxis
    scale.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    scale.set_minor_formatter(NullFormatter())


def _ms(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2g} ms"


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")
