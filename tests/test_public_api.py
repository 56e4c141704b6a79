"""What users import: sorted, complete, importable, and light."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import readoff
from readoff.engine import errors

ROOT = Path(__file__).resolve().parent.parent


def typed_names() -> set[str]:
    """The names that type checkers see: those imported under TYPE_CHECKING."""
    tree = ast.parse((ROOT / "readoff" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_all_is_sorted_and_without_duplicates() -> None:
    assert readoff.__all__ == sorted(set(readoff.__all__))


@pytest.mark.parametrize("name", readoff.__all__)
def test_every_name_is_importable(name: str) -> None:
    value = getattr(readoff, name)
    assert name == "__version__" or value.__name__ == name


def test_type_checkers_and_users_see_the_same_names() -> None:
    assert typed_names() == set(readoff.__all__) - {"__version__"}


def test_the_whole_exception_family_is_exported() -> None:
    family = {
        name
        for name, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, errors.ReadoffError)
    }
    assert "ReadoffError" in family
    assert family <= set(readoff.__all__)


def test_dir_offers_the_names_before_their_first_use() -> None:
    assert set(readoff.__all__) <= set(dir(readoff))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Oracle'"):
        readoff.Oracle  # noqa: B018


def test_the_version_is_the_one_of_the_distribution() -> None:
    from importlib.metadata import version

    assert readoff.__version__ == version("readoff")


def test_importing_readoff_loads_no_heavy_module() -> None:
    """In a fresh interpreter: the questions and answers load neither torch nor transformers."""
    script = (
        "import sys, readoff\n"
        "readoff.Choice, readoff.ScoreAnswer, readoff.Card, readoff.ReadoffError\n"
        "print([m for m in ('torch', 'transformers', 'triton', 'pydantic') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
