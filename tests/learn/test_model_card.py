"""The model card holds every figure of its records, and none that isn't in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readoff.engine.checkpoint import digest_files
from readoff.engine.fetch import DEMO
from readoff.learn.errors import TrainingError
from readoff.learn.model_card import card, flat, main, shown
from readoff.learn.records import Records, read_records

Json = dict[str, Any]


def row(contender: str, value: float, **other: Any) -> Json:
    made: Json = {"slice": "routing", "kind": "family", "contender": contender, "decisions": 77}
    for number, name in enumerate(("accuracy", "nll", "brier", "ece")):
        made[name] = value + number / 1000
        made[f"{name}_interval"] = [value - 0.051, value + 0.052]
    made |= {"ece_if_calibrated": 0.0123, "ece_if_calibrated_at_most": 0.0456, "bins": [{"x": 1}]}
    return made | other


def evaluation() -> Json:
    pair = {"slice": "routing", "kind": "family", "a": "trained", "b": "zero-shot", "decisions": 77}
    pair |= {"accuracy": 0.321, "accuracy_interval": [0.2, 0.4]}
    pair |= {"nll": -1.234, "nll_interval": [-1.5, -1.0]}
    loss = {"scope": "unseen", "kind": "task", "slice": "metaphor", "contender": "trained"}
    loss |= {"figure": "nll", "difference": 0.0777, "interval": [0.01, 0.2], "decisions": 88}
    rows = [row("zero-shot", 0.4), row("trained", 0.8)]
    return {
        "schema": 1,
        "model": "demo",
        "dtype": "bfloat16",
        "seed": 7,
        "resamples": 999,
        "digests": {"weights": "w" * 8, "adapter": "a" * 8},
        "contenders": [{"name": "trained", "about": "with the adapter"}],
        "files": [{"name": "test.jsonl", "decisions": 1544, "sha256": "s" * 8}],
        "temperatures": {"source": "fitted", "values": {"choice": 1.11, "score": 0.96}},
        "gates": [
            {"name": "routing", "asked": "better", "found": "+0.321", "verdict": "met"},
            {"name": "calibration", "asked": "40 % less", "found": "0.2", "verdict": "MISSED"},
        ],
        "losses": [loss | {"beyond_noise": True}],
        "scopes": [
            {"name": name, "decisions": 77, "states": 66, "rows": rows, "paired": [pair]}
            for name in ("test", "unseen")
        ],
        "notes": ["a remark"],
    }


def records(**other: Any) -> Records:
    training = {
        "version": 1,
        "base": "Qwen/base",
        "facts": {"seed": 0, "learning_rate": 5e-05, "batch": 132, "brier_weight": 0.5},
        "steps": 91,
        "peak_bytes": 3210987654,
        "valid": {"before": {"nll": 1.23456}, "best": {"nll": 0.54321}},
        "curve": [{"step": 1, "loss": 9.8765}],
    }
    data = {
        "seed": 3,
        "sources": {"clinc150": {"licence": "CC BY 3.0", "sha256": "c" * 8}},
        "train": {"rows": 3200, "questions_by_language": {"en": 8000, "zh": 3753}},
        "noise": {"sources": {"clinc150": 0.0371}},
    }
    made: Json = {"name": "mine", "training": training, "data": data, "evaluation": evaluation()}
    return Records(**(made | other))


def test_every_figure_of_training_and_data_is_in_the_card() -> None:
    made = records()
    text = card(made).replace("\\", "")
    for document in (made.training, made.data):
        leaves = dict(flat(document))
        assert len(leaves) >= 7
        for key, value in leaves.items():
            assert value in text, key
    assert "5e-05" in text
    assert "9.8765" not in text  # a point of a curve: the picture has it


def test_every_figure_of_the_evaluation_is_in_the_card() -> None:
    text = card(records()).replace("\\", "")
    for one in evaluation()["scopes"][0]["rows"]:
        for name in ("accuracy", "nll", "brier", "ece"):
            low, high = one[f"{name}_interval"]
            assert f"{one[name]:.3f} [{low:.3f}, {high:.3f}]" in text
    for told in (
        "0.012",
        "+0.321",
        "-1.234",
        "+0.078",
        "1.110",
        "0.960",
        "1544",
        "999",
        "a remark",
    ):
        assert told in text, told
    assert "MISSED" in text
    # What was lost stands before what was won.
    assert text.index("metaphor") < text.index("| routing |")


def test_weak_spots_are_those_of_the_figures() -> None:
    text = card(records())
    weak = text.split("## Known weak spots")[1].split("\n## ")[0]
    assert "calibration" in weak
    assert "metaphor (unseen, 88 decisions)" in weak
    assert "ECE 0.803 of trained" in weak  # 0.0456 at most, if calibrated
    assert "- routing: better" not in weak


def test_a_changed_record_changes_the_card() -> None:
    made = records()
    other = evaluation()
    other["scopes"][0]["rows"][1]["accuracy"] = 0.7654
    assert "0.765" in card(records(evaluation=other))
    assert "0.765" not in card(made)


def test_notes_chain_and_pictures_are_taken_in() -> None:
    link = {"what": "merged", "against": "base", "precision": "fp32", "bound": 1e-5}
    link |= {"max_dp": 3e-7, "same": 1.0, "ok": True, "note": ""}
    chain = {"questions": 200, "items": 180, "links": [link]}
    text = card(records(notes="It lost *because*.\n", chain=chain, pictures=["curves.png"]))
    assert "It lost *because*." in text
    assert "| merged | base | fp32 | 3e-07 | 1e-05 | 100.0% | equal |" in text
    assert "![curves](curves.png)" in text


def test_front_matter_names_base_licence_and_languages() -> None:
    head = card(records()).split("---")[1]
    assert 'base_model: "Qwen/base"' in head
    assert 'license: "apache-2.0"' in head
    assert '- "en"\n- "zh"' in head


def test_front_matter_takes_no_text_for_yaml() -> None:
    data = {"train": {"questions_by_language": {"no": 1, "*x: [": 1, "en\nlicense: other": 1}}}
    text = card(records(data=data, name="a\nb", licence="mit\nx: y"))
    head = text.split("---")[1]
    assert '- "no"' in head
    assert [line for line in head.splitlines() if line.startswith(("license: other", "x:"))] == []
    assert "\n# a b\n" in text


def test_figures_as_text() -> None:
    assert [shown(x) for x in (None, True, 3, 1 / 3, "x")] == ["–", "yes", "3", "0.3333", "x"]
    leaves = dict(flat({"a": {"b": [1, 2]}, "curve": [1], "c": [{"d": 1.5}], "e": []}))
    assert leaves == {"a.b": "1, 2", "c.0.d": "1.5", "e": "–"}


def test_the_command_writes_and_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = records()
    adapter = weights(tmp_path)
    for name in ("training", "data"):
        (tmp_path / f"{name}.json").write_text(json.dumps(getattr(made, name)))
    with pytest.raises(SystemExit) as end:
        main([str(tmp_path)])
    assert end.value.code == 1
    assert "evaluation.json can't be read" in capsys.readouterr().err
    assert not (tmp_path / "README.md").exists()
    elsewhere = tmp_path / "e.json"
    elsewhere.write_text(json.dumps(evaluation() | {"digests": {"adapter": adapter}}))
    (tmp_path / "curves.png").write_bytes(b"")
    with pytest.raises(SystemExit) as end:
        main([str(tmp_path), "--evaluation", str(elsewhere)])
    assert end.value.code == 0
    text = (tmp_path / "README.md").read_text()
    assert f"# {tmp_path.name}" in text
    assert "curves.png" in text


def weights(folder: Path) -> str:
    """Something that is digested as an adapter is; its digest."""
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (folder / name).write_text(name)
    return digest_files(sorted(folder.glob("adapter_*")))


@pytest.mark.parametrize("foreign", ["training", "evaluation", "chain"])
@pytest.mark.parametrize("digests", [{"adapter": "b"}, None])
def test_records_of_another_adapter_are_refused(
    tmp_path: Path, foreign: str, digests: Json | None
) -> None:
    own = {"digests": {"adapter": weights(tmp_path)}}
    made = records()
    found: dict[str, Json] = {
        "training": dict(made.training) | own,
        "data": dict(made.data),
        "evaluation": evaluation() | own,
        "chain": {"links": [], **own},
    }
    for name, document in found.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    assert read_records(tmp_path, {}, None, "mit").chain is not None
    (tmp_path / f"{foreign}.json").write_text(json.dumps(found[foreign] | {"digests": digests}))
    if (foreign, digests) == ("training", None):  # as earlier versions wrote it
        assert read_records(tmp_path, {}, None, "mit").training
        return
    with pytest.raises(TrainingError, match=f"record of {foreign} is of another adapter"):
        read_records(tmp_path, {}, None, "mit")


def test_records_that_are_none_are_refused(tmp_path: Path) -> None:
    for name in ("training", "data", "evaluation"):
        (tmp_path / f"{name}.json").write_text("{}")
    with pytest.raises(TrainingError, match='The evaluation has no "losses"'):
        read_records(tmp_path, {}, None, "mit")
    (tmp_path / "evaluation.json").write_text(json.dumps(evaluation()))
    with pytest.raises(TrainingError, match=r"no adapter_config\.json"):
        read_records(tmp_path, {}, None, "mit")


def test_own_rows_have_no_record_of_data(tmp_path: Path) -> None:
    own = {"digests": {"adapter": weights(tmp_path)}}
    made = records()
    for name, document in (("training", dict(made.training)), ("evaluation", evaluation())):
        (tmp_path / f"{name}.json").write_text(json.dumps(document | own))
    assert "## Data" not in card(read_records(tmp_path, {}, None, "mit"))
    with pytest.raises(TrainingError, match=r"data\.json can't be read"):
        read_records(tmp_path, {"data": tmp_path / "data.json"}, None, "mit")


def test_the_step_that_was_kept_and_what_chose_it() -> None:
    made = records()
    curve = [{"step": n, "loss": 1.0, "questions": 10, "tokens": 1000 * n} for n in range(1, 4)] + [
        {"step": 2, "valid_nll": 0.5}
    ]
    facts = dict(made.training["facts"]) | {"eval_rows": 400}
    counts = {"train": {}, "valid": {"rows": 250}}
    training = dict(made.training) | {"facts": facts, "best_step": 2, "steps": 3, "data": counts}
    text = card(records(training=training | {"curve": curve}))
    assert "step 2 of the 3 that were taken: 20 questions, 3,000 tokens" in text
    assert "on 250 validation states chose" in text
    assert "earlier adapter" not in text
    facts["init"] = "0123abcd"
    assert "began from an earlier adapter (digest 0123abcd)" in card(
        records(training=training | {"curve": curve})
    )


def test_a_quantised_base_is_told_of() -> None:
    made = records()
    assert DEMO.name not in card(made)
    facts = dict(made.training["facts"]) | {"base": DEMO.sha256}
    assert DEMO.name in card(records(training=dict(made.training) | {"facts": facts}))
