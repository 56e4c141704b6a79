"""Compiling every Triton kernel without a GPU, and what its machine code is like.

Each operator's Triton module lists specimens of its kernels; worker processes compile them. The
workers never see TRITON_INTERPRET: a kernel defined under it can't be compiled. Compiled kernels,
and what was read off them, stay in Triton's own cache.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import multiprocessing
import os
import pkgutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from readoff.kernels import sass
from readoff.kernels.specimens import Specimen

KIB = 1024
SHARED_LIMIT = {
    80: 163 * KIB,
    86: 99 * KIB,
    89: 99 * KIB,
    90: 227 * KIB,
    100: 227 * KIB,
    120: 99 * KIB,
}
"""Shared memory one program may use, in bytes, by compute capability."""

TARGETS = tuple(SHARED_LIMIT)


@dataclass(frozen=True)
class Compiled:
    """One specimen for one target.

    `spills`: bytes a thread moves to and from its local memory, over all such instructions.
    The counts are those of the inner loop where `loop` says so, of the whole kernel otherwise;
    wide loads bring 16 bytes a thread, or a tile through the copy engine. `error`: why there is
    no machine code.
    """

    kernel: str
    target: int
    registers: int = 0
    spills: int = 0
    shared_bytes: int = 0
    shared_limit: int = 0
    warps: int = 0
    stages: int = 0
    loop: bool = False
    instructions: int = 0
    matrix_instructions: int = 0
    wide_loads: int = 0
    narrow_loads: int = 0
    error: str | None = None

    @property
    def problems(self) -> list[str]:
        """What makes the kernel unfit for the target; empty when nothing does."""
        if self.error is not None:
            return [self.error]
        found = []
        if self.spills:
            found.append(f"spills {self.spills} bytes")
        if self.shared_bytes > self.shared_limit:
            found.append(f"{self.shared_bytes} bytes of shared memory of {self.shared_limit}")
        return found


@dataclass(frozen=True)
class Job:
    """One specimen, named so that another process finds it, for one target."""

    module: str
    number: int
    name: str
    kernel: str
    target: int


def operators() -> tuple[str, ...]:
    """The operators that have Triton kernels."""
    return tuple(dict.fromkeys(module.rsplit(".", 2)[1] for module in modules()))


def modules(chosen: Sequence[str] | None = None) -> list[str]:
    """The modules with specimens, of the operators `chosen` or of all. None is imported."""
    import readoff.kernels as package

    found = []
    for folder in pkgutil.iter_modules(package.__path__):
        if folder.ispkg and (chosen is None or folder.name in chosen):
            paths = [f"{path}/{folder.name}" for path in package.__path__]
            found += [
                f"{package.__name__}.{folder.name}.{module.name}"
                for module in pkgutil.iter_modules(paths)
                if module.name.startswith("triton")
            ]
    return found


def compile_all(
    names: Sequence[str],
    targets: Sequence[int] = TARGETS,
    progress: Callable[[int, int], None] = lambda done, of: None,
    choose: Callable[[list[Job]], list[Job]] = list,
    workers: int | None = None,
) -> list[Compiled]:
    """Compile every specimen of the modules `names` for each of the targets it is meant for.

    Args:
        progress: called with (done, of), first when it is known how many there are.
        choose: which of them to compile, and in which order; all by default.
        workers: processes; by default one a processor.
    """
    count = workers or len(os.sched_getaffinity(0))
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _start)
    with pool, _no_interpreter():
        listed = pool.map(_list, names, [tuple(targets)] * len(names))
        jobs = choose([job for found in listed for job in found])
        progress(0, len(jobs))
        futures = {pool.submit(_compile, job): n for n, job in enumerate(jobs)}
        done: dict[int, Compiled] = {}
        try:
            for future in as_completed(futures):
                number = futures[future]
                try:
                    done[number] = future.result()
                except BrokenProcessPool:  # this kernel took the worker with it, or another did
                    job, error = jobs[number], "the compiler's process died"
                    done[number] = Compiled(job.name, job.target, error=error)
                progress(len(done), len(jobs))
        finally:  # after Ctrl-C nobody waits for the rest
            pool.shutdown(wait=False, cancel_futures=True)
    return [done[n] for n in range(len(jobs))]


def _start() -> None:
    """First thing in a worker, before anything imports Triton. Ctrl-C ends it at once."""
    os.environ.pop("TRITON_INTERPRET", None)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def _no_interpreter() -> Iterator[None]:
    """Start processes without TRITON_INTERPRET: what they inherit is read before `_start` runs."""
    kept = os.environ.pop("TRITON_INTERPRET", None)
    try:
        yield
    finally:
        if kept is not None:
            os.environ["TRITON_INTERPRET"] = kept


def _list(module: str, targets: tuple[int, ...]) -> list[Job]:
    """In a worker: every specimen of a module with every target that it is meant for."""
    return [
        Job(module, number, specimen.name, getattr(specimen.kernel, "__name__", "?"), target)
        for number, specimen in enumerate(_specimens(module))
        for target in targets
        if target >= specimen.minimum
    ]


def _specimens(module: str) -> list[Specimen]:
    made: list[Specimen] = importlib.import_module(module).specimens()
    return made


def _compile(job: Job) -> Compiled:
    """In a worker. What the compiler raises becomes `error`."""
    specimen = _specimens(job.module)[job.number]
    try:
        return compile_specimen(specimen, job.target)
    except Exception as error:  # Triton's compiler raises many kinds, some of them bare
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = " ".join(lines[-1:])[:300]
        return Compiled(specimen.name, job.target, error=f"{type(error).__name__}: {told}")


def compile_specimen(specimen: Specimen, target: int) -> Compiled:
    """Compile one kernel. The process must have been started without TRITON_INTERPRET.

    Raises what Triton's compiler raises.
    """
    import triton
    from triton.backends.compiler import GPUTarget

    built = triton.compile(
        _source(specimen),
        target=GPUTarget("cuda", target, 32),
        options={
            "num_warps": specimen.num_warps,
            "num_stages": specimen.num_stages,
            "enable_fp_fusion": True,
        },
    )
    return Compiled(
        kernel=specimen.name,
        target=target,
        shared_bytes=built.metadata.shared,
        shared_limit=SHARED_LIMIT[target],
        warps=specimen.num_warps,
        stages=specimen.num_stages,
        **_kept(built.hash, built.asm["cubin"]),
    )


def _source(specimen: Specimen) -> Any:
    """What the compiler takes. Raises TypeError where the specimen doesn't fit the kernel."""
    from triton.compiler import ASTSource
    from triton.runtime.jit import JITFunction

    kernel = specimen.kernel
    if not isinstance(kernel, JITFunction):
        raise TypeError(f"{specimen.name} isn't a kernel, or was defined under TRITON_INTERPRET")
    told = [*specimen.signature, *specimen.constants]
    if sorted(told) != sorted(kernel.arg_names):
        differ = sorted(set(told) ^ set(kernel.arg_names)) or sorted(told)
        raise TypeError(f"the specimen and the kernel disagree about {', '.join(differ)}")
    aligned = {name for name, kind in specimen.signature.items() if kind.startswith("*")}
    aligned |= set(specimen.aligned)
    return ASTSource(
        fn=kernel,
        signature={name: specimen.signature.get(name, "constexpr") for name in kernel.arg_names},
        constexprs=dict(specimen.constants),
        attrs={
            (n,): [["tt.divisibility", 16]]
            for n, name in enumerate(kernel.arg_names)
            if name in aligned
        },
    )


def _kept(key: str, cubin: bytes) -> dict[str, Any]:
    """`_read`, remembered beside the compiled kernel for as long as sass.py stays as it is."""
    from triton.runtime.cache import get_cache_manager

    version = hashlib.sha256(inspect.getsource(sass).encode()).hexdigest()[:16]
    name = f"readoff-{version}.json"
    cache = get_cache_manager(key)
    path = cache.get_file(name)
    if path is not None:
        with open(path, encoding="utf-8") as file:
            kept: dict[str, Any] = json.load(file)
        return kept
    found = _read(cubin)
    cache.put(json.dumps(found), name, binary=False)
    return found


def _read(cubin: bytes) -> dict[str, Any]:
    """Registers, spills and instruction counts of a compiled kernel, by NVIDIA's tools."""
    from triton import knobs

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/kernel.cubin"
        with open(path, "wb") as file:
            file.write(cubin)
        usage = _run(knobs.nvidia.cuobjdump.path, "--dump-resource-usage", path)
        code = sass.parse(_run(knobs.nvidia.nvdisasm.path, "-c", "-ndf", path))
    loop = sass.hottest(code)
    counts = sass.count(loop or code)
    return {
        "registers": int(usage.partition("REG:")[2].split()[0]),
        "spills": sum(instruction.spilled for instruction in code),
        "loop": loop is not None,
        "instructions": counts.instructions,
        "matrix_instructions": counts.matrix,
        "wide_loads": counts.wide,
        "narrow_loads": counts.narrow,
    }


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def rows(compiled: Sequence[Compiled]) -> list[dict[str, Any]]:
    """What `readoff kernels report --json` prints, one entry a kernel and target."""
    return [asdict(one) | {"problems": one.problems} for one in compiled]
