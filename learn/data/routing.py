"""Routing: which of several intents, or of several areas, a message has."""

from __future__ import annotations

from readoff.bench.records import Target
from readoff.learn.data import fixed_words
from readoff.learn.data.desk import Desk
from readoff.learn.data.draft import Draft, chance, permuted
from readoff.learn.data.messages import OUT_OF_SCOPE, Message
from readoff.learn.data.voice import Voice

_MOST_WITH_NONE = 20
_OUTSIDE = 0.95  # some messages "out of scope" come near an intent: a little is left for the others
_AREA = 0.95  # areas of a source without any are ours, and their borders a matter of taste
_LEFT_OUT = 0.9  # as much for "none" where intents are offered that annotators may well confuse


def routing(desk: Desk, voice: Voice, message: Message, size: int) -> Draft:
    """A choice among `size` options; some of the others are easily taken for the right one.

    Some choices offer "none of these" too: it is right for messages out of scope, and where the
    message's own intent is left out on purpose.
    """
    dice = voice.dice
    outside = message.intent == OUT_OF_SCOPE
    with_none = outside or (2 < size <= _MOST_WITH_NONE and chance(dice, 0.15))
    left_out = with_none and not outside and chance(dice, 0.3)
    intents = [] if outside or left_out else [message.intent]
    others = _others(desk, voice, message, size - with_none - len(intents), left_out)
    names = dice.sample([*intents, *others], len(intents) + len(others))
    options = voice.options(desk.catalogue, names)
    labels = dict(zip(names, options, strict=True))
    target: Target
    if with_none:
        none = voice.pick(fixed_words.NONE)
        options[none] = None
        if intents:
            target = {labels[message.intent]: 1.0}
        else:
            share = _OUTSIDE if outside else _LEFT_OUT
            rest = (1.0 - share) / len(names)
            target = {none: share} | {labels[name]: rest for name in names}
    else:
        target = {labels[message.intent]: 1.0}
    question = permuted(voice.ask("routing"), dict(options), dice)
    return Draft("routing", str(len(options)), question, target, human=not left_out)


def _others(desk: Desk, voice: Voice, message: Message, count: int, sure: bool) -> list[str]:
    """`count` other intents. With `sure`, none that the message may well have."""
    dice = voice.dice
    names = [name for name in desk.catalogue.intents if name != message.intent]
    if message.intent == OUT_OF_SCOPE:
        # Half of them are what a classifier of words would take the message for.
        likely = sorted(names, key=lambda name: -desk.posterior.of(message, name))
        chosen = dice.sample(likely[:count], min(len(likely), count // 2))
        rest = [name for name in names if name not in chosen]
        return chosen + dice.sample(rest, min(len(rest), count - len(chosen)))
    if sure:
        doubtless = {
            name for how in ("alike", "area", "other") for name in desk.negatives(message, how)
        }
        names = [name for name in names if name in doubtless]
    mates = [name for name in names if desk.area(name) == desk.area(message.intent)]
    alike = [name for name in desk.alike(message.intent) if name in mates]
    # Either mostly the same area, or a mixture, or anything: a choice can be hard or easy.
    hard = {"area": len(mates), "mixed": (count + 1) // 2, "any": 0}
    how = dice.pick(("area", "area", "mixed", "mixed", "any"))
    first = dice.sample(alike, min(len(alike), hard[how], count))
    left = [name for name in mates if name not in first]
    first += dice.sample(left, max(0, min(len(left), hard[how] - len(first), count - len(first))))
    rest = [name for name in names if name not in first]
    return first + dice.sample(rest, max(0, min(len(rest), count - len(first))))


def area(desk: Desk, voice: Voice, message: Message) -> Draft | None:
    """A choice among areas; None for a message out of scope, or where there is no other area.

    An area under which a reader may look for the message as well is not offered.
    """
    if message.intent == OUT_OF_SCOPE:
        return None
    areas, dice = desk.catalogue.areas, voice.dice
    own = desk.area(message.intent)
    also = desk.catalogue.intents[message.intent].also
    others = [name for name in areas if name != own and name not in also]
    if not others:
        return None
    chosen = [own, *dice.sample(others, dice.number(1, len(others)))]
    ids = chance(dice, 0.2)
    options: dict[str, str | None] = {}
    right = ""
    for name in chosen:
        label = name if ids else areas[name][voice.language]
        options[label] = areas[name][voice.language] if ids else None
        right = label if name == own else right
    question = permuted(voice.ask("area"), dict(options), dice)
    published = desk.catalogue.published
    target: Target = {right: 1.0}
    if not published:
        rest = (1.0 - _AREA) / (len(options) - 1)
        target = {name: _AREA if name == right else rest for name in options}
    return Draft("routing", "area", question, target, human=published)
