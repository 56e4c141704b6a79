"""Choosing an implementation, forcing one, and knowing which one ran."""

from __future__ import annotations

import pytest
import torch

from readoff.kernels import dispatch
from readoff.kernels.dispatch import Implementation, Op, Site, always, on_cpu, use

Toy = Op[[torch.Tensor, torch.Tensor], str]


@pytest.fixture
def toy() -> Toy:
    def never(site: Site) -> tuple[bool, str]:
        return False, "needs a machine of 2031"

    made: Toy = Op(
        "toy",
        [
            Implementation("future", lambda x, w: "future", never),
            Implementation("cpu", lambda x, w: "cpu", on_cpu("fast")),
            Implementation("reference", lambda x, w: "reference", always("slow")),
        ],
    )
    del dispatch.OPS["toy"]
    return made


X = torch.zeros(1)


def test_the_first_that_serves_runs_and_is_counted(toy: Toy) -> None:
    assert toy(X, X) == "cpu"
    assert toy.calls == {"cpu": 1}


def test_forcing_one_holds_inside_the_context_only(toy: Toy) -> None:
    with toy.use("reference"):
        assert toy(X, X) == "reference"
    assert toy(X, X) == "cpu"


def test_a_forced_one_that_cannot_serve_says_why(toy: Toy) -> None:
    with toy.use("future"), pytest.raises(LookupError, match="a machine of 2031"):
        toy(X, X)


def test_an_unknown_name_lists_the_known_ones(toy: Toy) -> None:
    with toy.use("tpu"), pytest.raises(LookupError, match=r"\['cpu', 'future', 'reference'\]"):
        toy(X, X)


def test_the_environment_forces_by_operator_and_in_general(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READOFF_KERNELS", "toy=reference")
    assert toy(X, X) == "reference"
    monkeypatch.setenv("READOFF_KERNELS", "other=future")
    assert toy(X, X) == "cpu"
    monkeypatch.setenv("READOFF_KERNELS", "reference, toy=cpu")
    assert toy(X, X) == "cpu"


def test_explain_gives_a_reason_for_each(toy: Toy) -> None:
    assert toy.explain(Site("cpu", torch.float32)) == {
        "future": "not available: needs a machine of 2031",
        "cpu": "used: fast",
        "reference": "available: slow",
    }
    assert toy.explain(Site("cuda", torch.float32))["cpu"] == "not available: cuda tensors"


def test_every_operator_has_a_reference_that_serves_everywhere() -> None:
    from readoff.engine.backbones import decoder

    assert decoder is not None  # importing the backbone registers all operators
    assert len(dispatch.OPS) >= 12
    for op in dispatch.OPS.values():
        served, _ = op.implementations["reference"].serves(Site("cuda", torch.float16, True))
        assert served


def test_use_without_names_forces_all() -> None:
    from readoff.kernels.pointwise import rms_norm

    before = rms_norm.calls["reference"]
    with use("reference"):
        rms_norm(torch.ones(2, 4), torch.ones(4), 1e-6, False)
    assert rms_norm.calls["reference"] == before + 1


def test_choosing_by_name_and_tensors_gives_the_reason() -> None:
    from readoff.kernels import dispatch, linear

    x, weight = torch.ones(2, 4), torch.ones(3, 4)
    name, reason = dispatch.choose("linear", x, weight)
    assert (name, reason) == ("plain", "torch.nn.functional.linear")
    with linear.linear.use("reference"):
        assert dispatch.choose("linear", x, weight) == ("reference", "fp32")
