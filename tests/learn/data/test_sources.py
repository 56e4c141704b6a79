"""Reading the sources: the published layout, and what can be wrong with it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from readoff.learn.data import banking_en, banking_zh, clinc_en, clinc_zh, kin
from readoff.learn.data.banking77 import banking77
from readoff.learn.data.catalogue import catalogue
from readoff.learn.data.clinc150 import clinc150
from readoff.learn.data.errors import DataError

TABLES = {
    "clinc150": (clinc_en.TABLE, clinc_zh.TABLE, 150, 10),
    "banking77": (banking_en.TABLE, banking_zh.TABLE, 77, 9),
}


def ids(table: str) -> list[str]:
    return [line.split(" | ")[0] for line in table.splitlines() if " | " in line]


@pytest.mark.parametrize("name", TABLES)
def test_tables_name_all_intents_in_both_languages(name: str) -> None:
    english, chinese, intents, areas = TABLES[name]
    assert ids(english) == ids(chinese)
    found = catalogue(name, ids(english))
    assert (len(found.intents), len(found.areas)) == (intents, areas)
    for language in ("en", "zh"):
        wishes = Counter(intent.wish[language] for intent in found.intents.values())
        assert max(wishes.values()) == 1  # options of one choice must differ
        assert all(intent.about[language] for intent in found.intents.values())


def test_a_catalogue_has_only_what_is_asked_for() -> None:
    found = catalogue("clinc150", ["alarm", "yes"])
    assert set(found.intents) == {"alarm", "yes"}
    assert set(found.areas) == {"utility", "settings"}
    assert found.of_area("utility") == ["alarm"]
    assert found.unrelated("alarm") == ["yes"]


@pytest.mark.parametrize("name", TABLES)
def test_kin_and_other_areas_are_of_the_tables(name: str) -> None:
    found = catalogue(name, ids(TABLES[name][0]))
    assert kin.pairs(name).keys() <= found.intents.keys()
    assert kin.areas(name).keys() <= found.intents.keys()
    for intent in found.intents.values():
        assert intent.id not in intent.kin
        assert intent.area not in intent.also
        assert intent.also <= found.areas.keys()
        assert all(intent.id in found.intents[other].kin for other in intent.kin)
        unrelated = found.unrelated(intent.id)
        assert unrelated
        assert not {intent.id, *intent.kin} & set(unrelated)
        assert all(intent.id in found.unrelated(other) for other in unrelated)
    assert found.published is (name == "clinc150")


def test_what_is_part_of_another_intent_is_kin_to_it() -> None:
    found = catalogue("banking77", ids(banking_en.TABLE)).intents
    assert "getting_virtual_card" in found["get_disposable_virtual_card"].kin
    assert "card_not_working" in found["contactless_not_working"].kin
    assert "charges" in found["top_up_by_card_charge"].also


def test_an_unknown_intent_is_named() -> None:
    with pytest.raises(DataError, match='"tea"'):
        catalogue("clinc150", ["alarm", "tea"])


def test_clinc150(sources: Path) -> None:
    found = clinc150(sources)
    assert found.licence == "CC BY 3.0"
    assert {name: len(messages) for name, messages in found.splits.items()} == {
        "train": 15 * 24 + 10,
        "valid": 15 * 8 + 10,
        "test": 15 * 8 + 10,
    }


def test_banking77_holds_out_a_tenth_of_every_intent(sources: Path) -> None:
    found = banking77(sources)
    train, valid = (
        Counter(message.intent for message in found.splits[split])  # type: ignore[index]
        for split in ("train", "valid")
    )
    assert set(train.values()) == {22}
    assert set(valid.values()) == {2}
    assert len(found.splits["test"]) == 120
    assert found.splits == banking77(sources).splits


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda c: c.pop("oos_val"), "oos_val"),
        (lambda c: c["train"].append(["only a text"]), "row 361"),
        (lambda c: c["test"].append([" ", "alarm"]), "no text with an intent"),
        (lambda c: c.update(val={}), '"val"'),
    ],
)
def test_a_malformed_clinc150(sources: Path, tmp_path: Path, change: Any, named: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sources, copy)
    file = copy / "clinc150" / "data_full.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    change(content)
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=named):
        clinc150(copy)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("text,category\nhow long,transfer_timing\nnew,card_arrival\n", "only one message"),
        ("message,label\na,b\n", 'no columns "text"'),
        ("text,category\nhow long,\n", "no category"),
    ],
)
def test_a_malformed_banking77(sources: Path, tmp_path: Path, text: str, named: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sources, copy)
    (copy / "banking77" / "train.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=named):
        banking77(copy)
