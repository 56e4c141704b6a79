"""`GraphSession`: runs an exported graph with ONNX Runtime. No torch in this file.

The graph's border is described in `readoff.export.graph`. A past is a mapping from the names of the
inputs `past.*` to arrays; what a run leaves is one from the names of the outputs `new.*`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from readoff.engine.config import ModelConfig
from readoff.engine.errors import NumericsError
from readoff.export.errors import PackError
from readoff.export.graph import interface
from readoff.export.graph.options import FixedLabels, GraphOptions
from readoff.export.pack import is_older, oldest_runtime

Array = NDArray[Any]
Values = Mapping[str, Any]
"""Arrays by name; where a session keeps them on a device, ONNX Runtime's OrtValue."""

CPU = "CPUExecutionProvider"


@dataclass(frozen=True)
class LabelRows:
    """What is asked of each row: `ids` [B, L] and `counts` [B] int64, `prior` [B, L] and
    `temperature` [B] fp32. Behind a row's count anything may stand."""

    ids: Array
    counts: Array
    prior: Array
    temperature: Array

    @classmethod
    def of(
        cls,
        ids: Sequence[Sequence[int]],
        prior: Sequence[Sequence[float]] | None = None,
        temperature: Sequence[float] | None = None,
    ) -> LabelRows:
        """Rows of different lengths; without a prior zeros, without a temperature ones."""
        prior = [[0.0] * len(row) for row in ids] if prior is None else prior
        return cls(
            padded(ids, np.int64),
            np.array([len(row) for row in ids], np.int64),
            padded(prior, np.float32),
            np.array([1.0] * len(ids) if temperature is None else temperature, np.float32),
        )


@dataclass(frozen=True)
class Outcome:
    """`logits` and `probabilities` [B, L] fp32, 0 behind a row's labels; `new` by output name."""

    logits: Array
    probabilities: Array
    new: Values


class GraphSession:
    """A graph, loaded.

    `graph` is its file, whose weights lie beside it, or all of it in one bytes. `threads`: of one
    operator; None leaves it to ONNX Runtime. `providers`: names in the order of preference. `spin`:
    whether idle threads wait busily for the next run, which costs a core and saves some time.

    Where a provider can't be made, the CPU takes its place: `session.get_providers()` tells.

    Raises PackError where onnxruntime is missing or can't load the graph, or where the graph
    isn't one of `config` and `options`.
    """

    def __init__(
        self,
        graph: Path | bytes,
        config: ModelConfig,
        options: GraphOptions,
        *,
        threads: int | None = None,
        providers: Sequence[Any] = (CPU,),
        spin: bool = True,
    ) -> None:
        self.config, self.options = config, options
        self.carried = interface.carried(config, options)
        self.outputs = [port.name for port in interface.outputs(config, options)]
        runtime = load_runtime()
        settings = runtime.SessionOptions()
        settings.log_severity_level = 3  # what matters is raised
        if threads is not None:
            settings.intra_op_num_threads = threads
        if not spin:
            settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
        source = graph if isinstance(graph, bytes) else str(graph)
        try:
            self.session = _opened(runtime, source, settings, list(providers))
        except Exception as error:  # its own classes derive from Exception, and differ by version
            told = str(error).strip().splitlines()
            installed, needed = str(runtime.__version__), oldest_runtime(options)
            if is_older(installed, needed):
                why = f"This graph needs {needed} or newer: update onnxruntime."
            else:
                why = "A file of it is damaged, missing or can't be read: copy it again, or export."
            raise PackError(
                f"onnxruntime {installed} can't load the graph: {told[0] if told else repr(error)} "
                f"{why}"
            ) from error
        _check_ports("input", interface.inputs(config, options), self.session.get_inputs())
        _check_ports("output", interface.outputs(config, options), self.session.get_outputs())

    def empty(self, rows: int = 1) -> dict[str, Array]:
        """A past of no tokens for `rows` rows; one serves any number of them."""
        sizes = {"past_batch": rows, "past": 0}
        return {
            c.past.name: np.zeros(
                [sizes[d] if isinstance(d, str) else d for d in c.past.shape], c.past.dtype
            )
            for c in self.carried
        }

    def run(
        self,
        tokens: Array,
        lengths: ArrayLike,
        past_lengths: ArrayLike = (0,),
        past: Values | None = None,
        labels: LabelRows | None = None,
    ) -> Outcome:
        """Run rows of new tokens.

        Args:
            tokens: [B, T] int64, padded behind each row's end with any legal id.
            lengths: [B], how many tokens of each row are true, one at least.
            past_lengths: [P], P = 1 or B.
            past: as `empty` has it, with P rows; None is a past of no tokens.
            labels: needed unless the graph has them baked in.

        Raises NumericsError where a logit isn't a finite number.
        """
        feeds = self._feeds(tokens, lengths, past_lengths, past, labels)
        found = self.session.run(self.outputs, feeds)
        return self._outcome(dict(zip(self.outputs, found, strict=True)))

    def run_on(
        self,
        device: str,
        tokens: Array,
        lengths: ArrayLike,
        past_lengths: ArrayLike = (0,),
        past: Values | None = None,
        labels: LabelRows | None = None,
    ) -> Outcome:
        """`run` whose new past stays on `device` ("cuda", "cpu") as OrtValues.

        The past may hold those or arrays. What a cold run leaves is the past of what follows: its
        outputs `new.*` have the shapes of the inputs `past.*`.
        """
        binding = self.session.io_binding()
        for name, value in self._feeds(tokens, lengths, past_lengths, past, labels).items():
            if isinstance(value, np.ndarray):
                binding.bind_cpu_input(name, np.ascontiguousarray(value))
            else:
                binding.bind_ortvalue_input(name, value)
        readout = (interface.LOGITS, interface.PROBABILITIES)
        for name in self.outputs:
            binding.bind_output(name, "cpu" if name in readout else device)
        self.session.run_with_iobinding(binding)
        found = dict(zip(self.outputs, binding.get_outputs(), strict=True))
        return self._outcome(found | {name: found[name].numpy() for name in readout})

    def continued(
        self, past: Values, past_length: int, outcome: Outcome, row: int, length: int
    ) -> dict[str, Array]:
        """The past of one row after a run on arrays: what it had, and its `length` true tokens.

        `past` is the one of that run, with one row or all of them, `past_length` this row's.
        """
        made = {}
        for c in self.carried:
            new: Array = outcome.new[c.new.name][row : row + 1]
            if c.kind in ("key", "value"):
                new = new[:, :length]
                if past_length:
                    before = past[c.past.name]
                    before = before[row if len(before) > 1 else 0][None, :past_length]
                    new = np.concatenate([before, new], axis=1)
            made[c.past.name] = np.ascontiguousarray(new)
        return made

    def _feeds(
        self,
        tokens: Array,
        lengths: ArrayLike,
        past_lengths: ArrayLike,
        past: Values | None,
        labels: LabelRows | None,
    ) -> dict[str, Any]:
        feeds: dict[str, Any] = {
            interface.TOKENS: tokens,
            interface.LENGTHS: np.asarray(lengths, np.int64),
            interface.PAST_LENGTHS: np.asarray(past_lengths, np.int64),
        }
        if not isinstance(self.options.labels, FixedLabels):
            if labels is None:
                raise ValueError("this graph's labels are inputs, and none were given")
            feeds[interface.LABEL_IDS], feeds[interface.LABEL_COUNTS] = labels.ids, labels.counts
            feeds[interface.PRIOR] = labels.prior
            feeds[interface.TEMPERATURE] = labels.temperature
        return feeds | dict(self.empty() if past is None else past)

    def _outcome(self, found: dict[str, Any]) -> Outcome:
        logits, probabilities = found.pop(interface.LOGITS), found.pop(interface.PROBABILITIES)
        if not np.isfinite(logits).all():
            raise NumericsError(
                "The graph gives logits that aren't finite numbers: its weights are damaged, or "
                f"{self.options.precision} can't hold this model's values. Try another precision."
            )
        return Outcome(logits, probabilities, found)


def _opened(runtime: Any, source: bytes | str, settings: Any, providers: list[Any]) -> Any:
    """A session. onnxruntime's own fallback to the CPU prints to stdout, so it is done here."""
    try:
        made = runtime.InferenceSession(source, settings, providers=providers, enable_fallback=0)
    except (ValueError, RuntimeError):
        if providers == [CPU]:
            raise
        made = runtime.InferenceSession(source, settings, providers=[CPU], enable_fallback=0)
    made.disable_fallback()  # of runs too
    return made


def _check_ports(what: str, wanted: Sequence[interface.Port], found: Sequence[Any]) -> None:
    """Raise PackError unless the graph has the ports of its config: names, types and sizes."""
    there, missing = {port.name: port for port in found}, []
    for port in wanted:
        if port.name not in there:
            missing.append(port.name)
            continue
        other = there.pop(port.name)
        kind = {"float32": "float"}.get(port.dtype, port.dtype)
        sizes = [(a, b) for a, b in zip(port.shape, other.shape, strict=False)]
        differs = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in sizes)
        if other.type != f"tensor({kind})" or len(port.shape) != len(other.shape) or differs:
            raise PackError(
                f"The graph isn't one of this config: its {what} {port.name} is {other.type} "
                f"{list(other.shape)}, and {port.dtype} {list(port.shape)} was expected. Export "
                "again."
            )
    if missing or there:
        lacks = f"lacks the {what} {missing[0]}" if missing else f"has the {what} {min(there)}"
        raise PackError(
            f"The graph isn't one of this config and options: it {lacks}. Export again."
        )


def load_runtime() -> Any:
    """The onnxruntime module. Raises PackError where it isn't installed or can't be loaded."""
    try:
        return import_module("onnxruntime")  # optional, and without types
    except ImportError as error:
        raise PackError(
            f"Running an exported model needs onnxruntime ({error}): "
            'pip install "readoff[onnx]", or "readoff[onnx-gpu]".'
        ) from error


def padded(rows: Sequence[Sequence[Any]], dtype: type[np.generic], value: int = 0) -> Array:
    """Rows of different lengths as one matrix [B, longest], filled up behind with `value`."""
    made: Array = np.full((len(rows), max(map(len, rows))), value, dtype)
    for line, row in zip(made, rows, strict=True):
        line[: len(row)] = row
    return made
