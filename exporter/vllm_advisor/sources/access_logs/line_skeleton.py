"""What all lines of one writer have in common: their keys, and which of their values mean something.

It is worked out from one line that was understood when it was read on its own. A line with the same keys in
the same order, the same text wherever meaning hangs on it, and valid values elsewhere means the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from vllm_advisor.config import AccessLogConfig
from vllm_advisor.sources.access_logs.fields import FIELD_NAMES, Fields, look_up
from vllm_advisor.sources.access_logs.values import MISSING

__all__ = ["Kind", "Skeleton", "Slot", "skeleton_of"]


class Kind(Enum):
    """What may stand in a slot, as a pattern."""

    STRING = rb'([^"\\]*(?:\\.[^"\\]*)*)'
    """A string's content."""
    MINUTE = rb'([^"\\]{0,32}\d\d:\d\d:)'
    """A time's text up to its seconds."""
    DIGITS = rb"(0|[1-9]\d*)"
    PADDED = rb"(\d+)"
    """Digits, perhaps with zeros before them."""
    NUMBER = rb"((?:0|[1-9]\d*)(?:\.\d+)?)"
    FLAG = rb"(true|false)"


@dataclass(frozen=True, slots=True)
class Slot:
    """A value that differs from line to line.

    Args:
        kind: what may stand there.
        name: what it is, where it is wanted.
        opened: whether it would be read as JSON if it began like an object.
    """

    kind: Kind
    name: str | None = None
    opened: bool = False


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A line as texts with a slot between each two.

    Args:
        texts: the texts.
        slots: the slots.
    """

    texts: tuple[bytes, ...]
    slots: tuple[Slot, ...]

    def pattern(self) -> re.Pattern[bytes]:
        """Return a pattern for such lines, whose groups are the slots."""
        slots = [slot.kind.value for slot in self.slots]
        texts = map(re.escape, self.texts)
        return re.compile(
            next(texts) + b"".join(slot + text for slot, text in zip(slots, texts, strict=True))
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Value:
    """A value of a line: where it is, quotes left out, and the key on the outermost level it belongs to."""

    start: int
    end: int
    text: bytes
    outer_key: str
    is_string: bool

    def __str__(self) -> str:
        return self.text.decode()


_TOKEN = re.compile(rb'[ \t\r]*(?:"((?:[^"\\]|\\.)*)"|(-?\d[\d.eE+-]*|true|false)|(null)|([\[\]{}:,]))')
_PLAIN_NUMBER = re.compile(rb"(?:0|[1-9]\d*)(?:\.\d+)?")
_CLOCK = re.compile(rb'([^"\\]{0,32}\d\d:\d\d:)(\d\d)(?:(\.)(\d+))?(\D.*)?')
_EPOCH = re.compile(rb"(\d+)(?:(\.)(\d+))?")
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens", "max_tokens")
_FEW = ("n", "status", "error", "cached", "path", "method")
"""Fields whose values are few; a line with another one is read on its own."""
_MAY_BE_WHOLE = frozenset({"error", "path", "finish_reason"})
"""Fields that an object or a list in their place says as much of as any other."""
_ONE_ANSWER = (b"", b"-", b"0", b"1")
_Piece = bytes | Slot


def skeleton_of(line: bytes, fields: Fields, log: AccessLogConfig) -> Skeleton | None:
    """Return the skeleton of a line of a served request; None where it is written in some special way.

    Args:
        line: the line, whose JSON is valid.
        fields: where the format keeps what is read.
        log: which lines count.
    """
    values: list[_Value] = []
    tree = _tree(line, values)
    if not isinstance(tree, dict):
        return None
    opened = _opened_keys(fields, log)
    if any(value.outer_key in opened and value.text.startswith(b"{") for value in values):
        return None
    pieces = _wanted(tree, fields, log, opened)
    if pieces is None:
        return None
    for value in values:
        if value not in pieces:
            pieces[value] = [_unwanted(value, opened)]
    return _put_together(line, pieces)


def _tree(line: bytes, values: list[_Value]) -> object:
    """Return a line's object with a `_Value` for each value but null; something else where keys repeat."""
    tokens = _TOKEN.finditer(line)
    try:
        return _read(next(tokens), tokens, values, "")
    except (StopIteration, KeyError, UnicodeDecodeError, RecursionError):
        return None


def _read(
    token: re.Match[bytes], tokens: Iterator[re.Match[bytes]], values: list[_Value], outer: str
) -> object:
    match token[4]:
        case b"{":
            return _read_object(tokens, values, outer)
        case b"[":
            return [_read(one, tokens, values, outer) for one in _until(b"]", tokens)]
    if token[3]:
        return None
    group = 1 if token[1] is not None else 2
    value = _Value(token.start(group), token.end(group), token[group], outer, is_string=group == 1)
    values.append(value)
    return value


def _read_object(tokens: Iterator[re.Match[bytes]], values: list[_Value], outer: str) -> dict[str, object]:
    record: dict[str, object] = {}
    for token in _until(b"}", tokens):
        key = token[1].decode()
        if key in record or "\\" in key:
            raise KeyError(key)
        next(tokens)
        record[key] = _read(next(tokens), tokens, values, outer or key)
    return record


def _until(end: bytes, tokens: Iterator[re.Match[bytes]]) -> Iterator[re.Match[bytes]]:
    for token in tokens:
        if token[4] == end:
            return
        if token[4] != b",":
            yield token


def _opened_keys(fields: Fields, log: AccessLogConfig) -> frozenset[str]:
    """Return the outermost keys of paths that go on inside, be it through JSON kept as text."""
    paths = [path for name in FIELD_NAMES for path in getattr(fields, name)]
    return frozenset(path.partition(".")[0] for path in (*paths, *log.match) if "." in path)


def _wanted(
    tree: dict[str, object], fields: Fields, log: AccessLogConfig, opened: frozenset[str]
) -> dict[_Value, list[_Piece]] | None:
    """Return the wanted values taken to pieces, None where one is written in some special way."""
    few = {name: getattr(fields, name) for name in _FEW} | {f"match {path}": (path,) for path in log.match}
    if log.models:
        few["model"] = fields.model
    many = {name: getattr(fields, name) for name in ("time", "id", "finish_reason", *_COUNTS)}
    pieces: dict[_Value, list[_Piece]] = {}
    for name, paths in (many | few).items():
        value = look_up(tree, paths)
        if value is MISSING or value is None or (name in _MAY_BE_WHOLE and isinstance(value, dict | list)):
            continue
        if not isinstance(value, _Value):
            return None
        taken: list[_Piece] | None = [value.text] if name in few else _taken_apart(name, value, opened)
        if taken is None or (name == "n" and value.text not in _ONE_ANSWER):
            return None
        if pieces.setdefault(value, taken) != taken:
            return None
    return pieces


def _taken_apart(name: str, value: _Value, opened: frozenset[str]) -> list[_Piece] | None:
    if name == "time":
        return _time_pieces(value)
    if name in _COUNTS:
        kind = Kind.PADDED if value.is_string else Kind.DIGITS
        return [Slot(kind, name)] if value.text.isdigit() else None
    if value.is_string:
        return [Slot(Kind.STRING, name, value.outer_key in opened)]
    return [value.text] if name == "finish_reason" else None


def _time_pieces(value: _Value) -> list[_Piece] | None:
    if epoch := _EPOCH.fullmatch(value.text):
        whole = Slot(Kind.PADDED if value.is_string else Kind.DIGITS, "seconds")
        return [whole, *_fraction_pieces(epoch)]
    clock = _CLOCK.fullmatch(value.text) if value.is_string else None
    if clock is None:
        return None
    tail = [clock[5]] if clock[5] else []
    return [Slot(Kind.MINUTE, "minute"), Slot(Kind.PADDED, "seconds"), *_fraction_pieces(clock, 3), *tail]


def _fraction_pieces(time: re.Match[bytes], group: int = 2) -> list[_Piece]:
    return [time[group], Slot(Kind.PADDED, "fraction")] if time[group] else []


def _unwanted(value: _Value, opened: frozenset[str]) -> _Piece:
    if value.is_string:
        return Slot(Kind.STRING, opened=value.outer_key in opened)
    if value.text in (b"true", b"false"):
        return Slot(Kind.FLAG)
    return Slot(Kind.NUMBER) if _PLAIN_NUMBER.fullmatch(value.text) else value.text


def _put_together(line: bytes, pieces: dict[_Value, list[_Piece]]) -> Skeleton:
    texts, slots, at = [b""], list[Slot](), 0
    for value in sorted(pieces, key=lambda value: value.start):
        for piece in (line[at : value.start], *pieces[value]):
            if isinstance(piece, Slot):
                slots.append(piece)
                texts.append(b"")
            else:
                texts[-1] += piece
        at = value.end
    texts[-1] += line[at:]
    return Skeleton(tuple(texts), tuple(slots))
