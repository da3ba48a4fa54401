"""How many requests of the observed lengths fit a pool, nearly always."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["OVERFLOW_PROBABILITY", "sequences_that_fit"]

OVERFLOW_PROBABILITY = 0.001
_CELLS = 4096
_TRANSFORMED = 2 * _CELLS
"""A power of two, which the Fourier transform takes four times faster than the next even number."""

Mass = NDArray[np.float64]
Spectrum = NDArray[np.complex128]


def sequences_that_fit(
    sizes: NDArray[np.float64],
    counts: NDArray[np.int64],
    capacity: float,
    *,
    overflow_probability: float = OVERFLOW_PROBABILITY,
) -> int:
    """Return the largest number of independent requests whose total exceeds a capacity that rarely.

    The distribution of the total is worked out, not approximated by its mean and variance: with few large
    requests, or a heavy tail, a normal law puts the wrong mass beyond the capacity. Sizes are non-negative,
    so a distribution cut off at the capacity still gives every sum below it exactly, and doubling it by
    convolution finds the number in a logarithm of steps. Where no common unit gives a grid fine enough, each
    size is spread over two cells with its mean kept, which widens the total a little and so errs to fewer
    requests.

    Args:
        sizes: what one request takes, in any unit.
        counts: how many requests took it.
        capacity: of the pool, in the same unit.
        overflow_probability: how often the total may exceed the capacity.
    """
    seen = counts > 0
    if capacity <= 0 or not seen.any() or not (sizes[seen] > 0).any():
        return 0
    one = _on_grid(sizes[seen], counts[seen] / counts[seen].sum(), capacity)
    needed, cells = 1 - overflow_probability, len(one)
    total, doublings = one, [_spectrum(one)]
    while total.sum() >= needed:
        total = _mass(doublings[-1] ** 2, cells)
        doublings.append(_spectrum(total))
    fitting, fitting_spectrum = 0, None
    for exponent in range(len(doublings) - 2, -1, -1):
        added = doublings[exponent]
        total = _mass(added if fitting_spectrum is None else fitting_spectrum * added, cells)
        if total.sum() >= needed:
            fitting, fitting_spectrum = fitting + 2**exponent, _spectrum(total)
    return fitting


def _on_grid(sizes: NDArray[np.float64], shares: NDArray[np.float64], capacity: float) -> Mass:
    """Spread each size over the two cells beside it; what is over the capacity is left out."""
    unit = max(_common_unit(sizes), capacity / (_CELLS - 1))
    last = math.floor(capacity / unit)
    cells = sizes / unit
    fits = cells <= last
    below = np.floor(cells[fits]).astype(np.int64)
    upper = cells[fits] - below
    mass = np.zeros(last + 2)
    np.add.at(mass, below, shares[fits] * (1 - upper))
    np.add.at(mass, below + 1, shares[fits] * upper)
    return mass[: last + 1]


def _common_unit(sizes: NDArray[np.float64]) -> float:
    """Return the largest whole number that divides every size, 0 where they are not whole."""
    whole = np.floor(sizes).astype(np.int64)
    return float(np.gcd.reduce(whole)) if np.array_equal(whole, sizes) else 0.0


def _spectrum(mass: Mass) -> Spectrum:
    return np.fft.rfft(mass, _TRANSFORMED)


def _mass(spectrum: Spectrum, cells: int) -> Mass:
    """Return the distribution up to the capacity; what a sum has beyond it is cut off."""
    return np.maximum(np.fft.irfft(spectrum, _TRANSFORMED)[:cells], 0)
