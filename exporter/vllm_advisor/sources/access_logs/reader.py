"""One access-log file's lines: bytes in, requests out, every line counted by what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from vllm_advisor.config import AccessLogConfig
from vllm_advisor.sources.access_logs.alike import AlikeLines
from vllm_advisor.sources.access_logs.fields import look_up
from vllm_advisor.sources.access_logs.frames import Framer
from vllm_advisor.sources.access_logs.line_block import LINE_LIMIT_BYTES
from vllm_advisor.sources.access_logs.meaning import understand
from vllm_advisor.sources.access_logs.parsers import Parser, parser_for, parser_named
from vllm_advisor.sources.access_logs.recent import REMEMBERED, Recent
from vllm_advisor.sources.access_logs.records import Record, is_server_line
from vllm_advisor.sources.access_logs.request import Logged, LoggedRequest, Outcome, Place
from vllm_advisor.sources.access_logs.values import MISSING, BrokenLineError

__all__ = ["FUTURE_SECONDS", "LineReader", "Standing"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
FUTURE_SECONDS = 300.0
"""A time further ahead than this is no clock's that is kept."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a reader knows of its file; no text of it.

    Args:
        frame: name of the frame around the lines.
        format: name of the format.
        header: place of the line that names the columns.
        opened: places of the lines whose records have not ended.
    """

    frame: str | None = None
    format: str | None = None
    header: Place | None = None
    opened: tuple[Place, ...] = ()


class LineReader:
    """Reads the lines of one file in their order.

    Args:
        log: the format and which lines count.
        recent: the records seen before, where several files share it.
        counts: lines by outcome, where several files share them.
    """

    def __init__(
        self, log: AccessLogConfig, recent: Recent | None = None, counts: Counter[Outcome] | None = None
    ) -> None:
        self.counts: Counter[Outcome] = Counter() if counts is None else counts
        self.lines = 0
        self.log = log
        self._recent = Recent(REMEMBERED) if recent is None else recent
        self._framer = Framer(LINE_LIMIT_BYTES)
        self._parser = parser_named(log.format, log, LINE_LIMIT_BYTES)
        self._alike: AlikeLines | None = None
        self._is_understood = False

    @property
    def format_name(self) -> str | None:
        """The format, None as long as no line has shown it."""
        return None if self._parser is None else self._parser.format.name

    @property
    def reads_lines_apart(self) -> bool:
        """Whether it has come to know that no line depends on an earlier one, but for repetitions."""
        return (
            self._parser is not None and self._parser.is_plain_json and self._framer.frame == Framer.UNFRAMED
        )

    @property
    def standing(self) -> Standing:
        """What reading on depends on."""
        parser = self._parser
        opened = self._framer.open_places + (parser.opened.places if parser else [])
        return Standing(
            self._framer.frame, self.format_name, parser.header_place if parser else None, tuple(opened)
        )

    def resume(self, standing: Standing, fetch: Callable[[Place], bytes]) -> None:
        """Take up where another reader of the same file stood, with the lines that it had not done with.

        Args:
            standing: the other's.
            fetch: returns the line at a place.
        """
        self._framer.frame = standing.frame
        if standing.format is not None:
            self._parser = parser_named(standing.format, self.log, LINE_LIMIT_BYTES)
        header = () if standing.header is None else (standing.header,)
        for place in (*header, *standing.opened):
            with suppress(BrokenLineError):
                for text in self._framer.peel(_text(_stripped(fetch(place))), place):
                    if self._parser is not None and text:
                        self._parser.parse(text, place)

    def read(self, line: bytes, now_seconds: float, place: Place | None = None) -> list[LoggedRequest]:
        """Read one line; what has no time of its own is of now.

        Args:
            line: with or without its newline.
            now_seconds: epoch seconds.
            place: where the line is, for `standing`.
        """
        line = _stripped(line)
        if not line:
            return []
        if len(line) > LINE_LIMIT_BYTES:
            self.skip_too_long()
            return []
        self.lines += 1
        try:
            texts = self._framer.peel(_text(line), place)
        except BrokenLineError:
            self.counts[Outcome.BROKEN] += 1
            return []
        return [request for text in texts if text for request in self._requests(text, now_seconds, place)]

    def read_block(self, block: bytes, offset: int, now_seconds: float) -> list[Logged]:
        """Read whole lines, many at once where they are alike.

        Args:
            block: lines with their newlines; the last one may lack it.
            offset: where they are in their file.
            now_seconds: epoch seconds.
        """
        found: list[Logged] = []
        left = block
        while left:
            if self._alike is not None:
                served, left = self._alike.read(left, self._recent, now_seconds, now_seconds + FUTURE_SECONDS)
                found += served
                requests = sum(one.requests for one in served)
                self.lines += requests
                self.counts[Outcome.SERVED] += requests
            left = self._read_until_learnt(left, offset + len(block) - len(left), now_seconds, found)
        return found

    def finish(self) -> None:
        """Count what the end of the file leaves without its end."""
        opened = self._framer.open_records + bool(self._parser and self._parser.opened.texts)
        self.counts[Outcome.BROKEN] += opened

    def skip_too_long(self) -> None:
        """Count a line over the limit, which whoever cuts the lines leaves out."""
        self.lines += 1
        self.counts[Outcome.TOO_LONG] += 1

    def _read_until_learnt(self, block: bytes, offset: int, now_seconds: float, found: list[Logged]) -> bytes:
        """Read lines one by one; return those left once it is clear how to read more of them at once."""
        lines = block.split(b"\n")
        at = 0
        for number, line in enumerate(lines):
            end = min(at + len(line) + 1, len(block))
            self._is_understood = False
            found += self.read(line, now_seconds, (offset + at, end - at))
            at = end
            if self._is_understood and self._learns(lines, number):
                break
        return block[at:]

    def _learns(self, lines: list[bytes], number: int) -> bool:
        if self._parser is None or not self._parser.is_plain_json:
            return False
        if self._alike is None:
            self._alike = AlikeLines(self._parser.format.rules.fields, self.log)
        return self._alike.learn(lines, number)

    def _requests(self, text: str, now_seconds: float, place: Place | None) -> list[LoggedRequest]:
        found = []
        try:
            parser = self._parser or self._detect(text)
            records = (None,) if parser is None else parser.parse(text, place)
            for record in records:
                outcome = self._outcome(record, parser, now_seconds)
                if isinstance(outcome, LoggedRequest):
                    found.append(outcome)
                    outcome = outcome.outcome
                    if outcome is Outcome.SERVED and self._framer.frame in {None, Framer.UNFRAMED}:
                        self._framer.frame, self._is_understood = Framer.UNFRAMED, True
                self.counts[outcome] += 1
        except BrokenLineError:
            self.counts[Outcome.BROKEN] += 1
        return found

    def _detect(self, text: str) -> Parser | None:
        """Return the parser for the format that a line shows; None for a line that shows none, and may."""
        self._parser = parser_for(text, self.log, LINE_LIMIT_BYTES)
        if self._parser is None and text[0] not in "{[" and not is_server_line(text):
            raise BrokenLineError("of no known format")
        return self._parser

    def _outcome(
        self, record: Record | Outcome | None, parser: Parser | None, now_seconds: float
    ) -> LoggedRequest | Outcome:
        if isinstance(record, Outcome):
            return record
        if record is None or parser is None:
            return Outcome.OTHER
        rules = parser.format.rules
        request = understand(record, rules)
        if request is None:
            return Outcome.OTHER
        if not self._is_ours(record, request.model):
            return Outcome.OTHER_DEPLOYMENT
        if request.time_seconds is not None and request.time_seconds > now_seconds + FUTURE_SECONDS:
            return Outcome.IN_FUTURE
        if request.outcome is Outcome.SERVED and self._is_repeated(look_up(record, rules.fields.id)):
            return Outcome.DUPLICATE
        return request if request.time_seconds is not None else replace(request, time_seconds=now_seconds)

    def _is_ours(self, record: Mapping[str, Any], model: str | None) -> bool:
        models = self.log.models
        if models and model is not None and model not in models and model.rpartition("/")[2] not in models:
            return False
        return all(str(look_up(record, (path,))) == wanted for path, wanted in self.log.match.items())

    def _is_repeated(self, names: object) -> bool:
        if names is MISSING or not names:
            return False
        return self._recent.seen(names if isinstance(names, tuple) else (str(names),))


def _stripped(line: bytes) -> bytes:
    return line.removeprefix(_BYTE_ORDER_MARK).strip()


def _text(line: bytes) -> str:
    if b"\0" in line:
        raise BrokenLineError("NUL bytes")
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise BrokenLineError("not UTF-8") from None
