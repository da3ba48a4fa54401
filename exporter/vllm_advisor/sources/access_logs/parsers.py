"""From lines of text to records, for each way of writing them: JSON, CSV and plain text."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from vllm_advisor.config import AccessLogConfig
from vllm_advisor.sources.access_logs.formats import (
    CSV_FORMATS,
    FORMATS,
    JSON_FORMATS,
    TEXT_FORMATS,
    Format,
    pattern_format,
)
from vllm_advisor.sources.access_logs.records import Record, each_record, is_server_line
from vllm_advisor.sources.access_logs.request import Outcome, Place
from vllm_advisor.sources.access_logs.values import BrokenLineError

__all__ = ["Parser", "parser_for", "parser_named"]


class Parser(Protocol):
    """Reads one file's lines as records of one format."""

    format: Format

    @property
    def places(self) -> list[Place | None]:
        """Places of the lines that what comes next depends on."""

    def parse(self, text: str, place: Place | None) -> Iterable[Record | Outcome | None]:
        """Return a line's records; None stands for a line that tells of no request.

        Raises:
            BrokenLineError: the line cannot be read.
        """


class _JsonParser:
    def __init__(self, form: Format) -> None:
        self.format = form
        self.places: list[Place | None] = []

    def parse(self, text: str, place: Place | None) -> Iterable[Record | None]:  # noqa: ARG002
        if text[0] in "{[":
            return self.format.records(_decoded(text))
        return _foreign(text)


class _TextParser:
    def __init__(self, form: Format, record: Callable[[str], Record | Outcome | None]) -> None:
        self.format = form
        self.places: list[Place | None] = []
        self._record = record

    def parse(self, text: str, place: Place | None) -> Iterable[Record | Outcome | None]:  # noqa: ARG002
        return (self._record(text),)


class _CsvParser:
    """A header line, then rows; a quoted field may go on over several lines."""

    def __init__(self, form: Format, limit_characters: int) -> None:
        self.format = form
        self._limit_characters = limit_characters
        self._columns: list[str] | None = None
        self._header_at: Place | None = None
        self._open: list[tuple[str, Place | None]] = []

    @property
    def places(self) -> list[Place | None]:
        return [self._header_at, *(place for _, place in self._open)]

    def parse(self, text: str, place: Place | None) -> Iterable[Record | None]:
        self._open.append((text, place))
        whole = "\n".join(part for part, _ in self._open)
        if whole.count('"') % 2 and len(whole) <= self._limit_characters:
            return ()
        self._open.clear()
        row = _row(whole)
        if self._columns is None:
            self._columns, self._header_at = row, place
            return (None,)
        if len(row) != len(self._columns):
            raise BrokenLineError("not as many fields as columns")
        return (dict(zip(self._columns, row, strict=True)),)


def parser_named(log: AccessLogConfig, limit_characters: int) -> Parser | None:
    """Return the parser of the format that a configuration names, None for ``auto``."""
    if log.format == "auto":
        return None
    if log.format == "regex":
        return _parser(pattern_format("regex", re.compile(log.pattern or "")), log, limit_characters)
    return _parser(FORMATS[log.format], log, limit_characters)


def parser_for(text: str, log: AccessLogConfig, limit_characters: int) -> Parser | None:
    """Return the parser of the format that a line shows, None where it shows none."""
    if text[0] in "{[":
        record = next(iter(each_record(_decoded(text))), {})
        found = _first(JSON_FORMATS, record)
    else:
        found = _first(TEXT_FORMATS, text) or _first(CSV_FORMATS, _header(text))
    return None if found is None else _parser(found, log, limit_characters)


def _parser(form: Format, log: AccessLogConfig, limit_characters: int) -> Parser:
    form = replace(form, rules=replace(form.rules, fields=form.rules.fields.given(log.fields)))
    if form.name in {one.name for one in CSV_FORMATS}:
        return _CsvParser(form, limit_characters)
    return _JsonParser(form) if form.record is None else _TextParser(form, form.record)


def _first(formats: Iterable[Format], shown: Mapping[str, Any] | str) -> Format | None:
    return next((one for one in formats if one.recognises(shown)), None)


def _header(text: str) -> Mapping[str, str]:
    try:
        columns = _row(text)
    except BrokenLineError:
        return {}
    return dict(zip(columns, columns, strict=True))


def _row(text: str) -> list[str]:
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error:
        raise BrokenLineError("no row of comma-separated values") from None


def _decoded(text: str) -> object:
    try:
        document: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise BrokenLineError("no JSON") from None
    return document


def _foreign(text: str) -> Iterable[None]:
    """Tell another program's line from a garbled one."""
    if is_server_line(text):
        return (None,)
    raise BrokenLineError("no JSON")
