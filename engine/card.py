"""The decision card: what a checkpoint needs besides its weights to give calibrated decisions.

It is the file `decision.json` beside the weights. Every number in it is checked when it is read,
and unknown keys are refused, so that no fitted value is silently left unused.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, Literal, NoReturn, TypeAlias, cast

from readoff.engine.card_fields import (
    ROTATIONS,
    TYPES,
    CardTemplate,
    Debias,
    Digests,
    Prior,
    Temperature,
    check_debias,
    check_rotations,
)
from readoff.engine.errors import CardError
from readoff.engine.labels import LabelSpace
from readoff.engine.published import published_labels, published_temperatures

CARD_FILE = "decision.json"
VERSION = 1


class _Unchecked(Enum):
    UNCHECKED = "unchecked"


UNCHECKED: Final = _Unchecked.UNCHECKED
Digest: TypeAlias = str | Literal[_Unchecked.UNCHECKED] | None


@dataclass(frozen=True)
class Card:
    """A decision card. `Card.default()` leaves the model's probabilities as they are.

    `debias` is the debiasing that its temperatures, prior and gate were fitted under; an engine
    with the card debiases so unless it is told otherwise. `rotations` is the number of orders
    under "rotate" and "both"; elsewhere it means nothing and is the default. `made_from`
    tells what the weights beside it were made from, where an export did; nothing depends on it.
    """

    template: CardTemplate = field(default_factory=CardTemplate)
    labels: LabelSpace = field(default_factory=LabelSpace)
    temperature: Temperature = field(default_factory=Temperature)
    prior: Prior = field(default_factory=Prior)
    gate: Mapping[str, object] = field(default_factory=dict)
    digests: Digests = field(default_factory=Digests)
    debias: Debias = "none"
    rotations: int = ROTATIONS
    made_from: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_debias(self.debias, 'The card\'s "debias"')
        check_rotations(self.rotations, 'The card\'s "rotations"')
        if self.debias not in ("rotate", "both"):
            object.__setattr__(self, "rotations", ROTATIONS)

    @classmethod
    def default(cls) -> Card:
        """No temperature, no prior, the default template and labels, no digests."""
        return cls()

    @classmethod
    def load(cls, path: str | Path) -> Card:
        """Read a card from a file, or from `decision.json` in a folder. Raises CardError."""
        file = Path(path)
        file = file / CARD_FILE if file.is_dir() else file
        return cls.parse(read_object(file))

    @classmethod
    def from_published(cls, folder: str | Path) -> Card:
        """Import a checkpoint's `calibration.json` and `label_space.json`, where they are there.

        Raises CardError for a file that can't be understood: a temperature that was fitted and
        isn't applied would be a silent fault.
        """
        files = {n: Path(folder) / f"{n}.json" for n in ("calibration", "label_space")}
        temperature, labels = Temperature(), LabelSpace()
        if files["calibration"].is_file():
            temperature = Temperature(**published_temperatures(read_object(files["calibration"])))
        if files["label_space"].is_file():
            labels = LabelSpace.parse(published_labels(read_object(files["label_space"])))
        return cls(temperature=temperature, labels=labels)

    @classmethod
    def parse(cls, content: Mapping[str, object]) -> Card:
        """From the parsed JSON of a card. Raises CardError."""
        _known(content, {"version", *cls.__dataclass_fields__}, "card")
        if content.get("version") != VERSION:
            raise CardError(
                f"The card is of version {content.get('version')!r}, and this is for {VERSION}."
            )
        template = _strings(content, "template", set(CardTemplate.__dataclass_fields__))
        digests = _strings(content, "digests", set(Digests.__dataclass_fields__))
        temperature = _object(content, "temperature")
        _known(temperature, set(Temperature.__dataclass_fields__), "temperature")
        prior = _object(content, "prior")
        _known(prior, set(Prior.__dataclass_fields__), "prior")
        return cls(
            template=CardTemplate(**{k: v for k, v in template.items() if v is not None}),
            labels=LabelSpace.parse(_object(content, "labels")),
            temperature=Temperature(**temperature),  # type: ignore[arg-type]
            prior=Prior(**prior),  # type: ignore[arg-type]
            gate=_object(content, "gate"),
            digests=Digests(**digests),
            debias=check_debias(content.get("debias", "none"), 'The card\'s "debias"'),
            rotations=check_rotations(
                content.get("rotations", ROTATIONS), 'The card\'s "rotations"'
            ),
            made_from=_object(content, "made_from"),
        )

    def to_json(self) -> dict[str, object]:
        """The JSON object of the card; `parse` reads it back to an equal card."""
        t, p = self.temperature, self.prior
        temperature: dict[str, object] = {kind: getattr(t, kind) for kind in TYPES}
        temperature |= {"by_field": dict(t.by_field), "by_options": dict(t.by_options)}
        prior = {
            name: {key: list(values) for key, values in table.items()}
            for name, table in (("by_field", p.by_field), ("by_options", p.by_options))
            if table
        }
        debias: dict[str, object] = {} if self.debias == "none" else {"debias": self.debias}
        if self.rotations != ROTATIONS:
            debias["rotations"] = self.rotations
        made_from = {"made_from": dict(self.made_from)} if self.made_from else {}
        return {
            "version": VERSION,
            "template": asdict(self.template),
            "labels": self.labels.to_json(),
            "temperature": temperature,
            "prior": prior,
            "gate": dict(self.gate),
            "digests": asdict(self.digests),
            **debias,
            **made_from,
        }

    def to_published(self) -> dict[str, dict[str, object]]:
        """calibration.json and label_space.json, which `from_published` reads, by name.

        Empty where these two couldn't say what the card says: a prior, temperatures finer than by
        type, debiasing, or a template of its own. A gate changes no answer.
        """
        t, usual = self.temperature, Card()
        finer = t.by_field or t.by_options or self.prior != usual.prior
        if finer or self.debias != "none" or self.template.order != usual.template.order:
            return {}
        return {
            "calibration.json": {"temperature": {kind: getattr(t, kind) for kind in TYPES}},
            "label_space.json": self.labels.to_json(),
        }

    def save(self, path: str | Path) -> None:
        """Write the card in one step: readers see the old file or the new one, never a part."""
        file = Path(path)
        file = file / CARD_FILE if file.is_dir() else file
        try:
            text = json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise CardError(f"The card's gate isn't JSON: {error}") from error
        handle, draft = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text + "\n")
                out.flush()
                os.fsync(out.fileno())
            os.chmod(draft, 0o644)
            os.replace(draft, file)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise

    def temperature_for(self, question_type: str, field: str | None, n_options: int) -> float:
        """The temperature of a question: its field's, else its size's, else its type's."""
        return self.temperature.find(question_type, field, n_options)

    def prior_for(self, question_type: str, field: str | None, n_options: int) -> tuple[float, ...]:
        """The prior of a question, zeros if the card has none. Length `n_options`.

        Raises QuestionError if the field's prior was fitted for another number of options.
        """
        return self.prior.find(question_type, field, n_options)

    def check(
        self,
        *,
        weights: Digest = UNCHECKED,
        adapter: Digest = UNCHECKED,
        tokenizer: Digest = UNCHECKED,
        template: Digest = UNCHECKED,
    ) -> None:
        """Raise CardError if a digest that the card names differs from the one given here.

        None means that there is no such thing, for example no adapter; what is left out isn't
        checked.
        """
        pairs = {
            "weights": (self.digests.weights, weights),
            "adapter": (self.digests.adapter, adapter),
            "tokenizer": (self.digests.tokenizer, tokenizer),
            "template": (self.template.digest, template),
        }
        for name, (wanted, found) in pairs.items():
            if wanted is not None and found is not UNCHECKED and wanted != found:
                raise CardError(
                    f"The card belongs to another model: its {name} digest is {wanted}, and here "
                    f"it is {found}. Use the card that was made with this model, or fit a new one."
                )


def read_object(path: Path) -> dict[str, object]:
    """The JSON object in a file. Raises CardError, for a key that is there twice too."""
    try:
        content = json.loads(
            path.read_text(encoding="utf-8"), object_pairs_hook=_unique, parse_constant=_refuse
        )
    except CardError as error:  # from the hook, which doesn't know the file
        raise CardError(f"{path} {error}") from None
    except OSError as error:
        raise CardError(f"{path} can't be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise CardError(f"{path} is not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise CardError(f"{path} must hold a JSON object.")
    return content


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise CardError(f'has the key "{key}" twice in one object; keep the one that is meant.')
        found[key] = value
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _known(content: Mapping[str, object], known: set[str], what: str) -> None:
    unknown = sorted(content.keys() - known)
    if unknown:
        raise CardError(f'The {what} has an entry "{unknown[0]}" that readoff does not know.')


def _object(content: Mapping[str, object], name: str) -> dict[str, object]:
    value = content.get(name, {})
    if not isinstance(value, dict):
        raise CardError(f'The card\'s "{name}" must be an object, not {value!r}.')
    return value


def _strings(content: Mapping[str, object], name: str, known: set[str]) -> dict[str, str]:
    value = _object(content, name)
    _known(value, known, name)
    for key, text in value.items():
        if not (text is None or isinstance(text, str)):
            raise CardError(f'The card\'s {name} "{key}" must be text, not {text!r}.')
    return cast(dict[str, str], value)
