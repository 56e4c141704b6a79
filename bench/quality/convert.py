"""Public data sets as labelled decisions. The data is read from a path; none of it is kept here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from readoff.bench.quality import (
    navigation,
    relevance,
    rewriting,
    routing,
    sufficiency,
    verification,
)
from readoff.bench.quality.files import QualityError
from readoff.bench.quality.items import Item, balanced
from readoff.bench.records import Ask
from readoff.bench.workloads.lexicon import Family

Converter = Callable[[str | Path], Iterator[Item]]
CONVERTERS: Mapping[str, tuple[Family, Converter]] = {
    "banking77": ("routing", routing.banking77),
    "clinc150": ("routing", routing.clinc150),
    "intent_recognition": ("routing", routing.intent_recognition),
    "metaphor_boolean": ("rewriting", rewriting.metaphor_boolean),
    "cranfield": ("relevance", relevance.cranfield),
    "evaluating_information_essentiality": (
        "sufficiency",
        sufficiency.evaluating_information_essentiality,
    ),
    "question_selection": ("navigation", navigation.question_selection),
    "entailed_polarity": ("verification", verification.entailed_polarity),
    "analytic_entailment": ("verification", verification.analytic_entailment),
    "presuppositions_as_nli": ("verification", verification.presuppositions_as_nli),
}
"""The family and the converter of each data set."""


def convert(name: str, path: str | Path, *, limit: int | None = None, seed: int = 0) -> list[Ask]:
    """At most `limit` decisions of the data set `name`, balanced over its answers.

    `path` is the data set's file, its folder, or the folder that holds that one. The same seed
    draws the same decisions. Raises QualityError.
    """
    if name not in CONVERTERS:
        raise QualityError(f'There is no data set "{name}"; there is {", ".join(CONVERTERS)}.')
    if limit is not None and limit < 1:
        raise QualityError(f"The limit must be at least 1, not {limit}.")
    _, converter = CONVERTERS[name]
    try:
        return balanced(converter(path), limit, seed)
    except QualityError:
        raise
    except ValueError as error:  # what an example lacks
        raise QualityError(f"{name} in {path}: {error}.") from error
