"""States as they come up in practice: six shapes, each of any length, in any language."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from readoff.bench.workloads.lexicon import Lexicon, Writer
from readoff.bench.workloads.ruler import Ruler
from readoff.engine.text import Text

_SENTENCES = 3  # in one message, result, paragraph or page


@dataclass(frozen=True)
class Head:
    """What every state of one draw has before its sentences, drawn once so that it stays put."""

    name: str
    plan: str
    question: str
    claim: str
    id: str
    amount: int
    titles: tuple[str, ...]
    things: tuple[str, ...]
    pages: tuple[str, ...]

    @classmethod
    def draw(cls, writer: Writer) -> Head:
        """Draw one. The lists are long enough for any state that is used here."""
        return cls(
            name=writer.draw("name"),
            plan=writer.draw("plan"),
            question=writer.draw("question"),
            claim=writer.draw("claim"),
            id=writer.draw("id"),
            amount=writer.dice.number(15, 980),
            titles=tuple(writer.write(writer.lexicon.titles) for _ in range(16)),
            things=tuple(writer.dice.sample(writer.domain.things, 3)),
            pages=tuple(writer.dice.sample(writer.domain.pages, 6)),
        )


def make_state(kind: str, target: int, writer: Writer, ruler: Ruler) -> Text:
    """A state of the shape `kind` (a key of `SHAPES`) and of `target` tokens."""
    lay, decks = SHAPES[kind]
    head = Head.draw(writer)
    source = writer.sentences(*decks(writer.lexicon), each=_SENTENCES)
    return ruler.fit(lambda found: lay(head, found, writer), source, target, writer.lexicon)


def make_document(target: int, writer: Writer, ruler: Ruler) -> Text:
    """A search result of `target` tokens on its own: address, title and text."""
    head = Head.draw(writer)

    def lay(sentences: Sequence[str]) -> Text:
        keys = writer.lexicon.keys
        return {
            keys["url"]: f"https://example.org/{head.id}",
            keys["title"]: head.titles[0],
            keys["text"]: writer.lexicon.joiner.join(sentences),
        }

    return ruler.fit(lay, writer.sentences(writer.lexicon.passages), target, writer.lexicon)


def _ticket(head: Head, sentences: Sequence[str], writer: Writer) -> Text:
    keys = writer.lexicon.keys
    sides = (keys["customer"], keys["agent"])
    return {
        keys["customer"]: {keys["name"]: head.name, keys["plan"]: head.plan},
        keys["messages"]: [
            {keys["from"]: sides[index % 2], keys["text"]: text}
            for index, text in enumerate(_paragraphs(sentences, writer))
        ],
    }


def _results(head: Head, sentences: Sequence[str], writer: Writer) -> Text:
    keys = writer.lexicon.keys
    return {
        keys["query"]: head.question,
        keys["results"]: [
            {keys["id"]: index + 1, keys["title"]: _nth(head.titles, index), keys["text"]: text}
            for index, text in enumerate(_paragraphs(sentences, writer))
        ],
    }


def _document(head: Head, sentences: Sequence[str], writer: Writer) -> Text:
    return "\n\n".join([head.titles[0], *_paragraphs(sentences, writer)])


def _evidence(head: Head, sentences: Sequence[str], writer: Writer) -> Text:
    keys = writer.lexicon.keys
    return {keys["claim"]: head.claim, keys["evidence"]: list(_paragraphs(sentences, writer))}


def _trajectory(head: Head, sentences: Sequence[str], writer: Writer) -> Text:
    keys = writer.lexicon.keys
    steps: list[Mapping[str, object]] = [{keys["goal"]: head.question}]
    for index, text in enumerate(_paragraphs(sentences, writer)):
        links = [_nth(head.pages, index + k) for k in range(1, 4)]
        page = {keys["page"]: _nth(head.pages, index), keys["text"]: text, keys["links"]: links}
        steps.append(page)
    return steps


def _record(head: Head, sentences: Sequence[str], writer: Writer) -> Text:
    keys = writer.lexicon.keys
    return {
        keys["case"]: int(head.id),
        keys["status"]: keys["open"],
        keys["amount"]: head.amount,
        keys["items"]: [{keys["thing"]: thing} for thing in head.things],
        keys["notes"]: list(_paragraphs(sentences, writer)),
    }


Lay = Callable[[Head, Sequence[str], Writer], Text]
Decks = Callable[[Lexicon], tuple[Sequence[str], ...]]
SHAPES: Mapping[str, tuple[Lay, Decks]] = {
    "ticket": (_ticket, lambda lexicon: (lexicon.messages, lexicon.replies)),
    "results": (_results, lambda lexicon: (lexicon.passages,)),
    "document": (_document, lambda lexicon: (lexicon.passages,)),
    "evidence": (_evidence, lambda lexicon: (lexicon.passages,)),
    "trajectory": (_trajectory, lambda lexicon: (lexicon.steps,)),
    "record": (_record, lambda lexicon: (lexicon.messages, lexicon.steps)),
}
"""A conversation, a page of search results, a plain text, a claim with evidence, an agent's steps
(an array) and a nested record, each with the sentences that it is made of."""


def _paragraphs(sentences: Sequence[str], writer: Writer) -> Iterator[str]:
    for start in range(0, len(sentences), _SENTENCES):
        yield writer.lexicon.joiner.join(sentences[start : start + _SENTENCES])


def _nth(items: Sequence[str], index: int) -> str:
    return items[index % len(items)]
