"""What speculative decoding adds to the KV cache."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vllm_advisor.sources.model_config import ModelConfig

__all__ = ["Speculation"]

_WITHOUT_CACHE = re.compile(r"(?i)ngram|suffix|medusa|mlp_speculator")
"""Drafters that keep nothing of a sequence in the pool."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """``--speculative-config``, as far as memory depends on it.

    Args:
        tokens: proposed in one step.
        method: as vLLM names it.
    """

    tokens: int = 0
    method: str = "mtp"

    def layers(self, model: ModelConfig) -> int:
        """Return the layers with a cache that the drafter adds: the checkpoint's own, else one."""
        if not self.tokens or _WITHOUT_CACHE.search(self.method):
            return 0
        return model.drafter_layers or 1
