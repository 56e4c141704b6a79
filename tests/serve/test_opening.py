"""From --model, --adapter, --card and --alias to models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from readoff.serve.errors import HttpError, StartError
from readoff.serve.opening import parse_aliases, parse_sources, served_of
from readoff.serve.served import Models, Served

from .rig import Held


def names(*models: str) -> list[tuple[str, str]]:
    return [(source.name, source.source) for source in parse_sources(models)]


def test_names_of_models(tmp_path: Path) -> None:
    folder = tmp_path / "a=b"
    folder.mkdir()
    assert names() == [("demo", "demo")]
    assert names("Qwen/Qwen2.5-0.5B") == [("Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B")]
    assert names("small=demo", str(folder)) == [("small", "demo"), ("a=b", str(folder))]


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (["demo", "demo"], 'Two models are called "demo"'),
        (["a=demo", "a=x/y"], 'Two models are called "a"'),
        (["=demo"], "must be SOURCE or NAME=SOURCE"),
        (["a="], "must be SOURCE or NAME=SOURCE"),
        (["/no/such/model"], "There is no model at /no/such/model"),
        (["x=./none.gguf"], "There is no model at ./none.gguf"),
    ],
)
def test_models_that_make_no_sense(models: list[str], message: str) -> None:
    with pytest.raises(StartError, match=re.escape(message)):
        parse_sources(models)


def test_adapters_and_cards_find_their_model(tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    card.write_text("{}")
    (one,) = parse_sources(["demo"], ["my/adapter"], [str(card)])
    assert (one.adapter, one.card) == ("my/adapter", card)
    two = parse_sources(["a=demo", "b=demo"], ["b=x/y"], [f"a={card}"])
    assert [(s.adapter, s.card) for s in two] == [(None, card), ("x/y", None)]
    with pytest.raises(StartError, match="write --adapter NAME=VALUE"):
        parse_sources(["a=demo", "b=demo"], ["x/y"])
    with pytest.raises(StartError, match="no decision card"):
        parse_sources(["demo"], [], [str(tmp_path / "none.json")])


def test_aliases() -> None:
    sources = parse_sources(["a=demo", "b=demo"])
    models = served_of(sources, parse_aliases(["x", "y=b"], "a"))
    assert models.names() == ["a", "b", "x", "y", "jev-latest"]
    assert [models.find(n).name for n in ("x", "y", "jev-latest", None)] == ["a", "b", "a", "a"]
    with pytest.raises(HttpError, match="There is no model 'z' here") as caught:
        models.find("z")
    assert caught.value.status == 400
    for bad, message in (("", "has no name"), ("=a", "has no name")):
        with pytest.raises(StartError, match=message):
            parse_aliases([bad], "a")
    with pytest.raises(StartError, match="is a name already"):
        served_of(sources, parse_aliases(["b"], "a"))
    with pytest.raises(StartError, match="but there is none"):
        served_of(sources, parse_aliases(["x=c"], "a"))


def test_an_alias_may_take_the_public_name() -> None:
    models = served_of(parse_sources(["a=demo", "b=demo"]), {"jev-latest": "b"})
    assert models.find("jev-latest").name == "b"


def test_the_listing_has_a_day_for_every_model(tmp_path: Path) -> None:
    models = served_of(parse_sources(["a=demo", str(tmp_path)]))
    for entry in models.listing()["models"]:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", entry["release_date"])
        assert entry["description"]


def test_ready_when_every_model_is() -> None:
    models = Models([Served("a"), Served("b")])
    assert not models.ready
    models.all[0].open(Held())
    assert not models.ready
    models.all[1].open(Held())
    assert models.ready
    models.draining.set()
    assert not models.ready
    engines = [model.engine for model in models.all]
    models.close()
    assert all(isinstance(engine, Held) and engine.closed for engine in engines)


def test_a_pack_measures_no_legal_mass() -> None:
    class Pack(Held):
        def info(self) -> dict[str, object]:
            return {"pack": {}}

    served = Served("a")
    served.open(Pack())
    assert not any(served.samples_mass(1) for _ in range(3))


def test_what_is_given_twice_is_refused(tmp_path: Path) -> None:
    assert parse_aliases(["x", "x=a", "x"], "a") == {"x": "a"}
    with pytest.raises(StartError, match='"x" is given twice, for "a" and "b"'):
        parse_aliases(["x", "x=b"], "a")
    with pytest.raises(StartError, match='--adapter is given twice for the model "demo"'):
        parse_sources(["demo"], ["x/y", "demo=x/z"])
    with pytest.raises(StartError, match='--card is given twice for the model "b"'):
        parse_sources(["a=demo", "b=demo"], [], ["b=1", "b=2"])


def test_a_name_of_megabytes_is_not_said_back() -> None:
    with pytest.raises(HttpError) as caught:
        Models([Served("a")]).find("x" * 3_000_000)
    assert len(caught.value.message) < 400
