"""From what a layout read of many lines to served requests, times and names as columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.sources.access_logs.line_block import LineBlock, Places
from vllm_advisor.sources.access_logs.line_layout import Layout
from vllm_advisor.sources.access_logs.line_steps import POWERS, Walk
from vllm_advisor.sources.access_logs.recent import LONGEST_NAME_BYTES, hashes_of
from vllm_advisor.sources.access_logs.request import ServedBlock
from vllm_advisor.sources.access_logs.values import LONGEST_TOKENS, SECONDS_A_UNIT, epoch_seconds

__all__ = ["ServedLines", "served_lines"]

_LENGTH = int.from_bytes(b"length", "little")
_SIX_BYTES = (1 << 48) - 1
_MICRO_DIGITS = 6
_WORD_BYTES = 8
_LAST_SECOND = 59
"""Some texts are a time in the first second of a minute alone, such as 24:00:00."""
_MOST_DIGITS = 18
_EXACT = 1 << 53
"""Whole numbers up to this are floats, and quotients of two floats are rounded as a number read is."""


@dataclass(frozen=True, slots=True)
class ServedLines:
    """Lines that tell of a served request each.

    Args:
        rows: which they are in their block.
        served: their requests.
        names: their ids' hashes, None where there are no ids.
    """

    rows: Places
    served: ServedBlock
    names: NDArray[np.uint64] | None

    def only(self, good: NDArray[np.bool_]) -> ServedLines:
        """Return some of them."""
        if good.all():
            return self
        served = ServedBlock(
            self.served.time_seconds[good],
            self.served.prompt_tokens[good],
            self.served.output_tokens[good],
            self.served.max_tokens[good],
            self.served.cut_by_length[good],
        )
        return ServedLines(self.rows[good], served, None if self.names is None else self.names[good])


def served_lines(
    layout: Layout, block: LineBlock, rows: Places, now_seconds: float, latest_seconds: float
) -> ServedLines:
    """Return those of some lines that have a layout and tell of a served request.

    Args:
        layout: the layout.
        block: the lines.
        rows: which of them.
        now_seconds: the time of a request whose line tells none.
        latest_seconds: the latest time that a line can tell.
    """
    lines = layout.walk(block, rows)
    values = lines.values
    prompt, output = values["prompt_tokens"], values["completion_tokens"]
    asked = values.get("max_tokens", np.full(prompt.size, -1))
    good = (prompt > 0) & (output > 0) & (asked <= LONGEST_TOKENS)
    good &= (prompt <= LONGEST_TOKENS) & (output <= LONGEST_TOKENS)
    if "total_tokens" in values:
        total = values["total_tokens"]
        good &= (total == 0) | (total == prompt + output)
    times = np.full(prompt.size, now_seconds)
    if "seconds" in values:
        times = _times(layout, lines)
        good &= (times >= 0) & (times <= latest_seconds)
    names = None
    if "id" in values:
        names = _names(lines)
        good &= (lines.lengths["id"] > 0) & (lines.lengths["id"] <= LONGEST_NAME_BYTES)
    served = ServedBlock(times, prompt, output, asked, _is_cut(layout, lines))
    return ServedLines(lines.rows, served, names).only(good)


def _names(lines: Walk) -> NDArray[np.uint64]:
    at, lengths = lines.values["id"], np.minimum(lines.lengths["id"], LONGEST_NAME_BYTES)
    width = -(-int(lengths.max(initial=1)) // _WORD_BYTES) * _WORD_BYTES
    return hashes_of(lines.block.windows(at, width).view("<u8"), lengths)


def _is_cut(layout: Layout, lines: Walk) -> NDArray[np.bool_]:
    place = lines.values.get("finish_reason")
    if place is None:
        return np.full(lines.rows.size, layout.constant("finish_reason") == b"length")
    is_cut: NDArray[np.bool_] = (lines.block.words(place) & _SIX_BYTES) == _LENGTH
    is_cut &= lines.lengths["finish_reason"] == len(b"length")
    return is_cut


def _times(layout: Layout, lines: Walk) -> NDArray[np.float64]:
    """Return epoch seconds as `epoch_seconds` does, NaN where they are left to it."""
    seconds, digits = lines.values["seconds"], lines.lengths["seconds"]
    nothing = np.zeros(seconds.size, np.int64)
    fraction, places = lines.values.get("fraction", nothing), lines.lengths.get("fraction", nothing)
    if "minute" not in lines.values:
        number = seconds * POWERS[places] + fraction
        return _since_epoch(number, places, (digits + places <= _MOST_DIGITS) & (number <= _EXACT))
    to_micro, beyond = np.maximum(_MICRO_DIGITS - places, 0), np.maximum(places - _MICRO_DIGITS, 0)
    micros = seconds * 10**_MICRO_DIGITS + fraction * POWERS[to_micro] // POWERS[beyond]
    times = (_minutes(layout, lines, places) * 10**_MICRO_DIGITS + micros) / 10**_MICRO_DIGITS
    return np.where((digits == 2) & (seconds < 60), times, np.nan)


def _since_epoch(
    number: NDArray[np.int64], places: NDArray[np.int64], is_exact: NDArray[np.bool_]
) -> NDArray[np.float64]:
    seconds = number / POWERS[places]
    units = [seconds > over for over, _ in SECONDS_A_UNIT]
    seconds *= np.select(units, [unit for _, unit in SECONDS_A_UNIT], 1.0)
    return np.where(is_exact, seconds, np.nan)


def _minutes(layout: Layout, lines: Walk, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the epoch seconds at which each line's minute begins, NaN where its text is no time."""
    at = lines.values["minute"]
    if not at.size:
        return np.zeros(0)
    size, tail = int(lines.lengths["minute"][0]), layout.after_time.decode()
    texts = lines.block.windows(at, -(-size // _WORD_BYTES) * _WORD_BYTES)
    texts[:, size:] = 0
    words = texts.view("<u8")
    is_other = reduce(np.bitwise_or, (words[1:] ^ words[:-1]).T) != 0
    starts = [0, *(np.flatnonzero(is_other | (places[1:] != places[:-1])) + 1).tolist()]
    minutes = []
    for start in starts:
        fraction = "." + "0" * int(places[start]) if places[start] else ""
        last = epoch_seconds(f"{texts[start, :size].tobytes().decode()}{_LAST_SECOND}{fraction}{tail}")
        minutes.append(np.nan if last is None else last - _LAST_SECOND)
    return np.repeat(np.array(minutes), np.diff([*starts, at.size]))
