"""Request-scale stretches of one engine's time.

A latency target is about a request's mean over its output tokens. So intervals between scrapes are joined
until a running sequence makes as many tokens as a typical request has, and all that run make at least as
many; they slide on piece by piece.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.evidence.intervals import Intervals, known_or_0, runs
from vllm_advisor.sources.engine_series import Floats

__all__ = ["EngineStretches", "Pieces", "Spans", "Stretches"]

_PIECES_PER_REQUEST = 8
_LONG_STRETCH = 4
_LONGEST_INTERVAL_SECONDS = 120.0
"""An interval beyond this holds a gap or a clock step, and its mean concurrency means nothing."""

_POOL_FULL_RATIO = 0.97
_AT_PEAK = 0.98

_STOOD = 0.5
"""Sequences by which the size of a batch that stands may differ from its mean."""

_TOTALS = (
    "seconds",
    "decode_seconds",
    "decode_tokens",
    "running_seconds",
    "generation_tokens",
    "prompt_tokens",
    "seen_concurrency",  # decode concurrency times decoded tokens: what the tokens saw
    "pool_used",  # pool use and running sequences, as pages showed them side by side, times seconds
    "pool_users",
)
_RUNNING_SECONDS = _TOTALS.index("running_seconds")


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """From where to where stretches reach.

    Args:
        is_long: whether each is of four requests' length.
        interval: the one that completed it, by its index.
        pieces: how many pieces it joins.
        totals: at its beginning, before its newest piece, and at its end: three rows for each.
    """

    is_long: NDArray[np.bool_]
    interval: NDArray[np.intp]
    pieces: NDArray[np.intp]
    totals: Floats

    @classmethod
    def together(cls, spans: Sequence[Spans]) -> Spans:
        """Join spans of several engines, in the order of the intervals that completed them."""
        none = _spans([], np.zeros((0, len(_TOTALS))))
        columns = (
            np.concatenate([getattr(one, column.name) for one in (none, *spans)]) for column in fields(cls)
        )
        joined = cls(*columns)
        return joined.rows(np.argsort(joined.interval, kind="stable"))

    def rows(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Spans:
        """Return some of them."""
        return Spans(*(getattr(self, one.name)[rows] for one in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """Stretches as they count: their own means, and the newest piece by which each is weighted.

    Args:
        interval: the one that completed it, by its index.
        concurrency: of running sequences as the tokens saw them.
        sequence_tokens: what a sequence made that ran all the stretch long.
        prefill_rate: prompt tokens per second that a sequence decodes. Per decoded token, steps that are slow
            for any reason would pass for more prefill, since fewer tokens are decoded.
        pool_share: the part of the KV pool that one running sequence held.
        pieces: how many pieces it joins, each of the stretches that share one counting for a part.
    """

    interval: NDArray[np.intp]
    concurrency: Floats
    tpot_seconds: Floats
    sequence_tokens: Floats
    prefill_rate: Floats
    pool_share: Floats
    pieces: Floats
    newest_seconds: Floats
    newest_decode_tokens: Floats
    newest_generation_tokens: Floats

    def __len__(self) -> int:
        return len(self.interval)

    def rows(self, rows: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Stretches:
        """Return some of them."""
        return Stretches(*(getattr(self, one.name)[rows] for one in fields(self)))

    @classmethod
    def of(cls, spans: Spans) -> Stretches:
        """Work out what some spans show."""
        begin, before, end = spans.totals.transpose(1, 2, 0)
        whole, newest = (dict(zip(_TOTALS, end - start, strict=True)) for start in (begin, before))
        seconds, decoded, decoding = whole["seconds"], whole["decode_tokens"], whole["decode_seconds"]
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = whole["seen_concurrency"] / decoded - decoding / seconds
            pool_share = np.where(whole["pool_users"] > 0, whole["pool_used"] / whole["pool_users"], 0.0)
            return cls(
                interval=spans.interval,
                concurrency=whole["running_seconds"] / seconds + np.maximum(0.0, seen),
                tpot_seconds=decoding / decoded,
                sequence_tokens=seconds * decoded / decoding,
                prefill_rate=whole["prompt_tokens"] / decoding,
                pool_share=pool_share,
                pieces=spans.pieces.astype(np.float64),
                newest_seconds=newest["seconds"],
                newest_decode_tokens=newest["decode_tokens"],
                newest_generation_tokens=newest["generation_tokens"],
            )


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Intervals as far as stretches are made of them.

    Args:
        interval: index of each.
        totals: what each adds to the totals; running sequences times seconds as if nobody waited.
        crowded_seconds: running sequences times seconds if somebody waits.
        running: sequences; ``waits`` whether requests wait.
        says_nothing: of TPOT: idle, asleep, preempting, or too long.
        is_full: requests wait and the pool is full.
    """

    interval: NDArray[np.intp]
    totals: Floats
    crowded_seconds: Floats
    running: Floats
    waits: NDArray[np.bool_]
    says_nothing: NDArray[np.bool_]
    is_full: NDArray[np.bool_]

    @classmethod
    def of(cls, intervals: Intervals) -> Pieces:
        """Take from intervals what stretches need."""
        seconds, decoding, tokens = intervals.seconds, intervals.decode_seconds, intervals.decode_tokens
        running, used = known_or_0(intervals.running), known_or_0(intervals.kv_used_ratio)
        before = np.where(np.isnan(intervals.running_before), running, intervals.running_before)
        waits = intervals.waiting > 0
        idle = (tokens <= 0) & (running == 0)
        decoding_mean = decoding / np.where(seconds > 0, seconds, np.inf)
        columns = {
            "seconds": seconds,
            "decode_seconds": decoding,
            "decode_tokens": tokens,
            "running_seconds": decoding + intervals.ttft_seconds,
            "generation_tokens": intervals.generation_tokens,
            "prompt_tokens": intervals.prompt_tokens,
            "seen_concurrency": (decoding_mean + _seen_beyond_mean(intervals, running, before)) * tokens,
            "pool_used": used * seconds,
            "pool_users": running * seconds,
        }
        return cls(
            interval=np.arange(len(seconds)),
            totals=np.stack([columns[name] for name in _TOTALS], axis=1),
            crowded_seconds=np.maximum(decoding, (before + running) / 2 * seconds),
            running=running,
            waits=waits,
            says_nothing=idle
            | ~intervals.awake
            | (intervals.preemptions > 0)
            | (seconds > _LONGEST_INTERVAL_SECONDS),
            is_full=waits & (used > _POOL_FULL_RATIO),
        )

    def rows(self, rows: slice | NDArray[np.intp]) -> Pieces:
        """Return some of them."""
        return Pieces(*(getattr(self, one.name)[rows] for one in fields(self)))


class EngineStretches:
    """Joins one engine's intervals into stretches; keeps totals at some 40 moments."""

    __slots__ = ("_marks", "_now", "_short_start", "_waits", "running_peak")

    def __init__(self) -> None:
        self.running_peak = 0.0
        self.break_off()

    def break_off(self) -> None:
        """Start anew: no stretch reaches over this moment."""
        self._now = np.zeros(len(_TOTALS))
        self._marks = self._now[None, :]
        self._short_start = 0
        self._waits = False

    def join(self, pieces: Pieces, request_tokens: Floats) -> Iterator[Spans]:
        """Yield the spans that intervals complete: of one request's length, and of four.

        Args:
            pieces: what the engine did next.
            request_tokens: decoded tokens of a typical request, at each of them.
        """
        peaks = np.maximum.accumulate(np.append(self.running_peak, pieces.running))[1:]
        self.running_peak = float(peaks[-1])
        breaks = pieces.says_nothing | (pieces.is_full & (pieces.running < _AT_PEAK * peaks))
        for start, end in runs(breaks):
            if breaks[start]:
                self.break_off()
            else:
                run = slice(start, end)
                totals = self._totals(pieces, peaks, run)
                yield self._completed(totals, pieces.interval[run].tolist(), request_tokens[run].tolist())

    def _totals(self, pieces: Pieces, peaks: Floats, run: slice) -> Floats:
        """Return the totals at the end of each interval of a run.

        Running sequences times seconds are those that decode by Little's law, and those in prefill. Prefill
        time is the time to first token where nobody waits; where somebody does, the batch is as full as its
        gauge says at both ends, and queueing is not running.
        """
        added = np.vstack([self._now, pieces.totals[run]])
        seconds, decoding = added[1:, 0], added[1:, 1]
        waits = pieces.waits[run]
        waited = np.append(self._waits, waits[:-1])
        alone = np.minimum(added[1:, _RUNNING_SECONDS], np.maximum(decoding, peaks[run] * seconds))
        added[1:, _RUNNING_SECONDS] = np.where(waited | waits, pieces.crowded_seconds[run], alone)
        self._waits = bool(waits[-1])
        totals: Floats = np.cumsum(added, axis=0)[1:]
        self._now = totals[-1].copy()
        return totals

    def _completed(self, totals: Floats, intervals: list[int], requests: list[float]) -> Spans:
        held, found = len(self._marks), []
        totals = np.vstack([self._marks, totals])
        columns: list[list[float]] = totals[:, :3].T.tolist()
        seconds, decoding, tokens = columns

        def made(start: int, end: int, wanted: float) -> bool:
            """Tell whether one sequence made some tokens in between (time over TPOT), and all that ran did.

            Where the engine hardly decodes, time over TPOT is many tokens, and the few there are say nothing.
            """
            decoded = tokens[end] - tokens[start]
            needed = wanted * (decoding[end] - decoding[start])
            return decoded >= wanted and (seconds[end] - seconds[start]) * decoded >= needed

        marks, start = deque(range(held)), self._short_start
        for now, (interval, request) in enumerate(zip(intervals, requests, strict=True), held):
            if not made(marks[-1], now, request / _PIECES_PER_REQUEST):
                continue
            before = marks[-1]
            marks.append(now)
            last = len(marks) - 1
            while start < last - 1 and made(marks[start + 1], now, request):
                start += 1
            long_request, long_pieces = _LONG_STRETCH * request, _LONG_STRETCH * (last - start)
            while last > long_pieces and made(marks[1], now, long_request):
                marks.popleft()
                start, last = start - 1, last - 1
            start = max(0, start)
            if made(marks[start], now, request):
                found.append((False, interval, last - start, marks[start], before, now))
            if last >= long_pieces and made(marks[0], now, long_request):
                found.append((True, interval, last, marks[0], before, now))
        self._marks, self._short_start = totals[list(marks)], start
        return _spans(found, totals)


def _seen_beyond_mean(intervals: Intervals, running: Floats, before: Floats) -> Floats:
    """Return by how much the concurrency that tokens saw lies above the mean over each interval.

    More tokens come where more sequences run, in proportion to about the root of their number N. So tokens
    see the mean plus half of variance over mean. Each arrival and each end moves N by one: a random walk,
    whose variance within a window is a sixth of its steps, up to that of Poisson arrivals, N itself. A batch
    that requests wait for, or that is as large at both ends as on average, has not moved.
    """
    seconds = np.where(intervals.seconds > 0, intervals.seconds, np.inf)
    mean = (intervals.decode_seconds + intervals.ttft_seconds) / seconds
    stood = (np.abs(running - mean) < _STOOD) & (np.abs(before - mean) < _STOOD)
    steps = intervals.first_tokens + intervals.finished
    moved = (steps > 0) & ~stood & ~(intervals.waiting > 0)
    seen: Floats = np.where(moved, 0.5 * steps / np.maximum(steps + 6 * mean, 1e-9), 0.0)
    return seen


def _spans(found: Sequence[tuple[int, ...]], totals: Floats) -> Spans:
    """Return spans, given whether each is long, its interval, its pieces, and three rows of the totals."""
    columns = np.array(found, np.intp).reshape(-1, 6)
    return Spans(columns[:, 0] > 0, columns[:, 1], columns[:, 2], totals[columns[:, 3:]])
