"""A daemon's share of the deployments, by hash of their names: ``--shard=2/5``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from vllm_advisor.config import AdvisorConfig
from vllm_advisor.errors import UsageError

__all__ = ["WHOLE", "Shard", "parse_shard"]


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several daemons that share a configuration.

    Args:
        number: which one, from 1.
        total: how many there are.
    """

    number: int = 1
    total: int = 1

    def takes(self, name: str) -> bool:
        """Tell whether a deployment is this daemon's; of all shards just one says so, on every machine."""
        digest = blake2b(name.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.total == self.number - 1

    def of(self, config: AdvisorConfig) -> AdvisorConfig:
        """Return the configuration with this daemon's deployments alone."""
        taken = tuple(one for one in config.deployments if self.takes(one.name))
        return config.model_copy(update={"deployments": taken})


WHOLE = Shard()
"""Every deployment."""


def parse_shard(text: str) -> Shard:
    """Read ``K/N``, from ``1/N`` to ``N/N``.

    Raises:
        UsageError: it is no such pair.
    """
    if re.fullmatch(r"[0-9]{1,9}/[0-9]{1,9}", text):
        number, total = map(int, text.split("/"))
        if 1 <= number <= total:
            return Shard(number, total)
    raise UsageError(f"expected a share such as 2/5, not {text[:40]!r}", key="--shard")
