"""What users install: complete wheels, and no quarrel with transformers over a folder's name."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.imports import FOLDERS, PYPROJECT, ROOT

PACKAGES: list[str] = PYPROJECT["tool"]["setuptools"]["packages"]


def run_python(script: str, *, cwd: Path, timeout: float = 180) -> str:
    """The stdout of a fresh interpreter that sees only what the environment has installed."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=cwd,
        env=clean,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built by the project's own backend from a copy without any build output."""
    copy = tmp_path_factory.mktemp("clean") / "readoff"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for folder in FOLDERS.values():
        shutil.copytree(
            ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
    name = run_python(
        "from setuptools import build_meta; print(build_meta.build_wheel('dist'))", cwd=copy
    ).splitlines()[-1]
    return copy / "dist" / name


def _kept(path: Path) -> bool:
    return "__pycache__" not in path.parts


def test_the_package_list_is_the_tree() -> None:
    """setuptools takes the list at its word: a forgotten folder would be missing from the wheel."""
    found = {
        ".".join((package, *path.parent.relative_to(ROOT / folder).parts))
        for package, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*.py")
    }
    assert sorted(PACKAGES) == sorted(found)


def test_the_wheel_holds_every_source_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        "/".join((*package.split("."), *path.relative_to(ROOT / folder).parts))
        for package, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*.py")
    }
    brought = [path for path in (ROOT / "adapters").rglob("*") if path.suffix != ".py"]
    expected |= {f"readoff/{p.relative_to(ROOT)}" for p in brought if p.is_file() and _kept(p)}
    assert expected | {"readoff/py.typed"} <= names
    outside = {n for n in names if not n.startswith("readoff/") and ".dist-info/" not in n}
    assert outside == set()
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_wheel_imports_on_its_own(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import readoff, readoff.engine.errors, readoff.cli\n"
        "print(readoff.__file__, readoff.engine.errors.__file__)"
    )
    assert run_python(script, cwd=tmp_path).count(str(tmp_path)) == 2


def test_kernels_is_a_docstring_only() -> None:
    """transformers imports any top-level package of this name; code in it would run there."""
    body = ast.parse((ROOT / "kernels" / "__init__.py").read_text()).body
    assert len(body) == 1
    assert isinstance(body[0], ast.Expr)
    assert isinstance(body[0].value, ast.Constant)
    assert isinstance(body[0].value.value, str)


def test_transformers_imports_its_models_beside_our_folders(tmp_path: Path) -> None:
    """With the repository root first on sys.path, as in `python -m pytest` or a notebook here."""
    script = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import kernels
assert kernels.__file__.startswith({str(ROOT)!r}), kernels.__file__
from transformers import Qwen2ForCausalLM, Qwen3ForCausalLM, Qwen3_5ForCausalLM, Qwen2Config
model = Qwen2ForCausalLM(Qwen2Config(
    vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
    num_attention_heads=2, num_key_value_heads=1,
))
import torch
print(tuple(model(torch.tensor([[1, 2, 3]])).logits.shape))
"""
    assert run_python(script, cwd=tmp_path) == "(1, 3, 32)"
