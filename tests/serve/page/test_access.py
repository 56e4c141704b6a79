"""The page for everybody: small screens, screen readers, dark rooms, no mouse, no motion."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from ..rig import Running
from .browsing import Visit, visit

CONTROLS = {
    "button",
    "checkbox",
    "combobox",
    "DisclosureTriangle",
    "link",
    "radio",
    "tab",
    "textbox",
}

CONTRAST = """() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => {
      c /= 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ratio = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const found = parse(getComputedStyle(e).backgroundColor);
      if (found[3] === 1) return found;
    }
    throw new Error("nothing behind");
  };
  const shown = (e) => e.checkVisibility() && !e.closest(".unseen, .skip, :disabled");
  const texts = [], borders = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, e = node.parentElement;
    if (!node.textContent.trim() || !shown(e)) continue;
    const colour = parse(getComputedStyle(e).color);
    texts.push([node.textContent.trim().slice(0, 30), ratio(colour, behind(e))]);
  }
  for (const e of document.querySelectorAll("input, textarea, select")) {
    if (!shown(e) || e.matches("[type=radio], [type=checkbox]")) continue;
    const style = getComputedStyle(e);
    texts.push([e.value, ratio(parse(style.color), behind(e))]);
    const faint = parse(getComputedStyle(e, "::placeholder").color);
    texts.push([e.placeholder, ratio(faint, behind(e))]);
    borders.push([e.id, ratio(parse(style.borderTopColor), behind(e.parentElement))]);
  }
  for (const e of document.querySelectorAll(".most .fill")) {
    const colour = parse(getComputedStyle(e).backgroundColor);
    borders.push([".fill", ratio(colour, behind(e.parentElement))]);
  }
  return {texts, borders};
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read(browser: Browser, server: Running, scheme: str) -> None:
    """WCAG 2.2 AA: 4.5 for text, 3 for the borders of fields and for what a picture needs."""
    with visit(browser, server.url, color_scheme=scheme) as tab:
        tab.ask(3)
        tab.card(0).get_by_label("Id", exact=True).fill("")
        tab.page.get_by_role("button", name="Ask", exact=True).click()
        expect(tab.page.locator(".error")).to_be_visible()
        tab.page.locator("#key-box summary").click()
        found = tab.page.evaluate(CONTRAST)
        ground = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(17, 20, 22)") == (scheme == "dark")
    assert len(found["texts"]) > 80
    assert len(found["borders"]) > 15
    assert [one for one in found["texts"] if one[1] < 4.5] == []
    assert [one for one in found["borders"] if one[1] < 3] == []


def test_the_measure_of_contrast_is_right(tab: Visit) -> None:
    grey = "document.querySelector('.tagline').style.color = '#8a8a8a'"
    tab.page.evaluate(grey)  # on #f6f6f3: 3.2
    found = dict(tab.page.evaluate(CONTRAST)["texts"])
    assert found["Typed decisions, read off one "] == pytest.approx(3.18, abs=0.02)


def tree(tab: Visit) -> list[dict[str, Any]]:
    """What a screen reader is given."""
    session = tab.page.context.new_cdp_session(tab.page)
    nodes: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    return [node for node in nodes if not node["ignored"]]


def test_every_control_has_a_name_of_its_own(tab: Visit) -> None:
    tab.ask(3)
    tab.page.locator("#key-box summary").click()
    found = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree(tab)
        if node["role"]["value"] in CONTROLS
    ]
    assert len(found) > 40
    assert [one for one in found if not one[1].strip()] == []
    assert {role for role, _ in found} >= CONTROLS - {"link"}
    names = [
        name for role, name in found if role == "button" and name.startswith("Remove question")
    ]
    assert names == [f"Remove question {name}" for name in ("urgent", "team", "anger")]


def test_the_structure_is_told(tab: Visit) -> None:
    tab.ask(3)
    nodes = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in tree(tab)]
    headings = tab.page.locator("h1, h2, h3").all_text_contents()
    assert [text.strip() for text in headings] == [
        "readoff",
        *("State", "Questions", "Answers", "urgent", "team", "anger", "In code"),
    ]
    for landmark in ("banner", "main", "navigation", "form"):
        assert landmark in dict(nodes)
    for question in ("urgent", "team", "anger"):
        assert ("group", f"Question {question}") in nodes
        assert ("article", question) in nodes
    assert tab.page.evaluate("document.documentElement.lang") == "en"
    ids: list[str] = tab.page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("width", [320, 360])
def test_a_phone_never_scrolls_sideways(browser: Browser, server: Running, width: int) -> None:
    size = {"width": width, "height": 700}
    with visit(browser, server.url, viewport=size, has_touch=True, is_mobile=True) as tab:
        assert tab.overflow() <= 0
        long = "W" * 120
        tab.page.locator("#state").fill(long)
        tab.card(0).get_by_label("Id", exact=True).fill(long)
        tab.card(1).get_by_label("Name of option 1").fill(long)
        tab.card(2).get_by_label("What level 0 means").fill(long)
        tab.page.locator("#key-box summary").tap()
        tab.ask(3)
        expect(tab.page.locator("#answers-title")).to_be_in_viewport()
        assert tab.overflow() <= 0
        for name in ("Python", "Response"):
            tab.page.get_by_role("tab", name=name).tap()
            assert tab.overflow() <= 0
        tab.card(1).get_by_label("Name of option 2").fill(long)
        tab.page.get_by_role("button", name="Ask", exact=True).tap()
        expect(tab.page.locator(".error")).to_be_visible()
        assert tab.overflow() <= 0
        sizes: list[list[float]] = tab.page.evaluate(
            "[...document.querySelectorAll('button, select, summary')]"
            ".filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect())"
            ".map(box => [box.width, box.height])"
        )
        assert len(sizes) > 20
        assert min(map(min, sizes)) >= 24  # WCAG 2.5.8


@pytest.mark.parametrize(("motion", "moves"), [("reduce", False), ("no-preference", True)])
def test_nothing_moves_for_those_who_do_not_want_it(
    browser: Browser, server: Running, motion: str, moves: bool
) -> None:
    with visit(browser, server.url, reduced_motion=motion) as tab:
        tab.page.evaluate(
            "window.moved = 0; addEventListener('animationstart', () => { window.moved += 1; })"
        )
        tab.ask(3)
        tab.page.wait_for_timeout(200)
        assert (tab.page.evaluate("window.moved") > 0) is moves
        assert tab.page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == (
            "smooth" if moves else "auto"
        )


def test_a_focus_is_seen(tab: Visit) -> None:
    for _ in range(30):
        tab.page.keyboard.press("Tab")
        seen = tab.focus().evaluate(
            "e => { const shown = e.matches('[type=radio]') ? e.nextElementSibling : e;"
            " const s = getComputedStyle(shown);"
            " return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2; }"
        )
        assert seen, tab.focus().evaluate("e => e.outerHTML")
