"""How many rows of which shape, and which messages they are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

from readoff.bench.records import Language
from readoff.bench.workloads.lexicon import Dice
from readoff.learn.data import assemble
from readoff.learn.data.desk import Desk
from readoff.learn.data.draft import chance, draw
from readoff.learn.data.errors import DataError
from readoff.learn.data.messages import OUT_OF_SCOPE, Message, Split
from readoff.learn.data.row import Row

SHAPES: Mapping[str, float] = {
    "message": 0.52,
    "pair": 0.17,
    "notes": 0.08,
    "form": 0.12,
    "browse": 0.11,
}
"""Shares of rows."""

_SOURCES = {"clinc150": 0.5, "banking77": 0.5}
_CHINESE = 0.25
_OUTSIDE = 0.04  # of the rows of one message: those out of scope, as far as they go
_ALL_INTENTS = 0.1  # of BANKING77's rows of one message: the choice among all its intents
_SIZES = {"few": 0.2, "5": 0.25, "some": 0.2, "15": 0.22, "many": 0.13}
_RANGES = {"few": (2, 4), "5": (5, 5), "some": (6, 10), "15": (15, 15), "many": (11, 20)}
_EXTRAS = {
    "area": 0.5,
    "topic": 0.9,
    "claim": 0.9,
    "three_way": 0.8,
    "pick": 0.8,
    "settles": 0.6,
    "link": 0.7,
}
_TRIES = 100

Offices = Mapping[str, tuple[Desk, str]]
"""Desks and licences by source."""


class Deck:
    """The messages of a desk, intent by intent, each once before any comes again."""

    def __init__(self, desk: Desk, dice: Dice) -> None:
        intents = [name for name in desk.pool if name != OUT_OF_SCOPE]
        piles = {name: dice.sample(desk.pool[name], len(desk.pool[name])) for name in intents}
        self._scoped = _rounds(piles, dice)
        outside = desk.pool.get(OUT_OF_SCOPE, ())
        self._outside = iter(dice.sample(outside, len(outside)))

    def draw(self) -> Message:
        """The next message that has an intent."""
        return next(self._scoped)

    def draw_outside(self) -> Message | None:
        """The next message out of scope, or None when all were drawn."""
        return next(self._outside, None)


def training_rows(offices: Offices, split: Split, count: int, seed: int) -> list[Row]:
    """`count` rows of all shapes in a drawn order, no two with equal states."""
    dice = Dice("rows", seed, split)
    decks = {name: Deck(desk, Dice(seed, split, name)) for name, (desk, _) in offices.items()}
    quota = {shape: round(count * share) for shape, share in SHAPES.items()}
    quota["message"] += count - sum(quota.values())
    plan = [shape for shape, number in quota.items() for _ in range(number)]
    rows: list[Row] = []
    seen: set[str] = set()
    for number, shape in enumerate(dice.sample(plan, len(plan))):
        for attempt in range(_TRIES):
            row = _row(offices, decks, split, shape, Dice(seed, split, number, attempt))
            if row is not None and row.group not in seen:
                seen.add(row.group)
                rows.append(row)
                break
        else:
            raise DataError(
                f"The sources are too small for {count} {split} rows: after {number} of them "
                f"{_TRIES} draws of a {shape} row gave only states that are there already, or of "
                "other splits. Ask for fewer states, or use another seed."
            )
    return rows


def _row(
    offices: Offices, decks: Mapping[str, Deck], split: Split, shape: str, dice: Dice
) -> Row | None:
    language: Language = "zh" if chance(dice, _CHINESE) else "en"
    if shape == "form":
        return assemble.form_row(split, language, dice)
    source = draw(dice, {name: _SOURCES[name] for name in offices})
    (desk, licence), deck = offices[source], decks[source]
    if shape != "message":
        return _other(shape, desk, licence, split, deck.draw(), language, dice)
    outside = deck.draw_outside() if chance(dice, _OUTSIDE) else None
    sizes = [dice.number(*_RANGES[draw(dice, _SIZES)])]
    if source == "banking77" and chance(dice, _ALL_INTENTS):
        sizes = [len(desk.catalogue.intents)]
    elif chance(dice, 0.6):
        sizes.append(dice.number(*_RANGES[draw(dice, _SIZES)]))
    left = dict(_EXTRAS)
    extras = []
    for _ in range(dice.number(2, 3)):
        extras.append(draw(dice, left))
        del left[extras[-1]]
    message = outside or deck.draw()
    return assemble.message_row(desk, licence, split, message, language, dice, sizes, extras)


def _other(
    shape: str,
    desk: Desk,
    licence: str,
    split: Split,
    message: Message,
    language: Language,
    dice: Dice,
    most_claims: int = 2,
) -> Row | None:
    if shape == "pair":
        return assemble.pair_row(desk, licence, split, message, language, dice, most_claims)
    make = assemble.notes_row if shape == "notes" else assemble.browse_row
    return make(desk, licence, split, message, language, dice)


def test_rows(offices: Offices, seed: int, scale: float) -> list[Row]:
    """Rows for measuring: 150 to 200 questions of every derived family, and 150 each of routing
    with 5 and 15 options, 100 with all 77; times `scale`. A third is in Chinese."""
    split: Split = "test"
    decks = {name: Deck(desk, Dice(seed, split, name)) for name, (desk, _) in offices.items()}
    names = cycle(sorted(offices))
    rows: list[Row] = []
    seen: set[str] = set()
    pairs = cycle((("topic", "claim"), ("three_way", "pick"), ("pick", "link")))

    def add(count: int, shape: str, only: str = "") -> None:
        made, attempt = 0, 0
        while made < max(1, round(count * scale)):
            attempt += 1
            dice = Dice(seed, split, shape, only, attempt)
            # In threes, as the pairs of extras: each of them is asked in both languages.
            language: Language = "zh" if made // 3 % 3 == 2 else "en"
            name = only or next(names)
            (desk, licence), deck = offices[name], decks[name]
            row: Row | None
            if shape == "form":
                row = assemble.form_row(split, language, dice)
            elif shape in ("pair", "notes", "browse"):
                row = _other(shape, desk, licence, split, deck.draw(), language, dice, 1)
            else:
                sizes: Sequence[int] = (5, 15)
                extras: Sequence[str] = next(pairs)
                message: Message | None = deck.draw()
                if shape == "all":
                    sizes, extras = (len(desk.catalogue.intents),), ()
                elif shape == "outside":
                    message, sizes, extras = deck.draw_outside(), (5, 15), ()
                if message is None:
                    return
                row = assemble.message_row(
                    desk, licence, split, message, language, dice, sizes, extras
                )
            if row is not None and row.group not in seen:
                seen.add(row.group)
                rows.append(row)
                made += 1
            elif attempt > _TRIES * (count + 1):
                raise DataError(f"The test messages are too few for {count} rows of {shape}.")

    add(140, "message")
    add(10, "outside", "clinc150")
    add(100, "all", "banking77")
    add(100, "pair")
    add(60, "notes")
    add(60, "form")
    add(40, "browse")
    return Dice("test", seed).sample(rows, len(rows))


def _rounds(piles: Mapping[str, list[Message]], dice: Dice) -> Iterator[Message]:
    """One message of every intent in a drawn order, and so on; from the start when all are used."""
    turn = 0
    while True:
        for name in dice.sample(list(piles), len(piles)):
            yield piles[name][turn % len(piles[name])]
        turn += 1
