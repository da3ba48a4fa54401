r"""Frames that container runtimes and log stores put around each line, peeled off.

CRI      2026-11-30T09:15:00.120Z stdout F text        parts of a record are tagged P until one is F
Docker   {"log":"text\n","stream":"stdout",...}        a part has no \n at its end
Loki     {"streams":[...]} or {"labels":...,"line":"text",...}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from vllm_advisor.sources.access_logs.request import Place
from vllm_advisor.sources.access_logs.values import BrokenLineError

__all__ = ["Framer", "OpenRecord", "Part"]

_PART_CHARACTERS = 64

_CRI = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([PF])(?: |$)")


@dataclass(frozen=True, slots=True)
class Part:
    """What one framed line holds of a record.

    Args:
        stream: the stream whose parts belong together.
        text: without its newline.
        ends: whether the record ends here.
    """

    stream: str
    text: str
    ends: bool


@dataclass(slots=True)
class OpenRecord:
    """The parts of a record that has not ended, with the places of their lines."""

    texts: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    size: int = 0
    """Characters held, and a little more for each part."""

    def add(self, text: str, place: Place | None) -> None:
        """Take in the next part."""
        self.texts.append(text)
        self.size += len(text) + _PART_CHARACTERS
        if place is not None:
            self.places.append(place)


def _cri(text: str) -> list[Part] | None:
    match = _CRI.match(text)
    return [Part(match[1], text[match.end() :], match[2] == "F")] if match else None


def _docker(text: str) -> list[Part] | None:
    frame = _object(text, '{"log":')
    if frame is None or not isinstance(frame.get("log"), str) or "stream" not in frame:
        return None
    log = frame["log"]
    return [Part(str(frame["stream"]), log.removesuffix("\n"), log.endswith("\n"))]


def _loki(text: str) -> list[Part] | None:
    frame = _object(text, '{"labels":')
    if frame is not None and isinstance(frame.get("line"), str):
        return [Part("", frame["line"], ends=True)]
    frame = _object(text, '{"streams":')
    if frame is None:
        return None
    try:
        lines = [value[1] for stream in frame["streams"] for value in stream["values"]]
    except (KeyError, IndexError, TypeError):
        return None
    return [Part("", line, ends=True) for line in lines if isinstance(line, str)]


_FRAMES: dict[str, Callable[[str], list[Part] | None]] = {"cri": _cri, "docker": _docker, "loki": _loki}


def _object(text: str, start: str) -> dict[str, Any] | None:
    if not text.startswith(start):
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None


class Framer:
    """Peels one file's lines; which frame it has shows on the first framed line.

    Args:
        limit_characters: the most that a record's parts may come to.
    """

    UNFRAMED = "none"

    def __init__(self, limit_characters: int) -> None:
        self.frame: str | None = None
        """The frame's name, `UNFRAMED` once lines without one made sense, None until either shows."""
        self._limit_characters = limit_characters
        self._open: dict[str, OpenRecord] = {}

    @property
    def open_places(self) -> list[Place]:
        """Places of the lines whose records have not ended."""
        return [place for record in self._open.values() for place in record.places]

    @property
    def open_records(self) -> int:
        """Records whose last part has not come."""
        return len(self._open)

    def peel(self, line: str, place: Place | None) -> Sequence[str]:
        """Return the records that end with a line.

        Raises:
            BrokenLineError: the file has a frame, and not on this line; or a record's parts are too long.
        """
        if self.frame is None:
            self.frame = next((name for name, frame in _FRAMES.items() if frame(line) is not None), None)
        if self.frame is None or self.frame == self.UNFRAMED:
            return (line,)
        parts = _FRAMES[self.frame](line)
        if parts is None:
            raise BrokenLineError("without the file's frame")
        return [whole for part in parts if (whole := self._joined(part, place)) is not None]

    def _joined(self, part: Part, place: Place | None) -> str | None:
        if part.ends and part.stream not in self._open:
            return part.text
        record = self._open.setdefault(part.stream, OpenRecord())
        record.add(part.text, place)
        if part.ends:
            return "".join(self._open.pop(part.stream).texts)
        if record.size > self._limit_characters:
            del self._open[part.stream]
            raise BrokenLineError("a record's parts are too long")
        return None
