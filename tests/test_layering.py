"""Who may import whom: kernels, adapters < engine < export < bench < learn, and export < serve."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import pytest

from tests.imports import FOLDERS, Module, modules

MODULES = modules()
HEAVY = {"torch", "transformers", "triton", "gguf", "peft"}
TEXT_SIDE = {
    f"readoff.engine.{name}"
    for name in (
        "answers",
        "aside",
        "asking",
        "calibration",
        "calls",
        "card",
        "card_fields",
        "chat",
        "compute",
        "config",
        "debias",
        "errors",
        "escalation",
        "escalation_http",
        "gate",
        "host",
        "job",
        "labels",
        "line",
        "policy",
        "prompt",
        "questions",
        "scheduler",
        "serving",
        "strict_json",
        "text",
        "tokenizer",
        "wire",
        "wire_openai",
    )
}
"""What works without torch: it validates, renders and calibrates."""

BELOW = {
    "readoff.adapters": set[str](),
    "readoff.kernels": set[str](),
    "readoff.engine": {"readoff.kernels", "readoff.adapters"},
    "readoff.export": {"readoff.kernels", "readoff.engine"},
    "readoff.bench": {"readoff.kernels", "readoff.engine", "readoff.export"},
    "readoff.learn": {"readoff.kernels", "readoff.engine", "readoff.export", "readoff.bench"},
    "readoff.serve": {"readoff.kernels", "readoff.engine", "readoff.export"},
}
"""What each folder may import besides itself. The face, `readoff`, may import all of them."""


def folder_of(module: str) -> str:
    """The longest mapped import name that `module` lies in."""
    owners = [name for name in FOLDERS if module == name or module.startswith(f"{name}.")]
    return max(owners, key=len, default="")


def top(module: str) -> str:
    return module.partition(".")[0]


def test_every_folder_has_its_place_in_the_order() -> None:
    assert set(BELOW) | {"readoff"} == set(FOLDERS)


@pytest.mark.parametrize("folder", sorted(BELOW))
def test_nothing_imports_upward(folder: str) -> None:
    members = [m for m in MODULES.values() if folder_of(m.name) == folder]
    assert members
    wrong = [
        f"{module.name} imports {target}"
        for module in members
        for target in sorted(module.anywhere)
        if folder_of(target) not in BELOW[folder] | {folder, ""}
    ]
    assert wrong == []


def reach(name: str, *, late: bool) -> set[str]:
    """Everything that importing `name` pulls in; `late` adds what its functions import."""
    seen: set[str] = set()
    queue = [name]
    while queue:
        current = queue.pop()
        if current not in seen:
            seen.add(current)
            module = MODULES.get(current)
            if module is not None:
                queue += module.anywhere if late else module.at_import
    return seen


@pytest.mark.parametrize("name", sorted(TEXT_SIDE))
def test_the_text_side_needs_no_torch(name: str) -> None:
    """Neither directly nor through a neighbour, not even inside a function."""
    assert name in MODULES
    assert {top(module) for module in reach(name, late=True)} & HEAVY == set()


def test_the_command_line_starts_without_torch() -> None:
    seen = reach("readoff.cli", late=False)
    assert "readoff.commands.decide" in seen
    assert {top(module) for module in seen} & HEAVY == set()


def test_only_the_command_line_imports_commands() -> None:
    users = {
        module.name
        for module in MODULES.values()
        if any(folder_of(t) == "readoff" and ".commands" in t for t in module.anywhere)
        and not module.name.startswith("readoff.commands")
    }
    assert users == {"readoff.cli"}


def cycle(found: dict[str, Module]) -> list[str]:
    """A cycle of imports among `found`, or nothing."""
    graph = {m.name: {t for t in m.at_import if t in found and t != m.name} for m in found.values()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_there_are_no_import_cycles() -> None:
    assert cycle(MODULES) == []


def test_a_cycle_would_be_found() -> None:
    chain = {
        name: Module(name, MODULES["readoff"].path, at_import={other})
        for name, other in (("a", "b"), ("b", "c"), ("c", "a"))
    }
    assert set(cycle(chain)) == {"a", "b", "c"}
