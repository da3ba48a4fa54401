"""CUDA graph capture sizes: a batch is padded up to the next one."""

from __future__ import annotations

__all__ = ["capture_size_above", "capture_size_below"]

_SIZES: tuple[int, ...] = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
"""vLLM's default ``cudagraph_capture_sizes`` (``config/vllm.py:_set_cudagraph_sizes``)."""


def capture_size_above(sequences: int) -> int | None:
    """Return the size that a batch is padded to, None beyond the largest, where no graph is replayed."""
    return next((size for size in _SIZES if size >= sequences), None)


def capture_size_below(sequences: int) -> int:
    """Return the largest size that a batch of so many fills."""
    return max(size for size in _SIZES if size <= max(1, sequences))
