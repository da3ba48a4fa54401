"""What a layer keeps of a sequence while it runs: keys and values, a latent vector, or a state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["AttentionCache", "LatentCache", "LayerCache", "Reach", "StateCache", "StateKind", "StatePart"]


class Reach(StrEnum):
    """How far back a layer's attention looks."""

    FULL = "full"
    SLIDING = "sliding"
    """A window that slides with the token."""
    CHUNKED = "chunked"
    """Chunks of fixed length, as in Llama 4."""
    CROSS = "cross"
    """The encoder's output, of fixed length."""


@dataclass(frozen=True, slots=True)
class AttentionCache:
    """Keys and values of every token in reach, over all tensor-parallel ranks.

    Args:
        reach_tokens: the window, the chunk or the encoder's length; None for full attention.
    """

    layer: int
    reach: Reach
    kv_heads: int
    key_width: int
    value_width: int
    reach_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class LatentCache:
    """One compressed vector a token (MLA), held whole by every tensor-parallel rank.

    Args:
        latent_width: ``kv_lora_rank``.
        rope_width: ``qk_rope_head_dim``.
        index_width: ``index_head_dim`` of a sparse-attention indexer, 0 without one.
        heads: attention heads, which engines before 0.7 cached in full.
        head_width: width of a full key head.
    """

    layer: int
    latent_width: int
    rope_width: int
    index_width: int = 0
    heads: int = 0
    head_width: int = 0


class StateKind(StrEnum):
    """Layers that carry a state of fixed size instead of a growing cache."""

    MAMBA1 = "mamba1"
    MAMBA2 = "mamba2"
    DELTA_NET = "gated delta net"
    KIMI_DELTA = "kimi delta attention"
    LIGHTNING = "lightning attention"
    SHORT_CONVOLUTION = "short convolution"


@dataclass(frozen=True, slots=True)
class StatePart:
    """One tensor of a state.

    Args:
        sharded: elements that tensor-parallel ranks divide between them.
        taps: rows of a convolution; 0 for a recurrent state.
        grouped: elements a row takes for each group in ``groups``: ranks that cannot divide the groups get
            one each (vLLM ``mamba_utils.py``, ``extra_groups_for_head_shards``).
    """

    sharded: int
    taps: int = 0
    grouped: int = 0
    groups: int = 0

    @property
    def recurrent(self) -> bool:
        """Whether this is the recurrent state, which is kept in the state's own dtype."""
        return self.taps == 0


@dataclass(frozen=True, slots=True)
class StateCache:
    """A layer's state of one sequence.

    Args:
        dtype: of the recurrent part, where the model's config fixes it.
    """

    layer: int
    kind: StateKind
    parts: tuple[StatePart, ...]
    dtype: str | None = None


LayerCache = AttentionCache | LatentCache | StateCache
