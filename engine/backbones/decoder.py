"""`Backbone`: the decoder stack of the three architectures over a `Batch`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
from torch import nn

from readoff.engine.backbones.attention import Attention
from readoff.engine.backbones.gated_deltanet import GatedDeltaNet
from readoff.engine.backbones.linear import Linear
from readoff.engine.backbones.traits import TRAITS, Traits
from readoff.engine.batch import Batch, Readout
from readoff.engine.config import ModelConfig
from readoff.engine.pools import Pools, TransientPools
from readoff.engine.weights import Weights
from readoff.kernels.label_readout import label_readout, log_partition
from readoff.kernels.pointwise import add_rms_norm, rms_norm, swiglu
from readoff.kernels.row_tiles import by_tiles

MLP_ROWS = 1024
"""Rows that go through an MLP at a time where there are more than twice as many."""


class MLP(nn.Module):
    """down(silu(gate(x)) * up(x)), gate and up in one product."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.size = config.intermediate_size
        self.gate_up = Linear(config.hidden_size, [self.size, self.size])
        self.down = Linear(self.size, [config.hidden_size])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[T, H] -> [T, H]. On a CPU long inputs go in blocks: the inner layer is several times as
        wide."""
        few = len(x) <= 2 * MLP_ROWS or x.device.type != "cpu"
        if few or torch.is_grad_enabled():
            result: torch.Tensor = self.down(swiglu(self.gate_up(x), self.size))
            return result
        out = torch.empty_like(x)
        for rows, block in zip(out.split(MLP_ROWS), x.split(MLP_ROWS), strict=True):
            rows.copy_(self.down(swiglu(self.gate_up(block), self.size)))
        return out

    def load(self, prefix: str, weights: Weights) -> None:
        """Fill from `prefix`.gate_proj and so on."""
        self.gate_up.load([f"{prefix}.gate_proj", f"{prefix}.up_proj"], weights)
        self.down.load([f"{prefix}.down_proj"], weights)


class Layer(nn.Module):
    """A token mixer and an MLP, each after a norm and with a residual."""

    def __init__(self, config: ModelConfig, traits: Traits, index: int) -> None:
        super().__init__()
        self.index = index
        self.last = index == config.num_layers - 1
        self.eps, self.plus_one = config.rms_norm_eps, traits.plus_one
        self.input_norm = _parameter(config.hidden_size)
        self.mlp_norm = _parameter(config.hidden_size)
        self.mixer: Attention | GatedDeltaNet
        if config.layer_types[index] == "full_attention":
            self.mixer = Attention(config, traits, self.last)
        else:
            self.mixer = GatedDeltaNet(config)
        self.mlp = MLP(config)

    def forward(
        self,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        batch: Batch,
        cos: torch.Tensor,
        sin: torch.Tensor,
        pools: Pools,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """x, residual: [T, H], whose sum goes in (None: x alone). Returns two summands of what
        comes out, so that each sum is made by the norm after it; [N, H], the rows that are read,
        from the last layer."""
        if residual is None:
            normed, residual = rms_norm(x, self.input_norm, self.eps, self.plus_one), x
        else:
            normed, residual = add_rms_norm(x, residual, self.input_norm, self.eps, self.plus_one)
        if isinstance(self.mixer, Attention):
            mixed = self.mixer(normed, batch, cos, sin, pools.kv(self.index))
        else:
            mixed = self.mixer(normed, batch, pools.states(self.index))
            if self.last:
                mixed = mixed[batch.rows]
        if self.last:
            residual = residual[batch.rows]
        normed, residual = add_rms_norm(mixed, residual, self.mlp_norm, self.eps, self.plus_one)
        return self.mlp(normed), residual

    def load(self, weights: Weights) -> None:
        """Fill from the checkpoint's layer of the same number."""
        prefix = f"model.layers.{self.index}"
        kind = "self_attn" if isinstance(self.mixer, Attention) else "linear_attn"
        weights.copy_into(f"{prefix}.input_layernorm.weight", self.input_norm)
        self.mixer.load(f"{prefix}.{kind}", weights)
        weights.copy_into(f"{prefix}.post_attention_layernorm.weight", self.mlp_norm)
        self.mlp.load(f"{prefix}.mlp", weights)


class Backbone(nn.Module):
    """Packed tokens in, the hidden rows that are read out, [N, H], before the final norm.

    Every new token of every segment goes through each linear layer once; only the mixers know
    the tree. Parameters carry no gradient until the caller asks for it.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.traits = TRAITS[config.architecture]
        self.embedding = _parameter(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            Layer(config, self.traits, index) for index in range(config.num_layers)
        )
        self.norm = _parameter(config.hidden_size)
        self.untied_head = (
            None
            if config.tie_word_embeddings
            else _parameter(config.vocab_size, config.hidden_size)
        )
        self.inverse_frequency: torch.Tensor
        self.register_buffer("inverse_frequency", self._frequencies(config), persistent=False)

    @property
    def head(self) -> torch.Tensor:
        """The output embedding, [vocab, H]."""
        return self.embedding if self.untied_head is None else self.untied_head

    @property
    def layout(self) -> str:
        """How the linear layers hold their weights, or most of them: "plain", "packed", "int8" or
        "fp8"."""
        layouts = Counter(m.layout for m in self.modules() if isinstance(m, Linear))
        return layouts.most_common(1)[0][0]

    def forward(self, batch: Batch, pools: Pools | None = None) -> torch.Tensor:
        """The hidden rows that are read, [N, H]. Without pools nothing outlives the pass."""
        if pools is None:
            head = self.embedding
            pools = TransientPools(
                self.config, batch.kv_slots, batch.state_slots, head.dtype, head.device
            )
        cos, sin = self._rotation(batch.positions)
        x, residual = self.embedding[batch.tokens], None
        for layer in self.layers:
            x, residual = layer(x, residual, batch, cos, sin, pools)
        return x if residual is None else x + residual

    def _rotation(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines of the rotary angles, [T, R/2] fp32 each; the bits of a row depend on
        its position only."""
        angle = positions.float()[:, None] * self.inverse_frequency
        if angle.device.type != "cpu":
            return angle.cos(), angle.sin()
        width = angle.shape[1]
        return by_tiles(torch.cos, [angle], width), by_tiles(torch.sin, [angle], width)

    def readout(self, hidden: torch.Tensor, batch: Batch, legal_mass: bool = False) -> Readout:
        """Logits and probabilities of the labels at the rows of `forward`, [N, H]."""
        rows = torch.arange(len(hidden), device=hidden.device)
        norm = (self.norm, self.config.rms_norm_eps, self.traits.plus_one)
        labels = (batch.label_offsets, batch.label_ids, batch.prior, batch.temperature)
        logits, probabilities, *_ = label_readout(hidden, self.head, rows, *norm, *labels)
        mass = None
        if legal_mass:
            total = log_partition(hidden, self.head, rows, *norm)
            counts = batch.label_offsets.diff()
            totals = total.repeat_interleave(counts, output_size=len(logits))
            legal = torch.segment_reduce(
                (logits - totals).exp(), "sum", offsets=batch.label_offsets
            )
            mass = legal.clamp(max=1.0)  # a share of 1 may round to a little more
        return Readout(logits, probabilities, mass)

    @classmethod
    def load(
        cls,
        config: ModelConfig,
        weights: Weights,
        dtype: torch.dtype,
        device: torch.device,
        *,
        pack: bool = False,
        progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> Backbone:
        """Build in `dtype` on `device`, layer by layer; `pack` for inference on a CPU only.

        `progress(layers done, layers)` is called after each layer.
        """
        with torch.device("meta"):
            backbone = cls(config)
        backbone.inverse_frequency = cls._frequencies(config).to(device)
        for index, layer in enumerate(backbone.layers):
            assert isinstance(layer, Layer)
            _materialise(layer, dtype, device)
            layer.load(weights)
            if pack:
                for module in layer.modules():
                    if isinstance(module, Linear):
                        module.pack()
            progress(index + 1, config.num_layers)
        for name, stored in (
            ("embedding", "model.embed_tokens.weight"),
            ("norm", "model.norm.weight"),
            ("untied_head", "lm_head.weight"),
        ):
            parameter = getattr(backbone, name)
            if parameter is not None:
                filled = _filled(parameter, dtype, device)
                weights.copy_into(stored, filled)
                setattr(backbone, name, filled)
        return backbone.eval()

    @staticmethod
    def _frequencies(config: ModelConfig) -> torch.Tensor:
        half = torch.arange(0, config.rotary_dim, 2, dtype=torch.float32)
        return 1.0 / (config.rope_theta ** (half / config.rotary_dim))


def _materialise(module: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
    """Give every parameter below `module` real, unwritten memory."""
    for child in module.modules():
        for name, parameter in list(child.named_parameters(recurse=False)):
            setattr(child, name, _filled(parameter, dtype, device))


def _filled(like: torch.Tensor, dtype: torch.dtype, device: torch.device) -> nn.Parameter:
    return nn.Parameter(torch.empty(like.shape, dtype=dtype, device=device), requires_grad=False)


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape), requires_grad=False)
