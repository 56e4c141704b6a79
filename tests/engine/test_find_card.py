"""Which card a checkpoint takes: one given by its path has to fit the adapter too."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from readoff.engine.card import Card
from readoff.engine.card_fields import Digests
from readoff.engine.errors import CardError
from readoff.engine.loading import find_card


@pytest.mark.parametrize(
    ("digests", "fits"),
    [(Digests(), True), (Digests(weights="w", adapter="a"), True), (Digests(weights="w"), False)],
)
def test_a_card_of_the_weights_alone_is_refused_under_an_adapter(
    tmp_path: Path, digests: Digests, fits: bool
) -> None:
    file = tmp_path / "card.json"
    Card(digests=digests).save(file)
    adapted: Any = SimpleNamespace(
        adapter_folders=(tmp_path / "my-adapter",),
        weights_digest=lambda: "w",
        adapter_digest=lambda: "a",
    )
    if fits:
        assert find_card(adapted, file).digests == digests
    else:
        with pytest.raises(CardError, match="without an adapter, and here there is my-adapter"):
            find_card(adapted, file)
    plain: Any = SimpleNamespace(adapter_folders=(), weights_digest=lambda: "w")
    if not digests.adapter:
        assert find_card(plain, file).digests == digests
