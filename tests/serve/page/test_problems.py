"""The page when something is wrong: said where it is, and how to go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from readoff.engine.errors import ContextError
from readoff.serve.settings import Settings

from ..rig import ASK, ONE, Held, Running, running, wait_for
from .browsing import Recording, Visit, visit


def invalid(tab: Visit, message: str, failures: int = 0) -> None:
    """The field that has the focus is marked, and says what is wrong with it."""
    field = tab.focus()
    expect(field).to_have_attribute("aria-invalid", "true")
    described = (field.get_attribute("aria-describedby") or "").split()[0]
    expect(tab.page.locator(f"#{described}")).to_contain_text(message)
    expect(tab.page.locator("#status")).to_have_text("Not answered.")


Change = Callable[[Visit], Any]
WRONG: dict[str, tuple[Change, str, str, bool]] = {
    "no JSON": (lambda t: t.fill('{"a": }', "JSON"), "#state", "not JSON", False),
    "a number": (lambda t: t.fill("3", "JSON"), "#state", "an object or an array", True),
    "a key twice": (lambda t: t.fill('{"a": 1, "a": 2}', "JSON"), "", "twice", True),
    "an id twice": (
        lambda t: t.card(2).get_by_label("Id", exact=True).fill("team"),
        "fieldset:nth-child(3) .id input",
        "Another question",
        False,
    ),
    "no id": (
        lambda t: t.card(0).get_by_label("Id", exact=True).fill(""),
        "fieldset:nth-child(1) .id input",
        "needs an id",
        False,
    ),
    "no name": (
        lambda t: t.card(1).get_by_label("Name of option 3").fill(" "),
        "[aria-label='Name of option 3']",
        "needs a name",
        False,
    ),
    "a name twice": (
        lambda t: t.card(1).get_by_label("Name of option 4").fill("sales"),
        "[aria-label='Name of option 4']",
        "Another option",
        False,
    ),
    "a level twice": (
        lambda t: t.card(2).get_by_label("What level 1 means").fill("Calm"),
        "[aria-label='What level 0 means']",
        "same description",
        True,
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_said_where_it_is(browser: Browser, server: Running, wrong: str) -> None:
    change, where, message, from_server = WRONG[wrong]
    with visit(browser, server.url, failures=int(from_server)) as tab:
        change(tab)
        tab.page.get_by_role("button", name="Ask", exact=True).click()
        if not where:  # nowhere in particular: beside the button
            expect(tab.page.locator("#problem")).to_contain_text(message)
            return
        expect(tab.page.locator(where)).to_be_focused()
        invalid(tab, message)
        tab.page.keyboard.type("x")
        expect(tab.page.locator("[aria-invalid], .error")).to_have_count(0)
        assert len(tab.sent) == int(from_server)


@pytest.mark.parametrize("length", [3000, 5])
def test_a_state_too_long_for_the_model(
    browser: Browser, server: Running, recording: Recording, length: int
) -> None:
    recording.error = ContextError(f"{length} tokens, and it takes 2.", limit=2, length=length)
    with visit(browser, server.url, failures=1) as tab:
        tab.page.get_by_role("button", name="Ask", exact=True).click()
        expect(tab.page.locator("#state")).to_be_focused()
        invalid(tab, f"{length} tokens, and it takes 2.")


def test_no_question_at_all(tab: Visit) -> None:
    for _ in range(3):
        tab.card(0).get_by_role("button", name="Remove question").click()
    expect(tab.page.get_by_role("button", name="+ True or false")).to_be_focused()
    tab.page.keyboard.press("Control+Enter")
    expect(tab.page.locator(".error")).to_have_text("Ask at least one question.")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator(".error")).to_have_count(0)
    expect(tab.card(0).get_by_label("Id", exact=True)).to_have_value("is_true")


def test_a_key_is_asked_for_used_and_never_shown(browser: Browser, recording: Recording) -> None:
    with (
        running(recording, keys=["sesame-🔑".encode("ascii", "replace").decode()]) as server,
        visit(browser, server.url, failures=4) as tab,
    ):
        key = tab.page.locator("#key")
        expect(key).to_be_visible()  # the list of models was refused
        ask = tab.page.get_by_role("button", name="Ask", exact=True)
        ask.click()
        expect(key).to_be_focused()
        invalid(tab, "key")
        key.fill("wrong")
        ask.click()
        expect(tab.page.locator(".error")).to_be_visible()
        expect(key).to_be_focused()
        key.fill("sesame-?")
        tab.ask(3)
        expect(tab.page.locator("#model")).to_have_value("tiny")
        for name, placeholder in [("curl", "Bearer $READOFF"), ("Python", "os.environ['READOFF")]:
            tab.page.get_by_role("tab", name=name).click()
            code = tab.page.locator("#code").text_content() or ""
            assert placeholder in code
            assert "sesame" not in code
        tab.page.get_by_role("button", name="Copy link").click()
        expect(tab.page.get_by_role("button", name="Link copied")).to_be_visible()
        kept = tab.page.evaluate(
            "JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])"
        )
        assert "sesame" not in kept
        assert not any("sesame" in text for text in [*tab.sent, *tab.loaded])


def test_a_busy_server_says_when_to_come_back(browser: Browser) -> None:
    held = Held()
    with (
        running(held, Settings(max_queue=1, drain_seconds=0)) as server,
        visit(browser, server.url, failures=1) as tab,
    ):
        first = threading.Thread(target=httpx.post, args=(server.url + ASK,), kwargs={"json": ONE})
        first.start()
        wait_for(lambda: held.asked == 1)
        tab.page.get_by_role("button", name="Ask", exact=True).click()
        expect(tab.page.get_by_role("alert")).to_have_text("The server is busy. Ask again in 1 s.")
        held.open.set()
        first.join()
        tab.ask(3)
        expect(tab.page.get_by_role("alert")).to_have_text("")


def test_a_request_is_cancelled(browser: Browser) -> None:
    held = Held()
    with running(held) as server, visit(browser, server.url) as tab:
        tab.page.get_by_role("button", name="Ask", exact=True).click()
        expect(tab.page.locator("#status")).to_have_text("Asking…")
        wait_for(lambda: held.asked == 1)
        tab.page.get_by_role("button", name="Cancel").click()
        expect(tab.page.locator("#status")).to_have_text("Cancelled.")
        wait_for(lambda: held.cancelled == 1)
        held.open.set()
        tab.ask(3)


def test_a_server_that_is_gone(browser: Browser, server: Running) -> None:
    with visit(browser, server.url, failures=1) as tab:
        tab.page.context.set_offline(True)
        tab.page.get_by_role("button", name="Ask", exact=True).click()
        expect(tab.page.get_by_role("alert")).to_contain_text("can’t be reached")
        tab.page.context.set_offline(False)
        tab.ask(3)


def broken(page: Page, status: int, body: str) -> None:
    page.route(f"**{ASK}", lambda route: route.fulfill(status=status, body=body))


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (502, "<html>Bad gateway</html>", "The server answered 502"),
        (
            500,
            '{"detail": {"error_type": "x", "message": "It <b>failed</b>."}}',
            "It <b>failed</b>.",
        ),
        (200, '{"model": "tiny", "answ', "cut short"),
    ],
)
def test_answers_that_are_none(
    browser: Browser, server: Running, status: int, body: str, message: str
) -> None:
    with visit(browser, server.url, failures=int(status != 200)) as tab:
        broken(tab.page, status, body)
        tab.page.get_by_role("button", name="Ask", exact=True).click()
        expect(tab.page.get_by_role("alert")).to_contain_text(message)


def test_a_model_that_went_away(browser: Browser, server: Running) -> None:
    with visit(browser, server.url, failures=1) as tab:
        tab.page.evaluate("document.querySelector('#model').options[0].value = 'old'")
        tab.page.get_by_role("button", name="Ask", exact=True).click()
        expect(tab.page.locator("#model")).to_be_focused()
        invalid(tab, "There is no model 'old' here")


def test_a_pack_is_asked_without_the_legal_mass(browser: Browser) -> None:
    recording = Recording(pack=True)
    with running(recording) as server, visit(browser, server.url, failures=1) as tab:
        tab.ask(3)
        expect(tab.page.get_by_label("legal mass")).to_be_disabled()
        expect(tab.page.locator("#spoken")).to_have_text("This model can’t measure its legal mass.")
        assert recording.masses == [False]
        assert len(tab.sent) == 2
