"""`readoff bench --help`, `compare` and `convert`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.report import samples
from tests.bench.test_compare import changed
from tests.readoff.test_cli import call


@pytest.mark.parametrize("command", [(), ("compare",), ("convert",)])
def test_help_has_examples(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert call("bench", *command, "--help") == 0
    assert "readoff bench" in capsys.readouterr().out.partition("Usage")[2].partition("\n")[2]


def test_compare_exits_with_1_when_something_became_slower(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    before.write_text(json.dumps(samples.document()))
    after.write_text(json.dumps(changed(L4=1.5)))
    assert call("bench", "compare", str(before), str(before)) == 0
    assert "no regression beyond noise" in capsys.readouterr().out
    assert call("bench", "compare", str(before), str(after)) == 1
    assert "regression: L4 on paper-en: 1.50 times as long" in capsys.readouterr().out
    assert call("bench", "compare", str(before), str(after), "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert any(line.startswith("L4 on paper-en") for line in found["regressions"])
    assert call("bench", "compare", str(before), str(tmp_path / "none.json")) == 1
    assert "can't be read" in capsys.readouterr().err


def test_convert_writes_labelled_decisions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = [
        {
            "input": f"Fact: Ed left {n}. Q: Did he?",
            "target_scores": {"yes": n % 2, "no": 1 - n % 2},
        }
        for n in range(4)
    ]
    source = tmp_path / "entailed_polarity.json"
    source.write_text(json.dumps({"name": "entailed_polarity", "examples": examples}))
    target = tmp_path / "out.jsonl"
    words = ("entailed_polarity", str(source), str(target), "--limit", "2")
    assert call("bench", "convert", *words) == 0
    assert "2 decisions written" in capsys.readouterr().err
    assert len(target.read_text().splitlines()) == 2
    assert call("bench", "convert", "nothing", str(source), str(target)) == 1
    assert 'no data set "nothing"' in capsys.readouterr().err
