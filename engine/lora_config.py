"""`LoraConfig`: an adapter's adapter_config.json, as far as it decides the merged weights.

Follows the matching rules of PEFT, in whose format the adapters come. No torch in this file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readoff.engine.errors import AdapterError

# Features that change the arithmetic or the base weights, by their switch in the config.
_UNSUPPORTED = {
    "use_dora": "DoRA",
    "use_qalora": "QALoRA",
    "use_bdlora": "block-diagonal LoRA",
    "lora_bias": "a bias of its own on each adapter",
    "fan_in_fan_out": "transposed weights (fan_in_fan_out)",
    "trainable_token_indices": "trainable tokens",
    "target_parameters": "target_parameters",
    "layer_replication": "layer replication",
    "alora_invocation_tokens": "activated LoRA",
    "arrow_config": "Arrow routing",
    "kasa_config": "KaSA",
    "monteclora_config": "MonteCLoRA",
}
# These starts leave the base weights alone; PiSSA, OLoRA, CorDA and LoftQ change them.
_PLAIN_STARTS = (True, False, None, "gaussian", "eva", "orthogonal")


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """The parts of adapter_config.json that are used. Module paths are those of the base model."""

    where: str
    base: str | None  # base_model_name_or_path
    base_revision: str | None
    rank: int
    alpha: float
    rank_pattern: Mapping[str, int]
    alpha_pattern: Mapping[str, float]
    rslora: bool
    target_modules: str | tuple[str, ...]
    exclude_modules: str | tuple[str, ...]
    modules_to_save: tuple[str, ...]
    layers_to_transform: tuple[int, ...]
    layers_pattern: tuple[str, ...]
    ensure_weight_tying: bool

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str | Path) -> LoraConfig:
        """Check and take over a parsed adapter_config.json; AdapterError for what isn't LoRA."""
        where = str(where)
        kind = values.get("peft_type")
        if kind != "LORA":
            raise AdapterError(f"{where}: peft_type {kind!r} isn't supported, only 'LORA'.")
        for switch, feature in _UNSUPPORTED.items():
            if values.get(switch):
                raise AdapterError(
                    f"{where}: the adapter uses {feature} ({switch}), which isn't supported. Merge "
                    "it with PEFT and load the merged model."
                )
        if values.get("bias", "none") != "none":
            raise AdapterError(
                f"{where}: bias {values['bias']!r} isn't supported, only 'none'. Merge the adapter "
                "with PEFT and load the merged model."
            )
        start = values.get("init_lora_weights", True)
        if start not in _PLAIN_STARTS:
            raise AdapterError(
                f"{where}: init_lora_weights {start!r} changed the base weights. Convert the "
                "adapter to plain LoRA with PEFT (save_pretrained with "
                "path_initial_model_for_weight_conversion)."
            )
        config = cls(
            where=where,
            base=_text(values, "base_model_name_or_path", where),
            base_revision=_text(values, "revision", where),
            rank=_rank(values.get("r"), where),
            alpha=_alpha(values.get("lora_alpha"), where),
            rank_pattern={
                key: _rank(value, where) for key, value in _patterns(values, "rank_pattern", where)
            },
            alpha_pattern={
                key: _alpha(value, where)
                for key, value in _patterns(values, "alpha_pattern", where)
            },
            rslora=bool(values.get("use_rslora", False)),
            target_modules=_names(values, "target_modules", where),
            exclude_modules=_names(values, "exclude_modules", where),
            modules_to_save=_listed(values, "modules_to_save", where),
            layers_to_transform=_layers(values, where),
            layers_pattern=_listed(values, "layers_pattern", where),
            ensure_weight_tying=bool(values.get("ensure_weight_tying", False)),
        )
        if not config.target_modules:
            raise AdapterError(f"{where}: target_modules is missing or empty.")
        config._try_patterns()
        return config

    def _try_patterns(self) -> None:
        patterns = [*self.rank_pattern, *self.alpha_pattern, *self.modules_to_save]
        patterns += [
            names
            for names in (self.target_modules, self.exclude_modules)
            if names and isinstance(names, str)
        ]
        for pattern in [*patterns, *self.layers_pattern]:
            try:
                re.compile(pattern)
            except re.error as error:
                raise AdapterError(
                    f"{self.where}: {pattern!r} isn't a pattern ({error})."
                ) from None

    def rank_of(self, module: str) -> int:
        """The rank of one module's pair of matrices."""
        return self.rank_pattern.get(_match(self.rank_pattern, module), self.rank)

    def scale_of(self, module: str) -> float:
        """What the product of one module's matrices is multiplied by: alpha/r, or alpha/√r."""
        alpha = self.alpha_pattern.get(_match(self.alpha_pattern, module), self.alpha)
        rank = self.rank_of(module)
        return alpha / (math.sqrt(rank) if self.rslora else rank)

    def saves(self, module: str) -> bool:
        """Whether the module, or one around it, is trained in full and stored with the adapter.

        A name means every path that ends in it: "norm" is "post_attention_layernorm" too.
        """
        parts = module.split(".")
        paths = (".".join(parts[: count + 1]) for count in range(len(parts)))
        return any(path.endswith(self.modules_to_save) for path in paths)

    def targets(self, module: str) -> bool:
        """Whether the module has a pair of matrices. "all-linear" leaves out embedding and head."""
        if _any_names(self.exclude_modules, module):
            return False
        if any(re.match(rf"(^|.*\.){name}($|\..*)", module) for name in self.modules_to_save):
            return False
        if isinstance(self.target_modules, str):
            if self.target_modules.lower() == "all-linear":
                return module.rpartition(".")[2] not in ("embed_tokens", "lm_head")
            return re.fullmatch(self.target_modules, module) is not None
        if module in self.target_modules:
            return True
        return _any_names(self.target_modules, module) and self._in_layers(module)

    def _in_layers(self, module: str) -> bool:
        if not self.layers_to_transform:
            return True
        for pattern in self.layers_pattern or (r"[^.]*",):
            found = re.match(rf"(?:^|.*?\.){pattern}\.(\d+)\.", module)
            if found:
                return int(found[1]) in self.layers_to_transform
        return False


def _match(patterns: Iterable[str], module: str) -> str:
    return next((key for key in patterns if re.match(rf"(.*\.)?({key})$", module)), module)


def _any_names(names: str | tuple[str, ...], module: str) -> bool:
    if isinstance(names, str):
        return bool(names) and re.fullmatch(names, module) is not None
    return any(module == name or module.endswith(f".{name}") for name in names)


def _text(values: Mapping[str, Any], name: str, where: str) -> str | None:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise AdapterError(f"{where}: {name!r} must be text, not {value!r}.")
    return value or None


def _rank(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise AdapterError(f"{where}: a rank (r) must be a positive whole number, not {value!r}.")
    return value


def _alpha(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise AdapterError(f"{where}: lora_alpha must be a finite number, not {value!r}.")
    return float(value)


def _patterns(values: Mapping[str, Any], name: str, where: str) -> Iterable[tuple[str, object]]:
    value = values.get(name) or {}
    if not isinstance(value, Mapping):
        raise AdapterError(f"{where}: {name!r} must be an object, not {value!r}.")
    return value.items()


def _names(values: Mapping[str, Any], name: str, where: str) -> str | tuple[str, ...]:
    value = values.get(name)
    return value if isinstance(value, str) else _listed(values, name, where)


def _listed(values: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    value = values.get(name) or []
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise AdapterError(f"{where}: {name!r} must list names, not {value!r}.")
    return tuple(value)


def _layers(values: Mapping[str, Any], where: str) -> tuple[int, ...]:
    value = values.get("layers_to_transform")
    value = [] if value is None else [value] if isinstance(value, int) else value
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise AdapterError(f"{where}: 'layers_to_transform' must list layers, not {value!r}.")
    return tuple(value)
