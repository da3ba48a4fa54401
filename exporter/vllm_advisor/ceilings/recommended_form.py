"""The recommended flags as they are typed, in the form that an engine's version knows."""

from __future__ import annotations

from vllm_advisor.ceilings.capture_sizes import capture_size_above, capture_size_below
from vllm_advisor.ceilings.engine_version import parse_version

__all__ = ["cap_flags", "cap_values", "padding_note"]

_ACTIVE_CAP = (0, 32)
"""The first version with ``--max-num-active-seqs``: buffers and graphs apart from the admission limit."""


def cap_values(sequences: int, vllm_version: str | None) -> dict[str, int]:
    """Return the flags that admit so many sequences, by name.

    A batch is padded to the next CUDA graph size, so where there are two flags, buffers and graphs are made
    for that size and the admission limit stays exact. Where both are the same, or the version is old or
    unknown, there is one flag.
    """
    size = capture_size_above(sequences)
    if size is None or size == sequences or not _has_active_cap(vllm_version):
        return {"--max-num-seqs": sequences}
    return {"--max-num-seqs": size, "--max-num-active-seqs": sequences}


def cap_flags(sequences: int, vllm_version: str | None) -> str:
    """Return the same as one line."""
    return " ".join(f"{flag} {value}" for flag, value in cap_values(sequences, vllm_version).items())


def padding_note(sequences: int) -> str:
    """Say which CUDA graph a full batch is padded to and what fills one; nothing where it fills one."""
    above, below = capture_size_above(sequences), capture_size_below(sequences)
    if above is None or above == sequences:
        return ""
    return f" (CUDA graphs pad {sequences} to {above}; {below} fills one)"


def _has_active_cap(vllm_version: str | None) -> bool:
    try:
        return vllm_version is not None and parse_version(vllm_version)[:2] >= _ACTIVE_CAP
    except ValueError:
        return False
