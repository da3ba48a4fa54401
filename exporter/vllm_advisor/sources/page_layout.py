"""What a metrics page is made of: which line holds which wanted number."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vllm_advisor.sources.engine_sample import EngineSample, Histogram
from vllm_advisor.sources.engine_series import HISTOGRAMS, NUMBERS, Bounds, EngineSeries, Floats, columns_of
from vllm_advisor.sources.families import FAMILIES, PREFIXES, Family, Kind

__all__ = ["WANTED_NAMES", "Layout", "Page", "Problem", "is_info", "layout_of", "layout_of_series"]

_SAMPLE = re.compile(
    rb"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)(?![a-zA-Z0-9_:])"
    rb"[ \t]*(\{(?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*\})?[ \t]*(?=[^ \t])"
)
_LABEL = re.compile(rb"[ \t,]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*\"((?:[^\"\\]|\\.)*)\"")
_NO_LABELS: Mapping[str, str] = {}
_LARGEST = 2.0**53
"""Of anything an engine counts or measures: beyond it a counter would no longer move by one."""
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Problem(StrEnum):
    """What was wrong with a page, worst first; it may still have been read in part."""

    NOT_METRICS = "not_metrics"
    NO_VLLM_FAMILIES = "no_vllm_families"
    ROUTER = "router"
    MALFORMED = "malformed"
    DUPLICATE_SERIES = "duplicate_series"


@dataclass(frozen=True, slots=True)
class Page:
    """Every engine of one page, and what was wrong with it."""

    engines: tuple[EngineSample, ...]
    problems: frozenset[Problem] = frozenset()


@dataclass(frozen=True, slots=True)
class _Series:
    """One wanted series: where its number stands, and what it is part of."""

    family: Family
    generation: int
    part: str
    labels: Mapping[str, str]
    slot: int


@dataclass(frozen=True, slots=True)
class _Field:
    """How one field of an `EngineSample` comes from the page's wanted numbers."""

    name: str
    slots: tuple[int, ...] = ()
    greatest: bool = False
    bounds: tuple[float, ...] = ()
    total_slot: int | None = None
    count_slot: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """Where the columns of an `EngineSeries` come from.

    Args:
        slots: the first or only wanted number of each.
        absent: those that the page lacks.
        joined: those that are made of several numbers.
    """

    slots: NDArray[np.intp]
    absent: NDArray[np.intp]
    joined: Mapping[int, _Field]


@dataclass(frozen=True, slots=True)
class _EnginePlan:
    constants: Mapping[str, Any]
    fields: tuple[_Field, ...]
    bounds: Bounds
    columns: _Columns


@dataclass(frozen=True, slots=True)
class Layout:
    """The lines of a page but for their numbers, and where the wanted numbers stand.

    Args:
        prefixes: for each line what comes before its number; the whole line where there is none.
        whole: the lines that have no number.
        wanted: line and offset of each wanted number.
        engines: how each engine's sample is put together from them.
        problems: what is wrong with any page of this layout.
    """

    prefixes: tuple[bytes, ...]
    whole: tuple[int, ...]
    wanted: tuple[tuple[int, int], ...]
    engines: tuple[_EnginePlan, ...]
    problems: frozenset[Problem] = field(default=frozenset())

    def fits(self, lines: list[bytes]) -> bool:
        """Tell whether a page has this layout, line for line."""
        return (
            len(lines) == len(self.prefixes)
            and all(map(bytes.startswith, lines, self.prefixes))
            and list(map(lines.__getitem__, self.whole)) == list(map(self.prefixes.__getitem__, self.whole))
        )

    def page(self, lines: list[bytes]) -> Page:
        """Read a page that has this layout."""
        problems = self.problems
        try:
            numbers = [float(lines[line][offset:]) for line, offset in self.wanted]
        except ValueError:
            numbers = [_number(lines[line][offset:]) for line, offset in self.wanted]
        if not 0 <= sum(numbers) <= _LARGEST:
            problems |= {Problem.MALFORMED}
        return Page(tuple(_sample(plan, numbers) for plan in self.engines), problems)

    def series(self, time_seconds: Floats, numbers: Floats) -> tuple[EngineSeries, ...]:
        """Return every engine on successive pages, from a row of each page's wanted numbers."""
        return tuple(_series(plan, time_seconds, numbers, len(self.engines)) for plan in self.engines)


def layout_of(lines: list[bytes]) -> Layout:
    """Work out the layout of a page, given as its lines."""
    prefixes: list[bytes] = []
    whole: list[int] = []
    wanted: list[tuple[int, int]] = []
    series: list[_Series] = []
    problems: set[Problem] = set()
    for index, line in enumerate(lines):
        match = None if line.startswith(b"#") else _SAMPLE.match(line)
        if match is None:
            prefixes.append(line)
            whole.append(index)
            continue
        prefixes.append(match[0])
        known = _WANTED.get(match[1])
        if known is None:
            continue
        labels = _labels(match[2] or b"")
        if labels is None:
            problems.add(Problem.MALFORMED)
            continue
        series.append(_Series(*known, labels=labels, slot=len(wanted)))
        wanted.append((index, match.end()))
    if not series:
        empty = Problem.NO_VLLM_FAMILIES if _has_samples(lines) else Problem.NOT_METRICS
        return Layout(tuple(prefixes), tuple(whole), (), (), frozenset({empty}))
    kept, more_problems = _without_repeats(series)
    return Layout(
        tuple(prefixes),
        tuple(whole),
        tuple(wanted),
        tuple(_engine_plans(kept)),
        frozenset(problems | more_problems),
    )


def layout_of_series(series: Iterable[tuple[str, Mapping[str, str]]]) -> Layout:
    """Work out the layout of series that come without a page, each of a wanted name with its labels."""
    wanted = [
        _Series(*_WANTED[name.encode()], labels=labels, slot=slot)
        for slot, (name, labels) in enumerate(series)
    ]
    kept, problems = _without_repeats(wanted)
    return Layout((), (), (), tuple(_engine_plans(kept)), frozenset(problems))


def is_info(name: str) -> bool:
    """Tell whether the labels of a wanted series are its content."""
    return _WANTED[name.encode()][0].kind is Kind.INFO


def _has_samples(lines: list[bytes]) -> bool:
    """Tell a page without the wanted families (or an empty one) from a text that is no metrics page."""
    matches = [(line, _SAMPLE.match(line)) for line in lines if line.strip() and not line.startswith(b"#")]
    return not matches or any(
        match is not None and not math.isnan(_number(line[match.end() :])) for line, match in matches
    )


def _wanted_names() -> dict[bytes, tuple[Family, int, str]]:
    """Map every series name on the wire to its family, how old that name is, and the part it is of it."""
    parts = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count"), Kind.TOTALS: ("_sum", "_count")}
    return {
        f"{prefix}{name}{part}".encode(): (family, generation, part)
        for family in FAMILIES
        for generation, name in enumerate(family.names)
        for prefix in PREFIXES
        for part in parts.get(family.kind, ("",))
    }


_WANTED = _wanted_names()

WANTED_NAMES = tuple(name.decode() for name in _WANTED)
"""Every series name on the wire that is read."""


def _labels(text: bytes) -> dict[str, str] | None:
    labels: dict[str, str] = {}
    position, end = 1, len(text) - 1
    while position < end:
        match = _LABEL.match(text, position, end)
        if match is None:
            return None if text[position:end].strip(b" \t,") else labels
        value = match[2].decode("utf-8", "replace")
        if "\\" in value:
            value = re.sub(r"\\[\\\"n]", lambda escape: _ESCAPES[escape[0]], value)
        labels[match[1].decode()] = value
        position = match.end()
    return labels


def _number(text: bytes) -> float:
    """Read the number before a timestamp or an exemplar; NaN where there is none."""
    try:
        return float(text.split(None, 1)[0])
    except (ValueError, IndexError):
        return math.nan


def _without_repeats(series: list[_Series]) -> tuple[list[_Series], set[Problem]]:
    """Drop routers' series and repeated ones (the first stands, as in Prometheus)."""
    problems: set[Problem] = set()
    kept: dict[tuple[object, ...], _Series] = {}
    for one in series:
        if "server" in one.labels:
            problems.add(Problem.ROUTER)
            continue
        key = (one.family.key, one.generation, one.part, frozenset(one.labels.items()))
        if key in kept:
            problems.add(Problem.DUPLICATE_SERIES)
        else:
            kept[key] = one
    return list(kept.values()), problems


def _engine_plans(series: list[_Series]) -> list[_EnginePlan]:
    by_engine: dict[tuple[str, str], list[_Series]] = defaultdict(list)
    for one in series:
        by_engine[one.labels.get("engine", "0"), one.labels.get("model_name", "")].append(one)
    _give_unnamed_to_their_engine(by_engine)
    return [
        _engine_plan(engine, model_name, members)
        for (engine, model_name), members in by_engine.items()
        if any(one.family.kind is not Kind.INFO for one in members)
    ]


def _give_unnamed_to_their_engine(by_engine: dict[tuple[str, str], list[_Series]]) -> None:
    """Series without ``model_name`` (cache_config_info has none) belong to the engine's one model."""
    for engine in [engine for engine, model_name in by_engine if not model_name]:
        named = [key for key in by_engine if key[0] == engine and key[1]]
        if named:
            unnamed = by_engine.pop((engine, ""))
            for key in named:
                by_engine[key] += unnamed


def _engine_plan(engine: str, model_name: str, series: list[_Series]) -> _EnginePlan:
    constants: dict[str, Any] = {"engine": engine, "model_name": model_name}
    fields: list[_Field] = []
    by_family: dict[Family, list[_Series]] = defaultdict(list)
    for one in series:
        by_family[one.family].append(one)
    for family, generations in by_family.items():
        newest = min(one.generation for one in generations)
        members = [one for one in generations if one.generation == newest]
        if family.kind is Kind.INFO:
            constants[family.key] = members[0].labels
        elif family.key == "sleep_state":
            awake = [one.slot for one in members if one.labels.get("sleep_state") == "awake"]
            fields.append(_Field("awake", tuple(awake), greatest=True))
        else:
            fields += _fields(family, members)
    bounds_of = {one.name: one.bounds for one in fields}
    bounds = tuple(bounds_of.get(name, ()) for name in HISTOGRAMS)
    return _EnginePlan(constants, tuple(fields), bounds, _columns(fields, bounds))


def _fields(family: Family, members: list[_Series]) -> list[_Field]:
    slots = {part: tuple(one.slot for one in members if one.part == part) for part in ("", "_sum", "_count")}
    match family.kind:
        case Kind.TOTALS:
            return [_Field(family.key + part, slots[part]) for part in ("_sum", "_count") if slots[part]]
        case Kind.HISTOGRAM:
            return _histogram_field(family, members, slots)
    return [_Field(family.key, slots[""], greatest=family.kind is Kind.GAUGE)]


def _histogram_field(
    family: Family, members: list[_Series], slots: Mapping[str, tuple[int, ...]]
) -> list[_Field]:
    buckets = sorted(
        ((_number(one.labels.get("le", "").encode()), one.slot) for one in members if one.part == "_bucket"),
        key=itemgetter(0),
    )
    bounds = tuple(bound for bound, _ in buckets)
    if not bounds or len(set(bounds)) < len(bounds) or not (slots["_sum"] and slots["_count"]):
        return []
    total, count = slots["_sum"][0], slots["_count"][0]
    return [_Field(family.key, tuple(slot for _, slot in buckets), False, bounds, total, count)]


def _sample(plan: _EnginePlan, numbers: list[float]) -> EngineSample:
    values = dict(plan.constants)
    for one in plan.fields:
        value: object
        if one.bounds:
            value = _histogram(one, numbers)
        elif len(one.slots) == 1:
            value = numbers[one.slots[0]]
        else:
            value = (max if one.greatest else sum)(numbers[slot] for slot in one.slots)
        if isinstance(value, float) and not 0 <= value <= _LARGEST:
            value = None
        values[one.name] = value
    if "awake" in values:
        values["awake"] = values["awake"] != 0
    return EngineSample(**values)


def _histogram(one: _Field, numbers: list[float]) -> Histogram | None:
    counts = tuple([numbers[slot] for slot in one.slots])
    total, count = numbers[one.total_slot or 0], numbers[one.count_slot or 0]
    if not (0 <= sum(counts) + total + count <= _LARGEST and min(*counts, total, count) >= 0):
        return None
    return Histogram(one.bounds, counts, total, count)


def _columns(fields: Iterable[_Field], bounds: Bounds) -> _Columns:
    by_name = {one.name: one for one in fields}
    columns = [by_name.get(name, _Field(name)) for name in NUMBERS]
    for name, uppers in zip(HISTOGRAMS, bounds, strict=True):
        if uppers:
            one = by_name[name]
            slots = (one.total_slot or 0, one.count_slot or 0, *one.slots)
            columns += [_Field(name, (slot,)) for slot in slots]
    return _Columns(
        slots=np.array([one.slots[0] if one.slots else 0 for one in columns]),
        absent=np.array([column for column, one in enumerate(columns) if not one.slots], np.intp),
        joined={column: one for column, one in enumerate(columns) if len(one.slots) > 1},
    )


def _series(plan: _EnginePlan, time_seconds: Floats, numbers: Floats, engines_on_page: int) -> EngineSeries:
    """Do what `_sample` does for many pages at once."""
    series = numbers[:, plan.columns.slots]
    series[:, plan.columns.absent] = np.nan
    for column, one in plan.columns.joined.items():
        joined = numbers[:, one.slots]
        series[:, column] = joined.max(axis=1) if one.greatest else joined.sum(axis=1)
    series[~((series >= 0) & (series <= _LARGEST))] = np.nan
    series[:, NUMBERS.index("awake")] = series[:, NUMBERS.index("awake")] != 0
    for histogram in columns_of(plan.bounds):
        series[np.isnan(series[:, histogram]).any(axis=1), histogram] = np.nan
    return EngineSeries(
        engine=plan.constants["engine"],
        model_name=plan.constants["model_name"],
        cache_config=plan.constants.get("cache_config", _NO_LABELS),
        bounds=plan.bounds,
        time_seconds=time_seconds,
        numbers=series,
        engines_on_page=engines_on_page,
    )
