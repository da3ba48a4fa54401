"""Logs read whole for `contexts`, a big one in parts by as many processes as there are cores.

Whoever reads a part begins with what the lines before it leave to remember. So counts and lengths are the
same however many processes there are; only a request logged again more than `REMEMBERED` lines later may be
noticed by one process and not by several.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

from vllm_advisor.config import AccessLogConfig
from vllm_advisor.evidence.lengths import ContextLengths
from vllm_advisor.sources.access_logs import LineReader, Logged, Outcome, line_start, read_file, read_part
from vllm_advisor.sources.access_logs.files import PACKED_SUFFIXES
from vllm_advisor.sources.access_logs.reader import Standing
from vllm_advisor.sources.access_logs.recent import REMEMBERED, Recent

__all__ = ["Tally", "read_logs"]

_PART_BYTES = 64 << 20
"""A part is no smaller: starting a process and reading what comes before cost as much as some of it."""
_LEAD_BYTES = 8 << 20
_HEAD_BYTES = 1 << 20
_PARTS_A_PROCESS = 2
_MOST_PROCESSES = 4
"""Each takes some 30 MB more."""


@dataclass(slots=True)
class Tally:
    """What some lines came to.

    Args:
        recent: the records to know again.
    """

    lengths: ContextLengths = field(default_factory=lambda: ContextLengths(math.inf))
    counts: Counter[Outcome] = field(default_factory=Counter)
    recent: Recent = field(default_factory=lambda: Recent(REMEMBERED))

    def take(self, found: Iterable[Logged]) -> None:
        """Take in requests."""
        for logged in found:
            self.lengths.observe(logged)

    def merge(self, later: Tally) -> None:
        """Take in what later lines came to."""
        self.lengths.merge(later.lengths)
        self.counts.update(later.counts)
        self.recent = later.recent


@dataclass(frozen=True, slots=True)
class _Rest:
    """What is to be read of a plain file after its first lines."""

    path: Path
    log: AccessLogConfig
    standing: Standing
    recent: Recent
    start: int
    now_seconds: float

    def reader(self, recent: Recent, counts: Counter[Outcome]) -> LineReader:
        reader = LineReader(self.log, recent, counts)
        reader.resume(self.standing, lambda _: b"")
        return reader


def read_logs(log: AccessLogConfig, *, processes: int | None = None, part_bytes: int = _PART_BYTES) -> Tally:
    """Read every file of some access logs.

    Args:
        log: the files' names, and what they are.
        processes: how many at most, the cores up to four unless given.
        part_bytes: the least that one of several reads.

    Raises:
        InputError: a file cannot be read.
    """
    tally = Tally()
    processes = processes or min(os.cpu_count() or 1, _MOST_PROCESSES)
    for path in map(Path, log.paths):
        reader = LineReader(log, tally.recent, tally.counts)
        if processes == 1 or not _is_big(path, 2 * part_bytes):
            tally.take(read_file(path, reader))
            continue
        rest = _begin(path, reader, tally, min(_HEAD_BYTES, part_bytes))
        if reader.reads_lines_apart:
            _share_out(rest, tally, processes, part_bytes)
        else:
            tally.take(read_part(path, reader, range(rest.start, path.stat().st_size), rest.now_seconds))
            reader.finish()
    return tally


def _is_big(path: Path, size_bytes: int) -> bool:
    is_plain = path.suffix not in PACKED_SUFFIXES | {".parquet"}
    return is_plain and path.is_file() and path.stat().st_size >= size_bytes


def _begin(path: Path, reader: LineReader, tally: Tally, head_bytes: int) -> _Rest:
    """Read the first lines of a file, which show how the rest is to be read."""
    head, now_seconds = line_start(path, head_bytes), time.time()
    tally.take(read_part(path, reader, range(head), now_seconds))
    return _Rest(path, reader.log, reader.standing, tally.recent, head, now_seconds)


def _share_out(rest: _Rest, tally: Tally, processes: int, part_bytes: int) -> None:
    size = rest.path.stat().st_size
    parts = max(min(processes * _PARTS_A_PROCESS, (size - rest.start) // part_bytes), 1)
    nominal = [rest.start + (size - rest.start) * number // parts for number in range(1, parts)]
    cuts = [rest.start, *(line_start(rest.path, offset) for offset in nominal), size]
    # A fork gives the same hashes to the same names, which `Recent` hands over.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(processes, parts), mp_context=context) as pool:
        for later in pool.map(partial(_read, rest), [range(*pair) for pair in pairwise(cuts)]):
            tally.merge(later)


def _read(rest: _Rest, part: range) -> Tally:
    tally = Tally(recent=_remembered(rest, part.start))
    tally.take(read_part(rest.path, rest.reader(tally.recent, tally.counts), part, rest.now_seconds))
    return tally


def _remembered(rest: _Rest, offset: int) -> Recent:
    """Return the records that the lines before an offset leave to remember."""
    lead_bytes = _LEAD_BYTES
    while True:
        recent, start = rest.recent.copy(), line_start(rest.path, max(rest.start, offset - lead_bytes))
        reader = rest.reader(recent, Counter())
        for _ in read_part(rest.path, reader, range(start, offset), rest.now_seconds):
            pass
        if start <= rest.start or reader.lines >= REMEMBERED:
            return recent
        lead_bytes *= 2
