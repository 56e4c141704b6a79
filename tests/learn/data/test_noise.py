"""Noise: confident learning finds how many labels were changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from readoff.engine.questions import Noul
from readoff.learn.data.clinc150 import clinc150
from readoff.learn.data.draft import Draft
from readoff.learn.data.errors import DataError
from readoff.learn.data.messages import Message, Source
from readoff.learn.data.noise import Noise, estimate, fixed_weight, rate
from readoff.learn.data.posterior import posterior


@pytest.mark.parametrize("changed", [0.0, 0.1, 0.25])
def test_the_rate_is_that_of_the_labels_changed(changed: float) -> None:
    random = np.random.default_rng(0)
    true = random.integers(0, 4, 4000)
    given = np.where(random.random(4000) < changed, random.integers(0, 4, 4000), true)
    probabilities = np.full((4000, 4), 0.05)
    probabilities[np.arange(4000), true] = 0.85
    # A changed label is the true one again in one case of four.
    assert rate(given, probabilities) == pytest.approx(changed * 0.75, abs=0.02)


def test_changed_labels_of_a_source_are_found(sources: Path) -> None:
    source = clinc150(sources)
    clean = posterior(source)
    intents = clean.intents
    train = [m for m in source.splits["train"] if m.intent != "oos"]
    spoilt = [
        Message(m.text, intents[(intents.index(m.intent) + 5) % len(intents)]) if n % 6 == 0 else m
        for n, m in enumerate(train)
    ]
    dirty = posterior(Source("clinc150", "", {**source.splits, "train": spoilt}, ""))
    before = estimate({"clinc150": clean}, []).sources["clinc150"]
    after = estimate({"clinc150": dirty}, []).sources["clinc150"]
    assert before < 0.03
    assert 0.08 < after < 0.25


def test_out_of_fold_probabilities_come_from_models_that_did_not_see_the_message(
    sources: Path,
) -> None:
    source = clinc150(sources)
    found = posterior(source)
    assert found.out_of_fold.shape == (len(found.labels), len(found.intents))
    assert found.out_of_fold.sum(axis=1) == pytest.approx(1.0, abs=1e-4)
    # A word that one message alone has can't help where that message is held out.
    train = [*source.splits["train"]]
    odd = Message("zzyzx qwfp arst", train[0].intent)
    again = posterior(Source("clinc150", "", {**source.splits, "train": [*train, odd]}, ""))
    assert again.of(odd, odd.intent) < 0.2
    assert again.of(train[1], train[1].intent) > 0.5


def test_weights() -> None:
    noise = Noise({"clinc150": 0.1}, {("clinc150", "verification_claim"): 0.25})
    claim = Draft("verification", "claim", Noul(), {"true": 1.0})
    other = Draft("verification", "fact", Noul(), {"true": 1.0}, human=True)
    assert noise.weight("clinc150", claim) == 0.75
    assert noise.weight("clinc150", other) == 0.9
    assert noise.weight("forms", other) == 1.0
    assert (fixed_weight(claim), fixed_weight(other)) == (0.5, 1.0)
    assert noise.to_json() == {
        "sources": {"clinc150": 0.1},
        "kinds": {"clinc150/verification_claim": 0.25},
    }


def test_an_intent_with_one_message_is_named(sources: Path) -> None:
    source = clinc150(sources)
    lonely = [*source.splits["train"], Message("only me", "alarm")]
    with pytest.raises(DataError, match='"alarm" has 1'):
        posterior(Source("clinc150", "", {**source.splits, "train": lonely}, ""))
