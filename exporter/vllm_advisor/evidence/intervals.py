"""What engines did between two of their pages, many intervals at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.sources.engine_series import COUNTERS, NUMBERS, Bounds, EngineSeries, Floats, columns_of

__all__ = [
    "Intervals",
    "LengthCounts",
    "Pages",
    "answer_in_turns",
    "intervals_of",
    "known_or_0",
    "runs",
    "started_anew",
    "total",
    "totals",
]

_MOST_SEQUENCES = 16_384
"""Decoding on one engine at once: sixteen times the highest default of --max-num-seqs."""
_MOST_TOKENS_A_SECOND = 1e7
"""Put out by one engine."""
_CREATED = NUMBERS.index("created_seconds")


@dataclass(frozen=True, slots=True, eq=False)
class LengthCounts:
    """New observations of a histogram in some intervals.

    Args:
        bounds: upper bounds, ascending, the last infinite.
        counts: a row for each interval, observations in each bucket (not cumulative); NaN where unknown.
    """

    bounds: tuple[float, ...]
    counts: Floats

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which intervals have them."""
        return ~np.isnan(self.counts[:, -1])

    def summed(self, rows: NDArray[np.bool_] | slice = slice(None)) -> Floats:
        """Return the observations of some intervals together, those that are known."""
        counts = self.counts[rows]
        summed: Floats = np.where(np.isnan(counts), 0.0, counts).sum(axis=0)
        return summed


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Differences between successive pages of engines of one make, in the order of their ends.

    Columns: ``*_seconds`` are seconds, ``*_tokens`` tokens, the rest counts; what the pages lack is 0 for an
    increase and NaN for a level. Levels (running, waiting, KV) are those of the later page. Where nothing can
    be compared (over a restart, a gap, no time, or more than an engine can do) nothing increased, no level is
    known, and none was awake.

    Args:
        engine_ids: whose intervals they are.
        engine: index of its engine for each interval.
    """

    engine_ids: tuple[str, ...]
    engine: NDArray[np.intp]
    start_seconds: Floats
    end_seconds: Floats
    running: Floats
    running_before: Floats
    waiting: Floats
    kv_used_ratio: Floats
    awake: NDArray[np.bool_]
    decode_seconds: Floats
    """Increase of the inter-token latency sum: one second a second for each decoding sequence."""
    decode_tokens: Floats
    """Output tokens after each request's first; none where the page does not tell how long they took."""
    prompt_tokens: Floats
    generation_tokens: Floats
    first_tokens: Floats
    """Requests that got their first token."""
    ttft_seconds: Floats
    queue_seconds: Floats
    queued: Floats
    steps: Floats
    preemptions: Floats
    finished: Floats
    ttft: LengthCounts | None = None
    prompt_lengths: LengthCounts | None = None
    generation_lengths: LengthCounts | None = None

    def __len__(self) -> int:
        return len(self.end_seconds)

    @property
    def seconds(self) -> Floats:
        """Length of each interval."""
        return self.end_seconds - self.start_seconds

    def rows(self, rows: slice | NDArray[np.bool_]) -> Intervals:
        """Return some of them."""
        if (isinstance(rows, slice) and rows.indices(len(self)) == (0, len(self), 1)) or (
            isinstance(rows, np.ndarray) and bool(rows.all())
        ):
            return self
        picked: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        for name, value in picked.items():
            if isinstance(value, np.ndarray):
                picked[name] = value[rows]
            elif isinstance(value, LengthCounts):
                picked[name] = LengthCounts(value.bounds, value.counts[rows])
        return Intervals(**picked)

    def by_slot(self, slot_seconds: float) -> Iterator[tuple[int, Intervals]]:
        """Yield the slots of time in which intervals end, by number, each with its intervals."""
        numbers = np.floor_divide(self.end_seconds, slot_seconds)
        for start, end in runs(numbers):
            yield int(numbers[start]), self.rows(slice(start, end))


def known_or_0(levels: Floats) -> Floats:
    """Return levels, those that are unknown as 0."""
    return np.where(np.isnan(levels), 0.0, levels)


def runs(values: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of equal values."""
    if not len(values):
        return
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    yield from pairwise((0, *changes.tolist(), len(values)))


@dataclass(frozen=True, slots=True, eq=False)
class Pages:
    """Successive pages of one engine, from the one that the first interval starts at.

    Args:
        pieces: the pages, all of one make.
        counts: whether what happened between them is evidence.
    """

    engine_id: str
    pieces: tuple[EngineSeries, ...]
    counts: bool

    def __len__(self) -> int:
        return sum(len(piece.time_seconds) for piece in self.pieces)


def total(start: float, amounts: Floats) -> float:
    """Add amounts up one after another, so that it does not matter how many come at once."""
    return float(np.cumsum(np.append(start, amounts))[-1])


def totals(amounts: Floats) -> list[float]:
    """Return the columns' totals, added up row after row from the first."""
    summed: list[float] = np.cumsum(amounts, axis=0)[-1].tolist()
    return summed


def started_anew(before: Floats, after: Floats) -> NDArray[np.bool_]:
    """Tell of rows of numbers whether an engine started in between, or another one answered.

    Some counter is lower on the later, or they began to count at another time.
    """
    counters = slice(len(COUNTERS))
    fell = np.less(after[..., counters], before[..., counters]).any(axis=-1)
    return np.asarray(fell | (np.abs(after[..., _CREATED] - before[..., _CREATED]) > 0))


def answer_in_turns(*pages: EngineSeries) -> bool:
    """Tell of successive pages whether several engines answer: one comes after one that started later."""
    created = np.concatenate([one.numbers[:, _CREATED] for one in pages])
    return bool((created[1:] < created[:-1]).any())


def _cannot_be(increases: Floats, seconds: Floats) -> NDArray[np.bool_]:
    """Tell in which intervals no engine can have done as much: another one's page, or a number gone wrong."""
    decoding, tokens = (increases[:, COUNTERS.index(name)] for name in ("itl_sum", "generation_tokens"))
    return np.asarray((decoding > _MOST_SEQUENCES * seconds) | (tokens > _MOST_TOKENS_A_SECOND * seconds))


def intervals_of(pages: Sequence[Pages], longest_seconds: float) -> Iterator[Intervals]:
    """Yield what happened between pages, by time and then by engine; at once as many as are of one make.

    Args:
        pages: of any engines, those of one engine in their order.
        longest_seconds: pages further apart are not compared.
    """
    makes: dict[Bounds, list[Pages]] = {}
    for one in pages:
        makes.setdefault(one.pieces[0].bounds, []).append(one)
    engine_ids = tuple(sorted({one.engine_id for one in pages}))
    compared = [_between(_pairs(alike, engine_ids), longest_seconds) for alike in makes.values()]
    if len(compared) == 1:
        yield compared[0]
        return
    make = np.repeat(np.arange(len(compared)), list(map(len, compared)))
    end_seconds, engine = (
        np.concatenate([getattr(one, name) for one in compared]) for name in ("end_seconds", "engine")
    )
    in_time = make[np.lexsort((engine, end_seconds))]
    taken = [0] * len(compared)
    for start, end in runs(in_time):
        which = in_time[start]
        first, taken[which] = taken[which], taken[which] + end - start
        yield compared[which].rows(slice(first, taken[which]))


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Pages of one make and those before them, a row for each pair."""

    engine_ids: tuple[str, ...]
    engine: NDArray[np.intp]
    bounds: Bounds
    start_seconds: Floats
    end_seconds: Floats
    before: Floats
    after: Floats
    counts: NDArray[np.bool_]


def _pairs(pages: Sequence[Pages], engine_ids: tuple[str, ...]) -> _Pairs:
    """Set pages of one make side by side with those before them, by time and then by engine."""
    sizes = list(map(len, pages))
    pieces = [piece for one in pages for piece in one.pieces]
    numbers = np.concatenate([piece.numbers for piece in pieces])
    time_seconds = np.concatenate([piece.time_seconds for piece in pieces])
    has_before = np.ones(len(time_seconds), np.bool_)
    has_before[np.cumsum([0, *sizes[:-1]])] = False
    index_of = {engine_id: index for index, engine_id in enumerate(engine_ids)}
    engine = np.repeat([index_of[one.engine_id] for one in pages], sizes)
    later = np.flatnonzero(has_before)
    later = later[np.lexsort((engine[later], time_seconds[later]))]
    return _Pairs(
        engine_ids=engine_ids,
        engine=engine[later],
        bounds=pieces[0].bounds,
        start_seconds=time_seconds[later - 1],
        end_seconds=time_seconds[later],
        before=numbers[later - 1],
        after=numbers[later],
        counts=np.repeat([one.counts for one in pages], sizes)[later],
    )


def _between(pairs: _Pairs, longest_seconds: float) -> Intervals:
    before, after = pairs.before, pairs.after
    seconds = pairs.end_seconds - pairs.start_seconds
    unknown = (seconds <= 0) | (seconds > longest_seconds) | ~pairs.counts | started_anew(before, after)
    increases = after - before
    unknown |= _cannot_be(increases, seconds)
    increases[unknown] = np.nan
    columns = columns_of(pairs.bounds)
    ttft, prompt_lengths, generation_lengths = (
        _new_observations(uppers, increases[:, where])
        for uppers, where in zip(pairs.bounds, columns, strict=True)
    )
    first_tokens = ttft_seconds = np.zeros(len(seconds))
    if ttft is not None:
        first_tokens = np.where(ttft.known, ttft.counts.sum(axis=1), 0.0)
        ttft_seconds = np.where(ttft.known, increases[:, columns[0].start], 0.0)
    more = dict(zip(COUNTERS, known_or_0(increases[:, : len(COUNTERS)]).T, strict=True))
    levels = dict(zip(NUMBERS, np.where(unknown, np.nan, after[:, : len(NUMBERS)].T), strict=True))
    return Intervals(
        engine_ids=pairs.engine_ids,
        engine=pairs.engine,
        start_seconds=pairs.start_seconds,
        end_seconds=pairs.end_seconds,
        running=levels["running"],
        running_before=np.where(unknown, np.nan, before[:, NUMBERS.index("running")]),
        waiting=levels["waiting"],
        kv_used_ratio=levels["kv_used_ratio"],
        awake=(levels["awake"] > 0) & (before[:, NUMBERS.index("awake")] > 0),
        decode_seconds=more["itl_sum"],
        decode_tokens=np.where(
            more["itl_sum"] > 0, np.maximum(more["generation_tokens"] - first_tokens, 0.0), 0.0
        ),
        prompt_tokens=more["prompt_tokens"],
        generation_tokens=more["generation_tokens"],
        first_tokens=first_tokens,
        ttft_seconds=ttft_seconds,
        queue_seconds=more["queue_sum"],
        queued=more["queue_count"],
        steps=more["iteration_count"],
        preemptions=more["preemptions"],
        finished=more["finished"],
        ttft=ttft,
        prompt_lengths=prompt_lengths,
        generation_lengths=generation_lengths,
    )


def _new_observations(uppers: tuple[float, ...], increases: Floats) -> LengthCounts | None:
    """Return each bucket's own new observations; unknown where any number of the histogram fell."""
    if not uppers:
        return None
    counts = np.diff(increases[:, 2:], axis=1, prepend=0.0)
    fell = (increases[:, 1] < 0) | (counts < 0).any(axis=1)
    counts[fell] = np.nan
    return LengthCounts(uppers, counts)
