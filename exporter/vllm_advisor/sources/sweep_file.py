"""A measured sweep, time per output token by concurrency, read from JSON or CSV."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vllm_advisor.errors import InputError
from vllm_advisor.sources.sweep_formats import rows_of_tool, translated_row

__all__ = ["Sweep", "SweepLevel", "read_sweep", "sweep_from_document", "sweep_from_text", "sweep_to_document"]

_TPOT = re.compile(r"tpot_(mean|p\d+(?:\.\d+)?)")
_RATE = "tokens_per_second_per_user"
_SPELLINGS = {"p999": "p99.9", "p9999": "p99.99"}


@dataclass(frozen=True, slots=True)
class SweepLevel:
    """What was measured at one concurrency.

    Args:
        concurrency: requests in flight at once.
        tpot_seconds: time per output token by statistic: ``mean``, ``p50``, ``p99``, ``p99.9``.
        ttft_p99_seconds: time to first token.
        output_tokens_per_second: over all requests together.
        requests: how many the statistics rest on.
    """

    concurrency: int
    tpot_seconds: Mapping[str, float]
    ttft_p99_seconds: float | None = None
    output_tokens_per_second: float | None = None
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """A whole sweep: levels by rising concurrency, and what was said of the engine."""

    levels: tuple[SweepLevel, ...]
    engine: Mapping[str, Any] = field(default_factory=dict)


def read_sweep(path: Path) -> Sweep:
    """Read a sweep file; the columns are the design page's, in JSON and CSV alike.

    A CSV may have ``concurrency`` and any of ``tpot_mean``, ``tpot_p50``, …, or the rate each user saw,
    ``tokens_per_second_per_user``, whose inverse is the mean. Result files of other load testers are read too
    (`sweep_formats`), several of them as JSON lines or as a JSON list.

    Raises:
        InputError: the file cannot be read, or a value in it is wrong; names the line or the key.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", path=path) from error
    return sweep_from_text(text, path)


def sweep_from_text(text: str, path: Path | None = None) -> Sweep:
    """Build a sweep from the content of a sweep file, JSON or CSV.

    Raises:
        InputError: a value in it is wrong; names the line or the key.
    """
    return _from_json(text, path) if text.lstrip().startswith(("{", "[")) else _from_csv(text, path)


def sweep_from_document(document: object, path: Path | None = None) -> Sweep:
    """Build a sweep from the JSON object of a sweep file.

    Raises:
        InputError: a key is missing or a value is wrong.
    """
    if not isinstance(document, dict) or not isinstance(document.get("levels"), list):
        raise InputError("expected an object with a list of levels", path=path, key="levels")
    engine = {} if document.get("engine") is None else document["engine"]
    if not isinstance(engine, dict):
        raise InputError("expected an object", path=path, key="engine")
    places = (_Place(path, prefix=f"levels[{index}].") for index in range(len(document["levels"])))
    return _sweep(zip(document["levels"], places, strict=True), engine, path)


def sweep_to_document(sweep: Sweep) -> dict[str, Any]:
    """Return the JSON object of a sweep file, in the design page's keys."""
    return {"engine": dict(sweep.engine), "levels": [_level_document(level) for level in sweep.levels]}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a level stands, for error messages."""

    path: Path | None
    line: int | None = None
    prefix: str = ""

    def error(self, problem: str, column: str = "") -> InputError:
        key = f"{self.prefix}{column}".rstrip(".")
        return InputError(problem, path=self.path, line=self.line, key=key or None)


def _from_json(text: str, path: Path | None) -> Sweep:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        document = _json_lines(text)
        if document is None:
            raise InputError(f"is not JSON: {error.msg}", path=path, line=error.lineno) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or as many brackets
        raise InputError("is not JSON of a sensible size", path=path) from error
    rows = rows_of_tool(document)
    return sweep_from_document(document if rows is None else {"levels": rows}, path)


def _json_lines(text: str) -> list[Any] | None:
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError:
        return None


def _from_csv(text: str, path: Path | None) -> Sweep:
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # some hold the times of all requests in one
    rows = csv.DictReader(text.splitlines(), skipinitialspace=True, restkey="", restval="")
    if not {"concurrency", "max_concurrency"} & set(rows.fieldnames or ()):
        problem = "expected a column named concurrency (of guidellm and AIPerf the JSON file is read)"
        raise InputError(problem, path=path, line=1, key="concurrency")
    return _sweep(((translated_row(row), _Place(path, rows.line_num)) for row in rows), {}, path)


def _sweep(rows: Iterable[tuple[object, _Place]], engine: Mapping[str, Any], path: Path | None) -> Sweep:
    levels = sorted((_level(row, place) for row, place in rows), key=lambda level: level.concurrency)
    if not levels:
        raise InputError("holds no level", path=path)
    return Sweep(tuple(levels), engine)


def _level(row: object, place: _Place) -> SweepLevel:
    if not isinstance(row, dict):
        raise place.error("expected an object")
    concurrency = _number(row, "concurrency", place)
    if concurrency is None or concurrency != int(concurrency):
        raise place.error(f"expected a whole number, not {row.get('concurrency')!r}", "concurrency")
    requests = _number(row, "requests", place, zero=True)
    return SweepLevel(
        concurrency=int(concurrency),
        tpot_seconds=_tpot(row, place),
        ttft_p99_seconds=_number(row, "ttft_p99", place),
        output_tokens_per_second=_number(row, "output_tokens_per_second", place, zero=True),
        requests=None if requests is None else int(requests),
    )


def _tpot(row: dict[str, Any], place: _Place) -> dict[str, float]:
    found = {}
    rate = _number(row, _RATE, place)
    if rate is not None:
        found["mean"] = 1.0 / rate
    for column in row:
        match = _TPOT.fullmatch(column)
        value = _number(row, column, place) if match else None
        if match and value is not None:
            found[_SPELLINGS.get(match[1], match[1])] = value
    if not found:
        raise place.error(f"expected tpot_mean, a quantile such as tpot_p99, or {_RATE}", "tpot_mean")
    return found


def _number(row: dict[str, Any], column: str, place: _Place, *, zero: bool = False) -> float | None:
    value = row.get(column)
    if value is None or value == "":
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise place.error(f"expected a number over zero, not {value!r}", column)
    return number


def _level_document(level: SweepLevel) -> dict[str, Any]:
    document: dict[str, Any] = {"concurrency": level.concurrency}
    document |= {f"tpot_{statistic}": seconds for statistic, seconds in level.tpot_seconds.items()}
    rest = {
        "ttft_p99": level.ttft_p99_seconds,
        "output_tokens_per_second": level.output_tokens_per_second,
        "requests": level.requests,
    }
    return document | {column: value for column, value in rest.items() if value is not None}
