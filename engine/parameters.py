"""The complete list of tensors of a model: normalised names and shapes. No torch in this file.

Everything that loads, merges or exports weights agrees on these names. They are those of the
text-only transformers classes; files written by multimodal classes are mapped onto them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from readoff.engine.config import ModelConfig
from readoff.engine.errors import CheckpointError

Shape = tuple[int, ...]

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"

# Longest first: "model.language_model.norm" must not be read as "model." + "language_model.norm".
_TEXT_PREFIXES = (
    ("model.language_model.", "model."),
    ("language_model.model.", "model."),
    ("language_model.lm_head.", "lm_head."),
    ("model.lm_head.", "lm_head."),
)
_BARE = ("layers.", "embed_tokens.", "norm.")  # saved without the causal-LM class
_DROPPED = ("model.visual.", "visual.", "model.mtp.", "mtp.")


def normalise(name: str) -> str | None:
    """The normalised name of a stored tensor or module, None for parts that aren't loaded.

    Vision towers, multi-token-prediction heads and rotary tables are dropped. Unknown names come
    back as they are, for the caller to refuse.
    """
    for stored, normal in _TEXT_PREFIXES:
        if name.startswith(stored):
            return normal + name[len(stored) :]
    if name.startswith(_DROPPED) or name.endswith("rotary_emb.inv_freq"):
        return None
    if f"{name}.".startswith(_BARE):
        return f"model.{name}"
    return name


def spell_like(module: str, example: str) -> str:
    """The inverse of `normalise`: a normalised name with the prefix of a stored `example`."""
    for stored, normal in _TEXT_PREFIXES:
        if example.startswith(stored) and module.startswith(normal):
            return stored + module[len(normal) :]
    return module.removeprefix("model.") if f"{example}.".startswith(_BARE) else module


def parameter_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Every tensor of the model with its shape ([out, in] for linear layers), in layer order."""
    hidden, inner = config.hidden_size, config.intermediate_size
    shapes: dict[str, Shape] = {EMBEDDING: (config.vocab_size, hidden)}
    for index, kind in enumerate(config.layer_types):
        layer = f"model.layers.{index}"
        shapes[f"{layer}.input_layernorm.weight"] = (hidden,)
        mixer = _attention(config) if kind == "full_attention" else _delta(config)
        shapes |= {f"{layer}.{name}": shape for name, shape in mixer.items()}
        shapes[f"{layer}.post_attention_layernorm.weight"] = (hidden,)
        shapes[f"{layer}.mlp.gate_proj.weight"] = (inner, hidden)
        shapes[f"{layer}.mlp.up_proj.weight"] = (inner, hidden)
        shapes[f"{layer}.mlp.down_proj.weight"] = (hidden, inner)
    shapes["model.norm.weight"] = (hidden,)
    if not config.tie_word_embeddings:
        shapes[HEAD] = (config.vocab_size, hidden)
    return shapes


def _attention(config: ModelConfig) -> dict[str, Shape]:
    hidden, size = config.hidden_size, config.head_dim
    gate = 2 if config.architecture == "qwen3_5" else 1  # Qwen3.5 projects query and output gate
    rows = {"q_proj": config.num_heads * size * gate}
    rows["k_proj"] = rows["v_proj"] = config.num_kv_heads * size
    shapes: dict[str, Shape] = {}
    for name, out in rows.items():
        shapes[f"self_attn.{name}.weight"] = (out, hidden)
        if config.qkv_bias:
            shapes[f"self_attn.{name}.bias"] = (out,)
    shapes["self_attn.o_proj.weight"] = (hidden, config.num_heads * size)
    if config.architecture != "qwen2":
        shapes["self_attn.q_norm.weight"] = shapes["self_attn.k_norm.weight"] = (size,)
    return shapes


def _delta(config: ModelConfig) -> dict[str, Shape]:
    hidden, heads = config.hidden_size, config.linear_num_value_heads
    value = heads * config.linear_value_head_dim
    mixed = 2 * config.linear_num_key_heads * config.linear_key_head_dim + value
    return {
        "linear_attn.in_proj_qkv.weight": (mixed, hidden),
        "linear_attn.in_proj_z.weight": (value, hidden),
        "linear_attn.in_proj_b.weight": (heads, hidden),
        "linear_attn.in_proj_a.weight": (heads, hidden),
        "linear_attn.conv1d.weight": (mixed, 1, config.conv_kernel),
        "linear_attn.A_log": (heads,),
        "linear_attn.dt_bias": (heads,),
        "linear_attn.norm.weight": (config.linear_value_head_dim,),
        "linear_attn.out_proj.weight": (hidden, value),
    }


def check_parameters(config: ModelConfig, found: Mapping[str, Shape], where: str) -> None:
    """Compare stored tensors (normalised names) with the config; raise CheckpointError if unequal.

    Missing, misshapen and unexpected tensors are errors alike: each means that the numbers would
    not be those of the model that was trained.
    """
    expected = parameter_shapes(config)
    missing = [name for name in expected if name not in found]
    if missing:
        hint = ""
        if missing == [HEAD]:
            hint = " The config says the head isn't tied to the embedding, yet it isn't stored."
        raise CheckpointError(
            f"{where}: {_listed(missing)} missing.{hint} The checkpoint is incomplete; download "
            "it again, or check that config.json belongs to it."
        )
    for name, shape in expected.items():
        if found[name] != shape:
            raise CheckpointError(
                f"{where}: {name} has shape {list(found[name])}, but the config asks for "
                f"{list(shape)}. Check that config.json belongs to these weights."
            )
    extra = sorted(found.keys() - expected.keys())
    if extra:
        raise CheckpointError(
            f"{where}: {_listed(extra)} unknown to the architecture {config.architecture!r}, so "
            "the model would be computed wrongly. Use a plain, unquantised checkpoint."
        )


def _listed(names: Iterable[str]) -> str:
    items = list(names)
    shown = ", ".join(items[:3]) + (", …" if len(items) > 3 else "")
    return f"{'tensor' if len(items) == 1 else f'{len(items)} tensors'} {shown} " + (
        "is" if len(items) == 1 else "are"
    )
