"""What changed between vLLM versions in how memory is divided; one table, newest rules last.

Versions are those of vLLM's releases; a boundary is the first release with the new rule as far as engine logs
and sources show, and patch releases between two logs may move it by one.
"""

from __future__ import annotations

import re

__all__ = [
    "ASYNC_BATCHES",
    "CHECKPOINT_KV_DTYPE",
    "CHUNKED_GROUPS",
    "FLOAT32_STATE",
    "GRAPHS_SUBTRACTED",
    "GROUPS",
    "HYBRID_PREFIX_CACHING",
    "HYBRID_PREFIX_CACHING_DEFAULT",
    "LARGE_CAP",
    "LATENT_CACHE",
    "LATEST",
    "LEAN_SAMPLER",
    "SCHEME_KV_DTYPE",
    "SPARSE_KV_AS_MODEL",
    "STATE_CHECKPOINT",
    "TOKENS_FROM_CONCURRENCY",
    "UTILIZATION_092",
    "V1",
    "WIDER_GROUPS",
    "WIDE_GROUPS",
    "Version",
    "parse_version",
    "release_of",
]

Version = tuple[int, ...]

LATEST: Version = (0, 32, 0)
LATENT_CACHE: Version = (0, 7)
"""DeepSeek's latent vector is cached instead of full keys and values."""
V1: Version = (0, 8)
"""The engine that shares one pool between layers is the default."""
GROUPS: Version = (0, 9, 2)
"""Layers of different kinds form groups that share blocks; before, windows were cached in full."""
LARGE_CAP: Version = (0, 10)
"""The default of ``--max-num-seqs`` is 1,024 on large GPUs instead of 256."""
CHUNKED_GROUPS: Version = (0, 11, 1)
"""The same for chunked attention."""
LEAN_SAMPLER: Version = (0, 12)
"""The sampler's peak is 15 bytes a logit; most engines before it took 39."""
CHECKPOINT_KV_DTYPE: Version = (0, 12)
"""A ModelOpt checkpoint decides what ``--kv-cache-dtype auto`` means."""
SCHEME_KV_DTYPE: Version = (0, 13)
"""A compressed-tensors checkpoint with a ``kv_cache_scheme`` does too."""
SPARSE_KV_AS_MODEL: Version = (0, 12)
"""Sparse latent attention keeps its cache in the model's dtype by default; before in its own 8 bits."""
WIDE_GROUPS: Version = (0, 12)
"""The larger kind of layer sets the group width while it has less than 1.25 times the smaller's layers."""
WIDER_GROUPS: Version = (0, 18)
"""The same below 1.5 times."""
HYBRID_PREFIX_CACHING: Version = (0, 20)
"""Prefix caching of state layers works. It is opt-in until the next boundary, and taken to be on all the
same: most of the logged engines ran with it, and it errs to fewer sequences."""
HYBRID_PREFIX_CACHING_DEFAULT: Version = (0, 27)
"""It is on by default."""
UTILIZATION_092: Version = (0, 20)
"""The default of ``--gpu-memory-utilization`` is 0.92 instead of 0.9."""
TOKENS_FROM_CONCURRENCY: Version = (0, 21)
"""The token line is the maximum concurrency times max-model-len, instead of blocks of one group."""
GRAPHS_SUBTRACTED: Version = (0, 21)
"""An estimate of the CUDA graphs is taken off the pool."""
ASYNC_BATCHES: Version = (0, 26)
"""Asynchronous scheduling keeps two batches in flight, and windows reserve for both."""
FLOAT32_STATE: Version = (0, 28)
"""A recurrent state is kept in float32 unless the model's config says otherwise."""
STATE_CHECKPOINT: Version = (0, 28)
"""Mamba-2 layers reserve one block more for the state at the end of a prefill."""

_UNTAGGED = re.compile(r"v?0\.[01]\.dev")
_NUMBER = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


def parse_version(text: str) -> Version:
    """Read a version such as ``0.19.0``, ``v0.32`` or ``0.23.1rc1.dev531``; what follows the numbers is left.

    Raises:
        ValueError: it does not start with two numbers.
    """
    match = _NUMBER.match(text.strip())
    if not match:
        raise ValueError(f"expected a vLLM version such as 0.32.0, not {text!r}")
    return tuple(int(part) for part in match.groups("0"))


def release_of(text: str | None) -> Version:
    """Return the version that an engine says of itself; the latest where it says none, or built untagged."""
    try:
        return LATEST if text is None or _UNTAGGED.match(text) else parse_version(text)
    except ValueError:
        return LATEST
