"""From lines of text to records, for each way of writing them: JSON, CSV and plain text."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

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
from vllm_advisor.sources.access_logs.frames import OpenRecord
from vllm_advisor.sources.access_logs.records import Record, each_record, is_server_line
from vllm_advisor.sources.access_logs.request import Outcome, Place
from vllm_advisor.sources.access_logs.values import BrokenLineError

__all__ = ["CsvParser", "Parser", "parser_for", "parser_named"]


class Parser:
    """Reads one file's lines as records of one format.

    Args:
        form: the format.
    """

    header_place: Place | None = None
    """Where the line is that names the columns."""

    def __init__(self, form: Format) -> None:
        self.format = form

    @property
    def is_plain_json(self) -> bool:
        """Whether each line is one JSON object, of which only fields are looked up."""
        rules = self.format.rules
        special = rules.generation, rules.time_unit_seconds
        return self.format.record is None and self.format.records is each_record and special == (None, None)

    @property
    def opened(self) -> OpenRecord:
        """The record that has not ended."""
        return OpenRecord()

    def parse(self, text: str, place: Place | None) -> Iterable[Record | Outcome | None]:  # noqa: ARG002
        """Return a line's records; None stands for a line that tells of no request.

        Raises:
            BrokenLineError: the line cannot be read.
        """
        if self.format.record is not None:
            return (self.format.record(text),)
        if text[0] in "{[":
            return self.format.records(_decoded(text))
        return _foreign(text)


class CsvParser(Parser):
    """Reads a header line, then rows; a quoted field may go on over several lines.

    Args:
        form: the format.
        limit_characters: the most that a row may come to.
    """

    is_plain_json = False

    def __init__(self, form: Format, limit_characters: int) -> None:
        super().__init__(form)
        self._limit_characters = limit_characters
        self._columns: list[str] | None = None
        self._open = OpenRecord()
        self._quotes = 0

    @property
    def opened(self) -> OpenRecord:
        """The row that has not ended."""
        return self._open

    def parse(self, text: str, place: Place | None) -> Iterable[Record | Outcome | None]:
        """Return the row that ends with a line, by column."""
        self._open.add(text, place)
        self._quotes += text.count('"')
        if self._quotes % 2 and self._open.size <= self._limit_characters:
            return ()
        whole, self._open, self._quotes = "\n".join(self._open.texts), OpenRecord(), 0
        row = _row(whole)
        if self._columns is None:
            self._columns, self.header_place = row, place
            return (None,)
        if len(row) != len(self._columns):
            raise BrokenLineError("not as many fields as columns")
        return (dict(zip(self._columns, row, strict=True)),)


def parser_named(name: str, log: AccessLogConfig, limit_characters: int) -> Parser | None:
    """Return the parser of a format, None for ``auto``."""
    if name == "auto":
        return None
    if name == "regex":
        return _parser(pattern_format(name, re.compile(log.pattern or "")), log, limit_characters)
    return _parser(FORMATS[name], log, limit_characters)


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
        return CsvParser(form, limit_characters)
    return Parser(form)


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
