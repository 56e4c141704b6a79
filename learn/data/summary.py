"""Counts of what a data set holds, for its data.json and for the screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from readoff.learn.data.row import Row


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """Rows, questions, and questions by source, family, kind, type, language, and options."""
    counts: dict[str, Counter[str]] = {
        name: Counter()
        for name in ("source", "family", "kind", "type", "language", "options", "answers")
    }
    questions = 0
    for row in rows:
        counts["source"][row.source] += 1
        for draft in row.drafts.values():
            questions += 1
            counts["family"][draft.family] += 1
            kind = "n" if draft.kind.isdigit() else draft.kind
            counts["kind"][f"{draft.family}_{kind}"] += 1
            counts["type"][draft.question.type] += 1
            counts["language"][row.language] += 1
            size = len(draft.question.options)
            if draft.question.type != "choice":
                counts["answers"][f"{draft.question.type}/{size}: {draft.answer}"] += 1
            else:
                counts["options"][f"{size:03}"] += 1
    found: dict[str, object] = {"rows": len(rows), "questions": questions}
    for name, counter in counts.items():
        key = {"source": "rows_by_source", "answers": "answers"}.get(name, f"questions_by_{name}")
        found[key] = {label.lstrip("0"): counter[label] for label in sorted(counter)}
    return found
