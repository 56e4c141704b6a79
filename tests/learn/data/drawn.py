"""Messages and voices for the tests of questions."""

from __future__ import annotations

from readoff.bench.records import Language
from readoff.bench.workloads.lexicon import Dice
from readoff.learn.data.desk import Desk
from readoff.learn.data.messages import Message
from readoff.learn.data.voice import Voice


def voices(count: int) -> list[Voice]:
    """Three of four in English."""
    languages: tuple[Language, ...] = ("en", "en", "en", "zh")
    return [Voice(languages[n % 4], Dice("voices", n)) for n in range(count)]


def message(desk: Desk, number: int) -> Message:
    """One that has an intent."""
    scoped = desk.scoped()
    return scoped[number * 7 % len(scoped)]
