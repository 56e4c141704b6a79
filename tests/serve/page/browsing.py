"""The page in headless Chromium: what it loaded, what it said to the console, what it holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect

from readoff.engine.answers import Decision, Usage, build_answer
from readoff.engine.questions import Question

expect.set_options(timeout=20_000)

READY = "#model option:not([value='']), #key-box[open]"
"""The list of models came, or was refused."""

FAILED = "Failed to load resource"
"""What Chromium says of every answer that isn't a 200."""


class Recording:
    """An engine that remembers what it was asked; later options get less."""

    def __init__(self, *, pack: bool = False) -> None:
        self._pack = pack
        self.forget()

    def forget(self) -> None:
        """As if nothing had been asked."""
        self.asked: list[tuple[Any, dict[str, Question]]] = []
        self.masses: list[bool] = []
        self.error: BaseException | None = None

    async def adecide(
        self, state: Any, questions: Mapping[str, Question], *, legal_mass: bool = False, **_: Any
    ) -> Decision:
        self.asked.append((state, dict(questions)))
        self.masses.append(legal_mass)
        if self.error is not None:
            raise self.error
        answers = {}
        for name, question in questions.items():
            logits = [-0.7 * i for i in range(len(question.options))]
            total = sum(map(math.exp, logits))
            probabilities = [math.exp(z) / total for z in logits]
            mass = 0.25 if legal_mass else None
            answers[name] = build_answer(question, logits, probabilities, mass)
        return Decision(answers, Usage(304, 41, 263), 41.7, "tiny")

    def warmup(self) -> None:
        """Nothing to do."""

    def stats(self) -> dict[str, Any]:
        return {}

    def info(self) -> dict[str, Any]:
        return {"pack": {}} if self._pack else {}

    def close(self) -> None:
        """Nothing to do."""


@dataclass
class Visit:
    """One tab. `loaded` are the addresses it asked for, `sent` the bodies it sent."""

    page: Page
    url: str
    loaded: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def card(self, number: int) -> Locator:
        """The question of that number, from 0."""
        return self.page.locator("fieldset.question").nth(number)

    def fill(self, state: str, kind: str = "Text") -> None:
        """Write a state; `kind` is Text or JSON."""
        self.page.get_by_label(kind, exact=True).check()
        self.page.locator("#state").fill(state)

    def ask(self, answers: int) -> None:
        """Press Ask and wait for so many answers."""
        self.page.get_by_role("button", name="Ask", exact=True).click()
        self.answered(answers)

    def answered(self, answers: int) -> None:
        status = f"{answers} answer{'s' * (answers != 1)} in"
        expect(self.page.locator("#results")).to_have_attribute("aria-busy", "false")
        expect(self.page.locator("#status")).to_contain_text(status)

    def bars(self, name: str) -> list[tuple[str, str]]:
        """(option, percentage) of an answer, as they are read."""
        rows = self.page.locator(f'[data-answer="{name}"] .bars li')
        return [
            (row.locator(".name").text_content() or "", row.locator(".p").text_content() or "")
            for row in rows.all()
        ]

    def clipboard(self) -> str:
        """What lies there."""
        text: str = self.page.evaluate("navigator.clipboard.readText()")
        return text

    def focus(self) -> Locator:
        """The element that has it."""
        return self.page.locator(":focus")

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        found: int = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        return found


@contextmanager
def visit(
    browser: Browser, url: str, path: str = "/", *, failures: int = 0, **context: Any
) -> Iterator[Visit]:
    """The page in a fresh profile. At the end nothing came from elsewhere, and the console was
    silent, but for `failures` answers that weren't a 200."""
    opened = browser.new_context(**context)
    opened.grant_permissions(["clipboard-read", "clipboard-write"])
    page = opened.new_page()
    page.set_default_timeout(20_000)
    found = Visit(page, url)

    def request(made: Request) -> None:
        found.loaded.append(made.url)
        if made.method == "POST":
            found.sent.append(made.post_data or "")

    def console(message: ConsoleMessage) -> None:
        found.said.append(message.text)

    page.on("request", request)
    page.on("console", console)
    page.on("pageerror", lambda error: found.said.append(f"raised: {error}"))
    try:
        page.goto(url + path)
        page.locator(READY).first.wait_for(state="attached")
        yield found
        elsewhere = [one for one in found.loaded if not one.startswith(url + "/")]
        assert elsewhere == []
        assert [text for text in found.said if not text.startswith(FAILED)] == []
        assert len(found.said) == failures, found.said
    finally:
        opened.close()
