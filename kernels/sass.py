"""Reading a kernel's machine code: where it spends its time, and with which instructions.

Text as nvdisasm writes it is cut into basic blocks; the loops are those of the dominator tree
(Aho, Sethi, Ullman: "Compilers", 10.4). That the code lies further up isn't enough to make a jump
a loop: the assembler moves the waiting for an asynchronous copy behind the kernel's end, from
where it jumps back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@(!?\w+)\s+)?([A-Z][\w.]*)([^;]*);")
_LABEL = re.compile(r"^(\.L_x_\d+):", re.M)
_JUMP = re.compile(r"`\((\.L_x_\d+)\)")
_MATRIX = re.compile(r"([HIBDQO]|[HIBQ]G|UTC[A-Z]*)MMA$")
_ENDS = frozenset({"BRA", "EXIT", "RET", "BRX", "JMP", "BREAK"})
_WAITS = frozenset({"BRA", "SYNCS", "NANOSLEEP", "NOP", "YIELD", "DEPBAR", "WARPSYNC"})
_WIDE = frozenset({"128", "256"})
_WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}


@dataclass(frozen=True)
class Instruction:
    """`opcode` with its suffixes ("LDG.E.128"); `conditional`: under a predicate; `jump`: the
    index of the instruction it jumps to, None where it jumps nowhere inside the kernel."""

    opcode: str
    conditional: bool = False
    jump: int | None = None

    @property
    def name(self) -> str:
        """The opcode without its suffixes."""
        return self.opcode.partition(".")[0]

    @property
    def is_matrix(self) -> bool:
        """Whether it multiplies matrices (HMMA, HGMMA, IMMA, QMMA, UTCHMMA, …)."""
        return _MATRIX.match(self.name) is not None

    @property
    def is_load(self) -> bool:
        """Whether it reads global memory."""
        return self.name in ("LDG", "LDGSTS", "LD", "UTMALDG", "UBLKCP")

    @property
    def is_wide(self) -> bool:
        """Whether each thread moves 16 bytes or more with it, or the copy engine moves a tile."""
        return self.name in ("UTMALDG", "UBLKCP") or bool(_WIDE & set(self.opcode.split(".")))

    @property
    def spilled(self) -> int:
        """Bytes a thread moves between registers and its local memory."""
        if self.name not in ("LDL", "STL"):
            return 0
        return next((_WIDTHS[s] for s in self.opcode.split(".") if s in _WIDTHS), 4)


@dataclass(frozen=True)
class Counts:
    """How many instructions of each kind a stretch of code has.

    `loads` of global memory are `wide` where each thread takes 16 bytes, else `narrow`.
    """

    instructions: int
    matrix: int
    wide: int
    narrow: int


def parse(text: str) -> list[Instruction]:
    """The instructions of the one kernel in the output of `nvdisasm -c`, in order of address."""
    places: dict[str, int] = {}
    found: list[tuple[str, bool, str | None]] = []
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label is not None:
            places[label[1]] = len(found)
        match = _LINE.search(line)
        if match is not None:
            guard, opcode, rest = match.groups()
            to = _JUMP.search(rest) if opcode.startswith("BRA") else None
            # Uniform and divergence branches have their condition as an operand:
            # "BRA.U !UP0, `(.L_x_3)".
            conditional = guard is not None or re.match(r"\s*!?U[PR]\d", rest) is not None
            found.append((opcode, conditional, to and to[1]))
    return [Instruction(op, maybe, places.get(to) if to else None) for op, maybe, to in found]


def count(code: list[Instruction]) -> Counts:
    """The counts over all of `code`."""
    loads = [i for i in code if i.is_load]
    wide = sum(i.is_wide for i in loads)
    return Counts(len(code), sum(i.is_matrix for i in code), wide, len(loads) - wide)


def hottest(code: list[Instruction]) -> list[Instruction] | None:
    """The innermost loop with the most matrix instructions, or the longest where none has any.

    None where there is no loop, or where the kernel multiplies matrices, but never in a loop.
    """
    loops = [
        body for body in _loops(code) if not all(code[i].name in _WAITS for i in body)
    ]  # waiting isn't work, and a loop that waits inside is still an innermost one
    innermost = [body for body in loops if not any(other < body for other in loops)]
    bodies = [[code[i] for i in sorted(body)] for body in innermost]
    best = max(bodies, key=lambda body: (count(body).matrix, len(body)), default=None)
    if best is None or (count(code).matrix and not count(best).matrix):
        return None
    return best


def _loops(code: list[Instruction]) -> list[set[int]]:
    """The natural loops, each as the set of its instructions' indices; one for each header."""
    starts, follows = _blocks(code)
    above = _dominators(follows)
    before: dict[int, list[int]] = {block: [] for block in above}
    for block in above:
        for to in follows[block]:
            before[to].append(block)
    loops: dict[int, set[int]] = {}
    for block in above:
        for header in follows[block]:
            if header in above[block]:  # a back edge
                body = loops.setdefault(header, {header})
                queue = [block]
                while queue:
                    current = queue.pop()
                    if current not in body:
                        body.add(current)
                        queue += before[current]
    ends = [*starts[1:], len(code)]
    return [{i for b in body for i in range(starts[b], ends[b])} for body in loops.values()]


def _blocks(code: list[Instruction]) -> tuple[list[int], list[list[int]]]:
    """The first instruction of each basic block, and the blocks that may follow each."""
    leaders = {0} | {i.jump for i in code if i.jump is not None}
    leaders |= {n + 1 for n, i in enumerate(code) if i.name in _ENDS}
    starts = sorted(n for n in leaders if n < len(code))
    number = {start: block for block, start in enumerate(starts)}
    follows: list[list[int]] = []
    for block, end in enumerate([*starts[1:], len(code)]):
        last = code[end - 1]
        to = [number[last.jump]] if last.jump is not None else []
        if (last.name not in _ENDS or last.conditional) and block + 1 < len(starts):
            to.append(block + 1)
        follows.append(to)
    return starts, follows


def _dominators(follows: list[list[int]]) -> dict[int, set[int]]:
    """For each block that can be reached from the first: the blocks on every way to it."""
    order: list[int] = []
    seen, queue = {0}, [0]
    while queue:
        order.append(queue.pop())
        for to in follows[order[-1]]:
            if to not in seen:
                seen.add(to)
                queue.append(to)
    above = {block: set(order) for block in order}
    above[0] = {0}
    changed = True
    while changed:
        changed = False
        met: dict[int, set[int]] = {}
        for block in order:
            for to in follows[block]:
                met[to] = met[to] & above[block] if to in met else set(above[block])
        for block, ways in met.items():
            new = ({block} | ways) if block else {0}
            if new != above[block]:
                above[block], changed = new, True
    return above
