"""How messages stand in a state: mostly as plain text, sometimes in an object or an array."""

from __future__ import annotations

from readoff.engine.text import Text
from readoff.learn.data.draft import chance
from readoff.learn.data.messages import Message
from readoff.learn.data.voice import Voice


def single(voice: Voice, message: Message) -> Text:
    """The state of one message."""
    dice, text = voice.dice, message.text
    shape = dice.number(1, 20)
    if shape <= 13:
        return text
    if shape <= 15:
        return {"message": text}
    if shape <= 17:
        found: dict[str, object] = {"channel": dice.pick(("chat", "email", "phone", "app"))}
        if chance(dice, 0.5):
            found["id"] = dice.number(1000, 99999)
        return found | {dice.pick(("text", "body", "message")): text}
    if shape == 18:
        return ["agent: How can I help you?", f"{dice.pick(('user', 'customer'))}: {text}"]
    if shape == 19:
        return [text]
    return {
        "conversation": [{"role": "assistant", "text": "Hello!"}, {"role": "user", "text": text}]
    }


def double(voice: Voice, first: Message, second: Message) -> Text:
    """The state of two messages."""
    a, b = first.text, second.text
    shape = voice.dice.number(1, 5)
    if shape == 1:
        return [a, b]
    if shape == 2:
        return f"1) {a}\n2) {b}"
    keys = (("first", "second"), ("message 1", "message 2"), ("a", "b"))
    if voice.language == "zh":
        keys = (("第一条", "第二条"), ("消息1", "消息2"), ("first", "second"))
    one, two = voice.dice.pick(keys)
    return {one: a, two: b}
