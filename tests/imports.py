"""Reads the imports of every module of the package from its source, without running any."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS: dict[str, str] = PYPROJECT["tool"]["setuptools"]["package-dir"]
"""Import name to folder: {"readoff.engine": "engine", …}."""


@dataclass
class Module:
    """One source file. `at_import` is what runs when it is imported, `anywhere` adds the rest
    that can ever run (inside functions); imports for type checkers are in neither."""

    name: str
    path: Path
    at_import: set[str] = field(default_factory=set)
    anywhere: set[str] = field(default_factory=set)


def modules() -> dict[str, Module]:
    """Every module by its import name, with its imports resolved to modules where they are ours."""
    found: dict[str, Module] = {}
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            found[name] = Module(name, path)
    for module in found.values():
        _read(module, found)
    return found


def _read(module: Module, known: dict[str, Module]) -> None:
    tree = ast.parse(module.path.read_text())
    package = module.name if module.path.name == "__init__.py" else module.name.rpartition(".")[0]
    for node, inside_function in _statements(tree, False):
        for target in _targets(node, package, known):
            module.anywhere.add(target)
            if not inside_function:
                module.at_import.add(target)


def _statements(node: ast.AST, inside: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield other, inside
                yield from _statements(other, inside)
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, inside
        deeper = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _statements(child, inside or deeper)


def _targets(node: ast.AST, package: str, known: dict[str, Module]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            anchor = package.split(".")
            anchor = anchor[: len(anchor) - node.level + 1]
            base = ".".join([*anchor, base] if base else anchor)
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            yield inner if inner in known else base
