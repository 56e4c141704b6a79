"""Every Triton kernel compiles for every GPU generation, without spills and within its memory.

Compiled kernels stay in Triton's cache (TRITON_CACHE_DIR, else ~/.triton), so that only changed
ones cost time. Workers compile: this process runs kernels under the interpreter.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import readoff.kernels
from readoff.kernels import aot
from readoff.kernels.aot import Compiled, Job

KERNELS = Path(readoff.kernels.__path__[0])
TOYS = "tests.kernels.toys"

Rows = dict[tuple[str, int], Compiled]


def two_of_each(jobs: list[Job]) -> list[Job]:
    """Each kernel twice: its first specimen for sm_90, its last for another target in turn."""
    kernels: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        kernels.setdefault((job.module, job.kernel), []).append(job)
    others = [target for target in aot.TARGETS if target != 90]
    chosen = []
    for turn, of_one in enumerate(kernels.values()):
        wanted = others[turn % len(others)]
        last = [job for job in of_one if job.number == of_one[-1].number]
        chosen.append(next((job for job in of_one if job.target == 90), of_one[0]))
        chosen.append(next((job for job in last if job.target == wanted), last[-1]))
    return chosen


def problems(compiled: list[Compiled]) -> list[str]:
    return [f"sm_{c.target} {c.kernel}: {p}" for c in compiled for p in c.problems]


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    """Every specimen with every target; compiled by nobody."""
    seen: list[Job] = []
    aot.compile_all(aot.modules(), choose=lambda jobs: seen.extend(jobs) or [], workers=1)
    return seen


def test_each_kernel_on_two_targets() -> None:
    compiled = aot.compile_all(aot.modules(), choose=two_of_each)
    assert {c.target for c in compiled} == set(aot.TARGETS)
    assert problems(compiled) == []


@pytest.mark.slow
def test_the_whole_matrix() -> None:
    compiled = aot.compile_all(aot.modules())
    assert problems(compiled) == []


def entries(folder: Path) -> set[str]:
    """The Triton functions of an operator that no other one uses: those that are launched."""
    functions: dict[str, ast.FunctionDef] = {}
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any(
                "jit" in ast.unparse(decorator) for decorator in node.decorator_list
            ):
                functions[node.name] = node
    used = {
        name.id
        for function in functions.values()
        for statement in function.body
        for name in ast.walk(statement)
        if isinstance(name, ast.Name)
    }
    return set(functions) - used


@pytest.mark.parametrize("operator", aot.operators())
def test_every_kernel_has_a_specimen(operator: str, jobs: list[Job]) -> None:
    own = [job for job in jobs if f".{operator}." in job.module]
    assert entries(KERNELS / operator) == {job.kernel for job in own}
    assert len({(job.name, job.target) for job in own}) == len(own), "two specimens of one name"
    assert all(job.name.partition(".")[2] for job in own)


@pytest.fixture(scope="module")
def toys() -> Rows:
    told: list[tuple[int, int]] = []
    compiled = aot.compile_all([TOYS], [80, 89], lambda done, of: told.append((done, of)))
    assert told == [(n, len(compiled)) for n in range(len(compiled) + 1)]
    assert os.environ["TRITON_INTERPRET"] == "1"
    return {(c.kernel, c.target): c for c in compiled}


@pytest.mark.parametrize("target", [80, 89])
def test_a_product_has_matrix_instructions_and_wide_loads(toys: Rows, target: int) -> None:
    found = toys["toy.good", target]
    assert found.problems == []
    assert found.loop
    assert 0 < found.registers <= 255
    assert found.matrix_instructions == 64 * 64 * 64 // (16 * 8 * 16 * 4)  # four warps share them
    assert found.wide_loads == 2 * 64 * 64 * 2 // (128 * 16)  # two tiles, 128 threads
    assert found.narrow_loads == 0
    assert found.shared_bytes >= 2 * 64 * 64 * 2


def test_a_stride_that_may_be_odd_costs_the_wide_loads(toys: Rows) -> None:
    found = toys["toy.strided", 80]
    assert found.wide_loads == 0
    assert found.narrow_loads == 8 * toys["toy.good", 80].wide_loads


def test_without_a_loop_the_whole_kernel_is_counted(toys: Rows) -> None:
    found = toys["toy.double", 80]
    assert not found.loop
    assert (found.matrix_instructions, found.wide_loads, found.narrow_loads) == (0, 2, 0)


def test_shared_memory_is_judged_by_target(toys: Rows) -> None:
    assert toys["toy.large", 80].problems == []
    (problem,) = toys["toy.large", 89].problems
    assert re.fullmatch(r"\d+ bytes of shared memory of 101376", problem)


def test_a_specimen_that_is_wrong_is_told(toys: Rows) -> None:
    assert toys["toy.wrong", 80].problems == [
        "TypeError: the specimen and the kernel disagree about BLOCK, BLOCKS"
    ]
    (problem,) = toys["toy.uncompilable", 80].problems
    assert "power of 2" in problem


def test_a_specimen_for_newer_devices_only(toys: Rows) -> None:
    assert not any(kernel == "toy.new" for kernel, _ in toys)


SPILLS = """
import sys
from readoff.kernels.aot import compile_specimen
from tests.kernels.toys import specimens
(specimen,) = (s for s in specimens() if s.name == "toy.crowded")
found = compile_specimen(specimen, 80)
print("found", found.spills, found.registers)
print("kept", compile_specimen(specimen, 80) == found)
"""


def test_spills_and_registers_are_those_the_assembler_tells(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "TRITON_DUMP_PTXAS_LOG": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SPILLS],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    told = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", done.stdout)
    registers = re.search(r"Used (\d+) registers", done.stdout)
    assert told is not None
    assert registers is not None
    spills = int(told[1]) + int(told[2])
    assert spills > 0
    assert f"found {spills} {registers[1]}" in done.stdout
    assert "kept True" in done.stdout


def test_under_the_interpreter_the_compiler_refuses() -> None:
    """In this process, that is: the kernels here were defined for the interpreter."""
    from tests.kernels.toys import specimens

    with pytest.raises(TypeError, match="TRITON_INTERPRET"):
        aot.compile_specimen(specimens()[0], 90)
