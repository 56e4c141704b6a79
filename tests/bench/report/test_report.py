"""The page: its sections, its pictures, its targets; as Markdown and as HTML."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from readoff.bench.report import html, markdown, sections, targets
from readoff.bench.report.blocks import Page, Paragraph, Picture, Pictures, Section, Table
from readoff.bench.report.document import sharing_bound
from readoff.bench.report.pictures import by_questions, by_state, ladder
from readoff.bench.report.result import Result

from . import samples

DOCUMENT = samples.document()
PAGE = sections.page(DOCUMENT)
HTML = html.render(PAGE)
MARKDOWN = markdown.render(PAGE)
PICTURES = [
    picture
    for section in PAGE.sections
    for block in section.blocks
    if isinstance(block, Pictures)
    for picture in block.pictures
]


def test_every_part_is_there() -> None:
    assert [section.title for section in PAGE.sections] == [
        "Targets",
        "One question, 400 tokens (paper-en)",
        "Many questions about one state",
        "A search step",
        "Quality and calibration",
        "Opponents over HTTP",
        "Gates",
        "Notes",
        "Machine and settings",
        "How it was measured",
    ]
    for text in (HTML, MARKDOWN):
        for section in PAGE.sections:
            assert section.title in text


def test_the_page_needs_nothing_from_outside() -> None:
    assert "<script" not in HTML
    links = re.findall(r'(?:src|href|data|action)\s*=\s*"([^"]*)"', HTML)
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "url(" not in HTML.replace("url(#", "")
    assert "@import" not in HTML
    assert re.findall(r"https?://[^\"\s<)]+", HTML.replace("http://127.0.0.1:9", "")) == [
        *len(PICTURES) * ["http://www.w3.org/1999/xlink", "http://www.w3.org/2000/svg"]
    ]


def test_what_users_name_can_not_become_markup() -> None:
    assert "&lt;with 2 cores&gt;" in HTML
    assert "<with 2 cores>" not in HTML
    assert "\\<with 2 cores\\>" in MARKDOWN


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_stands_by_itself(picture: Picture) -> None:
    root = ET.fromstring(picture.svg)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert all(name.startswith(f"{picture.name}-") for name in ids if name)
    assert root.get("role") == "img"
    assert root.get("viewBox")
    assert root.get("width") is None
    assert "#010203" not in picture.svg
    assert "currentColor" in picture.svg


def test_the_same_document_gives_the_same_page() -> None:
    assert html.render(sections.page(samples.document())) == HTML


def test_pictures_need_two_points() -> None:
    one = DOCUMENT | {"workloads": [DOCUMENT["workloads"][0]]}
    assert by_state(one) == []
    assert by_questions(one) == []
    assert ladder(DOCUMENT | {"rungs": []}, DOCUMENT["workloads"][0]) is None


def test_the_bound_is_that_of_the_arithmetic() -> None:
    assert sharing_bound(400, 8, 40) == pytest.approx(4.889, abs=1e-3)
    assert sharing_bound(400, 32, 40) == pytest.approx(8.381, abs=1e-3)
    assert sharing_bound(400, 1, 40) == 1.0


def test_targets_are_judged_by_their_numbers() -> None:
    found = {(row["name"], row["workload"]): row for row in targets.judge(DOCUMENT)}
    cold = found["one cold decision against plain JSON", "paper-en"]
    assert (cold["rung"], cold["against"], cold["asked"]) == ("L4", "L0", 5.2)
    assert cold["ratio"] == pytest.approx(7.75)
    assert (cold["met"], cold["sure"]) == (True, True)
    assert "1 + n·t_token/t_prefill = 5.2" in cold["why"]
    warm = found["warm state against strong JSON", "paper-en"]
    assert (warm["rung"], warm["met"]) == ("L5", True)
    eight = found["eight questions against the first-token readout", "many-en-s512-q8"]
    assert (eight["met"], eight["sure"]) == (False, True)
    assert "sharing bound 5.3, reached 1.5" in eight["why"]
    assert "missed" in MARKDOWN


def test_a_ratio_within_noise_of_its_target_says_so() -> None:
    row = {"met": True, "sure": False, "name": "n", "workload": "w", "rung": "L4"}
    numbers = {"against": "L0", "asked": 5.2, "ratio": 5.3, "low": 5.1, "high": 5.5, "why": ""}
    document = DOCUMENT | {"targets": [row | numbers]}
    assert "met (within noise)" in markdown.render(sections.page(document))


def test_an_unfinished_run_has_a_warning_and_still_a_report() -> None:
    result = Result(dict(samples.ABOUT), stopped="interrupted by Ctrl-C.")
    page = sections.page(result.document())
    assert "not complete: interrupted by Ctrl-C." in html.render(page)
    assert "not complete: interrupted by Ctrl-C." in markdown.render(page)


def test_markdown_tables_keep_their_columns() -> None:
    table = Table(["a|b", "n"], [["x|y *z*", "1\n2"]])
    text = markdown.render(Page("t", [], [Section("s", [Paragraph("p_q_"), table])]))
    assert "| a\\|b | n |" in text
    assert "| x\\|y \\*z\\* | 1 2 |" in text
    assert "p\\_q\\_" in text
