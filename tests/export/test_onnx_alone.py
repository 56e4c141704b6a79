"""A pack decides where torch isn't: imports, a blocked interpreter, a fresh environment; and
without readoff, by the example."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from readoff.engine.answers import ChoiceAnswer
from readoff.engine.questions import Choice
from readoff.export import pack_example
from readoff.export.graph.options import FixedLabels, GraphOptions
from readoff.export.pack import Pack
from readoff.export.runtime import OnnxEngine
from tests.export.packs import pack_of, tiny_pack
from tests.imports import ROOT, modules
from tests.models import Architecture

HEAVY = {"torch", "triton", "transformers", "gguf", "peft", "onnx", "onnx_ir"}
BLOCK = """
import sys

BLOCKED = {blocked!r}

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ModuleNotFoundError("blocked: " + name, name=name)

sys.meta_path.insert(0, Block())
"""
STATE = "The invoice was paid twice, and nobody answers."
REQUEST = {
    "state": STATE,
    "questions": {
        "team": {"type": "choice", "criteria": {"billing": "money", "sales": None}},
        "due": {"type": "noul", "instructions": "A refund is due."},
    },
}


@pytest.fixture(scope="module", params=["qwen2", "qwen3_5"])
def pack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pack:
    architecture: Architecture = request.param
    return tiny_pack(tmp_path_factory.mktemp("m"), architecture)[1]


def run(code: str, *arguments: str, blocked: set[str]) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter in which some packages can't be imported."""
    return subprocess.run(
        [sys.executable, "-c", BLOCK.format(blocked=blocked) + code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )


@pytest.mark.parametrize("name", ["runtime", "pack", "session"])
def test_nothing_heavy_is_imported(name: str) -> None:
    """Neither directly nor through a neighbour, not even inside a function."""
    known, seen, queue = modules(), set[str](), [f"readoff.export.{name}"]
    while queue:
        current = queue.pop()
        if current not in seen:
            seen.add(current)
            queue += known[current].anywhere if current in known else ()
    assert {"readoff.export.pack_file", "readoff.engine.config"} <= seen
    assert {module.partition(".")[0] for module in seen} & HEAVY == set()


def test_opening_imports_the_torch_engine_late() -> None:
    reached, queue, known = set[str](), ["readoff.export.opening"], modules()
    while queue:
        current = queue.pop()
        if current not in reached:
            reached.add(current)
            queue += known[current].at_import if current in known else ()
    assert {module.partition(".")[0] for module in reached} & HEAVY == set()


def test_it_decides_where_torch_is_blocked(pack: Pack) -> None:
    code = """
import json
from readoff.export.opening import open_engine
from readoff.engine import wire

request = wire.parse_request(json.loads(sys.argv[2]))
with open_engine(sys.argv[1], threads=1) as engine:
    engine.warmup()
    decision = engine.decide(request.state, request.questions)
assert not BLOCKED & set(sys.modules)
print(json.dumps(wire.render_response(decision, decision.model)["answers"]))
"""
    done = run(code, str(pack.folder), json.dumps(REQUEST), blocked=HEAVY)
    assert done.stderr == ""
    with OnnxEngine.from_pretrained(pack.folder, threads=1) as engine:
        criteria = {"billing": "money", "sales": None}
        found = engine.decide(STATE, {"team": Choice(criteria=criteria)})["team"]
    assert isinstance(found, ChoiceAnswer)
    told = json.loads(done.stdout)["team"]["probabilities"]
    assert told == pytest.approx(dict(found.probabilities), abs=1e-6)


def test_the_command_decides_where_torch_is_blocked(pack: Pack, tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text(json.dumps(REQUEST))
    code = "from readoff.cli import main; main(sys.argv[1:])"
    asked = ("decide", "--model", str(pack.folder), "--request", str(tmp_path / "request.json"))
    done = run(code, *asked, blocked=HEAVY)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["answers"]) == {"team", "due"}
    refused = run(code, *asked, "--dtype", "bf16", blocked=HEAVY)
    assert refused.returncode == 1
    assert "is a pack, which takes no dtype" in refused.stderr


def test_the_example_needs_no_readoff(pack: Pack) -> None:
    """And shows the same probabilities as the engine."""
    code = "import runpy; runpy.run_path(sys.argv[1] + '/example.py', run_name='__main__')"
    done = run(code, str(pack.folder), blocked=HEAVY | {"readoff", "jinja2", "huggingface_hub"})
    assert done.stderr == ""
    lines = [line.split() for line in done.stdout.splitlines()]
    told = {name: dict(told.split("=") for told in numbers) for name, *numbers in lines}
    with OnnxEngine.from_pretrained(pack.folder, threads=1) as engine:
        criteria = {"billing": "money", "sales": None}
        asked = {
            "team": Choice(instructions="Which team?", criteria=criteria),
            "mood": Choice(instructions="Who is this for?", criteria=criteria),
        }
        found = engine.decide(STATE, asked)
    assert list(told) == list(asked)
    for name, answer in found.items():
        assert isinstance(answer, ChoiceAnswer)
        assert list(told[name]) == ["A", "B"]
        numbers = [float(p) for p in told[name].values()]
        assert numbers == pytest.approx(list(answer.probabilities.values()), abs=1e-5)


def test_the_example_tells_baked_labels(tmp_path: Path) -> None:
    """Three labels are baked in and none is "A" or "B": it names them, in the graph's order."""
    made = tiny_pack(tmp_path, layers=1)[1]
    with OnnxEngine.from_pretrained(made.folder, threads=1) as engine:
        ids = engine.renderer.alphabet.for_question(Choice(criteria=dict.fromkeys("abcde"))).ids
    options = GraphOptions(labels=FixedLabels((ids[4], ids[2], ids[3]), (9.0, 0.0, -9.0)))
    fixed = pack_of(tmp_path / "model", tmp_path / "fixed", graph=options)
    code = "import runpy; runpy.run_path(sys.argv[1] + '/example.py', run_name='__main__')"
    done = run(code, str(fixed.folder), blocked=HEAVY | {"readoff"})
    assert done.stderr == ""
    first, *lines = [line.split() for line in done.stdout.splitlines()]
    assert first == ["Baked", "labels:", "E", "C", "D"]
    assert [line[0] for line in lines] == ["team", "mood"]
    for _, *told in lines:
        numbers = {name: float(p) for name, p in (each.split("=") for each in told)}
        assert list(numbers) == ["E", "C", "D"]
        assert numbers["E"] < numbers["C"] < numbers["D"]  # by the baked prior
        assert sum(numbers.values()) == pytest.approx(1.0, abs=1e-5)


def test_the_example_in_the_repository_is_the_packs(pack: Pack) -> None:
    source = Path(pack_example.__file__).read_text()
    assert (ROOT / "examples" / "onnx_without_readoff.py").read_text() == source
    assert (pack.folder / "example.py").read_text() == source
    code = source.partition("def main")[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 45


@pytest.mark.slow
def test_an_environment_with_the_extra_alone(pack: Pack, tmp_path: Path) -> None:
    """A wheel of this tree with [onnx], in a new environment: no torch there, and it decides."""
    tree = tmp_path / "tree"
    kept = ("pyproject.toml", "README.md", "LICENSE")
    folders = ("readoff", "engine", "kernels", "export", "bench", "learn", "serve")
    tree.mkdir()
    for name in kept:
        shutil.copy(ROOT / name, tree / name)
    for name in folders:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tree / name, ignore=ignored, symlinks=True)
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", f"{tree}[onnx]"]
    done = subprocess.run(install, capture_output=True, text=True, timeout=600)
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("the package registry can't be reached")
    assert done.returncode == 0, done.stderr
    code = f"import importlib.util as u; print([n for n in {sorted(HEAVY)} if u.find_spec(n)])"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    found = subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, cwd=tmp_path, env=clean
    )
    assert found.stdout.strip() == "[]", found.stderr
    (tmp_path / "request.json").write_text(json.dumps(REQUEST))
    asked = ["-m", "readoff", "decide", "--model", str(pack.folder), "--request", "request.json"]
    done = subprocess.run(
        [str(python), *asked], capture_output=True, text=True, cwd=tmp_path, env=clean, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["answers"]) == {"team", "due"}
    done = subprocess.run(
        [str(python), str(pack.folder / "example.py")], capture_output=True, text=True, env=clean
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["team", "mood"], done.stderr
