"""Request-scale stretches of one engine's time.

A latency target is about a request's mean over its output tokens. So intervals between scrapes are joined until
a running sequence makes as many tokens as a typical request has, and slide on piece by piece.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from vllm_advisor.evidence.interval import Interval

__all__ = ["EngineStretches", "Piece", "Stretch"]

_PIECES_PER_REQUEST = 8
_LONG_STRETCH = 4
_LONGEST_INTERVAL_SECONDS = 120.0
"""An interval beyond this holds a gap or a clock step, and its mean concurrency means nothing."""


@dataclass(slots=True)
class Piece:
    """Sums over one or more intervals."""

    seconds: float = 0.0
    running_seconds: float = 0.0
    decode_seconds: float = 0.0
    decode_tokens: float = 0.0
    generation_tokens: float = 0.0
    prompt_tokens: float = 0.0
    seen_concurrency: float = 0.0
    """Decode concurrency times decoded tokens: what the tokens saw, over ``decode_tokens``."""

    def add(self, other: Piece, sign: float = 1.0) -> None:
        """Add another piece, or take it away again."""
        self.seconds += sign * other.seconds
        self.running_seconds += sign * other.running_seconds
        self.decode_seconds += sign * other.decode_seconds
        self.decode_tokens += sign * other.decode_tokens
        self.generation_tokens += sign * other.generation_tokens
        self.prompt_tokens += sign * other.prompt_tokens
        self.seen_concurrency += sign * other.seen_concurrency


@dataclass(frozen=True, slots=True)
class Stretch:
    """One stretch as it counts.

    Args:
        concurrency: mean running sequences, as its tokens saw them.
        tpot_seconds: mean time per output token.
        sequence_tokens: tokens that a sequence made which ran all the stretch long.
        pieces: how many pieces it joins; each of the stretches that share a piece counts for one part.
        newest: its last piece, by which it is weighted.
    """

    concurrency: float
    tpot_seconds: float
    sequence_tokens: float
    pieces: int
    newest: Piece


class _Rolling:
    """A stretch that slides over pieces."""

    __slots__ = ("pieces", "sums")

    def __init__(self) -> None:
        self.pieces: deque[Piece] = deque()
        self.sums = Piece()

    def push(self, piece: Piece, tokens: float, least_pieces: int) -> Stretch | None:
        """Take in a piece, drop what is not needed, and give the stretch once it is long enough."""
        pieces, sums = self.pieces, self.sums
        pieces.append(piece)
        sums.add(piece)
        while len(pieces) > least_pieces and self._long_enough_without(pieces[0], tokens):
            sums.add(pieces.popleft(), -1.0)
        made = sums.seconds * sums.decode_tokens / sums.decode_seconds
        if made < tokens or len(pieces) < least_pieces:
            return None
        decode_concurrency = sums.decode_seconds / sums.seconds
        seen = sums.seen_concurrency / sums.decode_tokens - decode_concurrency
        return Stretch(
            concurrency=sums.running_seconds / sums.seconds + max(0.0, seen),
            tpot_seconds=sums.decode_seconds / sums.decode_tokens,
            sequence_tokens=made,
            pieces=len(pieces),
            newest=piece,
        )

    def _long_enough_without(self, oldest: Piece, tokens: float) -> bool:
        sums = self.sums
        decode_seconds = sums.decode_seconds - oldest.decode_seconds
        left = (sums.seconds - oldest.seconds) * (sums.decode_tokens - oldest.decode_tokens)
        return left >= tokens * decode_seconds


class EngineStretches:
    """Joins one engine's intervals into stretches; holds at most some 40 pieces."""

    __slots__ = ("_long", "_piece", "_short", "_waiting_before", "running_peak")

    def __init__(self) -> None:
        self.running_peak = 0.0
        self.break_off()

    def break_off(self) -> None:
        """Start anew: no stretch reaches over this moment."""
        self._piece = Piece()
        self._short, self._long = _Rolling(), _Rolling()
        self._waiting_before = 0.0

    def push(self, interval: Interval, request_tokens: float) -> tuple[Stretch | None, Stretch | None]:
        """Take in an interval and give the stretches it completes: of one request's length, and of four.

        Args:
            interval: what the engine did next.
            request_tokens: decoded tokens of a typical request.
        """
        running = interval.running or 0.0
        self.running_peak = max(self.running_peak, running)
        idle = interval.decode_tokens <= 0 and running == 0
        if idle or not interval.awake or interval.seconds > _LONGEST_INTERVAL_SECONDS:
            self.break_off()
            return None, None
        piece = self._piece
        self._extend(piece, interval)
        made = piece.seconds * piece.decode_tokens
        if made <= 0 or made * _PIECES_PER_REQUEST < request_tokens * piece.decode_seconds:
            return None, None
        self._piece = Piece()
        short = self._short.push(piece, request_tokens, 1)
        least = _LONG_STRETCH * len(self._short.pieces)
        return short, self._long.push(piece, _LONG_STRETCH * request_tokens, least)

    def _extend(self, piece: Piece, interval: Interval) -> None:
        seconds = interval.seconds
        piece.seconds += seconds
        piece.running_seconds += self._running_seconds(interval)
        piece.decode_seconds += interval.decode_seconds
        piece.decode_tokens += interval.decode_tokens
        piece.generation_tokens += interval.generation_tokens
        piece.prompt_tokens += interval.prompt_tokens
        piece.seen_concurrency += interval.decode_seconds / seconds * interval.decode_tokens
        self._waiting_before = interval.waiting or 0.0

    def _running_seconds(self, interval: Interval) -> float:
        """Return running sequences times seconds: decoding ones by Little's law, and those in prefill.

        Prefill time is the time to first token where nobody waits; where somebody does, the batch is as full as
        its gauge says at both ends, and queueing is not running.
        """
        running = interval.running or 0.0
        if self._waiting_before or interval.waiting:
            before = running if interval.running_before is None else interval.running_before
            return max(interval.decode_seconds, (before + running) / 2 * interval.seconds)
        most = max(interval.decode_seconds, self.running_peak * interval.seconds)
        return min(interval.decode_seconds + interval.ttft_seconds, most)
