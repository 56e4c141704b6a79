"""The docs say what is there: no dead links, no file or variable that isn't, none left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.imports import FOLDERS, ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
VARIABLE = re.compile(r"""["']((?:READOFF|XDG|HF)_[A-Z_]+)["']""")
SHELL_VARIABLE = re.compile(r"\$\{([A-Z_]+):-")


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_local_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(linked), f"{page.name} links to {target}"


def test_every_environment_variable_is_documented() -> None:
    sources = [path for folder in FOLDERS.values() for path in (ROOT / folder).rglob("*.py")]
    sources += [ROOT / "tests/engine/entailment.py", ROOT / "tests/export/test_oldest_runtime.py"]
    read = {name for path in sources for name in VARIABLE.findall(path.read_text())}
    for script in (ROOT / "scripts").iterdir():
        if script.is_file():
            read |= set(SHELL_VARIABLE.findall(script.read_text()))
    assert {"READOFF_KERNELS", "PYTHON", "TORCH"} <= read
    documented = set(re.findall(r"^\| `([A-Z_]+)`", (ROOT / "docs/env.md").read_text(), re.M))
    assert documented == read


@pytest.mark.parametrize("page", ["README.md", "docs/structure.md"])
def test_the_map_names_every_top_level_folder(page: str) -> None:
    text = (ROOT / page).read_text()
    for folder in {*FOLDERS.values(), "tests", "docs", "scripts"}:
        assert f"{folder}/" in text, f"{page} has no line for {folder}/"


def test_the_map_names_only_what_exists() -> None:
    """Paths in backquotes in docs/structure.md, and the files of its table of engine/."""
    text = (ROOT / "docs" / "structure.md").read_text()
    for path in re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", text):
        assert (ROOT / path).exists(), path
    table = text.partition("## The engine's files")[2].partition("The text side")[0]
    told = set(re.findall(r"\b(\w+\.py)\b", table))
    there = {path.name for path in (ROOT / "engine").glob("*.py")} - {"__init__.py"}
    assert told == there
