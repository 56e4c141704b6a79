"""The wording of one row: its language, who writes what, and how options are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from readoff.bench.records import Language
from readoff.bench.workloads.lexicon import Dice
from readoff.learn.data import fixed_words, wording_en, wording_zh
from readoff.learn.data.catalogue import Catalogue, Intent
from readoff.learn.data.draft import chance, draw

_ASKS: Mapping[Language, Mapping[str, tuple[str, ...]]] = {
    "en": wording_en.ASKS,
    "zh": wording_zh.ASKS,
}
_WHO: Mapping[Language, tuple[str, ...]] = {
    "en": ("user", "customer", "writer", "person", "client", "sender"),
    "zh": ("用户", "客户", "对方", "写信人"),
}
_TEXT: Mapping[Language, tuple[str, ...]] = {
    "en": ("message", "request", "text", "utterance", "query"),
    "zh": ("消息", "留言", "请求", "文字"),
}
_JOIN: Mapping[Language, tuple[str, ...]] = {"en": ("; ", " / ", ", or "), "zh": (";", "/", "、")}
_STYLES: Mapping[Language, Mapping[str, float]] = {
    "en": {"wish": 40, "title": 12, "described": 18, "id": 14, "spaced": 8, "id described": 8},
    "zh": {"wish": 55, "described": 20, "id": 10, "id described": 8, "english": 7},
}
_CODES: Mapping[Language, tuple[str, ...]] = {
    "en": ("desk {n}", "case type {n}", "queue {n}", "T{n}", "option {n}"),
    "zh": ("{n}号台", "类型{n}", "队列{n}"),
}


class Voice:
    """Draws wordings for one row."""

    def __init__(self, language: Language, dice: Dice) -> None:
        self.language = language
        self.dice = dice
        self.who = dice.pick(_WHO[language])
        self.text = dice.pick(_TEXT[language])

    def ask(self, kind: str, **slots: str) -> str:
        """An instruction of `kind`."""
        return self.fill(self.dice.pick(_ASKS[self.language][kind]), **slots)

    def fill(self, pattern: str, **slots: str) -> str:
        """`pattern` with its slots filled."""
        text = pattern.format(who=self.who, text=self.text, **slots)
        return text[0].upper() + text[1:] if text[:1].islower() and " " in text else text

    def pick(self, words: Mapping[Language, Sequence[str]]) -> str:
        """One of `words` in the row's language."""
        return self.dice.pick(words[self.language])

    def sides(self) -> tuple[str, str] | None:
        """Criteria for a noul, or none: half and half."""
        if chance(self.dice, 0.5):
            return None
        return self.dice.pick(fixed_words.SIDES[self.language])

    def wish(self, intent: Intent) -> str:
        """What somebody with this intent wants."""
        return intent.wish[self.language]

    def about(self, intent: Intent) -> str:
        """What the intent covers."""
        return intent.about[self.language]

    def listed(self, items: Sequence[str]) -> str:
        """`items` in one line."""
        return self.dice.pick(_JOIN[self.language]).join(items)

    def options(self, catalogue: Catalogue, intents: Sequence[str]) -> dict[str, str | None]:
        """A name for each of `intents`, in their order, with a description or without.

        Names are wishes, titles or the source's own ids; a few choices have names that say
        nothing, so that the descriptions must be read. Long choices have no descriptions.
        """
        short = len(intents) <= 6
        styles = dict(_STYLES[self.language]) | ({"coded": 6.0} if short else {})
        style = draw(self.dice, styles)
        if len(intents) > 20:
            style = style.removesuffix(" described").replace("described", "wish")
        found: dict[str, str | None] = {}
        codes = self.dice.pick(_CODES[self.language])
        numbers = self.dice.sample(range(1, 10), len(intents)) if short else []
        for place, name in enumerate(intents):
            intent = catalogue.intents[name]
            wish, about = self.wish(intent), self.about(intent)
            if style == "coded":
                label = codes.format(n=numbers[place])
                found[label] = wish[0].upper() + wish[1:]
            elif style == "title":
                found[wish[0].upper() + wish[1:]] = None
            elif style == "described":
                found[wish] = about
            elif style in ("id", "id described"):
                found[name] = about if style == "id described" else None
            elif style == "spaced":
                found[name.replace("_", " ").strip("?").lower()] = None
            elif style == "english":
                found[intent.wish["en"]] = None
            else:
                found[wish] = None
        return found
