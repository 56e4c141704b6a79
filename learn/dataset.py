"""`Dataset`: the rows of a training and of its validation, which share no state and no group."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from readoff.bench.records import state_key
from readoff.engine.debias import fingerprint
from readoff.learn.errors import ExampleError
from readoff.learn.examples import Example, read_examples

TRAIN, VALID = "train.jsonl", "valid.jsonl"


@dataclass(frozen=True)
class Dataset:
    """Rows with a weight above zero, the digest of all that was read, and remarks for the user."""

    train: tuple[Example, ...]
    valid: tuple[Example, ...]
    digest: str
    notes: tuple[str, ...] = ()

    def replaced(
        self, train: Sequence[Example], valid: Sequence[Example], notes: Sequence[str]
    ) -> Dataset:
        """Fewer rows of the same data.

        Raises ExampleError where a part has none left, or a family none to train on.
        """
        for name, rows in (("train on", train), ("validate with", valid)):
            if not rows:
                raise ExampleError(f"No row is left to {name}.")
        lost = _weighted(self.train) - _weighted(train)
        lost |= _weighted((*self.train, *self.valid)) - _weighted((*train, *valid))
        if lost:
            raise ExampleError(
                f'The family "{min(lost)}" is empty: all its rows to train on are too long. Raise '
                "--max-tokens, or take the family out of the data."
            )
        return Dataset(tuple(train), tuple(valid), digest_of(train, valid), tuple(notes))


def load_dataset(paths: Sequence[Path], *, valid_share: float = 0.05, seed: int = 0) -> Dataset:
    """Read a folder (train.jsonl, and valid.jsonl where there is one) or files.

    Rows say by "split" where they belong; without it, those of valid.jsonl are for validation and
    all others for training. Where no row is for validation a share of the states is taken, drawn
    by `seed`; rows of one "group" stay together.

    Raises ExampleError for what can't be read or isn't legal, rows of a test split, a family
    without any weight, and a state or a group that is in both parts.
    """
    train, valid = _read(paths)
    notes: list[str] = []
    _check_families([*train, *valid])
    train, valid = _heavy(train, "train", notes), _heavy(valid, "valid", notes)
    if not train:
        raise ExampleError("There is no row to train on with a weight above zero.")
    if not valid:
        train, valid = split(train, valid_share, seed)
        notes.append(f"{len(valid)} of {len(train) + len(valid)} rows were set aside to validate.")
    _check_apart(train, valid)
    for name, rows in (("train", train), ("valid", valid)):
        if repeated := len(rows) - len({_content(row) for row in rows}):
            notes.append(
                f"{repeated} of {len(rows)} rows ({name}) repeat another row, and count again."
            )
        if against := _contradictions(rows):
            first, where = against[0]
            notes.append(
                f"{len(against)} answer(s) ({name}) contradict an earlier one to the same question "
                f'about the same state (the first: "{first[:60]}", {where}). The best that can be '
                "learnt there is their mean."
            )
    return Dataset(tuple(train), tuple(valid), digest_of(train, valid), tuple(notes))


def split(rows: Sequence[Example], share: float, seed: int) -> tuple[list[Example], list[Example]]:
    """(training, validation) of about this share of the rows, whole groups and states at a time.

    A bundle that goes beyond the share is left in training, unless validation would be further off
    without it: one large group must not become the validation set.

    Raises ExampleError where all rows are of one group or state.
    """
    bundles = _bundles(rows)
    if len(bundles) < 2:
        raise ExampleError(
            "All rows are about one state (or of one group), so none can be set aside to validate. "
            'Give rows with "split": "valid", or more states.'
        )
    order = list(range(len(bundles)))
    random.Random(f"split {seed}").shuffle(order)
    wanted, count = math.ceil(share * len(rows)), 0
    taken: set[int] = set()
    for number in order[:-1]:  # one at least is trained on
        if count + len(bundles[number]) <= wanted:
            count += len(bundles[number])
            taken.add(number)
    least = min((n for n in order if n not in taken), key=lambda n: len(bundles[n]))
    more = count + len(bundles[least])
    # Nearer as a ratio, and less than what is trained on. With none taken yet both always hold.
    if count * more < wanted**2 and 2 * more <= len(rows):
        taken.add(least)
    chosen = {i for number in taken for i in bundles[number]}
    train = [row for i, row in enumerate(rows) if i not in chosen]
    return train, [row for i, row in enumerate(rows) if i in chosen]


def digest_of(train: Iterable[Example], valid: Iterable[Example]) -> str:
    """sha256 of everything that training sees of the rows, in their order."""
    digest = hashlib.sha256()
    for part, rows in (("train", train), ("valid", valid)):
        for row in rows:
            digest.update(f'["{part}", {_content(row)}]\n'.encode())
    return digest.hexdigest()


def _content(row: Example) -> str:
    """Everything that training sees of a row."""
    asked = {name: fingerprint(question) for name, question in row.questions.items()}
    seen = [state_key(row.state), asked, row.targets, row.weights, row.families]
    return json.dumps(seen)[1:-1]


def _read(paths: Sequence[Path]) -> tuple[list[Example], list[Example]]:
    parts: dict[str, list[Example]] = {"train": [], "valid": []}
    for path in paths:
        if path.is_dir():
            if not (path / TRAIN).is_file():
                raise ExampleError(f"{path} has no {TRAIN}.")
            # A broken link or a folder is an error when it is read, not the lack of a file.
            files = [file for file in (path / TRAIN, path / VALID) if os.path.lexists(file)]
        else:
            files = [path]
        for file in files:
            usual = "valid" if file.name == VALID else "train"
            empty = True
            for row in read_examples(file):
                empty = False
                part = row.split or usual
                if part == "test":
                    raise ExampleError(
                        f"{row.where}: a row of the test split must not be trained on."
                    )
                parts[part].append(row)
            if empty:
                raise ExampleError(f"{file} holds no row.")
    return parts["train"], parts["valid"]


def _heavy(rows: Sequence[Example], name: str, notes: list[str]) -> list[Example]:
    """The rows with a weight; `notes` are told of the others."""
    kept = [row for row in rows if row.weight > 0.0]
    if light := len(rows) - len(kept):
        notes.append(
            f"{light} of {len(rows)} rows ({name}) have a weight of zero and were left out."
        )
    return kept


def _contradictions(rows: Iterable[Example]) -> list[tuple[str, str]]:
    """(question's id, place) of each answer that names another option as the likeliest than the
    first one to the same question about the same state."""
    first: dict[tuple[str, str], int] = {}
    found = []
    for row in rows:
        state = state_key(row.state)
        for name, target in row.targets.items():
            best = target.index(max(target))
            key = (state, fingerprint(row.questions[name]))
            if row.weights[name] > 0.0 and first.setdefault(key, best) != best:
                found.append((name, row.where))
    return found


def _weighted(rows: Iterable[Example]) -> set[str]:
    """The families of questions with a weight."""
    return {
        family for row in rows for name, family in row.families.items() if row.weights[name] > 0.0
    }


def _check_families(rows: Iterable[Example]) -> None:
    weight: dict[str, float] = defaultdict(float)
    for row in rows:
        for name, family in row.families.items():
            weight[family] += row.weights[name]
    if empty := sorted(family for family, total in weight.items() if total == 0.0):
        raise ExampleError(
            f'The family "{empty[0]}" is empty: no row of it has a weight above zero. Leave its '
            "rows out, or give them a weight."
        )


def _check_apart(train: Iterable[Example], valid: Iterable[Example]) -> None:
    known = {key: row.where for row in train for key in _keys(row)}
    for row in valid:
        for what, value in _keys(row):
            other = known.get((what, value))
            if other is not None:
                raise ExampleError(
                    f"{row.where} is for validation and has the same {what} as {other}, which is "
                    f"trained on. A {what} belongs to one of the two."
                )


def _keys(row: Example) -> list[tuple[str, str]]:
    """What keeps a row together with others: its state and its group."""
    keys = [("state", state_key(row.state))]
    return keys if row.group is None else [*keys, ("group", row.group)]


def _bundles(rows: Sequence[Example]) -> list[list[int]]:
    """Rows that belong together, directly or by a chain of shared groups and states."""
    parent = list(range(len(rows)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[tuple[str, str], int] = {}
    for i, row in enumerate(rows):
        for key in _keys(row):
            a, b = root(first.setdefault(key, i)), root(i)
            parent[max(a, b)] = min(a, b)
    found: dict[int, list[int]] = defaultdict(list)
    for i in range(len(rows)):
        found[root(i)].append(i)
    return list(found.values())
