"""The intents of a source: what each is called in English and Chinese, and its area."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from readoff.bench.records import Language
from readoff.learn.data import banking_en, banking_zh, clinc_en, clinc_zh, kin
from readoff.learn.data.errors import DataError

_TABLES: Mapping[str, Mapping[Language, str]] = {
    "clinc150": {"en": clinc_en.TABLE, "zh": clinc_zh.TABLE},
    "banking77": {"en": banking_en.TABLE, "zh": banking_zh.TABLE},
}
_PUBLISHED_AREAS = ("clinc150",)
"""The areas of the other sources are ours."""


@dataclass(frozen=True)
class Intent:
    """One thing that messages can ask for.

    `id` is the source's own label. `wish` follows "wants to" (想), `about` is a description.
    `kin` are other intents, and `also` other areas, that its messages may be said to have too.
    """

    id: str
    area: str
    wish: Mapping[Language, str]
    about: Mapping[Language, str]
    kin: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Catalogue:
    """Intents and areas of one source, those only that its messages have. `published`: the areas
    are the source's own, not ours."""

    intents: Mapping[str, Intent]
    areas: Mapping[str, Mapping[Language, str]]
    published: bool

    def of_area(self, area: str) -> list[str]:
        """The ids of an area's intents, in the order of the tables."""
        return [name for name, intent in self.intents.items() if intent.area == area]

    def unrelated(self, intent: str) -> list[str]:
        """The ids of all intents that have nothing to do with `intent`: of other areas, none of
        which either of the two may be looked for under, and no kin."""
        own = self.intents[intent]
        return [
            name
            for name, other in self.intents.items()
            if name not in own.kin
            and other.area not in own.also | {own.area}
            and own.area not in other.also
        ]


def catalogue(source: str, labels: Iterable[str]) -> Catalogue:
    """The catalogue of `source` for the intents in `labels`.

    Raises DataError for a label that the source's tables don't know.
    """
    english, areas_en = _parse(_TABLES[source]["en"])
    chinese, areas_zh = _parse(_TABLES[source]["zh"])
    wanted = set(labels)
    unknown = sorted(wanted - english.keys())
    if unknown:
        raise DataError(
            f'{source} has messages of the intent "{unknown[0]}", which it should not have '
            f"({len(unknown)} such intents). Use the published files."
        )
    related, also = kin.pairs(source), kin.areas(source)
    nothing: frozenset[str] = frozenset()
    intents = {
        name: Intent(
            name,
            area,
            {"en": wish, "zh": chinese[name][1]},
            {"en": about, "zh": chinese[name][2]},
            related.get(name, nothing),
            also.get(name, nothing),
        )
        for name, (area, wish, about) in english.items()
        if name in wanted
    }
    used = {intent.area for intent in intents.values()}
    areas: dict[str, Mapping[Language, str]] = {
        area: {"en": name, "zh": areas_zh[area]} for area, name in areas_en.items() if area in used
    }
    return Catalogue(intents, areas, source in _PUBLISHED_AREAS)


def _parse(table: str) -> tuple[dict[str, tuple[str, str, str]], dict[str, str]]:
    """Intents (area, wish, description) and areas of a table."""
    intents: dict[str, tuple[str, str, str]] = {}
    areas: dict[str, str] = {}
    area = ""
    for line in filter(None, table.splitlines()):
        if line.startswith("["):
            area, _, name = line[1:].partition("] ")
            areas[area] = name
        else:
            name, wish, about = line.split(" | ")
            intents[name] = (area, wish, about)
    return intents, areas
