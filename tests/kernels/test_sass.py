"""Loops, spills and kinds of instructions in machine code as nvdisasm prints it."""

from __future__ import annotations

import pytest

from readoff.kernels.sass import Counts, Instruction, count, hottest, parse


def text(*lines: str) -> str:
    """Labels as they are, instructions with made-up addresses."""
    printed = [
        line if line.endswith(":") else f"        /*{16 * n:04x}*/  {line} ;"
        for n, line in enumerate(lines)
    ]
    return "\n".join([".text.kernel:", *printed])


def test_an_inner_loop_is_preferred_to_the_one_around_it() -> None:
    code = parse(
        text(
            "LDG.E R4, [R2.64]",
            ".L_x_0:",
            "LDG.E.128 R8, [R2.64]",
            ".L_x_1:",
            "HMMA.16816.F32.BF16 R4, R8, R12, R4",
            "LDGSTS.E.BYPASS.LTC128B.128 [R1], [R2.64]",
            "LDG.E.64 R8, [R2.64]",
            "@P0 BRA `(.L_x_1)",
            "@!P1 BRA `(.L_x_0)",
            "STG.E.128 [R2.64], R4",
            "EXIT",
        )
    )
    assert hottest(code) == code[2:6]
    assert count(hottest(code) or []) == Counts(instructions=4, matrix=1, wide=1, narrow=1)
    assert count(code) == Counts(instructions=9, matrix=1, wide=2, narrow=2)


def test_waiting_behind_the_end_is_no_loop() -> None:
    """The assembler puts the slow way of a wait behind EXIT; it jumps back into the loop."""
    code = parse(
        text(
            "MOV R1, R2",
            ".L_x_0:",
            "UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8]",
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R4], R5",
            "@!P0 BRA `(.L_x_2)",
            ".L_x_1:",
            "FADD R4, R4, R5",
            "BRA.U !UP0, `(.L_x_0)",
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R4], R5",
            "@!P0 BRA `(.L_x_4)",
            ".L_x_3:",
            "EXIT",
            ".L_x_2:",
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R4], R5",
            "@!P0 BRA `(.L_x_2)",
            "BRA `(.L_x_1)",
            ".L_x_4:",
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R4], R5",
            "@!P0 BRA `(.L_x_4)",
            "BRA `(.L_x_3)",
            ".L_x_5:",
            "BRA `(.L_x_5)",
        )
    )
    assert hottest(code) == [*code[1:6], *code[9:12]]


def test_matrix_instructions_count_for_more_than_length() -> None:
    lines = [
        ".L_x_0:",
        "FADD R1, R2, R3",
        "FADD R1, R2, R3",
        "FADD R1, R2, R3",
        "@P0 BRA `(.L_x_0)",
    ]
    short = [".L_x_1:", "IMMA.16832.S8.S8 R4, R8, R12, R4", "@P0 BRA `(.L_x_1)"]
    code = parse(text(*lines, *short, "EXIT"))
    assert hottest(code) == code[4:6]
    assert hottest(parse(text(*lines, "EXIT"))) == parse(text(*lines, "EXIT"))[:4]


def test_a_kernel_whose_products_are_outside_its_loops_is_counted_whole() -> None:
    scan = (".L_x_0:", "IADD3 R1, R1, 0x1, RZ", "@P0 BRA `(.L_x_0)")
    assert hottest(parse(text(*scan, "HMMA.16816.F32 R4, R8, R12, R4", "EXIT"))) is None
    assert hottest(parse(text("FADD R1, R2, R3", "EXIT", ".L_x_0:", "BRA `(.L_x_0)"))) is None


def test_a_conditional_exit_goes_on() -> None:
    code = parse(text("@P0 EXIT", ".L_x_0:", "FADD R1, R2, R3", "@P1 BRA `(.L_x_0)", "EXIT"))
    assert hottest(code) == code[1:3]


@pytest.mark.parametrize(
    ("opcode", "matrix"),
    [
        ("HMMA.16816.F32.BF16", True),
        ("HGMMA.64x128x16.F32.BF16", True),
        ("QGMMA.64x64x32.F32.E4M3.E4M3", True),
        ("IGMMA.64x64x32.S8.S8", True),
        ("IMMA.16832.S8.S8", True),
        ("QMMA.16832.F32.E4M3.E4M3", True),
        ("UTCHMMA", True),
        ("UTCQMMA.2CTA", True),
        ("FFMA", False),
        ("LDSM.16.M88.4", False),
        ("WARPGROUP.ARRIVE", False),
    ],
)
def test_matrix_instructions(opcode: str, matrix: bool) -> None:
    assert Instruction(opcode).is_matrix is matrix


@pytest.mark.parametrize(
    ("opcode", "load", "wide"),
    [
        ("LDG.E", True, False),
        ("LDG.E.U16.CONSTANT", True, False),
        ("LDG.E.64", True, False),
        ("LDG.E.LTC128B", True, False),
        ("LDG.E.128.CONSTANT", True, True),
        ("LDG.E.ENL2.256", True, True),
        ("LDGSTS.E.BYPASS.LTC128B.128", True, True),
        ("LDGSTS.E", True, False),
        ("UTMALDG.2D", True, True),
        ("LDGDEPBAR", False, False),
        ("LDS.128", False, True),
        ("STG.E.128", False, True),
    ],
)
def test_loads_of_global_memory(opcode: str, load: bool, wide: bool) -> None:
    instruction = Instruction(opcode)
    assert instruction.is_load is load
    assert instruction.is_wide is wide


@pytest.mark.parametrize(
    ("opcode", "size"),
    [
        ("STL", 4),
        ("LDL.LU", 4),
        ("LDL.LU.64", 8),
        ("STL.128", 16),
        ("LDL.S16", 2),
        ("STL.U8", 1),
        ("LDG.E.128", 0),
        ("STS.128", 0),
    ],
)
def test_spilled_bytes(opcode: str, size: int) -> None:
    assert Instruction(opcode).spilled == size
