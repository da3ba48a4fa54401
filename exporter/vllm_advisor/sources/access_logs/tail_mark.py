"""How far a file was read, told by what it holds rather than by its name.

A log is renamed, copied, compressed and truncated under the reader's hands, and inode numbers are used again.
What stays is its content: a mark fits a file whose first bytes, and whose last bytes before the position, are
those that were read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_advisor.sources.access_logs.reader import Standing
from vllm_advisor.sources.access_logs.request import Place
from vllm_advisor.sources.access_logs.tail_source import LogSource

__all__ = ["EDGE_BYTES", "Mark", "digest"]

EDGE_BYTES = 1024
"""Bytes compared at the start and before the position."""


def digest(content: bytes) -> str:
    """Return what stands for some bytes of a file."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class Mark:
    """A position in a file, and what the file is known by.

    Args:
        path: where the file was last seen.
        identity: device and inode then.
        position: bytes read.
        head: digest of the first bytes read; ``tail`` of the last ones.
        skipping: whether the position is inside a line over the limit.
        standing: what reading on depends on.
    """

    path: str
    identity: tuple[int, int]
    position: int
    head: str
    tail: str
    skipping: bool = False
    standing: Standing = field(default_factory=Standing)

    def fits(self, source: LogSource) -> bool:
        """Tell whether a file holds what was read, at the same place; nothing is known of one not begun."""
        if not self.position:
            return False
        edge = min(self.position, EDGE_BYTES)
        return (
            digest(source.read(0, edge)) == self.head
            and digest(source.read(self.position - edge, edge)) == self.tail
        )

    def may_fit_later(self, source: LogSource) -> bool:
        """Tell whether a file begins as what was read and is shorter, as a copy does while it is written."""
        if not self.position or source.read(self.position - 1, 1):
            return False
        return digest(source.read(0, min(self.position, EDGE_BYTES))) == self.head

    def state(self) -> dict[str, Any]:
        """Return the mark as plain JSON values."""
        standing = self.standing
        return {
            "path": self.path,
            "identity": list(self.identity),
            "position": self.position,
            "head": self.head,
            "tail": self.tail,
            "skipping": self.skipping,
            "frame": standing.frame,
            "format": standing.format,
            "header": standing.header and list(standing.header),
            "opened": [list(place) for place in standing.opened],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Mark:
        """Rebuild a mark from its `state`.

        Raises:
            KeyError, TypeError, ValueError: the state is not one that `state` gave.
        """
        header = None if state["header"] is None else _place(state["header"])
        opened = tuple(_place(place) for place in state["opened"])
        return cls(
            path=str(state["path"]),
            identity=_place(state["identity"]),
            position=int(state["position"]),
            head=str(state["head"]),
            tail=str(state["tail"]),
            skipping=bool(state["skipping"]),
            standing=Standing(state["frame"], state["format"], header, opened),
        )


def _place(pair: list[int]) -> Place:
    first, second = pair
    return int(first), int(second)
