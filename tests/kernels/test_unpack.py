"""`unpack`: every entry of every field is written, whatever stood there before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from readoff.kernels.dispatch import KernelInputError
from readoff.kernels.unpack import BLOCK, HEADER, unpack

Field = tuple[int, Sequence[float], int]
"""(capacity in blocks, values, filler)."""


class Message:
    """A message and its buffers, poisoned; the first `ints` fields are whole numbers."""

    def __init__(self, fields: Sequence[Field], ints: int) -> None:
        sizes = [blocks * BLOCK for blocks, _, _ in fields]
        self.fields, self.count, self.sizes = fields, ints, sizes
        self.starts = torch.tensor([0, *sizes]).cumsum(0)
        header, body = list[int](), list[torch.Tensor]()
        at = HEADER * len(fields)
        for number, (_, values, filler) in enumerate(fields):
            header += [at, len(values), filler]
            kind = torch.int32 if number < ints else torch.float32
            body.append(torch.tensor(values, dtype=kind).view(torch.int32))
            at += len(values)
        self.packed = torch.cat([torch.tensor(header, dtype=torch.int32), *body])
        self.ints = torch.full((sum(sizes[:ints]),), -(2**40))
        self.floats = torch.full((sum(sizes[ints:]),), torch.nan)

    def args(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.packed, self.starts, self.ints, self.floats

    def wanted(self) -> tuple[list[float], list[float]]:
        full = [
            [*values, *[filler] * (size - len(values))]
            for size, (_, values, filler) in zip(self.sizes, self.fields, strict=True)
        ]
        flat = [[x for f in part for x in f] for part in (full[: self.count], full[self.count :])]
        return flat[0], flat[1]


SOME: list[Field] = [
    (1, [5, 6, 7], -1),
    (3, range(2 * BLOCK + 1), 9),
    (1, [], 2**31 - 1),
    (2, range(-2 * BLOCK, 0), 0),
    (1, [0.25, -1.5e30, 0.0], 1),
    (2, [], -3),
]


@pytest.mark.parametrize("implementation", ["reference", "triton"])
@pytest.mark.parametrize("fields", [1, 2, 3, 4, 5, 6])
def test_every_entry_is_written(implementation: str, fields: int) -> None:
    message = Message(SOME[:fields], min(fields, 4))
    before = unpack.calls[implementation]
    with unpack.use(implementation):
        unpack(*message.args())
    assert unpack.calls[implementation] == before + 1
    whole, real = message.wanted()
    assert message.ints.tolist() == whole
    assert torch.equal(message.floats, torch.tensor(real, dtype=torch.float32))


@pytest.mark.parametrize("implementation", ["reference", "triton"])
def test_a_longer_message_before_leaves_nothing(implementation: str) -> None:
    long = Message([(2, range(200), 0), (1, [0.5] * 100, 0)], 1)
    short = Message([(2, [1], 3), (1, [0.25], 1)], 1)
    with unpack.use(implementation):
        unpack(*long.args())
        unpack(short.packed, short.starts, long.ints, long.floats)
    assert long.ints.tolist() == short.wanted()[0]
    assert long.floats.tolist() == short.wanted()[1]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("packed", lambda m: setattr(m, "packed", m.packed.long())),
        ("packed", lambda m: setattr(m, "packed", m.packed[:4])),
        ("starts", lambda m: setattr(m, "starts", m.starts.int())),
        ("starts", lambda m: setattr(m, "starts", m.starts[:1])),
        ("ints", lambda m: setattr(m, "ints", m.ints[::2])),
        ("ints", lambda m: setattr(m, "ints", m.ints[:-1])),
        ("floats", lambda m: setattr(m, "floats", m.floats.double())),
        ("floats", lambda m: setattr(m, "floats", m.floats[:1])),
        ("floats", lambda m: setattr(m, "floats", m.floats.to("meta"))),
    ],
)
def test_wrong_tensors_are_named(name: str, change: object) -> None:
    message = Message(SOME, 4)
    assert callable(change)
    change(message)
    with pytest.raises(KernelInputError, match=rf"^unpack: .*{name}"):
        unpack(*message.args())


@pytest.mark.parametrize(
    ("where", "index", "value", "told"),
    [
        ("starts", 0, BLOCK, "starts runs"),
        ("starts", 1, BLOCK + 1, "multiples"),
        ("starts", 2, 0, "ascend"),
        ("starts", 4, 8 * BLOCK, "never in both"),
        ("packed", 0, 3, "behind the header"),
        ("packed", 1, -1, "must lie"),
        ("packed", 1, BLOCK + 1, "for 128 entries"),
        ("packed", 3 * 3, 10**6, "must lie"),
    ],
)
def test_wrong_values_are_named_when_asked(
    monkeypatch: pytest.MonkeyPatch, where: str, index: int, value: int, told: str
) -> None:
    monkeypatch.setenv("READOFF_CHECK", "1")
    message = Message(SOME, 4)
    unpack(*message.args())
    getattr(message, where)[index] = value
    with pytest.raises(KernelInputError, match=told):
        unpack(*message.args())
