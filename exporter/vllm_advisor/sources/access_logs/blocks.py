"""Many JSON lines at once, for lines that are like one already understood.

One record shows where each field is. A decoder is made from it that takes only records which mean the same: a
request answered, with both counts, and nothing at any place where the format would look first. Whatever it
does not take is read line by line, so that both ways of reading come to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from vllm_advisor.sources.access_logs.fields import FIELD_NAMES, Fields, look_up
from vllm_advisor.sources.access_logs.recent import Recent
from vllm_advisor.sources.access_logs.records import each_record
from vllm_advisor.sources.access_logs.request import ServedBlock
from vllm_advisor.sources.access_logs.values import LONGEST_TOKENS, BrokenLineError, epoch_seconds

__all__ = ["BlockDecoder"]

_COUNT = Annotated[int, msgspec.Meta(ge=1, le=LONGEST_TOKENS)]
_TYPES: dict[str, Any] = {
    "prompt_tokens": _COUNT,
    "completion_tokens": _COUNT,
    "total_tokens": Annotated[int, msgspec.Meta(ge=0, le=LONGEST_TOKENS)] | None,
    "max_tokens": Annotated[int, msgspec.Meta(ge=0, le=LONGEST_TOKENS)] | None,
    "finish_reason": str | None,
    "id": str,
}
"""What each field must be, where one type fits all; a type with None may be missing too."""
_READ = tuple(name for name in FIELD_NAMES if name != "model")
_OPTIONAL = {"total_tokens": -1, "max_tokens": -1, "finish_reason": None}
"""Fields that a record may do without, and what they then are."""
_KEPT = {"time", *_TYPES}
"""Fields of which more is read than that they are as expected."""
_PIECE_BYTES = 1 << 18
_Columns = dict[str, list[Any]]
_ANSWERED = Annotated[int, msgspec.Meta(ge=1, le=399)]
_NO_OBJECT = list[Any] | int | float | bool | None


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One value: its type, whether a record may do without it, and what it then is."""

    type: Any
    optional: bool
    default: int | None = None


_Tree = dict[str, "_Tree | _Leaf"]
_NOTHING = _Leaf(None, optional=True)


@dataclass(frozen=True, slots=True)
class BlockDecoder:
    """Decodes blocks of lines that are alike.

    Args:
        decoder: takes the lines that mean the same, and refuses others.
        columns: where the fields are in what it returns, by name.
        id_paths: where the id is in records of any kind.
    """

    decoder: msgspec.json.Decoder[Any]
    columns: Mapping[str, Callable[[Any], Any]]
    id_paths: tuple[str, ...]

    @classmethod
    def like(cls, record: Mapping[str, Any], fields: Fields) -> BlockDecoder | None:
        """Return a decoder for records like a served one; None where that is written in some special way."""
        tree: _Tree = {}
        places: dict[str, str] = {}
        for name in _READ:
            paths = getattr(fields, name)
            found = next((path for path in paths if _value(record, path) is not None), None)
            wanted = _type(name, None if found is None else _value(record, found))
            if wanted is None or any("*" in path or (path in record and "." in path) for path in paths):
                return None
            place = found or (paths[0] if paths and wanted.type else None)
            if place is not None:
                places[name] = place
            looked_at = paths if place is None or wanted.optional else paths[: paths.index(place) + 1]
            for path in looked_at:
                _plant(tree, path.split("."), wanted if path == place else _NOTHING)
        struct, attributes = _struct(tree, record)
        if not attributes.keys() >= set(places.values()):
            return None
        return cls(
            msgspec.json.Decoder(struct),
            {name: attrgetter(attributes[path]) for name, path in places.items() if name in _KEPT},
            fields.id,
        )

    def decode(
        self, block: bytes, recent: Recent, latest_seconds: float
    ) -> tuple[ServedBlock | None, list[bytes]]:
        """Return the served requests of some lines, and the lines to read one by one.

        Args:
            block: whole lines.
            recent: what was seen before.
            latest_seconds: the latest time that a request can have.
        """
        if b"\0" in block or not _is_utf8(block):
            return None, block.split(b"\n")
        others: list[bytes] = []
        columns: _Columns = {name: [] for name in self.columns}
        for piece in _pieces(block):
            rows = self._rows(piece, others)
            for name, value in self.columns.items():
                columns[name].extend(map(value, rows))
        served = _served(columns, latest_seconds) if columns["time"] else None
        if served is None or not self._is_new(columns.get("id", []), others, recent):
            return None, block.split(b"\n")
        return served, others

    def _is_new(self, names: list[str], others: list[bytes], recent: Recent) -> bool:
        """Tell whether every name is new, also to the lines that are read later and may stand before it."""
        if names and others:
            known = set(names)
            if any(name in known for line in others for name in _names(line, self.id_paths)):
                return False
        return not names or recent.all_new(names)

    def _rows(self, piece: memoryview, others: list[bytes]) -> list[Any]:
        """Decode some lines, and add to the others those that cannot be."""
        try:
            return self.decoder.decode_lines(piece)
        except (msgspec.DecodeError, RecursionError):
            pass
        rows, decode = [], self.decoder.decode
        for line in piece.tobytes().split(b"\n"):
            try:
                rows.append(decode(line))
            except (msgspec.DecodeError, RecursionError):
                others.append(line)
        return rows


def _names(line: bytes, paths: tuple[str, ...]) -> Iterator[str]:
    """Return the ids of a line's records, of whatever kind."""
    try:
        for record in each_record(msgspec.json.decode(line)):
            yield str(look_up(record, paths))
    except (msgspec.DecodeError, RecursionError, BrokenLineError):
        pass


def _pieces(block: bytes) -> Iterator[memoryview]:
    """Cut lines into pieces whose decoded rows fit a processor's cache."""
    view, at = memoryview(block), 0
    while at < len(block):
        end = block.rfind(b"\n", at, at + _PIECE_BYTES) + 1 or block.find(b"\n", at) + 1 or len(block)
        yield view[at:end]
        at = end


def _served(columns: _Columns, latest_seconds: float) -> ServedBlock | None:
    """Return the columns as arrays, None when some row does not add up or has no time that can be."""
    prompt, output = _counts(columns, "prompt_tokens"), _counts(columns, "completion_tokens")
    total = _counts(columns, "total_tokens")
    times = _times(columns["time"])
    if times is None or times.max() > latest_seconds or ((total > 0) & (total != prompt + output)).any():
        return None
    reasons = columns.get("finish_reason", [])
    cut = np.zeros(prompt.size, np.bool_)
    if "length" in reasons:
        cut = np.array([reason == "length" for reason in reasons])
    return ServedBlock(times, prompt, output, _counts(columns, "max_tokens"), cut)


def _counts(columns: _Columns, name: str) -> NDArray[np.int64]:
    """Return a column of counts, -1 where there is none."""
    column = columns.get(name)
    if column is None:
        return np.full(len(columns["time"]), -1)
    if _TYPES[name] is not _COUNT and None in column:
        column = [-1 if count is None else count for count in column]
    return np.array(column, np.int64)


def _type(name: str, value: object) -> _Leaf | None:
    """Return what a field must be to mean what it does in a record; None where no type says that."""
    if value is None:
        fits = name not in {"time", "prompt_tokens", "completion_tokens"}
        optional = _TYPES.get(name) if name in _OPTIONAL else None
        return _Leaf(optional, optional=True, default=_OPTIONAL.get(name)) if fits else None
    if name == "time" and isinstance(value, str | int | float):
        return _Leaf(str if isinstance(value, str) else float, optional=False)
    if name == "status" and isinstance(value, int) and not isinstance(value, bool):
        return _Leaf(_ANSWERED, optional=False)
    if name in _TYPES:
        numeric = name not in {"finish_reason", "id"}
        fits = isinstance(value, int if numeric else str)
        return _Leaf(_TYPES[name], optional=name in _OPTIONAL, default=_OPTIONAL.get(name)) if fits else None
    fits = isinstance(value, str) or value == 1
    return _Leaf(Literal[value], optional=False) if fits else None


def _value(record: Mapping[str, Any], path: str) -> object:
    value: object = record
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _plant(tree: _Tree, keys: list[str], leaf: _Leaf) -> None:
    """Ask for a value at a place; where another is asked for within it, this one is to be nothing."""
    inner = tree
    for key in keys[:-1]:
        below = inner.setdefault(key, {})
        if isinstance(below, _Leaf):
            return
        inner = below
    inner[keys[-1]] = leaf


def _struct(tree: _Tree, record: object) -> tuple[Any, dict[str, str]]:
    """Return a type for a tree of keys, in the order of a record's, and the attribute of each path."""
    held = record if isinstance(record, dict) else {}
    order = {key: number for number, key in enumerate(held)}
    columns: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    rename: dict[str, str] = {}
    attributes: dict[str, str] = {}
    for number, (key, node) in enumerate(
        sorted(tree.items(), key=lambda item: order.get(item[0], len(order)))
    ):
        name = f"f{number}"
        rename[name] = key
        if isinstance(node, _Leaf):
            attributes[key] = name
            columns.append((name, node.type, node.default) if node.optional else (name, node.type))
            continue
        inner, below = _struct(node, held.get(key))
        attributes |= {f"{key}.{path}": f"{name}.{attribute}" for path, attribute in below.items()}
        watched = all(leaf is _NOTHING for leaf in _leaves(node))
        columns.append((name, inner | _NO_OBJECT, None) if watched else (name, inner))
    return msgspec.defstruct("Row", columns, rename=rename, gc=False, kw_only=True), attributes


def _leaves(tree: _Tree) -> Iterator[_Leaf]:
    for node in tree.values():
        if isinstance(node, _Leaf):
            yield node
        else:
            yield from _leaves(node)


def _is_utf8(block: bytes) -> bool:
    try:
        return block.isascii() or bool(block.decode())
    except UnicodeDecodeError:
        return False


def _times(column: list[Any]) -> NDArray[np.float64] | None:
    """Return epoch seconds, None when one of them is no time."""
    if isinstance(column[0], str) and (times := _utc_times(column)) is not None:
        return times
    seconds = [epoch_seconds(time) for time in column]
    return None if None in seconds else np.array(seconds, np.float64)


def _utc_times(texts: list[str]) -> NDArray[np.float64] | None:
    """Read times such as 2026-11-30T09:15:00.120Z, all of one length; None when they are no such."""
    length = len(texts[0])
    packed = "".join(texts).encode()
    if not 20 <= length <= 31 or len(packed) != length * len(texts):
        return None
    letters = np.frombuffer(packed, np.uint8).reshape(-1, length)
    places = [17, 18, *range(20, length - 1)]
    digits = letters[:, places] ^ ord("0")
    right = (letters[:, -1] == ord("Z")).all() and (length == 20 or (letters[:, 19] == ord(".")).all())
    if not right or digits.max() > 9 or digits[:, 0].max() > 5:
        return None
    stems = np.frombuffer(packed, f"S{length}").astype("S17")
    starts = [0, *(np.flatnonzero(stems[1:] != stems[:-1]) + 1).tolist()]
    minutes = [epoch_seconds(f"{texts[start][:17]}00Z") for start in starts]
    if None in minutes:
        return None
    of_rows = np.repeat(np.array(minutes, np.float64), np.diff([*starts, len(texts)]))
    weights = np.array([10.0, 1.0, *(10.0**-place for place in range(1, len(places) - 1))])
    return np.asarray(of_rows + digits.astype(np.float64) @ weights, np.float64)
