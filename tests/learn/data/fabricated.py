"""Tiny sources in the layout of the public ones, out of drawn words."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from readoff.bench.workloads.lexicon import Dice

CLINC = {
    "banking": ("transfer", "balance", "pay_bill", "routing", "pin_change"),
    "travel": ("book_flight", "book_hotel", "car_rental", "translate", "vaccines"),
    "kitchen": ("recipe", "calories", "cook_time", "food_last", "how_busy"),
}
BANKING = {
    "delivery": ("card_arrival", "activate_my_card", "card_linking", "getting_spare_card"),
    "topup": ("top_up_failed", "top_up_limits", "pending_top_up", "verify_top_up"),
    "transfers": ("cancel_transfer", "failed_transfer", "transfer_timing", "receiving_money"),
}
_FILLERS = tuple(
    word
    for line in (
        "apple river window paper silver garden winter yellow button candle bridge forest mirror",
        "pocket ladder market summer copper island rocket basket helmet marble pencil saddle",
        "tunnel violin walnut anchor beacon cactus dragon engine falcon guitar hammer jacket",
    )
    for word in line.split()
)


def message(intent: str, dice: Dice) -> str:
    """Two words of the intent and five drawn ones: no two messages are nearly alike."""
    own = [f"{intent.replace('_', '')[:4]}{dice.number(1, 3)}ward", intent.replace("_", " ")]
    return " ".join(dice.sample([*own, *dice.sample(_FILLERS, 5)], 7))


def messages(intents: dict[str, tuple[str, ...]], each: int, seed: str) -> list[list[str]]:
    """`each` messages of every intent, as pairs of text and intent."""
    dice = Dice("fabricated", seed)
    return [
        [message(name, dice), name]
        for names in intents.values()
        for name in names
        for _ in range(each)
    ]


def write(folder: Path, each: int = 24) -> Path:
    """All sources in `folder`, which is returned; `each` training messages an intent."""
    dice = Dice("outside")
    outside = [[" ".join(dice.sample(_FILLERS, 6)), "oos"] for _ in range(30)]
    clinc = {
        "train": messages(CLINC, each, "train"),
        "val": messages(CLINC, 8, "val"),
        "test": messages(CLINC, 8, "test"),
        "oos_train": outside[:10],
        "oos_val": outside[10:20],
        "oos_test": outside[20:],
    }
    (folder / "clinc150").mkdir(parents=True)
    (folder / "clinc150" / "data_full.json").write_text(json.dumps(clinc), encoding="utf-8")
    (folder / "banking77").mkdir()
    for part, count in (("train", each), ("test", 10)):
        with (folder / "banking77" / f"{part}.csv").open("w", newline="", encoding="utf-8") as out:
            rows = csv.writer(out)
            rows.writerow(["text", "category"])
            rows.writerows(messages(BANKING, count, f"bank {part}"))
    _bigbench(folder / "bigbench", ["play the quiet song of the northern lights now please"])
    _cranfield(folder / "cranfield")
    return folder


def _bigbench(folder: Path, texts: list[str]) -> None:
    folder.mkdir()
    examples = [
        {"input": f"Utterance: {text}", "target_scores": {"play_music": 1, "get_weather": 0}}
        for text in texts
    ]
    content = {"name": "intent_recognition", "examples": examples}
    (folder / "intent_recognition.json").write_text(json.dumps(content), encoding="utf-8")


def plant_in_bigbench(folder: Path, text: str) -> None:
    """Put `text` among the utterances of BIG-bench in `folder`."""
    file = folder / "bigbench" / "intent_recognition.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["examples"].append(
        {"input": f"Utterance: {text}", "target_scores": {"play_music": 1, "get_weather": 0}}
    )
    file.write_text(json.dumps(content), encoding="utf-8")


def _cranfield(folder: Path) -> None:
    folder.mkdir()
    documents = "".join(
        f".I {n}\n.T\nwing {n}\n.A\nx\n.B\ny\n.W\nwing {n} in a slow stream of air\n"
        for n in range(1, 5)
    )
    (folder / "cran.all.1400").write_text(documents, encoding="utf-8")
    (folder / "cran.qry").write_text(".I 001\n.W\nwhat do wings do\n", encoding="utf-8")
    (folder / "cranqrel").write_text("1 1 1\n1 2 3\n", encoding="utf-8")
