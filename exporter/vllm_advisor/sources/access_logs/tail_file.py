"""One log file while it is being written."""

from __future__ import annotations

import os

from vllm_advisor.sources.access_logs.line_block import BLOCK_BYTES, LINE_LIMIT_BYTES
from vllm_advisor.sources.access_logs.reader import LineReader
from vllm_advisor.sources.access_logs.request import Logged
from vllm_advisor.sources.access_logs.tail_mark import EDGE_BYTES, Mark, digest
from vllm_advisor.sources.access_logs.tail_source import LogSource

__all__ = ["TailedFile", "identity_of", "size_and_time"]


def identity_of(stat: os.stat_result) -> tuple[int, int]:
    """Return device and inode."""
    return stat.st_dev, stat.st_ino


def size_and_time(stat: os.stat_result) -> tuple[int, int]:
    """Return what changes when a file does."""
    return stat.st_size, stat.st_mtime_ns


class TailedFile:
    """Reads whole lines as they come, and knows how far it is.

    Args:
        source: its bytes.
        reader: its lines.
        mark: where to go on, for a file begun before.
    """

    def __init__(self, source: LogSource, reader: LineReader, mark: Mark | None) -> None:
        stat = source.stat()
        self.path, self.identity, self.size = source.path, identity_of(stat), size_and_time(stat)
        self.position = mark.position if mark else 0
        self.is_packed = source.is_packed
        self.gone_since_seconds: float | None = None
        self._source, self._reader = source, reader
        self._skipping = mark.skipping if mark else False
        edge = min(self.position, EDGE_BYTES)
        self._head, self._tail = source.read(0, edge), source.read(self.position - edge, edge)
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
        if self.is_packed or not self.position:
            return True
        at = self.position - len(self._tail)
        return (
            self._source.read(0, len(self._head)) == self._head
            and self._source.read(at, len(self._tail)) == self._tail
        )

    def may_begin_as(self, start: bytes) -> bool:
        """Tell from memory alone whether what was read may begin with the same bytes as another file."""
        both = min(len(start), len(self._head))
        return self._head[:both] == start[:both]

    def resumes(self, mark: Mark) -> bool:
        """Tell whether the file was still whole when all that a mark stands for had been taken up."""
        own = self.mark()
        return (own.head, own.tail) == (mark.head, mark.tail) and self.is_intact()

    def holds(self, other: LogSource) -> bool:
        """Tell whether another file is a copy of this one, or of its beginning."""
        return _holds(self._source, other) and self.is_intact()

    def is_held_by(self, other: LogSource) -> bool:
        """Tell whether this file is the shorter one of two that begin alike."""
        return not self.is_packed and _holds(other, self._source) and self.is_intact()

    def read(self, now_seconds: float) -> tuple[list[Logged], int]:
        """Read the whole lines of the next block; return their requests and how many bytes they were."""
        block = self._source.read(self.position, BLOCK_BYTES)
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


def _holds(whole: LogSource, part: LogSource) -> bool:
    """Tell whether a file begins with all that another holds; of a compressed one the start has to tell."""
    if part.is_packed:
        own, others = whole.read(0, EDGE_BYTES), part.read(0, EDGE_BYTES)
        both = min(len(own), len(others))
        return both > 0 and own[:both] == others[:both]
    size_bytes = part.stat().st_size
    edge = min(size_bytes, EDGE_BYTES)
    places = (0, edge), (size_bytes - edge, edge)
    return edge > 0 and all(whole.read(*place) == part.read(*place) for place in places)
