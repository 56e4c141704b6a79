"""evaluation.json: everything that was found, and what it was found on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from readoff.bench.report.commit import commit
from readoff.engine.card_fields import TYPES, Temperature
from readoff.learn.evaluate.chosen import Chosen, Tell
from readoff.learn.evaluate.contender import CALIBRATED, DEBIASED, JSON, TRAINED, ZERO_SHOT
from readoff.learn.evaluate.decisions import read_decisions
from readoff.learn.evaluate.gates import gates, losses
from readoff.learn.evaluate.scope import UNSEEN, Scope
from readoff.learn.evaluate.subject import Subject

SCHEMA = 1


@dataclass(frozen=True)
class Temperatures:
    """One a type of question and where they come from; none at all where `entry` is None."""

    entry: Temperature | None
    source: str
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any] | None:
        """As JSON values."""
        if self.entry is None:
            return None
        values = {kind: getattr(self.entry, kind) for kind in TYPES}
        return {"source": self.source, "values": values}


def document(
    chosen: Chosen,
    base: Subject,
    tuned: Subject,
    scopes: Sequence[Scope],
    temperatures: Temperatures,
    tell: Tell = lambda what, done, total: None,
) -> dict[str, Any]:
    """Everything that evaluation.json holds, JSON values only: no times, so that the same answers
    give the same document."""
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        tell("figures", done, 0)

    parts = [
        part
        for scope in scopes
        for part in scope.document(seed=chosen.seed, resamples=chosen.resamples, tell=step)
    ]
    tell("figures", done, done)
    known = {one.name for scope in scopes for one in scope.contenders}
    return {
        "schema": SCHEMA,
        "model": chosen.model,
        "adapter": chosen.adapter.name,
        "digests": {"weights": base.weights, "adapter": tuned.adapter_digest},
        "commit": commit(),
        "dtype": base.dtype,
        "debias": chosen.debias,
        "seed": chosen.seed,
        "resamples": chosen.resamples,
        "json_rows": chosen.json_rows,
        "files": _files(chosen, scopes),
        "contenders": [
            {"name": name, "about": text} for name, text in _about(chosen).items() if name in known
        ],
        "temperatures": temperatures.to_json(),
        "gates": [{**asdict(gate), "verdict": gate.word} for gate in gates(parts)],
        "losses": losses(parts),
        "scopes": parts,
        "notes": list(temperatures.notes),
    }


def _about(chosen: Chosen) -> dict[str, str]:
    ways = {
        "none": "nothing is subtracted",
        "prior": "the content-free prior of each question is subtracted",
        "rotate": "the logits of a choice are averaged over rotations of its options",
        "both": "the content-free prior is subtracted, and the logits of a choice are averaged "
        "over 4 rotations of its options (2 above 26), each with its own prior: the strongest of "
        "the remedies without labels in docs/calibration.md",
    }
    return {
        ZERO_SHOT: "the model without the adapter, probabilities as they are",
        DEBIASED: f"the same; {ways[chosen.debias]}",
        TRAINED: "with the adapter, probabilities as they are",
        CALIBRATED: "the same with one temperature for each type of question",
        JSON: "the model without the adapter writes a JSON object with answer and confidence, "
        "greedily under a grammar of legal answers; its distribution is the stated confidence on "
        "the answer, the rest shared evenly by the other options. No legal answer counts as wrong "
        "with the confidence stated, 1/n where none is. Probabilities below 1e-12 count as that.",
    }


def _files(chosen: Chosen, scopes: Sequence[Scope]) -> list[dict[str, Any]]:
    """Names, digests and sizes of what was tested on."""
    found: list[dict[str, Any]] = []
    for path in chosen.test:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        count = len(read_decisions([path], ("test",)))
        found.append({"name": path.name, "sha256": digest, "decisions": count})
    for scope in scopes:
        if scope.name == UNSEEN:
            for source in dict.fromkeys(scope.decisions.sources):
                count = sum(one == source for one in scope.decisions.sources)
                found.append({"name": source, "sha256": None, "decisions": count})
    return found
