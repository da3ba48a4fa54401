"""One log file while it is being written."""

from __future__ import annotations

import os
from pathlib import Path

from vllm_advisor.sources.access_logs.files import PACKED_SUFFIXES
from vllm_advisor.sources.access_logs.reader import LINE_LIMIT_BYTES, LineReader
from vllm_advisor.sources.access_logs.request import Logged
from vllm_advisor.sources.access_logs.tail_mark import EDGE_BYTES, Mark, digest
from vllm_advisor.sources.access_logs.tail_source import LogSource

__all__ = ["TailedFile", "size_and_time"]


def size_and_time(stat: os.stat_result) -> tuple[int, int]:
    """Return what changes when a file does."""
    return stat.st_size, stat.st_mtime_ns


class TailedFile:
    """Reads whole lines as they come, and knows how far it is.

    Args:
        path: where the file is.
        stat: what the system says of it.
        source: its bytes.
        reader: its lines.
        mark: where to go on, for a file begun before.
    """

    def __init__(
        self, path: Path, stat: os.stat_result, source: LogSource, reader: LineReader, mark: Mark | None
    ) -> None:
        self.path, self.identity = path, (stat.st_dev, stat.st_ino)
        self.position = mark.position if mark else 0
        self.is_packed = path.suffix in PACKED_SUFFIXES
        self.gone_since_seconds: float | None = None
        self._source, self._reader = source, reader
        self._skipping = mark.skipping if mark else False
        edge = min(self.position, EDGE_BYTES)
        self._head, self._tail = source.read(0, edge), source.read(self.position - edge, edge)
        self.size = (0, 0)
        if mark:
            reader.resume(mark.standing, lambda place: source.read(*place))

    def is_intact_at(self, stat: os.stat_result) -> bool:
        """Tell whether the file still holds what was read, after a look at it if it changed."""
        size = size_and_time(stat)
        if size == self.size:
            return True
        self.size = size
        return self.is_intact()

    def is_intact(self) -> bool:
        """Tell whether the file still holds what was read; a compressed one is not written in place."""
        if self.is_packed:
            return True
        at = self.position - len(self._tail)
        return (
            self._source.read(0, len(self._head)) == self._head
            and self._source.read(at, len(self._tail)) == self._tail
        )

    def holds(self, other: LogSource, size_bytes: int | None) -> bool:
        """Tell whether another file is a copy of this one, or of its beginning.

        Args:
            other: the other file.
            size_bytes: what it holds, None where that is not known before it is read.
        """
        if size_bytes is None:
            own, others = self._source.read(0, EDGE_BYTES), other.read(0, EDGE_BYTES)
            both = min(len(own), len(others))
            alike = both > 0 and own[:both] == others[:both]
        else:
            edge = min(size_bytes, EDGE_BYTES)
            places = (0, edge), (size_bytes - edge, edge)
            alike = edge > 0 and all(self._source.read(*place) == other.read(*place) for place in places)
        return alike and self.is_intact()

    def read(self, now_seconds: float) -> tuple[list[Logged], int]:
        """Read the whole lines of the next block; return their requests and how many bytes they were."""
        block = self._source.read(self.position, LINE_LIMIT_BYTES)
        if not self.is_intact():
            return [], 0  # truncated and written anew since the last look, and the block is of what came then
        end = block.rfind(b"\n") + 1
        if end:
            return self._lines(block[:end], now_seconds), end
        if len(block) < LINE_LIMIT_BYTES:
            return [], 0
        if not self._skipping:
            self._reader.skip_too_long()
            self._skipping = True
        self._advance(block)
        return [], len(block)

    def rest(self, now_seconds: float) -> list[Logged]:
        """Read a last line without its end, when nothing more will come."""
        block = self._source.read(self.position, LINE_LIMIT_BYTES) if self.is_intact() else b""
        found = self._lines(block, now_seconds) if block else []
        self._reader.finish()
        return found

    def close(self) -> None:
        """Give the file back."""
        self._source.close()

    def mark(self) -> Mark:
        """Return how far it is."""
        return Mark(
            path=str(self.path),
            identity=self.identity,
            position=self.position,
            head=digest(self._head),
            tail=digest(self._tail),
            skipping=self._skipping,
            standing=self._reader.standing,
        )

    def _lines(self, block: bytes, now_seconds: float) -> list[Logged]:
        skipped = (block.find(b"\n") + 1 or len(block)) if self._skipping else 0
        self._skipping = False
        found = self._reader.read_block(block[skipped:], self.position + skipped, now_seconds)
        self._advance(block)
        return found

    def _advance(self, block: bytes) -> None:
        self._head = (self._head + block[:EDGE_BYTES])[:EDGE_BYTES]
        self._tail = (self._tail + block[-EDGE_BYTES:])[-EDGE_BYTES:]
        self.position += len(block)
