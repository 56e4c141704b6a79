"""The page at `/`, used as a person uses it: asked, edited, copied from."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from readoff.engine.questions import Choice, Noul, Score
from readoff.serve.page import FILES

from ..rig import ASK, Borrowed, Running, running
from .browsing import Recording, Visit, visit


def percent(text: str) -> float:
    return float(text.strip("<> %")) / 100


def test_a_model_answers_in_bars(browser: Browser, engine: Borrowed) -> None:
    with running(engine) as server, visit(browser, server.url) as tab:
        tab.ask(3)
        (body,) = tab.sent
        response = httpx.post(
            server.url + ASK, content=body, headers={"content-type": "application/json"}
        ).json()
        assert list(response["answers"]) == ["urgent", "team", "anger"]
        for name, answer in response["answers"].items():
            found = dict(tab.bars(name))
            expected = answer.get("probabilities") or {
                "true": answer["noul"],
                "false": 1 - answer["noul"],
            }
            if "legend" in answer:
                expected = {f"{i} · {answer['legend'][i]}": p for i, p in expected.items()}
            assert set(found) == set(expected)
            for option, p in expected.items():
                assert percent(found[option]) == pytest.approx(p, abs=6e-4)
            card = tab.page.locator(f'[data-answer="{name}"]')
            expect(card.locator(".notes")).to_contain_text("legal mass")
        team = tab.page.locator('[data-answer="team"]')
        widths = [
            box["width"] for row in team.locator(".fill").all() if (box := row.bounding_box())
        ]
        assert widths == sorted(widths, reverse=True)
        expect(team.locator("strong")).to_have_text(response["answers"]["team"]["choice"])
        confidence = f"{response['answers']['team']['confidence']:.2f}"
        expect(team.locator(".notes")).to_contain_text(f"confidence {confidence}")
        score = f"{response['answers']['anger']['score']:.2f}on 0 to 2"
        expect(tab.page.locator('[data-answer="anger"] .verdict p')).to_have_text(score)
        facts = tab.page.locator(".facts")
        expect(facts).to_contain_text("modeltiny")
        tab.ask(3)
        terms = facts.locator("dt").all_text_contents()
        shown = dict(zip(terms, facts.locator("dd").all_text_contents(), strict=True))
        usage = response["usage"]
        cached = usage["x_cached_tokens"]
        assert cached > 100
        assert shown["tokens cached"] == f"{cached:,}"
        assert shown["tokens computed"] == f"{usage['input_tokens'] - cached:,}"


def test_it_is_told_to_those_who_do_not_see(tab: Visit) -> None:
    tab.ask(3)
    expect(tab.page.locator("#spoken")).to_have_text(
        "urgent: true, 66.8 %. team: billing, 53.6 %. anger: 0.57, on 0 to 2"
    )


NASTY = 'It\'s "$HOME" `id` \\n \\\\ \t tab\nnext line 🙂 \u2028 </script> %s {x}'
TYPED = '{"no": 12345678901234567890, "x": 1E5, "e": "\\/\\ud83d\\ude42 true", "t": [true, null]}'


@pytest.mark.parametrize(("kind", "state"), [("Text", NASTY), ("JSON", TYPED)])
@pytest.mark.parametrize("code", ["curl", "Python"])
def test_the_copied_code_asks_the_same(
    tab: Visit, recording: Recording, kind: str, state: str, code: str
) -> None:
    tab.fill(state, kind)
    tab.card(1).get_by_label("Name of option 1").fill("it's")
    tab.ask(3)
    tab.page.get_by_role("tab", name=code).click()
    tab.page.get_by_role("button", name="Copy", exact=True).click()
    expect(tab.page.get_by_role("button", name="Copied")).to_be_visible()
    command = ["bash", "-c"] if code == "curl" else [sys.executable, "-c"]
    done = subprocess.run(
        [*command, tab.clipboard()], capture_output=True, text=True, timeout=60, check=True
    )
    assert "billing" in done.stdout or "it's" in done.stdout
    (asked, again) = recording.asked
    assert again == asked
    assert asked[0] == (state if kind == "Text" else json.loads(TYPED))
    assert list(asked[1]) == ["urgent", "team", "anger"]
    assert asked[1]["team"].options[0] == "it's"


def test_the_response_is_shown_as_it_came(tab: Visit) -> None:
    tab.page.get_by_role("tab", name="Response").click()
    expect(tab.page.locator("#code")).to_contain_text("ask first")
    with tab.page.expect_response(f"**{ASK}") as caught:
        tab.ask(3)
    text = tab.page.locator("#code").text_content() or ""
    assert json.loads(text) == caught.value.json()
    assert text.count("\n") > 20


def test_questions_are_added_and_removed_by_keyboard_alone(
    tab: Visit, recording: Recording
) -> None:
    press, write = tab.page.keyboard.press, tab.page.keyboard.type

    def tab_to(name: str) -> None:
        for _ in range(80):
            press("Tab")
            label = tab.page.evaluate(
                "() => { const e = document.activeElement;"
                " return e.getAttribute('aria-label') || (e.labels?.[0] ?? e).textContent; }"
            )
            if label == name:
                return
        pytest.fail(f"Tab never comes to {name!r}")

    press("Tab")
    expect(tab.focus()).to_have_text("Skip to the answers")
    tab_to("Remove question urgent")
    press("Enter")
    expect(tab.focus()).to_have_value("team")
    expect(tab.page.locator("#spoken")).to_have_text("Question urgent removed. 2 questions")
    tab_to("Remove question anger")
    press("Space")
    expect(tab.focus()).to_have_value("team")
    tab_to("+ Score")
    press("Enter")
    expect(tab.focus()).to_have_attribute("placeholder", "How angry is the customer?")
    write("How long?")
    tab_to("What level 0 means")
    write("short")
    press("Tab")  # two levels are the least: none can be removed
    write("long")
    tab_to("+ Level")
    press("Enter")
    write("longer")
    tab_to("Remove level 1")
    press("Enter")
    expect(tab.focus()).to_have_value("longer")
    press("Control+Enter")
    tab.answered(2)
    ((_, questions),) = recording.asked
    assert questions["how_much"] == Score(instructions="How long?", criteria=["short", "longer"])
    assert list(questions) == ["team", "how_much"]
    press("Shift+Tab")
    for name in ("curl", "Python", "Response", "curl"):
        tab.page.get_by_role("tab", name=name).focus()
        expect(tab.page.get_by_role("tab", name=name)).to_be_focused()
        press("ArrowRight")
    expect(tab.page.get_by_role("tab", name="Python")).to_be_focused()
    expect(tab.page.locator("#code")).to_contain_text("import httpx")


def test_a_question_changes_its_type_and_keeps_what_was_written(
    tab: Visit, recording: Recording
) -> None:
    card = tab.card(1)
    card.get_by_label("Type").select_option("noul")
    card.get_by_label("Counts as false").fill("nobody")
    card.get_by_label("Type").select_option("choice")
    expect(card.get_by_label("Name of option 2")).to_have_value("support")
    card.get_by_label("Type").select_option("noul")
    tab.ask(3)
    expected = Noul(instructions="Which team should answer?", criteria={"false": "nobody"})
    assert recording.asked[0][1]["team"] == expected


def test_names_like_numbers_keep_their_order(tab: Visit, recording: Recording) -> None:
    """Objects of JavaScript would put them first, ascending, and lose __proto__."""
    names = ["b", "10", "__proto__", "2"]
    for number, name in enumerate(names, 1):
        tab.card(1).get_by_label(f"Name of option {number}").fill(name)
    for number, name in enumerate(["z", "7", "__proto__"]):
        tab.card(number).get_by_label("Id", exact=True).fill(name)
    tab.ask(3)
    questions = recording.asked[0][1]
    assert list(questions) == ["z", "7", "__proto__"]
    assert questions["7"].options == tuple(names)
    assert [name for name, _ in tab.bars("7")] == names
    expect(tab.page.locator(".answer")).to_have_count(3)


def test_many_options_are_pasted_and_folded(tab: Visit, recording: Recording) -> None:
    for number in (2, 0):
        tab.card(number).get_by_role("button", name="Remove question").click()
    lines = "\n".join([*(f"option {i}: when {i}" for i in range(260)), ""])
    tab.page.evaluate("text => navigator.clipboard.writeText(text)", lines)
    tab.card(0).get_by_label("Name of option 1").fill("")
    tab.card(0).get_by_label("Name of option 1").press("Control+v")
    expect(tab.card(0).locator(".option")).to_have_count(255)
    expect(tab.card(0).get_by_role("button", name="+ Option")).to_be_disabled()
    tab.ask(1)
    question = recording.asked[0][1]["team"]
    assert isinstance(question, Choice)
    assert question.criteria["option 254"] == "when 254"
    expect(tab.page.locator(".answer > .bars li")).to_have_count(8)
    expect(tab.page.locator(".answer summary")).to_have_text("247 more")


def test_examples_and_the_way_back(tab: Visit, recording: Recording) -> None:
    tab.fill("mine")
    tab.page.get_by_role("button", name="an agent’s steps").click()
    expect(tab.page.get_by_label("JSON", exact=True)).to_be_checked()
    tab.ask(3)
    states: list[Any] = [state for state, _ in recording.asked]
    assert len(states[0]) == 3
    tab.page.get_by_role("button", name="Undo").click()
    expect(tab.page.locator("#state")).to_have_value("mine")
    expect(tab.page.locator("#stale")).to_be_visible()
    tab.page.get_by_role("button", name="an order in JSON").click()
    expect(tab.page.locator("#stale")).to_be_visible()
    tab.ask(2)
    expect(tab.page.locator("#stale")).to_be_hidden()
    assert [state["order"]["number"] for state, _ in recording.asked[1:]] == [4821]


def test_a_link_brings_the_request_and_nobody_else_sees_it(
    browser: Browser, tab: Visit, server: Running
) -> None:
    tab.fill('private "🙂"')
    tab.card(0).get_by_label("Id", exact=True).fill("my id")
    tab.page.get_by_role("button", name="Copy link").click()
    expect(tab.page.get_by_role("button", name="Link copied")).to_be_visible()
    link = tab.clipboard()
    path, _, fragment = link.removeprefix(server.url).partition("#")
    assert path == "/"
    with visit(browser, server.url, f"/#{fragment}") as other:
        expect(other.page.locator("#state")).to_have_value('private "🙂"')
        expect(other.card(0).get_by_label("Id", exact=True)).to_have_value("my id")
        other.ask(3)
    assert fragment not in server.log.getvalue()
    assert "private" not in server.log.getvalue()


@pytest.mark.parametrize("fragment", ["nothing", "%FF", "e30", "W10", "answers-title", "bnVsbA"])
def test_a_broken_link_is_an_empty_one(browser: Browser, server: Running, fragment: str) -> None:
    with visit(browser, server.url, f"/#{fragment}") as tab:
        expect(tab.card(2).get_by_label("Id", exact=True)).to_have_value("anger")


def test_a_low_legal_mass_is_pointed_out(tab: Visit) -> None:
    tab.ask(3)
    notes = tab.page.locator('[data-answer="urgent"] .notes')
    expect(notes).to_have_text("legal mass 25.0 %: it would rather say something else")
    tab.page.get_by_label("legal mass").uncheck()
    tab.ask(3)
    expect(tab.page.locator("[data-answer=urgent] .notes")).to_have_count(0)


def test_text_never_becomes_markup(tab: Visit) -> None:
    attack = "<img src=/x onerror=alert(1)>"
    tab.fill(attack)
    tab.card(0).get_by_label("Id", exact=True).fill(attack)
    tab.card(1).get_by_label("Name of option 1").fill(attack)
    tab.ask(3)
    assert tab.bars("team")[0][0] == attack
    expect(tab.page.locator("img")).to_have_count(1)  # the icon
    markup = "try { document.body.innerHTML = '<b>x</b>' } catch (error) { error.name }"
    assert tab.page.evaluate(markup) == "TypeError"
    assert "TrustedHTML" in tab.said.pop()


def test_the_files_are_small_and_locked_up(server: Running) -> None:
    assert sum(len(file.content) for file in FILES.values()) < 64 << 10
    with httpx.Client(base_url=server.url) as client:
        page = client.get("/")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert client.head("/").headers["content-length"] == str(len(page.content))
        for name, file in FILES.items():
            if name == "index.html":
                continue
            assert f'"page/{name}"' in page.text, "nothing is found out only by running"
            found = client.get(f"/page/{name}")
            assert (found.status_code, found.content) == (200, file.content)
            assert found.headers["x-content-type-options"] == "nosniff"
            again = client.get(f"/page/{name}", headers={"if-none-match": found.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        for name in ("index.html", "none.js", "__init__.py", "..%2Fapp.py", "%2E%2E/app.py"):
            assert client.get(f"/page/{name}").status_code == 404
