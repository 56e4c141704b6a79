"""`ModelConfig`: what the backbones need to know about a model, read from a Hugging Face config.

Anything we would compute wrongly (a sliding window, scaled rotary positions, experts, quantised
weights) is refused by name here, before a tensor is read. No torch in this file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from readoff.engine.errors import CheckpointError

Architecture = Literal["qwen2", "qwen3", "qwen3_5"]
LayerType = Literal["full_attention", "linear_attention"]
WeightDtype = Literal["float32", "bfloat16", "float16"]

_ARCHITECTURES: dict[str, Architecture] = {
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3_5": "qwen3_5",
    "qwen3_5_text": "qwen3_5",
}
_SUPPORTED = "Qwen2/Qwen2.5, Qwen3 and Qwen3.5 text (dense) are supported"
_LARGEST = 2**48  # of any count; floats and tensor sizes stay exact below it
_DTYPES: tuple[WeightDtype, ...] = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of one model. Sizes are counts; `rope_theta` and `rms_norm_eps` are plain floats.

    `rotary_dim` is how many of the first `head_dim` features are rotated. `layer_types` has one
    entry a layer. The `linear_*` sizes and `conv_kernel` are 0 for models without a delta rule.
    `dtype` is the config's own hint, None when it has none.
    """

    architecture: Architecture
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    rotary_dim: int
    qkv_bias: bool
    tie_word_embeddings: bool
    max_position_embeddings: int
    layer_types: tuple[LayerType, ...]
    linear_num_key_heads: int = 0
    linear_num_value_heads: int = 0
    linear_key_head_dim: int = 0
    linear_value_head_dim: int = 0
    conv_kernel: int = 0
    dtype: WeightDtype | None = None

    @property
    def is_hybrid(self) -> bool:
        """Whether any layer is a Gated DeltaNet layer."""
        return "linear_attention" in self.layer_types

    @classmethod
    def from_hf(cls, config: Mapping[str, Any], where: str = "config.json") -> ModelConfig:
        """Read a `config.json` already parsed to a mapping; `where` names it in messages.

        Takes the old spelling (`rope_theta`, `rope_scaling`, `torch_dtype`) and the new one
        (`rope_parameters`, `dtype`). Raises CheckpointError for a missing or malformed field and
        for whatever the backbones don't compute.
        """
        outer = _Fields(config, where)
        inner = outer
        if isinstance(config.get("text_config"), Mapping):
            inner = _Fields(config["text_config"], f"{where} (text_config)")
        architecture = _architecture(outer, inner)
        _refuse_unsupported(outer, inner, architecture)
        hybrid = architecture == "qwen3_5"

        layers = inner.count("num_hidden_layers")
        layer_types = _layer_types(inner, architecture, layers)
        heads = inner.count("num_attention_heads")
        kv_heads = inner.count("num_key_value_heads", default=heads)
        hidden = inner.count("hidden_size")
        if architecture == "qwen2":
            if hidden % heads and inner.get("head_dim") is None:
                raise inner.error(f"hidden_size {hidden} isn't a multiple of {heads} heads")
            head_dim = inner.count("head_dim", default=hidden // heads)
        else:
            head_dim = inner.count("head_dim")
        if heads % kv_heads:
            raise inner.error(f"{heads} attention heads don't divide into {kv_heads} key heads")
        theta, partial = _rope(inner, architecture)
        rotary_dim = int(head_dim * partial)
        if rotary_dim < 2 or rotary_dim % 2:
            raise inner.error(f"{rotary_dim} rotary features (of head_dim {head_dim}) isn't even")

        linear: dict[str, int] = {}
        if hybrid and "linear_attention" in layer_types:
            for name in (
                "linear_num_key_heads",
                "linear_num_value_heads",
                "linear_key_head_dim",
                "linear_value_head_dim",
            ):
                linear[name] = inner.count(name)
            linear["conv_kernel"] = inner.count("linear_conv_kernel_dim")
            if linear["linear_num_value_heads"] % linear["linear_num_key_heads"]:
                raise inner.error("linear_num_value_heads isn't a multiple of linear_num_key_heads")
        return cls(
            architecture=architecture,
            vocab_size=inner.count("vocab_size"),
            hidden_size=hidden,
            intermediate_size=inner.count("intermediate_size"),
            num_layers=layers,
            num_heads=heads,
            num_kv_heads=kv_heads,
            head_dim=head_dim,
            rms_norm_eps=inner.number("rms_norm_eps"),
            rope_theta=theta,
            rotary_dim=rotary_dim,
            qkv_bias=architecture == "qwen2",
            # A multimodal file has two flags; either one makes a missing head legal, and a head
            # that is stored and differs still wins (the checkpoint looks at the tensors).
            tie_word_embeddings=outer.flag("tie_word_embeddings")
            or inner.flag("tie_word_embeddings"),
            max_position_embeddings=inner.count("max_position_embeddings"),
            layer_types=layer_types,
            dtype=_dtype(inner) or _dtype(outer),
            **linear,
        )


class _Fields:
    """A config mapping with typed reads whose errors name the file and the field."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values, self.where = values, where

    def error(self, message: str) -> CheckpointError:
        return CheckpointError(f"{self.where}: {message}.")

    def get(self, name: str) -> Any:
        return self.values.get(name)

    def count(self, name: str, default: int | None = None) -> int:
        value = self.get(name)
        if value is None:
            value = default
        if value is None:
            raise self.error(f"the field {name!r} is missing; the config is incomplete")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.error(f"{name!r} must be a positive whole number, not {value!r}")
        if value > _LARGEST:
            raise self.error(f"{name!r} must be at most {_LARGEST}, not {value!r}")
        return value

    def number(self, name: str, value: Any = None) -> float:
        value = self.get(name) if value is None else value
        if value is None:
            raise self.error(f"the field {name!r} is missing; the config is incomplete")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"{name!r} must be a number, not {value!r}")
        try:
            number = float(value)
        except OverflowError:  # a whole number beyond the largest float
            number = math.inf
        if not math.isfinite(number) or number <= 0:
            raise self.error(f"{name!r} must be finite and positive, not {value!r}")
        return number

    def flag(self, name: str) -> bool:
        value = self.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.error(f"{name!r} must be true or false, not {value!r}")
        return value


def _architecture(outer: _Fields, inner: _Fields) -> Architecture:
    for fields in (outer, inner):
        if fields.get("quantization_config") is not None:
            raise fields.error(
                "the weights are quantised (quantization_config); use the unquantised checkpoint, "
                "or a GGUF file"
            )
        kind = fields.get("model_type")
        if kind is None and fields is outer:
            raise fields.error("the field 'model_type' is missing; is this a model's config?")
        if not isinstance(kind, str | None):
            raise fields.error(f"'model_type' must be text, not {kind!r}")
        experts = ("num_experts", "num_local_experts", "moe_intermediate_size")
        if "moe" in str(kind) or any(fields.get(name) for name in experts):
            raise fields.error(f"model type {kind!r} has experts (MoE). {_SUPPORTED}")
        if kind is not None and kind not in _ARCHITECTURES:
            raise fields.error(f"model type {kind!r} is unknown here. {_SUPPORTED}")
    if outer is not inner and _ARCHITECTURES[outer.get("model_type")] != "qwen3_5":
        raise outer.error(f"model type {outer.get('model_type')!r} has no text_config")
    return _ARCHITECTURES[outer.get("model_type")]


def _refuse_unsupported(outer: _Fields, inner: _Fields, architecture: Architecture) -> None:
    activation = inner.get("hidden_act")
    if activation not in (None, "silu"):
        raise inner.error(f"hidden_act {activation!r} isn't supported, only 'silu'")
    if architecture != "qwen2" and inner.flag("attention_bias"):
        raise inner.error("attention_bias true isn't supported for this architecture")
    if architecture == "qwen3_5" and inner.get("attn_output_gate") not in (None, True):
        raise inner.error("attn_output_gate false isn't supported")
    window = inner.get("sliding_window")
    if inner.flag("use_sliding_window") and window is not None and inner.get("layer_types") is None:
        first = inner.get("max_window_layers")
        first = 28 if first is None else first  # transformers' own default
        if not isinstance(first, int):
            raise inner.error(f"'max_window_layers' must be a whole number, not {first!r}")
        if first < inner.count("num_hidden_layers"):
            raise inner.error(
                f"a sliding window of {window} is in use (use_sliding_window); windowed attention "
                "isn't supported"
            )


def _layer_types(fields: _Fields, architecture: Architecture, layers: int) -> tuple[LayerType, ...]:
    kinds = fields.get("layer_types")
    if kinds is None and architecture != "qwen3_5":
        kinds = ["full_attention"] * layers
    elif kinds is None:
        interval = fields.count("full_attention_interval", default=4)
        kinds = [
            "linear_attention" if (layer + 1) % interval else "full_attention"
            for layer in range(layers)
        ]
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise fields.error(f"layer_types must list one type for each of the {layers} layers")
    known = {"full_attention"} | ({"linear_attention"} if architecture == "qwen3_5" else set())
    for kind in kinds:
        if not isinstance(kind, str) or kind not in known:
            raise fields.error(f"layer type {kind!r} isn't supported for this architecture")
    return cast(tuple[LayerType, ...], tuple(kinds))


def _rope(fields: _Fields, architecture: Architecture) -> tuple[float, float]:
    """(theta, share of the head that is rotated)."""
    rope: dict[str, Any] = {}
    for name in ("rope_scaling", "rope_parameters"):  # the later, newer spelling wins
        value = fields.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise fields.error(f"{name!r} must be an object, not {value!r}")
        rope |= value or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise fields.error(
            f"rotary positions of type {kind!r} aren't supported, only 'default'; remove the "
            "scaling from the config to use the model within its trained length"
        )
    theta = fields.number("rope_theta", rope.get("rope_theta"))
    default = 0.25 if architecture == "qwen3_5" else 1.0
    partial = rope.get("partial_rotary_factor")
    partial = fields.get("partial_rotary_factor") if partial is None else partial
    share = default if partial is None else fields.number("partial_rotary_factor", partial)
    if share > 1 or (architecture != "qwen3_5" and share != 1):
        raise fields.error(f"partial_rotary_factor {share} isn't supported for this architecture")
    return theta, share


def _dtype(fields: _Fields) -> WeightDtype | None:
    value = fields.get("dtype") or fields.get("torch_dtype")
    name = str(value).removeprefix("torch.")
    return next((dtype for dtype in _DTYPES if dtype == name), None)
