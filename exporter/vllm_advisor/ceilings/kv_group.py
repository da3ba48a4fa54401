"""Blocks that a request takes from the pool, group by group, and what the engine says of the whole."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vllm_advisor.ceilings.engine_version import TOKENS_FROM_CONCURRENCY, V1, Version
from vllm_advisor.ceilings.kv_pages import Keeps

__all__ = ["KvGroup", "KvLayout"]


@dataclass(frozen=True, slots=True)
class KvGroup:
    """Layers that share block numbers.

    Args:
        page_bytes: one block of one layer.
        reach_tokens: window, chunk or encoder length.
        state_blocks: blocks of a sequence's state, whatever its length.
    """

    keeps: Keeps
    layers: int
    block_size_tokens: int
    page_bytes: int
    reach_tokens: int | None = None
    state_blocks: int = 0

    def blocks_per_request(self, length_tokens: int, in_flight_tokens: int, context_ranks: int = 1) -> int:
        """Return the blocks that the engine reserves for one request (``max_memory_usage_bytes``).

        A window may begin inside a block, hence one more; tokens in flight are not yet given back.
        """
        if self.keeps is Keeps.STATE:
            return self.state_blocks
        reach = self.reach_tokens or 0
        if self.keeps is Keeps.SLIDING:
            held = min(reach - 1 + in_flight_tokens, length_tokens)
            return math.ceil(held / self.block_size_tokens) + 1
        if self.keeps is Keeps.CHUNKED:
            return math.ceil(min(reach + in_flight_tokens, length_tokens) / self.block_size_tokens)
        if self.keeps is Keeps.CROSS:
            return math.ceil(reach / self.block_size_tokens)
        return math.ceil(math.ceil(length_tokens / context_ranks) / self.block_size_tokens)


@dataclass(frozen=True, slots=True)
class KvLayout:
    """One rank's pool of blocks.

    Args:
        bytes_per_block: of one block number over all layers that share it.
        block_size_tokens: the attention block.
        rank_token_bytes: what a token adds on one rank, in every layer that grows with it.
        model_token_bytes: the same over all ranks, replicated heads and vectors counted on each.
        context_ranks: decode context parallel size, which divides a request's tokens.
    """

    groups: tuple[KvGroup, ...]
    bytes_per_block: int
    block_size_tokens: int
    rank_token_bytes: int
    model_token_bytes: int
    in_flight_tokens: int
    context_ranks: int
    version: Version

    @property
    def is_plain(self) -> bool:
        """Whether one group of full attention holds everything: tokens are blocks times block size."""
        return len(self.groups) == 1 and self.groups[0].keeps in {Keeps.FULL, Keeps.LATENT}

    @property
    def padding_layers(self) -> int:
        """Layers' worth of each block that nothing uses, since groups are of one width."""
        width = max(group.layers for group in self.groups)
        return sum(width - group.layers for group in self.groups)

    def blocks(self, pool_bytes: int) -> int:
        """Return whole blocks in one rank's pool; none in a negative one."""
        return max(0, pool_bytes // self.bytes_per_block)

    def blocks_per_request(self, length_tokens: int) -> int:
        """Return the blocks of one request of a length, over all groups."""
        return sum(
            group.blocks_per_request(length_tokens, self.in_flight_tokens, self.context_ranks)
            for group in self.groups
        )

    def max_concurrency(self, blocks: int, length_tokens: int) -> float:
        """Return what the engine prints as maximum concurrency."""
        return blocks / self.blocks_per_request(length_tokens)

    def reported_tokens(self, blocks: int, length_tokens: int) -> int:
        """Return what the engine's token line says, in the sense that it has in this version."""
        if self.version >= TOKENS_FROM_CONCURRENCY:
            return int(self.max_concurrency(blocks, length_tokens) * length_tokens)
        groups = len(self.groups) if self.version >= V1 else 1
        return blocks // groups * self.block_size_tokens * self.context_ranks

    def longest_request_tokens(self, blocks: int, limit_tokens: int) -> int:
        """Return the longest request that fits, one block left out as the engine's placeholder."""
        low, high = 0, limit_tokens
        while low < high:
            middle = (low + high + 1) // 2
            if self.blocks_per_request(middle) <= blocks - 1:
                low = middle
            else:
                high = middle - 1
        return low
