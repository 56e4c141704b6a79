"""The readout in numpy: `p = softmax((z - prior) / T)` over the legal labels, and confidences.

This is the float64 reference that the fused readouts are tested against.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from readoff.engine.errors import CardError, NumericsError

# Beyond these a temperature only tells that its fit failed, and the fp32 readout would divide by
# zero or infinity.
LOWEST, HIGHEST = 1e-4, 1e4


def check_temperature(value: object, what: str = "The temperature") -> float:
    """Return `value` as a float if it is a real number from 1e-4 to 1e4, else CardError."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise CardError(f"{what} must be a number, not {value!r}.")
    try:
        temperature = float(value)
    except OverflowError:
        temperature = math.inf
    if not LOWEST <= temperature <= HIGHEST:  # nan fails too
        raise CardError(f"{what} must lie between {LOWEST:g} and {HIGHEST:g}, not {value!r}.")
    return temperature


def probabilities(
    logits: ArrayLike, prior: ArrayLike | None = None, temperature: float = 1.0
) -> NDArray[np.float64]:
    """Calibrated probabilities `[..., L]` in float64 from raw logits `[..., L]`.

    `prior` `[L]` is in units of raw logits and is subtracted before the temperature divides.
    Raises NumericsError for logits that aren't finite, CardError for a bad prior or temperature.
    """
    z = np.asarray(logits, dtype=np.float64)
    if z.ndim == 0 or z.shape[-1] == 0:
        raise NumericsError("There are no logits to read a decision from.")
    if not np.isfinite(z).all():
        raise NumericsError(
            "The model produced logits that aren't finite numbers. Try float32; if it stays, the "
            "weights are damaged."
        )
    scale = check_temperature(temperature)
    if prior is not None:
        b = np.asarray(prior, dtype=np.float64)
        if b.shape != z.shape[-1:]:
            raise CardError(f"The prior has shape {b.shape}, the labels have {z.shape[-1:]}.")
        if not np.isfinite(b).all():
            raise CardError("The prior holds values that aren't finite numbers.")
        z = z - b
    # Shifted before the division, so that a tiny temperature can't overflow.
    with np.errstate(over="ignore", under="ignore"):
        e = np.exp((z - z.max(axis=-1, keepdims=True)) / scale)
    p: NDArray[np.float64] = e / e.sum(axis=-1, keepdims=True)
    return p


def choice_confidence(p: ArrayLike) -> float:
    """`(n·max p - 1)/(n - 1)`: 0 for a uniform choice among n options, 1 for a certain one."""
    values = np.asarray(p, dtype=np.float64)
    n = len(values)
    if n == 1:
        return 1.0
    return _unit((n * float(values.max()) - 1.0) / (n - 1))


def score_confidence(p: ArrayLike) -> float:
    """`max(0, 1 - Σ pᵢ|i-k| / D)`, k the mode and `D = (1/n) Σ |i - (n-1)/2|`.

    1 when all the mass is on one level, 0 when it spreads from the mode as far as a uniform
    distribution does from the middle.
    """
    values = np.asarray(p, dtype=np.float64)
    n = len(values)
    if n == 1:
        return 1.0
    levels = np.arange(n)
    spread = float((values * np.abs(levels - int(values.argmax()))).sum())
    uniform = float(np.abs(levels - (n - 1) / 2).mean())
    return _unit(1.0 - spread / uniform)


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))
