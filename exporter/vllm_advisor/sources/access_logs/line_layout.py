"""How one writer lays out its lines: their skeleton, and what its slots turned out to hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate

import numpy as np

from vllm_advisor.config import AccessLogConfig
from vllm_advisor.sources.access_logs.fields import Fields
from vllm_advisor.sources.access_logs.line_block import LONGEST_WINDOW_BYTES, LineBlock, Places
from vllm_advisor.sources.access_logs.line_skeleton import Kind, Skeleton, Slot, skeleton_of
from vllm_advisor.sources.access_logs.line_steps import Digits, Flag, Number, Step, Stretch, Text, Walk

__all__ = ["Layout"]

_FEWEST_SEEN = 4
"""What so many lines have in common is taken for what all others have."""
_LONGEST_FIXED_BYTES = 64
_WORD_BYTES = 8
_COMPARED_BYTES = 2048
"""About what is compared with a pattern at once, since each such comparison has its cost."""
_TEXTS = (Kind.STRING, Kind.MINUTE)
_USUAL_BYTES = (16, 32, 64, 128)
_LONGEST_STRETCH_BYTES = LONGEST_WINDOW_BYTES - 3 * _LONGEST_FIXED_BYTES
_MOST_WORDS_READ, _MOST_WORDS_PASSED = 2, 4


@dataclass(frozen=True, slots=True)
class _Varying:
    """Bytes of one length that vary from line to line, be they a string's content or digits."""

    name: str | None
    length: int
    kind: Kind

    def __len__(self) -> int:
        return self.length


_Fixed = bytes | _Varying


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a slot held in some lines.

    Args:
        text: the text where it was always the same, unless it is long.
        length: its bytes where they were always as many.
        longest: the most bytes.
        most_digits: the most digits in a row.
        escaped: whether there were backslashes.
    """

    text: bytes | None
    length: int | None
    longest: int
    most_digits: int
    escaped: bool

    @classmethod
    def of(cls, text: bytes) -> _Shape:
        """Return the shape of one line's."""
        length, digits = len(text), max(map(len, text.split(b".")))
        return cls(text if length <= _LONGEST_FIXED_BYTES else None, length, length, digits, b"\\" in text)

    def joined(self, other: _Shape) -> _Shape:
        """Return the shape of both."""
        return _Shape(
            self.text if self.text == other.text else None,
            self.length if self.length == other.length else None,
            max(self.longest, other.longest),
            max(self.most_digits, other.most_digits),
            self.escaped or other.escaped,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Goes along lines of one skeleton.

    Args:
        skeleton: the skeleton.
        shapes: of each slot.
        steps: what comes after what.
    """

    skeleton: Skeleton
    shapes: tuple[_Shape, ...]
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, skeleton: Skeleton, shapes: tuple[_Shape, ...]) -> Layout:
        """Lay out lines whose slots hold what they were seen to."""
        return cls(skeleton, shapes, tuple(_steps(skeleton, shapes)))

    @classmethod
    def learnt(
        cls, line: bytes, others: Iterable[bytes], fields: Fields, log: AccessLogConfig
    ) -> Layout | None:
        """Work out the layout of a line that was understood, from it and from those among others like it.

        None where these are too few, or the line is written in some special way.
        """
        skeleton = skeleton_of(line, fields, log)
        if skeleton is None:
            return None
        matches = filter(None, map(skeleton.pattern().fullmatch, (line, *others)))
        seen = [tuple(map(_Shape.of, match.groups())) for match in matches]
        return cls.of(skeleton, reduce(_joined, seen)) if len(seen) >= _FEWEST_SEEN else None

    def joined(self, other: Layout) -> Layout:
        """Return a layout for the lines of both, which have the same skeleton."""
        return self.of(self.skeleton, _joined(self.shapes, other.shapes))

    def constant(self, name: str) -> bytes | None:
        """Return what a wanted slot always holds, where it is a text compared as a whole."""
        for slot, shape in zip(self.skeleton.slots, self.shapes, strict=True):
            if slot.name == name and _is_constant(slot, shape):
                return shape.text
        return None

    @property
    def after_time(self) -> bytes:
        """The rest of a time's text after its numbers."""
        names = [slot.name for slot in self.skeleton.slots]
        last = names.index("fraction") if "fraction" in names else names.index("seconds")
        return self.skeleton.texts[last + 1].partition(b'"')[0]

    def walk(self, block: LineBlock, rows: Places) -> Walk:
        """Return those of some lines that have this layout to their end."""
        lines = Walk.of(block, rows)
        for step in self.steps:
            step.walk(lines)
        lines.keep((lines.at == block.ends[lines.rows]) & (lines.escapes == 0))
        return lines


def _joined(some: tuple[_Shape, ...], others: tuple[_Shape, ...]) -> tuple[_Shape, ...]:
    return tuple(one.joined(other) for one, other in zip(some, others, strict=True))


def _steps(skeleton: Skeleton, shapes: tuple[_Shape, ...]) -> Iterator[Step]:
    """Yield the steps, with what is of one length in stretches as long as can be."""
    fixed: list[_Fixed] = []
    for part in _parts(skeleton, shapes):
        is_fixed = isinstance(part, bytes | _Varying)
        if fixed and (_is_full(fixed) or not is_fixed):
            yield _stretch(fixed)
            fixed = []
        if isinstance(part, bytes | _Varying):
            fixed.append(part)
        else:
            yield part
    if fixed:
        yield _stretch(fixed)


def _is_full(fixed: list[_Fixed]) -> bool:
    """Tell whether a stretch can end: never with what varies, which may be beyond the line's end."""
    return isinstance(fixed[-1], bytes) and sum(map(len, fixed)) >= _LONGEST_STRETCH_BYTES


def _parts(skeleton: Skeleton, shapes: tuple[_Shape, ...]) -> Iterator[_Fixed | Step]:
    yield from _cut(skeleton.texts[0])
    for slot, shape, text in zip(skeleton.slots, shapes, skeleton.texts[1:], strict=True):
        if _is_constant(slot, shape):
            yield from _cut(shape.text or b"")
        elif _is_fixed(slot, shape):
            yield _Varying(slot.name, shape.longest, slot.kind)
        else:
            yield _step(slot, shape)
        yield from _cut(text)


def _cut(text: bytes) -> Iterator[bytes]:
    for at in range(0, len(text), _LONGEST_FIXED_BYTES):
        yield text[at : at + _LONGEST_FIXED_BYTES]


def _stretch(parts: list[_Fixed]) -> Stretch:
    offsets = list(accumulate(map(len, parts), initial=0))
    padding = bytes(-offsets[-1] % _WORD_BYTES)
    texts = [part if isinstance(part, bytes) else bytes(part.length) for part in parts]
    masks = [bytes([255 * isinstance(part, bytes)]) * len(part) for part in parts]
    varying = [
        (part, slice(offset, offset + part.length))
        for part, offset in zip(parts, offsets, strict=False)
        if isinstance(part, _Varying)
    ]
    width = offsets[-1] + len(padding)
    lines = _COMPARED_BYTES // width + 1
    named = [(part.name, part.kind, place) for part, place in varying if part.name is not None]
    return Stretch(
        pattern=np.frombuffer(b"".join([*texts, padding]) * lines, "<u8"),
        mask=np.frombuffer(b"".join([*masks, padding]) * lines, "<u8"),
        width=width,
        strings=tuple(place for part, place in varying if part.kind is Kind.STRING),
        texts={name: place for name, kind, place in named if kind in _TEXTS},
        numbers={name: (place, kind is Kind.PADDED) for name, kind, place in named if kind not in _TEXTS},
        length=offsets[-1],
    )


def _is_constant(slot: Slot, shape: _Shape) -> bool:
    is_wanted_as_it_is = slot.name is not None and slot.name != "finish_reason"
    is_same = shape.text is not None and not shape.escaped
    return is_same and not is_wanted_as_it_is


def _is_fixed(slot: Slot, shape: _Shape) -> bool:
    if slot.kind in (Kind.DIGITS, Kind.PADDED):
        return shape.length is not None and slot.name in ("seconds", "fraction")
    if slot.kind is Kind.MINUTE:
        return True
    if slot.kind is not Kind.STRING or slot.opened or slot.name == "finish_reason" or shape.escaped:
        return False
    return shape.length is not None and 0 < shape.longest <= _LONGEST_FIXED_BYTES


def _step(slot: Slot, shape: _Shape) -> Step:
    words = shape.most_digits // _WORD_BYTES + 1
    match slot.kind:
        case Kind.DIGITS | Kind.PADDED if slot.name is not None:
            return Digits(slot.name, min(words, _MOST_WORDS_READ), padded=slot.kind is Kind.PADDED)
        case Kind.NUMBER:
            return Number(min(words, _MOST_WORDS_PASSED))
        case Kind.FLAG:
            return Flag()
    usual = next((bytes_ for bytes_ in _USUAL_BYTES if bytes_ > shape.longest), _USUAL_BYTES[-1])
    return Text(slot.name, usual, slot.opened)
