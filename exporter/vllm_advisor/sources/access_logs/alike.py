"""Many JSON lines at once, for lines laid out like some that were understood.

Whatever has none of the layouts, or does not tell of a served request, is left to be read line by line, so
that both ways of reading come to the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from vllm_advisor.config import AccessLogConfig
from vllm_advisor.sources.access_logs.fields import Fields, look_up
from vllm_advisor.sources.access_logs.line_block import LineBlock
from vllm_advisor.sources.access_logs.line_columns import ServedLines, served_lines
from vllm_advisor.sources.access_logs.line_layout import Layout
from vllm_advisor.sources.access_logs.recent import Recent, hash_of
from vllm_advisor.sources.access_logs.records import each_record
from vllm_advisor.sources.access_logs.request import ServedBlock
from vllm_advisor.sources.access_logs.values import BrokenLineError

__all__ = ["AlikeLines"]

_LAYOUTS = 8
_LOOKED_AT = 64
"""Lines that show what varies from line to line."""
_FEWEST_LINES = 8
"""Fewer are read sooner one by one."""
_ENOUGH_LINES = re.compile(rb"(?:[^\n]*\n){%d}" % _FEWEST_LINES)
_KEPT_BYTES = 16 << 20
"""glibc gives free memory back to the system beyond twice the largest piece freed that was a mapping of its
own. Once there was one this large, what a block takes stays for the next, which saves a tenth of the time.
"""
_LINES_A_LAYOUT = 500
"""Working out a layout costs as much as reading some tens of lines one by one."""


class AlikeLines:
    """The layouts of one file's lines.

    Args:
        fields: where the format keeps what is read.
        log: which lines count.
    """

    def __init__(self, fields: Fields, log: AccessLogConfig) -> None:
        self._fields, self._log = fields, log
        self._layouts: list[Layout] = []
        self._attempts_left = float(_LAYOUTS)
        bytes(_KEPT_BYTES)

    def learn(self, lines: Sequence[bytes], number: int) -> bool:
        """Learn how a line of a served request is laid out, if that is new; tell whether it is.

        Args:
            lines: the lines of a block.
            number: which one it is; those after it show what varies from line to line.
        """
        left = len(lines) - number
        if self._attempts_left < 1 or left < _FEWEST_LINES:
            return False
        self._attempts_left -= 1
        shown = lines[number + 1 :: max(left // _LOOKED_AT, 1)]
        layout = Layout.learnt(lines[number], shown, self._fields, self._log)
        if layout is None:
            return False
        known = next((one for one in self._layouts if one.skeleton == layout.skeleton), None)
        if known is not None:
            layout = known.joined(layout)
            if layout.shapes == known.shapes:
                return False
            self._layouts.remove(known)
        self._layouts = [layout, *self._layouts[: _LAYOUTS - 1]]
        return True

    def read(
        self, content: bytes, recent: Recent, now_seconds: float, latest_seconds: float
    ) -> tuple[list[ServedBlock], bytes]:
        """Return the served requests of some lines, and the lines to read one by one.

        Args:
            content: whole lines.
            recent: the records seen before.
            now_seconds: the time of a request whose line tells none.
            latest_seconds: the latest time that a line can tell.
        """
        if not self._layouts or _ENOUGH_LINES.match(content) is None:
            return [], content
        block = LineBlock(content)
        left, found = block.is_text.copy(), list[ServedLines]()
        for layout in self._layouts:
            found.append(served_lines(layout, block, np.flatnonzero(left), now_seconds, latest_seconds))
            left[found[-1].rows] = False
        left |= ~block.is_text
        found = self._once(found, map(block.line, np.flatnonzero(left).tolist()), recent)
        left[:] = True
        for one in found:
            left[one.rows] = False
        self._note_use([one.rows.size for one in found])
        served = [one.served for one in found if one.rows.size]
        return served, b"\n".join(map(block.line, np.flatnonzero(left).tolist()))

    def _once(self, found: list[ServedLines], others: Iterable[bytes], recent: Recent) -> list[ServedLines]:
        """Leave out requests told of twice, be it in one of the other lines, and remember the rest."""
        names = [one.names for one in found if one.names is not None]
        if not names:
            return found
        in_order = np.sort(np.concatenate(names))
        elsewhere = [hash_of(name) for line in others for name in _names(line, self._fields.id)]
        twice = np.concatenate([in_order[1:][in_order[1:] == in_order[:-1]], np.array(elsewhere, np.uint64)])
        kept = [
            one if one.names is None else one.only(~(recent.known(one.names) | np.isin(one.names, twice)))
            for one in found
        ]
        for one in kept:
            if one.names is not None:
                recent.remember(one.names)
        return kept

    def _note_use(self, lines: list[int]) -> None:
        """Try the layouts most used first, and grant more attempts the more lines they spare."""
        order = sorted(range(len(lines)), key=lambda number: -lines[number])
        self._layouts = [self._layouts[number] for number in order]
        self._attempts_left = min(self._attempts_left + sum(lines) / _LINES_A_LAYOUT, _LAYOUTS)


def _names(line: bytes, paths: tuple[str, ...]) -> Iterator[str]:
    """Return the ids of a line's records, of whatever kind."""
    try:
        for record in each_record(msgspec.json.decode(line)):
            yield str(look_up(record, paths))
    except (msgspec.DecodeError, RecursionError, BrokenLineError):
        pass
