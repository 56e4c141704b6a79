"""Navigation: which page to open next, and whether the open one is the right one."""

from __future__ import annotations

from readoff.engine.text import Text
from readoff.learn.data import fixed_words
from readoff.learn.data.catalogue import Intent
from readoff.learn.data.desk import Desk
from readoff.learn.data.draft import Draft, chance, noul, permuted, verdict
from readoff.learn.data.messages import Message
from readoff.learn.data.voice import Voice

_SURE = 0.97


def link(desk: Desk, voice: Voice, message: Message, opened: str = "") -> Draft:
    """A choice among help pages for a message.

    With an open page, one may stay on it too, which is right if it is the message's own. Where no
    page of the options is, the heading of its area leads on.
    """
    dice = voice.dice
    right_open = opened == message.intent
    through_area = not right_open and chance(dice, 0.3)
    own = desk.catalogue.intents[message.intent]
    count = dice.number(2, 6)
    names: list[str] = []
    for _ in range(3 * count):
        # Behind a heading lie all pages of its area: none of them may compete with it.
        name = desk.negative(message, dice, *((0.0, 0.0) if through_area else (0.5, 0.25)))
        blocked = through_area and own.area in {desk.area(name), *desk.catalogue.intents[name].also}
        if name not in (*names, opened) and not blocked and len(names) < count:
            names.append(name)
    paths = chance(dice, 0.35)
    pages = {_title(voice, desk.catalogue.intents[name], paths): None for name in names}
    if through_area or chance(dice, 0.5):
        areas = [name for name in desk.catalogue.areas if name not in own.also | {own.area}]
        chosen = dice.sample(areas, min(len(areas), dice.number(1, 2)))
        pages |= {_heading(desk, voice, name, paths): None for name in chosen}
    stay = voice.pick(fixed_words.STAY)
    right = _heading(desk, voice, own.area, paths) if through_area else _title(voice, own, paths)
    if opened:
        pages[stay] = None
        right = stay if right_open else right
    pages[right] = None
    share = 1.0 if len(pages) == 1 else _SURE
    target = {page: (1.0 - share) / (len(pages) - 1) for page in pages if page != right}
    question = permuted(voice.ask("link"), dict(pages), dice)
    return Draft("navigation", "link", question, target | {right: share})


def arrived(voice: Voice, grade: str) -> Draft:
    """Whether the open page is the right one, `grade` saying how it stands to the goal."""
    reverse = chance(voice.dice, 0.5)
    share = _SURE if grade == "same" else 1.0 - _SURE
    asked = voice.ask("onward" if reverse else "arrived")
    question = noul(asked, voice.sides(), voice.dice)
    return Draft("navigation", "arrived", question, verdict(1.0 - share if reverse else share))


def state(desk: Desk, voice: Voice, message: Message, opened: str) -> Text:
    """A goal, the open page, and sometimes pages seen before."""
    dice = voice.dice
    intents = desk.catalogue.intents
    page = _title(voice, intents[opened], paths=False)
    if chance(dice, 0.3):
        page = f"{desk.catalogue.areas[intents[opened].area][voice.language]} > {page}"
    seen = desk.negative(message, dice)
    before = [] if seen == opened or chance(dice, 0.5) else [seen]
    titles = [_title(voice, intents[name], paths=False) for name in before]
    if voice.language == "zh":
        if chance(dice, 0.5):
            return {"目标": message.text, "打开的页面": page, "看过的页面": list(titles)}
        return [f"目标:{message.text}", *(f"看过:{t}" for t in titles), f"现在打开:{page}"]
    shape = dice.number(1, 3)
    if shape == 1:
        return {"goal": message.text, "open page": page, "visited": list(titles)}
    if shape == 2:
        return [
            f"Goal: {message.text}",
            *(f"Visited: {title}. Not what was looked for." for title in titles),
            f"Now open: {page}",
        ]
    return {"user": message.text, "page": {"title": page}}


def _title(voice: Voice, intent: Intent, paths: bool) -> str:
    wish = voice.wish(intent)
    if paths:
        slug = intent.id.lower().strip("?").replace("_", "-")
        return f"/{intent.area}/{slug}"
    return wish[0].upper() + wish[1:]


def _heading(desk: Desk, voice: Voice, area: str, paths: bool) -> str:
    if paths:
        return f"/{area}/"
    words = desk.catalogue.areas[area][voice.language]
    return f"{words[0].upper()}{words[1:]}" + (
        " (all pages)" if voice.language == "en" else "(目录)"
    )
